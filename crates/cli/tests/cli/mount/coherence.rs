//! Two mounts of one file system: what is changed by one is seen by the other with the next system call, although both cache.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use super::{Mounted, can_mount, shell};
use crate::stand::{Stand, send};

/// A look at a name, or that there is nothing.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    inode: u64,
    mode: u32,
    size: u64,
    links: u64,
    /// 512 bytes each.
    blocks: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    target: Option<OsString>,
}

fn look(at: &Path) -> Option<Look> {
    let found = match fs::symlink_metadata(at) {
        Ok(found) => found,
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
            return None;
        }
    };
    let target = found
        .is_symlink()
        .then(|| fs::read_link(at).unwrap().into_os_string());
    let size = if found.is_dir() { 0 } else { found.len() };
    Some(Look {
        inode: found.ino(),
        mode: found.mode(),
        size,
        links: found.nlink(),
        blocks: found.blocks(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        target,
    })
}

/// What all names are to be seen as.
fn looks(mount: &Mounted, names: &[String]) -> BTreeMap<String, Option<Look>> {
    let of = |name: &String| (name.clone(), look(&mount.at(name)));
    names.iter().map(of).collect()
}

/// One change by a mount; which one, and of which names, the number says. Those that fail change nothing.
fn change(mount: &Mounted, names: &[String], number: u64) {
    let name = |which: u64| mount.at(&names[(which % names.len() as u64) as usize]);
    let (first, second) = (name(number / 16), name(number / 512));
    let mode = Permissions::from_mode(0o400 | ((number / 16) & 0o377) as u32);
    let _ = match number % 16 {
        0 | 1 => fs::write(&first, vec![b'x'; (number % 1000) as usize]),
        2 => fs::remove_file(&first),
        3 => fs::rename(&first, &second),
        4 => fs::hard_link(&first, &second),
        5 => fs::create_dir(&first),
        6 => fs::remove_dir(&first),
        7 => std::os::unix::fs::symlink(number.to_string(), &first),
        8..=10 => fs::set_permissions(&first, mode),
        11 | 12 => fs::File::options()
            .append(true)
            .open(&first)
            .and_then(|file| std::io::Write::write_all(&mut &file, b"more")),
        13 => fs::File::options()
            .write(true)
            .open(&first)
            .and_then(|file| file.set_len(number % 70_000)),
        14 => fs::remove_file(&second),
        _ => fs::rename(&second, &first),
    };
}

#[test]
fn each_mount_sees_with_the_next_call_what_the_other_has_changed() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    let names: Vec<String> = (0..6)
        .map(|number| format!("name-{number}"))
        .chain((0..3).map(|number| format!("sub/name-{number}")))
        .collect();
    // Directories, too: their times and how many links they have.
    let seen = [&names[..], &[String::new(), "sub".to_owned()]].concat();
    let all = |mount: &Mounted| looks(mount, &seen);
    fs::create_dir(mounts[0].at("sub")).unwrap();
    let mut seed = 1u64;
    for step in 0..600 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Now each mount has cached what it sees.
        for mount in &mounts {
            all(mount);
        }
        change(&mounts[step % 2], &names, seed >> 20);
        // First the other one, and again what made the change.
        let other = all(&mounts[1 - step % 2]);
        let own = all(&mounts[step % 2]);
        assert_eq!(other, own, "step {step}, change {}", seed >> 20);
    }
}

/// The kernel has cached the attributes of a file, and its own mount changes some of them without a
/// request of the kernel: a sync stores the times.
#[test]
fn a_mount_sees_what_its_own_changes_do_beside() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    let [own, other] = mounts.each_ref().map(|mount| mount.at("file"));
    let file = fs::File::create(&own).unwrap();
    for len in [200_000, 300_000] {
        std::io::Write::write_all(&mut &file, &vec![b'x'; len]).unwrap();
        // Its times are stored with the next sync, and changed by that.
        for _ in 0..3 {
            look(&own);
        }
        file.sync_all().unwrap();
        let seen = look(&own);
        assert_eq!(look(&other), seen);
        assert_eq!(look(&own), seen);
    }
}

/// If this failed, the other tests of this file would prove nothing.
#[test]
fn what_was_just_seen_needs_no_server() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mount = Mounted::new(&stand);
    let file = mount.at("file");
    fs::write(&file, "x").unwrap();
    crate::stand::until("it is seen while no server runs", || {
        let expected = look(&file);
        look(&file);
        let path = file.clone();
        // If this fails, the lease had expired before, and the next round decides.
        while_stopped(&stand.pids, move || look(&path)) == Some(expected)
    });
}

