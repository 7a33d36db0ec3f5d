//! The reason for which an operation waits, in each state, and how an instance publishes it.

use causeway_watch::observer::Observer;
use causeway_wire::watch::{OpKind, PeerRow, Row, WaitReason};

use super::*;

fn wait_reason(node: &Node, op: OpId) -> WaitReason {
    let index = node
        .bmi
        .conversations
        .shared
        .ops
        .find(op.0)
        .expect("it is pending");
    node.bmi.conversations.waiting(index).why
}

fn no_room() -> Options {
    Options {
        queue_packets: 4,
        ..Options::default()
    }
}

#[test]
fn a_send_waits_for_the_connection_then_for_room() {
    let mut server = node_with("waits-room-server", Config::default(), no_room());
    let mut client = node_with("waits-room-client", Config::default(), no_room());
    let to = client.bmi.lookup("mem://waits-room-server").unwrap();
    let op = client.send_unexpected(to, &memory(1, 10), 1, 1);
    assert_eq!(wait_reason(&client, op), WaitReason::Connection);
    drive(&mut [&mut client, &mut server], |nodes| {
        nodes[0].result(1).is_some()
    });
    idle(&mut [&mut client, &mut server]);
    let ops: Vec<_> = (0..8)
        .map(|n| client.send_unexpected(to, &memory(1, 10), 2, 10 + n))
        .collect();
    client.step();
    assert_eq!(wait_reason(&client, *ops.last().unwrap()), WaitReason::Room);
}

#[test]
fn an_unexpected_send_waits_for_credit_and_later_sends_for_it() {
    // The server makes no progress from now on: the window stays as it is.
    let (mut client, _server, to, _) = pair("waits-credit", Config::default(), Options::default());
    let ops: Vec<_> = (0..40)
        .map(|n| client.send_unexpected(to, &memory(1, 5000), 2, n))
        .collect();
    client.step();
    let pending: Vec<_> = ops
        .iter()
        .filter(|op| client.bmi.conversations.shared.ops.find(op.0).is_some())
        .map(|op| wait_reason(&client, *op))
        .collect();
    assert!(pending.len() > 2, "{pending:?}");
    assert_eq!(pending[0], WaitReason::Credit);
    assert!(
        pending[1..].iter().all(|why| *why == WaitReason::Queue),
        "{pending:?}"
    );
}

#[test]
fn announced_messages_wait_for_receives_and_too_many_for_each_other() {
    let (mut client, mut server, to, _) = pair("waits-far", Config::default(), Options::default());
    let far = memory(1, 100_000);
    let most = u64::from(causeway_wire::bmi::MAX_ANNOUNCED);
    let ops: Vec<_> = (0..most + 2)
        .map(|n| client.send(to, std::slice::from_ref(&far), n, n))
        .collect();
    idle(&mut [&mut client, &mut server]);
    assert_eq!(wait_reason(&client, ops[0]), WaitReason::Receive);
    assert_eq!(
        wait_reason(&client, ops[most as usize]),
        WaitReason::Announcements
    );
    assert_eq!(
        wait_reason(&client, ops[most as usize + 1]),
        WaitReason::Queue
    );
}

#[test]
fn receives_wait_for_messages_writes_transfers_and_their_turn() {
    let (mut client, mut server, to, from) =
        pair("waits-recv", Config::default(), Options::default());
    let op = server.recv(from, &[memory(0, 10)], 99, 99);
    assert_eq!(wait_reason(&server, op), WaitReason::Message);
    for node in [&mut client, &mut server] {
        let policy = InfoOption::Rendezvous(RendezvousPolicy::Push);
        node.bmi.set_info(None, policy).unwrap();
    }
    client.send(to, &[memory(1, 100_000)], 1, 1);
    idle(&mut [&mut client, &mut server]);
    let op = server.recv(from, &[memory(0, 100_000)], 1, 1);
    server.step();
    assert_eq!(wait_reason(&server, op), WaitReason::Write);
    drive(&mut [&mut client, &mut server], |nodes| {
        nodes[1].result(1).is_some()
    });

    for node in [&mut client, &mut server] {
        let policy = InfoOption::Rendezvous(RendezvousPolicy::Pull);
        node.bmi.set_info(None, policy).unwrap();
    }
    for n in 10..30 {
        client.send(to, &[memory(1, 1 << 20)], n, n);
    }
    idle(&mut [&mut client, &mut server]);
    let ops: Vec<_> = (10..30)
        .map(|n| server.recv(from, &[memory(0, 1 << 20)], n, n))
        .collect();
    assert_eq!(wait_reason(&server, ops[0]), WaitReason::Transfer);
    assert_eq!(wait_reason(&server, ops[19]), WaitReason::TransferSlot);
}

