//! The predefined operations.

use causeway_sys::blocks::{Source, Target};

/// A predefined operation. Its number is the value of its handle in the ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's")]
#[repr(u16)]
pub enum Op {
    Sum = 0x21,
    Min = 0x22,
    Max = 0x23,
    Prod = 0x24,
    Band = 0x28,
    Bor = 0x29,
    Bxor = 0x2a,
    Land = 0x30,
    Lor = 0x31,
    Lxor = 0x32,
    Minloc = 0x38,
    Maxloc = 0x39,
    /// Of one-sided communication only.
    Replace = 0x3c,
    /// Of one-sided communication only.
    NoOp = 0x3d,
}

impl Op {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Sum,
        Self::Min,
        Self::Max,
        Self::Prod,
        Self::Band,
        Self::Bor,
        Self::Bxor,
        Self::Land,
        Self::Lor,
        Self::Lxor,
        Self::Minloc,
        Self::Maxloc,
        Self::Replace,
        Self::NoOp,
    ];

    /// The operation with this handle.
    #[inline]
    pub fn from_handle(handle: usize) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.handle() == handle)
    }

    /// Its handle in the ABI.
    pub const fn handle(self) -> usize {
        self as usize
    }

    /// Its name in C.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "MPI_SUM",
            Self::Min => "MPI_MIN",
            Self::Max => "MPI_MAX",
            Self::Prod => "MPI_PROD",
            Self::Band => "MPI_BAND",
            Self::Bor => "MPI_BOR",
            Self::Bxor => "MPI_BXOR",
            Self::Land => "MPI_LAND",
            Self::Lor => "MPI_LOR",
            Self::Lxor => "MPI_LXOR",
            Self::Minloc => "MPI_MINLOC",
            Self::Maxloc => "MPI_MAXLOC",
            Self::Replace => "MPI_REPLACE",
            Self::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether operands may change places without another result: of all but [`Op::Replace`] and [`Op::NoOp`].
    pub const fn commutes(self) -> bool {
        !matches!(self, Self::Replace | Self::NoOp)
    }

    /// Whether collective operations know it (`MPI_ERR_OP` otherwise).
    pub const fn is_of_collectives(self) -> bool {
        self.commutes()
    }
}

/// Replaces the elements of the first by combinations of the second's and its own, so many of them.
pub(super) type Run = fn(&mut Target<'_>, Source<'_>, usize);
