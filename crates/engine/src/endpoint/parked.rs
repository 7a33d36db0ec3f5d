//! Waiting detached from the endpoint: one thread sleeps, and borrows nothing, while others use the endpoint.
//!
//! The thread prepares its sleep inside the endpoint, lets other threads in, sleeps on the prepared
//! [`Parked`], and enters again. What the others do meanwhile may make that sleep wrong: they may
//! complete what it waits for, leave something to be polled, connect by a method that it does not
//! sleep on, or begin something with an earlier deadline. Each of them checks this before it leaves
//! ([`Endpoint::check_parked`]), and makes progress itself if that is enough. A message that is
//! merely sent does not end the sleep.

use std::time::{Duration, Instant};

use super::Endpoint;
use super::progress::Awake;
use super::sleep::{Announced, Idle, Parked, SleepOn, Woken};
use crate::conversations::Conversations;
use crate::matcher::Matcher;
use crate::types::OpId;
use crate::waiting::Awaited;

impl<M: Matcher> Endpoint<M> {
    /// Makes progress as a wait does before it sleeps: until one of the `watched` operations is
    /// done, or, if there are none, something completes or an unexpected message arrives; until
    /// [`Waker::wake`](super::Waker::wake) is called, or `until` is reached. Then it returns
    /// `None`, and the caller looks for what it waits for. Otherwise it returns how to pass the
    /// time while other threads use the endpoint: by sleeping, or by yielding the processor. It
    /// does not yield inside the endpoint, which would keep the other threads out.
    ///
    /// [`Endpoint::take_interrupted`] returns whether it was the waker, here and after
    /// [`Endpoint::finish_wait`].
    ///
    /// One thread at a time is parked, on behalf of all that wait, which the callers have to
    /// ensure: a wait that was prepared before and not finished is given up. Every thread that uses
    /// the endpoint while another is parked ends with [`Endpoint::check_parked`].
    pub fn prepare_wait(&mut self, until: Option<Instant>, watched: &[OpId]) -> Option<Parked> {
        if self.check_process().is_err() {
            return None;
        }
        self.end_parked();
        let before = self.change_counts();
        let ready = |all: &Conversations<M>| {
            let mut watched = watched.iter();
            all.shared.change_counts() != before
                && (watched.len() == 0 || watched.any(|op| all.shared.is_done(*op)))
        };
        // A wait goes on after a yield.
        if !self.policy.is_waiting() {
            let polls = self.policy.first_polls(Awaited::Messages);
            if self.advance_to(polls, &ready) {
                self.policy.arrived_at_once(Awaited::Messages);
                return None;
            }
        }
        let now = self.methods.read_clock();
        let mut decision = self.policy.begin(Awaited::Messages, now);
        loop {
            match self.poll_until_yield(&mut decision, until, &ready) {
                Awake::Ready | Awake::TimeUp => return None,
                Awake::Yield => return Some(Parked(Idle::Yield(self.begin_yield()))),
                Awake::Park => {}
            }
            if let Some(parked) = self.park_detached(until) {
                return Some(parked);
            }
            // There is something to poll for, or the system has no descriptors left for a detached
            // sleep.
            if self.park_once(until, &ready).is_some() {
                return None;
            }
            decision = self.policy.resume(self.methods.now());
        }
    }

    /// The same for a thread that makes progress on behalf of threads that compute. It makes
    /// progress once, and then neither polls nor yields: after a yield it would get the processor
    /// back late. `None` if something has changed, or there is something to poll for.
    pub fn prepare_sleep(&mut self) -> Option<Parked> {
        if self.check_process().is_err() {
            return None;
        }
        self.end_parked();
        let before = self.change_counts();
        self.progress();
        let parked = match self.change_counts() == before {
            true => self.park_detached(None),
            false => None,
        };
        if parked.is_none() {
            // Another thread that wants to enter may have ended the sleep before it began; the next one may begin.
            self.sleeper.take_call();
        }
        parked
    }

