//! Pointers that clients share: requests to the metadata server.

use causeway_wire::fs::{Errno, Failure, Kind, Operation, PointerStep, ReplyBody, Request};

use super::events::Loop;
use super::pointers::{PointerConnection, Refused, Sender};
use super::ticket::ReplyTo;
use crate::error::failure;
use crate::permissions;

impl Loop {
    /// Carries out a step of a shared pointer. To make one, the client must be allowed to read or to write the file.
    pub(super) fn move_pointer(
        &mut self,
        to: ReplyTo,
        request: &Request,
    ) -> Result<ReplyBody, Failure> {
        let Operation::MovePointer {
            object,
            pointer,
            number,
            step,
        } = request.operation
        else {
            return Err(failure(Errno::EINVAL, "this request is about no pointer"));
        };
        self.check_metadata()?;
        let key = (object, pointer);
        if matches!(step, PointerStep::Put(_)) && !self.pointers.has(key) {
            let node = self.node_for(request, object)?;
            if node.attributes.kind != Kind::File {
                return Err(failure(Errno::EINVAL, "only files have shared pointers"));
            }
            let rights = permissions::of_handle(&node, &request.caller);
            if rights & (permissions::READ | permissions::WRITE) == 0 {
                let text = "a shared pointer needs permission to read or to write the file";
                return Err(failure(Errno::EACCES, text));
            }
        }
        let gone = || failure(Errno::ECONNRESET, "the client has disconnected");
        let connection = self.bmi.connection(to.from).ok_or_else(gone)?;
        let sender = Sender {
            client: request.client,
            connection: (to.from, connection),
            user: request.caller.uid,
            number,
        };
        let bmi = &self.bmi;
        let is_alive =
            |(from, connection): PointerConnection| bmi.connection(from) == Some(connection);
        let done = self.pointers.step(key, sender, step, is_alive);
        done.map(ReplyBody::Pointer).map_err(|refused| match refused {
            Refused::Unknown => failure(
                Errno::POINTER_LOST,
                "the metadata server has been started again, or has forgotten the pointer after all of its clients had disconnected; set it anew",
            ),
            Refused::Stale => failure(Errno::STALE_SEQUENCE, ""),
            Refused::TooFar => failure(Errno::EOVERFLOW, "the shared pointer would be too large"),
            Refused::Full(what) => failure(Errno::ENFILE, what),
        })
    }
}
