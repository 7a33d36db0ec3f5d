//! One instance of the engine: its peers, methods, completion queues and operations.
//!
//! Everything is nonblocking: a `post_*` call starts an operation, a `test*` call makes progress and returns what has
//! completed, sleeping at most for the time passed in. The calls take `&mut self`, so one thread at a time uses an
//! endpoint; interfaces that several threads share (those of C) let them in one after the other, and let others in
//! while one of them sleeps ([`Endpoint::prepare_wait`]).
//!
//! It belongs to the process that made it. In a child of `fork`, calls that return an error fail with
//! [`Error::Forked`], calls that return none do nothing, and dropping it closes the child's copies of descriptors and
//! memory: nothing of it reaches the parent or the peers. What the parent shares with peers (rings, doorbells, areas
//! for large transfers, and what [`Endpoint::memalloc`] and [`Endpoint::map`] return) is not mapped in the child. The
//! child must not access it: a write there would change the parent's messages. Memory on the heap is copied as usual.
//!
//! Inside, the protocol's state is apart from the methods ([`conversations`](crate::conversations)). `driving` and `posting` carry out
//! with methods what it requests; `connections` and `connect` map peers to handles; `callers` decides which peers are the same
//! process; `listening` manages the addresses at which others reach us; `messages` probes messages that wait for their receives.
//! `progress` polls, `sleep` sleeps, `parked` lets other threads in meanwhile, `yielding` yields, `shared_memory_wait` waits for steps that
//! other processes take in shared memory. `watch` publishes the state for observers, and `stall` reports operations that make no
//! progress. `loopback` is the method by which a process sends to itself.

mod callers;
mod connect;
mod connections;
mod driving;
mod home;
mod listening;
mod loopback;
mod messages;
mod methods;
mod parked;
mod pieces;
mod posting;
mod progress;
mod proven;
mod shared_memory_wait;
mod sleep;
mod stall;
mod watch;
mod yielding;

#[cfg(test)]
mod tests;

use std::cell::OnceCell;
use std::time::Duration;

use causeway_sys::fork::Owner;
use causeway_sys::memory::Memory;
use causeway_sys::runnable::Runnable;
use causeway_transport::registry::{Registry, Settings};
use causeway_transport::{Access, Direction, PeerReport, Sharing, TransferError};
use causeway_wire::bmi::{InstanceId, Introduction};
use causeway_wire::formats::Formats;
use causeway_wire::region::RegionDescriptor;

use self::connections::Connections;
use self::home::Home;
use self::loopback::Loopback;
use self::methods::Methods;
use self::posting::{Sending, at_once, cold, post_cold};
use self::sleep::{Announced, Sleeper};
pub use self::sleep::{Parked, Waker};
use self::watch::Watch;
use crate::conversation::Phase;
use crate::conversations::Conversations;
use crate::fragments::{Fragments, ReceiveBuffer, check_writable, total};
use crate::matcher::Matcher;
use crate::operation::{OpKind, State};
use crate::shared::{Tested, Tuning};
use crate::traffic::Totals;
use crate::types::*;
use crate::waiting::Policy;

/// See the module's page.
pub struct Endpoint<M: Matcher> {
    process: Owner,
    conversations: Conversations<M>,
    connections: Connections,
    methods: Methods,
    policy: Policy,
    /// The kernel's count of threads that want a processor, opened when it is first needed.
    runnable: OnceCell<Option<Runnable>>,
    /// The processor for which this process leaves others, if it has one.
    home: Option<Home>,
    sleeper: Sleeper,
    /// The thread that sleeps detached from this endpoint.
    parked: Option<Announced>,
    /// The time that the last wait had left when another thread ended it.
    interrupted: Option<Duration>,
    /// See [`Info::sleeps`].
    sleeps: u64,
    /// See [`Info::expired_sleeps`].
    expired_sleeps: u64,
    watch: Watch,
    /// A buffer for building eager packets.
    scratch: Vec<u8>,
    /// Methods that the system refused, and why.
    unavailable: Vec<(&'static str, String)>,
}

impl<M: Matcher> Endpoint<M> {
    /// Starts an instance: registers methods and listens at the configured addresses.
    pub fn new(config: Config) -> Result<Self, Error> {
        let registry = Registry::builtin(&Settings {
            key: config.key.clone(),
            nodes: config.nodes.clone(),
            agent: config.agent.clone(),
            encrypt: config.encrypt,
            connect_timeout: config.connect_timeout,
            liveness: config.liveness,
            tcp_connections: config.tcp_connections,
        })?;
        Self::with_methods(config, registry)
    }

