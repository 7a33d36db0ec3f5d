//! Files that programs leave in `/dev/shm` when they are killed, and sometimes when they are not.
//!
//! A message layer that maps files there removes their names when it ends normally. The names do
//! not identify their owners: some contain a process's number, others a hash of the job's. So a
//! file is removed if its name is of a kind that the libraries use, if it was made since the run
//! began, belongs to this user, and is neither mapped nor open in any process: then no process is
//! left that could use it.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_watch::process;

const PLACE: &str = "/dev/shm";

/// How far the clock that stamps files may be behind.
const STAMP_DELAY: Duration = Duration::from_millis(20);

/// The earliest time that a file of a program started now can have.
pub(super) fn before_start() -> SystemTime {
    SystemTime::now() - STAMP_DELAY
}

/// Removes files that were left since then.
pub(super) fn remove(since: SystemTime) {
    remove_from(Path::new(PLACE), since);
}

fn remove_from(directory: &Path, since: SystemTime) {
    let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let me = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    let left: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_of_a_peer))
        .filter(|entry| {
            entry.metadata().is_ok_and(|data| {
                let changed = (data.ctime(), data.ctime_nsec());
                let since = (since.as_secs() as i64, i64::from(since.subsec_nanos()));
                data.is_file() && data.uid() == me && changed >= since
            })
        })
        .map(|entry| entry.path())
        .collect();
    if left.is_empty() {
        return;
    }
    let held = held();
    for path in left.iter().filter(|path| !held.contains(*path)) {
        let removed = std::fs::remove_file(path);
        tracing::debug!(path = %path.display(), ?removed, "a peer has left a file");
    }
}

/// Whether the name is of a kind that the libraries use.
fn is_of_a_peer(name: &str) -> bool {
    const PREFIXES: [&str; 4] = [
        // Open MPI 4 and 5, MPICH, UCX.
        "vader_segment.",
        "sm_segment.",
        "mpich_shm_",
        "ucx_shm_posix_",
    ];
    // libfabric: process, user, number.
    let mut parts = name.split(':');
    let numbers = parts.all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit()));
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || (numbers && name.split(':').count() == 3)
}

/// The files that processes have mapped or open, as far as this user may inspect them.
fn held() -> BTreeSet<PathBuf> {
    let mut held = BTreeSet::new();
    for pid in process::all().into_iter().flatten() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        let mapped = maps
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]));
        held.extend(mapped.map(PathBuf::from));
        let descriptors = std::fs::read_dir(process.join("fd"));
        let open = descriptors.into_iter().flatten().flatten();
        held.extend(open.filter_map(|one| std::fs::read_link(one.path()).ok()));
    }
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_libraries_are_recognised_by_name() {
        for name in [
            "mpich_shm_5497ab6a_45",
            "vader_segment.host.0.4fd00001.1",
            "sm_segment.host.0.4fd00001.1",
            "ucx_shm_posix_7f2b",
            "21355:0:0",
        ] {
            assert!(is_of_a_peer(name), "{name}");
        }
        for name in [
            "",
            "::",
            "1:2",
            "1:2:3:4",
            "a:0:0",
            "sem.x",
            "my_mpich_shm_1",
        ] {
            assert!(!is_of_a_peer(name), "{name}");
        }
    }

    #[test]
    fn files_without_a_holder_are_removed_and_others_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let since = before_start();
        for name in ["mpich_shm_1_0", "12:0:0", "mine"] {
            std::fs::write(path(name), "x").unwrap();
        }
        let open = std::fs::File::create(path("sm_segment.a")).unwrap();
        remove_from(
            directory.path(),
            SystemTime::now() + Duration::from_secs(3600),
        );
        assert!(path("mpich_shm_1_0").exists(), "it is older than the run");
        remove_from(directory.path(), since);
        let left = |name: &str| path(name).exists();
        assert!(!left("mpich_shm_1_0") && !left("12:0:0"));
        assert!(left("mine") && left("sm_segment.a"));
        drop(open);
        remove_from(directory.path(), since);
        assert!(!left("sm_segment.a") && left("mine"));
    }
}
