//! Several users on one mount of root's.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::{Mounted, can_mount, enter_namespace, shell};
use crate::stand::{Run, Stand, send, until};

/// Runs a script as a user with supplementary groups. Returns whether it succeeded.
fn may(mounted: &Mounted, user: u32, groups: &str, script: &str) -> bool {
    let status = Command::new("setpriv")
        .args([&format!("--reuid={user}"), &format!("--regid={user}")])
        .arg(format!("--groups={groups}"))
        .args(["sh", "-ec", script])
        .current_dir(mounted.path())
        .stderr(std::process::Stdio::null())
        .status()
        .expect("util-linux's setpriv runs");
    status.success()
}

/// A program that would run as root elsewhere does not on a mount, also on one of root's: those who can pose as servers, or act for everybody, would be
/// root of each node otherwise.
#[test]
fn set_user_id_bits_and_devices_have_no_effect_on_mounts() {
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SET-USER-ID BITS ARE NOT TESTED: that needs root");
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::with(&stand, &stand.config, &["-o", "allow_other"]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(mounted.path(), open).unwrap();
    shell(
        mounted.path(),
        "cp /usr/bin/id id; chmod 4755 id; test -u id; mknod null c 1 3; chmod 666 null",
    );
    assert!(may(&mounted, 1001, "1001", "test $(./id -u) = 1001"));
    assert!(may(&mounted, 1001, "1001", "! echo x >null"));
}

#[test]
fn users_have_their_own_files_and_no_others() {
    if !can_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("SEVERAL USERS ON A MOUNT ARE NOT TESTED: that needs root");
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::with(&stand, &stand.config, &["-o", "allow_other"]);
    std::fs::set_permissions(
        mounted.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    shell(
        mounted.path(),
        "mkdir -m 1777 shared; mkdir -m 2770 team; chgrp 3003 team; mkdir -m 700 private; echo x >private/x",
    );
    assert!(may(
        &mounted,
        1001,
        "1001",
        "cd shared; umask 022; echo mine >one; mkdir -m 700 own; test $(stat -c %u:%g one) = 1001:1001"
    ));
    assert!(may(
        &mounted,
        1002,
        "1002",
        "cat shared/one; echo two >shared/two"
    ));
    for refused in [
        "echo more >>shared/one",
        "rm -f shared/one",
        "mv shared/one shared/three",
        "ls shared/own",
        "cat private/x",
        "chmod 777 shared/one",
        "chown 1002 shared/one",
        "touch -d 2020-01-01 shared/one",
        "echo x >team/x",
        "echo x >x",
    ] {
        assert!(!may(&mounted, 1002, "1002", refused), "{refused}");
    }
    // New files in the team's directory get its group; one user is a member by a supplementary group only.
    let team = "cd team; umask 007; echo x >x; mkdir below; test $(stat -c %g x) = 3003; test $(stat -c %a below) = 2770";
    assert!(may(&mounted, 1002, "1002,3003", team));
    assert!(may(
        &mounted,
        1001,
        "3003",
        "cd team; echo more >>x; mv x below/y; rm below/y"
    ));
    // A user who truncates a program of another one takes its set-user-id bit away; a member of the group keeps its set-group-id bit.
    shell(
        mounted.path(),
        "echo x >shared/runs; chmod 6777 shared/runs",
    );
    let truncated = ": >shared/runs; test $(stat -c %a shared/runs) = 777";
    assert!(may(&mounted, 1002, "1002", truncated));
    let made = "umask 0; python3 -c 'import os; os.open(\"team/runs\", os.O_CREAT | os.O_WRONLY, 0o2775)'; test $(stat -c %a team/runs) = 2775";
    assert!(may(&mounted, 1002, "1002,3003", made));
    // A file that was opened before permission was withdrawn stays open.
    assert!(may(
        &mounted,
        1001,
        "1001",
        "umask 077; exec 3>shared/three; chmod 0 shared/three; echo x >&3"
    ));
    assert!(may(
        &mounted,
        1001,
        "1001",
        "cd shared; echo x >program; chmod 6755 program; echo y >>program; test $(stat -c %a program) = 755
         chmod 6755 program; truncate -s 1 program; test $(stat -c %a program) = 755
         chmod 6755 program; fallocate -l 9 program; test $(stat -c %a program) = 755
         chmod 6755 program; dd if=/dev/zero of=program bs=9 count=1 conv=notrunc status=none
         test $(stat -c %a program) = 755
         chmod 6755 program; chown 1001:1001 program; test $(stat -c %a program) = 755
         exec 3>>program; chmod 6755 program; echo z >&3; test $(stat -c %a program) = 755"
    ));
}

/// Set-id bits that a write clears are cleared before the data are written, so that no failure leaves new content with them.
#[test]
fn a_write_that_cannot_take_privileges_away_changes_nothing() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::with(&stand, &stand.impatient(), &["-o", "allow_other"]);
    // Large enough to lie on the I/O servers; after a first write the next one needs no request to the metadata server.
    shell(
        mounted.path(),
        "chmod 755 .; mkdir -m 1777 shared; head -c 1M /dev/zero >shared/program; chown 1001:1001 shared/program",
    );
    // A file open for appending bypasses the kernel's cache, so that the kernel sends no other request before it writes.
    let writes = "import fcntl, os, sys; file = os.open('program', os.O_WRONLY | os.O_APPEND)
fcntl.fcntl(file, fcntl.F_SETFL, 0); os.pwrite(file, bytes(1), 0); os.chmod('program', 0o6755)
print('ready', flush=True); sys.stdin.readline(); os.pwrite(file, b'new', 0)";
    let mut writer = Command::new("setpriv")
        .args(["--reuid=1001", "--regid=1001", "--clear-groups", "sh", "-c"])
        .args(["exec python3 -c \"$1\"", "sh", writes])
        .current_dir(mounted.at("shared"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux's setpriv runs");
    let mut said = String::new();
    let mut from = BufReader::new(writer.stdout.take().unwrap());
    from.read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let program = mounted.at("shared/program");
    assert_eq!(program.metadata().unwrap().mode() & 0o7777, 0o6755);
    send(stand.pids[0], Signal::STOP);
    writer.stdin.take().unwrap().write_all(b"\n").unwrap();
    let ended = writer.wait().unwrap();
    send(stand.pids[0], Signal::CONT);
    assert!(!ended.success());
    // The server is reached again.
    let mut content = Vec::new();
    until("the content is read", || {
        std::fs::read(&program).is_ok_and(|read| {
            content = read;
            true
        })
    });
    assert!(content == vec![0; 1 << 20]);
}

#[test]
fn other_users_are_kept_out_unless_admitted() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    assert!(!may(&mounted, 1001, "1001", "ls"));
}

/// A user who mounts with fusermount3, in a directory that is theirs.
#[test]
fn a_normal_user_mounts_their_own_file_system() {
    let has_helper = super::program_exists("fusermount3");
    if !can_mount() || !rustix::process::geteuid().is_root() || !has_helper {
        return;
    }
    if !enter_namespace("mount::users::a_normal_user_mounts_their_own_file_system") {
        return;
    }
    const NOBODY: u32 = 65_534;
    // Every user may open the device there, as on most hosts.
    let node = tempfile::tempdir().unwrap();
    shell(
        node.path(),
        "mount -t tmpfs -o dev none .; mknod -m 666 fuse c 10 229; chmod 666 fuse; mount --bind fuse /dev/fuse",
    );
    let stand = Stand::of_user(Some(NOBODY), &[]);
    let directory = stand.directory.path().join("mounted");
    std::fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    let path = directory.to_str().unwrap();
    stand.fs(&["mount", path]).user(Some(NOBODY)).ok();
    let said = Command::new("sh")
        .args([
            "-ec",
            "echo mine >file; cat file; exec 3<file; rm file; cat <&3; stat -c %u .",
        ])
        .current_dir("/")
        .env("PWD", path)
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir(&directory)
        .output();
    stand.fs(&["umount", path]).user(Some(NOBODY)).ok();
    let said = said.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "mine\nmine\n65534\n",
        "{said:?}"
    );
    Run::new(stand.directory.path(), &["fs", "umount", path]).fails(1);
}
