//! Which node is at the other end of a connection: each node has a key of its own, and a certificate that an authority has signed.
//!
//! Reading order: `causeway_wire::node` (what is signed); [`authority`] (which signs); [`member`] (a node, with its key); this
//! file: what a process knows of nodes ([`Membership`]), and the handle by which that is replaced while the process runs
//! ([`Nodes`]); `exchange` (how two sides prove to each other which nodes they are). `tcp` and `shm` run the exchange while they
//! connect; [`Method::node`](crate::Method::node) returns the result.
//!
//! A process that has [`Nodes`] communicates only with processes that prove their node, and never falls back to the cluster's key alone. It
//! needs that key as well, so that processes without it cannot make it compute key exchanges.
//!
//! Addresses may be pinned to roles ([`Membership::pin`]): before anything is sent to a process that replies at such an address, it has to
//! prove that it is a node with that role.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_sys::wall_clock::seconds_since_1970 as now;
pub use causeway_wire::node::{CLIENT, Certificate, PublicKey, files, is_name};
use causeway_wire::tcp::Refusal;

use crate::address::Address;
use crate::error::{Error, PeerError};
use crate::resolve;
use crate::shm::paths;

pub mod authority;
pub(crate) mod handshake;
pub mod member;

pub use authority::{Authority, fingerprint};
pub use member::Member;

/// Most authorities that are accepted at one time.
pub const MAX_AUTHORITIES: usize = 4;

/// Why a certificate is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It names, as its signer, an authority that is not accepted.
    UnknownAuthority,
    /// The authority that it names has not signed it, or it is the certificate of another key.
    Forged,
    /// It has expired.
    Expired,
    /// It is in the list of revoked certificates.
    Revoked,
    /// It does not have the required role.
    WrongRole,
}

/// A certificate that is not accepted, and why. The text describes the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub fault: Fault,
    text: String,
}

impl Rejected {
    fn new(fault: Fault, certificate: &Certificate, why: &str) -> Self {
        let Certificate { name, serial, .. } = certificate;
        Self {
            fault,
            text: format!("its certificate, {serial:016x} of node {name}, {why}"),
        }
    }

