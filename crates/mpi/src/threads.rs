//! Several threads in one process: none waits inside. One of those that wait makes progress for all, and passes its time outside.

use std::time::Duration;

use causeway_engine::types::OpId;
use causeway_engine::{Parked, Waker};

use crate::process::Process;

impl Process {
    /// Several threads call from now on: waits return [`Waited::NotYet`](crate::process::Waited::NotYet) instead of waiting in here. Returns the waker
    /// that ends waits which were [prepared](Process::prepare_wait).
    pub fn share(&mut self) -> Waker {
        self.has_threads = true;
        self.endpoint.waker()
    }

    /// Makes progress until one of these operations is done, and returns `None`; if none are named, or other operations than
    /// messages are in progress, any event suffices. If that takes long, returns how to pass the time while other threads
    /// use the process. Each of them ends with [`Process::check_parked`].
    pub fn prepare_wait(&mut self, watched: &[u64]) -> Option<Parked> {
        let mut ops = Vec::new();
        if self.is_quiet() {
            ops.extend(watched.iter().copied().map(OpId::from_raw));
        }
        let parked = self.endpoint.prepare_wait(None, &ops);
        self.endpoint.take_interrupted();
        parked
    }

    /// Whether an operation is done, by the name that [`Process::prepare_wait`] has for it.
    pub fn is_done(&self, op: u64) -> bool {
        self.endpoint.is_done(OpId::from_raw(op))
    }

    /// How long a thread that has another one wait for all stays awake beside it, yielding the processor.
    pub fn awake_limit_of_followers(&self) -> Duration {
        self.endpoint.awake_limit_of_followers()
    }

    /// A thread that has waited for all returns to its caller.
    pub fn end_wait(&mut self) {
        self.endpoint.end_wait();
    }

    /// The same for a thread that makes progress while others compute: it does not poll.
    pub fn prepare_sleep(&mut self) -> Option<Parked> {
        let parked = self.endpoint.prepare_sleep();
        self.endpoint.take_interrupted();
        parked
    }

    /// Ends a wait that was prepared.
    pub fn finish_wait(&mut self, parked: Parked) {
        self.endpoint.finish_wait(parked);
        self.endpoint.take_interrupted();
    }

    /// Whether a thread sleeps, or passes its time, outside.
    #[inline(always)]
    pub fn has_parked(&self) -> bool {
        self.endpoint.has_parked()
    }

    /// Wakes the thread that sleeps, if what this one has done concerns it.
    pub fn check_parked(&mut self) {
        self.endpoint.check_parked();
    }

    /// Differs from what it was before if anything has happened that a wait may be for.
    pub fn change_counts(&self) -> (u64, usize) {
        self.endpoint.change_counts()
    }
}
