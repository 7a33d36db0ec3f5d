//! How connections end: by an error, by either side, or by a time limit.

use std::time::{Duration, Instant};

use causeway_sys::net;
use rustix::event::{Timespec, epoll};

use super::Tcp;
use super::config::Liveness;
use super::link::{Link, Phase};
use super::progress::POLLS_PER_EPOLL;
use super::slots::{Origin, PeerState};
use crate::blocking::Blocking;
use crate::error::PeerError;
use crate::method::{Peer, Silence, Sink};
use crate::nodes::Membership;
use crate::session::Session;

impl Tcp {
    /// A connection, or the attempt to make one, is over.
    pub(super) fn end(&mut self, peer: Peer, cause: PeerError, sink: &mut dyn Sink) {
        self.polled.retain(|&polled| polled != peer);
        let bounds = self.bounds();
        if self.tries_another_target(peer, &cause) {
            return;
        }
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let was_up = state.link.as_ref().is_some_and(Link::is_up);
        let refusal = match &mut state.origin {
            Origin::Connected(targets) if !was_up => targets.take_refusal(),
            _ => None,
        };
        let cause = refusal.unwrap_or(cause);
        state.polled = false;
        state.session.flush_held(peer, sink);
        if let (Some(link), PeerError::Protocol(text)) = (&mut state.link, &cause)
            && link.is_up()
            && !state.session.has_output()
        {
            // Best effort: the other side should learn the reason.
            state.session.send_protocol_error(text);
            link.flush(&mut state.session, &mut self.buffers);
        }
        state.link = None;
        state.identity = None;
        state.node = None;
        state.user = None;
        state.dying = None;
        let (subflows, ticket) = (std::mem::take(&mut state.subflows), state.ticket.take());
        match state.origin {
            Origin::Connected(_) => {
                state.session.fail(&cause, peer, sink);
                state.session = Session::new(bounds);
                sink.peer_down(peer, cause);
            }
            Origin::Accepted => {
                state.session.fail(&cause, peer, sink);
                state.session = Session::new(bounds);
                state.gone = Some(cause.clone());
                sink.peer_down(peer, cause);
            }
            Origin::HalfOpen(entry) => {
                tracing::debug!(address = %state.address, %cause, "a TCP connection came to nothing");
                self.half_open.remove(entry, peer);
                self.slots.remove(peer);
            }
            Origin::Subflow { of, .. } => {
                tracing::debug!(address = %state.address, %cause, "a subflow came to nothing");
                self.slots.remove(peer);
                if let Some(state) = self.slots.get_mut(of) {
                    state.subflows.retain(|&subflow| subflow != peer);
                }
            }
            Origin::Lingering { .. } => {
                self.slots.remove(peer);
            }
        }
        self.close_subflows(subflows, ticket);
    }

