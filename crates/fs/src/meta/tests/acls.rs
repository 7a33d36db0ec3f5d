//! Access control lists: what they do to modes, to permissions and to new entries of directories.

use causeway_wire::codec::Wire as _;
use causeway_wire::store::{HAS_ACL, ObjectRecord, object_key};

use super::super::store::Persist;
use super::permissions::chmod;
use super::*;

fn set(object: ObjectId, kind: AclKind, acl: &Acl) -> Operation {
    Operation::SetXattr {
        object,
        name: kind.xattr().to_vec(),
        value: acl.to_xattr(),
        mode: SetXattrMode::Any,
    }
}

fn remove(object: ObjectId, kind: AclKind) -> Operation {
    Operation::RemoveXattr {
        object,
        name: kind.xattr().to_vec(),
    }
}

fn get(bench: &mut Bench, object: ObjectId, kind: AclKind) -> Option<Acl> {
    let name = kind.xattr().to_vec();
    match bench.run(Operation::GetXattr { object, name }) {
        Ok(ReplyBody::Xattr(value)) => Acl::from_xattr(&value).unwrap(),
        Err(failure) if failure.errno == Errno::ENODATA => None,
        other => panic!("{other:?}"),
    }
}

fn read(object: ObjectId) -> Operation {
    Operation::GetNode {
        object,
        content: true,
    }
}

fn list(mode: u16, users: &[(u32, u8)], mask: u8) -> Acl {
    Acl {
        users: users.to_vec(),
        mask: Some(mask),
        ..Acl::of_mode(mode)
    }
}

#[test]
fn a_list_changes_the_mode_and_a_change_of_the_mode_the_list() {
    let mut bench = Bench::new();
    let object = bench.node(create("/file")).object;
    let acl = list(0o640, &[(7, 6), (8, 7)], 6);
    let node = bench.node(set(object, AclKind::Access, &acl));
    assert_eq!(node.attributes.mode, 0o660);
    assert_eq!(node.acl.as_deref(), Some(&acl));
    assert_eq!(get(&mut bench, object, AclKind::Access), Some(acl));
    // The first named user may write, by the mask; others have no permission.
    let append = Operation::WriteStuffed {
        object,
        offset: 0,
        data: b"x".to_vec(),
    };
    bench.be(7, 7, &[]);
    bench.node(append.clone());
    bench.be(9, 9, &[]);
    assert_eq!(bench.errno(append.clone()), Errno::EACCES);
    assert_eq!(bench.errno(read(object)), Errno::EACCES);
    // Only the owner changes lists.
    let other = list(0o666, &[(9, 7)], 7);
    assert_eq!(
        bench.errno(set(object, AclKind::Access, &other)),
        Errno::EPERM
    );
    assert_eq!(bench.errno(remove(object, AclKind::Access)), Errno::EPERM);
    bench.be(0, 0, &[]);
    let node = bench.node(chmod(object, 0o604));
    assert_eq!(node.attributes.mode, 0o604);
    let changed = get(&mut bench, object, AclKind::Access).unwrap();
    assert_eq!(
        (changed.mask, changed.other, changed.group),
        (Some(0), 4, 4)
    );
    // Under an empty mask the named user is one of the others, as on Linux.
    bench.be(7, 7, &[]);
    assert_eq!(bench.errno(append), Errno::EACCES);
    bench.node(read(object));
    bench.be(0, 0, &[]);
    bench.node(chmod(object, 0o614));
    bench.be(7, 7, &[]);
    assert_eq!(bench.errno(read(object)), Errno::EACCES);
    bench.be(0, 0, &[]);
    bench.node(chmod(object, 0o604));
    // User 0 is bound by none of that.
    bench.be(0, 0, &[]);
    bench.node(read(object));
    // Without the list, only the mode counts.
    let node = bench.node(remove(object, AclKind::Access));
    assert_eq!((node.attributes.mode, node.acl), (0o604, None));
    bench.be(7, 7, &[]);
    bench.node(read(object));
    assert_eq!(get(&mut bench, object, AclKind::Access), None);
    // A list that only repeats the mode is not kept.
    bench.be(0, 0, &[]);
    let node = bench.node(set(object, AclKind::Access, &Acl::of_mode(0o751)));
    assert_eq!((node.attributes.mode, node.acl), (0o751, None));
    assert_eq!(bench.check(false), Vec::<String>::new());
    bench.done(unlink("/file"));
    assert_eq!(bench.store.snapshot().unwrap().range(b"x", b"y").count(), 0);
}

