//! Transfers in progress: lists of fragments, moved piece by piece, one completion for each list.

use std::collections::VecDeque;
use std::ops::Range;

use causeway_sys::attach::{LocalSpans, MAX_SPANS, RemoteSpans};
use causeway_sys::memory::Memory;
use causeway_sys::patience::Patience;
use causeway_wire::region::RegionDescriptor;
use causeway_wire::shm::SlotKind;

use super::copying::{PieceError, copy};
use super::pair::{Attach, CHANGED, Pair, Stage};
use super::split_copy::Offer;
use super::split_initiator;
use crate::error::{PeerError, TransferError};
use crate::fragments::Cursor;
use crate::method::{Direction, Peer, Sink, Transfer};

/// Most bytes that one step copies.
pub(super) const MAX_PIECE: usize = 512 << 10;

/// Most bytes that a caller writes at once. A helper would make the copy shorter, but the writer
/// has to see that the helper is done before it notifies the peer, which is the helper: one more
/// transfer of a cache line. Measured: where both sides' buffers are in their caches and are not
/// changed, writing alone takes less time up to 64 KiB and more; where both sides read every byte,
/// 4 % more at 32 KiB and 20 % more at 48 KiB.
const MOST_WRITTEN_NOW: u64 = 32 << 10;

/// Transfers that may be in progress with one peer.
const MAX_TRANSFERS: usize = 4096;

/// The transfers of one pair, in the order in which they were started.
#[derive(Default)]
pub(super) struct Transfers {
    pub(super) queue: VecDeque<Active>,
    next_id: u64,
    /// A transfer was refused for lack of room.
    caller_waits: bool,
    /// The pair has had atomics requested by this side ([`super::atomics`]): here, as every poll
    /// reads this struct anyway.
    pub(super) has_atomics: bool,
    /// Whether the pair is in the list of those to be stepped.
    pub(super) listed: bool,
    /// Whether the pair is in the list of those that wait for the helper.
    pub(super) watched: bool,
    /// The peer has taken part in the last shared transfer.
    pub(super) helped: bool,
    /// How long to wait for the peer's pieces, see [`super::pieces::PATIENCE`].
    pub(super) patience: Patience,
    /// No piece has arrived since this process has copied a part itself.
    pub(super) is_alone: bool,
}

/// One transfer in progress.
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) transfer: Transfer,
    pub(super) local: Cursor,
    pub(super) remote: Cursor,
    /// Bytes not yet copied, or not yet requested.
    pub(super) left: u64,
    /// Pieces that were requested from the peer, without a reply yet.
    pub(super) outstanding: usize,
    pub(super) failed: Option<TransferError>,
    /// Whether it was decided if the next two are possible and pay.
    pub(super) considered: bool,
    /// The remote memory, where it is mapped here.
    pub(super) mapped_remote: Option<Memory>,
    /// The state of the split copy, if it is shared with the peer; nothing is `left` then.
    pub(super) offer: Option<Offer>,
}

/// Whether a pair's transfers have something to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Call again.
    Again,
    /// Not before the peer has replied or made room, or another transfer is started.
    Wait,
    /// Not before the peer has finished its part of a shared transfer, which it does not announce
    /// while this process is awake.
    Watch,
}

impl Transfers {
    /// Adds a transfer; `false` if there are too many.
    pub(super) fn start(&mut self, transfer: Transfer) -> bool {
        if self.queue.len() >= MAX_TRANSFERS {
            self.caller_waits = true;
            return false;
        }
        self.next_id += 1;
        self.queue.push_back(Active {
            id: self.next_id,
            left: transfer.local_bytes(),
            failed: transfer.mistake(),
            transfer,
            local: Cursor::default(),
            remote: Cursor::default(),
            outstanding: 0,
            considered: false,
            mapped_remote: None,
            offer: None,
        });
        true
    }

    /// Removes the front and reports its result to the sink.
    fn complete(&mut self, peer: Peer, result: Result<(), TransferError>, sink: &mut dyn Sink) {
        if let Some(active) = self.queue.pop_front() {
            sink.transfer_done(peer, active.transfer.token, result);
        }
        if self.caller_waits && self.queue.len() <= MAX_TRANSFERS / 2 {
            self.caller_waits = false;
            sink.writable(peer);
        }
    }

    /// Completes everything with an error: the peer is gone. Exports that had ended by then had
    /// ended because the peer went.
    pub(super) fn fail_all(&mut self, peer: Peer, cause: &PeerError, sink: &mut dyn Sink) {
        self.caller_waits = false;
        while let Some(active) = self.queue.pop_front() {
            let error = active
                .failed
                .filter(|error| *error != TransferError::Protection)
                .unwrap_or_else(|| TransferError::Peer(cause.clone()));
            sink.transfer_done(peer, active.transfer.token, Err(error));
        }
    }
}

impl Active {
    /// Whether the transfer only has yet to be reported.
    fn is_finished(&self) -> bool {
        self.outstanding == 0 && self.offer.is_none() && (self.left == 0 || self.failed.is_some())
    }

