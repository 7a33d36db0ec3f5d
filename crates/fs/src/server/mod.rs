//! The server process: metadata, datafiles, or both, behind one message layer.
//!
//! One thread runs the loop (`events`): it takes requests, replies to those that need no waiting, and moves data
//! (`io`, over `lists`, `piece_io`, `regions` and `staging`; `data` has the short requests about datafiles, `descriptors` those for reads by clients themselves). What would
//! block it goes to other threads (`background`): changes of a synced file system to the commit thread (`metadata`, which shares `thread_state` with it), storage that waits
//! for a device to the datafile store's pool, removals of datafiles to the reclaimer (`reclaim`). A server serves only
//! from the directory that was formatted for it (`home`, `format`), and only requests that are meant for it
//! (`identity`, `greeting`) from nodes that may ask for it (`nodes`); clients append under locks (`appends`, over `append_state`, `append_locks` and `seen_append_locks`), lock files (`lock_requests`, over `lock_state` and `locks`), share pointers (`pointer_requests`, over `pointers`), and cache what they have leases on (`lease_requests`, over `lease_state`, `lease_waits` and `lease_mark`); what programs have open stays (`open_requests`, over `open_programs`), also without a name until they close it (`orphans`); the metadata server registers each I/O server once (`register`), gives clients capabilities, which I/O servers verify (`grants`, over `access`, `given` and `ended`), and revokes them there when permissions change (`revoker`); `audit` logs each caller's operations. At most [`MAX_REQUESTS`] requests are
//! in progress; the rest wait in the message layer, which makes the clients wait.
//!
//! [`Server`] (`instance`) runs one inside a program; [`serve`] is all of a server process.

mod abandoning;
mod access;
mod append_locks;
mod append_state;
mod appends;
pub(crate) mod audit;
mod background;
mod callers;
mod data;
mod descriptors;
mod ended;
mod error;
mod events;
mod follow_up;
mod format;
mod given;
mod grants;
mod greeting;
mod home;
mod identity;
mod instance;
mod io;
mod lease_mark;
mod lease_requests;
mod lease_state;
mod lease_waits;
mod lists;
mod lock_requests;
mod lock_state;
mod locks;
mod metadata;
mod nodes;
mod open_programs;
mod open_requests;
mod orphans;
mod piece_io;
mod pointer_requests;
mod pointers;
mod process;
mod purpose;
mod reclaim;
mod recover;
mod regions;
mod register;
mod revocation;
mod revoker;
mod scans;
mod seen_append_locks;
mod staging;
mod stop;
mod thread_state;
mod ticket;
mod undelivered;
mod verified;
mod versions;

pub use error::ServerError;
pub use format::{format, is_formatted};
pub use instance::Server;
pub use nodes::ReloadHandle;
pub use process::{Handles, PARENT_PIPE, serve};
pub use recover::accept_loss;
pub use stop::StopHandle;
pub use ticket::MAX_REQUESTS;
