//! Runs programs on a substrate in virtual time, and reports which process waits for which in a deadlock.

use std::fmt;

use super::process::{
    Call, CallEffect, CallResult, PortCosts, Process, SimPort, Spent, Turn, Yielded,
};
use super::processor::Wakes;
use super::world::{Event, Journey, World};
use crate::am::AmError;
use crate::am::port::{Awaited, Function, Rank};
use crate::engine::Time;
use crate::statistics::Statistics;

/// A communication substrate on its network interface.
pub(super) trait Substrate {
    /// Its events.
    type Event: Copy;

    /// The processor cycles before `call` takes effect.
    fn before(&self, world: &World<Self::Event>, process: Rank, call: &Call) -> u64;

    /// Carries the call out. `before` is the result of [`Self::before`].
    fn carry_out(
        &mut self,
        world: &mut World<Self::Event>,
        process: Rank,
        call: Call,
        before: u64,
    ) -> CallEffect;

    /// Handles an event.
    fn event(&mut self, world: &mut World<Self::Event>, event: Self::Event);

    /// The number of TLB misses.
    fn tlb_misses(&self) -> u64 {
        0
    }
}

/// When a simulation is abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A process with messages that has not polled for this long is reported.
    pub patience: Time,
    /// The longest simulation.
    pub longest: Time,
    /// Bytes of each program's stack.
    pub stack_bytes: usize,
}

/// The state of a process when the simulation could not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doing {
    /// It waits.
    Waits(Awaited),
    /// It computes, or has been interrupted in a call.
    Runs,
    /// Its program has ended.
    Ended,
}

/// A process when the simulation could not continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StalledProcess {
    /// Its rank.
    pub rank: Rank,
    /// Its state.
    pub doing: Doing,
    /// The number of messages that it has not received, and the sender of the first.
    pub unread: (usize, Option<Rank>),
    /// The time of its last poll.
    pub polled: Time,
}

impl fmt::Display for StalledProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ", self.rank)?;
        match &self.doing {
            Doing::Waits(awaited) => write!(f, "waits for {awaited}")?,
            Doing::Runs => write!(f, "last polled at {} µs and runs", self.polled / 1_000_000)?,
            Doing::Ended => write!(f, "has ended")?,
        }
        if let (unread @ 1.., Some(first)) = self.unread {
            write!(
                f,
                " with {unread} messages unread, the first from process {first}"
            )?;
        }
        Ok(())
    }
}

/// Why a simulation failed.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A program failed.
    #[error("process {rank}: {error}")]
    Program {
        /// The process.
        rank: Rank,
        /// Its error.
        error: AmError,
    },
    /// No process can continue.
    #[error("no process can continue at {} µs:{}", at / 1_000_000, list(standing))]
    Deadlock {
        /// The time.
        at: Time,
        /// The processes that have not ended, and those that others wait for.
        standing: Vec<StalledProcess>,
    },
    /// A process does not take its messages.
    #[error(
        "process {rank} has not polled for {} µs at {} µs:{}", patience / 1_000_000, at / 1_000_000,
        list(standing)
    )]
    NeverPolls {
        /// The process.
        rank: Rank,
        /// The time that it had.
        patience: Time,
        /// The time.
        at: Time,
        /// See [`Self::Deadlock`].
        standing: Vec<StalledProcess>,
    },
    /// The programs do not end.
    #[error("the programs have not ended after {} µs:{}", at / 1_000_000, list(standing))]
    TooLong {
        /// The time.
        at: Time,
        /// See [`Self::Deadlock`].
        standing: Vec<StalledProcess>,
    },
    /// A stack could not be allocated.
    #[error("no stack of {bytes} bytes for process {rank}: {error}")]
    Stack {
        /// The process.
        rank: Rank,
        /// Its size.
        bytes: usize,
        /// The system's error.
        error: std::io::Error,
    },
    /// Inconsistent settings.
    #[error("{0}")]
    Settings(String),
}

/// The most processes that an error lists.
const MOST_LISTED: usize = 16;

