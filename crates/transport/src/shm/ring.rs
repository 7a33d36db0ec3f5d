//! The queue from one process to another: a ring of cache lines.
//!
//! A packet occupies consecutive slots. Its first word ([`SlotWord`]) is in the same line as its
//! first 56 bytes, and is written last, so that a small packet costs one line's transfer and the
//! receiver polls one word: there is no index to read. The sender keeps the first word of the slot
//! *after* the last packet at 0, which is what the receiver finds when it has caught up. A packet
//! that does not fit before the end of the ring begins in slot 0, after a pad.
//!
//! The receiver publishes its consumer index only once per [`credit_interval`], or when the sender
//! requests it ([`RingMemory::wants_room`]); the sender keeps a copy of that index.
//!
//! A stream is fastest through all of a large ring: sender and receiver are far apart then, and do
//! not take each other's lines away. Request and reply are fastest where the same few lines are
//! used again and again. So the sender of replies wraps early, with a pad, and stays in the ring's
//! first slots ([`SHORT_WRAP`]).
//!
//! A receiver that has stopped polling sets [`RingMemory::notify`]; the sender then has to ring its
//! doorbell. The receiver sets the word, fences, and checks the ring once more; the sender
//! publishes, fences, and reads the word: one of them sees the other's store (`model.rs` checks
//! it).

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use causeway_sys::word::Word;
use causeway_wire::shm::{SlotKind, SlotWord, slots_of};

/// How many slots ahead the sender clears after a large packet of a stream, so that the next one
/// need not.
const CLEAR_AHEAD: u64 = 4;
/// The same for packets whose slots are prepared in batches: at least this many slots, and at least
/// those of two packets.
///
/// In a stream the receiver follows closely and reads these very lines, so that lines that are
/// cleared for each packet go back and forth. With one preparation for several packets, streams of
/// 64 bytes to 2 KiB are faster by 1.2 to 1.9.
const CLEAR_AHEAD_OF_BATCH: u64 = 8;
/// The largest packets whose slots are prepared in batches, in slots, where lines are fetched for
/// packets that follow. Where they are not, see [`BATCHED_SLOTS_UNFETCHED`]: lines that are cleared
/// and then written with non-temporal stores have to leave the caches first.
const BATCHED_SLOTS: u64 = 40;
/// The same where lines are not fetched.
const BATCHED_SLOTS_UNFETCHED: u64 = 17;
/// How many slots ahead the sender clears at least and at most after a reply: as many as the next
/// packet takes if it is like this one. While the receiver is busy with the reply it does not read
/// these lines, and writing the next packet there does not wait for them. (Measured: at this
/// moment, prefetching lines for writing is worse than doing nothing.)
const CLEAR_AHEAD_OF_REPLY: (u64, u64) = (20, 136);
/// How far behind a packet in a stream the sender prefetches lines for writing, as many as the
/// packet took: the receiver has read these a wrap of the ring ago, and fetching them back one
/// after the other, as the stores come to them, takes twice as long as all else that a packet of 8
/// bytes needs.
const WRITE_AHEAD: u64 = 12;
/// How many lines of a reply its sender prefetches as soon as the request has arrived. The other
/// side polls the first of them, and has the second of each pair with it: taking them away takes
/// about as long as making the reply. A line that is still on its way when the next has arrived
/// makes the header's line go back once more, so that to prefetch only the first is worse than to
/// prefetch none.
const REPLY_LINES: u64 = 4;
/// How many slots behind the head the receiver prefetches when packets queue up.
const QUEUE_AHEAD: u64 = 4;
/// How many of a packet's slots it prefetches before it reads the packet.
const PACKET_AHEAD: u64 = 32;
/// The sender of replies wraps before this slot: lower slots stay in both processors' own caches,
/// with what else the two do.
const SHORT_WRAP: u64 = 512;
/// The amount that one reply adds to a sender's count of recent replies, of which each packet
/// subtracts 1; and the maximum of the count.
const REPLY_WEIGHT: (u32, u32) = (4, 16);

/// After how many consumed slots the receiver returns credit, at slot `at` of `slots`. In the first
/// slots, a wrap of the sender needs room for all slots that it skips, so it needs credit for its
/// last packets.
#[inline]
fn credit_interval(at: u64, slots: u64) -> u64 {
    if at < SHORT_WRAP {
        (slots / 4).min(SHORT_WRAP / 2)
    } else {
        slots / 4
    }
}

