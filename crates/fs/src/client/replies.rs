//! The outcomes of calls: replies, failures that are worth another attempt, and the time-out.

use std::time::Instant;

use causeway_bmi::{Completion, OpError, PeerError};
use causeway_wire::fs::{Errno, ReplyBody};

use super::flight::{Attempt, Flight, State, errno_of};
use super::link::Link;
use super::rpc::{BATCH, CallError, DRAIN, Rpc, SPARE_REPLIES};

impl Rpc {
    /// Handles one completion.
    pub(super) fn completed(&mut self, flights: &mut [Flight], completion: Completion) {
        let (index, is_send) = ((completion.user >> 1) as usize, completion.user & 1 == 1);
        let Some(flight) = flights.get_mut(index) else {
            return;
        };
        let State::Sent(attempt) = &mut flight.state else {
            return;
        };
        if is_send {
            attempt.note_send(completion.result);
        } else {
            attempt.note_receive(completion.result);
        }
        if let (Some(_), Some(receive)) = (&attempt.error, attempt.receive) {
            // The request did not reach the server: no reply will come.
            self.bmi.cancel(receive);
        }
        self.settle(flight);
    }

    /// Moves a flight on once both halves of its attempt are complete.
    pub(super) fn settle(&mut self, flight: &mut Flight) {
        let State::Sent(attempt) = &mut flight.state else {
            return;
        };
        if attempt.send.is_some() || attempt.receive.is_some() {
            return;
        }
        let now = Instant::now();
        let state = std::mem::replace(&mut flight.state, State::Waiting { until: now });
        let State::Sent(attempt) = state else {
            return;
        };
        self.end_exports(&attempt);
        let server = self.links.get(flight.call.server).map(Link::describe);
        let outcome = attempt.outcome();
        if self.spare_replies.len() < SPARE_REPLIES {
            self.spare_replies.push(attempt.reply.clone());
        }
        let (error, repeat) = match outcome {
            Ok(Ok(ReplyBody::Clock(clock))) if attempt.asks_clock => {
                flight.unacknowledged.set_clock(clock, now);
                return;
            }
            Ok(Ok(reply)) => {
                flight.state = State::Done(Ok(reply));
                return;
            }
            Ok(Err(failure)) => {
                let repeat = failure.errno == Errno::RETRY;
                (
                    CallError {
                        errno: failure.errno,
                        message: failure.message,
                        server,
                    },
                    repeat,
                )
            }
            Err(error) => {
                flight.note_lost(&attempt, &error);
                let repeat = match &error {
                    // A wrong key or user stays wrong, however often the call is repeated.
                    OpError::Peer { cause, .. } => !matches!(cause, PeerError::Unauthorised(_)),
                    error => matches!(error, OpError::Cancelled),
                };
                (
                    CallError {
                        errno: errno_of(&error),
                        message: error.to_string(),
                        server,
                    },
                    repeat,
                )
            }
        };
        if repeat {
            flight.wait(error);
        } else {
            flight.state = State::Done(Err(error));
        }
    }

    pub(super) fn end_exports(&mut self, attempt: &Attempt) {
        for region in &attempt.exports {
            self.bmi.unexport(attempt.addr, region);
        }
    }

    /// The time-out has passed: ends what is in flight, in any case, with the reason.
    pub(super) fn give_up(&mut self, flights: &mut [Flight]) {
        let waited = self.timeout.as_secs_f64();
        let mut silent = Vec::new();
        for flight in flights.iter_mut() {
            if let State::Sent(attempt) = &flight.state {
                flight.silent = true;
                if !silent.contains(&attempt.addr) {
                    silent.push(attempt.addr);
                }
            }
        }
        for addr in silent {
            self.bmi.disconnect(addr);
        }
        let drained_by = Instant::now() + DRAIN;
        let mut completions = Vec::new();
        while flights.iter().any(|f| matches!(f.state, State::Sent(_)))
            && Instant::now() < drained_by
        {
            completions.clear();
            let idle = drained_by.saturating_duration_since(Instant::now());
            if self
                .bmi
                .testcontext(self.context, BATCH, idle, &mut completions)
                .is_err()
            {
                break;
            }
            for completion in completions.drain(..) {
                self.completed(flights, completion);
            }
        }
        for flight in flights {
            if matches!(flight.state, State::Done(_)) {
                continue;
            }
            flight.unfinished |= matches!(flight.state, State::Sent(_));
            let server = self.links.get(flight.call.server).map(Link::describe);
            // This function has just ended the connection itself: that error does not concern the server.
            let message = match flight.last.take().filter(|_| !flight.silent) {
                Some(last) => format!(
                    "{} (after {waited} s); is the server running?",
                    last.message
                ),
                None => format!(
                    "no reply within {waited} s; is the server stopped, or its host overloaded?"
                ),
            };
            flight.state = State::Done(Err(CallError {
                errno: Errno::ETIMEDOUT,
                message,
                server,
            }));
        }
    }
}
