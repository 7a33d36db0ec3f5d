//! Copying parts of files: by the servers themselves where they can, and otherwise through the client, with the same result.

use causeway_fs::client::{Allocation, Client, ClientOptions, CreateOptions, File};
use causeway_wire::fs::{
    Body, Capability, DataSource, DistributionHint, Errno, ObjectId, Operation, Region, ReplyBody,
    Rights,
};
use causeway_wire::random::SplitMix64;

use crate::capabilities::{OTHER, OWNER, refused, start, store};
use crate::cluster::{Fixture, Shape, pattern};
use crate::liar::Liar;

const STRIP: u64 = 64 << 10;

fn create(client: &mut Client, path: &[u8], distribution: Option<DistributionHint>) -> File {
    let options = CreateOptions {
        distribution,
        ..CreateOptions::default()
    };
    client.create(path, &options).unwrap()
}

fn hint(strip: u64, servers: u16, start: u16) -> Option<DistributionHint> {
    Some(DistributionHint {
        strip_size: strip as u32,
        servers,
        start,
    })
}

fn content(client: &mut Client, path: &[u8]) -> Vec<u8> {
    let mut file = client.open(path).unwrap();
    let mut bytes = vec![0; file.node.attributes.size as usize];
    assert_eq!(
        client.read_at(&mut file, 0, &mut bytes).unwrap(),
        bytes.len()
    );
    bytes
}

/// The same as [`Client::copy_range`] with bytes in memory. Returns how many are copied.
fn copy_in_model(from: &[u8], at: usize, to: &mut Vec<u8>, to_at: usize, len: usize) -> usize {
    let len = len.min(from.len().saturating_sub(at));
    if len > 0 {
        let end = to_at + len;
        if to.len() < end {
            to.resize(end, 0);
        }
        to[to_at..end].copy_from_slice(&from[at..at + len]);
    }
    len
}

/// Random copies, writes, holes and truncations of files of several distributions, each compared with a model.
#[test]
fn copies_are_what_a_model_says() {
    for (seed, servers, tcp) in [(1, 1, false), (2, 3, false), (3, 2, true)] {
        let fixture = Fixture::start(&Shape {
            servers,
            tcp,
            ..Shape::default()
        });
        let mut client = fixture.client();
        let mut random = SplitMix64::new(seed);
        // Two that lie alike, one with larger strips, one that begins elsewhere, and a small one.
        let paths: [&[u8]; 5] = [b"/a", b"/b", b"/large", b"/elsewhere", b"/small"];
        let all = servers as u16;
        let hints = [
            hint(STRIP, all, 1),
            hint(STRIP, all, 1),
            hint(4 * STRIP, all, 1),
            hint(STRIP, 1, all),
            hint(STRIP, all, 1),
        ];
        let mut files: Vec<File> = (paths.iter().zip(hints))
            .map(|(path, hint)| create(&mut client, path, hint))
            .collect();
        let mut models: Vec<Vec<u8>> = vec![Vec::new(); files.len()];
        let most = 12 * STRIP;
        let mut below = |most: u64| random.below(most.max(1));
        for step in 0..250_u64 {
            let (one, other) = (below(5) as usize, below(5) as usize);
            let file = &mut files[one];
            let is_small = one == 4;
            let limit = if is_small { 12 << 10 } else { most };
            match below(8) {
                0 | 1 => {
                    let (at, len) = (below(limit), 1 + below(limit / 4));
                    let len = len.min(limit - at).max(1);
                    let bytes = pattern(seed * 1000 + step, len as usize);
                    client.write_at(file, at, &bytes).unwrap();
                    copy_in_model(&bytes, 0, &mut models[one], at as usize, len as usize);
                }
                2 if !is_small => {
                    let part = Region {
                        offset: below(limit),
                        len: 1 + below(limit / 2),
                    };
                    client
                        .allocate_part(file, part, Allocation::Punch, true)
                        .unwrap();
                    let end = (part.offset + part.len).min(models[one].len() as u64) as usize;
                    if (part.offset as usize) < end {
                        models[one][part.offset as usize..end].fill(0);
                    }
                }
                3 => {
                    let size = below(limit);
                    client.truncate(file, size).unwrap();
                    models[one].resize(size as usize, 0);
                }
                kind => {
                    let limit = if is_small || other == 4 {
                        12 << 10
                    } else {
                        most
                    };
                    let from = below(limit);
                    // Often the same place in a row of strips.
                    let row = STRIP * servers as u64;
                    let to = match kind {
                        4 | 5 => from % row + row * below(limit / row),
                        6 => from,
                        _ => below(limit),
                    };
                    let len = match below(4) {
                        0 => limit,
                        _ => 1 + below(limit / 2),
                    };
                    let expected = (models[other].len() as u64).saturating_sub(from).min(len);
                    let overlaps = one == other && expected > 0 && from.abs_diff(to) < expected;
                    let mut source = files[other].clone();
                    let file = &mut files[one];
                    let copied = client.copy_range(&mut source, from, file, to, len);
                    if overlaps {
                        assert_eq!(copied.unwrap_err().errno, Errno::EINVAL);
                        continue;
                    }
                    assert_eq!(copied.unwrap(), expected, "step {step} of {seed}");
                    let source = models[other].clone();
                    let target = &mut models[one];
                    copy_in_model(&source, from as usize, target, to as usize, len as usize);
                }
            }
            let other_client = step % 10 == 0;
            let mut reader = fixture.client();
            let reader = if other_client {
                &mut reader
            } else {
                &mut client
            };
            let found = content(reader, paths[one]);
            assert_eq!(found.len(), models[one].len(), "step {step} of {seed}");
            assert!(found == models[one], "step {step} of {seed}: {one} {other}");
        }
        for (file, (path, model)) in files.iter_mut().zip(paths.iter().zip(&models)) {
            client.fsync(file).unwrap();
            assert!(content(&mut fixture.client(), path) == *model);
        }
    }
}

