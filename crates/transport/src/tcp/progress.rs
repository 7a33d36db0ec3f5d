//! Poll and tick: who is served when, and what becomes of a connection from its first byte to its
//! end.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use causeway_sys::net;
use causeway_wire::tcp::{Auth, Holder, Refusal};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::handshake::{Agreement, Handshake, Role};
use super::link::{Link, Phase, broken};
use super::session::Session;
use super::slots::{FIRST_RESERVED_GENERATION, Origin, PeerState};
use super::{Tcp, TcpConfig, resolve};
use crate::error::{PeerError, TransferError};
use crate::method::{Identity, Packet, Peer, Sink, Token};

/// Connections that are read without asking epoll. A read that finds nothing costs about two thirds
/// of an epoll call, so more than a few would cost more than they save.
pub(super) const MAX_HOT: usize = 3;

/// While there are hot connections, epoll is asked in every so many polls.
pub(super) const POLLS_PER_EPOLL: u32 = 8;

/// A hot connection that had nothing this many times in a row is left to epoll.
const COLD_AFTER_MISSES: u32 = 4096;

/// A hot connection that had nothing this many times gives way to one that has.
const YIELD_AFTER_MISSES: u32 = 64;

/// The most that one epoll call names.
const EVENTS_PER_POLL: usize = 64;

/// The most connections that one poll accepts per listener.
const ACCEPTS_PER_POLL: usize = 32;

/// How long a listener rests when there are no descriptors or no places.
const PAUSE: Duration = Duration::from_millis(50);

/// A half-open connection may be put out for a new one after this.
const HALF_OPEN_GRACE: Duration = Duration::from_secs(1);

/// The kernel's overflow group, for processes whose group is not known.
const NO_GROUP: u32 = 65534;

/// Takes nothing: for peers that nobody is to hear of any more.
struct Silence;

impl Sink for Silence {
    fn packet(&mut self, _: Peer, _: Packet<'_>) {}
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
}

impl Tcp {
    pub(super) fn make_progress(&mut self, sink: &mut dyn Sink) -> bool {
        self.round += 1;
        let mut any = false;
        if !self.due.is_empty() {
            any |= self.serve_due(sink);
        }
        let mut at = 0;
        while let Some(&peer) = self.hot.get(at) {
            any |= self.read_hot(peer, sink);
            // `read_hot` may have taken the peer out of the list.
            if self.hot.get(at) == Some(&peer) {
                at += 1;
            }
        }
        self.polls_without_epoll += 1;
        if self.hot.is_empty() || self.polls_without_epoll >= POLLS_PER_EPOLL {
            self.polls_without_epoll = 0;
            any |= self.serve_events(sink);
        }
        any
    }

    fn serve_due(&mut self, sink: &mut dyn Sink) -> bool {
        let mut any = false;
        let due = std::mem::take(&mut self.due);
        for &peer in &due {
            if let Some(state) = self.slots.get_mut(peer) {
                state.due = false;
                any |= self.serve(peer, sink);
            }
        }
        if self.due.is_empty() {
            let mut due = due;
            due.clear();
            self.due = due;
        }
        any
    }

    /// Reports what is to be reported and sends what can be sent.
    fn serve(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        if let Some(cause) = state.failed.take() {
            self.end(peer, cause, sink);
            return true;
        }
        let mut any = state.session.deliver(peer, sink);
        let Some(link) = state.link.as_mut().filter(|link| link.is_up()) else {
            return any;
        };
        any |= link.flush(&mut state.session, &mut self.buffers);
        if link.broken.is_some() {
            // What came before it broke is still delivered; reading finds the end.
            return self.read(peer, sink) || any;
        }
        if state.session.take_writable() {
            sink.writable(peer);
            any = true;
        }
        self.settle(peer);
        any
    }

    /// After reading or writing: asks epoll for room if the socket is full, has the next poll go on
    /// if there is more to do, ends a lingering connection that has nothing left.
    fn settle(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else {
            return;
        };
        if link.full != link.watches_room {
            let mut flags = epoll::EventFlags::IN;
            if link.full {
                flags |= epoll::EventFlags::OUT;
            }
            let data = epoll::EventData::new_u64(peer.0);
            if epoll::modify(&self.epoll, &link.socket, data, flags).is_ok() {
                link.watches_room = link.full;
            }
        }
        let all_sent = link.has_sent_all(&state.session);
        if state.is_lingering() {
            if all_sent && state.is_up() {
                if let Some(link) = &state.link {
                    // An error means that the connection is gone, which reading finds out.
                    let _ = net::shut_writing(&link.socket);
                }
            }
            return;
        }
        let full = state.link.as_ref().is_some_and(|link| link.full);
        if state.session.has_done() || (!all_sent && !full) {
            Self::make_due(&mut self.due, state);
        }
        if !all_sent {
            self.watch_liveness(peer);
        }
    }

