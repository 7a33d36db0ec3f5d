//! Unexpected messages, for which no receive is posted: kept in order until the caller takes them.
//! Large ones are fetched from their senders into bounded memory, round robin over the peers.

use causeway_sys::memory::Memory;
use causeway_transport::Packet;
use causeway_wire::bmi::{self as wire, Announcement, Header, Refusal};

use super::Conversation;
use super::rendezvous::{drop_long_list, refusal};
use crate::arrivals::Ready;
use crate::credit::Reserved;
use crate::fetches::Fetch;
use crate::fragments::Fragments;
use crate::matcher::Matcher;
use crate::operation::{Incoming, OpKind, State};
use crate::shared::{NO_QUEUE, Shared};
use crate::types::{Addr, OpError, Tag, Unexpected};

impl Conversation {
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
        self.arrived.push(tag, data);
        shared.unexpected_waiting += 1;
        shared.arrivals += 1;
        self.enter_ready_ring(shared);
    }

    /// Puts the peer into the ring if its first unexpected message can be taken; otherwise starts
    /// what makes it available.
    #[inline]
    pub(super) fn enter_ready_ring<M>(&mut self, shared: &mut Shared<M>) {
        if self.arrived.is_first_ready() {
            if !self.in_ready_ring {
                self.in_ready_ring = true;
                shared.ready.push_back(self.id);
            }
        } else if self.arrived.is_first_announced() {
            self.enter_fetch_ring(shared);
        }
    }

    /// Takes the first unexpected message. The caller has taken the peer from the ring.
    pub(crate) fn take_unexpected<M: Matcher>(
        &mut self,
        shared: &mut Shared<M>,
    ) -> Option<Unexpected> {
        self.in_ready_ring = false;
        let Ready { tag, data, fetched } = self.arrived.take()?;
        self.refs += 1;
        shared.unexpected_waiting -= 1;
        self.enter_ready_ring(shared);
        if fetched {
            self.release_pull(shared, data.len() as u64);
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
        self.arrived.push_announced(tag, incoming);
        shared.unexpected_waiting += 1;
        self.enter_fetch_ring(shared);
    }

    /// Puts the peer into the ring of those whose unexpected messages are to be fetched, and has
    /// that tried.
    fn enter_fetch_ring<M>(&mut self, shared: &mut Shared<M>) {
        if !self.in_fetch_ring {
            self.in_fetch_ring = true;
            shared.fetches.ring.push_back(self.key);
        }
        shared.retry_fetches();
    }

    /// The connection is up again after this side did not need it: messages that were announced
    /// meanwhile are fetched.
    pub(super) fn resume_fetches<M>(&mut self, shared: &mut Shared<M>) {
        if self.arrived.announced() > 0 {
            self.enter_fetch_ring(shared);
        }
    }

    /// If this peer waits for room, and may do so no longer, those that are kept out for it are
    /// tried.
    pub(crate) fn may_wait_no_longer<M>(&self, shared: &mut Shared<M>) {
        if shared.fetches.waits == Some(self.key) {
            shared.retry_fetches();
        }
    }

    /// The peer has been taken out of that ring.
    pub(crate) fn leave_fetch_ring(&mut self) {
        self.in_fetch_ring = false;
    }

    /// Whether the peer is in that ring and has messages to be fetched.
    pub(crate) fn is_to_fetch(&self) -> bool {
        self.in_fetch_ring && self.is_up() && self.arrived.announced() > 0
    }

    /// Starts to fetch the next message, if there is memory for it. From a peer that is not up none
    /// is fetched: transfers with it do not start.
    pub(crate) fn fetch_next<M: Matcher>(&mut self, shared: &mut Shared<M>) -> Fetch {
        let Some(next) = self.arrived.next_announced().filter(|_| self.is_up()) else {
            return Fetch::Nothing;
        };
        if !self.may_transfer(shared) {
            return Fetch::NoTransfer;
        }
        let more = self.arrived.announced() > 1;
        let size = next.size;
        let cost = pull_cost(size);
        let reserved = (self.arrived).reserve(&mut shared.budget, cost, next.is_first);
        match reserved {
            Reserved::Yes => {}
            Reserved::HasShare => return Fetch::HasShare,
            Reserved::NoRoom => return Fetch::NoRoom,
        }
        let Ok(memory) = Memory::try_zeroed(size as usize) else {
            self.decline(shared, next.number);
            self.release_pull(shared, size);
            return Fetch::Begun { more };
        };
        let memory = (Fragments::One(memory), size);
        let caller = (NO_QUEUE, next.number);
        let op = self.add_op(
            shared,
            OpKind::Fetch,
            caller,
            next.tag,
            memory,
            State::Finishing,
        );
        // From here on the sender may be notified and announce another one.
        self.announcements_unexpected -= 1;
        let begun = shared.fetches.begun;
        shared.fetches.begun += 1;
        if let Some(incoming) = self.arrived.begin_fetch(op, begun) {
            self.match_announced(shared, op, incoming);
        }
        Fetch::Begun { more }
    }

    /// Releases the memory of a message of `size` bytes that is no longer fetched or held.
    fn release_pull<M>(&mut self, shared: &mut Shared<M>, size: u64) {
        let cost = pull_cost(size);
        self.arrived.release(&mut shared.budget, cost);
        shared.retry_fetches();
    }

    /// Refuses an announced unexpected message for which there is no memory.
    fn decline<M: Matcher>(&mut self, shared: &mut Shared<M>, number: u64) {
        let Some(send) = self.arrived.remove(number) else {
            return;
        };
        self.announcements_unexpected -= 1;
        shared.unexpected_waiting -= 1;
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
        let number = entry.user;
        match (result, entry.fragments) {
            (Ok(_), Fragments::One(memory)) => {
                self.arrived.fetched(number, memory.into_vec());
            }
            _ => {
                self.arrived.remove(number);
                shared.unexpected_waiting -= 1;
                self.release_pull(shared, entry.size);
            }
        }
        shared.completions += 1;
        self.enter_ready_ring(shared);
    }

    /// Forgets an announced unexpected message that its sender has withdrawn.
    pub(super) fn withdrawn_unexpected<M>(&mut self, shared: &mut Shared<M>, send: u64) {
        let Some(number) = self.arrived.find_announced(send) else {
            return;
        };
        self.arrived.remove(number);
        self.announcements_unexpected -= 1;
        shared.unexpected_waiting -= 1;
        self.enter_ready_ring(shared);
        self.may_wait_no_longer(shared);
    }

    /// Forgets unexpected messages that are still at a sender whose connection is lost.
    pub(super) fn forget_announcements<M>(&mut self, shared: &mut Shared<M>) {
        shared.unexpected_waiting -= self.arrived.keep_ready();
        self.announcements = 0;
        self.announcements_unexpected = 0;
        self.enter_ready_ring(shared);
        self.may_wait_no_longer(shared);
    }
}

/// The memory that a message of `size` bytes takes of the budget.
fn pull_cost(size: u64) -> u64 {
    size.max(wire::EARLY_RECORD_BYTES.into())
}
