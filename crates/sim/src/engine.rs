//! Virtual time and the queue of all events.
//!
//! Time is a whole number of picoseconds: a cycle of any real clock is many of them, 2⁶⁴ of them are
//! seven months, and nothing rounds differently on another machine. Events are returned in the order of time,
//! and those of one time in the order in which they were added, so that a run depends on nothing but its
//! input.
//!
//! The queue is a heap with four children for each node: half as deep as a binary one, and the four keys that
//! are compared on the way down lie next to each other, in two cache lines. The place of the event that was returned last
//! stays empty until the next call: most events cause another one, which then takes that place, so that the heap is put in order
//! once instead of twice.
//!
//! While only a few events are pending, as with one node, they are kept in order beside the heap.

/// A moment or a span of virtual time, in picoseconds.
pub type Time = u64;

/// One nanosecond.
pub const NANOSECOND: Time = 1_000;
/// One microsecond.
pub const MICROSECOND: Time = 1_000 * NANOSECOND;
/// One millisecond.
pub const MILLISECOND: Time = 1_000 * MICROSECOND;
/// One second.
pub const SECOND: Time = 1_000 * MILLISECOND;

/// How many children each place in the heap has.
const WIDTH: usize = 4;

#[derive(Clone, Copy)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E: Copy> Entry<E> {
    /// Both parts of the order as one number, so that one comparison decides.
    fn key(&self) -> u128 {
        u128::from(self.at) << 64 | u128::from(self.sequence)
    }

    /// An entry that comes after all others: it fills places without one.
    fn none(event: E) -> Self {
        Self {
            at: Time::MAX,
            sequence: u64::MAX,
            event,
        }
    }
}

/// The children of one place.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group<E>([Entry<E>; WIDTH]);

impl<E: Copy> Group<E> {
    /// The least key and its place. Which one it is cannot be predicted: pairs are compared, so that the processor need not.
    #[inline]
    fn least(&self) -> (u128, usize) {
        let [a, b, c, d] = self.0.each_ref().map(Entry::key);
        let before = if b < a { (b, 1) } else { (a, 0) };
        let after = if d < c { (d, 3) } else { (c, 2) };
        if after.0 < before.0 { after } else { before }
    }
}

/// How many events are kept in order at most.
const FEW: usize = 8;
/// How many pending events are taken out of the heap again: less, so that this happens rarely.
const FEW_AGAIN: usize = 3;

/// A few entries, which stay where they are: their order is a number with a byte for each, so that none is ever copied.
struct Few<E> {
    entries: Vec<Entry<E>>,
    /// The places of entries, the next one in the lowest byte.
    order: u64,
    len: usize,
    /// Places without an entry, as bits.
    free: u64,
}

impl<E: Copy> Few<E> {
    fn new() -> Self {
        Self {
            entries: Vec::with_capacity(FEW),
            order: 0,
            len: 0,
            free: (1 << FEW) - 1,
        }
    }

    fn first(&self) -> Option<&Entry<E>> {
        match self.len {
            0 => None,
            _ => self.entries.get((self.order & 0xff) as usize),
        }
    }

    /// Adds an entry, which was made after all others; there must be room.
    #[inline]
    fn insert(&mut self, at: Time, sequence: u64, event: E) {
        let place = self.free.trailing_zeros() as usize;
        self.free &= self.free - 1;
        let entry = Entry {
            at,
            sequence,
            event,
        };
        match self.entries.get_mut(place) {
            Some(empty) => *empty = entry,
            None => self.entries.push(entry),
        }
        let (mut before, mut rest) = (0, self.order);
        while before < self.len && self.entries[(rest & 0xff) as usize].at <= at {
            before += 1;
            rest >>= 8;
        }
        let below = (1_u64 << (8 * before)) - 1;
        self.order = self.order & below | (place as u64 | rest << 8) << (8 * before);
        self.len += 1;
    }

    /// Takes out the first entry; there must be one.
    #[inline]
    fn remove_first(&mut self) {
        self.free |= 1 << (self.order & 0xff);
        self.order >>= 8;
        self.len -= 1;
    }
}

