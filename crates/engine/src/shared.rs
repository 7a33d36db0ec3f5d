//! The state that the conversations of one instance share: operations, the matcher, memory for
//! messages that came before their receives, and the work queued for their driver.

use std::collections::VecDeque;

use causeway_sys::memory::{HeldSpans, Memory};
use causeway_transport::slab::Slab;
use causeway_transport::{PeerError, Takes};

use crate::credit::Budget;
use crate::direct::Direct;
use crate::fetches::Fetches;
use crate::fragments::Fragments;
use crate::greetings::Greetings;
use crate::handshake::Own;
use crate::lists::{Linked, Links, List, NONE};
use crate::matcher::Matcher;
use crate::offers::Watch;
use crate::operation::{Incoming, Op, State};
use crate::patience::Patience;
use crate::shrinking::Shrinking;
use crate::traffic::Touched;
use crate::transfers::Transfers;
use crate::types::{Completion, Envelope, Error, OpError, OpId, Queue, RendezvousPolicy, Tag};

/// Most operations in progress in one instance.
pub(crate) const MAX_OPERATIONS: usize = 1 << 20;

/// Most receives that wait to be offered. Where this many are posted without a poll between, the
/// caller is busy.
const MAX_TO_OFFER: usize = 64;

/// The index of no completion queue: completions to it are dropped.
pub(crate) const NO_QUEUE: u32 = NONE;

/// The index of [`Queue::UNLISTED`]: its completions are in no list.
pub(crate) const UNLISTED: u32 = NONE - 1;

/// Settings that can be changed at run time.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// See [`Config::eager_limit`](crate::types::Config::eager_limit).
    pub eager_limit: usize,
    /// See [`Config::unexpected_limit`](crate::types::Config::unexpected_limit).
    pub unexpected_limit: usize,
    /// See [`Config::announced_limit`](crate::types::Config::announced_limit).
    pub announced_limit: u32,
    /// Which side copies in a rendezvous.
    pub policy: RendezvousPolicy,
    /// See [`InfoOption::Server`](crate::types::InfoOption::Server).
    pub server: bool,
    /// See [`Config::offers`](crate::types::Config::offers).
    pub offers: bool,
}

/// See the module's page.
pub(crate) struct Shared<M> {
    pub(crate) tuning: Tuning,
    pub(crate) own: Own,
    pub(crate) ops: Slab<Op>,
    pub(crate) matcher: M,
    /// References to the memory of waiting receives: one reference serves many of them.
    pub(crate) references: HeldSpans,
    /// Messages that came before their receives.
    pub(crate) early: Slab<Early>,
    /// Buffers for the bytes of early messages, and for control packets.
    pub(crate) buffers: Buffers,
    pub(crate) queues: Slab<List>,
    /// Peers whose first unexpected message can be taken, round robin.
    pub(crate) ready: VecDeque<u32>,
    /// Unexpected messages that have arrived and were not taken yet.
    pub(crate) unexpected_waiting: usize,
    pub(crate) budget: Budget,
    /// Which large unexpected messages are to be fetched.
    pub(crate) fetches: Fetches,
    /// See [`Conversations::set_patience`](crate::conversations::Conversations::set_patience).
    pub(crate) patience: Option<Patience>,
    pub(crate) transfers: Transfers,
    pub(crate) work: VecDeque<Work>,
    /// Greetings that have begun.
    pub(crate) greetings: Greetings,
    /// Which peer's window is made smaller next.
    pub(crate) shrinking: Shrinking,
    /// Receives, by key, that are to be offered to their senders when there is nothing else to do.
    pub(crate) to_offer: Vec<u64>,
    /// Whether offering would pay.
    pub(crate) watch: Watch,
    /// Operations, by key, whose memory a stopped peer holds, and what they complete with once it is free.
    pub(crate) held: Vec<(u64, Result<u64, OpError>)>,
    /// Peers with something to send.
    pub(crate) dirty: Vec<u32>,
    /// Peers whose packets the method holds, if a send waits for those to leave ([`State::Held`]).
    pub(crate) holding: Vec<u32>,
    /// A method that may hold packets has accepted some since its last flush.
    pub(crate) wants_flush: bool,
    /// How many packets a poll takes: other than [`Takes::Some`] while the caller waits for one message
    /// ([`Endpoint::receive_directly`](crate::Endpoint::receive_directly)).
    pub(crate) takes: Takes,
    /// The memory for that message while no receive is posted for it.
    pub(crate) direct: Direct,
    /// Peers that have more to send, after other peers and after packets that arrive.
    pub(crate) postponed: Vec<u32>,
    /// How many connections have come up.
    pub(crate) connections: u64,
    /// How many operations have become done; a change shows that one has.
    pub(crate) completions: u64,
    /// How many messages came before their receives, likewise.
    pub(crate) arrivals: u64,
    /// How many connections were lost, likewise.
    pub(crate) losses: u64,
    /// See [`Endpoint::envelope`](crate::Endpoint::envelope).
    pub(crate) envelope: Envelope,
    /// Peers whose state has changed, for observers.
    pub(crate) touched: Touched,
}

