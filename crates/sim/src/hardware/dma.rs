//! A DMA engine between host memory and the card.
//!
//! A job is transferred over the I/O bus burst by burst; between bursts others get the bus. The
//! engine's own side (the card's memory) may be slower than the bus: the next burst is requested
//! when the last one has been stored.

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
    /// The next call: for the same job, or for the next of the queue.
    pub wake: Option<Wake>,
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
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    active: Option<Active>,
    /// How long it has been busy.
    busy: Time,
}

/// A host DMA engine with its queue.
#[derive(Clone, Debug)]
pub struct HostDma {
    spec: HostDmaSpec,
    /// Of its own side.
    rate: Rate,
    channels: Vec<Channel>,
    queue: VecDeque<Job>,
    jobs: u64,
}

impl HostDma {
    /// An idle engine.
    pub fn new(spec: HostDmaSpec) -> Self {
        Self {
            channels: vec![Channel::default(); spec.channels.count()],
            rate: Rate::new(spec.bytes_per_second),
            spec,
            queue: VecDeque::new(),
            jobs: 0,
        }
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

    /// The number of a channel's job.
    pub fn active(&self, channel: usize) -> Option<u64> {
        let active = self.channels.get(channel)?.active.as_ref()?;
        Some(active.job.token)
    }

    /// Whether a channel's job ends with the next call of [`Self::advance`].
    pub fn is_ending(&self, channel: usize) -> bool {
        let active = self.channels.get(channel).and_then(|of| of.active.as_ref());
        active.is_some_and(|active| matches!(active.step, Step::Settle))
    }

    /// Whether no job is in progress.
    pub fn is_idle(&self) -> bool {
        self.channels.iter().all(|channel| channel.active.is_none())
    }

    /// Accepts `job`, at once or into the queue, whose length the caller limits. Returns the first call of [`Self::advance`] if it starts at once.
    pub fn start(&mut self, now: Time, job: Job) -> Option<Wake> {
        let free = (0..self.channels.len()).find(|&channel| {
            self.channels[channel].active.is_none()
                && self.spec.channels.takes(channel, job.direction)
        });
        if let Some(channel) = free {
            return Some(self.begin(now, channel, job));
        }
        let place = self
            .queue
            .iter()
            .rposition(|waiting| waiting.stamp <= job.stamp)
            .map_or(0, |before| before + 1);
        self.queue.insert(place, job);
        None
    }

    /// The bytes of this job, and how many of them have not been transferred, if a channel has started it.
    pub fn left(&self, token: u64) -> Option<(u64, u64)> {
        let mut active = self.channels.iter().filter_map(|of| of.active.as_ref());
        let active = active.find(|active| active.job.token == token)?;
        Some((active.job.bytes, active.left + active.moving))
    }

    fn begin(&mut self, now: Time, channel: usize, job: Job) -> Wake {
        self.channels[channel].active = Some(Active {
            job,
            left: job.bytes,
            moving: 0,
            step: Step::Ask,
        });
        Wake {
            at: now + self.spec.startup,
            channel,
        }
    }

    /// Carries out the next step of `channel`'s job; called as [`Wake`] requires.
    ///
    /// Half of a world's events are such steps: as a part of the loop over them, the result stays in registers. Written to memory field
    /// by field and read as a whole, it took 7 % of the time of a world of one node.
    #[inline(always)]
    pub fn advance(
        &mut self,
        now: Time,
        channel: usize,
        bus: &mut IoBus,
        memory: &mut Memory,
    ) -> Advance {
        let Self { channels, rate, .. } = self;
        let Some(Channel {
            active: Some(active),
            busy,
        }) = channels.get_mut(channel)
        else {
            return Advance {
                finished: None,
                wake: None,
            };
        };
        let bytes = active.left.min(bus.spec().burst_bytes);
        active.moving = 0;
        let at = match active.step {
            Step::Settle => return self.finish(now, channel),
            Step::Ask if active.left == 0 => return self.finish(now, channel),
            Step::Ask => match active.job.direction {
                Direction::FromHost => {
                    active.step = Step::Fetch { asked: now, bytes };
                    bus.burst_read_refused(now, bytes, memory)
                }
                Direction::ToHost => {
                    let end = bus.burst_write(now, bytes, memory).end;
                    active.put_away(now + rate.duration(bytes), end, bytes, bus.landed(end))
                }
            },
            Step::Fetch { asked, bytes } => {
                let end = bus.burst_read(now, bytes).end;
                active.put_away(asked + rate.duration(bytes), end, bytes, end)
            }
        };
        *busy += at - now;
        Advance {
            finished: None,
            wake: Some(Wake { at, channel }),
        }
    }

    fn finish(&mut self, now: Time, channel: usize) -> Advance {
        let ended = self.channels[channel].active.take();
        self.jobs += u64::from(ended.is_some());
        let next = self
            .queue
            .iter()
            .position(|waiting| self.spec.channels.takes(channel, waiting.direction))
            .and_then(|place| self.queue.remove(place));
        Advance {
            finished: ended.map(|active| active.job),
            wake: next.map(|next| self.begin(now, channel, next)),
        }
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
