//! The data path allocates no memory: counted, on a card that allocates none itself.

use std::collections::VecDeque;

use causeway_firmware::{
    BufferId, Card, CompletionQueue, Connection, DmaRequest, Engine, Firmware, Input, NodeId,
    Piece, Processor, Region, Reliability, Report, Retransmission, Settings, Side, Step, Time,
    Token, Transfer, Turn, ViAttributes, ViId,
};
use causeway_wire::vi::{Control, FRAME_HEADER_BYTES, Segment};

use crate::designs::{LEVELS, designs};
use crate::world::host::TAG;

const MEMORY: u64 = 1 << 20;
const BASE: u64 = 1 << 20;
const MOST: usize = 256;

/// A card that records requests in queues allocated beforehand.
struct Quiet {
    host: VecDeque<(Token, Option<(u64, usize)>)>,
    net: VecDeque<(Token, [u8; FRAME_HEADER_BYTES], u32)>,
    posted: VecDeque<BufferId>,
    statuses: u32,
}

fn reach(pieces: &[Piece]) -> Option<(u64, usize)> {
    let first = pieces.first()?;
    Some((
        first.bus,
        pieces.iter().map(|piece| piece.bytes as usize).sum(),
    ))
}

impl Card for Quiet {
    fn charge(&mut self, _: Step, _: u32) {}

    fn start_dma(&mut self, _: Engine, request: DmaRequest<'_>) {
        let descriptor = match request.transfer {
            Transfer::Receive { into } => {
                self.posted.push_back(into);
                return;
            }
            Transfer::Transmit { header, body, .. } => {
                let header = header.try_into().expect("all headers are of one length");
                self.net.push_back((request.token, header, body.bytes()));
                return;
            }
            Transfer::ReadDescriptor { pieces, .. } => reach(pieces),
            Transfer::ReadData { tail, .. } => reach(tail),
            Transfer::WriteStatus { .. } => {
                self.statuses += 1;
                None
            }
            _ => None,
        };
        self.host.push_back((request.token, descriptor));
    }

    fn report(&mut self, report: Report) {
        panic!("{report:?}");
    }
}

/// A card connected to itself; host memory lies at its bus address.
struct Loop {
    firmware: Firmware,
    card: Quiet,
    memory: Vec<u8>,
    inbox: VecDeque<([u8; FRAME_HEADER_BYTES], u32)>,
    now: Time,
    vis: [ViId; 2],
    handle: u32,
    /// One frame in this number is lost.
    loses: u64,
    frames: u64,
}

impl Loop {
    fn new(settings: &Settings, reliability: Reliability, loses: u64) -> Self {
        let mut firmware = Firmware::new(settings.clone()).expect("settings that make sense");
        let page = u64::from(settings.page_bytes);
        let pages: Vec<u64> = (0..MEMORY / page).map(|number| number * page).collect();
        let region = Region {
            base: BASE,
            bytes: MEMORY,
            tag: TAG,
            rdma_write: true,
            rdma_read: true,
            pages: &pages,
        };
        let handle = firmware.register(region).expect("there is room");
        let queue = CompletionQueue {
            address: BASE,
            handle,
            tag: TAG,
            entries: 64,
        };
        let queue = firmware.create_queue(queue).expect("there is room");
        let attributes = ViAttributes {
            tag: TAG,
            reliability,
            rdma_write: true,
            rdma_read: true,
            send_queue: Some(queue),
            receive_queue: Some(queue),
        };
        let vis = [0, 1].map(|_| firmware.create_vi(attributes).expect("there is room"));
        for (vi, peer) in [(vis[0], vis[1]), (vis[1], vis[0])] {
            let connection = Connection {
                node: NodeId(0),
                vi: peer,
                key: 1,
            };
            firmware.connect(vi, connection).expect("it is idle");
        }
        Self {
            firmware,
            card: Quiet {
                host: VecDeque::with_capacity(MOST),
                net: VecDeque::with_capacity(MOST),
                posted: VecDeque::with_capacity(MOST),
                statuses: 0,
            },
            memory: vec![0; MEMORY as usize],
            inbox: VecDeque::with_capacity(MOST),
            now: 0,
            vis,
            handle,
            loses,
            frames: 0,
        }
    }

