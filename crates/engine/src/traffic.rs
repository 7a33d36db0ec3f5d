//! Counters on the path of a message, and lists of peers whose state has changed.
//!
//! Plain additions to a cache line that the path touches anyway: no clock, no atomic operation.
//! What can be derived (depths of queues, credit, states) is not counted but read by the observer
//! in [`crate::endpoint`], which visits only peers on the lists here: idle peers cost nothing,
//! however many they are.

use std::collections::VecDeque;

use causeway_wire::watch::Count;

use crate::operation::OpKind;

/// A peer's counters. Those on the path come first, side by side.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Traffic {
    /// In the list of peers whose state has changed.
    is_new: bool,
    /// In the list of peers with operations in flight.
    is_active: bool,
    /// Messages that travelled whole.
    pub(crate) sent: Count,
    pub(crate) received: Count,
    /// Messages that were moved by rendezvous.
    pub(crate) sent_large: Count,
    pub(crate) received_large: Count,
    /// Transfers of remote memory.
    pub(crate) moved: Count,
    /// The counts that the instance's totals already include.
    settled: Totals,
}

/// All messages and transfers, in either direction.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) received: Count,
    pub(crate) sent: Count,
}

/// The peers to observe.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Peers whose state has changed.
    new: Vec<u32>,
    /// Peers that had operations in flight at their last observation.
    active: VecDeque<u32>,
    /// What was sent to and received from all peers, including former ones.
    pub(crate) totals: Totals,
}

#[inline]
fn add(count: &mut Count, bytes: u64) {
    count.number += 1;
    count.bytes += bytes;
}

fn sum(counts: [Count; 3]) -> Count {
    Count {
        number: counts.iter().map(|count| count.number).sum(),
        bytes: counts.iter().map(|count| count.bytes).sum(),
    }
}

/// `all`, plus the difference between two readings of a counter.
fn grown(all: Count, before: Count, now: Count) -> Count {
    Count {
        number: all.number + now.number - before.number,
        bytes: all.bytes + now.bytes - before.bytes,
    }
}

impl Traffic {
    /// Notes that the state of this peer has changed.
    #[inline]
    pub(crate) fn touch(&mut self, peer: u32, touched: &mut Touched) {
        if !self.is_new {
            self.list(peer, touched);
        }
    }

    #[cold]
    #[inline(never)]
    fn list(&mut self, peer: u32, touched: &mut Touched) {
        self.is_new = true;
        touched.new.push(peer);
    }

    /// Counts a message that was sent whole.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize, peer: u32, touched: &mut Touched) {
        add(&mut self.sent, bytes as u64);
        self.touch(peer, touched);
    }

    /// Counts a message that was received whole.
    #[inline]
    pub(crate) fn received(&mut self, bytes: usize, peer: u32, touched: &mut Touched) {
        add(&mut self.received, bytes as u64);
        self.touch(peer, touched);
    }

    /// Counts a message or a transfer of remote memory that was moved.
    pub(crate) fn finished(&mut self, kind: OpKind, bytes: u64) {
        let count = match kind {
            OpKind::Send | OpKind::SendUnexpected => &mut self.sent_large,
            OpKind::Receive | OpKind::Fetch => &mut self.received_large,
            OpKind::Transfer => &mut self.moved,
        };
        add(count, bytes);
    }

    /// The totals of this peer.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            received: sum([self.received, self.received_large, Count::default()]),
            sent: sum([self.sent, self.sent_large, self.moved]),
        }
    }

    /// A number that changes whenever something was counted.
    pub(crate) fn total(&self) -> u64 {
        let Totals { received, sent } = self.totals();
        received.number + sent.number
    }

    /// A number that changes whenever a message has come.
    pub(crate) fn received_messages(&self) -> u64 {
        self.received.number + self.received_large.number
    }

    /// `all`, plus what was counted since this peer's totals were added.
    pub(crate) fn added_to(&self, all: Totals) -> Totals {
        let (before, now) = (self.settled, self.totals());
        Totals {
            received: grown(all.received, before.received, now.received),
            sent: grown(all.sent, before.sent, now.sent),
        }
    }

    /// Adds new counts to the instance's totals. Returns whether there were any.
    pub(crate) fn settle(&mut self, touched: &mut Touched) -> bool {
        touched.totals = self.added_to(touched.totals);
        let now = self.totals();
        let before = std::mem::replace(&mut self.settled, now);
        now.received.number != before.received.number || now.sent.number != before.sent.number
    }

    /// Notes that the peer was taken from the list of changed peers.
    pub(crate) fn seen(&mut self) {
        self.is_new = false;
    }

    /// Notes whether the peer has operations in flight. Returns whether it had before.
    pub(crate) fn set_active(&mut self, active: bool) -> bool {
        std::mem::replace(&mut self.is_active, active)
    }
}

impl Touched {
    /// Whether the state of any peer has changed.
    pub(crate) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }

    /// Takes a peer whose state has changed.
    pub(crate) fn take_new(&mut self) -> Option<u32> {
        self.new.pop()
    }

    /// Takes the peer with operations in flight that was observed longest ago.
    pub(crate) fn take_active(&mut self) -> Option<u32> {
        self.active.pop_front()
    }

    /// Adds a peer with operations in flight.
    pub(crate) fn add_active(&mut self, peer: u32) {
        self.active.push_back(peer);
    }

    /// The number of peers with operations in flight.
    pub(crate) fn active(&self) -> usize {
        self.active.len()
    }
}
