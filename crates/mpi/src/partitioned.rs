//! Partitioned messages (MPI 5.0 §4.2): each partition is sent as soon as the sender marks it ready.
//!
//! A new send notifies the receiver how many partitions it has, and the tag of the first; receives are matched with
//! sends by this description. Then each partition is a message of its own, independently of the receiver's partitions.

use causeway_engine::Memory;
use causeway_engine::types::{OpError, OpId, Posted};

use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::buffering::NO_OWNER;
use crate::communicator::Channel;
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::partitions::Partitioned;
use crate::point::Route;
use crate::process::{Active, POSTS, Process, State};
use crate::request::Plan;
use crate::status::Status;

/// Bytes of the sender's description: the tag of its first partition, how many there are, and the bytes of each.
const DESCRIPTION_BYTES: usize = 16;

fn none() -> Error {
    Error::new(abi::ERR_REQUEST, "the request is no partitioned one")
}

impl Process {
    /// Makes a partitioned message of these partitions, which have equal lengths. Returns its request.
    pub fn plan_partitioned(
        &mut self,
        parts: Vec<OwnedBuffer>,
        whole: Option<Memory>,
        route: Route,
        is_send: bool,
    ) -> Result<usize> {
        self.check_room_for_request()?;
        let communicator = self.communicator(route.communicator)?;
        let tag = crate::communicator::check_tag(route.tag)?;
        let peer = match route.rank {
            abi::PROC_NULL => None,
            rank => Some(communicator.peer(rank)?),
        };
        let context = communicator.context(Channel::Partitioned);
        let size = parts.first().map_or(Ok(0), OwnedBuffer::bytes_of_data)?;
        let total = size.checked_mul(parts.len() as u64);
        let total = total.and_then(|total| usize::try_from(total).ok());
        let total = total.ok_or_else(|| Error::new(abi::ERR_COUNT, "too many bytes"))?;
        let is_copied = whole.is_none();
        let mut made = Partitioned {
            is_send,
            rank: route.rank,
            tag: route.tag,
            communicator: route.communicator,
            peer,
            stream: whole.map_or_else(|| temporary(total), Ok)?,
            is_copied,
            description: temporary(DESCRIPTION_BYTES)?,
            description_send: None,
            messages: None,
            pending: Vec::new(),
            marked: vec![false; parts.len()],
            parts,
            error: None,
            refused: None,
            is_started: false,
            is_orphan: false,
        };
        match peer {
            None => made.messages = Some((0, size)),
            Some(peer) if is_send => {
                let first = self.next_partition;
                self.next_partition = first.wrapping_add(made.parts.len() as u32);
                made.messages = Some((first, size));
                let mut description = Vec::with_capacity(DESCRIPTION_BYTES);
                description.extend(first.to_ne_bytes());
                description.extend((made.parts.len() as u32).to_ne_bytes());
                description.extend(size.to_ne_bytes());
                let description = Memory::from_vec(description);
                let word = MpiPattern::word(peer.context + Channel::Partitioned as u32, tag);
                self.post_unattended(peer.addr, &[description], word, NO_OWNER)?;
            }
            Some(peer) => {
                let pattern = MpiPattern {
                    context,
                    source: Some(peer.number),
                    tag: Some(tag),
                };
                let into = [made.description.clone()];
                match self.endpoint.post_receive(pattern, &into, POSTS, 0)? {
                    Posted::Pending(op) => made.description_send = Some(op),
                    Posted::Complete(done) => match done.result {
                        Ok(_) => made.read_description(),
                        Err(error) => made.error = Some(error.into()),
                    },
                }
            }
        }
        let free = self.partitioned.iter().position(Option::is_none);
        let at = free.unwrap_or(self.partitioned.len());
        if free.is_none() {
            self.partitioned.push(None);
        }
        self.partitioned[at] = Some(Box::new(made));
        self.plan(Plan::Partitioned(at as u32))
    }

    fn partitioned_at(&mut self, at: u32) -> Result<&mut Partitioned> {
        let found = self.partitioned.get_mut(at as usize);
        found.and_then(Option::as_deref_mut).ok_or_else(none)
    }

    /// Starts a partitioned message.
    pub(crate) fn start_partitioned(&mut self, at: u32) -> Result<Active> {
        let it = self.partitioned_at(at)?;
        let communicator = it.communicator;
        it.is_started = true;
        let is_none = it.peer.is_none();
        it.marked.fill(is_none);
        let mut active = Active::done(Status::of_proc_null(), communicator);
        if !is_none {
            self.receive_messages(at)?;
            self.discard_messages(at)?;
            active.state = State::Partitioned(at);
        }
        Ok(active)
    }

