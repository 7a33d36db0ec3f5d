//! What a match costs, with few and with many receives and messages waiting.
//!
//! Prints nanoseconds for a receive that finds its message and for a message that finds its receive, with 10 and with
//! 10,000 of each waiting, for BMI's matcher and for MPI's without wildcards: the median of several rounds.
//!
//! `cargo run --release -p causeway-testkit --example matching`

use std::hint::black_box;
use std::time::Instant;

use causeway_engine::matcher::{ByTag, FromTag, Matcher};
use causeway_mpi::matching::{Mpi, MpiPattern};
use causeway_testkit::random::Random;

const FEW: u32 = 10;
const MANY: u32 = 10_000;
const MATCHES: usize = 200_000;
const ROUNDS: usize = 9;
const PEERS: u32 = 16;

/// What one round measures: ns of a receive, and of a message.
type Pair = [f64; 2];

fn main() {
    println!("ns per match            with {FEW:>6}    with {MANY:>6}    ratio");
    line::<ByTag>("bmi", |peer, tag| FromTag { peer, tag });
    line::<Mpi>("mpi, no wildcards", |peer, word| MpiPattern {
        context: (word >> 32) as u32,
        source: Some(peer),
        tag: Some(word as u32),
    });
}

/// The peer and the word of the message of this number: different ones for all.
fn message(number: u32) -> (u32, u64) {
    (number % PEERS, MpiPattern::word(1, number / PEERS))
}

fn line<M: Matcher>(name: &str, pattern: impl Fn(u32, u64) -> M::Pattern + Copy) {
    let mut rounds: Vec<_> = (0..ROUNDS)
        .map(|_| (round::<M>(FEW, pattern), round::<M>(MANY, pattern)))
        .collect();
    for (what, which) in [("receive", 0), ("message", 1)] {
        let mut median = |of: fn(&(Pair, Pair)) -> Pair| {
            rounds.sort_by(|a, b| of(a)[which].total_cmp(&of(b)[which]));
            of(&rounds[ROUNDS / 2])[which]
        };
        let (few, many) = (median(|round| round.0), median(|round| round.1));
        let ratio = many / few;
        println!("{name:<18}{what:<8}{few:>8.1}{many:>15.1}{ratio:>12.2}");
    }
}

/// Nanoseconds of a receive that finds its message and is replaced by another, and of a message that finds its receive,
/// among `count` posted receives and as many held messages.
fn round<M: Matcher>(count: u32, pattern: impl Fn(u32, u64) -> M::Pattern) -> Pair {
    let mut matcher = M::default();
    // Receives are those of even numbers, messages of odd ones.
    let received = |slot: u32| message(2 * slot);
    let held = |slot: u32| message(2 * slot + 1);
    for slot in 0..count {
        let (peer, word) = received(slot);
        matcher.post(slot, pattern(peer, word));
        let (peer, word) = held(slot);
        matcher.hold(slot, peer, word);
    }
    let mut random = Random::new(u64::from(count));
    let order: Vec<u32> = (0..MATCHES)
        .map(|_| random.below(count as usize) as u32)
        .collect();
    let start = Instant::now();
    for &slot in &order {
        let (peer, word) = held(slot);
        let found = matcher.take(pattern(peer, word));
        assert_eq!(black_box(found), Some(slot));
        matcher.hold(slot, peer, word);
    }
    let receive = start.elapsed();
    let start = Instant::now();
    for &slot in &order {
        let (peer, word) = received(slot);
        let found = matcher.arrive(peer, word);
        assert_eq!(black_box(found), Some(slot));
        matcher.post(slot, pattern(peer, word));
    }
    let message = start.elapsed();
    [receive, message].map(|time| time.as_nanos() as f64 / MATCHES as f64)
}
