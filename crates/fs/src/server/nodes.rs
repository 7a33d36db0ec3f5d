//! The rules about what nodes may request, where nodes have to prove their identity; and how a running server reads changed rules.

use std::path::{Path, PathBuf};

use causeway_bmi::Waker;
use causeway_bmi::nodes::{CLIENT, Certificate, Membership};
use causeway_wire::fs::{Caller, Errno, Failure, NOBODY, Operation, Request};

use super::callers::leave_roots_group;
use crate::config::{ConfigError, Configuration, NodesEntry};
use crate::error::failure;

/// The operations and users that nodes may request.
#[derive(Debug)]
pub(super) struct NodeRules {
    /// The name of the metadata server, the only server that makes requests.
    metadata: String,
    /// The users and groups for which each node may speak, as last read.
    entry: NodesEntry,
}

impl NodeRules {
    /// The rules of a configuration; `None` if nodes do not have to prove their identity.
    pub(super) fn of(configuration: &Configuration) -> Option<Self> {
        let entry = configuration.nodes.clone()?;
        let metadata = configuration.servers.get(configuration.metadata_server())?;
        Some(Self {
            metadata: metadata.name.clone(),
            entry,
        })
    }

    /// Refuses a request that this node may not make; `speaks_for_user` if the node's agent made the connection for a user.
    pub(super) fn check(
        &self,
        node: Option<&Certificate>,
        speaks_for_user: bool,
        request: &Request,
    ) -> Result<(), Failure> {
        let Some(node) = node else {
            let message = "the connection does not prove which node is at its other end";
            return Err(failure(Errno::EPERM, message.to_owned()));
        };
        let may_lead = node.has_role(&self.metadata);
        let (may, wanted) = match &request.operation {
            Operation::Hello { .. } => return Ok(()),
            Operation::Enroll { .. } => (may_lead, self.metadata.as_str()),
            // The metadata server removes datafiles and registers servers, as a client of I/O servers.
            _ => (may_lead || node.has_role(CLIENT), CLIENT),
        };
        if may && may_lead && !speaks_for_user {
            return Ok(()); // it is a server that speaks for itself
        }
        if may {
            let limits = self.entry.limits();
            let checked = limits.uids.check(&node.name, request.caller.uid);
            return checked.map_err(|message| failure(Errno::EPERM, message));
        }
        let Certificate { name, roles, .. } = node;
        Err(failure(
            Errno::EPERM,
            format!(
                "node {name} has the roles {}, and this takes the role {wanted}: `causeway fs node add {name} --renew --role {wanted}` and its \
                 other roles where the cluster's authority is",
                roles.join(", ")
            ),
        ))
    }
}

impl NodeRules {
    /// Whether the rules name root for this node: its root is then not mapped to nobody, unlike root of other hosts.
    pub(super) fn name_root(&self, node: Option<&Certificate>) -> bool {
        node.is_some_and(|node| self.entry.limits().uids.names(&node.name, 0))
    }

    /// Whether a rule limits the users or groups for which this connection may speak; none does while the metadata server speaks for itself.
    pub(super) fn is_ruled(&self, node: Option<&Certificate>, speaks_for_user: bool) -> bool {
        let limits = self.entry.limits();
        self.limited(node, speaks_for_user).is_some_and(|node| {
            limits.uids.has_rule(&node.name) || limits.gids.has_rule(&node.name)
        })
    }

    /// Confines a caller, as squashed, to the groups for which the node at the other end of the connection may speak. One in whose own group the
    /// caller cannot be, which new objects get, is refused. Other groups are left out: they give rights and nothing else, and users are in groups of
    /// their host that the file system does not know. Root needs no group for its rights, and nobody's group gives none.
    pub(super) fn confine_groups(
        &self,
        node: Option<&Certificate>,
        speaks_for_user: bool,
        request: &mut Request,
    ) -> Result<(), Failure> {
        let Some(node) = self.limited(node, speaks_for_user) else {
            return Ok(());
        };
        let limits = self.entry.limits();
        let is_greeting = matches!(request.operation, Operation::Hello { .. });
        let Caller {
            uid, gid, groups, ..
        } = &mut request.caller;
        if is_greeting || *uid == 0 {
            return Ok(());
        }
        if !limits.gids.has_rule(&node.name) {
            if limits.uids.has_rule(&node.name) && !limits.uids.names(&node.name, 0) {
                // A rule about users alone takes root's group from all but root.
                leave_roots_group(&mut request.caller);
            }
            return Ok(());
        }
        if *gid != NOBODY {
            let checked = limits.gids.check(&node.name, *gid);
            checked.map_err(|message| failure(Errno::EPERM, message))?;
        }
        groups.retain(|group| limits.gids.names(&node.name, *group));
        Ok(())
    }

