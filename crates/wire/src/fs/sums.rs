//! Sums that a read returns.

use crate::codec::fields::codes;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

codes! {
    /// The sums of blocks that a client requests with a read, so that it can verify the blocks
    /// after they have arrived. A server that copies within the host, or keeps no sums, sends none.
    #[derive(Default)]
    pub enum WantedSums: "wanted sums" {
        /// None: the server verifies.
        #[default]
        None = 0,
        /// Those that are stored; the server does not read the blocks.
        Stored = 1,
        /// The sums of the blocks that are sent, which the server verifies as well. For a second
        /// attempt: stored sums do not match a block that was read while it was written.
        Sent = 2,
        /// Those that are stored, of as many whole blocks from the first on as have one, and no bytes: the client reads these itself
        /// from the datafile that [`Operation::FindDescriptor`](super::Operation::FindDescriptor) has found.
        Only = 3,
    }
}
