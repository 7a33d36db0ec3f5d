//! Packets: order, room, rings that are not polled, many peers.

use causeway_wire::shm::PairLayout;

use super::super::intervals::SOCKET_POLLS;
use super::*;
use crate::error::SendError;
use crate::method::{Identity, Registration};

#[test]
fn packets_of_every_size_arrive_in_order() {
    let mut met = meet(ShmConfig::default());
    let most = met.client.shm.limits().max_packet;
    let sizes = (0..3000usize).map(|n| match n % 7 {
        0 => 0,
        1 => n % 64,
        2 => 56 + n % 3,
        3 => most - n % 5,
        _ => (n * 7919) % most,
    });
    let packets: Vec<Vec<u8>> = sizes
        .enumerate()
        .map(|(n, len)| (0..len).map(|at| (at * 31 + n) as u8).collect())
        .collect();
    let (mut sent, mut seen) = (0, 0);
    let to_server = met.to_server;
    both(
        &mut met.client,
        &mut met.server,
        "all have arrived",
        |client, server| {
            while let Some(packet) = packets.get(sent) {
                let (head, tail) = packet.split_at(packet.len() / 3);
                match client.shm.send(to_server, &[head, &[], tail]) {
                    Ok(()) => sent += 1,
                    Err(SendError::WouldBlock) => break,
                    Err(error) => panic!("{error}"),
                }
            }
            while let Some((_, packet)) = server.log.packets.pop_front() {
                assert_eq!(packet, packets[seen], "packet {seen}");
                seen += 1;
            }
            seen == packets.len()
        },
    );
}

/// A look takes the place of most polls that would find nothing, but not of the one that polls the sockets.
#[test]
fn looks_find_that_nothing_has_come_and_that_something_has() {
    let mut met = meet(ShmConfig::default());
    let (to_server, server) = (met.to_server, &mut met.server);
    while server.poll() {}
    let in_vain = (0..2 * SOCKET_POLLS).filter(|_| server.shm.finds_nothing(Instant::now()));
    assert!((in_vain.count() as u64) < SOCKET_POLLS);
    assert!(!server.poll());
    // The sockets are not due yet with the look after these.
    let in_vain = (2..SOCKET_POLLS).filter(|_| server.shm.finds_nothing(Instant::now()));
    assert_eq!(in_vain.count() as u64, SOCKET_POLLS - 2);
    met.client.shm.send(to_server, &[b"news"]).unwrap();
    assert!(!met.server.shm.finds_nothing(Instant::now()));
    assert!(met.server.poll());
}

/// Requests and replies of lengths that do not divide the ring, now and then several in a row, in rings of all sizes: the
/// packets of replies stay at the ring's start, those of streams wrap at its end.
#[test]
fn replies_of_any_size_arrive_in_rings_of_any_size() {
    for shift in 14..=18 {
        let config = ShmConfig {
            ring_bytes: 1 << shift,
            ..ShmConfig::default()
        };
        let mut met = meet(config);
        let most = met.client.shm.limits().max_packet;
        let (to_server, to_client) = (met.to_server, met.to_client);
        let len_of = |n: usize| match n % 5 {
            0 => 8,
            1 => n % 130,
            2 => 40 + n % 90,
            _ => (n * 7919) % most.min(300),
        };
        let content = |n: usize| -> Vec<u8> { (0..len_of(n)).map(|at| (at + n) as u8).collect() };
        for n in 0..4000 {
            let in_a_row = if n % 50 < 3 { 7 } else { 1 };
            for to_send in n..n + in_a_row {
                met.client
                    .shm
                    .send(to_server, &[&content(to_send)])
                    .unwrap();
                met.server.poll();
                met.server
                    .shm
                    .send(to_client, &[&content(to_send + 1)])
                    .unwrap();
                met.client.poll();
            }
            both(
                &mut met.client,
                &mut met.server,
                "all have arrived",
                |client, server| {
                    server.log.packets.len() == in_a_row && client.log.packets.len() == in_a_row
                },
            );
            for at in 0..in_a_row {
                let (_, request) = met.server.log.packets.pop_front().unwrap();
                let (_, reply) = met.client.log.packets.pop_front().unwrap();
                assert_eq!(request, content(n + at), "request {n} of {shift}");
                assert_eq!(reply, content(n + at + 1), "reply {n} of {shift}");
            }
        }
    }
}

