//! The datafile store: what an I/O server keeps on its local file system.
//!
//! One file per object, made when it is first written, with checksums inside (`docs/formats/datafile.md`
//! draws it). Read [`store`] first (finding, making, seeding, truncating, removing, listing), then
//! [`datafile`] (positioned I/O) over `header_page` (the first page of its file), [`pieces`] (lists of regions and of
//! memory), `blocks` (access with checksums, over `sums` and the locks of `ranges`; `groups` and `noted_groups` distinguish holes
//! from losses; `small` has accesses to a few bytes, over the `block_cache`; `stored_sums` is for blocks that clients read themselves; `holes` finds holes and [`punch`] makes them) and `disk` (the system calls); `room` keeps a reserve of the disk free. `history` records
//! the order of writes, for writes that are repeated. [`fault`] has what can be wrong, [`scrub`] searches for it,
//! [`aside`] keeps what must not be deleted; [`paths`] has names and directories, and [`pool`] threads for what would
//! block the server's loop.

pub mod aside;
mod block_cache;
mod blocks;
mod common;
pub mod datafile;
mod disk;
pub mod fault;
mod groups;
mod header_page;
pub mod history;
mod holes;
mod noted_groups;
pub mod paths;
pub mod pieces;
pub mod pool;
pub mod punch;
mod ranges;
mod replaced;
mod room;
pub mod scrub;
mod small;
pub mod store;
mod stored_sums;
pub(crate) mod sums;
pub mod types;

#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

pub use block_cache::Stamp;
pub use datafile::{Datafile, ReadOptions};
pub use fault::Fault;
pub use history::Origin;
pub use pieces::{Abandoned, Piece, Scratch};
pub use pool::Pool;
pub use store::{Space, Store};
pub use types::{Owner, Settings};
