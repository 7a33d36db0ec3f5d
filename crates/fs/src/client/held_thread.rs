//! The thread that has a program's connection for its open files: it closes files in the background, and reports to the metadata server
//! which files the program has open whenever the server may not have that record, because it was restarted or the connection was lost.

use std::time::Duration;

use causeway_bmi::{Addr, ConnectionId, END_OF_CONNECTION, Memory, Posted};
use causeway_wire::fs::{Errno, MAX_NAMED_FILES, ObjectId, OpenHandle, Operation, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, done, only_asked, take_reply};
use super::held_state::{GATHER, Shared, Work};
use super::options::{ClientOptions, own_identity};
use super::rpc::{EVENT, Rpc};
use crate::config::Configuration;

/// Pause after a report has failed: the call has used up its whole time-out, or was refused.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Starts a message layer for open files.
pub(super) fn connect(
    configuration: &Configuration,
    options: &ClientOptions,
) -> Result<Rpc, CallError> {
    let caller = options.caller.clone().unwrap_or_else(own_identity);
    Rpc::new(configuration, caller, options.only_scheme.as_deref())
}

/// The error of a thread that cannot be started.
pub(super) fn not_started(error: std::io::Error) -> CallError {
    CallError::local(Errno::EAGAIN, format!("no thread can start: {error}"))
}

/// Serves the open files until the program's last client ends.
pub(super) fn run(rpc: Rpc, shared: &Shared) {
    let mut thread = HeldThread {
        rpc,
        shared,
        connection: None,
        watched: None,
        keeps_none: false,
        has_failed: false,
    };
    while !shared.is_stopping() {
        let present = thread.connection();
        if present.is_some() && present == thread.connection {
            thread.work();
        } else if shared.is_needed() {
            thread.report();
        } else {
            thread.wait(Duration::MAX);
        }
    }
}

struct HeldThread<'a> {
    rpc: Rpc,
    shared: &'a Shared,
    /// The connection by which the server has got the report of the open files.
    connection: Option<ConnectionId>,
    /// The connection whose end interrupts the wait for events.
    watched: Option<ConnectionId>,
    /// The server is of an earlier build, which keeps no open files.
    keeps_none: bool,
    /// The last report has failed, and the log says so already.
    has_failed: bool,
}

impl HeldThread<'_> {
    fn wait(&mut self, most: Duration) {
        self.rpc.wait_for_events(most);
        self.rpc.events.clear();
    }

    fn addr(&mut self) -> Option<Addr> {
        self.rpc.addr(self.rpc.metadata).ok()
    }

    fn connection(&mut self) -> Option<ConnectionId> {
        let addr = self.addr()?;
        self.rpc.bmi.connection(addr)
    }

    /// Reports all open files to the server.
    fn report(&mut self) {
        self.connection = None;
        // Even an empty message makes this connection one by which the files stay open.
        let begun = self.keep(&[]);
        let connection = self.connection();
        self.keeps_none = begun
            .as_ref()
            .is_err_and(|error| error.errno == Errno::EOPNOTSUPP);
        let reported = match begun {
            Err(_) if self.keeps_none => self.watch(),
            begun => begun.and_then(|()| self.report_all(connection)),
        };
        let was_failing = self.has_failed;
        self.has_failed = reported.is_err();
        if let Err(error) = reported {
            self.connection = None;
            if self.shared.is_stopping() {
                return;
            }
            if !was_failing {
                tracing::warn!(
                    error.message,
                    "the report of open files to the metadata server has failed; it is repeated until it succeeds"
                );
            }
            self.wait(RETRY_PAUSE);
        }
    }

    fn report_all(&mut self, connection: Option<ConnectionId>) -> Result<(), CallError> {
        self.watch()?;
        // Closed handles go first, as this makes room for the open ones; and a close must not follow a report that may still contain its handle.
        self.close()?;
        let files = self.shared.begin_report();
        self.keep_all(&files)?;
        if self.connection() != connection || self.connection != connection {
            let text = "the connection was lost meanwhile";
            return Err(CallError::local(Errno::ECONNRESET, text));
        }
        self.shared.end_report();
        Ok(())
    }

    /// Reports that these files are open. Files that the server cannot keep, because they are damaged or too many, do not affect the others.
    fn keep_all(&mut self, files: &[OpenHandle]) -> Result<(), CallError> {
        let mut kept = Ok(());
        for files in files.chunks(MAX_NAMED_FILES) {
            match self.keep(files) {
                Ok(()) => {}
                Err(error)
                    if matches!(
                        error.errno,
                        Errno::CORRUPT | Errno::EMFILE | Errno::ENFILE | Errno::RETRY
                    ) =>
                {
                    kept = kept.and(Err(error));
                }
                Err(error) => return Err(error),
            }
        }
        kept
    }

    fn keep(&mut self, files: &[OpenHandle]) -> Result<(), CallError> {
        let operation = Operation::KeepFiles {
            session: self.shared.session,
            files: files.to_vec(),
        };
        let reply = self.rpc.call(Call::query(self.rpc.metadata, operation))?;
        let gone = take_reply!(reply, ReplyBody::Objects(objects) => objects)?;
        let asked: Vec<ObjectId> = files.iter().map(|file| file.object).collect();
        only_asked("the end", &asked, gone.iter().copied())?;
        if !gone.is_empty() {
            tracing::warn!(
                files = gone.len(),
                "open files are gone, which lost their names while the connection with the metadata server was lost"
            );
        }
        Ok(())
    }

    /// Has the end of the present connection interrupt the wait for events.
    fn watch(&mut self) -> Result<(), CallError> {
        let addr = self.rpc.addr(self.rpc.metadata)?;
        self.connection = self.rpc.bmi.connection(addr);
        if self.connection.is_some() && self.watched == self.connection {
            return Ok(());
        }
        let (context, into) = (self.rpc.context, [Memory::zeroed(1)]);
        match self
            .rpc
            .bmi
            .post_recv(addr, &into, END_OF_CONNECTION, context, EVENT)
        {
            Ok(Posted::Pending(_)) => {
                self.watched = self.connection;
                Ok(())
            }
            Ok(Posted::Complete(_)) => Err(CallError::local(Errno::ECONNRESET, "disconnected")),
            Err(error) => Err(CallError::local(Errno::EIO, error.to_string())),
        }
    }

    /// Carries out the next task, or waits for one.
    fn work(&mut self) {
        if self.keeps_none {
            self.shared.forget_closed();
            return self.wait(Duration::MAX);
        }
        let result = match self.shared.work() {
            Work::Stop => return,
            Work::Keep(files) => self.keep_all(&files).map(|()| self.shared.end_report()),
            Work::Close => {
                // The next request that opens a file may carry them.
                self.wait(GATHER);
                self.close()
            }
            Work::Nothing => {
                self.wait(Duration::MAX);
                Ok(())
            }
        };
        if let Err(error) = result {
            // The server may or may not have closed them: everything is reported again.
            tracing::debug!(error.message, "the metadata server's reply is missing");
            self.connection = None;
        }
    }

    fn close(&mut self) -> Result<(), CallError> {
        let mut handles = self.shared.take_closed();
        while !handles.is_empty() {
            let rest = handles.split_off(handles.len().min(MAX_NAMED_FILES));
            let operation = Operation::CloseFiles {
                session: self.shared.session,
                handles: handles.clone(),
            };
            let reply = self.rpc.call(Call::query(self.rpc.metadata, operation));
            if let Err(error) = reply.and_then(done) {
                handles.extend(rest);
                self.shared.put_back(handles);
                return Err(error);
            }
            handles = rest;
        }
        Ok(())
    }
}
