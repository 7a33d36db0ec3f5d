//! Absent peers, restarts, departures, disconnecting, and invalid handles.

use std::time::Instant;

use causeway_sys::memory::Memory;
use causeway_transport::nodes::is_name;
use causeway_transport::{
    Access, Address, Direction, Identity, Method, Peer, PeerError, Registration, SendError,
    TransferError,
};
use causeway_wire::region::RegionDescriptor;

use super::Factory;
use super::node::{List, Node, Pair, receive, send};
use crate::patience::Patience;
use crate::process;

/// A descriptor of memory that no process exports.
const NOWHERE: RegionDescriptor = RegionDescriptor {
    key: 1,
    base: 4096,
    len: 100,
    object: None,
};

/// Whether `cause` says that no process was at the address.
pub(super) fn is_absence(cause: &PeerError) -> bool {
    matches!(cause, PeerError::Refused(_) | PeerError::TimedOut(_))
}

/// A packet to an address without a listener is reported, again and again, and does no harm.
pub fn an_absent_peer_is_reported<F: Factory>(factory: &F) {
    let mut node = Node::new(factory.method());
    let vacant = factory.vacant();
    let peer = node.connect(&vacant);
    for _ in 0..3 {
        let cause = node.find_absent(peer);
        assert!(is_absence(&cause), "{cause:?}");
        assert!(!cause.to_string().is_empty());
    }
    assert_eq!(node.method.address(peer), Some(vacant));
}

/// A transfer with an absent peer is not accepted, or completes with an error before the absence is
/// reported (the sink checks the order).
pub fn a_transfer_with_an_absent_peer_fails<F: Factory>(factory: &F) {
    let mut node = Node::new(factory.method());
    let peer = node.connect(&factory.vacant());
    let ours = Memory::zeroed(100);
    for direction in [Direction::Get, Direction::Put] {
        let list = List::simple(direction, &ours, NOWHERE).notifying(b"hello?");
        let mut patience = Patience::new("the absence is noticed");
        let mut accepted = false;
        let cause = loop {
            if let Some(cause) = node.down(peer) {
                break cause;
            }
            accepted = accepted || node.try_transfer(peer, &list).is_some();
            node.step();
            patience.spend();
        };
        assert!(is_absence(&cause), "{cause:?}");
        let results: Vec<_> = node.seen.done.drain(..).map(|(_, result)| result).collect();
        match accepted {
            true => assert_eq!(results, [Err(TransferError::Peer(cause))]),
            false => assert!(results.is_empty()),
        }
    }
}

/// A listener that ends before it ever polled: that is reported to the caller.
pub fn a_listener_ends_before_it_polls<F: Factory>(factory: &F) {
    let (listener, address) = Node::listening(factory);
    let mut caller = Node::new(factory.method());
    let peer = caller.connect(&address);
    let mut accepted = false;
    for _ in 0..20 {
        accepted = accepted || caller.try_send(peer, b"hello");
        caller.step();
    }
    drop(listener);
    let cause = caller.find_absent(peer);
    let gone = matches!(cause, PeerError::Closed | PeerError::Broken(_));
    assert!(gone || is_absence(&cause), "{cause:?}");
}

/// The same handle works once a process listens.
pub fn a_later_listener_is_reached<F: Factory>(factory: &F) {
    let mut early = Node::new(factory.method());
    let address = factory.vacant();
    let peer = early.connect(&address);
    assert!(is_absence(&early.find_absent(peer)));
    let mut late = Node::new(factory.method());
    assert_eq!(late.listen(&address), address);
    let pair = &mut Pair::meet(early, late, address);
    assert_eq!(pair.to_b, peer, "the same handle");
    pair.still_works();
}

/// Connecting twice to one address gives one handle and one connection.
pub fn same_address_same_handle<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    assert_eq!(pair.a.connect(&pair.address.clone()), pair.to_b);
    pair.a_sends(b"again");
    assert_eq!(pair.b_receives().0, pair.to_a);
    assert!(pair.b.up().is_none());
}

/// A listener that ends and another that takes its place: the caller's handle reaches the new
/// one, and no packet or transfer of the old incarnation is left.
pub fn a_restarted_peer_is_a_new_incarnation<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::from_vec(vec![1; 4096]);
    let stale = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    for _ in 0..5 {
        // On its way, and never read.
        pair.a_sends(b"of the old incarnation");
        let Pair {
            mut a,
            b,
            to_b,
            address,
            ..
        } = pair;
        drop(b);
        a.await_down(to_b);
        process::await_starts();
        let mut b = Node::new(factory.method());
        assert_eq!(b.listen(&address), address);
        pair = Pair::meet(a, b, address);
        assert_eq!(pair.to_b, to_b, "the same handle");
        pair.still_works();
        let list = List::simple(Direction::Get, &Memory::zeroed(4096), stale);
        assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
    }
}