#[test]
fn new_entries_get_the_default_list_and_the_umask_does_not_count() {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/d")).object;
    bench.caller.umask = 0o077;
    let plain = bench.node(create("/d/plain"));
    assert_eq!(plain.attributes.mode, 0o600);
    let default = list(0o770, &[(7, 7)], 7);
    let node = bench.node(set(directory, AclKind::Default, &default));
    assert_eq!((node.attributes.mode, node.acl), (0o755, None));
    let file = bench.node(create("/d/file"));
    // The requested mode was 0644.
    assert_eq!(file.attributes.mode, 0o640);
    let given = file.acl.as_deref().unwrap();
    assert_eq!((given.mask, given.group), (Some(4), 7));
    assert_eq!(given.users, [(7, 7)]);
    let below = bench.node(mkdir("/d/below"));
    assert_eq!(below.attributes.mode, 0o750);
    let inherited = get(&mut bench, below.object, AclKind::Default);
    assert_eq!(inherited, Some(default.clone()));
    let deep = bench.node(create("/d/below/deep"));
    assert_eq!(deep.acl, file.acl);
    let link = bench.node(symlink("file", "/d/link"));
    assert_eq!((link.attributes.mode, link.acl), (0o777, None));
    // The named user searches the directories by their lists, and reads the file; others do neither.
    bench.be(7, 7, &[]);
    bench.stat("/d/below/deep");
    bench.node(read(deep.object));
    bench.be(8, 8, &[]);
    assert_eq!(bench.errno(lookup("/d/below/deep")), Errno::EACCES);
    // A default list that only repeats a mode gives new entries that mode.
    bench.be(0, 0, &[]);
    bench.caller.umask = 0o077;
    bench.node(set(directory, AclKind::Default, &Acl::of_mode(0o705)));
    let file = bench.node(create("/d/second"));
    assert_eq!((file.attributes.mode, file.acl), (0o604, None));
    bench.node(remove(directory, AclKind::Default));
    assert_eq!(get(&mut bench, directory, AclKind::Default), None);
    assert_eq!(bench.node(create("/d/third")).attributes.mode, 0o600);
    assert_eq!(bench.check(false), Vec::<String>::new());
}

#[test]
fn lists_are_refused_where_they_mean_nothing() {
    let mut bench = Bench::new();
    let file = bench.node(create("/file")).object;
    let link = bench.node(symlink("file", "/link")).object;
    let acl = list(0o640, &[(7, 6)], 6);
    for (object, kind, errno) in [
        (link, AclKind::Access, Errno::EOPNOTSUPP),
        (link, AclKind::Default, Errno::EOPNOTSUPP),
        (file, AclKind::Default, Errno::EACCES),
    ] {
        assert_eq!(bench.errno(set(object, kind, &acl)), errno);
    }
    let unmasked = Acl {
        mask: None,
        ..acl.clone()
    };
    assert_eq!(
        bench.errno(set(file, AclKind::Access, &unmasked)),
        Errno::EINVAL
    );
    // Other attributes stay beside it, and only existing ones are listed.
    let xattr = Operation::SetXattr {
        object: file,
        name: b"user.a".to_vec(),
        value: b"1".to_vec(),
        mode: SetXattrMode::Any,
    };
    bench.done(xattr);
    bench.node(set(file, AclKind::Access, &acl));
    let names = |bench: &mut Bench| match bench.run(Operation::ListXattrs { object: file }) {
        Ok(ReplyBody::XattrNames(names)) => names.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(names(&mut bench), 2);
    bench.node(remove(file, AclKind::Access));
    assert_eq!(names(&mut bench), 1);
    // An owner who is not in the file's group cannot keep the set-group-ID bit with a list.
    bench.node(Operation::SetAttributes {
        object: file,
        set: SetAttributes {
            uid: Some(USER),
            gid: Some(55),
            ..SetAttributes::default()
        },
    });
    bench.node(chmod(file, 0o2755));
    bench.be(USER, USER, &[]);
    let node = bench.node(set(file, AclKind::Access, &acl));
    assert_eq!(node.attributes.mode, 0o660);
}

#[test]
fn a_list_that_cannot_be_read_permits_nothing() {
    let mut bench = Bench::new();
    let file = bench.node(create("/file")).object;
    // The record has the mark of a list, and there is none.
    let view = bench.store.snapshot().unwrap();
    let bytes = view.get(&object_key(file)).unwrap().unwrap();
    let mut record = ObjectRecord::from_bytes(&bytes).unwrap();
    record.mode |= HAS_ACL | 0o077;
    let damaged = [(object_key(file), Some(record.to_bytes()))].into();
    bench.store.commit(&damaged, Persist::Power).unwrap();
    bench.be(7, 7, &[]);
    assert_eq!(bench.errno(read(file)), Errno::CORRUPT);
    // A repair leaves the owner's permissions and those of others.
    bench.be(0, 0, &[]);
    assert_eq!(bench.check(true).len(), 1);
    assert_eq!(bench.check(false), Vec::<String>::new());
    assert_eq!(bench.stat("/file").attributes.mode, 0o607);
}
