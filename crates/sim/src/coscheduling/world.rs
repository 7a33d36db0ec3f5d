//! The running platform: nodes that dispatch threads, and messages between them.
//!
//! Spinning is computed, not stepped: a thread that spins has no events but the end of its quantum,
//! the end of its spin limit, and the awaited message. Ticks are computed too; there is one only
//! where something changes.

use causeway_cosched::{Action, Actions, Arrival, Pick, Settings};

use super::costs::Costs;
use super::node::{Counts, Node};
use super::programs::{NODES, Op, Program};
use super::thread::{Activity, Then, Thread, Wanted};
use crate::engine::{Engine, NANOSECOND, SECOND, Time, duration_at};
use crate::workloads::random::Random;

/// Longer than any job of the thesis takes.
const LONGEST: Time = 40_000 * SECOND;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A job's process begins.
    Begin { node: u8, thread: u16 },
    /// The running thread's work is done, or its spin limit has passed.
    Piece { node: u8, piece: u32 },
    /// The running thread's quantum has ended.
    Quantum { node: u8, quantum: u32 },
    /// A tick at which a higher thread takes over.
    Tick { node: u8 },
    /// Threads are raised.
    Raise { node: u8 },
    /// The driver's periodic function.
    Period { node: u8 },
    /// A message has arrived.
    Arrive { node: u8, thread: u16, from: u8 },
    /// There may be room for a message.
    Room { node: u8, thread: u16 },
    /// The card interrupts.
    Interrupt { node: u8, thread: u16 },
    /// A sleep ends.
    Awake { node: u8, thread: u16 },
    /// The shares of the processor are noted.
    Probe,
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutcome {
    /// When its first process began.
    pub began: Time,
    /// When its last process ended.
    pub ended: Time,
    /// Processor time of all its processes.
    pub cpu: Time,
    /// The part of that time that was spent spinning.
    pub spun: Time,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Each job's.
    pub jobs: Vec<JobOutcome>,
    /// Sums over the nodes.
    pub counts: Counts,
    /// The time of each probe, and each job's share of the first node's processor since the probe before, from 0 to 1.
    pub shares: Vec<(Time, Vec<f64>)>,
    /// Intervals between probes in which all processes were there.
    pub shared_intervals: u64,
    /// Each job's mean share of each node's processor in these intervals: the first node's jobs, then the second's and so on.
    pub shares_of_nodes: Vec<f64>,
    /// The number of events that were handled.
    pub events: u64,
}

impl Outcome {
    /// From the first process's beginning to the last one's end (§6.2.1).
    pub fn completion(&self) -> Time {
        let began = self.jobs.iter().map(|job| job.began).min();
        let ended = self.jobs.iter().map(|job| job.ended).max();
        ended.unwrap_or(0) - began.unwrap_or(0)
    }
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct Experiment<'a> {
    /// The costs.
    pub costs: &'a Costs,
    /// The strategy and its times.
    pub settings: Settings,
    /// The jobs.
    pub jobs: &'a [Program],
    /// Determines beginnings, phases and imbalances.
    pub seed: u64,
    /// How often shares are noted; `None` for never.
    pub probe: Option<Time>,
}

/// Why a run has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DidNotEnd {
    /// The run took too long.
    #[error("jobs have not ended after {} s", LONGEST / SECOND)]
    TooLong,
}

struct World<'a> {
    costs: &'a Costs,
    settings: Settings,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    outcome: Outcome,
    /// Processes that have not ended.
    left: usize,
    probe: Option<Time>,
    /// Each job's processor time on each node at the last probe, in the order of [`Outcome::shares_of_nodes`].
    probed: Vec<Time>,
    /// All processes were there at the last probe.
    were_there: bool,
}

/// Runs an experiment.
pub fn run(experiment: &Experiment<'_>) -> Result<Outcome, DidNotEnd> {
    let mut world = World::new(experiment);
    while world.left > 0 {
        let Some(event) = world.engine.next() else {
            break;
        };
        if world.engine.now() > LONGEST {
            return Err(DidNotEnd::TooLong);
        }
        world.handle(event);
    }
    Ok(world.finish())
}

