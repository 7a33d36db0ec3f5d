//! Which process something belongs to: the one that made it, not a child that was forked off later.
//!
//! A child of `fork` has copies of all that its parent's memory holds, among them the names of descriptors and of
//! shared memory through which the parent talks to other processes. Code that acts on those has an [`Owner`], and
//! checks it first, by one load of a word that no process writes twice.
//!
//! The word lies in a page that the kernel clears in children, however they are forked off. Kernels that cannot do this
//! leave it to a handler that the C library calls in children of its `fork`.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of the mapping that the word lies in; the kernel gives whole pages.
const PAGE_BYTES: usize = 4096;

/// The word, once there is one. Not behind a lock or a `OnceLock`: another thread of the parent may have held it when
/// the child was forked.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The last number that was drawn for a process, by this one or one that it descends from.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The process that something belongs to.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// Holds the number of the process that runs; 0 in a child that owns nothing yet.
    word: &'static AtomicU64,
    number: u64,
}

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    /// If the system has no memory to detect forks with.
    pub fn this_process() -> io::Result<Self> {
        let word = word()?;
        let number = match word.load(Acquire) {
            0 => {
                let fresh = LAST.fetch_add(1, Relaxed) + 1;
                let drawn = word.compare_exchange(0, fresh, AcqRel, Acquire);
                drawn.map_or_else(|other| other, |_| fresh)
            }
            known => known,
        };
        Ok(Self { word, number })
    }

    /// Whether the calling process is the owner. A forked child is not. Usable in signal handlers.
    #[inline(always)]
    pub fn is_this_process(&self) -> bool {
        self.word.load(Relaxed) == self.number
    }
}

/// The word, made by the first call.
fn word() -> io::Result<&'static AtomicU64> {
    let known = WORD.load(Acquire);
    if !known.is_null() {
        // SAFETY: what `WORD` holds stays valid for ever, see below.
        return Ok(unsafe { &*known });
    }
    let (made, is_page) = match cleared_in_children() {
        Ok(word) => (word, true),
        Err(_) => (child_flag()?, false),
    };
    match WORD.compare_exchange(ptr::null_mut(), made, AcqRel, Acquire) {
        // SAFETY: a page that is never unmapped again, or a static.
        Ok(_) => Ok(unsafe { &*made }),
        Err(other) => {
            if is_page {
                // SAFETY: the page that was just made, which no other thread has seen.
                let _ = unsafe { munmap(made.cast(), PAGE_BYTES) };
            }
            // SAFETY: as above: another thread was first.
            Ok(unsafe { &*other })
        }
    }
}

/// A word in a page of its own that the kernel clears in children.
fn cleared_in_children() -> io::Result<*mut AtomicU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses.
    let page = unsafe { mmap_anonymous(ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE)? };
    // SAFETY: the whole mapping, whose contents stay as they are in this process.
    if let Err(error) = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) } {
        // SAFETY: as above; no other thread has seen it.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
        return Err(error.into());
    }
    Ok(page.cast())
}

/// A word that a handler, registered with the C library, clears in children.
fn child_flag() -> io::Result<*mut AtomicU64> {
    static CHILD_FLAG: AtomicU64 = AtomicU64::new(0);
    extern "C" fn clear() {
        CHILD_FLAG.store(0, Relaxed);
    }
    // SAFETY: the handler touches an atomic only, which is allowed in a child of a process of several threads.
    match unsafe { libc::pthread_atfork(None, None, Some(clear)) } {
        0 => Ok(ptr::from_ref(&CHILD_FLAG).cast_mut()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// For tests of what forks: runs `body` in a child that is a copy of this process, and returns the child's process id. The child ends with
/// status 0 when `body` returns, with 101 if it panics; nothing of this process is dropped or flushed there.
///
/// # Errors
/// If the system refuses, or the process has threads beside the calling one. Those of this library's own, whose names
/// begin with `causeway-`, hold no lock that a child could need.
#[cfg(any(test, feature = "run-in-child"))]
pub fn run_in_child(body: impl FnOnce()) -> io::Result<i32> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let task = task?;
        let name = std::fs::read_to_string(task.path().join("comm"))?;
        let is_caller = task.file_name().to_str() == Some(&own_thread().to_string());
        if !is_caller && !name.starts_with("causeway-") {
            let text = format!("the thread `{}` may hold locks", name.trim_end());
            return Err(io::Error::other(text));
        }
    }
    // SAFETY: no other thread holds a lock that the child could wait for, as was just looked up.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let status = if result.is_ok() { 0 } else { 101 };
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(status) }
        }
        child => Ok(child),
    }
}

#[cfg(any(test, feature = "run-in-child"))]
fn own_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exit status of a child that only reads atomics, as is allowed beside other threads.
    fn status_of(child: impl Fn() -> i32) -> i32 {
        // SAFETY: the child touches atomics and makes system calls only.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(child()) };
        }
        let mut status = 0;
        // SAFETY: a valid address to write to, and a child of this process.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status));
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_child_owns_nothing_of_its_parent() {
        let parents = Owner::this_process().unwrap();
        assert!(parents.is_this_process());
        let seen = status_of(|| {
            let before = parents.is_this_process();
            let Ok(own) = Owner::this_process() else {
                return 100;
            };
            i32::from(before)
                | i32::from(parents.is_this_process()) << 1
                | i32::from(own.is_this_process()) << 2
                | i32::from(own.number == parents.number) << 3
        });
        assert_eq!(seen, 1 << 2, "what the child saw");
        assert!(parents.is_this_process());
        assert_eq!(Owner::this_process().unwrap().number, parents.number);
    }

    /// For both ways of detecting a fork.
    #[test]
    fn the_word_is_cleared_in_children_only() {
        for word in [cleared_in_children().unwrap(), child_flag().unwrap()] {
            // SAFETY: both stay valid for ever.
            let word = unsafe { &*word };
            word.store(7, Relaxed);
            assert_eq!(status_of(|| word.load(Relaxed) as i32), 0);
            assert_eq!(word.load(Relaxed), 7);
        }
    }

    #[test]
    fn a_process_of_several_threads_is_not_copied() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || ended.recv());
        let refused = run_in_child(|| {}).unwrap_err().to_string();
        assert!(refused.contains("may hold locks"), "{refused}");
        drop(end);
        assert!(thread.join().unwrap().is_err());
    }
}