    fn read_hot(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let mut any = self.read(peer, sink);
        // Epoll calls a socket writable only when a third of its buffer is free: late for a peer
        // that reads as fast as we write.
        if let Some(state) = self.slots.get_mut(peer)
            && let Some(link) = &mut state.link
            && link.full
        {
            link.full = false;
            any |= self.serve(peer, sink);
        }
        if any {
            if let Some(state) = self.slots.get_mut(peer) {
                state.misses = 0;
            }
            return true;
        }
        if let Some(state) = self.slots.get_mut(peer) {
            state.misses += 1;
            if state.misses <= COLD_AFTER_MISSES {
                return false;
            }
            state.hot = false;
        }
        self.hot.retain(|&hot| hot != peer);
        false
    }

    /// Has every poll read this peer's connection, if there is a place.
    pub(super) fn heat(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if state.hot {
            return;
        }
        if !state.is_up() {
            return;
        }
        if self.hot.len() >= MAX_HOT {
            let idlest = self
                .hot
                .iter()
                .copied()
                .max_by_key(|&hot| self.slots.get(hot).map_or(u32::MAX, |state| state.misses));
            let Some(idlest) = idlest else { return };
            if let Some(state) = self.slots.get_mut(idlest) {
                if state.misses < YIELD_AFTER_MISSES {
                    return;
                }
                state.hot = false;
            }
            self.hot.retain(|&hot| hot != idlest);
        }
        if let Some(state) = self.slots.get_mut(peer) {
            state.hot = true;
            state.misses = 0;
            self.hot.push(peer);
        }
    }

    fn serve_events(&mut self, sink: &mut dyn Sink) -> bool {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_PER_POLL];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&now)) else {
            return false; // interrupted: the next poll asks again
        };
        let mut any = false;
        for event in events {
            let (flags, token) = (event.flags, Peer(event.data.u64()));
            if token.generation() == FIRST_RESERVED_GENERATION {
                any |= self.accept_some(token.index());
            } else {
                any |= self.serve_event(token, flags, sink);
            }
        }
        any
    }

    fn serve_event(&mut self, peer: Peer, flags: epoll::EventFlags, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let Some(link) = &mut state.link else {
            return false;
        };
        if let Phase::Connecting = link.phase {
            self.finish_connecting(peer, sink);
            return true;
        }
        let mut any = false;
        if flags.contains(epoll::EventFlags::OUT) {
            link.full = false;
            any |= self.serve(peer, sink);
        }
        if flags.intersects(!epoll::EventFlags::OUT) && self.read(peer, sink) {
            any = true;
            self.heat(peer);
        }
        any
    }

    /// Reads a connection, whatever its phase, and answers what it asks. Answers whether anything
    /// happened.
    fn read(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let lingers = state.is_lingering();
        let Some(link) = &mut state.link else {
            return false;
        };
        if !link.is_up() {
            return self.shake(peer, sink);
        }
        if lingers {
            return self.read_to_nowhere(peer);
        }
        match link.read(&mut state.session, peer, &mut self.buffers, sink) {
            Ok(false) => false,
            Ok(true) => {
                // Answers and further requests leave at once.
                if state.session.has_output() {
                    link.flush(&mut state.session, &mut self.buffers);
                }
                if state.session.take_writable() {
                    sink.writable(peer);
                }
                self.settle(peer);
                true
            }
            Err(cause) => {
                self.end(peer, cause, sink);
                true
            }
        }
    }

    fn read_to_nowhere(&mut self, peer: Peer) -> bool {
        let over = match self.slots.get(peer).and_then(|state| state.link.as_ref()) {
            Some(link) => link.read_raw(&mut self.buffers).is_err(),
            None => true,
        };
        if over {
            self.end(peer, PeerError::Disconnected, &mut Silence);
        }
        true
    }
}

