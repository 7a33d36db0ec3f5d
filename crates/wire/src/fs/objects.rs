//! Objects and their attributes, and where their content is.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::acl::Acl;
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Names an object (file, directory, symbolic link, pipe, socket, device). Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// The root directory.
    pub const ROOT: ObjectId = ObjectId(1);
}

/// The progress of a scrub: everything before this byte of this object's datafile was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrubPosition {
    /// The datafile's object.
    pub object: ObjectId,
    /// Which byte.
    pub offset: u64,
}

impl ScrubPosition {
    /// Before all datafiles.
    pub const FRONT: Self = Self {
        object: ObjectId(0),
        offset: 0,
    };
}

/// A fault of a datafile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFault {
    /// The datafile's object.
    pub object: ObjectId,
    /// First byte concerned.
    pub offset: u64,
    /// Number of bytes; all others if the whole datafile is concerned.
    pub len: u64,
    /// What is wrong.
    pub text: String,
}

/// A striped file and what its datafiles must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripedFile {
    /// The object.
    pub object: ObjectId,
    /// Its servers' numbers.
    pub servers: Vec<u16>,
    /// See [`Body::Striped`].
    pub lengths: Vec<u64>,
}

/// A time since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub accessed: Option<Timestamp>,
    /// Modification time.
    pub modified: Option<Timestamp>,
    /// A directory's default distribution.
    pub distribution: Option<DistributionHint>,
}

/// A requested distribution of new files; 0 leaves a value to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DistributionHint {
    /// Bytes of a strip, a multiple of 4 KiB and at least [`MAX_STUFFED_BYTES`](super::MAX_STUFFED_BYTES).
    pub strip_size: u32,
    /// Number of servers.
    pub servers: u16,
    /// First server plus one; 0 spreads files over servers.
    pub start: u16,
}

/// How a file's bytes are striped over its servers: strip `i` lies on `servers[i % servers.len()]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distribution {
    /// Bytes of a strip.
    pub strip_size: u32,
    /// Numbers of I/O servers in the file system's layout, each once.
    pub servers: Vec<u16>,
}

codes! {
    /// Whether an extended attribute may be there when it is set.
    pub enum SetXattrMode: "way to set an extended attribute" {
        /// It may.
        Any = 0,
        /// It must not.
        Create = 1,
        /// It must.
        Replace = 2,
    }
}

/// The name of an extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrName {
    /// With its name space in front, such as `user.`.
    pub name: Vec<u8>,
}

codes! {
    /// What kind of object.
    pub enum Kind: "kind" {
        /// A file.
        File = 1,
        /// A directory.
        Directory = 2,
        /// A symbolic link.
        SymbolicLink = 3,
        /// A named pipe.
        Fifo = 4,
        /// A socket's name.
        Socket = 5,
        /// A device of characters.
        CharacterDevice = 6,
        /// A device of blocks.
        BlockDevice = 7,
    }
}

impl Kind {
    /// Whether it is only a name for something that programs use on their own host: a pipe, a
    /// socket or a device.
    pub fn is_special(self) -> bool {
        self.is_device() || matches!(self, Kind::Fifo | Kind::Socket)
    }

    /// Whether it is a device.
    pub fn is_device(self) -> bool {
        matches!(self, Kind::CharacterDevice | Kind::BlockDevice)
    }

    /// The bits of a mode on Linux for this kind.
    pub fn mode_bits(self) -> u32 {
        match self {
            Kind::Fifo => 0o010_000,
            Kind::CharacterDevice => 0o020_000,
            Kind::Directory => 0o040_000,
            Kind::BlockDevice => 0o060_000,
            Kind::File => 0o100_000,
            Kind::SymbolicLink => 0o120_000,
            Kind::Socket => 0o140_000,
        }
    }

    /// The kind for the bits of a mode, if there is one.
    pub fn of_mode(mode: u32) -> Option<Self> {
        let kinds = [
            Kind::File,
            Kind::Directory,
            Kind::SymbolicLink,
            Kind::Fifo,
            Kind::Socket,
            Kind::CharacterDevice,
            Kind::BlockDevice,
        ];
        kinds
            .into_iter()
            .find(|kind| kind.mode_bits() == mode & 0o170_000)
    }
}

/// An object's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// What it is.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names (for a directory 2 plus its sub-directories).
    pub links: u32,
    /// Bytes of a file or of a link's target; entries of a directory.
    pub size: u64,
    /// Last access (kept as last set, not by reading).
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of attributes.
    pub changed: Timestamp,
}

/// An object as the metadata server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Which object.
    pub object: ObjectId,
    /// Its attributes.
    pub attributes: Attributes,
    /// Where its content is.
    pub body: Body,
    /// Its access control list, if that says more than the mode, whose group digit is the list's mask then. Its other entries that a
    /// mode has may be older than the mode.
    pub acl: Option<Box<Acl>>,
}

/// Where an object's content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A directory, with the distribution that new files inherit.
    Directory(DistributionHint),
    /// A symbolic link's target.
    Link(Vec<u8>),
    /// A pipe, a socket or a device.
    Special {
        /// Which.
        kind: Kind,
        /// A device's number as Linux combines it from the major and minor number; 0 for others.
        device: u32,
    },
    /// A small file beside its metadata; the content if it was requested.
    Stuffed {
        /// How it will be striped when it grows.
        distribution: Distribution,
        /// The content, if requested.
        content: Option<Vec<u8>>,
        /// The content is frozen: it is being moved to the first server.
        moving: bool,
    },
    /// A file in datafiles.
    Striped {
        /// How it is striped.
        distribution: Distribution,
        /// Counts truncations.
        version: u64,
        /// The size that datafiles must first be truncated to, if a truncation was not finished.
        truncating: Option<u64>,
        /// The least lengths of the datafiles, in the order of the servers; 0 where there is no
        /// least length.
        lengths: Vec<u64>,
        /// It may have holes, or reserved space: its stored bytes may be fewer or more than its size.
        sparse: bool,
    },
}

impl Body {
    /// What kind of object this is.
    pub fn kind(&self) -> Kind {
        match self {
            Body::Directory(_) => Kind::Directory,
            Body::Link(_) => Kind::SymbolicLink,
            Body::Special { kind, .. } => *kind,
            Body::Stuffed { .. } | Body::Striped { .. } => Kind::File,
        }
    }

    /// A file's distribution.
    pub fn distribution(&self) -> Option<&Distribution> {
        match self {
            Body::Stuffed { distribution, .. } | Body::Striped { distribution, .. } => {
                Some(distribution)
            }
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => None,
        }
    }

    /// A device's number, and 0 for other objects.
    pub fn device(&self) -> u32 {
        match self {
            Body::Special { device, .. } => *device,
            _ => 0,
        }
    }
}

/// A path of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPath {
    /// The object.
    pub object: ObjectId,
    /// The path, from the root.
    pub path: Vec<u8>,
}

/// A directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name: not empty, neither `.` nor `..`, without slash and NUL.
    pub name: Vec<u8>,
    /// What it names.
    pub object: ObjectId,
    /// What kind of object that is.
    pub kind: Kind,
    /// The object's attributes, if requested.
    pub attributes: Option<Attributes>,
}

/// How far a check of the name space has come. Cursors are ordered as the check proceeds: by phase, then by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CheckCursor {
    /// Which kind of record is being checked, counted in the order of the check.
    pub phase: u8,
    /// The last record of that kind that has been checked.
    pub key: Vec<u8>,
}
