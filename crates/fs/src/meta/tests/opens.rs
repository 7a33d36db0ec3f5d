//! Files that are open while they lose their names.

use std::sync::atomic::{AtomicBool, Ordering};

use causeway_wire::store::{OrphanRecord, object_key, orphan_key};

use super::super::store::{Batch, FreeSpace, Persist, View};
use super::*;
use causeway_wire::codec::Wire as _;

impl Bench {
    pub(super) fn opened(
        &mut self,
        session: u128,
        handle: u64,
        operation: Operation,
    ) -> Result<Node, Errno> {
        self.now += 1;
        let request = Request {
            opening: Some(Opening {
                session,
                handle,
                closed: Vec::new(),
            }),
            ..self.request(operation)
        };
        let opens = self.service.opens();
        opens.know(session);
        opens.begin(session, handle);
        let reply = match self.service.reader().answer(&request) {
            Some(reply) => reply,
            None => self.service.apply(&[request], self.time()).remove(0),
        };
        match reply.result {
            Ok(ReplyBody::Node(node)) => Ok(*node),
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.errno),
        }
    }

    fn close(&mut self, session: u128, handle: u64) {
        self.service.opens().close(session, &[handle]);
        self.sweep();
    }

    /// What the server does after a close.
    fn sweep(&mut self) -> usize {
        let released = self.service.opens().take_released(100);
        let time = self.time();
        self.service.remove_orphans(&released, time).expect("works")
    }

    fn objects(&mut self) -> u64 {
        match self.run(Operation::MetadataStatus) {
            Ok(ReplyBody::MetadataStatus { objects, .. }) => objects,
            other => panic!("{other:?}"),
        }
    }

    fn content(&mut self, object: ObjectId) -> Result<Vec<u8>, Errno> {
        let operation = Operation::GetNode {
            object,
            content: true,
        };
        match self.run(operation) {
            Ok(ReplyBody::Node(node)) => match node.body {
                Body::Stuffed { content, .. } => Ok(content.unwrap_or_default()),
                body => panic!("{body:?}"),
            },
            Ok(other) => panic!("{other:?}"),
            Err(failure) => Err(failure.errno),
        }
    }
}

fn with_content(path: &str, content: &[u8]) -> Operation {
    match create(path) {
        Operation::Create {
            place,
            exclusive,
            mode,
            distribution,
            ..
        } => Operation::Create {
            place,
            exclusive,
            mode,
            distribution,
            content: content.to_vec(),
        },
        other => other,
    }
}

#[test]
fn an_open_file_outlives_its_names_until_the_last_close() {
    let mut bench = Bench::new();
    let object = bench
        .opened(1, 1, with_content("/f", b"abc"))
        .expect("creates")
        .object;
    assert_eq!(
        bench.opened(2, 1, lookup("/f")).expect("opens").object,
        object
    );
    bench.node(Operation::HardLink {
        object,
        place: at("/g"),
    });
    bench.done(unlink("/f"));
    bench.done(unlink("/g"));
    assert_eq!(bench.errno(lookup("/f")), Errno::ENOENT);
    // It can be read and written, has no link, and gets no new one.
    let node = bench.node(Operation::WriteStuffed {
        object,
        offset: 3,
        data: b"def".to_vec(),
    });
    assert_eq!(node.attributes.links, 0);
    assert_eq!(
        bench.errno(Operation::HardLink {
            object,
            place: at("/h")
        }),
        Errno::ENOENT
    );
    assert_eq!(bench.content(object), Ok(b"abcdef".to_vec()));
    // A check finds nothing wrong with it, and it has no path.
    assert_eq!(bench.check(true), [""; 0]);
    let paths = bench.run(Operation::Paths {
        objects: vec![object],
    });
    assert_eq!(paths, Ok(ReplyBody::Paths(Vec::new())));
    assert_eq!(bench.objects(), 2);
    bench.close(1, 1);
    assert_eq!(bench.content(object), Ok(b"abcdef".to_vec()));
    bench.close(2, 1);
    assert_eq!(bench.content(object), Err(Errno::ESTALE));
    assert_eq!(bench.objects(), 1);
    assert_eq!(bench.check(true), [""; 0]);
}

#[test]
fn a_replaced_file_stays_for_those_that_have_it_open() {
    let mut bench = Bench::new();
    bench.node(with_content("/new", b"new"));
    let old = bench
        .opened(1, 1, with_content("/old", b"old"))
        .expect("creates")
        .object;
    bench.done(Operation::Rename {
        from: at("/new"),
        to: at("/old"),
        no_replace: false,
    });
    assert_eq!(bench.content(old), Ok(b"old".to_vec()));
    // Opened by its number, another time.
    let get = Operation::GetNode {
        object: old,
        content: false,
    };
    assert_eq!(bench.opened(2, 7, get).expect("opens").attributes.links, 0);
    bench.close(1, 1);
    assert_eq!(bench.content(old), Ok(b"old".to_vec()));
    bench.close(2, 7);
    // A program may have looked its name up before.
    for others in [true, false] {
        assert_eq!(bench.content(old), Ok(b"old".to_vec()));
        assert_eq!(bench.service.opens().end_period(), others);
        bench.sweep();
    }
    assert_eq!(bench.content(old), Err(Errno::ESTALE));
    // A file that no program has open is removed at once.
    let new = bench.stat("/old").object;
    bench.done(unlink("/old"));
    assert_eq!(bench.content(new), Err(Errno::ESTALE));
    assert_eq!(bench.check(true), [""; 0]);
}

