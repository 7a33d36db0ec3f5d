//! Requests that read many records: a thread carries them out beside the metadata server's loop, which serves other requests
//! meanwhile.

use std::sync::mpsc::{Sender, channel};

use causeway_wire::fs::{Failure, Operation, Request};

use super::thread_state::{Deliver, Finished, SharedService, Wakeups, apply, no_thread};
use super::ticket::Ticket;
use crate::meta::Reader;
use crate::threads::{AbortOnPanic, JoinOnDrop};

/// Whether an operation reads too many records to be carried out in the loop.
pub(super) fn is_scan(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Check { .. } | Operation::ListStriped { .. } | Operation::Paths { .. }
    )
}

/// The thread that carries scans out, one after another.
pub(super) struct Scanner {
    // The thread ends when this sender is dropped.
    requests: Sender<(Ticket, Request)>,
    _thread: JoinOnDrop,
}

impl Scanner {
    pub(super) fn start(
        reader: Reader,
        service: SharedService,
        wakeups: Wakeups,
        deliver: Deliver,
    ) -> Result<Self, Failure> {
        let (requests, arrived) = channel::<(Ticket, Request)>();
        let work = move || {
            let _guard = AbortOnPanic("scan");
            for (ticket, request) in arrived {
                let finished = match reader.answer(&request) {
                    Some(reply) => vec![(ticket, Finished::Reply(reply, None))],
                    // A check that has found what must be repaired.
                    None => apply(&service, &wakeups, &mut vec![(ticket, request)]),
                };
                deliver(finished);
            }
        };
        let thread = JoinOnDrop::spawn("scan", work).map_err(|error| no_thread("scan", &error))?;
        Ok(Self {
            requests,
            _thread: thread,
        })
    }

    /// Passes a request to the thread, which delivers its reply.
    pub(super) fn put(&self, ticket: Ticket, request: Request) {
        // The thread ends only when this is dropped, or with the process.
        let _ = self.requests.send((ticket, request));
    }
}
