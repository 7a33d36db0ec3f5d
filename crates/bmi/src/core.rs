//! The protocol's state, and what methods deliver into it.
//!
//! The core does no I/O of its own accord. Methods deliver packets and events through [`Delivery`]
//! while they are polled; whatever then needs a method again (an answer, an export, a transfer) is
//! noted as a [`Task`] or by marking the peer dirty, and done by [`Core::run`] after the poll. The
//! parts of the protocol are in files of their own, all of them `impl Core`:
//! [`connect`](crate::connect), [`eager`](crate::eager), [`rendezvous`](crate::rendezvous),
//! [`transfers`](crate::transfers), [`cancel`](crate::cancel).

use std::collections::{HashMap, VecDeque};

use causeway_sys::memory::{Keeper, Memory};
use causeway_transport::{
    PLACE_HEAD_BYTES, Packet, Peer as Handle, PeerError, Sink, Token, TransferError,
};
use causeway_wire::bmi::{self as wire, Body, Header, Kind};

use crate::credit::Budget;
use crate::fragments::Fragments;
use crate::matching::MatchTable;
use crate::methods::Methods;
use crate::op::{Op, State, What};
use crate::peer::{Early, Peer, Phase};
use crate::slab::{List, NONE, Slab};
use crate::traffic::Touched;
use crate::types::{Completion, Error, OpError, OpId, RendezvousPolicy, Tag};

/// Control packets that may wait for one peer. Each answers something of the peer's that is bounded
/// itself; more means that the peer asks without listening.
const MAX_CONTROL: usize = 4096;

/// Packets that carry no message have mostly fewer bytes behind their header.
const FEW_BYTES: usize = 128;

/// Operations in progress of one instance.
pub(crate) const MAX_OPERATIONS: usize = 1 << 20;

/// A context's index that no caller has: completions to it vanish.
pub(crate) const NOBODY: u32 = NONE;

/// Settings that can be changed at run time.
pub(crate) struct Tuning {
    pub(crate) eager_limit: usize,
    pub(crate) unexpected_limit: usize,
    pub(crate) policy: RendezvousPolicy,
    pub(crate) server: bool,
}

/// See the module's page.
pub(crate) struct Core {
    pub(crate) tuning: Tuning,
    pub(crate) ops: Slab<Op>,
    pub(crate) peers: Slab<Peer>,
    /// By method and the method's table index: the peer's index here, or [`NONE`].
    pub(crate) links: Vec<Vec<u32>>,
    /// Looked-up addresses by text.
    pub(crate) by_text: HashMap<String, u32>,
    /// The addresses that we listen at: messages to them stay inside.
    pub(crate) listening: Vec<String>,
    /// Receives that wait for a message and are not fresh (see [`crate::receives`]).
    pub(crate) posted: MatchTable,
    /// Has the memory of receives that wait.
    pub(crate) keeper: Keeper,
    /// Messages that wait for a receive.
    pub(crate) early_table: MatchTable,
    pub(crate) early: Slab<Early>,
    pub(crate) contexts: Slab<List>,
    /// Peers whose first unexpected message is ready, in turn.
    pub(crate) ring: VecDeque<u32>,
    /// Unexpected messages that have arrived and were not taken.
    pub(crate) unexpected_waiting: usize,
    pub(crate) budget: Budget,
    /// Peers with large unexpected messages to be fetched, by key, in turn.
    pub(crate) fetch_ring: VecDeque<u64>,
    pub(crate) transfers: crate::transfers::Transfers,
    pub(crate) tasks: VecDeque<Task>,
    /// Operations, by key, whose memory a stopped peer holds, and what they complete with once it is free.
    pub(crate) endings: Vec<(u64, Result<u64, OpError>)>,
    /// Peers with something to send.
    pub(crate) dirty: Vec<u32>,
    /// Room to build an eager packet in.
    pub(crate) scratch: Vec<u8>,
    /// Operations that became done, to notice that something did.
    pub(crate) completions: u64,
    /// Peers to look at (see [`crate::watch`]).
    pub(crate) touched: Touched,
}

