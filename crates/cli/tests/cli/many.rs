//! Every verb on no, one, and many files: in one directory, and below one another.
//!
//! `CAUSEWAY_MANY=100000` says how many are many; a thousand are, without it.

use std::fs;
use std::path::Path;

use super::stand::Stand;

/// Levels of a deep tree, at most: a path has at most 4,096 bytes.
const DEEP: usize = 1000;

fn many() -> usize {
    std::env::var("CAUSEWAY_MANY").map_or(1000, |text| text.parse().unwrap())
}

/// Runs a verb; its counts must be right.
#[track_caller]
fn counts(stand: &Stand, arguments: &[&str], field: &str, expected: usize) {
    let begun = std::time::Instant::now();
    let mut all = arguments.to_vec();
    all.push("--json");
    let said = stand.fs(&all).json();
    let count = said[field]
        .as_u64()
        .or_else(|| said[field].as_array().map(|list| list.len() as u64));
    assert_eq!(count, Some(expected as u64), "{arguments:?}: {field}");
    println!(
        "{:>8.2} s  {}",
        begun.elapsed().as_secs_f64(),
        arguments.join(" ")
    );
}

fn check_clean(stand: &Stand, records: usize) {
    for repair in [&["fsck"][..], &["fsck", "--repair"]] {
        let begun = std::time::Instant::now();
        let mut all = repair.to_vec();
        all.push("--json");
        let checked = stand.fs(&all).json();
        assert_eq!(checked["found"], 0, "{checked}");
        assert!(
            checked["records"].as_u64().unwrap() >= records as u64,
            "{checked}"
        );
        println!(
            "{:>8.2} s  {}",
            begun.elapsed().as_secs_f64(),
            repair.join(" ")
        );
    }
}

/// All verbs on a tree of `items` objects without its top, of which `files` are files.
fn use_tree(stand: &Stand, local: &Path, files: usize, items: usize) {
    let (local, back) = (local.to_str().unwrap(), stand.directory.path().join("back"));
    let all = items + 1;
    counts(stand, &["put", local, "/t"], "items", all);
    check_clean(stand, 2 * items);
    counts(stand, &["ls", "-R", "/t"], "entries", items);
    counts(stand, &["ls", "-lR", "/t"], "entries", items);
    counts(stand, &["du", "/t"], "entries", 1);
    counts(stand, &["stat", "/t"], "entries", 1);
    counts(stand, &["chmod", "-R", "u+x", "/t"], "changed", all);
    counts(stand, &["touch", "/t"], "touched", 1);
    counts(stand, &["cp", "-r", "/t", "/u"], "items", all);
    counts(stand, &["mv", "/u", "/v"], "renamed", 1);
    counts(stand, &["get", "/v", back.to_str().unwrap()], "items", all);
    let found = walk(&back);
    assert_eq!(found, (files, items - files));
    fs::remove_dir_all(&back).unwrap();
    stand.fs(&["df", "--json"]).json();
    check_clean(stand, 4 * items);
    counts(stand, &["rm", "-r", "/t", "/v"], "removed", 2 * all);
    counts(stand, &["ls", "/"], "entries", 0);
    check_clean(stand, 0);
}

/// Files and directories below a directory.
fn walk(top: &Path) -> (usize, usize) {
    let (mut files, mut directories, mut todo) = (0, 0, vec![top.to_owned()]);
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => {
                    directories += 1;
                    todo.push(entry.path());
                }
                false => files += 1,
            }
        }
    }
    (files, directories)
}

#[test]
fn verbs_take_no_one_and_many_files_in_one_directory() {
    let stand = Stand::new();
    check_clean(&stand, 0);
    for files in [0, 1, many()] {
        let local = stand.directory.path().join(format!("flat{files}"));
        fs::create_dir(&local).unwrap();
        for number in 0..files {
            fs::write(local.join(format!("file-{number}")), number.to_string()).unwrap();
        }
        use_tree(&stand, &local, files, files);
        fs::remove_dir_all(&local).unwrap();
    }
}

/// Levels make verbs slower in proportion only, or this takes minutes; and paths may be longer than one request can
/// name.
#[test]
fn thousands_of_levels_are_made_checked_and_removed() {
    let stand = Stand::new();
    let deepest = "/d".repeat(3000);
    for _ in 0..2 {
        counts(&stand, &["mkdir", "-p", &deepest], "made", 1);
    }
    counts(&stand, &["ls", "-R", "/d"], "entries", 2999);
    check_clean(&stand, 2 * 3000);
    counts(&stand, &["rm", "-r", "/d"], "removed", 3000);
    counts(&stand, &["mkdir", "-p", &deepest], "made", 1);
}

#[test]
fn verbs_take_directories_far_below_one_another() {
    let stand = Stand::new();
    let levels = (many() / 10).min(DEEP);
    let local = stand.directory.path().join("deep");
    let mut below = local.clone();
    fs::create_dir(&local).unwrap();
    for _ in 0..levels {
        below.push("d");
        fs::create_dir(&below).unwrap();
        fs::write(below.join("f"), b"content").unwrap();
    }
    use_tree(&stand, &local, levels, 2 * levels);
}
