//! A method and a sink that checks the general rules of the contract on every event.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Address, Atomic, Direction, Method, Operation, PLACEMENT_HEAD_BYTES, Packet, Peer,
    PeerError, Registration, SendError, Sink, Spans, Token, Transfer, TransferError,
};
use causeway_wire::region::RegionDescriptor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::factory::Factory;
use crate::patience::Patience;
use crate::placement::Placements;

/// How often a [`Node`] ticks its method while it is stepped.
const TICK: Duration = Duration::from_millis(5);

/// An event of a method other than packets and completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// See [`Sink::peer_up`].
    Up(Peer),
    /// See [`Sink::peer_down`].
    Down(Peer, PeerError),
    /// See [`Sink::writable`].
    Writable(Peer),
}

/// The checking sink.
#[derive(Debug, Default)]
pub struct Seen {
    /// Packets in the order of arrival.
    pub packets: VecDeque<(Peer, Vec<u8>)>,
    /// Results of transfers in the order of completion.
    pub done: VecDeque<(Token, Result<(), TransferError>)>,
    /// Results of atomics in the order of completion.
    pub atomics: VecDeque<(Token, Result<u64, TransferError>)>,
    /// All other events in order.
    pub events: VecDeque<Event>,
    /// Peers that connected to this node and are up.
    inbound: HashSet<Peer>,
    /// Peers that this node connected to.
    outbound: HashSet<Peer>,
    /// Transfers and atomics that have not completed.
    open: HashMap<Token, Peer>,
    /// Packets that are being received into buffers of this sink's.
    pub places: Placements<Peer>,
}

impl Sink for Seen {
    fn packet(&mut self, peer: Peer, packet: Packet<'_>) {
        assert!(
            self.inbound.contains(&peer) || self.outbound.contains(&peer),
            "a packet from {peer:?}, which is not up"
        );
        self.packets.push_back((peer, packet.to_vec(0)));
    }

    fn transfer_done(&mut self, peer: Peer, token: Token, result: Result<(), TransferError>) {
        let owner = self.open.remove(&token);
        assert_eq!(
            owner,
            Some(peer),
            "transfer {token} completed, but is not in progress with that peer ({result:?})"
        );
        self.done.push_back((token, result));
    }

    fn atomic_done(&mut self, peer: Peer, token: Token, result: Result<u64, TransferError>) {
        let owner = self.open.remove(&token);
        assert_eq!(
            owner,
            Some(peer),
            "atomic {token} completed, but is not in progress with that peer ({result:?})"
        );
        self.atomics.push_back((token, result));
    }

    fn peer_up(&mut self, peer: Peer) {
        assert!(
            !self.outbound.contains(&peer),
            "{peer:?} did not connect to this node: this node connected to it"
        );
        assert!(self.inbound.insert(peer), "{peer:?} came up twice");
        self.events.push_back(Event::Up(peer));
    }

    fn peer_down(&mut self, peer: Peer, cause: PeerError) {
        assert!(
            self.inbound.remove(&peer) || self.outbound.contains(&peer),
            "{peer:?} went down ({cause}), but was not up"
        );
        let left: Vec<_> = self.open.iter().filter(|(_, of)| **of == peer).collect();
        assert!(
            left.is_empty(),
            "{peer:?} went down ({cause}) before its transfers {left:?} completed"
        );
        self.places.forget(&peer);
        self.events.push_back(Event::Down(peer, cause));
    }

    fn writable(&mut self, peer: Peer) {
        assert!(
            self.inbound.contains(&peer) || self.outbound.contains(&peer),
            "{peer:?} is writable, but not up"
        );
        self.events.push_back(Event::Writable(peer));
    }

    fn receive_buffer(
        &mut self,
        peer: Peer,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        self.places.receive_buffer(peer, head, len, into)
    }

    fn placement_done(&mut self, peer: Peer, head: &[u8; PLACEMENT_HEAD_BYTES]) {
        self.packets
            .push_back((peer, self.places.placement_done(peer, head)));
    }
}

/// A method under test.
pub struct Node<M: Method> {
    /// The method.
    pub method: M,
    /// Its recorded events.
    pub seen: Seen,
    next_token: Token,
    ticked: Instant,
    looks_first: bool,
}

