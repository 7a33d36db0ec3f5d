//! Every interleaving of an export's end with a copy that reads the memory, explored by a model checker;
//! see `model`.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::thread;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::regions::{close_to_readers, is_open};

const KEY: u64 = 7;
const EXPORTED: u64 = 1;
const REUSED: u64 = 2;

struct Shared {
    entry: AtomicU64,
    /// The memory: relaxed, so that only the protocol orders it.
    words: [AtomicU64; 2],
}

/// The owner ends the export and uses the memory for something else, while the reader copies; `counts` returns
/// whether the reader accepts its copy as the exported bytes.
fn explore(counts: fn(&Shared) -> bool) {
    loom::model(move || {
        let shared = Arc::new(Shared {
            entry: AtomicU64::new(KEY),
            words: std::array::from_fn(|_| AtomicU64::new(EXPORTED)),
        });
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                if shared.entry.load(Acquire) != KEY {
                    return;
                }
                let read = [&shared.words[1], &shared.words[0]].map(|word| word.load(Relaxed));
                if counts(&shared) {
                    assert_eq!(read, [EXPORTED; 2], "read after the export's end");
                }
            })
        };
        close_to_readers(&shared.entry);
        for word in &shared.words {
            word.store(REUSED, Relaxed);
        }
        reader.join().expect("the reader does not panic");
    });
}

#[test]
fn loom_bytes_read_after_the_end_of_an_export_are_discarded() {
    explore(|shared| is_open(&shared.entry, KEY));
}

/// A reader that does not check again is caught.
#[test]
#[should_panic]
fn loom_a_reader_that_does_not_check_again_is_caught() {
    explore(|_| true);
}

/// So is a reader whose second check may come before the end of its copy.
#[test]
#[should_panic]
fn loom_a_reader_that_checks_too_early_is_caught() {
    explore(|shared| shared.entry.load(Relaxed) == KEY);
}
