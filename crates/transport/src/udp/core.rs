//! The protocol of one process over any number of sockets: a pure state machine without sockets,
//! clock or source of randomness of its own.
//!
//! # Order of calls
//! [`Core::handle_datagram`] for each datagram that has arrived, [`Core::handle_unreachable`] for
//! each datagram that the system reports as undeliverable, [`Core::handle_timer`] when
//! [`Core::next_deadline`] is reached, and commands ([`Core::send`], [`Core::transfer`], …) at
//! will. After any of them: [`Core::poll_events`] until it returns `false`, and
//! [`Core::poll_transmit`] until it returns `None`; the datagrams that it returns are to be sent in
//! this order, and may be lost. `now` never goes back.
//!
//! Connections begin in `opening` and end in `closing`.

use std::collections::{BTreeSet, HashMap, VecDeque};

use causeway_sys::memory::Memory;
use causeway_sys::secret::Secret;
use causeway_wire::datagram::{self, Datagram, Kind, PUBLIC_KEY, Prefix, Segment};
use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::Holder;

use super::cookie::Cookies;
use super::link::{Phase, Scratch};
use super::table::{Origin, PeerState};
use super::{Remote, Time, UdpConfig};
use crate::address::Address;
use crate::error::{Error, PeerError, SendError};
use crate::half_open::{HalfOpen, LogLimit, Source};
use crate::method::{Access, Atomic, Identity, Peer, Readiness, Sink, Transfer};
use crate::session::{Bounds, Session};
use crate::table::Table;

/// Datagrams that one peer may send before the next one's turn.
const DATAGRAMS_PER_BURST: u32 = 8;

/// Replies to addresses without a connection that may be queued; further ones are dropped, as if
/// the network had lost them.
pub(super) const MAX_REPLIES: usize = 256;

/// Most of them that may be for one host, so that others get some too.
pub(super) const MAX_REPLIES_PER_HOST: usize = MAX_REPLIES / 4;

/// What the core needs from its driver while it handles a datagram.
pub trait Environment {
    /// Without a key: verifies the process that holds the socket at `remote` and claims to be
    /// `holder`; the error states why it is refused.
    fn verify(&mut self, remote: Remote, holder: Holder) -> Result<Identity, String>;

    /// The process and descriptor number that hold our socket of this number.
    fn holder(&self, socket: u32) -> Holder;

    /// The largest datagram on the path to `remote`, in bytes.
    fn datagram_bytes(&self, remote: Remote) -> usize;

    /// Fills `into` with random numbers that no attacker can predict.
    fn random(&mut self, into: &mut [u8]);

    /// Whether segments are sent in the clear when there is no key: in simulated networks, which
    /// read and alter them. Never over anything that other processes can send to.
    fn is_in_the_clear(&self) -> bool {
        false
    }
}

/// See the module's page.
pub struct Core {
    pub(super) config: UdpConfig,
    pub(super) peers: Table<Box<PeerState>>,
    pub(super) by_address: HashMap<Address, Peer>,
    /// By this side's number for the connection.
    pub(super) by_number: HashMap<u64, Peer>,
    /// Callers, by address and by their number for the connection.
    pub(super) by_caller: HashMap<(Remote, u64), Peer>,
    /// The sockets on which connections are accepted.
    pub(super) listening: BTreeSet<u32>,
    pub(super) cookies: Cookies,
    /// The key that is used if there is no cluster's key.
    pub(super) public_key: Secret,
    /// Callers whose connection is not up yet.
    pub(super) half_open: HalfOpen<Time>,
    pub(super) limit_log: LogLimit<Time>,
    pub(super) refusal_log: LogLimit<Time>,
    ready: VecDeque<Peer>,
    due: VecDeque<Peer>,
    timers: BTreeSet<(Time, Peer)>,
    /// Datagrams that belong to no connection.
    pub(super) replies: VecDeque<(Remote, Vec<u8>)>,
    /// The last datagram was a reply: now it is the turn of the peers, if they have any.
    replied: bool,
    pub(super) scratch: Scratch,
}

