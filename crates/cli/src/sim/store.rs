//! Finished runs on disk: an interrupted command continues from them.
//!
//! Each run is a file of its own, named after a digest of the simulator's source and of everything
//! that determines the run, so that runs of another program or with other parameters are never used
//! for it. Files get their names only when they are complete. A file has two lines: the run, and the
//! checksum of that line, so that a number that was changed on the disk is not taken for a result.

use std::path::{Path, PathBuf};

use causeway_command::failure::{Doing, Failure, Outcome};
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

/// The content of a file with this run, which is one line of JSON: that, and its checksum as a string of JSON.
fn with_checksum(run: &str) -> String {
    format!("{run}\n\"{}\"\n", hex(&Sha256::digest(run)))
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

    /// The results of a run with these parameters, if it was run before. A file that cannot be read, or has not two lines, counts
    /// as none.
    ///
    /// # Errors
    /// If the checksum is wrong.
    fn read<T: DeserializeOwned>(&self, parameters: &str) -> Outcome<Option<T>> {
        let path = self.path(parameters);
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(None);
        };
        let Some((run, _)) = text.split_once('\n') else {
            return Ok(None);
        };
        if text != with_checksum(run) {
            let what = format!("reading the finished run {}", path.display());
            let why = "its checksum is wrong: the file was changed after it was written";
            let hint = "remove the file, and the simulation is run again";
            return Err(Failure::new(what, why).hint(hint));
        }
        let kept: Option<Kept<T>> = serde_json::from_str(run).ok();
        let kept = kept.filter(|kept| kept.parameters == parameters);
        Ok(kept.map(|kept| kept.found))
    }

    fn write<T: Serialize>(&self, parameters: String, found: T) -> Outcome {
        let path = self.path(&parameters);
        let run = serde_json::to_string(&Kept { parameters, found });
        let run = run.doing(|| format!("writing {}", path.display()))?;
        whole_file::write(&path, with_checksum(&run).as_bytes())
    }

    /// The results of this run, if it was run before.
    pub(super) fn find(&self, task: &Task) -> Outcome<Option<TaskResult>> {
        let kept = self.read(&task.parameters())?;
        Ok(kept.map(KeptFound::found))
    }

    /// Keeps the results of this run.
    pub(super) fn keep(&self, task: &Task, found: &TaskResult) -> Outcome {
        self.write(task.parameters(), KeptFound::new(found))
    }

    /// The results of this run of a scenario, if it was run before.
    pub(super) fn find_run<T: DeserializeOwned>(&self, step: &Step<'_>) -> Outcome<Option<T>> {
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
        let find = |task| store.find(task).unwrap();
        assert_eq!(find(&tasks[0]), None);
        store.keep(&tasks[0], &found).unwrap();
        assert_eq!(find(&tasks[0]), Some(found));
        assert_eq!(find(&tasks[1]), None);
        let full = self::tasks(Effort::Full);
        assert_eq!(find(&full[0]), None, "fewer rounds are another run");
        std::fs::write(store.path(&tasks[0].parameters()), b"{").unwrap();
        assert_eq!(find(&tasks[0]), None);
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
    fn a_run_that_was_changed_on_the_disk_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let task = &tasks(Effort::Quick)[0];
        let found = |value| {
            TaskResult::Rows(vec![Row {
                series: "s".to_owned(),
                x: 4.0,
                value,
            }])
        };
        store.keep(task, &found(2.5)).unwrap();
        let path = store.path(&task.parameters());
        let kept = std::fs::read_to_string(&path).unwrap();
        let bits = |value: f64| value.to_bits().to_string();
        let forged = kept.replace(&bits(2.5), &bits(2.25));
        assert_ne!(forged, kept);
        std::fs::write(&path, &forged).unwrap();
        let failure = store.find(task).unwrap_err().to_string();
        assert!(failure.contains("its checksum is wrong"), "{failure}");
        assert!(failure.contains(path.to_str().unwrap()), "{failure}");
        for at in 0..kept.len() {
            let mut bytes = kept.clone().into_bytes();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let told = store.find(task);
            assert!(!matches!(told, Ok(Some(_))), "byte {at}: {told:?}");
        }
        std::fs::write(&path, with_checksum(forged.lines().next().unwrap())).unwrap();
        assert_eq!(store.find(task).unwrap(), Some(found(2.25)));
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
