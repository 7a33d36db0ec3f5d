//! Progress: active rings are polled, for the others notification is enabled; sockets are polled
//! now and then.
//!
//! What one poll costs does not grow with the number of open peers: it looks at the rings that had something lately, at one word of
//! the doorbell page, and every 1024th time at the epoll set. A poll that continues to serve the ring that the last poll took a
//! packet from (`take_next`) looks at that ring alone and is not counted: there are at most 31 of them between two polls that look at
//! everything.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use causeway_sys::patience::Patience;
use causeway_wire::shm::SlotKind;

use super::Shm;
use super::atomics;
use super::bulk;
use super::costs::{Copying, LARGE_BYTES};
use super::doorbell::{self, BellMemory, SleepOn};
use super::handshake::{HALF_OPEN_KEY, LISTENER_KEY};
use super::intervals::{
    ALWAYS_POLLED, AWAKE_POLLS, CLOCKED_SPINS, HANDSHAKE_POLLS, QUIET_CHECK_POLLS, QUIET_LOOKS,
    QUIET_LOOKS_NOTIFIED, SOCKET_POLLS,
};
use super::pair::{Pair, Stage};
use super::peers::{Entry, Link};
use super::ring::{Peeked, Queue};
use super::transfer::{self, Step};
use super::{split_copy, split_initiator};
use crate::error::PeerError;
use crate::method::{Packet, Peer, Sink, Takes};
use crate::wake::WakeFlag;

/// Packets taken from one ring in one poll, so that one peer cannot starve the others.
const BURST: usize = 32;

/// Packets that have arrived back to back before the lines of possible further ones are prefetched.
/// If there are none, the sender has to fetch these lines back before it writes them: at 220 ns a
/// line, packets of 64 bytes take 89 ns instead of 102, of 8 bytes 83 instead of 89; at 32 ns it
/// makes no difference.
const QUEUED: usize = 8;

impl Shm {
    /// One poll. Rare work is in functions that are not inlined: with all of them inlined, this function had 25 KB of code and a
    /// stack frame of 1.6 KB, and 8 bytes took 138 ns one way instead of 121 (two threads of one core).
    pub(super) fn poll_all(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        // First, so that no packet is delivered of nodes that are no longer accepted.
        if let Some(membership) = self.nodes_version.changed(self.config.nodes.as_ref()) {
            self.fail_rejected(&membership);
        }
        let takes = sink.takes();
        if takes == Takes::OneInTurn && self.take_next(now, sink) {
            return true;
        }
        self.polls += 1;
        let mut progress = self.poll_rings(now, takes, sink);
        if doorbell::is_rung(&self.bell) {
            progress |= self.serve_doorbell(sink);
        }
        if !self.busy.is_empty() {
            progress |= self.step_transfers(sink);
        }
        if !self.watched.is_empty() {
            self.check_helpers();
        }
        // Own transfers come first: the check may just have found something to do for one.
        if !progress && self.busy.is_empty() && !self.grantees.is_empty() {
            progress |= self.help();
        }
        if !self.failed.is_empty() {
            progress |= self.tear_down_failed(sink);
        }
        if self.polled.len() > ALWAYS_POLLED && self.polls.is_multiple_of(QUIET_CHECK_POLLS) {
            self.stop_polling_quiet();
        }
        if self.attention || self.polls.is_multiple_of(SOCKET_POLLS) || self.is_meeting() {
            progress |= self.check_connections(now, sink);
        }
        progress
    }

    /// Whether the polled rings and the doorbell have nothing, and a poll has nothing else to do. A program that tests a request again and again asks this, and
    /// a poll that finds nothing takes twice as long.
    #[inline]
    pub(super) fn finds_nothing(&mut self, now: Instant) -> bool {
        let is_idle = self.busy.is_empty()
            && self.watched.is_empty()
            && self.failed.is_empty()
            && self.pending.is_empty()
            && self.polled.len() <= ALWAYS_POLLED
            && self.config.nodes.is_none();
        let is_due = self.attention || (self.polls + 1).is_multiple_of(SOCKET_POLLS);
        if !is_idle || is_due || doorbell::is_rung(&self.bell) {
            return false;
        }
        let mut grantees = 0;
        for &index in &self.polled {
            let Some(pair) = self.peers.at(index).and_then(Entry::pair) else {
                return false;
            };
            let is_offered = pair.is_grantee && pair.helper.is_any_open();
            if is_offered || !pair.finds_nothing(now) {
                return false;
            }
            grantees += usize::from(pair.is_grantee);
        }
        if grantees != self.grantees.len() {
            return false;
        }
        self.polls += 1;
        self.looks += self.polled.len() as u64;
        true
    }

