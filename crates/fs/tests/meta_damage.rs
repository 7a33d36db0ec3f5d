//! Flipped bits in all files of the metadata store: acknowledged changes are right, or the store is
//! refused with an error that names the file.
//!
//! `CAUSEWAY_ALL_BITS=1` flips every bit of every file; without it, one in some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use causeway_fs::config::Durability;
use causeway_fs::meta::store::fjall::{Fjall, Options};
use causeway_fs::meta::store::{Batch, Persist, Store, StoreErrorKind};
use causeway_fs::meta::{Format, Service, Settings, accept_loss};
use causeway_wire::codec::Wire;
use causeway_wire::fs::{Errno, Operation};
use causeway_wire::store::Mark;

mod meta_support;
use meta_support::{dump, findings, place, request, time};

/// A directory in memory where there is one: thousands of openings with their syncs would take minutes.
fn temporary() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a temporary directory")
}

fn settings() -> Settings {
    Settings {
        durability: Durability::Synced,
        ..Settings::default()
    }
}

fn change(service: &mut Service, operation: Operation) {
    for reply in service.apply(&[request(operation)], time(1_800_000_000)) {
        assert!(reply.result.is_ok(), "{reply:?}");
    }
}

/// A file system with some files, each made by a change of its own.
fn fill(directory: &Path, files: usize) -> Vec<String> {
    let mut service = Service::open(directory, settings()).expect("opens");
    for number in 0..files {
        let create = Operation::Create {
            place: place(&format!("file{number}")),
            exclusive: true,
            mode: 0o644,
            distribution: None,
            content: vec![number as u8; 30],
        };
        change(&mut service, create);
    }
    dump(&service)
}

fn open(directory: &Path) -> Result<Service, String> {
    Service::open(directory, settings()).map_err(|failure| {
        assert_eq!(failure.errno, Errno::CORRUPT, "{}", failure.message);
        failure.message
    })
}

/// All files below a directory, with their contents. Journals, which the engine makes long in advance, are
/// cut to a little more than what is written of them.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("lists") {
        let path = entry.expect("lists").path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if !["lock", "ballast"].iter().any(|name| path.ends_with(name)) {
            let mut bytes = std::fs::read(&path).expect("reads");
            if path.extension().is_some_and(|end| end == "jnl") {
                bytes.truncate(used(&bytes) + 64);
                std::fs::write(&path, &bytes).expect("writes");
            }
            all.insert(path, bytes);
        }
    }
    all
}

/// Copies what is below a directory. (Not by a process: until it runs its program it would hold the locks of other
/// tests' stores.)
fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("lists") {
        let from = entry.expect("lists").path();
        let to = to.join(from.file_name().expect("it has a name"));
        if from.is_dir() {
            std::fs::create_dir(&to).expect("makes a directory");
            copy_all(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("copies");
        }
    }
}

/// Length up to the last byte that is not zero.
fn used(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

fn restore(directory: &Path, pristine: &BTreeMap<PathBuf, Vec<u8>>) {
    for path in files(directory).into_keys() {
        if !pristine.contains_key(&path) {
            std::fs::remove_file(path).expect("removes");
        }
    }
    for (path, bytes) in pristine {
        std::fs::write(path, bytes).expect("writes");
    }
}

/// Flips bits one at a time, each `step`-th; the numbers of refused and of harmless ones.
fn flip_all(directory: &Path, expected: &[String], step: usize) -> (u64, u64) {
    let pristine = files(directory);
    let (mut refused, mut harmless) = (0, 0);
    for (path, bytes) in &pristine {
        // Behind the end of a journal one bit is enough.
        let behind = (used(bytes) + 9 < bytes.len()).then_some((used(bytes) + 9) * 8);
        let bits = (0..used(bytes) * 8).step_by(step).chain(behind);
        for bit in bits {
            flip(path, bit);
            match open(directory) {
                Err(message) => {
                    let name = path.file_name().expect("a file").to_string_lossy();
                    assert!(
                        message.contains(&*name),
                        "{}, bit {bit}: {message}",
                        path.display()
                    );
                    flip(path, bit);
                    refused += 1;
                }
                Ok(service) => {
                    assert_eq!(dump(&service), expected, "{}, bit {bit}", path.display());
                    assert_eq!(findings(&service), [""; 0], "{}, bit {bit}", path.display());
                    drop(service);
                    restore(directory, &pristine);
                    harmless += 1;
                }
            }
        }
    }
    (refused, harmless)
}

fn flip(path: &Path, bit: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, bit as u64 / 8)
        .expect("reads");
    byte[0] ^= 1 << (bit % 8);
    file.write_all_at(&byte, bit as u64 / 8).expect("writes");
}

