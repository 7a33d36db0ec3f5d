//! Every event ends a wait at once, whatever the wait's length: a table of events and lengths, for each medium.
//!
//! No cell reads a clock. The peer, a thread with an instance of its own or another process, reports when the event has
//! happened, and the layer counts the sleeps that last until the caller's time is up
//! ([`Info::expired_sleeps`](causeway_bmi::Info)). A sleep that begins after the event and expires has slept through it. On a
//! busy machine the kernel may deliver a segment or an exit late, so a cell has several rounds, and most of them must be
//! without such a sleep. A wait for seconds is a long one: if an event does not end it, that is noticed when the wait
//! expires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use causeway_bmi::{Access, Addr, Direction, Memory, RegionDescriptor, Tag, Waker};

use super::Medium;
use super::node::{Node, content};
use crate::patience::{GENEROUS, Patience};
use crate::process::{self, Child};
use crate::random::{Random, seed};

/// Lengths of waits: below the time of a poll of the sockets, around it, above it, and long.
const LENGTHS: [Duration; 4] = [
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_secs(20),
];
/// Rounds of each cell. In most of them no sleep expires after the event.
const ROUNDS: usize = 3;
/// This number of sleeps makes sure that the quick way to sleep is in use, if there is one.
const WARMING_SLEEPS: u64 = 20;
/// How often the peer makes progress after an order.
const LAST_STEPS: usize = 4;
/// Bytes of a message that is moved by a transfer, and of a region.
const LARGE: usize = 1 << 20;

/// Of every message here.
const NEWS: Tag = 1;

/// Orders to the peer.
enum Order {
    /// Send a message of this size.
    Send(usize),
    SendUnexpected,
    /// Connect with another instance, which sends an unexpected message.
    Connect,
    /// Take unexpected messages until this number has arrived altogether.
    Take(usize),
    Disconnect,
    Wake(Waker),
    /// Make progress, so that a transfer of the waiter's does.
    Nothing,
}

/// The peer: a thread with an instance of its own.
struct Peer<'a, M: Medium> {
    medium: &'a M,
    node: Node,
    to: Addr,
    address: &'a str,
    happened: &'a AtomicBool,
    others: Vec<Node>,
    random: Random,
}

impl<M: Medium> Peer<'_, M> {
    /// Carries out orders until the waiter has no more.
    fn run(mut self, orders: &Receiver<Order>) {
        loop {
            match orders.try_recv() {
                Ok(order) => {
                    // So that the event meets every moment of a wait.
                    let pause = self.random.below(2_000) as u64;
                    std::thread::sleep(Duration::from_micros(pause));
                    self.carry_out(order);
                    // Remaining work of this side, such as a last packet behind a transfer.
                    (0..LAST_STEPS).for_each(|_| self.take_part());
                    self.happened.store(true, Ordering::Release);
                }
                Err(TryRecvError::Empty) => self.take_part(),
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Makes progress, but takes no message that has arrived.
    fn take_part(&mut self) {
        let Node { layer, context, .. } = &mut self.node;
        layer.wait(*context, Duration::from_micros(200));
        std::thread::yield_now();
        for other in &mut self.others {
            other.step();
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Send(size) => {
                let sent = self.node.send(self.to, NEWS, size);
                self.node.succeed(sent);
            }
            Order::SendUnexpected => {
                let sent = self.node.send_unexpected(self.to, NEWS, vec![1; 8]);
                self.node.succeed(sent);
            }
            Order::Connect => self.others.push(caller(self.medium, self.address).0),
            Order::Take(messages) => {
                let mut patience = Patience::new("messages with credit arrive");
                while self.node.unexpected.len() < messages {
                    self.node.step();
                    patience.spend();
                }
            }
            Order::Disconnect => self.node.layer.disconnect(self.to),
            Order::Wake(waker) => waker.wake(),
            Order::Nothing => {}
        }
    }
}

/// A new instance that has sent an unexpected message to `address`.
fn caller(medium: &impl Medium, address: &str) -> (Node, Addr) {
    let mut node = Node::new(medium.layer(None));
    let to = node.layer.lookup(address).expect("a well-formed address");
    let sent = node.send_unexpected(to, NEWS, vec![1; 8]);
    node.succeed(sent);
    (node, to)
}

/// The instance that waits.
struct Waiter<'a> {
    node: Node,
    peer: Addr,
    /// Memory of the peer's, with the content of a message of this size.
    region: RegionDescriptor,
    orders: Sender<Order>,
    happened: &'a AtomicBool,
}

impl Waiter<'_> {
    /// Gives an order, then waits in slices of `length` until `noticed`. Returns how many sleeps expired that
    /// should not have.
    fn wait(
        &mut self,
        order: Order,
        length: Duration,
        noticed: impl FnMut(&mut Node) -> bool,
    ) -> u64 {
        self.happened.store(false, Ordering::Relaxed);
        self.orders.send(order).expect("the peer listens");
        let late = wait(&mut self.node, self.happened, length, noticed);
        let mut patience = Patience::new("the peer has carried out its order");
        while !self.happened.load(Ordering::Acquire) {
            self.node.step();
            std::thread::yield_now();
            patience.spend();
        }
        late
    }

    fn wait_for(&mut self, order: Order, length: Duration, number: u64) -> u64 {
        let late = self.wait(order, length, |node| has_ended(node, number));
        self.node.operations.remove(&number);
        late
    }
}

