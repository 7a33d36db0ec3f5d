//! Packets and remote memory over UDP: for networks that lose, duplicate, reorder and alter
//! datagrams, and where the kernel's connections are not wanted.
//!
//! Reading order: [`config`] (the settings); `causeway_wire::datagram` (the bytes); [`core`] (the
//! protocol of one process, a pure state machine, with `opening`, `closing`, `cookie` and `noise`);
//! `link` (one connection: `outgoing` and `incoming` are the two halves of its stream, `rtt` and
//! `congestion` determine the rate); `table` (the peers); [`datagram_io`] (sockets and random
//! numbers, or their simulation) and [`sockets`]; and in this file the method itself.
//!
//! # How it works
//! A connection is one reliable stream of bytes each way, and the streams carry the frames of the
//! TCP method: [`Session`](crate::session::Session) implements packets and remote memory on both.
//! Lost spans of the stream are retransmitted selectively; a peer that falls silent is probed, and
//! found dead in bounded time, sooner if its host reports that its process is gone.
//!
//! All progress is the caller's: packets are acknowledged only by the peer's process, so a process
//! must poll, or tick, more often than [`UdpConfig::liveness_timeout`].
//!
//! # Trust
//! As over TCP: processes that hold the cluster's key; without a key, processes of the same user
//! over loopback addresses: each side asks the kernel which user owns the other end's socket, once,
//! while the connection opens. Everything is encrypted in both cases: without a key, so that a
//! process that takes over a port later cannot take over the connection too.
//!
//! [`Udp`] is generic in its [`DatagramIo`], so that the whole of it runs in simulated networks and
//! simulated time.

mod closing;
pub mod config;
mod congestion;
mod cookie;
pub mod core;
pub mod datagram_io;
mod incoming;
mod link;
mod noise;
mod opening;
mod outgoing;
mod report;
mod rtt;
pub mod sockets;
mod table;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_sys::secret::Secret;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::{MAX_PACKET, MAX_PIECE};

pub use config::UdpConfig;

use self::core::Core;
use crate::address::Address;
use crate::clock::Clock;
use crate::error::{Error, SendError};
use crate::method::{
    Access, Atomic, Capabilities, Identity, Limits, Method, Peer, PeerReport, Readiness,
    Registration, Silence, Sink, Transfer,
};
use crate::resolve::is_loopback;
use crate::trust::LOOPBACK_ALONE;
use datagram_io::{Arrival, Arrivals, Batch, DatagramIo};
use sockets::Sockets;

/// The scheme of this method's addresses.
pub const SCHEME: &str = "udp";

/// The core's time: since some moment in the past.
pub type Time = Duration;

/// The most datagrams that one poll sends.
const DATAGRAMS_PER_POLL: usize = 64;

/// A batch is sent when it has this many bytes or datagrams.
const BATCH_BYTES: usize = 256 * 1024;
const BATCH_DATAGRAMS: usize = 32;

/// Polls between two receives on sockets on which nothing has arrived lately.
const POLLS_PER_RECEIVE: u32 = 8;

/// Receives in a row that returned nothing, after which they become rarer.
const QUIET_AFTER_RECEIVES: u32 = 1024;

/// The other end of one of our sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Remote {
    /// The number of our socket.
    pub socket: u32,
    /// The address of the other end.
    pub address: SocketAddr,
}

/// The method for `udp://` addresses. See the module's page.
pub struct Udp<G: DatagramIo = Sockets> {
    io: G,
    core: Core,
    /// Our sockets for connecting to others, by address family.
    outlets: [Option<u32>; 2],
    /// Whether there are any sockets.
    in_use: bool,
    keyed: bool,
    linger_timeout: Duration,
    wanted_window: usize,
    arrivals: Arrivals,
    batch: Batch,
    /// The first packet of a round was sent at once; later ones leave with the next poll.
    sent_in_round: bool,
    empty_receives: u32,
    polls_without_receive: u32,
    clock: Clock,
    /// The first time that was passed in, from which the core counts.
    began: Option<Instant>,
}

