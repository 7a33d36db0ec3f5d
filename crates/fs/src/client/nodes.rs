//! Checks of the nodes that servers send.

use causeway_wire::fs::{Attributes, Body, Entry, Errno, Kind, Node, ObjectId, ReplyBody};

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
    check_size(&node.attributes)?;
    let carried = match &node.body {
        Body::Stuffed {
            content: Some(content),
            ..
        } => Some(content.len() as u64),
        _ => None,
    };
    match carried {
        Some(len) if len != size => {
            let message = format!(
                "the metadata server says that a file has {size} bytes, and sends {len} as its content"
            );
            Err(CallError::local(Errno::EPROTO, message))
        }
        _ => Ok(node),
    }
}

fn check_size(attributes: &Attributes) -> Result<(), CallError> {
    match attributes.size {
        size if attributes.kind == Kind::File && size > MAX_FILE_BYTES => {
            let message = format!("the metadata server says that a file has {size} bytes");
            Err(CallError::local(Errno::EPROTO, message))
        }
        _ => Ok(()),
    }
}

/// Refuses an entry of a directory whose attributes no object can have. A damaged entry may state another kind than its object has, until a
/// check repairs it: here it gets the object's kind, so that the directory can be listed, and an entry never has two kinds.
pub(super) fn check_entry(entry: &mut Entry) -> Result<(), CallError> {
    let Some(attributes) = &entry.attributes else {
        return Ok(());
    };
    entry.kind = attributes.kind;
    check_size(attributes)
}

/// The content of a small file that was requested.
pub(super) fn content_of(content: Option<Vec<u8>>) -> Result<Vec<u8>, CallError> {
    let text = "the metadata server did not send the content of a small file";
    content.ok_or_else(|| CallError::local(Errno::EPROTO, text))
}

/// The node, if it has the kind that was to be made.
pub(super) fn node_of_kind(kind: Kind, node: Node) -> Result<Node, CallError> {
    if node.attributes.kind == kind {
        return Ok(node);
    }
    let message = format!(
        "the metadata server was asked for a new object ({kind:?}) and described another one ({:?})",
        node.attributes.kind
    );
    Err(CallError::local(Errno::EPROTO, message))
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
