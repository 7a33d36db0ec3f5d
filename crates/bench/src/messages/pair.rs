//! Two processes that exchange messages as the command orders, and their measurements.

use std::os::fd::AsRawFd;
use std::time::Duration;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::shutdown::ScratchDirectory;
use causeway_command::workers::{Event, Pool};
use causeway_sys::shared::SharedWords;

use super::effort::{Effort, in_memory, window};
use super::exchange::{Exchange, SHARED_WORDS, Side, Spread};
use super::worker::{Assignment, Order, Report};
use crate::task::Task;

/// How long one measurement may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The pair of processes, each bound to a processor where there are two.
pub(crate) struct Pair {
    pool: Pool<Report>,
    _words: SharedWords,
    scratch: ScratchDirectory,
    /// The numbers of repetitions.
    pub(crate) effort: Effort,
    /// Most TCP connections between the two; 0 leaves it to the method.
    pub(crate) tcp_connections: u8,
    processors: Vec<usize>,
}

/// Numbers of the ends in the pool.
const LEAD: usize = 0;
const FOLLOW: usize = 1;

impl Pair {
    /// Starts both processes.
    pub(crate) fn start(effort: Effort) -> Outcome<Self> {
        let doing = || "sharing words between processes".to_owned();
        let words = SharedWords::new(SHARED_WORDS).doing(doing)?;
        let inherited = words.inheritable().doing(doing)?;
        let processors =
            causeway_sys::pin::allowed_cpus().doing(|| "finding the processors".to_owned())?;
        let pinned = processors.len() > 1;
        let mut pool = Pool::default();
        for leads in [true, false] {
            let processor = processors
                .get(usize::from(!leads))
                .copied()
                .filter(|_| pinned);
            pool.start(&Task::Messages(Assignment {
                leads,
                processor,
                words: inherited.as_raw_fd(),
            }))?;
        }
        pool.gather(PATIENCE, "starting the pair of processes")?;
        let mut pair = Self {
            pool,
            _words: words,
            scratch: ScratchDirectory::new(&std::env::temp_dir(), "messages")?,
            effort,
            tcp_connections: 0,
            processors: processors.into_iter().take(2).filter(|_| pinned).collect(),
        };
        let port = pair.introduce(|port| Order::Socket {
            port: port.parse().unwrap_or(0),
        })?;
        tracing::debug!(port, "bare socket");
        Ok(pair)
    }

    /// The processors that the two processes run on, in words.
    pub(crate) fn placement(&self) -> String {
        match self.processors.as_slice() {
            [one, other] => format!("two processes, bound to processors {one} and {other}"),
            _ => {
                "there is only one processor: both processes share it, and latencies are those of \
                  the scheduler"
                    .to_owned()
            }
        }
    }

    /// Sends an order first to the end that listens, then, with its address, to the other one.
    fn introduce(&mut self, order: impl Fn(&str) -> Order) -> Outcome<String> {
        let what = "introducing the two processes";
        self.pool.send(FOLLOW, &order(""))?;
        let place = loop {
            match self.pool.event(PATIENCE) {
                Some((FOLLOW, Event::Message(Report::Listening(place)))) => break place,
                Some((_, Event::Ended(reason))) => {
                    return Err(Failure::new(
                        what,
                        reason.unwrap_or("one of them ended".to_owned()),
                    ));
                }
                Some(_) => {}
                None => {
                    return Err(Failure::new(
                        what,
                        "the listening end did not report its address",
                    ));
                }
            }
        };
        self.pool.send(LEAD, &order(&place))?;
        self.pool.gather(PATIENCE, what)?;
        Ok(place)
    }

    /// Connects both ends over a method, and returns the address; earlier connections are closed.
    pub(crate) fn open(&mut self, method: &str) -> Outcome<String> {
        let listen = match method {
            "tcp" => "tcp://127.0.0.1:0".to_owned(),
            _ => format!("{method}://{}/bench.sock", self.scratch.path().display()),
        };
        let tcp_connections = self.tcp_connections;
        self.introduce(|address| Order::Layer {
            listen: listen.clone(),
            address: address.to_owned(),
            tcp_connections,
        })
    }

