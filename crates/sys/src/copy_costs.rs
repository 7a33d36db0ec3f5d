//! The times that the two ways of copying between processes take on this machine: by cross-memory attach, one copy in
//! a system call; and by memory that both have mapped, two copies. Machines differ by a factor of ten.

use std::sync::OnceLock;

use crate::attach::{self, LocalSpans, RemoteSpans};
use crate::memory::Memory;
use crate::timing::lowest;

/// Bytes copied to measure the cost of a byte: twice as many do not fit into the first-level cache of most
/// processors.
const SAMPLE_BYTES: usize = 32 << 10;

/// Bytes of a page.
const PAGE: usize = 4096;

/// See the module's page. All are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyCosts {
    /// A call of cross-memory attach, without its bytes.
    pub attach_call: f64,
    /// Each byte that it copies.
    pub attach_byte: f64,
    /// A byte that is copied within a process.
    pub copy_byte: f64,
}

impl CopyCosts {
    /// The costs of this machine, measured once per process, in less than half a millisecond. `None` if the kernel does
    /// not let this process reach into its own memory.
    pub fn of_this_machine() -> Option<Self> {
        static MEASURED: OnceLock<Option<CopyCosts>> = OnceLock::new();
        *MEASURED.get_or_init(Self::measure)
    }

    fn measure() -> Option<Self> {
        let from = Memory::from_vec(vec![1; SAMPLE_BYTES]);
        // Half a page further on than the source: other distances may be special ([`aliasing`](crate::aliasing)).
        let room = Memory::from_vec(vec![2; SAMPLE_BYTES + PAGE]);
        let apart = (from.as_ptr().addr() + PAGE / 2).wrapping_sub(room.as_ptr().addr()) % PAGE;
        let into = room.slice(apart..apart + SAMPLE_BYTES);
        let pid = crate::process::own_number();
        let attach = |len: usize| {
            let mut local = LocalSpans::new();
            let mut remote = RemoteSpans::new();
            local.push(&into, 0..len);
            remote.push(from.as_ptr().addr() as u64, len);
            attach::read(pid, &local, &remote).is_ok_and(|copied| copied == len)
        };
        let attach_call = lowest(|| attach(1))?;
        let attach_all = lowest(|| attach(SAMPLE_BYTES))?;
        let copy_all = lowest(|| {
            into.copy_from(&from);
            true
        })?;
        let per_byte = |nanos: f64| nanos.max(1.0) / SAMPLE_BYTES as f64;
        Some(Self {
            attach_call,
            attach_byte: per_byte(attach_all - attach_call),
            copy_byte: per_byte(copy_all),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_positive_and_measured_once() {
        let costs = CopyCosts::of_this_machine().expect("a process may read its own memory");
        assert!(costs.attach_call > 0.0 && costs.attach_byte > 0.0 && costs.copy_byte > 0.0);
        assert_eq!(CopyCosts::of_this_machine(), Some(costs));
    }
}
