//! Where data are reported to lie, compared with what was written.

use super::damage::punch;
use super::*;
use causeway_wire::datafile::{BLOCK_BYTES, sums_offset};

fn path(directory: &tempfile::TempDir, object: u64) -> std::path::PathBuf {
    paths::path(&directory.path().join("objects"), ObjectId(object))
}

#[test]
fn data_are_found_at_every_place_and_losses_count_as_data() {
    for checksums in [true, false] {
        let (directory, store) = store(Settings {
            checksums,
            ..SETTINGS
        });
        let group = GROUP_BYTES;
        let find = |offset: u64, at_least: u64| {
            let found = store.find_data(ObjectId(3), offset, at_least).unwrap();
            found.map(|data| (data.offset, data.offset + data.len))
        };
        assert_eq!(find(0, 0), None);
        assert!(matches!(
            store.find_data(ObjectId(3), 5, 1),
            Err(Fault::Absent { wanted: 1 })
        ));
        for (offset, len) in [
            (group + 70_000, 100),
            (2 * group, 5000),
            (9 * group + 5000, 5000),
        ] {
            write(&make(&store, 3), offset, &noise(offset, len)).unwrap();
        }
        let end = 9 * group + 10_000;
        let (first, second) = (group + 69_632, 2 * group);
        let last = 9 * group + 4096;
        for (offset, wanted) in [
            (0, Some((first, first + 4096))),
            (first + 1, Some((first + 1, first + 4096))),
            (first + 4095, Some((first + 4095, first + 4096))),
            (first + 4096, Some((second, second + 8192))),
            (second + 8192, Some((last, end))),
            (end - 1, Some((end - 1, end))),
            (end, None),
            (u64::MAX, None),
        ] {
            assert_eq!(find(offset, end), wanted, "{offset}, checksums {checksums}");
        }
        // Missing bytes at the end are no hole.
        assert_eq!(find(last, end + 7), Some((last, end + 7)));
        assert_eq!(find(end, end + 7), Some((end, end + 7)));
        assert_eq!(find(end + 7, end + 7), None);
        if checksums {
            punch(&path(&directory, 3), sums_offset(512), group + BLOCK_BYTES);
            assert_eq!(find(0, end), Some((group, group + 1048576)));
            assert!(read(&make(&store, 3), group, 100_000, end).is_err());
        }
        // A hole reads as zeros, also into memory that held other bytes.
        let hole = read(&make(&store, 3), 4 * group - 100, 3_000_000, end).unwrap();
        assert!(hole.len() == 3_000_000 && hole.iter().all(|byte| *byte == 0));
    }
}

/// All reported data ranges of a datafile of this size.
pub(super) fn all_data(store: &Store, object: u64, size: u64) -> Vec<(u64, u64)> {
    let (mut from, mut all) = (0, Vec::new());
    while let Some(data) = store.find_data(ObjectId(object), from, size).unwrap() {
        assert!(data.offset >= from && data.len > 0);
        from = data.offset + data.len;
        all.push((data.offset, from));
    }
    all
}

#[test]
fn stored_bytes_are_counted_without_holes_headers_and_sums() {
    for checksums in [true, false] {
        let (directory, store) = store(Settings {
            checksums,
            ..SETTINGS
        });
        let stored = |object| {
            // The disk may free the space later.
            if object != 9 {
                room(&directory, object);
            }
            store.stored(ObjectId(object)).unwrap()
        };
        assert_eq!(stored(9), 0);
        for (object, size) in [
            (1, 1),
            (2, 4096),
            (3, GROUP_BYTES),
            (4, 3 * GROUP_BYTES + 5000),
        ] {
            write(&make(&store, object), 0, &noise(object, size as usize)).unwrap();
            assert_eq!(stored(object), size.next_multiple_of(BLOCK_BYTES), "{size}");
        }
        // Two blocks in two groups: for each group at most one block without data may be counted.
        for offset in [0, 50 * GROUP_BYTES] {
            write(&make(&store, 5), offset, &noise(1, 4096)).unwrap();
        }
        let expected = 2 * BLOCK_BYTES..=3 * BLOCK_BYTES;
        assert!(expected.contains(&stored(5)), "{}", stored(5));
    }
}

/// Bytes that the datafile's file takes on the disk.
fn room(directory: &tempfile::TempDir, object: u64) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::File::open(path(directory, object)).unwrap();
    file.sync_all().unwrap();
    file.metadata().unwrap().blocks() * 512
}

