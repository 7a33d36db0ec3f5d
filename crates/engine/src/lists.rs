//! Lists threaded through the entries of a table.

use std::marker::PhantomData;
use std::ops::IndexMut;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// An entry's neighbours in the list that it is in. The first entry has no predecessor, whatever
/// its links hold.
#[derive(Debug, Clone, Copy)]
pub struct Links {
    prev: u32,
    next: u32,
}

impl Links {
    /// The entry behind this one.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }

    /// Sets the entry behind this one, which was [appended](List::append).
    #[inline]
    pub fn set_next(&mut self, next: u32) {
        self.next = next;
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

/// The kind of list that belongs to an owner: a peer, a completion queue.
#[derive(Debug)]
pub struct Owned;

/// The kind of list that is one bucket of a hash table.
#[derive(Debug)]
pub struct Bucket;

/// An entry that can be in one list of each kind at a time.
pub trait Linked<Kind = Owned> {
    /// The links to its neighbours.
    fn links(&mut self) -> &mut Links;
}

/// A list threaded through the entries of a table.
#[derive(Debug)]
pub struct List<Kind = Owned> {
    head: u32,
    tail: u32,
    kind: PhantomData<Kind>,
}

impl<Kind> Clone for List<Kind> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Kind> Copy for List<Kind> {}

impl<Kind> Default for List<Kind> {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            kind: PhantomData,
        }
    }
}

impl<Kind> List<Kind> {
    /// The first entry.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends an entry that is in no list.
    #[inline(always)]
    pub fn push_back<S>(&mut self, slab: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Linked<Kind>> + ?Sized,
    {
        if let Some(before) = self.append(index, slab[index].links()) {
            slab[before].links().next = index;
        }
    }

    /// Appends an entry that is in no list and has these links. Returns the entry before it, which
    /// the caller links to this one.
    #[inline(always)]
    pub fn append(&mut self, index: u32, links: &mut Links) -> Option<u32> {
        *links = Links {
            prev: self.tail,
            next: NONE,
        };
        let before = std::mem::replace(&mut self.tail, index);
        if before == NONE {
            self.head = index;
        }
        (before != NONE).then_some(before)
    }

    /// Removes an entry that is in this list.
    #[inline(always)]
    pub fn remove<S>(&mut self, slab: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Linked<Kind>> + ?Sized,
    {
        if index == self.head {
            let links = *slab[index].links();
            self.remove_first(links);
        } else {
            self.remove_inner(slab, index);
        }
    }

    /// Whether this entry is the first.
    #[inline(always)]
    pub fn starts_with(&self, index: u32) -> bool {
        self.head == index
    }

    /// Removes the first entry, which has these links. The entry behind it is not touched: it may
    /// be in another cache line.
    #[inline(always)]
    pub fn remove_first(&mut self, links: Links) {
        self.head = links.next;
        if links.next == NONE {
            self.tail = NONE;
        }
    }

    /// Inserts an entry that is in no list before all others.
    pub fn push_front<S>(&mut self, slab: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Linked<Kind>> + ?Sized,
    {
        *slab[index].links() = Links {
            prev: NONE,
            next: self.head,
        };
        match self.head {
            NONE => self.tail = index,
            head => slab[head].links().prev = index,
        }
        self.head = index;
    }

    #[inline(never)]
    fn remove_inner<S>(&mut self, slab: &mut S, index: u32)
    where
        S: IndexMut<u32, Output: Linked<Kind>> + ?Sized,
    {
        let Links { prev, next } = std::mem::take(slab[index].links());
        slab[prev].links().next = next;
        match next {
            NONE => self.tail = prev,
            next => slab[next].links().prev = prev,
        }
    }

    /// All entries, in order.
    pub fn to_vec<S>(self, slab: &mut S) -> Vec<u32>
    where
        S: IndexMut<u32, Output: Linked<Kind>> + ?Sized,
    {
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

    #[derive(Default)]
    struct Item(Links);
    impl Linked for Item {
        fn links(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    #[derive(Default)]
    struct Items([Item; 4]);

    impl std::ops::Index<u32> for Items {
        type Output = Item;
        fn index(&self, index: u32) -> &Item {
            &self.0[index as usize]
        }
    }

    impl IndexMut<u32> for Items {
        fn index_mut(&mut self, index: u32) -> &mut Item {
            &mut self.0[index as usize]
        }
    }

    #[test]
    fn lists_lose_any_entry() {
        let mut slab = Items::default();
        let mut list = List::<Owned>::default();
        let ids = [0, 1, 2, 3];
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
