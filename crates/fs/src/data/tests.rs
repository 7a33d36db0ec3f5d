//! The store against plain byte vectors, and its promises one by one.

mod damage;
mod holes;
mod interruptions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use causeway_sys::memory::Memory;
use causeway_wire::datafile::{GROUP_BYTES, State, WriteId};
use causeway_wire::fs::{Generation, Incarnation, Moment, ObjectId, Region, ScrubPosition};
use proptest::prelude::*;

use super::*;
use causeway_wire::random::SplitMix64;

const OWNER: Owner = Owner {
    file_system: 7,
    generation: Generation(8),
};

/// For what another thread does at once.
const GENEROUS: Duration = Duration::from_secs(60);

const SETTINGS: Settings = Settings {
    owner: OWNER,
    synced: false,
    checksums: true,
    boot: 1,
};

fn open(directory: &std::path::Path, settings: Settings) -> Store {
    let store = Store::open(directory, settings).unwrap();
    store.set_incarnation(Incarnation(9));
    store
}

fn store(settings: Settings) -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), settings);
    (directory, store)
}

fn make(store: &Store, object: u64) -> std::sync::Arc<Datafile> {
    store.find_or_make(ObjectId(object), 0).unwrap()
}

fn piece(offset: u64, bytes: &[u8]) -> Piece {
    Piece {
        regions: vec![Region {
            offset,
            len: bytes.len() as u64,
        }],
        memory: vec![Memory::from_vec(bytes.to_vec())],
        stable: true,
        abandoned: Abandoned::default(),
        origin: Origin::default(),
    }
}

fn write(datafile: &Datafile, offset: u64, bytes: &[u8]) -> fault::Result<()> {
    datafile
        .write(&piece(offset, bytes), &mut Scratch::default(), 0)
        .map(drop)
}

fn punch_hole(
    datafile: &std::sync::Arc<Datafile>,
    (offset, len): (u64, u64),
    scratch: &mut Scratch,
) -> fault::Result<()> {
    let mut region = Region { offset, len };
    loop {
        let punch = punch::Punch {
            region,
            origin: Origin::default(),
            at_least: 0,
            abandoned: Abandoned::default(),
        };
        let Some(next) = datafile.claim(&[region]).punch(&punch, scratch)? else {
            return Ok(());
        };
        region = Region {
            offset: next,
            len: offset + len - next,
        };
    }
}

fn read(datafile: &Datafile, offset: u64, len: usize, at_least: u64) -> fault::Result<Vec<u8>> {
    let piece = piece(offset, &vec![0xee; len]);
    let options = ReadOptions {
        at_least,
        ..ReadOptions::default()
    };
    let found = datafile.read(&piece, &mut Scratch::default(), &options, &mut Vec::new())?;
    let mut bytes = piece.memory[0].to_vec();
    assert!(bytes[found as usize..].iter().all(|byte| *byte == 0));
    bytes.truncate(found as usize);
    Ok(bytes)
}

fn whole(datafile: &Datafile) -> Vec<u8> {
    let size = datafile.size().unwrap();
    read(datafile, 0, size as usize, size).unwrap()
}

/// Bytes without a pattern that a mistaken offset would repeat.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64::new(seed).bytes(len)
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
    Punch(u64, u64),
    Reserve(u64, u64),
    Flush,
    Clean,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    // Around the front, and around the border of the first group.
    let base = || prop_oneof![3 => Just(0u64), 1 => Just(GROUP_BYTES - 30_000)];
    let scattered = (
        base(),
        prop::collection::vec((0u64..60_000, 0u64..12_000), 1..6),
    )
        .prop_map(|(base, list)| list.iter().map(|(at, len)| (base + at, *len)).collect());
    // Small regions close together, which are sieved.
    let tiles = (base(), 0u64..40_000, 1u64..64, 0u64..200, 3u64..40).prop_map(
        |(base, start, len, gap, count)| {
            (0..count)
                .map(|i| (base + start + i * (len + gap), len))
                .collect::<Vec<_>>()
        },
    );
    // A few bytes of one of a few blocks.
    let small =
        (base(), 0u64..20_000, 1u64..700).prop_map(|(base, start, len)| vec![(base + start, len)]);
    let regions = prop_oneof![scattered, tiles, small];
    let cuts = || prop::collection::vec(0usize..9000, 0..5);
    prop_oneof![
        6 => (regions.clone(), cuts()).prop_map(|(regions, cuts)| Step::Write(regions, cuts)),
        4 => (regions, cuts()).prop_map(|(regions, cuts)| Step::Read(regions, cuts)),
        2 => (base(), 0u64..70_000).prop_map(|(base, size)| Step::Cut(base + size)),
        2 => (base(), 0u64..60_000, 1u64..30_000)
            .prop_map(|(base, start, len)| Step::Punch(base + start, len)),
        1 => (base(), 0u64..60_000, 1u64..30_000)
            .prop_map(|(base, start, len)| Step::Reserve(base + start, len)),
        1 => Just(Step::Flush),
        1 => Just(Step::Clean),
        1 => Just(Step::Reopen),
    ]
}

