//! What the mount tells the kernel without being asked: to forget a name, or to drop pages.
//!
//! Each of these may wait in the kernel for a request of this mount. A thread of its own sends it, which does not keep the kernel from ending that request when the mount's process is killed: see [`fuse_device`].

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use causeway_sys::fuse_device;
use causeway_wire::fs::ObjectId;

/// `FUSE_NOTIFY_INVAL_INODE` and `FUSE_NOTIFY_INVAL_ENTRY` of the kernel's `linux/fuse.h`.
const DROP_PAGES: u32 = 2;
const FORGET_NAME: u32 = 3;
/// Length in bytes of the header: length, kind, and a number that is 0 as no request is replied to.
const HEADER: usize = 16;

/// Sends to the kernel. Errors are those of a mount that is at its end, or of what the kernel does not have: nothing is left to be done then.
#[derive(Debug)]
pub(crate) struct Notices {
    device: File,
}

impl Notices {
    /// Sends by the device of a mount. Threads that serve requests, or that others wait for, must send nothing that waits.
    pub(crate) fn by(device: OwnedFd) -> Self {
        Self {
            device: File::from(device),
        }
    }

    /// Starts a thread that sends by a device of its own. `run` must neither use nor drop what owns another descriptor: all others are closed for this thread.
    pub(crate) fn start_thread(&self, run: impl FnOnce(&Self) + Send + 'static) -> io::Result<()> {
        fuse_device::spawn_alone("forgets", self.device.as_fd(), |device| {
            run(&Self::by(device));
        })
    }

    /// The kernel drops the pages that have these bytes of a file, once requests to read and write them are done.
    pub(crate) fn drop_pages(&self, file: ObjectId, bytes: &Range<u64>) {
        let len = bytes.end.saturating_sub(bytes.start);
        // To the kernel, a length of 0 is all that follows.
        let [start, len] = [bytes.start, len].map(|number| i64::try_from(number).unwrap_or(0));
        self.drop_from(file, start, len);
    }

    /// The kernel forgets an object's attributes. That waits for nothing: no lock of the object is taken, as none of its content is forgotten.
    pub(crate) fn forget_attributes(&self, object: ObjectId) {
        self.drop_from(object, -1, 0);
    }

    fn drop_from(&self, file: ObjectId, start: i64, len: i64) {
        let [start, len] = [start, len].map(i64::to_ne_bytes);
        self.send(DROP_PAGES, &[&file.0.to_ne_bytes(), &start, &len]);
    }

    /// The kernel forgets a name, once no other thread has the lock of its directory.
    pub(crate) fn forget_name(&self, directory: ObjectId, name: &[u8]) {
        let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let parts = [
            &directory.0.to_ne_bytes()[..],
            &len.to_ne_bytes(),
            &[0; 4],
            name,
            &[0],
        ];
        self.send(FORGET_NAME, &parts);
    }

    fn send(&self, kind: u32, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len()).sum::<usize>() + HEADER;
        let Ok(len) = u32::try_from(len) else {
            return;
        };
        let mut message = [len.to_ne_bytes(), kind.to_ne_bytes(), [0; 4], [0; 4]].concat();
        parts
            .iter()
            .for_each(|part| message.extend_from_slice(part));
        // The kernel takes a message whole, or not at all.
        let _ = (&self.device).write(&message);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// What is sent to the kernel, after the length.
    fn sent(send: impl FnOnce(&Notices)) -> Vec<u8> {
        let (mut kernel, device) = std::io::pipe().expect("a pipe");
        send(&Notices::by(OwnedFd::from(device)));
        let mut message = Vec::new();
        kernel.read_to_end(&mut message).expect("a message");
        let len = message.len() as u32;
        assert_eq!(message[..4], len.to_ne_bytes());
        message.split_off(4)
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn messages_are_as_the_kernel_reads_them() {
        let inode = |words_of: &[u64]| [&[2, 0, 0, 0][..], &[0; 8], &words(words_of)].concat();
        let file = ObjectId(7);
        let all = |range: Range<u64>| sent(|notices| notices.drop_pages(file, &range));
        assert_eq!(all(4096..8192), inode(&[7, 4096, 4096]));
        assert_eq!(all(10..u64::MAX), inode(&[7, 10, 0]));
        let attributes = sent(|notices| notices.forget_attributes(file));
        assert_eq!(attributes, inode(&[7, u64::MAX, 0]));
        let name = sent(|notices| notices.forget_name(file, b"name"));
        let parts = [&[3, 0, 0, 0][..], &[0; 8], &words(&[7, 4]), b"name\0"];
        assert_eq!(name, parts.concat());
    }
}
