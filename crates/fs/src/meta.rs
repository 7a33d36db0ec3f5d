//! Names and objects: what the metadata server does, without the server.
//!
//! [`Service`] executes batches of requests over a [`store::Store`]; [`Reader`]s execute requests that
//! change nothing, at the same time, from other threads. This module has no network: a request comes with the
//! caller's identity, a batch with the time.
//!
//! # How a server drives it
//! - One thread owns the [`Service`]. It takes all requests that have come, passes them to [`Service::apply`] as one
//!   batch, and sends the replies: that is the group commit. With
//!   [`Durability::Synced`] the call ends with one `fdatasync`, during which the next batch gathers;
//!   so it runs in a thread of its own. With [`Durability::Relaxed`] it takes some microseconds for
//!   each request and may as well run in the event loop.
//! - Requests for which [`Reader::answer`] returns a reply can be served by any thread, at any time. A
//!   reply of `apply` may be sent as soon as the call returns: readers see its effect from then on.
//! - About once in a second, the owner asks for [`Service::removals`], has the datafiles removed, and
//!   reports [`Service::removed`].
//! - After a failure of the store (a full disk, say) `apply` opens it again by itself, finds out which requests of
//!   the batch have happened, and returns an error for the others.
//!
//! # Parts, in reading order
//! [`store`] (ordered keys and values; the records are `causeway_wire::store`'s), `overlay` (a batch's
//! view of its own changes), `query` and `walk` (records, permissions, paths), `change` (names and
//! counts, stored twice), `names`, `rename`, `files` (the operations), `layout` (which I/O servers there are),
//! `session` (each change happens once), `service` (batches), `check` (finding and repairing what is wrong).

use causeway_wire::fs::{DistributionHint, Generation, Incarnation};

use crate::config::Durability;

mod change;
mod check;
mod fault;
mod files;
mod layout;
mod names;
mod overlay;
mod query;
mod rename;
mod service;
mod session;
pub mod store;
mod striped;
#[cfg(test)]
mod tests;
mod walk;

pub use layout::Layout;
pub use service::{Reader, Removal, Service, accept_loss};
pub use session::Leases;

/// What a metadata service must know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// Names of the I/O servers, for the layout of metadata that are formatted now.
    pub io_servers: Vec<String>,
    /// Distribution of files whose request and directory leave it open.
    pub distribution: DistributionHint,
    /// Largest content beside metadata, in bytes, at most
    /// [`causeway_wire::fs::MAX_STUFFED_BYTES`].
    pub stuffed_limit: usize,
    /// The file system's identity: a store that belongs to another one is refused.
    pub file_system: u128,
    /// The formatting of the server's directory.
    pub generation: Generation,
    /// Of the metadata, if they are formatted now.
    pub incarnation: Incarnation,
    /// Owner and group of the root directory, when it is made.
    pub root_owner: (u32, u32),
    /// Permission bits of the root directory, when it is made.
    pub root_mode: u16,
    /// Most names of one object.
    pub max_links: u32,
    /// Most slots that are remembered. Each takes some 150 bytes of memory.
    pub max_sessions: usize,
    /// Requests that need space are refused while the disk has fewer free bytes than this, or than the store needs to
    /// free space; those that free space are not.
    pub reserve_bytes: u64,
    /// Whether an empty file system may be made where there is none.
    pub format: Format,
}

/// Whether metadata may be made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Where there are none, that is an error: a disk may not be mounted.
    Refused,
    /// Where there are none, an empty file system is made.
    Allowed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            durability: Durability::Synced,
            io_servers: vec!["io0".to_owned()],
            distribution: DistributionHint::default(),
            stuffed_limit: causeway_wire::fs::MAX_STUFFED_BYTES,
            file_system: 0,
            generation: Generation::NONE,
            incarnation: Incarnation::NONE,
            root_owner: (0, 0),
            root_mode: 0o755,
            max_links: 65_000,
            max_sessions: 1 << 19,
            reserve_bytes: 0,
            format: Format::Allowed,
        }
    }
}