    /// An attempt to connect that ends in the handshake goes on with the peer's next address, if there is time: at this one there may be
    /// another process.
    fn tries_another_target(&mut self, peer: Peer, cause: &PeerError) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let (Some(link), Origin::Connected(targets)) = (&state.link, &mut state.origin) else {
            return false;
        };
        let (now, deadline) = (self.clock.now(), link.trust_deadline);
        if link.is_up() || now >= deadline || !targets.refused(cause) {
            return false;
        }
        tracing::debug!(address = %state.address, %cause, "the peer's next address is tried");
        state.link = None;
        let begun = Self::try_targets(&self.epoll, state, now, deadline).is_ok();
        if begun {
            Self::make_timed(&mut self.timed, state);
        }
        begun
    }

    /// Ends the connections with nodes that are no longer accepted.
    pub(super) fn end_rejected(&mut self, membership: &Membership, sink: &mut dyn Sink) {
        let rejected = |state: &mut Box<PeerState>| {
            let why = membership.still_admits(state.node.as_deref()?).err()?;
            Some((state.handle, why))
        };
        let rejected: Vec<_> = self.slots.iter_mut().filter_map(rejected).collect();
        for (peer, why) in rejected {
            let Some(state) = self.slots.get(peer) else {
                continue; // it has ended with the peer that it was a subflow of
            };
            tracing::warn!(address = %state.address, %why, "a TCP connection is ended");
            let cause = PeerError::Unauthorised(why.to_string());
            match (&state.origin, state.is_shown()) {
                (&Origin::Subflow { of, .. }, _) => self.end(of, cause, sink),
                (_, true) => self.end(peer, cause, sink),
                (_, false) => self.end(peer, cause, &mut Silence),
            }
        }
    }

    /// Drops a peer at the caller's request. Accepted packets are still sent, if that is possible
    /// soon.
    pub(super) fn drop_peer(&mut self, peer: Peer, sink: &mut dyn Sink) {
        if self.slots.shown(peer).is_none() {
            return;
        }
        self.polled.retain(|&polled| polled != peer);
        let Some(mut state) = self.slots.remove(peer) else {
            return;
        };
        if self.by_address.get(&state.address) == Some(&peer) {
            self.by_address.remove(&state.address);
        }
        let (subflows, ticket) = (std::mem::take(&mut state.subflows), state.ticket.take());
        self.close_subflows(subflows, ticket);
        state.dying = None;
        state.session.abandon(&PeerError::Disconnected, peer, sink);
        let Some(link) = &state.link else {
            return;
        };
        if link.broken.is_some() {
            return;
        }
        state.session.goodbye();
        let until = self.clock.now() + self.config.linger_timeout;
        let socket_watch = if matches!(link.phase, Phase::Connecting) {
            epoll::EventFlags::OUT
        } else {
            epoll::EventFlags::IN
        };
        let peer = self.slots.insert(|handle| {
            state.handle = handle;
            state.due = false;
            state.timed = false;
            state.unacknowledged = false;
            state.polled = false;
            // While it is connecting it keeps only the first of its targets.
            state.origin = Origin::Lingering { until };
            state
        });
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Some(link) = &mut state.link {
            (link.watches_room, link.watches_end) = (false, false);
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
        let wait = Blocking::at_most(most);
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
        while self.still_sends() && !wait.is_over() {
            self.due.clear();
            // All connections are checked each time: the process is ending and has nothing else to
            // do.
            let nap = Timespec {
                tv_sec: 0,
                tv_nsec: 10_000_000,
            };
            let mut descriptor = [rustix::event::PollFd::new(
                &self.epoll,
                rustix::event::PollFlags::IN,
            )];
            let _ = rustix::event::poll(&mut descriptor, Some(&nap));
            self.polls_without_epoll = POLLS_PER_EPOLL;
            self.make_progress(&mut Silence);
            let all: Vec<Peer> = self.slots.iter_mut().map(|state| state.handle).collect();
            for peer in all {
                self.serve(peer, &mut Silence);
            }
        }
        self.drain_all();
    }

    /// Discards received bytes: closing a socket with unread bytes would reset the connection, and
    /// what was sent last could be lost.
    fn drain_all(&mut self) {
        for state in self.slots.iter_mut() {
            if let Some(link) = &state.link {
                while let Ok(Some(_)) = link.read_raw(&mut self.buffers) {}
            }
        }
    }

    fn still_sends(&mut self) -> bool {
        self.slots.iter_mut().any(|state| {
            let PeerState { link, session, .. } = &mut **state;
            link.as_ref()
                .is_some_and(|link| link.broken.is_none() && !link.has_sent_all(session))
        })
    }
}

/// Timers.
impl Tcp {
    /// Has ticks check whether this peer is still alive.
    pub(super) fn watch_liveness(&mut self, peer: Peer) {
        if let Some(state) = self.slots.get_mut(peer)
            && !state.timed
        {
            Self::make_timed(&mut self.timed, state);
            if let Some(link) = &mut state.link {
                // Its time starts with the next tick: the latest reading may be from long ago.
                link.last_heard = self.clock.now();
                link.has_received = true;
                link.probed = false;
            }
        }
    }

    /// Packets were sent that need no reply of the peer's process, which may compute. Its host has to acknowledge them, which is
    /// looked at later.
    pub(super) fn expect_acknowledgement(&mut self, peer: Peer) {
        if self.config.liveness != Liveness::Host {
            return; // the kernel does that
        }
        if let Some(state) = self.slots.get_mut(peer)
            && !state.timed
            && !state.unacknowledged
        {
            state.unacknowledged = true;
            self.unacknowledged.push(peer);
            let at = self.clock.now() + self.config.liveness_timeout / 3;
            self.acknowledged_by.get_or_insert(at);
        }
    }

    /// Watches the peers whose hosts have not acknowledged what was sent to them.
    fn check_acknowledgements(&mut self, now: Instant) {
        if self.acknowledged_by.is_none_or(|at| at > now) {
            return;
        }
        self.acknowledged_by = None;
        for peer in std::mem::take(&mut self.unacknowledged) {
            let Some(state) = self.slots.get_mut(peer) else {
                continue;
            };
            state.unacknowledged = false;
            let link = state.link.as_ref().filter(|link| link.is_up());
            if link.is_some_and(is_on_its_way) {
                self.watch_liveness(peer);
            }
        }
    }

