//! Numbers of IEEE's format of 16 bits.

use super::real::Real;

/// A number of 16 bits. It is computed with as one of 32 bits, whose fraction is long enough that rounding sums and
/// products twice gives what rounding once would.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half(u16);

const SIGN: u16 = 0x8000;
/// Bits of a fraction that 32-bit numbers have and these have not.
const MORE: u32 = 23 - 10;
/// The exponents' biases differ by so much.
const BIAS: u32 = 127 - 15;

impl Half {
    #[inline(always)]
    fn wide(self) -> f32 {
        let magnitude = u32::from(self.0 & !SIGN) << MORE;
        let sign = u32::from(self.0 & SIGN) << 16;
        let shifted = match magnitude >> 23 {
            // A multiple of the smallest number, which the other format has as a normal one.
            0 => (f32::from_bits(magnitude | 113 << 23) - f32::from_bits(113 << 23)).to_bits(),
            31 => magnitude + ((255 - 31) << 23),
            _ => magnitude + (BIAS << 23),
        };
        f32::from_bits(shifted | sign)
    }

    /// Rounds to the nearest value, and in the middle between two to the even one.
    #[inline(always)]
    fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let sign = (bits >> 16) as u16 & SIGN;
        let magnitude = bits & (u32::MAX >> 1);
        let narrow = if magnitude > 255 << 23 {
            0x7e00
        } else if magnitude >= (31 + BIAS) << 23 {
            0x7c00
        } else if magnitude < (1 + BIAS) << 23 {
            // Adding so large a number leaves the bits that are kept, rounded, at the end of the fraction.
            let aligned = f32::from_bits(magnitude) + 0.5;
            (aligned.to_bits() - 0.5_f32.to_bits()) as u16
        } else {
            let is_odd = magnitude >> MORE & 1;
            let rounded = magnitude + ((1 << (MORE - 1)) - 1) + is_odd;
            ((rounded - (BIAS << 23)) >> MORE) as u16
        };
        Self(narrow | sign)
    }
}

impl Real for Half {
    type Bytes = [u8; 2];

    #[inline(always)]
    fn of(bytes: Self::Bytes) -> Self {
        Self(u16::from_ne_bytes(bytes))
    }

    #[inline(always)]
    fn bytes(self) -> Self::Bytes {
        self.0.to_ne_bytes()
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self::narrow(self.wide() + other.wide())
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self::narrow(self.wide() * other.wide())
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self::narrow(self.wide() - other.wide())
    }

    #[inline(always)]
    fn is_below(self, other: Self) -> bool {
        self.wide() < other.wide()
    }
}

#[cfg(test)]
mod tests {
    use rustc_apfloat::Float;
    use rustc_apfloat::ieee;

    use super::*;

    fn are_same(found: Half, expected: ieee::Half) -> bool {
        let of = ieee::Half::from_bits(found.0.into());
        of.is_nan() && expected.is_nan() || of.to_bits() == expected.to_bits()
    }

    #[test]
    fn every_number_is_itself_again() {
        for bits in 0..=u16::MAX {
            let back = Half::narrow(Half(bits).wide());
            assert!(
                are_same(back, ieee::Half::from_bits(bits.into())),
                "{bits:x}"
            );
        }
    }

    #[test]
    fn sums_and_products_are_rounded_once() {
        let some = |n: u32| (n.wrapping_mul(0x9e37_79b9) >> 16) as u16;
        for n in 0..400_000 {
            let (a, b) = (some(n), some(n ^ n << 7 ^ 0x5555_1234));
            let (x, y) = (
                ieee::Half::from_bits(a.into()),
                ieee::Half::from_bits(b.into()),
            );
            let (a, b) = (Half(a), Half(b));
            assert!(are_same(a.plus(b), (x + y).value), "{a:?} + {b:?}");
            assert!(are_same(a.minus(b), (x - y).value), "{a:?} - {b:?}");
            assert!(are_same(a.times(b), (x * y).value), "{a:?} * {b:?}");
            assert_eq!(a.is_below(b), x < y);
        }
    }
}
