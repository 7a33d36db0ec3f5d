//! A connection until both sides trust each other: connecting, accepting, the handshake, and the
//! authentication of the peer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_sys::limits::Shortage;
use causeway_sys::net;
use causeway_wire::agent::{Reply, Request};
use causeway_wire::tcp::{Auth, FORMATS, Holder, Refusal, Ticket};
use rustix::event::epoll;
use rustix::io::Errno;

use super::handshake::{
    AgentCall, Agreement, Handshake, HandshakeConfig, Role, Unverified, has_fast_aes, nonce,
};
use super::link::{Buffers, Link, Phase, broken};
use super::slots::{Origin, PeerState};
use super::user_limits::UserOrigin;
use super::{SCHEME, Tcp, TcpConfig};
use crate::agent::AgentConnection;
use crate::error::PeerError;
use crate::half_open::Source;
use crate::method::{Identity, Peer, Silence, Sink};
use crate::nodes::Certificate;
use crate::nodes::handshake::NodeProof;
use crate::resolve;
use crate::slab::RESERVED_GENERATION;
use crate::trust::{is_accepted_user, user};

/// The most connections that one poll accepts per listener.
const ACCEPTS_PER_POLL: usize = 32;

/// The most callers that one poll refuses, or accepts in place of others that it evicts: a caller that makes useless
/// connections does not delay the peers that are connected.
const REFUSALS_PER_POLL: u32 = 8;

/// How long a listener pauses when there is no descriptor left even to refuse a caller: no event
/// reports when there is one.
const PAUSE: Duration = Duration::from_millis(50);

/// The kernel's overflow group, for processes whose group is not known.
const NO_GROUP: u32 = 65534;

impl Tcp {
    fn handshake(
        config: &TcpConfig,
        role: Role,
        socket: &OwnedFd,
        ticket: Option<Ticket>,
        nodes: Option<NodeProof>,
        agent: Option<AgentCall>,
    ) -> Handshake {
        let is_keyed = config.key.is_some() || agent.is_some();
        let drawn = is_keyed.then(nonce);
        let holder_or_nonce = match drawn {
            // If no number could be drawn, a recorded handshake of the other side gets one step further, but
            // still proves nothing.
            Some(drawn) => drawn.unwrap_or_default(),
            None => Holder {
                pid: std::process::id(),
                descriptor: socket.as_raw_fd().unsigned_abs(),
            },
        };
        let config = HandshakeConfig {
            key: config.key.clone(),
            encrypt: config.encrypt,
            holder_or_nonce,
            fast_aes: has_fast_aes(),
            connections: config.connections,
            ticket,
            formats: FORMATS,
            nodes,
            agent,
        };
        Handshake::new(role, config)
    }

