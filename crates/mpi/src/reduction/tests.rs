//! Reductions against a reference that computes one element after the other, floating-point numbers in software.

use proptest::prelude::*;
use rustc_apfloat::Float;
use rustc_apfloat::ieee::{Double, Half, Quad, Single, X87DoubleExtended};

use super::*;

/// The predefined types that have these operations in the standard, and no others but those of one-sided communication.
fn allowed(basic: Basic) -> &'static str {
    use Basic as B;
    match basic {
        B::Packed | B::Character | B::Wchar => "",
        B::Byte => "BAND BOR BXOR",
        B::Integer | B::Integer1 | B::Integer2 | B::Integer4 | B::Integer8 | B::Integer16 => {
            "SUM MIN MAX PROD BAND BOR BXOR"
        }
        B::Float | B::Double | B::LongDouble | B::Real | B::DoublePrecision => "SUM MIN MAX PROD",
        B::Real2 | B::Real4 | B::Real8 | B::Real16 => "SUM MIN MAX PROD",
        B::CFloatComplex | B::CDoubleComplex | B::CLongDoubleComplex => "SUM PROD",
        B::CxxFloatComplex | B::CxxDoubleComplex | B::CxxLongDoubleComplex => "SUM PROD",
        B::Complex | B::DoubleComplex => "SUM PROD",
        B::Complex4 | B::Complex8 | B::Complex16 | B::Complex32 => "SUM PROD",
        B::CBool | B::CxxBool | B::Logical => "LAND LOR LXOR",
        B::Logical1 | B::Logical2 | B::Logical4 | B::Logical8 | B::Logical16 => "LAND LOR LXOR",
        _ if matches!(basic.form(), Form::Pair(..)) => "MINLOC MAXLOC",
        _ => "SUM MIN MAX PROD BAND BOR BXOR LAND LOR LXOR",
    }
}

#[test]
fn operations_have_the_types_of_the_standard() {
    for basic in Basic::ALL {
        let found: Vec<_> = Op::ALL
            .iter()
            .filter(|op| op.is_of_collectives() && Kernel::of(**op, *basic).is_some())
            .map(|op| &op.name()[4..])
            .collect();
        assert_eq!(found.join(" "), allowed(*basic), "{basic:?}");
        assert!(Kernel::of(Op::Replace, *basic).is_some());
        assert!(Kernel::of(Op::NoOp, *basic).is_some());
    }
    for op in Op::ALL {
        assert_eq!(Op::from_handle(op.handle()), Some(*op));
    }
    assert_eq!(Op::from_handle(0x20), None);
}