impl<M: Method> Node<M> {
    /// A node around `method`.
    pub fn new(method: M) -> Self {
        Self {
            method,
            seen: Seen::default(),
            next_token: 1,
            ticked: Instant::now(),
            looks_first: false,
        }
    }

    /// A node that listens, and where. It polls only if [`Method::finds_nothing`] does not show that this would be in vain.
    ///
    /// # Panics
    /// If it cannot.
    pub fn listening(factory: &impl Factory<Method = M>) -> (Self, Address) {
        let mut node = Self::new(factory.method());
        node.looks_first = true;
        let address = node.listen(&factory.address());
        (node, address)
    }

    /// Listens at `address`, and returns the actual address.
    ///
    /// # Panics
    /// If it cannot.
    pub fn listen(&mut self, address: &Address) -> Address {
        self.method
            .listen(address)
            .unwrap_or_else(|error| panic!("listening at {address}: {error}"))
    }

    /// Makes a handle for `address`.
    ///
    /// # Panics
    /// If the method refuses.
    pub fn connect(&mut self, address: &Address) -> Peer {
        let peer = self
            .method
            .connect(Instant::now(), address)
            .unwrap_or_else(|error| panic!("a handle for {address}: {error}"));
        self.seen.outbound.insert(peer);
        peer
    }

    /// Notes that `peer` is a handle of this node, made by [`Method::connect`] directly.
    pub fn seen_as_outbound(&mut self, peer: Peer) {
        self.seen.outbound.insert(peer);
    }

    /// Waits for `peer` to be reported down, passing over other events.
    ///
    /// # Panics
    /// If it is not.
    pub fn await_down(&mut self, peer: Peer) -> PeerError {
        let mut patience = Patience::new(format!("{peer:?} is reported down"));
        loop {
            if let Some(cause) = self.down(peer) {
                return cause;
            }
            self.step();
            patience.spend();
        }
    }

    /// Tries to send to `peer`, which does not exist, and returns how it is reported down. The packet may
    /// be accepted first, or not at all: [`SendError::WouldBlock`] until the absence is known.
    pub fn find_absent(&mut self, peer: Peer) -> PeerError {
        let mut patience = Patience::new(format!("the absence of {peer:?} is noticed"));
        let mut accepted = false;
        loop {
            if let Some(cause) = self.down(peer) {
                return cause;
            }
            accepted = accepted || self.try_send(peer, b"hello?");
            self.step();
            patience.spend();
        }
    }

    /// One poll, and a tick when it is time; returns whether anything happened.
    pub fn step(&mut self) -> bool {
        let now = Instant::now();
        let is_idle = self.looks_first && self.method.finds_nothing(now);
        let worked = !is_idle && self.method.poll(now, &mut self.seen);
        if self.ticked.elapsed() >= TICK {
            self.ticked = Instant::now();
            self.method.tick(Instant::now(), &mut self.seen);
        }
        worked
    }

    /// Sends a packet if there is room; returns whether there was.
    ///
    /// # Panics
    /// On any failure other than lack of room.
    pub fn try_send(&mut self, peer: Peer, bytes: &[u8]) -> bool {
        match self.method.send(peer, &[bytes]) {
            Ok(()) => true,
            Err(SendError::WouldBlock) => false,
            Err(error) => panic!("sending {} bytes: {error}", bytes.len()),
        }
    }

    /// Starts a transfer if there is room and returns its token.
    ///
    /// # Panics
    /// On any failure other than lack of room.
    pub fn try_transfer(&mut self, peer: Peer, list: &List) -> Option<Token> {
        match self.offer(peer, list) {
            Ok(token) => Some(token),
            Err(SendError::WouldBlock) => None,
            Err(error) => panic!("starting a transfer: {error}"),
        }
    }

    /// Starts a transfer; returns its token, or why it was not accepted.
    pub fn offer(&mut self, peer: Peer, list: &List) -> Result<Token, SendError> {
        let mut registrations = Vec::new();
        if self.method.capabilities().needs_local_registration {
            registrations = (list.local.iter())
                .map(|memory| self.register(memory))
                .collect();
        }
        let offered = self.offer_registered(peer, list, registrations.clone());
        // Transfers keep what they need of the lists.
        for registration in registrations {
            self.method.deregister(registration);
        }
        offered
    }

