//! Channels with a reserved rate beside best effort (thesis, §5.4).
//!
//! Each sending node has one process that injects the messages of all its channels at their times; each
//! receiving node has one that keeps receives posted. A channel of constant rate injects messages of equal size at equal intervals,
//! beginning at a time of its own; one of variable rate carries video streams, a message for each picture; best
//! effort injects at exponentially distributed intervals.
//!
//! Jitter, as §5.4 defines it: by how much the interval between the receipts of two messages
//! exceeds that between their injections (at a constant rate: the period), and zero if it is
//! shorter. θ is its mean over all messages divided by the mean interval of injection. A message
//! counts as received when its status is in host memory.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use causeway_firmware::{
    Capacity, Direction, Firmware, SetUpError, Settings, Side, Traffic, ViAttributes,
};

use super::mpeg::{PICTURES_PER_SECOND, Pictures};
use super::random::Random;
use super::{Keep, RunError, sound};
use crate::engine::{MICROSECOND, SECOND, Time, duration_at};
use crate::node::BuildError;
use crate::node::{
    Action, Await, BuffersPerInterface, Completed, Plan, Process, Queues, Record, ViPlan, World,
};
use crate::profile::Profile;
use crate::statistics::Histogram;

/// Which nodes send to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Node 0 sends to this many others, one channel after the other.
    OneToMany(usize),
    /// This many others send to node 0.
    ManyToOne(usize),
    /// Two nodes send to each other, one channel after the other.
    BothWays,
}

/// The traffic of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Messages of equal size at equal intervals, with a reservation.
    Constant {
        /// Bytes per second.
        rate: u64,
        /// Bytes of a message.
        message_bytes: u32,
    },
    /// This many video streams, a message for each picture, with a reservation.
    Video {
        /// The number of streams.
        streams: u32,
        /// Bytes per second of each.
        stream_rate: u64,
    },
    /// Messages of equal size at exponentially distributed intervals, without reservation.
    BestEffort {
        /// Bytes per second on average.
        rate: u64,
        /// Bytes of a message.
        message_bytes: u32,
    },
}

impl Flow {
    /// Bytes per second on average.
    pub fn rate(&self) -> u64 {
        match self {
            Self::Constant { rate, .. } | Self::BestEffort { rate, .. } => *rate,
            Self::Video {
                streams,
                stream_rate,
            } => u64::from(*streams) * stream_rate,
        }
    }

    /// The traffic that is reserved for it.
    fn traffic(&self) -> Option<Traffic> {
        match *self {
            Self::Constant {
                rate,
                message_bytes,
            } => Some(Traffic::Constant {
                rate,
                message_bytes,
            }),
            Self::Video {
                streams,
                stream_rate,
            } => {
                let picture = (stream_rate / PICTURES_PER_SECOND).max(1) as u32;
                let mean = u64::from(streams) * stream_rate;
                Some(Traffic::Variable {
                    mean,
                    peak: mean * 2,
                    burst_bytes: u64::from(streams) * u64::from(picture) * 4,
                    message_bytes: picture,
                    delay: SECOND / PICTURES_PER_SECOND,
                })
            }
            Self::BestEffort { .. } => None,
        }
    }

    /// The mean interval between messages.
    fn interval(&self) -> Time {
        match *self {
            Self::Constant {
                rate,
                message_bytes,
            }
            | Self::BestEffort {
                rate,
                message_bytes,
            } => duration_at(u64::from(message_bytes), rate),
            Self::Video { streams, .. } => {
                SECOND / (PICTURES_PER_SECOND * u64::from(streams.max(1)))
            }
        }
    }
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Which nodes send to which.
    pub shape: Shape,
    /// The channels.
    pub channels: Vec<Flow>,
    /// A video trace to be played instead of the model.
    pub trace: Option<Vec<u32>>,
    /// Time from the first injection until measuring.
    pub warm_up: Time,
    /// The measured time.
    pub measured: Time,
    /// Shorter jitter does not make a message count as late, but is included in θ.
    pub resolution: Time,
    /// Whether reservations go through admission control, with the capacity in the card's settings: channels that it
    /// refuses must have been left out ([`admit`]).
    pub admission: bool,
    /// The offset of a message's data in its page: 4 KiB from 0 on are one piece, from elsewhere two.
    pub data_offset: u32,
    /// The seed of random numbers.
    pub seed: u64,
}

