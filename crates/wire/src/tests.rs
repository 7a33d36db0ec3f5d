//! What tests of several formats share.

use alloc::format;
use alloc::string::String;

use crate::codec::Wire;

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes to these bytes, and they decode to it.
#[track_caller]
pub(crate) fn golden<T: Wire + PartialEq + core::fmt::Debug>(value: &T, expected: &str) {
    let expected: String = expected.split_whitespace().collect();
    let bytes = value.to_bytes();
    assert_eq!(hex(&bytes), expected, "{value:?}");
    assert_eq!(T::from_bytes(&bytes).as_ref(), Ok(value));
}
