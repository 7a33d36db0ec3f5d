//! Appending in turns: requests to the metadata server, and clients that disconnect while they have the turn.

use std::time::Instant;

use causeway_bmi::{Addr, Completion, END_OF_CONNECTION, Memory, OpId, Posted};
use causeway_wire::fs::{Errno, Failure, ObjectId, Operation, Reply, ReplyBody, Request};

use super::append_turns::{Waiting, Watched};
use super::events::Loop;
use super::purpose::Purpose;
use super::ticket::{ReplyTo, Ticket};
use crate::error::failure;

impl Loop {
    /// Handles a client's request for a turn; the reply is sent when the client gets it.
    pub(super) fn begin_append(
        &mut self,
        to: ReplyTo,
        object: ObjectId,
        request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        self.check_metadata()?;
        let client = request.client;
        let waiting = Waiting { to, request };
        match self
            .appends
            .turns
            .wait(object, (client, to.from), waiting, self.round_at)
        {
            Ok(given_up) => {
                if let Some(other) = given_up.filter(|other| *other != object) {
                    self.give_turn(other);
                }
                self.give_turn(object);
                self.watch_turn(object);
                Ok(None)
            }
            Err(_) => Err(failure(
                Errno::RETRY,
                "too many clients wait for their turn to append",
            )),
        }
    }

    /// Handles a client's report that it has appended. Only the client that has the turn may send it; from another one it may be a repeated
    /// request, which is replied to as before.
    pub(super) fn end_append(
        &mut self,
        to: ReplyTo,
        mut request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        let client = request.client;
        let mut ending = None;
        if let Operation::EndAppend { object, turn, .. } = &mut request.operation {
            match self.appends.turns.begin_end(*object, *turn, client) {
                true => ending = Some((*object, *turn)),
                false => *turn = 0,
            }
        }
        let taken = self.take_metadata_request(to, request);
        if let (Ok(ticket), Some(ending)) = (&taken, ending) {
            self.appends.endings.insert(*ticket, ending);
        }
        taken.map(|_| None)
    }

    /// Releases a client's turn.
    pub(super) fn cancel_append(&mut self, object: ObjectId, turn: u64, client: u128) -> ReplyBody {
        // From now on, the turn counts as ended.
        if self.appends.turns.begin_end(object, turn, client) {
            self.end_turn(object, turn);
        }
        ReplyBody::Done
    }

    /// Handles a client's question whether it still has its turn. If a request to end the turn is repeated, since its reply was lost,
    /// it gets the same reply again.
    pub(super) fn check_turn(
        &mut self,
        object: ObjectId,
        turn: u64,
        client: u128,
        end: bool,
    ) -> Result<ReplyBody, Failure> {
        if end && self.appends.turns.has_ended(turn, client) {
            return Ok(ReplyBody::Done);
        }
        if !self.appends.turns.keep(object, turn, client, self.round_at) {
            return Err(failure(
                Errno::OVERTAKEN,
                "the turn has ended, since others waited and this client did not go on, or its connection was lost",
            ));
        }
        if end {
            self.appends.turns.note_own_end(turn, client);
            self.end_turn(object, turn);
        }
        Ok(ReplyBody::Done)
    }

    /// Handles the end of a metadata request: if it ended a turn, the next one begins.
    pub(super) fn note_finished(&mut self, ticket: Ticket) {
        if let Some((object, turn)) = self.appends.endings.remove(&ticket) {
            self.end_turn(object, turn);
        }
    }

    /// Ends turns for which others have waited for too long, and has those clients ask again that have waited for as long as one
    /// request may.
    pub(super) fn take_overdue_turns(&mut self) {
        self.have_clients_ask_again();
        if self
            .appends
            .turns
            .next_due()
            .is_none_or(|due| due > self.round_at)
        {
            return;
        }
        // Clients whose changes wait for leases make progress as soon as they can.
        for wait in self.leases.waits.iter() {
            let client = wait.request.client;
            self.appends.turns.keep_held(client, self.round_at);
        }
        for (object, turn) in self.appends.turns.overdue(self.round_at) {
            tracing::warn!(
                object = object.0,
                "a client has not appended in time, and another one gets its turn"
            );
            self.end_turn(object, turn);
        }
    }

