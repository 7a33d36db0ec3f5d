//! The driver's part: which processes are boosted, lowered, blocked and woken.

use crate::shares::Shares;
use crate::strategy::{Arrival, Pick, Settings, Strategy, Waiting};
use crate::view::{Process, View};

/// A change to a process's scheduling that the caller carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give the process the highest priority, and place it before all others that have it.
    Boost(Process),
    /// Give the process a priority below that of each other parallel process of the node.
    Lower(Process),
    /// Block the process until it is woken. The card must be notified first: register, then call
    /// the driver.
    Block(Process),
    /// Wake the process, as the operating system wakes a blocked one.
    Wake(Process),
}

/// At most two actions, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions([Option<Action>; 2]);

impl Actions {
    fn one(action: Action) -> Self {
        Self([Some(action), None])
    }

    fn two(first: Action, second: Option<Action>) -> Self {
        Self([Some(first), second])
    }
}

impl IntoIterator for Actions {
    type Item = Action;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Action>, 2>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

/// The driver. Tables of [`View`]s that are passed to it have one entry for each process of the
/// node.
#[derive(Clone, Debug)]
pub struct Driver {
    strategy: Strategy,
    /// Where the next periodic boost begins its search.
    next: usize,
    shares: Shares,
}

/// A process's number from its place in a table; no table has more processes than the number can
/// count.
fn number(place: usize) -> Process {
    Process::try_from(place).unwrap_or(Process::MAX)
}

impl Driver {
    /// A driver that has not done anything yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            strategy: settings.strategy,
            next: 0,
            shares: Shares::new(settings),
        }
    }

    /// Returns what to do when a process has spun for as long as it may. Its endpoint must have
    /// been registered with the card before the views were made: a message that arrived in between
    /// either shows in them or causes an interrupt.
    ///
    /// If no action is returned, the process goes on spinning, and the caller withdraws its
    /// registration.
    pub fn spin_expired(&mut self, process: Process, views: &[View]) -> Actions {
        let view = views.get(usize::from(process)).copied().unwrap_or_default();
        if view.has_pending {
            return Actions::default();
        }
        match self.strategy.waiting {
            Waiting::Busy => Actions::default(),
            Waiting::Block => Actions::one(Action::Block(process)),
            Waiting::Yield => {
                // The caller has no message itself, so the process found is another one.
                let other = self.next_in_turn(views);
                let boost = other.map(|place| Action::Boost(number(place)));
                Actions::two(Action::Lower(process), boost)
            }
        }
    }

    /// Returns what to do when the card has interrupted for a message to this process.
    pub fn interrupt(&mut self, process: Process, views: &[View]) -> Actions {
        let Some(view) = views.get(usize::from(process)) else {
            return Actions::default();
        };
        if view.is_gone || view.is_running {
            return Actions::default();
        }
        let boost = match self.strategy.arrival {
            Arrival::Interrupt => true,
            Arrival::Periodic(Pick::Share) => self.shares.is_owner(process),
            _ => false,
        };
        let boost = boost.then_some(Action::Boost(process));
        match (view.awaits_message, boost) {
            (true, boost) => Actions::two(Action::Wake(process), boost),
            // The process may be blocked on something other than messages; boosting would not help it.
            (false, Some(boost)) if !view.is_asleep => Actions::one(boost),
            (false, _) => Actions::default(),
        }
    }

    /// Returns what to do when the strategy's period has passed.
    pub fn period(&mut self, now_ns: u64, views: &[View]) -> Actions {
        let Arrival::Periodic(pick) = self.strategy.arrival else {
            return Actions::default();
        };
        let sleeper = views
            .iter()
            .position(|view| awaits_message(view) && view.has_pending);
        let wake = sleeper.map(|place| Action::Wake(number(place)));
        let picked = match pick {
            // Where processes sleep with messages, they are woken; none is boosted meanwhile (§6.1.6).
            _ if pick != Pick::Share && views.iter().any(awaits_message) => None,
            Pick::RoundRobin => self.next_in_turn(views),
            Pick::Newest => newest(views),
            Pick::Share => self.shares.pick(now_ns, views).map(usize::from),
        };
        Actions([wake, picked.map(|place| Action::Boost(number(place)))])
    }

    fn next_in_turn(&mut self, views: &[View]) -> Option<usize> {
        let count = views.len();
        let mut places = (0..count).map(|step| (self.next + step) % count);
        let found = places.find(|&place| {
            let view = &views[place];
            can_be_boosted(view) && view.has_pending
        })?;
        self.next = (found + 1) % count;
        Some(found)
    }
}

fn awaits_message(view: &View) -> bool {
    view.awaits_message && !view.is_gone
}

fn can_be_boosted(view: &View) -> bool {
    !view.is_gone && !view.is_asleep
}

