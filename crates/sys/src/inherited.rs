//! Descriptors that a process was started with.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::io::fcntl_dupfd_cloexec;

/// A copy of the descriptor with this number, which a parent has left open; not passed on to programs that this
/// process starts. An error if there is none.
pub fn descriptor(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is used for this one call, in which the kernel checks it; of no value other than −1 does the type
    // promise anything else.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    Ok(fcntl_dupfd_cloexec(inherited, 3)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn open_descriptors_are_copied_and_others_refused() {
        let file = std::fs::File::open("/dev/null").expect("the device exists");
        let copy = descriptor(file.as_raw_fd()).expect("it is open");
        assert_ne!(copy.as_raw_fd(), file.as_raw_fd());
        assert!(descriptor(-1).is_err());
        assert!(descriptor(1 << 20).is_err());
    }
}
