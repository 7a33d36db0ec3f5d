//! A C library as `make install` leaves it, and a C compiler.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A library of the repository's.
pub struct Library {
    /// The crate's directory.
    pub crate_directory: &'static str,
    /// The directory for files of the crate's integration tests.
    pub scratch_directory: &'static str,
    /// What folders there begin with.
    pub name: &'static str,
    /// The target of `make` that installs it.
    pub target: &'static str,
    /// Its name for pkg-config.
    pub package: &'static str,
    /// Filled in by the first test that needs it.
    pub prefix: OnceLock<Prefix>,
}

/// Runs a command; returns its output.
pub fn run(command: &mut Command) -> Output {
    let output = command.output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that has to succeed; returns what it wrote.
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let (out, error) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr),
    );
    let status = output.status;
    assert!(status.success(), "{command:?}: {status}\n{out}\n{error}");
    out
}

/// What C programs are compiled with, besides the language's options: the address and undefined behaviour sanitizers, unless
/// valgrind (`make valgrind`) checks them, and the library with them.
pub fn checks() -> &'static [&'static str] {
    /// Headers for test programs.
    const HEADERS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/c");
    match is_under_valgrind() {
        true => &[HEADERS, "-g", "-pthread", "-D_GNU_SOURCE"],
        false => &[
            HEADERS,
            "-g",
            "-pthread",
            "-D_GNU_SOURCE",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
        ],
    }
}

/// Whether C programs run under valgrind.
pub fn is_under_valgrind() -> bool {
    std::env::var_os("CAUSEWAY_VALGRIND").is_some()
}

/// The command that runs a program that was compiled with [`checks`]. A leak fails it.
pub fn checked(program: &Path) -> Command {
    if !is_under_valgrind() {
        let mut command = Command::new(program);
        command.env("ASAN_OPTIONS", "detect_leaks=1");
        return command;
    }
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
        .args([
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ])
        // Forked peers are checked as well.
        .arg("--trace-children=yes")
        .arg(concat!(
            "--suppressions=",
            env!("CARGO_MANIFEST_DIR"),
            "/../../tools/valgrind-accepted"
        ))
        .arg(program);
    command
}

/// Takes the variables out of a command's environment which the make and the cargo that run this test have set. Crates that are built by scripts,
/// such as `ring`, would be built again otherwise, with all that use them, and once more by the next command without these variables.
pub fn forget_callers(command: &mut Command) {
    let of_cargo = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ];
    for (name, _) in std::env::vars() {
        if name.starts_with("MAKE")
            || name == "OUT_DIR"
            || of_cargo.iter().any(|front| name.starts_with(front))
        {
            command.env_remove(name);
        }
    }
}

/// An installed library.
pub struct Prefix {
    /// Where.
    pub path: PathBuf,
    flags: Vec<String>,
}

impl Library {
    /// The repository.
    pub fn root(&self) -> &'static Path {
        Path::new(self.crate_directory)
            .ancestors()
            .nth(2)
            .expect("the crate lies two levels down")
    }

    /// A file of the crate's.
    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(Path::new(self.crate_directory).join(path)).expect(path)
    }

    /// An empty folder.
    pub fn scratch(&self, name: &str) -> PathBuf {
        let path = Path::new(self.scratch_directory).join(format!("{}-{name}", self.name));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder for tests");
        path
    }

    /// `make` with a target, for the debug build of the library, which the tests have half built already.
    pub fn make(&self, target: &str, settings: &[String]) {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("make");
        command.current_dir(self.root()).arg(target).args(settings);
        command.arg("BMI_PROFILE=dev");
        forget_callers(&mut command);
        let build = Path::new(self.scratch_directory).parent();
        command.env("CARGO_TARGET_DIR", build.expect("tmp lies in target"));
        succeed(&mut command);
    }

    /// Installs it, once.
    pub fn installed(&self) -> &Prefix {
        self.prefix.get_or_init(|| {
            let path = self.scratch("prefix");
            self.make(self.target, &[format!("PREFIX={}", path.display())]);
            let folder = path.join("lib/pkgconfig");
            let file = format!("{}.pc", self.package);
            let by_hand = flags_by_hand(&folder.join(&file));
            let mut pkg_config = Command::new("pkg-config");
            pkg_config.args(["--cflags", "--libs", self.package]);
            let flags = match pkg_config.env("PKG_CONFIG_PATH", folder).output() {
                Ok(found) => {
                    assert!(found.status.success(), "{found:?}");
                    let flags = String::from_utf8(found.stdout).expect("UTF-8");
                    let flags: Vec<_> = flags.split_whitespace().map(str::to_owned).collect();
                    assert_eq!(flags, by_hand, "{file}");
                    flags
                }
                // A machine without it.
                Err(_) => by_hand,
            };
            Prefix { path, flags }
        })
    }

    /// Compiles a C program against the installed library.
    pub fn compile(&self, source: &Path, options: &[&str], into: &str) -> PathBuf {
        let prefix = self.installed();
        let program = self.scratch(into).join("program");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror"])
            .args(options)
            .arg(source)
            .args(&prefix.flags)
            .arg(format!("-Wl,-rpath,{}/lib", prefix.path.display()))
            .arg("-o")
            .arg(&program);
        succeed(&mut cc);
        program
    }
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
    /// The flags that find the header.
    pub fn cflags(&self) -> impl Iterator<Item = &String> {
        self.flags.iter().filter(|flag| flag.starts_with("-I"))
    }
}
