//! The unexpected messages of one peer, in order of arrival.
//!
//! Messages leave in order, but large ones become ready in any order, and some vanish: their
//! senders withdraw them, or fetching them fails. A peer may have 65,536 messages here, so nothing
//! looks at all of them: each has a number by which it is found, those that are announced are
//! listed apart, and one that has vanished leaves a gap, which is removed with others.

use std::collections::VecDeque;

use crate::operation::Incoming;
use crate::types::Tag;

/// Gaps that are kept besides as many as there are messages.
const FEW_GAPS: usize = 16;

/// An unexpected message.
pub(crate) enum Arrived {
    /// It can be taken. Until then it costs credit if it travelled whole, or memory of the budget
    /// if it was fetched.
    Ready {
        tag: Tag,
        data: Vec<u8>,
        fetched: bool,
    },
    /// It waits for memory to be fetched into.
    Announced { tag: Tag, incoming: Incoming },
    /// This operation fetches it, as one of the fetches that the instance has begun.
    Fetching { op: u32, begun: u64 },
    /// It has vanished.
    Gap,
}

/// A message, and its number among those of its peer.
struct Entry {
    number: u64,
    what: Arrived,
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// By ascending number. The first is no gap.
    entries: VecDeque<Entry>,
    next_number: u64,
    gaps: usize,
    /// The numbers of those that are announced, in order.
    announced: VecDeque<u64>,
}

/// A message that waits to be fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaiting {
    pub(crate) number: u64,
    /// All messages before it have been taken.
    pub(crate) is_first: bool,
    pub(crate) tag: Tag,
    /// Its bytes.
    pub(crate) size: u64,
}

impl Arrivals {
    /// How many messages there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.gaps
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first message.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Arrived> {
        self.entries.front().map(|entry| &entry.what)
    }

