//! The machine of the measurements.

use serde::{Deserialize, Serialize};

/// The commit that this program was built from.
pub const COMMIT: &str = env!("CAUSEWAY_COMMIT");
/// The program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The program's version and commit, as printed by `causeway --version`.
pub const PROGRAM: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (",
    env!("CAUSEWAY_COMMIT"),
    ")"
);

/// The machine, as benchmarks record it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Hardware architecture.
    pub architecture: String,
    /// The load average over the last minute.
    pub load: String,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
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
    pub fn text(&self) -> String {
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
