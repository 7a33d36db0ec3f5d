//! Reported data ranges of files, and making holes.

use causeway_fs::client::{Allocation, Client, CreateOptions, File};
use causeway_wire::fs::{Body, Errno, Region, ScrubPosition};
use causeway_wire::random::SplitMix64;

use crate::cluster::{Fixture, Shape, pattern};

/// All written bytes lie in ranges reported as data, and large holes do not.
#[test]
fn data_between_holes_are_found() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let options = CreateOptions {
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: b"small".to_vec(),
    };
    let mut file = client.create(b"/file", &options).unwrap();
    let at = |offset: u64, len: u64| Some(Region { offset, len });
    assert_eq!(client.next_data(&mut file, 1).unwrap(), at(1, 4));
    assert_eq!(client.next_data(&mut file, 5).unwrap(), None);
    const FAR: u64 = 1 << 40;
    let written = [(0, 100_000), (FAR + 12_345, 300_000), (3 * FAR, 10)];
    for (offset, len) in written {
        client
            .write_at(&mut file, offset, &pattern(3, len))
            .unwrap();
    }
    client.truncate(&mut file, 4 * FAR).unwrap();
    let mut file = fixture.client().open(b"/file").unwrap();
    let (mut from, mut found) = (0, Vec::new());
    while let Some(data) = client.next_data(&mut file, from).unwrap() {
        assert!(data.offset >= from && data.len > 0);
        from = data.offset + data.len;
        found.push(data);
    }
    for (offset, len) in written {
        let is_in =
            |data: &Region| data.offset <= offset && offset + len as u64 <= data.offset + data.len;
        assert!(found.iter().any(is_in), "{offset}: {found:?}");
    }
    let told: u64 = found.iter().map(|data| data.len).sum();
    assert!(told < 100 << 20, "{found:?}");
}

fn is_sparse(file: &File) -> bool {
    matches!(file.node.body, Body::Striped { sparse: true, .. })
}

/// Stored bytes are the written ones, to the block, for all clients; files without holes need no request to the I/O servers.
#[test]
fn stored_bytes_of_a_file_are_counted() {
    const BLOCK: u64 = 4096;
    for servers in [1, 3] {
        let fixture = Fixture::start(&Shape {
            servers,
            ..Shape::default()
        });
        let (mut client, mut other) = (fixture.client(), fixture.client());
        let mut stored = |client: &mut Client, sparse: bool| {
            let file = other.open(b"/file").unwrap();
            assert_eq!(is_sparse(&file), sparse);
            client.stored_bytes(&file.node).unwrap()
        };
        let options = CreateOptions::default();
        let mut file = client.create(b"/file", &options).unwrap();
        client.write_at(&mut file, 0, b"small").unwrap();
        assert_eq!(stored(&mut client, false), 5);
        // On from its end, over it, and in a list without gaps.
        client
            .write_at(&mut file, 5, &pattern(1, 2_000_000))
            .unwrap();
        client.write_at(&mut file, 100, &pattern(2, 5000)).unwrap();
        client.append(&mut file, &pattern(3, 100_000)).unwrap();
        let size = file.node.attributes.size;
        assert_eq!(stored(&mut client, false), size);
        client.fsync(&mut file).unwrap();
        assert_eq!(stored(&mut client, false), size);
        // A part of it is a hole.
        let part = Region {
            offset: 1 << 20,
            len: 512 << 10,
        };
        client
            .allocate_part(&mut file, part, Allocation::Punch, true)
            .unwrap();
        let blocks = |bytes: u64| bytes - bytes % BLOCK..=bytes + 2 * servers as u64 * BLOCK;
        let now = stored(&mut client, true);
        assert!(blocks(size - part.len).contains(&now), "{now} of {size}");
        // Written again.
        client
            .write_at(&mut file, part.offset, &pattern(4, part.len as usize))
            .unwrap();
        let now = stored(&mut client, true);
        assert!(blocks(size).contains(&now), "{now} of {size}");
        // Only the I/O servers know that it is full again, until it is synced.
        client.fsync(&mut file).unwrap();
        assert_eq!(stored(&mut client, false), size);
        // Behind the end, by another client; and all of it is given up.
        let mut again = fixture.client().open(b"/file").unwrap();
        client.truncate(&mut again, 0).unwrap();
        assert_eq!(stored(&mut client, false), 0);
        client.open_again(&mut file).unwrap();
        client
            .write_at(&mut file, 100 << 20, &pattern(5, BLOCK as usize))
            .unwrap();
        let now = stored(&mut client, true);
        assert!((BLOCK..=3 * BLOCK).contains(&now), "{now}");
    }
}

