//! Traffic between all nodes of a cluster: which nodes send to which, how much, and when.
//!
//! Each node has one process with an interface to each node that it may send to. In an open loop it injects messages at a rate
//! that does not depend on their fate. In a closed loop it has a number of requests outstanding: its receiver replies to each, and after
//! a think time the next one is sent. With RDMA, a request is a write to the receiver's memory or a read of it, to which
//! no process replies.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use causeway_firmware::{Settings, Side};
use causeway_wire::vi::Operation;

use super::random::Random;
use super::{Keep, RunError, sound};
use crate::engine::{MICROSECOND, MILLISECOND, SECOND, Time, duration_at};
use crate::node::{
    Action, Await, BuffersPerInterface, Completed, Plan, Process, Queues, Record, ViPlan, World,
};
use crate::profile::Profile;
use crate::statistics::Histogram;

/// The destinations of messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pattern {
    /// To the other nodes one after the other, beginning with the next.
    AllToAll,
    /// To a random other node.
    Uniform,
    /// To the next node.
    Neighbour,
    /// To one node each, and each node from one, at random.
    Permutation,
    /// This many thousandths to node 0, the others to a random node.
    Hotspot(u32),
    /// To node *k* with a probability proportional to 1 / (*k* + 1) to the power of a number of quarters.
    Zipf(u32),
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Each node injects this many bytes per second.
    Open {
        /// Bytes per second, on average.
        rate: u64,
        /// Whether messages are injected at exponentially distributed intervals, or at equal ones.
        is_exponential: bool,
    },
    /// This many requests of each node are outstanding.
    Closed {
        /// The number of requests.
        outstanding: u32,
        /// Time from a reply to the next request, on average.
        think: Time,
        /// Whether it is exponentially distributed, or always the same.
        is_exponential: bool,
        /// Bytes of a reply.
        reply_bytes: u32,
    },
}

/// The distribution of message sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One size.
    Fixed(u32),
    /// Any size from one to another, with equal probability.
    Uniform(u32, u32),
    /// Exponentially distributed of this mean, at least one byte and at most the longest message.
    Exponential(u32),
    /// Any power of two between two sizes with the same chance, and any size between two such.
    LogUniform(u32, u32),
    /// These sizes with their weights.
    Weighted(Vec<(u32, u32)>),
}

/// Longest message.
pub const LONGEST: u32 = 64 << 10;

impl Sizes {
    fn draw(&self, random: &mut Random) -> u32 {
        let between = |random: &mut Random, from: u32, to: u32| {
            from + random.below(u64::from(to - from) + 1) as u32
        };
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform(from, to) => between(random, *from, *to),
            Self::Exponential(mean) => {
                let drawn = random.exponential(u64::from(*mean));
                drawn.clamp(1, u64::from(LONGEST)) as u32
            }
            Self::LogUniform(from, to) => {
                let octaves = to.div_ceil(*from.max(&1)).next_power_of_two().ilog2();
                let low = from << random.below(u64::from(octaves.max(1)));
                between(random, low.min(*to), (2 * low).min(*to))
            }
            Self::Weighted(entries) => {
                let all: u64 = entries.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let mut drawn = random.below(all.max(1));
                for &(bytes, weight) in entries {
                    match drawn.checked_sub(u64::from(weight)) {
                        Some(rest) => drawn = rest,
                        None => return bytes,
                    }
                }
                1
            }
        }
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> u64 {
        let mut random = Random::new(1);
        let draws = 4_096;
        match self {
            Self::Fixed(bytes) => u64::from(*bytes),
            Self::Uniform(from, to) => u64::midpoint(u64::from(*from), u64::from(*to)),
            Self::Weighted(entries) => {
                let all: u64 = entries.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let sum: u64 = entries
                    .iter()
                    .map(|&(bytes, weight)| u64::from(bytes) * u64::from(weight))
                    .sum();
                sum / all.max(1)
            }
            _ => {
                (0..draws)
                    .map(|_| u64::from(self.draw(&mut random)))
                    .sum::<u64>()
                    / draws
            }
        }
    }

