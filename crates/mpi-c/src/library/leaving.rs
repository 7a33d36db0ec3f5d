//! How a thread leaves the library where several share it.

use causeway_mpi::process::Process;
use causeway_sys::critical_section::Called;

use super::{INSTANCE, Inside};
use crate::progress_state;

impl Inside {
    /// Leaves, and wakes other threads whose operations have changed meanwhile. Mostly there are none.
    #[inline(never)]
    pub(super) fn leave_and_wake(&mut self) {
        let entry = &INSTANCE.entry;
        let concerns_others = |process: &Process| {
            let may_concern = !entry.is_unchanged(process.change_counts()) || process.has_parked();
            entry.is_shared() && may_concern || progress_state::is_on()
        };
        let process = self.library().process.as_ref();
        match process.is_some_and(concerns_others) {
            true => self.note_and_wake(),
            false => entry.leave(),
        }
    }

    #[inline(never)]
    fn note_and_wake(&mut self) {
        let entry = &INSTANCE.entry;
        let mut called = Called::default();
        if let Some(process) = &mut self.library().process
            && !std::thread::panicking()
        {
            if entry.is_shared() {
                called = entry.note_changes(process.change_counts(), |op| process.is_done(op));
                process.check_parked();
            }
            progress_state::leave(process);
        }
        entry.leave();
        called.wake();
    }
}
