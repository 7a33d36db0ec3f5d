//! Requests: operations that a program has a handle for (MPI 5.0 §3.7).

use causeway_engine::Takes;
use causeway_engine::types::OpId;

use crate::abi;
use crate::error::{Error, Result};
use crate::point::{Mode, Route};
use crate::process::{Active, POLLS_OF_NEWS, Process, State, Waited};
use crate::record;
use crate::status::Status;
use crate::table::{Kind, reserved};

pub use crate::buffer::OwnedBuffer;

/// The handle of all operations that were done with an empty status when they got one: most sends of short messages. The process keeps no request
/// for it.
pub const FINISHED: usize = reserved(Kind::Request);

/// A request: a simple message, or a general operation.
#[derive(Debug)]
pub(crate) enum Request {
    /// Small, and without fields that need to be dropped: programs have many of them at a time.
    Message(Pending),
    /// A message, of a communicator with this handle, that has been received.
    Received(Status, usize),
    /// A collective operation that is not persistent: its schedule, and the handle of its communicator.
    Collective(u32, usize),
    /// A general operation.
    Other(Box<Other>),
}

/// A message that is being sent, or awaited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    op: OpId,
    /// The communicator's handle.
    communicator: usize,
    is_receive: bool,
    from_any: bool,
}

/// A request for a general operation.
#[derive(Debug)]
pub(crate) struct Other {
    /// The operation in progress; `None` in a persistent request that was not started.
    active: Option<Active>,
    /// The operation that a persistent request starts each time.
    plan: Option<Box<Plan>>,
    /// The program's functions, if it is a generalized request.
    general: Option<Box<General>>,
}

/// The program's functions for a generalized request, by their addresses, and their argument (MPI 5.0 §13.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct General {
    /// Writes the status.
    pub query: usize,
    /// Called when the request is freed.
    pub free: usize,
    /// Called to cancel it.
    pub cancel: usize,
    /// The argument of all three.
    pub extra: usize,
}

/// The operation of a persistent request.
#[derive(Debug, Clone)]
pub enum Plan {
    /// A send.
    Send {
        /// Its data.
        from: OwnedBuffer,
        /// Its destination.
        route: Route,
        /// Its mode.
        mode: Mode,
    },
    /// A receive.
    Receive {
        /// Its memory.
        into: OwnedBuffer,
        /// Its source.
        route: Route,
    },
    /// The steps that are kept at this place.
    Steps(u32),
    /// A send or receive of the partitioned message of this place.
    Partitioned(u32),
}

impl Request {
    /// The operation that it starts, if it is persistent.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Message(_) | Self::Received(..) | Self::Collective(..) => None,
            Self::Other(other) => other.plan.as_deref(),
        }
    }

    /// The request as one for a general operation, into which this turns it.
    fn generalize(&mut self) -> &mut Other {
        let active = match *self {
            Self::Message(pending) => Some(pending.into()),
            Self::Received(status, communicator) => Some(Active::done(status, communicator)),
            Self::Collective(at, communicator) => Some(Active::of_schedule(at, communicator)),
            Self::Other(_) => None,
        };
        if active.is_some() {
            *self = Self::of(active, None, None);
        }
        match self {
            Self::Other(other) => other,
            _ => unreachable!("it is a request for anything now"),
        }
    }

    fn of(active: Option<Active>, plan: Option<Plan>, general: Option<General>) -> Self {
        Self::Other(Box::new(Other {
            active,
            plan: plan.map(Box::new),
            general: general.map(Box::new),
        }))
    }
}

impl From<Pending> for Active {
    fn from(pending: Pending) -> Self {
        let Pending { op, from_any, .. } = pending;
        let state = match pending.is_receive {
            true => State::Receive { op, from_any },
            false => State::Send(op),
        };
        Self::new(state, pending.communicator)
    }
}

impl Active {
    /// The message, if the request is for a simple one.
    fn pending(&self) -> Option<Pending> {
        let (op, is_receive, from_any) = match self.state {
            State::Send(op) => (op, false, false),
            State::Receive { op, from_any } => (op, true, from_any),
            _ => return None,
        };
        Some(Pending {
            op,
            communicator: self.communicator,
            is_receive,
            from_any,
        })
    }
}