    /// The largest that can be drawn.
    fn largest(&self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Uniform(_, to) | Self::LogUniform(_, to) => *to,
            Self::Exponential(_) => LONGEST,
            Self::Weighted(entries) => entries.iter().map(|(bytes, _)| *bytes).max().unwrap_or(1),
        }
    }
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The number of nodes.
    pub nodes: usize,
    /// The destinations.
    pub pattern: Pattern,
    /// The times.
    pub when: Loop,
    /// The sizes.
    pub sizes: Sizes,
    /// Messages, or RDMA.
    pub operation: Operation,
    /// Time from the first injection until measuring.
    pub warm_up: Time,
    /// The measured time.
    pub measured: Time,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Requests, or messages of an open loop, sent in the measured time.
    pub sent: u64,
    /// How many of these and earlier ones got their reply, or were received, in the measured time.
    pub done: u64,
    /// Their bytes, without replies.
    pub bytes: u64,
    /// Bytes that each node has received as a receiver of requests or messages.
    pub received: Vec<u64>,
}

/// Sends of an interface that are posted at a time; others wait in the process.
const SEND_DEPTH: u32 = 16;
/// Receives of an interface that are kept posted.
const RECEIVE_DEPTH: u32 = 32;
/// Time in which a process is certain to have posted a receive and its card to have taken it up.
const PREPARE_EACH: Time = 25 * MICROSECOND;

/// A node's end of a connection. Each node has one to each node that it sends requests to, and one for each node that sends
/// requests to it.
struct Interface {
    peer: usize,
    is_client: bool,
    /// Messages that wait for room: their injection times, `None` for replies, and their bytes.
    waiting: VecDeque<(Option<Time>, u32)>,
    /// The number of sends that are posted and not complete, and of all that have been posted.
    posted: u32,
    number: u32,
}

impl Interface {
    fn new(peer: usize, is_client: bool) -> Self {
        Self {
            peer,
            is_client,
            waiting: VecDeque::new(),
            posted: 0,
            number: 0,
        }
    }
}

/// A message in flight from a client to a server: its number on the connection, when it was injected, and its bytes.
type Pending = VecDeque<(u32, Time, u32)>;

/// The state that all processes of a run share.
struct Shared {
    outcome: Outcome,
    latencies: Histogram,
    /// By client and server.
    pending: Vec<Pending>,
}

/// A node's process.
struct Node {
    number: usize,
    traffic: Rc<Traffic>,
    /// Interfaces; those to servers come first.
    interfaces: Vec<Interface>,
    servers: usize,
    random: Random,
    /// The next server with [`Pattern::AllToAll`].
    turn: usize,
    /// When the next messages are injected.
    due: BinaryHeap<Reverse<Time>>,
    /// Interfaces on which a receive is to be posted.
    repost: VecDeque<u32>,
    start: Time,
    window: (Time, Time),
    shared: Rc<RefCell<Shared>>,
}

/// The weight of a node for [`Pattern::Zipf`]: square roots are the same everywhere, powers are not.
fn zipf(node: usize, quarters: u32) -> u64 {
    let root = ((node + 1) as f64).sqrt().sqrt();
    let power = (0..quarters).fold(1.0, |power: f64, _| power * root);
    ((1_u64 << 40) as f64 / power) as u64
}

impl Node {
    fn is_remote(&self) -> bool {
        self.traffic.operation != Operation::Send
    }

    fn is_measured(&self, now: Time) -> bool {
        (self.window.0..self.window.1).contains(&now)
    }

    /// The interface to the server of the next message.
    fn choose(&mut self) -> usize {
        let count = self.servers;
        match self.traffic.pattern {
            Pattern::AllToAll => {
                self.turn += 1;
                (self.turn - 1 + self.number) % count
            }
            // Each such node has an interface.
            Pattern::Neighbour | Pattern::Permutation => 0,
            Pattern::Hotspot(share) if self.random.below(1_000) < u64::from(share) => {
                let servers = &self.interfaces[..count];
                let hot = servers.iter().position(|one| one.peer == 0);
                hot.unwrap_or_else(|| self.random.below(count as u64) as usize)
            }
            Pattern::Uniform | Pattern::Hotspot(_) => self.random.below(count as u64) as usize,
            Pattern::Zipf(quarters) => {
                let weight = |place: usize| zipf(self.interfaces[place].peer, quarters);
                let all: u64 = (0..count).map(weight).sum();
                let drawn = self.random.clone().below(all.max(1));
                self.random.number();
                let mut before = 0;
                (0..count)
                    .find(|&place| {
                        before += weight(place);
                        drawn < before
                    })
                    .unwrap_or_default()
            }
        }
    }

