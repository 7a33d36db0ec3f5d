//! Long reads into ordinary memory, which take one of three ways on the host of the servers: straight, through memory that servers map, or
//! directly from the datafiles.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_bmi::Memory;
use causeway_fs::client::{Client, ClientOptions, CreateOptions, File, LongReadWay};
use causeway_wire::datafile::physical;
use causeway_wire::fs::{Errno, Region};
use causeway_wire::random::SplitMix64;
use rustix::process::Signal;

use crate::cluster::{Fixture, Shape, pattern};
use crate::faults::{halt, signal};

/// Reads in each way.
const READS: u64 = 8;
/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(60);
const BLOCK: usize = 4096;
/// Bytes of a file that is changed while it is read.
const LEN: usize = 6 << 20;

/// One way, or that which the client finds to be the fastest.
const WAYS: [Option<LongReadWay>; 4] = [
    Some(LongReadWay::Straight),
    Some(LongReadWay::Through),
    Some(LongReadWay::Direct),
    None,
];

fn client(fixture: &Fixture, long_reads: Option<LongReadWay>) -> Client {
    let options = ClientOptions {
        long_reads,
        ..ClientOptions::default()
    };
    Client::connect(fixture.cluster.configuration(), options).unwrap()
}

fn four_servers() -> Shape {
    Shape {
        servers: 4,
        strip_size: 64 << 10,
        ..Shape::default()
    }
}

fn made(client: &mut Client, content: &[u8]) -> File {
    let mut file = client.create(b"/f", &CreateOptions::default()).unwrap();
    client.write_at(&mut file, 0, content).unwrap();
    file
}

/// Reads into memory of several fragments, and compares with what must be there: behind the end of the file zeros, or what was there before if there is one region only.
fn check(client: &mut Client, file: &mut File, regions: &[Region], model: &[u8]) {
    let len: usize = regions.iter().map(|region| region.len as usize).sum();
    let whole = Memory::from_vec(vec![0xaa; len]);
    let memory = [whole.slice(0..len / 3), whole.slice(len / 3..len)];
    let count = client.read_list(file, regions, &memory).unwrap();
    let (mut wanted, mut inside) = (Vec::new(), 0);
    let behind = if regions.len() > 1 { 0 } else { 0xaa };
    for region in regions {
        let start = (region.offset as usize).min(model.len());
        let end = ((region.offset + region.len) as usize).min(model.len());
        inside += end - start;
        wanted.extend_from_slice(&model[start..end]);
        wanted.resize(wanted.len() + region.len as usize - (end - start), behind);
    }
    assert_eq!(count, inside as u64, "{regions:?}");
    assert!(whole.to_vec() == wanted, "{regions:?}");
}

#[test]
fn long_reads_find_every_byte_in_every_way() {
    let fixture = Fixture::start(&four_servers());
    for way in WAYS {
        let mut client = client(&fixture, way);
        find_every_byte(&mut client);
        client.unlink(b"/f").unwrap();
    }
}

fn find_every_byte(client: &mut Client) {
    let mut model = pattern(1, 9 << 20);
    let mut file = made(client, &model);
    // Behind a hole.
    let more = pattern(2, 1 << 20);
    client.write_at(&mut file, 12 << 20, &more).unwrap();
    model.resize(12 << 20, 0);
    model.extend_from_slice(&more);
    let mut dice = SplitMix64::new(3);
    for most in [1 << 20, 11 << 20] {
        for _ in 0..READS {
            let len = (64 << 10) + dice.below(most);
            let offset = dice.below(13 << 20);
            let offset = match dice.below(2) {
                0 => offset,
                _ => offset / BLOCK as u64 * BLOCK as u64,
            };
            check(client, &mut file, &[Region { offset, len }], &model);
        }
    }
    for _ in 0..READS {
        let offsets = (0..10).map(|_| dice.below(13 << 20));
        let regions = offsets.map(|offset| Region {
            offset,
            len: 10_000 + offset % 100_000,
        });
        check(client, &mut file, &regions.collect::<Vec<_>>(), &model);
    }
}

#[test]
fn a_server_that_is_killed_in_the_middle_of_a_long_read_is_asked_again() {
    let mut fixture = Fixture::start(&Shape {
        timeout_ms: GENEROUS.as_millis() as u64,
        ..four_servers()
    });
    let content = pattern(4, 24 << 20);
    made(&mut fixture.client(), &content);
    for way in WAYS {
        let mut client = client(&fixture, way);
        kill_servers_of_reader(&mut fixture, &mut client, &content);
    }
}

