//! Packets and remote memory over TCP: between hosts, or between processes of one host.
//!
//! Reading order: [`config`] (the settings); `causeway_wire::tcp` (the bytes); [`handshake`] (how
//! two sides authenticate each other) and [`crate::session`] (packets and transfers), two pure
//! state machines without sockets; `link` (one socket); `slots` (the table of peers); `targets` (their addresses);
//! `crate::half_open` (limits on connections that are not trusted yet); `connection_setup`, `progress` and
//! `ending` (the life of a connection, in this order); `subflows` (further connections with one
//! peer); and in this file the method itself.
//!
//! # Polling and sending
//! All sockets are in one epoll instance, which is the descriptor of [`Method::pollable`]. A few
//! connections that were lately active (`MAX_POLLED`) are read directly in every poll, which saves
//! the epoll call in a ping-pong; all others cost nothing until epoll reports them. A packet is
//! sent at once if it is the first to its peer since the last poll; later ones leave together with
//! the next poll, or with [`Method::flush`].
//!
//! # Ordering
//! Packets keep their order among each other. Transfers alternate with each other and with packets,
//! frame by frame; the packet of a transfer is delivered after the transfer's last byte, and before
//! any packet that was sent after the transfer's completion was reported.
//!
//! # Trust
//! See [`TcpConfig::key`] and [`TcpConfig::encrypt`]. [`Identity::Local`] is confirmed by the
//! kernel: each side states which process and descriptor it is, and the other asks the kernel about
//! exactly that. The user is always known; `pid` is 0 and `gid` 65534 where the kernel does not
//! show us the process (one of root's, or in another name space).

pub mod config;
mod connection_setup;
mod ending;
pub mod handshake;
mod link;
mod progress;
mod records;
mod slots;
mod subflows;
mod targets;
#[cfg(test)]
mod tests;
mod user_limits;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_sys::fork::Owner;
use causeway_sys::limits::{self, Reserve};
use causeway_sys::memory::Memory;
use causeway_sys::net::{self, Piece};
use causeway_sys::secret::Secret;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::tcp::{MAX_PACKET, MAX_PIECE, Ticket};
use causeway_wire::user::User;
use rustix::event::epoll;

pub use config::{Liveness, TcpConfig};

use crate::address::Address;
use crate::clock::Clock;
use crate::error::{Error, PeerError, SendError};
use crate::half_open::{HalfOpen, LogLimit};
use crate::method::{
    Access, Atomic, Capabilities, Identity, Limits, Method, Peer, PeerReport, Readiness,
    Registration, Sink, Transfer, gather,
};
use crate::nodes::{Certificate, Membership, Nodes, NodesVersion};
use crate::resolve;
use crate::session::Bounds;
use crate::slab::RESERVED_GENERATION;
use crate::trust::{self, LOOPBACK_ALONE, NODES_NEED_KEY};
use handshake::Protection;
use link::Buffers;
use slots::{Origin, PeerState, Slots};
use targets::{SilentNetworks, Targets};
use user_limits::UserLimits;

const SCHEME: &str = resolve::TCP;

/// Connections that the kernel keeps until we accept them.
const BACKLOG: i32 = 4096;

/// Larger messages are worth the two messages of a rendezvous for being read straight into the
/// receiver's memory (`docs/tcp-engine.md`).
const EAGER_BYTES: usize = MAX_PACKET;

/// The packets that wait for the next poll leave earlier if they have this many bytes together.
const FLUSH_FROM_BYTES: usize = 64 * 1024;

/// The parts of a packet with more parts are joined before it is sent.
const FEW_PARTS: usize = 8;

/// Random keys are drawn this many at a time.
const KEYS_PER_DRAW: usize = 32;

struct Listener {
    socket: OwnedFd,
    /// Until when the listener accepts nothing, for lack of descriptors or of slots.
    paused_until: Option<Instant>,
}

