//! Servers that are killed between any two steps, and hosts that lose power.

use causeway_wire::datafile::{Trust, physical};

use super::super::steps::{self, Change};
use super::*;

const BLOCK: usize = 4096;

/// An operation that a kill interrupts.
#[derive(Debug, Clone)]
enum Last {
    Write(u64, usize),
    Tiles(u64, u64, u64),
    Cut(u64),
    Punch(u64, u64),
}

fn last_steps() -> Vec<Last> {
    let border = GROUP_BYTES - 6000;
    vec![
        Last::Write(0, 3 * BLOCK),
        Last::Write(100, 5000),
        Last::Write(20_000, 100),
        // Behind the end, and over the border of a group.
        Last::Write(border, 20_000),
        Last::Tiles(500, 30, 20),
        Last::Cut(5000),
        Last::Cut(2 * BLOCK as u64),
        Last::Cut(0),
        Last::Cut(60_000),
        Last::Punch(0, 40_000),
        Last::Punch(3000, 20_000),
        Last::Punch(4096, 100),
        Last::Punch(30_000, 4 * GROUP_BYTES),
    ]
}

/// Applies it to the store and to the model.
fn carry_out(store: &Store, last: &Last, version: u64, model: &mut Vec<u8>) -> fault::Result<()> {
    let object = ObjectId(3);
    match *last {
        Last::Write(offset, len) => {
            let bytes = noise(version, len);
            note(model, &[(offset, len as u64)], &bytes);
            write(&*store.find_or_make(object, 0)?, offset, &bytes)
        }
        Last::Tiles(start, len, count) => {
            let regions: Vec<(u64, u64)> = (0..count).map(|i| (start + i * 400, len)).collect();
            let bytes = noise(version, (len * count) as usize);
            note(model, &regions, &bytes);
            let piece = Piece {
                regions: list(&regions),
                memory: vec![Memory::from_vec(bytes)],
                stable: version.is_multiple_of(2),
                abandoned: Abandoned::default(),
                origin: Origin::default(),
            };
            let datafile = store.find_or_make(object, 0)?;
            datafile.write(&piece, &mut Scratch::default(), 0).map(drop)
        }
        Last::Cut(size) => {
            model.truncate(size as usize);
            store.truncate(object, size, version, 0)
        }
        Last::Punch(offset, len) => {
            let size = model.len() as u64;
            let (from, to) = (offset.min(size), (offset + len).min(size));
            model[from as usize..to as usize].fill(0);
            let datafile = store.find_or_make(object, 0)?;
            punch_hole(&datafile, (offset, len), &mut Scratch::default())
        }
    }
}

fn at(bytes: &[u8], block: usize) -> Vec<u8> {
    let start = (block * BLOCK).min(bytes.len());
    let mut found = bytes[start..bytes.len().min(start + BLOCK)].to_vec();
    found.resize(BLOCK, 0);
    found
}

/// Each block is as before or as after.
#[track_caller]
fn check_blocks(datafile: &Datafile, states: &[Vec<u8>], context: &str) {
    let size = datafile.size().unwrap() as usize;
    let longest = states.iter().map(Vec::len).max().unwrap_or(0).max(size);
    for block in 0..longest.div_ceil(BLOCK) {
        let found = match read(datafile, (block * BLOCK) as u64, BLOCK, 0) {
            Ok(found) => at(&found, 0),
            Err(fault) => panic!("{context}, block {block}: {fault}"),
        };
        assert!(
            states.iter().any(|state| at(state, block) == found),
            "{context}, block {block} is as it never was"
        );
    }
}

/// A datafile of some blocks, and one that has just been marked clean.
fn prepare(directory: &std::path::Path, clean: bool) -> (Store, Vec<u8>) {
    let store = open(directory, SETTINGS);
    let model = noise(99, 40_000);
    write(&make(&store, 3), 0, &model).unwrap();
    if clean {
        store.flush(ObjectId(3), 0).unwrap();
        (0..3).for_each(|_| store.clean_idle(9).unwrap());
    }
    (store, model)
}

#[test]
fn a_kill_after_any_step_leaves_blocks_as_before_or_after() {
    for last in last_steps() {
        for clean in [false, true] {
            for kill_at in 0.. {
                let directory = tempfile::tempdir().unwrap();
                let (store, before) = prepare(directory.path(), clean);
                let mut after = before.clone();
                steps::kill_after(kill_at);
                let result = carry_out(&store, &last, 1, &mut after);
                let was_killed = steps::revive();
                drop(store);
                let context = format!("{last:?}, clean {clean}, killed after {kill_at}");
                // A second server is killed in the middle of the same recovery, then the last one completes it.
                let store = open(directory.path(), SETTINGS);
                let datafile = store.find(ObjectId(3)).unwrap().unwrap();
                check_blocks(&datafile, &[before.clone(), after.clone()], &context);
                drop(datafile);
                let mut third = after.clone();
                steps::kill_after(kill_at / 2);
                let _ = carry_out(&store, &last, 2, &mut third);
                steps::revive();
                drop(store);
                let store = open(directory.path(), SETTINGS);
                let datafile = store.find(ObjectId(3)).unwrap().unwrap();
                let states = [before, after.clone(), third.clone()];
                check_blocks(&datafile, &states, &context);
                carry_out(&store, &last, 3, &mut third).unwrap();
                scrub_until_trusted(&store, &context);
                check_blocks(&datafile, &[states[0].clone(), after, third], &context);
                if !was_killed {
                    result.unwrap();
                    break;
                }
            }
        }
    }
}

