//! Capabilities at a server: the metadata server makes them, I/O servers verify them at every request about datafiles.
//!
//! The parts of a capability are checked in the order in which they can be trusted: first the authentication code, which proves its origin, then
//! its object, rights and holder, then its age (`docs/security.md`, Capabilities).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_bmi::nodes::Certificate;
use causeway_wire::fs::{
    Body, Caller, Capability, Errno, Failure, MAC_BYTES, NOBODY, Node, ObjectId, Request, Rights,
};

use super::callers::is_operator;
use super::ended::Ended;
use super::given::{Given, Permissions};
use super::verified::Verified;
use super::versions::{self, Versions};
use crate::capability_key::{CapabilityKey, KeySource, Signer};
use crate::clock::{micros, micros_since_1970};
use crate::config::{CapabilityRule, Configuration};
use crate::error::failure;
use crate::permissions;

/// The capabilities' key, the versions that were given out, and the capabilities that have ended.
pub(super) struct Access {
    file_system: u128,
    rule: CapabilityRule,
    lifetime: Duration,
    source: KeySource,
    /// `None` until the key could be read.
    key: Option<CapabilityKey>,
    versions: Versions,
    /// The highest version that a capability was found to have.
    newest_seen: u64,
    given: Given,
    ended: Ended,
    /// The capabilities that were verified lately.
    verified: Verified,
    /// Requests that were refused since the start because a right was missing or forged. Capabilities that have ended do not
    /// count: clients renew them all the time.
    pub(super) refused: u64,
    /// The part of `refused` that was published to observers already.
    pub(super) shown_refused: u64,
    /// The capability that goes with the reply that is being made.
    pub(super) granted: Option<Capability>,
}

/// The client to which a capability is given.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    /// The user, after root of other hosts was mapped to nobody.
    pub(super) caller: &'a Caller,
    pub(super) client: u128,
    /// The number of the user's node ([`node_number`]).
    pub(super) node: u64,
}

/// Where and when a client presents a capability.
#[derive(Clone, Copy)]
pub(super) struct Shown {
    /// The number of the node that presents it ([`node_number`]).
    pub(super) node: u64,
    /// Whether the connection may act for a fixed set of users only.
    pub(super) is_held: bool,
    /// The number of this server.
    pub(super) server: Option<u16>,
    pub(super) at: Instant,
}

/// The number by which capabilities name a node that has proven its identity; 0 if nodes do not prove theirs. It stays the same when the node gets
/// a new certificate.
pub(super) fn node_number(node: Option<&Certificate>) -> u64 {
    let Some(node) = node else { return 0 };
    let mut number = [0; 8];
    let digest = blake3::hash(node.name.as_bytes());
    number.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(number).max(1)
}

/// For how long the end of a capability must be remembered: servers whose clocks are behind accept it before the time of its version, and
/// all servers until its lifetime is over.
pub(super) fn kept(lifetime: Duration) -> Duration {
    lifetime + versions::tolerance(lifetime)
}

impl Access {
    /// The state of a server that starts. A metadata server passes its directory, in which the key is made if there is none.
    pub(super) fn new(
        configuration: &Configuration,
        metadata: Option<&Path>,
    ) -> Result<Self, String> {
        let source = KeySource::of(configuration)?;
        let (rules, now) = (&configuration.access, Instant::now());
        let lifetime = rules.capability_lifetime;
        let (key, versions) = match metadata {
            Some(directory) => (
                Some(source.make(configuration.id)?),
                Versions::open(directory, lifetime),
            ),
            None => (source.read(configuration.id).ok(), Versions::none()),
        };
        let kept = kept(lifetime);
        Ok(Self {
            file_system: configuration.id,
            rule: rules.capabilities,
            lifetime,
            source,
            key,
            versions,
            newest_seen: 0,
            given: Given::new(kept, now),
            ended: Ended::new(kept, micros_since_1970(), now),
            verified: Verified::default(),
            refused: 0,
            shown_refused: 0,
            granted: None,
        })
    }

    /// The signer of the metadata server's own requests.
    pub(super) fn signer(&self) -> Option<Signer> {
        let (key, versions) = (self.key.clone()?, self.versions.clone());
        let version = move || versions.own(micros_since_1970());
        Some(Signer::new(key, Arc::new(version)))
    }

    /// The versions of the capabilities that are given out.
    pub(super) fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Whether this server checks the capabilities that come with requests.
    pub(super) fn is_checking(&self) -> bool {
        self.rule != CapabilityRule::Off
    }

    /// Has the key read again before its next use: the server may belong to other metadata now.
    pub(super) fn forget_key(&mut self) {
        self.key = None;
        self.verified.forget();
    }

