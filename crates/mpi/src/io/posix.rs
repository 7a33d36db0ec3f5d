//! Files of the operating system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use causeway_engine::Memory;

use crate::info::Info;

use super::storage::{Atomic, Extent, FileSystem, Guarded, Opening, PointerStep, Storage};

/// The files of the operating system.
#[derive(Debug)]
pub struct PosixFiles;

/// One of them, open.
#[derive(Debug)]
pub struct Posix(File);

/// Extents that are handed over at a time: each costs a call anyway.
const EXTENTS: usize = 512;

/// The most bytes between two extents that are read along rather than skipped: copying a page from the kernel's cache costs
/// less than another call.
const GAP: u64 = 4096;
/// Bytes that are read at a time where extents lie close to each other.
const SIEVE: u64 = 256 << 10;

/// Measured on tmpfs with 4 MiB of each of two processes, together and apart: 34 and 75 ms with pieces of 64 bytes, 17 and 8
/// with 512, the same with 4096. Reading together took longer with all of them (92 and 26 ms with 16 bytes).
const SMALL_WRITE: u64 = 256;

/// A lock of the file's description: it goes with the description, also if the process is killed.
struct Locked<'a>(&'a File);

/// Locks a file: against all other locks if `exclusive`, else against those. Waits until that is possible.
pub(super) fn lock_file(file: &File, exclusive: bool) -> io::Result<()> {
    loop {
        let locked = match exclusive {
            true => file.lock(),
            false => file.lock_shared(),
        };
        match locked {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // It fails only for descriptors that are none.
        let _ = self.0.unlock();
    }
}

/// How many of the extents are read together, the first included.
fn close_ones(extents: &[Extent]) -> usize {
    let Some(first) = extents.first() else {
        return 0;
    };
    let mut end = first.end();
    let others = extents[1..].iter().take_while(|extent| {
        let gap = extent.offset.checked_sub(end);
        end = extent.end();
        gap.is_some_and(|gap| gap <= GAP) && end - first.offset <= SIEVE
    });
    1 + others.count()
}

/// How many of the extents are one, the first included; and the bytes of these.
fn adjacent_ones(extents: &[Extent]) -> (usize, u64) {
    let (mut many, mut len) = (0, 0);
    for extent in extents {
        if many > 0 && extents[0].offset + len != extent.offset {
            break;
        }
        many += 1;
        len += extent.len;
    }
    (many, len)
}

impl Posix {
    /// Reads extents that lie close to each other, by way of a buffer. Returns how many bytes of the extents were there.
    fn sieve(&self, extents: &[Extent], into: &Memory) -> io::Result<u64> {
        let (first, last) = (extents[0].offset, extents[extents.len() - 1].end());
        let buffer = Memory::try_zeroed((last - first) as usize)?;
        let found = buffer.read_from_file(&self.0, first)? as u64;
        let mut done = 0;
        for extent in extents {
            let from = extent.offset - first;
            let some = found.saturating_sub(from).min(extent.len);
            let part = buffer.slice(from as usize..(from + some) as usize);
            into.slice(done as usize..(done + some) as usize)
                .copy_from(&part);
            done += some;
            if some < extent.len {
                break;
            }
        }
        Ok(done)
    }
}

/// Has `each` work on the extents that belong to a piece of memory, one piece after the other, until it returns fewer bytes than the
/// piece has. Returns how many bytes it was in all.
fn by_piece(
    extents: &[Extent],
    memory: &[Memory],
    mut each: impl FnMut(&[Extent], &Memory) -> io::Result<u64>,
) -> io::Result<u64> {
    if let [memory] = memory {
        return each(extents, memory);
    }
    let mut extents = extents.iter().copied();
    let mut rest: Option<Extent> = None;
    let mut done = 0;
    for piece in memory {
        let len = piece.len() as u64;
        let (mut own, mut bytes) = (Vec::new(), 0);
        while bytes < len
            && let Some(extent) = rest.take().or_else(|| extents.next())
        {
            let some = extent.len.min(len - bytes);
            own.push(Extent {
                offset: extent.offset,
                len: some,
            });
            bytes += some;
            rest = (some < extent.len).then(|| Extent {
                offset: extent.offset + some,
                len: extent.len - some,
            });
        }
        let some = each(&own, piece)?;
        done += some;
        if some < len {
            break;
        }
    }
    Ok(done)
}

impl Posix {
    fn open(name: &Path, how: Opening) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(how.read).write(how.write);
        if how.exclusive {
            options.create_new(true);
        } else if how.create {
            options.create(true);
        }
        if let Some(permissions) = how.permissions {
            options.mode(permissions);
        }
        let file = options.open(name)?;
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self(file))
    }

    fn read_piece(&self, mut extents: &[Extent], into: &Memory) -> io::Result<u64> {
        let mut done = 0;
        while !extents.is_empty() {
            let (one, len) = adjacent_ones(extents);
            let close = close_ones(extents);
            let (many, wanted, found) = if close > one {
                let wanted = extents[..close].iter().map(|extent| extent.len).sum();
                let part = into.slice(done as usize..(done + wanted) as usize);
                (close, wanted, self.sieve(&extents[..close], &part)?)
            } else {
                let part = into.slice(done as usize..(done + len) as usize);
                let found = part.read_from_file(&self.0, extents[0].offset)?;
                (one, len, found as u64)
            };
            done += found;
            if found < wanted {
                break;
            }
            extents = &extents[many..];
        }
        Ok(done)
    }

    fn write_piece(&self, mut extents: &[Extent], from: &Memory) -> io::Result<u64> {
        let mut done = 0;
        while !extents.is_empty() {
            let (many, len) = adjacent_ones(extents);
            let part = from.slice(done as usize..(done + len) as usize);
            part.write_to_file(&self.0, extents[0].offset)?;
            done += len;
            extents = &extents[many..];
        }
        Ok(done)
    }
}

