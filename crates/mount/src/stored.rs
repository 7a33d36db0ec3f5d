//! Stored bytes of files with holes, as the I/O servers have reported them. The kernel requests attributes before each read from its cache: a
//! file's I/O servers are asked only if the file has changed since, and are left alone for a while after one has failed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use causeway_fs::Error;
use causeway_wire::fs::{Body, Node, ObjectId, Timestamp};

/// Most files that are remembered.
const MAX_FILES: usize = 4096;
/// How long no I/O server is asked after one has failed: each request to a server that does not reply takes the time-out.
const PAUSE: Duration = Duration::from_secs(30);

/// Replies of the I/O servers.
#[derive(Debug, Default)]
pub(crate) struct StoredBytes {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// For each file, its time of change before the request, and the stored bytes.
    files: HashMap<ObjectId, (Timestamp, u64)>,
    failed: Option<Instant>,
}

impl StoredBytes {
    /// The stored bytes of an object's content; `ask` asks the I/O servers. If one fails, it is the size.
    pub(crate) fn of(&self, node: &Node, ask: impl FnOnce() -> Result<u64, Error>) -> u64 {
        self.at(Instant::now(), node, ask)
    }

    fn at(&self, now: Instant, node: &Node, ask: impl FnOnce() -> Result<u64, Error>) -> u64 {
        let size = node.attributes.size;
        match node.body {
            Body::Striped { sparse: true, .. } => {}
            Body::Striped { .. } | Body::Stuffed { .. } => return size,
            Body::Directory(_) | Body::Link(_) | Body::Special { .. } => return 0,
        }
        let (object, changed) = (node.object, node.attributes.changed);
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.files.get(&object) {
                Some((at, stored)) if *at == changed => return *stored,
                _ => {}
            }
            let pauses = |failed: Instant| now.saturating_duration_since(failed) < PAUSE;
            if known.failed.is_some_and(pauses) {
                return size;
            }
        }
        // Other threads go on meanwhile.
        let answer = ask();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match answer {
            Ok(stored) => {
                if known.files.len() >= MAX_FILES && !known.files.contains_key(&object) {
                    known.files.clear();
                }
                known.files.insert(object, (changed, stored));
                stored
            }
            Err(error) => {
                tracing::warn!(
                    "{error}; st_blocks of files with holes that have changed shows their sizes for {} s",
                    PAUSE.as_secs()
                );
                known.files.remove(&object);
                known.failed = Some(now);
                size
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::fs::{Attributes, Distribution, Errno, Kind};

    use super::*;

    fn node(object: u64, sparse: bool, changed: i64) -> Node {
        let time = |seconds| Timestamp {
            seconds,
            ..Timestamp::default()
        };
        Node {
            object: ObjectId(object),
            attributes: Attributes {
                kind: Kind::File,
                mode: 0o644,
                uid: 0,
                gid: 0,
                links: 1,
                size: 1000,
                accessed: time(0),
                modified: time(0),
                changed: time(changed),
            },
            body: Body::Striped {
                distribution: Distribution {
                    strip_size: 65536,
                    servers: vec![0],
                },
                version: 0,
                truncating: None,
                lengths: Vec::new(),
                sparse,
            },
            acl: None,
        }
    }

    fn never() -> Result<u64, Error> {
        panic!("asked")
    }

    #[test]
    fn servers_are_asked_once_for_each_change() {
        let all = StoredBytes::default();
        assert_eq!(all.of(&node(1, false, 0), never), 1000);
        assert_eq!(all.of(&node(1, true, 1), || Ok(10)), 10);
        assert_eq!(all.of(&node(1, true, 1), never), 10);
        assert_eq!(all.of(&node(1, true, 2), || Ok(20)), 20);
        assert_eq!(all.of(&node(1, true, 2), never), 20);
        // As many files are kept as the limit permits, however many there are.
        for object in 0..3 * MAX_FILES as u64 {
            assert_eq!(all.of(&node(object, true, 3), || Ok(object)), object);
            assert_eq!(all.of(&node(object, true, 3), never), object);
            assert!(all.known.lock().unwrap().files.len() <= MAX_FILES);
        }
    }

    #[test]
    fn a_server_that_fails_is_not_asked_again_at_once() {
        let (all, now) = (StoredBytes::default(), Instant::now());
        assert_eq!(all.at(now, &node(1, true, 1), || Ok(10)), 10);
        let fails = || {
            Err(Error {
                operation: "measure",
                server: None,
                subject: "object 2".into(),
                errno: Errno::ETIMEDOUT,
                message: "no answer".into(),
            })
        };
        assert_eq!(all.at(now, &node(2, true, 1), fails), 1000);
        assert_eq!(all.at(now, &node(1, true, 1), never), 10);
        for object in 1..3 {
            assert_eq!(all.at(now, &node(object, true, 2), never), 1000);
        }
        let later = now + PAUSE;
        assert_eq!(all.at(later, &node(2, true, 2), || Ok(20)), 20);
    }
}
