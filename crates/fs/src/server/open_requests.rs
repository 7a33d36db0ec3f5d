//! Files that programs have open: requests to the metadata server, and programs that disconnect.
//!
//! A program has its files open for as long as one of the connections lasts by which it has opened or kept some. The end of each
//! wakes the loop, by a receive that no other event completes; with the last one all its files are closed.

use causeway_bmi::Completion;
use causeway_wire::fs::{Errno, Failure, OpenHandle, Opening, ReplyBody};

use super::events::Loop;
use super::open_programs::{Connection, WATCHES_OPENS};
use super::ticket::{ReplyTo, Ticket};
use crate::error::failure;

/// Most connections of one program: more than a mount has clients, even if the ends of earlier ones have not been noticed yet.
const MAX_CONNECTIONS: usize = 1024;
/// Most connections of all programs, each counted once for each program that it serves.
const MAX_WATCHES: usize = 1 << 16;

impl Loop {
    /// Prepares for a request that opens a file, if it finds one.
    pub(super) fn begin_opening(&mut self, to: ReplyTo, opening: &Opening) -> Result<(), Failure> {
        self.know_program(to, opening.session)?;
        if let Some(metadata) = &self.metadata {
            let opens = metadata.reader().opens();
            opens.begin(opening.session, opening.handle);
        }
        self.close_files(opening.session, &opening.closed);
        Ok(())
    }

    /// Handles a program's report that it has closed files.
    pub(super) fn close_files(&mut self, session: u128, handles: &[u64]) {
        if let Some(metadata) = &self.metadata
            && !handles.is_empty()
        {
            metadata.reader().opens().close(session, handles);
            metadata.notify_of_orphans();
        }
    }

    /// Handles a program's report of the files that it has open.
    pub(super) fn keep_files(
        &mut self,
        to: ReplyTo,
        session: u128,
        files: &[OpenHandle],
    ) -> Result<ReplyBody, Failure> {
        self.know_program(to, session)?;
        let gone = match &self.metadata {
            Some(metadata) => metadata.reader().keep(session, files)?,
            None => Vec::new(),
        };
        Ok(ReplyBody::Objects(gone))
    }

    /// Handles the end of a receive that watched a connection.
    pub(super) fn open_watch_ended(&mut self, ticket: Ticket, completion: &Completion) {
        let watch = ticket.generation;
        let Some(session) = self.programs.watches.get(&watch).copied() else {
            return;
        };
        tracing::debug!(?completion.result, "a connection of a program with open files is gone");
        let Some(connections) = self.programs.connections.get_mut(&session) else {
            return;
        };
        let Some(place) = connections.iter().position(|known| known.watch == watch) else {
            return;
        };
        let gone = connections.swap_remove(place);
        let is_last = connections.is_empty();
        self.forget_watch(&gone);
        if is_last {
            self.end_program(session);
        }
    }

    /// Notes the connections by which a program has its files open.
    fn know_program(&mut self, to: ReplyTo, session: u128) -> Result<(), Failure> {
        self.check_metadata()?;
        if let Some(metadata) = &self.metadata {
            metadata.expect_open_files();
        }
        let gone = || failure(Errno::ECONNRESET, "the client has disconnected");
        let connection = self.bmi.connection(to.from).ok_or_else(gone)?;
        let is_this = |known: &Connection| known.from == to.from && known.connection == connection;
        let known = self.programs.connections.get(&session);
        let known = known.map_or(&[][..], Vec::as_slice);
        if known.iter().any(is_this) {
            return Ok(());
        }
        if known.len() >= MAX_CONNECTIONS {
            let text = format!("the program has {MAX_CONNECTIONS} connections with open files");
            return Err(failure(Errno::ENFILE, text));
        }
        if self.programs.watches.len() >= MAX_WATCHES {
            let text = format!("programs that open files have {MAX_WATCHES} connections in all");
            return Err(failure(Errno::ENFILE, text));
        }
        self.programs.last_watch = self.programs.last_watch.wrapping_add(1);
        let watch = self.programs.last_watch;
        let ticket = Ticket {
            slot: WATCHES_OPENS,
            generation: watch,
        };
        let receive = self.post_watch(to.from, ticket).ok_or_else(gone)?;
        self.bmi.retain(to.from);
        self.programs.watches.insert(watch, session);
        let connections = self.programs.connections.entry(session).or_default();
        connections.push(Connection {
            from: to.from,
            connection,
            watch,
            receive,
        });
        if let Some(metadata) = &self.metadata {
            metadata.reader().opens().know(session);
        }
        Ok(())
    }

    fn forget_watch(&mut self, connection: &Connection) {
        self.programs.watches.remove(&connection.watch);
        self.bmi.cancel(connection.receive);
        self.bmi.release(connection.from);
    }

    fn end_program(&mut self, session: u128) {
        let connections = self.programs.connections.remove(&session);
        for connection in connections.unwrap_or_default() {
            self.forget_watch(&connection);
        }
        if let Some(metadata) = &self.metadata {
            metadata.reader().opens().end(session);
            metadata.notify_of_orphans();
        }
    }
}
