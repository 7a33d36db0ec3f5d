//! The contract that every method keeps.
//!
//! # Order of calls
//! [`Method::listen`] once if others shall reach this process; [`Method::connect`] for each peer;
//! then [`Method::send`] and [`Method::transfer`] at will, [`Method::poll`] often (all progress is
//! the caller's), and [`Method::tick`] when [`Method::deadline`] has come, and at least every 50 ms while anything
//! is open and the caller is awake. To sleep: [`Method::arm`]; if it returns `true`, wait until
//! [`Method::pollable`] is readable or [`Method::deadline`] has come; then [`Method::disarm`]. Where the method has a
//! quicker way to sleep, [`Method::prepare_park`] takes the place of arming and [`Park::park`] that of waiting.
//! Whichever way, everything that there is to poll for ends the sleep at once; no time limit stands in for it.
//! The sleep itself borrows nothing of the method: other threads may use the method meanwhile, one at a time, even poll it.
//! Before such a thread leaves the method alone again, it asks [`Method::stays_armed`] and wakes the sleeper if it has to
//! look for itself.
//!
//! # Time
//! No method reads a clock: the caller passes the time, as `now`, to every call that begins, measures or ends a time
//! limit. A method that is given a time earlier than the latest one it knows uses that latest one, so that time never goes
//! backwards. (`shm` times copies with a clock of its own, to choose how it makes the next ones: nothing that others see depends on it.)
//! How old `now` may be:
//! - [`Method::poll`] and [`Method::spin`] take the caller's last reading. A caller that polls all the time reads the
//!   clock about every 16 µs, and one that has done something else for long may pass a reading from before, for at
//!   most 64 polls: a poll costs no clock reading. Limits of methods are milliseconds and more.
//! - [`Method::connect`], [`Method::tick`], [`Method::arm`], [`Method::prepare_park`], [`Method::disconnect`] and
//!   [`Method::set_time`] take a reading made for the call.
//! - What other calls begin, such as the connection that a send makes anew, counts from the latest time that the method
//!   was given. A caller that may have been away for long calls [`Method::connect`] or [`Method::set_time`] first.
//! - A method that measures round trips states [`Capabilities::exact_time`]: its polls take a reading made for the poll too, and
//!   [`Method::set_time`] comes before each send and transfer.
//!
//! # Forks
//! A method belongs to the process that made it ([`causeway_sys::fork::Owner`]). A forked child may only drop it: that gives
//! back the child's copies of descriptors and heap memory, sends nothing, removes nothing from file systems, and touches no
//! memory that is shared with peers, which the child does not have.
//!
//! # Registration
//! Network adapters reach memory only after they were told of it: its pages are pinned and entered into their tables, which
//! costs more than most transfers. A method that states [`Capabilities::needs_local_registration`] is given, with each span
//! that it shall move or grant, the [`Registration`] that the span lies in ([`Method::register`]). Registrations belong to
//! no peer, and outlive connections; so a caller may keep them, as long as the memory has the same
//! [identity](Memory::id). Other methods need none: callers name [`Registration::NONE`], and pay nothing.
//! Packets, words of atomics and receive buffers of the sink ([`Sink::receive_buffer`]) need no registration with any method.
//!
//! # Pausing
//! A receiver that has no room for the packets of a peer pauses it ([`Method::pause`]): the method leaves the packets where they are (in the
//! ring, in the socket), and once that place is full the peer's [`Method::send`] returns [`SendError::WouldBlock`]. Other peers notice
//! nothing, and the paused one does not keep this process awake. Of what a paused peer sends:
//! - The method handles everything before the first packet that it holds back as usual. That packet and all packets behind it, notify
//!   packets of transfers included, wait in their order.
//! - Transfers and atomics may wait, too, in either direction: where they share a stream with packets, they wait for the packets before
//!   them. They share one over `tcp` and `udp`, and over `shm` if the owner of the memory has to copy, has begun to send it in pieces, or has to do the atomic. The method still
//!   reports those that were complete before the first packet held back.
//! - The method still delivers a packet that it has begun to place in a receive buffer of the sink ([`Sink::receive_buffer`]), and one that
//!   only waited for the data of a transfer. It begins to place no other.
//! - When the peer is lost, or closes the connection, the pause ends: the method delivers the packets that have arrived, as many as the peer
//!   may send ahead, and then calls [`Sink::peer_down`]. Over `tcp`, if more is on the way than the sockets hold, this process cannot see
//!   the end of the connection. It then asks the peer for a sign of life, and finds the end within a third of the time for which a peer may be silent.
//!
//! Pausing is for users of the waist whose memory for received packets is bounded by something that only they know: a stream whose program does not
//! read, with a receive buffer of a size that the program sets; a handler of active messages that has to send and finds no room. The engine pauses no
//! peer, since each packet that it may be sent has its memory before it is sent: a short message costs credit that its receiver has granted, an
//! announcement is one of a number that both sides know, and all other packets belong to an operation that is there
//! (the engine's `credit` module). A peer that sends more breaks the protocol, and loses its connection. Pausing would also
//! hold back what frees memory: behind a message without a receive come the credit and the replies for which other operations wait.
//!
//! # Holding
//! A method that states [`Capabilities::holds_packets`] may hold packets that it has accepted, to send several of them
//! at once, or because the network takes no more: they leave with its next polls, or with [`Method::flush`] as far as the
//! network takes them then. A caller that will not poll for long, because it computes, first sees to it that
//! [`Method::holds_packets`] returns `false`. Packets over other methods reach their receivers whatever the sender does
//! after [`Method::send`].
//!
//! # What holds for every method
//! - Packets between two processes on one peer handle arrive once, in order, or not at all once the
//!   peer was reported down. A packet that [`Method::send`] accepted is the method's.
//! - [`SendError::WouldBlock`] obliges the caller to keep the packet. [`Sink::writable`] tells when to
//!   try again; trying earlier is allowed.
//! - Every transfer that was accepted completes exactly once, with success or an error, in
//!   [`Sink::transfer_done`]; those of a dead peer complete before its [`Sink::peer_down`].
//! - Where both processes may copy parts of a transfer ([`Method::share_copies`]), it completes when the last
//!   part of either has landed; after [`Sink::transfer_done`] neither touches the local memory.
//! - Every atomic operation that was accepted completes exactly once, in [`Sink::atomic_done`]; those of a dead peer
//!   complete before its [`Sink::peer_down`].
//! - A notify packet of a transfer arrives after the last byte of the list has landed. Packets that
//!   were sent before the transfer started come before it, those sent after the transfer completed
//!   come after it. A failed transfer's notify packet is never delivered.
//! - [`Method::revoke`] returns once the peer can no longer write the memory through that key, nor take
//!   what it reads there for what was exported: at once, or after the piece that it is copying at this
//!   moment (bounded by the copy of [`Limits::max_piece`] bytes, or by the peer's death). A peer that is
//!   stopped in the middle of it is not waited for: the method holds the memory until that has ended.
//! - A packet that was placed in a receive buffer of the sink ([`Sink::receive_buffer`]) takes its turn in the order of
//!   packets when it is complete ([`Sink::placement_done`]). Nothing of that peer comes in between but packets behind transfers.
//! - [`Sink::peer_up`] is called once before the first packet of a peer that connected to us.
//! - Where no process listens, [`Method::send`] and [`Method::transfer`] may accept, or return
//!   [`SendError::WouldBlock`]; either way [`Sink::peer_down`] follows.
//! - After [`Sink::peer_down`], a peer that *we* connected to is reconnected by the next send or transfer
//!   on the same handle, as a new incarnation; one that connected to us returns
//!   [`SendError::Gone`].
//! - A peer that sends nonsense is reported down with [`PeerError::Protocol`]. It never makes a method
//!   panic, block or allocate without bound.

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

    /// What this method can do, as far as methods differ. Callers decide by this, never by the scheme. It does not
    /// change while the method exists.
    fn capabilities(&self) -> Capabilities;

    /// Lets others reach this process at `address`. Returns the address that others use (a port 0
    /// is replaced by the real one).
    fn listen(&mut self, address: &Address) -> Result<Address, Error>;

    /// The cluster's key, for connections that are made from now on. Methods that use none need do nothing.
    fn set_key(&mut self, key: Secret) {
        let _ = key;
    }

    /// A handle for the process at `address`. The same address gives the same handle. The connection
    /// itself is made lazily: an address where no process listens shows as [`Sink::peer_down`] after the
    /// first send.
    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error>;

    /// Tells the time to calls that do not take it, such as [`Method::send`]; see "Time" on the module's page.
    fn set_time(&mut self, now: Instant);

    /// The address under which a peer can be reached, or for a peer that connected to us one that
    /// describes it.
    fn address(&self, peer: Peer) -> Option<Address>;

    /// A peer that has connected to us says that it listens at `claimed`: the address under which others would look it up,
    /// if what the method knows for certain agrees. `None` if not, or if the method cannot tell. Any other process that could listen
    /// there must be one that is trusted as much as the peer.
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let _ = (peer, claimed);
        None
    }

    /// The identity of the peer, once the connection stands.
    fn identity(&self, peer: Peer) -> Option<Identity>;

    /// The node that the peer belongs to, with its name and roles, once the connection stands: proven by the peer, and signed by an authority that is
    /// accepted. `None` if the method does not prove nodes ([`Capabilities::identifies_nodes`]).
    fn node(&self, peer: Peer) -> Option<Arc<Certificate>> {
        let _ = peer;
        None
    }

    /// The one user that the peer speaks for, once the connection stands, where the agent of its node has said so
    /// ([`Identity::OneUser`]).
    fn user(&self, peer: Peer) -> Option<Arc<User>> {
        let _ = peer;
        None
    }

    /// Sends one packet, gathered from `parts`, to `peer`. On `Ok` the bytes have been taken.
    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError>;

    /// Sends one packet as [`Method::send`] does: `head`, then the bytes of `body`. A method that
    /// cannot gather them where they shall lie has `scratch` to do it in.
    fn send_gather(
        &mut self,
        peer: Peer,
        head: &[u8],
        body: &[Memory],
        scratch: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        self.send(peer, &[gather(head, body, scratch)])
    }

    /// Sends one packet as [`Method::send`] does: `head`, then `len` bytes that `fill` writes, where they shall lie if the method
    /// can tell, or in `scratch`. `fill` may be called for a packet that there is no room for.
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

    /// Sends one packet, gathered from `parts`, to each of `peers`, as [`Method::send`] does to one: a peer that is named
    /// twice gets it twice. Each is tried once, in order, whatever becomes of the others. The indices of those that did
    /// not accept it are appended to `refused`, in order, with the reason; all others have accepted it, and those that
    /// would block report [`Sink::writable`] when to try again. A method that can copy the packet once for all does so.
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

    /// Whether packets to `peer` that were accepted have not left this process; see "Holding" on the module's page.
    fn holds_packets(&self, _peer: Peer) -> bool {
        false
    }

    /// Sends what is held of the packets of all peers, as far as the network takes it now. Delivers nothing.
    fn flush(&mut self) {}

    /// What a message costs over this method, as a rank among methods: an address of the one with the lowest is tried
    /// first. Those that this build brings have 10 (`mem`), 20 (`shm`), 30 (`vi`), 40 (`ofi`), 50 (`tcp`) and 60
    /// (`udp`); of methods of equal rank the one that was registered first comes first.
    fn rank(&self) -> u8 {
        address::rank(self.scheme())
    }

    /// Holds the packets of `peer` back from now on; see "Pausing" on the module's page. It lasts until [`Method::resume`],
    /// [`Method::disconnect`] or [`Sink::peer_down`]. Before the peer is connected it holds for the connection to come.
    fn pause(&mut self, peer: Peer);

    /// Has the packets of `peer` delivered again: those that were held back come with the next polls, before all others.
    fn resume(&mut self, peer: Peer);

    /// What could be done with `peer` now, as far as the last poll has found out; nothing with one that is unknown or gone.
    fn readiness(&mut self, peer: Peer) -> Readiness;

    /// Cancels the placement of the packet that is being placed ([`Sink::receive_buffer`]), if any: the receive buffer is
    /// not touched any more, and the packet comes by [`Sink::packet`] when it is complete.
    fn cancel_placement(&mut self, _peer: Peer) {}

    /// Registers `memory` for transfers and grants, of all peers: for reading only if it is
    /// [for reading only](Memory::is_writable). It is an error where the system or the adapter takes no more. The caller ends
    /// the registration once the memory is gone, of which the method keeps no clone for it.
    ///
    /// Methods that need no registration return [`Registration::NONE`].
    fn register(&mut self, _memory: &Memory) -> Result<Registration, Error> {
        Ok(Registration::NONE)
    }

    /// Ends a registration for further use: it is refused from now on. Transfers and grants that were begun with it keep
    /// what they need of it until they end. One that is unknown, or has ended, is ignored.
    fn deregister(&mut self, _registration: Registration) {}

    /// Lets `peer`, and no other peer, access `memory` until [`Method::revoke`]. The memory stays
    /// alive as long as it is granted. `registration` is one that the whole of `memory` lies in, where the method needs it;
    /// see "Registration" on the module's page. A grant is also called an export: it is what the peer sees of it.
    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        registration: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error>;

    /// Ends an export. An unknown key is ignored.
    fn revoke(&mut self, peer: Peer, key: u64);

    /// Whether `peer` has written each byte of an export at least once since the export was made, as far as the method
    /// can tell. Where the peer writes without this process ([`Capabilities::one_sided`]) the method cannot tell, and returns `true`.
    /// A caller believes a peer that says it has written everything only if this is `true`: otherwise bytes that lay in the memory
    /// before would pass for the peer's data.
    fn is_all_written(&self, _peer: Peer, _key: u64) -> bool {
        true
    }

    /// Ends an export as [`Method::revoke`] does, but does not wait for the peer: `false` if the peer may be
    /// writing the memory at this moment. The caller that wants to know when it has stopped calls again, at
    /// the earliest after [`Method::tick`].
    fn try_revoke(&mut self, peer: Peer, key: u64) -> bool {
        self.revoke(peer, key);
        true
    }

    /// Starts moving bytes between local memory and memory that `peer` exports to us.
    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError>;

    /// Writes the first bytes of `local` over the whole of a region that `peer` exports to us, and sends the packet `notify`
    /// behind, both before it returns. Returns `false` if it has not: because that would take longer than a short copy, because
    /// something stands before it, or because it failed. The region may have been written then all the same.
    /// [`Method::transfer`] does it then, or says what is wrong.
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
    /// [`Capabilities::remote_atomics`] says that there are any. The value that the word had before comes by
    /// [`Sink::atomic_done`], exactly once, also if the peer is lost: then with the error, before [`Sink::peer_down`],
    /// and whether the operation was done is not known.
    ///
    /// Each is one atomic instruction of a processor on the word itself, in the owner's process or, over `shm` where the
    /// owner's memory is mapped ([`Method::allocate`]), in this one. So an operation is atomic with regard to every
    /// other remote atomic on the word, of every peer and over every method, and to the owner's own atomic accesses
    /// ([`Memory::word`]). It is not with regard to transfers, nor to plain reads and writes, of the same bytes.
    /// Operations of which the first completed before the second was started take effect in this order; otherwise no
    /// order holds, nor does one with packets and transfers. Where [`Capabilities::one_sided`] does not hold, or memory
    /// is not mapped, an operation takes effect when the owner polls.
    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        let _ = (peer, atomic);
        Err(SendError::Unsupported("this method has no remote atomics"))
    }

    /// Says how transfers from now on are shared with the peers, where method and peer can
    /// do that: on one host both processes may copy parts of one transfer, whichever of them polls and has
    /// nothing else to do. What holds for transfers holds for shared ones. Methods that cannot, ignore it.
    fn share_copies(&mut self, _sharing: Sharing) {}

    /// Whether both processes copy parts of most transfers, so that it matters little for either's load which
    /// of them starts one.
    fn shares_copies(&self) -> bool {
        false
    }

    /// Maps memory that `peer` exports to us into this process, where method and memory allow it
    /// (a buffer from [`Method::allocate`] on the same host): reading and writing it then needs no
    /// transfer. `None`, with the reason on record in [`Method::report`], where they do not.
    fn map(&mut self, _peer: Peer, _region: &RegionDescriptor) -> Option<Memory> {
        None
    }

    /// Allocates memory of `len` bytes laid out for this method: peers may be able to
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

    /// Polls at most `most` times, until something happens: for a caller that waits. Each of the polls
    /// may be less than [`Method::poll`] as long as what has arrived is found.
    fn spin(&mut self, now: Instant, sink: &mut dyn Sink, most: u32) -> bool {
        (0..most).any(|_| self.poll(now, sink))
    }

    /// Timers: connection attempts, liveness.
    fn tick(&mut self, now: Instant, sink: &mut dyn Sink);

    /// Whether bytes of transfers were moved here, of this process's or for a peer, since this was last asked. Then the end of such a transfer,
    /// or the next one, is likely to come soon, and polling for it costs less than sleeping.
    fn has_moved(&mut self) -> bool {
        false
    }

    /// Prepares to sleep. `false` if there is something to poll for after all.
    fn arm(&mut self, now: Instant) -> bool;

    /// Ends what [`Method::arm`] began; harmless without it.
    fn disarm(&mut self);

    /// Whether the sleep that [`Method::arm`] or [`Method::prepare_park`] began ends as it should, whatever was called since
    /// on behalf of another thread. `false`: there may be something to poll for that does not end it; the sleeper is to be
    /// woken. Looks at what this process knows, without a system call.
    fn stays_armed(&self) -> bool {
        false
    }

    /// Becomes readable when, after [`Method::arm`], there is something to poll for. It is the same descriptor as long as
    /// the method exists.
    fn pollable(&self) -> BorrowedFd<'_>;

    /// Prepares to park: to sleep in the method's own way ([`Method::parker`]), which is quicker than on a descriptor.
    /// Whatever would make [`Method::pollable`] readable ends the sleep, and so does [`Park::unpark`]. `flag` is looked at after
    /// the sleep was announced, so that no call of another thread gets lost between. [`Method::disarm`] ends
    /// what this begins, whatever it returns.
    fn prepare_park(&mut self, now: Instant, flag: &WakeFlag) -> Parking {
        let _ = (now, flag);
        Parking::Unsupported
    }

    /// Where the method's sleeper parks; `None` if there is no such place. It is the same as long as the method exists.
    fn parker(&self) -> Option<Arc<dyn Park>> {
        None
    }

    /// Whether nothing can come by this method: no caller can connect, and there is no peer. Then it is ticked, but
    /// neither polled nor slept on, whatever [`Method::arm`] would say, until the caller uses it again.
    fn is_unused(&self) -> bool {
        false
    }

    /// When [`Method::tick`] wants to be called next, at the latest. What has to be looked at again and again counts
    /// from the latest time that the method was given.
    fn deadline(&self) -> Option<Instant>;

    /// Drops a peer: its transfers complete with an error, its exports end, its handle is free to be
    /// reused after this call. There is no [`Sink::peer_down`].
    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink);

    /// A number that changes while bytes of transfers move to or from a peer, as far as the method can
    /// tell: what has not changed for long has come to a standstill.
    fn activity(&self, _peer: Peer) -> u64 {
        0
    }

    /// What was chosen for this peer and why, for people.
    fn report(&self, peer: Peer) -> Option<PeerReport>;
}

