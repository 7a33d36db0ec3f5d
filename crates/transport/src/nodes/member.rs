//! A node as its own processes know it: its certificate, and the private key that belongs to that.

use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use causeway_sys::secret::Secret;
use causeway_sys::trusted_file::{self, Refused, Use};
use causeway_wire::node::files::{MAX_KEY_FILE_BYTES, MAX_REVOKED_BYTES, NodeFile, Revoked};
use causeway_wire::node::{Certificate, PublicKey};
use snow::params::DHChoice;
use snow::resolvers::{CryptoResolver as _, DefaultResolver};
use zeroize::Zeroizing;

/// A node with its key.
#[derive(Debug, Clone)]
pub struct Member {
    certificate: Arc<Certificate>,
    key: Secret,
}

/// The public key that belongs to a private one; `None` if the library does not have this kind of key, which never
/// happens.
pub fn public_key(key: &Secret) -> Option<PublicKey> {
    let mut pair = DefaultResolver.resolve_dh(&DHChoice::Curve25519)?;
    pair.set(key.expose());
    pair.pubkey().try_into().ok()
}

impl Member {
    /// The node that this certificate is for, if this is its private key.
    pub fn new(certificate: Certificate, key: Secret) -> Option<Self> {
        (public_key(&key)? == certificate.key).then(|| Self {
            certificate: Arc::new(certificate),
            key,
        })
    }

    /// Reads a node's file.
    pub fn of_file(path: &Path) -> Result<Self, Refused> {
        let text = read_text(path, Use::Key, MAX_KEY_FILE_BYTES)?;
        let file = NodeFile::parse(&text).map_err(|e| Refused::Distrusted(e.to_string()))?;
        let key = Secret::of_digits(file.key);
        let member = key.and_then(|key| Self::new(file.certificate, key));
        member.ok_or_else(|| {
            Refused::Distrusted("its key is not the one that its certificate is for".to_owned())
        })
    }

    /// The text of its file.
    pub fn to_text(&self) -> Zeroizing<String> {
        with_key(&NodeFile::head(&self.certificate), &self.key)
    }

    /// The certificate, which other nodes are shown.
    pub fn certificate(&self) -> &Arc<Certificate> {
        &self.certificate
    }

    /// A node that lies: with this key, and another certificate.
    #[cfg(test)]
    pub(super) fn showing(&self, certificate: Certificate) -> Self {
        Self {
            certificate: Arc::new(certificate),
            key: self.key.clone(),
        }
    }

    pub(super) fn key(&self) -> &Secret {
        &self.key
    }
}

/// A file's text that ends with a key.
pub(super) fn with_key(head: &str, key: &Secret) -> Zeroizing<String> {
    let digits = key.digits();
    // Allocated with its full size: growing would leave copies of the key behind in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(head.len() + digits.len() + 1));
    text.push_str(head);
    text.push_str(&digits);
    text.push('\n');
    text
}

/// Reads a list of revoked certificates.
pub fn read_revoked(path: &Path) -> Result<Revoked, Refused> {
    let text = read_text(path, Use::Configuration, MAX_REVOKED_BYTES)?;
    Revoked::parse(&text).map_err(|e| Refused::Distrusted(e.to_string()))
}

/// Reads a file that has to be trusted, of at most `most` bytes.
pub fn read_text(path: &Path, used: Use, most: usize) -> Result<Zeroizing<String>, Refused> {
    let file = trusted_file::open(path, used)?;
    let len = file.metadata().map_err(Refused::Unreadable)?.len();
    let too_long = || Refused::Distrusted(format!("it is longer than {most} bytes"));
    let len = usize::try_from(len).map_err(|_| too_long())?;
    if len > most {
        return Err(too_long());
    }
    let mut text = Zeroizing::new(String::with_capacity(len + 1));
    let read = file.take(most as u64 + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Refused::Distrusted("it is not text".to_owned()),
        _ => Refused::Unreadable(error),
    })?;
    match text.len() > most {
        true => Err(too_long()),
        false => Ok(text),
    }
}
