//! The client library: what the command line, benchmarks and later FUSE and MPI-IO call.
//!
//! A [`Client`] belongs to one thread; calls block until done or failed, within the
//! configuration's timeout. A call has all its requests in flight at once, where it can. Several
//! threads use several clients.
//!
//! Reading order: `connection` (what a client is), `call`, `call_error`, `numbers`, `rpc`, `pending`, `replies` and `attendance` (requests, replies, repetition, time), `session`, `link`, `node_files` and `changed_nodes` (files that have changed meanwhile), `introduce` and `identity` (which server is at an address), `file`, `nodes`, `names` and `xattrs` (the name space), `transfer` (which bytes go where), `long_reads`, `direct` and `open_datafile` (long reads into ordinary memory), `io`
//! (reading and writing), `append` (writing behind the end), `atomic` (atomic accesses), `pointer` (pointers that clients share), `locks`, `lock_state` and `lock_thread` (locks that exclude other clients), `held`, `held_state` and `held_thread` (files that are kept while they are open), `leases`, `lease_cache`, `cached`, `change_scope`, `contention`, `leased` and `lease_thread` (names and
//! attributes that are cached), `holes` and `allocation` (where holes are; making them, reserving room), `presence` (data that is missing), `unsynced`, `verifiers` and `losses` (changes that were lost before a sync), `maintain` (for operators), `stages` (where the time goes).

mod allocation;
mod append;
mod append_lock;
mod atomic;
mod attendance;
mod cached;
mod call;
mod call_error;
mod capabilities;
mod change_scope;
mod changed_nodes;
mod connection;
mod contention;
mod direct;
mod file;
mod held;
mod held_capabilities;
mod held_state;
mod held_thread;
mod holes;
mod identity;
mod introduce;
mod io;
mod lease_cache;
mod lease_thread;
mod leased;
mod leases;
mod link;
mod lock_state;
mod lock_thread;
mod locks;
mod long_reads;
mod losses;
mod maintain;
mod names;
mod node_files;
mod nodes;
mod numbers;
mod open_datafile;
mod options;
mod pending;
mod pointer;
mod presence;
mod read;
mod replies;
mod rpc;
mod session;
mod stages;
mod transfer;
mod unacknowledged;
mod unsynced;
mod verifiers;
mod xattrs;

pub use allocation::Allocation;
pub use append_lock::AppendLockWait;
pub use atomic::AtomicAccess;
pub use cached::{CacheStamp, Era, LookedUp, Named};
pub use connection::Client;
pub(crate) use connection::Shared;
pub use file::{CreateOptions, File};
pub use identity::Layout;
pub use lease_cache::passing::{EntryTimes, Passed, PassedEntry};
pub use leases::Leases;
pub use lock_state::LockOwner;
pub use locks::{Locks, PendingLock};
pub use long_reads::LongReadWay;
pub use maintain::{Checked, CheckedFiles, Orphans, OrphansGone, Scrubbed, ServerFault, Space};
pub use names::{LOOKUPS, MANY};
pub use options::{ClientOptions, own_identity};
pub(crate) use rpc::Interrupter;
pub use stages::Stage;
pub use unsynced::Unsynced;
