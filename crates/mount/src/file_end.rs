//! What the kernel may know of where a file ends, and which of its pages may have zeros behind an end that is none any more.
//!
//! Where a file ends, the kernel fills the page with zeros. When it learns that the file has grown, it sets the new size before it drops that page, and may wait for a request to read another page
//! meanwhile: a program that reads just then gets the zeros as content (seen on Linux 6.18, also with a file system of libfuse's). So the mount tells the kernel of a larger size only once it has had it
//! drop these pages, and content that ends before a size of which the kernel may know by then is read again. That leaves programs that have found the page just before it is dropped, and the size just after: nothing is between the two in the kernel.

use std::ops::Range;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct FileEnd {
    /// The size in the latest reply.
    size: u64,
    /// How often the kernel was told one.
    tells: u64,
    /// The sizes that it was told, each with the number of that time, but for those that were followed by one as large.
    told: Vec<(u64, u64)>,
    /// Bytes in whose pages the kernel may have zeros.
    zeros: Option<Range<u64>>,
    /// The same of pages that it is dropping, for this number of callers.
    dropping: Option<Range<u64>>,
    drops: usize,
}

/// Most sizes that are remembered: only after a file has become smaller again and again there are more than one.
const MOST_TOLD: usize = 8;

/// Adds bytes to others; those in between are counted, too.
fn add(all: &mut Option<Range<u64>>, more: Range<u64>) {
    *all = Some(match all {
        Some(all) => all.start.min(more.start)..all.end.max(more.end),
        None => more,
    });
}

impl FileEnd {
    /// The kernel is about to learn that the file has this size. Returns bytes whose pages it has to drop before, if there are any; the caller calls
    /// [`FileEnd::note_dropped`] then.
    pub(crate) fn tell(&mut self, size: u64) -> Option<Range<u64>> {
        if size < self.size {
            // The kernel fills the page with zeros from there on.
            add(&mut self.zeros, size..self.size);
        }
        self.size = size;
        self.tells += 1;
        self.told.retain(|(_, before)| *before > size);
        if self.told.len() == MOST_TOLD {
            // The first one counts as told later, together with the next.
            let (_, first) = self.told.remove(0);
            self.told[0].1 = first;
        }
        self.told.push((self.tells, size));
        self.drop_before(size)
    }

    /// Another client is changing the file, maybe its size. Otherwise as [`FileEnd::tell`].
    pub(crate) fn note_recall(&mut self) -> Option<Range<u64>> {
        self.drop_before(u64::MAX)
    }

    fn drop_before(&mut self, size: u64) -> Option<Range<u64>> {
        if let Some(zeros) = self.zeros.take_if(|zeros| zeros.start < size) {
            add(&mut self.dropping, zeros);
        }
        let dropping = self.dropping.clone();
        let dropping = dropping.filter(|dropping| dropping.start < size)?;
        self.drops += 1;
        Some(dropping)
    }

    /// The kernel has written past its cache up to this offset, and takes the file to be at least as large. Otherwise as [`FileEnd::tell`].
    pub(crate) fn note_written_past(&mut self, end: u64) -> Option<Range<u64>> {
        self.tell(self.size.max(end))
    }

    /// The kernel has written these bytes through its cache, where they take the place of zeros. Otherwise as [`FileEnd::note_written_past`].
    pub(crate) fn note_written(&mut self, bytes: Range<u64>) -> Option<Range<u64>> {
        if let Some(zeros) = &mut self.zeros
            && bytes.start <= zeros.start
        {
            zeros.start = zeros.start.max(bytes.end);
        }
        self.zeros.take_if(|zeros| zeros.is_empty());
        self.note_written_past(bytes.end)
    }

    /// The kernel has dropped pages.
    pub(crate) fn note_dropped(&mut self) {
        self.drops = self.drops.saturating_sub(1);
        if self.drops == 0 {
            self.dropping = None;
        }
    }

    /// A read for the kernel's cache begins. Returns a number for [`FileEnd::end_read`].
    pub(crate) fn begin_read(&self) -> u64 {
        self.tells
    }

