//! The contract that every method keeps.
//!
//! # Order of calls
//! [`Method::listen`] once if other processes are to connect to this one; [`Method::connect`] for each peer; then [`Method::send`] and
//! [`Method::transfer`] at will, [`Method::poll`] often (all progress is the caller's), and [`Method::tick`] when [`Method::deadline`]
//! is reached, and at least every 50 ms while anything is open and the caller is awake. To sleep: [`Method::arm`]; if it returns
//! `true`, wait until [`Method::pollable`] is readable or [`Method::deadline`] is reached; then [`Method::disarm`]. Where the method
//! has a quicker way to sleep, [`Method::prepare_park`] replaces arming and [`Park::park`] replaces waiting. Either way, everything
//! that there is to poll for ends the sleep at once; no time limit stands in for it. The sleep itself does not borrow the method:
//! other threads may use the method meanwhile, one at a time, and even poll it. Before such a thread stops using the method, it calls
//! [`Method::stays_armed`] and wakes the sleeper if it has to check for itself.
//!
//! # Time
//! No method reads a clock: the caller passes the time, as `now`, to every call that begins, measures or ends a time
//! limit. A method that is passed a time before the latest one it has been passed uses the latest one, so that time
//! never goes backwards. (`shm` times copies with a clock of its own, to choose how it makes the next ones: nothing
//! that is visible outside depends on it.) How old `now` may be:
//! - [`Method::poll`] and [`Method::spin`] take the caller's last reading. A caller that polls all the time reads the
//!   clock about every 16 µs, and one that has done something else for long may pass an old reading, for at most 64
//!   polls: a poll costs no clock reading. Limits of methods are milliseconds and more.
//! - [`Method::connect`], [`Method::tick`], [`Method::arm`], [`Method::prepare_park`], [`Method::disconnect`] and
//!   [`Method::set_time`] take a reading made for the call.
//! - Time limits that begin in other calls, such as that of a connection that a send makes anew, count from the latest
//!   time that was passed to the method. A caller that may have been away for long calls [`Method::connect`] or
//!   [`Method::set_time`] first.
//! - A method that measures round trips states [`Capabilities::exact_time`]: its polls take a reading made for the poll
//!   too, and [`Method::set_time`] comes before each send and transfer.
//!
//! # Forks
//! A method belongs to the process that made it ([`causeway_sys::fork::Owner`]). A forked child may only drop it: that
//! closes the child's copies of descriptors and frees heap memory, sends nothing, removes nothing from file systems,
//! and touches no memory that is shared with peers, which the child does not have.
//!
//! # Registration
//! Network adapters can access memory only after it was registered: its pages are pinned and entered into their tables,
//! which costs more than most transfers. The caller of a method that states [`Capabilities::needs_local_registration`]
//! passes, with each span to move or grant, the [`Registration`] that covers the span ([`Method::register`]).
//! Registrations belong to no peer, and outlive connections; so a caller may keep them, as long as the memory has the
//! same [identity](Memory::id). Other methods need none: callers pass [`Registration::NONE`], at no cost. Packets,
//! words of atomics and receive buffers of the sink ([`Sink::receive_buffer`]) need no registration with any method.
//!
//! # Pausing
//! A receiver without room for the packets of a peer pauses it ([`Method::pause`]): the method leaves the packets where they are (in
//! the ring, in the socket), and once that place is full the peer's [`Method::send`] returns [`SendError::WouldBlock`]. Other peers
//! are not affected, and the paused one does not keep this process awake. Of the data from a paused peer:
//! - The method handles everything before the first packet that it holds back as usual. That packet and all packets
//!   behind it, notify packets of transfers included, wait in their order.
//! - Transfers and atomics may wait, too, in either direction: where they share a stream with packets, they wait for
//!   the packets before them. They share one over `tcp` and `udp`, and over `shm` if the owner of the memory has to
//!   copy, has begun to send it in pieces, or has to perform the atomic. The method still reports those that were
//!   complete before the first packet held back.
//! - The method still delivers a packet that it has begun to place in a receive buffer of the sink
//!   ([`Sink::receive_buffer`]), and one that only waited for the data of a transfer. It begins to place no other.
//! - When the peer is lost, or closes the connection, the pause ends: the method delivers the packets that have
//!   arrived, as many as the peer may send ahead, and then calls [`Sink::peer_down`]. Over `tcp`, if more data is on
//!   the way than the sockets hold, this process cannot see the end of the connection. It then probes the peer, and
//!   detects the end within a third of the time for which a peer may be silent.
//!
//! Pausing is for users of this layer whose bound on memory for received packets is not known to senders: a stream
//! whose program does not read, with a receive buffer of a size that the program sets; a handler of active messages
//! that has to send and finds no room. The engine pauses no peer, since each packet has memory at the receiver before
//! it is sent: a short message costs credit that its receiver has granted, the number of announcements has a limit
//! known to both sides, and every other packet belongs to an operation that exists (the engine's `credit` module). A
//! peer that sends more violates the protocol, and loses its connection. Pausing would also hold back packets that
//! free memory: credit, and replies for which other operations wait, would queue behind a message without a receive.
//!
//! # Holding
//! A method that states [`Capabilities::holds_packets`] may hold packets that it has accepted, to send several of them at once, or
//! because the network accepts no more: they leave with its next polls, or with [`Method::flush`] as far as the network accepts them
//! then. A caller that will not poll for long, because it computes, first makes sure that [`Method::holds_packets`] returns `false`.
//! Packets over other methods reach their receivers whatever the sender does after [`Method::send`].
//!
//! # Guarantees of every method
//! - Packets between two processes on one peer handle arrive once, in order, or not at all once the peer was reported
//!   down. A packet that [`Method::send`] accepted belongs to the method.
//! - [`SendError::WouldBlock`] obliges the caller to keep the packet. [`Sink::writable`] reports when to try again;
//!   trying earlier is allowed.
//! - Every transfer that was accepted completes exactly once, with success or an error, in [`Sink::transfer_done`];
//!   those of a dead peer complete before its [`Sink::peer_down`].
//! - Where both processes may copy parts of a transfer ([`Method::share_copies`]), it completes when all parts have
//!   been copied; after [`Sink::transfer_done`] neither process touches the local memory.
//! - Every atomic operation that was accepted completes exactly once, in [`Sink::atomic_done`]; those of a dead peer
//!   complete before its [`Sink::peer_down`].
//! - A notify packet of a transfer arrives after the last byte of the list has been written. Packets that were sent
//!   before the transfer started arrive before it, those sent after the transfer completed arrive after it. A failed
//!   transfer's notify packet is never delivered.
//! - [`Method::revoke`] returns once the peer can no longer write the memory through that key, nor take later contents
//!   of the memory for what was exported: at once, or after the piece that the peer is copying at this moment (bounded
//!   by the copy of [`Limits::max_piece`] bytes, or by the peer's death). It does not wait for a peer that is stopped
//!   in the middle of a copy: the method keeps the memory until the copy has ended.
//! - A packet that was placed in a receive buffer of the sink ([`Sink::receive_buffer`]) keeps its place in the order
//!   of packets: it is delivered when it is complete ([`Sink::placement_done`]). No other packet of that peer is
//!   delivered in between, except notify packets of transfers.
//! - [`Sink::peer_up`] is called once before the first packet of a peer that connected to us.
//! - Where no process listens, [`Method::send`] and [`Method::transfer`] may accept, or return
//!   [`SendError::WouldBlock`]; either way [`Sink::peer_down`] follows.
//! - After [`Sink::peer_down`], the next send or transfer on the handle of a peer that *we* connected to connects
//!   again, to a new incarnation; on the handle of one that connected to us it returns [`SendError::Gone`].
//! - A peer that violates the protocol is reported down with [`PeerError::Protocol`]. It never makes a method panic,
//!   block or allocate without bound.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use causeway_sys::blocks::Target;
use causeway_sys::memory::Memory;
use causeway_sys::secret::Secret;
pub use causeway_wire::atomic::{Operation, Outcome};
use causeway_wire::node::Certificate;
use causeway_wire::region::{RegionDescriptor, Regions};
use causeway_wire::user::User;
use smallvec::SmallVec;