#[test]
fn behind_a_stream_polls_of_one_moment_skip_the_ring_and_later_ones_read_it() {
    let mut met = meet(ShmConfig::default());
    let now = Instant::now();
    for sent in (3..=12).step_by(3) {
        for packet in [b"a", b"b", b"c"] {
            met.client.shm.send(met.to_server, &[packet]).unwrap();
        }
        while met.server.log.packets.len() < sent {
            met.server.shm.poll(now, &mut met.server.log);
        }
    }
    met.client.shm.send(met.to_server, &[b"d"]).unwrap();
    met.server.shm.poll(now, &mut met.server.log);
    assert_eq!(met.server.log.packets.len(), 12, "this poll is let pass");
    let later = now + Duration::from_millis(1);
    met.server.shm.poll(later, &mut met.server.log);
    assert_eq!(met.server.log.packets.len(), 13);
}

/// Three clients have sent a hundred packets each to a server whose rings are polled, which numbers the clients as they have met it.
fn three_with_packets() -> (Host, [Host; 3]) {
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    let mut clients = [(); 3].map(|()| Host::new(ShmConfig::default()));
    let to_server = clients.each_mut().map(|client| {
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        client.shm.send(peer, &[b"hello"]).unwrap();
        both(client, &mut server, "it is up", |client, server| {
            is_up(client, peer) && server.log.packets.pop_front().is_some()
        });
        peer
    });
    for packet in 0..100 {
        for (client, peer) in clients.iter_mut().zip(to_server) {
            client.shm.send(peer, &[&[packet]]).unwrap();
        }
    }
    (server, clients)
}

/// Takes all packets, one a poll. Returns the clients that they came from, with the numbers of packets that came in a row.
fn turns_of(server: &mut Host, mut before: impl FnMut(&mut Shm)) -> Vec<(usize, usize)> {
    let (mut next, mut turns) = ([0; 3], Vec::new());
    while next != [100; 3] {
        before(&mut server.shm);
        assert!(server.poll(), "{next:?}");
        let (peer, packet) = server.log.packets.pop_front().unwrap();
        assert!(server.log.packets.is_empty(), "one poll, one packet");
        let from = server.log.up.iter().position(|up| *up == peer).unwrap();
        assert_eq!(packet, [next[from]], "of client {from}");
        next[from] += 1;
        match turns.last_mut() {
            Some((latest, taken)) if *latest == from => *taken += 1,
            _ => turns.push((from, 1)),
        }
    }
    turns
}

#[test]
fn each_ring_delivers_some_packets_in_its_turn_where_they_are_taken_from_any_sender() {
    let (mut server, _clients) = three_with_packets();
    server.log.takes = Takes::OneInTurn;
    let turns = turns_of(&mut server, |_| {});
    assert!(turns.iter().all(|(_, taken)| *taken <= 32), "{turns:?}");
    assert!(turns.len() <= 3 * 4, "{turns:?}");
}

#[test]
fn of_packets_that_are_taken_one_by_one_each_ring_delivers_one_in_its_turn() {
    let (mut server, _clients) = three_with_packets();
    server.log.takes = Takes::One;
    let turns = turns_of(&mut server, |_| {});
    assert_eq!(turns.len(), 3 * 100, "{turns:?}");
    let first = turns[..3].iter().cycle();
    assert!(turns.iter().eq(first.take(turns.len())), "{turns:?}");
}

#[test]
fn sockets_that_need_a_look_end_a_ring_s_turn() {
    let (mut server, _clients) = three_with_packets();
    server.log.takes = Takes::OneInTurn;
    let turns = turns_of(&mut server, |shm| {
        assert!(!shm.attention, "they were looked at");
        shm.attention = true;
    });
    assert_eq!(turns.len(), 3 * 100, "{turns:?}");
}

