//! The host's dispatcher: the time-sharing class of Solaris as §6.1.1 describes it.
//!
//! 60 levels, the highest first. A thread that has used up its quantum falls to a lower level, behind all others there; a
//! preempted thread stays at the head of its level; a thread that was blocked returns to the head of its level, mostly a higher one. Two
//! things keep threads from starving: a thread that has not completed its quantum for some time is boosted, and at intervals all
//! threads are raised to the highest level ([`Raised`]).
//!
//! A driver boosts threads: it moves them to the queue of the highest level. The class is not notified of that, and
//! continues from the level that it has assigned to the thread itself ([`Moved`]). A thread that yields lowers its priority
//! with the class.

use std::collections::VecDeque;

use crate::engine::Time;

/// Priority levels.
pub const LEVELS: usize = 60;
/// The highest of them.
pub const HIGHEST: u8 = 59;

/// The rules of the class at one level (a row of `ts_dptbl`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How long a thread runs before it falls.
    pub quantum: Time,
    /// The level to which it falls then.
    pub expired: u8,
    /// The level at which it returns when it has been blocked.
    pub woken: u8,
    /// The level to which it is boosted when it has not completed its quantum for longer than `max_wait`.
    pub starved: u8,
    /// Intervals between raises that a thread may take for its quantum.
    pub max_wait: u16,
}

/// Which threads are raised at intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Raised {
    /// All of them, to the highest level. No boost on starvation then makes a difference, as it comes at the same moments and goes at
    /// most as high.
    #[default]
    All,
    /// Those that starve, to the table's level for that, as Solaris's class itself does.
    Starved,
}

/// The rules that do not depend on the level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Which blocked threads the class raises.
    pub woken: Woken,
    /// Which level of the class counts after the driver has moved a thread.
    pub moved: Moved,
    /// Which threads it raises at intervals.
    pub raised: Raised,
}

/// Which blocked threads return at the table's level for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Woken {
    /// All of them.
    #[default]
    Raised,
    /// Only threads that were there at a raise since their quantum began. Any other returns at the level that it had, with the rest
    /// of its quantum.
    RaisedOnceInAWhile,
}

/// How much of a thread's own level still counts when the driver has put it into the queue of the
/// highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moved {
    /// The own level: the thread has one quantum of the other level, then falls from its own, and if it blocks it returns at its own.
    #[default]
    KeepsItsOwn,
    /// Its own level and its own quantum: at the other level, the thread has the rest of its
    /// quantum. (Solaris counts the quantum, `ts_timeleft`, separately from the priority that
    /// determines the queue.)
    KeepsItsQuantum,
    /// Nothing: as if the class had assigned the other level.
    Changes,
}

/// The table of the class.
pub type Table = [Row; LEVELS];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Gone,
    Asleep,
    Ready,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// The level at which it is dispatched.
    level: u8,
    /// The level that the class has assigned to it.
    own: u8,
    left: Time,
    state: State,
    /// Raises since its quantum began (`ts_dispwait`).
    waited: u16,
}

/// A node's threads by priority, and the one that runs.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    table: Table,
    rules: Rules,
    threads: Vec<Thread>,
    queues: Vec<VecDeque<u16>>,
    /// A bit for each level that has a ready thread.
    occupied: u64,
    running: Option<u16>,
}

impl Dispatcher {
    /// A dispatcher of this many threads, none of which has begun.
    pub fn new(table: Table, rules: Rules, threads: usize) -> Self {
        let thread = Thread {
            level: HIGHEST,
            own: HIGHEST,
            left: table[usize::from(HIGHEST)].quantum,
            state: State::Gone,
            waited: 0,
        };
        Self {
            table,
            rules,
            threads: vec![thread; threads],
            queues: vec![VecDeque::new(); LEVELS],
            occupied: 0,
            running: None,
        }
    }

    /// The thread that runs.
    pub fn running(&self) -> Option<u16> {
        self.running
    }

    /// A thread's level.
    pub fn level(&self, thread: u16) -> u8 {
        self.threads[usize::from(thread)].level
    }

    /// The rest of a thread's quantum.
    pub fn left(&self, thread: u16) -> Time {
        self.threads[usize::from(thread)].left
    }

