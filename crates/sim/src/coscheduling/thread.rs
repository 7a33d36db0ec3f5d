//! A thread of a host: its activity, and its library's state.

use causeway_cosched::{Settings, SpinLimit, Waiter};

use super::programs::{NODES, Op, Script};
use crate::engine::{NANOSECOND, Time};

/// The event for which a thread spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A message from the process on a node.
    Message(u8),
    /// A message, by a wait that never calls the driver.
    Endless(u8),
    /// Room for a message to the process on a node.
    Room(u8, u32),
}

/// The step that follows a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The script's next op.
    Next,
    /// The message is passed to the card.
    HandOver(u8, u32),
    /// The driver decides about a thread whose spin has expired.
    SpinExpired,
    /// The thread blocks for this time.
    Sleep(Time),
}

/// A thread's activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Work that takes this much more of the processor.
    Piece(Time, Then),
    /// The thread spins; the time is what is left of its spin limit, if it has one.
    Spin(Wanted, Option<Time>),
    /// The thread is blocked on a message.
    Blocked(Wanted),
    /// The thread is blocked on something else.
    Asleep,
    /// The thread has ended, or has not begun.
    Gone,
}

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// `None` if the job has no process on this node.
    pub(super) script: Option<Script>,
    pub(super) doing: Activity,
    /// The thread has blocked for the awaited message, and has not received it since.
    pub(super) has_blocked: bool,
    pub(super) waiter: Waiter,
    /// The event that it awaits, while it calls the driver.
    pub(super) wanted: Option<Wanted>,
    /// Messages from each node that have arrived without a receive that has consumed them.
    pub(super) inbox: [u32; NODES],
    /// Those of them that the library has not polled: they are in the endpoint.
    pub(super) pending: [u32; NODES],
    /// Messages to each node that the library there has not polled.
    pub(super) outstanding: [u32; NODES],
    /// Processor time since it began.
    pub(super) cpu: Time,
    /// The part of that time that was spent spinning.
    pub(super) spun: Time,
}

impl Thread {
    pub(super) fn new(script: Option<Script>, settings: &Settings) -> Self {
        Self {
            script,
            doing: Activity::Gone,
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

    /// Whether a message has arrived that no receive has consumed.
    pub(super) fn has_unreceived(&self) -> bool {
        self.inbox.iter().any(|&count| count > 0)
    }

    /// Begins a step; sends and receives may have to wait first.
    pub(super) fn start(&mut self, op: Op, send: Time) {
        self.doing = match op {
            Op::Compute(time) => Activity::Piece(time, Then::Next),
            Op::Send(to, bytes) => Activity::Piece(send, Then::HandOver(to, bytes)),
            Op::Receive(from) => Activity::Spin(Wanted::Message(from), None),
            Op::Wait(from) | Op::Collect(from) => Activity::Spin(Wanted::Endless(from), None),
            Op::Sleep(time) => Activity::Piece(0, Then::Sleep(time)),
        };
        if let Activity::Spin(wanted, _) = self.doing {
            self.spin(wanted);
        }
    }

    /// Begins to spin. The spin limit applies to waits of the receive call only, whatever it is called by (§6.1.2 changes no other).
    pub(super) fn spin(&mut self, wanted: Wanted) {
        let spin_limit = match (wanted, self.waiter.spin_limit()) {
            (Wanted::Message(_), SpinLimit::Nanoseconds(spin)) => Some(spin * NANOSECOND),
            _ => None,
        };
        self.doing = Activity::Spin(wanted, spin_limit);
    }

    /// Takes `time` of the processor.
    pub(super) fn run(&mut self, time: Time) {
        self.cpu += time;
        match &mut self.doing {
            Activity::Piece(left, _) => *left = left.saturating_sub(time),
            Activity::Spin(_, spin_limit) => {
                self.spun += time;
                if let Some(left) = spin_limit {
                    *left = left.saturating_sub(time);
                }
            }
            Activity::Blocked(_) | Activity::Asleep | Activity::Gone => {}
        }
    }
}
