//! The clock that an endpoint reads.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// A clock: the system's, unless another one was given.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<dyn Fn() -> Instant + Send + Sync>>);

impl Clock {
    /// A clock that reads what `read` returns, such as the time of a simulation.
    pub fn new(read: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// The present time.
    #[inline]
    pub(crate) fn read(&self) -> Instant {
        match &self.0 {
            Some(read) => read(),
            None => Instant::now(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "Clock(given)",
            None => "Clock(system)",
        })
    }
}
