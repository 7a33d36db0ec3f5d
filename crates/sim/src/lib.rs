//! A deterministic discrete-event simulator of clusters, which runs the firmware of the network
//! interface in virtual time.
//!
//! | part | contents |
//! |---|---|
//! | [`engine`] | virtual time in picoseconds, and the one queue of events |
//! | [`hardware`] | processors, memory, buses, DMA engines, links and switches |
//! | [`profile`] | parameter files: the hardware's figures with their units and sources |
//! | [`node`] | nodes that run the card's program, and processes that use it |
//! | [`statistics`] | distributions of latencies, events over time, use of resources |
//! | [`workloads`] | the experiments' processes, and the worlds they run in |
//! | [`am`] | Active Messages, over any port |
//! | [`programs`] | parallel programs that compute real results: pings, Fourier transform, product of matrices, sort |
//! | [`substrates`] | programs as coroutines on kernel-level and user-level communication (chapter 2) |
//! | [`coscheduling`] | parallel jobs that share a cluster's processors (chapter 6) |
//! | [`figures`] | the thesis's figures and tables: points to run, claims to judge |
//! | [`catalogue`] | all of them, and the runs for each |
//! | [`scenario`] | experiments of the user's own, in files |
//! | [`trace`] | timelines for Perfetto |
//!
//! Read them in this order. Results depend only on the input, which includes the seeds of random
//! numbers: no clock, no hashing order, and no floating-point functions whose last digits differ
//! between machines.
#![forbid(unsafe_code)]

pub mod am;
pub mod catalogue;
pub mod coscheduling;
pub mod engine;
pub mod figures;
pub mod hardware;
pub mod node;
pub mod profile;
pub mod programs;
pub mod scenario;
mod slab;
pub mod statistics;
pub mod substrates;
pub mod trace;
pub mod workloads;
