//! What processes of a parallel program publish for their launcher: the calls that they are in
//! ([`call`]), and lines about what they did ([`Event`]).
//!
//! The launcher makes one memory file with a page for each process, which the process maps and writes. A line of an event file is an
//! event: a letter, then numbers and names, with spaces between.

use alloc::string::{String, ToString};
use core::fmt::Write;

use crate::formats::Formats;

/// The formats of pages and events that this build speaks, as launcher and as process.
pub const FORMATS: Formats = Formats::only(1);

/// The environment variable with the formats that the launcher speaks ([`Formats::to_text`]).
/// Launchers that do not set it speak the first format.
pub const LAUNCHER_FORMATS: &str = "CAUSEWAY_RUN_FORMATS";

/// The format in which a process publishes for its launcher, given the value of
/// [`LAUNCHER_FORMATS`]; `None` if there is no common one.
pub fn common_with(launcher: Option<&str>) -> Option<u8> {
    let theirs = match launcher {
        Some(text) => Formats::of_text(text)?,
        None => Formats::only(1),
    };
    FORMATS.common(theirs)
}

/// The environment variable with the path of the memory file.
pub const CALLS: &str = "CAUSEWAY_RUN_CALLS";
/// The environment variable with the number of the process's page in it, counted from 0.
pub const PAGE: &str = "CAUSEWAY_RUN_PAGE";
/// The environment variable with the path of the file that the process writes its events to.
pub const EVENTS: &str = "CAUSEWAY_RUN_EVENTS";

/// A process's page of the memory file: words that the process writes and the launcher reads.
///
/// It has some words of its own, then slots, of which each thread that calls MPI has one. All
/// further threads share the last one.
pub mod call {
    use crate::codec::{Malformed, unknown};
    use crate::formats::Formats;

    /// Bytes of a page. Page `n` begins at `n * PAGE_BYTES`.
    pub const PAGE_BYTES: usize = 4096;
    /// The word with the process id; 0 until the process has found the page.
    pub const PID: usize = 0;
    /// The word with the fingerprint of the list of functions, by which [`State::function`] counts.
    pub const LIST: usize = 8;
    /// The word with the formats that the process speaks ([`stating`]). It and those before it are
    /// the same in all formats; everything else is in the highest format that the launcher speaks,
    /// too, and stays empty if there is none.
    pub const FORMATS: usize = 16;
    /// Slots of a page.
    pub const SLOTS: usize = 16;
    /// Where the slots begin.
    pub const SLOTS_OFFSET: usize = 64;
    /// Bytes of a slot: four words, and room so that threads do not share a cache line.
    pub const SLOT_BYTES: usize = 64;
    /// The value for no peer and for no tag.
    pub const NONE: i32 = i32::MIN;

    /// The word that states formats.
    pub const fn stating(formats: Formats) -> u64 {
        formats.lowest as u64 | (formats.highest as u64) << 8
    }

    /// The formats that a word states. Processes of builds that state none leave it zero, and speak
    /// the first format.
    pub fn stated(word: u64) -> Result<Formats, Malformed> {
        let [lowest, highest, rest @ ..] = word.to_le_bytes();
        match (lowest, rest) {
            _ if word == 0 => Ok(Formats::only(1)),
            (1.., [0, 0, 0, 0, 0, 0]) if lowest <= highest => Ok(Formats { lowest, highest }),
            _ => unknown("formats of the page", word),
        }
    }

    /// The first word of a slot: which call, and whether the thread is in it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct State {
        /// How many calls there were, with this one.
        pub number: u64,
        /// The function, by its number in the list.
        pub function: u16,
        /// Whether the thread is still in it.
        pub is_inside: bool,
    }

    impl State {
        /// The word of a state.
        #[inline(always)]
        pub const fn word(self) -> u64 {
            self.number << 17 | (self.function as u64) << 1 | self.is_inside as u64
        }

        /// The state of a word.
        #[inline(always)]
        pub const fn of_word(word: u64) -> Self {
            Self {
                number: word >> 17,
                function: (word >> 1) as u16,
                is_inside: word & 1 != 0,
            }
        }
    }

    /// The second word of a slot: a peer's rank and a tag, or [`NONE`]. The third is the
    /// communicator's handle, or that of another object; the fourth is the count.
    #[inline(always)]
    pub const fn pack(peer: i32, tag: i32) -> u64 {
        peer as u32 as u64 | (tag as u32 as u64) << 32
    }

    /// Peer and tag of a second word.
    pub const fn unpack(word: u64) -> (i32, i32) {
        (word as u32 as i32, (word >> 32) as u32 as i32)
    }

    const _: () = assert!(SLOTS_OFFSET + SLOTS * SLOT_BYTES <= PAGE_BYTES);
}

