//! A seeded simulator of packets: nodes of the real code in a network that loses, doubles, reorders,
//! delays, alters and cuts off, in virtual time. The same seed gives the same run, byte for byte.
//!
//! Parts, in reading order: [`network`] (the links and their faults), [`datagram_io`] (the UDP
//! method's datagram I/O there), [`model`] (invariants), [`conversations`] (the engine's alone, without
//! methods), [`methods`] (nodes that send and move memory against the model), [`messages`] (whole message
//! layers, against a model of their own), [`streams`] (the TCP method's sessions over streams of bytes),
//! [`sabotage`] (mistakes on purpose, which must be noticed).
//! [`lossy`] is for the conformance suite: accidents over real sockets.
//!
//! `tests/simulator.rs` runs seeds; `make simulate SEEDS=…` runs any number of them.

pub mod conversations;
pub mod datagram_io;
pub mod lossy;
pub mod messages;
pub mod methods;
pub mod model;
pub mod network;
pub mod sabotage;
pub mod streams;

/// Outcome of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The network's log.
    pub log: Vec<u8>,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Packets that have arrived.
    pub packets: u64,
    /// Transfers that have succeeded.
    pub transfers: u64,
}
