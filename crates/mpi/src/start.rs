//! How the processes of a program connect at its start, and disconnect at its end (MPI 5.0 chapter 11).
//!
//! Each process listens, publishes its addresses and its host through the launcher, and looks up those of the others. Connections
//! are made when they are needed. Processes on one host reach each other by shared memory, others by `tcp`, with a key that
//! rank 0 has drawn; [`METHODS`] can keep them from either. A program that was started by another one's processes then connects with
//! these ([`crate::intercomm`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use causeway_engine::Endpoint;
use causeway_engine::types::{Config, Liveness};
use causeway_sys::attach;
use causeway_sys::secret::Secret;
use causeway_wire::contact::{Contact, split_formats, with_formats};
use causeway_wire::formats::Formats;

use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::launcher::Launcher;
use crate::matching::Mpi;
use crate::networks;
use crate::process::{Active, Process, Waited};
use crate::process_table::{self, METHODS, Methods, ProcessTable};

/// The value that each process publishes under `causeway-N`, with `;` between: the host, the socket for processes of the same host with the
/// formats that the process speaks ([`with_formats`]), and its program's number.
fn key_of(rank: u32) -> String {
    format!("causeway-{rank}")
}

/// The value that each process publishes where `tcp` is used, under `causeway-tcp-N`: its addresses, with `,` between.
fn tcp_key_of(rank: u32) -> String {
    format!("causeway-tcp-{rank}")
}

/// Messages that may wait for their receives at one process, from one other, beyond those that its memory holds. MPI sets no limit (a
/// send and a receive that match complete, whatever else goes on, MPI 5.0 §3.5); this one bounds what one process can have another keep to
/// 300 MB, and each of these messages is an operation of its sender, too.
const ANNOUNCED: u32 = 1 << 20;
/// A process replies to its first caller when it is next inside of MPI: it may compute for a long time before. Its death is reported
/// by its socket. So this limit only applies to a host that does not reply at all.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The value that rank 0 publishes where `tcp` is used: the key by which the processes of this program authenticate each other, in hexadecimal
/// digits. The launcher passes it to these processes only. Processes that start a program publish their own key for it.
pub(crate) const SECRET: &str = "causeway-key";

/// The value that processes publish for a program that they start: the port at which they wait for it.
pub(crate) const PARENT: &str = "causeway-parent";

impl Process {
    /// Connects with the other processes of the program, and with those that have started it, if there are any.
    pub fn start() -> Result<Self> {
        let mut launcher = Launcher::find()?;
        let universe_size = launcher.universe_size();
        let program_number = launcher.program_number().unwrap_or(0);
        let methods = Methods::read()?;
        let met = match launcher.size() {
            1 => alone(methods)?,
            _ => connect_processes(&mut launcher, methods)?,
        };
        let port = match launcher.is_spawned() {
            true => Some(launcher.get(0, PARENT)?),
            false => None,
        };
        let mut process = Self::new(
            met.endpoint,
            launcher,
            met.peers,
            met.hosts,
            met.process_table,
        )?;
        process.universe_size = universe_size;
        process.program_number = program_number;
        if let Some(port) = port {
            process.connect_parents(&port)?;
        }
        Ok(process)
    }

    /// Connects with the processes that have started this program: they wait at a port.
    fn connect_parents(&mut self, port: &str) -> Result<()> {
        let mut creation = self.connect(abi::COMM_WORLD, 0, Some(port.as_bytes()))?;
        let mut went = Ok(());
        while let Some(mut active) = self.advance_intercomm(&mut creation, went)? {
            went = self.wait_here(&mut active);
        }
        let parent = self.finish_intercomm(&creation, None)?;
        self.communicator_mut(parent)?.set_name(b"MPI_COMM_PARENT");
        self.parent = Some(parent);
        Ok(())
    }

    /// Waits without leaving the process. No functions of the program are called.
    pub(crate) fn wait_here(&mut self, active: &mut Active) -> Result<()> {
        while let Waited::Call(_) = self.wait(active)? {}
        Ok(())
    }

