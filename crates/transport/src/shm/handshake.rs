//! How two processes connect: over a Unix socket, whose credentials the kernel reports to both.
//!
//! The connecting side makes the pair's memory and sends it with its own doorbell page; it may fill
//! its ring at once. The accepting side checks and maps both, and replies with its doorbell page. A
//! client that sends nothing, or invalid records, holds one descriptor for a bounded time.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use causeway_sys::mapping::Mapping;
use causeway_sys::memfd;
use causeway_sys::random;
use causeway_sys::socket::{Accepted, Credentials, Received, RecordSocket};
use causeway_wire::codec::Wire;
use causeway_wire::formats::Formats;
use causeway_wire::shm::{
    FLAG_KEYED, FLAG_MEMBARRIER, FLAG_NODES, FORMATS, Hello, MAX_REASON_BYTES, MAX_RECORD_BYTES,
    NODES, PairLayout, ProcessInfo, Record, RefuseReason, Welcome,
};
use rustix::io::Errno;

use super::Shm;
use super::intervals::LISTENER_INTERVAL;
use super::node_handshake::{self, RequiredProofs, is_closed};
use super::pair::{Pair, Stage, decode};
use super::peers::Link;
use super::proof::{self, Caller};
use crate::address::Address;
use crate::error::{NO_DESCRIPTORS, PeerError};
use crate::method::{Peer, Sink};
use crate::nodes::Certificate;
use crate::nodes::handshake::{NodeHandshake, NodeProof};
use crate::trust::{NO_NODE, NODE_DEMANDED, is_accepted_user, user};

/// Most connections whose handshake is not complete. One more drops the oldest.
const MAX_HALF_OPEN: usize = 128;

/// The record that is sent to callers for which there is no descriptor.
pub(super) fn no_descriptor_record() -> Vec<u8> {
    refusal(&without_descriptors()).to_bytes()
}

/// Most connections accepted at once.
const ACCEPTS: usize = 16;

/// A connection whose handshake is not complete.
pub(super) struct HalfOpen {
    pub(super) id: u64,
    socket: RecordSocket,
    pub(super) deadline: Instant,
    /// Its greeting, if it still has to prove that it holds the cluster's key.
    challenged: Option<Box<Challenged>>,
}

#[cfg(all(test, not(loom)))]
impl HalfOpen {
    /// Whether the caller's greeting was read, and its proof is awaited.
    pub(super) fn has_greeted(&self) -> bool {
        self.challenged.is_some()
    }
}

struct Challenged {
    hello: Hello,
    descriptors: Vec<OwnedFd>,
    awaited: Awaited,
}

/// What a caller has to prove before it is welcomed.
enum Awaited {
    /// That it holds the key, for this random number.
    Proof(u128),
    /// Which node it is.
    Node(Box<NodeHandshake>),
}

/// In the upper bits of a half-open connection's number in the epoll set.
pub(super) const HALF_OPEN_KEY: u64 = 1 << 63;
/// The listener's number in the epoll set.
pub(super) const LISTENER_KEY: u64 = u64::MAX;

fn broken(error: std::io::Error) -> PeerError {
    PeerError::of_system(&error)
}

fn without_descriptors() -> PeerError {
    PeerError::Full(NO_DESCRIPTORS.to_owned())
}

