//! The service against a store in memory: semantics, permissions, sessions, checks.

use std::sync::Arc;

use causeway_wire::fs::*;

use super::store::memory::Memory;
use super::store::{Store, StoreError};
use super::{Removal, Service, Settings};

mod acls;
mod check;
mod contents;
mod durability;
mod failed_syncs;
mod faults;
mod names;
mod opens;
mod permissions;
mod sessions;
mod xattrs;

/// A service with a client.
pub(super) struct Bench {
    pub(super) service: Service,
    pub(super) store: Arc<Memory>,
    pub(super) caller: Caller,
    pub(super) now: i64,
}

pub(super) const USER: u32 = 1000;

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(Settings {
            io_servers: (0..4).map(|number| format!("io{number}")).collect(),
            ..Settings::default()
        })
    }

    pub(super) fn with(settings: Settings) -> Self {
        let store = Arc::new(Memory::new());
        let handle = store.clone();
        let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(handle.clone()) };
        Self {
            service: Service::with_opener(Box::new(open), settings).expect("opens"),
            store,
            caller: Caller::default(),
            now: 1_000_000,
        }
    }

    pub(super) fn be(&mut self, uid: u32, gid: u32, groups: &[u32]) {
        self.caller = Caller {
            uid,
            gid,
            groups: groups.to_vec(),
            umask: 0,
        };
    }

    pub(super) fn request(&self, operation: Operation) -> Request {
        Request {
            reply_tag: 0,
            target: Target::default(),
            client: 7,
            slot: 0,
            sequence: 0,
            caller: self.caller.clone(),
            capability: None,
            opening: None,
            holder: None,
            operation,
        }
    }

    pub(super) fn time(&self) -> Timestamp {
        Timestamp {
            seconds: self.now,
            nanoseconds: 5,
        }
    }

    /// One operation, a second after the last one.
    pub(super) fn run(&mut self, operation: Operation) -> Result<ReplyBody, Failure> {
        self.now += 1;
        let request = self.request(operation);
        let mut replies = self.service.apply(&[request], self.time());
        replies.remove(0).result
    }

    pub(super) fn errno(&mut self, operation: Operation) -> Errno {
        match self.run(operation) {
            Ok(reply) => panic!("succeeded: {reply:?}"),
            Err(failure) => failure.errno,
        }
    }

    pub(super) fn node(&mut self, operation: Operation) -> Node {
        match self.run(operation) {
            Ok(ReplyBody::Node(node)) => *node,
            other => panic!("no node: {other:?}"),
        }
    }

    pub(super) fn done(&mut self, operation: Operation) {
        assert_eq!(self.run(operation), Ok(ReplyBody::Done));
    }

    pub(super) fn stat(&mut self, path: &str) -> Node {
        self.node(lookup(path))
    }

    pub(super) fn list(&mut self, path: &str) -> Vec<String> {
        let object = self.stat(path).object;
        let (mut names, mut after) = (Vec::new(), Vec::new());
        loop {
            let listing = self.run(Operation::ReadDirectory {
                object,
                after,
                limit: 3,
                attributes: true,
            });
            let Ok(ReplyBody::Entries { entries, end }) = listing else {
                panic!("no listing: {listing:?}");
            };
            after = entries
                .last()
                .map(|entry| entry.name.clone())
                .unwrap_or_default();
            let new = entries
                .into_iter()
                .map(|entry| String::from_utf8_lossy(&entry.name).into());
            names.extend(new);
            if end {
                return names;
            }
        }
    }

    /// Checks everything, and returns what was found.
    pub(super) fn check(&mut self, repair: bool) -> Vec<String> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            match self.run(Operation::Check {
                after: after.clone(),
                repair,
            }) {
                Ok(ReplyBody::Checked { next, findings, .. }) => {
                    all.extend(findings);
                    if next.is_none() {
                        return all;
                    }
                    assert!(next > after, "the check does not proceed");
                    after = next;
                }
                other => panic!("no check: {other:?}"),
            }
        }
    }
}

pub(super) fn at(path: &str) -> Place {
    Place {
        base: ObjectId::ROOT,
        path: path.as_bytes().to_vec(),
    }
}

pub(super) fn lookup(path: &str) -> Operation {
    Operation::Lookup {
        place: at(path),
        follow: false,
        content: false,
    }
}

pub(super) fn create(path: &str) -> Operation {
    Operation::Create {
        place: at(path),
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: Vec::new(),
    }
}

pub(super) fn mkdir(path: &str) -> Operation {
    Operation::MakeDirectory {
        place: at(path),
        mode: 0o755,
        distribution: None,
    }
}

pub(super) fn unlink(path: &str) -> Operation {
    Operation::Unlink {
        place: at(path),
        expected: None,
    }
}

pub(super) fn rmdir(path: &str) -> Operation {
    Operation::RemoveDirectory {
        place: at(path),
        expected: None,
    }
}

pub(super) fn symlink(target: &str, path: &str) -> Operation {
    Operation::SymbolicLink {
        place: at(path),
        target: target.as_bytes().to_vec(),
    }
}

pub(super) fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename {
        from: at(from),
        to: at(to),
        no_replace: false,
    }
}
