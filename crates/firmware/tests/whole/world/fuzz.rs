//! A card driven by events that bytes encode: nothing panics, each descriptor that
//! the card can reach completes exactly once and in order, and no buffer is lost. The card itself asserts
//! the rules for the use of its engines.

use std::collections::{BTreeMap, VecDeque};

use causeway_firmware::{
    BufferId, Direction, Discipline, DmaQueue, Doorbells, Engine, Input, Limits, Processor,
    ReceiveDescriptors, Region, Reliability, Report, Retransmission, SECOND, Settings, Side, Time,
    Token, Traffic, ViAttributes, ViId,
};
use causeway_wire::vi::{Control, FrameHeader, FrameKind, STATUS_OFFSET, Segment};

use super::host::{BASE, TAG};
use super::{World, level};

const MEMORY: usize = 1 << 16;
const VIS: u32 = 3;
/// Owed by a descriptor that cannot be reached: a report.
const NOWHERE: u64 = u64::MAX;
/// A card that is not idle after this many steps never becomes idle.
const MOST_STEPS: u32 = 200_000;

/// Bytes taken from the front; zeros when there are no more.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: u32) -> u32 {
        u32::from(self.next()) % limit
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.next(), self.next(), self.next(), self.next()])
    }
}

/// The card, and what is expected of it.
struct Player<'a> {
    bytes: Bytes<'a>,
    world: World,
    /// Bus addresses of the statuses that each work queue owes, in order.
    owed: BTreeMap<(u32, bool), VecDeque<u64>>,
    extra: Option<u32>,
}

/// Drives a card by the events that `bytes` encode.
pub(crate) fn feed(bytes: &[u8]) {
    let mut player = Player::new(Bytes(bytes));
    while !player.bytes.0.is_empty() {
        player.act();
        player.check();
    }
    player.end();
}

fn settings(bytes: &mut Bytes<'_>) -> Settings {
    let discipline = match bytes.below(3) {
        0 => Discipline::Sequential,
        1 => Discipline::EventDriven,
        _ => Discipline::QosAware,
    };
    let sequential = discipline == Discipline::Sequential;
    let flags = bytes.next();
    let flag = |bit: u8| flags >> bit & 1 == 1;
    let more = bytes.next();
    let queue = |hardware: bool| match hardware && !sequential {
        true => DmaQueue::Hardware(3),
        false => DmaQueue::Software,
    };
    Settings {
        discipline,
        two_processors: flag(0) && !sequential,
        doorbells: if flag(1) {
            Doorbells::Queued
        } else {
            Doorbells::Polled
        },
        host_dma: queue(flag(2)),
        net_send: queue(flag(3)),
        net_receive: 1 + u32::from(flag(4)),
        receive_descriptors: match flag(5) {
            true => ReceiveDescriptors::Ahead,
            false => ReceiveDescriptors::OnArrival,
        },
        tailgating: flag(6) && !sequential,
        cut_through: more >> 1 & 1 == 1,
        receive_cut_through: more >> 2 & 1 == 1,
        doorbells_last: more & 1 == 1,
        shadow_queues: flag(7),
        payload_bytes: 48,
        frame_bytes: 256,
        page_bytes: 512,
        limits: Limits {
            vis: VIS + 1,
            posted_per_queue: 4,
            descriptors_per_queue: 1 + bytes.below(3),
            segments: 3,
            regions: 4,
            completion_queues: 1,
            buffers: 7,
            receive_buffers: 4,
            frames: 5,
            frames_per_message: 2,
            reads: 2,
            ..Limits::default()
        },
        reliable: causeway_firmware::Reliable {
            retransmission: match bytes.below(2) {
                0 => Retransmission::GoBack,
                _ => Retransmission::Selective,
            },
            window: 1 + bytes.below(6),
            retries: 2,
            ..Default::default()
        },
        ..Settings::default()
    }
}

impl<'a> Player<'a> {
    fn new(mut bytes: Bytes<'a>) -> Self {
        let settings = settings(&mut bytes);
        let mut world = World::with_memory(&[settings], MEMORY);
        let reliability = match bytes.below(3) {
            0 => Reliability::Unreliable,
            1 => Reliability::Delivery,
            _ => Reliability::Reception,
        };
        let queue = world.nodes[0].completion_queue(3).0;
        let attributes = ViAttributes {
            send_queue: Some(queue),
            receive_queue: (bytes.below(2) == 0).then_some(queue),
            ..level(reliability)
        };
        let vis: Vec<_> = (0..VIS)
            .map(|_| world.nodes[0].create_vi(attributes))
            .collect();
        // Two talk to each other, one to an absent peer whose frames follow from the bytes.
        world.join((0, vis[0]), (0, vis[1]));
        world.meet(vis[2]);
        Self {
            bytes,
            world,
            owed: BTreeMap::new(),
            extra: None,
        }
    }

