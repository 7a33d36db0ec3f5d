//! Observing other processes' pages.
//!
//! A page may have been written by any program: everything is copied out before it is decoded, with bounds, and without
//! waiting for a writer.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{Ordering, fence};

use causeway_sys::mapping::{Mapping, View, Words};
use causeway_sys::memfd::Foreign;
use causeway_wire::watch::{self as wire, LogEvent, Row, area, word};

use crate::process;

/// How many times data that is being written is read again before it is skipped.
const ATTEMPTS: u32 = 64;

/// Why a process cannot be observed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// There is no such process.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// The kernel does not permit it.
    #[error("process {0} belongs to another user: only its owner and root may observe it")]
    NotAllowed(u32),
    /// The process has no page.
    #[error(
        "process {0} shows nothing of itself: it is no program of Causeway, or was configured not to"
    )]
    NoPage(u32),
    /// The process's page cannot be decoded.
    #[error("the status page of process {pid} cannot be read: {why}")]
    Page {
        /// The process.
        pid: u32,
        /// The error in the page.
        why: String,
    },
    /// The system refused.
    #[error("observing process {pid}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Another process's page.
#[derive(Debug)]
pub struct Observer {
    /// The process.
    pub pid: u32,
    view: View,
    file: Foreign,
    path: PathBuf,
}

/// The result of [`observe_all`].
#[derive(Debug, Default)]
pub struct ObservedProcesses {
    /// The processes that have a page.
    pub processes: Vec<Observer>,
    /// The number of processes of other users, which cannot be observed.
    pub not_allowed: usize,
    /// Why pages that exist could not be read.
    pub errors: Vec<ObserveError>,
}

/// Opens the pages of all processes that have one, except those whose number `known` accepts.
pub fn observe_all(known: impl Fn(u32) -> bool) -> io::Result<ObservedProcesses> {
    let mut found = ObservedProcesses::default();
    for pid in process::all()?.filter(|pid| !known(*pid)) {
        match Observer::new(pid) {
            Ok(page) => found.processes.push(page),
            Err(ObserveError::NoPage(_) | ObserveError::NoProcess(_)) => {}
            Err(ObserveError::NotAllowed(_)) => found.not_allowed += 1,
            Err(error) => found.errors.push(error),
        }
    }
    found.processes.sort_by_key(|page| page.pid);
    Ok(found)
}

