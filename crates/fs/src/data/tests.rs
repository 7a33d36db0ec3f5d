//! The store against plain byte vectors, and its promises one by one.

use std::io::Write as _;
use std::sync::mpsc::channel;

use causeway_sys::memory::Memory;
use causeway_wire::fs::{ObjectId, Region};
use proptest::prelude::*;

use super::datafile::Wait;
use super::*;

fn store(synced: bool) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), synced).unwrap();
    (directory, store)
}

fn whole(datafile: &Datafile) -> Vec<u8> {
    let size = datafile.size().unwrap() as usize;
    let memory = Memory::zeroed(size);
    assert_eq!(memory.read_from_file(datafile.file(), 0).unwrap(), size);
    memory.into_vec()
}

/// Cuts memory into fragments of these lengths, the last one taking the rest.
fn fragments(bytes: Vec<u8>, cuts: &[usize]) -> Vec<Memory> {
    let memory = Memory::from_vec(bytes);
    let (mut parts, mut at) = (Vec::new(), 0);
    for &cut in cuts {
        let end = (at + cut).min(memory.len());
        parts.push(memory.slice(at..end));
        at = end;
    }
    parts.push(memory.slice(at..memory.len()));
    parts
}

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<(u64, u64)>, Vec<usize>),
    Read(Vec<(u64, u64)>, Vec<usize>),
    Cut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let scattered = prop::collection::vec((0u64..60_000, 0u64..12_000), 1..6);
    // Small regions close together, which are sieved.
    let tiles =
        (0u64..40_000, 1u64..64, 0u64..200, 3u64..40).prop_map(|(start, len, gap, count)| {
            (0..count)
                .map(|i| (start + i * (len + gap), len))
                .collect::<Vec<_>>()
        });
    let regions = prop_oneof![scattered, tiles];
    let cuts = || prop::collection::vec(0usize..9000, 0..5);
    prop_oneof![
        3 => (regions.clone(), cuts()).prop_map(|(regions, cuts)| Step::Write(regions, cuts)),
        2 => (regions, cuts()).prop_map(|(regions, cuts)| Step::Read(regions, cuts)),
        1 => (0u64..70_000).prop_map(Step::Cut),
    ]
}

fn list(regions: &[(u64, u64)]) -> Vec<Region> {
    regions
        .iter()
        .map(|&(offset, len)| Region { offset, len })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_datafile_behaves_like_a_vector_of_bytes(steps in prop::collection::vec(step(), 1..12)) {
        let (_directory, store) = store(false);
        let mut scratch = Scratch::default();
        let object = ObjectId(77);
        let datafile = store.find_or_make(object).unwrap();
        let mut model: Vec<u8> = Vec::new();
        let mut fill = 0u8;
        for (version, step) in (1..).zip(steps) {
            match step {
                Step::Write(regions, cuts) => {
                    let total = regions.iter().map(|r| r.1).sum::<u64>() as usize;
                    let bytes: Vec<u8> = (0..total).map(|i| (i as u8) ^ fill).collect();
                    fill = fill.wrapping_add(41);
                    let piece = Piece {
                        regions: list(&regions),
                        memory: fragments(bytes.clone(), &cuts),
                    };
                    datafile.write(&piece, &mut scratch).unwrap();
                    let mut from = &bytes[..];
                    for (offset, len) in regions {
                        let (start, end) = (offset as usize, (offset + len) as usize);
                        let (now, rest) = from.split_at(len as usize);
                        if len > 0 && model.len() < end {
                            model.resize(end, 0);
                        }
                        if len > 0 {
                            model[start..end].copy_from_slice(now);
                        }
                        from = rest;
                    }
                }
                Step::Read(regions, cuts) => {
                    let total = regions.iter().map(|r| r.1).sum::<u64>() as usize;
                    let memory = fragments(vec![0xee; total], &cuts);
                    let piece = Piece { regions: list(&regions), memory: memory.clone() };
                    let found = datafile.read(&piece, &mut scratch, Wait::Allowed).unwrap();
                    let (mut wanted, mut wanted_found) = (Vec::new(), 0);
                    for (offset, len) in regions {
                        for at in offset..offset + len {
                            wanted.push(model.get(at as usize).copied().unwrap_or(0));
                            wanted_found += u64::from(at < model.len() as u64);
                        }
                    }
                    let got: Vec<u8> = memory.iter().flat_map(Memory::to_vec).collect();
                    prop_assert_eq!(got, wanted);
                    prop_assert_eq!(found, wanted_found);
                }
                Step::Cut(size) => {
                    store.truncate(object, size, version).unwrap();
                    model.resize(size as usize, 0);
                }
            }
            prop_assert_eq!(whole(&datafile), model.clone());
        }
    }
}

