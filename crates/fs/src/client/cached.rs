//! What a program caches about a name and about an object, and the types in which it reports that.

use std::time::Instant;

use causeway_wire::fs::{Node, ObjectId};

/// Attributes that were cached when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStamp {
    pub(super) ends: u64,
}

/// A time in which an object's attributes have been under leases without a gap, so that no change by others has returned. If the same era is seen
/// twice, content that was read in between is still the object's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Era(pub(super) u64);

/// What a name refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// This object, with attributes that are cached.
    Node(Box<Node>, CacheStamp),
    /// Nothing: the name does not exist.
    Nothing,
}

/// What one of many names was found to refer to.
#[derive(Debug, Clone)]
pub enum LookedUp {
    /// An object, and by which lease it is cached.
    Node(Box<Node>, Option<CacheStamp>),
    /// The name does not exist.
    Nothing,
    /// The name exists, and the object's record is damaged.
    Damaged,
}

/// An object that is cached.
#[derive(Debug, Clone)]
pub(super) struct CachedNode {
    pub(super) node: Node,
    /// Its size in the cache, in units.
    pub(super) units: usize,
    /// When it was requested.
    pub(super) asked_at: Instant,
    pub(super) until: Instant,
    /// The receiver of passed-on attributes (the kernel) knows the object, too.
    pub(super) is_known: bool,
    /// Since when it has been under leases without a gap.
    pub(super) era: Era,
    /// The receiver (the kernel) keeps no other content of it than what was read in this era.
    pub(super) has_content: bool,
    /// Of a directory: for whom the server has looked up names since.
    pub(super) searchers: Vec<Searcher>,
    /// Of a directory: names that are not cached do not exist. This is so in a directory that the program has made, as any change by others ends the
    /// lease on its attributes.
    pub(super) is_complete: bool,
}

/// A user and group for whom names are looked up. The server may know a user as somebody else (`root_squash`), or serve none from this node (`uids`).
pub(super) type Searcher = (u32, u32);

/// A name that is cached.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachedName {
    pub(super) target: Option<ObjectId>,
    pub(super) until: Instant,
    /// The server looks it up for all users of this host.
    pub(super) for_all_users: bool,
    /// The server grants leases with its replies to renames.
    pub(super) may_be_renamed: bool,
}

/// A name that was passed on.
#[derive(Clone, Copy)]
pub(super) struct PassedName {
    pub(super) target: Option<ObjectId>,
    /// When it expires.
    pub(super) until: Instant,
    /// The receiver may still use it after it has processed the last reply about it.
    pub(super) has_time: bool,
    /// Until when the receiver may process a reply that gave it some time, although it was told meanwhile to forget the name; only if it might set that time
    /// for another name then.
    pub(super) late_until: Option<Instant>,
}
