//! Conformance suites and the pieces that tests of several rooms share. For tests only: no room
//! depends on this one outside its dev-dependencies.
//!
//! Read [`mod@conformance`] first: one suite for everything that implements
//! [`causeway_transport::Method`], instantiated per method in `tests/conformance.rs`. Then
//! [`decoders`] (bodies that feed hostile bytes to every decoder, shared by `fuzz/` and by an
//! ordinary test), [`adapter`] (a method that moves registered memory only), [`process`] (tests that run a part of themselves in another process, to be
//! killed for real), [`random`] (seeded, so that a failure can be run again), [`patience`]
//! (bounded waiting), [`linear`] (is a recorded history one of a sequential object?), [`loopback`] (ports that one test has for itself), [`matching`] (matchers and their reference), [`pair`] (two instances that have met), [`placement`]
//! (sinks that give receive buffers to packets), [`scripted`] (a file server with replies that a test chooses), [`power`] (what loss of power leaves of files) and [`directory`]
//! (temporary directories with short names).
//!
//! `tests/house.rs` keeps the house in order: arrows between rooms, sizes of files, banned calls.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod conformance;
pub mod decoders;
pub mod directory;
pub mod linear;
pub mod loopback;
pub mod matching;
pub mod messages;
pub mod pair;
pub mod patience;
pub mod placement;
pub mod power;
pub mod process;
pub mod random;
pub mod scripted;
pub mod simulator;
