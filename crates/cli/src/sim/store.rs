//! Finished runs on disk: an interrupted command continues from them.
//!
//! Each run is a file of its own, named after a digest of the simulator's source and of everything
//! that determines the run, so that runs of another program or with other parameters are never used
//! for it. Files get their names only when they are complete.

use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Outcome};
use causeway_command::output::hex;
use causeway_command::whole_file;
use causeway_sim::catalogue::{Task, TaskResult};
use causeway_sim::figures::Row;
use causeway_sim::figures::table::Cell;
use causeway_sim::scenario::Step;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Identifies the source that the simulator was built from.
pub(super) const SIMULATOR: &str = env!("CAUSEWAY_SIMULATOR");

/// Characters of a digest in hexadecimal.
const DIGEST: usize = 64;

/// A run with its results. Numbers are kept as bit patterns, so that none is rounded.
#[derive(Debug, Serialize, Deserialize)]
struct Kept<T> {
    parameters: String,
    found: T,
}

/// A cell of a table: case, size, printed value, simulated value, those of its runs.
type KeptCell = (String, u32, Option<u64>, u64, Vec<u64>);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptFound {
    /// A point of a figure: series, x, value.
    Rows(Vec<(String, u64, u64)>),
    /// Cells of a table.
    Cells(Vec<KeptCell>),
}

impl KeptFound {
    fn new(found: &TaskResult) -> Self {
        match found {
            TaskResult::Rows(rows) => Self::Rows(
                rows.iter()
                    .map(|row| (row.series.clone(), row.x.to_bits(), row.value.to_bits()))
                    .collect(),
            ),
            TaskResult::Cells(cells) => Self::Cells(
                cells
                    .iter()
                    .map(|cell| {
                        let paper = cell.paper.map(f64::to_bits);
                        let causeway = cell.causeway.to_bits();
                        let values = cell.values.iter().map(|value| value.to_bits()).collect();
                        (cell.case.clone(), cell.size_bytes, paper, causeway, values)
                    })
                    .collect(),
            ),
        }
    }

    fn found(self) -> TaskResult {
        match self {
            Self::Rows(rows) => TaskResult::Rows(
                rows.into_iter()
                    .map(|(series, x, value)| Row {
                        series,
                        x: f64::from_bits(x),
                        value: f64::from_bits(value),
                    })
                    .collect(),
            ),
            Self::Cells(cells) => TaskResult::Cells(
                cells
                    .into_iter()
                    .map(|(case, size_bytes, paper, causeway, values)| Cell {
                        case,
                        size_bytes,
                        paper: paper.map(f64::from_bits),
                        causeway: f64::from_bits(causeway),
                        values: values.into_iter().map(f64::from_bits).collect(),
                    })
                    .collect(),
            ),
        }
    }
}

/// The parameters of a run of a scenario, which may hold a trace of any length, by their digest.
fn run_parameters(step: &Step<'_>) -> String {
    format!("run {}", hex(&Sha256::digest(step.parameters())))
}

/// A directory of finished runs.
pub(super) struct Store {
    directory: PathBuf,
}

impl Store {
    /// Opens the directory; makes it if it does not exist.
    pub(super) fn open(directory: &Path) -> Outcome<Self> {
        std::fs::create_dir_all(directory).doing(|| {
            format!(
                "making the directory of finished runs {}",
                directory.display()
            )
        })?;
        Ok(Self {
            directory: directory.to_owned(),
        })
    }

    fn path(&self, parameters: &str) -> PathBuf {
        let mut digest = Sha256::new();
        digest.update(SIMULATOR);
        digest.update([0]);
        digest.update(parameters);
        let name = hex(&digest.finalize());
        self.directory.join(format!("{name}.json"))
    }

    /// The results of a run with these parameters, if it was run before. A file that cannot be read counts as none.
    fn read<T: DeserializeOwned>(&self, parameters: &str) -> Option<T> {
        let bytes = std::fs::read(self.path(parameters)).ok()?;
        let kept: Kept<T> = serde_json::from_slice(&bytes).ok()?;
        (kept.parameters == parameters).then_some(kept.found)
    }

