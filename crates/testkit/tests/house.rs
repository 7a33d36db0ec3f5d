//! A test for style and structure; each rule says what to do instead.
//!
//! [`tree`] reads the repository, [`rust`] knows just enough of Rust's syntax, [`imports`] which files use which, [`claims`] which tests a page
//! names; the rules are here.

#[path = "house/claims.rs"]
mod claims;
#[path = "house/imports.rs"]
mod imports;
#[path = "house/rust.rs"]
mod rust;
#[path = "house/tree.rs"]
mod tree;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use tree::{File, Tree};

/// Which rooms a room may use (`ARCHITECTURE.md`). Dev-dependencies do not count.
const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("sys", &[]),
    ("transport", &["wire", "sys"]),
    ("firmware", &["wire"]),
    ("cosched", &[]),
    ("sim", &["firmware", "cosched", "wire", "sys"]),
    ("watch", &["wire", "sys"]),
    ("engine", &["transport", "watch", "wire", "sys"]),
    ("bmi", &["engine", "transport"]),
    ("bmi-c", &["bmi", "transport", "wire", "sys"]),
    ("mpi", &["engine", "transport", "wire", "sys"]),
    ("fs", &["bmi", "wire", "sys"]),
    ("mpi-fs", &["mpi", "fs", "wire", "sys"]),
    ("mpi-c", &["mpi-fs", "mpi", "sys"]),
    ("fs-c", &["fs", "watch", "wire", "sys"]),
    ("python", &["fs", "watch", "wire", "sys"]),
    ("report", &["watch"]),
    ("command", &["report", "fs", "watch", "wire"]),
    ("mount", &["command", "fs", "wire", "sys"]),
    (
        "bench",
        &[
            "mount", "command", "report", "fs", "bmi", "watch", "wire", "sys",
        ],
    ),
    (
        "cli",
        &[
            "bench", "mount", "command", "report", "fs", "bmi", "mpi", "sim", "watch", "wire",
            "sys",
        ],
    ),
    (
        "testkit",
        &[
            "fs",
            "bmi",
            "mpi",
            "engine",
            "transport",
            "watch",
            "firmware",
            "wire",
            "sys",
        ],
    ),
];

/// The rooms that may use `unsafe`; clippy checks that every block says why it is sound.
/// `bmi-c`, `mpi-c` and `fs-c` work with pointers of C programs, and `python` passes on the memory of Python's objects.
const UNSAFE_ROOMS: &[&str] = &["sys", "transport", "bmi-c", "mpi-c", "fs-c", "python"];

/// A file of more lines needs a reason.
const MOST_LINES: usize = 800;
/// Files that have one.
const LONG_FILES: &[(&str, &str)] = &[];

/// Where code counts as a test, or as a tool for tests.
fn is_test(path: &str) -> bool {
    path.starts_with("crates/testkit/") || path.starts_with("fuzz/") || is_test_of_room(path)
}

/// Where a room's code is compiled for tests only.
fn is_test_of_room(path: &str) -> bool {
    path.split('/').any(|part| {
        // The models are what loom explores.
        let is_model = part == "model.rs" || part.starts_with("model_") && part.ends_with(".rs");
        matches!(part, "tests" | "tests.rs" | "benches") || part.ends_with("_tests.rs") || is_model
    })
}

