//! Numbers that nobody else chooses.

use causeway_wire::fs::Errno;

use super::call_error::CallError;

/// A number for a client, or by which servers distinguish something of this client from what others
/// have.
pub(super) fn random_number() -> Result<u128, CallError> {
    let bytes = causeway_sys::random::bytes()
        .map_err(|e| CallError::local(Errno::EIO, format!("no random numbers: {e}")))?;
    Ok(u128::from_le_bytes(bytes))
}
