//! Verifying that a caller's identity is the one that it claims.

use std::collections::HashMap;

use causeway_bmi::{Addr, Identity};
use causeway_wire::fs::{Caller, Errno, Failure, NOBODY};

use crate::error::failure;

/// Connections whose last caller is remembered.
const MAX_REMEMBERED: usize = 4096;

/// Makes root of another host nobody, also where it says that it is the servers' user, and takes root's group from everybody there. Of
/// this host's, its kernel vouches for root, which can do what the servers can anyway.
pub(super) fn squash(identity: Option<Identity>, caller: &mut Caller) {
    if identity != Some(Identity::Keyed) {
        return;
    }
    if is_operator(caller.uid) {
        caller.uid = NOBODY;
        caller.groups.clear();
    }
    let groups = std::iter::once(&mut caller.gid).chain(&mut caller.groups);
    groups
        .filter(|group| **group == 0)
        .for_each(|group| *group = NOBODY);
}

/// Whether this is root or the servers' user.
pub(super) fn is_operator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Only root and the servers' user may do this.
pub(super) fn check_operator(caller: &Caller, doing: &str) -> Result<(), Failure> {
    if is_operator(caller.uid) {
        return Ok(());
    }
    Err(failure(
        Errno::EPERM,
        format!("only root and the servers' user may {doing}"),
    ))
}

/// Checks callers, remembering the last one that was found right on each connection.
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
    /// Compares a claimed identity with the one that the message layer has verified.
    pub(super) fn verify(
        &mut self,
        from: A,
        identity: Option<Identity>,
        claim: &Caller,
    ) -> Result<(), Failure> {
        let refuse = |message: String| failure(Errno::EPERM, message);
        let identity = identity
            .ok_or_else(|| refuse("the connection does not identify its peer".to_owned()))?;
        let (pid, uid, gid) = match identity {
            // Holders of the key, and root on this host, may act for others.
            Identity::Keyed | Identity::Local { uid: 0, .. } => return Ok(()),
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
            // Groups give root no further rights. Which process holds its socket may be unknown, as behind a relay.
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
        // Neither is the user of this test.
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
        let mut ok = |identity, claim| callers.verify(addr, identity, &claim).is_ok();
        assert!(ok(local(0, 0), claim(1234, 1, &[2])));
        assert!(ok(Some(Identity::Keyed), claim(1234, 1, &[2])));
        assert!(!ok(None, claim(1234, 1, &[])));
        // A socket of root's may have been given to anybody.
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
