//! Schedules: what a process does in a collective operation, step by step, driven by progress. Blocking, nonblocking and
//! persistent forms of an operation are one schedule.
//!
//! Steps start in their order. Sends and receives go on at the same time until a `Step::Fence`, which waits for all before
//! it. Messages of one operation carry the operation's number on its communicator as their tag, in a context apart from
//! that of the program's messages.

use std::time::Duration;

use causeway_engine::Memory;
use causeway_engine::types::{Completion, OpError, OpId, Posted, Queue};

use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::matching::MpiPattern;
use crate::operation::Combine;
use crate::process::{Active, FOR_EVER, Going, Process};
use crate::status::Status;

/// One thing to do.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends memory to a rank.
    Send { to: u32, from: Memory },
    /// Receives as much as there is memory from a rank.
    Receive { from: u32, into: Memory },
    /// Copies.
    Copy { from: Memory, into: Memory },
    /// Combines elements: `into = from op into`.
    Combine {
        what: Combine,
        from: Memory,
        into: Memory,
        count: u64,
    },
    /// Waits for everything before.
    Fence,
}

/// The steps of an operation, as they are put together.
#[derive(Debug)]
pub(crate) struct Steps(Vec<Step>);

/// As many steps as a small operation of few processes has: their memory is allocated at once.
const USUAL_STEPS: usize = 8;

impl Default for Steps {
    fn default() -> Self {
        Self(Vec::with_capacity(USUAL_STEPS))
    }
}

impl Steps {
    pub(crate) fn send(&mut self, to: u32, from: Memory) {
        self.0.push(Step::Send { to, from });
    }

    pub(crate) fn receive(&mut self, from: u32, into: Memory) {
        self.0.push(Step::Receive { from, into });
    }

    pub(crate) fn copy(&mut self, from: &Memory, into: &Memory) {
        let (from, into) = (from.clone(), into.clone());
        self.0.push(Step::Copy { from, into });
    }

    pub(crate) fn combine(&mut self, what: &Combine, from: &Memory, into: &Memory, count: u64) {
        let (what, from, into) = (what.clone(), from.clone(), into.clone());
        self.0.push(Step::Combine {
            what,
            from,
            into,
            count,
        });
    }

    pub(crate) fn fence(&mut self) {
        self.0.push(Step::Fence);
    }
}

/// A function of the program's that is to be called: `function(from, into, count, datatype)`. Then
/// [`Process::called`].
#[derive(Debug)]
pub struct Call {
    key: u64,
    /// Its address.
    pub function: usize,
    /// Whether its count is an `MPI_Count`.
    pub is_large: bool,
    /// The left operands.
    pub from: Memory,
    /// The right operands, and the results.
    pub into: Memory,
    /// How many.
    pub count: u64,
    /// The handle of their datatype.
    pub datatype: usize,
}

#[derive(Debug)]
struct Schedule {
    steps: Vec<Step>,
    at: usize,
    communicator: usize,
    /// How messages are told from those of other operations.
    context: u32,
    tag: u32,
    peers: std::sync::Arc<[Peer]>,
    /// Sends and receives that are going on.
    pending: Vec<OpId>,
    /// A function of the program's is being called.
    is_calling: bool,
    error: Option<Error>,
    is_done: bool,
}

/// All schedules of a process.
#[derive(Debug)]
pub(crate) struct Schedules {
    /// Where their sends and receives complete.
    queue: Queue,
    places: Vec<Option<Box<Schedule>>>,
    /// How often each place was used, to tell completions of earlier schedules.
    uses: Vec<u32>,
    free: Vec<u32>,
    calls: Vec<Call>,
    /// Operations whose requests were freed.
    pub(crate) orphans: Vec<Active>,
}