/// The element as an integer.
fn integer(bytes: &[u8], is_signed: bool) -> i128 {
    let is_negative = is_signed && bytes[bytes.len() - 1] & 0x80 != 0;
    let mut wide = [if is_negative { 0xff } else { 0 }; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

fn of_integers(op: Op, a: &[u8], b: &[u8], is_signed: bool) -> Vec<u8> {
    let (x, y) = (integer(a, is_signed), integer(b, is_signed));
    let result = match op {
        Op::Sum => x.wrapping_add(y),
        Op::Prod => x.wrapping_mul(y),
        Op::Min => x.min(y),
        Op::Max => x.max(y),
        Op::Band => x & y,
        Op::Bor => x | y,
        Op::Bxor => x ^ y,
        Op::Land => (x != 0 && y != 0).into(),
        Op::Lor => (x != 0 || y != 0).into(),
        Op::Lxor => ((x != 0) != (y != 0)).into(),
        _ => unreachable!("not of integers"),
    };
    result.to_le_bytes()[..a.len()].to_vec()
}

fn float<F: Float>(bytes: &[u8]) -> F {
    let mut wide = [0; 16];
    let len = bytes.len().min(F::BITS.div_ceil(8));
    wide[..len].copy_from_slice(&bytes[..len]);
    F::from_bits(u128::from_le_bytes(wide))
}

/// All not-a-numbers count as the same.
fn bytes_of<F: Float>(number: F, len: usize) -> Vec<u8> {
    let bits = if number.is_nan() {
        F::NAN.to_bits()
    } else {
        number.to_bits()
    };
    bits.to_le_bytes()[..len].to_vec()
}

fn of_floats<F: Float>(op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    let (x, y): (F, F) = (float(a), float(b));
    let result = match op {
        Op::Sum => (x + y).value,
        Op::Prod => (x * y).value,
        Op::Min => {
            if x < y {
                x
            } else {
                y
            }
        }
        Op::Max => {
            if x > y {
                x
            } else {
                y
            }
        }
        _ => unreachable!("not of floating-point numbers"),
    };
    bytes_of(result, a.len())
}

fn of_complex<F: Float>(op: Op, a: &[u8], b: &[u8]) -> Vec<u8> {
    let half = a.len() / 2;
    let parts = |of: &[u8]| -> (F, F) { (float(&of[..half]), float(&of[half..])) };
    let ((a, b), (c, d)) = (parts(a), parts(b));
    let (re, im) = match op {
        Op::Sum => ((a + c).value, (b + d).value),
        Op::Prod => {
            let re = ((a * c).value - (b * d).value).value;
            (re, ((a * d).value + (b * c).value).value)
        }
        _ => unreachable!("not of complex numbers"),
    };
    [bytes_of(re, half), bytes_of(im, half)].concat()
}

fn of_pairs(op: Op, basic: Basic, a: &[u8], b: &[u8]) -> Vec<u8> {
    let Form::Pair(value, index) = basic.form() else {
        unreachable!("a pair");
    };
    let at = basic.index_offset();
    let pick = if op == Op::Minloc { Op::Min } else { Op::Max };
    let values = [&a[..value.size()], &b[..value.size()]];
    let best = of_scalars(pick, value, values[0], values[1]);
    // As numbers: zeros of both signs are equal.
    let is_best = |of: &[u8]| {
        let same = of_scalars(pick, value, of, &best) == of_scalars(pick, value, &best, of);
        same && (of == best || is_zero(value, of) && is_zero(value, &best))
    };
    let indices = [&a[at..at + index.size()], &b[at..at + index.size()]];
    match (is_best(values[0]), is_best(values[1])) {
        (true, true) => {
            let first = of_scalars(Op::Min, index, indices[0], indices[1]);
            if indices[1] == first { b } else { a }
        }
        (true, false) => a,
        _ => b,
    }
    .to_vec()
}

fn is_zero(basic: Basic, bytes: &[u8]) -> bool {
    let sum = of_scalars(Op::Sum, basic, bytes, bytes);
    sum == bytes && sum[..sum.len() - 1].iter().all(|byte| *byte == 0)
}

fn of_scalars(op: Op, basic: Basic, a: &[u8], b: &[u8]) -> Vec<u8> {
    use Scalar as S;
    match basic.form() {
        Form::Pair(..) => of_pairs(op, basic, a, b),
        Form::One(S::F16) => of_floats::<Half>(op, a, b),
        Form::One(S::F32) => of_floats::<Single>(op, a, b),
        Form::One(S::F64) => of_floats::<Double>(op, a, b),
        Form::One(S::FLong) => of_floats::<X87DoubleExtended>(op, a, b),
        Form::One(S::F128) => of_floats::<Quad>(op, a, b),
        Form::One(S::C16) => of_complex::<Half>(op, a, b),
        Form::One(S::C32) => of_complex::<Single>(op, a, b),
        Form::One(S::C64) => of_complex::<Double>(op, a, b),
        Form::One(S::CLong) => of_complex::<X87DoubleExtended>(op, a, b),
        Form::One(S::C128) => of_complex::<Quad>(op, a, b),
        Form::One(S::I8 | S::I16 | S::I32 | S::I64 | S::I128 | S::Char) => {
            of_integers(op, a, b, true)
        }
        Form::One(_) => of_integers(op, a, b, false),
    }
}

/// Makes an element one whose result is defined in every bit.
fn with_defined_bits(basic: Basic, element: &mut [u8]) {
    use Scalar as S;
    match basic.form() {
        Form::Pair(value, index) => {
            let at = basic.index_offset();
            element[value.size()..at].fill(0);
            element[at + index.size()..].fill(0);
            with_defined_bits(value, &mut element[..value.size()]);
            with_defined_bits(index, &mut element[at..at + index.size()]);
        }
        Form::One(S::CLong | S::C16 | S::C32 | S::C64 | S::C128) => {
            let half = element.len() / 2;
            let part = match element.len() {
                4 => Basic::Real2,
                8 => Basic::Real4,
                16 => Basic::Real8,
                _ if basic == Basic::Complex32 => Basic::Real16,
                _ => Basic::LongDouble,
            };
            with_defined_bits(part, &mut element[..half]);
            with_defined_bits(part, &mut element[half..]);
        }
        // Exponents near 0, so that sums keep digits of both and products stay numbers.
        Form::One(S::F16) => element[1] = element[1] & 0x83 | 0x38,
        Form::One(S::F32) => element[3] = element[3] & 0x81 | 0x3e,
        Form::One(S::F64) => element[7] = element[7] & 0x80 | 0x3f,
        Form::One(S::F128) => element[15] = element[15] & 0x80 | 0x3f,
        Form::One(S::FLong) => {
            element[7] |= 0x80;
            element[8] |= 0xe0;
            element[9] = element[9] & 0x80 | 0x3f;
            element[10..].fill(0);
        }
        Form::One(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn elements_are_combined_as_by_the_reference(
        mut from in prop::collection::vec(any::<u8>(), 40 * 32),
        mut into in prop::collection::vec(any::<u8>(), 40 * 32),
        count in 0..40_usize,
        shift in 0..9_usize,
        equals in 0..3_u8,
    ) {
        // Values that are equal, and zeros, are usual.
        for (at, byte) in from.iter().enumerate() {
            match (at as u8 >> 3) % 8 {
                0 => into[at] = *byte,
                1 if equals == 0 => into[at] = 0,
                _ => {}
            }
        }
        for basic in Basic::ALL {
            let unit = basic.extent();
            for operands in [&mut from, &mut into] {
                operands.chunks_exact_mut(unit).for_each(|element| with_defined_bits(*basic, element));
            }
            for op in Op::ALL.iter().filter(|op| op.is_of_collectives()) {
                let Some(kernel) = Kernel::of(*op, *basic) else {
                    continue;
                };
                prop_assert_eq!(kernel.unit(), unit);
                let mut memory = vec![0xee; shift];
                memory.extend(&into[..count * unit]);
                memory.push(0xee);
                let target = &mut Target::from(&mut memory[shift..]);
                kernel.apply(Source::from(&from[..]), target, count);
                let elements = from.chunks_exact(unit).zip(into.chunks_exact(unit)).take(count);
                for (at, (a, b)) in elements.enumerate() {
                    let found = &memory[shift + at * unit..shift + (at + 1) * unit];
                    let expected = of_scalars(*op, *basic, a, b);
                    prop_assert_eq!(found, &expected[..], "{:?} {:?}: {:?} {:?}", op, basic, a, b);
                }
                prop_assert_eq!(memory[memory.len() - 1], 0xee);
            }
        }
    }
}

#[test]
fn special_numbers_are_ordered() {
    let kernel = |op, basic| Kernel::of(op, basic).expect("an operation");
    let doubles = |op, a: f64, b: f64| {
        let mut into = b.to_ne_bytes();
        let target = &mut Target::from(&mut into[..]);
        kernel(op, Basic::Double).apply(Source::from(&a.to_ne_bytes()[..]), target, 1);
        f64::from_ne_bytes(into)
    };
    assert_eq!(doubles(Op::Max, f64::INFINITY, 1.0), f64::INFINITY);
    assert_eq!(doubles(Op::Min, f64::NEG_INFINITY, 1.0), f64::NEG_INFINITY);
    assert_eq!(
        doubles(Op::Min, 3.0, f64::MIN_POSITIVE / 2.0),
        f64::MIN_POSITIVE / 2.0
    );
    let mut into = [5; 8];
    let from = [7; 8];
    kernel(Op::NoOp, Basic::Int).apply(
        Source::from(&from[..]),
        &mut Target::from(&mut into[..]),
        2,
    );
    assert_eq!(into, [5; 8]);
    kernel(Op::Replace, Basic::Int).apply(
        Source::from(&from[..]),
        &mut Target::from(&mut into[..]),
        1,
    );
    assert_eq!(into, [7, 7, 7, 7, 5, 5, 5, 5]);
}