impl<'a> World<'a> {
    fn new(experiment: &Experiment<'a>) -> Self {
        let Experiment { costs, jobs, .. } = *experiment;
        let settings = experiment.settings;
        let daemon = daemon(costs);
        let node = |number: usize| {
            let programs = jobs.iter().chain([&daemon]).enumerate();
            let threads = programs
                .map(|(place, job)| {
                    let seed = experiment.seed ^ (((place + 1) << 32 | number) as u64);
                    Thread::new(job.script(number, seed), &settings)
                })
                .collect();
            Node::new(costs, &settings, threads)
        };
        let mut world = Self {
            costs,
            settings,
            engine: Engine::new(),
            nodes: (0..NODES).map(node).collect(),
            outcome: Outcome::default(),
            left: 0,
            probe: experiment.probe,
            probed: vec![0; NODES * jobs.len()],
            were_there: false,
        };
        world.begin_jobs(jobs.len(), &mut Random::new(experiment.seed));
        world
    }

    /// Schedules the beginnings of processes and all recurring events, each at a time of its own.
    fn begin_jobs(&mut self, jobs: usize, random: &mut Random) {
        let host = self.costs.host;
        self.outcome.jobs = vec![JobOutcome::default(); jobs];
        for thread in 0..jobs {
            let job_begins = random.below(host.job_skew);
            let began = &mut self.outcome.jobs[thread].began;
            *began = Time::MAX;
            for number in 0..NODES {
                if self.nodes[number].threads[thread].script.is_none() {
                    continue;
                }
                let at = job_begins + random.below(host.process_skew);
                let (node, thread) = (number as u8, thread as u16);
                self.engine.at(at, Event::Begin { node, thread });
                *began = at.min(*began);
                self.left += 1;
            }
        }
        for number in 0..NODES {
            let node = number as u8;
            self.nodes[number].phase = random.below(host.tick);
            self.nodes[number].clock_ahead = random.below(host.clock_error);
            let begins = random.below(host.daemon_interval);
            let thread = jobs as u16;
            self.engine.at(begins, Event::Begin { node, thread });
            self.engine
                .at(random.below(host.raise), Event::Raise { node });
            let strategy = self.settings.strategy;
            if strategy.is_periodic() {
                let period = self.settings.period_ns * NANOSECOND;
                let shares_clock = strategy.arrival == Arrival::Periodic(Pick::Share);
                let first = match shares_clock {
                    true => period - self.nodes[number].clock_ahead,
                    false => random.below(period),
                };
                self.engine.at(first, Event::Period { node });
            }
        }
        for node in &mut self.nodes {
            let slow = random.below(2 * host.drift + 1);
            node.timer_slow = slow.cast_signed() - host.drift.cast_signed();
        }
        if let Some(interval) = self.probe {
            self.engine.at(interval, Event::Probe);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin { node, thread } => self.begin(node, thread),
            Event::Piece { node, piece } => self.piece_ends(node, piece),
            Event::Quantum { node, quantum } => self.quantum_ends(node, quantum),
            Event::Tick { node } => self.tick(node),
            Event::Raise { node } => self.raise(node),
            Event::Period { node } => self.period(node),
            Event::Arrive { node, thread, from } => self.arrive(node, thread, from),
            Event::Room { node, thread } => self.room(node, thread),
            Event::Interrupt { node, thread } => self.interrupt(node, thread),
            Event::Awake { node, thread } => self.device_done(node, thread),
            Event::Probe => self.note_shares(),
        }
    }

    fn node(&mut self, node: u8) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    fn thread(&mut self, node: u8, thread: u16) -> &mut Thread {
        &mut self.nodes[usize::from(node)].threads[usize::from(thread)]
    }

    fn is_job(&self, thread: u16) -> bool {
        usize::from(thread) < self.outcome.jobs.len()
    }

    // Handlers of events.

    fn begin(&mut self, node: u8, thread: u16) {
        self.next_op(node, thread);
        self.node(node).dispatcher.begin(thread);
        self.preempt_if_outranked(node);
    }

    fn piece_ends(&mut self, node: u8, piece: u32) {
        if self.node(node).piece != piece {
            return;
        }
        self.account(node);
        self.work_ends(node);
    }

    fn quantum_ends(&mut self, node: u8, quantum: u32) {
        if self.node(node).quantum != quantum {
            return;
        }
        self.leave(node);
        self.node(node).dispatcher.expire();
        self.dispatch(node);
    }

