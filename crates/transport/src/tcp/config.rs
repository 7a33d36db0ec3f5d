//! The settings of the TCP method.

use std::time::Duration;

use causeway_sys::secret::Secret;

use crate::agent::Agent;
use crate::nodes::Nodes;

/// The most connections with one peer that can be configured.
pub const MAX_CONNECTIONS: u8 = causeway_wire::tcp::MAX_CONNECTIONS;

/// Whose silence ends a connection on which this side waits for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Liveness {
    /// The peer's process: it has to poll now and then, and replies to probes when it does.
    #[default]
    Process,
    /// The peer's host: the process may compute, or be stopped, for any time. Its death is reported by
    /// its host.
    Host,
}

/// The settings of one [`Tcp`](super::Tcp).
#[derive(Clone)]
pub struct TcpConfig {
    /// The cluster's key. Both sides of a connection hold the same, or neither holds one; without
    /// it, connections are made only with processes of the same user on this host, over loopback
    /// addresses.
    pub key: Option<Secret>,
    /// With a key: both sides of a connection prove which node they are, or it is not made.
    pub nodes: Option<Nodes>,
    /// Without a key: an agent that has one makes the handshakes of connections that this process begins.
    pub agent: Option<Agent>,
    /// With a key: whether to encrypt connections. A connection is encrypted if either side requests that, or speaks a
    /// format without the alternative. The alternative is that each record is only authenticated: an attacker that can
    /// read the network then reads everything, but still cannot change, forge, repeat or reorder anything.
    pub encrypt: bool,
    /// How long connecting to a peer may take, including authentication.
    pub connect_timeout: Duration,
    /// How long a peer that has yet to reply to something may be silent. After a third of this it
    /// is probed. The kernel probes idle connections at the same rate.
    pub liveness_timeout: Duration,
    /// Whether that is the silence of the peer's process or that of its host.
    pub liveness: Liveness,
    /// How long packets that were accepted before a disconnect may take to leave.
    pub linger_timeout: Duration,
    /// Most bytes of packets that may be queued for one peer.
    pub queue_bytes: usize,
    /// Most transfers with one peer that may be in progress.
    pub max_transfers: usize,
    /// How many peers there may be. A user whose handshakes are made by the agent of a node may have an eighth of them, or an eighth of the
    /// files that the process may have open if those are fewer. Connections for data are counted, too.
    pub max_peers: usize,
    /// Most connections that are not trusted yet at any one time, in addition to the peers; at most
    /// a quarter of the files that the process may have open. A user of this host, or another host,
    /// has at most half of them.
    pub max_half_open: usize,
    /// Most connections with one peer, if the other side supports as many: those beyond the first,
    /// which carries packets, are made when the first large transfer starts and carry the data of
    /// large transfers. At most [`MAX_CONNECTIONS`].
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
            liveness: Liveness::default(),
            linger_timeout: Duration::from_secs(2),
            queue_bytes: 1 << 20,
            max_transfers: 1024,
            max_peers: 1 << 16,
            max_half_open: 8192,
            connections: default_connections(),
        }
    }
}

/// One connection if there are few cores, else one for packets and up to four for data.
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
            .field("liveness", &self.liveness)
            .field("linger_timeout", &self.linger_timeout)
            .field("queue_bytes", &self.queue_bytes)
            .field("max_transfers", &self.max_transfers)
            .field("max_peers", &self.max_peers)
            .field("max_half_open", &self.max_half_open)
            .field("connections", &self.connections)
            .finish()
    }
}
