//! Stored bytes that change by themselves, and datafiles that are missing, short or another object's.

use causeway_wire::datafile::{
    BLOCK_BYTES, HEADER_BYTES, MAX_FAR_SPANS, NEAR_GROUPS, WRITTEN_OFFSET, physical, sums_offset,
};

use rustix::fs::FallocateFlags;

use super::interruptions::flip;
use super::*;

fn path(directory: &tempfile::TempDir, object: u64) -> std::path::PathBuf {
    paths::path(&directory.path().join("objects"), ObjectId(object))
}

/// Wherever a bit flips, a read returns the right bytes or an error.
#[test]
fn a_flipped_bit_is_never_read_as_data() {
    let (directory, store) = store(SETTINGS);
    // Two groups, the first with a hole, the end inside a block.
    let size = GROUP_BYTES + 5000;
    let mut model = vec![0; size as usize];
    for (offset, len) in [(0, 9000), (GROUP_BYTES - 100, 5100)] {
        let bytes = noise(offset, len);
        write(&make(&store, 3), offset, &bytes).unwrap();
        note(&mut model, &[(offset, len as u64)], &bytes);
    }
    store.sync_all().unwrap();
    drop(store);
    let path = path(&directory, 3);
    let hole = 100 * BLOCK_BYTES;
    let offsets = (0..HEADER_BYTES as u64)
        .chain([0, 1, 700].map(|byte| WRITTEN_OFFSET + byte))
        .chain([sums_offset(0), sums_offset(0) + 4, sums_offset(1) + 7])
        .chain([sums_offset(100), sums_offset(100) + 5])
        .chain([
            sums_offset(511) + 6,
            sums_offset(512) + 4,
            sums_offset(513) + 4,
        ])
        .chain([0, 1, 4095, 4096, 8999, 9000, hole, GROUP_BYTES - 1].map(physical))
        .chain([GROUP_BYTES, GROUP_BYTES + 4096, size - 1].map(physical));
    let mut noticed = 0;
    for (number, offset) in offsets.enumerate() {
        flip(&path, offset, number as u8);
        let store = open(directory.path(), SETTINGS);
        match store.find(ObjectId(3)) {
            Err(Fault::Header(_)) if offset < BLOCK_BYTES => noticed += 1,
            Err(fault) => panic!("{offset}: {fault}"),
            Ok(datafile) => {
                let datafile = datafile.unwrap();
                for start in (0..size).step_by(BLOCK_BYTES as usize) {
                    match read(&datafile, start, BLOCK_BYTES as usize, size) {
                        Ok(found) => {
                            let wanted = &model[start as usize..][..found.len()];
                            assert!(found == wanted, "{offset}: wrong bytes at {start}");
                        }
                        Err(Fault::Damaged { .. }) => noticed += 1,
                        Err(fault) => panic!("{offset}: {fault}"),
                    }
                }
            }
        }
        flip(&path, offset, number as u8);
    }
    // All but the one in a previous sum.
    assert_eq!(noticed, HEADER_BYTES as u32 + 20);
    let store = open(directory.path(), SETTINGS);
    assert!(whole(&store.find(ObjectId(3)).unwrap().unwrap()) == model);
}