    /// Spins briefly on the polled ring, if there is only one, and on the doorbell.
    #[inline]
    pub(super) fn spin_polled(&mut self, now: Instant, most: u32) {
        let &[index] = self.polled.as_slice() else {
            return;
        };
        if !self.busy.is_empty() || self.attention || !self.failed.is_empty() {
            return;
        }
        let Some(pair) = self.peers.at(index).and_then(Entry::pair) else {
            return;
        };
        if self.watched.len() > usize::from(pair.transfers.watched) {
            return;
        }
        for spin in 0..most {
            let clocked = spin % CLOCKED_SPINS == 0;
            let is_copied = pair.transfers.watched && split_initiator::has_news(pair, clocked);
            let is_offered = self.sharing.helps && pair.is_grantee && pair.helper.is_any_open();
            if doorbell::is_rung(&self.bell) || is_copied || is_offered {
                return;
            }
            if !pair.skips_poll(now) {
                if pair.consumer.is_ready() {
                    return;
                }
                pair.found_none(now);
            }
            // Without it, loads that run ahead have to be undone when the line changes.
            std::hint::spin_loop();
        }
    }

    fn is_meeting(&self) -> bool {
        !self.pending.is_empty() && self.polls.is_multiple_of(HANDSHAKE_POLLS)
    }

    /// Checks sockets and connections being made.
    pub(super) fn check_connections(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        let now = self.clock.advance(now);
        self.attention = false;
        if !self.pending.is_empty() || !self.half_open.is_empty() {
            self.check_pending(now);
        }
        let progress = self.check_sockets(sink);
        progress | self.tear_down_failed(sink)
    }

    #[inline]
    fn poll_rings(&mut self, now: Instant, takes: Takes, sink: &mut dyn Sink) -> bool {
        let most = match takes {
            Takes::Some => BURST,
            Takes::One | Takes::OneInTurn => {
                // If `take_next` did not take a packet from the first ring, for whatever reason, the next ring
                // is served first.
                let had_turn = std::mem::take(&mut self.taken_in_turn) > 0 || takes == Takes::One;
                if had_turn && self.polled.len() > 1 {
                    self.polled.rotate_left(1);
                }
                1
            }
        };
        self.looks += self.polled.len() as u64;
        let mut progress = false;
        let mut at = 0;
        while let Some(&index) = self.polled.get(at) {
            let Some(entry) = self.peers.at(index) else {
                self.polled.swap_remove(at);
                continue;
            };
            let peer = entry.peer;
            let Some(pair) = entry.pair() else {
                self.polled.swap_remove(at);
                continue;
            };
            at += 1;
            if pair.unproven || pair.skips_poll(now) {
                continue;
            }
            if pair.consumer.is_ready() {
                pair.last_active = self.looks;
                progress = true;
                drain(pair, peer, most, sink);
                pair.pace.looked(now);
                let after = (pair.failing.is_some(), pair.has_work());
                if pair.set_aside {
                    at -= 1;
                    self.polled.swap_remove(at);
                } else if takes == Takes::OneInTurn {
                    // This ring comes first in the next polls, too.
                    self.polled.rotate_left(at - 1);
                    self.taken_in_turn = 1;
                }
                self.note_drained(peer, after);
                if takes != Takes::Some {
                    break;
                }
            } else {
                pair.found_none(now);
                if pair.consumer.found_empty() {
                    pair.ring_peer();
                }
            }
        }
        progress
    }

    /// Delivers the next packet of the ring from which the last poll took one, if there is one. Polls do so until [`BURST`] packets of the ring
    /// have been taken: this uses the lines of the ring that were prefetched, does not take lines away from the senders of other rings, and
    /// checks nothing else. Transfers in progress, connections that fail and sockets that have to be polled end it.
    #[inline(never)]
    fn take_next(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        let others_wait = !self.busy.is_empty() || !self.failed.is_empty() || self.attention;
        if others_wait || !(1..BURST).contains(&self.taken_in_turn) {
            return false;
        }
        let first = self.polled.first().and_then(|&index| self.peers.at(index));
        let Some((peer, pair)) = first.and_then(|entry| Some((entry.peer, entry.pair()?))) else {
            return false;
        };
        let may_go_on = !pair.unproven && !pair.paused && pair.failing.is_none();
        if !may_go_on || !pair.consumer.is_ready() {
            return false;
        }
        self.taken_in_turn += 1;
        pair.last_active = self.looks;
        drain(pair, peer, 1, sink);
        pair.pace.looked(now);
        let after = (pair.failing.is_some(), pair.has_work());
        self.note_drained(peer, after);
        true
    }