fn list(standing: &[StalledProcess]) -> String {
    let mut text: String = standing
        .iter()
        .take(MOST_LISTED)
        .map(|one| format!("\n  {one}"))
        .collect();
    if let Some(more @ 1..) = standing.len().checked_sub(MOST_LISTED) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}

/// The result of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done<R> {
    /// The result of its program.
    pub output: R,
    /// When it ended.
    pub ended: Time,
    /// Its processor time, for each [`Function`] in the order of [`Function::ALL`].
    pub accounts: [Time; Function::COUNT],
    /// The part of that spent in unsuccessful polls.
    pub in_vain: Time,
}

impl<R> Outcome<R> {
    /// The same results without the programs' own.
    pub fn without_outputs(self) -> Outcome<()> {
        let processes = self.processes.into_iter().map(|done| Done {
            output: (),
            ended: done.ended,
            accounts: done.accounts,
            in_vain: done.in_vain,
        });
        Outcome {
            processes: processes.collect(),
            ended: self.ended,
            events: self.events,
            journeys: self.journeys,
            interrupted: self.interrupted,
            tlb_misses: self.tlb_misses,
            statistics: self.statistics,
        }
    }
}

impl<R> Done<R> {
    /// Its processor time in `function`.
    pub fn time_in(&self, function: Function) -> Time {
        self.accounts.get(function as usize).copied().unwrap_or(0)
    }

    /// All its processor time.
    pub fn processor_time(&self) -> Time {
        self.accounts.iter().sum()
    }
}

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome<R> {
    /// Each process.
    pub processes: Vec<Done<R>>,
    /// When the last process ended.
    pub ended: Time,
    /// The number of events.
    pub events: u64,
    /// The journeys of packets, if they were requested.
    pub journeys: Vec<Journey>,
    /// How long each host spent in interrupt handlers.
    pub interrupted: Vec<Time>,
    /// The number of TLB misses on all cards.
    pub tlb_misses: u64,
    /// Distributions and use, if they were requested.
    pub statistics: Option<Box<Statistics>>,
}

struct Slot<R> {
    process: Option<Process<R>>,
    /// The stage of its call.
    stage: Stage,
    waits_for: Option<Awaited>,
    polled: Time,
    done: Option<(R, Time)>,
}

enum Stage {
    /// Its call is about to return this.
    Returning(CallResult),
    /// It computes before a call's effect.
    Calling(Call, u64),
    /// Between two events of the machine.
    Between,
}

/// Programs on a substrate.
pub(super) struct Machine<S: Substrate, R> {
    world: World<S::Event>,
    substrate: S,
    slots: Vec<Slot<R>>,
    limits: Limits,
    unfinished: usize,
}

