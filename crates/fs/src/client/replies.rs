//! The outcomes of calls: replies, failures after which a call is repeated, and the time-out.

use std::time::{Duration, Instant};

use causeway_bmi::{Completion, OpError, PeerError};
use causeway_wire::formats::Formats;
use causeway_wire::fs::formats::{FORMATS, refused_text};
use causeway_wire::fs::{Errno, Failure, ReplyBody};

use super::pending::{Attempt, Outcome, PendingCall, State, errno_of};
use super::rpc::{BATCH, DRAIN, EVENT, Rpc, SPARE_REPLIES};

/// The part of the time-out that a server gets which has been silent for a whole one.
const SILENT_PART: u32 = 16;
/// It gets no less than this, in which one that replies again does so.
const LEAST_SILENT_TIME: Duration = Duration::from_millis(100);

impl Rpc {
    /// Handles one completion. Returns the index of the call that it belongs to, if that was in progress.
    pub(super) fn completed(
        &mut self,
        pending_calls: &mut [PendingCall],
        completion: Completion,
    ) -> Option<usize> {
        if completion.user & EVENT != 0 {
            self.events.push(completion);
            return None;
        }
        let (index, is_send) = ((completion.user >> 1) as usize, completion.user & 1 == 1);
        let pending = pending_calls.get_mut(index)?;
        let State::Sent(attempt) = &mut pending.state else {
            return None;
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
        self.finish_attempt(pending);
        Some(index)
    }

    /// Ends an attempt once both its send and its receive are complete: the call has its result, or is repeated.
    pub(super) fn finish_attempt(&mut self, pending: &mut PendingCall) {
        let State::Sent(attempt) = &mut pending.state else {
            return;
        };
        if attempt.send.is_some() || attempt.receive.is_some() {
            return;
        }
        let now = Instant::now();
        let state = std::mem::replace(&mut pending.state, State::Waiting { until: now });
        let State::Sent(attempt) = state else {
            return;
        };
        self.end_exports(&attempt);
        let outcome = attempt.outcome();
        if !matches!(outcome, Outcome::Lost(_))
            && let Some(link) = self.links.get_mut(pending.call.server)
        {
            link.silent = None;
        }
        if self.spare_replies.len() < SPARE_REPLIES {
            self.spare_replies.push(attempt.reply.clone());
        }
        let server = pending.call.server;
        let (errno, message, repeat) = match outcome {
            Outcome::Reply(ReplyBody::Clock(clock), _) if attempt.asks_clock => {
                pending.unacknowledged.set_clock(clock, now);
                return;
            }
            Outcome::Reply(reply, granted) => {
                self.note_reply(server);
                // An I/O server grants no capabilities, and its replies must not replace good ones.
                if server == self.metadata {
                    self.keep_capability(granted.capability, attempt.sent);
                }
                pending.lease = granted.lease.filter(|_| server == self.metadata);
                pending.state = State::Done(match reply {
                    ReplyBody::NoEntry => Err(self.error_at(server, Errno::ENOENT, "")),
                    reply => Ok(reply),
                });
                return;
            }
            Outcome::Refused(format, failure) => {
                return self.use_format(pending, attempt.format, format, failure);
            }
            Outcome::Failed(failure)
                if Self::may_use_highest(pending, attempt.format, &failure) =>
            {
                pending.raised = true;
                return self.set_format(server, FORMATS.highest);
            }
            // Programs would take the error number 0 for success.
            Outcome::Failed(Failure { errno, message }) if !errno.is_possible() => {
                let text = format!(
                    "the server failed with error number {}, which there is not: {message}",
                    errno.0
                );
                (Errno::EPROTO, text, false)
            }
            Outcome::Failed(Failure { errno, message }) => {
                // The server may have stored a part of the request's data.
                if errno == Errno::REVOKED && pending.call.is_write() {
                    pending.unacknowledged.note_partial(attempt.sent);
                }
                (errno, message, errno == Errno::RETRY)
            }
            Outcome::Lost(error) => {
                // The next server at that address may be another build.
                self.set_format(server, FORMATS.highest);
                pending.note_lost(&attempt, &error);
                let repeat = match &error {
                    // A wrong key or user stays wrong, however often the call is repeated.
                    OpError::Peer { cause, .. } => !matches!(cause, PeerError::Unauthorised(_)),
                    error => matches!(error, OpError::Cancelled),
                };
                (errno_of(&error), error.to_string(), repeat)
            }
        };
        let error = self.error_at(server, errno, message);
        if repeat {
            pending.wait(error);
        } else {
            pending.state = State::Done(Err(error));
        }
    }

    /// The formats that requests to a server state.
    pub(super) fn formats(&self, server: usize) -> Formats {
        let link = self.links.get(server);
        Formats {
            lowest: FORMATS.lowest,
            highest: link.map_or(FORMATS.highest, |link| link.format),
        }
    }

    pub(super) fn set_format(&mut self, server: usize, format: u8) {
        if let Some(link) = self.links.get_mut(server) {
            link.format = format;
            link.format_of = link.addr.and_then(|addr| self.bmi.connection(addr));
        }
    }

    /// Before a request: a server that has connected anew may be of a later build, and gets the request in the highest format first.
    pub(super) fn renew_format(&mut self, server: usize) {
        let Some(link) = self.links.get_mut(server) else {
            return;
        };
        let present = link.addr.and_then(|addr| self.bmi.connection(addr));
        if link.format < FORMATS.highest && link.format_of != present {
            link.format = FORMATS.highest;
        }
    }

    /// Handles a request of the format `asked` that a server has refused without carrying it out, because its highest format is
    /// `theirs`: the call is sent again in that format if this build speaks it, and fails otherwise.
    fn use_format(&mut self, pending: &mut PendingCall, asked: u8, theirs: u8, failure: Failure) {
        let server = pending.call.server;
        let is_lower = theirs < asked;
        // A call's format is raised once at most, so that its attempts end.
        if FORMATS.has(theirs) && (is_lower || !pending.raised) {
            pending.raised |= !is_lower;
            tracing::debug!(
                server = self.link_name(server),
                format = theirs,
                "a server of another build"
            );
            return self.set_format(server, theirs);
        }
        let error = self.error_at(server, Errno::EPROTO, refused_text(theirs, failure));
        pending.state = State::Done(Err(error));
    }

    /// Whether a request that was refused in a lower format should be sent in the highest one: the server may have been
    /// replaced since by a build that does not speak the lower one any more.
    fn may_use_highest(pending: &PendingCall, asked: u8, failure: &Failure) -> bool {
        let refused = failure.errno == Errno::EPROTO && asked < FORMATS.highest;
        refused && !pending.raised
    }

    pub(super) fn end_exports(&mut self, attempt: &Attempt) {
        for region in &attempt.exports {
            self.bmi.unexport(attempt.addr, region);
        }
    }

    /// The time-out in seconds, for texts: of a call that had to wait for its client, a part is gone already.
    fn seconds_waited(&self) -> f64 {
        (self.timeout.as_secs_f64() * 1000.0).round() / 1000.0
    }

    /// Ends a change that may have been carried out: this process was stopped for so long that servers may have forgotten their
    /// replies, and would carry it out once more.
    pub(super) fn give_up_change(&self, pending: &mut PendingCall) {
        let waited = self.seconds_waited();
        let message = format!(
            "this process was stopped for longer than the time-out of {waited} s, and it is not known whether the change was made"
        );
        let error = self.error_at(pending.call.server, Errno::ETIMEDOUT, message);
        pending.state = State::Done(Err(error));
    }

    /// When calls that have waited for replies since `began` are given up: before `deadline` if nothing is left but servers that have been silent for a whole time-out already, while the operation waited for others.
    pub(super) fn deadline(
        &self,
        pending_calls: &[PendingCall],
        began: Instant,
        deadline: Instant,
    ) -> Instant {
        let Some(since) = self.waits_since else {
            return deadline;
        };
        let is_silent = |pending: &PendingCall| {
            let link = self.links.get(pending.call.server);
            link.is_some_and(|link| link.silent.is_some_and(|silent| silent > since))
        };
        let mut open = pending_calls.iter().filter(|pending| pending.is_open());
        let time = (self.timeout / SILENT_PART).max(LEAST_SILENT_TIME);
        match open.all(is_silent) {
            true => deadline.min(began + time),
            false => deadline,
        }
    }

    /// Ends the calls in progress because the time-out has passed, each with the reason.
    pub(super) fn give_up(&mut self, pending_calls: &mut [PendingCall]) {
        let waited = self.seconds_waited();
        let now = Instant::now();
        for pending in pending_calls.iter().filter(|pending| pending.is_open()) {
            if let Some(link) = self.links.get_mut(pending.call.server) {
                link.silent = Some(now);
            }
        }
        let mut silent = Vec::new();
        for pending in pending_calls.iter_mut() {
            if let State::Sent(attempt) = &pending.state {
                pending.silent = true;
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
        while pending_calls
            .iter()
            .any(|f| matches!(f.state, State::Sent(_)))
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
                self.completed(pending_calls, completion);
            }
        }
        for pending in pending_calls {
            if !pending.is_open() {
                continue;
            }
            pending.unfinished |= matches!(pending.state, State::Sent(_));
            // This function itself has just closed the connection: that error is not the server's.
            let message = match pending.last.take().filter(|_| !pending.silent) {
                Some(last) => format!(
                    "{} (after {waited} s); is the server running?",
                    last.message
                ),
                None => format!(
                    "no reply within {waited} s; is the server stopped, or its host overloaded?"
                ),
            };
            let error = self.error_at(pending.call.server, Errno::ETIMEDOUT, message);
            pending.state = State::Done(Err(error));
        }
    }
}
