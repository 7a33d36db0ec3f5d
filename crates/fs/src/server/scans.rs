//! Requests that read many records, carried out beside the metadata server's loop, which serves other requests
//! meanwhile.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use causeway_wire::fs::{Failure, Operation, Reply, Request};

use super::Ticket;
use super::metadata::{Deliver, SharedService, Wakeups, apply, no_thread};
use crate::fatal::AbortOnPanic;
use crate::meta::Reader;

/// Whether a request reads so many records that it is not for the loop.
pub(super) fn is_scan(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Check { .. } | Operation::ListStriped { .. } | Operation::Paths { .. }
    )
}

/// The thread that carries scans out, one after another.
pub(super) struct Scanner {
    requests: Option<Sender<(Ticket, Request)>>,
    thread: Option<JoinHandle<()>>,
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
                let replies: Vec<(Ticket, Reply)> = match reader.execute(&request) {
                    Some(reply) => vec![(ticket, reply)],
                    // A check that has found what must be repaired.
                    None => apply(&service, &wakeups, vec![(ticket, request)]),
                };
                deliver(replies);
            }
        };
        let thread = std::thread::Builder::new()
            .name("scan".to_owned())
            .spawn(work)
            .map_err(|error| no_thread("scan", &error))?;
        Ok(Self {
            requests: Some(requests),
            thread: Some(thread),
        })
    }

    /// Takes a request, whose reply is delivered.
    pub(super) fn put(&self, ticket: Ticket, request: Request) {
        if let Some(requests) = &self.requests {
            // The thread ends with this only, or the process with it.
            let _ = requests.send((ticket, request));
        }
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // It only fails by a panic, which was reported when it happened.
            let _ = thread.join();
        }
    }
}
