//! Wrong arguments, signals, other writers, odd files and links in the way lose or alter no data.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Child;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::process::Signal;

use super::stand::{Run, Stand, one_object, send, until};

fn listed(stand: &Stand, path: &str) -> String {
    String::from_utf8(stand.fs(&["ls", path]).ok()).unwrap()
}

fn tree(stand: &Stand) -> String {
    String::from_utf8(stand.fs(&["ls", "-R", "/"]).ok()).unwrap()
}

#[test]
fn ambiguous_names_are_refused_before_any_change() {
    let stand = Stand::new();
    stand.fs(&["mkdir", "-p", "/d/e", "/v/w", "/keep"]).ok();
    stand.fs(&["touch", "/d/file", "/keep/file", "/v/w/x"]).ok();
    let before = tree(&stand);
    for arguments in [
        &["rm", "-r", "/d/.."][..],
        &["rm", "-rf", "/keep/."],
        &["rm", "-r", "/v/w/.."],
        &["rm", "-r", "/v/w/../"],
        &["rm", "-r", "/keep", "/v/w/.."],
        &["rm", "-f", "/keep/file", "/d/."],
        &["mv", "/d/.", "/gone"],
        &["mv", "/keep", "/d/.."],
        &["mkdir", "-p", "/new/deep/.."],
        &["chmod", "-R", "0", "/d/.."],
        &["cp", "-r", "/d/..", "/keep"],
        &["truncate", "-s", "0", "/d/."],
        &["get", "/d/..", "."],
        &["ln", "-s", "..", "/d"],
        &["mkdir", "-p", "--servers", "99", "/new/deep"],
        &["mv", "/d/file", "/keep/file", "/v"],
    ] {
        let left = stand.fs(arguments).left();
        assert_eq!(left.code, Some(2), "{arguments:?}: {}", left.err);
        assert_eq!(tree(&stand), before, "{arguments:?}");
    }
    assert_eq!(
        stand.fs(&["stat", "--json", "/d"]).json()["entries"][0]["mode"],
        "0755"
    );
}

#[test]
fn all_names_are_checked_before_any_is_removed_or_renamed() {
    let stand = Stand::new();
    stand.fs(&["mkdir", "-p", "/a/b", "/into"]).ok();
    stand.fs(&["touch", "/a/b/x", "/file"]).ok();
    stand.fs(&["ln", "-s", "a", "/link"]).ok();
    let before = tree(&stand);
    for arguments in [
        &["rm", "-r", "/a", "/missing"][..],
        &["rm", "-r", "/a", "/"],
        &["rm", "/file", "/a"],
        &["rm", "-r", "/link/"],
        &["rm", "-r", "/file/"],
        &["rm", "-rf", "/a", "/file/"],
        &["mv", "/file", "/missing", "/into"],
        &["mv", "/file/", "/into"],
        &["cat", "/file/"],
        &["stat", "/file/"],
        &["touch", "/file/"],
        &["truncate", "-s", "9", "/file/"],
        &["chmod", "600", "/file/"],
        &["cp", "/file/", "/into"],
        &["ln", "/file", "/new/"],
        &["get", "/file/", "copy"],
    ] {
        let said = stand.fs(arguments).fails(1);
        assert!(!said.contains(": : "), "{arguments:?}: {said}");
        assert_eq!(tree(&stand), before, "{arguments:?}");
    }
    stand
        .fs(&["rm", "-rf", "/a", "/missing", "/missing/x"])
        .ok();
    stand.fs(&["rm", "/link"]).ok();
    assert_eq!(listed(&stand, "/"), "file\ninto\n");
}

/// A local tree so deep that no path reaches its end, and the file there.
fn make_deep(top: &Path) {
    fs::create_dir(top).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut directory = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    let name = "d".repeat(230);
    for _ in 0..20 {
        rustix::fs::mkdirat(&directory, &name, Mode::RWXU).unwrap();
        directory = rustix::fs::openat(&directory, &name, flags, Mode::empty()).unwrap();
    }
    let flags = OFlags::WRONLY | OFlags::CREATE;
    rustix::fs::openat(&directory, "leaf", flags, Mode::RUSR).unwrap();
}

