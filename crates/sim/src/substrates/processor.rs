//! The processors of a host, as its programs use them: time slices, interrupts, and waiting by
//! polling.
//!
//! A process is not notified when a message arrives; it polls while it waits. Simulating every
//! unsuccessful poll would cost more than everything else, so they are computed: a single waiting
//! process polls at whole multiples of the poll's duration, and where several wait for one
//! processor, each polls once and yields, with a context switch between them. A message is noticed
//! by the first poll that ends after its arrival. An interrupt delays whatever runs on the first
//! processor, and its time is charged to the interrupted process.

use std::collections::VecDeque;

use crate::am::port::Function;
use crate::engine::Time;
use crate::hardware::Shared;

/// A process's accounts and its state.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    /// Processor time, for each function.
    pub(super) accounts: [Time; Function::COUNT],
    /// The time of unsuccessful polls within `am_poll`.
    pub(super) in_vain: Time,
    /// The rest of its computation.
    left: Time,
    /// The function that it is in.
    pub(super) function: Function,
    /// When its wait began.
    pub(super) waits_since: Option<Time>,
    /// The number of its waits, which distinguishes an old notice from a new one.
    waits: u32,
    /// The awaited event has happened, and it has not polled since.
    is_noticing: bool,
}

impl Clock {
    fn charge(&mut self, function: Function, time: Time) {
        self.accounts[function as usize] += time;
    }
}

/// The costs of a host's processors.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostTimes {
    pub(super) processors: usize,
    pub(super) context_switch: Time,
    pub(super) quantum: Time,
    /// One unsuccessful poll.
    pub(super) poll: Time,
}

/// State outside of a host's processors that they change.
pub(super) struct Effects<'a> {
    pub(super) now: Time,
    /// The accounts of all processes.
    pub(super) clocks: &'a mut [Clock],
    /// Alarms to be set.
    pub(super) alarms: &'a mut Vec<Alarm>,
}

impl Effects<'_> {
    fn clock(&mut self, process: u32) -> &mut Clock {
        &mut self.clocks[process as usize]
    }
}

/// When a processor has to be served again. An alarm of an older generation is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alarm {
    pub(super) at: Time,
    pub(super) wakes: Wakes,
}

