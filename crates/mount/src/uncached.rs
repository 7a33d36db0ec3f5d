//! Writes past the kernel's cache: a program that opens a file only to write has its bytes go from its own memory to the mount, in whole
//! requests, as the next opening drops what the kernel would keep of them.
//!
//! The kernel drops the pages of the part that is written before it sends the request. Programs that read the same file may have it read
//! some of them again before the bytes are at the servers: then it has old bytes, and if such a page is mapped and written to, it
//! would write them back over the new ones. So while anybody may read the file ([`OpenFiles`](crate::open_files::OpenFiles)), the kernel
//! drops these pages again here, until nothing has been read meanwhile; then the write is carried out, and reads wait for it.
//! Thus it leaves no old page behind, also if it fails or is carried out in part.
//!
//! Dropping a page has the kernel write back what programs have changed in it, and wait for what reads it: both are requests to this mount. So no
//! thread that serves requests waits for that, but threads of their own do, and they hold nothing that requests wait for.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_wire::fs::{Errno, ObjectId};
use fuser::{INodeNo, Notifier};

use crate::attributes::{Failed, Outcome};
use crate::operations::Mounted;

/// Threads that wait for the kernel.
const THREADS: usize = 4;
/// How often the kernel drops pages for one write at most. A program may read a page as soon as it is dropped, but that takes
/// longer than to see that it has not.
const MOST_ROUNDS: usize = 1000;

type Job = Box<dyn FnOnce(&Notifier) + Send>;

/// The threads that wait for the kernel. They end with the mount.
#[derive(Debug)]
pub(crate) struct Droppers {
    jobs: Sender<Job>,
}

impl Droppers {
    pub(crate) fn start(kernel: &Notifier) -> io::Result<Self> {
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..THREADS {
            let (kernel, queue) = (kernel.clone(), Arc::clone(&queue));
            let thread = std::thread::Builder::new().name("drops-pages".to_owned());
            thread.spawn(move || {
                while let Some(job) = next(&queue) {
                    job(&kernel);
                }
            })?;
        }
        Ok(Self { jobs })
    }
}

fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.recv().ok()
}

/// A write past the kernel's cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UncachedWrite {
    pub(crate) object: ObjectId,
    /// The first byte as the kernel has it.
    pub(crate) offset: u64,
    /// It goes to the end of the file, wherever that is.
    pub(crate) appends: bool,
    /// It clears the set-user-ID and set-group-ID bits.
    pub(crate) drop_privileges: bool,
}

impl UncachedWrite {
    /// The part of the file of which the kernel drops pages: offset and length, 0 for all that follows.
    fn part(&self, len: usize) -> (i64, i64) {
        let offset = i64::try_from(self.offset).unwrap_or(i64::MAX);
        match self.appends {
            true => (offset, 0),
            false => (offset, i64::try_from(len).unwrap_or(0)),
        }
    }
}

impl Mounted {
    /// Carries out a write past the kernel's cache and replies: at once if nobody may read the file, and otherwise in another thread.
    pub(crate) fn write_uncached(
        self: &Arc<Self>,
        write: UncachedWrite,
        data: &[u8],
        reply: impl FnOnce(Outcome) + Send + 'static,
    ) {
        let shared = self.files.get(write.object).unwrap_or_default();
        let order = shared.begin_uncached();
        if !shared.has_readers() {
            let written = self.write_at_once(write, data);
            drop(order);
            return reply(written);
        }
        drop(order);
        let Some(droppers) = self.droppers.get() else {
            return reply(Err(Failed(Errno::EIO)));
        };
        let (mounted, data) = (Arc::clone(self), data.to_vec());
        let job = move |kernel: &Notifier| {
            let inode = INodeNo(write.object.0);
            let (offset, len) = write.part(data.len());
            let drop_pages = || {
                if let Err(error) = kernel.inval_inode(inode, offset, len) {
                    // The kernel has no inode of the file.
                    tracing::debug!(%error, "the kernel drops nothing");
                }
            };
            let mut rounds = 0;
            let order = loop {
                let reads = shared.reads();
                drop_pages();
                let order = shared.begin_uncached();
                rounds += 1;
                if shared.reads() == reads || rounds == MOST_ROUNDS {
                    break order;
                }
            };
            let written = mounted.write_at_once(write, &data);
            drop(order);
            reply(written);
        };
        // The threads end after the last request.
        let _ = droppers.jobs.send(Box::new(job));
    }

    fn write_at_once(&self, write: UncachedWrite, data: &[u8]) -> Outcome {
        let offset = (!write.appends).then_some(write.offset);
        self.write(write.object, offset, data, write.drop_privileges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_may_change_all_that_follows() {
        let write = UncachedWrite {
            object: ObjectId(3),
            offset: 5000,
            appends: false,
            drop_privileges: false,
        };
        assert_eq!(write.part(10), (5000, 10));
        let append = UncachedWrite {
            appends: true,
            ..write
        };
        assert_eq!(append.part(10), (5000, 0));
    }
}
