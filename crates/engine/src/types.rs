//! Handles, completions, errors and settings.

use std::time::Duration;

use causeway_sys::secret::Secret;
use causeway_transport::agent::Agent;
pub use causeway_transport::tcp::Liveness;
use causeway_transport::{Nodes, PeerError, TransferError};
pub use causeway_wire::watch::Count;

pub use crate::clock::Clock;

/// A tag under which nothing is sent: a receive for it ends with the connection of its peer. It
/// gets no message, and is never reported as an operation that makes no progress.
pub const END_OF_CONNECTION: u64 = u64::MAX;

/// A message's tag.
pub type Tag = u64;

/// An address, resolved. Valid as long as a reference is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub(crate) u64);

/// A connection with a peer. It differs from every other connection, also from later ones with the
/// same peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub(crate) u64);

/// A completion queue: operations posted to it are tested separately from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Queue(pub(crate) u64);

/// An operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpId(pub(crate) u64);

/// Handles as numbers, for callers that cannot hold them otherwise. 0 is never a handle, and an
/// invalid number is refused as stale.
macro_rules! handles_as_numbers {
    ($($handle:ident),*) => {$(
        impl $handle {
            /// The handle as a number.
            #[inline]
            pub fn to_raw(self) -> u64 {
                self.0
            }

            /// The handle that the number stands for.
            #[inline]
            pub fn from_raw(number: u64) -> Self {
                Self(number)
            }
        }
    )*};
}

handles_as_numbers!(Addr, OpId);

impl Queue {
    /// Stands for no queue: each operation that is posted to it is tested for by its handle, and in no list
    /// meanwhile, which takes fewer instructions.
    pub const UNLISTED: Self = Self(u64::MAX);

    /// The handle as a number.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0
    }

    /// The handle that the number stands for. None stands for [`Queue::UNLISTED`].
    #[inline]
    pub fn from_raw(number: u64) -> Self {
        Self(if number == u64::MAX { 0 } else { number })
    }
}

/// What a post call returns.
#[derive(Debug)]
#[must_use]
pub enum Posted {
    /// The operation completed at once and is not tested for (R1.5).
    Complete(Completion),
    /// The operation is in progress.
    Pending(OpId),
}

/// The result of a receive and its wait
/// ([`Endpoint::receive_directly`](crate::Endpoint::receive_directly)).
#[derive(Debug)]
#[must_use]
pub enum DirectReceive {
    /// The message has been received: its size in bytes.
    Whole(u64),
    /// The receive was posted, and has failed, or a connection has been lost meanwhile.
    Waits(OpId),
    /// No receive has been posted and no message taken: the call does not meet the conditions for
    /// it.
    Unusual,
}

/// A completed operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Which operation.
    pub op: OpId,
    /// The number that the caller passed to the post call.
    pub user: u64,
    /// Bytes moved, or why the operation failed.
    pub result: Result<u64, OpError>,
}

/// The envelope of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Envelope {
    /// The sender, by the number that patterns use for it
    /// ([`Endpoint::number`](crate::Endpoint::number)).
    pub peer: u32,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
    pub size: u64,
}

/// A message that [`Endpoint::take_message`](crate::Endpoint::take_message) has taken out of matching.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Taken(pub(crate) u64);

