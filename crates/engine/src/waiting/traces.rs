//! Replays recorded waits against the policy. `traces/README.md` describes how each was recorded.
//!
//! A recording has the times of events: how long the caller computed, when the message came, how long yields took. The
//! replay is a closed loop, since another policy makes other decisions: a yield takes as long as the next one of the
//! same wait in the recording, or of all waits; polls take as long as they took; and parking ends one wake-up's time
//! after the message has arrived. Where threads share processors (`contended`) a message comes when others have had the
//! processor for as long as they had it in the recording; elsewhere it comes at its time, whatever the waiting thread
//! does.

mod table;

use super::*;

/// One wait of a recording.
struct Record {
    gap: Duration,
    wait: Duration,
    /// The duration of one poll.
    poll: Duration,
    yields: Vec<(Duration, Option<u32>)>,
    parked: Duration,
}

/// A recording, and the conditions under which it was made.
struct Trace {
    is_contended: bool,
    /// Messages, if the recording does not say otherwise.
    awaited: Awaited,
    /// The time that a wake-up takes.
    wake: Duration,
    records: Vec<Record>,
}

/// A thread that only computes, or runs beside others for so long without yielding, is preempted.
const PREEMPTED_AFTER: Duration = Duration::from_millis(3);

impl Trace {
    fn parse(text: &str) -> Self {
        let mut trace = Self {
            is_contended: false,
            awaited: Awaited::Messages,
            wake: Duration::ZERO,
            records: Vec::new(),
        };
        for line in text.lines() {
            match line.strip_prefix("# ").map(str::trim) {
                Some("contended") => trace.is_contended = true,
                Some("step") => trace.awaited = Awaited::Step,
                Some(header) => {
                    if let Some(ns) = header.strip_prefix("wake_ns ") {
                        trace.wake = nanoseconds(ns);
                    }
                }
                None => trace.records.push(Record::parse(line)),
            }
        }
        assert!(trace.records.len() > 100 && !trace.wake.is_zero());
        trace
    }

    fn ring() -> Self {
        Self::parse(include_str!("traces/ring.trace"))
    }

    fn many_to_one() -> Self {
        Self::parse(include_str!("traces/many-to-one.trace"))
    }

    fn barrier() -> Self {
        Self::parse(include_str!("traces/barrier.trace"))
    }

    fn cpu_bound() -> Self {
        Self::parse(include_str!("traces/cpu-bound.trace"))
    }
}

impl Record {
    fn parse(line: &str) -> Self {
        let fields: Vec<&str> = line.split(' ').collect();
        let &[gap, wait, polls, polled, _steps, yields, parkings] = &fields[..] else {
            panic!("a record is cut short: {line}");
        };
        let entries = |list: &str| -> Vec<(Duration, Option<u32>)> {
            let entry = |entry: &str| match entry.split_once(':') {
                Some((took, queue)) => (nanoseconds(took), Some(queue.parse().expect("a number"))),
                None => (nanoseconds(entry), None),
            };
            let parts = list.split(',').filter(|part| *part != "-");
            parts.map(entry).collect()
        };
        let polls: u32 = polls.parse().expect("a number");
        Self {
            gap: nanoseconds(gap),
            wait: nanoseconds(wait),
            poll: nanoseconds(polled) / polls.max(1),
            yields: entries(yields),
            parked: entries(parkings).iter().map(|(took, _)| *took).sum(),
        }
    }

    /// How long others had the processor.
    fn off(&self) -> Duration {
        let yielded: Duration = self.yields.iter().map(|(took, _)| *took).sum();
        yielded + self.parked
    }
}

fn nanoseconds(text: &str) -> Duration {
    Duration::from_nanos(text.parse().expect("a number"))
}

/// The costs of a policy in a recording, for each wait.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    parkings: f64,
    yields: f64,
    /// Time of polls that found nothing.
    polled_us: f64,
    /// From the arrival of the message until it was found.
    late_us: f64,
}