impl Schedules {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            queue,
            places: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            calls: Vec::new(),
            orphans: Vec::new(),
        }
    }

    /// Whether nothing is going on.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.len() == self.free.len() && self.orphans.is_empty()
    }

    /// Whether a schedule is all that goes on.
    #[inline]
    pub(crate) fn is_only(&self, at: u32) -> bool {
        let others = self.places.len() - self.free.len();
        let is_here = self.places.get(at as usize).is_some_and(Option::is_some);
        is_here && others == 1 && self.orphans.is_empty()
    }

    /// The sends and receives of a schedule that are going on.
    fn pending(&self, at: u32) -> &[OpId] {
        let schedule = self.places.get(at as usize).and_then(Option::as_ref);
        schedule.map_or(&[], |schedule| &schedule.pending)
    }

    fn add(&mut self, schedule: Box<Schedule>) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.places[at as usize] = Some(schedule);
                at
            }
            None => {
                self.places.push(Some(schedule));
                self.uses.push(0);
                self.places.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, at: u32) -> Option<Box<Schedule>> {
        let schedule = self.places.get_mut(at as usize)?.take()?;
        self.uses[at as usize] = self.uses[at as usize].wrapping_add(1);
        self.free.push(at);
        Some(schedule)
    }

    fn key(&self, at: u32) -> u64 {
        u64::from(self.uses[at as usize]) << 32 | u64::from(at)
    }

    /// The schedule that a key was made for.
    fn find(&mut self, key: u64) -> Option<(u32, &mut Schedule)> {
        let at = key as u32;
        if *self.uses.get(at as usize)? != (key >> 32) as u32 {
            return None;
        }
        Some((at, self.places[at as usize].as_deref_mut()?))
    }
}

impl Process {
    /// Starts the steps of a collective operation on a communicator.
    pub(crate) fn start_steps(&mut self, communicator: usize, steps: Steps) -> Result<Active> {
        let it = self.communicator_mut(communicator)?;
        let tag = it.collectives;
        it.collectives = tag.wrapping_add(1);
        let schedule = Box::new(Schedule {
            steps: steps.0,
            at: 0,
            communicator,
            context: it.collective_context(),
            tag,
            peers: it.peers.clone(),
            pending: Vec::new(),
            is_calling: false,
            error: None,
            is_done: false,
        });
        let at = self.schedules.add(schedule);
        self.advance(at);
        let mut active = Active::done(Status::empty(), communicator);
        active.state = Going::Schedule(at);
        Ok(active)
    }

    /// Looks at what has completed, and goes on with the schedules concerned.
    pub(crate) fn advance_schedules(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        let queue = self.schedules.queue;
        // The queue is the process's own as long as it lives.
        let _ = self
            .endpoint
            .test_queue(queue, usize::MAX, Duration::ZERO, &mut taken);
        for done in taken.drain(..) {
            self.step_done(done);
        }
        self.taken = taken;
        let orphans = std::mem::take(&mut self.schedules.orphans);
        for mut orphan in orphans {
            if let Ok(None) = self.poll(&mut orphan) {
                self.schedules.orphans.push(orphan);
            }
        }
    }

    fn step_done(&mut self, done: Completion) {
        let Completion { op, user, result } = done;
        let Some((at, schedule)) = self.schedules.find(user) else {
            return;
        };
        schedule.pending.retain(|pending| *pending != op);
        match result {
            Err(error) => self.fail(at, error),
            Ok(_) if schedule.pending.is_empty() => self.advance(at),
            Ok(_) => {}
        }
    }

    /// Ends a schedule with an error; what is going on is cancelled.
    fn fail(&mut self, at: u32, error: OpError) {
        let Some(schedule) = self.schedules.places[at as usize].as_deref_mut() else {
            return;
        };
        let communicator = schedule.communicator;
        let pending = std::mem::take(&mut schedule.pending);
        schedule.is_done = true;
        // Which rank it was, the engine's address does not say.
        let error = match (error, self.lost_of(communicator)) {
            (OpError::Peer { .. }, Some(lost)) => lost,
            (error, _) => Error::from(error),
        };
        for op in pending {
            self.endpoint.cancel(op);
        }
        if let Some(schedule) = self.schedules.places[at as usize].as_deref_mut() {
            schedule.error.get_or_insert(error);
        }
    }

