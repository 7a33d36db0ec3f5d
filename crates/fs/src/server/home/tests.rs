//! Directories that are served from and directories that are refused; a refusal changes nothing.

use std::collections::BTreeMap;

use super::*;

fn entry(directory: PathBuf, name: &str) -> ServerEntry {
    ServerEntry {
        name: name.to_owned(),
        metadata: false,
        io: true,
        addresses: Vec::new(),
        directory,
    }
}

fn wanted(entry: &ServerEntry) -> Wanted<'_> {
    Wanted {
        file_system: 7,
        entry,
    }
}

fn formatted(entry: &ServerEntry, generation: u64) {
    let draft = Home::format(&wanted(entry), Generation(generation)).unwrap();
    draft.seal().unwrap();
}

/// Everything in a directory, with modes and contents.
fn all(path: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let mode = path.metadata().unwrap().permissions().mode();
        match path.is_dir() {
            true => {
                found.extend(all(&path));
                found.insert(path, (mode, Vec::new()));
            }
            false => {
                let content = std::fs::read(&path).unwrap();
                found.insert(path, (mode, content));
            }
        }
    }
    found
}

/// Checks that the directory is refused with these words, and that nothing in it changes.
#[track_caller]
fn refused(entry: &ServerEntry, words: &[&str]) {
    let before = all(&entry.directory);
    let error = Home::open(&wanted(entry)).unwrap_err();
    for word in words {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert_eq!(all(&entry.directory), before, "{error}");
}

/// Between a fork and the execution of a program, a process has copies of all descriptors.
#[test]
fn the_lock_ends_with_the_server_also_while_a_process_is_being_started() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    formatted(&io0, 9);
    let home = Home::open(&wanted(&io0)).unwrap();
    let copy = home.lock.0.try_clone().unwrap();
    drop(home);
    drop(Home::open(&wanted(&io0)).unwrap());
    drop(copy);
}

#[test]
fn a_running_server_notices_that_its_directory_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    formatted(&io0, 9);
    let home = Home::open(&wanted(&io0)).unwrap();
    home.check_place().unwrap();
    let away = directory.path().join("away");
    std::fs::rename(&io0.directory, &away).unwrap();
    let says = |word: &str| {
        let error = home.check_place().unwrap_err();
        assert!(error.contains(word), "{word}: {error}");
    };
    says("moved away or removed");
    // A directory that was formatted for the same server is nevertheless another one.
    formatted(&io0, 10);
    std::fs::write(io0.directory.join(LOCK), "").unwrap();
    says("another directory");
    std::fs::remove_dir_all(&io0.directory).unwrap();
    std::fs::rename(&away, &io0.directory).unwrap();
    home.check_place().unwrap();
    std::fs::rename(home.data(), directory.path().join("data")).unwrap();
    says("io0/data is not there");
}

#[test]
fn a_directory_belongs_to_one_server_and_one_process() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    formatted(&io0, 9);
    let home = Home::open(&wanted(&io0)).unwrap();
    assert_eq!(home.identity().generation, Generation(9));
    let pid = std::process::id().to_string();
    refused(&io0, &["another server (process ", &pid]);
    drop(home);
    drop(Home::open(&wanted(&io0)).unwrap());
    let io1 = entry(io0.directory.clone(), "io1");
    refused(
        &io1,
        &["belongs to another server", "server io0", "server io1"],
    );
    let other = Wanted {
        file_system: 8,
        entry: &io0,
    };
    let error = Home::open(&other).unwrap_err();
    assert!(
        error.contains("00000007") && error.contains("00000008"),
        "{error}"
    );
    let both = ServerEntry {
        metadata: true,
        ..io0.clone()
    };
    refused(
        &both,
        &["metadata and I/O server", "belongs to another server"],
    );
    std::fs::write(io0.directory.join(IDENTITY), "causeway-server 1\n").unwrap();
    refused(
        &io0,
        &["causeway-server 1", "causeway-server 2", "another version"],
    );
}