    /// Moves both positions on by `bytes`.
    fn advance(&mut self, bytes: u64) {
        self.local.skip(&self.transfer.local, bytes);
        self.remote.skip(&self.transfer.remote, bytes);
        self.left -= bytes;
    }
}

/// Most transfers that one step completes.
const COMPLETIONS: usize = 16;

/// Carries out a bounded part of the pair's transfers.
pub(super) fn step(pair: &mut Pair, peer: Peer, sink: &mut dyn Sink) -> Step {
    if pair.stage != Stage::Up {
        return Step::Wait;
    }
    for _ in 0..COMPLETIONS {
        split_initiator::settle(pair);
        match pair.transfers.queue.front() {
            None => return Step::Wait,
            Some(front) if !front.is_finished() => break,
            Some(_) => {}
        }
        if finish_front(pair, peer, sink) == Step::Wait {
            return Step::Wait;
        }
    }
    split_initiator::consider(pair);
    let Some(front) = pair.transfers.queue.front() else {
        return Step::Wait;
    };
    if front.offer.is_some() {
        return split_initiator::step(pair);
    }
    if front.is_finished() {
        return Step::Again;
    }
    if front.mapped_remote.is_some() {
        return split_initiator::mapped_step(pair);
    }
    match (&pair.attach, pair.attach.number()) {
        (_, Some(pid)) => attach_step(pair, pid),
        (Attach::Usable(_), None) => pair.refuse_attach(CHANGED.to_owned()),
        (Attach::Refused(_), None) => return super::bulk::request_pieces(pair),
    }
    let front = pair.transfers.queue.front();
    if front.is_some_and(Active::is_finished) {
        // The peer waits for the completion, and so does the caller.
        return finish_front(pair, peer, sink);
    }
    Step::Again
}

fn finish_front(pair: &mut Pair, peer: Peer, sink: &mut dyn Sink) -> Step {
    let failed = pair.transfers.queue.front().map(|active| &active.failed);
    if failed == Some(&Some(TransferError::Protection)) && has_left(pair) {
        // The end of the peer is the error to report, and is on its way.
        return Step::Wait;
    }
    let Some(active) = pair.transfers.queue.front_mut() else {
        return Step::Wait;
    };
    if let Some(error) = active.failed.take() {
        pair.transfers.complete(peer, Err(error), sink);
    } else if let Some(notify) = active.transfer.notify.take() {
        if !pair.publish(SlotKind::Packet, &notify[..], notify.len()) {
            if let Some(active) = pair.transfers.queue.front_mut() {
                active.transfer.notify = Some(notify);
            }
            return Step::Wait;
        }
        pair.transfers.complete(peer, Ok(()), sink);
    } else {
        pair.transfers.complete(peer, Ok(()), sink);
    }
    again_if(!pair.transfers.queue.is_empty())
}

/// Whether the peer has closed its end.
fn has_left(pair: &Pair) -> bool {
    let socket = pair.socket.as_ref();
    socket.is_some_and(|socket| socket.is_hung_up())
}

pub(super) fn again_if(more: bool) -> Step {
    if more { Step::Again } else { Step::Wait }
}

/// Copies one piece of the front transfer by cross-memory attach.
fn attach_step(pair: &mut Pair, pid: i32) {
    let Some(active) = pair.transfers.queue.front_mut() else {
        return;
    };
    match attach_piece(&pair.imports, active, pid) {
        Ok(bytes) => active.advance(bytes),
        Err(PieceError::Transfer(error)) => active.failed = Some(error),
        Err(PieceError::Refused(reason)) => {
            pair.refuse_attach(reason);
        }
    }
}

fn attach_piece(
    imports: &super::regions::Imports,
    active: &Active,
    pid: i32,
) -> Result<u64, PieceError> {
    let mut local = LocalSpans::new();
    let (one, many);
    let (spans, keys): (&[_], Vec<u64>);
    if let ([near], [region]) = (&active.transfer.local[..], &active.transfer.remote[..]) {
        // The usual case, for which lists would take a noticeable part of a short copy.
        let start = region.len - active.left;
        let end = start + active.left.min(MAX_PIECE as u64);
        local.push(near, start as usize..end as usize);
        one = [(*region, start..end)];
        (spans, keys) = (&one, Vec::new());
    } else {
        many = spans_of(active, &mut local);
        let mut all: Vec<u64> = many.iter().map(|(region, _)| region.key).collect();
        all.sort_unstable();
        all.dedup();
        (spans, keys) = (&many, all);
    }
    let keys = match spans {
        [(region, _)] => std::slice::from_ref(&region.key),
        _ => &keys,
    };
    let direction = active.transfer.direction;
    if direction == Direction::Put {
        imports.announce(keys);
    }
    let result = check_spans(imports, direction, spans)
        .map_err(PieceError::Transfer)
        .and_then(|remote| copy(pid, direction, &local, &remote));
    match (direction, &result) {
        (Direction::Put, _) => imports.release(keys),
        (Direction::Get, Err(PieceError::Refused(_))) => {}
        (Direction::Get, _) => {
            if !keys.iter().all(|key| imports.is_open(*key)) {
                return Err(PieceError::Transfer(TransferError::Protection));
            }
        }
    }
    result
}

