//! Names and objects: the metadata server's work, without the server.
//!
//! [`Service`] executes batches of requests over a [`store::Store`]; [`Reader`]s execute requests that
//! change nothing, at the same time, from other threads. This module has no network: a request comes with the
//! caller's identity, a batch with the time.
//!
//! # How a server drives it
//! - One thread owns the [`Service`]. It takes all requests that have arrived, passes them to [`Service::apply`] as one batch, and
//!   sends the replies: this is a group commit. With [`Durability::Synced`](crate::config::Durability::Synced) the call ends with one
//!   `fdatasync`, during which the next batch gathers; so it runs in a thread of its own. With
//!   [`Durability::Relaxed`](crate::config::Durability::Relaxed) it takes some microseconds for each request and may as well run in the
//!   event loop.
//! - Requests for which [`Reader::answer`] returns a reply can be served by any thread, at any time. A
//!   reply of `apply` may be sent as soon as the call returns: readers see its effect from then on.
//! - About once a second, the owner calls [`Service::removals`], has the datafiles removed, and
//!   reports [`Service::removed`].
//! - After a failure of the store (such as a full disk) `apply` opens it again by itself, determines which requests of
//!   the batch were carried out, and returns an error for the others.
//!
//! # Parts, in reading order
//! [`store`] (ordered keys and values; the records are `causeway_wire::store`'s), `overlay` (a batch's
//! view of its own changes), `query` and `walk` (records, permissions, paths), `change` (names and
//! counts, stored twice), `cache_leases` (what programs may cache, and changes that wait for it), `opens` and `orphans` (files that lose their last name while they are open), `names`, `rename`, `files`, `xattrs` (the operations), `layout` and `layout_changes` (which I/O servers there
//! are),
//! `session` (each change happens once), `service` (batches), `check` (finding and repairing what is wrong).

mod acls;
pub(crate) mod cache_leases;
mod change;
mod check;
mod fault;
mod files;
mod layout;
mod layout_changes;
mod leases_of_change;
mod names;
pub(crate) mod opens;
mod orphans;
mod overlay;
mod query;
mod rename;
mod service;
mod session;
mod settings;
pub mod store;
mod striped;
#[cfg(test)]
mod tests;
mod walk;
mod xattrs;

pub use layout::Layout;
pub(crate) use leases_of_change::{in_milliseconds, single_name};
pub(crate) use service::Executed;
pub use service::removals::Removal;
pub use service::{Reader, Service, accept_loss};
pub use session::Leases;
pub use settings::{Format, Settings};