    /// Has both ends carry out an order. Returns their reports, the leading end first.
    fn carry_out(&mut self, order: &Order) -> Outcome<Vec<Report>> {
        self.pool.send(FOLLOW, order)?;
        self.pool.send(LEAD, order)?;
        self.pool.gather(PATIENCE, "exchanging messages")
    }

    /// Has both ends carry out an order. Returns the seconds that it took.
    pub(crate) fn measure(&mut self, order: &Order) -> Outcome<f64> {
        let reports = self.carry_out(order)?;
        match reports.into_iter().next() {
            Some(Report::Timing(seconds)) => Ok(seconds),
            other => Err(Failure::new(
                "exchanging messages",
                format!("no time but {other:?}"),
            )),
        }
    }

    /// Exchanges messages that are timed one by one, over the method that is open.
    pub(crate) fn exchange(&mut self, exchange: Exchange) -> Outcome<Spread> {
        self.spread(&Order::Exchange(exchange))
    }

    /// Exchanges words by a bare futex, timed one by one.
    pub(crate) fn bare_futex(&mut self, exchange: Exchange) -> Outcome<Spread> {
        self.spread(&Order::BareFutex(exchange))
    }

    fn spread(&mut self, order: &Order) -> Outcome<Spread> {
        let reports = self.carry_out(order)?.into_iter();
        let sides: Vec<Side> = reports
            .filter_map(|report| match report {
                Report::Exchanged(side) => Some(side),
                _ => None,
            })
            .collect();
        Side::together(&sides)
            .ok_or_else(|| Failure::new("exchanging messages", "neither end reported its times"))
    }

    /// The 99th percentile of messages of this size, in microseconds one way, over the
    /// method that is open.
    pub(crate) fn p99(&mut self, method: &str, size: u64) -> Outcome<f64> {
        let rounds = self.effort.samples(method, size);
        let exchange = Exchange::without_pause(in_memory(size), rounds);
        Ok(self.exchange(exchange)?.p99_us)
    }

    /// Microseconds one way, over `rounds` there and back.
    pub(crate) fn one_way(&mut self, order: &Order, rounds: u64) -> Outcome<f64> {
        Ok(self.measure(order)? * 1e6 / rounds as f64 / 2.0)
    }

    /// Checks the content of one message of this size.
    pub(crate) fn check(&mut self, size: u64, allocate: bool) -> Outcome {
        let size = in_memory(size);
        self.measure(&Order::Check { size, allocate }).map(drop)
    }

    /// Microseconds one way of messages of this size, over the method that is open.
    pub(crate) fn latency(&mut self, method: &str, size: u64) -> Outcome<f64> {
        let rounds = self.effort.echoes(method, size);
        let size = in_memory(size);
        self.one_way(&Order::Latency { size, rounds }, rounds)
    }

    /// Messages of this size in a second, in acknowledged windows over the method that is open.
    pub(crate) fn stream(&mut self, size: u64, allocate: bool) -> Outcome<f64> {
        let (window, rounds) = (window(size), self.effort.windows(size));
        let seconds = self.measure(&Order::Stream {
            size: in_memory(size),
            window,
            rounds,
            allocate,
        })?;
        Ok(window as f64 * rounds as f64 / seconds.max(1e-9))
    }

    /// Microseconds one way of a cache line.
    pub(crate) fn cache_line(&mut self) -> Outcome<f64> {
        let rounds = self.effort.bounces();
        self.one_way(&Order::CacheLine { rounds }, rounds)
    }

    /// Microseconds one way of this number of bytes over a bare socket, by `rounds` round trips.
    pub(crate) fn bare(&mut self, size: u64, rounds: u64, blocking: bool) -> Outcome<f64> {
        let size = in_memory(size);
        let order = Order::Bare {
            size,
            rounds,
            blocking,
        };
        self.one_way(&order, rounds)
    }

    /// Millions of bytes per second that one process copies, this many at a time.
    pub(crate) fn copy(&mut self, size: u64) -> Outcome<f64> {
        let rounds = self.effort.rounds(size, 1_000_000);
        let seconds = self.measure(&Order::Copy {
            size: in_memory(size),
            rounds,
        })?;
        Ok(rounds as f64 * size as f64 / 1e6 / seconds.max(1e-9))
    }
}
