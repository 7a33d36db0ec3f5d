//! `causeway fs init`: a configuration from a list of hosts.

use std::path::{Path, PathBuf};

use causeway_bmi::nodes::Authority;
use causeway_bmi::nodes::files::Revoked;
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::Output;
use causeway_fs::config::{Configuration, Durability, Host, NodesEntry};
use causeway_fs::dev::random_identity;
use causeway_sys::secret::Secret;
use clap::{Args, ValueEnum};
use serde_json::json;

use super::new_file::{in_the_way, is_there, replace, write_new};
use super::node::AuthorityDirectory;

/// Write the configuration of a new file system, and its keys
///
/// One I/O server for each host, and the metadata server on the first one unless told otherwise.
/// Copy the configuration and the cluster's key to every node, and the servers' key to the nodes of servers alone; then start each server with `causeway fs serve --format`, and later without
/// --format.
///
/// All holders of the key trust each other, whatever they hold it for: each can act for every user, and pose as any server. With --nodes, each
/// node proves which it is by a key of its own, which an authority signs that this command makes, and may be only what its roles say.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs init node1 node2 node3 node4
  causeway fs init node1:7500 node2:7500 --dir /srv/causeway --metadata node0
  causeway fs init 10.0.0.1 10.0.0.2 --output /etc/causeway.toml --key-file /etc/causeway.key
  causeway fs init node1 node2 --nodes --output /etc/causeway.toml    # then: causeway fs node add")]
pub(crate) struct Arguments {
    /// The hosts that store data, each as HOST or HOST:PORT
    #[arg(required = true, value_name = "HOST")]
    hosts: Vec<Host>,
    /// Where each host keeps its part, an absolute path
    #[arg(long, value_name = "DIR", default_value = "/var/lib/causeway")]
    dir: PathBuf,
    /// The host that keeps the metadata [default: the first one]
    #[arg(long, value_name = "HOST")]
    metadata: Option<Host>,
    /// A name for people
    #[arg(long, value_name = "NAME", default_value = "causeway")]
    name: String,
    /// What an acknowledgement guarantees
    #[arg(long, value_enum, default_value_t = Promise::Synced)]
    durability: Promise,
    /// Where to write the configuration
    #[arg(long, short, value_name = "FILE", default_value = "causeway.toml")]
    output: PathBuf,
    /// Where to write the cluster's key; the configuration names this path on every node [default:
    /// the configuration's path with .key]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Where to write the key that only servers hold; the configuration names this path on every server's node [default:
    /// the configuration's path with .servers.key]
    #[arg(long, value_name = "FILE")]
    server_key_file: Option<PathBuf>,
    /// Make an authority, and have each node prove which it is
    #[arg(long)]
    nodes: bool,
    /// With --nodes: where to make the authority, a directory that stays on this host [default: the configuration's path with .authority]
    #[arg(long, value_name = "DIR", requires = "nodes")]
    authority: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// `--durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Promise {
    /// Acknowledged creates, renames, removals and fsyncs survive power loss
    Synced,
    /// What was acknowledged survives the death of any process
    Relaxed,
}

