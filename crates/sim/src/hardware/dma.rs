//! A DMA engine between host memory and the card.
//!
//! A job is transferred over the I/O bus burst by burst; between bursts others get the bus. The
//! engine's own side (the card's memory) may be slower than the bus: the next burst is requested
//! when the last one has been stored.
//!
//! Nothing outside the node depends on a burst, but on the end of a job. So a job has two calls of [`HostDma::advance`] only: one
//! at its last burst, which carries out all of its steps that were due before, and one at its end. [`HostDma::plan`] says when
//! that last burst will be if nobody else uses the bus. Who does has the engine [catch up](HostDma::catch_up) first, so that requests
//! reach the bus in the order of time as before; if that delays the job, the call at its last burst finds that it is not the last yet,
//! and the job is planned again.

use std::collections::VecDeque;

use super::bus::IoBus;
use super::memory::Memory;
use crate::engine::{Rate, Time};

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Down: host memory is read.
    FromHost,
    /// Up: host memory is written.
    ToHost,
}

/// How many jobs an engine handles at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// This many, of any direction.
    Any(u64),
    /// One of each direction.
    OneEachWay,
}

impl Channels {
    fn count(self) -> usize {
        match self {
            Self::Any(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Self::OneEachWay => 2,
        }
    }

    fn takes(self, channel: usize, direction: Direction) -> bool {
        match self {
            Self::Any(_) => true,
            Self::OneEachWay => (channel == 0) == (direction == Direction::FromHost),
        }
    }
}

/// An engine's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostDmaSpec {
    /// From accepting a job to requesting the bus.
    pub startup: Time,
    /// Bytes per second on its own side.
    pub bytes_per_second: u64,
    /// Jobs in progress at a time.
    pub channels: Channels,
}

/// One contiguous transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The caller's number of the job, returned when it is finished.
    pub token: u64,
    /// The direction.
    pub direction: Direction,
    /// The bytes.
    pub bytes: u64,
    /// Its place in the queue: behind all jobs with the same or a smaller stamp.
    pub stamp: Time,
}

/// The next call of [`HostDma::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The time of the call.
    pub at: Time,
    /// The channel.
    pub channel: usize,
}

/// The result of a call of [`HostDma::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The job that has ended: all its bytes are transferred.
    pub finished: Option<Job>,
    /// How many steps were carried out, of all channels.
    pub steps: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Request the next burst.
    Ask,
    /// The bridge has the data of a burst that was requested at `asked`.
    Fetch { asked: Time, bytes: u64 },
    /// The last burst is being stored.
    Settle,
}

#[derive(Clone, Copy, Debug)]
struct Active {
    job: Job,
    /// Bytes that it has not requested.
    left: u64,
    /// Bytes that are being stored.
    moving: u64,
    step: Step,
}

impl Active {
    /// Carries out its next step on the bus; returns when it continues.
    #[inline]
    fn step(&mut self, now: Time, rate: &mut Rate, bus: &mut IoBus, memory: &mut Memory) -> Time {
        self.moving = 0;
        match (self.step, self.job.direction) {
            (Step::Settle, _) => now,
            (Step::Ask, Direction::FromHost) => {
                let bytes = self.left.min(bus.spec().burst_bytes);
                self.step = Step::Fetch { asked: now, bytes };
                bus.burst_read_refused(now, bytes, memory)
            }
            (Step::Ask, Direction::ToHost) => {
                let bytes = self.left.min(bus.spec().burst_bytes);
                let end = bus.burst_write(now, bytes, memory).end;
                self.put_away(now + rate.duration(bytes), end, bytes, bus.landed(end))
            }
            (Step::Fetch { asked, bytes }, _) => {
                let end = bus.burst_read(now, bytes).end;
                self.put_away(asked + rate.duration(bytes), end, bytes, end)
            }
        }
    }

    /// Returns when the channel continues after a burst that its own side has moved at `own_side`, that left the bus at `end`, and
    /// is in memory at `landed`.
    fn put_away(&mut self, own_side: Time, end: Time, bytes: u64, landed: Time) -> Time {
        self.left -= bytes;
        self.moving = bytes;
        if self.left == 0 {
            self.step = Step::Settle;
            landed.max(own_side)
        } else {
            self.step = Step::Ask;
            end.max(own_side)
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.step, Step::Settle)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    active: Option<Active>,
    /// How long it has been busy.
    busy: Time,
    /// When its job's next step is.
    at: Time,
    /// When that step was determined, and its place among all steps, which orders those of one time.
    since: Time,
    order: u64,
    /// When [`HostDma::advance`] is expected.
    planned: Option<Time>,
}

impl Channel {
    /// Carries out its job's next step.
    #[inline]
    fn step(
        &mut self,
        determined: &mut u64,
        rate: &mut Rate,
        bus: &mut IoBus,
        memory: &mut Memory,
    ) {
        if let Some(active) = &mut self.active {
            let now = self.at;
            self.at = active.step(now, rate, bus, memory);
            self.busy += self.at - now;
            self.since = now;
            self.order = *determined;
            *determined += 1;
        }
    }

