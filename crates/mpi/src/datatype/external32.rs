//! The representation `external32` (MPI 5.0 §14.5.2): big-endian, IEEE formats, sizes that do not depend on the machine.

use causeway_sys::blocks::{Source, Target};

use super::basic::{Basic, Form, Scalar};
use super::elements::Elements;
use super::error::Error;

/// Bytes of elements that are converted at a time: few enough for the stack and the nearest cache.
const CHUNK: usize = 2048;

impl Elements {
    /// Bytes that the data have in this representation (`MPI_Pack_external_size`).
    pub fn external32_bytes(&self) -> Result<u64, Error> {
        let signature = self.datatype().signature_of(self.count())?;
        Ok(signature.external32_bytes())
    }

    /// Packs all data into `stream` (`MPI_Pack_external`). Returns how many bytes it has written, those of
    /// [`Elements::external32_bytes`].
    ///
    /// Fails with [`Error::Conversion`] if a number has no room in this representation: that of a `long` has 32 bits, that of a `wchar_t` 16.
    pub fn pack_external32(&self, memory: Source<'_>, stream: &mut [u8]) -> Result<usize, Error> {
        let needed = self.external32_bytes()?;
        let mut stream = part(stream.len(), needed).map(|len| &mut stream[..len])?;
        let mut position = 0;
        self.for_each_chunk(|basic, native, external| {
            let mut chunk = [0; CHUNK];
            let chunk = &mut chunk[..native];
            self.pack(position, memory, &mut Target::from(&mut *chunk))?;
            position += native as u64;
            let (to, rest) = std::mem::take(&mut stream).split_at_mut(external);
            stream = rest;
            Converter::of(basic).encode(chunk, to)
        })?;
        Ok(needed as usize)
    }

    /// Unpacks all data from `stream` (`MPI_Unpack_external`). Returns how many bytes it has read. Fails as
    /// [`Elements::pack_external32`].
    pub fn unpack_external32(
        &self,
        stream: &[u8],
        memory: &mut Target<'_>,
    ) -> Result<usize, Error> {
        let needed = self.external32_bytes()?;
        let mut stream = part(stream.len(), needed).map(|len| &stream[..len])?;
        let mut position = 0;
        self.for_each_chunk(|basic, native, external| {
            let mut chunk = [0; CHUNK];
            let chunk = &mut chunk[..native];
            let (from, rest) = stream.split_at(external);
            stream = rest;
            Converter::of(basic).decode(from, chunk);
            self.unpack(position, Source::from(&*chunk), memory)?;
            position += native as u64;
            Ok(())
        })?;
        Ok(needed as usize)
    }

    /// Gives `each` the types of elements in their order, with the bytes that some of them have here and in this
    /// representation.
    fn for_each_chunk(
        &self,
        mut each: impl FnMut(Basic, usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let signature = self.datatype().signature_of(self.count())?;
        signature.for_each_run(&mut |basic, count| {
            let most = (CHUNK / basic.size()) as u64;
            let mut left = count;
            while left > 0 {
                let some = left.min(most) as usize;
                each(basic, some * basic.size(), some * basic.external32_size())?;
                left -= some as u64;
            }
            Ok(())
        })
    }
}

/// The part of a stream that is needed.
fn part(len: usize, needed: u64) -> Result<usize, Error> {
    usize::try_from(needed)
        .ok()
        .filter(|needed| *needed <= len)
        .ok_or(Error::OutOfBounds {
            needed,
            len: len as u64,
        })
}

/// How elements of one type are converted.
#[derive(Debug, Clone, Copy)]
enum Converter {
    /// Each so many bytes change their order.
    Swap(usize),
    /// An integer of eight bytes has four.
    Long { is_signed: bool },
    /// A character of four bytes has two.
    Wide,
    /// x87's format is IEEE's of 128 bits.
    Extended,
}

impl Converter {
    fn of(basic: Basic) -> Self {
        let Form::One(scalar) = basic.form() else {
            // A signature has no pairs.
            return Self::Swap(1);
        };
        match (basic, scalar) {
            (Basic::Long, _) => Self::Long { is_signed: true },
            (Basic::UnsignedLong, _) => Self::Long { is_signed: false },
            (_, Scalar::Wchar) => Self::Wide,
            (_, Scalar::FLong | Scalar::CLong) if cfg!(target_arch = "x86_64") => Self::Extended,
            // A component's alignment is its size.
            (_, scalar) => Self::Swap(scalar.alignment()),
        }
    }

    fn encode(self, native: &[u8], external: &mut [u8]) -> Result<(), Error> {
        match self {
            Self::Swap(size) => swap(native, external, size),
            Self::Long { is_signed } => {
                for (from, to) in native.as_chunks().0.iter().zip(external.as_chunks_mut().0) {
                    let value = u64::from_ne_bytes(*from);
                    let low = value as u32;
                    let same = if is_signed {
                        low.cast_signed() as u64
                    } else {
                        low.into()
                    };
                    if same != value {
                        return Err(Error::Conversion("a long integer of more than 32 bits"));
                    }
                    *to = low.to_be_bytes();
                }
            }
            Self::Wide => {
                for (from, to) in native.as_chunks().0.iter().zip(external.as_chunks_mut().0) {
                    let value = u16::try_from(u32::from_ne_bytes(*from))
                        .map_err(|_| Error::Conversion("a wide character of more than 16 bits"))?;
                    *to = value.to_be_bytes();
                }
            }
            Self::Extended => {
                for (from, to) in native.as_chunks().0.iter().zip(external.as_chunks_mut().0) {
                    *to = extended_to_quad(u128::from_ne_bytes(*from)).to_be_bytes();
                }
            }
        }
        Ok(())
    }

