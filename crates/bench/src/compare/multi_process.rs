//! Our own processes for the patterns of more than two: a server and its clients, the links of a
//! ring, processes that hold unused connections, and processes that compute.
//!
//! A server, a client and a link do what `peers/mpi.c` does, over Causeway's message layer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Completion, Memory, Posted, Tag, Unexpected};
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::workers::{Channel, Start};
use causeway_wire::random::mix;
use serde::{Deserialize, Serialize};

use super::trial::RingFigures;
use crate::layer::{Layer, PATIENCE, content};
use crate::messages::exchange::cpu_seconds;

const ASK: Tag = 1;
const REPLY: Tag = 2;
const TOKEN: Tag = 3;
/// Unexpected messages and completions that are taken in one call.
const TAKEN_AT_ONCE: usize = 64;

/// A process's place and role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Assignment {
    /// Processors it may run on; empty for all.
    pub(crate) processors: Vec<usize>,
    pub(crate) role: Role,
}

/// A process's role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Replies to requests with `size` bytes until every client has reported that it is done.
    Server {
        listen: String,
        clients: usize,
        size: usize,
    },
    /// Sends requests, one at a time, for this time.
    Client {
        address: String,
        size: usize,
        milliseconds: u64,
    },
    /// Passes a token on. The first link of the ring decides for how long.
    Link {
        listen: String,
        first: bool,
        milliseconds: u64,
        pause_ms: u64,
    },
    /// Opens this many instances of the layer, each connected to `address`.
    Holder { address: String, count: usize },
    /// Computes until the command closes its input.
    Computing,
}

/// The command's messages after the assignment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The next link of the ring.
    Next(String),
    /// Every instance sends a message to the address each millisecond, for this time.
    BeActive { milliseconds: u64 },
}

/// The report of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Report {
    Listening(String),
    Ready,
    /// A client's mean microseconds from a request to its reply.
    RequestLatency(f64),
    /// The measurements of a link.
    Link(LinkFigures),
    Done,
}

/// A link's share of a ring's figures.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct LinkFigures {
    rounds: u64,
    elapsed_s: f64,
    cpu_s: f64,
    waiting_cpu_s: f64,
}

impl LinkFigures {
    /// The figures of the ring from those of its links.
    pub(crate) fn together(links: &[Self], pause_ms: u64) -> Option<RingFigures> {
        let first = links.first()?;
        let hops = first.rounds as f64 * links.len() as f64;
        let sum = |share: fn(&Self) -> f64| links.iter().map(share).sum::<f64>();
        Some(RingFigures {
            hop_us: first.elapsed_s * 1e6 / hops,
            cpu_us_per_hop: sum(|link| link.cpu_s) * 1e6 / hops,
            waiting_cpu_share: sum(|link| link.waiting_cpu_s) / (pause_ms as f64 / 1e3),
        })
    }
}

/// Runs a process.
pub(crate) fn run(assignment: &Assignment, channel: &mut Channel) -> Outcome {
    if !assignment.processors.is_empty() {
        causeway_sys::pin::pin_to_cpus(&assignment.processors)
            .doing(|| "choosing processors".to_owned())?;
    }
    match &assignment.role {
        Role::Server {
            listen,
            clients,
            size,
        } => serve(listen, *clients, *size, channel),
        Role::Client {
            address,
            size,
            milliseconds,
        } => run_client(address, *size, *milliseconds, channel),
        Role::Link {
            listen,
            first,
            milliseconds,
            pause_ms,
        } => link(listen, *first, *milliseconds, *pause_ms, channel),
        Role::Holder { address, count } => hold(address, *count, channel),
        Role::Computing => compute(channel),
    }
}

/// A request, or the first bytes of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    number: u64,
    last: bool,
}

impl Head {
    const BYTES: usize = 16;

    fn bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (number, last) = bytes.split_at_mut(8);
        number.copy_from_slice(&self.number.to_le_bytes());
        last.copy_from_slice(&u64::from(self.last).to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (last, _) = rest.split_first_chunk()?;
        Some(Self {
            number: u64::from_le_bytes(*number),
            last: u64::from_le_bytes(*last) != 0,
        })
    }
}

/// A server's reply to one client.
struct Reply {
    memory: Memory,
    /// The send has not completed.
    on_its_way: bool,
}

fn serve(listen: &str, clients: usize, size: usize, channel: &mut Channel) -> Outcome {
    let mut layer = Layer::start(listen)?;
    channel.send(&Report::Listening(layer.address()))?;
    let peers = layer.await_introductions(clients)?;
    let places: BTreeMap<Addr, u64> = peers.into_iter().zip(0..).collect();
    let mut replies = Vec::with_capacity(clients);
    for _ in 0..clients {
        let memory = Memory::zeroed(size);
        memory.write_at(0, &content(size));
        replies.push(Reply {
            memory,
            on_its_way: false,
        });
    }
    channel.send(&Report::Ready)?;
    let mut left = clients;
    let mut silent_since = Instant::now();
    let mut requests: Vec<Unexpected> = Vec::new();
    while left > 0 || replies.iter().any(|reply| reply.on_its_way) {
        await_anything(&mut layer, &mut silent_since)?;
        reap(&mut layer, &mut replies)?;
        take_requests(&mut layer, &mut requests)?;
        for request in requests.drain(..) {
            let head = Head::read(&request.data)
                .ok_or("a request is cut short")
                .doing(serving)?;
            let place = places
                .get(&request.from)
                .ok_or("an unknown peer sent a request")
                .doing(serving)?;
            left -= usize::from(head.last);
            reply_to(&mut layer, &mut replies, (request.from, *place), head)?;
            layer.bmi.release(request.from);
        }
    }
    channel.send(&Report::Done)
}

