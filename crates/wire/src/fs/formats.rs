//! The formats of requests and replies, and how the two sides agree on one.
//!
//! The first byte of a message is its format. A client begins with the highest that it speaks, and
//! from format 7 on states which is its lowest. A server replies in the request's format; a request
//! of a format above all of its own is refused in the server's highest, with which the client
//! continues ([`Reply::refusal_of`]). The fields before a request, and a failure as a whole, have
//! the same bytes in every format.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::capability::take_optional;
use super::*;
use crate::codec::within;
use crate::formats::Formats;

/// The formats that this build speaks.
///
/// | format | has in addition |
/// |---|---|
/// | 5 | |
/// | 6 | writes with a number, and with the time since when they may have been stored; [`Operation::Clock`] |
/// | 7 | the lowest format that the client speaks, in each request |
/// | 8 | append locks of writes, and the operations of which [`Operation::lowest_format`] says so |
/// | 9 | locks |
/// | 10 | which files may have holes: `from` in [`Operation::Extend`], `sparse` in nodes; [`Operation::StoredData`]; pipes, sockets and devices |
/// | 11 | files that are open: [`Request::opening`], [`Operation::CloseFiles`], [`Operation::KeepFiles`] |
/// | 12 | capabilities, in requests and behind the bodies of replies |
/// | 13 | capabilities in requests without what the request says itself; [`super::Errno::REVOKED`]; access control lists: extended attributes of their names, [`Node::acl`], [`Caller::umask`] |
/// | 14 | leases: [`Request::holder`], the time of a lease behind the bodies of replies, [`Operation::HoldLeases`], [`Operation::EndLeases`]; pointers that several clients share: [`Operation::MovePointer`]; append locks that clients ask after: [`Operation::CheckAppendLock`] |
/// | 15 | leases with the replies to changes; beside a lease, whether it is good for all users of the client's host, and the changed directory's attributes: [`GrantedLease`] |
/// | 16 | datafiles that clients on the server's host read themselves: [`Operation::FindDescriptor`], [`WantedSums::Only`] |
pub const FORMATS: Formats = Formats {
    lowest: 5,
    highest: DESCRIPTORS,
};

/// The first format in which writes have numbers and servers report their clocks.
pub const NUMBERED_WRITES: u8 = 6;

/// The first format whose requests state the lowest that the client speaks. Builds before spoke one format each.
pub(super) const STATING: u8 = 7;

/// The format of replies that a metadata store keeps.
pub const STORED_REPLIES: u8 = 6;

/// The first format with operations for more than names, attributes and data, and whose writes have
/// an append lock.
pub const EXTENDED: u8 = 8;

/// The first format whose metadata servers keep locks.
pub const LOCKS: u8 = 9;
/// The first format that distinguishes files with holes from others, and has pipes, sockets and
/// devices.
pub const NODES: u8 = 10;
/// The first format whose metadata servers keep files that are open.
pub const OPENS: u8 = 11;
/// The first format whose requests and replies have capabilities.
pub const CAPABILITIES: u8 = 12;
/// The first format whose capabilities leave out the fields that the request contains itself.
pub const SHORT_CAPABILITIES: u8 = 13;
/// The first format whose writes may end in the middle, with [`super::Errno::REVOKED`].
pub const REVOCATIONS: u8 = 13;
/// The first format whose servers have access control lists.
pub const ACLS: u8 = 13;
/// The first format whose metadata servers give leases on names and attributes.
pub const LEASES: u8 = 14;
/// The first format whose metadata servers keep pointers that clients share, and tell clients whether they still have an append lock.
pub const POINTERS: u8 = 14;
/// The first format whose metadata servers give leases on what changes have left.
pub const LEASES_OF_CHANGES: u8 = 15;
/// The first format whose I/O servers tell clients on their host by which descriptors they have datafiles open.
pub const DESCRIPTORS: u8 = 16;

/// The name of this protocol in errors.
const PROTOCOL: &str = "the file system's protocol";

/// Room for a usual message besides the data inside it, so that encoding it need not reallocate.
const USUAL_BYTES: usize = 384;

