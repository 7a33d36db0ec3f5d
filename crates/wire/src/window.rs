//! Messages between processes of an MPI program about windows of memory (MPI 5.0 chapter 12):
//! accesses to memory that cannot be accessed directly, their results, and messages that order
//! accesses.
//!
//! Each notice is sent as one unexpected message of the message layer. Those of one sender arrive
//! in order.

use alloc::vec::Vec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown, within};

/// Most bytes of data in one notice: with its runs, it is a short message in every method.
pub const MAX_DATA: usize = 8 << 10;
/// Most runs of elements in one notice.
pub const MAX_RUNS: usize = 256;
/// Stands for comparing and swapping, in the field of the reduction operation. The data are the
/// value to compare with, then the new one.
pub const COMPARE_AND_SWAP: u16 = u16::MAX;

/// Consecutive elements in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Bytes from the window's beginning to the first one. In a dynamic window, its address.
    pub offset: i64,
    /// How many.
    pub count: u64,
}

/// Elements of a window to be read, written or combined with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// The receiver's number of the window.
    pub window: u32,
    /// The ABI's handle of the operation, or [`COMPARE_AND_SWAP`].
    pub operation: u16,
    /// The ABI's handle of the elements' datatype.
    pub datatype: u16,
    /// The sender's number for the reply with the old elements; 0 if there is none.
    pub reply: u64,
    /// Returned to the sender in the reply: where its data belong.
    pub at: u64,
    /// The elements.
    pub runs: Vec<Run>,
    /// The operands, if the operation has any, spaced by the datatype's extent.
    pub data: Vec<u8>,
}

/// See the module's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An access.
    Access(Access),
    /// Elements as they were before an access.
    Data {
        /// [`Access::reply`].
        reply: u64,
        /// [`Access::at`].
        at: u64,
        /// The elements.
        data: Vec<u8>,
    },
    /// How many of the receiver's accesses have been carried out since the beginning.
    Done {
        /// How many.
        count: u64,
    },
    /// An access to this window was refused: it is outside the memory of the window.
    Refused {
        /// The receiver's number of the window.
        window: u32,
        /// [`Access::reply`].
        reply: u64,
        /// Where the access was to begin ([`Run::offset`]).
        offset: i64,
    },
    /// Requests the lock of the receiver's memory.
    Lock {
        /// The receiver's number of the window.
        window: u32,
        /// Whether no other process may hold it.
        exclusive: bool,
    },
    /// The sender releases the lock.
    Unlock {
        /// The receiver's number of the window.
        window: u32,
    },
    /// The receiver has the lock of the sender's memory.
    Granted {
        /// The receiver's number of the window.
        window: u32,
    },
    /// The receiver may access the sender's memory from now on.
    Posted {
        /// The receiver's number of the window.
        window: u32,
    },
    /// The sender's accesses to the receiver's memory are done.
    Completed {
        /// The receiver's number of the window.
        window: u32,
    },
    /// A lock in shared memory, for which the receiver has waited, has become free.
    Free {
        /// The receiver's number of the window.
        window: u32,
    },
    /// The sender has lost a process of the window, and continues without a collective operation.
    Broken {
        /// The receiver's number of the window.
        window: u32,
        /// The rank of the process.
        rank: u32,
    },
    /// No content: the connection shows whether the other process is alive.
    Hello,
}

record! { Run { offset: i64, count: u64 } }

impl Wire for Access {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.window);
        out.u16(self.operation);
        out.u16(self.datatype);
        out.u64(self.reply);
        out.u64(self.at);
        out.u16(self.runs.len() as u16);
        self.runs.iter().for_each(|run| run.encode(out));
        out.bytes(&self.data);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            window: input.u32("window")?,
            operation: input.u16("operation")?,
            datatype: input.u16("datatype")?,
            reply: input.u64("reply")?,
            at: input.u64("place of the reply")?,
            runs: {
                let many = input.u16("runs")?;
                within(many, MAX_RUNS as u64, "runs")?;
                (0..many)
                    .map(|_| Run::decode(input))
                    .collect::<Result<_, _>>()?
            },
            data: input.bytes(MAX_DATA, "operands")?.to_vec(),
        })
    }
}

variants!(Notice, "kind of notice", {
    0 => Access(access: wire),
    1 => Data { reply: u64, at: u64, data: bytes(MAX_DATA) },
    2 => Done { count: u64 },
    3 => Refused { window: u32, reply: u64, offset: i64 },
    4 => Lock { window: u32, exclusive: bool },
    5 => Unlock { window: u32 },
    6 => Granted { window: u32 },
    7 => Posted { window: u32 },
    8 => Completed { window: u32 },
    9 => Free { window: u32 },
    10 => Broken { window: u32, rank: u32 },
    11 => Hello,
});

impl Notice {
    /// The notice with this number of the window, which is its receiver's. A notice about no window
    /// is returned unchanged.
    #[must_use]
    pub fn about(mut self, number: u32) -> Self {
        match &mut self {
            Self::Access(access) => access.window = number,
            Self::Refused { window, .. }
            | Self::Lock { window, .. }
            | Self::Unlock { window }
            | Self::Granted { window }
            | Self::Posted { window }
            | Self::Completed { window }
            | Self::Free { window }
            | Self::Broken { window, .. } => *window = number,
            Self::Data { .. } | Self::Done { .. } | Self::Hello => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::golden;

    #[test]
    fn notices_have_one_encoding() {
        let access = Access {
            window: 3,
            operation: 0x21,
            datatype: 0x244,
            reply: 1,
            at: 2,
            runs: alloc::vec![Run {
                offset: -8,
                count: 1
            }],
            data: alloc::vec![7, 8],
        };
        golden(
            &Notice::Access(access),
            "00 03000000 2100 4402 0100000000000000 0200000000000000 0100 f8ffffffffffffff 0100000000000000 \
             02000000 0708",
        );
        golden(&Notice::Unlock { window: 9 }, "05 09000000");
        golden(
            &Notice::Lock {
                window: 9,
                exclusive: true,
            },
            "04 09000000 01",
        );
        golden(&Notice::Hello, "0b");
        assert!(Notice::from_bytes(&[12, 0, 0, 0, 0]).is_err());
    }
}
