//! The conformance suite, for every method and every way of configuring it that changes how it
//! works inside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use causeway_sys::secret::Secret;
use causeway_testkit::adapter::Adapter;
use causeway_testkit::conformance::Factory;
use causeway_testkit::directory::ShmAddresses;
use causeway_testkit::simulator::lossy::LossyDatagramIo;
use causeway_testkit::{conformance, conformance_between_processes, conformance_tests, loopback};
use causeway_transport::Address;
use causeway_transport::mem::{self, Mem};
use causeway_transport::nodes::files::Revoked;
use causeway_transport::nodes::member::public_key;
use causeway_transport::nodes::{Authority, CLIENT, Member, Membership, Nodes};
use causeway_transport::shm::{AttachPolicy, Shm, ShmConfig};
use causeway_transport::tcp::{Tcp, TcpConfig};
use causeway_transport::udp::sockets::Sockets;
use causeway_transport::udp::{Udp, UdpConfig};

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

/// A method of another crate, which moves registered memory only and lacks all optional abilities.
struct Registering;

impl Factory for Registering {
    type Method = Adapter;

    fn method(&self) -> Adapter {
        Adapter::new(mem::Options::default()).expect("an eventfd")
    }

    fn address(&self) -> Address {
        let inner = InProcess(mem::Options::default()).address();
        format!("adapter://{}", inner.rest())
            .parse()
            .expect("well-formed")
    }
}

/// The same over `shm`, between processes.
struct RegisteringBetweenProcesses(SharedMemory);

impl Factory for RegisteringBetweenProcesses {
    type Method = Adapter<Shm>;

    fn method(&self) -> Adapter<Shm> {
        Adapter::over(self.0.method())
    }

    fn address(&self) -> Address {
        format!("adapter://{}", self.0.address().rest())
            .parse()
            .expect("well-formed")
    }
}

/// A node that other programs keep from the processor for some seconds must not be given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(50);

/// What processes of one node know, whose authority was just drawn.
fn one_node() -> Nodes {
    let authority = Authority::draw().expect("the system has randomness");
    let key = Secret::draw().expect("the system has randomness");
    let public = public_key(&key).expect("the library has such keys");
    let roles = [CLIENT.to_owned(), "io1".to_owned()];
    let certificate = authority.sign(public, "node1", &roles, u64::MAX);
    let certificate = certificate.expect("the system has randomness");
    let member = Member::new(certificate, key).expect("its own key");
    let accepted = vec![authority.public_key()];
    let known = Membership::new(member, accepted, &Revoked::default());
    Nodes::new(known.expect("its own authority has signed it"))
}

/// `shm`, with or without cross-memory attach, and nodes.
struct SharedMemory {
    attach: AttachPolicy,
    nodes: Option<Nodes>,
    addresses: ShmAddresses,
}

impl SharedMemory {
    fn new(attach: AttachPolicy) -> Self {
        Self {
            attach,
            nodes: None,
            addresses: ShmAddresses::default(),
        }
    }

    fn of_nodes() -> Self {
        Self {
            nodes: Some(one_node()),
            ..Self::new(AttachPolicy::Auto)
        }
    }
}

impl Factory for SharedMemory {
    type Method = Shm;

    fn method(&self) -> Shm {
        let config = ShmConfig {
            attach: self.attach,
            key: self.nodes.is_some().then(|| ANY_KEY.into()),
            nodes: self.nodes.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            ..ShmConfig::default()
        };
        Shm::new(config).expect("shared memory works here")
    }

    fn address(&self) -> Address {
        self.addresses.fresh().parse().expect("well-formed")
    }
}

fn loopback(scheme: &str) -> Address {
    format!("{scheme}://{}", loopback::fresh())
        .parse()
        .expect("well-formed")
}

/// `tcp` over loopback.
struct Loopback {
    key: Option<[u8; 32]>,
    encrypt: bool,
    connections: u8,
    nodes: Option<Nodes>,
}

impl Loopback {
    /// Between nodes.
    fn between_nodes(encrypt: bool) -> Self {
        Self {
            encrypt,
            nodes: Some(one_node()),
            ..KEYED
        }
    }
}

impl Factory for Loopback {
    type Method = Tcp;

    fn method(&self) -> Tcp {
        let config = TcpConfig {
            key: self.key.map(Into::into),
            encrypt: self.encrypt,
            connections: self.connections,
            nodes: self.nodes.clone(),
            connect_timeout: CONNECT_TIMEOUT,
            ..TcpConfig::default()
        };
        Tcp::new(config).expect("epoll works here")
    }

    fn address(&self) -> Address {
        loopback("tcp")
    }

    fn vacant(&self) -> Address {
        loopback("tcp")
    }
}

/// `udp` over loopback.
struct Datagrams {
    key: Option<[u8; 32]>,
}

impl Factory for Datagrams {
    type Method = Udp;

    fn method(&self) -> Udp {
        // A node that was idle when its peer died finds out by probing, and one that ends beside a node that is not polled
        // lingers in vain. A test should not wait for either for long.
        let config = UdpConfig {
            key: self.key.map(Into::into),
            probe_interval: Duration::from_millis(500),
            linger_timeout: Duration::from_millis(100),
            ..UdpConfig::default()
        };
        Udp::new(config).expect("epoll works here")
    }

    fn address(&self) -> Address {
        loopback("udp")
    }

    fn vacant(&self) -> Address {
        loopback("udp")
    }
}

/// `udp` over loopback, with a network that loses, doubles and reorders some datagrams.
struct Lossy;

impl Factory for Lossy {
    type Method = Udp<LossyDatagramIo<Sockets>>;