/// Access to a ring's words, and hints about its cache lines.
pub(super) trait RingMemory {
    /// The type of the words.
    type Word: Word;
    /// The number of slots: a power of two.
    fn slots(&self) -> u64;
    /// The slot in which the very first packet begins.
    fn first(&self) -> u64;
    /// The first word of slot `slot`, which is below [`RingMemory::slots`].
    fn header(&self, slot: u64) -> &Self::Word;
    /// The consumer index: how many slots the receiver had consumed when it last returned credit.
    fn consumed(&self) -> &Self::Word;
    /// Not 0 while notification is enabled: the sender has to ring the receiver.
    fn notify(&self) -> &Self::Word;
    /// Not 0 if the sender waits for room.
    fn wants_room(&self) -> &Self::Word;
    /// Orders a publication before the reading of [`RingMemory::notify`].
    fn light_fence(&self);
    /// A full fence.
    fn full_fence(&self);
    /// A hint that the first line of `slot` is about to be read.
    fn prefetch(&self, slot: u64);
    /// A hint that the line of `slot` is about to be written.
    fn prefetch_to_write(&self, slot: u64);
    /// A hint that the other side is about to read the line of `slot`.
    fn demote(&self, slot: u64);
}

/// The result of sending a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is in the ring, which the receiver polls.
    Published,
    /// It is in the ring, and the receiver must be rung.
    MustRing,
    /// There was no room. The receiver will ring when there is.
    Full,
    /// The receiver claims to have consumed packets that were never sent.
    Corrupt,
}

/// The sending end.
pub(super) struct Producer<M> {
    memory: M,
    /// The first slot plus the number of slots filled so far; the next packet begins in this slot,
    /// whose first word is 0.
    tail: u64,
    /// Slots below this one are free.
    limit: u64,
    /// First words of the slots from `tail` up to below this one are 0.
    cleared: u64,
    /// Whether the other side is likely to be waiting for the next packet.
    owes_reply: bool,
    /// Rises with replies and falls with other packets; see [`REPLY_WEIGHT`].
    recent_replies: u32,
    /// Slots at the ring's start that are cleared for the first packet after the next wrap.
    wrap: Range<u64>,
    /// A packet that ends before this slot needs no preparation: its slots are free, the one after
    /// it is cleared, and no wrap comes before it.
    prepared_until: u64,
    /// No recent packet was a reply, and the next is none: small packets are written without
    /// further work, and the slots ahead are prepared for several of them together.
    is_stream: bool,
}

impl<M: RingMemory> Producer<M> {
    /// The sending end of a new (zeroed) ring.
    pub(super) fn new(memory: M) -> Self {
        Self {
            tail: memory.first(),
            limit: memory.first() + memory.slots(),
            cleared: memory.first() + memory.slots(),
            owes_reply: false,
            recent_replies: 0,
            wrap: 0..0,
            prepared_until: 0,
            is_stream: false,
            memory,
        }
    }

    /// The ring's memory.
    pub(super) fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The number of slots to skip before a packet of `len` bytes, and the number of slots that it
    /// takes.
    #[inline]
    fn placement(&self, len: usize) -> (u64, u64) {
        let (slots, need) = (self.memory.slots(), slots_of(len));
        let at = self.tail & (slots - 1);
        let end = at + need;
        let wraps =
            end > slots || end > SHORT_WRAP && at <= SHORT_WRAP && self.mostly_replies(need);
        (if wraps { slots - at } else { 0 }, need)
    }

    /// Whether packets of `need` slots are mostly replies, which stay in the first slots of the ring.
    fn mostly_replies(&self, need: u64) -> bool {
        self.recent_replies > REPLY_WEIGHT.0 && need <= SHORT_WRAP / 3
    }

