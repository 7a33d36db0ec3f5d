//! Waiting for turns, and the writes of a turn, which are sent only on connections that were made
//! before the turn began.
//!
//! An I/O server refuses writes of turns that have been overtaken, as long as it runs. An I/O server that was restarted after the turn began may
//! have stored writes of later turns without knowing of these turns: it must not get a write of the earlier turn. If it is known that the turn
//! had not ended when a connection was made, the client may use that connection, too.

use std::time::{Duration, Instant};

use causeway_bmi::ConnectionId;
use causeway_wire::fs::{Errno, Node, ObjectId, Operation, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, take_reply};
use super::connection::Client;
use super::rpc::Rpc;
use super::transfer::Turn;

/// A reply that comes before this time, and has the client ask again, came without a wait at the
/// metadata server.
const HASTY: Duration = Duration::from_millis(10);
/// Pause after such a reply.
const PAUSE: Duration = Duration::from_millis(100);

/// A client's wait for a turn, from one of its requests to the next one.
#[derive(Debug, Default)]
pub struct TurnWait {
    /// Since when each reply of the server has come without a wait.
    hasty_since: Option<Instant>,
}

impl Client {
    /// Requests the turn for a file. Returns nothing if other clients still have their turns: the server keeps the client's place
    /// for half of the time-out, within which the client has to ask again.
    pub(super) fn ask_for_turn(
        &mut self,
        object: ObjectId,
        wait: &mut TurnWait,
    ) -> Result<Option<(u64, Node)>, CallError> {
        let asked = Instant::now();
        match self.query(Operation::BeginAppend { object }) {
            Err(error) if error.errno == Errno::EAGAIN => {
                match wait.next(asked, Instant::now(), self.rpc.timeout) {
                    Next::Ask => {}
                    Next::Pause => std::thread::sleep(PAUSE),
                    Next::GiveUp => {
                        let text = "it keeps telling this client to ask again for its turn, and has it wait for none";
                        return Err(self.rpc.error_at(self.metadata, Errno::ETIMEDOUT, text));
                    }
                }
                Ok(None)
            }
            reply => take_reply!(reply?, ReplyBody::Turn { turn, node } => Some((turn, *node))),
        }
    }
}

/// What a client does after a reply that it has to ask again for its turn.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Ask,
    /// First pauses.
    Pause,
    GiveUp,
}

impl TurnWait {
    /// Decides what to do after the reply to a request that was sent at `asked`. A server that has its client ask again at
    /// once, throughout the time-out, is faulty.
    fn next(&mut self, asked: Instant, now: Instant, timeout: Duration) -> Next {
        if now >= asked + HASTY {
            self.hasty_since = None;
            return Next::Ask;
        }
        let since = *self.hasty_since.get_or_insert(asked);
        match now >= since + timeout {
            true => Next::GiveUp,
            false => Next::Pause,
        }
    }
}

/// A turn that the client has.
pub(super) struct HeldTurn {
    pub(super) number: u64,
    /// By server in the configuration: the connections that were made before the turn began, or when it was
    /// known not to have ended.
    pub(super) connections: Vec<Option<ConnectionId>>,
    /// It is a turn to append, which ends with the new size of the file.
    pub(super) appends: bool,
}

impl Rpc {
    /// The present connections, by server in the configuration.
    pub(super) fn connections(&self) -> Vec<Option<ConnectionId>> {
        (0..self.links.len())
            .map(|server| self.connection(server))
            .collect()
    }

    /// Connects with those of these servers with which there is no connection.
    pub(super) fn connect(&mut self, servers: &[usize]) -> Result<(), CallError> {
        let servers = servers.iter().copied();
        let unconnected = servers.filter(|server| self.connection(*server).is_none());
        let unconnected = Vec::from_iter(unconnected);
        self.greet(&unconnected)
            .into_iter()
            .try_for_each(|greeting| greeting.map(drop))
    }

    /// The present connection with a server.
    pub(super) fn connection(&self, server: usize) -> Option<ConnectionId> {
        self.bmi.connection(self.links.get(server)?.addr?)
    }

    /// Makes writes part of a turn. Returns `false` if the connection with one of their servers is newer than the turn, or missing: then
    /// it is made, for the next turn.
    pub(super) fn put_in_turn(
        &mut self,
        calls: &mut [Call],
        turn: &HeldTurn,
    ) -> Result<bool, CallError> {
        let mut are_put = true;
        let servers: Vec<usize> = calls.iter().map(|call| call.server).collect();
        for call in calls {
            let before = turn.connections.get(call.server).copied().flatten();
            let now = self.connection(call.server);
            match before.filter(|before| now == Some(*before)) {
                Some(connection) => call.set_turn(Turn {
                    number: turn.number,
                    connection,
                }),
                None => are_put = false,
            }
        }
        self.connect(&servers)?;
        Ok(are_put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_a_client_wait_is_asked_again_at_once_and_another_one_in_vain_for_the_timeout()
     {
        let timeout = Duration::from_secs(1);
        let mut wait = TurnWait::default();
        let mut now = Instant::now();
        let ask = |wait: &mut TurnWait, now: &mut Instant, waits: Duration| {
            let asked = *now;
            *now += waits;
            wait.next(asked, *now, timeout)
        };
        for _ in 0..3 {
            for _ in 0..100 {
                assert_eq!(ask(&mut wait, &mut now, timeout / 2), Next::Ask);
            }
            let first = now;
            while now + HASTY / 2 < first + timeout {
                assert_eq!(ask(&mut wait, &mut now, HASTY / 2), Next::Pause);
                now += PAUSE;
            }
        }
        assert_eq!(ask(&mut wait, &mut now, HASTY / 2), Next::GiveUp);
    }
}
