//! How far the kernel reads ahead.

use std::io;

/// Two requests of the largest size: the kernel takes the one while the other is under way.
const READ_AHEAD_KIB: &str = "2048";

/// Has the kernel read ahead in requests of the largest size on the device with these numbers, which it does not by itself. That takes root.
pub(crate) fn set(numbers: &str) -> io::Result<()> {
    std::fs::write(
        format!("/sys/class/bdi/{numbers}/read_ahead_kb"),
        READ_AHEAD_KIB,
    )
}
