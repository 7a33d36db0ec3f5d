//! Mounting at unusable places, unmounting in every way, and the death of servers and mount processes.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Signal;

use super::files::objects;
use super::{Mounted, can_mount, is_mounted, rounds, shell};
use crate::stand::{Run, Stand, runs, send, until};

#[test]
fn errors_name_unusable_mount_points_and_the_remedy() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let here = stand.directory.path();
    std::fs::write(here.join("file"), "").unwrap();
    std::fs::create_dir(here.join("full")).unwrap();
    std::fs::write(here.join("full/x"), "hidden").unwrap();
    let missing = stand.fs(&["mount", "missing"]).fails(1);
    assert!(
        missing.contains("no such directory") && missing.contains("mkdir"),
        "{missing}"
    );
    let file = stand.fs(&["mount", "file"]).fails(1);
    assert!(file.contains("not a directory"), "{file}");
    let option = stand
        .fs(&["mount", "-o", "ro,allow_others", "full"])
        .fails(2);
    assert!(
        option.contains("`allow_others`") && option.contains("--help"),
        "{option}"
    );
    let never = stand.fs(&["umount", "full"]).fails(1);
    assert!(never.contains("findmnt"), "{never}");
    // A directory with files is covered, as by any mount, also one with a relative path.
    let said = stand.fs(&["mount", "--json", "-o", "ro", "full"]).json();
    assert!(said["pid"].as_u64().is_some_and(|pid| runs(pid as i32)));
    assert!(!here.join("full/x").exists());
    let written = std::fs::write(here.join("full/y"), "").unwrap_err();
    assert_eq!(Errno::from_io_error(&written), Some(Errno::ROFS));
    let twice = stand.fs(&["mount", "full"]).fails(1);
    assert!(
        twice.contains("already") && twice.contains("umount"),
        "{twice}"
    );
    stand.fs(&["umount", "full"]).ok();
    assert!(here.join("full/x").exists());
    // Without servers there is nothing to mount.
    let config = stand.impatient();
    drop(stand);
    let directory = tempfile::tempdir().unwrap();
    let run = Run::new(directory.path(), &["fs", "mount", "."]).config(&config);
    // The configuration went with the file system's directory.
    run.fails(2);
    assert!(!is_mounted(directory.path()));
}

#[test]
fn a_mount_ends_in_every_orderly_way() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    // umount(8), while nothing uses it.
    let mut mounted = Mounted::new(&stand);
    let pid = mounted.pid();
    std::fs::write(mounted.at("file"), "kept").unwrap();
    if rustix::process::geteuid().is_root() {
        shell(
            Path::new("/"),
            &format!("umount {}", mounted.path().display()),
        );
    } else {
        mounted.unmount();
    }
    mounted.is_unmounted();
    until("its process ends", || !runs(pid));
    // While a program uses it.
    let mut mounted = Mounted::new(&stand);
    let pid = mounted.pid();
    let open = File::open(mounted.at("file")).unwrap();
    let path = mounted.path().to_str().unwrap().to_owned();
    let busy = stand.fs(&["umount", &path]).fails(1);
    assert!(
        busy.contains("programs use it") && busy.contains("--lazy"),
        "{busy}"
    );
    assert_eq!(std::fs::read(mounted.at("file")).unwrap(), b"kept");
    stand.fs(&["umount", "--lazy", &path]).ok();
    mounted.is_unmounted();
    assert!(runs(pid));
    drop(open);
    until("its process ends with the last use", || !runs(pid));
    // Signals, in the background and in the foreground, also while it is in use.
    let mut mounted = Mounted::new(&stand);
    let pid = mounted.pid();
    let open = File::open(mounted.at("file")).unwrap();
    send(pid, Signal::TERM);
    until("its process ends", || !runs(pid));
    mounted.is_unmounted();
    drop(open);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for signal in [Signal::INT, Signal::TERM] {
        let run = stand.fs(&["mount", "--foreground", path]);
        let mut child = run.start();
        until("it is mounted", || directory.path().join("file").exists());
        send(child.id() as i32, signal);
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal.as_raw()));
        assert!(!is_mounted(directory.path()));
    }
}

