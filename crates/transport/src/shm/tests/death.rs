//! Peers that die, by SIGKILL, in each state of a connection.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use causeway_sys::memory::Memory;
use causeway_sys::socket::{Accepted, RecordListener};
use causeway_wire::codec::Wire;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::shm::{Record, RefuseReason};

use super::*;
use crate::error::SendError;
use crate::method::{Access, Direction, Registration, Transfer};
use crate::shm::AttachPolicy;

const ROLE: &str = "CAUSEWAY_SHM_TEST_ROLE";
const ADDRESS: &str = "CAUSEWAY_SHM_TEST_ADDRESS";

/// A process of this test program that plays a role until it is killed.
pub(super) struct Victim(Child);

impl Victim {
    /// Starts it and waits until it reports that it has reached the wanted state.
    pub(super) fn start(role: &str, address: &Address) -> Self {
        Self::of(Self::command(role, address).spawn().unwrap())
    }

    pub(super) fn command(role: &str, address: &Address) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "shm::tests::death::victims_play_their_roles"])
            .arg("--nocapture")
            .env(ROLE, role)
            .env(ADDRESS, address.to_string())
            .stdout(Stdio::piped())
            .stdin(Stdio::null());
        command
    }

    /// A process started by this command.
    pub(super) fn of(child: Child) -> Self {
        let mut victim = Self(child);
        victim.wait_until_ready();
        victim
    }

    /// Waits until it reports once more that it is ready.
    pub(super) fn wait_until_ready(&mut self) {
        let mut said = Vec::new();
        let mut byte = [0];
        let out = self.0.stdout.as_mut().unwrap();
        while !said.ends_with(b"READY") {
            assert_eq!(out.read(&mut byte).unwrap(), 1, "it ended early");
            said.push(byte[0]);
        }
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ready() {
    use std::io::Write;
    print!("READY");
    std::io::stdout().flush().unwrap();
}

/// Starts another program that keeps the sockets of this one, and reports when it runs.
fn become_another_program(host: &mut Host) -> ! {
    use std::os::unix::process::CommandExt as _;
    for socket in host.shm.sockets() {
        rustix::io::fcntl_setfd(&*socket, rustix::io::FdFlags::empty()).unwrap();
    }
    let mut program = Command::new("sh");
    program.args(["-c", "printf READY; exec sleep 600"]);
    panic!("{}", program.exec());
}

fn config(role: &str) -> ShmConfig {
    ShmConfig {
        attach: if role.ends_with("-off") {
            AttachPolicy::Off
        } else {
            AttachPolicy::Auto
        },
        ..ShmConfig::default()
    }
}

/// The roles. Without one, as an ordinary test, it checks that every requested role exists.
#[test]
fn victims_play_their_roles() {
    let Ok(role) = std::env::var(ROLE) else {
        assert!(std::env::var(ADDRESS).is_err());
        return;
    };
    let address: Address = std::env::var(ADDRESS).unwrap().parse().unwrap();
    let mut host = Host::new(config(&role));
    if role == "mute" || role == "echo" {
        host.shm.listen(&address).unwrap();
        ready();
        if role == "mute" {
            std::thread::sleep(Duration::from_secs(600));
        }
        loop {
            host.until("a packet is there", |host| !host.log.packets.is_empty());
            let (peer, packet) = host.log.packets.pop_front().unwrap();
            host.shm.send(peer, &[&packet]).unwrap();
        }
    }
    let peer = host.shm.connect(Instant::now(), &address).unwrap();
    match role.trim_end_matches("-off") {
        "idle" => {
            host.shm.send(peer, &[b"here"]).unwrap();
            ready();
        }
        "full" => {
            host.shm.send(peer, &[b"here"]).unwrap();
            ready();
            host.until("the host knows us", |host| !host.log.packets.is_empty());
            for number in 0u32.. {
                if host
                    .shm
                    .send(peer, &[&number.to_le_bytes(), &[0; 500]])
                    .is_err()
                {
                    break;
                }
            }
            ready();
        }
        "owner" => {
            let memory = host.shm.allocate(32 << 20).unwrap();
            let region = host
                .shm
                .grant(peer, &memory, Registration::NONE, Access::ReadWrite)
                .unwrap();
            host.shm.send(peer, &[&region.to_bytes()]).unwrap();
            ready();
            loop {
                host.until("never", |_| false);
            }
        }
        "changeling" => {
            // Its memory stays mapped in the new program, which sees later writes there.
            let memory = host.shm.allocate(4096).unwrap();
            let region = host
                .shm
                .grant(peer, &memory, Registration::NONE, Access::ReadWrite)
                .unwrap();
            host.shm.send(peer, &[&region.to_bytes()]).unwrap();
            ready();
            host.until("the host says that it knows the region", |host| {
                !host.log.packets.is_empty()
            });
            become_another_program(&mut host);
        }
        "copier" => {
            host.shm.send(peer, &[b"here"]).unwrap();
            ready();
            host.until("a region is there", |host| !host.log.packets.is_empty());
            let (_, region) = host.log.packets.pop_front().unwrap();
            let region = RegionDescriptor::from_bytes(&region).unwrap();
            let local = Memory::from_vec(vec![0xEE; region.len as usize]);
            loop {
                let transfer = Transfer {
                    direction: Direction::Put,
                    local: vec![local.clone()].into(),
                    remote: vec![region].into(),
                    notify: Some(b"round".to_vec().into()),
                    registrations: Vec::new(),
                    token: 0,
                };
                host.shm.transfer(peer, transfer).unwrap();
                host.until("the transfer completes", |host| {
                    host.log.done.pop().is_some()
                });
            }
        }
        other => panic!("no role {other}"),
    }
    std::thread::sleep(Duration::from_secs(600));
}

fn is_broken(host: &Host, peer: Peer) -> bool {
    matches!(&host.log.down[..], [(down, PeerError::Broken(_))] if *down == peer)
}

#[test]
fn a_peer_killed_while_idle_is_reported() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let mut victim = Victim::start("idle", &address);
    host.until("the process's first packet arrives", |host| {
        !host.log.packets.is_empty()
    });
    let (peer, _) = host.log.packets.pop_front().unwrap();
    victim.kill();
    host.until("its end is seen", |host| !host.log.down.is_empty());
    assert!(is_broken(&host, peer));
    assert!(matches!(
        host.shm.send(peer, &[b"x"]),
        Err(SendError::Gone(_))
    ));
    host.shm.disconnect(Instant::now(), peer, &mut host.log);
    assert!(host.shm.report(peer).is_none());
}