/// A sparse file as it should be.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
}

impl Model {
    fn grow(&mut self, size: usize) {
        self.bytes.resize(self.bytes.len().max(size), 0);
    }

    fn zero(&mut self, from: usize, to: usize) {
        let len = self.bytes.len();
        self.bytes[from.min(len)..to.min(len)].fill(0);
    }

    /// The file has these bytes, and holes only where these are zeros.
    fn check(&self, client: &mut Client, file: &mut File, context: &str) {
        let size = self.bytes.len() as u64;
        assert_eq!(file.node.attributes.size, size, "{context}");
        let mut found = vec![0xee; self.bytes.len()];
        assert_eq!(client.read_at(file, 0, &mut found).unwrap(), found.len());
        let wrong = (0..found.len()).find(|at| found[*at] != self.bytes[*at]);
        assert_eq!(wrong, None, "{context}");
        let mut at = 0;
        loop {
            let data = client.seek_data(file, at).unwrap().unwrap_or(size);
            assert!(data >= at, "{context}");
            let hole = &self.bytes[at as usize..data as usize];
            assert!(hole.iter().all(|byte| *byte == 0), "{context}: {at}");
            if data == size {
                break;
            }
            at = client.seek_hole(file, data).unwrap().unwrap();
            assert!(at > data && at <= size, "{context}");
            if at == size {
                break;
            }
        }
    }
}

#[test]
fn holes_zeros_and_reserved_room_are_as_in_a_model_of_a_sparse_file() {
    for (seed, servers) in [(1, 1), (2, 3)] {
        let fixture = Fixture::start(&Shape {
            servers,
            ..Shape::default()
        });
        let (mut client, mut other) = (fixture.client(), fixture.client());
        let mut random = SplitMix64::new(seed);
        for round in 0..6 {
            let name = format!("/file{round}");
            let options = CreateOptions::default();
            let mut file = client.create(name.as_bytes(), &options).unwrap();
            let mut model = Model::default();
            for step in 0..25 {
                // Small at first, so that files are beside their metadata.
                let most = if step < 4 { 9000 } else { 500_000 };
                let (start, len) = (random.below(most), 1 + random.below(most / 2));
                let (from, to) = (start as usize, (start + len) as usize);
                let part = Region { offset: start, len };
                let keep_size = random.below(2) == 0;
                let kind = random.below(7);
                let allocation = match kind {
                    0 | 1 => {
                        let bytes = pattern(step, len as usize);
                        client.write_at(&mut file, start, &bytes).unwrap();
                        model.grow(to);
                        model.bytes[from..to].copy_from_slice(&bytes);
                        None
                    }
                    2 => {
                        client.truncate(&mut file, start).unwrap();
                        model.bytes.resize(from, 0);
                        None
                    }
                    3 => Some(Allocation::Punch),
                    4 => Some(Allocation::Zero),
                    5 => {
                        client.grow(&mut file, start + len).unwrap();
                        model.grow(to);
                        None
                    }
                    _ => Some(Allocation::Reserve),
                };
                if let Some(what) = allocation {
                    client
                        .allocate_part(&mut file, part, what, keep_size)
                        .unwrap();
                    if what != Allocation::Reserve {
                        model.zero(from, to);
                    }
                    if what != Allocation::Punch && !keep_size {
                        model.grow(to);
                    }
                }
                let context = format!("{servers} servers, {name}, step {step}, {kind} {part:?}");
                let mut seen = other.open(name.as_bytes()).unwrap();
                model.check(&mut other, &mut seen, &context);
            }
            client.fsync(&mut file).unwrap();
        }
        for server in fixture.cluster.configuration().io_servers() {
            let scrubbed = client
                .scrub(server, Some(ScrubPosition::FRONT), 1 << 30)
                .unwrap();
            assert_eq!(scrubbed.faults, []);
        }
    }
}