    /// Registers memory.
    ///
    /// # Panics
    /// If the method refuses.
    pub fn register(&mut self, memory: &Memory) -> Registration {
        let registration = self.method.register(memory);
        registration.unwrap_or_else(|error| panic!("registering {} bytes: {error}", memory.len()))
    }

    /// Starts a transfer of memory that was registered so; returns its token, or why it was not accepted.
    pub fn offer_registered(
        &mut self,
        peer: Peer,
        list: &List,
        registrations: Vec<Registration>,
    ) -> Result<Token, SendError> {
        let token = self.next_token;
        let transfer = Transfer {
            direction: list.direction,
            local: list.local.clone().into(),
            remote: list.remote.clone().into(),
            notify: list.notify.clone().map(Into::into),
            registrations,
            token,
        };
        self.method.transfer(peer, transfer)?;
        self.next_token += 1;
        self.seen.open.insert(token, peer);
        Ok(token)
    }

    /// Starts an atomic operation; returns its token, or why it was not accepted.
    pub fn try_atomic(
        &mut self,
        peer: Peer,
        operation: Operation,
        word: RegionDescriptor,
    ) -> Result<Token, SendError> {
        let token = self.next_token;
        let atomic = Atomic {
            operation,
            word,
            token,
        };
        self.method.atomic(peer, atomic)?;
        self.next_token += 1;
        self.seen.open.insert(token, peer);
        Ok(token)
    }

    /// Exports `memory`.
    ///
    /// # Panics
    /// If the method refuses.
    pub fn export(&mut self, peer: Peer, memory: &Memory, access: Access) -> RegionDescriptor {
        let registration = self.register(memory);
        let region = self
            .method
            .grant(peer, memory, registration, access)
            .unwrap_or_else(|error| panic!("exporting {} bytes: {error}", memory.len()));
        self.method.deregister(registration);
        assert_ne!(region.key, 0, "0 is no key");
        assert_eq!(region.len, memory.len() as u64, "the whole memory");
        region
    }

    /// Drops a peer.
    pub fn disconnect(&mut self, peer: Peer) {
        self.method.disconnect(Instant::now(), peer, &mut self.seen);
        self.seen.places.forget(&peer);
        self.seen.inbound.remove(&peer);
        self.seen.outbound.remove(&peer);
        let left: Vec<_> = self.seen.open.values().filter(|of| **of == peer).collect();
        assert!(left.is_empty(), "disconnecting completes every transfer");
    }

    /// How many transfers are in progress.
    pub fn in_progress(&self) -> usize {
        self.seen.open.len()
    }

    /// How many peers that connected to this node are up.
    pub fn callers(&self) -> usize {
        self.seen.inbound.len()
    }

    /// Takes the oldest packet.
    pub fn packet(&mut self) -> Option<(Peer, Vec<u8>)> {
        self.seen.packets.pop_front()
    }

    /// Takes the oldest `Up`, passing over other events.
    pub fn up(&mut self) -> Option<Peer> {
        let index = (self.seen.events.iter()).position(|event| matches!(event, Event::Up(_)))?;
        match self.seen.events.remove(index) {
            Some(Event::Up(peer)) => Some(peer),
            _ => None,
        }
    }

    /// Takes the oldest `Down` of `peer`, passing over other events.
    pub fn down(&mut self, peer: Peer) -> Option<PeerError> {
        let is_it = |event: &Event| matches!(event, Event::Down(of, _) if *of == peer);
        let index = self.seen.events.iter().position(is_it)?;
        match self.seen.events.remove(index) {
            Some(Event::Down(_, cause)) => Some(cause),
            _ => None,
        }
    }

    /// Takes every `Writable` of `peer`; returns whether there was one.
    pub fn writable(&mut self, peer: Peer) -> bool {
        let before = self.seen.events.len();
        self.seen
            .events
            .retain(|event| *event != Event::Writable(peer));
        self.seen.events.len() != before
    }

    /// Whether the method's descriptor is readable now.
    pub fn is_woken(&self) -> bool {
        self.wait_readable(Duration::ZERO)
    }

