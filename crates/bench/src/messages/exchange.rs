//! Round trips that are timed one by one: their mean, median and 99th percentile. Between messages
//! each side does nothing, sleeps or computes, which is not counted.
//!
//! `compare/peers/mpi.c` does the same over MPI.

use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Memory};
use causeway_command::failure::{Failure, Outcome};
use causeway_report::rows::median;
use causeway_sys::futex;
use causeway_sys::shared::SharedWords;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

use crate::layer::{Layer, PATIENCE};

/// Tag of the messages.
const EXCHANGE: u64 = 4;
/// Bytes for a word at the start of a message, if the message is large enough.
const WORD_BYTES: usize = 8;
/// Messages there and back before the times are taken.
pub(crate) const WARM_UP_EXCHANGES: u64 = 10;

/// A side's work before it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Between {
    /// Nothing.
    Nothing,
    /// It sleeps for this number of microseconds.
    Sleeps(u32),
    /// It computes for this number of microseconds.
    Computes(u32),
}

impl Between {
    fn pass(self) {
        match self {
            Self::Nothing => {}
            Self::Sleeps(microseconds) => {
                std::thread::sleep(Duration::from_micros(microseconds.into()));
            }
            Self::Computes(microseconds) => {
                let began = Instant::now();
                let time = Duration::from_micros(microseconds.into());
                while began.elapsed() < time {
                    std::hint::spin_loop();
                }
            }
        }
    }
}

/// How many round trips are made, and the work of both sides in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// Bytes of a message.
    pub(crate) size: usize,
    /// The largest number of round trips.
    pub(crate) rounds: u64,
    /// The longest time; 0 for no limit. Only messages of eight bytes and more can carry that the time is over.
    pub(crate) milliseconds: u64,
    /// Work of the leading side before it sends.
    pub(crate) lead: Between,
    /// Work of the other side before it replies.
    pub(crate) follow: Between,
}

impl Exchange {
    /// Messages back and forth without a pause.
    pub(crate) fn without_pause(size: usize, rounds: u64) -> Self {
        Self {
            size,
            rounds,
            milliseconds: 0,
            lead: Between::Nothing,
            follow: Between::Nothing,
        }
    }

    /// The same with fewer rounds.
    fn warm_up(self) -> Self {
        Self {
            rounds: self.rounds.min(WARM_UP_EXCHANGES),
            milliseconds: 0,
            ..self
        }
    }
}

/// Results of an exchange: times of one way, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spread {
    pub(crate) mean_us: f64,
    pub(crate) median_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of both sides together, for each message.
    pub(crate) cpu_us: f64,
}

/// Measurements of one side of an exchange.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Side {
    /// The leading side's mean, median and 99th percentile; none from the other one.
    times: Option<[f64; 3]>,
    rounds: u64,
    cpu_s: f64,
}

impl Side {
    /// The figures of both sides together; none if no side led.
    pub(crate) fn together(sides: &[Self]) -> Option<Spread> {
        let lead = sides.iter().find(|side| side.times.is_some())?;
        let [mean_us, median_us, p99_us] = lead.times?;
        let cpu_s: f64 = sides.iter().map(|side| side.cpu_s).sum();
        Some(Spread {
            mean_us,
            median_us,
            p99_us,
            cpu_us: cpu_s * 1e6 / (2 * lead.rounds) as f64,
        })
    }
}

/// The carrier of the messages of an exchange.
pub(crate) trait Carrier {
    /// Sends a message with a word in it, if it has room for one.
    fn send(&mut self, word: u64) -> Outcome;

    /// Awaits a message, for a bounded time; its word, if it has one.
    fn receive(&mut self) -> Outcome<Option<u64>>;
}

/// Carries messages of one size over the message layer.
pub(crate) struct LayerCarrier<'a> {
    pub(crate) layer: &'a mut Layer,
    pub(crate) peer: Addr,
    /// The send buffer. It is not the receive buffer, as in the latency benchmarks of MPI and UCX:
    /// a message whose bytes were just written takes longer if its receiver reads them from the
    /// sender's memory.
    pub(crate) out: Memory,
    pub(crate) into: Memory,
}

