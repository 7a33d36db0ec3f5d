//! Waiting for an operation in an area.
//!
//! Processes that begin an operation at the same time find each other within some hundred nanoseconds, so a wait first polls the slots briefly.
//! Then it yields its processor to those that it may be waiting for: where there are more processes than processors, all get there by yielding in
//! turn. In the end it announces what it waits for, and waits for messages like any other wait of the engine's, which may sleep; the process that
//! completes what was announced sends a notice. How long each of these takes is up to the engine's policy of waiting.

use causeway_engine::Awaited;

use super::area::Area;
use super::failure::Failure;
use super::operation::{Operation, Progress};
use super::state::Node;
use crate::communicator::{Channel, Peer};
use crate::error::{Error, Result};
use crate::process::{Active, Process, State, Waited};
use crate::status::Status;

impl Process {
    /// Does an operation, if it is over soon; otherwise, it is to be waited for.
    #[inline]
    pub(super) fn begin_operation(
        &mut self,
        communicator: usize,
        mut operation: Operation,
    ) -> Result<Option<Active>> {
        let mut looks = None;
        loop {
            match operation.run() {
                Progress::Over if operation.comes_too_late() => {
                    return Err(self.fails(communicator, &operation));
                }
                Progress::Over => {
                    if looks.is_some() {
                        self.endpoint.came_at_once(Awaited::Step);
                    }
                    self.wake_sleepers(communicator, &operation);
                    return operation
                        .finish()
                        .map(|()| None)
                        .map_err(|error| error.on(communicator));
                }
                Progress::Waits => {}
                Progress::Differs(rank) => {
                    return Err(self.differs(communicator, &operation, rank));
                }
            }
            let first = || self.endpoint.first_looks(Awaited::Step, self.has_threads);
            let left = looks.unwrap_or_else(first);
            if left == 0 {
                break;
            }
            looks = Some(left - 1);
            std::hint::spin_loop();
        }
        self.wake_sleepers(communicator, &operation);
        let state = State::Node(Box::new(operation));
        Ok(Some(Active::new(state, communicator)))
    }

    #[inline]
    pub(super) fn wake_sleepers(&mut self, communicator: usize, operation: &Operation) {
        let sleepers = operation.area.sleepers();
        if sleepers != 0 {
            self.wake_ranks(communicator, sleepers);
        }
    }

    #[cold]
    fn wake_ranks(&mut self, communicator: usize, ranks: u64) {
        let Ok(communicator) = self.communicator(communicator) else {
            return;
        };
        let peers = communicator.peers.clone();
        let all = peers.iter().enumerate();
        for (_, peer) in all.filter(|(rank, _)| ranks >> rank & 1 == 1) {
            self.wake_peer(*peer);
        }
    }

    /// Polls and yields as the policy of waiting has it, then waits for a notice. For a process with one thread.
    pub(crate) fn wait_for_operation(&mut self, active: &mut Active) -> Result<Waited<Status>> {
        let communicator = active.communicator();
        let waited = self.watch_memory(Awaited::Step, |process| {
            let State::Node(operation) = &mut active.state else {
                return Ok(None);
            };
            match operation.run() {
                Progress::Over => process.end_operation(communicator, operation).map(Some),
                Progress::Waits => {
                    process.wake_sleepers(communicator, operation);
                    Ok(None)
                }
                Progress::Differs(rank) => Err(process.differs(communicator, operation, rank)),
            }
        })?;
        if !matches!(waited, Waited::NotYet(_)) {
            return Ok(waited);
        }
        let waited = self.wait_for_news(|process| process.poll(active));
        self.endpoint.end_notified_wait();
        waited
    }

    fn end_operation(&mut self, communicator: usize, operation: &mut Operation) -> Result<Status> {
        if operation.comes_too_late() {
            return Err(self.fails(communicator, operation));
        }
        self.wake_sleepers(communicator, operation);
        operation.finish().map(|()| Status::empty())
    }

