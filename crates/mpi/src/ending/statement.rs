//! What a process states that begins no further operation on a communicator, and what others keep of that.

use std::collections::BTreeSet;
use std::ops::Range;

use causeway_engine::Memory;
use causeway_engine::types::OpId;

use crate::error::Error;

/// From here on, tags of collective operations are those of persistent ones, of which there are so many.
pub(crate) const FIRST_KEPT: u32 = 1 << 31;
pub(crate) const KEPT_TAGS: u32 = FIRST_KEPT - 2;
/// The tag of the barrier in `MPI_Finalize`, and that of notifications about the use of a communicator.
pub(crate) const FINISHING: u32 = FIRST_KEPT + KEPT_TAGS;
pub(crate) const ENDING: u32 = FINISHING + 1;

/// Whether a tag is that of an operation or of one behind it, of the same kind.
pub(crate) fn is_at_or_behind(tag: u32, of: u32) -> bool {
    let distance = tag.wrapping_sub(of) % FIRST_KEPT;
    let is_alike = tag < FINISHING && (tag < FIRST_KEPT) == (of < FIRST_KEPT);
    is_alike && distance < FIRST_KEPT / 2
}

/// Bytes of a notification: the class, the tags of the first operation that it does not begin and of the first persistent one, why, and the refused call's name, filled up with
/// zeros. All is zero in a question but the reason.
pub(crate) const NOTIFICATION: usize = 64;
const NAME: usize = 16;

/// Why a process takes no further part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Why {
    Finalized = 1,
    Freed = 2,
}

/// In the place of the reason: it is the question whether the receiver begins what the sender waits for.
const QUESTION: u32 = 3;

/// A call that this process has not begun because of its arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) name: &'static str,
    /// The error's class.
    pub(crate) class: i32,
    /// The tag, and the phase in the communicator's memory, of the operation that would have been the next one.
    pub(crate) tag: u32,
    pub(crate) phase: u64,
}

/// What a process sends about its use of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notification {
    /// It takes no further part.
    Statement(Statement),
    /// It has waited for the receiver: the reply is the receiver's statement, once that one takes no further part.
    Question,
}

/// What a process that takes no further part states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) class: i32,
    /// The tags of the first operations that it does not begin.
    pub(crate) tag: u32,
    pub(crate) kept_tag: u32,
    pub(crate) is_freed: bool,
    /// The call that it has refused, or nothing.
    pub(crate) refused: String,
}

/// A notification that has come, or is on its way.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Its receive, if it is in progress.
    pub(crate) op: Option<OpId>,
    /// How long it was when it came; none if that has failed.
    pub(crate) bytes: Option<u64>,
    pub(crate) text: Memory,
    /// The matcher's number of the process.
    pub(crate) peer: u32,
}

impl Incoming {
    /// What it says, if it has come whole.
    pub(crate) fn read(&self) -> Option<Notification> {
        let is_whole = self.bytes == Some(NOTIFICATION as u64);
        is_whole.then(|| Notification::decode(&self.text.to_vec()))?
    }
}

/// What a process knows of a communicator's last operations.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// The latest call that this process has refused.
    pub(crate) refused: Option<Refused>,
    /// The numbers of the latest operations, one behind the other, that this process has given up in the communicator's memory.
    pub(crate) given_up: Range<u64>,
    pub(crate) incoming: Option<Incoming>,
    /// The statements of others, with their places among everyone.
    pub(crate) stated: Vec<(u32, Statement)>,
    /// Those that this process has asked, once each, and those that have asked it and have no reply yet.
    pub(crate) asked: BTreeSet<u32>,
    pub(crate) asking: BTreeSet<u32>,
}

impl Ending {
    /// This process has given up the operation of this number in the communicator's memory.
    #[cold]
    pub(crate) fn note_given_up(&mut self, number: u64) {
        let is_next = number == self.given_up.end && !self.given_up.is_empty();
        let first = if is_next { self.given_up.start } else { number };
        self.given_up = first..number + 1;
    }

    /// The first operation in which this process takes no part, if `next` is the one that it would begin next. Operations that it has given up before that may be others on other
    /// ranks, done by messages, of which it has sent none.
    pub(crate) fn first_without(&self, next: u64) -> u64 {
        match self.given_up.end == next && !self.given_up.is_empty() {
            true => self.given_up.start,
            false => next,
        }
    }
}

