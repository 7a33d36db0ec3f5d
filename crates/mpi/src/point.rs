//! Messages from one process to another (MPI 5.0 chapter 3).

use causeway_engine::types::{Addr, DirectReceive, Error as EngineError, Posted};
use causeway_engine::{Memory, Takes};

use crate::abi;
use crate::buffer::{Buffer, temporary};
use crate::buffering::{Buffers, NO_OWNER, OPTIONAL, Owner};
use crate::communicator::{Peer, check_tag};
use crate::datatype::Basic;
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::process::{Active, POSTS, Process, State};
use crate::record;
use crate::status::Status;

/// The condition under which a send is done (MPI 5.0 §3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Its memory is free.
    Standard,
    /// None: the message is copied.
    Buffered,
    /// Its receive has been found.
    Synchronous,
    /// As in the standard mode; its receive is posted already.
    Ready,
}

/// The destination or source of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The other process's rank.
    pub rank: i32,
    /// The message's tag.
    pub tag: i32,
    /// The communicator's handle.
    pub communicator: usize,
}

/// Messages with gaps of at most so many bytes are packed as a whole for a process that has no connection yet: the method, and so
/// what it prefers, is known only later.
const WHOLE_BEFORE_CONNECTED: u64 = 8 << 10;

/// Outcome of an attempt to receive.
#[derive(Debug)]
pub enum Received {
    /// No receive has been posted, and no message taken.
    NeedsGeneralPath,
    /// The message has been received.
    Done(Result<Status>),
    /// The receive must be waited for like others: it has failed, or may fail.
    Waits(Active),
}

/// Bytes that a message of this length uses of an attached buffer.
fn with_overhead(bytes: usize) -> u64 {
    (bytes as u64).saturating_add(abi::BSEND_OVERHEAD as u64)
}

/// The fast paths, for messages in one piece. They leave unusual messages and errors to the other
/// functions, and then have no effect.
impl Process {
    /// Sends a message in the standard mode if it can be sent at once. Returns whether it was.
    #[inline(always)]
    pub fn send_at_once(&mut self, from: &Memory, route: Route) -> bool {
        let found = self.communicator(route.communicator).ok();
        let peers = found.map(|communicator| &communicator.peers);
        let peer = peers.and_then(|peers| peers.get(usize::try_from(route.rank).ok()?));
        let (Some(peer), Ok(tag), false) = (peer, u32::try_from(route.tag), record::is_on()) else {
            return false;
        };
        let (addr, word) = (peer.addr, MpiPattern::word(peer.context, tag));
        !self.endpoint.holds_messages(addr) && self.endpoint.try_send(addr, from, word, POSTS)
    }

    /// The arguments of a receive, unless it is unusual.
    #[inline(always)]
    fn usual_pattern(&self, route: Route) -> Option<MpiPattern> {
        if route.rank == abi::PROC_NULL || record::is_on() {
            return None;
        }
        let communicator = self.communicator(route.communicator).ok()?;
        communicator.find_pattern(route.rank, route.tag)
    }

    /// Starts to receive a message that has not come. Returns the handle of its request.
    #[inline(always)]
    pub fn receive_with_request(&mut self, into: &Memory, route: Route) -> Option<Result<usize>> {
        let pattern = self.usual_pattern(route)?;
        if !self.requests.has_room() {
            return None;
        }
        let op = self.endpoint.try_receive(pattern, into, POSTS, 0)?;
        let from_any = route.rank == abi::ANY_SOURCE;
        Some(self.keep_receive(op, (route.communicator, from_any)))
    }

    /// Receives a message that has not arrived, if no other operation is in progress. Where its status is not `wanted`, it may be empty.
    #[inline(always)]
    pub fn receive_alone(&mut self, into: &Memory, route: Route, wanted: bool) -> Received {
        if self.has_threads || !self.is_quiet() {
            return Received::NeedsGeneralPath;
        }
        let Some(pattern) = self.usual_pattern(route) else {
            return Received::NeedsGeneralPath;
        };
        let from_any = route.rank == abi::ANY_SOURCE;
        // A receive from any source fails once a process of the communicator is lost, which the general path checks.
        if from_any && self.endpoint.losses() != 0 {
            return Received::NeedsGeneralPath;
        }
        let takes = match from_any {
            true => Takes::OneInTurn,
            false if self.requests.is_empty() => Takes::One,
            // These receives may be for messages that arrive meanwhile.
            false => Takes::Some,
        };
        let caller = (POSTS, 0);
        match self.endpoint.receive_directly(pattern, into, caller, takes) {
            DirectReceive::Whole(bytes) => Received::Done(match wanted || record::is_on() {
                true => self.received(None, route.communicator, bytes),
                false => Ok(Status::empty()),
            }),
            DirectReceive::Waits(op) => {
                let state = State::Receive { op, from_any };
                Received::Waits(Active::new(state, route.communicator))
            }
            DirectReceive::Unusual => Received::NeedsGeneralPath,
        }
    }
}

