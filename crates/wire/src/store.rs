//! Records of the metadata store (`docs/formats/store.md`).
//!
//! The store is one ordered space of keys. A key's first byte is the kind of the record, and
//! numbers in keys are big-endian, so that records are in the order in which they are walked: the
//! entries of a directory are adjacent, sorted by name. Values start with [`RECORD_VERSION`].
//!
//! | key | value |
//! |---|---|
//! | `m` | [`Superblock`] |
//! | `i` | [`Counter`]: object ids below this may be in use |
//! | `n` | [`Counters`]: how many objects and removals there are |
//! | `p` | [`Counter`] of 0: programs may have files open that are kept for them |
//! | `y` | [`Counter`]: how often the layout has changed |
//! | `v` index | [`ServerRecord`]: an I/O server of the layout |
//! | `o` object | [`ObjectRecord`] |
//! | `c` object | the content of a stuffed file, without a version |
//! | `e` directory name | [`EntryRecord`] |
//! | `l` object directory name | nothing: a further name of an object, beside the one in its record |
//! | `r` object | [`RemovalRecord`] |
//! | `x` object | [`XattrsRecord`] |
//! | `q` object | [`OrphanRecord`]: a file without a name that was open |
//! | `s` client slot | [`SessionRecord`] |

use alloc::string::String;
use alloc::vec::Vec;

mod seal;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within};
use crate::fs::{
    Body, Distribution, DistributionHint, Generation, Incarnation, Kind, MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES, MAX_SERVER_NAME_BYTES, MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, ObjectId,
    Timestamp,
};

pub use seal::{MARK_BYTES, Mark, SEAL_BYTES, Stamp, seal, unseal};

/// First byte of every value but contents. Another number is another format.
pub const RECORD_VERSION: u8 = 3;

/// Key of the [`Superblock`].
pub const SUPERBLOCK_KEY: &[u8] = b"m";
/// Key of the [`Counter`] of object ids.
pub const NEXT_OBJECT_KEY: &[u8] = b"i";
/// Key of the [`Gaps`].
pub const GAPS_KEY: &[u8] = b"g";
/// Key of the [`Counters`].
pub const COUNTERS_KEY: &[u8] = b"n";
/// Key of the [`Counter`] of the layout's changes.
pub const LAYOUT_EPOCH_KEY: &[u8] = b"y";
/// Key of the [`Counter`] that is there while programs may have files open.
pub const PROGRAMS_KEY: &[u8] = b"p";

/// What a key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// See [`SUPERBLOCK_KEY`].
    Superblock,
    /// See [`NEXT_OBJECT_KEY`].
    NextObject,
    /// See [`GAPS_KEY`].
    Gaps,
    /// See [`COUNTERS_KEY`].
    Counters,
    /// See [`LAYOUT_EPOCH_KEY`].
    LayoutEpoch,
    /// See [`PROGRAMS_KEY`].
    Programs,
    /// An I/O server of the layout, by its number.
    Server(u16),
    /// An object.
    Object(ObjectId),
    /// The content of a stuffed file.
    Content(ObjectId),
    /// A directory entry.
    Entry(ObjectId, Vec<u8>),
    /// A further name of an object.
    Link(ObjectId, ObjectId, Vec<u8>),
    /// A file whose datafiles are still to be removed.
    Removal(ObjectId),
    /// An object's extended attributes.
    Xattrs(ObjectId),
    /// A file without a name.
    Orphan(ObjectId),
    /// The last change by a client's slot.
    Session(u128, u16),
}

impl Key {
    /// The key's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Key::Superblock => SUPERBLOCK_KEY.to_vec(),
            Key::NextObject => NEXT_OBJECT_KEY.to_vec(),
            Key::Gaps => GAPS_KEY.to_vec(),
            Key::Counters => COUNTERS_KEY.to_vec(),
            Key::LayoutEpoch => LAYOUT_EPOCH_KEY.to_vec(),
            Key::Programs => PROGRAMS_KEY.to_vec(),
            Key::Server(index) => server_key(*index),
            Key::Object(object) => object_key(*object),
            Key::Content(object) => content_key(*object),
            Key::Entry(directory, name) => entry_key(*directory, name),
            Key::Link(object, directory, name) => link_key(*object, *directory, name),
            Key::Removal(object) => removal_key(*object),
            Key::Xattrs(object) => xattrs_key(*object),
            Key::Orphan(object) => orphan_key(*object),
            Key::Session(client, slot) => session_key(*client, *slot),
        }
    }

    /// What `bytes` name.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Reader::new(bytes);
        let kind = input.u8("key kind")?;
        let id = |input: &mut Reader<'_>| {
            let raw = input.u64("key's object");
            raw.map(|raw| ObjectId(raw.swap_bytes()))
        };
        let name = |input: &mut Reader<'_>| -> Result<Vec<u8>, Malformed> {
            let len = input.remaining();
            within(len as u64, MAX_NAME_BYTES as u64, "key's name")?;
            Ok(input.take(len, "key's name")?.to_vec())
        };
        let key = match kind {
            b'm' => Key::Superblock,
            b'i' => Key::NextObject,
            b'g' => Key::Gaps,
            b'n' => Key::Counters,
            b'y' => Key::LayoutEpoch,
            b'p' => Key::Programs,
            b'v' => Key::Server(input.u16("key's server")?.swap_bytes()),
            b'o' => Key::Object(id(&mut input)?),
            b'c' => Key::Content(id(&mut input)?),
            b'e' => Key::Entry(id(&mut input)?, name(&mut input)?),
            b'l' => Key::Link(id(&mut input)?, id(&mut input)?, name(&mut input)?),
            b'r' => Key::Removal(id(&mut input)?),
            b'x' => Key::Xattrs(id(&mut input)?),
            b'q' => Key::Orphan(id(&mut input)?),
            b's' => Key::Session(
                input.u128("key's client")?.swap_bytes(),
                input.u16("key's slot")?.swap_bytes(),
            ),
            value => return unknown("key kind", value),
        };
        input.finish()?;
        Ok(key)
    }
}

