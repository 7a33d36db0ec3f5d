//! What servers reply.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::descriptor::FileDescriptor;
use super::errno::Errno;
use super::identity::Greeting;
use super::leases::Leased;
use super::locks::LockHolder;
use super::moment::Moment;
use super::objects::{
    CheckCursor, DataFault, Entry, Node, ObjectId, ObjectPath, ScrubPosition, StripedFile,
    XattrName,
};
use super::regions::Region;

/// A message from a server to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The result, or why there is none.
    pub result: Result<ReplyBody, Failure>,
}

/// An operation's failure: a number for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub errno: Errno,
    /// What failed, where and why; may be empty where the number suffices.
    pub message: String,
}

/// An operation's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyBody {
    /// It is done.
    Done,
    /// An object.
    Node(Box<Node>),
    /// A part of a directory.
    Entries {
        /// In the order of names.
        entries: Vec<Entry>,
        /// There are no entries after the last one.
        end: bool,
    },
    /// Bytes were moved.
    Transferred {
        /// How many were written, or found before the datafile's end.
        bytes: u64,
        /// The datafile's size afterwards.
        size: u64,
        /// Microseconds that the server spent moving bytes from or to the client's memory.
        copy_us: u32,
        /// Microseconds that the server spent reading or writing the datafile. Where the client's
        /// memory is mapped, this includes the one copy that there is.
        storage_us: u32,
        /// Small data that was read.
        inline: Vec<u8>,
        /// Sums of the first whole blocks of the one region that was read, never 0 (see
        /// [`crate::datafile::Sums`]). The server has verified all blocks that have none.
        sums: Vec<u32>,
    },
    /// Objects.
    Objects(Vec<ObjectId>),
    /// Datafiles with their sizes.
    Datafiles {
        /// In the order of their numbers.
        datafiles: Vec<(ObjectId, u64)>,
        /// There are no datafiles after the last one.
        end: bool,
    },
    /// Striped files.
    StripedFiles {
        /// In the order of their numbers.
        files: Vec<StripedFile>,
        /// There are no files after the last one.
        end: bool,
    },
    /// One path each of objects.
    Paths(Vec<ObjectPath>),
    /// What is wrong with datafiles.
    Faults(Vec<DataFault>),
    /// Orphans were removed.
    OrphansRemoved {
        /// How many were deleted.
        deleted: u64,
        /// How many were moved aside, because it is not proven that they are not needed.
        moved: u64,
    },
    /// Where the data of a datafile go on.
    Data {
        /// The first bytes at or behind the offset that may be anything else than zeros; absent if none follow.
        first: Option<Region>,
    },
    /// An extended attribute's value.
    Xattr(Vec<u8>),
    /// Names of extended attributes.
    XattrNames(Vec<XattrName>),
    /// How many bytes of a datafile are stored, in whole blocks of 4 KiB.
    Stored(u64),
    /// By which descriptor the server has a datafile open; absent if the client cannot read it by that.
    Descriptor(Option<FileDescriptor>),
    /// A part of a datafile is a hole.
    Punched {
        /// Where to continue, if not all of the requested part was done.
        next: Option<u64>,
    },
    /// The present time on the server's host.
    Clock(Moment),
    /// The client has the append lock.
    AppendLock {
        /// The number of the lock. Later ones have higher numbers, over all files.
        append_lock: u64,
        /// The file, whose end stays where it is for other appenders.
        node: Box<Node>,
    },
    /// Where a shared pointer stands: behind the step, or before it if that was [`PointerStep::Add`](super::pointer::PointerStep::Add).
    Pointer(u64),
    /// The lock is held, and the client waits for it.
    LockWaits,
    /// A lock that conflicts with the tested one.
    LockHolder {
        /// One of those locks; absent if there is none.
        holder: Option<LockHolder>,
    },
    /// The name that was looked up does not exist, and the lease that comes with the reply is on that. Only programs that hold
    /// leases get this; others get [`Errno::ENOENT`].
    NoEntry,
    /// Recalls leases: the program must forget what they are on, and then report that
    /// ([`Operation::HoldLeases`](super::Operation::HoldLeases)).
    Recall {
        /// Counts the recalls to a program, from 1.
        number: u64,
        /// At most [`MAX_RECALLED`](super::leases::MAX_RECALLED).
        leases: Vec<Leased>,
    },
    /// A part of the stored data was verified.
    Scrubbed {
        /// Where to continue; absent at the end.
        next: Option<ScrubPosition>,
        /// Bytes that were verified.
        bytes: u64,
        /// Datafiles whose end was reached.
        datafiles: u64,
        /// What is wrong.
        faults: Vec<DataFault>,
    },
    /// A batch of the name space was checked.
    Checked {
        /// Where to continue; `None` at the end.
        next: Option<CheckCursor>,
        /// Records that were checked.
        records: u64,
        /// The errors found, in words.
        findings: Vec<String>,
        /// How many of them were repaired.
        mended: u64,
    },
    /// How much the metadata server stores.
    MetadataStatus {
        /// Objects of all kinds.
        objects: u64,
        /// Datafiles whose removal is still to be done.
        removals: u64,
        /// Object numbers below this have been assigned…
        numbers: u64,
        /// … except those in these gaps: first number and end of each (see [`crate::store::Gaps`]).
        gaps: Vec<(ObjectId, u64)>,
    },
    /// How much an I/O server stores.
    StorageStatus {
        /// Bytes of its storage.
        total: u64,
        /// Bytes that are free for Causeway.
        free: u64,
        /// Bytes written and read since its start.
        written: u64,
        /// See `written`.
        read: u64,
        /// Requests in progress.
        busy: u32,
        /// Datafiles that were moved aside, and are kept for a while.
        aside: u64,
        /// Bytes of these.
        aside_bytes: u64,
    },
    /// A server's identity.
    Hello(Box<Greeting>),
}
