//! Names that other clients keep replacing: every verb finds the old file or the new one, whole.

use std::fs;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stand::{Stand, until};

/// Bytes of the versions of the file that is replaced: in datafiles, and beside the metadata.
const VERSIONS: [usize; 3] = [3 << 20, (2 << 20) + 5, 777];

/// Writes the versions to local files.
fn versions(stand: &Stand) -> Vec<String> {
    let names = (0..VERSIONS.len()).map(|number| format!("version{number}"));
    let names: Vec<String> = names.collect();
    for ((name, size), byte) in names.iter().zip(VERSIONS).zip(1..) {
        fs::write(stand.directory.path().join(name), vec![byte; size]).unwrap();
    }
    names
}

/// Whether the bytes are all of one version.
fn is_version(bytes: &[u8]) -> bool {
    let first = bytes.first().copied().unwrap_or_default();
    let size = VERSIONS.get(usize::from(first).wrapping_sub(1));
    size == Some(&bytes.len()) && bytes.iter().all(|byte| *byte == first)
}

/// Runs `work` while another client stores one version after another as `/d/name`.
fn while_replaced(stand: &Stand, work: impl FnOnce()) {
    let versions = versions(stand);
    stand.fs(&["mkdir", "/d"]).ok();
    stand.fs(&["put", &versions[0], "/d/name"]).ok();
    let over = AtomicBool::new(false);
    /// Ends the other client also when `work` panics.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    std::thread::scope(|scope| {
        for versions in [versions.clone(), versions.iter().rev().cloned().collect()] {
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) {
                    for version in &versions {
                        stand.fs(&["put", version, "/d/name"]).ok();
                    }
                }
            });
        }
        let _end = End(&over);
        work();
    });
}

#[test]
fn a_file_that_is_replaced_all_the_time_is_read_whole() {
    let stand = Stand::new();
    let here = stand.directory.path();
    while_replaced(&stand, || {
        for _ in 0..6 {
            stand.fs(&["get", "/d/name", "one"]).ok();
            assert!(is_version(&fs::read(here.join("one")).unwrap()));
            let _ = fs::remove_dir_all(here.join("tree"));
            stand.fs(&["get", "/d", "tree"]).ok();
            assert!(is_version(&fs::read(here.join("tree/name")).unwrap()));
            // No byte of the file has been written out before it is read to the end.
            assert!(is_version(&stand.fs(&["cat", "/d/name"]).ok()));
            stand.fs(&["cp", "/d/name", "/copy"]).ok();
            stand.fs(&["cp", "-r", "/d", "/tree"]).ok();
            for path in ["/copy", "/tree/name"] {
                assert!(is_version(&stand.fs(&["cat", path]).ok()), "{path}");
            }
            stand.fs(&["rm", "-r", "/tree"]).ok();
        }
    });
}

#[test]
fn verbs_on_a_name_that_is_replaced_all_the_time_succeed() {
    let stand = Stand::new();
    while_replaced(&stand, || {
        for round in 0..6 {
            for arguments in [
                &["rm", "-f", "/d/name"][..],
                &["rm", "-f", "/d/name"],
                &["touch", "/d/name"],
                &["chmod", "640", "/d/name"],
                &["chmod", "-R", "u+r", "/d"],
                &["stat", "/d/name"],
                &["ls", "-lR", "/d"],
                &["du", "/d"],
                &["ln", "/d/name", &format!("/link{round}")],
                &["mv", "/d/name", "/moved"],
            ] {
                stand.fs(arguments).ok();
            }
        }
    });
}

#[test]
fn output_of_a_file_is_not_continued_with_another_file() {
    let stand = Stand::new();
    let here = stand.directory.path();
    fs::write(here.join("old"), vec![1; 64 << 20]).unwrap();
    stand.fs(&["put", "old", "/name"]).ok();
    let mut cat = stand.fs(&["cat", "/name"]).start();
    let mut out = cat.stdout.take().unwrap();
    let mut bytes = vec![0; 1];
    out.read_exact(&mut bytes).unwrap();
    stand.fs(&["put", "-", "/name"]).input(b"new").ok();
    until("the old file is removed", || {
        stand.fs(&["fsck", "--json"]).json()["datafiles"] == 0
    });
    out.read_to_end(&mut bytes).unwrap();
    let mut said = String::new();
    let mut err = cat.stderr.take().unwrap();
    err.read_to_string(&mut said).unwrap();
    assert_eq!(cat.wait().unwrap().code(), Some(1), "{said}");
    assert!(bytes.iter().all(|byte| *byte == 1));
    assert!(bytes.len() < 64 << 20);
    for part in ["/name", "replaced or removed", &bytes.len().to_string()] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
