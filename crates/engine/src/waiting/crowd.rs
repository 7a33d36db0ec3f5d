//! Whether a long turn was that of many who wait like us, or of somebody who computes: the kernel knows how many
//! want a processor.
//!
//! Asked only where sleeping is dear: over sockets, whose descriptors have to be armed and watched by the kernel. Where
//! sleeping is cheap, a crowd that sleeps is served as well, and each turn has more than one message in it.

use std::time::Duration;

use causeway_sys::runnable::Runnable;

/// Somebody who computes keeps the processor until the kernel takes it away, 3 ms later or more; who waits gives it up
/// after one answer, or a turn of 200 µs at the most, if it does not hear of the others at once.
const LONG_SHARE: Duration = Duration::from_micros(700);
/// Asking takes about 2 µs: an answer holds for so many turns.
const TURNS_PER_ANSWER: u32 = 16;

/// What is known of those who want a processor.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    source: Source,
    /// How many there were for each processor, and for how many turns that holds.
    known: u32,
    turns: u32,
}

#[derive(Debug, Default)]
enum Source {
    #[default]
    Unopened,
    Open(Runnable),
    /// Whoever takes long is then taken to compute.
    Missing,
}

impl Crowd {
    /// So many for each processor, for the next few turns.
    #[cfg(test)]
    pub(crate) fn of(known: u32) -> Self {
        Self {
            known,
            turns: TURNS_PER_ANSWER,
            ..Self::default()
        }
    }

    /// Whether so many ran in a turn of this length that none of them ran for long.
    pub(crate) fn explains(&mut self, turn: Duration) -> bool {
        if self.turns == 0 {
            self.known = self.ask();
            self.turns = TURNS_PER_ANSWER;
        }
        self.turns -= 1;
        is_shared(turn, self.known)
    }

    fn ask(&mut self) -> u32 {
        if let Source::Unopened = self.source {
            self.source = Runnable::open().map_or(Source::Missing, Source::Open);
        }
        match &self.source {
            Source::Open(runnable) => runnable.per_processor().unwrap_or(1),
            Source::Unopened | Source::Missing => 1,
        }
    }
}

/// Whether each of so many had a short part of the turn.
fn is_shared(turn: Duration, among: u32) -> bool {
    turn / among.max(1) < LONG_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_of_many_is_long_only_if_each_part_is() {
        let ms = Duration::from_millis;
        assert!(!is_shared(ms(3), 0));
        assert!(!is_shared(ms(3), 2));
        assert!(is_shared(ms(3), 32));
        assert!(!is_shared(ms(3 * 32), 32));
    }

    #[test]
    fn where_nobody_counts_long_turns_are_computed() {
        let mut crowd = Crowd {
            source: Source::Missing,
            ..Crowd::default()
        };
        assert!(!crowd.explains(Duration::from_millis(3)));
        assert!(crowd.explains(LONG_SHARE / 2));
    }
}