    fn tick(&mut self, node: u8) {
        self.node(node).is_preempting = false;
        if self.node(node).dispatcher.is_outranked() {
            self.leave(node);
            self.node(node).dispatcher.preempt();
            self.dispatch(node);
        }
    }

    fn raise(&mut self, node: u8) {
        let raise = self.costs.host.raise;
        let raise = self.node(node).interval(raise);
        self.account(node);
        self.node(node).dispatcher.raise();
        self.plan_quantum(node);
        self.engine.after(raise, Event::Raise { node });
    }

    fn period(&mut self, node: u8) {
        let period = self.settings.period_ns * NANOSECOND;
        let period = match self.settings.strategy.arrival {
            // Its clock is kept right by a time protocol.
            Arrival::Periodic(Pick::Share) => period,
            _ => self.node(node).interval(period),
        };
        self.engine.after(period, Event::Period { node });
        let endpoints = self.node(node).jobs as u64;
        let host = self.costs.host;
        let look = match self.settings.strategy.arrival {
            Arrival::Periodic(Pick::Newest) => host.look + host.look_for_newest,
            _ => host.look,
        };
        self.steal(node, look * endpoints);
        let now = self.engine.now();
        let of = self.node(node);
        let clock = (now + of.clock_ahead) / NANOSECOND;
        let views = of.views();
        let actions = of.driver.period(clock, &views);
        if of.dispatcher.running().is_some() && actions.into_iter().next().is_some() {
            self.leave(node);
            self.node(node).dispatcher.preempt();
        }
        self.carry_out(node, actions);
    }

    fn interrupt(&mut self, node: u8, thread: u16) {
        self.steal(node, self.costs.host.interrupt);
        let of = self.node(node);
        of.counts.interrupts += 1;
        let views = of.views();
        let actions = of.driver.interrupt(thread, &views);
        self.carry_out(node, actions);
    }

    fn device_done(&mut self, node: u8, thread: u16) {
        if self.thread(node, thread).doing == Activity::Asleep {
            // The script continues, or ends, when the thread runs.
            self.thread(node, thread).doing = Activity::Piece(0, Then::Next);
            self.node(node).dispatcher.wake(thread);
            self.preempt_if_outranked(node);
        }
    }

    fn arrive(&mut self, node: u8, thread: u16, from: u8) {
        let now = self.engine.now();
        let sample = self.costs.messages.sample;
        let of = self.node(node);
        let is_running = of.dispatcher.running() == Some(thread);
        let known = &mut of.threads[usize::from(thread)];
        known.inbox[usize::from(from)] += 1;
        known.pending[usize::from(from)] += 1;
        of.sample(now, sample);
        let wants_interrupt = of.card.arrived(now / NANOSECOND, thread);
        let spins = matches!(of.threads[usize::from(thread)].doing, Activity::Spin(..));
        if wants_interrupt {
            let delay = self.costs.host.interrupt_delay;
            self.engine.after(delay, Event::Interrupt { node, thread });
        }
        if is_running && spins {
            self.account(node);
            self.resume(node);
        }
    }

    fn room(&mut self, node: u8, thread: u16) {
        if self.node(node).dispatcher.running() == Some(thread) {
            self.account(node);
            self.resume(node);
        }
    }

    fn note_shares(&mut self) {
        let Some(interval) = self.probe else { return };
        let now = self.engine.now();
        let jobs = self.outcome.jobs.len();
        for node in 0..NODES as u8 {
            self.account(node);
        }
        let threads = self.nodes.iter().flat_map(|node| &node.threads[..jobs]);
        let shares: Vec<f64> = threads
            .zip(&mut self.probed)
            .map(|(thread, probed)| {
                let had = thread.cpu - *probed;
                *probed = thread.cpu;
                had as f64 / interval as f64
            })
            .collect();
        let of_first = shares.iter().take(jobs).copied().collect();
        self.outcome.shares.push((now, of_first));
        let are_there = self.nodes.iter().all(|node| {
            let mut jobs = node.threads[..jobs].iter().enumerate();
            jobs.all(|(job, thread)| {
                thread.script.is_none() || node.dispatcher.is_there(job as u16)
            })
        });
        if are_there && self.were_there {
            self.outcome.shared_intervals += 1;
            self.outcome.shares_of_nodes.resize(shares.len(), 0.0);
            for (sum, share) in self.outcome.shares_of_nodes.iter_mut().zip(shares) {
                *sum += share;
            }
        }
        self.were_there = are_there;
        self.engine.after(interval, Event::Probe);
    }

