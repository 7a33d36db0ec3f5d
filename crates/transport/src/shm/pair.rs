//! The state of one live connection.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use causeway_sys::fork::Owner;
use causeway_sys::mapping::Mapping;
use causeway_sys::memfd;
use causeway_sys::memory::Memory;
use causeway_sys::net;
use causeway_sys::pinned::{Mark, Pinned};
use causeway_sys::socket::{Credentials, Received, RecordSocket};
use causeway_wire::codec::Wire;
use causeway_wire::formats::Formats;
use causeway_wire::node::Certificate;
use causeway_wire::region::{ObjectSpan, RegionDescriptor};
use causeway_wire::shm::{
    Challenge, FLAG_MEMBARRIER, FORMATS, MAX_RECORD_BYTES, PIECES, PairLayout, ProcessInfo, Record,
    RefuseReason, SLOT_BYTES, SlotKind, WAKE_RECORD, doorbell as bell_format, mismatch_of,
};

use super::atomics::Atomics;
use super::bulk::Bulk;
use super::costs::{Copying, Costs, LARGE_BYTES};
use super::doorbell;
use super::memory::{Bell, MappedRing, Parts};
use super::node_handshake::{self, RequiredProofs, is_closed};
use super::objects::Objects;
use super::pace::Pace;
use super::packet_copy::{CopyChoice, CopyKind};
use super::pieces;
use super::quarantine::{self, DeferredFree, PeerLiveness};
use super::regions::{Exports, Imports};
use super::ring::{Consumer, Producer, Sent};
use super::split_copy::{self, Helper, Offers};
use super::transfer::{self, Transfers};
use crate::error::{PeerError, SendError, TOO_MANY_OPEN};
use crate::method::{Direction, Outlet};
use crate::trust::{NO_NODE, NODE_DEMANDED};

/// The stage of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The listener's queue was full: the socket is not connected yet.
    Waiting,
    /// The first record has been sent; the reply is awaited.
    Greeting,
    /// The handshake is complete.
    Up,
}

/// Whether the peer's memory can be accessed directly.
#[derive(Debug)]
pub(super) enum Attach {
    /// Yes, in this process.
    Usable(Pinned),
    /// No, for this reason.
    Refused(String),
}

impl Attach {
    /// The number of the process whose memory is accessed, which is the one that made the
    /// connection.
    #[inline]
    pub(super) fn number(&self) -> Option<i32> {
        match self {
            Self::Usable(process) => process.number(),
            Self::Refused(_) => None,
        }
    }
}

/// Why a process that could be accessed no longer can.
pub(super) const CHANGED: &str = "the peer's process has ended, or has started another program";

/// What a pair needs from this process's settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    pub(super) uid: u32,
    pub(super) membarrier: bool,
    pub(super) attach: bool,
    pub(super) process: Owner,
}

/// Decodes a record; the error states what to do if its sender uses other formats.
pub(super) fn decode(record: &[u8]) -> Result<Record, PeerError> {
    Record::from_bytes(record).map_err(|error| {
        let mismatch = mismatch_of(record);
        PeerError::Protocol(mismatch.unwrap_or_else(|| error.to_string()))
    })
}

