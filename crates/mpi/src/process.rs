//! A process of a running program: its endpoint, the others, communicators, requests.

use std::sync::Arc;
use std::time::Duration;

use causeway_engine::Endpoint;
use causeway_engine::types::{Completion, Error as EngineError, OpError, OpId, Posted, Queue};

use crate::abi;
use crate::communicator::{Communicator, FIRST_FREE, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::io::file::File;
use crate::launcher::Launcher;
use crate::matching::Mpi;
use crate::message::Message;
use crate::request::Request;
use crate::schedule::Schedules;
use crate::status::Status;
use crate::table::{Kind, Table};

/// Waits that only events end.
pub(crate) const FOR_EVER: Duration = Duration::MAX;

/// See the module's page.
pub struct Process {
    pub(crate) endpoint: Endpoint<Mpi>,
    /// Operations of the program's messages.
    pub(crate) posts: Queue,
    /// Sends of buffered messages, which nobody asks for.
    pub(crate) buffered: Queue,
    pub(crate) buffered_pending: usize,
    /// Bytes of the buffer that the program has attached for them.
    buffered_limit: Option<u64>,
    pub(crate) launcher: Launcher,
    pub(crate) rank: u32,
    pub(crate) peers: Vec<Peer>,
    /// The host of each process, by the number of the first process there.
    pub(crate) hosts: Vec<u32>,
    /// Processes by the number that the matcher knows them by.
    pub(crate) by_number: Vec<u32>,
    pub(crate) world: Communicator,
    pub(crate) own: Communicator,
    pub(crate) communicators: Table<Communicator>,
    pub(crate) next_number: u32,
    pub(crate) requests: Table<Request>,
    pub(crate) messages: Table<Message>,
    pub(crate) schedules: Schedules,
    pub(crate) files: Table<File>,
    /// Bytes that a process collects at a time in collective access to files.
    pub(crate) file_buffer: u64,
    /// Completions that were just taken, to be looked at.
    pub(crate) taken: Vec<Completion>,
    pub(crate) universe_size: Option<i32>,
    pub(crate) program_number: i32,
}

/// How a wait ended.
#[derive(Debug)]
pub enum Waited<T> {
    /// With what was waited for.
    Done(T),
    /// A function of the program is to be called before anything else.
    Call(crate::schedule::Call),
}

/// An operation that is going on, or is done.
#[derive(Debug)]
pub struct Active {
    pub(crate) state: Going,
    /// The communicator's handle.
    pub(crate) communicator: usize,
    /// What is to be done with a message that was received into other memory.
    pub(crate) unpack: Vec<crate::buffer::Unpack>,
}

#[derive(Debug)]
pub(crate) enum Going {
    Send(OpId),
    Receive { op: OpId, from_any: bool },
    Schedule(u32),
    Done(Status),
    Failed(Error),
}

impl Active {
    /// One that has failed.
    pub(crate) fn failed(error: Error, communicator: usize) -> Self {
        Self {
            state: Going::Failed(error),
            communicator,
            unpack: Vec::new(),
        }
    }

    /// One that is done.
    pub fn done(status: Status, communicator: usize) -> Self {
        Self {
            state: Going::Done(status),
            communicator,
            unpack: Vec::new(),
        }
    }
}

impl Process {
    /// A process that has met the others.
    pub(crate) fn new(
        mut endpoint: Endpoint<Mpi>,
        launcher: Launcher,
        peers: Vec<Peer>,
        hosts: Vec<u32>,
    ) -> Result<Self> {
        let posts = endpoint.open_queue()?;
        let buffered = endpoint.open_queue()?;
        let steps = endpoint.open_queue()?;
        let rank = launcher.rank();
        let most = peers.iter().map(|peer| peer.number as usize + 1).max();
        let mut by_number = vec![u32::MAX; most.unwrap_or(0)];
        for (process, peer) in peers.iter().enumerate() {
            by_number[peer.number as usize] = process as u32;
        }
        let everyone = Arc::new(Group::new((0..peers.len() as u32).collect()));
        let alone = Arc::new(Group::new(vec![rank]));
        let predefined = |number, local: Arc<Group>, name: &str| Communicator {
            number,
            rank: local.rank_of(rank).unwrap_or(0),
            peers: local
                .members()
                .iter()
                .map(|member| peers[*member as usize])
                .collect(),
            local,
            remote: None,
            collectives: 0,
            name: name.into(),
            attributes: Default::default(),
            error_handler: abi::ERRORS_ARE_FATAL,
            info: Info::default(),
            topology: None,
        };
        Ok(Self {
            world: predefined(0, everyone, "MPI_COMM_WORLD"),
            own: predefined(1, alone, "MPI_COMM_SELF"),
            endpoint,
            posts,
            buffered,
            buffered_pending: 0,
            buffered_limit: None,
            launcher,
            rank,
            peers,
            hosts,
            by_number,
            communicators: Table::new(Kind::Communicator, abi::ERR_COMM),
            next_number: FIRST_FREE,
            requests: Table::new(Kind::Request, abi::ERR_REQUEST),
            messages: Table::new(Kind::Message, abi::ERR_REQUEST),
            schedules: Schedules::new(steps),
            files: Table::new(Kind::File, abi::ERR_FILE),
            file_buffer: crate::io::file::BUFFER,
            taken: Vec::new(),
            universe_size: None,
            program_number: 0,
        })
    }

    /// This process's number in the program.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many processes the program has.
    pub fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    /// How many processes could be started, if the launcher says so.
    pub fn universe_size(&self) -> Option<i32> {
        self.universe_size
    }

    /// The number of this program among those that were started together.
    pub fn program_number(&self) -> i32 {
        self.program_number
    }

    /// The communicator of a handle.
    #[inline]
    pub fn communicator(&self, handle: usize) -> Result<&Communicator> {
        match handle {
            abi::COMM_WORLD => Ok(&self.world),
            abi::COMM_SELF => Ok(&self.own),
            abi::COMM_NULL => Err(Error::new(
                abi::ERR_COMM,
                "the communicator is MPI_COMM_NULL",
            )),
            other => self.communicators.get(other),
        }
    }

    /// The communicator of a handle, to be changed.
    #[inline]
    pub fn communicator_mut(&mut self, handle: usize) -> Result<&mut Communicator> {
        match handle {
            abi::COMM_WORLD => Ok(&mut self.world),
            abi::COMM_SELF => Ok(&mut self.own),
            abi::COMM_NULL => Err(Error::new(
                abi::ERR_COMM,
                "the communicator is MPI_COMM_NULL",
            )),
            other => self.communicators.get_mut(other),
        }
    }

    /// The open file of a handle.
    pub fn file(&self, handle: usize) -> Result<&File> {
        self.files.get(handle)
    }

    /// The open file of a handle, to be changed.
    pub fn file_mut(&mut self, handle: usize) -> Result<&mut File> {
        self.files.get_mut(handle)
    }

    /// How the processes of a group are reached.
    pub(crate) fn peers_of(&self, group: &Group) -> Arc<[Peer]> {
        let members = group.members().iter();
        members.map(|member| self.peers[*member as usize]).collect()
    }

    /// The process that the matcher knows by this number.
    pub(crate) fn process_of(&self, number: u32) -> u32 {
        let process = self.by_number.get(number as usize);
        process.copied().unwrap_or(u32::MAX)
    }

    /// Makes progress, without waiting. Whether the program has a function to call first is up to `take_call`.
    pub fn progress(&mut self) {
        self.endpoint.poll();
        self.drain();
    }

    /// Looks at what has completed that no request asks for.
    pub(crate) fn drain(&mut self) {
        if self.buffered_pending > 0 {
            let mut taken = std::mem::take(&mut self.taken);
            // The queue is the process's own as long as it lives.
            let found =
                self.endpoint
                    .test_queue(self.buffered, usize::MAX, Duration::ZERO, &mut taken);
            self.buffered_pending = self.buffered_pending.saturating_sub(found.unwrap_or(0));
            taken.clear();
            self.taken = taken;
        }
        if !self.schedules.is_empty() {
            self.advance_schedules();
        }
    }

    /// Waits until an operation is done, or a function of the program is to be called.
    #[inline]
    pub fn wait(&mut self, active: &mut Active) -> Result<Waited<Status>> {
        let (op, is_receive) = match active.state {
            Going::Send(op) => (op, false),
            Going::Receive {
                op,
                from_any: false,
            } => (op, true),
            _ => return self.wait_for_news(|process| process.poll(active)),
        };
        if !self.is_quiet() {
            return self.wait_for_news(|process| process.poll(active));
        }
        loop {
            if let Some(done) = self.endpoint.test(op, FOR_EVER)? {
                return self
                    .finished(active, done.result, is_receive)
                    .map(Waited::Done);
            }
        }
    }

    /// Whether nothing goes on that asks for more than what is waited for.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.schedules.is_empty() && self.buffered_pending == 0
    }

    /// Waits until `ready` returns something. It is asked again whenever something has happened, and makes no progress itself.
    pub fn wait_for_news<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<T>> {
        loop {
            let news = self.endpoint.news();
            self.drain();
            if let Some(call) = self.take_call() {
                return Ok(Waited::Call(call));
            }
            if let Some(done) = ready(self)? {
                return Ok(Waited::Done(done));
            }
            self.endpoint.wait_for_news(news, FOR_EVER);
        }
    }

    /// Makes some progress, and asks `ready` once.
    pub fn look<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<Option<T>>> {
        self.progress();
        if let Some(call) = self.take_call() {
            return Ok(Waited::Call(call));
        }
        ready(self).map(Waited::Done)
    }

    /// The status of an operation that is done, if it is. Makes no progress.
    pub fn poll(&mut self, active: &mut Active) -> Result<Option<Status>> {
        let (op, is_receive) = match active.state {
            Going::Done(status) => return Ok(Some(status)),
            Going::Failed(ref error) => return Err(error.clone()),
            Going::Schedule(schedule) => {
                let done = self.poll_schedule(schedule)?;
                if done.is_some() {
                    for unpack in active.unpack.drain(..) {
                        unpack.unpack(None)?;
                    }
                }
                return Ok(done);
            }
            Going::Send(op) => (op, false),
            Going::Receive { op, .. } => (op, true),
        };
        if let Some(done) = self.endpoint.take(op)? {
            return self.finished(active, done.result, is_receive).map(Some);
        }
        if let Going::Receive { op, from_any: true } = active.state
            && let Some(error) = self.lost_of(active.communicator)
        {
            // What it waits for may never come.
            self.endpoint.cancel(op);
            if self.endpoint.take(op)?.is_some() {
                return Err(error.on(active.communicator));
            }
        }
        Ok(None)
    }

    /// The error of a communicator with a process that is lost, if there is one.
    pub(crate) fn lost_of(&self, communicator: usize) -> Option<Error> {
        if self.endpoint.losses() == 0 {
            return None;
        }
        let communicator = self.communicator(communicator).ok()?;
        let lost = communicator
            .peers
            .iter()
            .enumerate()
            .find_map(|(rank, peer)| {
                let cause = self.endpoint.loss(peer.addr)?;
                Some((rank, cause))
            });
        let (rank, cause) = lost?;
        let text = format!("rank {rank}, which may be the sender: {cause}");
        Some(Error::new(abi::ERR_PROC_ABORTED, text))
    }

    /// An operation has completed. Its envelope is the engine's latest.
    #[inline]
    fn finished(
        &mut self,
        active: &mut Active,
        result: Result<u64, OpError>,
        is_receive: bool,
    ) -> Result<Status> {
        match result {
            Ok(bytes) if is_receive => self.received(active, bytes),
            Ok(_) => Ok(Status::of_send()),
            Err(error) => self.failed(active, error, is_receive),
        }
    }

    /// A receive has completed with so many bytes.
    #[inline]
    pub(crate) fn received(&mut self, active: &mut Active, bytes: u64) -> Result<Status> {
        for unpack in active.unpack.drain(..) {
            unpack.unpack(Some(bytes))?;
        }
        let envelope = self.endpoint.envelope();
        let process = self.process_of(envelope.peer);
        let source = match self.communicator(active.communicator) {
            Ok(communicator) => communicator.rank_of_number(process),
            // It was freed meanwhile.
            Err(_) => process as i32,
        };
        Ok(Status::of_message(
            source,
            envelope.tag as u32 as i32,
            bytes,
        ))
    }

    #[cold]
    fn failed(&mut self, active: &Active, error: OpError, is_receive: bool) -> Result<Status> {
        let peer = self.process_of(self.endpoint.envelope().peer);
        let rank = self.communicator(active.communicator);
        let rank = rank.map_or(peer as i32, |communicator| {
            communicator.rank_of_number(peer)
        });
        match error {
            OpError::Cancelled => Ok(Status::cancelled()),
            // That the receive has too little room is the receiver's error.
            OpError::TooLarge { .. } if !is_receive => Ok(Status::of_send()),
            OpError::Peer { cause, .. } => {
                let text = format!("rank {rank}: {cause}");
                Err(Error::new(abi::ERR_PROC_ABORTED, text).on(active.communicator))
            }
            other => Err(Error::from(other).on(active.communicator)),
        }
    }

    /// What a post has come to.
    #[inline]
    pub(crate) fn posted(
        &mut self,
        posted: Result<Posted, EngineError>,
        mut active: Active,
        from_any: Option<bool>,
    ) -> Result<Active> {
        match posted? {
            Posted::Pending(op) => {
                active.state = match from_any {
                    Some(from_any) => Going::Receive { op, from_any },
                    None => Going::Send(op),
                };
            }
            Posted::Complete(done) => {
                let status = self.finished(&mut active, done.result, from_any.is_some())?;
                active.state = Going::Done(status);
            }
        }
        Ok(active)
    }

    /// Cancels an operation, which completes all the same.
    pub fn cancel(&mut self, active: &Active) {
        if let Going::Send(op) | Going::Receive { op, .. } = active.state {
            self.endpoint.cancel(op);
        }
    }

    /// Sets how many bytes a buffered message may have, or that there is no buffer.
    pub fn limit_buffered(&mut self, limit: Option<u64>) {
        self.buffered_limit = limit;
    }

    /// An error if the buffer has no room for a message.
    pub(crate) fn check_buffer(&self, bytes: usize) -> Result<()> {
        let needed = (bytes as u64).saturating_add(abi::BSEND_OVERHEAD as u64);
        match self.buffered_limit {
            Some(limit) if needed <= limit => Ok(()),
            Some(limit) => {
                let text = format!("{needed} bytes, with the overhead, in a buffer of {limit}");
                Err(Error::new(abi::ERR_BUFFER, text))
            }
            None => Err(Error::new(abi::ERR_BUFFER, "no buffer is attached")),
        }
    }

    /// Ends the whole program. The caller ends this process.
    pub fn abort(&mut self, code: i32) {
        self.launcher.abort(code);
    }
}