/// Something that a process did. Times are of the monotonic clock, in nanoseconds; processes are
/// identified by their ranks in `MPI_COMM_WORLD`; those of other programs have numbers from its
/// size on, which are valid in this process only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A call.
    Call {
        /// Its name.
        name: String,
        /// The thread, counted from 0.
        thread: u32,
        /// When it began.
        begin_ns: u64,
        /// When it returned.
        end_ns: u64,
        /// The peer, or the root; the program's argument itself if that is no single process.
        peer: Option<i32>,
        /// The tag.
        tag: Option<i32>,
        /// Bytes of the buffer that the program has passed, or of the first of two.
        bytes: u64,
    },
    /// The next call is a collective operation of these processes ([`ranges`]), which are not all
    /// of `MPI_COMM_WORLD` in the order of their ranks; [`NO_GROUP`] for an inter-communicator.
    Group(String),
    /// A message was sent, or is about to be.
    Sent(Message),
    /// A message has been received. Among those with the same peer and word, the receive with the
    /// lower `order` got the earlier message.
    Received(Message, u64),
}

/// The value for the processes of an inter-communicator.
pub const NO_GROUP: &str = "?";

/// A list of processes in their order, as text: `4-6,0` is 4, 5, 6 and 0.
pub fn ranges(processes: &[u32]) -> String {
    let mut text = String::new();
    for run in processes.chunk_by(|before, after| before.checked_add(1) == Some(*after)) {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string does not fail.
        let _ = match run {
            [first, .., last] => write!(text, "{comma}{first}-{last}"),
            _ => write!(text, "{comma}{}", run[0]),
        };
    }
    text
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// The time of the call that has sent it, or the time when it had arrived.
    pub at_ns: u64,
    /// The other process.
    pub peer: u32,
    /// The receiver's number of the communicator, and the tag: the same on both sides.
    pub word: u64,
    /// Its bytes.
    pub bytes: u64,
}

impl Event {
    /// Appends the line of the event.
    pub fn encode(&self, to: &mut String) {
        let optional = |number: &Option<i32>| number.map_or("-".to_string(), |n| n.to_string());
        // Writing to a string does not fail.
        let _ = match self {
            Self::Call {
                name,
                thread,
                begin_ns,
                end_ns,
                peer,
                tag,
                bytes,
            } => {
                let (peer, tag) = (optional(peer), optional(tag));
                writeln!(
                    to,
                    "C {name} {thread} {begin_ns} {end_ns} {peer} {tag} {bytes}"
                )
            }
            Self::Group(processes) => writeln!(to, "G {processes}"),
            Self::Sent(message) => writeln!(to, "S {message} 0"),
            Self::Received(message, order) => writeln!(to, "R {message} {order}"),
        };
    }

    /// The event of a line; `None` if it is not one, such as the truncated last line of a process
    /// that was killed.
    pub fn decode(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let mut fields = line.split(' ');
        let event = match fields.next()? {
            "C" => Self::Call {
                name: fields.next().filter(|name| !name.is_empty())?.to_string(),
                thread: fields.next()?.parse().ok()?,
                begin_ns: fields.next()?.parse().ok()?,
                end_ns: fields.next()?.parse().ok()?,
                peer: optional(fields.next()?)?,
                tag: optional(fields.next()?)?,
                bytes: fields.next()?.parse().ok()?,
            },
            "G" => Self::Group(fields.next().filter(|text| is_group(text))?.to_string()),
            letter @ ("S" | "R") => {
                let mut number = || fields.next()?.parse::<u64>().ok();
                let message = Message {
                    at_ns: number()?,
                    peer: u32::try_from(number()?).ok()?,
                    word: number()?,
                    bytes: number()?,
                };
                match (letter, number()?) {
                    ("S", _) => Self::Sent(message),
                    (_, order) => Self::Received(message, order),
                }
            }
            _ => return None,
        };
        fields.next().is_none().then_some(event)
    }
}

