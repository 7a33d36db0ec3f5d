//! Accesses to memory that its owner carries out: cut into notices, of which a bounded number is on the way to each process.
//!
//! The data of an access are copied when its notices are sent: small accesses at once, large ones as the owner reports that it has done
//! those before. So the memory that they take here and there is bounded, and the call that begins one never waits.

use std::collections::{BTreeMap, VecDeque};

use causeway_engine::Memory;
use causeway_engine::types::Posted;
use causeway_wire::codec::Wire;
use causeway_wire::window::Notice;

use super::access::{Access, Action};
use super::channel::{Channel, Job, Operation};
use super::combining::Runs;
use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::process::Process;
use crate::status::Status;

/// The most accesses that may be on the way to one process.
const IN_FLIGHT: u64 = 64;
/// The tag of notices among unexpected messages.
pub(super) const TAG: u64 = 0x5749_4e44;

impl Process {
    /// Starts an access to memory of another process's own. Returns its number if it has a request.
    #[cold]
    pub(super) fn access_by_notice(
        &mut self,
        handle: usize,
        rank: u32,
        access: &Access<'_>,
    ) -> Result<Option<u64>> {
        let window = self.window(handle)?;
        let (number, process) = (window.number, window.process(rank));
        let theirs = window.number_at(rank);
        let peer = window.peers[rank as usize];
        let offset = access
            .displacement
            .wrapping_mul(window.units[rank as usize] as i64);
        let act = access.act()?;
        let runs = Runs::new(access.datatype, access.count, offset, act.basic)?;
        let data = match access.action {
            Action::Get => None,
            _ => access.operands(&act)?,
        };
        let staging = access.staging(&act)?;
        let missing = staging.as_ref().map_or(0, |staging| staging.memory.len());
        let windows = &mut self.windows;
        let mut operation = 0;
        let has_reply = staging.is_some();
        if has_reply || access.is_request {
            windows.last_operation += 1;
            operation = windows.last_operation;
            let entry = Operation {
                peer,
                process,
                staging,
                missing,
                is_unsent: true,
                is_request: access.is_request,
                error: None,
            };
            windows.operations.insert(operation, entry);
        }
        let job = Job {
            window: (number, handle),
            theirs,
            act,
            runs,
            data,
            operation,
            has_reply,
        };
        self.channel(process, peer).jobs.push_back(job);
        self.pump(process);
        Ok(access.is_request.then_some(operation))
    }

    /// The state of accesses with a process.
    pub(super) fn channel(&mut self, process: u32, peer: Peer) -> &mut Channel {
        let channels = &mut self.windows.channels;
        channels.entry(process).or_insert_with(|| Channel {
            peer,
            sent: 0,
            acknowledged: 0,
            handled: 0,
            reported: 0,
            jobs: VecDeque::new(),
            last: BTreeMap::new(),
        })
    }

    /// Sends the accesses that may be sent to a process now.
    pub(super) fn pump(&mut self, process: u32) {
        while let Some(channel) = self.windows.channels.get_mut(&process)
            && channel.sent - channel.acknowledged < IN_FLIGHT
            && let Some(job) = channel.jobs.front_mut()
        {
            let next = job.next();
            let ((number, handle), operation) = (job.window, job.operation);
            let (is_over, peer) = (job.is_over() || next.is_err(), channel.peer);
            if is_over {
                channel.jobs.pop_front();
            }
            if next.is_ok() {
                channel.sent += 1;
                channel.last.insert(number, channel.sent);
            }
            if is_over && let Some(entry) = self.windows.operations.get_mut(&operation) {
                entry.is_unsent = false;
            }
            match next {
                Ok(access) => self.send_notice(peer, &Notice::Access(access)),
                Err(error) => self.fail_access(handle, operation, error),
            }
        }
    }

    /// Notes that an access has failed, where it will be asked for.
    pub(super) fn fail_access(&mut self, handle: usize, operation: u64, error: Error) {
        if let Some(entry) = self.windows.operations.get_mut(&operation)
            && entry.fail(error.clone())
        {
            self.windows.operations.remove(&operation);
        }
        if let Ok(window) = self.window_mut(handle) {
            window.error.get_or_insert(error);
        }
    }