    /// Adds a message. Most peers have one at a time, so room for one is allocated at first.
    #[inline]
    pub(crate) fn push(&mut self, what: Arrived) {
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(1);
        }
        let number = self.next_number;
        self.next_number += 1;
        if let Arrived::Announced { .. } = what {
            self.announced.push_back(number);
        }
        self.entries.push_back(Entry { number, what });
    }

    /// Removes the first message, which is not announced.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Arrived> {
        let first = self.entries.pop_front()?;
        if self.gaps > 0 {
            self.drop_first_gaps();
        }
        Some(first.what)
    }

    fn drop_first_gaps(&mut self) {
        while let Some(Arrived::Gap) = self.first() {
            self.entries.pop_front();
            self.gaps -= 1;
        }
    }

    fn at(&self, number: u64) -> Option<usize> {
        self.entries
            .binary_search_by_key(&number, |entry| entry.number)
            .ok()
    }

    /// How many messages wait to be fetched.
    pub(crate) fn announced(&self) -> usize {
        self.announced.len()
    }

    /// The first message that waits to be fetched.
    pub(crate) fn next_announced(&self) -> Option<Awaiting> {
        let number = *self.announced.front()?;
        let at = self.at(number)?;
        let Arrived::Announced { tag, incoming } = &self.entries[at].what else {
            unreachable!("a message listed as announced is announced");
        };
        Some(Awaiting {
            number,
            is_first: at == 0,
            tag: *tag,
            size: incoming.announcement.size,
        })
    }

    /// An operation begins to fetch the first message that waits for it.
    pub(crate) fn begin_fetch(&mut self, op: u32, begun: u64) -> Option<Incoming> {
        let number = self.announced.pop_front()?;
        let at = self.at(number)?;
        match std::mem::replace(&mut self.entries[at].what, Arrived::Fetching { op, begun }) {
            Arrived::Announced { incoming, .. } => Some(incoming),
            _ => unreachable!("a message listed as announced is announced"),
        }
    }

    /// A message has been fetched.
    pub(crate) fn fetched(&mut self, number: u64, tag: Tag, data: Vec<u8>) {
        let at = self.at(number);
        let at = at.unwrap_or_else(|| unreachable!("a message stays while it is fetched"));
        self.entries[at].what = Arrived::Ready {
            tag,
            data,
            fetched: true,
        };
    }

    /// The announced message of this send of the peer's.
    pub(crate) fn find_announced(&self, send: u64) -> Option<u64> {
        let mut numbers = self.announced.iter().copied();
        numbers.find(|&number| {
            let what = self.at(number).map(|at| &self.entries[at].what);
            matches!(what, Some(Arrived::Announced { incoming, .. })
                if incoming.announcement.send == send)
        })
    }

    /// Removes a message that has vanished.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Arrived> {
        let at = self.at(number)?;
        if let Some(listed) = self.announced.iter().position(|other| *other == number) {
            self.announced.remove(listed);
        }
        let what = std::mem::replace(&mut self.entries[at].what, Arrived::Gap);
        self.gaps += 1;
        self.drop_first_gaps();
        if self.gaps > FEW_GAPS + self.len() {
            self.entries
                .retain(|entry| !matches!(entry.what, Arrived::Gap));
            self.gaps = 0;
        }
        Some(what)
    }

    /// Removes all messages that are still at their sender. Returns how many.
    pub(crate) fn keep_ready(&mut self) -> usize {
        let before = self.len();
        self.entries
            .retain(|entry| matches!(entry.what, Arrived::Ready { .. }));
        self.gaps = 0;
        self.announced.clear();
        before - self.len()
    }

    /// The messages that are being fetched: which of the instance's fetches, and the operation.
    pub(crate) fn fetching(&self) -> impl Iterator<Item = (u64, u32)> {
        let entries = self.entries.iter();
        entries.filter_map(|entry| match entry.what {
            Arrived::Fetching { op, begun } => Some((begun, op)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::bmi::Announcement;
    use causeway_wire::region::Regions;

    use super::*;

    fn announced(send: u64) -> Arrived {
        Arrived::Announced {
            tag: send,
            incoming: Incoming {
                from_busy_server: false,
                in_parts: false,
                announcement: Announcement {
                    send,
                    size: send,
                    load: 0,
                    regions: Regions::new(),
                },
            },
        }
    }

    fn ready(tag: Tag) -> Arrived {
        Arrived::Ready {
            tag,
            data: Vec::new(),
            fetched: false,
        }
    }

    fn tags(all: &mut Arrivals) -> Vec<Tag> {
        let mut tags = Vec::new();
        while let Some(Arrived::Ready { tag, .. }) = all.pop() {
            tags.push(tag);
        }
        tags
    }

    #[test]
    fn messages_keep_their_order_around_those_that_vanish() {
        let mut all = Arrivals::default();
        for n in 0..6 {
            all.push(match n % 2 {
                0 => ready(n),
                _ => announced(n),
            });
        }
        assert_eq!((all.len(), all.announced()), (6, 3));
        let next = all.next_announced().unwrap();
        assert_eq!((next.tag, next.size, next.is_first), (1, 1, false));
        let number = next.number;
        assert_eq!(all.begin_fetch(7, 1).unwrap().announcement.send, 1);
        assert_eq!(all.fetching().collect::<Vec<_>>(), [(1, 7)]);
        let withdrawn = all.find_announced(3).unwrap();
        assert!(all.find_announced(1).is_none());
        all.remove(withdrawn);
        assert!(all.remove(withdrawn + 100).is_none());
        assert_eq!((all.len(), all.announced()), (5, 1));
        all.fetched(number, 1, Vec::new());
        assert_eq!(all.keep_ready(), 1);
        assert_eq!(tags(&mut all), [0, 1, 2, 4]);
        assert!(all.is_empty());
    }

    #[test]
    fn gaps_are_bounded() {
        let mut all = Arrivals::default();
        all.push(announced(1));
        let first = all.next_announced().unwrap();
        all.begin_fetch(0, 0);
        for n in 0..1000 {
            all.push(announced(n));
            let number = all.find_announced(n).unwrap();
            all.remove(number);
            assert!(all.entries.len() <= FEW_GAPS + 3);
        }
        all.push(ready(5));
        all.remove(first.number);
        assert_eq!(tags(&mut all), [5]);
        assert_eq!((all.entries.len(), all.gaps), (0, 0));
    }
}