    /// Gives a client's user a capability for the accesses that the file's mode permits, if the file has datafiles or is about to get some.
    pub(super) fn grant(&mut self, node: &Node, holder: Holder<'_>) -> Option<Capability> {
        let distribution = distribution_of(node)?;
        let permitted = permissions::of_handle(node, holder.caller);
        let mut rights = Rights::NONE;
        for (permission, right) in [
            (permissions::READ, Rights::READ),
            (permissions::WRITE, Rights::WRITE),
        ] {
            if permitted & permission != 0 {
                rights = rights.with(right);
            }
        }
        let bits = distribution.servers.iter().copied();
        let servers = bits.fold(0, |all, number| all | Capability::server_bit(number));
        self.given
            .note(node.object, Permissions::of(node), Instant::now());
        self.make(node.object, rights, holder, servers)
    }

    /// Gives an operator the right to check and remove all datafiles.
    pub(super) fn authorize(&mut self, holder: Holder<'_>) -> Option<Capability> {
        self.make(ObjectId(0), Rights::OPERATE, holder, u64::MAX)
    }

    fn make(
        &mut self,
        object: ObjectId,
        rights: Rights,
        holder: Holder<'_>,
        servers: u64,
    ) -> Option<Capability> {
        let is_on = self.rule != CapabilityRule::Off;
        let key = self.key.as_ref().filter(|_| is_on)?;
        let version = self.versions.current(micros_since_1970());
        let mut capability = Capability {
            object,
            rights,
            uid: holder.caller.uid,
            node: holder.node,
            client: holder.client,
            version,
            lifetime_ms: lifetime_ms(self.lifetime),
            servers,
            mac: [0; MAC_BYTES],
        };
        key.sign(&mut capability);
        Some(capability)
    }

    /// Notes that the permissions of an object have become those of `node`. Returns the version up to which its capabilities must end, if one that is
    /// still good may permit more than they do.
    pub(super) fn end_given(&mut self, node: &Node) -> Option<u64> {
        let (object, now) = (node.object, Instant::now());
        if self.rule == CapabilityRule::Off
            || !self.given.may_exceed(object, Permissions::of(node), now)
        {
            return None;
        }
        self.given.ended(object);
        Some(self.versions.end(micros_since_1970()))
    }

    /// Notes that objects' capabilities have ended up to a version each.
    pub(super) fn end(&mut self, ended: impl Iterator<Item = (ObjectId, u64)>) {
        let newest = self.newest_seen.max(micros_since_1970());
        let now = Instant::now();
        for (object, version) in ended {
            let newest = match version {
                // The object was removed.
                u64::MAX => newest,
                version => newest.max(version),
            };
            self.ended.end(object, version, newest, now);
            self.verified.forget();
        }
    }

    /// Whether the object's capabilities of this version have ended.
    pub(super) fn has_ended(&self, object: ObjectId, version: u64) -> bool {
        self.ended.has_ended(object, version)
    }

    /// Refuses a request whose capability does not prove that its holder has these rights to an object.
    pub(super) fn check(
        &mut self,
        request: &Request,
        capability: Option<&Capability>,
        needed: (ObjectId, Rights),
        shown: Shown,
    ) -> Result<(), Failure> {
        let Some(capability) = capability else {
            return match self.rule {
                CapabilityRule::Optional | CapabilityRule::Off if !shown.is_held => Ok(()),
                _ => Err(refused(
                    "the request comes without a capability of the metadata server, as those of earlier builds do, and where the \
                     metadata server has `capabilities = \"off\"`: upgrade the client and the metadata server, or have `capabilities = \"optional\"` in the configuration until then"
                        .to_owned(),
                )),
            };
        };
        if self.verified.has(capability, shown.at) {
            return check_scope(capability, request, needed, shown).map_err(refused);
        }
        self.check_origin(capability)?;
        check_scope(capability, request, needed, shown).map_err(refused)?;
        let left = self.check_age(capability, micros_since_1970())?;
        self.newest_seen = self.newest_seen.max(capability.version);
        self.verified.note(capability, shown.at, left);
        Ok(())
    }

    fn check_origin(&mut self, capability: &Capability) -> Result<(), Failure> {
        if self.key.is_none() {
            let read = self.source.read(self.file_system);
            let key = read
                .map_err(|why| refused(format!("the key of capabilities cannot be read: {why}")))?;
            self.key = Some(key);
        }
        match self
            .key
            .as_ref()
            .is_some_and(|key| key.verifies(capability))
        {
            true => Ok(()),
            false => {
                self.refused += 1;
                // The error is that of a capability that has ended, so that a client that has it from before a change of the key requests another.
                Err(failure(
                    Errno::CAPABILITY_ENDED,
                    "the capability was not made with this server's key, or for another object, user or client: if new ones are \
                     refused, too, give all servers the same key (`server_key_file`) and start them again",
                ))
            }
        }
    }

