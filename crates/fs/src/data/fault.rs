//! Why a datafile cannot be read or written.

use std::io;

use causeway_wire::datafile::FORMAT;

/// A fault. Offsets and lengths are datafile bytes.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file system below failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Stored bytes are not those that were written.
    #[error(
        "the bytes from {offset} to {} are damaged on the disk: they do not match their checksums",
        offset + len
    )]
    Damaged {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// There is no datafile.
    #[error("the datafile is absent, and should have at least {wanted} bytes")]
    Absent {
        /// How long it must be at least.
        wanted: u64,
    },
    /// The datafile is shorter than what was written to it.
    #[error("the datafile ends at byte {size}, and should have at least {wanted} bytes")]
    Short {
        /// The length that it has.
        size: u64,
        /// How long it must be at least.
        wanted: u64,
    },
    /// The file is not this object's datafile.
    #[error("the datafile belongs to another object: its header has {found} instead of {wanted}")]
    Foreign {
        /// The owner in its header.
        found: String,
        /// The owner that its header should have.
        wanted: String,
    },
    /// Another program has put another file in its place, or removed it, while the server had it open.
    #[error(
        "the datafile was replaced or removed by something else while the server had it open: what was written to the old \
         one is lost; `causeway fs fsck --repair`, a scrub or a restart of the server takes the one that is there now"
    )]
    Replaced,
    /// An earlier version of Causeway has written it.
    #[error(
        "the datafile has format {found}, of an earlier version of Causeway, and this one reads format {FORMAT} only: \
         copy the file with that version"
    )]
    Earlier {
        /// The format that it has.
        found: u32,
    },
    /// The header cannot be understood.
    #[error("the datafile's header is damaged: {0}")]
    Header(String),
    /// The client has abandoned the request, or has disconnected.
    #[error("the client has disconnected")]
    Abandoned,
    /// A write that was sent before may have been stored, and overwritten since.
    #[error(
        "the connection broke during this write, and the server no longer knows whether it was stored before others wrote \
         there: read what is there, and write again what should be"
    )]
    Unknown,
    /// The object has a datafile with another content.
    #[error("the datafile exists already, with another content")]
    Exists,
}

impl Fault {
    /// Whether the operation has failed only because it would have to wait.
    pub fn would_block(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether what was stored is lost or damaged, as opposed to an operation that failed.
    pub fn is_loss(&self) -> bool {
        !matches!(
            self,
            Self::Io(_) | Self::Exists | Self::Abandoned | Self::Unknown
        )
    }
}

/// A result of the store.
pub type Result<T> = std::result::Result<T, Fault>;