impl Carrier for LayerCarrier<'_> {
    fn send(&mut self, word: u64) -> Outcome {
        if self.out.len() >= WORD_BYTES {
            self.out.write_at(0, &word.to_le_bytes());
        }
        let sent = self.layer.send(self.peer, &self.out, EXCHANGE)?;
        self.layer.complete(sent).map(drop)
    }

    fn receive(&mut self) -> Outcome<Option<u64>> {
        let awaited = self.layer.receive(self.peer, &self.into, EXCHANGE)?;
        self.layer.complete(awaited)?;
        let mut bytes = [0; WORD_BYTES];
        Ok((self.into.len() >= WORD_BYTES).then(|| {
            self.into.read_at(0, &mut bytes);
            u64::from_le_bytes(bytes)
        }))
    }
}

/// Pairs of cache lines that are bounced, and the words of a pair: its lines are two lines apart,
/// since processors fetch lines in pairs.
pub(crate) const PAIRS: usize = 8;
pub(crate) const PAIR_WORDS: usize = 32;
/// The words that two processes share: those pairs, followed by the words of a bare futex.
pub(crate) const SHARED_WORDS: usize = (PAIRS + 2) * PAIR_WORDS;
/// Counters of messages and the words that they carry, by direction, each on cache lines of its own.
const COUNTERS: [usize; 2] = [PAIRS * PAIR_WORDS, PAIRS * PAIR_WORDS + 16];
const SAID: [usize; 2] = [PAIRS * PAIR_WORDS + 32, PAIRS * PAIR_WORDS + 48];

/// Carries words by a futex alone: the least cost of a message that has to wake a process.
pub(crate) struct BareFutex<'a> {
    pub(crate) words: &'a SharedWords,
    pub(crate) leads: bool,
    /// Messages that this side has received since the words were made.
    pub(crate) received: &'a mut u64,
}

impl Carrier for BareFutex<'_> {
    fn send(&mut self, word: u64) -> Outcome {
        let direction = usize::from(!self.leads);
        let (said, counter) = (self.word(SAID, direction)?, self.word(COUNTERS, direction)?);
        said.store(word, Ordering::Relaxed);
        counter.fetch_add(1, Ordering::Release);
        futex::wake(counter);
        Ok(())
    }

    fn receive(&mut self) -> Outcome<Option<u64>> {
        let direction = usize::from(self.leads);
        let (said, counter) = (self.word(SAID, direction)?, self.word(COUNTERS, direction)?);
        let began = Instant::now();
        while counter.load(Ordering::Acquire) == *self.received {
            futex::wait(counter, *self.received, Some(PATIENCE));
            if began.elapsed() > PATIENCE {
                return Err(Failure::new(
                    "waiting for a bare futex",
                    "the other end is silent",
                ));
            }
        }
        let word = said.load(Ordering::Relaxed);
        *self.received += 1;
        Ok(Some(word))
    }
}

impl BareFutex<'_> {
    fn word(&self, places: [usize; 2], direction: usize) -> Outcome<&std::sync::atomic::AtomicU64> {
        let place = places
            .get(direction)
            .and_then(|at| self.words.words().get(*at));
        place.ok_or_else(|| {
            Failure::new("waiting for a bare futex", "there are too few shared words")
        })
    }
}

/// Carries out one side of an exchange, after a short one that warms up.
pub(crate) fn run(leads: bool, exchange: &Exchange, carrier: &mut impl Carrier) -> Outcome<Side> {
    let side = match leads {
        true => lead,
        false => follow,
    };
    side(&exchange.warm_up(), carrier)?;
    side(exchange, carrier)
}

fn lead(exchange: &Exchange, carrier: &mut impl Carrier) -> Outcome<Side> {
    // Written now, so that no page fault comes later.
    let mut times = vec![f64::NAN; usize::try_from(exchange.rounds).unwrap_or(0)];
    let limit = Duration::from_millis(exchange.milliseconds);
    let says_when = exchange.size >= WORD_BYTES && !limit.is_zero();
    let (began, used) = (Instant::now(), cpu_seconds());
    let mut rounds = 0;
    let last_place = times.len().saturating_sub(1);
    for (place, time) in times.iter_mut().enumerate() {
        exchange.lead.pass();
        let sent = Instant::now();
        let last = place == last_place || (says_when && sent.duration_since(began) >= limit);
        carrier.send(u64::from(last))?;
        let held = carrier.receive()?.unwrap_or(0);
        let both_ways = sent.elapsed().saturating_sub(Duration::from_nanos(held));
        *time = both_ways.as_secs_f64() * 1e6 / 2.0;
        rounds += 1;
        if last {
            break;
        }
    }
    let cpu_s = cpu_seconds() - used;
    times.truncate(rounds);
    Ok(Side {
        times: Some(summary(&mut times)),
        rounds: rounds as u64,
        cpu_s,
    })
}

