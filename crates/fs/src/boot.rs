//! The identity of the host's present boot: the content of its memory is lost with the next one.

use std::sync::LazyLock;

/// The kernel's identity of this boot of the host. If the kernel has none, a number of this process alone: then
/// no data in memory counts as surviving an earlier boot. Never 0.
pub(crate) fn identity() -> u128 {
    static IDENTITY: LazyLock<u128> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        parse(&text).unwrap_or_else(|| {
            tracing::warn!(
                "the host's boot identity cannot be read: every start counts as a new boot"
            );
            unlike_any_other()
        })
    });
    crate::sabotage::pretended_boot().unwrap_or(*IDENTITY)
}

fn parse(text: &str) -> Option<u128> {
    let number = u128::from_str_radix(&text.trim().replace('-', ""), 16).ok();
    number.filter(|number| *number != 0)
}

fn unlike_any_other() -> u128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    match causeway_sys::random::bytes() {
        Ok(bytes) => u128::from_le_bytes(bytes) | 1,
        Err(_) => {
            let now = since.unwrap_or_default().as_nanos();
            now << 32 | u128::from(std::process::id()) | 1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_cannot_be_told_is_another_one() {
        assert_eq!(parse("00000000-0000-0000-0000-00000000000a\n"), Some(10));
        for unreadable in ["", "no", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(parse(unreadable), None);
        }
        assert_ne!(unlike_any_other(), unlike_any_other());
        assert_ne!(identity(), 0);
        assert_eq!(identity(), identity());
    }
}
