//! Wrong use and bad input: exit code 2, and messages that help.

use std::path::Path;
use std::time::{Duration, Instant};

use super::stand::{Run, Stand, one_object};

fn fails(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    Run::new(directory.path(), arguments).fails(2)
}

#[test]
fn without_a_file_system_the_next_step_is_named() {
    let said = fails(&["fs", "ls"]);
    for part in [
        "no --config",
        "CAUSEWAY_CONFIG",
        "causeway.toml",
        "causeway fs dev",
        "causeway fs init",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_configuration_that_is_not_there_is_named() {
    let said = fails(&["fs", "ls", "--config", "/nowhere/x.toml"]);
    assert!(
        said.contains("/nowhere/x.toml") && said.contains("--config"),
        "{said}"
    );
    let said = Run::new(Path::new("/"), &["fs", "df"])
        .config(Path::new("/nowhere/y.toml"))
        .fails(2);
    assert!(
        said.contains("/nowhere/y.toml") && said.contains("CAUSEWAY_CONFIG"),
        "{said}"
    );
}

#[test]
fn a_bad_configuration_is_refused_with_the_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.toml");
    for (text, line) in [
        ("name = \"x\"\nid = 7\n", ":2"),
        ("name = \"x\n", ":1"),
        ("name = \"x\"\n\ncolour = \"green\"\n", ":3"),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = Run::new(directory.path(), &["fs", "ls"])
            .config(&file)
            .fails(2);
        assert!(
            said.contains(&format!("bad.toml{line}")),
            "{text:?}: {said}"
        );
    }
    std::fs::write(&file, [0xff, 0xfe, 0]).unwrap();
    Run::new(directory.path(), &["fs", "ls"])
        .config(&file)
        .fails(2);
    Run::new(directory.path(), &["fs", "serve", "--server", "io0"])
        .config(&file)
        .fails(2);
}

#[test]
fn wrong_arguments_are_refused() {
    for arguments in [
        &["nonsense"][..],
        &["fs", "nonsense"],
        &["fs", "put"],
        &["fs", "put", "onlyone"],
        &["fs", "put", "x", "relative"],
        &["fs", "cat", "relative/path"],
        &["fs", "mkdir", "-m", "9", "/x"],
        &["fs", "chmod", "z", "/x"],
        &["fs", "truncate", "-s", "much", "/x"],
        &["fs", "truncate", "-s", "99999999999GiB", "/x"],
        &["fs", "dev", "--servers", "0"],
        &["fs", "init"],
        &["fs", "init", "bad host"],
        &["fs", "init", "a", "--dir", "relative"],
        &["demo", "--servers", "nine"],
        &["demo", "--tree", "/dev/null"],
        &["bench", "messages", "--methods", "pigeon"],
        &["bench", "compare", "--patterns", "zigzag"],
        &["bench", "compare", "--sizes", "1GiB"],
        &["bench", "compare", "--sizes", "8", "--seed", "1"],
        &["bench", "messages", "--sizes", "x"],
        &["bench", "fs", "--only", "x"],
        &["bench", "fs", "--size", "1"],
        &["sim"],
        &["sim", "figure"],
        &["sim", "figure", "4.99"],
        &["sim", "table", "4.12"],
        &["sim", "paper", "--jobs", "0"],
        &["sim", "run", "nowhere.toml"],
        &["sim", "run", "/"],
    ] {
        fails(arguments);
    }
}

/// A verb of `causeway fs` without `fs` gets a suggestion; other words, and verbs in other positions, do not.
#[test]
fn a_verb_without_fs_is_understood() {
    let said = fails(&["put", "f", "/f"]);
    assert!(said.contains("did you mean `causeway fs put`?"), "{said}");
    for arguments in [&["nonsense"][..], &["bench", "put"], &["fs", "sim"]] {
        let said = fails(arguments);
        assert!(!said.contains("did you mean `causeway fs"), "{said}");
    }
}

#[test]
fn a_relative_path_is_explained() {
    let said = fails(&["fs", "cat", "data/x"]);
    assert!(said.contains("begin with a slash"), "{said}");
}

#[test]
fn servers_out_of_reach_are_named_in_bounded_time() {
    let directory = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| Run::new(directory.path(), arguments);
    run(&["fs", "init", "127.0.0.1:1", "--dir", "/nowhere"]).ok();
    let text = std::fs::read_to_string(directory.path().join("causeway.toml")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("timeout"))
        .unwrap();
    std::fs::write(
        directory.path().join("causeway.toml"),
        text.replace(line, "timeout = \"1 s\""),
    )
    .unwrap();
    for arguments in [&["fs", "ls"][..], &["fs", "stat", "/x"], &["fs", "fsck"]] {
        let started = Instant::now();
        let said = run(arguments).fails(1);
        assert!(started.elapsed() < Duration::from_secs(60));
        assert!(
            said.contains("meta") && said.contains("causeway fs ping"),
            "{said}"
        );
    }
    let said = run(&["fs", "ping"]).fails(1);
    assert!(said.contains("meta") && said.contains("io0"), "{said}");
    let left = run(&["fs", "ls", "--json"]).left();
    assert_eq!(left.code, Some(1));
    super::stand::one_object(&left.out);
}

#[test]
fn a_closed_pipe_ends_the_output_quietly() {
    for arguments in [&["--help"][..], &["info"], &["fs", "put", "--help"]] {
        let mut child = Run::new(Path::new("/"), arguments).start();
        drop(child.stdout.take());
        let left = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&left.stderr).into_owned();
        assert_eq!(left.status.code(), Some(0), "{arguments:?}: {said}");
        assert!(said.is_empty(), "{arguments:?}: {said}");
    }
}

