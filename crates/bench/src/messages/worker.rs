//! One end of a pair of processes that exchange messages, over the message layer and over bare
//! sockets and cache lines.
//!
//! Both ends are sent the same orders. The first end leads: it sends first, measures the time and
//! reports it; the second one echoes.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use causeway_bmi::{Addr, Config, Memory};
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::workers::Channel;
use causeway_sys::shared::SharedWords;
use serde::{Deserialize, Serialize};

use super::exchange::{self, BareFutex, Exchange, LayerCarrier, PAIR_WORDS, PAIRS, Side};
use crate::batches::Batches;
use crate::layer::{Begun, Layer, PATIENCE, content};

/// Tag of echoed messages, and of acknowledgements of a window.
const ECHO: u64 = 1;
const WINDOW: u64 = 2;
const ACK: u64 = 3;

/// Rounds before each measurement, with the same memory: both ends reach the point where they wait
/// for each other, and pages and mappings exist. The peers of `bench compare` do the same.
const WARM_UP_ROUNDS: u64 = 50;
const WARM_UP_WINDOWS: u64 = 2;

/// Which end this process is, and where it runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// This end sends first and measures the time.
    pub(crate) leads: bool,
    /// The processor to run on, if there are two.
    pub(crate) processor: Option<usize>,
    /// Number of the inherited descriptor of the shared words.
    pub(crate) words: i32,
}

/// The next step of both ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Opens a bare socket pair: the second end listens and reports the port, which the first one
    /// is sent.
    Socket { port: u16 },
    /// Starts the message layer: the second end listens and reports the address, which the first
    /// one is sent.
    Layer {
        listen: String,
        address: String,
        /// See [`Config::tcp_connections`].
        tcp_connections: u8,
    },
    /// Bounces a cache line.
    CacheLine { rounds: u64 },
    /// Bounces bytes over the bare socket.
    Bare {
        size: usize,
        rounds: u64,
        blocking: bool,
    },
    /// Copies memory inside one process.
    Copy { size: usize, rounds: u64 },
    /// Bounces messages, after warming up.
    Latency { size: usize, rounds: u64 },
    /// Exchanges messages that are timed one by one.
    Exchange(Exchange),
    /// Exchanges words by a bare futex.
    BareFutex(Exchange),
    /// The second end awaits this number of other peers that connect to it.
    Meet { count: usize },
    /// Bounces eight bytes while the second end receives messages of those other peers.
    LatencyBesidePeers { rounds: u64 },
    /// Sends windows of messages, each window acknowledged, after warming up.
    Stream {
        size: usize,
        window: usize,
        rounds: u64,
        allocate: bool,
    },
    /// Sends one message with known content, which the other end compares.
    Check { size: usize, allocate: bool },
}

/// The report of an end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It has begun and pinned itself.
    Ready,
    /// The address at which this end listens.
    Listening(String),
    /// Seconds that the order took, by the median of its parts; 0 from the end that does not lead.
    Timing(f64),
    /// The measurements of this end in an exchange.
    Exchanged(Side),
}

struct End {
    leads: bool,
    words: SharedWords,
    socket: Option<TcpStream>,
    layer: Option<(Layer, Addr)>,
    /// Messages that arrived by a bare futex.
    woken: u64,
}

/// Runs an end until the command closes its input.
pub(crate) fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    if let Some(processor) = assignment.processor {
        causeway_sys::pin::pin_to_cpu(processor).doing(|| "choosing a processor".to_owned())?;
    }
    let mut end = End {
        leads: assignment.leads,
        words: SharedWords::inherited(assignment.words)
            .doing(|| "mapping the shared words".to_owned())?,
        socket: None,
        layer: None,
        woken: 0,
    };
    channel.send(&Report::Ready)?;
    while let Some(order) = channel.receive::<Order>()? {
        let report = end.carry_out(&order, channel)?;
        channel.send(&report)?;
    }
    Ok(())
}