    fn now(&self) -> Time {
        self.world.now
    }

    fn vi(&mut self) -> ViId {
        ViId(self.bytes.below(VIS))
    }

    fn side(&mut self) -> Side {
        match self.bytes.below(2) {
            0 => Side::Send,
            _ => Side::Receive,
        }
    }

    /// Processes one event.
    fn act(&mut self) {
        self.world.now += 1000;
        match self.bytes.next() % 32 {
            0..=4 => self.post(),
            5..=9 => self.world.turn(0, 0),
            10 | 11 if self.world.nodes[0].firmware.settings().two_processors => {
                self.world.turn(0, 1);
            }
            12..=15 => self.finish(0),
            16 | 17 => self.finish(1),
            18 | 19 => self.carry(),
            20 if self.world.nodes[0].may_begin_frame() => {
                self.world.nodes[0].begin_frame(self.world.now);
            }
            21 if self.world.nodes[0].coming().is_some() => {
                self.world.nodes[0].break_frame(self.world.now);
            }
            20..=22 => self.world.nodes[0].take_frame(self.world.now),
            23 => self.forge(),
            24 => self.nonsense(),
            25 => self.world.now += SECOND / 2000,
            26 => {
                let vi = self.vi();
                let _ = self.world.nodes[0].firmware.disconnect(vi);
                self.world.nodes[0].wake();
            }
            27 => self.reconnect(),
            28 => self.memory(),
            29 => self.reserve(),
            30 => self.post_nowhere(),
            _ => self.settle(),
        }
    }

    /// A process posts a descriptor that makes sense, or almost.
    fn post(&mut self) {
        let (vi, side) = (self.vi(), self.side());
        let host = &self.world.nodes[0].host;
        let bus = host.bus(host.next_descriptor() + STATUS_OFFSET as u64) as u64;
        let outstanding = self.owed.values().flatten().any(|&other| other == bus);
        if outstanding || self.is_full(vi, side) {
            return;
        }
        let bits = u16::from(self.bytes.next() & 0x1f);
        let count = self.bytes.below(5);
        let mut segments = Vec::new();
        let mut length = 0_u32;
        let handle = self.world.nodes[0].host.handle;
        for _ in 0..count {
            let bytes = self.bytes.below(4) * 150;
            let spoilt = self.bytes.below(16) == 0;
            segments.push(Segment {
                address: BASE + MEMORY as u64 / 2 + u64::from(self.bytes.next()) * 64,
                handle: if spoilt { handle ^ 1 } else { handle },
                bytes,
            });
            length = length.wrapping_add(bytes);
        }
        let rdma = bits & 3 != 0 && bits & 3 != 3;
        if rdma && let Some(first) = segments.first() {
            length -= first.bytes;
        }
        if bits & 0x10 != 0 {
            length = self.bytes.below(60);
        }
        let control = Control {
            bits: if side == Side::Receive { 0 } else { bits },
            length,
            immediate: 5,
            ..Control::default()
        };
        let payload = [7; 48];
        let inside = if bits & 0x10 != 0 { &payload[..] } else { &[] };
        let node = &mut self.world.nodes[0];
        let descriptor = node.host.descriptor(control, &segments, inside);
        node.post(self.world.now, vi, side, descriptor);
        let queue = self.owed.entry((vi.0, side == Side::Receive));
        queue.or_default().push_back(bus);
    }

    /// A process posts an address that the card cannot reach.
    fn post_nowhere(&mut self) {
        let (vi, side) = (self.vi(), self.side());
        let address = u64::from(self.bytes.word()) << 7;
        if (BASE..BASE + MEMORY as u64).contains(&address) {
            return;
        }
        if !self.is_full(vi, side) {
            self.world.nodes[0].post(self.world.now, vi, side, address);
            let queue = self.owed.entry((vi.0, side == Side::Receive));
            queue.or_default().push_back(NOWHERE);
        }
    }

    /// Whether a further descriptor might exceed the number that the card records; an overflow it records only as such.
    fn is_full(&self, vi: ViId, side: Side) -> bool {
        let queue = self.owed.get(&(vi.0, side == Side::Receive));
        queue.is_some_and(|queue| queue.len() >= 4)
    }

    /// An engine finishes: the network's also before the data has come that it should have waited for.
    fn finish(&mut self, engine: usize) {
        if !self.world.nodes[0].running[engine].is_empty() {
            self.world.nodes[0].concurrent = self.bytes.below(2) == 1;
            self.world.finish(0, engine);
        }
    }