fn has_ended(node: &Node, number: u64) -> bool {
    node.operations[&number].result.is_some()
}

fn expired(node: &Node) -> u64 {
    node.layer.get_info(None).expired_sleeps
}

/// See [`Waiter::wait`].
fn wait(
    node: &mut Node,
    happened: &AtomicBool,
    length: Duration,
    mut noticed: impl FnMut(&mut Node) -> bool,
) -> u64 {
    let mut patience = Patience::with_limit("the event is noticed", 2 * GENEROUS);
    let mut late = 0;
    while !noticed(node) {
        let counts = is_long(length) || happened.load(Ordering::Acquire);
        let before = expired(node);
        node.layer.wait(node.context, length);
        late += u64::from(counts) * (expired(node) - before);
        node.step();
        patience.spend();
    }
    late
}

/// A wait that no event of this suite needs: it never expires.
fn is_long(length: Duration) -> bool {
    length >= Duration::from_secs(1)
}

/// Runs `body` with an instance that waits, and a peer that has sent its first message.
fn with_peer<M: Medium + Sync>(medium: &M, body: impl FnOnce(&mut Waiter<'_>)) {
    let mut node = Node::new(medium.layer(Some(&medium.address())));
    let address = &node.layer.listening()[0];
    let happened = &AtomicBool::new(false);
    let (orders, ordered) = channel();
    let (exported, exports) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut node, to) = caller(medium, address);
            let memory = Memory::from_vec(content(NEWS, LARGE));
            let region = node.layer.export(to, &memory, Access::Read);
            let region = region.expect("memory of a connected peer's");
            exported.send(region).expect("the waiter listens");
            let peer = Peer {
                medium,
                node,
                to,
                address,
                happened,
                others: Vec::new(),
                random: Random::new(seed(11)),
            };
            peer.run(&ordered);
        });
        let peer = first_caller(&mut node);
        body(&mut Waiter {
            node,
            peer,
            region: exports.recv().expect("the peer exports memory"),
            orders,
            happened,
        });
    });
}

/// Waits for a peer that sends its first message, and has the instance sleep so often that it sleeps in its usual way.
fn first_caller(node: &mut Node) -> Addr {
    let mut patience = Patience::new("a peer sends its first message, and an idle instance sleeps");
    while node.unexpected.is_empty() {
        node.step();
        patience.spend();
    }
    while node.layer.get_info(None).sleeps < WARMING_SLEEPS {
        node.layer.wait(node.context, Duration::from_micros(200));
        node.step();
        patience.spend();
    }
    node.unexpected.remove(0).from
}

/// Plays the cells of one event; `round` returns how many sleeps expired that should not have.
fn cells(mut round: impl FnMut(Duration) -> u64) {
    for length in LENGTHS {
        let mut late: Vec<u64> = (0..ROUNDS).map(|_| round(length)).collect();
        late.sort_unstable();
        let counts = if is_long(length) {
            ROUNDS - 1
        } else {
            ROUNDS / 2
        };
        assert_eq!(
            late[counts], 0,
            "waits of {length:?}: so many sleeps of each round lasted until their time was up: {late:?}"
        );
    }
}

/// A message that fits a packet arrives.
pub fn a_message<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        cells(|length| {
            let received = waiter.node.receive(waiter.peer, NEWS, 8);
            waiter.wait_for(Order::Send(8), length, received)
        });
    });
}

/// A message that is moved by a transfer arrives.
pub fn a_large_message<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        cells(|length| {
            let received = waiter.node.receive(waiter.peer, NEWS, LARGE);
            waiter.wait_for(Order::Send(LARGE), length, received)
        });
    });
}