impl Udp<Sockets> {
    /// A method with these settings over the kernel's sockets.
    pub fn new(config: UdpConfig) -> Result<Self, Error> {
        Ok(Self::over(Sockets::new()?, config))
    }
}

impl<G: DatagramIo> Udp<G> {
    /// A method with these settings over `io`.
    pub fn over(mut io: G, config: UdpConfig) -> Self {
        let mut secret = [0; 32];
        io.random(&mut secret);
        Self {
            keyed: config.key.is_some(),
            linger_timeout: config.linger_timeout,
            wanted_window: config.window_bytes,
            core: Core::new(config, secret),
            io,
            outlets: [None; 2],
            in_use: false,
            arrivals: Arrivals::default(),
            batch: Batch::default(),
            sent_in_round: false,
            empty_receives: 0,
            polls_without_receive: 0,
            clock: Clock::default(),
            began: None,
        }
    }

    /// Memory that is allocated for peers now, apart from the buffers of callers.
    pub fn owned_bytes(&self) -> usize {
        self.core.owned_bytes()
    }

    fn bind(&mut self, address: SocketAddr) -> std::io::Result<(u32, SocketAddr)> {
        let bound = self.io.bind(address)?;
        self.in_use = true;
        // Datagrams that arrive between polls must fit into the network's buffers.
        let window_bytes = self.wanted_window.min(self.io.buffer_bytes());
        self.core.set_window_bytes(window_bytes);
        Ok(bound)
    }

