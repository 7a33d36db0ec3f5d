//! Many virtual interfaces, of which some are used (thesis, §4.3.1).
//!
//! Each node runs one process on each of its processors. Each process has a virtual interface to
//! one process on every other node; process *p* of node *i* reaches node *i + k* by its interface
//! *k − 1*, whose other end is interface *N − k − 1* there. Nodes are thus alike except for their
//! numbers: a frame that leaves a node by some interface arrives by the interface's mirror image on
//! all nodes at once. A cluster can therefore be represented by one node whose interfaces are
//! connected to their own mirror images ([`Extent::Representative`]), which a test checks against
//! whole clusters. Processes with fewer neighbours ([`Peers::Some`]) have the first and the last of
//! these interfaces, and the middle one.

use std::cell::RefCell;
use std::rc::Rc;

use causeway_firmware::{Settings, Side};

use super::random::Random;
use super::{Keep, LONGEST, RunError, check};
use crate::engine::{MICROSECOND, Time};
use crate::node::{Action, Await, Completed, Plan, Process, Queues, Record, ViPlan, World};
use crate::profile::Profile;
use crate::statistics::Histogram;

/// Processes of a node, one on each processor (§4.3.1).
pub const PROCESSES: usize = 4;

/// The number of a node's interfaces, and how they are used.
#[derive(Clone, Debug)]
pub struct Load {
    /// Nodes of the cluster, at least 2 and even.
    pub nodes: usize,
    /// Other nodes to which each process has an interface; the thesis's clusters have one to every other node.
    pub peers: Peers,
    /// Pattern of use.
    pub kind: Kind,
    /// Bytes of a message.
    pub bytes: u32,
    /// The order in which a process uses its interfaces (§4.2.5).
    pub order: Order,
    /// Messages on each interface before the process waits: 1, or more for type IV.
    pub burst: u32,
    /// Whether completions are reported by a completion queue.
    pub completion_queue: bool,
    /// Rounds that are measured.
    pub rounds: u32,
    /// The nodes that are simulated.
    pub extent: Extent,
    /// The seed of random numbers (type I).
    pub seed: u64,
}

/// The nodes that a node has interfaces to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All other nodes.
    All,
    /// This many, half of them the next in the order of nodes and half the previous, and the
    /// opposite one if the number is odd: for clusters of thousands of nodes, in which a process
    /// communicates with a few others.
    Some(usize),
}

/// The order in which a process uses its interfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As they were set up, in the order in which the card polls them.
    #[default]
    Ascending,
    /// In reverse order.
    Descending,
    /// In steps of this many, then again from the next one on.
    Strided(u32),
    /// In random order, the same in every round.
    Random,
}

impl Order {
    /// Puts interfaces into this order.
    fn apply(self, mut vis: Vec<u32>, seed: u64) -> Vec<u32> {
        match self {
            Self::Ascending => {}
            Self::Descending => vis.reverse(),
            Self::Strided(stride) => {
                let mut places: Vec<usize> = (0..vis.len()).collect();
                let stride = stride.max(1) as usize;
                places.sort_by_key(|place| (place % stride, *place));
                vis = places.into_iter().map(|place| vis[place]).collect();
            }
            Self::Random => {
                let mut random = Random::new(seed);
                for place in (1..vis.len()).rev() {
                    vis.swap(place, random.below(place as u64 + 1) as usize);
                }
            }
        }
        vis
    }
}

/// Types I to IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One interface at a time, chosen anew by chance (type I).
    OneOfAll,
    /// This many of the node's interfaces, or all if it has fewer (types II to IV).
    Active(usize),
}

/// The nodes that are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One, connected to itself.
    Representative,
    /// All.
    Whole,
}

/// The result of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Mean time from posting a send to consuming the message that arrived on the same interface.
    pub latency: Time,
    /// Mean time that a message waited in its send queue until its doorbell was noticed.
    pub wait: Time,
    /// The number of measured messages.
    pub messages: u64,
    /// The number of events.
    pub events: u64,
    /// The virtual time at the end.
    pub simulated: Time,
}

impl Load {
    /// The number of a process's interfaces.
    pub fn interfaces(&self) -> usize {
        match self.peers {
            Peers::All => self.nodes.saturating_sub(1),
            Peers::Some(peers) => peers,
        }
    }

    /// By how many nodes the other end of a process's interface is ahead.
    fn ahead(&self, interface: usize) -> usize {
        let interfaces = self.interfaces();
        let from_end = interfaces - interface;
        match interface < from_end {
            true if interface + 1 == from_end => self.nodes / 2,
            true => interface + 1,
            false => self.nodes - from_end,
        }
    }
}

