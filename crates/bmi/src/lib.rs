//! The message transfer layer (Carns): post, then test.
//!
//! Everything is nonblocking: a `post_*` call starts an operation, a `test*` call makes progress and
//! tells what has completed, sleeping at most as long as it is told. Addresses are connectionless
//! text; tags name messages; messages that nobody asked for arrive through
//! [`Bmi::testunexpected`]. The methods underneath (`shm`, `tcp`, …) are chosen by address.
//!
//! Read [`types`] first, then [`Bmi`]. A [`Bmi`] belongs to one thread at a time; a process may have
//! several.
//!
//! Inside, the protocol's state (`core`) is apart from the methods: read `core` (what is delivered
//! and what is left to do), `op` and `peer` (states), then `connect`, `receives`, `eager` with
//! `credit`, `rendezvous` with `transfers`, `cancel`. `slab`, `matching` and `fragments` are the tables that
//! make the path of a small message short; `posting` is what the calls below share; `progress`
//! polls, with `spin` to wait, `turn` to let others run and `wait` to sleep; `loopback` is how a process sends to itself; `traffic`
//! counts, `watch` shows others what is going on and `stall` tells of operations that do not get
//! on. The packets are defined in `causeway_wire::bmi`.
//!
//! What this room does not do: order messages of different tags, understand what they contain, or
//! retry what failed.
#![forbid(unsafe_code)]

mod cancel;
mod connect;
mod core;
mod credit;
mod crowd;
mod eager;
mod fragments;
mod landing;
mod loopback;
mod matching;
mod methods;
mod op;
mod peer;
mod posting;
mod progress;
mod receives;
mod rendezvous;
mod slab;
mod spin;
mod stall;
mod traffic;
mod transfers;
mod turn;
pub mod types;
mod wait;
mod watch;

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use causeway_transport::registry::{Registry, Settings};
use causeway_transport::{Sharing, TransferError};

pub use causeway_sys::memory::Memory;
pub use causeway_transport::{Access, Direction, Identity, PeerError, PeerReport};
pub use causeway_watch::log;
pub use causeway_wire::region::RegionDescriptor;
pub use types::*;

use crate::core::{Core, NOBODY, Tested, Tuning};
use crate::crowd::Crowd;
use crate::fragments::{Fragments, check_writable, total};
use crate::loopback::Loopback;
use crate::methods::Methods;
use crate::op::{Remote, State, What};
use crate::peer::{Peer, Phase};
use crate::spin::Spin;
use crate::turn::Turn;
use crate::wait::{Pace, Sleeper};
use crate::watch::Watch;

/// What an operation that completed at once is called in its [`Completion`].
const AT_ONCE: OpId = OpId(0);

/// One instance of the message layer, with its methods, addresses, contexts and operations.
pub struct Bmi {
    core: Core,
    methods: Methods,
    pace: Pace,
    spin: Spin,
    turn: Turn,
    crowd: Crowd,
    /// Since when nothing has come that a wait was for.
    waiting_since: Option<Instant>,
    sleeper: Sleeper,
    /// See [`Info::sleeps`].
    sleeps: u64,
    /// See [`Info::expired_sleeps`].
    expired_sleeps: u64,
    watch: Watch,
    /// Methods that the system refused, and why.
    unavailable: Vec<(&'static str, String)>,
}

#[inline]
pub(crate) fn at_once(user: u64, result: Result<u64, OpError>) -> Posted {
    Posted::Complete(Completion {
        op: AT_ONCE,
        user,
        result,
    })
}

/// An answer that is not the usual one. It has room for every error, and the usual one beside it fits into registers:
/// were this one not apart, that one would go through the same memory.
#[cold]
#[inline(never)]
fn apart<T>(answer: impl FnOnce() -> T) -> Box<T> {
    Box::new(answer())
}

impl Bmi {
    /// Starts the layer: registers methods and listens where the configuration says.
    pub fn new(config: Config) -> Result<Self, Error> {
        let registry = Registry::builtin(&Settings {
            key: config.key,
            encrypt: config.encrypt,
            connect_timeout: config.connect_timeout,
            tcp_connections: config.tcp_connections,
        })?;
        Self::with_methods(config, registry)
    }