/// What must not be written, where, and what to write instead.
struct Ban {
    /// In halves, so that this file does not contain it.
    text: (&'static str, &'static str),
    /// Whether tests may.
    tests_may: bool,
    /// Where it is banned: paths that begin so.
    within: &'static str,
    /// Paths below `within` where it is allowed nevertheless.
    but: &'static [&'static str],
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        text: ("todo", "!("),
        tests_may: false,
        within: "",
        but: &[],
        instead: "build it, or leave the function out",
    },
    Ban {
        text: ("unimplemented", "!("),
        tests_may: false,
        within: "",
        but: &[],
        instead: "build it, or return Error::Unsupported",
    },
    Ban {
        text: ("dbg", "!("),
        tests_may: false,
        within: "",
        but: &[],
        instead: "tracing::debug!",
    },
    Ban {
        text: ("#[", "ignore"),
        tests_may: false,
        within: "",
        but: &[],
        instead: "make the test fast, or give it a make target of its own and a knob",
    },
    Ban {
        text: ("FIX", "ME"),
        tests_may: false,
        within: "",
        but: &[],
        instead: "fix it",
    },
    Ban {
        text: (".unwrap", "()"),
        tests_may: true,
        within: "",
        but: &[],
        instead: "`?`, or expect() with the invariant that makes it impossible",
    },
    Ban {
        text: ("thread::", "sleep("),
        tests_may: true,
        within: "",
        but: SLEEPERS,
        instead: "wait for the event: bmi.wait, pollable, or a deadline in tick",
    },
    Ban {
        text: ("process::", "exit("),
        tests_may: true,
        within: "",
        but: EXITS,
        instead: "return an error; only the command decides when the process ends",
    },
    Ban {
        text: ("setrl", "imit("),
        tests_may: true,
        within: "",
        but: &["crates/sys/src/limits.rs"],
        instead: "causeway_sys::limits::raise_open_files, in a program's main",
    },
    Ban {
        text: ("sigac", "tion("),
        tests_may: true,
        within: "",
        but: &[],
        instead: SIGNALS_ARE_THE_PROGRAMS,
    },
    Ban {
        text: ("libc::", "signal("),
        tests_may: true,
        within: "",
        but: &["crates/sys/src/process.rs"],
        instead: SIGNALS_ARE_THE_PROGRAMS,
    },
    Ban {
        text: ("signal", "_hook"),
        tests_may: true,
        within: "",
        but: &["crates/command/src/", "crates/cli/src/"],
        instead: SIGNALS_ARE_THE_PROGRAMS,
    },
    Ban {
        text: ("um", "ask("),
        tests_may: true,
        within: "",
        but: &["crates/cli/src/fs/serve.rs"],
        instead: "nothing: only a program's main changes the mask of file modes",
    },
    Ban {
        text: ("raise_open", "_files()"),
        tests_may: true,
        within: "",
        but: &["crates/sys/src/limits.rs", "crates/cli/src/main.rs"],
        instead: "nothing: only a program's main changes limits of the process",
    },
    Ban {
        text: ("debug_", "assert"),
        tests_may: true,
        within: "crates/firmware/src/",
        but: &[],
        instead: "assert!: corrupt local state ends the program, however it was compiled",
    },
    Ban {
        text: ("to_ne", "_bytes"),
        tests_may: false,
        within: "crates/wire/",
        but: &[],
        instead: "to_le_bytes: every format is little-endian",
    },
    Ban {
        text: ("transm", "ute"),
        tests_may: false,
        within: "",
        but: &[],
        instead: "from_le_bytes, or a pointer cast that says what it means",
    },
    Ban {
        text: ("crate::", "tcp::"),
        tests_may: false,
        within: "crates/transport/src/udp",
        but: &[],
        instead: "crate::session, or a module that both methods use",
    },
    Ban {
        text: ("crate::", "tcp::"),
        tests_may: false,
        within: "crates/transport/src/session",
        but: &[],
        instead: "nothing: a session does not know what carries its bytes",
    },
    Ban {
        text: ("Instant::", "now"),
        tests_may: true,
        within: "crates/transport/src/",
        but: TRANSPORT_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
    Ban {
        text: ("Met", "hod"),
        tests_may: true,
        within: "crates/engine/src/conversation",
        but: &[],
        instead: CONVERSATIONS_ARE_PURE,
    },
    Ban {
        text: ("std::", "os::"),
        tests_may: true,
        within: "crates/engine/src/conversation",
        but: &[],
        instead: CONVERSATIONS_ARE_PURE,
    },
    Ban {
        text: ("std::", "net"),
        tests_may: true,
        within: "crates/engine/src/conversation",
        but: &[],
        instead: CONVERSATIONS_ARE_PURE,
    },
    Ban {
        text: ("F", "d"),
        tests_may: true,
        within: "crates/engine/src/conversation",
        but: &[],
        instead: CONVERSATIONS_ARE_PURE,
    },
    Ban {
        text: ("Instant::", "now"),
        tests_may: true,
        within: "crates/engine/src/",
        but: ENGINE_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
    Ban {
        text: ("SystemTime::", "now"),
        tests_may: true,
        within: "crates/transport/src/",
        but: TRANSPORT_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
    Ban {
        text: ("SystemTime::", "now"),
        tests_may: true,
        within: "crates/engine/src/",
        but: ENGINE_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
    Ban {
        text: (".elap", "sed("),
        tests_may: true,
        within: "crates/transport/src/",
        but: TRANSPORT_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
    Ban {
        text: (".elap", "sed("),
        tests_may: true,
        within: "crates/engine/src/",
        but: ENGINE_CLOCKS,
        instead: "take the time as an argument (`now`)",
    },
];

const SIGNALS_ARE_THE_PROGRAMS: &str = "nothing: only a program's main handles signals, and only between fork and exec are they another program's";

const CONVERSATIONS_ARE_PURE: &str = "a command that the endpoint carries out: a conversation knows no method, no descriptor and no socket";

/// Where methods read the clock: in waits inside one call, as the caller cannot pass the time meanwhile.
const TRANSPORT_CLOCKS: &[&str] = &["crates/transport/src/blocking.rs"];
/// Where the engine does: everything else takes the time from the clock that the endpoint was given.
const ENGINE_CLOCKS: &[&str] = &[
    "crates/engine/src/clock.rs",
    "crates/engine/src/endpoint/tests",
];

/// Files that may sleep by the clock: those that watch processes start and end.
const SLEEPERS: &[&str] = &[
    "crates/cli/src/",
    "crates/bench/src/",
    "crates/command/src/workers.rs",
    "crates/fs/src/dev.rs",
    // The metadata server connects to other servers in the background, and sends no event then.
    "crates/fs/src/client/introduce.rs",
    // A metadata server that has its client request an append lock again at once is out of order, and does not say when that is otherwise.
    "crates/fs/src/client/append_lock.rs",
    // The last reader of a closed store releases its lock without an event.
    "crates/fs/src/meta/service/space.rs",
    // The engine's threads write tables, and send no event when they have.
    "crates/fs/src/meta/store/fjall/reclaim.rs",
    // Storage that tests have stall.
    "crates/fs/src/sabotage.rs",
    // It lets the program continue for a moment before it makes progress in its stead; no thread waits for it.
    "crates/mpi-c/src/progress.rs",
    // Another process holds the lock, for moments; there is nothing to wait on.
    "crates/sys/src/socket.rs",
];
/// Files that may end the process.
const EXITS: &[&str] = &["crates/command/src/shutdown.rs"];

/// Texts that no file may contain: paths of one machine, and sources of packages other than
/// the public registry.
fn private_places() -> Vec<String> {
    [
        ("/wo", "rk/"),
        ("/ro", "ot/."),
        ("/ho", "me/"),
        ("/Us", "ers/"),
        ("mirror.", "internal"),
        ("artifact", "ory"),
    ]
    .iter()
    .map(|(front, back)| format!("{front}{back}"))
    .collect()
}

fn fail_if_any(rule: &str, found: &[String]) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn rooms_use_only_what_they_may() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(tree::root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let mut found = Vec::new();
    let mut rooms = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("a name");
        let Some(room) = name.strip_prefix("causeway-") else {
            found.push(format!("{name}: a room's crate is called causeway-…"));
            continue;
        };
        rooms.insert(room.to_owned());
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == room) else {
            found.push(format!(
                "{room}: give it a row in ARROWS and in ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if let Some(used) = used.strip_prefix("causeway-")
                && !is_dev
                && !allowed.contains(&used)
            {
                found.push(format!("{room} must not use {used}"));
            }
        }
    }
    for (room, _) in ARROWS {
        if !rooms.contains(*room) {
            found.push(format!("{room}: has a row in ARROWS, but is no crate"));
        }
    }
    fail_if_any("arrows between rooms", &found);
}

/// How many files use each other in circles, by room. A room that is not named has none.
const CIRCLES: &[(&str, usize)] = &[
    ("wire", 2),
    ("sys", 5),
    ("transport", 26),
    ("watch", 2),
    ("engine", 9),
    ("mpi", 5),
    ("fs", 5),
];

#[test]
fn files_do_not_import_each_other_in_circles() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for (room, _) in ARROWS {
        let circles = imports::of_room(&tree, room, is_test_of_room);
        let files: usize = circles.iter().map(Vec::len).sum();
        let allowed = CIRCLES.iter().find(|(named, _)| named == room);
        let allowed = allowed.map_or(0, |(_, files)| *files);
        if files > allowed {
            found.push(format!("{room}: {files} files: {circles:#?}"));
        } else if files < allowed {
            found.push(format!(
                "{room}: only {files} files any more: lower the number in CIRCLES"
            ));
        }
    }
    fail_if_any("files that import each other in circles", &found);
}

#[test]
fn unsafe_stays_in_its_rooms() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for file in tree.rust() {
        let root = ["src/lib.rs", "src/main.rs"]
            .iter()
            .any(|root| file.path.ends_with(root));
        let room = file.room();
        if !root || UNSAFE_ROOMS.contains(&room) || room.is_empty() {
            continue;
        }
        if !file.text.contains("#![forbid(unsafe_code)]") {
            found.push(format!("{}: lacks #![forbid(unsafe_code)]", file.path));
        }
    }
    fail_if_any("unsafe code", &found);
}

#[test]
fn files_have_at_most_so_many_lines() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        let reason = LONG_FILES.iter().find(|(path, _)| *path == file.path);
        match reason {
            None if lines > MOST_LINES => found.push(format!(
                "{}: {lines} lines; cut it, or give LONG_FILES a reason",
                file.path
            )),
            Some(_) if lines <= MOST_LINES => {
                found.push(format!("{}: needs no exception any more", file.path));
            }
            _ => {}
        }
    }
    for (path, reason) in LONG_FILES {
        assert!(!reason.is_empty() && tree.get(path).is_some(), "{path}");
    }
    fail_if_any("long files", &found);
}