#[test]
fn errors_name_what_failed_and_what_to_do() {
    let stand = Stand::new();
    stand.fs(&["mkdir", "/dir"]).ok();
    let said = stand.fs(&["get", "/dir", "-"]).fails(1);
    assert!(said.contains("/dir") && !said.contains("object"), "{said}");
    let said = stand.fs(&["ln", "/dir", "/z"]).fails(1);
    assert!(
        said.contains("fs ln -s") && !said.contains("permission"),
        "{said}"
    );
    for verb in [&["ls", "--via", "udp"][..], &["ping", "--via", "udp"]] {
        let said = stand.fs(verb).fails(2);
        assert!(said.contains("udp") && said.contains("shm"), "{said}");
    }
}

#[test]
fn under_json_each_file_that_failed_is_listed() {
    let stand = Stand::new();
    stand.fs(&["put", "-", "/there"]).input(b"x").ok();
    for arguments in [
        &["stat", "/there", "/missing"][..],
        &["ls", "/there", "/missing"],
        &["du", "/there", "/missing"],
        &["chmod", "644", "/there", "/missing"],
        &["touch", "/there", "/missing/x"],
        &["truncate", "-c", "-s", "1", "/there", "/missing"],
        &["mkdir", "/new", "/missing/x"],
        &["get", "/there", "/missing", "."],
        &["cp", "/there", "/missing", "/new"],
        &["rm", "/there", "/missing"],
    ] {
        let mut all = arguments.to_vec();
        all.push("--json");
        let left = stand.fs(&all).left();
        let said = one_object(&left.out);
        assert_eq!(left.code, Some(1), "{arguments:?}: {said}");
        assert_eq!(said["failures"], 1, "{arguments:?}: {said}");
        let errors = said["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{arguments:?}: {said}");
        let item = errors[0]["item"].as_str().unwrap();
        assert!(item.contains("missing"), "{arguments:?}: {said}");
        assert!(!errors[0]["why"].as_str().unwrap().is_empty(), "{said}");
    }
}

#[test]
fn behind_a_program_json_is_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    let left = Run::new(directory.path(), &["run", "./not-there", "--json"]).left();
    assert_eq!((left.code, left.out.as_slice()), (Some(1), &b""[..]));
    assert!(left.err.contains("not-there"), "{}", left.err);
}