use crate::address::{self, Address};
use crate::error::{Error, PeerError, SendError, TransferError};
pub use crate::identity::Identity;
pub use crate::packet::{Packet, Takes};
use crate::wake::{Park, Parking, WakeFlag};

/// One way of carrying packets and remote memory. See the module's page for the contract.
pub trait Method: Send {
    /// The scheme of the addresses that this method serves.
    fn scheme(&self) -> &'static str;

    /// What this method can carry.
    fn limits(&self) -> Limits;

    /// The features in which methods differ. Callers base decisions on them, never on the scheme. They do not change while the method
    /// exists.
    fn capabilities(&self) -> Capabilities;

    /// Listens at `address`, for connections from other processes. Returns the address that they
    /// use (a port 0 is replaced by the real one).
    fn listen(&mut self, address: &Address) -> Result<Address, Error>;

    /// The cluster's key, for connections that are made from now on. Methods that use none need do nothing.
    fn set_key(&mut self, key: Secret) {
        let _ = key;
    }

    /// A handle for the process at `address`. The same address gives the same handle. The connection itself is made
    /// lazily: if no process listens at the address, [`Sink::peer_down`] reports that after the first send.
    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error>;

    /// The process behind a handle of [`Method::connect`] may also be reached at this address: while the ones before do not
    /// reply, the method tries it, too. Returns whether it does; a method that does not is asked to connect to it
    /// when it has failed to reach the process at the first address.
    fn also_at(&mut self, peer: Peer, address: &Address) -> bool {
        let _ = (peer, address);
        false
    }

