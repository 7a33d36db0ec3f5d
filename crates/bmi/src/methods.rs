//! The methods of an instance, and which of them are worth polling.

use causeway_transport::Method;

/// A method that has answered so many polls in vain is quiet.
const QUIET_POLLS: u32 = 1000;

/// The methods, cheapest first.
pub(crate) struct Methods {
    pub(crate) slots: Vec<Slot>,
    /// The one method that is not skipped, if it is one.
    pub(crate) only: Option<usize>,
}

/// One method.
pub(crate) struct Slot {
    pub(crate) method: Box<dyn Method>,
    /// Cached from [`Method::scheme`].
    pub(crate) scheme: &'static str,
    /// Cached from [`Method::limits`].
    pub(crate) max_packet: usize,
    /// Likewise.
    pub(crate) eager_bytes: usize,
    /// Polls in vain since something happened.
    quiet: u32,
    /// Not polled except now and then: it is unused, or it is quiet and another is not.
    pub(crate) skip: bool,
}

impl Methods {
    /// Takes the methods over.
    pub(crate) fn new(methods: Vec<Box<dyn Method>>) -> Self {
        let slots = methods.into_iter().map(|method| Slot {
            scheme: method.scheme(),
            max_packet: method.limits().max_packet,
            eager_bytes: method.limits().eager_bytes,
            method,
            quiet: 0,
            skip: false,
        });
        Self {
            slots: slots.collect(),
            only: None,
        }
    }

    /// The method of this index, to do something with it: it is worth polling then.
    #[inline]
    pub(crate) fn get(&mut self, index: usize) -> &mut dyn Method {
        let slot = &mut self.slots[index];
        slot.polled(true);
        if self.only != Some(index) {
            self.only = None;
        }
        slot.method.as_mut()
    }

    /// The schemes by index.
    pub(crate) fn schemes(&self) -> Vec<&'static str> {
        self.slots.iter().map(|slot| slot.scheme).collect()
    }

    /// Decides anew which methods to skip: those that nobody can reach us by, and those that are quiet
    /// while another is not.
    pub(crate) fn choose(&mut self) {
        let some_busy = self.slots.iter().any(|slot| slot.quiet < QUIET_POLLS);
        for slot in &mut self.slots {
            let outdone = some_busy && slot.quiet >= QUIET_POLLS;
            slot.skip = outdone || slot.method.is_unused();
        }
        let mut busy = (0..self.slots.len()).filter(|index| !self.slots[*index].skip);
        self.only = busy.next().filter(|_| busy.next().is_none());
    }
}

impl Slot {
    /// Notes what a poll answered.
    #[inline]
    pub(crate) fn polled(&mut self, any: bool) {
        if any {
            self.quiet = 0;
            self.skip = false;
        } else {
            self.quiet = self.quiet.saturating_add(1);
        }
    }
}