    fn method(&self) -> Self::Method {
        let sockets = Sockets::new().expect("epoll works here");
        // If the last packet is lost, the peer is found gone by probing, which a test should not wait for long.
        let config = UdpConfig {
            probe_interval: Duration::from_millis(200),
            ..UdpConfig::default()
        };
        Udp::over(LossyDatagramIo::new(sockets, 1), config)
    }

    fn address(&self) -> Address {
        PLAIN.address()
    }

    fn vacant(&self) -> Address {
        PLAIN.vacant()
    }
}

/// Queues of three packets and pieces of a few bytes, so that limits are reached all the time.
const TIGHT: mem::Options = mem::Options {
    queue_packets: 3,
    max_packet: 4096 + 256,
    max_piece: 4099,
    max_list: 1000,
    stopped: None,
};

const ANY_KEY: [u8; 32] = [0x5a; 32];
const KEY: Option<[u8; 32]> = Some(ANY_KEY);

const TRUSTING: Loopback = Loopback {
    key: None,
    encrypt: false,
    connections: 1,
    nodes: None,
};
const KEYED: Loopback = Loopback {
    key: KEY,
    encrypt: false,
    connections: 1,
    nodes: None,
};
const ENCRYPTED: Loopback = Loopback {
    key: KEY,
    encrypt: true,
    connections: 1,
    nodes: None,
};
/// Four connections with each peer, as on a machine with cores for them.
const WITH_SUBFLOWS: Loopback = Loopback {
    key: None,
    encrypt: false,
    connections: 4,
    nodes: None,
};
const ENCRYPTED_WITH_SUBFLOWS: Loopback = Loopback {
    key: KEY,
    encrypt: true,
    connections: 3,
    nodes: None,
};

const PLAIN: Datagrams = Datagrams { key: None };
const SEALED: Datagrams = Datagrams { key: KEY };

conformance!(mem_in_process, InProcess(mem::Options::default()));
conformance!(mem_with_tight_queues, InProcess(TIGHT));
conformance!(adapter_of_registered_memory, Registering);

conformance!(shm_with_attach, SharedMemory::new(AttachPolicy::Auto));
conformance!(shm_without_attach, SharedMemory::new(AttachPolicy::Off));
conformance!(shm_between_nodes, SharedMemory::of_nodes());
conformance!(tcp_without_key, TRUSTING);
conformance!(tcp_with_key, KEYED);
conformance!(tcp_encrypted, ENCRYPTED);
conformance!(tcp_between_nodes, Loopback::between_nodes(false));
conformance!(tcp_encrypted_between_nodes, Loopback::between_nodes(true));
conformance!(udp_without_key, PLAIN);
conformance!(udp_with_key, SEALED);

/// Rules that hold with any losses. How soon a peer is served or woken is none of them: that may take until
/// lost packets have been sent again.
mod udp_with_losses {
    use super::*;
    conformance_tests! { Lossy;
        packets: keep_their_order, of_every_size_arrive, too_large_are_refused,
            are_held_back_by_a_receiver_that_does_not_poll, flow_both_ways_at_once,
            of_many_peers, to_oneself, of_a_poll_are_bounded,
            to_several_peers_at_once;
        transfers: move_every_byte_both_ways, with_mismatched_fragments,
            of_thousands_of_fragments, of_many_megabytes, of_nothing_complete,
            of_unequal_lengths_fail, started_by_the_accepting_side,
            notify_after_the_bytes_and_in_order, many_at_once_complete_each_once,
            to_oneself, of_allocated_memory_and_mapping, with_a_notify_too_large,
            both_ways_between_two_peers_at_once;
        atomics: return_what_was_there, of_what_is_not_exported_fail,
            of_misaligned_words_fail, in_great_number_complete_each_once,
            of_several_clients_and_the_owner_add_up, of_a_lost_peer_complete;
        protection: of_unknown_keys, of_ended_exports, of_ranges, of_access,
            of_other_peers_exports, of_objects, failed_transfers_do_not_notify,
            holds_the_moment_an_export_ends;
        registration: covers_every_part, ends_behind_what_was_begun,
            is_needed_where_stated, outlives_peers;
        pausing: keeps_the_order, stops_at_packets_only, ends_with_the_peer,
            holds_for_a_connection_to_come;
        replies: keep_a_packet_going, are_held_up_as_all_packets, read_what_their_peers_export, end_exports;
        lifecycle: an_absent_peer_is_reported, a_transfer_with_an_absent_peer_fails, a_later_listener_is_reached,
            same_address_same_handle, a_restarted_peer_is_a_new_incarnation,
            a_departed_caller_is_gone, a_departure_ends_transfers,
            disconnecting_ends_transfers_and_exports, stale_handles_are_refused;
    }
}
conformance!(tcp_with_subflows, WITH_SUBFLOWS);
conformance!(tcp_encrypted_with_subflows, ENCRYPTED_WITH_SUBFLOWS);

conformance_between_processes!(shm_with_attach_death, SharedMemory::new(AttachPolicy::Auto));
conformance_between_processes!(
    shm_without_attach_death,
    SharedMemory::new(AttachPolicy::Off)
);
conformance_between_processes!(
    adapter_of_registered_memory_death,
    RegisteringBetweenProcesses(SharedMemory::new(AttachPolicy::Auto))
);
conformance_between_processes!(tcp_without_key_death, TRUSTING);
conformance_between_processes!(tcp_with_key_death, KEYED);
conformance_between_processes!(tcp_encrypted_death, ENCRYPTED);
conformance_between_processes!(udp_without_key_death, PLAIN);
conformance_between_processes!(udp_with_key_death, SEALED);
conformance_between_processes!(tcp_with_subflows_death, WITH_SUBFLOWS);