/// Work that needs a method. Operations and peers are named by keys: they may be gone by then.
#[derive(Debug)]
pub(crate) enum Task {
    /// A receive has been matched with an announced message.
    Receive(u64),
    /// The next part of a receive that the sender writes.
    Clear(u64),
    /// End the exports of an operation, then complete it.
    Finish(u64, Result<u64, OpError>),
    /// The sender has withdrawn a receive's message: match again.
    Repost(u64),
    /// A peer has connected to us.
    Called(u64),
    /// A peer is down.
    Down(u64, PeerError),
    /// A peer sent nonsense.
    Condemn(u64, String),
    /// A reference or the last operation of a peer is gone.
    Release(u64),
    /// Memory for large unexpected messages has become free.
    Fetch,
    /// A transfer has ended, or a peer can take one again. At most one such task waits.
    Transfers,
}

impl Core {
    /// An instance's state.
    pub(crate) fn new(tuning: Tuning, early_memory: usize, methods: usize) -> Self {
        Self {
            tuning,
            ops: Slab::default(),
            peers: Slab::default(),
            links: vec![Vec::new(); methods],
            by_text: HashMap::new(),
            listening: Vec::new(),
            posted: MatchTable::default(),
            keeper: Keeper::default(),
            early_table: MatchTable::default(),
            early: Slab::default(),
            contexts: Slab::default(),
            ring: VecDeque::new(),
            unexpected_waiting: 0,
            budget: Budget::new(early_memory),
            fetch_ring: VecDeque::new(),
            transfers: Default::default(),
            tasks: VecDeque::new(),
            endings: Vec::new(),
            dirty: Vec::new(),
            scratch: Vec::new(),
            completions: 0,
            touched: Touched::default(),
        }
    }

