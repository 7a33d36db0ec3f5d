//! Which run of the host this is: what was in its memory is gone with the next one.

/// The kernel's number for this run of the host; 0 where it does not tell.
pub(crate) fn identity() -> u128 {
    if let Some(boot) = crate::sabotage::pretended_boot() {
        return boot;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default()
}