/// A store on a disk that may be nearly full: then there is room for removals alone.
struct Tight {
    inner: Arc<Memory>,
    is_full: Arc<AtomicBool>,
}

impl Store for Tight {
    fn name(&self) -> &'static str {
        "tight"
    }

    fn snapshot(&self) -> Result<Box<dyn View>, StoreError> {
        self.inner.snapshot()
    }

    fn commit(&self, batch: &Batch, persist: Persist) -> Result<(), StoreError> {
        self.inner.commit(batch, persist)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn room(&self, _reserve: u64) -> FreeSpace {
        match self.is_full.load(Ordering::Relaxed) {
            true => FreeSpace::Removals("nearly full".to_owned()),
            false => FreeSpace::Enough,
        }
    }
}

/// So no file that is replaced on such a disk stays; files that stayed before are removed when their time is
/// over, which frees their space.
#[test]
fn nothing_is_replaced_where_the_disk_is_nearly_full() {
    let mut bench = Bench::new();
    let is_full = Arc::new(AtomicBool::new(false));
    let (inner, shared) = (bench.store.clone(), is_full.clone());
    let open = move || -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Tight {
            inner: inner.clone(),
            is_full: shared.clone(),
        }))
    };
    bench.service = Service::with_opener(Box::new(open), Settings::default()).expect("opens");
    // It may be about to open the file that is replaced.
    bench.service.opens().know(1);
    bench.node(with_content("/name", b"old"));
    bench.node(with_content("/new", b"new"));
    bench.node(with_content("/newer", b"newer"));
    let old = bench.stat("/name").object;
    let rename = |from: &str| Operation::Rename {
        from: at(from),
        to: at("/name"),
        no_replace: false,
    };
    bench.done(rename("/new"));
    assert_eq!(bench.content(old), Ok(b"old".to_vec()));
    is_full.store(true, Ordering::Relaxed);
    let new = bench.stat("/name").object;
    assert_eq!(bench.errno(rename("/newer")), Errno::ENOSPC);
    assert_eq!(bench.stat("/name").object, new);
    let objects = bench.objects();
    assert!(bench.service.opens().end_period());
    assert!(!bench.service.opens().end_period());
    assert_eq!(bench.sweep(), 1);
    assert_eq!(bench.content(old), Err(Errno::ESTALE));
    // A file that is removed, not replaced, does not stay.
    bench.done(unlink("/name"));
    assert_eq!(bench.content(new), Err(Errno::ESTALE));
    assert_eq!(bench.objects(), objects - 2);
    is_full.store(false, Ordering::Relaxed);
    bench.done(rename("/newer"));
    assert_eq!(bench.check(true), [""; 0]);
}

#[test]
fn what_fails_opens_nothing() {
    let mut bench = Bench::with(Settings {
        open_files: 1,
        ..Settings::default()
    });
    assert_eq!(bench.opened(1, 1, lookup("/f")), Err(Errno::ENOENT));
    bench.opened(1, 1, create("/f")).expect("creates");
    assert_eq!(bench.opened(1, 2, lookup("/f")), Err(Errno::EMFILE));
    assert_eq!(bench.opened(1, 2, create("/g")), Err(Errno::EMFILE));
    // It was not made either.
    assert_eq!(bench.errno(lookup("/g")), Errno::ENOENT);
    assert_eq!(bench.check(true), [""; 0]);
    bench.close(1, 1);
    bench.opened(1, 2, create("/g")).expect("creates");
    // Directories are not kept.
    bench.close(1, 2);
    bench.node(mkdir("/d"));
    bench.opened(1, 3, lookup("/d")).expect("finds");
    assert!(bench.service.opens().is_empty());
}

/// A program is killed while its request waits for the commit.
#[test]
fn a_request_of_a_program_that_has_ended_opens_nothing() {
    let mut bench = Bench::new();
    let request = Request {
        opening: Some(Opening {
            session: 1,
            handle: 1,
            closed: Vec::new(),
        }),
        ..bench.request(create("/f"))
    };
    let opens = Arc::clone(bench.service.opens());
    opens.know(1);
    opens.begin(1, 1);
    opens.end(1);
    let reply = bench.service.apply(&[request], bench.time()).remove(0);
    let Ok(ReplyBody::Node(node)) = reply.result else {
        panic!("{reply:?}");
    };
    assert!(opens.is_empty());
    bench.done(unlink("/f"));
    assert_eq!(bench.content(node.object), Err(Errno::ESTALE));
    assert_eq!(bench.objects(), 1);
}