    /// Starts the layer over methods of the caller's choice.
    pub fn with_methods(config: Config, mut registry: Registry) -> Result<Self, Error> {
        let system = |source| causeway_transport::Error::System {
            what: "making an eventfd".into(),
            source,
        };
        registry.register(Box::new(Loopback::new().map_err(system)?));
        let unavailable = registry.unavailable().to_vec();
        let mut methods = Methods::new(registry.into_methods());
        let tuning = Tuning {
            eager_limit: config.eager_limit,
            unexpected_limit: config.unexpected_limit,
            policy: RendezvousPolicy::default(),
            server: !config.listen.is_empty(),
        };
        let mut core = Core::new(tuning, config.early_memory, methods.slots.len());
        for text in &config.listen {
            let address: causeway_transport::Address = text.parse()?;
            let schemes = methods.schemes();
            let index = schemes.iter().position(|s| *s == address.scheme());
            let index = index.ok_or_else(|| causeway_transport::Error::NoMethod {
                scheme: address.scheme().to_owned(),
                known: schemes.join(", "),
            })?;
            let address = methods.get(index).listen(&address)?;
            core.listening.push(address.to_string());
        }
        core.sort_listening();
        let sleeper = Sleeper::new(&methods).map_err(system)?;
        Ok(Self {
            core,
            methods,
            pace: Pace::new(),
            spin: Spin::new(config.spin),
            turn: Turn::new(Instant::now()),
            crowd: Crowd::default(),
            waiting_since: None,
            sleeper,
            sleeps: 0,
            expired_sleeps: 0,
            watch: Watch::new(config.stall_after, config.publish),
            unavailable,
        })
    }

    /// The addresses that others can reach this process at, as text, best first.
    pub fn listening(&self) -> Vec<String> {
        self.core.listening.clone()
    }

    /// A handle for the process at `address`. Several addresses of one process may be given, joined
    /// with commas: the cheapest that can be reached is taken. Equal addresses give equal handles;
    /// each look-up adds a reference. No connection is made yet.
    ///
    /// What the process sends on connections of its own comes from other addresses: those that its
    /// unexpected messages carry. An address of this process itself may be looked up, too.
    pub fn lookup(&mut self, address: &str) -> Result<Addr, Error> {
        if let Some(&peer) = self.core.by_text.get(address) {
            self.core.peers[peer].refs += 1;
            return Ok(Addr(self.core.peers.key(peer)));
        }
        self.core.check(&self.methods, address)?;
        let peer = self.core.peers.insert(Peer::looked_up(address.to_owned()));
        self.core.by_text.insert(address.to_owned(), peer);
        Ok(Addr(self.core.peers.key(peer)))
    }

    /// The text of an address.
    pub fn reverse_lookup(&self, addr: Addr) -> Option<String> {
        let peer = self.core.peers.find(addr.0)?;
        Some(self.core.peers[peer].text.clone())
    }

    /// Adds a reference to an address (for one that came with an unexpected message).
    pub fn retain(&mut self, addr: Addr) {
        if let Some(peer) = self.core.peers.find(addr.0) {
            self.core.peers[peer].refs += 1;
        }
    }

    /// Takes a reference away; the last one drops the connection once nothing is in flight.
    pub fn release(&mut self, addr: Addr) {
        let Some(peer) = self.core.peers.find(addr.0) else {
            return;
        };
        let entry = &mut self.core.peers[peer];
        entry.refs = entry.refs.saturating_sub(1);
        if entry.refs == 0 {
            self.core.maybe_drop(&mut self.methods, peer);
            self.settle();
        }
    }

    /// Drops the connection under an address at once, without waiting for the peer: for one that
    /// hangs. Every operation in flight with it completes with [`PeerError::Disconnected`], its early
    /// messages are discarded, exports to it end. References stay valid; the next operation on a
    /// looked-up address connects anew.
    pub fn disconnect(&mut self, addr: Addr) {
        if let Some(peer) = self.core.peers.find(addr.0) {
            self.core.disconnect(&mut self.methods, peer);
            self.settle();
        }
    }

    /// Who is at the other end, as far as is known for certain; `None` while not connected.
    pub fn identity(&self, addr: Addr) -> Option<Identity> {
        let peer = self.core.peers.find(addr.0)?;
        let (method, handle) = self.core.peers[peer].link?;
        self.methods.slots[method].method.identity(handle)
    }

    /// The scheme of the method that a peer is connected by.
    pub fn method(&self, addr: Addr) -> Option<&'static str> {
        let peer = self.core.peers.find(addr.0)?;
        let (method, _) = self.core.peers[peer].link?;
        Some(self.methods.slots[method].scheme)
    }