fn key(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
    bytes.push(kind);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

/// Key of a [`ServerRecord`].
pub fn server_key(index: u16) -> Vec<u8> {
    key(b'v', &[&index.to_be_bytes()])
}

/// Key of an [`ObjectRecord`].
pub fn object_key(object: ObjectId) -> Vec<u8> {
    key(b'o', &[&object.0.to_be_bytes()])
}

/// Key of a stuffed file's content.
pub fn content_key(object: ObjectId) -> Vec<u8> {
    key(b'c', &[&object.0.to_be_bytes()])
}

/// Key of an [`EntryRecord`]; with an empty name, the prefix of a directory's entries.
pub fn entry_key(directory: ObjectId, name: &[u8]) -> Vec<u8> {
    key(b'e', &[&directory.0.to_be_bytes(), name])
}

/// Key of a further name.
pub fn link_key(object: ObjectId, directory: ObjectId, name: &[u8]) -> Vec<u8> {
    key(
        b'l',
        &[&object.0.to_be_bytes(), &directory.0.to_be_bytes(), name],
    )
}

/// Prefix of the keys of an object's further names.
pub fn links_prefix(object: ObjectId) -> Vec<u8> {
    key(b'l', &[&object.0.to_be_bytes()])
}

/// Key of a [`RemovalRecord`].
pub fn removal_key(object: ObjectId) -> Vec<u8> {
    key(b'r', &[&object.0.to_be_bytes()])
}

/// Key of an [`XattrsRecord`].
pub fn xattrs_key(object: ObjectId) -> Vec<u8> {
    key(b'x', &[&object.0.to_be_bytes()])
}

/// Key of an [`OrphanRecord`].
pub fn orphan_key(object: ObjectId) -> Vec<u8> {
    key(b'q', &[&object.0.to_be_bytes()])
}

/// Key of a [`SessionRecord`].
pub fn session_key(client: u128, slot: u16) -> Vec<u8> {
    key(b's', &[&client.to_be_bytes(), &slot.to_be_bytes()])
}

/// The identity of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// The file system's identity.
    pub file_system: u128,
    /// The generation of the server's directory that contains the store.
    pub generation: Generation,
    /// The incarnation of these metadata.
    pub incarnation: Incarnation,
}

/// Most gaps that are kept.
pub const MAX_GAPS: usize = 256;

/// Object numbers that these metadata have never assigned, although they have assigned later ones:
/// first number and end of each gap, in ascending order. An older copy of the metadata that was
/// restored has no record of files made after the copy; their numbers are in a gap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gaps(pub Vec<(u64, u64)>);

/// An I/O server of the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRecord {
    /// Its name.
    pub name: String,
    /// The formatting of its directory; none before it is registered.
    pub generation: Generation,
    /// The generation that an operator accepts instead, although other metadata may have enrolled
    /// it; usually none.
    pub accepted: Generation,
    /// Whether new files use it.
    pub active: bool,
}

/// A number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter(pub u64);

/// How many records there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Objects of all kinds.
    pub objects: u64,
    /// [`RemovalRecord`]s.
    pub removals: u64,
}

/// An object: its attributes, one of its names, and where its content is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Permission bits, [`HAS_ACL`] and [`HAS_DEFAULT_ACL`].
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of names; of a directory 2 plus its sub-directories.
    pub links: u32,
    /// Bytes of a file or of a link's target; entries of a directory.
    pub size: u64,
    /// Last access, as set.
    pub accessed: Timestamp,
    /// Last change of content.
    pub modified: Timestamp,
    /// Last change of attributes.
    pub changed: Timestamp,
    /// The directory that holds the object's first name; the root's is itself.
    pub parent: ObjectId,
    /// The object's first name; the root's is empty.
    pub name: Vec<u8>,
    /// Where the content is. A stuffed file's content is never in here.
    pub body: Body,
}

