//! Limits of the process: open files, memory.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files the process may have open; `None` is no limit.
pub fn open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The resource that has run out, if an error reports that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The process has as many open files as it may have.
    OfDescriptors,
    /// The whole machine has as many open files as it may have.
    OfDescriptorsEverywhere,
    /// The kernel has no memory for it.
    OfMemory,
}

impl Shortage {
    /// The resource that an error of the operating system reports to have run out.
    pub fn of(error: &io::Error) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::OfDescriptors),
            Errno::NFILE => Some(Self::OfDescriptorsEverywhere),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::OfMemory),
            _ => None,
        }
    }

    /// Whether a descriptor could not be made.
    pub fn is_of_descriptors(self) -> bool {
        self != Self::OfMemory
    }
}

/// A spare descriptor that is given up for a moment when no other is left, to accept a connection and send the
/// reason for its end. Left in the queue, the connection would wait in vain and keep the listening socket readable
/// for ever.
#[derive(Debug)]
pub struct Reserve(Option<OwnedFd>);

impl Reserve {
    /// A descriptor, if there is one.
    pub fn new() -> Self {
        let file = rustix::fs::open("/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        Self(file.ok())
    }

    /// Calls `act`, which may make a descriptor, and closes it before it returns.
    pub fn spend<R>(&mut self, act: impl FnOnce() -> R) -> R {
        self.0 = None;
        let result = act();
        *self = Self::new();
        result
    }
}

impl Default for Reserve {
    fn default() -> Self {
        Self::new()
    }
}

/// As many bytes any machine has that runs this. For less the system is not asked: that takes 0.3 µs, more where several processes ask at once, since
/// it counts the pages of all block devices under one lock.
const SURELY_THERE: usize = 1 << 20;

/// Refuses to allocate more than this machine's memory and swap space together, which the kernel may grant
/// nevertheless.
pub fn check_memory(len: usize) -> io::Result<()> {
    if len <= SURELY_THERE {
        return Ok(());
    }
    let info = rustix::system::sysinfo();
    let unit = u64::from(info.mem_unit).max(1);
    let all = (info.totalram as u64)
        .saturating_add(info.totalswap as u64)
        .saturating_mul(unit);
    if len as u64 > all {
        let text = format!("{len} bytes, where this machine has memory for {all}");
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
    }
    Ok(())
}

/// Raises the soft limit of open files to the hard one and returns it; `None` is no limit. It holds for the whole process and
/// the children it starts: only a program's `main` may choose that, never a library.
pub fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // Raising to the hard limit is always allowed; if a sandbox refuses it, the old limit holds
        // and running out is reported where it happens.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_is_is_refused() {
        assert!(check_memory(SURELY_THERE).is_ok());
        assert!(check_memory(SURELY_THERE + 1).is_ok());
        for len in [1 << 46, isize::MAX as usize, usize::MAX] {
            let error = check_memory(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
            assert!(error.to_string().contains(&len.to_string()), "{error}");
        }
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        let raised = super::raise_open_files();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert_eq!(raised, limit.maximum);
    }
}
