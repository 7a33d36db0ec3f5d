//! Faults that are built in on purpose: they prove that tests detect them.
//!
//! Each switch disables one safeguard of data. Switches exist only if the feature `sabotage` was compiled
//! in, which only tests enable; without it `is_on` is always false and leaves no code. A process takes its
//! switch from the environment variable [`VARIABLE`], a test inside it from `turn_on`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use crate::locks::lock;

/// Whether the switches were compiled in.
const IS_COMPILED: bool = cfg!(feature = "sabotage");

/// Environment variable that names the switch of a process.
pub const VARIABLE: &str = "CAUSEWAY_SABOTAGE";

/// Environment variable of a server that names a file: while that exists, its storage stalls.
pub const STALL: &str = "CAUSEWAY_STALL";

/// Environment variable of a server that names a file: while that exists, syncs fail with the error number
/// in it.
pub const FAIL_SYNCS: &str = "CAUSEWAY_FAIL_SYNCS";

/// Environment variable of a server with the number that it takes for the identity of its host's boot: for simulated loss of power.
pub const BOOT: &str = "CAUSEWAY_BOOT";

/// A safeguard that a server or client leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Sabotage {
    /// Blocks are returned without comparing their checksums.
    SkipChecksum = 1,
    /// A server accepts any directory as its own.
    AcceptDirectory,
    /// The flush of a datafile succeeds without flushing.
    DropFlush,
    /// A commit is acknowledged before it is durable.
    DropCommit,
    /// Bytes that a datafile lacks read as zeros.
    IgnoreLength,
    /// A repeated change is carried out again.
    ForgetReplies,
    /// Writes that overlap are stored in any order, and those that their client has abandoned as well.
    StaleWrites,
    /// A scrub accepts every block.
    BlindScrub,
    /// A repeated write is stored again, even if it was overwritten since.
    RepeatWrites,
}

impl Sabotage {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::SkipChecksum,
        Self::AcceptDirectory,
        Self::DropFlush,
        Self::DropCommit,
        Self::IgnoreLength,
        Self::ForgetReplies,
        Self::StaleWrites,
        Self::BlindScrub,
        Self::RepeatWrites,
    ];

    /// The name for [`VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Self::SkipChecksum => "skip-checksum",
            Self::AcceptDirectory => "accept-directory",
            Self::DropFlush => "drop-flush",
            Self::DropCommit => "drop-commit",
            Self::IgnoreLength => "ignore-length",
            Self::ForgetReplies => "forget-replies",
            Self::StaleWrites => "stale-writes",
            Self::BlindScrub => "blind-scrub",
            Self::RepeatWrites => "repeat-writes",
        }
    }
}

/// Number of the switch that is on; 0 for none.
static ON: LazyLock<AtomicU8> = LazyLock::new(|| {
    let named = std::env::var(VARIABLE).ok();
    let found = Sabotage::ALL
        .into_iter()
        .find(|one| Some(one.name()) == named.as_deref());
    AtomicU8::new(found.map_or(0, |one| one as u8))
});

/// The boot identity that a test has set.
static PRETENDED_BOOT: LazyLock<Mutex<Option<u128>>> = LazyLock::new(|| {
    let named = std::env::var(BOOT).ok();
    Mutex::new(named.and_then(|number| number.parse().ok()))
});

/// Makes the host count as rebooted if `boot` is another number: for simulated loss of power.
#[cfg(feature = "sabotage")]
pub fn pretend_boot(boot: Option<u128>) {
    *lock(&PRETENDED_BOOT) = boot;
}

static FROZEN: AtomicBool = AtomicBool::new(false);

/// Stalls the storage of this process from now on, or resumes it.
#[cfg(feature = "sabotage")]
pub fn freeze(frozen: bool) {
    FROZEN.store(frozen, Ordering::Release);
}

/// Waits while the storage is frozen, or the file exists that [`STALL`] names.
#[inline]
pub(crate) fn stall() {
    if !IS_COMPILED {
        return;
    }
    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(STALL).map(PathBuf::from));
    while FROZEN.load(Ordering::Acquire) || FILE.as_ref().is_some_and(|file| file.exists()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

static FAILING: AtomicU32 = AtomicU32::new(0);

/// Makes the next `count` syncs of datafiles fail in this process.
#[cfg(feature = "sabotage")]
pub fn fail_next_syncs(count: u32) {
    FAILING.store(count, Ordering::Release);
}

/// Fails like a sync whose device has failed, if a test has requested that.
#[inline]
pub(crate) fn fail_sync() -> io::Result<()> {
    if !IS_COMPILED {
        return Ok(());
    }
    fail_every_sync()?;
    let fewer = |count: u32| count.checked_sub(1);
    match FAILING.fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer) {
        Ok(_) => Err(rustix::io::Errno::IO.into()),
        Err(_) => Ok(()),
    }
}

/// Fails while the file exists that [`FAIL_SYNCS`] names, with the error number in it.
#[inline]
pub(crate) fn fail_every_sync() -> io::Result<()> {
    if !IS_COMPILED {
        return Ok(());
    }
    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os(FAIL_SYNCS).map(PathBuf::from));
    let Some(file) = FILE.as_ref() else {
        return Ok(());
    };
    let Ok(text) = std::fs::read_to_string(file) else {
        return Ok(());
    };
    let errno = text
        .trim()
        .parse()
        .unwrap_or(rustix::io::Errno::IO.raw_os_error());
    Err(io::Error::from_raw_os_error(errno))
}

/// The boot identity of the host that a test has set.
pub(crate) fn pretended_boot() -> Option<u128> {
    IS_COMPILED.then(|| *lock(&PRETENDED_BOOT)).flatten()
}

/// Whether this process leaves `what` out.
#[inline]
pub(crate) fn is_on(what: Sabotage) -> bool {
    IS_COMPILED && ON.load(Ordering::Relaxed) == what as u8
}

/// Makes this process leave out `what`, or nothing.
#[cfg(feature = "sabotage")]
pub fn turn_on(what: Option<Sabotage>) {
    ON.store(what.map_or(0, |one| one as u8), Ordering::Relaxed);
}