/// The result of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelOutcome {
    /// Messages received in the measured time.
    pub received: u64,
    /// How many of them were late.
    pub jittered: u64,
    /// Mean interval of injection.
    pub interval: Time,
    /// Sum of the jitter durations.
    pub jitter: Time,
    /// Sum of the times from injection to receipt.
    pub latency: Time,
    /// Messages injected in the measured time.
    pub injected: u64,
    /// Bytes received in the measured time.
    pub bytes: u64,
}

impl ChannelOutcome {
    /// θ, in millionths.
    pub fn theta_millionths(&self) -> u64 {
        let all = u128::from(self.received.max(1)) * u128::from(self.interval.max(1));
        (u128::from(self.jitter) * 1_000_000 / all) as u64
    }

    /// Adds the result of another channel. Its mean interval of injection is weighted by its messages, so that θ
    /// is the jitter of all messages in parts of all intervals.
    pub fn add(&mut self, other: &Self) {
        let both = u128::from(self.received + other.received).max(1);
        let weighed = |one: &Self| u128::from(one.interval) * u128::from(one.received);
        self.interval = ((weighed(self) + weighed(other)) / both) as Time;
        self.received += other.received;
        self.jittered += other.jittered;
        self.jitter = self.jitter.saturating_add(other.jitter);
        self.latency = self.latency.saturating_add(other.latency);
        self.injected += other.injected;
        self.bytes += other.bytes;
    }

    /// Mean latency.
    pub fn mean_latency(&self) -> Time {
        self.latency / self.received.max(1)
    }
}

/// The records of a channel.
#[derive(Debug, Default)]
struct Log {
    /// When each message was injected.
    injected: Vec<Time>,
    last: Option<(Time, Time)>,
    outcome: ChannelOutcome,
    /// The distribution of latencies, if it is wanted.
    latencies: Option<Histogram>,
}

/// The measured time: from, until.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Time,
    to: Time,
}

impl Window {
    fn contains(self, at: Time) -> bool {
        (self.from..self.to).contains(&at)
    }
}

type Logs = Rc<RefCell<Vec<Log>>>;

/// A channel's source of messages, with their times and sizes.
struct Source {
    flow: Flow,
    random: Random,
    videos: Vec<Pictures>,
    /// The next video stream.
    turn: usize,
    /// The channel's index among all, and among the process's interfaces.
    channel: usize,
    vi: u32,
    /// Messages that are posted and not complete, and messages that wait for room.
    outstanding: u32,
    waiting: std::collections::VecDeque<(Time, u32)>,
}

impl Source {
    /// The message that is injected now, and the time until the next one.
    fn inject(&mut self) -> (u32, Time) {
        match self.flow {
            Flow::Constant { message_bytes, .. } => (message_bytes, self.flow.interval()),
            Flow::BestEffort { message_bytes, .. } => {
                let mean = self.flow.interval();
                (message_bytes, self.random.exponential(mean).max(1))
            }
            Flow::Video { .. } => {
                let place = self.turn % self.videos.len();
                self.turn += 1;
                (self.videos[place].next_bytes(), self.flow.interval())
            }
        }
    }
}

/// Injects the messages of all channels of a node.
struct Generator {
    sources: Vec<Source>,
    due: BinaryHeap<Reverse<(Time, usize)>>,
    end: Time,
    window: Window,
    logs: Logs,
}

/// Most sends that a channel has posted; more wait in the generator.
const SEND_DEPTH: u32 = 1_024;
/// Receives that are kept posted on a channel.
const RECEIVE_DEPTH: u32 = 64;
/// Longest message: a longer picture is sent as one of this length.
const LONGEST: u32 = 16_384;

