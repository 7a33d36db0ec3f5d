//! Making, finding, renaming and removing names.

use super::permissions::chmod;
use super::*;

#[test]
fn makes_finds_lists_and_removes() {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/a"));
    let file = bench.node(create("/a/f"));
    assert_eq!(file.attributes.kind, Kind::File);
    assert_eq!(bench.stat("a/f"), file);
    assert_eq!(bench.stat("/a/../a/./f").object, file.object);
    assert_eq!(bench.stat("/a").attributes.size, 1);
    assert_eq!(bench.stat("/a").attributes.modified.seconds, 1_000_002);
    assert_eq!(bench.stat("/").attributes.links, 3);
    assert_eq!(bench.list("/a"), ["f"]);
    assert_eq!(bench.errno(create("/a/f")), Errno::EEXIST);
    assert_eq!(bench.errno(rmdir("/a")), Errno::ENOTEMPTY);
    assert_eq!(bench.errno(unlink("/a")), Errno::EISDIR);
    bench.done(unlink("/a/f"));
    bench.done(rmdir("/a"));
    assert_eq!(bench.errno(lookup("/a")), Errno::ENOENT);
    let gone = bench.errno(Operation::GetNode {
        object: directory.object,
        content: false,
    });
    assert_eq!(gone, Errno::ESTALE);
    assert_eq!(bench.stat("/").attributes.links, 2);
    assert!(bench.check(false).is_empty());
}

#[test]
fn pipes_sockets_and_devices_need_permission_to_be_made() {
    let mut bench = Bench::new();
    let make = |path: &str, kind, device| Operation::MakeSpecial {
        place: at(path),
        kind,
        mode: 0o7644,
        device,
    };
    let directory = bench.node(mkdir("/d")).object;
    bench.node(chmod(directory, 0o777));
    let kinds = [
        (Kind::Fifo, 0),
        (Kind::Socket, 0),
        (Kind::CharacterDevice, 0x103),
        (Kind::BlockDevice, u32::MAX),
    ];
    for (number, (kind, device)) in kinds.into_iter().enumerate() {
        let path = format!("/d/{number}");
        let made = bench.node(make(&path, kind, device));
        assert_eq!(made.body, Body::Special { kind, device });
        assert_eq!((made.attributes.kind, made.attributes.size), (kind, 0));
        assert_eq!(bench.stat(&path), made);
        assert_eq!(bench.errno(make(&path, kind, device)), Errno::EEXIST);
        let object = made.object;
        for refused in [
            Operation::Truncate { object, size: 0 },
            Operation::BeginAppend { object },
            Operation::BeginUnstuff { object },
        ] {
            assert_eq!(bench.errno(refused), Errno::ENXIO);
        }
        let below = lookup(&format!("{path}/x"));
        assert_eq!(bench.errno(below), Errno::ENOTDIR);
        // More names, and others.
        let link = Operation::HardLink {
            object,
            place: at("/d/link"),
        };
        assert_eq!(bench.node(link).attributes.links, 2);
        bench.done(rename("/d/link", "/d/moved"));
        bench.done(unlink("/d/moved"));
        assert_eq!(bench.stat(&path).attributes.links, 1);
    }
    for (kind, device) in [
        (Kind::Fifo, 1),
        (Kind::Socket, 1),
        (Kind::File, 0),
        (Kind::Directory, 0),
        (Kind::SymbolicLink, 0),
    ] {
        assert_eq!(bench.errno(make("/d/x", kind, device)), Errno::EINVAL);
    }
    bench.be(USER, 100, &[]);
    assert_eq!(
        bench.node(make("/d/mine", Kind::Fifo, 0)).attributes.uid,
        USER
    );
    for kind in [Kind::CharacterDevice, Kind::BlockDevice] {
        assert_eq!(bench.errno(make("/d/x", kind, 0)), Errno::EPERM);
    }
    assert_eq!(bench.list("/d"), ["0", "1", "2", "3", "mine"]);
    bench.be(0, 0, &[]);
    bench.done(unlink("/d/0"));
    assert!(bench.check(false).is_empty());
}