#[test]
fn a_ring_that_is_set_aside_has_no_turn() {
    let (mut server, _clients) = three_with_packets();
    server.log.takes = Takes::OneInTurn;
    // The poll that finds the packet does not deliver it, and the next one begins another ring's turn.
    let paused = server.log.up[0];
    server.shm.pause(paused);
    while server.shm.polled.len() == 3 {
        server.poll();
    }
    assert_eq!(server.shm.taken_in_turn, 0);
    assert!(server.log.packets.iter().all(|(from, _)| *from != paused));
}

#[test]
fn a_packet_above_the_limit_is_refused() {
    let mut met = meet(ShmConfig::default());
    let limit = met.client.shm.limits().max_packet;
    let refused = met.client.shm.send(met.to_server, &[&vec![0; limit], b"x"]);
    let len = limit + 1;
    assert_eq!(refused, Err(SendError::TooLarge { len, limit }));
}

#[test]
fn a_full_ring_refuses_packets_and_room_is_reported() {
    let mut met = meet(ShmConfig::default());
    let packet = [7; 1000];
    let mut sent = 0;
    while met.client.shm.send(met.to_server, &[&packet]).is_ok() {
        sent += 1;
        let bytes = ShmConfig::default().ring_bytes;
        assert!(sent * packet.len() < bytes, "a ring is bounded");
    }
    assert!(met.client.log.writable.is_empty());
    let to_server = met.to_server;
    both(
        &mut met.client,
        &mut met.server,
        "there is room",
        |client, server| client.log.writable == [to_server] && server.log.packets.len() == sent,
    );
    met.client.shm.send(met.to_server, &[&packet]).unwrap();
}

#[test]
fn sleepers_are_woken_over_and_over() {
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    const ROUNDS: u32 = 2000;
    let client = std::thread::spawn(move || {
        let mut client = Host::new(ShmConfig::default());
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        for round in 0..ROUNDS {
            client.shm.send(peer, &[&round.to_le_bytes()]).unwrap();
            client.until("the answer is there", |client| {
                !client.log.packets.is_empty()
            });
            let (_, answer) = client.log.packets.pop_front().unwrap();
            assert_eq!(answer, round.to_le_bytes());
        }
    });
    for _ in 0..ROUNDS {
        server.until("a request is there", |server| {
            !server.log.packets.is_empty()
        });
        let (peer, request) = server.log.packets.pop_front().unwrap();
        server.shm.send(peer, &[&request]).unwrap();
    }
    client.join().unwrap();
}

#[test]
fn a_sleeping_sender_is_woken_by_room() {
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    const PACKETS: u32 = 20_000;
    let client = std::thread::spawn(move || {
        let mut client = Host::new(ShmConfig::default());
        let peer = client.shm.connect(Instant::now(), &address).unwrap();
        for number in 0..PACKETS {
            let packet = [&number.to_le_bytes()[..], &[1; 700]];
            while client.shm.send(peer, &packet) == Err(SendError::WouldBlock) {
                client.log.writable.clear();
                client.until("there is room", |client| !client.log.writable.is_empty());
            }
        }
        client.until("all was taken", |client| !client.log.packets.is_empty());
    });
    for number in 0..PACKETS {
        server.until("a packet is there", |server| !server.log.packets.is_empty());
        let (peer, packet) = server.log.packets.pop_front().unwrap();
        assert_eq!(packet[..4], number.to_le_bytes());
        if number + 1 == PACKETS {
            server.shm.send(peer, &[b"done"]).unwrap();
        }
    }
    client.join().unwrap();
}

