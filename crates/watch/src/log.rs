//! Logging: levels, masks by part of the program, switchable while it runs, and a ring of the latest
//! events (the thesis's gossip, Carns §3.11.3, with the ring buffer that it planned).
//!
//! Events are those of the `tracing` facade. [`start`] installs a subscriber for the whole process:
//! events that the first of two [`Masks`] admits are printed, those that the second admits are
//! recorded in the ring, where observers can read them even when the process hangs. An event that
//! neither admits costs a load and a comparison.
//!
//! The masks are set by the caller, by `$CAUSEWAY_LOG` instead of the caller's, by [`set`], or by another
//! process, which writes a request into the page: [`apply_request`], called now and then by threads that make
//! progress, applies it.
//!
//! A program with a subscriber of its own does not call [`start`], and only lacks the ring.

mod mask;
mod sink;
mod subscriber;

pub use mask::{Mask, MaskError, Masks, subsystem};

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, TryLockError};

use causeway_wire::watch::{LogEvent, area};

use crate::page::{self, Page};
use crate::text;
use sink::Sink;

/// Environment variable with the masks.
pub const MASKS_VARIABLE: &str = "CAUSEWAY_LOG";
/// Environment variable with a file to append to instead of standard error.
pub const FILE_VARIABLE: &str = "CAUSEWAY_LOG_FILE";

/// Events that are printed when the process panics.
const RECENT_EVENTS: usize = 32;

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The process has a subscriber already.
    #[error("this process logs already")]
    Taken,
    /// `$CAUSEWAY_LOG` is invalid.
    #[error("${MASKS_VARIABLE}: {0}")]
    Masks(#[from] MaskError),
    /// The log file cannot be opened.
    #[error("${FILE_VARIABLE}: {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

/// The state of logging in this process.
struct Logger {
    masks: RwLock<Arc<Masks>>,
    /// The page; `None` if the system has refused to make one.
    page: Option<Arc<Page>>,
    sink: Sink,
    /// The version of the request that was read last.
    seen: AtomicU64,
    /// Held while masks are changed and written to the page: its text has one writer at a time, and an older request
    /// does not replace a newer.
    changing: Mutex<()>,
}

static LOGGER: OnceLock<Logger> = OnceLock::new();

/// The masks of libraries unless `$CAUSEWAY_LOG` sets others: the same as for Causeway's own
/// servers.
const LIBRARY_MASKS: &str = "warn,engine.stall=info/debug";

/// Starts the process's log for a library, with its first instance. Does nothing if the program has a logger of its own.
pub fn start_for_library() -> Result<(), StartError> {
    if masks().is_some() {
        return Ok(());
    }
    match start(&LIBRARY_MASKS.parse()?) {
        Err(StartError::Taken) => Ok(()),
        started => started,
    }
}

/// Installs the process's log. `usual` are the masks unless `$CAUSEWAY_LOG` sets others.
///
/// A panic prints the latest events after its message.
pub fn start(usual: &Masks) -> Result<(), StartError> {
    let mut masks = usual.clone();
    if let Some(text) = std::env::var_os(MASKS_VARIABLE).filter(|text| !text.is_empty()) {
        masks.change(&text.to_string_lossy())?;
    }
    let sink = match std::env::var_os(FILE_VARIABLE).filter(|path| !path.is_empty()) {
        Some(path) => Sink::file(path.as_ref()).map_err(|source| StartError::File {
            path: path.to_string_lossy().into_owned(),
            source,
        })?,
        None => Sink::stderr(),
    };
    let logger = Logger {
        masks: RwLock::new(Arc::new(masks)),
        page: page::own().ok(),
        sink,
        seen: AtomicU64::new(0),
        changing: Mutex::default(),
    };
    if LOGGER.set(logger).is_err() {
        return Err(StartError::Taken);
    }
    tracing::subscriber::set_global_default(subscriber::Subscriber)
        .map_err(|_| StartError::Taken)?;
    if let Some(logger) = LOGGER.get() {
        let _changing = logger.changing.lock();
        logger.publish();
    }
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        previous(panic);
        print_recent();
    }));
    Ok(())
}

