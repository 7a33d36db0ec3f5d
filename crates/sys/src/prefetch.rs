//! Memory that a program will use soon, or at random: fetching it into the cache while the program continues, and putting it into
//! huge pages.

use crate::pages::prefetch;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Begins to fetch `value` into the cache; nothing waits for it. Of a slice without elements the line is fetched where they would be.
#[inline(always)]
pub fn read<T: ?Sized>(value: &T) {
    let at = std::ptr::from_ref(value).cast::<u8>();
    let before = at.addr() % LINE;
    let begin = at.wrapping_sub(before);
    for line in (0..(before + size_of_val(value)).max(1)).step_by(LINE) {
        prefetch(begin.wrapping_add(line));
    }
}

/// Has the kernel put the memory around `values` into huge pages now, where it can: fewer pages then have to be found when memory is used
/// at random. The memory's contents and addresses stay. Without an effect before Linux 6.1.
pub fn gather<T>(values: &[T]) {
    /// `MADV_COLLAPSE`.
    const COLLAPSE: i32 = 25;
    let at = std::ptr::from_ref(values).cast::<u8>();
    let before = at.addr() % HUGE;
    let bytes = before + size_of_val(values);
    for page in (0..bytes).step_by(HUGE) {
        let page = at.wrapping_sub(before).wrapping_add(page);
        // SAFETY: collapsing changes neither contents nor addresses of any memory, and an error is reported for addresses without.
        unsafe {
            libc::madvise(page.cast_mut().cast(), HUGE, COLLAPSE);
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_of_any_size_may_be_read_ahead() {
        super::read(&());
        super::read(&[0_u8; 1]);
        super::read(&[0_u64; 100][1..]);
        super::read::<[u64]>(&[]);
    }

    #[test]
    fn gathering_changes_no_contents() {
        let values: Vec<u64> = (0..1 << 20).collect();
        super::gather(&values);
        assert!(values.iter().copied().eq(0..1 << 20));
        super::gather::<u64>(&[]);
    }
}
