//! The unexpected messages of one peer, in order of arrival.
//!
//! Messages leave in order, but large ones become ready in any order, and some vanish: their
//! senders withdraw them, or fetching them fails. A peer may have 65,536 messages here, so nothing
//! looks at all of them: a large message has a number by which it is found, those that are announced
//! are listed apart, and one that has vanished leaves a gap, which is removed with others. What only
//! large messages need is allocated for peers that have any.

use std::collections::{BTreeMap, VecDeque};

use crate::credit::{Budget, Reserved};
use crate::operation::Incoming;
use crate::types::Tag;

/// Gaps that are kept besides as many as there are messages.
const FEW_GAPS: usize = 16;

/// A message in its place.
enum Arrived {
    /// It has travelled whole.
    Whole { tag: Tag, data: Vec<u8> },
    /// The large message of this number, or a gap if it has vanished.
    Large(u64),
}

/// A message that can be taken.
pub(crate) struct Ready {
    pub(crate) tag: Tag,
    pub(crate) data: Vec<u8>,
    /// It has cost memory of the budget, not credit.
    pub(crate) fetched: bool,
}

/// A message that does not travel whole.
struct Large {
    tag: Tag,
    stage: Stage,
}

enum Stage {
    /// It waits for memory to be fetched into.
    Announced(Incoming),
    /// This operation fetches it, as one of the fetches that the instance has begun.
    Fetching { op: u32, begun: u64 },
    /// It can be taken.
    Fetched(Vec<u8>),
}

/// The large messages of a peer.
#[derive(Default)]
struct AllLarge {
    /// By number, in order of arrival.
    messages: BTreeMap<u64, Large>,
    next_number: u64,
    /// The numbers of those that are announced, in order.
    announced: VecDeque<u64>,
    /// Places whose messages have vanished.
    gaps: usize,
    /// Memory for those that are being fetched, or were and wait to be taken, in bytes.
    pulled: u64,
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Arrivals {
    /// The first is no gap.
    places: VecDeque<Arrived>,
    large: Option<Box<AllLarge>>,
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
        self.places.len() - self.large.as_ref().map_or(0, |large| large.gaps)
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The state of the first message, if it is a large one.
    fn first_large(&self) -> Option<&Stage> {
        match self.places.front()? {
            Arrived::Whole { .. } => None,
            Arrived::Large(number) => {
                let large = self.large.as_ref()?.messages.get(number);
                large.map(|large| &large.stage)
            }
        }
    }

    /// Whether the first message can be taken.
    #[inline]
    pub(crate) fn is_first_ready(&self) -> bool {
        match self.places.front() {
            None => false,
            Some(Arrived::Whole { .. }) => true,
            Some(Arrived::Large(_)) => matches!(self.first_large(), Some(Stage::Fetched(_))),
        }
    }

    /// Whether the first message waits to be fetched.
    #[inline]
    pub(crate) fn is_first_announced(&self) -> bool {
        matches!(self.first_large(), Some(Stage::Announced(_)))
    }

    /// Adds a whole message. Most peers have one at a time, so room for one is allocated at first.
    #[inline]
    pub(crate) fn push(&mut self, tag: Tag, data: Vec<u8>) {
        self.push_place(Arrived::Whole { tag, data });
    }

    #[inline]
    fn push_place(&mut self, place: Arrived) {
        if self.places.capacity() == 0 {
            self.places.reserve_exact(1);
        }
        self.places.push_back(place);
    }

    /// Adds an announced message.
    pub(crate) fn push_announced(&mut self, tag: Tag, incoming: Incoming) {
        let large = self.large.get_or_insert_default();
        let number = large.next_number;
        large.next_number += 1;
        large.announced.push_back(number);
        let stage = Stage::Announced(incoming);
        large.messages.insert(number, Large { tag, stage });
        self.push_place(Arrived::Large(number));
    }

    /// Takes the first message, if it is ready.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Ready> {
        if !self.is_first_ready() {
            return None;
        }
        let ready = match self.places.pop_front()? {
            Arrived::Whole { tag, data } => Ready {
                tag,
                data,
                fetched: false,
            },
            Arrived::Large(number) => {
                let large = self.large.as_mut()?.messages.remove(&number)?;
                let Stage::Fetched(data) = large.stage else {
                    unreachable!("the first message is ready");
                };
                Ready {
                    tag: large.tag,
                    data,
                    fetched: true,
                }
            }
        };
        self.drop_first_gaps();
        Some(ready)
    }