    /// Passes the time for calls without a `now` argument, such as [`Method::send`]; see "Time" on the module's page.
    fn set_time(&mut self, now: Instant);

    /// The address under which a peer can be reached, or for a peer that connected to us one that describes it.
    fn address(&self, peer: Peer) -> Option<Address>;

    /// Checks the claim of a peer that has connected to us that it listens at `claimed`. Returns the address under
    /// which others would look it up, if what the method knows for certain agrees; `None` if not, or if the method
    /// cannot find out. Any other process that could listen there must be trusted as much as the peer.
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let _ = (peer, claimed);
        None
    }

    /// The identity of the peer, once the connection is up.
    fn identity(&self, peer: Peer) -> Option<Identity>;

    /// The node that the peer belongs to, with its name and roles, once the connection is up: proven by the peer, and
    /// signed by an accepted authority. `None` if the method does not prove nodes ([`Capabilities::identifies_nodes`]).
    fn node(&self, peer: Peer) -> Option<Arc<Certificate>> {
        let _ = peer;
        None
    }

    /// The one user that the peer speaks for, once the connection is up, if the agent of its node has stated that
    /// ([`Identity::OneUser`]).
    fn user(&self, peer: Peer) -> Option<Arc<User>> {
        let _ = peer;
        None
    }

    /// Sends one packet, gathered from `parts`, to `peer`. On `Ok` the bytes have been taken.
    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError>;

    /// Sends one packet as [`Method::send`] does: `head`, then the bytes of `body`. A method that
    /// cannot gather them in place uses `scratch`.
    fn send_gather(
        &mut self,
        peer: Peer,
        head: &[u8],
        body: &[Memory],
        scratch: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.send(peer, &[gather(head, body, scratch)])
    }

    /// Sends one packet as [`Method::send`] does: `head`, then `len` bytes that `fill` writes, in place if the method
    /// can, or in `scratch`. `fill` may be called even if there turns out to be no room for the packet.
    fn send_filled(
        &mut self,
        peer: Peer,
        head: &[u8],
        (len, fill): (usize, &dyn Fn(Target<'_>)),
        scratch: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        scratch.resize(len, 0);
        fill(Target::from(&mut scratch[..]));
        self.send(peer, &[head, scratch])
    }

    /// Sends one packet, gathered from `parts`, to each of `peers`, with the results of one call of [`Method::send`] for each of them
    /// in the order of the list. A method that can copy the packet once for all peers does so.
    /// - Order: at each peer the packet follows what was sent to it before, and precedes what is sent to it later. Between peers there
    ///   is no order. A peer that is named twice gets the packet twice.
    /// - Partial results: each peer accepts the packet or refuses it, independently of the others. The indices in `peers` of those that
    ///   refuse are appended to `refused` with the reasons, ascending; `refused` keeps what it had before. All others have accepted, and
    ///   nothing is taken back from them.
    /// - After a refusal the peers that follow are tried all the same, each once for each time that it is named.
    /// - Errors: those of [`Method::send`]. After [`SendError::WouldBlock`], [`Sink::writable`] reports when to try that peer again;
    ///   [`SendError::Gone`] is for one that is gone or was never known; a packet above [`Limits::max_packet`] is
    ///   [`SendError::TooLarge`] for each peer that is not gone.
    fn send_many(
        &mut self,
        peers: &[Peer],
        parts: &[&[u8]],
        refused: &mut Vec<(usize, SendError)>,
    ) {
        for (at, &peer) in peers.iter().enumerate() {
            if let Err(error) = self.send(peer, parts) {
                refused.push((at, error));
            }
        }
    }

    /// Whether accepted packets to `peer` have not left this process yet; see "Holding" on the module's page.
    fn holds_packets(&self, _peer: Peer) -> bool {
        false
    }

    /// Sends the held packets of all peers, as far as the network accepts them now. Delivers nothing.
    fn flush(&mut self) {}

    /// The cost of a message over this method, as a rank among methods: an address of the method with the lowest rank
    /// is tried first. The built-in methods have 10 (`mem`), 20 (`shm`), 30 (`vi`), 40 (`ofi`), 50 (`tcp`) and 60
    /// (`udp`); of methods of equal rank the one that was registered first comes first.
    fn rank(&self) -> u8 {
        address::rank(self.scheme())
    }

    /// Holds the packets of `peer` back from now on; see "Pausing" on the module's page. It lasts until [`Method::resume`],
    /// [`Method::disconnect`] or [`Sink::peer_down`]. Before the peer is connected it applies to the next connection.
    fn pause(&mut self, peer: Peer);

    /// Delivers the packets of `peer` again: the next polls deliver those that were held back, before all others.
    fn resume(&mut self, peer: Peer);

    /// Whether `peer` is readable and writable, as of the last poll; neither if it is unknown or gone.
    fn readiness(&mut self, peer: Peer) -> Readiness;

    /// Cancels the placement of the packet that is being placed ([`Sink::receive_buffer`]), if any: the method no
    /// longer writes to the receive buffer, and delivers the packet by [`Sink::packet`] when it is complete.
    fn cancel_placement(&mut self, _peer: Peer) {}

    /// Registers `memory` for transfers and grants, of all peers: for reading only if it is
    /// [read-only](Memory::is_writable). Returns an error if the system or the adapter accepts no more. The caller ends
    /// the registration once the memory is freed; the method keeps no clone of it.
    ///
    /// Methods that need no registration return [`Registration::NONE`].
    fn register(&mut self, _memory: &Memory) -> Result<Registration, Error> {
        Ok(Registration::NONE)
    }

    /// Ends a registration for further use: it is refused from now on. Transfers and grants that were begun with it
    /// keep what they need of it until they end. An unknown or ended registration is ignored.
    fn deregister(&mut self, _registration: Registration) {}

    /// Lets `peer`, and no other peer, access `memory` until [`Method::revoke`]. The memory stays alive as long as it
    /// is granted. `registration` covers the whole of `memory`, where the method needs one; see "Registration" on the
    /// module's page. A grant is also called an export: an export is the peer's view of it.
    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        registration: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error>;

    /// Ends an export. An unknown key is ignored.
    fn revoke(&mut self, peer: Peer, key: u64);

    /// Whether `peer` has written each byte of an export at least once since the export was made. Where the peer writes without this
    /// process ([`Capabilities::one_sided`]) the method cannot find out, and returns `true`. A caller trusts a peer's report that it
    /// has written everything only if this is `true`: otherwise earlier contents of the memory would be treated as the peer's data.
    fn is_all_written(&self, _peer: Peer, _key: u64) -> bool {
        true
    }

    /// Ends an export as [`Method::revoke`] does, but does not wait for the peer: `false` if the peer may be writing the memory at
    /// this moment. To find out when it has stopped, the caller calls again, at the earliest after [`Method::tick`].
    fn try_revoke(&mut self, peer: Peer, key: u64) -> bool {
        self.revoke(peer, key);
        true
    }

    /// Starts moving bytes between local memory and memory that `peer` exports to us.
    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError>;

    /// Writes the first bytes of `local` over the whole of a region that `peer` exports to us, and sends the packet
    /// `notify` after it, both before it returns. Returns `false` if it has not: because it would take longer than a
    /// short copy, because something is queued before it, or because it failed. The region may have been written
    /// nevertheless. The caller then uses [`Method::transfer`], which reports errors.
    fn write_now(
        &mut self,
        _peer: Peer,
        _local: &Memory,
        _remote: &RegionDescriptor,
        _notify: &[u8],
    ) -> bool {
        false
    }

    /// Starts an atomic operation on a 64-bit word that `peer` exports to us for reading and writing, if
    /// [`Capabilities::remote_atomics`] is set. [`Sink::atomic_done`] reports the value that the word had before, exactly once, also
    /// if the peer is lost: then with the error, before [`Sink::peer_down`], and whether the operation was performed is not known.
    ///
    /// Each is one atomic instruction of a processor on the word itself, in the owner's process or, over `shm` where the owner's
    /// memory is mapped ([`Method::allocate`]), in this one. So an operation is atomic with regard to every other remote atomic on the
    /// word, of every peer and over every method, and to the owner's own atomic accesses ([`Memory::word`]). It is not atomic with
    /// regard to transfers, or plain reads and writes, of the same bytes. If an operation completed before another was started, they
    /// take effect in this order; otherwise there is no order between them, nor with packets and transfers. Where
    /// [`Capabilities::one_sided`] is not set, or memory is not mapped, an operation takes effect when the owner polls.
    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        let _ = (peer, atomic);
        Err(SendError::Unsupported("this method has no remote atomics"))
    }

    /// From how many bytes on messages to a peer that wait for room are better announced, and read by the peer, although they would
    /// fit into a packet. `None`: they are better sent whole.
    fn announces_from(&mut self, _peer: Peer) -> Option<usize> {
        None
    }

    /// Sets how transfers from now on are shared with the peers, where method and peer support that: on one host both
    /// processes may copy parts of one transfer, whichever of them polls and has nothing else to do. The guarantees for
    /// transfers apply to shared ones as well. Other methods ignore the call.
    fn share_copies(&mut self, _sharing: Sharing) {}

    /// Whether both processes copy parts of most transfers, so that it matters little for the load of either which of them starts one.
    fn shares_copies(&self) -> bool {
        false
    }

    /// Maps memory that `peer` exports to us into this process, where method and memory allow it (a
    /// buffer from [`Method::allocate`] on the same host): reading and writing it then needs no
    /// transfer. Otherwise returns `None`, with the reason in [`Method::report`].
    fn map(&mut self, _peer: Peer, _region: &RegionDescriptor) -> Option<Memory> {
        None
    }

    /// Allocates memory of `len` bytes that is suited to this method: peers may be able to
    /// [`map`](Method::map) it. Private memory, unless the method can do better.
    fn allocate(&mut self, len: usize) -> Result<Memory, Error> {
        Memory::try_zeroed(len).map_err(|source| Error::System {
            what: "allocating memory".to_owned(),
            source,
        })
    }

    /// Makes progress and delivers what has arrived; returns whether anything happened. Does a
    /// bounded amount of work, fairly among peers.
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool;

    /// Whether a poll at this time would find nothing, where that is known sooner than a poll takes. The look counts as a poll: whatever polls check now and then
    /// happens as often. `false`: the caller has to poll.
    fn finds_nothing(&mut self, _now: Instant) -> bool {
        false
    }

    /// Polls at most `most` times, until something happens: for a caller that waits. Each of the
    /// polls may check less than [`Method::poll`] does, as long as arrivals are found.
    fn spin(&mut self, now: Instant, sink: &mut dyn Sink, most: u32) -> bool {
        (0..most).any(|_| self.poll(now, sink))
    }

    /// Timers: connection attempts, liveness.
    fn tick(&mut self, now: Instant, sink: &mut dyn Sink);

    /// Whether this process has moved bytes, of its own transfers or of a peer's, since the last call. Then the end of such a
    /// transfer, or the next one, is likely to come soon, and polling for it costs less than sleeping.
    fn take_moved(&mut self) -> bool {
        false
    }

    /// Prepares to sleep. `false` if there is something to poll for after all.
    fn arm(&mut self, now: Instant) -> bool;

    /// Ends what [`Method::arm`] began; harmless without it.
    fn disarm(&mut self);

    /// Whether the sleep that [`Method::arm`] or [`Method::prepare_park`] began will still be ended by every event,
    /// whatever was called since on behalf of another thread. `false`: there may be something to poll for that does not
    /// end it; the sleeper has to be woken. Checks the state of this process, without a system call.
    fn stays_armed(&self) -> bool {
        false
    }

    /// Becomes readable when, after [`Method::arm`], there is something to poll for. It is the same descriptor as long as
    /// the method exists.
    fn pollable(&self) -> BorrowedFd<'_>;

    /// Prepares to park: to sleep in the method's own way ([`Method::parker`]), which is quicker than on a descriptor.
    /// Whatever would make [`Method::pollable`] readable ends the sleep, and so does [`Park::unpark`]. `flag` is
    /// checked after the sleep was announced, so that no call of another thread gets lost in between.
    /// [`Method::disarm`] ends what this begins, whatever it returns.
    fn prepare_park(&mut self, now: Instant, flag: &WakeFlag) -> Parking {
        let _ = (now, flag);
        Parking::Unsupported
    }

    /// Where the method's sleeper parks; `None` if it cannot park. It is the same as long as the method exists.
    fn parker(&self) -> Option<Arc<dyn Park>> {
        None
    }

    /// Whether nothing can arrive by this method: no process can connect, and there is no peer. Then it is ticked, but
    /// neither polled nor slept on, whatever [`Method::arm`] would return, until the caller uses it again.
    fn is_unused(&self) -> bool {
        false
    }

    /// When [`Method::tick`] has to be called next, at the latest. Intervals of repeated checks
    /// count from the latest time that was passed to the method.
    fn deadline(&self) -> Option<Instant>;

    /// Drops a peer: its transfers complete with an error, its exports end, its handle is free to be
    /// reused after this call. There is no [`Sink::peer_down`].
    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink);

    /// A number that changes while bytes of transfers move to or from a peer, as far as the method
    /// can see: if it has not changed for long, they have stalled.
    fn activity(&self, _peer: Peer) -> u64 {
        0
    }

    /// What was chosen for this peer and why, as text for people.
    fn report(&self, peer: Peer) -> Option<PeerReport>;
}

