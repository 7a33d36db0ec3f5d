//! Split copies whose helper sends its parts through its ring: with helpers and initiators that do not poll, stop, die or send invalid pieces.

use causeway_wire::shm::split_copy::{Done, PieceHeader, UNIT_BYTES};
use causeway_wire::shm::{FORMATS, PIECES, SlotKind};

use super::split_copy::{Get, falls_asleep, pair, pattern};
use causeway_sys::memory::Memory;

use super::*;
use crate::method::{Access, Direction, Registration, Transfer};
use crate::shm::AttachPolicy;
use crate::shm::claim::From;
use crate::shm::pieces::{self, PieceChoice};

/// A get by the client, of so many bytes of the server's. The server has helped before, and is to send pieces.
fn get(ring_bytes: usize, len: usize) -> Get {
    let mut met = meet(ShmConfig {
        ring_bytes,
        ..ShmConfig::default()
    });
    let client = pair(&mut met.client, met.to_server);
    client.piece_choice = Some(Box::new(PieceChoice::preferring(true)));
    client.transfers.helped = true;
    Get::between(met, len)
}

impl Get {
    /// Polls both until the transfer is done.
    fn finish_with_helper(&mut self) {
        let (client, server) = (&mut self.met.client, &mut self.met.server);
        let is_done = |client: &mut Host, _: &mut Host| !client.log.done.is_empty();
        both(client, server, "it is done", is_done);
        assert_eq!(client.log.done, [(7, Ok(()))]);
    }
}

const RING: usize = 256 << 10;

fn bytes_helped(get: &mut Get) -> u64 {
    pair(&mut get.met.server, get.met.to_client).shared_bytes
}

/// Publishes a piece as a helper would.
fn publish(get: &mut Get, header: PieceHeader, bytes: &[u8]) {
    let packet = [&header.pack()[..], bytes].concat();
    let server = pair(&mut get.met.server, get.met.to_client);
    assert!(server.publish(SlotKind::Piece, &packet[..], packet.len()));
}

#[test]
fn every_length_arrives_through_rings_of_every_size() {
    for ring in [16 << 10, 64 << 10, RING, 1 << 20] {
        for len in [
            24 << 10,
            (24 << 10) + 1,
            66_000,
            100_000,
            1 << 20,
            3_333_333,
        ] {
            let mut get = get(ring, len);
            for _ in 0..2 {
                get.finish_with_helper();
                assert!(get.near.to_vec() == pattern(len), "{ring} {len}");
                get.near = Memory::zeroed(len);
                get.met.client.log.done.clear();
                get.transfer();
            }
            assert!(bytes_helped(&mut get) > 0);
        }
    }
}

/// The helper does not touch the initiator's memory: the initiator copies the pieces from the ring.
#[test]
fn a_helper_sends_its_parts_and_writes_nothing() {
    let mut get = get(RING, 100_000);
    get.met.client.poll();
    get.met.server.poll();
    assert_eq!(bytes_helped(&mut get), 100_000, "all fits into the ring");
    assert!(get.near.to_vec().iter().all(|&byte| byte == 0));
    let done = Done::unpack(get.share().done.load(std::sync::atomic::Ordering::SeqCst));
    let units = 100_000u64.div_ceil(UNIT_BYTES) as u32;
    assert_eq!((done.units, done.in_pieces), (units, units));
    get.finish("it is done");
    assert!(get.near.to_vec() == pattern(100_000));
}

#[test]
fn an_initiator_whose_helper_is_away_copies_alone() {
    let mut get = get(RING, 1 << 20);
    get.finish("it is done");
    assert_eq!(bytes_helped(&mut get), 0);
    assert!(get.near.to_vec() == pattern(1 << 20));
}

/// The same where it would rather sleep than poll.
#[test]
fn an_initiator_copies_before_it_sleeps() {
    let mut get = get(RING, 1 << 20);
    falls_asleep(&mut get.met.client);
    get.met.client.shm.disarm();
    assert_eq!(get.met.client.log.done, [(7, Ok(()))]);
    assert!(get.near.to_vec() == pattern(1 << 20));
}

