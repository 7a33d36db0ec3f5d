//! The message layer's suite, over every method that works between processes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use causeway_testkit::directory::ShmAddresses;
use causeway_testkit::messages::Medium;
use causeway_testkit::{loopback, messages};
use causeway_transport::mem::{Mem, Options};
use causeway_transport::registry::Registry;
use causeway_transport::shm::{AttachPolicy, Shm, ShmConfig};
use causeway_transport::tcp::{Tcp, TcpConfig};
use causeway_transport::udp::{Udp, UdpConfig};

/// A stopped peer must not be reported as refusing.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(50);

struct SharedMemory {
    attach: AttachPolicy,
    addresses: ShmAddresses,
}

impl SharedMemory {
    fn new(attach: AttachPolicy) -> Self {
        Self {
            attach,
            addresses: ShmAddresses::default(),
        }
    }
}

impl Medium for SharedMemory {
    fn registry(&self) -> Registry {
        let config = ShmConfig {
            attach: self.attach,
            connect_timeout: CONNECT_TIMEOUT,
            ..ShmConfig::default()
        };
        let mut registry = Registry::new();
        let method = Shm::new(config).expect("shared memory works here");
        registry.register(Box::new(method));
        registry
    }

    fn address(&self) -> String {
        self.addresses.fresh()
    }
}

struct Loopback {
    key: Option<[u8; 32]>,
}

impl Medium for Loopback {
    fn registry(&self) -> Registry {
        let config = TcpConfig {
            key: self.key.map(Into::into),
            encrypt: self.key.is_some(),
            connect_timeout: CONNECT_TIMEOUT,
            ..TcpConfig::default()
        };
        let mut registry = Registry::new();
        registry.register(Box::new(Tcp::new(config).expect("epoll works here")));
        registry
    }

    fn address(&self) -> String {
        format!("tcp://{}", loopback::fresh())
    }
}

struct Datagrams {
    key: Option<[u8; 32]>,
}

impl Medium for Datagrams {
    fn registry(&self) -> Registry {
        // A node that was idle when its peer died finds out by probing, which a test should not wait for long.
        let config = UdpConfig {
            key: self.key.map(Into::into),
            connect_timeout: CONNECT_TIMEOUT,
            probe_interval: Duration::from_millis(200),
            suspicion_timeout: Duration::from_millis(200),
            ..UdpConfig::default()
        };
        let mut registry = Registry::new();
        registry.register(Box::new(Udp::new(config).expect("epoll works here")));
        registry
    }

    fn address(&self) -> String {
        format!("udp://{}", loopback::fresh())
    }

    fn reports_deaths(&self) -> bool {
        false
    }
}

/// Between threads; `mem` does not reach other processes, so only waits and pairs are tested.
struct Threads;

impl Medium for Threads {
    fn registry(&self) -> Registry {
        let mut registry = Registry::new();
        registry.register(Box::new(
            Mem::new(Options::default()).expect("a descriptor can be made"),
        ));
        registry
    }

    fn address(&self) -> String {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        format!("mem://waits-{}", NUMBER.fetch_add(1, Relaxed))
    }
}

mod mem {
    use super::*;

    causeway_testkit::process_tests! { messages, Threads;
        waits: a_message, a_large_message, an_unexpected_message, a_new_peer, a_transfer,
            returned_credit, a_departure, a_call;
        pairs: a_caller_is_known_by_its_address, calls_that_cross_become_one,
            releasing_and_calling_again_loses_nothing, one_that_returns_keeps_its_name;
    }
}

messages!(shm_with_attach, SharedMemory::new(AttachPolicy::Auto));
messages!(shm_without_attach, SharedMemory::new(AttachPolicy::Off));
messages!(tcp_without_key, Loopback { key: None });
messages!(
    tcp_encrypted,
    Loopback {
        key: Some([0x5a; 32])
    }
);
messages!(udp_without_key, Datagrams { key: None });
messages!(
    udp_with_key,
    Datagrams {
        key: Some([0x5a; 32])
    }
);
