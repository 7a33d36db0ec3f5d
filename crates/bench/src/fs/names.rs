//! Names and small files: creates, stats, listings, removals, in one directory and in many.

use causeway_command::failure::Outcome;

use super::processes::ClientProcesses;
use super::setup::{Bench, Setup};
use super::worker::Order;

/// Sizes of small files.
const SMALL: [usize; 3] = [1 << 10, 4 << 10, 16 << 10];
/// Client processes of the measurement of commits.
const COMMIT_CLIENTS: usize = 8;

/// Where the processes of a measurement work.
#[derive(Clone, Copy)]
enum DirectoryLayout {
    /// All in one directory.
    One,
    /// Each in its own.
    Many,
}

impl DirectoryLayout {
    fn name(self) -> &'static str {
        match self {
            Self::One => "one-dir",
            Self::Many => "many-dirs",
        }
    }

    fn directory(self, round: u32, number: usize) -> String {
        match self {
            Self::One => format!("/one-{round}"),
            Self::Many => format!("/many-{round}-{number}"),
        }
    }

    /// The paths of all directories of a round.
    fn directories(self, round: u32, clients: usize) -> impl Iterator<Item = String> {
        let count = match self {
            Self::One => 1,
            Self::Many => clients,
        };
        (0..count).map(move |number| self.directory(round, number))
    }

    fn make(self, setup: &mut Setup, round: u32, clients: usize) -> Outcome {
        for path in self.directories(round, clients) {
            setup.client.make_directory(path.as_bytes(), 0o755, None)?;
        }
        Ok(())
    }

    fn remove(self, setup: &mut Setup, round: u32, clients: usize) -> Outcome {
        for path in self.directories(round, clients) {
            setup.client.remove_directory(path.as_bytes())?;
        }
        Ok(())
    }
}

/// Creates, stats, listings and removals of empty files.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    let mut setup = bench.start()?;
    for clients in bench.clients.clone() {
        let mut processes = ClientProcesses::start(&setup.cluster, clients)?;
        for place in [DirectoryLayout::One, DirectoryLayout::Many] {
            let count = (bench.files / clients as u64).max(1);
            let mut rates: [Vec<f64>; 5] = Default::default();
            for round in 0..bench.runs {
                place.make(&mut setup, round, clients)?;
                let at = |number: usize| place.directory(round, number);
                let create = |batch: bool| {
                    move |number: usize| Order::Create {
                        directory: place.directory(round, number),
                        count,
                        size: 0,
                        batch,
                    }
                };
                let unlink = |number: usize| Order::Unlink {
                    directory: place.directory(round, number),
                    count,
                };
                let took = [
                    processes.measure(create(false))?,
                    processes.measure(|number| Order::Stat {
                        directory: at(number),
                        count,
                    })?,
                    processes.measure(|number| Order::List {
                        directory: at(number),
                    })?,
                    processes.measure(unlink)?,
                    processes.measure(create(true))?,
                ];
                processes.measure(unlink)?;
                place.remove(&mut setup, round, clients)?;
                for (rates, took) in rates.iter_mut().zip(took) {
                    rates.push(took.rate());
                }
            }
            let operations = ["create", "stat", "list", "unlink", "create-batch"];
            for (operation, rates) in operations.iter().zip(&rates) {
                let case = format!("{operation}/{}/{clients}-clients", place.name());
                bench.benchmark.ours(&case, 0, "rate_per_s", rates);
            }
        }
    }
    Ok(())
}

/// Writing and reading small files.
pub(super) fn small_files(bench: &mut Bench) -> Outcome {
    let mut setup = bench.start()?;
    for clients in bench.clients.clone() {
        let mut processes = ClientProcesses::start(&setup.cluster, clients)?;
        for size in SMALL {
            let count = (bench.files / 2 / clients as u64).max(1);
            let (mut written, mut read) = (Vec::new(), Vec::new());
            for round in 0..bench.runs {
                DirectoryLayout::Many.make(&mut setup, round, clients)?;
                let at = |number: usize| DirectoryLayout::Many.directory(round, number);
                let took = processes.measure(|number| Order::Create {
                    directory: at(number),
                    count,
                    size,
                    batch: false,
                })?;
                written.push(took.rate());
                let took = processes.measure(|number| Order::ReadFiles {
                    directory: at(number),
                    count,
                    size,
                })?;
                read.push(took.rate());
                processes.measure(|number| Order::Unlink {
                    directory: at(number),
                    count,
                })?;
                DirectoryLayout::Many.remove(&mut setup, round, clients)?;
            }
            for (what, rates) in [("write", &written), ("read", &read)] {
                let case = format!("small-files/{what}/{clients}-clients");
                bench
                    .benchmark
                    .ours(&case, size as u64, "rate_per_s", rates);
            }
        }
    }
    Ok(())
}

/// Creates with full durability on disk: many in one commit, against a commit for each.
pub(super) fn commits(bench: &mut Bench) -> Outcome {
    bench.benchmark.note(format!(
        "commits: storage in {}, durability synced, {COMMIT_CLIENTS} client processes; `one` keeps \
         one create of each client in flight, `batch` as many as a client's session has slots",
        bench.disk.display()
    ));
    // One in flight, then batches; each with group commit, then with a commit for each.
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..bench.runs {
        for (kind, each) in [false, true].into_iter().enumerate() {
            let mut setup = bench.start_synced(each)?;
            let mut processes = ClientProcesses::start(&setup.cluster, COMMIT_CLIENTS)?;
            // A commit for each is slow: fewer of them take as long.
            let files = if each { bench.files / 4 } else { bench.files };
            let count = (files / COMMIT_CLIENTS as u64).max(1);
            for (batch, rates) in [false, true].into_iter().zip(&mut rates) {
                let place = if batch {
                    DirectoryLayout::Many
                } else {
                    DirectoryLayout::One
                };
                place.make(&mut setup, round, COMMIT_CLIENTS)?;
                let took = processes.measure(|number| Order::Create {
                    directory: place.directory(round, number),
                    count,
                    size: 0,
                    batch,
                })?;
                if let Some(rates) = rates.get_mut(kind) {
                    rates.push(took.rate());
                }
            }
        }
    }
    for (how, [group, each]) in ["one", "batch"].iter().zip(&rates) {
        let case = |kind: &str| format!("create-synced/{kind}/{how}/{COMMIT_CLIENTS}-clients");
        let benchmark = &mut bench.benchmark;
        benchmark.ours(&case("group-commit"), 0, "rate_per_s", group);
        benchmark.ours(&case("commit-each"), 0, "rate_per_s", each);
        let ratio = format!("{}/to-commit-each", case("group-commit"));
        benchmark.ratio(&ratio, 0, group, each);
    }
    Ok(())
}
