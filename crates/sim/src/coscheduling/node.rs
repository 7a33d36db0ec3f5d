//! A node: its dispatcher, threads, card and driver.

use causeway_cosched::{Card, Driver, Settings, View};

use super::costs::Costs;
use super::dispatch::Dispatcher;
use super::thread::Thread;
use crate::engine::{NANOSECOND, Time};

/// The counters of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Changes from one thread to another.
    pub switches: u64,
    /// Interrupts of the card.
    pub interrupts: u64,
    /// Boosts that the driver requested.
    pub boosts: u64,
    /// Times that a thread blocked on a message.
    pub blocks: u64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) dispatcher: Dispatcher,
    /// One for each job, then the daemon.
    pub(super) threads: Vec<Thread>,
    pub(super) jobs: usize,
    pub(super) card: Card,
    pub(super) driver: Driver,
    /// Changes whenever the end of the running thread's work changes.
    pub(super) piece: u32,
    /// Changes whenever the end of its quantum does.
    pub(super) quantum: u32,
    /// Until when the running thread's time has been accounted for; in the future while the processor does something else.
    pub(super) since: Time,
    /// The thread that ran last.
    pub(super) last: Option<u16>,
    /// When the card last fetched which process the host runs, and which it was.
    running_sample: (Time, Option<u16>),
    /// A check for a higher thread is scheduled.
    pub(super) is_preempting: bool,
    /// The offset of its ticks within a tick.
    pub(super) phase: Time,
    /// How far its clock is ahead.
    pub(super) clock_ahead: Time,
    /// How much longer than intended each of its timer's intervals is, in millionths.
    pub(super) timer_slow: i64,
    /// Until when the card is sending, and receiving.
    pub(super) egress_until: Time,
    pub(super) ingress_until: Time,
    pub(super) counts: Counts,
}

impl Node {
    pub(super) fn new(costs: &Costs, settings: &Settings, threads: Vec<Thread>) -> Self {
        let jobs = threads.len() - 1;
        Self {
            dispatcher: Dispatcher::new(costs.table, costs.rules, threads.len()),
            jobs,
            card: Card::new(settings, jobs),
            driver: Driver::new(settings),
            threads,
            piece: 0,
            quantum: 0,
            since: 0,
            last: None,
            running_sample: (0, None),
            is_preempting: false,
            phase: 0,
            clock_ahead: 0,
            timer_slow: 0,
            egress_until: 0,
            ingress_until: 0,
            counts: Counts::default(),
        }
    }

    /// How long an interval of this node's timer really is.
    pub(super) fn interval(&self, intended: Time) -> Time {
        let millionth = i64::try_from(intended / 1_000_000).unwrap_or(i64::MAX);
        intended.saturating_add_signed(millionth.saturating_mul(self.timer_slow))
    }

    /// The first tick at or after a moment.
    pub(super) fn tick(&self, at: Time, tick: Time) -> Time {
        let tick = self.interval(tick);
        let since = at.saturating_sub(self.phase);
        self.phase + since.div_ceil(tick) * tick
    }

    /// Charges the running thread with the time until now.
    pub(super) fn account(&mut self, now: Time) {
        if now <= self.since {
            return;
        }
        if let Some(running) = self.dispatcher.running() {
            let time = now - self.since;
            self.threads[usize::from(running)].run(time);
            self.dispatcher.used(time);
        }
        self.since = now;
    }

    /// Notes, before the running thread changes, which process the card has fetched by now.
    pub(super) fn note_running(&mut self, now: Time, sample: Time) {
        let last = now / sample * sample;
        if last > self.running_sample.0 {
            self.running_sample = (last, self.dispatcher.running());
        }
    }

    /// Passes the card the process that it assumes to be running.
    pub(super) fn sample(&mut self, now: Time, sample: Time) {
        self.note_running(now, sample);
        let running = self.running_sample.1;
        let parallel = running.filter(|&thread| usize::from(thread) < self.jobs);
        self.card.set_running(parallel);
    }

    /// The driver's view of the processes.
    pub(super) fn views(&self) -> Vec<View> {
        let running = self.dispatcher.running();
        self.threads[..self.jobs]
            .iter()
            .enumerate()
            .map(|(place, thread)| {
                let number = place as u16;
                View {
                    job: place as u64,
                    is_gone: !self.dispatcher.is_there(number),
                    is_running: running == Some(number),
                    is_asleep: self.dispatcher.is_asleep(number),
                    awaits_message: thread.has_blocked,
                    has_pending: thread.has_pending(),
                    last_arrival_ns: self.card.last_arrival_ns(number),
                    cpu_ns: thread.cpu / NANOSECOND,
                }
            })
            .collect()
    }

    /// One below the lowest level that another parallel process has.
    pub(super) fn level_below(&self, thread: u16) -> u8 {
        let others = (0..self.jobs as u16)
            .filter(|&other| other != thread && self.dispatcher.is_there(other));
        let lowest = others.map(|other| self.dispatcher.level(other)).min();
        lowest
            .unwrap_or(self.dispatcher.level(thread))
            .saturating_sub(1)
    }
}
