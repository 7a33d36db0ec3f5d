//! Log events in the page's ring.

use alloc::string::String;

use super::layout::EVENT_BODY_BYTES;
use super::text::{front, text_in};
use crate::codec::{Malformed, Reader, Writer, unknown, within};

/// Most bytes of an event's target.
pub const MAX_TARGET: usize = 64;
/// Most bytes of an event's target and text together.
pub const MAX_EVENT_TEXT: usize = EVENT_BODY_BYTES - 16;

const _: () = assert!(MAX_TARGET <= u8::MAX as usize && MAX_EVENT_TEXT <= u16::MAX as usize);

/// One log event. Text that does not fit is cut off at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEvent {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// 1 error, 2 warning, 3 information, 4 debugging, 5 tracing.
    pub level: u8,
    /// The part of the program, such as `transport.shm.handshake`.
    pub target: String,
    /// What happened.
    pub text: String,
}

impl LogEvent {
    /// The bytes behind the version word.
    pub fn encode(&self) -> [u8; EVENT_BODY_BYTES] {
        let target = front(&self.target, MAX_TARGET);
        let text = front(&self.text, MAX_EVENT_TEXT - target.len());
        let mut out = Writer::new();
        out.u64(self.at_ns);
        out.u32(self.thread);
        out.u8(self.level);
        out.u8(target.len() as u8);
        out.u16(text.len() as u16);
        let mut body = [0; EVENT_BODY_BYTES];
        let mut at = 0;
        for part in [&out.finish()[..], target.as_bytes(), text.as_bytes()] {
            body[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        body
    }

    /// Reads what [`LogEvent::encode`] writes. The bytes are not trusted.
    pub fn decode(body: &[u8; EVENT_BODY_BYTES]) -> Result<Self, Malformed> {
        let mut input = Reader::new(body);
        let at_ns = input.u64("time")?;
        let thread = input.u32("thread")?;
        let level = input.u8("level")?;
        if !(1..=5).contains(&level) {
            return unknown("level", level);
        }
        let target_len = usize::from(input.u8("length of the target")?);
        let text_len = usize::from(input.u16("length of the text")?);
        within(target_len as u64, MAX_TARGET as u64, "length of the target")?;
        let (target, text) = body[16..].split_at(target_len);
        Ok(Self {
            at_ns,
            thread,
            level,
            target: text_in(target, target_len, "target")?,
            text: text_in(text, text_len, "text")?,
        })
    }
}
