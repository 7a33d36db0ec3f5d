// Writes `mpi.h` from the lists. Shared by the example that makes the header and the test that compares it.

use std::fmt::Write;

use super::table;

const FRONT: &str = "\
/* MPI 5.0, as its standard ABI has it: a program that was compiled with this header runs with every library
 * that keeps the standard ABI (libmpi_abi.so.1). This header is made from the lists in crates/mpi-c/abi and
 * crates/mpi/abi; the values and prototypes are those of the MPI 5.0 standard. */
#ifndef MPI_H_ABI
#define MPI_H_ABI

#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

#define MPI_VERSION 5
#define MPI_SUBVERSION 0
#define MPI_ABI_VERSION 1
#define MPI_ABI_SUBVERSION 0

";

/// Constants of the list, as C has them.
fn constants(list: &str) -> String {
    let mut out = String::new();
    let (mut kind, mut open) = (Vec::new(), None);
    for line in list.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(section) = line.strip_prefix('[') {
            close(&mut out, &mut open);
            kind = Vec::from_iter(section.trim_end_matches(']').split(' '));
            out.push('\n');
            match kind[..] {
                ["enum"] => open = Some(String::new()),
                ["enum", name] => open = Some(format!(" MPI_{name}")),
                _ => {}
            }
            if let Some(name) = &open {
                let typedef = if name.is_empty() { "" } else { "typedef " };
                let _ = writeln!(out, "{typedef}enum{name} {{");
            }
            continue;
        }
        let words = Vec::from_iter(line.split_whitespace());
        let _ = match (kind[0], &words[..]) {
            (_, [name, "=", other]) => writeln!(out, "#define MPI_{name} MPI_{other}"),
            ("handle", [name, value]) => writeln!(out, "#define MPI_{name} (({}){value})", kind[1]),
            ("pointer", [name, ty, value]) => writeln!(out, "#define MPI_{name} (({ty}){value})"),
            ("number", [name, value]) => writeln!(out, "#define MPI_{name} {value}"),
            ("enum", [name, value]) => writeln!(out, "    MPI_{name} = {value},"),
            _ => panic!("not a constant: {line}"),
        };
    }
    close(&mut out, &mut open);
    out
}

fn close(out: &mut String, open: &mut Option<String>) {
    if let Some(name) = open.take() {
        // C++98 and C89 take no comma behind the last one.
        out.truncate(out.trim_end_matches([',', '\n']).len());
        let _ = writeln!(out, "\n}}{name};");
    }
}

fn prototypes() -> String {
    let mut out = String::new();
    for function in table::read(include_str!("functions.txt")) {
        for prefix in ["", "P"] {
            for (name, large) in function.names() {
                let params = function.params.iter().map(|param| param.declaration(large));
                let params = match Vec::from_iter(params) {
                    none if none.is_empty() => "void".to_owned(),
                    some => some.join(", "),
                };
                let _ = writeln!(out, "{} {prefix}{name}({params});", function.result);
            }
        }
    }
    out
}

/// The whole header.
pub(crate) fn write() -> String {
    let constants = constants(include_str!("../../mpi/abi/constants.txt"));
    let parts = [
        FRONT,
        include_str!("types.h"),
        &constants,
        "#define MPI_DISPLACEMENT_CURRENT ((MPI_Offset)-1)\n\n",
        include_str!("callbacks.h"),
        "\n/* Functions. */\n",
        &prototypes(),
        "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
    ];
    parts.concat()
}