/// One live connection.
pub(super) struct Pair {
    own: Own,
    pub(super) layout: PairLayout,
    pub(super) producer: Producer<MappedRing>,
    /// Allocated once there has been a packet for which it matters.
    packet_copy: Option<Box<CopyChoice>>,
    pub(super) consumer: Consumer<MappedRing>,
    pub(super) exports: Exports,
    pub(super) imports: Imports,
    pub(super) socket: Option<Arc<RecordSocket>>,
    pub(super) stage: Stage,
    /// When the handshake has to be complete.
    pub(super) deadline: Instant,
    /// The peer's doorbell and our bit in it, once known.
    bell: Option<(Bell, u32)>,
    /// The peer should have been rung before its doorbell was known.
    owes_ring: bool,
    pub(super) credentials: Option<Credentials>,
    /// With the cluster's key, on the connecting side, until the handshake is complete.
    pub(super) caller: Option<Box<RequiredProofs>>,
    /// The other side has not proven yet what it has to, or its node is no longer accepted: packets
    /// in its ring are not read.
    pub(super) unproven: bool,
    /// No packet is put into our ring while this is set.
    pub(super) withholds: bool,
    /// The other side's node, if it has proven which one it is.
    pub(super) node: Option<Arc<Certificate>>,
    pub(super) attach: Attach,
    asymmetric: bool,
    /// The peer supports pieces of split copies.
    knows_pieces: bool,
    /// Whether the ring is in the list of polled ones, and how many looks at rings there had been when it last had something.
    pub(super) polled: bool,
    /// Whether notification is enabled: the peer has to ring, which it also may while the ring is polled.
    pub(super) notification: bool,
    pub(super) last_active: u64,
    /// The ring was seen empty since the last packet: the next one is likely to come alone.
    pub(super) ran_empty: bool,
    pub(super) pace: Pace,
    /// A send was refused for lack of room.
    pub(super) blocked: bool,
    /// The caller's packets are not delivered now.
    pub(super) paused: bool,
    /// One of them is at the front of the ring, which is neither polled nor has notification
    /// enabled until the peer is resumed.
    pub(super) set_aside: bool,
    pub(super) transfers: Transfers,
    /// Transfers that this side starts are shared with the peer.
    pub(super) shares: bool,
    pub(super) offers: Offers,
    pub(super) helper: Helper,
    /// Allocated once there has been a transfer for which it matters.
    pub(super) piece_choice: Option<Box<pieces::PieceChoice>>,
    /// Bytes of shared transfers that this side has copied, whichever side started them.
    pub(super) shared_bytes: u64,
    /// Whether the pair is in the list of those that may be helped.
    pub(super) is_grantee: bool,
    pub(super) bulk: Bulk,
    pub(super) atomics: Atomics,
    pub(super) objects: Objects,
    /// The pair's memory file, until it is sent.
    pub(super) file: Option<OwnedFd>,
    goodbye: bool,
    /// A wait for the peer timed out, and it has made no progress since.
    pub(super) copy_wait_timed_out: bool,
    /// Memory that the peer may still be writing, to be kept by the instance.
    pub(super) deferred: Vec<DeferredFree>,
    /// Why the connection is about to be closed.
    pub(super) failing: Option<PeerError>,
}

impl Pair {
    /// The state for a mapped pair memory, of which this process is `side`.
    pub(super) fn new(
        mapping: Mapping,
        layout: PairLayout,
        side: usize,
        own: Own,
        deadline: Instant,
    ) -> Self {
        let mapping = Arc::new(mapping);
        let out = MappedRing::new(&mapping, layout, side);
        let into = MappedRing::new(&mapping, layout, 1 - side);
        Self {
            own,
            layout,
            producer: Producer::new(out),
            packet_copy: None,
            consumer: Consumer::new(into, layout.max_packet()),
            exports: Exports::new(&mapping, layout, side),
            imports: Imports::new(&mapping, layout, 1 - side),
            socket: None,
            stage: Stage::Waiting,
            deadline,
            bell: None,
            owes_ring: false,
            credentials: None,
            caller: None,
            unproven: false,
            withholds: false,
            node: None,
            attach: Attach::Refused("the peer has not replied yet".to_owned()),
            asymmetric: false,
            knows_pieces: false,
            polled: false,
            notification: false,
            last_active: 0,
            ran_empty: true,
            pace: Pace::default(),
            blocked: false,
            paused: false,
            set_aside: false,
            transfers: Transfers::default(),
            shares: true,
            offers: Offers::new(&mapping, layout, side),
            helper: Helper::new(&mapping, layout, 1 - side),
            piece_choice: None,
            shared_bytes: 0,
            is_grantee: false,
            bulk: Bulk::default(),
            atomics: Atomics::default(),
            objects: Objects::default(),
            file: None,
            goodbye: false,
            copy_wait_timed_out: false,
            deferred: Vec::new(),
            failing: None,
        }
    }

