//! Calls in flight: the attempts to send each, and their results.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Memory, OpError, OpId, PeerError, RegionDescriptor};
use causeway_wire::codec::Wire;
use causeway_wire::fs::{Errno, Reply, ReplyBody, Target};

use super::rpc::{Body, Call, CallError};
use super::unacknowledged::Unacknowledged;

/// First pause before a request is repeated, since there is no event when a server runs again; it doubles up to
/// [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause before a request is repeated.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// A call in flight.
pub(super) struct Flight {
    pub(super) call: Call,
    /// Its number among the mutations of its slot, or among the client's writes.
    pub(super) sequence: u64,
    /// Of a write that was sent before.
    pub(super) unacknowledged: Unacknowledged,
    pub(super) state: State,
    pause: Duration,
    pub(super) last: Option<CallError>,
    /// The server that it is meant for, if that is not the one that is known there.
    pub(super) directed: Option<Target>,
    /// The server that it was meant for when it was sent last.
    pub(super) meant: Target,
    /// No reply came before the time was over.
    pub(super) silent: bool,
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
    /// It asks for the server's clock, for the next one.
    pub(super) asks_clock: bool,
    pub(super) send: Option<OpId>,
    pub(super) receive: Option<OpId>,
    pub(super) reply: Memory,
    pub(super) received: Option<u64>,
    pub(super) error: Option<OpError>,
    pub(super) exports: Vec<RegionDescriptor>,
    pub(super) addr: Addr,
}

impl Flight {
    /// A call that is to be sent at once.
    pub(super) fn new(call: Call, sequence: u64, directed: Option<Target>) -> Self {
        Self {
            call,
            sequence,
            unacknowledged: Unacknowledged::default(),
            state: State::Waiting {
                until: Instant::now(),
            },
            pause: FIRST_PAUSE,
            last: None,
            directed,
            meant: Target::default(),
            silent: false,
            unfinished: false,
        }
    }

    /// Detaches memory that a server has mapped, if the server may still access it for an attempt that was given up.
    pub(super) fn take_memory_back(&mut self) {
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

    /// A sending ended without a reply.
    pub(super) fn note_lost(&mut self, attempt: &Attempt, error: &OpError) {
        if attempt.asks_clock {
            return;
        }
        self.unfinished = true;
        if self.call.is_write() {
            self.unacknowledged.note(attempt.sent, error);
        }
    }

    /// Whether it has no result yet.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state, State::Done(_))
    }

    /// Pauses before the next attempt.
    pub(super) fn wait(&mut self, error: CallError) {
        self.state = State::Waiting {
            until: Instant::now() + self.pause,
        };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
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

    /// The server's reply, or why there is none.
    pub(super) fn outcome(&self) -> Result<Result<ReplyBody, causeway_wire::fs::Failure>, OpError> {
        if let Some(len) = self.received {
            let mut bytes = vec![0; (len as usize).min(self.reply.len())];
            self.reply.read_at(0, &mut bytes);
            return Ok(match Reply::from_bytes(&bytes) {
                Ok(reply) => reply.result,
                Err(malformed) => Err(causeway_wire::fs::Failure {
                    errno: Errno::EPROTO,
                    message: format!("its reply is malformed: {malformed}"),
                }),
            });
        }
        Err(self.error.clone().unwrap_or(OpError::Cancelled))
    }
}

/// The results of flights, in order.
pub(super) fn results(flights: Vec<Flight>) -> Vec<Result<ReplyBody, CallError>> {
    let result = |flight: Flight| match flight.state {
        State::Done(result) => result,
        State::Waiting { .. } | State::Sent(_) => {
            Err(CallError::local(Errno::ETIMEDOUT, "the call did not end"))
        }
    };
    flights.into_iter().map(result).collect()
}

/// The number of a failure of the message layer.
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
