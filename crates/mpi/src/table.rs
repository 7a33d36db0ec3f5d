//! Tables of objects by handle.
//!
//! A handle is a number of at most 30 bits that is none of the ABI's own (those are below 4096): what kind of object it is, how
//! often its place in the table was used before, and the place. So one that was freed, or is of another kind, is recognised,
//! and a handle fits in an `int` (`MPI_Comm_toint` and its like return it as it is).

use crate::error::{Error, Result};

const PLACE_BITS: u32 = 20;
const USE_BITS: u32 = 6;
const PLACES: usize = 1 << PLACE_BITS;
/// Objects of one kind. The last place has none, so that its handles can stand for what needs no object.
const MOST: usize = PLACES - 1;

/// A handle of this kind that a table never gives out.
pub const fn reserved(kind: Kind) -> usize {
    (kind as usize) << (PLACE_BITS + USE_BITS) | MOST
}

/// The handle of the place `at` that was used so often before.
#[inline(always)]
fn name(kind: Kind, uses: u8, at: usize) -> usize {
    (kind as usize) << (PLACE_BITS + USE_BITS) | usize::from(uses) << PLACE_BITS | at
}

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// `MPI_Comm`
    Communicator = 1,
    /// `MPI_Group`
    Group = 2,
    /// `MPI_Request`
    Request = 3,
    /// `MPI_Message`
    Message = 4,
    /// `MPI_Info`
    Info = 5,
    /// `MPI_Errhandler`
    ErrorHandler = 6,
    /// `MPI_Op`
    Operation = 7,
    /// `MPI_Datatype`
    Datatype = 8,
    /// `MPI_Session`
    Session = 9,
    /// `MPI_Win`
    Window = 10,
    /// `MPI_File`
    File = 12,
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: Kind,
    /// The class of the error for invalid handles.
    class: i32,
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    uses: u8,
    object: Option<T>,
}

/// An object that is in a table.
pub struct Held<'a, T> {
    place: &'a mut Place<T>,
    free: &'a mut Vec<u32>,
    at: usize,
}

impl<T> Held<'_, T> {
    /// The object.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.place.object.as_ref()
    }

    /// Drops it.
    #[inline]
    pub fn vacate(self) {
        drop(self.place.object.take());
        self.forget();
    }

    /// Frees its place without dropping it: for objects that own nothing. (To find out that there is nothing to drop takes ten
    /// instructions.)
    #[inline(always)]
    pub fn forget(self) {
        std::mem::forget(self.place.object.take());
        self.place.uses = (self.place.uses + 1) % (1 << USE_BITS);
        self.free.push(self.at as u32);
    }
}

impl<T> Table<T> {
    /// An empty table. Invalid handles are errors of `class`.
    pub fn new(kind: Kind, class: i32) -> Self {
        Self {
            kind,
            class,
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds an object; returns its handle.
    #[inline]
    pub fn insert(&mut self, object: T) -> Result<usize> {
        let free = self.free.pop().map(|at| at as usize);
        if let Some((at, place)) = free.and_then(|at| Some((at, self.places.get_mut(at)?))) {
            // A free place has no object that would have to be dropped.
            std::mem::forget(place.object.replace(object));
            return Ok(name(self.kind, place.uses, at));
        }
        self.insert_behind(object)
    }

    /// Whether another object can be added.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.free.is_empty() || self.places.len() < MOST
    }

    /// The error of an object for which there is no room.
    #[cold]
    pub fn full(&self) -> Error {
        let kind = self.kind;
        let text = format!("there are {MOST} objects of the kind {kind:?} already");
        Error::new(crate::abi::ERR_NO_MEM, text)
    }

    #[inline(never)]
    fn insert_behind(&mut self, object: T) -> Result<usize> {
        if self.places.len() == MOST {
            return Err(self.full());
        }
        self.places.push(Place {
            uses: 0,
            object: Some(object),
        });
        Ok(self.handle(self.places.len() - 1))
    }

    fn handle(&self, at: usize) -> usize {
        name(self.kind, self.places[at].uses, at)
    }

    #[inline]
    fn place(&self, handle: usize) -> Option<usize> {
        let at = handle & (PLACES - 1);
        let place = self.places.get(at)?;
        let is_it = place.object.is_some() && handle == name(self.kind, place.uses, at);
        is_it.then_some(at)
    }

    #[cold]
    fn none(&self, handle: usize) -> Error {
        Error::new(
            self.class,
            format!(
                "{handle:#x} is no handle of a {:?}, or was freed",
                self.kind
            ),
        )
    }

    /// The object of a handle, if it is one of this table.
    #[inline]
    pub fn find(&self, handle: usize) -> Option<&T> {
        let at = handle & (PLACES - 1);
        let place = self.places.get(at)?;
        let is_it = handle == name(self.kind, place.uses, at);
        place.object.as_ref().filter(|_| is_it)
    }

    /// The object of a handle.
    #[inline]
    pub fn get(&self, handle: usize) -> Result<&T> {
        self.find(handle).ok_or_else(|| self.none(handle))
    }

    /// Likewise, to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Result<&mut T> {
        match self.place(handle) {
            Some(at) => match &mut self.places[at].object {
                Some(object) => Ok(object),
                None => unreachable!("a place that is found has an object"),
            },
            None => Err(self.none(handle)),
        }
    }