fn list(regions: &[(u64, u64)]) -> Vec<Region> {
    regions
        .iter()
        .map(|&(offset, len)| Region { offset, len })
        .collect()
}

/// Notes in a model what a write does.
fn note(model: &mut Vec<u8>, regions: &[(u64, u64)], mut bytes: &[u8]) {
    for &(offset, len) in regions.iter().filter(|(_, len)| *len > 0) {
        let (start, end) = (offset as usize, (offset + len) as usize);
        let (now, rest) = bytes.split_at(len as usize);
        if model.len() < end {
            model.resize(end, 0);
        }
        model[start..end].copy_from_slice(now);
        bytes = rest;
    }
}

fn behaves_like_a_vector(settings: Settings, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (directory, mut store) = store(settings);
    // As by two threads, each with the blocks that it has cached.
    let mut scratches = [Scratch::default(), Scratch::default()];
    let object = ObjectId(77);
    let mut model: Vec<u8> = Vec::new();
    for (version, step) in (1..).zip(steps) {
        let at_least = model.len() as u64;
        let scratch = &mut scratches[usize::from(version % 3 == 0)];
        let datafile = store.find_or_make(object, at_least).unwrap();
        match step {
            Step::Write(regions, cuts) => {
                let total = regions.iter().map(|r| r.1).sum::<u64>() as usize;
                let bytes = noise(version, total);
                let piece = Piece {
                    regions: list(&regions),
                    memory: fragments(bytes.clone(), &cuts),
                    stable: version.is_multiple_of(2),
                    abandoned: Abandoned::default(),
                    origin: Origin::default(),
                };
                let size = datafile.write(&piece, scratch, at_least).unwrap();
                note(&mut model, &regions, &bytes);
                prop_assert_eq!(size, model.len() as u64);
            }
            Step::Read(regions, cuts) => {
                let total = regions.iter().map(|r| r.1).sum::<u64>() as usize;
                let memory = fragments(vec![0xee; total], &cuts);
                let piece = Piece {
                    regions: list(&regions),
                    memory: memory.clone(),
                    stable: false,
                    abandoned: Abandoned::default(),
                    origin: Origin::default(),
                };
                let options = ReadOptions {
                    at_least,
                    stamp: Some(datafile.stamp().unwrap()),
                    ..ReadOptions::default()
                };
                let found = datafile
                    .read(&piece, scratch, &options, &mut Vec::new())
                    .unwrap();
                let (mut wanted, mut wanted_found) = (Vec::new(), 0);
                for (offset, len) in regions {
                    for at in offset..offset + len {
                        wanted.push(model.get(at as usize).copied().unwrap_or(0));
                        wanted_found += u64::from(at < model.len() as u64);
                    }
                }
                let got: Vec<u8> = memory.iter().flat_map(Memory::to_vec).collect();
                prop_assert!(got == wanted);
                prop_assert_eq!(found, wanted_found);
            }
            Step::Cut(size) => {
                let kept = at_least.min(size);
                store.truncate(object, size, version, kept).unwrap();
                model.truncate(size as usize);
            }
            Step::Punch(offset, len) => {
                punch_hole(&datafile, (offset, len), scratch).unwrap();
                let size = model.len() as u64;
                let (from, to) = (offset.min(size), (offset + len).min(size));
                model[from as usize..to as usize].fill(0);
            }
            Step::Reserve(offset, len) => store
                .reserve(object, Region { offset, len }, at_least)
                .unwrap(),
            Step::Flush => store.flush(object, at_least).unwrap(),
            Step::Clean => {
                (0..4).for_each(|_| store.clean_idle(2).unwrap());
                prop_assert!(!store.has_dirty());
            }
            Step::Reopen => {
                drop(datafile);
                // As after a kill: nothing was marked clean.
                drop(store);
                store = open(directory.path(), settings);
                continue;
            }
        }
        prop_assert!(whole(&datafile) == model);
        let data = holes::all_data(&store, object.0, model.len() as u64);
        let is_data = |at: u64| data.iter().any(|&(from, to)| (from..to).contains(&at));
        let lost = (0..model.len()).find(|at| model[*at] != 0 && !is_data(*at as u64));
        prop_assert_eq!(lost, None, "data in a hole");
    }
    Ok(())
}

