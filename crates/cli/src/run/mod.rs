//! `causeway run`: starts the processes of a parallel program on this machine, and watches over them.
//!
//! Each process has a socket to this one, over which it speaks PMI-1 ([`pmi`]), as with MPICH's launcher. When one dies, the
//! others get some time to say what they have noticed, and are ended then.

mod event;
mod pmi;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::{output, shutdown};
use clap::Args;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use self::event::Event;
use self::pmi::Server;

/// How long processes may go on once one of them has died: they notice, say so and end, or they do not.
const AFTER_DEATH: Duration = Duration::from_secs(2);
/// How long they may take to end once they were asked to.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// Run a parallel program on this machine
///
/// Starts N processes of a program that was built for MPI's standard ABI. If libmpi_abi.so.1 lies beside this command,
/// or in ../lib/causeway-mpi, they find it there unless LD_LIBRARY_PATH leads to another one. The exit code is 0 if all processes
/// have ended with 0, or that of the first that has not (128 and the signal's number if it was killed).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway run -n 4 ./program
  causeway run -n 8 --label ./program --its-own-options")]
pub(crate) struct Arguments {
    /// How many processes
    #[arg(short = 'n', long = "processes", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: u32,
    /// Print each line with the rank of the process that has written it
    #[arg(long)]
    label: bool,
    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Its arguments
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<std::ffi::OsString>,
}

/// A process of the program that runs.
struct Running {
    rank: u32,
    /// Stays the process's when its number is used again.
    handle: OwnedFd,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::expect_children();
    let directory = shutdown::ScratchDirectory::new(&std::env::temp_dir(), "run")?;
    let (sender, events) = channel();
    forward_signals(&sender)?;
    let server = Arc::new(Server::new(arguments.processes));
    let mut running = Vec::new();
    for rank in 0..arguments.processes {
        let environment = Environment {
            rank,
            size: arguments.processes,
            directory: directory.path().to_owned(),
        };
        running.push(start(&arguments, environment, &server, &sender)?);
    }
    drop(sender);
    match watch(running, &events, &server) {
        0 => Ok(()),
        code => Err(Failure {
            code,
            ..Failure::reported()
        }),
    }
}

/// What a process is told by its environment.
struct Environment {
    rank: u32,
    size: u32,
    directory: PathBuf,
}

/// Where our library lies, if it lies where an installed one does.
fn library_path() -> Option<std::ffi::OsString> {
    let own = std::env::current_exe().ok()?;
    let here = own.parent()?;
    let places = ["", "../lib", "../lib/causeway-mpi"].map(|place| here.join(place));
    let place = places
        .into_iter()
        .find(|place| place.join("libmpi_abi.so.1").exists())?;
    let inherited = std::env::var_os("LD_LIBRARY_PATH");
    // What the user has set comes first.
    let paths = inherited
        .iter()
        .flat_map(std::env::split_paths)
        .collect::<Vec<_>>();
    std::env::join_paths(paths.into_iter().chain([place])).ok()
}

fn start(
    arguments: &Arguments,
    environment: Environment,
    server: &Arc<Server>,
    events: &Sender<Event>,
) -> Outcome<Running> {
    let Environment {
        rank,
        size,
        directory,
    } = environment;
    let doing = || format!("starting rank {rank} of {}", arguments.program.display());
    let (ours, theirs) = UnixStream::pair().doing(doing)?;
    // Only this child inherits it: it is closed here before the next is started.
    fcntl_setfd(&theirs, FdFlags::empty()).doing(doing)?;
    let mut command = Command::new(&arguments.program);
    command
        .args(&arguments.arguments)
        .env("PMI_FD", theirs.as_raw_fd().to_string())
        .env("PMI_RANK", rank.to_string())
        .env("PMI_SIZE", size.to_string())
        .env(causeway_mpi::start::DIRECTORY, directory);
    if let Some(path) = library_path() {
        command.env("LD_LIBRARY_PATH", path);
    }
    if rank > 0 {
        command.stdin(Stdio::null());
    }
    if arguments.label {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().doing(doing)?;
    drop(theirs);
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).doing(doing)?;
    let labelled = label_output(rank, &mut child).doing(doing)?;
    server.serve(rank, ours, events.clone()).doing(doing)?;
    let events = events.clone();
    std::thread::Builder::new()
        .name(format!("rank {rank}"))
        .spawn(move || {
            // What it has written is out before its end is reported.
            for thread in labelled {
                let _ = thread.join();
            }
            if let Ok(status) = child.wait() {
                // Nobody listens when the command is ending.
                let _ = events.send(Event::Ended(rank, status));
            }
        })
        .doing(doing)?;
    Ok(Running { rank, handle })
}

