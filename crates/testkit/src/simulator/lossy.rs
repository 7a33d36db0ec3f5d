//! Datagram I/O over real sockets, in real time, with accidents.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use causeway_transport::udp::Remote;
use causeway_transport::udp::core::Environment;
use causeway_transport::udp::datagram_io::{Arrival, Arrivals, Batch, DatagramIo};
use causeway_transport::{Address, Error, Identity};
use causeway_wire::tcp::Holder;

use crate::random::Random;

/// One datagram in this number is lost, and as many arrive twice, or change places with the next.
const ONE_IN: usize = 25;

/// See the module's page.
pub struct LossyDatagramIo<G> {
    under: G,
    random: Random,
}

impl<G: DatagramIo> LossyDatagramIo<G> {
    /// Accidents that follow from `seed`, above `under`.
    pub fn new(under: G, seed: u64) -> Self {
        Self {
            under,
            random: Random::new(seed),
        }
    }
}

impl<G: DatagramIo> Environment for LossyDatagramIo<G> {
    fn verify(&mut self, remote: Remote, holder: Holder) -> Result<Identity, String> {
        self.under.verify(remote, holder)
    }

    fn holder(&self, socket: u32) -> Holder {
        self.under.holder(socket)
    }

    fn datagram_bytes(&self, remote: Remote) -> usize {
        self.under.datagram_bytes(remote)
    }

    fn random(&mut self, into: &mut [u8]) {
        self.under.random(into);
    }
}

impl<G: DatagramIo> DatagramIo for LossyDatagramIo<G> {
    fn resolve(&self, address: &Address) -> Result<Vec<SocketAddr>, Error> {
        self.under.resolve(address)
    }

    fn bind(&mut self, address: SocketAddr) -> io::Result<(u32, SocketAddr)> {
        self.under.bind(address)
    }

    fn buffer_bytes(&self) -> usize {
        self.under.buffer_bytes()
    }

    fn send(&mut self, batch: &mut Batch) {
        self.under.send(batch);
    }

    fn receive(&mut self, arrivals: &mut Arrivals) {
        self.under.receive(arrivals);
        let random = &mut self.random;
        let mut list: Vec<Arrival> = Vec::with_capacity(arrivals.list.len());
        for arrival in arrivals.list.drain(..) {
            let is_datagram = matches!(arrival, Arrival::Datagram(..));
            if is_datagram && random.one_in(ONE_IN) {
                continue;
            }
            if is_datagram && random.one_in(ONE_IN) {
                list.push(arrival.clone());
            }
            list.push(arrival);
            let last = list.len() - 1;
            if last > 0 && random.one_in(ONE_IN) {
                list.swap(last - 1, last);
            }
        }
        arrivals.list = list;
    }

    fn is_of_this_process(&self) -> bool {
        self.under.is_of_this_process()
    }

    fn pollable(&self) -> BorrowedFd<'_> {
        self.under.pollable()
    }

    fn wait(&mut self, most: Duration) -> Option<Duration> {
        self.under.wait(most)
    }
}
