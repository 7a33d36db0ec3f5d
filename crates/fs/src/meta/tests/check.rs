//! Damage to the store is found and repaired.

use causeway_wire::codec::Wire;
use causeway_wire::fs::CheckCursor;
use causeway_wire::store::{
    EntryRecord, ObjectRecord, RemovalRecord, content_key, entry_key, link_key, object_key,
    removal_key,
};

use super::super::store::{Batch, Persist, Store};
use super::*;

impl Bench {
    fn damage(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let batch = Batch::from([(key, value)]);
        self.store.commit(&batch, Persist::Power).expect("commits");
    }

    fn record(&self, object: ObjectId) -> ObjectRecord {
        let view = self.store.snapshot().expect("reads");
        let bytes = view
            .get(&object_key(object))
            .expect("reads")
            .expect("exists");
        ObjectRecord::from_bytes(&bytes).expect("decodes")
    }

    fn damage_record(&mut self, object: ObjectId, change: impl FnOnce(&mut ObjectRecord)) {
        let mut record = self.record(object);
        change(&mut record);
        self.damage(object_key(object), Some(record.to_bytes()));
    }

    /// Finds something that contains `text`, repairs all, and finds nothing any more.
    #[track_caller]
    fn assert_mended(&mut self, text: &str) {
        let found = self.check(false);
        assert!(
            found.iter().any(|finding| finding.contains(text)),
            "{found:?} lacks {text:?}"
        );
        let before = self.check(false);
        assert_eq!(found, before, "a check changes nothing");
        self.check(true);
        // Repairing an entry may leave a count to the next pass.
        self.check(true);
        assert_eq!(self.check(false), [""; 0]);
    }
}

fn small_tree() -> (Bench, ObjectId, ObjectId) {
    let mut bench = Bench::new();
    let directory = bench.node(mkdir("/d")).object;
    let file = bench.node(create("/d/f")).object;
    bench.node(Operation::WriteStuffed {
        object: file,
        offset: 0,
        data: b"data".to_vec(),
    });
    assert_eq!(bench.check(true), [""; 0]);
    (bench, directory, file)
}

fn entry(object: ObjectId, kind: Kind) -> Option<Vec<u8>> {
    Some(EntryRecord { object, kind }.to_bytes())
}

#[test]
fn entries_without_an_object_are_removed() {
    let (mut bench, directory, _) = small_tree();
    bench.damage(
        entry_key(directory, b"ghost"),
        entry(ObjectId(999), Kind::File),
    );
    bench.damage(
        entry_key(ObjectId(998), b"x"),
        entry(ObjectId(999), Kind::File),
    );
    bench.damage(entry_key(directory, b"torn"), Some(vec![1, 2]));
    bench.damage(
        entry_key(directory, b"a/b"),
        entry(ObjectId(999), Kind::File),
    );
    bench.assert_mended("which does not exist");
    assert_eq!(bench.list("/d"), ["f"]);
}

#[test]
fn objects_that_lost_their_name_are_found_again() {
    let (mut bench, directory, file) = small_tree();
    bench.damage(entry_key(directory, b"f"), None);
    bench.assert_mended("has no name");
    assert_eq!(bench.list("/lost+found"), [format!("#{}", file.0)]);
    assert_eq!(
        bench
            .stat(&format!("/lost+found/#{}", file.0))
            .attributes
            .size,
        4
    );
    bench.damage(entry_key(ObjectId::ROOT, b"d"), None);
    bench.assert_mended("has no name");
    assert_eq!(
        bench.list(&format!("/lost+found/#{}", directory.0)),
        [""; 0]
    );
}

#[test]
fn counts_are_counted_again() {
    let (mut bench, directory, file) = small_tree();
    bench.damage_record(directory, |record| record.size = 7);
    bench.assert_mended("counts 7 entries");
    bench.damage_record(ObjectId::ROOT, |record| record.links = 9);
    bench.assert_mended("9 links");
    bench.damage_record(file, |record| record.links = 2);
    bench.assert_mended("counts 2 names");
    bench.damage_record(file, |record| record.size = 400);
    bench.assert_mended("bytes but 4 of content");
    bench.done(unlink("/d/f"));
    bench.done(rmdir("/d"));
}

#[test]
fn names_and_objects_agree_again() {
    let (mut bench, directory, file) = small_tree();
    // An entry without a record in its object, of a file and of a directory.
    bench.damage(entry_key(directory, b"g"), entry(file, Kind::File));
    bench.assert_mended("is unknown to the object");
    assert_eq!(bench.stat("/d/g").attributes.links, 2);
    bench.damage(
        entry_key(directory, b"d2"),
        entry(directory, Kind::Directory),
    );
    bench.assert_mended("second name of directory");
    // A further name without its entry, and one that is the first.
    bench.damage(entry_key(directory, b"g"), None);
    bench.assert_mended("is not what it names");
    bench.damage(link_key(file, directory, b"f"), Some(Vec::new()));
    bench.assert_mended("has it as its first name already");
    // The first name is missing, a further one exists.
    bench.node(Operation::HardLink {
        object: file,
        place: at("/h"),
    });
    bench.damage(entry_key(directory, b"f"), None);
    bench.assert_mended("is not what its first name names");
    assert_eq!(bench.stat("/h").attributes.links, 1);
    bench.damage(
        entry_key(ObjectId::ROOT, b"h"),
        entry(file, Kind::Directory),
    );
    bench.assert_mended("but names a File");
}