    /// Starts an instance over the caller's own methods.
    pub fn with_methods(config: Config, mut registry: Registry) -> Result<Self, Error> {
        let system = |source| causeway_transport::Error::System {
            what: "making an eventfd".into(),
            source,
        };
        let forks = |source| causeway_transport::Error::System {
            what: "preparing for forks".into(),
            source,
        };
        let process = Owner::this_process().map_err(forks)?;
        registry.register(Box::new(Loopback::new().map_err(system)?));
        let unavailable = registry.unavailable().to_vec();
        let methods = Methods::new(registry.into_methods(), config.clock.clone());
        let tuning = Tuning {
            eager_limit: config.eager_limit,
            unexpected_limit: config.unexpected_limit,
            offers: config.offers,
            announced_limit: config.announced_limit,
            policy: RendezvousPolicy::default(),
            server: !config.listen.is_empty(),
        };
        let connections = Connections::new(methods.slots.len());
        let id = causeway_sys::random::bytes().map_err(|source| {
            let what = "drawing the number of an instance".into();
            causeway_transport::Error::System { what, source }
        })?;
        let mut conversations = Conversations::new(tuning, config.early_memory);
        conversations.introduce_as(Introduction {
            id: InstanceId(u128::from_le_bytes(id)),
            addresses: Vec::new(),
        });
        if config.in_parts {
            conversations.set_formats(Formats::IN_PARTS);
        }
        let now = methods.now();
        conversations.set_patience(config.connect_timeout, now);
        let sleeper = Sleeper::new(&methods, process).map_err(system)?;
        let mut endpoint = Self {
            process,
            conversations,
            connections,
            methods,
            policy: Policy::new(config.spin, config.has_processor, now),
            runnable: OnceCell::new(),
            home: None,
            sleeper,
            parked: None,
            interrupted: None,
            sleeps: 0,
            expired_sleeps: 0,
            watch: Watch::new(now, config.stall_after, config.publish),
            scratch: Vec::new(),
            unavailable,
        };
        for address in &config.listen {
            endpoint.listen(address)?;
        }
        Ok(endpoint)
    }

    /// Returns a handle for the process at `address`. Several addresses of one process may be given, joined with commas: the cheapest
    /// that can be reached is used. Equal addresses give equal handles; each look-up adds a reference. No connection is made yet.
    ///
    /// If the process has connected to us, listens at the cheapest of the addresses, and is known for certain to be
    /// that process, the handle is that of its unexpected messages, and there is one connection; two processes that
    /// call each other settle on one. Otherwise messages on connections that it has made come from another handle. An
    /// address of this process itself may be looked up, too.
    pub fn lookup(&mut self, address: &str) -> Result<Addr, Error> {
        self.check_process()?;
        let peer = match self.connections.by_text.get(address) {
            Some(&peer) => peer,
            None => self.look_up(address)?,
        };
        self.conversations.peers[peer].refs += 1;
        Ok(Addr(self.conversations.peers.key(peer)))
    }

    /// The text of an address.
    pub fn reverse_lookup(&self, addr: Addr) -> Option<String> {
        let peer = self.conversations.peers.find(addr.0)?;
        Some(self.conversations.peers[peer].name.clone())
    }

    /// Adds a reference to an address (for one that came with an unexpected message).
    pub fn retain(&mut self, addr: Addr) {
        if let Some(peer) = self.conversations.peers.find(addr.0) {
            self.conversations.peers[peer].refs += 1;
        }
    }

    /// Releases a reference; the last one drops the connection once nothing is in flight. A connection that the peer
    /// may use for calls of its own is dropped once the peer does not need it either.
    pub fn release(&mut self, addr: Addr) {
        let Some(peer) = self.find(addr) else {
            return;
        };
        let entry = &mut self.conversations.peers[peer];
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs == 0 {
            self.release_if_unused(peer);
            self.settle();
        }
    }

