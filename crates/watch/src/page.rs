//! A process's own page.
//!
//! There is one for each process, created when it is first needed, and shared by all instances of
//! the message layer in it. Rows are claimed one by one and written by their owners; nothing here
//! is on the path of a message.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use causeway_sys::fork::Owner;
use causeway_sys::mapping::Mapping;
use causeway_wire::watch::{self as wire, LogEvent, Row, area, word};

use crate::process;

/// The page of this process.
#[derive(Debug)]
pub struct Page {
    mapping: Mapping,
    /// Observers find the page by this descriptor.
    _file: OwnedFd,
    owner: Owner,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    free: Vec<u32>,
    used: u32,
}

static OWN: Mutex<Option<Arc<Page>>> = Mutex::new(None);

/// The page of this process, created if there is none yet. A forked process creates its own.
pub fn own() -> io::Result<Arc<Page>> {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(page) = own.as_ref()
        && page.is_own()
    {
        return Ok(Arc::clone(page));
    }
    let page = Arc::new(Page::new()?);
    *own = Some(Arc::clone(&page));
    Ok(page)
}

impl Page {
    /// Whether the page is this process's: a forked child holds its parent's only until it drops it.
    pub(crate) fn is_own(&self) -> bool {
        self.owner.is_this_process()
    }

    fn new() -> io::Result<Self> {
        let pid = std::process::id();
        let file = causeway_sys::memfd::create_fixed(wire::FILE_NAME, wire::PAGE_BYTES)?;
        let page = Self {
            mapping: Mapping::new(&file, wire::PAGE_BYTES)?,
            _file: file,
            owner: Owner::this_process()?,
            rows: Mutex::default(),
        };
        page.set(word::STARTED_NS, process::monotonic_ns());
        page.set(word::FORMAT_AND_PID, wire::pack_format(pid));
        page.write_text(area::NAME, &process::own_name());
        page.mapping
            .word(word::MAGIC)
            .store(wire::MAGIC, Ordering::Release);
        Ok(page)
    }

    fn set(&self, offset: usize, value: u64) {
        self.mapping.word(offset).store(value, Ordering::Relaxed);
    }

    /// Replaces the bytes after the version word at `offset`. There is one writer at a time.
    fn write(&self, offset: usize, body: &[u8]) {
        let version = self.mapping.word(offset);
        let writing = version.load(Ordering::Relaxed) | 1;
        version.store(writing, Ordering::Relaxed);
        fence(Ordering::Release);
        self.store(offset + 8, body);
        version.store(writing.wrapping_add(1), Ordering::Release);
    }

    /// Stores bytes as words; the last word is filled up with zeros.
    fn store(&self, offset: usize, bytes: &[u8]) {
        for (index, bytes) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.set(offset + 8 * index, u64::from_le_bytes(word));
        }
    }

    /// Replaces one of the short texts, cut to the available room.
    pub(crate) fn write_text(&self, offset: usize, text: &str) {
        let text = wire::front(text, area::TEXT_BYTES);
        let mut body = (text.len() as u64).to_le_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        self.write(offset, &body);
    }

    /// The version of the observers' latest request; it changes with each request.
    pub(crate) fn request_version(&self) -> u64 {
        self.mapping.word(area::ASKED).load(Ordering::Relaxed)
    }

    /// The observers' latest request, with its version; `None` while it is being written.
    pub(crate) fn pending_request(&self) -> Option<(u64, Vec<u8>)> {
        crate::observer::read_text(&self.mapping, area::ASKED)
    }

    /// Notes that the request of this version has been applied or refused.
    pub(crate) fn acknowledge(&self, version: u64) {
        self.mapping
            .word(word::APPLIED)
            .store(version, Ordering::Release);
    }

    /// Writes an event into the ring, over the oldest one.
    pub(crate) fn record(&self, event: &LogEvent) {
        let next = self.mapping.word(word::NEXT_EVENT);
        let number = next.fetch_add(1, Ordering::Relaxed);
        let offset = wire::event_offset(number);
        let version = self.mapping.word(offset);
        let before = version.load(Ordering::Relaxed);
        let done = wire::event_version(number);
        // Another writer has this slot, or a later event is already in it: this event is dropped.
        if before % 2 == 1
            || before >= done
            || version
                .compare_exchange(before, done - 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            self.mapping
                .word(word::LOST_EVENTS)
                .fetch_add(1, Ordering::Relaxed);
            return;
        }
        fence(Ordering::Release);
        self.store(offset + 8, &event.encode());
        version.store(done, Ordering::Release);
    }

    /// The latest events in the ring, at most `most`, oldest first.
    pub fn events(&self, most: usize) -> Vec<(u64, LogEvent)> {
        crate::observer::read_events(&self.mapping, most)
    }

    fn claim(&self) -> Option<u32> {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.free.pop() {
            return Some(row);
        }
        if rows.used as usize == wire::ROWS {
            return None;
        }
        rows.used += 1;
        self.set(word::ROWS_USED, rows.used.into());
        Some(rows.used - 1)
    }

    fn missing(&self) -> &AtomicU64 {
        self.mapping.word(word::ROWS_MISSING)
    }
}

/// A slot in the table of rows, freed when dropped.
#[derive(Debug)]
pub struct RowSlot {
    page: Arc<Page>,
    /// The slot's number; `None` while all slots are taken.
    row: Option<u32>,
}

impl RowSlot {
    /// Claims a slot. Without a free one, the row is counted as missing.
    pub fn new(page: &Arc<Page>) -> Self {
        let row = page.claim();
        if row.is_none() {
            page.missing().fetch_add(1, Ordering::Relaxed);
        }
        Self {
            page: Arc::clone(page),
            row,
        }
    }

    /// Writes the row.
    pub fn publish(&mut self, row: &Row) {
        if self.row.is_none() {
            self.row = self.page.claim();
            if self.row.is_none() {
                return;
            }
            self.page.missing().fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(number) = self.row {
            let offset = wire::row_offset(number as usize);
            self.page.write(offset, &row.encode());
        }
    }
}

impl Drop for RowSlot {
    fn drop(&mut self) {
        if !self.page.is_own() {
            return;
        }
        match self.row {
            Some(number) => {
                let offset = wire::row_offset(number as usize);
                self.page.write(offset, &[0; wire::ROW_BODY_BYTES]);
                let mut rows = self
                    .page
                    .rows
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                rows.free.push(number);
            }
            None => {
                self.page.missing().fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
