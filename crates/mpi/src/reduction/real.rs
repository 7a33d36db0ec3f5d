//! The formats of real numbers, and what reductions need of each.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

/// A real number in memory.
pub(super) trait Real: Copy {
    /// As many bytes as it has.
    type Bytes;
    fn of(bytes: Self::Bytes) -> Self;
    fn bytes(self) -> Self::Bytes;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn is_below(self, other: Self) -> bool;
}

macro_rules! native {
    ($type:ty) => {
        impl Real for $type {
            type Bytes = [u8; size_of::<$type>()];

            #[inline(always)]
            fn of(bytes: Self::Bytes) -> Self {
                Self::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn bytes(self) -> Self::Bytes {
                self.to_ne_bytes()
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }

            #[inline(always)]
            fn is_below(self, other: Self) -> bool {
                self < other
            }
        }
    };
}

native!(f32);
native!(f64);

/// A number of IEEE's format of 128 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quadruple(Quad);

impl Real for Quadruple {
    type Bytes = [u8; 16];

    fn of(bytes: Self::Bytes) -> Self {
        Self(Quad::from_bits(u128::from_ne_bytes(bytes)))
    }

    fn bytes(self) -> Self::Bytes {
        self.0.to_bits().to_ne_bytes()
    }

    fn plus(self, other: Self) -> Self {
        Self((self.0 + other.0).value)
    }

    fn times(self, other: Self) -> Self {
        Self((self.0 * other.0).value)
    }

    fn minus(self, other: Self) -> Self {
        Self((self.0 - other.0).value)
    }

    fn is_below(self, other: Self) -> bool {
        self.0 < other.0
    }
}

/// C's `long double`.
#[cfg(target_arch = "x86_64")]
pub(super) type Long = extended::Extended;
#[cfg(not(target_arch = "x86_64"))]
pub(super) type Long = Quadruple;

#[cfg(target_arch = "x86_64")]
mod extended {
    use causeway_sys::extended::{Bytes, add, multiply};

    use super::Real;

    /// A number of x87's format.
    #[derive(Debug, Clone, Copy)]
    pub(in crate::reduction) struct Extended(Bytes);

    /// The byte with the sign.
    const TOP: usize = 9;

    impl Extended {
        /// An integer that is ordered as this number; `None` if it is a NaN.
        fn order(self) -> Option<i128> {
            let magnitude = u128::from_le_bytes(self.0) & ((1 << 79) - 1);
            let infinity = 0x7fff_8000 << 48;
            let order = magnitude as i128;
            let is_negative = self.0[TOP] & 0x80 != 0;
            (magnitude <= infinity).then_some(if is_negative { -order } else { order })
        }
    }

    impl Real for Extended {
        type Bytes = Bytes;

        fn of(bytes: Bytes) -> Self {
            Self(bytes)
        }

        fn bytes(self) -> Bytes {
            self.0
        }

        fn plus(self, other: Self) -> Self {
            Self(add(self.0, other.0))
        }

        fn times(self, other: Self) -> Self {
            Self(multiply(self.0, other.0))
        }

        fn minus(self, mut other: Self) -> Self {
            other.0[TOP] ^= 0x80;
            self.plus(other)
        }

        fn is_below(self, other: Self) -> bool {
            let both = self.order().zip(other.order());
            both.is_some_and(|(a, b)| a < b)
        }
    }
}
