//! Which names to look up before the kernel asks for them.
//!
//! A program that lists a directory often looks at each of its objects next, in the order of the listing: `ls -l`, `find`, `du`, `rsync`, `rm -r`. The
//! kernel asks for one name at a time, and would wait for the server each time. So when it asks for a name that is not cached in a directory that
//! was listed of late, the names behind it are looked up, too, at once: few at first, more while the kernel goes on as expected.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_wire::fs::ObjectId;

/// Names that are looked up at first, and at most, and by how much their number grows.
const FIRST: u32 = 16;
const MOST: u32 = 256;
const GROWTH: u32 = 4;
/// Most directories that are remembered.
const MAX_DIRECTORIES: usize = 256;

/// Directories that were listed of late.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts the listings that have begun.
    listings: u64,
    directories: HashMap<ObjectId, Window>,
}

/// How far the names of a directory were looked up.
#[derive(Debug)]
struct Window {
    /// The number of the listing.
    listing: u64,
    /// Names that are looked up next time.
    len: u32,
    /// The first name that was not looked up, once some were.
    next: Option<Vec<u8>>,
    /// Names are being looked up.
    is_busy: bool,
}

impl Ahead {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A program lists a directory, from its beginning.
    pub(crate) fn note_listing(&self, directory: ObjectId) {
        let mut state = self.lock();
        state.listings += 1;
        let listing = state.listings;
        if state.directories.len() >= MAX_DIRECTORIES && !state.directories.contains_key(&directory)
        {
            let listings = state.directories.iter();
            let oldest = listings.min_by_key(|(_, window)| window.listing);
            if let Some(oldest) = oldest.map(|(&directory, _)| directory) {
                state.directories.remove(&oldest);
            }
        }
        let window = Window {
            listing,
            len: FIRST,
            next: None,
            is_busy: false,
        };
        state.directories.insert(directory, window);
    }

    /// The kernel has asked for a name that is not cached. Returns how many names behind it are to be looked up, whose [end](Self::end) is to be noted; `None`
    /// unless programs seem to go through the directory.
    pub(crate) fn begin(&self, directory: ObjectId, name: &[u8]) -> Option<u32> {
        let mut state = self.lock();
        let window = state.directories.get_mut(&directory)?;
        if window.is_busy {
            return None;
        }
        match &window.next {
            Some(next) if next == name => window.len = (window.len * GROWTH).min(MOST),
            Some(next) if name < &next[..] => {
                state.directories.remove(&directory);
                return None;
            }
            // They leave some out, or have just begun.
            Some(_) | None => {}
        }
        window.is_busy = true;
        Some(window.len)
    }

    /// All names before `next` were looked up; `None`: no more are to be.
    pub(crate) fn end(&self, directory: ObjectId, next: Option<Vec<u8>>) {
        let mut state = self.lock();
        match (state.directories.get_mut(&directory), next) {
            (Some(window), Some(next)) => {
                window.next = Some(next);
                window.is_busy = false;
            }
            (Some(_), None) => {
                state.directories.remove(&directory);
            }
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: ObjectId = ObjectId(7);

    #[test]
    fn more_names_are_looked_up_while_the_kernel_goes_on_as_expected() {
        let ahead = Ahead::default();
        assert_eq!(ahead.begin(DIRECTORY, b"a"), None);
        ahead.note_listing(DIRECTORY);
        assert_eq!(ahead.begin(ObjectId(8), b"a"), None);
        let mut asked = Vec::new();
        for name in [b"a", b"b", b"c", b"d"] {
            asked.extend(ahead.begin(DIRECTORY, name));
            // Another thread's name, meanwhile.
            assert_eq!(ahead.begin(DIRECTORY, b"x"), None);
            ahead.end(DIRECTORY, Some(vec![name[0] + 1]));
        }
        assert_eq!(asked, [16, 64, 256, 256]);
        // Some are left out.
        assert_eq!(ahead.begin(DIRECTORY, b"x"), Some(256));
        ahead.end(DIRECTORY, None);
        assert_eq!(ahead.begin(DIRECTORY, b"y"), None);
    }

    #[test]
    fn nothing_is_looked_up_ahead_of_programs_that_go_back() {
        let ahead = Ahead::default();
        ahead.note_listing(DIRECTORY);
        assert_eq!(ahead.begin(DIRECTORY, b"m"), Some(16));
        ahead.end(DIRECTORY, Some(b"n".to_vec()));
        assert_eq!(ahead.begin(DIRECTORY, b"c"), None);
        assert_eq!(ahead.begin(DIRECTORY, b"n"), None);
        // Until another program lists it.
        ahead.note_listing(DIRECTORY);
        assert_eq!(ahead.begin(DIRECTORY, b"c"), Some(16));
    }

    #[test]
    fn the_oldest_listing_is_forgotten() {
        let ahead = Ahead::default();
        for number in 1..=MAX_DIRECTORIES as u64 + 1 {
            ahead.note_listing(ObjectId(number));
        }
        assert_eq!(ahead.begin(ObjectId(1), b"a"), None);
        assert_eq!(ahead.begin(ObjectId(2), b"a"), Some(16));
        assert_eq!(ahead.lock().directories.len(), MAX_DIRECTORIES);
    }
}