/// Copies `head` and the bytes of `body` one after the other into `scratch`; returns them.
pub(crate) fn gather<'a>(head: &[u8], body: &[Memory], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    let len = head.len() + body.iter().map(Memory::len).sum::<usize>();
    if scratch.len() < len {
        scratch.resize(len.next_power_of_two(), 0);
    }
    let (packet, _) = scratch.split_at_mut(len);
    let (front, mut rest) = packet.split_at_mut(head.len());
    front.copy_from_slice(head);
    for memory in body {
        let (part, behind) = rest.split_at_mut(memory.len());
        memory.read_at(0, part);
        rest = behind;
    }
    packet
}

/// A peer of one method: meaningless to any other. Never reused for another peer while the caller
/// may hold it (the upper half is a generation).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u64);

impl Peer {
    /// A handle from a table index and a generation.
    pub fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    /// The table index.
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }

    /// The generation.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A method's number for memory that was registered with it: meaningless to any other method, and
/// never reused. See [`Method::register`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registration(pub u64);

impl Registration {
    /// No registration, for methods that need none.
    pub const NONE: Self = Self(0);
}

/// The caller's own number for a transfer, returned when it completes.
pub type Token = u64;

/// The sizes that a method supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest packet in bytes, at least 4096 + 256.
    pub max_packet: usize,
    /// Transfers are done in pieces of at most this many bytes.
    pub max_piece: usize,
    /// Most fragments of either list of a [`Transfer`]; a longer one is refused with [`SendError::ListTooLong`].
    /// `usize::MAX` if there is no limit but memory.
    pub max_list: usize,
    /// Messages up to this many bytes are better sent whole, in a packet, than announced and moved
    /// by a transfer. A preference, at most `max_packet`.
    pub eager_bytes: usize,
    /// The same for messages in memory that the peer may map ([`Method::map`]), where that is less.
    pub mapped_eager_bytes: usize,
}

