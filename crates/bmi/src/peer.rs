//! What is known about one process that messages go to or come from.

use std::collections::VecDeque;

use causeway_transport::{Peer as Handle, PeerError};

use crate::credit::{Account, Budget, Grant};
use crate::matching::Keyed;
use crate::op::Incoming;
use crate::slab::{Bucket, Linked, Links, List};
use crate::traffic::Traffic;
use crate::types::Tag;
use crate::watch::Watched;

/// Where a peer's connection stands.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// An address that we looked up, without a connection. The next operation makes one.
    Closed,
    /// The connection is being made, or the peer's greeting has not come yet.
    Greeting,
    /// Messages may flow.
    Up,
    /// The method reported it down, or it sent nonsense; the cleaning up is on its way.
    Falling,
    /// A peer that connected to us and is gone for good.
    Gone(PeerError),
}

/// One process.
pub(crate) struct Peer {
    /// Its address or addresses as text.
    pub(crate) text: String,
    /// References that callers hold.
    pub(crate) refs: u32,
    /// We looked it up; otherwise it connected to us.
    pub(crate) outbound: bool,
    pub(crate) phase: Phase,
    /// The method, by index, and its handle.
    pub(crate) link: Option<(usize, Handle)>,
    /// The present connection has stood: its end is not a failed attempt.
    pub(crate) was_up: bool,
    /// How many of the candidate addresses have failed in this attempt.
    pub(crate) attempt: usize,
    /// Why an address was passed over, for people.
    pub(crate) notes: Vec<String>,
    /// The method's largest packet.
    pub(crate) max_packet: usize,
    /// Up to how many bytes the method would rather send a message whole.
    pub(crate) eager_bytes: usize,
    /// Overrides the instance's limit.
    pub(crate) eager_limit: Option<usize>,
    /// Largest message that goes eagerly.
    pub(crate) eager_max: u64,

    /// What we may send.
    pub(crate) account: Account,
    /// What it may send.
    pub(crate) grant: Grant,
    /// Packets without a message, which go first.
    pub(crate) control: VecDeque<Vec<u8>>,
    /// Sends that wait, by operation.
    pub(crate) expected: VecDeque<u32>,
    /// Unexpected sends that wait: they may wait for credit without holding up the others.
    pub(crate) unexpected: VecDeque<u32>,
    /// Our announcements that may lie unmatched there.
    pub(crate) announced: u32,
    pub(crate) announced_unexpected: u32,
    /// Its announcements that lie unmatched here.
    pub(crate) announcements: u32,
    pub(crate) announcements_unexpected: u32,
    /// The method has no room; it will say when it has.
    pub(crate) blocked: bool,
    /// In the list of peers to flush.
    pub(crate) dirty: bool,
    /// The peer waits for credit: it gets all that there is at once.
    pub(crate) starving: bool,
    /// Tell the peer how large its window is.
    pub(crate) tell_window: bool,
    /// Transfers in progress.
    pub(crate) transfers: u32,

    /// Operations that are not done, without the receives in the list below.
    pub(crate) ops: List,
    /// Receives that wait for a message and are not in the table of receives, all of them younger than those
    /// that are.
    pub(crate) fresh: List,
    /// How many of this peer's receives are in the table.
    pub(crate) filed: u32,
    /// Messages that no receive has asked for yet.
    pub(crate) early: List,
    /// Unexpected messages in order.
    pub(crate) arrived: VecDeque<Arrived>,
    /// In the ring of peers whose first unexpected message is ready.
    pub(crate) in_ring: bool,
    /// In the ring of peers whose unexpected messages are to be fetched.
    pub(crate) in_fetch_ring: bool,

    pub(crate) traffic: Traffic,
    pub(crate) watched: Watched,
}

/// An expected message that came before its receive.
pub(crate) struct Early {
    /// In the peer's list.
    pub(crate) links: Links,
    /// In the table of early messages.
    pub(crate) bucket: Links,
    pub(crate) peer: u32,
    pub(crate) tag: Tag,
    pub(crate) body: EarlyBody,
}

/// Where an early message is.
pub(crate) enum EarlyBody {
    /// Here.
    Whole(Vec<u8>),
    /// Still with its sender.
    Announced(Box<Incoming>),
}

impl Linked for Early {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Linked<Bucket> for Early {
    fn links(&mut self) -> &mut Links {
        &mut self.bucket
    }
}

impl Keyed for Early {
    fn key(&self) -> (u32, Tag) {
        (self.peer, self.tag)
    }
}

/// An unexpected message.
pub(crate) enum Arrived {
    /// It can be taken. It costs credit, or was fetched.
    Ready {
        tag: Tag,
        data: Vec<u8>,
        fetched: bool,
    },
    /// It waits for memory to be fetched into.
    Announced { tag: Tag, incoming: Box<Incoming> },
    /// This operation fetches it.
    Fetching { op: u32 },
}

impl Peer {
    /// An address that was looked up.
    pub(crate) fn looked_up(text: String) -> Self {
        Self {
            text,
            refs: 1,
            outbound: true,
            phase: Phase::Closed,
            link: None,
            was_up: false,
            attempt: 0,
            notes: Vec::new(),
            max_packet: 0,
            eager_bytes: 0,
            eager_limit: None,
            eager_max: 0,
            account: Account::default(),
            grant: Grant::default(),
            control: VecDeque::new(),
            expected: VecDeque::new(),
            unexpected: VecDeque::new(),
            announced: 0,
            announced_unexpected: 0,
            announcements: 0,
            announcements_unexpected: 0,
            blocked: false,
            dirty: false,
            starving: false,
            tell_window: false,
            transfers: 0,
            ops: List::default(),
            fresh: List::default(),
            filed: 0,
            early: List::default(),
            arrived: VecDeque::new(),
            in_ring: false,
            in_fetch_ring: false,
            traffic: Traffic::default(),
            watched: Watched::default(),
        }
    }

    /// A peer that has connected to us.
    pub(crate) fn caller(text: String) -> Self {
        Self {
            refs: 0,
            outbound: false,
            ..Self::looked_up(text)
        }
    }

    /// Starts a connection's life: greeting to be sent, nothing known of the other side.
    pub(crate) fn greet(&mut self, budget: &mut Budget, link: (usize, Handle), max_packet: usize) {
        self.phase = Phase::Greeting;
        self.was_up = false;
        self.link = Some(link);
        self.max_packet = max_packet;
        self.account = Account::default();
        self.grant.open(budget);
        self.blocked = false;
        self.starving = false;
        self.announced = 0;
        self.announced_unexpected = 0;
        self.announcements = 0;
        self.announcements_unexpected = 0;
        self.control.clear();
    }

    /// Whether messages may flow.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.phase, Phase::Up)
    }

    /// Whether an operation is not done.
    #[inline]
    pub(crate) fn has_operations(&self) -> bool {
        !self.ops.is_empty() || !self.fresh.is_empty()
    }

    /// The number of our announcements of this kind that may lie unmatched there.
    pub(crate) fn announced(&mut self, unexpected: bool) -> &mut u32 {
        if unexpected {
            &mut self.announced_unexpected
        } else {
            &mut self.announced
        }
    }

    /// Whether the first unexpected message can be taken.
    pub(crate) fn first_is_ready(&self) -> bool {
        matches!(self.arrived.front(), Some(Arrived::Ready { .. }))
    }
}