/// One bit in this number is tested, unless all are requested.
fn step(usual: usize) -> usize {
    match std::env::var_os("CAUSEWAY_ALL_BITS") {
        Some(_) => 1,
        None => usual,
    }
}

#[test]
fn no_flipped_bit_of_a_journal_is_silent() {
    let directory = temporary();
    let expected = fill(directory.path(), 6);
    let (refused, harmless) = flip_all(directory.path(), &expected, step(97));
    assert!(refused > 200, "{refused} refused, {harmless} harmless");
    println!("journal: {refused} flipped bits refused, {harmless} harmless");
}

#[test]
fn no_flipped_bit_of_a_table_is_silent() {
    let directory = temporary();
    let expected = fill(directory.path(), 6);
    let store = Fjall::open(directory.path()).expect("opens");
    store.write_out().expect("writes tables");
    drop(store);
    // The journal is not needed any more, and goes.
    assert_eq!(dump(&open(directory.path()).expect("opens")), expected);
    let tables = directory.path().join("keyspaces/1/tables");
    assert!(std::fs::read_dir(tables).expect("lists").count() > 0);
    let (refused, harmless) = flip_all(directory.path(), &expected, step(97));
    assert!(refused > 200, "{refused} refused, {harmless} harmless");
    println!("tables: {refused} flipped bits refused, {harmless} harmless");
}

/// Where a table's file says how many sections it has: behind the mark of its table of contents, whose place is in the
/// file's trailer.
fn count_of_sections(bytes: &[u8]) -> usize {
    let (_, end) = bytes.split_at(bytes.len() - 16);
    let (place, _) = end.split_first_chunk().expect("a place and a length");
    usize::try_from(u64::from_le_bytes(*place)).expect("inside the file") + b"TOC!".len()
}

/// Large stores are not read whole at the start: then the engine's checks and the seals must do.
#[test]
fn a_flipped_bit_of_a_table_that_was_not_read_at_the_start_is_an_error_when_it_is_read() {
    let directory = temporary();
    fill(directory.path(), 6);
    let read = |store: &Fjall| -> Result<Vec<_>, _> {
        let view = store.snapshot()?;
        view.range(b"\0", b"\xff").collect()
    };
    let store = Fjall::open(directory.path()).expect("opens");
    store.write_out().expect("writes tables");
    drop(store);
    let store = Fjall::open(directory.path()).expect("opens");
    let expected = read(&store).expect("reads");
    drop(store);
    let pristine = files(directory.path());
    let options = Options {
        verify_bytes: 0,
        ..Options::default()
    };
    let (mut found, mut harmless) = (0, 0);
    for (path, bytes) in &pristine {
        if !path
            .parent()
            .is_some_and(|parent| parent.ends_with("1/tables"))
        {
            continue;
        }
        // The engine allocates as much memory as the count of sections asks for: all bits of that.
        let count = count_of_sections(bytes) * 8;
        let sampled = (0..bytes.len() * 8).step_by(step(211));
        for bit in sampled.chain(count..count + 32) {
            flip(path, bit);
            match Fjall::open_with(directory.path(), &options).and_then(|store| read(&store)) {
                Ok(pairs) => {
                    assert_eq!(pairs, expected, "bit {bit}");
                    harmless += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind, StoreErrorKind::Corrupt, "bit {bit}: {error}");
                    found += 1;
                }
            }
            restore(directory.path(), &pristine);
        }
    }
    assert!(found > 50, "{found} found, {harmless} harmless");
}