/// It does not need the process that serves the mount either: the kernel has names and attributes, also of what has just been made or renamed, and
/// knows of missing names.
#[test]
fn what_was_just_seen_or_made_needs_no_request() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mount = Mounted::new(&stand);
    let mut round = 0;
    crate::stand::until("names are seen while the mount is stopped", || {
        round += 1;
        let sub = mount.at(&format!("sub-{round}"));
        fs::create_dir(&sub).unwrap();
        // Of what is missing in a directory that the mount has made its process knows more than the kernel.
        let missing = mount.at(&format!("missing-{round}"));
        let paths = [sub.join("seen"), sub.join("renamed"), missing];
        fs::write(&paths[0], "x").unwrap();
        fs::write(sub.join("new"), "y").unwrap();
        fs::rename(sub.join("new"), &paths[1]).unwrap();
        let looks = move || paths.each_ref().map(|path| look(path));
        let expected = looks();
        assert!(expected[2].is_none());
        // If not, a lease has expired before, and the next round shows it.
        while_stopped(&[mount.pid()], looks) == Some(expected)
    });
}

/// A file system whose leases last as short as they may.
fn with_short_leases() -> Stand {
    let mut stand = Stand::new();
    stand.start_again(None, |config| {
        format!("{config}\n[leases]\ntime = \"1s\"\n")
    });
    stand
}

/// Also of directories that programs use for longer than a lease lasts.
#[test]
fn names_that_were_looked_up_again_need_no_request() {
    if !can_mount() {
        return;
    }
    let stand = with_short_leases();
    let mount = Mounted::new(&stand);
    let file = mount.at("sub/in/file");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "x").unwrap();
    crate::stand::until("names are seen while the mount is stopped", || {
        std::thread::sleep(std::time::Duration::from_millis(1200));
        let expected = look(&file);
        let path = file.clone();
        // If not, a lease has expired before, and the next round shows it.
        while_stopped(&[mount.pid()], move || look(&path)) == Some(expected)
    });
}

/// A listing brings what its names stand for. It comes with attributes of the present, beside which the kernel may keep lists of the past.
#[test]
fn what_is_listed_after_a_time_without_leases_is_what_others_have_made_of_it() {
    if !can_mount() {
        return;
    }
    let stand = with_short_leases();
    let [changer, viewer] = [Mounted::new(&stand), Mounted::new(&stand)];
    shell(
        changer.path(),
        "mkdir sub; for i in $(seq 300); do echo $i >sub/$i; done; setfacl -m u:1:r sub/1",
    );
    let see = "ls -lL sub | sed 's/^\\(.\\{11\\}\\).* /\\1 /'; ls sub | wc -l; getfacl -cp sub/[123] 2>&1; cat sub/2 sub/300";
    let kept = || {
        shell(viewer.path(), see);
        std::thread::sleep(std::time::Duration::from_millis(1200));
    };
    for change in [
        "setfacl -m u:2:rw sub/1; setfacl -m u:1:r sub/2",
        "setfacl -b sub/1 sub/2; chmod 600 sub/2",
        "mv sub/300 sub/301; mv sub/1 sub/300; echo more >>sub/2",
        "rm sub/2; mkdir sub/2; rm -r sub/2; echo new >sub/2; mv sub/300 sub/1; mv sub/301 sub/300",
    ] {
        kept();
        shell(changer.path(), change);
        // The listing comes first.
        let seen = shell(viewer.path(), &format!("find sub >/dev/null; {see}"));
        assert_eq!(seen, shell(changer.path(), see), "{change}");
        // And under leases.
        shell(
            changer.path(),
            "setfacl -m u:3:r sub/3; chmod 640 sub/2; touch sub/302; mv sub/302 sub/303",
        );
        let seen = shell(viewer.path(), see);
        assert_eq!(seen, shell(changer.path(), see), "after {change}");
    }
}

