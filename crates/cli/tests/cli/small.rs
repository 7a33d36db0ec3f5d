//! Many small files stored together: each is whole, old or new, as if it had been stored alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use super::stand::{Stand, one_object, until};

/// More than are in flight at once, and no multiple of that.
const FILES: usize = 150;

/// The round whose command is killed when some of its files are visible.
const LATE: u64 = 7;

/// Makes a directory of small files, all of which contain `word` and their number.
fn make(directory: &Path, word: &str) {
    fs::create_dir(directory).unwrap();
    for number in 0..FILES {
        let file = directory.join(number.to_string());
        fs::write(&file, content(word, number)).unwrap();
        let mode = if number % 2 == 0 { 0o640 } else { 0o755 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn content(word: &str, number: usize) -> Vec<u8> {
    format!("{word} {number} ")
        .repeat(number * 7 % 500)
        .into_bytes()
}

/// The names in a stored directory.
fn names(stand: &Stand, path: &str) -> Vec<String> {
    let listed = String::from_utf8(stand.fs(&["ls", path]).ok()).unwrap();
    listed.lines().map(str::to_owned).collect()
}

#[test]
fn small_files_replace_others_and_one_failure_is_one() {
    let stand = Stand::with(&["--durability", "synced"]);
    let here = stand.directory.path();
    make(&here.join("old"), "old");
    make(&here.join("new"), "new");
    stand.fs(&["put", "old/.", "/d"]).ok();
    stand.fs(&["rm", "/d/7"]).ok();
    stand.fs(&["mkdir", "/d/7"]).ok();
    stand.fs(&["rm", "/d/8"]).ok();
    let left = stand.fs(&["put", "new/.", "/d", "--json"]).left();
    assert_eq!(left.code, Some(1), "{}", left.err);
    let said = one_object(&left.out);
    assert_eq!(said["failures"], 1, "{said}");
    let error = said["errors"][0].to_string();
    assert!(
        error.contains("/7") && error.contains("directory"),
        "{said}"
    );
    assert_eq!(names(&stand, "/d").len(), FILES);

    stand.fs(&["rm", "-r", "/d/7"]).ok();
    stand.fs(&["get", "/d", "back"]).ok();
    for number in (0..FILES).filter(|number| *number != 7) {
        let (from, to) = (format!("new/{number}"), format!("back/{number}"));
        assert!(
            fs::read(here.join(&to)).unwrap() == content("new", number),
            "{number}"
        );
        let (from, to) = (here.join(from).metadata(), here.join(to).metadata());
        let known = |metadata: std::io::Result<fs::Metadata>| {
            let metadata = metadata.unwrap();
            (metadata.mode(), metadata.mtime(), metadata.mtime_nsec())
        };
        assert_eq!(known(from), known(to), "{number}");
    }
}

#[test]
fn a_killed_put_of_small_files_leaves_each_old_or_new() {
    let stand = Stand::with(&["--durability", "synced"]);
    let here = stand.directory.path();
    for word in ["old", "new"] {
        make(&here.join(word), word);
    }
    let mut changed = 0;
    for round in 0..=LATE {
        stand.fs(&["put", "old/.", "/d"]).ok();
        let mut put = stand.fs(&["put", "new/.", "/d"]).start();
        if round == LATE {
            // However slowly it starts.
            until("a new file is seen", || {
                stand.fs(&["cat", "/d/1"]).ok() == content("new", 1)
            });
        } else {
            std::thread::sleep(Duration::from_millis(4 + 4 * round));
        }
        put.kill().unwrap();
        put.wait().unwrap();
        let _ = fs::remove_dir_all(here.join("back"));
        stand.fs(&["get", "/d", "back"]).ok();
        for number in 0..FILES {
            let found = fs::read(here.join("back").join(number.to_string())).unwrap();
            let is_new = found == content("new", number);
            assert!(is_new || found == content("old", number), "{number}");
            changed += usize::from(is_new);
        }
        stand.fs(&["rm", "--partial", "--idle", "0", "/"]).ok();
        let partial = |name: &String| name.contains("partial");
        assert!(!names(&stand, "/d").iter().any(partial));
    }
    assert!(changed > 0, "files that were seen are missing");
}