    /// Sleeps on the method's descriptor for at most `most`; returns whether that woke the node.
    pub fn wait_readable(&self, most: Duration) -> bool {
        let pollable = self.method.pollable();
        let mut interest = [PollFd::from_borrowed_fd(pollable, PollFlags::IN)];
        let most = Timespec::try_from(most).expect("a short time");
        // Interrupted by a signal counts as not woken.
        poll(&mut interest, Some(&most)).is_ok_and(|ready| ready > 0)
    }

    /// Polls until the method agrees to sleep, and leaves it armed.
    ///
    /// # Panics
    /// If it never does.
    pub fn fall_asleep(&mut self) {
        let mut patience = Patience::new("an idle method agrees to sleep");
        loop {
            while self.step() {
                patience.spend();
            }
            if self.method.arm(Instant::now()) {
                return;
            }
            self.method.disarm();
            patience.spend();
        }
    }

    /// Sleeps, armed, until the descriptor is readable; ticks at the method's deadlines.
    ///
    /// # Panics
    /// If nothing wakes it.
    pub fn sleep_until_woken(&mut self, awaited: &str) {
        let mut patience = Patience::new(awaited);
        loop {
            let nap = match self.method.deadline() {
                Some(at) => at
                    .saturating_duration_since(Instant::now())
                    .min(patience.left()),
                None => patience.left(),
            };
            if self.wait_readable(nap) {
                break;
            }
            patience.spend();
            self.method.disarm();
            let told = self.seen.events.len() + self.seen.done.len();
            self.method.tick(Instant::now(), &mut self.seen);
            // The wake-up may need a tick to take effect.
            if self.seen.events.len() + self.seen.done.len() > told
                || !self.method.arm(Instant::now())
            {
                break;
            }
        }
        self.method.disarm();
    }
}

/// A transfer without its token.
#[derive(Debug, Clone)]
pub struct List {
    /// See [`Transfer::direction`].
    pub direction: Direction,
    /// See [`Transfer::local`].
    pub local: Vec<Memory>,
    /// See [`Transfer::remote`].
    pub remote: Vec<RegionDescriptor>,
    /// See [`Transfer::notify`].
    pub notify: Option<Vec<u8>>,
}

impl List {
    /// One local and one remote fragment.
    pub fn simple(direction: Direction, local: &Memory, remote: RegionDescriptor) -> Self {
        Self {
            direction,
            local: vec![local.clone()],
            remote: vec![remote],
            notify: None,
        }
    }

    /// The same with a notify packet.
    pub fn notifying(mut self, packet: &[u8]) -> Self {
        self.notify = Some(packet.to_vec());
        self
    }
}

/// Two nodes that have met: `a` connected to `b`.
pub struct Pair<M: Method> {
    /// The side that connected.
    pub a: Node<M>,
    /// The side that listens.
    pub b: Node<M>,
    /// `a`'s handle for `b`.
    pub to_b: Peer,
    /// `b`'s handle for `a`.
    pub to_a: Peer,
    /// Where `b` listens.
    pub address: Address,
}

impl<M: Method> Pair<M> {
    /// Makes two instances meet, by one packet each way.
    ///
    /// # Panics
    /// If they do not.
    pub fn new(factory: &impl Factory<Method = M>) -> Self {
        let (b, address) = Node::listening(factory);
        let a = Node::new(factory.method());
        Self::meet(a, b, address)
    }

    /// Makes `a` connect to `b`, which listens at `address`.
    ///
    /// # Panics
    /// If they do not meet.
    pub fn meet(mut a: Node<M>, mut b: Node<M>, address: Address) -> Self {
        let to_b = a.connect(&address);
        let mut patience = Patience::new("two instances meet");
        while !a.try_send(to_b, b"hello") {
            a.step();
            b.step();
            patience.spend();
        }
        let to_a = loop {
            a.step();
            b.step();
            if let Some((peer, bytes)) = b.packet() {
                assert_eq!(bytes, b"hello");
                break peer;
            }
            patience.spend();
        };
        assert_eq!(b.up(), Some(to_a));
        let mut pair = Self {
            a,
            b,
            to_b,
            to_a,
            address,
        };
        pair.b_sends(b"welcome");
        let (peer, bytes) = pair.a_receives();
        assert_eq!((peer, &bytes[..]), (to_b, &b"welcome"[..]));
        pair.a.seen.events.clear();
        pair.b.seen.events.clear();
        pair
    }