impl FileSystem for PosixFiles {
    fn prefix(&self) -> &'static str {
        ""
    }

    fn open(&self, name: &Path, how: Opening, _hints: &Info) -> io::Result<Arc<dyn Storage>> {
        Ok(Arc::new(Posix::open(name, how)?))
    }

    /// Opens the file by its name, which is all that is needed to find it.
    fn join(
        &self,
        name: &Path,
        how: Opening,
        hints: &Info,
        _description: &[u8],
    ) -> io::Result<Arc<dyn Storage>> {
        self.open(name, how, hints)
    }

    fn remove(&self, name: &Path, _hints: &Info) -> io::Result<()> {
        std::fs::remove_file(name)
    }
}

impl Storage for Posix {
    fn read(&self, extents: &[Extent], into: &[Memory]) -> io::Result<u64> {
        by_piece(extents, into, |extents, into| {
            self.read_piece(extents, into)
        })
    }

    fn write(&self, extents: &[Extent], from: &[Memory]) -> io::Result<()> {
        by_piece(extents, from, |extents, from| {
            self.write_piece(extents, from)
        })
        .map(drop)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn resize(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        if size == 0 {
            return Ok(());
        }
        match fallocate(&self.0, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(()),
            // This file system cannot reserve space: it allocates space when data are written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.size()? < size => self.resize(size),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn small_piece(&self, writes: bool) -> u64 {
        match writes {
            true => SMALL_WRITE,
            // Adjacent extents are read together anyway.
            false => 0,
        }
    }

    /// Packing costs less than a call.
    fn least_fragment(&self) -> u64 {
        u64::MAX
    }

    fn extents_at_a_time(&self) -> usize {
        EXTENTS
    }

    fn description(&self) -> Vec<u8> {
        Vec::new()
    }

    fn apply_description(&self, _description: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn hints(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The operating system keeps none.
    fn move_pointer(&self, _number: u64, _step: PointerStep) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn has_locks(&self) -> bool {
        true
    }

    fn check_atomic(&self) -> io::Result<()> {
        Ok(())
    }

    fn atomic(&self, writes: bool) -> io::Result<Box<dyn Atomic + '_>> {
        lock_file(&self.0, writes)?;
        Ok(Box::new(Guarded::new(self, Locked(&self.0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent((offset, len): (u64, u64)) -> Extent {
        Extent { offset, len }
    }

    #[test]
    fn extents_are_taken_together_if_they_are_close() {
        let extents = [(0, 10), (10, 5), (20, 5), (10_000, 5), (0, 5)].map(extent);
        assert_eq!(adjacent_ones(&extents), (2, 15));
        assert_eq!(close_ones(&extents), 3);
        assert_eq!(close_ones(&extents[3..]), 1);
        assert_eq!(close_ones(&[]), 0);
    }

    #[test]
    fn lists_are_read_as_they_were_written_until_the_end_of_the_file() {
        let name = std::env::temp_dir().join(format!("causeway-posix-{}", std::process::id()));
        let how = Opening {
            read: true,
            write: true,
            create: true,
            exclusive: true,
            permissions: Some(0o600),
        };
        let file = Posix::open(&name, how).expect("a file");
        assert!(Posix::open(&name, how).is_err(), "it is there already");
        let bytes: Vec<u8> = (1..=30).collect();
        let extents = [(3, 4), (7, 6), (20, 10), (9000, 10)].map(extent);
        file.write(&extents, &[Memory::from_vec(bytes.clone())])
            .expect("it is written");
        let into = [Memory::zeroed(30)];
        assert_eq!(file.read(&extents, &into).expect("it is read"), 30);
        assert_eq!(into[0].to_vec(), bytes);
        let pieces = [1, 15, 0, 14].map(Memory::zeroed);
        assert_eq!(file.read(&extents, &pieces).expect("it is read"), 30);
        assert_eq!(pieces.map(|piece| piece.to_vec()).concat(), bytes);
        file.resize(25).expect("it is cut");
        assert_eq!(file.read(&extents, &into).expect("it is read"), 15);
        let pieces = [4, 10, 16].map(Memory::zeroed);
        assert_eq!(file.read(&extents, &pieces).expect("it is read"), 15);
        file.allocate(40).expect("there is room");
        assert_eq!(file.size().expect("a size"), 40);
        let removed = PosixFiles.remove(&name, &Info::default());
        removed.expect("it is removed");
    }
}
