//! Matchers compared with a reference: ordered lists that are searched from the front.
//!
//! [`follow_reference`] drives any
//! [`Matcher`] with random receives, messages, probes and cancelling, and compares each result.

use causeway_engine::matcher::Matcher;

use crate::random::Random;

/// The words that messages carry, and the patterns of receives, for one matcher.
pub trait Rules {
    /// The matcher.
    type Matcher: Matcher;

    /// A pattern, such that a good part of all pairs match.
    fn pattern(random: &mut Random) -> <Self::Matcher as Matcher>::Pattern;

    /// A message: its peer and its word.
    fn message(random: &mut Random) -> (u32, u64);

    /// Whether they match.
    fn matches(pattern: &<Self::Matcher as Matcher>::Pattern, message: (u32, u64)) -> bool;
}

/// Waiting entries in order, and the numbers that are free for more.
struct Waiting<T> {
    items: Vec<(u32, T)>,
    free: Vec<u32>,
}

impl<T: Copy> Waiting<T> {
    /// No entries, and this number of free numbers.
    fn new(numbers: usize) -> Self {
        Self {
            items: Vec::new(),
            free: (0..numbers as u32).collect(),
        }
    }

    fn number(&mut self) -> u32 {
        self.free.pop().expect("as many as steps")
    }

    fn first(&self, matches: impl Fn(&T) -> bool) -> Option<u32> {
        let mut all = self.items.iter();
        all.find(|(_, item)| matches(item)).map(|(index, _)| *index)
    }

    /// Takes it out; its number is not free yet.
    fn remove(&mut self, index: u32) -> T {
        let mut all = self.items.iter();
        let at = all.position(|(other, _)| *other == index);
        self.items.remove(at.expect("it waits")).1
    }

    fn random(&self, random: &mut Random) -> Option<u32> {
        let at = random.below(self.items.len());
        self.items.get(at).map(|(index, _)| *index)
    }
}

/// A pattern of these rules' matcher.
type Pattern<R> = <<R as Rules>::Matcher as Matcher>::Pattern;

/// A matcher and the lists that define what it must do.
struct Pair<R: Rules> {
    random: Random,
    matcher: R::Matcher,
    receives: Waiting<Pattern<R>>,
    messages: Waiting<(u32, u64)>,
    /// The present step, for failure messages.
    at: String,
}

impl<R: Rules> Pair<R> {
    /// A receive is posted: it gets a message that is held, or waits. Now and then it is withdrawn from its message, and
    /// waits as the oldest.
    fn post(&mut self) {
        let pattern = R::pattern(&mut self.random);
        let expected = self.first_message(pattern);
        assert_eq!(self.matcher.find(pattern), expected, "probe, {}", self.at);
        let taken = self.matcher.take(pattern);
        assert_eq!(taken, expected, "receive, {}", self.at);
        let Some(message) = taken else {
            let receive = self.receives.number();
            self.matcher.post(receive, pattern);
            self.receives.items.push((receive, pattern));
            return;
        };
        self.messages.remove(message);
        self.messages.free.push(message);
        if self.random.one_in(4) && self.first_message(pattern).is_none() {
            let receive = self.receives.number();
            self.matcher.remember(receive, pattern);
            self.refresh(receive, pattern);
        }
    }

    /// A message arrives: it finds a receive, or is held. Now and then it is withdrawn then, so that the receive waits
    /// again.
    fn arrive(&mut self) {
        let (peer, word) = R::message(&mut self.random);
        let expected = self.first_receive((peer, word));
        let found = self.matcher.arrive(peer, word);
        assert_eq!(found, expected, "message, {}", self.at);
        let Some(receive) = found else {
            let message = self.messages.number();
            self.matcher.hold(message, peer, word);
            self.messages.items.push((message, (peer, word)));
            return;
        };
        let pattern = self.receives.remove(receive);
        if self.random.one_in(4) {
            self.refresh(receive, pattern);
        } else {
            self.receives.free.push(receive);
        }
    }

    /// A receive that has lost its message gets another, or waits as the oldest.
    fn refresh(&mut self, receive: u32, pattern: Pattern<R>) {
        let held = self.first_message(pattern);
        assert_eq!(self.matcher.take_for(receive), held, "again, {}", self.at);
        if let Some(message) = held {
            self.messages.remove(message);
            self.messages.free.push(message);
            self.receives.free.push(receive);
        } else {
            self.matcher.post_again(receive);
            self.receives.items.insert(0, (receive, pattern));
        }
    }

    /// A receive is cancelled.
    fn cancel(&mut self) {
        if let Some(receive) = self.receives.random(&mut self.random) {
            self.receives.remove(receive);
            self.matcher.withdraw(receive);
            self.receives.free.push(receive);
        }
    }

    /// A message is withdrawn; or one that was matched comes back as the oldest.
    fn withdraw(&mut self) {
        let Some(message) = self.messages.random(&mut self.random) else {
            return;
        };
        let (peer, word) = self.messages.remove(message);
        self.matcher.discard(message);
        if self.first_receive((peer, word)).is_none() && self.random.one_in(2) {
            self.matcher.hold_first(message, peer, word);
            self.messages.items.insert(0, (message, (peer, word)));
        } else {
            self.messages.free.push(message);
        }
    }

    /// Compares the matcher's and the reference's waiting entries. Returns whether the matcher named the next message for some receive.
    fn check(&mut self) -> bool {
        let holds = !self.messages.items.is_empty();
        assert_eq!(self.matcher.holds_messages(), holds, "{}", self.at);
        let receive = self.receives.random(&mut self.random);
        let next = receive.and_then(|receive| Some((receive, self.matcher.is_next_for(receive)?)));
        if let Some((receive, message)) = next {
            let first = self.first_receive(message);
            assert_eq!(first, Some(receive), "the next, {}", self.at);
            let mut waiting = self.receives.items.iter();
            let found = waiting.find(|(index, _)| *index == receive);
            let peer = found.and_then(|(_, pattern)| R::Matcher::only_peer(*pattern));
            assert_eq!(peer, Some(message.0), "its peer, {}", self.at);
        }
        let (peer, _) = R::message(&mut self.random);
        let waiting = self.receives.items.iter();
        let mine = waiting.filter(|(_, pattern)| R::Matcher::only_peer(*pattern) == Some(peer));
        let mut mine: Vec<_> = mine.map(|(receive, _)| *receive).collect();
        let mut listed = self.matcher.receives_of(peer, usize::MAX);
        mine.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, mine, "{}", self.at);
        next.is_some()
    }

    fn first_message(&self, pattern: Pattern<R>) -> Option<u32> {
        self.messages
            .first(|message| R::matches(&pattern, *message))
    }

    fn first_receive(&self, message: (u32, u64)) -> Option<u32> {
        self.receives.first(|pattern| R::matches(pattern, message))
    }
}

/// Drives a matcher with this number of random steps.
///
/// # Panics
/// If the matcher deviates from the reference.
pub fn follow_reference<R: Rules>(seed: u64, steps: usize) {
    let mut pair = Pair::<R> {
        random: Random::new(seed),
        matcher: R::Matcher::default(),
        receives: Waiting::new(steps),
        messages: Waiting::new(steps),
        at: String::new(),
    };
    let mut told = 0;
    for step in 0..steps {
        pair.at = format!("seed {seed}, step {step}");
        match pair.random.below(10) {
            0..4 => pair.post(),
            4..8 => pair.arrive(),
            8 => pair.cancel(),
            _ => pair.withdraw(),
        }
        told += usize::from(pair.check());
    }
    assert!(told > steps / 100, "seed {seed}: {told}");
}
