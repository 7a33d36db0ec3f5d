//! How many threads of this machine want a processor.

use std::fs::File;
use std::io::{self, Read};

use rustix::io::pread;

/// The kernel's count of them.
#[derive(Debug)]
pub struct Runnable {
    loadavg: File,
    processors: u32,
}

impl Runnable {
    /// Opens it; fails where there is no `/proc`.
    pub fn open() -> io::Result<Self> {
        let loadavg = File::open("/proc/loadavg")?;
        let mut online = String::new();
        File::open("/sys/devices/system/cpu/online")?.read_to_string(&mut online)?;
        let processors = count_ranges(&online).filter(|count| *count > 0);
        Ok(Self {
            loadavg,
            processors: processors.ok_or_else(|| unreadable("the list of processors"))?,
        })
    }

    /// Threads that run or could run now, for each processor of the machine; the caller counts. 2 µs.
    pub fn per_processor(&self) -> io::Result<u32> {
        Ok(self.threads()?.div_ceil(self.processors))
    }

    /// Whether there are at least as many of them as processors, beside so many that do not count.
    pub fn are_processors_busy(&self, beside: u32) -> io::Result<bool> {
        Ok(self.threads()?.saturating_sub(beside) >= self.processors)
    }

    fn threads(&self) -> io::Result<u32> {
        let mut text = [0; 128];
        let len = pread(&self.loadavg, &mut text, 0)?;
        let text = text.get(..len).unwrap_or_default();
        count_runnable(text).ok_or_else(|| unreadable("/proc/loadavg"))
    }
}

fn unreadable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} is unreadable"))
}

/// How many numbers a list like `0-3,8` names.
fn count_ranges(list: &str) -> Option<u32> {
    let ranges = list.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    ranges.sum()
}

/// The first number of the fourth field of `0.20 0.18 0.12 1/80 11206`.
fn count_runnable(loadavg: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(loadavg).ok()?;
    let (runnable, _) = text.split_ascii_whitespace().nth(3)?.split_once('/')?;
    runnable.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_loads_are_read_as_the_kernel_writes_them() {
        assert_eq!(count_ranges("0\n"), Some(1));
        assert_eq!(count_ranges("0-3,8,10-11\n"), Some(7));
        for odd in ["", "a", "3-1", "0-", "0-4294967295,1"] {
            assert_eq!(count_ranges(odd), None, "{odd}");
        }
        assert_eq!(count_runnable(b"0.20 0.18 0.12 17/80 11206\n"), Some(17));
        for odd in ["", "1 2 3", "1 2 3 4", "1 2 3 -1/5 6"] {
            assert_eq!(count_runnable(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn the_calling_thread_is_counted() {
        assert!(Runnable::open().unwrap().per_processor().unwrap() >= 1);
    }
}