/// The masks in force, if [`start`] was called.
pub fn masks() -> Option<Masks> {
    LOGGER.get().map(|logger| Masks::clone(&logger.masks()))
}

/// Replaces the masks.
pub fn set(masks: Masks) {
    if let Some(logger) = LOGGER.get() {
        // Masks that a panic has left half changed are replaced as a whole.
        let _changing = logger.changing.lock();
        logger.change(masks);
    }
}

/// Applies another process's request for other masks, if there is a new one. Costs a load.
#[inline]
pub fn apply_request() {
    if let Some(logger) = LOGGER.get()
        && let Some(page) = logger.page()
        && page.request_version() != logger.seen.load(Ordering::Relaxed)
    {
        apply(logger, page);
    }
}

#[cold]
fn apply(logger: &Logger, page: &Page) {
    // Does not wait for a thread that is changing the masks, or a process that is writing the
    // request: the next call applies it. Events logged by this function itself return here, too.
    let _changing = match logger.changing.try_lock() {
        Err(TryLockError::WouldBlock) => return,
        held => held,
    };
    let Some((version, request)) = page.pending_request() else {
        return;
    };
    if logger.seen.swap(version, Ordering::Relaxed) == version {
        return;
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    match request.parse() {
        Ok(masks) => logger.change(masks),
        Err(error) => {
            tracing::warn!(%error, "another process requested log masks that are invalid; the masks stay unchanged")
        }
    }
    page.acknowledge(version);
}

/// The latest events that were recorded, at most `most`, oldest first.
pub fn recent(most: usize) -> Vec<LogEvent> {
    let page = LOGGER.get().and_then(Logger::page);
    let events = page.map_or_else(Vec::new, |page| page.events(most));
    events.into_iter().map(|(_, event)| event).collect()
}

/// Prints the latest events where log lines go, for a process that is ending because of a fatal error.
pub fn print_recent() {
    let events = recent(RECENT_EVENTS);
    let Some(logger) = LOGGER.get() else { return };
    if events.is_empty() {
        return;
    }
    let mut lines = format!("the latest {} log events were:\n", events.len()).into_bytes();
    for event in &events {
        // Writing to memory does not fail.
        let _ = writeln!(lines, "  {}", line(event));
    }
    logger.sink.print(&lines);
}

/// An event as a line, without an end of line.
pub fn line(event: &LogEvent) -> String {
    format!(
        "{} {:5} {}: {}",
        text::time(event.at_ns),
        level_name(event.level),
        event.target,
        event.text
    )
}

/// A level's name, from its number in the ring.
pub fn level_name(level: u8) -> &'static str {
    match level {
        1 => "ERROR",
        2 => "WARN",
        3 => "INFO",
        4 => "DEBUG",
        _ => "TRACE",
    }
}

impl Logger {
    /// The page, unless it is that of the process that this one was forked from: a child's log is only printed.
    fn page(&self) -> Option<&Page> {
        self.page.as_deref().filter(|page| page.is_own())
    }

    /// Changes the masks; `changing` is held, as it is for `publish`.
    fn change(&self, masks: Masks) {
        *self.masks.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(masks);
        // Each callsite has cached whether any mask admits its events.
        tracing::callsite::rebuild_interest_cache();
        self.publish();
    }

    fn publish(&self) {
        if let Some(page) = self.page() {
            page.write_text(area::IN_FORCE, &self.masks().to_string());
        }
    }

