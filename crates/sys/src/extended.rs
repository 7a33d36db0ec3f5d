//! Numbers of C's `long double` where that is x87's format: 80 bits in 16 bytes, of which the last six mean nothing.

/// A number as it lies in memory.
pub type Bytes = [u8; 16];

/// The sum.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn add(a: Bytes, b: Bytes) -> Bytes {
    let mut result = [0; 10];
    // SAFETY: reads ten bytes of each operand and writes ten of the result; the register stack is as before.
    unsafe {
        std::arch::asm!(
            "fld tbyte ptr [{a}]",
            "fld tbyte ptr [{b}]",
            "faddp st(1), st",
            "fstp tbyte ptr [{result}]",
            a = in(reg) &a,
            b = in(reg) &b,
            result = in(reg) &mut result,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
    widened(result)
}

/// The product.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn multiply(a: Bytes, b: Bytes) -> Bytes {
    let mut result = [0; 10];
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "fld tbyte ptr [{a}]",
            "fld tbyte ptr [{b}]",
            "fmulp st(1), st",
            "fstp tbyte ptr [{result}]",
            a = in(reg) &a,
            b = in(reg) &b,
            result = in(reg) &mut result,
            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
            options(nostack),
        );
    }
    widened(result)
}

/// Reads the parts in which the processor has just written them: reading them as one would wait for that.
#[cfg(target_arch = "x86_64")]
#[inline]
fn widened(number: [u8; 10]) -> Bytes {
    let ([significand], [low, high]) = number.as_chunks::<8>() else {
        unreachable!("ten bytes are eight and two");
    };
    let top = u16::from_le_bytes([*low, *high]);
    (u128::from(top) << 64 | u128::from(u64::from_le_bytes(*significand))).to_le_bytes()
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A number whose significand has 64 bits, times 2 to the power of `exponent`.
    fn number(significand: u64, exponent: i32) -> Bytes {
        let exponent = (exponent + 63 + 0x3fff) as u16;
        let bits = u128::from(exponent) << 64 | u128::from(significand);
        bits.to_le_bytes()
    }

    #[test]
    fn all_64_bits_count() {
        let (odd, even) = (number(u64::MAX, 0), number(u64::MAX - 1, 0));
        assert_eq!(add(odd, number(1 << 63, -63)), number(1 << 63, 1));
        assert_eq!(add(even, number(1 << 63, -63)), odd);
        assert_eq!(multiply(odd, number(1 << 63, -62)), number(u64::MAX, 1));
        assert_eq!(multiply(odd, odd), number(u64::MAX - 1, 64));
    }
}
