//! Datafiles of I/O servers on this host that this process has open.

use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_bmi::Memory;
use causeway_sys::{limits, nowait};
use causeway_wire::fs::FileDescriptor;
use rustix::fs::OFlags;

/// Most datafiles that a process has open, and at most this part of the files that it may have open: the others are for the program's own.
const MOST: usize = 128;
const MOST_OF_LIMIT: u64 = 8;

/// How many there are.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// One of the places of open datafiles.
#[derive(Debug)]
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let limit = limits::open_files().unwrap_or(u64::MAX) / MOST_OF_LIMIT;
        let most = usize::try_from(limit).map_or(MOST, |limit| limit.min(MOST));
        let next = |open: usize| (open < most).then_some(open + 1);
        OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .ok()
            .map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A datafile of a file, as far as this process knows.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// Its server was not asked yet.
    NotAsked,
    /// It cannot be opened here.
    NotHere,
    /// It is open.
    Open(Arc<OpenDatafile>),
}

/// The datafiles of a file, by their positions in its distribution.
#[derive(Debug, Clone, Default)]
pub(super) struct Datafiles(Vec<Known>);

impl Datafiles {
    pub(super) fn at(&self, position: usize) -> Known {
        self.0.get(position).cloned().unwrap_or(Known::NotAsked)
    }

    pub(super) fn set(&mut self, position: usize, known: Known) {
        if self.0.len() <= position {
            self.0.resize(position + 1, Known::NotAsked);
        }
        self.0[position] = known;
    }

    /// Whether one is open, or may be found to be.
    pub(super) fn may_be_open(&self) -> bool {
        let is_here = |known: &Known| !matches!(known, Known::NotHere);
        self.0.is_empty() || self.0.iter().any(is_here)
    }
}

/// A datafile that is open for reading. Nothing says that what is read is the file's content: the reader compares it with sums.
#[derive(Debug)]
pub(super) struct OpenDatafile {
    file: File,
    in_memory: bool,
    _place: Place,
}

impl OpenDatafile {
    /// Opens the file that a process of this host has open by a descriptor, if this process may read it and the descriptor is still of that file.
    pub(super) fn open(process: i32, descriptor: FileDescriptor) -> Option<Self> {
        let place = Place::take()?;
        let path = format!("/proc/{process}/fd/{}", descriptor.number);
        let is_it = |found: &Metadata| {
            found.is_file() && (found.dev(), found.ino()) == (descriptor.device, descriptor.inode)
        };
        // The number may be of anything by now. Merely to open a device may have consequences.
        std::fs::metadata(&path).ok().filter(is_it)?;
        let no_wait = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(no_wait.bits().cast_signed())
            .open(path)
            .ok()?;
        file.metadata().ok().filter(is_it)?;
        Some(Self {
            in_memory: nowait::is_in_memory(&file).ok()?,
            file,
            _place: place,
        })
    }

    /// Reads from a position of the file into the memory. `false` if not all of it can be read without waiting for a device.
    pub(super) fn read(&self, into: &[Memory], position: u64) -> bool {
        nowait::read_whole(into, &self.file, position, self.in_memory).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    fn descriptor_of(file: &File) -> FileDescriptor {
        let metadata = file.metadata().unwrap();
        FileDescriptor {
            number: file.as_raw_fd().unsigned_abs(),
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    fn open(descriptor: FileDescriptor) -> Option<OpenDatafile> {
        OpenDatafile::open(std::process::id().cast_signed(), descriptor)
    }

    #[test]
    fn a_file_is_opened_by_its_descriptor_and_nothing_else_is() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"content").unwrap();
        let right = descriptor_of(&file);
        let into = Memory::from_vec(vec![0; 4]);
        let opened = open(right).unwrap();
        assert!(opened.read(std::slice::from_ref(&into), 2));
        assert_eq!(into.to_vec(), b"nten");
        assert!(!opened.read(&[into], 5), "it ends");
        // A pipe without a writer: to open it for reading would wait for one.
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let pipe = File::from(rustix::fs::open(&pipe, flags, mode).unwrap());
        let null = File::open("/dev/null").unwrap();
        let directory = File::open(directory.path()).unwrap();
        let other_inode = FileDescriptor {
            inode: right.inode + 1,
            ..right
        };
        let other_device = FileDescriptor {
            device: right.device + 1,
            ..right
        };
        let not_open = FileDescriptor {
            number: 1 << 30,
            ..right
        };
        for wrong in [
            descriptor_of(&pipe),
            descriptor_of(&null),
            descriptor_of(&directory),
            other_inode,
            other_device,
            not_open,
        ] {
            assert!(open(wrong).is_none(), "{wrong:?}");
        }
        let no_process = OpenDatafile::open(i32::MAX, right);
        assert!(no_process.is_none());
    }
}
