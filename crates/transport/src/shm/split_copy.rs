//! Split copies: transfers that both sides copy. How the initiator shares them, and how the helper
//! copies its parts.
//!
//! The initiator describes a transfer of contiguous memory in a block of its page and claims parts
//! of it from the front ([`Offers`]); the helper, when it polls and has nothing else to do, claims
//! parts from the back ([`help`]). `claim` decides which side copies which part.
//!
//! How memory stays safe: the initiator accesses the helper's memory under its hazard words, as in
//! any transfer. The helper accesses the initiator's memory only between claiming a part and
//! counting it as finished; the initiator completes the transfer, or releases the memory after a
//! failure, only when all claimed parts are finished, or the helper has died. If the connection
//! ends first, memory that the helper may be writing goes to `quarantine` ([`revoke`]). The helper
//! copies inside one poll, so its own export cannot end meanwhile.
//!
//! The initiator cannot see whether a helper has really copied what it counts as finished. So only
//! processes of its own user may help: a false count shows such a process nothing of the earlier
//! contents of the memory that it could not read anyway.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use causeway_sys::mapping::Mapping;
use causeway_sys::memory::Memory;
use causeway_wire::region::ObjectSpan;
use causeway_wire::shm::split_copy::{self, BLOCKS, PUT, PieceHeader, THROUGH_RING, UNIT_BYTES};
use causeway_wire::shm::{PairLayout, SlotKind};
use smallvec::SmallVec;

use super::claim::{self, From, HelperState, Initiated, InvalidClaims, Share};
use super::copying::{self, Piece};
use super::memory::HeadAndBody;
use super::pair::{Attach, Pair, Stage};
use super::pieces;
use super::quarantine::DeferredFree;
use super::transfer::MAX_PIECE;
use crate::method::Direction;

/// The initiator's description of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Description {
    /// The direction from the initiator's view.
    pub(super) direction: Direction,
    /// The helper's region.
    pub(super) key: u64,
    /// The address of the first byte in the helper.
    pub(super) helper_address: u64,
    /// The address of the first byte in the initiator.
    pub(super) initiator_address: u64,
    /// Length in bytes.
    pub(super) len: u64,
    /// The span of the initiator's memory in one of its objects.
    pub(super) object: Option<ObjectSpan>,
    /// The helper sends its parts as pieces. Not for a put.
    pub(super) in_pieces: bool,
}

/// How many units a transfer of `len` bytes has; `None` if there are too many.
fn units_of(len: u64) -> Option<u32> {
    u32::try_from(len.div_ceil(UNIT_BYTES)).ok()
}

/// The bytes of `units` of a transfer of `len` bytes.
fn bytes_of(units: &Range<u32>, len: u64) -> Range<u64> {
    let end = (u64::from(units.end) * UNIT_BYTES).min(len);
    (u64::from(units.start) * UNIT_BYTES).min(end)..end
}

/// How many whole units fit into `bytes`.
fn units_in(bytes: u64) -> u32 {
    u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX)
}

/// The page of the transfers that `side` has initiated.
#[derive(Clone)]
struct Page {
    mapping: Arc<Mapping>,
    layout: PairLayout,
    side: usize,
}

impl Page {
    fn head(&self, offset: usize) -> &AtomicU64 {
        self.mapping
            .word(self.layout.split_copies(self.side) + offset)
    }

    fn word(&self, block: usize, offset: usize) -> &AtomicU64 {
        let at = self.layout.split_copy_block(self.side, block);
        self.mapping.word(at + offset)
    }