/// The processor or process that an alarm is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wakes {
    /// The running process has reached the end of its slice.
    Processor {
        host: u32,
        processor: u32,
        generation: u32,
    },
    /// The process's poll finds something.
    Process { process: u32, wait: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Run {
    process: u32,
    /// When this stretch began, or would have begun without interrupts.
    began: Time,
    ends: Time,
    /// The rest of its time slice after this stretch.
    budget: Time,
}

#[derive(Debug, Default)]
struct Processor {
    run: Option<Run>,
    /// A process that has finished a stretch and is about to make a call.
    holds: Option<(u32, Time)>,
    last: Option<u32>,
    generation: u32,
}

impl Processor {
    fn is_idle(&self) -> bool {
        self.run.is_none() && self.holds.is_none()
    }
}

/// The processors of one host and the processes that share them.
#[derive(Debug)]
pub(super) struct Host {
    index: u32,
    times: HostTimes,
    processors: Vec<Processor>,
    ready: VecDeque<u32>,
    waiting: Vec<u32>,
    /// Until when the time of waiting processes has been accounted for.
    settled: Time,
    /// When the present round of polls began.
    round: Time,
    interrupts: Shared,
    /// Its time in interrupt handlers when accounts were last brought up to date.
    settled_interrupts: Time,
}

impl Host {
    pub(super) fn new(index: u32, times: HostTimes) -> Self {
        let processors = (0..times.processors.max(1))
            .map(|_| Processor::default())
            .collect();
        Self {
            index,
            times,
            processors,
            ready: VecDeque::new(),
            waiting: Vec::new(),
            settled: 0,
            round: 0,
            interrupts: Shared::default(),
            settled_interrupts: 0,
        }
    }

    /// Its time in interrupt handlers.
    pub(super) fn interrupted(&self) -> Time {
        self.interrupts.busy()
    }

    fn idle(&self) -> usize {
        self.processors.iter().filter(|one| one.is_idle()).count()
    }

    /// Charges waiting processes with their polls.
    fn settle(&mut self, effects: &mut Effects<'_>) {
        let waiting = self.waiting.len() as u64;
        let processors = (self.idle() as u64).min(waiting);
        let elapsed = effects.now - self.settled.min(effects.now);
        self.settled = effects.now;
        let interrupted = self.interrupts.busy() - self.settled_interrupts;
        self.settled_interrupts = self.interrupts.busy();
        if processors == 0 {
            return;
        }
        for &process in &self.waiting {
            let clock = effects.clock(process);
            let time = elapsed * processors / waiting;
            clock.charge(Function::Poll, time);
            clock.in_vain += time.saturating_sub(interrupted / waiting);
        }
    }

    /// Lets a process, which holds no processor, compute for `time`.
    pub(super) fn admit(&mut self, process: u32, time: Time, effects: &mut Effects<'_>) {
        self.settle(effects);
        let clock = effects.clock(process);
        clock.left = time;
        self.ready.push_back(process);
        self.bound_slices(effects);
        self.dispatch(effects);
    }

    /// Gives idle processors to ready processes.
    fn dispatch(&mut self, effects: &mut Effects<'_>) {
        for index in 0..self.processors.len() {
            if !self.processors[index].is_idle() {
                continue;
            }
            let Some(process) = self.ready.pop_front() else {
                break;
            };
            self.round = effects.now;
            let clock = effects.clock(process);
            if self.processors[index]
                .last
                .is_some_and(|last| last != process)
            {
                clock.left += self.times.context_switch;
                clock.charge(clock.function, self.times.context_switch);
            }
            self.begin(index, process, self.times.quantum, effects);
        }
    }

    /// Continues `process` with the rest of its computation, to the end of its slice at most when others are ready.
    fn begin(&mut self, index: usize, process: u32, budget: Time, effects: &mut Effects<'_>) {
        let began = match index {
            0 => effects.now.max(self.interrupts.free_at()),
            _ => effects.now,
        };
        let left = effects.clock(process).left;
        let length = match self.ready.is_empty() {
            true => left,
            false => left.min(budget),
        };
        let processor = &mut self.processors[index];
        processor.holds = None;
        processor.last = Some(process);
        processor.generation = processor.generation.wrapping_add(1);
        processor.run = Some(Run {
            process,
            began,
            ends: began + length,
            budget: budget.saturating_sub(length),
        });
        effects.alarms.push(self.alarm(index, began + length));
    }

    fn alarm(&self, index: usize, at: Time) -> Alarm {
        Alarm {
            at,
            wakes: Wakes::Processor {
                host: self.index,
                processor: index as u32,
                generation: self.processors[index].generation,
            },
        }
    }

    /// Bounds a run that has no bound, because a process has become ready.
    fn bound_slices(&mut self, effects: &mut Effects<'_>) {
        for index in 0..self.processors.len() {
            let processor = &mut self.processors[index];
            let Some(run) = processor.run.as_mut() else {
                continue;
            };
            let latest = effects.now.max(run.began) + self.times.quantum;
            if run.ends > latest {
                run.ends = latest;
                run.budget = 0;
                processor.generation = processor.generation.wrapping_add(1);
                effects.alarms.push(self.alarm(index, latest));
            }
        }
    }

    /// Ends a stretch: returns the process if it has finished computing. It then holds the processor until
    /// [`Self::go_on`], [`Self::wait`] or [`Self::leave`].
    pub(super) fn stretch_ends(
        &mut self,
        index: usize,
        generation: u32,
        effects: &mut Effects<'_>,
    ) -> Option<u32> {
        let processor = &mut self.processors[index];
        if processor.generation != generation {
            return None;
        }
        let run = processor.run.take()?;
        let now = effects.now;
        let clock = effects.clock(run.process);
        clock.left = clock.left.saturating_sub(now - run.began.min(now));
        if clock.left == 0 {
            processor.holds = Some((run.process, run.budget));
            return Some(run.process);
        }
        self.ready.push_back(run.process);
        self.dispatch(effects);
        None
    }

    fn release(&mut self, process: u32) -> Option<(usize, Time)> {
        let index = self
            .processors
            .iter()
            .position(|one| one.holds.is_some_and(|(holder, _)| holder == process))?;
        let (_, budget) = self.processors[index].holds.take()?;
        Some((index, budget))
    }

    /// Lets the process that holds a processor compute for `time`.
    pub(super) fn go_on(&mut self, process: u32, time: Time, effects: &mut Effects<'_>) {
        let Some((index, budget)) = self.release(process) else {
            return;
        };
        let clock = effects.clock(process);
        clock.left = time;
        if budget == 0 && !self.ready.is_empty() {
            self.ready.push_back(process);
            self.dispatch(effects);
        } else {
            let budget = match budget {
                0 => self.times.quantum,
                _ => budget,
            };
            self.begin(index, process, budget, effects);
        }
    }

    /// Lets the process that holds a processor wait, after an unsuccessful poll.
    pub(super) fn wait(&mut self, process: u32, effects: &mut Effects<'_>) {
        self.vacate(process, effects);
        self.waiting.push(process);
        let now = effects.now;
        let clock = effects.clock(process);
        clock.waits_since = Some(now);
        clock.waits = clock.waits.wrapping_add(1);
        clock.is_noticing = false;
        self.dispatch(effects);
    }

    /// Ends the process that holds a processor.
    pub(super) fn leave(&mut self, process: u32, effects: &mut Effects<'_>) {
        self.vacate(process, effects);
        self.dispatch(effects);
    }

    /// Takes `process` off the processor that it holds; waiting processes poll from now on.
    fn vacate(&mut self, process: u32, effects: &mut Effects<'_>) {
        self.settle(effects);
        self.release(process);
        self.round = effects.now;
    }

    /// Notes an event for which `process` may wait.
    pub(super) fn wake(&mut self, process: u32, effects: &mut Effects<'_>) {
        let Some(place) = self.waiting.iter().position(|&other| other == process) else {
            return;
        };
        let idle = self.idle();
        if idle == 0 {
            self.settle(effects);
            self.waiting.remove(place);
            let poll = self.times.poll;
            let clock = effects.clock(process);
            clock.waits_since = None;
            clock.charge(Function::Poll, poll);
            self.admit(process, poll, effects);
            return;
        }
        let clock = effects.clock(process);
        if !clock.is_noticing {
            clock.is_noticing = true;
            let wait = clock.waits;
            effects.alarms.push(Alarm {
                at: self.next_poll(effects.now, place, idle),
                wakes: Wakes::Process { process, wait },
            });
        }
    }

    /// When the next poll of the process at `place` among those that wait ends.
    fn next_poll(&self, now: Time, place: usize, idle: usize) -> Time {
        let waiting = self.waiting.len();
        let (turn, turns, place) = match waiting <= idle {
            true => (self.times.poll, 1, 0),
            false => (
                self.times.poll + self.times.context_switch,
                waiting.div_ceil(idle.max(1)) as u64,
                (place / idle.max(1)) as u64,
            ),
        };
        let (turn, first) = (turn.max(1), turn.max(1) * (place + 1));
        let round = turn * turns;
        let since = now.saturating_sub(self.round);
        let rounds = since.saturating_sub(first).div_ceil(round);
        (self.round + first + rounds * round).max(now)
    }

    /// Ends a poll of `process` that finds something: returns whether it holds a processor now. If not, it will get one.
    pub(super) fn notice(&mut self, process: u32, wait: u32, effects: &mut Effects<'_>) {
        let Some(place) = self.waiting.iter().position(|&other| other == process) else {
            return;
        };
        let clock = effects.clock(process);
        if !clock.is_noticing || clock.waits != wait {
            return;
        }
        let busy_until = self.interrupts.free_at();
        if busy_until > effects.now && self.processors.len() == 1 {
            effects.alarms.push(Alarm {
                at: busy_until,
                wakes: Wakes::Process { process, wait },
            });
            return;
        }
        self.settle(effects);
        self.waiting.remove(place);
        let clock = effects.clock(process);
        clock.waits_since = None;
        clock.is_noticing = false;
        // The process has just polled, so a processor that was idle is already its own.
        if let Some(processor) = self.processors.iter_mut().find(|one| one.is_idle()) {
            processor.last = Some(process);
        }
        self.admit(process, 0, effects);
    }

    /// Interrupts the first processor for `time`; returns when the handler has ended.
    pub(super) fn interrupt(&mut self, time: Time, effects: &mut Effects<'_>) -> Time {
        let end = self.interrupts.occupy(effects.now, time).end;
        let processor = &mut self.processors[0];
        match processor.run.as_mut() {
            Some(run) => {
                run.began += time;
                run.ends += time;
                let (process, ends) = (run.process, run.ends);
                processor.generation = processor.generation.wrapping_add(1);
                let clock = effects.clock(process);
                clock.charge(clock.function, time);
                effects.alarms.push(self.alarm(0, ends));
            }
            // Polls continue where they were interrupted.
            None => self.round += time,
        }
        end
    }
}
