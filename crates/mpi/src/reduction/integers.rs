//! Integers and truth values.

use causeway_sys::combine::combine;

use super::op::{Op, Run};
use crate::datatype::Scalar;

/// A kernel for elements of one Rust type.
macro_rules! kernel {
    ($type:ty, |$a:ident, $b:ident| $result:expr) => {{
        let run: Run = |into, from, count| {
            combine(into, from, count, |a, b| {
                let ($a, $b) = (<$type>::from_ne_bytes(a), <$type>::from_ne_bytes(b));
                let result: $type = $result;
                result.to_ne_bytes()
            });
        };
        Some(run)
    }};
}

/// Overflow wraps, as it does in C where it has a meaning.
macro_rules! kernels {
    ($type:ty, $op:expr) => {
        match $op {
            Op::Sum => kernel!($type, |a, b| a.wrapping_add(b)),
            Op::Prod => kernel!($type, |a, b| a.wrapping_mul(b)),
            Op::Min => kernel!($type, |a, b| a.min(b)),
            Op::Max => kernel!($type, |a, b| a.max(b)),
            Op::Land => kernel!($type, |a, b| <$type>::from(a != 0 && b != 0)),
            Op::Lor => kernel!($type, |a, b| <$type>::from(a != 0 || b != 0)),
            Op::Lxor => kernel!($type, |a, b| <$type>::from((a != 0) != (b != 0))),
            _ => None,
        }
    };
}

/// For integers, truth values, and characters.
pub(super) fn kernel(op: Op, scalar: Scalar) -> Option<Run> {
    match scalar {
        Scalar::I8 | Scalar::Char => kernels!(i8, op),
        Scalar::I16 => kernels!(i16, op),
        Scalar::I32 => kernels!(i32, op),
        Scalar::I64 => kernels!(i64, op),
        Scalar::I128 | Scalar::L128 => kernels!(i128, op),
        Scalar::U8 | Scalar::L8 => kernels!(u8, op),
        Scalar::U16 | Scalar::L16 => kernels!(u16, op),
        Scalar::U32 | Scalar::L32 => kernels!(u32, op),
        Scalar::U64 | Scalar::L64 => kernels!(u64, op),
        _ => None,
    }
}

/// For the bytes of anything.
pub(super) fn bitwise(op: Op) -> Option<Run> {
    match op {
        Op::Band => kernel!(u8, |a, b| a & b),
        Op::Bor => kernel!(u8, |a, b| a | b),
        Op::Bxor => kernel!(u8, |a, b| a ^ b),
        _ => None,
    }
}