#[test]
fn older_truncations_are_ignored_even_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let object = ObjectId(5);
    {
        let store = Store::open(directory.path(), true).unwrap();
        store.truncate(object, 1000, 7).unwrap();
    }
    let store = Store::open(directory.path(), true).unwrap();
    store.truncate(object, 10, 7).unwrap();
    store.truncate(object, 20, 6).unwrap();
    let size = || store.find(object).unwrap().unwrap().size().unwrap();
    assert_eq!(size(), 1000);
    store.truncate(object, 30, 8).unwrap();
    assert_eq!(size(), 30);
}

#[test]
fn a_seed_appears_once_and_whole() {
    for synced in [false, true] {
        let (_directory, store) = store(synced);
        let object = ObjectId(0xabc_def0_1234);
        assert!(store.find(object).unwrap().is_none());
        store.seed(object, b"first").unwrap();
        store.seed(object, b"second").unwrap();
        let datafile = store.find(object).unwrap().unwrap();
        assert_eq!(whole(&datafile), b"first");
        store.flush(object).unwrap();
        assert_eq!(
            std::fs::read_dir(_directory.path().join("temporary"))
                .unwrap()
                .count(),
            0
        );
    }
}

#[test]
fn listing_goes_on_behind_the_cursor_and_removing_is_repeatable() {
    let (_directory, store) = store(false);
    let numbers = [1u64, 2, 4095, 4096, 4097, 1 << 24, (1 << 24) + 1, u64::MAX];
    for &number in numbers.iter().rev() {
        store.seed(ObjectId(number), &[1, 2, 3]).unwrap();
    }
    let (mut found, mut after) = (Vec::new(), ObjectId(0));
    loop {
        let (page, end) = store.list(after, 3).unwrap();
        assert!(page.iter().all(|(_, size)| *size == 3));
        found.extend(page.iter().map(|(object, _)| object.0));
        after = ObjectId(found.last().copied().unwrap());
        if end {
            break;
        }
    }
    assert_eq!(found, numbers);
    for _ in 0..2 {
        store.remove(ObjectId(4096)).unwrap();
    }
    store
        .sync_removals(&[ObjectId(4096), ObjectId(1 << 40)])
        .unwrap();
    assert!(store.find(ObjectId(4096)).unwrap().is_none());
    assert_eq!(
        store.list(ObjectId(0), 100).unwrap().0.len(),
        numbers.len() - 1
    );
    store.flush(ObjectId(4096)).unwrap();
}

#[test]
fn many_datafiles_are_open_in_turn() {
    let (_directory, store) = store(false);
    let kept = store.find_or_make(ObjectId(1)).unwrap();
    for number in 1..2000 {
        let datafile = store.find_or_make(ObjectId(number)).unwrap();
        (&mut datafile.file())
            .write_all(&number.to_le_bytes())
            .unwrap();
    }
    for number in [1u64, 700, 1999] {
        let datafile = store.find(ObjectId(number)).unwrap().unwrap();
        assert_eq!(whole(&datafile), number.to_le_bytes());
    }
    // In use all the time, so it is still the same one.
    assert!(std::sync::Arc::ptr_eq(
        &kept,
        &store.find(ObjectId(1)).unwrap().unwrap()
    ));
}

#[test]
fn disjoint_sieved_and_plain_writers_do_not_disturb_each_other() {
    let (_directory, store) = store(false);
    let datafile = store.find_or_make(ObjectId(3)).unwrap();
    const WRITERS: u64 = 4;
    const LEN: u64 = 48;
    const COUNT: u64 = 2000;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let datafile = &datafile;
            scope.spawn(move || {
                let mut scratch = Scratch::default();
                let regions: Vec<Region> = (0..COUNT)
                    .map(|i| Region {
                        offset: (i * WRITERS + writer) * LEN,
                        len: LEN,
                    })
                    .collect();
                // Half of them go in large sieved pieces, half one by one.
                let chunk = if writer % 2 == 0 { 500 } else { 1 };
                for regions in regions.chunks(chunk) {
                    let bytes = vec![writer as u8 + 1; regions.len() * LEN as usize];
                    let piece = Piece {
                        regions: regions.to_vec(),
                        memory: vec![bytes.into()],
                    };
                    datafile.write(&piece, &mut scratch).unwrap();
                }
            });
        }
    });
    let bytes = whole(&datafile);
    assert_eq!(bytes.len() as u64, WRITERS * LEN * COUNT);
    for (index, strip) in bytes.chunks(LEN as usize).enumerate() {
        assert!(
            strip
                .iter()
                .all(|&b| u64::from(b) == index as u64 % WRITERS + 1),
            "{index}"
        );
    }
}

#[test]
fn the_pool_runs_everything_and_its_threads_end() {
    let pool = Pool::new(3);
    let (sender, receiver) = channel();
    for number in 0..100u32 {
        let sender = sender.clone();
        pool.run(move |_| sender.send(number).unwrap());
    }
    drop(sender);
    let mut numbers: Vec<u32> = receiver.iter().collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
}