/// Regions that lie close together are written by one access to all that they span. If this span happens to consist of whole blocks,
/// only the regions' bytes are taken from the memory, which has further bytes for later regions.
#[test]
fn regions_that_span_whole_blocks_are_not_taken_for_them() {
    let close = vec![(0, 1000), (1500, 1000), (3000, 1096), (20_000, 9000)];
    let strided: Vec<(u64, u64)> = std::iter::once((0, 1024))
        .chain((0..400).map(|number| (2304 + 2560 * number, 1280)))
        .collect();
    for regions in [close, strided] {
        // Every second write is of memory that does not change.
        let steps = vec![
            Step::Flush,
            Step::Write(regions.clone(), Vec::new()),
            Step::Read(regions.clone(), Vec::new()),
            Step::Write(regions, vec![700]),
        ];
        behaves_like_a_vector(SETTINGS, steps).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_datafile_behaves_like_a_vector_of_bytes(
        steps in prop::collection::vec(step(), 1..12),
        checksums: bool,
        synced: bool,
    ) {
        behaves_like_a_vector(Settings { checksums, synced, ..SETTINGS }, steps)?;
    }
}

#[test]
fn older_truncations_are_ignored_even_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let object = ObjectId(5);
    let synced = Settings {
        synced: true,
        ..SETTINGS
    };
    let store = open(directory.path(), synced);
    write(&make(&store, object.0), 0, &noise(1, 2000)).unwrap();
    store.truncate(object, 1000, 7, 0).unwrap();
    drop(store);
    let store = open(directory.path(), synced);
    store.truncate(object, 10, 7, 0).unwrap();
    store.truncate(object, 20, 6, 0).unwrap();
    let size = || store.find(object).unwrap().unwrap().size().unwrap();
    assert_eq!(size(), 1000);
    store.truncate(object, 30, 8, 0).unwrap();
    assert_eq!(size(), 30);
}

/// A file of many TiB may have datafiles that end early, on disks that hold no longer files.
#[test]
fn a_truncation_behind_the_end_changes_no_length() {
    let (_directory, store) = store(SETTINGS);
    let object = ObjectId(5);
    write(&make(&store, object.0), 0, b"front").unwrap();
    store.truncate(object, 20 << 40, 1, 5).unwrap();
    assert_eq!(store.find(object).unwrap().unwrap().size().unwrap(), 5);
}

#[test]
fn a_seed_appears_once_and_whole() {
    for synced in [false, true] {
        let (directory, store) = store(Settings { synced, ..SETTINGS });
        let object = ObjectId(0xabc_def0_1234);
        assert!(store.find(object).unwrap().is_none());
        let content = noise(1, 10_000);
        // A repeated seed succeeds, another content does not.
        store.seed(object, &content).unwrap();
        store.seed(object, &content).unwrap();
        assert!(matches!(store.seed(object, b"second"), Err(Fault::Exists)));
        let datafile = store.find(object).unwrap().unwrap();
        assert_eq!(whole(&datafile), content);
        assert_eq!(datafile.header().state, State::Clean);
        store.flush(object, 10_000).unwrap();
        let temporary = std::fs::read_dir(directory.path().join("temporary")).unwrap();
        assert_eq!(temporary.count(), 0);
        // With other metadata, even the same content is foreign.
        store.set_incarnation(Incarnation(10));
        assert!(matches!(store.seed(object, &content), Err(Fault::Exists)));
    }
}

#[test]
fn listing_goes_on_behind_the_cursor_and_removing_is_repeatable() {
    let (_directory, store) = store(SETTINGS);
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
    store.flush(ObjectId(4096), 0).unwrap();
}

