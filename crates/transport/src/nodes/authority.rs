//! The cluster's authority: it signs the certificates of nodes. Its key is needed where nodes are added, and nowhere else.

use std::io;
use std::path::Path;

use causeway_sys::random;
use causeway_sys::secret::Secret;
use causeway_sys::trusted_file::{Refused, Use};
use causeway_wire::node::files::{AuthorityFile, MAX_KEY_FILE_BYTES, hex};
use causeway_wire::node::{Certificate, PublicKey, SIGNATURE_BYTES};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::member::{read_text, with_key};

/// The key that signs. While it signs, the library for signatures makes copies of the key in memory, which it
/// does not overwrite.
#[derive(Debug)]
pub struct Authority {
    seed: Secret,
    public: PublicKey,
}

impl Authority {
    /// A new authority, whose key is drawn at random.
    pub fn draw() -> io::Result<Self> {
        Self::of_seed(Secret::draw()?).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// The authority whose key has this seed. `None` never happens: every 32 bytes are a valid
    /// seed.
    fn of_seed(seed: Secret) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose()).ok()?;
        let public = pair.public_key().as_ref().try_into().ok()?;
        Some(Self { seed, public })
    }

    /// Reads an authority's file.
    pub fn of_file(path: &Path) -> Result<Self, Refused> {
        let text = read_text(path, Use::Key, MAX_KEY_FILE_BYTES)?;
        let file = AuthorityFile::parse(&text).map_err(|e| Refused::Distrusted(e.to_string()))?;
        let authority = Secret::of_digits(file.key).and_then(Self::of_seed);
        authority.ok_or_else(|| Refused::Distrusted("its key is none".to_owned()))
    }

    /// The text of its file.
    pub fn to_text(&self) -> Zeroizing<String> {
        with_key(&AuthorityFile::head(), &self.seed)
    }

    /// Its public key, which configurations list.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs a certificate with a new serial. `name` and `roles` must be names ([`super::is_name`]), and there must be at least one role and
    /// at most [`causeway_wire::node::MAX_ROLES`].
    pub fn sign(
        &self,
        key: PublicKey,
        name: &str,
        roles: &[String],
        expires: u64,
    ) -> io::Result<Certificate> {
        let mut roles = roles.to_vec();
        roles.sort();
        roles.dedup();
        let mut certificate = Certificate {
            serial: u64::from_le_bytes(random::bytes()?),
            expires,
            key,
            authority: self.public,
            name: name.to_owned(),
            roles,
            signature: [0; SIGNATURE_BYTES],
        };
        let pair = Ed25519KeyPair::from_seed_unchecked(self.seed.expose())
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        let signature = pair.sign(&certificate.signed_bytes());
        certificate.signature.copy_from_slice(signature.as_ref());
        Ok(certificate)
    }
}

/// Whether the authority that a certificate names has signed it.
pub(super) fn has_signed(certificate: &Certificate) -> bool {
    let Certificate {
        authority,
        signature,
        ..
    } = certificate;
    let public = UnparsedPublicKey::new(&ED25519, authority);
    public
        .verify(&certificate.signed_bytes(), signature)
        .is_ok()
}

/// The name of a public key in texts for people: its first digits.
pub fn fingerprint(key: &PublicKey) -> String {
    hex(&key[..6])
}
