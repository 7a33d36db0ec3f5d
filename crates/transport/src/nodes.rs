//! Which node is at the other end of a connection: each node has a key of its own, and a certificate that an authority has signed.
//!
//! Reading order: `causeway_wire::node` (what is signed); [`authority`] (who signs); [`member`] (a node, with its key); this file:
//! what a process knows of nodes ([`Membership`]), and the handle under which that changes while it runs ([`Nodes`]);
//! `exchange` (how two sides prove to each other which nodes they are). `tcp` and `shm` do that while they connect;
//! [`Method::node`](crate::Method::node) tells the outcome.
//!
//! A process that has [`Nodes`] talks to processes that prove their node, and to no others: nothing falls back to the cluster's key alone. It
//! needs that key, too: without it, strangers cause no key exchange.
//!
//! Addresses may be pinned to roles ([`Membership::pin`]): what replies there has to be a node with that role, before anything is sent to it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_sys::calendar::seconds_since_1970 as now;
pub use causeway_wire::node::{CLIENT, Certificate, PublicKey, files, is_name};
use causeway_wire::tcp::Refusal;

use crate::address::Address;
use crate::error::{Error, PeerError};
use crate::resolve;
use crate::shm::paths;

pub mod authority;
pub(crate) mod exchange;
pub mod member;

pub use authority::{Authority, fingerprint};
pub use member::Member;

/// Most authorities that are accepted at one time.
pub const MAX_AUTHORITIES: usize = 4;

/// Why a certificate counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An authority that is not accepted has signed it, or so it says.
    UnknownAuthority,
    /// The authority has not signed this, or it is the certificate of another key.
    Forged,
    /// Its time is over.
    Expired,
    /// It is in the list of those that were revoked.
    Revoked,
    /// It does not have the role that is asked for.
    WrongRole,
}

/// A certificate that counts for nothing, and why. The text is about the other side.
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

/// What a process knows of nodes at one time.
#[derive(Debug)]
pub struct Membership {
    member: Member,
    authorities: Vec<PublicKey>,
    revoked: HashSet<u64>,
    /// By [`one_spelling`] of the address: the role of the process there.
    pinned: HashMap<Address, String>,
}

impl Membership {
    /// Of a node that accepts certificates of these authorities, but for those whose serials are in the list. Fails if the node's own
    /// certificate would not be accepted.
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

    /// Only a node with this role may reply at this address. Once an address is pinned, no others are called. Fails for one that is pinned
    /// to another role.
    pub fn pin(&mut self, address: &str, role: &str) -> Result<(), Error> {
        let place = one_spelling(&address.parse()?)?;
        let pinned = self.pinned.entry(place);
        match *pinned.or_insert_with(|| role.to_owned()) == *role {
            true => Ok(()),
            false => Err(Error::BadAddress {
                address: address.to_owned(),
                reason: "a process with another role is to reply there",
            }),
        }
    }

    /// The role that a node has to have that replies at this address, if any is asked for. Fails if this address is not to be called.
    pub fn role_at(&self, address: &Address) -> Result<Option<&str>, PeerError> {
        if self.pinned.is_empty() {
            return Ok(None);
        }
        let place = one_spelling(address).ok();
        match place.and_then(|place| self.pinned.get(&place)) {
            Some(role) => Ok(Some(role)),
            None => Err(PeerError::Unauthorised(format!(
                "no role is known of what replies at {address}, and only addresses of which one is known are called: write it as the \
                 configuration does"
            ))),
        }
    }

    /// Whether a node may be the process that listens at `address`, which is a number where it is one of a network. Addresses that are not
    /// pinned belong to no role: they are not called. An address that is pinned by its host's name is another one than its number, and calls for the
    /// one never go to the other.
    pub(crate) fn may_be_at(&self, node: Option<&Certificate>, address: &Address) -> bool {
        let Ok(place) = one_spelling(address) else {
            return self.pinned.is_empty();
        };
        let role = self.pinned.get(&place);
        role.is_none_or(|role| node.is_some_and(|node| node.has_role(role)))
    }

    /// Goes on to reject certificates that were revoked according to `former`: that has no end, and a list that has become shorter was cut, or
    /// is an old one. Returns how many of them this list lacks. Fails if the node's own certificate is among them.
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

    /// Whether a certificate counts at this time, in seconds since 1970. The key is not looked at.
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

    /// Whether a node that was admitted before still counts. Its signature was verified then.
    pub(crate) fn still_admits(&self, certificate: &Certificate) -> Result<(), Rejected> {
        self.check_authority(certificate)?;
        self.check_end(certificate, now())
    }

    /// Whether the side that has proven to hold `key`, and has shown this certificate, is that node, and has the role that is asked for.
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

/// What a process knows of nodes, and may come to know while it runs. Clones are the same.
#[derive(Clone)]
pub struct Nodes(Arc<Shared>);

struct Shared {
    current: Mutex<Arc<Membership>>,
    /// Counts changes, so that methods notice one without a lock.
    version: AtomicU64,
}

impl Nodes {
    /// Begins with this.
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

    /// Takes the place of what was known. With its next poll each method ends connections with nodes that do not count any more; a process that
    /// may sleep has to be woken for that. New connections are made with the new certificate and key.
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

/// The same for all ways in which an address can be written.
fn one_spelling(address: &Address) -> Result<Address, Error> {
    match address.scheme() {
        paths::SCHEME => paths::one_spelling(address),
        resolve::TCP => resolve::one_spelling(address),
        _ => Ok(address.clone()),
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.current().fmt(f)
    }
}

/// Which version of [`Nodes`] a method has looked at.
#[derive(Debug, Default)]
pub(crate) struct Seen(u64);

impl Seen {
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