    /// The node at the other end, if rules about users and groups apply to its requests.
    fn limited<'a>(
        &self,
        node: Option<&'a Certificate>,
        speaks_for_user: bool,
    ) -> Option<&'a Certificate> {
        node.filter(|node| speaks_for_user || !node.has_role(&self.metadata))
    }
}

/// Whether this process's own node may be this server; other nodes refuse it otherwise.
pub(super) fn check_own(membership: &Membership, server: &str) -> Result<(), String> {
    let own = membership.member().certificate();
    match own.has_role(server) {
        true => Ok(()),
        false => Err(format!(
            "this host's node file is that of node {}, which has the roles {} and not {server}: write one with `causeway fs node add` where the \
             cluster's authority is",
            own.name,
            own.roles.join(", ")
        )),
    }
}

/// Has a running server read again its accepted authorities, the revoked certificates, and its own certificate and key.
#[derive(Debug)]
pub struct ReloadHandle {
    configuration: Configuration,
    server: String,
    file: PathBuf,
    waker: Waker,
}

impl ReloadHandle {
    pub(super) fn new(
        configuration: &Configuration,
        server: &str,
        file: &Path,
        waker: Waker,
    ) -> Option<Self> {
        configuration.nodes.as_ref()?;
        Some(Self {
            configuration: configuration.clone(),
            server: server.to_owned(),
            file: file.to_owned(),
            waker,
        })
    }

