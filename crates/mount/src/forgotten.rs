//! Files whose cached pages the kernel has to drop.

use std::io;
use std::sync::mpsc::{Sender, channel};

use causeway_wire::fs::ObjectId;

/// A file whose cached pages the kernel has to drop, and the callback for when it has.
pub(crate) struct Forgotten {
    pub(crate) object: ObjectId,
    pub(crate) then: Box<dyn FnOnce() + Send>,
}

/// Starts the thread that has the kernel drop cached pages. That waits for reads in progress, for which the thread of the locks must not.
/// It ends with the mount.
pub(crate) fn forget_by(kernel: fuser::Notifier) -> io::Result<Sender<Forgotten>> {
    let (sender, forgotten) = channel::<Forgotten>();
    let forget = move || {
        for Forgotten { object, then } in forgotten {
            if let Err(error) = kernel.inval_inode(fuser::INodeNo(object.0), 0, 0) {
                // The kernel has no inode of the file.
                tracing::debug!(%error, "the kernel forgets nothing");
            }
            then();
        }
    };
    let thread = std::thread::Builder::new().name("forgets".to_owned());
    thread.spawn(forget)?;
    Ok(sender)
}