    /// Goes on with an operation. Unless it is over, a notice comes when it can go on.
    pub(crate) fn poll_operation(
        &mut self,
        communicator: usize,
        operation: &mut Operation,
    ) -> Result<Option<Status>> {
        // Notices only end waits: nothing else has to be done for them.
        self.handle_notices();
        let mut progress = operation.run();
        if progress == Progress::Waits {
            loop {
                self.wake_sleepers(communicator, operation);
                let awaited = operation.awaited();
                operation.area.announce(awaited.0, awaited.1);
                progress = operation.run();
                if progress != Progress::Waits {
                    break;
                }
                if operation.awaited() == awaited {
                    self.check_failures(communicator, operation)?;
                    return Ok(None);
                }
            }
            operation.area.withdraw();
        }
        match progress {
            Progress::Differs(rank) => Err(self.differs(communicator, operation, rank)),
            _ => self.end_operation(communicator, operation).map(Some),
        }
    }

    /// Fails if a process is lost, or has given up an operation, and notifies the others.
    fn check_failures(&mut self, communicator: usize, operation: &Operation) -> Result<()> {
        let area = &operation.area;
        let (failure, known) = match area.failure() {
            Some(failure) => (failure, None),
            None => {
                let peers = self.communicator(communicator)?.peers.clone();
                let Some(error) = self.lost_among(&peers) else {
                    return Ok(());
                };
                let is_lost = |peer: &Peer| self.endpoint.loss(peer.addr).is_some();
                let lost = peers.iter().position(is_lost);
                let lost = Failure::Lost(lost.unwrap_or(0) as u32);
                (lost, Some(error.on(communicator)))
            }
        };
        area.withdraw();
        let error = self.give_up_operation(communicator, operation, &failure);
        Err(known.unwrap_or(error))
    }

    /// The error of an operation in which another rank calls what does not belong to it.
    #[cold]
    fn differs(&mut self, communicator: usize, operation: &Operation, other: u32) -> Error {
        let failure = operation.failure(other);
        self.give_up_operation(communicator, operation, &failure)
    }

    /// The error of an operation that cannot be done, as another process has reported a failure.
    #[cold]
    fn fails(&mut self, communicator: usize, operation: &Operation) -> Error {
        let failure = operation.area.failure();
        let failure = failure.unwrap_or(Failure::Lost(operation.area.rank));
        self.give_up_operation(communicator, operation, &failure)
    }

    pub(super) fn give_up_operation(
        &mut self,
        communicator: usize,
        operation: &Operation,
        failure: &Failure,
    ) -> Error {
        let of = (operation.number, operation.first);
        self.give_up_area(communicator, &operation.area, failure, of, operation.tag)
    }

    /// Reports a failure to all processes of an area, and gives up an operation there, given by its number and its first phase. Those that do it by messages are notified by
    /// its tag. Returns its error.
    #[cold]
    pub(super) fn give_up_area(
        &mut self,
        communicator: usize,
        area: &Area,
        failure: &Failure,
        (number, first): (u64, u64),
        tag: Option<u32>,
    ) -> Error {
        let sleepers = area.report(failure);
        self.wake_ranks(communicator, sleepers);
        area.leave(number);
        // All return what was found first.
        let error = area.failure().unwrap_or(*failure).error(first);
        let by_messages = area.by_messages(number);
        if let Ok(found) = self.communicator_mut(communicator) {
            let tag = tag.unwrap_or_else(|| found.take_tag());
            let all = found.everyone.iter().enumerate();
            let notified = all.filter(|(rank, _)| by_messages >> rank & 1 == 1);
            let notified = Vec::from_iter(notified.map(|(_, peer)| *peer));
            self.notify_failure(&notified, (Channel::Collectives, tag), error.code());
        }
        error.on(communicator)
    }

    /// The error of an operation by messages that another process has given up because of calls that do not belong together, if it is that. This process
    /// gives it up, too.
    #[cold]
    pub(crate) fn leave_failed_area(&mut self, communicator: usize) -> Option<Error> {
        let Node::Ready(area) = &self.communicator(communicator).ok()?.node else {
            return None;
        };
        let failure = area.failure().filter(|failure| failure.phase().is_some())?;
        area.leave(area.present());
        Some(failure.error(0))
    }
}
