//! Requests and replies of the file system.
//!
//! A client sends a [`Request`] as an unexpected message; the server sends a [`Reply`] under
//! the tag that the request names. Bulk data never travels inside: a request names memory that the
//! client exports, and the server reads or writes it (`docs/formats/fs.md`).
//!
//! Objects and names are separate: an object is known by its [`ObjectId`], which is never used again; a
//! directory entry gives it a name.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};
use crate::region::RegionDescriptor;

mod acl;
mod body;
mod caller;
mod capability;
mod codec;
mod descriptor;
mod errno;
pub mod formats;
mod identity;
mod leases;
mod limits;
mod locks;
mod moment;
mod needs;
mod objects;
mod opens;
mod place;
mod pointer;
mod regions;
mod reply;
mod sums;
#[cfg(test)]
mod tests;

pub use acl::{ACCESS_ACL, Acl, AclFault, AclKind, DEFAULT_ACL, MAX_ACL_BYTES, MAX_ACL_ENTRIES};
pub use caller::{Caller, NOBODY};
pub use capability::{Capability, MAC_BYTES, Needs, PROOF_BYTES, Rights, SIGNED_BYTES};
pub use codec::{MAX_FAILURE_BYTES, MAX_FINDING_BYTES};
pub use descriptor::FileDescriptor;
pub use errno::Errno;
pub use identity::{
    Generation, Greeting, Incarnation, LayoutPart, LayoutServer, MAX_LAYOUT_PART,
    MAX_SERVER_NAME_BYTES, ServerIdentity, Target,
};
pub use leases::{Leased, MAX_RECALLED};
pub use limits::*;
pub use locks::{Lock, LockFamily, LockHolder, LockRange};
pub use moment::Moment;
pub use objects::{
    Attributes, Body, CheckCursor, DataFault, Distribution, DistributionHint, Entry, Kind, Node,
    ObjectId, ObjectPath, ScrubPosition, SetAttributes, SetXattrMode, StripedFile, Timestamp,
    XattrName,
};
pub use opens::{MAX_NAMED_FILES, OpenHandle, Opening};
pub use place::Place;
pub use pointer::PointerStep;
pub use regions::{Reach, Region, Regions};
pub use reply::{Failure, Reply, ReplyBody};
pub use sums::WantedSums;

/// The value of `from` in [`Operation::Extend`] if nothing is known of holes.
pub const NOT_KNOWN: u64 = u64::MAX;

/// A message from a client to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Tag under which the reply is sent.
    pub reply_tag: u64,
    /// The server to which it is addressed.
    pub target: Target,
    /// The sending client: a number chosen at random once per client process.
    pub client: u128,
    /// The client's slot for this operation. A slot has one mutation in progress at a time; a slot
    /// and a sequence number make repeating a mutation harmless (NFSv4.1's sessions).
    pub slot: u16,
    /// Counts the mutations of the slot, from 1; 0 for operations that change nothing.
    pub sequence: u64,
    /// The user on whose behalf the client sends.
    pub caller: Caller,
    /// The right to carry the operation out, where it [needs](Operation::needs) one. Requests of formats before
    /// [`formats::CAPABILITIES`] have none. From [`formats::SHORT_CAPABILITIES`] on, fields that the request itself contains are
    /// not sent again: the receiver fills in the object, client and user of the request, and gets only [`PROOF_BYTES`] of the
    /// code.
    pub capability: Option<Capability>,
    /// Present if the file that the operation finds or makes is opened by the sender: in [`Operation::Lookup`],
    /// [`Operation::GetNode`] and [`Operation::Create`]. Formats before [`formats::OPENS`] leave it out.
    pub opening: Option<Opening>,
    /// The program's number as a holder of leases, if it has any ([`Operation::HoldLeases`]): it requests leases on what the operation
    /// reads, and its own leases on what the operation changes are not recalled. Formats before [`formats::LEASES`] leave it out.
    pub holder: Option<u128>,
    /// The operation.
    pub operation: Operation,
}