fn serving() -> String {
    "serving".to_owned()
}

fn await_anything(layer: &mut Layer, silent_since: &mut Instant) -> Outcome {
    if layer.bmi.wait(layer.context, Duration::from_millis(100)) {
        *silent_since = Instant::now();
    } else if silent_since.elapsed() > PATIENCE {
        return Err(Failure::new(serving(), "the clients are silent"));
    }
    Ok(())
}

fn take_requests(layer: &mut Layer, requests: &mut Vec<Unexpected>) -> Outcome {
    let taken = layer
        .bmi
        .testunexpected(TAKEN_AT_ONCE, Duration::ZERO, requests);
    taken.doing(serving).map(drop)
}

/// Drops the replies whose sends have completed.
fn reap(layer: &mut Layer, replies: &mut [Reply]) -> Outcome {
    let mut done: Vec<Completion> = Vec::new();
    layer
        .bmi
        .testcontext(layer.context, TAKEN_AT_ONCE, Duration::ZERO, &mut done)
        .doing(serving)?;
    for completion in done {
        completion.result.doing(serving)?;
        let place = usize::try_from(completion.user).unwrap_or(usize::MAX);
        if let Some(reply) = replies.get_mut(place) {
            reply.on_its_way = false;
        }
    }
    Ok(())
}

fn reply_to(layer: &mut Layer, replies: &mut [Reply], to: (Addr, u64), head: Head) -> Outcome {
    let (client, user) = to;
    let place = usize::try_from(user).unwrap_or(usize::MAX);
    let is_busy = |replies: &[Reply]| replies.get(place).is_some_and(|reply| reply.on_its_way);
    let mut silent_since = Instant::now();
    // The client has its last reply, but the send may not have completed on this side yet.
    while is_busy(replies) {
        reap(layer, replies)?;
        if silent_since.elapsed() > PATIENCE {
            return Err(Failure::new(serving(), "a reply does not leave"));
        }
        if is_busy(replies) {
            await_anything(layer, &mut silent_since)?;
        }
    }
    let reply = replies
        .get_mut(place)
        .ok_or("an unknown peer sent a request")
        .doing(serving)?;
    reply.memory.write_at(0, &head.bytes());
    let parts = std::slice::from_ref(&reply.memory);
    let posted = layer
        .bmi
        .post_send(client, parts, REPLY, layer.context, user);
    match posted.doing(serving)? {
        Posted::Complete(completion) => completion.result.doing(serving).map(drop),
        Posted::Pending(_) => {
            reply.on_its_way = true;
            Ok(())
        }
    }
}

fn run_client(address: &str, size: usize, milliseconds: u64, channel: &mut Channel) -> Outcome {
    let doing = || "asking the server".to_owned();
    let mut layer = Layer::start("")?;
    let server = layer.introduce_to(address)?;
    let reply = Memory::zeroed(size);
    let request = Memory::zeroed(Head::BYTES);
    let wanted = content(size);
    channel.barrier(&Report::Ready)?;
    let began = Instant::now();
    let time = Duration::from_millis(milliseconds);
    let mut head = Head {
        number: 0,
        last: false,
    };
    let mut elapsed = Duration::ZERO;
    while !head.last {
        head.number += 1;
        head.last = elapsed >= time;
        request.write_at(0, &head.bytes());
        let awaited = layer.receive(server, &reply, REPLY)?;
        let sent = layer.send_unexpected(server, &request, ASK)?;
        layer.complete(sent)?;
        let count = layer.complete(awaited)?;
        elapsed = began.elapsed();
        let mut first = [0; Head::BYTES];
        reply.read_at(0, &mut first);
        if count != size as u64 || Head::read(&first) != Some(head) {
            return Err(Failure::new(
                doing(),
                "a reply is not the one that was asked for",
            ));
        }
    }
    if reply.to_vec().get(Head::BYTES..) != wanted.get(Head::BYTES..) {
        return Err(Failure::new(doing(), "the last reply is not what was sent"));
    }
    let mean_us = elapsed.as_secs_f64() * 1e6 / head.number as f64;
    channel.send(&Report::RequestLatency(mean_us))
}

/// One link of a ring, between two others.
struct Link {
    layer: Layer,
    next: Addr,
    before: Addr,
    first: bool,
    token: Memory,
    /// How often the token had been passed on before it arrived here.
    passed: u64,
}

