//! Detecting doorbells: by polling each (§4.2.3), or from a queue that the hardware keeps (§4.3.8).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::settings::Doorbells;
use crate::setup::Side;

/// The doorbells that one processor serves.
#[derive(Debug)]
pub(crate) enum Bells {
    Polled(Polled),
    Queued(VecDeque<(u32, Side)>),
}

/// Doorbells that are polled in a fixed order: two per virtual interface, send before receive. Most are silent.
#[derive(Debug)]
pub(crate) struct Polled {
    /// Which doorbells are served.
    declared: Vec<u64>,
    /// How many doorbells are declared before each word of `declared`.
    before: Vec<u32>,
    /// Which doorbells are rung.
    rung: Vec<u64>,
    count: u32,
    /// The next doorbell to be polled is the first served one from here on, and how many are served before it.
    cursor: usize,
    passed: u32,
}

/// How many words are looked at one by one before all are searched.
const NEAR: usize = 6;

fn place(vi: u32, side: Side) -> usize {
    vi as usize * 2 + usize::from(side == Side::Receive)
}

fn owner(place: usize) -> (u32, Side) {
    let side = if place.is_multiple_of(2) {
        Side::Send
    } else {
        Side::Receive
    };
    ((place / 2) as u32, side)
}

impl Bells {
    /// Doorbells of this many virtual interfaces, which can be rung `limit` times in all before they are
    /// noticed.
    pub(crate) fn new(kind: Doorbells, vis: usize, limit: usize) -> Self {
        match kind {
            Doorbells::Queued => Self::Queued(VecDeque::with_capacity(limit)),
            Doorbells::Polled => Self::Polled(Polled {
                declared: vec![0; (vis * 2).div_ceil(64)],
                before: vec![0; (vis * 2).div_ceil(64)],
                rung: vec![0; (vis * 2).div_ceil(64)],
                count: 0,
                cursor: 0,
                passed: 0,
            }),
        }
    }

    /// Begins to serve a doorbell.
    pub(crate) fn declare(&mut self, vi: u32, side: Side) {
        if let Self::Polled(polled) = self {
            let at = place(vi, side);
            let is_served = polled.declared[at / 64] & 1 << (at % 64) != 0;
            assert!(!is_served, "doorbell {at} is served twice");
            polled.declared[at / 64] |= 1 << (at % 64);
            polled.count += 1;
            for before in &mut polled.before[at / 64 + 1..] {
                *before += 1;
            }
            polled.passed += u32::from(at < polled.cursor);
        }
    }

    /// Stops serving a doorbell, and silences it.
    pub(crate) fn withdraw(&mut self, vi: u32, side: Side) {
        if let Self::Polled(polled) = self {
            let at = place(vi, side);
            polled.declared[at / 64] &= !(1 << (at % 64));
            polled.rung[at / 64] &= !(1 << (at % 64));
            polled.count -= 1;
            for before in &mut polled.before[at / 64 + 1..] {
                *before -= 1;
            }
            polled.passed -= u32::from(at < polled.cursor);
        }
    }