#[test]
fn damaged_blocks_fail_alone_and_heal_when_they_are_written_whole() {
    let (directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    let bytes = noise(5, 20_000);
    write(&datafile, 0, &bytes).unwrap();
    flip(&path(&directory, 3), physical(5000), 3);
    let damaged = |result: fault::Result<Vec<u8>>| {
        matches!(
            result,
            Err(Fault::Damaged {
                offset: 4096,
                len: 4096
            })
        )
    };
    assert!(damaged(read(&datafile, 0, 20_000, 0)));
    assert!(damaged(read(&datafile, 8191, 1, 0)));
    assert_eq!(read(&datafile, 0, 4096, 0).unwrap(), bytes[..4096]);
    assert_eq!(read(&datafile, 8192, 20_000, 0).unwrap(), bytes[8192..]);
    // Neither a part of the block nor tiles in it can be written: new sums would hide the damage.
    assert!(matches!(
        write(&datafile, 6000, b"part"),
        Err(Fault::Damaged { .. })
    ));
    assert!(matches!(
        store.truncate(ObjectId(3), 6000, 1, 0),
        Err(Fault::Damaged { .. })
    ));
    write(&datafile, 4000, &bytes[4000..9000]).unwrap();
    assert_eq!(whole(&datafile), bytes);
}

/// Reads a byte as a server thread does, with its cached blocks.
fn read_byte(datafile: &Datafile, scratch: &mut Scratch, offset: u64) -> fault::Result<u8> {
    let one = piece(offset, &[0xee]);
    let options = ReadOptions {
        stamp: Some(datafile.stamp()?),
        ..ReadOptions::default()
    };
    datafile.read(&one, scratch, &options, &mut Vec::new())?;
    Ok(one.memory[0].to_vec()[0])
}

#[test]
fn a_cached_block_hides_no_change_of_the_file() {
    let (directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    let bytes = noise(3, 20_000);
    write(&datafile, 0, &bytes).unwrap();
    let scratch = &mut Scratch::default();
    for at in [5000, 5001, 8191, 8192] {
        let found = read_byte(&datafile, scratch, at).unwrap();
        assert_eq!(found, bytes[at as usize]);
    }
    // Time stamps of a file are as fine as the kernel's clock tick.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let file = std::fs::File::options()
        .write(true)
        .open(path(&directory, 3))
        .unwrap();
    let flipped = [bytes[5001] ^ 4];
    std::os::unix::fs::FileExt::write_all_at(&file, &flipped, physical(5001)).unwrap();
    let damaged = |result| matches!(result, Err(Fault::Damaged { offset: 4096, .. }));
    assert!(damaged(read_byte(&datafile, scratch, 5000).map(drop)));
    assert_eq!(read_byte(&datafile, scratch, 8192).unwrap(), bytes[8192]);
}

#[test]
fn a_small_write_to_a_cached_block_seals_no_damage() {
    let (directory, store) = store(SETTINGS);
    let datafile = make(&store, 3);
    write(&datafile, 0, &noise(3, 20_000)).unwrap();
    let scratch = &mut Scratch::default();
    datafile.write(&piece(5000, b"one"), scratch, 0).unwrap();
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path(&directory, 3))
        .unwrap();
    let mut byte = [0];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut byte, physical(6000)).unwrap();
    byte[0] ^= 1;
    std::os::unix::fs::FileExt::write_all_at(&file, &byte, physical(6000)).unwrap();
    datafile.write(&piece(5003, b"two"), scratch, 0).unwrap();
    assert!(matches!(
        read(&datafile, 5000, 3, 0),
        Err(Fault::Damaged { offset: 4096, .. })
    ));
}

pub(super) fn punch(path: &std::path::Path, start: u64, len: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, start, len).unwrap();
}

