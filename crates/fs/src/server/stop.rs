//! The end of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_bmi::Waker;

/// Stops a running server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl StopHandle {
    pub(super) fn new(waker: Waker) -> Self {
        Self {
            stopping: Arc::default(),
            waker,
        }
    }

    /// Asks the server to finish what is in progress, make it durable, and end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
