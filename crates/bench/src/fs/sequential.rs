//! One large file, written and read by several processes, beside `dd` on the same storage.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use causeway_command::failure::{Doing, Outcome};
use causeway_command::remote::PIECE_BYTES;
use causeway_fs::client::CreateOptions;
use causeway_fs::config::Durability;

use super::content::Content;
use super::crew::Crew;
use super::limits;
use super::stage::{Bench, Stage};
use super::worker::{Order, Part};

/// Most client processes: more than the machine has processors says little about one file.
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
    let mut stage = bench.start(&bench.storage.clone(), Durability::Relaxed, false)?;
    let source = stage.scratch.path().join("source");
    let target = stage.scratch.path().join("target");
    write_source(&source, bench.size)?;
    let counts: Vec<usize> = bench
        .clients
        .iter()
        .copied()
        .filter(|count| *count <= MOST_CLIENTS)
        .collect();
    let mut values = Values::default();
    for &clients in &counts {
        let mut crew = Crew::start(&stage.cluster, clients)?;
        for _ in 0..bench.runs {
            one_run(bench, &mut stage, &mut crew, &source, &target, &mut values)?;
        }
    }
    show(bench, &values);
    Ok(())
}

fn one_run(
    bench: &Bench,
    stage: &mut Stage,
    crew: &mut Crew,
    source: &Path,
    target: &Path,
    values: &mut Values,
) -> Outcome {
    let clients = crew.len();
    let megabytes = |seconds: f64| bench.size as f64 / 1e6 / seconds.max(1e-9);
    for shared in [true, false] {
        let kind = if shared {
            "shared-buffers"
        } else {
            "ordinary-memory"
        };
        let part = |number: usize| part_of(bench.size, number, clients, shared);
        warm(target, bench.size)?;
        let write_limit = megabytes(limits::dd(source, target)?);
        remove(target)?;
        // The file is made anew for each run, in pages that were freed a moment ago, as dd's.
        stage.client.create(
            FILE.as_bytes(),
            &CreateOptions {
                exclusive: true,
                ..CreateOptions::default()
            },
        )?;
        let written = crew.measure(|number| Order::Write(part(number)))?;
        let read_limit = megabytes(limits::dd(source, Path::new("/dev/null"))?);
        let read = crew.measure(|number| Order::Read(part(number)))?;
        crew.measure(|number| Order::Compare(part(number)))?;
        stage.client.unlink(FILE.as_bytes())?;
        for (what, ours, limit) in [
            ("write", written.megabytes(bench.size), write_limit),
            ("read", read.megabytes(bench.size), read_limit),
        ] {
            let case = format!("{what}/{kind}/{clients}-clients");
            values.push(format!("{case}/to-dd"), ours / limit);
            values.push(case, ours);
            values.push(format!("{what}/dd"), limit);
        }
    }
    Ok(())
}

fn show(bench: &mut Bench, values: &Values) {
    let size = bench.size;
    for (case, values) in &values.0 {
        let (participant, metric) = match case {
            case if case.ends_with("/to-dd") => ("causeway", "ratio"),
            case if case.ends_with("/dd") => ("limit", "bandwidth_mb_s"),
            _ => ("causeway", "bandwidth_mb_s"),
        };
        bench.benchmark.add(
            &format!("sequential/{case}"),
            participant,
            size,
            metric,
            values,
        );
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

fn write_source(path: &Path, size: u64) -> Outcome {
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

/// Touches as many pages as are needed in a moment, and frees them: twice as many, because dd's copy
/// is gone before Causeway's is written.
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
