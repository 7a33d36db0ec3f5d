//! Messages that travel whole: sending, arriving, waiting for their receive; and the credit that
//! bounds how many may wait.

use causeway_sys::memory::Memory;
use causeway_transport::{Packet, SendError};
use causeway_wire::bmi::{self as wire, Header, Kind};

use crate::core::{Core, Task};
use crate::credit::cost;
use crate::fragments::scatter_bytes;
use crate::methods::Methods;
use crate::op::What;
use crate::peer::{Arrived, Early, EarlyBody};
use crate::slab::Links;
use crate::types::{Addr, OpError, Tag, Unexpected};

/// How an attempt to send a packet ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The method has taken it.
    Yes,
    /// Later: no room, no credit, or the peer is falling.
    NotNow,
}

/// What a peer without credit did.
pub(crate) const SENDS_TOO_MUCH: &str = "it sends more than it was granted";

impl Core {
    /// Sends a whole message at once if nothing stands before it.
    #[inline]
    pub(crate) fn try_eager_now(
        &mut self,
        methods: &mut Methods,
        peer: u32,
        data: &[Memory],
        size: u64,
        tag: Tag,
        unexpected: bool,
    ) -> Sent {
        let entry = &self.peers[peer];
        let queue = if unexpected {
            &entry.unexpected
        } else {
            &entry.expected
        };
        if !entry.is_up()
            || size > entry.eager_max
            || entry.blocked
            || !queue.is_empty()
            || !entry.control.is_empty()
            || !entry.account.affords(cost(size as usize), unexpected)
        {
            return Sent::NotNow;
        }
        self.send_eager(methods, peer, data, size as usize, tag, unexpected)
    }

    /// Sends an eager packet that the peer has granted.
    #[inline]
    fn send_eager(
        &mut self,
        methods: &mut Methods,
        peer: u32,
        data: &[Memory],
        size: usize,
        tag: Tag,
        unexpected: bool,
    ) -> Sent {
        let kind = if unexpected {
            Kind::Unexpected
        } else {
            Kind::Eager
        };
        let entry = &mut self.peers[peer];
        let Some((method, handle)) = entry.link else {
            return Sent::NotNow;
        };
        let mut header = Header::new(kind, tag);
        header.credit = entry.grant.owed();
        let method = methods.get(method);
        let result = method.send_gather(handle, &header.encode(), data, &mut self.scratch);
        if result.is_ok() {
            entry.account.spend(cost(size));
            entry.grant.grant(header.credit);
            entry.traffic.sent(size, peer, &mut self.touched);
            return Sent::Yes;
        }
        self.not_sent(peer, result)
    }

    #[cold]
    fn not_sent(&mut self, peer: u32, result: Result<(), SendError>) -> Sent {
        match result {
            Ok(()) => Sent::Yes,
            Err(SendError::WouldBlock) => {
                self.peers[peer].blocked = true;
                Sent::NotNow
            }
            Err(SendError::Gone(cause)) => {
                self.peers[peer].phase = crate::peer::Phase::Falling;
                let key = self.peers.key(peer);
                self.tasks.push_back(Task::Down(key, cause));
                Sent::NotNow
            }
            Err(error) => {
                self.condemn(peer, error.to_string());
                Sent::NotNow
            }
        }
    }

    /// Sends what waits for a peer, as far as there is room and credit.
    pub(crate) fn flush(&mut self, methods: &mut Methods, peer: u32) {
        if self.flush_control(methods, peer) == Sent::NotNow || !self.peers[peer].is_up() {
            return;
        }
        if self.flush_queue(methods, peer, false) && self.flush_queue(methods, peer, true) {
            self.tell_credit(peer);
            self.flush_control(methods, peer);
        }
    }

    /// Sends packets that carry no message.
    pub(crate) fn flush_control(&mut self, methods: &mut Methods, peer: u32) -> Sent {
        loop {
            let entry = &mut self.peers[peer];
            let Some((method, handle)) = entry.link else {
                return Sent::NotNow;
            };
            if entry.blocked {
                return Sent::NotNow;
            }
            let Some(packet) = entry.control.front_mut() else {
                return Sent::Yes;
            };
            let owed = entry.grant.owed();
            packet[4..8].copy_from_slice(&owed.to_le_bytes());
            let result = methods.get(method).send(handle, &[packet]);
            if result.is_err() {
                return self.not_sent(peer, result);
            }
            entry.grant.grant(owed);
            entry.control.pop_front();
        }
    }

