//! Errors of calls, and checks that replies fit their requests.

use std::collections::HashSet;

use causeway_wire::fs::{Errno, ObjectId, ReplyBody};

use crate::Error;

/// The reason why a call failed, without the operation and its subject.
#[derive(Debug, Clone)]
pub(crate) struct CallError {
    /// The error number.
    pub errno: Errno,
    /// A description; may be empty where the error number suffices.
    pub message: String,
    /// The server concerned, as text.
    pub server: Option<String>,
}

impl CallError {
    /// A failure that is not a server's fault.
    pub(crate) fn local(errno: Errno, message: impl Into<String>) -> Self {
        Self {
            errno,
            message: message.into(),
            server: None,
        }
    }

    /// A call that has no result.
    pub(crate) fn vanished() -> Self {
        Self::local(
            Errno::EIO,
            "a call vanished, which is a defect of the client",
        )
    }

    /// Names the operation and its subject.
    pub(crate) fn during(self, operation: &'static str, subject: &[u8]) -> Error {
        let message = match self.message.is_empty() {
            true => self.errno.to_string(),
            false => self.message,
        };
        Error {
            operation,
            subject: String::from_utf8_lossy(subject).escape_debug().to_string(),
            errno: self.errno,
            message,
            server: self.server,
        }
    }
}

/// Takes the result out of a reply, which must be of the kind that fits the request.
macro_rules! take_reply {
    ($reply:expr, $pattern:pat => $result:expr) => {
        match $reply {
            $pattern => Ok($result),
            other => Err($crate::client::call_error::unexpected_reply(&other)),
        }
    };
}

pub(crate) use take_reply;

/// Takes the reply to an operation that returns nothing.
pub(crate) fn done(reply: ReplyBody) -> Result<(), CallError> {
    take_reply!(reply, ReplyBody::Done => ())
}

/// Refuses objects in a reply that were not in its request, and more than were.
pub(crate) fn only_asked(
    what: &str,
    asked: &[ObjectId],
    mut told: impl ExactSizeIterator<Item = ObjectId>,
) -> Result<(), CallError> {
    if told.len() > asked.len() {
        let text = format!(
            "the server was asked for {what} of {} objects, and replied with {}",
            asked.len(),
            told.len()
        );
        return Err(CallError::local(Errno::EPROTO, text));
    }
    let known: HashSet<ObjectId> = asked.iter().copied().collect();
    match told.find(|object| !known.contains(object)) {
        None => Ok(()),
        Some(object) => {
            let text = format!(
                "the server was not asked for {what} of object {}, and replied with that",
                object.0
            );
            Err(CallError::local(Errno::EPROTO, text))
        }
    }
}

/// The error for a reply that does not fit the request.
pub(crate) fn unexpected_reply(reply: &ReplyBody) -> CallError {
    let kind = match reply {
        ReplyBody::Done => "done",
        ReplyBody::Node(_) => "a node",
        ReplyBody::Entries { .. } => "directory entries",
        ReplyBody::Transferred { .. } => "a transfer",
        ReplyBody::Data { .. } => "where data are",
        ReplyBody::Clock(_) => "the time",
        ReplyBody::AppendLock { .. } => "an append lock",
        ReplyBody::Objects(_) => "objects",
        ReplyBody::Datafiles { .. } => "datafiles",
        ReplyBody::StripedFiles { .. } => "striped files",
        ReplyBody::Paths(_) => "paths",
        ReplyBody::Faults(_) => "faults of datafiles",
        ReplyBody::OrphansRemoved { .. } => "a removal of orphans",
        ReplyBody::Scrubbed { .. } => "a part of a scrub",
        ReplyBody::Checked { .. } => "a check",
        ReplyBody::MetadataStatus { .. } | ReplyBody::StorageStatus { .. } => "a status",
        ReplyBody::Xattr(_) => "an extended attribute",
        ReplyBody::XattrNames(_) => "names of extended attributes",
        ReplyBody::Pointer(_) => "where a pointer stands",
        ReplyBody::LockWaits => "that a lock is not free",
        ReplyBody::LockHolder { .. } => "who has a lock",
        ReplyBody::NoEntry => "that a name does not exist",
        ReplyBody::Recall { .. } => "a recall of leases",
        ReplyBody::Stored(_) => "how much is stored",
        ReplyBody::Descriptor(_) => "a descriptor",
        ReplyBody::Punched { .. } => "how far a hole was made",
        ReplyBody::Hello(_) => "a greeting",
    };
    CallError::local(
        Errno::EPROTO,
        format!("the server replied with {kind}, which does not fit the request"),
    )
}

/// An object's name in errors of requests that do not have its path.
pub(crate) fn object_name(object: ObjectId) -> Vec<u8> {
    format!("object {}", object.0).into_bytes()
}
