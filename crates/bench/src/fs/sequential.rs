//! One large file, written and read by several processes, beside `dd` on the same storage, and the cost of its checksums.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use causeway_command::failure::{Doing, Outcome};
use causeway_command::remote::PIECE_BYTES;
use causeway_fs::client::CreateOptions;

use super::content::Content;
use super::limits;
use super::processes::ClientProcesses;
use super::setup::{Bench, Setup};
use super::worker::{Order, Part};

/// Most client processes: with more than the machine's processors, figures of one file mean little.
const MOST_CLIENTS: usize = 4;
const FILE: &str = "/large";

/// Values of all runs, by case.
#[derive(Default)]
struct Values(BTreeMap<String, Vec<f64>>);

impl Values {
    fn push(&mut self, case: String, value: f64) {
        self.0.entry(case).or_default().push(value);
    }
}

/// Measures writing and reading one large file.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    bench.benchmark.note(
        "the memory is warmed before each run: the first touch of a page that the host has not \
         backed yet is slow, so a file of the same size is written and removed first; dd and \
         causeway alternate"
            .to_owned(),
    );
    let mut setups = [
        (Sums::Kept, bench.start()?),
        (Sums::None, bench.start_unchecked()?),
    ];
    let [(_, setup), _] = &setups;
    let source = setup.scratch.path().join("source");
    let target = setup.scratch.path().join("target");
    write_source(&source, bench.size)?;
    let counts: Vec<usize> = bench
        .clients
        .iter()
        .copied()
        .filter(|count| *count <= MOST_CLIENTS)
        .collect();
    let mut values = Values::default();
    for &clients in &counts {
        let mut sides = Vec::new();
        for (sums, setup) in &mut setups {
            let processes = ClientProcesses::start(&setup.cluster, clients)?;
            sides.push(Side {
                sums: *sums,
                setup,
                processes,
            });
        }
        for _ in 0..bench.runs {
            one_run(bench, &mut sides, &source, &target, &mut values)?;
            // The order alternates between runs.
            sides.reverse();
        }
    }
    show(bench, &values);
    Ok(())
}

/// Whether the files of a file system have checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sums {
    Kept,
    None,
}

/// One of the file systems that are measured alternately, and its clients.
struct Side<'a> {
    sums: Sums,
    setup: &'a mut Setup,
    processes: ClientProcesses,
}

fn one_run(
    bench: &Bench,
    sides: &mut [Side<'_>],
    source: &Path,
    target: &Path,
    values: &mut Values,
) -> Outcome {
    for (shared, kind) in [(true, "shared-buffers"), (false, "ordinary-memory")] {
        let mut unchecked = [0.0; 2];
        let mut checked = [0.0; 2];
        for side in &mut *sides {
            warm(target, bench.size)?;
            let write_limit = megabytes(bench.size, limits::dd(source, target)?);
            remove(target)?;
            let ours = side.transfer(bench, shared)?;
            let read_limit = megabytes(bench.size, limits::dd(source, Path::new("/dev/null"))?);
            match side.sums {
                Sums::None => unchecked = ours,
                Sums::Kept => checked = ours,
            }
            for (index, (what, limit)) in [("write", write_limit), ("read", read_limit)]
                .into_iter()
                .enumerate()
            {
                values.push(format!("{what}/dd"), limit);
                if side.sums == Sums::Kept {
                    let case = format!("{what}/{kind}/{}-clients", side.processes.len());
                    values.push(format!("{case}/to-dd"), ours[index] / limit);
                    values.push(case, ours[index]);
                }
            }
        }
        let clients = sides.first().map_or(0, |side| side.processes.len());
        for (index, what) in ["write", "read"].into_iter().enumerate() {
            let case = format!("{what}/{kind}/{clients}-clients");
            values.push(
                format!("{case}/to-without-checksums"),
                checked[index] / unchecked[index],
            );
            values.push(format!("{case}/without-checksums"), unchecked[index]);
        }
    }
    Ok(())
}

impl Side<'_> {
    /// Writes, reads and compares the file once. Returns MB/s of writing and of reading.
    fn transfer(&mut self, bench: &Bench, shared: bool) -> Outcome<[f64; 2]> {
        let clients = self.processes.len();
        let part = |number: usize| part_of(bench.size, number, clients, shared);
        // The file is made anew for each run, in pages that were freed a moment ago, as dd's.
        self.setup.client.create(
            FILE.as_bytes(),
            &CreateOptions {
                exclusive: true,
                ..CreateOptions::default()
            },
        )?;
        let written = self
            .processes
            .measure(|number| Order::Write(part(number)))?;
        let read = self.processes.measure(|number| Order::Read(part(number)))?;
        self.processes
            .measure(|number| Order::Compare(part(number)))?;
        self.setup.client.unlink(FILE.as_bytes())?;
        Ok([written.megabytes(bench.size), read.megabytes(bench.size)])
    }
}

fn megabytes(size: u64, seconds: f64) -> f64 {
    size as f64 / 1e6 / seconds.max(1e-9)
}

fn show(bench: &mut Bench, values: &Values) {
    let size = bench.size;
    for (case, values) in &values.0 {
        let (benchmark, full) = (&mut bench.benchmark, format!("sequential/{case}"));
        match case {
            case if case.ends_with("/to-dd") || case.ends_with("/to-without-checksums") => {
                benchmark.ours(&full, size, "ratio", values);
            }
            case if case.ends_with("/dd") => {
                benchmark.limit(&full, size, "bandwidth_mb_s", values);
            }
            _ => benchmark.ours(&full, size, "bandwidth_mb_s", values),
        }
    }
}

/// The part of one process: whole pieces, the last one with the rest.
fn part_of(size: u64, number: usize, clients: usize, shared: bool) -> Part {
    let piece = PIECE_BYTES as u64;
    let pieces = size.div_ceil(piece);
    let cut = |number: usize| (pieces * number as u64 / clients as u64 * piece).min(size);
    Part {
        path: FILE.to_owned(),
        from: cut(number),
        to: cut(number + 1),
        shared,
    }
}

/// Writes a local file with the content of the large one.
pub(super) fn write_source(path: &Path, size: u64) -> Outcome {
    let doing = || format!("writing {}", path.display());
    let mut file = std::fs::File::create(path).doing(doing)?;
    let mut bytes = vec![0; PIECE_BYTES];
    let mut offset = 0;
    while offset < size {
        Content::fill(offset, &mut bytes);
        let len = usize::try_from(size - offset)
            .unwrap_or(PIECE_BYTES)
            .min(PIECE_BYTES);
        file.write_all(bytes.get(..len).unwrap_or_default())
            .doing(doing)?;
        offset += len as u64;
    }
    Ok(())
}

/// Touches and frees as many pages as the next measurement needs: twice the file's, because dd's copy
/// is gone before Causeway's file is written.
fn warm(path: &Path, size: u64) -> Outcome {
    write_source(path, size)?;
    remove(path)
}

fn remove(path: &Path) -> Outcome {
    std::fs::remove_file(path).doing(|| format!("removing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_the_file_once() {
        for size in [1, PIECE_BYTES as u64, 1 << 30, (1 << 30) + 12_345] {
            for clients in 1..=4 {
                let mut at = 0;
                for number in 0..clients {
                    let part = part_of(size, number, clients, true);
                    assert_eq!(part.from, at);
                    at = part.to;
                }
                assert_eq!(at, size);
            }
        }
    }
}