impl End {
    fn carry_out(&mut self, order: &Order, channel: &mut Channel) -> Outcome<Report> {
        let took = match order {
            Order::Socket { port } => return self.open_socket(*port, channel),
            Order::Layer {
                listen,
                address,
                tcp_connections,
            } => {
                let settings = Config {
                    tcp_connections: *tcp_connections,
                    ..Config::default()
                };
                return self.open_layer(listen, address, settings, channel);
            }
            Order::CacheLine { rounds } => self.cache_line(*rounds)?,
            Order::Bare {
                size,
                rounds,
                blocking,
            } => self.bare(*size, *rounds, *blocking)?,
            Order::Copy { size, rounds } => match self.leads {
                true => copy(*size, *rounds),
                false => 0.0,
            },
            Order::Exchange(exchange) => {
                let side = self.layer()?.exchange(exchange)?;
                return Ok(Report::Exchanged(side));
            }
            Order::BareFutex(exchange) => {
                let mut carrier = BareFutex {
                    words: &self.words,
                    leads: self.leads,
                    received: &mut self.woken,
                };
                let side = exchange::run(self.leads, exchange, &mut carrier)?;
                return Ok(Report::Exchanged(side));
            }
            Order::Latency { size, rounds } => self.layer()?.echo(*size, *rounds, |_| Ok(()))?,
            Order::Meet { count } => self.layer()?.await_introductions(*count)?,
            Order::LatencyBesidePeers { rounds } => self.layer()?.latency_beside_peers(*rounds)?,
            Order::Stream {
                size,
                window,
                rounds,
                allocate,
            } => self.layer()?.stream(*size, *window, *rounds, *allocate)?,
            Order::Check { size, allocate } => self.layer()?.check(*size, *allocate)?,
        };
        Ok(Report::Timing(if self.leads { took } else { 0.0 }))
    }

    fn open_socket(&mut self, port: u16, channel: &mut Channel) -> Outcome<Report> {
        let doing = || "opening a bare socket".to_owned();
        let stream = if self.leads {
            TcpStream::connect(("127.0.0.1", port)).doing(doing)?
        } else {
            let listener = TcpListener::bind(("127.0.0.1", 0)).doing(doing)?;
            let port = listener.local_addr().doing(doing)?.port();
            channel.send(&Report::Listening(port.to_string()))?;
            listener.accept().doing(doing)?.0
        };
        stream.set_nodelay(true).doing(doing)?;
        stream.set_read_timeout(Some(PATIENCE)).doing(doing)?;
        self.socket = Some(stream);
        Ok(Report::Ready)
    }

    fn open_layer(
        &mut self,
        listen: &str,
        address: &str,
        settings: Config,
        channel: &mut Channel,
    ) -> Outcome<Report> {
        let doing = || "opening the message layer".to_owned();
        // The old layer is closed first: it may hold the same address.
        self.layer = None;
        let mut layer = Layer::start_with(if self.leads { "" } else { listen }, settings)?;
        let peer = if self.leads {
            layer.introduce_to(address)?
        } else {
            channel.send(&Report::Listening(layer.address()))?;
            layer
                .await_introductions(1)?
                .pop()
                .ok_or("no peer came")
                .doing(doing)?
        };
        self.layer = Some((layer, peer));
        Ok(Report::Ready)
    }

