//! Messages that stay with their sender until a receive has been found (Yu et al. §4.2, §5).
//!
//! ```text
//! pull:  sender ──Announce──► receiver         the receiver reads the sender's memory;
//!        sender ◄──Read────── receiver         `Read` travels with the transfer
//!
//! push:  sender ──Announce──► receiver         the receiver opens its memory;
//!        sender ◄─ClearToSend─ receiver        the sender writes it;
//!        sender ──Written───► receiver         `Written` travels with the transfer
//! ```
//! A list of fragments that does not fit into a packet is moved in parts, by push, each with its own
//! `ClearToSend`; the operations still complete once.

use causeway_sys::memory::Memory;
use causeway_transport::{Access, TransferError};
use causeway_wire::bmi::{self as wire, Announcement, Clearance, Header, Kind, Refusal};
use causeway_wire::region::RegionDescriptor;

use crate::core::{Core, NOBODY, Task};
use crate::eager::is_unexpected;
use crate::fragments::{Cursor, Fragments, sum};
use crate::methods::Methods;
use crate::op::{Incoming, State, What};
use crate::peer::{Arrived, EarlyBody};
use crate::types::{OpError, RendezvousPolicy, Tag};

/// A server with so many transfers in progress or waiting is under load (Yu et al. §5.1).
const HEAVY_LOAD: usize = 4;

/// Regions of an announcement that are kept while no receive has been found for it. Longer lists are
/// dropped, so that what a peer announces takes little memory here; such a message is pushed.
const KEPT_REGIONS: usize = 8;

/// Makes an announcement small enough to be kept.
fn slim(incoming: &mut Incoming) {
    let regions = &mut incoming.announcement.regions;
    if regions.len() > KEPT_REGIONS {
        *regions = Vec::new();
    }
}

/// How many fragments surely fit into a packet.
fn fragments_per_packet(max_packet: usize) -> usize {
    max_packet.saturating_sub(wire::HEADER_BYTES + wire::BODY_FIXED_BYTES) / wire::MAX_REGION_BYTES
}

fn refusal(op: u64, refusal: Refusal) -> Vec<u8> {
    wire::encode_refusal(Header::new(Kind::Refuse, op), refusal)
}

impl Core {
    /// Transfers in progress or waiting.
    pub(crate) fn load(&self) -> usize {
        self.transfers.active + self.transfers.waiting.len()
    }

    fn is_busy_server(&self) -> bool {
        self.tuning.server && self.load() >= HEAVY_LOAD
    }

    /// Likewise, but what is in progress with `peer` itself does not count. Who waits has another one in progress
    /// with the same peer.
    fn is_busy_with_others(&self, peer: u32) -> bool {
        let own = self.peers[peer].transfers as usize;
        self.tuning.server && self.transfers.active.saturating_sub(own) >= HEAVY_LOAD
    }

    /// Announces a send that was just taken from the queue. `starved`: only for lack of credit.
    pub(crate) fn announce(&mut self, methods: &mut Methods, op: u32, starved: bool) {
        let peer = self.ops[op].peer;
        let unexpected = is_unexpected(self.ops[op].what);
        let (size, tag) = (self.ops[op].size, self.ops[op].tag);
        let parts = {
            let most = fragments_per_packet(self.peers[peer].max_packet);
            let list = self.ops[op].fragments.as_slice();
            let parts = Cursor::default().take(list, size, most);
            // Too long a list: only we can move it.
            if sum(&parts) == size {
                parts
            } else {
                Vec::new()
            }
        };
        let regions = if self.tuning.policy == RendezvousPolicy::Push {
            Vec::new()
        } else {
            // Without exports only we can move the message.
            self.export_parts(methods, op, &parts, Access::Read)
                .unwrap_or_default()
        };
        let kind = if unexpected {
            Kind::AnnounceUnexpected
        } else {
            Kind::Announce
        };
        let mut header = Header::new(kind, tag);
        if self.is_busy_server() {
            header.flags |= wire::FLAG_BUSY_SERVER;
        }
        if starved {
            header.flags |= wire::FLAG_STARVED;
        }
        let body = Announcement {
            send: self.ops.key(op),
            size,
            load: u32::try_from(self.load()).unwrap_or(u32::MAX),
            regions,
        };
        let entry = &mut self.ops[op];
        entry.state = State::Announced;
        entry.announced = true;
        *self.peers[peer].announced(unexpected) += 1;
        self.queue_control(peer, wire::encode_announcement(header, &body));
    }