    /// Waits until none of the other processes needs this one any more. Its connections stay, for sessions that are made later: to disconnect,
    /// drop it.
    pub fn finish(&mut self) -> Result<()> {
        // This call waits without leaving the process.
        let has_threads = std::mem::take(&mut self.has_threads);
        let finished = self.finish_here();
        self.has_threads = has_threads;
        finished
    }

    fn finish_here(&mut self) -> Result<()> {
        // Others may receive only once they know that they wait for this process in vain.
        self.end_all_collectives();
        // All messages that other processes wait for have been received by then.
        while self.buffers.has_awaited() {
            self.wait_until_ready(|process| {
                process.answer_questions();
                Ok((!process.buffers.has_awaited()).then_some(()))
            })?;
        }
        self.disconnect_other_programs();
        let barrier = self.begin_last_barrier(abi::COMM_WORLD)?;
        self.wait_for_last_barrier(barrier)?;
        // The launcher hears of it once.
        if !std::mem::replace(&mut self.has_finished, true) {
            self.launcher.barrier()?;
            self.launcher.finish()?;
        }
        Ok(())
    }

    /// Waits until the processes of other programs with which this one has communicators finish as well (MPI 5.0 §11.10.4). Processes that
    /// have ended are not waited for.
    fn disconnect_other_programs(&mut self) {
        let handles = Vec::from_iter(self.communicators.handles());
        let mut barriers = Vec::new();
        for handle in handles {
            let has_strangers = self.communicator(handle).is_ok_and(|communicator| {
                let remote = communicator.remote_group().map(|group| group.members());
                let mut all = communicator
                    .group()
                    .members()
                    .iter()
                    .chain(remote.into_iter().flatten());
                all.any(|member| self.process_table.is_of_other_world(*member))
            });
            if has_strangers {
                barriers.extend(self.begin_last_barrier(handle));
            }
        }
        for barrier in barriers {
            // An error means that the processes have ended.
            let _ = self.wait_for_last_barrier(barrier);
        }
    }
}

/// The state of a process when it has connected with the others.
struct Connected {
    endpoint: Endpoint<Mpi>,
    peers: Vec<Peer>,
    /// The host of each, by the number of the first process there.
    hosts: Vec<u32>,
    process_table: ProcessTable,
}

/// The state of the only process of a program: it has no others to connect with, and messages to itself need no network address.
fn alone(methods: Methods) -> Result<Connected> {
    let mut endpoint = Endpoint::new(config()?)?;
    let peer = look_up(&mut endpoint, "rank 0", "self://here")?;
    let own = Contact {
        world: process_table::number()?,
        host: process_table::host(methods)?,
        formats: process_table::own_formats()?,
        ..Contact::default()
    };
    let mut process_table = ProcessTable::new(own, methods);
    let host = process_table.own.host.clone();
    process_table.add(
        (process_table.own.world, 0),
        process_table.own.formats,
        &host,
    );
    Ok(Connected {
        endpoint,
        peers: vec![peer],
        hosts: vec![0],
        process_table,
    })
}

/// The value that a process has published.
#[derive(Debug, PartialEq, Eq)]
struct Published {
    host: String,
    address: String,
    formats: Formats,
    world: u64,
}

impl Published {
    fn of(own: &Contact, world: u64) -> Self {
        Self {
            host: own.host.clone(),
            address: own.near.clone(),
            formats: own.formats,
            world,
        }
    }

    fn to_text(&self) -> String {
        let addresses = with_formats(self.formats, &self.address);
        format!("{};{addresses};{:x}", self.host, self.world)
    }
}

fn read_published(rank: u32, text: &str) -> Result<Published> {
    let invalid = || invalid_published(rank, text);
    let (rest, world) = text.rsplit_once(';').ok_or_else(invalid)?;
    let (host, addresses) = rest.split_once(';').ok_or_else(invalid)?;
    let (address, formats) = split_formats(addresses).map_err(|_| invalid())?;
    Ok(Published {
        host: host.to_owned(),
        address,
        formats,
        world: u64::from_str_radix(world, 16).map_err(|_| invalid())?,
    })
}