    // The processor.

    fn account(&mut self, node: u8) {
        let now = self.engine.now();
        self.node(node).account(now);
    }

    /// Notes that the running thread is about to leave the processor.
    fn leave(&mut self, node: u8) {
        let now = self.engine.now();
        let sample = self.costs.messages.sample;
        let of = self.node(node);
        of.account(now);
        of.note_running(now, sample);
        of.piece += 1;
        of.quantum += 1;
    }

    /// Takes `time` from the running thread.
    fn steal(&mut self, node: u8, time: Time) {
        self.account(node);
        let now = self.engine.now();
        let of = self.node(node);
        of.since = of.since.max(now) + time;
        self.resume(node);
    }

    /// Lets the next thread run, if none is running.
    fn dispatch(&mut self, node: u8) {
        let now = self.engine.now();
        let (switch, sample) = (self.costs.host.switch, self.costs.messages.sample);
        let of = self.node(node);
        of.note_running(now, sample);
        let Some(thread) = of.dispatcher.dispatch() else {
            return;
        };
        of.since = of.since.max(now);
        if of.last != Some(thread) {
            of.since += switch;
            of.counts.switches += 1;
            of.last = Some(thread);
        }
        self.plan_quantum(node);
        self.resume(node);
    }

    /// Schedules the end of the running thread's quantum.
    fn plan_quantum(&mut self, node: u8) {
        let tick = self.costs.host.tick;
        let of = self.node(node);
        of.quantum += 1;
        let quantum = of.quantum;
        if let Some(running) = of.dispatcher.running() {
            let end = of.since + of.dispatcher.left(running);
            let at = of.tick(end, tick);
            self.engine.at(at, Event::Quantum { node, quantum });
        }
    }

    /// Schedules the end of the running thread's present step, from now on; the message for which
    /// it spins may have arrived.
    fn resume(&mut self, node: u8) {
        let of = self.node(node);
        of.piece += 1;
        let (piece, since) = (of.piece, of.since);
        let Some(running) = of.dispatcher.running() else {
            return;
        };
        self.poll_endpoint(node, running);
        let ends = match self.thread(node, running).doing {
            Activity::Piece(left, _) | Activity::Spin(_, Some(left)) => since + left,
            _ => return,
        };
        self.engine.at(ends, Event::Piece { node, piece });
    }

    /// Takes the endpoint's messages for a spinning thread; if the awaited one is among them, it
    /// continues.
    fn poll_endpoint(&mut self, node: u8, thread: u16) {
        let Activity::Spin(wanted, _) = self.thread(node, thread).doing else {
            return;
        };
        self.drain(node, thread);
        let (window, receive) = (self.costs.messages.window, self.costs.messages.receive);
        let known = self.thread(node, thread);
        match wanted {
            Wanted::Message(from) | Wanted::Endless(from) => {
                let waiting = &mut known.inbox[usize::from(from)];
                if *waiting > 0 {
                    *waiting -= 1;
                    known.waiter.received();
                    known.has_blocked = false;
                    known.doing = Activity::Piece(receive, Then::Next);
                }
            }
            Wanted::Room(to, bytes) => {
                if known.outstanding[usize::from(to)] < window {
                    known.doing = Activity::Piece(0, Then::HandOver(to, bytes));
                }
            }
        }
    }

    /// Takes all messages from the endpoint for the library, which makes room for others.
    fn drain(&mut self, node: u8, thread: u16) {
        if !self.thread(node, thread).has_pending() {
            return;
        }
        let transit = self.costs.messages.transit;
        for from in 0..NODES {
            let known = self.thread(node, thread);
            let taken = std::mem::take(&mut known.pending[from]);
            if taken == 0 {
                continue;
            }
            let sender = self.thread(from as u8, thread);
            let room = &mut sender.outstanding[usize::from(node)];
            *room = room.saturating_sub(taken);
            if matches!(sender.doing, Activity::Spin(Wanted::Room(to, _), _) if to == node) {
                let node = from as u8;
                self.engine.after(transit, Event::Room { node, thread });
            }
        }
    }