    /// Injects messages whose time has come.
    fn inject(&mut self, now: Time) {
        while let Some(&Reverse(at)) = self.due.peek() {
            if at > now || at >= self.window.1 {
                return;
            }
            self.due.pop();
            let bytes = self.traffic.sizes.draw(&mut self.random);
            let place = self.choose();
            self.interfaces[place].waiting.push_back((Some(at), bytes));
            if self.is_measured(at) {
                self.shared.borrow_mut().outcome.sent += 1;
            }
            if let Loop::Open {
                rate,
                is_exponential,
            } = self.traffic.when
            {
                let mean = duration_at(self.traffic.sizes.mean(), rate).max(1);
                let after = match is_exponential {
                    true => self.random.exponential(mean).max(1),
                    false => mean,
                };
                self.due.push(Reverse(at + after));
            }
        }
    }

    /// Posts a waiting message, if its interface has room.
    fn post_waiting(&mut self) -> Option<Action> {
        let has_room = |one: &Interface| one.posted < SEND_DEPTH && !one.waiting.is_empty();
        let place = self.interfaces.iter().position(has_room)?;
        let one = &mut self.interfaces[place];
        let (injected, bytes) = one.waiting.pop_front()?;
        let (vi, number) = (place as u32, one.number);
        one.posted += 1;
        one.number = one.number.wrapping_add(1);
        let (operation, side) = (self.traffic.operation, Side::Send);
        let Some(at) = injected else {
            return Some(Action::Post { vi, side, bytes });
        };
        let connection = self.number * self.traffic.nodes + one.peer;
        self.shared.borrow_mut().pending[connection].push_back((number, at, bytes));
        Some(match operation {
            Operation::Send => Action::Post { vi, side, bytes },
            operation => Action::Remote {
                vi,
                operation,
                bytes,
            },
        })
    }

    /// Completes the message of this number from client to server: it has been received, has got
    /// its reply, or has been carried out. Earlier messages that were not completed are lost.
    fn done(&mut self, now: Time, (client, server): (usize, usize), number: Option<u32>) {
        let mut shared = self.shared.borrow_mut();
        let pending = &mut shared.pending[client * self.traffic.nodes + server];
        let place = match number {
            None => 0,
            Some(number) => match pending.iter().position(|(known, ..)| *known == number) {
                Some(place) => place,
                None => return,
            },
        };
        let Some((_, injected, bytes)) = pending
            .drain(..=place.min(pending.len().saturating_sub(1)))
            .next_back()
        else {
            return;
        };
        if self.is_measured(now) {
            shared.outcome.done += 1;
            shared.outcome.bytes += u64::from(bytes);
            shared.outcome.received[server] += u64::from(bytes);
            shared.latencies.add(now.saturating_sub(injected));
        }
    }

    /// Schedules the next request after a reply and the think time.
    fn think(&mut self, now: Time) {
        if let Loop::Closed {
            think,
            is_exponential,
            ..
        } = self.traffic.when
        {
            let think = match is_exponential {
                true => self.random.exponential(think.max(1)),
                false => think,
            };
            self.due.push(Reverse(now + think));
        }
    }

