//! One descriptor that becomes readable when any of many does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;

/// What a descriptor in the set is ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The number that the descriptor was added under.
    pub key: u64,
    /// Something can be read or accepted.
    pub readable: bool,
    /// The other end is gone.
    pub hung_up: bool,
}

/// A set of descriptors to wait for.
#[derive(Debug)]
pub struct Epoll {
    set: OwnedFd,
}

/// The most events that one call answers.
const EVENTS: usize = 64;

impl Epoll {
    /// An empty set.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(epoll::CreateFlags::CLOEXEC)?,
        })
    }

    /// Watches `descriptor` for reading, as long as it says so (level-triggered).
    pub fn add(&self, descriptor: impl AsFd, key: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(key);
        Ok(epoll::add(
            &self.set,
            descriptor,
            data,
            epoll::EventFlags::IN,
        )?)
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

    /// Takes `descriptor` out. Closing it does so too, but only once every copy is closed.
    pub fn remove(&self, descriptor: impl AsFd) {
        // It is in the set; anything else would be a bug that closing repairs.
        let _ = epoll::delete(&self.set, descriptor);
    }

    /// Appends what is ready now to `ready`, at most 64 at a time.
    pub fn check(&self, ready: &mut Vec<Ready>) -> io::Result<()> {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&self.set, &mut events, Some(&now)) {
            Ok((events, _)) => {
                ready.extend(events.iter().map(|event| {
                    let (flags, data) = (event.flags, event.data);
                    Ready {
                        key: data.u64(),
                        readable: flags.contains(epoll::EventFlags::IN),
                        hung_up: flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR),
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