impl Core {
    /// A core with these settings; `secret` is random.
    pub fn new(config: UdpConfig, secret: [u8; 32]) -> Self {
        Self {
            half_open: HalfOpen::new(config.max_half_open, config.connect_timeout),
            config,
            peers: Table::default(),
            by_address: HashMap::new(),
            by_number: HashMap::new(),
            by_caller: HashMap::new(),
            listening: BTreeSet::new(),
            cookies: Cookies::new(secret),
            public_key: PUBLIC_KEY.into(),
            limit_log: LogLimit::default(),
            refusal_log: LogLimit::default(),
            ready: VecDeque::new(),
            due: VecDeque::new(),
            timers: BTreeSet::new(),
            replies: VecDeque::new(),
            replied: false,
            scratch: Scratch::new(),
        }
    }

    /// Accepts connections on a socket.
    pub fn take_calls(&mut self, socket: u32) {
        self.listening.insert(socket);
    }

    /// Sets how much peers that connect from now on may send ahead.
    pub fn set_window_bytes(&mut self, bytes: usize) {
        self.config.window_bytes = bytes;
    }

    pub(super) fn session(&self) -> Session {
        Session::new(Bounds {
            queue_bytes: self.config.queue_bytes,
            max_transfers: self.config.max_transfers,
        })
    }

    /// A handle for the process at `address`, which is reached at one of `targets`.
    pub fn connect(&mut self, address: &Address, targets: Vec<Remote>) -> Result<Peer, Error> {
        if self.peers.len() - self.half_open.len() >= self.config.max_peers {
            return Err(Error::Limit {
                what: "UDP peers",
                limit: self.config.max_peers,
            });
        }
        let session = self.session();
        let origin = Origin::Connected { targets, at: 0 };
        let peer = self
            .peers
            .insert(|handle| Box::new(PeerState::new(handle, origin, address.clone(), session)));
        self.by_address.insert(address.clone(), peer);
        Ok(peer)
    }

    /// The handle that [`Core::connect`] returned for `address`.
    pub fn known(&self, address: &Address) -> Option<Peer> {
        self.by_address.get(address).copied()
    }

    /// See [`crate::Method::send`].
    pub fn send(
        &mut self,
        now: Time,
        peer: Peer,
        parts: &[&[u8]],
        environment: &mut dyn Environment,
    ) -> Result<(), SendError> {
        self.reach(now, peer, environment)?;
        self.state(peer)?.session.send(parts)?;
        self.touch(now, peer);
        Ok(())
    }

    /// See [`crate::Method::transfer`].
    pub fn transfer(
        &mut self,
        now: Time,
        peer: Peer,
        transfer: Transfer,
        environment: &mut dyn Environment,
    ) -> Result<(), SendError> {
        self.reach(now, peer, environment)?;
        self.state(peer)?.session.transfer(transfer)?;
        self.touch(now, peer);
        self.make_due(peer);
        Ok(())
    }

    /// See [`crate::Method::atomic`].
    pub fn atomic(
        &mut self,
        now: Time,
        peer: Peer,
        atomic: Atomic,
        environment: &mut dyn Environment,
    ) -> Result<(), SendError> {
        self.reach(now, peer, environment)?;
        self.state(peer)?.session.atomic(atomic)?;
        self.touch(now, peer);
        self.make_due(peer);
        Ok(())
    }

