//! Listings with what their names stand for, by which the kernel needs no requests about these.

use causeway_fs::client::{LookedUp, Named};
use causeway_wire::fs::{Entry, Errno, ObjectId};

use crate::attributes::{Failed, Outcome, Shown};
use crate::clients::User;
use crate::operations::Mounted;

/// Most entries that are looked up for the kernel's request for a listing with attributes. Some more than have room in the 32 KiB that most programs read at a time.
const MAX_LOOKED_UP: usize = 256;

/// An entry of a directory's listing, with what it stands for.
pub(crate) struct Listed {
    pub(crate) name: Vec<u8>,
    /// The position behind it.
    pub(crate) next: u64,
    pub(crate) shown: Shown,
    /// It is `.` or `..`, of which only kind and number are known.
    pub(crate) is_dot: bool,
}

impl Mounted {
    /// What entries stand for, in their order; `None` for those that do not exist any more.
    fn look_up_all(
        &self,
        user: User,
        directory: ObjectId,
        entries: &[&Entry],
    ) -> Outcome<Vec<Option<Shown>>> {
        // Names are found in the cache by users who have looked some up while the directory was cached.
        self.node(directory)?;
        let cached = |entry: &&Entry| self.caches.find(user, directory, &entry.name);
        let found: Vec<Option<Named>> = entries.iter().map(cached).collect();
        let unknown = || {
            entries
                .iter()
                .zip(&found)
                .filter(|(_, named)| named.is_none())
        };
        let names: Vec<Vec<u8>> = unknown().map(|(entry, _)| entry.name.clone()).collect();
        let looked_up = match names.is_empty() {
            true => Ok(Vec::new()),
            false => self.clients.for_user(user, false, |client| {
                client.stat_all_cached(directory, &names)
            }),
        };
        let mut looked_up = match looked_up {
            // A user who may list a directory, but not search it: the kernel lets nobody else have what it is told here.
            Err(Failed(Errno::EACCES)) => unknown()
                .map(|(entry, _)| self.look_up_object(entry.object))
                .collect::<Outcome<Vec<_>>>()?,
            looked_up => looked_up?,
        }
        .into_iter();
        let shown = entries.iter().zip(found).map(|(entry, named)| match named {
            Some(Named::Node(node, seen)) => Some(self.looked_up(&node, Some(seen))),
            Some(Named::Nothing) => None,
            None => match looked_up.next()? {
                LookedUp::Node(node, seen) => Some(self.looked_up(&node, seen)),
                LookedUp::Nothing => None,
                // Others are to be found beside it. The kernel goes by nothing that it is told of this one, as it is told no time.
                LookedUp::Damaged => Some(Shown::of_entry(entry)),
            },
        });
        Ok(shown.collect())
    }

    /// An object of an entry, as if that was looked up.
    fn look_up_object(&self, object: ObjectId) -> Outcome<LookedUp> {
        if let Some((node, _)) = self.caches.node(object) {
            return Ok(LookedUp::Node(Box::new(node), None));
        }
        (self.clients).own(|client| match client.stat_object_cached(object) {
            Ok((node, _)) => Ok(LookedUp::Node(Box::new(node), None)),
            Err(error) if error.errno == Errno::ESTALE => Ok(LookedUp::Nothing),
            Err(error) if error.errno == Errno::CORRUPT => Ok(LookedUp::Damaged),
            Err(error) => Err(error),
        })
    }

    /// The entries from a position on, with what they stand for; none at the end.
    pub(crate) fn list_looked_up(
        &self,
        user: User,
        directory: ObjectId,
        handle: u64,
        mut position: u64,
    ) -> Outcome<Vec<Listed>> {
        loop {
            let mut entries: Vec<(u64, Entry)> = Vec::new();
            self.list(directory, handle, position, |next, entry| {
                entries.push((next, entry.clone()));
                entries.len() < MAX_LOOKED_UP
            })?;
            let Some((last, _)) = entries.last() else {
                return Ok(Vec::new());
            };
            position = *last;
            let is_dot = |entry: &Entry| matches!(&entry.name[..], b"." | b"..");
            let named = entries.iter().map(|(_, entry)| entry);
            let named: Vec<&Entry> = named.filter(|entry| !is_dot(entry)).collect();
            let mut shown = match named.is_empty() {
                true => Vec::new(),
                false => self.look_up_all(user, directory, &named)?,
            }
            .into_iter();
            let listed = entries.into_iter().filter_map(|(next, entry)| {
                let is_dot = is_dot(&entry);
                let shown = match is_dot {
                    true => Shown::of_entry(&entry),
                    false => shown.next()??,
                };
                Some(Listed {
                    name: entry.name,
                    next,
                    shown,
                    is_dot,
                })
            });
            let listed: Vec<Listed> = listed.collect();
            // An empty reply would be the end of the directory.
            if !listed.is_empty() {
                return Ok(listed);
            }
        }
    }
}