    /// Whether [`Core::run`] has something to do.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.tasks.is_empty() || !self.dirty.is_empty()
    }

    /// Does what the last deliveries have left to do.
    pub(crate) fn run(&mut self, methods: &mut Methods) {
        loop {
            while let Some(task) = self.tasks.pop_front() {
                self.run_task(methods, task);
            }
            let Some(peer) = self.dirty.pop() else { return };
            if let Some(entry) = self.peers.get(peer)
                && entry.dirty
            {
                self.peers[peer].dirty = false;
                self.flush(methods, peer);
            }
        }
    }

    fn run_task(&mut self, methods: &mut Methods, task: Task) {
        match task {
            Task::Receive(key) => self.with_op(key, |core, op| core.receive(methods, op)),
            Task::Clear(key) => self.with_op(key, |core, op| core.clear(methods, op)),
            Task::Repost(key) => self.with_op(key, |core, op| core.repost(methods, op)),
            Task::Finish(key, result) => {
                self.with_op(key, |core, op| core.end_and_complete(methods, op, result));
            }
            Task::Called(key) => self.with_peer(key, |core, peer| core.called(methods, peer)),
            Task::Down(key, cause) => {
                self.with_peer(key, |core, peer| core.down(methods, peer, cause));
            }
            Task::Condemn(key, reason) => {
                self.with_peer(key, |core, peer| core.drop_condemned(methods, peer, reason));
            }
            Task::Release(key) => self.with_peer(key, |core, peer| core.maybe_drop(methods, peer)),
            Task::Fetch => self.fetch_in_turn(),
            Task::Transfers => self.kick_transfers(methods),
        }
    }

    fn with_op(&mut self, key: u64, act: impl FnOnce(&mut Self, u32)) {
        if let Some(op) = self.ops.find(key) {
            act(self, op);
        }
    }

    fn with_peer(&mut self, key: u64, act: impl FnOnce(&mut Self, u32)) {
        if let Some(peer) = self.peers.find(key) {
            act(self, peer);
        }
    }

    /// Notes that there is something new about a peer.
    #[inline]
    pub(crate) fn touch(&mut self, peer: u32) {
        self.peers[peer].traffic.touch(peer, &mut self.touched);
    }

    /// Notes that a peer has something to send.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, peer: u32) {
        let entry = &mut self.peers[peer];
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(peer);
        }
    }

    /// Queues a packet that carries no message.
    pub(crate) fn queue_control(&mut self, peer: u32, packet: Vec<u8>) {
        let entry = &mut self.peers[peer];
        if entry.control.len() >= MAX_CONTROL {
            self.condemn(peer, "it asks for answers without taking them");
            return;
        }
        entry.control.push_back(packet);
        self.mark_dirty(peer);
    }

    /// Queues a packet of a header alone.
    pub(crate) fn queue_bare(&mut self, peer: u32, kind: Kind, word: u64) {
        self.queue_control(peer, Header::new(kind, word).encode().to_vec());
    }

    /// Adds an operation to its peer's list.
    #[inline]
    pub(crate) fn add_op(
        &mut self,
        what: What,
        peer: u32,
        caller: (u32, u64),
        tag: Tag,
        memory: (Fragments, u64),
        state: State,
    ) -> u32 {
        let index = self.ops.reuse(Op::blank);
        let op = &mut self.ops[index];
        op.renew(what, peer, caller, tag, memory.1);
        (op.fragments, op.state) = (memory.0, state);
        let entry = &mut self.peers[peer];
        entry.ops.push_back(&mut self.ops, index);
        entry.traffic.touch(peer, &mut self.touched);
        index
    }

    /// Takes an operation out of its peer's list.
    #[inline]
    fn unlist_op(&mut self, op: u32) {
        let peer = self.ops[op].peer;
        let entry = &mut self.peers[peer];
        entry.ops.remove(&mut self.ops, op);
        if entry.refs == 0 && !entry.has_operations() {
            self.tasks.push_back(Task::Release(self.peers.key(peer)));
        }
    }

    /// Completes an operation whose memory is free. It stays to be tested for.
    pub(crate) fn complete(&mut self, op: u32, result: Result<u64, OpError>) {
        if self.ops[op].what == What::Fetch {
            return self.fetched(op, result);
        }
        self.unlist_op(op);
        let entry = &mut self.ops[op];
        entry.fragments = Fragments::None;
        if !entry.kept.is_empty() {
            self.keeper.give_back(&mut entry.kept);
        }
        let bytes = result.unwrap_or_else(|error| {
            entry.error = Some(Box::new(error));
            0
        });
        self.set_done(op, bytes);
    }

    /// The last part of it: for an operation of a caller's that is in no list and has no memory any more.
    #[inline]
    pub(crate) fn set_done(&mut self, op: u32, bytes: u64) {
        let entry = &mut self.ops[op];
        entry.moved = bytes;
        entry.be_done();
        let context = entry.context;
        self.completions += 1;
        if context == NOBODY {
            self.ops.remove(op);
        } else {
            self.contexts[context].push_back(&mut self.ops, op);
        }
    }

    /// Removes an operation that no caller knows.
    pub(crate) fn remove_internal(&mut self, op: u32) -> Option<Op> {
        self.unlist_op(op);
        self.ops.remove(op)
    }

    /// Ends an operation's exports if it has any, then completes it.
    pub(crate) fn finish(&mut self, op: u32, result: Result<u64, OpError>) {
        let entry = &self.ops[op];
        if let Ok(bytes) = result {
            self.peers[entry.peer].traffic.finished(entry.what, bytes);
        }
        self.touch(entry.peer);
        if self.ops[op].exports.is_empty() {
            return self.complete(op, result);
        }
        self.ops[op].state = State::Finishing;
        let key = self.ops.key(op);
        self.tasks.push_back(Task::Finish(key, result));
    }

    /// The second half of [`Core::finish`].
    fn end_and_complete(&mut self, methods: &mut Methods, op: u32, result: Result<u64, OpError>) {
        if !matches!(self.ops[op].state, State::Finishing) {
            // Its peer has fallen meanwhile, and it with it.
            return;
        }
        let peer = self.ops[op].peer;
        if result.is_ok() && !self.has_come(methods, op) {
            return self.condemn(peer, "it says that it wrote a message, and has not");
        }
        if result.is_err() && self.peers[peer].is_up() {
            // The other side may be using the memory: it hears why before it sees that it is closed.
            self.flush_control(methods, peer);
        }
        if self.try_end_exports(methods, op) {
            self.complete(op, result);
        } else {
            self.endings.push((self.ops.key(op), result));
        }
    }

    /// Whether the peer has written all of a message that it was to write, as far as its method can tell. What
    /// was in the memory before must not pass for a part of it.
    fn has_come(&self, methods: &Methods, op: u32) -> bool {
        let entry = &self.ops[op];
        let Some((method, handle)) = self.peers[entry.peer].link else {
            return true;
        };
        let method = &methods.slots[method].method;
        !matches!(entry.what, What::Receive | What::Fetch)
            || (entry.exports.iter()).all(|key| method.is_all_written(handle, *key))
    }

    /// Has operations whose memory was held looked at again.
    pub(crate) fn retry_endings(&mut self) {
        let endings = self.endings.drain(..);
        self.tasks
            .extend(endings.map(|(key, result)| Task::Finish(key, result)));
    }

    /// Ends an operation's exports; `false` if the peer is still writing to some of them.
    fn try_end_exports(&mut self, methods: &mut Methods, op: u32) -> bool {
        let Some((method, handle)) = self.peers[self.ops[op].peer].link else {
            return true;
        };
        let method = methods.get(method);
        let exports = &mut self.ops[op].exports;
        exports.retain(|key| !method.try_unexport(handle, *key));
        exports.is_empty()
    }

    /// Ends an operation's exports.
    pub(crate) fn end_exports(&mut self, methods: &mut Methods, op: u32) {
        let keys = std::mem::take(&mut self.ops[op].exports);
        if let Some((method, handle)) = self.peers[self.ops[op].peer].link {
            for key in keys {
                methods.get(method).unexport(handle, key);
            }
        }
    }

    /// Takes an operation out if it is done and was successful.
    #[inline]
    pub(crate) fn take_successful(&mut self, id: OpId) -> Tested {
        let Some(entry) = self.ops.find_entry(id.0) else {
            return Tested::Otherwise;
        };
        match entry.state {
            State::Done if entry.error.is_none() => {}
            State::Done => return Tested::Otherwise,
            _ => return Tested::Pending,
        }
        let (user, bytes, context) = (entry.user, entry.moved, entry.context);
        let op = id.0 as u32;
        self.contexts[context].remove(&mut self.ops, op);
        self.ops.vacate(op);
        Tested::Successful { user, bytes }
    }

    /// Takes a done operation out, as the caller asked.
    pub(crate) fn take_done(&mut self, id: OpId) -> Result<Option<Completion>, Error> {
        let op = self.ops.find_entry(id.0).ok_or(Error::Stale("operation"))?;
        if !matches!(op.state, State::Done) {
            return Ok(None);
        }
        Ok(Some(self.take(id.0 as u32)))
    }

    /// Takes a done operation out of its context's list and the table.
    pub(crate) fn take(&mut self, op: u32) -> Completion {
        let id = OpId(self.ops.key(op));
        let context = self.ops[op].context;
        self.contexts[context].remove(&mut self.ops, op);
        let entry = &mut self.ops[op];
        let user = entry.user;
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

    /// The error of an operation whose peer went away.
    pub(crate) fn peer_error(&self, peer: u32, cause: PeerError) -> OpError {
        OpError::Peer {
            address: self.peers[peer].text.clone(),
            cause,
        }
    }

    /// Marks a peer that sent nonsense; it is dropped after this poll.
    pub(crate) fn condemn(&mut self, peer: u32, reason: impl Into<String>) {
        let entry = &mut self.peers[peer];
        if matches!(entry.phase, Phase::Greeting | Phase::Up) {
            entry.phase = Phase::Falling;
            let key = self.peers.key(peer);
            self.tasks.push_back(Task::Condemn(key, reason.into()));
        }
    }
}