    /// Sends a packet of `len` bytes, which `fill` writes to the bytes after the first word of the
    /// slot that is passed to it; they fit before the end of the ring. The caller has checked that
    /// the packet is not too large. `fetching`: whether to prefetch lines for a packet that follows
    /// in a stream, which some ways of writing packets do not need.
    #[inline]
    pub(super) fn send(
        &mut self,
        (kind, fetching): (SlotKind, bool),
        len: usize,
        fill: impl FnOnce(&M, u64),
    ) -> Sent {
        let mask = self.memory.slots() - 1;
        let need = slots_of(len);
        let mut slots = self.tail..self.tail + need;
        let is_prepared = slots.end < self.prepared_until;
        if !is_prepared {
            match self.claim(len) {
                Ok(claimed) => slots = claimed,
                Err(refused) => return refused,
            }
        }
        let Range { start, end } = slots;
        fill(&self.memory, start & mask);
        let word = SlotWord {
            kind,
            len: len as u32,
        };
        self.memory.header(start & mask).store(word.pack(), Release);
        if start != self.tail {
            let pad = SlotWord {
                kind: SlotKind::Pad,
                len: 0,
            };
            let header = self.memory.header(self.tail & mask);
            header.store(pad.pack(), Release);
        }
        self.tail = end;
        self.memory.light_fence();
        let notify = self.memory.notify().load(Relaxed);
        // The last packet for which slots are prepared prepares those of the next ones.
        if !(is_prepared && self.is_stream && end + need < self.prepared_until) {
            self.prepare(start..end, len, fetching);
        }
        match notify {
            0 => Sent::Published,
            _ => Sent::MustRing,
        }
    }

    /// Claims the slots of a packet of `len` bytes, with the word after them cleared.
    #[inline(never)]
    fn claim(&mut self, len: usize) -> Result<Range<u64>, Sent> {
        let mask = self.memory.slots() - 1;
        let (skip, need) = self.placement(len);
        let start = self.tail + skip;
        let end = start + need;
        if end >= self.limit {
            match self.make_room(end) {
                Sent::Published => {}
                other => return Err(other),
            }
        }
        if start == self.wrap.start && self.cleared < self.wrap.end {
            self.cleared = self.wrap.end;
        }
        if end >= self.cleared {
            self.memory.header(end & mask).store(0, Relaxed);
            self.cleared = end + 1;
        }
        Ok(start..end)
    }

    /// Prepares slots for the packets that follow one of `len` bytes, which was published in
    /// `sent`.
    #[inline(never)]
    fn prepare(&mut self, sent: Range<u64>, len: usize, fetching: bool) {
        let mask = self.memory.slots() - 1;
        let (end, need) = (sent.end, sent.end - sent.start);
        self.recent_replies = self.recent_replies.saturating_sub(1);
        let ahead;
        if std::mem::take(&mut self.owes_reply) {
            self.recent_replies = (self.recent_replies + REPLY_WEIGHT.0).min(REPLY_WEIGHT.1);
            // Moved to the shared cache, the lines are nearer for a receiver that waits for them.
            // In a stream of packets that would take them from the sender too early.
            for slot in sent {
                self.memory.demote(slot & mask);
            }
            ahead = (need + 2).clamp(CLEAR_AHEAD_OF_REPLY.0, CLEAR_AHEAD_OF_REPLY.1);
        } else {
            let largest = match fetching {
                true => BATCHED_SLOTS,
                false => BATCHED_SLOTS_UNFETCHED,
            };
            ahead = match need <= largest {
                true => CLEAR_AHEAD_OF_BATCH.max(2 * need),
                false => CLEAR_AHEAD,
            };
            let wanted = end + WRITE_AHEAD.max(ahead);
            let lines = need * (ahead / need).max(1);
            // Lines that the receiver may still have to read are not taken from it.
            if fetching && wanted + lines <= self.limit {
                for slot in wanted..wanted + lines {
                    self.memory.prefetch_to_write(slot & mask);
                }
            }
        }
        // After the packet is published: these lines are still in the receiver's cache, and
        // fetching them takes as long as the packet's own way there.
        let (skip, _) = self.placement(len);
        if skip == 0 {
            self.cleared = self.clear(self.cleared..end + ahead + 1);
        } else {
            let start = end + skip;
            self.wrap = start..self.clear(start..start + ahead);
        }
        self.is_stream = self.recent_replies == 0;
        let at = end & mask;
        let until_wrap = match at <= SHORT_WRAP && self.recent_replies > REPLY_WEIGHT.0 {
            true => SHORT_WRAP.min(self.memory.slots()),
            false => self.memory.slots(),
        };
        let wrap = end - at + until_wrap;
        self.prepared_until = self.cleared.min(self.limit).min(wrap + 1);
    }

