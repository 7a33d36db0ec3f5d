//! The command's own log: which events it prints by default, and the parts of the program that masks can name.

use causeway_command::failure::{Failure, Outcome};
use causeway_watch::log::{self, Mask, Masks, StartError};

/// The masks of servers and workers unless `$CAUSEWAY_LOG` sets others.
const OF_SERVERS: &str = "warn,engine.stall=info,fs.server.audit=info/debug";
/// The masks of all other commands, whose own messages report errors.
const OF_COMMANDS: &str = "error,engine.stall=info/debug";

/// Parts of the program, for people: a mask may name these, parts of their names (`shm`), and
/// modules in them (`shm.handshake`).
pub(crate) const SUBSYSTEMS: &[(&str, &str)] = &[
    ("transport.shm", "shared memory between processes"),
    ("transport.tcp", "TCP connections"),
    ("engine", "messages"),
    ("engine.stall", "operations that make no progress"),
    ("engine.connect", "connections of the message layer"),
    ("fs.server", "servers of the file system"),
    (
        "fs.server.audit",
        "which user did what, if the configuration enables that",
    ),
    ("fs.client", "clients of the file system"),
    ("fs.meta", "the metadata store"),
    ("fs.data", "the datafiles"),
    ("watch", "the log itself"),
    ("causeway", "the command"),
];

/// Starts the log of this process.
pub(crate) fn start(is_server: bool) -> Outcome {
    let usual = if is_server { OF_SERVERS } else { OF_COMMANDS };
    let wrong = |why: String| Failure::usage("starting the log", why);
    let usual: Masks = usual
        .parse()
        .map_err(|error: log::MaskError| wrong(error.to_string()))?;
    match log::start(&usual) {
        Ok(()) => {}
        Err(error @ StartError::File { .. }) => {
            return Err(Failure::new("starting the log", error));
        }
        Err(error) => return Err(wrong(error.to_string()).hint(example())),
    }
    match log::masks() {
        Some(masks) => check(&masks).map_err(|failure| failure.about(log::MASKS_VARIABLE)),
        None => Ok(()),
    }
}

fn example() -> String {
    "write it like warn,engine=debug,shm=trace".to_owned()
}

/// Refuses masks that name an unknown part of the program.
pub(crate) fn check(masks: &Masks) -> Outcome {
    let names = |mask: &Mask| mask.names().map(str::to_owned).collect::<Vec<_>>();
    let mut all = names(&masks.printed);
    all.extend(names(&masks.recorded));
    match all.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => Err(Failure::usage(
            "choosing log events",
            format!("no part of the program is called `{name}`"),
        )
        .hint(format!("the parts are {}", list()))),
    }
}

/// The names of the parts, for messages.
pub(crate) fn list() -> String {
    let names: Vec<&str> = SUBSYSTEMS.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

/// Whether a name is a part of a known one, or that of a module in one.
fn is_known(name: &str) -> bool {
    let words = |name: &str| format!(".{name}.");
    let name = words(name);
    SUBSYSTEMS.iter().any(|(known, _)| {
        let known = words(known);
        let mut ends = known.match_indices('.').map(|(at, _)| &known[at..]);
        known.contains(&name) || ends.any(|end| end.len() > 1 && name.contains(end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_program_are_known_by_parts_of_their_names() {
        let all =
            "off,shm=trace,transport=info,shm.ring=debug,causeway_fs::server::io=warn,fs=info";
        assert!(check(&all.parse().unwrap()).is_ok());
        let failure = check(&"off,smh=trace".parse().unwrap()).unwrap_err();
        assert!(failure.why.contains("`smh`") && failure.code == 2);
        for usual in [OF_SERVERS, OF_COMMANDS] {
            assert!(check(&usual.parse().unwrap()).is_ok());
        }
    }
}