    fn share(&self, block: usize) -> Share<'_, AtomicU64> {
        Share {
            claims: self.word(block, split_copy::CLAIMS),
            done: self.word(block, split_copy::DONE),
        }
    }

    fn describe(&self, block: usize, description: &Description) {
        let put = match description.direction {
            Direction::Get => 0,
            Direction::Put => PUT,
        };
        let through_ring = if description.in_pieces {
            THROUGH_RING
        } else {
            0
        };
        let span = description.object.unwrap_or(ObjectSpan {
            object: 0,
            offset: 0,
        });
        let words = [
            (split_copy::KEY, description.key),
            (split_copy::FAR, description.helper_address),
            (split_copy::NEAR, description.initiator_address),
            (split_copy::LEN, description.len | put | through_ring),
            (split_copy::OBJECT, span.object),
            (split_copy::OFFSET, span.offset),
        ];
        for (offset, value) in words {
            self.word(block, offset).store(value, Relaxed);
        }
    }

    fn description(&self, block: usize) -> Description {
        let word = |offset| self.word(block, offset).load(Relaxed);
        let (len, object) = (word(split_copy::LEN), word(split_copy::OBJECT));
        Description {
            direction: if len & PUT == 0 {
                Direction::Get
            } else {
                Direction::Put
            },
            key: word(split_copy::KEY),
            helper_address: word(split_copy::FAR),
            initiator_address: word(split_copy::NEAR),
            len: len & !(PUT | THROUGH_RING),
            in_pieces: len & THROUGH_RING != 0 && len & PUT == 0,
            object: (object != 0).then(|| ObjectSpan {
                object,
                offset: word(split_copy::OFFSET),
            }),
        }
    }
}

/// The initiator's side.
pub(super) struct Offers {
    page: Page,
    /// Blocks that hold a transfer.
    used: u64,
    /// Blocks that may have something left to claim.
    open: u64,
    /// The blocks last announced to the helper.
    announced: u64,
    next: usize,
}

/// A shared transfer.
#[derive(Debug)]
pub(super) struct Offer {
    block: usize,
    len: u64,
    initiated: Initiated,
    pub(super) in_pieces: bool,
    /// It is one of the transfers by which [`pieces::PieceChoice`] are compared.
    pub(super) is_timed: bool,
    /// It has to be copied again, by the initiator alone.
    again: bool,
}

impl Offers {
    /// A page without shared transfers of `side`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, side: usize) -> Self {
        Self {
            page: Page {
                mapping: Arc::clone(mapping),
                layout,
                side,
            },
            used: 0,
            open: 0,
            announced: 0,
            next: 0,
        }
    }

    /// Whether another transfer can be shared.
    pub(super) fn has_room(&self) -> bool {
        self.used.count_ones() < BLOCKS as u32
    }

    /// Shares a transfer; `None` if too many are shared, or it is too long.
    pub(super) fn open(&mut self, description: &Description) -> Option<Offer> {
        let units = units_of(description.len)?;
        // In turn, so that the helper finds them in the order in which they were started.
        let mut blocks = (self.next..BLOCKS).chain(0..self.next);
        let block = blocks.find(|block| self.used & 1 << block == 0)?;
        self.next = (block + 1) % BLOCKS;
        self.page.describe(block, description);
        let initiated = self.page.share(block).open(units);
        self.used |= 1 << block;
        self.open |= 1 << block;
        Some(Offer {
            block,
            len: description.len,
            initiated,
            in_pieces: description.in_pieces,
            is_timed: false,
            again: false,
        })
    }

    /// Announces to the helper which blocks to read, if that has changed.
    pub(super) fn announce_open(&mut self) {
        if self.open != self.announced {
            self.announced = self.open;
            self.page.head(split_copy::OPEN).store(self.open, Release);
        }
    }

    /// Claims a part of at most `most` bytes; empty if there is none.
    pub(super) fn claim(
        &mut self,
        offer: &mut Offer,
        most: u64,
        from: From,
    ) -> Result<Range<u64>, InvalidClaims> {
        let share = self.page.share(offer.block);
        let units = share.claim_front(&mut offer.initiated, units_in(most), from)?;
        self.note_claimed(offer);
        Ok(bytes_of(&units, offer.len))
    }

    fn note_claimed(&mut self, offer: &Offer) {
        if offer.initiated.is_all_claimed() {
            self.open &= !(1 << offer.block);
        }
    }

    /// Whether something is left to claim. Invalid words are found when a part is claimed.
    pub(super) fn has_left(&mut self, offer: &mut Offer) -> bool {
        let looked = self.page.share(offer.block).refresh(&mut offer.initiated);
        self.note_claimed(offer);
        looked.is_err() || !offer.initiated.is_all_claimed()
    }

    /// Notes that all of a transfer has arrived: the helper has nothing more to copy there.
    pub(super) fn note_received(&mut self, offer: &mut Offer) {
        if !self.has_left(offer) {
            self.announce_open();
        }
    }

    /// Claims the rest, so that neither side copies more of it.
    pub(super) fn close(&mut self, offer: &mut Offer) -> Result<(), InvalidClaims> {
        self.page.share(offer.block).close(&mut offer.initiated)?;
        self.note_claimed(offer);
        Ok(())
    }

    /// Has the transfer copied again without help.
    pub(super) fn redo(&mut self, offer: &mut Offer) -> Result<(), InvalidClaims> {
        offer.again = true;
        self.close(offer)
    }

    /// The state of the helper's part.
    pub(super) fn helper_state(&self, offer: &Offer) -> Result<HelperState, InvalidClaims> {
        self.page.share(offer.block).helper_state(&offer.initiated)
    }

    /// The helper's word of finished units, to detect whether it changes.
    pub(super) fn done(&self, offer: &Offer) -> u64 {
        self.page.share(offer.block).done.load(Relaxed)
    }

    /// Whether all parts are claimed and the helper has finished its own.
    pub(super) fn is_settled(&mut self, offer: &mut Offer) -> Result<bool, InvalidClaims> {
        if offer.in_pieces && !offer.initiated.is_all_claimed() {
            // The helper may have claimed the last of them.
            self.page.share(offer.block).refresh(&mut offer.initiated)?;
            self.note_claimed(offer);
        }
        Ok(offer.initiated.is_all_claimed() && self.helper_state(offer)?.finished)
    }

    /// Frees a settled transfer's block; returns whether all was copied.
    pub(super) fn free(&mut self, offer: &Offer) -> Result<bool, InvalidClaims> {
        let failed = self.helper_state(offer)?.failed;
        self.used &= !(1 << offer.block);
        Ok(!failed && !offer.again)
    }

    /// Sets whether the helper should ring when it has finished a part.
    pub(super) fn want_ring(&self, wanted: bool) {
        self.page
            .head(split_copy::WANTS_RING)
            .store(wanted.into(), SeqCst);
    }
}

