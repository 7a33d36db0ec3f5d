//! Capabilities at a server: the metadata server makes them, I/O servers verify them at every request about datafiles.
//!
//! What a capability says is checked in the order in which its parts can be trusted: the code that proves its origin, then what it
//! is for and whose it is, then its age (`docs/security.md`, Capabilities).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use causeway_wire::fs::{
    Body, Caller, Capability, Errno, Failure, MAC_BYTES, Needs, Node, ObjectId, Request, Rights,
};

use super::callers::NOBODY;
use super::ended::Ended;
use super::given::Given;
use crate::capability_key::{CapabilityKey, KeySource};
use crate::config::{CapabilityRule, Configuration};
use crate::error::failure;
use crate::permissions;

/// What a server knows of capabilities.
pub(super) struct Access {
    file_system: u128,
    rule: CapabilityRule,
    lifetime: Duration,
    source: KeySource,
    /// Once it could be read.
    key: Option<CapabilityKey>,
    /// No capability is given out with a version below this.
    next_version: u64,
    /// The highest version that a capability was found to have.
    newest_seen: u64,
    given: Given,
    ended: Ended,
    /// Requests that were refused since the start for want of a right, or for a forged one. Capabilities that have ended do not
    /// count: that they are renewed is an everyday matter.
    pub(super) refused: u64,
    /// How many of them were shown to observers.
    pub(super) shown_refused: u64,
    /// The capability that goes with the reply in the making.
    pub(super) granted: Option<Capability>,
}

/// The time of day in milliseconds since 1970: the versions of capabilities.
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

impl Access {
    /// Of a server that starts; a metadata server makes the key if there is none.
    pub(super) fn new(configuration: &Configuration, is_metadata: bool) -> Result<Self, String> {
        let source = KeySource::of(configuration)?;
        let key = match is_metadata {
            true => Some(source.make(configuration.id)?),
            false => source.read(configuration.id).ok(),
        };
        let (rules, now) = (&configuration.access, Instant::now());
        Ok(Self {
            file_system: configuration.id,
            rule: rules.capabilities,
            lifetime: rules.capability_lifetime,
            source,
            key,
            next_version: 0,
            newest_seen: 0,
            given: Given::new(rules.capability_lifetime, now),
            ended: Ended::new(rules.capability_lifetime, now_ms(), now),
            refused: 0,
            shown_refused: 0,
            granted: None,
        })
    }

    /// The key, which a metadata server always has.
    pub(super) fn key(&self) -> Option<&CapabilityKey> {
        self.key.as_ref()
    }

    /// Reads the key again: the metadata may be others.
    pub(super) fn forget_key(&mut self) {
        self.key = None;
    }

    /// Gives a user of a client what the node permits, if the file has datafiles or is about to get some.
    pub(super) fn grant(
        &mut self,
        node: &Node,
        caller: &Caller,
        client: u128,
    ) -> Option<Capability> {
        let distribution = distribution_of(node)?;
        let permitted = permissions::of_handle(&node.attributes, caller);
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
        self.given.note(node.object, Instant::now());
        self.make(node.object, rights, caller.uid, client, servers)
    }

    /// Gives an operator the right to check and remove all datafiles.
    pub(super) fn authorize(&mut self, caller: &Caller, client: u128) -> Option<Capability> {
        self.make(ObjectId(0), Rights::OPERATE, caller.uid, client, u64::MAX)
    }

    fn make(
        &mut self,
        object: ObjectId,
        rights: Rights,
        uid: u32,
        client: u128,
        servers: u64,
    ) -> Option<Capability> {
        let key = self.key.as_ref()?;
        self.next_version = self.next_version.max(now_ms());
        let mut capability = Capability {
            object,
            rights,
            uid,
            node: 0,
            client,
            version: self.next_version,
            lifetime_ms: lifetime_ms(self.lifetime),
            servers,
            mac: [0; MAC_BYTES],
        };
        key.sign(&mut capability);
        Some(capability)
    }

