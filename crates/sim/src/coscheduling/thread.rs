//! A thread of a host: what it does now, and what its library knows of messages.

use causeway_cosched::{Settings, SpinLimit, Waiter};

use super::programs::{NODES, Op, Script};
use crate::engine::{NANOSECOND, Time};

/// What a thread spins for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A message from the process on a node.
    Message(u8),
    /// The same by a wait that does not give up.
    Endless(u8),
    /// Room for a message to the process on a node.
    Room(u8, u32),
}

/// What comes when a piece of work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The script's next op.
    Next,
    /// A message is the card's.
    HandOver(u8, u32),
    /// The driver decides about a thread that has given up.
    SpinExpired,
    /// The thread blocks for so long.
    Sleep(Time),
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Work that takes so much more of the processor.
    Piece(Time, Then),
    /// It spins; until it gives up there is so much left, if it ever does.
    Spin(Wanted, Option<Time>),
    /// It is blocked on a message.
    Blocked(Wanted),
    /// It is blocked on something else.
    Asleep,
    /// It has ended, or has not begun.
    Gone,
}

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// None if the job has no process on this node.
    pub(super) script: Option<Script>,
    pub(super) doing: Doing,
    /// It has blocked for the message that it waits for, and has not got that since.
    pub(super) has_blocked: bool,
    pub(super) waiter: Waiter,
    /// What it wants, while it calls the driver.
    pub(super) wanted: Option<Wanted>,
    /// Messages that have come and that no receive has taken, from each node.
    pub(super) inbox: [u32; NODES],
    /// Of these, those that the library has not polled: they lie in the endpoint.
    pub(super) pending: [u32; NODES],
    /// Messages to each node that the library there has not polled.
    pub(super) outstanding: [u32; NODES],
    /// Processor time since it began.
    pub(super) cpu: Time,
    /// Of that, spinning.
    pub(super) spun: Time,
}

impl Thread {
    pub(super) fn new(script: Option<Script>, settings: &Settings) -> Self {
        Self {
            script,
            doing: Doing::Gone,
            has_blocked: false,
            waiter: Waiter::new(settings),
            wanted: None,
            inbox: [0; NODES],
            pending: [0; NODES],
            outstanding: [0; NODES],
            cpu: 0,
            spun: 0,
        }
    }

    pub(super) fn has_pending(&self) -> bool {
        self.pending.iter().any(|&count| count > 0)
    }

    /// What an op makes a thread do; sends and receives may have to wait first.
    pub(super) fn start(&mut self, op: Op, send: Time) {
        self.doing = match op {
            Op::Compute(time) => Doing::Piece(time, Then::Next),
            Op::Send(to, bytes) => Doing::Piece(send, Then::HandOver(to, bytes)),
            Op::Receive(from) => Doing::Spin(Wanted::Message(from), None),
            Op::Wait(from) | Op::Collect(from) => Doing::Spin(Wanted::Endless(from), None),
            Op::Sleep(time) => Doing::Piece(0, Then::Sleep(time)),
        };
        if let Doing::Spin(wanted, _) = self.doing {
            self.spin(wanted);
        }
    }

    /// Begins to spin. Only the receive call gives up, whatever it is called by (§6.1.2 changes no other).
    pub(super) fn spin(&mut self, wanted: Wanted) {
        let spin_limit = match (wanted, self.waiter.spin_limit()) {
            (Wanted::Message(_), SpinLimit::Nanoseconds(spin)) => Some(spin * NANOSECOND),
            _ => None,
        };
        self.doing = Doing::Spin(wanted, spin_limit);
    }

    /// Takes `time` of the processor.
    pub(super) fn run(&mut self, time: Time) {
        self.cpu += time;
        match &mut self.doing {
            Doing::Piece(left, _) => *left = left.saturating_sub(time),
            Doing::Spin(_, spin_limit) => {
                self.spun += time;
                if let Some(left) = spin_limit {
                    *left = left.saturating_sub(time);
                }
            }
            Doing::Blocked(_) | Doing::Asleep | Doing::Gone => {}
        }
    }
}