impl Offer {
    /// Whether this block holds such a transfer, whose helper sends pieces.
    pub(super) fn is_in_pieces(&self, block: u32) -> bool {
        self.in_pieces && self.block == block as usize
    }

    /// Notes that a piece of `len` bytes, from unit `first` on, has arrived. Returns its byte range
    /// within the transfer.
    pub(super) fn receive(&mut self, first: u32, len: u64) -> Result<Range<u64>, InvalidClaims> {
        let end = units_of(len).and_then(|units| first.checked_add(units));
        let units = first..end.ok_or(InvalidClaims)?;
        let bytes = bytes_of(&units, self.len);
        if bytes.end - bytes.start != len {
            return Err(InvalidClaims);
        }
        self.initiated.receive(&units)?;
        Ok(bytes)
    }

    /// Whether everything that this side has not claimed has arrived.
    pub(super) fn is_received(&self) -> bool {
        self.initiated.is_received()
    }

    /// How many bytes the initiator has claimed.
    #[cfg(test)]
    pub(super) fn claimed_by_initiator(&self) -> u64 {
        bytes_of(&self.initiated.claimed_front(), self.len).end
    }
}

/// The helper's side.
pub(super) struct Helper {
    page: Page,
    /// The block that was helped last.
    next: usize,
    /// How many more polls may find no room for a piece, see [`pieces::ROOM_POLLS`].
    pub(super) room_polls_left: u32,
}

impl Helper {
    /// The helper for the shared transfers of `owner`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, owner: usize) -> Self {
        Self {
            page: Page {
                mapping: Arc::clone(mapping),
                layout,
                side: owner,
            },
            next: 0,
            room_polls_left: pieces::ROOM_POLLS,
        }
    }

    /// Whether there may be something to copy.
    #[inline]
    pub(super) fn is_any_open(&self) -> bool {
        self.page.head(split_copy::OPEN).load(Relaxed) != 0
    }

    /// Blocks that may have something left, beginning with the one helped last.
    fn open(&self) -> impl Iterator<Item = usize> + use<> {
        let open = self.page.head(split_copy::OPEN).load(Acquire);
        let blocks = (self.next..BLOCKS).chain(0..self.next);
        blocks.filter(move |block| open & 1 << block != 0)
    }
}

/// The usual number of parts of one call: no allocation is needed for this many.
type Few<T> = SmallVec<[T; 4]>;

/// A part that the helper has claimed.
struct Taken {
    block: usize,
    units: u32,
    description: Description,
    bytes: Range<u64>,
    /// Whether it can be sent as a piece.
    is_piece: bool,
}

