//! What the measurements were made on.

use serde::{Deserialize, Serialize};

/// The commit that this program was built from.
pub(crate) const COMMIT: &str = env!("CAUSEWAY_COMMIT");
/// The program's version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The machine, as benchmarks record it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) processor: String,
    /// Processors that this process may use.
    pub(crate) cores: usize,
    /// Bytes of memory.
    pub(crate) memory_bytes: u64,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// Hardware architecture.
    pub(crate) architecture: String,
    /// Processes waiting to run when we looked, over the last minute.
    pub(crate) load: String,
}

impl Machine {
    /// Looks around.
    pub(crate) fn here() -> Self {
        let system = rustix::system::uname();
        let processor = first_value("/proc/cpuinfo", "model name")
            .unwrap_or_else(|| format!("unknown {}", system.machine().to_string_lossy()));
        let memory_kib = first_value("/proc/meminfo", "MemTotal")
            .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0).saturating_mul(1024),
            kernel: system.release().to_string_lossy().into_owned(),
            architecture: system.machine().to_string_lossy().into_owned(),
            load: load.split_whitespace().next().unwrap_or("?").to_owned(),
        }
    }

    /// One line for people.
    pub(crate) fn text(&self) -> String {
        format!(
            "{} × {}, {} of memory, Linux {} {}, load {}",
            self.cores,
            self.processor,
            crate::units::bytes_text(self.memory_bytes),
            self.kernel,
            self.architecture,
            self.load
        )
    }
}

/// The first `key : value` of a file in `/proc`.
fn first_value(file: &str, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// Nanoseconds of the clock that all processes of this machine share.
pub(crate) fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Bytes of a process's memory that are resident, from `/proc`.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let text = first_value(&format!("/proc/{pid}/status"), "VmRSS")?;
    let kib: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Bytes that are free in the file system that holds `path`, and whether that is a tmpfs.
pub(crate) fn free_space(path: &std::path::Path) -> std::io::Result<(u64, bool)> {
    let space = rustix::fs::statvfs(path)?;
    let kind = rustix::fs::statfs(path)?;
    Ok((
        space.f_bavail.saturating_mul(space.f_frsize),
        // TMPFS_MAGIC of linux/magic.h.
        kind.f_type == 0x0102_1994,
    ))
}

/// Seconds since the epoch, now.
pub(crate) fn now_seconds() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}
