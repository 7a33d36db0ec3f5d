//! What follows a change of the metadata, once it is carried out.

use causeway_wire::fs::formats::CAPABILITIES;
use causeway_wire::fs::{AclKind, Caller, Operation, Request, SetAttributes};

/// For whom a change is made, and what follows it.
pub(super) struct FollowUp {
    pub(super) caller: Caller,
    pub(super) client: u128,
    /// The caller's node, as capabilities name it.
    pub(super) node: u64,
    pub(super) kind: FollowUpKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FollowUpKind {
    /// The client may go on with the file's datafiles, and gets a capability with the reply.
    Grant,
    /// Permissions may be fewer: I/O servers are told before the client is.
    End,
}

impl FollowUp {
    /// What follows this request of a format, from a node, if anything does.
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