    /// Updates the lists after packets of a peer were delivered: `failing` if its connection fails, `busy` if
    /// it has transfers to continue.
    #[inline]
    fn note_drained(&mut self, peer: Peer, (failing, busy): (bool, bool)) {
        if failing {
            self.mark_failed(peer);
        }
        if busy {
            self.list_busy(peer);
        }
    }

    #[inline(never)]
    fn serve_doorbell(&mut self, sink: &mut dyn Sink) -> bool {
        let mut rung = std::mem::take(&mut self.rung);
        doorbell::collect(&self.bell, &mut rung);
        let awake = self.polls - self.slept_at > AWAKE_POLLS;
        for &index in &rung {
            let Some(entry) = self.peers.at(index) else {
                continue;
            };
            let peer = entry.peer;
            let Some(pair) = entry.pair() else { continue };
            pair.last_active = self.looks;
            // Its second packet within the time that a ring is polled for.
            let is_busy = pair.polled || self.polled.len() < ALWAYS_POLLED;
            if !pair.polled && !pair.set_aside {
                pair.polled = true;
                self.polled.push(index);
            }
            if pair.notification && awake && is_busy {
                pair.notification = false;
                pair.consumer.disable_notification();
            }
            // The doorbell may mean a packet, or room for what waits to be sent.
            bulk::send_replies(pair);
            atomics::send_replies(pair);
            if !pair.unproven {
                drain(pair, peer, BURST, sink);
            }
            if pair.blocked && pair.takes_packets() {
                pair.blocked = false;
                sink.writable(peer);
            }
            let after = (pair.failing.is_some(), pair.has_work());
            if pair.set_aside {
                self.polled.retain(|&polled| polled != index);
            }
            self.note_drained(peer, after);
        }
        let progress = !rung.is_empty();
        rung.clear();
        self.rung = rung;
        progress
    }