/// Beginnings.
impl Tcp {
    fn handshake(config: &TcpConfig, role: Role, socket: &OwnedFd) -> Handshake {
        let holder = Holder {
            pid: std::process::id(),
            descriptor: socket.as_raw_fd().unsigned_abs(),
        };
        Handshake::new(role, config.key, config.encrypt, holder)
    }

    /// Begins to connect to the next target that can be tried. Failure is reported by the next poll.
    pub(super) fn begin_to_connect(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let now = Instant::now();
        let deadline = now + self.config.connect_timeout;
        if let Err(cause) = Self::try_targets(&self.epoll, state, now, deadline) {
            state.failed = Some(cause);
            Self::make_due(&mut self.due, state);
            return;
        }
        Self::make_timed(&mut self.timed, state);
    }

    /// Begins with the target at hand, or one behind it.
    fn try_targets(
        epoll: &OwnedFd,
        state: &mut PeerState,
        now: Instant,
        deadline: Instant,
    ) -> Result<(), PeerError> {
        let Origin::Connected { targets, at } = &mut state.origin else {
            return Err(PeerError::Disconnected);
        };
        let mut last = PeerError::Refused("it has no address".to_owned());
        while let Some(target) = targets.get(*at) {
            let begun = net::connect(target).and_then(|socket| {
                let data = epoll::EventData::new_u64(state.handle.0);
                epoll::add(epoll, &socket, data, epoll::EventFlags::OUT)?;
                Ok(socket)
            });
            match begun {
                Ok(socket) => {
                    state.link = Some(Link::new(socket, Phase::Connecting, now, deadline));
                    return Ok(());
                }
                Err(error) => last = connect_error(&error, target),
            }
            *at += 1;
        }
        *at = 0;
        Err(last)
    }

    /// A TCP connection stands, or not.
    fn finish_connecting(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let vanished = self.config.liveness_timeout;
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else { return };
        let deadline = link.trust_deadline;
        let outcome = net::connected(&link.socket).and_then(|()| {
            net::tune(&link.socket, vanished)?;
            let data = epoll::EventData::new_u64(peer.0);
            Ok(epoll::modify(
                &self.epoll,
                &link.socket,
                data,
                epoll::EventFlags::IN,
            )?)
        });
        if let Err(error) = outcome {
            state.link = None;
            let Origin::Connected { targets, at } = &mut state.origin else {
                return self.end(peer, broken(&error), sink);
            };
            let cause = match targets.get(*at) {
                Some(target) => connect_error(&error, target),
                None => broken(&error),
            };
            *at += 1;
            let more = *at < targets.len();
            let next = match more {
                true => Self::try_targets(&self.epoll, state, Instant::now(), deadline),
                false => Err(cause),
            };
            if let Err(cause) = next {
                self.end(peer, cause, sink);
            }
            return;
        }
        let mut handshake = Self::handshake(&self.config, Role::Initiator, &link.socket);
        let hello = handshake.take_output();
        link.phase = Phase::Shaking(Box::new(handshake));
        if let Err(cause) = link.send_step(&hello) {
            self.end(peer, cause, sink);
        }
    }

    /// Accepts what waits at a listener. Answers whether anybody came.
    fn accept_some(&mut self, index: usize) -> bool {
        for _ in 0..ACCEPTS_PER_POLL {
            if !self.has_place() {
                self.pause_listener(index);
                return true;
            }
            let Some(listener) = self.listeners.get(index) else {
                return false;
            };
            match net::accept(&listener.socket) {
                Ok(Some(socket)) => self.welcome(socket),
                Ok(None) => return true,
                Err(error) => {
                    tracing::warn!(%error, "accepting TCP connections pauses");
                    self.pause_listener(index);
                    return true;
                }
            }
        }
        true
    }

    /// Whether one more half-open connection may stand. Puts out one that takes too long if that
    /// makes the place.
    fn has_place(&mut self) -> bool {
        if self.half_open < self.config.max_half_open {
            return true;
        }
        let now = Instant::now();
        let oldest = self
            .timed
            .iter()
            .filter_map(|&peer| self.slots.get(peer))
            .filter(|state| state.is_half_open())
            .filter_map(|state| Some((state.link.as_ref()?.trust_deadline, state.handle)))
            .min();
        match oldest {
            Some((deadline, peer))
                if now + self.config.connect_timeout >= deadline + HALF_OPEN_GRACE =>
            {
                self.end(peer, PeerError::TimedOut(1000), &mut Silence);
                true
            }
            _ => false,
        }
    }

