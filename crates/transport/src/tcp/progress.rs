//! Poll: which connection is served when.
//!
//! Connections begin in `connection_setup` and end in `ending`.

use std::mem::MaybeUninit;

use causeway_sys::net;
use rustix::event::{Timespec, epoll};

use super::Tcp;
use super::link::Phase;
use super::slots::Origin;
use crate::error::PeerError;
use crate::method::{Peer, Silence, Sink};
use crate::slab::RESERVED_GENERATION;

/// Connections that are read without waiting for epoll. A read that finds nothing costs about two
/// thirds of an epoll call, so more than a few would cost more than they save.
pub(super) const MAX_POLLED: usize = 3;

/// While there are polled connections, epoll is called once in this many polls.
pub(super) const POLLS_PER_EPOLL: u32 = 16;

/// A polled connection whose reads found nothing this many times in a row is left to epoll.
const UNPOLLED_AFTER_MISSES: u32 = 4096;

/// A polled connection whose reads found nothing this many times in a row is replaced by an active
/// one.
pub(super) const YIELD_AFTER_MISSES: u32 = 64;

/// From then on, and until it is active, it is read in one poll of this many if other connections
/// are polled: a message over one of these would wait for a read that mostly finds nothing. (A
/// process between two others, one of which only ever sends and the other receives, has two polled
/// connections.)
pub(super) const POLLS_PER_LUKEWARM: u64 = 8;

/// The events by which epoll reports the end of a stream.
const ENDS: epoll::EventFlags = epoll::EventFlags::RDHUP
    .union(epoll::EventFlags::HUP)
    .union(epoll::EventFlags::ERR);

/// The most events that one epoll call returns.
const EVENTS_PER_POLL: usize = 64;

