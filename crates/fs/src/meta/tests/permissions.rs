//! Permissions of operations.

use super::*;

const OTHER: u32 = 2000;

pub(super) fn chmod(object: ObjectId, mode: u16) -> Operation {
    Operation::SetAttributes {
        object,
        set: SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        },
    }
}

fn chown(object: ObjectId, uid: Option<u32>, gid: Option<u32>) -> Operation {
    Operation::SetAttributes {
        object,
        set: SetAttributes {
            uid,
            gid,
            ..SetAttributes::default()
        },
    }
}

/// A directory `/d` of [`USER`] and group 100 with the given mode, and a file of user 0 in it.
fn with_directory(mode: u16) -> (Bench, ObjectId) {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/d")).object;
    bench.node(create("/d/f"));
    bench.node(chown(directory, Some(USER), Some(100)));
    bench.node(chmod(directory, mode));
    (bench, directory)
}

/// For owner, group and others, each permission bit alone decides about its operations.
#[test]
fn directory_permission_matrix() {
    let classes: [(u32, u32, &[u32], u16); 4] = [
        (USER, 5, &[], 6),
        (OTHER, 100, &[], 3),
        (OTHER, 5, &[99, 100], 3),
        (OTHER, 5, &[], 0),
    ];
    for (uid, gid, groups, shift) in classes {
        for bits in 0..8u16 {
            // All other classes have every permission: they must not leak.
            let mode = (0o777 & !(7 << shift)) | (bits << shift);
            let (mut bench, directory) = with_directory(mode);
            bench.be(uid, gid, groups);
            let (may_list, may_change, may_search) = (bits & 4 != 0, bits & 3 == 3, bits & 1 != 0);
            let case = format!("uid {uid} gid {gid} {groups:?} mode {mode:o}");
            let mut allowed = |operation: Operation| match bench.run(operation) {
                Ok(_) => true,
                Err(failure) => {
                    assert_eq!(failure.errno, Errno::EACCES, "{case}: {}", failure.message);
                    false
                }
            };
            let list = Operation::ReadDirectory {
                object: directory,
                after: Vec::new(),
                limit: 10,
                attributes: false,
            };
            assert_eq!(allowed(list), may_list, "{case}: list");
            assert_eq!(allowed(lookup("/d/f")), may_search, "{case}: search");
            assert_eq!(allowed(lookup("/d/.")), may_search, "{case}: dot");
            assert_eq!(allowed(create("/d/new")), may_change, "{case}: create");
            assert_eq!(allowed(mkdir("/d/sub")), may_change, "{case}: mkdir");
            assert_eq!(
                allowed(symlink("x", "/d/link")),
                may_change,
                "{case}: symlink"
            );
            assert_eq!(
                allowed(rename("/d/f", "/d/g")),
                may_change,
                "{case}: rename"
            );
            let target = if may_change { "/d/g" } else { "/d/f" };
            assert_eq!(allowed(unlink(target)), may_change, "{case}: unlink");
            if may_change {
                assert!(allowed(rmdir("/d/sub")), "{case}: rmdir");
            }
            bench.be(0, 0, &[]);
            assert!(bench.run(create("/d/by-root")).is_ok());
            assert!(bench.check(false).is_empty());
        }
    }
}

#[test]
fn file_permissions_decide_about_contents() {
    for (mode, uid, may_read, may_write) in [
        (0o644, OTHER, true, false),
        (0o622, OTHER, false, true),
        (0o600, OTHER, false, false),
        // A file's owner holds a handle with both.
        (0o000, USER, true, true),
        (0o000, 0, true, true),
    ] {
        let mut bench = Bench::new();
        let object = bench
            .node(Operation::Create {
                place: at("f"),
                exclusive: true,
                mode,
                distribution: None,
                content: b"secret".to_vec(),
            })
            .object;
        bench.node(chown(object, Some(USER), Some(100)));
        bench.be(uid, 5, &[]);
        let get = bench.run(Operation::GetNode {
            object,
            content: true,
        });
        assert_eq!(get.is_ok(), may_read, "{mode:o} {uid}");
        // A lookup returns the attributes to every user, the content to readers.
        let node = bench.node(Operation::Lookup {
            place: at("f"),
            follow: true,
            content: true,
        });
        let content = match node.body {
            Body::Stuffed { content, .. } => content,
            body => panic!("{body:?}"),
        };
        assert_eq!(content.is_some(), may_read, "{mode:o} {uid}");
        let write = bench.run(Operation::WriteStuffed {
            object,
            offset: 0,
            data: b"x".to_vec(),
        });
        assert_eq!(write.is_ok(), may_write, "{mode:o} {uid}");
        let truncate = bench.run(Operation::Truncate { object, size: 0 });
        assert_eq!(truncate.is_ok(), may_write, "{mode:o} {uid}");
        assert_eq!(
            bench.run(Operation::BeginUnstuff { object }).is_ok(),
            may_write
        );
        assert_eq!(
            bench.run(Operation::FinishUnstuff { object }).is_ok(),
            may_write
        );
        let extend = Operation::Extend {
            object,
            end: 5,
            modified: Timestamp::default(),
            version: 0,
            reached: Vec::new(),
            from: 0,
        };
        assert_eq!(bench.run(extend).is_ok(), may_write);
    }
}