    pub(super) fn check_deadlines(&mut self, now: Instant, sink: &mut dyn Sink) {
        if self.next_deadline().is_some_and(|at| at <= now) {
            // What has arrived while this process did not poll counts before time does.
            self.serve_all_events(sink);
        }
        self.check_acknowledgements(now);
        for index in 0..self.listeners.len() {
            if let Some(listener) = self.listeners.get_mut(index)
                && listener.paused_until.is_some_and(|until| until <= now)
            {
                listener.paused_until = None;
                self.watch_listener(index, epoll::EventFlags::IN);
            }
        }
        let patience_ms = self.config.connect_timeout.as_millis() as u64;
        while let Some(peer) = self.half_open.overdue(now) {
            self.end(peer, PeerError::TimedOut(patience_ms), &mut Silence);
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

    /// Checks a peer's time limits. Returns whether the peer still has one.
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
                let gives_way = link.gives_way_at.is_some_and(|at| at <= now);
                if gives_way && matches!(link.phase, Phase::Connecting) {
                    self.give_way(peer, sink);
                }
                return self
                    .slots
                    .get(peer)
                    .is_some_and(|state| state.link.is_some());
            }
            let cause = match (&link.agent, &self.config.agent) {
                (Some(_), Some(agent)) => agent.silent(connect_ms),
                _ => PeerError::TimedOut(connect_ms),
            };
            self.end(peer, cause, sink);
            return false;
        }
        if std::mem::take(&mut link.has_received) {
            link.last_heard = now;
            link.probed = false;
        }
        if let Some((until, cause)) = &mut state.dying {
            // As long as the first connection still delivers bytes, a goodbye may follow.
            if link.last_heard == now {
                *until = now + self.config.linger_timeout;
            }
            if now >= *until {
                let cause = cause.clone();
                self.end(peer, cause, sink);
                return false;
            }
            return true;
        }
        let mut silent = now.saturating_duration_since(link.last_heard);
        if state.session.is_stopped() {
            // This side does not read, so the peer's bytes, among them its probes, stay unread.
            if silent >= liveness / 3 {
                link.last_heard = now;
                state.session.send_keepalive();
                link.flush(&mut state.session, &mut self.buffers);
                Self::make_due(&mut self.due, state);
            }
            return true;
        }
        let by_host = self.config.liveness == Liveness::Host;
        let is_awaited = state.session.is_outstanding() || (by_host && is_on_its_way(link));
        if !is_awaited {
            return false;
        }
        if silent < liveness / 3 {
            return true;
        }
        if by_host {
            // An error means that the connection is gone, which reading detects.
            let unheard = net::host_silence(&link.socket).ok().flatten();
            silent = silent.min(unheard.unwrap_or_default());
            if !link.probed {
                // If this process was away for the whole time, the host has the rest of it from now on.
                silent = silent.min(liveness / 3);
            }
            link.last_heard = now - silent;
            link.probed = silent >= liveness / 3;
        } else if !link.probed {
            // If this process was away for the whole time, the peer has the rest of it from now on.
            link.last_heard = link.last_heard.max(now - liveness / 3);
            link.probed = true;
            state.session.probe();
            // At once: this process may compute next, and look at the time again before it polls twice.
            link.flush(&mut state.session, &mut self.buffers);
            Self::make_due(&mut self.due, state);
            return true;
        }
        if silent >= liveness {
            self.end(peer, PeerError::TimedOut(liveness.as_millis() as u64), sink);
            return false;
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
            if let Some((until, _)) = state.dying {
                return Some(until);
            }
            let link = state.link.as_ref()?;
            Some(match (link.is_up(), link.probed) {
                (false, _) => match (&link.phase, link.gives_way_at) {
                    (Phase::Connecting, Some(at)) => at.min(link.trust_deadline),
                    _ => link.trust_deadline,
                },
                (true, false) => link.last_heard + liveness / 3,
                (true, true) => link.last_heard + liveness,
            })
        });
        let listeners = self
            .listeners
            .iter()
            .filter_map(|listener| listener.paused_until);
        peers
            .chain(listeners)
            .chain(self.half_open.deadline())
            .chain(self.acknowledged_by)
            .min()
    }
}

/// Whether something was sent that the peer's host has not acknowledged. An error means that the connection is gone, which reading detects.
fn is_on_its_way(link: &Link) -> bool {
    net::has_unacknowledged(&link.socket).unwrap_or_default()
}