#[test]
fn paths_longer_than_any_request_are_stored_fetched_copied_and_removed() {
    let stand = Stand::new();
    let here = stand.directory.path();
    make_deep(&here.join("deep"));
    stand.fs(&["put", "deep", "/deep"]).ok();
    stand.fs(&["cp", "-r", "/deep", "/copy"]).ok();
    stand.fs(&["get", "/copy", "back"]).ok();
    let sum = stand.fs(&["du", "--json", "/copy"]).json();
    assert_eq!(sum["entries"][0]["directories"], 20);
    assert_eq!(sum["entries"][0]["files"], 1);
    stand.fs(&["put", "back", "/again"]).ok();
    let sum = stand.fs(&["du", "--json", "/again"]).json();
    assert_eq!(sum["entries"][0]["files"], 1);
    stand.fs(&["rm", "-r", "/deep", "/copy", "/again"]).ok();
    assert_eq!(listed(&stand, "/"), "");
}

/// Starts storing an endless input over `/kept`, and waits until some of it is stored.
fn unending_put(stand: &Stand) -> Child {
    let mut child = stand.fs(&["put", "-", "/kept"]).start();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&vec![7; 9 << 20]).unwrap();
    until("something is stored under another name", || {
        stand.fs(&["ls", "--json", "/"]).json()["entries"]
            .as_array()
            .unwrap()
            .iter()
            .any(|entry| {
                let partial = entry["name"].as_str().unwrap().ends_with(".partial");
                partial && entry["size_bytes"].as_u64().unwrap() > 1 << 20
            })
    });
    // Open until the command has ended.
    child.stdin = Some(input);
    child
}

#[test]
fn an_interrupted_writer_leaves_the_old_file_and_nothing_else() {
    let stand = Stand::new();
    stand.fs(&["put", "-", "/kept"]).input(b"old").ok();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut child = unending_put(&stand);
        send(child.id() as i32, signal);
        // Not `wait`, which would close the input first.
        until("the command has ended", || {
            child.try_wait().unwrap().is_some()
        });
        let code = child.try_wait().unwrap().unwrap().code();
        assert_eq!(code, Some(128 + signal.as_raw()));
        assert_eq!(listed(&stand, "/"), "kept\n");
        assert_eq!(stand.fs(&["cat", "/kept"]).ok(), b"old");
    }
}

#[test]
fn a_killed_writer_leaves_the_old_file_and_a_temporary_one_that_can_be_found() {
    let stand = Stand::new();
    stand.fs(&["put", "-", "/kept"]).input(b"old").ok();
    let mut child = unending_put(&stand);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(stand.fs(&["cat", "/kept"]).ok(), b"old");
    assert_eq!(listed(&stand, "/").lines().count(), 2);
    // Trees are copied without it.
    let copied = stand.fs(&["get", "--json", "/", "back"]).json();
    assert_eq!(copied["unfinished_skipped"], 1);
    let names = fs::read_dir(stand.directory.path().join("back")).unwrap();
    assert_eq!(names.count(), 1);
    // A writer may still be at work: it is not removed before a day has passed.
    let removed = stand.fs(&["rm", "--json", "--partial", "/"]).json();
    assert_eq!(removed["removed"], 0);
    let removed = stand
        .fs(&["rm", "--json", "--partial", "--idle", "0", "/"])
        .json();
    assert_eq!(removed["removed"], 1);
    assert_eq!(listed(&stand, "/"), "kept\n");
    assert_eq!(stand.fs(&["fsck", "--json"]).json()["found"], 0);
}

#[test]
fn writers_killed_at_any_moment_leave_the_old_or_the_new() {
    let stand = Stand::new();
    let here = stand.directory.path();
    let len = 3 << 20;
    for round in 0..12_u8 {
        fs::write(here.join("new"), vec![round + 1; len + usize::from(round)]).unwrap();
        let mut child = stand.fs(&["put", "new", "/file"]).start();
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round) * 4));
        child.kill().unwrap();
        child.wait().unwrap();
        let Ok(found) = whole(&stand, len) else {
            assert!(!listed(&stand, "/").contains("file"));
            continue;
        };
        assert!(found <= round + 1, "{found} in round {round}");
    }
}

