//! Files are stored and read back unchanged.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::stand::{Stand, one_object};

/// Bytes that differ from place to place and seed to seed.
fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8 ^ seed)
        .collect()
}

/// A tree with every kind of object that commands copy.
fn make_tree(top: &Path) {
    fs::create_dir_all(top.join("deep/er/est")).unwrap();
    fs::create_dir_all(top.join("empty")).unwrap();
    for (at, len) in [0, 1, 4095, 16_384, 16_385, 70_000, 3_000_000]
        .into_iter()
        .enumerate()
    {
        fs::write(top.join(format!("deep/file-{len}")), content(len, at as u8)).unwrap();
    }
    // Every byte that a name can have.
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        let name = [b'n', byte, b'x'];
        fs::write(top.join(OsStr::from_bytes(&name)), [byte]).unwrap();
    }
    fs::write(top.join("a".repeat(255)), b"long").unwrap();
    symlink("deep/file-1", top.join("link")).unwrap();
    symlink("/no/where", top.join("deep/dangling")).unwrap();
    symlink("..", top.join("deep/up")).unwrap();
    let special = top.join("deep/file-4095");
    fs::set_permissions(&special, fs::Permissions::from_mode(0o4750)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::options()
        .write(true)
        .open(&special)
        .unwrap()
        .set_modified(old)
        .unwrap();
    fs::set_permissions(top.join("deep/er"), fs::Permissions::from_mode(0o510)).unwrap();
}

/// Compares two trees: names, kinds, modes, times, contents, targets.
fn compare(one: &Path, other: &Path) -> usize {
    let (a, b) = (
        fs::symlink_metadata(one).unwrap(),
        fs::symlink_metadata(other).unwrap(),
    );
    assert_eq!(a.file_type(), b.file_type(), "{}", one.display());
    if a.is_symlink() {
        assert_eq!(fs::read_link(one).unwrap(), fs::read_link(other).unwrap());
        return 1;
    }
    assert_eq!(a.mode(), b.mode(), "{}", one.display());
    assert_eq!(
        (a.mtime(), a.mtime_nsec()),
        (b.mtime(), b.mtime_nsec()),
        "{}",
        one.display()
    );
    if a.is_file() {
        assert!(
            fs::read(one).unwrap() == fs::read(other).unwrap(),
            "{}",
            one.display()
        );
        return 1;
    }
    let names = |path: &Path| {
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(one), names(other), "{}", one.display());
    names(one)
        .iter()
        .map(|name| compare(&one.join(name), &other.join(name)))
        .sum()
}

#[test]
fn a_tree_comes_back_as_it_went_in() {
    let stand = Stand::new();
    let here = stand.directory.path();
    make_tree(&here.join("tree"));
    let stored = stand.fs(&["put", "--json", "tree", "/tree"]).json();
    assert_eq!(stored["failures"], 0);
    stand.fs(&["get", "/tree", "back"]).ok();
    assert_eq!(
        compare(&here.join("tree"), &here.join("back")),
        7 + 254 + 1 + 3
    );

    // Into a directory that exists; then a copy inside the file system.
    fs::create_dir(here.join("into")).unwrap();
    stand.fs(&["get", "-j", "1", "/tree", "into"]).ok();
    compare(&here.join("tree"), &here.join("into/tree"));
    stand.fs(&["cp", "-rp", "/tree", "/copy"]).ok();
    stand.fs(&["get", "/copy", "copied"]).ok();
    compare(&here.join("tree"), &here.join("copied"));

    // Once more over what is there.
    fs::write(here.join("tree/deep/file-70000"), b"now short").unwrap();
    fs::write(here.join("tree/deep/file-1"), content(200_000, 9)).unwrap();
    stand.fs(&["put", "tree/.", "/tree"]).ok();
    stand.fs(&["get", "/tree", "again"]).ok();
    compare(&here.join("tree"), &here.join("again"));

    let sum = stand.fs(&["du", "--json", "/tree"]).json();
    assert_eq!(sum["entries"][0]["files"], 7 + 254 + 1);
    assert_eq!(sum["entries"][0]["links"], 3);
    stand.fs(&["rm", "-r", "/tree", "/copy"]).ok();
    assert_eq!(stand.fs(&["ls"]).ok(), b"");
    let checked = stand.fs(&["fsck", "--json"]).json();
    assert_eq!(checked["found"], 0);
}

