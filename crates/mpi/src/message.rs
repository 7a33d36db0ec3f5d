//! Messages that a matching probe has found: they are received only by their handle (MPI 5.0 §3.8.2).

use causeway_engine::types::Taken;

use crate::abi;
use crate::buffer::Buffer;
use crate::error::Result;
use crate::matching::MpiPattern;
use crate::point::Route;
use crate::process::{Active, POSTS, Process};
use crate::status::Status;

/// A message that was found.
#[derive(Debug)]
pub(crate) struct Message {
    taken: Taken,
    pattern: MpiPattern,
    communicator: usize,
}

impl Process {
    /// Takes the message that a receive would get now, if there is one; returns its handle. Makes no progress.
    pub fn take_message(&mut self, route: Route) -> Result<Option<(usize, Status)>> {
        let communicator = self.communicator(route.communicator)?;
        if route.rank == abi::PROC_NULL {
            return Ok(Some((abi::MESSAGE_NO_PROC, Status::of_proc_null())));
        }
        let pattern = communicator.pattern(route.rank, route.tag)?;
        let Some((taken, envelope)) = self.endpoint.take_message(pattern) else {
            return self.check_sources(route).map(|()| None);
        };
        let status = self.status_of(route.communicator, envelope)?;
        let message = self.messages.insert(Message {
            taken,
            pattern,
            communicator: route.communicator,
        })?;
        Ok(Some((message, status)))
    }

    /// Starts to receive a message that was taken.
    pub fn receive_message(&mut self, into: Buffer<'_>, message: usize) -> Result<Active> {
        if message == abi::MESSAGE_NO_PROC {
            return Ok(Active::done(Status::of_proc_null(), abi::COMM_SELF));
        }
        let gaps = match into.is_plain() {
            true => None,
            false => Some(into.in_pieces()?),
        };
        let Message {
            taken,
            pattern,
            communicator,
        } = self.messages.remove(message)?;
        let posted = match gaps {
            None => {
                let memory = std::slice::from_ref(into.memory);
                self.endpoint
                    .receive_taken(taken, pattern, memory, POSTS, 0)
            }
            Some(gaps) => {
                let bytes = gaps.bytes();
                let gaps = (Box::new(gaps) as _, bytes);
                self.endpoint
                    .receive_taken_pieces((taken, pattern), gaps, POSTS, 0)
            }
        };
        self.receiving(posted, (communicator, false))
    }
}
