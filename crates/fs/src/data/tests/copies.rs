//! Copies between datafiles, and within one.

use std::sync::Arc;

use causeway_wire::datafile::physical;

use super::super::copy::{Copied, DataCopy};
use super::interruptions::flip;
use super::*;

const SOURCE: u64 = 3;
const TARGET: u64 = 4;

fn copy(from: u64, to: u64, len: u64) -> DataCopy {
    DataCopy {
        object: ObjectId(TARGET),
        region: Region { offset: to, len },
        at_least: 0,
        source: ObjectId(SOURCE),
        source_offset: from,
        source_at_least: 0,
        origin: Origin::default(),
        abandoned: Abandoned::default(),
    }
}

/// Copies all of it, and returns how far that was data.
fn copy_all(store: &Store, whole: &DataCopy) -> u64 {
    let (mut scratch, mut done, mut reached) = (Scratch::default(), 0, 0);
    while done < whole.region.len {
        let rest = DataCopy {
            region: Region {
                offset: whole.region.offset + done,
                len: whole.region.len - done,
            },
            source_offset: whole.source_offset + done,
            ..whole.clone()
        };
        let copied: Copied = store.copy(&rest, &mut scratch).unwrap();
        assert!(copied.bytes > 0 && copied.stored <= copied.bytes);
        done += copied.bytes;
        reached = copied.reached.max(reached);
    }
    assert_eq!(done, whole.region.len);
    reached
}

#[test]
fn copies_are_what_a_model_says() {
    for (seed, checksums) in [(1, true), (2, false), (3, true)] {
        let (directory, store) = store(Settings {
            checksums,
            ..SETTINGS
        });
        let mut random = SplitMix64::new(seed);
        let most = 3 * GROUP_BYTES;
        let mut models = [vec![0; most as usize], vec![0; most as usize]];
        for step in 0..120 {
            let one = random.below(2) as usize;
            let datafile = make(&store, SOURCE + one as u64);
            let offset = random.below(most);
            let len = (1 + random.below(200_000)).min(most - offset);
            let part = offset as usize..(offset + len) as usize;
            match random.below(4) {
                0 => {
                    let bytes = noise(step, len as usize);
                    write(&datafile, offset, &bytes).unwrap();
                    models[one][part].copy_from_slice(&bytes);
                }
                1 => {
                    punch_hole(&datafile, (offset, 9 * len), &mut Scratch::default()).unwrap();
                    let end = (offset + 9 * len).min(most) as usize;
                    models[one][part.start..end].fill(0);
                }
                kind => {
                    let from = match kind {
                        2 => offset,
                        _ => random.below(most - len),
                    };
                    let whole = DataCopy {
                        object: ObjectId(SOURCE + one as u64),
                        source: ObjectId(SOURCE + 1 - one as u64),
                        ..copy(from, offset, len)
                    };
                    copy_all(&store, &whole);
                    let bytes = models[1 - one][from as usize..(from + len) as usize].to_vec();
                    models[one][part].copy_from_slice(&bytes);
                }
            }
            for (number, model) in models.iter().enumerate() {
                let datafile = make(&store, SOURCE + number as u64);
                let mut found = whole(&datafile);
                found.resize(most as usize, 0);
                assert!(found == *model, "step {step} of {seed}");
            }
        }
        drop(store);
        let store = open(directory.path(), SETTINGS);
        let scrubbed = store.scrub(ScrubPosition::FRONT, u64::MAX, &mut Scratch::default());
        assert!(scrubbed.unwrap().findings.is_empty());
    }
}

#[test]
fn holes_are_not_stored_and_do_not_make_a_datafile() {
    let (_directory, store) = store(SETTINGS);
    let far = 40 * GROUP_BYTES;
    assert_eq!(copy_all(&store, &copy(0, 0, far)), 0);
    assert!(store.find(ObjectId(TARGET)).unwrap().is_none());
    let source = make(&store, SOURCE);
    write(&source, far, &noise(1, 5000)).unwrap();
    write(&make(&store, TARGET), 0, &noise(2, 3_000_000)).unwrap();
    let reached = copy_all(&store, &copy(0, 0, far + 5000));
    assert_eq!(reached, far + 5000);
    let target = make(&store, TARGET);
    assert!(whole(&target) == whole(&source));
    assert!(store.stored(ObjectId(TARGET)).unwrap() < 100_000);
    // What comes behind the end of the one stays a hole of the other, whose length does not change.
    assert_eq!(copy_all(&store, &copy(far + 5000, far + 5000, far)), 0);
    assert_eq!(target.size().unwrap(), far + 5000);
}