    /// Has a process check its wait again.
    pub(crate) fn wake_peer(&mut self, to: Peer) {
        self.send_notice(to, &Notice::Hello);
    }

    /// Sends a notice.
    pub(super) fn send_notice(&mut self, to: Peer, notice: &Notice) {
        let bytes = [Memory::from_vec(notice.to_bytes())];
        let queue = self.windows.queue;
        let posted = self
            .endpoint
            .post_sendunexpected(to.addr, &bytes, TAG, queue, 0);
        // All waiting processes find out for themselves that the other process is lost.
        match posted {
            Ok(Posted::Pending(_)) => self.windows.sending += 1,
            _ => self.endpoint.flush(),
        }
    }

    /// Whether all accesses to a rank, or to all, are done.
    pub(super) fn is_flushed(&self, handle: usize, rank: Option<u32>) -> Result<bool> {
        let window = self.window(handle)?;
        let is_flushed = |rank: u32| {
            let Some(channel) = self.windows.channels.get(&window.process(rank)) else {
                return true;
            };
            let last = channel.last.get(&window.number);
            last.is_none_or(|last| *last <= channel.acknowledged)
                && !channel.jobs.iter().any(|job| job.window.0 == window.number)
        };
        Ok(match rank {
            Some(rank) => is_flushed(rank),
            None => (0..window.group.size()).all(is_flushed),
        })
    }

    /// The status of an access that has a request, if it is done.
    pub(crate) fn poll_access(&mut self, operation: u64) -> Result<Option<Status>> {
        let gone = || Error::new(abi::ERR_REQUEST, "the operation is over");
        let windows = &mut self.windows;
        let entry = windows.operations.get_mut(&operation).ok_or_else(gone)?;
        let lost = match self.endpoint.losses() {
            0 => None,
            _ => self.endpoint.loss(entry.peer.addr),
        };
        let error = entry.error.take().or_else(|| {
            let (process, cause) = (entry.process, lost?);
            let text = format!("process {process} of the program: {cause}");
            Some(Error::new(abi::ERR_PROC_ABORTED, text))
        });
        if error.is_none() && (entry.is_unsent || entry.missing > 0) {
            return Ok(None);
        }
        windows.operations.remove(&operation);
        error.map_or(Ok(Some(Status::empty())), Err)
    }

    /// Drops the state of accesses with a lost process, as the program is told by a call for the window of this number. Other windows keep the error of theirs that are not
    /// done.
    pub(super) fn forget_channel(&mut self, process: u32, number: u32, cause: &str) {
        let operations = &mut self.windows.operations;
        operations.retain(|_, entry| entry.process != process || entry.is_request);
        let Some(channel) = self.windows.channels.remove(&process) else {
            return;
        };
        for other in channel.unfinished().filter(|other| *other != number) {
            if let Some(handle) = self.windows.by_number.get(&other)
                && let Ok(window) = self.windows.table.get_mut(*handle)
            {
                let text = format!("process {process} of the program: {cause}");
                let error = Error::new(abi::ERR_PROC_ABORTED, text);
                window.error.get_or_insert(error);
            }
        }
    }

    /// Forgets a window that no accesses go on with.
    pub(super) fn forget_window(&mut self, number: u32) {
        for channel in self.windows.channels.values_mut() {
            channel.last.remove(&number);
            channel.jobs.retain(|job| job.window.0 != number);
        }
    }

    /// Reports to all processes which of their accesses are done.
    pub(super) fn acknowledge(&mut self) {
        let channels = self.windows.channels.values_mut();
        let due = channels.filter(|channel| channel.reported != channel.handled);
        let due = due.map(|channel| {
            channel.reported = channel.handled;
            (channel.peer, channel.handled)
        });
        for (peer, count) in Vec::from_iter(due) {
            self.send_notice(peer, &Notice::Done { count });
        }
    }
}
