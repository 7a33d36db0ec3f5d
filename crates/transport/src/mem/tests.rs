use std::time::Instant;

use super::*;
use crate::method::Token;

#[derive(Default)]
struct Log {
    packets: Vec<(Peer, Vec<u8>)>,
    done: Vec<(Token, Result<(), TransferError>)>,
    up: Vec<Peer>,
    down: Vec<(Peer, PeerError)>,
    writable: usize,
}

impl Sink for Log {
    fn packet(&mut self, peer: Peer, packet: Packet<'_>) {
        self.packets.push((peer, packet.to_vec(0)));
    }
    fn transfer_done(&mut self, _: Peer, token: Token, result: Result<(), TransferError>) {
        self.done.push((token, result));
    }
    fn peer_up(&mut self, peer: Peer) {
        self.up.push(peer);
    }
    fn peer_down(&mut self, peer: Peer, cause: PeerError) {
        self.down.push((peer, cause));
    }
    fn writable(&mut self, _: Peer) {
        self.writable += 1;
    }
}

fn pair(name: &str, options: Options) -> (Mem, Mem, Peer) {
    let mut server = Mem::new(options).unwrap();
    let address: Address = format!("mem://{name}").parse().unwrap();
    server.listen(&address).unwrap();
    let mut client = Mem::new(options).unwrap();
    let peer = client.connect(Instant::now(), &address).unwrap();
    assert_eq!(client.connect(Instant::now(), &address).unwrap(), peer);
    (server, client, peer)
}

#[test]
fn packets_in_order_with_back_pressure() {
    let options = Options {
        queue_packets: 4,
        ..Options::default()
    };
    let (mut server, mut client, to) = pair("order", options);
    let (mut at_server, mut at_client) = (Log::default(), Log::default());
    for n in 0..4u8 {
        client.send(to, &[&[n], &[n]]).unwrap();
    }
    assert_eq!(client.send(to, &[&[9]]), Err(SendError::WouldBlock));
    assert!(server.poll(Instant::now(), &mut at_server));
    assert_eq!(at_server.up.len(), 1);
    let bytes: Vec<_> = at_server.packets.iter().map(|p| p.1.clone()).collect();
    assert_eq!(bytes, [[0, 0], [1, 1], [2, 2], [3, 3]]);
    client.poll(Instant::now(), &mut at_client);
    assert_eq!(at_client.writable, 1);
    client.send(to, &[&[9]]).unwrap();
}

#[test]
fn transfers_respect_exports() {
    let (mut server, mut client, to) = pair(
        "exports",
        Options {
            max_piece: 3,
            ..Options::default()
        },
    );
    let (mut at_server, mut at_client) = (Log::default(), Log::default());
    client.send(to, &[b"x"]).unwrap();
    server.poll(Instant::now(), &mut at_server);
    let from = at_server.up[0];
    let memory = Memory::from_vec((0..10).collect());
    let region = server
        .grant(from, &memory, Registration::NONE, Access::Read)
        .unwrap();
    let local = [Memory::zeroed(4), Memory::zeroed(0), Memory::zeroed(6)];
    let get = |direction, token| Transfer {
        direction,
        local: local.to_vec().into(),
        remote: vec![region.part(0, 5), region.part(5, 5)].into(),
        notify: Some(b"done".to_vec().into()),
        registrations: Vec::new(),
        token,
    };
    client.transfer(to, get(Direction::Get, 1)).unwrap();
    client.transfer(to, get(Direction::Put, 2)).unwrap();
    for _ in 0..20 {
        client.poll(Instant::now(), &mut at_client);
    }
    server.revoke(from, region.key);
    client.transfer(to, get(Direction::Get, 3)).unwrap();
    for _ in 0..20 {
        client.poll(Instant::now(), &mut at_client);
    }
    let refused = Err(TransferError::Protection);
    assert_eq!(
        at_client.done,
        [(1, Ok(())), (2, refused.clone()), (3, refused)]
    );
    assert_eq!(local[0].to_vec(), [0, 1, 2, 3]);
    assert_eq!(local[2].to_vec(), [4, 5, 6, 7, 8, 9]);
    at_server.packets.clear();
    server.poll(Instant::now(), &mut at_server);
    assert_eq!(at_server.packets, [(from, b"done".to_vec())]);
}

#[test]
fn death_refusal_and_new_incarnation() {
    let (mut server, mut client, to) = pair("death", Options::default());
    let (mut at_server, mut at_client) = (Log::default(), Log::default());
    client.send(to, &[b"x"]).unwrap();
    server.poll(Instant::now(), &mut at_server);
    let memory = Memory::zeroed(8);
    let region = server
        .grant(at_server.up[0], &memory, Registration::NONE, Access::Read)
        .unwrap();
    client
        .transfer(
            to,
            Transfer {
                direction: Direction::Get,
                local: vec![Memory::zeroed(8)].into(),
                remote: vec![region].into(),
                registrations: Vec::new(),
                notify: None,
                token: 7,
            },
        )
        .unwrap();
    server.fault().kill();
    client.poll(Instant::now(), &mut at_client);
    let cause = PeerError::Broken("simulated".into());
    assert_eq!(at_client.down, [(to, cause.clone())]);
    assert_eq!(at_client.done, [(7, Err(TransferError::Peer(cause)))]);
    server.poll(Instant::now(), &mut at_server);
    let gone = server.send(at_server.up[0], &[b"y"]);
    assert!(matches!(gone, Err(SendError::Gone(_))));

    client.send(to, &[b"x"]).unwrap();
    client.poll(Instant::now(), &mut at_client);
    assert!(matches!(at_client.down[1].1, PeerError::Refused(_)));

    let mut again = Mem::new(Options::default()).unwrap();
    again.listen(&"mem://death".parse().unwrap()).unwrap();
    client.send(to, &[b"z"]).unwrap();
    let mut at_again = Log::default();
    again.poll(Instant::now(), &mut at_again);
    assert_eq!(at_again.packets[0].1, b"z");
    drop(client);
    again.poll(Instant::now(), &mut at_again);
    assert_eq!(at_again.down[0].1, PeerError::Closed);
}

#[test]
fn arming_finds_events_that_are_there() {
    let (mut server, mut client, to) = pair("arming", Options::default());
    assert!(server.arm(Instant::now()));
    client.send(to, &[b"x"]).unwrap();
    let mut fds = [rustix::event::PollFd::new(
        &server,
        rustix::event::PollFlags::IN,
    )];
    let ready = rustix::event::poll(&mut fds, Some(&rustix::time::Timespec::default()));
    assert_eq!(ready, Ok(1));
    server.disarm();
    assert!(!server.arm(Instant::now()), "a packet waits");
    server.poll(Instant::now(), &mut Log::default());
    assert!(server.arm(Instant::now()));
}

impl AsFd for Mem {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pollable()
    }
}
