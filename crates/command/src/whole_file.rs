//! Files that appear whole or not at all: written under another name in the same directory, then renamed.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::{Doing, Outcome};
use crate::shutdown;

/// Prefix of the names of files that are not whole yet.
const PREFIX: &str = ".causeway-";
const SUFFIX: &str = ".partial";

/// The name of a file until it is whole; `distinct` is different for each writer.
pub fn partial_name(distinct: &str) -> String {
    format!("{PREFIX}{distinct}{SUFFIX}")
}

/// Whether a file of this name was begun and not completed.
pub fn is_partial(name: &str) -> bool {
    name.starts_with(PREFIX) && name.ends_with(SUFFIX)
}

/// Writes the output of `fill` to `path`. If the disk is full or the command ends early, the former
/// content stays, and nothing else is left. Something other than a regular file, such as
/// `/dev/stdout`, is written to directly.
pub fn write_with(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Outcome {
    let doing = || format!("writing {}", path.display());
    let is_special = std::fs::metadata(path).is_ok_and(|known| !known.is_file());
    if is_special {
        let mut file = File::options().write(true).open(path).doing(doing)?;
        return fill(&mut file).doing(doing);
    }
    // A symbolic link stays one: the file that it leads to is replaced.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = tempfile::Builder::new()
        .prefix(PREFIX)
        .suffix(SUFFIX)
        // The mode is that of the user's mask, not that of a private temporary file.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory_of(&target))
        .doing(doing)?;
    let registration = shutdown::register_path(temporary.path());
    let mut file = BufWriter::new(temporary);
    fill(&mut file).doing(doing)?;
    let temporary = file.into_inner().doing(doing)?;
    // Some file systems report only now that there was no room.
    temporary.as_file().sync_data().doing(doing)?;
    temporary.persist(&target).doing(doing)?;
    drop(registration);
    Ok(())
}

/// Writes `bytes` to `path`, whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> Outcome {
    write_with(path, |out| out.write_all(bytes))
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("result");
        write(&path, b"before").unwrap();
        let failed = write_with(&path, |out| {
            out.write_all(b"half")?;
            Err(std::io::ErrorKind::StorageFull.into())
        });
        let failure = failed.unwrap_err();
        assert!(failure.what.contains("result"), "{failure}");
        assert_eq!(std::fs::read(&path).unwrap(), b"before");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        write(&path, b"after").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"after");
    }

    /// Threads that write files at the same time leave the process's mask as it is, and so the modes of their files.
    #[test]
    fn files_of_many_threads_have_the_modes_that_the_mask_allows() {
        let mask = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
            u32::from_str_radix(line.unwrap().trim(), 8).unwrap()
        };
        let before = mask();
        // In memory, where the threads do not spend their time in waiting for a disk.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let directory = directory.path();
                scope.spawn(move || {
                    for number in 0..500 {
                        write(&directory.join(format!("{thread}-{number}")), b"x").unwrap();
                    }
                });
            }
        });
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let file = file.unwrap();
            let mode = file.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o666 & !before, "{:?}", file.file_name());
        }
        assert_eq!(mask(), before);
    }

    #[test]
    fn links_and_devices_are_written_through() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, b"before").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, b"after").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"after");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(write(Path::new("/dev/full"), b"no room").is_err());
        assert!(write(&directory.path().join("none/file"), b"x").is_err());
    }
}