    /// Begins to connect to the next target that can be tried. Failure is reported by the next poll.
    pub(super) fn begin_to_connect(&mut self, peer: Peer) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Origin::Connected(targets) = &mut state.origin {
            targets.restart(&self.silent_networks);
        }
        let now = self.clock.now();
        let deadline = now + self.config.connect_timeout;
        if let Err(cause) = Self::try_targets(&self.epoll, state, now, deadline) {
            state.failed = Some(cause);
            Self::make_due(&mut self.due, state);
            return;
        }
        Self::make_timed(&mut self.timed, state);
    }

    /// Begins with the present target, or one after it.
    pub(super) fn try_targets(
        epoll: &OwnedFd,
        state: &mut PeerState,
        now: Instant,
        deadline: Instant,
    ) -> Result<(), PeerError> {
        let Origin::Connected(targets) = &mut state.origin else {
            return Err(PeerError::Disconnected);
        };
        let mut last = PeerError::Refused("it has no address".to_owned());
        while let Some(target) = targets.current() {
            let begun = net::connect(&target).and_then(|socket| {
                let data = epoll::EventData::new_u64(state.handle.0);
                epoll::add(epoll, &socket, data, epoll::EventFlags::OUT)?;
                Ok(socket)
            });
            match begun {
                Ok(socket) => {
                    let mut link = Link::new(socket, Phase::Connecting, now, deadline);
                    link.gives_way_at = targets.limit().map(|limit| now + limit);
                    state.link = Some(link);
                    return Ok(());
                }
                Err(error) => last = connect_error(&error, &target),
            }
            if !targets.next(false) {
                break;
            }
        }
        Err(last)
    }

    /// Handles the end of an attempt to connect, which has succeeded or failed.
    pub(super) fn finish_connecting(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let (vanished, liveness) = (self.config.liveness_timeout, self.config.liveness);
        let now = self.clock.now();
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let ticket = match state.origin {
            Origin::Subflow { ticket, .. } => ticket,
            _ => None,
        };
        let Some(link) = &mut state.link else { return };
        let deadline = link.trust_deadline;
        let outcome = net::connected(&link.socket).and_then(|()| {
            link.tune(vanished, liveness)?;
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
            let Origin::Connected(targets) = &mut state.origin else {
                return self.end(peer, broken(&error), sink);
            };
            let cause = match targets.current() {
                Some(target) => connect_error(&error, &target),
                None => broken(&error),
            };
            let next = match targets.next(false) {
                true => Self::try_targets(&self.epoll, state, now, deadline),
                false => Err(cause),
            };
            if let Err(cause) = next {
                self.end(peer, cause, sink);
            }
            return;
        }
        if let Origin::Connected(targets) = &state.origin
            && let Some(target) = targets.current()
        {
            self.silent_networks.remove(target);
        }
        let nodes = self.config.nodes.as_ref();
        let nodes = match nodes.map(|nodes| NodeProof::calling(nodes, &state.address)) {
            Some(Err(cause)) => return self.end(peer, cause, sink),
            Some(Ok(proving)) => Some(proving),
            None => None,
        };
        let agent_call = self.config.agent.as_ref().map(|agent| AgentCall {
            address: state.address.to_string(),
            nodes: agent.nodes,
        });
        let mut handshake = Self::handshake(
            &self.config,
            Role::Initiator,
            &link.socket,
            ticket,
            nodes,
            agent_call,
        );
        let hello = handshake.take_output();
        link.phase = Phase::Handshaking(Box::new(handshake));
        if let Err(cause) = link.send_step(&hello) {
            self.end(peer, cause, sink);
        }
    }

    /// The address that is tried has not replied in its time: tries the next one.
    pub(super) fn give_way(&mut self, peer: Peer, sink: &mut dyn Sink) {
        let now = self.clock.now();
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let (Some(link), Origin::Connected(targets)) = (state.link.take(), &mut state.origin)
        else {
            return;
        };
        if let Some(target) = targets.current() {
            tracing::debug!(%target, "an address does not reply; the peer's next one is tried");
            self.silent_networks.add(target);
        }
        targets.next(true);
        if let Err(cause) = Self::try_targets(&self.epoll, state, now, link.trust_deadline) {
            self.end(peer, cause, sink);
        }
    }

    /// Accepts connections that wait at a listener. Returns whether there were any.
    pub(super) fn accept_some(&mut self, index: usize) -> bool {
        let mut refused = 0;
        for accepted in 0..ACCEPTS_PER_POLL {
            let Some(listener) = self.listeners.get(index) else {
                return false;
            };
            let admitted = match net::accept(&listener.socket) {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return accepted > 0,
                Err(error) => match self.refuse_one(index, &error) {
                    Some(came) => !came,
                    None => return true,
                },
            };
            refused += u32::from(!admitted);
            if refused >= REFUSALS_PER_POLL {
                return true;
            }
        }
        true
    }

    /// There are no descriptors, or something else prevents accepting. Returns whether a caller was refused;
    /// `None` if the listener is paused instead.
    fn refuse_one(&mut self, index: usize, error: &io::Error) -> Option<bool> {
        let now = self.clock.now();
        if self.shortage_log.allows(now) {
            tracing::warn!(%error, "TCP connections are turned away");
        }
        let listener = self.listeners.get(index)?;
        let config = &self.config;
        let came = match Shortage::of(error) {
            Some(shortage) if shortage.is_of_descriptors() => self.reserve.spend(|| {
                let socket = net::accept(&listener.socket)?;
                if let Some(socket) = &socket {
                    refuse(config, socket, Refusal::NoDescriptors);
                }
                io::Result::Ok(socket.is_some())
            }),
            _ => Err(io::ErrorKind::Other.into()),
        };
        if came.is_err() {
            self.pause_listener(index);
        }
        came.ok()
    }

    fn pause_listener(&mut self, index: usize) {
        if let Some(listener) = self.listeners.get_mut(index) {
            listener.paused_until = Some(self.clock.now() + PAUSE);
            self.watch_listener(index, epoll::EventFlags::empty());
        }
    }

    pub(super) fn watch_listener(&self, index: usize, flags: epoll::EventFlags) {
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        let token = Peer::new(index as u32, RESERVED_GENERATION);
        let data = epoll::EventData::new_u64(token.0);
        if let Err(error) = epoll::modify(&self.epoll, &listener.socket, data, flags) {
            tracing::error!(%error, "epoll does not change what it watches a listener for");
        }
    }

    /// A connection was made to us. Returns whether its handshake may go on.
    fn admit(&mut self, socket: OwnedFd) -> bool {
        let now = self.clock.now();
        let (Ok(remote), Ok(local)) = (net::peer_address(&socket), net::local_address(&socket))
        else {
            return false; // it has gone already
        };
        let Some(address) = resolve::describe(SCHEME, remote) else {
            return false;
        };
        let source = match self.source(local, remote) {
            Ok(source) => source,
            Err(refusal) => {
                if let Some(refusal) = refusal {
                    tracing::debug!(%address, ?refusal, "a TCP connection is turned away");
                    refuse(&self.config, &socket, refusal);
                }
                return false;
            }
        };
        if self.slots.len() - self.half_open.len() >= self.config.max_peers {
            if self.limit_log.allows(now) {
                let limit = self.config.max_peers;
                tracing::warn!(%address, limit, "TCP peers are turned away: there are too many");
            }
            refuse(&self.config, &socket, Refusal::Full);
            return false;
        }
        let evicted = self.half_open.to_evict(source);
        if let Some((_, peer)) = evicted {
            self.evict(peer);
        }
        let nodes = self.config.nodes.as_ref().map(NodeProof::called);
        let handshake = Self::handshake(&self.config, Role::Responder, &socket, None, nodes, None);
        let deadline = now + self.config.connect_timeout;
        let bounds = self.bounds();
        let half_open = &mut self.half_open;
        let peer = self.slots.insert(|handle| {
            let origin = Origin::HalfOpen(half_open.add(source, handle, now));
            PeerState::new(handle, origin, address, bounds)
        });
        let data = epoll::EventData::new_u64(peer.0);
        let watched = epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN);
        if let Some(state) = self.slots.get_mut(peer) {
            let phase = Phase::Handshaking(Box::new(handshake));
            state.link = Some(Link::new(socket, phase, now, deadline));
        }
        if let Err(error) = watched {
            self.end(peer, broken(&error.into()), &mut Silence);
        }
        evicted.is_none()
    }

    /// Ends a half-open connection to make room for another one, and logs it.
    fn evict(&mut self, peer: Peer) {
        let state = self.slots.get_mut(peer);
        if let Some(link) = state.and_then(|state| state.link.as_mut())
            && let Phase::Handshaking(handshake) = &mut link.phase
        {
            handshake.refuse(Refusal::Full);
            let bytes = handshake.take_output();
            // Best effort: the end of the connection says the same with fewer words.
            let _ = link.send_step(&bytes);
        }
        self.end(peer, PeerError::Disconnected, &mut Silence);
    }

    /// The source of a connection, or why it is refused: without a key, connections of other users of this
    /// host cost nothing more than this check. `Err(None)` if the other end has closed the connection
    /// already, so that no refusal is sent.
    fn source(&mut self, local: SocketAddr, remote: SocketAddr) -> Result<Source, Option<Refusal>> {
        if !net::is_same_host(local, remote) {
            return Ok(Source::host(remote.ip()));
        }
        let owner = match self.owners.of_other_end(local, remote) {
            Ok(owner) => owner.ok_or(None)?,
            Err(error) if Shortage::of(&error).is_some() => {
                return Err(Some(Refusal::NoDescriptors));
            }
            // The handshake will ask the kernel again, and report what cannot be determined.
            Err(_) => return Ok(Source::host(remote.ip())),
        };
        let own_uid = rustix::process::geteuid().as_raw();
        if self.config.key.is_none() && !is_accepted_user(owner.uid, own_uid) {
            return Err(Some(Refusal::OtherUser));
        }
        Ok(Source::User(owner.uid))
    }

    /// This side has replied to a step of the handshake, perhaps late: the peer has the whole time for the next
    /// one. There are only a few.
    fn renew(&mut self, peer: Peer) {
        let now = self.clock.now();
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Some(link) = &mut state.link {
            link.trust_deadline = now + self.config.connect_timeout;
        }
        if let Origin::HalfOpen(entry) = state.origin {
            self.half_open.remove(entry, peer);
            state.origin = Origin::HalfOpen(self.half_open.add(entry.source, peer, now));
        }
    }

    /// A half-open connection has become trusted: a peer's, or a subflow.
    pub(super) fn trust(&mut self, peer: Peer, origin: Origin) {
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Origin::HalfOpen(entry) = std::mem::replace(&mut state.origin, origin) {
            self.half_open.remove(entry, peer);
        }
    }

    /// Advances a handshake.
    pub(super) fn advance_handshake(&mut self, peer: Peer, sink: &mut dyn Sink) -> bool {
        let Some(state) = self.slots.get_mut(peer) else {
            return false;
        };
        let Some(link) = &mut state.link else {
            return false;
        };
        let input = match link.read_input(&self.config, &mut self.buffers) {
            Ok(Some(input)) => input,
            Ok(None) => return false,
            Err(cause) => {
                self.end(peer, cause, sink);
                return true;
            }
        };
        let Phase::Handshaking(handshake) = &mut link.phase else {
            return false;
        };
        let mut identity = None;
        let socket = &link.socket;
        let owners = &mut self.owners;
        let outcome = match input {
            HandshakeInput::FromAgent(reply) => handshake.on_agent_reply(*reply),
            HandshakeInput::FromPeer(bytes) => handshake.input(&bytes, &mut |holder| {
                identity = Some(same_user(owners, socket, holder)?);
                Ok(())
            }),
        };
        let mut output = handshake.take_output();
        let (mut counted, mut is_full) = (None, false);
        if let Ok(Some(Agreement {
            user: Some(user),
            node,
            ..
        })) = &outcome
        {
            counted = self
                .user_limits
                .take(origin_of(socket, node.as_deref()), user.uid);
            is_full = counted.is_none();
            if is_full && node.is_some() {
                // With nodes, the initiator still waits for our reply, which tells it the reason. Without nodes
                // it waits for none, and only sees the end of the connection.
                handshake.refuse(Refusal::Full);
                output = handshake.take_output();
            }
        }
        let agent_request = handshake.take_agent_request();
        let sent = link.send_step(&output).and_then(|()| match agent_request {
            Some(agent_request) => ask(&self.config, &self.epoll, link, peer, &agent_request),
            None => Ok(()),
        });
        let agreement = match (outcome, sent) {
            (Err(cause), _) | (Ok(_), Err(cause)) => {
                self.end(peer, cause, sink);
                return true;
            }
            (Ok(None), Ok(())) => {
                state.identity = identity.or(state.identity);
                if !output.is_empty() {
                    self.renew(peer);
                }
                return true;
            }
            (Ok(Some(agreement)), Ok(())) => agreement,
        };
        if is_full {
            let most = self.user_limits.most();
            let uid = agreement.user.as_ref().map(|user| user.uid);
            if self.limit_log.allows(self.clock.now()) {
                tracing::warn!(address = %state.address, uid, most, "a user's TCP connection is turned away: there are too many of the same user");
            }
            let cause = format!("one user of a node may have {most} connections");
            self.end(peer, PeerError::Full(cause), sink);
            return true;
        }
        link.counted = counted;
        state.identity = match (agreement.auth, &agreement.user) {
            (Auth::ClusterKey, None) => Some(Identity::Keyed),
            (Auth::ClusterKey, Some(user)) => Some(Identity::OneUser {
                uid: user.uid,
                gid: user.gid,
            }),
            (Auth::SameUser, _) => identity.or(state.identity),
        };
        state.node = agreement.node.clone();
        state.user = agreement.user.clone().map(Arc::new);
        if let (Some(node), Some(nodes)) = (&state.node, &self.config.nodes)
            && let Err(why) = nodes.current().still_admits(node)
        {
            // It was revoked in the middle of the handshake.
            self.end(peer, PeerError::Unauthorised(why.to_string()), sink);
            return true;
        }
        self.come_up(peer, agreement, sink);
        true
    }

    fn come_up(&mut self, peer: Peer, agreement: Agreement, sink: &mut dyn Sink) {
        let (vanished, liveness) = (self.config.liveness_timeout, self.config.liveness);
        let state = self
            .slots
            .get_mut(peer)
            .filter(|state| state.is_half_open());
        // Not before this point: connections that have proven nothing must cost little.
        if let Some(link) = state.and_then(|state| state.link.as_mut())
            && let Err(error) = link.tune(vanished, liveness)
        {
            return self.end(peer, broken(&error), sink);
        }
        if let Some(ticket) = agreement.ticket {
            return self.join(peer, ticket, agreement, sink);
        }
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        if let Origin::Subflow { of, .. } = state.origin {
            return self.stand(peer, of, agreement, sink);
        }
        let Some(link) = &mut state.link else { return };
        let connections = agreement.connections;
        let rest = link.agree(agreement);
        link.last_heard = self.clock.now();
        if state.is_half_open() {
            self.trust(peer, Origin::Accepted);
            sink.peer_up(peer);
            self.invite(peer, connections);
        }
        let Some(state) = self.slots.get_mut(peer) else {
            return;
        };
        let sink: &mut dyn Sink = match state.is_lingering() {
            true => &mut Silence,
            false => sink,
        };
        let Some(link) = &mut state.link else { return };
        if let Err(cause) = link.input(&rest, &mut state.session, peer, &mut self.buffers, sink) {
            return self.end(peer, cause, sink);
        }
        Self::make_due(&mut self.due, state);
        self.start_polling(peer);
    }
}