/// The method for `tcp://` addresses. See the module's page.
pub struct Tcp {
    config: TcpConfig,
    epoll: OwnedFd,
    listeners: Vec<Listener>,
    slots: Slots,
    by_address: HashMap<Address, Peer>,
    silent_networks: SilentNetworks,
    /// The tickets with which connections become subflows of one of our peers.
    tickets: HashMap<Ticket, Peer>,
    /// Connections that other processes have made and that are not trusted yet.
    half_open: HalfOpen<Instant>,
    owners: net::Owners,
    /// A spare descriptor, to refuse connections for which there are no descriptors.
    reserve: Reserve,
    shortage_log: LogLimit<Instant>,
    /// The same for peers beyond the limit.
    limit_log: LogLimit<Instant>,
    /// How many connections each user has for which an agent makes the handshakes.
    user_limits: UserLimits,
    buffers: Buffers,
    /// Peers that the next poll serves without an event from epoll.
    due: Vec<Peer>,
    /// Peers with a deadline.
    timed: Vec<Peer>,
    /// Peers to which packets were sent since the latest look whether hosts have acknowledged what was sent to them.
    unacknowledged: Vec<Peer>,
    /// When the next look is due.
    acknowledged_by: Option<Instant>,
    /// Peers that every poll reads.
    polled: Vec<Peer>,
    /// Counts polls, from 1.
    round: u64,
    polls_without_epoll: u32,
    /// The last epoll call found events of connections that are not polled directly.
    others_are_busy: bool,
    keys: Vec<u64>,
    nodes_version: NodesVersion,
    clock: Clock,
    process: Owner,
}

impl Tcp {
    /// A method with these settings.
    pub fn new(config: TcpConfig) -> Result<Self, Error> {
        if config.nodes.is_some() && config.key.is_none() {
            return Err(Error::Unsupported(NODES_NEED_KEY));
        }
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| Error::System {
            what: "creating the epoll instance of the TCP method".to_owned(),
            source: error.into(),
        })?;
        // Most of the files that the process may open are reserved for trusted connections.
        let open_files = limits::open_files().unwrap_or(u64::MAX) as usize;
        let most = config.max_half_open.min(open_files / 4);
        let user_limits = UserLimits::new(config.max_peers, open_files);
        let half_open = HalfOpen::new(most, config.connect_timeout);
        Ok(Self {
            config,
            epoll,
            listeners: Vec::new(),
            slots: Slots::default(),
            by_address: HashMap::new(),
            silent_networks: SilentNetworks::default(),
            tickets: HashMap::new(),
            half_open,
            owners: net::Owners::default(),
            reserve: Reserve::new(),
            shortage_log: LogLimit::default(),
            limit_log: LogLimit::default(),
            user_limits,
            buffers: Buffers::new(),
            due: Vec::new(),
            timed: Vec::new(),
            unacknowledged: Vec::new(),
            acknowledged_by: None,
            polled: Vec::new(),
            round: 1,
            polls_without_epoll: 0,
            others_are_busy: false,
            keys: Vec::new(),
            nodes_version: NodesVersion::default(),
            clock: Clock::default(),
            process: Owner::this_process().map_err(|source| Error::System {
                what: "preparing for forks".to_owned(),
                source,
            })?,
        })
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            queue_bytes: self.config.queue_bytes,
            max_transfers: self.config.max_transfers,
        }
    }

    /// A nonzero key that this peer does not use yet.
    fn draw_key(&mut self, peer: Peer) -> Result<u64, Error> {
        loop {
            if self.keys.is_empty() {
                let bytes: [u8; KEYS_PER_DRAW * 8] =
                    causeway_sys::random::bytes().map_err(|source| Error::System {
                        what: "drawing random keys for memory regions".to_owned(),
                        source,
                    })?;
                let words = bytes.as_chunks::<8>().0;
                self.keys
                    .extend(words.iter().map(|word| u64::from_le_bytes(*word)));
            }
            let Some(key) = self.keys.pop() else { continue };
            let state = self.slots.shown(peer).ok_or(Error::NoPeer)?;
            if key != 0 && !state.session.exports(key) {
                return Ok(key);
            }
        }
    }

    /// Refuses addresses that are not on this host if there is no key.
    fn check_reach(
        address: &Address,
        targets: &mut Vec<SocketAddr>,
        is_keyed: bool,
    ) -> Result<(), Error> {
        if !is_keyed {
            targets.retain(|&target| resolve::is_loopback(target));
        }
        if targets.is_empty() {
            return Err(Error::BadAddress {
                address: address.to_string(),
                reason: LOOPBACK_ALONE,
            });
        }
        Ok(())
    }

    fn add_listener(&mut self, socket: OwnedFd) -> std::io::Result<()> {
        let token = Peer::new(self.listeners.len() as u32, RESERVED_GENERATION);
        let data = epoll::EventData::new_u64(token.0);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        self.listeners.push(Listener {
            socket,
            paused_until: None,
        });
        Ok(())
    }

    /// Has the next poll serve a peer.
    fn make_due(due: &mut Vec<Peer>, state: &mut PeerState) {
        if !state.due {
            state.due = true;
            due.push(state.handle);
        }
    }

    fn make_timed(timed: &mut Vec<Peer>, state: &mut PeerState) {
        if !state.timed {
            state.timed = true;
            timed.push(state.handle);
        }
    }
}

