//! Two sessions wired to each other without sockets: random commands, random split points, checked
//! against plain vectors; and random bytes, which must never do more than end the session.

use std::collections::{HashMap, VecDeque};

use causeway_sys::memory::Memory;
use causeway_sys::net::{MAX_PIECES, Piece};
use causeway_wire::random::SplitMix64;
use causeway_wire::region::RegionDescriptor;

use super::*;
use crate::method::{PLACEMENT_HEAD_BYTES, Spans};

/// The same seed gives the same run.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }
    /// Mostly small, sometimes near `most`.
    fn length(&mut self, most: usize) -> usize {
        let shift = self.below(18);
        self.below((most >> shift) + 1)
    }
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.0.bytes(len)
    }
}

#[derive(Default)]
struct Seen {
    packets: VecDeque<Vec<u8>>,
    done: HashMap<Token, Result<(), TransferError>>,
    /// Packets for which a receive buffer was requested: every second one gets it.
    asked: usize,
    placement: Option<([u8; PLACEMENT_HEAD_BYTES], Vec<Memory>)>,
    placed: usize,
    cancelled: usize,
}

impl Sink for Seen {
    fn packet(&mut self, _: Peer, packet: Packet<'_>) {
        self.packets.push_back(packet.to_vec(0));
    }
    fn transfer_done(&mut self, _: Peer, token: Token, result: Result<(), TransferError>) {
        assert!(self.done.insert(token, result).is_none(), "completed twice");
    }
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
    fn receive_buffer(
        &mut self,
        _: Peer,
        head: &[u8; PLACEMENT_HEAD_BYTES],
        len: usize,
        into: &mut Spans,
    ) -> bool {
        assert!(self.placement.is_none(), "two packets placed at once");
        self.asked += 1;
        if self.asked.is_multiple_of(2) {
            return false;
        }
        let rest = len - head.len();
        into.extend([rest / 3, 0, rest - rest / 3].map(Memory::zeroed));
        self.placement = Some((*head, into.to_vec()));
        true
    }
    fn placement_done(&mut self, _: Peer, head: &[u8; PLACEMENT_HEAD_BYTES]) {
        let (shown, memory) = self.placement.take().expect("no placement");
        assert_eq!(*head, shown);
        let mut packet = head.to_vec();
        packet.extend(memory.iter().flat_map(Memory::to_vec));
        self.packets.push_back(packet);
        self.placed += 1;
    }
}

const BOUNDS: Bounds = Bounds {
    queue_bytes: 1 << 20,
    max_transfers: 64,
};
const PEER: Peer = Peer(0);

struct Side {
    session: Session,
    seen: Seen,
    /// Bytes on their way to this side, by connection.
    wires: Vec<VecDeque<u8>>,
    /// Pauses that have held packets back.
    stops: usize,
}

impl Side {
    fn new(connections: usize) -> Self {
        let mut session = Session::new(BOUNDS);
        for _ in 1..connections {
            session.add_subflow();
        }
        Self {
            session,
            seen: Seen::default(),
            wires: vec![VecDeque::new(); connections],
            stops: 0,
        }
    }
}

/// Moves a random number of bytes from one side's session to the wire to the other.
fn transmit(from: &mut Side, to: &mut Side, random: &mut Random) {
    let at = random.below(to.wires.len());
    from.session.refill(at, random.below(4 * MAX_PIECE));
    let mut pieces = [Piece::Bytes(&[]); MAX_PIECES];
    let count = from.session.outbox(at).pieces(&mut pieces);
    let mut budget = random.length(400_000);
    let mut sent = 0;
    for piece in &pieces[..count] {
        let bytes = match piece {
            Piece::Bytes(bytes) => bytes.to_vec(),
            Piece::Memory(memory) => memory.to_vec(),
        };
        let now = budget.min(bytes.len());
        to.wires[at].extend(&bytes[..now]);
        budget -= now;
        sent += now;
    }
    from.session.connection(at).outbox.advance(sent);
}

/// Pauses or resumes at random.
fn pause(side: &mut Side, random: &mut Random) {
    match side.session.pausing.is_on {
        true if random.below(3) == 0 => {
            side.session.resume();
            let held = side.session.has_held();
            let taken = side.session.take_held(PEER, &mut side.seen).unwrap();
            assert_eq!((taken, side.session.held_bytes()), (held, 0));
            side.stops += usize::from(held);
        }
        false if random.below(8) == 0 => side.session.pause(),
        _ => {}
    }
}