    /// Likewise, to be changed.
    #[inline]
    pub fn find_mut(&mut self, handle: usize) -> Option<&mut T> {
        let at = handle & (PLACES - 1);
        let place = self.places.get_mut(at)?;
        let is_it = handle == name(self.kind, place.uses, at);
        place.object.as_mut().filter(|_| is_it)
    }

    /// Removes an object.
    pub fn remove(&mut self, handle: usize) -> Result<T> {
        let at = self.place(handle).ok_or_else(|| self.none(handle))?;
        let place = &mut self.places[at];
        place.uses = (place.uses + 1) % (1 << USE_BITS);
        self.free.push(at as u32);
        place.object.take().ok_or_else(|| self.none(handle))
    }

    /// The object of a handle, if it is one of this table, to be read and dropped.
    #[inline]
    pub fn hold(&mut self, handle: usize) -> Option<Held<'_, T>> {
        let at = handle & (PLACES - 1);
        let place = self.places.get_mut(at)?;
        let is_it = place.object.is_some() && handle == name(self.kind, place.uses, at);
        let free = &mut self.free;
        is_it.then_some(Held { place, free, at })
    }

    /// The handles of all objects.
    pub fn handles(&self) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate();
        let there_are = places.filter(|(_, place)| place.object.is_some());
        there_are.map(|(at, _)| self.handle(at))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_name_one_object_and_go_stale() {
        let mut table = Table::new(Kind::Group, 9);
        let a = table.insert("a").expect("there is room");
        let b = table.insert("b").expect("there is room");
        assert!(a >= 4096 && i32::try_from(a).is_ok());
        assert_eq!(table.get(a).copied().ok(), Some("a"));
        assert_eq!(table.remove(a).ok(), Some("a"));
        assert_eq!(table.get(a).expect_err("the object is removed").code(), 9);
        let c = table.insert("c").expect("there is room");
        assert_ne!(a, c);
        assert!(table.get(a).is_err() && table.remove(a).is_err());
        assert_eq!(table.get(b).copied().ok(), Some("b"));
        let other = Table::<&str>::new(Kind::Info, 34);
        assert!(other.get(b).is_err());
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn a_full_table_has_room_when_an_object_is_removed() {
        let mut table = Table::new(Kind::Request, 7);
        let all: Vec<_> = (0..MOST).map(|_| table.insert(()).ok()).collect();
        assert!(all.iter().all(Option::is_some) && !table.has_room());
        let code = |added: Result<usize>| added.map_err(|error| error.code()).err();
        assert_eq!(code(table.insert(())), Some(crate::abi::ERR_NO_MEM));
        assert!(all[5].is_some_and(|handle| table.remove(handle).is_ok()));
        assert!(table.has_room() && table.insert(()).is_ok() && !table.has_room());
    }
}
