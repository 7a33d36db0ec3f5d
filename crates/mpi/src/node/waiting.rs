//! Waiting for an operation in an area.
//!
//! Processes that come at the same time find each other within some hundred nanoseconds, so a wait polls a little. Then it yields its processor
//! to those that it may be waiting for: where there are more processes than processors, all get there by yielding in turn. In the end it
//! announces what it waits for, and waits for messages like any other wait of the engine's, which may sleep; the process that completes what was
//! announced sends a notice.

use super::operation::Operation;
use crate::abi;
use crate::error::{Error, Result};
use crate::process::{Active, Going, Process, Waited};
use crate::status::Status;

/// Polls before the first yield: two microseconds.
const POLLS: u32 = 100;
/// The same where there are more processes than processors, or several threads.
const FEW_POLLS: u32 = 10;
/// Yields before a wait is announced: some dozen microseconds where nobody else wants the processor.
const YIELDS: u32 = 100;
/// Yields between looks at everything else that goes on.
const BETWEEN: u32 = 16;

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
        let polls = match self.has_threads || operation.area.ranks > self.processors {
            true => FEW_POLLS,
            false => POLLS,
        };
        for _ in 0..polls {
            if operation.run() {
                self.wake_sleepers(communicator, &operation);
                return operation.finish().map(|()| None);
            }
            std::hint::spin_loop();
        }
        self.wake_sleepers(communicator, &operation);
        let state = Going::Node(Box::new(operation));
        Ok(Some(Active::going(state, communicator)))
    }

    #[inline]
    fn wake_sleepers(&mut self, communicator: usize, operation: &Operation) {
        let sleepers = operation.area.sleepers();
        if sleepers != 0 {
            self.nudge_ranks(communicator, sleepers);
        }
    }

    #[cold]
    fn nudge_ranks(&mut self, communicator: usize, ranks: u64) {
        let Ok(communicator) = self.communicator(communicator) else {
            return;
        };
        let peers = communicator.peers.clone();
        let all = peers.iter().enumerate();
        for (_, peer) in all.filter(|(rank, _)| ranks >> rank & 1 == 1) {
            self.nudge(*peer);
        }
    }

    /// Polls and yields for a while, then waits for news. For a process with one thread.
    pub(crate) fn wait_for_operation(&mut self, active: &mut Active) -> Result<Waited<Status>> {
        let communicator = active.communicator();
        for round in 1..=YIELDS {
            let Going::Node(operation) = &mut active.state else {
                break;
            };
            if operation.run() {
                return self
                    .end_operation(communicator, operation)
                    .map(Waited::Done);
            }
            self.wake_sleepers(communicator, operation);
            if round.is_multiple_of(BETWEEN) {
                self.progress();
                if let Some(call) = self.take_call() {
                    return Ok(Waited::Call(call));
                }
            }
            std::thread::yield_now();
        }
        self.wait_for_news(|process| process.poll(active))
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
        // Notices have told what they are for by having come.
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

    /// An error if a process is lost, which the others are told.
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
        self.nudge_ranks(communicator, sleepers);
        Err(error.on(communicator))
    }
}

#[cold]
fn lost_rank(rank: u32) -> Error {
    let text = format!("rank {rank} is lost, as a process of the communicator has found");
    Error::new(abi::ERR_PROC_ABORTED, text)
}
