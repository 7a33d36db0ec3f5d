//! Which processes the methods between hosts accept as peers, and the texts of refusals.

use causeway_sys::process::is_overflow_user;
use causeway_wire::node::Certificate;
use causeway_wire::tcp::Refusal;

use crate::error::{NO_DESCRIPTORS, PeerError};

/// Length of the cluster's key.
pub(crate) const KEY_BYTES: usize = 32;

/// Why an address beyond this host is refused without a key, and what to do.
pub(crate) const LOOPBACK_ALONE: &str = "without a cluster key only loopback addresses (127.0.0.1, [::1]) are allowed, as \
    nothing shows whose the bytes are that a network brings; give every node the same cluster key (`key_file` in the configuration of \
    a file system)";

/// The error if one side demands proofs of nodes and the other does not support them.
pub(crate) const NO_NODE: &str = "it does not prove which node it is, and this process demands that: its configuration lacks \
    `[nodes]`, or it is a build without them";
pub(crate) const NODE_DEMANDED: &str = "it demands that this process proves which node it is: give it the configuration with `[nodes]` \
    and a node's file (`causeway fs node add` writes one)";

pub(crate) const NODES_NEED_KEY: &str = "nodes prove which they are under the cluster's key, and there is none: give every node the same \
    one (`key_file`)";

/// The entry in reports for a peer that holds the cluster's key.
pub(crate) fn keyed(node: Option<&Certificate>) -> String {
    match node {
        Some(node) => format!("node {} ({})", node.name, node.roles.join(", ")),
        None => "holds the cluster's key".to_owned(),
    }
}

/// Whether a process of user `me` and one of user `uid` on the same host connect without a key, and
/// share memory: only if both are the same user. Root is no exception: if another process could
/// make a process of root act for it, that would happen with all rights. A number that may stand
/// for several users matches none of them.
pub(crate) fn is_accepted_user(uid: u32, me: u32) -> bool {
    uid == me && !is_overflow_user(uid)
}

/// The name of a user in messages.
pub(crate) fn user(uid: u32) -> String {
    match is_overflow_user(uid) {
        true => format!("a user that has no number in this user namespace (it shows as {uid})"),
        false => format!("user {uid}"),
    }
}

/// The error on the side that is refused; `protocol` names the method.
pub(crate) fn refused(refusal: Refusal, protocol: &str) -> PeerError {
    let reason = match refusal {
        Refusal::Version => {
            let reason = format!("it speaks no format of {protocol} that this process speaks");
            return PeerError::Protocol(reason);
        }
        Refusal::KeyNeeded => "it demands the cluster's key, and this process has none",
        Refusal::NoKey => "it has no cluster key, and this process demands one",
        Refusal::WrongKey => "it says that this process holds another cluster key",
        Refusal::OtherUser => {
            "it says that this process is not of its user on its host; use a cluster key"
        }
        Refusal::Full => return PeerError::Full("it has as many peers as it accepts".to_owned()),
        Refusal::NoDescriptors => return PeerError::Full(NO_DESCRIPTORS.to_owned()),
        Refusal::NodeNeeded => NODE_DEMANDED,
        Refusal::NoNode => NO_NODE,
        Refusal::UnknownAuthority => {
            "it does not accept the authority that has signed this node's certificate: get a file by one that it accepts \
             (`causeway fs node add --renew`), or list this one in its configuration"
        }
        Refusal::Forged => {
            "it says that this node's certificate is not its own, or was not signed so"
        }
        Refusal::Expired => {
            "it says that this node's certificate has expired: `causeway fs node add --renew` writes another one"
        }
        Refusal::Revoked => "it says that this node's certificate was revoked",
        Refusal::WrongRole => "it says that this node does not have the role that it is called for",
        Refusal::None => "it refuses without a reason",
    };
    PeerError::Unauthorised(reason.to_owned())
}

/// Acting as other users, for tests that root runs.
#[cfg(test)]
pub(crate) mod test_users {
    use rustix::process::{Uid, geteuid};

    /// A user without rights here.
    pub(crate) const OTHER_USER: u32 = 65_534;

    /// The users as which connections can be made: our own and, if permitted, another one.
    pub(crate) fn users() -> Vec<u32> {
        let me = geteuid().as_raw();
        match me {
            0 => vec![me, OTHER_USER],
            _ => vec![me],
        }
    }

    /// Calls `act` in a thread that is of this user.
    pub(crate) fn as_user<R: Send>(uid: u32, act: impl FnOnce() -> R + Send) -> R {
        std::thread::scope(|scope| {
            let of_user = scope.spawn(|| {
                if uid != geteuid().as_raw() {
                    let uid = Uid::from_raw(uid);
                    // Of this thread alone, which ends with it.
                    rustix::thread::set_thread_res_uid(uid, uid, uid)
                        .expect("root may become any user");
                }
                act()
            });
            of_user
                .join()
                .expect("what the thread does fails no assertion")
        })
    }
}
