//! Threads that keep the processors busy while something is measured.
//!
//! The idle processor of a virtual machine goes back to its host, and comes back late where that is busy: a message between
//! two processes then takes milliseconds now and then, because of the host's other guests, not of the program. Threads of the lowest
//! priority keep the processors awake, and every other thread preempts them. Threads of the usual priority stand for a program that
//! computes beside what is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use causeway_command::failure::{Doing, Outcome};
use causeway_sys::pin;

/// A thread on each processor that spins until this is dropped.
pub(crate) struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Threads that every other thread preempts.
    pub(crate) fn giving_way() -> Outcome<Self> {
        Self::start(pin::give_way_to_all)
    }

    /// Threads that take their share of the processors' time.
    pub(crate) fn computing() -> Outcome<Self> {
        Self::start(|| Ok(()))
    }

    /// Each thread spins once `begin` has set its priority. One whose priority is not what it should be would disturb the
    /// measurement, and ends.
    fn start(begin: fn() -> std::io::Result<()>) -> Outcome<Self> {
        let doing = || "keeping the processors busy".to_owned();
        let mut spinners = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for cpu in pin::allowed_cpus().doing(doing)? {
            let stop = Arc::clone(&spinners.stop);
            let thread = std::thread::Builder::new().name("spinner".to_owned());
            let spin = move || {
                if pin::pin_to_cpu(cpu).and_then(|()| begin()).is_ok() {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            };
            spinners.threads.push(thread.spawn(spin).doing(doing)?);
        }
        Ok(spinners)
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does not panic.
            let _ = thread.join();
        }
    }
}