/// How a test ended, small enough for registers.
pub(crate) enum Tested {
    /// Not done.
    Pending,
    /// Done.
    Successful {
        /// The caller's number.
        user: u64,
        /// Bytes moved.
        bytes: u64,
    },
    /// Done with an error, or not known (any more).
    Otherwise,
}

/// Delivers what one method reports.
pub(crate) struct Delivery<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) method: usize,
}

impl Delivery<'_> {
    #[inline]
    fn peer(&self, handle: Handle) -> Option<u32> {
        let index = *self.core.links[self.method].get(handle.index())?;
        let peer = self.core.peers.get(index)?;
        (peer.link == Some((self.method, handle))).then_some(index)
    }
}

impl Sink for Delivery<'_> {
    #[inline]
    fn packet(&mut self, handle: Handle, packet: Packet<'_>) {
        let Some(peer) = self.peer(handle) else {
            return;
        };
        if packet.len() < wire::HEADER_BYTES {
            return self.core.condemn(peer, "a packet shorter than its header");
        }
        let mut head = [0; wire::HEADER_BYTES];
        packet.read_at(0, &mut head);
        match Header::decode(head) {
            Ok(header) => self.core.packet(peer, header, packet),
            Err(error) => self.core.condemn(peer, error.to_string()),
        }
    }

    fn transfer_done(&mut self, _: Handle, token: Token, result: Result<(), TransferError>) {
        self.core.transfer_done(token, result);
    }

    fn peer_up(&mut self, handle: Handle) {
        self.core.add_caller(self.method, handle);
    }

    fn peer_down(&mut self, handle: Handle, cause: PeerError) {
        if let Some(peer) = self.peer(handle) {
            self.core.peers[peer].phase = Phase::Falling;
            let key = self.core.peers.key(peer);
            self.core.tasks.push_back(Task::Down(key, cause));
        }
    }

    fn writable(&mut self, handle: Handle) {
        if let Some(peer) = self.peer(handle) {
            self.core.peers[peer].blocked = false;
            self.core.mark_dirty(peer);
            self.core.queue_kick();
        }
    }

    fn place(
        &mut self,
        handle: Handle,
        head: &[u8; PLACE_HEAD_BYTES],
        len: usize,
        into: &mut Vec<Memory>,
    ) -> bool {
        match (self.peer(handle), Header::decode(*head)) {
            (Some(peer), Ok(header)) => {
                let size = len.saturating_sub(wire::HEADER_BYTES);
                self.core.place(peer, &header, size, into)
            }
            // It is looked at again, and refused, when it is here.
            _ => false,
        }
    }

    fn placed(&mut self, handle: Handle, head: &[u8; PLACE_HEAD_BYTES]) {
        if let (Some(peer), Ok(header)) = (self.peer(handle), Header::decode(*head)) {
            self.core.placed(peer, &header);
        }
    }
}

