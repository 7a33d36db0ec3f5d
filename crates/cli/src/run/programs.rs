//! Requests of processes to start programs: commands of PMI-1 with several lines.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use causeway_wire::pmi::Command;

/// Most processes that one command starts.
pub(super) const MOST: u32 = 4096;

/// A program to be started, several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) processes: u32,
    /// The directory to run it in, if not this one.
    pub(super) directory: Option<PathBuf>,
}

/// Programs that are started together, some of which may not have been received yet.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) programs: Vec<Program>,
    /// Keys published for them beforehand.
    pub(super) published: BTreeMap<String, String>,
}

/// The values of `count` keys that are numbered.
fn numbered<'a>(command: &'a Command, key: &str, first: i64, count: &str) -> Option<Vec<&'a str>> {
    let count = command.number(count).unwrap_or(0);
    let all = (first..first.checked_add(count)?).map(|at| command.get(&format!("{key}{at}")));
    all.collect()
}

fn pairs<'a>(command: &'a Command, of: &str) -> Option<Vec<(&'a str, &'a str)>> {
    let count = format!("{of}_num");
    let keys = numbered(command, &format!("{of}_key_"), 0, &count)?;
    let values = numbered(command, &format!("{of}_val_"), 0, &count)?;
    Some(keys.into_iter().zip(values).collect())
}

/// Whether a host is this one, the only one that this launcher has.
fn is_this_host(host: &str) -> bool {
    let own = rustix::system::uname();
    let own = own.nodename().to_string_lossy();
    let short = own.split('.').next().unwrap_or_default();
    [&*own, short, "localhost", "127.0.0.1"].contains(&host)
}

/// The file of a command: in one of the directories, separated by colons, if one of them has it.
fn find(command: &str, directories: Option<&str>) -> PathBuf {
    let mut places = directories.unwrap_or_default().split(':');
    let found = places.find_map(|place| {
        let file = Path::new(place).join(command);
        (!place.is_empty() && file.is_file()).then_some(file)
    });
    found.unwrap_or_else(|| PathBuf::from(command))
}

impl Request {
    /// Adds the program of one command. Returns whether it was the last one.
    pub(super) fn add(&mut self, command: &Command) -> Result<bool, String> {
        let missing = || "the request lacks the command or the number of processes".to_owned();
        let hints = pairs(command, "info").ok_or_else(missing)?;
        let hint = |name: &str| {
            let found = hints.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| *value)
        };
        if let Some(host) = hint("host").filter(|host| !is_this_host(host)) {
            return Err(format!(
                "{host} is another host; causeway run has this one only"
            ));
        }
        let name = command.get("execname").ok_or_else(missing)?;
        let processes = command.number("nprocs").unwrap_or(0);
        let processes = u32::try_from(processes).unwrap_or(MOST + 1);
        if processes == 0 || self.processes().saturating_add(processes) > MOST {
            return Err(format!("{processes} processes; there may be 1 to {MOST}"));
        }
        let arguments = numbered(command, "arg", 1, "argcnt").ok_or_else(missing)?;
        self.programs.push(Program {
            path: find(name, hint("path")),
            arguments: arguments.into_iter().map(OsString::from).collect(),
            processes,
            directory: hint("wdir").map(PathBuf::from),
        });
        for (key, value) in pairs(command, "preput").ok_or_else(missing)? {
            self.published.insert(key.to_owned(), value.to_owned());
        }
        let so_far = command.number("spawnssofar");
        Ok(so_far.is_none() || so_far == command.number("totspawns"))
    }

    /// A single process that runs already.
    pub(super) fn alone() -> Self {
        let program = Program {
            path: PathBuf::new(),
            arguments: Vec::new(),
            processes: 1,
            directory: None,
        };
        Self {
            programs: vec![program],
            ..Self::default()
        }
    }

    /// The number of processes.
    pub(super) fn processes(&self) -> u32 {
        self.programs.iter().map(|program| program.processes).sum()
    }

    /// Fails if a program cannot be found. `search` has the directories of commands without a slash.
    pub(super) fn check(&self, search: Option<OsString>) -> Result<(), String> {
        for program in &self.programs {
            let (path, search) = (&program.path, search.clone().unwrap_or_default());
            let places = match (path.components().count(), &program.directory) {
                (1, _) if !path.to_string_lossy().contains('/') => {
                    std::env::split_paths(&search).collect()
                }
                (_, Some(directory)) => vec![directory.clone()],
                (_, None) => vec![PathBuf::new()],
            };
            if !places.iter().any(|place| place.join(path).is_file()) {
                return Err(format!("there is no program {}", path.display()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawn(at: u32) -> Command {
        Command::new("spawn")
            .with("nprocs", 2)
            .with("execname", "./child")
            .with("totspawns", 2)
            .with("spawnssofar", at)
            .with("arg1", "a b")
            .with("argcnt", 1)
            .with("preput_num", 1)
            .with("preput_key_0", "port")
            .with("preput_val_0", "p")
            .with("info_num", 1)
            .with("info_key_0", "wdir")
            .with("info_val_0", "/tmp")
    }

    #[test]
    fn requests_of_several_programs_are_put_together() {
        let mut request = Request::default();
        assert_eq!(request.add(&spawn(1)), Ok(false));
        assert_eq!(request.add(&spawn(2)), Ok(true));
        let program = &request.programs[1];
        assert_eq!(program.arguments, ["a b"]);
        assert_eq!(program.directory.as_deref(), Some(Path::new("/tmp")));
        assert_eq!(request.published["port"], "p");
        let error = request.check(None).expect_err("there is none");
        assert!(error.contains("./child"), "{error}");
    }

    #[test]
    fn requests_that_cannot_be_met_are_refused() {
        for (key, value) in [
            ("nprocs", "0"),
            ("nprocs", "-1"),
            ("nprocs", "4097"),
            ("argcnt", "2"),
        ] {
            // Of keys that are there twice, the first counts.
            let mut command = Command::new("spawn").with(key, value);
            for pair in ["nprocs", "execname", "argcnt", "info_num"] {
                if pair != key {
                    command = command.with(pair, spawn(1).get(pair).unwrap_or_default());
                }
            }
            assert!(Request::default().add(&command).is_err(), "{key}={value}");
        }
        let elsewhere = Command::new("spawn")
            .with("nprocs", 1)
            .with("execname", "sh")
            .with("info_num", 1)
            .with("info_key_0", "host")
            .with("info_val_0", "no-such-host");
        let error = Request::default()
            .add(&elsewhere)
            .expect_err("it is not here");
        assert!(error.contains("no-such-host"), "{error}");
    }

    #[test]
    fn programs_are_found_where_they_are_looked_for() {
        assert_eq!(find("sh", Some("/no/such:/bin")), Path::new("/bin/sh"));
        assert_eq!(find("sh", None), Path::new("sh"));
        let mut request = Request::default();
        let command = Command::new("spawn")
            .with("nprocs", 1)
            .with("execname", "sh");
        assert_eq!(request.add(&command), Ok(true));
        assert_eq!(request.check(Some("/no/such:/bin".into())), Ok(()));
    }
}