/// An unexpected message.
#[derive(Debug)]
pub struct Unexpected {
    /// The sender. The receiver owns a reference.
    pub from: Addr,
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// Why an operation failed. Other operations are not affected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The peer is gone; the operation may or may not have taken effect there.
    #[error("{address}: {cause}")]
    Peer {
        /// The peer's address.
        address: String,
        /// What happened to it.
        cause: PeerError,
    },
    /// The message is larger than the receive's memory.
    #[error("the message has {size} bytes; the receive has room for {room}")]
    TooLarge {
        /// Bytes of the message.
        size: u64,
        /// Bytes of the receive.
        room: u64,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// A transfer of remote memory failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The receiver cancelled its receive while this message was on its way into it.
    #[error("the receiver cancelled its receive")]
    Withdrawn,
}

/// Why a call was refused. Nothing was posted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The method refused.
    #[error(transparent)]
    Transport(#[from] causeway_transport::Error),
    /// The instance belongs to the process that this one was forked from.
    #[error(
        "this instance belongs to the parent of this process, which goes on using it; drop it here, and make another one \
         after fork()"
    )]
    Forked,
    /// A handle that was released, or never existed.
    #[error("stale {0}")]
    Stale(&'static str),
    /// An unexpected message above the limit.
    #[error("an unexpected message of {size} bytes; at most {limit} are allowed")]
    UnexpectedTooLarge {
        /// Bytes of the message.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Read-only memory was to be written to.
    #[error("memory that is for reading only cannot be received into or opened for writing")]
    ReadOnly,
    /// An option of the whole instance was to be set for one address.
    #[error("this option applies to the whole instance: set it without an address")]
    OptionOfInstance,
    /// A limit of the configuration is reached.
    #[error("{what}: the limit of {limit} is reached")]
    Limit {
        /// What ran out.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
}

/// An eager limit that the methods choose: each states which size pays
/// ([`causeway_transport::Limits::eager_bytes`]).
pub const EAGER_BY_METHOD: usize = usize::MAX;

/// Settings of an instance.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses to listen at, such as `shm:///run/x.sock` and `tcp://0.0.0.0:7070`. Empty for a
    /// process that only connects.
    pub listen: Vec<String>,
    /// The cluster's key: proven by both sides of all connections, and required beyond loopback.
    pub key: Option<Secret>,
    /// With a key: both sides of each connection prove which node they belong to
    /// ([`Endpoint::node`](crate::Endpoint::node)), or it is not made.
    pub nodes: Option<Nodes>,
    /// Without a key: an agent of this node makes the handshakes of the connections that this process begins.
    pub agent: Option<Agent>,
    /// Encrypt keyed connections. If not set, attackers on the network can read what travels over `tcp`, but cannot
    /// change or forge it.
    pub encrypt: bool,
    /// Messages up to this many bytes travel eagerly, larger ones by rendezvous.
    /// [`EAGER_BY_METHOD`] takes what each method prefers.
    pub eager_limit: usize,
    /// Most bytes of an unexpected message.
    pub unexpected_limit: usize,
    /// Most bytes held for unexpected and early messages of all peers together.
    pub early_memory: usize,
    /// Whether a process that computes when large messages come offers its receives to their
    /// senders, which then write straight into them. On by default.
    pub offers: bool,
    /// Most announcements of expected messages that may be unmatched at each peer, which must have
    /// the same setting: a sender at the limit waits until one is matched, and so do all its later
    /// sends to that peer. One takes some 300 bytes at the receiver.
    pub announced_limit: u32,
    /// Whether messages may be in many pieces of memory, and are then sent in parts
    /// ([`Pieces`](crate::Pieces)). Peers must have the same setting.
    pub in_parts: bool,
    /// How long connecting may take, and how long a silent connection is kept before it is probed.
    /// A connection on which the peer does not greet is given up after this time if the peer has
    /// made it, otherwise after twice this time. Also how long a peer may take to send a large
    /// unexpected message that it has announced, while messages of others wait for the memory; then
    /// its connection is dropped. Both take up to an eighth longer, and while this process does not
    /// poll, an eighth passes at most.
    pub connect_timeout: Duration,
    /// Whose silence ends a TCP connection on which this side waits for a reply: the peer's process, which then has to call
    /// this library every 30 s, or its host's, so that the process may compute for any time.
    pub liveness: Liveness,
    /// Most TCP connections with one peer, up to 16, if the peer takes as many: the first carries
    /// messages, further ones the data of large transfers. 0 leaves it to the method: one on up to two
    /// cores, else one for messages and half as many as there are cores, at most 4, for data.
    pub tcp_connections: u8,
    /// How long to spin before sleeping, at most; 0 sleeps at once, as everything does in the test
    /// mode of [`causeway_sys::waits`]. The spin adapts below this limit. Where other waiting
    /// processes use the same processors, all of them yield to each other for up to 20 times as
    /// long.
    pub spin: Duration,
    /// Whether this process has a processor to itself as a rule, as those of parallel programs do. Where no other thread wants
    /// it, a wait then keeps awake for as long as beside other waiting processes, yielding all the time, so that processes that
    /// do not reach their messages at the same time need not wake each other. Beside a CPU-bound thread it polls for
    /// [`Config::spin`].
    pub has_processor: bool,
    /// An operation that makes no progress for this long is reported in the log, and again each
    /// time that the wait has doubled; 0 never reports.
    pub stall_after: Duration,
    /// Publish the state of the instance for `causeway top`. It is in one memory file for each
    /// process, which its user and root can read.
    pub publish: bool,
    /// The clock that methods use.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            key: None,
            nodes: None,
            agent: None,
            encrypt: true,
            eager_limit: EAGER_BY_METHOD,
            unexpected_limit: 64 << 10,
            early_memory: 32 << 20,
            offers: true,
            announced_limit: causeway_wire::bmi::MAX_ANNOUNCED,
            in_parts: false,
            connect_timeout: Duration::from_secs(5),
            liveness: Liveness::default(),
            tcp_connections: 0,
            spin: Duration::from_micros(50),
            has_processor: false,
            stall_after: Duration::from_secs(10),
            publish: true,
            clock: Clock::default(),
        }
    }
}

/// An option of [`Endpoint::set_info`](crate::Endpoint::set_info).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfoOption {
    /// See [`Config::eager_limit`].
    EagerLimit(usize),
    /// See [`Config::spin`].
    Spin(Duration),
    /// See [`Config::stall_after`].
    StallAfter(Duration),
    /// Which side copies in a rendezvous.
    Rendezvous(RendezvousPolicy),
    /// This process is a server: under load its clients do the copying (Yu et al. §5.1).
    Server(bool),
    /// How many requests a server has refused because of missing rights, for observers.
    Refused(u64),
}

/// Which side copies in a rendezvous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RendezvousPolicy {
    /// By both sides' load (Yu et al., figure 6). Within a host both sides copy, from both ends of
    /// the message, while both wait.
    #[default]
    Adaptive,
    /// The receiver pulls by remote read, alone.
    Pull,
    /// The sender pushes by remote write, alone.
    Push,
}

/// The state of an instance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// Addresses with an open connection.
    pub connected: usize,
    /// Operations in progress.
    pub operations: usize,
    /// Remote-memory transfers in progress.
    pub transfers: usize,
    /// Bytes held for unexpected and early messages.
    pub early_bytes: usize,
    /// Unexpected messages that wait to be taken.
    pub unexpected_waiting: usize,
    /// How often a wait of the instance has slept.
    pub sleeps: u64,
    /// How many of these sleeps lasted until the caller's time was up.
    pub expired_sleeps: u64,
    /// What was sent: messages, and transfers of remote memory.
    pub sent: Count,
    /// Messages that were received.
    pub received: Count,
}
