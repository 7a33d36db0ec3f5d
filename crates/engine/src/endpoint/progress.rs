//! Making progress: polling the methods, ticking them, waiting.

use std::time::{Duration, Instant};

use causeway_sys::runnable::Runnable;

use super::Endpoint;
use super::connections::Delivery;
use super::home::Home;
use super::methods::Polling;
use super::sleep::{SleepOn, Woken};
use super::yielding::Yielding;
use crate::conversations::Conversations;
use crate::matcher::Matcher;
use crate::waiting::{Awaited, Decision, POLLS_PER_CALL, Yielded};

/// What some polls have found.
enum Polled {
    /// What the caller waits for has come.
    Ready,
    /// Something has happened, but not that.
    Something,
    Nothing,
}

/// How the part of a wait in which the thread stayed awake has ended.
pub(super) enum Awake {
    /// What the caller waits for has come.
    Ready,
    TimeUp,
    /// The thread should yield the processor; the caller does that, after letting other threads in.
    Yield,
    /// The thread should park: the policy has decided so, or another thread ends the wait.
    Park,
}

impl<M: Matcher> Endpoint<M> {
    /// Gives this process a processor of its own among those of the host that it shares with the other processes of its program:
    /// where its first thread shares another processor with threads that wait, it moves there, and it stays where it is while it
    /// sleeps. It is bound to none while it runs.
    pub fn prefer_processor(&mut self, processor: usize) {
        self.home = Some(Home::new(processor));
    }

    /// Large messages are copied by one of their sides from here on, which is the one that begins now. If more processes communicate than there are processors, a side that helps
    /// takes the processor from another process, and its help is no gain.
    pub fn copy_alone(&mut self) {
        for slot in &mut self.methods.slots {
            slot.copy_alone();
        }
    }

    /// Whether a poll would find nothing and have nothing to do, where that is known sooner than a poll takes. The look counts as a poll.
    #[inline(always)]
    pub(super) fn finds_nothing(&mut self) -> bool {
        let Some(method) = self.methods.only else {
            return false;
        };
        let conversations = &self.conversations;
        let has_work = conversations.wants_time()
            || conversations.has_offers()
            || conversations.has_work()
            || conversations.shared.wants_flush;
        if has_work || self.policy.is_call_due() {
            return false;
        }
        let now = self.methods.now();
        let slot = &mut self.methods.slots[method];
        let finds_nothing = slot.method.finds_nothing(now);
        if finds_nothing {
            slot.polled(false);
            self.policy.count_call();
        }
        finds_nothing
    }

    /// Polls the methods once; returns whether anything happened.
    #[inline]
    pub(super) fn progress(&mut self) -> bool {
        let any = self.advance(1);
        self.flush_control();
        any
    }

    /// Sends the packets that the last polls have queued: the caller may compute next.
    #[inline]
    pub(super) fn flush_control(&mut self) {
        if std::mem::take(&mut self.conversations.shared.wants_flush) {
            self.methods.flush();
            self.settle_sent();
        }
    }

    /// Polls the methods until something happens, up to `spins` times if only one method is polled.
    /// If nothing happens, does the work that is done only then.
    #[inline]
    fn advance(&mut self, spins: u32) -> bool {
        let is_timed = self.conversations.wants_time();
        if is_timed {
            self.begin_poll();
        }
        let any = self.poll_some(spins);
        if any {
            if is_timed {
                // The time of a poll itself, such as for copying, does not count as time away.
                self.begin_poll();
            }
        } else if self.conversations.has_offers() {
            self.make_offers();
        }
        any
    }

    #[inline(never)]
    fn begin_poll(&mut self) {
        let now = self.methods.read_clock();
        self.conversations.begin_poll(now);
    }

    /// Handles a posted receive with room for a large message: it is offered to its sender soon, if
    /// receives are offered, or watched.
    #[inline(never)]
    pub(super) fn offer_or_watch(&mut self) {
        if self.conversations.has_offers() {
            self.progress();
        } else if self.conversations.begins_watch() {
            self.begin_poll();
        }
    }