#[test]
fn holes_are_made_in_the_requested_ranges_and_free_space() {
    for checksums in [true, false] {
        let (directory, store) = store(Settings {
            checksums,
            ..SETTINGS
        });
        let datafile = make(&store, 3);
        let size = 3 * GROUP_BYTES + 10_000;
        let mut model = noise(1, size as usize);
        write(&datafile, 0, &model).unwrap();
        let full = room(&directory, 3);
        let (from, to) = (5000, 2 * GROUP_BYTES + 9000);
        punch_hole(&datafile, (from, to - from), &mut Scratch::default()).unwrap();
        model[from as usize..to as usize].fill(0);
        assert!(whole(&datafile) == model);
        let hole = (8192, 2 * GROUP_BYTES + 8192);
        assert_eq!(all_data(&store, 3, size), [(0, hole.0), (hole.1, size)]);
        // Pages of sums stay.
        let freed = full - room(&directory, 3);
        assert!(freed >= hole.1 - hole.0 - 3 * BLOCK_BYTES, "{freed}");
        // To the end and behind it: the size stays.
        punch_hole(&datafile, (to, 9 << 40), &mut Scratch::default()).unwrap();
        assert_eq!(datafile.size().unwrap(), size);
        // The block that was zeroed in two parts keeps its space.
        let zeros = (hole.1, hole.1 + BLOCK_BYTES);
        assert_eq!(all_data(&store, 3, size), [(0, hole.0), zeros]);
        punch_hole(&datafile, (0, u64::MAX), &mut Scratch::default()).unwrap();
        assert_eq!(all_data(&store, 3, size), []);
        assert!(whole(&datafile).iter().all(|byte| *byte == 0));
    }
}

#[test]
fn room_is_reserved_without_any_data() {
    for checksums in [true, false] {
        let (directory, store) = store(Settings {
            checksums,
            ..SETTINGS
        });
        let region = Region {
            offset: GROUP_BYTES - 5000,
            len: 1 << 20,
        };
        store.reserve(ObjectId(3), region, 0).unwrap();
        let datafile = make(&store, 3);
        assert_eq!(datafile.size().unwrap(), 0);
        assert!(room(&directory, 3) >= region.len);
        assert_eq!(all_data(&store, 3, 0), []);
        let end = region.offset + region.len;
        write(&datafile, end - 10, &noise(1, 10)).unwrap();
        assert_eq!(all_data(&store, 3, end).len(), 1);
        let before = room(&directory, 3);
        punch_hole(&datafile, (0, end - 4096), &mut Scratch::default()).unwrap();
        assert!(before - room(&directory, 3) >= region.len - 20_000);
        // More than any disk has, and more than any file may have.
        for len in [1 << 60, u64::MAX - 5] {
            let region = Region { offset: 0, len };
            store.reserve(ObjectId(3), region, 0).unwrap_err();
        }
    }
}

/// A repeated request for a hole, whose first reply was lost, leaves alone bytes that other clients have written since.
#[test]
fn a_repeated_hole_leaves_later_writes_alone() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    write(&datafile, 0, &noise(1, 50_000)).unwrap();
    let region = Region {
        offset: 0,
        len: 50_000,
    };
    let first = Moment {
        boot: SETTINGS.boot,
        at: history::now(),
    };
    let punch = |repeated| punch::Punch {
        region,
        origin: Origin {
            write: WriteId::new(5, 6),
            repeated,
        },
        at_least: 50_000,
        abandoned: Abandoned::default(),
    };
    let scratch = &mut Scratch::default();
    let made = |punch: punch::Punch, scratch: &mut Scratch| {
        datafile.claim(&[region]).punch(&punch, scratch).unwrap()
    };
    assert_eq!(made(punch(None), scratch), None);
    let theirs = noise(2, 9000);
    write(&datafile, 3000, &theirs).unwrap();
    assert_eq!(made(punch(Some(first)), scratch), None);
    // The client has given up: its request is not carried out any more.
    let late = punch(None);
    late.abandoned.set();
    let refused = datafile.claim(&[region]).punch(&late, scratch);
    assert!(matches!(refused, Err(Fault::Abandoned)));
    let mut wanted = vec![0; 50_000];
    wanted[3000..12_000].copy_from_slice(&theirs);
    assert!(whole(&datafile) == wanted);
}