#[test]
fn only_owners_change_attributes() {
    let mut bench = Bench::new();
    let object = bench.node(create("f")).object;
    bench.node(chown(object, Some(USER), Some(100)));
    let touch = |object| Operation::SetAttributes {
        object,
        set: SetAttributes {
            accessed: Some(Timestamp::default()),
            modified: Some(Timestamp::default()),
            ..SetAttributes::default()
        },
    };
    bench.be(OTHER, 100, &[]);
    for operation in [
        chmod(object, 0o777),
        touch(object),
        chown(object, Some(OTHER), None),
        chown(object, None, Some(100)),
    ] {
        assert_eq!(
            bench.errno(operation.clone()),
            Errno::EPERM,
            "{operation:?}"
        );
    }
    bench.be(USER, 100, &[101]);
    bench.node(touch(object));
    assert_eq!(bench.stat("f").attributes.modified, Timestamp::default());
    assert_eq!(bench.node(chmod(object, 0o600)).attributes.mode, 0o600);
    assert_eq!(bench.errno(chown(object, Some(OTHER), None)), Errno::EPERM);
    assert_eq!(bench.errno(chown(object, None, Some(102))), Errno::EPERM);
    assert_eq!(
        bench
            .node(chown(object, Some(USER), Some(101)))
            .attributes
            .gid,
        101
    );
    // Everything or nothing.
    let both = Operation::SetAttributes {
        object,
        set: SetAttributes {
            mode: Some(0o666),
            uid: Some(OTHER),
            ..SetAttributes::default()
        },
    };
    assert_eq!(bench.errno(both), Errno::EPERM);
    assert_eq!(bench.stat("f").attributes.mode, 0o600);
    let hint = DistributionHint::default();
    let redistribute = Operation::SetAttributes {
        object,
        set: SetAttributes {
            distribution: Some(hint),
            ..SetAttributes::default()
        },
    };
    assert_eq!(bench.errno(redistribute), Errno::ENOTDIR);
}

#[test]
fn set_id_bits_come_and_go_as_in_linux() {
    let mut bench = Bench::new();
    let object = bench.node(create("f")).object;
    bench.node(chown(object, Some(USER), Some(100)));
    bench.be(USER, 5, &[]);
    // Not in the file's group: no set-group-id bit.
    assert_eq!(bench.node(chmod(object, 0o6755)).attributes.mode, 0o4755);
    bench.be(USER, 100, &[]);
    assert_eq!(bench.node(chmod(object, 0o6755)).attributes.mode, 0o6755);
    let write = Operation::WriteStuffed {
        object,
        offset: 0,
        data: b"x".to_vec(),
    };
    assert_eq!(bench.node(write.clone()).attributes.mode, 0o755);
    bench.node(chmod(object, 0o6745));
    assert_eq!(bench.node(write).attributes.mode, 0o2745);
    bench.node(chmod(object, 0o6755));
    assert_eq!(
        bench.node(chown(object, None, Some(100))).attributes.mode,
        0o755
    );

    bench.be(0, 0, &[]);
    let shared = bench.node(mkdir("shared")).object;
    bench.node(chown(shared, None, Some(300)));
    bench.node(chmod(shared, 0o2777));
    bench.be(USER, 100, &[]);
    let directory = bench.node(mkdir("shared/d")).attributes;
    assert_eq!((directory.gid, directory.mode), (300, 0o2755));
    let file = bench.node(create("shared/d/f")).attributes;
    assert_eq!((file.gid, file.mode, file.uid), (300, 0o644, USER));
    let program = Operation::Create {
        place: at("shared/program"),
        exclusive: true,
        mode: 0o2755,
        distribution: None,
        content: Vec::new(),
    };
    assert_eq!(bench.node(program).attributes.mode, 0o755);
}

#[test]
fn sticky_directories_protect_their_owners() {
    let mut bench = Bench::new();
    let tmp = bench.node(mkdir("tmp")).object;
    bench.node(chmod(tmp, 0o1777));
    bench.be(USER, 1, &[]);
    bench.node(create("tmp/mine"));
    bench.be(OTHER, 1, &[]);
    bench.node(create("tmp/other"));
    assert_eq!(bench.errno(unlink("tmp/mine")), Errno::EPERM);
    assert_eq!(bench.errno(rename("tmp/mine", "tmp/x")), Errno::EPERM);
    assert_eq!(bench.errno(rename("tmp/other", "tmp/mine")), Errno::EPERM);
    bench.done(rename("tmp/other", "tmp/x"));
    bench.be(USER, 1, &[]);
    bench.done(unlink("tmp/mine"));
    bench.be(0, 0, &[]);
    bench.done(unlink("tmp/x"));
}

#[test]
fn moving_a_directory_needs_writing_it() {
    let mut bench = Bench::new();
    for path in ["a", "b"] {
        let object = bench.node(mkdir(path)).object;
        bench.node(chmod(object, 0o777));
    }
    bench.node(mkdir("a/d"));
    bench.be(USER, 1, &[]);
    assert_eq!(bench.errno(rename("a/d", "b/d")), Errno::EACCES);
    bench.done(rename("a/d", "a/e"));
}

#[test]
fn only_root_and_the_owner_of_the_root_check() {
    let mut bench = Bench::with(Settings {
        root_owner: (USER, USER),
        ..Settings::default()
    });
    let check = Operation::Check {
        after: None,
        repair: true,
    };
    bench.be(OTHER, 1, &[]);
    assert_eq!(bench.errno(check.clone()), Errno::EPERM);
    let request = bench.request(Operation::Check {
        after: None,
        repair: false,
    });
    let reply = bench
        .service
        .reader()
        .answer(&request)
        .expect("a read-only request");
    assert_eq!(
        reply.result.map_err(|failure| failure.errno),
        Err(Errno::EPERM)
    );
    bench.be(USER, 1, &[]);
    assert!(bench.run(check).is_ok());
}
