//! Fields of the engine's formats: little-endian integers.

/// Takes the first `N` bytes.
pub(super) fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*head)
}

pub(super) fn take_u8(input: &mut &[u8]) -> Option<u8> {
    take(input).map(u8::from_le_bytes)
}

pub(super) fn take_u16(input: &mut &[u8]) -> Option<u16> {
    take(input).map(u16::from_le_bytes)
}

pub(super) fn take_u32(input: &mut &[u8]) -> Option<u32> {
    take(input).map(u32::from_le_bytes)
}

pub(super) fn take_u64(input: &mut &[u8]) -> Option<u64> {
    take(input).map(u64::from_le_bytes)
}

pub(super) fn take_u128(input: &mut &[u8]) -> Option<u128> {
    take(input).map(u128::from_le_bytes)
}
