//! What processes of MPI programs tell each other so that programs that were started apart can meet (MPI 5.0 chapter 11.7 to
//! 11.9): who they are, and how they are reached.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer, unknown};

/// Most bytes of one text: a host, or the addresses of a process.
pub const MAX_TEXT: usize = 4 << 10;
/// Most processes in one list.
pub const MAX_MEMBERS: usize = 1 << 20;
/// The fewest bytes that a process takes in a list.
const LEAST: usize = 28;

/// A process, as others find it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Contact {
    /// The number that the processes of its `MPI_COMM_WORLD` have in common, drawn at random.
    pub world: u64,
    /// Its rank there.
    pub rank: u32,
    /// The same text for processes that can share memory, and no others.
    pub host: String,
    /// Its addresses for those of its host, with commas between.
    pub near: String,
    /// Its addresses for others.
    pub far: String,
}

/// A process that takes part in a new communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its number of the new communicator.
    pub number: u32,
    /// How it is reached.
    pub contact: Contact,
}

/// What the roots of two groups tell each other, and then their groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meeting {
    /// A group wants to meet the group of the process that has a port.
    Call {
        /// Under which tag the caller awaits the reply.
        reply: u32,
        /// The caller's rank in its group.
        root: u32,
        /// The caller's group.
        group: Vec<Member>,
    },
    /// The other group.
    Group(Vec<Member>),
    /// They do not meet.
    Refused(String),
}

record! { Contact {
    world: u64, rank: u32, host: text(MAX_TEXT), near: text(MAX_TEXT), far: text(MAX_TEXT),
} }

record! { Member { number: u32, contact: wire } }

variants!(Meeting, "what a group says", {
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
            },
        }
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let group = "01000000070000000807060504030201030000000100000068080000007368\
                     6d3a2f2f2f6100000000";
        let call = Meeting::Call {
            reply: 2,
            root: 0,
            group: [member()].into(),
        };
        golden(&call, &alloc::format!("000200000000000000{group}"));
        golden(
            &Meeting::Group([member()].into()),
            &alloc::format!("01{group}"),
        );
        golden(&Meeting::Refused("no".into()), "02020000006e6f");
    }
}
