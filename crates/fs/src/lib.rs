//! The parallel file system: metadata, datafiles, servers and the client library.
//!
//! Read [`config`] first (what a file system consists of), then [`client`] (what programs call), [`pool`] (clients for several
//! threads), [`open_file`] and [`listing`] (files and directories as libraries for other languages need them), then the parts
//! below these: [`distribution`] (which byte lies where), [`meta`] (names and objects), [`data`] (datafiles), [`server`] (the
//! process around them) and [`dev`] (a whole file system of server processes on one machine). [`agent`] makes handshakes for
//! users who may not read the keys.
#![forbid(unsafe_code)]

pub mod agent;
mod backoff;
mod boot;
mod capability_key;
pub mod client;
pub mod clock;
pub mod config;
mod cutter;
pub mod data;
pub mod dev;
pub mod distribution;
pub mod error;
mod failed_syncs;
mod files;
pub mod listing;
mod lock_ranges;
mod locks;
pub mod meta;
pub mod open_file;
pub mod open_locks;
mod permissions;
pub mod pool;
pub mod sabotage;
pub mod server;
mod threads;

pub use error::Error;
