//! Files and names as POSIX specifies them, on one mount and between two.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    renameat_with, utimensat,
};
use rustix::io::Errno;

use super::{Mounted, can_mount, shell};
use crate::stand::{Stand, until};

/// Entries of the large directory; `make test-mount` has many.
fn many() -> usize {
    let many = std::env::var("CAUSEWAY_MANY").ok();
    many.map_or(2500, |many| many.parse().expect("a number"))
}

#[test]
fn a_file_closed_or_synced_on_one_mount_is_seen_on_the_other() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    for round in 0..20 {
        let text = format!("round {round} ").repeat(1 + 300 * (round % 5));
        std::fs::write(one.at("file"), &text).unwrap();
        assert_eq!(std::fs::read_to_string(other.at("file")).unwrap(), text);
        // An editor's way.
        std::fs::write(other.at("new"), format!("{text}edited")).unwrap();
        std::fs::rename(other.at("new"), other.at("file")).unwrap();
        let seen = std::fs::read_to_string(one.at("file")).unwrap();
        assert_eq!(seen, format!("{text}edited"));
        assert_eq!(one.at("file").metadata().unwrap().len(), seen.len() as u64);
    }
    // The other mount does not use the names and attributes that it has just cached.
    for round in 0..10 {
        let path = one.at("seen");
        std::fs::write(other.at("seen"), "x".repeat(round)).unwrap();
        let mode = 0o600 + round as u32;
        std::fs::set_permissions(other.at("seen"), PermissionsExt::from_mode(mode)).unwrap();
        let seen = path.metadata().unwrap();
        assert_eq!((seen.len(), seen.mode() & 0o777), (round as u64, mode));
        std::fs::remove_file(other.at("seen")).unwrap();
        assert_eq!(path.metadata().unwrap_err().kind(), ErrorKind::NotFound);
    }
    let mut open = File::create(one.at("open")).unwrap();
    open.write_all(b"synced").unwrap();
    open.sync_all().unwrap();
    assert_eq!(std::fs::read(other.at("open")).unwrap(), b"synced");
    open.write_all(&[7; 100_000]).unwrap();
    open.sync_data().unwrap();
    assert_eq!(std::fs::read(other.at("open")).unwrap().len(), 100_006);
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(other.at("open"))
        .unwrap();
    assert_eq!(one.at("open").metadata().unwrap().len(), 0);
    // Files stored by the command are seen on the mount, and the other way round.
    std::fs::write(stand.directory.path().join("local"), "put").unwrap();
    stand.fs(&["put", "local", "/put"]).ok();
    assert_eq!(std::fs::read(one.at("put")).unwrap(), b"put");
    std::fs::write(one.at("put"), "mounted").unwrap();
    assert_eq!(stand.fs(&["cat", "/put"]).ok(), b"mounted");
}