    /// The permissions of an object have changed. Returns the version up to which its capabilities have ended, if any may be good
    /// otherwise.
    pub(super) fn end_given(&mut self, object: ObjectId) -> Option<u64> {
        if !self.given.may_have(object, Instant::now()) {
            return None;
        }
        let version = self.next_version.max(now_ms());
        self.next_version = version + 1;
        Some(version)
    }

    /// Notes that objects' capabilities have ended up to a version each.
    pub(super) fn end(&mut self, ended: impl Iterator<Item = (ObjectId, u64)>) {
        let newest = self.newest_seen.max(now_ms());
        let now = Instant::now();
        for (object, version) in ended {
            let newest = match version {
                // Of an object that is gone.
                u64::MAX => newest,
                version => newest.max(version),
            };
            self.ended.end(object, version, newest, now);
        }
    }

    /// Refuses a request that needs a right which its capability does not prove. `server` is this server's number.
    pub(super) fn check(&mut self, request: &Request, server: Option<u16>) -> Result<(), Failure> {
        let needs = request.operation.needs();
        if needs == Needs::Nothing {
            return Ok(());
        }
        let Some(capability) = &request.capability else {
            return match self.rule {
                CapabilityRule::Optional => Ok(()),
                CapabilityRule::Required => Err(refused(
                    "the request comes without a capability of the metadata server, as those of earlier builds do: upgrade the \
                     client and the metadata server, or have `capabilities = \"optional\"` in the configuration until then"
                        .to_owned(),
                )),
            };
        };
        self.check_origin(capability)?;
        check_scope(capability, request, needs, server).map_err(refused)?;
        let now = now_ms();
        self.check_age(capability, now)?;
        self.newest_seen = self.newest_seen.max(capability.version);
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
                // As one that has ended, so that a client that has it from before a change of the key asks for another.
                Err(failure(
                    Errno::CAPABILITY_ENDED,
                    "the capability was not made with this server's key: if new ones are refused, too, give all servers the \
                     same key (`server_key_file`) and start them again",
                ))
            }
        }
    }

    fn check_age(&self, capability: &Capability, now: u64) -> Result<(), Failure> {
        let lifetime = capability.lifetime_ms.min(lifetime_ms(self.lifetime));
        let ends = capability.version.saturating_add(lifetime.into());
        let why = if now > ends {
            "it has expired"
        } else if capability.version > now.saturating_add(lifetime.into()) {
            "it is from the future"
        } else if self.ended.has_ended(capability.object, capability.version) {
            "permissions have changed, or the file was removed, since it was given out"
        } else {
            return Ok(());
        };
        let age = (i128::from(now) - i128::from(capability.version)) as f64 / 1000.0;
        Err(failure(
            Errno::CAPABILITY_ENDED,
            format!(
                "the capability has ended: {why}; by this server's clock it is {age} s old, and good for {} s: if new ones \
                 are refused, too, set the clocks of the servers",
                f64::from(lifetime) / 1000.0
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

/// The distribution of a file that has datafiles, or may have one.
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

/// Whether a capability that a metadata server has made is good for this request of this sender.
fn check_scope(
    capability: &Capability,
    request: &Request,
    needs: Needs,
    server: Option<u16>,
) -> Result<(), String> {
    let refuse = |message: String| Err(message);
    let (object, rights) = match needs {
        Needs::Nothing => return Ok(()),
        Needs::Object(object, rights) => (object, rights),
        Needs::Any(rights) => (ObjectId(0), rights),
    };
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
    // Root of a client's node may be nobody to the metadata server alone, which it reaches in another way.
    let is_squashed = uid == 0 && capability.uid == NOBODY;
    if capability.uid != uid && !is_squashed {
        return refuse(format!(
            "the capability is user {}'s, and user {uid} shows it",
            capability.uid
        ));
    }
    if capability.client != request.client {
        return refuse("the capability is another client's".to_owned());
    }
    let bit = server.map_or(u64::MAX, Capability::server_bit);
    if capability.servers & bit == 0 {
        return refuse(format!(
            "object {} has no datafile on this server",
            object.0
        ));
    }
    Ok(())
}
