//! `causeway fs stat`: everything that is known about a name.

use causeway_command::failure::Outcome;
use causeway_command::output::{Output, json_name, printable, report_item};
use causeway_command::remote::is_gone;
use causeway_fs::client::Client;
use causeway_report::units::{bytes_text, count_text};
use causeway_wire::fs::{Body, Errno, Kind, Node};
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::conclude;
use crate::fs::session::{RemotePath, Session, Target, remote_path};
use crate::fs::text::{
    attributes_json, kind_text, mode_text, object_json, placement_text, time_text,
};
use crate::fs::tree::link_target;

/// Show a file's attributes and on which servers its bytes lie
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs stat /data/big.bin
  causeway fs stat -L /data/latest
  causeway fs stat --json /data/big.bin | jq .entries[0].size_bytes")]
pub(crate) struct Arguments {
    /// Files, directories or links
    #[arg(required = true, value_name = "PATH", value_parser = remote_path())]
    paths: Vec<RemotePath>,
    /// Follow a symbolic link instead of describing it
    #[arg(long, short = 'L')]
    follow: bool,
    #[command(flatten)]
    target: Target,
}

/// How often a name is looked up if its object is gone when further requests are made.
const ATTEMPTS: u32 = 64;

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let output = session.output;
    let mut layout = None;
    let mut failures = 0;
    let mut entries = Vec::new();
    for path in &arguments.paths {
        let given = &path.0;
        let path = path.trimmed();
        let Details {
            node,
            xattrs,
            stored,
        } = match details(&mut client, given, arguments.follow) {
            Ok(details) => details,
            Err(error) => {
                report_item(&error.into());
                failures += 1;
                continue;
            }
        };
        let known = match &layout {
            Some(known) => known,
            None => layout.insert(client.layout()?),
        };
        let server_name = |index: u16| {
            let server = known.server(index);
            server.map_or_else(|| format!("#{index}"), |server| server.name.clone())
        };
        if output.json {
            let mut found = object(&node, &path, &xattrs, server_name);
            found["stored_bytes"] = stored.into();
            entries.push(found);
        } else {
            print(&output, &node, &path, server_name);
            if stored != node.attributes.size && node.attributes.kind == Kind::File {
                output.line(&format!("   stored  {} bytes", count_text(stored)));
            }
            for name in &xattrs {
                output.line(&format!("attribute  {}", printable(name)));
            }
        }
    }
    output.object(&json!({ "entries": entries, "failures": failures }));
    conclude(failures)
}

/// The replies to several requests about one object.
struct Details {
    node: Node,
    /// Names of its extended attributes.
    xattrs: Vec<Vec<u8>>,
    /// Bytes that its data take.
    stored: u64,
}

/// Requests all that is shown of the object at `path`. If another object replaces it between two
/// requests, that one is described.
fn details(client: &mut Client, path: &[u8], follow: bool) -> Result<Details, causeway_fs::Error> {
    let mut attempts = 0;
    loop {
        let node = client.stat(path, follow)?;
        attempts += 1;
        let object = node.object;
        match details_of(client, node) {
            Err(error)
                if (is_gone(&error) || error.errno == Errno::ENOENT) && attempts < ATTEMPTS =>
            {
                tracing::debug!(
                    object = object.0,
                    "the object is gone: its name is looked up again"
                );
            }
            result => return result,
        }
    }
}

fn details_of(client: &mut Client, node: Node) -> Result<Details, causeway_fs::Error> {
    let xattrs = match client.xattrs(node.object) {
        // Servers of earlier versions have no extended attributes.
        Err(error) if error.errno == Errno::EOPNOTSUPP => Vec::new(),
        result => result?,
    };
    let stored = client.stored_bytes(&node)?;
    Ok(Details {
        node,
        xattrs,
        stored,
    })
}

/// A node's description as JSON.
fn object(
    node: &Node,
    path: &[u8],
    xattrs: &[Vec<u8>],
    server_name: impl Fn(u16) -> String,
) -> Value {
    let mut object = attributes_json(&node.attributes);
    json_name(&mut object, "path", path);
    object.insert("object".to_owned(), object_json(node.object));
    if !xattrs.is_empty() {
        let names: Vec<String> = xattrs.iter().map(|name| printable(name)).collect();
        object.insert("extended_attributes".to_owned(), names.into());
    }
    let placement = placement_text(node, &server_name);
    object.insert("placement".to_owned(), placement.into());
    match &node.body {
        Body::Link(target) => json_name(&mut object, "target", target),
        Body::Stuffed { distribution, .. } | Body::Striped { distribution, .. } => {
            let servers = distribution.servers.iter();
            let servers: Vec<String> = servers.map(|index| server_name(*index)).collect();
            object.insert("strip_size".to_owned(), distribution.strip_size.into());
            object.insert("servers".to_owned(), servers.into());
        }
        Body::Special { device, .. } => {
            object.insert("device".to_owned(), (*device).into());
        }
        Body::Directory(_) => {}
    }
    Value::Object(object)
}

/// Prints a node's description.
fn print(output: &Output, node: &Node, path: &[u8], server_name: impl Fn(u16) -> String) {
    let attributes = &node.attributes;
    output.named_line("     name  ", path, "");
    output.line(&format!(
        "     kind  {}, object {}",
        kind_text(attributes.kind),
        node.object.0
    ));
    if let Some(target) = link_target(node) {
        output.line(&format!("   target  {}", printable(target)));
    }
    if node.attributes.kind.is_device() {
        let device = node.body.device().into();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        output.line(&format!("   device  {major}, {minor}"));
    }
    output.line(&format!(
        "     size  {} bytes ({})",
        count_text(attributes.size),
        bytes_text(attributes.size)
    ));
    output.line(&format!(
        "     mode  {:04o} {}   uid {}   gid {}   links {}",
        attributes.mode,
        mode_text(attributes.kind, attributes.mode),
        attributes.uid,
        attributes.gid,
        attributes.links
    ));
    output.line(&format!(" modified  {}", time_text(attributes.modified)));
    output.line(&format!("  changed  {}", time_text(attributes.changed)));
    output.line(&format!(" accessed  {}", time_text(attributes.accessed)));
    let placement = placement_text(node, server_name);
    output.line(&format!("placement  {placement}"));
}