/// The writer whose content `/file` has; it must be all of one writer.
fn whole(stand: &Stand, len: usize) -> Result<u8, String> {
    let left = stand.fs(&["cat", "/file"]).left();
    if left.code != Some(0) {
        return Err(left.err);
    }
    let first = left.out[0];
    assert_eq!(
        left.out.len(),
        len + usize::from(first) - 1,
        "the size is another writer's"
    );
    assert!(left.out.iter().all(|byte| *byte == first), "a mixture");
    Ok(first)
}

#[test]
fn the_file_of_one_of_several_writers_is_kept_whole() {
    let stand = Stand::new();
    let here = stand.directory.path();
    for len in [2_000, 700_000] {
        for writer in 0..8_u8 {
            let content = vec![writer + 1; len + usize::from(writer)];
            fs::write(here.join(format!("source{writer}")), content).unwrap();
        }
        for verb in ["put", "cp"] {
            let mut sources: Vec<String> = (0..8).map(|writer| format!("source{writer}")).collect();
            if verb == "cp" {
                for source in &mut sources {
                    let there = format!("/{source}");
                    stand.fs(&["put", source, &there]).ok();
                    *source = there;
                }
            }
            let writers: Vec<Child> = sources
                .iter()
                .map(|source| stand.fs(&[verb, source, "/file"]).start())
                .collect();
            for writer in writers {
                let left = writer.wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&left.stderr).into_owned();
                assert!(left.status.success(), "{said}");
            }
            whole(&stand, len).unwrap();
        }
        stand.fs(&["rm", "/file"]).ok();
    }
    assert!(!listed(&stand, "/").contains("partial"));
}

#[test]
fn only_inplace_copies_keep_names_and_distribution() {
    let stand = Stand::new();
    let servers = |path: &str| {
        let node = stand.fs(&["stat", "--json", path]).json();
        node["entries"][0]["servers"].as_array().unwrap().len()
    };
    stand.fs(&["put", "-", "/a"]).input(&[1; 50_000]).ok();
    stand.fs(&["ln", "/a", "/b"]).ok();
    stand
        .fs(&["put", "--inplace", "-", "/a"])
        .input(&[2; 40_000])
        .ok();
    assert_eq!(stand.fs(&["cat", "/b"]).ok(), [2; 40_000]);
    stand
        .fs(&["put", "--inplace", "--servers", "1", "-", "/a"])
        .input(b"x")
        .fails(1);
    assert_eq!(stand.fs(&["cat", "/b"]).ok(), [2; 40_000]);
    assert_eq!(servers("/a"), 2);
    stand
        .fs(&["put", "--servers", "1", "--no-sync", "-", "/a"])
        .input(&[3; 50_000])
        .ok();
    assert_eq!(servers("/a"), 1);
    assert_eq!(stand.fs(&["cat", "/b"]).ok(), [2; 40_000]);
    stand.fs(&["put", "--servers", "99", "-", "/a"]).fails(2);
    stand.fs(&["put", "--servers", "0", "-", "/a"]).fails(2);
    // A link gives way to a file; a directory does not.
    stand.fs(&["ln", "-s", "b", "/link"]).ok();
    stand.fs(&["put", "-", "/link"]).input(b"file").ok();
    assert_eq!(stand.fs(&["cat", "/b"]).ok(), [2; 40_000]);
    assert_eq!(stand.fs(&["cat", "/link"]).ok(), b"file");
    stand.fs(&["mkdir", "-p", "/d/source"]).ok();
    fs::write(stand.directory.path().join("source"), b"x").unwrap();
    let said = stand.fs(&["put", "source", "/d"]).fails(1);
    assert!(said.contains("directory"), "{said}");
    assert_eq!(listed(&stand, "/d"), "source\n");
}

