//! Anonymous files to share: sized once, sealed, gone with the last process that holds them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, SealFlags, StatxFlags};

/// Seals that fix a file's size for ever, and the set of seals with it.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// The kernel's number for the file system of ordinary memory files.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Creates a file of `len` zero bytes whose size can never change. `name` shows in
/// `/proc/PID/maps`. Pages are allocated when they are first touched.
pub fn create_fixed(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, FIXED_SIZE)?;
    Ok(file)
}

/// The length of another process's file, if it can be mapped safely: an error unless it is sealed against shrinking.
/// A file of huge pages is refused, too: touching a hole in it faults if no huge page is left.
pub fn checked_len(file: impl AsFd) -> io::Result<u64> {
    let seals = rustix::fs::fcntl_get_seals(file.as_fd())
        .map_err(|_| refused("the descriptor is not a memory file"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(refused("the memory file is not sealed against shrinking"));
    }
    if seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE) {
        return Err(refused("the memory file is sealed against writing"));
    }
    if rustix::fs::fstatfs(file.as_fd())?.f_type as u64 != TMPFS_MAGIC {
        return Err(refused("the memory file is not one of ordinary pages"));
    }
    let len = rustix::fs::fstat(file.as_fd())?.st_size;
    u64::try_from(len).map_err(|_| refused("the memory file has no length"))
}

/// Whether all of a memory file's pages are allocated, so that mapping and touching them takes no
/// memory.
pub fn has_all_pages(file: impl AsFd) -> bool {
    // Blocks are of 512 bytes here, whatever the file system's are.
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_blocks.saturating_mul(512) >= stat.st_size)
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A memory file of another process, which can be opened safely.
#[derive(Debug)]
pub struct Foreign {
    /// A descriptor that only names the file (`O_PATH`).
    name: OwnedFd,
}

impl Foreign {
    /// Finds out what a descriptor of another process, `/proc/PID/fd/N`, is open on. Anything but a memory
    /// file of ordinary pages is refused, without opening it, which could block (a FIFO) or have effects
    /// (a device), and without asking its file system, which may be a process that never replies.
    pub fn find(path: &Path) -> io::Result<Self> {
        let name = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let status = |file: &OwnedFd| {
            let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            rustix::fs::statx(file, "", flags, StatxFlags::BASIC_STATS)
        };
        let found = status(&name)?;
        let device = |stat: &rustix::fs::Statx| (stat.stx_dev_major, stat.stx_dev_minor);
        // All memory files lie in one file system, which no user can mount, and which stays.
        static DEVICE: OnceLock<(u32, u32)> = OnceLock::new();
        let memory = match DEVICE.get() {
            Some(known) => *known,
            None => {
                let own = status(&rustix::fs::memfd_create("", MemfdFlags::CLOEXEC)?)?;
                *DEVICE.get_or_init(|| device(&own))
            }
        };
        let is_file = FileType::from_raw_mode(found.stx_mode.into()) == FileType::RegularFile;
        if !is_file || found.stx_nlink != 0 || device(&found) != memory {
            return Err(refused("it is not a memory file"));
        }
        Ok(Self { name })
    }

    /// Opens it, and the same file in any case.
    pub fn open(&self, writable: bool) -> io::Result<OwnedFd> {
        let access = if writable {
            OFlags::RDWR
        } else {
            OFlags::RDONLY
        };
        let path = format!("/proc/self/fd/{}", self.name.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        if rustix::fs::fstatfs(&file)?.f_type as u64 != TMPFS_MAGIC {
            return Err(refused("it is not a memory file of ordinary pages"));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn path_of(file: impl AsFd) -> std::path::PathBuf {
        format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
    }

    #[test]
    fn a_memory_file_is_found_by_its_descriptor() {
        let file = create_fixed("test", 8192).unwrap();
        let found = Foreign::find(&path_of(&file)).unwrap();
        drop(file);
        for writable in [false, true] {
            assert_eq!(
                checked_len(found.open(writable).unwrap()).unwrap(),
                8192,
                "{writable}"
            );
        }
    }

    /// Opening the FIFO would wait for a writer.
    #[test]
    fn a_file_other_than_a_memory_file_is_not_opened() {
        let dir = std::env::temp_dir().join(format!("causeway-foreign-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let place = dir.join("file");
        let name = |path: &Path| {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).unwrap()
        };
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &place,
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let fifo = name(&place);
        std::fs::remove_file(&place).unwrap();
        let deleted = std::fs::File::create(&place).unwrap();
        std::fs::remove_file(&place).unwrap();
        let others = [
            fifo,
            deleted.into(),
            name(&dir),
            name(Path::new("/dev/null")),
            name(Path::new("/proc/self/exe")),
        ];
        std::fs::remove_dir(&dir).unwrap();
        for (index, file) in others.iter().enumerate() {
            let why = Foreign::find(&path_of(file)).unwrap_err().to_string();
            assert!(why.contains("not a memory file"), "{index}: {why}");
        }
    }

    #[test]
    fn a_fixed_file_is_accepted_and_keeps_its_size() {
        let file = create_fixed("test", 8192).unwrap();
        assert_eq!(checked_len(&file).unwrap(), 8192);
        assert!(rustix::fs::ftruncate(&file, 4096).is_err());
        assert!(rustix::fs::ftruncate(&file, 16384).is_err());
    }

    #[test]
    fn memory_made_present_has_all_its_pages() {
        let file = create_fixed("test", 64 << 10).unwrap();
        let import = Memory::map_import(&file, 64 << 10).unwrap();
        assert!(!has_all_pages(&file));
        let own = Memory::map_object(file.try_clone().unwrap(), 64 << 10, 1).unwrap();
        own.make_present().unwrap();
        own.write_at(40_000, &[7]);
        // Kernels before 5.14 allocate the remaining pages at the first touch.
        assert!(has_all_pages(&file) || !kernel_populates());
        import.make_present().unwrap();
        import.write_at(40_001, &[8]);
        let mut both = [0; 2];
        own.read_at(40_000, &mut both);
        assert_eq!(both, [7, 8]);
        Memory::zeroed(8).make_present().unwrap();
    }

    fn kernel_populates() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map(|n| n.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        version >= (5, 14)
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(checked_len(&file).is_err());
        let disk = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(checked_len(&disk).is_err());
    }

    #[test]
    fn a_file_of_huge_pages_is_refused() {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        // A kernel without huge pages makes none.
        let Ok(file) = rustix::fs::memfd_create("test", flags) else {
            return;
        };
        rustix::fs::fcntl_add_seals(&file, FIXED_SIZE).unwrap();
        let refused = checked_len(&file).unwrap_err().to_string();
        assert!(refused.contains("ordinary pages"), "{refused}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused() {
        let file = rustix::fs::memfd_create("test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        rustix::fs::fcntl_add_seals(&file, FIXED_SIZE | SealFlags::WRITE).unwrap();
        assert!(checked_len(&file).is_err());
    }
}
