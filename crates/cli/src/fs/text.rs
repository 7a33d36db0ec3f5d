//! Attributes as people and scripts read them.

use causeway_report::units::bytes_text;
use causeway_watch::text::date_and_time;
use causeway_wire::fs::{Attributes, Body, Distribution, Kind, Node, ObjectId, Timestamp};
use serde_json::{Value, json};

/// `-rw-r--r--`.
pub(crate) fn mode_text(kind: Kind, mode: u16) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::SymbolicLink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharacterDevice => 'c',
        Kind::BlockDevice => 'b',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// `file`, `directory`, `link`, `pipe`, and so on.
pub(crate) fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::SymbolicLink => "link",
        Kind::Fifo => "pipe",
        Kind::Socket => "socket",
        Kind::CharacterDevice => "character device",
        Kind::BlockDevice => "block device",
    }
}

/// `2026-11-21 08:15:04.123456789 UTC`.
pub(crate) fn time_text(time: Timestamp) -> String {
    format!(
        "{}.{:09} UTC",
        date_and_time(time.seconds),
        time.nanoseconds
    )
}

/// Attributes for `--json`.
pub(crate) fn attributes_json(attributes: &Attributes) -> serde_json::Map<String, Value> {
    let time =
        |time: Timestamp| json!({ "seconds": time.seconds, "nanoseconds": time.nanoseconds });
    let Value::Object(object) = json!({
        "kind": kind_text(attributes.kind),
        "mode": format!("{:04o}", attributes.mode),
        "uid": attributes.uid,
        "gid": attributes.gid,
        "links": attributes.links,
        "size_bytes": attributes.size,
        "accessed": time(attributes.accessed),
        "modified": time(attributes.modified),
        "changed": time(attributes.changed),
    }) else {
        return serde_json::Map::new();
    };
    object
}

/// An object's number for `--json`: a text, as are other identifiers. Readers that take each number for a floating-point one, as
/// JavaScript and jq do, would round it.
pub(crate) fn object_json(object: ObjectId) -> Value {
    object.0.to_string().into()
}

/// Where a file's bytes are stored, as text.
pub(crate) fn placement_text(node: &Node, server_name: impl Fn(u16) -> String) -> String {
    let striped = |distribution: &Distribution| {
        let names: Vec<String> = distribution
            .servers
            .iter()
            .map(|index| server_name(*index))
            .collect();
        format!(
            "strips of {} over {}",
            bytes_text(u64::from(distribution.strip_size)),
            names.join(", ")
        )
    };
    match &node.body {
        Body::Directory(hint) => {
            let strip = match hint.strip_size {
                0 => "the file system's strip size".to_owned(),
                size => format!("strips of {}", bytes_text(u64::from(size))),
            };
            let servers = match hint.servers {
                0 => "all servers".to_owned(),
                count => format!("{count} servers"),
            };
            format!("new files: {strip} over {servers}")
        }
        Body::Link(_) | Body::Special { .. } => "with the metadata".to_owned(),
        Body::Stuffed { distribution, .. } => {
            format!(
                "with the metadata while small, then {}",
                striped(distribution)
            )
        }
        Body::Striped { distribution, .. } => striped(distribution),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_exactly() {
        let object = ObjectId((1 << 54) + 1);
        assert_eq!(object_json(object), "18014398509481985");
    }

    #[test]
    fn modes_look_as_ls_shows_them() {
        assert_eq!(mode_text(Kind::File, 0o644), "-rw-r--r--");
        assert_eq!(mode_text(Kind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(Kind::File, 0o4755), "-rwsr-xr-x");
        assert_eq!(mode_text(Kind::File, 0o2640), "-rw-r-S---");
        assert_eq!(mode_text(Kind::SymbolicLink, 0o777), "lrwxrwxrwx");
    }
}
