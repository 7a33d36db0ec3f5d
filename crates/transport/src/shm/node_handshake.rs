//! How two processes that share memory prove to each other which nodes they are: the exchange of [`crate::nodes`], in records.
//!
//! The caller's greeting is the exchange's prologue. The caller sends its first message of the exchange after the greeting, and puts no
//! packet into its ring before it is welcomed.

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_sys::socket::RecordSocket;
use causeway_wire::codec::Wire as _;
use causeway_wire::node::Certificate;
use causeway_wire::shm::{Hello, Record};

use super::proof::Caller;
use crate::error::PeerError;
use crate::nodes::handshake::{Failed, NodeHandshake, NodeProof};

/// Whether the error means that the other side has closed the socket. What it sent before can still
/// be read.
pub(super) fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

/// What a caller has to prove, and to have proven to it, before it is welcomed.
pub(super) enum RequiredProofs {
    /// That both hold the cluster's key.
    Key(Caller),
    /// That both hold the cluster's key, and which nodes they are.
    Nodes(Box<NodeHandshake>),
}

impl RequiredProofs {
    /// Whether the accepting side may welcome us now: its node, if it has shown that.
    pub(super) fn check_welcome(self) -> Result<Option<Arc<Certificate>>, PeerError> {
        match self {
            Self::Key(caller) => caller.check_welcome().map(|()| None),
            Self::Nodes(exchange) => match finish(*exchange)? {
                Some(node) => Ok(Some(node)),
                None => Err(PeerError::Unauthorised(
                    "it does not prove which node it is".to_owned(),
                )),
            },
        }
    }
}

/// Begins an exchange of which this greeting is the prologue. Both processes run on the same host,
/// so they agree on whether its processors have fast AES.
pub(super) fn begin(
    initiates: bool,
    key: &Secret,
    proving: NodeProof,
    hello: &Hello,
) -> Result<Box<NodeHandshake>, PeerError> {
    let prologue = Record::Hello(*hello).to_bytes();
    let fast_aes = crate::tcp::handshake::has_fast_aes();
    NodeHandshake::new(initiates, fast_aes, key, proving, &prologue)
        .map(Box::new)
        .map_err(|error| broken(&error))
}

fn broken(error: &snow::Error) -> PeerError {
    PeerError::Broken(format!("the Noise handshake cannot go on: {error}"))
}

/// Handles a message, and sends the next one unless the exchange is finished.
pub(super) fn handle_message(
    exchange: &mut NodeHandshake,
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
        false => send_message(exchange, socket),
    }
}

/// The other side's node, if the exchange is finished.
pub(super) fn finish(exchange: NodeHandshake) -> Result<Option<Arc<Certificate>>, PeerError> {
    let finished = exchange.finish();
    let finished = finished.map_err(|why| PeerError::Unauthorised(why.to_string()))?;
    Ok(finished.map(|finished| finished.node))
}

/// Sends this side's next message.
pub(super) fn send_message(
    exchange: &mut NodeHandshake,
    socket: &RecordSocket,
) -> Result<(), PeerError> {
    let message = exchange.write().map_err(|error| broken(&error))?;
    match socket.send(&Record::Node(message).to_bytes(), &[]) {
        // What the other side has sent before it closed the socket is read next.
        Err(error) if is_closed(&error) => Ok(()),
        sent => sent.map_err(|error| PeerError::of_system(&error)),
    }
}

/// The error that is sent to a side which is refused in the middle of an exchange. It does not repeat what the
/// certificate of that side states.
pub(super) fn sent_cause(cause: &PeerError) -> PeerError {
    match cause {
        PeerError::Unauthorised(why) => {
            PeerError::Unauthorised(format!("the process there says of this one: {why}"))
        }
        other => other.clone(),
    }
}
