//! Instances, by handle.

use std::time::Duration;

use causeway_bmi::{Bmi, Completion, Config, OpId, Unexpected};

use crate::error::Failure;
use crate::memory::Describer;

/// The instance of a handle.
pub(crate) struct Instance {
    pub(crate) bmi: Bmi,
    pub(crate) memory: Describer,
    /// Room to gather completions in, empty between calls; likewise the next.
    pub(crate) completions: Vec<Completion>,
    pub(crate) unexpected: Vec<Unexpected>,
    pub(crate) ops: Vec<OpId>,
    pub(crate) unexpected_limit: usize,
}

impl Instance {
    pub(crate) fn start(config: Config) -> Result<Self, Failure> {
        let unexpected_limit = config.unexpected_limit;
        Ok(Self {
            bmi: Bmi::new(config)?,
            memory: Describer::default(),
            completions: Vec::new(),
            unexpected: Vec::new(),
            ops: Vec::new(),
            unexpected_limit,
        })
    }

    /// Ends it: sent messages leave, as far as there is room for them; the rest are dropped.
    pub(crate) fn end(mut self: Box<Self>) {
        // Progress is made whether or not the context exists.
        let nothing = causeway_bmi::Context::from_raw(0);
        self.bmi.wait(nothing, Duration::ZERO);
    }
}

/// A duration in microseconds; one that is too long to matter becomes a day.
pub(crate) fn duration_us(us: i64, what: &str) -> Result<Duration, Failure> {
    const DAY_US: u64 = 86_400_000_000;
    match u64::try_from(us) {
        Ok(us) => Ok(Duration::from_micros(us.min(DAY_US))),
        Err(_) => Err(Failure::invalid(format!("{what} is negative: {us}"))),
    }
}
