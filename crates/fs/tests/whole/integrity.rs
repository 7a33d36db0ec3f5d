//! Data are read as they were written, for every distribution and way of transfer.

use causeway_bmi::Memory;
use causeway_fs::client::{Client, CreateOptions, File};
use causeway_fs::config::Durability;
use causeway_wire::fs::{Body, DistributionHint, Errno, ObjectId, Region, ReplyBody};
use causeway_wire::random::SplitMix64;

use crate::cluster::{Fixture, Shape, client, pattern};

/// A file and what it must hold.
struct Checked {
    file: File,
    model: Vec<u8>,
}

impl Checked {
    fn create(client: &mut Client, path: &[u8], hint: Option<DistributionHint>) -> Self {
        let options = CreateOptions {
            exclusive: true,
            mode: 0o644,
            distribution: hint,
            content: Vec::new(),
        };
        Self {
            file: client.create(path, &options).unwrap(),
            model: Vec::new(),
        }
    }

    fn note(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if !bytes.is_empty() && self.model.len() < end {
            self.model.resize(end, 0);
        }
        self.model[offset..end].copy_from_slice(bytes);
    }

    /// One random operation, checked against the model.
    fn step(&mut self, client: &mut Client, dice: &mut SplitMix64, largest: u64, mapped: bool) {
        let offset = dice.below(largest);
        let len = match dice.below(3) {
            0 => dice.below(3000),
            1 => dice.below(60_000),
            _ => dice.below(largest - offset + 1),
        }
        .min(largest - offset) as usize;
        match dice.below(10) {
            0..4 => {
                let bytes = pattern(dice.below(u64::MAX), len);
                if mapped {
                    let memory = client.allocate(len.max(1)).unwrap().slice(0..len);
                    memory.write_at(0, &bytes);
                    let region = Region {
                        offset,
                        len: len as u64,
                    };
                    client
                        .write_list(&mut self.file, &[region], &[memory])
                        .unwrap();
                } else {
                    client.write_at(&mut self.file, offset, &bytes).unwrap();
                }
                if len > 0 {
                    self.note(offset as usize, &bytes);
                }
            }
            4..7 => {
                let mut bytes = vec![0xaa; len];
                let count = if mapped {
                    let memory = client.allocate(len.max(1)).unwrap().slice(0..len);
                    let region = Region {
                        offset,
                        len: len as u64,
                    };
                    let count = client
                        .read_list(&mut self.file, &[region], std::slice::from_ref(&memory))
                        .unwrap();
                    bytes = memory.to_vec();
                    count as usize
                } else {
                    client.read_at(&mut self.file, offset, &mut bytes).unwrap()
                };
                let start = (offset as usize).min(self.model.len());
                let wanted = &self.model[start..(start + len).min(self.model.len())];
                assert_eq!(count, wanted.len());
                assert!(bytes[..count] == *wanted, "read of {len} bytes at {offset}");
            }
            7 => {
                let size = dice.below(largest);
                client.truncate(&mut self.file, size).unwrap();
                self.model.resize(size as usize, 0);
            }
            8 => client.fsync(&mut self.file).unwrap(),
            _ => self.list(client, dice, largest),
        }
    }

    /// A list write and a list read of tiles.
    fn list(&mut self, client: &mut Client, dice: &mut SplitMix64, largest: u64) {
        let len = 1 + dice.below(100);
        let stride = len + dice.below(5000);
        let count = (1 + dice.below(400)).min(largest / stride);
        let offset = dice.below(largest - count * stride + 1);
        let mut regions: Vec<Region> = (0..count)
            .map(|i| Region {
                offset: offset + i * stride,
                len,
            })
            .collect();
        if dice.below(2) == 0 {
            // Neither even nor in order any more.
            regions.reverse();
        }
        let total = (count * len) as usize;
        let bytes = pattern(dice.below(u64::MAX), total);
        let cut = dice.below(total as u64 + 1) as usize;
        let whole = Memory::from_vec(bytes.clone());
        let memory = [whole.slice(0..cut), whole.slice(cut..total)];
        client
            .write_list(&mut self.file, &regions, &memory)
            .unwrap();
        for (region, bytes) in regions.iter().zip(bytes.chunks(len as usize)) {
            self.note(region.offset as usize, bytes);
        }
        whole.clear();
        let count = client.read_list(&mut self.file, &regions, &memory).unwrap();
        assert_eq!(count, total as u64);
        assert!(whole.to_vec() == bytes, "list of {} regions", regions.len());
    }

