//! Messages by which processes of MPI programs that were started separately connect (MPI 5.0 chapter
//! 11.7 to 11.9): their identities, addresses, and formats of MPI's messages.
//!
//! The formats are among a process's addresses, as one of the scheme `mpi`: `mpi://1-2`. Builds
//! that do not know it skip addresses whose scheme belongs to none of their methods, and so
//! understand the rest.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};
use crate::formats::Formats;

/// The formats of MPI's messages that this build speaks. They number everything that the processes
/// of a communicator have to do in the same way: the messages between leaders ([`LeaderMessage`]) and of
/// windows ([`crate::window`]), contexts and tags, which process sends what to which in a
/// collective operation, and the layout of memory that they share. The packets that carry the
/// messages have formats of their own ([`crate::bmi`]).
///
/// If the formats of any two processes of a group overlap, there are formats that the whole group
/// speaks.
pub const FORMATS: Formats = Formats {
    lowest: 1,
    highest: CHECKED_DATA,
};

/// The lowest format in which processes handle files as this build does.
pub const FILES: u8 = 2;

/// The lowest format in which they open files in three steps, in memory that they share if they have some.
pub const FILES_AT_ONCE: u8 = 3;

/// The lowest format in which long broadcasts on one host are sent to each process by the root.
pub const BROADCASTS_BY_ROOT: u8 = 4;

/// The lowest format in which a file's storage may keep the file's shared pointer. A step of such a pointer may fail; the first process makes it and
/// reports the result to all.
pub const SHARED_STORED: u8 = 5;

/// The lowest format in which processes publish their calls in the memory in which they do collective operations, and number these operations like those by
/// messages. Processes of earlier formats do without that memory in communicators with others. Also the lowest one in which the checking mode describes the steps of a function of
/// files as that function.
pub const CALLS_IN_AREAS: u8 = 6;

/// The lowest format in which processes read each other's memory in long collective operations, with addresses that they publish there.
pub const READING: u8 = 7;

/// The lowest format in which processes do scans, gathers, scatters and operations with counts for each process in the memory of a communicator, too.
pub const UNEVEN_IN_AREAS: u8 = 8;

/// The lowest format in which the checking mode compares the elements of collective operations, and what each process sends to each with what that one
/// expects.
pub const CHECKED_DATA: u8 = 9;

/// The formats of builds that do not state them.
const UNSTATED: Formats = Formats::only(1);

/// The prefix of stated formats.
const SCHEME: &str = "mpi://";

/// Most bytes of one text: a host, or the addresses of a process.
pub const MAX_TEXT: usize = 4 << 10;
/// Most processes in one list.
pub const MAX_MEMBERS: usize = 1 << 20;
/// The fewest bytes that a process takes in a list.
const LEAST: usize = 28;

/// A process, with what others need to connect to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// The random number that all processes of its `MPI_COMM_WORLD` share.
    pub world: u64,
    /// Its rank there.
    pub rank: u32,
    /// A text that is the same for processes that can share memory, and different for others.
    pub host: String,
    /// Its addresses for processes on its host, separated by commas.
    pub near: String,
    /// Its addresses for other processes.
    pub far: String,
    /// The formats of MPI's messages that it speaks.
    pub formats: Formats,
}

/// A list of addresses with a statement of the formats before it; format 1 alone needs no
/// statement.
pub fn with_formats(formats: Formats, addresses: &str) -> String {
    if formats == UNSTATED {
        return addresses.to_owned();
    }
    let comma = if addresses.is_empty() { "" } else { "," };
    alloc::format!("{SCHEME}{}{comma}{addresses}", formats.to_text())
}

/// Splits a list into its addresses and the formats that it states. A statement in a form that
/// [`with_formats`] does not write is refused.
pub fn split_formats(list: &str) -> Result<(String, Formats), Malformed> {
    let (formats, addresses) = match list.strip_prefix(SCHEME) {
        None => (UNSTATED, list),
        Some(rest) => {
            let (text, addresses) = rest.split_once(',').unwrap_or((rest, ""));
            (Formats::of_text(text).unwrap_or(UNSTATED), addresses)
        }
    };
    let is_stated_there = addresses.split(',').any(|piece| piece.starts_with(SCHEME));
    match is_stated_there || with_formats(formats, addresses) != list {
        true => unknown("statement of formats", list.len() as u64),
        false => Ok((addresses.to_owned(), formats)),
    }
}

/// A process that takes part in a new communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number of the new communicator.
    pub number: u32,
    /// How to connect to it.
    pub contact: Contact,
}

/// The messages of the roots of two groups to each other, and then to their groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaderMessage {
    /// A group requests to connect with the group of the process that has opened a port.
    Call {
        /// The tag under which the caller awaits the reply.
        reply: u32,
        /// The caller's rank in its group.
        root: u32,
        /// The caller's group.
        group: Vec<Member>,
    },
    /// The other group.
    Group(Vec<Member>),
    /// The groups do not connect.
    Refused(String),
}

