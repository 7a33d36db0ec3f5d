//! Programs that open a file only to write, whose bytes go past the kernel's cache, beside others that read, map, append to and lock it.

use std::os::linux::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Mounted, can_mount};
use crate::stand::{Stand, send};

const STEPS: &str = include_str!("uncached_steps.py");
/// How long a program may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn program(step: &str, path: &Path, numbers: &[usize]) -> Child {
    Command::new("python3")
        .args(["-c", STEPS, step])
        .arg(path)
        .args(numbers.iter().map(usize::to_string))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits until programs have ended, which must succeed. A request that is never replied to would keep a program, and whoever waits for it, for
/// good: so the mount is killed then, which ends all requests.
fn succeed(mounted: &Mounted, programs: impl IntoIterator<Item = Child>) {
    let deadline = Instant::now() + PATIENCE;
    for mut program in programs {
        let status = loop {
            if let Some(status) = program.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                send(mounted.pid(), Signal::KILL);
                program.kill().unwrap();
                panic!("a program on the mount has not ended after {PATIENCE:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "see its error above");
    }
}

/// One thread serves the mount: if it waited for what the kernel asks the mount meanwhile, that would never come.
fn mounts(stand: &Stand) -> [Mounted; 2] {
    let one_thread = Mounted::with(stand, &stand.config, &["--threads", "1"]);
    [Mounted::new(stand), one_thread]
}

#[test]
fn readers_see_what_was_written_past_the_cache_when_the_write_returns() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    for (number, mounted) in mounts(&stand).iter().enumerate() {
        let path = mounted.at(&format!("file-{number}"));
        succeed(mounted, [program("compare", &path, &[number, 300])]);
    }
}

#[test]
fn readers_beside_a_writer_see_what_it_has_written() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    for (number, mounted) in mounts(&stand).iter().enumerate() {
        let path = mounted.at(&format!("file-{number}"));
        succeed(mounted, [program("beside", &path, &[300])]);
    }
}

#[test]
fn bytes_that_are_written_and_bytes_of_mapped_pages_are_all_kept() {
    if !can_mount() {
        return;
    }
    const ROUNDS: usize = 200;
    let stand = Stand::new();
    for (number, mounted) in mounts(&stand).iter().enumerate() {
        let files = (0..2).map(|file| mounted.at(&format!("file-{number}-{file}")));
        let programs: Vec<_> = files
            .map(|path| program("slots", &path, &[ROUNDS]))
            .collect();
        succeed(mounted, programs);
    }
}

#[test]
fn appending_and_locking_do_not_wait_for_mapped_pages_that_wait_for_them() {
    if !can_mount() {
        return;
    }
    const PROGRAMS: usize = 3;
    const ROUNDS: usize = 100;
    let stand = Stand::new();
    for (number, mounted) in mounts(&stand).iter().enumerate() {
        let path = mounted.at(&format!("file-{number}"));
        std::fs::write(&path, [0; 4096]).unwrap();
        let programs = (1..=PROGRAMS).map(|number| program("appends", &path, &[number, ROUNDS]));
        succeed(mounted, programs.collect::<Vec<_>>());
        let content = std::fs::read(&path).unwrap();
        let (head, records) = content.split_at(4096);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let mut counts = [0; PROGRAMS + 1];
        assert_eq!(records.len() % 256, 0);
        for record in records.chunks(256) {
            let number = word(&record[..8]);
            assert!(record.chunks(8).all(|bytes| word(bytes) == number));
            counts[number as usize] += 1;
        }
        assert_eq!(counts, [0, ROUNDS, ROUNDS, ROUNDS]);
        for number in 1..=PROGRAMS {
            assert_eq!(word(&head[number * 8..][..8]), ROUNDS as u64);
        }
    }
}

#[test]
fn the_kernel_reads_ahead_in_large_requests_on_mounts_of_root() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let device = std::fs::metadata(mounted.path()).unwrap().st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "2048");
}

#[test]
fn the_kernel_permits_one_request_for_1_mib_wherever_a_programs_memory_begins_on_mounts_of_root() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let limit = Path::new("/proc/sys/fs/fuse/max_pages_limit");
    // Before Linux 6.13 there is no such limit, and in containers it may not be changed.
    if std::fs::OpenOptions::new().write(true).open(limit).is_err() {
        return;
    }
    let stand = Stand::new();
    let _mounted = Mounted::new(&stand);
    let pages = std::fs::read_to_string(limit).unwrap();
    assert!(pages.trim().parse::<u32>().unwrap() >= 257, "{pages}");
}