/// The settings of an endpoint. A program may start many sends before any process receives, and then do operations that need other messages:
/// these must not wait behind messages that have no receive yet.
fn config() -> Result<Config> {
    Ok(Config {
        announced_limit: ANNOUNCED,
        in_parts: true,
        connect_timeout: PATIENCE,
        liveness: Liveness::Host,
        has_processor: true,
        encrypt: networks::encrypts()?,
        ..Config::default()
    })
}

/// The processor of the process that is number `index` of those of its host, `count` in all; `None` if there are more processes than
/// processors, or the launcher has bound each to its own.
fn processor_of(index: usize, count: usize) -> Option<usize> {
    let allowed = causeway_sys::pin::allowed_cpus().ok()?;
    let has_choice = allowed.len() > 1 && count <= allowed.len();
    has_choice.then(|| allowed.get(index).copied()).flatten()
}

/// Exchanges addresses. Processes of one host reach each other by `shm`, others by `tcp`.
fn connect_processes(launcher: &mut Launcher, methods: Methods) -> Result<Connected> {
    let (rank, size) = (launcher.rank(), launcher.size());
    if methods.shm {
        attach::allow_processes_of_this_user();
    }
    let listen = match methods.shm {
        true => vec![format!("shm://{}", process_table::socket(rank)?.display())],
        false => Vec::new(),
    };
    let mut endpoint = Endpoint::new(Config {
        listen: listen.clone(),
        ..config()?
    })?;
    let mut own = Contact {
        rank,
        host: process_table::host(methods)?,
        near: listen.join(","),
        formats: process_table::own_formats()?,
        ..Contact::default()
    };
    // All processes use the value of rank 0.
    let world = process_table::number()?;
    let text = Published::of(&own, world).to_text();
    launcher.put(&key_of(rank), &text)?;
    if rank == 0 && !launcher.is_spawned() {
        let key = match process_table::given_key()? {
            Some(key) => key,
            None => process_table::draw_key()?,
        };
        launcher.put(SECRET, &key.digits())?;
    }
    launcher.barrier()?;
    let published =
        (0..size).map(|other| read_published(other, &launcher.get(other, &key_of(other))?));
    let published = published.collect::<Result<Vec<_>>>()?;
    for (other, published) in (0..size).zip(&published) {
        process_table::check_formats(&format!("rank {other}"), own.formats, published.formats)?;
    }
    own.world = published[0].world;
    let is_near = |other: u32| published[other as usize].host == own.host;
    let index = (0..rank).filter(|other| is_near(*other)).count();
    let count = (0..size).filter(|other| is_near(*other)).count();
    if let Some(processor) = processor_of(index, count) {
        endpoint.prefer_processor(processor);
    }
    if causeway_sys::pin::processors().is_ok_and(|processors| count > processors) {
        endpoint.copy_alone();
    }
    let mut key = None;
    if (0..size).any(|other| other != rank && !is_near(other)) {
        if !methods.tcp {
            let text = format!("there are several hosts, and {METHODS} does not allow tcp");
            return Err(Error::new(abi::ERR_OTHER, text));
        }
        // No process has called yet: all processes see that there are several hosts, and exchange addresses once more.
        let network = process_table::network(&own.host);
        let is_one = (published.iter()).all(|one| process_table::network(&one.host) == network);
        let found = common_key(launcher)?;
        own.far = listen_by_tcp(&mut endpoint, Some(found.clone()), is_one)?;
        key = Some(found);
        launcher.put(&tcp_key_of(rank), &own.far)?;
        launcher.barrier()?;
    }
    let mut peers = Vec::with_capacity(size as usize);
    let mut hosts = Vec::with_capacity(size as usize);
    let world = own.world;
    let mut process_table = ProcessTable::new(own, methods);
    process_table.key = key;
    for (other, published) in (0..size).zip(&published) {
        let own = &process_table.own;
        let address = match published.host == own.host {
            true if other == rank => "self://here".to_owned(),
            true => published.address.clone(),
            false => {
                let far = launcher.get(other, &tcp_key_of(other))?;
                process_table::addresses_elsewhere(own, &published.host, &far)
            }
        };
        peers.push(look_up(&mut endpoint, &format!("rank {other}"), &address)?);
        let identity = (world, other);
        hosts.push(process_table.add(identity, published.formats, &published.host));
    }
    Ok(Connected {
        endpoint,
        peers,
        hosts,
        process_table,
    })
}