/// Duplicates begin anew.
impl Clone for Ending {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Notification {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Statement(statement) => statement.encode(),
            Self::Question => encode([0, 0, 0, QUESTION], ""),
        }
    }

    /// Reads what another process has sent, whatever that is.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            let bytes = bytes.get(at * 4..at * 4 + 4)?;
            bytes.try_into().ok().map(u32::from_le_bytes)
        };
        let is_freed = match word(3)? {
            QUESTION => return Some(Self::Question),
            why if why == Why::Freed as u32 => true,
            why if why == Why::Finalized as u32 => false,
            _ => return None,
        };
        // An error of class 0 would be a success.
        let class = Some(word(0)? as i32).filter(|class| *class > 0)?;
        let name = bytes.get(NAME..)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_name = name.iter().all(|byte| byte.is_ascii_graphic());
        Some(Self::Statement(Statement {
            class,
            tag: word(1)?,
            kept_tag: word(2)?,
            is_freed,
            refused: String::from_utf8(name.to_vec()).ok().filter(|_| is_name)?,
        }))
    }
}

fn encode(words: [u32; 4], name: &str) -> Vec<u8> {
    let words = words.iter().flat_map(|word| word.to_le_bytes());
    let mut bytes = Vec::from_iter(words.chain(name.bytes()));
    bytes.resize(NOTIFICATION, 0);
    bytes
}

impl Statement {
    fn encode(&self) -> Vec<u8> {
        let why = if self.is_freed {
            Why::Freed
        } else {
            Why::Finalized
        };
        let words = [self.class as u32, self.tag, self.kept_tag, why as u32];
        encode(words, &self.refused)
    }

    /// Whether the process does not begin an operation whose messages have this tag.
    pub(crate) fn concerns(&self, tag: u32) -> bool {
        is_at_or_behind(tag, self.tag) || is_at_or_behind(tag, self.kept_tag)
    }

    pub(crate) fn error(&self, rank: u32) -> Error {
        let what = match self.is_freed {
            true => "has freed the communicator",
            false => "has called MPI_Finalize",
        };
        let text = match self.refused.as_str() {
            "" => format!("rank {rank} {what}, and takes no part in this operation"),
            call => {
                format!("rank {rank} {what}, and has not begun {call}, because of its arguments")
            }
        };
        Error::new(self.class, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi;

    fn statement() -> Statement {
        Statement {
            class: abi::ERR_COUNT,
            tag: 7,
            kept_tag: 0x8000_0003,
            is_freed: true,
            refused: "MPI_Bcast".to_owned(),
        }
    }

    #[test]
    fn statements_are_read_as_they_were_written() {
        for one in [Notification::Statement(statement()), Notification::Question] {
            let bytes = one.encode();
            assert_eq!(bytes.len(), NOTIFICATION);
            assert_eq!(Notification::decode(&bytes), Some(one));
            assert_eq!(Notification::decode(&bytes[..15]), None);
        }
        for (at, wrong) in [(NAME, 0xff), (0, 0), (3, 0x80), (12, 0), (12, 4)] {
            let mut others = statement().encode();
            others[at] = wrong;
            assert_eq!(Notification::decode(&others), None, "{at}: {wrong}");
        }
        let error = statement().error(2);
        let text = "rank 2 has freed the communicator, and has not begun MPI_Bcast, because of its arguments";
        assert_eq!((error.code(), error.text()), (abi::ERR_COUNT, text));
    }

    #[test]
    fn a_statement_that_has_not_come_whole_is_none() {
        let incoming = |bytes| Incoming {
            op: None,
            bytes,
            text: Memory::from_vec(statement().encode()),
            peer: 0,
        };
        let whole = NOTIFICATION as u64;
        let stated = Notification::Statement(statement());
        assert_eq!(incoming(Some(whole)).read(), Some(stated));
        for bytes in [None, Some(0), Some(whole - 1)] {
            assert_eq!(incoming(bytes).read(), None);
        }
    }

    #[test]
    fn operations_that_were_given_up_last_are_without_this_process() {
        let mut ending = Ending::default();
        assert_eq!((ending.first_without(0), ending.first_without(3)), (0, 3));
        ending.note_given_up(0);
        assert_eq!((ending.first_without(1), ending.first_without(2)), (0, 2));
        ending.note_given_up(5);
        ending.note_given_up(6);
        assert_eq!(ending.first_without(7), 5);
        // It has begun another one since.
        assert_eq!(ending.first_without(8), 8);
    }

    #[test]
    fn operations_from_the_first_one_on_are_concerned() {
        let concerned = [7, 8, 0x8000_0003, 0x8000_0100];
        assert!(concerned.iter().all(|tag| statement().concerns(*tag)));
        let others = [6, 0, 0x7fff_ffff, 0x8000_0002, FINISHING, ENDING];
        assert!(!others.iter().any(|tag| statement().concerns(*tag)));
    }
}
