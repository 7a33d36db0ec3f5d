//! Files that programs have open: requests to the metadata server, and programs that go.
//!
//! A program has its files open for as long as one of the connections lasts by which it has opened or kept some. The end of each
//! wakes the loop, by a receive that nothing else ends; with the last one all its files are closed.

use causeway_bmi::Completion;
use causeway_wire::fs::{Errno, Failure, OpenHandle, Opening, ReplyBody};

use super::events::Loop;
use super::open_programs::{Connection, WATCHES_OPENS};
use super::ticket::{ReplyTo, Ticket};
use crate::error::failure;

/// Most programs that have files open.
const MAX_PROGRAMS: usize = 4096;
/// Most connections of one program.
const MAX_CONNECTIONS: usize = 256;

impl Loop {
    /// A request opens a file, if it finds one.
    pub(super) fn begin_opening(&mut self, to: ReplyTo, opening: &Opening) -> Result<(), Failure> {
        self.know_program(to, opening.session)?;
        self.close_files(opening.session, &opening.closed);
        Ok(())
    }

    /// A program has closed files.
    pub(super) fn close_files(&mut self, session: u128, handles: &[u64]) {
        if let Some(metadata) = &self.metadata
            && !handles.is_empty()
        {
            metadata.reader().opens().close(session, handles);
            metadata.notify_of_orphans();
        }
    }

    /// A program says which files it has open.
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

    /// The receive that watched a connection has ended.
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

    /// Notes by which connections a program has its files open.
    fn know_program(&mut self, to: ReplyTo, session: u128) -> Result<(), Failure> {
        self.check_metadata()?;
        if let Some(metadata) = &self.metadata {
            metadata.expect_open_files();
        }
        let gone = || failure(Errno::ECONNRESET, "the client has disconnected");
        let connection = self.bmi.connection(to.from).ok_or_else(gone)?;
        let is_this = |known: &Connection| known.from == to.from && known.connection == connection;
        let programs = &self.programs.connections;
        let known = programs.get(&session).map_or(&[][..], Vec::as_slice);
        if known.iter().any(is_this) {
            return Ok(());
        }
        if known.len() >= MAX_CONNECTIONS {
            let text = format!("the program has {MAX_CONNECTIONS} connections with open files");
            return Err(failure(Errno::ENFILE, text));
        }
        let is_new = known.is_empty();
        if is_new && programs.len() >= MAX_PROGRAMS {
            self.forget_idle_programs();
        }
        if is_new && self.programs.connections.len() >= MAX_PROGRAMS {
            let text = format!("{MAX_PROGRAMS} programs have files open, and no more can");
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

    fn forget_idle_programs(&mut self) {
        let Some(metadata) = &self.metadata else {
            return;
        };
        let opens = metadata.reader().opens();
        let programs = self.programs.connections.keys().copied();
        let idle: Vec<u128> = programs.filter(|session| opens.is_idle(*session)).collect();
        for session in idle {
            self.end_program(session);
        }
    }
}
