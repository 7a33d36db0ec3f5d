//! A library with the standard ABI, its launcher, and the program that is run with it.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use causeway_command::failure::{Doing, Failure, Outcome};
use serde::Deserialize;

use super::trial::{START, Trial};
use crate::compare::beside_the_program;
use crate::compare::peers::child::{self, Failed};
use crate::compare::peers::peer::{program_at, version_in};
use crate::participants::OURS;
use crate::parts::figure::Figure;

/// Its name.
const LIBRARY: &str = "libmpi_abi.so.1";
const SOURCE: &str = include_str!("program.c");
const HEADER: &str = include_str!("../../../mpi-c/include/mpi.h");
/// How long a job may take, and more for each size of its messages.
const JOB: Duration = Duration::from_secs(60);
const SIZE: Duration = Duration::from_secs(2);
/// How long the compiler may take, and a launcher to say its version.
const TOOL: Duration = Duration::from_secs(60);

/// A library with its launcher.
pub(super) struct Library {
    /// As a participant.
    pub(super) name: String,
    /// Where it lies.
    directory: PathBuf,
    launcher: PathBuf,
    /// The launcher's first arguments.
    options: &'static [&'static str],
    /// For what the launcher leaves behind.
    scratch: Option<PathBuf>,
}

impl Library {
    /// Ours, in this file or beside this command.
    pub(super) fn ours(file: Option<&Path>) -> Outcome<Self> {
        let doing = || "looking for our MPI library".to_owned();
        let launcher = std::env::current_exe().doing(doing)?;
        let directory = match file {
            Some(file) => directory_of(file)?,
            None => {
                let beside = launcher.parent().unwrap_or(Path::new("/"));
                let places = [beside.to_owned(), beside.join("../lib")];
                let found = places
                    .into_iter()
                    .find(|place| place.join(LIBRARY).is_file());
                found.ok_or_else(|| {
                    Failure::new(
                        doing(),
                        format!("{LIBRARY} is not beside {}", launcher.display()),
                    )
                    .hint("`make mpi` builds it; `--library FILE` says where it is")
                })?
            }
        };
        Ok(Self {
            name: OURS.to_owned(),
            directory,
            launcher,
            options: &["run"],
            scratch: None,
        })
    }

    /// MPICH's, in this file or where `make peers` puts it; `None` if it is not there.
    pub(super) fn mpich(file: Option<&Path>, scratch: &Path) -> Outcome<Option<Self>> {
        let directory = match file {
            Some(file) => directory_of(file)?,
            None => {
                let peers = beside_the_program().unwrap_or_default();
                let directory = peers.join("mpich/lib");
                if !directory.join(LIBRARY).is_file() {
                    return Ok(None);
                }
                directory
            }
        };
        let doing = || format!("looking for the launcher of {}", directory.display());
        let launcher = program_at(&directory.join("../bin/mpiexec"))
            .ok_or("../bin/mpiexec is not there")
            .doing(doing)?;
        let said = child::Program::new(&launcher, &["--version"]).run(TOOL);
        let said = said.map_err(|failed| failed.why).doing(doing)?;
        let version = version_in(&said).unwrap_or("unknown".to_owned());
        Ok(Some(Self {
            name: format!("mpich-{version}"),
            directory,
            launcher,
            // Ranks bind themselves.
            options: &["-bind-to", "none"],
            scratch: Some(scratch.to_owned()),
        }))
    }
}

fn directory_of(file: &Path) -> Outcome<PathBuf> {
    let doing = || format!("looking for the library {}", file.display());
    let file = std::fs::canonicalize(file).doing(doing)?;
    let named = file.file_name().is_some_and(|name| name == LIBRARY);
    // A link's target may be called otherwise; the loader looks for this name.
    match file.parent() {
        Some(directory) if named || directory.join(LIBRARY).exists() => Ok(directory.to_owned()),
        _ => Err(Failure::new(doing(), format!("it is not called {LIBRARY}"))),
    }
}

/// The program, built.
pub(super) struct Program {
    path: PathBuf,
    processors: String,
}

/// A figure that the program has printed.
#[derive(Debug, Deserialize)]
struct Line {
    case: String,
    size_bytes: u64,
    metric: String,
    value: f64,
}

