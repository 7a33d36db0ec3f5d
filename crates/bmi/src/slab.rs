//! Tables whose entries are named by index and generation, and lists threaded through them.

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A table. A key is the generation (upper half, never 0) and the index; an index alone names the
/// entry that is there now.
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

struct Entry<T> {
    generation: u32,
    next_free: u32,
    value: Option<T>,
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

impl<T> Slab<T> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry; answers its index.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free == NONE {
            self.entries.push(Entry {
                generation: 1,
                next_free: NONE,
                value: Some(value),
            });
            return (self.entries.len() - 1) as u32;
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.free = entry.next_free;
        entry.value = Some(value);
        index
    }

    /// Takes an entry out; its key is stale from now on.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        // 0 is skipped so that no key is 0.
        entry.generation = entry.generation.wrapping_add(1).max(1);
        entry.next_free = self.free;
        self.free = index;
        self.len -= 1;
        Some(value)
    }

    /// Drops an entry where it lies; its key is stale from now on.
    #[inline]
    pub(crate) fn discard(&mut self, index: u32) {
        if let Some(entry) = self.entries.get_mut(index as usize)
            && entry.value.is_some()
        {
            entry.value = None;
            entry.generation = entry.generation.wrapping_add(1).max(1);
            entry.next_free = self.free;
            self.free = index;
            self.len -= 1;
        }
    }

    /// The key of the entry at `index`.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> u64 {
        u64::from(self.entries[index as usize].generation) << 32 | u64::from(index)
    }

    /// The index that `key` names, unless it is stale or was never given out.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let index = key as u32;
        let entry = self.entries.get(index as usize)?;
        (entry.generation == (key >> 32) as u32 && entry.value.is_some()).then_some(index)
    }

    /// The entry at `index`, if there is one.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    /// The indices of all entries, for work that is not done often.
    pub(crate) fn indices(&self) -> Vec<u32> {
        let used = self.entries.iter().enumerate();
        used.filter(|(_, entry)| entry.value.is_some())
            .map(|(index, _)| index as u32)
            .collect()
    }
}

/// Entries that our own tables name are there; anything else is a bug of ours.
impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        let entry = &self.entries[index as usize];
        entry.value.as_ref().expect("an entry that is in use")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let entry = &mut self.entries[index as usize];
        entry.value.as_mut().expect("an entry that is in use")
    }
}

/// An entry's neighbours in the list that it is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    prev: u32,
    next: u32,
}

impl Links {
    /// The entry behind this one.
    #[inline]
    pub(crate) fn next(&self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }
}

impl Default for Links {
    fn default() -> Self {
        Self {
            prev: NONE,
            next: NONE,
        }
    }
}

/// Something that can be in one list at a time.
pub(crate) trait Linked {
    /// Where its neighbours are noted.
    fn links(&mut self) -> &mut Links;
}

/// A list threaded through a slab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl List {
    /// The first entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether nothing is in it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends an entry that is in no list.
    #[inline]
    pub(crate) fn push_back<T: Linked>(&mut self, slab: &mut Slab<T>, index: u32) {
        *slab[index].links() = Links {
            prev: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = index,
            tail => slab[tail].links().next = index,
        }
        self.tail = index;
    }

    /// Takes an entry out that is in this list.
    #[inline]
    pub(crate) fn remove<T: Linked>(&mut self, slab: &mut Slab<T>, index: u32) {
        let Links { prev, next } = std::mem::take(slab[index].links());
        match prev {
            NONE => self.head = next,
            prev => slab[prev].links().next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => slab[next].links().prev = prev,
        }
    }

    /// All entries, first to last.
    pub(crate) fn to_vec<T: Linked>(self, slab: &mut Slab<T>) -> Vec<u32> {
        let mut all = Vec::new();
        let mut at = self.head;
        while at != NONE {
            all.push(at);
            at = slab[at].links().next;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Item(Links);
    impl Linked for Item {
        fn links(&mut self) -> &mut Links {
            &mut self.0
        }
    }

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
    }

    #[test]
    fn lists_lose_any_entry() {
        let mut slab = Slab::default();
        let mut list = List::default();
        let ids: Vec<_> = (0..4)
            .map(|_| slab.insert(Item(Links::default())))
            .collect();
        for &id in &ids {
            list.push_back(&mut slab, id);
        }
        list.remove(&mut slab, ids[1]);
        assert_eq!(list.to_vec(&mut slab), [ids[0], ids[2], ids[3]]);
        list.remove(&mut slab, ids[0]);
        list.remove(&mut slab, ids[3]);
        list.push_back(&mut slab, ids[1]);
        assert_eq!(list.to_vec(&mut slab), [ids[2], ids[1]]);
        list.remove(&mut slab, ids[2]);
        list.remove(&mut slab, ids[1]);
        assert!(list.is_empty());
    }
}
