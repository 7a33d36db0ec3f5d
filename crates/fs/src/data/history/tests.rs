//! Histories against a model that remembers everything.

use proptest::collection::vec;
use proptest::prelude::*;

use causeway_wire::fs::Generation;

use super::*;
use crate::data::pieces::subtract;

const OWNER: Owner = Owner {
    file_system: 1,
    generation: Generation(2),
};
const BOOT: u128 = 3;
const OBJECT: ObjectId = ObjectId(4);

fn open(directory: &Path) -> History {
    History::open(directory, OWNER, BOOT).unwrap()
}

fn moment(at: u64) -> Moment {
    Moment { boot: BOOT, at }
}

fn region(offset: u64, len: u64) -> Region {
    Region { offset, len }
}

fn left(history: &History, number: u64, first: u64, regions: &[Region]) -> Result<Vec<Region>> {
    let overwritten =
        history.overwritten(WriteId::new(1, number), moment(first), OBJECT, regions)?;
    let left = regions.iter().flat_map(|one| subtract(*one, &overwritten));
    Ok(left.collect())
}

#[derive(Debug, Clone)]
enum Step {
    /// A write with this number to these regions: for the first time, or again.
    Write(u64, Vec<Region>),
    /// A truncation.
    Cut(u64),
    /// Another client's write to another datafile.
    Elsewhere,
    Reopen,
}

/// Regions without overlap, in any order.
fn regions() -> impl Strategy<Value = Vec<Region>> {
    let irregular = vec((0..64u64, 1..9u64), 1..5).prop_map(|list| {
        let mut end = 0;
        let mut regions: Vec<Region> = list
            .into_iter()
            .map(|(gap, len)| {
                let offset = end + gap;
                end = offset + len;
                region(offset, len)
            })
            .collect();
        regions.reverse();
        regions
    });
    let strided = (0..40u64, 1..6u64, 0..6u64, 1..12u64).prop_map(|(offset, len, gap, count)| {
        (0..count)
            .map(|index| region(offset + index * (len + gap), len))
            .collect()
    });
    prop_oneof![irregular, strided]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..6u64, regions()).prop_map(|(number, regions)| Step::Write(number, regions)),
        1 => (0..200u64).prop_map(Step::Cut),
        1 => Just(Step::Elsewhere),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

const BYTES: usize = 512;

/// For each byte: the writes that stored it, the latest last.
type Model = Vec<Vec<u64>>;
const CUT: u64 = u64::MAX;

fn bytes(regions: &[Region]) -> impl Iterator<Item = usize> {
    regions
        .iter()
        .flat_map(|region| region.offset as usize..(region.offset + region.len) as usize)
}

/// Whether the write stored the byte before, and another one has overwritten it since.
fn is_overwritten(stored: &[u64], number: u64) -> bool {
    let own = stored.iter().position(|write| *write == number);
    own.is_some_and(|own| stored[own..].iter().any(|write| *write != number))
}

proptest! {
    #[test]
    fn repeated_writes_leave_alone_what_has_overwritten_them(steps in steps()) {
        let directory = tempfile::tempdir().unwrap();
        let mut history = open(directory.path());
        let first = now();
        let mut model: Model = vec![Vec::new(); BYTES];
        for step in steps {
            match step {
                Step::Write(number, regions) => {
                    let found = left(&history, number, first, &regions).unwrap();
                    let expected: Vec<usize> = bytes(&regions)
                        .filter(|byte| !is_overwritten(&model[*byte], number))
                        .collect();
                    prop_assert_eq!(bytes(&found).collect::<Vec<_>>(), expected);
                    history.note(WriteId::new(1, number), OBJECT, &found).unwrap();
                    for byte in bytes(&found) {
                        model[byte].push(number);
                    }
                }
                Step::Cut(size) => {
                    history.note_cut(OBJECT, size).unwrap();
                    for stored in &mut model[size as usize..] {
                        stored.push(CUT);
                    }
                }
                Step::Elsewhere => {
                    let everything = [region(0, BYTES as u64)];
                    history.note(WriteId::new(2, 1), ObjectId(5), &everything).unwrap();
                }
                Step::Reopen => history = open(directory.path()),
            }
        }
    }
}

