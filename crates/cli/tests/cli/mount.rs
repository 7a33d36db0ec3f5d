//! The file system as a directory: unmodified programs on real mounts.
//!
//! `tools/mount-needs` installs the programs. Where the kernel cannot mount (no `/dev/fuse`, or not the right to), these
//! tests say so and do nothing.

mod acls;
mod coherence;
mod damage;
mod databases;
mod ends;
mod files;
mod flock;
mod full;
mod helper;
mod holes;
mod locks;
mod losses;
mod programs;
mod special;
mod suites;
mod uncached;
mod users;
mod xattrs;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stand::{Run, Stand};

/// A mounted file system, and the directory it is mounted at.
pub(crate) struct Mounted {
    directory: tempfile::TempDir,
    unmounted: bool,
}

/// Whether file systems can be mounted here; says so if not.
pub(crate) fn can_mount() -> bool {
    let found = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    let why = match found {
        Ok(_) if rustix::process::geteuid().is_root() => return true,
        Ok(_) if program_exists("fusermount3") => return true,
        Ok(_) => "there is no fusermount3: run tools/mount-needs as root".to_owned(),
        Err(error) => format!("/dev/fuse: {error}"),
    };
    eprintln!("THE MOUNT IS NOT TESTED, because nothing can be mounted here: {why}");
    false
}

pub(crate) fn program_exists(name: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(name).is_file())
}

impl Mounted {
    /// Mounts a file system.
    pub(crate) fn new(stand: &Stand) -> Self {
        Self::with(stand, &stand.config, &[])
    }

    /// Mounts it by another configuration file, with more arguments.
    pub(crate) fn with(stand: &Stand, config: &Path, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut all = vec!["fs", "mount"];
        all.extend(arguments);
        let path = directory.path().to_str().unwrap().to_owned();
        all.push(&path);
        Run::new(stand.directory.path(), &all).config(config).ok();
        Self {
            directory,
            unmounted: false,
        }
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A path below.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The process that serves it.
    pub(crate) fn pid(&self) -> i32 {
        let path = self.path().to_str().unwrap();
        serving(path).expect("a process serves the mount")
    }

    /// Unmounts it with the command, which must succeed.
    pub(crate) fn unmount(&mut self) {
        Run::new(
            Path::new("/"),
            &["fs", "umount", self.path().to_str().unwrap()],
        )
        .ok();
        self.unmounted = true;
    }

    /// To be called when it was unmounted in another way.
    pub(crate) fn is_unmounted(&mut self) {
        assert!(!is_mounted(self.path()));
        self.unmounted = true;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.unmounted {
            let path = self.path().to_str().unwrap().to_owned();
            Run::new(Path::new("/"), &["fs", "umount", "--lazy", &path]).left();
        }
    }
}

/// Whether something is mounted at a directory.
pub(crate) fn is_mounted(directory: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let place = format!(" {} ", directory.display());
    table.lines().any(|line| line.contains(&place))
}

/// The process in the background that serves the mount at a path.
fn serving(path: &str) -> Option<i32> {
    std::fs::read_dir("/proc").unwrap().find_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut arguments = line.split(|byte| *byte == 0);
        let is_server = arguments.any(|one| one == b"--background");
        (is_server && arguments.any(|one| one == path.as_bytes())).then_some(pid)
    })
}

/// Runs the rest of a test in a mount namespace of its own: true in the process that has one, and in the other, which waits for it, false.
/// `test` is the test's name. For root only.
pub(crate) fn enter_namespace(test: &str) -> bool {
    const INSIDE: &str = "CAUSEWAY_CLI_MOUNT_NAMESPACE";
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == test) {
        return true;
    }
    let status = Command::new("unshare")
        .arg("--mount")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, test)
        .status()
        .expect("util-linux's unshare runs");
    assert!(status.success(), "in a mount namespace: {status}");
    false
}

/// How often tests with servers or mounts that are killed do that; `make test-mount` does it many times.
pub(crate) fn rounds() -> u32 {
    let rounds = std::env::var("CAUSEWAY_MOUNT_ROUNDS").ok();
    rounds.map_or(1, |rounds| rounds.parse().expect("a number"))
}

/// Whether the longer forms of tests are asked for, by `make test-mount`.
pub(crate) fn is_long() -> bool {
    rounds() > 1
}

/// Runs a shell script in a directory; it must succeed, in bounded time. Returns what it printed.
pub(crate) fn shell(directory: &Path, script: &str) -> String {
    let output = Command::new("timeout")
        .args(["--kill-after=10", "900", "sh", "-euc", script])
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "a")
        .env("GIT_AUTHOR_EMAIL", "a@b")
        .env("GIT_COMMITTER_NAME", "a")
        .env("GIT_COMMITTER_EMAIL", "a@b")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
