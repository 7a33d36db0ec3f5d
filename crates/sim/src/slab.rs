//! Items with numbers that are reused.

/// Items with numbers; the number of a removed item is reused.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    /// The place of this number, whether or not an item is there; it is not read. There must be one.
    pub(crate) fn place(&self, place: u32) -> &Option<T> {
        &self.items[place as usize]
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.items.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.items.get_mut(place as usize)?.as_mut()
    }

    /// The number of the first item for which the predicate holds.
    pub(crate) fn position(&self, wanted: impl Fn(&T) -> bool) -> Option<u32> {
        let found = |item: &Option<T>| item.as_ref().is_some_and(&wanted);
        self.items.iter().position(found).map(|place| place as u32)
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let item = self.items.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(item)
    }
}
