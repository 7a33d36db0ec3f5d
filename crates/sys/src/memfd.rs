//! Anonymous files to share: sized once, sealed, gone with the last process that holds them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

/// Seals that fix a file's size for ever, and the set of seals with it.
const FIXED_SIZE: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);

/// What the kernel says the file system of an ordinary memory file is.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Creates a file of `len` zero bytes whose size can never change. `name` shows in
/// `/proc/PID/maps`. Pages are taken when they are first touched.
pub fn create_fixed(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, FIXED_SIZE)?;
    Ok(file)
}

/// The length of a file that somebody else created, if it is one that can be mapped without fear:
/// an error unless it is sealed against shrinking. Nor may it be of huge pages, which a hole is given
/// only if there are any left: touching one could fault all the same.
pub fn checked_len(file: impl AsFd) -> io::Result<u64> {
    let refused = |why| io::Error::new(io::ErrorKind::InvalidData, why);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_file_is_accepted_and_keeps_its_size() {
        let file = create_fixed("test", 8192).unwrap();
        assert_eq!(checked_len(&file).unwrap(), 8192);
        assert!(rustix::fs::ftruncate(&file, 4096).is_err());
        assert!(rustix::fs::ftruncate(&file, 16384).is_err());
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
