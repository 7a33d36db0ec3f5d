//! Writes a configuration as text, and the units that it uses.

use std::fmt::Write as _;
use std::time::Duration;

use super::{Configuration, Durability};

/// The file's text, with comments that explain it.
pub(super) fn print(configuration: &Configuration) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_file(&mut out, configuration);
    out
}

fn write_file(out: &mut String, configuration: &Configuration) -> std::fmt::Result {
    let distribution = &configuration.distribution;
    writeln!(
        out,
        "# A Causeway file system. The same file on every node."
    )?;
    writeln!(out, "name = {}", quoted(&configuration.name))?;
    writeln!(
        out,
        "# Identity: never change it once servers have started."
    )?;
    writeln!(out, "id = \"{:032x}\"", configuration.id)?;
    writeln!(
        out,
        "# synced: an acknowledged create, rename, unlink or fsync survives power loss.\n\
         # relaxed: it survives the death of any process."
    )?;
    let durability = match configuration.durability {
        Durability::Synced => "synced",
        Durability::Relaxed => "relaxed",
    };
    writeln!(out, "durability = \"{durability}\"")?;
    writeln!(out, "# How long an operation may take before it fails.")?;
    writeln!(out, "timeout = \"{}\"", duration(configuration.timeout))?;
    if let Some(key_file) = &configuration.key_file {
        writeln!(
            out,
            "# 64 hexadecimal digits, mode 600, the same on every node."
        )?;
        writeln!(out, "key_file = {}", quoted(&key_file.to_string_lossy()))?;
    }
    writeln!(out, "# Turn off only on a network that is private.")?;
    writeln!(out, "encrypt = {}", configuration.encrypt)?;
    writeln!(
        out,
        "# Of the data in new files; verified whenever they are read."
    )?;
    writeln!(out, "checksums = {}", configuration.checksums)?;
    if configuration.tcp_connections != 0 {
        let most = configuration.tcp_connections;
        writeln!(out, "# Most TCP connections between two processes.")?;
        writeln!(out, "tcp_connections = {most}")?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "# How files are striped over I/O servers unless they say otherwise."
    )?;
    writeln!(out, "[distribution]")?;
    if distribution.strip_size != 0 {
        let size = size(u64::from(distribution.strip_size));
        writeln!(out, "strip_size = \"{size}\"")?;
    }
    writeln!(out, "# 0: all I/O servers.")?;
    writeln!(out, "servers = {}", distribution.servers)?;
    writeln!(
        out,
        "# 0: files start on different servers; n: all start on the n-th."
    )?;
    writeln!(out, "start = {}", distribution.start)?;
    for server in &configuration.servers {
        writeln!(out)?;
        writeln!(out, "[[server]]")?;
        writeln!(out, "name = {}", quoted(&server.name))?;
        let roles: Vec<&str> = [(server.metadata, "\"metadata\""), (server.io, "\"io\"")]
            .into_iter()
            .filter_map(|(has, role)| has.then_some(role))
            .collect();
        writeln!(out, "roles = [{}]", roles.join(", "))?;
        let addresses: Vec<String> = server.addresses.iter().map(|a| quoted(a)).collect();
        writeln!(out, "addresses = [{}]", addresses.join(", "))?;
        writeln!(
            out,
            "directory = {}",
            quoted(&server.directory.to_string_lossy())
        )?;
    }
    Ok(())
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// `1 MiB` and the like; bytes where no unit fits exactly.
fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

fn duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    if milliseconds.is_multiple_of(1000) {
        format!("{} s", milliseconds / 1000)
    } else {
        format!("{milliseconds} ms")
    }
}

/// Reads `1 MiB`, `64KiB`, `4096 B`, `4096`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// Reads `10 s`, `500 ms`, `2 min`.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "min" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim()))
}