const _: () = assert!(PLACE_HEAD_BYTES == wire::HEADER_BYTES);

impl Core {
    #[inline]
    fn packet(&mut self, peer: u32, header: Header, packet: Packet<'_>) {
        if !self.peers[peer].is_up() {
            return self.first_packet(peer, header, packet);
        }
        if !self.take_news(peer, &header) {
            return;
        }
        match header.kind {
            Kind::Eager => self.eager(peer, header.word, packet),
            Kind::Unexpected => self.unexpected(peer, header.word, packet),
            _ => self.control(peer, header, packet),
        }
    }

    /// Takes what every header may carry besides; `false` if it was nonsense.
    #[inline]
    pub(crate) fn take_news(&mut self, peer: u32, header: &Header) -> bool {
        if header.credit != 0 && !self.credit(peer, header.credit) {
            return false;
        }
        if header.flags & wire::FLAG_STARVED != 0 {
            self.starving(peer);
        }
        true
    }

    fn first_packet(&mut self, peer: u32, header: Header, packet: Packet<'_>) {
        if !matches!(self.peers[peer].phase, Phase::Greeting) {
            return;
        }
        match header.kind {
            Kind::Hello if header.word == wire::HELLO_WORD => {
                if packet.len() == wire::HEADER_BYTES {
                    self.greeted(peer, header.credit);
                } else {
                    self.condemn(peer, "a greeting of the wrong length");
                }
            }
            Kind::Hello => self.condemn(
                peer,
                format!(
                    "it speaks another version of the message layer ({:#x}; this is {:#x})",
                    header.word,
                    wire::HELLO_WORD
                ),
            ),
            kind => self.condemn(peer, format!("{kind:?} came before the greeting")),
        }
    }

    fn control(&mut self, peer: u32, header: Header, packet: Packet<'_>) {
        self.touch(peer);
        let mut few = [0; FEW_BYTES];
        let many;
        let rest = match few.get_mut(..packet.len() - wire::HEADER_BYTES) {
            Some(few) => {
                packet.read_at(wire::HEADER_BYTES, few);
                &*few
            }
            None => {
                many = packet.to_vec(wire::HEADER_BYTES);
                &many
            }
        };
        let body = match wire::decode_body(&header, rest) {
            Ok(body) => body,
            Err(error) => return self.condemn(peer, error.to_string()),
        };
        match (header.kind, body) {
            (Kind::Announce, Body::Announcement(body)) => self.announced(peer, &header, body),
            (Kind::AnnounceUnexpected, Body::Announcement(body)) => {
                self.announced_unexpected(peer, &header, body);
            }
            (Kind::ClearToSend, Body::Clearance(body)) => self.cleared(peer, header.word, body),
            (Kind::Refuse, Body::Refusal(body)) => self.refused(peer, header.word, body),
            (Kind::Written, _) => self.written(peer, header.word),
            (Kind::Read, _) => self.read(peer, header.word),
            (Kind::Withdraw, _) => self.withdrawn(peer, header.word),
            (Kind::Credit, _) => {
                self.peers[peer].account.set_window(header.word);
                self.mark_dirty(peer);
            }
            (Kind::Reclaim, _) => self.reclaimed(peer, header.word),
            (Kind::Return, _) => self.returned(peer, header.word),
            (kind, _) => self.condemn(peer, format!("{kind:?} at the wrong time")),
        }
    }
}
