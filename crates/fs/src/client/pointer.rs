//! Pointers that several clients share: the metadata server keeps them (docs/mpi-io.md).

use causeway_wire::fs::{Errno, ObjectId, Operation, PointerStep, ReplyBody};

use super::call_error::{CallError, object_name, take_reply};
use super::connection::Client;
use crate::Error;

impl Client {
    /// Carries out a step of a shared pointer of a file, once, and returns the pointer's position: with [`PointerStep::Add`], its position before
    /// the step. The number `pointer` is drawn at random by the client that makes it. Fails with
    /// [`Errno::POINTER_LOST`](causeway_wire::fs::Errno::POINTER_LOST) if the server does not know it (any more); after another failure, the step
    /// may have been done.
    pub fn move_pointer(
        &mut self,
        object: ObjectId,
        pointer: u64,
        step: PointerStep,
    ) -> Result<u64, Error> {
        self.pointer_steps += 1;
        let operation = Operation::MovePointer {
            object,
            pointer,
            number: self.pointer_steps,
            step,
        };
        self.query(operation)
            .and_then(|reply| take_reply!(reply, ReplyBody::Pointer(position) => position))
            .and_then(|position| follows(step, position))
            .map_err(|error| error.during("move the shared pointer", &object_name(object)))
    }
}

/// Refuses a position that the step cannot have led to, or begun at.
fn follows(step: PointerStep, position: u64) -> Result<u64, CallError> {
    let is_possible = match step {
        PointerStep::Put(at) => position == at,
        PointerStep::Add(many) => position.checked_add(many).is_some(),
        PointerStep::Get | PointerStep::End => true,
    };
    match is_possible {
        true => Ok(position),
        false => {
            let text = format!(
                "the metadata server says that a shared pointer stands at {position}, which {step:?} does not lead to"
            );
            Err(CallError::local(Errno::EPROTO, text))
        }
    }
}