    /// Reads them. Connections with nodes that are not accepted any more end at once. If anything is wrong, everything stays as it was.
    pub fn reload(&self) -> Result<(), ConfigError> {
        let check = |membership: &Membership| check_own(membership, &self.server);
        self.configuration.reload_nodes(&self.file, check)?;
        self.waker.wake();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::Incarnation;

    use super::*;

    fn node(roles: &[&str]) -> Certificate {
        Certificate {
            serial: 1,
            expires: 2,
            key: [3; 32],
            authority: [4; 32],
            name: "somebody".to_owned(),
            roles: roles.iter().map(|role| (*role).to_owned()).collect(),
            signature: [5; 64],
        }
    }

    fn request(operation: Operation, uid: u32) -> Request {
        Request {
            reply_tag: 0,
            target: Default::default(),
            client: 1,
            slot: 0,
            sequence: 0,
            caller: Caller {
                uid,
                ..Caller::default()
            },
            capability: None,
            holder: None,
            opening: None,
            operation,
        }
    }

    fn rules(uids: &str) -> NodeRules {
        let text = format!(
            "name = \"lab\"\nid = \"0123456789abcdef0123456789abcdef\"\nkey_file = \"/k\"\n[nodes]\nauthorities = [\"{}\"]\n\
             node_file = \"/n\"\nrevoked_file = \"/r\"\n{uids}\n[[server]]\nname = \"meta\"\nroles = [\"metadata\", \"io\"]\n\
             addresses = [\"tcp://a:1\"]\ndirectory = \"/d\"\n",
            "ab".repeat(32)
        );
        NodeRules::of(&Configuration::parse(&text, "c").unwrap()).unwrap()
    }

    #[test]
    fn each_request_takes_the_role_that_makes_it() {
        let rules = rules("");
        let hello = || Operation::Hello {
            layout_from: 0,
            timeout_s: 1,
        };
        let enroll = || Operation::Enroll {
            index: 0,
            incarnation: Incarnation(1),
            replace: true,
        };
        let query = || Operation::StorageStatus;
        for (roles, may) in [
            (&["client"][..], [true, false, true]),
            (&["meta"], [true, true, true]),
            (&["io0"], [true, false, false]),
            (&["client", "io0"], [true, false, true]),
            (&["io0", "meta"], [true, true, true]),
        ] {
            let node = node(roles);
            let asked = [hello(), enroll(), query()].map(|operation| request(operation, 5));
            let allowed = asked.map(|request| rules.check(Some(&node), false, &request).is_ok());
            assert_eq!(allowed, may, "{roles:?}");
        }
        let query = request(query(), 5);
        let failure = rules
            .check(Some(&node(&["io0"])), false, &query)
            .unwrap_err();
        for part in ["somebody", "io0", "--role client"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        assert!(rules.check(None, false, &query).is_err());
    }

    /// The rule is for clients: requests of the metadata server itself are not subject to it.
    #[test]
    fn a_node_speaks_for_the_users_of_its_rule_alone() {
        let rules = rules("uids = { somebody = [\"root\", \"1000-1999\"], \"*\" = [] }");
        let query = |uid| request(Operation::StorageStatus, uid);
        let client = node(&["client"]);
        for (uid, may) in [(0, true), (1500, true), (2000, false)] {
            assert_eq!(rules.check(Some(&client), false, &query(uid)).is_ok(), may);
        }
        let failure = rules.check(Some(&client), false, &query(2000)).unwrap_err();
        for part in ["node somebody", "user 2000", "1000-1999"] {
            assert!(failure.message.contains(part), "{}", failure.message);
        }
        assert!(rules.name_root(Some(&client)) && !rules.name_root(None));
        let mut other = client.clone();
        other.name = "another".to_owned();
        assert!(rules.check(Some(&other), false, &query(1500)).is_err());
        assert!(!rules.name_root(Some(&other)));
        let meta = node(&["meta"]);
        assert!(rules.check(Some(&meta), false, &query(2000)).is_ok());
        // The agent on the metadata server's host makes connections for users.
        let both = node(&["meta", "client"]);
        assert!(rules.check(Some(&both), false, &query(2000)).is_ok());
        assert!(rules.check(Some(&both), true, &query(2000)).is_err());
        assert!(rules.check(Some(&both), true, &query(1500)).is_ok());
        assert!(rules.is_ruled(Some(&both), true) && !rules.is_ruled(Some(&both), false));
        assert!(rules.is_ruled(Some(&client), false));
    }

    #[test]
    fn a_node_speaks_for_the_groups_of_its_rule_alone() {
        let confined =
            |rules: &NodeRules, node: &Certificate, for_user, uid, gid, groups: &[u32]| {
                let mut request = request(Operation::StorageStatus, uid);
                request.caller.gid = gid;
                request.caller.groups = groups.to_vec();
                let checked = rules.confine_groups(Some(node), for_user, &mut request);
                checked.map(|()| (request.caller.gid, request.caller.groups))
            };
        let by_gids = rules("gids = { somebody = [\"100-199\"] }");
        let client = node(&["client"]);
        assert!(by_gids.is_ruled(Some(&client), false));
        // Groups that the rule does not name are left out, root's too; the own group has to be named.
        assert_eq!(
            confined(&by_gids, &client, false, 5, 150, &[0, 99, 100, 199, 200]),
            Ok((150, vec![100, 199]))
        );
        for gid in [0, 99, 200] {
            let failure = confined(&by_gids, &client, false, 5, gid, &[150]).unwrap_err();
            assert_eq!(failure.errno, Errno::EPERM);
            for part in ["node somebody", &format!("group {gid}"), "100-199"] {
                assert!(failure.message.contains(part), "{}", failure.message);
            }
        }
        assert_eq!(
            confined(&by_gids, &client, false, NOBODY, NOBODY, &[150]),
            Ok((NOBODY, vec![150]))
        );
        assert_eq!(
            confined(&by_gids, &client, false, 0, 0, &[0, 7]),
            Ok((0, vec![0, 7])),
            "root, which is not squashed, may do everything anyway"
        );
        // No rule for this node.
        let mut other = client.clone();
        other.name = "another".to_owned();
        assert!(!by_gids.is_ruled(Some(&other), false));
        assert_eq!(
            confined(&by_gids, &other, false, 5, 7, &[0]),
            Ok((7, vec![0]))
        );
        // The metadata server makes requests of its own; the agent on its host makes connections
        // for users.
        let both = node(&["meta", "client"]);
        assert!(confined(&by_gids, &both, false, 5, 7, &[0]).is_ok());
        assert!(confined(&by_gids, &both, true, 5, 7, &[0]).is_err());
        // A rule about users alone takes root's group, unless it names root.
        let by_uids = rules("uids = { somebody = [5] }");
        assert_eq!(
            confined(&by_uids, &client, false, 5, 0, &[0, 7]),
            Ok((NOBODY, vec![NOBODY, 7]))
        );
        let with_root = rules("uids = { somebody = [5, \"root\"] }");
        assert_eq!(
            confined(&with_root, &client, false, 5, 0, &[0]),
            Ok((0, vec![0]))
        );
    }
}