    /// The wire carries a frame, loses it, or doubles it.
    fn carry(&mut self) {
        if let Some(frame) = self.world.wire.pop_front() {
            assert!(FrameHeader::decode(&frame.header).is_ok());
            let fate = self.bytes.below(8);
            if fate == 0 || frame.to != 0 {
                return;
            }
            if fate == 1 {
                self.world.wire.push_back(frame.clone());
            }
            self.world.nodes[0].inbox.push_back(frame);
        }
    }

    /// A frame arrives that is forged to look like one of a connection.
    fn forge(&mut self) {
        let kinds = [
            FrameKind::Send,
            FrameKind::Write,
            FrameKind::ReadRequest,
            FrameKind::ReadReply,
            FrameKind::Ack,
            FrameKind::Refuse,
        ];
        let kind = kinds[self.bytes.below(6) as usize];
        let flags = u16::from(self.bytes.next() & 0x3f);
        let mut header = FrameHeader {
            flags,
            ..FrameHeader::new(kind)
        };
        let vi = self.vi();
        header.to_vi = vi.0;
        header.from_vi = [1, 0, 9][vi.0 as usize];
        header.from_node = [0, 0, 5][vi.0 as usize];
        header.key = match self.bytes.below(16) {
            0 => 0,
            _ => self.world.key_of(vi),
        };
        for field in [
            &mut header.sequence,
            &mut header.ack,
            &mut header.credit,
            &mut header.ahead,
            &mut header.message,
            &mut header.offset,
            &mut header.total,
        ] {
            *field = match self.bytes.next() {
                255 => u32::MAX,
                254 => 256,
                byte => u32::from(byte % 16),
            };
        }
        header.handle = self.world.nodes[0].host.handle;
        header.address = BASE + MEMORY as u64 / 2 + u64::from(self.bytes.next());
        let body = vec![3; self.bytes.below(4) as usize * 85];
        self.world.nodes[0].inbox.push_back(super::WireFrame {
            to: 0,
            header: header.to_bytes().to_vec(),
            body,
        });
    }

    /// Events that cannot happen on a sound card.
    fn nonsense(&mut self) {
        let (word, now) = (self.bytes.word(), self.now());
        let vi = ViId(word % 7 + VIS + 1);
        let running = |token: u32| {
            let engines = &self.world.nodes[0].running;
            engines.iter().flatten().any(|of| of.token == Token(token))
        };
        let input = match self.bytes.below(8) {
            0 => Input::DmaFinished {
                engine: Engine::NetReceive,
                token: Token(word),
                bytes: &[1, 2, 3],
            },
            1 if !running(word) => Input::DmaFinished {
                engine: Engine::Host,
                token: Token(word),
                bytes: &[],
            },
            2 if !running(word) => Input::DmaFinished {
                engine: Engine::NetSend,
                token: Token(word),
                bytes: &[],
            },
            3 => Input::FrameArrived {
                buffer: BufferId(word | 8),
                header: &[0; 64],
                bytes: word,
            },
            4 => Input::Polled(Processor::Second, word),
            5 => Input::FrameBroken {
                buffer: BufferId(word | 8),
            },
            6 => Input::FrameBegun {
                buffer: BufferId(word | 8),
                header: &[0; 64],
                bytes: word,
            },
            _ => Input::Doorbell {
                vi,
                side: Side::Send,
                address: BASE,
                handle: word,
                shadow: &[],
            },
        };
        self.world.nodes[0].firmware.input(now, input);
    }

    fn reconnect(&mut self) {
        let vi = self.vi();
        match vi.0 {
            2 => self.world.meet(vi),
            _ => self.world.join_if_idle(ViId(0), ViId(1)),
        }
    }

    /// Memory is registered and deregistered; memory in use stays registered.
    fn memory(&mut self) {
        let firmware = &mut self.world.nodes[0].firmware;
        match self.extra.take() {
            Some(handle) => {
                if firmware.deregister(handle).is_err() {
                    self.extra = Some(handle);
                }
            }
            None => {
                let region = Region {
                    base: BASE,
                    bytes: 512,
                    tag: TAG,
                    rdma_write: true,
                    rdma_read: true,
                    pages: &[0, 512],
                };
                self.extra = firmware.register(region).ok();
            }
        }
    }

    fn reserve(&mut self) {
        let vi = self.vi();
        let traffic = Traffic::Constant {
            rate: u64::from(self.bytes.word() % 20_000_000),
            message_bytes: self.bytes.below(200) * 10,
        };
        let direction = match self.bytes.below(2) {
            0 => Direction::Outgoing,
            _ => Direction::Incoming,
        };
        let firmware = &mut self.world.nodes[0].firmware;
        if firmware.reserve(vi, direction, traffic).is_err() {
            let _ = firmware.release(vi, direction);
        }
    }