/// The queue of future events, and the present.
pub struct Engine<E> {
    /// All pending events, while the heap is empty.
    few: Few<E>,
    /// The children of place *n* are group *n + 1*; the first group has the root, at its end.
    groups: Vec<Group<E>>,
    /// The number of places in use.
    len: usize,
    /// The first place is empty: its event was returned.
    has_hole: bool,
    now: Time,
    next_sequence: u64,
    handled: u64,
}

/// Where a place is: the group, and the entry in it.
#[inline]
fn position(place: usize) -> (usize, usize) {
    let shifted = place + (WIDTH - 1);
    (shifted / WIDTH, shifted % WIDTH)
}

impl<E: Copy> Default for Engine<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> Engine<E> {
    /// An engine at time 0 without events.
    pub fn new() -> Self {
        Self {
            few: Few::new(),
            groups: Vec::new(),
            len: 0,
            has_hole: false,
            now: 0,
            next_sequence: 0,
            handled: 0,
        }
    }

    /// The present: the time of the event that [`Self::next`] returned last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events were handled.
    pub fn handled(&self) -> u64 {
        self.handled
    }

    /// How many events are pending.
    pub fn pending(&self) -> usize {
        self.few.len + self.len - usize::from(self.has_hole)
    }

    /// Schedules `event` at `at`; a time in the past means now.
    pub fn at(&mut self, at: Time, event: E) {
        let (at, sequence) = (at.max(self.now), self.next_sequence);
        self.next_sequence += 1;
        if self.len == 0 && self.few.len < FEW {
            self.few.insert(at, sequence, event);
        } else if std::mem::take(&mut self.has_hole) {
            self.sink(at, sequence, event);
        } else {
            self.spill();
            self.rise(at, sequence, event);
        }
    }

    /// Moves the few events into the heap.
    fn spill(&mut self) {
        while let Some(&Entry {
            at,
            sequence,
            event,
        }) = self.few.first()
        {
            self.few.remove_first();
            self.rise(at, sequence, event);
        }
    }

    /// Schedules `event` for `after` from now.
    pub fn after(&mut self, after: Time, event: E) {
        self.at(self.now.saturating_add(after), event);
    }

