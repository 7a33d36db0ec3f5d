//! `causeway fs servers`: which I/O servers the file system consists of, and changes of that.

use std::time::{Duration, Instant};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::escaped;
use causeway_fs::client::{Client, Layout};
use causeway_report::table::Table;
use causeway_wire::fs::{Generation, ObjectId};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::fs::session::{Session, Target};

/// How often the layout is polled while the metadata server is about to register a server.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Show or change which I/O servers the file system consists of
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs servers list
  causeway fs servers add io4
  causeway fs servers drain io0
  causeway fs servers accept io2")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the I/O servers by their numbers in the file system
    #[command(after_help = "Examples:
  causeway fs servers list
  causeway fs servers list --json | jq .servers[].name")]
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Add an I/O server, which new files use from then on
    ///
    /// First write its entry into the configuration, on all nodes; restart the metadata server; and start the new
    /// server with `causeway fs serve --server NAME --format`. Files that exist stay where they are. A server that
    /// was drained is used again.
    #[command(after_help = "Examples:
  causeway fs servers add io4")]
    Add {
        #[command(flatten)]
        server: Named,
    },
    /// Keep new files from an I/O server
    ///
    /// Files that exist stay there, and can be used; says how many those are. To move one, copy it (`causeway fs cp`)
    /// and give the copy its name. Once there are none, the server may be stopped. `servers add` takes it into use
    /// again.
    #[command(after_help = "Examples:
  causeway fs servers drain io0
  causeway fs servers drain io0 --json | jq .files")]
    Drain {
        #[command(flatten)]
        server: Named,
    },
    /// Let the directory that a server has now take the place of the one that it had
    ///
    /// For a server whose disk is lost: what the old directory held is gone for good, and reading it fails. Do not do
    /// this if the old directory can be mounted or restored.
    #[command(after_help = "Examples:
  causeway fs serve --server io2 --format     # on its host, in an empty directory
  causeway fs servers accept io2")]
    Accept {
        #[command(flatten)]
        server: Named,
    },
}

#[derive(Debug, Args)]
struct Named {
    /// The server's name in the configuration
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    target: Target,
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.verb {
        Verb::List { target } => show(&target),
        Verb::Add { server } => register(&server, |client, _| client.add_server(&server.name)),
        Verb::Drain { server } => drain(&server),
        Verb::Accept { server } => register(&server, |client, generation| {
            client.accept_server(&server.name, generation)
        }),
    }
}

/// Has the metadata server register a server, by a request that names the generation of its directory.
fn register(
    server: &Named,
    request: impl FnOnce(&mut Client, Generation) -> Result<(), causeway_fs::Error>,
) -> Outcome {
    let session = Session::open(&server.target)?;
    let mut client = session.client()?;
    let generation = found(&session, &mut client, &server.name)?;
    request(&mut client, generation)?;
    finish(&session, &mut client, &server.name, generation)
}

fn drain(server: &Named) -> Outcome {
    let session = Session::open(&server.target)?;
    let mut client = session.client()?;
    let name = &server.name;
    client.drain_server(name)?;
    let layout = client.layout()?;
    let mut files = 0;
    if let Some(server) = layout.named(name) {
        let mut next = Some(ObjectId(0));
        while let Some(after) = next {
            let (count, behind) = client.files_on(server.index, after)?;
            files += count;
            next = behind;
        }
    }
    session.output.line(&format!(
        "new files do not use server {name} any more; {files} files have data there"
    ));
    session
        .output
        .object(&json!({ "server": name, "files": files }));
    Ok(())
}

/// The generation in the directory of the server that is at the configured address.
fn found(session: &Session, client: &mut Client, name: &str) -> Outcome<Generation> {
    let index = session.find_server(name, true)?;
    let identity = client.ping(index)?.identity;
    if identity.name != name || identity.file_system != session.configuration.id {
        return Err(Failure::new(
            format!("finding the server {name}"),
            format!(
                "at its address is server {} of file system {:032x}, not server {name} of file system {:032x}",
                escaped(&identity.name),
                identity.file_system,
                session.configuration.id
            ),
        )
        .hint("correct the names or the addresses in the configuration"));
    }
    Ok(identity.generation)
}

/// Waits until the metadata server has registered the server.
fn finish(session: &Session, client: &mut Client, name: &str, generation: Generation) -> Outcome {
    let until = Instant::now() + session.configuration.timeout;
    loop {
        let layout = client.layout()?;
        if let Some(server) = layout.named(name)
            && server.generation == generation
            && is_enrolled(session, client, &layout, name)
        {
            session.output.line(&format!(
                "server {name} is number {} of the file system (generation {generation})",
                server.index
            ));
            session.output.object(&json!({
                "server": name, "index": server.index, "generation": generation.to_string() }));
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(Failure::new(
                format!("waiting for the metadata server to register server {name}"),
                format!(
                    "the metadata server has not registered it within {} s",
                    session.configuration.timeout.as_secs_f64()
                ),
            )
            .hint("the metadata server's log has the reason"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Whether an I/O server has been enrolled in the file system's metadata.
fn is_enrolled(session: &Session, client: &mut Client, layout: &Layout, name: &str) -> bool {
    let found = session.configuration.server(name);
    found.is_some_and(|(index, _)| {
        client.ping(index).is_ok_and(|greeting| {
            greeting.identity.index.is_some() && greeting.identity.incarnation == layout.incarnation
        })
    })
}

/// A server's state in the file system.
fn state(session: &Session, client: &mut Client, layout: &Layout, name: &str) -> (bool, String) {
    let known = layout.named(name);
    let Some((index, _)) = session.configuration.server(name) else {
        return (false, "no entry in the configuration".to_owned());
    };
    match known {
        None => (false, "not part of the file system".to_owned()),
        Some(server) if server.generation.is_none() => (false, "not registered yet".to_owned()),
        Some(server) => match client.verify(index) {
            Ok(()) if server.active => (true, "in use".to_owned()),
            Ok(()) => (true, "drained: new files do not use it".to_owned()),
            Err(error) => (false, escaped(&error.message)),
        },
    }
}

fn show(target: &Target) -> Outcome {
    let session = Session::open(target)?;
    let mut client = session.client()?;
    let layout = client.layout()?;
    let mut table = Table::new(&["number", "server", "generation", "state"]);
    table.align_right(&[0]);
    let mut objects = Vec::new();
    let mut wrong = 0;
    let strangers = session
        .configuration
        .io_names()
        .into_iter()
        .filter(|name| layout.named(name).is_none());
    let names = layout.servers.iter().map(|server| server.name.clone());
    for name in names.chain(strangers) {
        let (ok, state) = state(&session, &mut client, &layout, &name);
        wrong += u64::from(!ok);
        let known = layout.named(&name);
        let generation = known.map(|server| server.generation.to_string());
        objects.push(json!({
            "server": name, "ok": ok, "index": known.map(|server| server.index),
            "generation": generation, "active": known.is_some_and(|server| server.active),
            "state": state }));
        table.row(vec![
            known.map_or_else(String::new, |server| server.index.to_string()),
            name,
            generation.unwrap_or_default(),
            state,
        ]);
    }
    session.output.line(&table.text());
    session.output.object(&json!({
        "epoch": layout.epoch, "incarnation": layout.incarnation.to_string(), "servers": objects }));
    crate::fs::engine::conclude(wrong)
}