/// Wherever the holes of a file are, also within a group of blocks, and however its server ended.
#[test]
fn a_loss_between_holes_is_not_a_hole() {
    let groups = [1, 2, 9, NEAR_GROUPS + 5, NEAR_GROUPS + 70];
    // Blocks 64 to 127 of each group are written, the sums of which are a sector.
    let at = |group: u64| group * GROUP_BYTES + 64 * BLOCK_BYTES;
    let len = 64 * BLOCK_BYTES as usize;
    for killed in [false, true] {
        let (directory, store) = store(SETTINGS);
        for group in groups {
            write(&make(&store, 3), at(group), &noise(group, len)).unwrap();
        }
        if !killed {
            store.sync_all().unwrap();
        }
        drop(store);
        let path = path(&directory, 3);
        // Of one group all is lost, of one the data with the sector of sums, of one the page of sums alone.
        punch(&path, sums_offset(512), GROUP_BYTES + BLOCK_BYTES);
        for group in [2, NEAR_GROUPS + 5] {
            punch(&path, physical(at(group)), len as u64);
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            let sums = sums_offset(at(group) / BLOCK_BYTES);
            std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], sums).unwrap();
        }
        punch(&path, sums_offset(512 * 9), BLOCK_BYTES);
        let store = open(directory.path(), SETTINGS);
        let datafile = store.find(ObjectId(3)).unwrap().unwrap();
        for group in groups {
            for block in (0..128).step_by(9) {
                let offset = group * GROUP_BYTES + block * BLOCK_BYTES;
                let found = read(&datafile, offset, BLOCK_BYTES as usize, 0);
                let is_lost = match group {
                    1 | 9 => true,
                    last if last == NEAR_GROUPS + 70 => false,
                    _ => block >= 64,
                };
                let wanted = match block {
                    0..64 => vec![0; BLOCK_BYTES as usize],
                    _ => noise(group, len)[(offset - at(group)) as usize..][..4096].to_vec(),
                };
                match found {
                    Ok(bytes) => assert!(!is_lost && bytes == wanted, "{group}: {block}"),
                    Err(Fault::Damaged { .. }) => assert!(is_lost, "{group}: {block}"),
                    Err(fault) => panic!("{fault}"),
                }
            }
        }
        // Groups that were never written, between and behind.
        for group in [0, 3, 8, NEAR_GROUPS - 1, NEAR_GROUPS + 6, NEAR_GROUPS + 69] {
            let hole = read(&datafile, group * GROUP_BYTES, 100_000, 0).unwrap();
            assert!(hole.iter().all(|byte| *byte == 0), "{group}");
        }
    }
}

/// Of very many islands far behind the front some are not protected; a scrub protects as many of them again as it can.
#[test]
fn very_many_islands_are_read_right() {
    let (directory, store) = store(SETTINGS);
    let at = |island: u64| (NEAR_GROUPS + 2 * island) * GROUP_BYTES + 5000;
    let count = MAX_FAR_SPANS as u64 + 10;
    for island in 0..count {
        write(&make(&store, 3), at(island), &noise(island, 5000)).unwrap();
    }
    store.sync_all().unwrap();
    drop(store);
    let store = open(directory.path(), SETTINGS);
    let datafile = store.find(ObjectId(3)).unwrap().unwrap();
    for island in 0..count {
        assert_eq!(
            read(&datafile, at(island), 5000, 0).unwrap(),
            noise(island, 5000)
        );
        write(&datafile, at(island) + 4000, &noise(9, 2000)).unwrap();
    }
    let front = ScrubPosition {
        object: ObjectId(0),
        offset: 0,
    };
    let step = store
        .scrub(front, 1 << 40, &mut Scratch::default())
        .unwrap();
    assert!(step.findings.is_empty() && step.next.is_none());
    assert!(step.bytes < 2 * count * GROUP_BYTES);
}