/// Lets a side take a random number of bytes from its wire, directly at random where possible.
fn receive(side: &mut Side, random: &mut Random) {
    let at = random.below(side.wires.len());
    pause(side, random);
    // Apart from a packet whose placement has begun, and from what subflows complete.
    let holds =
        side.session.pausing.is_on && side.seen.placement.is_none() && side.wires.len() == 1;
    let before = side.seen.packets.len();
    if side.seen.placement.is_some() && random.below(4) == 0 {
        side.session.cancel_placement();
        side.seen.placement = None;
        side.seen.cancelled += 1;
    }
    let count = random.length(400_000).min(side.wires[at].len());
    let mut bytes: Vec<u8> = side.wires[at].drain(..count).collect();
    let mut spans = Vec::new();
    if random.below(2) == 0 && side.session.direct(at, 1 + random.below(4), &mut spans) {
        let mut taken = 0;
        for span in &spans {
            let now = span.len().min(bytes.len() - taken);
            span.write_at(0, &bytes[taken..taken + now]);
            taken += now;
        }
        spans.clear();
        let seen = &mut side.seen;
        side.session.direct_done(at, taken, PEER, seen).unwrap();
        bytes.drain(..taken);
    }
    side.session
        .input(at, &bytes, PEER, &mut side.seen)
        .unwrap();
    let came = side.seen.packets.len() - before;
    assert!(!holds || came == 0, "{came} packets in a pause");
}

fn split(memory: &Memory, random: &mut Random) -> Vec<Memory> {
    let mut list = Vec::new();
    let mut at = 0;
    while at < memory.len() {
        let len = random.length(memory.len()).min(memory.len() - at);
        list.push(memory.slice(at..at + len));
        at += len;
    }
    list
}

fn split_region(
    region: &RegionDescriptor,
    len: usize,
    random: &mut Random,
) -> Vec<RegionDescriptor> {
    let mut list = Vec::new();
    let mut at = 0;
    while at < len {
        let now = random.length(len).min(len - at);
        list.push(region.part(at as u64, now as u64));
        at += now;
    }
    list
}

/// A transfer in progress with what must hold when it has succeeded.
struct Expected {
    direction: Direction,
    ours: Memory,
    theirs: Memory,
    before: Vec<u8>,
}

#[test]
fn everything_arrives_once_and_in_order_with_any_split_points() {
    let (mut placed, mut cancelled, mut stops) = (0, 0, 0);
    // Connections overtake each other in any order.
    for seed in 1..=100 {
        let connections = if seed <= 60 { 1 } else { 2 + seed as usize % 3 };
        let side = run(seed, connections);
        placed += side.seen.placed;
        cancelled += side.seen.cancelled;
        stops += side.stops;
    }
    assert!(placed > 20 && cancelled > 20, "{placed}, {cancelled}");
    assert!(stops > 100, "{stops}");
}

#[test]
fn a_packet_that_is_never_completed_releases_its_buffer() {
    for fails in [true, false] {
        let mut session = Session::new(BOUNDS);
        let seen = &mut Seen::default();
        let mut frame = Header::new(Kind::Packet, MAX_PACKET).encode().to_vec();
        frame.extend([5; 5000]);
        session.input(MAIN, &frame, PEER, seen).unwrap();
        let (_, memory) = seen.placement.take().expect("it is large enough");
        let mut spans = Vec::new();
        assert!(session.direct(MAIN, 8, &mut spans));
        spans.clear();
        if fails {
            session.fail(&PeerError::Closed, PEER, seen);
            assert!(session.is_between_frames());
        } else {
            session.cancel_placement();
            let rest = vec![6; MAX_PACKET - 5000];
            session.input(MAIN, &rest, PEER, seen).unwrap();
            let packet = seen.packets.pop_front().expect("it is whole");
            assert_eq!(packet, [vec![5; 5000], rest].concat());
        }
        // The receive buffer has the bytes that had arrived before, and no more.
        let buffer: Vec<u8> = memory.iter().flat_map(Memory::to_vec).collect();
        let came = 5000 - PLACEMENT_HEAD_BYTES;
        assert!(buffer[..came].iter().all(|byte| *byte == 5));
        assert!(buffer[came..].iter().all(|byte| *byte == 0));
        assert!(!session.direct(MAIN, 8, &mut spans));
        assert!(seen.packets.is_empty() && seen.placed == 0);
    }
}

