//! Open files that have lost their last name. The servers do not know which files are open: a file without a name is gone. So
//! before this mount removes the last name of a file that it has open, it gives the file another one, in a directory of its own
//! below [`PLACE`], and removes that when the last program closes the file.
//!
//! A mount that dies leaves such names behind. Its directory's name says for how long they are kept, its lease. Each mount
//! that has any renews the time of its directory's last change, by the clock of the metadata server, and every mount
//! removes the directories of others whose lease has ended since. A mount that is stopped for that long finds its
//! unlinked files gone ([`Errno::ESTALE`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_fs::Error;
use causeway_fs::client::Client;
use causeway_wire::fs::{Errno, ObjectId, Place, SetAttributes, Timestamp};

use crate::clients::Clients;

/// The directory of unlinked files, in the root. Mounts do not show it.
pub(crate) const PLACE: &[u8] = b".causeway-unlinked";
/// A mount renews its lease, and looks for expired leases of others, this many times within a lease.
const RENEWALS: u32 = 10;
/// Entries of a directory that are asked for at a time.
const PAGE: u32 = 512;

/// The directory of unlinked files of this mount.
#[derive(Debug)]
pub(crate) struct Unlinked {
    /// The mount's directory.
    directory: Vec<u8>,
    /// Whether that directory may exist.
    used: AtomicBool,
    lease: Duration,
}

/// The directory of all mounts' directories.
fn place() -> Vec<u8> {
    [b"/", PLACE].concat()
}

impl Unlinked {
    pub(crate) fn new(mount: u128, lease: Duration) -> Self {
        let name = format!("/{mount:032x}.{}", lease.as_secs());
        Self {
            directory: [place(), name.into_bytes()].concat(),
            used: AtomicBool::new(false),
            lease,
        }
    }

    /// How often [`Self::renew`] has to be called.
    pub(crate) fn renewal(&self) -> Duration {
        self.lease / RENEWALS
    }

    fn name(&self, object: ObjectId) -> Vec<u8> {
        let name = format!("/{}", object.0);
        [self.directory.as_slice(), name.as_bytes()].concat()
    }

    /// Gives a file a name among the unlinked.
    pub(crate) fn keep(&self, client: &mut Client, object: ObjectId) -> Result<(), Error> {
        match client.hard_link_object(object, self.name(object)) {
            Err(error) if error.errno == Errno::ENOENT => {}
            // A name is there already if an earlier removal of the file's last name has failed.
            Err(error) if error.errno == Errno::EEXIST => return Ok(()),
            result => return result.map(drop),
        }
        // Users who mount the file system share this directory, and cannot remove each other's.
        exists_already(client.make_directory(place(), 0o1777, None).map(drop))?;
        let made = client.make_directory(self.directory.as_slice(), 0o700, None);
        exists_already(made.map(drop))?;
        self.used.store(true, Ordering::Release);
        client.hard_link_object(object, self.name(object)).map(drop)
    }

    /// Removes a file's name among the unlinked.
    pub(crate) fn release(&self, client: &mut Client, object: ObjectId) -> Result<(), Error> {
        client.unlink(self.name(object))
    }

    /// Renews the lease, and removes the directories of mounts whose lease has ended.
    pub(crate) fn renew(&self, clients: &Clients) {
        let renewed = clients.own(|client| {
            let Some(place) = found(client.stat(place(), false))? else {
                return Ok(());
            };
            // The time of a change that was just made tells the server's time.
            let now = match self.used.load(Ordering::Acquire) {
                true => {
                    let own = client.stat(self.directory.as_slice(), false)?;
                    touch(client, own.object)?
                }
                false => match touch(client, place.object) {
                    Err(error) if error.errno == Errno::EPERM => return Ok(()),
                    touched => touched?,
                },
            };
            for (name, object, changed) in entries(client, place.object)? {
                let end = lease_of(&name).map(|lease| changed.seconds.saturating_add(lease));
                if end.is_some_and(|end| end < now.seconds) {
                    remove(client, place.object, &name, object)?;
                }
            }
            Ok(())
        });
        if renewed.is_err() {
            tracing::debug!("renewing the lease of unlinked files failed; it is tried again");
        }
    }

    /// Removes this mount's directory when the mount ends.
    pub(crate) fn end(&self, clients: &Clients) {
        if !self.used.swap(false, Ordering::AcqRel) {
            return;
        }
        let removed = clients.own(|client| {
            let own = client.stat(self.directory.as_slice(), false)?;
            let place = client.stat(place(), false)?;
            let name = self.directory.rsplit(|byte| *byte == b'/').next();
            remove(client, place.object, name.unwrap_or_default(), own.object)
        });
        if removed.is_err() {
            tracing::warn!(
                "removing the unlinked files failed; another mount removes them when their lease has ended"
            );
        }
    }
}

/// The lease in the name of a mount's directory, in seconds; `None` if the name has another form.
fn lease_of(name: &[u8]) -> Option<i64> {
    let (_, lease) = std::str::from_utf8(name).ok()?.split_once('.')?;
    lease.parse().ok().filter(|lease| *lease >= 0)
}

/// Counts something that exists already as made.
fn exists_already(made: Result<(), Error>) -> Result<(), Error> {
    match made {
        Err(error) if error.errno == Errno::EEXIST => Ok(()),
        made => made,
    }
}

/// `None` for something that does not exist.
fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Err(error) if matches!(error.errno, Errno::ENOENT | Errno::ESTALE) => Ok(None),
        result => result.map(Some),
    }
}

/// Sets the time of an object's last change to now, and returns it.
fn touch(client: &mut Client, object: ObjectId) -> Result<Timestamp, Error> {
    let mode = client.stat_object(object)?.attributes.mode;
    let set = SetAttributes {
        mode: Some(mode),
        ..SetAttributes::default()
    };
    Ok(client.set_attributes(object, set)?.changed)
}

/// The first page of a directory's entries, with the times of their last changes. The next call gets others.
fn entries(
    client: &mut Client,
    directory: ObjectId,
) -> Result<Vec<(Vec<u8>, ObjectId, Timestamp)>, Error> {
    let (entries, _) = client.read_directory(directory, b"", PAGE, true)?;
    let with_time = |entry: causeway_wire::fs::Entry| {
        let changed = entry.attributes?.changed;
        Some((entry.name, entry.object, changed))
    };
    Ok(entries.into_iter().filter_map(with_time).collect())
}

/// Removes a mount's directory with its content, as far as another mount has not done so.
fn remove(
    client: &mut Client,
    place: ObjectId,
    name: &[u8],
    directory: ObjectId,
) -> Result<(), Error> {
    loop {
        let Some(left) = found(entries(client, directory))? else {
            return Ok(());
        };
        if left.is_empty() {
            break;
        }
        for (name, _, _) in left {
            found(client.unlink(Place::from((directory, name.as_slice()))))?;
        }
    }
    found(client.remove_directory_object(Place::from((place, name)), directory)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_say_how_long_they_are_kept() {
        let unlinked = Unlinked::new(7, Duration::from_secs(90));
        let name = unlinked.directory.rsplit(|byte| *byte == b'/').next();
        assert_eq!(name.and_then(lease_of), Some(90));
        for other in [&b"data"[..], b"a.b", b"a.-1", b"\xff.5"] {
            assert_eq!(lease_of(other), None);
        }
    }
}