impl Process {
    /// Starts to send.
    #[inline]
    pub fn send(&mut self, from: Buffer<'_>, route: Route, mode: Mode) -> Result<Active> {
        let communicator = self.communicator(route.communicator)?;
        let tag = check_tag(route.tag)?;
        if route.rank == abi::PROC_NULL {
            return Ok(Active::done(Status::of_send(), route.communicator));
        }
        let peer = communicator.peer(route.rank)?;
        let word = MpiPattern::word(peer.context, tag);
        let packed;
        let memory = match from.is_plain() {
            true => from.memory,
            false if mode != Mode::Buffered && self.goes_in_parts(&from, peer) => {
                return self.send_in_parts(&from, (peer, word), route.communicator);
            }
            false => {
                packed = from.packed()?;
                &packed
            }
        };
        // A send for which there is no room was not posted.
        let buffer = match mode {
            Mode::Buffered => self.buffer_for(route.communicator, memory.len())?,
            _ => 0,
        };
        if record::is_on() {
            let peer = self.process_of(peer.number);
            record::sent(peer, word, memory.len() as u64);
        }
        let memory = std::slice::from_ref(memory);
        let posted = match mode {
            Mode::Standard | Mode::Ready => {
                self.endpoint.post_send(peer.addr, memory, word, POSTS, 0)
            }
            Mode::Synchronous => self
                .endpoint
                .post_synchronous_send(peer.addr, memory, word, POSTS, 0),
            Mode::Buffered => {
                self.send_buffered(&memory[0], (peer.addr, word), buffer)?;
                return Ok(Active::done(Status::of_send(), route.communicator));
            }
        };
        self.sent(posted, peer.addr, route.communicator)
    }

    /// Whether a message with gaps is packed while it is sent: shorter ones are packed as a whole.
    fn goes_in_parts(&self, from: &Buffer<'_>, peer: Peer) -> bool {
        let whole = match self.endpoint.largest_whole(peer.addr) {
            0 => WHOLE_BEFORE_CONNECTED,
            known => known,
        };
        from.count.saturating_mul(from.datatype.size()) > whole
    }

    /// Starts to send a message with gaps that is packed while it is sent.
    fn send_in_parts(
        &mut self,
        from: &Buffer<'_>,
        (peer, word): (Peer, u64),
        communicator: usize,
    ) -> Result<Active> {
        let gaps = from.in_pieces()?;
        let bytes = gaps.bytes();
        if record::is_on() {
            record::sent(self.process_of(peer.number), word, bytes);
        }
        let message = (Box::new(gaps) as _, bytes);
        let posted = self
            .endpoint
            .post_send_pieces(peer.addr, message, word, POSTS, 0);
        self.sent(posted, peer.addr, communicator)
    }

    /// Starts to send a copy: the memory is free at once.
    pub fn send_copy(&mut self, from: Buffer<'_>, route: Route) -> Result<Active> {
        let packed = from.packed()?;
        let memory = temporary(packed.len())?;
        memory.copy_from(&packed);
        let bytes = Buffer {
            memory: &memory,
            count: memory.len() as u64,
            datatype: &Basic::Byte.into(),
        };
        self.send(bytes, route, Mode::Standard)
    }

    /// Fails if no message can be sent by this route, whose wildcards are those of receives.
    pub fn check_destination(&self, route: Route) -> Result<()> {
        let communicator = self.communicator(route.communicator)?;
        if route.rank != abi::PROC_NULL {
            communicator.peer(route.rank)?;
            check_tag(route.tag)?;
        }
        Ok(())
    }

    /// Fails if no message can be received by this route.
    pub fn check_route(&self, route: Route) -> Result<()> {
        let communicator = self.communicator(route.communicator)?;
        match route.rank {
            abi::PROC_NULL => Ok(()),
            _ => communicator.pattern(route.rank, route.tag).map(drop),
        }
    }

    /// Sends a copy; the program does not wait for its completion.
    fn send_buffered(
        &mut self,
        memory: &Memory,
        (to, word): (Addr, u64),
        buffer: u64,
    ) -> Result<()> {
        let copy = temporary(memory.len())?;
        copy.copy_from(memory);
        self.post_unattended(to, &[copy], word, buffer)?;
        Ok(())
    }

    /// Posts a send without a request, of memory that the send owns.
    pub(crate) fn post_unattended(
        &mut self,
        to: Addr,
        memory: &[Memory],
        word: u64,
        buffer: u64,
    ) -> std::result::Result<(), EngineError> {
        let posted = self
            .endpoint
            .post_send(to, memory, word, self.buffered, buffer)?;
        match posted {
            Posted::Pending(op) => {
                let bytes = match buffer {
                    NO_OWNER | OPTIONAL => 0,
                    _ => with_overhead(memory.iter().map(Memory::len).sum()),
                };
                self.buffers.started(op, buffer, bytes);
            }
            // The process may compute next, without progress.
            Posted::Complete(_) => self.endpoint.flush(),
        }
        Ok(())
    }

