//! Sessions of the TCP method over a stream of bytes that arrives in pieces of any size, is cut in
//! the middle of a frame, or is altered.
//!
//! Whole or cut, the model checks all packets and transfers. An altered stream may contain anything, as far as its
//! connection's checksums let it through: then a session must end with a clean error or continue, and never panic,
//! loop, use more and more memory, or complete a transfer twice.

use std::collections::{HashSet, VecDeque};

use causeway_sys::memory::Memory;
use causeway_transport::session::{Bounds, MAIN, Session};
use causeway_transport::{
    Access, Direction, Packet, Peer, PeerError, SendError, Sink, Token, Transfer, TransferError,
};

use super::Outcome;
use super::model::{Model, NodeSink, pattern};
use crate::random::Random;

/// The one handle of each side.
const PEER: Peer = Peer(1);

/// The most memory that a session may hold for any input.
const MOST_OWNED_BYTES: usize = 4 << 20;

/// Rounds within which two sessions must become idle.
const MOST_ROUNDS: usize = 200_000;

struct Side {
    session: Session,
    /// Bytes on their way to this side.
    wire: VecDeque<u8>,
}

struct Run {
    random: Random,
    model: Model,
    sides: [Side; 2],
    bytes: u64,
    log: Vec<u8>,
}

/// Runs the sessions of one seed to their end.
///
/// # Panics
/// If a check fails.
pub fn run(seed: u64) -> Outcome {
    let mut random = Random::new(seed ^ 0x5eed);
    let fate = random.below(3);
    let bounds = Bounds {
        queue_bytes: 4096 << random.below(8),
        max_transfers: 1 + random.below(30),
    };
    let side = || Side {
        session: Session::new(bounds),
        wire: VecDeque::new(),
    };
    let mut run = Run {
        model: Model::new(fate == 0),
        sides: [side(), side()],
        bytes: 0,
        log: Vec::new(),
        random,
    };
    for node in 0..2 {
        run.model.connected(node, 0, PEER, 1 - node);
    }
    let steps = 50 + run.random.below(300);
    for _ in 0..steps {
        run.step(true);
    }
    match fate {
        0 => run.finish(),
        1 => run.cut(),
        _ => run.alter(),
    }
    let progress = run.model.progress;
    Outcome {
        log: run.log,
        datagrams: run.bytes / 1024,
        packets: progress.0,
        transfers: progress.1,
    }
}

impl Run {
    fn step(&mut self, acting: bool) {
        let side = self.random.below(2);
        match self.random.below(if acting { 8 } else { 5 }) {
            0 | 1 => self.transmit(side),
            2..5 => {
                if let Err(cause) = self.receive(side) {
                    panic!("side {side}: {cause}");
                }
            }
            5 | 6 => self.send(side),
            _ => self.start(side),
        }
        let owned = self.sides[side].session.owned_bytes();
        assert!(owned < MOST_OWNED_BYTES, "side {side} holds {owned} bytes");
    }

    /// Moves some bytes from a side's session to the wire to the other.
    fn transmit(&mut self, side: usize) {
        let mut buffer = vec![0; self.random.spread(18)];
        let count = self.sides[side].session.output(MAIN, &mut buffer);
        self.bytes += count as u64;
        self.log.extend((count as u32).to_le_bytes());
        self.sides[1 - side].wire.extend(&buffer[..count]);
    }

    /// Lets a side take some bytes from its wire.
    fn receive(&mut self, side: usize) -> Result<(), PeerError> {
        let Side { session, wire } = &mut self.sides[side];
        let count = self.random.spread(18).min(wire.len());
        let bytes: Vec<u8> = wire.drain(..count).collect();
        let mut sink = NodeSink {
            model: &mut self.model,
            node: side,
            life: 0,
        };
        session.input(MAIN, &bytes, PEER, &mut sink)?;
        session.deliver(PEER, &mut sink);
        session.take_writable();
        Ok(())
    }

    fn send(&mut self, side: usize) {
        let end = self.model.end(side, 0, PEER);
        let number = self.random.one_in(3).then(|| {
            let number = self.model.number();
            let (whole, span) = Model::memory(number, self.random.spread(17));
            let session = &mut self.sides[side].session;
            let descriptor = session.export(number, &span, Access::ReadWrite);
            self.model.exported(number, end, whole, descriptor);
            number
        });
        let packet = self.model.packet(end, self.random.spread(18), number);
        match self.sides[side].session.send(&[&packet]) {
            Ok(()) => self.model.sent(end),
            Err(SendError::WouldBlock) => {}
            Err(error) => panic!("side {side}: {error}"),
        }
    }