    /// Receives the messages of a started receive, if the sender's description has arrived.
    fn receive_messages(&mut self, at: u32) -> Result<()> {
        let it = self.partitioned_at(at)?;
        let (Some((first, size)), Some(peer), false) = (it.messages, it.peer, it.is_send) else {
            return Ok(());
        };
        let (communicator, stream) = (it.communicator, it.stream.clone());
        let many = it.marked.len();
        let context = self
            .communicator(communicator)?
            .context(Channel::Partitions);
        let mut pending = Vec::with_capacity(many);
        let mut marked = vec![false; many];
        let mut failed = None;
        for (message, marked) in marked.iter_mut().enumerate() {
            let start = message * size as usize;
            let pattern = MpiPattern {
                context,
                source: Some(peer.number),
                tag: Some(first.wrapping_add(message as u32)),
            };
            let into = [stream.slice(start..start + size as usize)];
            match self.endpoint.post_receive(pattern, &into, POSTS, 0) {
                Ok(Posted::Pending(op)) => pending.push((op, message)),
                Ok(Posted::Complete(done)) => match done.result {
                    Ok(_) => *marked = true,
                    Err(error) => failed = Some(Error::from(error)),
                },
                Err(error) => failed = Some(error.into()),
            }
            if failed.is_some() {
                break;
            }
        }
        let it = self.partitioned_at(at)?;
        (it.pending, it.marked) = (pending, marked);
        // The request ends with it; receives that were posted are cancelled then.
        it.error = it.error.take().or(failed);
        Ok(())
    }

    /// Receives the messages of a send that does not fit a started receive, without their bytes: the sender would wait for ever.
    fn discard_messages(&mut self, at: u32) -> Result<()> {
        let it = self.partitioned_at(at)?;
        let (Some((first, many)), Some(peer)) = (it.refused, it.peer) else {
            return Ok(());
        };
        let communicator = it.communicator;
        let context = self
            .communicator(communicator)?
            .context(Channel::Partitions);
        for message in 0..many {
            let pattern = MpiPattern {
                context,
                source: Some(peer.number),
                tag: Some(first.wrapping_add(message)),
            };
            if let Posted::Pending(op) = self.endpoint.post_receive(pattern, &[], POSTS, 0)? {
                let state = State::Receive {
                    op,
                    from_any: false,
                };
                self.abandon(Active::new(state, communicator));
            }
        }
        Ok(())
    }

    /// Whether a started receive of partitions has yet to learn how its sender has divided the message.
    #[inline]
    pub(crate) fn awaits_descriptions(&self) -> bool {
        let mut all = self.partitioned.iter().flatten();
        all.any(|it| it.is_started && !it.is_send && it.description_send.is_some())
    }

    /// Posts the receives of messages whose senders have described them: the program may wait for something else, which comes only once a sender is
    /// rid of its partitions.
    pub(crate) fn take_descriptions(&mut self) {
        for at in 0..self.partitioned.len() as u32 {
            if let Err(error) = self.take_description(at)
                && let Ok(it) = self.partitioned_at(at)
            {
                it.error.get_or_insert(error);
            }
        }
    }

    /// Takes the description of a message, if it has come, and posts the receives of a started one.
    fn take_description(&mut self, at: u32) -> Result<()> {
        if let Some(op) = self.partitioned_at(at)?.description_send
            && let Some(done) = self.endpoint.take(op)?
        {
            let it = self.partitioned_at(at)?;
            it.description_send = None;
            match done.result {
                Ok(_) => it.read_description(),
                Err(error) => it.error = Some(error.into()),
            }
            let (is_started, has_failed) = (it.is_started, it.error.is_some());
            if is_started && !has_failed {
                self.receive_messages(at)?;
            }
            if is_started {
                self.discard_messages(at)?;
            }
        }
        Ok(())
    }

    /// The status of a started partitioned message, once it is done.
    pub(crate) fn poll_partitioned(&mut self, at: u32) -> Result<Option<Status>> {
        self.take_description(at)?;
        let pending = std::mem::take(&mut self.partitioned_at(at)?.pending);
        for (op, message) in pending {
            let done = self.endpoint.take(op)?;
            let it = self.partitioned_at(at)?;
            match done.map(|done| done.result) {
                None => it.pending.push((op, message)),
                Some(Ok(_)) => it.marked[message] = true,
                // Too little room is the receiver's error.
                Some(Err(OpError::TooLarge { .. })) if it.is_send => {}
                Some(Err(error)) => it.error = Some(error.into()),
            }
        }
        let it = self.partitioned_at(at)?;
        if !it.is_done() {
            return Ok(None);
        }
        it.is_started = false;
        let (error, communicator, is_orphan) = (it.error.clone(), it.communicator, it.is_orphan);
        if let Some(error) = error {
            let (pending, is_send) = (std::mem::take(&mut it.pending), it.is_send);
            self.abandon_parts(pending, is_send, communicator);
            if is_orphan {
                self.partitioned[at as usize] = None;
            }
            return Err(error.on(communicator));
        }
        if it.is_copied && !it.is_send {
            for part in 0..it.parts.len() {
                it.parts[part].unpack_from(&it.stream.slice(it.bytes_of(part)))?;
            }
        }
        let bytes = it.stream.len() as u64;
        let status = match it.is_send {
            true => Status::of_send(),
            false => Status::of_message(it.rank, it.tag, bytes),
        };
        if is_orphan {
            self.partitioned[at as usize] = None;
        }
        Ok(Some(status))
    }