#[test]
fn directories_out_of_reach_return() {
    let mut bench = Bench::new();
    let outer = bench.node(mkdir("/outer")).object;
    let inner = bench.node(mkdir("/outer/inner")).object;
    bench.node(create("/outer/inner/f"));
    // As if both had been moved below each other.
    bench.damage(entry_key(ObjectId::ROOT, b"outer"), None);
    bench.damage(entry_key(inner, b"outer"), entry(outer, Kind::Directory));
    bench.damage_record(outer, |record| record.parent = inner);
    bench.assert_mended("lies within itself");
    let found = bench.list("/lost+found");
    assert_eq!(found.len(), 1);
    let reached = [
        format!("/lost+found/{}/inner/f", found[0]),
        format!("/lost+found/{}/f", found[0]),
    ];
    assert!(reached.iter().any(|path| bench.run(lookup(path)).is_ok()));
}

#[test]
fn leftovers_are_removed() {
    let (mut bench, directory, file) = small_tree();
    bench.damage(content_key(directory), Some(vec![1]));
    bench.damage(content_key(ObjectId(999)), Some(vec![1]));
    bench.assert_mended("content is kept for object 999");
    let removal = RemovalRecord {
        servers: vec![0],
        writes: 0,
    };
    bench.damage(removal_key(file), Some(removal.to_bytes()));
    bench.assert_mended("noted as removed but exists");
    assert_eq!(bench.service.removals(None, 9).expect("lists"), []);
}

#[test]
fn damaged_records_are_reported_and_harm_no_others() {
    let (mut bench, directory, file) = small_tree();
    bench.damage(object_key(file), Some(vec![9, 9, 9]));
    let found = bench.check(true);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("damaged"), "{found:?}");
    assert_eq!(bench.errno(lookup("/d/f")), Errno::CORRUPT);
    assert_eq!(bench.errno(unlink("/d/f")), Errno::CORRUPT);
    bench.node(create("/d/g"));
    // Its datafiles are not removed.
    let exist = Operation::Exist {
        objects: vec![file, directory],
    };
    assert_eq!(bench.run(exist), Ok(ReplyBody::Objects(vec![file])));
}

#[test]
fn a_check_continues_while_names_change() {
    let mut bench = Bench::new();
    for number in 0..600 {
        bench.node(create(&format!("/f{number:03}")));
    }
    let (mut after, mut batches) = (None, 0);
    loop {
        let checked = bench.run(Operation::Check {
            after,
            repair: true,
        });
        let Ok(ReplyBody::Checked { next, findings, .. }) = checked else {
            panic!("{checked:?}");
        };
        assert_eq!(findings, [""; 0]);
        if next.is_none() {
            break;
        }
        after = next;
        batches += 1;
        bench.done(rename(&format!("f{batches:03}"), &format!("zz{batches}")));
        bench.done(unlink(&format!("f{:03}", 599 - batches)));
        bench.node(mkdir(&format!("d{batches}")));
        bench.done(rename(
            &format!("f{:03}", 300 + batches),
            &format!("d{batches}/x"),
        ));
    }
    assert!(batches >= 4);
}

#[test]
fn a_reader_reports_damage_and_the_service_repairs_it() {
    let (mut bench, directory, _) = small_tree();
    let reader = bench.service.reader();
    let check = bench.request(Operation::Check {
        after: None,
        repair: true,
    });
    assert!(reader.answer(&check).is_some());
    bench.damage(
        entry_key(directory, b"ghost"),
        entry(ObjectId(999), Kind::File),
    );
    assert!(reader.answer(&check).is_none());
    let nonsense = bench.errno(Operation::Check {
        after: Some(CheckCursor {
            phase: 0,
            key: b"x".to_vec(),
        }),
        repair: false,
    });
    assert_eq!(nonsense, Errno::EINVAL);
}

/// More records than several batches hold, in every phase of the check.
#[test]
fn a_check_ends_with_any_number_of_records() {
    for files in [0, 1, 255, 256, 257, 1000] {
        let mut bench = Bench::new();
        bench.node(mkdir("/d"));
        let names: Vec<String> = (0..files).map(|number| format!("/d/f{number}")).collect();
        for name in &names {
            bench.node(Operation::Create {
                place: at(name),
                exclusive: true,
                mode: 0o644,
                distribution: None,
                content: b"content".to_vec(),
            });
        }
        for repair in [false, true] {
            assert_eq!(bench.check(repair), [""; 0], "{files} files");
        }
        // Everything wrong at once: the directory, and with it every name, is gone.
        if files > 0 {
            let directory = bench.stat("/d").object;
            bench.damage(object_key(directory), None);
            assert!(bench.check(false).len() >= files, "{files} files");
            bench.check(true);
            bench.check(true);
            assert_eq!(bench.check(false), [""; 0], "{files} files");
            assert_eq!(bench.list("/lost+found").len(), files, "{files} files");
        }
    }
}

#[test]
fn a_cursor_of_another_check_is_refused() {
    let (mut bench, directory, _) = small_tree();
    for (phase, key) in [
        (0, object_key(directory)),
        (9, entry_key(directory, b"f")),
        (1, Vec::new()),
    ] {
        let after = Some(CheckCursor { phase, key });
        for repair in [false, true] {
            let operation = Operation::Check {
                after: after.clone(),
                repair,
            };
            assert_eq!(bench.errno(operation), Errno::EINVAL, "{after:?}");
        }
    }
}