    /// Prepares a sleep; `None` if it cannot begin.
    fn park_detached(&mut self, until: Option<Instant>) -> Option<Parked> {
        let before = self.methods.read_clock();
        self.observe(before);
        self.methods.drop_freed();
        if self.conversations.may_expire(before) {
            // The tick may have found what the caller waits for.
            self.tick(before);
            return None;
        }
        if self.conversations.has_work() {
            return None;
        }
        let on = self.prepare_sleeper()?;
        let deadline = self.first_deadline().into_iter().chain(until).min();
        let Some(sleep) = self.sleeper.detach(&self.methods, on, deadline) else {
            self.sleeper.end(&mut self.methods, on);
            return None;
        };
        self.sleeps += 1;
        self.parked = Some(Announced {
            on,
            number: self.sleeps,
            before,
            until: deadline,
            limit: until,
            changes: self.change_counts(),
            is_woken: false,
        });
        Some(Parked(Idle::Sleep(sleep, self.sleeps)))
    }

    /// Ends a prepared wait, whatever ended the sleep, and makes progress. A wait that was given up
    /// for another one has ended already.
    pub fn finish_wait(&mut self, parked: Parked) {
        if self.check_process().is_err() {
            return;
        }
        let (sleep, number) = match parked.0 {
            Idle::Sleep(sleep, number) => (sleep, number),
            // The caller looks for what it waits for next, which makes progress.
            Idle::Yield(yielding) => return self.end_yield(&yielding),
        };
        sleep.ended(&mut self.methods);
        let Some(announced) = self.parked.take_if(|last| last.number == number) else {
            return;
        };
        self.sleeper.end(&mut self.methods, announced.on);
        let now = self.methods.read_clock();
        self.policy.parked(announced.before, now);
        let is_time_up = announced.until.is_some_and(|until| now >= until);
        if is_time_up || announced.on == SleepOn::Descriptors || self.policy.is_tick_due(now) {
            self.tick(now);
        }
        let woken = self.sleeper.take_call();
        let any = self.progress();
        if self.change_counts() != announced.changes {
            self.policy.arrived(now);
        } else if any {
            self.policy.progressed(now);
        }
        if woken == Woken::Waker {
            let left = |limit: Instant| limit.saturating_duration_since(now);
            self.interrupted = Some(announced.limit.map_or(Duration::MAX, left));
        }
    }

    /// Whether a thread is parked.
    #[inline(always)]
    pub fn has_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// Wakes the parked thread, if there is one and it has to look again after what the caller has
    /// done; makes progress first, if that may avoid the wake-up. Every thread that uses the
    /// endpoint while another is parked calls this last.
    #[inline]
    pub fn check_parked(&mut self) {
        if self.parked.is_some() {
            self.check_sleep();
        }
    }

    #[cold]
    fn check_sleep(&mut self) {
        if self.check_process().is_err() {
            return;
        }
        if !self.methods.stay_armed() {
            // To make progress for a message that could not leave at once costs less here than to
            // wake the other thread.
            self.progress();
        }
        let changes = self.change_counts();
        let deadline = self.first_deadline();
        let Some(announced) = &mut self.parked else {
            return;
        };
        let is_late = match (deadline, announced.until) {
            (Some(deadline), Some(until)) => deadline < until,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let may_sleep = announced.changes == changes && !is_late && self.methods.stay_armed();
        if !may_sleep && !announced.is_woken {
            announced.is_woken = true;
            self.sleeper.wake();
        }
    }

    /// Ends a wait that was prepared before and not finished.
    fn end_parked(&mut self) {
        if let Some(announced) = self.parked.take() {
            self.sleeper.wake();
            self.sleeper.end(&mut self.methods, announced.on);
        }
    }

    /// The earliest time at which a sleep ends if nothing happens.
    fn first_deadline(&self) -> Option<Instant> {
        let observation = self.watch.deadline(&self.conversations);
        self.deadline().into_iter().chain(observation).min()
    }

    /// How long a thread stays awake, yielding the processor, while another thread waits on behalf
    /// of all.
    #[inline]
    pub fn awake_limit_of_followers(&self) -> Duration {
        self.policy.awake_limit_of_followers()
    }

    /// Ends the wait of a thread that has waited on behalf of all and returns to its caller: the
    /// next wait is a different one.
    pub fn end_wait(&mut self) {
        if self.policy.is_waiting() {
            let now = self.methods.read_clock();
            self.policy.arrived(now);
        }
    }
}