    fn post(&mut self, vi: usize, side: Side, slot: u64, control: Control, segments: &[Segment]) {
        let at = (4096 + slot * 512) as usize;
        let control = Control {
            segments: segments.len() as u16,
            ..control
        };
        self.memory[at..at + 32].copy_from_slice(&control.to_bytes());
        for (number, segment) in segments.iter().enumerate() {
            let place = at + 32 + 16 * number;
            self.memory[place..place + 16].copy_from_slice(&segment.to_bytes());
        }
        let input = Input::Doorbell {
            vi: self.vis[vi],
            side,
            address: BASE + at as u64,
            handle: self.handle,
            shadow: &self.memory[at..at + 512],
        };
        self.firmware.input(self.now, input);
    }

    /// Processes all events, deadlines included.
    fn rest(&mut self) {
        loop {
            self.now += 1000;
            let turns = [Processor::First, Processor::Second].map(|processor| {
                match self.firmware.turn(self.now, processor, &mut self.card) {
                    Turn::Polling { ahead } => {
                        let polled = Input::Polled(processor, ahead);
                        self.firmware.input(self.now, polled);
                        true
                    }
                    turn => turn == Turn::Worked,
                }
            });
            if !(self.finish() | turns[0] | turns[1]) {
                match self.firmware.deadline() {
                    Some(deadline) => self.now = self.now.max(deadline),
                    None => return,
                }
            }
        }
    }

    fn finish(&mut self) -> bool {
        let mut busy = false;
        if let Some((token, descriptor)) = self.card.host.pop_front() {
            let bytes = descriptor.map_or(&[][..], |(at, count)| {
                &self.memory[at as usize..at as usize + count]
            });
            let input = Input::DmaFinished {
                engine: Engine::Host,
                token,
                bytes,
            };
            self.firmware.input(self.now, input);
            busy = true;
        }
        if let Some((token, header, bytes)) = self.card.net.pop_front() {
            self.frames += 1;
            if self.loses == 0 || !self.frames.is_multiple_of(self.loses) {
                self.inbox.push_back((header, bytes));
            }
            let input = Input::DmaFinished {
                engine: Engine::NetSend,
                token,
                bytes: &[],
            };
            self.firmware.input(self.now, input);
            busy = true;
        }
        if !self.inbox.is_empty()
            && let Some(buffer) = self.card.posted.pop_front()
            && let Some((header, bytes)) = self.inbox.pop_front()
        {
            let input = Input::FrameArrived {
                buffer,
                header: &header,
                bytes,
            };
            self.firmware.input(self.now, input);
            busy = true;
        }
        busy
    }

    /// Messages of all kinds both ways; how many descriptors were posted.
    fn traffic(&mut self, rdma: bool, rounds: u64) -> u32 {
        let mut posted = 0;
        for round in 0..rounds {
            let span = |at: u64, bytes: u32| Segment {
                address: BASE + (1 << 19) + at,
                handle: self.handle,
                bytes,
            };
            let (here, there) = (span(round, 9000), span(50_000 + round, 9000));
            let sending = Control {
                length: 9000,
                ..Control::default()
            };
            let inside = Control {
                bits: 0x10,
                length: 40,
                ..Control::default()
            };
            let moving = |bits| Control { bits, ..sending };
            let slot = |vi: usize, number: u64| vi as u64 * 64 + round % 8 * 8 + number;
            for vi in 0..2 {
                for number in 0..2 {
                    let at = slot(vi, number);
                    self.post(vi, Side::Receive, at, Control::default(), &[there]);
                }
            }
            // Without reliability a frame that arrives before the card has seen its descriptor is dropped.
            self.rest();
            for vi in 0..2 {
                self.post(vi, Side::Send, slot(vi, 2), sending, &[here]);
                self.post(vi, Side::Send, slot(vi, 3), inside, &[]);
                posted += 4;
                if rdma {
                    self.post(vi, Side::Send, slot(vi, 4), moving(1), &[there, here]);
                    self.post(vi, Side::Send, slot(vi, 5), moving(2), &[there, here]);
                    posted += 2;
                }
            }
            self.rest();
        }
        posted
    }
}

#[test]
fn no_memory_is_allocated_after_set_up() {
    for (name, settings) in designs() {
        for reliability in LEVELS {
            for retransmission in [Retransmission::GoBack, Retransmission::Selective] {
                let mut settings = settings.clone();
                settings.reliable.retransmission = retransmission;
                let reliable = reliability != Reliability::Unreliable;
                let loses = if reliable { 13 } else { 0 };
                let mut card = Loop::new(&settings, reliability, loses);
                let mut posted = 0;
                let taken = allocation_counter::measure(|| posted = card.traffic(reliable, 20));
                assert_eq!(card.card.statuses, posted, "{name} {reliability:?}");
                assert_eq!(taken.count_total, 0, "{name} {reliability:?}: {taken:?}");
            }
        }
    }
}