    pub(crate) fn ring(&mut self, vi: u32, side: Side) {
        match self {
            Self::Queued(queue) => queue.push_back((vi, side)),
            Self::Polled(polled) => {
                let at = place(vi, side);
                polled.rung[at / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Consumes one ring of a doorbell: it stays rung if it was rung more often than it was
    /// noticed.
    pub(crate) fn noticed(&mut self, vi: u32, side: Side, still_rung: bool) {
        if let Self::Polled(polled) = self
            && !still_rung
        {
            let at = place(vi, side);
            polled.rung[at / 64] &= !(1 << (at % 64));
        }
    }
}

impl Polled {
    /// How many doorbells are served before this place.
    fn rank(&self, place: usize) -> u32 {
        let below = (1_u64 << (place % 64)) - 1;
        self.before[place / 64] + (self.declared[place / 64] & below).count_ones()
    }

    /// The place of the served doorbell that has this many before it; there must be more than that.
    fn place_of(&self, rank: u32) -> usize {
        // Mostly it is in the cursor's word or one of the next ones.
        let cursor = self.cursor / 64;
        let from = match self.before[cursor] <= rank {
            true => cursor,
            false => 0,
        };
        let not_after = |before: &&u32| **before <= rank;
        let near = self.before[from..].iter().take(NEAR).take_while(not_after);
        let near = near.count();
        let word = match near {
            NEAR => self.before.partition_point(|before| *before <= rank) - 1,
            _ => from + near - 1,
        };
        word * 64 + nth_bit(self.declared[word], rank - self.before[word])
    }

    /// The first rung doorbell from the cursor on, wrapping round.
    fn next_rung(&self) -> Option<usize> {
        let (first, from) = (self.cursor / 64, u64::MAX << (self.cursor % 64));
        let place = |word: usize, rung: u64| word * 64 + rung.trailing_zeros() as usize;
        let here = self.rung[first];
        if here & from != 0 {
            return Some(place(first, here & from));
        }
        let others = (first + 1..self.rung.len()).chain(0..first);
        let found = others.into_iter().find(|word| self.rung[*word] != 0);
        match found {
            Some(word) => Some(place(word, self.rung[word])),
            None => (here != 0).then(|| place(first, here)),
        }
    }

    /// The next doorbell that is rung: in the cursor's word or the next one, as others are not looked for.
    pub(crate) fn rung_ahead(&self) -> Option<(u32, Side)> {
        let first = self.cursor / 64;
        let from = u64::MAX << (self.cursor % 64);
        let here = self.rung.get(first)? & from;
        if here != 0 {
            return Some(owner(first * 64 + here.trailing_zeros() as usize));
        }
        let next = *self.rung.get(first + 1)?;
        (next != 0).then(|| owner((first + 1) * 64 + next.trailing_zeros() as usize))
    }

    /// How many silent doorbells come before the next rung one; `None` if none is rung.
    pub(crate) fn ahead(&self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let rank = self.rank(self.next_rung()?);
        Some(match rank.checked_sub(self.passed) {
            Some(silent) => silent,
            None => rank + self.count - self.passed,
        })
    }

    /// Advances the cursor by this many doorbells.
    pub(crate) fn skip(&mut self, polls: u32) {
        if self.count > 0 {
            let polls = match polls < self.count {
                true => polls,
                false => polls % self.count,
            };
            let rank = self.passed + polls;
            self.passed = match rank < self.count {
                true => rank,
                false => rank - self.count,
            };
            self.cursor = self.place_of(self.passed);
        }
    }

    /// Polls one doorbell; returns its virtual interface and side if it is rung.
    pub(crate) fn poll(&mut self) -> Option<(u32, Side)> {
        if self.count > 0 && self.declared[self.cursor / 64] >> (self.cursor % 64) & 1 == 0 {
            self.skip(0);
        }
        let at = self.cursor;
        let rung = self
            .rung
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1);
        self.cursor = at + 1;
        self.passed += u32::from(self.count > 0);
        if self.cursor == self.rung.len() * 64 {
            (self.cursor, self.passed) = (0, 0);
        }
        rung.then(|| owner(at))
    }

    /// Whether no doorbell is served.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The position of the bit of `word` that has `rank` set bits below it; more than that must be set.
/// The byte is found by counting all bytes' bits at once, as not every target processor has an
/// instruction that counts bits.
fn nth_bit(word: u64, rank: u32) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let bytes = (fours + (fours >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    // For each byte: the number of set bits in it and all bytes below, 64 at most.
    let sums = bytes.wrapping_mul(ONES);
    let not_above = (((u64::from(rank) * ONES) | TOPS) - sums) & TOPS;
    let shift = ((not_above >> 7).wrapping_mul(ONES) >> 56) * 8;
    let below = (sums << 8) >> shift & 0xff;
    let mut left = word >> shift;
    for _ in below..u64::from(rank) {
        left &= left - 1;
    }
    shift as usize + left.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(vis: &[u32]) -> Bells {
        let mut bells = Bells::new(Doorbells::Polled, 300, 300);
        for &vi in vis {
            bells.declare(vi, Side::Send);
        }
        bells
    }

    fn polled(bells: &mut Bells) -> &mut Polled {
        match bells {
            Bells::Polled(polled) => polled,
            Bells::Queued(_) => panic!("made to be polled"),
        }
    }

    #[test]
    fn the_nth_bit_has_so_many_below_it() {
        for word in [
            1,
            1 << 63,
            u64::MAX,
            0x5555_5555_5555_5555,
            0x8100_0000_ff01_0080,
        ] {
            for rank in 0..word.count_ones() {
                let at = nth_bit(word, rank);
                assert_eq!(word >> at & 1, 1, "{word:x} {rank}");
                assert_eq!((word & ((1 << at) - 1)).count_ones(), rank, "{word:x}");
            }
        }
    }

    /// For all interfaces and rung doorbells, polling one after the other finds the doorbells that were reported ahead.
    #[test]
    fn reading_ahead_finds_the_same_doorbells_as_polling_one_by_one() {
        let mut random = causeway_wire::random::SplitMix64::new(1);
        let mut number = |below| random.below(below);
        for _ in 0..300 {
            let sparse = 1 + number(40);
            let vis: Vec<u32> = (0..300).filter(|_| number(sparse) == 0).collect();
            let mut bells = with(&vis);
            let Some(&vi) = vis.get(number(1 + vis.len() as u64) as usize) else {
                assert_eq!(polled(&mut bells).ahead(), None);
                continue;
            };
            let mut leaping = with(&vis);
            for bells in [&mut bells, &mut leaping] {
                polled(bells).cursor = place(vis[0], Side::Send);
                bells.ring(vi, Side::Send);
            }
            let steps = number(1_000) as u32;
            polled(&mut leaping).skip(steps);
            for _ in 0..steps {
                polled(&mut bells).poll();
            }
            let ahead = polled(&mut bells).ahead();
            assert_eq!(ahead, polled(&mut leaping).ahead());
            let silent = core::iter::from_fn(|| Some(polled(&mut bells).poll()));
            let silent = silent.take_while(Option::is_none).count();
            assert_eq!(ahead, Some(silent as u32));
            let ahead = silent as u32;
            polled(&mut leaping).skip(ahead);
            assert_eq!(polled(&mut leaping).poll(), Some((vi, Side::Send)));
        }
    }

    #[test]
    fn polls_skip_interfaces_that_do_not_exist() {
        let mut bells = with(&[0, 3, 70, 299]);
        assert_eq!(polled(&mut bells).ahead(), None);
        bells.ring(70, Side::Send);
        let polled = polled(&mut bells);
        assert_eq!(polled.ahead(), Some(2));
        assert_eq!(polled.poll(), None);
        assert_eq!(polled.poll(), None);
        assert_eq!(polled.ahead(), Some(0));
        assert_eq!(polled.poll(), Some((70, Side::Send)));
        assert_eq!(polled.ahead(), Some(3), "it stays rung until it is noticed");
        bells.noticed(70, Side::Send, false);
        assert_eq!(self::polled(&mut bells).ahead(), None);
    }

    #[test]
    fn many_polls_at_once_are_many_polls() {
        let all: Vec<u32> = (0..300).filter(|vi| vi % 3 != 1).collect();
        for polls in [0, 1, 63, 64, 65, 199, 200, 201, 1000] {
            let (mut one, mut many) = (with(&all), with(&all));
            for _ in 0..polls {
                assert_eq!(polled(&mut one).poll(), None);
            }
            polled(&mut many).skip(polls);
            for bells in [&mut one, &mut many] {
                bells.ring(150, Side::Send);
            }
            assert_eq!(
                polled(&mut one).ahead(),
                polled(&mut many).ahead(),
                "{polls}"
            );
        }
    }
}