#[derive(Default)]
struct Sum {
    latency: Time,
    messages: u64,
    /// The distribution, if it is wanted.
    latencies: Option<Histogram>,
}

impl Sum {
    fn add(&mut self, latency: Time) {
        self.latency = self.latency.saturating_add(latency);
        self.messages += 1;
        if let Some(latencies) = &mut self.latencies {
            latencies.add(latency);
        }
    }
}

/// The active interfaces of a process: as many as wanted, evenly spread, each with its mirror image.
fn active(of: usize, count: usize) -> Vec<u32> {
    let count = count.min(of).max(1);
    let (pairs, middle) = (count / 2, (of - 1) / 2);
    let mut used: Vec<usize> = (0..pairs)
        .map(|pair| pair * middle.max(1) / pairs)
        .collect();
    if count % 2 == 1 {
        used.push(middle);
    }
    used.extend((0..pairs).map(|pair| of - 1 - pair * middle.max(1) / pairs));
    used.sort_unstable();
    used.dedup();
    used.into_iter().map(|vi| vi as u32).collect()
}

/// The step of a process of an experiment: `i` counts messages of the round, or descriptors while preparing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Posts receives for two rounds, as a peer may be one round ahead.
    Prepare(u32),
    /// Begins a round.
    Begin,
    Send(u32),
    Receive(u32),
    Repost(u32),
    Reap(u32),
    /// Consumes entries of the completion queue; this many are still to come.
    Queue(u32),
}

/// Rounds before measuring.
const WARM_UP: u32 = 3;

/// Sends on all its active interfaces, then receives on all of them (types II to IV).
struct Exchange {
    vis: Vec<u32>,
    load: Load,
    phase: Phase,
    round: u32,
    /// When each message of the round was posted, and how many replies have arrived, by interface.
    sent_at: Vec<Time>,
    replies: Vec<u32>,
    start: Time,
    sum: Rc<RefCell<Sum>>,
}

impl Exchange {
    fn total(&self) -> u32 {
        self.vis.len() as u32 * self.load.burst
    }

    fn vi(&self, message: u32) -> u32 {
        self.vis[(message / self.load.burst) as usize]
    }

    fn post(&self, message: u32, side: Side) -> Action {
        Action::Post {
            vi: self.vi(message),
            side,
            bytes: self.load.bytes,
        }
    }

    fn note(&mut self, now: Time, message: u32) {
        if self.round >= WARM_UP {
            let latency = now - self.sent_at[message as usize];
            self.sum.borrow_mut().add(latency);
        }
    }

    /// Handles an entry of the completion queue.
    fn entry(&mut self, now: Time, completed: Completed) -> Option<Action> {
        if completed.side == Side::Send {
            return None;
        }
        let place = self.vis.iter().position(|vi| *vi == completed.vi)?;
        let reply = self.replies[place] % self.load.burst;
        self.replies[place] += 1;
        let message = place as u32 * self.load.burst + reply;
        self.note(now, message);
        Some(self.post(message, Side::Receive))
    }
}

impl Process for Exchange {
    fn next(&mut self, now: Time, mut completed: Option<Completed>) -> Action {
        let total = self.total();
        loop {
            match self.phase {
                Phase::Prepare(i) if i < 2 * total => {
                    self.phase = Phase::Prepare(i + 1);
                    return self.post(i % total, Side::Receive);
                }
                Phase::Prepare(_) => {
                    self.phase = Phase::Begin;
                    return Action::SleepUntil(self.start);
                }
                Phase::Begin if self.round == WARM_UP + self.load.rounds => return Action::End,
                Phase::Begin => self.phase = Phase::Send(0),
                Phase::Send(i) => {
                    self.sent_at[i as usize] = now;
                    self.phase = match (i + 1 < total, self.load.completion_queue) {
                        (true, _) => Phase::Send(i + 1),
                        (false, true) => Phase::Queue(2 * total),
                        (false, false) => Phase::Receive(0),
                    };
                    return self.post(i, Side::Send);
                }
                Phase::Receive(i) => {
                    self.phase = Phase::Repost(i);
                    return Action::Await(Await::One(self.vi(i), Side::Receive));
                }
                Phase::Repost(i) => {
                    self.note(now, i);
                    self.phase = Phase::Reap(i);
                    return self.post(i, Side::Receive);
                }
                Phase::Reap(i) => {
                    self.phase = match i + 1 < total {
                        true => Phase::Receive(i + 1),
                        false => Phase::Begin,
                    };
                    self.round += u32::from(i + 1 == total);
                    return Action::Await(Await::One(self.vi(i), Side::Send));
                }
                Phase::Queue(left) => {
                    let entry = completed.take();
                    if let Some(post) = entry.and_then(|entry| self.entry(now, entry)) {
                        return post;
                    }
                    if left > 0 {
                        self.phase = Phase::Queue(left - 1);
                        return Action::Await(Await::Queue);
                    }
                    self.round += 1;
                    self.phase = Phase::Begin;
                }
            }
        }
    }
}