    /// Exports memory of an operation to its peer: all of it or nothing.
    fn export_parts(
        &mut self,
        methods: &mut Methods,
        op: u32,
        parts: &[Memory],
        access: Access,
    ) -> Result<Vec<RegionDescriptor>, causeway_transport::Error> {
        let Some((method, handle)) = self.peers[self.ops[op].peer].link else {
            return Err(causeway_transport::Error::NoPeer);
        };
        let mut regions = Vec::with_capacity(parts.len());
        for part in parts {
            match methods.get(method).export(handle, part, access) {
                Ok(region) => {
                    self.ops[op].exports.push(region.key);
                    regions.push(region);
                }
                Err(error) => {
                    self.end_exports(methods, op);
                    return Err(error);
                }
            }
        }
        Ok(regions)
    }

    /// An expected message is announced.
    pub(crate) fn announced(&mut self, peer: u32, header: &Header, announcement: Announcement) {
        let mut incoming = Box::new(Incoming {
            from_busy_server: header.flags & wire::FLAG_BUSY_SERVER != 0,
            announcement,
        });
        if let Some(op) = self.match_receive(peer, header.word) {
            return self.match_announced(op, incoming);
        }
        let entry = &mut self.peers[peer];
        if entry.announcements >= wire::MAX_ANNOUNCED {
            return self.condemn(peer, "it announces too many messages at once");
        }
        entry.announcements += 1;
        slim(&mut incoming);
        self.add_early(peer, header.word, EarlyBody::Announced(incoming));
    }

    /// Joins a receive with its message, which is still with the sender.
    pub(crate) fn match_announced(&mut self, op: u32, incoming: Box<Incoming>) {
        let (peer, room) = (self.ops[op].peer, self.ops[op].size);
        let Announcement { send, size, .. } = incoming.announcement;
        if size > room {
            self.queue_control(peer, refusal(send, Refusal::TooLarge { room }));
            return self.complete(op, Err(OpError::TooLarge { size, room }));
        }
        if size == 0 {
            self.queue_bare(peer, Kind::Read, send);
            return self.complete(op, Ok(0));
        }
        self.ops[op].state = State::Matched(incoming);
        let key = self.ops.key(op);
        self.tasks.push_back(Task::Receive(key));
    }

    /// Who copies? Yu et al., figure 6: never a server under load, if the other side is not one too;
    /// else the side with less to do. When both have as much to do the receiver pulls, which saves a
    /// message. So it does where both copy in any case, unless it is a server that has others to serve.
    fn should_pull(&self, methods: &Methods, peer: u32, incoming: &Incoming) -> bool {
        if incoming.announcement.regions.is_empty() {
            return false;
        }
        match self.tuning.policy {
            RendezvousPolicy::Pull => true,
            RendezvousPolicy::Push => false,
            RendezvousPolicy::Adaptive => {
                let shared = self.shares_copies(methods, peer);
                let busy = if shared {
                    self.is_busy_with_others(peer)
                } else {
                    self.is_busy_server()
                };
                match (incoming.from_busy_server, busy) {
                    (true, false) => true,
                    (false, true) => false,
                    _ => shared || self.load() as u64 <= u64::from(incoming.announcement.load),
                }
            }
        }
    }

    fn shares_copies(&self, methods: &Methods, peer: u32) -> bool {
        let link = self.peers[peer].link;
        link.is_some_and(|(method, _)| methods.slots[method].method.shares_copies())
    }

    /// Starts to move a matched message.
    pub(crate) fn receive(&mut self, methods: &mut Methods, op: u32) {
        let entry = &self.ops[op];
        let State::Matched(incoming) = &entry.state else {
            return;
        };
        if self.should_pull(methods, entry.peer, incoming) {
            self.start_transfer(methods, op);
        } else {
            self.clear(methods, op);
        }
    }

    /// Opens the next part of a receive's memory to the sender.
    pub(crate) fn clear(&mut self, methods: &mut Methods, op: u32) {
        let entry = &mut self.ops[op];
        let incoming = match std::mem::replace(&mut entry.state, State::Finishing) {
            State::Matched(incoming) | State::Cleared { incoming, .. } => incoming,
            other => {
                entry.state = other;
                return;
            }
        };
        let (peer, offset) = (entry.peer, entry.moved);
        let Announcement { send, size, .. } = incoming.announcement;
        let most = fragments_per_packet(self.peers[peer].max_packet);
        let list = entry.fragments.as_slice();
        let parts = entry.cursor.take(list, size - offset, most);
        let len = sum(&parts);
        let regions = match self.export_parts(methods, op, &parts, Access::Write) {
            Ok(regions) => regions,
            Err(error) => return self.cannot_clear(methods, op, incoming, &error),
        };
        let clearance = Clearance {
            receive: self.ops.key(op),
            offset,
            len,
            regions,
        };
        let end = offset + len;
        self.ops[op].state = State::Cleared { incoming, end };
        let header = Header::new(Kind::ClearToSend, send);
        self.queue_control(peer, wire::encode_clearance(header, &clearance));
    }