    #[inline]
    fn drop_first_gaps(&mut self) {
        let Some(large) = &mut self.large else {
            return;
        };
        while large.gaps > 0
            && let Some(Arrived::Large(number)) = self.places.front()
            && !large.messages.contains_key(number)
        {
            self.places.pop_front();
            large.gaps -= 1;
        }
        // Its memory is released after the message was taken.
        if large.messages.is_empty() && large.gaps == 0 && large.pulled == 0 {
            self.large = None;
        }
    }

    /// How many messages wait to be fetched.
    pub(crate) fn announced(&self) -> usize {
        let large = self.large.as_ref();
        large.map_or(0, |large| large.announced.len())
    }

    /// The first message that waits to be fetched.
    pub(crate) fn next_announced(&self) -> Option<Awaiting> {
        let large = self.large.as_ref()?;
        let number = *large.announced.front()?;
        let Large { tag, stage } = large.messages.get(&number)?;
        let Stage::Announced(incoming) = stage else {
            unreachable!("a message listed as announced is announced");
        };
        Some(Awaiting {
            number,
            is_first: matches!(self.places.front(), Some(Arrived::Large(first)) if *first == number),
            tag: *tag,
            size: incoming.announcement.size,
        })
    }

    /// Reserves memory for the first message that waits to be fetched.
    pub(crate) fn reserve(&mut self, budget: &mut Budget, bytes: u64, is_first: bool) -> Reserved {
        let large = self.large.get_or_insert_default();
        budget.reserve_pull(&mut large.pulled, bytes, is_first)
    }

    /// Releases memory that was reserved for a message which is no longer here.
    pub(crate) fn release(&mut self, budget: &mut Budget, bytes: u64) {
        if let Some(large) = &mut self.large {
            budget.release_pull(&mut large.pulled, bytes);
        }
        self.drop_first_gaps();
    }

    /// An operation begins to fetch the first message that waits for it.
    pub(crate) fn begin_fetch(&mut self, op: u32, begun: u64) -> Option<Incoming> {
        let large = self.large.as_mut()?;
        let number = large.announced.pop_front()?;
        let message = large.messages.get_mut(&number)?;
        match std::mem::replace(&mut message.stage, Stage::Fetching { op, begun }) {
            Stage::Announced(incoming) => Some(incoming),
            _ => unreachable!("a message listed as announced is announced"),
        }
    }

    /// A message has been fetched.
    pub(crate) fn fetched(&mut self, number: u64, data: Vec<u8>) {
        let large = self.large.as_mut();
        let message = large.and_then(|large| large.messages.get_mut(&number));
        let message =
            message.unwrap_or_else(|| unreachable!("a message stays while it is fetched"));
        message.stage = Stage::Fetched(data);
    }

    /// The announced message of this send of the peer's. (Few wait at a time.)
    pub(crate) fn find_announced(&self, send: u64) -> Option<u64> {
        let large = self.large.as_ref()?;
        let mut numbers = large.announced.iter().copied();
        numbers.find(|number| {
            let message = large.messages.get(number).map(|message| &message.stage);
            matches!(message, Some(Stage::Announced(incoming)) if incoming.announcement.send == send)
        })
    }

    /// Removes a large message that has vanished. Returns the peer's number of the send, if it was
    /// not being fetched.
    pub(crate) fn remove(&mut self, number: u64) -> Option<u64> {
        let large = self.large.as_mut()?;
        let removed = large.messages.remove(&number)?;
        if let Some(listed) = large.announced.iter().position(|other| *other == number) {
            large.announced.remove(listed);
        }
        large.gaps += 1;
        if large.gaps > FEW_GAPS + (self.places.len() - large.gaps) {
            self.places.retain(|place| match place {
                Arrived::Whole { .. } => true,
                Arrived::Large(number) => large.messages.contains_key(number),
            });
            large.gaps = 0;
        }
        self.drop_first_gaps();
        match removed.stage {
            Stage::Announced(incoming) => Some(incoming.announcement.send),
            _ => None,
        }
    }

