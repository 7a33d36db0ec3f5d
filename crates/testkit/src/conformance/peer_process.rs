//! A peer in another process that carries out the orders in packets.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use causeway_sys::memory::Memory;
use causeway_transport::{Access, Address, Direction, Method, Peer};
use causeway_wire::codec::{Malformed, Reader, Wire, Writer};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{List, Node};
use super::sleep::Sleeper;
use crate::patience::Patience;
use crate::process::{Child, Part, part};

/// An order to a peer process.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Order {
    /// Send these bytes back.
    Echo(Vec<u8>),
    /// Export memory of this many bytes with this fill, allocated by the method or plain; send
    /// the descriptor back.
    Export { len: u64, fill: u8, allocated: bool },
    /// Move all bytes of the region again and again, several transfers at a time.
    Repeat(Direction, RegionDescriptor),
    /// Move all bytes of the region once (those put have this value), notify with `landed`, and
    /// send the last byte of the local memory back.
    Transfer(Direction, RegionDescriptor, u8),
    /// Send numbered packets of this size without end.
    Flood(u32),
    /// Send back this number of bytes from this offset of the memory that was exported last.
    Peek(u64, u32),
    /// Write this byte at this offset of the memory last exported; send it back.
    Poke(u64, u8),
    /// Never poll again.
    Stall,
    /// End in an orderly way.
    Exit,
}

impl Wire for Order {
    fn encode(&self, out: &mut Writer) {
        let direction = |out: &mut Writer, direction: &Direction| {
            out.bool(*direction == Direction::Put);
        };
        match self {
            Order::Echo(bytes) => {
                out.u8(0);
                out.bytes(bytes);
            }
            Order::Export {
                len,
                fill,
                allocated,
            } => {
                out.u8(1);
                out.u64(*len);
                out.u8(*fill);
                out.bool(*allocated);
            }
            Order::Repeat(way, region) => {
                out.u8(2);
                direction(out, way);
                region.encode(out);
            }
            Order::Transfer(way, region, fill) => {
                out.u8(3);
                direction(out, way);
                region.encode(out);
                out.u8(*fill);
            }
            Order::Flood(len) => {
                out.u8(4);
                out.u32(*len);
            }
            Order::Peek(offset, len) => {
                out.u8(5);
                out.u64(*offset);
                out.u32(*len);
            }
            Order::Poke(offset, value) => {
                out.u8(6);
                out.u64(*offset);
                out.u8(*value);
            }
            Order::Stall => out.u8(7),
            Order::Exit => out.u8(8),
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        fn direction(input: &mut Reader<'_>) -> Result<Direction, Malformed> {
            Ok(match input.bool("direction")? {
                true => Direction::Put,
                false => Direction::Get,
            })
        }
        Ok(match input.u8("order")? {
            0 => Order::Echo(input.bytes(usize::MAX, "echo")?.to_vec()),
            1 => Order::Export {
                len: input.u64("length")?,
                fill: input.u8("fill")?,
                allocated: input.bool("allocated")?,
            },
            2 => Order::Repeat(direction(input)?, RegionDescriptor::decode(input)?),
            3 => Order::Transfer(
                direction(input)?,
                RegionDescriptor::decode(input)?,
                input.u8("fill")?,
            ),
            4 => Order::Flood(input.u32("size")?),
            5 => Order::Peek(input.u64("offset")?, input.u32("length")?),
            6 => Order::Poke(input.u64("offset")?, input.u8("value")?),
            7 => Order::Stall,
            8 => Order::Exit,
            value => {
                return Err(Malformed::Unknown {
                    field: "order",
                    value: value.into(),
                });
            }
        })
    }
}

/// A test between two processes: a node here and a peer process there that have met.
pub(super) struct ProcessPair<M: Method> {
    /// The side of the test.
    pub(super) node: Node<M>,
    /// Its handle for the peer process.
    pub(super) peer: Peer,
    /// The peer process.
    pub(super) child: Child,
    /// Where the listening side of the two listens.
    pub(super) address: Address,
}

/// Runs as the peer process if this process was started as one; a test calls this first and returns if it was.
pub(super) fn ran_as_peer<F: Factory>(factory: &F) -> bool {
    let Some(part) = part() else {
        return false;
    };
    PeerProcess::new(factory, &part).serve();
    true
}

/// Starts a peer process that listens at `address`; returns it and its actual address.
pub(super) fn listening_peer_process(test: &str, address: &Address) -> (Child, Address) {
    let child = Child::spawn(test, "listen", &[&address.to_string()]);
    let address = child
        .next_line()
        .parse()
        .expect("the peer process reports its address");
    (child, address)
}

impl<M: Method> ProcessPair<M> {
    /// A fresh node calls a peer process that listens.
    pub(super) fn calling(factory: &impl Factory<Method = M>, test: &str) -> Self {
        let node = Node::new(factory.method());
        Self::call_from(node, factory, test)
    }