/// This instance's rows in the page of this process, which all tests share.
fn rows(node: &Node) -> Vec<PeerRow> {
    let own = node.bmi.watch.instance();
    let page = Observer::new(std::process::id()).expect("this process shows its page");
    let rows = page.rows().into_iter().filter_map(|row| match row {
        Row::Peer(row) if row.instance == own => Some(row),
        _ => None,
    });
    rows.collect()
}

/// Steps until the instance has published such a row.
fn shown(nodes: &mut [&mut Node], which: usize, wanted: impl Fn(&PeerRow) -> bool) -> PeerRow {
    let mut found = None;
    drive(nodes, |nodes| {
        found = rows(nodes[which]).into_iter().find(&wanted);
        found.is_some()
    });
    found.expect("it was found")
}

#[test]
fn an_instance_shows_activity_of_peers_and_removes_it_again() {
    let (mut client, mut server, to, from) =
        pair("waits-shown", Config::default(), Options::default());
    for n in 0..10 {
        client.send(to, &[memory(1, 100)], n, n);
    }
    let mut nodes = [&mut client, &mut server];
    let row = shown(&mut nodes, 0, |row| row.sent.number == 11);
    assert_eq!((row.sent.bytes, row.outbound), (1001, true));
    assert_eq!(row.address, "mem://waits-shown-server");
    let row = shown(&mut nodes, 1, |row| row.received.number == 11);
    assert_eq!((row.early, row.outbound, row.waiting), (10, false, None));
    assert!(row.held > 1000);

    nodes[0].send(to, &[memory(1, 1 << 20)], 50, 50);
    let row = shown(&mut nodes, 0, |row| row.waiting.is_some());
    let waiting = row.waiting.unwrap();
    assert_eq!(
        (waiting.kind, waiting.why),
        (OpKind::Send, WaitReason::Receive)
    );
    assert_eq!((waiting.tag, waiting.size, row.announced), (50, 1 << 20, 1));
    nodes[1].recv(from, &[memory(0, 1 << 20)], 50, 50);
    let row = shown(&mut nodes, 0, |row| row.sent_large.number == 1);
    assert_eq!(row.sent_large.bytes, 1 << 20);
    shown(&mut nodes, 0, |row| {
        row.waiting.is_none() && row.announced == 0
    });
    shown(&mut nodes, 1, |row| row.received_large.bytes == 1 << 20);

    // A message whose receive was posted first counts like one that came before its receive.
    nodes[1].recv(from, &[memory(0, 100)], 60, 60);
    nodes[0].send(to, &[memory(1, 100)], 60, 61);
    shown(&mut nodes, 1, |row| row.received.number == 12);

    // The address is gone once the other side does not need the connection either.
    nodes[0].bmi.release(to);
    drive(&mut nodes, |nodes| rows(nodes[0]).is_empty());
}

#[test]
fn a_stall_is_noticed_after_the_time_that_was_set_and_its_end_too() {
    let config = Config {
        stall_after: Duration::from_millis(100),
        ..Config::default()
    };
    let (mut client, mut server, to, from) = pair("waits-stall", config, Options::default());
    client.send(to, &[memory(1, 1 << 20)], 7, 7);
    let mut nodes = [&mut client, &mut server];
    let row = shown(&mut nodes, 0, |row| row.reports >= 2);
    assert!(row.stalled);
    let waiting = row.waiting.unwrap();
    let waited = row.published_ns - waiting.since_ns;
    assert!(
        waited >= 200_000_000,
        "the second report comes after twice the time: {waited} ns"
    );
    // The receiver has no operation in flight: nothing of its own is stalled.
    shown(&mut nodes, 1, |row| !row.stalled && row.early == 1);
    nodes[1].recv(from, &[memory(0, 1 << 20)], 7, 7);
    let row = shown(&mut nodes, 0, |row| !row.stalled);
    assert_eq!((row.waiting, row.sent_large.number), (None, 1));

    // Switched off while it runs.
    nodes[0]
        .bmi
        .set_info(None, InfoOption::StallAfter(NOW))
        .unwrap();
    nodes[0].send(to, &[memory(1, 1 << 20)], 8, 8);
    let old = |row: &PeerRow| {
        let waiting = row.waiting.filter(|waiting| waiting.tag == 8);
        waiting.is_some_and(|waiting| row.published_ns - waiting.since_ns > 200_000_000)
    };
    assert!(!shown(&mut nodes, 0, old).stalled);
}

#[test]
fn a_receive_that_waits_for_the_end_of_its_connection_is_no_stall() {
    let config = Config {
        stall_after: Duration::from_millis(20),
        ..Config::default()
    };
    let (mut client, mut server, to, from) = pair("waits-end", config, Options::default());
    client.send(to, &[memory(1, 10)], 7, 7);
    server.recv(from, &[memory(0, 1)], END_OF_CONNECTION, 9);
    let mut nodes = [&mut client, &mut server];
    // One that waits for a message is told, and shows that there was time for it.
    nodes[1].recv(from, &[memory(0, 1)], 8, 8);
    let row = shown(&mut nodes, 1, |row| row.stalled);
    assert_eq!(row.waiting.unwrap().tag, 8);
    nodes[0].send(to, &[memory(1, 1)], 8, 10);
    let row = shown(&mut nodes, 1, |row| !row.stalled);
    assert_eq!(row.waiting, None);
}

