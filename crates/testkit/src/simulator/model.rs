//! Invariants of packets and transfers under all faults of the network.
//!
//! The model records the operations of all nodes. A *conversation* is one direction of one incarnation
//! of one connection, named by its sender: which node, which incarnation of it, which handle, and how
//! often that handle had gone down before. Its packets must arrive at one handle of one receiver,
//! once each, in order, from the first on; if nothing broke it, all of them.

use std::collections::{BTreeMap, BTreeSet};

use causeway_sys::memory::Memory;
use causeway_transport::{
    Direction, PLACEMENT_HEAD_BYTES, Packet, Peer, PeerError, Sink, Spans, Token, TransferError,
};
use causeway_wire::codec::{Reader, Wire, Writer};
use causeway_wire::region::RegionDescriptor;

use crate::placement::Placements;

/// Bytes before and behind every exported span that no peer may touch.
const GUARD: usize = 64;

/// Filler of guards.
const GUARD_BYTE: u8 = 0xee;

/// One side of one incarnation of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// Which node.
    pub node: usize,
    /// Which incarnation of it.
    pub life: u32,
    /// Its handle.
    pub peer: Peer,
    /// How often the handle had gone down before.
    pub epoch: u32,
}

impl End {
    fn encode(&self, out: &mut Writer) {
        out.u8(self.node as u8);
        out.u32(self.life);
        out.u64(self.peer.0);
        out.u32(self.epoch);
    }

    fn decode(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            node: input.u8("node").ok()?.into(),
            life: input.u32("life").ok()?,
            peer: Peer(input.u64("peer").ok()?),
            epoch: input.u32("epoch").ok()?,
        })
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Conversation {
    sent: u64,
    received: u64,
    receiver: Option<End>,
}

/// A node's state of one of its handles.
#[derive(Debug)]
pub struct Handle {
    /// How often it has gone down.
    pub epoch: u32,
    /// The node at the other end, if this one connected to it; `None` if that one connected.
    pub target: Option<usize>,
    /// Whether it has ended for good.
    pub gone: bool,
}

/// A span that a node exports.
#[derive(Debug)]
struct Region {
    whole: Memory,
    owner: End,
    descriptor: RegionDescriptor,
    /// Ended by its owner, or with the connection.
    ended: bool,
    /// Its content; `None` while a put may have written any part of it.
    holds: Option<u64>,
}

/// A region that a node was offered.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The region's number.
    pub region: u64,
    /// Its descriptor.
    pub descriptor: RegionDescriptor,
    /// Under which handle it came.
    pub from: End,
}

/// A transfer in progress.
#[derive(Debug)]
struct Pending {
    end: End,
    direction: Direction,
    region: u64,
    local: Memory,
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Model {
    conversations: BTreeMap<End, Conversation>,
    /// Which conversation a receiving end belongs to.
    senders: BTreeMap<End, End>,
    handles: BTreeMap<(usize, u32, Peer), Handle>,
    regions: BTreeMap<u64, Region>,
    offers: BTreeMap<usize, Vec<Offer>>,
    pending: BTreeMap<(usize, u32, Token), Pending>,
    /// Ends that are over.
    over: BTreeSet<End>,
    /// No fault so far that may break a connection.
    gentle: bool,
    next: u64,
    /// How many packets have arrived, and transfers succeeded.
    pub progress: (u64, u64),
    /// Packets that are being received into buffers of a node's sink.
    pub places: Placements<(usize, u32, Peer)>,
}

/// Bytes that follow from a number.
pub fn pattern(number: u64, len: usize) -> Vec<u8> {
    crate::random::Random::new(number).bytes(len)
}

impl Model {
    /// A model of nodes that have done nothing yet. In a `gentle` network nothing may break.
    pub fn new(gentle: bool) -> Self {
        Self {
            gentle,
            ..Self::default()
        }
    }

    /// A fresh number.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Notes a handle for `target`.
    pub fn connected(&mut self, node: usize, life: u32, peer: Peer, target: usize) {
        let handle = Handle {
            epoch: 0,
            target: Some(target),
            gone: false,
        };
        self.handles.entry((node, life, peer)).or_insert(handle);
    }