/// The connecting side.
impl Shm {
    /// Begins a connection to a peer that has none.
    pub(super) fn open(&mut self, peer: Peer) {
        let link = match self.new_pair(peer) {
            Ok(mut pair) => match self.try_connect(peer, &mut pair) {
                Ok(()) => {
                    self.pending.push(peer);
                    self.polled.push(peer.index() as u32);
                    pair.polled = true;
                    pair.last_active = self.looks;
                    Link::Live(pair)
                }
                Err(cause) => Link::Failed(cause),
            },
            Err(cause) => Link::Failed(cause),
        };
        if matches!(link, Link::Failed(_)) {
            self.mark_failed(peer);
        }
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.link = link;
            let paused = entry.paused;
            if let Some(pair) = entry.pair() {
                pair.paused = paused;
            }
        }
    }

    fn new_pair(&self, peer: Peer) -> Result<Box<Pair>, PeerError> {
        debug_assert!(self.peers.get(peer).is_some());
        let file = memfd::create_fixed("causeway-pair", self.layout.len()).map_err(broken)?;
        let mapping = Mapping::new(&file, self.layout.len()).map_err(broken)?;
        let deadline = self.clock.now() + self.config.connect_timeout;
        let mut pair = Box::new(Pair::new(mapping, self.layout, 0, self.own, deadline));
        pair.file = Some(file);
        pair.unproven = self.config.key.is_some();
        pair.withholds = self.config.nodes.is_some();
        Ok(pair)
    }

    /// Connects the socket and sends the first record, unless the listener's queue is full.
    pub(super) fn try_connect(&self, peer: Peer, pair: &mut Pair) -> Result<(), PeerError> {
        let Some(entry) = self.peers.get(peer) else {
            return Err(PeerError::Disconnected);
        };
        let socket = match RecordSocket::connect(Path::new(entry.address.rest())) {
            Ok(socket) => socket,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => {
                return Err(match Errno::from_io_error(&error) {
                    Some(Errno::ACCESS | Errno::PERM) => PeerError::Unauthorised(error.to_string()),
                    _ => match PeerError::of_system(&error) {
                        exhausted @ PeerError::Exhausted(_) => exhausted,
                        _ => PeerError::Refused(error.to_string()),
                    },
                });
            }
        };
        let credentials = socket.peer().map_err(broken)?;
        if !is_accepted_user(credentials.uid, self.own.uid) {
            return Err(PeerError::Unauthorised(format!(
                "a process of {} listens there, and we run as user {}",
                user(credentials.uid),
                self.own.uid
            )));
        }
        let nodes = self.config.nodes.as_ref();
        let proving = nodes.map(|nodes| NodeProof::calling(nodes, &entry.address));
        let proving = proving.transpose()?;
        let (formats, demanded) = match (&self.config.key, &proving) {
            (None, _) => (FORMATS, 0),
            (Some(_), None) => (FORMATS, FLAG_KEYED),
            (Some(_), Some(_)) => (with_nodes(), FLAG_KEYED | FLAG_NODES),
        };
        let hello = Hello {
            formats,
            flags: self.flags() | demanded,
            ring_bytes: self.layout.ring_bytes as u32,
            region_slots: self.layout.region_slots as u32,
            nonce: nonce()?,
            process: self.process(peer),
        };
        let mut proofs = match (self.config.key.clone(), proving) {
            (None, _) => None,
            (Some(key), None) => Some(Box::new(RequiredProofs::Key(Caller::new(key, hello)))),
            (Some(key), Some(proving)) => {
                let exchange = node_handshake::begin(true, &key, proving, &hello)?;
                Some(Box::new(RequiredProofs::Nodes(exchange)))
            }
        };
        let hello = Record::Hello(hello);
        let Some(file) = pair.file.take() else {
            return Err(PeerError::Disconnected);
        };
        let descriptors = [file.as_fd(), self.bell_file.as_fd()];
        match socket.send(&hello.to_bytes(), &descriptors) {
            // It has closed already, and may have sent the reason, which is read next.
            Err(error) if is_closed(&error) => {}
            sent => sent.map_err(broken)?,
        }
        if let Some(RequiredProofs::Nodes(exchange)) = proofs.as_deref_mut() {
            node_handshake::send_message(exchange, &socket)?;
        }
        pair.caller = proofs;
        self.epoll.add(&socket, peer.0).map_err(broken)?;
        pair.credentials = Some(credentials);
        pair.socket = Some(Arc::new(socket));
        pair.stage = Stage::Greeting;
        Ok(())
    }

    /// What this process states about itself to `peer`.
    fn process(&self, peer: Peer) -> ProcessInfo {
        ProcessInfo {
            incarnation: self.incarnation,
            doorbell_bit: peer.index() as u32,
            probe_address: std::ptr::from_ref(&*self.probe).addr() as u64,
            probe_value: *self.probe,
        }
    }

    fn flags(&self) -> u8 {
        if self.own.membarrier {
            FLAG_MEMBARRIER
        } else {
            0
        }
    }

    /// Continues connections that are being made; gives up those that take too long.
    pub(super) fn check_pending(&mut self, now: Instant) {
        let pending = std::mem::take(&mut self.pending);
        for peer in pending {
            let Some(entry) = self.peers.get_mut(peer) else {
                continue;
            };
            // Taken out of the table while all of `self` is needed.
            let Link::Live(mut pair) = std::mem::replace(&mut entry.link, Link::Idle) else {
                continue;
            };
            let mut failing = pair.failing.clone();
            let mut busy = false;
            if pair.stage == Stage::Up {
                // A peer that read the reply may not have been able to list what waited for it.
                busy = pair.has_work();
            } else {
                if now >= pair.deadline {
                    let limit = self.config.connect_timeout.as_millis();
                    failing = Some(PeerError::TimedOut(limit as u64));
                } else if pair.stage == Stage::Waiting {
                    failing = self.try_connect(peer, &mut pair).err();
                }
                self.pending.push(peer);
            }
            if let Some(entry) = self.peers.get_mut(peer) {
                entry.link = Link::Live(pair);
            }
            if let Some(cause) = failing {
                self.fail(peer, cause);
            } else if busy {
                self.list_busy(peer);
            }
        }
        self.half_open.retain(|half| now < half.deadline);
    }

    /// Whether a connection in the list of those being made is up, or has failed.
    pub(super) fn has_news_of_pending(&mut self) -> bool {
        let peers = &mut self.peers;
        self.pending.iter().any(|&peer| {
            let pair = peers.get_mut(peer).and_then(|entry| entry.pair());
            pair.is_some_and(|pair| pair.stage == Stage::Up || pair.failing.is_some())
        })
    }
}