fn newest(views: &[View]) -> Option<usize> {
    let pending = views
        .iter()
        .enumerate()
        .filter(|(_, view)| can_be_boosted(view) && view.has_pending);
    let newest = pending.max_by_key(|(_, view)| view.last_arrival_ns)?;
    Some(newest.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn driver(strategy: Strategy) -> Driver {
        Driver::new(&Settings {
            strategy,
            spin_ns: 300_000,
            blocks_again: false,
            period_ns: 10_000_000,
            slice_ns: 50_000_000,
        })
    }

    fn ready(has_pending: bool, last_arrival_ns: u64) -> View {
        View {
            has_pending,
            last_arrival_ns: Some(last_arrival_ns),
            ..View::default()
        }
    }

    fn blocked(has_pending: bool) -> View {
        View {
            is_asleep: true,
            awaits_message: true,
            has_pending,
            ..View::default()
        }
    }

    fn list(actions: Actions) -> Vec<Action> {
        actions.into_iter().collect()
    }

    #[test]
    fn periodic_boost_goes_round_over_endpoints_with_messages() {
        let mut driver = driver(Strategy::PB);
        let views = [ready(true, 1), ready(false, 2), ready(true, 3)];
        let boosted: Vec<Action> = (0..4).flat_map(|_| driver.period(0, &views)).collect();
        assert_eq!(boosted, [0, 2, 0, 2].map(Action::Boost));
        assert_eq!(list(driver.period(0, &[ready(false, 1)])), []);
    }

    #[test]
    fn periodic_boost_by_time_stamps_takes_the_newest() {
        let mut driver = driver(Strategy::PBT);
        let views = [ready(true, 1), ready(true, 7), ready(false, 9)];
        for _ in 0..2 {
            assert_eq!(list(driver.period(0, &views)), [Action::Boost(1)]);
        }
    }

    #[test]
    fn with_spin_block_sleepers_with_messages_come_first() {
        let mut driver = driver(Strategy::PB_SB);
        let views = [ready(true, 1), blocked(false), blocked(true)];
        assert_eq!(list(driver.period(0, &views)), [Action::Wake(2)]);
        let views = [ready(true, 1), blocked(false)];
        assert_eq!(list(driver.period(0, &views)), []);
        let views = [ready(true, 1), ready(false, 1)];
        assert_eq!(list(driver.period(0, &views)), [Action::Boost(0)]);
    }

    #[test]
    fn what_is_blocked_on_a_device_or_gone_is_not_boosted() {
        let on_device = View {
            is_asleep: true,
            has_pending: true,
            ..View::default()
        };
        let gone = View {
            is_gone: true,
            has_pending: true,
            ..View::default()
        };
        for strategy in [
            Strategy::PB,
            Strategy::PBT,
            Strategy::PB_SB,
            Strategy::PB_SY,
        ] {
            assert_eq!(list(driver(strategy).period(0, &[on_device, gone])), []);
        }
        for process in [0, 1, 2] {
            let actions = driver(Strategy::DCS_SB).interrupt(process, &[on_device, gone]);
            assert_eq!(list(actions), []);
        }
    }

    #[test]
    fn only_periodic_strategies_boost_periodically() {
        for (name, strategy) in Strategy::THESIS {
            let actions = driver(strategy).period(0, &[ready(true, 1)]);
            assert_eq!(list(actions).is_empty(), !strategy.is_periodic(), "{name}");
        }
    }

    #[test]
    fn an_interrupt_wakes_and_dynamic_coscheduling_boosts_besides() {
        let views = [blocked(true), ready(true, 1)];
        assert_eq!(
            list(driver(Strategy::SB).interrupt(0, &views)),
            [Action::Wake(0)]
        );
        assert_eq!(
            list(driver(Strategy::DCS_SB).interrupt(0, &views)),
            [Action::Wake(0), Action::Boost(0)]
        );
        assert_eq!(
            list(driver(Strategy::DCS).interrupt(1, &views)),
            [Action::Boost(1)]
        );
    }

    #[test]
    fn the_handler_checks_whether_the_destination_runs_after_all() {
        let running = View {
            is_running: true,
            ..ready(true, 1)
        };
        assert_eq!(list(driver(Strategy::DCS).interrupt(0, &[running])), []);
    }

    #[test]
    fn a_message_that_came_while_registering_keeps_a_process_from_blocking() {
        let running = |has_pending| View {
            is_running: true,
            ..ready(has_pending, 1)
        };
        let mut driver = driver(Strategy::SB);
        assert_eq!(
            list(driver.spin_expired(0, &[running(false)])),
            [Action::Block(0)]
        );
        assert_eq!(list(driver.spin_expired(0, &[running(true)])), []);
    }

    #[test]
    fn yielding_lowers_and_boosts_another_with_messages() {
        let running = View {
            is_running: true,
            ..ready(false, 1)
        };
        let mut driver = driver(Strategy::SY);
        let views = [running, ready(false, 2), ready(true, 3)];
        assert_eq!(
            list(driver.spin_expired(0, &views)),
            [Action::Lower(0), Action::Boost(2)]
        );
        assert_eq!(
            list(driver.spin_expired(0, &views[..2])),
            [Action::Lower(0)],
            "no other has messages"
        );
    }
}
