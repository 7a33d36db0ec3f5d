//! Header, version script and library agree.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use causeway_bmi_c::address::{self, BmiIdentity};
use causeway_bmi_c::error::ERRORS;
use causeway_bmi_c::info::OPTIONS;
use causeway_bmi_c::life::{BMI_CLEARTEXT, BmiConfig};
use causeway_bmi_c::remote::{self, BmiRegion};
use causeway_bmi_c::test::{BmiCompletion, BmiUnexpected};

use causeway_testkit::installed::succeed;

use crate::prefix::LIBRARY;

const HEADER: &str = "include/causeway/bmi.h";
const VERSION: &str = "CAUSEWAY_BMI_0.1";

/// The functions that the header declares: those whose lines begin with a type.
fn declared() -> BTreeSet<String> {
    let header = LIBRARY.read(HEADER);
    let fronts = ["int ", "const char *"];
    let lines = header
        .lines()
        .filter_map(|line| fronts.iter().find_map(|front| line.strip_prefix(front)));
    lines
        .filter_map(|line| line.split_once('('))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn listed() -> BTreeSet<String> {
    let script = LIBRARY.read("libcauseway_bmi.map");
    assert!(script.contains(&format!("{VERSION} {{")));
    let names = script.lines().filter_map(|line| {
        let name = line.trim().strip_suffix(';')?;
        name.starts_with("BMI_").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let library = LIBRARY.installed().path.join("lib/libcauseway_bmi.so");
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only", "--with-symbol-versions"]);
    let symbols = succeed(nm.arg(&library));
    let mut exported = BTreeSet::new();
    for symbol in symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
    {
        match symbol.split_once("@@") {
            Some((name, version)) => {
                assert_eq!(version, VERSION, "{name}");
                exported.insert(name.to_owned());
            }
            None => assert_eq!(symbol.trim_end_matches(['@', '*']), VERSION),
        }
    }
    assert!(exported.len() > 30, "{symbols}");
    assert_eq!(declared(), exported, "the header against the library");
    assert_eq!(listed(), exported, "the version script against the library");
    let dynamic = succeed(Command::new("readelf").arg("-d").arg(&library));
    assert!(
        dynamic.contains("soname: [libcauseway_bmi.so.0]"),
        "{dynamic}"
    );
}

#[test]
fn the_header_stands_alone_in_every_c_and_in_cpp() {
    let folder = LIBRARY.scratch("alone");
    // Twice, as may happen.
    let text = "#include <causeway/bmi.h>\n#include <causeway/bmi.h>\n\
                struct bmi_config config = BMI_CONFIG_INIT;\n";
    for (compiler, standards, name) in [
        ("cc", &["c99", "c11", "c17"][..], "alone.c"),
        ("c++", &["c++11", "c++20"][..], "alone.cc"),
    ] {
        if Command::new(compiler).arg("--version").output().is_err() {
            assert_eq!(compiler, "c++", "a C compiler is needed");
            eprintln!("there is no C++ compiler here: the header is not tried with one");
            continue;
        }
        let source = folder.join(name);
        std::fs::write(&source, text).unwrap();
        for standard in standards {
            let mut command = Command::new(compiler);
            command
                .arg(format!("-std={standard}"))
                .args(["-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
                .args(LIBRARY.installed().cflags())
                .arg(&source);
            succeed(&mut command);
        }
    }
}

/// A structure's size and its members' places, as assertions in C.
macro_rules! layout {
    ($out:ident, $name:literal, $type:ty, $($member:ident),+) => {
        writeln!($out, "SIZE(struct {}, {});", $name, size_of::<$type>()).unwrap();
        $(writeln!(
            $out,
            "PLACE(struct {}, {}, {});",
            $name,
            stringify!($member),
            offset_of!($type, $member)
        )
        .unwrap();)+
    };
}

/// Constants that are in no list of the library's.
const FURTHER: &[(&str, i64)] = &[
    ("BMI_CLEARTEXT", BMI_CLEARTEXT as i64),
    ("BMI_IDENTITY_UNKNOWN", address::BMI_IDENTITY_UNKNOWN as i64),
    ("BMI_IDENTITY_LOCAL", address::BMI_IDENTITY_LOCAL as i64),
    ("BMI_IDENTITY_KEYED", address::BMI_IDENTITY_KEYED as i64),
    ("BMI_IDENTITY_USER", address::BMI_IDENTITY_USER as i64),
    ("BMI_READ", remote::BMI_READ as i64),
    ("BMI_WRITE", remote::BMI_WRITE as i64),
    ("BMI_GET", remote::BMI_GET as i64),
    ("BMI_PUT", remote::BMI_PUT as i64),
];

fn constants() -> Vec<(&'static str, i64)> {
    let errors = ERRORS
        .iter()
        .map(|(name, code, _)| (*name, i64::from(*code)));
    let options = OPTIONS
        .iter()
        .map(|(name, value)| (*name, i64::from(*value)));
    let further = FURTHER.iter().copied();
    errors.chain(options).chain(further).collect()
}

#[test]
fn structures_and_constants_are_the_same_in_c_and_in_rust() {
    let mut out = String::from(
        "#include <causeway/bmi.h>\n\
         #define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type)\n\
         #define PLACE(type, member, bytes) \\\n\
         _Static_assert(offsetof(type, member) == bytes, #type \".\" #member)\n",
    );
    layout!(
        out,
        "bmi_config",
        BmiConfig,
        size,
        listen,
        key,
        eager_limit,
        unexpected_limit,
        early_memory,
        connect_timeout_us,
        spin_us,
        flags,
        tcp_connections
    );
    layout!(out, "bmi_identity", BmiIdentity, kind, pid, uid, gid);
    layout!(
        out,
        "bmi_completion",
        BmiCompletion,
        op,
        user_ptr,
        actual_size,
        error,
        reserved
    );
    layout!(
        out,
        "bmi_unexpected",
        BmiUnexpected,
        from,
        tag,
        buffer,
        size
    );
    layout!(
        out,
        "bmi_region",
        BmiRegion,
        key,
        base,
        size,
        object,
        offset,
        mappable
    );
    for (name, value) in constants() {
        writeln!(out, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    out.push_str("int main(void) { return 0; }\n");
    let source = LIBRARY.scratch("layout").join("layout.c");
    std::fs::write(&source, out).unwrap();
    LIBRARY.compile(&source, &[], "layout-program");
}

#[test]
fn the_header_has_no_constant_that_the_library_does_not_know() {
    let header = LIBRARY.read(HEADER);
    let of_the_header = ["BMI_VERSION_MAJOR", "BMI_VERSION_MINOR", "BMI_CONFIG_INIT"];
    let defined: BTreeSet<_> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_whitespace().next())
        .filter(|name| name.starts_with("BMI_") && !of_the_header.contains(name))
        .collect();
    let known: BTreeSet<_> = constants().into_iter().map(|(name, _)| name).collect();
    assert_eq!(defined, known);
    let version = env!("CARGO_PKG_VERSION").split('.').map(str::parse::<u32>);
    let version: Vec<_> = version.map(Result::unwrap).collect();
    for (name, number) in of_the_header[..2].iter().zip(version) {
        assert!(
            header.contains(&format!("#define {name} {number}\n")),
            "{name}"
        );
    }
}

/// Each call has its own description.
#[test]
fn the_header_describes_every_function() {
    let header = LIBRARY.read(HEADER);
    for name in declared() {
        let title = format!(" * {name} - ");
        assert!(header.contains(&title), "{name} has no description");
    }
}