/// Puts `head` and the bytes of `body` behind each other into `scratch`; returns them.
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

/// A method's number for memory that was registered with it: meaningless to any other, and never used again. See
/// [`Method::register`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registration(pub u64);

impl Registration {
    /// No registration, for methods that need none.
    pub const NONE: Self = Self(0);
}

/// The caller's own number for a transfer, given back when it completes.
pub type Token = u64;

/// What a method can carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest packet in bytes, at least 4096 + 256.
    pub max_packet: usize,
    /// Transfers are done in pieces of at most this many bytes.
    pub max_piece: usize,
    /// Most fragments of either list of a [`Transfer`]; a longer one is refused with [`SendError::ListTooLong`].
    /// `usize::MAX` if there is no limit but memory.
    pub max_list: usize,
    /// Up to how many bytes a message is better sent whole, in a packet, than announced and moved by
    /// a transfer. A preference, at most `max_packet`.
    pub eager_bytes: usize,
    /// The same for messages in memory that the peer may map ([`Method::map`]), where that is less.
    pub mapped_eager_bytes: usize,
}

/// What a method can do, as far as methods differ; see [`Method::capabilities`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// A transfer moves bytes without the remote process taking part, even if that does not poll.
    pub one_sided: bool,
    /// An export opens memory to the one peer that it was made for. Without that, the key of an export may open it to
    /// every process that learns it.
    pub per_peer_protection: bool,
    /// There are remote atomics ([`Method::atomic`]).
    pub remote_atomics: bool,
    /// Local memory of transfers, and memory that is granted, has to be registered before; see "Registration" on the
    /// module's page. A transfer of other memory is refused with [`SendError::Unregistered`], a grant with
    /// [`Error::Unsupported`].
    pub needs_local_registration: bool,
    /// A peer whose process ends is reported with [`Sink::peer_down`] even if nothing is sent to it.
    pub tells_of_death: bool,
    /// Each peer proves which node it belongs to ([`Method::node`]) before anything is sent to it or taken from it.
    pub identifies_nodes: bool,
    /// Peers can map memory from [`Method::allocate`] ([`Method::map`]).
    pub maps_memory: bool,
    /// Packets that were accepted may wait for polls before they leave; see "Holding" on the module's page.
    pub holds_packets: bool,
    /// The method measures round trips, so that readings of the clock from before a poll or a send do not do; see "Time"
    /// on the module's page.
    pub exact_time: bool,
}