    /// Clears the first words of `slots`, as far as they are free; returns the first that was not
    /// cleared.
    #[inline]
    fn clear(&self, slots: Range<u64>) -> u64 {
        let mask = self.memory.slots() - 1;
        let end = slots.end.min(self.limit).max(slots.start);
        for slot in slots.start..end {
            self.memory.header(slot & mask).store(0, Relaxed);
        }
        end
    }

    /// Notes that the other side has sent something: the next packet is likely to be the reply that
    /// it waits for.
    #[inline]
    pub(super) fn note_received(&mut self) {
        self.owes_reply = true;
        self.is_stream = false;
    }

    /// Whether nothing was sent since the other side has sent something.
    #[inline]
    pub(super) fn owes_reply(&self) -> bool {
        self.owes_reply
    }

    /// Called when a packet of `len` bytes has arrived alone. The reply is likely to be of the same
    /// size and to follow soon: by then the lines that it needs are here, or nearly so.
    #[inline]
    pub(super) fn prefetch_reply(&self, len: usize) {
        let mask = self.memory.slots() - 1;
        for slot in self.tail..self.tail + slots_of(len).min(REPLY_LINES) {
            self.memory.prefetch_to_write(slot & mask);
        }
    }

    /// Whether there is room for a packet of `len` bytes; if not, the receiver will ring when there
    /// is.
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        let (skip, need) = self.placement(len);
        let end = self.tail + skip + need;
        end < self.limit || self.make_room(end) == Sent::Published
    }

    /// Whether there is room for a packet of `len` bytes. The receiver is not asked to ring if not.
    pub(super) fn has_room_now(&mut self, len: usize) -> bool {
        let (skip, need) = self.placement(len);
        let end = self.tail + skip + need;
        if end >= self.limit && !self.refresh() {
            return false;
        }
        end < self.limit
    }

    /// Checks whether slots up to `end` are free: `Published` if they are.
    #[cold]
    fn make_room(&mut self, end: u64) -> Sent {
        if !self.refresh() {
            return Sent::Corrupt;
        }
        if end < self.limit {
            return Sent::Published;
        }
        let was_wanted = self.memory.wants_room().swap(1, Relaxed) != 0;
        self.memory.full_fence();
        if !self.refresh() {
            return Sent::Corrupt;
        }
        if end < self.limit {
            // A packet that was refused before may need more room than this one.
            if !was_wanted {
                self.memory.wants_room().swap(0, Relaxed);
            }
            return Sent::Published;
        }
        Sent::Full
    }

    /// Reads the receiver's consumer index; `false` if it is impossible.
    fn refresh(&mut self) -> bool {
        let consumed = self.memory.consumed().load(Acquire);
        let consumed = consumed.saturating_add(self.memory.first());
        let credited_before = self.limit - self.memory.slots();
        if !(credited_before..=self.tail).contains(&consumed) {
            return false;
        }
        self.limit = consumed + self.memory.slots();
        true
    }
}

/// The state of the head of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peeked {
    /// There is no packet.
    Empty,
    /// A packet.
    Packet {
        /// The slot in which it begins.
        slot: u64,
        /// Its kind.
        kind: SlotKind,
        /// Its length in bytes; it fits before the end of the ring.
        len: usize,
    },
    /// A word that no sender writes.
    Corrupt(u64),
}

/// Whether packets are likely to be queued after the one at the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// Hardly any.
    None,
    /// There are likely some.
    Begun,
    /// There are likely some, and this one came after several others.
    Continued,
}

/// The receiving end.
pub(super) struct Consumer<M> {
    memory: M,
    /// The first slot plus the number of slots consumed so far.
    head: u64,
    /// The consumer index that was last published.
    credited: u64,
    /// No credit is returned before this many slots are consumed.
    no_credit_before: u64,
    max_packet: usize,
}

impl<M: RingMemory> Consumer<M> {
    /// The receiving end of a fresh ring, for packets of at most `max_packet` bytes.
    pub(super) fn new(memory: M, max_packet: usize) -> Self {
        Self {
            head: memory.first(),
            credited: memory.first(),
            no_credit_before: 0,
            max_packet,
            memory,
        }
    }

