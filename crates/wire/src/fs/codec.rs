//! Encodings of requests, replies and their parts (`docs/formats/fs.md`).
//!
//! The tables here are the format, in the notation of [`crate::codec::fields`]: fields are encoded
//! in the order of the table. Numbers of variants are never reused for something else. Every list
//! is also bounded by the message's own length.

use super::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Longest sentence in a [`Failure`], in bytes; a longer one is cut.
pub const MAX_FAILURE_BYTES: usize = 1024;
/// Longest finding of a check, in bytes; a longer one is cut.
pub const MAX_FINDING_BYTES: usize = 8 << 10;

/// Fewest bytes of a region's descriptor: key, base, length, no object.
pub(super) const MIN_DESCRIPTOR_BYTES: usize = 25;
/// Fewest bytes of an entry: an empty name, object, kind, no attributes.
const MIN_ENTRY_BYTES: usize = 14;
/// Fewest bytes of a striped file: object and two empty lists.
const MIN_STRIPED_BYTES: usize = 16;
/// Fewest bytes of a datafile's fault: an empty text.
const MIN_FAULT_BYTES: usize = 28;
/// Longest path in a reply, in bytes: deep trees have paths that no single request can name.
const MAX_LONG_PATH_BYTES: usize = MAX_MESSAGE_BYTES;

variants!(Operation, "operation", {
    1 => Lookup { place: wire, follow: bool, content: bool },
    2 => GetNode { object: wire, content: bool },
    3 => Create {
        place: wire,
        exclusive: bool,
        mode: u16,
        distribution: option,
        content: bytes(MAX_STUFFED_BYTES),
    },
    4 => MakeDirectory { place: wire, mode: u16, distribution: option },
    5 => SymbolicLink { place: wire, target: bytes(MAX_PATH_BYTES) },
    6 => HardLink { object: wire, place: wire },
    7 => Rename { from: wire, to: wire, no_replace: bool },
    8 => Unlink { place: wire, expected: option },
    9 => RemoveDirectory { place: wire, expected: option },
    10 => ReadDirectory {
        object: wire,
        after: bytes(MAX_NAME_BYTES),
        limit: u32,
        attributes: bool,
    },
    11 => SetAttributes { object: wire, set: wire },
    12 => Truncate { object: wire, size: u64 },
    13 => FinishTruncate { object: wire, version: u64 },
    14 => Extend {
        object: wire,
        end: u64,
        modified: wire,
        version: u64,
        reached: list(10),
        from: u64,
    },
    15 => WriteStuffed { object: wire, offset: u64, data: bytes(MAX_STUFFED_BYTES) },
    16 => BeginUnstuff { object: wire },
    17 => FinishUnstuff { object: wire },
    18 => Commit,
    19 => MetadataStatus,
    20 => Exist { objects: list(8) },
    21 => Check { after: option, repair: bool },
    22 => AddServer { name: text(MAX_SERVER_NAME_BYTES) },
    23 => AcceptServer { name: text(MAX_SERVER_NAME_BYTES), generation: wire },
    24 => DrainServer { name: text(MAX_SERVER_NAME_BYTES) },
    25 => EndSession,

    32 => Append { object: wire, data: bytes(MAX_STUFFED_BYTES) },
    33 => BeginAppend { object: wire },
    34 => EndAppend {
        object: wire,
        append_lock: u64,
        end: u64,
        modified: wire,
        version: u64,
        reached: list(10),
    },
    35 => CancelAppend { object: wire, append_lock: u64 },
    36 => CheckAppendLock { object: wire, append_lock: u64, end: bool },
    37 => MovePointer { object: wire, pointer: u64, number: u64, step: wire },

    40 => ListStriped { after: wire, limit: u32 },
    41 => Paths { objects: list(8) },
    50 => Grow { object: wire, size: u64 },
    51 => SetXattr {
        object: wire,
        name: bytes(MAX_XATTR_NAME_BYTES),
        value: bytes(MAX_XATTR_VALUE_BYTES),
        mode: wire,
    },
    52 => RemoveXattr { object: wire, name: bytes(MAX_XATTR_NAME_BYTES) },
    53 => GetXattr { object: wire, name: bytes(MAX_XATTR_NAME_BYTES) },
    54 => ListXattrs { object: wire },
    55 => Exchange { first: wire, second: wire },

    64 => Read {
        object: wire,
        at_least: u64,
        regions: wire,
        memory: list(MIN_DESCRIPTOR_BYTES),
        sums: wire,
    },
    65 => Write {
        object: wire,
        number: u64,
        repeated: option,
        at_least: u64,
        regions: wire,
        memory: list(MIN_DESCRIPTOR_BYTES),
        inline: bytes(MAX_MESSAGE_BYTES),
        append_lock: u64,
    },
    66 => Seed { object: wire, content: bytes(MAX_STUFFED_BYTES) },
    67 => TruncateData { object: wire, size: u64, version: u64, at_least: u64 },
    68 => Flush { object: wire, at_least: u64 },
    69 => Remove { objects: list(8) },
    70 => ListData { after: wire, limit: u32 },
    71 => StorageStatus,
    72 => Enroll { index: u16, incarnation: wire, replace: bool },
    73 => FindData { object: wire, at_least: u64, offset: u64 },
    74 => Clock,
    75 => PunchData { object: wire, number: u64, repeated: option, at_least: u64, region: wire },
    76 => ReserveData { object: wire, at_least: u64, region: wire },
    77 => FindDescriptor { object: wire },
    80 => CheckData { datafiles: list(16) },
    81 => RemoveOrphans { objects: list(8), numbers: u64 },
    82 => Scrub { from: option, bytes: u64 },
    83 => AcceptData { objects: list(8) },
    100 => MakeSpecial { place: wire, kind: wire, mode: u16, device: u32 },
    101 => Filled { object: wire, changed: wire },
    110 => StoredData { object: wire },
    112 => Authorize,
    113 => EndCapabilities { ended: list(16) },

    96 => Lock { lock: wire, wait: u64 },
    97 => Unlock { object: wire, family: wire, owner: u64, range: wire },
    98 => TestLock { lock: wire },
    99 => CancelLock { wait: u64 },
    // 120 stands in front of an operation with an opening.
    121 => CloseFiles { session: u128, handles: u64s(MAX_NAMED_FILES) },
    122 => KeepFiles { session: u128, files: list(16, MAX_NAMED_FILES) },
    130 => HoldLeases { holder: u128, recalls: u64, ended: u64 },
    131 => EndLeases { holder: u128 },

    // 128 was a greeting without a layout.
    129 => Hello { layout_from: u16, timeout_s: u32 },
});

