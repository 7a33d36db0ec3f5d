//! Moments of a server's host, which order its writes.

use crate::codec::{Malformed, Reader, Wire, Writer};

/// A moment in a run of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The host's run; 0 if it is unknown.
    pub boot: u128,
    /// Nanoseconds since it began.
    pub at: u64,
}

impl Wire for Moment {
    fn encode(&self, out: &mut Writer) {
        out.u128(self.boot);
        out.u64(self.at);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            boot: input.u128("run of a host")?,
            at: input.u64("moment")?,
        })
    }
}