fn kill_servers_of_reader(fixture: &mut Fixture, client: &mut Client, content: &[u8]) {
    let mut file = client.open(b"/f").unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut into) = (0, vec![0; content.len()]);
            while !ends.load(Ordering::Acquire) || reads < READS {
                into.fill(0xaa);
                let count = client.read_at(&mut file, 0, &mut into);
                assert_eq!(count.unwrap(), content.len());
                assert!(into == content);
                reads += 1;
            }
        });
        // Servers 1 to 4 of the configuration are the I/O servers.
        for round in 0..8 {
            let server = 1 + round % 4;
            std::thread::sleep(Duration::from_millis(7));
            fixture.cluster.kill(server).unwrap();
            fixture.cluster.restart(server).unwrap();
        }
        ends.store(true, Ordering::Release);
        reader.join().unwrap();
    });
}

/// The caller gets its memory back, unchanged from then on, although a server stands still that was writing the buffer; and that server's
/// later writes are not found by the reads that come next.
#[test]
fn a_stopped_server_keeps_neither_the_callers_memory_nor_writes_what_is_read_next() {
    let fixture = Fixture::start(&four_servers());
    let content = pattern(5, 5 << 20);
    made(&mut fixture.client(), &content);
    for way in WAYS {
        stop_servers_of_reader(&fixture, &mut client(&fixture, way), &content);
    }
}

fn stop_servers_of_reader(fixture: &Fixture, client: &mut Client, content: &[u8]) {
    let mut file = client.open(b"/f").unwrap();
    let mut into = vec![0; content.len()];
    for round in 0..4 {
        assert_eq!(client.read_at(&mut file, 0, &mut into).unwrap(), into.len());
        let pid = fixture.cluster.pid(1 + round).unwrap();
        halt(pid);
        client.limit(Duration::from_millis(300));
        let begun = Instant::now();
        client.read_at(&mut file, 0, &mut into).unwrap_err();
        assert!(begun.elapsed() < GENEROUS);
        client.limit(Duration::MAX);
        into.fill(0x55);
        signal(pid, Signal::CONT);
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(2));
            assert!(into.iter().all(|byte| *byte == 0x55));
        }
        assert_eq!(client.read_at(&mut file, 0, &mut into).unwrap(), into.len());
        assert!(into == content);
    }
}

/// The blocks of a file that all have one of these bytes.
fn is_of(block: &[u8], allowed: [u8; 3]) -> bool {
    allowed.contains(&block[0]) && block.iter().all(|byte| *byte == block[0])
}

#[test]
fn what_is_overwritten_and_truncated_during_long_reads_is_old_or_new_block_by_block() {
    let fixture = Fixture::start(&four_servers());
    made(&mut fixture.client(), &vec![1; LEN]);
    for way in WAYS {
        let (mut client, mut other) = (client(&fixture, way), fixture.client());
        read_what_is_changed(&mut client, &mut other);
    }
}

/// Reads `/f` while the other client changes it.
fn read_what_is_changed(client: &mut Client, other: &mut Client) {
    let mut file = client.open(b"/f").unwrap();
    let mut same = other.open(b"/f").unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut dice = SplitMix64::new(6);
            while !ends.load(Ordering::Acquire) {
                let value = 1 + dice.below(2) as u8;
                other.write_at(&mut same, 0, &vec![value; LEN]).unwrap();
                let size = dice.below((LEN / BLOCK) as u64) * BLOCK as u64;
                other.truncate(&mut same, size).unwrap();
            }
        });
        let mut into = vec![0; LEN];
        for _ in 0..2 * READS {
            into.fill(0xaa);
            let count = client.read_at(&mut file, 0, &mut into).unwrap();
            assert!(count <= LEN);
            let mut blocks = into[..count].chunks(BLOCK);
            assert!(blocks.all(|block| is_of(block, [0, 1, 2])), "{count}");
        }
        ends.store(true, Ordering::Release);
        writer.join().unwrap();
    });
}