/// A caller that ended cannot be reached through its old handle; when it calls again it is
/// another peer.
pub fn a_departed_caller_is_gone<F: Factory>(factory: &F) {
    let Pair {
        a,
        mut b,
        to_a,
        address,
        ..
    } = Pair::new(factory);
    drop(a);
    b.await_down(to_a);
    for _ in 0..2 {
        let refused = b.method.send(to_a, &[b"still there?"]);
        assert!(matches!(refused, Err(SendError::Gone(_))), "{refused:?}");
        let list = List::simple(Direction::Get, &Memory::zeroed(100), NOWHERE);
        let refused = b.offer(to_a, &list);
        assert!(matches!(refused, Err(SendError::Gone(_))), "{refused:?}");
        b.step();
    }
    let mut again = Pair::meet(Node::new(factory.method()), b, address);
    assert_ne!(again.to_a, to_a, "a new peer has a new handle");
    let refused = again.b.method.send(to_a, &[b"still there?"]);
    assert!(matches!(refused, Err(SendError::Gone(_))), "{refused:?}");
    again.still_works();
}

/// The side that disconnects gets no more events of the peer; the other side gets its departure.
pub fn disconnecting_is_silent_here_and_noticed_there<F: Factory>(factory: &F) {
    // The side that connected disconnects.
    let mut pair = Pair::new(factory);
    pair.b_sends(b"not read any more");
    pair.a.disconnect(pair.to_b);
    pair.b.await_down(pair.to_a);
    pair.settle();
    assert!(pair.a.packet().is_none() && pair.a.seen.events.is_empty());
    let refused = pair.a.method.send(pair.to_b, &[b"x"]);
    assert!(matches!(refused, Err(SendError::Gone(_))), "{refused:?}");
    // Connecting anew gives a fresh handle.
    let Pair {
        a,
        b,
        to_b,
        to_a,
        address,
    } = pair;
    let mut pair = Pair::meet(a, b, address);
    assert_ne!(pair.to_b, to_b);
    assert_ne!(pair.to_a, to_a);
    pair.still_works();
    // The side that was connected to disconnects.
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    pair.b.disconnect(to_a);
    pair.a.await_down(to_b);
    pair.settle();
    assert!(pair.b.seen.events.is_empty());
    // The caller's handle connects again.
    let Pair { a, b, address, .. } = pair;
    let mut pair = Pair::meet(a, b, address);
    assert_eq!(pair.to_b, to_b);
    assert_ne!(pair.to_a, to_a);
    pair.still_works();
}

/// Disconnecting completes transfers with an error, and the peer does not reach exported memory any more.
pub fn disconnecting_ends_transfers_and_exports<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let theirs = Memory::from_vec(vec![1; 8 << 20]);
    let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
    let ours = Memory::zeroed(8 << 20);
    let list = List::simple(Direction::Get, &ours, region);
    let started = (0..20)
        .filter_map(|_| pair.a.try_transfer(pair.to_b, &list))
        .count();
    // The node checks that each of them completes inside.
    pair.a.disconnect(pair.to_b);
    assert_eq!(pair.a.seen.done.len(), started);
    for (_, result) in pair.a.seen.done.drain(..) {
        let expected = [Ok(()), Err(TransferError::Peer(PeerError::Disconnected))];
        assert!(expected.contains(&result), "{result:?}");
    }
    assert_eq!(
        ours.sharers(),
        2,
        "the memory is free again (the list holds one clone)"
    );
    pair.b.await_down(pair.to_a);
    // The exports ended with their connection.
    let Pair { a, b, address, .. } = pair;
    let mut pair = Pair::meet(a, b, address);
    let list = List::simple(Direction::Get, &Memory::zeroed(100), {
        region.part(0, 100)
    });
    assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
    let list = List::simple(Direction::Put, &Memory::zeroed(100), {
        region.part(0, 100)
    });
    assert_eq!(pair.a_transfers(&list), Err(TransferError::Protection));
}