    /// The handles of a node that can be used.
    pub fn usable(&self, node: usize, life: u32) -> Vec<Peer> {
        let range = (node, life, Peer(0))..=(node, life, Peer(u64::MAX));
        let usable = self.handles.range(range).filter(|(_, handle)| !handle.gone);
        usable.map(|((_, _, peer), _)| *peer).collect()
    }

    /// The end that a handle is now.
    pub fn end(&self, node: usize, life: u32, peer: Peer) -> End {
        let epoch = self
            .handles
            .get(&(node, life, peer))
            .map_or(0, |handle| handle.epoch);
        End {
            node,
            life,
            peer,
            epoch,
        }
    }

    /// The next packet of a conversation, of about `len` bytes; count it with [`Model::sent`].
    pub fn packet(&self, end: End, len: usize, offer: Option<u64>) -> Vec<u8> {
        let sequence = self.conversations.get(&end).map_or(0, |c| c.sent);
        let mut out = Writer::new();
        out.bool(offer.is_some());
        end.encode(&mut out);
        out.u64(sequence);
        if let Some(number) = offer
            && let Some(region) = self.regions.get(&number)
        {
            out.u64(number);
            region.descriptor.encode(&mut out);
        }
        let filler = pattern(sequence ^ (len as u64) << 32, len);
        out.bytes(&filler);
        out.finish()
    }

    /// A packet was accepted.
    pub fn sent(&mut self, end: End) {
        self.conversations.entry(end).or_default().sent += 1;
    }

    /// Memory of `len` bytes to be exported, between guards: all of it, and the span.
    pub fn memory(number: u64, len: usize) -> (Memory, Memory) {
        let mut bytes = vec![GUARD_BYTE; GUARD];
        bytes.extend(pattern(number, len));
        bytes.extend([GUARD_BYTE; GUARD]);
        let whole = Memory::from_vec(bytes);
        let span = whole.slice(GUARD..GUARD + len);
        (whole, span)
    }

    /// Memory was exported.
    pub fn exported(
        &mut self,
        number: u64,
        owner: End,
        whole: Memory,
        descriptor: RegionDescriptor,
    ) {
        let region = Region {
            whole,
            owner,
            descriptor,
            ended: false,
            holds: Some(number),
        };
        self.regions.insert(number, region);
    }

    /// Some region that a node exports, to be ended.
    pub fn some_region(&mut self, node: usize, life: u32) -> Option<(Peer, u64)> {
        let region = self.regions.values_mut().find(|region| {
            !region.ended && region.owner.node == node && region.owner.life == life
        })?;
        region.ended = true;
        Some((region.owner.peer, region.descriptor.key))
    }

    /// Takes a region that a node was offered.
    pub fn take_offer(&mut self, node: usize, life: u32) -> Option<Offer> {
        let offers = self.offers.get_mut(&node)?;
        offers.retain(|offer| offer.from.life == life);
        offers.pop()
    }

    /// A transfer was accepted.
    pub fn began(
        &mut self,
        end: End,
        token: Token,
        direction: Direction,
        region: u64,
        local: &Memory,
    ) {
        if direction == Direction::Put
            && let Some(region) = self.regions.get_mut(&region)
        {
            region.holds = None;
        }
        let pending = Pending {
            end,
            direction,
            region,
            local: local.clone(),
        };
        let key = (end.node, end.life, token);
        assert!(self.pending.insert(key, pending).is_none());
    }

    /// The packet behind a put of this region.
    pub fn notify(&self, end: End, region: u64) -> Vec<u8> {
        let mut out = Writer::new();
        out.u8(2);
        end.encode(&mut out);
        out.u64(self.conversations.get(&end).map_or(0, |c| c.sent));
        out.u64(region);
        out.finish()
    }

