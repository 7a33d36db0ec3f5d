//! Split copies: transfers that both sides copy. What the initiator shares of them, and how the helper helps.
//!
//! The initiator describes a transfer of contiguous memory in a block of its page and takes parts of it
//! from the front ([`Offers`]); the helper, when it polls and has nothing else to do, takes parts
//! from the back ([`help`]). `claim` says which side takes what.
//!
//! What keeps memory safe: the initiator touches the helper's memory under its hazard words, as in
//! any transfer. The helper touches the initiator's memory only between claiming a part and counting it as
//! finished; the initiator completes the transfer, or gives the memory back after a failure, only when all
//! that was claimed is finished, or the helper has died. If the connection ends first, memory that the
//! helper may be writing goes to `quarantine` ([`revoke`]). The helper copies inside one poll, so its own export
//! cannot end meanwhile.
//!
//! The initiator does not see what a helper has really copied. So only processes of its own user help it: a helper
//! that lies learns nothing of what was in the memory before that it could not read anyway.

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

/// What the initiator says about a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Description {
    /// Seen from the initiator.
    pub(super) direction: Direction,
    /// The helper's region.
    pub(super) key: u64,
    /// The helper's address of the first byte.
    pub(super) helper_address: u64,
    /// The initiator's address of the first byte.
    pub(super) initiator_address: u64,
    /// Bytes.
    pub(super) len: u64,
    /// Where the initiator's memory lies in an object of its.
    pub(super) object: Option<ObjectSpan>,
    /// The helper sends its parts as pieces. Not of a put.
    pub(super) in_pieces: bool,
}

/// How many units a transfer of `len` bytes has, if they can be counted.
fn units_of(len: u64) -> Option<u32> {
    u32::try_from(len.div_ceil(UNIT_BYTES)).ok()
}

/// The bytes of `units` of a transfer of `len` bytes.
fn bytes_of(units: &Range<u32>, len: u64) -> Range<u64> {
    let end = (u64::from(units.end) * UNIT_BYTES).min(len);
    (u64::from(units.start) * UNIT_BYTES).min(end)..end
}

/// As many units as fit into `bytes`.
fn units_in(bytes: u64) -> u32 {
    u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX)
}

/// The page of the transfers that `side` initiated.
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

/// The initiator's part.
pub(super) struct Offers {
    page: Page,
    /// Blocks that hold a transfer.
    used: u64,
    /// Blocks that may have something left to claim.
    open: u64,
    /// The blocks last announced to the helper.
    told: u64,
    next: usize,
}

/// A shared transfer.
#[derive(Debug)]
pub(super) struct Offer {
    block: usize,
    len: u64,
    initiated: Initiated,
    pub(super) in_pieces: bool,
    /// It is one of those by which [`pieces::Ways`] are compared.
    pub(super) is_timed: bool,
    /// It is to be done again, by the initiator alone.
    again: bool,
}