#[test]
fn an_open_file_outlives_its_names() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (mut one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let open = |name: &str, content: &[u8]| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = options.open(one.at(name)).unwrap();
        file.write_all_at(content, 0).unwrap();
        file
    };
    let read = |file: &File| {
        let mut content = Vec::new();
        let mut file = file;
        file.rewind().unwrap();
        file.read_to_end(&mut content).unwrap();
        content
    };
    let large = vec![9; 300_000];
    let (small, big, replaced) = (
        open("small", b"abc"),
        open("big", &large),
        open("old", b"old"),
    );
    std::fs::remove_file(one.at("small")).unwrap();
    std::fs::remove_file(one.at("big")).unwrap();
    std::fs::write(one.at("new"), "new").unwrap();
    std::fs::rename(one.at("new"), one.at("old")).unwrap();
    assert_eq!(shell(other.path(), "ls -A"), "old\n");
    assert_eq!(std::fs::read(other.at("old")).unwrap(), b"new");
    small.write_all_at(b"def", 3).unwrap();
    assert_eq!(read(&small), b"abcdef");
    assert!(read(&big) == large);
    assert_eq!(read(&replaced), b"old");
    for file in [&small, &big, &replaced] {
        assert_eq!(file.metadata().unwrap().nlink(), 0);
        file.sync_all().unwrap();
    }
    // The last of several handles counts, also one that another program has.
    let again = small.try_clone().unwrap();
    drop(small);
    assert_eq!(read(&again), b"abcdef");
    drop((again, big, replaced));
    // The kernel reports a close after it.
    until("the files are gone", || objects(&stand) == 2);
    // Another party removes or replaces a file: another mount, or the command.
    let mut kept = File::create_new(other.at("kept")).unwrap();
    kept.write_all(b"kept").unwrap();
    stand.fs(&["rm", "/kept"]).ok();
    let mut replaced = File::open(one.at("old")).unwrap();
    std::fs::write(other.at("new"), "newer").unwrap();
    std::fs::rename(other.at("new"), other.at("old")).unwrap();
    kept.write_all(b" on").unwrap();
    kept.sync_all().unwrap();
    let mut content = [0; 7];
    let reader = File::open(format!("/proc/self/fd/{}", kept.as_raw_fd())).unwrap();
    reader.read_exact_at(&mut content, 0).unwrap();
    assert_eq!(&content, b"kept on");
    assert_eq!(shell(other.path(), "cat old"), "newer");
    let mut text = String::new();
    replaced.read_to_string(&mut text).unwrap();
    assert_eq!(text, "new");
    assert_eq!(kept.metadata().unwrap().len(), 7);
    drop((kept, reader, replaced));
    one.unmount();
    until("the files are gone", || objects(&stand) == 2);
    let findings = stand.fs(&["fsck"]).ok();
    let findings = String::from_utf8(findings).unwrap();
    assert!(!findings.contains("no name"), "{findings}");
}

/// Objects of the file system, the root directory among them.
pub(crate) fn objects(stand: &Stand) -> u64 {
    let shown = stand.fs(&["df", "--json"]).json();
    let servers = shown["servers"].as_array().unwrap();
    let of_metadata = servers.iter().find_map(|one| one["objects"].as_u64());
    of_metadata.expect("the metadata server counts objects")
}