#[test]
fn what_began_before_the_oldest_entry_cannot_be_told() {
    let directory = tempfile::tempdir().unwrap();
    let before = now();
    let history = open(directory.path());
    let first = now();
    let blocks = [region(0, 4096)];
    let is_unknown =
        |history: &History, first| matches!(left(history, 1, first, &blocks), Err(Fault::Unknown));
    assert!(is_unknown(&history, before));
    assert!(!is_unknown(&history, first));
    let other_run = Moment { boot: 9, at: first };
    let found = history.overwritten(WriteId::new(1, 1), other_run, OBJECT, &blocks);
    assert!(matches!(found, Err(Fault::Unknown)));

    for number in 0..HISTORY_ENTRIES {
        history
            .note(WriteId::new(2, number), ObjectId(5), &blocks)
            .unwrap();
    }
    assert!(!is_unknown(&history, first));
    let second = now();
    history
        .note(WriteId::new(2, 0), ObjectId(5), &blocks)
        .unwrap();
    for history in [history, open(directory.path())] {
        assert!(is_unknown(&history, first));
        assert!(!is_unknown(&history, second));
    }
}

#[test]
fn a_file_of_another_server_run_or_content_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(NAME);
    let first = {
        let history = open(directory.path());
        let first = now();
        history
            .note(WriteId::new(1, 1), OBJECT, &[region(0, 10)])
            .unwrap();
        history
            .note(WriteId::new(2, 1), OBJECT, &[region(0, 10)])
            .unwrap();
        first
    };
    let good = std::fs::read(&path).unwrap();
    let all = [region(0, 10)];
    let is_known = |owner, boot| {
        let history = History::open(directory.path(), owner, boot).unwrap();
        let write = WriteId::new(1, 1);
        let found = history.overwritten(write, Moment { boot, at: first }, OBJECT, &all);
        std::fs::write(&path, &good).unwrap();
        found.is_ok_and(|found| found == [(0, 10)])
    };
    assert!(is_known(OWNER, BOOT));
    assert!(!is_known(OWNER, BOOT + 1));
    assert!(!is_known(
        Owner {
            file_system: 8,
            ..OWNER
        },
        BOOT
    ));
    assert!(!is_known(
        Owner {
            generation: Generation(8),
            ..OWNER
        },
        BOOT
    ));
    for damaged in [&good[..good.len() - 1], b"", b"something else"] {
        std::fs::write(&path, damaged).unwrap();
        assert!(!is_known(OWNER, BOOT));
    }
    // An entry that a kill cut short is of a write that was not begun.
    let mut torn = good.clone();
    torn[2 * HISTORY_ENTRY_BYTES + 20] ^= 1;
    std::fs::write(&path, torn).unwrap();
    let history = open(directory.path());
    assert_eq!(left(&history, 1, first, &all).unwrap(), all);
}

#[test]
fn of_very_many_regions_only_their_span_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let history = open(directory.path());
    let first = now();
    let scattered: Vec<Region> = (0..1000).map(|i| region(i * i * 3 + 100, 1)).collect();
    history
        .note(WriteId::new(1, 1), OBJECT, &[region(0, 200)])
        .unwrap();
    history
        .note(WriteId::new(2, 1), OBJECT, &scattered)
        .unwrap();
    assert!(matches!(
        left(&history, 1, first, &[region(0, 200)]),
        Err(Fault::Unknown)
    ));
    assert_eq!(
        left(&history, 1, first, &[region(0, 100)]).unwrap(),
        [region(0, 100)]
    );
    // They are one entry.
    assert_eq!(lock(&history.state).next, 2);
}
