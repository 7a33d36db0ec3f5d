//! The UDP method's datagram I/O and environment in a simulation.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use causeway_transport::udp::Remote;
use causeway_transport::udp::core::Environment;
use causeway_transport::udp::datagram_io::{Arrival, Arrivals, Batch, DatagramIo};
use causeway_transport::{Address, Error, Identity};
use causeway_wire::tcp::Holder;

use super::network::{Delivery, Shared};
use crate::random::Random;

/// Most datagrams that one receive returns.
const RECEIVE_BATCH: usize = 32;

/// One process in a simulated network.
pub struct SimulatedDatagramIo {
    network: Shared,
    host: SocketAddr,
    sockets: Vec<SocketAddr>,
    random: Random,
    datagram_bytes: usize,
    never: Arc<OwnedFd>,
}

impl SimulatedDatagramIo {
    /// A process on `host` with random numbers that follow from `seed` and datagrams of at most
    /// `datagram_bytes`.
    pub fn new(network: &Shared, host: SocketAddr, seed: u64, datagram_bytes: usize) -> Self {
        Self {
            network: network.clone(),
            host,
            sockets: Vec::new(),
            random: Random::new(seed),
            datagram_bytes,
            never: network.lock().never(),
        }
    }
}

impl Drop for SimulatedDatagramIo {
    fn drop(&mut self) {
        let mut network = self.network.lock();
        for &socket in &self.sockets {
            network.close(socket);
        }
    }
}

impl Environment for SimulatedDatagramIo {
    fn verify(&mut self, _: Remote, holder: Holder) -> Result<Identity, String> {
        Ok(Identity::SocketOf {
            pid: holder.pid as i32,
            uid: 0,
            gid: 0,
        })
    }

    fn holder(&self, _socket: u32) -> Holder {
        Holder {
            pid: 1,
            descriptor: 0,
        }
    }

    fn datagram_bytes(&self, _remote: Remote) -> usize {
        self.datagram_bytes
    }

    fn random(&mut self, into: &mut [u8]) {
        self.random.fill(into);
    }

    /// Alterations are to meet the checksum, and mistakes on purpose change the content of segments.
    fn is_in_the_clear(&self) -> bool {
        true
    }
}

impl DatagramIo for SimulatedDatagramIo {
    fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, Error> {
        let parsed = address.rest().parse();
        parsed
            .map(|address| vec![address])
            .map_err(|_| Error::Unsupported("a simulated network has no names"))
    }

    fn bind(&mut self, address: SocketAddr) -> io::Result<(u32, SocketAddr)> {
        let on_host = match address.port() {
            0 => self.host,
            _ => address,
        };
        let bound = self.network.lock().bind(on_host);
        let bound = bound.ok_or(io::ErrorKind::AddrInUse)?;
        self.sockets.push(bound);
        Ok((self.sockets.len() as u32 - 1, bound))
    }

    fn buffer_bytes(&self) -> usize {
        usize::MAX
    }

    fn send(&mut self, batch: &mut Batch) {
        let mut network = self.network.lock();
        for (to, bytes) in batch.iter() {
            if let Some(&from) = self.sockets.get(to.socket as usize) {
                network.send(from, to.address, bytes);
            }
        }
        drop(network);
        let count = batch.len();
        batch.advance(count);
    }

    fn receive(&mut self, arrivals: &mut Arrivals) {
        arrivals.room.clear();
        let mut network = self.network.lock();
        for (number, &address) in self.sockets.iter().enumerate() {
            let socket = number as u32;
            while arrivals.list.len() < RECEIVE_BATCH
                && let Some(delivery) = network.take(address)
            {
                let (Delivery::Datagram(address, bytes) | Delivery::Unreachable(address, bytes)) =
                    &delivery;
                let (start, address) = (arrivals.room.len(), *address);
                arrivals.room.extend_from_slice(bytes);
                let range = start..arrivals.room.len();
                let remote = Remote { socket, address };
                arrivals.list.push(match delivery {
                    Delivery::Datagram(..) => Arrival::Datagram(remote, range),
                    Delivery::Unreachable(..) => Arrival::Unreachable(remote, range),
                });
            }
        }
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.never.as_fd()
    }

    fn wait(&mut self, _most: Duration) -> Option<Duration> {
        None
    }
}
