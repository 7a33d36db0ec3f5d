//! Files that are removed while clients still have them open.

use std::path::Path;
use std::time::{Duration, Instant};

use causeway_fs::client::{Allocation, CreateOptions};
use causeway_wire::fs::{Errno, Region};

use crate::cluster::{Fixture, Shape, pattern};

/// Datafiles below a directory.
fn datafiles(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap();
    let count = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => datafiles(&entry.path()),
        _ => 1,
    };
    entries.map(|entry| count(entry.unwrap())).sum()
}

fn wait_for_none(left: impl Fn() -> usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while left() > 0 {
        assert!(Instant::now() < deadline, "{} datafiles stay", left());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A write to a removed file fails, as does reserving space for it, and the bytes that they have stored are removed.
#[test]
fn a_change_after_the_removal_leaves_no_datafile() {
    let fixture = Fixture::start(&Shape::default());
    let configuration = fixture.cluster.configuration();
    let left = || -> usize {
        let servers = configuration.servers.iter();
        servers
            .map(|server| server.directory.join("data/objects"))
            .filter(|objects| objects.exists())
            .map(|objects| datafiles(&objects))
            .sum()
    };
    let (mut writer, mut other) = (fixture.client(), fixture.client());
    let mut file = writer.create(b"/f", &CreateOptions::default()).unwrap();
    // The first server has a datafile, the second one none: there a write makes it.
    writer.write_at(&mut file, 0, &pattern(1, 20_000)).unwrap();
    assert_eq!(left(), 1);
    other.unlink(b"/f").unwrap();
    wait_for_none(left);
    for _ in 0..3 {
        let error = writer
            .write_at(&mut file, 64 << 10, &pattern(2, 64 << 10))
            .unwrap_err();
        assert_eq!(error.errno, Errno::ESTALE, "{error}");
    }
    wait_for_none(left);
    for keep_size in [true, false] {
        // Where the first server has no datafile, as in an empty file.
        let part = Region {
            offset: 64 << 10,
            len: 64 << 10,
        };
        let error = writer
            .allocate_part(&mut file, part, Allocation::Reserve, keep_size)
            .unwrap_err();
        assert_eq!(error.errno, Errno::ESTALE, "{error}");
        wait_for_none(left);
    }
}
