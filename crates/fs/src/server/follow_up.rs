//! What the server does after a change of the metadata, before it replies.

use causeway_wire::fs::formats::CAPABILITIES;
use causeway_wire::fs::{AclKind, Caller, Operation, Request, SetAttributes};

/// The client for which a change is made, and what the server does after it.
pub(super) struct FollowUp {
    pub(super) caller: Caller,
    pub(super) client: u128,
    /// The caller's node, by the number that capabilities use.
    pub(super) node: u64,
    pub(super) kind: FollowUpKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowUpKind {
    /// The client may access the file's datafiles, and gets a capability with the reply.
    Grant,
    /// The change may take permissions away: the I/O servers are told before the client gets its reply.
    End,
}

impl FollowUp {
    /// The follow-up of this request, of this format and from this node, if it needs one.
    pub(super) fn of(request: &Request, format: u8, node: u64) -> Option<Self> {
        let kind = match &request.operation {
            Operation::SetAttributes {
                set:
                    SetAttributes {
                        mode: None,
                        uid: None,
                        gid: None,
                        ..
                    },
                ..
            } => return None,
            Operation::SetAttributes { .. } => FollowUpKind::End,
            Operation::SetXattr { name, .. } | Operation::RemoveXattr { name, .. } => {
                match AclKind::of_xattr(name) {
                    Some(AclKind::Access) => FollowUpKind::End,
                    _ => return None,
                }
            }
            Operation::Create { .. }
            | Operation::BeginUnstuff { .. }
            | Operation::FinishUnstuff { .. }
            | Operation::Truncate { .. }
            | Operation::Grow { .. }
                if format >= CAPABILITIES =>
            {
                FollowUpKind::Grant
            }
            _ => return None,
        };
        Some(Self {
            caller: request.caller.clone(),
            client: request.client,
            node,
            kind,
        })
    }
}