#[test]
fn what_was_lost_or_is_damaged_is_not_copied() {
    let (directory, store) = store(SETTINGS);
    write(&make(&store, SOURCE), 0, &noise(1, 100_000)).unwrap();
    write(&make(&store, TARGET), 0, &noise(2, 1000)).unwrap();
    let fails = |copy: DataCopy| store.copy(&copy, &mut Scratch::default()).unwrap_err();
    let whole = copy(0, 0, 100_000);
    let short = fails(DataCopy {
        region: Region {
            offset: 0,
            len: 200_000,
        },
        source_offset: 50_000,
        source_at_least: 100_001,
        ..whole.clone()
    });
    assert!(
        matches!(short, (ObjectId(SOURCE), Fault::Short { .. })),
        "{short:?}"
    );
    let absent = fails(DataCopy {
        source: ObjectId(9),
        source_at_least: 1,
        ..whole.clone()
    });
    assert!(
        matches!(absent, (ObjectId(9), Fault::Absent { .. })),
        "{absent:?}"
    );
    let short = fails(DataCopy {
        at_least: 1001,
        ..whole.clone()
    });
    assert!(
        matches!(short, (ObjectId(TARGET), Fault::Short { .. })),
        "{short:?}"
    );
    let abandoned = whole.clone();
    abandoned.abandoned.set();
    assert!(matches!(fails(abandoned).1, Fault::Abandoned));
    flip(
        &paths::path(&directory.path().join("objects"), ObjectId(SOURCE)),
        physical(5000),
        3,
    );
    let whole = DataCopy {
        abandoned: Abandoned::default(),
        ..whole
    };
    let damaged = fails(whole);
    assert!(
        matches!(damaged, (ObjectId(SOURCE), Fault::Damaged { .. })),
        "{damaged:?}"
    );
    assert!(read(&make(&store, TARGET), 0, 1000, 1000).unwrap() == noise(2, 1000));
}

/// What is sent again, since its first reply was lost, leaves alone what others have written since.
#[test]
fn a_repeated_copy_does_not_undo_later_writes() {
    let (_directory, store) = store(SETTINGS);
    write(&make(&store, SOURCE), 8000, &noise(1, 60_000)).unwrap();
    let first = history::now();
    let write_id = WriteId::new(5, 7);
    let sent = |repeated: Option<u64>| DataCopy {
        origin: Origin {
            write: write_id,
            repeated: repeated.map(|at| Moment { boot: 1, at }),
        },
        ..copy(0, 0, 100_000)
    };
    copy_all(&store, &sent(None));
    let target = make(&store, TARGET);
    write(&target, 10_000, &noise(2, 5000)).unwrap();
    write(&target, 2000, &noise(3, 100)).unwrap();
    copy_all(&store, &sent(Some(first)));
    let mut expected = vec![0; 68_000];
    expected[8000..].copy_from_slice(&noise(1, 60_000));
    expected[10_000..15_000].copy_from_slice(&noise(2, 5000));
    expected[2000..2100].copy_from_slice(&noise(3, 100));
    assert!(whole(&target) == expected);
}

/// Copies in opposite directions, beside writes, wait for nothing that waits for them.
#[test]
fn copies_in_opposite_directions_end() {
    let (_directory, store) = store(SETTINGS);
    let store = Arc::new(store);
    for object in [SOURCE, TARGET] {
        write(&make(&store, object), 0, &noise(object, 3 << 20)).unwrap();
    }
    let (sender, ended) = channel();
    for number in 0..4_u64 {
        let (store, sender) = (Arc::clone(&store), sender.clone());
        std::thread::spawn(move || {
            let forth = copy(0, 0, 3 << 20);
            let back = DataCopy {
                object: forth.source,
                source: forth.object,
                ..forth.clone()
            };
            for _ in 0..10 {
                copy_all(&store, if number % 2 == 0 { &forth } else { &back });
                write(
                    &make(&store, SOURCE),
                    70_000 * number,
                    &noise(number, 100_000),
                )
                .unwrap();
            }
            sender.send(()).unwrap();
        });
    }
    for _ in 0..4 {
        ended
            .recv_timeout(std::time::Duration::from_secs(120))
            .expect("they end");
    }
    for object in [SOURCE, TARGET] {
        whole(&make(&store, object));
    }
}