    /// The ring's memory.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Whether there is something at the head.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        let mask = self.memory.slots() - 1;
        self.memory.header(self.head & mask).load(Acquire) != 0
    }

    /// Prefetches lines that will be read soon: the one after the packet of `len` bytes at the
    /// head, and more if packets queue up. Of those after short packets most were prefetched
    /// already.
    #[inline]
    pub(super) fn prefetch(&self, queue: Queue, len: usize) {
        let mask = self.memory.slots() - 1;
        let packet = slots_of(len).min(PACKET_AHEAD);
        if queue == Queue::Continued && packet == 1 {
            let last = self.head + QUEUE_AHEAD;
            self.memory.prefetch((last - 1) & mask);
            return self.memory.prefetch(last & mask);
        }
        let wanted = match queue {
            Queue::None => 1..packet.max(1) + 1,
            Queue::Begun | Queue::Continued => 1..packet.max(QUEUE_AHEAD) + 1,
        };
        for ahead in wanted {
            self.memory.prefetch((self.head + ahead) & mask);
        }
    }

    /// Returns what is at the head. Whatever the other process writes, this returns one of these
    /// results.
    #[inline]
    pub(super) fn peek(&mut self) -> Peeked {
        let slots = self.memory.slots();
        let slot = self.head & (slots - 1);
        let word = self.memory.header(slot).load(Acquire);
        if word == 0 {
            return Peeked::Empty;
        }
        if let Some(len) = SlotWord::len_of_packet(word)
            && len as usize <= self.max_packet
            && slot + slots_of(len as usize) <= slots
        {
            return Peeked::Packet {
                slot,
                kind: SlotKind::Packet,
                len: len as usize,
            };
        }
        self.peek_otherwise()
    }

    #[inline(never)]
    fn peek_otherwise(&mut self) -> Peeked {
        let slots = self.memory.slots();
        loop {
            let slot = self.head & (slots - 1);
            let word = self.memory.header(slot).load(Acquire);
            if word == 0 {
                return Peeked::Empty;
            }
            let Ok(SlotWord { kind, len }) = SlotWord::unpack(word) else {
                return Peeked::Corrupt(word);
            };
            let len = len as usize;
            match kind {
                // Slot 0 never holds a pad, so this happens once.
                SlotKind::Pad if slot > 0 => self.head += slots - slot,
                SlotKind::Packet | SlotKind::Internal | SlotKind::Piece
                    if len <= self.max_packet && slot + slots_of(len) <= slots =>
                {
                    return Peeked::Packet { slot, kind, len };
                }
                _ => return Peeked::Corrupt(word),
            }
        }
    }

    /// Consumes the packet of `len` bytes at the head. Returns whether the sender waits for the
    /// room and its doorbell must be rung.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) -> bool {
        self.head += slots_of(len);
        self.head >= self.no_credit_before && self.return_credit_if_due()
    }

    #[inline(never)]
    fn return_credit_if_due(&mut self) -> bool {
        let slots = self.memory.slots();
        let at = self.head & (slots - 1);
        let due_from = |at| self.credited + credit_interval(at, slots);
        if self.head >= due_from(at) {
            return self.return_credit();
        }
        // More often at the ring's start, whether it is reached before or after that.
        let next_start = self.head - at + slots;
        self.no_credit_before = due_from(at).min(next_start.max(due_from(0)));
        false
    }

    /// Called when the ring was found empty: a sender that waits gets credit for all slots. Returns
    /// the same as [`Consumer::consume`].
    #[inline]
    pub(super) fn found_empty(&mut self) -> bool {
        self.owes_credit() && self.return_credit()
    }

    /// Whether a sender waits for slots that are free.
    #[inline]
    pub(super) fn owes_credit(&self) -> bool {
        self.head != self.credited && self.memory.wants_room().load(Relaxed) != 0
    }

    /// Publishes the consumer index. Returns the same as [`Consumer::consume`].
    pub(super) fn return_credit(&mut self) -> bool {
        if self.head == self.credited {
            return false;
        }
        self.credited = self.head;
        self.no_credit_before = self.credited + credit_interval(0, self.memory.slots());
        let consumed = self.head - self.memory.first();
        self.memory.consumed().store(consumed, Release);
        self.memory.full_fence();
        self.memory.wants_room().load(Relaxed) != 0
            && self.memory.wants_room().swap(0, Relaxed) != 0
    }

    /// Has the sender ring from now on. The caller fences and calls [`Consumer::is_ready`] before
    /// it relies on that.
    pub(super) fn enable_notification(&self) {
        self.memory.notify().store(1, Relaxed);
    }

    /// Has the sender no longer ring: the ring is polled (again).
    pub(super) fn disable_notification(&self) {
        self.memory.notify().store(0, Relaxed);
    }
}
