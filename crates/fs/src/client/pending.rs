//! Calls in progress: the attempts to send each, and their results.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Memory, OpError, OpId, PeerError, RegionDescriptor};
use causeway_wire::fs::formats::{Granted, GrantedLease};
use causeway_wire::fs::{Capability, Errno, Failure, Reply, ReplyBody, Target};

use super::call::{Body, Call};
use super::call_error::CallError;
use super::unacknowledged::Unacknowledged;
use crate::backoff::Backoff;
use crate::error::failure;

/// Pauses before a request is repeated, since no event shows when a server runs again.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// A call in progress.
pub(super) struct PendingCall {
    pub(super) call: Call,
    /// Its number among the mutations of its slot, or among the client's writes.
    pub(super) sequence: u64,
    /// For a write that was sent before: when that was.
    pub(super) unacknowledged: Unacknowledged,
    pub(super) state: State,
    /// The capability that it presents, if it needs one.
    pub(super) capability: Option<Capability>,
    pauses: Backoff,
    pub(super) last: Option<CallError>,
    /// The server for which it is meant, if that is not the server known under this address.
    pub(super) given_target: Option<Target>,
    /// The server for which it was meant when it was last sent.
    pub(super) sent_target: Target,
    /// The time-out has passed without a reply.
    pub(super) silent: bool,
    /// Its capability was renewed because a server said that it had ended.
    pub(super) was_renewed: bool,
    /// It was sent again in a higher format than at first.
    pub(super) raised: bool,
    /// The leases that came with its reply.
    pub(super) lease: Option<GrantedLease>,
    /// An attempt ended without a reply: the server may still be carrying it out.
    pub(super) unfinished: bool,
}

pub(super) enum State {
    Waiting { until: Instant },
    Sent(Attempt),
    Done(Result<ReplyBody, CallError>),
}

/// One sending of a request.
pub(super) struct Attempt {
    pub(super) sent: Instant,
    /// The request's format.
    pub(super) format: u8,
    /// It asks for the server's clock, which the next attempt needs.
    pub(super) asks_clock: bool,
    pub(super) send: Option<OpId>,
    pub(super) receive: Option<OpId>,
    pub(super) reply: Memory,
    pub(super) received: Option<u64>,
    pub(super) error: Option<OpError>,
    pub(super) exports: Vec<RegionDescriptor>,
    pub(super) addr: Addr,
}

/// The outcome of an attempt.
pub(super) enum Outcome {
    /// The server has carried the request out, and has granted the client this.
    Reply(ReplyBody, Box<Granted>),
    /// The server has refused the request, for this reason.
    Failed(Failure),
    /// The server does not speak the request's format; this one is its highest.
    Refused(u8, Failure),
    /// No reply came.
    Lost(OpError),
}

impl PendingCall {
    /// A call that is to be sent now, at this instant.
    pub(super) fn new(
        call: Call,
        sequence: u64,
        given_target: Option<Target>,
        now: Instant,
    ) -> Self {
        Self {
            call,
            sequence,
            unacknowledged: Unacknowledged::default(),
            state: State::Waiting { until: now },
            capability: None,
            pauses: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            last: None,
            given_target,
            sent_target: Target::default(),
            silent: false,
            was_renewed: false,
            raised: false,
            lease: None,
            unfinished: false,
        }
    }

    /// Detaches memory that a server has mapped, if the server may still access it for an earlier attempt.
    pub(super) fn detach_memory(&mut self) {
        let Body::Data(_, piece) = &self.call.body else {
            return;
        };
        if !self.unfinished {
            return;
        }
        for fragment in &piece.fragments {
            if let Err(error) = fragment.detach()
                && let State::Done(result) = &mut self.state
            {
                let message =
                    format!("memory that a server may still access cannot be taken back: {error}");
                *result = Err(CallError::local(Errno::ENOMEM, message));
            }
        }
    }

    /// Notes that an attempt has ended without a reply.
    pub(super) fn note_lost(&mut self, attempt: &Attempt, error: &OpError) {
        if attempt.asks_clock {
            return;
        }
        self.unfinished = true;
        if self.call.is_write() {
            self.unacknowledged.note(attempt.sent, error);
        }
    }

    /// Whether the call changes something once, and an attempt at it has ended without a reply.
    pub(super) fn is_doubtful_change(&self) -> bool {
        self.call.slot.is_some() && self.unfinished
    }

    /// Whether the call has no result yet.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Done(_))
    }

    /// Sets the pause before the next attempt.
    pub(super) fn wait(&mut self, error: CallError) {
        self.state = State::Waiting {
            until: Instant::now() + self.pauses.next(),
        };
        self.last = Some(error);
    }
}

impl Attempt {
    pub(super) fn note_send(&mut self, result: Result<u64, OpError>) {
        self.send = None;
        if let Err(error) = result {
            self.error = Some(error);
        }
    }

    pub(super) fn note_receive(&mut self, result: Result<u64, OpError>) {
        self.receive = None;
        match result {
            Ok(len) => self.received = Some(len),
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }

    /// The outcome of the attempt.
    pub(super) fn outcome(&self) -> Outcome {
        let Some(len) = self.received else {
            return Outcome::Lost(self.error.clone().unwrap_or(OpError::Cancelled));
        };
        let mut bytes = vec![0; (len as usize).min(self.reply.len())];
        self.reply.read_at(0, &mut bytes);
        if let Some((format, failure)) = Reply::refusal_of(&bytes, self.format) {
            return Outcome::Refused(format, failure);
        }
        let malformed = |why: String| {
            let message = format!("its reply is malformed: {why}");
            Outcome::Failed(failure(Errno::EPROTO, message))
        };
        match Reply::from_bytes_with(&bytes) {
            Ok((_, _, format)) if format != self.format => {
                malformed(format!("it has format {format}, not its request's"))
            }
            Ok((Reply { result: Ok(body) }, granted, _)) => Outcome::Reply(body, Box::new(granted)),
            Ok((
                Reply {
                    result: Err(failure),
                },
                ..,
            )) => Outcome::Failed(failure),
            Err(why) => malformed(why.to_string()),
        }
    }
}

/// The results of calls, in order.
pub(super) fn results(pending_calls: Vec<PendingCall>) -> Vec<Result<ReplyBody, CallError>> {
    let result = |pending: PendingCall| match pending.state {
        State::Done(result) => result,
        State::Waiting { .. } | State::Sent(_) => {
            Err(CallError::local(Errno::ETIMEDOUT, "the call did not end"))
        }
    };
    pending_calls.into_iter().map(result).collect()
}

/// The error number of a failure of the message layer.
pub(super) fn errno_of(error: &OpError) -> Errno {
    match error {
        OpError::Peer {
            cause: PeerError::Unauthorised(_),
            ..
        } => Errno::EKEYREJECTED,
        OpError::Peer { .. } => Errno::ECONNRESET,
        OpError::TooLarge { .. } => Errno::EMSGSIZE,
        OpError::Cancelled => Errno::ECANCELED,
        _ => Errno::EIO,
    }
}
