//! Keys of what programs attach to objects (MPI 5.0 §7.7.2).

use std::collections::BTreeMap;
use std::ffi::c_int;

use causeway_mpi::abi;
use causeway_mpi::error::{Error, Result};

/// The first key of the program's.
pub(crate) const FIRST_KEY: c_int = 0x1000;

/// What a key's values are attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Communicator,
    Window,
    Datatype,
}

/// A key: addresses of the program's functions, or the constants that stand for predefined ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    /// Called for each attribute of an object that is duplicated.
    pub(crate) copy: usize,
    /// Called for each attribute that is deleted.
    pub(crate) delete: usize,
    /// Both functions get it.
    pub(crate) extra: usize,
}

/// A key, and the number of objects that have a value for it.
#[derive(Debug)]
struct Kept {
    key: Key,
    /// How many objects have a value for it.
    values: usize,
    /// The program has freed it: it stays for the values that there are.
    is_freed: bool,
}

/// The keys of the program.
#[derive(Debug)]
pub(crate) struct Keys {
    kept: BTreeMap<c_int, Kept>,
    /// The key that is made next.
    next: c_int,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            kept: BTreeMap::new(),
            next: FIRST_KEY,
        }
    }
}

fn none(number: c_int) -> Error {
    let text = format!("{number} is no attribute key for this kind of object");
    Error::new(abi::ERR_KEYVAL, text)
}

impl Keys {
    /// Adds a key; returns its number.
    pub(crate) fn add(&mut self, key: Key) -> Result<c_int> {
        let number = self.next;
        self.next = number
            .checked_add(1)
            .ok_or_else(|| Error::new(abi::ERR_NO_MEM, "all numbers of keys were used"))?;
        let kept = Kept {
            key,
            values: 0,
            is_freed: false,
        };
        self.kept.insert(number, kept);
        Ok(number)
    }

    /// The key of a number, of objects of this kind.
    pub(crate) fn get(&self, number: c_int, kind: Kind) -> Result<Key> {
        let found = self.kept.get(&number).map(|kept| kept.key);
        found
            .filter(|key| key.kind == kind)
            .ok_or_else(|| none(number))
    }

    /// Frees a key. A key that stays for the values that there are can be freed again, as by a delete function that frees
    /// the key it gets.
    pub(crate) fn free(&mut self, number: c_int, kind: Kind) -> Result<()> {
        self.get(number, kind)?;
        let kept = self.kept.get_mut(&number).ok_or_else(|| none(number))?;
        kept.is_freed = true;
        self.forget_unused(number);
        Ok(())
    }

    /// The keys that the program has not freed.
    pub(crate) fn not_freed(&self) -> impl Iterator<Item = c_int> {
        let kept = self.kept.iter().filter(|(_, kept)| !kept.is_freed);
        kept.map(|(number, _)| *number)
    }

    /// So many objects more have a value for it.
    pub(crate) fn count(&mut self, number: c_int, more: isize) {
        if let Some(kept) = self.kept.get_mut(&number) {
            kept.values = kept.values.saturating_add_signed(more);
        }
        self.forget_unused(number);
    }

    fn forget_unused(&mut self, number: c_int) {
        let kept = self.kept.get(&number);
        if kept.is_some_and(|kept| kept.is_freed && kept.values == 0) {
            self.kept.remove(&number);
        }
    }
}

/// The memory to which the values of a window's predefined attributes point.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) size: i64,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}
