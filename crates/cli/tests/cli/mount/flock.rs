//! Locks of whole files (`flock`) between programs on two mounts, as one machine has them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::FlockOperation::{
    LockExclusive, LockShared, NonBlockingLockExclusive, NonBlockingLockShared, NonBlockingUnlock,
    Unlock,
};
use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::locks::{expect, open};
use super::{Mounted, can_mount, shell};
use crate::stand::Stand;

const TAKEN: Result<(), Errno> = Err(Errno::WOULDBLOCK);

fn try_lock(file: &File, operation: FlockOperation) -> Result<(), Errno> {
    flock(file, operation)
}

/// A Python program that has the open file as `f`, and the module as `fcntl`.
fn python(path: &Path, program: &str) -> Child {
    let opened = "import fcntl, os, struct, sys
f = os.open(sys.argv[1], os.O_RDWR)
say = lambda text: print(text, flush=True)
";
    Command::new("python3")
        .args(["-c", &format!("{opened}{program}")])
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn holder(path: &Path) -> Child {
    python(
        path,
        "say('asks'); fcntl.flock(f, fcntl.LOCK_EX); say('has it'); sys.stdin.read()",
    )
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Goes through what two open files do to each other; both are of the same file.
fn exclude_each_other(first: &File, second: &File) {
    assert_eq!(try_lock(first, NonBlockingLockShared), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockShared), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockExclusive), TAKEN);
    // That has cost it the lock that it had.
    assert_eq!(try_lock(first, NonBlockingLockExclusive), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockShared), TAKEN);
    // Asking again changes nothing; an exclusive lock becomes a shared one.
    assert_eq!(try_lock(first, LockExclusive), Ok(()));
    assert_eq!(try_lock(first, NonBlockingLockShared), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockShared), Ok(()));
    assert_eq!(try_lock(second, Unlock), Ok(()));
    assert_eq!(try_lock(second, NonBlockingUnlock), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockExclusive), TAKEN);
    // A copy of a descriptor has the same lock, and can give it back.
    let copy = first.try_clone().unwrap();
    assert_eq!(try_lock(&copy, NonBlockingLockExclusive), Ok(()));
    drop(copy);
    assert_eq!(try_lock(second, NonBlockingLockShared), TAKEN);
    assert_eq!(try_lock(&first.try_clone().unwrap(), Unlock), Ok(()));
    assert_eq!(try_lock(second, NonBlockingLockExclusive), Ok(()));
    assert_eq!(try_lock(second, Unlock), Ok(()));
}

#[test]
fn whole_files_are_locked_between_mounts_as_on_one_machine() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(one.at("file"), "").unwrap();
    let file = one.at("file");
    exclude_each_other(&open(local.path()), &open(local.path()));
    exclude_each_other(&open(&file), &open(&file));
    exclude_each_other(&open(&file), &open(&other.at("file")));
    // A file that is open for reading can be locked alone, too.
    exclude_each_other(
        &File::open(&file).unwrap(),
        &File::open(other.at("file")).unwrap(),
    );

    // Closing another open file of the program leaves the lock, the last close of this one ends it.
    let (first, second) = (open(&file), open(&other.at("file")));
    flock(&first, LockExclusive).unwrap();
    drop(open(&file));
    assert_eq!(try_lock(&second, NonBlockingLockShared), TAKEN);
    let copy = first.try_clone().unwrap();
    drop(first);
    assert_eq!(try_lock(&second, NonBlockingLockShared), TAKEN);
    drop(copy);
    flock(&second, LockExclusive).unwrap();
}

#[test]
fn locks_of_flock_and_of_fcntl_do_not_see_each_other() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    // One program has all three kinds, each on the whole file, as mail programs do.
    let mut all = python(
        &one.at("file"),
        "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(f, fcntl.LOCK_UN)
fcntl.fcntl(f, 37, struct.pack('hhqqi', fcntl.F_WRLCK, 0, 0, 0, 0))
say('has it')
sys.stdin.readline()
fcntl.flock(f, fcntl.LOCK_UN)
say('has it')
sys.stdin.readline()",
    );
    expect(&mut all, "has it\n");
    let file = open(&other.at("file"));
    assert_eq!(try_lock(&file, NonBlockingLockShared), TAKEN);
    let range = || fcntl_lock(&file, NonBlockingLockShared);
    assert_eq!(range(), Err(Errno::AGAIN));
    all.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    expect(&mut all, "has it\n");
    assert_eq!(try_lock(&file, NonBlockingLockExclusive), Ok(()));
    assert_eq!(range(), Err(Errno::AGAIN));
    all.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert!(all.wait().unwrap().success());
    fcntl_lock(&file, LockShared).unwrap();
}

#[test]
fn a_lock_is_shared_with_children_and_ends_with_the_last_of_them_and_with_the_mount() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (mut one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    let second = open(&other.at("file"));
    let mut parent = python(
        &one.at("file"),
        "fcntl.flock(f, fcntl.LOCK_EX)
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
say(child)
os._exit(0)",
    );
    // The parent has ended, and its child still has the lock.
    let mut printed = String::new();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    output.read_line(&mut printed).unwrap();
    let child = Pid::from_raw(printed.trim().parse().unwrap()).unwrap();
    let input = parent.stdin.take();
    parent.wait().unwrap();
    assert_eq!(try_lock(&second, NonBlockingLockShared), TAKEN);
    kill_process(child, Signal::KILL).unwrap();
    flock(&second, LockExclusive).unwrap();
    flock(&second, Unlock).unwrap();
    drop(input);
    // The mount is killed.
    let mut child = holder(&one.at("file"));
    expect(&mut child, "asks\nhas it\n");
    assert_eq!(try_lock(&second, NonBlockingLockShared), TAKEN);
    kill_process(Pid::from_raw(one.pid()).unwrap(), Signal::KILL).unwrap();
    flock(&second, LockExclusive).unwrap();
    end(child);
    one.unmount();
}