#[test]
fn an_empty_directory_is_most_often_a_disk_that_is_not_mounted() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    let error = Home::open(&wanted(&io0)).unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
    assert!(!io0.directory.exists());
    std::fs::create_dir(&io0.directory).unwrap();
    refused(
        &io0,
        &[
            "is empty",
            "mount",
            "serve --config FILE --server io0 --format",
            "servers accept --config FILE io0",
            "00000007",
        ],
    );
    std::fs::create_dir(io0.directory.join("lost+found")).unwrap();
    refused(&io0, &["is empty", "mount"]);
    std::fs::write(io0.directory.join("thesis.tex"), "x").unwrap();
    refused(&io0, &["thesis.tex", "no identity"]);
    let before = all(&io0.directory);
    let error = Home::format(&wanted(&io0), Generation(1)).unwrap_err();
    assert!(error.contains("thesis.tex"), "{error}");
    assert_eq!(all(&io0.directory), before);
}

#[test]
fn a_part_that_is_gone_empty_or_foreign_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    let io1 = entry(directory.path().join("io1"), "io1");
    formatted(&io0, 10);
    formatted(&io1, 11);
    let (data, away) = (io0.directory.join("data"), directory.path().join("away"));
    std::fs::rename(&data, &away).unwrap();
    refused(&io0, &["data does not exist", "server io0", "restore it"]);
    std::fs::create_dir(&data).unwrap();
    refused(&io0, &["data is empty", "mount the disk"]);
    std::fs::write(data.join("objects"), "").unwrap();
    refused(&io0, &["has no `owner` file"]);
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(io1.directory.join("data"), &data).unwrap();
    refused(
        &io0,
        &[
            "another directory's",
            "server io1",
            "server io0",
            "000000000000000b",
            "000000000000000a",
        ],
    );
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&away, &data).unwrap();
    Home::open(&wanted(&io0)).unwrap();
}

#[test]
fn a_directory_is_formatted_once() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("a/b/io0"), "io0");
    formatted(&io0, 9);
    let before = all(&io0.directory);
    let error = Home::format(&wanted(&io0), Generation(10)).unwrap_err();
    assert!(
        error.contains("formatted already") && error.contains("server io0"),
        "{error}"
    );
    assert_eq!(all(&io0.directory), before);
}

#[test]
fn a_formatting_that_was_interrupted_goes_on_as_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    drop(Home::format(&wanted(&io0), Generation(9)).unwrap());
    refused(&io0, &["not formatted to the end", "--format"]);
    let io1 = entry(io0.directory.clone(), "io1");
    let error = Home::format(&wanted(&io1), Generation(5)).unwrap_err();
    assert!(error.contains("io0") && error.contains("io1"), "{error}");
    formatted(&io0, 10);
    let home = Home::open(&wanted(&io0)).unwrap();
    assert_eq!(home.identity().generation, Generation(9));
    // The draft is the first file that formatting writes: when it is incomplete, formatting begins anew.
    let torn = entry(directory.path().join("torn"), "io0");
    std::fs::create_dir(&torn.directory).unwrap();
    std::fs::write(torn.directory.join(DRAFT), "causeway-ser").unwrap();
    formatted(&torn, 11);
    let home = Home::open(&wanted(&torn)).unwrap();
    assert_eq!(home.identity().generation, Generation(11));
}

#[test]
fn an_enrollment_outlives_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    formatted(&io0, 9);
    let enrollment = Enrollment {
        index: 3,
        incarnation: causeway_wire::fs::Incarnation(4),
    };
    let mut home = Home::open(&wanted(&io0)).unwrap();
    assert_eq!(home.enrolled(), None);
    home.enroll(enrollment).unwrap();
    drop(home);
    let home = Home::open(&wanted(&io0)).unwrap();
    assert_eq!(home.enrolled(), Some(enrollment));
    drop(home);
    std::fs::write(io0.directory.join(ENROLLED), "causeway-enrollment 2\n").unwrap();
    let error = Home::open(&wanted(&io0)).unwrap_err();
    assert!(
        error.contains("enrolled") && error.contains("index"),
        "{error}"
    );
}

#[test]
fn modes_that_are_too_open_are_restricted() {
    let directory = tempfile::tempdir().unwrap();
    let io0 = entry(directory.path().join("io0"), "io0");
    formatted(&io0, 9);
    let modes = |path: &Path| {
        let mut modes = all(path);
        modes.insert(
            path.to_owned(),
            (path.metadata().unwrap().mode(), Vec::new()),
        );
        modes
    };
    let closed = |path: &Path| {
        for (path, (mode, _)) in modes(path) {
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    };
    closed(&io0.directory);
    for path in modes(&io0.directory).keys() {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    drop(Home::open(&wanted(&io0)).unwrap());
    closed(&io0.directory);
}