/// The same for a transfer behind one of which the helper has claimed all its parts and does not finish.
#[test]
fn an_initiator_copies_the_second_transfer_before_it_sleeps() {
    let mut get = get(RING, 1 << 20);
    let first = std::mem::replace(&mut get.near, Memory::zeroed(1 << 20));
    get.transfer();
    get.met.client.poll();
    while get.share().claim_back(256, 256, From::Anywhere).is_some() {}
    falls_asleep(&mut get.met.client);
    get.met.client.shm.disarm();
    assert!(get.near.to_vec() == pattern(1 << 20));
    assert!(get.met.client.log.done.is_empty(), "not in its turn");
    assert!(first.to_vec().iter().all(|&byte| byte == 0));
}

/// A helper without room waits for the same number of polls with any number of open transfers.
#[test]
fn a_helper_without_room_counts_polls_and_not_transfers() {
    for many in [1, 4, 31] {
        let mut get = get(RING, 1 << 20);
        for _ in 1..many {
            get.transfer();
        }
        get.met.client.poll();
        let mut before = u64::MAX;
        while bytes_helped(&mut get) != before {
            before = bytes_helped(&mut get);
            get.met.server.poll();
        }
        let mut polls = 1;
        while bytes_helped(&mut get) == before {
            get.met.server.poll();
            polls += 1;
        }
        assert_eq!(polls, pieces::ROOM_POLLS + 1, "{many} transfers");
    }
}

/// A helper that has sent its parts of many transfers learns of their arrival as they arrive, not only in order.
#[test]
fn a_helper_learns_of_transfers_as_they_arrive() {
    let mut get = get(RING, 24 << 10);
    for _ in 1..31 {
        get.transfer();
    }
    get.met.client.poll();
    // The last unit of the first transfer never arrives.
    get.share().claim_back(6, 1, From::OwnHalf).unwrap();
    for _ in 0..1000 {
        get.met.server.poll();
        get.met.client.poll();
    }
    assert!(get.met.client.log.done.is_empty());
    let server = pair(&mut get.met.server, get.met.to_client);
    assert!(!server.helper.is_any_open());
}

/// A helper whose initiator is away fills the ring, and writes the rest; then it can sleep.
#[test]
fn a_helper_whose_initiator_is_away_copies_its_claims() {
    let mut get = get(RING, 1 << 20);
    get.met.client.poll();
    falls_asleep(&mut get.met.server);
    get.met.server.shm.disarm();
    assert_eq!(bytes_helped(&mut get), 1 << 20);
    get.finish("it is done");
    assert!(get.near.to_vec() == pattern(1 << 20));
}

/// Messages of the same ring stand before and behind the pieces, and their order stays.
#[test]
fn packets_pass_between_pieces() {
    let mut get = get(RING, 1 << 20);
    get.met.client.poll();
    for number in 0u32..40 {
        let to_client = get.met.to_client;
        get.met.server.poll();
        let sent = get.met.server.shm.send(to_client, &[&number.to_le_bytes()]);
        if sent.is_err() {
            get.met.client.poll();
            let again = get.met.server.shm.send(to_client, &[&number.to_le_bytes()]);
            again.unwrap();
        }
    }
    get.finish("it is done");
    let client = &mut get.met.client;
    client.until("all pieces have arrived", |client| {
        client.log.packets.len() == 40
    });
    let packets = client.log.packets.iter().enumerate();
    for (number, (_, bytes)) in packets {
        assert_eq!(bytes[..], (number as u32).to_le_bytes());
    }
    assert!(get.near.to_vec() == pattern(1 << 20));
}