#[test]
fn names_and_attributes_are_those_of_posix() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    // Every byte but slash and NUL, up to 255 of them.
    let bytes: Vec<u8> = (1..=255)
        .filter(|byte| *byte != b'/')
        .chain([b'x'])
        .collect();
    let name = OsStr::from_bytes(&bytes);
    assert_eq!(bytes.len(), 255);
    std::fs::write(mounted.path().join(name), "odd").unwrap();
    let listed: Vec<_> = std::fs::read_dir(mounted.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(listed, [name]);
    std::fs::remove_file(mounted.path().join(name)).unwrap();
    let long = std::fs::write(mounted.at(&"n".repeat(256)), "");
    assert_eq!(
        Errno::from_io_error(&long.unwrap_err()),
        Some(Errno::NAMETOOLONG)
    );

    let file = mounted.at("file");
    std::fs::write(&file, "0123456789").unwrap();
    let taken = File::create_new(&file).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o4751)).unwrap();
    assert_eq!(file.metadata().unwrap().mode(), 0o104_751);
    // A time to the nanosecond, one left alone, one that is now.
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let set = |last_access, last_modification| {
        let times = Timestamps {
            last_access,
            last_modification,
        };
        utimensat(CWD, &file, &times, AtFlags::empty()).unwrap();
        let found = file.metadata().unwrap();
        (
            (found.atime(), found.atime_nsec()),
            (found.mtime(), found.mtime_nsec()),
        )
    };
    let (odd, old) = ((1_234_567_890, 123_456_789), (-5, 1));
    assert_eq!(set(time(odd.0, odd.1), time(old.0, old.1)), (odd, old));
    let (accessed, modified) = set(time(0, UTIME_OMIT as _), time(0, UTIME_NOW as _));
    assert!(accessed == odd && modified.0 > 1_700_000_000);

    symlink("file", mounted.at("link")).unwrap();
    assert_eq!(mounted.at("link").read_link().unwrap().as_os_str(), "file");
    assert_eq!(std::fs::read(mounted.at("link")).unwrap(), b"0123456789");
    std::fs::hard_link(&file, mounted.at("second")).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 2);
    assert_eq!(
        file.metadata().unwrap().ino(),
        mounted.at("second").metadata().unwrap().ino()
    );

    let rename = |from, to, flags| renameat_with(CWD, mounted.at(from), CWD, mounted.at(to), flags);
    assert_eq!(
        rename("file", "link", RenameFlags::NOREPLACE),
        Err(Errno::EXIST)
    );
    assert_eq!(rename("file", "free", RenameFlags::NOREPLACE), Ok(()));
    let swap = RenameFlags::EXCHANGE;
    assert_eq!(rename("free", "link", swap), Ok(()));
    assert_eq!(mounted.at("free").read_link().unwrap().as_os_str(), "file");
    assert_eq!(std::fs::read(mounted.at("link")).unwrap(), b"0123456789");
    assert_eq!(rename("link", "free", swap), Ok(()));
    assert_eq!(rename("free", "none", swap), Err(Errno::NOENT));
    assert_eq!(
        rename("free", "link", swap | RenameFlags::NOREPLACE),
        Err(Errno::INVAL)
    );

    let directory = mounted.at("directory");
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("a"), "").unwrap();
    let full = std::fs::remove_dir(&directory).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DirectoryNotEmpty);
    std::fs::create_dir(directory.join("below")).unwrap();
    assert_eq!(directory.metadata().unwrap().nlink(), 3);
    let loops = std::fs::rename(&directory, directory.join("below/into")).unwrap_err();
    assert_eq!(Errno::from_io_error(&loops), Some(Errno::INVAL));

    let said = shell(
        mounted.path(),
        "umask 027; touch masked; mkfifo pipe; stat -c %a masked pipe",
    );
    assert_eq!(said, "640\n640\n");
}