/// [`Operation::Extend`] on the wire.
const EXTEND: u8 = 14;
/// [`Operation::Write`] on the wire.
const WRITE: u8 = 65;
/// The number before an operation with an [`Opening`].
const OPENING: u8 = 120;

/// What a server grants beside the result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Granted {
    /// The right to an object's datafiles.
    pub capability: Option<Capability>,
    /// Leases on names and attributes in the reply.
    pub lease: Option<GrantedLease>,
}

/// Leases that come with a reply: with that to [`Operation::GetNode`], on the object's attributes; with that to [`Operation::Lookup`] of one name, on
/// the name and on the attributes of what it stands for. With the reply to an operation that makes an object, or a name of one, in a directory, on the
/// same; with that to [`Operation::Rename`], on the new name; with that to [`Operation::Exchange`], on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantedLease {
    /// For how long they are good, in milliseconds, from when the request was sent.
    pub time_ms: u32,
    /// Changes bring leases, too, in this format: it is from [`LEASES_OF_CHANGES`] on.
    pub of_changes: bool,
    /// The server would have replied in the same way to all users for whom the client's host may speak, except for permissions in the modes and lists
    /// of directories. `false` in formats before [`LEASES_OF_CHANGES`].
    pub for_all_users: bool,
    /// If the operation has changed one directory: the attributes of this directory after the change, on which there
    /// is such a lease, too.
    pub directory: Option<Attributes>,
}

impl GrantedLease {
    fn encode(&self, out: &mut Writer, format: u8) {
        out.u32(self.time_ms);
        if format >= LEASES_OF_CHANGES {
            out.bool(self.for_all_users);
            put_option(&self.directory, out, Wire::encode);
        }
    }

    fn decode(input: &mut Reader<'_>, format: u8) -> Result<Self, Malformed> {
        let time_ms = input.u32("time of a lease")?;
        if format < LEASES_OF_CHANGES {
            return Ok(Self {
                time_ms,
                ..Self::default()
            });
        }
        Ok(Self {
            time_ms,
            of_changes: true,
            for_all_users: input.bool("users of a lease")?,
            directory: match input.bool("attributes of a directory")? {
                true => Some(Attributes::decode(input)?),
                false => None,
            },
        })
    }
}

impl Operation {
    /// The lowest format that has this operation.
    pub fn lowest_format(&self) -> u8 {
        match self {
            Operation::Clock => NUMBERED_WRITES,
            Operation::SetXattr { name, .. }
            | Operation::RemoveXattr { name, .. }
            | Operation::GetXattr { name, .. }
                if AclKind::of_xattr(name).is_some() =>
            {
                ACLS
            }
            Operation::Write {
                append_lock: 1.., ..
            }
            | Operation::Append { .. }
            | Operation::BeginAppend { .. }
            | Operation::EndAppend { .. }
            | Operation::CancelAppend { .. }
            | Operation::Grow { .. }
            | Operation::SetXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::GetXattr { .. }
            | Operation::ListXattrs { .. }
            | Operation::Exchange { .. }
            | Operation::PunchData { .. }
            | Operation::ReserveData { .. } => EXTENDED,
            Operation::Lock { .. }
            | Operation::Unlock { .. }
            | Operation::TestLock { .. }
            | Operation::CancelLock { .. } => LOCKS,
            Operation::StoredData { .. }
            | Operation::Filled { .. }
            | Operation::MakeSpecial { .. } => NODES,
            Operation::CloseFiles { .. } | Operation::KeepFiles { .. } => OPENS,
            Operation::Authorize | Operation::EndCapabilities { .. } => CAPABILITIES,
            Operation::HoldLeases { .. } | Operation::EndLeases { .. } => LEASES,
            Operation::CheckAppendLock { .. } | Operation::MovePointer { .. } => POINTERS,
            Operation::FindDescriptor { .. }
            | Operation::Read {
                sums: WantedSums::Only,
                ..
            } => DESCRIPTORS,
            _ => FORMATS.lowest,
        }
    }

    /// The lowest format that has the operation's number, whatever its fields are there.
    fn known_since(&self) -> u8 {
        match self {
            Operation::SetXattr { .. }
            | Operation::RemoveXattr { .. }
            | Operation::GetXattr { .. } => EXTENDED,
            operation => operation.lowest_format(),
        }
    }
}

