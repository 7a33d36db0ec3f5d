//! Lists of regions that are too long for a request: fetched from the client's memory part by part.

use causeway_bmi::{Direction, Memory, OpError, Posted};
use causeway_wire::fs::Errno;

use super::events::Loop;
use super::io::{Job, MAX_INLINE, MemorySide, Step, too_much_inside, transfer_failure};
use super::purpose::Purpose;
use super::regions::{LIST_CHUNK, LocalStream, REGION_BYTES};
use super::ticket::Ticket;
use crate::error::failure;

impl Loop {
    /// Fetches the next part of a list of regions.
    pub(super) fn want_list(&mut self, job: &mut Job) -> Step {
        let Some(wanted) = job.regions.list_wanted() else {
            if job.left > 0 {
                job.fail(failure(
                    Errno::EINVAL,
                    format!("the regions end {} bytes before the memory", job.left),
                ));
            }
            // The request is for no bytes.
            if matches!(job.memory, MemorySide::Awaited) {
                job.memory = MemorySide::Local(LocalStream::new(Vec::new().into_iter()));
            }
            return Step::Wait;
        };
        debug_assert!(wanted.len <= LIST_CHUNK * REGION_BYTES);
        let Some(buffer) = self.buffer(job) else {
            return Step::Wait;
        };
        let into = buffer.slice(0..wanted.len as usize);
        let from = job.requester.to.from;
        let user = Purpose::List.user(job.ticket);
        let posted =
            self.bmi
                .post_transfer(from, Direction::Get, &[into], &[wanted], self.context, user);
        match posted {
            Ok(Posted::Pending(_)) => {
                job.list = Some(buffer);
                Step::Wait
            }
            Ok(Posted::Complete(completion)) => {
                self.take_list(job, buffer, wanted.len, completion.result);
                Step::Again
            }
            Err(error) => {
                self.staging.give(buffer);
                job.fail(failure(Errno::EIO, error.to_string()));
                Step::Wait
            }
        }
    }

    /// Continues when a part of a list of regions has arrived.
    pub(super) fn list_arrived(&mut self, ticket: Ticket, result: Result<u64, OpError>) {
        let Some(mut job) = self.take_job(ticket) else {
            return;
        };
        if let (Some(buffer), Some(wanted)) = (job.list.take(), job.regions.list_wanted()) {
            self.take_list(&mut job, buffer, wanted.len, result);
        }
        self.put_runnable(job);
    }

    fn take_list(&mut self, job: &mut Job, buffer: Memory, len: u64, result: Result<u64, OpError>) {
        let taken = match result {
            Ok(_) => job.regions.list_fetched(&buffer.slice(0..len as usize)),
            Err(error) => Err(transfer_failure(&error)),
        };
        self.staging.give(buffer);
        match taken {
            Ok(total) if matches!(job.memory, MemorySide::Awaited) => {
                if total > MAX_INLINE || job.regions.list_wanted().is_some() {
                    job.fail(too_much_inside(total));
                    return;
                }
                let reply = Memory::zeroed(total as usize);
                job.inline = Some(reply.clone());
                job.memory = MemorySide::Local(LocalStream::new(vec![reply].into_iter()));
                (job.left, job.total) = (total, total);
            }
            Ok(_) => {}
            Err(failure) => job.fail(failure),
        }
    }
}