    fn layer(&mut self) -> Outcome<Measurement<'_>> {
        let leads = self.leads;
        match &mut self.layer {
            Some((layer, peer)) => Ok(Measurement {
                layer,
                peer: *peer,
                leads,
            }),
            None => Err(Failure::new(
                "exchanging messages",
                "the layer has not been started",
            )),
        }
    }

    /// Two words on cache lines of their own, each written by one end and watched by the other;
    /// some bounces on each of several such pairs of lines, so that the median part is not that of
    /// one well or badly placed line.
    fn cache_line(&self, rounds: u64) -> Outcome<f64> {
        let mut batches = Batches::start(rounds);
        for (pair, lines) in (0..).zip(self.words.words().chunks_exact(PAIR_WORDS).take(PAIRS)) {
            let (Some(one), Some(other)) = (lines.first(), lines.get(PAIR_WORDS / 2)) else {
                return Err(Failure::new(
                    "bouncing a cache line",
                    "there are too few shared words",
                ));
            };
            let (mine, theirs) = if self.leads {
                (one, other)
            } else {
                (other, one)
            };
            // Both ends continue from the present values of the words; the leading end moves first.
            let base = mine.load(Ordering::Acquire);
            let before = |pair: u64| rounds * pair / PAIRS as u64;
            for round in 1..=before(pair + 1) - before(pair) {
                if self.leads {
                    mine.store(base + round, Ordering::Release);
                }
                await_word(theirs, base + round)?;
                if !self.leads {
                    mine.store(base + round, Ordering::Release);
                }
                batches.round();
            }
        }
        Ok(batches.seconds())
    }

    fn bare(&mut self, size: usize, rounds: u64, blocking: bool) -> Outcome<f64> {
        let doing = || "exchanging bytes over a bare socket".to_owned();
        let socket = self
            .socket
            .as_mut()
            .ok_or("the socket has not been opened")
            .doing(doing)?;
        socket.set_nonblocking(!blocking).doing(doing)?;
        let mut bytes = vec![7; size.max(1)];
        let mut batches = Batches::start(rounds);
        for _ in 0..rounds {
            if self.leads {
                write_spinning(socket, &bytes).doing(doing)?;
            }
            read_spinning(socket, &mut bytes).doing(doing)?;
            if !self.leads {
                write_spinning(socket, &bytes).doing(doing)?;
            }
            batches.round();
        }
        socket.set_nonblocking(false).doing(doing)?;
        Ok(batches.seconds())
    }
}

fn await_word(word: &AtomicU64, wanted: u64) -> Outcome {
    let mut spins = 0_u64;
    while word.load(Ordering::Acquire) != wanted {
        std::hint::spin_loop();
        spins += 1;
        // On one processor only the scheduler lets the other end run; and if that end has exited,
        // this end exits too.
        if spins.is_multiple_of(1 << 20) {
            std::thread::yield_now();
            if spins > 1 << 36 {
                return Err(Failure::new(
                    "bouncing a cache line",
                    "the other end is silent",
                ));
            }
        }
    }
    Ok(())
}

fn write_spinning(socket: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match socket.write(rest) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn read_spinning(socket: &mut TcpStream, bytes: &mut [u8]) -> std::io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match socket.read(rest) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy(size: usize, rounds: u64) -> f64 {
    let from = vec![1_u8; size.max(1)];
    let mut to = vec![2_u8; size.max(1)];
    let mut batches = Batches::start(rounds);
    for _ in 0..rounds {
        std::hint::black_box(&mut to).copy_from_slice(std::hint::black_box(&from));
        batches.round();
    }
    batches.seconds()
}

/// One measurement over the message layer.
struct Measurement<'a> {
    layer: &'a mut Layer,
    peer: Addr,
    leads: bool,
}

