//! Verifying that a caller's identity is the one that it claims.

use std::collections::HashMap;

use causeway_bmi::{Addr, Identity};
use causeway_wire::fs::{Caller, Errno, Failure, NOBODY, Operation};
use causeway_wire::user::User;

use crate::error::failure;

/// Most connections whose last verified caller is remembered.
const MAX_REMEMBERED: usize = 4096;

/// Maps root of another host to nobody, also if it claims to be the servers' user, and takes root's group from all callers of other hosts.
/// The kernel of this host vouches for its root, which could do everything that the servers can anyway.
pub(super) fn squash(identity: Option<Identity>, caller: &mut Caller) {
    if !matches!(identity, Some(Identity::Keyed | Identity::OneUser { .. })) {
        return;
    }
    if is_operator(caller.uid) {
        caller.uid = NOBODY;
        caller.groups.clear();
    }
    leave_roots_group(caller);
}

/// Replaces root's group by nobody's.
pub(super) fn leave_roots_group(caller: &mut Caller) {
    let groups = std::iter::once(&mut caller.gid).chain(&mut caller.groups);
    groups
        .filter(|group| **group == 0)
        .for_each(|group| *group = NOBODY);
}

/// Whether a user is root or the servers' user.
pub(super) fn is_operator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Refuses all callers but root and the servers' user.
pub(super) fn check_operator(caller: &Caller, doing: &str) -> Result<(), Failure> {
    if is_operator(caller.uid) {
        return Ok(());
    }
    Err(failure(
        Errno::EPERM,
        format!("only root and the servers' user may {doing}"),
    ))
}

/// Refuses operators' requests from a process whose connection was made by the agent of its node: a process that may not read the key is
/// no operator, whatever its uid is.
pub(super) fn check_spoken_for(
    identity: Option<Identity>,
    operation: &Operation,
) -> Result<(), Failure> {
    let Some(Identity::OneUser { uid, .. }) = identity else {
        return Ok(());
    };
    if !operation.is_for_operators() {
        return Ok(());
    }
    let message = format!(
        "operators alone may do this, and the agent of this node speaks for users without keys alone, here for user {uid}: do it where \
         the key may be read"
    );
    Err(failure(Errno::EPERM, message))
}

/// Whether a claimed caller is the user to whom a connection is restricted.
fn check_one_user(user: Option<&User>, claim: &Caller) -> Result<(), String> {
    let user = user.ok_or("the connection does not say for which user it speaks")?;
    if claim.uid != user.uid {
        return Err(format!(
            "the agent of its node speaks for user {} on this connection, which cannot act as user {}",
            user.uid, claim.uid
        ));
    }
    if claim.gid == user.gid && claim.groups == user.groups {
        return Ok(());
    }
    let mut groups = std::iter::once(&claim.gid).chain(&claim.groups);
    match groups.find(|group| !user.is_in(**group)) {
        Some(group) => Err(format!(
            "the agent of its node speaks for user {} on this connection, who is not in group {group} there",
            user.uid
        )),
        None => Ok(()),
    }
}

/// Verifies callers, and remembers for each connection the last caller that was verified.
#[derive(Debug)]
pub(super) struct Callers<A = Addr> {
    verified: HashMap<A, (Identity, Caller)>,
}

impl<A> Default for Callers<A> {
    fn default() -> Self {
        Self {
            verified: HashMap::new(),
        }
    }
}

impl<A: Copy + Eq + std::hash::Hash> Callers<A> {
    /// Compares a claimed identity with the one that the message layer has verified, and with the user to whom the connection is
    /// restricted.
    pub(super) fn verify(
        &mut self,
        from: A,
        identity: Option<Identity>,
        user: Option<&User>,
        claim: &Caller,
    ) -> Result<(), Failure> {
        let refuse = |message: String| failure(Errno::EPERM, message);
        let identity = identity
            .ok_or_else(|| refuse("the connection does not identify its peer".to_owned()))?;
        let (pid, uid, gid) = match identity {
            // Processes that hold the key, and root of this host, may act for other users.
            Identity::Keyed | Identity::Local { uid: 0, .. } => return Ok(()),
            Identity::OneUser { .. } => return check_one_user(user, claim).map_err(refuse),
            Identity::Local { pid, uid, gid } | Identity::SocketOf { pid, uid, gid } => {
                (pid, uid, gid)
            }
        };
        if self
            .verified
            .get(&from)
            .is_some_and(|(known, caller)| *known == identity && caller == claim)
        {
            return Ok(());
        }
        if claim.uid != uid {
            return Err(refuse(format!(
                "a process of user {uid} cannot act as user {}",
                claim.uid
            )));
        }
        if uid == 0 {
            // Groups give root no further rights. The process that holds the socket may be unknown, for example behind a relay.
            return Ok(());
        }
        let groups = groups_of(pid, uid);
        let foreign = std::iter::once(&claim.gid)
            .chain(&claim.groups)
            .find(|&&group| group != gid && !groups.contains(&group));
        if let Some(group) = foreign {
            return Err(refuse(format!(
                "process {pid} of user {uid} is not in group {group}"
            )));
        }
        if self.verified.len() >= MAX_REMEMBERED {
            self.verified.clear();
        }
        self.verified.insert(from, (identity, claim.clone()));
        Ok(())
    }
}