    /// What was chosen for this address, and why.
    pub fn report(&self, addr: Addr) -> Option<PeerReport> {
        let peer = &self.core.peers[self.core.peers.find(addr.0)?];
        let mut report = PeerReport::default();
        let state = match &peer.phase {
            Phase::Closed => "not connected".to_owned(),
            Phase::Greeting => "connecting".to_owned(),
            Phase::Up => "connected".to_owned(),
            Phase::Falling => "going down".to_owned(),
            Phase::Gone(cause) => format!("gone: {cause}"),
        };
        report.facts.push(("connection", state));
        if let Some((method, handle)) = peer.link {
            let slot = &self.methods.slots[method];
            report.facts.push(("method", slot.scheme.to_owned()));
            let theirs = slot.method.report(handle).unwrap_or_default();
            report.facts.extend(theirs.facts);
        }
        let notes = peer.notes.iter();
        report
            .facts
            .extend(notes.map(|note| ("passed over", note.clone())));
        let absent = self.unavailable.iter();
        let absent = absent.map(|(scheme, why)| ("unavailable", format!("{scheme}: {why}")));
        report.facts.extend(absent);
        Some(report)
    }

    /// Opens a completion context. Operations posted to it are tested apart from others.
    pub fn open_context(&mut self) -> Result<Context, Error> {
        const LIMIT: usize = 1 << 16;
        if self.core.contexts.len() >= LIMIT {
            return Err(Error::Limit {
                what: "contexts",
                limit: LIMIT,
            });
        }
        let index = self.core.contexts.insert(Default::default());
        Ok(Context(self.core.contexts.key(index)))
    }

    /// Closes a context, cancelling what is still posted to it.
    pub fn close_context(&mut self, context: Context) {
        let Some(index) = self.core.contexts.find(context.0) else {
            return;
        };
        for op in self.core.ops.indices() {
            if self.core.ops[op].context != index {
                continue;
            }
            if matches!(self.core.ops[op].state, State::Done) {
                self.core.take(op);
            } else {
                // Nobody will ask for it any more: it vanishes when it is done.
                self.core.ops[op].context = NOBODY;
                self.core.cancel(&mut self.methods, op);
            }
        }
        self.core.contexts.remove(index);
        self.settle();
    }

    /// Sends `data`, gathered from fragments, to be received under `tag`. A completed send has left the
    /// caller's memory; it leaves the process at the latest with the next call that makes progress.
    #[inline]
    pub fn post_send(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        match self.send_now(to, data, tag, context) {
            Some(size) => Ok(at_once(user, Ok(size))),
            None => *apart(|| self.post_message(to, data, tag, context, user, false)),
        }
    }

    /// Receives the next message of (`from`, `tag`) into `into`, scattered over fragments. A message
    /// larger than the fragments completes with [`OpError::TooLarge`].
    #[inline]
    pub fn post_recv(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        match self.receive_later(from, into, tag, context, user) {
            Some(op) => Ok(Posted::Pending(op)),
            None => *apart(|| self.receive(from, into, tag, context, user)),
        }
    }

    /// What [`Bmi::post_recv`] does if nothing can be said beforehand.
    fn receive(
        &mut self,
        from: Addr,
        into: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        let (peer, context) = self.handles(from, context)?;
        check_writable(into)?;
        let room = total(into)?;
        if !self.core.early_table.is_empty()
            && let Some(posted) = self.receive_early(peer, into, room, tag, (context, user))?
        {
            return Ok(posted);
        }
        let up = self.core.peers[peer].is_up();
        if !up && let Some(refused) = self.reachable(peer, user) {
            return Ok(refused);
        }
        self.check_operations()?;
        let op = self.core.add_receive(peer, (context, user), tag, room);
        self.core.ops[op].fragments = Fragments::share(into);
        if up {
            return Ok(Posted::Pending(OpId(self.core.ops.key(op))));
        }
        self.core.connect(&mut self.methods, peer);
        Ok(self.posted(op, user))
    }

    /// Sends `data` to be found by the peer's [`Bmi::testunexpected`]. At most
    /// [`Config::unexpected_limit`] bytes.
    pub fn post_sendunexpected(
        &mut self,
        to: Addr,
        data: &[Memory],
        tag: Tag,
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        self.post_message(to, data, tag, context, user, true)
    }

