//! Ports of this host that one test has for itself.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The ports that are given: below those that kernels choose by themselves.
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// Ports of one process before those of the process with the next id begin.
const PORTS_EACH: u32 = 500;

/// An address and port that no socket has now, another one at each call until all of them were given.
///
/// A test that ends a listener and starts it again needs such a port: one that the kernel chose can belong to another
/// test's socket by then.
///
/// # Panics
/// If all ports are taken.
pub fn fresh() -> SocketAddrV4 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(PORTS_EACH);
    PORTS
        .map(|_| {
            let next = begin.wrapping_add(GIVEN.fetch_add(1, Relaxed));
            let port = PORTS.start + next % PORTS.len() as u32;
            SocketAddrV4::new(Ipv4Addr::LOCALHOST, port as u16)
        })
        .find(|&endpoint| TcpListener::bind(endpoint).is_ok() && UdpSocket::bind(endpoint).is_ok())
        .expect("a free port")
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
}
