//! Transfers: of messages that were announced, and of remote memory.

use causeway_transport::{Direction, TransferError};
use causeway_wire::region::Regions;

use super::{Conversations, ToStart};
use crate::conversation::moving;
use crate::fragments::Fragments;
use crate::lists::NONE;
use crate::matcher::Matcher;
use crate::operation::{OpKind, Remote, State};
use crate::shared::Work;
use crate::transfers::{MAX_TRIES, Remainder};

impl<M: Matcher> Conversations<M> {
    /// The next transfer to start, with its peer, its operation, and the cursor behind it. Each
    /// transfer that is tried subtracts one from `looks`, which bounds the work of one event.
    pub fn poll_transfer(&mut self, looks: &mut usize) -> Option<ToStart> {
        let Self { peers, shared } = self;
        if *looks == 0 {
            shared.transfers.begin_tries();
        }
        while *looks < MAX_TRIES {
            let Some(key) = shared.transfers.next() else {
                break;
            };
            *looks += 1;
            // It may have been cancelled, or its peer lost, while it waited.
            let Some(op) = shared.ops.find(key) else {
                continue;
            };
            let entry = &mut shared.ops[op];
            entry.queued = false;
            let entry = &*entry;
            let goes_on = moving::is_moving(entry) && shared.transfers.is_cut(key);
            if !goes_on && !moving::is_to_move(entry) {
                shared.transfers.forget_parts(key);
                continue;
            }
            let peer = entry.peer;
            if !peers[peer].may_transfer(shared) {
                shared.defer_transfer(op);
                continue;
            }
            if let Some((transfer, behind)) = peers[peer].transfer_of(shared, op) {
                return Some(ToStart {
                    peer,
                    op,
                    transfer,
                    behind,
                });
            }
        }
        if shared.transfers.pause() {
            shared.work.push_back(Work::Transfers);
        }
        None
    }

    /// Reports that the method has accepted a transfer, that of a [`ToStart`] from which the
    /// transfer itself may have been taken.
    pub fn transfer_started(&mut self, peer: u32, op: u32, behind: Remainder) {
        let Self { peers, shared } = self;
        peers[peer].transfer_started(shared, op, behind);
    }

    /// Reports that the method has no room for a transfer now.
    pub fn transfer_deferred(&mut self, op: u32) {
        self.shared.defer_transfer(op);
    }

    /// Reports that the method refuses a transfer.
    pub fn transfer_refused(&mut self, peer: u32, op: u32, error: TransferError) {
        let Self { peers, shared } = self;
        shared.transfers.forget_parts(shared.ops.key(op));
        peers[peer].transfer_failed(shared, op, error);
    }

    /// Reports that a transfer that a method has accepted is complete.
    pub fn handle_transfer_done(&mut self, token: u64, result: Result<(), TransferError>) {
        let Self { peers, shared } = self;
        shared.transfers.active = shared.transfers.active.saturating_sub(1);
        shared.retry_transfers();
        match shared.ops.find(token) {
            Some(op) if shared.ops[op].peer != NONE => {
                let peer = shared.ops[op].peer;
                peers[peer].handle_transfer_done(shared, op, result);
            }
            _ => shared.transfers.forget_parts(token),
        }
    }

    /// Posts a transfer of remote memory.
    pub(crate) fn post_transfer(
        &mut self,
        peer: u32,
        direction: Direction,
        local: (Fragments, u64),
        regions: Regions,
        caller: (u32, u64),
    ) -> u32 {
        let Self { peers, shared } = self;
        let state = State::ToMove(Remote { direction, regions });
        let op = peers[peer].add_op(shared, OpKind::Transfer, caller, 0, local, state);
        shared.start_transfer(op);
        op
    }
}
