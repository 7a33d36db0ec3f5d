//! What stands around an operation: who sends it to whom, on whose behalf, and with which right.

use alloc::vec::Vec;

use super::{Capability, Operation, Target};

/// What a client sends to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Tag under which the reply is sent.
    pub reply_tag: u64,
    /// The server that it is meant for.
    pub target: Target,
    /// The sending client: a number chosen at random once per client process.
    pub client: u128,
    /// The client's slot for this operation. A slot has one mutation in progress at a time; a slot
    /// and a sequence number make repeating a mutation harmless (NFSv4.1's sessions).
    pub slot: u16,
    /// Counts the mutations of the slot, from 1; 0 for operations that change nothing.
    pub sequence: u64,
    /// The user on whose behalf the client sends.
    pub caller: Caller,
    /// The right to carry the operation out, where it [needs](Operation::needs) one. Requests of formats before
    /// [`CAPABILITIES`](super::formats::CAPABILITIES) have none.
    pub capability: Option<Capability>,
    /// What.
    pub operation: Operation,
}

/// The identity that permissions are checked against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caller {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
}
