//! Files that are being stored: written under a temporary name, renamed when they are complete.
//!
//! The name is `.causeway-<16 hexadecimal digits>.partial`, chosen at random by each writer. A
//! writer removes its files when the command ends, except by SIGKILL; files left by a killed writer
//! are found by their names (`causeway fs rm --partial`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::{hex, printable, warn};
use causeway_command::remote::is_gone;
use causeway_command::{shutdown, whole_file};
use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Errno, ObjectId, Place};

use crate::fs::session::Session;
use crate::fs::tree::RemoteName;

/// Random bytes in a name.
const CHANCE_BYTES: usize = 8;
/// How many names are tried before giving up: none of them should exist.
const ATTEMPTS: usize = 8;
/// How long the cleanup waits for a server that does not reply.
const PATIENCE: Duration = Duration::from_secs(2);

/// A fresh temporary name.
pub(crate) fn new_name() -> Outcome<Vec<u8>> {
    let chance = causeway_sys::random::bytes::<CHANCE_BYTES>()
        .doing(|| "choosing a temporary name".to_owned())?;
    Ok(whole_file::partial_name(&hex(&chance)).into_bytes())
}

/// Whether a name is a temporary one.
pub(crate) fn is_partial(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(whole_file::is_partial)
}

/// Names that this process has made and neither finished nor removed.
struct Unfinished {
    next: u64,
    names: BTreeMap<u64, Place>,
}

static UNFINISHED: Mutex<Unfinished> = Mutex::new(Unfinished {
    next: 0,
    names: BTreeMap::new(),
});

/// Held shared while something is made, and exclusively from the cleaning up on: nothing is made after that.
static MAKING: RwLock<()> = RwLock::new(());

fn unfinished() -> MutexGuard<'static, Unfinished> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary name in the file system that is removed when the command ends, unless
/// [`Partial::finish`] or [`Partial::discard`] is called first.
#[derive(Debug)]
pub(crate) struct Partial {
    id: u64,
    directory: ObjectId,
    name: Vec<u8>,
}

impl Partial {
    /// Makes something under a temporary name in the directory of `beside`.
    pub(crate) fn make<T>(
        client: &mut Client,
        beside: &RemoteName,
        mut make: impl FnMut(&mut Client, Place) -> Result<T, causeway_fs::Error>,
    ) -> Outcome<(Self, T)> {
        for _ in 0..ATTEMPTS {
            let partial = Self::register(beside.directory)?;
            let making = MAKING.read().unwrap_or_else(PoisonError::into_inner);
            let made = make(client, partial.place());
            drop(making);
            match made {
                Ok(made) => return Ok((partial, made)),
                Err(error) if error.errno == Errno::EEXIST => partial.forget(),
                Err(error) => return Err(partial.not_made(beside, error)),
            }
        }
        Err(Failure::new(
            format!("making {}", printable(&beside.path)),
            format!("{ATTEMPTS} temporary names chosen at random all exist"),
        ))
    }

    /// Makes many files, each beside its own name, with many requests in flight.
    pub(crate) fn create_many(
        client: &mut Client,
        files: &[(&RemoteName, CreateOptions)],
    ) -> Vec<Outcome<(Self, File)>> {
        let registered: Outcome<Vec<Self>> = files
            .iter()
            .map(|(beside, _)| Self::register(beside.directory))
            .collect();
        let partials = match registered {
            Ok(partials) => partials,
            Err(failure) => return files.iter().map(|_| Err(failure.clone())).collect(),
        };
        let places = partials.iter().map(Self::place);
        let wanted: Vec<(Place, CreateOptions)> = places
            .zip(files.iter().map(|(_, options)| options.clone()))
            .collect();
        let making = MAKING.read().unwrap_or_else(PoisonError::into_inner);
        let made = client.create_many(&wanted);
        drop(making);
        let made = made.into_iter().zip(partials).zip(files);
        made.map(|((made, partial), (beside, _))| match made {
            Ok(file) => Ok((partial, file)),
            Err(error) => Err(partial.not_made(beside, error)),
        })
        .collect()
    }

    /// The failure of making a temporary name.
    fn not_made(&self, beside: &RemoteName, error: causeway_fs::Error) -> Failure {
        // After a fatal error, such as a server out of reach, it may have been made nevertheless.
        if !causeway_command::remote::is_fatal(error.errno) {
            self.forget();
        }
        beside.failure(error)
    }

    fn register(directory: ObjectId) -> Outcome<Self> {
        let name = new_name()?;
        let mut unfinished = unfinished();
        let id = unfinished.next;
        unfinished.next += 1;
        let partial = Self {
            id,
            directory,
            name,
        };
        unfinished.names.insert(id, partial.place());
        Ok(partial)
    }

    /// The temporary name has been renamed or removed.
    pub(crate) fn forget(&self) {
        unfinished().names.remove(&self.id);
    }

    /// Its place in the file system.
    pub(crate) fn place(&self) -> Place {
        Place::from((self.directory, self.name.as_slice()))
    }

    /// Renames it to its final name, replacing an existing entry.
    pub(crate) fn finish(&self, client: &mut Client, to: &RemoteName) -> Outcome {
        client
            .rename(self.place(), to.place(), false)
            .map_err(|error| to.failure(error))?;
        self.forget();
        Ok(())
    }

    /// Removes it. If that fails, the end of the command tries once more.
    pub(crate) fn discard(&self, client: &mut Client) {
        match client.unlink(self.place()) {
            Ok(()) => self.forget(),
            Err(error) if error.errno == Errno::ENOENT || is_gone(&error) => self.forget(),
            Err(_) => {}
        }
    }
}

/// Installs handlers of signals that end the command in order, and that remove unfinished files.
pub(crate) fn clean_up_at_end(session: &Session) -> Outcome {
    shutdown::on_signals()?;
    let mut configuration = (*session.configuration).clone();
    configuration.timeout = configuration.timeout.min(PATIENCE);
    let only_scheme = session.via.clone();
    shutdown::clean_up_with(move || clean_up(&configuration, only_scheme));
    Ok(())
}

fn clean_up(configuration: &Configuration, only_scheme: Option<String>) {
    // Names that are being made are registered; once this is locked, each of them exists or not.
    let making = MAKING.write().unwrap_or_else(PoisonError::into_inner);
    // The process ends: nothing may be made any more.
    std::mem::forget(making);
    let names = std::mem::take(&mut unfinished().names);
    if names.is_empty() {
        return;
    }
    let options = ClientOptions {
        only_scheme,
        ..ClientOptions::default()
    };
    let mut client = match Client::connect(configuration, options) {
        Ok(client) => client,
        Err(error) => return report_left(names.len(), &error),
    };
    let mut left = names.len();
    for place in names.into_values() {
        match client.unlink(place) {
            Err(error) if error.errno != Errno::ENOENT && !is_gone(&error) => {
                return report_left(left, &error);
            }
            _ => left -= 1,
        }
    }
}

fn report_left(count: usize, error: &causeway_fs::Error) {
    warn(&format!(
        "up to {count} unfinished files may be left in the file system: {}; look for them later, and remove them, with \
         `causeway fs rm --partial`",
        Failure::from(error.clone())
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_recognised() {
        let name = new_name().unwrap();
        assert!(is_partial(&name), "{name:?}");
        assert_ne!(name, new_name().unwrap());
        for other in [&b"partial"[..], b".causeway-x", b"x.partial", b"\xff"] {
            assert!(!is_partial(other), "{other:?}");
        }
    }
}
