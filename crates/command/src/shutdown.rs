//! Objects that must not outlive the command: child processes, temporary files and directories.
//!
//! An ordinary end, an error and a signal all pass through [`exit`] or a registration's `Drop`. A
//! command that is itself killed with SIGKILL leaves no process behind either: children end when their
//! standard input closes, which the kernel does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_watch::process;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::AtFlags;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::{Doing, Outcome};

/// How long children may take to end in an orderly way, before they are killed.
const ORDERLY_END: Duration = Duration::from_secs(5);
/// How long killed children may take to be gone.
const FORCED_END: Duration = Duration::from_secs(2);

/// Something that must not outlive the command.
#[derive(Debug)]
enum Temporary {
    /// A file or directory at a path.
    Path(PathBuf),
    /// A file in an open directory, even if that is moved meanwhile.
    Below(Arc<OwnedFd>, OsString),
}

impl Temporary {
    fn remove(self) {
        match self {
            Self::Path(path) => {
                if std::fs::remove_file(&path).is_err() {
                    let _ = std::fs::remove_dir_all(path);
                }
            }
            Self::Below(directory, name) => {
                let _ = rustix::fs::unlinkat(&*directory, &name, AtFlags::empty());
            }
        }
    }
}

struct Registry {
    next: u64,
    temporaries: BTreeMap<u64, Temporary>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    next: 0,
    temporaries: BTreeMap::new(),
});

/// Objects that the command has to remove elsewhere than on this machine.
static CLEANUP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Restores the terminal.
static RESTORE: Mutex<Option<fn()>> = Mutex::new(None);

static INSTALLED: AtomicBool = AtomicBool::new(false);
static ENDING: AtomicBool = AtomicBool::new(false);
static HAS_CHILDREN: AtomicBool = AtomicBool::new(false);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a signal is ending the command, or [`exit`] its children: an operation that fails now may fail because of that.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Declares that this process may have children that must not outlive it. Call it before each is started; a command
/// that has none does not search for them.
pub fn expect_children() {
    HAS_CHILDREN.store(true, Ordering::Release);
}

/// Keeps a path registered until dropped.
#[derive(Debug)]
pub struct Registration {
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        registry().temporaries.remove(&self.id);
    }
}

/// Removes the file or directory at `path` if the command ends while the registration lives.
pub fn register_path(path: &Path) -> Registration {
    register(Temporary::Path(path.to_owned()))
}

/// Removes the file `name` in an open directory if the command ends while the registration lives.
pub fn register_below(directory: Arc<OwnedFd>, name: &OsStr) -> Registration {
    register(Temporary::Below(directory, name.to_owned()))
}

fn register(temporary: Temporary) -> Registration {
    let mut registry = registry();
    let id = registry.next;
    registry.next += 1;
    registry.temporaries.insert(id, temporary);
    Registration { id }
}

/// A directory that is removed when dropped and when the command ends in any other way.
#[derive(Debug)]
pub struct ScratchDirectory {
    path: PathBuf,
    keep: bool,
    registration: Registration,
}

