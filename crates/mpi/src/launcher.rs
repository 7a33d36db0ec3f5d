//! What a process and its launcher say to each other (PMI-1, [`causeway_wire::pmi`]): who am I, how many are we, and
//! what the others have published.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use causeway_sys::inherited;
use causeway_wire::pmi::{Command, Lines};

use crate::abi;
use crate::error::{Error, Result};
use crate::spawning::Program;

/// A launcher, or none for a process that was started alone.
#[derive(Debug)]
pub enum Launcher {
    /// No launcher.
    Alone,
    /// One that speaks PMI-1.
    Pmi(Box<Pmi>),
}

/// A connection to a launcher.
#[derive(Debug)]
pub struct Pmi {
    stream: UnixStream,
    lines: Lines,
    /// The name of the space that keys are in.
    space: String,
    rank: u32,
    size: u32,
    /// Another program's processes have started this one.
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

/// Variables of launchers that speak something else.
const OTHERS: [(&str, &str); 3] = [
    ("PMIX_RANK", "PMIx"),
    ("PMI_PORT", "PMI-1 by TCP"),
    ("SLURM_PROCID", "Slurm without PMI"),
];

impl Launcher {
    /// The launcher that has started this process.
    pub fn find() -> Result<Self> {
        let Some(descriptor) = number_of("PMI_FD")? else {
            let size = number_of("SLURM_NTASKS")?.unwrap_or(1);
            let other = OTHERS
                .iter()
                .find(|(variable, _)| std::env::var_os(variable).is_some());
            if let Some((variable, name)) = other
                && (size > 1 || *variable == "PMIX_RANK")
            {
                // As many processes alone as were meant to be one program is worse than none.
                return Err(failed(format_args!(
                    "{variable} is set, as by a launcher that speaks {name}; this library speaks PMI-1 over a \
                     descriptor, as mpiexec (Hydra) and causeway run do"
                )));
            }
            return Ok(Self::Alone);
        };
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
        let pmi = Pmi::greet(UnixStream::from(descriptor), (rank, size))?;
        Ok(Self::Pmi(Box::new(pmi)))
    }

    /// This process's number.
    pub fn rank(&self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Pmi(pmi) => pmi.rank,
        }
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        match self {
            Self::Alone => 1,
            Self::Pmi(pmi) => pmi.size,
        }
    }

    /// Whether another program's processes have started this one.
    pub fn is_spawned(&self) -> bool {
        match self {
            Self::Alone => false,
            Self::Pmi(pmi) => pmi.is_spawned,
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
            *self = Self::Pmi(Box::new(Pmi::greet(stream, (0, 1))?));
        }
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.spawn(programs, published),
        }
    }

    /// Publishes a value. Others see it behind the next [`Launcher::barrier`].
    pub fn put(&mut self, key: &str, value: &str) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.put(key, value),
        }
    }

    /// What another process has published.
    pub fn get(&mut self, key: &str) -> Result<String> {
        match self {
            Self::Alone => Err(failed(format_args!("nothing is published under {key}"))),
            Self::Pmi(pmi) => pmi.get(key),
        }
    }

    /// Waits until all processes are here.
    pub fn barrier(&mut self) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi
                .ask(&Command::new("barrier_in"), "barrier_out")
                .map(drop),
        }
    }

    /// How many processes the launcher could run, if it says so.
    pub fn universe_size(&mut self) -> Option<i32> {
        let Self::Pmi(pmi) = self else { return None };
        let answer = pmi.ask(&Command::new("get_universe_size"), "universe_size");
        let size = answer.ok()?.number("size")?;
        i32::try_from(size).ok().filter(|size| *size > 0)
    }

    /// The number of the program among those that were started together.
    pub fn program_number(&mut self) -> Option<i32> {
        let Self::Pmi(pmi) = self else { return None };
        let answer = pmi.ask(&Command::new("get_appnum"), "appnum");
        i32::try_from(answer.ok()?.number("appnum")?).ok()
    }

    /// Tells the launcher that this process ends in order.
    pub fn finish(&mut self) -> Result<()> {
        match self {
            Self::Alone => Ok(()),
            Self::Pmi(pmi) => pmi.ask(&Command::new("finalize"), "finalize_ack").map(drop),
        }
    }

    /// Has the launcher end all processes. The caller ends this one.
    pub fn abort(&mut self, code: i32) {
        if let Self::Pmi(pmi) = self {
            let command = Command::new("abort").with("exitcode", code);
            // A launcher that is gone has ended all by itself.
            let _ = pmi.stream.write_all(command.encode().as_bytes());
        }
    }
}

impl Pmi {
    fn greet(stream: UnixStream, (rank, size): (u32, u32)) -> Result<Self> {
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

    /// Starts programs: a command for each of them, and one answer to all.
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

    /// Sends a command and waits for its answer.
    fn ask(&mut self, command: &Command, answer: &'static str) -> Result<Command> {
        self.exchange(&command.encode(), command.name(), answer)
    }

    /// Sends the text of commands and waits for an answer.
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
                "it said {} instead of {answer}",
                found.name()
            )));
        }
        match found.number("rc") {
            None | Some(0) => Ok(found),
            Some(code) => Err(failed(format_args!(
                "{name} failed with {code}: {}",
                found.get("msg").unwrap_or("no reason given")
            ))),
        }
    }
}