#[test]
fn a_killed_mount_gives_errors_and_can_be_replaced() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    let mut open = File::create(mounted.at("file")).unwrap();
    open.write_all(b"written").unwrap();
    std::fs::remove_file(mounted.at("file")).unwrap();
    let pid = mounted.pid();
    send(pid, Signal::KILL);
    until("the mount process has ended", || !runs(pid));
    let dead = |error: std::io::Error| Errno::from_io_error(&error) == Some(Errno::NOTCONN);
    // A request in progress when the last thread ended has another error.
    let errno = Errno::from_io_error(&open.write_all(b"more").unwrap_err());
    assert!(
        matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED)),
        "{errno:?}"
    );
    until("names fail", || mounted.path().metadata().is_err_and(dead));
    let path = mounted.path().to_str().unwrap().to_owned();
    let again = stand.fs(&["mount", &path]).fails(1);
    assert!(
        again.contains("has ended") && again.contains("causeway fs umount"),
        "{again}"
    );
    drop(open);
    mounted.unmount();
    stand.fs(&["mount", &path]).ok();
    mounted.unmounted = false;
    assert_eq!(shell(mounted.path(), "ls -A"), "");
}

/// The servers reply to nothing, and would do so for longer than a test lasts.
#[test]
fn a_forced_unmount_ends_what_programs_wait_for() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    std::fs::write(mounted.at("file"), vec![7; 1 << 20]).unwrap();
    let file = File::open(mounted.at("file")).unwrap();
    for server in &stand.pids {
        send(*server, Signal::STOP);
    }
    let path = mounted.path().to_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        let read = scope.spawn(|| file.read_at(&mut vec![0; 1 << 20], 0));
        let busy = stand.fs(&["umount", &path]).fails(1);
        assert!(busy.contains("umount --force"), "{busy}");
        stand.fs(&["umount", "--force", &path]).ok();
        mounted.is_unmounted();
        let errno = Errno::from_io_error(&read.join().unwrap().unwrap_err());
        assert!(
            matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED)),
            "{errno:?}"
        );
    });
    for server in &stand.pids {
        send(*server, Signal::CONT);
    }
}

/// Whether a thread of this name waits in the kernel, where no signal ends it.
fn waits_in_the_kernel(pid: i32, name: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = threads
        .filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("stat")).ok());
    states.any(|state| state.contains(&format!("({name}) D")))
}

/// Its process waits for the kernel to drop a page, which a program reads from a server that does not reply.
#[test]
fn a_mount_that_is_killed_while_it_waits_for_the_kernel_ends_what_programs_wait_for() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    std::fs::write(mounted.at("file"), vec![7; 1 << 20]).unwrap();
    let [read, locked] = [(); 2].map(|()| File::open(mounted.at("file")).unwrap());
    // The first one is the metadata server, which knows the file's locks.
    for server in &stand.pids[1..] {
        send(*server, Signal::STOP);
    }
    let pid = mounted.pid();
    let (ended, ends) = std::sync::mpsc::channel();
    let reader_ended = ended.clone();
    std::thread::spawn(move || {
        let read = read.read_at(&mut vec![0; 1 << 20], 0);
        reader_ended.send(read.map(drop)).unwrap();
    });
    std::thread::spawn(move || {
        // The owner of a lock sees what earlier owners wrote: the kernel drops what it has of the file.
        let lock_often = || loop {
            flock(&locked, FlockOperation::LockExclusive)?;
            flock(&locked, FlockOperation::Unlock)?;
        };
        let locked: rustix::io::Result<()> = lock_often();
        ended.send(locked.map_err(Into::into)).unwrap();
    });
    until("the mount waits for the kernel", || {
        waits_in_the_kernel(pid, "forgets")
    });
    send(pid, Signal::KILL);
    for _ in 0..2 {
        let ended: std::io::Result<()> = ends
            .recv_timeout(Duration::from_secs(60))
            .expect("nobody waits");
        let errno = Errno::from_io_error(&ended.unwrap_err());
        assert!(
            matches!(errno, Some(Errno::NOTCONN | Errno::CONNABORTED)),
            "{errno:?}"
        );
    }
    until("the mount process has ended", || !runs(pid));
    for server in &stand.pids {
        send(*server, Signal::CONT);
    }
    mounted.unmount();
}