/// A transfer that the waiter has started completes. The peer takes no part in it that it could report, so only a
/// long wait counts.
pub fn a_transfer<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        let region = waiter.region;
        cells(|length| {
            let read = waiter
                .node
                .transfer(waiter.peer, Direction::Get, NEWS, region);
            let late = waiter.wait_for(Order::Nothing, length, read);
            u64::from(is_long(length)) * late
        });
    });
}

/// A peer takes messages that had used up all credit: one that waits for credit is sent.
pub fn returned_credit<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        let mut total = 0;
        cells(|length| {
            let last = use_credit_up(&mut waiter.node, waiter.peer, &mut total);
            waiter.wait_for(Order::Take(total - 1), length, last)
        });
    });
}

/// Sends unexpected messages until one does not complete at once; returns its number. Counts them in `total`.
fn use_credit_up(node: &mut Node, to: Addr, total: &mut usize) -> u64 {
    const TRIES: usize = 4_000;
    for _ in 0..TRIES {
        *total += 1;
        let sent = node.send_unexpected(to, NEWS, vec![3; 16 << 10]);
        // Over a socket, a message with credit may have to wait for room.
        let until = Instant::now() + Duration::from_millis(10);
        while !has_ended(node, sent) && Instant::now() < until {
            node.step();
        }
        if !has_ended(node, sent) {
            return sent;
        }
    }
    panic!("{TRIES} unexpected messages are sent to a peer that takes none");
}

/// An unexpected message arrives.
pub fn an_unexpected_message<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        cells(|length| {
            waiter.wait(Order::SendUnexpected, length, |node| {
                !std::mem::take(&mut node.unexpected).is_empty()
            })
        });
    });
}

/// Another peer connects, and sends.
pub fn a_new_peer<M: Medium + Sync>(medium: &M, _: &str) {
    with_peer(medium, |waiter| {
        cells(|length| {
            waiter.wait(Order::Connect, length, |node| {
                !std::mem::take(&mut node.unexpected).is_empty()
            })
        });
    });
}

/// A peer drops the connection, for which a receive waits.
pub fn a_departure<M: Medium + Sync>(medium: &M, _: &str) {
    cells(|length| {
        let mut late = 0;
        with_peer(medium, |waiter| {
            let received = waiter.node.receive(waiter.peer, NEWS, 8);
            late = waiter.wait_for(Order::Disconnect, length, received);
        });
        late
    });
}

/// A peer is killed, for which a receive waits.
pub fn a_death<M: Medium + Sync>(medium: &M, test: &str) {
    if let Some(part) = process::part() {
        let (mut node, _) = caller(medium, &part.arguments[0]);
        loop {
            node.layer.wait(node.context, GENEROUS);
            node.step();
        }
    }
    let mut random = Random::new(seed(12));
    cells(|length| {
        let mut node = Node::new(medium.layer(Some(&medium.address())));
        let mut child = Child::spawn(test, "victim", &[&node.layer.listening()[0]]);
        let peer = first_caller(&mut node);
        let received = node.receive(peer, NEWS, 8);
        let happened = &AtomicBool::new(false);
        let pause = Duration::from_micros(random.below(2_000) as u64);
        let late = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(pause);
                child.kill();
                happened.store(true, Ordering::Release);
            });
            wait(&mut node, happened, length, |node| {
                has_ended(node, received)
            })
        });
        // Where the kernel does not report a death, the method finds out by probing at its intervals.
        u64::from(medium.reports_deaths() || is_long(length)) * late
    });
}

/// Another thread calls: before the wait, with polls in between, and during it.
pub fn a_call<M: Medium + Sync>(medium: &M, _: &str) {
    const CALLS: usize = 50;
    with_peer(medium, |waiter| {
        let waker = waiter.node.layer.waker();
        for length in LENGTHS {
            for polls in 0..4 {
                waker.wake();
                (0..polls).for_each(|_| waiter.node.step());
                let before = expired(&waiter.node);
                let Node { layer, context, .. } = &mut waiter.node;
                assert!(!layer.wait(*context, length));
                let late = expired(&waiter.node) - before;
                assert_eq!(late, 0, "a call, {polls} polls, a wait of {length:?}");
            }
        }
        let long = LENGTHS[LENGTHS.len() - 1];
        for round in 0..CALLS {
            let before = expired(&waiter.node);
            let order = Order::Wake(waker.clone());
            waiter.orders.send(order).expect("the peer listens");
            let Node { layer, context, .. } = &mut waiter.node;
            assert!(!layer.wait(*context, long));
            let late = expired(&waiter.node) - before;
            assert_eq!(late, 0, "call {round} in a wait of {long:?}");
        }
    });
}