    /// Handles the end of the running thread's work, or of its spin limit.
    fn work_ends(&mut self, node: u8) {
        let Some(running) = self.node(node).dispatcher.running() else {
            return;
        };
        match self.thread(node, running).doing {
            Activity::Piece(_, Then::Next) => self.next_or_end(node, running),
            Activity::Piece(_, Then::HandOver(to, bytes)) => {
                self.hand_over(node, running, to, bytes)
            }
            Activity::Piece(_, Then::Sleep(time)) => {
                self.thread(node, running).doing = Activity::Asleep;
                self.engine.after(
                    time,
                    Event::Awake {
                        node,
                        thread: running,
                    },
                );
                self.block(node);
            }
            Activity::Piece(_, Then::SpinExpired) => self.spin_expired(node, running),
            Activity::Spin(wanted, _) => self.call_driver(node, running, wanted),
            Activity::Blocked(_) | Activity::Asleep | Activity::Gone => {}
        }
    }

    fn next_or_end(&mut self, node: u8, thread: u16) {
        match self.next_op(node, thread) {
            true => self.resume(node),
            false => {
                self.leave(node);
                self.node(node).dispatcher.end();
                if self.is_job(thread) {
                    self.left -= 1;
                    let now = self.engine.now();
                    let job = &mut self.outcome.jobs[usize::from(thread)];
                    job.ended = job.ended.max(now);
                }
                self.dispatch(node);
            }
        }
    }

    /// Continues with the script's next step. Returns whether there is one.
    fn next_op(&mut self, node: u8, thread: u16) -> bool {
        let messages = self.costs.messages;
        let known = self.thread(node, thread);
        match known.script.as_mut().and_then(Iterator::next) {
            Some(Op::Wait(from)) if messages.waits_give_up => {
                known.start(Op::Receive(from), messages.send);
            }
            Some(Op::Collect(from)) if messages.collectives_give_up => {
                known.start(Op::Receive(from), messages.send);
            }
            Some(op) => known.start(op, messages.send),
            None => known.doing = Activity::Gone,
        }
        known.doing != Activity::Gone
    }

    // Messages.

    fn hand_over(&mut self, node: u8, thread: u16, to: u8, bytes: u32) {
        let window = self.costs.messages.window;
        let known = self.thread(node, thread);
        if window > 0 && known.outstanding[usize::from(to)] >= window {
            known.spin(Wanted::Room(to, bytes));
            self.resume(node);
            return;
        }
        known.outstanding[usize::from(to)] += 1;
        self.send(node, thread, to, bytes);
        self.next_or_end(node, thread);
    }

    /// Sends a message from card to card. One card sends and receives one message at a time.
    fn send(&mut self, node: u8, thread: u16, to: u8, bytes: u32) {
        let messages = self.costs.messages;
        let now = self.engine.now();
        let moving = duration_at(u64::from(bytes), messages.rate);
        let egress = &mut self.node(node).egress_until;
        let leaves = now.max(*egress);
        *egress = leaves + moving;
        let mut arrives = leaves + messages.transit + moving;
        if self.settings.strategy.needs_running() {
            arrives += messages.compare;
            // The card does nothing else while it fetches which process the host runs.
            let within = arrives % messages.sample;
            arrives += messages.sample_work.saturating_sub(within);
        }
        let ingress = &mut self.node(to).ingress_until;
        arrives = arrives.max(*ingress + moving);
        *ingress = arrives;
        let (from, node) = (node, to);
        self.engine
            .at(arrives, Event::Arrive { node, thread, from });
    }

    // The strategy.

    /// Handles a spin that has expired: the thread calls the driver, which registers its endpoint with the card and then decides.
    fn call_driver(&mut self, node: u8, thread: u16, wanted: Wanted) {
        let call = self.costs.host.driver_call;
        let known = self.thread(node, thread);
        known.waiter.spin_expired();
        known.wanted = Some(wanted);
        known.doing = Activity::Piece(call, Then::SpinExpired);
        self.resume(node);
    }