/// The key that all processes of the program use.
pub(crate) fn common_key(launcher: &mut Launcher) -> Result<Secret> {
    let text = launcher.get(0, SECRET)?;
    Secret::of_digits(&text).ok_or_else(|| invalid_published(0, &text))
}

/// Listens by `tcp`; returns the addresses, with commas between. If all callers are in this host's network, the loopback address
/// suffices; without a key, no other is used.
pub(crate) fn listen_by_tcp(
    endpoint: &mut Endpoint<Mpi>,
    key: Option<Secret>,
    is_one_network: bool,
) -> Result<String> {
    let hosts = match is_one_network || key.is_none() {
        true => vec![Ipv4Addr::LOCALHOST.into()],
        false => networks::own_addresses()?,
    };
    let at: IpAddr = match hosts.first() {
        Some(host) if host.is_loopback() => *host,
        Some(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    };
    if let Some(key) = key {
        endpoint.set_key(key)?;
    }
    let (ports, mut refused) = (networks::ports()?, None);
    for &port in &ports {
        let listens = endpoint.listen(&format!("tcp://{}", SocketAddr::new(at, port)));
        refused = listens.err();
        if refused.is_none() {
            break;
        }
    }
    match (refused, ports.as_slice()) {
        (None, _) => {}
        (Some(error), [0]) => return Err(error.into()),
        (Some(error), _) => {
            let text = format!(
                "none of the {} ports of {} can be listened at: {error}",
                ports.len(),
                networks::PORTS
            );
            return Err(Error::new(abi::ERR_OTHER, text));
        }
    }
    let listening = endpoint.listening();
    let port = listening.iter().find_map(|address| {
        let listening: SocketAddr = address.strip_prefix("tcp://")?.parse().ok()?;
        (listening.ip() == at).then_some(listening.port())
    });
    let port = port.ok_or_else(|| {
        let text = format!("no port for tcp among {}", listening.join(","));
        Error::new(abi::ERR_INTERN, text)
    })?;
    let addresses = hosts
        .into_iter()
        .map(|host| format!("tcp://{}", SocketAddr::new(host, port)));
    Ok(Vec::from_iter(addresses).join(","))
}

/// How messages go to the process at one of these addresses.
pub(crate) fn look_up(endpoint: &mut Endpoint<Mpi>, whose: &str, addresses: &str) -> Result<Peer> {
    let addr = endpoint.lookup(addresses)?;
    let number = endpoint.number(addr).ok_or_else(|| {
        let text = format!("the address of {whose} is stale");
        Error::new(abi::ERR_INTERN, text)
    })?;
    Ok(Peer {
        addr,
        number,
        context: 0,
    })
}

fn invalid_published(rank: u32, published: &str) -> Error {
    let text = format!("rank {rank} has published {published:?}; does it run the same library?");
    Error::new(abi::ERR_OTHER, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(formats: Formats) -> Published {
        Published {
            host: "b/net:[1]/mnt:[2]".into(),
            address: "shm:///tmp/a,b;c".into(),
            formats,
            world: 0x1f,
        }
    }

    #[test]
    fn published_contacts_state_formats_and_without_them_mean_the_first() {
        let of = |lowest, highest| Formats { lowest, highest };
        let unstated = "b/net:[1]/mnt:[2];shm:///tmp/a,b;c;1f";
        let stated = "b/net:[1]/mnt:[2];mpi://2-3,shm:///tmp/a,b;c;1f";
        assert_eq!(published(of(2, 3)).to_text(), stated);
        for (text, formats) in [(unstated, of(1, 1)), (stated, of(2, 3))] {
            let read = read_published(0, text).expect("it is sound");
            assert_eq!(read, published(formats), "{text}");
        }
        for nonsense in [
            "",
            "host",
            "h;shm:///a",
            "h;mpi://1,shm:///a;1",
            "h;shm:///a;x",
        ] {
            let error = read_published(4, nonsense).expect_err("it is none");
            assert!(error.text().contains("rank 4"), "{}", error.text());
        }
    }
}
