//! The protocol between a process and its launcher: rank, size, and values that the processes have published. Launchers
//! speak PMI-1 ([`causeway_wire::pmi`]) over a descriptor, or PMIx, whose library is loaded for that.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use causeway_sys::{inherited, pmix};
use causeway_wire::pmi::{Command, Lines};

use crate::abi;
use crate::error::{Error, Result};
use crate::programs::Program;

/// A launcher, or none for a process that was started alone.
#[derive(Debug)]
pub enum Launcher {
    /// No launcher.
    Alone,
    /// A launcher that speaks PMI-1.
    Pmi(Box<Pmi>),
    /// A launcher that speaks PMIx.
    Pmix(Box<Pmix>),
}

/// A client of a PMIx launcher.
#[derive(Debug)]
pub struct Pmix {
    client: pmix::Client,
    size: u32,
    is_spawned: bool,
}

/// A connection to a launcher.
#[derive(Debug)]
pub struct Pmi {
    stream: UnixStream,
    lines: Lines,
    /// The name of the launcher's key space.
    space: String,
    rank: u32,
    size: u32,
    /// Processes of another program have started this one.
    is_spawned: bool,
}

#[cold]
fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(abi::ERR_OTHER, format!("the launcher: {what}"))
}

fn number_of(variable: &str) -> Result<Option<u32>> {
    let Some(value) = std::env::var_os(variable) else {
        return Ok(None);
    };
    let number = value.to_str().and_then(|value| value.parse().ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(failed(format_args!("{variable}={value:?} is no number"))),
    }
}

/// How to start a program so that this library can take part in it.
const ADVICE: &str = "start the program with causeway run, with MPICH's mpiexec (Hydra), with Open MPI's mpirun where \
                      libpmix is installed, or with srun --mpi=pmi2 or --mpi=pmix";

/// Fails if this process seems to be one of several, but its launcher speaks no protocol of this library: running
/// as many separate programs of one process each would be worse than failing.
fn check_alone() -> Result<()> {
    // The variables in which launchers put the number of processes, and what a launch by such a launcher needs.
    let sizes = [
        (
            "OMPI_COMM_WORLD_SIZE",
            "Open MPI's mpirun, whose PMIx was not found in the environment",
        ),
        (
            "MV2_COMM_WORLD_SIZE",
            "MVAPICH's mpirun_rsh, which speaks a protocol of its own",
        ),
        (
            "PMI_SIZE",
            "a launcher that speaks PMI by other means than a descriptor in PMI_FD",
        ),
        (
            "SLURM_STEP_NUM_TASKS",
            "Slurm's srun without --mpi=pmi2 or --mpi=pmix",
        ),
        ("PALS_NRANKS", "PALS, which speaks a protocol of its own"),
    ];
    for (variable, launcher) in sizes {
        // Other values than numbers are ignored.
        let size = number_of(variable).ok().flatten().unwrap_or(1);
        // A shell that was started by srun has its variables, too, but the shell's own children are no tasks.
        let is_task =
            variable != "SLURM_STEP_NUM_TASKS" || std::env::var_os("SLURM_PROCID").is_some();
        if size > 1 && is_task && std::env::var_os(LET_ALONE).is_none() {
            return Err(failed(format_args!(
                "{variable} is {size}, as set by {launcher}; this process would be alone. {ADVICE}, or set {LET_ALONE} \
                 if it is to be alone"
            )));
        }
    }
    Ok(())
}

/// Allows processes to run alone although their launcher has started several.
const LET_ALONE: &str = "CAUSEWAY_MPI_ALONE";

