//! Keys in memory: each in a page of its own that is not contained in core dumps, and is overwritten when the last
//! reference is dropped.

use std::io::{self, Read as _};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use zeroize::{Zeroize as _, Zeroizing};

use crate::random;
use crate::trusted_file::{self, Refused, Use};

/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// Bytes of the mapping: the kernel rounds up to a page.
const MAPPED_BYTES: usize = 4096;

/// The most bytes of a key file that are read.
const LONGEST_FILE: usize = 4096;

/// A key. Clones are references to the same bytes; `Debug` does not show them.
#[derive(Clone)]
pub struct Secret(Arc<Page>);

struct Page {
    at: NonNull<[u8; SECRET_BYTES]>,
    /// The page, or a heap allocation where the kernel gave none.
    is_mapped: bool,
}

// SAFETY: the bytes are written before the page is shared, and again only when it is dropped.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Secret {
    /// Takes the bytes over and overwrites the caller's.
    pub fn take(bytes: &mut [u8; SECRET_BYTES]) -> Self {
        let page = Page::new();
        // SAFETY: the page has room for them, and is not shared yet.
        unsafe { page.at.write(*bytes) };
        bytes.zeroize();
        Self(Arc::new(page))
    }

    /// A new one, drawn at random.
    pub fn draw() -> io::Result<Self> {
        random::bytes().map(|mut bytes| Self::take(&mut bytes))
    }

    /// The key of 64 hexadecimal digits.
    pub fn of_digits(text: &str) -> Option<Self> {
        let mut bytes = [0; SECRET_BYTES];
        if text.len() != 2 * SECRET_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self::take(&mut bytes))
    }

    /// The one that a key file holds: 64 hexadecimal digits, and spaces or ends of lines around them.
    pub fn of_file(path: &Path) -> Result<Self, Refused> {
        let file = trusted_file::open(path, Use::Key)?;
        let mut text = Zeroizing::new(String::with_capacity(LONGEST_FILE));
        file.take(LONGEST_FILE as u64)
            .read_to_string(&mut text)
            .map_err(Refused::Unreadable)?;
        Self::of_digits(text.trim()).ok_or_else(|| {
            Refused::Distrusted("it does not hold exactly 64 hexadecimal digits".to_owned())
        })
    }

    /// Its hexadecimal digits.
    pub fn digits(&self) -> Zeroizing<String> {
        let mut digits = String::with_capacity(2 * SECRET_BYTES);
        for byte in self.expose() {
            for half in [byte >> 4, byte & 15] {
                digits.extend(char::from_digit(half.into(), 16));
            }
        }
        Zeroizing::new(digits)
    }

    /// The bytes, for the code that computes with them.
    pub fn expose(&self) -> &[u8; SECRET_BYTES] {
        // SAFETY: they live as long as the page, and are not written before it is dropped.
        unsafe { self.0.at.as_ref() }
    }
}

impl From<[u8; SECRET_BYTES]> for Secret {
    fn from(mut bytes: [u8; SECRET_BYTES]) -> Self {
        Self::take(&mut bytes)
    }
}

impl PartialEq for Secret {
    /// In constant time: the duration does not show where the first difference is.
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.expose().iter().zip(other.expose());
        pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }
}

impl Eq for Secret {}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Page {
    fn new() -> Self {
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                MAPPED_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        match mapped.ok().and_then(NonNull::new) {
            Some(at) => {
                // SAFETY: the mapping is ours, and the advice changes only what dumps contain. Best effort.
                let _ = unsafe { madvise(at.as_ptr(), MAPPED_BYTES, Advice::LinuxDontDump) };
                Self {
                    at: at.cast(),
                    is_mapped: true,
                }
            }
            // Without memory for a page, the key is kept on the heap.
            None => Self {
                at: NonNull::from(Box::leak(Box::new([0; SECRET_BYTES]))),
                is_mapped: false,
            },
        }
    }

    fn wipe(&mut self) {
        // SAFETY: the page is borrowed exclusively.
        unsafe { self.at.as_mut() }.zeroize();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.wipe();
        if self.is_mapped {
            // SAFETY: `new` has mapped exactly this, and there is no reference to it any more.
            let _ = unsafe { munmap(self.at.as_ptr().cast(), MAPPED_BYTES) };
        } else {
            // SAFETY: `new` has leaked exactly this box.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags (`VmFlags` in `proc(5)`) of the mapping that an address lies in.
    fn flags_of(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line
                .split_once(' ')
                .and_then(|(range, _)| range.split_once('-'));
            let range = range.and_then(|(start, end)| {
                let number = |text| usize::from_str_radix(text, 16).ok();
                Some(number(start)?..number(end)?)
            });
            match (range, line.strip_prefix("VmFlags:")) {
                (Some(range), _) => inside = range.contains(&address),
                (None, Some(flags)) if inside => return flags.to_owned(),
                _ => {}
            }
        }
        panic!("no mapping has {address:x}");
    }

    #[test]
    fn keys_are_in_no_dump_and_wiped_and_not_shown() {
        let mut bytes = [7; SECRET_BYTES];
        let secret = Secret::take(&mut bytes);
        assert_eq!(bytes, [0; SECRET_BYTES], "the caller's copy");
        assert_eq!(secret.expose(), &[7; SECRET_BYTES]);
        let flags = flags_of(secret.expose().as_ptr().addr());
        assert!(flags.split(' ').any(|flag| flag == "dd"), "{flags}");
        assert_eq!(format!("{secret:?}"), "(secret)");
        assert!(secret.clone() == secret && secret == Secret::from([7; SECRET_BYTES]));
        assert!(secret != Secret::from([8; SECRET_BYTES]));
        let digits = secret.digits();
        assert_eq!(*digits, "07".repeat(32));
        assert_eq!(Secret::of_digits(&digits), Some(secret.clone()));
        for wrong in ["", "07", &"0x".repeat(32), &"é".repeat(32)] {
            assert_eq!(Secret::of_digits(wrong), None);
        }
        let mut page = Arc::into_inner(secret.0).unwrap();
        page.wipe();
        // SAFETY: the page is still mapped.
        assert_eq!(unsafe { page.at.as_ref() }, &[0; SECRET_BYTES]);
    }
}
