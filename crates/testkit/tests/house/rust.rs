//! Just enough of Rust's syntax for the rules: comments, test modules, `mod` lines.

/// A line without its comment and the contents of its strings.
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    /// What is left.
    pub(crate) code: String,
    /// Inside `#[cfg(test)] mod … { … }`.
    pub(crate) in_tests: bool,
}

/// The lines of a file. A test module is taken to end at the first line that has nothing but a
/// closing brace at its own indentation, as rustfmt writes it.
pub(crate) fn code_lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut after_cfg_test = false;
    let mut tests_end: Option<String> = None;
    for (index, full) in text.lines().enumerate() {
        let trimmed = full.trim_start();
        let indent = &full[..full.len() - trimmed.len()];
        if after_cfg_test && tests_end.is_none() && trimmed.ends_with('{') {
            tests_end = Some(format!("{indent}}}"));
        }
        after_cfg_test =
            trimmed.starts_with("#[cfg(test)]") || (after_cfg_test && trimmed.starts_with("#["));
        lines.push(Line {
            number: index + 1,
            code: without_words(full),
            in_tests: tests_end.is_some() || after_cfg_test,
        });
        if tests_end.as_deref() == Some(full) {
            tests_end = None;
        }
    }
    lines
}

/// A line without its comment and the contents of its strings.
fn without_words(line: &str) -> String {
    let mut code = String::new();
    let mut chars = line.chars().peekable();
    let mut in_string = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                chars.next();
            }
            '"' => {
                in_string = !in_string;
                code.push(c);
            }
            _ if in_string => {}
            // A quote as a character begins no string.
            '\'' if chars.peek() == Some(&'"') => {
                chars.next();
                chars.next();
            }
            '/' if chars.peek() == Some(&'/') => break,
            _ => code.push(c),
        }
    }
    code
}

/// A `mod name;` line.
pub(crate) struct Module {
    /// The name.
    pub(crate) name: String,
    path: Option<String>,
}

/// The modules that a file declares without a body.
pub(crate) fn modules(text: &str) -> Vec<Module> {
    let mut found = Vec::new();
    let mut path = None;
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            path = rest.split('"').next().map(str::to_owned);
            continue;
        }
        let Some(declared) = line.strip_suffix(';') else {
            path = None;
            continue;
        };
        let declared = match declared.strip_prefix("pub") {
            Some(rest) => match rest.strip_prefix('(') {
                Some(inner) => inner.split_once(')').map_or("", |(_, rest)| rest),
                None => rest,
            }
            .trim_start(),
            None => declared,
        };
        if let Some(name) = declared.strip_prefix("mod ") {
            found.push(Module {
                name: name.trim().to_owned(),
                path: path.take(),
            });
        }
    }
    found
}

impl Module {
    /// The files that a declaration in `declaring` may mean.
    pub(crate) fn candidates(&self, declaring: &str) -> Vec<String> {
        let (folder, file) = declaring.rsplit_once('/').unwrap_or(("", declaring));
        if let Some(path) = &self.path {
            let (mut folder, mut path) = (folder, path.as_str());
            while let Some(rest) = path.strip_prefix("../") {
                folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
                path = rest;
            }
            return vec![format!("{folder}/{path}")];
        }
        let name = &self.name;
        let stem = file.trim_end_matches(".rs");
        let below = match stem {
            "lib" | "main" | "mod" => folder.to_owned(),
            _ if is_crate_root(declaring) => folder.to_owned(),
            _ => format!("{folder}/{stem}"),
        };
        vec![
            format!("{below}/{name}.rs"),
            format!("{below}/{name}/mod.rs"),
        ]
    }
}

/// Whether cargo starts compiling at this file.
pub(crate) fn is_crate_root(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(
        parts[..],
        ["crates", _, "src", "lib.rs" | "main.rs"]
            | ["crates", _, "build.rs"]
            | ["crates", _, "tests" | "benches" | "examples", _]
            | ["crates", _, "tests" | "benches" | "examples", _, "main.rs"]
            | ["crates", _, "src", "bin", _]
            | ["fuzz", "fuzz_targets", _]
    )
}

#[test]
fn modules_and_their_files_are_found() {
    let text = "mod a;\npub mod b;\npub(crate) mod c;\n#[path = \"x/d.rs\"]\nmod d;\nuse e;\n// mod f;\nmod g {\n";
    let found = modules(text);
    let names: Vec<_> = found.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    let inside = found[0].candidates("crates/wire/src/fs.rs");
    assert_eq!(
        inside,
        ["crates/wire/src/fs/a.rs", "crates/wire/src/fs/a/mod.rs"]
    );
    assert_eq!(
        found[1].candidates("crates/wire/src/lib.rs")[0],
        "crates/wire/src/b.rs"
    );
    assert_eq!(
        found[3].candidates("crates/k/tests/h.rs"),
        ["crates/k/tests/x/d.rs"]
    );
    let above = modules("#[path = \"../lists/e.rs\"]\nmod e;\n");
    assert_eq!(
        above[0].candidates("crates/k/tests/h.rs"),
        ["crates/k/lists/e.rs"]
    );
}

#[test]
fn comments_and_strings_are_removed() {
    assert_eq!(
        without_words(r#"a("x // y \" z", '"') // b"#),
        r#"a("", ) "#
    );
}