    /// Does what can be done now.
    fn advance(&mut self, at: u32) {
        let key = self.schedules.key(at);
        let queue = self.schedules.queue;
        loop {
            let Some(schedule) = self.schedules.places[at as usize].as_deref_mut() else {
                return;
            };
            if schedule.is_calling || schedule.is_done {
                return;
            }
            let Some(step) = schedule.steps.get(schedule.at) else {
                schedule.is_done = schedule.pending.is_empty();
                return;
            };
            let word = MpiPattern::word(schedule.context, schedule.tag);
            let posted = match step {
                Step::Fence if schedule.pending.is_empty() => None,
                Step::Fence => return,
                Step::Send { to, from } => {
                    let to = schedule.peers[*to as usize].addr;
                    Some(
                        self.endpoint
                            .post_send(to, std::slice::from_ref(from), word, queue, key),
                    )
                }
                Step::Receive { from, into } => {
                    let pattern = MpiPattern {
                        context: schedule.context,
                        source: Some(schedule.peers[*from as usize].number),
                        tag: Some(schedule.tag),
                    };
                    let into = std::slice::from_ref(into);
                    Some(self.endpoint.post_receive(pattern, into, queue, key))
                }
                Step::Copy { from, into } => {
                    into.copy_from(from);
                    None
                }
                Step::Combine {
                    what,
                    from,
                    into,
                    count,
                } => {
                    match what.apply(from, into, *count) {
                        Ok(None) => {}
                        Ok(Some((function, is_large, datatype))) => {
                            schedule.is_calling = true;
                            let (from, into, count) = (from.clone(), into.clone(), *count);
                            schedule.at += 1;
                            return self.schedules.calls.push(Call {
                                key,
                                function,
                                is_large,
                                from,
                                into,
                                count,
                                datatype,
                            });
                        }
                        Err(error) => {
                            schedule.error.get_or_insert(error);
                        }
                    }
                    None
                }
            };
            schedule.at += 1;
            let failed = match posted {
                Some(Ok(Posted::Pending(op))) => {
                    schedule.pending.push(op);
                    None
                }
                Some(Ok(Posted::Complete(done))) => done.result.err(),
                Some(Err(error)) => {
                    schedule.error.get_or_insert(Error::from(error));
                    None
                }
                None => None,
            };
            if let Some(error) = failed {
                return self.fail(at, error);
            }
        }
    }

    /// Waits for a schedule that is all that goes on, until it is done, or a function of the program is to be called. Of several
    /// sends and receives any may fail, so that only a single one is waited for alone.
    pub(crate) fn wait_for_steps(&mut self, at: u32) -> Result<Option<Call>> {
        loop {
            if let Some(call) = self.take_call() {
                return Ok(Some(call));
            }
            let news = self.endpoint.news();
            match self.schedules.pending(at) {
                [] => return Ok(None),
                [op] => {
                    if let Some(done) = self.endpoint.test(*op, FOR_EVER)? {
                        self.step_done(done);
                    }
                }
                [first, ..] => {
                    let first = *first;
                    self.advance_schedules();
                    if self.schedules.pending(at).first() == Some(&first) {
                        self.endpoint.wait_for_news(news, FOR_EVER);
                    }
                }
            }
        }
    }

    /// A function of the program's that is to be called, if there is one.
    #[inline]
    pub(crate) fn take_call(&mut self) -> Option<Call> {
        self.schedules.calls.pop()
    }

    /// A function of the program's was called.
    pub fn called(&mut self, call: &Call) {
        if let Some((at, schedule)) = self.schedules.find(call.key) {
            schedule.is_calling = false;
            self.advance(at);
        }
    }

    /// The status of a collective operation that is done, if it is.
    pub(crate) fn poll_schedule(&mut self, at: u32) -> Result<Option<Status>> {
        let schedule = self
            .schedules
            .places
            .get(at as usize)
            .and_then(Option::as_deref);
        if schedule.is_some_and(|schedule| !schedule.is_done) {
            return Ok(None);
        }
        let gone = || Error::new(abi::ERR_REQUEST, "the operation is over");
        let schedule = self.schedules.remove(at).ok_or_else(gone)?;
        match schedule.error {
            None => Ok(Some(Status::empty())),
            Some(error) => Err(error.on(schedule.communicator)),
        }
    }
}