    /// Has the next polls continue the peer's transfers.
    pub(super) fn list_busy(&mut self, peer: Peer) {
        if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair())
            && !pair.transfers.listed
        {
            pair.transfers.listed = true;
            self.busy.push_back(peer);
        }
    }

    /// Carries out one step of one peer's transfers, round robin over the peers.
    #[inline(never)]
    fn step_transfers(&mut self, sink: &mut dyn Sink) -> bool {
        let Some(peer) = self.busy.pop_front() else {
            return false;
        };
        let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) else {
            return true;
        };
        pair.transfers.listed = false;
        self.copied = true;
        atomics::step(pair, peer, sink);
        let step = transfer::step(pair, peer, sink);
        if pair.failing.is_some() {
            self.mark_failed(peer);
        }
        match step {
            Step::Again => self.list_busy(peer),
            Step::Watch => self.list_watched(peer),
            Step::Wait => {}
        }
        true
    }

    fn list_watched(&mut self, peer: Peer) {
        if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair())
            && !pair.transfers.watched
        {
            pair.transfers.watched = true;
            self.watched.push(peer);
        }
    }

    /// Continues transfers of which the peer has finished its part.
    #[inline(never)]
    fn check_helpers(&mut self) {
        let mut watched = std::mem::take(&mut self.watched);
        watched.retain(|&peer| {
            let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) else {
                return false;
            };
            let news = split_initiator::has_news(pair, true);
            if news {
                pair.transfers.watched = false;
                // This may have been the last check before a sleep.
                pair.offers.want_ring(false);
                self.list_busy(peer);
            }
            !news
        });
        self.watched = watched;
    }

    /// Carries out a part of a transfer that a peer has started and shares, round robin over the
    /// peers.
    #[inline(never)]
    fn help(&mut self) -> bool {
        let next = self.polls as usize % self.grantees.len();
        let peer = self.grantees[next];
        let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) else {
            self.grantees.swap_remove(next);
            return false;
        };
        if !pair.exports.is_any() {
            pair.is_grantee = false;
            self.grantees.swap_remove(next);
            return false;
        }
        let helped = self.sharing.helps && split_copy::help(pair);
        self.copied |= helped;
        if pair.failing.is_some() {
            self.mark_failed(peer);
        }
        helped
    }

    /// Whether a peer shares a transfer that has something left to do.
    fn can_help(&mut self) -> bool {
        let peers = &mut self.peers;
        self.sharing.helps
            && self.grantees.iter().any(|&peer| {
                let pair = peers.get_mut(peer).and_then(|entry| entry.pair());
                pair.is_some_and(split_copy::can_help)
            })
    }

    /// See [`Method::take_moved`](crate::Method::take_moved).
    pub(super) fn take_moved(&mut self) -> bool {
        for &peer in &self.grantees {
            if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
                self.copied |= std::mem::take(&mut pair.bulk.served);
            }
        }
        std::mem::take(&mut self.copied)
    }

    /// Has helpers ring while this process sleeps, or no longer.
    pub(super) fn want_rings(&mut self, wanted: bool) {
        for &peer in &self.watched {
            if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
                pair.offers.want_ring(wanted);
                // What this process can copy itself, it copies before it sleeps.
                if wanted {
                    pair.transfers.patience = Patience::Over;
                }
            }
        }
    }

    fn check_sockets(&mut self, sink: &mut dyn Sink) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        if let Err(error) = self.epoll.check(&mut ready) {
            tracing::warn!(%error, "epoll_wait failed for the sockets of shared memory");
        }
        for event in &ready {
            match event.key {
                LISTENER_KEY => self.accept(sink),
                key if key & HALF_OPEN_KEY != 0 => self.read_hello(key & !HALF_OPEN_KEY, sink),
                key => self.read_peer(Peer(key), sink),
            }
        }
        // A full set may have more.
        self.attention |= ready.len() >= 64;
        let progress = !ready.is_empty();
        ready.clear();
        self.ready = ready;
        progress
    }

    fn read_peer(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) else {
            return;
        };
        let was_withheld = pair.unproven;
        let read = pair.read_records();
        if was_withheld && !pair.unproven && pair.blocked && pair.takes_packets() {
            pair.blocked = false;
            sink.writable(peer);
        }
        match read {
            Ok(()) if pair.stage == Stage::Up && pair.has_work() => {
                self.list_busy(peer);
            }
            Ok(()) => {}
            Err(cause) => self.fail(peer, cause),
        }
    }

    /// Stops polling rings that have been quiet: notification is enabled, and their senders ring
    /// from now on.
    fn stop_polling_quiet(&mut self) {
        let (looks, peers) = (self.looks, &mut self.peers);
        let quiet = |pair: &Pair| {
            let most = match pair.notification {
                true => QUIET_LOOKS_NOTIFIED,
                false => QUIET_LOOKS,
            };
            looks - pair.last_active > most
        };
        let stopping = &mut self.stopping;
        self.polled.retain(|&index| {
            let Some(pair) = peers.at(index).and_then(|entry| entry.pair()) else {
                return false;
            };
            if quiet(pair) {
                stopping.push(index);
            }
            !quiet(pair)
        });
        if !self.stopping.is_empty() {
            self.stop_polling();
        }
    }

    /// Stops polling the rings in `stopping`, which are no longer in the list of polled ones; those
    /// that got a packet in the last moment return to it. Returns whether there were any.
    fn stop_polling(&mut self) -> bool {
        let mut stopping = std::mem::take(&mut self.stopping);
        let mut news = false;
        for &index in &stopping {
            if let Some(pair) = self.peers.at(index).and_then(|entry| entry.pair()) {
                pair.polled = false;
                if !pair.notification {
                    pair.consumer.enable_notification();
                    news = true;
                }
                if pair.consumer.return_credit() {
                    pair.ring_peer();
                }
            }
        }
        // For rings that had notification enabled all along no fence is needed.
        let passed = match news {
            true => self.sender_fences.pass(),
            false => {
                self.bell.full_fence();
                true
            }
        };
        let before = self.polled.len();
        for index in stopping.drain(..) {
            if let Some(pair) = self.peers.at(index).and_then(|entry| entry.pair()) {
                let will_ring = passed || pair.notification || !pair.is_asymmetric();
                if will_ring {
                    pair.notification = true;
                } else {
                    // The ring stays polled, and this process awake.
                    pair.consumer.disable_notification();
                }
                if !will_ring || pair.consumer.is_ready() {
                    pair.pace.end_pause();
                    pair.polled = true;
                    self.polled.push(index);
                }
            }
        }
        self.stopping = stopping;
        self.polled.len() > before
    }

    /// Announces a sleep on the doorbell's word; `None` if there is something to poll for, or `flag` is set.
    pub(super) fn announce_park(&mut self, flag: &WakeFlag) -> Option<u64> {
        if self.relay.take_report() {
            self.attention = true;
            return None;
        }
        self.prepare_sleep(SleepOn::Word, Some(flag))
    }

    /// Announces a sleep; `None` if there is something to poll for, or `flag` is set.
    ///
    /// All checks come after the announcement and a fence. A check sees what came before it; of
    /// what comes later, a sender that has seen the announcement notifies the owner.
    pub(super) fn prepare_sleep(&mut self, on: SleepOn, flag: Option<&WakeFlag>) -> Option<u64> {
        if !self.failed.is_empty() || !self.busy.is_empty() || self.attention {
            return None;
        }
        self.sleeps += 1;
        self.slept_at = self.polls;
        let sleep = doorbell::sleep(self.sleeps, on);
        doorbell::arm(&self.bell, sleep);
        self.want_rings(true);
        std::mem::swap(&mut self.polled, &mut self.stopping);
        let ready = self.stop_polling();
        // Ringing a peer may have read from the socket the event that would have ended the sleep.
        let met = self.has_news_of_pending();
        self.check_helpers();
        let copies = !self.busy.is_empty() || self.can_help();
        let relayed = self.relay.flag().filter(|_| on == SleepOn::Word);
        let is_quiet = doorbell::is_quiet(&self.bell, flag.into_iter().chain(relayed));
        if ready || met || copies || !is_quiet {
            self.attention |= met;
            doorbell::disarm(&self.bell);
            return None;
        }
        // After a sleep on descriptors the sockets are polled, or a wake-up would remain in them.
        self.attention = on == SleepOn::Descriptors;
        self.announced = sleep;
        Some(sleep)
    }

    /// Whether the announced sleep goes on, and will be ended by every event. If a poll has taken a
    /// ring's bits or record meanwhile, that is visible: the ring is polled then, or the
    /// announcement is gone.
    pub(super) fn sleep_goes_on(&self) -> bool {
        let is_announced = self.announced != 0 && self.bell.armed().load(Relaxed) == self.announced;
        let nothing_to_do = self.polled.is_empty()
            && self.busy.is_empty()
            && self.watched.is_empty()
            && self.failed.is_empty()
            && self.pending.is_empty()
            && self.half_open.is_empty();
        is_announced && nothing_to_do && !doorbell::is_rung(&self.bell)
    }

    /// Has the next poll handle a connection that fails.
    #[cold]
    pub(super) fn mark_failed(&mut self, peer: Peer) {
        if !self.failed.contains(&peer) {
            self.failed.push(peer);
        }
    }

    /// The same, if it fails.
    #[cold]
    pub(super) fn mark_failed_if_failing(&mut self, peer: Peer) {
        let pair = self.peers.get_mut(peer).and_then(|entry| entry.pair());
        if pair.is_some_and(|pair| pair.failing.is_some()) {
            self.mark_failed(peer);
        }
    }

    /// Marks a connection failed; the next poll reports it.
    pub(super) fn fail(&mut self, peer: Peer, cause: PeerError) {
        if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
            pair.failing.get_or_insert(cause);
            self.mark_failed(peer);
        }
    }

    /// Removes a peer whose connection is gone from the lists of those that have one.
    pub(super) fn unlist(&mut self, peer: Peer) {
        self.polled.retain(|&index| index as usize != peer.index());
        self.pending.retain(|&other| other != peer);
        self.busy.retain(|&other| other != peer);
        self.watched.retain(|&other| other != peer);
        self.grantees.retain(|&other| other != peer);
    }

    /// Notifies peers of objects that were freed here.
    pub(super) fn retire_objects(&mut self) {
        let peers = &mut self.peers;
        self.objects.retain(|(object, watch)| {
            if !watch.is_gone() {
                return true;
            }
            for entry in peers.iter_mut() {
                if let Some(pair) = entry.pair() {
                    pair.retire_object(*object);
                }
            }
            false
        });
    }

    #[inline(never)]
    fn tear_down_failed(&mut self, sink: &mut dyn Sink) -> bool {
        let failed = std::mem::take(&mut self.failed);
        for &peer in &failed {
            self.tear_down(peer, sink);
        }
        !failed.is_empty()
    }

    /// Ends a connection that fails: packets that have arrived are delivered, transfers in progress
    /// fail, and the sink is notified.
    fn tear_down(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let Some(entry) = self.peers.get_mut(peer) else {
            return;
        };
        entry.paused = false;
        let cause = match std::mem::replace(&mut entry.link, Link::Idle) {
            Link::Failed(cause) => cause,
            Link::Live(mut pair) => {
                let Some(cause) = pair.failing.take() else {
                    entry.paused = pair.paused;
                    entry.link = Link::Live(pair);
                    return;
                };
                if !pair.unproven && !matches!(cause, PeerError::Protocol(_)) {
                    // At most the capacity of the ring: a live peer could go on sending for ever.
                    let slots = pair.ring_slots();
                    pair.ran_empty = false;
                    pair.paused = false;
                    drain(&mut pair, peer, slots, sink);
                }
                pair.revoke();
                self.quarantine.add(&mut pair.deferred);
                pair.transfers.fail_all(peer, &cause, sink);
                pair.atomics.fail_all(peer, &cause, sink);
                if let Some(socket) = &pair.socket {
                    self.epoll.remove(socket);
                }
                cause
            }
            other => {
                entry.link = other;
                return;
            }
        };
        if !entry.initiated {
            entry.link = Link::Gone(cause.clone());
        }
        self.unlist(peer);
        sink.peer_down(peer, cause);
    }
}

