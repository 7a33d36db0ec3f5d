//! The results of operations.

use super::*;

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
        /// Nothing follows the last one.
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
        /// Nothing follows the last one.
        end: bool,
    },
    /// Striped files.
    StripedFiles {
        /// In the order of their numbers.
        files: Vec<StripedFile>,
        /// Nothing follows the last one.
        end: bool,
    },
    /// One path each of objects.
    Paths(Vec<ObjectPath>),
    /// What is wrong with datafiles.
    Faults(Vec<DataFault>),
    /// Orphans are gone.
    OrphansRemoved {
        /// How many were deleted.
        deleted: u64,
        /// How many were moved aside, because nothing proves that they are not needed.
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
    /// A part of a datafile is a hole.
    Punched {
        /// Where to go on, if that is not all that was asked for.
        next: Option<u64>,
    },
    /// What time it is on the server's host.
    Clock(Moment),
    /// It is the client's turn to append.
    Turn {
        /// The turn. Later ones have higher numbers, over all files.
        turn: u64,
        /// The file, whose end stays where it is for other appenders.
        node: Box<Node>,
    },
    /// The lock is not free, and the client waits for it.
    LockWaits,
    /// What is in the way of a lock.
    LockHolder {
        /// One of those locks; absent if none is.
        holder: Option<LockHolder>,
    },
    /// There is nothing by the name that was looked up, and the lease that comes with the reply is on that. Only programs that hold
    /// leases are told so; others get [`Errno::ENOENT`].
    NoEntry,
    /// Leases end: the program is to forget what they are on, and then to say so ([`Operation::HoldLeases`]).
    Recall {
        /// Counts the recalls to a program, from 1.
        number: u64,
        /// At most [`MAX_RECALLED`].
        leases: Vec<Leased>,
    },
    /// A part of the stored data was verified.
    Scrubbed {
        /// Where to go on; absent at the end.
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
        /// Where to go on; `None` at the end.
        next: Option<CheckCursor>,
        /// Records that were checked.
        records: u64,
        /// What was found wrong, in words.
        findings: Vec<String>,
        /// How much of it was repaired.
        mended: u64,
    },
    /// What the metadata server holds.
    MetadataStatus {
        /// Objects of all kinds.
        objects: u64,
        /// Datafiles whose removal is still to be done.
        removals: u64,
        /// Object numbers below this have been given out…
        numbers: u64,
        /// … except those in these gaps: first number and end of each (see [`crate::store::Gaps`]).
        gaps: Vec<(ObjectId, u64)>,
    },
    /// What an I/O server holds.
    StorageStatus {
        /// Bytes of its storage.
        total: u64,
        /// Bytes that are free for us.
        free: u64,
        /// Bytes written and read since its start.
        written: u64,
        /// See `written`.
        read: u64,
        /// Requests in progress.
        busy: u32,
        /// Datafiles that were moved aside, and are kept for a while.
        aside: u64,
        /// Bytes of theirs.
        aside_bytes: u64,
    },
    /// A server's identity.
    Hello(Box<Greeting>),
}