/// The state of a request.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// It is in progress.
    Pending,
    /// It is `MPI_REQUEST_NULL`, or persistent and not started.
    Inactive,
    /// It is done. `is_over` unless it is persistent: then its handle is not valid any more.
    Done {
        /// Its status.
        status: Status,
        /// The error if it has failed.
        error: Option<Error>,
        /// Whether the handle is not valid any more.
        is_over: bool,
        /// The functions of a generalized request, which write the status and, if it is over, free it.
        general: Option<Box<General>>,
    },
}

/// Calls that look at several requests between two that make progress first.
const LOOKS_PER_PROGRESS: u32 = 16;

/// What a test of a request has found, if it is one of a message.
#[derive(Debug, Clone, Copy)]
pub enum Tested {
    /// It is done, and its handle is not valid any more.
    Done(Status),
    /// It is in progress.
    Pending,
    /// It is to be tested as any request is.
    Unknown,
}

/// What is known of a request before it is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Glance {
    /// It is `MPI_REQUEST_NULL`.
    Null,
    /// It is one of a message in progress.
    Pending,
    /// It is to be tested.
    Unknown,
}

fn done(status: Status, error: Option<Error>, general: Option<Box<General>>) -> Outcome {
    Outcome::Done {
        status,
        error,
        is_over: false,
        general,
    }
}

/// The status of a failed operation: that of its message, if it had one.
fn status_of(error: &Error) -> Status {
    error.status().unwrap_or(Status::empty())
}

/// The outcome of a request that was not persistent.
fn over(result: Result<Status>) -> Outcome {
    let (status, error) = match result {
        Ok(status) => (status, None),
        Err(error) => (status_of(&error), Some(error)),
    };
    Outcome::Done {
        status,
        error,
        is_over: true,
        general: None,
    }
}

impl Process {
    /// Fails if there is no room for another request: to be called before an operation is started that needs one.
    pub fn check_room_for_request(&self) -> Result<()> {
        match self.requests.has_room() {
            true => Ok(()),
            false => Err(self.requests.full()),
        }
    }

    /// Has an operation complete in the background.
    pub fn abandon(&mut self, active: Active) {
        self.schedules.orphans.push(active);
    }

    /// Makes a request of an operation in progress.
    #[inline]
    pub fn keep(&mut self, active: Active) -> Result<usize> {
        if active.status() == Some(Status::empty()) {
            return Ok(FINISHED);
        }
        let request = match (active.pending(), &active.state) {
            (Some(pending), _) => Request::Message(pending),
            (None, State::Done(status)) => Request::Received(*status, active.communicator),
            (None, State::Schedule(at)) => Request::Collective(*at, active.communicator),
            (None, _) => Request::of(Some(active), None, None),
        };
        self.requests.insert(request)
    }

    /// Makes a request of a receive that was posted.
    #[inline]
    pub(crate) fn keep_receive(
        &mut self,
        op: OpId,
        (communicator, from_any): (usize, bool),
    ) -> Result<usize> {
        self.requests.insert(Request::Message(Pending {
            op,
            communicator,
            is_receive: true,
            from_any,
        }))
    }

    /// Makes a persistent request.
    pub fn plan(&mut self, plan: Plan) -> Result<usize> {
        self.requests.insert(Request::of(None, Some(plan), None))
    }

    /// Makes a persistent request of a collective operation.
    pub fn plan_steps(&mut self, steps: crate::steps::Steps) -> Result<usize> {
        self.check_room_for_request()?;
        let at = self.keep_steps(steps)?;
        self.plan(Plan::Steps(at))
    }

    /// Gives a receive and a send one handle; the status is the receive's.
    pub fn keep_both(&mut self, receive: Active, send: Active) -> Result<usize> {
        let mut both = Active::done(Status::empty(), receive.communicator);
        both.state = State::Both(Box::new((receive, send)));
        self.keep(both)
    }

