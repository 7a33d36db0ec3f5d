//! Capabilities: what the metadata server lets a user of a client do to an object, in a form that I/O servers can verify
//! without a request to it (NASD, Gobioff et al. 1999).

use super::caller::NOBODY;
use super::objects::ObjectId;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Bytes of a capability's authentication code.
pub const MAC_BYTES: usize = 32;
/// The first bytes of the code. Servers compare only these, and requests from format 13 on contain only these: 128 bits cannot be
/// forged in practice.
pub const PROOF_BYTES: usize = 16;
/// Bytes that the code authenticates. They fit into one block of BLAKE3, with seven bytes to spare.
pub const SIGNED_BYTES: usize = 57;

/// What may be done to an object: a set of [`Rights::READ`] and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(pub u8);

impl Rights {
    /// No rights beyond those of every capability: measuring the object.
    pub const NONE: Self = Self(0);
    /// Reading.
    pub const READ: Self = Self(1);
    /// Writing, truncating, making holes, reserving room.
    pub const WRITE: Self = Self(2);
    /// Checking, moving aside and removing any datafile. Given to operators, for object 0.
    pub const OPERATE: Self = Self(4);
    /// Operations of the metadata server on I/O servers. Never granted to clients.
    pub const SERVE: Self = Self(8);
    const ALL: u8 = 15;
    /// A bit of the byte with the rights, where a request contains a capability: the node follows.
    const HAS_NODE: u8 = 0x40;
    /// In the same byte: the capability is for [`NOBODY`], and not for the caller.
    const IS_NOBODYS: u8 = 0x80;

    /// Both.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// A right that a metadata server has granted to a user of a client. Useless to others: servers
/// compare it with the sender of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The object: all of its datafiles. 0 for rights that belong to no object.
    pub object: ObjectId,
    /// The permitted operations.
    pub rights: Rights,
    /// The user to which it was granted.
    pub uid: u32,
    /// The node to which it was granted, by a number that servers derive from its name; 0 if nodes
    /// do not prove which they are.
    pub node: u64,
    /// The client to which it was granted ([`Request::client`](super::Request::client)).
    pub client: u128,
    /// When it was granted, in microseconds since 1970 by the metadata server's clock, which never
    /// goes back for this. Capabilities that were granted before the object's permissions changed
    /// have ended.
    pub version: u64,
    /// How long it is valid, in milliseconds.
    pub lifetime_ms: u32,
    /// The I/O servers that may be used: bit `n` for those whose number is `n` modulo 64.
    pub servers: u64,
    /// Proves, to holders of the servers' key, that a metadata server has made it.
    pub mac: [u8; MAC_BYTES],
}

impl Capability {
    /// The bytes that [`Capability::mac`] authenticates, in their encoding.
    pub fn signed(&self) -> [u8; SIGNED_BYTES] {
        let mut out = [0; SIGNED_BYTES];
        out[..8].copy_from_slice(&self.object.0.to_le_bytes());
        out[8] = self.rights.0;
        out[9..13].copy_from_slice(&self.uid.to_le_bytes());
        out[13..21].copy_from_slice(&self.node.to_le_bytes());
        out[21..37].copy_from_slice(&self.client.to_le_bytes());
        out[37..45].copy_from_slice(&self.version.to_le_bytes());
        out[45..49].copy_from_slice(&self.lifetime_ms.to_le_bytes());
        out[49..].copy_from_slice(&self.servers.to_le_bytes());
        out
    }

    /// Encodes it as requests contain it from format 13 on: without the fields that the request contains itself, which are the
    /// object, the client, and the user unless the metadata server treats the user as nobody.
    pub(super) fn encode_shown(&self, uid: u32, out: &mut Writer) {
        let mut first = self.rights.0;
        if self.node != 0 {
            first |= Rights::HAS_NODE;
        }
        if self.uid == NOBODY && uid != NOBODY {
            first |= Rights::IS_NOBODYS;
        }
        out.u8(first);
        out.u64(self.version);
        out.u32(self.lifetime_ms);
        out.u64(self.servers);
        if self.node != 0 {
            out.u64(self.node);
        }
        out.raw(&self.mac[..PROOF_BYTES]);
    }

    /// Decodes the capability in a request of a user of a client. Its object is the one for which the request's
    /// operation needs it.
    pub(super) fn decode_shown(
        (uid, client): (u32, u128),
        input: &mut Reader<'_>,
    ) -> Result<Self, Malformed> {
        let first = input.u8("rights")?;
        let is_nobodys = first & Rights::IS_NOBODYS != 0;
        let has_node = first & Rights::HAS_NODE != 0;
        let rights = first & !(Rights::IS_NOBODYS | Rights::HAS_NODE);
        if rights > Rights::ALL || (is_nobodys && uid == NOBODY) {
            return unknown("rights", first);
        }
        let mut shown = Self {
            object: ObjectId(0),
            rights: Rights(rights),
            uid: if is_nobodys { NOBODY } else { uid },
            node: 0,
            client,
            version: input.u64("version")?,
            lifetime_ms: input.u32("lifetime")?,
            servers: input.u64("servers")?,
            mac: [0; MAC_BYTES],
        };
        if has_node {
            shown.node = input.u64("node")?;
            if shown.node == 0 {
                return unknown("node", 0u8);
            }
        }
        let proof = input.take(PROOF_BYTES, "authentication code")?;
        shown.mac[..PROOF_BYTES].copy_from_slice(proof);
        Ok(shown)
    }

    /// The bit of an I/O server in [`Capability::servers`].
    pub fn server_bit(number: u16) -> u64 {
        1 << (number % 64)
    }
}

impl Wire for Capability {
    fn encode(&self, out: &mut Writer) {
        out.raw(&self.signed());
        out.raw(&self.mac);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let object = ObjectId::decode(input)?;
        let rights = input.u8("rights")?;
        if rights > Rights::ALL {
            return unknown("rights", rights);
        }
        Ok(Self {
            object,
            rights: Rights(rights),
            uid: input.u32("uid")?,
            node: input.u64("node")?,
            client: input.u128("client")?,
            version: input.u64("version")?,
            lifetime_ms: input.u32("lifetime")?,
            servers: input.u64("servers")?,
            mac: {
                let mut mac = [0; MAC_BYTES];
                mac.copy_from_slice(input.take(MAC_BYTES, "authentication code")?);
                mac
            },
        })
    }
}

/// The right that an operation needs at an I/O server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// None: the operation concerns no object, or is checked by the metadata server.
    Nothing,
    /// None: the metadata server checks that the caller is an operator.
    Operator,
    /// One of these rights to the object; any capability if they are [`Rights::NONE`].
    Object(ObjectId, Rights),
    /// This right to all objects.
    Any(Rights),
}

impl Needs {
    /// The object (0 for all) and the rights, if any are needed.
    pub fn what(self) -> Option<(ObjectId, Rights)> {
        match self {
            Self::Nothing | Self::Operator => None,
            Self::Object(object, rights) => Some((object, rights)),
            Self::Any(rights) => Some((ObjectId(0), rights)),
        }
    }
}

/// The capability of a message whose format [`has`](super::formats::CAPABILITIES) them.
pub(super) fn take_optional(
    has: bool,
    input: &mut Reader<'_>,
) -> Result<Option<Capability>, Malformed> {
    match has && input.bool("capability")? {
        true => Capability::decode(input).map(Some),
        false => Ok(None),
    }
}
