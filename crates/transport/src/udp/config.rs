//! The settings of the UDP method.

use std::time::Duration;

use causeway_sys::secret::Secret;

/// The settings of one [`Udp`](super::Udp).
#[derive(Clone)]
pub struct UdpConfig {
    /// The cluster's key. Both sides of a connection hold the same, or neither holds one; without
    /// it, connections are made only with processes of the same user on this host, over loopback
    /// addresses. Everything is encrypted in both cases: an attacker that can inject a datagram
    /// could otherwise forge one.
    pub key: Option<Secret>,
    /// How long connecting to a peer may take, including authentication.
    pub connect_timeout: Duration,
    /// How long a peer that has yet to reply to something may be silent. Only the peer's process
    /// itself replies, so a process that others send to must poll more often than this.
    pub liveness_timeout: Duration,
    /// A peer that is silent for this long is probed. If its process is gone, its host reports
    /// that.
    pub probe_interval: Duration,
    /// How long a peer, after its host has reported that its process is gone, has to prove the
    /// opposite.
    pub suspicion_timeout: Duration,
    /// How long packets that were accepted before a disconnect may take to leave.
    pub linger_timeout: Duration,
    /// Most bytes of packets that may be queued for one peer.
    pub queue_bytes: usize,
    /// How much one peer may send before it is acknowledged, and so how much out-of-order data is
    /// kept.
    pub window_bytes: usize,
    /// Most transfers with one peer that may be in progress.
    pub max_transfers: usize,
    /// Most peers.
    pub max_peers: usize,
    /// Most connections that are not trusted yet at any one time, in addition to the peers. A user
    /// of this host, or another host, has at most half of them.
    pub max_half_open: usize,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            key: None,
            connect_timeout: Duration::from_secs(5),
            liveness_timeout: Duration::from_secs(30),
            probe_interval: Duration::from_secs(5),
            suspicion_timeout: Duration::from_millis(500),
            linger_timeout: Duration::from_secs(2),
            queue_bytes: 1 << 20,
            window_bytes: 1 << 20,
            max_transfers: 1024,
            max_peers: 1 << 16,
            max_half_open: 512,
        }
    }
}

impl std::fmt::Debug for UdpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpConfig")
            .field("key", &self.key)
            .field("connect_timeout", &self.connect_timeout)
            .field("liveness_timeout", &self.liveness_timeout)
            .field("probe_interval", &self.probe_interval)
            .field("suspicion_timeout", &self.suspicion_timeout)
            .field("linger_timeout", &self.linger_timeout)
            .field("queue_bytes", &self.queue_bytes)
            .field("window_bytes", &self.window_bytes)
            .field("max_transfers", &self.max_transfers)
            .field("max_peers", &self.max_peers)
            .field("max_half_open", &self.max_half_open)
            .finish()
    }
}