impl Offers {
    /// Nothing shared yet by `side`.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, side: usize) -> Self {
        Self {
            page: Page {
                mapping: Arc::clone(mapping),
                layout,
                side,
            },
            used: 0,
            open: 0,
            told: 0,
            next: 0,
        }
    }

    /// Whether another transfer can be shared.
    pub(super) fn has_room(&self) -> bool {
        self.used.count_ones() < BLOCKS as u32
    }

    /// Shares a transfer; `None` if too many are, or it is too long.
    pub(super) fn open(&mut self, description: &Description) -> Option<Offer> {
        let units = units_of(description.len)?;
        // In turn, so that the helper meets them in the order in which they were started.
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
    pub(super) fn tell_open(&mut self) {
        if self.open != self.told {
            self.told = self.open;
            self.page.head(split_copy::OPEN).store(self.open, Release);
        }
    }

    /// Takes a part of at most `most` bytes; empty if there is none.
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

    /// Whether something is left to claim. Words that say what no honest helper writes are found when it is claimed.
    pub(super) fn has_left(&mut self, offer: &mut Offer) -> bool {
        let looked = self.page.share(offer.block).refresh(&mut offer.initiated);
        self.note_claimed(offer);
        looked.is_err() || !offer.initiated.is_all_claimed()
    }

    /// All of a transfer has arrived: the helper has nothing more to look for there.
    pub(super) fn note_received(&mut self, offer: &mut Offer) {
        if !self.has_left(offer) {
            self.tell_open();
        }
    }

    /// Neither side takes anything of it any more.
    pub(super) fn close(&mut self, offer: &mut Offer) -> Result<(), InvalidClaims> {
        self.page.share(offer.block).close(&mut offer.initiated)?;
        self.note_claimed(offer);
        Ok(())
    }

    /// Has the transfer done again without help.
    pub(super) fn redo(&mut self, offer: &mut Offer) -> Result<(), InvalidClaims> {
        offer.again = true;
        self.close(offer)
    }

    /// How far the helper is.
    pub(super) fn helper_state(&self, offer: &Offer) -> Result<HelperState, InvalidClaims> {
        self.page.share(offer.block).helper_state(&offer.initiated)
    }

    /// What the helper says it has finished: of interest only if it changes.
    pub(super) fn done(&self, offer: &Offer) -> u64 {
        self.page.share(offer.block).done.load(Relaxed)
    }

    /// Whether all parts are taken and the helper has finished its.
    pub(super) fn is_settled(&mut self, offer: &mut Offer) -> Result<bool, InvalidClaims> {
        if offer.in_pieces && !offer.initiated.is_all_claimed() {
            // The helper may have taken the last of them.
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

    /// The helper shall ring when it has finished a part, or need not.
    pub(super) fn want_ring(&self, wanted: bool) {
        self.page
            .head(split_copy::WANTS_RING)
            .store(wanted.into(), SeqCst);
    }
}

impl Offer {
    /// Whether it is the transfer of this block, and its helper sends pieces.
    pub(super) fn is_in_pieces(&self, block: u32) -> bool {
        self.in_pieces && self.block == block as usize
    }

    /// A piece of `len` bytes, from unit `first` on, has arrived. Returns which bytes of the transfer they are.
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

    /// Whether all that this side has not claimed has arrived.
    pub(super) fn is_received(&self) -> bool {
        self.initiated.is_received()
    }
}

/// The helper's part.
pub(super) struct Helper {
    page: Page,
    /// Where the last help was.
    next: usize,
    /// Polls without room for a piece that are left, see [`pieces::ROOM_POLLS`].
    pub(super) looks: u32,
}

impl Helper {
    /// What `owner` shares.
    pub(super) fn new(mapping: &Arc<Mapping>, layout: PairLayout, owner: usize) -> Self {
        Self {
            page: Page {
                mapping: Arc::clone(mapping),
                layout,
                side: owner,
            },
            next: 0,
            looks: pieces::ROOM_POLLS,
        }
    }

    /// Whether there may be something to do.
    #[inline]
    pub(super) fn is_any_open(&self) -> bool {
        self.page.head(split_copy::OPEN).load(Relaxed) != 0
    }

    /// Blocks that may have something left, beginning where the last help was.
    fn open(&self) -> impl Iterator<Item = usize> + use<> {
        let open = self.page.head(split_copy::OPEN).load(Acquire);
        let blocks = (self.next..BLOCKS).chain(0..self.next);
        blocks.filter(move |block| open & 1 << block != 0)
    }
}

/// Usual number of parts of one help: nothing is allocated for so many.
type Few<T> = SmallVec<[T; 4]>;

/// A part that the helper has taken.
struct Taken {
    block: usize,
    units: u32,
    description: Description,
    bytes: Range<u64>,
    /// It can be a piece.
    is_piece: bool,
}

impl Taken {
    /// The helper's own memory, if it is exported for that.
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

/// Whether the helper has a way to the initiator's memory.
fn is_reachable(pair: &mut Pair, description: &Description) -> bool {
    matches!(pair.attach, Attach::Usable(_))
        || initiators_memory(pair, description, &(0..description.len)).is_some()
}

/// The initiator's memory, where it can be mapped.
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

/// Copies a bounded part of what the peer shares; returns whether there was something.
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
        // It is to sleep, and not to wait for room any longer.
        pair.helper.looks = 0;
    }
    has_left
}

/// The next step of a transfer that may arrive in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is sent.
    Send,
    /// It waits for room.
    Wait,
    /// It has waited long enough: it is written into the initiator's memory.
    Write,
}

impl Pair {
    fn next_piece(&mut self) -> Next {
        // This side's own packets come first.
        if !self.blocked && has_room_for_piece(self, pieces::room_bytes(self.layout)) {
            self.helper.looks = pieces::ROOM_POLLS;
            Next::Send
        } else if self.helper.looks > 0 {
            self.helper.looks -= 1;
            Next::Wait
        } else {
            Next::Write
        }
    }
}

/// Takes parts of the peer's transfers.
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
            // The block may have been used again before the claim, not after it.
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
        // A shorter piece may need more room, in front of it.
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
        // What could not be copied is the initiator's to deal with, and to tell.
        let failures = copying::attach_all(pid, ours, &pieces);
        for (at, (part, _)) in same.into_iter().enumerate() {
            let copied = matches!(&failures, Ok(failures) if failures.iter().all(|f| f.0 != at));
            finish(pair, part, copied);
        }
    }
}

/// Sends the helper's memory `own`, which is the part of a transfer from unit `first` on, through the ring, which has room for it
/// ([`has_room_for_piece`]).
fn send_piece(pair: &mut Pair, block: usize, first: u32, own: &Memory) {
    let block = block as u32;
    let header = PieceHeader { block, first }.pack();
    let packet = HeadAndBody(&header, std::slice::from_ref(own));
    pair.publish(SlotKind::Piece, &packet, header.len() + own.len());
}

/// Whether a piece of `len` bytes finds room.
fn has_room_for_piece(pair: &mut Pair, len: u64) -> bool {
    pair.producer
        .has_room_now(PieceHeader::BYTES + len as usize)
}

fn finish(pair: &Pair, part: &Taken, copied: bool) {
    let share = pair.helper.page.share(part.block);
    share.finish_back(part.units, copied);
}

/// Ends what the peer may do with the memory of our shared transfers. Returns what it may be writing
/// at this moment. What it may be reading is of no concern: it copies into memory whose owner hears
/// that the connection has ended, not that the transfer is done.
pub(super) fn revoke(pair: &mut Pair) -> Vec<DeferredFree> {
    let mut held = Vec::new();
    for active in &mut pair.transfers.queue {
        let Some(mut offer) = active.offer.take() else {
            continue;
        };
        // What an impostor has written there is of no interest any more.
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
