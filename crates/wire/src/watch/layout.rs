//! The layout of a page.

/// Offsets of the single words of the head.
pub mod word {
    /// [`MAGIC`](super::super::MAGIC); written last, when the page can be read.
    pub const MAGIC: usize = 0;
    /// Format (lower half) and process id in the process's own name space (upper half). The same in
    /// all formats.
    pub const FORMAT_AND_PID: usize = 8;
    /// When the page was made, by the monotonic clock, in ns.
    pub const STARTED_NS: usize = 16;
    /// Number of the next log event.
    pub const NEXT_EVENT: usize = 24;
    /// Log events that were lost because too many threads logged at once.
    pub const LOST_EVENTS: usize = 32;
    /// Rows from this number on were never used.
    pub const ROWS_USED: usize = 40;
    /// Rows that are missing because the table is full.
    pub const ROWS_MISSING: usize = 48;
    /// Version of the text at [`area::ASKED`](super::area::ASKED) that the process has last
    /// applied.
    pub const APPLIED: usize = 56;
}

/// The short texts: a version word, a length word and [`area::TEXT_BYTES`] bytes each.
pub mod area {
    /// The process's name.
    pub const NAME: usize = 256;
    /// The log masks that another process requests. The only part that other processes write.
    pub const ASKED: usize = 1024;
    /// The log masks in force.
    pub const IN_FORCE: usize = 1792;
    /// The version word and the length word.
    pub const HEAD_BYTES: usize = 16;
    /// Most bytes of a text.
    pub const TEXT_BYTES: usize = 752;
}

/// Where the ring of log events begins.
pub const EVENTS_OFFSET: usize = 4096;
/// Log events that a page holds.
pub const EVENTS: usize = 1024;
/// Bytes of a log event with its version word.
pub const EVENT_BYTES: usize = 512;
/// Where the rows begin.
pub const ROWS_OFFSET: usize = EVENTS_OFFSET + EVENTS * EVENT_BYTES;
/// Rows that a page holds. Only used ones take memory.
pub const ROWS: usize = 16384;
/// Bytes of a row with its version word.
pub const ROW_BYTES: usize = 256;
/// Bytes of the page.
pub const PAGE_BYTES: usize = ROWS_OFFSET + ROWS * ROW_BYTES;
/// Bytes after the version word of a log event and of a row.
pub const EVENT_BODY_BYTES: usize = EVENT_BYTES - 8;
/// See [`EVENT_BODY_BYTES`].
pub const ROW_BODY_BYTES: usize = ROW_BYTES - 8;

const _: () = {
    assert!(EVENTS_OFFSET == 4096 && ROWS_OFFSET == 528_384 && PAGE_BYTES == 4_722_688);
    assert!(word::APPLIED + 8 <= area::NAME);
    assert!(area::NAME + area::HEAD_BYTES + area::TEXT_BYTES <= area::ASKED);
    assert!(area::ASKED + area::HEAD_BYTES + area::TEXT_BYTES <= area::IN_FORCE);
    assert!(area::IN_FORCE + area::HEAD_BYTES + area::TEXT_BYTES <= EVENTS_OFFSET);
    assert!(area::TEXT_BYTES.is_multiple_of(8) && EVENT_BYTES.is_multiple_of(8));
    assert!(ROWS_OFFSET.is_multiple_of(4096) && PAGE_BYTES.is_multiple_of(4096));
    assert!(4096usize.is_multiple_of(ROW_BYTES) && 4096usize.is_multiple_of(EVENT_BYTES));
};

/// Offset of the row of this number.
///
/// # Panics
/// If there is none.
pub fn row_offset(row: usize) -> usize {
    assert!(row < ROWS);
    ROWS_OFFSET + row * ROW_BYTES
}

/// Offset in the ring of the log event of this number.
pub fn event_offset(number: u64) -> usize {
    EVENTS_OFFSET + (number % EVENTS as u64) as usize * EVENT_BYTES
}

/// The version word of a complete log event of this number; one less while it is being written.
pub fn event_version(number: u64) -> u64 {
    number.wrapping_mul(2).wrapping_add(2)
}