impl Default for Contact {
    fn default() -> Self {
        Self {
            world: 0,
            rank: 0,
            host: String::new(),
            near: String::new(),
            far: String::new(),
            formats: FORMATS,
        }
    }
}

/// A process as it is encoded: its formats are before the addresses for other processes.
struct Sent {
    world: u64,
    rank: u32,
    host: String,
    near: String,
    far: String,
}

record! { Sent {
    world: u64, rank: u32, host: text(MAX_TEXT), near: text(MAX_TEXT), far: text(MAX_TEXT),
} }

impl Wire for Contact {
    fn encode(&self, out: &mut Writer) {
        let sent = Sent {
            world: self.world,
            rank: self.rank,
            host: self.host.clone(),
            near: self.near.clone(),
            far: with_formats(self.formats, &self.far),
        };
        sent.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        let sent = Sent::decode(input)?;
        let (far, formats) = split_formats(&sent.far)?;
        Ok(Self {
            world: sent.world,
            rank: sent.rank,
            host: sent.host,
            near: sent.near,
            far,
            formats,
        })
    }
}

record! { Member { number: u32, contact: wire } }

variants!(LeaderMessage, "message of a group's leader", {
    0 => Call { reply: u32, root: u32, group: list(LEAST, MAX_MEMBERS) },
    1 => Group(group: list(LEAST, MAX_MEMBERS)),
    2 => Refused(why: text(MAX_TEXT)),
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::golden;

    fn member() -> Member {
        Member {
            number: 7,
            contact: Contact {
                world: 0x0102_0304_0506_0708,
                rank: 3,
                host: "h".into(),
                near: "shm:///a".into(),
                far: String::new(),
                formats: Formats::only(1),
            },
        }
    }

    /// The bytes of a group of one process, of which the last text is of its addresses for others.
    fn group(far: &str) -> String {
        let far_bytes: String = far
            .bytes()
            .map(|byte| alloc::format!("{byte:02x}"))
            .collect();
        alloc::format!(
            "01000000070000000807060504030201030000000100000068080000007368\
             6d3a2f2f2f61{:02x}000000{far_bytes}",
            far.len()
        )
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let stated = Formats {
            lowest: 1,
            highest: 2,
        };
        for (formats, far) in [(UNSTATED, ""), (stated, "mpi://1-2")] {
            let mut member = member();
            member.contact.formats = formats;
            let members = group(far);
            let call = LeaderMessage::Call {
                reply: 2,
                root: 0,
                group: [member.clone()].into(),
            };
            golden(&call, &alloc::format!("000200000000000000{members}"));
            let group = LeaderMessage::Group([member].into());
            golden(&group, &alloc::format!("01{members}"));
        }
        golden(&LeaderMessage::Refused("no".into()), "02020000006e6f");
    }

    /// Decodes a group of one process.
    fn read(far: &str) -> Result<Contact, Malformed> {
        let hex = alloc::format!("01{}", group(far));
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        match LeaderMessage::from_bytes(&bytes)? {
            LeaderMessage::Group(mut group) => Ok(group.remove(0).contact),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn processes_of_builds_that_state_no_formats_speak_the_first() {
        for far in ["", "tcp://10.0.0.1:1", "tcp://10.0.0.1:1,tcp://10.0.0.2:1"] {
            let contact = read(far).unwrap();
            assert_eq!((&*contact.far, contact.formats), (far, Formats::only(1)));
            assert_eq!(contact.near, "shm:///a");
        }
    }

    #[test]
    fn formats_are_found_before_addresses_and_nowhere_else() {
        let (two, ten) = ("tcp://10.0.0.1:1", "tcp://10.0.0.2:1");
        let stated = Formats {
            lowest: 2,
            highest: 10,
        };
        let contact = read(&alloc::format!("mpi://2-10,{two},{ten}")).unwrap();
        assert_eq!(contact.formats, stated);
        assert_eq!(contact.far, alloc::format!("{two},{ten}"));
        assert_eq!(read("mpi://2-10").unwrap().far, "");
        assert_eq!(
            with_formats(stated, two),
            alloc::format!("mpi://2-10,{two}")
        );
        assert_eq!(with_formats(stated, ""), "mpi://2-10");
        for nonsense in [
            "mpi://",
            "mpi://2",
            "mpi://2-1",
            "mpi://0-1",
            "mpi://1-1",
            "mpi://2-10,",
            "mpi://2-10,mpi://2-10",
            "tcp://10.0.0.1:1,mpi://2-10",
        ] {
            assert!(read(nonsense).is_err(), "{nonsense}");
        }
    }
}