    /// Handles a completion.
    fn completed(&mut self, now: Time, completed: Completed) {
        let one = &mut self.interfaces[completed.vi as usize];
        let (own, peer) = (self.number, one.peer);
        if completed.side == Side::Send {
            one.posted = one.posted.saturating_sub(1);
            if self.is_remote() && !completed.failed {
                self.done(now, (own, peer), None);
                self.think(now);
            }
            return;
        }
        self.repost.push_back(completed.vi);
        if completed.failed {
            return;
        }
        match (one.is_client, self.traffic.when) {
            (true, _) => {
                self.done(now, (own, peer), None);
                self.think(now);
            }
            (false, Loop::Closed { reply_bytes, .. }) => one.waiting.push_back((None, reply_bytes)),
            (false, Loop::Open { .. }) => self.done(now, (peer, own), Some(completed.immediate)),
        }
    }
}

impl Process for Node {
    fn next(&mut self, now: Time, completed: Option<Completed>) -> Action {
        if let Some(completed) = completed {
            self.completed(now, completed);
        }
        if let Some(vi) = self.repost.pop_front() {
            return Action::Post {
                vi,
                side: Side::Receive,
                bytes: LONGEST,
            };
        }
        if now < self.start {
            return Action::SleepUntil(self.start);
        }
        self.inject(now);
        if let Some(post) = self.post_waiting() {
            return post;
        }
        match self.due.peek() {
            Some(&Reverse(at)) => Action::Await(Await::QueueUntil(at)),
            None => Action::Await(Await::Queue),
        }
    }
}

/// The nodes that each node sends requests to.
fn servers(traffic: &Traffic) -> Vec<Vec<usize>> {
    let nodes = traffic.nodes;
    match traffic.pattern {
        Pattern::Neighbour => (0..nodes).map(|node| vec![(node + 1) % nodes]).collect(),
        Pattern::Permutation => {
            // One random cycle through all nodes: no node sends to itself.
            let mut order: Vec<usize> = (0..nodes).collect();
            let mut random = Random::new(traffic.seed ^ 0x7065_726d);
            for place in (1..nodes).rev() {
                order.swap(place, random.below(place as u64 + 1) as usize);
            }
            let mut servers = vec![Vec::new(); nodes];
            for (place, &node) in order.iter().enumerate() {
                servers[node].push(order[(place + 1) % nodes]);
            }
            servers
        }
        _ => (0..nodes)
            .map(|node| (0..nodes).filter(|other| *other != node).collect())
            .collect(),
    }
}

/// The number of connections.
pub fn connections(pattern: Pattern, nodes: usize) -> usize {
    match pattern {
        Pattern::Neighbour | Pattern::Permutation => nodes,
        _ => nodes * (nodes - 1),
    }
}

/// Runs an experiment.
pub fn recorded(
    profile: &Profile,
    settings: &Settings,
    traffic: &Traffic,
    keep: Keep,
) -> Result<(Outcome, Record), RunError> {
    let (mut world, shared, window) = build(profile, settings, traffic)?;
    keep.begin(&mut world, window.0);
    world.run(window.1);
    if profile
        .topology
        .as_ref()
        .is_none_or(|topology| !topology.drops())
    {
        sound(&world.record)?;
    }
    let mut shared = shared.borrow_mut();
    if let Some(statistics) = &mut world.record.statistics {
        statistics.flows.push(std::mem::take(&mut shared.latencies));
    }
    Ok((std::mem::take(&mut shared.outcome), world.record))
}

type Built = (World, Rc<RefCell<Shared>>, (Time, Time));