    /// Whether the thread has begun and not ended.
    pub fn is_there(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].state != State::Gone
    }

    /// Whether it is blocked.
    pub fn is_asleep(&self, thread: u16) -> bool {
        self.threads[usize::from(thread)].state == State::Asleep
    }

    /// Whether a ready thread has a higher level than the one that runs.
    pub fn is_outranked(&self) -> bool {
        let Some(running) = self.running else {
            return self.occupied != 0;
        };
        self.best().is_some_and(|best| best > self.level(running))
    }

    fn best(&self) -> Option<u8> {
        self.occupied.checked_ilog2().map(|level| level as u8)
    }

    fn enqueue(&mut self, thread: u16, at_head: bool) {
        let known = &mut self.threads[usize::from(thread)];
        known.state = State::Ready;
        let level = usize::from(known.level);
        match at_head {
            true => self.queues[level].push_front(thread),
            false => self.queues[level].push_back(thread),
        }
        self.occupied |= 1 << level;
    }

    fn dequeue(&mut self, thread: u16) {
        let level = usize::from(self.level(thread));
        self.queues[level].retain(|&queued| queued != thread);
        if self.queues[level].is_empty() {
            self.occupied &= !(1 << level);
        }
    }

    /// Assigns a level to a thread on behalf of the class, with the whole quantum of the level.
    fn place(&mut self, thread: u16, level: u8) {
        self.dispatch_at(thread, level);
        let known = &mut self.threads[usize::from(thread)];
        known.own = level;
        known.waited = 0;
    }

    /// Puts a thread into the queue of the highest level on behalf of the driver, with that level's
    /// whole quantum or the rest of its own.
    fn move_up(&mut self, thread: u16) {
        match self.rules.moved {
            Moved::KeepsItsOwn => self.dispatch_at(thread, HIGHEST),
            Moved::KeepsItsQuantum => self.threads[usize::from(thread)].level = HIGHEST,
            Moved::Changes => self.place(thread, HIGHEST),
        }
    }

    fn dispatch_at(&mut self, thread: u16, level: u8) {
        let known = &mut self.threads[usize::from(thread)];
        known.level = level;
        known.left = self.table[usize::from(level)].quantum;
    }

    /// Begins a thread, behind all others of the highest level.
    pub fn begin(&mut self, thread: u16) {
        self.place(thread, HIGHEST);
        self.enqueue(thread, false);
    }

    /// Lets the first thread of the highest level run, if none does. Returns it.
    pub fn dispatch(&mut self) -> Option<u16> {
        if self.running.is_some() {
            return None;
        }
        let level = usize::from(self.best()?);
        let thread = self.queues[level].pop_front()?;
        if self.queues[level].is_empty() {
            self.occupied &= !(1 << level);
        }
        self.threads[usize::from(thread)].state = State::Running;
        self.running = Some(thread);
        Some(thread)
    }

    /// Charges the running thread with `time` of the processor.
    pub fn used(&mut self, time: Time) {
        if let Some(running) = self.running {
            let known = &mut self.threads[usize::from(running)];
            known.left = known.left.saturating_sub(time);
        }
    }

    /// Preempts the running thread for a higher one: it stays first of its level.
    pub fn preempt(&mut self) {
        if let Some(running) = self.running.take() {
            self.enqueue(running, true);
        }
    }

    /// Expires the running thread's quantum: it falls to a lower level, behind all others there.
    pub fn expire(&mut self) {
        if let Some(running) = self.running.take() {
            let own = self.threads[usize::from(running)].own;
            let expired = self.table[usize::from(own)].expired;
            self.place(running, expired);
            self.enqueue(running, false);
        }
    }

    /// Blocks the running thread.
    pub fn block(&mut self) {
        if let Some(running) = self.running.take() {
            self.threads[usize::from(running)].state = State::Asleep;
        }
    }

    /// Ends the running thread.
    pub fn end(&mut self) {
        if let Some(running) = self.running.take() {
            self.threads[usize::from(running)].state = State::Gone;
        }
    }

    /// Makes a blocked thread ready, first of its level: the table's level for that, or its own.
    pub fn wake(&mut self, thread: u16) {
        if !self.is_asleep(thread) {
            return;
        }
        let known = &mut self.threads[usize::from(thread)];
        let own = known.own;
        known.level = own;
        let is_raised = match self.rules.woken {
            Woken::Raised => true,
            Woken::RaisedOnceInAWhile => known.waited > 0 && own < HIGHEST,
        };
        if is_raised {
            self.place(thread, self.table[usize::from(own)].woken);
        }
        self.enqueue(thread, true);
    }

    /// Raises a thread to the highest level for the driver, first there, unless it is blocked.
    pub fn boost(&mut self, thread: u16) {
        match self.threads[usize::from(thread)].state {
            State::Ready => {
                self.dequeue(thread);
                self.move_up(thread);
                self.enqueue(thread, true);
            }
            State::Running => self.move_up(thread),
            State::Asleep | State::Gone => {}
        }
    }

    /// Lowers a thread's priority to a level, last of those that are ready there. Unlike a boost this
    /// changes the class's own level (§6.1.7: the process "lowers its priority").
    pub fn lower(&mut self, thread: u16, level: u8) {
        match self.threads[usize::from(thread)].state {
            State::Ready => {
                self.dequeue(thread);
                self.place(thread, level);
                self.enqueue(thread, false);
            }
            State::Running => self.place(thread, level),
            State::Asleep | State::Gone => {}
        }
    }

    /// Puts the running thread behind all others of its level.
    pub fn move_behind(&mut self) {
        if let Some(running) = self.running.take() {
            self.enqueue(running, false);
        }
    }

    /// Raises all threads to the highest level, or those that starve to theirs, in their present order. A blocked one may have to return
    /// first.
    pub fn raise(&mut self) {
        let mut order = VecDeque::new();
        for queue in self.queues.iter_mut().rev() {
            order.append(queue);
        }
        self.occupied = 0;
        for thread in 0..self.threads.len() {
            let known = &mut self.threads[thread];
            known.waited = known.waited.saturating_add(1);
            let stays = known.state == State::Asleep && self.rules.woken != Woken::Raised;
            let row = self.table[usize::from(known.own)];
            let level = match self.rules.raised {
                Raised::All => HIGHEST,
                // The driver may have moved it higher than that.
                Raised::Starved if known.waited > row.max_wait => row.starved.max(known.level),
                Raised::Starved => known.level,
            };
            if !stays && (level > known.level || self.rules.raised == Raised::All) {
                self.place(thread as u16, level);
            }
        }
        for thread in order {
            self.enqueue(thread, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::MILLISECOND;

    fn table() -> Table {
        let mut table: Table = [Row::default(); LEVELS];
        for (level, row) in table.iter_mut().enumerate() {
            row.quantum = MILLISECOND * (200 - 3 * level as u64);
            row.expired = (level as u8).saturating_sub(10);
            row.woken = 58;
            row.starved = 50 + level as u8 / 10;
        }
        table
    }

    /// Only threads that were blocked at a raise are raised when they are woken.
    fn sometimes(moved: Moved) -> Rules {
        Rules {
            woken: Woken::RaisedOnceInAWhile,
            moved,
            ..Rules::default()
        }
    }

    fn running(dispatcher: &mut Dispatcher) -> u16 {
        dispatcher.dispatch();
        dispatcher.running().expect("one is ready")
    }

    #[test]
    fn threads_of_a_level_take_turns_and_fall() {
        let mut dispatcher = Dispatcher::new(table(), Rules::default(), 3);
        for thread in 0..3 {
            dispatcher.begin(thread);
        }
        for thread in [0, 1, 2, 0, 1] {
            assert_eq!(running(&mut dispatcher), thread);
            dispatcher.expire();
        }
        assert_eq!(dispatcher.level(0), 39);
        assert_eq!(dispatcher.level(2), 49);
        assert_eq!(running(&mut dispatcher), 2, "it has the highest level");
    }

    #[test]
    fn a_preempted_thread_stays_first_and_keeps_what_is_left() {
        let mut dispatcher = Dispatcher::new(table(), Rules::default(), 3);
        dispatcher.begin(0);
        dispatcher.begin(1);
        assert_eq!(running(&mut dispatcher), 0);
        dispatcher.used(5 * MILLISECOND);
        dispatcher.preempt();
        assert_eq!(running(&mut dispatcher), 0);
        assert_eq!(dispatcher.left(0), table()[59].quantum - 5 * MILLISECOND);
    }

    #[test]
    fn who_was_blocked_comes_back_high_and_first() {
        let mut dispatcher = Dispatcher::new(table(), Rules::default(), 2);
        dispatcher.begin(0);
        dispatcher.begin(1);
        assert_eq!(running(&mut dispatcher), 0);
        dispatcher.block();
        assert_eq!(running(&mut dispatcher), 1);
        dispatcher.expire();
        running(&mut dispatcher);
        dispatcher.wake(0);
        assert_eq!(dispatcher.level(0), 58);
        assert!(dispatcher.is_outranked());
        dispatcher.preempt();
        assert_eq!(running(&mut dispatcher), 0);
    }

    #[test]
    fn who_was_blocked_for_a_short_time_comes_back_where_it_was() {
        let mut dispatcher = Dispatcher::new(table(), sometimes(Moved::KeepsItsOwn), 1);
        dispatcher.begin(0);
        running(&mut dispatcher);
        dispatcher.expire();
        running(&mut dispatcher);
        dispatcher.used(5 * MILLISECOND);
        let left = dispatcher.left(0);
        dispatcher.block();
        dispatcher.wake(0);
        assert_eq!((dispatcher.level(0), dispatcher.left(0)), (49, left));
        running(&mut dispatcher);
        dispatcher.block();
        dispatcher.raise();
        dispatcher.wake(0);
        assert_eq!(dispatcher.level(0), 58);
        assert_eq!(dispatcher.left(0), table()[58].quantum);
    }

    #[test]
    fn the_class_goes_on_from_its_own_level_when_a_boost_is_over() {
        for (moved, after) in [(Moved::KeepsItsOwn, 39), (Moved::Changes, 49)] {
            let mut dispatcher = Dispatcher::new(table(), sometimes(moved), 1);
            dispatcher.begin(0);
            running(&mut dispatcher);
            dispatcher.expire();
            dispatcher.boost(0);
            running(&mut dispatcher);
            assert_eq!(dispatcher.level(0), HIGHEST);
            assert_eq!(dispatcher.left(0), table()[59].quantum);
            dispatcher.expire();
            assert_eq!(dispatcher.level(0), after, "{moved:?}");
        }
    }

    #[test]
    fn a_boosted_thread_may_keep_what_is_left_of_its_quantum() {
        let rules = sometimes(Moved::KeepsItsQuantum);
        let mut dispatcher = Dispatcher::new(table(), rules, 1);
        dispatcher.begin(0);
        running(&mut dispatcher);
        dispatcher.expire();
        running(&mut dispatcher);
        dispatcher.used(5 * MILLISECOND);
        let left = dispatcher.left(0);
        assert_eq!(left, table()[49].quantum - 5 * MILLISECOND);
        dispatcher.boost(0);
        assert_eq!((dispatcher.level(0), dispatcher.left(0)), (HIGHEST, left));
        dispatcher.expire();
        assert_eq!(dispatcher.level(0), 39);
        assert_eq!(dispatcher.left(0), table()[39].quantum);
    }

    #[test]
    fn a_boosted_thread_that_blocks_comes_back_at_its_own_level() {
        let mut dispatcher = Dispatcher::new(table(), sometimes(Moved::KeepsItsOwn), 1);
        dispatcher.begin(0);
        running(&mut dispatcher);
        dispatcher.expire();
        running(&mut dispatcher);
        dispatcher.boost(0);
        dispatcher.block();
        dispatcher.wake(0);
        assert_eq!(dispatcher.level(0), 49);
        dispatcher.raise();
        assert_eq!(dispatcher.level(0), HIGHEST);
    }

    #[test]
    fn a_lowered_thread_stays_low_with_the_class_whatever_a_boost_leaves() {
        for moved in [Moved::KeepsItsOwn, Moved::KeepsItsQuantum, Moved::Changes] {
            let mut dispatcher = Dispatcher::new(table(), sometimes(moved), 1);
            dispatcher.begin(0);
            running(&mut dispatcher);
            dispatcher.lower(0, 30);
            assert_eq!(dispatcher.left(0), table()[30].quantum);
            dispatcher.expire();
            assert_eq!(dispatcher.level(0), 20, "{moved:?}");
            running(&mut dispatcher);
            dispatcher.lower(0, 7);
            dispatcher.block();
            dispatcher.wake(0);
            assert_eq!(dispatcher.level(0), 7, "{moved:?}");
        }
    }

    #[test]
    fn a_boosted_thread_is_next_and_a_raised_one_keeps_its_order() {
        let mut dispatcher = Dispatcher::new(table(), Rules::default(), 4);
        for thread in 0..4 {
            dispatcher.begin(thread);
        }
        assert_eq!(running(&mut dispatcher), 0);
        dispatcher.boost(3);
        assert!(!dispatcher.is_outranked(), "both are at the highest level");
        dispatcher.expire();
        assert_eq!(running(&mut dispatcher), 3);
        dispatcher.lower(3, 20);
        assert!(dispatcher.is_outranked());
        dispatcher.preempt();
        dispatcher.raise();
        for thread in [1, 2, 0, 3] {
            assert_eq!(running(&mut dispatcher), thread);
            dispatcher.end();
        }
        assert_eq!(dispatcher.dispatch(), None);
    }

    /// Levels of four threads of which one computes, one waits at a low level, one is blocked and one has been boosted, before and after
    /// a raise.
    fn raised(table: Table, raised: Raised) -> [(u8, Time); 4] {
        let rules = Rules {
            raised,
            ..sometimes(Moved::KeepsItsOwn)
        };
        let mut dispatcher = Dispatcher::new(table, rules, 4);
        for thread in 0..4 {
            dispatcher.begin(thread);
        }
        for _ in 0..8 {
            running(&mut dispatcher);
            dispatcher.expire();
        }
        assert_eq!(running(&mut dispatcher), 0);
        dispatcher.block();
        dispatcher.boost(1);
        assert_eq!(running(&mut dispatcher), 1);
        dispatcher.raise();
        let state = |thread| (dispatcher.level(thread), dispatcher.left(thread));
        [0, 1, 2, 3].map(state)
    }

    #[test]
    fn a_raise_of_all_leaves_nothing_for_a_boost_on_starvation() {
        // The default table's limit is 0: whoever has not completed a quantum at a raise starves.
        let with = |max_wait, starved| {
            table().map(|row| Row {
                max_wait,
                starved,
                ..row
            })
        };
        let all = raised(with(0, 53), Raised::All);
        assert_eq!(all, raised(with(32_000, 53), Raised::All));
        // Without it, the same threads are boosted, to the table's level instead of the highest; the driver has raised one higher.
        let highest = (HIGHEST, table()[59].quantum);
        let boosted = (53, table()[53].quantum);
        let asleep = (39, table()[39].quantum);
        assert_eq!(all, [asleep, highest, highest, highest]);
        assert_eq!(
            raised(with(0, 53), Raised::Starved),
            [asleep, highest, boosted, boosted]
        );
        assert_eq!(raised(with(0, HIGHEST), Raised::Starved), all);
        assert_eq!(
            raised(with(1, 53), Raised::Starved),
            [asleep, highest, asleep, asleep]
        );
    }

    #[test]
    fn who_has_waited_for_longer_than_the_table_allows_is_boosted() {
        let mut table = table();
        for row in &mut table {
            row.max_wait = 2;
        }
        let rules = Rules {
            raised: Raised::Starved,
            ..Rules::default()
        };
        let mut dispatcher = Dispatcher::new(table, rules, 2);
        dispatcher.begin(0);
        dispatcher.begin(1);
        running(&mut dispatcher);
        dispatcher.expire();
        running(&mut dispatcher);
        for level in [49, 49, 54] {
            dispatcher.raise();
            assert_eq!(dispatcher.level(0), level);
        }
        // A completed quantum ends the wait.
        dispatcher.raise();
        dispatcher.expire();
        assert_eq!(running(&mut dispatcher), 0);
        dispatcher.expire();
        for _ in 0..2 {
            dispatcher.raise();
            assert_eq!(dispatcher.level(0), 44);
        }
    }
}