/// Sends on a random interface, then waits for a message on any (type I).
struct OneOfAll {
    load: Load,
    interfaces: u32,
    random: Random,
    phase: OnePhase,
    chosen: u32,
    round: u32,
    sent_at: Time,
    start: Time,
    sum: Rc<RefCell<Sum>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnePhase {
    Prepare(u32),
    Send,
    /// The message or the completion of the send, or both, are still to come.
    Wait {
        message: bool,
        reap: bool,
    },
}

impl OneOfAll {
    fn post(&self, vi: u32, side: Side) -> Action {
        let bytes = self.load.bytes;
        Action::Post { vi, side, bytes }
    }
}

impl Process for OneOfAll {
    fn next(&mut self, now: Time, completed: Option<Completed>) -> Action {
        if let (Some(completed), OnePhase::Wait { message, reap }) = (completed, self.phase) {
            if completed.side == Side::Receive {
                self.phase = OnePhase::Wait {
                    message: false,
                    reap,
                };
                if self.round >= WARM_UP {
                    self.sum.borrow_mut().add(now - self.sent_at);
                }
                return self.post(completed.vi, Side::Receive);
            }
            self.phase = OnePhase::Wait {
                message,
                reap: false,
            };
        }
        match self.phase {
            OnePhase::Prepare(i) if i < 2 * self.interfaces => {
                self.phase = OnePhase::Prepare(i + 1);
                self.post(i % self.interfaces, Side::Receive)
            }
            OnePhase::Prepare(_) => {
                self.phase = OnePhase::Send;
                Action::SleepUntil(self.start)
            }
            OnePhase::Wait {
                message: false,
                reap: false,
            } => {
                self.round += 1;
                self.phase = OnePhase::Send;
                self.next(now, None)
            }
            OnePhase::Send if self.round == WARM_UP + self.load.rounds => Action::End,
            OnePhase::Send => {
                self.chosen = self.random.below(u64::from(self.interfaces)) as u32;
                self.sent_at = now;
                self.phase = OnePhase::Wait {
                    message: true,
                    reap: true,
                };
                self.post(self.chosen, Side::Send)
            }
            OnePhase::Wait { .. } if self.load.completion_queue => Action::Await(Await::Queue),
            OnePhase::Wait { message: true, .. } => Action::Await(Await::AnyReceive),
            OnePhase::Wait { .. } => Action::Await(Await::One(self.chosen, Side::Send)),
        }
    }
}

/// Time in which a card is sure to take up one receive doorbell while processes prepare.
const PREPARE_EACH: Time = 40 * MICROSECOND;

/// Runs `load` on cards of these settings.
pub fn run(profile: &Profile, settings: &Settings, load: &Load) -> Result<Outcome, RunError> {
    recorded(profile, settings, load, Keep::Sums).map(|(outcome, _)| outcome)
}

/// The same, with the records of the run.
pub fn recorded(
    profile: &Profile,
    settings: &Settings,
    load: &Load,
    keep: Keep,
) -> Result<(Outcome, Record), RunError> {
    let (mut world, mut sum, start) = build(profile, settings, load)?;
    keep.begin(&mut world, start);
    sum.borrow_mut().latencies = (keep != Keep::Sums).then(Histogram::default);
    let ended = match keep {
        Keep::Sums => world.run_by_windows(LONGEST, shortest_frame(load, settings)),
        Keep::Statistics | Keep::Slices => Some(world.run(LONGEST)),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            (world, sum, _) = build(profile, settings, load)?;
            world.run(LONGEST)
        }
    };
    check(ended, &world.record)?;
    let mut sum = sum.borrow_mut();
    if let Some(statistics) = &mut world.record.statistics {
        statistics.flows.extend(sum.latencies.take());
    }
    Ok((outcome(&world, &sum)?, world.record))
}