    /// Whether its job has steps to carry out before its end.
    fn has_steps(&self) -> bool {
        self.active.is_some_and(|active| !active.is_ending())
    }
}

/// A host DMA engine with its queue.
#[derive(Clone, Debug)]
pub struct HostDma {
    spec: HostDmaSpec,
    /// Of its own side.
    rate: Rate,
    channels: Vec<Channel>,
    /// How many steps' times were determined.
    determined: u64,
    /// Copies of the channels, to look ahead.
    ahead: Vec<Channel>,
    /// Each step has a call of [`Self::advance`].
    each_step: bool,
    queue: VecDeque<Job>,
    jobs: u64,
}

impl HostDma {
    /// An idle engine.
    pub fn new(spec: HostDmaSpec) -> Self {
        Self {
            channels: vec![Channel::default(); spec.channels.count()],
            determined: 0,
            ahead: Vec::new(),
            each_step: false,
            rate: Rate::new(spec.bytes_per_second),
            spec,
            queue: VecDeque::new(),
            jobs: 0,
        }
    }

    /// Has [`Self::plan`] name each step of a job, for those who observe how far it is.
    pub fn plan_each_step(&mut self) {
        self.each_step = true;
    }

    /// The engine's parameters.
    pub fn spec(&self) -> &HostDmaSpec {
        &self.spec
    }

    /// The number of jobs that have ended.
    pub fn jobs(&self) -> u64 {
        self.jobs
    }

    /// The number of jobs that wait.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The job that is this far from the front of the queue.
    pub fn waiting(&self, place: usize) -> Option<&Job> {
        self.queue.get(place)
    }

    /// The number of channels.
    pub fn channels(&self) -> usize {
        self.channels.len()
    }

    /// The number of a channel's job.
    pub fn active(&self, channel: usize) -> Option<u64> {
        let active = self.channels.get(channel)?.active.as_ref()?;
        Some(active.job.token)
    }

    /// Whether a channel's job ends with the next call of [`Self::advance`].
    pub fn is_ending(&self, channel: usize) -> bool {
        let active = self.channels.get(channel).and_then(|of| of.active.as_ref());
        active.is_some_and(Active::is_ending)
    }

    /// Whether no job is in progress.
    pub fn is_idle(&self) -> bool {
        self.channels.iter().all(|channel| channel.active.is_none())
    }

    /// Whether several channels make bursts at present, so that a delay of one may let another one go ahead.
    pub fn is_shared(&self) -> bool {
        let many = self.channels.len() > 1 && !self.each_step;
        many && self.channels.iter().filter(|of| of.has_steps()).count() > 1
    }

    /// Accepts `job`, at once or into the queue, whose length the caller limits. Returns whether it starts at once: then all channels are to
    /// be [planned](Self::plan). An engine with several channels must have [caught up](Self::catch_up).
    pub fn start(&mut self, now: Time, job: Job) -> bool {
        let free = (0..self.channels.len()).find(|&channel| {
            self.channels[channel].active.is_none()
                && self.spec.channels.takes(channel, job.direction)
        });
        if let Some(channel) = free {
            self.begin(now, channel, job);
            return true;
        }
        let place = self
            .queue
            .iter()
            .rposition(|waiting| waiting.stamp <= job.stamp)
            .map_or(0, |before| before + 1);
        self.queue.insert(place, job);
        false
    }

    /// The bytes of this job, and how many of them have not been transferred, if a channel has started it.
    pub fn left(&self, token: u64) -> Option<(u64, u64)> {
        let mut active = self.channels.iter().filter_map(|of| of.active.as_ref());
        let active = active.find(|active| active.job.token == token)?;
        Some((active.job.bytes, active.left + active.moving))
    }

    fn begin(&mut self, now: Time, channel: usize, job: Job) {
        let busy = self.channels[channel].busy;
        self.channels[channel] = Channel {
            active: Some(Active {
                job,
                left: job.bytes,
                moving: 0,
                step: match job.bytes {
                    0 => Step::Settle,
                    _ => Step::Ask,
                },
            }),
            busy,
            at: now + self.spec.startup,
            since: now,
            order: self.determined,
            planned: None,
        };
        self.determined += 1;
    }

    /// Determines the next call of [`Self::advance`] for `channel`, if it is not the one that was determined before: at the end
    /// of its job, or at the last step before that if nothing comes between, which is carried out on copies.
    pub fn plan(&mut self, channel: usize, bus: &IoBus, memory: &Memory) -> Option<Wake> {
        let own = self.channels.get(channel)?;
        own.active?;
        let at = match own.has_steps() && !self.each_step {
            true => self.last_step(channel, bus.clone(), memory.clone()),
            false => own.at,
        };
        let planned = self.channels[channel].planned.replace(at);
        (planned != Some(at)).then_some(Wake { at, channel })
    }