    /// Drops the connection of an address at once, without waiting for the peer: for a peer that hangs. Every operation in flight with
    /// it completes with [`PeerError::Disconnected`](crate::PeerError::Disconnected), its early messages are discarded, and exports to
    /// it end. References stay valid; the next operation on a looked-up address connects anew.
    pub fn disconnect(&mut self, addr: Addr) {
        if let Some(peer) = self.find(addr) {
            self.drop_connection(peer);
            self.settle();
        }
    }

    /// The connection under an address; `None` while messages cannot flow at once. As long as it is the same, the peer is the same
    /// process. An operation that is posted now, before anything is tested or waited for, uses this connection or fails.
    pub fn connection(&self, addr: Addr) -> Option<ConnectionId> {
        let peer = self.find(addr)?;
        let conversation = &self.conversations.peers[peer];
        let is_up =
            matches!(conversation.phase, Phase::Up) && self.connections.link(peer).is_some();
        is_up.then_some(ConnectionId(conversation.connection))
    }

    /// The scheme of the method by which a peer is connected.
    pub fn method(&self, addr: Addr) -> Option<&'static str> {
        let peer = self.find(addr)?;
        let (method, _) = self.connections.link(peer)?;
        Some(self.methods.slots[method].scheme)
    }

    /// Which method and address were chosen for a peer, and why.
    pub fn report(&self, addr: Addr) -> Option<PeerReport> {
        let peer = self.find(addr)?;
        let entry = &self.conversations.peers[peer];
        let mut report = PeerReport::default();
        let state = match &entry.phase {
            Phase::Closed => "not connected".to_owned(),
            Phase::Greeting => "connecting".to_owned(),
            Phase::Up => "connected".to_owned(),
            Phase::Leaving => "connected, and not needed here".to_owned(),
            Phase::Failed => "going down".to_owned(),
            Phase::Gone(cause) => format!("gone: {cause}"),
        };
        report.facts.push(("connection", state));
        if let Some((method, handle)) = self.connections.link(peer) {
            let slot = &self.methods.slots[method];
            report.facts.push(("method", slot.scheme.to_owned()));
            let theirs = slot.method.report(handle).unwrap_or_default();
            report.facts.extend(theirs.facts);
        }
        let notes = self.connections.notes(peer).iter();
        report
            .facts
            .extend(notes.map(|note| ("passed over", note.clone())));
        let absent = self.unavailable.iter();
        let absent = absent.map(|(scheme, why)| ("unavailable", format!("{scheme}: {why}")));
        report.facts.extend(absent);
        Some(report)
    }

    /// Opens a completion queue. Operations posted to it are tested separately from others.
    pub fn open_queue(&mut self) -> Result<Queue, Error> {
        const LIMIT: usize = 1 << 16;
        self.check_process()?;
        if self.conversations.shared.queues.len() >= LIMIT {
            return Err(Error::Limit {
                what: "contexts",
                limit: LIMIT,
            });
        }
        let index = self.conversations.add_queue();
        Ok(Queue(self.conversations.shared.queues.key(index)))
    }

    /// Closes a completion queue, cancelling what is still posted to it.
    pub fn close_queue(&mut self, queue: Queue) {
        if let Ok(queue) = self.queue(queue) {
            self.conversations.close_queue(queue);
            self.settle();
        }
    }

    /// Sends `data`, gathered from fragments, to be received under `tag`. A completed send has left the caller's memory. Once all
    /// sends to a peer are complete, all of their packets have left the process, whatever the process does then. A single send may
    /// complete although the method still holds its packet, but only while an earlier send to the same peer is not complete
    /// ([`Endpoint::flush`]).
    #[inline]
    pub fn post_send(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        match self.send_now(to, data, tag, queue) {
            Some(size) => Ok(at_once(user, Ok(size))),
            None => {
                let post = || self.post_message(to, data, tag, (queue, user), Sending::Expected);
                post_cold(post).expand(user)
            }
        }
    }

