//! The initiator's side of split copies: which transfers are shared, and which parts of them the
//! initiator copies in one step.

use std::ops::Range;

use causeway_sys::memory::Memory;
use causeway_sys::patience::Patience;
use causeway_wire::shm::PairLayout;
use causeway_wire::shm::split_copy::{PieceHeader, UNIT_BYTES};
use smallvec::SmallVec;

use super::claim::{From, InvalidClaims};
use super::copying::{self, Piece, PieceError};
use super::costs::{Copying, LARGE_BYTES};
use super::pair::{Attach, CHANGED, Pair};
use super::pieces::{OWN_BYTES, PATIENCE};
use super::split_copy::Description;
use super::transfer::{Active, MAX_PIECE, Step};
use crate::error::{PeerError, TransferError};
use crate::method::Direction;
use crate::packet::Packet;

/// A single transfer that is shorter is complete before a helper has seen it. One that is not longer than [`BATCH`] is copied in one step
/// while the peer has its own to copy.
pub(super) const LEAST_ALONE: u64 = LARGE_BYTES as u64;

/// Among several, sharing pays from here on: each side copies its parts of many by one system call.
const LEAST_AMONG_OTHERS: u64 = 2 * UNIT_BYTES;

/// Transfers at the front of the queue that may be shared or mapped ahead of their turn.
const WINDOW: usize = 32;

/// Bytes that one step copies.
pub(super) const BATCH: u64 = 512 << 10;

/// A part of a transfer that the initiator has claimed.
struct Part {
    /// The index of the transfer in the queue.
    at: usize,
    bytes: Range<u64>,
}

/// The parts that one step copies: of one transfer, in the usual case.
type Parts = SmallVec<[Part; 1]>;

/// Handles transfers that are new near the front of the queue: maps memory where possible, and
/// shares transfers for which that pays.
pub(super) fn consider(pair: &mut Pair) {
    for at in 0..pair.transfers.queue.len().min(WINDOW) {
        let Some(active) = pair.transfers.queue.get(at) else {
            return;
        };
        if active.considered {
            continue;
        }
        let least = if pair.transfers.queue.len() > 1 {
            LEAST_AMONG_OTHERS
        } else if copies_both_ways(pair) {
            BATCH + 1
        } else {
            LEAST_ALONE
        };
        let shared = pair.shares && active.left >= least;
        if shared && !pair.offers.has_room() {
            break;
        }
        consider_one(pair, at, shared);
    }
    pair.offers.announce_open();
}

fn consider_one(pair: &mut Pair, at: usize, shared: bool) {
    let Some(active) = pair.transfers.queue.get_mut(at) else {
        return;
    };
    active.considered = true;
    let ([local], [region]) = (&active.transfer.local[..], &active.transfer.remote[..]) else {
        return;
    };
    if active.failed.is_some() || active.left == 0 {
        return;
    }
    let (local, region, direction) = (local.clone(), *region, active.transfer.direction);
    let mapped = region
        .object
        .and_then(|span| pair.find_object(span, region.base, region.len));
    let reachable = mapped.is_some() || matches!(pair.attach, Attach::Usable(_));
    let object = if shared && reachable {
        pair.offer_object(&local)
    } else {
        None
    };
    let copied_by_kernel = mapped.is_none() && object.is_none();
    let may_be_pieces = shared
        && reachable
        && copied_by_kernel
        && direction == Direction::Get
        && !copies_both_ways(pair);
    let way = may_be_pieces
        .then(|| pair.may_send_pieces(region.len))
        .flatten();
    let Some(active) = pair.transfers.queue.get_mut(at) else {
        return;
    };
    active.mapped_remote = mapped;
    if shared && reachable {
        active.offer = pair.offers.open(&Description {
            direction,
            key: region.key,
            helper_address: region.base,
            initiator_address: local.as_ptr() as u64,
            len: region.len,
            object,
            in_pieces: way == Some(true),
        });
        if let Some(offer) = &mut active.offer {
            offer.is_timed = way.is_some();
        }
        if active.offer.is_some() {
            active.left = 0;
            if at == 0 {
                // A helper that was away is not waited for.
                pair.transfers.patience = match pair.transfers.helped {
                    true => Patience::Fresh,
                    false => Patience::Over,
                };
            }
        }
    }
}