    /// Offers receives that wait to their senders.
    #[inline(never)]
    fn make_offers(&mut self) {
        self.conversations.make_offers();
        self.settle();
    }

    #[inline]
    fn poll_some(&mut self, spins: u32) -> bool {
        if self.policy.count_call() {
            return self.progress_and_sample();
        }
        let Some(method) = self.methods.only else {
            return self.poll_methods(false);
        };
        let now = self.methods.now();
        let slot = &mut self.methods.slots[method];
        let now = slot.time(&self.methods.clock, now);
        let sink = &mut Delivery::new(
            &mut self.conversations,
            &mut self.connections,
            (method, slot.limits),
        );
        let any = match spins {
            1 => slot.method.poll(now, sink),
            _ => slot.method.spin(now, sink, spins),
        };
        slot.polled(any);
        self.settle_sent();
        any || self.conversations.has_work()
    }

    /// Polls the methods that are always polled, and those that are `seldom`.
    #[inline(never)]
    fn poll_methods(&mut self, seldom: bool) -> bool {
        let mut any = false;
        let now = self.methods.now();
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            match slot.polling {
                Polling::Always => {}
                Polling::Seldom if seldom => {}
                Polling::Seldom | Polling::Never => continue,
            }
            let sink = &mut Delivery::new(
                &mut self.conversations,
                &mut self.connections,
                (method, slot.limits),
            );
            let polled = slot.method.poll(slot.time(&self.methods.clock, now), sink);
            slot.polled(polled);
            any |= polled;
        }
        self.settle_sent();
        any || self.conversations.has_work()
    }

    #[cold]
    fn progress_and_sample(&mut self) -> bool {
        // A peer that runs will soon release memory that it holds.
        self.conversations.retry_held();
        let any = self.poll_methods(true);
        self.methods.choose();
        let now = self.methods.read_clock();
        if self.policy.clock_read(now) {
            self.tick(now);
        }
        any
    }

    #[cold]
    pub(super) fn tick(&mut self, now: Instant) {
        for (method, slot) in self.methods.slots.iter_mut().enumerate() {
            slot.method.tick(
                now,
                &mut Delivery::new(
                    &mut self.conversations,
                    &mut self.connections,
                    (method, slot.limits),
                ),
            );
        }
        self.conversations.retry_held();
        if self.conversations.may_expire(now) {
            // What has arrived while this thread slept, or was stopped, counts before time does.
            self.poll_methods(true);
            self.settle();
        }
        self.conversations.expire(now);
        self.settle();
        self.methods.drop_freed();
        self.policy.ticked(now, self.deadline());
        self.observe(now);
    }

    /// When the next tick is due, if nothing happens until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let own = self.conversations.deadline();
        self.methods.deadline().into_iter().chain(own).min()
    }

    /// Polls the methods this many times, or until `ready`.
    #[inline]
    fn advance_until(
        &mut self,
        mut polls: u32,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> Polled {
        let mut polled = Polled::Nothing;
        while polls > 0 {
            let spins = polls.min(POLLS_PER_CALL);
            if self.advance(spins) {
                polled = Polled::Something;
            }
            if ready(&self.conversations) {
                return Polled::Ready;
            }
            polls -= spins;
        }
        polled
    }

    /// Makes progress until `ready`, for at most `idle` or until another thread wakes this one.
    /// Returns whether it is ready.
    pub(super) fn wait_until(
        &mut self,
        idle: Duration,
        ready: impl Fn(&Conversations<M>) -> bool,
    ) -> bool {
        let is_ready = self.wait_on(idle, ready);
        self.flush_control();
        is_ready
    }

    fn wait_on(&mut self, idle: Duration, ready: impl Fn(&Conversations<M>) -> bool) -> bool {
        if self.policy.enter() {
            self.yield_processor();
        }
        let polls = self.policy.first_polls(Awaited::Messages);
        if self.advance_to(polls, &ready) {
            self.policy.arrived_at_once(Awaited::Messages);
            return true;
        }
        self.wait_longer(idle, ready)
    }

    /// As [`Endpoint::wait_until`], after the first polls.
    pub(super) fn wait_longer_until(
        &mut self,
        idle: Duration,
        ready: impl Fn(&Conversations<M>) -> bool,
    ) -> bool {
        let is_ready = self.wait_longer(idle, ready);
        self.flush_control();
        is_ready
    }

    fn wait_longer(&mut self, idle: Duration, ready: impl Fn(&Conversations<M>) -> bool) -> bool {
        let start = self.methods.read_clock();
        let until = start.checked_add(idle);
        let mut decision = self.policy.begin(Awaited::Messages, start);
        loop {
            match self.poll_and_yield(&mut decision, until, &ready) {
                Awake::Ready => return true,
                Awake::TimeUp => return false,
                Awake::Yield | Awake::Park => {}
            }
            if let Some(ended) = self.park_once(until, &ready) {
                return ended;
            }
            let now = self.methods.read_clock();
            decision = self.policy.resume(now);
            if until.is_some_and(|until| now >= until) {
                return false;
            }
        }
    }

    /// Polls this many times, or until `ready`. Returns whether it is ready.
    #[inline]
    pub(super) fn advance_to(
        &mut self,
        polls: u32,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> bool {
        matches!(self.advance_until(polls, ready), Polled::Ready)
    }

    /// Polls and yields as the policy decides, until it decides to park.
    #[inline]
    pub(super) fn poll_and_yield(
        &mut self,
        decision: &mut Decision,
        until: Option<Instant>,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> Awake {
        loop {
            match self.poll_until_yield(decision, until, ready) {
                Awake::Yield => {
                    let now = self.yield_processor();
                    *decision = self.policy.resume(now);
                }
                other => return other,
            }
        }
    }

    /// Polls as the policy decides, until it decides to yield or to park.
    #[inline]
    pub(super) fn poll_until_yield(
        &mut self,
        decision: &mut Decision,
        until: Option<Instant>,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> Awake {
        loop {
            // Another thread's call ends a wait, and is consumed where parking is prepared:
            // progress may never pause.
            if self.sleeper.is_called() {
                return Awake::Park;
            }
            match *decision {
                Decision::Poll(polls) => {
                    let polled = self.advance_until(polls, ready);
                    let now = self.methods.read_clock();
                    if let Polled::Ready = polled {
                        self.policy.arrived(now);
                        return Awake::Ready;
                    }
                    let any = matches!(polled, Polled::Something);
                    *decision = self.policy.polled(polls, any, now);
                    if until.is_some_and(|until| now >= until) {
                        return Awake::TimeUp;
                    }
                }
                Decision::Yield => return Awake::Yield,
                Decision::Park => {
                    let has_moved = self.methods.take_moved();
                    *decision = self.policy.before_parking(has_moved, self.methods.now());
                    if *decision == Decision::Park {
                        return Awake::Park;
                    }
                }
            }
        }
    }

    /// Parks, then makes progress once. Returns whether the caller's condition holds, if the wait
    /// is over.
    pub(super) fn park_once(
        &mut self,
        until: Option<Instant>,
        ready: &impl Fn(&Conversations<M>) -> bool,
    ) -> Option<bool> {
        let before = self.methods.read_clock();
        let woken = self.park(before, until);
        let now = self.methods.read_clock();
        self.policy.parked(before, now);
        let any = self.progress();
        if ready(&self.conversations) {
            self.policy.arrived(now);
            return Some(true);
        }
        if woken == Woken::Waker {
            let left = until.map(|until| until.saturating_duration_since(now));
            self.interrupted = Some(left.unwrap_or(Duration::MAX));
            return Some(false);
        }
        if any {
            self.policy.progressed(now);
        } else {
            // A method may be unable to park just now, because of a peer that is not running.
            self.yield_processor();
        }
        None
    }

    /// Observes the peers for the status page and the log, if it is due.
    pub(super) fn observe(&mut self, now: Instant) {
        let (all, connections) = (&mut self.conversations, &mut self.connections);
        self.watch.observe(all, connections, &self.methods, now);
    }

    /// Yields the processor, with the measurements that the policy needs. Returns the time
    /// afterwards.
    #[cold]
    pub(super) fn yield_processor(&mut self) -> Instant {
        let mut yielding = self.begin_yield();
        yielding.pass();
        self.end_yield(&yielding);
        self.methods.read_clock()
    }

    /// A yield during which other threads may use the endpoint.
    pub(super) fn begin_yield(&self) -> Yielding {
        Yielding::new(self.methods.clock.clone(), self.policy.wants_switches())
    }

    /// Passes the measurements of a yield to the policy.
    pub(super) fn end_yield(&mut self, yielding: &Yielding) {
        let Some(took) = yielding.took() else {
            return;
        };
        // Where parking is cheap, parked processes are served as well, and the distinction is not
        // needed.
        let is_wanted = self.policy.wants_run_queue(took.until - took.from);
        let run_queue = match is_wanted && self.methods.is_parking_costly() {
            true => self.run_queue(),
            false => None,
        };
        let ran_others = self.policy.yielded(Yielded { run_queue, ..took });
        if ran_others && let Some(home) = &mut self.home {
            home.go(took.until);
        }
    }

    /// Threads in the run queue of a processor, if the system reports it.
    pub(super) fn run_queue(&self) -> Option<u32> {
        let runnable = self.runnable.get_or_init(|| Runnable::open().ok());
        runnable.as_ref()?.per_processor().ok()
    }

    /// Has the next wait give the processor up soon: the caller knows that its peers compute or copy for some time before they send anything.
    pub fn expect_nothing_soon(&mut self) {
        self.policy.expect_nothing_soon();
    }

    /// Sleeps until there is something to poll for or another thread wakes this one, at most until
    /// `until` or a method's deadline.
    fn park(&mut self, now: Instant, until: Option<Instant>) -> Woken {
        self.observe(now);
        self.methods.drop_freed();
        if self.conversations.may_expire(now) {
            self.tick(now);
            return self.sleeper.take_call();
        }
        if self.conversations.has_work() {
            return self.sleeper.take_call();
        }
        let Some(on) = self.prepare_sleeper() else {
            return self.sleeper.take_call();
        };
        self.sleeps += 1;
        let is_time_up = self.sleep(on, until);
        self.sleeper.end(&mut self.methods, on);
        let now = self.methods.read_clock();
        if is_time_up || on == SleepOn::Descriptors || self.policy.is_tick_due(now) {
            self.tick(now);
        }
        self.sleeper.take_call()
    }

    /// Prepares a sleep; `None` if there is something to poll for.
    pub(super) fn prepare_sleeper(&mut self) -> Option<SleepOn> {
        self.sleeper.set_stays(self.home.is_some());
        self.sleeper.prepare(&mut self.methods)
    }

    /// Sleeps as prepared; returns whether a deadline has ended that. Observing the operations, for
    /// the status page and the log, does not end the sleep: polling then would hide a lost wake-up.
    fn sleep(&mut self, on: SleepOn, until: Option<Instant>) -> bool {
        loop {
            let deadline = self.deadline().into_iter().chain(until).min();
            let observation = self.watch.deadline(&self.conversations);
            let first = deadline.into_iter().chain(observation).min();
            if self.sleeper.wait(&mut self.methods, on, first) {
                return false;
            }
            let now = self.methods.read_clock();
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.expired_sleeps += u64::from(until.is_some_and(|until| now >= until));
                return true;
            }
            self.observe(now);
        }
    }
}
