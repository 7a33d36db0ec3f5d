//! `causeway fs node`: lists and changes the cluster's nodes, where the cluster's authority is
//! kept.
//!
//! [`authority_directory`] has the authority's directory: its key, the register of signed nodes, and how both are changed.

mod authority_directory;

use std::path::{Path, PathBuf};

use causeway_bmi::nodes::files::{MAX_LISTED, Revoked};
use causeway_bmi::nodes::{
    CLIENT, Certificate, MAX_AUTHORITIES, Member, fingerprint, is_name, member,
};
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::Output;
use causeway_command::remote::unreadable;
use causeway_fs::config::{Configuration, NodesEntry, public_key_digits, read_revoked};
use causeway_report::table::Table;
use causeway_sys::secret::Secret;
use causeway_sys::wall_clock::seconds_since_1970 as now;
use causeway_wire::fs::Timestamp;
use clap::{Args, Subcommand};
use serde_json::json;

use super::new_file::{in_the_way, is_there, replace, write_new};
use super::session::{find, server_names};
use super::text::time_text;
pub(super) use authority_directory::AuthorityDirectory;

/// Most roles of a node.
const MAX_ROLES: usize = causeway_wire::node::MAX_ROLES;

/// Add and revoke nodes, where the cluster's authority is kept
///
/// For file systems whose configuration has `[nodes]` (`causeway fs init --nodes`): each node proves which it is, and may be only what its
/// roles say.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  causeway fs node add node1 --role meta --role io0
  causeway fs node add laptop --role client --days 90
  causeway fs node list
  causeway fs node revoke laptop
  causeway fs node rotate")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a node: write the file that is to be copied to it
    ///
    /// The file holds the node's certificate, which the authority signs, and its key. On the node it has the path that the configuration
    /// names (`node_file`), and mode 600. Send SIGHUP to servers that run there already.
    #[command(after_help = "Examples:
  causeway fs node add node1 --role meta --role io0
  causeway fs node add laptop --role client --days 90 --output /media/stick/causeway.node
  causeway fs node add node1 --renew              # a new key, for the roles that it has")]
    Add {
        /// The node's name
        #[arg(value_name = "NAME")]
        name: String,
        /// Its role: a server of the configuration, by name, or `client`; may be given again
        #[arg(long, value_name = "ROLE")]
        role: Vec<String>,
        /// For how many days [default: without end]
        #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36500))]
        days: Option<u32>,
        /// A new key and certificate for a node that has been added before; the former ones count until they are revoked
        #[arg(long)]
        renew: bool,
        /// Where to write the file [default: NAME.node]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
    },
    /// List the nodes that have been added
    #[command(after_help = "Examples:
  causeway fs node list
  causeway fs node list --json | jq '.nodes[] | select(.state == \"valid\").name'")]
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Revoke a node's certificates
    ///
    /// Writes the list of revoked certificates that the configuration names (`revoked_file`). Copy it to every node, and send SIGHUP to every
    /// server: they then end the node's connections, and make none with it any more.
    #[command(after_help = "Examples:
  causeway fs node revoke laptop
  causeway fs node revoke node1 --former          # all but the newest, when that is in use")]
    Revoke {
        /// The node's name
        #[arg(value_name = "NAME")]
        name: String,
        /// All certificates of the node but the newest
        #[arg(long)]
        former: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Make another key for the authority, and say how to go over to it
    ///
    /// Nothing changes until the configuration lists the new key, beside the former one for as long as nodes have certificates of that.
    #[command(after_help = "Examples:
  causeway fs node rotate")]
    Rotate {
        #[command(flatten)]
        place: Place,
    },
}

/// The directory of the authority, and the configuration that it is for.
#[derive(Debug, Args)]
pub(super) struct Place {
    /// The file system's configuration [default: $CAUSEWAY_CONFIG, ./causeway.toml]
    #[arg(long, short = 'C', value_name = "FILE")]
    config: Option<PathBuf>,
    /// The authority's directory [default: the configuration's path with .authority]
    #[arg(long, value_name = "DIR")]
    authority: Option<PathBuf>,
    /// Print exactly one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// The data that the verbs use.
struct Desk {
    configuration: Configuration,
    nodes: NodesEntry,
    file: PathBuf,
    authority_directory: AuthorityDirectory,
    output: Output,
}

impl Desk {
    fn open(place: &Place) -> Outcome<Self> {
        let file = find(place.config.as_deref())?;
        let configuration = Configuration::load_alone(&file).map_err(unreadable)?;
        let Some(nodes) = configuration.nodes.clone() else {
            let what = format!("reading the configuration {}", file.display());
            let why = "it has no `[nodes]`: all holders of the cluster's key are trusted alike";
            return Err(Failure::usage(what, why)
                .hint("`causeway fs init --nodes` writes a configuration with an authority"));
        };
        let directory = place.authority.clone();
        let directory = directory.unwrap_or_else(|| file.with_extension("authority"));
        Ok(Self {
            authority_directory: AuthorityDirectory::open(&directory)?,
            configuration,
            nodes,
            file,
            output: Output::new(place.json),
        })
    }

