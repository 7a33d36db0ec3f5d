//! Extended attributes: against a model, permissions, and removal with their objects.

use std::collections::BTreeMap;

use causeway_wire::codec::Wire as _;
use causeway_wire::random::SplitMix64;
use causeway_wire::store::{MAX_XATTRS, XattrsRecord, xattrs_key};

use super::super::store::Persist;
use super::*;

fn set(object: ObjectId, name: &str, value: &[u8], mode: SetXattrMode) -> Operation {
    Operation::SetXattr {
        object,
        name: name.as_bytes().to_vec(),
        value: value.to_vec(),
        mode,
    }
}

fn any(object: ObjectId, name: &str, value: &[u8]) -> Operation {
    set(object, name, value, SetXattrMode::Any)
}

fn remove(object: ObjectId, name: &str) -> Operation {
    Operation::RemoveXattr {
        object,
        name: name.as_bytes().to_vec(),
    }
}

fn get(object: ObjectId, name: &str) -> Operation {
    Operation::GetXattr {
        object,
        name: name.as_bytes().to_vec(),
    }
}

/// The reply of a reader of the committed state.
fn read(bench: &Bench, operation: Operation) -> Result<ReplyBody, Errno> {
    let reply = bench.service.reader().answer(&bench.request(operation));
    reply
        .expect("nothing changes")
        .result
        .map_err(|failure| failure.errno)
}