/// The accepting side.
impl Shm {
    /// Accepts waiting connections.
    pub(super) fn accept(&mut self, sink: &mut dyn Sink) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &mut self.listener else {
                return;
            };
            match listener.accept(&self.no_descriptor_record) {
                Ok(Accepted::Connection(socket)) => {
                    // Connections from other users occupy no slot, whatever they send.
                    if let Err(cause) = self.check_user(&socket) {
                        tracing::debug!(%cause, "a connection was refused");
                        refuse(&socket, &cause);
                        continue;
                    }
                    self.next_half_open += 1;
                    let id = self.next_half_open;
                    if self.epoll.add(&socket, HALF_OPEN_KEY | id).is_err() {
                        continue;
                    }
                    if self.half_open.len() >= MAX_HALF_OPEN {
                        self.half_open.remove(0);
                    }
                    let deadline = self.clock.now() + self.config.connect_timeout;
                    self.half_open.push(HalfOpen {
                        id,
                        socket,
                        deadline,
                        challenged: None,
                    });
                    // Mostly the first record has arrived already.
                    self.read_hello(id, sink);
                }
                Ok(Accepted::Nothing) => return,
                Ok(Accepted::TurnedAway(error)) => self.report_shortage(&error),
                Err(error) => {
                    self.report_shortage(&error);
                    return self.pause_listener();
                }
            }
        }
    }

    fn report_shortage(&mut self, error: &std::io::Error) {
        if self.shortage_log.allows(self.clock.now()) {
            tracing::warn!(%error, "connections over shared memory are turned away");
        }
    }

    /// Stops polling the listener for a while: no descriptor is left, not even to refuse a caller.
    fn pause_listener(&mut self) {
        if let Some(listener) = &self.listener {
            self.epoll.remove(listener);
            self.paused_until = Some(self.clock.now() + LISTENER_INTERVAL);
        }
    }

    /// Polls the listener again once the pause is over.
    pub(super) fn resume_listener(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| until <= now)
            && let Some(listener) = &self.listener
        {
            self.paused_until = match self.epoll.add(listener, LISTENER_KEY) {
                Ok(()) => None,
                Err(_) => Some(now + LISTENER_INTERVAL),
            };
        }
    }

    /// The credentials of the peer that has connected, if its user may connect.
    fn check_user(&self, socket: &RecordSocket) -> Result<Credentials, PeerError> {
        let credentials = socket.peer().map_err(broken)?;
        if is_accepted_user(credentials.uid, self.own.uid) {
            return Ok(credentials);
        }
        Err(PeerError::Unauthorised(format!(
            "{} may not connect to a process of user {}",
            user(credentials.uid),
            self.own.uid
        )))
    }

    /// Reads the first record of a half-open connection, if it has arrived.
    pub(super) fn read_hello(&mut self, id: u64, sink: &mut dyn Sink) {
        let Some(at) = self.half_open.iter().position(|half| half.id == id) else {
            return;
        };
        let mut buffer = [0; MAX_RECORD_BYTES];
        let received = match self.half_open[at].socket.receive(&mut buffer) {
            Ok(Received::Nothing) => return,
            received => received,
        };
        let mut half = self.half_open.remove(at);
        let challenged = half.challenged.take();
        let (len, descriptors) = match received {
            Ok(Received::Record(len, descriptors)) => (len, descriptors),
            Ok(Received::Stripped(_)) => {
                refuse(&half.socket, &without_descriptors());
                return;
            }
            _ => return,
        };
        let record = decode(buffer.get(..len).unwrap_or(&[]));
        let outcome = record.and_then(|record| match challenged {
            None => self.greeted(&half.socket, record, descriptors),
            Some(challenged) => self.check_proof(&half.socket, *challenged, record),
        });
        let outcome = match outcome {
            Ok(Greeted::Believed(hello, descriptors, node)) => {
                self.welcome(&half.socket, hello, descriptors, node)
            }
            Ok(Greeted::Challenged(challenged)) => {
                half.challenged = Some(challenged);
                self.half_open.push(half);
                return;
            }
            Err(cause) => Err(cause),
        };
        match outcome {
            Ok((peer, mut pair)) => {
                pair.socket = Some(Arc::new(half.socket));
                pair.polled = true;
                pair.last_active = self.looks;
                self.polled.push(peer.index() as u32);
                if let Some(entry) = self.peers.get_mut(peer) {
                    entry.link = Link::Live(pair);
                }
                sink.peer_up(peer);
            }
            Err(cause) => {
                tracing::debug!(%cause, "a connection was refused");
                refuse(&half.socket, &cause);
            }
        }
    }

    /// Handles a caller's first record. With the cluster's key, the caller has to prove that it
    /// holds it.
    fn greeted(
        &self,
        socket: &RecordSocket,
        record: Record,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Greeted, PeerError> {
        let Record::Hello(hello) = record else {
            return Err(PeerError::Protocol(
                "the first record is not a greeting".to_owned(),
            ));
        };
        let key = match (&self.config.key, hello.flags & FLAG_KEYED != 0) {
            (Some(key), true) => key,
            (None, false) => return Ok(Greeted::Believed(hello, descriptors, None)),
            (Some(_), false) => {
                return Err(PeerError::Unauthorised(
                    "the listening process demands the cluster's key, and the caller has none"
                        .to_owned(),
                ));
            }
            (None, true) => {
                return Err(PeerError::Unauthorised(
                    "the listening process has no cluster key, and the caller demands one"
                        .to_owned(),
                ));
            }
        };
        let demanded = hello.flags & FLAG_NODES != 0;
        let awaited = match (self.config.nodes.as_ref().map(NodeProof::called), demanded) {
            (Some(proving), true) => Some(Awaited::Node(node_handshake::begin(
                false, key, proving, &hello,
            )?)),
            (None, false) => None,
            (Some(_), false) => {
                return Err(PeerError::Unauthorised(NODE_DEMANDED.to_owned()));
            }
            (None, true) => return Err(PeerError::Unauthorised(NO_NODE.to_owned())),
        };
        if let Some(awaited) = awaited {
            return Ok(Greeted::Challenged(Box::new(Challenged {
                hello,
                descriptors,
                awaited,
            })));
        }
        let nonce = nonce()?;
        let challenge = proof::challenge(key, &hello, nonce).ok_or(PeerError::Disconnected)?;
        let record = Record::Challenge(challenge).to_bytes();
        socket.send(&record, &[]).map_err(broken)?;
        Ok(Greeted::Challenged(Box::new(Challenged {
            hello,
            descriptors,
            awaited: Awaited::Proof(nonce),
        })))
    }

    /// Handles the next record of a caller that was sent a challenge.
    fn check_proof(
        &self,
        socket: &RecordSocket,
        challenged: Challenged,
        record: Record,
    ) -> Result<Greeted, PeerError> {
        let Challenged {
            hello,
            descriptors,
            awaited,
        } = challenged;
        let (nonce, proof) = match (awaited, record) {
            (Awaited::Proof(nonce), Record::Proof(proof)) => (nonce, proof),
            (Awaited::Node(mut exchange), Record::Node(message)) => {
                node_handshake::handle_message(&mut exchange, &message, socket)
                    .map_err(|e| node_handshake::sent_cause(&e))?;
                let awaited = match exchange.is_finished() {
                    true => {
                        let node = node_handshake::finish(*exchange)
                            .map_err(|e| node_handshake::sent_cause(&e))?;
                        return Ok(Greeted::Believed(hello, descriptors, node));
                    }
                    false => Awaited::Node(exchange),
                };
                return Ok(Greeted::Challenged(Box::new(Challenged {
                    hello,
                    descriptors,
                    awaited,
                })));
            }
            _ => {
                return Err(PeerError::Protocol(
                    "the reply to the challenge is not a proof".to_owned(),
                ));
            }
        };
        let key = self.config.key.as_ref().ok_or(PeerError::Disconnected)?;
        match proof::accepts(key, &hello, nonce, &proof) {
            true => Ok(Greeted::Believed(hello, descriptors, None)),
            false => Err(PeerError::Unauthorised(
                "the caller holds another cluster key".to_owned(),
            )),
        }
    }

    fn welcome(
        &mut self,
        socket: &RecordSocket,
        hello: Hello,
        descriptors: Vec<OwnedFd>,
        node: Option<Arc<Certificate>>,
    ) -> Result<(Peer, Box<Pair>), PeerError> {
        let credentials = self.check_user(socket)?;
        let protocol = |what: String| PeerError::Protocol(what);
        let [file, bell] = <[_; 2]>::try_from(descriptors)
            .map_err(|_| protocol("the greeting lacks its descriptors".to_owned()))?;
        let layout = PairLayout::new(hello.ring_bytes as usize, hello.region_slots as usize)
            .map_err(|error| protocol(error.to_string()))?;
        let len = memfd::checked_len(&file).map_err(|error| protocol(error.to_string()))?;
        if len != layout.len() as u64 {
            return Err(protocol(format!(
                "the pair's memory has {len} bytes instead of {}",
                layout.len()
            )));
        }
        let mapping = Mapping::new(&file, layout.len()).map_err(broken)?;
        let mut pair = Box::new(Pair::new(mapping, layout, 1, self.own, self.clock.now()));
        pair.credentials = Some(credentials);
        pair.node = node;
        pair.meet(socket, hello.formats, hello.flags, hello.process, bell)?;
        let address: Address = describe(credentials)
            .parse()
            .map_err(|_| PeerError::Disconnected)?;
        let peer = self.peers.add(address, false, Link::Idle).ok_or_else(|| {
            PeerError::Full("its process has as many peers as it takes".to_owned())
        })?;
        let welcome = Record::Welcome(Welcome {
            formats: FORMATS,
            flags: self.flags(),
            process: self.process(peer),
        });
        let sent = socket
            .send(&welcome.to_bytes(), &[self.bell_file.as_fd()])
            .and_then(|()| self.epoll.rename(socket, peer.0));
        if let Err(error) = sent {
            self.peers.remove(peer);
            return Err(broken(error));
        }
        Ok((peer, pair))
    }
}

