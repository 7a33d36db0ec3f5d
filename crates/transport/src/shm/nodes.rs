//! How two processes that share memory prove to each other which nodes they are: the exchange of [`crate::nodes`], in records.
//!
//! The caller sends its first message behind its greeting, which is the exchange's prologue, and nothing into its ring before it is welcomed.

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_sys::socket::RecordSocket;
use causeway_wire::codec::Wire as _;
use causeway_wire::shm::{Hello, Record};

use super::handshake::is_closed;
use super::pair::Pair;
use super::peers::Link;
use super::proof::Caller;
use super::{Shm, ShmConfig};
use crate::address::Address;
use crate::error::{Error, PeerError};
use crate::method::Peer;
use crate::nodes::exchange::{Exchange, Failed, Proving};
use crate::nodes::{Certificate, Membership};
use crate::trust::{NODES_NEED_KEY, keyed};

/// What a caller has to be shown, and shows, before it is welcomed.
pub(super) enum Proofs {
    /// That both hold the cluster's key.
    Key(Caller),
    /// That, and which nodes they are.
    Nodes(Box<Exchange>),
}

impl Proofs {
    /// Whether the accepting side may welcome us now: its node, if it has shown that.
    pub(super) fn check_welcome(self) -> Result<Option<Arc<Certificate>>, PeerError> {
        match self {
            Self::Key(caller) => caller.check_welcome().map(|()| None),
            Self::Nodes(exchange) => match exchange.finish() {
                Some((_, node)) => Ok(Some(node)),
                None => Err(PeerError::Unauthorised(
                    "it does not prove which node it is".to_owned(),
                )),
            },
        }
    }
}

/// Refuses settings without the cluster's key.
pub(super) fn check(config: &ShmConfig) -> Result<(), Error> {
    match (&config.nodes, &config.key) {
        (Some(_), None) => Err(Error::Unsupported(NODES_NEED_KEY)),
        _ => Ok(()),
    }
}

/// What reports say of a peer's node.
pub(super) fn fact(pair: &Pair) -> Option<(&'static str, String)> {
    let node = pair.node.as_deref()?;
    Some(("peer", keyed(Some(node))))
}

/// Begins an exchange of which this greeting is the prologue. Both processes run on one processor.
pub(super) fn exchange(
    initiates: bool,
    key: &Secret,
    proving: Proving,
    hello: &Hello,
) -> Result<Box<Exchange>, PeerError> {
    let prologue = Record::Hello(*hello).to_bytes();
    let fast_aes = crate::tcp::handshake::has_fast_aes();
    Exchange::new(initiates, fast_aes, key, proving, &prologue)
        .map(Box::new)
        .map_err(|error| broken(&error))
}

fn broken(error: &snow::Error) -> PeerError {
    PeerError::Broken(format!("the Noise handshake cannot go on: {error}"))
}

/// Takes a message, and sends the next one if there is one.
pub(super) fn go_on(
    exchange: &mut Exchange,
    message: &[u8],
    socket: &RecordSocket,
) -> Result<(), PeerError> {
    exchange.read(message).map_err(|failed| match failed {
        Failed::WrongKey => PeerError::Unauthorised("it holds another cluster key".to_owned()),
        Failed::Malformed(error) => PeerError::Protocol(error.to_string()),
        Failed::Rejected(why) => PeerError::Unauthorised(why.to_string()),
    })?;
    match exchange.is_finished() {
        true => Ok(()),
        false => say(exchange, socket),
    }
}

/// Sends this side's next message.
pub(super) fn say(exchange: &mut Exchange, socket: &RecordSocket) -> Result<(), PeerError> {
    let message = exchange.write().map_err(|error| broken(&error))?;
    match socket.send(&Record::Node(message).to_bytes(), &[]) {
        // What it has said before is read next.
        Err(error) if is_closed(&error) => Ok(()),
        sent => sent.map_err(|error| PeerError::of_system(&error)),
    }
}

/// What the other side is told that is refused in the middle of an exchange: it knows itself what its certificate says.
pub(super) fn told(cause: &PeerError) -> PeerError {
    match cause {
        PeerError::Unauthorised(why) => {
            PeerError::Unauthorised(format!("the process there says of this one: {why}"))
        }
        other => other.clone(),
    }
}

impl Shm {
    /// What this process brings to an exchange with what listens at `called`, or calls.
    pub(super) fn proving(&self, called: Option<&Address>) -> Option<Proving> {
        let membership = self.config.nodes.as_ref()?.current();
        let role = called.and_then(|called| membership.role_at(called));
        Some(Proving {
            role: role.map(str::to_owned),
            membership,
        })
    }

    pub(super) fn node_of(&self, peer: Peer) -> Option<&Arc<Certificate>> {
        match &self.peers.get(peer)?.link {
            Link::Live(pair) => pair.node.as_ref(),
            _ => None,
        }
    }

    /// Whether a peer may say that it listens at `claimed`.
    pub(super) fn may_listen_at(&self, peer: Peer, claimed: &Address) -> bool {
        let node = self.node_of(peer).map(Arc::as_ref);
        let nodes = self.config.nodes.as_ref();
        nodes.is_none_or(|nodes| nodes.current().may_be_at(node, claimed))
    }

    /// Ends the connections with nodes that do not count any more.
    pub(super) fn fail_rejected(&mut self, membership: &Membership) {
        let mut rejected = Vec::new();
        for entry in self.peers.iter_mut() {
            let peer = entry.peer;
            if let Some(node) = entry.pair().and_then(|pair| pair.node.as_ref())
                && let Err(why) = membership.still_admits(node)
            {
                rejected.push((peer, why));
            }
        }
        for (peer, why) in rejected {
            tracing::warn!(%why, "a connection over shared memory is ended");
            if let Some(pair) = self.peers.get_mut(peer).and_then(|entry| entry.pair()) {
                // What it has put into its ring is not taken any more.
                pair.unproven = true;
            }
            self.fail(peer, PeerError::Unauthorised(why.to_string()));
        }
    }
}
