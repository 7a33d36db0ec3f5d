//! MPI 5.0 without its C surface.
//!
//! The processes of a program [start] with the help of a [launcher], and connect; then each is a [`Process`]. Read
//! [`process`] first, then:
//!
//! - Messages ([`point`], [`message`]): their elements lie in a [`buffer`] as its [`datatype`] says; the sender packs them and the receiver
//!   unpacks them part by part where there are gaps (`pieces`), or the sender copies them into [attached memory](buffering). [`matching`] has
//!   MPI's rules for which receive gets which message. A [`request`] represents an operation in progress, a [`status`] its result.
//! - Communicators ([`communicator`]) of [`group`]s, with [`topology`] and [`attributes`], and [how they are made](creation). Two groups can also
//!   [connect](intercomm): those of one program, those that a [program has started](programs), and those that find each other by the [names] of ports.
//! - Collective operations ([`collective`]): lists of [`steps`], which are started as [`schedule`]s, with [`operation`]s that combine elements
//!   ([`reduction`]). Processes of one [`node`] do them in memory that they [share](sharing); one that begins no more of them notifies the others (`ending`). The [checking mode](checking) compares the calls first.
//! - Memory that other processes access ([`window`]), and files ([`io`]).
//! - The rest: [`tool`] has the variables by which tools read and set some of this, [`table`] turns handles into objects, [`error`] has codes
//!   and texts, [`info`] keys and values, [`record`] writes events for a launcher, [`abi`] has the numbers of the standard ABI.
//!
//! All progress is made inside calls. Nothing here calls functions of the program: a wait that needs such a call returns the function
//! ([`process::Waited::Call`]), so that it is called outside and may call MPI itself. Where several threads call (`threads`), no thread
//! waits inside.
//!
//! What this crate does not do: pointers, C strings and callbacks, which are the C surface's (`causeway-mpi-c`).

#![forbid(unsafe_code)]

pub mod abi;
pub mod attaching;
pub mod attributes;
pub mod buffer;
pub mod buffering;
pub mod caller;
pub mod checking;
pub mod collective;
pub mod communicator;
pub mod creation;
pub mod datatype;
mod ending;
pub mod error;
pub mod exchange;
pub mod group;
pub mod info;
pub mod intercomm;
pub mod io;
pub mod launcher;
pub mod matching;
pub mod message;
pub mod names;
mod networks;
pub mod node;
pub mod operation;
mod partitioned;
mod partitions;
mod pieces;
pub mod point;
mod port_calls;
mod ports;
pub mod process;
pub mod process_table;
pub mod programs;
pub mod record;
pub mod reduction;
pub mod request;
pub mod schedule;
pub mod sharing;
mod spawning;
pub mod start;
pub mod status;
pub mod steps;
pub mod table;
mod threads;
pub mod tool;
pub mod topology;
mod unfreed;
pub mod window;

pub use process::Process;