    fn pause_listener(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.paused_until = Some(Instant::now() + PAUSE);
            self.watch_listener(index, epoll::EventFlags::empty());
        }
    }

    fn watch_listener(&self, index: usize, flags: epoll::EventFlags) {
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        let token = Peer::new(index as u32, FIRST_RESERVED_GENERATION);
        let data = epoll::EventData::new_u64(token.0);
        if let Err(error) = epoll::modify(&self.epoll, &listener.socket, data, flags) {
            tracing::error!(%error, "epoll does not change what it watches a listener for");
        }
    }

    /// Somebody has connected to us.
    fn welcome(&mut self, socket: OwnedFd) {
        let now = Instant::now();
        let Ok(remote) = net::peer_address(&socket) else {
            return; // it has gone already
        };
        let Some(address) = resolve::describe(remote) else {
            return;
        };
        if net::tune(&socket, self.config.liveness_timeout).is_err() {
            return; // likewise
        }
        let mut handshake = Self::handshake(&self.config, Role::Responder, &socket);
        if self.slots.len() >= self.config.max_peers {
            tracing::warn!(%address, limit = self.config.max_peers, "a TCP peer is turned away");
            handshake.refuse(Refusal::Full);
            let bytes = handshake.take_output();
            let _ = net::send_pieces(&socket, &[net::Piece::Bytes(&bytes)]);
            return;
        }
        let deadline = now + self.config.connect_timeout;
        let bounds = self.bounds();
        let peer = self.slots.insert(|handle| {
            PeerState::new(handle, Origin::Accepted { told: false }, address, bounds)
        });
        self.half_open += 1;
        let data = epoll::EventData::new_u64(peer.0);
        let watched = epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN);
        if let Some(state) = self.slots.get_mut(peer) {
            let phase = Phase::Shaking(Box::new(handshake));
            state.link = Some(Link::new(socket, phase, now, deadline));
            Self::make_timed(&mut self.timed, state);
        }
        if let Err(error) = watched {
            self.end(peer, broken(&error.into()), &mut Silence);
        }
    }

    /// Goes on with a handshake.
    fn shake(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let Some(link) = &mut state.link else {
            return false;
        };
        let bytes = match link.read_raw(&mut self.buffers) {
            Ok(Some(bytes)) => bytes.to_vec(),
            Ok(None) => return false,
            Err(cause) => {
                self.end(peer, cause, sink);
                return true;
            }
        };
        let Phase::Shaking(handshake) = &mut link.phase else {
            return false;
        };
        let mut identity = None;
        let socket = &link.socket;
        let outcome = handshake.input(&bytes, &mut |holder| {
            identity = Some(same_user(socket, holder)?);
            Ok(())
        });
        let output = handshake.take_output();
        let sent = link.send_step(&output);
        let agreement = match (outcome, sent) {
            (Err(cause), _) | (Ok(_), Err(cause)) => {
                self.end(peer, cause, sink);
                return true;
            }
            (Ok(None), Ok(())) => {
                state.identity = identity.or(state.identity);
                return true;
            }
            (Ok(Some(agreement)), Ok(())) => agreement,
        };
        state.identity = match agreement.auth {
            Auth::ClusterKey => Some(Identity::Keyed),
            Auth::SameUser => identity.or(state.identity),
        };
        self.come_up(peer, agreement, sink);
        true
    }

    fn come_up(&mut self, peer: Peer, agreement: Agreement, sink: &mut dyn Sink) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let Some(link) = &mut state.link else { return };
        let rest = link.agree(agreement);
        link.last_heard = Instant::now();
        if let Origin::Accepted { told } = &mut state.origin {
            *told = true;
            self.half_open -= 1;
            sink.peer_up(peer);
        }
        let sink: &mut dyn Sink = match state.is_lingering() {
            true => &mut Silence,
            false => sink,
        };
        let Some(link) = &mut state.link else { return };
        if let Err(cause) = link.input(&rest, &mut state.session, peer, &mut self.buffers, sink) {
            return self.end(peer, cause, sink);
        }
        Self::make_due(&mut self.due, state);
        self.heat(peer);
    }
}

