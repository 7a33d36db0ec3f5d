//! Help of every verb.

use std::path::Path;

use super::stand::Run;

/// Every verb that users can give.
const VERBS: [&[&str]; 46] = [
    &[],
    &["demo"],
    &["info"],
    &["log"],
    &["top"],
    &["bench", "compare"],
    &["bench", "fs"],
    &["bench", "messages"],
    &["bench", "mpi"],
    &["bench", "mpi-io"],
    &["sim", "list"],
    &["sim", "run"],
    &["sim", "figure"],
    &["sim", "table"],
    &["sim", "paper"],
    &["fs", "dev"],
    &["fs", "init"],
    &["fs", "serve"],
    &["fs", "put"],
    &["fs", "get"],
    &["fs", "ls"],
    &["fs", "stat"],
    &["fs", "cat"],
    &["fs", "cp"],
    &["fs", "mv"],
    &["fs", "rm"],
    &["fs", "mkdir"],
    &["fs", "ln"],
    &["fs", "chmod"],
    &["fs", "touch"],
    &["fs", "truncate"],
    &["fs", "du"],
    &["fs", "df"],
    &["fs", "ping"],
    &["fs", "servers", "list"],
    &["fs", "servers", "add"],
    &["fs", "servers", "accept"],
    &["fs", "node", "add"],
    &["fs", "node", "list"],
    &["fs", "node", "revoke"],
    &["fs", "node", "rotate"],
    &["fs", "agent"],
    &["fs", "fsck"],
    &["fs", "scrub"],
    &["fs", "mount"],
    &["fs", "umount"],
];

fn text(arguments: &[&str]) -> String {
    String::from_utf8(Run::new(Path::new("/"), arguments).ok()).unwrap()
}

#[test]
fn every_verb_has_help_with_examples() {
    for verb in VERBS {
        let mut arguments = verb.to_vec();
        arguments.push("--help");
        let help = text(&arguments);
        assert!(help.contains("Examples:\n"), "{verb:?}: {help}");
        let example = format!("  causeway {}", verb.join(" "));
        assert!(help.contains(example.trim_end()), "{verb:?}: {help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 120),
            "{verb:?}: {help}"
        );
    }
}

#[test]
fn the_rooms_list_exactly_these_verbs() {
    for room in ["fs", "bench", "sim"] {
        let help = text(&[room, "--help"]);
        let commands = help
            .split_once("Commands:\n")
            .unwrap()
            .1
            .split_once("\n\n")
            .unwrap()
            .0;
        let mut listed: Vec<&str> = commands
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|verb| *verb != "help")
            .collect();
        let mut known: Vec<&str> = VERBS
            .iter()
            .filter(|verb| verb.first() == Some(&room))
            .map(|verb| verb[1])
            .collect();
        listed.sort_unstable();
        known.sort_unstable();
        // A verb with verbs of its own is listed once.
        known.dedup();
        assert_eq!(listed, known);
    }
    assert!(!text(&["--help"]).contains("worker"));
}

#[test]
fn the_version_names_the_commit() {
    let version = text(&["--version"]);
    assert!(
        version.starts_with("causeway 0.") && version.contains('('),
        "{version}"
    );
}