impl Generator {
    /// Posts a message that waits, if there is room.
    fn post_waiting(&mut self, place: usize) -> Option<Action> {
        let source = &mut self.sources[place];
        if source.outstanding >= SEND_DEPTH {
            return None;
        }
        let (at, bytes) = source.waiting.pop_front()?;
        source.outstanding += 1;
        let log = &mut self.logs.borrow_mut()[source.channel];
        log.injected.push(at);
        Some(Action::Post {
            vi: source.vi,
            side: Side::Send,
            bytes,
        })
    }
}

impl Process for Generator {
    fn next(&mut self, now: Time, _: Option<Completed>) -> Action {
        loop {
            let Some(&Reverse((at, place))) = self.due.peek() else {
                return Action::End;
            };
            if at >= self.end {
                return Action::End;
            }
            if at > now {
                // Between injections, messages that waited for room are posted.
                let room = (0..self.sources.len()).find_map(|place| self.post_waiting(place));
                return room.unwrap_or(Action::SleepUntil(at));
            }
            self.due.pop();
            let source = &mut self.sources[place];
            let (bytes, after) = source.inject();
            source.waiting.push_back((at, bytes.min(LONGEST)));
            if self.window.contains(at) {
                let log = &mut self.logs.borrow_mut()[source.channel];
                log.outcome.injected += 1;
            }
            self.due.push(Reverse((at + after, place)));
            if let Some(post) = self.post_waiting(place) {
                return post;
            }
        }
    }

    fn landed(&mut self, _: Time, completed: Completed) {
        let source = self
            .sources
            .iter_mut()
            .find(|source| source.vi == completed.vi);
        if let (Some(source), Side::Send) = (source, completed.side) {
            source.outstanding -= 1;
        }
    }
}

/// Keeps receives posted, and notes when messages are received.
struct Sink {
    /// The channel of each of its interfaces.
    channels: Vec<usize>,
    prepared: u32,
    /// Shorter jitter does not count.
    resolution: Time,
    window: Window,
    logs: Logs,
}

impl Process for Sink {
    fn next(&mut self, _: Time, completed: Option<Completed>) -> Action {
        let post = |vi| Action::Post {
            vi,
            side: Side::Receive,
            bytes: LONGEST,
        };
        let count = self.channels.len() as u32;
        if count == 0 {
            return Action::End;
        }
        if self.prepared < count * RECEIVE_DEPTH {
            self.prepared += 1;
            return post((self.prepared - 1) % count);
        }
        match completed {
            Some(completed) => post(completed.vi),
            None => Action::Await(Await::Queue),
        }
    }

    fn landed(&mut self, now: Time, completed: Completed) {
        let Some(&channel) = self.channels.get(completed.vi as usize) else {
            return;
        };
        let log = &mut self.logs.borrow_mut()[channel];
        let Some(&injected) = log.injected.get(completed.immediate as usize) else {
            return;
        };
        let last = log.last.replace((injected, now));
        if !self.window.contains(now) {
            return;
        }
        log.outcome.received += 1;
        log.outcome.bytes += u64::from(completed.bytes);
        log.outcome.latency = log.outcome.latency.saturating_add(now - injected);
        if let Some(latencies) = &mut log.latencies {
            latencies.add(now - injected);
        }
        if let Some((before, received)) = last {
            let jitter = (now - received).saturating_sub(injected.saturating_sub(before));
            log.outcome.jitter = log.outcome.jitter.saturating_add(jitter);
            log.outcome.jittered += u64::from(jitter > self.resolution);
        }
    }
}

/// Time in which receivers are certain to have posted a receive and their card to have taken it up.
const PREPARE_EACH: Time = 25 * MICROSECOND;

/// Runs an experiment; returns each channel's result.
pub fn run(
    profile: &Profile,
    settings: &Settings,
    experiment: &Experiment,
) -> Result<Vec<ChannelOutcome>, RunError> {
    recorded(profile, settings, experiment, Keep::Sums).map(|(outcomes, _)| outcomes)
}

