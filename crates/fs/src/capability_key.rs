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
/// What the key is derived for, so that it is no other key of the same secret.
const CONTEXT: &str = "causeway 2026 capabilities of a file system";

/// How long what a metadata server makes for itself is good.
const OWN_LIFETIME: Duration = Duration::from_secs(60);

/// With what a metadata server makes the capabilities of its own requests.
#[derive(Clone)]
pub(crate) struct Signer {
    key: CapabilityKey,
    /// Above all versions that were given out, so that what I/O servers end for all objects leaves it alone.
    version: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    /// With the key, and what makes a version for each.
    pub(crate) fn new(key: CapabilityKey, version: Arc<dyn Fn() -> u64 + Send + Sync>) -> Self {
        Self { key, version }
    }

    /// What the metadata server's own client shows, which acts for this user.
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

/// Where a file system's servers have the key from.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// The configuration: a key of the servers', or else the cluster's.
    Configured(Secret),
    /// A file in the metadata server's directory, on the only host that there is: without a cluster's key all
    /// servers are on this one, and of one user.
    Made(PathBuf),
}

/// The key. `Debug` does not show it.
#[derive(Debug, Clone)]
pub(crate) struct CapabilityKey(Secret);

impl KeySource {
    /// What the configuration says. The error is a sentence.
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

    /// The key, which the metadata server makes where there is none. The error is a sentence.
    pub(crate) fn make(&self, file_system: u128) -> Result<CapabilityKey, String> {
        if let Self::Made(path) = self {
            make_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        self.read(file_system)
    }

    /// The key as it is now. The error is a sentence.
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

/// Makes a key file, durably, unless there is one. One that a kill has left without digits is made anew: nothing was ever
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
    /// The key of a file system's capabilities: another one for each, whatever they share.
    pub(crate) fn derive(secret: &Secret, file_system: u128) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        hasher.update(secret.expose());
        hasher.update(&file_system.to_le_bytes());
        let mut key = *hasher.finalize().as_bytes();
        Self(Secret::take(&mut key))
    }

    /// Makes a capability's authentication code what it must be.
    pub(crate) fn sign(&self, capability: &mut Capability) {
        capability.mac = *self.code(capability).as_bytes();
    }

    /// Whether a holder of this key has made the capability. How long that takes does not depend on the code.
    pub(crate) fn verifies(&self, capability: &Capability) -> bool {
        proves(self.code(capability).as_bytes(), &capability.mac)
    }

    fn code(&self, capability: &Capability) -> blake3::Hash {
        blake3::keyed_hash(self.0.expose(), &capability.signed())
    }
}

/// Whether two codes agree in the bytes that servers compare, found out in constant time.
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