/// Copies a part of the shared transfers, the first of which is at the front.
pub(super) fn step(pair: &mut Pair) -> Step {
    let parts = match take(pair) {
        Ok(parts) => parts,
        Err(error) => return report_invalid(pair, error),
    };
    pair.offers.announce_open();
    if parts.is_empty() {
        // All units are claimed; the next poll finds events that have arrived meanwhile.
        return Step::Watch;
    }
    match copy_parts(pair, &parts) {
        Ok(()) => Step::Again,
        Err(error) => report_invalid(pair, error),
    }
}

/// The helper has violated the protocol: its connection ends with the next poll.
fn report_invalid(pair: &mut Pair, _: InvalidClaims) -> Step {
    pair.failing.get_or_insert(PeerError::Protocol(
        "it claims parts of a transfer that it cannot have".to_owned(),
    ));
    Step::Wait
}

/// Whether the peer copies transfers of its own as well, or has a message of ours to read. Each
/// processor then has a message of its own to copy, and no time to send pieces of the other's: a
/// byte that is read by its receiver is copied once, a byte of a piece twice.
fn copies_both_ways(pair: &Pair) -> bool {
    pair.helper.is_any_open() || pair.exports.is_any_read_only()
}

/// Whether a pair that waits for the helper has something to do now. `clocked`: also read the
/// clock, which takes as long as the rest.
pub(super) fn has_news(pair: &mut Pair, clocked: bool) -> bool {
    let front = pair.transfers.queue.front_mut();
    let Some(offer) = front.and_then(|front| front.offer.as_mut()) else {
        return true;
    };
    if !matches!(pair.offers.is_settled(offer), Ok(false)) {
        return true;
    }
    if !offer.in_pieces {
        return false;
    }
    let patience = &mut pair.transfers.patience;
    let waits = match clocked {
        true => patience.lasts(PATIENCE),
        false => !patience.is_over(),
    };
    if waits && !copies_both_ways(pair) {
        return false;
    }
    // The transfers behind it may have something left, too.
    let mut queue = pair.transfers.queue.iter_mut().take(WINDOW);
    queue.any(|active| {
        let offer = active.offer.as_mut().filter(|offer| offer.in_pieces);
        offer.is_some_and(|offer| pair.offers.has_left(offer))
    })
}

/// Handles a piece of one of our transfers.
pub(super) fn take_piece(pair: &mut Pair, packet: Packet<'_>) -> Result<(), PeerError> {
    let nonsense = || {
        let what = "it sends a piece that belongs to no transfer, or to another part of it";
        PeerError::Protocol(what.to_owned())
    };
    let len = packet.len().checked_sub(PieceHeader::BYTES);
    let len = len.ok_or_else(nonsense)?;
    let mut header = [0; PieceHeader::BYTES];
    packet.read_at(0, &mut header);
    let PieceHeader { block, first } = PieceHeader::unpack(header);
    let mut queue = pair.transfers.queue.iter_mut().take(WINDOW);
    let found = queue.find_map(|active| {
        let offer = active.offer.as_mut()?;
        let own = active.transfer.local.first()?;
        offer.is_in_pieces(block).then_some((offer, own))
    });
    let (offer, own) = found.ok_or_else(nonsense)?;
    let bytes = offer.receive(first, len as u64);
    let bytes = bytes.map_err(|_| nonsense())?;
    let into = own.slice(bytes.start as usize..bytes.end as usize);
    packet.copy_part_to(PieceHeader::BYTES, len, &into);
    pair.shared_bytes += len as u64;
    if offer.is_received() {
        pair.offers.note_received(offer);
    }
    pair.transfers.patience = Patience::Fresh;
    pair.transfers.is_alone = false;
    Ok(())
}