/// The features in which methods differ; see [`Method::capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A transfer moves bytes without the remote process taking part: it need not poll.
    pub one_sided: bool,
    /// An export opens memory to the one peer that it was made for. Otherwise the key of an export
    /// may open it to every process that learns the key.
    pub per_peer_protection: bool,
    /// The method has remote atomics ([`Method::atomic`]).
    pub remote_atomics: bool,
    /// Local memory of transfers, and memory that is granted, has to be registered first; see "Registration" on the module's page. A
    /// transfer of other memory is refused with [`SendError::Unregistered`], a grant with [`Error::Unsupported`].
    pub needs_local_registration: bool,
    /// A peer whose process ends is reported with [`Sink::peer_down`] even if nothing is sent to it.
    pub reports_peer_exit: bool,
    /// Each peer proves which node it belongs to ([`Method::node`]) before any data is sent to it or accepted from it.
    pub identifies_nodes: bool,
    /// Peers can map memory from [`Method::allocate`] ([`Method::map`]).
    pub maps_memory: bool,
    /// Accepted packets may be held until later polls before they leave; see "Holding" on the module's page.
    pub holds_packets: bool,
    /// The method measures round trips, so that clock readings made before a poll or a send are not
    /// exact enough; see "Time" on the module's page.
    pub exact_time: bool,
}

