//! The host's dispatcher: the time-sharing class of Solaris as §6.1.1 describes it.
//!
//! 60 levels, the highest first. A thread that has used up its quantum falls to a lower level and goes behind all others there; one
//! that is preempted keeps its place at the head; one that was blocked comes back at the head of its level, mostly a higher one; and once
//! in a while all threads are raised to the highest level, which is what keeps them from starving.
//!
//! A driver moves threads between queues: it boosts and lowers them. The class, which knows nothing of that, goes on from the
//! level that it has given the thread itself ([`Moved`]).

use std::collections::VecDeque;

use crate::engine::Time;

/// Priority levels.
pub const LEVELS: usize = 60;
/// The highest of them.
pub const HIGHEST: u8 = 59;

/// What the class does at one level (a row of `ts_dptbl`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// How long a thread runs before it falls.
    pub quantum: Time,
    /// To which level it falls then.
    pub expired: u8,
    /// At which level it comes back when it has been blocked.
    pub woken: u8,
}

/// Which blocked threads come back at the level that the table gives for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Woken {
    /// All of them.
    #[default]
    Raised,
    /// Those that were blocked while all others were raised. Any other comes back at the level that it had, with what was left of
    /// its quantum.
    RaisedOnceInAWhile,
}

/// What remains of a thread's own level when the driver has put it into the queue of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moved {
    /// All: the thread has one quantum of the other level, then falls from its own, and one that blocks comes back at its own.
    #[default]
    KeepsItsOwn,
    /// Nothing: it is as if the class had given it the other level.
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
    /// The level that it is dispatched at.
    level: u8,
    /// The level that the class has given it.
    own: u8,
    left: Time,
    state: State,
    /// It was blocked while all others were raised.
    missed_raise: bool,
}

/// A node's threads by priority, and the one that runs.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    table: Table,
    woken: Woken,
    moved: Moved,
    threads: Vec<Thread>,
    queues: Vec<VecDeque<u16>>,
    /// A bit for each level that has a ready thread.
    occupied: u64,
    running: Option<u16>,
}

