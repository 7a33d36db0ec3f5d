//! How clients notice that the files about nodes have changed: the accepted authorities, the revoked certificates, and the node's own
//! certificate.
//!
//! While a program makes calls, it uses a list that has changed since for [`LOOK_INTERVAL`] at most, and makes no connection by such a list. A
//! program that makes no calls reads the files at its next call, before anything is sent.

use std::time::{Duration, Instant};

use super::pending::{PendingCall, State};
use super::rpc::{BATCH, Rpc};
use crate::config::LOOK_INTERVAL;

impl Rpc {
    /// Reads the files about nodes again if they have changed, provided that it is time to check that: the interval has passed, or calls are
    /// to be sent now for which a connection has to be made. When this returns, connections with nodes that are no longer accepted have ended.
    pub(super) fn look_at_nodes(&mut self, pending_calls: &mut [PendingCall], now: Instant) {
        let Some(files) = &self.node_files else {
            return;
        };
        if now < files.next && !self.has_to_connect(pending_calls, now) {
            return;
        }
        files.configuration.read_changed_nodes();
        if let Some(files) = &mut self.node_files {
            files.next = now + LOOK_INTERVAL;
        }
        // The methods by which connections are made notice the change when they are polled, also if another thread has read the files. They are
        // polled once no completion is left.
        let mut completions = Vec::new();
        loop {
            let tested =
                self.bmi
                    .testcontext(self.context, BATCH, Duration::ZERO, &mut completions);
            if tested.is_err() || completions.is_empty() {
                return;
            }
            for completion in completions.drain(..) {
                self.completed(pending_calls, completion);
            }
        }
    }

    /// Whether a call is to be sent now to a server with which there is no connection.
    fn has_to_connect(&self, pending_calls: &[PendingCall], now: Instant) -> bool {
        pending_calls.iter().any(|pending| {
            let is_due = matches!(pending.state, State::Waiting { until } if until <= now);
            let addr = self
                .links
                .get(pending.call.server)
                .and_then(|link| link.addr);
            is_due && addr.and_then(|addr| self.bmi.connection(addr)).is_none()
        })
    }
}
