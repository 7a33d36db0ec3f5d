//! Attributes and error numbers, in the kernel's form.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_fs::Error;
use causeway_fs::client::CacheStamp;
use causeway_wire::fs::{Attributes, Entry, Errno, Kind, ObjectId, Timestamp};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// Bytes that programs should read and write at a time.
const PREFERRED_BYTES: u32 = 1 << 20;

/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;

const NO_TIME: Timestamp = Timestamp {
    seconds: 0,
    nanoseconds: 0,
};

/// A failed operation, as a program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) Errno);

/// The result of an operation.
pub(crate) type Outcome<T = ()> = Result<T, Failed>;

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        let errno = match error.errno {
            // An error that the client library uses internally and could not handle becomes an input/output error.
            Errno(number) if number > 1000 => Errno::EIO,
            Errno::ECONNREFUSED
            | Errno::ECONNRESET
            | Errno::EHOSTUNREACH
            | Errno::EKEYREJECTED
            | Errno::EPROTO
            | Errno::EMSGSIZE
            | Errno::ECANCELED => Errno::EIO,
            errno => errno,
        };
        // A program gets a number only: the cause is in the log.
        if matches!(errno, Errno::EIO | Errno::ETIMEDOUT | Errno::ENOSPC) {
            tracing::warn!("{error}");
        }
        Self(errno)
    }
}

impl From<Failed> for fuser::Errno {
    fn from(failed: Failed) -> Self {
        fuser::Errno::from_i32(i32::from(failed.0.0))
    }
}

/// An object as programs see it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) object: ObjectId,
    pub(crate) attributes: Attributes,
    /// A device's number; 0 for objects that are no devices.
    pub(crate) device: u32,
    /// Stored bytes of its content. The size stands here in replies of which the kernel does not use the field, because it requests attributes again.
    pub(crate) stored: u64,
    /// If all of that is cached, by which lease.
    pub(crate) seen: Option<CacheStamp>,
}

impl Shown {
    /// No object.
    pub(crate) const NOTHING: Self = Self {
        object: ObjectId(0),
        attributes: Attributes {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            links: 0,
            size: 0,
            accessed: NO_TIME,
            modified: NO_TIME,
            changed: NO_TIME,
        },
        device: 0,
        stored: 0,
        seen: None,
    };

    /// What an entry alone says of its object: which one it is, and of which kind.
    pub(crate) fn of_entry(entry: &Entry) -> Self {
        Self {
            object: entry.object,
            attributes: Attributes {
                kind: entry.kind,
                ..Self::NOTHING.attributes
            },
            ..Self::NOTHING
        }
    }
}

/// An object's attributes in the kernel's form.
pub(crate) fn for_kernel(shown: &Shown) -> FileAttr {
    let Shown {
        object,
        attributes,
        stored,
        ..
    } = shown;
    let changed = time(attributes.changed);
    FileAttr {
        ino: INodeNo(object.0),
        size: attributes.size,
        blocks: stored.div_ceil(SECTOR_BYTES),
        atime: time(attributes.accessed),
        mtime: time(attributes.modified),
        ctime: changed,
        crtime: changed,
        kind: file_type(attributes.kind),
        perm: attributes.mode,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: shown.device,
        blksize: PREFERRED_BYTES,
        flags: 0,
    }
}

/// The kernel's value for a kind of object.
pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::SymbolicLink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

fn time(at: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(at.seconds.unsigned_abs());
    let base = match at.seconds < 0 {
        true => UNIX_EPOCH.checked_sub(whole),
        false => UNIX_EPOCH.checked_add(whole),
    };
    let part = Duration::from_nanos(at.nanoseconds.into());
    base.and_then(|base| base.checked_add(part))
        .unwrap_or(UNIX_EPOCH)
}

/// A time that a program sets.
pub(crate) fn timestamp(time: TimeOrNow) -> Timestamp {
    match time {
        TimeOrNow::Now => causeway_fs::clock::now(),
        TimeOrNow::SpecificTime(time) => timestamp_of(time),
    }
}

fn timestamp_of(time: SystemTime) -> Timestamp {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp {
            seconds: seconds(since),
            nanoseconds: since.subsec_nanos(),
        },
        // `fuser` subtracts the kernel's seconds and nanoseconds from the epoch alike, although nanoseconds count forward.
        Err(before) => Timestamp {
            seconds: -seconds(before.duration()),
            nanoseconds: before.duration().subsec_nanos(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_epoch_are_kept_to_the_nanosecond() {
        let at = |seconds, nanoseconds| Timestamp {
            seconds,
            nanoseconds,
        };
        for at in [at(0, 0), at(1, 999_999_999), at(-7, 0), at(1 << 33, 5)] {
            assert_eq!(timestamp_of(time(at)), at);
        }
        let nanosecond = Duration::from_nanos(1);
        let before = UNIX_EPOCH - Duration::from_secs(5);
        assert_eq!(time(at(-5, 1)), before + nanosecond);
        assert_eq!(timestamp_of(before - nanosecond), at(-5, 1));
    }

    #[test]
    fn numbers_that_only_clients_know_do_not_reach_programs() {
        for errno in Errno::ALL {
            let error = Error {
                operation: "write",
                subject: "object 5".to_owned(),
                errno: *errno,
                message: String::new(),
                server: None,
            };
            let Failed(shown) = error.into();
            assert!(shown.0 <= 133, "{shown}");
        }
    }
}