impl Observer {
    /// Opens the page of a process.
    pub fn new(pid: u32) -> Result<Self, ObserveError> {
        let refuse = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => ObserveError::NoProcess(pid),
            io::ErrorKind::PermissionDenied => ObserveError::NotAllowed(pid),
            _ => ObserveError::System { pid, source },
        };
        let wanted = format!("/memfd:{} (deleted)", wire::FILE_NAME);
        let mut reason = ObserveError::NoPage(pid);
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(refuse)? {
            // A descriptor that has been closed meanwhile is not a page.
            let Ok(path) = entry.map(|entry| entry.path()) else {
                continue;
            };
            let is_page =
                std::fs::read_link(&path).is_ok_and(|target| target.as_os_str() == wanted.as_str());
            if !is_page {
                continue;
            }
            match Self::open(pid, path) {
                Ok(page) => match page.check() {
                    Ok(()) => return Ok(page),
                    Err(why) => reason = why,
                },
                Err(error) => {
                    reason = ObserveError::Page {
                        pid,
                        why: error.to_string(),
                    }
                }
            }
        }
        Err(reason)
    }

    /// Opens the file of one of the process's descriptors. Its name proves nothing: a user can give
    /// that name to any file.
    fn open(pid: u32, path: PathBuf) -> io::Result<Self> {
        let file = Foreign::find(&path)?;
        let view = View::new(file.open(false)?, wire::PAGE_BYTES)?;
        Ok(Self {
            pid,
            view,
            file,
            path,
        })
    }

    /// Whether the page has a format that this build reads, and is this process's: a forked child still has
    /// its parent's page open.
    fn check(&self) -> Result<(), ObserveError> {
        let wrong = |why: String| ObserveError::Page { pid: self.pid, why };
        if self.view.load(word::MAGIC, Ordering::Acquire) != wire::MAGIC {
            return Err(wrong("it is not written yet, or is no status page".into()));
        }
        let stated = self.view.load(word::FORMAT_AND_PID, Ordering::Relaxed);
        let pid = wire::unpack_format(stated).map_err(wrong)?;
        match process::own_pid_of(self.pid) {
            Some(own) if own != pid => Err(ObserveError::NoPage(self.pid)),
            _ => Ok(()),
        }
    }

    /// Whether the process is still there.
    pub fn is_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok() && self.check().is_ok()
    }

    /// The command line that the process was started with.
    pub fn name(&self) -> String {
        self.text(area::NAME)
    }

    /// The log masks in force; empty if the process does not log through this crate.
    pub fn masks(&self) -> String {
        self.text(area::IN_FORCE)
    }

    fn text(&self, offset: usize) -> String {
        let bytes = read_text(&self.view, offset).map_or_else(Vec::new, |(_, bytes)| bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        crate::text::plain(&text)
    }

    /// When the page was made, by the monotonic clock.
    pub fn started_ns(&self) -> u64 {
        self.view.load(word::STARTED_NS, Ordering::Relaxed)
    }

    /// The rows that can be read. A row whose owner was killed or stopped while writing it is left
    /// out.
    pub fn rows(&self) -> Vec<Row> {
        let used = self.view.load(word::ROWS_USED, Ordering::Relaxed);
        let used = usize::try_from(used).map_or(wire::ROWS, |used| used.min(wire::ROWS));
        let mut body = [0; wire::ROW_BODY_BYTES];
        let rows = (0..used).filter_map(|row| {
            read(&self.view, wire::row_offset(row), &mut body)?;
            Row::decode(&body).ok()
        });
        rows.collect()
    }

    /// Rows for which the page had no slot.
    pub fn missing_rows(&self) -> u64 {
        self.view.load(word::ROWS_MISSING, Ordering::Relaxed)
    }

    /// The latest log events, at most `most`, with their numbers, oldest first.
    pub fn events(&self, most: usize) -> Vec<(u64, LogEvent)> {
        read_events(&self.view, most)
    }

    /// Log events that were lost because too many threads logged at once.
    pub fn lost_events(&self) -> u64 {
        self.view.load(word::LOST_EVENTS, Ordering::Relaxed)
    }

    /// Requests that the process use these log masks. The process applies them when it next makes
    /// progress. Returns the request's number, for [`Observer::has_applied`].
    pub fn request_masks(&self, masks: &str) -> io::Result<u64> {
        let invalid = |why: &'static str| io::Error::new(io::ErrorKind::InvalidInput, why);
        if masks.len() > area::TEXT_BYTES {
            return Err(invalid("the masks are too long"));
        }
        let mapping = Mapping::new(self.file.open(true)?, wire::PAGE_BYTES)?;
        let version = mapping.word(area::ASKED);
        let mut before = version.load(Ordering::Relaxed);
        // Another process may be writing a request, or was killed while it did: after some attempts its version is
        // replaced.
        for _ in 0..ATTEMPTS {
            if before.is_multiple_of(2) {
                break;
            }
            std::thread::yield_now();
            before = version.load(Ordering::Relaxed);
        }
        let writing = before.wrapping_add(2) | 1;
        if version
            .compare_exchange(before, writing, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another process is changing the masks at this moment",
            ));
        }
        fence(Ordering::Release);
        let mut body = (masks.len() as u64).to_le_bytes().to_vec();
        body.extend_from_slice(masks.as_bytes());
        for (index, bytes) in body.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let at = area::ASKED + 8 + 8 * index;
            mapping
                .word(at)
                .store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let done = writing.wrapping_add(1);
        version.store(done, Ordering::Release);
        Ok(done)
    }

    /// Whether the process has applied this request, or refused it.
    pub fn has_applied(&self, asked: u64) -> bool {
        self.view.load(word::APPLIED, Ordering::Acquire) == asked
    }
}

/// Copies the bytes after the version word at `offset`. Returns the version, or `None` if they are
/// being written all the time or were never written.
fn read(words: &impl Words, offset: usize, body: &mut [u8]) -> Option<u64> {
    for _ in 0..ATTEMPTS {
        let before = words.load(offset, Ordering::Acquire);
        if before == 0 {
            return None;
        }
        if before.is_multiple_of(2) {
            for (index, bytes) in body.chunks_exact_mut(8).enumerate() {
                let word = words.load(offset + 8 + 8 * index, Ordering::Relaxed);
                bytes.copy_from_slice(&word.to_le_bytes());
            }
            fence(Ordering::Acquire);
            if words.load(offset, Ordering::Relaxed) == before {
                return Some(before);
            }
        }
        std::hint::spin_loop();
    }
    None
}

/// One of the short texts, with its version.
pub(crate) fn read_text(words: &impl Words, offset: usize) -> Option<(u64, Vec<u8>)> {
    let mut body = [0; 8 + area::TEXT_BYTES];
    let version = read(words, offset, &mut body)?;
    let (len, text) = body.split_first_chunk()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    Some((version, text.get(..len)?.to_vec()))
}

