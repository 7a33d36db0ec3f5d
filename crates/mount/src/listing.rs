//! A directory that is being read. The server lists it in the order of names, from a name on, so that removing entries
//! meanwhile does not skip any other. Positions, which programs may go back to, count entries from the front: `.` and `..`, then those of the
//! server.

use std::collections::VecDeque;

use causeway_wire::fs::{Entry, Kind, ObjectId};

/// Entries that are kept behind the last position: the kernel goes back by as many entries as a program's buffer had no
/// room for.
const KEPT: usize = 4096;

/// The number of `..` in a listing, as other file systems of user programs have it: a server's listing does not say which one it is. Whoever asks
/// for its attributes learns that.
const UNKNOWN: ObjectId = ObjectId(0xffff_ffff);

/// The part of an open directory's listing that was received.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Position of the first entry of the window.
    first: u64,
    window: VecDeque<Entry>,
    /// The last name that the server has sent.
    last: Vec<u8>,
    ended: bool,
    has_begun: bool,
}

/// The position behind `.` and `..`.
pub(crate) const DOTS: u64 = 2;

/// `.` and `..` of a directory.
fn dots(directory: ObjectId) -> [Entry; DOTS as usize] {
    let parent = match directory {
        ObjectId::ROOT => directory,
        _ => UNKNOWN,
    };
    [(&b"."[..], directory), (b"..", parent)].map(|(name, object)| Entry {
        name: name.to_vec(),
        object,
        kind: Kind::Directory,
        attributes: None,
    })
}

impl Listing {
    /// Prepares for reading the directory at a position. If it lies before the part that is kept, the listing begins anew.
    pub(crate) fn seek(&mut self, directory: ObjectId, position: u64) {
        if position < self.first || position == 0 || !self.has_begun {
            *self = Self {
                window: dots(directory).into(),
                has_begun: true,
                ..Self::default()
            };
        }
        let behind = (position - self.first).min(self.window.len() as u64) as usize;
        if let Some(excess) = behind.checked_sub(KEPT) {
            self.window.drain(..excess);
            self.first += excess as u64;
        }
    }

    /// The entry at a position, if it was received and is kept.
    pub(crate) fn entry(&self, position: u64) -> Option<&Entry> {
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        self.window.get(index)
    }

    /// The name behind which the server must be asked for more entries; `None` at the end.
    pub(crate) fn more(&self) -> Option<&[u8]> {
        (!self.ended).then_some(&self.last)
    }

    /// Adds entries that the server has sent.
    pub(crate) fn add(&mut self, entries: Vec<Entry>, end: bool) {
        if let Some(entry) = entries.last() {
            self.last = entry.name.clone();
        }
        // A page without entries ends the listing, even if the server does not mark it as the last.
        self.ended = end || entries.is_empty();
        self.window.extend(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(numbers: std::ops::Range<u64>) -> Vec<Entry> {
        let entry = |number: u64| Entry {
            name: format!("{number:08}").into_bytes(),
            object: ObjectId(number + 2),
            kind: Kind::File,
            attributes: None,
        };
        numbers.map(entry).collect()
    }

    #[test]
    fn positions_stay_while_pages_come() {
        let directory = ObjectId(7);
        let mut listing = Listing::default();
        listing.seek(directory, 0);
        assert_eq!(listing.more(), Some(&b""[..]));
        let dot = listing.entry(0).expect("it is known");
        assert_eq!((&dot.name[..], dot.object), (&b"."[..], directory));
        let dots = listing.entry(1).expect("it is known");
        assert_eq!((&dots.name[..], dots.object), (&b".."[..], UNKNOWN));
        for start in (0..20_000).step_by(1000) {
            listing.add(page(start..start + 1000), start == 19_000);
            listing.seek(directory, start + 500);
            for position in [start.saturating_sub(3000).max(2), start + 999] {
                let entry = listing.entry(position).expect("it is known");
                assert_eq!(entry.object.0, position);
            }
        }
        assert!(listing.window.len() < 3 * KEPT);
        assert_eq!(listing.more(), None);
        assert!(listing.entry(20_002).is_none());
        listing.seek(directory, 1);
        assert_eq!(listing.more(), Some(&b""[..]));
        assert!(listing.entry(1).is_some() && listing.entry(2).is_none());
        // Another handle of the directory, at a position of this one.
        let mut other = Listing::default();
        other.seek(ObjectId::ROOT, 2);
        other.add(page(0..9), true);
        assert_eq!(other.entry(2).map(|entry| entry.object), Some(ObjectId(2)));
        assert_eq!(
            other.entry(1).map(|entry| entry.object),
            Some(ObjectId::ROOT)
        );
    }
}
