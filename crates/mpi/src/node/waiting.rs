//! Waiting for an operation in an area.
//!
//! Processes that begin an operation at the same time find each other within some hundred nanoseconds, so a wait first polls the slots briefly.
//! Then it yields its processor to those that it may be waiting for: where there are more processes than processors, all get there by yielding in
//! turn. In the end it announces what it waits for, and waits for messages like any other wait of the engine's, which may sleep; the process that
//! completes what was announced sends a notice. How long each of these takes is up to the engine's policy of waiting.

use causeway_engine::Awaited;

use super::operation::Operation;
use crate::abi;
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
        if let Some(lost) = operation.area.lost() {
            return Err(lost_rank(lost).on(communicator));
        }
        let mut looks = None;
        loop {
            if operation.run() {
                if looks.is_some() {
                    self.endpoint.came_at_once(Awaited::Step);
                }
                self.wake_sleepers(communicator, &operation);
                return operation.finish().map(|()| None);
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
            match operation.run() {
                true => process.end_operation(communicator, operation).map(Some),
                false => {
                    process.wake_sleepers(communicator, operation);
                    Ok(None)
                }
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
        if !operation.run() {
            loop {
                self.wake_sleepers(communicator, operation);
                let awaited = operation.awaited();
                operation.area.announce(awaited.0, awaited.1);
                if operation.run() {
                    break;
                }
                if operation.awaited() == awaited {
                    self.check_losses(communicator, operation)?;
                    return Ok(None);
                }
            }
            operation.area.withdraw();
        }
        self.end_operation(communicator, operation).map(Some)
    }

    /// Fails if a process is lost, and notifies the others.
    fn check_losses(&mut self, communicator: usize, operation: &Operation) -> Result<()> {
        let area = &operation.area;
        if let Some(lost) = area.lost() {
            return Err(lost_rank(lost).on(communicator));
        }
        let peers = self.communicator(communicator)?.peers.clone();
        let Some(error) = self.lost_among(&peers) else {
            return Ok(());
        };
        let lost = peers
            .iter()
            .position(|peer| self.endpoint.loss(peer.addr).is_some());
        let sleepers = area.give_up(lost.unwrap_or(0) as u32);
        self.wake_ranks(communicator, sleepers);
        Err(error.on(communicator))
    }
}

#[cold]
fn lost_rank(rank: u32) -> Error {
    let text = format!("rank {rank} is lost, as a process of the communicator has found");
    Error::new(abi::ERR_PROC_ABORTED, text)
}
