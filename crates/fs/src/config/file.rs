//! Reads a configuration's text and checks it; every error has its line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use causeway_bmi::nodes::MAX_AUTHORITIES;
use causeway_wire::fs::{DistributionHint, MAX_STRIPE_SERVERS, MAX_STUFFED_BYTES};
use causeway_wire::tcp::MAX_CONNECTIONS;
use serde::Deserialize;
use toml::Spanned;

use super::access::{self, AccessText};
use super::id_text::{self, IdText};
use super::ids::{IdRules, Kind, NodeLimits};
use super::leases::{self, LeasesText};
use super::nodes::{self, NodesEntry};
use super::source::{Source, check_key_file};
use super::types::{
    CapabilityRule, ConfigError, Configuration, DEFAULT_OPEN_FILES, DEFAULT_STRIP_SIZE,
    DEFAULT_TIMEOUT, Durability, MAX_SERVERS, ServerEntry,
};
use super::unit_text::{UnitText, duration_within};

/// Longest path of a Unix socket that the kernel accepts, in bytes, with room for a suffix.
const MAX_SOCKET_PATH: usize = 104;
/// Shortest and longest timeout that make sense.
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// Fewest and most files that one program may have open.
const OPEN_FILES: std::ops::RangeInclusive<usize> = 1..=1 << 22;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    name: Spanned<String>,
    id: Spanned<String>,
    durability: Option<Spanned<String>>,
    timeout: Option<Spanned<UnitText>>,
    key_file: Option<Spanned<PathBuf>>,
    encrypt: Option<bool>,
    checksums: Option<bool>,
    tcp_connections: Option<Spanned<u64>>,
    open_files: Option<Spanned<u64>>,
    distribution: Option<DistributionText>,
    access: Option<AccessText>,
    agent: Option<AgentText>,
    leases: Option<LeasesText>,
    nodes: Option<Spanned<NodesText>>,
    #[serde(default)]
    server: Vec<Spanned<ServerText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DistributionText {
    strip_size: Option<Spanned<UnitText>>,
    servers: Option<Spanned<u64>>,
    start: Option<Spanned<u64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentText {
    socket: Spanned<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodesText {
    authorities: Spanned<Vec<Spanned<String>>>,
    node_file: Spanned<PathBuf>,
    revoked_file: Spanned<PathBuf>,
    uids: Option<IdsText>,
    gids: Option<IdsText>,
}

/// For each node, the numbers for which it may speak.
type IdsText = BTreeMap<String, Spanned<Vec<Spanned<IdText>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerText {
    name: Spanned<String>,
    roles: Spanned<Vec<Spanned<String>>>,
    addresses: Spanned<Vec<Spanned<String>>>,
    directory: Spanned<PathBuf>,
}

/// Returns the configuration and the line of its key file (0 without one).
pub(super) fn parse(text: &str, file: &str) -> Result<(Configuration, usize), ConfigError> {
    let source = Source { text, file };
    let raw: FileText = toml::from_str(text).map_err(|error| ConfigError {
        file: file.to_owned(),
        line: error.span().map_or(0, |span| source.line(&span)),
        message: error.message().to_owned(),
        errno: None,
    })?;
    let servers = servers(&source, &raw.server)?;
    let io_servers = servers.iter().filter(|server| server.io).count();
    let key_line = raw
        .key_file
        .as_ref()
        .map_or(0, |key_file| source.line(&key_file.span()));
    if let Some(key_file) = &raw.key_file {
        check_key_file(&source, key_file)?;
    }
    let nodes = raw.nodes.as_ref();
    let nodes = nodes.map(|text| nodes_entry(&source, text, raw.key_file.is_some(), &servers));
    let access = access::rules(&source, raw.access)?;
    if access.capabilities == CapabilityRule::Off {
        refuse_without_capabilities(&source, raw.agent.as_ref(), raw.nodes.as_ref())?;
    }
    let configuration = Configuration {
        agent_socket: agent_socket(&source, raw.agent, raw.key_file.is_some())?,
        nodes: nodes.transpose()?,
        name: name(&source, &raw.name, "a file system's")?,
        id: identity(&source, &raw.id)?,
        durability: durability(&source, raw.durability.as_ref())?,
        timeout: duration_within(
            &source,
            raw.timeout.as_ref(),
            DEFAULT_TIMEOUT,
            &TIMEOUTS,
            "a timeout",
        )?,
        distribution: distribution(&source, raw.distribution.as_ref(), io_servers)?,
        key_file: raw.key_file.map(Spanned::into_inner),
        encrypt: raw.encrypt.unwrap_or(true),
        checksums: raw.checksums.unwrap_or(true),
        tcp_connections: tcp_connections(&source, raw.tcp_connections.as_ref())?,
        access,
        leases: leases::time(&source, raw.leases)?,
        open_files: open_files(&source, raw.open_files.as_ref())?,
        servers,
    };
    Ok((configuration, key_line))
}

/// Refuses an agent, or rules about users and groups, without capabilities: only capabilities
/// confine a connection or a node to certain users.
fn refuse_without_capabilities(
    source: &Source<'_>,
    agent: Option<&AgentText>,
    nodes: Option<&Spanned<NodesText>>,
) -> Result<(), ConfigError> {
    let ruled = nodes.filter(|nodes| {
        let text = nodes.get_ref();
        text.uids.is_some() || text.gids.is_some()
    });
    let (span, what) = match (agent, ruled) {
        (Some(agent), _) => (agent.socket.span(), "`[agent]`"),
        (None, Some(nodes)) => (nodes.span(), "a rule about nodes (`uids` or `gids`)"),
        (None, None) => return Ok(()),
    };
    let message = format!(
        "{what} needs capabilities, by which I/O servers know what a user may read and write: remove `capabilities = \"off\"`"
    );
    Err(source.error(&span, message))
}

fn agent_socket(
    source: &Source<'_>,
    text: Option<AgentText>,
    has_key: bool,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(AgentText { socket }) = text else {
        return Ok(None);
    };
    if !has_key {
        return Err(source.error(
            &socket.span(),
            "`[agent]` needs a `key_file`: agents speak for users who may not read that",
        ));
    }
    match socket.get_ref().is_absolute() {
        true => Ok(Some(socket.into_inner())),
        false => Err(source.error(
            &socket.span(),
            "the socket's path is relative; it must be absolute, as every node uses it",
        )),
    }
}

fn nodes_entry(
    source: &Source<'_>,
    text: &Spanned<NodesText>,
    has_key: bool,
    servers: &[ServerEntry],
) -> Result<NodesEntry, ConfigError> {
    if !has_key {
        return Err(source.error(
            &text.span(),
            "`[nodes]` needs a `key_file`, too: without the cluster's key, strangers could have every server compute",
        ));
    }
    if let Some(server) = servers
        .iter()
        .find(|server| nodes::is_reserved(&server.name))
    {
        let message = format!(
            "no server may be named `{}` beside `[nodes]`: it is the role of clients",
            server.name
        );
        return Err(source.error(&text.span(), message));
    }
    let text = text.get_ref();
    for path in [&text.node_file, &text.revoked_file] {
        if !path.get_ref().is_absolute() {
            return Err(source.error(
                &path.span(),
                "the file's path is relative; it must be absolute, as every node uses it",
            ));
        }
    }
    let listed = &text.authorities;
    if !(1..=MAX_AUTHORITIES).contains(&listed.get_ref().len()) {
        let message = format!("1 to {MAX_AUTHORITIES} authorities are needed");
        return Err(source.error(&listed.span(), message));
    }
    let key = |digits: &Spanned<String>| {
        let message = "an authority is the 64 hexadecimal digits of its public key: `causeway fs init --nodes` and `causeway fs node \
             rotate` print them";
        nodes::parse_public_key(digits.get_ref())
            .ok_or_else(|| source.error(&digits.span(), message))
    };
    let authorities = listed.get_ref().iter().map(key);
    let entry = NodesEntry::new(
        authorities.collect::<Result<_, _>>()?,
        text.node_file.get_ref().clone(),
        text.revoked_file.get_ref().clone(),
    );
    let rules = |kind, text: Option<&IdsText>| {
        text.map_or_else(
            || Ok(IdRules::none(kind)),
            |text| id_text::rules(source, kind, text),
        )
    };
    entry.set_limits(Arc::new(NodeLimits {
        uids: rules(Kind::Users, text.uids.as_ref())?,
        gids: rules(Kind::Groups, text.gids.as_ref())?,
    }));
    Ok(entry)
}

fn name(source: &Source<'_>, name: &Spanned<String>, whose: &str) -> Result<String, ConfigError> {
    let text = name.get_ref();
    let well_formed = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !text.starts_with('.');
    if !well_formed {
        return Err(source.error(
            &name.span(),
            format!(
                "`{text}` cannot be {whose} name: 1 to 64 letters, digits, `-`, `_` and `.` \
                 (not in front) are allowed"
            ),
        ));
    }
    Ok(text.clone())
}

fn identity(source: &Source<'_>, id: &Spanned<String>) -> Result<u128, ConfigError> {
    let text = id.get_ref();
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(text, 16)
        .ok()
        .filter(|&id| digits && id != 0)
        .ok_or_else(|| {
            source.error(
                &id.span(),
                "the identity must be 32 hexadecimal digits, not all zero; \
                 `causeway fs init` makes one",
            )
        })
}

fn durability(
    source: &Source<'_>,
    text: Option<&Spanned<String>>,
) -> Result<Durability, ConfigError> {
    let Some(text) = text else {
        return Ok(Durability::Synced);
    };
    match text.get_ref().as_str() {
        "synced" => Ok(Durability::Synced),
        "relaxed" => Ok(Durability::Relaxed),
        other => Err(source.error(
            &text.span(),
            format!("unknown durability `{other}`: `synced` and `relaxed` are allowed"),
        )),
    }
}

fn open_files(source: &Source<'_>, most: Option<&Spanned<u64>>) -> Result<usize, ConfigError> {
    let Some(most) = most else {
        return Ok(DEFAULT_OPEN_FILES);
    };
    let number = usize::try_from(*most.get_ref());
    number
        .ok()
        .filter(|number| OPEN_FILES.contains(number))
        .ok_or_else(|| {
            let (least, most_of_all) = OPEN_FILES.into_inner();
            let message = format!("`open_files` must be {least} to {most_of_all}");
            source.error(&most.span(), message)
        })
}

fn tcp_connections(source: &Source<'_>, most: Option<&Spanned<u64>>) -> Result<u8, ConfigError> {
    let Some(most) = most else { return Ok(0) };
    u8::try_from(*most.get_ref())
        .ok()
        .filter(|most| *most <= MAX_CONNECTIONS)
        .ok_or_else(|| {
            let message = format!(
                "`tcp_connections` must be 0 (as the number of cores suggests) or 1 to {MAX_CONNECTIONS}"
            );
            source.error(&most.span(), message)
        })
}

fn distribution(
    source: &Source<'_>,
    text: Option<&DistributionText>,
    io_servers: usize,
) -> Result<DistributionHint, ConfigError> {
    let mut hint = DistributionHint {
        strip_size: DEFAULT_STRIP_SIZE,
        servers: 0,
        start: 0,
    };
    let Some(text) = text else {
        return Ok(hint);
    };
    if let Some(size) = &text.strip_size {
        hint.strip_size = strip_size(source, size)?;
    }
    let count = |value: &Spanned<u64>, what: &str, none: &str| {
        u16::try_from(*value.get_ref())
            .ok()
            .filter(|&value| usize::from(value) <= io_servers.min(MAX_STRIPE_SERVERS))
            .ok_or_else(|| {
                source.error(
                    &value.span(),
                    format!(
                        "{what} must be 0 ({none}) or 1 to {} (there are {io_servers} I/O servers)",
                        io_servers.min(MAX_STRIPE_SERVERS)
                    ),
                )
            })
    };
    if let Some(servers) = &text.servers {
        hint.servers = count(servers, "`servers`", "all")?;
    }
    if let Some(start) = &text.start {
        hint.start = count(start, "`start`", "files start on different servers")?;
    }
    Ok(hint)
}

fn strip_size(source: &Source<'_>, size: &Spanned<UnitText>) -> Result<u32, ConfigError> {
    let bytes = size.get_ref().bytes();
    bytes
        .and_then(|bytes| u32::try_from(bytes).ok())
        .filter(|&bytes| {
            bytes.is_multiple_of(4096) && bytes as usize >= MAX_STUFFED_BYTES && bytes <= 1 << 30
        })
        .ok_or_else(|| {
            let allowed = format!(
                "a multiple of 4 KiB from \"{} KiB\" to \"1 GiB\", such as \"1 MiB\" or 1048576",
                MAX_STUFFED_BYTES >> 10
            );
            UnitText::refused(size, source, "a strip size", &allowed)
        })
}

fn servers(
    source: &Source<'_>,
    texts: &[Spanned<ServerText>],
) -> Result<Vec<ServerEntry>, ConfigError> {
    let mut servers: Vec<ServerEntry> = Vec::with_capacity(texts.len().min(MAX_SERVERS));
    for text in texts {
        if servers.len() == MAX_SERVERS {
            return Err(source.error(
                &text.span(),
                format!("at most {MAX_SERVERS} servers are allowed"),
            ));
        }
        let server = server(source, text.get_ref())?;
        check_distinct(source, &servers, &server, text.get_ref())?;
        servers.push(server);
    }
    let whole = 0..0;
    if servers.is_empty() {
        return Err(source.error(
            &whole,
            "there are no servers: one `[[server]]` section for each is needed",
        ));
    }
    if !servers.iter().any(|server| server.metadata) {
        return Err(source.error(
            &whole,
            "no server has the role \"metadata\": exactly one must have it",
        ));
    }
    if !servers.iter().any(|server| server.io) {
        return Err(source.error(
            &whole,
            "no server has the role \"io\": at least one must have it",
        ));
    }
    Ok(servers)
}

fn check_distinct(
    source: &Source<'_>,
    servers: &[ServerEntry],
    server: &ServerEntry,
    text: &ServerText,
) -> Result<(), ConfigError> {
    for other in servers {
        if other.name == server.name {
            return Err(source.error(
                &text.name.span(),
                format!("a second server named `{}`: names must differ", server.name),
            ));
        }
        if other.metadata && server.metadata {
            return Err(source.error(
                &text.roles.span(),
                format!(
                    "`{}` is a second metadata server beside `{}`: exactly one is allowed",
                    server.name, other.name
                ),
            ));
        }
        for address in text.addresses.get_ref() {
            if other.addresses.contains(address.get_ref()) {
                return Err(source.error(
                    &address.span(),
                    format!(
                        "the address `{}` is also that of server `{}`: a process that connects there \
                         could not distinguish the two, even if they run on different hosts",
                        address.get_ref(),
                        other.name
                    ),
                ));
            }
        }
    }
    Ok(())
}

fn server(source: &Source<'_>, text: &ServerText) -> Result<ServerEntry, ConfigError> {
    let name = name(source, &text.name, "a server's")?;
    let (mut metadata, mut io) = (false, false);
    for role in text.roles.get_ref() {
        match role.get_ref().as_str() {
            "metadata" => metadata = true,
            "io" => io = true,
            other => {
                return Err(source.error(
                    &role.span(),
                    format!("unknown role `{other}`: \"metadata\" and \"io\" are allowed"),
                ));
            }
        }
    }
    if !metadata && !io {
        return Err(source.error(
            &text.roles.span(),
            format!("server `{name}` has no role: give it \"metadata\", \"io\" or both"),
        ));
    }
    if text.addresses.get_ref().is_empty() {
        return Err(source.error(
            &text.addresses.span(),
            format!(
                "server `{name}` has no address: give at least one, \
                 `shm:///PATH` or `tcp://HOST:PORT`"
            ),
        ));
    }
    let mut addresses: Vec<String> = Vec::new();
    for address in text.addresses.get_ref() {
        check_address(address.get_ref()).map_err(|reason| {
            source.error(
                &address.span(),
                format!(
                    "the address `{}` cannot be used: {reason}",
                    address.get_ref()
                ),
            )
        })?;
        if addresses.contains(address.get_ref()) {
            return Err(source.error(
                &address.span(),
                format!("the address `{}` is given twice", address.get_ref()),
            ));
        }
        addresses.push(address.get_ref().clone());
    }
    if !text.directory.get_ref().is_absolute() {
        return Err(source.error(
            &text.directory.span(),
            format!(
                "the directory `{}` is relative; it must be absolute, as servers may start anywhere",
                text.directory.get_ref().display()
            ),
        ));
    }
    Ok(ServerEntry {
        name,
        metadata,
        io,
        addresses,
        directory: text.directory.get_ref().clone(),
    })
}

/// Checks what can be known of an address without the method that serves it.
fn check_address(address: &str) -> Result<(), String> {
    if address.len() > 1024 || address.contains(',') || address.contains('\0') {
        return Err("it is longer than 1024 bytes or has a comma or NUL".to_owned());
    }
    match address.split_once("://") {
        Some(("shm", path)) => {
            if !path.starts_with('/') {
                return Err("the path behind `shm://` must be absolute".to_owned());
            }
            if path.len() > MAX_SOCKET_PATH {
                return Err(format!(
                    "its path has {} bytes; Unix sockets allow {MAX_SOCKET_PATH}: \
                     choose a shorter directory",
                    path.len()
                ));
            }
            Ok(())
        }
        Some(("tcp", rest)) => {
            let host: super::layout::Host = rest
                .parse()
                .map_err(|_| "`tcp://HOST:PORT` is needed, with a port from 1 to 65535")?;
            let explicit = rest.len() > host.name.len();
            if explicit {
                Ok(())
            } else {
                Err("the port is missing: `tcp://HOST:PORT`".to_owned())
            }
        }
        Some((scheme, _)) => Err(format!(
            "no method serves `{scheme}`: `shm://` and `tcp://` are allowed"
        )),
        None => Err("it has no `scheme://`: `shm:///PATH` or `tcp://HOST:PORT`".to_owned()),
    }
}