/// A peer that goes away while transfers with it are in progress: each completes once, with
/// success or the peer's end, and before that end is reported (the sink checks the order).
pub fn a_departure_ends_transfers<F: Factory>(factory: &F) {
    const LEN: usize = 2 << 20;
    for direction in [Direction::Get, Direction::Put] {
        for steps in [0, 1, 5] {
            let mut pair = Pair::new(factory);
            let theirs = Memory::zeroed(LEN);
            let region = pair.b.export(pair.to_a, &theirs, Access::ReadWrite);
            let list = List::simple(direction, &Memory::zeroed(LEN), region).notifying(b"landed");
            let started = (0..10)
                .filter_map(|_| pair.a.try_transfer(pair.to_b, &list))
                .count();
            for _ in 0..steps {
                pair.a.step();
            }
            let Pair { mut a, b, to_b, .. } = pair;
            drop(b);
            let cause = a.await_down(to_b);
            assert_eq!((a.in_progress(), a.seen.done.len()), (0, started));
            for (_, result) in a.seen.done {
                let expected = [Ok(()), Err(TransferError::Peer(cause.clone()))];
                assert!(expected.contains(&result), "{result:?}");
            }
            assert_eq!(
                list.local[0].sharers(),
                1,
                "the memory is not held any more"
            );
        }
    }
}

/// Handles that were never returned, or have ended, are refused by every call, and nothing
/// panics.
pub fn stale_handles_are_refused<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let ended = pair.to_b;
    pair.a.disconnect(ended);
    let index = ended.index() as u32;
    let never = [
        Peer(0),
        Peer(u64::MAX),
        Peer::new(index, u32::MAX),
        Peer::new(u32::MAX, ended.generation()),
        Peer::new(index, ended.generation().wrapping_sub(1)),
        Peer::new(index, ended.generation().wrapping_add(7)),
        Peer::new(index + 1, ended.generation()),
    ];
    let memory = Memory::zeroed(100);
    for peer in std::iter::once(ended).chain(never) {
        let node = &mut pair.a;
        let refused = node.method.send(peer, &[b"x"]);
        assert!(
            matches!(refused, Err(SendError::Gone(_))),
            "{peer:?} {refused:?}"
        );
        let list = List::simple(Direction::Get, &memory, NOWHERE);
        let refused = node.offer(peer, &list);
        assert!(
            matches!(refused, Err(SendError::Gone(_))),
            "{peer:?} {refused:?}"
        );
        assert!(
            node.method
                .grant(peer, &memory, Registration::NONE, Access::Read)
                .is_err()
        );
        node.method.revoke(peer, 1);
        assert!(node.method.map(peer, &NOWHERE).is_none());
        assert_eq!(node.method.identity(peer), None);
        assert_eq!(node.method.address(peer), None);
        node.disconnect(peer);
    }
    let Pair { a, b, address, .. } = pair;
    Pair::meet(a, b, address).still_works();
}

/// Another method's addresses, and malformed ones of its own scheme, are refused with a reason.
pub fn foreign_addresses_are_refused<F: Factory>(factory: &F) {
    let mut node = Node::new(factory.method());
    let foreign = factory.foreign();
    let connecting = node
        .method
        .connect(Instant::now(), &foreign)
        .expect_err("foreign");
    let listening = node.method.listen(&foreign).expect_err("foreign");
    assert!(!connecting.to_string().is_empty() && !listening.to_string().is_empty());
    let scheme = factory.address().scheme().to_owned();
    for nonsense in ["\0", "\u{1}\u{2}", " ", "::::", "\u{fffd}"] {
        let address: Address = format!("{scheme}://{nonsense}")
            .parse()
            .expect("well-formed");
        // Refused now or found absent later; never a panic, never a peer that does not exist.
        if let Ok(peer) = node.method.connect(Instant::now(), &address) {
            node.seen_as_outbound(peer);
            if node.method.send(peer, &[b"x"]).is_ok() {
                node.await_down(peer);
            }
        }
    }
}

/// Two cannot listen at one address; the first goes on working.
pub fn a_taken_address_is_refused<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let mut second = factory.method();
    let refused = second.listen(&pair.address);
    let error = refused.expect_err("a process listens there");
    assert!(!error.to_string().is_empty());
    drop(second);
    pair.still_works();
    let Pair { b, address, .. } = pair;
    Pair::meet(Node::new(factory.method()), b, address).still_works();
}