#[test]
fn a_process_reaches_itself() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let to_self = host.shm.connect(Instant::now(), &address).unwrap();
    host.shm.send(to_self, &[b"to myself"]).unwrap();
    host.until("it has arrived", |host| !host.log.packets.is_empty());
    let (from, packet) = host.log.packets.pop_front().unwrap();
    assert_eq!(packet, b"to myself");
    assert_ne!(from, to_self);
    host.shm.send(from, &[b"and back"]).unwrap();
    host.until("the packet arrives", |host| !host.log.packets.is_empty());
    assert_eq!(
        host.log.packets.pop_front(),
        Some((to_self, b"and back".to_vec()))
    );
    let pid = std::process::id() as i32;
    assert!(matches!(
        host.shm.identity(to_self),
        Some(Identity::Local { pid: seen, .. }) if seen == pid
    ));
}

/// So many peers, of each of which the server has a packet.
fn connected(server: &mut Host, address: &Address, peers: usize) -> Vec<(Host, Peer)> {
    let connect = |_| {
        let mut client = Host::new(ShmConfig::default());
        let peer = client.shm.connect(Instant::now(), address).unwrap();
        client.shm.send(peer, &[b"here I am"]).unwrap();
        server.poll();
        (client, peer)
    };
    let clients = (0..peers).map(connect).collect();
    server.until("all packets arrive", |server| {
        server.log.packets.len() == peers
    });
    clients
}

/// Sixty-four peers have a packet each in every two thousand polls, so seldom that looking at all their rings in each poll costs more than
/// being rung.
#[test]
fn rings_of_many_peers_that_seldom_send_are_not_polled_between_their_packets() {
    const PEERS: usize = 64;
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    let mut clients = connected(&mut server, &address, PEERS);
    for round in 0..20 {
        server.log.packets.clear();
        for (client, peer) in &mut clients {
            client.shm.send(*peer, &[b"once more"]).unwrap();
        }
        for _ in 0..2000 {
            server.poll();
        }
        assert_eq!(server.log.packets.len(), PEERS);
        let polled = server.shm.polled.len();
        assert!(polled <= 4, "round {round}: {polled} rings are polled");
    }
    // A peer that sends more often is polled again, and need not ring.
    let (client, peer) = &mut clients[0];
    for _ in 0..20 {
        client.shm.send(*peer, &[b"often"]).unwrap();
        for _ in 0..20 {
            server.poll();
        }
    }
    client.shm.send(*peer, &[b"the last"]).unwrap();
    assert!(!crate::shm::doorbell::is_rung(&server.shm.bell));
    let before = server.log.packets.len();
    server.poll();
    assert_eq!(server.log.packets.len(), before + 1);
}

/// In a process of its own, whose memory no other test changes.
#[test]
fn a_thousand_peers_are_served_and_idle_ones_cost_nothing() {
    if !has_own_process(
        "shm::tests::packets::a_thousand_peers_are_served_and_idle_ones_cost_nothing",
    ) {
        return;
    }
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    const PEERS: usize = 1000;
    let before = resident_kib();
    let mut clients = connected(&mut server, &address, PEERS);
    let ids: Vec<Peer> = server.log.packets.drain(..).map(|(peer, _)| peer).collect();
    // Both ends are in this process, but pages that both have mapped are counted twice, as they
    // would be in the server alone and its clients together.
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 80 << 10, "1,000 peers took {grown} KiB");
    for _ in 0..20_000 {
        server.poll();
    }
    assert!(server.shm.polled.len() <= 4, "quiet rings are not polled");
    for (nth, peer) in ids.iter().enumerate() {
        server.shm.send(*peer, &[&nth.to_le_bytes()]).unwrap();
    }
    for (nth, (client, peer)) in clients.iter_mut().enumerate() {
        client.until("the answer is there", |client| {
            !client.log.packets.is_empty()
        });
        let (from, answer) = client.log.packets.pop_front().unwrap();
        assert_eq!((from, answer), (*peer, nth.to_le_bytes().to_vec()));
        client.shm.send(*peer, &[&nth.to_le_bytes()]).unwrap();
    }
    server.until("all replies arrive", |server| {
        server.log.packets.len() == PEERS
    });
    drop(clients);
    server.until("all have left", |server| server.log.down.len() == PEERS);
    assert!(
        server
            .log
            .down
            .iter()
            .all(|(_, cause)| *cause == PeerError::Closed)
    );
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_address_without_a_listener_shows_as_the_peer_going_down() {
    let (_folder, address) = place();
    let mut client = Host::new(ShmConfig::default());
    let peer = client.shm.connect(Instant::now(), &address).unwrap();
    assert_eq!(
        client.shm.connect(Instant::now(), &address).unwrap(),
        peer,
        "one handle for one address"
    );
    assert_eq!(client.shm.send(peer, &[b"x"]), Err(SendError::WouldBlock));
    client.until("it is reported", |client| !client.log.down.is_empty());
    assert!(matches!(client.log.down[0], (down, PeerError::Refused(_)) if down == peer));
    // Once a host listens, the same handle reaches them.
    let mut server = Host::listening(ShmConfig::default(), &address);
    client.shm.send(peer, &[b"now"]).unwrap();
    both(&mut client, &mut server, "it has arrived", |_, server| {
        !server.log.packets.is_empty()
    });
}