/// Whether a peer is readable and writable; see [`Method::readiness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// A packet waits, or has begun to arrive. Packets of a peer that is not paused wait at most for the next poll.
    pub readable: bool,
    /// A packet of any size would be accepted. If not, [`Sink::writable`] follows as after [`SendError::WouldBlock`].
    pub writable: bool,
}

/// What a peer may do with an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    Read,
    /// Write only.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Whether this access includes `direction`, seen from the peer that starts the transfer.
    pub fn allows(self, direction: Direction) -> bool {
        match direction {
            Direction::Get => self != Access::Write,
            Direction::Put => self != Access::Read,
        }
    }

    /// Refuses an export with this access if `memory` does not allow it.
    pub(crate) fn check(self, memory: &Memory) -> Result<(), Error> {
        match self.allows(Direction::Put) && !memory.is_writable() {
            true => Err(Error::Unsupported(
                "memory that is for reading only cannot be exported for writing",
            )),
            false => Ok(()),
        }
    }
}

/// Which way a transfer moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer's memory to ours.
    Get,
    /// From our memory to the peer's.
    Put,
}

/// Whether copying is shared; see [`Method::share_copies`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// Peers may help with transfers that this process starts.
    pub offers: bool,
    /// This process helps with transfers that peers start.
    pub helps: bool,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            offers: true,
            helps: true,
        }
    }
}

