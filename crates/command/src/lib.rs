//! Common parts of Causeway's commands: their output, their cleanup, and their worker processes.
//!
//! Reading order: [`failure`] (an error, in three parts) and [`output`] (a terminal, a pipe or one
//! JSON object), [`progress`]; [`shutdown`] (what must not outlive a command: children, temporary
//! files, a changed terminal) and [`whole_file`] (results that are written whole or not at all);
//! [`workers`] (this program again, with a task); [`remote`] (configuration, paths and errors of a
//! file system) and [`cluster`] (a file system of the command's own).
//!
//! This crate has no subcommands: those are in the command itself and in `causeway-bench`. It ends the process in
//! one place only, [`shutdown::exit`].
#![forbid(unsafe_code)]

pub mod cluster;
pub mod failure;
pub mod output;
pub mod progress;
pub mod remote;
pub mod shutdown;
pub mod whole_file;
pub mod workers;