fn link(
    listen: &str,
    first: bool,
    milliseconds: u64,
    pause_ms: u64,
    channel: &mut Channel,
) -> Outcome {
    let doing = || "joining the ring".to_owned();
    let mut layer = Layer::start(listen)?;
    channel.send(&Report::Listening(layer.address()))?;
    let Some(Order::Next(address)) = channel.receive()? else {
        return Err(Failure::new(doing(), "there is no next link"));
    };
    let next = layer.introduce_to(&address)?;
    let before = layer
        .await_introductions(1)?
        .pop()
        .ok_or("no peer came")
        .doing(doing)?;
    let mut link = Link {
        layer,
        next,
        before,
        first,
        token: Memory::zeroed(Head::BYTES),
        passed: 0,
    };
    channel.barrier(&Report::Ready)?;
    let time = Duration::from_millis(milliseconds);
    link.pass_for(time / 10)?;
    let (began, used) = (Instant::now(), cpu_seconds());
    let rounds = link.pass_for(time)?;
    let elapsed_s = began.elapsed().as_secs_f64();
    let cpu_s = cpu_seconds() - used;
    let used = cpu_seconds();
    if first {
        std::thread::sleep(Duration::from_millis(pause_ms));
    }
    link.pass(true)?;
    channel.send(&Report::Link(LinkFigures {
        rounds,
        elapsed_s,
        cpu_s,
        waiting_cpu_s: cpu_seconds() - used,
    }))?;
    // A link that ended early would be missed by those that still pass the token on.
    channel.receive::<Start>().map(drop)
}

impl Link {
    /// Passes the token for this time, or as long as the first link does; returns the number of rounds.
    fn pass_for(&mut self, time: Duration) -> Outcome<u64> {
        let began = Instant::now();
        let mut rounds = 0;
        let mut last = false;
        while !last {
            last = self.pass(began.elapsed() >= time)?;
            rounds += 1;
        }
        Ok(rounds)
    }

    /// One round; returns whether it is the last one, which the first link decides.
    fn pass(&mut self, last: bool) -> Outcome<bool> {
        if self.first {
            let sent = Head {
                number: self.passed + 1,
                last,
            };
            self.send(sent)?;
            let came = self.receive()?;
            if came.number <= sent.number {
                return Err(Failure::new(
                    "passing the token",
                    "it has not come back from the other links",
                ));
            }
            self.passed = came.number;
            return Ok(last);
        }
        let came = self.receive()?;
        self.send(Head {
            number: came.number + 1,
            ..came
        })?;
        Ok(came.last)
    }

    fn send(&mut self, head: Head) -> Outcome {
        self.token.write_at(0, &head.bytes());
        let sent = self.layer.send(self.next, &self.token, TOKEN)?;
        self.layer.complete(sent).map(drop)
    }

    fn receive(&mut self) -> Outcome<Head> {
        let awaited = self.layer.receive(self.before, &self.token, TOKEN)?;
        self.layer.complete(awaited)?;
        let mut bytes = [0; Head::BYTES];
        self.token.read_at(0, &mut bytes);
        Head::read(&bytes)
            .ok_or("it is cut short")
            .doing(|| "reading the token".to_owned())
    }
}

fn hold(address: &str, count: usize, channel: &mut Channel) -> Outcome {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        let mut layer = Layer::start("")?;
        let peer = layer.introduce_to(address)?;
        held.push((layer, peer));
    }
    channel.send(&Report::Ready)?;
    let message = Memory::zeroed(8);
    while let Some(Order::BeActive { milliseconds }) = channel.receive()? {
        let deadline = Instant::now() + Duration::from_millis(milliseconds);
        while Instant::now() < deadline {
            for (layer, peer) in &mut held {
                let sent = layer.send_unexpected(*peer, &message, ASK)?;
                layer.complete(sent)?;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        channel.send(&Report::Done)?;
    }
    Ok(())
}

/// One thread computes, the other one sleeps until the command is done or gone.
fn compute(channel: &mut Channel) -> Outcome {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0_u64;
            while !over.load(Ordering::Relaxed) {
                number = std::hint::black_box(mix(number));
            }
        });
        let told = channel
            .send(&Report::Ready)
            .and_then(|()| channel.receive::<Order>());
        over.store(true, Ordering::Relaxed);
        told.map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_survive_their_bytes() {
        for head in [
            Head {
                number: u64::MAX,
                last: false,
            },
            Head {
                number: 7,
                last: true,
            },
        ] {
            assert_eq!(Head::read(&head.bytes()), Some(head));
        }
        assert_eq!(Head::read(&[0; 15]), None);
    }

    #[test]
    fn a_ring_costs_what_its_links_used_together() {
        let link = LinkFigures {
            rounds: 10,
            elapsed_s: 1.0,
            cpu_s: 0.5,
            waiting_cpu_s: 0.01,
        };
        let ring = LinkFigures::together(&[link, link], 100).unwrap();
        assert_eq!(ring.hop_us, 50_000.0);
        assert_eq!(ring.cpu_us_per_hop, 50_000.0);
        assert!((ring.waiting_cpu_share - 0.2).abs() < 1e-9);
        assert!(LinkFigures::together(&[], 100).is_none());
    }
}