#[test]
fn appenders_of_two_mounts_lose_nothing() {
    if !can_mount() {
        return;
    }
    const LINES: usize = 150;
    let stand = Stand::new();
    let mounts = [Mounted::new(&stand), Mounted::new(&stand)];
    std::thread::scope(|scope| {
        for (number, letter) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let path = mounts[number % 2].at("log");
            scope.spawn(move || {
                let mut log = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .open(path)
                    .unwrap();
                for number in 0..LINES {
                    // Some lines make the file outgrow its place beside the metadata.
                    let line = format!("{letter}{number} {}\n", letter.repeat(number));
                    log.write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
    let text = std::fs::read_to_string(mounts[0].at("log")).unwrap();
    let mut count = 0;
    for letter in ["a", "b", "c", "d"] {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with(letter))
            .collect();
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(*line, format!("{letter}{number} {}", letter.repeat(number)));
        }
        assert_eq!(lines.len(), LINES);
        count += LINES;
    }
    assert_eq!(text.lines().count(), count);
}

/// Appenders that keep the file open and alternate.
#[test]
fn data_is_appended_where_another_mount_has_moved_the_end() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let open = |mounted: &Mounted| {
        let mut options = OpenOptions::new();
        let options = options.append(true).read(true).create(true);
        options.open(mounted.at("log")).unwrap()
    };
    let (mut first, mut second) = (open(&one), open(&other));
    let mut expected = String::new();
    for round in 0..40 {
        let line = format!("{round} {}\n", "x".repeat(round * 40));
        let log = if round % 3 == 0 {
            &mut first
        } else {
            &mut second
        };
        log.write_all(line.as_bytes()).unwrap();
        expected.push_str(&line);
    }
    for log in [&mut first, &mut second] {
        let mut seen = String::new();
        log.rewind().unwrap();
        log.read_to_string(&mut seen).unwrap();
        assert!(
            seen == expected,
            "{} of {} bytes",
            seen.len(),
            expected.len()
        );
    }
}

#[test]
fn a_large_directory_is_listed_whole_while_entries_go() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let (one, other) = (Mounted::new(&stand), Mounted::new(&stand));
    let many = many();
    std::fs::create_dir(one.at("many")).unwrap();
    for number in 0..many {
        File::create(one.at(&format!("many/{number:07}"))).unwrap();
    }
    let mut seen = Vec::new();
    for entry in std::fs::read_dir(other.at("many")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let number: usize = name.parse().unwrap();
        if number.is_multiple_of(3) {
            std::fs::remove_file(one.at("many").join(&name)).unwrap();
        }
        seen.push(number);
    }
    assert!(
        seen == (0..many).collect::<Vec<_>>(),
        "{} entries",
        seen.len()
    );
    let left = std::fs::read_dir(one.at("many")).unwrap().count();
    assert_eq!(left, many - many.div_ceil(3));
    std::fs::remove_dir_all(one.at("many")).unwrap();
    assert_eq!(shell(other.path(), "ls"), "");
}

/// Readers that open a file while it is replaced, as editors do, have the old one or the new one, whole.
#[test]
fn readers_of_a_file_that_is_replaced_see_the_old_or_the_new_one() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    let content = |round: usize| vec![b'a' + (round % 20) as u8; 10_000];
    std::fs::write(mounted.at("file"), content(0)).unwrap();
    let (done, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // The kernel looks a file up again that is gone when it is to be opened, but only once.
                    let mut file = match File::open(mounted.at("file")) {
                        Err(error) if error.raw_os_error() == Some(Errno::STALE.raw_os_error()) => {
                            continue;
                        }
                        file => file.expect("there always is one"),
                    };
                    let mut bytes = Vec::new();
                    file.read_to_end(&mut bytes).expect("it is open");
                    assert_eq!(bytes.len(), 10_000);
                    assert!(bytes.iter().all(|byte| *byte == bytes[0]));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 1..400 {
            std::fs::write(mounted.at("new"), content(round)).unwrap();
            std::fs::rename(mounted.at("new"), mounted.at("file")).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(reads.into_inner() > 0);
}

/// What programs expect of directories, and errors of what the file system does not have.
#[test]
fn directories_are_as_local_ones_and_what_is_missing_is_refused_as_elsewhere() {
    if !can_mount() {
        return;
    }
    let stand = Stand::new();
    let mounted = Mounted::new(&stand);
    std::fs::create_dir_all(mounted.at("d/e")).unwrap();
    std::fs::write(mounted.at("d/x"), "").unwrap();
    for (path, expected) in [
        (mounted.at("d"), &[".", "..", "e", "x"][..]),
        (mounted.at("d/e"), &[".", ".."]),
        (mounted.path().to_owned(), &[".", "..", "d"]),
    ] {
        let directory = File::open(&path).unwrap();
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == c"." {
                assert_eq!(entry.ino(), directory.metadata().unwrap().ino());
            }
            names.push(entry.file_name().to_str().unwrap().to_owned());
        }
        names.sort();
        assert_eq!(names, expected, "{}", path.display());
    }
    let links = |name: &str| mounted.at(name).metadata().unwrap().nlink();
    assert_eq!((links(""), links("d"), links("d/e")), (3, 3, 2));
    // A file without a name, and a device in the place of a name that goes.
    let unnamed = rustix::fs::open(
        mounted.at("d"),
        OFlags::TMPFILE | OFlags::RDWR,
        Mode::from_raw_mode(0o600),
    );
    assert_eq!(unnamed.err(), Some(Errno::OPNOTSUPP));
    for flags in [
        RenameFlags::WHITEOUT,
        RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
        RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
    ] {
        let (from, to) = (mounted.at("d/x"), mounted.at("d/y"));
        let renamed = rustix::fs::renameat_with(CWD, &from, CWD, &to, flags);
        assert_eq!(renamed, Err(Errno::INVAL), "{flags:?}");
        assert!(from.exists() && !to.exists());
    }
}