    /// The kernel is about to get what was read, which ends where the bytes `behind` begin. Returns whether it may: not if it was told of a larger size since the read began, as the content has to be read
    /// again then. If it was told of one before, the file is smaller by now.
    pub(crate) fn end_read(&mut self, began: u64, behind: Range<u64>) -> bool {
        let mut since = self.told.iter().filter(|(number, _)| *number > began);
        let is_current = since.all(|(_, size)| *size <= behind.start);
        if is_current {
            add(&mut self.zeros, behind);
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_learns_of_growth_once_it_has_dropped_the_last_page() {
        let mut end = FileEnd::default();
        assert_eq!(end.tell(100), None);
        assert!(end.end_read(end.begin_read(), 100..4096));
        assert_eq!(end.tell(100), None, "zeros behind the end are no content");
        assert_eq!(end.tell(101), Some(100..4096));
        // Another reply must not go ahead of the first one.
        assert_eq!(end.tell(101), Some(100..4096));
        end.note_dropped();
        assert_eq!(end.tell(120), Some(100..4096));
        end.note_dropped();
        end.note_dropped();
        assert_eq!(end.tell(130), None);
    }

    #[test]
    fn the_last_page_is_dropped_as_soon_as_others_change_the_file() {
        let mut end = FileEnd::default();
        assert_eq!(end.note_recall(), None);
        assert!(end.end_read(end.begin_read(), 100..4096));
        assert_eq!(end.note_recall(), Some(100..4096));
        end.note_dropped();
        assert_eq!(end.tell(200), None);
    }

    #[test]
    fn content_that_ends_before_a_size_that_was_told_meanwhile_is_read_again() {
        let mut end = FileEnd::default();
        let first = end.begin_read();
        assert_eq!(end.tell(200), None);
        assert!(!end.end_read(first, 100..4096) && end.end_read(first, 200..4096));
        // It has been smaller meanwhile, and is as large again.
        let began = end.begin_read();
        assert_eq!(end.tell(100), None);
        assert!(end.tell(200).is_some());
        end.note_dropped();
        assert!(!end.end_read(began, 100..4096));
        // It is smaller now, however often the kernel is told so.
        let began = end.begin_read();
        assert_eq!(end.tell(100), None);
        assert_eq!(end.tell(100), None);
        assert!(end.end_read(began, 100..4096));
        assert_eq!(end.tell(101), Some(100..4096));
        assert!(!end.end_read(first, 199..4096), "it was told of 200");
    }

    #[test]
    fn few_sizes_are_remembered_and_none_counts_as_told_earlier() {
        let mut end = FileEnd::default();
        let began = end.begin_read();
        for size in (100..200).rev() {
            end.tell(size);
        }
        assert!(end.told.len() <= MOST_TOLD);
        assert!(!end.end_read(began, 198..4096) && end.end_read(began, 199..4096));
        let last = end.begin_read();
        end.tell(50);
        assert!(end.end_read(last, 50..4096));
    }

    #[test]
    fn a_page_that_is_cut_has_zeros_too() {
        let mut end = FileEnd::default();
        assert_eq!(end.tell(9000), None);
        assert_eq!(end.tell(5000), None);
        assert_eq!(end.tell(6000), Some(5000..9000));
    }

    #[test]
    fn what_is_written_through_the_cache_takes_the_place_of_zeros() {
        let mut end = FileEnd::default();
        assert!(end.end_read(end.begin_read(), 100..4096));
        assert_eq!(end.note_written(100..150), None);
        assert_eq!(end.tell(150), None);
        assert_eq!(end.note_written(150..5000), None);
        assert_eq!(end.tell(6000), None);
        assert!(end.end_read(end.begin_read(), 6000..8192));
        let began = end.begin_read();
        assert_eq!(
            end.note_written(6001..6002),
            Some(6000..8192),
            "others may have written the byte before"
        );
        assert!(!end.end_read(began, 6001..8192));
    }

    #[test]
    fn what_is_written_past_the_cache_does_not() {
        let mut end = FileEnd::default();
        assert_eq!(end.note_written_past(100), None);
        assert!(end.end_read(end.begin_read(), 100..4096));
        assert_eq!(end.note_written_past(50), None);
        let began = end.begin_read();
        assert_eq!(end.note_written_past(150), Some(100..4096));
        assert!(!end.end_read(began, 100..4096));
    }
}