/// Holes are where they were made, to the block, on every server.
#[test]
fn a_hole_that_is_made_is_found() {
    let fixture = Fixture::start(&Shape {
        servers: 3,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut file = client.create(b"/file", &CreateOptions::default()).unwrap();
    let size: u64 = 5 << 20;
    client
        .write_at(&mut file, 0, &pattern(1, size as usize))
        .unwrap();
    assert_eq!(client.seek_hole(&mut file, 0).unwrap(), Some(size));
    let (start, end) = (70_000, 3_000_000);
    let part = Region {
        offset: start,
        len: end - start,
    };
    client
        .allocate_part(&mut file, part, Allocation::Punch, true)
        .unwrap();
    let (hole, data) = (73_728, 2_998_272);
    assert_eq!(client.seek_hole(&mut file, 0).unwrap(), Some(hole));
    assert_eq!(client.seek_hole(&mut file, 100_000).unwrap(), Some(100_000));
    assert_eq!(client.seek_data(&mut file, hole).unwrap(), Some(data));
    assert_eq!(client.seek_hole(&mut file, data).unwrap(), Some(size));
    assert_eq!(client.seek_hole(&mut file, size).unwrap(), None);
    assert_eq!(client.seek_data(&mut file, size).unwrap(), None);
    // More than the disks have room for, and more than a file may have.
    for (len, errnos) in [
        (1 << 50, [Errno::ENOSPC, Errno::EFBIG]),
        (u64::MAX / 2 + 1, [Errno::EFBIG; 2]),
        (0, [Errno::EINVAL; 2]),
    ] {
        let part = Region { offset: 0, len };
        let refused = client
            .allocate_part(&mut file, part, Allocation::Reserve, false)
            .unwrap_err();
        assert!(errnos.contains(&refused.errno), "{refused}");
    }
    assert_eq!(client.open(b"/file").unwrap().node.attributes.size, size);
}

/// A client that has opened a file before others changed it zeroes the present content, and does not make the file longer.
#[test]
fn zeroing_includes_data_that_other_clients_have_written() {
    for what in [Allocation::Punch, Allocation::Zero] {
        let fixture = Fixture::start(&Shape::default());
        let (mut client, mut other) = (fixture.client(), fixture.client());
        let mut file = client.create(b"/file", &CreateOptions::default()).unwrap();
        let mut same = other.open(b"/file").unwrap();
        other.write_at(&mut same, 0, &pattern(1, 10_000)).unwrap();
        let part = |len: u64| Region { offset: 0, len };
        client
            .allocate_part(&mut file, part(5000), what, true)
            .unwrap();
        let mut found = vec![0xee; 10_000];
        assert_eq!(other.read_at(&mut same, 0, &mut found).unwrap(), 10_000);
        assert!(found[..5000].iter().all(|byte| *byte == 0), "{what:?}");
        assert!(found[5000..] == pattern(1, 10_000)[5000..], "{what:?}");
        other.truncate(&mut same, 10).unwrap();
        client
            .allocate_part(&mut file, part(100), what, true)
            .unwrap();
        let again = other.open(b"/file").unwrap();
        assert_eq!(again.node.attributes.size, 10, "{what:?}");
    }
}
