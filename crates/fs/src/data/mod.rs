//! The datafile store: what an I/O server keeps on its local file system.
//!
//! One file per object, made when it is first written. Read [`store`] first (finding, making,
//! seeding, cutting, removing, listing), then [`datafile`] (positioned I/O on one of them, with many
//! small fragments sieved through one larger access), [`place`] (names and directories), and
//! [`pool`] (threads for what would block the server's loop). `docs/formats/datafiles.md` draws the
//! layout.

pub mod datafile;
pub mod place;
pub mod pool;
pub mod store;

#[cfg(test)]
mod tests;

pub use datafile::{Datafile, Piece, Scratch};
pub use pool::Pool;
pub use store::{Space, Store};
