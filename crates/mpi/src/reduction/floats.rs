//! Floating-point numbers, real and complex.
//!
//! Sums and products are rounded after each operation, as in the type itself. Which operand is the minimum or maximum if one is not
//! a number (NaN), the standard leaves open.

use causeway_sys::combine::combine;

use super::half::Half;
use super::op::{Op, Run};
use super::real::{Long, Quadruple, Real};
use crate::datatype::Scalar;

/// A kernel for elements of one type of real numbers.
macro_rules! kernel {
    ($type:ty, |$a:ident, $b:ident| $result:expr) => {{
        let run: Run = |into, from, count| {
            combine(into, from, count, |a, b| {
                let ($a, $b) = (<$type>::of(a), <$type>::of(b));
                <$type>::bytes($result)
            });
        };
        Some(run)
    }};
}

macro_rules! kernels {
    ($type:ty, $op:expr) => {
        match $op {
            Op::Sum => kernel!($type, |a, b| a.plus(b)),
            Op::Prod => kernel!($type, |a, b| a.times(b)),
            Op::Min => kernel!($type, |a, b| if a.is_below(b) { a } else { b }),
            Op::Max => kernel!($type, |a, b| if b.is_below(a) { a } else { b }),
            _ => None,
        }
    };
}

/// A kernel for products of complex numbers of one type of real numbers.
macro_rules! complex_product {
    ($type:ty) => {{
        const SIZE: usize = size_of::<<$type as Real>::Bytes>();
        let run: Run = |into, from, count| {
            combine(into, from, count, |a: [u8; 2 * SIZE], b| {
                let parts = |of: &[u8; 2 * SIZE]| {
                    let ([re, im], _) = of.as_chunks::<SIZE>() else {
                        unreachable!("two parts are two");
                    };
                    (<$type>::of(*re), <$type>::of(*im))
                };
                let ((a_re, a_im), (b_re, b_im)) = (parts(&a), parts(&b));
                let re = a_re.times(b_re).minus(a_im.times(b_im));
                let im = a_re.times(b_im).plus(a_im.times(b_re));
                let mut result = [0; 2 * SIZE];
                result[..SIZE].copy_from_slice(&re.bytes());
                result[SIZE..].copy_from_slice(&im.bytes());
                result
            });
        };
        run
    }};
}

/// For real numbers.
pub(super) fn kernel(op: Op, scalar: Scalar) -> Option<Run> {
    match scalar {
        Scalar::F16 => kernels!(Half, op),
        Scalar::F32 => kernels!(f32, op),
        Scalar::F64 => kernels!(f64, op),
        Scalar::FLong => kernels!(Long, op),
        Scalar::F128 => kernels!(Quadruple, op),
        _ => None,
    }
}

/// For complex numbers, with the number of parts of each that it runs on: a sum is that of two real numbers.
pub(super) fn of_complex(op: Op, scalar: Scalar) -> Option<(Run, usize)> {
    let (part, product): (Scalar, Run) = match scalar {
        Scalar::C16 => (Scalar::F16, complex_product!(Half)),
        Scalar::C32 => (Scalar::F32, complex_product!(f32)),
        Scalar::C64 => (Scalar::F64, complex_product!(f64)),
        Scalar::CLong => (Scalar::FLong, complex_product!(Long)),
        Scalar::C128 => (Scalar::F128, complex_product!(Quadruple)),
        _ => return None,
    };
    match op {
        Op::Sum => Some((kernel(Op::Sum, part)?, 2)),
        Op::Prod => Some((product, 1)),
        _ => None,
    }
}