/// What to do with a caller after its greeting.
enum Greeted {
    /// It is accepted, and has proven that it is this node.
    Believed(Hello, Vec<OwnedFd>, Option<Arc<Certificate>>),
    /// Its proof is awaited.
    Challenged(Box<Challenged>),
}

/// A random number for one handshake, which no other process can predict.
fn nonce() -> Result<u128, PeerError> {
    random::bytes().map(u128::from_ne_bytes).map_err(broken)
}

/// The formats that a side states which demands proofs of nodes.
fn with_nodes() -> Formats {
    Formats {
        lowest: NODES,
        ..FORMATS
    }
}

/// The text of an address that describes a peer that connected to us.
fn describe(credentials: Credentials) -> String {
    format!("shm://process-{}", credentials.pid)
}

fn refuse(socket: &RecordSocket, cause: &PeerError) {
    let refused = refusal(cause);
    // Best effort: without it, the caller sees only the closed socket.
    let _ = socket.send(&refused.to_bytes(), &[]);
}

fn refusal(cause: &PeerError) -> Record {
    let mut reason = cause.reason();
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    reason.truncate(end);
    let why = match cause {
        PeerError::Unauthorised(_) => RefuseReason::Unauthorised,
        PeerError::Full(_) => RefuseReason::Full,
        _ => RefuseReason::Other,
    };
    Record::Refused { reason, why }
}
