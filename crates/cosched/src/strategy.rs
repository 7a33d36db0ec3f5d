//! The space of strategies: how to wait, and what to do on arrival (Table 6.1).

/// How a process waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waiting {
    /// The process spins until the message has arrived.
    Busy,
    /// The process spins for a while, then blocks; a message's arrival interrupts the host, which wakes it.
    Block,
    /// The process spins for a while, lowers its priority, has another process with messages boosted, and spins on.
    Yield,
}

/// Which process a periodic boost prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pick {
    /// The next process, round robin, that has a pending message.
    RoundRobin,
    /// The process whose pending message arrived last.
    Newest,
    /// The process that owns the present slice of the common clock, unless it has had more than its
    /// share ([`crate::shares`]).
    Share,
}

/// What a node does when a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// Nothing.
    Ignore,
    /// The card interrupts the host if the destination does not seem to run, and the driver boosts the destination.
    Interrupt,
    /// The driver checks all endpoints periodically, and boosts one process.
    Periodic(Pick),
}

/// A strategy: one way of waiting with one reaction to arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// How a process waits.
    pub waiting: Waiting,
    /// What an arrival causes.
    pub arrival: Arrival,
}

impl Strategy {
    const fn new(waiting: Waiting, arrival: Arrival) -> Self {
        Self { waiting, arrival }
    }

    /// The operating system's own scheduling (§6.1.1).
    pub const LOCAL: Self = Self::new(Waiting::Busy, Arrival::Ignore);
    /// Spin block (§6.1.2).
    pub const SB: Self = Self::new(Waiting::Block, Arrival::Ignore);
    /// Dynamic coscheduling (§6.1.3).
    pub const DCS: Self = Self::new(Waiting::Busy, Arrival::Interrupt);
    /// Dynamic coscheduling with spin block (§6.1.4).
    pub const DCS_SB: Self = Self::new(Waiting::Block, Arrival::Interrupt);
    /// Periodic boost (§6.1.5).
    pub const PB: Self = Self::new(Waiting::Busy, Arrival::Periodic(Pick::RoundRobin));
    /// Periodic boost by time stamps (§6.1.5).
    pub const PBT: Self = Self::new(Waiting::Busy, Arrival::Periodic(Pick::Newest));
    /// Periodic boost with spin block (§6.1.6).
    pub const PB_SB: Self = Self::new(Waiting::Block, Arrival::Periodic(Pick::RoundRobin));
    /// Spin yield (§6.1.7).
    pub const SY: Self = Self::new(Waiting::Yield, Arrival::Ignore);
    /// Dynamic coscheduling with spin yield (§6.1.8).
    pub const DCS_SY: Self = Self::new(Waiting::Yield, Arrival::Interrupt);
    /// Periodic boost with spin yield (§6.1.9).
    pub const PB_SY: Self = Self::new(Waiting::Yield, Arrival::Periodic(Pick::RoundRobin));
    /// Fair boost, which is not in the thesis: slices of a common clock, kept to fair shares
    /// ([`crate::shares`]).
    pub const FB: Self = Self::new(Waiting::Busy, Arrival::Periodic(Pick::Share));

    /// The thesis's strategies with their names, in the order of Table 6.4.
    pub const THESIS: [(&'static str, Self); 10] = [
        ("LOCAL", Self::LOCAL),
        ("SB", Self::SB),
        ("DCS", Self::DCS),
        ("DCS-SB", Self::DCS_SB),
        ("PB", Self::PB),
        ("PBT", Self::PBT),
        ("PB-SB", Self::PB_SB),
        ("SY", Self::SY),
        ("DCS-SY", Self::DCS_SY),
        ("PB-SY", Self::PB_SY),
    ];

    /// All strategies with their names: the thesis's, then ours.
    pub fn all() -> impl Iterator<Item = (&'static str, Self)> {
        Self::THESIS.into_iter().chain([("FB", Self::FB)])
    }

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::all().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, strategy)| strategy)
    }

    /// The strategy's name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        let found = Self::all().find(|(_, strategy)| *strategy == self);
        found.map(|(name, _)| name)
    }

    /// Whether the driver is to be called periodically.
    pub fn is_periodic(self) -> bool {
        matches!(self.arrival, Arrival::Periodic(_))
    }

    /// Whether the card needs to know which process the host runs.
    pub fn needs_running(self) -> bool {
        self.arrival == Arrival::Interrupt
    }
}

/// A strategy with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The strategy.
    pub strategy: Strategy,
    /// How long a process spins before it calls the driver, in nanoseconds.
    pub spin_ns: u64,
    /// Whether a woken process calls the driver again if it was not woken by the message for which
    /// it waits.
    pub blocks_again: bool,
    /// How often the driver's periodic function is called, in nanoseconds.
    pub period_ns: u64,
    /// How long a slice of the common clock is for [`Pick::Share`], in nanoseconds.
    pub slice_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strategies_fill_the_space_and_have_one_name_each() {
        for waiting in [Waiting::Busy, Waiting::Block, Waiting::Yield] {
            for arrival in [
                Arrival::Ignore,
                Arrival::Interrupt,
                Arrival::Periodic(Pick::RoundRobin),
            ] {
                let strategy = Strategy { waiting, arrival };
                let name = strategy.name().expect("Table 6.1 names it");
                assert_eq!(Strategy::named(name), Some(strategy));
            }
        }
        assert_eq!(Strategy::all().count(), 11);
        assert_eq!(Strategy::named("pb-sy"), Some(Strategy::PB_SY));
        assert_eq!(Strategy::named("gang"), None);
    }
}