/// Queued work. Operations and peers are named by keys: they may be gone when it is done.
#[derive(Debug)]
pub(crate) enum Work {
    /// Memory of an operation is to be exported.
    Export(u64),
    /// End the exports of an operation, then complete it.
    Finish(u64, Result<u64, OpError>),
    /// Match a receive again: the sender has withdrawn its message.
    Rematch(u64),
    /// A peer has connected to us.
    Called(u64),
    /// A peer that has connected to us has introduced itself.
    Introduced(u64),
    /// A peer does not need the connection any more.
    MayLeave(u64),
    /// Neither side needs the connection any more, and this side is to close it.
    MayClose(u64),
    /// A connection was lost that was not needed here.
    Left(u64),
    /// A peer needs the connection that was not needed here.
    Stays(u64),
    /// A peer was lost.
    Lost(u64, PeerError),
    /// A peer has not ended the greeting of this number, and has had this much time.
    Silent {
        peer: u64,
        greeting: u64,
        limit_ms: u64,
    },
    /// A peer violated the protocol.
    ProtocolError(u64, String),
    /// Have the method keep the message that it is writing into memory of a receive of this peer.
    CancelPlacement(u64),
    /// The last reference or operation of a peer is gone.
    Release(u64),
    /// Window is needed by this peer: take some from one that has more. At most one such entry is
    /// queued.
    Shrink,
    /// Large unexpected messages may be fetched. At most one such entry is queued.
    Fetch,
    /// A transfer has ended, or can be started. At most one such entry is queued.
    Transfers,
}

/// An expected message that came before its receive.
#[derive(Default)]
pub(crate) struct Early {
    /// Links in the conversation's list.
    pub(crate) links: Links,
    pub(crate) peer: u32,
    pub(crate) tag: Tag,
    /// It was taken out of matching: only the caller that took it gets it.
    pub(crate) taken: bool,
    pub(crate) body: EarlyBody,
}

/// Small buffers that are reused, so that neither an early message nor a control packet allocates.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    /// Most buffers that are kept, and most bytes of each: 128 KiB together.
    const MOST: usize = 32;
    const LARGEST: usize = 4 << 10;

    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    pub(crate) fn holding(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = self.take();
        buffer.extend_from_slice(bytes);
        buffer
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.free.len() < Self::MOST && buffer.capacity() <= Self::LARGEST {
            self.free.push(buffer);
        }
    }
}

/// Where the bytes of an early message are.
pub(crate) enum EarlyBody {
    /// Here.
    Whole(Vec<u8>),
    /// Still at its sender.
    Announced(Incoming),
}

impl Default for EarlyBody {
    fn default() -> Self {
        Self::Whole(Vec::new())
    }
}

impl Linked for Early {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The result of a test, small enough for registers.
pub(crate) enum Tested {
    /// Not done.
    Pending,
    /// Done.
    Successful {
        /// The number that the caller has assigned.
        user: u64,
        /// Bytes moved.
        bytes: u64,
    },
    /// Done with an error, or no longer existing.
    Otherwise,
}

impl<M> Shared<M> {
    /// Has large unexpected messages fetched as far as there is memory: something has changed.
    pub(crate) fn retry_fetches(&mut self) {
        if self.fetches.retry() {
            self.work.push_back(Work::Fetch);
        }
    }

    /// A peer's greeting begins.
    pub(crate) fn begin_greeting(&mut self, peer: u64, called: bool) {
        if let Some(patience) = &self.patience {
            self.greetings.begin(peer, called, patience);
        }
    }

