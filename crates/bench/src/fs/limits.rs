//! The limits of the machine: `dd` on the same storage, in the same run.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use causeway_command::failure::{Doing, Failure, Outcome};

/// Seconds that `dd bs=4M` needs to copy `from` to `to`, by its own account.
pub(crate) fn dd(from: &Path, to: &Path) -> Outcome<f64> {
    let what = || format!("running dd from {} to {}", from.display(), to.display());
    let started = Instant::now();
    let output = Command::new("dd")
        .arg(format!("if={}", from.display()))
        .arg(format!("of={}", to.display()))
        .arg("bs=4M")
        .env("LC_ALL", "C")
        .output()
        .doing(what)?;
    let wall = started.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(Failure::new(what(), said.trim()));
    }
    // dd's own account excludes its start: in its favour.
    Ok(seconds_of(&said).unwrap_or(wall))
}

/// Reads `1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.512 s, 2.1 GB/s`.
fn seconds_of(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains(" copied, "))?;
    let after = line.split_once(" copied, ")?.1;
    after
        .split_once(" s")?
        .0
        .trim()
        .parse()
        .ok()
        .filter(|seconds| *seconds > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read_from_output_of_dd() {
        let said = "256+0 records in\n256+0 records out\n\
                    1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.512 s, 2.1 GB/s\n";
        assert_eq!(seconds_of(said), Some(0.512));
        assert_eq!(seconds_of("dd: unknown"), None);
    }
}