fn follow(exchange: &Exchange, carrier: &mut impl Carrier) -> Outcome<Side> {
    let used = cpu_seconds();
    let mut rounds = 0;
    let mut last = exchange.rounds == 0;
    while !last {
        let word = carrier.receive()?;
        let mut held = 0;
        if exchange.follow != Between::Nothing {
            let came = Instant::now();
            exchange.follow.pass();
            held = u64::try_from(came.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        carrier.send(held)?;
        rounds += 1;
        last = match word {
            Some(word) => word != 0,
            None => rounds == exchange.rounds,
        };
    }
    Ok(Side {
        times: None,
        rounds,
        cpu_s: cpu_seconds() - used,
    })
}

/// Mean, median and 99th percentile.
fn summary(times: &mut [f64]) -> [f64; 3] {
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
    // The smallest time that at most a hundredth of all exceed.
    let rank = (times.len() * 99).div_ceil(100).saturating_sub(1);
    let p99 = times.get(rank).copied().unwrap_or(0.0);
    [mean, median(times), p99]
}

/// Processor time that this process has used.
pub(crate) fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundredth_of_the_times_is_above_the_99th_percentile() {
        let mut times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(summary(&mut times), [100.5, 100.5, 198.0]);
        assert_eq!(summary(&mut [7.0]), [7.0, 7.0, 7.0]);
        assert_eq!(summary(&mut []), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn both_sides_processor_time_counts_for_each_message() {
        let lead = Side {
            times: Some([1.0, 2.0, 3.0]),
            rounds: 50,
            cpu_s: 0.003,
        };
        let follow = Side {
            times: None,
            rounds: 50,
            cpu_s: 0.001,
        };
        let spread = Side::together(&[lead, follow.clone()]).unwrap();
        assert!((spread.cpu_us - 40.0).abs() < 1e-9, "{spread:?}");
        assert_eq!((spread.mean_us, spread.p99_us), (1.0, 3.0));
        assert!(Side::together(&[follow]).is_none());
    }

    /// Both sides of an exchange over a bare futex, in two threads.
    fn exchanged(exchange: Exchange) -> (Side, Side) {
        let words = SharedWords::new(SHARED_WORDS).unwrap();
        std::thread::scope(|scope| {
            let side = |leads| {
                let words = &words;
                scope.spawn(move || {
                    let mut received = 0;
                    let mut carrier = BareFutex {
                        words,
                        leads,
                        received: &mut received,
                    };
                    run(leads, &exchange, &mut carrier).unwrap()
                })
            };
            let (lead, follow) = (side(true), side(false));
            (lead.join().unwrap(), follow.join().unwrap())
        })
    }

    #[test]
    fn time_at_the_other_side_is_not_part_of_the_latency() {
        let (lead, follow) = exchanged(Exchange {
            size: 8,
            rounds: 5,
            milliseconds: 0,
            lead: Between::Nothing,
            follow: Between::Sleeps(300_000),
        });
        assert_eq!((lead.rounds, follow.rounds), (5, 5));
        let [_, median, _] = lead.times.unwrap();
        // One way takes some microseconds; on a busy machine, some milliseconds.
        assert!(median < 100_000.0, "{median}");
    }

    #[test]
    fn an_exchange_ends_when_its_time_is_over() {
        let (lead, follow) = exchanged(Exchange {
            size: 8,
            rounds: 1 << 20,
            milliseconds: 20,
            lead: Between::Sleeps(1000),
            follow: Between::Computes(50),
        });
        assert!(
            lead.rounds < 1 << 20 && lead.rounds == follow.rounds,
            "{lead:?}"
        );
    }
}