    /// Whether the method may hold packets to a peer: one of its sends is not complete for this reason, later
    /// ones may be complete.
    #[inline]
    pub fn holds_messages(&self, to: Addr) -> bool {
        if !self.conversations.has_held() {
            return false;
        }
        let peer = self.conversations.peers.find(to.0);
        peer.is_some_and(|peer| self.conversations.holds_send(peer))
    }

    /// Sends the packets that methods hold, including those of sends that are complete: as many as the network accepts now, up to a
    /// bound. For callers that may compute for long afterwards.
    #[inline]
    pub fn flush(&mut self) {
        if self.conversations.has_held() {
            self.methods.flush();
            self.settle_sent();
        }
    }

    /// Receives the next message that matches `pattern` into `into`, scattered over fragments. A message larger than
    /// the fragments completes with [`OpError::TooLarge`]. Peers that the pattern names must exist
    /// ([`Endpoint::number`]).
    #[inline]
    pub fn post_receive(
        &mut self,
        pattern: M::Pattern,
        into: &[Memory],
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        match self.receive_later(pattern, into, queue, user) {
            Some(op) => Ok(Posted::Pending(op)),
            None => post_cold(|| self.receive(pattern, ReceiveBuffer::Memory(into), queue, user))
                .expand(user),
        }
    }

    /// Sends `data`, which the peer receives by [`Endpoint::testunexpected`]. At most [`Config::unexpected_limit`] bytes.
    pub fn post_sendunexpected(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        self.post_message(to, data, tag, (queue, user), Sending::Unexpected)
    }

    /// Cancels an operation. It still completes, with [`OpError::Cancelled`] or, if it was done before, with its own result; its
    /// memory is free only then. A receive whose memory was offered to its sender completes when the sender has replied whether its
    /// message was written; if that peer hangs, when the connection is dropped ([`Endpoint::disconnect`]).
    pub fn cancel(&mut self, op: OpId) {
        if self.check_process().is_err() {
            return;
        }
        self.conversations.cancel(op);
        self.settle();
        self.flush_control();
    }

    /// Asks for a send back: it completes with [`OpError::Cancelled`], and is not received, if the receiver has found no receive for it;
    /// otherwise as if this had not been called. Unlike a cancelled one, a send that has been announced completes only when the receiver
    /// has made progress. Peers that speak an earlier format have it cancelled.
    pub fn recall(&mut self, op: OpId) {
        if self.check_process().is_err() {
            return;
        }
        self.conversations.recall(op);
        self.settle();
        self.flush_control();
    }

    /// Tests one operation, making progress and sleeping at most `idle`.
    #[inline]
    pub fn test(&mut self, op: OpId, idle: Duration) -> Result<Option<Completion>, Error> {
        match self.test_one(op, idle) {
            Tested::Pending => Ok(None),
            Tested::Successful { user, bytes } => Ok(Some(Completion {
                op,
                user,
                result: Ok(bytes),
            })),
            Tested::Otherwise => *cold(|| {
                self.check_process()?;
                self.conversations.shared.take_done(op)
            }),
        }
    }

    /// Waits until an operation is done, and returns how many bytes it has moved. `None` if it has
    /// failed or does not exist: [`Endpoint::test`] then returns the error.
    #[inline]
    pub fn wait_for(&mut self, op: OpId) -> Option<u64> {
        loop {
            match self.test_one(op, Duration::MAX) {
                Tested::Successful { bytes, .. } => return Some(bytes),
                Tested::Otherwise => return None,
                Tested::Pending => {}
            }
        }
    }

    /// The bytes that an operation has moved, if it is done and was successful. No progress is made.
    #[inline(always)]
    pub fn take_moved(&mut self, op: OpId) -> Option<u64> {
        if !self.process.is_this_process() {
            return None;
        }
        match self.conversations.shared.take_successful(op) {
            Tested::Successful { bytes, .. } => Some(bytes),
            Tested::Pending | Tested::Otherwise => None,
        }
    }

    #[inline(never)]
    fn test_one(&mut self, op: OpId, idle: Duration) -> Tested {
        if !self.process.is_this_process() {
            return Tested::Otherwise;
        }
        match self.conversations.shared.take_successful(op) {
            Tested::Pending => self.test_again(op, idle),
            tested => tested,
        }
    }