#[test]
fn addresses_that_cannot_work_are_refused_clearly() {
    let mut host = Host::new(ShmConfig::default());
    for bad in ["tcp://x", "shm:///some/folder/", "shm://.."] {
        let address: Address = bad.parse().unwrap();
        assert!(host.shm.connect(Instant::now(), &address).is_err(), "{bad}");
        assert!(host.shm.listen(&address).is_err(), "{bad}");
    }
    let (_folder, address) = place();
    let _other = Host::listening(ShmConfig::default(), &address);
    let error = host.shm.listen(&address).unwrap_err().to_string();
    assert!(error.contains("another process listens there") && error.contains(address.rest()));
}

#[test]
fn a_disconnected_peer_is_notified_and_its_handle_is_not_reused() {
    let mut met = meet(ShmConfig::default());
    met.client
        .shm
        .send(met.to_server, &[b"last words"])
        .unwrap();
    met.client
        .shm
        .disconnect(Instant::now(), met.to_server, &mut met.client.log);
    assert!(met.client.log.down.is_empty());
    met.server.until("the disconnect is reported", |server| {
        !server.log.down.is_empty()
    });
    assert_eq!(met.server.log.packets.pop_front().unwrap().1, b"last words");
    assert_eq!(met.server.log.down, [(met.to_client, PeerError::Closed)]);
    assert_eq!(
        met.server.shm.send(met.to_client, &[b"x"]),
        Err(SendError::Gone(PeerError::Closed))
    );
    let address = met.server.shm.listener.as_ref().unwrap().path().to_owned();
    let address: Address = format!("shm://{}", address.display()).parse().unwrap();
    assert_ne!(
        met.client.shm.connect(Instant::now(), &address).unwrap(),
        met.to_server
    );
    assert!(met.client.shm.send(met.to_server, &[b"x"]).is_err());
}

/// One peer's socket is dead, and ringing it fails; the other peer's wake-up arrives nevertheless.
#[test]
fn a_wake_up_that_cannot_be_sent_hides_no_sleeper() {
    let mut met = meet(ShmConfig::default());
    let mut second = Host::new(ShmConfig::default());
    let address = met.client.shm.address(met.to_server).unwrap();
    let to_server = second.shm.connect(Instant::now(), &address).unwrap();
    second.shm.send(to_server, &[b"hello"]).unwrap();
    both(
        &mut second,
        &mut met.server,
        "both sides are up",
        |second, server| !server.log.packets.is_empty() && is_up(second, to_server),
    );
    met.server.log.packets.clear();
    while met.server.poll() || !met.server.shm.arm(Instant::now()) {}
    assert!(!sleep_on(&met.server.shm, Duration::ZERO));
    let mute = met.client.shm.peers.get_mut(met.to_server).unwrap();
    let (end, _) = causeway_sys::socket::RecordSocket::pair().unwrap();
    let socket = mute.pair().unwrap().socket.replace(end.into());
    met.client.shm.send(met.to_server, &[b"unheard"]).unwrap();
    assert!(!sleep_on(&met.server.shm, Duration::ZERO));
    second.shm.send(to_server, &[b"heard"]).unwrap();
    assert!(
        sleep_on(&met.server.shm, PATIENCE),
        "the server was not woken"
    );
    met.server.shm.disarm();
    met.server.until("both packets arrive", |server| {
        server.log.packets.len() == 2
    });
    drop(socket);
}

