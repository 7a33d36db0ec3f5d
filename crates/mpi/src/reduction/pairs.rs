//! `MPI_MINLOC` and `MPI_MAXLOC` (MPI 5.0 §6.9.4): of two pairs the one with the smaller, or larger, value, and of equal
//! values the one with the smaller index.

use causeway_sys::combine::combine;

use super::op::{Op, Run};
use super::real::{Long, Real};
use crate::datatype::{Basic, Form, Scalar};

/// What values and indices are compared as.
trait Compared<const N: usize> {
    fn is_below(a: [u8; N], b: [u8; N]) -> bool;
}

struct Integer;
struct Number;

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Compared<{ size_of::<$type>() }> for Integer {
            #[inline(always)]
            fn is_below(a: [u8; size_of::<$type>()], b: [u8; size_of::<$type>()]) -> bool {
                <$type>::from_ne_bytes(a) < <$type>::from_ne_bytes(b)
            }
        }
    )*};
}

macro_rules! numbers {
    ($($type:ty, $size:literal);*) => {$(
        impl Compared<$size> for Number {
            #[inline(always)]
            fn is_below(a: [u8; $size], b: [u8; $size]) -> bool {
                <$type>::of(a).is_below(<$type>::of(b))
            }
        }
    )*};
}

integers!(i16, i32, i64);
numbers!(f32, 4; f64, 8; Long, 16);

/// A kernel for pairs of `N` bytes whose values have `V` bytes and whose indices `I`, which lie at `AT`.
fn pairs<
    Value: Compared<V>,
    Index: Compared<I>,
    const N: usize,
    const V: usize,
    const I: usize,
    const AT: usize,
>(
    op: Op,
) -> Option<Run> {
    fn part<const N: usize, const P: usize>(pair: &[u8; N], at: usize) -> [u8; P] {
        let mut part = [0; P];
        part.copy_from_slice(&pair[at..at + P]);
        part
    }
    /// The one that is below, or of two that are equal the one with the smaller index.
    fn choose<
        Value: Compared<V>,
        Index: Compared<I>,
        const IS_MIN: bool,
        const N: usize,
        const V: usize,
        const I: usize,
        const AT: usize,
    >(
        a: [u8; N],
        b: [u8; N],
    ) -> [u8; N] {
        let (mut x, mut y) = (part::<N, V>(&a, 0), part::<N, V>(&b, 0));
        if !IS_MIN {
            (x, y) = (y, x);
        }
        let is_better = Value::is_below(x, y);
        let is_worse = Value::is_below(y, x);
        let is_first = Index::is_below(part::<N, I>(&a, AT), part::<N, I>(&b, AT));
        if is_better || (!is_worse && is_first) {
            a
        } else {
            b
        }
    }
    match op {
        Op::Minloc => Some(|into, from, count| {
            combine(into, from, count, choose::<Value, Index, true, N, V, I, AT>);
        }),
        Op::Maxloc => Some(|into, from, count| {
            combine(
                into,
                from,
                count,
                choose::<Value, Index, false, N, V, I, AT>,
            );
        }),
        _ => None,
    }
}

/// For pairs of these two types.
pub(super) fn kernel(op: Op, value: Basic, index: Basic) -> Option<Run> {
    let (Form::One(value), Form::One(index)) = (value.form(), index.form()) else {
        return None;
    };
    match (value, index) {
        (Scalar::I16, Scalar::I32) => pairs::<Integer, Integer, 8, 2, 4, 4>(op),
        (Scalar::I32, Scalar::I32) => pairs::<Integer, Integer, 8, 4, 4, 4>(op),
        (Scalar::I64, Scalar::I32) => pairs::<Integer, Integer, 16, 8, 4, 8>(op),
        (Scalar::F32, Scalar::I32) => pairs::<Number, Integer, 8, 4, 4, 4>(op),
        (Scalar::F64, Scalar::I32) => pairs::<Number, Integer, 16, 8, 4, 8>(op),
        (Scalar::FLong, Scalar::I32) => pairs::<Number, Integer, 32, 16, 4, 16>(op),
        (Scalar::F32, Scalar::F32) => pairs::<Number, Number, 8, 4, 4, 4>(op),
        (Scalar::F64, Scalar::F64) => pairs::<Number, Number, 16, 8, 8, 8>(op),
        _ => None,
    }
}