    /// `node` calls a peer process that listens.
    pub(super) fn call_from(
        mut node: Node<M>,
        factory: &impl Factory<Method = M>,
        test: &str,
    ) -> Self {
        let (child, address) = listening_peer_process(test, &factory.address());
        let peer = node.connect(&address);
        let mut pair = Self {
            node,
            peer,
            child,
            address,
        };
        pair.still_works();
        pair
    }

    /// A peer process calls a fresh node.
    pub(super) fn called(factory: &impl Factory<Method = M>, test: &str) -> Self {
        let (node, address) = Node::listening(factory);
        Self::called_at(node, address, test)
    }

    /// A pair whose node called, then one whose peer process did.
    pub(super) fn each_way(factory: &impl Factory<Method = M>, test: &str) -> [Self; 2] {
        [Self::calling(factory, test), Self::called(factory, test)]
    }

    /// A peer process calls `node`, which listens at `address`.
    pub(super) fn called_at(mut node: Node<M>, address: Address, test: &str) -> Self {
        let child = Child::spawn(test, "call", &[&address.to_string()]);
        let mut patience = Patience::new("the peer process calls");
        let peer = loop {
            if let Some((peer, packet)) = node.packet() {
                assert_eq!(packet, b"hello");
                break peer;
            }
            node.step();
            patience.spend();
        };
        assert_eq!(node.up(), Some(peer));
        let mut pair = Self {
            node,
            peer,
            child,
            address,
        };
        pair.still_works();
        pair
    }

    /// Gives an order.
    pub(super) fn order(&mut self, order: &Order) {
        let bytes = order.to_bytes();
        let mut patience = Patience::new("room for an order");
        while !self.node.try_send(self.peer, &bytes) {
            self.node.step();
            patience.spend();
        }
    }

    /// The peer process's next packet.
    pub(super) fn receive(&mut self) -> Vec<u8> {
        let mut patience = Patience::new("the peer process replies");
        loop {
            if let Some((peer, packet)) = self.node.packet() {
                assert_eq!(peer, self.peer);
                return packet;
            }
            self.node.step();
            patience.spend();
        }
    }

    /// Makes the peer process export memory.
    pub(super) fn exported(&mut self, len: usize, fill: u8, allocated: bool) -> RegionDescriptor {
        self.order(&Order::Export {
            len: len as u64,
            fill,
            allocated,
        });
        RegionDescriptor::from_bytes(&self.receive()).expect("the peer process sends a descriptor")
    }

    /// Proves that packets pass both ways and nothing else is on the way.
    pub(super) fn still_works(&mut self) {
        self.order(&Order::Echo(b"there?".to_vec()));
        assert_eq!(self.receive(), b"there?");
        assert!(self.node.packet().is_none());
    }
}

/// The side of the peer process.
struct PeerProcess<M: Method> {
    node: Node<M>,
    commander: Option<Peer>,
    replies: VecDeque<Vec<u8>>,
    exported: Memory,
    repeated: Vec<List>,
    /// The local memory of a single transfer in progress.
    single: Option<(u64, Memory)>,
    flood: Option<(usize, u64)>,
    sleeper: Sleeper,
}

impl<M: Method> PeerProcess<M> {
    fn new(factory: &impl Factory<Method = M>, part: &Part) -> Self {
        let mut node = Node::new(factory.method());
        let address = part.arguments[0].parse().expect("an address");
        let mut replies = VecDeque::new();
        let commander = match part.role.as_str() {
            "call" => {
                replies.push_back(b"hello".to_vec());
                Some(node.connect(&address))
            }
            _ => {
                let address = node.listen(&address);
                part.report(&address.to_string());
                None
            }
        };
        Self {
            node,
            commander,
            replies,
            exported: Memory::zeroed(0),
            repeated: Vec::new(),
            single: None,
            flood: None,
            sleeper: Sleeper::new(u64::from(std::process::id())),
        }
    }

