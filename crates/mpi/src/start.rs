//! How the processes of a program meet, and how they part (MPI 5.0 chapter 11).
//!
//! Each process listens, publishes its addresses and its host through the launcher, and looks the others up. Connections
//! are made when they are needed. Processes on one host reach each other by shared memory, others by `tcp`, with a key that
//! rank 0 has drawn; [`METHODS`] can keep them from either.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use causeway_engine::Endpoint;
use causeway_engine::types::Config;
use causeway_sys::{net, random};

use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::launcher::Launcher;
use crate::matching::Mpi;
use crate::process::{Process, Waited};

/// The directory for sockets that the launcher has made, and removes.
pub const DIRECTORY: &str = "CAUSEWAY_RUN_DIRECTORY";

/// The methods by which processes may reach each other, with commas between: `shm` (within a host) and `tcp`. Both unless it is
/// set; all processes have the same.
pub const METHODS: &str = "CAUSEWAY_MPI_METHODS";

/// What each process publishes, under `causeway-N`: the host, and the socket for processes of the same host, with `;` between.
fn key_of(rank: u32) -> String {
    format!("causeway-{rank}")
}

/// What each process publishes where `tcp` is used, under `causeway-tcp-N`: its addresses, with `,` between.
fn tcp_key_of(rank: u32) -> String {
    format!("causeway-tcp-{rank}")
}

/// What rank 0 publishes where `tcp` is used: the key by which the processes of this program know each other, in hexadecimal
/// digits. The launcher tells it to them only.
const SECRET: &str = "causeway-key";

/// The methods that may be used.
#[derive(Debug, Clone, Copy)]
struct Methods {
    shm: bool,
    tcp: bool,
}

impl Methods {
    fn read() -> Result<Self> {
        let list = std::env::var(METHODS).unwrap_or_else(|_| "shm,tcp".into());
        let mut methods = Self {
            shm: false,
            tcp: false,
        };
        for name in list.split(',') {
            match name {
                "shm" => methods.shm = true,
                "tcp" => methods.tcp = true,
                other => {
                    let text =
                        format!("{METHODS}: no method is called {other:?}; there are shm and tcp");
                    return Err(Error::new(abi::ERR_OTHER, text));
                }
            }
        }
        Ok(methods)
    }
}

/// What is the same for processes that can share memory, and no others: the machine since it was started, the network and the
/// files that they see. Without shared memory every process is on a host of its own.
fn host(methods: Methods, rank: u32) -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = |name: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}"));
        link.map_or(String::new(), |link| link.display().to_string())
    };
    let own = match methods.shm {
        true => String::new(),
        false => format!("/{rank}"),
    };
    format!("{}/{}/{}{own}", boot.trim(), space("net"), space("mnt"))
}

/// Where to listen for processes of the same host.
fn socket(rank: u32) -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return Ok(PathBuf::from(directory).join(rank.to_string()));
    }
    let bytes: [u8; 8] = random::bytes().map_err(|error| {
        Error::new(
            abi::ERR_OTHER,
            format!("drawing the name of a socket: {error}"),
        )
    })?;
    let name = format!("causeway-{:016x}-{rank}", u64::from_le_bytes(bytes));
    Ok(std::env::temp_dir().join(name))
}

impl Process {
    /// Meets the other processes of the program.
    pub fn start() -> Result<Self> {
        let mut launcher = Launcher::find()?;
        let universe_size = launcher.universe_size();
        let program_number = launcher.program_number().unwrap_or(0);
        let methods = Methods::read()?;
        let (endpoint, peers, hosts) = match launcher.size() {
            1 => alone()?,
            _ => meet(&mut launcher, methods)?,
        };
        let mut process = Self::new(endpoint, launcher, peers, hosts)?;
        process.universe_size = universe_size;
        process.program_number = program_number;
        Ok(process)
    }

    /// Parts from the other processes: none of them needs this one any more.
    pub fn finish(mut self) -> Result<()> {
        // The last call waits in here.
        self.has_threads = false;
        // All messages that others wait for have been received by then.
        while self.buffers.has_any() {
            self.wait_for_news(|process| Ok((!process.buffers.has_any()).then_some(())))?;
        }
        let steps = self.barrier(abi::COMM_WORLD)?.called("MPI_Finalize");
        let mut barrier = self.begin(steps)?;
        while let Waited::Call(_) = self.wait(&mut barrier)? {}
        self.launcher.barrier()?;
        self.launcher.finish()
    }
}

/// The endpoint, the peers, and the host of each by the number of the first process there.
type Met = (Endpoint<Mpi>, Vec<Peer>, Vec<u32>);

/// There is nobody to meet, and messages to oneself need no address of the network.
fn alone() -> Result<Met> {
    let mut endpoint = Endpoint::new(Config::default())?;
    let peer = look_up(&mut endpoint, 0, "self://here")?;
    Ok((endpoint, vec![peer], vec![0]))
}