    /// The method does not export our memory: pull if that is still possible.
    fn cannot_clear(
        &mut self,
        methods: &mut Methods,
        op: u32,
        incoming: Box<Incoming>,
        error: &causeway_transport::Error,
    ) {
        if self.ops[op].moved == 0 && !incoming.announcement.regions.is_empty() {
            self.ops[op].cursor = Cursor::default();
            self.ops[op].state = State::Matched(incoming);
            return self.start_transfer(methods, op);
        }
        let peer = self.ops[op].peer;
        let send = incoming.announcement.send;
        self.queue_control(peer, refusal(send, Refusal::Failed));
        let error = TransferError::Copy(error.to_string());
        self.finish(op, Err(error.into()));
    }

    /// The operation of ours that the peer names, if it still exists. One that is the business of
    /// another peer is nonsense.
    fn named(&mut self, peer: u32, key: u64) -> Option<u32> {
        let op = self.ops.find(key)?;
        if self.ops[op].peer != peer {
            self.condemn(peer, "it names an operation of another peer");
            return None;
        }
        Some(op)
    }

    /// One of our announcements does not lie unmatched at the peer any more.
    pub(crate) fn unannounce(&mut self, op: u32) {
        if std::mem::take(&mut self.ops[op].announced) {
            let (peer, what) = (self.ops[op].peer, self.ops[op].what);
            let entry = &mut self.peers[peer];
            let count = entry.announced(is_unexpected(what));
            *count = count.saturating_sub(1);
            if !entry.expected.is_empty() || !entry.unexpected.is_empty() {
                self.mark_dirty(peer);
            }
        }
    }

    /// The receiver has opened its memory for a send of ours.
    pub(crate) fn cleared(&mut self, peer: u32, send: u64, clearance: Clearance) {
        let Some(op) = self.named(peer, send) else {
            return;
        };
        let entry = &mut self.ops[op];
        if !matches!(entry.state, State::Announced) {
            // A cancelled send that is being cleaned up.
            return;
        }
        let Clearance { offset, len, .. } = clearance;
        if offset != entry.moved || len == 0 || len > entry.size - offset {
            return self.condemn(peer, "it clears a part that is not the next one");
        }
        entry.state = State::ToPush(Box::new(clearance));
        self.unannounce(op);
        self.transfers.waiting.push_back(send);
        self.queue_kick();
    }

    /// The sender has written what we cleared.
    pub(crate) fn written(&mut self, peer: u32, receive: u64) {
        let Some(op) = self.named(peer, receive) else {
            return;
        };
        let entry = &mut self.ops[op];
        let State::Cleared { incoming, end } = &entry.state else {
            return;
        };
        let (size, end) = (incoming.announcement.size, *end);
        entry.moved = end;
        if end == size {
            return self.finish(op, Ok(size));
        }
        let key = self.ops.key(op);
        self.tasks.push_back(Task::Clear(key));
    }

    /// The receiver has read a send of ours.
    pub(crate) fn read(&mut self, peer: u32, send: u64) {
        let Some(op) = self.named(peer, send) else {
            return;
        };
        if matches!(self.ops[op].state, State::Announced) {
            self.unannounce(op);
            let size = self.ops[op].size;
            self.finish(op, Ok(size));
        }
    }

    /// The other side cannot complete what we have in common.
    pub(crate) fn refused(&mut self, peer: u32, key: u64, refusal: Refusal) {
        let Some(op) = self.named(peer, key) else {
            return;
        };
        let entry = &mut self.ops[op];
        let error = match refusal {
            Refusal::TooLarge { room } => OpError::TooLarge {
                size: entry.size,
                room,
            },
            Refusal::Failed => {
                TransferError::Copy("the peer could not move the bytes".into()).into()
            }
            Refusal::Cancelled => OpError::Withdrawn,
        };
        match entry.state {
            State::Announced | State::ToPush(_) => {
                self.unannounce(op);
                self.finish(op, Err(error));
            }
            State::Cleared { .. } => self.finish(op, Err(error)),
            // What is under way fails by itself or is complete already.
            State::Pushing { .. } => entry.withdrawn = refusal == Refusal::Cancelled,
            _ => {}
        }
    }