    /// When `channel` will make its last step if nobody else uses the bus.
    fn last_step(&mut self, channel: usize, mut bus: IoBus, mut memory: Memory) -> Time {
        let (mut rate, mut determined) = (self.rate, self.determined);
        if !self.is_shared() {
            let mut own = self.channels[channel];
            loop {
                let at = own.at;
                own.step(&mut determined, &mut rate, &mut bus, &mut memory);
                if !own.has_steps() {
                    return at;
                }
            }
        }
        self.ahead.clone_from(&self.channels);
        while let Some(next) = first(&self.ahead) {
            let at = self.ahead[next].at;
            self.ahead[next].step(&mut determined, &mut rate, &mut bus, &mut memory);
            if next == channel && !self.ahead[next].has_steps() {
                return at;
            }
        }
        self.channels[channel].at
    }

    /// Carries out all steps before `before`, and those at that time that were determined before `since`. Returns how many.
    pub fn catch_up(
        &mut self,
        (before, since): (Time, Time),
        bus: &mut IoBus,
        memory: &mut Memory,
    ) -> u64 {
        let mut steps = 0;
        // Where each step has a call of its own, none is behind.
        while !self.each_step
            && let Some(next) = first(&self.channels)
            && let next = &mut self.channels[next]
            && (next.at, next.since) < (before, since)
        {
            next.step(&mut self.determined, &mut self.rate, bus, memory);
            steps += 1;
        }
        steps
    }

    /// Carries out the steps of all channels up to the one of `channel` that is due `now`, or ends its job; called as [`Wake`] requires.
    /// Afterwards the channel is to be planned, or all of them if it has begun another job. `None` if it is not the last wake of the channel.
    pub fn advance(
        &mut self,
        now: Time,
        channel: usize,
        bus: &mut IoBus,
        memory: &mut Memory,
    ) -> Option<Advance> {
        let own = self.channels.get_mut(channel)?;
        own.planned.take_if(|planned| *planned == now)?;
        if self.each_step && own.has_steps() {
            own.step(&mut self.determined, &mut self.rate, bus, memory);
            return Some(Advance {
                finished: None,
                steps: 1,
            });
        }
        let ends = !own.has_steps() && own.at <= now;
        let until = match ends {
            true => (now, own.order),
            false => (now, u64::MAX),
        };
        let mut steps = 0;
        while !self.each_step
            && let Some(next) = first(&self.channels)
            && (self.channels[next].at, self.channels[next].order) < until
        {
            let at = self.channels[next].at;
            self.channels[next].step(&mut self.determined, &mut self.rate, bus, memory);
            steps += 1;
            if next == channel && at == now {
                break;
            }
        }
        let finished = match ends {
            true => self.finish(now, channel),
            false => None,
        };
        Some(Advance {
            steps: steps + u64::from(finished.is_some()),
            finished,
        })
    }

    /// Where each step is planned: carries out `channel`'s steps for as long as `goes_on` advances to their times, without planning them.
    #[inline]
    pub fn advance_while(
        &mut self,
        channel: usize,
        bus: &mut IoBus,
        memory: &mut Memory,
        mut goes_on: impl FnMut(Time) -> bool,
    ) {
        let Some(own) = self.channels.get_mut(channel).filter(|_| self.each_step) else {
            return;
        };
        while own.has_steps() && goes_on(own.at) {
            own.step(&mut self.determined, &mut self.rate, bus, memory);
        }
    }

    fn finish(&mut self, now: Time, channel: usize) -> Option<Job> {
        let job = self.channels[channel].active.take()?.job;
        self.jobs += 1;
        let next = self
            .queue
            .iter()
            .position(|waiting| self.spec.channels.takes(channel, waiting.direction))
            .and_then(|place| self.queue.remove(place));
        if let Some(next) = next {
            self.begin(now, channel, next);
        }
        Some(job)
    }

    /// When the next step is.
    pub fn next_step(&self) -> Option<Time> {
        first(&self.channels).map(|next| self.channels[next].at)
    }

    /// The time of the last step before the present that was carried out, of any channel whose job is in progress.
    pub fn last(&self) -> Time {
        self.channels.iter().map(|of| of.since).max().unwrap_or(0)
    }

    /// How long the channels have been busy, taken together.
    pub fn busy(&self) -> Time {
        self.channels_busy().sum()
    }

    /// How long each channel has been busy.
    pub fn channels_busy(&self) -> impl Iterator<Item = Time> + '_ {
        self.channels.iter().map(|channel| channel.busy)
    }
}

/// The channel that makes the next step.
#[inline]
fn first(channels: &[Channel]) -> Option<usize> {
    if let [only] = channels {
        return only.has_steps().then_some(0);
    }
    let with_steps = channels.iter().enumerate().filter(|(_, of)| of.has_steps());
    with_steps
        .min_by_key(|(_, of)| (of.at, of.order))
        .map(|(place, _)| place)
}