/// Carries out a short read at once, with nothing before it; see
/// [`Outlet::read_now`](crate::method::Outlet::read_now).
///
/// The peer's permission is checked only after the copy, which is enough: it is the peer's own
/// memory that was read, and the bytes count if the export had not ended by then. The table's line
/// is fetched meanwhile.
pub(super) fn read_now(
    pair: &mut Pair,
    near: &Memory,
    region: &RegionDescriptor,
    notify: &[u8],
) -> bool {
    let Some(pid) = copies_now(pair, near, region, split_initiator::LEAST_ALONE - 1) else {
        return false;
    };
    pair.imports.prefetch(region.key);
    let copied = copy_whole(pid, Direction::Get, near, region);
    let allowed = pair.imports.check(region.key, region.base, region.len);
    matches!(copied, Ok(bytes) if bytes == region.len)
        && allowed.is_some_and(|permission| permission.allows(Direction::Get))
        && pair.publish(SlotKind::Packet, notify, notify.len())
}

/// Carries out a short write at once, with nothing before it; see
/// [`Method::write_now`](crate::method::Method::write_now). The peer may end its export at any
/// moment: the key is announced first, and the peer's permission is checked after that.
pub(super) fn write_now(
    pair: &mut Pair,
    near: &Memory,
    region: &RegionDescriptor,
    notify: &[u8],
) -> bool {
    let Some(pid) = copies_now(pair, near, region, MOST_WRITTEN_NOW) else {
        return false;
    };
    let keys = std::slice::from_ref(&region.key);
    pair.imports.announce(keys);
    let allowed = pair.imports.check(region.key, region.base, region.len);
    let is_written = allowed.is_some_and(|permission| permission.allows(Direction::Put))
        && matches!(copy_whole(pid, Direction::Put, near, region), Ok(bytes) if bytes == region.len);
    pair.imports.release(keys);
    is_written && pair.publish(SlotKind::Packet, notify, notify.len())
}

/// Whether a region of at most `most` bytes can be copied at once, from or to the first bytes of
/// `near`: then returns the process whose memory to access.
fn copies_now(pair: &Pair, near: &Memory, region: &RegionDescriptor, most: u64) -> Option<i32> {
    let is_next = pair.stage == Stage::Up && pair.transfers.queue.is_empty();
    let is_short = region.len <= most && region.len <= near.len() as u64;
    // Memory in an object may be mapped here.
    let is_now = is_next && is_short && region.len > 0 && region.object.is_none();
    is_now.then(|| pair.attach.number()).flatten()
}

fn copy_whole(
    pid: i32,
    direction: Direction,
    near: &Memory,
    region: &RegionDescriptor,
) -> Result<u64, PieceError> {
    let mut local = LocalSpans::new();
    let mut remote = RemoteSpans::new();
    local.push(near, 0..region.len as usize);
    remote.push(region.base, region.len as usize);
    copy(pid, direction, &local, &remote)
}

/// The spans of both lists that one call can copy; the local ones are appended to `local`.
fn spans_of<'a>(
    active: &'a Active,
    local: &mut LocalSpans<'a>,
) -> Vec<(RegionDescriptor, Range<u64>)> {
    let Transfer {
        local: ours,
        remote: theirs,
        ..
    } = &active.transfer;
    // Either list may run out of spans first: the bytes that both cover are copied.
    let most = { active.local }
        .parts(ours, MAX_PIECE as u64)
        .take(MAX_SPANS)
        .map(|(_, range)| range.end - range.start)
        .sum();
    let spans: Vec<_> = { active.remote }
        .parts(theirs, most)
        .take(MAX_SPANS)
        .map(|(region, range)| (*region, range))
        .collect();
    let bytes = spans.iter().map(|(_, range)| range.end - range.start).sum();
    for (memory, range) in { active.local }.parts(ours, bytes) {
        local.push(memory, range.start as usize..range.end as usize);
    }
    spans
}

fn check_spans(
    imports: &super::regions::Imports,
    direction: Direction,
    spans: &[(RegionDescriptor, Range<u64>)],
) -> Result<RemoteSpans, TransferError> {
    let mut remote = RemoteSpans::new();
    for (region, range) in spans {
        let allowed = imports
            .check(region.key, region.base, region.len)
            .is_some_and(|permission| permission.allows(direction));
        if !allowed {
            return Err(TransferError::Protection);
        }
        // `check` has verified that the sum is inside the owner's region.
        remote.push(
            region.base + range.start,
            (range.end - range.start) as usize,
        );
    }
    Ok(remote)
}
