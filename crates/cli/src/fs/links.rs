//! `causeway fs ln`: symbolic and hard links.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Args;
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::fs::session::{RemotePath, Session, Target, base_name, join, remote_path};
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
    #[arg(value_name = "NEW", value_parser = remote_path())]
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
    if !arguments.symbolic && existing.first() != Some(&b'/') {
        return Err(Failure::usage(
            format!("linking {}", crate::output::printable(&existing)),
            "paths in the file system begin with a slash, like /data/file",
        ));
    }
    let mut client = session.client()?;
    let mut new = arguments.new.trimmed();
    if client
        .stat(&new, true)
        .is_ok_and(|node| is_directory(&node))
    {
        new = join(&new, base_name(&existing));
    }
    let node = match arguments.symbolic {
        true => client.symbolic_link(&existing, &new)?,
        false => client.hard_link(&existing, &new)?,
    };
    session
        .output
        .object(&json!({ "object": node.object.0, "links": node.attributes.links }));
    Ok(())
}