    /// Both make progress.
    pub fn step(&mut self) -> bool {
        // Both, whatever the first returns.
        self.a.step() | self.b.step()
    }

    /// Both make progress until `done`.
    ///
    /// # Panics
    /// If it never is.
    pub fn step_until(&mut self, awaited: &str, is_so: impl Fn(&Self) -> bool) {
        let mut patience = Patience::new(awaited);
        while !is_so(self) {
            self.step();
            patience.spend();
        }
    }

    /// Sends from `a` to `b`, waiting for room.
    pub fn a_sends(&mut self, bytes: &[u8]) {
        send(&mut self.a, self.to_b, &mut self.b, bytes);
    }

    /// Sends from `b` to `a`, waiting for room.
    pub fn b_sends(&mut self, bytes: &[u8]) {
        send(&mut self.b, self.to_a, &mut self.a, bytes);
    }

    /// The next packet at `a`.
    pub fn a_receives(&mut self) -> (Peer, Vec<u8>) {
        receive(&mut self.a, &mut self.b)
    }

    /// The next packet at `b`.
    pub fn b_receives(&mut self) -> (Peer, Vec<u8>) {
        receive(&mut self.b, &mut self.a)
    }

    /// Runs a transfer that `a` starts to its completion.
    pub fn a_transfers(&mut self, list: &List) -> Result<(), TransferError> {
        run(&mut self.a, self.to_b, &mut self.b, list)
    }

    /// Runs a transfer that `b` starts to its completion.
    pub fn b_transfers(&mut self, list: &List) -> Result<(), TransferError> {
        run(&mut self.b, self.to_a, &mut self.a, list)
    }

    /// Both step until neither has anything to do, a few times over.
    pub fn settle(&mut self) {
        let mut patience = Patience::new("two idle instances become idle");
        let mut quiet = 0;
        while quiet < 50 {
            quiet = if self.step() { 0 } else { quiet + 1 };
            patience.spend();
        }
    }

    /// Proves that packets still pass both ways, and nothing else is on the way.
    pub fn still_works(&mut self) {
        self.a_sends(b"there?");
        assert_eq!(self.b_receives(), (self.to_a, b"there?".to_vec()));
        self.b_sends(b"here!");
        assert_eq!(self.a_receives(), (self.to_b, b"here!".to_vec()));
        assert!(self.a.packet().is_none() && self.b.packet().is_none());
    }
}

/// Sends from `from` to `peer`, which is `other`, waiting for room.
pub(super) fn send<M: Method>(from: &mut Node<M>, peer: Peer, other: &mut Node<M>, bytes: &[u8]) {
    let mut patience = Patience::new(format!("room for a packet of {} bytes", bytes.len()));
    while !from.try_send(peer, bytes) {
        from.step();
        other.step();
        patience.spend();
    }
}

/// The next packet at `at`, while `other` makes progress too.
pub(super) fn receive<M: Method>(at: &mut Node<M>, other: &mut Node<M>) -> (Peer, Vec<u8>) {
    let mut patience = Patience::new("a packet arrives");
    loop {
        if let Some(packet) = at.packet() {
            return packet;
        }
        at.step();
        other.step();
        patience.spend();
    }
}

/// Runs a transfer that `initiator` starts with `peer`, which is `other`, to its completion.
pub(super) fn run<M: Method>(
    initiator: &mut Node<M>,
    peer: Peer,
    other: &mut Node<M>,
    list: &List,
) -> Result<(), TransferError> {
    let mut patience = Patience::new("a transfer is accepted and completes");
    let token = loop {
        if let Some(token) = initiator.try_transfer(peer, list) {
            break token;
        }
        initiator.step();
        other.step();
        patience.spend();
    };
    loop {
        if let Some((done, result)) = initiator.seen.done.pop_front() {
            assert_eq!(done, token, "no other transfer was in progress");
            return result;
        }
        initiator.step();
        other.step();
        patience.spend();
    }
}

/// Stops another thread of a test, also when this one panics.
pub(super) struct SetOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