/// Identity, address and report of a peer, on both sides.
pub fn a_peer_is_identified<F: Factory>(factory: &F) {
    let pair = Pair::new(factory);
    assert_eq!(pair.a.method.address(pair.to_b), Some(pair.address.clone()));
    let described = pair
        .b
        .method
        .address(pair.to_a)
        .expect("a caller is described");
    assert_eq!(described.scheme(), pair.address.scheme());
    for (node, peer) in [(&pair.a, pair.to_b), (&pair.b, pair.to_a)] {
        match node.method.identity(peer).expect("a connection stands") {
            Identity::Local { pid, .. } | Identity::SocketOf { pid, .. } => {
                assert_eq!(pid as u32, std::process::id(), "the peer is this process");
            }
            Identity::Keyed => {}
            Identity::OneUser { .. } => panic!("no agent has said anything"),
        }
        let report = node.method.report(peer).expect("a report on a peer");
        assert!(!report.facts.is_empty());
        for (what, fact) in report.facts {
            assert!(!what.is_empty() && !fact.is_empty(), "{what}: {fact}");
        }
    }
}

/// Where a method states that peers prove their nodes, each side knows the other's by the time that it has its first packet, and as long
/// as it is connected; elsewhere no node of any peer is known. A process that was not reached has proven none.
pub fn nodes_are_known_where_stated<F: Factory>(factory: &F) {
    let mut pair = Pair::new(factory);
    let stated = pair.a.method.capabilities().identifies_nodes;
    let node = |side: &Node<F::Method>, peer| {
        let node = side.method.node(peer);
        assert_eq!(node.is_some(), stated, "{node:?}");
        if let Some(node) = &node {
            assert!(is_name(&node.name) && !node.roles.is_empty(), "{node:?}");
        }
        node
    };
    let [of_b, of_a] = [node(&pair.a, pair.to_b), node(&pair.b, pair.to_a)];
    pair.still_works();
    let (to_a, to_b) = (pair.to_a, pair.to_b);
    assert_eq!(
        [node(&pair.a, to_b), node(&pair.b, to_a)],
        [of_b, of_a],
        "it stays the same"
    );
    pair.b.disconnect(to_a);
    assert_eq!(pair.b.method.node(to_a), None, "of a peer that has ended");
    // Nothing is known of a process that was not reached.
    let mut alone = Node::new(factory.method());
    let absent = alone.connect(&factory.vacant());
    assert_eq!(alone.method.node(absent), None);
}

/// A caller's own address is confirmed, and an address where it cannot be listening is not.
pub fn the_address_of_a_caller_is_confirmed<F: Factory>(factory: &F) {
    let (caller, own) = Node::listening(factory);
    let (called, address) = Node::listening(factory);
    let mut pair = Pair::meet(caller, called, address);
    let confirmed = |pair: &Pair<F::Method>, claimed: &Address| {
        pair.b.method.confirm_address(pair.to_a, claimed)
    };
    assert_eq!(confirmed(&pair, &own), Some(own.clone()));
    let foreign = [
        format!("{}://192.0.2.1:7", own.scheme()),
        format!("{}:///no/such/socket", own.scheme()),
        format!("{}x://{}", own.scheme(), own.rest()),
    ];
    for claimed in foreign {
        let claimed = claimed.parse().expect("well-formed");
        assert_eq!(confirmed(&pair, &claimed), None, "{claimed}");
    }
    let to_a = pair.to_a;
    pair.b.disconnect(to_a);
    assert_eq!(confirmed(&pair, &own), None, "of a peer that has ended");
}

/// A method's statements about itself are the same in each instance, and stay the same while there are peers.
pub fn capabilities_do_not_change<F: Factory>(factory: &F) {
    let stated = factory.method().capabilities();
    let limits = factory.method().limits();
    assert!(limits.max_packet >= 4096 + 256 && limits.eager_bytes <= limits.max_packet);
    assert!(limits.mapped_eager_bytes <= limits.eager_bytes);
    let mut pair = Pair::new(factory);
    pair.still_works();
    for node in [&pair.a, &pair.b] {
        assert_eq!(node.method.capabilities(), stated);
        assert_eq!(node.method.limits(), limits);
    }
}

/// Polls of methods without peers return that nothing happened.
pub fn nothing_to_do_is_nothing_done<F: Factory>(factory: &F) {
    let mut idle = Node::new(factory.method());
    assert!(!idle.step());
    let (mut alone, address) = Node::listening(factory);
    let mut patience = Patience::new("a listener without callers becomes idle");
    while alone.step() {
        patience.spend();
    }
    assert!(alone.seen.events.is_empty() && alone.seen.packets.is_empty());
    assert_eq!(alone.method.scheme(), address.scheme());
    // It is still open for callers.
    let mut caller = Node::new(factory.method());
    let peer = caller.connect(&address);
    send(&mut caller, peer, &mut alone, b"hello");
    assert_eq!(receive(&mut alone, &mut caller).1, b"hello");
}