/// From which node or host the user at the other end has connected.
fn origin_of(socket: &OwnedFd, node: Option<&Certificate>) -> UserOrigin {
    if let Some(node) = node {
        return UserOrigin::Node(node.name.clone());
    }
    match (net::local_address(socket), net::peer_address(socket)) {
        (Ok(local), Ok(remote)) if !net::is_same_host(local, remote) => {
            UserOrigin::Host(Source::host(remote.ip()))
        }
        _ => UserOrigin::Here,
    }
}

/// What has arrived for a handshake.
enum HandshakeInput {
    /// Bytes from the other side.
    FromPeer(Vec<u8>),
    /// A reply of the agent that makes the handshake.
    FromAgent(Box<Reply>),
}

impl Link {
    /// Returns what has arrived for the handshake. The agent's reply comes first: bytes from the other
    /// side are handled after it.
    fn read_input(
        &mut self,
        config: &TcpConfig,
        buffers: &mut Buffers,
    ) -> Result<Option<HandshakeInput>, PeerError> {
        if let (Some(line), Some(agent)) = (&self.agent, &config.agent)
            && let Some(reply) = line.reply(&agent.socket)?
        {
            if !matches!(reply, Reply::SendStep(_)) {
                // The agent closes its end next, which must not wake any thread.
                self.agent = None;
            }
            return Ok(Some(HandshakeInput::FromAgent(Box::new(reply))));
        }
        let bytes = self.read_raw(buffers)?;
        Ok(bytes.map(|bytes| HandshakeInput::FromPeer(bytes.to_vec())))
    }
}

