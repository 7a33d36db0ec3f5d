//! Sizes and contents: stuffed files, the move to the servers, truncation in two steps.

use super::*;

fn write(object: ObjectId, offset: u64, data: &[u8]) -> Operation {
    Operation::WriteStuffed {
        object,
        offset,
        data: data.to_vec(),
    }
}

fn content(bench: &mut Bench, object: ObjectId) -> Vec<u8> {
    let node = bench.node(Operation::GetNode {
        object,
        content: true,
    });
    match node.body {
        Body::Stuffed {
            content: Some(content),
            ..
        } => {
            assert_eq!(content.len() as u64, node.attributes.size);
            content
        }
        body => panic!("{body:?}"),
    }
}

#[test]
fn small_files_grow_shrink_and_have_no_holes() {
    let mut bench = Bench::new();
    let file = bench
        .node(Operation::Create {
            place: at("f"),
            exclusive: true,
            mode: 0o644,
            distribution: None,
            content: b"abc".to_vec(),
        })
        .object;
    assert_eq!(content(&mut bench, file), b"abc");
    bench.node(write(file, 1, b"XY"));
    bench.node(write(file, 6, b"z"));
    assert_eq!(content(&mut bench, file), b"aXY\0\0\0z");
    bench.node(Operation::Truncate {
        object: file,
        size: 2,
    });
    bench.node(Operation::Truncate {
        object: file,
        size: 4,
    });
    assert_eq!(content(&mut bench, file), b"aX\0\0");
    bench.node(Operation::Truncate {
        object: file,
        size: 0,
    });
    assert_eq!(content(&mut bench, file), b"");
    let before = bench.stat("f").attributes;
    bench.node(write(file, 100, b""));
    assert_eq!(bench.stat("f").attributes, before);
    let limit = MAX_STUFFED_BYTES as u64;
    bench.node(write(file, limit - 1, b"!"));
    assert_eq!(content(&mut bench, file).len(), MAX_STUFFED_BYTES);
    assert_eq!(bench.errno(write(file, limit, b"!")), Errno::STUFFED);
    let truncate = |size| Operation::Truncate { object: file, size };
    assert_eq!(bench.errno(truncate(limit + 1)), Errno::STUFFED);
    assert_eq!(bench.errno(truncate(1 << 63)), Errno::EFBIG);
    assert_eq!(bench.errno(write(file, u64::MAX, b"!")), Errno::EFBIG);
    let too_much = Operation::Create {
        place: at("g"),
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: vec![0; MAX_STUFFED_BYTES + 1],
    };
    assert_eq!(bench.errno(too_much), Errno::EINVAL);
    assert!(bench.check(false).is_empty());
}

#[test]
fn a_small_file_moves_once() {
    let mut bench = Bench::new();
    let file = bench.node(create("f")).object;
    bench.node(write(file, 0, b"content"));
    let finish = Operation::FinishUnstuff { object: file };
    let begin = Operation::BeginUnstuff { object: file };
    assert_eq!(bench.errno(finish.clone()), Errno::EINVAL);
    let exist = Operation::Exist {
        objects: vec![file, ObjectId(77), ObjectId::ROOT],
    };
    assert_eq!(bench.run(exist.clone()), Ok(ReplyBody::Objects(vec![])));
    for _ in 0..2 {
        let node = bench.node(begin.clone());
        let expected = Some(b"content".to_vec());
        assert!(
            matches!(&node.body, Body::Stuffed { content, moving: true, .. } if *content == expected)
        );
    }
    // Its datafile may exist from now on.
    assert_eq!(bench.run(exist.clone()), Ok(ReplyBody::Objects(vec![file])));
    assert_eq!(bench.errno(write(file, 0, b"x")), Errno::MOVING);
    let truncate = Operation::Truncate {
        object: file,
        size: 0,
    };
    assert_eq!(bench.errno(truncate), Errno::MOVING);
    let extend = |end| Operation::Extend {
        object: file,
        end,
        modified: Timestamp::default(),
        version: 0,
        reached: Vec::new(),
        from: 0,
    };
    assert_eq!(bench.errno(extend(8)), Errno::MOVING);
    for _ in 0..2 {
        let node = bench.node(finish.clone());
        assert!(matches!(
            node.body,
            Body::Striped {
                version: 0,
                truncating: None,
                ..
            }
        ));
        assert_eq!(node.attributes.size, 7);
    }
    assert!(matches!(bench.node(begin).body, Body::Striped { .. }));
    assert_eq!(bench.errno(write(file, 0, b"x")), Errno::NOT_STUFFED);
    assert_eq!(bench.node(extend(100)).attributes.size, 100);
    assert_eq!(bench.node(extend(50)).attributes.size, 100);
    assert_eq!(bench.node(extend(MAX_FILE)).attributes.size, MAX_FILE);
    assert_eq!(bench.errno(extend(MAX_FILE + 1)), Errno::EFBIG);
    assert_eq!(bench.run(exist), Ok(ReplyBody::Objects(vec![file])));
    assert!(bench.check(false).is_empty());
}

