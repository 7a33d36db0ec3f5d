//! A tree of real small files, on disk and synced: stored, read back and removed by the commands that people use, beside `cp` and `rm` of the
//! same tree on the same disk; on a quiet machine, and beside a program that computes on every processor.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use causeway_command::cluster::Cluster;
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_report::units::bytes_text;

use super::setup::Bench;
use crate::spinners::Spinners;

/// Directories of this machine whose files are taken, from the first on, until there are enough.
const USUAL: [&str; 3] = ["/usr/share", "/usr/include", "/usr/lib"];
/// Larger files are not taken from there, and no more bytes than this together.
const MOST_FILE_BYTES: u64 = 256 << 10;
const MOST_BYTES: u64 = 256 << 20;

/// Files that were copied.
#[derive(Debug, Clone, Copy, Default)]
struct Copied {
    files: u64,
    bytes: u64,
}

/// Figures of all runs, beside one kind of neighbour: files per second.
#[derive(Default)]
struct Rates {
    put: Vec<f64>,
    get: Vec<f64>,
    remove: Vec<f64>,
    /// `cp -r` with `sync`, without, and `rm -r`.
    local_put: Vec<f64>,
    local_get: Vec<f64>,
    local_remove: Vec<f64>,
}

/// Measures the tree.
pub(super) fn run(bench: &mut Bench) -> Outcome {
    let setup = bench.start_synced(false)?;
    let scratch = setup.scratch.path();
    let source = scratch.join("tree");
    let copied = gather(bench, &source)?;
    bench.benchmark.note(format!(
        "tree: {} files of {} together from {}, on the disk of {}, durability synced; `put` ends when all is on the servers' disks, \
         and is compared with `cp -r` and `sync`; rates are files per second",
        copied.files,
        bytes_text(copied.bytes),
        match &bench.tree {
            Some(tree) => tree.display().to_string(),
            None => "/usr".to_owned(),
        },
        bench.disk.display()
    ));
    for (beside, name) in [(false, "quiet"), (true, "beside-computing")] {
        let mut rates = Rates::default();
        for _ in 0..bench.runs {
            let _spinners = beside.then(Spinners::computing).transpose()?;
            one_run(&setup.cluster, scratch, copied.files, &mut rates)?;
        }
        let benchmark = &mut bench.benchmark;
        for (what, ours, limit) in [
            ("put", &rates.put, &rates.local_put),
            ("get", &rates.get, &rates.local_get),
            ("remove", &rates.remove, &rates.local_remove),
        ] {
            let case = format!("tree/{what}/{name}");
            benchmark.ours(&case, 0, "rate_per_s", ours);
            benchmark.limit(&format!("{case}/local"), 0, "rate_per_s", limit);
            benchmark.ratio(&format!("{case}/to-local"), 0, ours, limit);
        }
    }
    Ok(())
}

/// Stores, reads and removes the tree once, and does the same with the tools of the system.
fn one_run(cluster: &Cluster, scratch: &Path, files: u64, rates: &mut Rates) -> Outcome {
    let source = scratch.join("tree");
    let (local, again) = (scratch.join("local"), scratch.join("again"));
    let back = scratch.join("back");
    let rate = |seconds: f64| files as f64 / seconds.max(1e-9);
    let tool = |name: &str, arguments: &[&OsStr]| timed(Command::new(name).args(arguments));
    let ours = |verb: &str, arguments: &[&OsStr]| -> Outcome<f64> {
        let program = std::env::current_exe().doing(|| "starting this program".to_owned())?;
        timed(
            Command::new(program)
                .args(["fs", verb, "--json", "--config"])
                .arg(cluster.file())
                .args(arguments),
        )
    };
    // Both begin with nothing of the tree left to be written to the disk.
    tool("sync", &["-f".as_ref(), scratch.as_ref()])?;
    let copy = tool("cp", &["-r".as_ref(), source.as_ref(), local.as_ref()])?;
    let sync = tool("sync", &["-f".as_ref(), local.as_ref()])?;
    rates.local_put.push(rate(copy + sync));
    rates
        .put
        .push(rate(ours("put", &[source.as_ref(), "/tree".as_ref()])?));
    let copy = tool("cp", &["-r".as_ref(), local.as_ref(), again.as_ref()])?;
    rates.local_get.push(rate(copy));
    rates
        .get
        .push(rate(ours("get", &["/tree".as_ref(), back.as_ref()])?));
    compare(&source, &back)?;
    for unmeasured in [&again, &back] {
        std::fs::remove_dir_all(unmeasured).doing(|| removing(unmeasured))?;
    }
    rates
        .local_remove
        .push(rate(tool("rm", &["-r".as_ref(), local.as_ref()])?));
    rates
        .remove
        .push(rate(ours("rm", &["-r".as_ref(), "/tree".as_ref()])?));
    Ok(())
}

fn removing(path: &Path) -> String {
    format!("removing {}", path.display())
}