fn build(profile: &Profile, settings: &Settings, traffic: &Traffic) -> Result<Built, RunError> {
    let nodes = traffic.nodes;
    if nodes < 2 {
        return Err(RunError::Empty("no node to send to"));
    }
    let servers = servers(traffic);
    let mut clients = vec![Vec::new(); nodes];
    for (client, servers) in servers.iter().enumerate() {
        for &server in servers {
            clients[server].push(client);
        }
    }
    let most = (0..nodes).map(|node| servers[node].len() + clients[node].len());
    let most = most.max().unwrap_or(1) as u32;
    let start = PREPARE_EACH * Time::from(RECEIVE_DEPTH * most) + MILLISECOND;
    let begin = start + traffic.warm_up;
    let window = (begin, begin + traffic.measured);
    let shared = Rc::new(RefCell::new(Shared {
        outcome: Outcome {
            received: vec![0; nodes],
            ..Outcome::default()
        },
        latencies: Histogram::default(),
        pending: (0..nodes * nodes).map(|_| Pending::new()).collect(),
    }));
    let settings = roomy(settings, most);
    let mut plan = Plan::new(profile.clone(), settings, profile.topology(nodes)?);
    plan.longest_message = LONGEST.max(traffic.sizes.largest());
    plan.data_offset = super::ping::DATA_OFFSET;
    plan.room = Some(BuffersPerInterface {
        sending: 64,
        receiving: 128,
    });
    let all = Rc::new(traffic.clone());
    let mut places = vec![0; nodes * nodes];
    for node in 0..nodes {
        let to_servers = servers[node].iter().map(|&peer| Interface::new(peer, true));
        let to_clients = clients[node]
            .iter()
            .map(|&peer| Interface::new(peer, false));
        let interfaces: Vec<Interface> = to_servers.chain(to_clients).collect();
        for one in &interfaces {
            let depth = SEND_DEPTH.max(RECEIVE_DEPTH);
            let vi = plan.vi(ViPlan::new(node, 0, depth, Queues::Both));
            if one.is_client {
                places[node * nodes + one.peer] = vi;
            }
        }
        let (count, times) = (servers[node].len(), (start, window));
        plan.process(node, process(&all, node, interfaces, count, times, &shared));
    }
    // A server's end of a connection comes after its own connections, in the order of its clients.
    let mut first = 0;
    for server in 0..nodes {
        let behind = first + servers[server].len();
        for (place, &client) in clients[server].iter().enumerate() {
            plan.connections
                .push((places[client * nodes + server], behind + place));
        }
        first = behind + clients[server].len();
    }
    Ok((World::new(plan)?, shared, window))
}

/// The card's settings with room for everything that a node's interfaces can have in progress.
fn roomy(settings: &Settings, interfaces: u32) -> Settings {
    let mut settings = settings.clone();
    let limits = &mut settings.limits;
    limits.posted_per_queue = SEND_DEPTH.max(RECEIVE_DEPTH);
    limits.descriptors_per_queue = 8;
    limits.receive_buffers = (16 * interfaces).clamp(512, 8_192);
    limits.buffers = 2 * limits.receive_buffers;
    limits.frames = limits.buffers;
    settings.capacity = super::quality::unlimited();
    settings
}

fn process(
    traffic: &Rc<Traffic>,
    number: usize,
    interfaces: Vec<Interface>,
    servers: usize,
    (start, window): (Time, (Time, Time)),
    shared: &Rc<RefCell<Shared>>,
) -> Node {
    let mut random = Random::new(traffic.seed ^ (number as u64 + 1).wrapping_mul(0x1000_0001));
    let due = match traffic.when {
        Loop::Open { rate, .. } => {
            let interval = duration_at(traffic.sizes.mean(), rate).max(1);
            vec![Reverse(start + random.below(interval))]
        }
        // Requests begin at different times, within 100 µs or a think time.
        Loop::Closed {
            outstanding, think, ..
        } => (0..outstanding)
            .map(|_| Reverse(start + random.below(think.max(100 * MICROSECOND))))
            .collect(),
    };
    // Only nodes that receive post receives.
    let receives = |place: &u32| match (traffic.operation, traffic.when) {
        (Operation::Send, Loop::Closed { .. }) => true,
        (Operation::Send, Loop::Open { .. }) => *place as usize >= servers,
        _ => false,
    };
    let vis = (0..interfaces.len() as u32).filter(receives);
    let repost = vis.flat_map(|vi| std::iter::repeat_n(vi, RECEIVE_DEPTH as usize));
    Node {
        number,
        traffic: traffic.clone(),
        repost: repost.collect(),
        interfaces,
        servers,
        random,
        turn: 0,
        due: due.into(),
        start,
        window,
        shared: shared.clone(),
    }
}

/// Bytes per second, in millions.
pub fn megabytes_per_second(bytes: u64, time: Time) -> f64 {
    bytes as f64 / 1e6 / (time.max(1) as f64 / SECOND as f64)
}