const MAX_FILE: u64 = i64::MAX as u64;

fn striped(bench: &mut Bench, path: &str, size: u64) -> ObjectId {
    let object = bench.node(create(path)).object;
    bench.node(Operation::BeginUnstuff { object });
    bench.node(Operation::FinishUnstuff { object });
    bench.node(Operation::Extend {
        object,
        end: size,
        modified: Timestamp::default(),
        version: 0,
        reached: Vec::new(),
        from: 0,
    });
    object
}

/// An empty file gets its datafiles where another one has them, if nothing else speaks against it.
#[test]
fn an_empty_file_lies_as_another_one() {
    let mut bench = Bench::new();
    let distribution = |node: &Node| match &node.body {
        Body::Stuffed { distribution, .. } | Body::Striped { distribution, .. } => {
            distribution.clone()
        }
        body => panic!("{body:?}"),
    };
    let other = striped(&mut bench, "other", 100);
    let like = distribution(&bench.stat("other"));
    let shaped = |name: &str, servers: u16, content: &[u8]| Operation::Create {
        place: at(name),
        exclusive: true,
        mode: 0o644,
        distribution: Some(DistributionHint {
            servers,
            ..DistributionHint::default()
        }),
        content: content.to_vec(),
    };
    let lie_like = |object, other| Operation::LieLike { object, other };
    let object = bench.node(shaped("empty", 0, b"")).object;
    assert_ne!(distribution(&bench.stat("empty")), like);
    for _ in 0..2 {
        let node = bench.node(lie_like(object, other));
        assert_eq!(distribution(&node), like);
        assert_eq!(distribution(&bench.stat("empty")), like);
    }
    bench.node(Operation::BeginUnstuff { object });
    assert_eq!(
        distribution(&bench.node(Operation::FinishUnstuff { object })),
        like
    );
    // Not one with content, on fewer servers, that moves, or like one that has no datafiles.
    let full = bench.node(shaped("full", 0, b"content"));
    let narrow = bench.node(shaped("narrow", 2, b""));
    let moving = bench.node(shaped("moving", 0, b""));
    let object = moving.object;
    bench.node(Operation::BeginUnstuff { object });
    let last = bench.node(shaped("last", 0, b""));
    for (node, other) in [
        (&full, other),
        (&narrow, other),
        (&moving, other),
        (&last, full.object),
    ] {
        let after = bench.node(lie_like(node.object, other));
        assert_eq!(distribution(&after), distribution(node));
    }
    assert_eq!(bench.errno(lie_like(ObjectId::ROOT, other)), Errno::EISDIR);
    assert_eq!(
        bench.errno(lie_like(last.object, ObjectId(77))),
        Errno::ESTALE
    );
    // Nor on servers that new files keep away from, nor by whom may not write it.
    let name = "io0".to_owned();
    bench.done(Operation::DrainServer { name });
    let after = bench.node(lie_like(last.object, other));
    assert_eq!(distribution(&after), distribution(&last));
    bench.be(1000, 1000, &[]);
    assert_eq!(bench.errno(lie_like(last.object, other)), Errno::EACCES);
    assert!(bench.check(false).is_empty());
}

