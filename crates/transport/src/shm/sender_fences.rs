//! The fence that this process has its senders pass before it sleeps, where they leave out their own.

use causeway_sys::membarrier;

/// Whether that works.
#[derive(Debug, Default)]
pub(super) struct SenderFences {
    /// The last one has failed.
    fail: bool,
    /// That has been logged, which it is once: filters of system calls are per thread, so that it may change with each call.
    has_warned: bool,
    /// A test has them fail.
    #[cfg(all(test, not(loom)))]
    pub(super) broken: bool,
}

impl SenderFences {
    /// Has all senders pass a fence, and this process as well. If it returns `false`, a sender may have missed what this process has
    /// written before, and not ring.
    pub(super) fn pass(&mut self) -> bool {
        let passed = membarrier::heavy() && self.may_work();
        if !passed && !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "the system does not make senders pass a fence any more (membarrier; a filter of system calls?): this process polls \
                 instead of sleeping"
            );
        }
        self.fail = !passed;
        passed
    }

    #[cfg(not(all(test, not(loom))))]
    fn may_work(&self) -> bool {
        true
    }

    #[cfg(all(test, not(loom)))]
    fn may_work(&self) -> bool {
        !self.broken
    }

    /// Which side issues fences, for reports.
    pub(super) fn report(&self, is_asymmetric: bool) -> String {
        let text = match is_asymmetric {
            true if self.fail => {
                "on the sleeping side, which the system refuses: this process does not sleep"
            }
            true => "on the sleeping side (membarrier)",
            false => "on both sides: no membarrier",
        };
        text.to_owned()
    }
}
