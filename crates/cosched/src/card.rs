//! The card's part: which arrivals interrupt the host.

use alloc::vec::Vec;

use crate::strategy::{Settings, Strategy};
use crate::view::Process;

/// What the card knows of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Endpoint {
    /// Its process sleeps, or is about to, and requests an interrupt.
    is_registered: bool,
    /// When the last message arrived, in nanoseconds.
    last_arrival_ns: Option<u64>,
}

/// The network interface's part of a strategy.
#[derive(Clone, Debug)]
pub struct Card {
    strategy: Strategy,
    endpoints: Vec<Endpoint>,
    running: Option<Process>,
}

impl Card {
    /// A card with this number of endpoints, of which none has registered.
    pub fn new(settings: &Settings, endpoints: usize) -> Self {
        Self {
            strategy: settings.strategy,
            endpoints: alloc::vec![Endpoint::default(); endpoints],
            running: None,
        }
    }

    /// The process of this endpoint requests an interrupt with the next message.
    pub fn register(&mut self, process: Process) {
        if let Some(endpoint) = self.endpoints.get_mut(usize::from(process)) {
            endpoint.is_registered = true;
        }
    }

    /// The process of this endpoint no longer requests an interrupt.
    pub fn unregister(&mut self, process: Process) {
        if let Some(endpoint) = self.endpoints.get_mut(usize::from(process)) {
            endpoint.is_registered = false;
        }
    }

    /// Whether the process has registered.
    pub fn is_registered(&self, process: Process) -> bool {
        let endpoint = self.endpoints.get(usize::from(process));
        endpoint.is_some_and(|endpoint| endpoint.is_registered)
    }

    /// Records which process the host runs, as fetched from the host's variable: `None` if none of
    /// the table's processes runs.
    pub fn set_running(&mut self, running: Option<Process>) {
        self.running = running;
    }

    /// Notes the arrival of a message and returns whether to interrupt the host: if its destination
    /// has registered, or, if the strategy requires it, does not seem to run. A registration is
    /// used up by one interrupt.
    ///
    /// A message for an endpoint that does not exist interrupts no process.
    pub fn arrived(&mut self, now_ns: u64, process: Process) -> bool {
        let Some(endpoint) = self.endpoints.get_mut(usize::from(process)) else {
            return false;
        };
        endpoint.last_arrival_ns = Some(now_ns);
        let was_registered = core::mem::take(&mut endpoint.is_registered);
        let is_apart = self.strategy.needs_running() && self.running != Some(process);
        was_registered || is_apart
    }

    /// When the last message for this endpoint arrived, in nanoseconds.
    pub fn last_arrival_ns(&self, process: Process) -> Option<u64> {
        let endpoint = self.endpoints.get(usize::from(process));
        endpoint.and_then(|endpoint| endpoint.last_arrival_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(strategy: Strategy) -> Card {
        let settings = Settings {
            strategy,
            spin_ns: 1,
            blocks_again: false,
            period_ns: 1,
            slice_ns: 1,
        };
        Card::new(&settings, 3)
    }

    #[test]
    fn a_registration_is_good_for_one_interrupt() {
        let mut card = card(Strategy::SB);
        assert!(!card.arrived(10, 1));
        card.register(1);
        assert!(!card.arrived(20, 2), "another endpoint's message");
        assert!(card.arrived(30, 1));
        assert!(!card.arrived(40, 1));
        card.register(1);
        card.unregister(1);
        assert!(!card.arrived(50, 1));
        assert_eq!(card.last_arrival_ns(1), Some(50));
        assert_eq!(card.last_arrival_ns(0), None);
    }

    #[test]
    fn dynamic_coscheduling_interrupts_when_another_process_seems_to_run() {
        let mut dynamic = card(Strategy::DCS);
        assert!(dynamic.arrived(1, 0), "nothing is known to run");
        dynamic.set_running(Some(0));
        assert!(!dynamic.arrived(2, 0));
        assert!(dynamic.arrived(2, 1));
        let mut periodic = card(Strategy::PB);
        periodic.set_running(Some(0));
        assert!(!periodic.arrived(2, 1));
    }

    #[test]
    fn endpoints_that_do_not_exist_do_no_harm() {
        let mut card = card(Strategy::DCS_SB);
        card.register(9);
        assert!(!card.arrived(1, 9));
        assert!(!card.is_registered(9));
    }
}