#[test]
fn packets_of_a_killed_peer_are_delivered() {
    let (_folder, address) = place();
    let mut host = Host::listening(ShmConfig::default(), &address);
    let mut victim = Victim::start("full", &address);
    host.until("the process's first packet arrives", |host| {
        !host.log.packets.is_empty()
    });
    let (peer, _) = host.log.packets.pop_front().unwrap();
    host.shm.send(peer, &[b"go"]).unwrap();
    victim.wait_until_ready();
    victim.kill();
    host.until("its end is seen", |host| !host.log.down.is_empty());
    assert!(host.log.packets.len() > 40);
    for (number, (_, packet)) in host.log.packets.iter().enumerate() {
        assert_eq!(packet[..4], (number as u32).to_le_bytes());
    }
    assert!(is_broken(&host, peer));
}

#[test]
fn transfers_with_a_killed_owner_fail_and_end() {
    for role in ["owner", "owner-off"] {
        for delay in [0, 1, 5, 20] {
            let (_folder, address) = place();
            let mut host = Host::listening(config(role), &address);
            let mut victim = Victim::start(role, &address);
            host.until("the process's first packet arrives", |host| {
                !host.log.packets.is_empty()
            });
            let (peer, region) = host.log.packets.pop_front().unwrap();
            let region = RegionDescriptor::from_bytes(&region).unwrap();
            let local = Memory::zeroed(region.len as usize);
            for token in 0..20 {
                let transfer = Transfer {
                    direction: if token % 2 == 0 {
                        Direction::Get
                    } else {
                        Direction::Put
                    },
                    local: vec![local.clone()].into(),
                    remote: vec![region].into(),
                    registrations: Vec::new(),
                    notify: None,
                    token,
                };
                host.shm.transfer(peer, transfer).unwrap();
            }
            let kill_at = Instant::now() + Duration::from_millis(delay);
            while Instant::now() < kill_at {
                host.poll();
            }
            victim.kill();
            host.until("its end is seen", |host| !host.log.down.is_empty());
            assert!(is_broken(&host, peer));
            let tokens: Vec<Token> = host.log.done.iter().map(|(token, _)| *token).collect();
            assert_eq!(
                tokens,
                (0..20).collect::<Vec<_>>(),
                "each once, before the peer's end"
            );
            let last = &host.log.done[19].1;
            assert!(
                matches!(last, Err(TransferError::Peer(PeerError::Broken(_)))),
                "{last:?}"
            );
            assert_eq!(local.sharers(), 1);
        }
    }
}