/// Runs a command. Returns the seconds that it took.
fn timed(command: &mut Command) -> Outcome<f64> {
    let what = format!("running {}", command.get_program().display());
    let started = Instant::now();
    let output = command
        .stdin(Stdio::null())
        .output()
        .doing(|| what.clone())?;
    let seconds = started.elapsed().as_secs_f64();
    match output.status.success() {
        true => Ok(seconds),
        false => Err(Failure::new(
            what,
            String::from_utf8_lossy(&output.stderr).trim(),
        )),
    }
}

/// Copies the files that are measured to `source`, all of the tree that was named or enough of this machine's.
fn gather(bench: &Bench, source: &Path) -> Outcome<Copied> {
    let mut copied = Copied::default();
    if let Some(tree) = &bench.tree {
        copy(tree, source, &mut copied, &|_, _| true)?;
    } else {
        let most = bench.tree_files;
        for (number, from) in USUAL.iter().enumerate() {
            let from = Path::new(from);
            if from.is_dir() && copied.files < most {
                copy(
                    from,
                    &source.join(number.to_string()),
                    &mut copied,
                    &|so_far, len| {
                        so_far.files < most
                            && len <= MOST_FILE_BYTES
                            && so_far.bytes + len <= MOST_BYTES
                    },
                )?;
            }
        }
    }
    match copied.files {
        0 => Err(Failure::new("choosing files to copy", "there are none")
            .hint("name a directory with files by --tree")),
        _ => Ok(copied),
    }
}

/// Copies directories and the files in them that are `wanted`: by what was copied so far, and their bytes. Files that
/// may not be read, and everything else, are left out.
fn copy(
    from: &Path,
    to: &Path,
    copied: &mut Copied,
    wanted: &impl Fn(Copied, u64) -> bool,
) -> Outcome {
    std::fs::create_dir_all(to).doing(|| format!("making {}", to.display()))?;
    for (name, path) in entries(from)? {
        let Ok(found) = path.symlink_metadata() else {
            continue;
        };
        let target = to.join(name);
        if found.is_dir() {
            // A directory none of whose files is wanted is not worth making.
            if wanted(*copied, 0) {
                copy(&path, &target, copied, wanted)?;
            }
        } else if found.is_file() && wanted(*copied, found.len()) && File::open(&path).is_ok() {
            let doing = || format!("copying {} to {}", path.display(), target.display());
            copied.bytes += std::fs::copy(&path, &target).doing(doing)?;
            copied.files += 1;
        }
    }
    Ok(())
}

/// What is in a directory, in the order of names.
fn entries(directory: &Path) -> Outcome<Vec<(std::ffi::OsString, PathBuf)>> {
    let doing = || format!("reading {}", directory.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).doing(doing)? {
        let entry = entry.doing(doing)?;
        found.push((entry.file_name(), entry.path()));
    }
    found.sort();
    Ok(found)
}

/// Fails unless both trees have the same names, and files the same content.
fn compare(one: &Path, other: &Path) -> Outcome {
    let differs = || {
        Failure::new(
            format!("comparing {} with {}", one.display(), other.display()),
            "they are not the same",
        )
    };
    if !one.is_dir() {
        return match content(one)? == content(other)? {
            true => Ok(()),
            false => Err(differs()),
        };
    }
    let (ones, others) = (entries(one)?, entries(other)?);
    let names = |entries: &[(std::ffi::OsString, PathBuf)]| -> Vec<std::ffi::OsString> {
        entries.iter().map(|(name, _)| name.clone()).collect()
    };
    if names(&ones) != names(&others) {
        return Err(differs());
    }
    let mut pairs = ones.iter().zip(&others);
    pairs.try_for_each(|((_, one), (_, other))| compare(one, other))
}

fn content(path: &Path) -> Outcome<Vec<u8>> {
    let doing = || format!("reading {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .doing(doing)?
        .read_to_end(&mut bytes)
        .doing(doing)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_differ_in_a_name_or_a_byte_are_told_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        for tree in [&one, &other] {
            std::fs::create_dir_all(tree.join("directory")).unwrap();
            std::fs::write(tree.join("directory/file"), b"content").unwrap();
        }
        assert!(compare(&one, &other).is_ok());
        std::fs::write(other.join("directory/file"), b"Content").unwrap();
        assert!(compare(&one, &other).is_err());
        std::fs::remove_file(other.join("directory/file")).unwrap();
        assert!(compare(&one, &other).is_err());
    }

    #[test]
    fn files_are_taken_up_to_what_is_wanted() {
        let scratch = tempfile::tempdir().unwrap();
        let from = scratch.path().join("from");
        std::fs::create_dir(&from).unwrap();
        for number in 0..5 {
            std::fs::write(from.join(number.to_string()), vec![1; number * 10]).unwrap();
        }
        let mut copied = Copied::default();
        let to = scratch.path().join("to");
        copy(&from, &to, &mut copied, &|so_far, len| {
            so_far.files < 3 && len >= 10
        })
        .unwrap();
        assert_eq!((copied.files, copied.bytes), (3, 60));
        assert_eq!(entries(&to).unwrap().len(), 3);
    }
}