/// The groups of a process, as long as it is still one of this user's; empty if they cannot be read.
fn groups_of(pid: i32, uid: u32) -> Vec<u32> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    let numbers = |field: &str| -> Vec<u32> {
        status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .map(|rest| {
                rest.split_ascii_whitespace()
                    .filter_map(|number| number.parse().ok())
                    .collect()
            })
            .unwrap_or_default()
    };
    if !numbers("Uid:").contains(&uid) {
        return Vec::new();
    }
    let mut groups = numbers("Groups:");
    groups.extend(numbers("Gid:"));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_other_hosts_is_squashed_with_its_group_and_the_servers_user() {
        let squashed = |identity, uid, gid, groups: &[u32]| {
            let mut caller = Caller {
                uid,
                gid,
                groups: groups.to_vec(),
                umask: 0,
            };
            squash(Some(identity), &mut caller);
            (caller.uid, caller.gid, caller.groups)
        };
        // Neither of these is the user that runs this test.
        let (user, keyed) = (3_000_000_001, Identity::Keyed);
        let nobody = || (NOBODY, NOBODY, vec![]);
        assert_eq!(squashed(keyed, 0, 0, &[0, 7]), nobody());
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(squashed(keyed, own, 5, &[0, 7]), (NOBODY, 5, vec![]));
        let without_root = (user, NOBODY, vec![NOBODY, 7]);
        assert_eq!(squashed(keyed, user, 0, &[0, 7]), without_root);
        assert_eq!(squashed(keyed, user, 1, &[0]), (user, 1, vec![NOBODY]));
        let local = Identity::Local {
            pid: 1,
            uid: 0,
            gid: 0,
        };
        assert_eq!(squashed(local, 0, 0, &[0]), (0, 0, vec![0]));
    }

    #[test]
    fn a_connection_of_an_agent_is_held_to_its_user_and_groups() {
        let user = User {
            uid: 1234,
            gid: 5,
            groups: vec![6, 7],
        };
        let identity = Some(Identity::OneUser { uid: 1234, gid: 5 });
        let claim = |uid, gid, groups: &[u32]| Caller {
            uid,
            gid,
            groups: groups.to_vec(),
            umask: 0,
        };
        let mut callers = Callers::default();
        let mut ok = |user: Option<&User>, claim: Caller| {
            let verified = callers.verify(1_u32, identity, user, &claim);
            verified.map_err(|failure| failure.message)
        };
        for right in [
            claim(1234, 5, &[6, 7]),
            claim(1234, 6, &[]),
            claim(1234, 5, &[7, 5]),
        ] {
            assert_eq!(ok(Some(&user), right), Ok(()));
        }
        for (wrong, what) in [
            (claim(0, 5, &[6, 7]), "act as user 0"),
            (claim(1235, 5, &[6, 7]), "act as user 1235"),
            (claim(1234, 0, &[]), "group 0"),
            (claim(1234, 5, &[6, 8]), "group 8"),
        ] {
            let why = ok(Some(&user), wrong).unwrap_err();
            assert!(why.contains(what), "{why}");
        }
        assert!(ok(None, claim(1234, 5, &[])).is_err(), "nothing is said");
    }

    #[test]
    fn what_operators_ask_for_is_refused_to_users_of_agents() {
        let spoken_for = |uid| Some(Identity::OneUser { uid, gid: 0 });
        let own = rustix::process::geteuid().as_raw();
        let object = causeway_wire::fs::ObjectId(5);
        for operation in [
            Operation::Authorize,
            Operation::EndCapabilities { ended: Vec::new() },
            Operation::Remove {
                objects: vec![object],
            },
            // An operation that the owner of the root directory may request with the key.
            Operation::Check {
                after: None,
                repair: true,
            },
            Operation::Paths {
                objects: vec![object],
            },
            Operation::Exist {
                objects: vec![object],
            },
        ] {
            for uid in [0, own] {
                assert!(check_spoken_for(spoken_for(uid), &operation).is_err());
            }
            assert!(check_spoken_for(Some(Identity::Keyed), &operation).is_ok());
        }
        let harmless = Operation::GetNode {
            object,
            content: false,
        };
        assert!(check_spoken_for(spoken_for(0), &harmless).is_ok());
    }

    #[test]
    fn only_root_and_key_holders_act_for_others() {
        let addr = 5u32;
        let mut callers = Callers::default();
        let claim = |uid, gid, groups: &[u32]| Caller {
            uid,
            gid,
            groups: groups.to_vec(),
            umask: 0,
        };
        let pid = std::process::id() as i32;
        let local = |uid, gid| Some(Identity::Local { pid, uid, gid });
        let mut ok = |identity, claim| callers.verify(addr, identity, None, &claim).is_ok();
        assert!(ok(local(0, 0), claim(1234, 1, &[2])));
        assert!(ok(Some(Identity::Keyed), claim(1234, 1, &[2])));
        assert!(!ok(None, claim(1234, 1, &[])));
        // Root may have given its socket to any process.
        let socket_of = |uid, gid| Some(Identity::SocketOf { pid, uid, gid });
        assert!(!ok(socket_of(0, 0), claim(1234, 1, &[])));
        assert!(ok(socket_of(0, 0), claim(0, 0, &[0])));
        assert!(ok(socket_of(0, 0), claim(0, 7, &[8])), "as behind a relay");
        assert!(!ok(socket_of(77, 77), claim(0, 77, &[])));
        assert!(!ok(local(77, 77), claim(0, 77, &[])));
        assert!(ok(local(77, 77), claim(77, 77, &[77])));
        assert!(!ok(local(77, 77), claim(77, 77, &[4_000_000_000])));
        assert!(!ok(local(77, 77), claim(77, 4_000_000_000, &[])));
    }
}