impl Method for Tcp {
    fn scheme(&self) -> &'static str {
        SCHEME
    }

    fn limits(&self) -> Limits {
        Limits {
            max_packet: MAX_PACKET,
            max_piece: MAX_PIECE,
            max_list: usize::MAX,
            eager_bytes: EAGER_BYTES,
            mapped_eager_bytes: EAGER_BYTES,
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            one_sided: false,
            per_peer_protection: true,
            remote_atomics: true,
            needs_local_registration: false,
            reports_peer_exit: true,
            identifies_nodes: self.config.nodes.is_some(),
            maps_memory: false,
            holds_packets: true,
            exact_time: false,
        }
    }

    fn listen(&mut self, address: &Address) -> Result<Address, Error> {
        let mut targets = resolve::resolve(SCHEME, address)?;
        let asked = targets.clone();
        Self::check_reach(address, &mut targets, self.config.key.is_some())?;
        if targets.len() < asked.len() {
            // A name with several addresses, not all of them on this host.
            tracing::warn!(%address, "listening at its loopback addresses only: no cluster key");
        }
        if self.config.key.is_some() && !targets.iter().any(|&target| !resolve::is_loopback(target))
        {
            tracing::warn!(%address, "this host gives it loopback addresses only: other hosts will \
                not reach it (look into /etc/hosts)");
        }
        let system = |source| Error::System {
            what: format!("listening at `{address}`"),
            source,
        };
        let mut sockets: Vec<(OwnedFd, SocketAddr)> = Vec::new();
        let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        for mut target in targets {
            if let (0, Some((_, first))) = (target.port(), sockets.first()) {
                target.set_port(first.port());
            }
            let bound = net::listen(&target, BACKLOG)
                .and_then(|socket| Ok((net::local_address(&socket)?, socket)));
            match bound {
                Ok((local, socket)) => sockets.push((socket, local)),
                // Another address family may be missing here; an address in use is an error.
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    return Err(system(error));
                }
                Err(error) => last = error,
            }
        }
        let Some(&(_, local)) = sockets.first() else {
            return Err(system(last));
        };
        for (socket, _) in sockets {
            self.add_listener(socket).map_err(system)?;
        }
        resolve::describe(SCHEME, local)
            .ok_or(Error::Unsupported("the listening address has no notation"))
    }

    fn set_key(&mut self, key: Secret) {
        self.config.key = Some(key);
    }

    fn connect(&mut self, now: Instant, address: &Address) -> Result<Peer, Error> {
        self.clock.advance(now);
        if let Some(&peer) = self.by_address.get(address) {
            return Ok(peer);
        }
        let mut targets = resolve::resolve(SCHEME, address)?;
        let is_keyed = self.config.key.is_some() || self.config.agent.is_some();
        Self::check_reach(address, &mut targets, is_keyed)?;
        if self.slots.len() >= self.config.max_peers {
            return Err(Error::Limit {
                what: "TCP peers",
                limit: self.config.max_peers,
            });
        }
        let bounds = self.bounds();
        let origin = Origin::Connected(Targets::new(targets));
        let peer = self
            .slots
            .insert(|handle| PeerState::new(handle, origin, address.clone(), bounds));
        self.by_address.insert(address.clone(), peer);
        Ok(peer)
    }

    fn also_at(&mut self, peer: Peer, address: &Address) -> bool {
        let is_keyed = self.config.key.is_some() || self.config.agent.is_some();
        let Ok(mut more) = resolve::resolve(SCHEME, address) else {
            return false;
        };
        if Self::check_reach(address, &mut more, is_keyed).is_err() {
            return false;
        }
        match self.slots.get_mut(peer).map(|state| &mut state.origin) {
            Some(Origin::Connected(targets)) => {
                targets.add(more);
                true
            }
            _ => false,
        }
    }

    fn set_time(&mut self, now: Instant) {
        self.clock.advance(now);
    }

    fn address(&self, peer: Peer) -> Option<Address> {
        self.slots.shown(peer).map(|state| state.address.clone())
    }

    /// Confirms an address on the host from which the peer has connected. Without a key, processes
    /// there are of one user, or root's; with a key all processes that hold it are trusted equally;
    /// with nodes, an address that is pinned to a role is confirmed only for nodes with that role.
    fn confirm_address(&self, peer: Peer, claimed: &Address) -> Option<Address> {
        let state = self.slots.shown(peer)?;
        if state.user.is_some() {
            // One user's process is no server, whichever host it is on.
            return None;
        }
        let confirmed = resolve::confirm(SCHEME, claimed, &state.address)?;
        // Not the claimed text: that may be written in other ways, or be the address of a listener
        // on all interfaces.
        let nodes = self.config.nodes.as_ref().map(Nodes::current);
        let may = |nodes: &Membership| nodes.may_be_at(state.node.as_deref(), &confirmed);
        nodes.as_deref().is_none_or(may).then_some(confirmed)
    }

    fn identity(&self, peer: Peer) -> Option<Identity> {
        self.slots.shown(peer)?.identity
    }

    fn node(&self, peer: Peer) -> Option<Arc<Certificate>> {
        self.slots.shown(peer)?.node.clone()
    }

    fn user(&self, peer: Peer) -> Option<Arc<User>> {
        self.slots.shown(peer)?.user.clone()
    }

    fn send(&mut self, peer: Peer, parts: &[&[u8]]) -> Result<(), SendError> {
        let mut pieces = [Piece::Bytes(&[]); FEW_PARTS];
        let Some(pieces) = pieces.get_mut(..parts.len()) else {
            return self.send_packet(peer, &[Piece::Bytes(&parts.concat())]);
        };
        for (piece, part) in pieces.iter_mut().zip(parts) {
            *piece = Piece::Bytes(part);
        }
        self.send_packet(peer, pieces)
    }

    fn send_gather(
        &mut self,
        peer: Peer,
        head: &[u8],
        body: &[Memory],
        scratch: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let mut pieces = [Piece::Bytes(&[]); FEW_PARTS];
        let Some(pieces) = pieces.get_mut(..=body.len()) else {
            return self.send_packet(peer, &[Piece::Bytes(gather(head, body, scratch))]);
        };
        let parts = std::iter::once(Piece::Bytes(head)).chain(body.iter().map(Piece::Memory));
        for (piece, part) in pieces.iter_mut().zip(parts) {
            *piece = part;
        }
        self.send_packet(peer, pieces)
    }

    fn holds_packets(&self, peer: Peer) -> bool {
        self.slots.shown(peer).is_some_and(PeerState::holds_packets)
    }

    fn flush(&mut self) {
        for &peer in &self.due {
            if let Some(state) = self.slots.get_mut(peer)
                && let Some(link) = state.link.as_mut().filter(|link| link.is_up())
            {
                link.flush(&mut state.session, &mut self.buffers);
            }
        }
    }

    fn cancel_placement(&mut self, peer: Peer) {
        if let Some(state) = self.slots.get_mut(peer) {
            state.session.cancel_placement();
        }
    }

    fn pause(&mut self, peer: Peer) {
        if let Ok(state) = state_of(&mut self.slots, peer) {
            state.session.pause();
        }
    }

    fn resume(&mut self, peer: Peer) {
        if let Ok(state) = state_of(&mut self.slots, peer) {
            state.session.resume();
            Self::make_due(&mut self.due, state);
        }
    }

    fn readiness(&mut self, peer: Peer) -> Readiness {
        match state_of(&mut self.slots, peer) {
            Ok(state) if state.gone.is_none() => state.session.readiness(),
            _ => Readiness::default(),
        }
    }

    fn grant(
        &mut self,
        peer: Peer,
        memory: &Memory,
        _: Registration,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        access.check(memory)?;
        let key = self.draw_key(peer)?;
        let state = self.slots.get_mut(peer).ok_or(Error::NoPeer)?;
        Ok(state.session.export(key, memory, access))
    }

    fn is_all_written(&self, peer: Peer, key: u64) -> bool {
        let state = self.slots.shown(peer);
        state.is_some_and(|state| state.session.is_all_written(key))
    }

    fn revoke(&mut self, peer: Peer, key: u64) {
        if let Some(state) = self.slots.get_mut(peer) {
            state.session.unexport(key);
        }
    }

    fn transfer(&mut self, peer: Peer, transfer: Transfer) -> Result<(), SendError> {
        self.reach(peer)?;
        let state = state_of(&mut self.slots, peer)?;
        state.session.transfer(transfer)?;
        Self::make_due(&mut self.due, state);
        self.watch_liveness(peer);
        self.start_polling(peer);
        Ok(())
    }

    fn atomic(&mut self, peer: Peer, atomic: Atomic) -> Result<(), SendError> {
        self.reach(peer)?;
        let state = state_of(&mut self.slots, peer)?;
        state.session.atomic(atomic)?;
        Self::make_due(&mut self.due, state);
        self.watch_liveness(peer);
        self.start_polling(peer);
        Ok(())
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> bool {
        self.clock.advance(now);
        if let Some(membership) = self.nodes_version.changed(self.config.nodes.as_ref()) {
            self.end_rejected(&membership, sink);
        }
        self.make_progress(sink)
    }

    fn tick(&mut self, now: Instant, sink: &mut dyn Sink) {
        let now = self.clock.advance(now);
        self.check_deadlines(now, sink);
    }

    fn arm(&mut self, now: Instant) -> bool {
        self.clock.advance(now);
        // The next poll handles everything that may have made epoll wake us.
        self.polls_without_epoll = progress::POLLS_PER_EPOLL;
        self.due.is_empty()
    }

    fn stays_armed(&self) -> bool {
        // Every other event ends the sleep until it is read or written.
        self.due.is_empty()
    }

    fn disarm(&mut self) {
        self.polls_without_epoll = progress::POLLS_PER_EPOLL;
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn is_unused(&self) -> bool {
        self.listeners.is_empty() && self.slots.is_empty()
    }

    fn deadline(&self) -> Option<Instant> {
        self.next_deadline()
    }

    fn disconnect(&mut self, now: Instant, peer: Peer, sink: &mut dyn Sink) {
        self.clock.advance(now);
        self.drop_peer(peer, sink);
    }

    fn activity(&self, peer: Peer) -> u64 {
        let Some(state) = self.slots.shown(peer) else {
            return 0;
        };
        let subflows = state
            .subflows
            .iter()
            .filter_map(|&subflow| self.slots.get(subflow).map(Box::as_ref));
        let links = subflows
            .chain([state])
            .filter_map(|state| state.link.as_ref());
        links.map(|link| link.bulk.get()).sum()
    }

    fn report(&self, peer: Peer) -> Option<PeerReport> {
        Some(PeerReport {
            facts: self.facts(self.slots.shown(peer)?),
        })
    }
}

impl Tcp {
    fn facts(&self, state: &PeerState) -> Vec<(&'static str, String)> {
        let connection = match (&state.link, &state.gone) {
            (_, Some(cause)) => format!("down: {cause}"),
            (None, None) => "none now: it is made by the next send".to_owned(),
            (Some(link), None) => match link.phase {
                link::Phase::Connecting => "being made".to_owned(),
                link::Phase::Handshaking(_) => "authenticating the peer".to_owned(),
                link::Phase::Up => "up".to_owned(),
            },
        };
        let mut facts = vec![("method", "tcp".to_owned()), ("connection", connection)];
        let trust = match state.identity {
            Some(Identity::Keyed) => trust::keyed(state.node.as_deref()),
            Some(Identity::OneUser { uid, .. }) => {
                let node = trust::keyed(state.node.as_deref());
                format!("user {uid}, says the agent there: {node}")
            }
            Some(Identity::Local { uid, .. } | Identity::SocketOf { uid, .. }) => {
                format!("user {uid} on this host, as the kernel reports")
            }
            None => "not known yet".to_owned(),
        };
        facts.push(("peer", trust));
        if let Some(link) = state.link.as_ref().filter(|link| link.is_up()) {
            let encryption = match link.protection() {
                Some(Protection::Encrypted(_)) => "on",
                Some(Protection::Authenticated(_)) => {
                    "off: neither side requests it; data is authenticated"
                }
                None => "off: loopback, same user",
            };
            facts.push(("encryption", encryption.to_owned()));
        }
        let through = match state.subflows.len() {
            0 => "the one connection".to_owned(),
            subflows => format!("{subflows} connections of their own"),
        };
        facts.push((
            "large transfers",
            format!("frames of {} KiB through {through}", MAX_PIECE / 1024),
        ));
        facts.push((
            "mapping",
            "none: memory cannot be shared over TCP".to_owned(),
        ));
        facts
    }

    /// Sends a packet without copying its parts; bytes that the socket does not accept now are
    /// copied.
    fn send_packet(&mut self, peer: Peer, parts: &[Piece<'_>]) -> Result<(), SendError> {
        self.reach(peer)?;
        let state = state_of(&mut self.slots, peer)?;
        let len = parts.iter().map(Piece::len).sum();
        state.session.admit(len)?;
        let first = state.sent_in_round != self.round;
        state.sent_in_round = self.round;
        let nothing_waits = first && !state.session.has_output();
        let finished = match &mut state.link {
            Some(link) if nothing_waits && link.takes_plain() => {
                let sent = link.send_now(parts, len);
                state.session.queue_packet(parts, len, sent);
                link.broken.is_none() && link.has_sent_all(&state.session)
            }
            Some(link) => {
                state.session.queue_packet(parts, len, 0);
                let much = state.session.queued_bytes() >= FLUSH_FROM_BYTES;
                let flushes = link.is_up() && (first || much);
                if flushes {
                    link.flush(&mut state.session, &mut self.buffers);
                }
                flushes && link.broken.is_none() && link.has_sent_all(&state.session)
            }
            None => {
                state.session.queue_packet(parts, len, 0);
                false
            }
        };
        match finished {
            true => self.expect_acknowledgement(peer),
            false => Self::make_due(&mut self.due, state),
        }
        self.start_polling(peer);
        Ok(())
    }

    /// Makes sure that a connection to the peer exists or has begun.
    fn reach(&mut self, peer: Peer) -> Result<(), SendError> {
        let state = state_of(&mut self.slots, peer)?;
        if let Some(cause) = &state.gone {
            return Err(SendError::Gone(cause.clone()));
        }
        if state.link.is_none() && state.failed.is_none() {
            self.begin_to_connect(peer);
        }
        Ok(())
    }
}

fn state_of(slots: &mut Slots, peer: Peer) -> Result<&mut PeerState, SendError> {
    slots
        .get_mut(peer)
        .map(Box::as_mut)
        .filter(|state| state.is_shown())
        .ok_or(SendError::Gone(PeerError::Disconnected))
}

impl Drop for Tcp {
    /// Lets accepted packets leave, within a bounded time, and sends a goodbye.
    fn drop(&mut self) {
        if !self.process.is_this_process() {
            return;
        }
        self.close_all(self.config.linger_timeout.min(Duration::from_secs(5)));
    }
}

impl std::fmt::Debug for Tcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tcp")
            .field("config", &self.config)
            .field("listeners", &self.listeners.len())
            .field("peers", &self.slots.len())
            .finish_non_exhaustive()
    }
}