#[test]
fn paths_are_walked_as_posix_says() {
    let mut bench = Bench::new();
    bench.node(mkdir("/d"));
    let inner = bench.node(mkdir("/d/e"));
    let file = bench.node(create("/d/e/f"));
    bench.node(symlink("d/e", "/to-e"));
    bench.node(symlink("/d/e/f", "/to-f"));
    bench.node(symlink("nowhere", "/to-nowhere"));
    bench.node(symlink("/", "/d/root"));
    let follow = |path: &str| Operation::Lookup {
        place: at(path),
        follow: true,
        content: false,
    };
    for path in [
        "to-e/f",
        "//to-e//f",
        "/to-e/./../e/f",
        "d/root/to-e/f",
        "/../d/e/f",
    ] {
        assert_eq!(bench.node(lookup(path)).object, file.object, "{path}");
    }
    assert_eq!(bench.node(follow("to-f")).object, file.object);
    assert_eq!(bench.stat("to-f").attributes.kind, Kind::SymbolicLink);
    assert_eq!(bench.stat("to-f").attributes.size, 6);
    // A slash behind a link follows it.
    assert_eq!(bench.stat("to-e/").object, inner.object);
    assert_eq!(bench.stat("d/e/..").object, bench.stat("d").object);
    assert_eq!(bench.stat("").object, ObjectId::ROOT);
    assert_eq!(bench.stat("///").object, ObjectId::ROOT);
    assert_eq!(bench.errno(lookup("d/e/f/")), Errno::ENOTDIR);
    assert_eq!(bench.errno(lookup("d/e/f/x")), Errno::ENOTDIR);
    assert_eq!(bench.errno(lookup("to-f/")), Errno::ENOTDIR);
    assert_eq!(bench.errno(follow("to-nowhere")), Errno::ENOENT);
    assert_eq!(bench.errno(lookup("d/x/..")), Errno::ENOENT);
    // From a directory that is not the root, and from a file.
    let from = |base, path: &str| Operation::Lookup {
        place: Place {
            base,
            path: path.into(),
        },
        follow: false,
        content: false,
    };
    assert_eq!(bench.node(from(inner.object, "../e/f")).object, file.object);
    assert_eq!(bench.node(from(file.object, "")).object, file.object);
    assert_eq!(bench.errno(from(file.object, "x")), Errno::ENOTDIR);
    assert_eq!(bench.errno(from(ObjectId(999), "x")), Errno::ESTALE);
}

#[test]
fn links_in_circles_end() {
    let mut bench = Bench::new();
    bench.node(symlink("b", "/a"));
    bench.node(symlink("a", "/b"));
    let follow = Operation::Lookup {
        place: at("a"),
        follow: true,
        content: false,
    };
    assert_eq!(bench.errno(follow), Errno::ELOOP);
    assert_eq!(bench.errno(lookup("a/x")), Errno::ELOOP);
    bench.node(symlink("long/long/long", "/long"));
    assert_eq!(bench.errno(lookup("long/x")), Errno::ELOOP);
    let mut create = create("a");
    if let Operation::Create { exclusive, .. } = &mut create {
        *exclusive = false;
    }
    assert_eq!(bench.errno(create), Errno::ELOOP);
    // Forty links are followed, forty-one are not.
    bench.node(create_at("end"));
    bench.node(symlink("end", "/s1"));
    for number in 2..=41 {
        bench.node(symlink(&format!("s{}", number - 1), &format!("/s{number}")));
    }
    let follow = |path: &str| Operation::Lookup {
        place: at(path),
        follow: true,
        content: false,
    };
    assert_eq!(bench.node(follow("s40")).attributes.kind, Kind::File);
    assert_eq!(bench.errno(follow("s41")), Errno::ELOOP);
}

fn create_at(path: &str) -> Operation {
    create(path)
}

#[test]
fn names_may_have_any_byte_but_two() {
    let mut bench = Bench::new();
    let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let create = |path: Vec<u8>| Operation::Create {
        place: Place {
            base: ObjectId::ROOT,
            path,
        },
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: Vec::new(),
    };
    assert_eq!(every.len(), 254);
    bench.node(create(every));
    for byte in (1..=255u8).filter(|byte| *byte != b'/' && *byte != b'.') {
        bench.node(create(vec![byte]));
    }
    bench.node(create(vec![b'n'; MAX_NAME_BYTES]));
    assert_eq!(
        bench.errno(create(vec![b'n'; MAX_NAME_BYTES + 1])),
        Errno::ENAMETOOLONG
    );
    assert_eq!(bench.errno(create(b"a\0b".to_vec())), Errno::EINVAL);
    assert_eq!(bench.errno(create(b"".to_vec())), Errno::ENOENT);
    for path in [".", "..", "/"] {
        assert_eq!(bench.errno(create(path.into())), Errno::EISDIR, "{path}");
    }
    let long: Vec<u8> = b"./".repeat(MAX_PATH_BYTES / 2);
    let mut longest = long[..MAX_PATH_BYTES - 2].to_vec();
    longest.extend_from_slice(b"zz");
    bench.node(create(longest));
    assert_eq!(
        bench.errno(create([&long[..], b"zz"].concat())),
        Errno::ENAMETOOLONG
    );
    assert_eq!(bench.list("/").len(), 1 + 253 + 1 + 1);
    assert!(bench.check(false).is_empty());
}