/// Ends.
impl Tcp {
    /// A connection, or the attempt to make one, is over.
    fn end(&mut self, peer: Peer, cause: PeerError, sink: &mut dyn Sink) {
        self.hot.retain(|&hot| hot != peer);
        let bounds = self.bounds();
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        state.hot = false;
        if let (Some(link), PeerError::Protocol(text)) = (&mut state.link, &cause)
            && link.is_up()
            && !state.session.has_output()
        {
            // The other side may like to know; if it cannot be told now, it cannot.
            state.session.complain(text);
            link.flush(&mut state.session, &mut self.buffers);
        }
        state.link = None;
        state.identity = None;
        match state.origin {
            Origin::Connected { ref mut at, .. } => {
                *at = 0;
                state.session.fail(&cause, peer, sink);
                state.session = Session::new(bounds);
                sink.peer_down(peer, cause);
            }
            Origin::Accepted { told: true } => {
                state.session.fail(&cause, peer, sink);
                state.session = Session::new(bounds);
                state.gone = Some(cause.clone());
                sink.peer_down(peer, cause);
            }
            Origin::Accepted { told: false } => {
                tracing::debug!(address = %state.address, %cause, "a TCP connection came to nothing");
                self.half_open -= 1;
                self.slots.remove(peer);
            }
            Origin::Lingering { .. } => {
                self.slots.remove(peer);
            }
        }
    }

    /// The caller drops a peer. What was accepted for it is still sent, if that is possible soon.
    pub(super) fn drop_peer(&mut self, peer: Peer, sink: &mut dyn Sink) {
        if !matches!(self.slots.get(peer), Some(state) if !state.is_half_open() && !state.is_lingering())
        {
            return;
        }
        self.hot.retain(|&hot| hot != peer);
        let Some(mut state) = self.slots.remove(peer) else {
            return;
        };
        if self.by_address.get(&state.address) == Some(&peer) {
            self.by_address.remove(&state.address);
        }
        state.session.abandon(&PeerError::Disconnected, peer, sink);
        let Some(link) = &state.link else {
            return;
        };
        if link.broken.is_some() {
            return;
        }
        state.session.goodbye();
        let until = Instant::now() + self.config.linger_timeout;
        let socket_watch = if matches!(link.phase, Phase::Connecting) {
            epoll::EventFlags::OUT
        } else {
            epoll::EventFlags::IN
        };
        let peer = self.slots.insert(|handle| {
            state.handle = handle;
            state.due = false;
            state.timed = false;
            state.hot = false;
            // While it is connecting it keeps its targets' first choice only.
            state.origin = Origin::Lingering { until };
            state
        });
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Some(link) = &mut state.link {
            link.watches_room = false;
            let data = epoll::EventData::new_u64(peer.0);
            if epoll::modify(&self.epoll, &link.socket, data, socket_watch).is_err() {
                self.slots.remove(peer);
                return;
            }
        }
        Self::make_timed(&mut self.timed, state);
        self.serve(peer, &mut Silence);
    }

    /// Drops every peer and waits at most `most` for their packets to leave.
    pub(super) fn close_all(&mut self, most: Duration) {
        let until = Instant::now() + most;
        let peers: Vec<Peer> = self
            .slots
            .iter_mut()
            .filter(|state| state.link.is_some())
            .map(|state| state.handle)
            .collect();
        for peer in peers {
            self.drop_peer(peer, &mut Silence);
        }
        self.listeners.clear();
        while self.still_sends() && Instant::now() < until {
            self.due.clear();
            let wait = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            let mut descriptor = [rustix::event::PollFd::new(
                &self.epoll,
                rustix::event::PollFlags::IN,
            )];
            let _ = rustix::event::poll(&mut descriptor, Some(&wait));
            self.polls_without_epoll = POLLS_PER_EPOLL;
            self.make_progress(&mut Silence);
            let all: Vec<Peer> = self.slots.iter_mut().map(|state| state.handle).collect();
            for peer in all {
                self.serve(peer, &mut Silence);
            }
        }
    }

    fn still_sends(&mut self) -> bool {
        self.slots.iter_mut().any(|state| {
            let PeerState { link, session, .. } = state;
            link.as_ref()
                .is_some_and(|link| link.broken.is_none() && !link.has_sent_all(session))
        })
    }
}

/// Time.
impl Tcp {
    /// Has ticks look whether this peer is still alive.
    pub(super) fn watch_liveness(&mut self, peer: Peer) {
        if let Some(state) = self.slots.get_mut(peer)
            && !state.timed
        {
            Self::make_timed(&mut self.timed, state);
            if let Some(link) = &mut state.link {
                link.last_heard = Instant::now();
                link.probed = false;
            }
        }
    }

