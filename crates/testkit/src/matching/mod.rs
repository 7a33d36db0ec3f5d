//! Matchers held against a reference: lists in order, searched from the front.
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

/// What waits, in order.
struct Waiting<T>(Vec<(u32, T)>);

impl<T: Copy> Waiting<T> {
    fn first(&self, matches: impl Fn(&T) -> bool) -> Option<u32> {
        let mut all = self.0.iter();
        all.find(|(_, item)| matches(item)).map(|(index, _)| *index)
    }

    fn remove(&mut self, index: u32) -> T {
        let at = self.0.iter().position(|(other, _)| *other == index);
        self.0.remove(at.expect("it waits")).1
    }

    fn random(&self, random: &mut Random) -> Option<u32> {
        let at = random.below(self.0.len());
        self.0.get(at).map(|(index, _)| *index)
    }
}

/// Drives a matcher with so many random steps.
///
/// # Panics
/// If it does other than the reference.
pub fn follow_reference<R: Rules>(seed: u64, steps: usize) {
    let random = &mut Random::new(seed);
    let mut matcher = R::Matcher::default();
    let mut receives = Waiting::<<R::Matcher as Matcher>::Pattern>(Vec::new());
    let mut messages = Waiting::<(u32, u64)>(Vec::new());
    // Numbers that are free again, of receives and of messages.
    let mut free: [Vec<u32>; 2] = [(0..steps as u32).collect(), (0..steps as u32).collect()];
    // How often a receive was known to be the next.
    let mut told = 0;
    for step in 0..steps {
        let context = || format!("seed {seed}, step {step}");
        match random.below(10) {
            // A receive is posted: it gets a message that is held, or waits.
            0..4 => {
                let pattern = R::pattern(random);
                let expected = messages.first(|message| R::matches(&pattern, *message));
                assert_eq!(matcher.find(pattern), expected, "probe, {}", context());
                let taken = matcher.take(pattern);
                assert_eq!(taken, expected, "receive, {}", context());
                match taken {
                    Some(message) => {
                        messages.remove(message);
                        free[1].push(message);
                        if random.one_in(4)
                            && messages
                                .first(|other| R::matches(&pattern, *other))
                                .is_none()
                        {
                            // It is withdrawn after all.
                            let receive = free[0].pop().expect("as many as steps");
                            matcher.remember(receive, pattern);
                            assert_eq!(matcher.take_for(receive), None, "{}", context());
                            matcher.post_again(receive);
                            receives.0.insert(0, (receive, pattern));
                        }
                    }
                    None => {
                        let receive = free[0].pop().expect("as many as steps");
                        matcher.post(receive, pattern);
                        receives.0.push((receive, pattern));
                    }
                }
            }
            // A message arrives: it finds a receive, or is held. Now and then it is withdrawn then, so that the
            // receive waits again.
            4..8 => {
                let (peer, word) = R::message(random);
                let expected = receives.first(|pattern| R::matches(pattern, (peer, word)));
                let found = matcher.arrive(peer, word);
                assert_eq!(found, expected, "message, {}", context());
                let Some(receive) = found else {
                    let message = free[1].pop().expect("as many as steps");
                    matcher.hold(message, peer, word);
                    messages.0.push((message, (peer, word)));
                    continue;
                };
                let pattern = receives.remove(receive);
                if !random.one_in(4) {
                    free[0].push(receive);
                    continue;
                }
                let held = messages.first(|message| R::matches(&pattern, *message));
                assert_eq!(matcher.take_for(receive), held, "again, {}", context());
                match held {
                    Some(message) => {
                        messages.remove(message);
                        free[1].push(message);
                        free[0].push(receive);
                    }
                    None => {
                        matcher.post_again(receive);
                        receives.0.insert(0, (receive, pattern));
                    }
                }
            }
            // A receive is cancelled.
            8 => {
                if let Some(receive) = receives.random(random) {
                    receives.remove(receive);
                    matcher.withdraw(receive);
                    free[0].push(receive);
                }
            }
            // A message is withdrawn; or one that was matched comes back as the oldest.
            _ => {
                if let Some(message) = messages.random(random) {
                    let (peer, word) = messages.remove(message);
                    matcher.discard(message);
                    let finds = receives.first(|pattern| R::matches(pattern, (peer, word)));
                    if finds.is_none() && random.one_in(2) {
                        matcher.hold_first(message, peer, word);
                        messages.0.insert(0, (message, (peer, word)));
                    } else {
                        free[1].push(message);
                    }
                }
            }
        }
        assert_eq!(
            matcher.holds_messages(),
            !messages.0.is_empty(),
            "{}",
            context()
        );
        if let Some(receive) = receives.random(random)
            && let Some(message) = matcher.is_next_for(receive)
        {
            let first = receives.first(|pattern| R::matches(pattern, message));
            assert_eq!(first, Some(receive), "the next, {}", context());
            let mut waiting = receives.0.iter();
            let found = waiting.find(|(index, _)| *index == receive);
            let peer = found.and_then(|(_, pattern)| R::Matcher::only_peer(*pattern));
            assert_eq!(peer, Some(message.0), "its peer, {}", context());
            told += 1;
        }
        let (peer, _) = R::message(random);
        let of_peer = |pattern: &<R::Matcher as Matcher>::Pattern| {
            R::Matcher::only_peer(*pattern) == Some(peer)
        };
        let mine = receives.0.iter().filter(|(_, pattern)| of_peer(pattern));
        let mut mine: Vec<_> = mine.map(|(receive, _)| *receive).collect();
        let mut listed = matcher.receives_of(peer, usize::MAX);
        mine.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, mine, "{}", context());
    }
    assert!(told > steps / 100, "seed {seed}: {told}");
}