    /// A node has ended.
    pub fn crashed(&mut self, node: usize, life: u32) {
        let range = (node, life, Peer(0))..=(node, life, Peer(u64::MAX));
        let peers: Vec<Peer> = self
            .handles
            .range(range)
            .map(|((.., peer), _)| *peer)
            .collect();
        for peer in peers {
            self.finish(self.end(node, life, peer));
        }
        self.pending
            .retain(|(of, in_life, _), _| (*of, *in_life) != (node, life));
    }

    /// A node drops a handle, after its transfers have completed.
    pub fn disconnected(&mut self, node: usize, life: u32, peer: Peer) {
        let end = self.end(node, life, peer);
        self.no_transfers(end, "was disconnected");
        self.finish(end);
        if let Some(handle) = self.handles.get_mut(&(node, life, peer)) {
            handle.gone = true;
        }
        self.places.forget(&(node, life, peer));
    }

    fn no_transfers(&self, end: End, how: &str) {
        let left = self.pending.values().filter(|pending| pending.end == end);
        let left = left.count();
        assert_eq!(
            left, 0,
            "{end:?} {how} before {left} of its transfers completed"
        );
    }

    fn finish(&mut self, end: End) {
        self.over.insert(end);
        for region in self.regions.values_mut() {
            region.ended |= region.owner == end;
        }
    }

    /// Checks a packet.
    fn arrived(&mut self, me: End, bytes: &[u8]) {
        let mut input = Reader::new(bytes);
        let kind = input.u8("kind").expect("a packet of the model");
        let from = End::decode(&mut input).expect("a packet of the model");
        let sequence = input.u64("sequence").expect("a packet of the model");
        let conversation = self.conversations.entry(from).or_default();
        let senders = *self.senders.entry(me).or_insert(from);
        assert_eq!(senders, from, "{me:?} receives from two incarnations");
        let receiver = *conversation.receiver.get_or_insert(me);
        assert_eq!(receiver, me, "{from:?} is received by two");
        if kind == 2 {
            let (number, received) = (
                input.u64("region").expect("a packet of the model"),
                conversation.received,
            );
            assert!(sequence <= received, "a notify packet overtook {sequence}");
            return self.notified(number);
        }
        assert_eq!(sequence, conversation.received, "{from:?} to {me:?}: order");
        assert!(sequence < conversation.sent, "{from:?} never sent that");
        conversation.received += 1;
        self.progress.0 += 1;
        if kind == 1 {
            let region = input.u64("region").expect("a packet of the model");
            let descriptor = RegionDescriptor::decode(&mut input).expect("a packet of the model");
            let offers = self.offers.entry(me.node).or_default();
            offers.push(Offer {
                region,
                descriptor,
                from: me,
            });
        }
        let filler = input
            .bytes(1 << 20, "filler")
            .expect("a packet of the model");
        let expected = pattern(sequence ^ (filler.len() as u64) << 32, filler.len());
        assert!(
            filler == expected,
            "{from:?} to {me:?}: a packet was altered"
        );
    }

    /// The packet behind a put: all of its bytes have arrived.
    fn notified(&mut self, number: u64) {
        let region = self
            .regions
            .get_mut(&number)
            .expect("a region of the model");
        region.holds = Some(!number);
        Self::check_region(number, region);
        self.progress.1 += 1;
    }

    fn check_region(number: u64, region: &Region) {
        let bytes = region.whole.to_vec();
        let (front, rest) = bytes.split_at(GUARD);
        let (span, back) = rest.split_at(rest.len() - GUARD);
        let untouched = front.iter().chain(back).all(|&byte| byte == GUARD_BYTE);
        assert!(untouched, "bytes beside region {number} were written");
        if let Some(holds) = region.holds {
            let right = span == pattern(holds, span.len());
            assert!(right, "region {number} of {:?} was altered", region.owner);
        }
    }