/// What could be done with a peer now; see [`Method::readiness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Readiness {
    /// A packet waits, or has begun to come. Packets of a peer that is not paused do not wait longer than for the next poll.
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
    /// Whether `direction` is covered, seen from the peer that starts the transfer.
    pub fn allows(self, direction: Direction) -> bool {
        match direction {
            Direction::Get => self != Access::Write,
            Direction::Put => self != Access::Read,
        }
    }

    /// Whether `memory` may be exported so.
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

/// Which copying may be shared; see [`Method::share_copies`].
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
    /// What is done.
    pub operation: Operation,
    /// The word: 8 bytes of a region ([`RegionDescriptor::part`]) at a multiple of 8 in the owner's memory.
    pub word: RegionDescriptor,
    /// Given back at completion.
    pub token: Token,
}

impl Atomic {
    /// Bytes of the word.
    pub const BYTES: u64 = 8;

    /// The error to complete with, if the region is no word.
    pub fn mistake(&self) -> Option<TransferError> {
        (self.word.len != Self::BYTES).then_some(TransferError::Length {
            local: Self::BYTES,
            remote: self.word.len,
        })
    }
}

/// Does an operation on the word at the front of `memory`, which its owner exports for reading and writing.
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

/// What an outcome means for the caller that asked.
pub fn result_of(outcome: Outcome) -> Result<u64, TransferError> {
    match outcome {
        Outcome::Old(old) => Ok(old),
        Outcome::Protection => Err(TransferError::Protection),
        Outcome::Misaligned => Err(TransferError::Misaligned),
    }
}

