//! Tables whose entries are named by index and generation.

use std::ops::IndexMut;

use crate::lists::NONE;

/// A table. A key is the generation (upper half, never 0) and the index; an index alone names the
/// entry that is there now.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

#[repr(C)]
struct Entry<T> {
    generation: u32,
    /// The next free entry, or [`IN_USE`].
    next_free: u32,
    /// What is left from the last use, or a blank, if the entry is free.
    value: T,
}

#[inline(always)]
fn key(generation: u32, index: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(index)
}

/// What an entry in use has for its next free one.
const IN_USE: u32 = u32::MAX - 1;

impl<T> Entry<T> {
    #[inline]
    fn is_in_use(&self) -> bool {
        self.next_free == IN_USE
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            len: 0,
        }
    }
}

impl<T: Default> Slab<T> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry. Returns its index.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.free = std::mem::replace(&mut entry.next_free, IN_USE);
        entry.value = value;
        index
    }

    /// Adds an entry whose value is left from one that was [vacated](Slab::vacate), or blank. Returns its key, and the
    /// entry.
    #[inline(always)]
    pub(crate) fn reuse(&mut self) -> (u64, &mut T) {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.len += 1;
        self.free = std::mem::replace(&mut entry.next_free, IN_USE);
        (key(entry.generation, index), &mut entry.value)
    }

    /// Frees an entry without dropping its value, which [`Slab::reuse`] finds again; its key is stale
    /// from now on.
    #[inline(always)]
    pub(crate) fn vacate(&mut self, index: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize)
            && entry.is_in_use()
        {
            entry.generation = entry.generation.wrapping_add(1).max(1);
            entry.next_free = self.free;
            self.free = index;
            self.len -= 1;
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.free = self.entries.len() as u32;
        self.entries.push(Entry {
            generation: 1,
            next_free: NONE,
            value: T::default(),
        });
    }

    /// Takes an entry out; its key is stale from now on.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        if !entry.is_in_use() {
            return None;
        }
        let value = std::mem::take(&mut entry.value);
        // 0 is skipped so that no key is 0.
        entry.generation = entry.generation.wrapping_add(1).max(1);
        entry.next_free = self.free;
        self.free = index;
        self.len -= 1;
        Some(value)
    }

    /// The key of the entry at `index`.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> u64 {
        key(self.entries[index as usize].generation, index)
    }

    /// The entry that `key` names, unless it is stale or was never given out.
    #[inline]
    pub(crate) fn find_entry(&mut self, key: u64) -> Option<&mut T> {
        let entry = self.entries.get_mut(key as u32 as usize)?;
        if entry.generation != (key >> 32) as u32 || !entry.is_in_use() {
            return None;
        }
        Some(&mut entry.value)
    }

    /// The index that `key` names, unless it is stale or was never given out.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let index = key as u32;
        let entry = self.entries.get(index as usize)?;
        (entry.generation == (key >> 32) as u32 && entry.is_in_use()).then_some(index)
    }

    /// The entry at `index`, if there is one.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let entry = self.entries.get(index as usize)?;
        entry.is_in_use().then_some(&entry.value)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let entry = self.entries.get_mut(index as usize)?;
        entry.is_in_use().then_some(&mut entry.value)
    }

    /// The indices of all entries, for work that is not done often.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let used = self.entries.iter().enumerate();
        used.filter(|(_, entry)| entry.is_in_use())
            .map(|(index, _)| index as u32)
            .collect()
    }
}

/// Entries that our own tables name are there; anything else is a bug of ours.
impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        let entry = &self.entries[index as usize];
        debug_assert!(entry.is_in_use(), "an entry that is in use");
        &entry.value
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let entry = &mut self.entries[index as usize];
        debug_assert!(entry.is_in_use(), "an entry that is in use");
        &mut entry.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_stale() {
        let mut slab = Slab::default();
        let a = slab.insert("a");
        let key = slab.key(a);
        assert_eq!(slab.find(key), Some(a));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.find(key), None);
        let b = slab.insert("b");
        assert_eq!(b, a);
        assert_ne!(slab.key(b), key);
        assert_eq!(slab.find(0), None);
        assert_eq!(slab.find(u64::MAX), None);
        assert_eq!((slab.len(), slab.indices()), (1, vec![b]));
        let key = slab.key(b);
        slab.vacate(b);
        slab.vacate(b);
        assert_eq!((slab.find(key), slab.get(b)), (None, None));
        assert_eq!(slab.remove(b), None);
        assert_eq!((slab.len(), slab.indices()), (0, vec![]));
        let (again, value) = slab.reuse();
        assert_eq!((again as u32, *value), (b, "b"));
        assert_eq!(slab.find(again), Some(b));
        let (other, value) = slab.reuse();
        assert_eq!((other as u32, *value), (1, ""));
        assert_eq!(slab.len(), 2);
    }
}