/// After `open_files` was lowered, or with a damaged record, all others are kept.
#[test]
fn files_that_cannot_be_kept_do_not_hinder_others() {
    let mut bench = Bench::with(Settings {
        open_files: 2,
        ..Settings::default()
    });
    let files: Vec<OpenHandle> = (1..=4)
        .map(|handle| OpenHandle {
            handle,
            object: bench.node(create(&format!("/{handle}"))).object,
        })
        .collect();
    let damaged = Batch::from([(object_key(files[0].object), Some(vec![0xff]))]);
    bench
        .store
        .commit(&damaged, Persist::Power)
        .expect("commits");
    let opens = Arc::clone(bench.service.opens());
    opens.know(1);
    let kept = bench.service.reader().keep(1, &files);
    assert_eq!(kept.map_err(|failure| failure.errno), Err(Errno::CORRUPT));
    bench.done(unlink("/2"));
    bench.done(unlink("/3"));
    assert!(bench.content(files[1].object).is_ok());
    assert!(bench.content(files[2].object).is_ok());
    // Once some are closed, there is room for the rest.
    bench.close(1, 2);
    let kept = bench.service.reader().keep(1, &files[2..]);
    assert_eq!(kept, Ok(Vec::new()));
    bench.done(unlink("/4"));
    assert!(bench.content(files[3].object).is_ok());
}

/// The record of an orphan is durable, so that a restarted server finds the orphans.
#[test]
fn orphans_outlive_a_restart() {
    let mut bench = Bench::new();
    let object = bench
        .opened(1, 1, with_content("/f", b"abc"))
        .expect("creates")
        .object;
    let reclaimed = bench.opened(1, 2, create("/kept")).expect("creates").object;
    bench.done(unlink("/f"));
    bench.done(unlink("/kept"));
    let store = bench.store.clone();
    let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
    bench.service =
        Service::with_opener(Box::new(open), bench.service.settings().clone()).expect("opens");
    bench.service.opens().keep_all(true);
    let kept = OpenHandle {
        handle: 2,
        object: reclaimed,
    };
    let gone = OpenHandle {
        handle: 3,
        object: ObjectId(999),
    };
    bench.service.opens().know(1);
    let keep = bench.service.reader().keep(1, &[kept, gone]);
    assert_eq!(keep, Ok(vec![gone.object]));
    // In the meantime, files that lose their names are kept, as they may be open.
    let unknown = bench.node(create("/unknown")).object;
    bench.done(unlink("/unknown"));
    let all = bench.service.orphans(None, 10).expect("lists");
    assert_eq!(all, [object, reclaimed, unknown]);
    let time = bench.time();
    assert_eq!(bench.service.remove_orphans(&all, time), Ok(0));
    bench.service.opens().keep_all(false);
    assert_eq!(bench.service.remove_orphans(&all, time), Ok(2));
    assert_eq!(bench.service.orphans(None, 10), Ok(vec![reclaimed]));
    assert_eq!(bench.content(object), Err(Errno::ESTALE));
    bench.close(1, 2);
    assert_eq!(bench.objects(), 1);
    assert_eq!(bench.check(true), [""; 0]);
}

#[test]
fn a_mark_says_whether_programs_may_have_files_open() {
    let mut bench = Bench::new();
    let is_marked = |bench: &Bench| {
        let store = bench.store.clone();
        let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
        let again = Service::with_opener(Box::new(open), bench.service.settings().clone());
        again.expect("opens").opens().is_marked()
    };
    assert!(!is_marked(&bench));
    bench.service.mark_programs(true).expect("marks");
    assert!(bench.service.opens().is_marked() && is_marked(&bench));
    bench.service.mark_programs(false).expect("marks");
    assert!(!is_marked(&bench));
}

#[test]
fn checks_find_records_of_orphans_that_fit_nothing() {
    let mut bench = Bench::new();
    let named = bench.node(create("/named")).object;
    let orphan = bench
        .opened(1, 1, create("/orphan"))
        .expect("creates")
        .object;
    bench.done(unlink("/orphan"));
    let put = |object: ObjectId, value: Option<Vec<u8>>| {
        let batch = Batch::from([(orphan_key(object), value)]);
        bench.store.commit(&batch, Persist::Power).expect("commits");
    };
    let record = OrphanRecord {
        since: Timestamp::default(),
    };
    put(ObjectId(777), Some(record.to_bytes()));
    put(named, Some(record.to_bytes()));
    let found = bench.check(true);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("has a name") && found[1].contains("does not exist"));
    assert_eq!(bench.check(true), [""; 0]);
    // Without its record, an orphan is an object that has lost its name.
    let batch = Batch::from([(orphan_key(orphan), None)]);
    bench.store.commit(&batch, Persist::Power).expect("commits");
    let found = bench.check(true);
    assert!(found[0].contains("has no name"), "{found:?}");
    let name = format!("/lost+found/#{}", orphan.0);
    assert_eq!(bench.stat(&name).attributes.links, 1);
    assert_eq!(bench.check(true), [""; 0]);
    assert!(
        bench
            .store
            .snapshot()
            .expect("reads")
            .get(&object_key(orphan))
            .expect("reads")
            .is_some()
    );
}