/// Nothing passes through the client between files that lie alike: it neither reads nor writes.
#[test]
fn servers_copy_between_files_that_lie_alike() {
    let fixture = Fixture::start(&Shape {
        servers: 2,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut source = create(&mut client, b"/from", None);
    let bytes = pattern(7, (40 << 20) + 12_345);
    client.write_at(&mut source, 0, &bytes).unwrap();
    let root = client.stat(b"/", true).unwrap();
    let like_it = client.distribution_for_copy(&source, &root);
    assert!(like_it.is_some());
    let mut target = create(&mut client, b"/to", like_it);
    let options = ClientOptions {
        record_stages: true,
        ..ClientOptions::default()
    };
    let mut client = Client::connect(fixture.cluster.configuration(), options).unwrap();
    let len = bytes.len() as u64;
    let copied = client.copy_range(&mut source, 0, &mut target, 0, u64::MAX);
    assert_eq!(copied.unwrap(), len);
    assert!(client.take_stages().is_empty());
    let of = |file: &File| match &file.node.body {
        Body::Striped { distribution, .. } => distribution.clone(),
        body => panic!("{body:?}"),
    };
    assert_eq!(of(&target), of(&source));
    assert!(!matches!(
        target.node.body,
        Body::Striped { sparse: true, .. }
    ));
    assert!(content(&mut fixture.client(), b"/to") == bytes);
    // Beside a file that lies elsewhere, it does.
    let mut other = create(&mut client, b"/other", hint(2 * STRIP, 1, 2));
    let copied = client.copy_range(&mut source, 0, &mut other, 0, 1 << 20);
    assert_eq!(copied.unwrap(), 1 << 20);
    assert!(!client.take_stages().is_empty());
}

/// Holes stay holes, and what the target had there is gone.
#[test]
fn holes_are_copied_as_holes() {
    const FAR: u64 = 300 << 20;
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let mut source = create(&mut client, b"/from", hint(STRIP, 2, 1));
    client
        .write_at(&mut source, 5000, &pattern(1, 100_000))
        .unwrap();
    client
        .write_at(&mut source, FAR, &pattern(2, 50_000))
        .unwrap();
    client.truncate(&mut source, 2 * FAR).unwrap();
    // Once by the servers, once through the client.
    for (path, hint) in [
        (&b"/alike"[..], hint(STRIP, 2, 1)),
        (b"/other", hint(2 * STRIP, 2, 2)),
    ] {
        let mut target = create(&mut client, path, hint);
        client
            .write_at(&mut target, 1 << 20, &pattern(3, 3 << 20))
            .unwrap();
        let mut done = 0;
        while done < 2 * FAR {
            let copied = client.copy_range(&mut source, done, &mut target, done, u64::MAX);
            done += copied.unwrap();
        }
        assert_eq!(done, 2 * FAR);
        let mut copy = fixture.client().open(path).unwrap();
        assert_eq!(copy.node.attributes.size, 2 * FAR);
        let stored = client.stored_bytes(&copy.node).unwrap();
        assert!(stored < 1 << 20, "{stored}");
        for (at, len) in [
            (0, 5 << 20),
            (FAR - 4096, 60_000),
            (2 * FAR - 10_000, 10_000),
        ] {
            let [mut one, mut other] = [vec![0; len], vec![1; len]];
            client.read_at(&mut source, at, &mut one).unwrap();
            client.read_at(&mut copy, at, &mut other).unwrap();
            assert!(one == other, "{at}");
        }
        client.fsync(&mut target).unwrap();
    }
}

/// A copy of a file that another client writes has at each place what was there before or after.
#[test]
fn a_writer_meanwhile_leaves_old_or_new_bytes() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let len = 8 << 20;
    let mut source = create(&mut client, b"/from", hint(STRIP, 2, 1));
    client.write_at(&mut source, 0, &vec![b'a'; len]).unwrap();
    let configuration = fixture.cluster.configuration();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = crate::cluster::client(configuration);
            let mut file = client.open(b"/from").unwrap();
            for round in 0..30 {
                let byte = if round % 2 == 0 { b'b' } else { b'a' };
                let block = vec![byte; len / 4];
                for part in 0..4 {
                    let at = (part * block.len()) as u64;
                    client.write_at(&mut file, at, &block).unwrap();
                }
            }
        });
        let mut round = 0;
        while round < 3 || !writer.is_finished() {
            round += 1;
            let path = format!("/to{round}");
            let mut target = create(&mut client, path.as_bytes(), hint(STRIP, 2, 1));
            let copied = client.copy_range(&mut source, 0, &mut target, 0, u64::MAX);
            assert_eq!(copied.unwrap(), len as u64);
            let found = content(&mut client, path.as_bytes());
            assert!(found.iter().all(|byte| matches!(byte, b'a' | b'b')));
            client.unlink(path.as_bytes()).unwrap();
        }
    });
}