fn names(bench: &Bench, object: ObjectId) -> Vec<String> {
    match read(bench, Operation::ListXattrs { object }) {
        Ok(ReplyBody::XattrNames(names)) => names
            .into_iter()
            .map(|name| String::from_utf8(name.name).unwrap())
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn keys(bench: &Bench) -> usize {
    let view = bench.store.snapshot().unwrap();
    view.range(b"x", b"y").count()
}

#[test]
fn attributes_are_as_in_a_model() {
    let mut bench = Bench::new();
    let object = bench.node(create("/file")).object;
    bench.node(Operation::HardLink {
        object,
        place: at("/other"),
    });
    let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut random = SplitMix64::new(7);
    for step in 0..400 {
        let name = format!("user.{}", random.below(12));
        let len = random.below(300) as usize;
        let value = random.bytes(len);
        let known = model.contains_key(&name);
        match random.below(5) {
            0 => match known {
                true => bench.done(remove(object, &name)),
                false => assert_eq!(bench.errno(remove(object, &name)), Errno::ENODATA),
            },
            kind => {
                let (mode, refusal) = match kind {
                    1 => (SetXattrMode::Create, known.then_some(Errno::EEXIST)),
                    2 => (SetXattrMode::Replace, (!known).then_some(Errno::ENODATA)),
                    _ => (SetXattrMode::Any, None),
                };
                let operation = set(object, &name, &value, mode);
                match refusal {
                    Some(errno) => assert_eq!(bench.errno(operation), errno, "{step}"),
                    None => {
                        bench.done(operation);
                        let changed = bench.time();
                        assert_eq!(bench.stat("/other").attributes.changed, changed);
                        model.insert(name.clone(), value);
                    }
                }
                if known || refusal.is_none() {
                    let value = ReplyBody::Xattr(model[&name].clone());
                    assert_eq!(read(&bench, get(object, &name)), Ok(value));
                }
                assert_eq!(
                    names(&bench, object),
                    model.keys().cloned().collect::<Vec<_>>()
                );
                continue;
            }
        }
        model.remove(&name);
        assert_eq!(read(&bench, get(object, &name)), Err(Errno::ENODATA));
        assert_eq!(
            names(&bench, object),
            model.keys().cloned().collect::<Vec<_>>()
        );
    }
    assert_eq!(bench.check(false), Vec::<String>::new());
    // They are removed with the last name.
    bench.done(any(object, "user.last", b""));
    bench.done(unlink("/file"));
    assert_eq!(keys(&bench), 1);
    bench.done(unlink("/other"));
    assert_eq!(keys(&bench), 0);
    assert_eq!(read(&bench, get(object, "user.last")), Err(Errno::ESTALE));
}

#[test]
fn permissions_to_read_and_change_attributes() {
    let mut bench = Bench::new();
    let file = bench.node(create("/file")).object;
    let directory = bench.node(mkdir("/directory")).object;
    let link = bench.node(symlink("file", "/link")).object;
    for name in ["user.a", "trusted.a", "security.a"] {
        bench.done(any(file, name, name.as_bytes()));
        bench.done(any(directory, name, name.as_bytes()));
    }
    // Errors in the form of names.
    for (name, errno) in [
        ("system.nfs4_acl", Errno::EOPNOTSUPP),
        ("other", Errno::EOPNOTSUPP),
        ("user.", Errno::EINVAL),
        ("user.a\0b", Errno::EINVAL),
    ] {
        assert_eq!(bench.errno(any(file, name, b"")), errno, "{name:?}");
        assert_eq!(read(&bench, get(file, name)), Err(errno), "{name:?}");
    }
    assert_eq!(bench.errno(any(link, "user.a", b"")), Errno::EPERM);
    assert_eq!(read(&bench, get(link, "user.a")), Err(Errno::ENODATA));
    bench.done(any(link, "trusted.a", b""));

    let mode = |object, mode| Operation::SetAttributes {
        object,
        set: SetAttributes {
            mode: Some(mode),
            ..SetAttributes::default()
        },
    };
    bench.node(mode(file, 0o604));
    bench.node(mode(directory, 0o1777));
    bench.be(USER, USER, &[]);
    let value = Ok(ReplyBody::Xattr(b"user.a".to_vec()));
    assert_eq!(read(&bench, get(file, "user.a")), value);
    assert_eq!(read(&bench, get(file, "trusted.a")), Err(Errno::ENODATA));
    assert!(read(&bench, get(file, "security.a")).is_ok());
    assert_eq!(names(&bench, file), ["security.a", "user.a"]);
    for (name, errno) in [
        ("user.a", Errno::EACCES),
        ("trusted.a", Errno::EPERM),
        ("security.a", Errno::EPERM),
    ] {
        assert_eq!(bench.errno(any(file, name, b"")), errno, "{name}");
        assert_eq!(bench.errno(remove(file, name)), errno, "{name}");
    }
    // Every user may write in the directory, which is sticky.
    assert_eq!(bench.errno(any(directory, "user.b", b"")), Errno::EPERM);
    bench.be(0, 0, &[]);
    bench.node(mode(file, 0o602));
    bench.be(USER, USER, &[]);
    bench.done(any(file, "user.a", b"mine"));
    assert_eq!(read(&bench, get(file, "user.a")), Err(Errno::EACCES));
}

#[test]
fn attributes_of_an_object_are_bounded() {
    let mut bench = Bench::new();
    let object = bench.node(create("/file")).object;
    let large = vec![7; MAX_XATTR_VALUE_BYTES];
    bench.done(any(object, "user.1", &large));
    bench.done(any(object, "user.2", &large));
    assert_eq!(bench.errno(any(object, "user.3", &large)), Errno::ENOSPC);
    bench.done(any(object, "user.2", b""));
    let long = "x".repeat(MAX_XATTR_NAME_BYTES - 8);
    for number in 2..MAX_XATTRS {
        bench.done(any(object, &format!("user.{number:03}{long}"), b"value"));
    }
    assert_eq!(bench.errno(any(object, "user.more", b"")), Errno::ENOSPC);
    let reply = Reply {
        result: read(&bench, Operation::ListXattrs { object }).map_err(|_| unreachable!()),
    };
    let bytes = reply.to_bytes(formats::FORMATS.highest);
    assert!(bytes.len() <= MAX_MESSAGE_BYTES);
    assert_eq!(names(&bench, object).len(), MAX_XATTRS);
}

#[test]
fn a_check_finds_attributes_of_nothing_and_damaged_ones() {
    let mut bench = Bench::new();
    let object = bench.node(create("/file")).object;
    bench.done(any(object, "user.a", b"b"));
    assert_eq!(bench.check(true), Vec::<String>::new());
    let mut batch = std::collections::BTreeMap::new();
    batch.insert(xattrs_key(object), Some(vec![1, 2, 3]));
    let record = XattrsRecord::default().to_bytes();
    batch.insert(xattrs_key(ObjectId(77_777)), Some(record));
    bench.store.commit(&batch, Persist::Process).unwrap();
    assert!(read(&bench, get(object, "user.a")).is_err());
    let found = bench.check(true);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .all(|text| text.starts_with("extended attributes of object"))
    );
    assert_eq!(bench.check(true), Vec::<String>::new());
    assert_eq!(keys(&bench), 0);
}