/// Whether a field is valid in an [`Event::Group`]. Its numbers are checked where they are used.
fn is_group(field: &str) -> bool {
    let is_range = |byte: u8| byte.is_ascii_digit() || byte == b'-' || byte == b',';
    field == NO_GROUP || !field.is_empty() && field.bytes().all(is_range)
}

/// A number, or none. The outer `None` is an error.
fn optional(field: &str) -> Option<Option<i32>> {
    match field {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

impl core::fmt::Display for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (at, peer, word, bytes) = (self.at_ns, self.peer, self.word, self.bytes);
        write!(f, "{at} {peer} {word} {bytes}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_written_and_nothing_else_is() {
        let message = Message {
            at_ns: 5,
            peer: 3,
            word: u64::MAX,
            bytes: 8,
        };
        let call = Event::Call {
            name: "MPI_Recv".to_string(),
            thread: 0,
            begin_ns: 1,
            end_ns: 2,
            peer: Some(-1),
            tag: None,
            bytes: 16,
        };
        let group = Event::Group(ranges(&[4, 5, 6, 0, 2, 1]));
        for event in [
            call,
            group,
            Event::Group(NO_GROUP.to_string()),
            Event::Sent(message),
            Event::Received(message, 7),
        ] {
            let mut line = String::new();
            event.encode(&mut line);
            assert_eq!(Event::decode(&line), Some(event), "{line}");
            for cut in 0..line.len() {
                assert_eq!(Event::decode(&line[..cut]), None, "{line} {cut}");
            }
            line.insert_str(line.len() - 1, " 1");
            assert_eq!(Event::decode(&line), None);
        }
        for nonsense in [
            "\n",
            "X 1\n",
            "G \n",
            "G a\n",
            "S 1 2 3\n",
            "S -1 2 3 4 0\n",
            "R 1 4294967296 3 4 5\n",
        ] {
            assert_eq!(Event::decode(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn processes_stand_in_their_order() {
        assert_eq!(ranges(&[4, 5, 6, 0, 2, 1]), "4-6,0,2,1");
        assert_eq!(ranges(&[u32::MAX, 0]), "4294967295,0");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn pages_state_formats_and_those_that_do_not_are_of_the_first() {
        let of = |lowest, highest| Formats { lowest, highest };
        for (word, formats) in [(0, of(1, 1)), (0x0101, of(1, 1)), (0x0c04, of(4, 12))] {
            assert_eq!(call::stated(word), Ok(formats), "{word:x}");
        }
        assert_eq!(call::stating(of(4, 12)), 0x0c04);
        assert_eq!(call::stating(FORMATS), 0x0101);
        for nonsense in [0x01, 0x0100, 0x0102, 0x1_0101, u64::MAX] {
            assert!(call::stated(nonsense).is_err(), "{nonsense:x}");
        }
    }

    #[test]
    fn a_launcher_that_states_no_formats_speaks_the_first() {
        assert_eq!(common_with(None), Some(1));
        assert_eq!(common_with(Some(&FORMATS.to_text())), Some(FORMATS.highest));
        assert_eq!(common_with(Some("1-255")), Some(FORMATS.highest));
        for strange in ["254-255", "", "1"] {
            assert_eq!(common_with(Some(strange)), None, "{strange}");
        }
    }

    #[test]
    fn words_hold_what_was_packed() {
        let state = call::State {
            number: 12_345_678_901,
            function: 700,
            is_inside: true,
        };
        assert_eq!(call::State::of_word(state.word()), state);
        assert_eq!(call::unpack(call::pack(-2, call::NONE)), (-2, call::NONE));
    }
}