    /// Returns the next event, whose time becomes the present; `None` when none is left.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<E> {
        self.next_by(Time::MAX)
    }

    /// Returns the next event, if it happens by `end`.
    #[inline(always)]
    pub fn next_by(&mut self, end: Time) -> Option<E> {
        self.fill_hole();
        let first = self.first().filter(|first| first.at <= end)?;
        let (at, event) = (first.at, first.event);
        match self.len {
            0 => self.few.remove_first(),
            _ => self.has_hole = true,
        }
        self.now = at;
        self.handled += 1;
        Some(event)
    }

    /// Advances to `at` without an event from the queue, if all pending events happen later; returns whether it did. It counts as an
    /// event that was scheduled for then, and was the next.
    #[inline]
    pub fn step_to(&mut self, at: Time) -> bool {
        let at = at.max(self.now);
        let is_first = match (self.has_hole, self.first()) {
            // The children of the empty place; places without an entry come after all times but the last.
            (true, _) => {
                let children = self.groups.get(1);
                children.is_none_or(|children| children.0.iter().all(|child| child.at > at))
            }
            (false, first) => first.is_none_or(|first| first.at > at),
        };
        if is_first {
            self.now = at;
            self.next_sequence += 1;
            self.handled += 1;
        }
        is_first
    }

    /// The time of the next event, and the event.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<(Time, E)> {
        self.fill_hole();
        self.first().map(|first| (first.at, first.event))
    }

    /// The next entry; the heap must not have a hole.
    #[inline]
    fn first(&self) -> Option<&Entry<E>> {
        if self.len == 0 {
            return self.few.first();
        }
        let (group, entry) = position(0);
        Some(&self.groups.get(group)?.0[entry])
    }

    /// Puts the last entry into the first place, if that is empty. A heap that has become small is emptied.
    #[inline(always)]
    fn fill_hole(&mut self) {
        if std::mem::take(&mut self.has_hole) {
            self.close_hole();
        }
    }

    fn close_hole(&mut self) {
        self.remove_hole();
        if self.len > FEW_AGAIN {
            return;
        }
        while self.len > 0
            && let Some(&Entry {
                at,
                sequence,
                event,
            }) = self.first()
        {
            self.few.insert(at, sequence, event);
            self.remove_hole();
        }
    }

    /// Replaces the first entry by the last, which is moved down to its place.
    fn remove_hole(&mut self) {
        self.len -= 1;
        let (group, entry) = position(self.len);
        let last = &mut self.groups[group].0[entry];
        let (at, sequence, event) = (last.at, last.sequence, last.event);
        (last.at, last.sequence) = (Time::MAX, u64::MAX);
        if self.len > 0 {
            self.sink(at, sequence, event);
        }
    }

    /// Adds an entry at the end, and moves it up to its place. (The fields are passed separately, in registers: an entry that has just
    /// been written field by field and is read as a whole makes the processor wait until all of it is in the cache.)
    #[inline]
    fn rise(&mut self, at: Time, sequence: u64, event: E) {
        let entry = Entry {
            at,
            sequence,
            event,
        };
        let key = entry.key();
        let mut hole = self.len;
        self.len += 1;
        if position(hole).0 == self.groups.len() {
            self.groups.push(Group([Entry::none(event); WIDTH]));
        }
        let groups = self.groups.as_mut_slice();
        while hole > 0 {
            let parent = (hole - 1) / WIDTH;
            let (group, place) = position(parent);
            if groups[group].0[place].key() <= key {
                break;
            }
            let above = groups[group].0[place];
            let (group, place) = position(hole);
            groups[group].0[place] = above;
            hole = parent;
        }
        let (group, place) = position(hole);
        groups[group].0[place] = entry;
    }

    /// Replaces the first entry by another, which is moved down to its place.
    #[inline]
    fn sink(&mut self, time: Time, sequence: u64, event: E) {
        let entry = Entry {
            at: time,
            sequence,
            event,
        };
        let groups = self.groups.as_mut_slice();
        let key = entry.key();
        // The number of the hole, and its position.
        let (mut hole, mut at) = (0, position(0));
        while hole * WIDTH + 1 < self.len
            && let Some(children) = groups.get(hole + 1)
        {
            let (least, place) = children.least();
            if key <= least {
                break;
            }
            let child = children.0[place];
            groups[at.0].0[at.1] = child;
            at = (hole + 1, place);
            hole = hole * WIDTH + 1 + place;
        }
        groups[at.0].0[at.1] = entry;
    }
}

/// A time in microseconds, for results.
pub(crate) fn microseconds(time: Time) -> f64 {
    time as f64 / MICROSECOND as f64
}

/// How long `count` things take at `per_second` of them in each second, rounded up.
///
/// `per_second` is never 0 in a checked profile; if it were, the result would be the end of time.
pub fn duration_at(count: u64, per_second: u64) -> Time {
    // For up to 18 million things: a division of 64 bits is several times as fast as one of 128.
    if let (Some(picoseconds), 1..) = (count.checked_mul(SECOND), per_second) {
        return picoseconds.div_ceil(per_second);
    }
    let picoseconds = u128::from(count) * u128::from(SECOND);
    picoseconds
        .checked_div(u128::from(per_second))
        .map_or(Time::MAX, |whole| {
            let rest = u128::from(!picoseconds.is_multiple_of(u128::from(per_second)));
            Time::try_from(whole + rest).unwrap_or(Time::MAX)
        })
}

/// Times of transfers at a fixed rate. The last count is remembered with its time: most transfers are bursts of one length.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    per_second: u64,
    last: (u64, Time),
}

impl Rate {
    /// A rate of this many things per second.
    pub fn new(per_second: u64) -> Self {
        Self {
            per_second,
            last: (0, duration_at(0, per_second)),
        }
    }