impl Launcher {
    /// The launcher that has started this process.
    pub fn find() -> Result<Self> {
        if let Some(descriptor) = number_of("PMI_FD")? {
            let (rank, size) = (number_of("PMI_RANK")?, number_of("PMI_SIZE")?);
            let (Some(rank), Some(size)) = (rank, size) else {
                return Err(failed("PMI_FD is set, and PMI_RANK or PMI_SIZE is not"));
            };
            if rank >= size {
                return Err(failed(format_args!("rank {rank} of {size}")));
            }
            let descriptor = i32::try_from(descriptor).unwrap_or(-1);
            let descriptor = inherited::descriptor(descriptor)
                .map_err(|error| failed(format_args!("PMI_FD={descriptor}: {error}")))?;
            let pmi = Pmi::handshake(UnixStream::from(descriptor), (rank, size))?;
            return Ok(Self::Pmi(Box::new(pmi)));
        }
        if std::env::var_os("PMIX_RANK").is_some() && std::env::var_os(LET_ALONE).is_none() {
            return Ok(Self::Pmix(Box::new(Pmix::handshake()?)));
        }
        check_alone()?;
        Ok(Self::Alone)
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Pmi(pmi) => pmi.rank,
            Self::Pmix(pmix) => pmix.client.rank(),
        }
    }

    /// The number of processes.
    pub fn size(&self) -> u32 {
        match self {
            Self::Alone => 1,
            Self::Pmi(pmi) => pmi.size,
            Self::Pmix(pmix) => pmix.size,
        }
    }

    /// Whether another program's processes have started this one.
    pub fn is_spawned(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::Pmi(pmi) => pmi.is_spawned,
            Self::Pmix(pmix) => pmix.is_spawned,
        }
    }

    /// Starts programs together, for which these values are published. A process that was started alone starts a launcher for
    /// that.
    pub(crate) fn spawn(
        &mut self,
        programs: &[Program],
        published: &[(&str, String)],
    ) -> Result<()> {
        if let Self::Alone = self {
            let stream = crate::attaching::start_launcher()?;
            *self = Self::Pmi(Box::new(Pmi::handshake(stream, (0, 1))?));
        }
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.spawn(programs, published),
            Self::Pmix(pmix) => pmix.spawn(programs, published),
        }
    }

    /// Publishes a value. Other processes can read it after the next [`Launcher::barrier`].
    pub fn put(&mut self, key: &str, value: &str) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.put(key, value),
            Self::Pmix(pmix) => pmix.client.put(key, value).map_err(failed),
        }
    }

    /// A value that a process has published, or that the processes have published which started this program.
    pub fn get(&mut self, owner: u32, key: &str) -> Result<String> {
        match self {
            Self::Alone => Err(failed(format_args!("nothing is published under {key}"))),
            Self::Pmi(pmi) => pmi.get(key),
            Self::Pmix(pmix) => pmix.get(owner, key),
        }
    }

    /// Waits until all processes have come to the barrier.
    pub fn barrier(&mut self) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi
                .ask(&Command::new("barrier_in"), "barrier_out")
                .map(drop),
            Self::Pmix(pmix) => pmix.client.barrier().map_err(failed),
        }
    }

    /// How many processes the launcher could run, if it reports that.
    pub fn universe_size(&mut self) -> Option<i32> {
        let size = match self {
            Self::Alone => return None,
            Self::Pmi(pmi) => {
                let answer = pmi.ask(&Command::new("get_universe_size"), "universe_size");
                answer.ok()?.number("size")?
            }
            Self::Pmix(pmix) => pmix.client.number("pmix.univ.size").ok()?.into(),
        };
        i32::try_from(size).ok().filter(|size| *size > 0)
    }

    /// The number of the program among those that were started together.
    pub fn program_number(&mut self) -> Option<i32> {
        let number = match self {
            Self::Alone => return None,
            Self::Pmi(pmi) => {
                let answer = pmi.ask(&Command::new("get_appnum"), "appnum");
                answer.ok()?.number("appnum")?
            }
            Self::Pmix(pmix) => pmix.client.own_number("pmix.appnum").ok()?.into(),
        };
        i32::try_from(number).ok()
    }

    /// Notifies the launcher that this process ends regularly.
    pub fn finish(&mut self) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.ask(&Command::new("finalize"), "finalize_ack").map(drop),
            Self::Pmix(pmix) => pmix.client.finish().map_err(failed),
        }
    }

    /// Has the launcher end all processes. The caller ends this process itself.
    pub fn abort(&mut self, code: i32) {
        match self {
            Self::Alone => {}
            Self::Pmi(pmi) => {
                let command = Command::new("abort").with("exitcode", code);
                // A launcher that has ended has ended all processes itself.
                let _ = pmi.stream.write_all(command.encode().as_bytes());
            }
            Self::Pmix(pmix) => pmix.client.abort(code),
        }
    }
}

/// The variable with the values that were published for a started program.
fn variable(key: &str) -> String {
    key.to_uppercase().replace('-', "_")
}