    /// Queues a packet with credit if one is due that nothing else has carried.
    fn tell_credit(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        let wanted = entry.starving && entry.grant.owed() > 0;
        if wanted || entry.tell_window || entry.grant.is_due() {
            entry.tell_window = false;
            entry.starving = false;
            let window = entry.grant.window().into();
            let packet = Header::new(Kind::Credit, window).encode().to_vec();
            entry.control.push_back(packet);
        }
    }

    /// Sends waiting messages of one kind in order; `false` if there was no room.
    fn flush_queue(&mut self, methods: &mut Methods, peer: u32, unexpected: bool) -> bool {
        loop {
            let entry = &mut self.peers[peer];
            let queue = if unexpected {
                &mut entry.unexpected
            } else {
                &mut entry.expected
            };
            let Some(&op) = queue.front() else {
                return true;
            };
            let (size, tag) = (self.ops[op].size, self.ops[op].tag);
            let cost = cost(usize::try_from(size).unwrap_or(usize::MAX));
            let eager = size <= entry.eager_max;
            if eager && entry.account.affords(cost, unexpected) {
                let data = std::mem::take(&mut self.ops[op].fragments);
                let list = data.as_slice();
                let sent = self.send_eager(methods, peer, list, size as usize, tag, unexpected);
                self.ops[op].fragments = data;
                if sent == Sent::NotNow {
                    return false;
                }
                self.dequeue(peer, unexpected);
                self.complete(op, Ok(size));
            } else if unexpected && eager && entry.account.will_afford(cost) {
                self.tell_starved(peer);
                return true;
            } else if *entry.announced(unexpected) < max_announced(unexpected) {
                self.dequeue(peer, unexpected);
                self.announce(methods, op, eager);
                if self.flush_control(methods, peer) == Sent::NotNow {
                    return false;
                }
            } else {
                return true;
            }
        }
    }

    fn dequeue(&mut self, peer: u32, unexpected: bool) {
        let entry = &mut self.peers[peer];
        if unexpected {
            entry.unexpected.pop_front();
        } else {
            entry.expected.pop_front();
        }
    }

    /// Tells the peer, once, that messages wait for credit.
    fn tell_starved(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        if !entry.account.told_starved {
            entry.account.told_starved = true;
            let mut header = Header::new(Kind::Credit, entry.grant.window().into());
            header.flags = wire::FLAG_STARVED;
            entry.control.push_back(header.encode().to_vec());
        }
    }

    /// Credit has come; `false` if it was nonsense.
    #[inline]
    pub(crate) fn credit(&mut self, peer: u32, credit: u32) -> bool {
        let entry = &mut self.peers[peer];
        if !entry.account.receive(credit) {
            self.condemn(peer, "it grants too much credit");
            return false;
        }
        if !entry.unexpected.is_empty() || !entry.expected.is_empty() {
            self.mark_dirty(peer);
        }
        true
    }

    /// The peer waits for credit.
    pub(crate) fn starving(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        entry.starving = true;
        if entry.grant.enlarge(&mut self.budget) {
            entry.tell_window = true;
        } else if self.budget.is_tight() || entry.grant.is_poor(&self.budget) {
            self.shrink_largest(peer);
        }
        self.mark_dirty(peer);
    }

    /// Takes from the peer with the largest window, for those that have less: one of them is `needy`.
    pub(crate) fn shrink_largest(&mut self, needy: u32) {
        let indices = self.peers.indices();
        let largest = indices
            .into_iter()
            .filter(|&peer| peer != needy && self.peers[peer].is_up())
            .max_by_key(|peer| self.peers[*peer].grant.window());
        if let Some(peer) = largest
            && self.peers[peer].grant.shrink(&mut self.budget)
        {
            let window = self.peers[peer].grant.window().into();
            self.queue_bare(peer, Kind::Reclaim, window);
        }
    }

    /// The peer shrinks our window.
    pub(crate) fn reclaimed(&mut self, peer: u32, window: u64) {
        let back = self.peers[peer].account.reclaim(window);
        if back > 0 {
            self.queue_bare(peer, Kind::Return, back.into());
        }
        // What waits for credit may have to be announced instead.
        self.mark_dirty(peer);
    }

    /// The peer has given back credit.
    pub(crate) fn returned(&mut self, peer: u32, bytes: u64) {
        let entry = &mut self.peers[peer];
        if !entry.grant.give_back(bytes, &mut self.budget) {
            self.condemn(peer, "it gives back more credit than it has");
        }
    }

    /// Accepts the cost of a message that has arrived; `false` if it was not granted.
    #[inline]
    fn charge(&mut self, peer: u32, packet: &Packet<'_>) -> bool {
        let len = packet.len() - wire::HEADER_BYTES;
        let entry = &mut self.peers[peer];
        let allowed = entry.grant.arrive(cost(len));
        entry.traffic.received(len, peer, &mut self.touched);
        if !allowed {
            self.condemn(peer, SENDS_TOO_MUCH);
        }
        allowed
    }