#[test]
fn a_file_copied_onto_itself_stays() {
    let stand = Stand::new();
    let bytes = vec![5; 100_000];
    stand.fs(&["put", "-", "/a"]).input(&bytes).ok();
    stand.fs(&["ln", "/a", "/hard"]).ok();
    stand.fs(&["ln", "-s", "a", "/soft"]).ok();
    for to in ["/a", "/hard", "//a", "/./a"] {
        for arguments in [&["cp", "/a", to][..], &["cp", "--inplace", "/a", to]] {
            let said = stand.fs(arguments).fails(1);
            assert!(said.contains("same file"), "{said}");
            assert!(stand.fs(&["cat", "/a"]).ok() == bytes);
        }
    }
    stand.fs(&["cp", "--inplace", "/a", "/soft"]).fails(1);
    assert!(stand.fs(&["cat", "/a"]).ok() == bytes);
    stand.fs(&["mkdir", "-p", "/d/e"]).ok();
    stand.fs(&["ln", "-s", "d/e", "/e"]).ok();
    for to in ["/d/inside", "/d/../d/inside", "/e/inside", "/e", "/d"] {
        stand.fs(&["cp", "-r", "/d", to]).fails(1);
    }
    assert_eq!(listed(&stand, "/d/e"), "");
}

#[test]
fn other_than_regular_files_are_read_or_left_out_but_never_empty() {
    let stand = Stand::new();
    let here = stand.directory.path();
    let pipe = here.join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    for len in [3, 100_000] {
        let path = pipe.clone();
        let feeding = std::thread::spawn(move || fs::write(path, vec![9; len]).unwrap());
        stand.fs(&["put", "pipe", "/piped"]).ok();
        feeding.join().unwrap();
        assert_eq!(stand.fs(&["cat", "/piped"]).ok(), vec![9; len]);
    }
    stand.fs(&["put", "/dev/stdin", "/in"]).input(b"data").ok();
    assert_eq!(stand.fs(&["cat", "/in"]).ok(), b"data");
    // In a tree the command would wait for it for ever.
    fs::create_dir(here.join("tree")).unwrap();
    fs::rename(&pipe, here.join("tree/pipe")).unwrap();
    fs::write(here.join("tree/file"), b"x").unwrap();
    let left = stand.fs(&["put", "--json", "tree", "/tree"]).left();
    assert!(left.err.contains("tree/pipe"), "{}", left.err);
    assert_eq!(one_object(&left.out)["skipped"], 1);
    assert_eq!(listed(&stand, "/tree"), "file\n");
}

#[test]
fn a_special_file_is_written_to_and_not_replaced() {
    let stand = Stand::new();
    let here = stand.directory.path();
    stand.fs(&["put", "-", "/x"]).input(&[4; 50_000]).ok();
    // As /dev/null is.
    let null = here.join("null");
    let device = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, &null, FileType::CharacterDevice, Mode::RWXU, device).unwrap();
    stand.fs(&["get", "/x", "null"]).ok();
    let kind = fs::symlink_metadata(&null).unwrap().file_type();
    assert!(kind.is_char_device());
    let pipe = here.join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let path = pipe.clone();
    let reading = std::thread::spawn(move || fs::read(path).unwrap());
    stand.fs(&["get", "/x", "pipe"]).ok();
    assert_eq!(reading.join().unwrap(), [4; 50_000]);
    assert_eq!(stand.fs(&["get", "/x", "/dev/stdout"]).ok(), [4; 50_000]);
}

#[test]
fn links_in_the_destination_lead_nowhere() {
    let stand = Stand::new();
    let here = stand.directory.path();
    fs::create_dir_all(here.join("source/sub/deep")).unwrap();
    fs::write(here.join("source/sub/deep/file"), b"new").unwrap();
    fs::write(here.join("source/sub/file"), b"new").unwrap();
    fs::write(here.join("source/other"), b"new").unwrap();
    stand.fs(&["put", "source", "/tree"]).ok();
    fs::create_dir_all(here.join("outside/deep")).unwrap();
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(here.join("outside"), mode).unwrap();
    fs::write(here.join("outside/other"), b"old").unwrap();
    fs::create_dir_all(here.join("into/tree")).unwrap();
    symlink("../../outside", here.join("into/tree/sub")).unwrap();
    symlink("../../outside/other", here.join("into/tree/other")).unwrap();
    let said = stand.fs(&["get", "/tree", "into"]).fails(1);
    assert!(
        said.contains("into/tree/sub") && said.contains("symbolic link"),
        "{said}"
    );
    assert!(!said.contains(": : "), "{said}");
    // The link to a file has given way to the file.
    assert_eq!(fs::read(here.join("into/tree/other")).unwrap(), b"new");
    symlink("../outside", here.join("into/link")).unwrap();
    stand.fs(&["mv", "/tree", "/link"]).ok();
    stand.fs(&["get", "/link", "into"]).fails(1);
    assert_eq!(fs::read(here.join("outside/other")).unwrap(), b"old");
    assert_eq!(fs::read_dir(here.join("outside")).unwrap().count(), 2);
    assert_eq!(fs::read_dir(here.join("outside/deep")).unwrap().count(), 0);
    assert_eq!(
        fs::metadata(here.join("outside")).unwrap().mode() & 0o777,
        0o700
    );
    // The same the other way round.
    stand.fs(&["mkdir", "/elsewhere", "/back"]).ok();
    stand.fs(&["mkdir", "/back/source"]).ok();
    stand
        .fs(&["ln", "-s", "/elsewhere", "/back/source/sub"])
        .ok();
    let said = stand.fs(&["put", "source", "/back"]).fails(1);
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(listed(&stand, "/elsewhere"), "");
}