    /// Has window taken from another peer for this one, whose own is so large.
    pub(crate) fn request_shrink(&mut self, wanting: u32, window: u32) {
        if self.shrinking.request(wanting, window) {
            self.work.push_back(Work::Shrink);
        }
    }
}

impl<M: Matcher> Shared<M> {
    /// An empty state. `early_memory` is in bytes.
    pub(crate) fn new(tuning: Tuning, early_memory: usize) -> Self {
        Self {
            tuning,
            own: Own::default(),
            ops: Slab::default(),
            matcher: M::default(),
            references: HeldSpans::default(),
            early: Slab::default(),
            buffers: Buffers::default(),
            queues: Slab::default(),
            ready: VecDeque::new(),
            unexpected_waiting: 0,
            budget: Budget::new(early_memory),
            fetches: Fetches::default(),
            patience: None,
            transfers: Transfers::default(),
            work: VecDeque::new(),
            greetings: Greetings::default(),
            shrinking: Shrinking::default(),
            to_offer: Vec::new(),
            watch: Watch::default(),
            held: Vec::new(),
            dirty: Vec::new(),
            holding: Vec::new(),
            wants_flush: false,
            takes: Takes::Some,
            direct: Direct::default(),
            postponed: Vec::new(),
            connections: 0,
            completions: 0,
            arrivals: 0,
            losses: 0,
            envelope: Envelope::default(),
            touched: Touched::default(),
        }
    }

    /// See [`Endpoint::change_counts`](crate::Endpoint::change_counts).
    #[inline]
    pub(crate) fn change_counts(&self) -> (u64, usize) {
        (self.event_count(), self.unexpected_waiting)
    }

    /// See [`Endpoint::event_count`](crate::Endpoint::event_count).
    #[inline]
    pub(crate) fn event_count(&self) -> u64 {
        self.completions + self.arrivals + self.losses
    }

    /// The index of a queue to post to.
    #[inline(always)]
    pub(crate) fn find_queue(&self, queue: Queue) -> Option<u32> {
        match queue {
            Queue::UNLISTED => Some(UNLISTED),
            Queue(key) => self.queues.find(key),
        }
    }

    /// Whether a receive of one fragment may wait: no message is held that it might get, and nothing is wrong.
    #[inline(always)]
    pub(crate) fn is_usual(&mut self, pattern: M::Pattern, memory: &Memory) -> bool {
        memory.is_writable()
            && memory.len() as u64 <= causeway_wire::bmi::MAX_MESSAGE_BYTES
            && self.ops.len() < MAX_OPERATIONS
            && !(self.matcher.holds_messages() && self.has_come(pattern))
    }

    /// Whether a message is held that a receive would get.
    #[inline(never)]
    fn has_come(&mut self, pattern: M::Pattern) -> bool {
        self.matcher.find(pattern).is_some()
    }

    /// Transfers in progress or waiting.
    pub(crate) fn load(&self) -> usize {
        self.transfers.active + self.transfers.waiting()
    }

    /// Has every waiting transfer tried once: something has changed.
    pub(crate) fn retry_transfers(&mut self) {
        if self.fetches.lacks_transfer {
            self.retry_fetches();
        }
        if self.transfers.retry() {
            self.work.push_back(Work::Transfers);
        }
    }

    /// Notes that a receive is to be offered when there is nothing else to do, unless many are
    /// noted already.
    pub(crate) fn note_to_offer(&mut self, op: u32) {
        if self.to_offer.len() < MAX_TO_OFFER {
            self.to_offer.push(self.ops.key(op));
        }
    }

    /// Defers an operation's transfer that cannot be started now.
    pub(crate) fn defer_transfer(&mut self, op: u32) {
        self.ops[op].queued = true;
        self.transfers.defer(self.ops.key(op));
    }

    /// Queues an operation's transfer to be started.
    pub(crate) fn start_transfer(&mut self, op: u32) {
        let key = self.ops.key(op);
        // A receive that was matched again may still be queued for its earlier message.
        if std::mem::replace(&mut self.ops[op].queued, true) {
            return self.retry_transfers();
        }
        let ops = &self.ops;
        self.transfers.purge(|key| waits(ops, key));
        if self.transfers.add(key) {
            self.work.push_back(Work::Transfers);
        }
    }