/// Asks the agent. Its reply wakes the thread that waits for the peer.
fn ask(
    config: &TcpConfig,
    epoll: &OwnedFd,
    link: &mut Link,
    peer: Peer,
    agent_request: &Request,
) -> Result<(), PeerError> {
    let Some(agent) = &config.agent else {
        return Ok(());
    };
    if link.agent.is_none() {
        let line = AgentConnection::connect(&agent.socket)?;
        let data = epoll::EventData::new_u64(peer.0);
        epoll::add(epoll, line.socket(), data, epoll::EventFlags::IN)
            .map_err(|error| broken(&error.into()))?;
        link.agent = Some(line);
    }
    match &link.agent {
        Some(line) => line.ask(agent_request, &agent.socket),
        None => Ok(()),
    }
}

fn connect_error(error: &io::Error, target: &SocketAddr) -> PeerError {
    match Errno::from_io_error(error) {
        Some(Errno::CONNREFUSED) => PeerError::Refused(format!("at {target}: {error}")),
        _ => match PeerError::of_system(error) {
            PeerError::Broken(reason) => {
                PeerError::Broken(format!("connecting to {target}: {reason}"))
            }
            exhausted => exhausted,
        },
    }
}

/// Sends the reason to a connection that was just made and is refused. Best effort, but a new socket
/// has room for so few bytes.
fn refuse(config: &TcpConfig, socket: &OwnedFd, refusal: Refusal) {
    let mut handshake = Tcp::handshake(config, Role::Responder, socket, None, None, None);
    handshake.refuse(refusal);
    let bytes = handshake.take_output();
    let _ = net::send_pieces(socket, &[net::Piece::Bytes(&bytes)]);
}

