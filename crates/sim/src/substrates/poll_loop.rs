//! A network processor that polls its sources in an endless round, without simulating unsuccessful
//! polls.
//!
//! Source 0 is the network; the others are endpoints. Polling a source takes a fixed time, and an
//! event of a source is noticed by the first poll that begins after the event.

use crate::engine::Time;

/// The position of a polling program in its round.
#[derive(Debug, Clone)]
pub(super) struct PollLoop {
    network: Time,
    endpoint: Time,
    sources: usize,
    /// The source that is polled next, while the program is working.
    position: usize,
    /// When the present round began, or would have begun, while it is not.
    round: Time,
}

impl PollLoop {
    /// A program that begins its first round at time 0.
    pub(super) fn new(network: Time, endpoint: Time, endpoints: usize) -> Self {
        Self {
            network,
            endpoint,
            sources: endpoints + 1,
            position: 0,
            round: 0,
        }
    }

    /// The time from the beginning of a round to the poll of `source`.
    fn offset(&self, source: usize) -> Time {
        match source.checked_sub(1) {
            None => 0,
            Some(before) => self.network + self.endpoint * before as u64,
        }
    }

    fn look(&self, source: usize) -> Time {
        match source {
            0 => self.network,
            _ => self.endpoint,
        }
    }

    fn length(&self) -> Time {
        self.offset(self.sources).max(1)
    }

    /// When the idle program, at `now`, will have noticed that `source` has something.
    pub(super) fn notices(&self, now: Time, source: usize) -> Time {
        let first = self.round + self.offset(source);
        let rounds = now.saturating_sub(first).div_ceil(self.length());
        first + rounds * self.length() + self.look(source)
    }

    /// Continues with the source after `source`, which was served.
    pub(super) fn served(&mut self, source: usize) {
        self.position = (source + 1) % self.sources;
    }

    /// The first source from here on that has something, and the time until its poll has ended.
    pub(super) fn next(&self, has_something: impl Fn(usize) -> bool) -> Option<(usize, Time)> {
        let mut time = 0;
        for step in 0..self.sources {
            let source = (self.position + step) % self.sources;
            time += self.look(source);
            if has_something(source) {
                return Some((source, time));
            }
        }
        None
    }

    /// Lets the program poll in rounds from `now` on, until it notices something.
    pub(super) fn idles(&mut self, now: Time) {
        let offset = self.offset(self.position);
        // The round may have begun before time 0; a whole round later it is the same.
        let into = now + self.length();
        self.round = (into - offset) % self.length();
        let whole = (now.saturating_sub(self.round)) / self.length();
        self.round += whole * self.length();
    }
}

/// When the processor will have noticed a source. Void if its plans have changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) at: Time,
    pub(super) source: usize,
    pub(super) generation: u32,
}

/// A network processor that serves one source at a time.
#[derive(Debug)]
pub(super) struct NetworkProcessor {
    polls: PollLoop,
    /// Whether it is serving a source, rather than looking for one.
    is_busy: bool,
    /// The source that it will notice, and when.
    notices: Option<Time>,
    generation: u32,
    /// Sources that are not polled at present.
    parked: Vec<bool>,
}

impl NetworkProcessor {
    /// An idle processor.
    pub(super) fn new(polls: PollLoop) -> Self {
        Self {
            parked: vec![false; polls.sources],
            polls,
            is_busy: false,
            notices: None,
            generation: 0,
        }
    }

    fn will_notice(&mut self, at: Time, source: usize) -> Notice {
        self.generation = self.generation.wrapping_add(1);
        self.notices = Some(at);
        Notice {
            at,
            source,
            generation: self.generation,
        }
    }

    /// Notes that `source` has something. Returns a notice if that changes the processor's plans.
    pub(super) fn wake(&mut self, now: Time, source: usize) -> Option<Notice> {
        if self.is_busy || self.parked.get(source) != Some(&false) {
            return None;
        }
        let at = self.polls.notices(now, source);
        self.notices
            .is_none_or(|planned| at < planned)
            .then(|| self.will_notice(at, source))
    }

    /// Returns whether a notice whose time has come still holds. The processor is then busy until [`Self::free`].
    pub(super) fn begins(&mut self, generation: u32) -> bool {
        let holds = self.generation == generation && self.notices.take().is_some();
        self.is_busy |= holds;
        holds
    }

    /// Ends the service of a source. Returns what the processor finds next.
    pub(super) fn free(
        &mut self,
        now: Time,
        served: usize,
        has_something: impl Fn(usize) -> bool,
    ) -> Option<Notice> {
        self.is_busy = false;
        self.notices = None;
        self.polls.served(served);
        self.polls.idles(now);
        let parked = &self.parked;
        let (source, time) = self
            .polls
            .next(|source| parked.get(source) == Some(&false) && has_something(source))?;
        Some(self.will_notice(now + time, source))
    }

    /// Stops polling a source, or resumes it.
    pub(super) fn park(&mut self, source: usize, is_parked: bool) {
        if let Some(parked) = self.parked.get_mut(source) {
            *parked = is_parked;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_program_notices_at_the_next_look() {
        let polls = PollLoop::new(10, 4, 3);
        // A round: network 0..10, endpoints 10..14, 14..18, 18..22.
        assert_eq!(polls.notices(0, 0), 10);
        assert_eq!(polls.notices(1, 0), 32);
        assert_eq!(polls.notices(1, 1), 14);
        assert_eq!(polls.notices(19, 3), 44);
        assert_eq!(polls.notices(2_200, 2), 2_218);
    }

    #[test]
    fn a_program_at_work_goes_on_where_it_was() {
        let mut polls = PollLoop::new(10, 4, 3);
        polls.served(1);
        assert_eq!(polls.next(|source| source == 3), Some((3, 8)));
        assert_eq!(polls.next(|source| source == 1), Some((1, 22)));
        assert_eq!(polls.next(|_| false), None);
        // It polls endpoint 2 from 100 on, and the network from 108 on.
        polls.idles(100);
        assert_eq!(polls.notices(100, 2), 104);
        assert_eq!(polls.notices(101, 0), 118);
        assert_eq!(polls.notices(101, 2), 126);
    }
}
