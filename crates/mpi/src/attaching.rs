//! Starts a launcher for a process that was started alone and starts others: `causeway run`, which treats it like the processes that it has
//! started itself.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::abi;
use crate::error::{Error, Result};

/// Names the command `causeway`, if it is neither beside the library nor in `PATH`.
pub const COMMAND: &str = "CAUSEWAY_COMMAND";

/// The path of this library's file, from the kernel's list of mappings.
fn library() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .find(|path| path.contains("/libmpi_abi.so"))?;
    Some(PathBuf::from(path))
}

/// The command: the one that the environment names, the one that was installed or built with the library, or the one in `PATH`.
fn command() -> PathBuf {
    if let Some(path) = std::env::var_os(COMMAND) {
        return PathBuf::from(path);
    }
    let library = library();
    let here = library.as_ref().and_then(|path| path.parent());
    let places = here.map(|here| ["", "../bin", "../../bin"].map(|place| here.join(place)));
    let mut files = places
        .into_iter()
        .flatten()
        .map(|place| place.join("causeway"));
    let found = files.find(|file| file.is_file());
    found.unwrap_or_else(|| PathBuf::from("causeway"))
}

/// Starts a launcher, which lives as long as this process and those that it starts. Returns the connection with it.
pub(crate) fn start_launcher() -> Result<UnixStream> {
    let failed = |what: String| {
        let text = format!(
            "a process that was started alone starts others by `causeway run`: {what}; start it with `causeway run` or \
             mpiexec, or name the command in {COMMAND}"
        );
        Error::new(abi::ERR_SPAWN, text)
    };
    let (ours, theirs) =
        UnixStream::pair().map_err(|error| failed(format!("a pair of sockets: {error}")))?;
    let command = command();
    Command::new(&command)
        .args(["run", "--attach"])
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| failed(format!("{}: {error}", command.display())))?;
    Ok(ours)
}