fn bans_broken(file: &File) -> Vec<String> {
    let is_test_file = is_test(&file.path);
    let mut found = Vec::new();
    for ban in BANS {
        let excepted = ban.but.iter().any(|path| file.path.starts_with(path));
        if excepted || !file.path.starts_with(ban.within) || (ban.tests_may && is_test_file) {
            continue;
        }
        let text = format!("{}{}", ban.text.0, ban.text.1);
        for line in rust::code_lines(&file.text) {
            if line.code.contains(&text) && !(ban.tests_may && line.in_tests) {
                found.push(format!(
                    "{}:{}: `{text}`; instead: {}",
                    file.path, line.number, ban.instead
                ));
            }
        }
    }
    found
}

#[test]
fn banned_calls_are_not_made() {
    let tree = Tree::read();
    let found: Vec<_> = tree.rust().flat_map(bans_broken).collect();
    fail_if_any("banned calls", &found);
    for path in BANS.iter().flat_map(|ban| ban.but) {
        let known = tree.files.iter().any(|file| file.path.starts_with(path));
        assert!(known, "{path}: an exception for nothing");
    }
}

/// The check itself works.
#[test]
fn banned_calls_are_found() {
    let text = "fn a() { b().unwrap(); }\n// c.unwrap() in words\n#[cfg(test)]\nmod tests {\n    \
                fn d() { e.unwrap(); std::thread::sleep(f); }\n}\nfn g() { h.unwrap() }\n";
    let in_room = |path: &str| {
        bans_broken(&File {
            path: path.into(),
            text: text.into(),
        })
        .len()
    };
    assert_eq!(in_room("crates/wire/src/x.rs"), 2);
    assert_eq!(in_room("crates/wire/src/x/tests.rs"), 0);
}