#[test]
fn a_file_is_marked_once_it_may_have_holes() {
    let mut bench = Bench::new();
    let is_sparse = |node: Node| match node.body {
        Body::Striped { sparse, .. } => sparse,
        body => panic!("{body:?}"),
    };
    let extend = |object, from, end| Operation::Extend {
        object,
        end,
        modified: Timestamp::default(),
        version: 0,
        reached: Vec::new(),
        from,
    };
    let object = striped(&mut bench, "f", 1000);
    // Over existing bytes, up to their end, and on from there.
    for (from, end) in [(0, 500), (999, 1001), (1001, 2000)] {
        assert!(!is_sparse(bench.node(extend(object, from, end))), "{from}");
    }
    assert!(is_sparse(bench.node(extend(object, 2001, 2002))));
    // The range between is not known to have been filled since.
    assert!(is_sparse(bench.node(extend(object, 0, 2002))));
    for (size, expected) in [(5000, true), (10, true), (0, false)] {
        let node = bench.node(Operation::Truncate { object, size });
        assert_eq!(is_sparse(node), expected, "{size}");
    }
    let object = striped(&mut bench, "grown", 1000);
    let smaller = bench.node(Operation::Truncate { object, size: 9 });
    assert!(!is_sparse(smaller));
    assert!(is_sparse(bench.node(Operation::Grow { object, size: 10 })));
    // Elsewhere, or by a client that does not state the range.
    let object = striped(&mut bench, "punched", 1000);
    assert!(is_sparse(bench.node(extend(object, NOT_KNOWN, 0))));
    // The hole is filled, which counts only for the present state of the file.
    let changed = bench.stat("punched").attributes.changed;
    let filled = |changed| Operation::Filled { object, changed };
    let never = Timestamp::default();
    assert!(is_sparse(bench.node(filled(never))));
    assert!(!is_sparse(bench.node(filled(changed))));
    assert!(is_sparse(bench.node(extend(object, NOT_KNOWN, 0))));
    assert!(is_sparse(bench.node(filled(changed))));
    // The mark is kept.
    let kept = Operation::GetNode {
        object,
        content: false,
    };
    assert!(is_sparse(bench.node(kept)));
    assert!(bench.check(false).is_empty());
}

#[test]
fn truncation_takes_two_steps() {
    let mut bench = Bench::new();
    let object = striped(&mut bench, "f", 1000);
    let mut truncate = |size| {
        let node = bench.node(Operation::Truncate { object, size });
        assert_eq!(node.attributes.size, size);
        match node.body {
            Body::Striped {
                version,
                truncating,
                ..
            } => (version, truncating),
            body => panic!("{body:?}"),
        }
    };
    // Bytes behind the old size must not appear.
    assert_eq!(truncate(2000), (1, Some(1000)));
    assert_eq!(truncate(500), (2, Some(500)));
    // Before the datafiles have followed, the least size counts.
    assert_eq!(truncate(700), (3, Some(500)));
    assert_eq!(truncate(700), (4, Some(500)));
    assert_eq!(truncate(100), (5, Some(100)));
    let finish = |version| Operation::FinishTruncate { object, version };
    let pending = |node: Node| match node.body {
        Body::Striped { truncating, .. } => truncating,
        body => panic!("{body:?}"),
    };
    assert_eq!(pending(bench.node(finish(4))), Some(100));
    assert_eq!(bench.errno(finish(6)), Errno::EINVAL);
    assert_eq!(pending(bench.node(finish(5))), None);
    assert_eq!(pending(bench.node(finish(5))), None);
    assert_eq!(bench.stat("f").attributes.size, 100);
    let directory = Operation::Truncate {
        object: ObjectId::ROOT,
        size: 0,
    };
    assert_eq!(bench.errno(directory), Errno::EISDIR);
}

