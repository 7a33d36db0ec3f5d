//! MPI's files on the parallel file system: those whose names are `causeway:` and a path.
//!
//! [`files`] opens them: it finds the file system's configuration as other programs do, and keeps one client for each file system in a
//! process, which connects when it is first needed. [`file`](mod@file) is an open file: lists of extents of a view become lists of the
//! client library, which go to each server in one request. [`hints`] are those of the program.
//!
//! The steps that MPI's processes make together are not in this crate, but in `causeway_mpi::io`, the same for all kinds of
//! storage.
#![forbid(unsafe_code)]

mod connection;
pub mod file;
pub mod files;
pub mod hints;

pub use files::CausewayFiles;
