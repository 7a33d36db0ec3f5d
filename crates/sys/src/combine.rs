//! Combining the elements of two spans of memory, one by one: the basic step of reductions.

use crate::blocks::{Source, Target};

/// Replaces each of the first `count` elements of `into`, of `N` bytes and any alignment, by the result of `with` for the
/// element of `from` and itself. Where `with` is a simple expression, it is compiled for several elements at a time, with and
/// without AVX2, and the version for this processor is used. With AVX2, sums take as long as without (they wait for memory),
/// maxima and products of integers of 1 and 8 bytes a half to a third of the time.
///
/// # Panics
/// If a span has fewer elements.
#[inline]
pub fn combine<const N: usize>(
    into: &mut Target<'_>,
    from: Source<'_>,
    count: usize,
    with: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let is_inside = |len: usize| count.checked_mul(N).is_some_and(|needed| needed <= len);
    assert!(
        is_inside(into.len()) && is_inside(from.len()),
        "elements outside of a span"
    );
    let (into, from) = (into.as_ptr(), from.as_ptr());
    #[cfg(target_arch = "x86_64")]
    if count >= FEW && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the elements are inside both spans, which was just checked; what is inside is valid by the contract of `from_raw`; the
        // processor has the instructions.
        return unsafe { each_with_avx2(into, from, count, with) };
    }
    // SAFETY: as above.
    unsafe { each(into, from, count, with) };
}

/// Fewer elements than this gain nothing by wider instructions.
#[cfg(target_arch = "x86_64")]
const FEW: usize = 16;

/// # Safety
/// Both must be valid for `count` elements of `N` bytes, `into` for writes too.
#[inline(always)]
unsafe fn each<const N: usize>(
    into: *mut u8,
    from: *const u8,
    count: usize,
    with: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (into, from) = (into.cast::<[u8; N]>(), from.cast::<[u8; N]>());
    for at in 0..count {
        // SAFETY: the caller's.
        unsafe {
            let into = into.add(at);
            let (a, b) = (from.add(at).read_unaligned(), into.read_unaligned());
            into.write_unaligned(with(a, b));
        }
    }
}

/// # Safety
/// As [`each`]; the processor must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn each_with_avx2<const N: usize>(
    into: *mut u8,
    from: *const u8,
    count: usize,
    with: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    // SAFETY: the caller's.
    unsafe { each(into, from, count, with) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_at_any_alignment_are_combined_in_order() {
        for count in [0, 1, 2, 15, 16, 17, 100] {
            for shift in 0..4 {
                let from: Vec<u8> = (0..500_u32).map(|n| (n * 3) as u8).collect();
                let mut into: Vec<u8> = (0..500_u32).map(|n| (n * 5) as u8).collect();
                let before = into.clone();
                let mut target = Target::from(&mut into[shift..]);
                combine::<4>(&mut target, Source::from(&from[1..]), count, |a, b| {
                    (u32::from_le_bytes(a).wrapping_sub(u32::from_le_bytes(b))).to_le_bytes()
                });
                let number = |of: &[u8], at: usize| {
                    u32::from_le_bytes(of[at..at + 4].try_into().expect("four"))
                };
                for n in 0..count {
                    let (a, b) = (number(&from, 1 + 4 * n), number(&before, shift + 4 * n));
                    assert_eq!(number(&into, shift + 4 * n), a.wrapping_sub(b));
                }
                assert_eq!(into[shift + 4 * count..], before[shift + 4 * count..]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "outside of a span")]
    fn elements_outside_of_a_span_are_refused() {
        let mut into = [0; 12];
        combine::<4>(
            &mut Target::from(&mut into[..]),
            Source::from(&[0; 11][..]),
            3,
            |a, _| a,
        );
    }
}
