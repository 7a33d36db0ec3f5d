//! The repository's own files.

use std::path::{Path, PathBuf};

/// Larger files are data.
const MOST_BYTES: u64 = 2 << 20;

/// A text file.
pub(crate) struct File {
    /// Relative to the repository, with slashes.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl File {
    /// The room that it belongs to, or nothing.
    pub(crate) fn room(&self) -> &str {
        self.path
            .strip_prefix("crates/")
            .and_then(|rest| rest.split('/').next())
            .unwrap_or("")
    }
}

/// All text files.
pub(crate) struct Tree {
    /// In the order of their paths.
    pub(crate) files: Vec<File>,
}

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/testkit lies two levels down")
}

/// Files that git ignores, and git's own: build outputs, corpora and reports are no part of the source.
struct Ignored(String);

impl Ignored {
    fn read() -> Self {
        let path = root().join(".gitignore");
        Self(std::fs::read_to_string(path).expect("the repository's own list"))
    }

    /// Whether `path`, relative to the repository, is to be passed over. The list has only whole paths, and
    /// endings of names in the uppermost folder.
    fn has(&self, path: &str) -> bool {
        let is_report = |ending: &str| !path.contains('/') && path.ends_with(ending);
        path == ".git"
            || self.0.lines().any(|line| match line.strip_prefix("/*") {
                Some(ending) => is_report(ending),
                None => line.strip_prefix('/') == Some(path),
            })
    }
}

impl Tree {
    /// Reads everything.
    pub(crate) fn read() -> Self {
        let ignored = Ignored::read();
        let mut files = Vec::new();
        let mut todo = vec![PathBuf::new()];
        while let Some(folder) = todo.pop() {
            for entry in std::fs::read_dir(root().join(&folder)).expect("a readable folder") {
                let entry = entry.expect("a readable folder");
                let path = folder.join(entry.file_name());
                let name = path.to_str().expect("a UTF-8 name").to_owned();
                let kind = entry.file_type().expect("a file of some kind");
                if ignored.has(&name) {
                    continue;
                }
                if kind.is_dir() {
                    todo.push(path);
                } else if kind.is_file()
                    && entry.metadata().is_ok_and(|data| data.len() <= MOST_BYTES)
                    && let Ok(text) = std::fs::read_to_string(entry.path())
                {
                    files.push(File { path: name, text });
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Self { files }
    }

    /// The Rust files.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// One file.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }
}

/// Targets of Markdown links to files of the repository, without anchors.
pub(crate) fn links(text: &str) -> Vec<String> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .map(|link| link.split('#').next().unwrap_or(""))
        .filter(|link| !link.is_empty() && !link.contains("://") && !link.contains(' '))
        .map(str::to_owned)
        .collect()
}

/// The targets in every `make …` that stands in code marks or on a line of its own.
pub(crate) fn make_targets(text: &str) -> Vec<String> {
    text.lines()
        .flat_map(|line| {
            let spans = line.split('`').skip(1).step_by(2);
            spans.chain(std::iter::once(line.trim()))
        })
        .filter_map(|code| code.strip_prefix("make ")?.split_whitespace().next())
        .filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn links_and_targets_are_found() {
    let text =
        "See [a](b.md#c) and [d](https://e) or `make test`, `cmake x`.\n    make demo ARGS=1\n";
    assert_eq!(links(text), ["b.md"]);
    assert_eq!(make_targets(text), ["test", "demo"]);
}

#[test]
fn files_that_git_ignores_are_skipped() {
    let ignored = Ignored("/target\n/fuzz/corpus\n/*.html\n".to_owned());
    for path in [".git", "target", "fuzz/corpus", "report.html"] {
        assert!(ignored.has(path), "{path}");
    }
    for path in [
        "crates",
        "crates/target",
        "corpus",
        "docs/page.html",
        "html",
    ] {
        assert!(!ignored.has(path), "{path}");
    }
}
