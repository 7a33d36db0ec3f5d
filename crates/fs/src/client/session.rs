//! The client's session at the metadata server: numbers of changes, and the end of the session.

use std::time::Duration;

use causeway_wire::fs::Operation;

use super::call::Call;
use super::pending::PendingCall;
use super::rpc::Rpc;

/// Longest time that the end of a client waits for the metadata server: a session that is not released ends with its
/// lease.
const LONGEST_GOODBYE: Duration = Duration::from_millis(50);

impl Rpc {
    /// The number of a slot's next change.
    pub(super) fn next_sequence(&mut self, slot: u16) -> u64 {
        let slot = usize::from(slot);
        if self.sequences.len() <= slot {
            self.sequences.resize(slot + 1, 0);
        }
        self.sequences[slot] += 1;
        self.sequences[slot]
    }

    /// Notes whether a copy of any of these changes may still reach the server.
    pub(super) fn note_unconfirmed(&mut self, pending_calls: &[PendingCall]) {
        self.unconfirmed |= pending_calls
            .iter()
            .any(|pending| pending.sequence > 0 && pending.unfinished);
    }

    /// Releases the session, if there is one and no copy of a change may still reach the server: without the session it would be carried out again.
    pub(super) fn end_session(&mut self) {
        if self.sequences.is_empty() || self.unconfirmed {
            return;
        }
        let Some(known) = self.known(self.metadata) else {
            return;
        };
        let call = Call::query(self.metadata, Operation::EndSession);
        let deadline = self.begin_call(LONGEST_GOODBYE.min(self.timeout));
        // Otherwise the session ends with its lease.
        let _ = self.call_directly(vec![call], known.target, deadline);
    }
}
