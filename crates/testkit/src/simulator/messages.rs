//! Whole message layers over a simulated network: requests with data both ways, cancels, disconnects and
//! crashes, against a model of messages.
//!
//! A client sends an unexpected message that states the following ones: `up` bytes that the server expects
//! under the request's tag, and `down` bytes that the client expects under the same. Every operation
//! must complete once, in bounded time; messages must arrive with the sent bytes; in a gentle network
//! every operation must succeed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use causeway_bmi::{
    Addr, Bmi, Clock, Completion, Config, Context, Memory, OpError, OpId, Posted, Tag, Unexpected,
};
use causeway_transport::registry::Registry;
use causeway_transport::udp::{Time, Udp, UdpConfig};
use causeway_wire::codec::{Reader, Writer};

use super::Outcome;
use super::datagram_io::SimulatedDatagramIo;
use super::model::pattern;
use super::network::{Faults, Shared, host};
use crate::random::Random;

/// After the last fault all operations must complete within this time.
const REST: Duration = Duration::from_secs(200);

/// The most that passes between two checks of all nodes.
const STEP: Duration = Duration::from_millis(5);

/// Where the server listens.
const PORT: u16 = 7;

/// The purpose of an operation.
#[derive(Debug, Clone)]
enum MessageKind {
    /// The client's request.
    Request,
    /// The client's data, or the server's reply.
    Send { len: usize },
    /// The server waits for the client's data, or the client for the reply.
    Receive { into: Memory, seed: u64 },
}

#[derive(Debug)]
struct Operation {
    id: OpId,
    tag: Tag,
    what: MessageKind,
    cancelled: bool,
}

struct Node {
    bmi: Bmi,
    context: Context,
    host: SocketAddr,
    life: u32,
    /// By the number given to each.
    operations: BTreeMap<u64, Operation>,
    /// The server, at a client.
    server: Option<Addr>,
}

struct Run {
    network: Shared,
    random: Random,
    config: UdpConfig,
    datagram_bytes: usize,
    eager_limit: usize,
    /// The server first.
    nodes: Vec<Node>,
    next: u64,
    /// Requests by tag: how much follows each way.
    requests: BTreeMap<Tag, (usize, usize)>,
    /// Requests that the server has seen.
    seen: BTreeSet<Tag>,
    /// Tags of which an operation has failed, was cancelled, or died with its node: the others of the
    /// tag may wait for ever.
    broken: BTreeSet<Tag>,
    gentle: bool,
    outcome: (u64, u64),
}

/// Seeds of the client's bytes under a tag, and of the server's reply.
fn up_seed(tag: Tag) -> u64 {
    tag.wrapping_mul(2)
}

fn down_seed(tag: Tag) -> u64 {
    tag.wrapping_mul(2) + 1
}

/// Runs the message layers of one seed to their end.
///
/// # Panics
/// If a check fails.
pub fn run(seed: u64) -> Outcome {
    let mut random = Random::new(!seed);
    let gentle = random.one_in(3);
    let network = Shared::new(random.next_u64());
    network.lock().faults = Faults::random(&mut random, !gentle);
    let seconds = |harsh, gently| Duration::from_secs(if gentle { gently } else { harsh });
    let config = UdpConfig {
        connect_timeout: seconds(3, 60),
        liveness_timeout: seconds(8, 60),
        probe_interval: Duration::from_secs(1),
        window_bytes: 65_536 << random.below(3),
        ..UdpConfig::default()
    };
    let mut run = Run {
        network,
        config,
        datagram_bytes: 1200 + random.spread(13),
        eager_limit: 1024 << random.below(5),
        nodes: Vec::new(),
        next: 0,
        requests: BTreeMap::new(),
        seen: BTreeSet::new(),
        broken: BTreeSet::new(),
        gentle,
        outcome: (0, 0),
        random,
    };
    for node in 0..2 + run.random.below(2) {
        let fresh = run.start(host(node, false), node == 0, 0);
        run.nodes.push(fresh);
    }
    run.live();
    run.rest();
    let (network, outcome) = (run.network.clone(), run.outcome);
    drop(run);
    let network = network.lock();
    Outcome {
        log: network.log().to_vec(),
        datagrams: network.datagrams(),
        packets: outcome.0,
        transfers: outcome.1,
    }
}