/// Of what a mount has open that dies nothing is left, and what programs on another one have open stays.
#[test]
fn unlinked_files_of_dead_mounts_are_removed() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (dead, alive) = (Mounted::new(&stand), Mounted::new(&stand));
    let unlinked = |mounted: &Mounted, by: &Mounted| {
        let mut options = File::options();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .open(mounted.at("file"))
            .unwrap();
        file.write_all(&[4; 100_000]).unwrap();
        std::fs::remove_file(by.at("file")).unwrap();
        file
    };
    let (lost, kept) = (unlinked(&dead, &alive), unlinked(&alive, &dead));
    assert_eq!(objects(&stand), 3);
    send(dead.pid(), Signal::KILL);
    until("the dead mount's file is gone", || objects(&stand) == 2);
    drop(lost);
    let mut content = vec![0; 100_001];
    assert_eq!(kept.read_at(&mut content, 0).unwrap(), 100_000);
    drop(kept);
    until("nothing is left", || objects(&stand) == 1);
}

/// Programs that have files open go on when the metadata server is killed and started again, and other mounts remove the names.
#[test]
fn programs_keep_their_open_files_when_the_metadata_server_is_killed() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    shell(one.path(), "seq 100000 > numbers; cp numbers more");
    // A shell that has the files open, in the directory of one mount, while their names are removed through the
    // other one.
    let mut program = Command::new("sh")
        .args([
            "-euc",
            "exec 3<numbers 4<>more; echo open; read go; cat <&3 | wc -l; echo las >&4; head -1 <&4; read go",
        ])
        .current_dir(one.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(program.stdout.take().unwrap());
    let mut input = program.stdin.take().unwrap();
    let mut said = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(said(), "open\n");
    std::fs::remove_file(other.at("numbers")).unwrap();
    send(stand.pids[0], Signal::KILL);
    until("the server has ended", || !runs(stand.pids[0]));
    let mut server = stand.fs(&["serve", "--server", "meta"]).start();
    shell(other.path(), "echo other > new; mv new more");
    input.write_all(b"go\n").unwrap();
    assert_eq!(said(), "100000\n");
    // It has written over the first bytes of its own file.
    assert_eq!(said(), "3\n");
    assert_eq!(
        std::fs::read_to_string(other.at("more")).unwrap(),
        "other\n"
    );
    input.write_all(b"go\n").unwrap();
    assert!(program.wait().unwrap().success());
    until("nothing but the new file is left", || objects(&stand) == 2);
    drop((one, other));
    send(server.id() as i32, Signal::TERM);
    server.wait().unwrap();
}