    /// Starts to receive.
    #[inline]
    pub fn receive(&mut self, into: Buffer<'_>, route: Route) -> Result<Active> {
        let communicator = self.communicator(route.communicator)?;
        if route.rank == abi::PROC_NULL {
            return Ok(Active::done(Status::of_proc_null(), route.communicator));
        }
        let pattern = communicator.pattern(route.rank, route.tag)?;
        let from_any = route.rank == abi::ANY_SOURCE;
        let posted = match into.is_plain() {
            true => {
                let memory = std::slice::from_ref(into.memory);
                self.endpoint.post_receive(pattern, memory, POSTS, 0)
            }
            false => {
                let gaps = into.in_pieces()?;
                let bytes = gaps.bytes();
                let gaps = (Box::new(gaps) as _, bytes);
                self.endpoint.post_receive_pieces(pattern, gaps, POSTS, 0)
            }
        };
        self.receiving(posted, (route.communicator, from_any))
    }

    /// The message that a receive would get now, if one has arrived. Makes no progress.
    pub fn probe(&mut self, route: Route) -> Result<Option<Status>> {
        let communicator = self.communicator(route.communicator)?;
        if route.rank == abi::PROC_NULL {
            return Ok(Some(Status::of_proc_null()));
        }
        let pattern = communicator.pattern(route.rank, route.tag)?;
        let Some(envelope) = self.endpoint.probe(pattern) else {
            return self.check_sources(route).map(|()| None);
        };
        Ok(Some(self.status_of(route.communicator, envelope)?))
    }

    /// The status of a message that waits for its receive.
    pub(crate) fn status_of(
        &self,
        communicator: usize,
        envelope: causeway_engine::types::Envelope,
    ) -> Result<Status> {
        let source = self
            .communicator(communicator)?
            .rank_of_number(self.process_of(envelope.peer));
        Ok(Status::of_message(
            source,
            envelope.tag as u32 as i32,
            envelope.size,
        ))
    }

    /// Fails if no message can come because a process that could send it is lost.
    pub(crate) fn check_sources(&self, route: Route) -> Result<()> {
        if self.endpoint.losses() == 0 {
            return Ok(());
        }
        if route.rank == abi::ANY_SOURCE {
            let lost = self.lost_of(route.communicator);
            return lost.map_or(Ok(()), |error| Err(error.on(route.communicator)));
        }
        let peer = self.communicator(route.communicator)?.peer(route.rank)?;
        match self.endpoint.loss(peer.addr) {
            None => Ok(()),
            Some(cause) => {
                let text = format!("rank {}: {cause}", route.rank);
                Err(Error::new(abi::ERR_PROC_ABORTED, text).on(route.communicator))
            }
        }
    }
}

impl Process {
    /// Sets how many bytes buffered messages on their way may have together, or that there is no buffer.
    pub fn limit_buffered(&mut self, owner: Owner, limit: Option<u64>) {
        match limit {
            Some(limit) => self.buffers.limits.insert(owner, limit),
            None => self.buffers.limits.remove(&owner),
        };
    }

    /// The number of the buffer that a message of so many bytes uses; an error if it has no room beside those that are on their way.
    pub(crate) fn buffer_for(&mut self, communicator: usize, bytes: usize) -> Result<u64> {
        let needed = with_overhead(bytes);
        let has = |owner: &Owner| self.buffers.limits.contains_key(owner);
        let session = self.communicator(communicator)?.local.session();
        let owner = Some(Owner::Communicator(communicator))
            .filter(has)
            .or_else(|| session.map(Owner::Session).filter(has))
            .unwrap_or(Owner::Process);
        let Some(limit) = self.buffers.limits.get(&owner).copied() else {
            return Err(Error::new(abi::ERR_BUFFER, "no buffer is attached"));
        };
        let has_room = |buffers: &Buffers| needed <= limit.saturating_sub(buffers.used(owner));
        if !has_room(&self.buffers) {
            // Some may be done.
            self.progress();
        }
        if has_room(&self.buffers) {
            return Ok(owner.number());
        }
        let used = self.buffers.used(owner);
        let text = format!(
            "{needed} bytes, with the overhead, in a buffer of {limit}, of which messages on their way use {used}"
        );
        Err(Error::new(abi::ERR_BUFFER, text))
    }

    /// Whether messages in a buffer have not been sent yet.
    pub fn has_buffered(&mut self, owner: Owner) -> bool {
        self.drain();
        !self.buffers.is_empty(owner)
    }

    /// Starts to wait until a buffer is empty.
    pub fn flush_buffer(&self, owner: Owner) -> Active {
        let communicator = match owner {
            Owner::Process | Owner::Session(_) => abi::COMM_SELF,
            Owner::Communicator(handle) => handle,
        };
        let mut active = Active::done(Status::empty(), communicator);
        active.state = State::Flush(owner);
        active
    }

    pub(crate) fn poll_flush(&self, owner: Owner) -> Option<Status> {
        self.buffers.is_empty(owner).then(Status::empty)
    }
}
