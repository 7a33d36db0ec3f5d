//! Datafiles that were moved aside because it could not be proven that they are not needed.
//!
//! They lie in `lost+found` beside the store's other directories, as `OBJECT.SECONDS.NUMBER`: the object's
//! number, when they were moved (seconds since the epoch), and a number that distinguishes several of them.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_wire::fs::ObjectId;

use crate::files::{if_found, make_directories, sync_directory};

/// How long they are kept.
pub const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The amount that was moved aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aside {
    /// Number of files.
    pub files: u64,
    /// Bytes in them.
    pub bytes: u64,
}

/// Moves a datafile aside, and logs its new name.
pub(super) fn move_aside(from: &Path, directory: &Path, object: ObjectId) -> io::Result<()> {
    make_directories(directory)?;
    let now = seconds(SystemTime::now());
    for number in 0..1000 {
        let to = directory.join(format!("{:016x}.{now}.{number}", object.0));
        let at = rustix::fs::CWD;
        match rustix::fs::renameat_with(at, from, at, &to, rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => {
                tracing::warn!(file = %to.display(), "a datafile was moved aside");
                return sync_directory(directory);
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The amount that was moved aside. Deletes files that have been there for longer than `keep`.
pub(super) fn count(directory: &Path, keep: Duration) -> io::Result<Aside> {
    let oldest = seconds(SystemTime::now()).saturating_sub(keep.as_secs());
    let mut aside = Aside::default();
    for entry in if_found(std::fs::read_dir(directory))?
        .into_iter()
        .flatten()
    {
        let entry = entry?;
        let path = entry.path();
        if moved(&entry.file_name()).is_some_and(|moved| moved < oldest) {
            tracing::info!(file = %path.display(), "a datafile that was moved aside has been kept long enough and is deleted");
            std::fs::remove_file(path)?;
            continue;
        }
        aside.files += 1;
        aside.bytes += entry.metadata()?.len();
    }
    Ok(aside)
}

/// When a file with this name was moved; `None` for a name of another form, whose file stays.
fn moved(name: &OsStr) -> Option<u64> {
    let mut parts = name.to_str()?.split('.');
    let (object, seconds, number) = (parts.next()?, parts.next()?, parts.next()?);
    let ours = object.len() == 16
        && u64::from_str_radix(object, 16).is_ok()
        && number.parse::<u32>().is_ok()
        && parts.next().is_none();
    seconds.parse().ok().filter(|_| ours)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
