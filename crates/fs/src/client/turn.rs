//! Writes of a turn to append are sent only on connections from before the turn.
//!
//! An I/O server refuses writes of overtaken turns, as long as it runs. A server that was restarted since the turn began may
//! have stored writes of later turns and have no record of them: it must not get a write of the earlier turn.

use causeway_bmi::ConnectionId;

use super::call::Call;
use super::call_error::CallError;
use super::rpc::Rpc;
use super::transfer::Turn;

/// A turn that the client has.
pub(super) struct HeldTurn {
    pub(super) number: u64,
    /// The connections from before the turn, by the server's index in the configuration.
    pub(super) connections: Vec<Option<ConnectionId>>,
}

impl Rpc {
    /// The present connections, by server in the configuration.
    pub(super) fn connections(&self) -> Vec<Option<ConnectionId>> {
        (0..self.links.len())
            .map(|server| self.connection(server))
            .collect()
    }

    fn connection(&self, server: usize) -> Option<ConnectionId> {
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
        let mut unconnected = Vec::new();
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
            if now.is_none() {
                unconnected.push(call.server);
            }
        }
        for greeting in self.greet(&unconnected) {
            greeting?;
        }
        Ok(are_put)
    }
}
