//! Waiting for what other processes do in shared memory.
//!
//! The endpoint has no access to that memory: its caller reads it as often as the waiting policy
//! requests, and the endpoint yields the processor in between. Where the policy decides to park,
//! the caller writes into that memory that it waits, so that the process that takes the step sends
//! it a message, and waits for messages. That wait continues this one: polls before it count.

use super::Endpoint;
use crate::matcher::Matcher;
use crate::waiting::{Awaited, Decision, MeasuredWait, SharedMemoryStep, SharedMemoryWait};

impl<M: Matcher> Endpoint<M> {
    /// How often the caller looks at the memory before anything else: no clock is read for a step
    /// that is taken this soon. If it is taken, the caller calls [`Endpoint::came_at_once`];
    /// otherwise, sooner or later, [`Endpoint::begin_shared_memory_wait`]. A caller that keeps other
    /// threads of its process out meanwhile looks less often.
    #[inline]
    pub fn first_looks(&self, awaited: Awaited, keeps_others_out: bool) -> u32 {
        let looks = match keeps_others_out {
            true => self.policy.brief_polls(awaited),
            false => self.policy.first_polls(awaited),
        };
        looks.max(1)
    }

    /// Reports that the awaited step came during the first looks.
    #[inline]
    pub fn came_at_once(&mut self, awaited: Awaited) {
        self.policy.arrived_at_once(awaited);
    }

    /// The first looks have found nothing. From then on the caller carries out what
    /// [`Endpoint::continue_shared_memory_wait`] returns, until [`Endpoint::end_shared_memory_wait`] or
    /// [`Endpoint::end_notified_wait`] ends the wait.
    pub fn begin_shared_memory_wait(&mut self, awaited: Awaited) -> SharedMemoryWait {
        let now = || self.methods.read_clock();
        SharedMemoryWait {
            awaited,
            first_yields: self.policy.first_yields(awaited, now),
            measured: None,
        }
    }

    /// Returns the next step: the caller has carried out the one before, and what it waits for has
    /// not come.
    pub fn continue_shared_memory_wait(&mut self, wait: &mut SharedMemoryWait) -> SharedMemoryStep {
        if wait.first_yields > 0 {
            wait.first_yields -= 1;
            std::thread::yield_now();
            return SharedMemoryStep::Look(self.policy.polls_per_yield(wait.awaited));
        }
        let wait = match &mut wait.measured {
            Some(measured) => measured,
            none => {
                let now = self.methods.read_clock();
                none.insert(MeasuredWait {
                    decision: self.policy.begin(wait.awaited, now),
                    looks: 0,
                    progressed: now,
                })
            }
        };
        let looks = std::mem::take(&mut wait.looks);
        if looks > 0 {
            let now = self.methods.read_clock();
            wait.decision = self.policy.polled(looks, false, now);
            if self.policy.wants_progress(wait.progressed, now) {
                wait.progressed = now;
                return SharedMemoryStep::Progress;
            }
        }
        if wait.decision == Decision::Yield {
            let now = self.yield_processor();
            wait.decision = self.policy.resume(now);
        }
        match wait.decision {
            Decision::Poll(looks) => {
                wait.looks = looks;
                SharedMemoryStep::Look(looks)
            }
            Decision::Yield | Decision::Park => SharedMemoryStep::Park,
        }
    }

    /// Ends the wait: the caller has found what it waits for, or gives up.
    pub fn end_shared_memory_wait(&mut self, wait: &SharedMemoryWait) {
        match wait.measured {
            Some(_) => self.end_notified_wait(),
            None => self.policy.arrived_at_once(wait.awaited),
        }
    }

    /// Ends a wait of a caller that has parked, and so has waited for the message that reports the
    /// step, unless the wait has ended with the arrival of that message.
    pub fn end_notified_wait(&mut self) {
        if self.policy.waits_for_memory() {
            let now = self.methods.read_clock();
            self.policy.arrived(now);
        }
    }
}
