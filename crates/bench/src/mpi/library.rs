//! A library, its launcher, and the program that is run with it: one binary for all libraries with the standard ABI, and
//! another of the same sources for Open MPI, which has none.

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

/// The library's file name.
const LIBRARY: &str = "libmpi_abi.so.1";
/// The program's files.
const SOURCES: [(&str, &str); 8] = [
    ("bench.h", include_str!("../../mpi/bench.h")),
    ("program.c", include_str!("../../mpi/program.c")),
    ("messages.c", include_str!("../../mpi/messages.c")),
    ("collective.c", include_str!("../../mpi/collective.c")),
    ("onesided.c", include_str!("../../mpi/onesided.c")),
    ("work.c", include_str!("../../mpi/work.c")),
    ("life.c", include_str!("../../mpi/life.c")),
    ("files.c", include_str!("../../mpi/files.c")),
];
const HEADER: &str = include_str!("../../../mpi-c/include/mpi.h");
/// How long a job may take, and more for each size of its messages.
const JOB: Duration = Duration::from_secs(60);
const SIZE: Duration = Duration::from_secs(2);
/// How long the compiler may take, and a launcher to print its version.
const TOOL: Duration = Duration::from_secs(60);

/// A library with its launcher.
pub(super) struct Library {
    /// Its name as a participant.
    pub(super) name: String,
    /// The directory of the library; `None` if the loader finds it by itself.
    directory: Option<PathBuf>,
    launcher: PathBuf,
    /// The launcher's first arguments.
    options: Vec<&'static str>,
    /// The program that was built for this library alone, if one was.
    program: Option<PathBuf>,
    /// A directory for files that the launcher leaves.
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
                    .hint("`make mpi` builds it; `--library FILE` sets its path")
                })?
            }
        };
        Ok(Self {
            name: OURS.to_owned(),
            directory: Some(directory),
            launcher,
            options: vec!["run"],
            program: None,
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
            .ok_or("its launcher, ../bin/mpiexec, does not exist")
            .doing(doing)?;
        let said = child::Program::new(&launcher, &["--version"]).run(TOOL);
        let said = said.map_err(|failed| failed.why).doing(doing)?;
        let version = version_in(&said).unwrap_or("unknown".to_owned());
        Ok(Some(Self {
            name: format!("mpich-{version}"),
            directory: Some(directory),
            launcher,
            // The ranks bind themselves to processors.
            options: vec!["-bind-to", "none"],
            program: None,
            scratch: Some(scratch.to_owned()),
        }))
    }

    /// Open MPI where `make peers` puts it, with the program built by its compiler; `None` if it is not there.
    pub(super) fn open_mpi(scratch: &Path) -> Outcome<Option<Self>> {
        let programs = beside_the_program().unwrap_or_default().join("openmpi/bin");
        let found = ["mpicc", "mpirun"].map(|name| program_at(&programs.join(name)));
        let [Some(compiler), Some(launcher)] = found else {
            return Ok(None);
        };
        let doing = || format!("building the program with {}", compiler.display());
        let said = child::Program::new(&launcher, &["--version"]).run(TOOL);
        let said = said.map_err(|failed| failed.why).doing(doing)?;
        let version = version_in(&said).unwrap_or("unknown".to_owned());
        let directory = scratch.join("openmpi");
        std::fs::create_dir_all(&directory).doing(doing)?;
        write_sources(&directory)?;
        compile(&compiler, &directory, BUILD).doing(doing)?;
        let options = "--allow-run-as-root --bind-to none --map-by :OVERSUBSCRIBE --mca pml ob1 --mca btl self,sm";
        Ok(Some(Self {
            name: format!("openmpi-{version}"),
            directory: None,
            launcher,
            options: options.split(' ').collect(),
            program: Some(directory.join("program")),
            scratch: Some(scratch.to_owned()),
        }))
    }
}

fn directory_of(file: &Path) -> Outcome<PathBuf> {
    let doing = || format!("looking for the library {}", file.display());
    let file = std::fs::canonicalize(file).doing(doing)?;
    let named = file.file_name().is_some_and(|name| name == LIBRARY);
    // The target of a symbolic link may have another name; the loader looks for this name.
    match file.parent() {
        Some(directory) if named || directory.join(LIBRARY).exists() => Ok(directory.to_owned()),
        _ => Err(Failure::new(
            doing(),
            format!("the file is not called {LIBRARY}"),
        )),
    }
}

/// The program, compiled.
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
    /// Compiles the program in a directory, for these processors.
    pub(super) fn build(directory: &Path, [one, other]: [usize; 2]) -> Outcome<Self> {
        let doing = || "compiling the MPI program".to_owned();
        let path = directory.join("program");
        write_sources(directory)?;
        let write =
            |name: &str, text: &str| std::fs::write(directory.join(name), text).doing(doing);
        write("mpi.h", HEADER)?;
        // The program is linked with none of the libraries, as each may have versioned symbols of
        // its own.
        let stand_in = directory.join("stand-in");
        std::fs::create_dir_all(&stand_in).doing(doing)?;
        write("stand-in/functions.c", &self::stand_in(HEADER))?;
        let cc = |arguments: &str| {
            let built = compile(Path::new("cc"), directory, arguments).doing(doing);
            built.map_err(|failure| failure.hint("a C compiler, `cc`, has to be installed"))
        };
        cc(&format!(
            "-w -fPIC -shared -Wl,-soname,{LIBRARY} -o stand-in/{LIBRARY} stand-in/functions.c"
        ))?;
        cc(&format!("{BUILD} -I. -Lstand-in -l:{LIBRARY}"))?;
        Ok(Self {
            path,
            processors: format!("{one},{other}"),
        })
    }

    /// Runs a trial with a library and additional environment variables.
    pub(super) fn run(
        &self,
        library: &Library,
        trial: &Trial,
        environment: &[(&str, String)],
    ) -> Result<Vec<Figure>, Failed> {
        let mut job = child::Program::new(&library.launcher, &library.options);
        if let Some(directory) = &library.directory {
            job = job.with("LD_LIBRARY_PATH", &directory.display().to_string());
        }
        if let Some(scratch) = &library.scratch {
            job = job.with("TMPDIR", &scratch.display().to_string());
        }
        for (name, value) in environment {
            job = job.with(name, value);
        }
        let (ranks, milliseconds) = (trial.ranks.to_string(), trial.milliseconds.to_string());
        let program = library.program.as_ref().unwrap_or(&self.path);
        let program = program.display().to_string();
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

/// The arguments of every compiler.
const BUILD: &str = "-std=gnu11 -O2 -pthread -o program program.c messages.c collective.c onesided.c work.c life.c files.c -lm";

fn write_sources(directory: &Path) -> Outcome {
    for (name, text) in SOURCES {
        let path = directory.join(name);
        std::fs::write(&path, text).doing(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Runs a compiler in a directory.
fn compile(compiler: &Path, directory: &Path, arguments: &str) -> Result<(), String> {
    let arguments = Vec::from_iter(arguments.split(' '));
    let mut program = child::Program::new(compiler, &arguments);
    program.directory = directory.to_owned();
    let built = program.run(TOOL).map_err(|failed| failed.why);
    built.map(drop)
}

/// Microseconds since 1970.
fn microseconds_now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros())
}

/// Makes a library that has the functions of a header, all of them empty.
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

/// The figures in a job's output. Launchers print other lines between those of the program.
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