#[test]
fn no_file_names_one_machine() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for file in &tree.files {
        for place in private_places() {
            for (number, line) in file.text.lines().enumerate() {
                if line.contains(&place) {
                    found.push(format!("{}:{}: {place}", file.path, number + 1));
                }
            }
        }
    }
    let lock = tree.get("Cargo.lock").expect("a lock file");
    const PUBLIC: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for line in lock.text.lines().filter(|line| line.starts_with("source")) {
        if line != PUBLIC {
            found.push(format!("Cargo.lock: {line}"));
        }
    }
    fail_if_any("places of one machine", &found);
}

/// Files in the room of formats that are no formats.
const NOT_A_FORMAT: &[&str] = &["formats", "random"];

#[test]
fn every_format_is_drawn() {
    let tree = Tree::read();
    let wire = tree
        .get("crates/wire/src/lib.rs")
        .expect("the room of formats");
    let found: Vec<_> = rust::modules(&wire.text)
        .into_iter()
        .filter(|module| !NOT_A_FORMAT.contains(&module.name.as_str()))
        .map(|module| format!("docs/formats/{}.md", module.name))
        .filter(|page| tree.get(page).is_none())
        .map(|page| format!("{page}: is missing"))
        .collect();
    fail_if_any("formats without a page", &found);
}