/// Handles a packet that is addressed to the method itself, or has a piece of a message that both sides copy.
#[inline(never)]
fn take_for_method(pair: &mut Pair, kind: SlotKind, packet: Packet<'_>) -> Result<(), PeerError> {
    if kind == SlotKind::Piece {
        split_initiator::take_piece(pair, packet)
    } else {
        bulk::take_internal(pair, &packet.to_vec(0))
    }
}

/// Delivers a packet with a large message.
#[inline(never)]
fn take_large(pair: &mut Pair, peer: Peer, packet: Packet<'_>, sink: &mut dyn Sink) {
    let len = packet.len();
    let costs = pair.costs();
    costs.arrived();
    let start = costs.begin(Copying::Out);
    sink.handle(peer, packet, pair);
    if let Some(start) = start {
        pair.costs().end(Copying::Out, start, len);
    }
}

/// Delivers at most `most` packets of one peer: one, if the caller waits for a single message.
///
/// The next poll checks whether another has arrived after it. The line to check is in the sender's
/// cache, and the caller's reply to the first packet could not leave before that line has arrived.
fn drain(pair: &mut Pair, peer: Peer, most: usize, sink: &mut dyn Sink) {
    let alone = std::mem::take(&mut pair.ran_empty);
    let streams = pair.producer.owes_reply();
    let before = if most == 1 { pair.pace.one_by_one() } else { 0 };
    for taken in 0..most {
        if alone && taken > 0 {
            pair.pace.caught_up(taken, streams);
            return pair.producer.note_received();
        }
        let (slot, kind, len) = match pair.consumer.peek() {
            Peeked::Packet { slot, kind, len } => (slot, kind, len),
            Peeked::Empty => {
                if taken > 0 {
                    pair.pace.caught_up(taken, streams);
                    pair.producer.note_received();
                }
                if pair.consumer.found_empty() {
                    pair.ring_peer();
                }
                return;
            }
            Peeked::Corrupt(word) => {
                pair.failing.get_or_insert(PeerError::Protocol(format!(
                    "its ring holds {word:#018x} where a packet begins"
                )));
                return;
            }
        };
        if pair.paused && kind == SlotKind::Packet {
            return pair.put_aside();
        }
        let queue = match before + taken {
            0 if alone => Queue::None,
            0 => Queue::Begun,
            1..QUEUED => Queue::None,
            _ => Queue::Continued,
        };
        if alone {
            pair.producer.note_received();
            pair.producer.prefetch_reply(len);
        }
        pair.consumer.prefetch(queue, len);
        // SAFETY: the pair keeps its rings as long as it exists, and it is not dropped in this
        // function.
        let packet = unsafe { pair.consumer.memory().packet(slot, len) };
        match kind {
            SlotKind::Packet if len >= LARGE_BYTES => take_large(pair, peer, packet, sink),
            SlotKind::Packet | SlotKind::Pad => sink.handle(peer, packet, pair),
            SlotKind::Internal | SlotKind::Piece => {
                if let Err(cause) = take_for_method(pair, kind, packet) {
                    pair.failing.get_or_insert(cause);
                    return;
                }
            }
        }
        if pair.consumer.consume(len) {
            pair.ring_peer();
        }
    }
    if most == 1 {
        pair.pace.took_one();
    }
}
