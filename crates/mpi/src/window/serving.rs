//! Requests of other processes' notices, and watching processes that are waited for.

use std::time::Duration;

use causeway_engine::types::Unexpected;
use causeway_sys::blocks::{Source, Target};
use causeway_wire::codec::Wire;
use causeway_wire::window::{self as wire, MAX_DATA, Notice};

use super::combining::Update;
use super::sending::TAG;
use crate::abi;
use crate::error::{Error, Result};
use crate::process::{Process, Waited};

/// Notices that are taken at once.
const MOST: usize = 64;

impl Process {
    /// Serves the notices that have come.
    pub(crate) fn handle_notices(&mut self) {
        self.drain_notices_sent();
        let mut messages = Vec::new();
        while self.endpoint.change_counts().1 > 0 {
            let found = (self.endpoint).testunexpected(MOST, Duration::ZERO, &mut messages);
            if found.unwrap_or(0) == 0 {
                break;
            }
            for message in messages.drain(..) {
                self.handle_message(&message);
            }
            self.acknowledge();
        }
    }

    fn drain_notices_sent(&mut self) {
        if self.windows.sending == 0 {
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        // The queue is the process's own as long as it lives.
        let found = self.endpoint.take_all(self.windows.queue, &mut taken);
        self.windows.sending = self.windows.sending.saturating_sub(found.unwrap_or(0));
        taken.clear();
        self.taken = taken;
    }

    fn handle_message(&mut self, message: &Unexpected) {
        let number = self.endpoint.number(message.from);
        self.endpoint.release(message.from);
        let process = number.map_or(u32::MAX, |number| self.process_of(number));
        // Messages of other programs' processes, and messages that are no notices, are dropped.
        if message.tag == TAG
            && process != u32::MAX
            && let Ok(notice) = Notice::from_bytes(&message.data)
        {
            self.serve(process, notice);
        }
    }

    /// Serves a notice of a process.
    pub(super) fn serve(&mut self, from: u32, notice: Notice) {
        match notice {
            Notice::Access(access) => self.serve_access(from, &access),
            Notice::Data { reply, at, data } => self.serve_data(reply, at, &data),
            Notice::Done { count } => {
                if let Some(channel) = self.windows.channels.get_mut(&from) {
                    channel.acknowledged = count.clamp(channel.acknowledged, channel.sent);
                }
                self.pump(from);
            }
            Notice::Hello => {}
            Notice::Refused {
                window,
                reply,
                offset,
            } => {
                let text = format!("process {from} of the program has no memory at {offset:#x}");
                let error = Error::new(abi::ERR_RMA_RANGE, text);
                if let Some(handle) = self.windows.by_number.get(&window) {
                    self.fail_access(*handle, reply, error);
                }
            }
            Notice::Lock { window, .. }
            | Notice::Unlock { window }
            | Notice::Granted { window }
            | Notice::Posted { window }
            | Notice::Completed { window }
            | Notice::Free { window }
            | Notice::Broken { window, .. } => {
                if let Some(handle) = self.windows.by_number.get(&window) {
                    self.serve_window(*handle, from, &notice);
                }
            }
        }
    }

    /// Serves a notice of a process about a window's epochs.
    fn serve_window(&mut self, handle: usize, from: u32, notice: &Notice) {
        let Ok(window) = self.window_mut(handle) else {
            return;
        };
        let Some(rank) = window.group.rank_of(from) else {
            return;
        };
        let number = window.number;
        let other = &mut window.others[rank as usize];
        match notice {
            Notice::Lock { exclusive, .. } => window.waiting.request(rank, *exclusive),
            Notice::Unlock { .. } => window.waiting.release(),
            // Requests are granted in their order.
            Notice::Granted { .. } if other.given_up > 0 => {
                other.given_up -= 1;
                // One of this process's own windows has this rank.
                let _ = self.notify_rank(handle, rank, &Notice::Unlock { window: number });
            }
            Notice::Granted { .. } => other.is_granted = true,
            Notice::Posted { .. } => other.posted += 1,
            Notice::Completed { .. } => other.completed += 1,
            Notice::Broken { rank, .. } => {
                let text = format!("rank {rank} of the window is lost, as another has found");
                let error = Error::new(abi::ERR_PROC_ABORTED, text);
                window.error.get_or_insert(error);
            }
            // It only ends a wait.
            _ => {}
        }
        while let Some(rank) = self.next_holder(handle) {
            // One of this process's own windows has this rank.
            let _ = self.notify_rank(handle, rank, &Notice::Granted { window: number });
        }
    }

    fn next_holder(&mut self, handle: usize) -> Option<u32> {
        self.window_mut(handle).ok()?.waiting.next()
    }

    /// Does an access of another process's, and sends the requested elements.
    fn serve_access(&mut self, from: u32, access: &wire::Access) {
        let peer = self.peers[from as usize];
        let done = self.do_access(access);
        self.channel(from, peer).handled += 1;
        match done {
            Some(data) if access.reply != 0 => {
                let (reply, at) = (access.reply, access.at);
                self.send_notice(peer, &Notice::Data { reply, at, data });
            }
            Some(_) => {}
            None => {
                let offset = access.runs.first().map_or(0, |run| run.offset);
                let handle = self.windows.by_number.get(&access.window);
                let here = handle.and_then(|handle| self.window(*handle).ok());
                let number = here.and_then(|window| {
                    let rank = window.group.rank_of(from)?;
                    Some(window.number_at(rank))
                });
                let reply = access.reply;
                let refused = Notice::Refused {
                    // If there is no such window, the number that the sender gave is returned, as
                    // if it were its own.
                    window: number.unwrap_or(access.window),
                    reply,
                    offset,
                };
                self.send_notice(peer, &refused);
            }
        }
    }

    /// Does an access to this process's own memory; returns the old elements. `None`, and nothing is changed, if it is not to be done.
    fn do_access(&mut self, access: &wire::Access) -> Option<Vec<u8>> {
        let window = self.windows.by_number.get(&access.window)?;
        let window = self.window(*window).ok()?;
        let act = Update::from_numbers(access.operation, access.datatype)?;
        let unit = act.unit();
        let mut places = Vec::with_capacity(access.runs.len());
        let mut total = 0;
        for run in &access.runs {
            let count = usize::try_from(run.count).ok()?;
            total = count.checked_mul(unit)?.checked_add(total)?;
            if total > MAX_DATA {
                return None;
            }
            let (memory, at) = window.locate(run.offset, (count * unit) as u64)?;
            places.push((memory, at, count));
        }
        let is_one = act.operands() < 2 || total == unit;
        if access.data.len() != total * act.operands() || !is_one {
            return None;
        }
        let mut fetched = vec![0; if access.reply == 0 { 0 } else { total }];
        let mut done = 0;
        for (memory, at, count) in places {
            let len = count * unit;
            let (compare, data) = match act.operands() {
                1 => (&[][..], &access.data[done..done + len]),
                _ => access.data.split_at(access.data.len() / 2),
            };
            let operands = (Source::from(data), Source::from(compare));
            let mut all = Target::from(&mut fetched[..]);
            let into = (access.reply != 0).then(|| all.part(done, len));
            act.apply(memory, at, count, operands, into);
            done += len;
        }
        Some(fetched)
    }

    fn serve_data(&mut self, reply: u64, at: u64, data: &[u8]) {
        let operations = &mut self.windows.operations;
        let Some(operation) = operations.get_mut(&reply) else {
            return;
        };
        let is_over = match operation.receive(at, data) {
            Ok(is_done) => is_done && !operation.is_request(),
            Err(error) => operation.fail(error),
        };
        if is_over {
            operations.remove(&reply);
        }
    }

    /// Sends a rank of a window a notice.
    pub(super) fn notify_rank(&mut self, handle: usize, rank: u32, notice: &Notice) -> Result<()> {
        let window = self.window(handle)?;
        if rank == window.rank {
            self.serve(self.rank, notice.clone());
        } else if let Some(peer) = window.peers.get(rank as usize) {
            let notice = notice.clone().about(window.number_at(rank));
            self.send_notice(*peer, &notice);
        }
        Ok(())
    }

    /// Notifies all others that a collective operation of a window has failed here because a process is lost.
    pub(super) fn notify_broken(&mut self, handle: usize) -> Result<()> {
        let Some((rank, _)) = self.lost_member(handle)? else {
            return Ok(());
        };
        let window = self.window(handle)?;
        let (number, own) = (window.number, window.rank);
        for other in 0..window.group.size() {
            if other != own && other != rank {
                let window = number;
                self.notify_rank(handle, other, &Notice::Broken { window, rank })?;
            }
        }
        Ok(())
    }

    /// A rank of a window that is lost, and why.
    fn lost_member(&self, handle: usize) -> Result<Option<(u32, String)>> {
        let window = self.window(handle)?;
        if self.endpoint.losses() == 0 {
            return Ok(None);
        }
        let lost = window.peers.iter().enumerate().find_map(|(rank, peer)| {
            let cause = self.endpoint.loss(peer.addr)?;
            Some((rank as u32, cause.to_string()))
        });
        Ok(lost)
    }

    /// An error if a process of a window is lost.
    pub(super) fn check_members(&mut self, handle: usize) -> Result<()> {
        let Some((rank, cause)) = self.lost_member(handle)? else {
            return Ok(());
        };
        let window = self.window(handle)?;
        let (number, process) = (window.number, window.process(rank));
        self.forget_channel(process, number, &cause);
        let text = format!("rank {rank} of the window: {cause}");
        Err(Error::new(abi::ERR_PROC_ABORTED, text))
    }

    /// Watches these ranks, so that their deaths are reported.
    pub(super) fn watch_ranks(&mut self, handle: usize, ranks: &[u32]) {
        let Ok(window) = self.window(handle) else {
            return;
        };
        let (peers, own) = (window.peers.clone(), window.rank);
        for rank in ranks.iter().filter(|rank| **rank != own) {
            if let Some(peer) = peers.get(*rank as usize)
                && self.endpoint.method(peer.addr).is_none()
            {
                self.send_notice(*peer, &Notice::Hello);
            }
        }
    }

    /// Waits until `ready` returns a value, and watches these ranks meanwhile.
    pub(super) fn wait_on_window<T>(
        &mut self,
        handle: usize,
        ranks: &[u32],
        mut ready: impl FnMut(&mut Self) -> Result<Option<T>>,
    ) -> Result<Waited<T>> {
        let mut is_watching = false;
        self.wait_until_ready(|process| {
            process.handle_notices();
            if let Some(done) = ready(process)? {
                return Ok(Some(done));
            }
            process.take_error(handle)?;
            process.check_members(handle)?;
            if !std::mem::replace(&mut is_watching, true) {
                process.watch_ranks(handle, ranks);
            }
            Ok(None)
        })
    }
}
