//! Conformance suites and the pieces that tests of several rooms share. For tests only: no room
//! depends on this one outside its dev-dependencies.
//!
//! Read [`mod@conformance`] first: one suite for everything that implements [`causeway_transport::Method`], instantiated for
//! each method in `tests/conformance.rs`. Then:
//!
//! | part | what it holds |
//! |---|---|
//! | [`messages`](mod@messages) | the suite of the message layer over each method |
//! | [`matching`] | matchers held against a reference: lists that are searched from the front |
//! | [`simulator`] | conversations and methods over simulated networks, from seeds |
//! | [`decoders`] | bodies that feed hostile bytes to every decoder, shared by `fuzz/` and by an ordinary test |
//! | [`power`] | what loss of power leaves of files |
//! | [`linear`] | whether a recorded history is one of a sequential object |
//! | [`scripted`] | a file server with replies that a test chooses |
//! | [`process`] | tests that run a part of themselves in another process, to be killed for real |
//! | [`adapter`] | a method that moves registered memory only |
//! | [`placement`] | sinks that give receive buffers to packets |
//! | [`pair`] | two instances that have met |
//! | [`loopback`] | ports that one test has for itself |
//! | [`installed`] | a C library as `make install` leaves it |
//! | [`random`], [`patience`], [`directory`] | seeds, so that a failure can be run again; bounded waiting; temporary directories |
//!
//! `tests/house.rs` checks the source tree: dependencies between crates, sizes of files, banned calls.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod conformance;
pub mod decoders;
pub mod directory;
pub mod installed;
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