#[test]
fn a_large_file_is_moved_in_parts() {
    let stand = Stand::new();
    let here = stand.directory.path();
    // Sparse on this side, so that only some of it takes room.
    let size = (130 << 20) + 12_345;
    let file = fs::File::create(here.join("large")).unwrap();
    file.set_len(size).unwrap();
    for at in [0, (64 << 20) - 5, 128 << 20, size - 100] {
        file.write_all_at(&content(100, at as u8), at).unwrap();
    }
    stand.fs(&["put", "-j", "3", "large", "/large"]).ok();
    stand.fs(&["get", "-j", "3", "/large", "back"]).ok();
    compare(&here.join("large"), &here.join("back"));
    let leftovers: Vec<_> = fs::read_dir(here)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.as_bytes().starts_with(b".causeway"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn pipes_carry_files() {
    let stand = Stand::new();
    for len in [0, 5, 5_000_000] {
        let bytes = content(len, 3);
        stand.fs(&["put", "-", "/piped"]).input(&bytes).ok();
        assert!(stand.fs(&["cat", "/piped"]).ok() == bytes);
        assert!(stand.fs(&["get", "/piped", "-"]).ok() == bytes);
    }
    stand.fs(&["put", "-", "/two"]).input(b"two").ok();
    stand.fs(&["put", "-", "/one"]).input(b"one").ok();
    assert_eq!(stand.fs(&["cat", "/one", "/two"]).ok(), b"onetwo");
    stand.fs(&["put", "-", "/"]).input(b"x").fails(2);
    let said = stand.fs(&["cat", "/one", "/missing", "/two"]).left();
    assert_eq!((said.code, said.out.as_slice()), (Some(1), &b"onetwo"[..]));
}

#[test]
fn names_are_changed() {
    let stand = Stand::new();
    let ok = |arguments: &[&str]| stand.fs(arguments).ok();
    let listed = |path: &str| String::from_utf8(stand.fs(&["ls", path]).ok()).unwrap();
    let said = stand.fs(&["mkdir", "/a/b/c"]).fails(1);
    assert!(said.contains("-p"), "{said}");
    ok(&["mkdir", "-p", "/a/b/c"]);
    ok(&["mkdir", "-p", "/a/b/c"]);
    ok(&["touch", "/a/one", "/a/two"]);
    ok(&["mv", "/a/one", "/a/two", "/a/b"]);
    assert_eq!(listed("/a/b"), "c\none\ntwo\n");
    stand.fs(&["mv", "-n", "/a/b/one", "/a/b/two"]).fails(1);
    ok(&["mv", "/a/b/one", "/a/b/two"]);
    assert_eq!(listed("/a/b"), "c\ntwo\n");
    ok(&["ln", "/a/b/two", "/hard"]);
    ok(&["ln", "-s", "a/b", "/soft"]);
    assert_eq!(listed("/soft"), "c\ntwo\n");
    let node = stand.fs(&["stat", "--json", "/hard"]).json();
    assert_eq!(node["entries"][0]["links"], 2);
    let node = stand.fs(&["stat", "--json", "/soft"]).json();
    assert_eq!(node["entries"][0]["target"], "a/b");
    let node = stand.fs(&["stat", "--json", "-L", "/soft"]).json();
    assert_eq!(node["entries"][0]["kind"], "directory");

    stand.fs(&["rm", "/a"]).fails(1);
    stand.fs(&["rm", "/missing"]).fails(1);
    stand.fs(&["rm", "-r", "/"]).fails(1);
    ok(&["rm", "-f", "/missing"]);
    ok(&["rm", "-r", "/a", "/hard", "/soft"]);
    assert_eq!(listed("/"), "");
}

#[test]
fn attributes_are_changed() {
    let stand = Stand::new();
    let ok = |arguments: &[&str]| stand.fs(arguments).ok();
    let entry = |path: &str| stand.fs(&["stat", "--json", path]).json()["entries"][0].clone();
    ok(&["touch", "--time", "1000", "/x"]);
    assert_eq!(entry("/x")["modified"]["seconds"], 1000);
    ok(&["touch", "-c", "/y"]);
    stand.fs(&["stat", "/y"]).fails(1);
    ok(&["chmod", "640", "/x"]);
    assert_eq!(entry("/x")["mode"], "0640");
    ok(&["chmod", "u+x,o=r", "/x"]);
    assert_eq!(entry("/x")["mode"], "0744");
    for size in [0_u64, 10, 16_384, 100_000, 5 << 20, 3] {
        ok(&["truncate", "-s", &size.to_string(), "/x"]);
        assert_eq!(entry("/x")["size_bytes"], size);
    }
    assert_eq!(ok(&["cat", "/x"]), [0, 0, 0]);
    ok(&[
        "mkdir",
        "--strip-size",
        "64KiB",
        "--servers",
        "1",
        "/narrow",
    ]);
    ok(&["truncate", "-s", "1MiB", "/narrow/f"]);
    let file = entry("/narrow/f");
    assert_eq!(
        (
            &file["strip_size"],
            file["servers"].as_array().unwrap().len()
        ),
        (&65_536.into(), 1)
    );
    stand
        .fs(&["mkdir", "--strip-size", "1000", "/bad"])
        .fails(2);
}

#[test]
fn scripts_get_one_object() {
    let stand = Stand::new();
    let name = OsStr::from_bytes(b"/odd\xff\n");
    stand.fs(&[OsStr::new("touch"), name]).ok();
    let listing = stand.fs(&["ls", "--json"]).json();
    let entry = &listing["entries"][0];
    assert_eq!(entry["name"], "odd\\xff\\x0a");
    assert_eq!(
        entry["name_bytes"],
        serde_json::json!([111, 100, 100, 255, 10])
    );
    assert_eq!(stand.fs(&["ls"]).ok(), b"odd\xff\n\n");

    let status = stand.fs(&["df", "--json"]).json();
    assert!(status["total_bytes"].as_u64().unwrap() > 0);
    assert_eq!(status["servers"].as_array().unwrap().len(), 3);
    let heard = stand.fs(&["ping", "--json", "-n", "2"]).json();
    for (server, pid) in heard["servers"].as_array().unwrap().iter().zip(&stand.pids) {
        assert_eq!(
            (&server["ok"], &server["pid"]),
            (&true.into(), &(*pid).into())
        );
    }
    let heard = stand.fs(&["ping", "--server", "io1", "--json"]).json();
    assert_eq!(heard["servers"].as_array().unwrap().len(), 1);
    assert!(
        stand
            .fs(&["ping", "--server", "io7"])
            .fails(2)
            .contains("meta, io0, io1")
    );

    let left = stand.fs(&["stat", "--json", "/missing"]).left();
    assert_eq!(
        (left.code, &one_object(&left.out)["failures"]),
        (Some(1), &1.into())
    );
}

#[test]
fn errors_of_copying_name_the_obstacle() {
    let stand = Stand::new();
    let here = stand.directory.path();
    fs::write(here.join("one"), b"1").unwrap();
    fs::write(here.join("two"), b"2").unwrap();
    fs::create_dir(here.join("dir")).unwrap();
    let said = stand.fs(&["put", "one", "two", "/missing"]).fails(1);
    assert!(
        said.contains("no such directory") && said.contains("mkdir"),
        "{said}"
    );
    stand.fs(&["put", "one", "/new/"]).fails(1);
    assert!(
        stand
            .fs(&["put", "absent", "/x"])
            .fails(1)
            .contains("absent")
    );
    stand.fs(&["put", "one", "/one"]).ok();
    stand.fs(&["put", "dir", "/one"]).fails(1);
    stand.fs(&["put", "one", "two", "/one"]).fails(1);
    stand.fs(&["get", "/one", "/one", "absent"]).fails(1);
    stand.fs(&["get", "/missing", "x"]).fails(1);
    stand.fs(&["get", "/one", "no/such/place"]).fails(1);
    stand.fs(&["cp", "/", "/x"]).fails(1);
    stand.fs(&["mkdir", "/d"]).ok();
    stand.fs(&["cp", "-r", "/d", "/d/inside"]).fails(1);
    stand.fs(&["cp", "/one", "/one"]).fails(1);
    // One that fails does not stop the others.
    let left = stand.fs(&["put", "absent", "two", "/d"]).left();
    assert_eq!(left.code, Some(1));
    assert_eq!(stand.fs(&["cat", "/d/two"]).ok(), b"2");
}

/// A copy that fails reports its errors and nothing else, and a copy that fails in part reports
/// that.
#[test]
fn copies_that_fail_say_what_came_of_them() {
    let stand = Stand::new();
    std::fs::write(stand.directory.path().join("file"), "content").unwrap();
    for copy in [
        &["put", "missing", "/x"][..],
        &["cp", "/missing", "/x"],
        &["get", "/missing", "x"],
    ] {
        let left = stand.fs(copy).left();
        assert_eq!(left.code, Some(1), "{copy:?}");
        assert!(left.err.contains("missing"), "{copy:?}: {}", left.err);
        assert_eq!(String::from_utf8_lossy(&left.out), "", "{copy:?}");
    }
    let left = stand.fs(&["put", "missing", "file", "/"]).left();
    let said = String::from_utf8_lossy(&left.out);
    assert!(left.code == Some(1) && said.contains("1 items"), "{said}");
    assert!(said.contains("; 1 failed"), "{said}");
    // The number of an object is a text, which no reader rounds.
    let found = stand.fs(&["stat", "--json", "/file"]).json();
    let object = found["entries"][0]["object"].as_str().unwrap();
    assert!(object.parse::<u64>().unwrap() > 1 << 53, "{object}");
}