/// All operations. Metadata first, then data, then the whole server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Walks a path. Returns [`ReplyBody::Node`].
    Lookup {
        /// What to walk.
        place: Place,
        /// Follow a symbolic link in the last component.
        follow: bool,
        /// Send a stuffed file's content along.
        content: bool,
    },
    /// Reads the node of a known object. Returns [`ReplyBody::Node`].
    GetNode {
        /// Which.
        object: ObjectId,
        /// Send a stuffed file's content along.
        content: bool,
    },
    /// Makes a file, with content if it is small. Returns [`ReplyBody::Node`]. If the name exists and is
    /// a file and `exclusive` is not set, returns that file's node, unchanged.
    Create {
        /// Directory and new name.
        place: Place,
        /// Fail if the name exists.
        exclusive: bool,
        /// Permission bits, 0 to 0o7777.
        mode: u16,
        /// How to stripe; the directory's default if absent.
        distribution: Option<DistributionHint>,
        /// First content, at most [`MAX_STUFFED_BYTES`].
        content: Vec<u8>,
    },
    /// Makes a directory. Returns [`ReplyBody::Node`].
    MakeDirectory {
        /// Directory and new name.
        place: Place,
        /// Permission bits.
        mode: u16,
        /// Default for files below; the parent's if absent.
        distribution: Option<DistributionHint>,
    },
    /// Makes a symbolic link. Returns [`ReplyBody::Node`].
    SymbolicLink {
        /// Directory and new name.
        place: Place,
        /// What it points to.
        target: Vec<u8>,
    },
    /// Makes a pipe, a socket or a device. Only user 0 makes devices. Returns [`ReplyBody::Node`].
    MakeSpecial {
        /// Directory and new name.
        place: Place,
        /// One of [`Kind::is_special`].
        kind: Kind,
        /// Permission bits.
        mode: u16,
        /// A device's number; 0 for others.
        device: u32,
    },
    /// Gives an existing file one more name. Returns [`ReplyBody::Node`].
    HardLink {
        /// The file.
        object: ObjectId,
        /// Directory and new name.
        place: Place,
    },
    /// Renames, replacing what the new name held, atomically. Returns [`ReplyBody::Done`].
    Rename {
        /// Old name.
        from: Place,
        /// New name.
        to: Place,
        /// Fail if the new name exists.
        no_replace: bool,
    },
    /// Swaps what two names name, atomically. Returns [`ReplyBody::Done`].
    Exchange {
        /// One name.
        first: Place,
        /// The other one.
        second: Place,
    },
    /// Removes a name of a file or link. Returns [`ReplyBody::Done`].
    Unlink {
        /// Which.
        place: Place,
        /// Only if the name is still this object's; otherwise [`Errno::ESTALE`].
        expected: Option<ObjectId>,
    },
    /// Removes an empty directory. Returns [`ReplyBody::Done`].
    RemoveDirectory {
        /// Which.
        place: Place,
        /// As for [`Operation::Unlink`].
        expected: Option<ObjectId>,
    },
    /// Lists a directory in the order of names. Returns [`ReplyBody::Entries`].
    ReadDirectory {
        /// Which.
        object: ObjectId,
        /// Only names behind this one; empty starts at the front. Stable under concurrent change.
        after: Vec<u8>,
        /// Most entries to return.
        limit: u32,
        /// Send each entry's attributes along.
        attributes: bool,
    },
    /// Changes attributes. Returns [`ReplyBody::Node`].
    SetAttributes {
        /// Which object.
        object: ObjectId,
        /// What to change.
        set: SetAttributes,
    },
    /// Makes a file larger, with a hole; does nothing to one that has this size or a larger one. Otherwise as
    /// [`Operation::Truncate`].
    Grow {
        /// Which file.
        object: ObjectId,
        /// Least size in bytes, at most 2^63 - 1.
        size: u64,
    },
    /// First half of changing a file's size: records the size and, if the file is striped, that its
    /// datafiles must follow. Returns [`ReplyBody::Node`].
    Truncate {
        /// Which file.
        object: ObjectId,
        /// New size in bytes, at most 2^63 - 1.
        size: u64,
    },
    /// Second half: the datafiles have followed the truncation with this `version`. Returns [`ReplyBody::Node`].
    FinishTruncate {
        /// Which file.
        object: ObjectId,
        /// The version that the first half returned.
        version: u64,
    },
    /// The file has been written up to `end`. Returns [`ReplyBody::Node`].
    Extend {
        /// Which file.
        object: ObjectId,
        /// Byte behind the last one written: the size becomes at least this.
        end: u64,
        /// Modification time.
        modified: Timestamp,
        /// The file's truncation version before the writing: with another one, `reached` is not noted, since
        /// a truncation may have discarded what was written.
        version: u64,
        /// How far the datafiles have been written.
        reached: Vec<Reach>,
        /// All bytes from this one up to `end` have been written: the part between the size and this byte is a hole.
        /// [`NOT_KNOWN`] if the client does not know, or has made holes or reserved room elsewhere.
        from: u64,
    },
    /// All bytes of a striped file are stored, as its I/O servers have reported after the client had read this time
    /// of change: unless the file has changed again, it no longer counts as one that may have holes. Returns
    /// [`ReplyBody::Node`].
    Filled {
        /// Which file.
        object: ObjectId,
        /// See above.
        changed: Timestamp,
    },
    /// Writes into a stuffed file. Returns [`ReplyBody::Node`], or [`Errno::NOT_STUFFED`].
    WriteStuffed {
        /// Which file.
        object: ObjectId,
        /// Where, in bytes.
        offset: u64,
        /// What.
        data: Vec<u8>,
    },
    /// First half of moving a stuffed file's content to its first I/O server: freezes the content and
    /// returns it ([`ReplyBody::Node`]).
    BeginUnstuff {
        /// Which file.
        object: ObjectId,
    },
    /// Second half: the content lies in the datafile. Returns [`ReplyBody::Node`].
    FinishUnstuff {
        /// Which file.
        object: ObjectId,
    },
    /// Gives an object an extended attribute. Returns [`ReplyBody::Done`].
    SetXattr {
        /// Which object.
        object: ObjectId,
        /// The attribute's name, with its name space in front, such as `user.`.
        name: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// Whether it may, or must, be there already.
        mode: SetXattrMode,
    },
    /// Removes an extended attribute. Returns [`ReplyBody::Done`].
    RemoveXattr {
        /// Which object's.
        object: ObjectId,
        /// Its name.
        name: Vec<u8>,
    },
    /// Reads an extended attribute. Returns [`ReplyBody::Xattr`].
    GetXattr {
        /// Which object's.
        object: ObjectId,
        /// Its name.
        name: Vec<u8>,
    },
    /// Lists the names of extended attributes. Returns [`ReplyBody::XattrNames`].
    ListXattrs {
        /// Which object's.
        object: ObjectId,
    },
    /// Makes everything that was acknowledged durable. Returns [`ReplyBody::Done`].
    Commit,
    /// How many objects there are. Returns [`ReplyBody::MetadataStatus`].
    MetadataStatus,
    /// Which of these objects exist and are striped files? Returns [`ReplyBody::Objects`] with those.
    Exist {
        /// Which objects.
        objects: Vec<ObjectId>,
    },
    /// Checks a batch of the name space, and repairs it if requested. Returns [`ReplyBody::Checked`].
    Check {
        /// Where the last batch ended; `None` starts.
        after: Option<CheckCursor>,
        /// Repair what is found.
        repair: bool,
    },
    /// Adds an I/O server to the layout: once it is registered, new files use it; also again, if it was drained. Returns
    /// [`ReplyBody::Done`].
    AddServer {
        /// Its name.
        name: String,
    },
    /// Keeps new files from an I/O server; those that exist stay there. Returns [`ReplyBody::Done`].
    DrainServer {
        /// Its name.
        name: String,
    },
    /// Lets an I/O server's new directory take the place of its old one, whose data are lost. Returns
    /// [`ReplyBody::Done`].
    AcceptServer {
        /// Its name.
        name: String,
        /// The new directory's.
        generation: Generation,
    },
    /// From a client that ends, and will not request the reply to an earlier change again. Returns [`ReplyBody::Done`].
    EndSession,
    /// Requests the right to check, move aside and remove datafiles, which operators have. Returns
    /// [`ReplyBody::Done`] with the capability.
    Authorize,
    /// Ends the capabilities of objects that were given out up to a version. Returns [`ReplyBody::Done`].
    EndCapabilities {
        /// The objects, and the version of each.
        ended: Vec<(ObjectId, u64)>,
    },

    /// Writes behind the end of a stuffed file. Returns [`ReplyBody::Node`], whose size is the end behind the data, or
    /// [`Errno::NOT_STUFFED`].
    Append {
        /// Which file.
        object: ObjectId,
        /// What.
        data: Vec<u8>,
    },
    /// Waits for the append lock of a file. Returns [`ReplyBody::AppendLock`]. One client has
    /// the lock at a time; it is released by [`Operation::EndAppend`], [`Operation::CancelAppend`] or
    /// the client's connection, or after the file system's time-out if others wait for it.
    BeginAppend {
        /// Which file.
        object: ObjectId,
    },
    /// As [`Operation::Extend`], and releases an append lock: only if the client still has it, otherwise
    /// [`Errno::OVERTAKEN`], and if the file was not truncated meanwhile, otherwise [`Errno::STALE_VERSION`]. Returns
    /// [`ReplyBody::Node`].
    EndAppend {
        /// Which file.
        object: ObjectId,
        /// The number of the lock.
        append_lock: u64,
        /// As for [`Operation::Extend`].
        end: u64,
        /// As for [`Operation::Extend`].
        modified: Timestamp,
        /// As for [`Operation::Extend`].
        version: u64,
        /// As for [`Operation::Extend`].
        reached: Vec<Reach>,
    },
    /// Releases an append lock, without having appended. Returns [`ReplyBody::Done`].
    CancelAppend {
        /// Which file.
        object: ObjectId,
        /// The number of the lock.
        append_lock: u64,
    },

    /// Whether the client still has an append lock. Returns [`ReplyBody::Done`] if it has: the lock is then extended by the same
    /// time, or ends if `end` is set. Otherwise returns [`Errno::OVERTAKEN`].
    CheckAppendLock {
        /// Which file.
        object: ObjectId,
        /// The number of the lock.
        append_lock: u64,
        /// The client needs it no longer.
        end: bool,
    },
    /// A step of a pointer that several clients share, which the metadata server keeps as long as it runs. Returns
    /// [`ReplyBody::Pointer`], or [`Errno::POINTER_LOST`] if the server does not know it.
    MovePointer {
        /// The file that it belongs to.
        object: ObjectId,
        /// A number that was drawn at random: every client that knows it may use the pointer.
        pointer: u64,
        /// The client's number for the step, higher than that of its earlier ones. A step that is sent again is done once; an older one is
        /// [`Errno::STALE_SEQUENCE`].
        number: u64,
        /// What to do.
        step: PointerStep,
    },

    /// Takes a lock, which the client holds until it releases it or its connection ends. Locks of the same owner that it overlaps become a part
    /// of it. Returns [`ReplyBody::Done`] once the client has it; [`Errno::EAGAIN`] if locks of other owners conflict and the client does not
    /// wait; [`Errno::EDEADLK`] if it is a lock of a range, and those owners wait for this one; [`Errno::ENOLCK`] if there are too many locks.
    Lock {
        /// Which one.
        lock: Lock,
        /// Tag under which a waiting client is notified that it has the lock, by a reply like that to this request: the
        /// reply to this request is [`ReplyBody::LockWaits`] then. 0 if the client does not wait.
        wait: u64,
    },
    /// Releases the locks of an owner on a part of a file. Returns [`ReplyBody::Done`].
    Unlock {
        /// On which file.
        object: ObjectId,
        /// Of which family.
        family: LockFamily,
        /// Whose.
        owner: u64,
        /// On which bytes.
        range: LockRange,
    },
    /// Looks for a lock that conflicts with this one. Returns [`ReplyBody::LockHolder`].
    TestLock {
        /// Of which one.
        lock: Lock,
    },
    /// Ends a wait for a lock, if it goes on: the waiting client is then sent [`Errno::ECANCELED`].
    /// Returns [`ReplyBody::Done`].
    CancelLock {
        /// The wait's tag.
        wait: u64,
    },

    /// Closes files. Unknown handles are no error. Returns [`ReplyBody::Done`].
    CloseFiles {
        /// As for [`Opening`].
        session: u128,
        /// At most [`MAX_NAMED_FILES`].
        handles: Vec<u64>,
    },
    /// From a program that has these files open, on a connection that keeps the session alive.
    /// Returns [`ReplyBody::Objects`] with those that are gone.
    KeepFiles {
        /// As for [`Opening`].
        session: u128,
        /// At most [`MAX_NAMED_FILES`].
        files: Vec<OpenHandle>,
    },

    /// From a program that caches what it has leases on: states under which tag it waits for the next recall, and
    /// which recalls it has carried out. The next recall is sent to it by the connection of this request, as a reply
    /// with [`ReplyBody::Recall`]. Returns [`ReplyBody::Done`].
    HoldLeases {
        /// The program: a number chosen at random.
        holder: u128,
        /// The tag. A program chooses each once.
        recalls: u64,
        /// The number of the last recall that it has carried out, 0 if none.
        ended: u64,
    },
    /// From a program that caches nothing any more: all of its leases end. Returns [`ReplyBody::Done`].
    EndLeases {
        /// See [`Operation::HoldLeases`].
        holder: u128,
    },

    /// Lists striped files in the order of their numbers. Returns [`ReplyBody::StripedFiles`].
    ListStriped {
        /// Only those behind this one.
        after: ObjectId,
        /// Most to return.
        limit: u32,
    },
    /// Which paths do these objects have? Returns [`ReplyBody::Paths`] with those that have one.
    Paths {
        /// Which objects.
        objects: Vec<ObjectId>,
    },

    /// Reads regions of a datafile into the client's memory. Returns [`ReplyBody::Transferred`].
    Read {
        /// Which datafile.
        object: ObjectId,
        /// How long the datafile must be at least, in bytes: what is missing is an error, not a hole.
        at_least: u64,
        /// What to read: regions in datafile bytes, in the order of the memory.
        regions: Regions,
        /// Where to put it. Empty: at most a few KiB, sent in the reply.
        memory: Vec<RegionDescriptor>,
        /// Which sums the reply carries, if any.
        sums: WantedSums,
    },
    /// By which descriptor does the server have a datafile open? For a client on its host, which may open that file again if its user may
    /// read it. Returns [`ReplyBody::Descriptor`].
    FindDescriptor {
        /// Which datafile.
        object: ObjectId,
    },
    /// Where is the first data of a datafile from an offset on? What lies before them is a hole. Returns
    /// [`ReplyBody::Data`].
    FindData {
        /// Which datafile.
        object: ObjectId,
        /// How long the datafile must be at least, in bytes: what is missing counts as data.
        at_least: u64,
        /// From which datafile byte on.
        offset: u64,
    },
    /// Writes regions of a datafile from the client's memory. Returns [`ReplyBody::Transferred`].
    Write {
        /// Which datafile.
        object: ObjectId,
        /// The client's number for the write, the same each time it is sent.
        number: u64,
        /// When an earlier sending may have reached the server.
        repeated: Option<Moment>,
        /// How long the datafile must have been before at least, in bytes.
        at_least: u64,
        /// What to write.
        regions: Regions,
        /// Where it lies.
        memory: Vec<RegionDescriptor>,
        /// Small data, sent along instead of `memory`.
        inline: Vec<u8>,
        /// The append lock under which it is sent, 0 if there is none. Writes under earlier locks fail with [`Errno::OVERTAKEN`]
        /// from then on.
        append_lock: u64,
    },
    /// Creates a datafile with this content unless it exists. Returns [`ReplyBody::Done`].
    Seed {
        /// Which datafile.
        object: ObjectId,
        /// Its first bytes.
        content: Vec<u8>,
    },
    /// Cuts or grows a datafile. `version` orders truncations: an older one than the last is ignored.
    /// Returns [`ReplyBody::Done`].
    TruncateData {
        /// Which datafile.
        object: ObjectId,
        /// New size in datafile bytes.
        size: u64,
        /// See above.
        version: u64,
        /// How long the datafile must have been before at least, of the bytes that are kept.
        at_least: u64,
    },
    /// Makes a hole of a part of a datafile, whose size stays. Returns [`ReplyBody::Punched`].
    PunchData {
        /// Which datafile.
        object: ObjectId,
        /// The client's number for the request, among its writes.
        number: u64,
        /// When an earlier sending may have reached the server.
        repeated: Option<Moment>,
        /// How long the datafile must be at least, in bytes.
        at_least: u64,
        /// Which part; it may reach behind the end.
        region: Region,
    },
    /// Reserves room on the disk for a part of a datafile, whose size stays. Returns [`ReplyBody::Done`].
    ReserveData {
        /// Which datafile.
        object: ObjectId,
        /// How long the datafile must be at least, in bytes.
        at_least: u64,
        /// Which part; it may reach behind the end.
        region: Region,
    },
    /// How many bytes of a datafile are stored: holes are not, room that is reserved is. Returns [`ReplyBody::Stored`], with
    /// 0 for a datafile that does not exist.
    StoredData {
        /// Which datafile.
        object: ObjectId,
    },
    /// Makes a datafile durable. Returns [`ReplyBody::Done`].
    Flush {
        /// Which datafile.
        object: ObjectId,
        /// How long the datafile must be at least, in bytes.
        at_least: u64,
    },
    /// Removes datafiles; those that do not exist are no error. Returns [`ReplyBody::Done`].
    Remove {
        /// Which datafiles.
        objects: Vec<ObjectId>,
    },
    /// What time is it on the server's host? Returns [`ReplyBody::Clock`].
    Clock,
    /// Lists datafiles in the order of their numbers. Returns [`ReplyBody::Datafiles`].
    ListData {
        /// Only those behind this one.
        after: ObjectId,
        /// Most to return.
        limit: u32,
    },
    /// Which of these datafiles are absent, shorter than that, another object's or damaged, as far as
    /// headers and lengths tell? Returns [`ReplyBody::Faults`].
    CheckData {
        /// Objects, and how long their datafiles must be at least.
        datafiles: Vec<(ObjectId, u64)>,
    },
    /// Removes datafiles without a file: those that are proven to be of the present metadata are deleted,
    /// all others moved aside. Returns [`ReplyBody::OrphansRemoved`].
    RemoveOrphans {
        /// Which datafiles.
        objects: Vec<ObjectId>,
        /// The metadata have given out object numbers below this.
        numbers: u64,
    },
    /// Verifies stored data, a bounded number of bytes at a time. Returns [`ReplyBody::Scrubbed`].
    Scrub {
        /// Where to begin; absent: where the last scrub came to, as the server remembers it.
        from: Option<ScrubPosition>,
        /// About how many bytes to verify.
        bytes: u64,
    },
    /// Accepts datafiles that have been replaced outside of the server while the right ones were
    /// open, from now on. Returns [`ReplyBody::Done`].
    AcceptData {
        /// Objects of the datafiles; those that were not replaced are left alone.
        objects: Vec<ObjectId>,
    },
    /// Space and load. Returns [`ReplyBody::StorageStatus`].
    StorageStatus,
    /// From the metadata server to an I/O server: assigns this number, and the metadata that the
    /// I/O server belongs to. The target's incarnation is not checked. Returns [`ReplyBody::Done`].
    Enroll {
        /// Number in the layout.
        index: u16,
        /// Of the metadata.
        incarnation: Incarnation,
        /// Even if other metadata have enrolled it, which then lose it.
        replace: bool,
    },

    /// Requests a server's identity; needs no target. Returns [`ReplyBody::Hello`].
    Hello {
        /// Where the part of the layout begins that the metadata server returns: a position in the list of servers.
        layout_from: u16,
        /// For how long the sender may repeat a change, in seconds: replies to changes are kept for longer.
        timeout_s: u32,
    },
}