impl Request {
    /// Encodes the request in the highest of `formats`, for a client whose lowest format is the
    /// lowest of them.
    pub fn to_bytes(&self, formats: Formats) -> Vec<u8> {
        let inside = match &self.operation {
            Operation::Write { inline, .. } => inline.len(),
            _ => 0,
        };
        let mut out = Writer::onto(Vec::with_capacity(USUAL_BYTES + inside));
        out.u8(formats.highest);
        out.u64(self.reply_tag);
        if formats.highest >= STATING {
            out.u8(formats.lowest);
        }
        self.target.encode(&mut out);
        out.u128(self.client);
        out.u16(self.slot);
        out.u64(self.sequence);
        self.caller.encode(&mut out);
        if formats.highest >= ACLS {
            out.u16(self.caller.umask);
        }
        match formats.highest {
            SHORT_CAPABILITIES.. => put_option(&self.capability, &mut out, |capability, out| {
                capability.encode_shown(self.caller.uid, out);
            }),
            CAPABILITIES => put_option(&self.capability, &mut out, Wire::encode),
            _ => {}
        }
        if formats.highest >= LEASES {
            put_option(&self.holder, &mut out, |holder, out| out.u128(*holder));
        }
        if let Some(opening) = &self.opening
            && formats.highest >= OPENS
        {
            out.u8(OPENING);
            opening.encode(&mut out);
        }
        let operation = match formats.highest {
            ACLS.. => Cow::Borrowed(&self.operation),
            _ => masked(&self.operation, self.caller.umask),
        };
        match &*operation {
            Operation::Write {
                object,
                number,
                repeated,
                at_least,
                regions,
                memory,
                inline,
                ..
            } if formats.highest < EXTENDED => {
                out.u8(WRITE);
                object.encode(&mut out);
                if formats.highest >= NUMBERED_WRITES {
                    out.u64(*number);
                    put_option(repeated, &mut out, Wire::encode);
                }
                out.u64(*at_least);
                regions.encode(&mut out);
                put_list(memory, &mut out);
                out.bytes(inline);
            }
            Operation::Extend {
                object,
                end,
                modified,
                version,
                reached,
                ..
            } if formats.highest < NODES => {
                out.u8(EXTEND);
                object.encode(&mut out);
                out.u64(*end);
                modified.encode(&mut out);
                out.u64(*version);
                put_list(reached, &mut out);
            }
            operation => operation.encode(&mut out),
        }
        out.finish()
    }

    /// Decodes a request of a format that this build speaks. Its format is the highest of those
    /// that are returned.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, Formats), Malformed> {
        let mut input = Reader::new(bytes);
        let format = take_format(&mut input)?;
        let reply_tag = input.u64("reply tag")?;
        let formats = stated(format, &mut input)?;
        let target = Target::decode(&mut input)?;
        let client = input.u128("client")?;
        let slot = input.u16("slot")?;
        let sequence = input.u64("sequence")?;
        let caller = take_caller(format, &mut input)?;
        let mut capability = take_shown(format, (caller.uid, client), &mut input)?;
        let holder = match format >= LEASES && input.bool("holder")? {
            true => Some(input.u128("holder")?),
            false => None,
        };
        let opening = take_opening(format, &mut input)?;
        let operation = take_operation(format, &mut input)?;
        input.finish()?;
        if let Some(shown) = &mut capability
            && format >= SHORT_CAPABILITIES
        {
            let needed = operation.needs().what();
            shown.object = needed.map_or(ObjectId(0), |(object, _)| object);
        }
        let request = Self {
            reply_tag,
            target,
            client,
            slot,
            sequence,
            caller,
            capability,
            holder,
            opening,
            operation,
        };
        match (&request.opening, &request.operation) {
            (None, _)
            | (
                _,
                Operation::Lookup { .. } | Operation::GetNode { .. } | Operation::Create { .. },
            ) => Ok((request, formats)),
            _ => unknown("operation that opens a file", OPENING),
        }
    }

    /// The formats that the client of a request speaks, as far as the request states them. The request's own format need not be known.
    pub fn formats_of(bytes: &[u8]) -> Option<Formats> {
        let mut input = Reader::new(bytes);
        let format = input.u8("format").ok()?;
        input.u64("reply tag").ok()?;
        stated(format, &mut input).ok()
    }

    /// The reply tag of bytes that may not be a whole request, so that the server can reply to a
    /// malformed one.
    pub fn reply_tag_of(bytes: &[u8]) -> Option<u64> {
        let mut input = Reader::new(bytes);
        input.u8("format").ok()?;
        input.u64("reply tag").ok()
    }
}