/// A range may be lost together with the page of sums beside it.
#[test]
fn a_range_that_is_lost_with_its_sums_is_not_a_hole() {
    const SIZE: usize = 2 * GROUP_BYTES as usize + 5000;
    let group = GROUP_BYTES as usize;
    for restarted in [false, true] {
        let (directory, mut store) = store(SETTINGS);
        let bytes = noise(5, SIZE);
        let datafile = make(&store, 3);
        // Pieces overtake each other.
        for span in [
            group + 70_000..SIZE,
            0..group / 2,
            group / 2..group + 70_000,
        ] {
            write(&datafile, span.start as u64, &bytes[span]).unwrap();
        }
        // Behind a hole that a writer has left.
        write(&make(&store, 4), GROUP_BYTES, &bytes[..group]).unwrap();
        drop(datafile);
        if restarted {
            store.sync_all().unwrap();
        }
        let start = sums_offset(512);
        let len = physical(2 * GROUP_BYTES - 1) + 1 - start;
        for object in [3, 4] {
            punch(&path(&directory, object), start, len);
        }
        if restarted {
            drop(store);
            store = open(directory.path(), SETTINGS);
        }
        let datafile = store.find(ObjectId(3)).unwrap().unwrap();
        for (offset, len) in [(0, group), (2 * group, 5000)] {
            let found = read(&datafile, offset as u64, len, 0).unwrap();
            assert!(found == bytes[offset..offset + len]);
        }
        for block in [0, 1, 255, 511] {
            let at = GROUP_BYTES + block * BLOCK_BYTES;
            let found = read(&datafile, at, BLOCK_BYTES as usize, 0);
            let is_damaged = matches!(found, Err(Fault::Damaged { offset, .. }) if offset == at);
            assert!(is_damaged, "{restarted}: block {block} of the group");
            assert!(matches!(
                write(&datafile, at + 1, b"part"),
                Err(Fault::Damaged { .. })
            ));
        }
        let front = ScrubPosition {
            object: ObjectId(0),
            offset: 0,
        };
        let step = store
            .scrub(front, 1 << 30, &mut Scratch::default())
            .unwrap();
        let found: u64 = step
            .findings
            .iter()
            .map(|finding| match finding.fault {
                Fault::Damaged { len, .. } => len,
                _ => panic!("{:?}", finding),
            })
            .sum();
        assert_eq!(found, 2 * GROUP_BYTES);
        let sparse = store.find(ObjectId(4)).unwrap().unwrap();
        let hole = read(&sparse, 0, 100_000, 0);
        assert!(hole.unwrap().iter().all(|byte| *byte == 0));
        assert!(matches!(
            read(&sparse, GROUP_BYTES, group, 0),
            Err(Fault::Damaged { .. })
        ));
        // Cut in front of the loss and grown again, there is a hole.
        store.truncate(ObjectId(3), 1000, 1, 0).unwrap();
        let datafile = store.find(ObjectId(3)).unwrap().unwrap();
        write(&datafile, 2 * GROUP_BYTES, b"end").unwrap();
        let hole = read(&datafile, 4096, 2 * group - 4096, 0).unwrap();
        assert!(hole.iter().all(|byte| *byte == 0));
    }
}