    /// The same as [`duration_at`].
    #[inline]
    pub fn duration(&mut self, count: u64) -> Time {
        if self.last.0 != count {
            self.last = (count, duration_at(count, self.per_second));
        }
        self.last.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_happen_by_time_and_then_in_the_order_of_their_going_in() {
        let mut engine = Engine::new();
        let mut random = causeway_wire::random::SplitMix64::new(1);
        let mut put = Vec::new();
        for number in 0..2_000_u64 {
            let at = random.below(256);
            engine.at(at, number);
            put.push((at, number));
        }
        put.sort();
        let mut got = Vec::new();
        while let Some(number) = engine.next() {
            got.push((engine.now(), number));
        }
        assert_eq!(got, put);
        assert_eq!(engine.handled(), 2_000);
    }

    /// Around the number up to which events are kept in order beside the heap, growing and shrinking.
    #[test]
    fn few_events_and_many_have_the_same_order() {
        let mut random = causeway_wire::random::SplitMix64::new(3);
        let mut engine = Engine::new();
        let mut pending = std::collections::BTreeSet::new();
        let mut most = 0;
        for number in 0..20_000_u64 {
            let wanted = 1 + number / 100 % 14;
            while (pending.len() as u64) < wanted {
                let at = engine.now() + random.below(6);
                let key = (at, number * 100 + pending.len() as u64);
                engine.at(at, key.1);
                assert!(pending.insert(key));
            }
            most = most.max(engine.pending());
            assert_eq!(engine.pending(), pending.len());
            for _ in 0..1 + random.below(3) {
                let event = engine.next();
                let wanted = pending.pop_first();
                assert_eq!(event, wanted.map(|wanted| wanted.1));
                assert!(wanted.is_none_or(|wanted| wanted.0 == engine.now()));
            }
        }
        assert!(most > FEW);
    }

    #[test]
    fn events_put_in_on_the_way_keep_the_order() {
        let mut engine = Engine::new();
        engine.at(10, 0_u32);
        let mut trail = Vec::new();
        while let Some(event) = engine.next() {
            trail.push((engine.now(), event));
            if event < 6 {
                engine.after(5, event + 10);
                engine.after(5, event + 1);
            }
        }
        assert!(trail.is_sorted_by_key(|&(at, _)| at));
        assert_eq!(trail[1..3], [(15, 10), (15, 1)]);
        assert_eq!(trail.len(), 13);
    }

    /// An event that is the next anyway may be handled without the queue: nothing differs.
    #[test]
    fn steps_are_what_scheduled_events_would_have_been() {
        let mut random = causeway_wire::random::SplitMix64::new(7);
        let (mut queued, mut stepped) = (Engine::new(), Engine::new());
        let (mut steps, mut others) = (0, 0);
        for round in 0..4_000_u64 {
            // Few events and many, so that the heap is used and is not.
            while queued.pending() as u64 <= round / 50 % 20 {
                let (after, number) = (random.below(64), random.below(1_000));
                queued.after(after, number);
                stepped.after(after, number);
            }
            assert_eq!(stepped.next(), queued.next());
            assert_eq!(stepped.now(), queued.now());
            let (at, own) = (queued.now() + random.below(8), 1_000 + round);
            queued.at(at, own);
            if stepped.step_to(at) {
                steps += 1;
                assert_eq!(queued.next(), Some(own));
                assert_eq!(stepped.now(), queued.now());
            } else {
                others += 1;
                stepped.at(at, own);
            }
            assert_eq!(stepped.handled(), queued.handled());
            assert_eq!(stepped.pending(), queued.pending());
        }
        assert!(steps > 200 && others > 200, "{steps} and {others}");
    }

    #[test]
    fn what_should_have_been_happens_now() {
        let mut engine = Engine::new();
        engine.at(100, 'a');
        assert_eq!(engine.next(), Some('a'));
        engine.at(3, 'b');
        assert_eq!((engine.next(), engine.now()), (Some('b'), 100));
        assert_eq!(engine.next(), None);
    }

    #[test]
    fn durations_round_up() {
        assert_eq!(duration_at(1, 66_000_000), 15_152);
        assert_eq!(duration_at(4_096, 160_000_000), 25_600 * NANOSECOND);
        assert_eq!(duration_at(1, 0), Time::MAX);
        // On both sides of what fits into 64 bits.
        for count in [18_446_744, 18_446_745, 1 << 40] {
            let exact = (u128::from(count) * u128::from(SECOND)).div_ceil(66_000_000);
            assert_eq!(u128::from(duration_at(count, 66_000_000)), exact);
        }
    }

    #[test]
    fn a_rate_forgets_what_it_was_asked_before() {
        for per_second in [0, 66_000_000] {
            let mut rate = Rate::new(per_second);
            for count in [0, 64, 64, 4_096, 64, 0] {
                assert_eq!(rate.duration(count), duration_at(count, per_second));
            }
        }
    }
}
