//! Files that are mostly holes.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

use super::stand::Stand;

/// The largest file, with some data near both ends, is put, copied and got within moments, by whatever number
/// of threads.
#[test]
fn the_largest_file_is_copied_as_fast_as_its_data() {
    const SIZE: u64 = i64::MAX as u64;
    let islands = [(10_000, 5000), (3 << 30, 100_000), (SIZE - 20_000, 9000)];
    let bytes = |at: u64, len: usize| -> Vec<u8> {
        (0..len as u64)
            .map(|i| ((at + i) % 251 + 1) as u8)
            .collect()
    };
    let stand = Stand::in_memory();
    let here = stand.directory.path();
    let file = fs::File::create(here.join("vast")).unwrap();
    file.set_len(SIZE).unwrap();
    for (at, len) in islands {
        file.write_all_at(&bytes(at, len), at).unwrap();
    }
    for jobs in ["1", "3"] {
        let (there, copy, back) = ("/vast", "/copy", here.join(jobs));
        stand.fs(&["put", "-j", jobs, "vast", there]).ok();
        stand.fs(&["cp", there, copy]).ok();
        stand.fs(&["get", "-j", jobs, copy, jobs]).ok();
        let back = fs::File::open(back).unwrap();
        let known = back.metadata().unwrap();
        assert_eq!(known.len(), SIZE);
        assert!(known.blocks() * 512 < 4 << 20, "{} blocks", known.blocks());
        for (at, len) in islands {
            let mut found = vec![0; len + 100];
            back.read_exact_at(&mut found, at - 50).unwrap();
            let mut wanted = bytes(at, len);
            wanted.splice(0..0, [0; 50]);
            wanted.resize(len + 100, 0);
            assert!(found == wanted, "at {at} with {jobs} threads");
        }
    }
    stand.fs(&["scrub"]).ok();
    stand.fs(&["fsck"]).ok();
}

/// Where an output cannot have holes, their zeros are written.
#[test]
fn cat_writes_the_zeros_of_holes() {
    let stand = Stand::new();
    let here = stand.directory.path();
    let file = fs::File::create(here.join("sparse")).unwrap();
    file.write_all_at(&[7; 5000], 40 << 20).unwrap();
    file.set_len((60 << 20) + 77).unwrap();
    stand.fs(&["put", "sparse", "/sparse"]).ok();
    let found = stand.fs(&["cat", "/sparse"]).ok();
    assert!(found == fs::read(here.join("sparse")).unwrap());
}