#[test]
fn pieces_of_no_transfer_end_the_connection() {
    let header = |block, first| PieceHeader { block, first };
    let unit = UNIT_BYTES as usize;
    let last = (100_000 / UNIT_BYTES) as u32;
    let lies: [(&str, PieceHeader, usize); 8] = [
        ("another block", header(1, 0), unit),
        ("no block", header(u32::MAX, 0), unit),
        ("behind the end", header(0, last + 1), unit),
        ("over the end", header(0, last), unit),
        ("far behind", header(0, u32::MAX), unit),
        ("a part of a unit", header(0, 0), 100),
        ("nothing", header(0, 0), 0),
        ("not counted", header(0, 0), unit),
    ];
    for (what, header, len) in lies {
        let mut get = get(RING, 100_000);
        get.met.client.poll();
        publish(&mut get, header, &vec![1; len]);
        let client = &mut get.met.client;
        client.until(what, |client| !client.log.down.is_empty());
        assert!(
            matches!(client.log.down[..], [(_, PeerError::Protocol(_))]),
            "{what}: {:?}",
            client.log.down
        );
        assert!(client.log.done[0].1.is_err(), "{what}");
    }
    let mut get = get(RING, 100_000);
    get.met.client.poll();
    let server = pair(&mut get.met.server, get.met.to_client);
    assert!(server.publish(SlotKind::Piece, &b"short"[..], 5));
    let client = &mut get.met.client;
    client.until("it is too short", |client| !client.log.down.is_empty());
}

/// More pieces than the transfer has, though each of them could be a part of it.
#[test]
fn a_piece_that_arrives_twice_ends_the_connection() {
    let mut get = get(RING, 2 * UNIT_BYTES as usize * 8);
    get.met.client.poll();
    let part = get.share().claim_back(16, 16, From::OwnHalf).unwrap();
    for _ in 0..4 {
        get.share().count_piece(part.end - part.start);
        let header = PieceHeader {
            block: 0,
            first: part.start,
        };
        publish(&mut get, header, &vec![1; part.len() * UNIT_BYTES as usize]);
    }
    let client = &mut get.met.client;
    client.until("the peer is reported down", |client| {
        !client.log.down.is_empty()
    });
    assert!(client.log.done[0].1.is_err());
}

/// No transfer completes before all counted pieces have arrived; the memory is free if the connection ends, as the helper
/// does not touch it.
#[test]
fn pieces_that_never_arrive_hold_no_memory() {
    let mut get = get(RING, 1 << 20);
    get.met.client.poll();
    let part = get.share().claim_back(256, 256, From::Anywhere).unwrap();
    get.share().count_piece(part.end - part.start);
    for _ in 0..1000 {
        get.met.client.poll();
    }
    while let Some(more) = get.share().claim_back(256, 256, From::Anywhere) {
        get.share().count_piece(more.end - more.start);
    }
    for _ in 0..1000 {
        get.met.client.poll();
    }
    assert!(get.met.client.log.done.is_empty());
    let Get { met, near, .. } = get;
    let (mut client, to_server) = (met.client, met.to_server);
    let log = &mut client.log;
    client.shm.disconnect(Instant::now(), to_server, log);
    assert!(matches!(
        client.log.done[..],
        [(7, Err(TransferError::Peer(PeerError::Disconnected)))]
    ));
    assert_eq!(near.sharers(), 1);
}

/// The packets of a paused peer could stand before its pieces, and would hold the transfer up.
#[test]
fn a_paused_peer_is_not_asked_for_pieces() {
    let mut get = get(RING, 4 << 20);
    get.met.client.shm.pause(get.met.to_server);
    get.met.client.poll();
    let to_client = get.met.to_client;
    get.met.server.shm.send(to_client, &[b"held back"]).unwrap();
    get.finish_with_helper();
    assert!(get.near.to_vec() == pattern(4 << 20));
    assert!(get.met.client.log.packets.is_empty());
    assert!(bytes_helped(&mut get) > 0, "the helper writes");
}

/// A peer of the previous format sends no pieces, and is not asked to.
#[test]
fn a_peer_of_the_previous_format_is_not_asked_for_pieces() {
    use causeway_wire::formats::Formats;
    assert_eq!(FORMATS.common(Formats::only(PIECES)), Some(PIECES));
    let before = FORMATS.common(Formats::only(PIECES - 1));
    assert_eq!(before, Some(PIECES - 1));
    let mut get = get(RING, 100_000);
    let client = pair(&mut get.met.client, get.met.to_server);
    client.speak(before);
    assert_eq!(client.may_send_pieces(100_000), None);
    get.met.client.poll();
    get.met.server.poll();
    assert_ne!(get.near.to_vec(), vec![0; 100_000], "the helper writes");
    get.finish("it is done");
    assert!(get.near.to_vec() == pattern(100_000));
}