/// A send reads the reply to the greeting, before the sockets are polled.
#[test]
fn a_transfer_that_waits_for_the_meeting_is_not_forgotten() {
    use crate::method::{Access, Direction, Transfer};
    use causeway_sys::memory::Memory;
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    let mut client = Host::new(ShmConfig::default());
    let to_server = client.shm.connect(Instant::now(), &address).unwrap();
    client.shm.send(to_server, &[b"hello"]).unwrap();
    server.until("the client is there", |server| {
        !server.log.packets.is_empty()
    });
    let (to_client, _) = server.log.packets.pop_front().unwrap();
    let far = Memory::from_vec(vec![7; 64]);
    let region = server
        .shm
        .grant(to_client, &far, Registration::NONE, Access::Read)
        .unwrap();
    let near = Memory::zeroed(64);
    let transfer = Transfer {
        direction: Direction::Get,
        local: vec![near.clone()].into(),
        remote: vec![region].into(),
        registrations: Vec::new(),
        notify: None,
        token: 1,
    };
    client.shm.transfer(to_server, transfer).unwrap();
    let entry = client.shm.peers.get_mut(to_server).unwrap();
    entry.pair().unwrap().read_records().unwrap();
    assert!(is_up(&mut client, to_server));
    assert!(!client.shm.arm(Instant::now()), "there is something to do");
    // No tick: the polls find it.
    let give_up = Instant::now() + PATIENCE;
    while client.log.done.is_empty() {
        assert!(Instant::now() < give_up, "it was forgotten");
        client.poll();
    }
    assert_eq!(client.log.done, [(1, Ok(()))]);
    assert_eq!(near.to_vec(), [7; 64]);
}

/// Bytes of ring 0 behind its short lap and before the first packet's place that the sender has written.
fn written_behind_the_short_lap(met: &mut ConnectedPair) -> usize {
    let view = met.client.shm.peers.get_mut(met.to_server);
    let view = view.unwrap().pair().unwrap().view();
    let layout = PairLayout::new(ShmConfig::default().ring_bytes, 8192).unwrap();
    let (ring, end) = (layout.ring(0), layout.ring_bytes - 64 * 64);
    let words = (1024 * 64..end).step_by(8);
    let written = words.filter(|at| {
        view.word(ring + at)
            .load(std::sync::atomic::Ordering::Relaxed)
            != 0
    });
    written.count() * 8
}

/// Request and reply use the first slots of a ring, a stream uses all of it.
#[test]
fn replies_use_little_of_a_ring_and_streams_all() {
    let mut met = meet(ShmConfig::default());
    for round in 0..2000usize {
        let packet = vec![1; 200 + round % 900];
        met.client.shm.send(met.to_server, &[&packet]).unwrap();
        met.server
            .until("a question", |server| !server.log.packets.is_empty());
        met.server.log.packets.clear();
        met.server.shm.send(met.to_client, &[&packet]).unwrap();
        met.client
            .until("an answer", |client| !client.log.packets.is_empty());
        met.client.log.packets.clear();
    }
    assert!(written_behind_the_short_lap(&mut met) < 4096);
    let (packet, mut sent) = ([1; 1000], 0);
    while sent < 1000 {
        match met.client.shm.send(met.to_server, &[&packet]) {
            Ok(()) => sent += 1,
            Err(_) => {
                met.server.poll();
                met.client.poll();
            }
        }
    }
    assert!(written_behind_the_short_lap(&mut met) > 100 << 10);
}