impl Measurement<'_> {
    /// Awaits other peers, which stay connected.
    fn await_introductions(self, count: usize) -> Outcome<f64> {
        if !self.leads {
            self.layer.await_introductions(count)?;
        }
        Ok(0.0)
    }

    fn latency_beside_peers(mut self, rounds: u64) -> Outcome<f64> {
        let mut taken = Vec::new();
        self.echo(8, rounds, |layer| {
            layer
                .bmi
                .testunexpected(64, Duration::ZERO, &mut taken)
                .doing(|| "taking the messages of others".to_owned())?;
            for message in taken.drain(..) {
                layer.bmi.release(message.from);
            }
            Ok(())
        })
    }

    /// Memory whose pages exist: pages that were never written would all be read from the one page of zeros.
    fn touched(&mut self, size: usize, allocate: bool) -> Outcome<Memory> {
        let memory = self.layer.memory(self.peer, size, allocate)?;
        memory.clear();
        Ok(memory)
    }

    /// Bounces messages; the second end does something more in each round.
    fn echo(
        &mut self,
        size: usize,
        rounds: u64,
        mut besides: impl FnMut(&mut Layer) -> Outcome,
    ) -> Outcome<f64> {
        let out = self.touched(size, false)?;
        let into = self.touched(size, false)?;
        self.echo_rounds(&out, &into, rounds.min(WARM_UP_ROUNDS), &mut besides)?;
        self.echo_rounds(&out, &into, rounds, &mut besides)
    }

    fn echo_rounds(
        &mut self,
        out: &Memory,
        into: &Memory,
        rounds: u64,
        mut besides: impl FnMut(&mut Layer) -> Outcome,
    ) -> Outcome<f64> {
        let mut batches = Batches::start(rounds);
        // Send, then receive, as the usual latency benchmarks do: a receive is posted while the
        // other end's message is on its way.
        for _ in 0..rounds {
            if self.leads {
                let sent = self.layer.send(self.peer, out, ECHO)?;
                let awaited = self.layer.receive(self.peer, into, ECHO)?;
                self.layer.complete(awaited)?;
                self.layer.complete(sent)?;
            } else {
                let awaited = self.layer.receive(self.peer, into, ECHO)?;
                self.layer.complete(awaited)?;
                let sent = self.layer.send(self.peer, out, ECHO)?;
                self.layer.complete(sent)?;
                besides(self.layer)?;
            }
            batches.round();
        }
        Ok(batches.seconds())
    }

    fn exchange(mut self, exchange: &Exchange) -> Outcome<Side> {
        let out = self.touched(exchange.size, false)?;
        let into = self.touched(exchange.size, false)?;
        let mut carrier = LayerCarrier {
            layer: self.layer,
            peer: self.peer,
            out,
            into,
        };
        exchange::run(self.leads, exchange, &mut carrier)
    }

    fn stream(mut self, size: usize, window: usize, rounds: u64, allocate: bool) -> Outcome<f64> {
        let memory = self.touched(size, allocate)?;
        self.windows(&memory, window, WARM_UP_WINDOWS)?;
        self.windows(&memory, window, rounds)
    }

    fn windows(&mut self, memory: &Memory, window: usize, rounds: u64) -> Outcome<f64> {
        let token = Memory::zeroed(8);
        let mut batches = Batches::start(rounds);
        // As in MPI programs, whose requests are words: all are posted, then those in progress are
        // waited for.
        let mut pending = Vec::with_capacity(window);
        for _ in 0..rounds {
            for _ in 0..window {
                let posted = match self.leads {
                    true => self.layer.send(self.peer, memory, WINDOW)?,
                    false => self.layer.receive(self.peer, memory, WINDOW)?,
                };
                match posted {
                    Begun::Pending(op) => pending.push(op),
                    Begun::Done(_) => {}
                }
            }
            for op in pending.drain(..) {
                self.layer.complete(Begun::Pending(op))?;
            }
            let ack = match self.leads {
                true => self.layer.receive(self.peer, &token, ACK)?,
                false => self.layer.send(self.peer, &token, ACK)?,
            };
            self.layer.complete(ack)?;
            batches.round();
        }
        Ok(batches.seconds())
    }

    fn check(self, size: usize, allocate: bool) -> Outcome<f64> {
        let memory = self.layer.memory(self.peer, size, allocate)?;
        let wanted = content(size);
        if self.leads {
            memory.write_at(0, &wanted);
            let sent = self.layer.send(self.peer, &memory, ECHO)?;
            self.layer.complete(sent)?;
            memory.clear();
        }
        let received = self.layer.receive(self.peer, &memory, ECHO)?;
        let count = self.layer.complete(received)?;
        if count != size as u64 || memory.to_vec() != wanted {
            let what = format!("checking a message of {size} bytes");
            return Err(Failure::new(what, "what arrived is not what was sent"));
        }
        if !self.leads {
            let sent = self.layer.send(self.peer, &memory, ECHO)?;
            self.layer.complete(sent)?;
        }
        Ok(0.0)
    }
}
