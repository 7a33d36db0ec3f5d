//! Writes of a turn to append are sent on connections from before the turn only.
//!
//! An I/O server refuses writes of turns that have been overtaken, as long as it runs. One that was started since the turn began may
//! have stored what later turns have written and not know of these turns: it must not get a write of the earlier one.

use causeway_bmi::ConnectionId;

use super::call::Call;
use super::call_error::CallError;
use super::rpc::Rpc;
use super::transfer::Turn;

/// A turn that the client has.
pub(super) struct HeldTurn {
    pub(super) number: u64,
    /// By server in the configuration: the connections from before the turn.
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

    /// Has writes belong to a turn. Returns `false` if the connection with one of their servers was not there before the turn: then
    /// it is made, for the next one.
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
