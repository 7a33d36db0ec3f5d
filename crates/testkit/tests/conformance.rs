//! The conformance suite, for every method and every way of configuring it that changes how it
//! works inside.

use std::cell::OnceCell;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_testkit::conformance::Factory;
use causeway_testkit::{conformance, conformance_between_processes, directory};
use causeway_transport::Address;
use causeway_transport::mem::{self, Mem};
use causeway_transport::shm::{AttachPolicy, Shm, ShmConfig};
use causeway_transport::tcp::{Tcp, TcpConfig};
use tempfile::TempDir;

/// `mem`, which lives inside one process.
struct InProcess(mem::Options);

impl Factory for InProcess {
    type Method = Mem;

    fn method(&self) -> Mem {
        Mem::new(self.0).expect("an eventfd")
    }

    fn address(&self) -> Address {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("mem://conformance-{number}")
            .parse()
            .expect("well-formed")
    }
}

/// `shm`, with or without leave to reach into the peer's memory directly.
struct SharedMemory {
    attach: AttachPolicy,
    /// Made when it is needed: a process that is going to be killed needs none.
    directory: OnceCell<TempDir>,
}

impl SharedMemory {
    fn new(attach: AttachPolicy) -> Self {
        Self {
            attach,
            directory: OnceCell::new(),
        }
    }
}

impl Factory for SharedMemory {
    type Method = Shm;

    fn method(&self) -> Shm {
        let config = ShmConfig {
            attach: self.attach,
            ..ShmConfig::default()
        };
        Shm::new(config).expect("shared memory works here")
    }

    fn address(&self) -> Address {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = self.directory.get_or_init(directory::fresh);
        format!("shm://{}/{number}", directory.path().display())
            .parse()
            .expect("well-formed")
    }
}

/// `tcp` over loopback.
struct Loopback {
    key: Option<[u8; 32]>,
    encrypt: bool,
    lanes: u8,
}

impl Factory for Loopback {
    type Method = Tcp;

    fn method(&self) -> Tcp {
        let config = TcpConfig {
            key: self.key,
            encrypt: self.encrypt,
            lanes: self.lanes,
            ..TcpConfig::default()
        };
        Tcp::new(config).expect("epoll works here")
    }

    fn address(&self) -> Address {
        "tcp://127.0.0.1:0".parse().expect("well-formed")
    }

    fn vacant(&self) -> Address {
        // The kernel does not give a port that was just freed to the next one who asks.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        format!("tcp://127.0.0.1:{port}")
            .parse()
            .expect("well-formed")
    }
}

/// Queues of three packets and pieces of a few bytes: every corner is met all the time.
const TIGHT: mem::Options = mem::Options {
    queue_packets: 3,
    max_packet: 4096 + 256,
    max_piece: 4099,
};

const KEY: Option<[u8; 32]> = Some([0x5a; 32]);

const TRUSTING: Loopback = Loopback {
    key: None,
    encrypt: false,
    lanes: 1,
};
const KEYED: Loopback = Loopback {
    key: KEY,
    encrypt: false,
    lanes: 1,
};
const ENCRYPTED: Loopback = Loopback {
    key: KEY,
    encrypt: true,
    lanes: 1,
};
/// Four connections with each peer, as on a machine with cores for them.
const WITH_LANES: Loopback = Loopback {
    lanes: 4,
    ..TRUSTING
};
const ENCRYPTED_WITH_LANES: Loopback = Loopback {
    lanes: 3,
    ..ENCRYPTED
};

conformance!(mem_in_process, InProcess(mem::Options::default()));
conformance!(mem_with_tight_queues, InProcess(TIGHT));

conformance!(shm_with_attach, SharedMemory::new(AttachPolicy::Auto));
conformance!(shm_without_attach, SharedMemory::new(AttachPolicy::Off));
conformance!(tcp_without_key, TRUSTING);
conformance!(tcp_with_key, KEYED);
conformance!(tcp_encrypted, ENCRYPTED);
conformance!(tcp_with_lanes, WITH_LANES);
conformance!(tcp_encrypted_with_lanes, ENCRYPTED_WITH_LANES);

conformance_between_processes!(shm_with_attach_death, SharedMemory::new(AttachPolicy::Auto));
conformance_between_processes!(
    shm_without_attach_death,
    SharedMemory::new(AttachPolicy::Off)
);
conformance_between_processes!(tcp_without_key_death, TRUSTING);
conformance_between_processes!(tcp_with_key_death, KEYED);
conformance_between_processes!(tcp_encrypted_death, ENCRYPTED);
conformance_between_processes!(tcp_with_lanes_death, WITH_LANES);
