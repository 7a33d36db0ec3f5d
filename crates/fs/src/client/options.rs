//! The options of a client, and the user for whom it makes requests.

use causeway_wire::fs::Caller;

use super::long_reads::LongReadWay;

/// Options of a client.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// The user for whom it makes requests; the process's own identity if absent.
    pub caller: Option<Caller>,
    /// Use only addresses of this scheme (`shm`, `tcp`), for measurements.
    pub only_scheme: Option<String>,
    /// Record how long each stage of reads and writes takes, for [`Client::take_stages`](super::Client::take_stages).
    pub record_stages: bool,
    /// The way that long reads into ordinary memory take on the servers' host, for tests and measurements. If absent, the client finds out
    /// which is fastest.
    pub long_reads: Option<LongReadWay>,
}

/// The process's user, group and supplementary groups.
pub fn own_identity() -> Caller {
    let groups = rustix::process::getgroups().unwrap_or_default();
    Caller {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        groups: groups
            .into_iter()
            .take(causeway_wire::fs::MAX_GROUPS)
            .map(|group| group.as_raw())
            .collect(),
        umask: 0,
    }
}