#[test]
fn nothing_is_shown_by_those_who_do_not_want_to() {
    let config = Config {
        publish: false,
        stall_after: Duration::ZERO,
        ..Config::default()
    };
    let (mut client, mut server, to, _) = pair("waits-hidden", config, Options::default());
    client.send(to, &[memory(1, 1 << 20)], 7, 7);
    let (mut one, mut two, to, _) = pair("waits-open", Config::default(), Options::default());
    one.send(to, &[memory(1, 10)], 7, 7);
    let mut nodes = [&mut client, &mut server, &mut one, &mut two];
    shown(&mut nodes, 2, |row| row.sent.number == 2);
    assert!(rows(&client).is_empty() && rows(&server).is_empty());
}

/// A slow transfer is distinguished from one that makes no progress.
#[test]
fn progress_of_a_transfer_over_tcp_is_seen_and_not_confused_with_small_messages() {
    let (mut client, mut server, to, from) =
        pair_over(Medium::Tcp, "waits-activity", Config::default());
    let activity = |node: &Node, addr: Addr| {
        let peer = node
            .bmi
            .conversations
            .peers
            .find(addr.0)
            .expect("it is known");
        let (method, handle) = node.bmi.connections.link(peer).expect("it is connected");
        node.bmi.methods.slots[method].method.activity(handle)
    };
    let before = (activity(&client, to), activity(&server, from));
    client.send(to, &[memory(1, 8)], 1, 1);
    server.recv(from, &[memory(0, 8)], 1, 1);
    drive(&mut [&mut client, &mut server], |nodes| {
        nodes[1].result(1).is_some()
    });
    assert_eq!((activity(&client, to), activity(&server, from)), before);
    client.send(to, &[memory(1, 1 << 20)], 2, 2);
    server.recv(from, &[memory(0, 1 << 20)], 2, 2);
    drive(&mut [&mut client, &mut server], |nodes| {
        nodes[1].result(2).is_some()
    });
    assert_ne!(activity(&client, to), before.0);
    assert_ne!(activity(&server, from), before.1);
}

/// Peers without operations are not checked, and no thread wakes up for them.
#[test]
fn idle_peers_cost_nothing_and_waiting_ones_are_checked_in_time() {
    const PEERS: u64 = 50;
    let mut server = node("waits-quiet-server");
    let mut clients = Vec::new();
    for n in 0..PEERS {
        let mut client = node(&format!("waits-quiet-{n}"));
        let to = client.bmi.lookup("mem://waits-quiet-server").unwrap();
        clients.push((meet(&mut client, &mut server, to), client));
    }
    let quiet = |node: &Node| node.bmi.watch.deadline(&node.bmi.conversations).is_none();
    drive(&mut [&mut server], |nodes| quiet(nodes[0]));
    assert_eq!(rows(&server).len() as u64, PEERS);
    // An operation waits for one of them: a sleeping thread wakes up when that has lasted too long, not before.
    server.recv(clients[7].0, &[memory(0, 10)], 1, 1);
    let soon = std::time::Instant::now() + Duration::from_secs(5);
    let late = soon + Duration::from_secs(60);
    drive(&mut [&mut server], |nodes| {
        let deadline = nodes[0].bmi.watch.deadline(&nodes[0].bmi.conversations);
        deadline.is_some_and(|at| soon < at && at < late)
    });
    assert_eq!(server.bmi.conversations.shared.touched.active(), 1);
}

/// A method that reports activity without reason would keep every wait from parking.
#[test]
fn only_the_methods_that_peers_can_reach_us_by_are_in_use() {
    let idle = Bmi::new(Config::default()).unwrap();
    assert_eq!(in_use(&idle), [] as [&str; 0]);
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![format!("shm://{}/s", dir.path().display())];
    let local = Bmi::new(Config {
        listen,
        ..Config::default()
    });
    assert_eq!(in_use(&local.unwrap()), ["shm"]);
    let remote = Bmi::new(Config {
        listen: vec!["udp://127.0.0.1:0".into()],
        ..Config::default()
    });
    assert_eq!(in_use(&remote.unwrap()), ["udp"]);
}

fn in_use(bmi: &Bmi) -> Vec<&'static str> {
    let slots = bmi.methods.slots.iter();
    let used = slots.filter(|slot| !slot.method.is_unused());
    used.map(|slot| slot.scheme).collect()
}