    fn write<T: Serialize>(&self, parameters: String, found: T) -> Outcome {
        let path = self.path(&parameters);
        let bytes = serde_json::to_vec(&Kept { parameters, found });
        let bytes = bytes.doing(|| format!("writing {}", path.display()))?;
        whole_file::write(&path, &bytes)
    }

    /// The results of this run, if it was run before.
    pub(super) fn find(&self, task: &Task) -> Option<TaskResult> {
        self.read(&task.parameters()).map(KeptFound::found)
    }

    /// Keeps the results of this run.
    pub(super) fn keep(&self, task: &Task, found: &TaskResult) -> Outcome {
        self.write(task.parameters(), KeptFound::new(found))
    }

    /// The results of this run of a scenario, if it was run before.
    pub(super) fn find_run<T: DeserializeOwned>(&self, step: &Step<'_>) -> Option<T> {
        self.read(&run_parameters(step))
    }

    /// Keeps the results of this run of a scenario.
    pub(super) fn keep_run<T: Serialize>(&self, step: &Step<'_>, found: &T) -> Outcome {
        self.write(run_parameters(step), found)
    }

    /// Removes the directory if no run was finished.
    pub(super) fn close(&self) {
        // Fails if runs are in it, as it should.
        let _ = std::fs::remove_dir(&self.directory);
    }

    /// Removes all finished runs, and the directory if nothing else is in it.
    pub(super) fn clear(&self) {
        let entries = std::fs::read_dir(&self.directory);
        for entry in entries.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            let is_finished = name.strip_suffix(".json").is_some_and(|stem| {
                stem.len() == DIGEST && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            // A file left by a command that was killed.
            let is_partial = whole_file::is_partial(name);
            if is_finished || is_partial {
                // A file that cannot be removed stays; nothing depends on it.
                let _ = std::fs::remove_file(entry.path());
            }
        }
        // Fails if something else is in it, as it should.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_sim::catalogue;
    use causeway_sim::figures::Effort;

    fn tasks(effort: Effort) -> Vec<Task> {
        let figure = catalogue::all()
            .into_iter()
            .find(|entry| entry.number() == "4.12")
            .unwrap();
        figure.tasks(effort).unwrap()
    }

    #[test]
    fn runs_are_found_again_to_the_last_bit_and_only_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("a/b")).unwrap();
        let tasks = tasks(Effort::Quick);
        let found = TaskResult::Rows(vec![Row {
            series: "s".to_owned(),
            x: 0.1 + 0.2,
            value: 1.0 / 3.0,
        }]);
        assert_eq!(store.find(&tasks[0]), None);
        store.keep(&tasks[0], &found).unwrap();
        assert_eq!(store.find(&tasks[0]), Some(found));
        assert_eq!(store.find(&tasks[1]), None);
        let full = self::tasks(Effort::Full);
        assert_eq!(store.find(&full[0]), None, "fewer rounds are another run");
        std::fs::write(store.path(&tasks[0].parameters()), b"{").unwrap();
        assert_eq!(store.find(&tasks[0]), None);
        std::fs::write(directory.path().join("a/b/note"), b"mine").unwrap();
        std::fs::write(directory.path().join("a/b/.causeway-x.partial"), b"half").unwrap();
        store.clear();
        let left = std::fs::read_dir(directory.path().join("a/b")).unwrap();
        assert_eq!(left.count(), 1);
        std::fs::remove_file(directory.path().join("a/b/note")).unwrap();
        store.clear();
        assert!(!directory.path().join("a/b").exists());
    }

    #[test]
    fn cells_are_kept_too() {
        let found = TaskResult::Cells(vec![Cell {
            case: "svia/send/0".to_owned(),
            size_bytes: 4,
            paper: None,
            causeway: 2.7,
            values: vec![2.5, 2.9],
        }]);
        assert_eq!(KeptFound::new(&found).found(), found);
    }
}