    /// The last step of completing an operation of a caller's, which is in no list and has no
    /// memory any more.
    #[inline(always)]
    pub(crate) fn set_done(&mut self, op: u32, bytes: u64) {
        let entry = &mut self.ops[op];
        entry.moved = bytes;
        entry.mark_done();
        let queue = entry.queue;
        self.completions += 1;
        match queue {
            NO_QUEUE => drop(self.ops.remove(op)),
            UNLISTED => {}
            listed => self.queues[listed].push_back(&mut self.ops, op),
        }
    }

    /// Releases the memory of an operation.
    #[inline]
    pub(crate) fn release_memory(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        entry.fragments = Fragments::None;
        if !entry.held.is_empty() {
            self.references.release(&mut entry.held);
        }
    }

    /// Gives a receive that waited a reference of its own to its memory, for something slower than
    /// a copy.
    pub(crate) fn own_memory(&mut self, op: u32) {
        let entry = &mut self.ops[op];
        if !entry.held.is_empty() {
            entry.fragments = Fragments::One(self.references.get(&entry.held).clone());
            self.references.release(&mut entry.held);
        }
    }

    /// Removes an operation if it is done and was successful.
    #[inline(always)]
    pub(crate) fn take_successful(&mut self, id: OpId) -> Tested {
        let Some(entry) = self.ops.find_entry(id.0) else {
            return Tested::Otherwise;
        };
        match entry.state {
            State::Done if entry.error.is_none() => {}
            State::Done => return Tested::Otherwise,
            _ => return Tested::Pending,
        }
        let op = id.0 as u32;
        if entry.queue != UNLISTED {
            let queue = &mut self.queues[entry.queue];
            if !queue.starts_with(op) {
                return self.take_successful_inner(op);
            }
            queue.remove_first(entry.links);
        }
        let (user, bytes) = (entry.user, entry.moved);
        self.envelope = Envelope {
            peer: entry.peer,
            tag: entry.tag,
            size: bytes,
        };
        self.ops.vacate(op);
        Tested::Successful { user, bytes }
    }

    /// The same for a successful operation that is not the first of its queue.
    #[inline(never)]
    fn take_successful_inner(&mut self, op: u32) -> Tested {
        let Completion { user, result, .. } = self.take(op);
        match result {
            Ok(bytes) => Tested::Successful { user, bytes },
            Err(_) => Tested::Otherwise,
        }
    }

    /// Whether an operation is done, or no longer exists.
    #[inline]
    pub(crate) fn is_done(&self, id: OpId) -> bool {
        let op = self.ops.find(id.0).and_then(|op| self.ops.get(op));
        op.is_none_or(|op| matches!(op.state, State::Done))
    }

    /// Removes a done operation that the caller has tested for.
    pub(crate) fn take_done(&mut self, id: OpId) -> Result<Option<Completion>, Error> {
        let op = self.ops.find_entry(id.0).ok_or(Error::Stale("operation"))?;
        if !matches!(op.state, State::Done) {
            return Ok(None);
        }
        Ok(Some(self.take(id.0 as u32)))
    }

    /// Removes a done operation from its completion queue and the table.
    pub(crate) fn take(&mut self, op: u32) -> Completion {
        let id = OpId(self.ops.key(op));
        let queue = self.ops[op].queue;
        if queue != UNLISTED {
            self.queues[queue].remove(&mut self.ops, op);
        }
        let entry = &mut self.ops[op];
        let user = entry.user;
        self.envelope = Envelope {
            peer: entry.peer,
            tag: entry.tag,
            size: entry.moved,
        };
        let result = match entry.error.take() {
            None => Ok(entry.moved),
            Some(error) => Err(*error),
        };
        self.ops.vacate(op);
        Completion {
            op: id,
            user,
            result,
        }
    }

    /// Refuses an operation if the limit is reached.
    #[inline]
    pub(crate) fn check_operations(&self) -> Result<(), Error> {
        if self.ops.len() >= MAX_OPERATIONS {
            return Err(Error::Limit {
                what: "operations in progress",
                limit: MAX_OPERATIONS,
            });
        }
        Ok(())
    }
}

/// Whether the operation of this key has a transfer that waits to be started.
fn waits(ops: &Slab<Op>, key: u64) -> bool {
    let op = ops.find(key).map(|op| &ops[op]);
    op.is_some_and(|op| op.queued && !matches!(op.state, State::Finishing | State::Done))
}