    /// A message has left early memory.
    #[inline]
    pub(crate) fn discharge(&mut self, peer: u32, len: usize) {
        let entry = &mut self.peers[peer];
        entry.grant.leave(cost(len), &mut self.budget);
        if (entry.grant.is_due() || entry.starving) && entry.is_up() {
            self.mark_dirty(peer);
        }
    }

    /// A whole message has come before its receive.
    #[inline(never)]
    pub(crate) fn eager_early(&mut self, peer: u32, tag: Tag, packet: Packet<'_>) {
        if self.charge(peer, &packet) {
            let data = packet.to_vec(wire::HEADER_BYTES);
            self.add_early(peer, tag, EarlyBody::Whole(data));
        }
    }

    /// Keeps a message until its receive is posted.
    pub(crate) fn add_early(&mut self, peer: u32, tag: Tag, body: EarlyBody) {
        let index = self.early.insert(Early {
            links: Links::default(),
            bucket: Links::default(),
            peer,
            tag,
            body,
        });
        self.early_table.push_back(&mut self.early, index);
        self.peers[peer].early.push_back(&mut self.early, index);
    }

    /// Takes an early message that is out of the table already, with its accounts.
    pub(crate) fn take_early(&mut self, index: u32) -> Option<EarlyBody> {
        let peer = self.early[index].peer;
        self.peers[peer].early.remove(&mut self.early, index);
        let body = self.early.remove(index)?.body;
        match &body {
            EarlyBody::Whole(data) => self.discharge(peer, data.len()),
            EarlyBody::Announced(_) => {
                let entry = &mut self.peers[peer];
                entry.announcements = entry.announcements.saturating_sub(1);
            }
        }
        Some(body)
    }

    /// Copies an early message into a receive's memory.
    pub(crate) fn deliver(data: &[u8], into: &[Memory], room: u64) -> Result<u64, OpError> {
        let size = data.len() as u64;
        if size > room {
            return Err(OpError::TooLarge { size, room });
        }
        scatter_bytes(data, into);
        Ok(size)
    }

    /// A whole unexpected message has arrived.
    #[inline]
    pub(crate) fn unexpected(&mut self, peer: u32, tag: Tag, packet: Packet<'_>) {
        if !self.charge(peer, &packet) {
            return;
        }
        let data = packet.to_vec(wire::HEADER_BYTES);
        let fetched = false;
        self.peers[peer]
            .arrived
            .push_back(Arrived::Ready { tag, data, fetched });
        self.unexpected_waiting += 1;
        self.ring_if_ready(peer);
    }

    /// Puts a peer into the ring if its first unexpected message can be taken, and sees to it that
    /// it can be some day.
    #[inline]
    pub(crate) fn ring_if_ready(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        match entry.arrived.front() {
            Some(Arrived::Ready { .. }) if !entry.in_ring => {
                entry.in_ring = true;
                self.ring.push_back(peer);
            }
            Some(Arrived::Announced { .. }) if !entry.in_fetch_ring => {
                self.queue_fetch(peer);
                self.tasks.push_back(Task::Fetch);
            }
            _ => {}
        }
    }

    /// Takes one unexpected message, from each peer in turn.
    pub(crate) fn take_unexpected(&mut self) -> Option<Unexpected> {
        loop {
            let peer = self.ring.pop_front()?;
            let entry = &mut self.peers[peer];
            entry.in_ring = false;
            if !entry.first_is_ready() {
                continue;
            }
            let Some(Arrived::Ready { tag, data, fetched }) = entry.arrived.pop_front() else {
                continue;
            };
            entry.refs += 1;
            self.unexpected_waiting -= 1;
            self.ring_if_ready(peer);
            if fetched {
                let record = wire::EARLY_RECORD_BYTES.into();
                self.budget.release_pull((data.len() as u64).max(record));
                self.tasks.push_back(Task::Fetch);
            } else {
                self.discharge(peer, data.len());
            }
            let from = Addr(self.peers.key(peer));
            return Some(Unexpected { from, tag, data });
        }
    }
}

fn max_announced(unexpected: bool) -> u32 {
    if unexpected {
        wire::MAX_ANNOUNCED_UNEXPECTED
    } else {
        wire::MAX_ANNOUNCED
    }
}

/// Whether an operation waits among the unexpected sends.
pub(crate) fn is_unexpected(what: What) -> bool {
    what == What::SendUnexpected
}
