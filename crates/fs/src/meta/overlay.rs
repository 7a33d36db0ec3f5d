//! The state that a batch of requests sees: the store's, with the batch's changes on top.

use std::collections::btree_map;
use std::iter::Peekable;

use super::store::{Batch, Pair, Pairs, StoreError, View, range_of};

/// A view with changes on top, of which the last request's can be undone.
pub(super) struct Overlay {
    base: Box<dyn View>,
    changes: Batch,
    /// The previous values in `changes` of the keys changed since [`Overlay::begin`], oldest first.
    undo: Vec<(Vec<u8>, Option<Changed>)>,
}

/// A key's new value; `None` removes the key.
type Changed = Option<Vec<u8>>;

impl Overlay {
    pub(super) fn new(base: Box<dyn View>) -> Self {
        Self {
            base,
            changes: Batch::new(),
            undo: Vec::new(),
        }
    }

    /// Starts a request: [`Overlay::roll_back`] returns to here.
    pub(super) fn begin(&mut self) {
        self.undo.clear();
    }

    /// Undoes all changes since [`Overlay::begin`].
    pub(super) fn roll_back(&mut self) {
        while let Some((key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.changes.insert(key, value),
                None => self.changes.remove(&key),
            };
        }
    }

    /// The keys that were changed since [`Overlay::begin`]; some may be among them twice.
    pub(super) fn changed(&self) -> impl Iterator<Item = &[u8]> {
        self.undo.iter().map(|(key, _)| key.as_slice())
    }

    pub(super) fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.change(key, Some(value));
    }

    pub(super) fn remove(&mut self, key: Vec<u8>) {
        self.change(key, None);
    }

    fn change(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let before = self.changes.insert(key.clone(), value);
        self.undo.push((key, before));
    }

    /// The changes to be committed.
    pub(super) fn into_changes(self) -> Batch {
        self.changes
    }
}

impl View for Overlay {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.base.get(key),
        }
    }

    fn range<'a>(&'a self, start: &[u8], end: &[u8]) -> Pairs<'a> {
        Box::new(Merged {
            base: self.base.range(start, end).peekable(),
            changes: range_of(&self.changes, start, end).peekable(),
        })
    }
}

/// Walks the base and the changes together; where both have a key, the change counts.
struct Merged<'a> {
    base: Peekable<Pairs<'a>>,
    changes: Peekable<btree_map::Range<'a, Vec<u8>, Option<Vec<u8>>>>,
}

impl Iterator for Merged<'_> {
    type Item = Result<Pair, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((changed, _)) = self.changes.peek() else {
                return self.base.next();
            };
            match self.base.peek() {
                Some(Err(_)) => return self.base.next(),
                Some(Ok((key, _))) if key < *changed => return self.base.next(),
                Some(Ok((key, _))) if key == *changed => {
                    self.base.next();
                }
                _ => {}
            }
            if let Some((key, Some(value))) = self.changes.next() {
                return Some(Ok((key.clone(), value.clone())));
            }
        }
    }
}