    fn check(&mut self, client: &mut Client) {
        let mut bytes = vec![0; self.model.len() + 10];
        let count = client.read_at(&mut self.file, 0, &mut bytes).unwrap();
        assert_eq!(count, self.model.len());
        assert!(bytes[..count] == self.model[..]);
    }
}

fn random_work(shape: &Shape, mapped: bool, steps: u64) {
    let fixture = Fixture::start(shape);
    let mut client = fixture.client();
    let mut dice = SplitMix64::new(u64::from(shape.strip_size) + shape.servers as u64);
    let largest = u64::from(shape.strip_size) * 7 + 12_345;
    let mut files: Vec<Checked> = (0..3)
        .map(|number| {
            let path = format!("/file{number}").into_bytes();
            let hint = DistributionHint {
                strip_size: shape.strip_size,
                servers: 1 + number % shape.servers as u16,
                start: 0,
            };
            Checked::create(&mut client, &path, Some(hint))
        })
        .collect();
    for _ in 0..steps {
        let which = dice.below(files.len() as u64) as usize;
        files[which].step(&mut client, &mut dice, largest, mapped);
    }
    // Another client sees the same.
    let mut other = fixture.client();
    for (number, checked) in files.iter_mut().enumerate() {
        checked.check(&mut client);
        checked.file = other.open(format!("/file{number}").as_bytes()).unwrap();
        checked.check(&mut other);
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn random_work_over_shared_memory() {
    for (servers, strip_size, mapped) in [
        (1, 16 << 10, true),
        (4, 64 << 10, true),
        (3, 16 << 10, false),
    ] {
        let shape = Shape {
            servers,
            strip_size,
            ..Shape::default()
        };
        random_work(&shape, mapped, 150);
    }
}

#[test]
fn random_work_over_tcp() {
    let shape = Shape {
        tcp: true,
        servers: 2,
        strip_size: 64 << 10,
        ..Shape::default()
    };
    random_work(&shape, false, 100);
    random_work(&shape, true, 50);
}

#[test]
fn random_work_with_synced_metadata() {
    let shape = Shape {
        durability: Durability::Synced,
        servers: 2,
        ..Shape::default()
    };
    random_work(&shape, false, 80);
}

#[test]
fn a_large_write_crosses_rounds_and_reads_back() {
    let fixture = Fixture::start(&Shape {
        servers: 4,
        strip_size: 1 << 20,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut checked = Checked::create(&mut client, b"/large", None);
    let bytes = pattern(1, (80 << 20) + 17);
    client.write_at(&mut checked.file, 5, &bytes).unwrap();
    checked.note(5, &bytes);
    checked.check(&mut client);
    let stored: u64 = (1..=4)
        .map(|server| match client.storage_status(server).unwrap() {
            ReplyBody::StorageStatus { written, .. } => written,
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(stored, bytes.len() as u64);
}

#[test]
fn lists_of_any_length_work() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let mut checked = Checked::create(&mut client, b"/tiles", None);
    // Uneven, so that the list itself must be fetched, in several parts.
    let mut offset = 0;
    let regions: Vec<Region> = (0..70_000u64)
        .map(|i| {
            offset += 9 + i % 3;
            Region { offset, len: 7 }
        })
        .collect();
    let bytes = pattern(2, regions.len() * 7);
    let memory = Memory::from_vec(bytes.clone());
    let memory = std::slice::from_ref(&memory);
    client
        .write_list(&mut checked.file, &regions, memory)
        .unwrap();
    for (region, bytes) in regions.iter().zip(bytes.chunks(7)) {
        checked.note(region.offset as usize, bytes);
    }
    checked.check(&mut client);
    memory[0].clear();
    let count = client
        .read_list(&mut checked.file, &regions, memory)
        .unwrap();
    assert_eq!(count, bytes.len() as u64);
    assert!(memory[0].to_vec() == bytes);
    // Memory in many small fragments, too.
    let fragments: Vec<Memory> = (0..bytes.len() / 7)
        .map(|i| memory[0].slice(i * 7..i * 7 + 7))
        .collect();
    memory[0].clear();
    client
        .read_list(&mut checked.file, &regions, &fragments)
        .unwrap();
    assert!(memory[0].to_vec() == bytes);
}

#[test]
fn offsets_reach_to_the_largest() {
    let fixture = Fixture::start(&Shape {
        // Large strips and several servers keep datafiles within the limits of local file systems.
        servers: 4,
        strip_size: 1 << 20,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut file = client.create(b"/huge", &CreateOptions::default()).unwrap();
    let last = i64::MAX as u64;
    let error = client.write_at(&mut file, last - 3, b"12345").unwrap_err();
    assert_eq!(error.errno, Errno::EFBIG, "{error}");
    let error = client.truncate(&mut file, 1 << 63).unwrap_err();
    assert_eq!(error.errno, Errno::EFBIG, "{error}");
    // Within the limit of the file system, but perhaps not of the servers' disks: whole or refused.
    for offset in [last - 5, 1 << 62, 1 << 45, 1 << 43] {
        match client.write_at(&mut file, offset, b"12345") {
            Ok(()) => {
                let mut bytes = [0; 5];
                assert_eq!(client.read_at(&mut file, offset, &mut bytes).unwrap(), 5);
                assert_eq!(&bytes, b"12345");
                assert_eq!(
                    client.read_at(&mut file, offset - 5, &mut bytes).unwrap(),
                    5
                );
                assert_eq!(bytes, [0; 5]);
            }
            Err(error) => assert_eq!(error.errno, Errno::EFBIG, "{error}"),
        }
    }
    client.write_at(&mut file, 1 << 40, b"far").unwrap();
    let mut bytes = [1; 3];
    assert_eq!(client.read_at(&mut file, 1 << 40, &mut bytes).unwrap(), 3);
    assert_eq!(&bytes, b"far");
    assert_eq!(client.read_at(&mut file, 1 << 39, &mut bytes).unwrap(), 3);
    assert_eq!(bytes, [0; 3]);
}

#[test]
fn disjoint_writers_of_one_file_do_not_disturb_each_other() {
    for tcp in [false, true] {
        let fixture = Fixture::start(&Shape {
            tcp,
            strip_size: 16 << 10,
            ..Shape::default()
        });
        fixture
            .client()
            .create(b"/shared", &CreateOptions::default())
            .unwrap();
        const WRITERS: u64 = 3;
        const RECORD: u64 = 3000;
        const COUNT: u64 = 120;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let fixture = &fixture;
                scope.spawn(move || {
                    let mut client = fixture.client();
                    let mut file = client.open(b"/shared").unwrap();
                    for record in 0..COUNT {
                        let number = record * WRITERS + writer;
                        let bytes = pattern(number, RECORD as usize);
                        client.write_at(&mut file, number * RECORD, &bytes).unwrap();
                    }
                });
            }
        });
        let mut client = fixture.client();
        let mut file = client.open(b"/shared").unwrap();
        assert_eq!(file.node.attributes.size, WRITERS * RECORD * COUNT);
        for number in 0..WRITERS * COUNT {
            let mut bytes = vec![0; RECORD as usize];
            client
                .read_at(&mut file, number * RECORD, &mut bytes)
                .unwrap();
            assert!(
                bytes == pattern(number, RECORD as usize),
                "record {number}, tcp {tcp}"
            );
        }
    }
}

#[test]
fn names_may_have_every_byte_and_bad_ones_are_refused() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let names: Vec<Vec<u8>> = (1..=255u8)
        .filter(|&byte| byte != b'/')
        .map(|byte| vec![b'n', byte, b'n'])
        .collect();
    for (number, name) in names.iter().enumerate() {
        let path = [b"/", &name[..]].concat();
        let options = CreateOptions {
            content: pattern(number as u64, 10),
            ..CreateOptions::default()
        };
        client.create(&path, &options).unwrap();
    }
    let (entries, end) = client
        .read_directory(ObjectId::ROOT, b"", 1000, true)
        .unwrap();
    assert!(end);
    let mut sorted = names.clone();
    sorted.sort();
    let found: Vec<Vec<u8>> = entries.into_iter().map(|entry| entry.name).collect();
    assert_eq!(found, sorted);
    for (number, name) in names.iter().enumerate() {
        let mut file = client.open([b"/", &name[..]].concat()).unwrap();
        let mut bytes = [0; 20];
        assert_eq!(client.read_at(&mut file, 0, &mut bytes).unwrap(), 10);
        assert_eq!(bytes[..10], pattern(number as u64, 10));
    }
    let long = [b"/".to_vec(), vec![b'x'; 256]].concat();
    let error = client.create(&long, &CreateOptions::default()).unwrap_err();
    assert_eq!(error.errno, Errno::ENAMETOOLONG, "{error}");
    let deep = b"/x".repeat(4000);
    let error = client.stat(&deep, true).unwrap_err();
    assert!(
        matches!(
            error.errno,
            Errno::ENAMETOOLONG | Errno::EMSGSIZE | Errno::EPROTO
        ),
        "{error}"
    );
    assert!(client.create(b"/a\0b", &CreateOptions::default()).is_err());
    client.stat(b"/n!n", true).unwrap();
}

#[test]
fn removed_files_give_their_space_back_even_across_a_restart() {
    let mut fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let bytes = pattern(9, 300_000);
    let paths: Vec<Vec<u8>> = (0..20).map(|i| format!("/f{i}").into_bytes()).collect();
    for path in &paths {
        let mut file = client.create(path, &CreateOptions::default()).unwrap();
        client.write_at(&mut file, 0, &bytes).unwrap();
        assert!(matches!(file.node.body, Body::Striped { .. }));
    }
    let datafiles = |client: &mut Client| -> u64 {
        [1, 2]
            .map(|server| client.orphans(server, ObjectId(0)).unwrap().datafiles)
            .iter()
            .sum()
    };
    assert_eq!(datafiles(&mut client), 40);
    // One I/O server is away when the files are removed, and the metadata server restarts.
    fixture.cluster.kill(2).unwrap();
    for path in &paths {
        client.unlink(path).unwrap();
    }
    fixture.cluster.kill(0).unwrap();
    fixture.cluster.restart(0).unwrap();
    fixture.cluster.restart(2).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while datafiles(&mut client) > 0 {
        assert!(std::time::Instant::now() < until, "datafiles stay");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn two_servers_cannot_share_a_directory_and_wrong_configurations_are_noticed() {
    let fixture = Fixture::start(&Shape::default());
    let configuration = fixture.cluster.configuration().clone();
    let error = causeway_fs::server::Server::start(&configuration, "io0")
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("another server (process"),
        "{error}"
    );
    let error = causeway_fs::server::serve(&fixture.config_file(), "io7", |_| Ok(())).unwrap_err();
    assert!(
        error.to_string().contains("it has meta, io0, io1"),
        "{error}"
    );
    drop(fixture.cluster);
    let mut other = configuration;
    other.id ^= 1;
    let error = causeway_fs::server::Server::start(&other, "io0")
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("belongs to another server"),
        "{error}"
    );
}

#[test]
fn a_server_runs_in_a_thread_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let shape = Shape {
        servers: 1,
        ..Shape::default()
    };
    let configuration = crate::cluster::configuration(&shape, directory.path());
    crate::cluster::format_all(&configuration);
    let servers: Vec<_> = ["meta", "io0"]
        .map(|name| causeway_fs::server::Server::start(&configuration, name).unwrap())
        .into_iter()
        .collect();
    let stops: Vec<_> = servers.iter().map(|server| server.stop_handle()).collect();
    std::thread::scope(|scope| {
        for server in servers {
            scope.spawn(move || server.run().unwrap());
        }
        let mut client = client(&configuration);
        let mut checked = Checked::create(&mut client, b"/file", None);
        let bytes = pattern(4, 200_000);
        client.write_at(&mut checked.file, 0, &bytes).unwrap();
        checked.note(0, &bytes);
        checked.check(&mut client);
        for stop in &stops {
            stop.stop();
        }
    });
    for server in ["meta", "io0"] {
        assert!(!directory.path().join(format!("{server}.sock")).exists());
    }
}