impl Run {
    fn start(&mut self, host: SocketAddr, serves: bool, life: u32) -> Node {
        let seed = self.random.next_u64();
        let io = SimulatedDatagramIo::new(&self.network, host, seed, self.datagram_bytes);
        let mut registry = Registry::new();
        registry.register(Box::new(Udp::over(io, self.config.clone())));
        let listen = match serves {
            true => vec![format!("udp://{}:{PORT}", host.ip())],
            false => Vec::new(),
        };
        let config = Config {
            listen,
            eager_limit: self.eager_limit,
            spin: Duration::ZERO,
            clock: Clock::new({
                let network = self.network.clone();
                move || network.instant()
            }),
            ..Config::default()
        };
        let mut bmi = Bmi::with_methods(config, registry).expect("the address is free");
        let context = bmi.open_context().expect("a first context");
        let server = match serves {
            true => None,
            false => {
                let server = self.nodes[0].host;
                let address = format!("udp://{}:{PORT}", server.ip());
                Some(bmi.lookup(&address).expect("well-formed"))
            }
        };
        Node {
            bmi,
            context,
            host,
            life,
            operations: BTreeMap::new(),
            server,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn live(&mut self) {
        let steps = 100 + self.random.below(200);
        for _ in 0..steps {
            self.step();
            let index = 1 + self.random.below(self.nodes.len() - 1);
            if self.random.one_in(3) && self.nodes[index].operations.len() < 30 {
                self.request(index);
            }
            if self.gentle {
                continue;
            }
            match self.random.below(120) {
                0..4 => self.cancel(),
                4 => self.disconnect(),
                5 => self.crash(),
                6..9 => {
                    let (one, other) = (self.nodes[0].host, self.nodes[index].host);
                    self.network.lock().cut(one, other);
                }
                9..16 => self.network.lock().heal(),
                _ => {}
            }
        }
    }

    fn rest(&mut self) {
        let until = {
            let mut network = self.network.lock();
            network.heal();
            network.faults = Faults::none();
            network.now + REST
        };
        let mut cancelled = false;
        loop {
            let left = self.nodes.iter().map(|node| node.operations.len());
            if left.sum::<usize>() == 0 {
                break;
            }
            let now = self.network.lock().now;
            assert!(now < until, "left after {REST:?} of rest: {}", self.left());
            if !cancelled && now + REST / 2 > until {
                cancelled = true;
                self.cancel_unmatched();
            }
            self.step();
        }
        if self.gentle {
            assert_eq!(self.seen.len(), self.requests.len(), "a request was lost");
        }
    }

    fn left(&self) -> String {
        let operations = self.nodes.iter().map(|node| &node.operations);
        format!("{:?}", operations.collect::<Vec<_>>())
    }

    fn step(&mut self) {
        let (now, arrival) = {
            let network = self.network.lock();
            (network.now, network.next_arrival())
        };
        let next: Time = arrival.map_or(now + STEP, |at| at.min(now + STEP));
        self.network
            .lock()
            .advance(next.max(now + Duration::from_micros(1)));
        for index in 0..self.nodes.len() {
            self.progress(index);
        }
    }

    fn progress(&mut self, index: usize) {
        let mut requests: Vec<Unexpected> = Vec::new();
        let mut done: Vec<Completion> = Vec::new();
        let node = &mut self.nodes[index];
        let idle = Duration::ZERO;
        node.bmi
            .testunexpected(16, idle, &mut requests)
            .expect("no misuse");
        node.bmi
            .testcontext(node.context, 64, idle, &mut done)
            .expect("no misuse");
        for completion in done {
            self.completed(index, completion);
        }
        for request in requests {
            self.serve(index, request);
        }
    }

    fn post(
        &mut self,
        index: usize,
        tag: Tag,
        what: MessageKind,
        post: impl FnOnce(&mut Bmi, Context, u64) -> Result<Posted, causeway_bmi::Error>,
    ) {
        let number = self.number();
        let node = &mut self.nodes[index];
        match post(&mut node.bmi, node.context, number).expect("no misuse") {
            Posted::Pending(id) => {
                let operation = Operation {
                    id,
                    tag,
                    what,
                    cancelled: false,
                };
                node.operations.insert(number, operation);
            }
            Posted::Complete(completion) => {
                assert_eq!(completion.user, number);
                let operation = Operation {
                    id: completion.op,
                    tag,
                    what,
                    cancelled: false,
                };
                self.judge(index, operation, completion.result);
            }
        }
    }

    fn request(&mut self, index: usize) {
        let Some(server) = self.nodes[index].server else {
            return;
        };
        let tag = self.number();
        let (up, down) = (self.random.spread(17), self.random.spread(17));
        self.requests.insert(tag, (up, down));
        let mut out = Writer::new();
        out.u64(up as u64);
        out.u64(down as u64);
        out.bytes(&pattern(tag, self.random.spread(9)));
        let request = [Memory::from_vec(out.finish())];
        let into = Memory::zeroed(down);
        let seed = down_seed(tag);
        let what = MessageKind::Receive {
            into: into.clone(),
            seed,
        };
        self.post(index, tag, what, |bmi, context, user| {
            bmi.post_recv(server, &[into], tag, context, user)
        });
        self.post(index, tag, MessageKind::Request, |bmi, context, user| {
            bmi.post_sendunexpected(server, &request, tag, context, user)
        });
        let data = [Memory::from_vec(pattern(up_seed(tag), up))];
        self.post(
            index,
            tag,
            MessageKind::Send { len: up },
            |bmi, context, user| bmi.post_send(server, &data, tag, context, user),
        );
    }

    fn serve(&mut self, index: usize, request: Unexpected) {
        assert_eq!(index, 0, "only the server is called");
        let (tag, client) = (request.tag, request.from);
        assert!(self.seen.insert(tag), "request {tag} came twice");
        self.outcome.0 += 1;
        let mut input = Reader::new(&request.data);
        let up = input.u64("up").expect("a request of the test") as usize;
        let down = input.u64("down").expect("a request of the test") as usize;
        let filler = input
            .bytes(1 << 10, "filler")
            .expect("a request of the test");
        assert_eq!(self.requests.get(&tag), Some(&(up, down)));
        assert!(filler == pattern(tag, filler.len()), "an altered request");
        let into = Memory::zeroed(up);
        let seed = up_seed(tag);
        let what = MessageKind::Receive {
            into: into.clone(),
            seed,
        };
        self.post(0, tag, what, |bmi, context, user| {
            bmi.post_recv(client, &[into], tag, context, user)
        });
        let data = [Memory::from_vec(pattern(down_seed(tag), down))];
        self.post(
            0,
            tag,
            MessageKind::Send { len: down },
            |bmi, context, user| bmi.post_send(client, &data, tag, context, user),
        );
        self.nodes[0].bmi.release(client);
    }

    fn completed(&mut self, index: usize, completion: Completion) {
        let operation = self.nodes[index].operations.remove(&completion.user);
        let operation = operation.expect("an operation completes once");
        assert_eq!(operation.id, completion.op);
        self.judge(index, operation, completion.result);
    }

    fn judge(&mut self, index: usize, operation: Operation, result: Result<u64, OpError>) {
        match result {
            Ok(count) => match operation.what {
                MessageKind::Request => {}
                MessageKind::Send { len } => assert_eq!(count, len as u64),
                MessageKind::Receive { into, seed } => {
                    assert_eq!(count, into.len() as u64);
                    let right = into.to_vec() == pattern(seed, into.len());
                    assert!(right, "node {index} received altered bytes");
                    self.outcome.1 += 1;
                }
            },
            Err(OpError::Cancelled) if operation.cancelled => {}
            Err(error) => {
                assert!(!self.gentle, "node {index}: {operation:?}: {error}");
                self.broken.insert(operation.tag);
            }
        }
    }

    fn cancel(&mut self) {
        let index = self.random.below(self.nodes.len());
        let node = &mut self.nodes[index];
        let at = self.random.below(node.operations.len());
        if let Some(operation) = node.operations.values_mut().nth(at) {
            operation.cancelled = true;
            self.broken.insert(operation.tag);
            node.bmi.cancel(operation.id);
        }
    }

    /// Cancels operations whose counterpart will not arrive; no others may be left.
    fn cancel_unmatched(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            for operation in node.operations.values_mut() {
                let unmatched = self.broken.contains(&operation.tag);
                assert!(
                    unmatched,
                    "node {index}: without reason waits {operation:?}"
                );
                operation.cancelled = true;
                node.bmi.cancel(operation.id);
            }
        }
    }

    fn disconnect(&mut self) {
        let index = 1 + self.random.below(self.nodes.len() - 1);
        let node = &mut self.nodes[index];
        if let Some(server) = node.server {
            node.bmi.disconnect(server);
        }
    }

    fn crash(&mut self) {
        let index = self.random.below(self.nodes.len());
        let (host, life) = (self.nodes[index].host, self.nodes[index].life);
        self.network.lock().crash(host);
        let dead = self.nodes.remove(index);
        let tags = dead.operations.values().map(|operation| operation.tag);
        self.broken.extend(tags);
        drop(dead);
        let fresh = self.start(host, index == 0, life + 1);
        self.nodes.insert(index, fresh);
    }
}