impl Dispatcher {
    /// A dispatcher of so many threads, none of which has begun.
    pub fn new(table: Table, woken: Woken, moved: Moved, threads: usize) -> Self {
        let thread = Thread {
            level: HIGHEST,
            own: HIGHEST,
            left: table[usize::from(HIGHEST)].quantum,
            state: State::Gone,
            missed_raise: false,
        };
        Self {
            table,
            woken,
            moved,
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

    /// What is left of a thread's quantum.
    pub fn left(&self, thread: u16) -> Time {
        self.threads[usize::from(thread)].left
    }

    /// Whether the thread has neither ended nor not begun yet.
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

    /// The class gives a thread a level, and the whole quantum of it.
    fn place(&mut self, thread: u16, level: u8) {
        self.dispatch_at(thread, level);
        let known = &mut self.threads[usize::from(thread)];
        known.own = level;
        known.missed_raise = false;
    }

    /// The driver puts a thread into a level's queue, and gives it the whole quantum of that.
    fn move_to(&mut self, thread: u16, level: u8) {
        match self.moved {
            Moved::KeepsItsOwn => self.dispatch_at(thread, level),
            Moved::Changes => self.place(thread, level),
        }
    }

    fn dispatch_at(&mut self, thread: u16, level: u8) {
        let known = &mut self.threads[usize::from(thread)];
        known.level = level;
        known.left = self.table[usize::from(level)].quantum;
    }

    /// A thread begins, behind all others of the highest level.
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

    /// The thread that runs has had `time` of the processor.
    pub fn used(&mut self, time: Time) {
        if let Some(running) = self.running {
            let known = &mut self.threads[usize::from(running)];
            known.left = known.left.saturating_sub(time);
        }
    }

    /// The thread that runs makes place for a higher one, and stays first of its level.
    pub fn preempt(&mut self) {
        if let Some(running) = self.running.take() {
            self.enqueue(running, true);
        }
    }

    /// The thread that runs has used up its quantum: it falls, and goes behind all others there.
    pub fn expire(&mut self) {
        if let Some(running) = self.running.take() {
            let own = self.threads[usize::from(running)].own;
            let expired = self.table[usize::from(own)].expired;
            self.place(running, expired);
            self.enqueue(running, false);
        }
    }

    /// The thread that runs blocks.
    pub fn block(&mut self) {
        if let Some(running) = self.running.take() {
            self.threads[usize::from(running)].state = State::Asleep;
        }
    }

    /// The thread that runs ends.
    pub fn end(&mut self) {
        if let Some(running) = self.running.take() {
            self.threads[usize::from(running)].state = State::Gone;
        }
    }

    /// A blocked thread becomes ready, first of its level: of the one that the table gives it, or of its own.
    pub fn wake(&mut self, thread: u16) {
        if !self.is_asleep(thread) {
            return;
        }
        let known = &mut self.threads[usize::from(thread)];
        let own = known.own;
        known.level = own;
        let is_raised = match self.woken {
            Woken::Raised => true,
            Woken::RaisedOnceInAWhile => known.missed_raise && own < HIGHEST,
        };
        if is_raised {
            self.place(thread, self.table[usize::from(own)].woken);
        }
        self.enqueue(thread, true);
    }

    /// The driver raises a thread to the highest level, first there, if it is not blocked.
    pub fn boost(&mut self, thread: u16) {
        match self.threads[usize::from(thread)].state {
            State::Ready => {
                self.dequeue(thread);
                self.move_to(thread, HIGHEST);
                self.enqueue(thread, true);
            }
            State::Running => self.move_to(thread, HIGHEST),
            State::Asleep | State::Gone => {}
        }
    }

    /// The driver puts a thread into the queue of a lower level: of all that are ready there it comes last.
    pub fn lower(&mut self, thread: u16, level: u8) {
        match self.threads[usize::from(thread)].state {
            State::Ready => {
                self.dequeue(thread);
                self.move_to(thread, level);
                self.enqueue(thread, false);
            }
            State::Running => self.move_to(thread, level),
            State::Asleep | State::Gone => {}
        }
    }

    /// The thread that runs goes behind all others of its level.
    pub fn give_way(&mut self) {
        if let Some(running) = self.running.take() {
            self.enqueue(running, false);
        }
    }

    /// Raises all threads to the highest level; among themselves they keep their order. One that is blocked may have to come back
    /// first.
    pub fn raise_all(&mut self) {
        let mut order = VecDeque::new();
        for queue in self.queues.iter_mut().rev() {
            order.append(queue);
        }
        self.occupied = 0;
        for thread in 0..self.threads.len() {
            match (self.woken, self.threads[thread].state) {
                (Woken::RaisedOnceInAWhile, State::Asleep) => {
                    self.threads[thread].missed_raise = true;
                }
                _ => self.place(thread as u16, HIGHEST),
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
        }
        table
    }

    fn running(dispatcher: &mut Dispatcher) -> u16 {
        dispatcher.dispatch();
        dispatcher.running().expect("one is ready")
    }

    #[test]
    fn threads_of_a_level_take_turns_and_fall() {
        let mut dispatcher = Dispatcher::new(table(), Woken::Raised, Moved::KeepsItsOwn, 3);
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
        let mut dispatcher = Dispatcher::new(table(), Woken::Raised, Moved::KeepsItsOwn, 3);
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
        let mut dispatcher = Dispatcher::new(table(), Woken::Raised, Moved::KeepsItsOwn, 2);
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
        let mut dispatcher =
            Dispatcher::new(table(), Woken::RaisedOnceInAWhile, Moved::KeepsItsOwn, 1);
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
        dispatcher.raise_all();
        dispatcher.wake(0);
        assert_eq!(dispatcher.level(0), 58);
        assert_eq!(dispatcher.left(0), table()[58].quantum);
    }

    #[test]
    fn the_class_goes_on_from_its_own_level_when_a_boost_is_over() {
        for (moved, after) in [(Moved::KeepsItsOwn, 39), (Moved::Changes, 49)] {
            let mut dispatcher = Dispatcher::new(table(), Woken::RaisedOnceInAWhile, moved, 1);
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
    fn a_boosted_thread_that_blocks_comes_back_at_its_own_level() {
        let woken = Woken::RaisedOnceInAWhile;
        let mut dispatcher = Dispatcher::new(table(), woken, Moved::KeepsItsOwn, 1);
        dispatcher.begin(0);
        running(&mut dispatcher);
        dispatcher.expire();
        running(&mut dispatcher);
        dispatcher.boost(0);
        dispatcher.block();
        dispatcher.wake(0);
        assert_eq!(dispatcher.level(0), 49);
        dispatcher.raise_all();
        assert_eq!(dispatcher.level(0), HIGHEST);
    }

    #[test]
    fn a_boosted_thread_is_next_and_a_raised_one_keeps_its_order() {
        let mut dispatcher = Dispatcher::new(table(), Woken::Raised, Moved::KeepsItsOwn, 4);
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
        dispatcher.raise_all();
        for thread in [1, 2, 0, 3] {
            assert_eq!(running(&mut dispatcher), thread);
            dispatcher.end();
        }
        assert_eq!(dispatcher.dispatch(), None);
    }
}