/// Two processes that each read memory of the other's, and prefer pieces.
struct BothWays {
    met: ConnectedPair,
    len: usize,
    into: [Memory; 2],
}

impl BothWays {
    fn start(config: ShmConfig, len: usize) -> Self {
        let mut met = meet(config);
        for (host, peer) in [
            (&mut met.client, met.to_server),
            (&mut met.server, met.to_client),
        ] {
            let pair = pair(host, peer);
            pair.piece_choice = Some(Box::new(PieceChoice::preferring(true)));
            pair.transfers.helped = true;
        }
        let into = [Memory::zeroed(len), Memory::zeroed(len)];
        let mut both = Self { met, len, into };
        both.read(0);
        both.read(1);
        both
    }

    /// The client (0) or the server (1) starts to read the other's memory.
    fn read(&mut self, reader: usize) {
        let met = &mut self.met;
        let (reading, read) = (
            (&mut met.client, met.to_server),
            (&mut met.server, met.to_client),
        );
        let ((host, peer), (owner, to_host)) = match reader {
            0 => (reading, read),
            _ => (read, reading),
        };
        let region = (owner.shm)
            .grant(
                to_host,
                &Memory::from_vec(pattern(self.len)),
                Registration::NONE,
                Access::Read,
            )
            .unwrap();
        let transfer = Transfer {
            direction: Direction::Get,
            local: vec![self.into[reader].clone()].into(),
            remote: vec![region].into(),
            notify: Some(b"read".to_vec().into()),
            registrations: Vec::new(),
            token: 7,
        };
        host.shm.transfer(peer, transfer).unwrap();
    }

    fn finish(&mut self) {
        let (client, server) = (&mut self.met.client, &mut self.met.server);
        let are_done = |client: &mut Host, server: &mut Host| {
            !client.log.done.is_empty() && !server.log.done.is_empty()
        };
        both(client, server, "both are done", are_done);
        for (host, into) in [&self.met.client, &self.met.server].iter().zip(&self.into) {
            assert_eq!(host.log.done, [(7, Ok(()))]);
            assert!(into.to_vec() == pattern(self.len), "{}", self.len);
        }
    }
}

/// Each processor has bytes of its own to copy then: neither waits for pieces, or sends any.
#[test]
fn both_sides_of_two_transfers_copy_for_themselves() {
    let len = 1 << 20;
    let mut both = BothWays::start(ShmConfig::default(), len);
    both.met.client.poll();
    for _ in 0..3 {
        both.met.server.poll();
        both.met.client.poll();
        both.met.client.poll();
    }
    // What is left of either transfer, either side may copy; by now each has copied its own half.
    for into in &both.into {
        assert!(into.to_vec()[..len / 2] == pattern(len)[..len / 2]);
    }
    both.finish();
}

#[test]
fn transfers_of_every_length_arrive_in_both_directions() {
    let attach_off = ShmConfig {
        attach: AttachPolicy::Off,
        ..ShmConfig::default()
    };
    for config in [ShmConfig::default(), attach_off] {
        for around in [24 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 2 << 20] {
            for len in [around - 1, around, around + 1] {
                BothWays::start(config.clone(), len).finish();
            }
        }
    }
}

/// The one that is left has an error for its own transfer, and its memory back.
#[test]
fn a_side_that_leaves_in_the_middle_ends_both_transfers() {
    for polls in 0..6 {
        let len = 3 << 20;
        let BothWays { met, into, .. } = {
            let mut both = BothWays::start(ShmConfig::default(), len);
            for _ in 0..polls {
                both.met.client.poll();
                both.met.server.poll();
            }
            both
        };
        let mut client = met.client;
        drop(met.server);
        client.until("the client knows", |client| !client.log.down.is_empty());
        match &client.log.done[..] {
            [(7, Ok(()))] => assert!(into[0].to_vec() == pattern(len)),
            [(7, Err(_))] => {}
            done => panic!("{done:?}"),
        }
    }
}