    pub(crate) fn refusal(&self) -> Refusal {
        match self.fault {
            Fault::UnknownAuthority => Refusal::UnknownAuthority,
            Fault::Forged => Refusal::Forged,
            Fault::Expired => Refusal::Expired,
            Fault::Revoked => Refusal::Revoked,
            Fault::WrongRole => Refusal::WrongRole,
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Rejected {}

/// What a process knows of nodes at one time: its own certificate, the accepted authorities,
/// revoked certificates, and the roles of addresses.
#[derive(Debug)]
pub struct Membership {
    member: Member,
    authorities: Vec<PublicKey>,
    revoked: HashSet<u64>,
    /// The role of the process at an address, by [`canonical`] of the address.
    pinned: HashMap<Address, String>,
}

impl Membership {
    /// The knowledge of a node that accepts certificates of these authorities, except those whose serials are in the list. Fails if
    /// the node's own certificate would not be accepted.
    pub fn new(
        member: Member,
        authorities: Vec<PublicKey>,
        revoked: &files::Revoked,
    ) -> Result<Self, Rejected> {
        let this = Self {
            member,
            authorities,
            revoked: revoked.entries.iter().map(|(serial, _)| *serial).collect(),
            pinned: HashMap::new(),
        };
        this.check(this.member.certificate(), now())?;
        Ok(this)
    }

    /// Requires that the process which replies at this address is a node with this role. Once any address is pinned, addresses that are
    /// not pinned are not called. Fails for an address that is pinned to another role.
    pub fn pin(&mut self, address: &str, role: &str) -> Result<(), Error> {
        let place = canonical(&address.parse()?)?;
        let pinned = self.pinned.entry(place);
        match *pinned.or_insert_with(|| role.to_owned()) == *role {
            true => Ok(()),
            false => Err(Error::BadAddress {
                address: address.to_owned(),
                reason: "a process with another role is to reply there",
            }),
        }
    }

    /// The role that the node at this address must have, if one is required. Fails if this address must not be called.
    pub fn role_at(&self, address: &Address) -> Result<Option<&str>, PeerError> {
        if self.pinned.is_empty() {
            return Ok(None);
        }
        let place = canonical(address).ok();
        match place.and_then(|place| self.pinned.get(&place)) {
            Some(role) => Ok(Some(role)),
            None => Err(PeerError::Unauthorised(format!(
                "the role of the node at {address} is not known, and this process only calls addresses whose roles it knows: write the \
                 address as the configuration does"
            ))),
        }
    }

    /// Whether a process of this node may listen at `address`; network addresses are numeric here. An address that is not pinned belongs to no role,
    /// and is not called while others are pinned. An address that is pinned by its host's name is distinct from its numeric form: a call of one
    /// never goes to the other.
    pub(crate) fn may_be_at(&self, node: Option<&Certificate>, address: &Address) -> bool {
        let Ok(place) = canonical(address) else {
            return self.pinned.is_empty();
        };
        let role = self.pinned.get(&place);
        role.is_none_or(|role| node.is_some_and(|node| node.has_role(role)))
    }

    /// Continues to reject the certificates that were revoked according to `former`: a revocation is final, and a list that has become shorter
    /// was truncated, or is an old one. Returns how many of those certificates this list lacks. Fails if the node's own certificate is among
    /// them.
    pub fn keep_revoked(&mut self, former: &Self) -> Result<usize, Rejected> {
        let listed = self.revoked.len();
        self.revoked.extend(&former.revoked);
        self.check(self.member.certificate(), now())?;
        Ok(self.revoked.len() - listed)
    }

    /// The process's own node.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Whether a certificate is accepted at the time `now`, in seconds since 1970. Which key it
    /// certifies is not checked.
    fn check(&self, certificate: &Certificate, now: u64) -> Result<(), Rejected> {
        self.check_authority(certificate)?;
        if !authority::has_signed(certificate) {
            let why = "is not as its authority has signed it";
            return Err(Rejected::new(Fault::Forged, certificate, why));
        }
        self.check_end(certificate, now)
    }

    fn check_authority(&self, certificate: &Certificate) -> Result<(), Rejected> {
        if self.authorities.contains(&certificate.authority) {
            return Ok(());
        }
        let why = format!(
            "is signed by authority {}, which is not accepted",
            fingerprint(&certificate.authority)
        );
        Err(Rejected::new(Fault::UnknownAuthority, certificate, &why))
    }

    fn check_end(&self, certificate: &Certificate, now: u64) -> Result<(), Rejected> {
        let reject = |fault, why: &str| Err(Rejected::new(fault, certificate, why));
        if self.revoked.contains(&certificate.serial) {
            return reject(Fault::Revoked, "was revoked");
        }
        if certificate.expires < now {
            return reject(Fault::Expired, "has expired");
        }
        Ok(())
    }

    /// Whether a node that was admitted before is still accepted. The signature of its certificate
    /// was verified then.
    pub(crate) fn still_admits(&self, certificate: &Certificate) -> Result<(), Rejected> {
        self.check_authority(certificate)?;
        self.check_end(certificate, now())
    }

    /// Whether a peer that has proven that it holds `key`, and has shown this certificate, is the certified node, and has the required
    /// role.
    pub(crate) fn admit(
        &self,
        certificate: &Certificate,
        key: &[u8],
        role: Option<&str>,
    ) -> Result<(), Rejected> {
        if certificate.key != key {
            let why = "is that of another key";
            return Err(Rejected::new(Fault::Forged, certificate, why));
        }
        self.check(certificate, now())?;
        match role {
            Some(role) if !certificate.has_role(role) => {
                let why = format!(
                    "has the roles {}, and not {role}",
                    certificate.roles.join(", ")
                );
                Err(Rejected::new(Fault::WrongRole, certificate, &why))
            }
            _ => Ok(()),
        }
    }
}

/// What a process knows of nodes, which can be replaced while the process runs. Clones share their
/// state.
#[derive(Clone)]
pub struct Nodes(Arc<Shared>);

struct Shared {
    current: Mutex<Arc<Membership>>,
    /// Counts changes, so that methods notice one without a lock.
    version: AtomicU64,
}

impl Nodes {
    /// A handle to this knowledge.
    pub fn new(membership: Membership) -> Self {
        Self(Arc::new(Shared {
            current: Mutex::new(Arc::new(membership)),
            version: AtomicU64::new(1),
        }))
    }

    /// What is known now.
    pub fn current(&self) -> Arc<Membership> {
        let current = self.0.current.lock();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces what was known. In its next poll, each method ends the connections with nodes that are no longer accepted; if the process may
    /// be asleep, the caller has to wake it for that. New connections are made with the new certificate and key.
    pub fn replace(&self, membership: Membership) {
        let membership = Arc::new(membership);
        *self
            .0
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = membership;
        self.0.version.fetch_add(1, Ordering::Release);
    }

    fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }
}

/// A canonical form of an address, the same for all ways in which the address can be written.
fn canonical(address: &Address) -> Result<Address, Error> {
    match address.scheme() {
        paths::SCHEME => paths::canonical(address),
        resolve::TCP => resolve::canonical(address),
        _ => Ok(address.clone()),
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.current().fmt(f)
    }
}

/// Which version of [`Nodes`] a method has seen.
#[derive(Debug, Default)]
pub(crate) struct NodesVersion(u64);

impl NodesVersion {
    /// What is known now, if it has changed since the last call.
    #[inline]
    pub(crate) fn changed(&mut self, nodes: Option<&Nodes>) -> Option<Arc<Membership>> {
        let nodes = nodes?;
        let version = nodes.version();
        if version == self.0 {
            return None;
        }
        self.0 = version;
        Some(nodes.current())
    }
}

#[cfg(test)]
pub(crate) mod tests;