impl ObjectRecord {
    /// What kind of object this is.
    pub fn kind(&self) -> Kind {
        self.body.kind()
    }

    /// A file's distribution.
    pub fn distribution(&self) -> Option<&Distribution> {
        self.body.distribution()
    }

    /// A directory's default for new files.
    pub fn default_distribution(&self) -> Option<DistributionHint> {
        match self.body {
            Body::Directory(hint) => Some(hint),
            _ => None,
        }
    }
}

/// The value of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRecord {
    /// The object.
    pub object: ObjectId,
    /// What kind of object it is.
    pub kind: Kind,
}

/// A file that was removed but whose datafiles may still exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalRecord {
    /// Servers that may hold one.
    pub servers: Vec<u16>,
    /// How often the removal was recorded again because a datafile was written meanwhile: a removal
    /// for an earlier count has not removed that datafile.
    pub writes: u32,
}

/// A file that lost its last name while it was open, or may have been: it is removed when the last
/// program closes it. Its [`ObjectRecord`] counts no links, and has no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrphanRecord {
    /// When it lost its name.
    pub since: Timestamp,
}

/// In [`ObjectRecord::mode`]: an access control list that says more than the mode is among the extended attributes. The group digit of the
/// mode is its mask, the others are its owner's and that of others.
pub const HAS_ACL: u16 = 0o10000;
/// In [`ObjectRecord::mode`]: a directory has a default access control list among the extended attributes.
pub const HAS_DEFAULT_ACL: u16 = 0o20000;

/// Most extended attributes of an object.
pub const MAX_XATTRS: usize = 128;
/// Most bytes of names and values of an object's extended attributes.
pub const MAX_XATTRS_BYTES: usize = 128 << 10;

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredXattr {
    /// Its name, with its name space before it.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// An object's extended attributes, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XattrsRecord {
    /// Each name once; at least one.
    pub xattrs: Vec<StoredXattr>,
}

impl XattrsRecord {
    /// The value of one attribute in a record's bytes. Attributes behind it are not decoded.
    pub fn value_in(bytes: &[u8], name: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let mut input = Reader::new(bytes);
        check_version(&mut input)?;
        for _ in 0..input.count(MAX_XATTRS, 8, "extended attributes")? {
            let xattr = StoredXattr::decode(&mut input)?;
            if xattr.name.as_slice() >= name {
                return Ok((xattr.name == name).then_some(xattr.value));
            }
        }
        Ok(None)
    }
}

/// The last change that was requested under a client's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its number.
    pub sequence: u64,
    /// How long the reply may still be requested, in seconds since the last request.
    pub lease_s: u32,
    /// The encoded reply.
    pub reply: Vec<u8>,
}

macro_rules! records {
    ($($type:ident { $($fields:tt)* })*) => {
        $(record!($type, "record version" = RECORD_VERSION; { $($fields)* });)*
    };
}

records! {
    Superblock { file_system: u128, generation: wire, incarnation: wire }
    ServerRecord {
        name: text(MAX_SERVER_NAME_BYTES),
        generation: wire,
        accepted: wire,
        active: bool,
    }
    Counters { objects: u64, removals: u64 }
    ObjectRecord {
        mode: u16,
        uid: u32,
        gid: u32,
        links: u32,
        size: u64,
        accessed: wire,
        modified: wire,
        changed: wire,
        parent: wire,
        name: bytes(MAX_NAME_BYTES),
        body: wire,
    }
    EntryRecord { object: wire, kind: wire }
    XattrsRecord { xattrs: list(8, MAX_XATTRS) }
    OrphanRecord { since: wire }
    RemovalRecord { servers: u16s(usize::from(u16::MAX)), writes: u32 }
    SessionRecord { sequence: u64, lease_s: u32, reply: bytes(MAX_MESSAGE_BYTES) }
}

record! { StoredXattr {
    name: bytes(MAX_XATTR_NAME_BYTES), value: bytes(MAX_XATTR_VALUE_BYTES),
} }

/// Takes the first byte of a value.
fn check_version(input: &mut Reader<'_>) -> Result<(), Malformed> {
    match input.u8("record version")? {
        RECORD_VERSION => Ok(()),
        value => unknown("record version", value),
    }
}

impl Wire for Counter {
    fn encode(&self, out: &mut Writer) {
        out.u8(RECORD_VERSION);
        out.u64(self.0);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_version(input)?;
        input.u64("counter").map(Counter)
    }
}

impl Wire for Gaps {
    fn encode(&self, out: &mut Writer) {
        out.u8(RECORD_VERSION);
        out.u32(self.0.len() as u32);
        for (from, to) in &self.0 {
            out.u64(*from);
            out.u64(*to);
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        check_version(input)?;
        let gap = |input: &mut Reader<'_>| {
            Ok((
                input.u64("first number of a gap")?,
                input.u64("end of a gap")?,
            ))
        };
        list(input, MAX_GAPS, 16, "gaps", gap).map(Gaps)
    }
}

#[cfg(test)]
mod tests;
