//! A library that Causeway is compared with, and how its programs are found.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::child::{Failed, Program};
use crate::compare::trial::Trial;
use crate::parts::figure::Figure;

/// How long a program may take to print its version.
const VERSION: Duration = Duration::from_secs(15);

/// A library that was found.
pub(crate) trait Peer {
    /// Its name with its version: `openmpi-5.0.11`.
    fn name(&self) -> &str;

    /// Whether the library has the pattern at all.
    fn can(&self, trial: &Trial) -> bool;

    /// Runs a pattern once, and adds its figures. Fails if the run did not finish; figures up to
    /// there are added.
    fn run(&mut self, trial: &Trial, figures: &mut Vec<Figure>) -> Result<(), Failed>;
}

/// Where programs are searched for, and where they work.
#[derive(Debug)]
pub(crate) struct Places {
    /// The directory that `make peers` filled.
    pub(crate) peers: PathBuf,
    /// Directories of programs.
    pub(crate) path: Vec<PathBuf>,
    /// A directory for programs that are built and for files that launchers leave.
    pub(crate) scratch: PathBuf,
}

impl Places {
    /// The first of some names that is a program.
    pub(crate) fn program(&self, names: &[&str]) -> Option<PathBuf> {
        let mut places = self.path.iter();
        places.find_map(|place| names.iter().find_map(|name| program_at(&place.join(name))))
    }

    /// The version that a program prints when it is started with `flag`.
    pub(crate) fn version(&self, program: &str, flag: &str) -> String {
        let program = self.program(&[program]);
        let said = program.and_then(|program| Program::new(&program, &[flag]).run(VERSION).ok());
        said.and_then(|said| version_in(&said))
            .unwrap_or_else(|| "unknown".to_owned())
    }
}

/// The path, if there is a file that may be executed.
pub(crate) fn program_at(path: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let data = std::fs::metadata(path).ok()?;
    (data.is_file() && data.permissions().mode() & 0o111 != 0).then(|| path.to_owned())
}

/// The first part of a text that looks like a version: `5.0.11`.
pub(crate) fn version_in(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-')))
        .map(|word| word.split('-').next().unwrap_or(word))
        .find(|word| {
            let mut parts = word.split('.');
            let numbers = parts.clone().all(|part| part.parse::<u32>().is_ok());
            numbers && parts.by_ref().count() >= 2
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_output_of_programs() {
        for (said, version) in [
            ("mpirun (Open MPI) 5.0.11\n\nReport bugs to", "5.0.11"),
            ("mpirun.openmpi (OpenRTE) 4.1.4\n", "4.1.4"),
            ("HYDRA build details:\n    Version:        4.0.2\n", "4.0.2"),
            ("# Version 1.13.1\n# Git branch '<unknown>'", "1.13.1"),
            ("fi_info: 1.17.0\nlibfabric: 1.17.0\n", "1.17.0"),
        ] {
            assert_eq!(version_in(said).as_deref(), Some(version), "{said}");
        }
        assert_eq!(version_in("no version, only 7 words and v1"), None);
    }
}
