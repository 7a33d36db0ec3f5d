//! How two sides prove to each other which nodes they are: Noise's pattern XX, under the cluster's key, with certificates.
//!
//! ```text
//! initiator                                   responder
//!   psk, e ────────────────────────────────────►        a side without the cluster's key gets no further
//!   ◄──────────────── e, ee, s, es: certificate        the initiator checks it, and the role that it asks for
//!   s, se: certificate ────────────────────────►        the responder checks it
//! ```
//!
//! A pure state machine, bytes in, bytes out. Certificates travel encrypted, and the initiator's is shown to nodes alone.

use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_wire::codec::Wire as _;
use causeway_wire::node::{Certificate, MAX_CERTIFICATE_BYTES};

use super::{Membership, Nodes, Rejected};
use crate::address::Address;
use crate::error::PeerError;

/// The longest message: two public keys, two tags, a certificate.
pub(crate) const LONGEST_MESSAGE: usize = 96 + MAX_CERTIFICATE_BYTES;

const XX_AES: &str = "Noise_XXpsk0_25519_AESGCM_BLAKE2s";
const XX_CHACHA: &str = "Noise_XXpsk0_25519_ChaChaPoly_BLAKE2s";

/// What one side brings.
#[derive(Debug, Clone)]
pub struct Proving {
    /// What it knows of nodes, also later.
    pub nodes: Nodes,
    /// What it knew of them when it began: its own certificate and key are these.
    pub membership: Arc<Membership>,
    /// The role that the other side has to have.
    pub role: Option<String>,
}

impl Proving {
    /// For an exchange with a process that calls this one.
    pub(crate) fn called(nodes: &Nodes) -> Self {
        Self {
            nodes: nodes.clone(),
            membership: nodes.current(),
            role: None,
        }
    }

    /// For an exchange with what replies at `address`. Fails if that is not to be called.
    pub(crate) fn calling(nodes: &Nodes, address: &Address) -> Result<Self, PeerError> {
        let proving = Self::called(nodes);
        let role = proving.membership.role_at(address)?.map(str::to_owned);
        Ok(Self { role, ..proving })
    }
}

/// A finished exchange, and the other side's node.
pub(crate) type Finished = (Box<snow::HandshakeState>, Arc<Certificate>);

/// Why an exchange cannot go on.
#[derive(Debug)]
pub(crate) enum Failed {
    /// What has come was not made with the same key, in this exchange.
    WrongKey,
    /// It is no certificate.
    Malformed(causeway_wire::codec::Malformed),
    /// The other side is not a node that counts here.
    Rejected(Rejected),
}

/// See the module's page. The initiator writes first; then both take turns, until [`Exchange::is_finished`].
pub(crate) struct Exchange {
    noise: Box<snow::HandshakeState>,
    proving: Proving,
    /// The initiator has not written yet: its first message shows nothing.
    is_first: bool,
    peer: Option<Arc<Certificate>>,
}

impl Exchange {
    /// Begins. Whatever both sides have said before is the prologue.
    pub(crate) fn new(
        initiates: bool,
        fast_aes: bool,
        key: &Secret,
        proving: Proving,
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
        })
    }

    /// This side's next message.
    pub(crate) fn write(&mut self) -> Result<Vec<u8>, snow::Error> {
        let shown = match std::mem::take(&mut self.is_first) {
            true => Vec::new(),
            false => self.proving.membership.member().certificate().to_bytes(),
        };
        let mut message = vec![0; LONGEST_MESSAGE];
        let len = self.noise.write_message(&shown, &mut message)?;
        message.truncate(len);
        Ok(message)
    }

    /// Takes the other side's next message.
    pub(crate) fn read(&mut self, message: &[u8]) -> Result<(), Failed> {
        let mut room = [0; LONGEST_MESSAGE];
        let read = self.noise.read_message(message, &mut room);
        let shown = room.get(..read.map_err(|_| Failed::WrongKey)?);
        let Some(key) = self.noise.get_remote_static() else {
            return Ok(()); // the initiator's first message: what it may say is of no use to anybody
        };
        let certificate =
            Certificate::from_bytes(shown.unwrap_or_default()).map_err(Failed::Malformed)?;
        let Proving {
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

    /// The finished exchange, and the other side's node; `None` if it is not finished. Fails if the node does not count any more: what
    /// is known of nodes may have changed since it was met.
    pub(crate) fn finish(self) -> Result<Option<Finished>, Rejected> {
        let Self {
            noise,
            proving,
            peer,
            ..
        } = self;
        let Some(peer) = peer.filter(|_| noise.is_handshake_finished()) else {
            return Ok(None);
        };
        proving.nodes.current().still_admits(&peer)?;
        Ok(Some((noise, peer)))
    }
}
