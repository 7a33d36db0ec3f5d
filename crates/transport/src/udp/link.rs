//! One incarnation of one connection: its opening, and the two halves of its stream.
//!
//! Without I/O: the caller passes the time, and datagrams are appended to a vector.

use std::collections::VecDeque;
use std::time::Duration;

use causeway_wire::datagram::{
    self, COOKIE_BYTES, Greeting, Kind, OVERHEAD_BYTES, Prefix, SAFE_DATAGRAM_BYTES, Segment,
};

use super::congestion::Window;
use super::incoming::Incoming;
use super::noise::{Begun, Seal};
use super::outgoing::{Outgoing, TIMEOUTS_TO_COLLAPSE};
use super::rtt::Rtt;
use super::{Remote, Time, UdpConfig};
use crate::error::PeerError;
use crate::method::{Peer, Sink};
use crate::session::{MAIN, Session};

/// An opening is repeated after this, then after twice as long, and so on.
const FIRST_REPEAT: Duration = Duration::from_millis(50);
const MOST_REPEAT: Duration = Duration::from_secs(1);

/// How many cookies make an opening be repeated at once.
const MAX_HURRIES: u32 = 4;

/// A peer from which no reply is due may be silent for this multiple of
/// [`UdpConfig::liveness_timeout`].
const IDLE_FACTOR: u32 = 10;

/// Buffers that all connections share.
pub(super) struct Scratch {
    /// Bytes on the way from a session into its stream.
    stream: Vec<u8>,
    /// A segment that is about to be sealed.
    plain: Vec<u8>,
    /// A decrypted segment.
    pub(super) opened: Vec<u8>,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            stream: vec![0; datagram::MAX_DATAGRAM_BYTES],
            plain: Vec::new(),
            opened: vec![0; datagram::MAX_DATAGRAM_BYTES],
        }
    }
}

/// This side's state of an opening.
pub(super) struct Opening {
    pub(super) greeting: Greeting,
    /// Handshakes to which replies may still arrive: one for each cookie that has arrived, the
    /// latest last.
    pub(super) noise: VecDeque<Begun>,
    /// A refusal that may be forged: the error to report if no valid reply arrives in time.
    pub(super) refused: Option<PeerError>,
    /// Acceptances that the kernel did not confirm to be the callee's.
    pub(super) disbelieved: u64,
    /// How many cookies have arrived.
    cookies: u32,
    /// Whether the opening was sent in its present form.
    sent: bool,
    repeat_at: Time,
    repeats: u32,
}

pub(super) enum Phase {
    /// This side has asked to connect.
    Opening(Opening),
    /// This side has accepted the peer, with this reply; the peer's first segment proves that it
    /// has received it.
    Accepting(Greeting),
    Up,
}