impl Pmix {
    fn handshake() -> Result<Self> {
        let client = pmix::Client::new().map_err(|error| {
            failed(format_args!(
                "PMIX_RANK is set, as by a launcher that speaks PMIx (Open MPI's mpirun, prterun, srun --mpi=pmix), whose \
                 library cannot be used: {error}. Install it (libpmix2), name it in {}, or set {LET_ALONE} if this process \
                 is to be alone; or {ADVICE}",
                pmix::LIBRARY
            ))
        })?;
        let size = client.number("pmix.job.size").map_err(failed)?;
        if client.rank() >= size {
            return Err(failed(format_args!("rank {} of {size}", client.rank())));
        }
        let is_spawned = client.has_parent();
        Ok(Self {
            client,
            size,
            is_spawned,
        })
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String> {
        // The values published for this program are in the environment.
        match std::env::var(variable(key)) {
            Ok(value) if self.is_spawned => Ok(value),
            _ => self.client.get(owner, key).map_err(failed),
        }
    }

    fn spawn(&mut self, programs: &[Program], published: &[(&str, String)]) -> Result<()> {
        let environment = published.iter();
        let environment = environment.map(|(key, value)| format!("{}={value}", variable(key)));
        let environment = Vec::from_iter(environment);
        let programs = programs.iter().map(|program| {
            let directory = program.hints.iter().find(|(key, _)| key == "wdir");
            pmix::Program {
                command: program.command.clone(),
                arguments: program.arguments.clone(),
                environment: environment.clone(),
                directory: directory.map(|(_, value)| value.into()),
                processes: program.count,
            }
        });
        let started = self.client.spawn(&Vec::from_iter(programs));
        started.map_err(|error| Error::new(abi::ERR_SPAWN, format!("the launcher: {error}")))
    }
}

impl Pmi {
    fn handshake(stream: UnixStream, (rank, size): (u32, u32)) -> Result<Self> {
        let mut pmi = Self {
            stream,
            lines: Lines::default(),
            space: String::new(),
            rank,
            size,
            is_spawned: number_of("PMI_SPAWNED")?.is_some_and(|is| is != 0),
        };
        let hello = Command::new("init")
            .with("pmi_version", 1)
            .with("pmi_subversion", 1);
        let answer = pmi.ask(&hello, "response_to_init")?;
        if answer.number("pmi_version") != Some(1) {
            return Err(failed("it does not speak PMI-1"));
        }
        let answer = pmi.ask(&Command::new("get_my_kvsname"), "my_kvsname")?;
        let space = answer.get("kvsname").ok_or_else(|| failed("no kvsname"))?;
        pmi.space = space.to_owned();
        Ok(pmi)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let command = Command::new("put")
            .with("kvsname", &self.space)
            .with("key", key)
            .with("value", value);
        self.ask(&command, "put_result").map(drop)
    }

    fn get(&mut self, key: &str) -> Result<String> {
        let command = Command::new("get")
            .with("kvsname", &self.space)
            .with("key", key);
        let answer = self.ask(&command, "get_result")?;
        let value = answer.get("value");
        value
            .map(str::to_owned)
            .ok_or_else(|| failed(format_args!("no value for {key}")))
    }

    /// Starts programs: a command for each of them, and one reply to all.
    fn spawn(&mut self, programs: &[Program], published: &[(&str, String)]) -> Result<()> {
        let mut text = String::new();
        for (at, program) in programs.iter().enumerate() {
            let mut command = Command::new("spawn")
                .with("nprocs", program.count)
                .with("execname", &program.command)
                .with("totspawns", programs.len())
                .with("spawnssofar", at + 1);
            for (at, argument) in (1..).zip(&program.arguments) {
                command = command.with(&format!("arg{at}"), argument);
            }
            command = command
                .with("argcnt", program.arguments.len())
                .with("preput_num", published.len());
            for (at, (key, value)) in published.iter().enumerate() {
                command = command
                    .with(&format!("preput_key_{at}"), key)
                    .with(&format!("preput_val_{at}"), value);
            }
            command = command.with("info_num", program.hints.len());
            for (at, (key, value)) in program.hints.iter().enumerate() {
                command = command
                    .with(&format!("info_key_{at}"), key)
                    .with(&format!("info_val_{at}"), value);
            }
            text.push_str(&command.encode_lines());
        }
        let answer = self.exchange(&text, "spawn", "spawn_result");
        answer.map(drop).map_err(|error| {
            let text = error.text().replace('_', " ");
            Error::new(abi::ERR_SPAWN, text)
        })
    }

    /// Sends a command and waits for the reply.
    fn ask(&mut self, command: &Command, answer: &'static str) -> Result<Command> {
        self.exchange(&command.encode(), command.name(), answer)
    }

    /// Sends the text of commands and waits for a reply.
    fn exchange(&mut self, text: &str, name: &str, answer: &'static str) -> Result<Command> {
        let lost = |error: io::Error| failed(format_args!("{name}: {error}"));
        self.stream.write_all(text.as_bytes()).map_err(lost)?;
        let mut bytes = [0; 1024];
        let found = loop {
            let next = self.lines.next_command();
            if let Some(found) = next.map_err(failed)? {
                break found;
            }
            let read = loop {
                match self.stream.read(&mut bytes) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other.map_err(lost)?,
                }
            };
            if read == 0 {
                return Err(failed(format_args!("it is gone, before {answer}")));
            }
            self.lines.push(&bytes[..read]);
        };
        if found.name() != answer {
            return Err(failed(format_args!(
                "it sent {} instead of {answer}",
                found.name()
            )));
        }
        match found.number("rc") {
            None | Some(0) => Ok(found),
            Some(code) => {
                let why = found.get("msg").unwrap_or("no reason given");
                Err(failed(match name {
                    "init" => format!(
                        "it has refused this process, which speaks PMI-1 (rc={code}): {why}"
                    ),
                    other => format!("{other} failed with {code}: {why}"),
                }))
            }
        }
    }
}
