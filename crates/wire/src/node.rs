//! Which node a process belongs to, and what that node may be: certificates, and the files that nodes and their authority keep
//! ([`files`]). `docs/formats/node.md` draws them.
//!
//! A node has a key of its own for Noise's handshakes. A [`Certificate`] states to which node the key belongs and which roles the node
//! has: names of servers that its processes may be, and [`CLIENT`]. The cluster's authority signs it. Nothing here does cryptography:
//! signatures are verified, and the other side of a connection proves that it holds the key, where connections are made.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Malformed, Reader, Wire, Writer, unknown, utf8};

pub mod files;

/// The format of certificates, which rises with what is signed.
pub const CERTIFICATE_FORMAT: u8 = 1;

/// Precedes the signed bytes, so that a signature of a certificate is never valid for anything else,
/// nor the other way round.
pub const SIGNED_CONTEXT: &[u8; 30] = b"causeway certificate of a node";

/// Bytes of a public key, of a node as of an authority.
pub const PUBLIC_KEY_BYTES: usize = 32;

/// Bytes of an authority's signature (Ed25519).
pub const SIGNATURE_BYTES: usize = 64;

/// Longest name of a node or a role, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Most roles of a node.
pub const MAX_ROLES: usize = 16;

/// The role of nodes whose processes use servers. All other roles are names of servers.
pub const CLIENT: &str = "client";

/// The longest encoding of a [`Certificate`].
pub const MAX_CERTIFICATE_BYTES: usize = 1
    + 8
    + 8
    + 2 * PUBLIC_KEY_BYTES
    + (4 + MAX_NAME_BYTES)
    + 4
    + MAX_ROLES * (4 + MAX_NAME_BYTES)
    + SIGNATURE_BYTES;

/// The fewest bytes of a role's encoding.
const LEAST_ROLE_BYTES: usize = 5;

/// A public key: a node's (X25519, Noise's static key) or an authority's (Ed25519).
pub type PublicKey = [u8; PUBLIC_KEY_BYTES];

/// The statement of an authority, which has signed it, to which node a key belongs.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// Drawn at random when it is signed: lists of revoked certificates name it.
    pub serial: u64,
    /// The last second in which it is valid, since 1970 began; `u64::MAX` if it does not expire.
    pub expires: u64,
    /// The node's key.
    pub key: PublicKey,
    /// The key of the authority that has signed it.
    pub authority: PublicKey,
    /// The node's name.
    pub name: String,
    /// Names of the servers that its processes may be, and [`CLIENT`]: in order, each once.
    pub roles: Vec<String>,
    /// The signature of [`Certificate::signed_bytes`].
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Certificate {
    /// Whether processes of the node may be this server, or clients.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|has| has == role)
    }

    /// The bytes that the authority signs: a context, and all of the certificate but the signature.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let mut out = Writer::onto(SIGNED_CONTEXT.to_vec());
        self.encode_signed(&mut out);
        out.finish()
    }

    fn encode_signed(&self, out: &mut Writer) {
        out.u8(CERTIFICATE_FORMAT);
        out.u64(self.serial);
        out.u64(self.expires);
        out.raw(&self.key);
        out.raw(&self.authority);
        out.bytes(self.name.as_bytes());
        out.count(self.roles.len());
        for role in &self.roles {
            out.bytes(role.as_bytes());
        }
    }
}

impl core::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Certificate")
            .field("name", &self.name)
            .field("roles", &self.roles)
            .field("serial", &format_args!("{:016x}", self.serial))
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

impl Wire for Certificate {
    fn encode(&self, out: &mut Writer) {
        self.encode_signed(out);
        out.raw(&self.signature);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let format = input.u8("certificate format")?;
        if format != CERTIFICATE_FORMAT {
            return unknown("certificate format", format);
        }
        let serial = input.u64("certificate serial")?;
        let expires = input.u64("certificate expiry")?;
        let key = input.array("certificate key")?;
        let authority = input.array("certificate authority")?;
        let name = name(input, "node name")?;
        let count = input.count(MAX_ROLES, LEAST_ROLE_BYTES, "node roles")?;
        let mut roles: Vec<String> = Vec::with_capacity(count);
        for _ in 0..count {
            roles.push(self::name(input, "node role")?);
        }
        if roles.is_empty() || !roles.is_sorted_by(|one, next| one < next) {
            return unknown("node roles", count as u64);
        }
        Ok(Self {
            serial,
            expires,
            key,
            authority,
            name,
            roles,
            signature: input.array("certificate signature")?,
        })
    }
}

fn name(input: &mut Reader<'_>, field: &'static str) -> Result<String, Malformed> {
    let bytes = input.bytes(MAX_NAME_BYTES, field)?;
    let text = utf8(bytes, field)?;
    match is_name(text) {
        true => Ok(text.to_string()),
        false => unknown(field, text.len() as u64),
    }
}

/// Whether a text can name a node, or a server: 1 to 64 letters, digits, `-`, `_` and `.`, the last not in front.
pub fn is_name(text: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !text.starts_with('.')
}

#[cfg(test)]
mod tests;
