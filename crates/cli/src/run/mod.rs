//! `causeway run`: starts the processes of a parallel program on this machine, and monitors them.
//!
//! Each process has a socket to this one, over which it speaks PMI-1 ([`pmi`]), as with MPICH's
//! launcher. When one dies, the others get some time to report what they have noticed, and are then
//! ended. They can have more programs started ([`programs`]), which are monitored in the same way
//! ([`job`]). [`hang`] samples the calls that they are in, [`events`] writes timelines and traces.

mod child;
mod event;
mod events;
mod hang;
mod job;
mod job_rank;
mod labels;
mod pmi;
mod programs;

use std::ffi::OsString;
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
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};

use self::event::{Event, Running};
use self::events::Outputs;
use self::hang::Watcher;
use self::job::{Job, Shown};
use self::job_rank::JobRank;
use self::programs::{Program, Request};

/// A signal less than this after the first one is no second request to end: `timeout` sends two at the same time, one to this process
/// and one to its group.
const REPEATED_AFTER: Duration = Duration::from_millis(500);
/// Neither is one so long after it: programs may handle these signals, again and again.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);

/// How long processes may take to end after SIGTERM.
const AFTER_TERM: Duration = Duration::from_secs(2);

/// Run a parallel program on this machine
///
/// Starts N processes of a program that was built for MPI's standard ABI. If libmpi_abi.so.1 lies beside this command,
/// or in ../lib/causeway-mpi, they find it there unless LD_LIBRARY_PATH leads to another one. The exit code is 0 if all processes
/// have ended with 0, or that of the first that has not (128 and the signal's number if it was killed). Programs may start
/// others (MPI_Comm_spawn); their output is labelled [1.0] for rank 0 of the first that was started, and so on.
///
/// SIGINT (Ctrl-C), SIGTERM and SIGHUP go to all processes. A program may handle them, or be unable to (Python does not while it
/// waits in MPI): if processes still run, a further one of these signals, half a second to ten seconds later, kills them.
///
/// SIGQUIT (Ctrl-\) prints a hang report instead of ending the program: what each rank is in, with whom, for how long, what
/// is queued, and who seems to wait for whom. Hang reports, timelines and traces need the library that comes with this command.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway run -n 4 ./program
  causeway run -n 8 --label ./program --its-own-options
  causeway run -n 1 --universe 5 ./manager    # which may start four workers
  causeway run -n 4 --stall 10 ./program
  causeway run -n 4 --timeline program.json ./program    # for https://ui.perfetto.dev
  causeway run -n 4 --trace program.trace ./program")]
