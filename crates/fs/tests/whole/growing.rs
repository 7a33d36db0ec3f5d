//! Reads at the end of files that grow, and of files that other clients change.

use std::sync::atomic::{AtomicBool, Ordering};

use causeway_fs::client::{Client, CreateOptions, File};
use causeway_wire::fs::Region;

use crate::cluster::{Fixture, Shape, pattern};

const PATH: &[u8] = b"/log";

fn create(client: &mut Client, content: &[u8]) -> File {
    let options = CreateOptions {
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: content.to_vec(),
    };
    client.create(PATH, &options).unwrap()
}

/// One client appends, others follow the end as `tail -f` does and read the bytes that were written.
#[test]
fn the_end_of_a_growing_file_has_no_zeros() {
    const SIZE: usize = 24 << 20;
    let fixture = Fixture::start(&Shape::default());
    let mut writer = fixture.client();
    let mut file = create(&mut writer, &[]);
    let content = pattern(7, SIZE);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for ask in [100_000, 1 << 20] {
            let (content, done) = (&content, &done);
            let mut client = fixture.client();
            scope.spawn(move || {
                let mut file = client.open(PATH).unwrap();
                let mut into = vec![0xee; ask];
                let mut at = 0;
                while at < SIZE {
                    let ends = done.load(Ordering::Acquire);
                    let count = client.read_at(&mut file, at as u64, &mut into).unwrap();
                    assert!(
                        into[..count] == content[at..at + count],
                        "other bytes in {count} from {at} on"
                    );
                    assert!(count > 0 || !ends, "nothing more at {at}");
                    at += count;
                }
            });
        }
        let mut at = 0;
        for step in [70_000, 5_000, 300_000, 65_536].into_iter().cycle() {
            let end = SIZE.min(at + step);
            writer
                .write_at(&mut file, at as u64, &content[at..end])
                .unwrap();
            at = end;
            if at == SIZE {
                break;
            }
        }
        done.store(true, Ordering::Release);
    });
}

/// A handle reads bytes that were written since it was opened, unless it was opened to be read once.
#[test]
fn a_small_file_is_read_as_it_is_now() {
    let fixture = Fixture::start(&Shape::default());
    let (mut writer, mut reader) = (fixture.client(), fixture.client());
    let mut written = create(&mut writer, b"old");
    let (mut now, mut once) = (reader.open(PATH).unwrap(), reader.open_once(PATH).unwrap());
    writer.write_at(&mut written, 0, b"new").unwrap();
    let mut bytes = [0; 3];
    reader.read_at(&mut now, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
    reader.read_at(&mut once, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old");
    reader.read_at(&mut once, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
}

/// The count is of bytes before one end, in whatever order regions stand and however many rounds they need.
#[test]
fn regions_behind_the_end_are_zeros_and_do_not_count() {
    const SIZE: u64 = 150_000;
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let mut file = create(&mut client, &[]);
    let content = pattern(9, SIZE as usize);
    client.write_at(&mut file, 0, &content).unwrap();
    let regions = [(SIZE + 5, 40 << 20), (SIZE - 9, 30), (SIZE, 1), (100, 7)]
        .map(|(offset, len)| Region { offset, len });
    let memory = client.allocate((40 << 20) + 38).unwrap();
    memory.write_at(0, &[0xee; 100]);
    memory.write_at(40 << 20, &[0xee; 38]);
    let count = client
        .read_list(&mut file, &regions, std::slice::from_ref(&memory))
        .unwrap();
    assert_eq!(count, 9 + 7);
    let mut wanted = vec![0; 40 << 20];
    wanted.extend_from_slice(&content[SIZE as usize - 9..]);
    wanted.extend_from_slice(&[0; 22]);
    wanted.extend_from_slice(&content[100..107]);
    assert!(memory.to_vec() == wanted);
}
