//! The processors of a process's first thread, where a launcher has chosen one for it: it stays on its processor while it sleeps,
//! and goes to its own when it has yielded to another thread.
//!
//! A program of its own, since the test harness runs tests in further threads. Another thread looks at what the system says; and
//! the endpoint's clock is the test's, so that other load of the machine decides nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use causeway_engine::matcher::ByTag;
use causeway_engine::types::{Clock, Config, Queue};
use causeway_engine::{Endpoint, Waker};
use causeway_sys::pin;
use causeway_testkit::patience;

/// How long a sleep lasts that nobody ends.
const LONG: Duration = Duration::from_secs(600);
/// How long a yield takes by the test's clock that runs no other thread, and one that does, in nanoseconds.
const QUICK: u64 = 100;
const SLOW: u64 = 20_000;

fn endpoint(config: Config) -> (Endpoint<ByTag>, Queue) {
    let config = Config {
        publish: false,
        ..config
    };
    let mut endpoint = Endpoint::new(config).unwrap();
    let queue = endpoint.open_queue().unwrap();
    (endpoint, queue)
}

/// On how many processors the first thread may run while it sleeps; then ends its sleep.
fn observe(waker: &Waker) -> usize {
    let mut before = None;
    let processors = patience::eventually("the first thread sleeps", || {
        let now = Status::read();
        let is_asleep = now.is_asleep && before == Some(now);
        before = Some(now);
        is_asleep.then_some(now.processors)
    });
    waker.wake();
    processors
}

/// The state of the process's first thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Status {
    is_asleep: bool,
    /// How often it has gone to sleep.
    sleeps: u64,
    processors: usize,
}

impl Status {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/self/status").unwrap();
        let pairs = text.lines().filter_map(|line| line.split_once(":\t"));
        let fields: BTreeMap<&str, &str> = pairs.collect();
        // Groups of hexadecimal digits.
        let digits = fields["Cpus_allowed"]
            .chars()
            .filter_map(|c| c.to_digit(16));
        Self {
            is_asleep: fields["State"].starts_with('S'),
            sleeps: fields["voluntary_ctxt_switches"].parse().unwrap(),
            processors: digits.map(|digit| digit.count_ones() as usize).sum(),
        }
    }
}

/// It sleeps in a method, on descriptors, and detached from the endpoint.
fn sleeps_where_it_is(allowed: &[usize]) {
    let directory = tempfile::tempdir().unwrap();
    let shm = format!("shm://{}", directory.path().join("socket").display());
    let tcp = "tcp://127.0.0.1:0".to_owned();
    for (listen, is_detached) in [(&shm, false), (&tcp, false), (&shm, true), (&tcp, true)] {
        for prefers in [true, false] {
            let (mut endpoint, queue) = endpoint(Config {
                listen: vec![listen.clone()],
                spin: Duration::ZERO,
                clock: clock(&Arc::new(AtomicU64::new(QUICK))),
                ..Config::default()
            });
            if prefers {
                endpoint.prefer_processor(allowed[0]);
            }
            let waker = endpoint.waker();
            let observer = std::thread::spawn(move || observe(&waker));
            if is_detached {
                let mut parked = endpoint.prepare_wait(None, &[]).unwrap();
                assert!(parked.is_sleep());
                parked.wait();
                endpoint.finish_wait(parked);
            } else {
                assert!(!endpoint.wait(queue, LONG));
            }
            let processors = observer.join().unwrap();
            let expected = if prefers { 1 } else { allowed.len() };
            assert_eq!(processors, expected, "{listen}, {is_detached}, {prefers}");
            assert_eq!(pin::allowed_cpus().unwrap(), allowed);
        }
    }
    println!("the first thread stays on its processor while it sleeps: ok");
}

/// A clock by which everything takes as long as `step` says, in nanoseconds.
fn clock(step: &Arc<AtomicU64>) -> Clock {
    let (start, passed, step) = (Instant::now(), AtomicU64::new(0), Arc::clone(step));
    Clock::new(move || {
        let step = step.load(Relaxed);
        start + Duration::from_nanos(step + passed.fetch_add(step, Relaxed))
    })
}

/// Each yield of the second wait has run other threads, by the clock. The system may move the thread at any time, and seldom does.
fn goes_to_its_own(allowed: &[usize]) {
    const ROUNDS: usize = 40;
    let mut arrived = 0;
    for round in 0..ROUNDS {
        let own = allowed[round % 2];
        let other = allowed[(round + 1) % 2];
        let step = Arc::new(AtomicU64::new(QUICK));
        let (mut endpoint, queue) = endpoint(Config {
            spin: LONG,
            clock: clock(&step),
            ..Config::default()
        });
        assert!(!endpoint.wait(queue, Duration::from_micros(100)));
        endpoint.prefer_processor(own);
        pin::move_to_cpu(other).unwrap();
        step.store(SLOW, Relaxed);
        assert!(!endpoint.wait(queue, Duration::from_millis(5)));
        arrived += usize::from(pin::current_cpu() == own);
        assert_eq!(pin::allowed_cpus().unwrap(), allowed);
    }
    println!("{arrived} of {ROUNDS}");
    assert!(arrived > ROUNDS / 2, "{arrived} of {ROUNDS}");
    println!("the first thread goes to its own processor: ok");
}

fn main() {
    assert!(pin::is_first_thread());
    let allowed = pin::allowed_cpus().unwrap();
    if allowed.len() < 2 {
        println!("there is one processor alone, and nothing to see");
        return;
    }
    sleeps_where_it_is(&allowed);
    goes_to_its_own(&allowed);
}