    /// The socket for connecting to addresses of this family.
    fn outlet(&mut self, target: SocketAddr) -> std::io::Result<u32> {
        let family = usize::from(target.is_ipv6());
        if let Some(Some(socket)) = self.outlets.get(family) {
            return Ok(*socket);
        }
        let local: IpAddr = match (target.is_ipv6(), self.keyed) {
            (false, false) => Ipv4Addr::LOCALHOST.into(),
            (false, true) => Ipv4Addr::UNSPECIFIED.into(),
            (true, false) => Ipv6Addr::LOCALHOST.into(),
            (true, true) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (socket, _) = self.bind(SocketAddr::new(local, 0))?;
        if let Some(outlet) = self.outlets.get_mut(family) {
            *outlet = Some(socket);
        }
        Ok(socket)
    }

    /// The socket addresses of `address`; on this host only, if there is no key.
    fn targets(&self, address: &Address) -> Result<Vec<SocketAddr>, Error> {
        let mut targets = self.io.resolve(address)?;
        if !self.keyed {
            targets.retain(|&target| is_loopback(target));
        }
        if targets.is_empty() {
            return Err(Error::BadAddress {
                address: address.to_string(),
                reason: LOOPBACK_ALONE,
            });
        }
        Ok(targets)
    }

    /// Sends a bounded amount of the core's output. Returns whether anything was sent.
    fn transmit(&mut self, now: Time) -> bool {
        let mut any = false;
        let mut count = 0;
        loop {
            while self.batch.len() < BATCH_DATAGRAMS
                && self.batch.bytes() < BATCH_BYTES
                && count < DATAGRAMS_PER_POLL
                && self.batch.add(|out| self.core.poll_transmit(now, out))
            {
                count += 1;
            }
            let waiting = self.batch.len();
            if waiting == 0 {
                return any;
            }
            self.io.send(&mut self.batch);
            any |= self.batch.len() < waiting;
            if !self.batch.is_empty() || count >= DATAGRAMS_PER_POLL {
                return any;
            }
        }
    }

    /// Whether this poll receives from the sockets.
    fn receives_now(&mut self) -> bool {
        self.polls_without_receive += 1;
        let due = self.empty_receives < QUIET_AFTER_RECEIVES
            || self.polls_without_receive >= POLLS_PER_RECEIVE;
        if due {
            self.polls_without_receive = 0;
        }
        due
    }

    fn receive(&mut self, now: Time, sink: &mut dyn Sink) -> bool {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.io.receive(&mut arrivals);
        let any = !arrivals.list.is_empty();
        for arrival in arrivals.list.drain(..) {
            match arrival {
                Arrival::Datagram(from, range) => {
                    let bytes = arrivals.room.get(range).unwrap_or_default();
                    let core = &mut self.core;
                    core.handle_datagram(now, from, bytes, &mut self.io, sink);
                }
                Arrival::Unreachable(to, range) => {
                    let front = arrivals.room.get(range).unwrap_or_default();
                    self.core.handle_unreachable(now, to, front, sink);
                }
                Arrival::TooLarge(to, range) => {
                    let front = arrivals.room.get(range).unwrap_or_default();
                    self.core.handle_too_large(to, front);
                }
            }
        }
        self.arrivals = arrivals;
        self.empty_receives = match any {
            true => 0,
            false => self.empty_receives.saturating_add(1),
        };
        any
    }

    /// Updates the time from the caller's.
    fn advance(&mut self, now: Instant) -> Time {
        let now = self.clock.advance(now);
        now.saturating_duration_since(*self.began.get_or_insert(now))
    }

    /// The latest time that the caller passed in.
    fn now(&self) -> Time {
        let known = self.began.zip(self.clock.known());
        known.map_or(Time::ZERO, |(began, now)| {
            now.saturating_duration_since(began)
        })
    }

    fn make_progress(&mut self, now: Time, sink: &mut dyn Sink) -> bool {
        if !self.in_use {
            return false;
        }
        self.sent_in_round = false;
        let mut any = self.receives_now() && self.receive(now, sink);
        if self.core.next_deadline().is_some_and(|at| at <= now) {
            self.core.handle_timer(now, sink);
        }
        while self.core.poll_events(now, &mut self.io, sink) {
            any = true;
        }
        any |= self.transmit(now);
        any
    }

    /// Sends the datagrams of a command at once, if it is the first command since the last poll.
    fn send_at_once(&mut self, now: Time) {
        if !self.sent_in_round {
            self.sent_in_round = true;
            self.transmit(now);
        }
    }

    /// Drops every peer and waits at most `most` for their packets to arrive.
    fn close_all(&mut self, most: Duration) {
        let mut now = self.now();
        let until = now + most;
        self.core.disconnect_all(now);
        loop {
            self.empty_receives = 0;
            self.make_progress(now, &mut Silence);
            if !self.core.still_sends() || now >= until {
                return;
            }
            let deadline = self.core.next_deadline().unwrap_or(until).min(until);
            let Some(waited) = self.io.wait(deadline.saturating_sub(now)) else {
                return;
            };
            now += waited;
        }
    }
}

impl<G: DatagramIo> Method for Udp<G> {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet: MAX_PACKET,
            max_piece: MAX_PIECE,
            max_list: usize::MAX,
            eager_bytes: 8 << 10,
            mapped_eager_bytes: 8 << 10,
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            one_sided: false,
            per_peer_protection: true,
            remote_atomics: true,
            needs_local_registration: false,
            reports_peer_exit: true,
            identifies_nodes: false,
            maps_memory: false,
            holds_packets: true,
            exact_time: true,
        }
    }

    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        let mut bound: Option<SocketAddr> = None;
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        let system = |source| Error::System {
            what: format!("listening at `{address}`"),
            source,
        };
        for mut target in self.targets(address)? {
            if let (0, Some(first)) = (target.port(), bound) {
                target.set_port(first.port());
            }
            match self.bind(target) {
                Ok((socket, local)) => {
                    self.core.take_calls(socket);
                    bound = bound.or(Some(local));
                }
                // Another address family may be missing here; an address in use is an error.
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(system(error));
                }
                Err(error) => last = error,
            }
        }
        let Some(local) = bound else {
            return Err(system(last));
        };
        table::describe(local).ok_or(Error::Unsupported("the listening address has no notation"))
    }

    fn set_key(&mut self, key: Secret) {
        self.core.config.key = Some(key);
    }

    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        self.advance(now);
        if let Some(peer) = self.core.known(address) {
            return Ok(peer);
        }
        let mut targets = Vec::new();
        for target in self.targets(address)? {
            let socket = self.outlet(target).map_err(|source| Error::System {
                what: format!("making a socket to call `{address}` from"),
                source,
            })?;
            targets.push(Remote {
                socket,
                address: target,
            });
        }
        self.core.connect(address, targets)
    }

    fn set_time(&mut self, now: Instant) {
        self.advance(now);
    }

    fn address(&self, peer: Peer) -> Option<Address> {
        self.core.address(peer)
    }

    /// As over `tcp`: confirms addresses on the same host.
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let source = self.core.address(peer)?;
        crate::resolve::confirm(SCHEME, claimed, &source)
    }

    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.core.identity(peer)
    }

    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        let now = self.now();
        self.core.send(now, peer, parts, &mut self.io)?;
        self.send_at_once(now);
        Ok(())
    }

    fn holds_packets(&self, peer: Peer) -> bool {
        !self.batch.is_empty() || self.core.holds_packets(peer)
    }

    fn flush(&mut self) {
        let now = self.now();
        self.transmit(now);
    }

    fn pause(&mut self, peer: Peer) {
        self.core.pause(peer);
    }

    fn resume(&mut self, peer: Peer) {
        self.core.resume(peer);
    }

    fn readiness(&mut self, peer: Peer) -> Readiness {
        self.core.readiness(peer)
    }

    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        _: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        self.core.grant(peer, memory, access, &mut self.io)
    }

    fn cancel_placement(&mut self, peer: Peer) {
        self.core.cancel_placement(peer);
    }

    fn is_all_written(&self, peer: Peer, key: u64) -> bool {
        self.core.is_all_written(peer, key)
    }

    fn revoke(&mut self, peer: Peer, key: u64) {
        self.core.revoke(peer, key);
    }

    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        let now = self.now();
        self.core.transfer(now, peer, transfer, &mut self.io)?;
        self.send_at_once(now);
        Ok(())
    }

    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        let now = self.now();
        self.core.atomic(now, peer, atomic, &mut self.io)?;
        self.send_at_once(now);
        Ok(())
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        let now = self.advance(now);
        self.make_progress(now, sink)
    }

    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        self.empty_receives = 0;
        // It stays until the sockets are checked below.
        self.io.has_reports();
        let now = self.advance(now);
        self.make_progress(now, sink);
    }

    fn arm(&mut self, now: Instant) -> bool {
        self.advance(now);
        self.empty_receives = 0;
        !self.core.has_work() && self.batch.is_empty() && !self.io.has_reports()
    }

    fn stays_armed(&self) -> bool {
        // Datagrams on the sockets end the sleep until they are received.
        !self.core.has_work() && self.batch.is_empty()
    }

    fn disarm(&mut self) {
        self.empty_receives = 0;
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.io.pollable()
    }

    fn is_unused(&self) -> bool {
        !self.in_use
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.began? + self.core.next_deadline()?)
    }

    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        let now = self.advance(now);
        self.core.disconnect(now, peer, sink);
        self.transmit(now);
    }

    fn report(&self, peer: Peer) -> Option<PeerReport> {
        Some(PeerReport {
            facts: self.core.facts(peer)?,
        })
    }
}

impl<G: DatagramIo> Drop for Udp<G> {
    /// Lets accepted packets arrive, within a bounded time, and sends a goodbye.
    fn drop(&mut self) {
        if !self.io.is_of_this_process() {
            return;
        }
        self.close_all(self.linger_timeout.min(Duration::from_secs(5)));
    }
}

impl<G: DatagramIo> std::fmt::Debug for Udp<G> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Udp").finish_non_exhaustive()
    }
}
