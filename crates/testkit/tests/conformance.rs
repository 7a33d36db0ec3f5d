//! The conformance suite, for every method and every way of configuring it that changes how it
//! works inside.

use std::sync::atomic::{AtomicU64, Ordering};

use causeway_testkit::conformance;
use causeway_testkit::conformance::Factory;
use causeway_transport::Address;
use causeway_transport::mem::{self, Mem};

/// `mem`, which lives inside one process.
struct InProcess(mem::Options);

impl Factory for InProcess {
    type Method = Mem;

    fn method(&self) -> Mem {
        Mem::new(self.0).expect("an eventfd")
    }

    fn address(&self) -> Address {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("mem://conformance-{number}")
            .parse()
            .expect("well-formed")
    }
}

/// Queues of three packets and pieces of a few bytes: every corner is met all the time.
const TIGHT: mem::Options = mem::Options {
    queue_packets: 3,
    max_packet: 4096 + 256,
    max_piece: 4099,
};

conformance!(mem_in_process, InProcess(mem::Options::default()));
conformance!(mem_with_tight_queues, InProcess(TIGHT));