fn run(seed: u64, connections: usize) -> Side {
    const MOST: usize = 700_000;
    let random = &mut Random(SplitMix64::new(seed));
    let (mut a, mut b) = (Side::new(connections), Side::new(connections));
    let mut packets = VecDeque::new();
    let mut expected: HashMap<Token, Expected> = HashMap::new();
    let mut notifies = Vec::new();
    let mut arrived = Vec::new();
    for step in 0..400_u64 {
        match random.below(8) {
            0 => {
                let len = random.length(MAX_PACKET - 1);
                let bytes = [&[0][..], &random.bytes(len)].concat();
                if a.session.send(&[&bytes[..1], &bytes[1..]]).is_ok() {
                    packets.push_back(bytes);
                }
            }
            1 if expected.len() < 12 => {
                let theirs = Memory::from_vec(random.bytes(MOST));
                let region = b.session.export(step + 1, &theirs, Access::ReadWrite);
                let len = random.length(MOST);
                let ours = Memory::from_vec(random.bytes(len));
                let direction = [Direction::Put, Direction::Get][random.below(2)];
                let before = match direction {
                    Direction::Put => ours.to_vec(),
                    Direction::Get => theirs.slice(0..len).to_vec(),
                };
                let notify = (random.below(2) == 0).then(|| {
                    let bytes = [&[1][..], &step.to_le_bytes()].concat();
                    notifies.push(bytes.clone());
                    bytes
                });
                let transfer = Transfer {
                    direction,
                    local: split(&ours, random).into(),
                    remote: split_region(&region, len, random).into(),
                    notify: notify.map(Into::into),
                    registrations: Vec::new(),
                    token: step,
                };
                a.session.transfer(transfer).unwrap();
                let entry = Expected {
                    direction,
                    ours,
                    theirs,
                    before,
                };
                expected.insert(step, entry);
            }
            2 | 3 => transmit(&mut a, &mut b, random),
            4 => transmit(&mut b, &mut a, random),
            5 | 6 => receive(&mut b, random),
            _ => receive(&mut a, random),
        }
        check(&mut a, &mut b, &mut packets, &mut expected, &mut arrived);
    }
    for _ in 0..5000 {
        if packets.is_empty() && expected.is_empty() && arrived.len() == notifies.len() {
            break;
        }
        transmit(&mut a, &mut b, random);
        receive(&mut b, random);
        transmit(&mut b, &mut a, random);
        receive(&mut a, random);
        check(&mut a, &mut b, &mut packets, &mut expected, &mut arrived);
    }
    assert!(packets.is_empty() && expected.is_empty(), "seed {seed}");
    assert!(!a.session.is_outstanding() && a.session.is_between_frames());
    assert!(b.session.is_between_frames());
    arrived.sort();
    notifies.sort();
    assert_eq!(arrived, notifies, "seed {seed}");
    assert_eq!((a.session.transfers, a.session.notify_bytes), (0, 0));
    b
}

fn check(
    a: &mut Side,
    b: &mut Side,
    packets: &mut VecDeque<Vec<u8>>,
    expected: &mut HashMap<Token, Expected>,
    arrived: &mut Vec<Vec<u8>>,
) {
    a.session.deliver(PEER, &mut a.seen);
    for packet in b.seen.packets.drain(..) {
        match packet[0] {
            0 => assert!(Some(&packet) == packets.pop_front().as_ref(), "order"),
            _ => {
                let token = u64::from_le_bytes(packet[1..].try_into().unwrap());
                if let Some(transfer) = expected.get(&token) {
                    assert_moved(transfer);
                }
                arrived.push(packet);
            }
        }
    }
    for (token, result) in a.seen.done.drain() {
        assert_eq!(result, Ok(()));
        let transfer = expected.remove(&token).expect("ours");
        assert_moved(&transfer);
        b.session.unexport(token + 1);
        assert_eq!(transfer.ours.sharers(), 1, "nothing is kept");
        assert_eq!(transfer.theirs.sharers(), 1, "nothing is kept");
    }
}

