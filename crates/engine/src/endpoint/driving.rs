//! Carrying out with methods what the conversations request.

use causeway_transport::{SendError, TransferError};
use causeway_wire::region::Regions;

use super::Endpoint;
use crate::conversations::{Event, ToStart};
use crate::matcher::Matcher;
use crate::operation::OpKind;
use crate::types::OpError;

impl<M: Matcher> Endpoint<M> {
    /// Carries out the work that the last call has left.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.conversations.has_work() {
            self.run();
        }
    }

    /// Carries out the work that polls, or a flush, have left, and completes sends whose packets
    /// have left since.
    #[inline]
    pub(super) fn settle_sent(&mut self) {
        self.settle();
        if self.conversations.has_held() {
            self.complete_held();
            self.settle();
        }
    }

    #[inline(never)]
    fn run(&mut self) {
        loop {
            while let Some(event) = self.conversations.poll_event() {
                self.handle(event);
            }
            match self.conversations.poll_dirty() {
                Some(peer) => self.transmit(peer),
                None => return self.conversations.resume_postponed(),
            }
        }
    }

    /// Completes sends whose packets have left.
    fn complete_held(&mut self) {
        let (connections, methods) = (&self.connections, &self.methods);
        self.conversations.complete_held(|peer| {
            let link = connections.link(peer);
            link.is_some_and(|link| methods.holds_packets(link))
        });
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Export { peer, op } => self.export_memory(peer, op),
            Event::Finish { peer, op, result } => self.finish(peer, op, result),
            Event::Rematch { peer, op } => {
                self.end_exports(peer, op);
                self.conversations.rematch(peer, op);
            }
            Event::Called { peer } => self.called(peer),
            Event::Introduced { peer } => self.introduced(peer),
            Event::MayLeave { peer } => self.may_leave(peer),
            Event::MayClose { peer } => self.may_close(peer),
            Event::Left { peer } => self.left(peer),
            Event::Stays { peer } => self.stays(peer),
            Event::Lost { peer, cause } => self.lost(peer, cause),
            Event::Silent { peer, limit_ms } => self.give_up(peer, limit_ms),
            Event::ProtocolError { peer, reason } => self.drop_offender(peer, reason),
            Event::CancelPlacement { peer } => {
                if let Some((method, handle)) = self.connections.link(peer) {
                    self.methods.get(method).cancel_placement(handle);
                }
            }
            Event::Release { peer } => self.release_if_unused(peer),
            Event::Transfers => self.start_transfers(),
        }
    }

    /// Exports memory of an operation to its peer: all that is requested or nothing.
    pub(super) fn export_memory(&mut self, peer: u32, op: u32) {
        let Some((parts, access)) = self.conversations.memory_to_export(peer, op) else {
            return;
        };
        let Some((method, handle)) = self.connections.link(peer) else {
            let error = causeway_transport::Error::NoPeer;
            return self.conversations.handle_exported(peer, op, Err(error));
        };
        let slot = self.methods.slot(method);
        let mut regions = Regions::with_capacity(parts.len());
        let mut result = Ok(());
        for part in &parts {
            match slot.grant(handle, part, access) {
                Ok(region) => regions.push(region),
                Err(error) => {
                    result = Err(error);
                    for region in regions.drain(..) {
                        slot.method.revoke(handle, region.key);
                    }
                    break;
                }
            }
        }
        let result = result.map(|()| regions);
        self.conversations.handle_exported(peer, op, result);
    }

    /// Ends an operation's exports.
    pub(super) fn end_exports(&mut self, peer: u32, op: u32) {
        let keys = self.conversations.take_exports(op);
        if let Some((method, handle)) = self.connections.link(peer) {
            for key in keys {
                self.methods.get(method).revoke(handle, key);
            }
        }
    }

    /// Ends the exports of all of a peer's operations.
    pub(super) fn end_all_exports(&mut self, peer: u32) {
        for op in self.conversations.operations_of(peer) {
            self.end_exports(peer, op);
        }
    }

    /// Ends an operation's exports, then completes it.
    fn finish(&mut self, peer: u32, op: u32, result: Result<u64, OpError>) {
        let Some((method, handle)) = self.connections.link(peer) else {
            return self.conversations.complete_finished(peer, op, result);
        };
        let entry = &self.conversations.shared.ops[op];
        if result.is_ok() && matches!(entry.kind, OpKind::Receive | OpKind::Fetch) {
            // Earlier contents of the memory must not be taken for a part of the message.
            let method = &self.methods.slots[method].method;
            let mut exports = entry.exports.iter();
            if !exports.all(|key| method.is_all_written(handle, *key)) {
                let reason = "it reports a message as written that it has not written".to_owned();
                return self.conversations.protocol_error(peer, reason);
            }
        }
        if result.is_err() && self.conversations.peers[peer].is_up() {
            // The other side may be using the memory: it is sent the reason before its accesses
            // fail.
            self.transmit_control(peer);
        }
        let method = self.methods.get(method);
        let exports = &mut self.conversations.shared.ops[op].exports;
        exports.retain(|key| !method.try_revoke(handle, *key));
        if exports.is_empty() {
            self.conversations.complete_finished(peer, op, result);
        } else {
            self.conversations.hold_finished(op, result);
        }
    }

    /// Starts transfers as far as there is room for them.
    fn start_transfers(&mut self) {
        let mut looks = 0;
        while let Some(to_start) = self.conversations.poll_transfer(&mut looks) {
            let ToStart {
                peer,
                op,
                transfer,
                behind,
            } = to_start;
            let started = match self.connections.link(peer) {
                Some((method, handle)) => self.methods.slot(method).transfer(handle, transfer),
                None => Err(SendError::WouldBlock),
            };
            let all = &mut self.conversations;
            match started {
                Ok(()) => all.transfer_started(peer, op, behind),
                Err(SendError::WouldBlock) => all.transfer_deferred(op),
                Err(SendError::Gone(cause)) => {
                    all.transfer_deferred(op);
                    all.handle_lost(peer, cause);
                }
                Err(error) => {
                    let error = TransferError::Copy(error.to_string());
                    all.transfer_refused(peer, op, error);
                }
            }
        }
    }
}