    /// Starts a persistent request.
    pub fn start_request(&mut self, handle: usize) -> Result<()> {
        let request = self.requests.get_mut(handle)?.generalize();
        let plan = match (&request.plan, &request.active) {
            (Some(plan), None) => plan.clone(),
            (Some(_), Some(active)) => {
                let error = Error::new(abi::ERR_REQUEST, "the request was started already");
                return Err(error.on(active.communicator));
            }
            (None, _) => {
                return Err(Error::new(
                    abi::ERR_REQUEST,
                    "the request is not persistent",
                ));
            }
        };
        let of = |route: &Route, started: Result<Active>| {
            started.map_err(|error| error.on(route.communicator))
        };
        let active = match &*plan {
            Plan::Send { from, route, mode } => {
                of(route, self.send(from.as_buffer(), *route, *mode))?
            }
            Plan::Receive { into, route } => of(route, self.receive(into.as_buffer(), *route))?,
            Plan::Steps(at) => self.start_again(*at)?,
            Plan::Partitioned(at) => self.start_partitioned(*at)?,
        };
        self.requests.get_mut(handle)?.generalize().active = Some(active);
        Ok(())
    }

    /// The state of a request. A request that is done is over with this call, unless `peek` is set. Makes no progress.
    pub fn test(&mut self, handle: usize, peek: bool) -> Result<Outcome> {
        if !peek && let Some(outcome) = self.test_message(handle) {
            return Ok(outcome);
        }
        let mut outcome = self.peek(handle)?;
        if let Outcome::Done { is_over, .. } = &mut outcome
            && !peek
        {
            if handle == FINISHED {
                *is_over = true;
                return Ok(outcome);
            }
            let request = self.requests.get_mut(handle)?.generalize();
            request.active = None;
            *is_over = request.plan.is_none();
            if *is_over {
                self.requests.remove(handle)?;
            }
        }
        Ok(outcome)
    }

    /// The same for a request of a simple message, or of a collective operation.
    #[inline]
    fn test_message(&mut self, handle: usize) -> Option<Outcome> {
        let result = match *self.requests.find(handle)? {
            Request::Received(status, _) => Ok(status),
            Request::Collective(at, _) => match self.poll_schedule(at) {
                Ok(None) => return Some(Outcome::Pending),
                Ok(Some(status)) => Ok(status),
                Err(error) => Err(error),
            },
            // One from any source fails when a process is lost.
            Request::Message(pending) if !pending.from_any || self.endpoint.losses() == 0 => {
                let op = pending.op;
                match self.endpoint.take(op) {
                    Ok(None) => return Some(Outcome::Pending),
                    Ok(Some(done)) => self.finished(
                        Some(op),
                        pending.communicator,
                        done.result,
                        pending.is_receive,
                    ),
                    Err(error) => Err(error.into()),
                }
            }
            _ => return None,
        };
        self.drop_request(handle);
        Some(over(result))
    }

    /// The state of a request, which stays valid, also if it has failed. Makes no progress.
    pub fn peek(&mut self, handle: usize) -> Result<Outcome> {
        match handle {
            abi::REQUEST_NULL => return Ok(Outcome::Inactive),
            FINISHED => return Ok(done(Status::empty(), None, None)),
            _ => {}
        }
        let request = self.requests.get_mut(handle)?.generalize();
        let Some(mut active) = request.active.take() else {
            return Ok(Outcome::Inactive);
        };
        let general = request.general.clone();
        let polled = self.poll(&mut active);
        let communicator = active.communicator;
        let (active, outcome) = match polled {
            Ok(None) => (active, Outcome::Pending),
            Ok(Some(status)) => (
                Active::done(status, communicator),
                done(status, None, general),
            ),
            Err(error) => {
                let failed = Active::failed(error.clone(), communicator);
                let status = status_of(&error);
                (failed, done(status, Some(error), general))
            }
        };
        self.requests.get_mut(handle)?.generalize().active = Some(active);
        Ok(outcome)
    }

    /// Makes a generalized request.
    pub fn start_general(&mut self, general: General) -> Result<usize> {
        let mut active = Active::done(Status::empty(), abi::COMM_SELF);
        active.state = State::General;
        self.requests
            .insert(Request::of(Some(active), None, Some(general)))
    }

    /// The functions of a generalized request, and whether it is complete.
    pub fn general(&self, handle: usize) -> Result<Option<(General, bool)>> {
        if handle == FINISHED {
            return Ok(None);
        }
        let Request::Other(request) = self.requests.get(handle)? else {
            return Ok(None);
        };
        let general = request.general.as_deref().copied();
        let is_going =
            matches!(&request.active, Some(active) if matches!(active.state, State::General));
        Ok(general.map(|general| (general, !is_going)))
    }

