//! One descriptor that becomes readable when any of many does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};

/// What a descriptor in the set is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number that the descriptor was added under.
    pub key: u64,
    /// Something can be read or accepted.
    pub readable: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Epoll {
    set: OwnedFd,
}

/// Flags of descriptors that are reported once.
const ONCE: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::ONESHOT);

/// The most events that one call returns.
const EVENTS: usize = 64;

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Watches `descriptor` for reading: it is reported as long as it is readable
    /// (level-triggered).
    pub fn add(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::add(
            &self.set,
            descriptor,
            data,
            epoll::EventFlags::IN,
        )?)
    }

    /// Watches `descriptor` for reading as [`Epoll::add`] does, but reports it once only, until
    /// [`Epoll::rearm`].
    pub fn add_once(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::add(&self.set, descriptor, data, ONCE)?)
    }

    /// Makes a descriptor of [`Epoll::add_once`] be reported once more: at once if it is readable
    /// now.
    pub fn rearm(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::modify(&self.set, descriptor, data, ONCE)?)
    }

    /// Changes the number that `descriptor` is reported under.
    pub fn rename(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::modify(
            &self.set,
            descriptor,
            data,
            epoll::EventFlags::IN,
        )?)
    }

    /// Removes `descriptor`. Closing it does so too, but only once every copy is closed.
    pub fn remove(&self, descriptor: impl AsFd) {
        // It is in the set. If it were not, by a mistake in this crate, closing the set would
        // repair that.
        let _ = epoll::delete(&self.set, descriptor);
    }

    /// Appends the events that are ready now to `ready`, at most 64 at a time.
    pub fn check(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.collect(ready, Some(&now))
    }

    /// Sleeps until something is ready, and appends it as [`Epoll::check`] does. May return with nothing ready.
    pub fn wait(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        self.collect(ready, None)
    }

    fn collect(&self, ready: &mut Vec<Ready>, limit: Option<&Timespec>) -> io::Result<()> {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        match epoll::wait(&self.set, &mut events, limit) {
            Ok((events, _)) => {
                ready.extend(events.iter().map(|event| {
                    let (flags, data) = (event.flags, event.data);
                    Ready {
                        key: data.u64(),
                        readable: flags.contains(epoll::EventFlags::IN),
                    }
                }));
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