/// Bytes of storage that a directory's files occupy, the metadata apart: they keep room for removals.
fn occupied(directory: &Path) -> u64 {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("metadata"))
        .map(|path| {
            let known = fs::symlink_metadata(&path).unwrap();
            match known.is_dir() {
                true => occupied(&path),
                false => known.blocks() * 512,
            }
        })
        .sum()
}

#[test]
fn holes_stay_holes() {
    let stand = Stand::new();
    let here = stand.directory.path();
    for (name, size) in [
        ("sparse", 64_u64 << 20),
        ("large", 200 << 20),
        ("all", 20 << 20),
    ] {
        let file = fs::File::create(here.join(name)).unwrap();
        file.set_len(size).unwrap();
        if name != "all" {
            file.write_all_at(&[1; 5000], 30 << 20).unwrap();
            file.write_all_at(&[2; 10], size - (10 << 20)).unwrap();
        }
    }
    let stored = stand.config.parent().unwrap();
    let before = occupied(stored);
    for name in ["sparse", "large", "all"] {
        let (there, copy) = (format!("/{name}"), format!("/{name}-copy"));
        stand.fs(&["put", name, &there]).ok();
        stand.fs(&["cp", &there, &copy]).ok();
        stand.fs(&["get", &copy, "back"]).ok();
        let (one, other) = (here.join(name), here.join("back"));
        assert!(
            fs::read(one).unwrap() == fs::read(&other).unwrap(),
            "{name}"
        );
        let taken = fs::metadata(&other).unwrap().blocks() * 512;
        assert!(taken < 1 << 20, "{name} takes {taken} bytes here");
    }
    let taken = occupied(stored) - before;
    assert!(taken < 10 << 20, "{taken} bytes in the file system");
}

#[test]
fn links_owners_and_times_are_kept() {
    let stand = Stand::new();
    let here = stand.directory.path();
    fs::create_dir_all(here.join("tree/sub")).unwrap();
    fs::write(here.join("tree/first"), [1; 20_000]).unwrap();
    fs::hard_link(here.join("tree/first"), here.join("tree/second")).unwrap();
    fs::hard_link(here.join("tree/first"), here.join("tree/sub/third")).unwrap();
    symlink("first", here.join("tree/link")).unwrap();
    let time = |tv_sec| Timespec { tv_sec, tv_nsec: 5 };
    let times = Timestamps {
        last_access: time(1_000),
        last_modification: time(2_000),
    };
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(CWD, here.join("tree/link"), &times, nofollow).unwrap();
    for name in ["tree/link", "tree/first", "tree/sub"] {
        std::os::unix::fs::lchown(here.join(name), Some(1234), Some(4321)).unwrap();
    }
    let mode = fs::Permissions::from_mode(0o4755);
    fs::set_permissions(here.join("tree/first"), mode).unwrap();
    stand.fs(&["put", "tree", "/tree"]).ok();
    stand.fs(&["cp", "-rp", "/tree", "/copy"]).ok();
    // Once more over the existing files.
    stand.fs(&["put", "tree/.", "/tree"]).ok();
    for path in ["/tree", "/copy"] {
        let node = stand
            .fs(&["stat", "--json", &format!("{path}/sub/third")])
            .json();
        let node = &node["entries"][0];
        assert_eq!(
            (&node["links"], &node["uid"]),
            (&3.into(), &1234.into()),
            "{path}"
        );
        stand.fs(&["get", path, "back"]).ok();
        let back = |name: &str| fs::symlink_metadata(here.join("back").join(name)).unwrap();
        let (first, link) = (back("first"), back("link"));
        assert_eq!(first.nlink(), 3);
        assert_eq!(first.ino(), back("second").ino());
        assert_eq!(first.ino(), back("sub/third").ino());
        assert_eq!(
            (first.uid(), first.gid(), first.mode() & 0o7777),
            (1234, 4321, 0o4755)
        );
        assert_eq!((link.uid(), link.gid()), (1234, 4321));
        assert_eq!((link.mtime(), link.mtime_nsec()), (2_000, 5));
        assert_eq!(back("sub").uid(), 1234);
        fs::remove_dir_all(here.join("back")).unwrap();
    }
    // A copy owned by root has no set-id bits.
    stand.fs(&["cp", "/tree/first", "/mine"]).ok();
    let node = stand.fs(&["stat", "--json", "/mine"]).json();
    assert_eq!(node["entries"][0]["uid"], 0);
    assert_eq!(node["entries"][0]["mode"], "0755");
}