#[test]
fn every_rust_file_is_part_of_something() {
    let tree = Tree::read();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut todo: Vec<String> = tree
        .rust()
        .filter(|file| rust::is_crate_root(&file.path))
        .map(|file| file.path.clone())
        .collect();
    while let Some(path) = todo.pop() {
        let Some(file) = tree.get(&path) else {
            continue;
        };
        if !reached.insert(path.clone()) {
            continue;
        }
        for module in rust::modules(&file.text) {
            todo.extend(module.candidates(&path));
        }
    }
    let found: Vec<_> = tree
        .rust()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| format!("{}: no `mod` reaches it", file.path))
        .collect();
    fail_if_any("dead files", &found);
}

/// Code that makes servers lose data, and what forks, is compiled into tests only.
#[test]
fn only_tests_enable_features_for_tests() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for (room, _) in ARROWS.iter().filter(|(room, _)| *room != "testkit") {
        let path = format!("crates/{room}/Cargo.toml");
        let manifest = tree.get(&path).expect("a manifest");
        let production = manifest.text.split("[dev-dependencies]").next();
        for feature in ["sabotage", "run-in-child"] {
            if production.is_some_and(|text| text.contains(&format!("\"{feature}\""))) {
                found.push(format!("{path}: enables the feature `{feature}`"));
            }
        }
    }
    fail_if_any("features for tests", &found);
}

#[test]
fn every_crate_inherits_lints_and_publishing_of_the_workspace() {
    let tree = Tree::read();
    let mut found = Vec::new();
    for (room, _) in ARROWS {
        let path = format!("crates/{room}/Cargo.toml");
        let manifest = tree.get(&path).expect("a manifest");
        for line in ["[lints]\nworkspace = true", "publish.workspace = true"] {
            if !manifest.text.contains(line) {
                found.push(format!("{path}: lacks `{}`", line.replace('\n', " ")));
            }
        }
    }
    fail_if_any("manifests", &found);
}

/// Links between our own pages lead somewhere, and pages name only `make` targets that exist.
#[test]
fn links_and_make_targets_in_pages_exist() {
    let tree = Tree::read();
    let makefile = &tree.get("Makefile").expect("a Makefile").text;
    let targets: BTreeSet<_> = makefile
        .lines()
        .filter_map(|line| line.split_once(": ")?.0.split_whitespace().next())
        .collect();
    let mut found = Vec::new();
    for page in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = Path::new(&page.path).parent().expect("a relative path");
        for link in tree::links(&page.text) {
            let target = folder.join(&link);
            if !tree::root().join(&target).exists() {
                found.push(format!("{}: the link {link} leads nowhere", page.path));
            }
        }
        for target in tree::make_targets(&page.text) {
            if !targets.contains(target.as_str()) {
                found.push(format!("{}: there is no `make {target}`", page.path));
            }
        }
    }
    fail_if_any("pages", &found);
}

/// The page of what attackers can and cannot do names tests that exist, each in the file that it says, and each row of its tables names one.
#[test]
fn the_page_about_security_names_tests_that_exist() {
    let tree = Tree::read();
    let page = tree.get("docs/security.md").expect("the page");
    let mut found = claims::wrong(&tree, &page.text);
    found.extend(claims::without_test(&page.text));
    fail_if_any("docs/security.md", &found);
}
