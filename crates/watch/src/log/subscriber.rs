//! The end of the `tracing` facade: prints and records events.

use std::fmt::{self, Write};

use causeway_wire::watch::LogEvent;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};

use super::mask::subsystem;
use super::{LOGGER, Logger, line};
use crate::process;
use crate::text::plain;

/// The process's `tracing` subscriber. Its state is [`LOGGER`].
pub(super) struct Subscriber;

fn wanted(metadata: &Metadata<'_>) -> bool {
    LOGGER.get().is_some_and(|logger| {
        let level = logger.masks().level(&subsystem(metadata.target()));
        metadata.is_event() && *metadata.level() <= level
    })
}

impl tracing::Subscriber for Subscriber {
    /// The callsite caches the result until the masks change, so that an event that no mask lets through costs no call.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if wanted(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        wanted(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        LOGGER.get().map(|logger| logger.masks().most())
    }

    fn event(&self, event: &Event<'_>) {
        super::apply_request();
        if let Some(logger) = LOGGER.get() {
            logger.event(event);
        }
    }

    // Spans are not used.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Logger {
    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let target = subsystem(metadata.target());
        let mut text = Text::default();
        event.record(&mut text);
        let event = LogEvent {
            at_ns: process::realtime_ns(),
            thread: rustix::thread::gettid()
                .as_raw_nonzero()
                .get()
                .cast_unsigned(),
            level: number(*metadata.level()),
            target,
            text: text.message + &text.fields,
        };
        let masks = self.masks();
        if *metadata.level() <= masks.recorded.level(&event.target)
            && let Some(page) = self.page()
        {
            page.record(&event);
        }
        if *metadata.level() <= masks.printed.level(&event.target) {
            self.sink.print(format!("{}\n", line(&event)).as_bytes());
        }
    }
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// The message, and ` name=value` for each other field. Control characters, which could drive a
/// terminal or forge lines, become question marks.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn add(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = if field.name() == "message" {
            write!(Plain(&mut self.message), "{value}")
        } else {
            write!(Plain(&mut self.fields), " {}={value}", field.name())
        };
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format_args!("{value:?}"));
    }
}

struct Plain<'a>(&'a mut String);

impl Write for Plain<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.push_str(&plain(text));
        Ok(())
    }
}