#[test]
fn last_components_that_are_no_names() {
    let mut bench = Bench::new();
    bench.node(mkdir("/d"));
    bench.node(create("/f"));
    bench.node(mkdir("/slash/"));
    let cases = [
        (mkdir("/"), Errno::EEXIST),
        (mkdir("/d/."), Errno::EEXIST),
        (mkdir("d"), Errno::EEXIST),
        (create("x/"), Errno::EISDIR),
        (unlink("f/"), Errno::ENOTDIR),
        (unlink("/d/.."), Errno::EISDIR),
        (rmdir("/"), Errno::EBUSY),
        (rmdir("d/."), Errno::EINVAL),
        (rmdir("d/.."), Errno::ENOTEMPTY),
        (rmdir("f"), Errno::ENOTDIR),
        (symlink("t", "x/"), Errno::ENOENT),
        (symlink("", "x"), Errno::ENOENT),
        (rename("d/.", "x"), Errno::EBUSY),
        (rename("d", "/"), Errno::EBUSY),
        (rename("f/", "x"), Errno::ENOTDIR),
        (rename("f", "x/"), Errno::ENOTDIR),
        (rename("nothing", "x"), Errno::ENOENT),
        (unlink("nothing"), Errno::ENOENT),
        (rmdir("no/thing"), Errno::ENOENT),
    ];
    for (operation, errno) in cases {
        assert_eq!(bench.errno(operation.clone()), errno, "{operation:?}");
    }
    bench.done(rename("d/", "x/"));
    assert_eq!(bench.list("/"), ["f", "slash", "x"]);
}

#[test]
fn create_follows_links_unless_exclusive() {
    let mut bench = Bench::new();
    bench.node(symlink("real", "/link"));
    assert_eq!(bench.errno(create("link")), Errno::EEXIST);
    let open = |path: &str| Operation::Create {
        place: at(path),
        exclusive: false,
        mode: 0o600,
        distribution: None,
        content: b"new".to_vec(),
    };
    let made = bench.node(open("link"));
    assert_eq!(bench.stat("real"), made);
    // An existing file is returned unchanged.
    assert_eq!(bench.node(open("real")), made);
    bench.node(mkdir("/d"));
    assert_eq!(bench.errno(open("d")), Errno::EISDIR);
}

#[test]
fn hard_links_count_and_outlive_each_other() {
    let mut bench = Bench::with(Settings {
        max_links: 4,
        ..Settings::default()
    });
    let directory = bench.node(mkdir("/d"));
    let file = bench.node(create("/f"));
    let link = |object, path: &str| Operation::HardLink {
        object,
        place: at(path),
    };
    assert_eq!(bench.errno(link(directory.object, "x")), Errno::EPERM);
    assert_eq!(bench.errno(link(ObjectId(99), "x")), Errno::ESTALE);
    assert_eq!(bench.node(link(file.object, "d/g")).attributes.links, 2);
    assert_eq!(bench.errno(link(file.object, "d/g")), Errno::EEXIST);
    bench.node(link(file.object, "h"));
    bench.node(link(file.object, "i"));
    assert_eq!(bench.errno(link(file.object, "j")), Errno::EMLINK);
    assert!(bench.check(false).is_empty());
    // Renaming one name onto another of the same object does nothing at all.
    bench.done(rename("h", "d/g"));
    assert_eq!(bench.list("/"), ["d", "f", "h", "i"]);
    bench.done(unlink("f"));
    bench.done(rename("d/g", "g"));
    bench.done(unlink("h"));
    assert!(bench.check(false).is_empty());
    let last = bench.stat("g");
    assert_eq!((last.object, last.attributes.links), (file.object, 2));
    bench.done(unlink("g"));
    bench.done(unlink("i"));
    assert_eq!(bench.errno(lookup("i")), Errno::ENOENT);
    assert!(bench.check(false).is_empty());
    let status = bench.run(Operation::MetadataStatus);
    let expected = |reply: &ReplyBody| {
        matches!(
            reply,
            ReplyBody::MetadataStatus {
                objects: 2,
                removals: 0,
                ..
            }
        )
    };
    assert!(status.as_ref().is_ok_and(expected), "{status:?}");
}

