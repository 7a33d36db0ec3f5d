//! Writes a configuration as text.

use super::nodes::{NodesEntry, public_key_digits};
use super::types::{Configuration, DEFAULT_OPEN_FILES, Durability, ServerEntry};
use super::units::{duration, quoted, size};
use super::{access, leases};

/// The file's text, with comments that explain it.
pub(super) fn print(configuration: &Configuration) -> String {
    let distribution = &configuration.distribution;
    let durability = match configuration.durability {
        Durability::Synced => "synced",
        Durability::Relaxed => "relaxed",
    };
    let key_file = configuration.key_file.as_ref().map(|path| {
        let path = quoted(&path.to_string_lossy());
        format!("# 64 hexadecimal digits, mode 600, the same on every node.\nkey_file = {path}\n")
    });
    let agent = configuration.agent_socket.as_ref().map(|path| {
        let path = quoted(&path.to_string_lossy());
        format!(
            "\n# Speaks for users who may not read the keys (`causeway fs agent`, on each node that such users use).\n[agent]\nsocket = {path}\n"
        )
    });
    let nodes = configuration
        .nodes
        .as_ref()
        .map_or(String::new(), print_nodes);
    let tcp_connections = match configuration.tcp_connections {
        0 => String::new(),
        most => {
            format!("# Most TCP connections between two processes.\ntcp_connections = {most}\n")
        }
    };
    let open_files = match configuration.open_files {
        DEFAULT_OPEN_FILES => String::new(),
        most => format!(
            "# Most files that the metadata server keeps open for one program.\nopen_files = {most}\n"
        ),
    };
    let strip_size = match distribution.strip_size {
        0 => String::new(),
        bytes => format!("strip_size = \"{}\"\n", size(bytes.into())),
    };
    format!(
        "\
# A Causeway file system. The same file on every node.
name = {name}
# Identity: never change it once servers have started.
id = \"{id:032x}\"
# synced: an acknowledged create, rename, unlink or fsync survives power loss.
# relaxed: it survives the death of any process.
durability = \"{durability}\"
# How long an operation may take before it fails.
timeout = \"{timeout}\"
{key_file}# false: what travels over tcp can be read on the network, and still not be changed or forged.
encrypt = {encrypt}
# Of the data in new files; verified whenever they are read.
checksums = {checksums}
{tcp_connections}{open_files}
# How files are striped over I/O servers unless they say otherwise.
[distribution]
{strip_size}# 0: all I/O servers.
servers = {servers}
# 0: files start on different servers; n: all start on the n-th.
start = {start}
{access}{agent}{leases}{nodes}{entries}",
        name = quoted(&configuration.name),
        id = configuration.id,
        timeout = duration(configuration.timeout),
        key_file = key_file.unwrap_or_default(),
        encrypt = configuration.encrypt,
        checksums = configuration.checksums,
        servers = distribution.servers,
        start = distribution.start,
        access = access::print(&configuration.access),
        agent = agent.unwrap_or_default(),
        leases = leases::print(configuration.leases),
        entries = configuration
            .servers
            .iter()
            .map(print_server)
            .collect::<String>(),
    )
}

fn print_nodes(nodes: &NodesEntry) -> String {
    let digits = |key| quoted(&public_key_digits(key));
    let authorities: Vec<String> = nodes.authorities.iter().map(digits).collect();
    let limits = nodes.limits();
    format!(
        "
# Each node proves which it is: by its own key, which one of these authorities has signed.
[nodes]
authorities = [{}]
# Each node's own, mode 600.
node_file = {}
# The same on every node.
revoked_file = {}
{}{}",
        authorities.join(", "),
        quoted(&nodes.node_file.to_string_lossy()),
        quoted(&nodes.revoked_file.to_string_lossy()),
        limits.uids.print(),
        limits.gids.print()
    )
}

fn print_server(server: &ServerEntry) -> String {
    let roles: Vec<&str> = [(server.metadata, "\"metadata\""), (server.io, "\"io\"")]
        .into_iter()
        .filter_map(|(has, role)| has.then_some(role))
        .collect();
    let addresses: Vec<String> = server.addresses.iter().map(|a| quoted(a)).collect();
    format!(
        "\n[[server]]\nname = {}\nroles = [{}]\naddresses = [{}]\ndirectory = {}\n",
        quoted(&server.name),
        roles.join(", "),
        addresses.join(", "),
        quoted(&server.directory.to_string_lossy())
    )
}
