//! Stored data that are missing, short, another file's or damaged are an error with their place, never other bytes.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use causeway_fs::client::{Client, CreateOptions, File, Scrubbed};
use causeway_wire::datafile::physical;
use causeway_wire::fs::{Errno, ObjectId, ScrubPosition};
use causeway_wire::random::SplitMix64;

use crate::cluster::{Fixture, Shape, pattern};

const LEN: usize = 1_000_000;

fn store(client: &mut Client, path: &[u8], bytes: &[u8]) -> File {
    let mut file = client.create(path, &CreateOptions::default()).unwrap();
    client.write_at(&mut file, 0, bytes).unwrap();
    file
}

/// Scrubs all data of a server.
fn scrub_all(client: &mut Client, server: usize) -> Scrubbed {
    client
        .scrub(server, Some(ScrubPosition::FRONT), 1 << 30)
        .unwrap()
}

/// The datafiles of a server, in the order of their objects.
fn datafiles(fixture: &Fixture, server: usize) -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, found),
                false => found.push(path),
            }
        }
    }
    let directory = &fixture.cluster.configuration().servers[server].directory;
    let mut found = Vec::new();
    walk(&directory.join("data/objects"), &mut found);
    found.sort();
    found
}

fn flip(path: &Path, offset: u64) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 4], offset).unwrap();
}

/// A datafile's name, and what is done to it behind its server's back.
type Harm<'a> = (&'a str, &'a dyn Fn(&Path), &'a str);

#[test]
fn lost_and_damaged_data_are_errors_that_say_where() {
    let mut fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let bytes = pattern(7, LEN);
    let harms: [Harm<'_>; 5] = [
        (
            "absent",
            &|path| std::fs::remove_file(path).unwrap(),
            "is absent",
        ),
        (
            "short",
            &|path| {
                let file = std::fs::File::options().write(true).open(path).unwrap();
                file.set_len(physical(70_000)).unwrap();
            },
            "ends at byte",
        ),
        ("header", &|path| flip(path, 30), "header is damaged"),
        (
            "foreign",
            &|path| {
                let all = std::fs::read_dir(path.parent().unwrap()).unwrap();
                let first = all.map(|entry| entry.unwrap().path()).min().unwrap();
                std::fs::copy(first, path).map(drop).unwrap();
            },
            "belongs to another object",
        ),
        (
            "flipped",
            &|path| flip(path, physical(70_000)),
            "damaged on the disk",
        ),
    ];
    // The first datafile, of which the foreign one is a copy.
    store(&mut client, b"/other", &bytes);
    for (name, _, _) in &harms {
        store(&mut client, format!("/{name}").as_bytes(), &bytes);
    }
    let stored = datafiles(&fixture, 2);
    assert_eq!(stored.len(), 1 + harms.len(), "{stored:?}");
    fixture.cluster.kill(2).unwrap();
    for ((_, harm, _), path) in harms.iter().zip(&stored[1..]) {
        harm(path);
    }
    fixture.cluster.restart(2).unwrap();
    for (name, _, text) in &harms {
        check_harmed(&mut client, name, text, &bytes);
    }
    let mut other = client.open(b"/other").unwrap();
    let mut read = vec![0; LEN];
    assert_eq!(client.read_at(&mut other, 0, &mut read).unwrap(), LEN);
    assert!(read == bytes);

    // fsck checks headers and lengths, a scrub the rest.
    let checked = client.check_striped(ObjectId(0)).unwrap();
    assert_eq!((checked.next, checked.files), (None, 6));
    let faults: Vec<&str> = checked.found.iter().map(|f| &f.fault.text[..]).collect();
    assert_eq!(faults.len(), 4, "{faults:?}");
    for ((_, _, text), fault) in harms.iter().zip(&faults) {
        assert!(fault.contains(text), "{fault}");
    }
    assert!(checked.found.iter().all(|found| found.server == 2));
    let scrubbed = scrub_all(&mut client, 2);
    assert!(scrubbed.next.is_none());
    let found = scrubbed.faults.iter();
    let damaged = found.filter(|fault| fault.text.contains("damaged on the disk"));
    // Among them the short datafile: the missing part of its last block.
    assert_eq!(damaged.count(), 2, "{:?}", scrubbed.faults);
    assert!(scrub_all(&mut client, 1).faults.is_empty());

    // In each case, truncating to 0 and writing anew, or removing the file, repairs it.
    for (name, _, _) in &harms {
        let path = format!("/{name}");
        let mut file = client.open(path.as_bytes()).unwrap();
        client.truncate(&mut file, 0).unwrap();
        client.write_at(&mut file, 0, &bytes).unwrap();
        assert_eq!(client.read_at(&mut file, 0, &mut read).unwrap(), LEN);
        assert!(read == bytes, "{name}");
        client.fsync(&mut file).unwrap();
    }
    let checked = client.check_striped(ObjectId(0)).unwrap();
    assert_eq!(checked.found, []);
    fixture.cluster.stop().unwrap();
}

