//! Ports of this host that one test has for itself.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::process;

/// The first port; all are below the range from which kernels choose by themselves.
const FIRST: u16 = 10_000;
/// Processes get ports in blocks.
const BLOCK: u16 = 200;
/// Number of blocks.
const BLOCKS: u16 = 110;
/// A process that has this number of blocks uses its ports again.
const MOST_BLOCKS: usize = 8;

/// The ports of this process.
struct Ports {
    /// Numbers of the blocks, and the sockets by which other processes see that they are taken: the kernel closes them
    /// when the process ends, also when it is killed.
    blocks: Vec<(u16, UnixListener)>,
    given: usize,
}

static PORTS: Mutex<Ports> = Mutex::new(Ports {
    blocks: Vec::new(),
    given: 0,
});

impl Ports {
    fn next(&mut self) -> u16 {
        let at = self.given % (MOST_BLOCKS * BLOCK as usize);
        self.given += 1;
        let (block, offset) = (at / BLOCK as usize, at % BLOCK as usize);
        if block == self.blocks.len() {
            self.blocks.push(take_block());
        }
        FIRST + self.blocks[block].0 * BLOCK + offset as u16
    }
}

fn take_block() -> (u16, UnixListener) {
    (0..BLOCKS)
        .find_map(|block| {
            let name = SocketAddr::from_abstract_name(format!("causeway-test-ports-{block}"));
            let taken = UnixListener::bind_addr(&name.expect("a short name")).ok()?;
            Some((block, taken))
        })
        .expect("a block of ports that no other process has")
}

/// An address and port that no socket has now and that no other process is given meanwhile.
///
/// A test that ends a listener and starts it again needs such a port: one that the kernel chose can belong to another
/// test's socket by then.
///
/// # Panics
/// If no port is free.
pub fn fresh() -> SocketAddrV4 {
    let mut ports = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = (0..MOST_BLOCKS as u16 * BLOCK)
        .map(|_| SocketAddrV4::new(Ipv4Addr::LOCALHOST, ports.next()))
        .find(|&endpoint| TcpListener::bind(endpoint).is_ok() && UdpSocket::bind(endpoint).is_ok())
        .expect("a free port");
    process::await_starts();
    free
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_is_another_and_can_be_bound() {
        let given: Vec<_> = (0..3).map(|_| super::fresh()).collect();
        assert!(given[0] != given[1] && given[1] != given[2]);
        for endpoint in given {
            std::net::UdpSocket::bind(endpoint).expect("nothing has it");
        }
    }

    #[test]
    fn a_block_is_taken_once() {
        let (one, other) = (super::take_block(), super::take_block());
        assert_ne!(one.0, other.0);
    }
}