/// See the module's page.
pub(super) struct Link {
    pub(super) remote: Remote,
    pub(super) ours: u64,
    /// 0 before the peer has accepted.
    pub(super) theirs: u64,
    pub(super) phase: Phase,
    pub(super) seal: Option<Seal>,
    pub(super) outgoing: Outgoing,
    /// The offset in the stream at which the last queued packet, or the data after it, ends.
    packets_end: u64,
    pub(super) incoming: Incoming,
    rtt: Rtt,
    window: Window,
    datagram_bytes: usize,
    /// When the connection has to be up.
    trust_deadline: Time,
    heard_at: Time,
    /// Since when one side has yet to reply to the other.
    outstanding_since: Option<Time>,
    /// Since when its host reports that its process is gone, and how.
    suspected: Option<(Time, &'static str)>,
    probe_interval: Duration,
    suspicion_timeout: Duration,
    liveness_timeout: Duration,
    window_bytes: usize,
}

impl Link {
    pub(super) fn new(
        remote: Remote,
        ours: u64,
        phase: Phase,
        datagram_bytes: usize,
        trust_deadline: Time,
        now: Time,
        config: &UdpConfig,
    ) -> Self {
        let most = datagram::MAX_DATAGRAM_BYTES;
        let datagram_bytes = datagram_bytes.clamp(SAFE_DATAGRAM_BYTES, most);
        Self {
            remote,
            ours,
            theirs: 0,
            phase,
            seal: None,
            outgoing: Outgoing::new(),
            packets_end: 0,
            incoming: Incoming::new(config.window_bytes),
            rtt: Rtt::default(),
            window: Window::new(datagram_bytes, config.window_bytes),
            datagram_bytes,
            trust_deadline,
            heard_at: now,
            outstanding_since: None,
            suspected: None,
            probe_interval: config.probe_interval,
            suspicion_timeout: config.suspicion_timeout,
            liveness_timeout: config.liveness_timeout,
            window_bytes: config.window_bytes,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    pub(super) fn datagram_bytes(&self) -> usize {
        self.datagram_bytes
    }

    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.rtt.smoothed()
    }

    /// Memory that is allocated now, apart from the session.
    pub(super) fn owned_bytes(&self) -> usize {
        self.outgoing.owned_bytes() + self.incoming.owned_bytes()
    }

    /// Whether there are packets that were never sent.
    pub(super) fn holds_packets(&self, session: &Session) -> bool {
        session.queued_bytes() > 0 || self.outgoing.next() < self.packets_end
    }

    /// Whether all output of the session has arrived at the peer.
    pub(super) fn has_delivered_all(&self, session: &Session) -> bool {
        !session.has_output() && self.outgoing.is_done()
    }

    fn prefix(&self, kind: Kind) -> Prefix {
        Prefix {
            kind,
            to: self.theirs,
            from: self.ours,
        }
    }

    /// The peer has accepted the connection.
    pub(super) fn come_up(&mut self, theirs: u64, seal: Option<Seal>, now: Time) {
        self.theirs = theirs;
        self.seal = seal;
        self.phase = Phase::Up;
        self.heard_at = now;
        // Whether there is data or not: the peer waits for a first segment.
        self.outgoing.ping();
    }

    /// Notes a sign of life that only the peer could have sent.
    pub(super) fn note_activity(&mut self, now: Time) {
        self.heard_at = now;
        self.suspected = None;
    }

    /// A datagram reports that the peer is gone. The peer is probed, and given some time to prove
    /// the opposite.
    pub(super) fn suspect(&mut self, now: Time, why: &'static str) {
        if self.is_up() && self.suspected.is_none() {
            self.suspected = Some((now, why));
            self.outgoing.ping();
        }
    }

    /// Datagrams seem to be too large for the path to the peer. Those to a process of this host
    /// never are: if they do not arrive, it is because it does not poll.
    pub(super) fn shrink(&mut self) {
        if self.datagram_bytes > SAFE_DATAGRAM_BYTES && !self.remote.address.ip().is_loopback() {
            self.datagram_bytes = SAFE_DATAGRAM_BYTES;
            self.window.resize(SAFE_DATAGRAM_BYTES);
        }
    }

    /// Handles a segment with a new number. If it cannot be accepted now, its number is not
    /// recorded, so that it counts as lost.
    pub(super) fn input(
        &mut self,
        number: u64,
        segment: &Segment<'_>,
        now: Time,
        session: &mut Session,
        peer: Peer,
        sink: &mut dyn Sink,
    ) -> Result<(), PeerError> {
        if let Some(ack) = &segment.ack {
            let (rtt, window) = (&mut self.rtt, &mut self.window);
            self.outgoing.acknowledge(ack, now, rtt, window)?;
        }
        if !segment.data.is_empty() {
            let mut deliver = |bytes: &[u8]| session.input(MAIN, bytes, peer, sink);
            let result = self
                .incoming
                .accept(segment.offset, segment.data, &mut deliver);
            if !matches!(result, Ok(false)) {
                self.incoming.record(number, true, now);
            }
            return result.map(|_| ());
        }
        self.incoming.record(number, segment.wants_ack, now);
        Ok(())
    }

    /// Appends the next datagram, if there is one to be sent now.
    pub(super) fn transmit(
        &mut self,
        now: Time,
        session: &mut Session,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> bool {
        let prefix = self.prefix(Kind::Open);
        match &mut self.phase {
            Phase::Opening(opening) if opening.repeat_at <= now => {
                opening.greeting.encode(prefix, out);
                let pause = FIRST_REPEAT * (1 << opening.repeats.min(8));
                opening.repeat_at = now + pause.min(MOST_REPEAT);
                opening.repeats += 1;
                opening.sent = true;
                true
            }
            Phase::Opening(_) | Phase::Accepting(_) => false,
            Phase::Up => self.transmit_segment(now, session, scratch, out),
        }
    }

    fn transmit_segment(
        &mut self,
        now: Time,
        session: &mut Session,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> bool {
        self.refill(session, scratch);
        let has_span = self.outgoing.has_span(&self.window);
        if !has_span && !self.outgoing.wants_probe() && !self.incoming.owes_ack(now) {
            return false;
        }
        let ack = self.incoming.take_ack(now, session.held_bytes());
        let span = match has_span {
            true => self
                .outgoing
                .next_span(self.datagram_bytes - OVERHEAD_BYTES),
            false => None,
        };
        let wants_ack = span.is_some() || self.outgoing.wants_probe();
        if !wants_ack && ack.is_none() {
            return false;
        }
        let number = self.outgoing.number();
        let segment = Segment {
            wants_ack,
            ack,
            offset: span.map_or(0, |(offset, _)| offset),
            data: &[],
        };
        let start = out.len();
        match &self.seal {
            None => {
                datagram::begin_segment(self.prefix(Kind::Plain), number, out);
                segment.encode_head(out);
                if let Some(span) = span {
                    self.outgoing.copy(span, out);
                }
                datagram::seal_with_check(start, out);
            }
            Some(seal) => {
                datagram::begin_segment(self.prefix(Kind::Sealed), number, out);
                scratch.plain.clear();
                segment.encode_head(&mut scratch.plain);
                if let Some(span) = span {
                    self.outgoing.copy(span, &mut scratch.plain);
                }
                let body = out.len();
                out.resize(body + scratch.plain.len() + datagram::TAG_BYTES, 0);
                let room = out.get_mut(body..).unwrap_or_default();
                if seal.write_message(number, &scratch.plain, room).is_err() {
                    // Only a datagram above Noise's limit of 65,535 bytes fails, and none is.
                    out.truncate(start);
                    return false;
                }
            }
        }
        if wants_ack {
            self.outgoing.sent(number, span, out.len() - start, now);
        }
        true
    }

    /// Moves bytes from the session to the stream, as far as the window permits.
    fn refill(&mut self, session: &mut Session, scratch: &mut Scratch) {
        let most = self.window_bytes.min(2 * self.window.bytes());
        while self.outgoing.kept_bytes() < most && session.has_output() {
            let has_packets = session.queued_bytes() > 0;
            let room = (most - self.outgoing.kept_bytes()).min(scratch.stream.len());
            let room = scratch.stream.get_mut(..room).unwrap_or_default();
            let count = session.output(MAIN, room);
            if count == 0 {
                return;
            }
            self.outgoing
                .push(scratch.stream.get(..count).unwrap_or_default());
            if has_packets {
                self.packets_end = self.outgoing.end();
            }
        }
    }

    /// When [`Link::expire`] has to be called next.
    pub(super) fn deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Opening(opening) => Some(opening.repeat_at.min(self.trust_deadline)),
            Phase::Accepting(_) => Some(self.trust_deadline),
            Phase::Up => {
                let suspicion = self
                    .suspected
                    .map(|(since, _)| since + self.suspicion_timeout);
                let stream = self.outgoing.deadline(&self.rtt);
                // While something is in flight, its timeouts replace probes.
                let probe = match stream {
                    None => Some(self.heard_at + self.probe_interval),
                    Some(_) => None,
                };
                [
                    stream,
                    probe,
                    suspicion,
                    self.incoming.deadline(),
                    Some(self.silence_ends()),
                ]
                .into_iter()
                .flatten()
                .min()
            }
        }
    }

    fn silence_ends(&self) -> Time {
        match self.outstanding_since {
            Some(since) => self.heard_at.max(since) + self.liveness_timeout,
            None => self.heard_at + IDLE_FACTOR * self.liveness_timeout,
        }
    }

    /// Notes whether either side has yet to reply to the other.
    pub(super) fn note_outstanding(&mut self, now: Time, session: &Session) {
        if !session.is_outstanding() && self.outgoing.is_done() {
            self.outstanding_since = None;
        } else if self.outstanding_since.is_none() {
            self.outstanding_since = Some(now);
        }
    }

    /// Handles the timer; the error states why the connection, or the attempt to make one, has
    /// ended.
    pub(super) fn expire(&mut self, now: Time, connect_ms: u64) -> Result<(), PeerError> {
        if !self.is_up() {
            let refused = match &mut self.phase {
                _ if now < self.trust_deadline => return Ok(()),
                Phase::Opening(opening) => opening.refused.take(),
                _ => None,
            };
            return Err(refused.unwrap_or(PeerError::TimedOut(connect_ms)));
        }
        if let Some((since, why)) = self.suspected
            && since + self.suspicion_timeout <= now
        {
            return Err(PeerError::Broken(why.to_owned()));
        }
        let silence_ends = self.silence_ends();
        if silence_ends <= now {
            let since = self
                .heard_at
                .max(self.outstanding_since.unwrap_or_default());
            let silent = now.saturating_sub(since);
            return Err(PeerError::TimedOut(silent.as_millis() as u64));
        }
        self.outgoing.expire(now, &self.rtt, &mut self.window);
        if self.outgoing.timeouts() == TIMEOUTS_TO_COLLAPSE {
            self.shrink();
        }
        let none_in_flight = self.outgoing.deadline(&self.rtt).is_none();
        if none_in_flight && self.heard_at + self.probe_interval <= now {
            self.outgoing.ping();
        }
        Ok(())
    }
}

impl Opening {
    pub(super) fn new(greeting: Greeting, now: Time) -> Self {
        Self {
            greeting,
            noise: VecDeque::new(),
            refused: None,
            disbelieved: 0,
            cookies: 0,
            sent: false,
            repeat_at: now,
            repeats: 0,
        }
    }

    /// Notes why an acceptance cannot be the callee's. The link goes on trying; if no valid
    /// acceptance comes in time, this is the reason that is reported.
    pub(super) fn note_invalid_acceptance(&mut self, reason: String) {
        self.disbelieved += 1;
        tracing::debug!(%reason, "an acceptance over UDP is not believed");
        self.refused = Some(PeerError::Unauthorised(reason));
    }

    /// Whether this cookie is worth another handshake: not before the opening was sent with the
    /// previous one, so that forged cookies cost no more than openings do.
    pub(super) fn wants(&self, cookie: &[u8; COOKIE_BYTES]) -> bool {
        self.sent && self.greeting.cookie != *cookie
    }

    /// Accepts a wanted cookie. The first few have the opening sent again at once, later ones wait
    /// for the usual repetition.
    pub(super) fn take_cookie(&mut self, cookie: [u8; COOKIE_BYTES], now: Time) {
        self.greeting.cookie = cookie;
        self.sent = false;
        self.cookies = self.cookies.saturating_add(1);
        if self.cookies <= MAX_HURRIES {
            self.repeat_at = now;
            self.repeats = 0;
        }
    }
}