/// The same, with the records of the run.
pub fn recorded(
    profile: &Profile,
    settings: &Settings,
    experiment: &Experiment,
    keep: Keep,
) -> Result<(Vec<ChannelOutcome>, Record), RunError> {
    let (mut world, logs, window) = build(profile, settings, experiment)?;
    keep.begin(&mut world, window.from);
    for log in logs.borrow_mut().iter_mut() {
        log.latencies = (keep != Keep::Sums).then(Histogram::default);
    }
    world.run(window.to);
    sound(&world.record)?;
    let mut logs = logs.borrow_mut();
    if let Some(statistics) = &mut world.record.statistics {
        let latencies = logs.iter_mut().filter_map(|log| log.latencies.take());
        statistics.flows.extend(latencies);
    }
    let outcomes = logs
        .iter_mut()
        .zip(&experiment.channels)
        .map(|(log, flow)| ChannelOutcome {
            interval: flow.interval(),
            ..log.outcome
        })
        .collect();
    Ok((outcomes, world.record))
}

impl Shape {
    /// The number of nodes.
    pub fn nodes(self) -> usize {
        match self {
            Self::OneToMany(others) | Self::ManyToOne(others) => 1 + others,
            Self::BothWays => 2,
        }
    }
}

/// A capacity that admits everything.
pub(super) fn unlimited() -> Capacity {
    Capacity {
        send_message: 0,
        send_frame: 0,
        receive_message: 0,
        receive_frame: 0,
        host_rate: u64::MAX >> 20,
        host_message: 0,
        host_frame: 0,
        net_rate: u64::MAX >> 20,
        net_frame: 0,
        reservable_permille: 1_000,
    }
}

/// Which channels are admitted, in their order, and for the others the counter-offer of the end that refused them.
pub fn admit(
    settings: &Settings,
    experiment: &Experiment,
) -> Result<Vec<Result<(), u64>>, RunError> {
    let mut settings = settings.clone();
    settings.limits.vis = experiment.channels.len().max(1) as u32;
    let mut cards = Vec::new();
    for _ in 0..experiment.shape.nodes() {
        cards.push(Firmware::new(settings.clone()).map_err(BuildError::from)?);
    }
    let mut found = Vec::new();
    for (number, flow) in experiment.channels.iter().enumerate() {
        let Some(traffic) = flow.traffic() else {
            found.push(Ok(()));
            continue;
        };
        let (from, to) = ends(experiment.shape, number);
        let mut reserved = Vec::new();
        let mut refused = None;
        for (node, direction) in [(from, Direction::Outgoing), (to, Direction::Incoming)] {
            let vi = cards[node]
                .create_vi(ViAttributes::default())
                .map_err(BuildError::from)?;
            match cards[node].reserve(vi, direction, traffic) {
                Ok(()) => reserved.push((node, vi, direction)),
                Err(SetUpError::Refused(refusal)) => {
                    refused.get_or_insert(refusal.offer);
                }
                Err(error) => return Err(BuildError::from(error).into()),
            }
        }
        if let Some(offer) = refused {
            for (node, vi, direction) in reserved {
                cards[node]
                    .release(vi, direction)
                    .map_err(BuildError::from)?;
            }
            found.push(Err(offer));
        } else {
            found.push(Ok(()));
        }
    }
    Ok(found)
}

/// The sending and the receiving node of channel `number`.
fn ends(shape: Shape, number: usize) -> (usize, usize) {
    match shape {
        Shape::OneToMany(others) => (0, 1 + number % others.max(1)),
        Shape::ManyToOne(others) => (1 + number % others.max(1), 0),
        Shape::BothWays => (number % 2, 1 - number % 2),
    }
}

/// The card's settings with room for everything that channels can have in progress.
fn roomy(settings: &Settings, admission: bool) -> Settings {
    let mut settings = settings.clone();
    settings.limits.posted_per_queue = SEND_DEPTH;
    settings.limits.descriptors_per_queue = 16;
    settings.limits.buffers = 8_192;
    settings.limits.receive_buffers = 4_096;
    settings.limits.frames = 8_192;
    if !admission {
        // The thesis determines by trial how much can be carried.
        settings.capacity = unlimited();
    }
    settings
}

