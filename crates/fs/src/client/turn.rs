//! Writes of a turn are sent on connections from before the turn only.
//!
//! An I/O server refuses writes of turns that have been overtaken, as long as it runs. One that was started since the turn began may
//! have stored what later turns have written and not know of these turns: it must not get a write of the earlier one. A client whose turn has not
//! ended since the connection was made may use that one, too.

use causeway_bmi::ConnectionId;

use super::call::Call;
use super::call_error::CallError;
use super::rpc::Rpc;
use super::transfer::Turn;

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

    fn connection(&self, server: usize) -> Option<ConnectionId> {
        self.bmi.connection(self.links.get(server)?.addr?)
    }

    /// Has writes belong to a turn. Returns `false` if the connection with one of their servers was not there before the turn: then
    /// it is made, for the next one.
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