impl Reply {
    /// Encodes the reply in this format, without anything granted: what an earlier format does not
    /// have is left out.
    pub fn to_bytes(&self, format: u8) -> Vec<u8> {
        self.to_bytes_with(&Granted::default(), format)
    }

    /// Encodes the reply in this format, with what is granted if it is a success and as far as the
    /// format has it.
    pub fn to_bytes_with(&self, granted: &Granted, format: u8) -> Vec<u8> {
        let mut earlier = (format < NODES && self.lowest_format() >= NODES)
            .then(|| self.for_formats_before_nodes());
        if format < ACLS && self.has_acl() {
            earlier.get_or_insert_with(|| self.clone()).hide_acl();
        }
        let inside = match &self.result {
            Ok(ReplyBody::Transferred { inline, sums, .. }) => inline.len() + 4 * sums.len(),
            _ => 0,
        };
        let mut out = Writer::onto(Vec::with_capacity(USUAL_BYTES + inside));
        out.u8(format);
        match &earlier.as_ref().unwrap_or(self).result {
            Ok(result) => {
                out.u8(0);
                result.encode(&mut out);
                if format >= CAPABILITIES {
                    put_option(&granted.capability, &mut out, Wire::encode);
                }
                if format >= LEASES {
                    put_option(&granted.lease, &mut out, |lease, out| {
                        lease.encode(out, format);
                    });
                }
                if format >= ACLS
                    && let ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. } = result
                {
                    put_option(&node.acl, &mut out, |acl, out| acl.encode(out));
                }
            }
            Err(failure) => {
                out.u8(1);
                failure.encode(&mut out);
            }
        }
        out.finish()
    }

    /// Decodes a reply of a format that this build speaks, which is returned with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<(Self, u8), Malformed> {
        Self::from_bytes_with(bytes).map(|(reply, _, format)| (reply, format))
    }

    /// Decodes a reply, with what is granted with it.
    pub fn from_bytes_with(bytes: &[u8]) -> Result<(Self, Granted, u8), Malformed> {
        let mut input = Reader::new(bytes);
        let format = take_format(&mut input)?;
        let mut granted = Granted::default();
        let result = match input.u8("reply kind")? {
            0 => {
                let mut body = ReplyBody::decode(&mut input)?;
                granted = Granted {
                    capability: take_optional(format >= CAPABILITIES, &mut input)?,
                    lease: match format >= LEASES && input.bool("lease")? {
                        true => Some(GrantedLease::decode(&mut input, format)?),
                        false => None,
                    },
                };
                if format >= ACLS
                    && let ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. } = &mut body
                    && input.bool("access control list")?
                {
                    node.acl = Some(Box::new(Acl::decode(&mut input)?));
                }
                Ok(body)
            }
            1 => Err(Failure::decode(&mut input)?),
            value => return unknown("reply kind", value),
        };
        input.finish()?;
        let reply = Self { result };
        if format < reply.lowest_format() {
            return unknown("reply body", format);
        }
        Ok((reply, granted, format))
    }

    /// The lowest format that has all of it.
    pub fn lowest_format(&self) -> u8 {
        match &self.result {
            Ok(ReplyBody::Descriptor(_)) => DESCRIPTORS,
            Ok(ReplyBody::NoEntry | ReplyBody::Recall { .. }) => LEASES,
            Ok(ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. })
                if node.acl.is_some() =>
            {
                ACLS
            }
            Ok(ReplyBody::Stored(_)) => NODES,
            Ok(ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. })
                if matches!(
                    node.body,
                    Body::Striped { sparse: true, .. } | Body::Special { .. }
                ) =>
            {
                NODES
            }
            Ok(ReplyBody::Entries { entries, .. })
                if entries.iter().any(|entry| entry.kind.is_special()) =>
            {
                NODES
            }
            Ok(
                ReplyBody::AppendLock { .. }
                | ReplyBody::Punched { .. }
                | ReplyBody::Xattr(_)
                | ReplyBody::XattrNames(_),
            ) => EXTENDED,
            Ok(ReplyBody::LockWaits | ReplyBody::LockHolder { .. }) => LOCKS,
            Ok(ReplyBody::Pointer(_)) => POINTERS,
            Ok(ReplyBody::Clock(_)) => NUMBERED_WRITES,
            _ => FORMATS.lowest,
        }
    }

    fn has_acl(&self) -> bool {
        match &self.result {
            Ok(ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. }) => node.acl.is_some(),
            _ => false,
        }
    }

    /// Leaves out the access control list. A client that does not know the list reads the mode's group digit as the permissions of the owning
    /// group, so the digit is set to these.
    fn hide_acl(&mut self) {
        if let Ok(ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. }) = &mut self.result
            && let Some(acl) = node.acl.take()
        {
            node.attributes.mode = acl.mode_without(node.attributes.mode);
        }
    }

    /// The object as it is described to clients of formats before [`NODES`].
    fn for_formats_before_nodes(&self) -> Self {
        let mut reply = self.clone();
        match &mut reply.result {
            Ok(ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. }) => {
                match &mut node.body {
                    Body::Striped { sparse, .. } => *sparse = false,
                    Body::Special { .. } => {
                        let message = alloc::format!(
                            "a pipe, a socket or a device, which needs format {NODES} of {PROTOCOL}; upgrade the client"
                        );
                        reply.result = Err(Failure {
                            errno: Errno::EOPNOTSUPP,
                            message,
                        });
                    }
                    _ => {}
                }
            }
            // They exist, and can be removed.
            Ok(ReplyBody::Entries { entries, .. }) => {
                for entry in entries.iter_mut().filter(|entry| entry.kind.is_special()) {
                    entry.kind = Kind::File;
                    if let Some(attributes) = &mut entry.attributes {
                        attributes.kind = Kind::File;
                    }
                }
            }
            _ => {}
        }
        reply
    }

    /// If `bytes` refuses a request of the format `asked`, which is above all that the server speaks: the server's highest format, and its
    /// text. `None` for any other reply; a refusal of a format below is an ordinary reply in that format ([`format_of_refusal`]).
    pub fn refusal_of(bytes: &[u8], asked: u8) -> Option<(u8, Failure)> {
        let [format, 1, failure @ ..] = bytes else {
            return None;
        };
        let refused = *format != asked && bytes.len() <= MAX_MESSAGE_BYTES;
        let failure = Failure::from_bytes(failure).ok()?;
        (refused && failure.errno == Errno::EPROTO).then_some((*format, failure))
    }
}

