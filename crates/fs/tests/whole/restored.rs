//! An older copy of the metadata is put back: files made since are lost, but their bytes never appear in other files.

use std::path::Path;
use std::process::Command;

use causeway_fs::client::{Client, CreateOptions};
use causeway_wire::fs::{Errno, ObjectId, ReplyBody};

use crate::cluster::{Fixture, Shape, pattern};

const LEN: usize = 300_000;

fn store(client: &mut Client, path: &[u8], seed: u64) -> ObjectId {
    let mut file = client.create(path, &CreateOptions::default()).unwrap();
    client.write_at(&mut file, 0, &pattern(seed, LEN)).unwrap();
    file.node.object
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}

/// Puts the metadata back as they were before `work`.
fn restore_after<T>(fixture: &mut Fixture, work: impl FnOnce(&mut Client) -> T) -> T {
    let configuration = fixture.cluster.configuration().clone();
    let meta = configuration.metadata_server();
    let directory = &configuration.servers[meta].directory;
    let kept = directory.with_extension("copy");
    fixture.cluster.stop_server(meta).unwrap();
    copy(directory, &kept);
    fixture.cluster.restart(meta).unwrap();
    let done = work(&mut fixture.client());
    fixture.cluster.stop_server(meta).unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    copy(&kept, directory);
    fixture.cluster.restart(meta).unwrap();
    done
}

#[test]
fn files_made_after_a_copy_of_the_metadata_do_not_come_back_in_others() {
    let mut fixture = Fixture::start(&Shape::default());
    store(&mut fixture.client(), b"/before", 1);
    let lost = restore_after(&mut fixture, |client| store(client, b"/lost", 2));

    let mut client = fixture.client();
    assert_eq!(client.open(b"/lost").unwrap_err().errno, Errno::ENOENT);
    let mut bytes = vec![0; LEN];
    let mut file = client.open(b"/before").unwrap();
    client.read_at(&mut file, 0, &mut bytes).unwrap();
    assert!(bytes == pattern(1, LEN));
    // A new file with a hole where the lost one has bytes.
    let mut file = client.create(b"/new", &CreateOptions::default()).unwrap();
    assert_ne!(file.node.object, lost, "a number was used again");
    client.write_at(&mut file, LEN as u64 - 1, b"!").unwrap();
    client.read_at(&mut file, 0, &mut bytes).unwrap();
    assert!(bytes[..LEN - 1].iter().all(|byte| *byte == 0));
    // The datafiles of the lost file belong to no file; they are not proven to be orphans.
    let ReplyBody::MetadataStatus { numbers, gaps, .. } = client.metadata_status().unwrap() else {
        panic!("no status");
    };
    assert!(lost.0 < numbers, "{lost:?} {numbers}");
    assert!(
        gaps.iter().any(|gap| gap.0 <= lost && lost.0 < gap.1),
        "{lost:?} {gaps:?}"
    );
}

/// The datafiles were truncated later than the metadata record.
#[test]
fn truncations_cut_after_a_copy_of_the_metadata_was_restored() {
    let mut fixture = Fixture::start(&Shape::default());
    store(&mut fixture.client(), b"/file", 1);
    restore_after(&mut fixture, |client| {
        let mut file = client.open(b"/file").unwrap();
        for size in [LEN as u64 - 1, LEN as u64 - 2] {
            client.truncate(&mut file, size).unwrap();
        }
        client.write_at(&mut file, 0, &pattern(2, LEN)).unwrap();
    });

    let mut client = fixture.client();
    let mut file = client.open(b"/file").unwrap();
    client.truncate(&mut file, 0).unwrap();
    client.truncate(&mut file, LEN as u64).unwrap();
    let mut bytes = vec![1; LEN];
    client.read_at(&mut file, 0, &mut bytes).unwrap();
    assert!(
        bytes.iter().all(|byte| *byte == 0),
        "the truncation has discarded no byte"
    );
}