/// An atomic operation on a word of remote memory; see [`Method::atomic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Atomic {
    /// The operation.
    pub operation: Operation,
    /// The word: 8 bytes of a region ([`RegionDescriptor::part`]) at a multiple of 8 in the owner's memory.
    pub word: RegionDescriptor,
    /// Returned at completion.
    pub token: Token,
}

impl Atomic {
    /// Bytes of the word.
    pub const BYTES: u64 = 8;

    /// The error to complete with, if the region is not a word.
    pub fn mistake(&self) -> Option<TransferError> {
        (self.word.len != Self::BYTES).then_some(TransferError::Length {
            local: Self::BYTES,
            remote: self.word.len,
        })
    }
}

/// Performs an operation on the word at the front of `memory`, which its owner exports for reading and writing.
pub fn perform(operation: Operation, memory: &Memory) -> Outcome {
    let Some(word) = memory.word(0) else {
        return match memory.is_writable() && memory.len() as u64 >= Atomic::BYTES {
            true => Outcome::Misaligned,
            false => Outcome::Protection,
        };
    };
    Outcome::Old(match operation {
        Operation::FetchAdd(value) => word.fetch_add(value, Ordering::AcqRel),
        Operation::CompareSwap { expected, new } => {
            let swapped = word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire);
            swapped.unwrap_or_else(|found| found)
        }
    })
}

/// The result of an operation, from its outcome as the owner reports it.
pub fn result_of(outcome: Outcome) -> Result<u64, TransferError> {
    match outcome {
        Outcome::Old(old) => Ok(old),
        Outcome::Protection => Err(TransferError::Protection),
        Outcome::Misaligned => Err(TransferError::Misaligned),
    }
}

/// A list of local memory. One span, the usual case, needs no allocation.
pub type Spans = SmallVec<[Memory; 1]>;

/// A packet that goes with a transfer. A short one needs no allocation.
pub type NotifyPacket = SmallVec<[u8; 24]>;

/// A list of fragments to move, with one completion (SEAMUR, Yu et al. §5.3).
#[derive(Debug, Clone)]
pub struct Transfer {
    /// The direction.
    pub direction: Direction,
    /// Local memory, in order.
    pub local: Spans,
    /// The registrations that cover the fragments of `local`, one for each, if
    /// [`Capabilities::needs_local_registration`] is set; otherwise ignored.
    pub registrations: Vec<Registration>,
    /// Remote memory, in order; the fragments need not match the local ones, but both lists cover the same number of bytes. A part of
    /// a region is named by raising `base` (and the object's offset) and lowering `len`; see [`RegionDescriptor::part`].
    pub remote: Regions,
    /// A packet for the peer, delivered after the last byte has been written (in either direction).
    pub notify: Option<NotifyPacket>,
    /// Returned at completion.
    pub token: Token,
}