/// What one writer has on a mount that is killed: files that were synced, a file whose content is replaced by renaming, a file that it appends
/// to, and a lock. Returns the number of rounds it has completed, when the mount is gone.
fn write_until_it_is_killed(directory: &Path, own: usize, synced: &AtomicUsize) -> usize {
    for number in 0.. {
        let store = || {
            let content = vec![number as u8; 10_000 * (1 + number % 9)];
            let mut file = File::create(directory.join(format!("synced-{own}-{number}")))?;
            file.write_all(&content)?;
            file.sync_all()?;
            synced.fetch_max(number + 1, Ordering::Release);
            let (replaced, new) = (format!("replaced-{own}"), format!("new-{own}"));
            std::fs::write(
                directory.join(&new),
                vec![b'a' + (number % 26) as u8; 20_000],
            )?;
            std::fs::rename(directory.join(new), directory.join(replaced))?;
            let mut log = File::options()
                .append(true)
                .create(true)
                .open(directory.join("log"))?;
            flock(&log, FlockOperation::LockExclusive)?;
            log.write_all(format!("{own:04} {number:08} {:>80}\n", "end").as_bytes())?;
            std::io::Result::Ok(())
        };
        if store().is_err() {
            return number;
        }
    }
    unreachable!("there are more numbers than rounds")
}

/// Four programs write on a mount that is killed at some moment, while another mount looks at what they have written: what was synced is there,
/// files that are replaced are whole, and so is each line that was appended, and locks pass on.
#[test]
fn a_killed_mount_loses_nothing_that_was_synced() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let other = Mounted::new(&stand);
    for round in 0..rounds() {
        let one = Mounted::new(&stand);
        let synced: [AtomicUsize; 4] = Default::default();
        let is_killed = AtomicBool::new(false);
        let check = || {
            for own in 0..synced.len() {
                let Ok(content) = std::fs::read(other.at(&format!("replaced-{own}"))) else {
                    continue;
                };
                let first = content.first().copied();
                let is_whole =
                    content.len() == 20_000 && content.iter().all(|byte| Some(*byte) == first);
                assert!(is_whole, "round {round}: {} bytes", content.len());
            }
            let log = std::fs::read_to_string(other.at("log")).unwrap_or_default();
            assert!(log.is_empty() || log.ends_with('\n'), "round {round}");
            let lines = log
                .lines()
                .filter(|line| line.len() != 94 || !line.ends_with(" end"));
            assert_eq!(
                lines.collect::<Vec<_>>(),
                Vec::<&str>::new(),
                "round {round}"
            );
        };
        std::thread::scope(|scope| {
            for (own, synced) in synced.iter().enumerate() {
                let directory = one.path();
                scope.spawn(move || write_until_it_is_killed(directory, own, synced));
            }
            scope.spawn(|| {
                while !is_killed.load(Ordering::Acquire) {
                    check();
                }
            });
            let some = || {
                synced
                    .iter()
                    .all(|synced| synced.load(Ordering::Acquire) >= 3)
            };
            until("some are synced", some);
            std::thread::sleep(Duration::from_millis(u64::from(round * 61 % 500)));
            send(one.pid(), Signal::KILL);
            is_killed.store(true, Ordering::Release);
        });
        check();
        let log = other.at("log");
        let log = File::options().append(true).open(log).unwrap();
        flock(&log, FlockOperation::LockExclusive).unwrap();
        for (own, synced) in synced.iter().enumerate() {
            for number in 0..synced.load(Ordering::Acquire) {
                let name = format!("synced-{own}-{number}");
                let found = std::fs::read(other.at(&name)).unwrap();
                let expected = vec![number as u8; 10_000 * (1 + number % 9)];
                assert!(found == expected, "round {round}: {name}");
            }
        }
        drop(one);
        shell(other.path(), "rm -r ./*");
    }
}