/// The kernel may process replies about a name after it was told to forget the name.
#[test]
fn what_is_looked_at_without_a_pause_is_seen_renamed() {
    if !can_mount() {
        return;
    }
    let stand = with_short_leases();
    let [changer, viewer] = [Mounted::new(&stand), Mounted::new(&stand)];
    for name in ["dir/one/in", "dir/other", "file/one", "file/other"] {
        fs::create_dir_all(changer.at(name)).unwrap();
    }
    let path = |mount: &Mounted, kind: &str, at: usize| {
        mount.at(&format!("{kind}/{}/it", ["one", "other"][at]))
    };
    fs::rename(changer.at("dir/one/in"), path(&changer, "dir", 0)).unwrap();
    fs::write(path(&changer, "file", 0), "x").unwrap();
    let has_ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for kind in ["dir", "file", "dir", "file"] {
            let (viewer, has_ended) = (&viewer, &has_ended);
            scope.spawn(move || {
                while !has_ended.load(std::sync::atomic::Ordering::Relaxed) {
                    look(&path(viewer, kind, 0));
                    look(&path(viewer, kind, 1));
                }
            });
        }
        let mut wrong = Vec::new();
        for round in 0..40 {
            let pause = [0, 5, 50, 300, 1100][round % 5];
            std::thread::sleep(std::time::Duration::from_millis(pause));
            for kind in ["dir", "file"] {
                let [from, to] = [round % 2, 1 - round % 2];
                fs::rename(path(&changer, kind, from), path(&changer, kind, to)).unwrap();
                let seen = [from, to].map(|at| look(&path(&viewer, kind, at)).is_some());
                if seen != [false, true] {
                    wrong.push((round, kind, seen));
                }
            }
        }
        has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(wrong, []);
    });
}

/// Who looks at the first object of a listing mostly looks at the others, too: these were looked up along with it.
#[test]
fn what_follows_in_a_listing_needs_no_server() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let [lister, other] = [Mounted::new(&stand), Mounted::new(&stand)];
    let mut round = 0;
    crate::stand::until("listed names are seen while no server runs", || {
        round += 1;
        let sub = format!("sub-{round}");
        fs::create_dir(other.at(&sub)).unwrap();
        for number in 0..10 {
            fs::write(other.at(&format!("{sub}/{number}")), vec![b'x'; number]).unwrap();
        }
        let listed = fs::read_dir(lister.at(&sub)).unwrap();
        let paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
        look(&paths[0]);
        let looked = paths.clone();
        let looks = move || -> Vec<_> { looked.iter().map(|path| look(path)).collect() };
        // If not, a lease has expired before, and the next round shows it.
        let seen = while_stopped(&stand.pids, looks);
        let names = paths.iter().map(|path| path.file_name().unwrap());
        let expected: Vec<_> = names.map(|name| look(&other.at(&sub).join(name))).collect();
        // They are under leases, as what the kernel has asked for.
        fs::remove_file(other.at(&format!("{sub}/7"))).unwrap();
        assert_eq!(look(&lister.at(&format!("{sub}/7"))), None);
        fs::set_permissions(other.at(&format!("{sub}/8")), Permissions::from_mode(0o600)).unwrap();
        let seen_now = look(&lister.at(&format!("{sub}/8"))).unwrap();
        assert_eq!(seen_now.mode & 0o7777, 0o600);
        seen == Some(expected)
    });
}

/// What is done while these processes are stopped, if that ends.
fn while_stopped<T: Send + 'static>(
    pids: &[i32],
    doing: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    for pid in pids {
        send(*pid, Signal::STOP);
    }
    let (said, done) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || said.send(doing()));
    let done = done.recv_timeout(std::time::Duration::from_secs(2)).ok();
    for pid in pids {
        send(*pid, Signal::CONT);
    }
    let _ = worker.join().unwrap();
    done
}

/// Also if neither its size nor its times say so.
#[test]
fn content_is_kept_from_one_open_to_the_next_until_somebody_writes() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    let [reader, writer] = mounts.each_ref().map(|mount| mount.at("file"));
    let content = |round: u8| vec![b'a' + round; 1 << 20];
    fs::write(&writer, content(0)).unwrap();
    let modified = fs::metadata(&writer).unwrap().modified().unwrap();
    for round in 0..3 {
        crate::stand::until("it is read while an I/O server is stopped", || {
            for _ in 0..2 {
                assert!(fs::read(&reader).unwrap() == content(round));
            }
            // The first one is the metadata server, too, which knows the file's users.
            let path = reader.clone();
            let read = while_stopped(&stand.pids[1..], move || fs::read(path));
            read.is_some_and(|read| read.is_ok_and(|read| read == content(round)))
        });
        let file = fs::File::options().write(true).open(&writer).unwrap();
        std::io::Write::write_all(&mut &file, &content(round + 1)).unwrap();
        file.set_modified(modified).unwrap();
        drop(file);
        assert!(fs::read(&reader).unwrap() == content(round + 1));
    }
}

