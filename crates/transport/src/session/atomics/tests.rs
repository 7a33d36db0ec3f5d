//! Peers that send invalid replies to atomics.

use causeway_sys::memory::Memory;

use super::*;
use crate::method::{Access, Packet};
use crate::session::Bounds;

#[derive(Default)]
struct Seen(Vec<(Token, Result<u64, TransferError>)>);

impl Sink for Seen {
    fn packet(&mut self, _: Peer, _: Packet<'_>) {}
    fn transfer_done(&mut self, _: Peer, _: Token, _: Result<(), TransferError>) {}
    fn atomic_done(&mut self, _: Peer, token: Token, result: Result<u64, TransferError>) {
        self.0.push((token, result));
    }
    fn peer_up(&mut self, _: Peer) {}
    fn peer_down(&mut self, _: Peer, _: PeerError) {}
    fn writable(&mut self, _: Peer) {}
}

const PEER: Peer = Peer(0);

fn session() -> Session {
    Session::new(Bounds {
        queue_bytes: 1 << 20,
        max_transfers: 64,
    })
}

fn frame(header: Header, payload: &[u8]) -> Vec<u8> {
    [&header.encode()[..], payload].concat()
}

fn answer(id: u64, outcome: Outcome) -> Vec<u8> {
    let payload = outcome.to_bytes();
    frame(
        Header::new(Kind::AtomicDone, payload.len()).with_id(id),
        &payload,
    )
}

/// A session of ours with one atomic requested of the peer, under the returned number.
fn asked() -> (Session, u64) {
    let mut session = session();
    let region = session.export(9, &Memory::zeroed(8), Access::ReadWrite);
    let atomic = Atomic {
        operation: Operation::FetchAdd(1),
        word: region,
        token: 77,
    };
    session.atomic(atomic).unwrap();
    let mut sent = [0; 200];
    assert!(session.output(0, &mut sent) > 0);
    let header = Header::decode(sent.first_chunk().unwrap()).unwrap();
    assert_eq!(header.kind, Kind::Atomic);
    (session, header.id)
}

#[test]
fn a_reply_counts_once_and_only_for_its_request() {
    let (mut session, id) = asked();
    let mut seen = Seen::default();
    let old = answer(id, Outcome::Old(5));
    session.input(0, &old, PEER, &mut seen).unwrap();
    assert_eq!(seen.0, [(77, Ok(5))]);
    assert!(session.input(0, &old, PEER, &mut seen).is_err(), "twice");
    let (mut session, id) = asked();
    let other = answer(id + 1, Outcome::Old(5));
    assert!(session.input(0, &other, PEER, &mut seen).is_err());
    let cause = PeerError::Closed;
    session.fail(&cause, PEER, &mut seen);
    assert_eq!(seen.0[1..], [(77, Err(TransferError::Peer(cause)))]);
}

#[test]
fn a_peer_that_sends_requests_without_reading_replies_is_disconnected() {
    let mut session = session();
    let memory = Memory::zeroed(64);
    session.export(9, &memory, Access::ReadWrite);
    let operation = Operation::FetchAdd(1).to_bytes();
    let mut seen = Seen::default();
    let asked = (0..10_000).find_map(|id| {
        let header = Header::new(Kind::Atomic, operation.len()).with_id(id);
        let input = frame(header, &operation);
        session.input(0, &input, PEER, &mut seen).err()
    });
    assert!(matches!(asked, Some(PeerError::Protocol(_))), "{asked:?}");
    assert_eq!(memory.to_vec(), [0; 64], "the atomic is refused");
    assert!(session.owned_bytes() < 1 << 20);
}