/// The latest events.
pub(crate) fn read_events(words: &impl Words, most: usize) -> Vec<(u64, LogEvent)> {
    let next = words.load(word::NEXT_EVENT, Ordering::Acquire);
    let most = most.min(wire::EVENTS) as u64;
    let mut body = [0; wire::EVENT_BODY_BYTES];
    let events = (next.saturating_sub(most)..next).filter_map(|number| {
        let version = read(words, wire::event_offset(number), &mut body)?;
        if version != wire::event_version(number) {
            return None;
        }
        let mut event = LogEvent::decode(&body).ok()?;
        event.text = crate::text::plain(&event.text);
        event.target = crate::text::plain(&event.target);
        Some((number, event))
    });
    events.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{RowSlot, own};
    use causeway_wire::watch::InstanceRow;
    use std::os::fd::AsRawFd;

    fn row(instance: u32) -> Row {
        Row::Instance(InstanceRow {
            instance,
            ..InstanceRow::default()
        })
    }

    /// All tests of this process's page, which they share.
    #[test]
    fn a_process_can_be_observed() {
        let page = own().unwrap();
        let pid = std::process::id();
        let seen = Observer::new(pid).unwrap();
        assert!(seen.is_there() && !seen.name().is_empty() && seen.started_ns() > 0);
        let mut slot = RowSlot::new(&page);
        slot.publish(&row(77));
        assert!(seen.rows().contains(&row(77)));
        slot.publish(&row(78));
        assert!(seen.rows().contains(&row(78)) && !seen.rows().contains(&row(77)));
        drop(slot);
        assert!(!seen.rows().contains(&row(78)));

        let mut many: Vec<_> = (0..wire::ROWS + 5).map(|_| RowSlot::new(&page)).collect();
        assert_eq!(seen.missing_rows(), 5);
        many.truncate(wire::ROWS);
        assert_eq!(seen.missing_rows(), 0);
        let mut late = RowSlot::new(&page);
        many.pop();
        late.publish(&row(79));
        assert_eq!((seen.missing_rows(), seen.rows()), (0, vec![row(79)]));
        drop((many, late));

        assert!(
            seen.request_masks(&"x".repeat(area::TEXT_BYTES + 1))
                .is_err()
        );

        assert!(
            observe_all(|_| false)
                .unwrap()
                .processes
                .iter()
                .any(|page| page.pid == pid)
        );
        assert!(matches!(
            Observer::new(u32::MAX),
            Err(ObserveError::NoProcess(_))
        ));
    }

    #[test]
    fn a_page_of_random_bytes_is_read_without_harm() {
        let mut file = causeway_sys::memfd::create_fixed("test", wire::PAGE_BYTES).unwrap();
        let mapping = Mapping::new(&file, wire::PAGE_BYTES).unwrap();
        let mut random = causeway_wire::random::SplitMix64::new(1);
        for offset in (0..wire::PAGE_BYTES).step_by(8) {
            mapping
                .word(offset)
                .store(random.number(), Ordering::Relaxed);
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let page = Observer::open(std::process::id(), path.into()).unwrap();
        // A request is written to the file that was opened, even if the descriptor now refers to
        // another file.
        let other = causeway_sys::memfd::create_fixed("other", wire::PAGE_BYTES).unwrap();
        let other_words = Mapping::new(&other, wire::PAGE_BYTES).unwrap();
        rustix::io::dup2(&other, &mut file).unwrap();
        mapping.word(area::ASKED).store(2, Ordering::Relaxed);
        page.request_masks("off").unwrap();
        assert_eq!(other_words.word(area::ASKED).load(Ordering::Relaxed), 0);
        let asked = read_text(&mapping, area::ASKED).map(|(_, text)| text);
        assert_eq!(asked.as_deref(), Some(&b"off"[..]));
        assert!(page.check().is_err() && !page.is_there());
        mapping
            .word(word::MAGIC)
            .store(wire::MAGIC, Ordering::Relaxed);
        assert!(page.check().unwrap_err().to_string().contains("format"));
        // Texts, events and rows with arbitrary bytes.
        mapping
            .word(word::NEXT_EVENT)
            .store(u64::MAX, Ordering::Relaxed);
        for offset in [area::NAME, area::IN_FORCE, wire::row_offset(0)] {
            mapping.word(offset).store(2, Ordering::Relaxed);
        }
        assert_eq!((page.name(), page.masks()), (String::new(), String::new()));
        assert!(page.rows().is_empty() && page.events(usize::MAX).is_empty());
    }
}