#[test]
fn what_cannot_be_copied_is_refused() {
    let fixture = Fixture::start(&Shape::default());
    let mut client = fixture.client();
    let mut file = create(&mut client, b"/file", None);
    client.write_at(&mut file, 0, &pattern(1, 300_000)).unwrap();
    let mut same = file.clone();
    let errno = |copied: Result<u64, causeway_fs::Error>| copied.unwrap_err().errno;
    for (from, to, len) in [(0, 0, 1), (0, 10, 11), (10, 0, 11), (0, 299_999, u64::MAX)] {
        let copied = client.copy_range(&mut file, from, &mut same, to, len);
        assert_eq!(errno(copied), Errno::EINVAL);
    }
    // Side by side, and behind the end.
    let mut copy = |from, to, len| client.copy_range(&mut file, from, &mut same, to, len);
    assert_eq!(copy(0, 300_000, u64::MAX).unwrap(), 300_000);
    assert_eq!(copy(600_000, 0, 10).unwrap(), 0);
    assert_eq!(copy(u64::MAX, 0, 10).unwrap(), 0);
    assert_eq!(copy(0, 0, 0).unwrap(), 0);
    assert_eq!(errno(copy(0, u64::MAX, 10)), Errno::EFBIG);
    let bytes = content(&mut client, b"/file");
    assert!(bytes.len() == 600_000 && bytes[..300_000] == bytes[300_000..]);
    // A directory is no file.
    let root = client.stat(b"/", true).unwrap();
    let copied = client.copy_range(&mut File::new(root), 0, &mut file, 0, 10);
    assert_eq!(errno(copied), Errno::EISDIR);
}

