//! Ends a store's changes of files after any step, as a kill does, and records them, for tests.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

thread_local! {
    /// Steps that may still be done; none are counted without it.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// The next step fails.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    static RECORD: RefCell<Option<Vec<Change>>> = const { RefCell::new(None) };
}

/// A change of a file.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Put(u64, Vec<u8>),
    SetLen(u64),
    /// A part became a hole: where, and how many bytes.
    Free(u64, u64),
    /// What came before is durable.
    Synced,
}

/// Lets this many steps of the thread be done; all later ones fail.
pub(super) fn kill_after(steps: u64) {
    LEFT.set(Some(steps));
}

/// Lets all steps be done again; returns whether any failed.
pub(super) fn revive() -> bool {
    LEFT.take() == Some(0)
}

/// Lets the thread's next step fail, and no later one.
pub(super) fn fail_one() {
    FAILS.set(true);
}

/// Records the thread's changes from now on.
pub(super) fn record() {
    RECORD.set(Some(Vec::new()));
}

/// The changes since [`record`].
pub(super) fn recorded() -> Vec<Change> {
    RECORD.take().unwrap_or_default()
}

fn step(change: impl FnOnce() -> Change) -> io::Result<()> {
    if FAILS.take() {
        return Err(io::Error::other("failed once"));
    }
    match LEFT.get() {
        Some(0) => return Err(io::Error::other("killed")),
        Some(left) => LEFT.set(Some(left - 1)),
        None => {}
    }
    note(change);
    Ok(())
}

/// Writes page by page: each is a step.
pub(super) fn put(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let page = (4096 - offset % 4096).min(bytes.len() as u64);
        let (now, rest) = bytes.split_at(page as usize);
        step(|| Change::Put(offset, now.to_vec()))?;
        file.write_all_at(now, offset)?;
        bytes = rest;
        offset += page;
    }
    Ok(())
}

pub(super) fn set_len(file: &File, len: u64) -> io::Result<()> {
    step(|| Change::SetLen(len))?;
    file.set_len(len)
}

pub(super) fn free(offset: u64, len: u64) -> io::Result<()> {
    step(|| Change::Free(offset, len))
}

pub(super) fn synced() {
    note(|| Change::Synced);
}

fn note(change: impl FnOnce() -> Change) {
    RECORD.with_borrow_mut(|record| {
        if let Some(all) = record {
            all.push(change());
        }
    });
}
