//! The comparison on which the demonstration's verdict is based.

use super::result::SHOWN;
use super::*;

fn empty() -> Findings {
    Findings {
        machine: Machine::here(),
        source: String::new(),
        files: 0,
        bytes: 0,
        directories: 0,
        servers: 1,
        clients: 1,
        durability: "relaxed",
        storage: String::new(),
        timeout: Duration::from_secs(1),
        origin_ns: 0,
        phases: Vec::new(),
        histories: Vec::new(),
        victim: String::new(),
        killed_ns: None,
        restarted_ns: None,
        answered_ns: None,
        compared: 0,
        differing: 0,
        differences: Vec::new(),
    }
}

fn content() -> Content {
    Content {
        sha256: "aa".to_owned(),
        bytes: 1,
        mode: 0o644,
        modified: (1, 2),
    }
}

#[test]
fn every_kind_of_difference_counts() {
    let mut result = empty();
    compare(&mut result, "p", "f", Some(&content()), Some(&content()));
    assert_eq!((result.compared, result.differing), (1, 0));
    let changed: [fn(&mut Content); 4] = [
        |content| content.sha256 = "ab".to_owned(),
        |content| content.bytes = 2,
        |content| content.mode = 0o600,
        |content| content.modified = (1, 3),
    ];
    for (count, change) in changed.iter().enumerate() {
        let mut other = content();
        change(&mut other);
        compare(&mut result, "p", "f", Some(&other), Some(&content()));
        assert_eq!(result.differing, count as u64 + 1);
    }
    compare(&mut result, "p", "f", None, Some(&content()));
    compare(&mut result, "p", "f", Some(&content()), None);
    assert_eq!((result.compared, result.differing), (7, 6));
    for _ in 0..100 {
        result.add_difference(String::new());
    }
    assert_eq!((result.differing, result.differences.len()), (106, SHOWN));
}

#[test]
fn the_largest_file_comes_right_after_the_middle() {
    let leaf = |size| tree::Leaf {
        path: b"x".to_vec(),
        size,
        link: false,
    };
    for count in [1_usize, 2, 3, 10, 101] {
        let mut work: Vec<Work> = (0..count)
            .map(|number| Work::new(item(number, &leaf(1)), if number == 0 { 100 } else { 1 }))
            .collect();
        interleave(&mut work);
        assert_eq!(work.len(), count);
        let at = work.iter().position(|work| work.bytes == 100).unwrap();
        // The first half, rounded up, is given out before the server is killed.
        assert!(
            count < 2 || at == count.div_ceil(2) || at + 1 == count,
            "{count}: {at}"
        );
    }
}