    pub(super) fn check_deadlines(&mut self, now: Instant, sink: &mut dyn Sink) {
        for index in 0..self.listeners.len() {
            if let Some(listener) = self.listeners.get_mut(index)
                && listener.paused_until.is_some_and(|until| until <= now)
            {
                listener.paused_until = None;
                self.watch_listener(index, epoll::EventFlags::IN);
            }
        }
        let mut at = 0;
        while let Some(&peer) = self.timed.get(at) {
            if self.check_deadline(peer, now, sink) {
                at += 1;
            } else {
                self.timed.swap_remove(at);
                if let Some(state) = self.slots.get_mut(peer) {
                    state.timed = false;
                }
            }
        }
    }

    /// Answers whether the peer still has a deadline.
    fn check_deadline(&mut self, peer: Peer, now: Instant, sink: &mut dyn Sink) -> bool {
        let liveness = self.config.liveness_timeout;
        let connect_ms = self.config.connect_timeout.as_millis() as u64;
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        if let Origin::Lingering { until } = state.origin {
            if now < until {
                return true;
            }
            self.end(peer, PeerError::Disconnected, &mut Silence);
            return false;
        }
        let Some(link) = &mut state.link else {
            return false;
        };
        if !link.is_up() {
            if now < link.trust_deadline {
                return true;
            }
            self.end(peer, PeerError::TimedOut(connect_ms), sink);
            return false;
        }
        if std::mem::take(&mut link.heard) {
            link.last_heard = now;
            link.probed = false;
        }
        if !state.session.is_outstanding() {
            return false;
        }
        let silent = now.saturating_duration_since(link.last_heard);
        if silent >= liveness {
            self.end(peer, PeerError::TimedOut(liveness.as_millis() as u64), sink);
            return false;
        }
        if silent >= liveness / 3 && !link.probed {
            link.probed = true;
            state.session.probe();
            Self::make_due(&mut self.due, state);
        }
        true
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let liveness = self.config.liveness_timeout;
        let peers = self.timed.iter().filter_map(|&peer| {
            let state = self.slots.get(peer)?;
            if let Origin::Lingering { until } = state.origin {
                return Some(until);
            }
            let link = state.link.as_ref()?;
            Some(match (link.is_up(), link.probed) {
                (false, _) => link.trust_deadline,
                (true, false) => link.last_heard + liveness / 3,
                (true, true) => link.last_heard + liveness,
            })
        });
        let listeners = self
            .listeners
            .iter()
            .filter_map(|listener| listener.paused_until);
        peers.chain(listeners).min()
    }
}

fn connect_error(error: &io::Error, target: &SocketAddr) -> PeerError {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => PeerError::Refused(format!("at {target}: {error}")),
        _ => PeerError::Broken(format!("connecting to {target}: {error}")),
    }
}

/// Without a key: whether the other end of this connection is a process of our user on this host,
/// or one of us is root.
fn same_user(socket: &OwnedFd, holder: Holder) -> Result<Identity, String> {
    let unknown =
        |error: io::Error| format!("the kernel does not say whose process it is: {error}");
    let ours = net::local_address(socket).map_err(unknown)?;
    let theirs = net::peer_address(socket).map_err(unknown)?;
    if !resolve::is_loopback(ours) || !resolve::is_loopback(theirs) {
        return Err(format!(
            "{theirs} is not on this host, and there is no cluster key"
        ));
    }
    let me = rustix::process::geteuid().as_raw();
    let Some(owner) = net::owner_of_other_end(ours, theirs).map_err(unknown)? else {
        return Err(format!("no process holds the other end at {theirs}"));
    };
    let uid = owner.uid;
    if uid != me && uid != 0 && me != 0 {
        return Err(format!(
            "the process at {theirs} belongs to user {uid}, this one to user {me}; \
             different users need a cluster key"
        ));
    }
    // A claim that the kernel does not bear out (another name space of processes, or a process of
    // root that we may not look into) says nothing.
    let confirmed = net::holder_of(owner.inode, holder.pid, holder.descriptor);
    Ok(Identity::Local {
        pid: confirmed.map_or(0, |_| holder.pid as i32),
        uid,
        gid: confirmed.map_or(NO_GROUP, |process| process.gid),
    })
}