#[test]
fn killed_servers_give_errors_in_time_and_go_on_after_a_restart() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let config = stand.impatient();
    let mut mounted = Mounted::with(&stand, &config, &[]);
    let mut file = File::create(mounted.at("large")).unwrap();
    file.write_all(&vec![5; 4 << 20]).unwrap();
    file.sync_all().unwrap();
    // Writers are at work while an I/O server dies, more of them than there are threads.
    let begun = Instant::now();
    let errors: Vec<_> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..12)
            .map(|number| {
                let mounted = &mounted;
                scope.spawn(move || {
                    let mut file = File::create(mounted.at(&format!("f{number}"))).unwrap();
                    loop {
                        if let Err(error) = file.write_all(&[7; 1 << 20]) {
                            return error;
                        }
                    }
                })
            })
            .collect();
        until("something is written", || {
            mounted
                .at("f11")
                .metadata()
                .is_ok_and(|found| found.len() > 0)
        });
        send(stand.pids[1], Signal::KILL);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    for error in errors {
        let errno = Errno::from_io_error(&error);
        assert!(
            matches!(errno, Some(Errno::IO | Errno::TIMEDOUT)),
            "{error}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(file.write_all(&vec![6; 4 << 20]).is_err());
    // Names do not need that server.
    std::fs::create_dir(mounted.at("directory")).unwrap();
    let name = "io0";
    let mut server = stand.fs(&["serve", "--server", name]).start();
    until("the server replies", || {
        std::fs::read(mounted.at("large")).is_ok_and(|content| content.len() >= 4 << 20)
    });
    drop(file);
    send(stand.pids[0], Signal::KILL);
    let begun = Instant::now();
    // The directory itself is known, its entries are not.
    let error = std::fs::read_dir(mounted.path()).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    assert!(error.is_err() && begun.elapsed() < Duration::from_secs(60));
    mounted.unmount();
    send(server.id() as i32, Signal::TERM);
    server.wait().unwrap();
}

/// A program whose servers are killed and restarted before the time-out gets no error, and reads every byte.
#[test]
fn servers_restarted_in_time_cause_no_errors() {
    if !can_mount() {
        return;
    }
    let mut stand = Stand::new();
    let mounted = Mounted::new(&stand);
    for round in 0..rounds() {
        let script = "rm -f verify*; fio --name=verify --directory=. --size=24m --bs=64k --rw=randrw \
                      --ioengine=psync --fsync=64 --verify=crc32c --verify_backlog=32 --verify_fatal=1 --output=/dev/null";
        let mut writer = Command::new("sh")
            .args(["-euc", script])
            .current_dir(mounted.path())
            .spawn()
            .unwrap();
        until("it writes", || {
            mounted
                .at("verify.0.0")
                .metadata()
                .is_ok_and(|found| found.len() > 0)
        });
        // At another moment of its work in each round.
        std::thread::sleep(Duration::from_millis(u64::from(round * 37 % 400)));
        let index = (round as usize) % stand.pids.len();
        let name = ["meta", "io0", "io1"][index];
        send(stand.pids[index], Signal::KILL);
        let server = stand.fs(&["serve", "--server", name]).start();
        stand.pids[index] = server.id() as i32;
        stand.others.push(server);
        assert!(
            writer.wait().unwrap().success(),
            "round {round}: {name} was killed"
        );
    }
}

#[test]
fn later_mounts_at_the_same_place_are_left_alone() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let stand = Stand::new();
    let mut mounted = Mounted::new(&stand);
    let path = mounted.path().to_str().unwrap().to_owned();
    // A file system of another type is mounted over it.
    shell(
        Path::new("/"),
        &format!("mount -t tmpfs none {path}; echo theirs >{path}/x"),
    );
    let refused = stand.fs(&["umount", &path]).fails(1);
    assert!(refused.contains("tmpfs"), "{refused}");
    assert_eq!(std::fs::read(mounted.at("x")).unwrap(), b"theirs\n");
    shell(Path::new("/"), &format!("umount {path}"));
    // It has been unmounted lazily and is still in use, and another one is mounted in its place.
    let first = mounted.pid();
    let used = File::open(mounted.path()).unwrap();
    stand.fs(&["umount", "--lazy", &path]).ok();
    stand.fs(&["mount", &path]).ok();
    send(first, Signal::TERM);
    until("the first mount's process ends", || !runs(first));
    drop(used);
    std::fs::write(mounted.at("y"), "ours").unwrap();
    assert!(is_mounted(mounted.path()));
    mounted.unmount();
}