    /// Makes progress for at most `idle`, and tests once more.
    #[inline(never)]
    fn test_again(&mut self, op: OpId, idle: Duration) -> Tested {
        self.progress();
        match self.conversations.shared.take_successful(op) {
            Tested::Pending if !idle.is_zero() => {}
            tested => return tested,
        }
        let index = op.0 as u32;
        // If its queue was closed, the operation no longer exists once it is done.
        if self.wait_until(idle, |all| all.is_done(index)) {
            self.conversations.shared.take_successful(op)
        } else {
            Tested::Pending
        }
    }

    /// Tests some operations; appends those that completed to `out` and returns how many. If there
    /// are none, the call makes progress and sleeps for `idle`.
    pub fn testsome(
        &mut self,
        ops: &[OpId],
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        self.check_process()?;
        let mut indices = Vec::new();
        (indices.try_reserve_exact(ops.len())).map_err(|_| causeway_transport::Error::System {
            what: format!("allocating a list of {} operations to test", ops.len()),
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        for op in ops {
            let index = self.conversations.shared.ops.find(op.0);
            indices.push(index.ok_or(Error::Stale("operation"))?);
        }
        let any_done = |all: &Conversations<M>| indices.iter().any(|op| all.is_done(*op));
        if !any_done(&self.conversations) {
            self.progress();
            if !idle.is_zero() {
                self.wait_until(idle, any_done);
            }
        }
        let mut count = 0;
        for op in ops {
            // The same operation named twice completes once.
            if let Ok(Some(done)) = self.conversations.shared.take_done(*op) {
                out.push(done);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Tests everything posted to `queue`; appends at most `most`.
    pub fn test_queue(
        &mut self,
        queue: Queue,
        most: usize,
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        let queue = self.queue(queue)?;
        let is_empty = |all: &Conversations<M>| all.shared.queues[queue].is_empty();
        if is_empty(&self.conversations) {
            self.progress();
            if is_empty(&self.conversations) && !idle.is_zero() {
                self.wait_until(idle, |all| !is_empty(all));
            }
        }
        let mut count = 0;
        while count < most
            && let Some(done) = self.conversations.take_completion(queue)
        {
            out.push(done);
            count += 1;
        }
        Ok(count)
    }

    /// Takes at most `most` unexpected messages. Each holds a reference to its address, which the caller releases.
    pub fn testunexpected(
        &mut self,
        most: usize,
        idle: Duration,
        out: &mut Vec<Unexpected>,
    ) -> Result<usize, Error> {
        self.check_process()?;
        // Even if unexpected messages wait to be taken: peers whose messages have yet to be fetched
        // must not fall behind.
        self.progress();
        if self.conversations.shared.ready.is_empty() && !idle.is_zero() {
            self.wait_until(idle, |all| !all.shared.ready.is_empty());
        }
        let mut count = 0;
        while count < most
            && let Some(message) = self.conversations.take_unexpected()
        {
            out.push(message);
            count += 1;
        }
        if count > 0 {
            self.settle();
            self.flush_control();
        }
        Ok(count)
    }

    /// Makes progress until something completes in `queue`, an unexpected message arrives, or
    /// `idle` has passed: the call in which a server's loop sleeps. Returns whether there is
    /// something to test for: in a forked child always, since testing returns the error.
    pub fn wait(&mut self, queue: Queue, idle: Duration) -> bool {
        if self.check_process().is_err() {
            return true;
        }
        let queue = self.queue(queue).ok();
        let ready = |all: &Conversations<M>| {
            let done = queue.is_some_and(|queue| !all.shared.queues[queue].is_empty());
            done || !all.shared.ready.is_empty()
        };
        if ready(&self.conversations) {
            return true;
        }
        self.progress();
        ready(&self.conversations) || (!idle.is_zero() && self.wait_until(idle, ready))
    }

    /// The number of events ([`Endpoint::event_count`]), and how many unexpected messages wait to be taken. Of threads that share this instance, each
    /// learns from it whether another one has changed something.
    #[inline]
    pub fn change_counts(&self) -> (u64, usize) {
        self.conversations.shared.change_counts()
    }

    /// The time that was left to the last wait, if [`Waker::wake`] has ended it. Later calls return `None`.
    pub fn take_interrupted(&mut self) -> Option<Duration> {
        self.interrupted.take()
    }

    /// A waker, by which another thread ends a wait in this instance ([`Waker::wake`]).
    pub fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    /// Allocates a buffer for the method that serves `addr`: peers may map it. Up to 64 MiB, its
    /// pages are populated at once. Freed when its last clone is dropped.
    pub fn memalloc(&mut self, addr: Addr, len: usize) -> Result<Memory, Error> {
        let peer = self.peer(addr)?;
        let method = match self.connections.link(peer) {
            Some((method, _)) => method,
            None => self.first_method(&self.conversations.peers[peer].name)?,
        };
        Ok(self.methods.get(method).allocate(len)?)
    }

    /// Lets the process at `addr` read or write `memory` until [`Endpoint::unexport`]. Begins a connection if there is none, whose greeting it does not
    /// await. Errors: [`NoPeer`](causeway_transport::Error::NoPeer) if it cannot be begun, or this side has agreed that the peer closes it;
    /// [`Error::ReadOnly`] if the peer may write into memory for reading only; those of [`Method::grant`](causeway_transport::Method::grant).
    pub fn export(
        &mut self,
        addr: Addr,
        memory: &Memory,
        access: Access,
    ) -> Result<RegionDescriptor, Error> {
        let peer = self.peer(addr)?;
        if access.allows(Direction::Put) {
            check_writable(std::slice::from_ref(memory))?;
        }
        self.connect(peer);
        self.settle();
        let link = self.connections.link(peer);
        let no_peer = causeway_transport::Error::NoPeer;
        if self.conversations.peers[peer].has_agreed_to_leave() {
            return Err(no_peer.into());
        }
        let (method, handle) = link.ok_or(no_peer)?;
        let is_up = self.conversations.is_up(peer);
        self.connections.end(peer).pinned |= !is_up;
        Ok(self.methods.slot(method).grant(handle, memory, access)?)
    }

    /// Ends an export; the peer cannot access the memory once this returns.
    pub fn unexport(&mut self, addr: Addr, region: &RegionDescriptor) {
        if let Some(peer) = self.find(addr)
            && let Some((method, handle)) = self.connections.link(peer)
        {
            self.methods.get(method).revoke(handle, region.key);
        }
    }

    /// Moves bytes between local memory and memory that the process at `addr` exports to us: one completion for the whole list.
    pub fn post_transfer(
        &mut self,
        addr: Addr,
        direction: Direction,
        local: &[Memory],
        remote: &[RegionDescriptor],
        queue: Queue,
        user: u64,
    ) -> Result<Posted, Error> {
        let (peer, queue) = (self.peer(addr)?, self.queue_to_post(queue)?);
        if direction == Direction::Get {
            check_writable(local)?;
        }
        let size = total(local)?;
        let theirs = remote
            .iter()
            .try_fold(0u64, |sum, region| sum.checked_add(region.len))
            .unwrap_or(u64::MAX);
        if size != theirs {
            let error = TransferError::Length {
                local: size,
                remote: theirs,
            };
            return Ok(at_once(user, Err(error.into())));
        }
        if let Some(refused) = self.refuse_if_gone(peer, user) {
            return Ok(refused);
        }
        if size == 0 {
            return Ok(at_once(user, Ok(0)));
        }
        self.conversations.shared.check_operations()?;
        let local = (Fragments::share(local), size);
        let (all, caller) = (&mut self.conversations, (queue, user));
        let op = all.post_transfer(peer, direction, local, remote.into(), caller);
        self.connect(peer);
        Ok(self.posted(op, user))
    }

    /// Maps memory that the process at `addr` exports to us, if the method can.
    pub fn map(&mut self, addr: Addr, region: &RegionDescriptor) -> Option<Memory> {
        let peer = self.find(addr)?;
        let (method, handle) = self.connections.link(peer)?;
        self.methods.get(method).map(handle, region)
    }

    /// Changes an option, of one address or of the instance. Only the eager limit can be set for one address.
    pub fn set_info(&mut self, addr: Option<Addr>, option: InfoOption) -> Result<(), Error> {
        self.check_process()?;
        let peer = addr.map(|addr| self.peer(addr)).transpose()?;
        match (option, peer) {
            (InfoOption::EagerLimit(_), _) | (_, None) => {}
            (_, Some(_)) => return Err(Error::OptionOfInstance),
        }
        match (option, peer) {
            (InfoOption::EagerLimit(limit), Some(peer)) => {
                let all = &mut self.conversations;
                all.peers[peer].set_eager_limit(&all.shared.tuning, limit);
            }
            (InfoOption::EagerLimit(limit), None) => {
                let all = &mut self.conversations;
                all.shared.tuning.eager_limit = limit;
                for peer in all.peers.indices() {
                    all.peers[peer].set_eager_max(&all.shared.tuning);
                }
            }
            (InfoOption::Spin(limit), _) => self.policy.set_limit(limit),
            (InfoOption::Rendezvous(policy), _) => {
                self.conversations.shared.tuning.policy = policy;
                // A caller that chooses the side that copies does not want the other side to copy as well.
                let both = policy == RendezvousPolicy::Adaptive;
                self.share_copies(Sharing {
                    offers: both,
                    helps: both,
                });
            }
            (InfoOption::StallAfter(stall_after), _) => self.watch.set_stall_after(stall_after),
            (InfoOption::Server(server), _) => self.conversations.shared.tuning.server = server,
            (InfoOption::Refused(refused), _) => self.watch.set_refused(refused),
        }
        Ok(())
    }

    /// The state of the instance: load, queue depths, memory held for unexpected messages.
    pub fn get_info(&self, addr: Option<Addr>) -> Info {
        let peers = match addr {
            Some(addr) => Vec::from_iter(self.conversations.peers.find(addr.0)),
            None => self.conversations.peers.indices(),
        };
        let mut info = Info::default();
        let mut totals = match addr {
            Some(_) => Totals::default(),
            None => self.conversations.shared.touched.totals,
        };
        for &peer in &peers {
            let entry = &self.conversations.peers[peer];
            totals = match addr {
                Some(_) => entry.traffic.totals(),
                None => entry.traffic.added_to(totals),
            };
            info.connected += usize::from(entry.is_up());
            info.early_bytes += entry.grant.held() as usize;
            info.transfers += entry.transfers as usize;
            if addr.is_some() {
                info.unexpected_waiting += entry.arrived.len();
            }
        }
        if addr.is_none() {
            info.early_bytes += self.conversations.shared.budget.pulled() as usize;
            info.unexpected_waiting = self.conversations.shared.unexpected_waiting;
            info.transfers = self.conversations.shared.transfers.active;
            info.sleeps = self.sleeps;
            info.expired_sleeps = self.expired_sleeps;
        }
        (info.sent, info.received) = (totals.sent, totals.received);
        let pending = |op: &&u32| {
            let op = &self.conversations.shared.ops[**op];
            let concerned = addr.is_none() || peers.contains(&op.peer);
            concerned && !matches!(op.state, State::Done) && op.kind != OpKind::Fetch
        };
        let ops = self.conversations.shared.ops.indices();
        info.operations = ops.iter().filter(pending).count();
        info
    }

    fn share_copies(&mut self, sharing: Sharing) {
        for slot in &mut self.methods.slots {
            slot.share_copies(sharing);
        }
        let all = &mut self.conversations;
        for peer in all.peers.indices() {
            if let Some((method, _)) = self.connections.link(peer) {
                let shares = self.methods.slots[method].limits.shares_copies;
                all.peers[peer].set_shares_copies(shares);
            }
        }
    }

    /// Refuses a call in a process that was forked from the owner of the instance.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        match self.process.is_this_process() {
            true => Ok(()),
            false => Err(Error::Forked),
        }
    }

    /// The peer of an address, for calls that do nothing if it does not exist.
    fn find(&self, addr: Addr) -> Option<u32> {
        self.check_process().ok()?;
        self.number(addr)
    }

    /// The number by which patterns name a peer, unless the address is stale.
    #[inline]
    pub fn number(&self, addr: Addr) -> Option<u32> {
        self.conversations.peers.find(addr.0)
    }
}