impl Tcp {
    pub(super) fn make_progress(&mut self, sink: &mut dyn Sink) -> bool {
        self.round += 1;
        let mut any = false;
        if !self.due.is_empty() {
            any |= self.serve_due(sink);
        }
        let mut at = 0;
        while let Some(&peer) = self.polled.get(at) {
            any |= self.read_polled(peer, sink);
            // `read_polled` may have removed the peer from the list.
            if self.polled.get(at) == Some(&peer) {
                at += 1;
            }
        }
        self.polls_without_epoll += 1;
        let due = self.polls_without_epoll >= POLLS_PER_EPOLL || self.others_are_busy;
        if self.polled.is_empty() || due {
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

    /// Delivers events and sends queued data.
    pub(super) fn serve(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        if let Origin::Subflow { of, .. } = state.origin {
            return self.serve(of, sink);
        }
        if let Some(cause) = state.failed.take() {
            self.end(peer, cause, sink);
            return true;
        }
        let mut any = state.session.deliver(peer, sink);
        let Some(link) = state.link.as_mut().filter(|link| link.is_up()) else {
            return any;
        };
        any |= link.flush(&mut state.session, &mut self.buffers);
        if link.broken.is_some() || state.session.has_held() {
            // Bytes that arrived before it broke are still delivered; reading finds the end.
            return self.read(peer, sink) || any;
        }
        if state.session.take_writable() {
            sink.writable(peer);
            any = true;
        }
        any |= self.settle(peer);
        any
    }

    /// After reading or writing: sends on subflows, has epoll report room if the socket is full,
    /// has the next poll go on if there is more to do, closes our half of a lingering connection
    /// that has nothing left. Returns whether anything was sent.
    fn settle(&mut self, peer: Peer) -> bool {
        let any = self.flush_subflows(peer);
        self.accept_invitation(peer);
        let Some(state) = self.slots.get_mut(peer) else {
            return any;
        };
        let Some(link) = &mut state.link else {
            return any;
        };
        if any {
            // The ends of the data that the subflows have carried.
            link.flush(&mut state.session, &mut self.buffers);
        }
        let is_stopped = state.session.is_stopped();
        Self::watch(&self.epoll, link, peer, is_stopped);
        let all_sent = link.has_sent_all(&state.session);
        let goes_on = state.session.has_done() || (!all_sent && !link.full);
        if goes_on {
            Self::make_due(&mut self.due, state);
        }
        if state.is_lingering() {
            if let Some(link) = state.link.as_ref().filter(|link| all_sent && link.is_up()) {
                // An error means that the connection is gone, which reading detects.
                let _ = net::shut_writing(&link.socket);
            }
        } else if !all_sent || is_stopped {
            self.watch_liveness(peer);
        } else {
            self.expect_acknowledgement(peer);
        }
        any
    }

    fn read_polled(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        if self.polled.len() > 1
            && !self.round.is_multiple_of(POLLS_PER_LUKEWARM)
            && let Some(state) = self.slots.get(peer)
            && state.misses >= YIELD_AFTER_MISSES
        {
            return false;
        }
        let mut any = self.read(peer, sink);
        // Epoll reports a socket as writable only when a third of its buffer is free: late for a
        // peer that reads as fast as we write.
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
            if state.misses <= UNPOLLED_AFTER_MISSES {
                return false;
            }
            state.polled = false;
        }
        self.polled.retain(|&polled| polled != peer);
        false
    }

    /// Has every poll read this peer's connection, if there is a slot.
    pub(super) fn start_polling(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if state.polled {
            // It was active, which epoll reported before its turn came.
            state.misses = 0;
            return;
        }
        if !state.is_up() {
            return;
        }
        if self.polled.len() >= MAX_POLLED {
            let idlest = self.polled.iter().copied().max_by_key(|&polled| {
                self.slots
                    .get(polled)
                    .map_or(u32::MAX, |state| state.misses)
            });
            let Some(idlest) = idlest else { return };
            if let Some(state) = self.slots.get_mut(idlest) {
                if state.misses < YIELD_AFTER_MISSES {
                    return;
                }
                state.polled = false;
            }
            self.polled.retain(|&polled| polled != idlest);
        }
        if let Some(state) = self.slots.get_mut(peer) {
            state.polled = true;
            state.misses = 0;
            self.polled.push(peer);
        }
    }

    /// Handles what epoll reports, each connection about once.
    pub(super) fn serve_all_events(&mut self, sink: &mut dyn Sink) {
        let calls = self.slots.len() / EVENTS_PER_POLL + 1;
        for _ in 0..calls {
            if !self.serve_events(sink) {
                return;
            }
        }
    }

    fn serve_events(&mut self, sink: &mut dyn Sink) -> bool {
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_PER_POLL];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events[..], Some(&now)) else {
            return false; // interrupted: the next poll calls it again
        };
        let mut any = false;
        // While they are, epoll is called as often as the polled ones are read, or these would
        // starve them.
        self.others_are_busy = false;
        for event in events {
            let (flags, token) = (event.flags, Peer(event.data.u64()));
            if token.generation() == RESERVED_GENERATION {
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
        if flags.intersects(ENDS)
            && let Some(state) = self.slots.get_mut(peer)
        {
            // Packets that are held back come before the end.
            state.session.resume();
        }
        if flags.intersects(!epoll::EventFlags::OUT) && self.read(peer, sink) {
            any = true;
            self.others_are_busy |= self.slots.get(peer).is_some_and(|state| !state.polled);
            self.start_polling(peer);
        }
        any
    }

    /// Reads a connection, whatever its phase, and replies to its requests. Returns whether
    /// anything happened.
    fn read(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let lingers = state.is_lingering();
        let Some(link) = &mut state.link else {
            return false;
        };
        if !link.is_up() {
            return self.advance_handshake(peer, sink);
        }
        if let Origin::Subflow { of, .. } = state.origin {
            return self.read_subflow(peer, of, sink);
        }
        if lingers {
            return self.read_to_nowhere(peer);
        }
        let held = state.session.take_held(peer, sink);
        let came = held.and_then(|held| {
            Ok(link.read(&mut state.session, peer, &mut self.buffers, sink)? | held)
        });
        match came {
            Ok(false) => false,
            Ok(true) => {
                // Replies and further requests leave at once.
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
