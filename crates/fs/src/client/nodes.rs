//! Checks of the nodes that servers send.

use causeway_wire::fs::{Attributes, Errno, Kind, Node, ObjectId, ReplyBody};

use super::call_error::{CallError, take_reply};
use crate::distribution::MAX_FILE_BYTES;

/// The node in the reply to an operation that returns one.
pub(super) fn node(reply: ReplyBody) -> Result<Node, CallError> {
    take_reply!(reply, ReplyBody::Node(node) => *node).and_then(consistent)
}

/// Refuses an inconsistent node.
pub(super) fn consistent(node: Node) -> Result<Node, CallError> {
    let Attributes { kind, size, .. } = node.attributes;
    if kind != node.body.kind() {
        let message = format!("the metadata server describes {kind:?} as something else");
        return Err(CallError::local(Errno::EPROTO, message));
    }
    if kind == Kind::File && size > MAX_FILE_BYTES {
        let message = format!("the metadata server says that a file has {size} bytes");
        return Err(CallError::local(Errno::EPROTO, message));
    }
    Ok(node)
}

/// The node, if it is this object's.
pub(super) fn node_of(object: ObjectId, node: Node) -> Result<Node, CallError> {
    if node.object == object {
        return Ok(node);
    }
    let message = format!(
        "the metadata server was asked for object {} and described object {}",
        object.0, node.object.0
    );
    Err(CallError::local(Errno::EPROTO, message))
}
