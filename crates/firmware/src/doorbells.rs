//! How the program notices doorbells: by polling each (§4.2.3), or from a queue that hardware
//! keeps (§4.3.8).

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

/// Doorbells in a fixed order, most of them silent: two per virtual interface, send before receive.
#[derive(Debug)]
pub(crate) struct Polled {
    /// Which exist.
    declared: Vec<u64>,
    /// Which are rung.
    rung: Vec<u64>,
    count: u32,
    /// The next to be polled is the first declared one from here on.
    cursor: usize,
}

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
    /// Doorbells of so many virtual interfaces, which can be rung `limit` times in all before they are
    /// noticed.
    pub(crate) fn new(kind: Doorbells, vis: usize, limit: usize) -> Self {
        match kind {
            Doorbells::Queued => Self::Queued(VecDeque::with_capacity(limit)),
            Doorbells::Polled => Self::Polled(Polled {
                declared: vec![0; (vis * 2).div_ceil(64)],
                rung: vec![0; (vis * 2).div_ceil(64)],
                count: 0,
                cursor: 0,
            }),
        }
    }

    /// Begins to serve a doorbell.
    pub(crate) fn declare(&mut self, vi: u32, side: Side) {
        if let Self::Polled(polled) = self {
            let at = place(vi, side);
            debug_assert!(polled.declared[at / 64] & 1 << (at % 64) == 0);
            polled.declared[at / 64] |= 1 << (at % 64);
            polled.count += 1;
        }
    }

    /// Serves it no more, and silences it.
    pub(crate) fn withdraw(&mut self, vi: u32, side: Side) {
        if let Self::Polled(polled) = self {
            let at = place(vi, side);
            polled.declared[at / 64] &= !(1 << (at % 64));
            polled.rung[at / 64] &= !(1 << (at % 64));
            polled.count -= 1;
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

    /// It was rung more often than it was noticed: leaves it rung, or silences it.
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
    /// Bits of `words` in cyclic order from bit `start`, in portions of at most a word.
    fn portions(words: &[u64], start: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let (word, bit) = (start / 64, start % 64);
        let high = u64::MAX << bit;
        let count = words.len();
        (0..=count).map(move |step| {
            let at = (word + step) % count.max(1);
            let mask = match step {
                0 => high,
                _ if step == count => !high,
                _ => u64::MAX,
            };
            (at, words[at] & mask)
        })
    }

    /// How many silent doorbells come before the next rung one, if one is.
    pub(crate) fn ahead(&self) -> Option<u32> {
        if self.count == 0 {
            return None;
        }
        let mut silent = 0;
        let rung = Self::portions(&self.rung, self.cursor);
        for ((_, declared), (_, rung)) in Self::portions(&self.declared, self.cursor).zip(rung) {
            if rung != 0 {
                let below = (1_u64 << rung.trailing_zeros()) - 1;
                return Some(silent + (declared & below).count_ones());
            }
            silent += declared.count_ones();
        }
        None
    }

    /// Goes on by so many doorbells.
    pub(crate) fn skip(&mut self, polls: u32) {
        if self.count == 0 {
            return;
        }
        let mut left = polls % self.count;
        let mut to = self.cursor;
        for (word, mut declared) in Self::portions(&self.declared, self.cursor) {
            let here = declared.count_ones();
            if here <= left {
                left -= here;
                continue;
            }
            for _ in 0..left {
                declared &= declared - 1;
            }
            to = word * 64 + declared.trailing_zeros() as usize;
            break;
        }
        self.cursor = to;
    }

    /// Polls one; returns its virtual interface and side if it is rung.
    pub(crate) fn poll(&mut self) -> Option<(u32, Side)> {
        self.skip(0);
        let at = self.cursor;
        let rung = self
            .rung
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1);
        self.cursor = (at + 1) % (self.rung.len() * 64);
        rung.then(|| owner(at))
    }

    /// Whether there is any to poll.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }
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
    fn polls_skip_what_does_not_exist() {
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