/// The files of an I/O server's datafiles.
fn datafiles(fixture: &Fixture, server: &str) -> Vec<PathBuf> {
    let data = fixture.config_file().with_file_name(server).join("data");
    let mut found = Vec::new();
    let mut directories = vec![data];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => directories.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

#[test]
fn a_damaged_block_is_an_error_in_every_way() {
    let fixture = Fixture::start(&four_servers());
    let content = pattern(7, 8 << 20);
    made(&mut fixture.client(), &content);
    let mut changed = 0;
    for path in datafiles(&fixture, "io2") {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let mut begin = [0; 7];
        let is_datafile = file.read_exact_at(&mut begin, 0).is_ok() && begin == *b"cw-data";
        if is_datafile && file.metadata().unwrap().len() > 1 << 20 {
            file.write_all_at(b"other", physical(1 << 20)).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    for way in WAYS {
        let mut client = client(&fixture, way);
        let mut file = client.open(b"/f").unwrap();
        for _ in 0..READS {
            let mut into = vec![0xaa; content.len()];
            let error = client.read_at(&mut file, 0, &mut into).unwrap_err();
            assert_eq!(error.errno, Errno::EIO, "{error}");
            // The other blocks, and the byte of the same strip that is before it.
            let right = 4 << 20;
            let count = client.read_at(&mut file, 0, &mut into[..right]).unwrap();
            assert_eq!(count, right);
            assert!(into[..right] == content[..right]);
        }
    }
}

#[test]
fn what_replaces_a_file_is_read_by_those_who_open_it_then() {
    let fixture = Fixture::start(&four_servers());
    let (old, new) = (pattern(8, 6 << 20), pattern(9, 6 << 20));
    for way in WAYS {
        let (mut client, mut other) = (client(&fixture, way), fixture.client());
        made(&mut other, &old);
        let mut file = client.open(b"/f").unwrap();
        let mut into = vec![0; old.len()];
        client.read_at(&mut file, 0, &mut into).unwrap();
        assert!(into == old);
        other.unlink(b"/f").unwrap();
        made(&mut other, &new);
        let mut file = client.open(b"/f").unwrap();
        client.read_at(&mut file, 0, &mut into).unwrap();
        assert!(into == new);
        other.unlink(b"/f").unwrap();
    }
}

#[test]
fn a_long_read_asks_no_server_whose_bytes_it_does_not_need() {
    let fixture = Fixture::start(&four_servers());
    let content = pattern(10, 8 << 20);
    made(&mut fixture.client(), &content);
    // Whichever server has the first strip.
    for way in WAYS {
        let mut client = client(&fixture, way);
        let mut file = client.open(b"/f").unwrap();
        // It connects with all servers.
        client
            .read_at(&mut file, 0, &mut vec![0; content.len()])
            .unwrap();
        let mut strip = vec![0; 64 << 10];
        let mut replied = 0;
        for server in 1..=4 {
            let pid = fixture.cluster.pid(server).unwrap();
            halt(pid);
            client.limit(Duration::from_millis(300));
            let mut file = client.open(b"/f").unwrap();
            replied += u32::from(client.read_at(&mut file, 0, &mut strip).is_ok());
            client.limit(Duration::MAX);
            signal(pid, Signal::CONT);
        }
        assert_eq!(replied, 3, "{way:?}");
    }
}

/// Bytes that this thread has read by system calls.
fn read_by_this_thread() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

/// The open files of this process below a directory.
fn open_below(directory: &Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let targets = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets
        .filter(|target| target.starts_with(directory))
        .count()
}

#[test]
fn direct_reads_are_of_the_datafiles_which_are_open_as_long_as_their_file() {
    let fixture = Fixture::start(&four_servers());
    let directory = fixture.config_file().parent().unwrap().to_owned();
    let content = pattern(11, 8 << 20);
    made(&mut fixture.client(), &content);
    for way in [LongReadWay::Straight, LongReadWay::Direct] {
        let mut client = client(&fixture, Some(way));
        let mut file = client.open(b"/f").unwrap();
        let mut into = vec![0; content.len()];
        // It connects with all servers first; until then it does not know that they are on this host.
        client.read_at(&mut file, 0, &mut into).unwrap();
        let before = read_by_this_thread();
        client.read_at(&mut file, 0, &mut into).unwrap();
        let is_read_here = read_by_this_thread() - before >= content.len() as u64;
        assert!(into == content);
        let is_direct = way == LongReadWay::Direct;
        assert_eq!(is_read_here, is_direct, "{way:?}");
        assert_eq!(open_below(&directory), if is_direct { 4 } else { 0 });
        drop(file);
        assert_eq!(open_below(&directory), 0);
    }
}