    /// Carries out orders until one of them is to exit, or until the test ends the process.
    fn serve(mut self) {
        loop {
            let worked = self.node.step();
            while let Some((peer, packet)) = self.node.packet() {
                self.commander = Some(peer);
                // An empty notify packet is no order.
                if packet.is_empty() {
                    continue;
                }
                let order = Order::from_bytes(&packet).expect("an order");
                if order == Order::Exit {
                    return;
                }
                self.carry_out(order);
            }
            let busy = self.work();
            if !worked && !busy {
                let alarm = Instant::now() + LONGEST_NAP;
                self.sleeper.rest(&mut self.node, alarm);
            }
        }
    }

    fn commander(&self) -> Peer {
        self.commander.expect("an order came")
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Echo(bytes) => self.replies.push_back(bytes),
            Order::Export {
                len,
                fill,
                allocated,
            } => {
                let len = len as usize;
                self.exported = match allocated {
                    true => self.node.method.allocate(len).expect("memory"),
                    false => Memory::zeroed(len),
                };
                self.exported.write_at(0, &vec![fill; len]);
                let memory = self.exported.clone();
                let region = self
                    .node
                    .export(self.commander(), &memory, Access::ReadWrite);
                self.replies.push_back(region.to_bytes());
            }
            Order::Repeat(direction, region) => {
                let local = Memory::from_vec(vec![0xaa; region.len as usize]);
                self.repeated.push(List::simple(direction, &local, region));
            }
            Order::Transfer(direction, region, fill) => {
                let local = Memory::from_vec(vec![fill; region.len as usize]);
                let list = List::simple(direction, &local, region).notifying(b"landed");
                let token = self
                    .node
                    .try_transfer(self.commander(), &list)
                    .expect("room for one transfer");
                self.single = Some((token, local));
            }
            Order::Flood(len) => self.flood = Some((len as usize, 0)),
            Order::Peek(offset, len) => {
                let mut bytes = vec![0; len as usize];
                self.exported.read_at(offset as usize, &mut bytes);
                self.replies.push_back(bytes);
            }
            Order::Poke(offset, value) => {
                self.exported.write_at(offset as usize, &[value]);
                self.replies.push_back(vec![value]);
            }
            Order::Stall => loop {
                std::thread::park_timeout(Duration::from_secs(1));
            },
            Order::Exit => unreachable!("handled by the caller"),
        }
    }

    /// Sends replies and streams, and starts transfers again, as far as there is room. Returns whether anything was done.
    fn work(&mut self) -> bool {
        let mut busy = false;
        while let Some(reply) = self.replies.front() {
            if !self.node.try_send(self.commander(), reply) {
                break;
            }
            self.replies.pop_front();
            busy = true;
        }
        while let Some((token, result)) = self.node.seen.done.pop_front() {
            let single = self.single.take_if(|(single, _)| *single == token);
            if let Some((_, local)) = single {
                let mut last = [0];
                local.read_at(local.len() - 1, &mut last);
                self.replies.push_back(match result {
                    Ok(()) => last.to_vec(),
                    Err(error) => error.to_string().into_bytes(),
                });
            }
            busy = true;
        }
        for list in &self.repeated {
            if self.node.in_progress() < 4 * self.repeated.len() {
                let commander = self.commander.expect("an order came");
                busy |= self.node.offer(commander, list).is_ok();
            }
        }
        if let Some((len, mut number)) = self.flood {
            let mut packet = vec![0; len.max(8)];
            for _ in 0..100 {
                packet[..8].copy_from_slice(&u64::to_le_bytes(number));
                if !self.node.try_send(self.commander(), &packet) {
                    break;
                }
                number += 1;
                busy = true;
            }
            self.flood = Some((len, number));
        }
        busy
    }
}

/// How long a peer process sleeps at most: the method has timers of its own, and the test ends the process.
const LONGEST_NAP: Duration = Duration::from_secs(30);
