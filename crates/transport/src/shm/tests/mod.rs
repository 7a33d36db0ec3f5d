//! Tests of the method with real memory, sockets and processes.

mod claims;
mod death;
mod hostile;
mod nodes;
mod packets;
mod park;
mod pieces;
mod regions;
mod revocation;
mod split_copy;
mod trust;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Shm, ShmConfig};
use crate::address::Address;
use crate::error::{PeerError, TransferError};
use crate::method::{Method, Packet, Peer, Sink, Takes, Token};

/// Far longer than any wait in these tests, for busy machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Events that a method delivered.
#[derive(Debug, Default)]
struct Log {
    packets: VecDeque<(Peer, Vec<u8>)>,
    done: Vec<(Token, Result<(), TransferError>)>,
    up: Vec<Peer>,
    down: Vec<(Peer, PeerError)>,
    writable: Vec<Peer>,
    takes: Takes,
}

impl Sink for Log {
    fn takes(&self) -> Takes {
        self.takes
    }
    fn packet(&mut self, peer: Peer, packet: Packet<'_>) {
        self.packets.push_back((peer, packet.to_vec(0)));
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
    fn writable(&mut self, peer: Peer) {
        self.writable.push(peer);
    }
}

/// One instance with its events.
struct Host {
    shm: Shm,
    log: Log,
}

impl Log {
    fn counts(&self) -> [usize; 5] {
        let Self {
            packets,
            done,
            up,
            down,
            writable,
            takes: _,
        } = self;
        [
            packets.len(),
            done.len(),
            up.len(),
            down.len(),
            writable.len(),
        ]
    }
}

impl Host {
    fn new(config: ShmConfig) -> Self {
        Self {
            shm: Shm::new(config).unwrap(),
            log: Log::default(),
        }
    }

    fn listening(config: ShmConfig, at: &Address) -> Self {
        let mut host = Self::new(config);
        assert_eq!(&host.shm.listen(at).unwrap(), at);
        host
    }

    fn poll(&mut self) -> bool {
        self.shm.poll(Instant::now(), &mut self.log)
    }

    fn tick(&mut self) {
        self.shm.tick(Instant::now(), &mut self.log);
    }

    /// Polls until `done`, sleeping as a caller would when there is nothing to do.
    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(
                Instant::now() < give_up,
                "waited in vain until {what}: {:?}",
                self.log
            );
            if !self.poll() && self.shm.arm(Instant::now()) {
                sleep_on(&self.shm, Duration::from_millis(20));
                self.shm.disarm();
                self.tick();
            }
        }
    }
}

/// Sleeps until the method has something to do; returns whether it has.
fn sleep_on(shm: &Shm, most: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let descriptor = shm.pollable();
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: most.as_secs() as i64,
        tv_nsec: most.subsec_nanos().into(),
    };
    poll(&mut polled, Some(&timeout)).is_ok_and(|count| count > 0)
}

/// Whether the calling test, `name`, has this process for itself, so that no other test changes its memory or limits, or starts a
/// program: that has copies of all sockets until it executes, and an end that was dropped is not seen as closed before. If not,
/// runs the test in such a process, where it must pass.
fn has_own_process(name: &str) -> bool {
    const VARIABLE: &str = "CAUSEWAY_SHM_TEST_OWN_PROCESS";
    if std::env::var(VARIABLE).is_ok() {
        return true;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    // A name that no test has would pass, too.
    let has_passed = output.status.success() && out.contains("1 passed");
    assert!(has_passed, "{name}: {}\n{out}{errors}", output.status);
    false
}

/// Polls both until `done`.
fn both(
    one: &mut Host,
    two: &mut Host,
    what: &str,
    mut done: impl FnMut(&mut Host, &mut Host) -> bool,
) {
    let give_up = Instant::now() + PATIENCE;
    let mut turns = 0u32;
    while !done(one, two) {
        assert!(
            Instant::now() < give_up,
            "waited in vain until {what}: {:?} {:?}",
            one.log.counts(),
            two.log.counts()
        );
        let progress = one.poll() | two.poll();
        turns += 1;
        if !progress && turns.is_multiple_of(64) {
            one.tick();
            two.tick();
        }
    }
}

/// A folder for sockets that goes with the test, and an address in it.
fn place() -> (tempfile::TempDir, Address) {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("shm://{}/socket", folder.path().display());
    (folder, address.parse().unwrap())
}

/// Two instances that have met: a client, a server, and their handles for each other.
struct ConnectedPair {
    client: Host,
    server: Host,
    to_server: Peer,
    to_client: Peer,
    _folder: tempfile::TempDir,
}

/// Whether `host` has the reply to its greeting.
fn is_up(host: &mut Host, peer: Peer) -> bool {
    let pair = host.shm.peers.get_mut(peer).and_then(|entry| entry.pair());
    pair.is_some_and(|pair| pair.stage == super::pair::Stage::Up)
}

fn meet(config: ShmConfig) -> ConnectedPair {
    let (folder, address) = place();
    let mut server = Host::listening(config.clone(), &address);
    let mut client = Host::new(config);
    let to_server = client.shm.connect(Instant::now(), &address).unwrap();
    client.shm.send(to_server, &[b"hello"]).unwrap();
    both(
        &mut client,
        &mut server,
        "both sides are up",
        |client, server| !server.log.packets.is_empty() && is_up(client, to_server),
    );
    let (to_client, hello) = server.log.packets.pop_front().unwrap();
    assert_eq!(hello, b"hello");
    assert_eq!(server.log.up, [to_client]);
    ConnectedPair {
        client,
        server,
        to_server,
        to_client,
        _folder: folder,
    }
}
