//! Where data are reported to lie, compared with what was written.

use super::damage::punch;
use super::*;
use causeway_wire::datafile::{BLOCK_BYTES, sums_offset};

fn path(directory: &tempfile::TempDir, object: u64) -> std::path::PathBuf {
    paths::path(&directory.path().join("objects"), ObjectId(object))
}

#[test]
fn data_are_found_wherever_they_are_and_losses_count_as_data() {
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
        for (offset, wanted) in [
            (0, Some((group, 3 * group))),
            (group + 1, Some((group + 1, 3 * group))),
            (3 * group - 1, Some((3 * group - 1, 3 * group))),
            (3 * group, Some((9 * group, end))),
            (end - 1, Some((end - 1, end))),
            (end, None),
            (u64::MAX, None),
        ] {
            assert_eq!(find(offset, end), wanted, "{offset}");
        }
        // What is missing at the end is no hole.
        assert_eq!(find(9 * group, end + 7), Some((9 * group, end + 7)));
        assert_eq!(find(end, end + 7), Some((end, end + 7)));
        assert_eq!(find(end + 7, end + 7), None);
        if checksums {
            punch(&path(&directory, 3), sums_offset(512), group + BLOCK_BYTES);
            assert_eq!(find(0, end), Some((group, 3 * group)));
            assert!(read(&make(&store, 3), group, 100_000, end).is_err());
        }
        // A hole reads as zeros, whatever was in the memory.
        let hole = read(&make(&store, 3), 4 * group - 100, 3_000_000, end).unwrap();
        assert!(hole.len() == 3_000_000 && hole.iter().all(|byte| *byte == 0));
    }
}
