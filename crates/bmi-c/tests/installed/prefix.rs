//! The library as `make install` leaves it, and a C compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two levels down")
}

/// A file of this crate's.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect(path)
}

/// Runs a command; returns its output.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that has to succeed; returns what it wrote.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr),
    );
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{out}\n{error}");
    out
}

/// `make` with a target, for the debug build of the library, which the tests have half built already.
pub(crate) fn make(target: &str, settings: &[String]) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new("make");
    command.current_dir(root()).arg(target).args(settings);
    command.arg("BMI_PROFILE=dev");
    for (name, _) in std::env::vars() {
        // Of the make and the cargo that run this test.
        let of_cargo = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        if name.starts_with("MAKE") || of_cargo.iter().any(|front| name.starts_with(front)) {
            command.env_remove(name);
        }
    }
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    command.env("CARGO_TARGET_DIR", build.expect("tmp lies in target"));
    succeed(&mut command);
}

/// An installed library.
pub(crate) struct Prefix {
    /// Where.
    pub(crate) path: PathBuf,
    flags: Vec<String>,
}

/// Installs the library, once.
pub(crate) fn installed() -> &'static Prefix {
    static PREFIX: OnceLock<Prefix> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let path = scratch("prefix");
        make("install-bmi", &[format!("PREFIX={}", path.display())]);
        let folder = path.join("lib/pkgconfig");
        let by_hand = flags_by_hand(&folder.join("causeway-bmi.pc"));
        let mut pkg_config = Command::new("pkg-config");
        pkg_config.args(["--cflags", "--libs", "causeway-bmi"]);
        let flags = match pkg_config.env("PKG_CONFIG_PATH", folder).output() {
            Ok(found) => {
                assert!(found.status.success(), "{found:?}");
                let flags = String::from_utf8(found.stdout).expect("UTF-8");
                let flags: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
                assert_eq!(flags, by_hand, "causeway-bmi.pc");
                flags
            }
            // A machine without it.
            Err(_) => by_hand,
        };
        Prefix { path, flags }
    })
}

/// An empty folder.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bmi-c-{name}"));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder for tests");
    path
}

/// The flags of a pkg-config file that uses variables and nothing else.
fn flags_by_hand(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("a pkg-config file");
    let mut variables = BTreeMap::<String, String>::new();
    let mut flags = BTreeMap::<String, String>::new();
    for line in text.lines() {
        let expanded = variables
            .iter()
            .fold(line.to_owned(), |line, (name, value)| {
                line.replace(&format!("${{{name}}}"), value)
            });
        if let Some((name, value)) = expanded.split_once(": ") {
            flags.insert(name.to_owned(), value.to_owned());
        } else if let Some((name, value)) = expanded.split_once('=') {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    let both = format!("{} {}", flags["Cflags"], flags["Libs"]);
    both.split_whitespace().map(str::to_owned).collect()
}

impl Prefix {
    /// Compiles a C program against the installed library.
    pub(crate) fn compile(&self, source: &Path, options: &[&str], into: &str) -> PathBuf {
        let program = scratch(into).join("program");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
            .args(options)
            .arg(source)
            .args(&self.flags)
            .arg(format!("-Wl,-rpath,{}/lib", self.path.display()))
            .arg("-o")
            .arg(&program);
        succeed(&mut cc);
        program
    }

    /// The flags that find the header.
    pub(crate) fn cflags(&self) -> impl Iterator<Item = &String> {
        self.flags.iter().filter(|flag| flag.starts_with("-I"))
    }
}