    /// Marks a generalized request complete. Returns its functions if it was freed before: then it is over.
    pub fn complete_general(&mut self, handle: usize) -> Result<Option<General>> {
        let request = self.requests.get_mut(handle)?.generalize();
        let Some(general) = request.general.as_deref().copied() else {
            let text = "the request is no generalized request";
            return Err(Error::new(abi::ERR_REQUEST, text));
        };
        match &mut request.active {
            Some(active) => {
                active.state = State::Done(Status::empty());
                Ok(None)
            }
            None => self.requests.remove(handle).map(|_| Some(general)),
        }
    }

    /// Waits for one request. Its status is not determined unless it is `wanted`.
    #[inline]
    pub fn wait_for_request(&mut self, handle: usize, wanted: bool) -> Result<Waited<Outcome>> {
        if let Some(status) = self.take_done_message(handle, wanted) {
            return Ok(Waited::Done(over(Ok(status))));
        }
        match self.wait_for_kept_message(handle, wanted) {
            Some(result) => Ok(Waited::Done(over(result))),
            None => self.wait_for_any_request(handle),
        }
    }

    #[inline(never)]
    fn wait_for_any_request(&mut self, handle: usize) -> Result<Waited<Outcome>> {
        if let Some(at) = self.only_schedule(handle)
            && let Some(call) = self.wait_for_steps(at)?
        {
            return Ok(Waited::Call(call));
        }
        let ready = |process: &mut Self| match process.test(handle, false)? {
            Outcome::Pending => Ok(None),
            other => Ok(Some(other)),
        };
        if let Some(outcome) = ready(self)? {
            return Ok(Waited::Done(outcome));
        }
        let waited = self.wait_until_ready(ready)?;
        Ok(match (&waited, self.pending_message(handle)) {
            (Waited::NotYet(_), Some(op)) => waited.until_done(op),
            _ => waited,
        })
    }

    /// Tests a request of a message or a collective operation. If it is in progress, and no other operations need progress, makes some; for a message it ends when that is done. The
    /// status is empty unless it is `wanted`.
    #[inline]
    pub fn test_one_request(&mut self, handle: usize, wanted: bool) -> Tested {
        let pending = match self.requests.find(handle) {
            Some(&Request::Message(pending)) => pending,
            Some(&Request::Collective(at, _)) => return self.test_one_schedule(at),
            _ if handle == FINISHED => return Tested::Done(Status::empty()),
            _ => return Tested::Unknown,
        };
        if self.endpoint.is_done(pending.op) {
            let done = self.take_done_message(handle, wanted);
            return done.map_or(Tested::Unknown, Tested::Done);
        }
        if !self.is_quiet() || (pending.from_any && self.endpoint.losses() != 0) {
            return Tested::Unknown;
        }
        // Messages for which there is no receive yet stay where they are if it is the only request: the program receives them next.
        let takes = match self.requests.len() {
            1 => Takes::OneInTurn,
            _ => Takes::Some,
        };
        let has_news = self.endpoint.poll_for(pending.op, takes, POLLS_OF_NEWS);
        if !has_news || !self.endpoint.is_done(pending.op) {
            return Tested::Pending;
        }
        let done = self.take_done_message(handle, wanted);
        done.map_or(Tested::Unknown, Tested::Done)
    }

    /// Makes some progress. The schedule is still in progress if nothing has come since this process has last looked at it.
    #[inline(never)]
    fn test_one_schedule(&mut self, at: u32) -> Tested {
        if !self.only_schedules_need_polls() || self.endpoint.poll() {
            return Tested::Unknown;
        }
        // What another call has found, and left.
        self.advance_schedules();
        match self.schedules.has_no_news(at, self.endpoint.event_count()) {
            true => Tested::Pending,
            false => Tested::Unknown,
        }
    }