    /// Returns for how much longer a capability is good.
    fn check_age(&self, capability: &Capability, now: u64) -> Result<Duration, Failure> {
        let lifetime = self
            .lifetime
            .min(Duration::from_millis(capability.lifetime_ms.into()));
        let ends = capability.version.saturating_add(micros(lifetime));
        let latest = now.saturating_add(micros(versions::tolerance(self.lifetime)));
        let why = if now > ends {
            "it has expired"
        } else if capability.version > latest {
            "it is from the future"
        } else if self.has_ended(capability.object, capability.version) {
            "permissions have changed, or the file was removed, since it was given out"
        } else {
            return Ok(Duration::from_micros(ends - now));
        };
        let age = (i128::from(now) - i128::from(capability.version)) as f64 / 1e6;
        Err(failure(
            Errno::CAPABILITY_ENDED,
            format!(
                "the capability has ended: {why}; by this server's clock it is {age} s old, and good for {} s: if new ones \
                 are refused, too, set the clocks of the servers, and start the metadata server again if its clock was set back",
                lifetime.as_secs_f64()
            ),
        ))
    }
}

fn refused(why: impl Into<String>) -> Failure {
    failure(Errno::EACCES, why)
}

fn lifetime_ms(lifetime: Duration) -> u32 {
    u32::try_from(lifetime.as_millis()).unwrap_or(u32::MAX)
}

/// The distribution of a file that has datafiles, or may get some.
pub(super) fn distribution_of(node: &Node) -> Option<&causeway_wire::fs::Distribution> {
    match &node.body {
        Body::Striped { distribution, .. }
        | Body::Stuffed {
            distribution,
            moving: true,
            ..
        } => Some(distribution),
        _ => None,
    }
}

