//! How the processes of a program meet, and how they part (MPI 5.0 chapter 11).
//!
//! Each process listens, publishes its addresses and its host through the launcher, and looks the others up. Connections
//! are made when they are needed. Processes on one host reach each other by shared memory, unless [`METHODS`] says otherwise.

use std::path::PathBuf;

use causeway_engine::Endpoint;
use causeway_engine::types::Config;
use causeway_sys::random;

use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::launcher::Launcher;
use crate::process::{Process, Waited};

/// The directory for sockets that the launcher has made, and removes.
pub const DIRECTORY: &str = "CAUSEWAY_RUN_DIRECTORY";

/// The methods by which processes reach each other, with commas between: `shm` (shared memory, the only one unless this is set),
/// `tcp` (connections over this host's loopback).
pub const METHODS: &str = "CAUSEWAY_MPI_METHODS";

/// What each process publishes, under `causeway-N`: the host's number and the addresses, with `;` between.
fn key_of(rank: u32) -> String {
    format!("causeway-{rank}")
}

/// What is the same for processes that can share memory, and no others.
fn host() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // In another network namespace the same paths may be other files, but other boots are other hosts for certain.
    boot.trim().to_owned()
}

/// The addresses to listen at, by the methods that the environment names, and whether memory can be shared by one of them.
fn listen(rank: u32) -> Result<(Vec<String>, bool)> {
    let methods = std::env::var(METHODS).unwrap_or_else(|_| "shm".into());
    let mut addresses = Vec::new();
    let mut shares = false;
    for method in methods.split(',') {
        match method {
            "shm" => {
                shares = true;
                addresses.push(format!("shm://{}", socket(rank)?.display()));
            }
            "tcp" => addresses.push("tcp://127.0.0.1:0".to_owned()),
            other => {
                let text =
                    format!("{METHODS}: no method is called {other:?}; there are shm and tcp");
                return Err(Error::new(abi::ERR_OTHER, text));
            }
        }
    }
    Ok((addresses, shares))
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
        let (rank, size) = (launcher.rank(), launcher.size());
        let (listen, shares) = match size {
            1 => (Vec::new(), true),
            _ => listen(rank)?,
        };
        let mut endpoint = Endpoint::new(Config {
            listen,
            ..Config::default()
        })?;
        let universe_size = launcher.universe_size();
        let program_number = launcher.program_number().unwrap_or(0);
        let (peers, hosts) = meet(&mut endpoint, &mut launcher, shares)?;
        let mut process = Self::new(endpoint, launcher, peers, hosts)?;
        process.universe_size = universe_size;
        process.program_number = program_number;
        debug_assert_eq!((process.rank(), process.size()), (rank, size));
        Ok(process)
    }

    /// Parts from the other processes: none of them needs this one any more.
    pub fn finish(mut self) -> Result<()> {
        // All messages that others wait for have been received by then.
        while self.buffered_pending > 0 {
            self.wait_for_news(|process| Ok((process.buffered_pending == 0).then_some(())))?;
        }
        let mut barrier = self.barrier(abi::COMM_WORLD)?;
        while let Waited::Call(_) = self.wait(&mut barrier)? {}
        self.launcher.barrier()?;
        self.launcher.finish()
    }
}

/// Exchanges addresses. Returns the peers, and the host of each by the number of the first process there.
fn meet(
    endpoint: &mut Endpoint<crate::matching::Mpi>,
    launcher: &mut Launcher,
    shares: bool,
) -> Result<(Vec<Peer>, Vec<u32>)> {
    let (rank, size) = (launcher.rank(), launcher.size());
    let own = endpoint.listening().join(",");
    if size > 1 {
        // One that shares no memory is a host of its own.
        let host = match shares {
            true => host(),
            false => format!("{}/{rank}", host()),
        };
        launcher.put(&key_of(rank), &format!("{host};{own}"))?;
        launcher.barrier()?;
    }
    let mut peers = Vec::with_capacity(size as usize);
    let mut hosts = Vec::with_capacity(size as usize);
    let mut first_there: Vec<(String, u32)> = Vec::new();
    for other in 0..size {
        let published = match size {
            // There is nobody to meet, and messages to oneself need no address of the network.
            1 => ";self://here".to_owned(),
            _ => launcher.get(&key_of(other))?,
        };
        let (host, addresses) = published.split_once(';').ok_or_else(|| {
            let text =
                format!("rank {other} has published {published:?}; does it run the same library?");
            Error::new(abi::ERR_OTHER, text)
        })?;
        let addr = endpoint.lookup(addresses)?;
        let number = endpoint.number(addr).ok_or_else(|| {
            Error::new(
                abi::ERR_INTERN,
                format!("the address of rank {other} is stale"),
            )
        })?;
        peers.push(Peer { addr, number });
        let first = first_there.iter().find(|(known, _)| known == host);
        hosts.push(first.map_or(other, |(_, first)| *first));
        if first.is_none() {
            first_there.push((host.to_owned(), other));
        }
    }
    Ok((peers, hosts))
}