    /// The sender has cancelled an announced message.
    pub(crate) fn withdrawn(&mut self, peer: u32, send: u64) {
        let list = self.peers[peer].early;
        for index in list.to_vec(&mut self.early) {
            if let EarlyBody::Announced(incoming) = &self.early[index].body
                && incoming.announcement.send == send
            {
                self.early_table.remove(&mut self.early, index);
                self.take_early(index);
                return;
            }
        }
        if self.withdrawn_unexpected(peer, send) {
            return;
        }
        let list = self.peers[peer].ops;
        for op in list.to_vec(&mut self.ops) {
            match &self.ops[op].state {
                State::Matched(incoming) | State::Cleared { incoming, .. }
                    if incoming.announcement.send == send =>
                {
                    let key = self.ops.key(op);
                    self.tasks.push_back(Task::Repost(key));
                    return;
                }
                State::Pulling(incoming) if incoming.announcement.send == send => {
                    self.ops[op].withdrawn = true;
                    return;
                }
                _ => {}
            }
        }
    }

    /// Matches a receive again whose message was withdrawn, before all later ones.
    pub(crate) fn repost(&mut self, methods: &mut Methods, op: u32) {
        match self.ops[op].state {
            State::Matched(_) | State::Pulling(_) | State::Cleared { .. } => {}
            _ => return,
        }
        self.end_exports(methods, op);
        let entry = &mut self.ops[op];
        entry.moved = 0;
        entry.cursor = Cursor::default();
        entry.withdrawn = false;
        let (peer, tag) = (entry.peer, entry.tag);
        if entry.what == What::Fetch {
            return self.complete(op, Err(OpError::Withdrawn));
        }
        let early = self.early_table.pop(&mut self.early, peer, tag);
        match early.and_then(|index| self.take_early(index)) {
            Some(EarlyBody::Whole(data)) => {
                let entry = &self.ops[op];
                let result = Self::deliver(&data, entry.fragments.as_slice(), entry.size);
                self.complete(op, result);
            }
            Some(EarlyBody::Announced(incoming)) => self.match_announced(op, incoming),
            None => {
                self.ops[op].state = State::Posted;
                self.file_first(op);
            }
        }
    }

    /// Gives a message that was matched, but not touched, back to whoever receives next.
    pub(crate) fn unmatch(&mut self, peer: u32, tag: Tag, mut incoming: Box<Incoming>) {
        if let Some(op) = self.match_receive(peer, tag) {
            return self.match_announced(op, incoming);
        }
        self.peers[peer].announcements += 1;
        slim(&mut incoming);
        self.add_early(peer, tag, EarlyBody::Announced(incoming));
        // It came before all that wait now.
        let list = self.peers[peer].early;
        if let Some(last) = list.to_vec(&mut self.early).last().copied() {
            self.early_table.remove(&mut self.early, last);
            self.early_table.push_front(&mut self.early, last);
        }
    }

    /// A large unexpected message is announced: it is fetched into bounded memory.
    pub(crate) fn announced_unexpected(
        &mut self,
        peer: u32,
        header: &Header,
        announcement: Announcement,
    ) {
        let room = self.tuning.unexpected_limit as u64;
        if announcement.size > room {
            let packet = refusal(announcement.send, Refusal::TooLarge { room });
            return self.queue_control(peer, packet);
        }
        let tag = header.word;
        let entry = &mut self.peers[peer];
        if entry.announcements_unexpected >= wire::MAX_ANNOUNCED_UNEXPECTED {
            return self.condemn(peer, "it announces too many unexpected messages at once");
        }
        entry.announcements_unexpected += 1;
        let mut incoming = Box::new(Incoming {
            from_busy_server: header.flags & wire::FLAG_BUSY_SERVER != 0,
            announcement,
        });
        slim(&mut incoming);
        entry
            .arrived
            .push_back(Arrived::Announced { tag, incoming });
        self.unexpected_waiting += 1;
        self.queue_fetch(peer);
        self.tasks.push_back(Task::Fetch);
    }

    /// Puts a peer into the ring of those whose unexpected messages are to be fetched.
    pub(crate) fn queue_fetch(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        if !entry.in_fetch_ring {
            entry.in_fetch_ring = true;
            let key = self.peers.key(peer);
            self.fetch_ring.push_back(key);
        }
    }