    fn revoked(&self) -> Outcome<Revoked> {
        read_revoked(&self.nodes.revoked_file).map_err(unreadable)
    }

    /// Fails if no node would accept the certificates that the authority signs.
    fn check_listed(&self, what: impl FnOnce() -> String) -> Outcome {
        let key = self.authority_directory.public_key();
        if self.nodes.authorities.contains(&key) {
            return Ok(());
        }
        let why = format!(
            "{} does not list the key that the authority has: the node would be refused everywhere",
            self.file.display()
        );
        Err(Failure::usage(what(), why).hint(format!(
            "after `causeway fs node rotate`, first add \"{}\" to `authorities` there and on every node, and send SIGHUP to every server; if the \
             authority is another one, --authority names its directory",
            public_key_digits(&key)
        )))
    }

    /// The roles that the command line names, as the certificate has them.
    fn roles(
        &self,
        name: &str,
        given: &[String],
        former: Option<&Certificate>,
    ) -> Outcome<Vec<String>> {
        let wrong = |why: String| Failure::usage(format!("adding the node {name}"), why);
        let servers = || server_names(&self.configuration.servers);
        let roles = match (given, former) {
            ([], Some(former)) => former.roles.clone(),
            ([], None) => {
                return Err(wrong("it has no role".to_owned()).hint(format!(
                    "give it some: --role {CLIENT}, or a server's name ({})",
                    servers()
                )));
            }
            _ => given.to_vec(),
        };
        for role in &roles {
            if role != CLIENT && self.configuration.server(role).is_none() {
                return Err(wrong(format!(
                    "{role} is neither `{CLIENT}` nor a server of {}",
                    self.file.display()
                ))
                .hint(format!("the servers are {}", servers())));
            }
        }
        match roles.len() <= MAX_ROLES {
            true => Ok(roles),
            false => Err(wrong(format!("a node has at most {MAX_ROLES} roles"))),
        }
    }
}

/// Runs the verb.
pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.verb {
        Verb::Add {
            name,
            role,
            days,
            renew,
            output,
            place,
        } => {
            let to = output.unwrap_or_else(|| PathBuf::from(format!("{name}.node")));
            add(Desk::open(&place)?, &name, &role, days, renew, &to)
        }
        Verb::List { place } => list(&Desk::open(&place)?),
        Verb::Revoke {
            name,
            former,
            place,
        } => revoke(&Desk::open(&place)?, &name, former),
        Verb::Rotate { place } => rotate(Desk::open(&place)?),
    }
}

fn add(
    mut desk: Desk,
    name: &str,
    given: &[String],
    days: Option<u32>,
    renew: bool,
    to: &Path,
) -> Outcome {
    let what = || format!("adding the node {name}");
    if !is_name(name) {
        let why = "a name has 1 to 64 letters, digits, `-`, `_` and `.`, the last not in front";
        return Err(Failure::usage(what(), why));
    }
    let revoked = desk.revoked()?;
    let counts = |known: &&Certificate| known.name == name && !revoked.has(known.serial);
    let former = desk
        .authority_directory
        .certificates()
        .iter()
        .rfind(counts)
        .cloned();
    match (&former, renew) {
        (Some(_), false) => {
            return Err(Failure::usage(what(), "it has been added already").hint(
                "--renew gives it a new key; `causeway fs node revoke` ends the one that it has",
            ));
        }
        (None, true) => {
            return Err(Failure::usage(
                what(),
                "there is no node of this name whose certificate counts",
            )
            .hint("leave --renew out to add it"));
        }
        _ => {}
    }
    let roles = desk.roles(name, given, former.as_ref())?;
    desk.check_listed(what)?;
    if is_there(to) {
        return Err(in_the_way(to).hint("--output names another file"));
    }
    let expires = days.map_or(u64::MAX, |days| now() + u64::from(days) * 86_400);
    let key = Secret::draw().doing(|| "making a random key".to_owned())?;
    let public = member::public_key(&key)
        .ok_or_else(|| Failure::new(what(), "there are no keys of this kind"))?;
    let certificate = desk
        .authority_directory
        .sign(public, name, &roles, expires)?;
    let serial = certificate.serial;
    let member = Member::new(certificate, key)
        .ok_or_else(|| Failure::new(what(), "the certificate is that of another key"))?;
    write_new(to, member.to_text().as_bytes(), 0o600)?;
    let (written, there) = (to.display(), desk.nodes.node_file.display());
    desk.output.line(&format!(
        "wrote {written}: certificate {serial:016x} of node {name} ({}), and its key (keep it secret)",
        roles.join(", ")
    ));
    desk.output.line(&format!(
        "next: move it to {there} on {name}, mode 600, and send SIGHUP to servers that run there"
    ));
    desk.output.object(&json!({
        "node": name, "roles": roles, "serial": format!("{serial:016x}"), "file": to.display().to_string(),
        "expires": days.map(|_| expires) }));
    Ok(())
}