/// A scrub finds nothing wrong, and blocks are held to their latest sums after it.
#[track_caller]
fn scrub_until_trusted(store: &Store, context: &str) {
    let front = ScrubPosition {
        object: ObjectId(0),
        offset: 0,
    };
    let step = store
        .scrub(front, 1 << 30, &mut Scratch::default())
        .unwrap();
    assert!(step.findings.is_empty(), "{context}: {:?}", step.findings);
    assert_eq!(step.next, None);
    let datafile = store.find(ObjectId(3)).unwrap().unwrap();
    assert_eq!(datafile.header().trust, Trust::Latest, "{context}");
}

/// A write that fails in the middle, while the server lives on, leaves no block unreadable.
#[test]
fn a_failed_write_leaves_readable_blocks() {
    for kill_at in 0..12 {
        let directory = tempfile::tempdir().unwrap();
        let (store, before) = prepare(directory.path(), false);
        let mut after = before.clone();
        steps::kill_after(kill_at);
        let failed = carry_out(&store, &Last::Write(3000, 20_000), 1, &mut after).is_err();
        steps::revive();
        let datafile = store.find(ObjectId(3)).unwrap().unwrap();
        if failed {
            // In this test the sums could not be corrected either: a later write corrects them first.
            let mut again = after.clone();
            carry_out(&store, &Last::Write(0, 40_000), 2, &mut again).unwrap();
            check_blocks(&datafile, &[again], "written again");
        } else {
            check_blocks(&datafile, &[after], "not failed");
        }
    }
}

/// A datafile that could not be marked clean is tried again, and does not keep others from being marked.
#[test]
fn a_datafile_that_could_not_be_marked_clean_is_marked_later() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), SETTINGS);
    for object in [3, 4] {
        write(&make(&store, object), 0, &noise(object, 5000)).unwrap();
    }
    let clean = || (0..9).try_for_each(|_| store.clean_idle(1));
    let count_clean = || {
        let header = |object| store.find(ObjectId(object)).unwrap().unwrap().header();
        let states = [3, 4].map(|object| header(object).state);
        states
            .iter()
            .filter(|state| **state == State::Clean)
            .count()
    };
    steps::fail_one();
    store.clean_idle(1).unwrap_err();
    assert_eq!(count_clean(), 1);
    assert!(store.has_dirty());
    clean().unwrap();
    assert_eq!(count_clean(), 2);
    assert!(!store.has_dirty());
}

/// Contents of the device after a loss of power: all changes up to a sync, and some pages of later ones.
fn lose_power(path: &std::path::Path, changes: &[Change], keep: impl Fn(usize) -> bool) {
    use std::os::unix::fs::FileExt as _;
    let synced = changes
        .iter()
        .rposition(|change| matches!(change, Change::Synced))
        .map_or(0, |last| last + 1);
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(0).unwrap();
    for (index, change) in changes.iter().enumerate() {
        if index >= synced && !keep(index) {
            continue;
        }
        match change {
            Change::Put(offset, bytes) => file.write_all_at(bytes, *offset).unwrap(),
            Change::SetLen(len) => file.set_len(*len).unwrap(),
            Change::Free(offset, len) => super::super::disk::free(&file, *offset, *len).unwrap(),
            Change::Synced => {}
        }
    }
}

#[test]
fn synced_data_that_were_not_overwritten_survive_a_loss_of_power() {
    for seed in 0..60u64 {
        let directory = tempfile::tempdir().unwrap();
        let object = ObjectId(3);
        let store = open(directory.path(), SETTINGS);
        steps::record();
        let synced = noise(seed, 60_000);
        write(&make(&store, 3), 0, &synced).unwrap();
        store.flush(object, 0).unwrap();
        if seed % 3 > 0 {
            (0..3).for_each(|_| store.clean_idle(9).unwrap());
        }
        // Parts of blocks and whole ones, one of them twice.
        let written = [
            (5000u64, 200usize),
            (16_384, 8192),
            (16_384, 4096),
            (70_000, 9000),
        ];
        let mut newest = synced.clone();
        for (number, &(offset, len)) in written.iter().enumerate() {
            let bytes = noise(seed * 7 + number as u64, len);
            note(&mut newest, &[(offset, len as u64)], &bytes);
            write(&make(&store, 3), offset, &bytes).unwrap();
        }
        let hole = (30_000, 10_000);
        let part = (hole.0, hole.1 as u64);
        punch_hole(&make(&store, 3), part, &mut Scratch::default()).unwrap();
        let changes = steps::recorded();
        drop(store);
        let path = paths::path(&directory.path().join("objects"), object);
        let choice = noise(seed + 1000, changes.len());
        lose_power(&path, &changes, |index| choice[index].is_multiple_of(2));

        let boot = Settings {
            boot: 2,
            ..SETTINGS
        };
        let store = open(directory.path(), boot);
        let datafile = store.find(object).unwrap().unwrap();
        assert_eq!(datafile.header().trust, Trust::Unsynced);
        let found = read(&datafile, 0, 60_000, 0).unwrap();
        let overwritten = |at: usize| {
            let mut all = written.iter().copied().chain([hole]);
            all.any(|(offset, len)| (offset as usize..offset as usize + len).contains(&at))
        };
        for (at, byte) in found.iter().enumerate() {
            // A byte that was not overwritten has its synced value.
            assert!(
                overwritten(at) || *byte == synced[at],
                "seed {seed}, byte {at}"
            );
        }
        // After a scrub every block has a sum again.
        scrub_until_trusted(&store, "after the loss of power");
        assert_eq!(read(&datafile, 0, 60_000, 0).unwrap(), found);
        flip(&path, physical(100), 1);
        assert!(matches!(
            read(&datafile, 0, 10, 0),
            Err(Fault::Damaged {
                offset: 0,
                len: 4096
            })
        ));
    }
}

pub(super) fn flip(path: &std::path::Path, offset: u64, bit: u8) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], offset)
        .unwrap();
}