/// Exchanges addresses. Processes of one host reach each other by `shm`, others by `tcp`.
fn meet(launcher: &mut Launcher, methods: Methods) -> Result<Met> {
    let (rank, size) = (launcher.rank(), launcher.size());
    let listen = match methods.shm {
        true => vec![format!("shm://{}", socket(rank)?.display())],
        false => Vec::new(),
    };
    let mut endpoint = Endpoint::new(Config {
        listen: listen.clone(),
        ..Config::default()
    })?;
    let own = host(methods, rank);
    launcher.put(&key_of(rank), &format!("{own};{}", listen.join(",")))?;
    if rank == 0 {
        launcher.put(SECRET, &secret()?)?;
    }
    launcher.barrier()?;
    let mut published = Vec::with_capacity(size as usize);
    for other in 0..size {
        let text = launcher.get(&key_of(other))?;
        let (host, address) = text.split_once(';').ok_or_else(|| strange(other, &text))?;
        published.push((host.to_owned(), address.to_owned()));
    }
    let is_near = |other: u32| published[other as usize].0 == own;
    if (0..size).any(|other| other != rank && !is_near(other)) {
        if !methods.tcp {
            let text = format!("there are several hosts, and {METHODS} does not allow tcp");
            return Err(Error::new(abi::ERR_OTHER, text));
        }
        // Nobody has called yet: all processes see that there are several hosts, and meet once more.
        drop(endpoint);
        let network = |host: &str| {
            host.splitn(3, '/')
                .take(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let own = network(&own);
        let is_one = published.iter().all(|(host, _)| network(host) == own);
        endpoint = listen_for_all(launcher, listen, is_one)?;
    }
    let mut peers = Vec::with_capacity(size as usize);
    let mut hosts = Vec::with_capacity(size as usize);
    for other in 0..size {
        let (host, address) = &published[other as usize];
        let address = match is_near(other) {
            true if other == rank => "self://here".to_owned(),
            true => address.clone(),
            false => launcher.get(&tcp_key_of(other))?,
        };
        peers.push(look_up(&mut endpoint, other, &address)?);
        let first = published.iter().position(|(known, _)| known == host);
        hosts.push(first.map_or(other, |first| first as u32));
    }
    Ok((endpoint, peers, hosts))
}

/// An endpoint that all processes reach, and whose addresses they know. If all are in one network, that of this machine
/// itself will do.
fn listen_for_all(
    launcher: &mut Launcher,
    mut listen: Vec<String>,
    is_one_network: bool,
) -> Result<Endpoint<Mpi>> {
    let text = launcher.get(SECRET)?;
    let key = key(&text).ok_or_else(|| strange(0, &text))?;
    let at = match is_one_network {
        true => Ipv4Addr::LOCALHOST,
        false => Ipv4Addr::UNSPECIFIED,
    };
    listen.push(format!("tcp://{at}:0"));
    let endpoint = Endpoint::new(Config {
        listen,
        key: Some(key),
        ..Config::default()
    })?;
    let listening = endpoint.listening();
    let prefix = format!("tcp://{at}:");
    let port = listening
        .iter()
        .find_map(|address| address.strip_prefix(&prefix));
    let port = port.ok_or_else(|| {
        let text = format!("no port for tcp among {}", listening.join(","));
        Error::new(abi::ERR_INTERN, text)
    })?;
    let hosts = match is_one_network {
        true => Ok(vec![at.into()]),
        // Of other versions the endpoint has no port.
        false => {
            net::own_addresses().map(|all| Vec::from_iter(all.into_iter().filter(IpAddr::is_ipv4)))
        }
    };
    let hosts = hosts.map_err(|error| {
        let text = format!("looking for this host's addresses: {error}");
        Error::new(abi::ERR_OTHER, text)
    })?;
    if hosts.is_empty() {
        let text = "this host has no address at which other hosts could reach it";
        return Err(Error::new(abi::ERR_OTHER, text));
    }
    let addresses = Vec::from_iter(hosts.iter().map(|host| format!("tcp://{host}:{port}")));
    launcher.put(&tcp_key_of(launcher.rank()), &addresses.join(","))?;
    launcher.barrier()?;
    Ok(endpoint)
}

fn look_up(endpoint: &mut Endpoint<Mpi>, rank: u32, addresses: &str) -> Result<Peer> {
    let addr = endpoint.lookup(addresses)?;
    let number = endpoint.number(addr).ok_or_else(|| {
        let text = format!("the address of rank {rank} is stale");
        Error::new(abi::ERR_INTERN, text)
    })?;
    Ok(Peer {
        addr,
        number,
        context: 0,
    })
}

fn strange(rank: u32, published: &str) -> Error {
    let text = format!("rank {rank} has published {published:?}; does it run the same library?");
    Error::new(abi::ERR_OTHER, text)
}

/// A new key for this program.
fn secret() -> Result<String> {
    let bytes: [u8; 32] = random::bytes().map_err(|error| {
        Error::new(
            abi::ERR_OTHER,
            format!("drawing the program's key: {error}"),
        )
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The key that was published.
fn key(text: &str) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    if text.len() != 2 * key.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let text = secret().unwrap();
        let bytes = key(&text).unwrap();
        let again: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(again, text);
        assert_eq!(key(&text[1..]), None);
        assert_eq!(key(&"x".repeat(64)), None);
    }

    #[test]
    fn processes_without_shared_memory_are_on_hosts_of_their_own() {
        let shared = Methods {
            shm: true,
            tcp: true,
        };
        let apart = Methods {
            shm: false,
            tcp: true,
        };
        assert_eq!(host(shared, 0), host(shared, 1));
        assert_ne!(host(apart, 0), host(apart, 1));
    }
}
