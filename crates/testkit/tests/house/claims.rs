//! The tests that a page names beside its statements: `file.rs`: `name_of_a_test`.

use std::collections::BTreeSet;

use crate::tree::{File, Tree};

/// The least number of words in a test's name: shorter names in code marks are settings and other things.
const LEAST_WORDS: usize = 4;

/// The page's texts in code marks.
fn marked(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

fn is_name_of_test(text: &str) -> bool {
    let is_part = |part: &str| {
        part.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    text.split('_').count() >= LEAST_WORDS && text.split('_').all(is_part)
}

fn is_source(text: &str) -> bool {
    let is_source = text.ends_with(".rs") || text.ends_with(".py");
    is_source && !text.contains(char::is_whitespace)
}

/// The functions of a file that are run as tests.
fn tests_of(file: &File) -> Vec<&str> {
    let is_python = file.path.ends_with(".py");
    let mut is_test = is_python;
    let mut found = Vec::new();
    for line in file.text.lines().map(str::trim) {
        match line.split_once("fn ").or(line.split_once("def ")) {
            Some(("", rest)) => {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                if is_test {
                    found.push(name);
                }
                is_test = is_python;
            }
            // A test's attribute, and those and the comments between it and the function.
            _ if line == "#[test]" => is_test = true,
            _ if line.starts_with("#[") || line.starts_with("//") => {}
            _ => is_test = is_python,
        }
    }
    found
}

/// What is wrong in a page: names of tests that there are not, and of files that there are not or that have no test. Where a name stands behind a
/// file and a colon, the test has to be in that file.
pub(crate) fn wrong(tree: &Tree, page: &str) -> Vec<String> {
    let sources = || tree.files.iter().filter(|file| is_source(&file.path));
    let all: BTreeSet<&str> = sources().flat_map(tests_of).collect();
    let at = |path: &str| -> Vec<&File> {
        let end = format!("/{path}");
        sources().filter(|file| file.path.ends_with(&end)).collect()
    };
    let mut found = Vec::new();
    for text in marked(page) {
        if is_source(text) && at(text).is_empty() {
            found.push(format!("there is no {text}"));
        }
        if is_name_of_test(text) && !all.contains(text) {
            found.push(format!("there is no test {text}"));
        }
    }
    for line in page.lines() {
        let parts: Vec<&str> = line.split('`').collect();
        for pair in parts.windows(3) {
            let [path, between, name] = pair else {
                continue;
            };
            if !is_source(path) || *between != ": " || !is_name_of_test(name) {
                continue;
            }
            if !at(path).iter().any(|file| tests_of(file).contains(name)) {
                found.push(format!("{path} has no test {name}"));
            }
        }
    }
    found
}

/// Rows of tables that say what cannot be done, and name neither a test nor a file with tests.
pub(crate) fn without_test(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let is_head = |row: &str| row.contains("---") || row.trim_end().ends_with("| test |");
    rows.filter(|row| !is_head(row))
        .filter(|row| {
            let cell = row.trim_end().trim_end_matches('|').rsplit('|').next();
            !cell.is_some_and(|cell| cell.contains('`') || cell.contains("testkit"))
        })
        .map(|row| format!("no test: {}", row.chars().take(80).collect::<String>()))
        .collect()
}

#[test]
fn wrong_names_are_found() {
    let file = |path: &str, text: &str| File {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    let rust = "fn no_test_at_all() {}\n#[test]\n// Why.\n#[cfg(unix)]\nfn this_is_a_test() {}\nfn nor_is_this_one() {}\n";
    let tree = Tree {
        files: vec![
            file("crates/a/src/b.rs", rust),
            file("crates/a/tests/c.py", "def this_is_python_too():\n"),
        ],
    };
    let right = "| x | `a/src/b.rs`: `this_is_a_test`; `tests/c.py`: `this_is_python_too`, `server_key_file` |";
    assert_eq!(wrong(&tree, right), Vec::<String>::new());
    for (page, expected) in [
        ("`no_test_at_all`", "there is no test no_test_at_all"),
        ("`nor_is_this_one`", "there is no test nor_is_this_one"),
        ("`a/d.rs`", "there is no a/d.rs"),
        (
            "`c.py`: `this_is_a_test`",
            "c.py has no test this_is_a_test",
        ),
    ] {
        assert_eq!(wrong(&tree, page), [expected], "{page}");
    }
    let table =
        "| can | cannot | test |\n|---|---|---|\n| a | b | `c.rs` |\n| a | b | none |\nno row\n";
    assert_eq!(without_test(table), ["no test: | a | b | none |"]);
}