/// The least lengths of datafiles follow writes and truncations, in any order of their arrival.
#[test]
fn lengths_of_datafiles_follow_writes_and_truncations() {
    let mut bench = Bench::new();
    let file = bench.node(create("f"));
    let object = file.object;
    bench.node(write(object, 0, b"small"));
    bench.node(Operation::BeginUnstuff { object });
    let lengths = |node: Node| match node.body {
        Body::Striped { lengths, .. } => lengths,
        body => panic!("{body:?}"),
    };
    let unstuffed = bench.node(Operation::FinishUnstuff { object });
    let Body::Striped { distribution, .. } = &unstuffed.body else {
        panic!("{unstuffed:?}");
    };
    let (strip, servers) = (
        u64::from(distribution.strip_size),
        distribution.servers.len() as u16,
    );
    assert!(servers > 1);
    assert_eq!(lengths(unstuffed), [5]);
    let extend = |version, position, end| Operation::Extend {
        object,
        end: 10 * strip,
        modified: Timestamp::default(),
        version,
        reached: vec![Reach { position, end }],
        from: 0,
    };
    assert_eq!(lengths(bench.node(extend(0, 1, 3 * strip))), [5, 3 * strip]);
    assert_eq!(lengths(bench.node(extend(0, 1, 7))), [5, 3 * strip]);
    assert_eq!(bench.errno(extend(0, servers, 7)), Errno::EINVAL);
    assert_eq!(bench.errno(extend(0, 0, MAX_FILE + 1)), Errno::EFBIG);
    let size = strip + 9;
    let truncated = bench.node(Operation::Truncate { object, size });
    assert_eq!(lengths(truncated), [5, 9]);
    // A write from before the truncation may have been discarded.
    assert_eq!(lengths(bench.node(extend(0, 0, 100))), [5, 9]);
    assert_eq!(lengths(bench.node(extend(1, 0, 100))), [100, 9]);
    let size = 20 * strip;
    let grown = bench.node(Operation::Truncate { object, size });
    assert_eq!(lengths(grown), [100, 9]);

    let listed = Operation::ListStriped {
        after: ObjectId::ROOT,
        limit: 10,
    };
    let Ok(ReplyBody::StripedFiles { files, end: true }) = bench.run(listed) else {
        panic!("no list");
    };
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].lengths, [100, 9]);
    assert_eq!(files[0].servers.len(), usize::from(servers));
    bench.node(mkdir("d"));
    bench.done(rename("f", "d/g"));
    let paths = Operation::Paths {
        objects: vec![object, ObjectId(99), ObjectId::ROOT],
    };
    let Ok(ReplyBody::Paths(paths)) = bench.run(paths) else {
        panic!("no paths");
    };
    let paths: Vec<_> = paths.into_iter().map(|p| (p.object, p.path)).collect();
    assert_eq!(
        paths,
        [(object, b"/d/g".to_vec()), (ObjectId::ROOT, b"/".to_vec())]
    );
}