    /// When the next turn is to be taken away, if any is.
    pub(super) fn next_overdue_turn(&self) -> Option<Instant> {
        let turns = &self.appends.turns;
        turns
            .next_due()
            .into_iter()
            .chain(turns.next_to_ask_again())
            .min()
    }

    fn have_clients_ask_again(&mut self) {
        let due = self.appends.turns.next_to_ask_again();
        if due.is_none_or(|due| due > self.round_at) {
            return;
        }
        for Waiting { to, .. } in self.appends.turns.take_to_ask_again(self.round_at) {
            let result = Err(failure(
                Errno::EAGAIN,
                "others still have their turns before this client",
            ));
            self.respond(to, &Reply { result });
        }
    }

    fn end_turn(&mut self, object: ObjectId, turn: u64) {
        if self.appends.turns.end(object, turn) {
            self.go_on_after(object, turn);
        }
    }

    /// Ends the turn of a client that is gone.
    fn lose_turn(&mut self, object: ObjectId, turn: u64) {
        if self.appends.turns.lose(object, turn) {
            self.go_on_after(object, turn);
        }
    }

    /// Begins the next turn after one has ended.
    fn go_on_after(&mut self, object: ObjectId, turn: u64) {
        let mut ended = self
            .appends
            .watched
            .iter()
            .filter(|(_, watched)| watched.object == object && watched.turn == turn);
        if let Some((&number, watched)) = ended.next() {
            let receive = watched.receive;
            self.appends.watched.remove(&number);
            self.bmi.cancel(receive);
        }
        self.give_turn(object);
    }

    /// Gives the turn to the first waiting client that is still connected.
    fn give_turn(&mut self, object: ObjectId) {
        while let Some((turn, Waiting { to, request })) =
            self.appends.turns.next(object, self.round_at)
        {
            let result = match self.bmi.identity(to.from) {
                Some(_) => self.turn_reply(turn, &request),
                None => Err(failure(Errno::ECONNRESET, "the client has disconnected")),
            };
            let is_given = result.is_ok();
            self.respond(to, &Reply { result });
            if is_given {
                return self.watch_turn(object);
            }
            self.appends.turns.end(object, turn);
        }
    }

    fn turn_reply(&self, turn: u64, request: &Request) -> Result<ReplyBody, Failure> {
        match self.read_metadata(request).map(|reply| reply.result) {
            Some(Ok(ReplyBody::Node(node))) => Ok(ReplyBody::Turn { turn, node }),
            Some(Err(failure)) => Err(failure),
            _ => Err(failure(Errno::EIO, "the file's end cannot be read")),
        }
    }

    /// Watches the client that has a turn for which others wait: its disconnection wakes the loop.
    fn watch_turn(&mut self, object: ObjectId) {
        let Some((turn, from)) = self.appends.turns.wanted(object) else {
            return;
        };
        let mut watched = self.appends.watched.values();
        if watched.any(|watched| (watched.object, watched.turn) == (object, turn)) {
            return;
        }
        self.appends.last_watch = self.appends.last_watch.wrapping_add(1);
        let number = self.appends.last_watch;
        let ticket = Ticket {
            slot: 0,
            generation: number,
        };
        match self.post_watch(from, ticket) {
            Some(receive) => {
                let watched = Watched {
                    object,
                    turn,
                    receive,
                };
                self.appends.watched.insert(number, watched);
            }
            // The client is gone already.
            None => self.lose_turn(object, turn),
        }
    }

    /// Posts a receive that completes when a client's connection ends; `number` stands where other completions have a ticket.
    pub(super) fn post_watch(&mut self, from: Addr, number: Ticket) -> Option<OpId> {
        self.bmi.identity(from)?;
        let user = Purpose::Watch.user(number);
        let into = [Memory::zeroed(1)];
        let posted = self
            .bmi
            .post_recv(from, &into, END_OF_CONNECTION, self.context, user);
        match posted {
            Ok(Posted::Pending(receive)) => Some(receive),
            Ok(Posted::Complete(_)) | Err(_) => None,
        }
    }

    /// Handles the end of a receive that watched a client: the client has disconnected, or the watch was cancelled.
    pub(super) fn watch_ended(&mut self, ticket: Ticket, completion: &Completion) {
        if let Some(watched) = self.appends.watched.remove(&ticket.generation) {
            tracing::debug!(?completion.result, "a client is gone that had the turn to append");
            self.lose_turn(watched.object, watched.turn);
        }
    }
}