impl<S: Substrate, R: 'static> Machine<S, R> {
    /// Programs that are about to begin.
    pub(super) fn new<P>(
        world: World<S::Event>,
        substrate: S,
        costs: PortCosts,
        limits: Limits,
        mut program: impl FnMut(Rank) -> P,
    ) -> Result<Self, SimError>
    where
        P: for<'y> FnOnce(SimPort<'y>) -> Result<R, AmError> + 'static,
    {
        let ranks = world.settings.ranks;
        let slots = (0..ranks)
            .map(|rank| {
                let bytes = limits.stack_bytes;
                let process = Process::new(rank, ranks, costs, bytes, program(rank))
                    .map_err(|error| SimError::Stack { rank, bytes, error })?;
                Ok(Slot {
                    process: Some(process),
                    stage: Stage::Returning(CallResult::Done),
                    waits_for: None,
                    polled: 0,
                    done: None,
                })
            })
            .collect::<Result<Vec<_>, SimError>>()?;
        Ok(Self {
            world,
            substrate,
            unfinished: slots.len(),
            slots,
            limits,
        })
    }

    /// Runs everything to its end.
    pub(super) fn run(mut self) -> Result<Outcome<R>, SimError> {
        match self.run_events() {
            Ok(()) => Ok(self.finish()),
            Err(error) => {
                self.stop();
                Err(error)
            }
        }
    }

    /// Lets the programs that have not ended find out that messages are no longer carried. A
    /// program that does not end even then has its stack unwound when it is dropped.
    fn stop(&mut self) {
        for process in self
            .slots
            .iter_mut()
            .filter_map(|slot| slot.process.as_mut())
        {
            if !process.has_ended() {
                process.resume(CallResult::Stop);
            }
        }
    }

    fn run_events(&mut self) -> Result<(), SimError> {
        for rank in 0..self.world.settings.ranks {
            let host = self.world.host_of(rank);
            self.world
                .with_host(host, |host, effects| host.admit(rank, 0, effects));
        }
        self.world.engine.after(self.limits.patience, Event::Watch);
        while self.unfinished > 0 {
            let Some(event) = self.world.engine.next() else {
                return Err(self.deadlock());
            };
            if self.world.settings.keeps_statistics {
                self.world.observe();
            }
            match event {
                Event::Alarm(wakes) => self.alarm(wakes)?,
                Event::Credit { from, to } => self.world.credit(from, to),
                Event::Substrate(event) => self.substrate.event(&mut self.world, event),
                Event::Watch => self.watch()?,
            }
        }
        Ok(())
    }

    fn alarm(&mut self, wakes: Wakes) -> Result<(), SimError> {
        match wakes {
            Wakes::Processor {
                host,
                processor,
                generation,
            } => {
                let ended = self.world.with_host(host, |host, effects| {
                    host.stretch_ends(processor as usize, generation, effects)
                });
                match ended {
                    Some(rank) => self.go_on(rank),
                    None => Ok(()),
                }
            }
            Wakes::Process { process, wait } => {
                let host = self.world.host_of(process);
                self.world
                    .with_host(host, |host, effects| host.notice(process, wait, effects));
                Ok(())
            }
        }
    }

    /// Continues `rank`, which holds a processor and has finished computing.
    fn go_on(&mut self, rank: Rank) -> Result<(), SimError> {
        let slot = &mut self.slots[rank as usize];
        slot.waits_for = None;
        match std::mem::replace(&mut slot.stage, Stage::Between) {
            Stage::Between => self.resume(rank, CallResult::Done),
            Stage::Returning(result) => self.resume(rank, result),
            Stage::Calling(call, before) => self.carry_out(rank, call, before),
        }
    }

    fn resume(&mut self, rank: Rank, result: CallResult) -> Result<(), SimError> {
        let slot = &mut self.slots[rank as usize];
        let Some(process) = slot.process.as_mut() else {
            return Ok(());
        };
        match process.resume(result) {
            Turn::Calls(yielded) => self.call(rank, yielded),
            Turn::Returned(Err(error)) => Err(SimError::Program { rank, error }),
            Turn::Returned(Ok(output)) => {
                slot.process = None;
                slot.done = Some((output, self.world.now()));
                self.unfinished -= 1;
                let host = self.world.host_of(rank);
                self.world
                    .with_host(host, |host, effects| host.leave(rank, effects));
                Ok(())
            }
        }
    }

    /// Carries out a call of a program that has computed up to it.
    fn call(&mut self, rank: Rank, yielded: Yielded) -> Result<(), SimError> {
        let Yielded {
            spent,
            call,
            function,
        } = yielded;
        let before = self.substrate.before(&self.world, rank, &call);
        let mut spent: Spent = spent;
        let account = &mut spent[function as usize];
        *account = account.saturating_add(before);
        let slot = &mut self.slots[rank as usize];
        if matches!(call, Call::Receive) {
            slot.polled = self.world.now();
        }
        slot.stage = Stage::Calling(call, before);
        self.compute(rank, &spent, function);
        Ok(())
    }

    /// Lets the process that holds a processor compute.
    fn compute(&mut self, rank: Rank, spent: &Spent, function: Function) {
        // No stretch is longer than the whole simulation may take.
        let longest = self.limits.longest;
        let times = spent.map(|cycles| self.world.cycles(cycles).min(longest));
        let clock = &mut self.world.clocks[rank as usize];
        clock.function = function;
        for (account, time) in clock.accounts.iter_mut().zip(times) {
            *account += time;
        }
        let host = self.world.host_of(rank);
        let time = times.iter().sum();
        self.world
            .with_host(host, |host, effects| host.go_on(rank, time, effects));
    }

    fn carry_out(&mut self, rank: Rank, call: Call, before: u64) -> Result<(), SimError> {
        let awaited = match &call {
            Call::Wait(awaited) => Some(*awaited),
            _ => None,
        };
        let effect = self
            .substrate
            .carry_out(&mut self.world, rank, call, before);
        match effect {
            CallEffect::Then(0, result) => self.resume(rank, result),
            CallEffect::Then(after, result) => {
                self.slots[rank as usize].stage = Stage::Returning(result);
                let function = self.world.clocks[rank as usize].function;
                let mut spent = Spent::default();
                spent[function as usize] = after;
                self.compute(rank, &spent, function);
                Ok(())
            }
            CallEffect::Wait => {
                let slot = &mut self.slots[rank as usize];
                slot.stage = Stage::Returning(CallResult::Done);
                slot.waits_for = awaited;
                let host = self.world.host_of(rank);
                self.world
                    .with_host(host, |host, effects| host.wait(rank, effects));
                Ok(())
            }
        }
    }

    /// Checks at intervals whether all processes still poll.
    fn watch(&mut self) -> Result<(), SimError> {
        let now = self.world.now();
        if self.world.engine.pending() == 0 {
            return Err(self.deadlock());
        }
        if now >= self.limits.longest {
            return Err(SimError::TooLong {
                at: now,
                standing: self.standing(),
            });
        }
        let patience = self.limits.patience;
        let silent = self
            .slots
            .iter()
            .zip(&self.world.inboxes)
            .position(|(slot, inbox)| {
                slot.process.is_some()
                    && slot.waits_for.is_none()
                    && !inbox.is_empty()
                    && now.saturating_sub(slot.polled) >= patience
            });
        if let Some(rank) = silent {
            return Err(SimError::NeverPolls {
                rank: rank as Rank,
                patience,
                at: now,
                standing: self.standing(),
            });
        }
        self.world.engine.after(patience, Event::Watch);
        Ok(())
    }

    fn deadlock(&self) -> SimError {
        SimError::Deadlock {
            at: self.world.now(),
            standing: self.standing(),
        }
    }

    /// The processes that have not ended, and those that have but are still waited for.
    fn standing(&self) -> Vec<StalledProcess> {
        let awaited: Vec<Rank> = self
            .slots
            .iter()
            .filter_map(|slot| slot.waits_for?.from)
            .collect();
        let mut standing = Vec::new();
        for (rank, (slot, inbox)) in self.slots.iter().zip(&self.world.inboxes).enumerate() {
            let rank = rank as Rank;
            let doing = match (&slot.process, slot.waits_for) {
                (None, _) if inbox.is_empty() && !awaited.contains(&rank) => continue,
                (None, _) => Doing::Ended,
                (Some(_), Some(awaited)) => Doing::Waits(awaited),
                (Some(_), None) => Doing::Runs,
            };
            standing.push(StalledProcess {
                rank,
                doing,
                unread: (inbox.len(), inbox.front().map(|packet| packet.from)),
                polled: slot.polled,
            });
        }
        standing
    }

    fn finish(mut self) -> Outcome<R> {
        let ended = self.world.now();
        let statistics = self.world.take_statistics();
        let processes = self
            .slots
            .into_iter()
            .zip(&self.world.clocks)
            .filter_map(|(slot, clock)| {
                let (output, ended) = slot.done?;
                Some(Done {
                    output,
                    ended,
                    accounts: clock.accounts,
                    in_vain: clock.in_vain,
                })
            })
            .collect();
        Outcome {
            processes,
            ended,
            events: self.world.engine.handled(),
            tlb_misses: self.substrate.tlb_misses(),
            journeys: self.world.journeys,
            statistics,
            interrupted: self
                .world
                .hosts
                .iter()
                .map(|host| host.interrupted())
                .collect(),
        }
    }
}