#[test]
fn removed_files_are_remembered_until_reclaimed() {
    let mut bench = Bench::new();
    let file = striped(&mut bench, "f", 10);
    let kept = bench.node(Operation::HardLink {
        object: file,
        place: at("g"),
    });
    let small = bench.node(create("small")).object;
    bench.node(write(small, 0, b"x"));
    let moving = bench.node(create("moving")).object;
    bench.node(write(moving, 0, b"x"));
    bench.node(Operation::BeginUnstuff { object: moving });
    bench.done(unlink("f"));
    assert_eq!(bench.service.removals(None, 10).expect("lists"), []);
    for path in ["g", "small", "moving"] {
        bench.done(unlink(path));
    }
    assert_eq!(bench.errno(write(small, 0, b"x")), Errno::ESTALE);
    assert_eq!(
        bench.errno(Operation::FinishUnstuff { object: moving }),
        Errno::ESTALE
    );
    let Body::Striped { distribution, .. } = kept.body else {
        panic!("not striped");
    };
    let removals = bench.service.removals(None, 10).expect("lists");
    assert_eq!(removals.len(), 2);
    assert_eq!(
        (removals[0].object, &removals[0].servers),
        (file, &distribution.servers)
    );
    // The seed may have arrived after the removal, at a server that only its sender can name.
    assert_eq!((removals[1].object, removals[1].servers.len()), (moving, 4));
    assert_eq!(bench.service.removals(None, 1).expect("lists").len(), 1);
    let status = |bench: &mut Bench| match bench.run(Operation::MetadataStatus) {
        Ok(ReplyBody::MetadataStatus {
            objects,
            removals,
            numbers,
            ..
        }) => {
            // All numbers that are in use lie below.
            assert!(numbers > moving.0);
            (objects, removals)
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(status(&mut bench), (1, 2));
    let gone = |object, servers: &[u16]| Removal {
        object,
        servers: servers.to_vec(),
        writes: 0,
    };
    let (first, others) = distribution.servers.split_first().expect("has servers");
    let first = gone(file, &[*first]);
    let gone_small = gone(small, &distribution.servers);
    let noted = bench.service.removed(&[first.clone(), first, gone_small]);
    noted.expect("forgets");
    // The others have not confirmed yet.
    let left = bench.service.removals(None, 1).expect("lists");
    assert_eq!(left, [gone(file, others)]);
    assert_eq!(status(&mut bench), (1, 2));
    bench
        .service
        .removed(&[gone(file, others)])
        .expect("forgets");
    assert_eq!(status(&mut bench), (1, 1));
    assert_eq!(bench.service.removals(Some(moving), 9).expect("lists"), []);
    let gone_moving = bench.service.removals(Some(file), 9).expect("lists");
    bench.service.removed(&gone_moving).expect("forgets");
    assert_eq!(bench.service.removals(None, 10).expect("lists"), []);
    assert_eq!(status(&mut bench), (1, 0));
}

/// A client that has a removed file open writes to it, and so makes a datafile again.
#[test]
fn data_written_after_the_removal_are_removed_as_well() {
    let mut bench = Bench::new();
    let object = striped(&mut bench, "f", 10);
    bench.done(unlink("f"));
    let in_progress = bench.service.removals(None, 10).expect("lists");
    let extend = |object| Operation::Extend {
        object,
        end: 20,
        modified: Timestamp::default(),
        version: 0,
        reached: Vec::new(),
        from: 0,
    };
    assert_eq!(bench.errno(extend(object)), Errno::ESTALE);
    // The removal that was in progress may have come before the write.
    bench.service.removed(&in_progress).expect("forgets");
    let left = bench.service.removals(None, 10).expect("lists");
    assert_eq!((left[0].object, left[0].servers.len()), (object, 4));
    bench.service.removed(&left).expect("forgets");
    assert_eq!(bench.service.removals(None, 10).expect("lists"), []);
    let finish = Operation::FinishTruncate { object, version: 0 };
    assert_eq!(bench.errno(finish), Errno::ESTALE);
    let left = bench.service.removals(None, 10).expect("lists");
    assert_eq!(left.len(), 1);
    assert!(bench.check(false).is_empty());
    bench.service.removed(&left).expect("forgets");
    // A number that was never given out belongs to no object.
    assert_eq!(bench.errno(extend(ObjectId(1 << 40))), Errno::ESTALE);
    assert_eq!(bench.service.removals(None, 10).expect("lists"), []);
    assert!(matches!(
        bench.run(Operation::MetadataStatus),
        Ok(ReplyBody::MetadataStatus { removals: 0, .. })
    ));
}

#[test]
fn replacing_by_rename_removes_the_replaced() {
    let mut bench = Bench::new();
    let old = striped(&mut bench, "old", 10);
    bench.node(create("new"));
    bench.done(rename("new", "old"));
    let removals = bench.service.removals(None, 10).expect("lists");
    assert_eq!(
        removals
            .iter()
            .map(|removal| removal.object)
            .collect::<Vec<_>>(),
        [old]
    );
}