impl Taken {
    /// The helper's own memory, if it is exported with that access.
    fn own(&self, pair: &Pair) -> Option<Memory> {
        let Description {
            direction,
            key,
            helper_address,
            ..
        } = self.description;
        let base = helper_address.checked_add(self.bytes.start)?;
        let len = self.bytes.end - self.bytes.start;
        pair.exports.find(key, base, len, direction)
    }
}

/// Whether the helper can access the initiator's memory.
fn is_reachable(pair: &mut Pair, description: &Description) -> bool {
    matches!(pair.attach, Attach::Usable(_))
        || initiators_memory(pair, description, &(0..description.len)).is_some()
}

/// The initiator's memory, if it can be mapped.
fn initiators_memory(
    pair: &mut Pair,
    description: &Description,
    bytes: &Range<u64>,
) -> Option<Memory> {
    let span = description.object?;
    let offset = span.offset.checked_add(bytes.start)?;
    let base = description.initiator_address.checked_add(bytes.start)?;
    pair.find_object(ObjectSpan { offset, ..span }, base, bytes.end - bytes.start)
}

/// Copies a bounded part of the peer's shared transfers; returns whether there was something.
pub(super) fn help(pair: &mut Pair) -> bool {
    if pair.stage != Stage::Up || pair.failing.is_some() || !pair.helper.is_any_open() {
        return false;
    }
    let mut any = false;
    for _ in 0..pieces::BURST {
        let taken = take(pair);
        if taken.is_empty() {
            break;
        }
        any = true;
        let bytes = taken.iter().map(|part| part.bytes.end - part.bytes.start);
        pair.shared_bytes += bytes.sum::<u64>();
        let is_piece = taken.iter().all(|part| part.is_piece);
        copy_taken(pair, taken);
        if !is_piece {
            break;
        }
    }
    if !any {
        return false;
    }
    fence(SeqCst);
    if claim::must_ring(pair.helper.page.head(split_copy::WANTS_RING)) {
        pair.ring_peer();
    }
    true
}

/// Whether [`help`] would find something to do before a sleep.
pub(super) fn can_help(pair: &mut Pair) -> bool {
    if pair.stage != Stage::Up || pair.failing.is_some() || !pair.exports.is_any() {
        return false;
    }
    let mut blocks = pair.helper.open();
    let has_left = blocks.any(|block| {
        let page = &pair.helper.page;
        let description = page.description(block);
        let countable = units_of(description.len).is_some();
        countable && page.share(block).has_unclaimed() && is_reachable(pair, &description)
    });
    if has_left {
        // Before a sleep it no longer waits for room.
        pair.helper.room_polls_left = 0;
    }
    has_left
}

/// The next step for a transfer that may be sent in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A piece is sent.
    Send,
    /// The helper waits for room.
    Wait,
    /// It has waited long enough: a part is written into the initiator's memory.
    Write,
}

impl Pair {
    fn next_piece(&mut self) -> Next {
        // This side's own packets come first.
        if !self.blocked && has_room_for_piece(self, pieces::room_bytes(self.layout)) {
            self.helper.room_polls_left = pieces::ROOM_POLLS;
            Next::Send
        } else if self.helper.room_polls_left > 0 {
            self.helper.room_polls_left -= 1;
            Next::Wait
        } else {
            Next::Write
        }
    }
}

/// Claims parts of the peer's transfers.
fn take(pair: &mut Pair) -> Few<Taken> {
    let mut taken = Few::new();
    let mut room = MAX_PIECE as u64;
    let mut piece = None;
    for from in [From::OwnHalf, From::Anywhere] {
        for block in pair.helper.open() {
            let before = pair.helper.page.description(block);
            let Some(units) = units_of(before.len) else {
                continue;
            };
            if room < UNIT_BYTES || !is_reachable(pair, &before) {
                continue;
            }
            if !pair.helper.page.share(block).has_unclaimed() {
                continue;
            }
            let mut is_piece = false;
            let mut most = room;
            if before.in_pieces {
                let piece = *piece.get_or_insert_with(|| pair.next_piece());
                if piece == Next::Wait {
                    continue;
                }
                is_piece = piece == Next::Send;
                most = pieces::piece_bytes(pair.layout).min(room);
            }
            let share = pair.helper.page.share(block);
            let Some(units) = share.claim_back(units, units_in(most), from) else {
                continue;
            };
            // The block may have been reused before the claim, but not after it.
            let description = pair.helper.page.description(block);
            let bytes = bytes_of(&units, description.len);
            room = room.saturating_sub(bytes.end - bytes.start);
            pair.helper.next = block;
            is_piece &= description.in_pieces;
            taken.push(Taken {
                block,
                units: units.end - units.start,
                description,
                bytes,
                is_piece,
            });
            if from == From::Anywhere || is_piece {
                return taken;
            }
        }
        if !taken.is_empty() {
            break;
        }
    }
    taken
}