    /// Whether there are transfers or atomics to go on with.
    #[inline]
    pub(super) fn has_work(&self) -> bool {
        !self.transfers.queue.is_empty() || self.transfers.has_atomics && self.atomics.has_work()
    }

    /// Whether this poll skips the ring (see [`Pace`]): only while this side has sent nothing since it last received.
    #[inline]
    pub(super) fn skips_poll(&mut self, now: Instant) -> bool {
        self.pace.skips_poll(now) && self.producer.owes_reply()
    }

    /// Whether a poll of the ring at this time would find no packet, and no sender that waits for room.
    #[inline(always)]
    pub(super) fn finds_nothing(&mut self, now: Instant) -> bool {
        if self.skips_poll(now) {
            return true;
        }
        if self.unproven || self.consumer.is_ready() || self.consumer.owes_credit() {
            return false;
        }
        self.found_none(now);
        true
    }

    /// Notes that a poll at this time has found no packet.
    #[inline]
    pub(super) fn found_none(&mut self, now: Instant) {
        self.ran_empty = true;
        self.pace.found_none(now, self.producer.owes_reply());
    }

    /// Sends a packet from the caller.
    #[inline]
    pub(super) fn send(&mut self, parts: &(impl Parts + ?Sized)) -> Result<(), SendError> {
        let len = parts.total();
        if len > self.layout.max_packet() {
            return Err(SendError::TooLarge {
                len,
                limit: self.layout.max_packet(),
            });
        }
        if self.failing.is_some() {
            return Err(SendError::WouldBlock);
        }
        if self.unproven && self.withholds {
            self.blocked = true;
            return Err(SendError::WouldBlock);
        }
        if self.publish_here(SlotKind::Packet, parts, len) {
            return Ok(());
        }
        self.blocked = true;
        if len >= LARGE_BYTES {
            self.costs().full();
        }
        Err(SendError::WouldBlock)
    }

    /// What large messages have cost.
    #[cold]
    pub(super) fn costs(&mut self) -> &mut Costs {
        &mut self.packet_copy.get_or_insert_default().costs
    }

    /// Whether large messages that wait for room are to be announced: see [`Costs`].
    pub(super) fn announces_large(&self) -> bool {
        let choice = self.packet_copy.as_deref();
        matches!(self.attach, Attach::Usable(_))
            && choice.is_some_and(|choice| choice.costs.announces())
    }

    /// Puts a packet into the ring and rings if necessary; `false` if there is no room, in which
    /// case the peer rings when there is.
    #[inline(never)]
    pub(super) fn publish(
        &mut self,
        kind: SlotKind,
        parts: &(impl Parts + ?Sized),
        len: usize,
    ) -> bool {
        self.publish_here(kind, parts, len)
    }

    /// The same, inlined: the call would take a twentieth of what a short message takes its sender.
    #[inline(always)]
    fn publish_here(&mut self, kind: SlotKind, parts: &(impl Parts + ?Sized), len: usize) -> bool {
        let differs = CopyChoice::differ(len);
        let copying = match differs {
            true => self
                .packet_copy
                .get_or_insert_default()
                .next(len, parts.is_filled()),
            false => CopyKind::Usual,
        };
        let start = match differs && len >= LARGE_BYTES {
            true => self.costs().begin(Copying::In),
            false => None,
        };
        let fill = |ring: &MappedRing, slot| ring.fill(slot, len, parts, copying);
        let fetching = !differs || copying.fetches_lines(len);
        let sent = self.producer.send((kind, fetching), len, fill);
        match sent {
            Sent::Published => {}
            Sent::MustRing => self.ring_peer(),
            Sent::Full => return false,
            Sent::Corrupt => {
                self.corrupt_index();
                return false;
            }
        }
        if differs && let Some(choice) = &mut self.packet_copy {
            choice.sent(len, parts.is_filled());
        }
        if let Some(start) = start {
            self.costs().end(Copying::In, start, len);
        }
        true
    }

    fn corrupt_index(&mut self) {
        self.failing.get_or_insert(PeerError::Protocol(
            "it claims to have consumed packets that were never sent".to_owned(),
        ));
    }