/// Prints what a process writes, with its rank, if its output was asked for.
fn label_output(rank: u32, child: &mut Child) -> std::io::Result<Vec<std::thread::JoinHandle<()>>> {
    let mut threads = Vec::new();
    if let Some(out) = child.stdout.take() {
        let thread = std::thread::Builder::new();
        threads.push(thread.spawn(move || label(rank, out, &mut std::io::stdout()))?);
    }
    if let Some(error) = child.stderr.take() {
        let thread = std::thread::Builder::new();
        threads.push(thread.spawn(move || label(rank, error, &mut std::io::stderr()))?);
    }
    Ok(threads)
}

fn label(rank: u32, from: impl Read, to: &mut impl Write) {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    // A process that is gone and one whose output nobody takes are the same here: nothing more to print.
    while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        let mut whole = format!("[{rank}] ").into_bytes();
        whole.append(&mut line);
        if to.write_all(&whole).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn forward_signals(events: &Sender<Event>) -> Outcome {
    let doing = || "handling signals".to_owned();
    let all = [
        SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT,
    ];
    let mut signals = signal_hook::iterator::Signals::new(all).doing(doing)?;
    let events = events.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })
        .doing(doing)?;
    Ok(())
}

fn tell_all(running: &[Running], signal: Signal) {
    for process in running {
        // One that has ended already is as good as told.
        let _ = pidfd_send_signal(&process.handle, signal);
    }
}

/// The exit code that stands for a process's end, as shells have it.
fn code_of(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => match signal_hook::low_level::signal_name(signal) {
            Some(name) => format!("was killed by {name}"),
            None => format!("was killed by signal {signal}"),
        },
        (None, code) => format!("has ended with exit code {}", code.unwrap_or(1)),
    }
}

/// What the others are asked to do when one has died.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Nothing,
    /// To end when this time has come, by this signal.
    At(Instant, Signal),
    /// They are killed.
    Killed,
}

/// Something has failed: the first failure is reported and gives the exit code, and the others have some time to end.
fn fail(code: &mut u8, asked: &mut Asked, (failed, wait): (u8, Duration), text: &str) {
    if *code == 0 {
        *code = failed.max(1);
        output::warn(text);
    }
    if *asked == Asked::Nothing {
        *asked = Asked::At(Instant::now() + wait, Signal::TERM);
    }
}

/// Watches over the processes until all have ended. Returns the exit code.
fn watch(mut running: Vec<Running>, events: &Receiver<Event>, server: &Server) -> u8 {
    let (mut code, mut asked, mut was_killed) = (0, Asked::Nothing, false);
    while !running.is_empty() {
        let event = match asked {
            Asked::At(then, _) => {
                events.recv_timeout(then.saturating_duration_since(Instant::now()))
            }
            _ => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Ended(rank, status)) => {
                running.retain(|process| process.rank != rank);
                let left = server.has_left_early(rank);
                if !status.success() {
                    let text = format!("rank {rank} {}", describe(status));
                    if status.signal().is_some()
                        && !was_killed
                        && code != 0
                        && asked != Asked::Killed
                    {
                        // The others may have noticed, and ended, before this was known here.
                        code = code_of(status);
                        output::warn(&text);
                    }
                    was_killed |= status.signal().is_some();
                    fail(&mut code, &mut asked, (code_of(status), AFTER_DEATH), &text);
                } else if left {
                    let text = format!("rank {rank} has ended without MPI_Finalize");
                    fail(&mut code, &mut asked, (1, AFTER_DEATH), &text);
                }
            }
            Ok(Event::Aborted(rank, exit)) => {
                let text = format!("rank {rank} has called MPI_Abort, or failed, with code {exit}");
                let exit = u8::try_from(exit & 0xff).unwrap_or(1);
                fail(&mut code, &mut asked, (exit, Duration::ZERO), &text);
            }
            Ok(Event::Nonsense(rank, why)) => {
                let text = format!("rank {rank} does not speak PMI-1: {why}");
                fail(&mut code, &mut asked, (1, Duration::ZERO), &text);
            }
            Ok(Event::Signal(signal)) => {
                if let Some(signal) = Signal::from_named_raw(signal) {
                    tell_all(&running, signal);
                }
            }
            Err(_) => {
                asked = match asked {
                    Asked::At(_, Signal::TERM) => {
                        tell_all(&running, Signal::TERM);
                        Asked::At(Instant::now() + AFTER_TERM, Signal::KILL)
                    }
                    _ => {
                        tell_all(&running, Signal::KILL);
                        Asked::Killed
                    }
                };
            }
        }
    }
    code
}
