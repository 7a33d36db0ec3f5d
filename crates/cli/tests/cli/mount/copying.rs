//! Programs on mounts that copy parts of files, which the servers do by themselves.

use std::process::Command;

use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

const STEPS: &str = include_str!("copying_steps.py");

fn run(step: &str, arguments: &[&str]) {
    let status = Command::new("timeout")
        .args(["300", "python3", "-c", STEPS, step])
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success(), "see its error above");
}

#[test]
fn copies_are_seen_at_once_by_calls_in_mapped_pages_and_on_another_mount() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounts = [
        Mounted::new(&stand),
        Mounted::with(&stand, &stand.config, &["--threads", "1"]),
    ];
    let [one, other] = [&mounts[0], &mounts[1]].map(|mounted| mounted.path().to_str().unwrap());
    run("compare", &[one, other, "1", "150"]);
    run("compare", &[other, one, "2", "150"]);
    run("ends", &[one]);
}

/// How many bytes a process has read by system calls.
fn bytes_read(pid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn programs_that_copy_whole_files_send_no_data_through_the_mount() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let (at, pid) = (mounted.path(), mounted.pid());
    shell(at, "head -c 40000000 /dev/urandom > from; sync from");
    let before = bytes_read(pid);
    shell(
        at,
        "python3 -c '
import os
source, target = os.open(\"from\", os.O_RDONLY), os.open(\"to\", os.O_CREAT | os.O_WRONLY)
while os.copy_file_range(source, target, 1 << 30): pass
'",
    );
    let read = bytes_read(pid) - before;
    assert!(read < 1 << 20, "the mount was sent {read} bytes");
    shell(at, "cmp from to; cp from again; cmp from again");
    // By the command line, the copy lies as the file does.
    stand.fs(&["cp", "/from", "/copied"]).ok();
    shell(at, "cmp from copied; chmod 4755 to; stat -c %a to");
}

/// A user's copy takes the bits from a program that it changes.
#[test]
fn a_changed_program_loses_its_set_user_id_bit() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::with(&stand, &stand.config, &["-o", "allow_other"]);
    let at = mounted.path();
    shell(
        at,
        "chmod 777 .; head -c 100000 /dev/urandom > from; head -c 100 from > to; chmod 4777 to; chmod 644 from",
    );
    let copies = "python3 -c '
import os
os.setuid(65534)
source, target = os.open(\"from\", os.O_RDONLY), os.open(\"to\", os.O_WRONLY)
while os.copy_file_range(source, target, 1 << 30): pass
'";
    shell(at, copies);
    assert_eq!(shell(at, "stat -c %a to; cmp from to").trim(), "777");
}
