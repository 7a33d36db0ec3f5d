//! Waiting for turns, and writes of a turn, which are sent on connections from before the turn only.
//!
//! An I/O server refuses writes of turns that have been overtaken, as long as it runs. One that was started since the turn began may
//! have stored what later turns have written and not know of these turns: it must not get a write of the earlier one. A client whose turn has not
//! ended since the connection was made may use that one, too.

use std::time::{Duration, Instant};

use causeway_bmi::ConnectionId;
use causeway_wire::fs::{Errno, Node, ObjectId, Operation, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, take_reply};
use super::connection::Client;
use super::rpc::Rpc;
use super::transfer::Turn;

/// A metadata server that has the client ask again before this time has not had it wait.
const HASTY: Duration = Duration::from_millis(10);
/// Pause after such a reply.
const PAUSE: Duration = Duration::from_millis(100);

/// A client's wait for a turn, from one of its requests to the next one.
#[derive(Debug, Default)]
pub struct TurnWait {
    /// Since when the server has had it ask again without waiting, each time.
    hasty_since: Option<Instant>,
}

impl Client {
    /// Asks for the turn of a file. Returns nothing if others still have theirs: the server keeps the client's place for half of the
    /// time-out, within which it is to ask again.
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

/// What a client does that is told to ask again for its turn.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Ask,
    /// First pauses.
    Pause,
    GiveUp,
}

impl TurnWait {
    /// Decides what follows on a request of the time `asked`. A server that has its client ask again at once, for all of the
    /// time-out, is out of order.
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
    /// By server in the configuration: the connections from before the turn, or from when it was known to last.
    pub(super) connections: Vec<Option<ConnectionId>>,
    /// It ends with the new size of the file that it is for.
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