fn copies(target: ObjectId, source: ObjectId, shown: Option<&Capability>) -> Operation {
    Operation::CopyData {
        object: target,
        number: 1,
        repeated: None,
        at_least: 0,
        region: Region { offset: 0, len: 8 },
        source: Box::new(DataSource {
            object: source,
            offset: 8,
            at_least: 0,
            capability: shown.cloned(),
        }),
    }
}

/// A server copies nothing for a client that may not read the one file, or not write the other.
#[test]
fn servers_copy_for_those_who_may_read_and_write() {
    let fixture = start(|_| {});
    let mine = store(&fixture, b"/mine", OTHER, 0o600);
    let public = store(&fixture, b"/public", OWNER, 0o644);
    let private = store(&fixture, b"/private", OWNER, 0o600);
    let mut other = Liar::new(&fixture, 0xbad, OTHER);
    let [own, reads, nothing] = [mine, public, private].map(|object| other.capability(object));
    assert_eq!((reads.rights, nothing.rights), (Rights::READ, Rights::NONE));
    let copied = other.ask(1, copies(mine, public, Some(&reads)), &own);
    let all = ReplyBody::Copied {
        bytes: 8,
        stored: 8,
        reached: 8,
    };
    assert_eq!(copied.map(|(body, _)| body), Ok(all));
    let mut owner = Liar::new(&fixture, 0xdead, OWNER);
    let theirs = owner.capability(private);
    let forged = Capability {
        mac: [7; 32],
        ..reads.clone()
    };
    let more = Capability {
        rights: Rights(15),
        ..nothing.clone()
    };
    let ended = Errno::CAPABILITY_ENDED;
    for (what, source, shown, expected) in [
        ("none", public, None, Errno::EACCES),
        ("no right to read", private, Some(&nothing), Errno::EACCES),
        (
            "that of the file that is written",
            private,
            Some(&own),
            Errno::EACCES,
        ),
        ("another file's", private, Some(&reads), Errno::EACCES),
        ("another user's", private, Some(&theirs), Errno::EACCES),
        ("a forged one", public, Some(&forged), ended),
        ("more rights", private, Some(&more), ended),
    ] {
        let answer = other.ask(1, copies(mine, source, shown), &own);
        refused(answer, &[expected], what);
    }
    // To files that it may not write.
    for (target, shown) in [(public, &reads), (private, &nothing)] {
        let answer = other.ask(1, copies(target, mine, Some(&own)), shown);
        refused(answer, &[Errno::EACCES], "no right to write");
    }
    let itself = Operation::CopyData {
        object: mine,
        number: 2,
        repeated: None,
        at_least: 0,
        region: Region {
            offset: u64::MAX,
            len: 8,
        },
        source: Box::new(DataSource {
            object: mine,
            offset: 4,
            at_least: 0,
            capability: Some(own.clone()),
        }),
    };
    refused(other.ask(1, itself, &own), &[Errno::EINVAL], "too far");
    let overlapping = match copies(mine, mine, Some(&own)) {
        Operation::CopyData { source, .. } => Operation::CopyData {
            object: mine,
            number: 3,
            repeated: None,
            at_least: 0,
            region: Region { offset: 1, len: 8 },
            source,
        },
        other => other,
    };
    refused(other.ask(1, overlapping, &own), &[Errno::EINVAL], "overlap");
}
