//! The key by which a metadata server makes capabilities and I/O servers verify them. Clients never have it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use causeway_sys::secret::Secret;
use causeway_wire::fs::{Capability, MAC_BYTES, ObjectId, PROOF_BYTES, Rights};

use crate::config::Configuration;
use crate::files::{create_new, sync_name};

/// The file with a key that the metadata server has made itself, in its directory.
const FILE: &str = "capability-key";
/// The purpose for which the key is derived, so that it differs from all other keys of the same secret.
const CONTEXT: &str = "causeway 2026 capabilities of a file system";

/// Lifetime of the capabilities that a metadata server makes for itself.
const OWN_LIFETIME: Duration = Duration::from_secs(60);

/// Makes the capabilities of a metadata server's own requests.
#[derive(Clone)]
pub(crate) struct Signer {
    key: CapabilityKey,
    /// Returns a version above all that were given out, so that ends of all objects' capabilities do not affect the server's own.
    version: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer with this key, and a function that returns the version of each capability.
    pub(crate) fn new(key: CapabilityKey, version: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self { key, version }
    }

    /// A capability for the metadata server's own client, which acts for this user.
    pub(crate) fn own(&self, object: ObjectId, uid: u32, client: u128) -> Capability {
        let mut capability = Capability {
            object,
            rights: Rights::OPERATE.with(Rights::SERVE),
            uid,
            node: 0,
            client,
            version: (self.version)(),
            lifetime_ms: OWN_LIFETIME.as_millis() as u32,
            servers: u64::MAX,
            mac: [0; MAC_BYTES],
        };
        self.key.sign(&mut capability);
        capability
    }
}

/// The source of the key of a file system's servers.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// The configuration: a secret of the servers', or else the cluster's.
    Configured(Secret),
    /// A file in the metadata server's directory on the only host: without a cluster's key all
    /// servers are on this host, and run as one user.
    Made(PathBuf),
}

/// The key. `Debug` does not show it.
#[derive(Debug, Clone)]
pub(crate) struct CapabilityKey(Secret);

impl KeySource {
    /// The source that the configuration names. The error is a sentence.
    pub(crate) fn of(configuration: &Configuration) -> Result<Self, String> {
        let wrong = |error: crate::config::ConfigError| error.to_string();
        if let Some(secret) = configuration.server_key().map_err(wrong)? {
            return Ok(Self::Configured(secret));
        }
        if let Some(secret) = configuration.key().map_err(wrong)? {
            return Ok(Self::Configured(secret));
        }
        let metadata = &configuration.servers[configuration.metadata_server()];
        Ok(Self::Made(metadata.directory.join(FILE)))
    }

    /// The key, which the metadata server makes if there is none. The error is a sentence.
    pub(crate) fn make(&self, file_system: u128) -> Result<CapabilityKey, String> {
        if let Self::Made(path) = self {
            make_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.read(file_system)
    }

    /// The present key. The error is a sentence.
    pub(crate) fn read(&self, file_system: u128) -> Result<CapabilityKey, String> {
        let secret = match self {
            Self::Configured(secret) => secret.clone(),
            Self::Made(path) => Secret::of_file(path).map_err(|refused| {
                format!(
                    "{}: {refused}; the metadata server makes it when it starts, where the configuration names no \
                     `server_key_file`",
                    path.display()
                )
            })?,
        };
        Ok(CapabilityKey::derive(&secret, file_system))
    }
}

/// Makes a key file, durably, unless there is one. A file without digits, which a killed process has left, is made anew: no capability was
/// signed with it.
fn make_file(path: &Path) -> io::Result<()> {
    use std::io::Write as _;
    match std::fs::metadata(path) {
        Ok(found) if found.len() > 0 => return Ok(()),
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let digits = Secret::draw()?.digits();
    let mut file = create_new(path)?;
    // In one step: a reader finds all of it or nothing.
    file.write_all(digits.as_bytes())?;
    file.sync_all()?;
    sync_name(path)
}

impl CapabilityKey {
    /// The key of a file system's capabilities: each file system has another one, even with the same secret.
    pub(crate) fn derive(secret: &Secret, file_system: u128) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(secret.expose());
        hasher.update(&file_system.to_le_bytes());
        let mut key = *hasher.finalize().as_bytes();
        Self(Secret::take(&mut key))
    }

    /// Sets a capability's authentication code.
    pub(crate) fn sign(&self, capability: &mut Capability) {
        capability.mac = *self.code(capability).as_bytes();
    }

    /// Whether a holder of this key has made the capability. The time for this does not depend on the code.
    pub(crate) fn verifies(&self, capability: &Capability) -> bool {
        proves(self.code(capability).as_bytes(), &capability.mac)
    }

    fn code(&self, capability: &Capability) -> blake3::Hash {
        blake3::keyed_hash(self.0.expose(), &capability.signed())
    }
}

/// Whether two codes agree in the bytes that servers compare, determined in constant time.
pub(crate) fn proves(one: &[u8; MAC_BYTES], other: &[u8; MAC_BYTES]) -> bool {
    let compared = |code: &[u8; MAC_BYTES]| {
        let mut proof = [0; MAC_BYTES];
        proof[..PROOF_BYTES].copy_from_slice(&code[..PROOF_BYTES]);
        blake3::Hash::from_bytes(proof)
    };
    // `Hash` compares in constant time.
    compared(one) == compared(other)
}

const _: () = assert!(MAC_BYTES == blake3::OUT_LEN);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Changes of one field each.
    pub(crate) const CHANGES: [fn(&mut Capability); 9] = [
        |c| c.object.0 += 1,
        |c| c.rights = Rights::WRITE,
        |c| c.uid = 0,
        |c| c.node = 0,
        |c| c.client += 1,
        |c| c.version += 1,
        |c| c.lifetime_ms += 1,
        |c| c.servers = 3,
        |c| c.mac[PROOF_BYTES - 1] ^= 1,
    ];

    pub(crate) fn capability() -> Capability {
        Capability {
            object: ObjectId(9),
            rights: Rights::READ,
            uid: 1000,
            node: 1,
            client: 5,
            version: 7,
            lifetime_ms: 60_000,
            servers: 1,
            mac: [0; MAC_BYTES],
        }
    }

    #[test]
    fn a_change_of_any_field_or_of_the_key_is_noticed() {
        let secret = Secret::from([7; 32]);
        let key = CapabilityKey::derive(&secret, 1);
        let mut good = capability();
        assert!(!key.verifies(&good));
        key.sign(&mut good);
        assert!(key.verifies(&good));
        for (index, change) in CHANGES.iter().enumerate() {
            let mut other = good.clone();
            change(&mut other);
            assert!(!key.verifies(&other), "change {index}");
        }
        for other in [
            CapabilityKey::derive(&secret, 2),
            CapabilityKey::derive(&Secret::from([8; 32]), 1),
        ] {
            assert!(!other.verifies(&good));
        }
    }

    #[test]
    fn a_key_is_made_once_and_one_without_digits_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(FILE);
        let source = KeySource::Made(path.clone());
        assert!(source.read(1).is_err(), "nobody has made it");
        std::fs::write(&path, "").expect("writes");
        let mut good = capability();
        source.make(1).expect("a key").sign(&mut good);
        for again in [source.make(1), source.read(1)] {
            assert!(again.expect("the same key").verifies(&good));
        }
    }
}