/// A world that replays a recording.
struct Replay<'a> {
    policy: Policy,
    trace: &'a Trace,
    /// All yields of the recording, one after the other, again and again.
    yields: std::iter::Cycle<std::vec::IntoIter<(Duration, Option<u32>)>>,
    now: Instant,
    /// Since when the thread has had the processor.
    running_since: Instant,
    poll: Duration,
    /// The yields of this wait in the recording.
    own: Vec<(Duration, Option<u32>)>,
    /// What is left until the message comes, where that depends on others having the processor.
    left: Duration,
    /// When it comes, where it does not.
    at: Instant,
    parkings: u32,
    yielded: u32,
    polled: Duration,
    late: Duration,
}

impl<'a> Replay<'a> {
    fn run(trace: &'a Trace, constants: Constants) -> Cost {
        let now = super::tests::start();
        let mut yields: Vec<_> = trace
            .records
            .iter()
            .flat_map(|r| r.yields.clone())
            .collect();
        if yields.is_empty() {
            yields.push((constants.lone_yield, None));
        }
        let mut replay = Self {
            policy: Policy::with(constants, Duration::from_micros(50), now),
            trace,
            yields: yields.into_iter().cycle(),
            now,
            running_since: now,
            poll: Duration::ZERO,
            own: Vec::new(),
            left: Duration::ZERO,
            at: now,
            parkings: 0,
            yielded: 0,
            polled: Duration::ZERO,
            late: Duration::ZERO,
        };
        for record in &trace.records {
            replay.wait(record);
        }
        let waits = trace.records.len() as f64;
        let us = |time: Duration| time.as_secs_f64() * 1e6 / waits;
        Cost {
            parkings: f64::from(replay.parkings) / waits,
            yields: f64::from(replay.yielded) / waits,
            polled_us: us(replay.polled),
            late_us: us(replay.late),
        }
    }

    fn wait(&mut self, record: &Record) {
        self.now += record.gap;
        self.poll = record.poll.max(Duration::from_nanos(1));
        let begin = self.now;
        self.own = record.yields.iter().rev().copied().collect();
        self.left = record.off();
        // A wait that ended by parking ended one wake-up's time after the message had arrived.
        let came = match record.parked.is_zero() {
            true => record.wait,
            false => record.wait.saturating_sub(self.trace.wake),
        };
        self.at = begin + came;
        let due = match self.trace.is_contended {
            true => begin + self.left,
            false => self.at,
        };
        if self.policy.count_call() {
            self.policy.clock_read(self.now);
        }
        if self.policy.enter() {
            self.yield_processor();
        }
        let awaited = self.trace.awaited;
        let polls = self.policy.first_polls(awaited);
        if self.polls_find(polls) || self.first_yields_find() {
            self.policy.arrived_at_once(awaited);
        } else {
            self.go_on();
        }
        self.late += self.now.saturating_duration_since(due);
    }

    /// Yields without notifying the policy, as it requests.
    fn first_yields_find(&mut self) -> bool {
        let (awaited, now) = (self.trace.awaited, self.now);
        for _ in 0..self.policy.first_yields(awaited, || now) {
            let (took, _) = self.next_yield();
            self.others_ran(took);
            self.yielded += 1;
            if self.polls_find(self.policy.polls_per_yield(awaited)) {
                return true;
            }
        }
        false
    }

    fn next_yield(&mut self) -> (Duration, Option<u32>) {
        let next = self.own.pop().or_else(|| self.yields.next());
        next.expect("it has no end")
    }

    fn go_on(&mut self) {
        let mut decision = self.policy.begin(self.trace.awaited, self.now);
        loop {
            decision = match decision {
                Decision::Poll(polls) => {
                    if self.polls_find(polls) {
                        break;
                    }
                    self.policy.polled(polls, false, self.now)
                }
                Decision::Yield => {
                    self.yield_processor();
                    self.policy.resume(self.now)
                }
                Decision::Park => {
                    self.park();
                    if self.polls_find(1) {
                        break;
                    }
                    self.policy.resume(self.now)
                }
            };
        }
        self.policy.arrived(self.now);
    }

    fn is_there(&self) -> bool {
        match self.trace.is_contended {
            true => self.left.is_zero(),
            false => self.now >= self.at,
        }
    }

