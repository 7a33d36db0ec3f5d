//! The `causeway` command: `causeway <command> <verb>`.
//!
//! Exit codes: 0 success, 1 the command failed, 2 wrong use. `--json` prints exactly one JSON
//! object on standard output. Progress is drawn on terminals only.
//!
//! Reading order: `causeway-command` (a command's output and end, and its worker processes), then the verbs: [`fs`],
//! [`info`], [`top`], [`log`] (with [`logging`], the command's own), [`run`](mod@run), [`demo`], [`sim`]; `bench` is a crate,
//! `causeway-bench`, and figures, plots and pages are one, `causeway-report`.
#![forbid(unsafe_code)]

mod demo;
mod fs;
mod info;
mod log;
mod logging;
mod run;
mod sim;
mod top;

use std::ffi::OsStr;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::{output, shutdown, workers};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

/// A user-level communication and parallel I/O stack for Linux clusters
#[derive(Debug, Parser)]
#[command(name = "causeway", version = causeway_report::machine::PROGRAM, max_term_width = 100, after_help = "Examples:
  causeway fs dev                     run a file system on this machine
  causeway fs put ~/data /data        copy a tree into it
  causeway demo                       see it work, fail and recover; get a report
  causeway info                       what works on this machine, and why the rest does not
  causeway top                        what messages do on this machine, as it happens

Environment:
  CAUSEWAY_LOG                        what is logged: warn,engine=debug,shm=trace (`causeway log --help`)
  CAUSEWAY_LOG_FILE                   a file to append the log to, instead of standard error")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Fs(fs::Arguments),
    Info(info::Arguments),
    Top(top::Arguments),
    Log(log::Arguments),
    Run(run::Arguments),
    Demo(demo::Arguments),
    Bench(causeway_bench::Arguments),
    Sim(sim::Arguments),
    /// Works for another causeway process
    #[command(name = workers::SUBCOMMAND, hide = true)]
    Worker {
        /// For which part of the program
        role: String,
    },
}

impl Command {
    /// Whether it is a server or a worker process.
    fn serves(&self) -> bool {
        match self {
            Self::Fs(arguments) => arguments.serves(),
            Self::Worker { .. } => true,
            _ => false,
        }
    }
}

fn main() {
    let mut arguments = std::env::args_os().skip(1).peekable();
    // `causeway run` has no `--json`: one behind it is the program's.
    let runs = arguments.peek().is_some_and(|verb| verb == "run");
    let json = !runs
        && arguments
            .take_while(|argument| argument != OsStr::new("--"))
            .any(|argument| argument == OsStr::new("--json"));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => shutdown::exit(wrong_use(&error, json)),
    };
    let code = match run(cli) {
        Ok(()) => 0,
        Err(failure) => {
            output::report_failure(&failure, json);
            failure.code
        }
    };
    shutdown::exit(code);
}

fn run(cli: Cli) -> Outcome {
    logging::start(cli.command.serves())?;
    // Each peer and each client takes descriptors. Only a program raises the limit, never a library.
    causeway_sys::limits::raise_open_files();
    match cli.command {
        Command::Fs(arguments) => fs::run(arguments),
        Command::Info(arguments) => info::run(arguments),
        Command::Top(arguments) => top::run(arguments),
        Command::Log(arguments) => log::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(arguments) => causeway_bench::run(arguments),
        Command::Sim(arguments) => sim::run(arguments),
        Command::Worker { role } => match role.as_str() {
            causeway_bench::WORKER => causeway_bench::work(),
            demo::worker::WORKER => demo::worker::work(),
            _ => Err(Failure::usage(
                format!("starting the worker {role}"),
                "this build has no worker of that name",
            )),
        },
    }
}

/// The verb of `causeway fs` that was given without `fs`.
fn fs_verb(error: &clap::Error) -> Option<String> {
    let ContextValue::String(verb) = error.get(ContextKind::InvalidSubcommand)? else {
        return None;
    };
    let is_first = std::env::args().nth(1).as_ref() == Some(verb);
    let causeway = Cli::command();
    let fs = causeway.find_subcommand("fs")?;
    let is_meant = is_first
        && fs
            .find_subcommand(verb)
            .is_some_and(|verb| !verb.is_hide_set());
    is_meant.then(|| verb.clone())
}

/// Prints help, the version or the error in the arguments; returns the exit code.
fn wrong_use(error: &clap::Error, json: bool) -> u8 {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // A closed pipe ends `causeway --help | head` quietly.
        let _ = error.print();
        return 0;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let text = match fs_verb(error) {
        Some(verb) => text.replacen(
            "\n\n",
            &format!("\n\n  did you mean `causeway fs {verb}`?\n\n"),
            1,
        ),
        None => text.to_owned(),
    };
    output::note(&format!("causeway: {text}"));
    if json {
        let (why, hint) = text.split_once("\n\n").unwrap_or((&text, ""));
        output::report_object("reading the arguments", why, Some(hint.trim()));
    }
    2
}
