//! How two sides prove to each other which nodes they are: Noise's pattern XX, under the cluster's key, with certificates.
//!
//! ```text
//! initiator                                   responder
//!   psk, e ────────────────────────────────────►        a side without the cluster's key gets no further
//!   ◄──────────────── e, ee, s, es: certificate        the initiator checks it, and the role that it asks for
//!   s, se: certificate, user ──────────────────►        the responder checks it
//! ```
//!
//! The last message contains a user only if the connection speaks for that user alone
//! ([`causeway_wire::user`]).
//!
//! A pure state machine: bytes in, bytes out. Certificates travel encrypted, and the initiator shows its own only to a
//! side that has proven to be a node.

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_wire::codec::{Malformed, Reader, Wire as _};
use causeway_wire::node::{Certificate, MAX_CERTIFICATE_BYTES};
use causeway_wire::user::{MAX_USER_BYTES, User};

use super::{Membership, Nodes, Rejected};
use crate::address::Address;
use crate::error::PeerError;

/// The longest message: two public keys, two tags, a certificate, a user.
pub(crate) const LONGEST_MESSAGE: usize = 96 + MAX_CERTIFICATE_BYTES + MAX_USER_BYTES;

const XX_AES: &str = "Noise_XXpsk0_25519_AESGCM_BLAKE2s";
const XX_CHACHA: &str = "Noise_XXpsk0_25519_ChaChaPoly_BLAKE2s";

/// What one side needs for an exchange.
#[derive(Debug, Clone)]
pub struct NodeProof {
    /// What it knows of nodes, including later changes.
    pub nodes: Nodes,
    /// What it knew of nodes when the exchange began. Its own certificate and key are taken from
    /// here.
    pub membership: Arc<Membership>,
    /// The role that the other side must have, if any.
    pub role: Option<String>,
}

impl NodeProof {
    /// For an exchange with a process that calls this one.
    pub(crate) fn called(nodes: &Nodes) -> Self {
        Self {
            nodes: nodes.clone(),
            membership: nodes.current(),
            role: None,
        }
    }

    /// For an exchange with the process that replies at `address`. Fails if this address must not
    /// be called.
    pub(crate) fn calling(nodes: &Nodes, address: &Address) -> Result<Self, PeerError> {
        let proving = Self::called(nodes);
        let role = proving.membership.role_at(address)?.map(str::to_owned);
        Ok(Self { role, ..proving })
    }
}

/// A finished exchange.
pub(crate) struct Finished {
    /// The handshake state, from which the connection's keys are derived.
    pub(crate) noise: Box<snow::HandshakeState>,
    /// The other side's node.
    pub(crate) node: Arc<Certificate>,
    /// At a responder whose format supports that: the one user that the initiator speaks for; `None` if it
    /// speaks for all.
    pub(crate) user: Option<User>,
}

/// Why an exchange cannot continue.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The message was not made with the same cluster's key, or does not belong to this exchange.
    WrongKey,
    /// The message does not contain a valid encoding of a certificate.
    Malformed(Malformed),
    /// The other side is not a node that is accepted here.
    Rejected(Rejected),
}

/// See the module's page. The initiator writes first; then the two sides write alternately, until
/// [`NodeHandshake::is_finished`].
pub(crate) struct NodeHandshake {
    noise: Box<snow::HandshakeState>,
    proving: NodeProof,
    /// The next message to be written or read is the initiator's first, which contains no
    /// certificate.
    is_first: bool,
    peer: Option<Arc<Certificate>>,
    users: Users,
}

/// What an exchange states about users.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// Nothing: the method, or its format, has no field for it.
    Unsaid,
    /// The initiator states for which user it speaks; `None` for all.
    Said(Option<User>),
}

impl NodeHandshake {
    /// Begins an exchange. All bytes that the two sides have exchanged before are the prologue.
    pub(crate) fn new(
        initiates: bool,
        fast_aes: bool,
        key: &Secret,
        proving: NodeProof,
        prologue: &[u8],
    ) -> Result<Self, snow::Error> {
        let protocol = match fast_aes {
            true => XX_AES,
            false => XX_CHACHA,
        };
        let builder = snow::Builder::new(protocol.parse()?)
            .psk(0, key.expose())?
            .local_private_key(proving.membership.member().key().expose())?
            .prologue(prologue)?;
        let noise = match initiates {
            true => builder.build_initiator()?,
            false => builder.build_responder()?,
        };
        Ok(Self {
            noise: Box::new(noise),
            proving,
            is_first: initiates,
            peer: None,
            users: Users::Unsaid,
        })
    }

    /// Lets the initiator state for which user it speaks, if it speaks for one alone, and the responder
    /// read that.
    pub(crate) fn with_user(mut self, user: Option<User>) -> Self {
        self.users = Users::Said(user);
        self
    }

    /// This side's next message.
    pub(crate) fn write(&mut self) -> Result<Vec<u8>, snow::Error> {
        let mut shown = match std::mem::take(&mut self.is_first) {
            true => Vec::new(),
            false => self.proving.membership.member().certificate().to_bytes(),
        };
        if let Users::Said(Some(user)) = &self.users
            && self.noise.is_initiator()
            && !shown.is_empty()
        {
            shown.extend(user.to_bytes());
        }
        let mut message = vec![0; LONGEST_MESSAGE];
        let len = self.noise.write_message(&shown, &mut message)?;
        message.truncate(len);
        Ok(message)
    }

    /// Handles the other side's next message.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<(), Failed> {
        let mut room = [0; LONGEST_MESSAGE];
        let read = self.noise.read_message(message, &mut room);
        let shown = room.get(..read.map_err(|_| Failed::WrongKey)?);
        let Some(key) = self.noise.get_remote_static() else {
            return Ok(()); // the initiator's first message: what it may say is of no use to anybody
        };
        let mut shown = Reader::new(shown.unwrap_or_default());
        let certificate = Certificate::decode(&mut shown).map_err(Failed::Malformed)?;
        if let Users::Said(user) = &mut self.users
            && !self.noise.is_initiator()
        {
            *user = read_user(&mut shown).map_err(Failed::Malformed)?;
        }
        shown.finish().map_err(Failed::Malformed)?;
        let NodeProof {
            membership, role, ..
        } = &self.proving;
        membership
            .admit(&certificate, key, role.as_deref())
            .map_err(Failed::Rejected)?;
        self.peer = Some(Arc::new(certificate));
        Ok(())
    }

    /// Whether all messages have been exchanged.
    pub(crate) fn is_finished(&self) -> bool {
        self.noise.is_handshake_finished()
    }

    /// The finished exchange, with the other side's node; `None` if it is not finished. Fails if the node is no longer accepted: what
    /// is known of nodes may have changed since its certificate was checked.
    pub(crate) fn finish(self) -> Result<Option<Finished>, Rejected> {
        let Self {
            noise,
            proving,
            peer,
            users,
            ..
        } = self;
        let user = match users {
            Users::Said(user) if !noise.is_initiator() => user,
            _ => None,
        };
        let Some(node) = peer.filter(|_| noise.is_handshake_finished()) else {
            return Ok(None);
        };
        proving.nodes.current().still_admits(&node)?;
        Ok(Some(Finished { noise, node, user }))
    }
}

/// The user at the end of an initiator's message, if the initiator speaks for one user alone.
pub(crate) fn read_user(payload: &mut Reader<'_>) -> Result<Option<User>, Malformed> {
    match payload.remaining() {
        0 => Ok(None),
        _ => User::decode(payload).map(Some),
    }
}
