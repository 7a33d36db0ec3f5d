//! A metadata disk that is full recovers by removing, without a restart and with one, again and again.
//!
//! The disk is a small one in memory, mounted in a mount namespace of this test's own, so that nothing is
//! left behind however it ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use causeway_fs::config::Durability;
use causeway_fs::meta::{Service, Settings};
use causeway_wire::fs::{Errno, Operation, Request};

mod meta_support;
use meta_support::{dump, findings, list, place, request, time};

const CHILD: &str = "CAUSEWAY_META_FULL_CHILD";
/// Sizes of the disks: the smallest that metadata are made on, and a larger one.
const DISKS_MIB: [u64; 2] = [16, 64];
/// Other sizes, for figures.
const DISKS_VARIABLE: &str = "CAUSEWAY_FULL_DISK_MIB";
/// How often a disk is filled and emptied, unless the environment says otherwise (`make many`).
const ROUNDS: usize = 3;
const ROUNDS_VARIABLE: &str = "CAUSEWAY_FULL_DISK_ROUNDS";
/// Files of one batch, and bytes of each.
const BATCH: usize = 64;
const FILE_BYTES: usize = 3000;
/// Freeing space in the background has no time limit; this one only lets a defect end the
/// test.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_full_disk_recovers_by_removing() {
    in_a_namespace("a_full_disk_recovers_by_removing", |directory| {
        let sizes = match std::env::var(DISKS_VARIABLE) {
            Ok(sizes) => sizes
                .split(',')
                .map(|size| size.parse().expect("a size in MiB"))
                .collect(),
            Err(_) => DISKS_MIB.to_vec(),
        };
        for mib in sizes {
            let disk = directory.join(format!("{mib}"));
            mount(&disk, mib);
            fill_and_empty(&disk, mib);
        }
    });
}

#[test]
fn a_disk_that_is_too_small_is_refused_with_the_size_that_is_needed() {
    let name = "a_disk_that_is_too_small_is_refused_with_the_size_that_is_needed";
    in_a_namespace(name, |directory| {
        let (small, occupied) = (directory.join("small"), directory.join("occupied"));
        mount(&small, 15);
        mount(&occupied, 64);
        let others = std::fs::File::create(occupied.join("others")).expect("a file");
        rustix::fs::fallocate(
            &others,
            rustix::fs::FallocateFlags::empty(),
            0,
            free(&occupied) - (1 << 20),
        )
        .expect("space of others");
        for (disk, why) in [(&small, "at least 16 MiB"), (&occupied, "1 MiB free")] {
            let refused = Service::open(disk, Settings::default());
            let failure = refused.err().expect("is refused");
            assert_eq!(failure.errno, Errno::ENOSPC);
            assert!(failure.message.contains(why), "{}", failure.message);
            assert!(
                failure.message.contains("another disk"),
                "{}",
                failure.message
            );
        }
    });
}

#[test]
fn a_store_opens_on_a_disk_that_others_have_filled() {
    in_a_namespace(
        "a_store_opens_on_a_disk_that_others_have_filled",
        |directory| {
            let disk = directory.join("disk");
            mount(&disk, 64);
            let open = || Service::open(&disk, Settings::default()).expect("opens");
            let mut service = open();
            let made = service.apply(&[create("kept")], time(1_800_000_000));
            assert!(made.iter().all(|reply| reply.result.is_ok()));
            drop(service);
            // A change was cut off for lack of room: opening puts it aside, and begins a new journal.
            let journal = journals(&disk).pop().expect("a journal");
            let mut bytes = std::fs::read(&journal).expect("the journal can be read");
            let end = bytes.iter().rposition(|byte| *byte != 0).expect("changes");
            bytes.truncate(end + 1);
            bytes.extend_from_within(..20);
            std::fs::write(&journal, bytes).expect("room for some bytes");
            let others = std::fs::File::create(disk.join("others")).expect("a file");
            let all = free(&disk);
            rustix::fs::fallocate(&others, rustix::fs::FallocateFlags::empty(), 0, all)
                .expect("all that is free");
            assert_eq!(free(&disk), 0);
            let mut service = open();
            empty(&mut service);
            assert_eq!(list(&service, causeway_wire::fs::ObjectId::ROOT).len(), 0);
        },
    );
}

/// The journals of a store, the newest last.
fn journals(disk: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(disk).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut journals: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "jnl"))
        .collect();
    journals.sort();
    journals
}

/// Runs a test as a process of its own with a mount namespace and a directory of its own.
fn in_a_namespace(name: &str, test: impl FnOnce(&Path)) {
    if let Some(directory) = std::env::var_os(CHILD) {
        return test(Path::new(&directory));
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
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, directory.path())
        .status()
        .expect("util-linux's unshare runs");
    assert!(status.success(), "in a mount namespace: {status}");
}