/// Copies the parts and counts them as finished.
fn copy_taken(pair: &mut Pair, taken: Few<Taken>) {
    let mut rest: Few<(&Taken, Memory)> = Few::new();
    for part in &taken {
        let Some(own) = part.own(pair) else {
            finish(pair, part, false);
            continue;
        };
        // A shorter piece may need more room, before it.
        if part.is_piece && has_room_for_piece(pair, own.len() as u64) {
            pair.helper.page.share(part.block).count_piece(part.units);
            let first = (part.bytes.start / UNIT_BYTES) as u32;
            send_piece(pair, part.block, first, &own);
            continue;
        }
        match initiators_memory(pair, &part.description, &part.bytes) {
            Some(initiators) => {
                let (to, from) = match part.description.direction {
                    Direction::Get => (&initiators, &own),
                    Direction::Put => (&own, &initiators),
                };
                copying::copy_mapped(to, from, part.description.len);
                finish(pair, part, true);
            }
            None => rest.push((part, own)),
        }
    }
    if rest.is_empty() {
        return;
    }
    let Some(pid) = pair.attach.number() else {
        for (part, _) in rest {
            finish(pair, part, false);
        }
        return;
    };
    for direction in [Direction::Get, Direction::Put] {
        let same: Few<&(&Taken, Memory)> = rest
            .iter()
            .filter(|(part, _)| part.description.direction == direction)
            .collect();
        let pieces: Few<Piece<'_>> = same
            .iter()
            .map(|(part, own)| Piece {
                own,
                range: 0..own.len(),
                base: part
                    .description
                    .initiator_address
                    .wrapping_add(part.bytes.start),
            })
            .collect();
        let ours = match direction {
            Direction::Get => Direction::Put,
            Direction::Put => Direction::Get,
        };
        // The initiator handles and reports parts that could not be copied.
        let failures = copying::attach_all(pid, ours, &pieces);
        for (at, (part, _)) in same.into_iter().enumerate() {
            let copied = matches!(&failures, Ok(failures) if failures.iter().all(|f| f.0 != at));
            finish(pair, part, copied);
        }
    }
}

/// Sends `own`, the helper's memory of the part of a transfer that begins at unit `first`, through
/// the ring, which has room for it ([`has_room_for_piece`]).
fn send_piece(pair: &mut Pair, block: usize, first: u32, own: &Memory) {
    let block = block as u32;
    let header = PieceHeader { block, first }.pack();
    let packet = HeadAndBody(&header, std::slice::from_ref(own));
    pair.publish(SlotKind::Piece, &packet, header.len() + own.len());
}

/// Whether there is room for a piece of `len` bytes.
fn has_room_for_piece(pair: &mut Pair, len: u64) -> bool {
    pair.producer
        .has_room_now(PieceHeader::BYTES + len as usize)
}

fn finish(pair: &Pair, part: &Taken, copied: bool) {
    let share = pair.helper.page.share(part.block);
    share.finish_back(part.units, copied);
}

/// Ends the peer's access to the memory of our shared transfers. Returns the memory that it may be
/// writing at this moment. Memory that it may be reading needs no care: it copies into memory whose
/// owner is notified that the connection has ended, not that the transfer is done.
pub(super) fn revoke(pair: &mut Pair) -> Vec<DeferredFree> {
    let mut held = Vec::new();
    for active in &mut pair.transfers.queue {
        let Some(mut offer) = active.offer.take() else {
            continue;
        };
        // An error does not matter any more: the connection is ending.
        let _ = pair.offers.close(&mut offer);
        let page = pair.offers.page.clone();
        let is_touched = move || page.share(offer.block).is_touched(&offer.initiated);
        if active.transfer.direction == Direction::Get && is_touched() {
            held.push(DeferredFree::new(
                None,
                active.transfer.local.to_vec(),
                is_touched,
            ));
        }
    }
    held
}