#[test]
fn exports_to_a_killed_copier_end_at_once() {
    for role in ["copier", "copier-off"] {
        for delay in [0, 2, 9] {
            let (_folder, address) = place();
            let mut host = Host::listening(config(role), &address);
            let mut victim = Victim::start(role, &address);
            host.until("the process's first packet arrives", |host| {
                !host.log.packets.is_empty()
            });
            let (peer, _) = host.log.packets.pop_front().unwrap();
            let memory = Memory::zeroed(4 << 20);
            let region = host
                .shm
                .grant(peer, &memory, Registration::NONE, Access::Write)
                .unwrap();
            host.shm.send(peer, &[&region.to_bytes()]).unwrap();
            host.until("it copies", |host| !host.log.packets.is_empty());
            let kill_at = Instant::now() + Duration::from_millis(delay);
            while Instant::now() < kill_at {
                host.poll();
            }
            victim.kill();
            host.shm.revoke(peer, region.key);
            memory.clear();
            host.until("its end is seen", |host| !host.log.down.is_empty());
            assert!(is_broken(&host, peer));
            assert!(memory.to_vec().iter().all(|&byte| byte == 0));
            assert_eq!(memory.sharers(), 1);
        }
    }
}

#[test]
fn a_listener_killed_before_it_replies_is_reported() {
    let (_folder, address) = place();
    let mut victim = Victim::start("mute", &address);
    let mut host = Host::new(ShmConfig::default());
    let peer = host.shm.connect(Instant::now(), &address).unwrap();
    host.shm.send(peer, &[b"x"]).unwrap();
    host.poll();
    victim.kill();
    host.until("its end is seen", |host| !host.log.down.is_empty());
    assert!(is_broken(&host, peer));
}

/// Some of the refusals come, and the socket is closed, before the greeting can be sent.
#[test]
fn a_refusal_is_received_even_before_the_greeting_is_sent() {
    const CALLS: u32 = 300;
    let (_folder, address) = place();
    let path = std::path::PathBuf::from(address.rest());
    let mut listener = RecordListener::bind(&path).unwrap();
    let full = Record::Refused {
        reason: "full".into(),
        why: RefuseReason::Full,
    };
    let refuser = std::thread::spawn(move || {
        let mut refused = 0;
        while refused < CALLS {
            if let Ok(Accepted::Connection(socket)) = listener.accept(&[]) {
                // A caller that has disconnected already needs no reply.
                let _ = socket.send(&full.to_bytes(), &[]);
                refused += 1;
            }
        }
    });
    for _ in 0..CALLS {
        let mut host = Host::new(ShmConfig::default());
        let peer = host.shm.connect(Instant::now(), &address).unwrap();
        let _ = host.shm.send(peer, &[b"x"]);
        host.until("its end is seen", |host| !host.log.down.is_empty());
        assert_eq!(host.log.down, [(peer, PeerError::Full("full".into()))]);
    }
    refuser.join().unwrap();
}

#[test]
fn a_listener_that_does_not_reply_is_given_up_in_time() {
    let (_folder, address) = place();
    let _victim = Victim::start("mute", &address);
    let mut host = Host::new(ShmConfig {
        connect_timeout: Duration::from_millis(100),
        ..ShmConfig::default()
    });
    let peer = host.shm.connect(Instant::now(), &address).unwrap();
    host.shm.send(peer, &[b"x"]).unwrap();
    assert!(host.shm.deadline().is_some());
    host.until("it is given up", |host| !host.log.down.is_empty());
    assert_eq!(host.log.down, [(peer, PeerError::TimedOut(100))]);
    assert!(host.shm.deadline().is_none());
}

#[test]
fn a_restarted_peer_is_reached_through_the_same_handle() {
    let (_folder, address) = place();
    let mut host = Host::new(ShmConfig::default());
    let peer = host.shm.connect(Instant::now(), &address).unwrap();
    for round in 0..5u8 {
        let mut victim = Victim::start("echo", &address);
        host.shm.send(peer, &[&[round]]).unwrap();
        host.until("the echo is there", |host| !host.log.packets.is_empty());
        assert_eq!(host.log.packets.pop_front(), Some((peer, vec![round])));
        victim.kill();
        host.until("its end is seen", |host| !host.log.down.is_empty());
        assert!(is_broken(&host, peer));
        host.log.down.clear();
    }
}