    /// Starts to fetch large unexpected messages, from each peer in turn, as far as there is memory.
    pub(crate) fn fetch_in_turn(&mut self) {
        while let Some(&key) = self.fetch_ring.front() {
            let Some(peer) = self.peers.find(key) else {
                self.fetch_ring.pop_front();
                continue;
            };
            match self.fetch_next(peer) {
                None => return,
                Some(more) => {
                    self.fetch_ring.pop_front();
                    self.peers[peer].in_fetch_ring = false;
                    if more {
                        self.queue_fetch(peer);
                    }
                }
            }
        }
    }

    /// Starts to fetch a peer's next message; answers whether there are more to fetch, or nothing if
    /// there is no memory for it.
    fn fetch_next(&mut self, peer: u32) -> Option<bool> {
        let arrived = &self.peers[peer].arrived;
        let mut waiting = arrived.iter().enumerate().filter_map(|(at, a)| match a {
            Arrived::Announced { tag, incoming } => Some((at, *tag, incoming.announcement.size)),
            _ => None,
        });
        let Some((at, tag, size)) = waiting.next() else {
            return Some(false);
        };
        let more = waiting.next().is_some();
        if at > 0 && self.budget.pulls_are_tight() {
            // Others need the memory for what comes next of theirs. This peer's turn comes again
            // when the message is its first.
            return Some(false);
        }
        let cost = size.max(wire::EARLY_RECORD_BYTES.into());
        if !self.budget.reserve_pull(cost) {
            return None;
        }
        let Ok(memory) = Memory::try_zeroed(size as usize) else {
            self.budget.release_pull(cost);
            self.decline(peer, at);
            return Some(more);
        };
        let op = self.add_op(
            What::Fetch,
            peer,
            (NOBODY, 0),
            tag,
            (Fragments::One(memory), size),
            State::Queued,
        );
        let from = &mut self.peers[peer];
        // From here on the sender may learn of it and announce another one.
        from.announcements_unexpected = from.announcements_unexpected.saturating_sub(1);
        let entry = &mut from.arrived[at];
        if let Arrived::Announced { incoming, .. } =
            std::mem::replace(entry, Arrived::Fetching { op })
        {
            self.match_announced(op, incoming);
        }
        Some(more)
    }

    /// Refuses an announced unexpected message for which there is no memory.
    fn decline(&mut self, peer: u32, at: usize) {
        let entry = &mut self.peers[peer];
        let Some(Arrived::Announced { incoming, .. }) = entry.arrived.remove(at) else {
            return;
        };
        entry.announcements_unexpected = entry.announcements_unexpected.saturating_sub(1);
        self.unexpected_waiting -= 1;
        let send = incoming.announcement.send;
        self.queue_control(peer, refusal(send, Refusal::Failed));
        self.ring_if_ready(peer);
    }

    /// A large unexpected message is here, or will not come.
    pub(crate) fn fetched(&mut self, op: u32, result: Result<u64, OpError>) {
        let peer = self.ops[op].peer;
        let Some(entry) = self.remove_internal(op) else {
            return;
        };
        let cost = entry.size.max(wire::EARLY_RECORD_BYTES.into());
        let from = &mut self.peers[peer];
        let at = from.arrived.iter().position(
            |arrived| matches!(arrived, Arrived::Fetching { op: fetching } if *fetching == op),
        );
        let Some(at) = at else { return };
        match (result, entry.fragments) {
            (Ok(_), Fragments::One(memory)) => {
                from.arrived[at] = Arrived::Ready {
                    tag: entry.tag,
                    data: memory.into_vec(),
                    fetched: true,
                };
            }
            _ => {
                from.arrived.remove(at);
                self.unexpected_waiting -= 1;
                self.budget.release_pull(cost);
                self.tasks.push_back(Task::Fetch);
            }
        }
        self.completions += 1;
        self.ring_if_ready(peer);
    }

    /// Forgets an announced unexpected message that its sender has withdrawn.
    fn withdrawn_unexpected(&mut self, peer: u32, send: u64) -> bool {
        let entry = &mut self.peers[peer];
        let at = entry.arrived.iter().position(|arrived| {
            matches!(arrived, Arrived::Announced { incoming, .. }
                if incoming.announcement.send == send)
        });
        let Some(at) = at else { return false };
        entry.arrived.remove(at);
        entry.announcements_unexpected = entry.announcements_unexpected.saturating_sub(1);
        self.unexpected_waiting -= 1;
        self.ring_if_ready(peer);
        true
    }
}