impl From<Promise> for Durability {
    fn from(promise: Promise) -> Self {
        match promise {
            Promise::Synced => Self::Synced,
            Promise::Relaxed => Self::Relaxed,
        }
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    let output = Output::new(arguments.json);
    let wrong = |why: String| Failure::usage("writing a configuration", why);
    let key_file = arguments
        .key_file
        .clone()
        .unwrap_or_else(|| arguments.output.with_extension("key"));
    let key_path = std::path::absolute(&key_file)
        .doing(|| format!("finding the place of {}", key_file.display()))?;
    let mut configuration = Configuration::from_hosts(
        &arguments.name,
        random_identity().doing(|| "making a random identity".to_owned())?,
        &arguments.hosts,
        &arguments.dir,
        Some(&key_path),
    )
    .map_err(wrong)?;
    configuration.durability = arguments.durability.into();
    let server_key_file = arguments
        .server_key_file
        .clone()
        .unwrap_or_else(|| arguments.output.with_extension("servers.key"));
    let server_key_path = std::path::absolute(&server_key_file)
        .doing(|| format!("finding the place of {}", server_key_file.display()))?;
    configuration.access.server_key_file = Some(server_key_path);
    if let Some(host) = &arguments.metadata {
        move_metadata(&mut configuration, host, &arguments.hosts);
    }
    let made = match arguments.nodes {
        true => Some(NewAuthority::draw(&arguments)?),
        false => None,
    };
    let nodes = made.as_ref().map(|made| made.entry.clone());
    configuration.nodes = nodes.clone();
    let revoked_file = nodes.as_ref().map(|nodes| &nodes.revoked_file);
    let mut files = [&arguments.output, &key_file, &server_key_file]
        .into_iter()
        .chain(revoked_file);
    if !arguments.force
        && let Some(there) = files.find(|file| is_there(file))
    {
        return Err(in_the_way(there).hint(FORCE));
    }
    let text = configuration.to_toml();
    // The text must read back as it was written: a bad host name that was not noticed before is an error here.
    Configuration::parse(&text, &arguments.output.display().to_string())
        .map_err(|error| wrong(error.message))?;
    // Before anything else: it replaces nothing.
    if let Some(made) = &made {
        AuthorityDirectory::create(&made.directory, &made.authority)?;
    }
    let write = |path: &Path, content: &[u8], mode| match arguments.force {
        true => replace(path, content, mode),
        false => write_new(path, content, mode).map_err(|failure| match is_there(path) {
            true => failure.hint(FORCE),
            false => failure,
        }),
    };
    if let Some(nodes) = &nodes {
        let none = Revoked::default().to_text();
        write(&nodes.revoked_file, none.as_bytes(), 0o644)?;
    }
    for file in [&key_file, &server_key_file] {
        let key = Secret::draw().doing(|| "making a random key".to_owned())?;
        write(file, &[key.digits().as_bytes(), b"\n"].concat(), 0o600)?;
    }
    write(&arguments.output, text.as_bytes(), 0o644)?;
    let names: Vec<&str> = configuration
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    output.line(&format!(
        "wrote {} ({} servers: {}), {} and {} (keep both secret)",
        arguments.output.display(),
        names.len(),
        names.join(", "),
        key_file.display(),
        server_key_file.display()
    ));
    match &nodes {
        None => output.line(&format!(
            "next: copy {} and {} to the same paths on every node, and {} to the nodes of servers, to no others; then on each of \
             these run",
            arguments.output.display(),
            key_file.display(),
            server_key_file.display()
        )),
        Some(nodes) => {
            output.line(&format!(
                "wrote {}, and an authority that stays here; add nodes with the names of the servers that they run, such as",
                nodes.revoked_file.display()
            ));
            output.line(&format!(
                "  causeway fs node add NODE --config {} --role {}",
                arguments.output.display(),
                names.join(" --role ")
            ));
            output.line(&format!(
                "next: copy these files to the same paths on every node ({} to those of servers alone), each node's own file to {}; then \
                 on each run",
                server_key_file.display(),
                nodes.node_file.display()
            ));
        }
    }
    output.line(&format!(
        "  causeway fs serve --config {} --server NAME --format",
        arguments.output.display()
    ));
    output.line("and from then on the same without --format");
    output.object(&json!({
        "config": arguments.output.display().to_string(),
        "key_file": key_file.display().to_string(),
        "server_key_file": server_key_file.display().to_string(),
        "servers": names }));
    Ok(())
}

/// The remedy for files that exist already.
const FORCE: &str = "use --force to replace it, or --output to write elsewhere";

/// An authority that is not in its directory yet.
struct NewAuthority {
    authority: Authority,
    directory: PathBuf,
    /// The entry for it in the configuration.
    entry: NodesEntry,
}

impl NewAuthority {
    fn draw(arguments: &Arguments) -> Outcome<Self> {
        let output = std::path::absolute(&arguments.output)
            .doing(|| format!("finding the place of {}", arguments.output.display()))?;
        let directory = arguments.authority.clone();
        let authority = Authority::draw().doing(|| "making a random key".to_owned())?;
        Ok(Self {
            directory: directory.unwrap_or_else(|| output.with_extension("authority")),
            entry: NodesEntry::new(
                vec![authority.public_key()],
                output.with_extension("node"),
                output.with_extension("revoked"),
            ),
            authority,
        })
    }
}

/// Puts the metadata server on `host`, beside its I/O server or on another host.
fn move_metadata(configuration: &mut Configuration, host: &Host, io_hosts: &[Host]) {
    let mut port = host.port;
    while io_hosts
        .iter()
        .any(|other| other.name == host.name && other.port == port)
    {
        port = port.checked_add(1).unwrap_or(1024);
    }
    for server in configuration
        .servers
        .iter_mut()
        .filter(|server| server.metadata)
    {
        for address in &mut server.addresses {
            if address.starts_with("tcp://") {
                *address = format!("tcp://{}:{port}", host.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_moves_beside_or_elsewhere() {
        let hosts: Vec<Host> = ["a", "b"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let make = || Configuration::from_hosts("x", 1, &hosts, Path::new("/srv"), None).unwrap();
        let address = |configuration: &Configuration| {
            let server = configuration
                .servers
                .iter()
                .find(|server| server.metadata)
                .unwrap();
            server
                .addresses
                .iter()
                .find(|text| text.starts_with("tcp"))
                .unwrap()
                .clone()
        };
        let mut elsewhere = make();
        move_metadata(&mut elsewhere, &"m:9000".parse().unwrap(), &hosts);
        assert_eq!(address(&elsewhere), "tcp://m:9000");
        let mut beside = make();
        move_metadata(&mut beside, &hosts[1], &hosts);
        assert_eq!(address(&beside), format!("tcp://b:{}", hosts[1].port + 1));
    }
}