impl Program {
    /// Builds it in a directory, for these processors.
    pub(super) fn build(directory: &Path, [one, other]: [usize; 2]) -> Outcome<Self> {
        let doing = || "compiling the MPI program".to_owned();
        let path = directory.join("program");
        let write =
            |name: &str, text: &str| std::fs::write(directory.join(name), text).doing(doing);
        write("mpi.h", HEADER)?;
        write("program.c", SOURCE)?;
        // Linked with neither library, as each may give its functions versions.
        write("stand_in.c", &stand_in(HEADER))?;
        let cc = |arguments: &str| {
            let arguments = Vec::from_iter(arguments.split(' '));
            let mut program = child::Program::new(Path::new("cc"), &arguments);
            program.directory = directory.to_owned();
            let built = program.run(TOOL).map_err(|failed| failed.why).doing(doing);
            built.map_err(|failure| failure.hint("a C compiler, `cc`, has to be installed"))
        };
        cc(&format!(
            "-w -fPIC -shared -Wl,-soname,{LIBRARY} -o {LIBRARY} stand_in.c"
        ))?;
        cc(&format!("-O2 -I. -o program program.c -L. -l:{LIBRARY}"))?;
        std::fs::remove_file(directory.join(LIBRARY)).doing(doing)?;
        Ok(Self {
            path,
            processors: format!("{one},{other}"),
        })
    }

    /// Runs a trial with a library.
    pub(super) fn run(&self, library: &Library, trial: &Trial) -> Result<Vec<Figure>, Failed> {
        let mut job = child::Program::new(&library.launcher, library.options);
        job = job.with("LD_LIBRARY_PATH", &library.directory.display().to_string());
        if let Some(scratch) = &library.scratch {
            job = job.with("TMPDIR", &scratch.display().to_string());
        }
        let (ranks, milliseconds) = (trial.ranks.to_string(), trial.milliseconds.to_string());
        let program = self.path.display().to_string();
        let words = [
            "-n",
            &ranks,
            &program,
            &self.processors,
            &milliseconds,
            trial.pattern,
        ];
        job.arguments.extend(words.map(str::to_owned));
        match trial.pattern {
            START => job.arguments.push(microseconds_now().to_string()),
            _ => job.arguments.extend(trial.sizes.iter().map(u64::to_string)),
        }
        let within = JOB + SIZE * u32::try_from(trial.sizes.len()).unwrap_or(u32::MAX);
        let figures = parse(&job.run(within)?);
        match figures.is_empty() {
            true => Err("the job printed no figures".to_owned().into()),
            false => Ok(figures),
        }
    }
}

/// Microseconds since 1970.
fn microseconds_now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros())
}

/// A library with the functions that a header declares, which do nothing.
fn stand_in(header: &str) -> String {
    let words = header.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('));
    let functions = words.filter_map(|word| {
        let (name, _) = word.split_once('(')?;
        let is_one = name.starts_with("MPI_") && name.chars().any(|c| c.is_ascii_lowercase());
        is_one.then_some(name)
    });
    let names: std::collections::BTreeSet<&str> = functions.collect();
    let lines = names
        .into_iter()
        .map(|name| format!("void {name}(void) {{}}\n"));
    lines.collect()
}

/// The figures in what a job printed. Launchers print other lines between those of the program.
fn parse(said: &str) -> Vec<Figure> {
    const METRICS: [&str; 5] = [
        "latency_us",
        "bandwidth_mb_s",
        "rate_per_s",
        "ratio",
        "memory_mib",
    ];
    let figure = |line: &str| {
        let line: Line = serde_json::from_str(line.get(line.find('{')?..)?.trim()).ok()?;
        let metric = METRICS.into_iter().find(|known| *known == line.metric)?;
        Figure::new(line.case, line.size_bytes, metric, line.value)
    };
    said.lines().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_between_other_lines() {
        let said = "a launcher's line\n\
                    {\"case\":\"latency\",\"size_bytes\":8,\"metric\":\"latency_us\",\"value\":0.25}\n\
                    {\"case\":\"latency\",\"size_bytes\":8,\"metric\":\"unheard of\",\"value\":0.25}\n{";
        let wanted = Figure::new("latency", 8, "latency_us", 0.25).unwrap();
        assert_eq!(parse(said), [wanted]);
    }

    #[test]
    fn the_stand_in_has_the_functions_of_the_header() {
        let text = stand_in(HEADER);
        for name in ["MPI_Send", "MPI_Init", "MPI_Reduce_scatter_block_c"] {
            assert!(
                text.contains(&format!("void {name}(void) {{}}\n")),
                "{name}"
            );
        }
        let made = stand_in("#define MPI_X(a) 1\nint MPI_Send(const void *buf, int count);");
        assert_eq!(made, "void MPI_Send(void) {}\n");
    }
}