/// A list of local memory. One span, the usual case, takes no memory of its own.
pub type Spans = SmallVec<[Memory; 1]>;

/// A packet that goes with a transfer. A short one takes no memory of its own.
pub type NotifyPacket = SmallVec<[u8; 24]>;

/// A list of fragments to move, with one completion (SEAMUR, Yu et al. §5.3).
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which way.
    pub direction: Direction,
    /// Local memory, in order.
    pub local: Spans,
    /// The registrations that the fragments of `local` lie in, one for each, if
    /// [`Capabilities::needs_local_registration`] says that the method needs them; otherwise they are not looked at.
    pub registrations: Vec<Registration>,
    /// Remote memory, in order; the fragments need not match the local ones, but both lists cover the
    /// same number of bytes. A part of a region is named by raising `base` (and the object's offset)
    /// and lowering `len`; see [`RegionDescriptor::part`].
    pub remote: Regions,
    /// A packet for the peer, delivered after the last byte has landed (in either direction).
    pub notify: Option<NotifyPacket>,
    /// Given back at completion.
    pub token: Token,
}

impl Transfer {
    /// Fragments of the longer of its lists: see [`Limits::max_list`].
    pub fn longest_list(&self) -> usize {
        self.local.len().max(self.remote.len())
    }
}

/// What was chosen for a peer, and why not something better.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerReport {
    /// Facts for people, such as (`large transfers`, `cross-memory attach`).
    pub facts: Vec<(&'static str, String)>,
}

