//! The settings of the TCP method.

use std::time::Duration;

use causeway_sys::secret::Secret;

use crate::agent::Agent;
use crate::nodes::Nodes;

/// The most connections with one peer that can be asked for.
pub const MAX_CONNECTIONS: u8 = causeway_wire::tcp::MAX_CONNECTIONS;

/// The settings of one [`Tcp`](super::Tcp).
#[derive(Clone)]
pub struct TcpConfig {
    /// The cluster's key. Both sides of a connection hold the same, or neither holds one; without
    /// it, only processes of the same user on this host are talked to, over loopback addresses.
    pub key: Option<Secret>,
    /// With a key: each side of a connection proves which node it is, and talks to no side that does not.
    pub nodes: Option<Nodes>,
    /// Without a key: an agent that has one makes the handshakes of connections that this process begins.
    pub agent: Option<Agent>,
    /// With a key: whether connections are encrypted. It is done if either side wants it, or speaks a format without
    /// the alternative: each record is authenticated. An attacker that can read the network then reads everything, and can
    /// still not change, forge, repeat or reorder anything.
    pub encrypt: bool,
    /// How long connecting to a peer, with everything up to mutual trust, may take.
    pub connect_timeout: Duration,
    /// How long a peer that owes us something may be silent. A third of it passes before it is asked
    /// for a sign of life. The kernel watches idle connections at the same pace.
    pub liveness_timeout: Duration,
    /// How long packets that were accepted before a disconnect may take to leave.
    pub linger_timeout: Duration,
    /// How many bytes of packets may wait for one peer.
    pub queue_bytes: usize,
    /// How many transfers with one peer may be unfinished.
    pub max_transfers: usize,
    /// How many peers there may be. One user for whom the agent of a node speaks may have an eighth of them, or of the files that the process
    /// may have open if those are fewer: connections for data are counted, too.
    pub max_peers: usize,
    /// How many connections that are not trusted yet may stand at one time, beside the peers; at most a quarter of
    /// the files that the process may have open. A user of this host, or another host, has half of them at most.
    pub max_half_open: usize,
    /// How many connections with one peer there may be, if the other side takes as many: beyond the
    /// first, which carries packets, they are made when the first large transfer starts and carry
    /// the data of large transfers. At most [`MAX_CONNECTIONS`].
    pub connections: u8,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            key: None,
            nodes: None,
            agent: None,
            encrypt: true,
            connect_timeout: Duration::from_secs(5),
            liveness_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(2),
            queue_bytes: 1 << 20,
            max_transfers: 1024,
            max_peers: 1 << 16,
            max_half_open: 8192,
            connections: default_connections(),
        }
    }
}

/// One connection where few cores do everything, else one for packets and up to four for data.
fn default_connections() -> u8 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    match cores {
        0..=2 => 1,
        _ => 1 + (cores / 2).min(4) as u8,
    }
}

impl std::fmt::Debug for TcpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpConfig")
            .field("key", &self.key)
            .field("nodes", &self.nodes)
            .field("agent", &self.agent)
            .field("encrypt", &self.encrypt)
            .field("connect_timeout", &self.connect_timeout)
            .field("liveness_timeout", &self.liveness_timeout)
            .field("linger_timeout", &self.linger_timeout)
            .field("queue_bytes", &self.queue_bytes)
            .field("max_transfers", &self.max_transfers)
            .field("max_peers", &self.max_peers)
            .field("max_half_open", &self.max_half_open)
            .field("connections", &self.connections)
            .finish()
    }
}