#[test]
fn rename_replaces_and_counts() {
    let mut bench = Bench::new();
    for path in ["/a", "/b", "/a/sub", "/empty"] {
        bench.node(mkdir(path));
    }
    let one = bench.node(create("/a/one"));
    let two = bench.node(create("/b/two"));
    bench.done(rename("a/one", "b/two"));
    assert_eq!(bench.stat("b/two").object, one.object);
    let gone = bench.errno(Operation::GetNode {
        object: two.object,
        content: false,
    });
    assert_eq!(gone, Errno::ESTALE);
    assert_eq!(bench.errno(rename("a", "a/sub/x")), Errno::EINVAL);
    assert_eq!(bench.errno(rename("a", "a/sub")), Errno::EINVAL);
    assert_eq!(bench.errno(rename("a/sub", "a")), Errno::ENOTEMPTY);
    assert_eq!(bench.errno(rename("b/two", "a")), Errno::EISDIR);
    assert_eq!(bench.errno(rename("a", "b/two")), Errno::ENOTDIR);
    assert_eq!(bench.errno(rename("a", "b")), Errno::ENOTEMPTY);
    let no_replace = Operation::Rename {
        from: at("a"),
        to: at("empty"),
        no_replace: true,
    };
    assert_eq!(bench.errno(no_replace), Errno::EEXIST);
    // A directory replaces an empty one and takes its `..` along.
    bench.done(rename("a/sub", "empty"));
    assert_eq!(bench.stat("a").attributes.links, 2);
    assert_eq!(bench.stat("a").attributes.size, 0);
    bench.done(rename("empty", "b/sub"));
    assert_eq!(bench.stat("b").attributes.links, 3);
    assert_eq!(bench.stat("b/sub/..").object, bench.stat("b").object);
    assert_eq!(bench.stat("/").attributes.links, 4);
    bench.done(rename("b", "b"));
    assert!(bench.check(false).is_empty());
}

#[test]
fn listing_is_stable_while_names_come_and_go() {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/d")).object;
    for number in 0..50 {
        bench.node(create(&format!("/d/{number:02}")));
    }
    let (mut seen, mut after, mut round) = (Vec::new(), Vec::new(), 0);
    loop {
        let page = bench.run(Operation::ReadDirectory {
            object: directory,
            after: after.clone(),
            limit: 7,
            attributes: round % 2 == 0,
        });
        let Ok(ReplyBody::Entries { entries, end }) = page else {
            panic!("{page:?}");
        };
        assert!(
            entries
                .iter()
                .all(|entry| entry.attributes.is_some() == (round % 2 == 0))
        );
        after = entries
            .last()
            .map(|entry| entry.name.clone())
            .unwrap_or_default();
        seen.extend(entries.into_iter().map(|entry| entry.name));
        if end {
            break;
        }
        // The name at the cursor is removed, and names before and behind it are made and removed.
        bench.done(unlink(&format!("d/{}", String::from_utf8_lossy(&after))));
        bench.node(create(&format!("/d/{round:02}x")));
        bench.node(create(&format!("/d/zz{round}")));
        round += 1;
        assert!(round < 20, "new names come forever");
    }
    let mut unique = seen.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique, seen, "each name once, in order");
    for number in 0..50 {
        assert!(
            seen.contains(&format!("{number:02}").into_bytes()),
            "{number} was there all along"
        );
    }
}

#[test]
fn a_long_listing_comes_in_messages_that_fit() {
    use causeway_wire::fs::formats::FORMATS;
    let mut bench = Bench::new();
    for number in 0..400 {
        bench.node(create(&format!("/{}{number:03}", "n".repeat(240))));
    }
    let page = bench.run(Operation::ReadDirectory {
        object: ObjectId::ROOT,
        after: Vec::new(),
        limit: u32::MAX,
        attributes: true,
    });
    let Ok(ReplyBody::Entries { entries, end }) = &page else {
        panic!("{page:?}");
    };
    assert!(entries.len() > 100 && !end);
    let reply = Reply { result: page };
    assert!(reply.to_bytes(FORMATS.highest).len() <= MAX_MESSAGE_BYTES);
    let entry_limit = bench.run(Operation::ReadDirectory {
        object: ObjectId::ROOT,
        after: Vec::new(),
        limit: 0,
        attributes: true,
    });
    assert!(matches!(entry_limit, Ok(ReplyBody::Entries { entries, .. }) if entries.len() == 1));
}

