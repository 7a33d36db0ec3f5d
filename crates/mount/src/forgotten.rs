//! What the kernel has read of files, and is to forget.

use std::io;
use std::sync::mpsc::{Sender, channel};

use causeway_wire::fs::ObjectId;

/// A file of which the kernel is to forget what it has read, and what is called then.
pub(crate) struct Forgotten {
    pub(crate) object: ObjectId,
    pub(crate) then: Box<dyn FnOnce() + Send>,
}

/// Starts the thread that has the kernel drop cached pages. That waits for reads in progress, which the thread of the locks must not.
/// It ends with the mount.
pub(crate) fn forget_by(kernel: fuser::Notifier) -> io::Result<Sender<Forgotten>> {
    let (sender, forgotten) = channel::<Forgotten>();
    let forget = move || {
        for Forgotten { object, then } in forgotten {
            if let Err(error) = kernel.inval_inode(fuser::INodeNo(object.0), 0, 0) {
                // It knows nothing of the file.
                tracing::debug!(%error, "the kernel forgets nothing");
            }
            then();
        }
    };
    let thread = std::thread::Builder::new().name("forgets".to_owned());
    thread.spawn(forget)?;
    Ok(sender)
}
