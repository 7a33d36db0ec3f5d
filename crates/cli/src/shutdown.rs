//! What must not outlive the command: child processes, temporary files and directories.
//!
//! They are registered here; an ordinary end, an error and a signal all pass through [`exit`] or the
//! registrations' `Drop`. A command that is itself killed with SIGKILL leaves no process behind
//! either: children end when their standard input closes, which the kernel does for us.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Doing, Outcome};

#[derive(Default)]
struct Registry {
    next: u64,
    children: BTreeMap<u64, OwnedFd>,
    paths: BTreeMap<u64, PathBuf>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    children: BTreeMap::new(),
    paths: BTreeMap::new(),
});

static INSTALLED: AtomicBool = AtomicBool::new(false);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps something registered until dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut registry = registry();
        registry.children.remove(&self.id);
        registry.paths.remove(&self.id);
    }
}

/// Kills a child process if the command ends while the registration lives. The child must not have
/// been waited for yet, so that its number is still its own.
pub(crate) fn register_process(pid: u32) -> Outcome<Registration> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let doing = || "watching a child process".to_owned();
    let pid = pid.ok_or("its process id is out of range").doing(doing)?;
    let descriptor = pidfd_open(pid, PidfdFlags::empty()).doing(doing)?;
    let mut registry = registry();
    let id = registry.next;
    registry.next += 1;
    registry.children.insert(id, descriptor);
    Ok(Registration { id })
}

/// Removes the file or directory at `path` if the command ends while the registration lives.
pub(crate) fn register_path(path: &Path) -> Registration {
    let mut registry = registry();
    let id = registry.next;
    registry.next += 1;
    registry.paths.insert(id, path.to_owned());
    Registration { id }
}

/// A directory that is removed when dropped and when the command ends in any other way.
#[derive(Debug)]
pub(crate) struct ScratchDirectory {
    path: PathBuf,
    keep: bool,
    registration: Registration,
}

impl ScratchDirectory {
    /// Makes a fresh directory under `parent`.
    pub(crate) fn new(parent: &Path, purpose: &str) -> Outcome<Self> {
        let path = tempfile::Builder::new()
            .prefix(&format!("causeway-{purpose}-"))
            .tempdir_in(parent)
            .doing(|| format!("making a directory in {}", parent.display()))?
            .keep();
        let registration = register_path(&path);
        Ok(Self {
            path,
            keep: false,
            registration,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it on the disk.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
        registry().paths.remove(&self.registration.id);
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is left; there is nobody to tell during an unwind.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP end the command through [`exit`].
pub(crate) fn on_signals() -> Outcome {
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let doing = || "handling signals".to_owned();
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).doing(doing)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _ = writeln!(std::io::stderr(), "\ncauseway: interrupted, cleaning up");
                exit(128 + u8::try_from(signal).unwrap_or(0));
            }
        })
        .doing(doing)?;
    Ok(())
}

/// Ends the process after everything registered is gone.
pub(crate) fn exit(code: u8) -> ! {
    let mut registry = registry();
    for child in registry.children.values() {
        // A child that has ended already is as good as killed.
        let _ = pidfd_send_signal(child, Signal::KILL);
    }
    for child in std::mem::take(&mut registry.children).into_values() {
        wait_for_end(&child);
    }
    for path in std::mem::take(&mut registry.paths).into_values() {
        if std::fs::remove_file(&path).is_err() {
            let _ = std::fs::remove_dir_all(path);
        }
    }
    // The registry stays locked: nothing can be registered behind our back any more.
    std::process::exit(i32::from(code))
}

/// Waits (at most a second) until a killed child is gone, so that it cannot write into a directory
/// that is being removed.
fn wait_for_end(child: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut descriptors = [PollFd::new(child, PollFlags::IN)];
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let _ = poll(&mut descriptors, Some(&second));
}