variants!(ReplyBody, "reply body", {
    1 => Done,
    2 => Node(node: boxed),
    3 => Entries { entries: list(MIN_ENTRY_BYTES), end: bool },
    4 => Transferred {
        bytes: u64,
        size: u64,
        copy_us: u32,
        storage_us: u32,
        inline: bytes(MAX_MESSAGE_BYTES),
        sums: list(4),
    },
    5 => Objects(objects: list(8)),
    6 => Datafiles { datafiles: list(16), end: bool },
    7 => Checked {
        next: option,
        records: u64,
        findings: texts(MAX_FINDING_BYTES),
        mended: u64,
    },
    8 => MetadataStatus { objects: u64, removals: u64, numbers: u64, gaps: list(16) },
    9 => StorageStatus {
        total: u64,
        free: u64,
        written: u64,
        read: u64,
        busy: u32,
        aside: u64,
        aside_bytes: u64,
    },
    // 10 was a greeting without a layout.
    11 => Hello(greeting: boxed),
    20 => StripedFiles { files: list(MIN_STRIPED_BYTES), end: bool },
    21 => Paths(paths: list(12)),
    22 => Faults(faults: list(MIN_FAULT_BYTES)),
    23 => OrphansRemoved { deleted: u64, moved: u64 },
    24 => Scrubbed {
        next: option,
        bytes: u64,
        datafiles: u64,
        faults: list(MIN_FAULT_BYTES),
    },
    25 => Data { first: option },
    26 => Clock(moment: wire),
    32 => AppendLock { append_lock: u64, node: boxed },
    40 => Punched { next: option_u64 },
    41 => Xattr(value: bytes(MAX_XATTR_VALUE_BYTES)),
    42 => XattrNames(names: list(4)),
    58 => Stored(bytes: u64),
    59 => Descriptor(descriptor: option),
    60 => Pointer(position: u64),
    64 => LockWaits,
    65 => LockHolder { holder: option },
    66 => NoEntry,
    67 => Recall { number: u64, leases: list(9, MAX_RECALLED) },
});

variants!(Regions, "regions", {
    1 => Here(regions: list(16)),
    2 => There { count: u64, list: wire },
    3 => Strided { offset: u64, len: u64, stride: u64, count: u64 },
});

record! { CheckCursor { phase: u8, key: bytes(MAX_CURSOR_BYTES) } }

record! { Place { base: wire, path: bytes(MAX_PATH_BYTES) } }
record! { XattrName { name: bytes(MAX_XATTR_NAME_BYTES) } }
record! { Lock {
    object: wire, family: wire, owner: u64, exclusive: bool, range: wire, pid: u32,
} }
record! { LockHolder { exclusive: bool, range: wire, pid: u32 } }
record! { Region { offset: u64, len: u64 } }
record! { FileDescriptor { number: u32, device: u64, inode: u64 } }
record! { Reach { position: u16, end: u64 } }
record! { ScrubPosition { object: wire, offset: u64 } }
record! { DataFault { object: wire, offset: u64, len: u64, text: text(MAX_FAILURE_BYTES) } }
record! { StripedFile {
    object: wire, servers: u16s(MAX_STRIPE_SERVERS), lengths: u64s(MAX_STRIPE_SERVERS),
} }
record! { ObjectPath { object: wire, path: bytes(MAX_LONG_PATH_BYTES) } }
record! { DistributionHint { strip_size: u32, servers: u16, start: u16 } }
record! { Attributes {
    kind: wire, mode: u16, uid: u32, gid: u32, links: u32, size: u64, accessed: wire,
    modified: wire, changed: wire,
} }
record! { Failure { errno: wire, message: text(MAX_FAILURE_BYTES) } }

