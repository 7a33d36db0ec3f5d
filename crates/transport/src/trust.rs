//! Whom the methods between hosts talk to, and how a refusal reads.

use causeway_wire::tcp::Refusal;

use crate::error::{NO_DESCRIPTORS, PeerError};

/// Length of the cluster's key.
pub(crate) const KEY_BYTES: usize = 32;

/// Whether a process of user `me` without a key talks to one of user `uid` on the same host. Root is let in, and may
/// reach out to every user; but no other user gets in with root.
pub(crate) fn is_let_in(uid: u32, me: u32, we_reach_out: bool) -> bool {
    uid == me || uid == 0 || (we_reach_out && me == 0)
}

/// What a refusal means to the side that is refused; `protocol` names the method.
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
        Refusal::Full => return PeerError::Full("it has as many peers as it takes".to_owned()),
        Refusal::NoDescriptors => return PeerError::Full(NO_DESCRIPTORS.to_owned()),
        Refusal::None => "it refuses without a reason",
    };
    PeerError::Unauthorised(reason.to_owned())
}