/// Reads and writes of the harmed half fail, those of the other half do not.
#[track_caller]
fn check_harmed(client: &mut Client, name: &str, text: &str, bytes: &[u8]) {
    let mut file = client.open(format!("/{name}").as_bytes()).unwrap();
    let mut read = vec![0; LEN];
    let error = client.read_at(&mut file, 0, &mut read).unwrap_err();
    assert_eq!(error.errno, Errno::EIO, "{error}");
    let server = error.server.clone().unwrap_or_default();
    assert!(server.contains("io1"), "{error:?}");
    assert!(error.to_string().contains(text), "{name}: {error}");
    // The strip of the other server can be read.
    let mut strip = vec![0; 64 << 10];
    let whole = (0..2).filter(|strip_number| {
        let offset = strip_number * (64 << 10) + (128 << 10);
        let found = client.read_at(&mut file, offset, &mut strip);
        found.is_ok_and(|count| strip[..count] == bytes[offset as usize..][..count])
    });
    assert_eq!(whole.count(), 1, "{name}");
    if name != "flipped" {
        let error = client.fsync(&mut file);
        assert!(
            error.is_err_and(|error| error.errno == Errno::EIO),
            "{name}"
        );
        // A write behind the end would turn the loss into a hole.
        let error = client.write_at(&mut file, 2 * LEN as u64, &vec![1; 128 << 10]);
        assert!(
            error.is_err_and(|error| error.errno == Errno::EIO),
            "{name}"
        );
    }
}

/// A file that is truncated, extended, removed and made again while others read and write it is never a loss.
#[test]
fn files_that_change_under_readers_are_no_losses() {
    let fixture = Fixture::start(&Shape {
        strip_size: 16 << 10,
        ..Shape::default()
    });
    store(&mut fixture.client(), b"/f", &pattern(1, 200_000));
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut client = fixture.client();
                let mut dice = SplitMix64::new(seed);
                for _ in 0..60 {
                    let mut file = client.open(b"/f").unwrap();
                    let size = dice.below(200_000);
                    match dice.below(3) {
                        0 => client.truncate(&mut file, size).unwrap(),
                        1 => client
                            .write_at(&mut file, size, &pattern(seed, 30_000))
                            .unwrap(),
                        _ => client.fsync(&mut file).unwrap(),
                    }
                }
            });
        }
        let fixture = &fixture;
        scope.spawn(move || {
            let mut client = fixture.client();
            let mut file = client.open(b"/f").unwrap();
            let mut bytes = vec![0; 230_000];
            for _ in 0..200 {
                client.read_at(&mut file, 0, &mut bytes).unwrap();
            }
        });
    });
    let mut client = fixture.client();
    assert_eq!(client.check_striped(ObjectId(0)).unwrap().found, []);
    assert!(scrub_all(&mut client, 1).faults.is_empty());
    fixture.cluster.stop().unwrap();
}

#[test]
fn without_checksums_everything_else_stays_the_same() {
    let fixture = Fixture::start_with(&Shape::default(), |configuration| {
        configuration.checksums = false;
    });
    let mut client = fixture.client();
    let bytes = pattern(3, LEN);
    let mut file = store(&mut client, b"/f", &bytes);
    client.write_at(&mut file, 100_001, b"patched").unwrap();
    client.truncate(&mut file, 600_000).unwrap();
    client.fsync(&mut file).unwrap();
    let mut read = vec![0; LEN];
    assert_eq!(client.read_at(&mut file, 0, &mut read).unwrap(), 600_000);
    let mut wanted = bytes[..600_000].to_vec();
    wanted[100_001..100_008].copy_from_slice(b"patched");
    assert!(read[..600_000] == wanted);
    // There is nothing to verify, but lengths and headers still count.
    let scrubbed = scrub_all(&mut client, 1);
    assert_eq!(
        (scrubbed.bytes, scrubbed.datafiles, scrubbed.next.is_none()),
        (0, 1, true)
    );
    let stored = datafiles(&fixture, 1);
    let datafile = std::fs::File::options()
        .write(true)
        .open(&stored[0])
        .unwrap();
    datafile.set_len(physical(1000)).unwrap();
    let error = client.read_at(&mut file, 0, &mut read).unwrap_err();
    assert_eq!(error.errno, Errno::EIO, "{error}");
    fixture.cluster.stop().unwrap();
}

#[test]
fn datafiles_not_proven_to_be_orphans_are_moved_aside() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    store(&mut client, b"/f", &pattern(3, LEN));
    let stored = datafiles(&fixture, 1);
    // A copy under the number of a file that does not exist: its header names another object.
    let number = stored[0].file_name().and_then(|name| name.to_str());
    let number = u64::from_str_radix(number.unwrap(), 16).unwrap() | 0xfff;
    let orphan = stored[0].with_file_name(format!("{number:016x}"));
    std::fs::copy(&stored[0], &orphan).unwrap();
    let orphans = client.orphans(1, ObjectId(0)).unwrap();
    assert_eq!(orphans.found.len(), 1);
    assert_eq!(orphans.found[0].0, ObjectId(number));
    let gone = client
        .remove_orphans(1, vec![ObjectId(number)], u64::MAX)
        .unwrap();
    assert_eq!((gone.deleted, gone.moved), (0, 1));
    assert!(!orphan.exists());
    match client.storage_status(1).unwrap() {
        causeway_wire::fs::ReplyBody::StorageStatus { aside: 1, .. } => {}
        other => panic!("{other:?}"),
    }
    fixture.cluster.stop().unwrap();
}
