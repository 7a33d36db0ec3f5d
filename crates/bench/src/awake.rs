//! Keeping processors awake during a measurement.
//!
//! The idle processor of a virtual machine is returned to its host, and comes back late if the host
//! is busy: a message between two processes then takes milliseconds now and then, because of the
//! host's other guests, not of the program. A thread of the lowest priority keeps each processor
//! awake, and every other thread preempts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use causeway_command::failure::{Doing, Outcome};
use causeway_sys::pin;

/// Keeps all processors awake until it is dropped.
pub(crate) struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    pub(crate) fn start() -> Outcome<Self> {
        let doing = || "keeping the processors awake".to_owned();
        let mut awake = Self {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        for cpu in pin::allowed_cpus().doing(doing)? {
            let stop = Arc::clone(&awake.stop);
            let thread = std::thread::Builder::new().name("awake".to_owned());
            let spin = move || {
                // Without the low priority the thread would take time from the measurement.
                if pin::pin_to_cpu(cpu)
                    .and_then(|()| pin::give_way_to_all())
                    .is_ok()
                {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            };
            awake.threads.push(thread.spawn(spin).doing(doing)?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does not panic.
            let _ = thread.join();
        }
    }
}
