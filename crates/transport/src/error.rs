//! Errors that state what has failed: the call, the operation, the peer.

use std::io;

use causeway_sys::limits::Shortage;

/// A call could not be carried out at all. Nothing else is affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address that no method can use.
    #[error("the address `{address}` cannot be used: {reason}")]
    BadAddress {
        /// The text as given.
        address: String,
        /// The error in it.
        reason: &'static str,
    },
    /// No method of this name is registered.
    #[error("no method serves `{scheme}` addresses here (there are: {known})")]
    NoMethod {
        /// The scheme that was requested.
        scheme: String,
        /// The registered schemes, joined with commas.
        known: String,
    },
    /// The operating system refused something that the method needs.
    #[error("{what}: {source}")]
    System {
        /// What was being done, with the path or address concerned.
        what: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A limit of the configuration or of the method is reached.
    #[error("{what}: the limit of {limit} is reached")]
    Limit {
        /// What ran out.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The peer handle no longer names a peer of this method.
    #[error("no such peer: it was dropped, or never existed")]
    NoPeer,
    /// The method cannot do this.
    #[error("{0}")]
    Unsupported(&'static str),
}

/// Why a packet or a transfer was not accepted. Nothing of it was carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// No room now: the caller keeps the packet and tries again after [`crate::Sink::writable`]
    /// or a later poll. An ordinary result, not a fault.
    #[error("no room now; try again after the next poll")]
    WouldBlock,
    /// Larger than [`crate::Limits::max_packet`].
    #[error("the packet has {len} bytes; this method carries at most {limit}")]
    TooLarge {
        /// Bytes of the packet.
        len: usize,
        /// The most bytes that a packet may have.
        limit: usize,
    },
    /// A list of more fragments than [`crate::Limits::max_list`].
    #[error("the list has {len} fragments; this method takes at most {limit}")]
    ListTooLong {
        /// Fragments of the list.
        len: usize,
        /// The most fragments that a list may have.
        limit: usize,
    },
    /// The method cannot do this; see [`crate::Capabilities`].
    #[error("{0}")]
    Unsupported(&'static str),
    /// The method needs local memory to be registered ([`crate::Method::register`]); why it does
    /// not count as registered.
    #[error("local memory is not registered: {0}")]
    Unregistered(String),
    /// The peer is gone and cannot be reached again through this handle.
    #[error("the peer is gone: {0}")]
    Gone(PeerError),
}

/// Why a peer is no longer reachable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// Nothing listens at the address.
    #[error("nothing listens there ({0})")]
    Refused(String),
    /// The connection was not made, or the peer did not reply, in time.
    #[error("no reply within {0} ms")]
    TimedOut(u64),
    /// The peer closed the connection in an orderly way.
    #[error("it closed the connection")]
    Closed,
    /// The peer's process died or the network lost the connection.
    #[error("the connection broke ({0})")]
    Broken(String),
    /// The peer violated the protocol.
    #[error("it broke the protocol: {0}")]
    Protocol(String),
    /// The peer was refused, or refuses this process, because it is not authorised.
    #[error("not authorised: {0}")]
    Unauthorised(String),
    /// The peer accepts no further connection now; it may later.
    #[error("it takes no more connections now: {0}")]
    Full(String),
    /// This process, or the system under it, lacks what a connection needs.
    #[error("this process cannot connect: {0}")]
    Exhausted(&'static str),
    /// This process dropped the connection.
    #[error("we disconnected")]
    Disconnected,
}

/// The reason that a process without free descriptors reports to processes that connect to it.
pub(crate) const NO_DESCRIPTORS: &str =
    "its process has no file descriptors left (raise its limit: ulimit -n)";

/// The same reason as that process reports it to its own caller.
pub(crate) const TOO_MANY_OPEN: &str = "it has too many open files (raise the limit: ulimit -n)";

impl PeerError {
    /// Classifies a local error of the operating system as the fate of a connection.
    pub(crate) fn of_system(error: &io::Error) -> Self {
        match Shortage::of(error) {
            Some(Shortage::OfDescriptors) => Self::Exhausted(TOO_MANY_OPEN),
            Some(Shortage::OfDescriptorsEverywhere) => {
                Self::Exhausted("the system has too many open files")
            }
            Some(Shortage::OfMemory) => Self::Exhausted("the system has no memory for it"),
            None => Self::Broken(error.to_string()),
        }
    }

    /// Classifies the error of a call as the fate of the connection that the call was to make.
    pub fn of_call(error: &Error) -> Self {
        match error {
            Error::System { what, source } => match Self::of_system(source) {
                exhausted @ Self::Exhausted(_) => exhausted,
                _ => Self::Broken(format!("{what}: {source}")),
            },
            other => Self::Refused(other.to_string()),
        }
    }

    /// The reason alone, to be sent to the peer, which adds the context.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Refused(reason)
            | Self::Broken(reason)
            | Self::Protocol(reason)
            | Self::Unauthorised(reason)
            | Self::Full(reason) => reason.clone(),
            Self::TimedOut(_) | Self::Closed | Self::Exhausted(_) | Self::Disconnected => {
                self.to_string()
            }
        }
    }
}

/// Why a transfer of remote memory failed. How many bytes were moved is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The key is not, or no longer, exported to this process, or the range or the access is not
    /// covered.
    #[error("the peer does not export that memory (any more)")]
    Protection,
    /// The peer went away before the transfer completed.
    #[error("the peer is gone: {0}")]
    Peer(PeerError),
    /// The operating system refused to copy.
    #[error("copying failed: {0}")]
    Copy(String),
    /// The word of a remote atomic is not at a multiple of 8 in the owner's memory.
    #[error("the word of a remote atomic is not aligned to 8 bytes in the peer's memory")]
    Misaligned,
    /// The local and remote lists do not cover the same number of bytes.
    #[error("{local} local bytes against {remote} remote bytes")]
    Length {
        /// Bytes of the local list.
        local: u64,
        /// Bytes of the remote list.
        remote: u64,
    },
}
