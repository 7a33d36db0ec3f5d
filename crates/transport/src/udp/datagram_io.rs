//! The I/O of the method: sockets and random numbers, or their simulation.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::Remote;
use super::core::Environment;
use crate::address::Address;
use crate::error::Error;

/// Datagrams on their way out, in order.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    list: Vec<(Remote, Range<usize>)>,
    /// How many at the front have been sent.
    left: usize,
}

impl Batch {
    /// How many are queued.
    pub fn len(&self) -> usize {
        self.list.len() - self.left
    }

    /// Whether none is queued.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all datagrams since the batch was last empty.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the datagram that `write` appends, if it returns a destination.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<Remote>) -> bool {
        let start = self.bytes.len();
        match write(&mut self.bytes) {
            Some(to) => {
                self.list.push((to, start..self.bytes.len()));
                true
            }
            None => false,
        }
    }

    /// The queued datagrams.
    pub fn iter(&self) -> impl Iterator<Item = (Remote, &[u8])> {
        let list = self.list.get(self.left..).unwrap_or_default();
        list.iter()
            .map(|(to, range)| (*to, self.bytes.get(range.clone()).unwrap_or_default()))
    }

    /// Removes the first `count` queued ones: they have been sent.
    pub fn advance(&mut self, count: usize) {
        self.left += count.min(self.len());
        if self.is_empty() {
            self.bytes.clear();
            self.list.clear();
            self.left = 0;
        }
    }
}

/// Something received from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram, in this range of [`Arrivals::room`].
    Datagram(Remote, Range<usize>),
    /// Our datagram, which begins with this range of [`Arrivals::room`], found no receiver there.
    Unreachable(Remote, Range<usize>),
    /// The same, but it was too large for the path.
    TooLarge(Remote, Range<usize>),
}

/// A buffer for what is received from the network.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// The bytes of datagrams.
    pub room: Vec<u8>,
    /// What was received, in order.
    pub list: Vec<Arrival>,
}

/// See the module's page.
pub trait DatagramIo: Environment + Send {
    /// All socket addresses of an address of this method, in the order in which to try them.
    fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, Error>;

    /// Binds a socket to `address`: returns its number and its actual address.
    fn bind(&mut self, address: SocketAddr) -> io::Result<(u32, SocketAddr)>;

    /// How many bytes the network buffers for a socket that is not polled.
    fn buffer_bytes(&self) -> usize;

    /// Sends from the front of `batch`, and advances it by what was sent.
    fn send(&mut self, batch: &mut Batch);

    /// Receives a bounded amount.
    fn receive(&mut self, arrivals: &mut Arrivals);

    /// Whether there are reports on datagrams that were sent, which [`DatagramIo::receive`]
    /// returns. Called before every sleep and now and then: reports that are not received would end
    /// each sleep at once, and take the buffer space of datagrams.
    fn has_reports(&mut self) -> bool {
        false
    }

    /// Whether the calling process made it, rather than inheriting it from a parent, whose sockets
    /// these are.
    fn is_of_this_process(&self) -> bool {
        true
    }

    /// Becomes readable when something arrives.
    fn pollable(&self) -> BorrowedFd<'_>;

    /// Waits until something arrives, at most for `most`, and returns how long that was; `None` if
    /// waiting is not supported.
    fn wait(&mut self, most: Duration) -> Option<Duration>;
}