    /// See [`crate::Method::grant`]. `random` is the source of keys.
    pub fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        access: Access,
        environment: &mut dyn Environment,
    ) -> Result<RegionDescriptor, Error> {
        access.check(memory)?;
        let state = self.state(peer).map_err(|_| Error::NoPeer)?;
        loop {
            let mut bytes = [0; 8];
            environment.random(&mut bytes);
            let key = u64::from_le_bytes(bytes);
            if key != 0 && !state.session.exports(key) {
                return Ok(state.session.export(key, memory, access));
            }
        }
    }

    /// See [`crate::Method::pause`].
    pub fn pause(&mut self, peer: Peer) {
        if let Ok(state) = self.state(peer) {
            state.session.pause();
        }
    }

    /// See [`crate::Method::resume`].
    pub fn resume(&mut self, peer: Peer) {
        if let Ok(state) = self.state(peer) {
            state.session.resume();
            self.make_due(peer);
        }
    }

    /// See [`crate::Method::readiness`].
    pub fn readiness(&mut self, peer: Peer) -> Readiness {
        match self.state(peer) {
            Ok(state) if state.gone.is_none() => state.session.readiness(),
            _ => Readiness::default(),
        }
    }

    /// Whether packets have never been sent that will be sent before the peer is reported down.
    pub fn holds_packets(&self, peer: Peer) -> bool {
        let state = self.peers.get(peer);
        state.is_some_and(|state| match &state.link {
            Some(link) => link.holds_packets(&state.session),
            None => state.session.queued_bytes() > 0,
        })
    }

    /// See [`crate::Method::cancel_placement`].
    pub fn cancel_placement(&mut self, peer: Peer) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.session.cancel_placement();
        }
    }

    /// See [`crate::Method::is_all_written`].
    pub fn is_all_written(&self, peer: Peer, key: u64) -> bool {
        let state = self.peers.get(peer);
        state.is_some_and(|state| state.session.is_all_written(key))
    }

    /// See [`crate::Method::revoke`].
    pub fn revoke(&mut self, peer: Peer, key: u64) {
        if let Some(state) = self.peers.get_mut(peer) {
            state.session.unexport(key);
        }
    }

    /// The peer, if its handle was returned or reported to the caller.
    pub(super) fn state(&mut self, peer: Peer) -> Result<&mut PeerState, SendError> {
        self.peers
            .get_mut(peer)
            .map(Box::as_mut)
            .filter(|state| !state.is_half_open() && !state.is_lingering())
            .ok_or(SendError::Gone(PeerError::Disconnected))
    }

    /// Makes sure that a connection to the peer exists or has begun.
    fn reach(
        &mut self,
        now: Time,
        peer: Peer,
        environment: &mut dyn Environment,
    ) -> Result<(), SendError> {
        let state = self.state(peer)?;
        if let Some(cause) = &state.gone {
            return Err(SendError::Gone(cause.clone()));
        }
        if state.link.is_none() && state.failed.is_none() {
            self.begin_to_connect(now, peer, environment);
        }
        Ok(())
    }

    /// Updates a peer's place in the queues and timers, after anything that concerns it.
    pub(super) fn touch(&mut self, now: Time, peer: Peer) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        if let Some(link) = &mut state.link {
            link.note_outstanding(now, &state.session);
            if !state.ready {
                state.ready = true;
                self.ready.push_back(peer);
            }
        }
        self.set_timer(peer);
    }

    fn set_timer(&mut self, peer: Peer) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let at = state.deadline();
        if at == state.timer {
            return;
        }
        if let Some(old) = std::mem::replace(&mut state.timer, at) {
            self.timers.remove(&(old, peer));
        }
        if let Some(at) = at {
            self.timers.insert((at, peer));
        }
    }

    /// Removes a peer from the table, and everything that refers to it.
    pub(super) fn forget(&mut self, peer: Peer) -> Option<Box<PeerState>> {
        self.unlink(peer);
        let state = self.peers.remove(peer)?;
        if let Some(at) = state.timer {
            self.timers.remove(&(at, peer));
        }
        if self.by_address.get(&state.address) == Some(&peer) {
            self.by_address.remove(&state.address);
        }
        Some(state)
    }

    /// Ends a peer's connection: no datagram finds it any more.
    pub(super) fn unlink(&mut self, peer: Peer) {
        let Some(link) = self.peers.get_mut(peer).and_then(|state| state.link.take()) else {
            return;
        };
        self.by_number.remove(&link.ours);
        let caller = (link.remote, link.theirs);
        if self.by_caller.get(&caller) == Some(&peer) {
            self.by_caller.remove(&caller);
        }
        self.set_timer(peer);
    }

    pub(super) fn make_due(&mut self, peer: Peer) {
        if let Some(state) = self.peers.get_mut(peer)
            && !state.due
        {
            state.due = true;
            self.due.push_back(peer);
        }
    }

    /// Queues a datagram that belongs to no connection.
    pub(super) fn reply(&mut self, to: Remote, datagram: Vec<u8>) {
        if self.replies.len() >= MAX_REPLIES {
            return;
        }
        let host = Source::host(to.address.ip());
        let waiting = self.replies.iter();
        let own = waiting.filter(|(to, _)| Source::host(to.address.ip()) == host);
        if own.count() < MAX_REPLIES_PER_HOST {
            self.replies.push_back((to, datagram));
        }
    }

    /// Reports events that need no datagram. Returns whether there were any.
    pub fn poll_events(
        &mut self,
        now: Time,
        environment: &mut dyn Environment,
        sink: &mut dyn Sink,
    ) -> bool {
        let Some(peer) = self.due.pop_front() else {
            return false;
        };
        let Some(state) = self.peers.get_mut(peer) else {
            return true;
        };
        state.due = false;
        if std::mem::take(&mut state.goes_on) && state.link.is_none() {
            self.begin_to_connect(now, peer, environment);
            return true;
        }
        if let Some(cause) = state.failed.take() {
            self.end(now, peer, cause, sink);
            return true;
        }
        state.session.deliver(peer, sink);
        let held = state.session.take_held(peer, sink);
        if state.session.take_writable() {
            sink.writable(peer);
        }
        match held {
            Ok(false) => {}
            Ok(true) => {
                if let Some(link) = &mut state.link {
                    // There is room again.
                    link.incoming.ack_now(now);
                }
                self.touch(now, peer);
            }
            Err(cause) => self.end(now, peer, cause, sink),
        }
        true
    }

    /// Whether [`Core::poll_events`] or [`Core::poll_transmit`] may have something.
    pub fn has_work(&self) -> bool {
        !self.due.is_empty() || !self.ready.is_empty() || !self.replies.is_empty()
    }

    /// Appends the next datagram to `out` and returns its destination; `None` if there is none now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Remote> {
        // Replies and peers alternate: however many addresses without a connection are sent
        // replies, peers get half of the datagrams.
        let reply_first = !self.replied;
        self.replied = false;
        if reply_first && let Some(to) = self.transmit_reply(out) {
            return Some(to);
        }
        self.transmit_segment(now, out)
            .or_else(|| self.transmit_reply(out))
    }

    fn transmit_reply(&mut self, out: &mut Vec<u8>) -> Option<Remote> {
        let (to, datagram) = self.replies.pop_front()?;
        self.replied = true;
        out.extend_from_slice(&datagram);
        Some(to)
    }

    fn transmit_segment(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Remote> {
        while let Some(&peer) = self.ready.front() {
            let Some(state) = self.peers.get_mut(peer) else {
                self.ready.pop_front();
                continue;
            };
            let PeerState { link, session, .. } = &mut **state;
            if let Some(link) = link
                && link.transmit(now, session, &mut self.scratch, out)
            {
                let to = link.remote;
                state.burst += 1;
                if state.burst >= DATAGRAMS_PER_BURST {
                    state.burst = 0;
                    self.ready.rotate_left(1);
                }
                if state.session.owes_writable() {
                    self.make_due(peer);
                }
                self.set_timer(peer);
                return Some(to);
            }
            state.burst = 0;
            state.ready = false;
            self.ready.pop_front();
            self.set_timer(peer);
        }
        None
    }

    /// When [`Core::handle_timer`] has to be called next.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Handles the timers that have expired.
    pub fn handle_timer(&mut self, now: Time, sink: &mut dyn Sink) {
        // All expired timers are collected first: some peers are due again as long as they have
        // sent nothing.
        let mut come = Vec::new();
        while let Some(&(at, peer)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(state) = self.peers.get_mut(peer) {
                state.timer = None;
                come.push(peer);
            }
        }
        for peer in come {
            self.expire(now, peer, sink);
            self.touch(now, peer);
        }
    }

    /// Handles a datagram that came from `from`.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        from: Remote,
        bytes: &[u8],
        environment: &mut dyn Environment,
        sink: &mut dyn Sink,
    ) {
        // Datagrams that were altered on the way count as lost.
        let Ok(datagram) = Datagram::decode(bytes) else {
            return;
        };
        match datagram {
            Datagram::Plain(prefix, number, segment) => {
                if let Some(peer) = self.addressee(from, prefix, segment.wants_ack, false) {
                    self.segment(now, peer, number, &segment, sink);
                }
            }
            Datagram::Sealed(prefix, number, sealed) => {
                if let Some(peer) = self.addressee(from, prefix, true, true) {
                    self.open_segment(now, peer, number, sealed, sink);
                }
            }
            Datagram::Greeting(prefix, greeting) => {
                self.greeting(now, from, prefix, greeting, environment, sink);
            }
            Datagram::Reset(prefix) => {
                let why = "another process has taken its place at its address";
                let calling = self.opening_to(from, prefix);
                if let Some(peer) = calling.filter(|_| prefix.from == 0) {
                    let cause = PeerError::Refused(format!("at {}", from.address));
                    self.handle_doubtful_refusal(now, peer, cause, sink);
                } else if let Some(peer) = self.addressee(from, prefix, false, false) {
                    self.handle_gone(now, peer, why, sink);
                }
            }
            Datagram::Foreign(prefix, formats) => {
                let whole = bytes.len() >= datagram::GREETING_BYTES;
                self.foreign(now, from, prefix, formats, whole, sink);
            }
        }
    }

    /// Notifies a sender that there is no connection with these numbers here.
    pub(super) fn report_unknown(&mut self, to: Remote, theirs: u64, ours: u64) {
        let mut reset = Vec::new();
        datagram::encode_reset(theirs, ours, &mut reset);
        self.reply(to, reset);
    }

    /// The connection that a datagram belongs to. A sender without a connection gets a reset if it
    /// wants a reply.
    fn addressee(
        &mut self,
        from: Remote,
        prefix: Prefix,
        wants_reply: bool,
        sealed: bool,
    ) -> Option<Peer> {
        let known = self.by_number.get(&prefix.to).copied();
        let Some(peer) = known else {
            if wants_reply {
                self.report_unknown(from, prefix.from, prefix.to);
            }
            return None;
        };
        let link = self.peers.get(peer)?.link.as_ref()?;
        let is_reset = prefix.kind == Kind::Reset;
        let fits = link.remote == from
            && link.theirs == prefix.from
            && !matches!(link.phase, Phase::Opening(_))
            && (is_reset || link.seal.is_some() == sealed);
        fits.then_some(peer)
    }

    fn open_segment(
        &mut self,
        now: Time,
        peer: Peer,
        number: u64,
        sealed: &[u8],
        sink: &mut dyn Sink,
    ) {
        let mut opened = std::mem::take(&mut self.scratch.opened);
        let count = self
            .peers
            .get(peer)
            .and_then(|state| state.link.as_ref()?.seal.as_ref())
            .and_then(|seal| seal.read_message(number, sealed, &mut opened).ok());
        if let Some(count) = count {
            let plain = opened.get(..count).unwrap_or_default();
            match Segment::decode(plain) {
                Ok(segment) => self.segment(now, peer, number, &segment, sink),
                Err(error) => self.end(now, peer, PeerError::Protocol(error.to_string()), sink),
            }
        }
        self.scratch.opened = opened;
    }

    /// Handles a segment that is certain to be from the peer.
    fn segment(
        &mut self,
        now: Time,
        peer: Peer,
        number: u64,
        segment: &Segment<'_>,
        sink: &mut dyn Sink,
    ) {
        let Some(state) = self.peers.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else { return };
        if !link.incoming.is_new(number) {
            return;
        }
        if let Phase::Accepting(_) = link.phase {
            let (theirs, seal) = (link.theirs, link.seal.take());
            link.come_up(theirs, seal, now);
            if let Origin::HalfOpen(entry) = state.origin {
                state.origin = Origin::Accepted;
                self.half_open.remove(entry, peer);
                sink.peer_up(peer);
            }
        }
        link.note_activity(now);
        let mut silence = crate::method::Silence;
        let sink: &mut dyn Sink = match state.origin {
            Origin::Lingering { .. } => &mut silence,
            _ => sink,
        };
        let result = link.input(number, segment, now, &mut state.session, peer, sink);
        if let Err(cause) = result {
            return self.end(now, peer, cause, sink);
        }
        if state.session.take_writable() {
            sink.writable(peer);
        }
        if state.session.has_done() {
            self.make_due(peer);
        }
        self.touch(now, peer);
        self.free_if_done(peer);
    }
}