pub(crate) struct Arguments {
    /// How many processes
    #[arg(short = 'n', long = "processes", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    processes: u32,
    /// Print each line with the rank of the process that has written it
    #[arg(long)]
    label: bool,
    /// The value of MPI_UNIVERSE_SIZE: the most processes, with those that programs spawn [default and least: N]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=4096))]
    universe: Option<u32>,
    /// How long the other processes may run after one has died, until they are killed: time to report its death and exit
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "2")]
    grace: Duration,
    /// Print a hang report when a call takes longer than this
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    stall: Option<Duration>,
    /// Write what each rank did, as JSON for Perfetto and chrome://tracing
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write a line for each call that communicates (rank, thread, operation, peer, tag, bytes, time since the last one, time in it,
    /// who takes part) and for each message; `causeway sim run` replays it
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Serve the process that has started this command, which speaks over standard input
    #[arg(long, hide = true, conflicts_with = "program")]
    attach: bool,
    /// The program, and its arguments: all that follows it, also what looks like an option of this command
    // One argument of the parser's: between two, options would be this command's.
    #[arg(
        value_names = ["PROGRAM", "ARGUMENT"],
        num_args = 1..,
        trailing_var_arg = true,
        required_unless_present = "attach"
    )]
    program: Vec<OsString>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("not a time above 0".to_owned()),
    }
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
    let mut watcher = Watcher::new(arguments.stall)?;
    let outputs = Outputs::create(arguments.timeline.as_deref(), arguments.trace.as_deref())?;
    let shown = Shown {
        calls: watcher.path(),
        has_events: outputs.are_wanted(),
    };
    let job = Job::new((arguments.label, universe), place, shown, sender);
    let job = Arc::new(job);
    let mut program = arguments.program.into_iter();
    let expected = match program.next() {
        Some(path) => {
            let program = Program {
                path: path.into(),
                arguments: program.collect(),
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
    let ending = Ending {
        code: 0,
        grace: arguments.grace,
        asked: EndRequest::Nothing,
        was_killed: false,
        interrupted: None,
    };
    let of_whom = (expected, arguments.attach);
    let code = watch(&job, &events, &mut watcher, of_whom, ending);
    outputs.write(directory.path(), watcher.processes())?;
    match code {
        0 => Ok(()),
        code => Err(Failure {
            code,
            ..Failure::reported()
        }),
    }
}

/// Handles the requests of the process that has started this command: standard input is a socket to
/// it.
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

fn signal_all(running: &[Running], signal: Signal) {
    for process in running {
        process.signals.send(signal);
    }
}

/// The exit code for a process's end, as in shells.
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

/// How the other processes were asked to end when one has died.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndRequest {
    Nothing,
    /// They were sent this signal, and are to end by this time.
    At(Instant, Signal),
    /// They are killed.
    Killed,
}

/// The state of a program that is ending.
struct Ending {
    code: u8,
    /// How long the others may go on once one has died.
    grace: Duration,
    asked: EndRequest,
    /// A process was killed by a signal.
    was_killed: bool,
    /// When the processes were last sent a signal that ends those that do not handle it, and that was not repeated.
    interrupted: Option<Instant>,
}

impl Ending {
    /// Notes a failure: the first one is reported and determines the exit code, and the other
    /// processes have some time to end.
    fn fail(&mut self, failed: u8, wait: Duration, text: &str) {
        if self.code == 0 {
            self.code = failed.max(1);
            output::warn(text);
        }
        if self.asked == EndRequest::Nothing {
            self.asked = EndRequest::At(Instant::now() + wait, Signal::TERM);
        }
    }

    /// Notes the end of a process.
    fn ended(&mut self, job: &Job, job_rank: JobRank, status: ExitStatus) {
        if job
            .server(job_rank)
            .is_some_and(|server| server.is_given_up())
        {
            return;
        }
        let left = has_left_early(job, job_rank);
        let waiting = job
            .server(job_rank)
            .and_then(|server| server.ended(job_rank.rank));
        if !status.success() {
            let text = format!("{job_rank} {}", describe(status));
            let is_asked = matches!(
                self.asked,
                EndRequest::Killed | EndRequest::At(_, Signal::KILL)
            );
            if status.signal().is_some() && !self.was_killed && self.code != 0 && !is_asked {
                // The others may have noticed, and ended, before the failure was known here.
                self.code = code_of(status);
                output::warn(&text);
            }
            self.was_killed |= status.signal().is_some();
            self.fail(code_of(status), self.grace, &text);
        } else if left {
            let text = format!("{job_rank} has ended without MPI_Finalize");
            self.fail(1, self.grace, &text);
        } else if let Some(rank) = waiting {
            self.absent(job_rank, JobRank { rank, ..job_rank });
        }
    }

    /// Notes that a process has ended without MPI, and that another one waits for it.
    fn absent(&mut self, absent: JobRank, waiting: JobRank) {
        let text = format!("{absent} has ended without MPI_Init, in which {waiting} waits for it");
        self.fail(1, self.grace, &text);
    }

    /// Notes that output of a process is lost.
    fn unprinted(&mut self, job_rank: JobRank, error: &std::io::Error) {
        if self.code == 0 {
            self.code = 1;
            output::warn(&format!(
                "the output of {job_rank} cannot be printed: {error}"
            ));
        }
    }

    /// Passes on a signal to this command. Kills the processes if they have had one shortly before that was to end them.
    fn signalled(&mut self, running: &[Running], number: i32, now: Instant) {
        let Some(signal) = Signal::from_named_raw(number) else {
            return;
        };
        if !matches!(signal, Signal::INT | Signal::TERM | Signal::HUP) {
            signal_all(running, signal);
            if signal == Signal::TSTP {
                // A shell waits for this, too, until it takes the terminal. A process that has a handler for SIGTSTP stops by SIGSTOP.
                let _ = kill_process(getpid(), Signal::STOP);
            }
            return;
        }
        let since = self
            .interrupted
            .map(|first| now.saturating_duration_since(first))
            .filter(|since| *since <= REPEATED_WITHIN);
        if since.is_none() {
            self.interrupted = Some(now);
        }
        if since.is_none_or(|since| since < REPEATED_AFTER) {
            signal_all(running, signal);
            return;
        }
        let name = signal_hook::low_level::signal_name(number).unwrap_or("a signal");
        let text = format!("{name} came again: the processes are killed");
        let code = u8::try_from(128 + number).unwrap_or(1);
        self.fail(code, Duration::ZERO, &text);
        signal_all(running, Signal::KILL);
        self.asked = EndRequest::Killed;
    }

    /// Ends processes whose time is up.
    fn end_overdue(&mut self, running: &[Running]) {
        self.asked = match self.asked {
            EndRequest::At(_, Signal::TERM) => {
                signal_all(running, Signal::TERM);
                EndRequest::At(Instant::now() + AFTER_TERM, Signal::KILL)
            }
            _ => {
                signal_all(running, Signal::KILL);
                EndRequest::Killed
            }
        };
    }
}

/// Whether a process has begun to take part and has not finished, or was expected to begin.
fn has_left_early(job: &Job, job_rank: JobRank) -> bool {
    let server = job.server(job_rank);
    server.is_some_and(|server| server.has_left_early(job_rank.rank))
}

fn all_of(running: &[Running]) -> Vec<JobRank> {
    running.iter().map(|process| process.job_rank).collect()
}

/// Watches over the processes until all have ended: those that are expected to start, and those that they start. Returns the exit
/// code.
fn watch(
    job: &Arc<Job>,
    events: &Receiver<Event>,
    watcher: &mut Watcher,
    (mut expected, mut is_attached): (u32, bool),
    mut ending: Ending,
) -> u8 {
    let mut running = Vec::new();
    while expected > 0 || is_attached || !running.is_empty() {
        let until = match ending.asked {
            EndRequest::At(then, _) => then.min(watcher.next()),
            _ => watcher.next(),
        };
        let event = events.recv_timeout(until.saturating_duration_since(Instant::now()));
        if let Some(report) = watcher.look(&all_of(&running)) {
            output::warn(&report);
        }
        match event {
            Ok(Event::Started(process)) => {
                expected = expected.saturating_sub(1);
                if ending.asked == EndRequest::Killed {
                    signal_all(std::slice::from_ref(&process), Signal::KILL);
                }
                watcher.add(process.job_rank, process.page);
                running.push(process);
            }
            Ok(Event::Start(request, reply)) => {
                let started = job.begin(&request);
                // The process may have ended meanwhile.
                let _ = reply.send(started.map_err(|failure| failure.to_string()));
            }
            Ok(Event::Detached(job_rank)) => {
                is_attached = false;
                if has_left_early(job, job_rank) {
                    let text =
                        "the process that has started the others has ended without MPI_Finalize";
                    ending.fail(1, ending.grace, text);
                }
            }
            Ok(Event::Ended(job_rank, status)) => {
                running.retain(|process| process.job_rank != job_rank);
                ending.ended(job, job_rank, status);
            }
            Ok(Event::Absent(absent, waiting)) => ending.absent(absent, waiting),
            Ok(Event::Aborted(job_rank, exit)) => {
                let text = format!("{job_rank} has called MPI_Abort, or failed, with code {exit}");
                let exit = u8::try_from(exit & 0xff).unwrap_or(1);
                ending.fail(exit, Duration::ZERO, &text);
            }
            Ok(Event::ProtocolViolation(job_rank, why)) => {
                let text = format!("{job_rank} does not speak PMI-1: {why}");
                ending.fail(1, Duration::ZERO, &text);
            }
            Ok(Event::Unprinted(job_rank, error)) => ending.unprinted(job_rank, &error),
            Ok(Event::Signal(SIGQUIT)) => output::warn(&watcher.report(&all_of(&running))),
            Ok(Event::Signal(signal)) => ending.signalled(&running, signal, Instant::now()),
            Err(RecvTimeoutError::Timeout) => match ending.asked {
                EndRequest::At(then, _) if then <= Instant::now() => ending.end_overdue(&running),
                // No event came in time: the calls of the processes are sampled.
                _ => {}
            },
            Err(RecvTimeoutError::Disconnected) => ending.end_overdue(&running),
        }
    }
    ending.code
}
