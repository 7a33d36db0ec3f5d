//! Waiting for an operation in an area.
//!
//! Processes that begin an operation at the same time find each other within some hundred nanoseconds, so a wait first polls the slots briefly.
//! Then it yields its processor to those that it may be waiting for: where there are more processes than processors, all get there by yielding in
//! turn. In the end it announces what it waits for, and waits for messages like any other wait of the engine's, which may sleep; the process that
//! completes what was announced sends a notice. How long each of these takes is up to the engine's policy of waiting.

use std::sync::Arc;

use causeway_engine::Awaited;

use super::area::Area;
use super::call::Call;
use super::failure::Failure;
use super::operation::{Agreed, Operation, Progress};
use super::state::{Node, Refusal};
use super::uneven::Left;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::process::{Active, Process, State, Waited};
use crate::schedule::tag_of;
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
                    let failure = operation.area.failure();
                    return Err(self.give_up_operation(communicator, &operation, &failure));
                }
                Progress::Over => {
                    if looks.is_some() {
                        self.endpoint.came_at_once(Awaited::Step);
                    }
                    self.wake_sleepers(communicator, &operation);
                    return self.conclude(communicator, &mut operation).map(|()| None);
                }
                Progress::Waits => {}
                Progress::Moved => {
                    self.make_way(communicator, &operation);
                    continue;
                }
                failed => return Err(self.operation_failed(communicator, &operation, failed)),
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

    /// The operation is over: its results are put where the program wants them, or it is left to messages.
    #[inline]
    fn conclude(&mut self, communicator: usize, operation: &mut Operation) -> Result<()> {
        let left = operation.left();
        if left != Left::NONE {
            self.leave_to_messages(communicator, operation, left)?;
        }
        if operation.is_void() {
            return Ok(());
        }
        operation.finish().map_err(|error| error.on(communicator))
    }

    /// Blocks are to be moved by messages: all, as a process cannot read another one's memory, which all others find as well, or some that are too long for the area.
    #[cold]
    fn leave_to_messages(
        &mut self,
        communicator: usize,
        operation: &Operation,
        left: Left,
    ) -> Result<()> {
        if operation.is_void() {
            operation.area.stop_reading();
        }
        let found = self.communicator_mut(communicator)?;
        // The messages take the number.
        found.collectives = operation.number;
        if let Node::Ready(ready) = &mut found.node {
            ready.agreed = Some(operation.agreed(left));
        }
        Ok(())
    }

    /// Whether the operation that was over last on a communicator is left to messages, or some of its blocks are.
    pub fn is_left_to_messages(&self, communicator: usize) -> bool {
        self.left_to_messages(communicator).is_some()
    }

    /// The blocks of that operation that are left to messages.
    fn left_to_messages(&self, communicator: usize) -> Option<Left> {
        let found = self.communicator(communicator).ok()?;
        let agreed = match &found.node {
            Node::Ready(ready) => ready.agreed.as_ref(),
            Node::Used(_) | Node::Never => None,
        };
        let agreed = agreed.filter(|agreed| agreed.number == found.collectives);
        agreed.map(|agreed| agreed.left)
    }

    /// The blocks that the next operation by messages on a communicator moves: all, unless others were moved in the area before.
    pub(crate) fn blocks_by_messages(&self, communicator: usize) -> Left {
        self.left_to_messages(communicator).unwrap_or(Left::ALL)
    }

    #[inline]
    fn wake_sleepers(&mut self, communicator: usize, operation: &Operation) {
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
            match process.run_operation(communicator, operation) {
                Progress::Over => process.end_operation(communicator, operation).map(Some),
                Progress::Waits => {
                    process.wake_sleepers(communicator, operation);
                    Ok(None)
                }
                failed => Err(process.operation_failed(communicator, operation, failed)),
            }
        })?;
        if !matches!(waited, Waited::NotYet(_)) {
            return Ok(waited);
        }
        let waited = self.wait_and_look(true, &mut |process: &mut Self| process.poll(active));
        self.endpoint.end_notified_wait();
        waited
    }

    /// Advances an operation as far as it can without waiting, and makes progress on others in between.
    #[inline]
    fn run_operation(&mut self, communicator: usize, operation: &mut Operation) -> Progress {
        loop {
            match operation.run() {
                Progress::Moved => self.make_way(communicator, operation),
                progress => return progress,
            }
        }
    }

    /// Makes progress on other operations while this one can go on.
    #[cold]
    fn make_way(&mut self, communicator: usize, operation: &Operation) {
        self.wake_sleepers(communicator, operation);
        self.progress();
    }

    fn end_operation(&mut self, communicator: usize, operation: &mut Operation) -> Result<Status> {
        if operation.comes_too_late() {
            let failure = operation.area.failure();
            return Err(self.give_up_operation(communicator, operation, &failure));
        }
        self.wake_sleepers(communicator, operation);
        let concluded = self.conclude(communicator, operation);
        concluded.map(|()| Status::empty())
    }

    /// Goes on with an operation. Unless it is over, a notice comes when it can go on.
    pub(crate) fn poll_operation(
        &mut self,
        communicator: usize,
        operation: &mut Operation,
    ) -> Result<Option<Status>> {
        // Notices only end waits: nothing else has to be done for them.
        self.handle_notices();
        let mut progress = self.run_operation(communicator, operation);
        if progress == Progress::Waits {
            loop {
                self.wake_sleepers(communicator, operation);
                let awaited = operation.awaited();
                operation.area.announce(awaited.0, awaited.1);
                progress = self.run_operation(communicator, operation);
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
            Progress::Over => self.end_operation(communicator, operation).map(Some),
            failed => Err(self.operation_failed(communicator, operation, failed)),
        }
    }

    /// Fails if a process is lost, has given up this operation, or calls another one, and notifies the others.
    fn check_failures(&mut self, communicator: usize, operation: &Operation) -> Result<()> {
        let area = &operation.area;
        if self.is_idle {
            let (of, phase) = operation.awaited();
            self.ask_whether_begun(communicator, &area.awaited(of, phase));
        }
        let other = operation.find_other_call();
        let (failure, known) = match other.map(|other| operation.failure(other)) {
            Some(failure) => (failure, None),
            None if operation.fails() => (area.failure(), None),
            None => {
                let ending = self.ending_of(communicator, operation);
                if let Some((rank, error)) = ending {
                    let phase = operation.first;
                    let ended = Failure::Ended { rank, phase };
                    area.withdraw();
                    self.give_up_operation(communicator, operation, &ended);
                    return Err(error.on(communicator));
                }
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

    /// The error of an operation in which a process that was asked takes no part, and its rank.
    fn ending_of(&mut self, communicator: usize, operation: &Operation) -> Option<(u32, Error)> {
        let asked = &self.communicator(communicator).ok()?.ending.asked;
        if asked.is_empty() {
            return None;
        }
        self.look_for_ending(communicator, tag_of(operation.number))
    }

    /// The error of an operation that cannot go on: another rank calls what does not belong to it, or its memory cannot be read.
    #[cold]
    fn operation_failed(
        &mut self,
        communicator: usize,
        operation: &Operation,
        why: Progress,
    ) -> Error {
        let failure = match why {
            Progress::Differs(other) => operation.failure(other),
            Progress::Unread(rank) => operation.failure_to_read(rank),
            Progress::TooLong(of) => operation.failure_of_length(of),
            Progress::Over | Progress::Waits | Progress::Moved => operation.area.failure(),
        };
        self.give_up_operation(communicator, operation, &failure)
    }

    fn give_up_operation(
        &mut self,
        communicator: usize,
        operation: &Operation,
        failure: &Failure,
    ) -> Error {
        self.give_up_agreed(communicator, &operation.agreed(Left::ALL), failure)
    }

    /// If this process has found, by its present call, that the others have begun an operation which it has refused because of its arguments, that one counts as an operation
    /// of its own. Returns the failure that it is. The present call is then the one after it.
    #[cold]
    pub(super) fn count_refused(
        &mut self,
        communicator: usize,
        area: &Area,
        call: Call,
    ) -> Option<Failure> {
        let Node::Ready(ready) = &mut self.communicator_mut(communicator).ok()?.node else {
            return None;
        };
        let refusal = ready.refusal.as_mut().filter(|one| !one.is_counted)?;
        let phase = refusal.phase;
        let own = area.published(area.rank, phase).unwrap_or(call);
        let mut calls = (0..area.ranks).filter_map(|rank| area.published(rank, phase));
        let is_theirs = calls.any(|theirs| refusal.call.was_meant(theirs, own));
        refusal.is_counted = is_theirs;
        is_theirs.then(|| refusal.failure(area.rank))
    }

    /// Reports a failure to all processes of an area, and gives up an operation there, given by its number, its first phase and its call. Returns its error.
    #[cold]
    pub(super) fn give_up_area(
        &mut self,
        communicator: usize,
        area: &Area,
        failure: &Failure,
        (number, first): (u64, u64),
        call: Call,
    ) -> Error {
        let refused = self.count_refused(communicator, area, call);
        let number = number + u64::from(refused.is_some());
        let failure = refused.as_ref().unwrap_or(failure);
        area.report(failure, first);
        area.leave(number);
        if let Ok(found) = self.communicator_mut(communicator) {
            // An operation that was to be done by messages takes its number as well.
            found.collectives = found.collectives.max(number + 1);
            found.ending.note_given_up(number);
        }
        // Also those that wait for messages of this operation, or of a later one.
        self.wake_ranks(communicator, !(1 << area.rank));
        let error = area.described().unwrap_or(*failure).error(first);
        error.on(communicator)
    }

    /// The error of an operation by messages whose calls were compared in an area, if it fails there: another rank's call turns out to be another one, or a rank has given up
    /// this or an earlier operation, and sends no messages. This process gives it up, too.
    #[cold]
    pub(crate) fn check_agreed(&mut self, communicator: usize, agreed: &Agreed) -> Option<Error> {
        let failure = agreed.failure()?;
        Some(self.give_up_agreed(communicator, agreed, &failure))
    }

    #[cold]
    fn give_up_agreed(&mut self, communicator: usize, agreed: &Agreed, failure: &Failure) -> Error {
        let of = (agreed.number, agreed.first);
        self.give_up_area(communicator, &agreed.area, failure, of, agreed.call)
    }

    /// This process calls no further operation on a communicator, and others may still wait for it there.
    pub(crate) fn end_area_use(&mut self, communicator: usize) {
        let Ok(Node::Ready(ready)) = self.communicator(communicator).map(|found| &found.node)
        else {
            return;
        };
        let (area, refusal) = (Arc::clone(&ready.area), ready.refusal);
        let is_theirs = self
            .count_refused(communicator, &area, Call::none())
            .is_some();
        if let Ok(found) = self.communicator_mut(communicator) {
            found.collectives += u64::from(is_theirs);
        }
        let phase = area.next_phase();
        let rank = area.rank;
        let ended = Failure::Ended { rank, phase };
        let failure = refusal.map_or(ended, |refusal| Refusal { phase, ..refusal }.failure(rank));
        area.report(&failure, phase);
        self.wake_ranks(communicator, !(1 << area.rank));
    }
}