/// In which format a server refuses a request of a format that it does not speak: one above its own
/// formats in its highest, so that the client learns it; one below in the request's, since its
/// client has none that is higher.
pub fn format_of_refusal(asked: u8) -> u8 {
    asked.min(FORMATS.highest)
}

/// The text of a server's refusal for a client that speaks `theirs`, which has none of the server's
/// formats.
pub fn refusal_text(theirs: Formats) -> String {
    Formats::refusal(theirs, FORMATS, PROTOCOL)
}

/// The error of a client whose server has refused this format of its request.
pub fn refused_text(format: u8, failure: Failure) -> String {
    match format >= STATING || FORMATS.has(format) {
        // The request has stated all of the client's formats, and the server's text names its own.
        true => failure.message,
        false => FORMATS.mismatch(Formats::only(format), PROTOCOL),
    }
}

/// The error of a client that needs a format above the one that its server speaks.
pub fn lacking_text(needed: u8, spoken: u8) -> String {
    alloc::format!(
        "this needs format {needed} of {PROTOCOL}, and the server speaks none above {spoken}; upgrade the server"
    )
}

/// The formats that the client of a request speaks, as far as requests of this format state them.
fn stated(format: u8, input: &mut Reader<'_>) -> Result<Formats, Malformed> {
    let lowest = match format >= STATING {
        true => input.u8("lowest format")?,
        false => format,
    };
    if lowest == 0 || lowest > format {
        return unknown("lowest format", lowest);
    }
    Ok(Formats {
        lowest,
        highest: format,
    })
}

