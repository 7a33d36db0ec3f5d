//! A processor of the host.

use super::shared::{Shared, Span};
use crate::engine::{Time, duration_at};

/// The costs of a host's processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Cycles per second.
    pub clock_hz: u64,
    /// The number of processors.
    pub processors: u64,
    /// Entering the kernel and returning.
    pub system_call: Time,
    /// Switching from one process to another.
    pub context_switch: Time,
    /// From a device's signal to the first instruction of its handler, and back afterwards.
    pub interrupt: Time,
    /// A programmed access to the card (a store, or a load besides the bus's time).
    pub card_access: Time,
}

/// One processor, which processes and interrupt handlers share.
///
/// A process or handler keeps the processor to the end of the requested time; a process that computes for long requests it in
/// pieces.
#[derive(Clone, Debug)]
pub struct HostCpu {
    spec: HostSpec,
    time: Shared,
    running: Option<u32>,
    switches: u64,
}

impl HostCpu {
    /// An idle processor.
    pub fn new(spec: HostSpec) -> Self {
        Self {
            spec,
            time: Shared::default(),
            running: None,
            switches: 0,
        }
    }

    /// The processors' parameters.
    pub fn spec(&self) -> &HostSpec {
        &self.spec
    }

    /// How long `cycles` take.
    pub fn cycles(&self, cycles: u64) -> Time {
        duration_at(cycles, self.spec.clock_hz)
    }

    /// Lets `process` compute for `for_time`, after a context switch when another one ran before it.
    pub fn run(&mut self, now: Time, process: u32, for_time: Time) -> Span {
        let mut switch = 0;
        if self.running.is_some_and(|running| running != process) {
            switch = self.spec.context_switch;
            self.switches += 1;
        }
        self.running = Some(process);
        let span = self.time.occupy(now, switch + for_time);
        Span {
            start: span.start + switch,
            end: span.end,
        }
    }

    /// Lets `process` make a system call that computes for `for_time` in the kernel.
    pub fn system_call(&mut self, now: Time, process: u32, for_time: Time) -> Span {
        self.run(now, process, self.spec.system_call + for_time)
    }

    /// Interrupts the process that runs, for a handler that takes `for_time`.
    pub fn interrupt(&mut self, now: Time, for_time: Time) -> Span {
        self.time.occupy(now, self.spec.interrupt + for_time)
    }

    /// The processor as a resource.
    pub fn time(&self) -> &Shared {
        &self.time
    }

    /// The number of switches between processes.
    pub fn switches(&self) -> u64 {
        self.switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_process_costs_a_context_switch() {
        let mut cpu = HostCpu::new(HostSpec {
            clock_hz: 1_000_000_000,
            processors: 1,
            system_call: 20,
            context_switch: 100,
            interrupt: 50,
            card_access: 5,
        });
        assert_eq!(cpu.run(0, 1, 10), Span { start: 0, end: 10 });
        assert_eq!(cpu.run(10, 1, 10), Span { start: 10, end: 20 });
        let other = cpu.run(20, 2, 10);
        assert_eq!((other.start, other.end), (120, 130));
        assert_eq!(cpu.interrupt(130, 5).end, 185);
        assert_eq!(cpu.system_call(185, 2, 10).end, 215);
        assert_eq!((cpu.switches(), cpu.cycles(3)), (1, 3_000));
    }
}