/// Blocks with their sums are valid only at the place where they were written.
#[test]
fn content_of_another_place_is_damage() {
    use std::os::unix::fs::FileExt as _;
    let (directory, store) = store(SETTINGS);
    let size = GROUP_BYTES as usize + 50_000;
    for object in [3, 4] {
        write(&make(&store, object), 0, &noise(object, size)).unwrap();
    }
    let other_owner = Settings {
        owner: Owner {
            generation: Generation(99),
            ..OWNER
        },
        ..SETTINGS
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let other = open(elsewhere.path(), other_owner);
    write(&make(&other, 3), 0, &noise(5, size)).unwrap();
    let file = |path: std::path::PathBuf| {
        let mut options = std::fs::File::options();
        options.read(true).write(true).open(path).unwrap()
    };
    let ours = file(path(&directory, 3));
    let content = |of: &std::fs::File, offset: u64, len: u64| {
        let mut bytes = vec![0; len as usize];
        of.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    let rest = physical(size as u64 - 1) + 1 - BLOCK_BYTES;
    let own = content(&ours, BLOCK_BYTES, rest);
    let datafile = store.find(ObjectId(3)).unwrap().unwrap();
    let is_damaged = |offset: u64| {
        matches!(
            read(&datafile, offset, BLOCK_BYTES as usize, 0),
            Err(Fault::Damaged { offset: at, .. }) if at == offset
        )
    };
    // The whole content of another datafile behind the header: of another object, and of the same one on another server.
    for from in [path(&directory, 4), path(&elsewhere, 3)] {
        let bytes = content(&file(from), BLOCK_BYTES, rest);
        ours.write_all_at(&bytes, BLOCK_BYTES).unwrap();
        for block in (0..size as u64).step_by(BLOCK_BYTES as usize) {
            assert!(is_damaged(block), "byte {block}");
        }
        ours.write_all_at(&own, BLOCK_BYTES).unwrap();
    }
    // Blocks of the same datafile.
    for (from, to) in [(0, 1), (1, 0), (5, 512), (512, 511)] {
        for (offset, len) in [
            (sums_offset as fn(u64) -> u64, 8),
            (|block| physical(block * BLOCK_BYTES), BLOCK_BYTES),
        ] {
            let bytes = content(&ours, offset(from), len);
            ours.write_all_at(&bytes, offset(to)).unwrap();
        }
        assert!(is_damaged(to * BLOCK_BYTES), "block {from} as {to}");
        ours.write_all_at(&own, BLOCK_BYTES).unwrap();
    }
    assert_eq!(whole(&datafile), noise(3, size));
}

#[test]
fn datafiles_of_earlier_versions_are_refused_with_a_sentence() {
    let (directory, store) = store(SETTINGS);
    let path = path(&directory, 3);
    store.seed(ObjectId(3), b"content").unwrap();
    drop(store);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 1;
    std::fs::write(&path, bytes).unwrap();
    let store = open(directory.path(), SETTINGS);
    let fault = store.find(ObjectId(3)).unwrap_err();
    assert!(fault.is_loss());
    let text = fault.to_string();
    assert!(
        text.contains("has format 1") && text.contains("reads format 2"),
        "{text}"
    );
    // It is no orphan that may be deleted, and makes place for new content.
    store.truncate(ObjectId(3), 0, 1, 0).unwrap();
    assert_eq!(store.aside().unwrap().files, 1);
}

/// Checks and flushes notice changes of datafiles that were made outside of the running server.
#[test]
fn a_file_that_is_replaced_while_it_is_open_is_noticed() {
    let (directory, store) = store(SETTINGS);
    for object in [3, 4] {
        write(&make(&store, object), 0, &noise(object, 20_000)).unwrap();
    }
    let [path, other] = [3, 4].map(|object| path(&directory, object));
    let copy = directory.path().join("copy");
    std::fs::copy(&path, &copy).unwrap();
    let object = ObjectId(3);
    let is_foreign = |result| matches!(result, Err(Fault::Foreign { .. }));
    let is_replaced = |result| matches!(result, Err(Fault::Replaced));
    let scrub = || {
        let front = ScrubPosition {
            object: ObjectId(0),
            offset: 0,
        };
        let step = store.scrub(front, 1 << 30, &mut Scratch::default());
        step.unwrap().findings
    };
    // A copy that is renamed over it, as a restore does: the new file is used from now on, and reported as new.
    std::fs::rename(&copy, &path).unwrap();
    for _ in 0..3 {
        assert!(is_replaced(store.flush(object, 20_000)));
        assert!(is_replaced(store.check(object, 20_000)));
        assert_eq!(whole(&make(&store, 3)), noise(3, 20_000));
    }
    let findings = scrub();
    assert!(
        matches!(&findings[..], [finding] if finding.object == object && matches!(finding.fault, Fault::Replaced))
    );
    assert!(scrub().is_empty());
    store.check(object, 20_000).unwrap();
    store.flush(object, 20_000).unwrap();
    // The report also ends by an operator's decision, and by truncating the content.
    for settle in [
        (|store| store.accept(ObjectId(3))) as fn(&Store),
        |store| store.truncate(ObjectId(3), 0, 1, 0).unwrap(),
        |store| store.remove(ObjectId(3)).unwrap(),
    ] {
        write(&make(&store, 3), 0, &noise(3, 20_000)).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        std::fs::rename(&copy, &path).unwrap();
        assert!(is_replaced(store.check(object, 0)));
        assert!(is_replaced(store.check(object, 0)));
        settle(&store);
        store.check(object, 0).unwrap();
    }
    write(&make(&store, 3), 0, &noise(3, 20_000)).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(is_replaced(store.check(object, 20_000)));
    assert!(is_replaced(store.check(object, 20_000)));
    store.accept(object);
    assert!(matches!(
        store.check(object, 20_000),
        Err(Fault::Absent { .. })
    ));
    // Another object's content in the same file.
    write(&make(&store, 3), 0, &noise(3, 20_000)).unwrap();
    store.check(object, 20_000).unwrap();
    let content = std::fs::read(&other).unwrap();
    let overwritten = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&overwritten, &content, 0).unwrap();
    for _ in 0..2 {
        assert!(is_foreign(store.check(object, 20_000)));
        assert!(is_foreign(store.flush(object, 20_000)));
    }
}

#[test]
fn a_hole_is_distinguished_from_a_loss() {
    let (directory, store) = store(SETTINGS);
    let object = ObjectId(3);
    let bytes = noise(5, 50_000);
    write(&make(&store, 3), 0, &bytes).unwrap();
    store.sync_all().unwrap();
    drop(store);
    let path = path(&directory, 3);
    let away = directory.path().join("away");
    std::fs::rename(&path, &away).unwrap();

    let store = open(directory.path(), SETTINGS);
    assert!(matches!(
        store.find_or_make(object, 50_000),
        Err(Fault::Absent { wanted: 50_000 })
    ));
    let absent = |result| matches!(result, Err(Fault::Absent { .. }));
    assert!(absent(store.flush(object, 1)));
    assert!(absent(store.check(object, 1)));
    assert!(absent(store.truncate(object, 100, 1, 100)));
    assert!(store.find(object).unwrap().is_none());

    // Another object's datafile under this name.
    write(&make(&store, 4), 0, b"other").unwrap();
    std::fs::copy(
        paths::path(&directory.path().join("objects"), ObjectId(4)),
        &path,
    )
    .unwrap();
    assert!(matches!(store.find(object), Err(Fault::Foreign { .. })));
    assert!(matches!(
        store.find_or_make(object, 0),
        Err(Fault::Foreign { .. })
    ));

    // Cut short: the remaining bytes can be read; the missing ones cannot, nor can bytes behind them be written.
    std::fs::rename(&away, &path).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(physical(10_000)).unwrap();
    drop(store);
    let store = open(directory.path(), SETTINGS);
    let datafile = store.find(object).unwrap().unwrap();
    let short = |result: fault::Result<()>| {
        matches!(
            result,
            Err(Fault::Short {
                size: 10_000,
                wanted: 50_000
            })
        )
    };
    // The header states the size as the metadata do.
    for at_least in [0, 50_000] {
        assert_eq!(read(&datafile, 0, 8192, at_least).unwrap(), bytes[..8192]);
        assert!(short(read(&datafile, 9000, 2000, at_least).map(drop)));
        assert!(short(read(&datafile, 40_000, 20_000, at_least).map(drop)));
        assert_eq!(read(&datafile, 53_248, 10, at_least).unwrap(), []);
        assert!(short(store.check(object, at_least)));
        assert!(short(store.flush(object, at_least)));
    }
    assert!(short(write(&datafile, 60_000, b"behind")));
    // Truncating to the remaining bytes repairs the file; truncating to 0 always does.
    assert!(short(store.truncate(object, 50_000, 1, 50_000)));
    store.truncate(object, 8000, 1, 8000).unwrap();
    assert_eq!(whole(&datafile), bytes[..8000]);
    write(&datafile, 60_000, b"behind").unwrap();
}

#[test]
fn truncating_to_nothing_moves_a_foreign_datafile_aside() {
    let (directory, store) = store(SETTINGS);
    write(&make(&store, 3), 0, &noise(1, 5000)).unwrap();
    drop(store);
    flip(&path(&directory, 3), 20, 0);
    let store = open(directory.path(), SETTINGS);
    let header = |result| matches!(result, Err(Fault::Header(_)));
    assert!(header(store.truncate(ObjectId(3), 10, 1, 0)));
    store.truncate(ObjectId(3), 0, 1, 0).unwrap();
    assert_eq!(whole(&store.find(ObjectId(3)).unwrap().unwrap()), []);
    let aside = store.aside().unwrap();
    assert_eq!((aside.files, aside.bytes), (1, physical(5000)));
}

#[test]
fn only_proven_orphans_are_deleted() {
    let (directory, store) = store(SETTINGS);
    for object in [3, 4, 5, 2000] {
        store.seed(ObjectId(object), b"content").unwrap();
    }
    // Of other metadata, damaged, and with a number that these metadata have not given out.
    store.set_incarnation(Incarnation(1));
    store.seed(ObjectId(6), b"content").unwrap();
    store.set_incarnation(Incarnation(9));
    drop(store);
    flip(&path(&directory, 4), 50, 1);
    std::fs::write(path(&directory, 5), b"not a datafile at all").unwrap();
    let store = open(directory.path(), SETTINGS);
    let objects = [3, 4, 5, 6, 2000].map(ObjectId);
    assert_eq!(store.remove_orphans(&objects, 1000).unwrap(), (1, 4));
    assert_eq!(store.list(ObjectId(0), 10).unwrap().0, []);
    assert_eq!(store.aside().unwrap().files, 4);
    // They are deleted after a long time; a file that the store has not moved there never is.
    let lost = directory.path().join("lost+found");
    for entry in std::fs::read_dir(&lost).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let (object, _) = name.split_once('.').unwrap();
        std::fs::rename(&path, lost.join(format!("{object}.12345.0"))).unwrap();
    }
    std::fs::write(lost.join("note.12345.txt"), b"kept").unwrap();
    assert_eq!(store.aside().unwrap().files, 1);
}