/// Checks the message's length and takes its first byte.
fn take_format(input: &mut Reader<'_>) -> Result<u8, Malformed> {
    let most = MAX_MESSAGE_BYTES as u64;
    within(input.remaining() as u64, most, "message length")?;
    match input.u8("format")? {
        format if FORMATS.has(format) => Ok(format),
        value => unknown("format of the file system's protocol", value),
    }
}

/// An operation for a server that knows no default access control lists.
fn masked(operation: &Operation, umask: u16) -> Cow<'_, Operation> {
    let mut operation = Cow::Borrowed(operation);
    if umask != 0
        && matches!(
            *operation,
            Operation::Create { .. }
                | Operation::MakeDirectory { .. }
                | Operation::MakeSpecial { .. }
        )
        && let Operation::Create { mode, .. }
        | Operation::MakeDirectory { mode, .. }
        | Operation::MakeSpecial { mode, .. } = operation.to_mut()
    {
        *mode &= !umask;
    }
    operation
}

fn take_caller(format: u8, input: &mut Reader<'_>) -> Result<Caller, Malformed> {
    let mut caller = Caller::decode(input)?;
    if format >= ACLS {
        caller.umask = input.u16("umask")?;
        within(caller.umask, 0o777, "umask")?;
    }
    Ok(caller)
}

/// What a user of a client shows in a request. From format 13 on the object is not known yet.
fn take_shown(
    format: u8,
    sender: (u32, u128),
    input: &mut Reader<'_>,
) -> Result<Option<Capability>, Malformed> {
    match format {
        ..SHORT_CAPABILITIES => take_optional(format >= CAPABILITIES, input),
        _ => match input.bool("capability")? {
            true => Capability::decode_shown(sender, input).map(Some),
            false => Ok(None),
        },
    }
}

fn take_opening(format: u8, input: &mut Reader<'_>) -> Result<Option<Opening>, Malformed> {
    let mut rest = input.clone();
    if format < OPENS || rest.u8("operation")? != OPENING {
        return Ok(None);
    }
    *input = rest;
    Opening::decode(input).map(Some)
}

fn take_operation(format: u8, input: &mut Reader<'_>) -> Result<Operation, Malformed> {
    let mut rest = input.clone();
    match rest.u8("operation")? {
        WRITE if format < EXTENDED => {
            *input = rest;
            let has_number = format >= NUMBERED_WRITES;
            Ok(Operation::Write {
                object: ObjectId::decode(input)?,
                number: match has_number {
                    true => input.u64("number")?,
                    false => 0,
                },
                repeated: match has_number {
                    true => take!(option, input, "repeated"),
                    false => None,
                },
                at_least: input.u64("at_least")?,
                regions: Regions::decode(input)?,
                memory: take!(list(codec::MIN_DESCRIPTOR_BYTES), input, "memory"),
                inline: take!(bytes(MAX_MESSAGE_BYTES), input, "inline"),
                append_lock: 0,
            })
        }
        EXTEND if format < NODES => {
            *input = rest;
            let object = ObjectId::decode(input)?;
            let end = input.u64("end")?;
            Ok(Operation::Extend {
                object,
                end,
                modified: Timestamp::decode(input)?,
                version: input.u64("version")?,
                reached: take!(list(10), input, "reached"),
                // Without an end, holes or reserved room were made. Otherwise the write is assumed
                // to leave no gap before it: most leave none, and otherwise each file would count
                // as one with holes.
                from: if end == 0 { NOT_KNOWN } else { 0 },
            })
        }
        code => match Operation::decode(input)? {
            operation if operation.known_since() <= format => Ok(operation),
            _ => unknown("operation", code),
        },
    }
}