/// The error if the kernel does not tell to which user the other end belongs. If this process lacks a resource to find
/// out, the error states that, and does not claim that the other end belongs to another user.
fn unknown(error: io::Error) -> Unverified {
    if Shortage::of(&error).is_some() {
        return Unverified {
            refusal: Refusal::NoDescriptors,
            cause: PeerError::of_system(&error),
        };
    }
    unauthorised(format!(
        "the kernel does not report the user of the process: {error}"
    ))
}

fn unauthorised(reason: String) -> Unverified {
    Unverified {
        refusal: Refusal::OtherUser,
        cause: PeerError::Unauthorised(reason),
    }
}

/// Without a key: whether the other end of this connection is a process on this host that [`is_accepted_user`].
pub(super) fn same_user(
    owners: &mut net::Owners,
    socket: &OwnedFd,
    holder: Holder,
) -> Result<Identity, Unverified> {
    let ours = net::local_address(socket).map_err(unknown)?;
    let theirs = net::peer_address(socket).map_err(unknown)?;
    if !resolve::is_loopback(ours) || !resolve::is_loopback(theirs) {
        return Err(unauthorised(format!(
            "{theirs} is not on this host, and there is no cluster key"
        )));
    }
    let own_uid = rustix::process::geteuid().as_raw();
    let Some(owner) = owners.of_other_end(ours, theirs).map_err(unknown)? else {
        // The other end is on this host, so its process existed a moment ago. To which user it belonged can no
        // longer be determined, and it may be started again. This does not mean that the peer is not trusted.
        return Err(Unverified {
            refusal: Refusal::OtherUser,
            cause: PeerError::Broken(format!("the process at {theirs} has ended")),
        });
    };
    let uid = owner.uid;
    if !is_accepted_user(uid, own_uid) {
        return Err(unauthorised(format!(
            "the process at {theirs} belongs to {}, this one to user {own_uid}; \
             different users need a cluster key",
            user(uid)
        )));
    }
    // A claim that the kernel does not confirm (the process is in another namespace, or belongs to
    // root and we may not inspect it) proves nothing either way.
    let confirmed = net::holder_of(owner.inode, holder.pid, holder.descriptor);
    Ok(Identity::SocketOf {
        pid: confirmed.map_or(0, |_| holder.pid as i32),
        uid,
        gid: confirmed.map_or(NO_GROUP, |process| process.gid),
    })
}