#[test]
fn a_scrub_finds_damage_and_resumes_at_its_position() {
    let (directory, store) = store(SETTINGS);
    for object in [3u64, 4, 5000] {
        write(&make(&store, object), 0, &noise(object, 3_000_000)).unwrap();
    }
    // A hole of a terabyte costs nothing.
    write(&make(&store, 6), 1 << 40, b"far").unwrap();
    store.sync_all().unwrap();
    flip(&path(&directory, 4), physical(2_500_000), 1);
    flip(&path(&directory, 4), physical(2_500_000 + 4096), 1);
    std::fs::File::options()
        .write(true)
        .open(path(&directory, 5000))
        .and_then(|file| file.set_len(9000))
        .unwrap();
    drop(store);
    let (mut findings, mut bytes, mut datafiles) = (Vec::new(), 0, 0);
    loop {
        // Each step in a new server.
        let store = open(directory.path(), SETTINGS);
        let from = store.scrub_position();
        let step = store.scrub(from, 700_000, &mut Scratch::default()).unwrap();
        store.keep_scrub_position(step.next).unwrap();
        findings.extend(
            step.findings
                .iter()
                .map(|f| (f.object.0, f.fault.to_string())),
        );
        (bytes, datafiles) = (bytes + step.bytes, datafiles + step.datafiles);
        match step.next {
            Some(next) => assert!((next.object, next.offset) > (from.object, from.offset)),
            None => break,
        }
    }
    assert_eq!(datafiles, 4);
    assert!((6_000_000..7_000_000).contains(&bytes), "{bytes}");
    let [(4, damaged), (5000, short)] = &findings[..] else {
        panic!("{findings:?}");
    };
    assert!(damaged.contains("from 2498560 to 2506752"), "{damaged}");
    assert!(short.contains("ends at byte 808"), "{short}");
    let store = open(directory.path(), SETTINGS);
    assert_eq!(store.scrub_position().object, ObjectId(0));
}
