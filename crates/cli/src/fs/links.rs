//! `causeway fs ln`: symbolic and hard links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::printable;
use causeway_command::remote::{base_name, is_missing, join};
use clap::Args;
use serde_json::json;

use crate::fs::session::{RemotePath, Session, Target, remote_name};
use crate::fs::source::with_current;
use crate::fs::text::object_json;
use crate::fs::tree::is_directory;

/// Give a file one more name, or make a symbolic link
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs ln /data/a.bin /data/b.bin
  causeway fs ln -s run-42 /runs/latest")]
pub(crate) struct Arguments {
    /// The existing file; with -s, any text
    #[arg(value_name = "EXISTING")]
    existing: OsString,
    /// The new name, or an existing directory
    #[arg(value_name = "NEW", value_parser = remote_name())]
    new: RemotePath,
    /// Make a symbolic link
    #[arg(long, short)]
    symbolic: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let session = Session::open(&arguments.target)?;
    let existing = arguments.existing.into_vec();
    let what = format!("linking {}", printable(&existing));
    if !arguments.symbolic && existing.first() != Some(&b'/') {
        return Err(Failure::usage(
            what,
            "paths in the file system begin with a slash, like /data/file",
        ));
    }
    let mut client = session.client()?;
    let mut new = arguments.new.0;
    match client.stat(&new, true) {
        Ok(node) if is_directory(&node) => {
            let name = base_name(&existing);
            if matches!(name, b"" | b"." | b"..") {
                return Err(Failure::usage(
                    what,
                    "the path ends in no name that the link could have in the directory",
                )
                .hint("write the link's own name too"));
            }
            new = join(&new, name);
        }
        Ok(_) => {}
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(error.into()),
    }
    if !arguments.symbolic && is_directory(&client.stat(&existing, false)?) {
        return Err(Failure::new(
            what,
            "the object is a directory, and those have one name only",
        )
        .hint("make a symbolic link with `causeway fs ln -s`"));
    }
    let node = match arguments.symbolic {
        true => client.symbolic_link(&existing, &new)?,
        false => with_current(&existing, || client.hard_link(&existing, &new))?,
    };
    session
        .output
        .object(&json!({ "object": object_json(node.object), "links": node.attributes.links }));
    Ok(())
}