/// The state of a certificate: whether connections with it are accepted.
fn state(desk: &Desk, certificate: &Certificate, revoked: &Revoked) -> &'static str {
    if revoked.has(certificate.serial) {
        "revoked"
    } else if certificate.expires < now() {
        "expired"
    } else if !desk.nodes.authorities.contains(&certificate.authority) {
        "of an authority that the configuration does not list"
    } else {
        "valid"
    }
}

fn list(desk: &Desk) -> Outcome {
    let revoked = desk.revoked()?;
    let mut table = Table::new(&[
        "node",
        "roles",
        "certificate",
        "authority",
        "until",
        "state",
    ]);
    let mut objects = Vec::new();
    for certificate in desk.authority_directory.certificates() {
        let Certificate {
            name,
            roles,
            serial,
            expires,
            authority,
            ..
        } = certificate;
        let until = (*expires != u64::MAX).then_some(*expires);
        let state = state(desk, certificate, &revoked);
        table.row(vec![
            name.clone(),
            roles.join(" "),
            format!("{serial:016x}"),
            fingerprint(authority),
            until.map_or_else(|| "-".to_owned(), date),
            state.to_owned(),
        ]);
        objects.push(json!({
            "name": name, "roles": roles, "serial": format!("{serial:016x}"), "authority": public_key_digits(authority),
            "expires": until, "state": state }));
    }
    desk.output.line(&table.text());
    desk.output.object(&json!({ "nodes": objects }));
    Ok(())
}

fn date(seconds: u64) -> String {
    time_text(Timestamp {
        seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        nanoseconds: 0,
    })
}

fn revoke(desk: &Desk, name: &str, former: bool) -> Outcome {
    let mut revoked = desk.revoked()?;
    let of_name = desk
        .authority_directory
        .certificates()
        .iter()
        .filter(|one| one.name == name);
    let mut serials: Vec<u64> = of_name.map(|one| one.serial).collect();
    if former {
        serials.pop();
    }
    serials.retain(|serial| !revoked.has(*serial));
    if serials.is_empty() {
        let why = match former {
            true => "it has no former certificate that still counts",
            false => "no certificate of a node of this name counts",
        };
        return Err(Failure::new(format!("revoking the node {name}"), why)
            .hint("`causeway fs node list` shows all"));
    }
    if revoked.entries.len() + serials.len() > MAX_LISTED {
        let what = format!("revoking the node {name}");
        let why = format!("the list of revoked certificates has at most {MAX_LISTED}");
        return Err(Failure::new(what, why).hint(
            "`causeway fs node rotate` makes another key for the authority: when all nodes have certificates of it, nothing of the former one \
             counts, and its serials can be taken out of the list",
        ));
    }
    let entries = serials.iter().map(|serial| (*serial, name.to_owned()));
    revoked.entries.extend(entries);
    let file = &desk.nodes.revoked_file;
    replace(file, revoked.to_text().as_bytes(), 0o644)?;
    let shown: Vec<String> = serials
        .iter()
        .map(|serial| format!("{serial:016x}"))
        .collect();
    desk.output.line(&format!(
        "revoked the certificates {} of node {name} in {}",
        shown.join(", "),
        file.display()
    ));
    desk.output.line(
        "next: copy that file to every node, and send SIGHUP to every server, agent and mount, which otherwise goes on accepting the certificates",
    );
    desk.output.object(&json!({
        "node": name, "serials": shown, "file": file.display().to_string() }));
    Ok(())
}

fn rotate(mut desk: Desk) -> Outcome {
    if desk.nodes.authorities.len() >= MAX_AUTHORITIES {
        let why = format!(
            "{} lists {MAX_AUTHORITIES} authorities already, the most that count at one time",
            desk.file.display()
        );
        let what = "making another key for the authority";
        return Err(Failure::usage(what.to_owned(), why).hint(
            "take those out of which no node has a certificate any more (`causeway fs node list`)",
        ));
    }
    desk.authority_directory.rotate()?;
    let new = desk.authority_directory.public_key();
    let both = desk.nodes.authorities.iter().chain([&new]);
    let both: Vec<String> = both
        .map(|key| format!("\"{}\"", public_key_digits(key)))
        .collect();
    let line = |authorities: &[String]| format!("  authorities = [{}]", authorities.join(", "));
    let output = &desk.output;
    output.line(&format!(
        "the authority has a new key, {}",
        public_key_digits(&new)
    ));
    output.line(&format!(
        "next: 1. in {} on every node, in `[nodes]`, put",
        desk.file.display()
    ));
    output.line(&line(&both));
    output.line("   and send SIGHUP to every server");
    output.line("2. for each node, run `causeway fs node add NAME --renew`, move the file there, and send SIGHUP to its servers");
    output.line("3. when `causeway fs node list` shows a certificate of the new authority for all, put on every node");
    output.line(&line(&[format!("\"{}\"", public_key_digits(&new))]));
    output.line("   and send SIGHUP to every server");
    output.object(&json!({ "authority": public_key_digits(&new) }));
    Ok(())
}