#[test]
fn files_inherit_distributions_and_begin_at_one_server_after_the_other() {
    let mut bench = Bench::new();
    let striped = |node: Node| match node.body {
        Body::Stuffed { distribution, .. } => distribution,
        body => panic!("{body:?}"),
    };
    let firsts: Vec<_> = (0..4)
        .map(|number| striped(bench.node(create(&format!("/f{number}")))).servers[0])
        .collect();
    let mut sorted = firsts.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 1, 2, 3], "{firsts:?}");
    let hint = DistributionHint {
        strip_size: 65536,
        servers: 2,
        start: 4,
    };
    bench.node(Operation::MakeDirectory {
        place: at("d"),
        mode: 0o755,
        distribution: Some(hint),
    });
    bench.node(mkdir("d/e"));
    let expected = Distribution {
        strip_size: 65536,
        servers: vec![3, 0],
    };
    assert_eq!(striped(bench.node(create("d/e/f"))), expected);
    let own = |strip_size, servers, start| Operation::Create {
        place: at("d/own"),
        exclusive: true,
        mode: 0o644,
        distribution: Some(DistributionHint {
            strip_size,
            servers,
            start,
        }),
        content: Vec::new(),
    };
    assert_eq!(bench.errno(own(5000, 0, 0)), Errno::EINVAL);
    assert_eq!(bench.errno(own(4096, 0, 0)), Errno::EINVAL);
    assert_eq!(bench.errno(own(0, 5, 0)), Errno::EINVAL);
    assert_eq!(bench.errno(own(0, 0, 5)), Errno::EINVAL);
    assert_eq!(striped(bench.node(own(0, 1, 0))).servers, [3]);
}

#[test]
fn a_batch_sees_itself_and_failures_stay_alone() {
    let mut bench = Bench::new();
    let operations = [
        mkdir("/a"),
        create("/a/f"),
        create("/a/f"),
        rename("/a/f", "/a/g"),
        lookup("/a/g"),
        unlink("/a/missing"),
        rmdir("/a"),
        unlink("/a/g"),
        rmdir("/a"),
        mkdir("/b"),
    ];
    let requests: Vec<_> = operations
        .into_iter()
        .map(|operation| bench.request(operation))
        .collect();
    let time = bench.time();
    let replies = bench.service.apply(&requests, time);
    let errnos: Vec<_> = replies
        .iter()
        .map(|reply| reply.result.as_ref().err().map(|failure| failure.errno))
        .collect();
    let some = |errno| Some(errno);
    assert_eq!(
        errnos,
        [
            None,
            None,
            some(Errno::EEXIST),
            None,
            None,
            some(Errno::ENOENT),
            some(Errno::ENOTEMPTY),
            None,
            None,
            None
        ]
    );
    assert_eq!(bench.list("/"), ["b"]);
    assert!(bench.check(false).is_empty());
}

#[test]
fn numbers_are_never_used_again() {
    let mut bench = Bench::new();
    let mut last = bench.node(create("/f")).object;
    for _ in 0..3 {
        bench.done(unlink("/f"));
        let store = bench.store.clone();
        let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
        let settings = Settings::default();
        bench.service = Service::with_opener(Box::new(open), settings).expect("opens again");
        let object = bench.node(create("/f")).object;
        assert!(object > last);
        last = object;
    }
}

#[test]
fn a_store_of_another_file_system_is_refused() {
    let bench = Bench::new();
    let store = bench.store.clone();
    let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
    let settings = Settings {
        file_system: 1,
        ..Settings::default()
    };
    let failure = Service::with_opener(Box::new(open), settings)
        .err()
        .expect("is refused");
    assert_eq!(failure.errno, Errno::EINVAL);
    assert!(
        failure.message.contains("wrong directory"),
        "{}",
        failure.message
    );
}

#[test]
fn a_name_is_removed_only_while_it_names_the_expected_object() {
    let mut bench = Bench::new();
    let removed = |path: &str, object| Operation::Unlink {
        place: at(path),
        expected: Some(object),
    };
    let old = bench.node(create("/f")).object;
    let directory = bench.node(mkdir("/d")).object;
    bench.done(rename("/f", "/elsewhere"));
    let new = bench.node(create("/f")).object;
    assert_eq!(bench.errno(removed("/f", old)), Errno::ESTALE);
    assert_eq!(bench.errno(removed("/d", old)), Errno::ESTALE);
    let emptied = |path: &str, object| Operation::RemoveDirectory {
        place: at(path),
        expected: Some(object),
    };
    assert_eq!(bench.errno(emptied("/d", old)), Errno::ESTALE);
    assert_eq!(bench.errno(emptied("/f", directory)), Errno::ESTALE);
    assert_eq!(bench.list("/"), ["d", "elsewhere", "f"]);
    bench.done(removed("/f", new));
    bench.done(emptied("/d", directory));
    bench.done(removed("/elsewhere", old));
    assert!(bench.check(false).is_empty());
}
