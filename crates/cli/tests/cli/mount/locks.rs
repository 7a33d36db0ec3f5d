//! Locks of ranges between programs on two mounts: they exclude each other, and end with their programs and mounts.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::{Mounted, can_mount, shell};
use crate::stand::{Stand, runs, send, until};

pub(super) fn open(path: &Path) -> File {
    File::options().read(true).write(true).open(path).unwrap()
}

/// A program that locks the file, prints that, and holds the lock until its input ends.
fn locker(path: &Path) -> Child {
    let program = "import fcntl, sys
f = open(sys.argv[1], 'r+b', buffering=0)
print('asks', flush=True)
fcntl.lockf(f, fcntl.LOCK_EX)
print('has it', flush=True)
sys.stdin.read()";
    Command::new("python3")
        .args(["-c", program])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until the program has printed this.
pub(super) fn expect(child: &mut Child, text: &str) {
    let mut said = vec![0; text.len()];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut said)
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&said), text);
}

#[test]
fn locks_exclude_programs_on_other_mounts_until_the_file_is_closed_or_the_mount_dies() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (mut one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "0").unwrap();
    let (first, second) = (open(&one.at("file")), open(&other.at("file")));
    let try_second = || fcntl_lock(&second, FlockOperation::NonBlockingLockExclusive);
    fcntl_lock(&first, FlockOperation::LockShared).unwrap();
    fcntl_lock(&second, FlockOperation::NonBlockingLockShared).unwrap();
    assert_eq!(try_second(), Err(Errno::AGAIN));
    // Closing any handle of the file releases the program's locks.
    drop(open(&one.at("file")));
    try_second().unwrap();
    // Data that were read before the lock was taken are read again.
    let read = "import fcntl, os, sys
