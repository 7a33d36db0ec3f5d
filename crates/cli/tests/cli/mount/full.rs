//! Servers whose disk is full, met through a mount. The disk is a small one in memory, mounted in a mount namespace of
//! the test's own.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::io::Errno;

use super::{Mounted, can_mount, enter_namespace, shell};
use crate::stand::{Stand, until};

/// Servers with a disk of 96 MiB that all of them share, in a mount namespace of the test's own. `None` where the test is over: in the
/// process without one, or if it cannot be made.
fn small_disk(test: &str, directory: &Path) -> Option<Stand> {
    if !can_mount() {
        return None;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("A FULL DISK BEHIND A MOUNT IS NOT TESTED: that needs root");
        return None;
    }
    if !enter_namespace(test) {
        return None;
    }
    shell(directory, "mkdir dev; mount -t tmpfs -o size=96m none dev");
    Some(Stand::with(&[
        "--dir",
        directory.join("dev").to_str().unwrap(),
    ]))
}

#[test]
fn a_full_disk_is_an_error_of_the_write_that_it_stops() {
    let test = "mount::full::a_full_disk_is_an_error_of_the_write_that_it_stops";
    let directory = tempfile::tempdir().unwrap();
    let Some(stand) = small_disk(test, directory.path()) else {
        return;
    };
    let mounted = Mounted::new(&stand);
    let kept = vec![3; 300_000];
    std::fs::write(mounted.at("kept"), &kept).unwrap();
    for _ in 0..2 {
        let mut file = File::create(mounted.at("filler")).unwrap();
        let mut written = 0;
        let error = loop {
            match file.write(&[7; 1 << 20]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC));
        drop(file);
        let content = std::fs::read(mounted.at("filler")).unwrap();
        assert!(written > 1 << 20 && content.len() >= written);
        assert!(content[..written].iter().all(|byte| *byte == 7));
        assert!(std::fs::read(mounted.at("kept")).unwrap() == kept);
        // The same amount fits again once the servers have removed the data.
        std::fs::remove_file(mounted.at("filler")).unwrap();
        until("there is room", || {
            std::fs::write(mounted.at("other"), vec![1; 8 << 20]).is_ok()
        });
    }
}

/// Each kind of writing says so when the disk is full, before or when the program closes or syncs; what was stored before stays.
#[test]
fn no_way_of_writing_loses_bytes_on_a_full_disk() {
    let test = "mount::full::no_way_of_writing_loses_bytes_on_a_full_disk";
    let directory = tempfile::tempdir().unwrap();
    let Some(stand) = small_disk(test, directory.path()) else {
        return;
    };
    let (mounted, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(mounted.at("kept"), vec![3; 300_000]).unwrap();
    let program = r#"
import errno, mmap, os, subprocess, threading, time
def refused(act):
    try:
        act()
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
        return True
    return False
def append():
    with open("appended", "ab", buffering=0) as file:
        while file.write(b"a" * 1000000): pass
def reserve():
    with open("reserved", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 1 << 30)
def copy():
    for number in range(100):
        with open("kept", "rb") as source, open(f"copy{number}", "wb") as target:
            target.write(source.read() * 4)
def fill(name):
    def act():
        with open(name, "wb", buffering=0) as file:
            while file.write(name[0].encode() * 1000000): pass
    return act
def mapped():
    # Memory is written without room: the error is that of the call that stores the pages.
    with open("mapped", "w+b") as file:
        file.truncate(200 << 20)
        memory = mmap.mmap(file.fileno(), 200 << 20)
        for at in range(0, 200 << 20, 4096):
            memory[at:at + 8] = b"a mapped"[:8]
        memory.flush()
        os.fsync(file.fileno())
def clean():
    # What was removed takes room until the servers have removed it, too.
    for name in os.listdir("."):
        if name != "kept": os.remove(name)
    until = time.monotonic() + 120
    def room():
        with open("room", "wb") as file: file.write(bytes(32 << 20))
    while refused(room):
        assert time.monotonic() < until, "there is no room"
    os.remove("room")
for act in append, reserve, copy, mapped:
    clean()
    assert refused(act), act.__name__
    assert open("kept", "rb").read() == b"" * 300000, act.__name__
clean()
# Two writers at one moment, both of which are stopped.
results = []
writers = [threading.Thread(target=lambda name=name: results.append(refused(fill(name)))) for name in ("one", "two")]
for writer in writers: writer.start()
for writer in writers: writer.join()
assert results == [True, True], results
for name in "one", "two":
    content = open(name, "rb").read()
    assert content == name[0].encode() * len(content), name
clean()
# `cp` tells it by its status.
assert subprocess.run(["cp", "/dev/zero", "large"], stderr=subprocess.DEVNULL).returncode == 1
assert os.path.getsize("large") > 1 << 20
clean()
"#;
    shell(
        mounted.path(),
        &format!("exec python3 - <<'END'\n{program}\nEND"),
    );
    assert!(std::fs::read(other.at("kept")).unwrap() == vec![3; 300_000]);
    until("there is room", || {
        std::fs::write(mounted.at("after"), vec![1; 8 << 20]).is_ok()
    });
    // Small files, until the servers have no room for names or content.
    let made = shell(
        mounted.path(),
        "set +e; mkdir many; n=0; while head -c 60000 /dev/zero >many/$n 2>/dev/null; do n=$((n + 1)); done; echo $n",
    );
    let made: usize = made.trim().parse().unwrap();
    assert!(made > 100, "{made}");
    for number in 0..made {
        let content = std::fs::read(other.at(&format!("many/{number}"))).unwrap();
        assert!(content == vec![0; 60_000], "{number}");
    }
}