#[test]
fn many_datafiles_are_open_in_turn() {
    let (_directory, store) = store(SETTINGS);
    let kept = make(&store, 1);
    for number in 1..2000u64 {
        write(&make(&store, number), 0, &number.to_le_bytes()).unwrap();
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
    // A graceful end marks all of them clean, whether they are open or not.
    store.sync_all().unwrap();
    for number in [1u64, 700, 1999] {
        let datafile = store.find(ObjectId(number)).unwrap().unwrap();
        assert_eq!(datafile.header().state, State::Clean);
        assert_eq!(datafile.header().size, 8);
    }
}

/// A write that has begun while its bytes are not in the file yet is not made durable by a flush, and the flush does not wait for it.
#[test]
fn a_flush_counts_no_write_in_progress_as_durable() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    write(&datafile, 0, b"before").unwrap();
    let held = datafile.ranges.lock(0, 4096);
    datafile.begin_write().unwrap();
    datafile.flush().unwrap();
    assert!(!datafile.is_durable());
    drop(held);
    assert!(
        !datafile.clean().unwrap(),
        "the bytes were put after the sync"
    );
    assert_eq!(datafile.header().state, State::Dirty);
    store.flush(ObjectId(3), 0).unwrap();
    assert!(datafile.is_durable() && datafile.clean().unwrap());
    assert_eq!(datafile.header().state, State::Clean);
}

/// The same while another thread writes all the time.
#[test]
fn a_flush_beside_a_writer_counts_no_write_in_progress_as_durable() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    let is_written = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..5000 {
                let _held = datafile.ranges.lock(0, 4096);
                datafile.begin_write().unwrap();
                is_written.store(false, Ordering::Release);
                std::thread::yield_now();
                is_written.store(true, Ordering::Release);
            }
        });
        while !writer.is_finished() {
            datafile.flush().unwrap();
            // In this order: a write that is in progress here may end before the next line, but no flush comes after it.
            let is_in_progress = !is_written.load(Ordering::Acquire);
            assert!(!is_in_progress || !datafile.is_durable());
        }
    });
    datafile.flush().unwrap();
    assert!(datafile.is_durable());
}

/// The orderly end of a server waits for a write that is in progress, and marks its datafile clean after it.
#[test]
fn the_end_of_a_server_waits_for_a_write_in_progress() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    let is_written = AtomicBool::new(false);
    let (begun, begins) = channel();
    std::thread::scope(|scope| {
        let (datafile, is_written) = (&datafile, &is_written);
        scope.spawn(move || {
            let _held = datafile.ranges.lock(0, 4096);
            datafile.begin_write().unwrap();
            begun.send(()).unwrap();
            std::thread::yield_now();
            is_written.store(true, Ordering::Release);
        });
        begins.recv_timeout(GENEROUS).unwrap();
        store.sync_all().unwrap();
        assert!(is_written.load(Ordering::Acquire));
        assert_eq!(datafile.header().state, State::Clean);
    });
}

/// Writers of disjoint records, some of which share blocks, and readers of what was written before.
#[test]
fn disjoint_sieved_and_plain_writers_do_not_disturb_each_other() {
    for checksums in [true, false] {
        let settings = Settings {
            checksums,
            ..SETTINGS
        };
        let (_directory, store) = store(settings);
        let datafile = make(&store, 3);
        const WRITERS: u64 = 4;
        const LEN: u64 = 48;
        const COUNT: u64 = 2000;
        write(&datafile, 0, &[9; (WRITERS * LEN * COUNT) as usize]).unwrap();
        // Without sums, a read beside a write sees what the kernel has copied by then: each byte is for itself.
        let right = |strip: &[u8], index: u64| {
            let written = index % WRITERS + 1;
            let is_one = strip.iter().all(|byte| *byte == strip[0]);
            (is_one || !checksums)
                && (strip.iter()).all(|byte| [9, written].contains(&u64::from(*byte)))
        };
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
                            stable: writer % 2 == 0,
                            abandoned: Abandoned::default(),
                            origin: Origin::default(),
                        };
                        datafile.write(&piece, &mut scratch, 0).unwrap();
                    }
                });
            }
            scope.spawn(|| {
                for round in 0..200 {
                    let index = round * 37 % (WRITERS * COUNT - 300);
                    let bytes = read(&datafile, index * LEN, 300 * LEN as usize, 0).unwrap();
                    for (index, strip) in (index..).zip(bytes.chunks(LEN as usize)) {
                        assert!(right(strip, index), "{index}");
                    }
                }
            });
        });
        for (index, strip) in (0..).zip(whole(&datafile).chunks(LEN as usize)) {
            let written = index % WRITERS + 1;
            assert!(strip.iter().all(|&b| u64::from(b) == written), "{index}");
        }
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