    /// Cancels an operation. It still completes, with [`OpError::Cancelled`] or, if that came first,
    /// as it would have; its memory is free only then.
    pub fn cancel(&mut self, op: OpId) {
        if let Some(op) = self.core.ops.find(op.0) {
            self.core.cancel(&mut self.methods, op);
            self.settle();
        }
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
            Tested::Otherwise => *apart(|| self.core.take_done(op)),
        }
    }

    #[inline(never)]
    fn test_one(&mut self, op: OpId, idle: Duration) -> Tested {
        match self.core.take_successful(op) {
            Tested::Pending => {}
            tested => return tested,
        }
        self.progress();
        match self.core.take_successful(op) {
            Tested::Pending if !idle.is_zero() => {}
            tested => return tested,
        }
        let index = op.0 as u32;
        // One whose context was closed is gone once it is done.
        let is_done = |core: &Core| {
            let op = core.ops.get(index);
            op.is_none_or(|op| matches!(op.state, State::Done))
        };
        if self.wait_until(idle, is_done) {
            self.core.take_successful(op)
        } else {
            Tested::Pending
        }
    }

    /// Tests some operations; appends those that completed to `out` and returns how many. Of no operations none
    /// completes: progress is made, and slept, for `idle`.
    pub fn testsome(
        &mut self,
        ops: &[OpId],
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        let mut indices = Vec::new();
        let limit = ops.len();
        let what = "operations tested for at once, with the memory there is";
        (indices.try_reserve_exact(limit)).map_err(|_| Error::Limit { what, limit })?;
        for op in ops {
            let index = self.core.ops.find(op.0);
            indices.push(index.ok_or(Error::Stale("operation"))?);
        }
        let any_done = |core: &Core| {
            let mut ops = indices.iter().map(|op| core.ops.get(*op));
            ops.any(|op| op.is_none_or(|op| matches!(op.state, State::Done)))
        };
        if !any_done(&self.core) {
            self.progress();
            if !idle.is_zero() {
                self.wait_until(idle, any_done);
            }
        }
        let mut count = 0;
        for op in ops {
            // The same operation named twice completes once.
            if let Ok(Some(done)) = self.core.take_done(*op) {
                out.push(done);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Tests everything posted to `context` (the thesis's testglobal); appends at most `most`.
    pub fn testcontext(
        &mut self,
        context: Context,
        most: usize,
        idle: Duration,
        out: &mut Vec<Completion>,
    ) -> Result<usize, Error> {
        let context = self.core.contexts.find(context.0);
        let context = context.ok_or(Error::Stale("context"))?;
        if self.core.contexts[context].is_empty() {
            self.progress();
            if self.core.contexts[context].is_empty() && !idle.is_zero() {
                self.wait_until(idle, |core| !core.contexts[context].is_empty());
            }
        }
        let mut count = 0;
        while count < most
            && let Some(op) = self.core.contexts[context].first()
        {
            out.push(self.core.take(op));
            count += 1;
        }
        Ok(count)
    }

    /// Takes at most `most` unexpected messages. Each carries a reference to its address, which the
    /// caller releases.
    pub fn testunexpected(
        &mut self,
        most: usize,
        idle: Duration,
        out: &mut Vec<Unexpected>,
    ) -> Result<usize, Error> {
        // Even if some wait: those whose messages have yet to be fetched must not fall behind.
        self.progress();
        if self.core.ring.is_empty() && !idle.is_zero() {
            self.wait_until(idle, |core| !core.ring.is_empty());
        }
        let mut count = 0;
        while count < most
            && let Some(message) = self.core.take_unexpected()
        {
            out.push(message);
            count += 1;
        }
        if count > 0 {
            self.settle();
        }
        Ok(count)
    }

    /// Makes progress until something completes in `context`, an unexpected message arrives, or `idle`
    /// has passed: what a server's loop sleeps in. Answers whether there is something to test for.
    pub fn wait(&mut self, context: Context, idle: Duration) -> bool {
        let context = self.core.contexts.find(context.0);
        let ready = |core: &Core| {
            let done = context.is_some_and(|context| !core.contexts[context].is_empty());
            done || !core.ring.is_empty()
        };
        if ready(&self.core) {
            return true;
        }
        self.progress();
        ready(&self.core) || (!idle.is_zero() && self.wait_until(idle, ready))
    }

    /// A descriptor that ends a sleep in this instance when another thread calls
    /// [`Waker::wake`].
    pub fn waker(&self) -> Waker {
        self.sleeper.waker()
    }

    /// A buffer laid out for the method that serves `addr`: peers may map it. Up to 64 MiB it has its pages from the
    /// beginning. Freed when its last clone is dropped.
    pub fn memalloc(&mut self, addr: Addr, len: usize) -> Result<Memory, Error> {
        let peer = self.peer(addr)?;
        let method = match self.core.peers[peer].link {
            Some((method, _)) => method,
            None => {
                let text = &self.core.peers[peer].text;
                self.core.check(&self.methods, text)?
            }
        };
        Ok(self.methods.get(method).allocate(len)?)
    }

    /// Lets the process at `addr` read or write `memory` until [`Bmi::unexport`].
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
        self.core.connect(&mut self.methods, peer);
        self.settle();
        let link = self.core.peers[peer].link;
        let (method, handle) = link.ok_or(causeway_transport::Error::NoPeer)?;
        Ok(self.methods.get(method).export(handle, memory, access)?)
    }

    /// Ends an export; the peer cannot touch the memory once this returns.
    pub fn unexport(&mut self, addr: Addr, region: &RegionDescriptor) {
        if let Some(peer) = self.core.peers.find(addr.0)
            && let Some((method, handle)) = self.core.peers[peer].link
        {
            self.methods.get(method).unexport(handle, region.key);
        }
    }

    /// Moves bytes between local memory and memory that the process at `addr` exports to us: one
    /// completion for the whole list.
    pub fn post_transfer(
        &mut self,
        addr: Addr,
        direction: Direction,
        local: &[Memory],
        remote: &[RegionDescriptor],
        context: Context,
        user: u64,
    ) -> Result<Posted, Error> {
        let (peer, context) = self.handles(addr, context)?;
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
        if let Some(refused) = self.reachable(peer, user) {
            return Ok(refused);
        }
        if size == 0 {
            return Ok(at_once(user, Ok(0)));
        }
        let state = State::ToMove(Box::new(Remote {
            direction,
            regions: remote.to_vec(),
        }));
        let memory = (Fragments::share(local), size);
        let op = self.add(What::Transfer, peer, (context, user), 0, memory, state)?;
        self.core.connect(&mut self.methods, peer);
        self.core.start_transfer(&mut self.methods, op);
        Ok(self.posted(op, user))
    }

    /// Maps memory that the process at `addr` exports to us, if the method can.
    pub fn map(&mut self, addr: Addr, region: &RegionDescriptor) -> Option<Memory> {
        let peer = self.core.peers.find(addr.0)?;
        let (method, handle) = self.core.peers[peer].link?;
        self.methods.get(method).map(handle, region)
    }

    /// Changes an option, of one address or of the layer. Only the eager limit is of an address.
    pub fn set_info(&mut self, addr: Option<Addr>, option: InfoOption) -> Result<(), Error> {
        let peer = addr.map(|addr| self.peer(addr)).transpose()?;
        match (option, peer) {
            (InfoOption::EagerLimit(_), _) | (_, None) => {}
            (_, Some(_)) => return Err(Error::OptionOfInstance),
        }
        match (option, peer) {
            (InfoOption::EagerLimit(limit), Some(peer)) => {
                self.core.peers[peer].eager_limit = Some(limit);
                self.core.set_eager_max(peer);
            }
            (InfoOption::EagerLimit(limit), None) => {
                self.core.tuning.eager_limit = limit;
                for peer in self.core.peers.indices() {
                    self.core.set_eager_max(peer);
                }
            }
            (InfoOption::Spin(limit), _) => self.spin.set_limit(limit),
            (InfoOption::Rendezvous(policy), _) => {
                self.core.tuning.policy = policy;
                // Who says which side copies does not want the other to.
                let both = policy == RendezvousPolicy::Adaptive;
                for slot in &mut self.methods.slots {
                    slot.method.share_copies(Sharing {
                        offers: both,
                        helps: both,
                    });
                }
            }
            (InfoOption::StallAfter(stall_after), _) => self.watch.set_stall_after(stall_after),
            (InfoOption::Server(server), _) => self.core.tuning.server = server,
        }
        Ok(())
    }

    /// What the layer is doing: load, queue depths, memory held for unexpected messages.
    pub fn get_info(&self, addr: Option<Addr>) -> Info {
        let peers = match addr {
            Some(addr) => Vec::from_iter(self.core.peers.find(addr.0)),
            None => self.core.peers.indices(),
        };
        let mut info = Info::default();
        for &peer in &peers {
            let entry = &self.core.peers[peer];
            info.connected += usize::from(entry.is_up());
            info.early_bytes += entry.grant.held() as usize;
            info.transfers += entry.transfers as usize;
            if addr.is_some() {
                info.unexpected_waiting += entry.arrived.len();
            }
        }
        if addr.is_none() {
            info.early_bytes += self.core.budget.pulled() as usize;
            info.unexpected_waiting = self.core.unexpected_waiting;
            info.transfers = self.core.transfers.active;
            info.sleeps = self.sleeps;
            info.expired_sleeps = self.expired_sleeps;
        }
        let pending = |op: &&u32| {
            let op = &self.core.ops[**op];
            let concerned = addr.is_none() || peers.contains(&op.peer);
            concerned && !matches!(op.state, State::Done) && op.what != What::Fetch
        };
        info.operations = self.core.ops.indices().iter().filter(pending).count();
        info
    }
}
