//! `causeway fs ls`: the entries of a directory.

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::{Output, json_name, printable};
use causeway_command::remote::each_entry;
use causeway_fs::client::Client;
use causeway_report::style::{Style, paint};
use causeway_report::units::bytes_text;
use causeway_watch::text::date_and_time;
use causeway_wire::fs::{Attributes, Kind};
use clap::Args;
use serde_json::{Value, json};

use crate::fs::engine::{conclude, each_operand};
use crate::fs::session::{RemotePath, Session, Target, or_root, remote_path};
use crate::fs::text::{attributes_json, mode_text};
use crate::fs::tree::{is_directory, walk};

/// List directories
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs ls
  causeway fs ls -l /data
  causeway fs ls -R /data | wc -l
  causeway fs ls --json /data | jq '.entries[] | select(.size_bytes > 1e9) | .name'")]
pub(crate) struct Arguments {
    /// Directories or files [default: /]
    #[arg(value_name = "PATH", value_parser = remote_path())]
    paths: Vec<RemotePath>,
    /// Show mode, links, owner, size and time of each entry
    #[arg(long, short)]
    long: bool,
    /// Go into directories; paths are shown whole
    #[arg(long, short = 'R')]
    recursive: bool,
    /// Show a directory itself instead of its entries
    #[arg(long, short)]
    directory: bool,
    #[command(flatten)]
    target: Target,
}

struct Listing {
    output: Output,
    long: bool,
    entries: Vec<Value>,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let mut client = session.client()?;
    let mut listing = Listing {
        output: session.output,
        long: arguments.long,
        entries: Vec::new(),
    };
    let paths = or_root(&arguments.paths);
    let failures = each_operand(paths.iter(), |path| {
        if paths.len() > 1 && !arguments.recursive && !arguments.directory {
            session.output.named_line("", &path.0, ":");
        }
        list(&mut client, &mut listing, path, &arguments)
    });
    session
        .output
        .object(&json!({ "entries": listing.entries, "failures": failures }));
    conclude(failures)
}

fn list(
    client: &mut Client,
    listing: &mut Listing,
    path: &RemotePath,
    arguments: &Arguments,
) -> Outcome {
    let node = client.stat(&path.0, true)?;
    let path = path.trimmed();
    if arguments.directory || !is_directory(&node) {
        listing.show("name", &path, &node.attributes);
        return Ok(());
    }
    if arguments.recursive {
        return walk(client, &path, &node, &mut |_, visited| {
            if !visited.leaving && visited.path != path {
                listing.show("path", visited.path, &visited.attributes);
            }
            Ok(())
        });
    }
    let mut unknown = 0;
    each_entry(client, (node.object, &path), |_, entry| {
        match &entry.attributes {
            Some(attributes) => listing.show("name", &entry.name, attributes),
            None => {
                listing.output.named_line("", &entry.name, "");
                unknown += 1;
            }
        }
        Ok(())
    })?;
    match unknown {
        0 => Ok(()),
        count => Err(Failure::new(
            format!("reading attributes in {}", printable(&path)),
            format!("{count} entries: the directory may be read but not searched"),
        )
        .hint("ask its owner for the right to search it")),
    }
}

impl Listing {
    fn show(&mut self, key: &str, name: &[u8], attributes: &Attributes) {
        if self.output.json {
            let mut object = attributes_json(attributes);
            json_name(&mut object, key, name);
            self.entries.push(Value::Object(object));
            return;
        }
        let before = if self.long {
            long_text(attributes)
        } else {
            String::new()
        };
        let after = match attributes.kind {
            Kind::Directory if self.output.terminal => "/",
            _ => "",
        };
        let style = match attributes.kind {
            Kind::Directory => Some(Style::Blue),
            Kind::SymbolicLink => Some(Style::Yellow),
            _ => None,
        };
        match style.filter(|_| self.output.terminal) {
            None => self.output.named_line(&before, name, after),
            Some(style) => {
                let shown = paint(&printable(name), style);
                self.output.line(&format!("{before}{shown}{after}"));
            }
        }
    }
}

fn long_text(attributes: &Attributes) -> String {
    let size = match attributes.kind {
        Kind::Directory => format!("{} in", attributes.size),
        _ => bytes_text(attributes.size),
    };
    format!(
        "{} {:>3} {:>5} {:>5} {size:>10} {} ",
        mode_text(attributes.kind, attributes.mode),
        attributes.links,
        attributes.uid,
        attributes.gid,
        date_and_time(attributes.modified.seconds)
    )
}
