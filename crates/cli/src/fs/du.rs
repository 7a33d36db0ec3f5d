//! `causeway fs du`: how much is in a directory.

use causeway_command::failure::Outcome;
use causeway_command::output::json_name;
use causeway_fs::client::Client;
use causeway_report::units::{bytes_text, count_text};
use causeway_wire::fs::Kind;
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::{conclude, each_operand};
use crate::fs::session::{RemotePath, Session, Target, or_root, remote_path};
use crate::fs::tree::{is_directory, walk};

/// Add up the sizes of everything in directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs du /data
  causeway fs du --depth 1 /
  causeway fs du --json /data | jq .entries[0].bytes")]
pub(crate) struct Arguments {
    /// Files and directories [default: /]
    #[arg(value_name = "PATH", value_parser = remote_path())]
    paths: Vec<RemotePath>,
    /// Show directories down to this depth too
    #[arg(long, short, value_name = "N", default_value_t = 0)]
    depth: usize,
    #[command(flatten)]
    target: Target,
}

/// The total of a directory.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    bytes: u64,
    files: u64,
    directories: u64,
    links: u64,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let output = session.output;
    let mut client = session.client()?;
    let mut entries = Vec::new();
    let failures = each_operand(or_root(&arguments.paths).iter(), |path| {
        measure(&mut client, path, arguments.depth, &mut |path, sum| {
            let items = count_text(sum.files + sum.directories + sum.links);
            let before = format!("{:>10}  {items:>10} items  ", bytes_text(sum.bytes));
            output.named_line(&before, path, "");
            if output.json {
                let mut object = serde_json::Map::new();
                json_name(&mut object, "path", path);
                for (key, value) in [
                    ("bytes", sum.bytes),
                    ("files", sum.files),
                    ("directories", sum.directories),
                    ("links", sum.links),
                ] {
                    object.insert(key.to_owned(), value.into());
                }
                entries.push(Value::Object(object));
            }
        })
    });
    output.object(&json!({ "entries": entries, "failures": failures }));
    conclude(failures)
}

fn measure(
    client: &mut Client,
    path: &RemotePath,
    depth: usize,
    show: &mut dyn FnMut(&[u8], Sum),
) -> Outcome {
    let node = client.stat(&path.0, false)?;
    let path = &path.trimmed();
    if !is_directory(&node) {
        let sum = Sum {
            bytes: node.attributes.size,
            files: 1,
            ..Sum::default()
        };
        show(path, sum);
        return Ok(());
    }
    // One sum for each directory that the walk is inside of.
    let mut open: Vec<Sum> = Vec::new();
    walk(client, path, &node, &mut |_, visited| {
        match (visited.attributes.kind, visited.leaving) {
            (Kind::Directory, false) => open.push(Sum::default()),
            (Kind::Directory, true) => {
                let sum = open.pop().unwrap_or_default();
                if open.len() <= depth {
                    show(visited.path, sum);
                }
                if let Some(parent) = open.last_mut() {
                    parent.bytes = parent.bytes.saturating_add(sum.bytes);
                    parent.files += sum.files;
                    parent.links += sum.links;
                    parent.directories += sum.directories + 1;
                }
            }
            (kind, _) => {
                if let Some(inside) = open.last_mut() {
                    inside.bytes = inside.bytes.saturating_add(visited.attributes.size);
                    inside.files += u64::from(kind == Kind::File);
                    inside.links += u64::from(kind == Kind::SymbolicLink);
                }
            }
        }
        Ok(())
    })
}