/// Claims parts of the shared transfers, as many as one step copies.
fn take(pair: &mut Pair) -> Result<Parts, InvalidClaims> {
    let mut parts = Parts::new();
    let mut room = BATCH;
    let mut written = 0;
    let both_ways = copies_both_ways(pair);
    if both_ways && let Some(choice) = &mut pair.piece_choice {
        choice.spoil();
    }
    let waits_for_pieces = !both_ways && !pair.transfers.patience.is_over();
    let takes_little = !both_ways && !pair.transfers.is_alone;
    // While the helper is active, its halves are left to it as long as there is something else.
    let ways: &[From] = match (both_ways, pair.transfers.helped) {
        (true, _) => &[From::All],
        (false, true) => &[From::OwnHalf, From::Anywhere],
        (false, false) => &[From::Anywhere],
    };
    for &from in ways {
        for (at, active) in pair.transfers.queue.iter_mut().enumerate().take(WINDOW) {
            let Some(offer) = &mut active.offer else {
                continue;
            };
            if active.failed.is_some() {
                pair.offers.close(offer)?;
                continue;
            }
            if offer.in_pieces && waits_for_pieces {
                continue;
            }
            let most = match offer.in_pieces && takes_little {
                true => OWN_BYTES.min(room),
                false => room,
            };
            let bytes = pair.offers.claim(offer, most, from)?;
            if bytes.is_empty() {
                continue;
            }
            room = room.saturating_sub(bytes.end - bytes.start);
            written += usize::from(active.transfer.direction == Direction::Put);
            parts.push(Part { at, bytes });
            // Each key has a hazard word of its own. Otherwise the peer could not end an export of
            // memory that is completely written while the next batch is copied.
            if room < UNIT_BYTES || written == PairLayout::HAZARDS {
                return Ok(parts);
            }
        }
        if !parts.is_empty() {
            break;
        }
    }
    Ok(parts)
}

/// Settles the front transfer, if neither side copies parts of it any more.
pub(super) fn settle(pair: &mut Pair) {
    if let Err(error) = try_settle(pair) {
        report_invalid(pair, error);
    }
}

fn try_settle(pair: &mut Pair) -> Result<(), InvalidClaims> {
    let Some(active) = pair.transfers.queue.front_mut() else {
        return Ok(());
    };
    let Some(offer) = &mut active.offer else {
        return Ok(());
    };
    if !pair.offers.is_settled(offer)? {
        return Ok(());
    }
    pair.transfers.helped = pair.offers.helper_state(offer)?.any;
    let copied = pair.offers.free(offer)?;
    if !copied {
        active.left = active.transfer.local_bytes();
    }
    if offer.is_timed
        && let Some(choice) = &mut pair.piece_choice
    {
        let copied = copied && active.failed.is_none();
        choice.end(active.transfer.local_bytes(), copied);
    }
    active.offer = None;
    pair.offers.announce_open();
    Ok(())
}

/// The key under which a part is read or written, and the direction.
fn key_of(pair: &Pair, part: &Part) -> Option<(Direction, u64)> {
    let transfer = &pair.transfers.queue.get(part.at)?.transfer;
    Some((transfer.direction, transfer.remote.first()?.key))
}

/// Whether all parts are read by system calls.
fn are_read(pair: &Pair, parts: &[Part]) -> bool {
    let mut transfers = parts.iter().map(|part| pair.transfers.queue.get(part.at));
    transfers.all(|active| {
        active.is_some_and(|active| {
            active.mapped_remote.is_none() && active.transfer.direction == Direction::Get
        })
    })
}

/// Copies parts of several transfers.
fn copy_parts(pair: &mut Pair, parts: &[Part]) -> Result<(), InvalidClaims> {
    let keys = parts.iter().filter_map(|part| key_of(pair, part));
    let mut written: SmallVec<[u64; 1]> = keys
        .filter(|(direction, _)| *direction == Direction::Put)
        .map(|(_, key)| key)
        .collect();
    written.sort_unstable();
    written.dedup();
    if !written.is_empty() {
        pair.imports.announce(&written);
    }
    let bytes = parts.iter().map(|part| part.bytes.end - part.bytes.start);
    let bytes = bytes.sum::<u64>();
    pair.shared_bytes += bytes;
    let is_timed = bytes >= LARGE_BYTES as u64 && are_read(pair, parts);
    let start = match is_timed {
        true => pair.costs().begin(Copying::Read),
        false => None,
    };
    let refused = copy_announced(pair, parts);
    if let Some(start) = start {
        pair.costs().end(Copying::Read, start, bytes as usize);
    }
    if !written.is_empty() {
        pair.imports.release(&written);
    }
    let Some(reason) = refused else { return Ok(()) };
    pair.refuse_attach(reason);
    for active in &mut pair.transfers.queue {
        if let Some(offer) = &mut active.offer
            && active.mapped_remote.is_none()
        {
            pair.offers.redo(offer)?;
        }
    }
    Ok(())
}