impl ScratchDirectory {
    /// Makes a fresh directory under `parent`.
    pub fn new(parent: &Path, purpose: &str) -> Outcome<Self> {
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

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory on the disk.
    pub fn keep(&mut self) {
        self.keep = true;
        registry().temporaries.remove(&self.registration.id);
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if !self.keep {
            // A directory that cannot be removed is left: an unwind cannot report it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Makes SIGINT, SIGTERM and SIGHUP end the command through [`exit`].
pub fn on_signals() -> Outcome {
    on(&[SIGINT, SIGTERM, SIGHUP])
}

/// Makes SIGINT and SIGTERM end the command through [`exit`], but not SIGHUP, which has another
/// meaning for this command.
pub fn on_signals_but_hangup() -> Outcome {
    on(&[SIGINT, SIGTERM])
}

fn on(ends: &'static [i32]) -> Outcome {
    if INSTALLED.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let doing = || "handling signals".to_owned();
    let mut signals = signal_hook::iterator::Signals::new(ends).doing(doing)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                ENDING.store(true, Ordering::Release);
                let code = 128 + u8::try_from(signal).unwrap_or(0);
                // A second signal ends the process without further cleaning up.
                for signal in ends {
                    let now = Arc::new(AtomicBool::new(true));
                    let _ = signal_hook::flag::register_conditional_shutdown(
                        *signal,
                        i32::from(code),
                        now,
                    );
                }
                let _ = writeln!(std::io::stderr(), "\ncauseway: interrupted, cleaning up");
                exit(code);
            }
        })
        .doing(doing)?;
    Ok(())
}

/// Calls `restore` when the command ends, except by SIGKILL.
pub fn before_exit(restore: fn()) {
    *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(restore);
}

/// Runs `cleanup` when the command ends, except by SIGKILL.
pub fn clean_up_with(cleanup: impl FnOnce() + Send + 'static) {
    *CLEANUP.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(cleanup));
}

/// Ends the process after its children and everything registered are gone.
pub fn exit(code: u8) -> ! {
    // Stays locked: nothing can be registered any more.
    let mut registry = registry();
    if let Some(restore) = *RESTORE.lock().unwrap_or_else(PoisonError::into_inner) {
        restore();
    }
    let cleanup = CLEANUP
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(cleanup) = cleanup {
        cleanup();
    }
    if HAS_CHILDREN.load(Ordering::Acquire) {
        ENDING.store(true, Ordering::Release);
        end_children(Signal::TERM, ORDERLY_END);
        end_children(Signal::KILL, FORCED_END);
    }
    for temporary in std::mem::take(&mut registry.temporaries).into_values() {
        temporary.remove();
    }
    std::process::exit(i32::from(code))
}

/// Sends `signal` to every child, including those that another thread is just starting, until none
/// is left or this time has passed.
fn end_children(signal: Signal, within: Duration) {
    let deadline = Instant::now() + within;
    let mut signalled: BTreeMap<u32, OwnedFd> = BTreeMap::new();
    loop {
        let children = children();
        if children.is_empty() || Instant::now() >= deadline {
            return;
        }
        signalled.retain(|pid, _| children.contains(pid));
        for pid in children {
            if signalled.contains_key(&pid) {
                continue;
            }
            if let Some(descriptor) = open_child(pid) {
                // A child that has ended already needs no signal.
                let _ = pidfd_send_signal(&descriptor, signal);
                signalled.insert(pid, descriptor);
            }
        }
        let mut ends: Vec<PollFd<'_>> = signalled
            .values()
            .map(|child| PollFd::new(child, PollFlags::IN))
            .collect();
        // The end of a child ends the wait. Its time limit is short, because another thread may be starting
        // further children.
        let moment = Timespec {
            tv_sec: 0,
            tv_nsec: 10_000_000,
        };
        let _ = poll(&mut ends, Some(&moment));
    }
}

/// A handle for a child, if that process is still a child of this one once the handle is open.
fn open_child(pid: u32) -> Option<OwnedFd> {
    open_process(pid).filter(|_| is_running_child(pid))
}

/// A handle for the process that has this number now.
pub fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(pid.cast_signed())?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Children that have not ended.
fn children() -> Vec<u32> {
    let processes = process::all().into_iter().flatten();
    processes.filter(|pid| is_running_child(*pid)).collect()
}

fn is_running_child(pid: u32) -> bool {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // State and parent follow the name, which is in parentheses and may contain anything.
    let stat = String::from_utf8_lossy(&stat);
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return false;
    };
    let mut fields = rest.split(' ');
    let (state, parent) = (fields.next(), fields.next());
    !matches!(state, Some("Z" | "X")) && parent == Some(&getpid().to_string())
}
