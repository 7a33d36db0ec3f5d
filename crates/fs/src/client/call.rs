//! One call: a request to one server.

use causeway_wire::fs::{Opening, Operation, WantedSums};

use super::transfer::{AppendLock, IoKind, Piece};

/// One request to one server.
#[derive(Debug)]
pub(crate) struct Call {
    /// Index of the server in the configuration.
    pub server: usize,
    /// The request.
    pub body: Body,
    /// Session slot of a mutation.
    pub(super) slot: Option<u16>,
    /// The program and handle for which the request opens the file that it finds or makes.
    pub(super) opening: Option<Opening>,
    /// Its result is to be cached, so it requests leases.
    pub(super) asks_lease: bool,
}

/// The content of a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// An operation whose arguments all travel in its message.
    Plain(Operation),
    /// A read or write of a datafile with memory that must be exported first.
    Data(IoKind, Piece),
}

impl Call {
    /// A request that changes nothing, or that may be repeated without harm.
    pub(crate) fn query(server: usize, operation: Operation) -> Self {
        Self {
            server,
            body: Body::Plain(operation),
            slot: None,
            opening: None,
            asks_lease: false,
        }
    }

    /// A request that must be carried out once. Mutations in flight together have different slots.
    pub(crate) fn mutation(server: usize, operation: Operation, slot: u16) -> Self {
        Self {
            server,
            body: Body::Plain(operation),
            slot: Some(slot),
            opening: None,
            asks_lease: false,
        }
    }

    /// Requests sums of blocks with a read.
    pub(crate) fn want_sums(&mut self, sums: WantedSums) {
        if let Body::Data(IoKind::Read, piece) = &mut self.body {
            piece.sums = sums;
        }
    }

    /// Makes a write one under an append lock.
    pub(crate) fn set_append_lock(&mut self, append_lock: AppendLock) {
        if let Body::Data(IoKind::Write, piece) = &mut self.body {
            piece.append_lock = Some(append_lock);
        }
    }

    /// Whether a repetition would overwrite bytes that other clients have written since.
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self.body,
            Body::Data(IoKind::Write, _) | Body::Plain(Operation::PunchData { .. })
        )
    }

    /// A read or write of a datafile.
    pub(crate) fn data(server: usize, kind: IoKind, piece: Piece) -> Self {
        Self {
            server,
            body: Body::Data(kind, piece),
            slot: None,
            opening: None,
            asks_lease: false,
        }
    }
}