    fn spin_expired(&mut self, node: u8, thread: u16) {
        let gives_up_without_any = self.costs.times.gives_up_without_any;
        let of = self.node(node);
        let blocks = of.threads[usize::from(thread)].waiter.blocks();
        if blocks {
            of.card.register(thread);
        }
        let mut views = of.views();
        if gives_up_without_any && of.threads[usize::from(thread)].has_unreceived() {
            views[usize::from(thread)].has_pending = true;
        }
        let actions = of.driver.spin_expired(thread, &views);
        if let Some(wanted) = of.threads[usize::from(thread)].wanted.take() {
            of.threads[usize::from(thread)].spin(wanted);
        }
        let is_blocked = actions
            .into_iter()
            .any(|action| action == Action::Block(thread));
        if blocks && !is_blocked {
            of.card.unregister(thread);
        }
        self.carry_out(node, actions);
        self.return_from_driver(node);
    }

    fn carry_out(&mut self, node: u8, actions: Actions) {
        for action in actions {
            match action {
                Action::Boost(thread) => self.boost(node, thread),
                Action::Lower(thread) => self.lower(node, thread),
                Action::Block(thread) => {
                    let of = self.node(node);
                    of.counts.blocks += 1;
                    let known = &mut of.threads[usize::from(thread)];
                    if let Activity::Spin(wanted, _) = known.doing {
                        known.has_blocked = true;
                        known.doing = Activity::Blocked(wanted);
                        self.block(node);
                    }
                }
                Action::Wake(thread) => {
                    let of = self.node(node);
                    of.card.unregister(thread);
                    let known = &mut of.threads[usize::from(thread)];
                    if let Activity::Blocked(wanted) = known.doing {
                        known.spin(wanted);
                        of.dispatcher.wake(thread);
                    }
                }
            }
        }
        self.preempt_if_outranked(node);
    }

    fn boost(&mut self, node: u8, thread: u16) {
        self.account(node);
        let of = self.node(node);
        of.counts.boosts += 1;
        of.dispatcher.boost(thread);
        if of.dispatcher.running() == Some(thread) {
            self.plan_quantum(node);
        }
    }

    fn lower(&mut self, node: u8, thread: u16) {
        let of = self.node(node);
        let level = of.level_below(thread);
        of.dispatcher.lower(thread, level);
        if of.dispatcher.running() == Some(thread) {
            self.plan_quantum(node);
        }
    }

    /// Returns from the driver to a thread whose spin had expired; if that is no longer the highest, another one runs.
    fn return_from_driver(&mut self, node: u8) {
        if self.node(node).dispatcher.is_outranked() {
            self.leave(node);
            self.node(node).dispatcher.move_behind();
            self.dispatch(node);
        }
        self.resume(node);
    }

    fn block(&mut self, node: u8) {
        self.leave(node);
        self.node(node).dispatcher.block();
        self.dispatch(node);
    }

    /// If a thread is higher than the running one, it takes over with the next tick; at once, if none is running.
    fn preempt_if_outranked(&mut self, node: u8) {
        let now = self.engine.now();
        let tick = self.costs.host.tick;
        let of = self.node(node);
        if of.dispatcher.running().is_none() {
            self.dispatch(node);
        } else if of.dispatcher.is_outranked() && !of.is_preempting {
            of.is_preempting = true;
            let at = of.tick(now, tick);
            self.engine.at(at, Event::Tick { node });
        }
    }

    fn finish(mut self) -> Outcome {
        for node in &self.nodes {
            for (job, thread) in self.outcome.jobs.iter_mut().zip(&node.threads) {
                job.cpu += thread.cpu;
                job.spun += thread.spun;
            }
            let counts = &mut self.outcome.counts;
            counts.switches += node.counts.switches;
            counts.interrupts += node.counts.interrupts;
            counts.boosts += node.counts.boosts;
            counts.blocks += node.counts.blocks;
        }
        for share in &mut self.outcome.shares_of_nodes {
            *share /= self.outcome.shared_intervals as f64;
        }
        self.outcome.events = self.engine.handled();
        self.outcome
    }
}

/// Other activity on a node: a little work at intervals.
fn daemon(costs: &Costs) -> Program {
    let ops = vec![
        Op::Compute(costs.host.daemon_work),
        Op::Sleep(costs.host.daemon_interval),
    ];
    Program::new("daemon", vec![ops; NODES], u32::MAX, 0)
}
