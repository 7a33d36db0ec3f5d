//! `causeway fs mount` and `causeway fs umount`: the file system as a directory.

use std::path::PathBuf;
use std::process::Command;

use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::Output;
use causeway_command::shutdown;
use causeway_fs::client::ClientOptions;
use causeway_mount::options::{Options, UnknownOption};
use causeway_mount::session::{self, Spec, UnmountKind, default_threads};
use clap::Args;
use serde_json::json;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use super::control::{Using, obey_hangup};
use super::detached;
use super::session::{Session, Target};

/// Mount the file system at a directory, so that every program can use it
///
/// The command returns once the mount replies, and a process in the background serves it until it is unmounted: with
/// `causeway fs umount` or `umount`. Root mounts for everybody with `-o allow_other`; other users need fusermount3
/// (package fuse3).
///
/// `mount -t causeway` and /etc/fstab need the helper /sbin/mount.causeway, which `make install` installs.
///
/// With `[nodes]` in the configuration, SIGHUP to that process has it read again which authorities it accepts, which certificates were revoked, and its
/// node's own. SIGHUP never ends a mount.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs mount /mnt
  causeway fs mount --config /etc/causeway.toml -o allow_other,noatime /mnt
  causeway fs mount --foreground ~/files
  mount -t causeway /etc/causeway.toml /mnt

In /etc/fstab:
  /etc/causeway.toml  /mnt  causeway  allow_other,_netdev  0  0")]
pub(crate) struct MountArguments {
    /// Where: an existing directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Options as in mount(8): ro, allow_other, allow_root, noexec, nosuid, noatime, …; config=FILE and via=SCHEME as the
    /// options of these names
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Serve in the foreground, until it is unmounted, SIGTERM or Ctrl-C
    #[arg(long, short)]
    foreground: bool,
    /// Threads that serve requests [default: twice the number of processors, 4 to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Serve in the background (used internally to start a detached mount)
    #[arg(long, hide = true, conflicts_with = "foreground")]
    background: bool,
    #[command(flatten)]
    target: Target,
}

/// Unmount a file system that was mounted with `causeway fs mount`
///
/// Also one whose process was killed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs umount /mnt
  causeway fs umount --lazy /mnt
  causeway fs umount --force /mnt")]
pub(crate) struct UnmountArguments {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Also while programs use it: it disappears at once, and ends with the last use
    #[arg(long, short)]
    lazy: bool,
    /// Also while programs wait for it, for servers that do not reply or a process that was killed: what they wait for fails, and
    /// their open files from then on
    #[arg(long, short, conflicts_with = "lazy")]
    force: bool,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs `mount`.
pub(crate) fn mount(arguments: MountArguments) -> Outcome {
    let mut target = arguments.target.clone();
    let options = read_options(&arguments.options, &mut target)?;
    let at = session::mount_point(&arguments.directory)?;
    let session = Session::open(&target)?;
    if !arguments.foreground && !arguments.background {
        return detach(&arguments, &session, &at.directory);
    }
    // SIGHUP is caught from the start: one that comes before the mount serves is handled when it does.
    let doing = || "catching SIGHUP".to_owned();
    let signals = Signals::new([SIGHUP]).doing(doing)?;
    shutdown::on_signals_but_hangup()?;
    end_on_panic();
    let unmounter = at.unmounter();
    shutdown::clean_up_with(move || unmounter.unmount());
    let file = session.file.canonicalize();
    let file = file.unwrap_or_else(|_| session.file.clone());
    let mount = session::mount(&Spec {
        configuration: &session.configuration,
        client: ClientOptions {
            only_scheme: session.via.clone(),
            ..ClientOptions::default()
        },
        name: &file.to_string_lossy(),
        at: &at,
        options: &options,
        threads: arguments.threads.map_or_else(default_threads, usize::from),
    })?;
    let using = Using {
        configuration: session.configuration.clone(),
        file: file.clone(),
    };
    obey_hangup(signals, using).doing(doing)?;
    match arguments.background {
        true => detached::leave_terminal()?,
        false => {
            let place = arguments.directory.display();
            let hint = format!("unmount it with `causeway fs umount {place}`, or Ctrl-C");
            report(&session.output, &at.directory, std::process::id(), &hint);
        }
    }
    mount.serve();
    Ok(())
}

/// Runs `umount`.
pub(crate) fn unmount(arguments: UnmountArguments) -> Outcome {
    let end = match (arguments.lazy, arguments.force) {
        (true, _) => UnmountKind::Lazy,
        (_, true) => UnmountKind::Forced,
        _ => UnmountKind::Unused,
    };
    session::unmount(&arguments.directory, end)?;
    let directory = arguments.directory.display().to_string();
    let output = Output::new(arguments.json);
    output.object(&json!({ "unmounted": directory }));
    Ok(())
}

/// The options given with `-o`.
fn read_options(texts: &[String], target: &mut Target) -> Outcome<Options> {
    let text = texts.join(",");
    let options: Options = text.parse().map_err(|error: UnknownOption| {
        Failure::usage(format!("reading -o {text}"), error.to_string())
            .hint("see `causeway fs mount --help` for those that there are")
    })?;
    for (name, value) in &options.others {
        match name.as_str() {
            "config" => target.config = Some(PathBuf::from(value)),
            _ => target.via = Some(value.clone()),
        }
    }
    Ok(options)
}

fn report(output: &Output, directory: &std::path::Path, pid: u32, hint: &str) {
    let directory = directory.display().to_string();
    output.line(&format!("{directory} is mounted; {hint}"));
    output.object(&json!({ "mounted": directory, "pid": pid }));
}

/// Starts this program again to serve the mount, and waits until it replies to requests.
fn detach(arguments: &MountArguments, session: &Session, directory: &std::path::Path) -> Outcome {
    let doing = || "starting the process that serves the mount".to_owned();
    let mut command = Command::new(std::env::current_exe().doing(doing)?);
    command
        .args(["fs", "mount", "--background", "--config"])
        .arg(session.file.canonicalize().doing(doing)?);
    for options in &arguments.options {
        // The configuration has been found already, and its path may be relative to this process's
        // directory.
        let kept = options.split(',');
        let kept: Vec<&str> = kept.filter(|one| !one.starts_with("config=")).collect();
        command.arg("-o").arg(kept.join(","));
    }
    if let Some(scheme) = &session.via {
        command.args(["--via", scheme]);
    }
    if let Some(threads) = arguments.threads {
        command.args(["--threads", &threads.to_string()]);
    }
    command.arg("--").arg(directory);
    let pid = detached::start(command, doing)?;
    report(
        &session.output,
        directory,
        pid,
        &format!(
            "unmount it with `causeway fs umount {}`",
            directory.display()
        ),
    );
    Ok(())
}

/// If a thread did not reply to a request, the requesting program would wait for ever; once the
/// process has ended, all requests get errors.
fn end_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}
