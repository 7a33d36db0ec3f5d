//! How large the kernel's requests are.
//!
//! Most programs' large buffers do not begin at a page: 1 MiB that the C library has allocated begins 16 bytes behind the start of one. It touches
//! one page more than a buffer that does, and where a request has pages for 1 MiB only, the kernel makes two of such a `write` past its cache, the
//! second one for the 16 bytes that are left. These then cost as many messages as the 1 MiB, and the block that they end in is written twice.

use std::io;

/// Bytes of a page.
const PAGE: u32 = 4096;
/// Most bytes of one read.
pub(crate) const MAX_READ: u32 = 1 << 20;
/// Most bytes of one write: 1 MiB in memory that begins inside a page. The kernel derives from it how many pages a request has.
pub(crate) const MAX_WRITE: u32 = MAX_READ + PAGE;

/// The kernel's limit for all FUSE file systems (Linux 6.13).
const LIMIT: &str = "/proc/sys/fs/fuse/max_pages_limit";

/// Has the kernel permit requests with as many pages as [`MAX_WRITE`] takes, if its limit is below that: by default it is one page short. That takes
/// root, and holds for file systems that are mounted later.
pub(crate) fn permit() -> io::Result<()> {
    let limit = std::fs::read_to_string(LIMIT)?;
    match raised(&limit, MAX_WRITE.div_ceil(PAGE)) {
        Some(limit) => std::fs::write(LIMIT, limit),
        None => Ok(()),
    }
}

/// What to write for this limit if `wanted` pages are to be permitted, and are not yet.
fn raised(limit: &str, wanted: u32) -> Option<String> {
    let limit: u32 = limit.trim().parse().ok()?;
    (limit < wanted).then(|| wanted.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_only() {
        let wanted = MAX_WRITE.div_ceil(PAGE);
        assert_eq!(wanted, 257);
        assert_eq!(raised("256\n", wanted).as_deref(), Some("257"));
        for enough in ["257\n", "65535\n", "no number\n", ""] {
            assert_eq!(raised(enough, wanted), None, "{enough}");
        }
    }
}
