//! State of accesses between this process and the owners of memory that it accesses.

use std::collections::{BTreeMap, VecDeque};

use causeway_engine::Memory;
use causeway_wire::window::{self as wire, MAX_DATA, MAX_RUNS};

use super::combining::{Runs, Staging, Update};
use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};

/// State of accesses with one other process.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) peer: Peer,
    /// The number of accesses that it was notified of, and of those that it has done.
    pub(super) sent: u64,
    pub(super) acknowledged: u64,
    /// Its accesses that were done here, and how many of them were reported to it.
    pub(super) handled: u64,
    pub(super) reported: u64,
    pub(super) jobs: VecDeque<Job>,
    /// By the window's number: which access was its last one.
    pub(super) last: BTreeMap<u32, u64>,
}

impl Channel {
    /// The numbers of windows with accesses that are not done.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = u32> {
        let sent = self
            .last
            .iter()
            .filter(|(_, last)| **last > self.acknowledged);
        let unsent = self.jobs.iter().map(|job| job.window.0);
        sent.map(|(number, _)| *number).chain(unsent)
    }
}

/// An access that is not sent as a whole.
#[derive(Debug)]
pub(super) struct Job {
    /// The window's number and handle.
    pub(super) window: (u32, usize),
    /// The window's number there.
    pub(super) theirs: u32,
    pub(super) act: Update,
    pub(super) runs: Runs,
    pub(super) data: Option<Memory>,
    /// The number of its [`Operation`]; 0 if it has none.
    pub(super) operation: u64,
    pub(super) has_reply: bool,
}

/// An access that the program waits for: for its data, or for its request.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) peer: Peer,
    pub(super) process: u32,
    pub(super) staging: Option<Staging>,
    /// Bytes that are not here yet.
    pub(super) missing: usize,
    pub(super) is_unsent: bool,
    pub(super) is_request: bool,
    pub(super) error: Option<Error>,
}

impl Operation {
    /// Some of its data have come. Returns whether it is done.
    pub(super) fn receive(&mut self, at: u64, data: &[u8]) -> Result<bool> {
        let nonsense = || Error::new(abi::ERR_INTERN, "a reply does not fit its access");
        let staging = self.staging.as_ref().ok_or_else(nonsense)?;
        let at = usize::try_from(at).map_err(|_| nonsense())?;
        let room = staging.memory.len().checked_sub(at);
        if room.is_none_or(|room| room < data.len()) || self.missing < data.len() {
            return Err(nonsense());
        }
        staging.memory.write_at(at, data);
        self.missing -= data.len();
        if self.missing == 0 {
            staging.finish()?;
        }
        Ok(self.missing == 0)
    }

    /// Notes its failure. Returns whether it can be forgotten, because the program has no request for
    /// it.
    pub(super) fn fail(&mut self, error: Error) -> bool {
        self.error = Some(error);
        !self.is_request
    }

    pub(super) fn is_request(&self) -> bool {
        self.is_request
    }
}

impl Job {
    /// The next notice.
    pub(super) fn next(&mut self) -> Result<wire::Access> {
        let unit = self.act.unit();
        let first = self.runs.next as usize;
        let mut runs = Vec::new();
        let most = (MAX_DATA / unit) as u64;
        self.runs.take(MAX_RUNS, most, &mut runs)?;
        let data = match &self.data {
            None => Vec::new(),
            Some(data) if self.act.operands() == 2 => data.to_vec(),
            Some(data) => data
                .slice(first * unit..self.runs.next as usize * unit)
                .to_vec(),
        };
        Ok(wire::Access {
            window: self.theirs,
            operation: self.act.number(),
            datatype: self.act.basic.handle() as u16,
            reply: if self.has_reply { self.operation } else { 0 },
            at: (first * unit) as u64,
            runs,
            data,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.runs.next >= self.runs.total
    }
}