    fn masks(&self) -> Arc<Masks> {
        Arc::clone(&self.masks.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Observer;

    fn texts(events: &[LogEvent]) -> Vec<&str> {
        events.iter().map(|event| event.text.as_str()).collect()
    }

    /// One test: the log belongs to the whole process.
    #[test]
    fn events_are_masked_printed_recorded_and_read_from_outside() {
        let dir = std::env::temp_dir().join(format!("causeway-log-{}", std::process::id()));
        let printed = Sink::file(&dir).unwrap();
        let page = page::own().unwrap();
        let logger = Logger {
            masks: RwLock::new(Arc::new("warn/info".parse().unwrap())),
            page: Some(Arc::clone(&page)),
            sink: printed,
            seen: AtomicU64::new(page.request_version()),
            changing: Mutex::default(),
        };
        assert!(LOGGER.set(logger).is_ok());
        tracing::subscriber::set_global_default(subscriber::Subscriber).unwrap();
        set(masks().unwrap());
        assert!(matches!(
            start(&"off".parse().unwrap()),
            Err(StartError::Taken)
        ));

        let say = || {
            tracing::warn!(size = 7, "a\x1bwarning");
            tracing::info!("information");
            tracing::debug!("detail");
        };
        say();
        assert_eq!(texts(&recent(9)), ["a?warning size=7", "information"]);
        assert_eq!(recent(9)[0].target, "watch.log.tests");
        assert_eq!(texts(&recent(1)), ["information"]);
        // From inside.
        set("off/trace".parse().unwrap());
        say();
        assert_eq!(
            texts(&recent(3)),
            ["a?warning size=7", "information", "detail"]
        );
        // From outside, before and after the request is applied.
        let outside = Observer::new(std::process::id()).unwrap();
        assert_eq!(outside.masks(), "off/trace");
        let asked = outside.request_masks("off,watch=debug/off").unwrap();
        assert!(!outside.has_applied(asked));
        apply_request();
        assert!(outside.has_applied(asked));
        assert_eq!(outside.masks(), "off,watch=debug/off");
        say();
        assert_eq!(outside.events(99).len(), 5, "nothing is recorded any more");
        // Invalid requests from outside change nothing.
        let asked = outside.request_masks("loud").unwrap();
        apply_request();
        assert!(outside.has_applied(asked));
        assert_eq!(masks().unwrap().to_string(), "off,watch=debug/off");

        print_recent();
        let file = std::fs::read_to_string(&dir).unwrap();
        std::fs::remove_file(&dir).unwrap();
        let lines: Vec<_> = file.lines().collect();
        assert!(
            lines[0].ends_with("Z WARN  watch.log.tests: a?warning size=7"),
            "{file}"
        );
        assert!(lines[3].contains("DEBUG watch.log.tests: detail"), "{file}");
        assert!(lines[4].contains("`loud` is no level"), "{file}");
        assert_eq!(lines[5], "the latest 5 log events were:");
        assert_eq!(lines.len(), 11, "{file}");

        // From inside and outside at once: the published mask is the one in force, and the latest request is
        // acknowledged.
        let requests = std::thread::scope(|scope| {
            let setters = [1, 2, 3].map(|thread| {
                scope.spawn(move || {
                    for n in 0..200 {
                        set(format!("off,a{thread}=info,b{n}=warn/off").parse().unwrap());
                        apply_request();
                    }
                })
            });
            let mut asked = Vec::new();
            while setters.iter().any(|setter| !setter.is_finished()) {
                let request = format!("off,request{}=info/off", asked.len());
                asked.push(outside.request_masks(&request).unwrap());
                apply_request();
            }
            asked
        });
        apply_request();
        assert!(
            requests
                .last()
                .is_none_or(|last| outside.has_applied(*last))
        );
        assert_eq!(outside.masks(), masks().unwrap().to_string());

        // The ring keeps the latest of more events than it has room for, from many threads.
        set("off/info".parse().unwrap());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..1000).for_each(|n| tracing::info!("{thread} {n}")));
            }
        });
        let events = outside.events(usize::MAX);
        let all = events.len() as u64 + outside.lost_events();
        assert!(
            events.len() <= causeway_wire::watch::EVENTS,
            "{}",
            events.len()
        );
        assert!(all >= causeway_wire::watch::EVENTS as u64 / 2, "{all}");
        assert!(events.is_sorted_by_key(|(number, _)| *number));
        assert!(events.last().is_some_and(|(number, _)| *number > 3000));
    }
}