/// Mounts a disk in memory.
fn mount(disk: &Path, mib: u64) {
    std::fs::create_dir(disk).expect("a directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o"])
        .arg(format!("size={mib}m"))
        .arg("none")
        .arg(disk)
        .status()
        .expect("mount runs");
    assert!(mounted.success());
}

fn fill_and_empty(disk: &Path, mib: u64) {
    let settings = || Settings {
        durability: Durability::Relaxed,
        ..Settings::default()
    };
    let mut service = Service::open(disk, settings()).expect("opens");
    let rounds = std::env::var(ROUNDS_VARIABLE)
        .map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"));
    let mut first = 0;
    for round in 0..rounds {
        let least = Least::watch(disk);
        let begun = Instant::now();
        let made = fill(&mut service, &format!("f{round}"));
        let (filled, least_filling) = (begun.elapsed(), least.end());
        let full = used(disk);
        first = first.max(made);
        assert!(
            made * 4 > first * 3 && made > 500,
            "{mib} MiB, round {round}: {made} files only, {first} before"
        );
        let refilled = refill(&mut service, round, made / 8);
        assert!(
            refilled * 2 > made / 8,
            "{mib} MiB, round {round}: {refilled} files for {} that were removed",
            made / 8
        );
        if round % 2 == 1 {
            drop(service);
            service = Service::open(disk, settings()).expect("opens a full disk");
        }
        let least = Least::watch(disk);
        let begun = Instant::now();
        empty(&mut service);
        let least = least.end();
        println!(
            "{mib} MiB, round {round}: {made} files in {filled:?}, {} KiB used, at least {} KiB free; removed in {:?}, \
             at least {} KiB free",
            full >> 10,
            least_filling >> 10,
            begun.elapsed(),
            least >> 10
        );
        if round % 3 == 2 {
            drop(service);
            service = Service::open(disk, settings()).expect("opens");
        }
        assert_eq!(findings(&service), [""; 0], "round {round}");
        assert_eq!(dump(&service).len(), 1, "only the root is left");
    }
    await_room(disk, mib << 20);
}

/// Watches for the moment of the least free space.
struct Least {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Least {
    fn watch(disk: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, disk) = (Arc::clone(&stop), disk.to_owned());
        let thread = std::thread::spawn(move || {
            let mut least = u64::MAX;
            while !stopped.load(Ordering::Relaxed) {
                least = least.min(free(&disk));
                std::thread::sleep(Duration::from_micros(300));
            }
            least
        });
        Self { stop, thread }
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watcher ends")
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

/// Removes some files of a full disk, and makes others until that is refused again; how many.
fn refill(service: &mut Service, round: usize, count: usize) -> usize {
    let names: Vec<String> = (0..count)
        .map(|number| format!("f{round}-{number}"))
        .collect();
    remove(service, &names);
    fill(service, &format!("g{round}"))
}

/// Makes files until that is refused; how many.
fn fill(service: &mut Service, prefix: &str) -> usize {
    let mut made = 0;
    loop {
        let requests: Vec<Request> = (made..made + BATCH)
            .map(|number| create(&format!("{prefix}-{number}")))
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

/// Removes everything.
fn empty(service: &mut Service) {
    let entries = list(service, causeway_wire::fs::ObjectId::ROOT);
    let names: Vec<String> = entries
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .collect();
    remove(service, &names);
}

/// Removes files: never refused.
fn remove(service: &mut Service, names: &[String]) {
    for names in names.chunks(BATCH) {
        let requests: Vec<Request> = names
            .iter()
            .map(|name| {
                request(Operation::Unlink {
                    place: place(name),
                    expected: None,
                })
            })
            .collect();
        for reply in service.apply(&requests, time(1_800_000_000)) {
            assert!(reply.result.is_ok(), "a removal is refused: {reply:?}");
        }
    }
}

/// Waits until space has come back on the disk itself.
fn await_room(disk: &Path, bytes: u64) {
    let begun = Instant::now();
    while used(disk) > bytes / 3 {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} bytes stay in use though all was removed",
            used(disk)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn used(disk: &Path) -> u64 {
    let disk = rustix::fs::statvfs(disk).expect("a mounted disk");
    (disk.f_blocks - disk.f_bfree) * disk.f_frsize
}

fn free(disk: &Path) -> u64 {
    let disk = rustix::fs::statvfs(disk).expect("a mounted disk");
    disk.f_bavail * disk.f_frsize
}