impl Transfer {
    /// The number of fragments of its longer list: see [`Limits::max_list`].
    pub fn longest_list(&self) -> usize {
        self.local.len().max(self.remote.len())
    }
}

/// What was chosen for a peer, and why not something better.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerReport {
    /// Facts, as text for people, such as (`large transfers`, `cross-memory attach`).
    pub facts: Vec<(&'static str, String)>,
}

/// Bytes of a packet that the sink is shown before it provides a receive buffer for the rest: see [`Sink::receive_buffer`].
pub const PLACEMENT_HEAD_BYTES: usize = 16;

/// What a handler may do, while it runs, with the peer whose packet it handles; see [`Sink::handle`].
pub trait Outlet {
    /// Sends one packet, gathered from `parts`, as [`Method::send`] does.
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError>;

    /// Reads a whole region that the peer exports to us into the first bytes of `local`, and sends
    /// `notify` after it. Returns `false` if it has not, because it would take too long, has to
    /// wait, or fails: the caller then uses [`Method::transfer`], which reports errors.
    fn read_now(&mut self, _local: &Memory, _remote: &RegionDescriptor, _notify: &[u8]) -> bool {
        false
    }

    /// Ends an export to the peer. Returns `false` if the peer may still be accessing it: [`Method::try_revoke`] reports that.
    fn revoke_now(&mut self, _key: u64) -> bool {
        false
    }
}

/// Receives the events of a method. Called from inside [`Method::poll`], [`Method::tick`], [`Method::disconnect`] only.
pub trait Sink {
    /// A packet has arrived. It has to be copied before the call returns.
    fn packet(&mut self, peer: Peer, packet: Packet<'_>);

    /// A packet has arrived, and the sink may reply to its sender through `outlet`. Methods call this function, which
    /// passes the packet on to [`Sink::packet`] unless the sink implements it. As with active messages, a handler
    /// replies to the sender of the packet, and to no other peer: packets for others are sent after the poll. If
    /// `outlet` refuses a reply with [`SendError::WouldBlock`], the sink keeps the reply, and [`Sink::writable`]
    /// follows. Packets that were placed ([`Sink::placement_done`]) have no outlet.
    #[inline]
    fn handle(&mut self, peer: Peer, packet: Packet<'_>, _outlet: &mut dyn Outlet) {
        self.packet(peer, packet);
    }

    /// How many packets this poll is to deliver. It may deliver fewer.
    fn takes(&self) -> Takes {
        Takes::Some
    }

    /// A transfer is complete.
    fn transfer_done(&mut self, peer: Peer, token: Token, result: Result<(), TransferError>);

    /// An atomic operation is complete: the previous value of the word, or why the operation
    /// failed. Sinks that start none need not implement this.
    fn atomic_done(&mut self, _peer: Peer, _token: Token, _result: Result<u64, TransferError>) {}

    /// A peer has connected to this process.
    fn peer_up(&mut self, peer: Peer);

    /// A peer is unreachable; see the guarantees on the module's page.
    fn peer_down(&mut self, peer: Peer, cause: PeerError);

    /// There is room for packets to `peer` after a [`SendError::WouldBlock`].
    fn writable(&mut self, peer: Peer);

    /// A large packet of `len` bytes that starts with `head` has begun to arrive. A sink that has a receive buffer for
    /// the rest of its bytes appends that memory, writable and of exactly that size, to `into`, which is empty, and
    /// returns `true`: the method then writes them there and calls [`Sink::placement_done`] instead of
    /// [`Sink::packet`]. The method may use the memory until then, or until [`Method::cancel_placement`],
    /// [`Method::disconnect`] or [`Sink::peer_down`]. The method decides for which packets it calls this function.
    fn receive_buffer(
        &mut self,
        _peer: Peer,
        _head: &[u8; PLACEMENT_HEAD_BYTES],
        _len: usize,
        _into: &mut Spans,
    ) -> bool {
        false
    }

    /// The packet for which [`Sink::receive_buffer`] provided a buffer is complete.
    fn placement_done(&mut self, _peer: Peer, _head: &[u8; PLACEMENT_HEAD_BYTES]) {}
}

/// Ignores all events, for peers that are being dropped.
pub(crate) struct Silence;

impl Sink for Silence {
    fn packet(&mut self, _: Peer, _: Packet<'_>) {}
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
}