    fn decode(self, external: &[u8], native: &mut [u8]) {
        match self {
            Self::Swap(size) => swap(external, native, size),
            Self::Long { is_signed } => {
                for (from, to) in external.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                    let value = u32::from_be_bytes(*from);
                    let value = if is_signed {
                        value.cast_signed() as u64
                    } else {
                        value.into()
                    };
                    *to = value.to_ne_bytes();
                }
            }
            Self::Wide => {
                for (from, to) in external.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                    *to = u32::from(u16::from_be_bytes(*from)).to_ne_bytes();
                }
            }
            Self::Extended => {
                for (from, to) in external.as_chunks().0.iter().zip(native.as_chunks_mut().0) {
                    *to = quad_to_extended(u128::from_be_bytes(*from)).to_ne_bytes();
                }
            }
        }
    }
}

/// From the machine's order of bytes to big-endian, or back.
fn swap(from: &[u8], to: &mut [u8], size: usize) {
    fn each<const N: usize>(from: &[u8], to: &mut [u8]) {
        for (from, to) in from
            .as_chunks::<N>()
            .0
            .iter()
            .zip(to.as_chunks_mut::<N>().0)
        {
            *to = *from;
            if cfg!(target_endian = "little") {
                to.reverse();
            }
        }
    }
    match size {
        2 => each::<2>(from, to),
        4 => each::<4>(from, to),
        8 => each::<8>(from, to),
        16 => each::<16>(from, to),
        _ => each::<1>(from, to),
    }
}

/// Bits of a fraction that IEEE's format has and x87's has not.
const MORE: u32 = 112 - 63;
const EXPONENT: u16 = 0x7fff;
const INTEGER_BIT: u64 = 1 << 63;

/// x87's format, in the low 80 bits, as IEEE's of 128 bits: exact.
fn extended_to_quad(bits: u128) -> u128 {
    let (top, significand) = ((bits >> 64) as u16, bits as u64);
    let mut exponent = top & EXPONENT;
    if exponent == 0 && significand & INTEGER_BIT != 0 {
        // A number of the smallest exponent that is written as if it were denormal.
        exponent = 1;
    }
    let fraction = u128::from(significand & !INTEGER_BIT) << MORE;
    u128::from(top & !EXPONENT | exponent) << 112 | fraction
}

/// IEEE's format of 128 bits as x87's, rounded to the nearest value, and in the middle between two
/// to the even one.
fn quad_to_extended(bits: u128) -> u128 {
    let sign = (bits >> 112) as u16 & !EXPONENT;
    let magnitude = bits & (u128::MAX >> 1);
    let is_finite = magnitude >> 112 < u128::from(EXPONENT);
    let mut kept = magnitude >> MORE;
    let lost = magnitude & ((1 << MORE) - 1);
    if is_finite {
        // A fraction rounded up beyond the largest one gets the next exponent.
        let half = 1 << (MORE - 1);
        if lost > half || lost == half && kept & 1 == 1 {
            kept += 1;
        }
    } else if magnitude << 16 != 0 {
        // The value stays a NaN even if the bits that made it one are lost.
        kept |= 1 << 62;
    }
    let exponent = (kept >> 63) as u16;
    let fraction = kept as u64 & !INTEGER_BIT;
    let integer = if exponent == 0 { 0 } else { INTEGER_BIT };
    u128::from(sign | exponent) << 64 | u128::from(fraction | integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The x87 number with this exponent and significand.
    fn extended(top: u16, significand: u64) -> u128 {
        u128::from(top) << 64 | u128::from(significand)
    }

    #[test]
    fn extended_numbers_are_quad_numbers() {
        let cases = [
            (extended(0, 0), 0),
            (extended(0x8000, 0), 1 << 127),
            (extended(0x3fff, INTEGER_BIT), 0x3fff << 112),
            (extended(0xc000, INTEGER_BIT | 1 << 62), 0xc000_8000 << 96),
            (extended(EXPONENT, INTEGER_BIT), 0x7fff << 112),
            (extended(EXPONENT, INTEGER_BIT | 1 << 62), 0x7fff_8000 << 96),
            (extended(0, 1), 1 << MORE),
            (
                extended(0x7ffe, u64::MAX),
                (0x7ffe << 112) | ((1 << 63) - 1) << MORE,
            ),
        ];
        for (extended, quad) in cases {
            assert_eq!(extended_to_quad(extended), quad, "{extended:x}");
            assert_eq!(quad_to_extended(quad), extended, "{quad:x}");
        }
        assert_eq!(extended_to_quad(extended(0, INTEGER_BIT)), 1 << 112);
    }

    #[test]
    fn quad_numbers_are_rounded_to_even() {
        let one = 0x3fff_u128 << 112;
        let half = 1 << (MORE - 1);
        let top = |fraction: u64| extended(0x3fff, INTEGER_BIT | fraction);
        assert_eq!(quad_to_extended(one + half), top(0));
        assert_eq!(quad_to_extended(one + half + 1), top(1));
        assert_eq!(quad_to_extended(one + 3 * half), top(2));
        assert_eq!(
            quad_to_extended((0x4000 << 112) - 1),
            extended(0x4000, INTEGER_BIT)
        );
        let largest = (0x7fff << 112) - 1;
        assert_eq!(
            quad_to_extended(largest),
            extended(EXPONENT, INTEGER_BIT),
            "infinite"
        );
        let denormal = (1_u128 << 112) - 1;
        assert_eq!(quad_to_extended(denormal), extended(1, INTEGER_BIT));
        let no_number = (0x7fff_u128 << 112) + 1;
        assert_ne!(quad_to_extended(no_number) as u64, INTEGER_BIT);
    }
}