    /// Ends an export. Memory that the peer is writing, and does not stop writing, is `deferred`.
    pub(super) fn unexport(&mut self, key: u64) {
        if let Some(held) = self.exports.remove(key) {
            self.hold(vec![held]);
        }
    }

    /// Ends an export. Memory that the peer is writing is `deferred`.
    pub(super) fn try_unexport(&mut self, key: u64) {
        if let Some(mut held) = self.exports.remove(key) {
            held.watch(&self.liveness());
            self.deferred.push(held);
        }
    }

    fn liveness(&self) -> PeerLiveness {
        PeerLiveness {
            socket: self.socket.clone(),
            pid: (self.credentials.map(|credentials| credentials.pid)).filter(|&pid| pid > 0),
        }
    }

    /// Waits until the peer no longer accesses the memory, and defers the memory that it still
    /// accesses.
    #[cold]
    fn hold(&mut self, mut held: Vec<DeferredFree>) {
        quarantine::wait(&mut held, &self.liveness(), &mut self.copy_wait_timed_out);
        self.deferred.append(&mut held);
    }

    /// Rings the peer's doorbell, and wakes it if it sleeps.
    #[cold]
    pub(super) fn ring_peer(&mut self) {
        match &self.bell {
            Some((bell, bit)) => {
                if let Some(sleep) = doorbell::ring(bell, *bit)
                    && !doorbell::call(bell, sleep)
                    && let Some(socket) = &self.socket
                {
                    match socket.send(&WAKE_RECORD, &[]) {
                        Ok(()) => doorbell::woken(bell, sleep),
                        // Its socket has something unread, which wakes it as well.
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                            doorbell::woken(bell, sleep);
                        }
                        // The death of a peer is detected elsewhere. A live one that has given up
                        // this connection still has to be woken by others.
                        Err(_) => {}
                    }
                }
            }
            // The peer's reply was sent, on the socket, before it first looked at the ring: it has
            // arrived, and reading it rings.
            None => {
                self.owes_ring = true;
                if let Err(cause) = self.read_records() {
                    self.failing.get_or_insert(cause);
                }
            }
        }
    }

    /// Whether there is room for the largest packet; if not, the peer rings when there is.
    pub(super) fn has_room(&mut self) -> bool {
        self.producer.has_room(self.layout.max_packet())
    }

    /// Whether the largest packet would be accepted; if not, [`Pair::blocked`] has the caller
    /// notified when it would.
    pub(super) fn takes_packets(&mut self) -> bool {
        !(self.unproven && self.withholds) && self.has_room()
    }

    /// Takes over what the peer has stated in the handshake.
    pub(super) fn meet(
        &mut self,
        socket: &RecordSocket,
        formats: Formats,
        flags: u8,
        process: ProcessInfo,
        bell: OwnedFd,
    ) -> Result<(), PeerError> {
        let mapping = Mapping::new(&bell, bell_format::BYTES)
            .map_err(|error| PeerError::Protocol(format!("its doorbell page: {error}")))?;
        self.bell = Some((Bell::new(mapping), process.doorbell_bit));
        self.speak(FORMATS.common(formats));
        self.asymmetric = self.own.membarrier && flags & FLAG_MEMBARRIER != 0;
        self.producer.memory_mut().asymmetric = self.asymmetric;
        self.attach = if self.own.attach {
            probe(socket, process)
        } else {
            Attach::Refused("switched off by the configuration".to_owned())
        };
        self.stage = Stage::Up;
        self.unproven = false;
        if std::mem::take(&mut self.owes_ring) {
            self.ring_peer();
        }
        Ok(())
    }

    /// Sets the highest format that both sides support.
    pub(super) fn speak(&mut self, format: Option<u8>) {
        self.knows_pieces = format >= Some(PIECES);
    }

    /// Whether the peer should send its parts of the next transfer that it helps with, of `len`
    /// bytes, as pieces. If the peer is paused, its packets could be queued before its pieces.
    ///
    /// `None` if it cannot. Otherwise the caller reports the transfer's end to [`pieces::PieceChoice`].
    pub(super) fn may_send_pieces(&mut self, len: u64) -> Option<bool> {
        let may = self.knows_pieces && !self.paused;
        may.then(|| self.piece_choice.get_or_insert_default().begin(len))
    }

    /// Reads a bounded number of records from the socket. `Err` ends the connection.
    pub(super) fn read_records(&mut self) -> Result<(), PeerError> {
        let mut buffer = [0; MAX_RECORD_BYTES];
        for _ in 0..64 {
            let Some(socket) = &self.socket else {
                return Ok(());
            };
            match socket.receive(&mut buffer) {
                Ok(Received::Nothing) => return Ok(()),
                Ok(Received::Record(len, descriptors)) => {
                    let record = decode(buffer.get(..len).unwrap_or(&[]))?;
                    self.take_record(record, descriptors)?;
                }
                Ok(Received::Stripped(len)) => {
                    let record = decode(buffer.get(..len).unwrap_or(&[]))?;
                    self.take_stripped(record)?;
                }
                Ok(Received::Oversized) => {
                    return Err(PeerError::Protocol("a record is too long".to_owned()));
                }
                Ok(Received::Closed) if self.goodbye => return Err(PeerError::Closed),
                Ok(Received::Closed) => {
                    let what = match self.stage {
                        Stage::Up => "its process ended, or gave the connection up",
                        Stage::Waiting | Stage::Greeting => "it closed before it replied",
                    };
                    return Err(PeerError::Broken(what.to_owned()));
                }
                // Reported once, before what the peer has sent: it has closed without reading our
                // greeting.
                Err(error) if self.stage == Stage::Greeting && is_closed(&error) => {}
                Err(error) => return Err(PeerError::Broken(error.to_string())),
            }
        }
        Ok(())
    }

    fn take_record(&mut self, record: Record, descriptors: Vec<OwnedFd>) -> Result<(), PeerError> {
        let mut descriptors = descriptors.into_iter();
        let missing = || PeerError::Protocol("a record lacks its descriptor".to_owned());
        match (record, self.stage) {
            (Record::Challenge(challenge), Stage::Greeting) => self.answer(&challenge),
            (Record::Node(message), Stage::Greeting) => self.show_node(&message),
            (Record::Welcome(welcome), Stage::Greeting) => {
                if let Some(caller) = self.caller.take() {
                    self.node = caller.check_welcome()?;
                }
                let bell = descriptors.next().ok_or_else(missing)?;
                let socket = self.socket.clone().ok_or(PeerError::Disconnected)?;
                self.meet(
                    &socket,
                    welcome.formats,
                    welcome.flags,
                    welcome.process,
                    bell,
                )
            }
            (Record::Refused { reason, why }, Stage::Greeting) => Err(match why {
                RefuseReason::Unauthorised => PeerError::Unauthorised(reason),
                RefuseReason::Full => PeerError::Full(reason),
                RefuseReason::Other => PeerError::Refused(reason),
            }),
            (Record::Wake, _) => Ok(()),
            (Record::Goodbye, _) => {
                self.goodbye = true;
                Ok(())
            }
            (Record::Object { object, base, len }, Stage::Up) => {
                let file = descriptors.next().ok_or_else(missing)?;
                if let Some(object) = self.objects.offered(object, base, len, file)? {
                    self.notify_forgotten(object);
                }
                Ok(())
            }
            (Record::ObjectUnmapped { object }, Stage::Up) => {
                self.objects.forgotten(object);
                Ok(())
            }
            (Record::ObjectFreed { object }, Stage::Up) => {
                self.objects.retired(object);
                Ok(())
            }
            (Record::Bulk, Stage::Up) => {
                let file = descriptors.next().ok_or_else(missing)?;
                self.bulk.offered(file)
            }
            (record, stage) => Err(PeerError::Protocol(format!(
                "an unexpected record while {stage:?}: {}",
                record.kind()
            ))),
        }
    }

    /// Replies to a challenge.
    fn answer(&mut self, challenge: &Challenge) -> Result<(), PeerError> {
        let caller = match self.caller.as_deref_mut() {
            Some(RequiredProofs::Key(caller)) => caller,
            Some(RequiredProofs::Nodes(_)) => {
                return Err(PeerError::Unauthorised(NO_NODE.to_owned()));
            }
            None => {
                return Err(PeerError::Unauthorised(
                    "it demands the cluster's key, and this process has none".to_owned(),
                ));
            }
        };
        let proof = Record::Proof(caller.answer(challenge)?).to_bytes();
        let Some(socket) = &self.socket else {
            return Err(PeerError::Disconnected);
        };
        match socket.send(&proof, &[]) {
            // What it has sent before is read next.
            Err(error) if is_closed(&error) => Ok(()),
            sent => sent.map_err(|error| PeerError::of_system(&error)),
        }
    }

    /// Handles a message of an exchange that proves nodes, and continues the exchange.
    fn show_node(&mut self, message: &[u8]) -> Result<(), PeerError> {
        let (Some(RequiredProofs::Nodes(proving)), Some(socket)) =
            (self.caller.as_deref_mut(), &self.socket)
        else {
            return Err(PeerError::Unauthorised(NODE_DEMANDED.to_owned()));
        };
        node_handshake::handle_message(proving, message, socket)
    }

    /// Handles a record whose descriptors found no room in this process's table. That is not the
    /// peer's fault: this process does without what came with them.
    fn take_stripped(&mut self, record: Record) -> Result<(), PeerError> {
        match (record, self.stage) {
            (Record::Object { object, .. }, Stage::Up) => {
                self.notify_forgotten(object);
                Ok(())
            }
            // The requests to copy through it are refused.
            (Record::Bulk, Stage::Up) => Ok(()),
            (Record::Welcome(_), Stage::Greeting) => Err(PeerError::Exhausted(TOO_MANY_OPEN)),
            (record, _) => self.take_record(record, Vec::new()),
        }
    }

    fn notify_forgotten(&self, object: u64) {
        if let Some(socket) = &self.socket {
            // If it cannot be sent, only this object is not mapped again.
            let _ = socket.send(&Record::ObjectUnmapped { object }.to_bytes(), &[]);
        }
    }

    /// Makes sure that the peer has the object behind `memory`, if there is one; returns the
    /// memory's span in it.
    pub(super) fn offer_object(&mut self, memory: &Memory) -> Option<ObjectSpan> {
        let (file, object, offset) = memory.object()?;
        // A peer that has not proven itself is sent nothing, and expects a proof before anything
        // else.
        let socket = self.socket.as_ref().filter(|_| !self.unproven)?;
        if !self.objects.was_sent(object) {
            let len = memfd::checked_len(file).ok()?;
            let base = (memory.as_ptr() as u64).wrapping_sub(offset);
            let record = Record::Object { object, base, len }.to_bytes();
            // If the socket's queue is full the peer accesses the memory by transfer instead.
            socket.send(&record, &[file]).ok()?;
            self.objects.sent(object);
        }
        Some(ObjectSpan { object, offset })
    }

    /// Notifies the peer that an object is freed.
    pub(super) fn retire_object(&mut self, object: u64) {
        if self.objects.forgotten(object)
            && let Some(socket) = &self.socket
        {
            // If it cannot be sent, the peer keeps a mapping until its cache overflows.
            let _ = socket.send(&Record::ObjectFreed { object }.to_bytes(), &[]);
        }
    }

    /// Maps memory that the peer exports into this process; or returns why not.
    pub(super) fn map(&mut self, region: &RegionDescriptor) -> Result<Memory, &'static str> {
        let span = region.object.ok_or("it does not lie in a memory object")?;
        let permission = self
            .imports
            .check(region.key, region.base, region.len)
            .ok_or("its key is not exported")?;
        let memory = self
            .objects
            .find(span, region.base, region.len)
            .ok_or("its memory object was not received, or the region does not lie in it")?;
        Ok(if permission.allows(Direction::Put) {
            memory
        } else {
            memory.read_only()
        })
    }

    /// Memory of the peer's at its address `base`, in one of its objects, mapped here.
    pub(super) fn find_object(&mut self, span: ObjectSpan, base: u64, len: u64) -> Option<Memory> {
        if !self.objects.has(span.object)
            && let Err(cause) = self.read_records()
        {
            // The object was sent before the descriptor, but on the socket.
            self.failing.get_or_insert(cause);
        }
        self.objects.find(span, base, len)
    }

    /// Notes that cross-memory attach no longer works.
    #[cold]
    pub(super) fn refuse_attach(&mut self, reason: String) {
        tracing::warn!(reason, "transfers go through a shared area from now on");
        self.attach = Attach::Refused(reason);
    }

    /// Ends the peer's access to our memory: exports, and transfers that both sides work on. The
    /// keys that it has are invalid from now on, even if it has not noticed yet that the connection
    /// has ended. Memory that it does not stop writing is `deferred`.
    pub(super) fn revoke(&mut self) {
        let mut held = self.exports.revoke_all();
        held.append(&mut split_copy::revoke(self));
        if !held.is_empty() {
            self.hold(held);
        }
    }

    /// A second reference to the memory that the two processes share.
    #[cfg(all(test, not(loom)))]
    pub(super) fn view(&self) -> Arc<Mapping> {
        self.imports.view()
    }

    /// How many slots a ring has.
    pub(super) fn ring_slots(&self) -> usize {
        self.layout.ring_bytes / SLOT_BYTES
    }

    /// Whether only the receiving side issues fences.
    pub(super) fn is_asymmetric(&self) -> bool {
        self.asymmetric
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !self.own.process.is_this_process() {
            // Checking whether the peer still accesses it takes memory that this process does not
            // have.
            std::mem::forget(std::mem::take(&mut self.deferred));
            return;
        }
        self.revoke();
        if let Some(socket) = &self.socket
            && Arc::strong_count(socket) > 1
        {
            // The socket is kept because of quarantined memory; for the peer, the connection ends
            // here. A peer that is gone by now needs no notice.
            let _ = net::shut_writing(socket);
        }
    }
}

