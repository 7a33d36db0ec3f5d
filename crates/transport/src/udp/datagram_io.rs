//! What the method sends and receives with: sockets and random numbers, or what simulates them.

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
    /// How many of the front have left.
    left: usize,
}

impl Batch {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.list.len() - self.left
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all datagrams since the last time that none waited.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the datagram that `write` appends, if it says where it goes.
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

    /// Those that wait.
    pub fn iter(&self) -> impl Iterator<Item = (Remote, &[u8])> {
        let list = self.list.get(self.left..).unwrap_or_default();
        list.iter()
            .map(|(to, range)| (*to, self.bytes.get(range.clone()).unwrap_or_default()))
    }

    /// Forgets the first `count` that wait: they have left.
    pub fn advance(&mut self, count: usize) {
        self.left += count.min(self.len());
        if self.is_empty() {
            self.bytes.clear();
            self.list.clear();
            self.left = 0;
        }
    }
}

/// What has come from the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A datagram, in this part of [`Arrivals::room`].
    Datagram(Remote, Range<usize>),
    /// A datagram of ours, which begins as this part of [`Arrivals::room`], found no receiver there.
    Unreachable(Remote, Range<usize>),
    /// The same, but it was too large for the way.
    TooLarge(Remote, Range<usize>),
}

/// Room for what comes from the network.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Where datagrams are put.
    pub room: Vec<u8>,
    /// What has come, in order.
    pub list: Vec<Arrival>,
}

/// See the module's page.
pub trait DatagramIo: Environment + Send {
    /// All socket addresses of an address of this method, those that are to be tried first in front.
    fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, Error>;

    /// A socket bound to `address`: its number and the address that it got.
    fn bind(&mut self, address: SocketAddr) -> io::Result<(u32, SocketAddr)>;

    /// How many bytes the network keeps for a socket of ours that we do not look at.
    fn buffer_bytes(&self) -> usize;

    /// Sends from the front of `batch`, and advances it as far as it came.
    fn send(&mut self, batch: &mut Batch);

    /// Takes what has come, a bounded amount.
    fn receive(&mut self, arrivals: &mut Arrivals);

    /// Whether there is news of datagrams that were sent, which [`DatagramIo::receive`] tells. Asked before every sleep and
    /// now and then: what is not taken would end each sleep at once, and takes the room of what is to be received.
    fn has_reports(&mut self) -> bool {
        false
    }

    /// Whether it was made by this process, and not by one that this was forked from, whose sockets these are.
    fn is_of_this_process(&self) -> bool {
        true
    }

    /// Becomes readable when something comes.
    fn pollable(&self) -> BorrowedFd<'_>;

    /// Waits until something comes, at most so long, and returns how long that was; `None` if there is no waiting here.
    fn wait(&mut self, most: Duration) -> Option<Duration>;
}