    /// Statuses were owed, and come in order.
    fn check(&mut self) {
        let card = &mut self.world.nodes[0].card;
        for report in card.reports.drain(..) {
            if let Report::Unreachable { vi, side, .. } = report {
                let queue = self.owed.entry((vi.0, side == Side::Receive)).or_default();
                let at = queue.iter().position(|&bus| bus == NOWHERE);
                queue.remove(at.expect("something was posted nowhere"));
            }
        }
        for (vi, side, bus) in card.statuses.drain(..) {
            let queue = self.owed.entry((vi.0, side == Side::Receive)).or_default();
            assert_eq!(queue.pop_front(), Some(bus), "{vi:?} {side:?}");
        }
    }

    /// Processes all events.
    fn settle(&mut self) {
        for _ in 0..MOST_STEPS {
            if !self.world.step() {
                return;
            }
            self.check();
        }
        panic!("the card does not become idle");
    }

    /// Everything is taken down, and then the card is as good as new.
    fn end(&mut self) {
        self.settle();
        for vi in (0..VIS).map(ViId) {
            let _ = self.world.nodes[0].firmware.disconnect(vi);
        }
        self.world.nodes[0].wake();
        for _ in 0..MOST_STEPS {
            self.settle();
            let Some(deadline) = self.world.nodes[0].firmware.deadline() else {
                break;
            };
            self.world.now = self.now().max(deadline);
            self.world.nodes[0].wake();
        }
        for ((vi, receives), queue) in &self.owed {
            assert!(queue.is_empty(), "{vi} {receives}: {queue:?}");
        }
        let node = &mut self.world.nodes[0];
        for vi in (0..VIS).map(ViId) {
            assert_eq!(node.firmware.destroy_vi(vi), Ok(()), "{vi:?}");
        }
        assert_eq!(node.firmware.deregister(node.host.handle), {
            Err(causeway_firmware::SetUpError::Busy { what: "region" })
        });
        self.works();
    }

    /// A message of many frames arrives: no buffer, frame or place has been lost.
    fn works(&mut self) {
        let world = &mut self.world;
        world.wire.clear();
        world.nodes[0].inbox.clear();
        let vis = [0, 1].map(|_| world.nodes[0].create_vi(level(Reliability::Delivery)));
        world.join((0, vis[0]), (0, vis[1]));
        world.settle();
        let into = world.nodes[0].host.span(4000);
        let from = world.nodes[0].host.with(&[9; 4000]);
        let received = world.nodes[0].receive(world.now, vis[1], &[into]);
        let sent = world.nodes[0].send(world.now, vis[0], &[from]);
        world.rest();
        assert_eq!(world.nodes[0].status(sent).bits, 1);
        assert_eq!(world.nodes[0].status(received).length, 4000);
        let awaited = world.nodes[0].firmware.settings().net_receive as usize;
        assert_eq!(world.nodes[0].posted.len(), awaited);
        let broken = |report: &Report| matches!(report, Report::Broken(..));
        assert!(!world.nodes[0].reports.iter().any(broken));
    }
}

/// Event sequences that once made a card fail, as short as possible.
const ONCE_BROKEN: [&[u8]; 1] = [
    // A second descriptor waits to come along with the data of the first, which is read when the program
    // disconnects, and is complete before the program's wish is taken up.
    &[
        1, 0x67, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 168, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 5, 5, 5, 5, 26, 0, 12, 0, 5, 5, 12,
    ],
];

/// Inputs in which most operations succeed, as seeds for mutations.
pub(crate) fn samples() -> Vec<Vec<u8>> {
    let mut samples: Vec<_> = ONCE_BROKEN.iter().map(|bytes| bytes.to_vec()).collect();
    for discipline in 0..3 {
        for flags in [0x00, 0x22, 0x3e, 0x67, 0xbe] {
            for level in 0..3 {
                let mut bytes = vec![discipline, flags, 1, level, 4, level, 0];
                for round in 0..6 {
                    // A receive on one end, a send of two segments on the other, and the events that follow.
                    bytes.extend([0, 1, 1, 0, 2, 2, 1, round, 2, 1, 40]);
                    bytes.extend([1, 0, 0, round % 3, 2, 1, 1, 9, 2, 1, 80]);
                    bytes.extend([5, 12, 0, 5, 12, 0, 5, 16, 18, 5, 20, 5, 12, 1, 5]);
                    bytes.extend([[31, 25, 27, 26, 28, 29][round as usize]]);
                }
                samples.push(bytes);
            }
        }
    }
    samples
}