fn outcome(world: &World, sum: &Sum) -> Result<Outcome, RunError> {
    let sums = &world.record.sums;
    if sum.messages == 0 {
        return Err(RunError::Empty("no rounds"));
    }
    Ok(Outcome {
        latency: sum.latency / sum.messages,
        wait: sums.send_wait / sums.sends_noticed.max(1),
        messages: sum.messages,
        events: world.events_handled(),
        simulated: world.now(),
    })
}

/// The fewest bytes of data that frames have.
fn shortest_frame(load: &Load, settings: &Settings) -> u64 {
    let last = match load.bytes % settings.frame_bytes.max(1) {
        0 => load.bytes.min(settings.frame_bytes),
        rest => rest,
    };
    u64::from(last)
}

/// Builds the world of `load`.
fn build(
    profile: &Profile,
    settings: &Settings,
    load: &Load,
) -> Result<(World, Rc<RefCell<Sum>>, Time), RunError> {
    if load.nodes < 2 || !load.nodes.is_multiple_of(2) || load.burst == 0 {
        return Err(RunError::Empty(
            "the number of nodes must be even, bursts not empty",
        ));
    }
    let interfaces = load.interfaces();
    if interfaces == 0 || interfaces >= load.nodes {
        return Err(RunError::Empty(
            "each process must know one other node, and at most all",
        ));
    }
    let simulated = match load.extent {
        Extent::Representative => 1,
        Extent::Whole => load.nodes,
    };
    let topology = profile.topology(simulated)?;
    let depth = 2 * load.burst;
    let used = match load.kind {
        Kind::OneOfAll => interfaces,
        Kind::Active(vis) => vis.div_ceil(PROCESSES).min(interfaces),
    };
    let posted = 2 * depth * (PROCESSES * used) as u32;
    let mut settings = settings.clone();
    settings.limits.posted_per_queue = depth.max(2);
    settings.limits.descriptors_per_queue = depth.max(2);
    // What can be in use and no more, as it is memory that a large cluster's cards do not have in a cache: half of what is posted are
    // sends, each with as many frames at a time as it has.
    let frames_each = load.bytes.div_ceil(settings.frame_bytes);
    let frames_each = frames_each.clamp(1, settings.limits.frames_per_message);
    let sending = posted / 2 * frames_each;
    settings.limits.buffers = posted + 32 + sending.min(posted) + 32;
    settings.limits.receive_buffers = posted + 32;
    settings.limits.frames = sending.min(2 * posted) + 64;
    let mut plan = Plan::new(profile.clone(), settings, topology);
    plan.longest_message = load.bytes;
    let queues = match load.completion_queue {
        true => Queues::Both,
        false => Queues::None,
    };
    let sum = Rc::new(RefCell::new(Sum::default()));
    let start = PREPARE_EACH * Time::from(posted);
    for node in 0..simulated {
        for process in 0..PROCESSES {
            match load.kind {
                Kind::OneOfAll => plan.process(node, one_of_all(load, process, start, &sum)),
                Kind::Active(_) => plan.process(node, exchange(load, used, start, &sum)),
            };
            for _ in 0..interfaces {
                plan.vi(ViPlan::new(node, process, depth, queues));
            }
        }
    }
    for node in 0..simulated {
        for process in 0..PROCESSES {
            for vi in 0..interfaces {
                let peer = (node + load.ahead(vi)) % load.nodes % simulated;
                let index = |node: usize, vi: usize| (node * PROCESSES + process) * interfaces + vi;
                let (here, there) = (index(node, vi), index(peer, interfaces - 1 - vi));
                if here <= there {
                    plan.connections.push((here, there));
                }
            }
        }
    }
    Ok((World::new(plan)?, sum, start))
}

fn one_of_all(load: &Load, process: usize, start: Time, sum: &Rc<RefCell<Sum>>) -> OneOfAll {
    OneOfAll {
        interfaces: load.interfaces() as u32,
        // The same choices on every node keep nodes alike.
        random: Random::new(load.seed.wrapping_add(process as u64)),
        phase: OnePhase::Prepare(0),
        chosen: 0,
        round: 0,
        sent_at: 0,
        start,
        sum: sum.clone(),
        load: load.clone(),
    }
}

fn exchange(load: &Load, used: usize, start: Time, sum: &Rc<RefCell<Sum>>) -> Exchange {
    let vis = active(load.interfaces(), used);
    let vis = load.order.apply(vis, load.seed);
    Exchange {
        sent_at: vec![0; vis.len() * load.burst as usize],
        replies: vec![0; vis.len()],
        vis,
        phase: Phase::Prepare(0),
        round: 0,
        start,
        sum: sum.clone(),
        load: load.clone(),
    }
}

#[cfg(test)]
mod tests;