#[test]
fn lost_attributes_are_counted_and_reported_once() {
    let stand = Stand::new();
    let here = stand.directory.path();
    fs::create_dir(here.join("tree")).unwrap();
    for name in ["a", "b"] {
        let path = here.join("tree").join(name);
        fs::write(&path, b"x").unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(&path, "user.note", b"kept", flags).unwrap();
    }
    let left = stand.fs(&["put", "--json", "tree", "/tree"]).left();
    assert_eq!(left.code, Some(0), "{}", left.err);
    assert_eq!(one_object(&left.out)["extended_attributes_dropped"], 2);
    assert_eq!(
        left.err.matches("extended attributes").count(),
        1,
        "{}",
        left.err
    );
}

#[test]
fn wrong_use_is_reported_as_one_json_object() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["fs", "put", "--json"][..],
        &["fs", "ls", "--json", "relative"],
        &["fs", "rm", "-r", "/d/..", "--json"],
        &["fs", "put", "--json", "-j", "0", "x", "/x"],
        &["fs", "nonsense", "--json"],
        &["fs", "ls", "--json"],
    ] {
        let left = Run::new(directory.path(), arguments).left();
        assert_eq!(left.code, Some(2), "{arguments:?}");
        let error = &one_object(&left.out)["error"];
        assert!(!error["why"].as_str().unwrap().is_empty(), "{arguments:?}");
    }
    for verb in ["put", "get", "cp"] {
        for jobs in ["0", "257", "100000", "x"] {
            let left = Run::new(directory.path(), &["fs", verb, "-j", jobs, "/x", "/y"]).left();
            assert_eq!(left.code, Some(2), "{verb} -j {jobs}");
            assert!(jobs == "x" || left.err.contains("1..=256"), "{}", left.err);
        }
    }
}

#[test]
fn a_writer_that_fails_leaves_the_old_file_and_nothing_else() {
    let stand = Stand::new();
    let here = stand.directory.path();
    stand.fs(&["put", "-", "/kept"]).input(b"old").ok();
    fs::create_dir(here.join("tree")).unwrap();
    for name in ["kept", "large", "new"] {
        let size = if name == "large" { 130 << 20 } else { 9 << 20 };
        let file = fs::File::create(here.join("tree").join(name)).unwrap();
        file.write_all_at(&vec![1; 9 << 20], size - (9 << 20))
            .unwrap();
    }
    let victim = *stand.pids.last().unwrap();
    send(victim, Signal::KILL);
    until("the server is dead", || !super::stand::runs(victim));
    let impatient = stand.impatient();
    let said = stand
        .fs(&["put", "tree/.", "/"])
        .config(&impatient)
        .fails(1);
    assert!(said.contains("io1"), "{said}");
    assert!(!said.contains(": : "), "{said}");
    assert_eq!(listed(&stand, "/"), "kept\n");
    assert_eq!(stand.fs(&["cat", "/kept"]).ok(), b"old");
}