/// Without what stands behind it from format 13 on.
impl Wire for Caller {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.uid);
        out.u32(self.gid);
        put!(u32s(MAX_GROUPS), &self.groups, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            uid: input.u32("uid")?,
            gid: input.u32("gid")?,
            groups: take!(u32s(MAX_GROUPS), input, "groups"),
            umask: 0,
        })
    }
}

/// Without its access control list, which stands behind the reply from format 13 on.
impl Wire for Node {
    fn encode(&self, out: &mut Writer) {
        self.object.encode(out);
        self.attributes.encode(out);
        self.body.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            object: ObjectId::decode(input)?,
            attributes: Attributes::decode(input)?,
            body: Body::decode(input)?,
            acl: None,
        })
    }
}

impl Wire for u32 {
    fn encode(&self, out: &mut Writer) {
        out.u32(*self);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        input.u32("sum")
    }
}

number!(ObjectId: u64, "object");
number!(Errno: u16, "errno");

/// A datafile and its size.
impl Wire for (ObjectId, u64) {
    fn encode(&self, out: &mut Writer) {
        self.0.encode(out);
        out.u64(self.1);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok((ObjectId::decode(input)?, input.u64("datafile size")?))
    }
}

impl Wire for Timestamp {
    fn encode(&self, out: &mut Writer) {
        out.i64(self.seconds);
        out.u32(self.nanoseconds);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let seconds = input.i64("seconds")?;
        match input.u32("nanoseconds")? {
            nanoseconds @ 0..=999_999_999 => Ok(Self {
                seconds,
                nanoseconds,
            }),
            value => unknown("nanoseconds", value),
        }
    }
}

/// A byte with one bit per attribute that is present, then those attributes.
impl Wire for SetAttributes {
    fn encode(&self, out: &mut Writer) {
        let present = [
            self.mode.is_some(),
            self.uid.is_some(),
            self.gid.is_some(),
            self.accessed.is_some(),
            self.modified.is_some(),
            self.distribution.is_some(),
        ];
        let bits = present
            .iter()
            .rev()
            .fold(0, |bits, present| bits << 1 | u8::from(*present));
        out.u8(bits);
        self.mode.iter().for_each(|mode| out.u16(*mode));
        self.uid.iter().for_each(|uid| out.u32(*uid));
        self.gid.iter().for_each(|gid| out.u32(*gid));
        self.accessed.iter().for_each(|time| time.encode(out));
        self.modified.iter().for_each(|time| time.encode(out));
        self.distribution.iter().for_each(|hint| hint.encode(out));
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let bits = input.u8("attributes to set")?;
        if bits >= 1 << 6 {
            return unknown("attributes to set", bits);
        }
        let has = |bit: u8| bits & (1 << bit) != 0;
        Ok(Self {
            mode: has(0).then(|| input.u16("mode")).transpose()?,
            uid: has(1).then(|| input.u32("uid")).transpose()?,
            gid: has(2).then(|| input.u32("gid")).transpose()?,
            accessed: has(3).then(|| Timestamp::decode(input)).transpose()?,
            modified: has(4).then(|| Timestamp::decode(input)).transpose()?,
            distribution: has(5)
                .then(|| DistributionHint::decode(input))
                .transpose()?,
        })
    }
}

/// A name that is valid in a directory: a client that joins it to a path stays below that path.
impl Wire for Entry {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.name);
        self.object.encode(out);
        self.kind.encode(out);
        put!(option, &self.attributes, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let name = take!(bytes(MAX_NAME_BYTES), input, "name");
        if matches!(name.as_slice(), b"" | b"." | b"..") {
            return unknown("name", name.first().copied().unwrap_or_default());
        }
        if let Some(byte) = name.iter().find(|byte| matches!(byte, 0 | b'/')) {
            return unknown("name", *byte);
        }
        Ok(Self {
            name,
            object: Wire::decode(input)?,
            kind: Wire::decode(input)?,
            attributes: take!(option, input, "attributes"),
        })
    }
}

/// A strip size and servers, neither of them zero: a client divides by them.
impl Wire for Distribution {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.strip_size);
        put!(u16s(MAX_STRIPE_SERVERS), &self.servers, out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let strip_size = input.u32("strip size")?;
        if strip_size == 0 {
            return unknown("strip size", strip_size);
        }
        let servers = take!(u16s(MAX_STRIPE_SERVERS), input, "servers");
        if servers.is_empty() {
            return unknown("number of servers", 0u8);
        }
        Ok(Self {
            strip_size,
            servers,
        })
    }
}