#[test]
fn a_store_with_a_damaged_journal_is_opened_only_when_the_loss_is_accepted() {
    let directory = temporary();
    fill(directory.path(), 20);
    let journal = directory.path().join("0.jnl");
    let bytes = std::fs::read(&journal).expect("reads");
    let at = bytes
        .windows(5)
        .position(|window| window == b"file7")
        .expect("a name");
    flip(&journal, at * 8);
    let message = open(directory.path()).err().expect("is refused");
    for part in [
        "0.jnl is damaged at byte ",
        "--accept-loss",
        "in directory 1",
        "whole changes",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(
        open(directory.path()).err(),
        Some(message),
        "it stays as it is"
    );
    assert_eq!(accept_loss(directory.path()), Ok(true));
    let mut service = open(directory.path()).expect("opens without it");
    let names: Vec<String> = dump(&service);
    for number in (0..20).filter(|number| *number != 7) {
        let name = format!("/file{number} ");
        assert!(
            names.iter().any(|line| line.starts_with(&name)),
            "{names:?}"
        );
    }
    let kept = std::fs::read_dir(directory.path()).expect("lists");
    let kept = kept.filter(|entry| {
        let path = entry.as_ref().expect("lists").path();
        path.extension().is_some_and(|end| end == "lost")
    });
    assert_eq!(kept.count(), 1);
    for _ in 0..2 {
        change(
            &mut service,
            Operation::Check {
                after: None,
                repair: true,
            },
        );
    }
    assert_eq!(findings(&service), [""; 0]);
    drop(service);
    // Once accepted, it is not asked about again.
    assert_eq!(accept_loss(directory.path()), Ok(false));
    open(directory.path()).expect("opens");
}

/// After power loss, bytes that were never synced may be missing or torn; synced ones are not.
#[test]
fn after_power_loss_damage_is_distinguished_from_a_torn_end_by_the_synced_length() {
    for persist in [Persist::Power, Persist::Process] {
        let directory = temporary();
        let store = Fjall::open(directory.path()).expect("opens");
        for number in 0..10u8 {
            let batch = Batch::from([(vec![b'k', number], Some(vec![number; 40]))]);
            store.commit(&batch, persist).expect("commits");
        }
        drop(store);
        let mark = Mark {
            boot: 1,
            ..Mark::default()
        };
        let bytes = mark.to_bytes();
        let padded = [&bytes[..], &vec![0; 4096 - bytes.len()], &bytes].concat();
        std::fs::write(directory.path().join("mark"), padded).expect("writes");
        let journal = directory.path().join("0.jnl");
        let bytes = std::fs::read(&journal).expect("reads");
        let middle = bytes
            .windows(9)
            .position(|window| window == [5; 9])
            .expect("a value");
        flip(&journal, middle * 8);
        let opened = Fjall::open(directory.path());
        match persist {
            Persist::Power => {
                let error = opened.err().expect("is refused");
                assert_eq!(error.kind, StoreErrorKind::Lost, "{error}");
            }
            Persist::Process => {
                let view = opened.expect("opens").snapshot().expect("reads");
                let pairs = view.range(b"k", b"l").count();
                assert_eq!(pairs, 5, "what stands before the torn change");
            }
        }
    }
}

#[test]
fn nothing_is_taken_for_a_new_store_unless_that_is_asked_for() {
    let directory = temporary();
    let refusing = || Settings {
        format: Format::Refused,
        ..settings()
    };
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).expect("makes a directory");
    let failure = Service::open(&empty, refusing()).err().expect("is refused");
    assert!(
        failure.message.contains("not mounted"),
        "{}",
        failure.message
    );
    assert_eq!(std::fs::read_dir(&empty).expect("lists").count(), 0);
    let full = directory.path().join("full");
    fill(&full, 3);
    Service::open(&full, refusing()).expect("opens what is there");
    // Each part removed on its own: never an empty file system.
    for part in [
        "version",
        "mark",
        "keyspaces/1/current",
        "keyspaces/0/current",
        "keyspaces/1",
        "0.jnl",
    ] {
        let copied = temporary();
        copy_all(&full, copied.path());
        let gone = copied.path().join(part);
        match gone.is_dir() {
            true => std::fs::remove_dir_all(gone).expect("removes"),
            false => std::fs::remove_file(gone).expect("removes"),
        }
        let failure = Service::open(copied.path(), settings()).err();
        let message = failure
            .unwrap_or_else(|| panic!("opened without {part}"))
            .message;
        assert!(!message.is_empty());
    }
}