/// So many bytes of a packet are shown before the sink names a receive buffer for the others: see [`Sink::receive_buffer`].
pub const PLACEMENT_HEAD_BYTES: usize = 16;

/// What a handler does while it is called, with the peer whose packet it handles; see [`Sink::handle`].
pub trait Outlet {
    /// Sends one packet, gathered from `parts`, as [`Method::send`] does.
    fn send(&mut self, parts: &[&[u8]]) -> Result<(), SendError>;

    /// Reads a region that the peer exports to us, whole, into the first bytes of `local`, and sends `notify` behind. Returns
    /// `false` if it has not, as it would take too long, has to wait, or fails: [`Method::transfer`] does it, or says why not.
    fn read_now(&mut self, _local: &Memory, _remote: &RegionDescriptor, _notify: &[u8]) -> bool {
        false
    }

    /// Ends an export to the peer. Returns `false` if it may go on: [`Method::try_revoke`] tells.
    fn revoke_now(&mut self, _key: u64) -> bool {
        false
    }
}

/// Where a method delivers what happened. Called from inside [`Method::poll`], [`Method::tick`], [`Method::disconnect`] only.
pub trait Sink {
    /// A packet has arrived. It must be copied out now.
    fn packet(&mut self, peer: Peer, packet: Packet<'_>);

    /// A packet has arrived, and the sink may reply to its sender through `outlet`. Methods call this function, which passes the packet on to
    /// [`Sink::packet`] unless the sink implements it. As with active messages, a handler replies to the peer that it serves, and to no other: it
    /// sends what it has for others after the poll. If `outlet` refuses a reply with [`SendError::WouldBlock`], the sink keeps the reply,
    /// and [`Sink::writable`] follows. Packets that were placed ([`Sink::placement_done`]) have no outlet.
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

    /// An atomic operation is complete: what the word was before, or why it failed. A sink that starts none has no use
    /// for it.
    fn atomic_done(&mut self, _peer: Peer, _token: Token, _result: Result<u64, TransferError>) {}

    /// A peer has connected to us.
    fn peer_up(&mut self, peer: Peer);

    /// A peer is unreachable; see the contract.
    fn peer_down(&mut self, peer: Peer, cause: PeerError);

    /// Room for packets to `peer` after a [`SendError::WouldBlock`].
    fn writable(&mut self, peer: Peer);

    /// A large packet of `len` bytes has begun to arrive, and begins with `head`. A sink that has a
    /// receive buffer for the others of its bytes puts that memory, writable and exactly so much, into `into`, which is
    /// empty, and returns `true`: the method then writes them there and calls [`Sink::placement_done`] in place of
    /// [`Sink::packet`]. The memory is the method's until then, or until [`Method::cancel_placement`],
    /// [`Method::disconnect`] or [`Sink::peer_down`]. Which packets this is asked for is up to the method.
    fn receive_buffer(
        &mut self,
        _peer: Peer,
        _head: &[u8; PLACEMENT_HEAD_BYTES],
        _len: usize,
        _into: &mut Spans,
    ) -> bool {
        false
    }

    /// The packet that [`Sink::receive_buffer`] gave a buffer for is complete.
    fn placement_done(&mut self, _peer: Peer, _head: &[u8; PLACEMENT_HEAD_BYTES]) {}
}

/// Takes nothing: for peers of which the caller is to hear no more.
pub(crate) struct Silence;

impl Sink for Silence {
    fn packet(&mut self, _: Peer, _: Packet<'_>) {}
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
}