    fn completed(&mut self, me: End, token: Token, result: Result<(), TransferError>) {
        let key = (me.node, me.life, token);
        let pending = self.pending.remove(&key);
        let pending = pending.unwrap_or_else(|| panic!("{me:?}: {token} completed again"));
        let region = self
            .regions
            .get(&pending.region)
            .expect("a region of the model");
        match result {
            Ok(()) => {
                self.progress.1 += 1;
                if pending.direction == Direction::Get {
                    let expected = pattern(pending.region, pending.local.len());
                    assert!(
                        pending.local.to_vec() == expected,
                        "a get brought other bytes"
                    );
                }
            }
            Err(TransferError::Protection) => {
                assert!(region.ended, "region {} is exported", pending.region);
            }
            Err(TransferError::Peer(cause)) => {
                assert!(!self.gentle, "{me:?}: a transfer failed: {cause}");
            }
            Err(error) => panic!("{me:?}: a transfer failed: {error}"),
        }
    }

    /// Whether all operations have completed; if not, what is missing.
    pub fn unfinished(&self) -> Option<String> {
        if let Some(pending) = self.pending.values().next() {
            let count = self.pending.len();
            return Some(format!("{count} transfers, such as {pending:?}"));
        }
        for (from, conversation) in &self.conversations {
            let receiver_over = conversation
                .receiver
                .is_some_and(|receiver| self.over.contains(&receiver));
            if self.over.contains(from) {
                continue;
            }
            if receiver_over || conversation.received < conversation.sent {
                return Some(format!("{from:?}: {conversation:?}"));
            }
        }
        None
    }

    /// The last check of all memory.
    pub fn check_memory(&self) {
        for (number, region) in &self.regions {
            Self::check_region(*number, region);
        }
    }
}

/// The sink of one node.
pub struct NodeSink<'a> {
    /// The model that gets every event.
    pub model: &'a mut Model,
    /// The node.
    pub node: usize,
    /// Which incarnation.
    pub life: u32,
}

impl Sink for NodeSink<'_> {
    fn packet(&mut self, peer: Peer, packet: Packet<'_>) {
        let me = self.model.end(self.node, self.life, peer);
        let known = self.model.handles.get(&(self.node, self.life, peer));
        let usable = known.is_some_and(|handle| !handle.gone);
        assert!(usable, "a packet from {peer:?}, which is not up");
        self.model.arrived(me, &packet.to_vec(0));
    }

    fn transfer_done(&mut self, peer: Peer, token: Token, result: Result<(), TransferError>) {
        let me = self.model.end(self.node, self.life, peer);
        self.model.completed(me, token, result);
    }

    fn peer_up(&mut self, peer: Peer) {
        let handle = Handle {
            epoch: 0,
            target: None,
            gone: false,
        };
        let key = (self.node, self.life, peer);
        let before = self.model.handles.insert(key, handle);
        assert!(before.is_none(), "{peer:?} came up twice");
    }

    fn peer_down(&mut self, peer: Peer, cause: PeerError) {
        let end = self.model.end(self.node, self.life, peer);
        let broken = matches!(cause, PeerError::Protocol(_) | PeerError::Unauthorised(_));
        assert!(!broken, "{end:?} went down: {cause}");
        assert!(
            !self.model.gentle,
            "{end:?} went down without reason: {cause}"
        );
        self.model.no_transfers(end, "went down");
        self.model.finish(end);
        let key = (self.node, self.life, peer);
        self.model.places.forget(&key);
        let handle = self.model.handles.get_mut(&key);
        let handle = handle.unwrap_or_else(|| panic!("{peer:?} went down, but was not up"));
        assert!(!handle.gone, "{peer:?} went down twice");
        handle.epoch += 1;
        handle.gone = handle.target.is_none();
    }

    fn writable(&mut self, _peer: Peer) {}

    fn receive_buffer(
        &mut self,
        peer: Peer,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        let key = (self.node, self.life, peer);
        self.model.places.receive_buffer(key, head, len, into)
    }

    fn placement_done(&mut self, peer: Peer, head: &[u8; PLACEMENT_HEAD_BYTES]) {
        let key = (self.node, self.life, peer);
        let packet = self.model.places.placement_done(key, head);
        let me = self.model.end(self.node, self.life, peer);
        self.model.arrived(me, &packet);
    }
}
