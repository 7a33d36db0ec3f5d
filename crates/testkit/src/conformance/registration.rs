//! Memory that is registered before it is moved or granted: once for many uses, and for all peers.

use causeway_sys::memory::Memory;
use causeway_transport::{
    Access, Direction, Error, Method, Peer, Registration, SendError, TransferError,
};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{List, Node, Pair};
use crate::patience::Patience;

const LEN: usize = 100_000;

fn filled(fill: u8) -> Memory {
    Memory::from_vec(vec![fill; LEN])
}

fn step<M: Method>(pair: &mut Pair<M>, patience: &mut Patience) {
    pair.step();
    patience.spend();
}

/// Grants a part of registered memory.
fn grant<M: Method>(
    node: &mut Node<M>,
    peer: Peer,
    memory: &Memory,
    registration: Registration,
) -> RegionDescriptor {
    let granted = node
        .method
        .grant(peer, memory, registration, Access::ReadWrite);
    granted.expect("it is registered")
}

/// Starts a transfer of registered memory, and waits until it is complete.
fn put<M: Method>(
    pair: &mut Pair<M>,
    local: &Memory,
    registration: Registration,
    region: RegionDescriptor,
) -> Result<(), TransferError> {
    let list = List::simple(Direction::Put, local, region);
    let mut patience = Patience::new("a transfer of registered memory completes");
    let token = loop {
        match pair
            .a
            .offer_registered(pair.to_b, &list, vec![registration])
        {
            Ok(token) => break token,
            Err(SendError::WouldBlock) => step(pair, &mut patience),
            Err(error) => panic!("starting a transfer: {error}"),
        }
    };
    loop {
        if let Some((done, result)) = pair.a.seen.done.pop_front() {
            assert_eq!(done, token);
            return result;
        }
        step(pair, &mut patience);
    }
}

/// One registration serves many transfers and grants, of any part of the memory.
pub fn covers_every_part<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (ours, theirs) = (filled(7), filled(0));
    let here = pair.a.register(&ours);
    let there = pair.b.register(&theirs);
    for (from, len) in [(0, LEN), (1, 10), (LEN / 2, LEN / 2), (LEN - 1, 1)] {
        theirs.clear();
        let to = theirs.slice(LEN - from - len..LEN - from);
        let region = grant(&mut pair.b, pair.to_a, &to, there);
        assert_eq!(region.len, len as u64);
        let part = ours.slice(from..from + len);
        assert_eq!(put(&mut pair, &part, here, region), Ok(()));
        assert!(to.to_vec().iter().all(|byte| *byte == 7));
        let written = theirs.to_vec().iter().filter(|byte| **byte == 7).count();
        assert_eq!(written, len, "and no other bytes");
        pair.b.method.revoke(pair.to_a, region.key);
        let closed = put(&mut pair, &part, here, region);
        assert_eq!(closed, Err(TransferError::Protection));
    }
    pair.a.method.deregister(here);
    pair.b.method.deregister(there);
}

/// Ending a registration affects later transfers only: transfers that have begun complete.
pub fn ends_behind_what_was_begun<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (ours, theirs) = (filled(9), filled(0));
    let there = pair.b.register(&theirs);
    let region = grant(&mut pair.b, pair.to_a, &theirs, there);
    pair.b.method.deregister(there);
    let here = pair.a.register(&ours);
    let list = List::simple(Direction::Put, &ours, region);
    let mut patience = Patience::new("a transfer of memory that is registered no more completes");
    while let Err(error) = pair.a.offer_registered(pair.to_b, &list, vec![here]) {
        assert_eq!(error, SendError::WouldBlock);
        step(&mut pair, &mut patience);
    }
    pair.a.method.deregister(here);
    // Ending registrations twice is harmless.
    pair.a.method.deregister(here);
    pair.b.method.deregister(there);
    while pair.a.in_progress() > 0 {
        step(&mut pair, &mut patience);
    }
    let done = pair.a.seen.done.pop_front().map(|(_, result)| result);
    assert_eq!(done, Some(Ok(())));
    assert_eq!(theirs.to_vec(), ours.to_vec());
}

/// Where registration is needed, memory without is refused at once, and so is memory of another registration's.
pub fn is_needed_where_stated<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let (ours, theirs, others) = (filled(1), filled(0), filled(0));
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let ended = pair.a.register(&ours);
    pair.a.method.deregister(ended);
    let other = pair.a.register(&others);
    let is_needed = pair.a.method.capabilities().needs_local_registration;
    assert_eq!(is_needed, other != Registration::NONE);
    for wrong in [Registration::NONE, ended, other] {
        let list = List::simple(Direction::Put, &ours, region);
        let granted = (pair.a.method).grant(pair.to_b, &ours, wrong, Access::Read);
        if !is_needed {
            assert!(granted.is_ok());
            assert_eq!(put(&mut pair, &ours, wrong, region), Ok(()));
            continue;
        }
        assert!(matches!(granted, Err(Error::Unsupported(_))));
        let refused = pair.a.offer_registered(pair.to_b, &list, vec![wrong]);
        assert!(matches!(refused, Err(SendError::Unregistered(_))));
    }
    if is_needed {
        let list = List::simple(Direction::Put, &ours, region);
        let refused = pair.a.offer_registered(pair.to_b, &list, Vec::new());
        assert!(matches!(refused, Err(SendError::Unregistered(_))));
        // Memory for reading only is registered for that.
        let read_only = pair.a.register(&ours.read_only());
        let list = List::simple(Direction::Get, &ours, region);
        let refused = pair.a.offer_registered(pair.to_b, &list, vec![read_only]);
        assert!(matches!(refused, Err(SendError::Unregistered(_))));
    }
}

/// A registration does not belong to a peer: it can be made before the first connection, and outlasts each peer.
pub fn outlives_peers<F: Factory>(factory: &F) {
    let (mut server, address) = Node::listening(factory);
    let (ours, theirs) = (filled(3), filled(0));
    let there = server.register(&theirs);
    let mut client = Node::new(factory.method());
    let here = client.register(&ours);
    for _ in 0..2 {
        theirs.clear();
        let mut pair = Pair::meet(client, server, address.clone());
        let region = grant(&mut pair.b, pair.to_a, &theirs, there);
        assert_eq!(put(&mut pair, &ours, here, region), Ok(()));
        assert_eq!(theirs.to_vec(), ours.to_vec());
        pair.a.disconnect(pair.to_b);
        (client, server) = (pair.a, pair.b);
    }
}
