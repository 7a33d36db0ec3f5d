//! A process of a running program: its endpoint, the other processes, communicators, requests.

use std::sync::{Arc, Weak};
use std::time::Duration;

pub use causeway_engine::types::OpId;
use causeway_engine::types::{Addr, Completion, Error as EngineError, OpError, Posted, Queue};
use causeway_engine::{Awaited, Endpoint, SharedMemoryStep};
pub use causeway_engine::{PROGRESS_THREAD_DELAY, Parked, Waker};

use crate::abi;
use crate::buffering::{Buffers, Owner};
use crate::communicator::{CONTEXTS, Communicator, FIRST_FREE, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::io::file::File;
use crate::launcher::Launcher;
use crate::matching::Mpi;
use crate::message::Message;
use crate::node::area::Area;
use crate::node::operation::Operation;
use crate::ports::Ports;
use crate::process_table::ProcessTable;
use crate::record;
use crate::request::Request;
use crate::schedule::{BEFORE_LOOKING, BEFORE_LOOKING_AGAIN, Schedules, until_look};
use crate::status::Status;
use crate::table::{Kind, Table};
use crate::window::state::Windows;

/// Most polls of one call. An event of one poll may need another poll, which follows at once: so `MPI_Test` finds a short message of
/// this process to itself complete, as programs expect, because no other process takes part in it.
pub(crate) const POLLS_OF_NEWS: u32 = 8;
/// Operations of the program's messages: each is tested for by its handle.
pub(crate) const POSTS: Queue = Queue::UNLISTED;
/// Waits that are ended by events only.
pub(crate) const FOR_EVER: Duration = Duration::MAX;

/// See the module's page.
pub struct Process {
    pub(crate) endpoint: Endpoint<Mpi>,
    /// Sends of buffered messages; the program never asks for their completions.
    pub(crate) buffered: Queue,
    pub(crate) buffers: Buffers,
    pub(crate) launcher: Launcher,
    pub(crate) rank: u32,
    pub(crate) peers: Vec<Peer>,
    /// The host of each process, by the number of the first process there.
    pub(crate) hosts: Vec<u32>,
    /// Processes by the matcher's numbers.
    pub(crate) by_number: Vec<u32>,
    pub(crate) process_table: ProcessTable,
    pub(crate) ports: Ports,
    /// The communicator with the processes that have started this program, until it is freed.
    pub(crate) parent: Option<usize>,
    pub(crate) world: Communicator,
    pub(crate) own: Communicator,
    pub(crate) communicators: Table<Communicator>,
    pub(crate) next_number: u32,
    /// Calls of collective operations are compared (`CAUSEWAY_MPI_CHECK`).
    pub(crate) checks: bool,
    pub(crate) requests: Table<Request>,
    pub(crate) messages: Table<Message>,
    pub(crate) schedules: Schedules,
    pub(crate) partitioned: Vec<Option<Box<crate::partitions::Partitioned>>>,
    /// The tag of the next partition that is sent for the first time.
    pub(crate) next_partition: u32,
    pub(crate) windows: Windows,
    /// The areas of communicators.
    pub(crate) areas: Vec<Weak<Area>>,
    pub(crate) files: Table<File>,
    pub(crate) file_systems: crate::io::systems::FileSystems,
    /// Bytes that a process collects at a time in collective access to files.
    pub(crate) file_buffer: u64,
    /// Completions that were just taken and must be handled.
    pub(crate) taken: Vec<Completion>,
    pub(crate) universe_size: Option<i32>,
    pub(crate) program_number: i32,
    /// Several threads make calls: none waits while it has the process.
    pub(crate) has_threads: bool,
    /// It has told the launcher that it ends regularly.
    pub(crate) has_finished: bool,
    /// It has waited, and nothing has come for some time: operations look why.
    pub(crate) is_idle: bool,
    /// Calls that have looked at several requests.
    pub(crate) looks: u32,
}

/// The result of a wait.
#[derive(Debug)]
pub enum Waited<T> {
    /// The awaited result.
    Done(T),
    /// A function of the program must be called first. In a box, as every wait returns this type.
    Call(Box<crate::schedule::Call>),
    /// Not yet: where several threads make calls ([`Process::share`]), the caller lets others in before it asks again. The wait does not end
    /// before this operation is done, if there is one, unless other operations than messages are in progress.
    NotYet(Option<OpId>),
}

impl<T> Waited<T> {
    /// The rest of the result comes with this operation, and not before.
    pub(crate) fn until_done(self, op: OpId) -> Self {
        match self {
            Self::NotYet(_) => Self::NotYet(Some(op)),
            other => other,
        }
    }
}

/// An operation in progress, or a completed one.
#[derive(Debug)]
pub struct Active {
    pub(crate) state: State,
    /// The handle of the communicator, or of the window that it accesses.
    pub(crate) communicator: usize,
}

#[derive(Debug)]
pub(crate) enum State {
    Send(OpId),
    /// A send that is complete; the method may still delay its message to this peer behind that of another send.
    Leaving(Addr),
    Receive {
        op: OpId,
        from_any: bool,
    },
    Schedule(u32),
    /// A communicator that is being made.
    Creation(u32, Box<crate::exchange::Exchange>),
    /// A partitioned message.
    Partitioned(u32),
    /// The wait for a buffer to become empty.
    Flush(Owner),
    /// A message of another program's process.
    PortWait(u32),
    /// An operation that the program itself does.
    General,
    /// A receive and a send.
    Both(Box<(Active, Active)>),
    /// An access to a window.
    Window(u64),
    /// A collective operation in memory that all its processes share.
    Node(Box<Operation>),
    Done(Status),
    Failed(Error),
}

impl Active {
    /// The status of the operation, if it is done.
    #[inline]
    pub fn status(&self) -> Option<Status> {
        match self.state {
            State::Done(status) => Some(status),
            _ => None,
        }
    }

    /// An operation in progress.
    pub(crate) fn new(state: State, communicator: usize) -> Self {
        Self {
            state,
            communicator,
        }
    }

    /// A schedule that has been started.
    pub(crate) fn of_schedule(schedule: u32, communicator: usize) -> Self {
        Self::new(State::Schedule(schedule), communicator)
    }

    /// The handle of its communicator.
    pub fn communicator(&self) -> usize {
        self.communicator
    }

    /// An operation that has failed.
    pub fn failed(error: Error, communicator: usize) -> Self {
        Self {
            state: State::Failed(error),
            communicator,
        }
    }

    /// An operation that is done.
    pub fn done(status: Status, communicator: usize) -> Self {
        Self {
            state: State::Done(status),
            communicator,
        }
    }
}

impl Process {
    /// A process that has connected with the others.
    pub(crate) fn new(
        mut endpoint: Endpoint<Mpi>,
        launcher: Launcher,
        peers: Vec<Peer>,
        hosts: Vec<u32>,
        process_table: ProcessTable,
    ) -> Result<Self> {
        let buffered = endpoint.open_queue()?;
        let steps = endpoint.open_queue()?;
        let notices = endpoint.open_queue()?;
        let rank = launcher.rank();
        let most = peers.iter().map(|peer| peer.number as usize + 1).max();
        let mut by_number = vec![u32::MAX; most.unwrap_or(0)];
        for (process, peer) in peers.iter().enumerate() {
            by_number[peer.number as usize] = process as u32;
        }
        let everyone = Arc::new(Group::new((0..peers.len() as u32).collect()));
        let alone = Arc::new(Group::new(vec![rank]));
        let predefined = |number, local: Arc<Group>, name: &str| {
            let of = |member: &u32| Peer {
                context: number * CONTEXTS,
                ..peers[*member as usize]
            };
            let peers: Arc<[Peer]> = local.members().iter().map(of).collect();
            let rank = local.rank_of(rank).unwrap_or(0);
            let mut made = Communicator::new(number, rank, local, peers);
            made.set_name(name.as_bytes());
            made
        };
        Ok(Self {
            world: predefined(0, everyone, "MPI_COMM_WORLD"),
            own: predefined(1, alone, "MPI_COMM_SELF"),
            endpoint,
            buffered,
            buffers: Buffers::default(),
            launcher,
            rank,
            peers,
            hosts,
            by_number,
            process_table,
            ports: Ports::default(),
            parent: None,
            communicators: Table::new(Kind::Communicator, abi::ERR_COMM),
            next_number: FIRST_FREE,
            checks: crate::checking::is_on(),
            requests: Table::new(Kind::Request, abi::ERR_REQUEST),
            messages: Table::new(Kind::Message, abi::ERR_REQUEST),
            schedules: Schedules::new(steps),
            partitioned: Vec::new(),
            next_partition: 0,
            windows: Windows::new(notices),
            areas: Vec::new(),
            files: Table::new(Kind::File, abi::ERR_FILE),
            file_systems: Default::default(),
            file_buffer: crate::io::file::BUFFER,
            taken: Vec::new(),
            universe_size: None,
            program_number: 0,
            has_threads: false,
            has_finished: false,
            is_idle: false,
            looks: 0,
        })
    }

    /// This process's number in the program.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Whether the checking mode is on.
    pub fn checks(&self) -> bool {
        self.checks
    }

    /// How many processes the program has.
    pub fn size(&self) -> u32 {
        self.world.size()
    }

    /// The communicator with the processes that have started this program.
    pub fn parent(&self) -> usize {
        self.parent.unwrap_or(abi::COMM_NULL)
    }

    /// How many processes could be started, if the launcher reports that.
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

    /// The communicator of a handle, for a change.
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

    /// The open file of a handle, for a change.
    pub fn file_mut(&mut self, handle: usize) -> Result<&mut File> {
        self.files.get_mut(handle)
    }

    /// The process that has this number in the matcher.
    pub(crate) fn process_of(&self, number: u32) -> u32 {
        let process = self.by_number.get(number as usize);
        process.copied().unwrap_or(u32::MAX)
    }

    /// Makes progress, without waiting. The caller looks for a function of the program to call first by `take_call`.
    pub fn progress(&mut self) {
        for _ in 0..POLLS_OF_NEWS {
            let any = self.endpoint.poll();
            self.drain();
            if !any {
                break;
            }
        }
    }

    /// Handles completions that belong to no request.
    pub(crate) fn drain(&mut self) {
        if self.buffers.has_any() {
            let mut taken = std::mem::take(&mut self.taken);
            // The queue exists as long as the process.
            let _ = self.endpoint.take_all(self.buffered, &mut taken);
            for done in taken.drain(..) {
                self.buffers.done(done.op, done.user);
            }
            self.taken = taken;
        }
        if !self.schedules.is_empty() {
            self.advance_schedules();
        }
        if !self.windows.are_quiet() {
            self.handle_notices();
        }
        if self.ports.are_asked() {
            self.take_calls();
        }
        if self.awaits_descriptions() {
            self.take_descriptions();
        }
    }

    /// Waits until an operation is done, or a function of the program must be called.
    #[inline]
    pub fn wait(&mut self, active: &mut Active) -> Result<Waited<Status>> {
        let (op, is_receive) = match active.state {
            State::Done(status) => return Ok(Waited::Done(status)),
            State::Send(op) => (op, false),
            State::Receive {
                op,
                from_any: false,
            } => (op, true),
            State::Schedule(at) if self.waits_for_only(at) => {
                if let Some(call) = self.wait_for_steps(at)? {
                    return Ok(Waited::Call(call));
                }
                if let Some(status) = self.poll(active)? {
                    return Ok(Waited::Done(status));
                }
                return self.wait_until_ready(|process| process.poll(active));
            }
            State::Node(_) if !self.has_threads => return self.wait_for_operation(active),
            _ => return self.wait_until_ready(|process| process.poll(active)),
        };
        if !self.is_quiet() || self.has_threads {
            let waited = self.wait_until_ready(|process| process.poll(active))?;
            return Ok(waited.until_done(op));
        }
        let done = self.wait_for_message(op, active.communicator, is_receive);
        done.map(Waited::Done)
    }

    /// Waits for a message, if no other operation is in progress.
    #[inline]
    pub(crate) fn wait_for_message(
        &mut self,
        op: OpId,
        communicator: usize,
        is_receive: bool,
    ) -> Result<Status> {
        match self.endpoint.wait_for(op) {
            Some(bytes) => self.message_done(op, communicator, is_receive, bytes),
            None => self.failed_message(op, communicator, is_receive),
        }
    }

    /// Notes that a message was sent, or has come with so many bytes.
    #[inline]
    pub(crate) fn message_done(
        &mut self,
        op: OpId,
        communicator: usize,
        is_receive: bool,
        bytes: u64,
    ) -> Result<Status> {
        match is_receive {
            true => self.received(Some(op), communicator, bytes),
            false => Ok(Status::of_send()),
        }
    }

    /// Notes that an operation has failed, and with what error.
    #[cold]
    pub(crate) fn failed_message(
        &mut self,
        op: OpId,
        communicator: usize,
        is_receive: bool,
    ) -> Result<Status> {
        match self.endpoint.take(op)? {
            Some(done) => self.finished(Some(op), communicator, done.result, is_receive),
            None => Err(Error::new(abi::ERR_INTERN, "a message has not ended")),
        }
    }

    /// Whether this schedule is the only operation of this process that needs polls.
    pub(crate) fn waits_for_only(&self, at: u32) -> bool {
        self.only_schedules_need_polls() && self.schedules.is_only(at)
    }

    /// Whether operations need progress while no call waits.
    pub fn has_pending(&self) -> bool {
        !self.requests.is_empty() || !self.is_quiet()
    }

    /// Waits until `ready` returns a value. It is called again after each event, and makes no progress itself.
    pub fn wait_until_ready<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<T>> {
        if self.has_threads {
            return Ok(match self.look(ready)? {
                Waited::Done(Some(done)) => Waited::Done(done),
                Waited::Call(call) => Waited::Call(call),
                Waited::Done(None) | Waited::NotYet(_) => Waited::NotYet(None),
            });
        }
        self.progress_now_and_then();
        self.wait_and_look(false, &mut ready)
    }

    /// The same in the only thread that waits. Collective operations look why nothing comes for some time; `is_one` if `ready` polls one that is no schedule.
    pub(crate) fn wait_and_look<T>(
        &mut self,
        is_one: bool,
        ready: &mut impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<T>> {
        let mut is_late = false;
        loop {
            let seen = self.endpoint.event_count();
            self.drain();
            if let Some(call) = self.take_call() {
                return Ok(Waited::Call(call));
            }
            let found = ready(self);
            self.is_idle = false;
            if let Some(done) = found? {
                return Ok(Waited::Done(done));
            }
            let idle = match is_late {
                false if is_one || !self.schedules.is_empty() => until_look(BEFORE_LOOKING),
                true if is_one || self.schedules.compare_calls() => {
                    until_look(BEFORE_LOOKING_AGAIN)
                }
                _ => FOR_EVER,
            };
            let has_come = self.endpoint.wait_for_event(seen, idle);
            self.is_idle = !has_come;
            is_late |= !has_come;
        }
    }

    /// Polls memory that other processes change, and yields as the policy of waiting has it, until `look` returns a value.
    /// [`Waited::NotYet`] if that takes long: the process writes into the memory what it waits for, and then waits for a notice.
    pub(crate) fn watch_memory<T>(
        &mut self,
        awaited: Awaited,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<T>> {
        let mut wait = self.endpoint.begin_shared_memory_wait(awaited);
        loop {
            match self.endpoint.continue_shared_memory_wait(&mut wait) {
                SharedMemoryStep::Look(looks) => {
                    for _ in 0..looks {
                        if let Some(found) = look(self).transpose() {
                            self.endpoint.end_shared_memory_wait(&wait);
                            return found.map(Waited::Done);
                        }
                        std::hint::spin_loop();
                    }
                }
                SharedMemoryStep::Progress => {
                    self.progress();
                    if let Some(call) = self.take_call() {
                        return Ok(Waited::Call(call));
                    }
                }
                SharedMemoryStep::Park => return Ok(Waited::NotYet(None)),
            }
        }
    }

    /// Makes some progress, and calls `ready` once.
    pub fn look<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<Option<T>>> {
        self.progress();
        loop {
            // What `ready` and the handling of notices find on their way is handled, too: the caller may sleep next.
            let seen = self.endpoint.event_count();
            self.drain();
            if let Some(call) = self.take_call() {
                return Ok(Waited::Call(call));
            }
            let found = ready(self)?;
            if found.is_some() || self.endpoint.event_count() == seen {
                return Ok(Waited::Done(found));
            }
        }
    }

    /// The status of an operation that is done, if it is. Makes no progress.
    pub fn poll(&mut self, active: &mut Active) -> Result<Option<Status>> {
        let (op, is_receive) = match active.state {
            State::Done(status) => return Ok(Some(status)),
            State::Failed(ref error) => return Err(error.clone()),
            State::Leaving(to) => {
                self.endpoint.flush();
                let has_left = !self.endpoint.holds_messages(to);
                return Ok(has_left.then(Status::of_send));
            }
            State::Schedule(schedule) => return self.poll_schedule(schedule),
            State::Creation(schedule, ref exchange) => {
                let done = self.poll_schedule(schedule)?;
                if done.is_some() {
                    self.finish_creation(exchange)?;
                }
                return Ok(done);
            }
            State::Partitioned(at) => return self.poll_partitioned(at),
            State::Flush(owner) => return Ok(self.poll_flush(owner)),
            State::PortWait(wait) => return self.poll_port_wait(wait),
            State::General => return Ok(None),
            State::Both(ref mut both) => return self.poll_both(both),
            State::Window(access) => {
                let polled = self.poll_access(access);
                return polled.map_err(|error| error.on(active.communicator));
            }
            State::Node(ref mut operation) => {
                return self.poll_operation(active.communicator, operation);
            }
            State::Send(op) => (op, false),
            State::Receive { op, .. } => (op, true),
        };
        if let Some(done) = self.endpoint.take(op)? {
            let (op, communicator) = (Some(op), active.communicator);
            let status = self.finished(op, communicator, done.result, is_receive);
            return status.map(Some);
        }
        if let State::Receive { op, from_any: true } = active.state
            && let Some(error) = self.lost_of(active.communicator)
        {
            // The event that it waits for may never come.
            self.endpoint.cancel(op);
            if self.endpoint.take(op)?.is_some() {
                return Err(error.on(active.communicator));
            }
        }
        Ok(None)
    }

    /// The joint state of a receive and a send. The status is the receive's.
    fn poll_both(&mut self, both: &mut (Active, Active)) -> Result<Option<Status>> {
        for one in [&mut both.0, &mut both.1] {
            match self.poll(one) {
                Ok(Some(status)) => one.state = State::Done(status),
                Ok(None) => {}
                Err(error) => one.state = State::Failed(error),
            }
        }
        match (&both.0.state, &both.1.state) {
            (State::Done(status), State::Done(_)) => Ok(Some(*status)),
            // The message for this receive is a reply to a message that could not be sent: it will not come.
            (State::Receive { op, .. }, State::Failed(_)) => {
                self.endpoint.cancel(*op);
                Ok(None)
            }
            (State::Failed(error), State::Done(_) | State::Failed(_))
            | (State::Done(_), State::Failed(error)) => Err(error.clone()),
            _ => Ok(None),
        }
    }

    /// The error of a communicator that has lost a process, if it has.
    pub(crate) fn lost_of(&self, communicator: usize) -> Option<Error> {
        self.lost_among(&self.communicator(communicator).ok()?.peers)
    }

    /// The error if one of these processes is lost.
    pub(crate) fn lost_among(&self, peers: &[Peer]) -> Option<Error> {
        if self.endpoint.losses() == 0 {
            return None;
        }
        let mut ranks = peers.iter().enumerate();
        let lost = ranks.find_map(|(rank, peer)| Some((rank, self.endpoint.loss(peer.addr)?)));
        let (rank, cause) = lost?;
        let text = format!("rank {rank}, which may be the sender: {cause}");
        Some(Error::new(abi::ERR_PROC_ABORTED, text))
    }

    /// Handles the completion of an operation. Its envelope is the engine's latest.
    #[inline]
    pub(crate) fn finished(
        &mut self,
        op: Option<OpId>,
        communicator: usize,
        result: Result<u64, OpError>,
        is_receive: bool,
    ) -> Result<Status> {
        match result {
            Ok(bytes) if is_receive => self.received(op, communicator, bytes),
            Ok(_) => Ok(Status::of_send()),
            Err(error) => {
                if is_receive && record::is_on() {
                    self.record_failure(op, &error);
                }
                self.failed(communicator, error, is_receive)
            }
        }
    }

    /// Handles the completion of a receive with so many bytes.
    #[inline]
    pub(crate) fn received(
        &mut self,
        op: Option<OpId>,
        communicator: usize,
        bytes: u64,
    ) -> Result<Status> {
        Ok(self.describe(op, communicator, bytes))
    }

    /// The status of the receive that was just completed, with so many bytes.
    #[inline(never)]
    pub(crate) fn describe(&mut self, op: Option<OpId>, communicator: usize, bytes: u64) -> Status {
        let envelope = self.endpoint.envelope();
        let process = self.process_of(envelope.peer);
        if record::is_on() {
            record::received(op, process, envelope.tag, bytes);
        }
        let source = match self.communicator(communicator) {
            Ok(communicator) => communicator.rank_of_number(process),
            // The request was freed meanwhile.
            Err(_) => process as i32,
        };
        Status::of_message(source, envelope.tag as u32 as i32, bytes)
    }

    /// The status of a failed receive: it has got a message if that was too large.
    #[cold]
    fn record_failure(&self, op: Option<OpId>, error: &OpError) {
        let envelope = self.endpoint.envelope();
        match (error, op) {
            (OpError::TooLarge { size, .. }, op) => {
                record::received(op, self.process_of(envelope.peer), envelope.tag, *size);
            }
            (_, Some(op)) => record::given_up(op),
            (_, None) => {}
        }
    }

    #[cold]
    fn failed(&mut self, communicator: usize, error: OpError, is_receive: bool) -> Result<Status> {
        let envelope = self.endpoint.envelope();
        let peer = self.process_of(envelope.peer);
        let rank = self.communicator(communicator);
        let rank = rank.map_or(peer as i32, |communicator| {
            communicator.rank_of_number(peer)
        });
        match error {
            OpError::Cancelled => Ok(Status::cancelled()),
            // A receive with too little room is the receiver's error.
            OpError::TooLarge { .. } if !is_receive => Ok(Status::of_send()),
            OpError::TooLarge { room, .. } => {
                // No more bytes are read than there is room for.
                let status = Status::of_message(rank, envelope.tag as u32 as i32, room);
                Err(Error::from(error).on(communicator).with_status(status))
            }
            OpError::Peer { cause, .. } => {
                let text = format!("rank {rank}: {cause}");
                Err(Error::new(abi::ERR_PROC_ABORTED, text).on(communicator))
            }
            other => Err(Error::from(other).on(communicator)),
        }
    }

    /// The state after a send was posted.
    #[inline]
    pub(crate) fn sent(
        &mut self,
        posted: Result<Posted, EngineError>,
        to: Addr,
        communicator: usize,
    ) -> Result<Active> {
        let state = match posted? {
            Posted::Pending(op) => State::Send(op),
            Posted::Complete(done) => match done.result {
                Ok(_) if self.endpoint.holds_messages(to) => State::Leaving(to),
                Ok(_) => State::Done(Status::of_send()),
                Err(error) => match self.failed(communicator, error, false) {
                    Ok(status) => State::Done(status),
                    Err(error) => State::Failed(error),
                },
            },
        };
        Ok(Active {
            state,
            communicator,
        })
    }

    /// The state after a receive was posted.
    #[inline]
    pub(crate) fn receiving(
        &mut self,
        posted: Result<Posted, EngineError>,
        (communicator, from_any): (usize, bool),
    ) -> Result<Active> {
        let mut active = Active {
            state: State::Done(Status::empty()),
            communicator,
        };
        match posted? {
            Posted::Pending(op) => {
                active.state = State::Receive { op, from_any };
                if record::is_on() {
                    record::posted(op);
                }
            }
            // An error of the message belongs to the request, not to the call that starts it.
            Posted::Complete(done) => {
                active.state = match self.finished(None, communicator, done.result, true) {
                    Ok(status) => State::Done(status),
                    Err(error) => State::Failed(error),
                };
            }
        }
        Ok(active)
    }

    /// Cancels an operation; it completes nevertheless.
    pub fn cancel(&mut self, active: &Active) {
        match &active.state {
            // Either it is cancelled, or it is received (MPI 5.0 §3.8.4).
            State::Send(op) => self.endpoint.recall(*op),
            State::Receive { op, .. } => self.endpoint.cancel(*op),
            State::Both(both) => {
                self.cancel(&both.0);
                self.cancel(&both.1);
            }
            _ => {}
        }
    }

    /// Ends the whole program. The caller ends this process itself.
    pub fn abort(&mut self, code: i32) {
        record::flush();
        self.launcher.abort(code);
    }
}
