//! Slots of fixed number, and lists that link them: how the program keeps its state without
//! allocating memory while it runs.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The number that means no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A fixed number of slots, each taken or free. The one freed last is taken next: it is the likeliest to be in a cache.
#[derive(Debug)]
pub(crate) struct Pool<T> {
    /// The slots that have ever been taken. Memory for all of them is allocated, and touched only when it is needed.
    places: Vec<T>,
    taken: Vec<bool>,
    /// Those of them that are free again.
    free: Vec<u32>,
    count: usize,
}

impl<T: Default> Pool<T> {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            places: Vec::with_capacity(count),
            taken: vec![false; count],
            free: Vec::with_capacity(count),
            count,
        }
    }

    /// Takes a free slot and stores `value` in it.
    pub(crate) fn take(&mut self, value: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = value;
                index
            }
            None if self.places.len() < self.count => {
                self.places.push(value);
                self.places.len() as u32 - 1
            }
            None => return None,
        };
        self.taken[index as usize] = true;
        Some(index)
    }

    /// Frees a taken slot.
    pub(crate) fn free(&mut self, index: u32) {
        let was_taken = core::mem::replace(&mut self.taken[index as usize], false);
        assert!(was_taken, "slot {index} freed twice");
        self.places[index as usize] = T::default();
        self.free.push(index);
    }

    /// All slots that have ever been taken.
    pub(crate) fn places(&self) -> &[T] {
        &self.places
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < self.count
    }

    /// The value in a slot whose number comes from outside, to be read.
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)
    }

    /// The value in a slot whose number comes from outside.
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)
    }

    /// All slots that have ever been taken with their numbers, free ones included.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.places)
    }
}

impl<T> Index<u32> for Pool<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.places[index as usize]
    }
}

impl<T> IndexMut<u32> for Pool<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.places[index as usize]
    }
}

/// Something that can be in one [`List`] at a time.
pub(crate) trait Linked {
    /// The number of the next one in the list.
    fn next(&mut self) -> &mut u32;
}

/// A first-in, first-out list through slots of a pool.
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
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// The first, or [`NONE`].
    pub(crate) fn first(&self) -> u32 {
        self.head
    }

    pub(crate) fn push<P, T>(&mut self, places: &mut P, index: u32)
    where
        P: IndexMut<u32, Output = T>,
        T: Linked,
    {
        *places[index].next() = NONE;
        match self.tail {
            NONE => self.head = index,
            tail => *places[tail].next() = index,
        }
        self.tail = index;
    }

    pub(crate) fn pop<P, T>(&mut self, places: &mut P) -> Option<u32>
    where
        P: IndexMut<u32, Output = T>,
        T: Linked,
    {
        let index = self.head;
        if index == NONE {
            return None;
        }
        self.head = core::mem::replace(places[index].next(), NONE);
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "slot 1 freed twice")]
    fn a_place_is_freed_once() {
        let mut pool = Pool::<u8>::new(2);
        let (first, second) = (pool.take(1), pool.take(2));
        assert_eq!((first, second, pool.take(3)), (Some(0), Some(1), None));
        pool.free(1);
        assert_eq!(pool.take(4), Some(1));
        pool.free(1);
        pool.free(1);
    }
}