/// Copies parts; those to be written have announced keys. Returns the reason if cross-memory attach
/// does not work.
fn copy_announced(pair: &mut Pair, parts: &[Part]) -> Option<String> {
    let mut failures: Vec<(usize, TransferError)> = Vec::new();
    let mut refused = None;
    for direction in [Direction::Get, Direction::Put] {
        let mut pieces = SmallVec::<[Piece<'_>; 1]>::new();
        let mut places = SmallVec::<[usize; 1]>::new();
        for part in parts {
            let Some(active) = pair.transfers.queue.get(part.at) else {
                continue;
            };
            if active.transfer.direction != direction {
                continue;
            }
            let Some(base) = checked_base(pair, active, &part.bytes) else {
                failures.push((part.at, TransferError::Protection));
                continue;
            };
            let Some(own) = active.transfer.local.first() else {
                continue;
            };
            let range = part.bytes.start as usize..part.bytes.end as usize;
            match &active.mapped_remote {
                Some(remote) => copy_mapped(direction, own, remote, range),
                None => {
                    places.push(part.at);
                    pieces.push(Piece { own, range, base });
                }
            }
        }
        if pieces.is_empty() {
            continue;
        }
        let Some(pid) = pair.attach.number() else {
            if let Attach::Usable(_) = pair.attach {
                refused = Some(CHANGED.to_owned());
            }
            continue;
        };
        match copying::attach_all(pid, direction, &pieces) {
            Ok(failed) => failures.extend(failed.into_iter().map(|(at, e)| (places[at], e))),
            Err(PieceError::Refused(reason)) => refused = Some(reason),
            Err(PieceError::Transfer(error)) => {
                failures.extend(places.iter().map(|&at| (at, error.clone())));
            }
        }
    }
    for part in parts {
        // If an export has ended, that is the error to report, before all others.
        if let Some((Direction::Get, key)) = key_of(pair, part)
            && !pair.imports.is_open(key)
            && let Some(active) = pair.transfers.queue.get_mut(part.at)
        {
            active.failed.get_or_insert(TransferError::Protection);
        }
    }
    for (at, error) in failures {
        if let Some(active) = pair.transfers.queue.get_mut(at) {
            active.failed.get_or_insert(error);
        }
    }
    refused
}

/// The address of a part in the peer, if its key permits the access now.
fn checked_base(pair: &Pair, active: &Active, bytes: &Range<u64>) -> Option<u64> {
    let region = active.transfer.remote.first()?;
    let permission = pair.imports.check(region.key, region.base, region.len)?;
    permission
        .allows(active.transfer.direction)
        .then(|| region.base.wrapping_add(bytes.start))
}

/// Copies a part between our memory and the peer's mapped memory.
fn copy_mapped(direction: Direction, own: &Memory, remote: &Memory, range: Range<usize>) {
    let (local, remote) = (own.slice(range.clone()), remote.slice(range));
    let (to, from) = match direction {
        Direction::Get => (&local, &remote),
        Direction::Put => (&remote, &local),
    };
    copying::copy_mapped(to, from, own.len() as u64);
}

/// Copies a piece of the front transfer, which is not shared and whose remote memory is mapped here.
pub(super) fn mapped_step(pair: &mut Pair) -> Step {
    let Some(active) = pair.transfers.queue.front() else {
        return Step::Wait;
    };
    let whole: u64 = active.transfer.remote.iter().map(|region| region.len).sum();
    let start = whole - active.left;
    let part = Part {
        at: 0,
        bytes: start..start + active.left.min(MAX_PIECE as u64),
    };
    if let Err(error) = copy_parts(pair, std::slice::from_ref(&part)) {
        return report_invalid(pair, error);
    }
    if let Some(active) = pair.transfers.queue.front_mut() {
        active.left -= part.bytes.end - part.bytes.start;
    }
    Step::Again
}