fn assert_moved(transfer: &Expected) {
    let len = transfer.before.len();
    match transfer.direction {
        Direction::Put => assert!(transfer.theirs.slice(0..len).to_vec() == transfer.before),
        Direction::Get => assert!(transfer.ours.to_vec() == transfer.before),
    }
}

#[test]
fn random_frames_do_no_more_than_end_the_session() {
    let mut ended = 0;
    for seed in 1..=3000_u64 {
        let random = &mut Random(SplitMix64::new(seed));
        let connections = 1 + seed as usize % 2;
        let mut side = Side::new(connections);
        let exported = Memory::zeroed(5000);
        let beside = Memory::zeroed(100);
        side.session.export(7, &exported, Access::Write);
        side.session.export(8, &beside, Access::Read);
        for token in 0..4 {
            let transfer = Transfer {
                direction: [Direction::Put, Direction::Get][token as usize % 2],
                local: vec![Memory::zeroed(3000)].into(),
                remote: vec![RegionDescriptor {
                    key: 1,
                    base: FIRST_BASE,
                    len: 3000,
                    object: None,
                }]
                .into(),
                notify: Some(vec![1].into()),
                registrations: Vec::new(),
                token,
            };
            side.session.transfer(transfer).unwrap();
        }
        let mut over = false;
        for _ in 0..30 {
            let bytes = hostile(random);
            let at = random.below(connections);
            side.session.refill(at, AHEAD_BYTES);
            if random.below(2) == 0 {
                let most = side.session.outbox(at).committed();
                let sent = random.below(most + 1);
                side.session.connection(at).outbox.advance(sent);
            }
            let (front, back) = bytes.split_at(random.below(bytes.len()));
            let fed = side
                .session
                .input(at, front, PEER, &mut side.seen)
                .and_then(|()| side.session.input(at, back, PEER, &mut side.seen));
            if fed.is_err() {
                over = true;
                break;
            }
            assert!(side.session.owned_bytes() < 2 << 20);
        }
        ended += usize::from(over);
        side.session.fail(&PeerError::Closed, PEER, &mut side.seen);
        assert_eq!(side.seen.done.len(), 4, "each exactly once");
        assert_eq!(exported.sharers(), 1);
        assert_eq!(beside.to_vec(), [0; 100], "not exported for writing");
    }
    assert!(ended > 1000, "most of it is nonsense");
}

/// A frame that is well-formed more often than not.
fn hostile(random: &mut Random) -> Vec<u8> {
    let kind = 1 + random.below(12) as u8;
    let len = random.length(4000);
    let mut frame = vec![0; HEADER_BYTES + len];
    frame[0] = kind;
    frame[1] = (random.below(4) == 0).into();
    let announced = match random.below(8) {
        0 => random.0.number() as u32,
        _ => len as u32,
    };
    frame[4..8].copy_from_slice(&announced.to_le_bytes());
    let small = |random: &mut Random| random.below(10) as u64;
    if matches!(kind, 2..=7 | 12) {
        frame[8..16].copy_from_slice(&small(random).to_le_bytes());
    }
    if kind == 2 {
        frame[16..24].copy_from_slice(&small(random).to_le_bytes());
    }
    if matches!(kind, 2 | 3 | 6 | 7 | 12) {
        let base = match kind {
            3 | 7 => random.below(2) as u64 * len as u64,
            12 => random.below(20) as u64,
            2 => FIRST_BASE + random.below(6000) as u64,
            _ => random.below(2) as u64 * 100,
        };
        frame[24..32].copy_from_slice(&base.to_le_bytes());
    }
    if random.below(6) == 0 {
        let at = random.below(frame.len());
        frame[at] ^= 1 << random.below(8);
    }
    frame
}

const STALE: u8 = 0xee;

/// A session that gets so many bytes into memory that held other data, and the number of its first request.
fn getting(len: usize, connections: usize) -> (Side, Memory, u64) {
    let mut side = Side::new(connections);
    let into = Memory::from_vec(vec![STALE; len]);
    let transfer = Transfer {
        direction: Direction::Get,
        local: vec![into.clone()].into(),
        remote: vec![RegionDescriptor {
            key: 1,
            base: FIRST_BASE,
            len: len as u64,
            object: None,
        }]
        .into(),
        registrations: Vec::new(),
        notify: None,
        token: 0,
    };
    side.session.transfer(transfer).unwrap();
    let mut asked = [0; 4096];
    assert!(side.session.output(MAIN, &mut asked) >= HEADER_BYTES);
    let header = Header::decode(asked.first_chunk().unwrap()).unwrap();
    assert_eq!(header.kind, Kind::Get);
    (side, into, header.id)
}