    /// Polls `polls` times, or until the message is found.
    fn polls_find(&mut self, polls: u32) -> bool {
        for _ in 0..polls {
            if self.is_there() {
                return true;
            }
            self.now += self.poll;
            self.polled += self.poll;
            let ran = self.now - self.running_since;
            if self.trace.is_contended && ran >= PREEMPTED_AFTER {
                self.now += std::mem::take(&mut self.left);
                self.running_since = self.now;
            }
        }
        false
    }

    fn others_ran(&mut self, took: Duration) {
        self.now += took;
        self.left = self.left.saturating_sub(took);
        self.running_since = self.now;
    }

    fn yield_processor(&mut self) {
        let (took, run_queue) = self.next_yield();
        let from = self.now;
        self.others_ran(took);
        self.yielded += 1;
        self.policy.yielded(Yielded {
            from,
            until: self.now,
            switched: None,
            run_queue,
        });
    }

    fn park(&mut self) {
        if self.is_there() {
            return;
        }
        let from = self.now;
        let left = match self.trace.is_contended {
            true => self.left,
            false => self.at - self.now,
        };
        self.others_ran(left + self.trace.wake);
        self.parkings += 1;
        self.policy.parked(from, self.now);
    }
}

fn fits(cost: Cost, most: Cost) -> bool {
    cost.parkings <= most.parkings
        && cost.yields <= most.yields
        && cost.polled_us <= most.polled_us
        && cost.late_us <= most.late_us
}

/// A recording's name, how to read it, and what a wait of it may cost.
type Case = (&'static str, fn() -> Trace, Cost);

/// The bound of each recording's cost for each wait: a quarter more than the cost now.
const CASES: [Case; 4] = [
    (
        "ring",
        Trace::ring,
        Cost {
            parkings: 0.0,
            yields: 5.4,
            polled_us: 3.0,
            late_us: 3.0,
        },
    ),
    (
        "many-to-one",
        Trace::many_to_one,
        Cost {
            parkings: 0.01,
            yields: 4.6,
            polled_us: 10.8,
            late_us: 16.1,
        },
    ),
    (
        "cpu-bound",
        Trace::cpu_bound,
        Cost {
            parkings: 0.12,
            yields: 0.1,
            polled_us: 2.9,
            late_us: 162.0,
        },
    ),
    (
        "barrier",
        Trace::barrier,
        Cost {
            parkings: 0.0,
            yields: 1.3,
            polled_us: 0.7,
            late_us: 0.7,
        },
    ),
];

#[test]
fn recorded_waits_cost_no_more_than_they_did() {
    for (name, trace, most) in CASES {
        let cost = Replay::run(&trace(), Constants::USUAL);
        println!("{name}: {cost:?}");
        assert!(fits(cost, most), "{name}: {cost:?} is above {most:?}");
    }
}

/// What would harm a case is noticed: the bounds are tight enough.
#[test]
fn policies_that_harm_a_case_are_found() {
    let harms: [(usize, &str, Constants); 5] = [
        (
            0,
            "parks beside others that wait",
            Constants {
                contended_factor: 0,
                ..Constants::USUAL
            },
        ),
        (
            0,
            "polls on where others want the processor",
            Constants {
                lone_yield: Duration::from_micros(100),
                ..Constants::USUAL
            },
        ),
        (
            1,
            "takes many that wait for a CPU-bound thread",
            Constants {
                long_yield: Duration::from_micros(100),
                ..Constants::USUAL
            },
        ),
        (
            2,
            "yields to a CPU-bound thread",
            Constants {
                backoff_waits: 0,
                ..Constants::USUAL
            },
        ),
        (
            3,
            "looks for long before it yields to others that come to the same place",
            Constants {
                step_polls: 100,
                ..Constants::USUAL
            },
        ),
    ];
    for (case, harm, constants) in harms {
        let (name, trace, most) = CASES[case];
        let cost = Replay::run(&trace(), constants);
        println!("{harm}: {cost:?}");
        assert!(!fits(cost, most), "{name}, a policy that {harm}: {cost:?}");
    }
}
