//! Agents: a process of root that holds the keys of a node makes handshakes for processes of the node's users, which
//! hold no keys.
//!
//! [`Agent`] states where the agent of a process without keys listens. `tcp` calls the agent during its handshake, over an `AgentConnection`, and uses the
//! connection by itself afterwards: no message passes through the agent. [`AgentHandshake`] is the agent's part of one handshake: a pure state
//! machine that takes requests and returns replies. Its caller has asked the kernel which user's process sends the requests
//! ([`causeway_sys::socket::RecordSocket::peer`]).
//!
//! The user's process gets the two keys of one connection. The handshake has told the server at the connection's other end that this connection
//! speaks for this user and no other. The process can alter none of that: it holds neither the cluster's key nor the node's, and both hellos are
//! the handshake's prologue. The agent is the initiator of all handshakes, so that no process can pose as a server with its help.

use std::io;
use std::path::{Path, PathBuf};

use causeway_sys::process::is_overflow_user;
use causeway_sys::secret::Secret;
use causeway_sys::socket::{Received, RecordSocket};
use causeway_wire::agent::{Done, FORMATS, MAX_MESSAGE_BYTES, Open, Reply, Request};
use causeway_wire::codec::Wire as _;
use causeway_wire::tcp::{Auth, FORMATS as TCP_FORMATS, Hello, MAX_STEP_PAYLOAD, USERS_FROM};
use causeway_wire::user::User;
use zeroize::Zeroizing;

use crate::address::Address;
use crate::ciphers::SessionKeys;
use crate::error::PeerError;
use crate::nodes::Nodes;
use crate::nodes::handshake::{Failed, Finished, NodeHandshake, NodeProof};
use crate::tcp::handshake::{Role, keyed};

/// The agent that makes the handshakes of a process without keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The Unix socket at which it listens.
    pub socket: PathBuf,
    /// Whether it proves its node's identity, and demands the same of servers.
    pub nodes: bool,
}