/// Whether a capability that a metadata server has made is good for this request of this client.
fn check_scope(
    capability: &Capability,
    request: &Request,
    (object, rights): (ObjectId, Rights),
    shown: Shown,
) -> Result<(), String> {
    let refuse = |message: String| Err(message);
    if capability.object != object {
        return refuse(format!(
            "the capability is for object {}, and object {} is meant",
            capability.object.0, object.0
        ));
    }
    if rights != Rights::NONE && !capability.rights.has_any(rights) {
        return refuse(format!(
            "user {} has no right to do this to object {}",
            capability.uid, object.0
        ));
    }
    let uid = request.caller.uid;
    // The metadata server may have mapped root of a client's node to nobody, because the client reaches it in another way.
    let is_squashed = is_operator(uid) && capability.uid == NOBODY;
    if capability.uid != uid && !is_squashed {
        return refuse(format!(
            "the capability is user {}'s, and user {uid} shows it",
            capability.uid
        ));
    }
    if capability.client != request.client {
        return refuse("the capability is another client's".to_owned());
    }
    // Capabilities that servers make for themselves belong to no node.
    if capability.node != shown.node && !capability.rights.has(Rights::SERVE) {
        return refuse("the capability is another node's".to_owned());
    }
    let bit = shown.server.map_or(u64::MAX, Capability::server_bit);
    if capability.servers & bit == 0 {
        return refuse(format!(
            "object {} has no datafile on this server",
            object.0
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use causeway_wire::home::VersionsSetAside;

    use super::*;
    use crate::config::Durability;

    fn node(name: &str, serial: u64) -> Certificate {
        Certificate {
            serial,
            expires: u64::MAX,
            key: [3; 32],
            authority: [4; 32],
            name: name.to_owned(),
            roles: vec!["client".to_owned()],
            signature: [5; 64],
        }
    }

    fn request() -> Request {
        Request {
            reply_tag: 0,
            target: Default::default(),
            client: 5,
            slot: 0,
            sequence: 0,
            caller: Caller::default(),
            capability: None,
            opening: None,
            holder: None,
            operation: causeway_wire::fs::Operation::StorageStatus,
        }
    }

    fn shown_by(node: u64) -> Shown {
        Shown {
            is_held: false,
            node,
            server: Some(0),
            at: Instant::now(),
        }
    }

    #[test]
    fn what_a_metadata_server_does_itself_goes_on_when_all_capabilities_end() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let configuration =
            Configuration::one_machine("fs", 1, directory.path(), 1, Durability::Relaxed);
        let home = &configuration.servers[configuration.metadata_server()].directory;
        std::fs::create_dir_all(home).expect("its directory");
        // The server's clock was set back by half a minute, as its record of versions shows.
        let below = micros_since_1970() + 30_000_000;
        let text = VersionsSetAside { below }.to_text();
        std::fs::write(home.join("capability-versions"), text).expect("a record");
        let mut metadata = Access::new(&configuration, Some(home)).expect("a metadata server");
        let mut io = Access::new(&configuration, None).expect("an I/O server");
        let check = |io: &mut Access, capability: Capability, rights| {
            let request = Request {
                capability: Some(capability),
                ..request()
            };
            io.check(
                &request,
                request.capability.as_ref(),
                (ObjectId(0), rights),
                shown_by(0),
            )
        };
        let holder = Holder {
            caller: &Caller::default(),
            client: 5,
            node: 0,
        };
        let given = metadata.authorize(holder).expect("a capability");
        assert_eq!(check(&mut io, given.clone(), Rights::OPERATE), Ok(()));
        // More ends than the server remembers.
        io.end((1..70_000).map(|object| (ObjectId(object), 1)));
        let ended = check(&mut io, given, Rights::OPERATE).map_err(|failure| failure.errno);
        assert_eq!(ended, Err(Errno::CAPABILITY_ENDED));
        let own = metadata.signer().expect("a key").own(ObjectId(0), 0, 5);
        assert_eq!(check(&mut io, own, Rights::SERVE), Ok(()));
    }

    #[test]
    fn one_that_is_shown_again_is_not_verified_again() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let configuration =
            Configuration::one_machine("fs", 1, directory.path(), 1, Durability::Relaxed);
        let home = &configuration.servers[configuration.metadata_server()].directory;
        std::fs::create_dir_all(home).expect("its directory");
        let mut metadata = Access::new(&configuration, Some(home)).expect("a metadata server");
        let mut io = Access::new(&configuration, None).expect("an I/O server");
        let holder = Holder {
            caller: &Caller::default(),
            client: 5,
            node: 0,
        };
        let [seen, other] = [1, 2].map(|client| {
            let holder = Holder { client, ..holder };
            metadata.authorize(holder).expect("a capability")
        });
        let shown = shown_by(0);
        let check = |io: &mut Access, capability: &Capability| {
            let request = Request {
                client: capability.client,
                capability: Some(capability.clone()),
                ..request()
            };
            let checked = io.check(
                &request,
                request.capability.as_ref(),
                (ObjectId(0), Rights::OPERATE),
                shown,
            );
            checked.map_err(|failure| failure.errno)
        };
        assert_eq!(check(&mut io, &seen), Ok(()));
        // With another key, only capabilities that were verified before are still good.
        io.key = io.source.read(configuration.id ^ 1).ok();
        assert!(io.key.is_some());
        assert_eq!(check(&mut io, &seen), Ok(()));
        assert_eq!(check(&mut io, &other), Err(Errno::CAPABILITY_ENDED));
        io.verified.forget();
        assert_eq!(check(&mut io, &seen), Err(Errno::CAPABILITY_ENDED));
    }

    #[test]
    fn a_capability_of_another_node_is_refused_and_a_new_certificate_changes_nothing() {
        let numbers = [None, Some(node("a", 1)), Some(node("b", 1))];
        let [none, a, b] = numbers.each_ref().map(|node| node_number(node.as_ref()));
        assert!(none == 0 && a != 0 && b != 0 && a != b);
        assert_eq!(a, node_number(Some(&node("a", 2))));
        let object = ObjectId(9);
        let request = request();
        let held_by = |node, object, rights| Capability {
            object,
            rights,
            uid: 0,
            node,
            client: 5,
            version: 7,
            lifetime_ms: 1,
            servers: u64::MAX,
            mac: [0; MAC_BYTES],
        };
        let needed = (object, Rights::READ);
        for (of, from, is_good) in [
            (a, a, true),
            (a, b, false),
            (a, none, false),
            (none, a, false),
        ] {
            let capability = held_by(of, object, Rights::READ);
            let checked = check_scope(&capability, &request, needed, shown_by(from));
            assert_eq!(checked.is_ok(), is_good, "{of} {from}");
        }
        // Capabilities that servers have made for themselves.
        let own = held_by(none, ObjectId(0), Rights::OPERATE.with(Rights::SERVE));
        let needed = (ObjectId(0), Rights::SERVE);
        assert!(check_scope(&own, &request, needed, shown_by(a)).is_ok());
    }
}
