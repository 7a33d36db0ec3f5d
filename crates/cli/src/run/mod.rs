//! `causeway run`: starts the processes of a parallel program on this machine, and watches over them.
//!
//! Each process has a socket to this one, over which it speaks PMI-1 ([`pmi`]), as with MPICH's launcher. When one dies, the
//! others get some time to say what they have noticed, and are ended then. They can have more programs started ([`programs`]), which
//! are watched over in the same way ([`job`]).

mod event;
mod job;
mod pmi;
mod programs;
mod who;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::{output, shutdown};
use clap::Args;
use rustix::process::{Signal, pidfd_send_signal};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use self::event::{Event, Running};
use self::job::Job;
use self::programs::{Program, Request};
use self::who::Who;

/// How long processes may go on once one of them has died: they notice, say so and end, or they do not.
const AFTER_DEATH: Duration = Duration::from_secs(2);
/// How long they may take to end once they were asked to.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// Run a parallel program on this machine
///
/// Starts N processes of a program that was built for MPI's standard ABI. If libmpi_abi.so.1 lies beside this command,
/// or in ../lib/causeway-mpi, they find it there unless LD_LIBRARY_PATH leads to another one. The exit code is 0 if all processes
/// have ended with 0, or that of the first that has not (128 and the signal's number if it was killed). Programs may start
/// others (MPI_Comm_spawn); their output is labelled [1.0] for rank 0 of the first that was started, and so on.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway run -n 4 ./program
  causeway run -n 8 --label ./program --its-own-options
  causeway run -n 1 --universe 5 ./manager    # which may start four workers")]
pub(crate) struct Arguments {
    /// How many processes
    #[arg(short = 'n', long = "processes", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: u32,
    /// Print each line with the rank of the process that has written it
    #[arg(long)]
    label: bool,
    /// How many processes programs are told that there may be with those that they start: MPI_UNIVERSE_SIZE, N unless more
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=4096))]
    universe: Option<u32>,
    /// Serve the process that has started this command, which speaks over standard input
    #[arg(long, hide = true, conflicts_with = "program")]
    attach: bool,
    /// The program
    #[arg(value_name = "PROGRAM", required_unless_present = "attach")]
    program: Option<PathBuf>,
    /// Its arguments
    #[arg(
        value_name = "ARGUMENT",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<std::ffi::OsString>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    shutdown::expect_children();
    let directory = shutdown::ScratchDirectory::new(&std::env::temp_dir(), "run")?;
    let (sender, events) = channel();
    forward_signals(&sender)?;
    let universe = arguments.universe.unwrap_or(arguments.processes);
    let universe = universe.max(arguments.processes);
    let place = directory.path().to_owned();
    let job = Arc::new(Job::new((arguments.label, universe), place, sender));
    let expected = match arguments.program {
        Some(program) => {
            let program = Program {
                path: program,
                arguments: arguments.arguments,
                processes: arguments.processes,
                directory: None,
            };
            job.begin(&Request {
                programs: vec![program],
                ..Request::default()
            })?;
            arguments.processes
        }
        None => {
            attach(&job)?;
            0
        }
    };
    match watch(&job, &events, (expected, arguments.attach)) {
        0 => Ok(()),
        code => Err(Failure {
            code,
            ..Failure::reported()
        }),
    }
}

/// Serves the process that has started this command: standard input is a socket of its.
fn attach(job: &Arc<Job>) -> Outcome {
    let doing = || "taking standard input for a connection".to_owned();
    let input = std::io::stdin().as_fd().try_clone_to_owned().doing(doing)?;
    job.attach(UnixStream::from(input))
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

/// Whether a process has begun to take part, and has not finished; or was to begin.
fn has_left_early(job: &Job, who: Who) -> bool {
    let server = job.server(who);
    server.is_some_and(|server| server.has_left_early(who.rank))
}

/// Watches over the processes until all have ended: those that are expected to start, and those that they start. Returns the exit
/// code.
fn watch(job: &Job, events: &Receiver<Event>, (mut expected, mut is_attached): (u32, bool)) -> u8 {
    let mut running = Vec::new();
    let (mut code, mut asked, mut was_killed) = (0, Asked::Nothing, false);
    while expected > 0 || is_attached || !running.is_empty() {
        let event = match asked {
            Asked::At(then, _) => {
                events.recv_timeout(then.saturating_duration_since(Instant::now()))
            }
            _ => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(Event::Started(process)) => {
                expected = expected.saturating_sub(1);
                if asked == Asked::Killed {
                    tell_all(std::slice::from_ref(&process), Signal::KILL);
                }
                running.push(process);
            }
            Ok(Event::Detached(who)) => {
                is_attached = false;
                if has_left_early(job, who) {
                    let text =
                        "the process that has started the others has ended without MPI_Finalize";
                    fail(&mut code, &mut asked, (1, AFTER_DEATH), text);
                }
            }
            Ok(Event::Ended(who, status)) => {
                running.retain(|process| process.who != who);
                if job.server(who).is_some_and(|server| server.is_given_up()) {
                    continue;
                }
                let left = has_left_early(job, who);
                if !status.success() {
                    let text = format!("{who} {}", describe(status));
                    if status.signal().is_some()
                        && !was_killed
                        && code != 0
                        && !matches!(asked, Asked::Killed | Asked::At(_, Signal::KILL))
                    {
                        // The others may have noticed, and ended, before this was known here.
                        code = code_of(status);
                        output::warn(&text);
                    }
                    was_killed |= status.signal().is_some();
                    fail(&mut code, &mut asked, (code_of(status), AFTER_DEATH), &text);
                } else if left {
                    let text = format!("{who} has ended without MPI_Finalize");
                    fail(&mut code, &mut asked, (1, AFTER_DEATH), &text);
                }
            }
            Ok(Event::Aborted(who, exit)) => {
                let text = format!("{who} has called MPI_Abort, or failed, with code {exit}");
                let exit = u8::try_from(exit & 0xff).unwrap_or(1);
                fail(&mut code, &mut asked, (exit, Duration::ZERO), &text);
            }
            Ok(Event::Nonsense(who, why)) => {
                let text = format!("{who} does not speak PMI-1: {why}");
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
