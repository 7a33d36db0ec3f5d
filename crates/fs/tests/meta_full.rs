//! A metadata disk that is full recovers by removing, without a restart and with one, again and again.
//!
//! The disk is a small one in memory, mounted in a mount namespace of this test's own, so that nothing is
//! left behind however it ends.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use causeway_fs::config::Durability;
use causeway_fs::meta::{Service, Settings};
use causeway_wire::fs::{Errno, Operation, Request};

mod meta_support;
use meta_support::{dump, findings, list, place, request, time};

const CHILD: &str = "CAUSEWAY_META_FULL_CHILD";
const DISK_MIB: u64 = 64;
/// How often the disk is filled and emptied, unless the environment says otherwise (`make many`).
const ROUNDS: usize = 3;
const ROUNDS_VARIABLE: &str = "CAUSEWAY_FULL_DISK_ROUNDS";
/// Files of one batch, and bytes of each.
const BATCH: usize = 64;
const FILE_BYTES: usize = 3000;
/// Giving space back takes as long as it takes; this is only so that a defect ends the test.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_full_disk_recovers_by_removing() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let status = command
        .arg(program)
        .args(["--exact", "a_full_disk_recovers_by_removing", "--nocapture"])
        .env(CHILD, directory.path())
        .status()
        .expect("util-linux's unshare runs");
    assert!(status.success(), "in a mount namespace: {status}");
}

fn child(directory: &Path) {
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o"])
        .arg(format!("size={DISK_MIB}m"))
        .arg("none")
        .arg(directory)
        .status()
        .expect("mount runs");
    assert!(mounted.success());
    let settings = || Settings {
        durability: Durability::Relaxed,
        ..Settings::default()
    };
    let mut service = Service::open(directory, settings()).expect("opens");
    let rounds = std::env::var(ROUNDS_VARIABLE)
        .map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let mut first = 0;
    for round in 0..rounds {
        let made = fill(&mut service, round);
        println!(
            "round {round}: {made} files, {} KiB used",
            used(directory) >> 10
        );
        first = first.max(made);
        assert!(
            made * 2 > first && made > 500,
            "round {round}: {made} files only, {first} before"
        );
        if round % 2 == 1 {
            drop(service);
            service = Service::open(directory, settings()).expect("opens a full disk");
        }
        empty(&mut service);
        if round % 3 == 2 {
            drop(service);
            service = Service::open(directory, settings()).expect("opens");
        }
        assert_eq!(findings(&service), [""; 0], "round {round}");
        await_room(&mut service, directory);
        assert_eq!(dump(&service).len(), 1, "only the root is left");
    }
}

fn create(name: &str) -> Request {
    request(Operation::Create {
        place: place(name),
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: vec![7; FILE_BYTES],
    })
}

/// Makes files until that is refused; how many.
fn fill(service: &mut Service, round: usize) -> usize {
    let mut made = 0;
    loop {
        let requests: Vec<Request> = (made..made + BATCH)
            .map(|number| create(&format!("f{round}-{number}")))
            .collect();
        let replies = service.apply(&requests, time(1_800_000_000));
        made += replies.iter().filter(|reply| reply.result.is_ok()).count();
        let mut refusals = replies.into_iter().filter_map(|reply| reply.result.err());
        if let Some(failure) = refusals.next_back() {
            assert_eq!(failure.errno, Errno::ENOSPC, "{}", failure.message);
            assert!(failure.message.contains("reserve"), "{}", failure.message);
            return made;
        }
    }
}

/// Removes everything: never refused.
fn empty(service: &mut Service) {
    let entries = list(service, causeway_wire::fs::ObjectId::ROOT);
    for names in entries.chunks(BATCH) {
        let requests: Vec<Request> = names
            .iter()
            .map(|entry| {
                let name = String::from_utf8_lossy(&entry.name);
                request(Operation::Unlink {
                    place: place(&name),
                    expected: None,
                })
            })
            .collect();
        for reply in service.apply(&requests, time(1_800_000_000)) {
            assert!(reply.result.is_ok(), "a removal is refused: {reply:?}");
        }
    }
}

/// Waits until things can be made again and space has come back, while requests go on coming.
fn await_room(service: &mut Service, directory: &Path) {
    let begun = Instant::now();
    loop {
        let reply = service.apply(&[create("probe")], time(1_800_000_000)).pop();
        let made = reply.is_some_and(|reply| reply.result.is_ok());
        empty(service);
        if made && used(directory) < (DISK_MIB << 20) / 3 {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{} bytes stay in use though all was removed",
            used(directory)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn used(directory: &Path) -> u64 {
    let disk = rustix::fs::statvfs(directory).expect("a mounted disk");
    (disk.f_blocks - disk.f_bfree) * disk.f_frsize
}
