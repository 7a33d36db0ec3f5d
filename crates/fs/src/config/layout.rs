//! Configurations made from a list of hosts, and for one machine.

use std::path::Path;

use causeway_wire::fs::DistributionHint;

use super::types::{
    AccessRules, Configuration, DEFAULT_LEASE_TIME, DEFAULT_OPEN_FILES, DEFAULT_STRIP_SIZE,
    DEFAULT_TIMEOUT, Durability, MAX_SERVERS, ServerEntry,
};

/// Port of a host's first server where none is given; further servers count up.
pub const DEFAULT_PORT: u16 = 7440;

/// A host that is to run servers: `host` or `host:port`; an IPv6 address is written in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name or address, as others reach it; IPv6 addresses keep their brackets.
    pub name: String,
    /// Port of its first server.
    pub port: u16,
}

impl std::str::FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not `HOST` or `HOST:PORT` (IPv6 as `[ADDRESS]:PORT`)");
        let behind_brackets = text.rfind(']').map_or(0, |at| at + 1);
        let (name, port) = match text.get(behind_brackets..).and_then(|rest| rest.rfind(':')) {
            Some(colon) => {
                let (name, port) = text.split_at(behind_brackets + colon);
                (name, port[1..].parse().map_err(|_| bad())?)
            }
            None => (text, DEFAULT_PORT),
        };
        let bare = name.strip_prefix('[').and_then(|n| n.strip_suffix(']'));
        let well_formed = match bare {
            Some(ip) => ip.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-' || b == b'_')
            }
        };
        if !well_formed || port == 0 {
            return Err(bad());
        }
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }
}

impl Configuration {
    /// A file system with an I/O server on each host and the metadata server on the first one.
    /// `directory` is where each host keeps its data, `id` and `key_file` as in the configuration.
    ///
    /// The error names the host that is wrong.
    pub fn from_hosts(
        name: &str,
        id: u128,
        hosts: &[Host],
        directory: &Path,
        key_file: Option<&Path>,
    ) -> Result<Self, String> {
        let first = hosts.first().ok_or("there must be at least one host")?;
        if hosts.len() >= MAX_SERVERS {
            return Err(format!("at most {} hosts are possible", MAX_SERVERS - 1));
        }
        if !directory.is_absolute() {
            return Err(format!(
                "the directory {} is relative; it must be absolute, as it is the same on every host",
                directory.display()
            ));
        }
        for (index, host) in hosts.iter().enumerate() {
            if hosts[..index].contains(host) {
                return Err(format!(
                    "the host {}:{} is given twice",
                    host.name, host.port
                ));
            }
        }
        let metadata_port = free_port(hosts, &first.name)
            .ok_or_else(|| format!("no port of {} is left for the metadata server", first.name))?;
        let entry = |server: String, metadata: bool, host: &str, port: u16| ServerEntry {
            metadata,
            io: !metadata,
            addresses: vec![
                format!(
                    "shm://{}",
                    directory.join(format!("{server}.sock")).display()
                ),
                format!("tcp://{host}:{port}"),
            ],
            directory: directory.join(&server),
            name: server,
        };
        let mut servers = vec![entry("meta".to_owned(), true, &first.name, metadata_port)];
        servers.extend(
            hosts
                .iter()
                .enumerate()
                .map(|(index, host)| entry(format!("io{index}"), false, &host.name, host.port)),
        );
        Ok(Self {
            key_file: key_file.map(Path::to_owned),
            servers,
            ..Self::empty(name, id)
        })
    }

    /// A file system of separate server processes on this machine: one metadata server and `servers`
    /// I/O servers, reached through shared memory only, with everything below `directory`.
    pub fn one_machine(
        name: &str,
        id: u128,
        directory: &Path,
        servers: usize,
        durability: Durability,
    ) -> Self {
        let entry = |server: String, metadata: bool| ServerEntry {
            metadata,
            io: !metadata,
            addresses: vec![format!(
                "shm://{}",
                directory.join(format!("{server}.sock")).display()
            )],
            directory: directory.join(&server),
            name: server,
        };
        let mut entries = vec![entry("meta".to_owned(), true)];
        entries.extend((0..servers).map(|index| entry(format!("io{index}"), false)));
        Self {
            durability,
            servers: entries,
            ..Self::empty(name, id)
        }
    }

    fn empty(name: &str, id: u128) -> Self {
        Self {
            name: name.to_owned(),
            id,
            durability: Durability::Synced,
            timeout: DEFAULT_TIMEOUT,
            distribution: DistributionHint {
                strip_size: DEFAULT_STRIP_SIZE,
                servers: 0,
                start: 0,
            },
            key_file: None,
            nodes: None,
            encrypt: true,
            checksums: true,
            tcp_connections: 0,
            access: AccessRules::default(),
            agent_socket: None,
            leases: DEFAULT_LEASE_TIME,
            open_files: DEFAULT_OPEN_FILES,
            servers: Vec::new(),
        }
    }
}

/// The lowest port behind the default one that no server of this host has.
fn free_port(hosts: &[Host], name: &str) -> Option<u16> {
    (DEFAULT_PORT..=u16::MAX).find(|&port| {
        !hosts
            .iter()
            .any(|host| host.name == name && host.port == port)
    })
}