#[test]
fn waits_end_by_signals_by_upgrades_and_by_unlocking() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    std::fs::write(one.at("file"), "").unwrap();
    std::fs::write(one.at("second"), "").unwrap();
    let mut first = holder(&one.at("file"));
    expect(&mut first, "asks\nhas it\n");
    for mounted in [&one, &other] {
        for signal in [Signal::KILL, Signal::TERM] {
            let mut waits = holder(&mounted.at("file"));
            expect(&mut waits, "asks\n");
            kill_process(Pid::from_child(&waits), signal).unwrap();
            assert!(!waits.wait().unwrap().success());
        }
        // The time limit of `flock` is a signal, which it handles. It fails with that status if the lock is taken.
        let said = shell(
            mounted.path(),
            "flock --timeout 0.1 -E 7 file true || echo $?; flock -n -E 8 file true || echo $?",
        );
        assert_eq!(said, "7\n8\n");
    }
    let mut next = holder(&other.at("file"));
    expect(&mut next, "asks\n");
    end(first);
    expect(&mut next, "has it\n");
    end(next);

    // Two that share a file and want it alone do not wait for each other: one has it, then the other.
    let upgrade = "fcntl.flock(f, fcntl.LOCK_SH); say('shares'); sys.stdin.readline()
fcntl.flock(f, fcntl.LOCK_EX); say('alone')";
    let mut both = [&one, &other].map(|mounted| python(&mounted.at("file"), upgrade));
    for child in &mut both {
        expect(child, "shares\n");
    }
    for child in &mut both {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    for mut child in both {
        expect(&mut child, "alone\n");
        assert!(child.wait().unwrap().success());
    }

    // A program shares the file and waits for its child, which wants to share it too, while another waits for it alone.
    let parent = open(&one.at("file"));
    flock(&parent, LockShared).unwrap();
    let mut alone = holder(&other.at("file"));
    expect(&mut alone, "asks\n");
    let said = shell(one.path(), "flock -s file echo shares");
    assert_eq!(said, "shares\n");
    drop(parent);
    expect(&mut alone, "has it\n");
    end(alone);

    // Two that wait for each other's files do so until a signal comes: that is no error of either.
    let circle = "g = os.open(sys.argv[1].replace(NAME, OTHER), os.O_RDWR)
fcntl.flock(f, fcntl.LOCK_EX); say('has it'); sys.stdin.readline()
say('asks'); fcntl.flock(g, fcntl.LOCK_EX); say('has both')";
    let names = |name: &str, other: &str| format!("NAME, OTHER = {name:?}, {other:?}\n{circle}");
    let mut killed = python(&one.at("file"), &names("file", "second"));
    let mut stays = python(&other.at("second"), &names("second", "file"));
    for child in [&mut killed, &mut stays] {
        expect(child, "has it\n");
    }
    for child in [&mut killed, &mut stays] {
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        expect(child, "asks\n");
    }
    end(killed);
    expect(&mut stays, "has both\n");
    assert!(stays.wait().unwrap().success());
}

#[test]
fn a_thousand_programs_that_wait_get_the_lock_one_after_the_other() {
    if !can_mount() {
        return;
    }
    const WAITERS: u64 = 1000;
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    std::fs::write(mounts[0].at("count"), 0u64.to_le_bytes()).unwrap();
    let first = open(&mounts[0].at("count"));
    flock(&first, LockExclusive).unwrap();
    let add = |path: &Path| {
        let file = open(path);
        flock(&file, LockExclusive).unwrap();
        let mut count = [0; 8];
        assert_eq!(rustix::io::pread(&file, &mut count, 0), Ok(8));
        let count = (u64::from_le_bytes(count) + 1).to_le_bytes();
        assert_eq!(rustix::io::pwrite(&file, &count, 0), Ok(8));
    };
    std::thread::scope(|scope| {
        for number in 0..WAITERS {
            let path = mounts[number as usize % 2].at("count");
            let thread = std::thread::Builder::new().stack_size(64 << 10);
            thread.spawn_scoped(scope, move || add(&path)).unwrap();
        }
        // Some of those that wait are programs that are killed.
        let killed: Vec<Child> = (0..20)
            .map(|number| {
                let mut child = holder(&mounts[number % 2].at("count"));
                expect(&mut child, "asks\n");
                child
            })
            .collect();
        killed.into_iter().for_each(end);
        drop(first);
    });
    let count = std::fs::read(mounts[1].at("count")).unwrap();
    assert_eq!(count, WAITERS.to_le_bytes());
}

#[test]
fn commits_of_two_mounts_to_one_repository_lose_nothing() {
    if !can_mount() {
        return;
    }
    const COMMITS: usize = 10;
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    shell(mounts[0].path(), "git init -q repository");
    std::thread::scope(|scope| {
        for number in 0..4 {
            let at = mounts[number % 2].at("repository");
            let script = format!(
                "for i in $(seq {COMMITS}); do
                     flock .git/ours sh -euc \"echo {number} \\$i >> log; git add log; git commit -qm \\$i\"
                 done"
            )
            .replace("\\$i", "$i");
            scope.spawn(move || shell(&at, &script));
        }
    });
    let all = 4 * COMMITS;
    for mounted in &mounts {
        let said = shell(
            &mounted.at("repository"),
            "git fsck --strict; git rev-list --count HEAD; wc -l < log; git status --short",
        );
        assert_eq!(said, format!("{all}\n{all}\n"));
    }
}