impl Agent {
    /// Fails if nothing listens at the agent's socket, or a process listens there that is neither root's nor this process's own user's.
    /// Succeeds if the agent only has too many callers at present.
    pub fn check(&self) -> Result<(), PeerError> {
        match AgentConnection::connect(&self.socket) {
            Ok(_) | Err(PeerError::Full(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The error when the agent has not replied in time.
    pub(crate) fn silent(&self, within_ms: u64) -> PeerError {
        PeerError::Broken(format!(
            "this node's agent ({}) has not replied within {within_ms} ms: look into its log, or start it again with `causeway fs agent`",
            self.socket.display()
        ))
    }
}

/// A connection to an agent, for one handshake.
#[derive(Debug)]
pub(crate) struct AgentConnection(RecordSocket);

impl AgentConnection {
    /// Calls the agent that listens at this path, if that process is root's or this process's own user's.
    pub(crate) fn connect(path: &Path) -> Result<Self, PeerError> {
        let socket =
            RecordSocket::connect(path).map_err(|error| unreachable_agent(path, &error))?;
        let agent = socket.peer().map_err(|error| lost(path, &error))?;
        let own = rustix::process::geteuid().as_raw();
        let is_trusted = agent.uid == 0 || agent.uid == own;
        if is_overflow_user(agent.uid) {
            return Err(PeerError::Unauthorised(format!(
                "root of this host is not mapped into this process's user namespace, so that it cannot verify that root's agent listens at {}: \
                 use the file system from outside of this container, or a mount",
                path.display()
            )));
        }
        if !is_trusted {
            return Err(PeerError::Unauthorised(format!(
                "user {} listens at the address of this node's agent ({}), and is neither root nor this process's user",
                agent.uid,
                path.display()
            )));
        }
        Ok(Self(socket))
    }

    /// Sends a request.
    pub(crate) fn ask(&self, request: &Request, path: &Path) -> Result<(), PeerError> {
        let sent = self.0.send(&request.to_bytes(), &[]);
        sent.map_err(|error| lost(path, &error))
    }

    /// The reply; `None` as long as it has not arrived.
    pub(crate) fn reply(&self, path: &Path) -> Result<Option<Reply>, PeerError> {
        let mut room = Zeroizing::new([0; MAX_MESSAGE_BYTES]);
        let broken = |what: &str| {
            let path = path.display();
            PeerError::Broken(format!(
                "this node's agent ({path}) {what}: look into its log, or start it again with `causeway fs agent`"
            ))
        };
        match self.0.receive(&mut room[..]) {
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::Record(len, descriptors)) if descriptors.is_empty() => {
                let reply = Reply::from_bytes(room.get(..len).unwrap_or_default());
                reply
                    .map(Some)
                    .map_err(|error| broken(&format!("replies what is no reply ({error})")))
            }
            Ok(Received::Closed) => Err(broken("has ended the connection")),
            Ok(_) => Err(broken("replies what is no reply")),
            Err(error) => Err(lost(path, &error)),
        }
    }

    /// The socket; it is readable when a reply has arrived.
    pub(crate) fn socket(&self) -> &RecordSocket {
        &self.0
    }
}

fn unreachable_agent(path: &Path, error: &io::Error) -> PeerError {
    let path = path.display();
    match error.kind() {
        io::ErrorKind::WouldBlock => PeerError::Full(format!(
            "this node's agent ({path}) has more callers than it can take in"
        )),
        // The agent may be about to start again. Callers repeat this attempt for as long as they repeat attempts to
        // connect to a server that is down.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => PeerError::Refused(format!(
            "this process may not read the key, and the node's agent, which would speak for it, is not there ({path}: {error}): start \
                 it as root with `causeway fs agent`"
        )),
        _ => match PeerError::of_system(error) {
            PeerError::Broken(_) => PeerError::Unauthorised(format!(
                "this process may not read the key, and cannot reach the node's agent, which would speak for it ({path}: {error})"
            )),
            exhausted => exhausted,
        },
    }
}

fn lost(path: &Path, error: &io::Error) -> PeerError {
    match PeerError::of_system(error) {
        PeerError::Broken(reason) => PeerError::Broken(format!(
            "this node's agent ({}) does not listen any more ({reason}): start it again with `causeway fs agent`",
            path.display()
        )),
        exhausted => exhausted,
    }
}

/// The keys and certificates that an agent uses.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// The cluster's key.
    pub key: Secret,
    /// The node's certificate and rules, if nodes prove their identity.
    pub nodes: Option<Nodes>,
}

/// An agent's part of one handshake. See the module's page.
pub struct AgentHandshake {
    user: User,
    state: State,
}

enum State {
    New,
    Keyed(Box<snow::HandshakeState>),
    Nodes(Box<NodeHandshake>),
    Over,
}

impl AgentHandshake {
    /// The agent's part for a connection that speaks for this user.
    pub fn new(user: User) -> Self {
        Self {
            user,
            state: State::New,
        }
    }

    /// The user for whom the connection speaks.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Whether no further request is accepted.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Handles a request from a process that may be hostile.
    pub fn on_request(&mut self, credentials: &Credentials, request: &Request) -> Reply {
        let replied = match (std::mem::replace(&mut self.state, State::Over), request) {
            (State::New, Request::Open(open)) => self.open(credentials, open),
            (State::Keyed(noise), Request::PeerStep(message)) => finish_keyed(noise, message),
            (State::Nodes(exchange), Request::PeerStep(message)) => {
                finish_nodes(*exchange, message)
            }
            _ => Err("the requests come in the wrong order".to_owned()),
        };
        replied.unwrap_or_else(Reply::Refused)
    }