fn data(id: u64, part: std::ops::Range<usize>) -> Vec<u8> {
    let header = Header::new(Kind::GetData, part.len()).with_id(id);
    let mut frame = header.with_base(part.start as u64).encode().to_vec();
    frame.resize(HEADER_BYTES + part.len(), 0x11);
    frame
}

/// A server that sends some bytes of a get twice, in place of others, has sent as many as were requested.
#[test]
fn a_get_is_not_complete_with_bytes_that_came_twice() {
    const LEN: usize = 2 * MAX_PIECE;
    let half = LEN / 2;
    let (first, second) = (0..half, half..LEN);
    let overlapping = half - 1..LEN - 1;
    type Answer<'a> = &'a [(usize, &'a std::ops::Range<usize>)];
    let answers: [(bool, Answer<'_>); 7] = [
        (true, &[(0, &first), (0, &second)]),
        (true, &[(1, &second), (2, &first)]),
        (false, &[(0, &first), (0, &first)]),
        (false, &[(1, &second), (2, &second)]),
        (false, &[(0, &first), (0, &overlapping)]),
        (false, &[(0, &(0..0)), (0, &first), (0, &second)]),
        (
            false,
            &[
                (0, &(0..1)),
                (0, &(2..3)),
                (0, &(4..5)),
                (0, &(6..7)),
                (0, &(8..9)),
            ],
        ),
    ];
    for (at, (honest, frames)) in answers.into_iter().enumerate() {
        let (mut side, into, id) = getting(LEN, 3);
        let fed = frames.iter().try_for_each(|(connection, part)| {
            let Side { session, seen, .. } = &mut side;
            session.input(*connection, &data(id, (*part).clone()), PEER, seen)
        });
        let end = Header::new(Kind::GetDone, 0)
            .with_id(id)
            .with_base(LEN as u64);
        let Side { session, seen, .. } = &mut side;
        let ended = fed.and_then(|()| session.input(MAIN, &end.encode(), PEER, seen));
        session.deliver(PEER, seen);
        if honest {
            assert_eq!((ended, seen.done.remove(&0)), (Ok(()), Some(Ok(()))));
            assert!(into.to_vec().iter().all(|byte| *byte == 0x11));
        } else {
            assert!(matches!(ended, Err(PeerError::Protocol(_))), "{at}");
            assert!(seen.done.is_empty(), "{at}: nothing is complete");
        }
    }
}

/// The same for puts into an export.
#[test]
fn an_export_is_written_when_each_of_its_bytes_is() {
    const LEN: usize = 9000;
    let mut side = Side::new(2);
    let memory = Memory::from_vec(vec![STALE; LEN]);
    side.session.export(5, &memory, Access::Write);
    let put = |side: &mut Side, connection: usize, part: std::ops::Range<usize>| {
        let mut header = Header::new(Kind::Put, part.len()).with_id(1);
        (header.key, header.base) = (5, FIRST_BASE + part.start as u64);
        let mut frame = header.encode().to_vec();
        frame.resize(HEADER_BYTES + part.len(), 0x11);
        let Side { session, seen, .. } = side;
        session.input(connection, &frame, PEER, seen).unwrap();
        session.is_all_written(5)
    };
    assert!(!side.session.is_all_written(5));
    for (connection, part, whole) in [
        (0, 0..4500, false),
        (1, 0..4500, false),
        (0, 4501..9000, false),
        (1, 4400..4501, true),
    ] {
        assert_eq!(put(&mut side, connection, part.clone()), whole, "{part:?}");
    }
    side.session.unexport(5);
    assert!(!side.session.is_all_written(5), "there is no such export");
    // A put in too many separate pieces is not tracked, and takes little memory.
    side.session.export(5, &memory, Access::Write);
    for at in (0..LEN).step_by(2) {
        put(&mut side, 0, at..at + 1);
    }
    assert!(side.session.owned_bytes() < 64 << 10);
    assert!(!put(&mut side, 0, 0..LEN));
}