f = os.open(sys.argv[1], os.O_RDWR)
assert os.pread(f, 9, 0) == b'0'
print('has read', flush=True)
fcntl.lockf(f, fcntl.LOCK_EX)
print(os.pread(f, 9, 0), flush=True)";
    let mut reader = Command::new("python3")
        .args(["-c", read])
        .arg(one.at("file"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    expect(&mut reader, "has read\n");
    rustix::io::pwrite(&second, b"1", 0).unwrap();
    fcntl_lock(&second, FlockOperation::Unlock).unwrap();
    expect(&mut reader, "b'1'\n");
    assert!(reader.wait().unwrap().success());
    // Its mount dies.
    let mut holder = locker(&one.at("file"));
    expect(&mut holder, "asks\nhas it\n");
    assert_eq!(try_second(), Err(Errno::AGAIN));
    let mount = Pid::from_raw(one.pid()).unwrap();
    kill_process(mount, Signal::KILL).unwrap();
    fcntl_lock(&second, FlockOperation::LockExclusive).unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(first);
    one.unmount();
}

#[test]
fn locks_that_an_open_file_owns_end_with_its_last_handle() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    let second = open(&other.at("file"));
    // By `F_OFD_SETLK`. Neither another handle that the program closes nor a copy of this one ends the lock.
    let program = "import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(f, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))
os.close(os.dup(f))
os.close(os.open(sys.argv[1], os.O_RDWR))
print('has it', flush=True)
sys.stdin.readline()
os.close(f)
print('has closed it', flush=True)
sys.stdin.read()";
    for is_killed in [false, true] {
        let mut holder = Command::new("python3")
            .args(["-c", program])
            .arg(one.at("file"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        expect(&mut holder, "has it\n");
        let taken = fcntl_lock(&second, FlockOperation::NonBlockingLockShared);
        assert_eq!(taken, Err(Errno::AGAIN));
        if is_killed {
            holder.kill().unwrap();
        } else {
            holder.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            expect(&mut holder, "has closed it\n");
        }
        fcntl_lock(&second, FlockOperation::LockExclusive).unwrap();
        fcntl_lock(&second, FlockOperation::Unlock).unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
    }
}

/// The one whose wait would close the circle is told, and the other gets its lock then.
#[test]
fn programs_on_two_mounts_that_wait_for_each_other_are_told() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    let program = "import errno, fcntl, sys
own, wanted = int(sys.argv[2]), int(sys.argv[3])
f = open(sys.argv[1], 'r+b', buffering=0)
fcntl.lockf(f, fcntl.LOCK_EX, 1, own)
print('has one', flush=True)
sys.stdin.readline()
try:
    fcntl.lockf(f, fcntl.LOCK_EX, 1, wanted)
    print('got it', flush=True)
except OSError as error:
    assert error.errno == errno.EDEADLK, error
    fcntl.lockf(f, fcntl.LOCK_UN, 1, own)
    print('is told', flush=True)
sys.stdin.read()";
    let mut programs = [(&one, "0", "1"), (&other, "1", "0")].map(|(mounted, own, wanted)| {
        Command::new("python3")
            .args(["-c", program])
            .arg(mounted.at("file"))
            .args([own, wanted])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    for program in &mut programs {
        expect(program, "has one\n");
    }
    for program in &mut programs {
        program.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    let mut said = programs.map(|mut program| {
        let mut said = [0; 7];
        program
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut said)
            .unwrap();
        program.kill().unwrap();
        program.wait().unwrap();
        String::from_utf8_lossy(&said).into_owned()
    });
    said.sort();
    assert_eq!(said, ["got it\n", "is told"]);
}

#[test]
fn waiting_programs_can_be_killed_and_locks_of_killed_ones_pass_on() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    let mut holder = locker(&one.at("file"));
    expect(&mut holder, "asks\nhas it\n");
    // On either mount; the end of a program that waits comes by the signal alone.
    for mounted in [&one, &other] {
        for signal in [Signal::KILL, Signal::TERM] {
            let mut waits = locker(&mounted.at("file"));
            expect(&mut waits, "asks\n");
            kill_process(Pid::from_child(&waits), signal).unwrap();
            assert!(!waits.wait().unwrap().success());
        }
    }
    let mut next = locker(&other.at("file"));
    expect(&mut next, "asks\n");
    holder.kill().unwrap();
    holder.wait().unwrap();
    expect(&mut next, "has it\n");
    next.kill().unwrap();
    next.wait().unwrap();
    let file = open(&one.at("file"));
    fcntl_lock(&file, FlockOperation::LockExclusive).unwrap();
}

/// A program that has locks when the metadata server is killed reads nothing more of these files, also where the kernel has all that there is to
/// read, until it unlocks them. That is no error itself.
#[test]
fn lost_locks_fail_reads_and_not_unlocks() {
    if !can_mount() {
        return;
    }
    let mut stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let locked = [("empty", ""), ("short", "read before"), ("whole", "")];
    let files = locked.map(|(name, content)| {
        std::fs::write(mounted.at(name), content).unwrap();
        let mut file = open(&mounted.at(name));
        let mut found = String::new();
        file.read_to_string(&mut found).unwrap();
        assert_eq!(found, content);
        match name {
            "whole" => flock(&file, FlockOperation::LockExclusive).unwrap(),
            _ => fcntl_lock(&file, FlockOperation::LockExclusive).unwrap(),
        }
        file
    });
    send(stand.pids[0], Signal::KILL);
    until("the server has ended", || !runs(stand.pids[0]));
    let server = stand.fs(&["serve", "--server", "meta"]).start();
    stand.pids[0] = server.id() as i32;
    stand.others.push(server);
    let read = |file: &File| rustix::io::pread(file, &mut [0; 9], 0);
    for file in &files {
        until("the program cannot read", || read(file) == Err(Errno::IO));
        // Whatever others learn of the file, from a listing too.
        file.metadata().unwrap();
        assert_eq!(read(file), Err(Errno::IO));
        assert_eq!(std::fs::read_dir(mounted.path()).unwrap().count(), 3);
        assert_eq!(read(file), Err(Errno::IO));
        assert_eq!(rustix::io::pwrite(file, b"x", 0), Err(Errno::IO));
    }
    let [empty, short, whole] = files;
    fcntl_lock(&empty, FlockOperation::Unlock).unwrap();
    flock(&whole, FlockOperation::Unlock).unwrap();
    for file in [&empty, &whole] {
        assert_eq!(read(file), Ok(0));
    }
    // Closing any handle of the file unlocks it, too.
    drop(open(&mounted.at("short")));
    assert_eq!(read(&short), Ok(9));
}

#[test]
fn one_database_is_written_from_two_mounts_in_both_journal_modes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let add = |database: &str, pragmas: &str| {
        format!(
            "sqlite3 -cmd '.timeout 120000' {database} '{pragmas} begin immediate;
                 insert into t select value from generate_series(1, 40);
                 update n set c = c + 1; commit;' >/dev/null"
        )
    };
    let make = "create table t(a); create table n(c); insert into n values(0);";
    shell(one.path(), &format!("sqlite3 one.db '{make}'"));
    // All at the same time.
    let writers = [&one, &other, &one].map(|mounted| {
        let script = format!("for i in $(seq 20); do {}; done", add("one.db", ""));
        let path = mounted.path().to_owned();
        std::thread::spawn(move || shell(&path, &script))
    });
    for writer in writers {
        writer.join().unwrap();
    }
    let check = "pragma integrity_check; select c from n; select count(*), sum(a) from t";
    for mounted in [&one, &other] {
        let said = shell(mounted.path(), &format!("sqlite3 one.db '{check}'"));
        assert_eq!(said, "ok\n60\n2400|49200\n");
    }
    // Mapped memory is not shared between mounts: in this mode one program at a time uses the database.
    let pragmas = "pragma locking_mode=exclusive; pragma journal_mode=wal;";
    let script = format!("sqlite3 wal.db '{pragmas} {make}' >/dev/null");
    shell(one.path(), &script);
    for mounted in [&one, &other, &one, &other] {
        shell(mounted.path(), &add("wal.db", pragmas));
    }
    for mounted in [&one, &other] {
        let script = format!("sqlite3 wal.db '{pragmas} {check}' | tail -3");
        assert_eq!(shell(mounted.path(), &script), "ok\n4\n160|3280\n");
    }
}