/// A program reads the end of a file that another mount makes longer; then one opens it again and again. The kernel fills the last page with zeros, and shows them to a program if it learns of the
/// file's new size before it has dropped the page. It goes by an earlier size if it is told to drop it while it asks for one.
#[test]
fn readers_of_a_file_that_grows_see_all_of_it_and_nothing_else() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, two) = (Mounted::new(&stand), Mounted::new(&stand));
    let line = b"what is written has no zeros\n";
    const LINES: usize = 2000;
    let mut log = fs::File::create(two.at("log")).unwrap();
    let written = AtomicUsize::new(0);
    let mut append = || {
        for number in 0..LINES {
            log.write_all(line).unwrap();
            written.fetch_add(line.len(), Ordering::SeqCst);
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    // Where the read ends.
    let read = |file: &fs::File, from: usize| {
        let mut bytes = vec![0; 1 << 17];
        let count = file.read_at(&mut bytes, from as u64).unwrap();
        let expected = line.iter().cycle().skip(from % line.len());
        let is_right = bytes[..count].iter().eq(expected.take(count));
        assert!(is_right, "of {count} bytes from {from} on");
        from + count
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::File::open(one.at("log")).unwrap();
            while written.load(Ordering::SeqCst) < LINES * line.len() {
                read(&file, written.load(Ordering::SeqCst).saturating_sub(1000));
            }
        });
        append();
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut reads, mut short) = (0, 0);
            while written.load(Ordering::SeqCst) < 2 * LINES * line.len() {
                let before = written.load(Ordering::SeqCst);
                let end = read(&fs::File::open(one.at("log")).unwrap(), 0);
                reads += 1;
                short += usize::from(end < before);
            }
            // Before there are many changes in a row, the kernel now and then goes by an earlier size.
            assert!(
                short * 50 <= reads,
                "{short} of {reads} reads end too early"
            );
        });
        append();
    });
}

/// Both have the same directory locked in the kernel while their changes wait for each other's leases.
#[test]
fn mounts_that_change_one_directory_at_the_same_time_do_not_block_each_other() {
    if !can_mount() {
        return;
    }
    const ROUNDS: usize = 60;
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    std::thread::scope(|scope| {
        for (number, mount) in mounts.iter().enumerate() {
            scope.spawn(move || {
                let other = 1 - number;
                for round in 0..ROUNDS {
                    let own = mount.at(&format!("of-{number}-{round}"));
                    fs::write(&own, "x").unwrap();
                    assert_eq!(fs::metadata(&own).unwrap().len(), 1);
                    look(&mount.at(&format!("of-{other}-{round}")));
                    fs::metadata(mount.path()).unwrap();
                    fs::rename(&own, mount.at(&format!("kept-{number}-{round}"))).unwrap();
                    assert_eq!(look(&own), None);
                }
            });
        }
    });
    for mount in &mounts {
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 2 * ROUNDS);
    }
}

#[test]
fn a_mount_that_is_stopped_or_killed_delays_others_and_is_right_when_it_goes_on() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mut holder = Mounted::new(&stand);
    let other = Mounted::new(&stand);
    let set = |mount: &Mounted, mode| {
        fs::set_permissions(mount.at("file"), Permissions::from_mode(mode)).unwrap();
    };
    let mode = |mount: &Mounted| fs::metadata(mount.at("file")).unwrap().mode() & 0o777;
    fs::write(other.at("file"), "x").unwrap();
    for _ in 0..3 {
        assert_eq!(mode(&holder), 0o644);
    }
    let pid = holder.pid();
    send(pid, Signal::STOP);
    // The leases expire.
    set(&other, 0o600);
    fs::write(other.at("new"), "y").unwrap();
    send(pid, Signal::CONT);
    assert_eq!(mode(&holder), 0o600);
    assert_eq!(fs::read(holder.at("new")).unwrap(), b"y");
    set(&other, 0o640);
    assert_eq!(mode(&holder), 0o640);
    send(pid, Signal::KILL);
    set(&other, 0o604);
    assert_eq!(mode(&other), 0o604);
    holder.unmount();
}

#[test]
fn mounts_agree_after_the_server_was_killed() {
    if !can_mount() {
        return;
    }
    let mut stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    fs::write(mounts[0].at("file"), "x").unwrap();
    for round in 0..2u32 {
        for mount in &mounts {
            for _ in 0..3 {
                assert!(fs::metadata(mount.at("file")).is_ok());
            }
        }
        stand.start_again(None, str::to_owned);
        // The new server waits for leases that it does not know of.
        let permissions = Permissions::from_mode(0o600 + round);
        fs::set_permissions(mounts[0].at("file"), permissions).unwrap();
        for mount in &mounts {
            let mode = fs::metadata(mount.at("file")).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600 + round);
        }
    }
}