    /// Removes all messages that are still at their sender. Returns how many.
    pub(crate) fn keep_ready(&mut self) -> usize {
        let Some(large) = &mut self.large else {
            return 0;
        };
        let before = large.messages.len();
        let is_fetched = |large: &Large| matches!(large.stage, Stage::Fetched(_));
        large.messages.retain(|_, message| is_fetched(message));
        self.places.retain(|place| match place {
            Arrived::Whole { .. } => true,
            Arrived::Large(number) => large.messages.contains_key(number),
        });
        large.gaps = 0;
        large.announced.clear();
        let removed = before - large.messages.len();
        self.drop_first_gaps();
        removed
    }

    /// The messages that are being fetched: which of the instance's fetches, and the operation.
    pub(crate) fn fetching(&self) -> impl Iterator<Item = (u64, u32)> {
        let large = self.large.iter().flat_map(|large| large.messages.values());
        large.filter_map(|message| match message.stage {
            Stage::Fetching { op, begun } => Some((begun, op)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use causeway_wire::bmi::Announcement;
    use causeway_wire::region::Regions;

    use super::*;

    fn announce(all: &mut Arrivals, send: u64) {
        let incoming = Incoming {
            from_busy_server: false,
            in_parts: false,
            announcement: Announcement {
                send,
                size: send,
                load: 0,
                regions: Regions::new(),
            },
        };
        all.push_announced(send, incoming);
    }

    fn tags(all: &mut Arrivals) -> Vec<Tag> {
        std::iter::from_fn(|| all.take().map(|ready| ready.tag)).collect()
    }

    #[test]
    fn messages_keep_their_order_around_those_that_vanish() {
        let mut all = Arrivals::default();
        for n in 0..6 {
            match n % 2 {
                0 => all.push(n, Vec::new()),
                _ => announce(&mut all, n),
            }
        }
        assert_eq!((all.len(), all.announced()), (6, 3));
        let next = all.next_announced().unwrap();
        assert_eq!((next.tag, next.size, next.is_first), (1, 1, false));
        let number = next.number;
        assert_eq!(all.begin_fetch(7, 1).unwrap().announcement.send, 1);
        assert_eq!(all.fetching().collect::<Vec<_>>(), [(1, 7)]);
        let withdrawn = all.find_announced(3).unwrap();
        assert!(all.find_announced(1).is_none());
        assert_eq!(all.remove(withdrawn), Some(3));
        assert_eq!(all.remove(withdrawn + 100), None);
        assert_eq!((all.len(), all.announced()), (5, 1));
        all.fetched(number, Vec::new());
        assert_eq!(all.keep_ready(), 1);
        assert_eq!(tags(&mut all), [0, 1, 2, 4]);
        assert!(all.is_empty() && all.large.is_none());
    }

    #[test]
    fn gaps_are_bounded() {
        let mut all = Arrivals::default();
        announce(&mut all, 1);
        let first = all.next_announced().unwrap();
        all.begin_fetch(0, 0);
        for n in 0..1000 {
            announce(&mut all, n);
            let number = all.find_announced(n).unwrap();
            all.remove(number);
            assert!(all.places.len() <= FEW_GAPS + 3);
        }
        all.push(5, Vec::new());
        all.remove(first.number);
        assert_eq!(all.len(), 1);
        assert_eq!(tags(&mut all), [5]);
        assert!(all.places.is_empty() && all.large.is_none());
    }

    /// Every peer that is connected has one of these.
    #[test]
    fn they_are_small() {
        assert!(size_of::<Arrivals>() <= 40);
        assert!(size_of::<Arrived>() <= 32);
    }
}
