//! Header, version script and library agree.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use causeway_fs_c::directory::CwfsDirent;
use causeway_fs_c::file::CwfsRegion;
use causeway_fs_c::life::CwfsOptions;
use causeway_fs_c::names::{
    CWFS_EXCHANGE, CWFS_NOFOLLOW, CWFS_NOREPLACE, CWFS_NOW, CWFS_OMIT, CwfsStat, CwfsStatfs,
    CwfsTime,
};
use causeway_fs_c::post::CwfsCompletion;

use causeway_testkit::installed::succeed;

use crate::prefix::LIBRARY;

const HEADER: &str = "include/causeway/fs.h";
const VERSION: &str = "CAUSEWAY_FS_0.1";

/// The functions that the header declares: those whose lines begin with a type.
fn declared() -> BTreeSet<String> {
    let header = LIBRARY.read(HEADER);
    let fronts = ["int ", "int64_t ", "const char *"];
    let lines = header
        .lines()
        .filter_map(|line| fronts.iter().find_map(|front| line.strip_prefix(front)));
    lines
        .filter_map(|line| line.split_once('('))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn listed() -> BTreeSet<String> {
    let script = LIBRARY.read("libcauseway_fs.map");
    assert!(script.contains(&format!("{VERSION} {{")));
    let names = script.lines().filter_map(|line| {
        let name = line.trim().strip_suffix(';')?;
        name.starts_with("cwfs_").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let library = LIBRARY.installed().path.join("lib/libcauseway_fs.so");
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
        dynamic.contains("soname: [libcauseway_fs.so.0]"),
        "{dynamic}"
    );
}

#[test]
fn the_header_stands_alone_in_every_c_and_in_cpp() {
    let folder = LIBRARY.scratch("alone");
    // Twice, as may happen.
    let text = "#include <causeway/fs.h>\n#include <causeway/fs.h>\n\
                struct cwfs_options options = CWFS_OPTIONS_INIT;\n";
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

fn constants() -> [(&'static str, i64); 5] {
    [
        ("CWFS_NOFOLLOW", CWFS_NOFOLLOW.into()),
        ("CWFS_NOREPLACE", CWFS_NOREPLACE.into()),
        ("CWFS_EXCHANGE", CWFS_EXCHANGE.into()),
        ("CWFS_NOW", CWFS_NOW),
        ("CWFS_OMIT", CWFS_OMIT),
    ]
}

#[test]
fn structures_and_constants_are_the_same_in_c_and_in_rust() {
    let mut out = String::from(
        "#include <causeway/fs.h>\n\
         #define SIZE(type, bytes) _Static_assert(sizeof(type) == bytes, #type)\n\
         #define PLACE(type, member, bytes) \\\n\
         _Static_assert(offsetof(type, member) == bytes, #type \".\" #member)\n",
    );
    layout!(
        out,
        "cwfs_options",
        CwfsOptions,
        size,
        clients,
        reserved,
        timeout_us
    );
    layout!(out, "cwfs_region", CwfsRegion, offset, length);
    layout!(out, "cwfs_time", CwfsTime, seconds, nanoseconds);
    layout!(out, "cwfs_completion", CwfsCompletion, op, user_ptr, result);
    layout!(
        out,
        "cwfs_stat",
        CwfsStat,
        object,
        size,
        mode,
        uid,
        gid,
        links,
        accessed,
        modified,
        changed,
        strip_size,
        servers
    );
    layout!(
        out,
        "cwfs_statfs",
        CwfsStatfs,
        total_bytes,
        free_bytes,
        objects
    );
    layout!(out, "cwfs_dirent", CwfsDirent, stat, name_length, name);
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
    let of_the_header = [
        "CWFS_VERSION_MAJOR",
        "CWFS_VERSION_MINOR",
        "CWFS_OPTIONS_INIT",
    ];
    let defined: BTreeSet<_> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define ")?.split_whitespace().next())
        .filter(|name| name.starts_with("CWFS_") && !of_the_header.contains(name))
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
