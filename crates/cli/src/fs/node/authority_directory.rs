//! The directory of the cluster's authority: its key, and the register of signed certificates.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use causeway_bmi::nodes::files::{MAX_LISTED, MAX_REGISTER_BYTES, Register};
use causeway_bmi::nodes::{Authority, Certificate, PublicKey, member};
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_sys::trusted_file::Use;
use rustix::fs::{FlockOperation, flock};

use crate::fs::new_file::{replace, write_new};

const KEY: &str = "key";
const REGISTER: &str = "nodes";

/// The directory of an authority, which no other command changes as long as this exists.
pub(in crate::fs) struct AuthorityDirectory {
    directory: PathBuf,
    authority: Authority,
    register: Register,
    _lock: File,
}

impl AuthorityDirectory {
    /// Stores a new authority in a directory that must not exist yet.
    pub(in crate::fs) fn create(directory: &Path, authority: &Authority) -> Outcome {
        let doing = || format!("making the authority's directory {}", directory.display());
        let mut builder = std::fs::DirBuilder::new();
        builder.mode(0o700).create(directory).map_err(|error| {
            let failure = Failure::new(doing(), &error);
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => failure.hint(
                    "an authority is not replaced: the nodes that it has added would be lost; --authority names another directory",
                ),
                _ => failure,
            }
        })?;
        let register = Register::default().to_text();
        write_new(&directory.join(REGISTER), register.as_bytes(), 0o600)?;
        write_new(&directory.join(KEY), authority.to_text().as_bytes(), 0o600)
    }

    /// Opens an authority's directory, and locks it against changes by others.
    pub(in crate::fs) fn open(directory: &Path) -> Outcome<Self> {
        const WHERE: &str = "nodes are added and revoked where `causeway fs init --nodes` has made the authority; --authority names its directory";
        let doing = || format!("opening the authority's directory {}", directory.display());
        let lock = File::open(directory).map_err(|e| Failure::new(doing(), e).hint(WHERE))?;
        flock(&lock, FlockOperation::LockExclusive)
            .map_err(|error| Failure::new(doing(), error))?;
        let path = directory.join(KEY);
        let authority = Authority::of_file(&path).map_err(|refused| {
            let what = format!("reading the authority's key {}", path.display());
            Failure::new(what, &refused)
        })?;
        let path = directory.join(REGISTER);
        let text =
            member::read_text(&path, Use::Key, MAX_REGISTER_BYTES).map_err(|e| e.to_string());
        let register = text.and_then(|text| Register::parse(&text).map_err(|e| e.to_string()));
        let register = register.map_err(|why| {
            Failure::new(
                format!("reading the register of nodes {}", path.display()),
                why,
            )
        })?;
        Ok(Self {
            directory: directory.to_owned(),
            authority,
            register,
            _lock: lock,
        })
    }

    /// All certificates that were signed, the newest last.
    pub(in crate::fs) fn certificates(&self) -> &[Certificate] {
        &self.register.certificates
    }

    /// The authority's public key.
    pub(in crate::fs) fn public_key(&self) -> PublicKey {
        self.authority.public_key()
    }

    /// Signs a certificate. The register is written first, so that the certificate can be revoked
    /// whatever happens.
    pub(in crate::fs) fn sign(
        &mut self,
        key: PublicKey,
        name: &str,
        roles: &[String],
        expires: u64,
    ) -> Outcome<Certificate> {
        if self.register.certificates.len() >= MAX_LISTED {
            let what = format!("signing the certificate of {name}");
            let why = format!(
                "the register of nodes has {MAX_LISTED} certificates, the most that it may have"
            );
            return Err(Failure::new(what, why));
        }
        let signed = self.authority.sign(key, name, roles, expires);
        let certificate = signed.doing(|| format!("signing the certificate of {name}"))?;
        self.register.certificates.push(certificate.clone());
        let text = self.register.to_text();
        replace(&self.directory.join(REGISTER), text.as_bytes(), 0o600)?;
        Ok(certificate)
    }

    /// Replaces the authority's key. The former one is deleted.
    pub(in crate::fs) fn rotate(&mut self) -> Outcome {
        let authority = Authority::draw().doing(|| "making a random key".to_owned())?;
        replace(
            &self.directory.join(KEY),
            authority.to_text().as_bytes(),
            0o600,
        )?;
        self.authority = authority;
        Ok(())
    }
}