    /// Cancels messages of partitions; their outcomes are taken in the background.
    fn abandon_parts(&mut self, pending: Vec<(OpId, usize)>, is_send: bool, communicator: usize) {
        for (op, _) in pending {
            self.endpoint.cancel(op);
            let state = match is_send {
                true => State::Send(op),
                false => State::Receive {
                    op,
                    from_any: false,
                },
            };
            self.abandon(Active::new(state, communicator));
        }
    }

    fn place_of_partitioned(&self, request: usize) -> Result<u32> {
        match self.requests.get(request)?.plan() {
            Some(Plan::Partitioned(at)) => Ok(*at),
            _ => Err(none()),
        }
    }

    /// Marks a partition of a send ready.
    pub fn ready(&mut self, request: usize, partition: i64) -> Result<()> {
        let at = self.place_of_partitioned(request)?;
        let communicator = self.partitioned_at(at)?.communicator;
        let marked = self.mark_ready(at, partition);
        marked.map_err(|error| error.on(communicator))
    }

    fn mark_ready(&mut self, at: u32, partition: i64) -> Result<()> {
        let it = self.partitioned_at(at)?;
        let part = usize::try_from(partition).ok();
        let part = part.filter(|part| *part < it.parts.len() && it.is_send);
        let part = part.ok_or_else(|| {
            let text = format!("the partition {partition} of a send of {}", it.parts.len());
            Error::new(abi::ERR_ARG, text)
        })?;
        let (Some((first, _)), Some(peer)) = (it.messages, it.peer) else {
            return Ok(());
        };
        if !it.is_started || std::mem::replace(&mut it.marked[part], true) {
            let text =
                format!("the partition {part} is ready before, or the request is not started");
            return Err(Error::new(abi::ERR_REQUEST, text));
        }
        let from = it.stream.slice(it.bytes_of(part));
        if it.is_copied {
            it.parts[part].pack_into(&from)?;
        }
        let tag = first.wrapping_add(part as u32);
        let word = MpiPattern::word(peer.context + Channel::Partitions as u32, tag);
        let posted = self
            .endpoint
            .post_send(peer.addr, &[from], word, POSTS, 0)?;
        self.endpoint.flush();
        let it = self.partitioned_at(at)?;
        match posted {
            Posted::Pending(op) => it.pending.push((op, part)),
            Posted::Complete(done) => match done.result {
                Ok(_) | Err(OpError::TooLarge { .. }) => {}
                Err(error) => it.error = Some(error.into()),
            },
        }
        Ok(())
    }

    /// Whether a partition of a receive has arrived. Makes no progress.
    pub fn arrived(&mut self, request: usize, partition: i64) -> Result<bool> {
        let at = self.place_of_partitioned(request)?;
        let it = self.partitioned_at(at)?;
        let part = usize::try_from(partition).ok();
        let part = part.filter(|part| *part < it.parts.len() && !it.is_send);
        let part = part.ok_or_else(|| {
            let text = format!(
                "the partition {partition} of a receive of {}",
                it.parts.len()
            );
            Error::new(abi::ERR_ARG, text).on(it.communicator)
        })?;
        if !it.is_started {
            return Ok(true);
        }
        // The request stays as it is, with its outcome.
        self.peek(request)?;
        let it = self.partitioned_at(at)?;
        let has = !it.is_started || it.has_arrived(part);
        if has && it.is_started && it.is_copied {
            it.parts[part].unpack_from(&it.stream.slice(it.bytes_of(part)))?;
        }
        Ok(has)
    }

    /// Releases a partitioned message, once it is done.
    pub(crate) fn drop_partitioned(&mut self, at: u32, is_active: bool) {
        let Some(it) = self.partitioned.get_mut(at as usize) else {
            return;
        };
        if let Some(it) = it
            && is_active
            && it.is_started
        {
            it.is_orphan = true;
            return;
        }
        let Some(it) = it.take() else {
            return;
        };
        self.abandon_parts(it.pending, it.is_send, it.communicator);
        // The description of the send that belongs to it still has to be received: a later receive of this tag would take it for that of its own.
        if let Some(op) = it.description_send {
            let state = State::Receive {
                op,
                from_any: false,
            };
            self.abandon(Active::new(state, it.communicator));
        }
    }
}