    fn start(&mut self, side: usize) {
        if self.random.one_in(8)
            && let Some((_, key)) = self.model.some_region(side, 0)
        {
            return self.sides[side].session.unexport(key);
        }
        let Some(offer) = self.model.take_offer(side, 0) else {
            return;
        };
        let len = offer.descriptor.len as usize;
        let end = self.model.end(side, 0, PEER);
        let (direction, local, notify) = match self.random.below(2) {
            0 => (Direction::Get, Memory::zeroed(len), None),
            _ => {
                let bytes = pattern(!offer.region, len);
                let notify = self.model.notify(end, offer.region);
                (Direction::Put, Memory::from_vec(bytes), Some(notify))
            }
        };
        let token = self.model.number();
        let split = self.random.below(len + 1);
        let part = |from: usize, to: usize| offer.descriptor.part(from as u64, (to - from) as u64);
        let transfer = Transfer {
            direction,
            local: vec![local.clone()].into(),
            remote: vec![part(0, split), part(split, len)].into(),
            notify: notify.map(Into::into),
            registrations: Vec::new(),
            token,
        };
        match self.sides[side].session.transfer(transfer) {
            Ok(()) => self
                .model
                .began(end, token, direction, offer.region, &local),
            Err(SendError::WouldBlock) => {}
            Err(error) => panic!("side {side}: {error}"),
        }
    }

    /// The stream is whole: all operations complete.
    fn finish(&mut self) {
        for _ in 0..MOST_ROUNDS {
            let Some(missing) = self.model.unfinished() else {
                return self.model.check_memory();
            };
            for side in 0..2 {
                self.transmit(side);
                if let Err(cause) = self.receive(side) {
                    panic!("side {side}: {cause}, with {missing}");
                }
            }
        }
        panic!("still there: {:?}", self.model.unfinished());
    }

    /// The connection ends at any byte: every transfer completes, once.
    fn cut(&mut self) {
        for node in 0..2 {
            let cause = PeerError::Broken("cut".to_owned());
            let mut sink = NodeSink {
                model: &mut self.model,
                node,
                life: 0,
            };
            let session = &mut self.sides[node].session;
            session.fail(&cause, PEER, &mut sink);
            sink.peer_down(PEER, cause);
        }
        assert_eq!(self.model.unfinished(), None);
        self.model.check_memory();
    }

    /// Bits of bytes on their way are flipped.
    fn alter(&mut self) {
        let mut careless = [Careless::default(), Careless::default()];
        for side in 0..2 {
            self.transmit(side);
        }
        for _ in 0..100 {
            for (side, seen) in careless.iter_mut().enumerate() {
                if seen.over {
                    continue;
                }
                self.transmit(side);
                let Side { session, wire } = &mut self.sides[side];
                let mut bytes: Vec<u8> = wire.drain(..).collect();
                if !bytes.is_empty() {
                    let at = self.random.below(bytes.len());
                    bytes[at] ^= 1 << self.random.below(8);
                }
                seen.over = session.input(MAIN, &bytes, PEER, seen).is_err();
                session.deliver(PEER, seen);
                let owned = session.owned_bytes();
                assert!(owned < MOST_OWNED_BYTES, "side {side} holds {owned} bytes");
            }
        }
        for (side, seen) in self.sides.iter_mut().zip(&mut careless) {
            side.session.fail(&PeerError::Closed, PEER, seen);
        }
    }
}

/// A sink that checks only that nothing completes twice.
#[derive(Default)]
struct Careless {
    done: HashSet<Token>,
    over: bool,
}

impl Sink for Careless {
    fn packet(&mut self, _: Peer, packet: Packet<'_>) {
        packet.to_vec(0);
    }

    fn transfer_done(&mut self, _: Peer, token: Token, _: Result<(), TransferError>) {
        assert!(self.done.insert(token), "{token} completed twice");
    }

    fn peer_up(&mut self, _: Peer) {}

    fn peer_down(&mut self, _: Peer, _: PeerError) {}

    fn writable(&mut self, _: Peer) {}
}