fn sent(offset: u64, bytes: &[u8], number: u64, repeated: Option<u64>) -> Piece {
    let origin = Origin {
        write: WriteId::new(1, number),
        repeated: repeated.map(|at| Moment { boot: 1, at }),
    };
    Piece {
        origin,
        ..piece(offset, bytes)
    }
}

/// A repeated write is stored where it was not before, and where it was not overwritten since: also by a server
/// that was started again.
#[test]
fn a_repeated_write_does_not_undo_later_ones() {
    let (directory, mut store) = store(SETTINGS);
    let first = history::now();
    let mut expected = vec![1; 3 * 4096];
    let scratch = &mut Scratch::default();
    {
        let datafile = make(&store, 5);
        let parts = fragments(vec![1; 3 * 4096], &[5000, 3000]);
        let one = Piece {
            memory: parts,
            ..sent(0, &vec![1; 3 * 4096], 1, None)
        };
        datafile.write(&one, scratch, 0).unwrap();
        datafile
            .write(&sent(100, &[2; 5000], 2, None), scratch, 0)
            .unwrap();
        datafile
            .write(&sent(9000, &[3; 10], 3, None), scratch, 0)
            .unwrap();
        expected[100..5100].fill(2);
        expected[9000..9010].fill(3);
    }
    for restarted in [false, true] {
        if restarted {
            drop(store);
            store = open(directory.path(), SETTINGS);
        }
        let datafile = make(&store, 5);
        let again = Piece {
            memory: fragments(vec![1; 3 * 4096], &[5000, 3000]),
            ..sent(0, &vec![1; 3 * 4096], 1, Some(first))
        };
        datafile.write(&again, scratch, 0).unwrap();
        assert!(whole(&datafile) == expected);
    }
    // A write that was not stored before is stored, however late.
    let datafile = make(&store, 5);
    datafile
        .write(&sent(0, &[4; 50], 4, Some(first)), scratch, 0)
        .unwrap();
    expected[..50].fill(4);
    assert!(whole(&datafile) == expected);
    // A truncation overwrites, too.
    store.truncate(ObjectId(5), 4096, 1, 0).unwrap();
    datafile
        .write(&sent(8192, &[1; 10], 1, Some(first)), scratch, 0)
        .unwrap();
    assert!(whole(&datafile) == expected[..4096]);
    // After a restart of the host nothing is known.
    let other = Piece {
        origin: Origin {
            repeated: Some(Moment { boot: 2, at: first }),
            ..Origin::default()
        },
        ..piece(0, &[5; 10])
    };
    let refused = datafile.write(&other, scratch, 0);
    assert!(matches!(refused, Err(Fault::Unknown)));
    assert!(whole(&datafile) == expected[..4096]);
}

/// Also of a piece whose regions overlap, each byte is stored from the memory of its own region.
#[test]
fn a_repeated_piece_with_overlapping_regions_is_stored_as_at_first() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    let first = history::now();
    let piece = |repeated| Piece {
        regions: [(0, 10), (5, 3)]
            .map(|(offset, len)| Region { offset, len })
            .to_vec(),
        memory: vec![Memory::from_vec((1..=13).collect())],
        ..sent(0, &[], 1, repeated)
    };
    let scratch = &mut Scratch::default();
    datafile.write(&piece(None), scratch, 0).unwrap();
    datafile
        .write(&sent(2, &[99; 2], 2, None), scratch, 0)
        .unwrap();
    let stored = read(&datafile, 0, 10, 0).unwrap();
    assert_eq!(stored, [1, 2, 99, 99, 5, 11, 12, 13, 9, 10]);
    datafile.write(&piece(Some(first)), scratch, 0).unwrap();
    assert_eq!(read(&datafile, 0, 10, 0).unwrap(), stored);
}

/// A datafile that is being truncated is not reported as too short.
#[test]
fn checks_beside_truncations_find_nothing() {
    let (_directory, store) = store(SETTINGS);
    let datafile = make(&store, 6);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..300 {
                write(&datafile, 0, &[1; 9000]).unwrap();
                (0..4).for_each(|_| store.clean_idle(2).unwrap());
                store.truncate(ObjectId(6), 0, version, 0).unwrap();
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            datafile.check_size(0).unwrap();
        }
    });
}