fn build(
    profile: &Profile,
    settings: &Settings,
    experiment: &Experiment,
) -> Result<(World, Logs, Window), RunError> {
    let nodes = experiment.shape.nodes();
    let channels = &experiment.channels;
    if channels.is_empty() || nodes < 2 {
        return Err(RunError::Empty("no channels, or no node to send to"));
    }
    let topology = profile.topology(nodes)?;
    let settings = roomy(settings, experiment.admission);
    let start = PREPARE_EACH * Time::from(RECEIVE_DEPTH) * channels.len() as Time;
    let window = Window {
        from: start + experiment.warm_up,
        to: start + experiment.warm_up + experiment.measured,
    };
    let logs: Logs = Rc::new(RefCell::new(
        channels.iter().map(|_| Log::default()).collect(),
    ));
    let mut plan = Plan::new(profile.clone(), settings, topology);
    plan.longest_message = LONGEST;
    plan.room = Some(BuffersPerInterface {
        // The most that an interface can have in progress: all its descriptors on the card, with a frame each.
        sending: 64,
        receiving: 512,
    });
    plan.data_offset = experiment.data_offset;
    let trace: Option<Rc<[u32]>> = experiment.trace.clone().map(Into::into);
    let of_node = |node: usize, end: fn((usize, usize)) -> usize| {
        (0..channels.len()).filter(move |&number| end(ends(experiment.shape, number)) == node)
    };
    for node in 0..nodes {
        let outgoing = of_node(node, |(from, _)| from);
        plan.process(node, generator(experiment, outgoing, window, &trace, &logs));
        let sink = Sink {
            channels: of_node(node, |(_, to)| to).collect(),
            prepared: 0,
            resolution: experiment.resolution,
            window,
            logs: logs.clone(),
        };
        plan.process(node, sink);
    }
    for (number, flow) in channels.iter().enumerate() {
        let (from, to) = ends(experiment.shape, number);
        let reserved = |direction| flow.traffic().map(|traffic| (direction, traffic));
        let here = plan.vi(ViPlan {
            sends_counted: true,
            reserved: reserved(Direction::Outgoing),
            ..ViPlan::new(from, 0, SEND_DEPTH, Queues::None)
        });
        let there = plan.vi(ViPlan {
            reserved: reserved(Direction::Incoming),
            ..ViPlan::new(to, 1, RECEIVE_DEPTH, Queues::Receives)
        });
        plan.connections.push((here, there));
    }
    Ok((World::new(plan)?, logs, window))
}

/// The generator of these channels, all of one node.
fn generator(
    experiment: &Experiment,
    channels: impl Iterator<Item = usize>,
    window: Window,
    trace: &Option<Rc<[u32]>>,
    logs: &Logs,
) -> Generator {
    let sources: Vec<Source> = channels
        .enumerate()
        .map(|(vi, number)| source(experiment, number, vi as u32, trace))
        .collect();
    let start = window.from - experiment.warm_up;
    let due = sources.iter().enumerate().map(|(place, source)| {
        // Each channel begins at a time of its own within one interval.
        let interval = source.flow.interval();
        let phase = source.random.clone().below(interval.max(1));
        Reverse((start + phase, place))
    });
    Generator {
        due: due.collect(),
        sources,
        end: window.to,
        window,
        logs: logs.clone(),
    }
}

fn source(experiment: &Experiment, channel: usize, vi: u32, trace: &Option<Rc<[u32]>>) -> Source {
    let flow = &experiment.channels[channel];
    let mut random = Random::new(experiment.seed ^ (channel as u64 + 1).wrapping_mul(0x1000_0001));
    let videos = match *flow {
        Flow::Video {
            streams,
            stream_rate,
        } => (0..streams)
            .map(|_| match trace {
                Some(sizes) => {
                    let start = random.below(sizes.len().max(1) as u64) as usize;
                    Pictures::trace(sizes.clone(), start)
                }
                None => Pictures::model(stream_rate, random.number()),
            })
            .collect(),
        _ => Vec::new(),
    };
    Source {
        flow: flow.clone(),
        random,
        videos,
        turn: 0,
        channel,
        vi,
        outstanding: 0,
        waiting: std::collections::VecDeque::new(),
    }
}