/// Pins the process at the other end of `socket`, and tests whether its memory can be read.
fn probe(socket: &RecordSocket, process: ProcessInfo) -> Attach {
    let pid = socket.peer().map_or(0, |credentials| credentials.pid);
    if pid <= 0 {
        return Attach::Refused(
            "the peer's process is not visible here (pid namespaces)".to_owned(),
        );
    }
    let mark = Mark {
        address: process.probe_address,
        value: process.probe_value,
    };
    match Pinned::new(socket, mark) {
        Ok(pinned) => Attach::Usable(pinned),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Attach::Refused(format!(
            "process {pid} is not the peer (pid namespaces, or it forked)"
        )),
        Err(error) => Attach::Refused(refusal(&error)),
    }
}

/// The reason to report for an error of cross-memory attach.
pub(super) fn refusal(error: &std::io::Error) -> String {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            " (kernel.yama.ptrace_scope, a seccomp filter, or processes in different user namespaces)"
        }
        std::io::ErrorKind::Unsupported => " (a seccomp filter, or a kernel without it)",
        _ => "",
    };
    format!("cross-memory attach: {error}{hint}")
}

/// For handlers of the peer's packets.
impl Outlet for Pair {
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError> {
        Self::send(self, &parts)
    }

    fn read_now(&mut self, local: &Memory, remote: &RegionDescriptor, notify: &[u8]) -> bool {
        transfer::read_now(self, local, remote, notify)
    }

    fn revoke_now(&mut self, key: u64) -> bool {
        self.try_unexport(key);
        self.deferred.is_empty()
    }
}

impl Pair {
    /// Whether the peer can be trusted to have copied what it reports to have copied into our
    /// memory. Bytes that it left out would not be noticed; but a process of our own user could
    /// read the earlier contents in other ways.
    pub(super) fn may_help(&self) -> bool {
        self.credentials
            .is_some_and(|peer| peer.uid == self.own.uid)
    }
}