    /// Whether no operation in progress needs more than the awaited one.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.schedules.is_empty() && self.drains_only_schedules()
    }

    /// Whether no other operations of this process need polls than schedules.
    pub(crate) fn only_schedules_need_polls(&self) -> bool {
        !self.has_threads && self.drains_only_schedules()
    }

    /// Whether completions that belong to no request are those of schedules: [`Process::drain`] handles no others.
    #[inline]
    fn drains_only_schedules(&self) -> bool {
        !self.buffers.has_any()
            && self.windows.are_quiet()
            && !self.ports.are_asked()
            && !self.awaits_descriptions()
    }

    /// Makes progress in one of some calls: a program that always finds a request that is done, or has none in progress, would otherwise never learn
    /// that others are (MPI 5.0 §3.7.5, fairness).
    pub(crate) fn progress_now_and_then(&mut self) {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS_PER_PROGRESS) {
            self.progress();
        }
    }

    /// Calls `ready`; if it returns nothing, makes some progress, and calls it again if anything has happened that it may see.
    pub fn look_first<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<Option<T>>> {
        self.progress_now_and_then();
        if let Some(found) = ready(self)? {
            return Ok(Waited::Done(Some(found)));
        }
        let (seen, is_quiet) = (self.endpoint.event_count(), self.is_quiet());
        self.progress();
        if let Some(call) = self.take_call() {
            return Ok(Waited::Call(call));
        }
        match is_quiet && self.endpoint.event_count() == seen {
            true => Ok(Waited::Done(None)),
            false => ready(self).map(Waited::Done),
        }
    }

    /// What is known of a request without a test; an error if the handle is none. Makes no progress.
    #[inline]
    pub fn glance(&self, handle: usize) -> Result<Glance> {
        match handle {
            abi::REQUEST_NULL => return Ok(Glance::Null),
            FINISHED => return Ok(Glance::Unknown),
            _ => {}
        }
        let is_in_progress = match self.requests.get(handle)? {
            Request::Message(pending) => {
                (!pending.from_any || self.endpoint.losses() == 0)
                    && !self.endpoint.is_done(pending.op)
            }
            _ => false,
        };
        Ok(match is_in_progress {
            true => Glance::Pending,
            false => Glance::Unknown,
        })
    }

    /// The schedule of a request, if it is the only operation of this process that needs polls.
    fn only_schedule(&self, handle: usize) -> Option<u32> {
        let at = match self.requests.find(handle)? {
            Request::Collective(at, _) => *at,
            Request::Other(other) => match other.active.as_ref()?.state {
                State::Schedule(at) => at,
                _ => return None,
            },
            Request::Message(_) | Request::Received(..) => return None,
        };
        self.waits_for_only(at).then_some(at)
    }

    /// The operation without which a request cannot be done, if it is one of a message.
    fn pending_message(&self, handle: usize) -> Option<OpId> {
        match *self.requests.find(handle)? {
            // A receive from any source also fails when a process is lost.
            Request::Message(Pending {
                op,
                from_any: false,
                ..
            }) => (!self.endpoint.is_done(op)).then_some(op),
            _ => None,
        }
    }

    /// Frees a request of a message that is done and was successful. Its status is empty unless it is `wanted`.
    #[inline(always)]
    fn take_done_message(&mut self, handle: usize, wanted: bool) -> Option<Status> {
        if handle == FINISHED {
            return Some(Status::empty());
        }
        let held = self.requests.hold(handle)?;
        let Some(&Request::Message(pending)) = held.get() else {
            return None;
        };
        let bytes = self.endpoint.take_moved(pending.op)?;
        held.forget();
        Some(match pending.is_receive && (wanted || record::is_on()) {
            true => self.describe(Some(pending.op), pending.communicator, bytes),
            false => Status::empty(),
        })
    }

    /// Waits for a request and frees it, if it is one of a message that is done, or if no other operation is in progress.
    #[inline(never)]
    fn wait_for_kept_message(&mut self, handle: usize, wanted: bool) -> Option<Result<Status>> {
        if handle == FINISHED {
            return Some(Ok(Status::empty()));
        }
        if let Some(status) = self.take_done_message(handle, wanted) {
            return Some(Ok(status));
        }
        let held = self.requests.hold(handle)?;
        let pending = match *held.get()? {
            Request::Message(pending) => pending,
            Request::Received(status, _) => {
                held.forget();
                return Some(Ok(status));
            }
            Request::Collective(..) | Request::Other(_) => return None,
        };
        let waited = self.wait_for_pending(pending)?;
        self.drop_request(handle);
        let bytes = match waited {
            Ok(bytes) => bytes,
            Err(otherwise) => return Some(otherwise),
        };
        Some(match pending.is_receive && (wanted || record::is_on()) {
            true => self.received(Some(pending.op), pending.communicator, bytes),
            false => Ok(Status::empty()),
        })
    }

    /// Frees a request that exists.
    fn drop_request(&mut self, handle: usize) {
        if let Some(held) = self.requests.hold(handle) {
            held.vacate();
        }
    }

    /// Waits for a message that is not done, if no other operation is in progress. Returns its bytes, or its outcome if it has failed.
    #[inline(never)]
    fn wait_for_pending(
        &mut self,
        pending: Pending,
    ) -> Option<std::result::Result<u64, Result<Status>>> {
        if pending.from_any || self.has_threads || !self.is_quiet() {
            return None;
        }
        let Pending {
            op,
            communicator,
            is_receive,
            ..
        } = pending;
        let bytes = self.endpoint.wait_for(op);
        Some(bytes.ok_or_else(|| self.failed_message(op, communicator, is_receive)))
    }

    /// Waits for requests, one after the other, from the one at `next` on; on return, `next` is the first request that is not done. `handle` returns
    /// their handles. `message` is called for messages that were sent or received, whose handles are not valid any more; `other` with the outcome of
    /// all others. Statuses of messages are not determined unless they are `wanted`.
    #[inline]
    pub fn wait_for_requests(
        &mut self,
        (next, many, wanted): (&mut usize, usize, bool),
        handle: impl Fn(usize) -> usize,
        message: impl Fn(usize, &Status),
        mut other: impl FnMut(usize, Outcome),
    ) -> Result<Waited<()>> {
        while *next < many {
            let at = *next;
            if let Some(status) = self.take_done_message(handle(at), wanted) {
                message(at, &status);
                *next = at + 1;
                continue;
            }
            match self.wait_for_kept_message(handle(at), wanted) {
                Some(Ok(status)) => message(at, &status),
                Some(failed) => other(at, over(failed)),
                None => match self.wait_for_any_request(handle(at))? {
                    Waited::Done(outcome) => other(at, outcome),
                    Waited::Call(call) => return Ok(Waited::Call(call)),
                    Waited::NotYet(first) => {
                        // Messages mostly complete in the order of their requests: until the last one has, there is no use in checking the others.
                        let last = self.pending_message(handle(many - 1));
                        return Ok(Waited::NotYet(last.or(first)));
                    }
                },
            }
            *next = at + 1;
        }
        Ok(Waited::Done(()))
    }

    /// Requests that an operation be cancelled. The program still has to wait for it.
    pub fn cancel_request(&mut self, handle: usize) -> Result<()> {
        if handle == FINISHED {
            return Ok(());
        }
        let request = self.requests.get_mut(handle)?.generalize();
        let Some(active) = request.active.take() else {
            return Err(Error::new(abi::ERR_REQUEST, "the request was not started"));
        };
        self.cancel(&active);
        self.requests.get_mut(handle)?.generalize().active = Some(active);
        Ok(())
    }

    /// Frees a request: its operation is completed in the background.
    pub fn free_request(&mut self, handle: usize) -> Result<()> {
        if handle == FINISHED {
            return Ok(());
        }
        if let Some((_, false)) = self.general(handle)? {
            // The program still has the handle, by which it completes the operation.
            self.requests.get_mut(handle)?.generalize().active = None;
            return Ok(());
        }
        let mut request = self.requests.remove(handle)?;
        let request = request.generalize();
        match request.plan.as_deref() {
            Some(Plan::Steps(at)) => self.drop_kept(*at, request.active.is_some()),
            Some(Plan::Partitioned(at)) => self.drop_partitioned(*at, request.active.is_some()),
            _ => {}
        }
        if let Some(active) = request.active.take() {
            self.abandon(active);
        }
        Ok(())
    }

    /// The handles of all requests.
    pub fn open_requests(&self) -> Vec<usize> {
        self.requests.handles().collect()
    }
}