    fn open(&mut self, credentials: &Credentials, open: &Open) -> Result<Reply, String> {
        if FORMATS.common(open.formats).is_none() {
            return Err(FORMATS.mismatch(open.formats, "the agent"));
        }
        let hello = |bytes, sender: &str| {
            Hello::decode(bytes).map_err(|error| format!("{sender} hello: {error}"))
        };
        let ours = hello(&open.ours, "the process's own")?;
        let theirs = hello(&open.theirs, "the server's")?;
        // Older formats have no field for the user: a server would treat the connection as one that speaks for all users.
        let format = ours.formats.common(theirs.formats);
        // In a newer format, the user's field may be in another place than where this build writes it.
        if format.is_some_and(|format| !TCP_FORMATS.has(format)) {
            return Err(format!(
                "the process speaks {} of the TCP method, and the agent {TCP_FORMATS}: upgrade the agent",
                ours.formats
            ));
        }
        if ours.formats.lowest < USERS_FROM || format.is_none() {
            return Err(format!(
                "the server speaks {} of the TCP method, and agents need {USERS_FROM}: upgrade the servers first",
                theirs.formats
            ));
        }
        let demanded = credentials.nodes.is_some();
        let fits = |hello: &Hello| hello.auth == Auth::ClusterKey && hello.nodes == demanded;
        if !fits(&ours) || !fits(&theirs) {
            return Err(
                "its configuration is another one than the agent's: one has `[nodes]` and the other has not, or the server has no key"
                    .to_owned(),
            );
        }
        let prologue = [open.ours, open.theirs].concat();
        let fast_aes = ours.fast_aes && theirs.fast_aes;
        let key = &credentials.key;
        let message = match &credentials.nodes {
            Some(nodes) => {
                let address = open.address.parse::<Address>();
                let address = address.map_err(|error| error.to_string())?;
                let proving =
                    NodeProof::calling(nodes, &address).map_err(|error| error.to_string())?;
                let exchange = NodeHandshake::new(true, fast_aes, key, proving, &prologue);
                let mut exchange = exchange
                    .map_err(broken_noise)?
                    .with_user(Some(self.user.clone()));
                let message = exchange.write().map_err(broken_noise)?;
                self.state = State::Nodes(Box::new(exchange));
                message
            }
            None => {
                let noise = keyed(Role::Initiator, fast_aes, key, &prologue);
                let mut noise = noise.map_err(broken_noise)?;
                let mut message = vec![0; MAX_STEP_PAYLOAD];
                let payload = self.user.to_bytes();
                let len = noise.write_message(&payload, &mut message);
                message.truncate(len.map_err(broken_noise)?);
                self.state = State::Keyed(Box::new(noise));
                message
            }
        };
        Ok(Reply::SendStep(message))
    }
}

/// Finishes a handshake with the server's message, where nodes do not prove their identity.
fn finish_keyed(mut noise: Box<snow::HandshakeState>, message: &[u8]) -> Result<Reply, String> {
    let mut payload = [0; MAX_STEP_PAYLOAD];
    if noise.read_message(message, &mut payload).is_err() || !noise.is_handshake_finished() {
        return Err(WRONG_KEY.to_owned());
    }
    Ok(done(Vec::new(), &mut noise, None))
}

/// Finishes a handshake with the server's message, where nodes prove their identity.
fn finish_nodes(mut exchange: NodeHandshake, message: &[u8]) -> Result<Reply, String> {
    exchange.read(message).map_err(|failed| match failed {
        Failed::WrongKey => WRONG_KEY.to_owned(),
        Failed::Malformed(error) => format!("the server's certificate: {error}"),
        Failed::Rejected(why) => format!("of the server: {why}"),
    })?;
    let last = exchange.write().map_err(broken_noise)?;
    let finished = exchange.finish();
    let finished = finished.map_err(|why| format!("of the server: {why}"))?;
    let Finished {
        mut noise, node, ..
    } = finished.ok_or(WRONG_KEY)?;
    Ok(done(last, &mut noise, Some((*node).clone())))
}

const WRONG_KEY: &str = "the server holds another cluster key than the agent";

fn done(
    last: Vec<u8>,
    noise: &mut snow::HandshakeState,
    node: Option<crate::nodes::Certificate>,
) -> Reply {
    let keys = SessionKeys::of(noise);
    Reply::Done(Done {
        last,
        ours: keys.ours,
        theirs: keys.theirs,
        node,
    })
}

fn broken_noise(error: snow::Error) -> String {
    format!("the Noise handshake cannot go on: {error}")
}

#[cfg(test)]
mod tests;
