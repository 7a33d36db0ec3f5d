//! Waiting for I/O servers that move many bytes to or from memory of this process by themselves.
//!
//! Such a call takes a server on this host hundreds of microseconds, in which this thread has nothing to contribute. The message layer's policy is made
//! for messages that come sooner: it polls, and beside other threads yields the processor again and again, for up to 1 ms. Where programs, mount and
//! servers share few processors, that takes them from those that move the bytes. So this thread sleeps at once; the server wakes it.

use std::time::Duration;

use causeway_bmi::{Config, InfoOption};

use super::call::Body;
use super::pending::PendingCall;
use super::rpc::Rpc;

/// From so many bytes on, a server takes longer than the message layer polls for a message.
const LONG_BYTES: u64 = 256 << 10;

impl Rpc {
    /// Carries out `exchange` for these calls, in which this thread sleeps at once when it waits, if all that they wait for is servers that move many bytes.
    pub(super) fn wait_for_servers(
        &mut self,
        pending_calls: &mut [PendingCall],
        exchange: impl FnOnce(&mut Self, &mut [PendingCall]),
    ) {
        let sleeps = self.are_long(pending_calls);
        if sleeps {
            self.poll_for(Duration::ZERO);
        }
        exchange(self, pending_calls);
        if sleeps {
            self.poll_for(Config::default().spin);
        }
    }

    fn poll_for(&mut self, limit: Duration) {
        if let Err(error) = self.bmi.set_info(None, InfoOption::Spin(limit)) {
            tracing::debug!(%error, "the wait for servers is not adapted");
        }
    }

    /// Whether some of these calls move many bytes, and servers do that in all of them.
    fn are_long(&self, pending_calls: &[PendingCall]) -> bool {
        let mut bytes = 0;
        for pending in pending_calls {
            let Body::Data(_, piece) = &pending.call.body else {
                return false;
            };
            let link = self.links.get(pending.call.server);
            let addr = link.and_then(|link| link.addr);
            let is_beside = addr.is_some_and(|addr| self.bmi.method(addr) == Some("shm"));
            // Servers map no other memory: this thread would help to copy it.
            let is_mapped = piece.fragments.iter().all(|part| part.object().is_some());
            if !is_beside || !is_mapped {
                return false;
            }
            bytes += piece.spans.iter().map(|span| span.len).sum::<u64>();
        }
        bytes >= LONG_BYTES
    }
}
