//! Unexpected messages, for which no receive is posted: kept in order until the caller takes them.
//! Large ones are fetched from their senders into bounded memory, round robin over the peers.

use causeway_sys::memory::Memory;
use causeway_transport::Packet;
use causeway_wire::bmi::{self as wire, Announcement, Header, Refusal};

use super::rendezvous::{drop_long_list, refusal};
use super::{Arrived, Conversation};
use crate::fragments::Fragments;
use crate::matcher::Matcher;
use crate::operation::{Incoming, State, What};
use crate::shared::{NO_QUEUE, Shared, Work};
use crate::types::{Addr, OpError, Tag, Unexpected};

impl Conversation {
    /// Adds an unexpected message. Most peers have one at a time, so room for one is allocated at
    /// first.
    fn keep_arrived(&mut self, message: Arrived) {
        if self.arrived.capacity() == 0 {
            self.arrived.reserve_exact(1);
        }
        self.arrived.push_back(message);
    }

    /// Whether the first unexpected message can be taken.
    fn first_is_ready(&self) -> bool {
        matches!(self.arrived.front(), Some(Arrived::Ready { .. }))
    }

    /// Handles a whole unexpected message.
    #[inline]
    pub(super) fn unexpected<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        tag: Tag,
        packet: Packet<'_>,
    ) {
        if !self.charge(shared, &packet) {
            return;
        }
        let data = packet.to_vec(wire::HEADER_BYTES);
        let fetched = false;
        self.keep_arrived(Arrived::Ready { tag, data, fetched });
        shared.unexpected_waiting += 1;
        shared.arrivals += 1;
        self.enter_ready_ring(shared);
    }

    /// Puts the peer into the ring if its first unexpected message can be taken; otherwise starts
    /// what makes it available.
    #[inline]
    pub(super) fn enter_ready_ring<M>(&mut self, shared: &mut Shared<M>) {
        match self.arrived.front() {
            Some(Arrived::Ready { .. }) if !self.in_ready_ring => {
                self.in_ready_ring = true;
                shared.ready.push_back(self.id);
            }
            Some(Arrived::Announced { .. }) if !self.in_fetch_ring => {
                self.enter_fetch_ring(shared);
                shared.work.push_back(Work::Fetch);
            }
            _ => {}
        }
    }

    /// Takes the first unexpected message. The caller has taken the peer from the ring.
    pub(crate) fn take_unexpected<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
    ) -> Option<Unexpected> {
        self.in_ready_ring = false;
        if !self.first_is_ready() {
            return None;
        }
        let Some(Arrived::Ready { tag, data, fetched }) = self.arrived.pop_front() else {
            return None;
        };
        self.refs += 1;
        shared.unexpected_waiting -= 1;
        self.enter_ready_ring(shared);
        if fetched {
            let record = wire::EARLY_RECORD_BYTES.into();
            shared.budget.release_pull((data.len() as u64).max(record));
            shared.work.push_back(Work::Fetch);
        } else {
            self.early_freed(shared, data.len());
        }
        let from = Addr(self.key);
        Some(Unexpected { from, tag, data })
    }

    /// Handles the announcement of a large unexpected message.
    pub(super) fn announced_unexpected<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        header: &Header,
        announcement: Announcement,
    ) {
        let room = shared.tuning.unexpected_limit as u64;
        if announcement.size > room {
            let packet = refusal(announcement.send, Refusal::TooLarge { room });
            return self.queue_control(shared, packet);
        }
        let tag = header.word;
        if self.announcements_unexpected >= wire::MAX_ANNOUNCED_UNEXPECTED {
            let reason = "it announces too many unexpected messages at once";
            return self.protocol_error(shared, reason);
        }
        self.announcements_unexpected += 1;
        let mut incoming = Incoming {
            from_busy_server: header.flags & wire::FLAG_BUSY_SERVER != 0,
            in_parts: false,
            announcement,
        };
        drop_long_list(&mut incoming);
        self.keep_arrived(Arrived::Announced { tag, incoming });
        shared.unexpected_waiting += 1;
        self.enter_fetch_ring(shared);
        shared.work.push_back(Work::Fetch);
    }

    /// Puts the peer into the ring of those whose unexpected messages are to be fetched.
    fn enter_fetch_ring<M>(&mut self, shared: &mut Shared<M>) {
        if !self.in_fetch_ring {
            self.in_fetch_ring = true;
            shared.fetch_ring.push_back(self.key);
        }
    }

    /// Starts to fetch the next message, if there is memory for it. Returns `false` if there is
    /// none: the peer then keeps its place in the ring.
    pub(crate) fn fetch_waiting<M: Matcher>(&mut self, shared: &mut Shared<M>) -> bool {
        let Some(more) = self.fetch_next(shared) else {
            return false;
        };
        self.in_fetch_ring = false;
        if more {
            self.enter_fetch_ring(shared);
        }
        true
    }

    /// Starts to fetch the next message. Returns whether there are more to fetch; `None` if there
    /// is no memory for it.
    fn fetch_next<M: Matcher>(&mut self, shared: &mut Shared<M>) -> Option<bool> {
        let mut waiting = self
            .arrived
            .iter()
            .enumerate()
            .filter_map(|(at, a)| match a {
                Arrived::Announced { tag, incoming } => {
                    Some((at, *tag, incoming.announcement.size))
                }
                _ => None,
            });
        let Some((at, tag, size)) = waiting.next() else {
            return Some(false);
        };
        let more = waiting.next().is_some();
        if at > 0 && shared.budget.is_pull_memory_short() {
            // Other peers need the memory for their next messages. This peer is tried again when
            // the message is its first.
            return Some(false);
        }
        let cost = size.max(wire::EARLY_RECORD_BYTES.into());
        if !shared.budget.reserve_pull(cost) {
            return None;
        }
        let Ok(memory) = Memory::try_zeroed(size as usize) else {
            shared.budget.release_pull(cost);
            self.decline(shared, at);
            return Some(more);
        };
        let memory = (Fragments::One(memory), size);
        let caller = (NO_QUEUE, 0);
        let op = self.add_op(shared, What::Fetch, caller, tag, memory, State::Queued);
        // From here on the sender may be notified and announce another one.
        self.announcements_unexpected = self.announcements_unexpected.saturating_sub(1);
        let entry = &mut self.arrived[at];
        if let Arrived::Announced { incoming, .. } =
            std::mem::replace(entry, Arrived::Fetching { op })
        {
            self.match_announced(shared, op, incoming);
        }
        Some(more)
    }

    /// Refuses an announced unexpected message for which there is no memory.
    fn decline<M: Matcher>(&mut self, shared: &mut Shared<M>, at: usize) {
        let Some(Arrived::Announced { incoming, .. }) = self.arrived.remove(at) else {
            return;
        };
        self.announcements_unexpected = self.announcements_unexpected.saturating_sub(1);
        shared.unexpected_waiting -= 1;
        let send = incoming.announcement.send;
        self.queue_control(shared, refusal(send, Refusal::Failed));
        self.enter_ready_ring(shared);
    }

    /// A large unexpected message has been fetched, or its fetch failed.
    pub(super) fn fetched<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
        op: u32,
        result: Result<u64, OpError>,
    ) {
        self.unlist(shared, op);
        let Some(entry) = shared.ops.remove(op) else {
            return;
        };
        let cost = entry.size.max(wire::EARLY_RECORD_BYTES.into());
        let at = self.arrived.iter().position(
            |arrived| matches!(arrived, Arrived::Fetching { op: fetching } if *fetching == op),
        );
        let Some(at) = at else { return };
        match (result, entry.fragments) {
            (Ok(_), Fragments::One(memory)) => {
                self.arrived[at] = Arrived::Ready {
                    tag: entry.tag,
                    data: memory.into_vec(),
                    fetched: true,
                };
            }
            _ => {
                self.arrived.remove(at);
                shared.unexpected_waiting -= 1;
                shared.budget.release_pull(cost);
                shared.work.push_back(Work::Fetch);
            }
        }
        shared.completions += 1;
        self.enter_ready_ring(shared);
    }

    /// Forgets an announced unexpected message that its sender has withdrawn.
    pub(super) fn withdrawn_unexpected<M>(&mut self, shared: &mut Shared<M>, send: u64) -> bool {
        let at = self.arrived.iter().position(|arrived| {
            matches!(arrived, Arrived::Announced { incoming, .. }
                if incoming.announcement.send == send)
        });
        let Some(at) = at else { return false };
        self.arrived.remove(at);
        self.announcements_unexpected = self.announcements_unexpected.saturating_sub(1);
        shared.unexpected_waiting -= 1;
        self.enter_ready_ring(shared);
        true
    }

    /// Forgets unexpected messages that are still at a sender whose connection is lost.
    pub(super) fn forget_announcements<M>(&mut self, shared: &mut Shared<M>) {
        let before = self.arrived.len();
        self.arrived
            .retain(|arrived| matches!(arrived, Arrived::Ready { .. }));
        shared.unexpected_waiting -= before - self.arrived.len();
        self.announcements = 0;
        self.announcements_unexpected = 0;
        self.enter_ready_ring(shared);
    }
}
