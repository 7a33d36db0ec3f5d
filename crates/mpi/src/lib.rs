//! MPI 5.0 without its C surface.
//!
//! A program's processes [start] with the help of a [launcher], and meet; then each is a [`Process`]. Read
//! [`process`] first, then what it does: messages ([`point`], [`message`]) of elements ([`buffer`], [`datatype`]), matched
//! with receives by MPI's rules ([`matching`]), packed on their way where there are gaps (`pieces`), into [buffers that are attached](buffering); [`communicator`]s of [`group`]s with
//! [`topology`] and [`attributes`], and [how they are made](making), also by two groups that [meet](meeting), of one program or of several: those that were [started by a program](programs), and those that find
//! each other by the [names] of ports; [`collective`] operations as
//! [`steps`] that are started as [`schedule`]s, compared first in the [checking mode](checking), with [`operation`]s that combine elements ([`reduction`]), or
//! done in memory that the processes of one [`node`] [share](sharing);
//! [`window`]s of memory that others access; [`request`]s for all that goes
//! on, and their [`status`]; files ([`io`]). [`tool`]s set and look at some of it. [`table`] turns handles into objects, [`error`] has codes and texts, [`info`] keys and
//! values, [`record`] what a launcher is told of all this, [`abi`] the standard ABI's numbers.
//!
//! All progress is made inside calls. Nothing here calls functions of the program: a wait that comes to one returns it
//! ([`process::Waited::Call`]), so that such a function may call MPI in its turn.
//!
//! What this room does not do: pointers, C strings and callbacks, which are the C surface's (`causeway-mpi-c`).

#![forbid(unsafe_code)]

pub mod abi;
pub mod attaching;
pub mod attributes;
pub mod buffer;
pub mod buffering;
mod calling;
pub mod checking;
pub mod collective;
pub mod communicator;
pub mod contacts;
pub mod datatype;
pub mod error;
pub mod group;
pub mod info;
pub mod io;
pub mod launcher;
pub mod making;
pub mod matching;
pub mod meeting;
pub mod message;
pub mod names;
pub mod node;
pub mod operation;
mod partitioned;
mod partitions;
mod pieces;
pub mod point;
mod ports;
pub mod process;
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
pub mod told;
pub mod tool;
pub mod topology;
pub mod window;

pub use process::Process;
