//! What processes of MPI programs tell each other so that programs that were started apart can meet (MPI 5.0 chapter 11.7 to
//! 11.9): who they are, and how they are reached.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Malformed, Reader, Wire, Writer};

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

fn text(input: &mut Reader<'_>, field: &'static str) -> Result<String, Malformed> {
    let bytes = input.bytes(MAX_TEXT, field)?;
    let text = core::str::from_utf8(bytes).map_err(|error| Malformed::Unknown {
        field,
        value: bytes[error.valid_up_to()].into(),
    })?;
    Ok(text.to_string())
}

impl Wire for Contact {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.world);
        out.u32(self.rank);
        for text in [&self.host, &self.near, &self.far] {
            out.bytes(text.as_bytes());
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            world: input.u64("the world of a process")?,
            rank: input.u32("the rank of a process")?,
            host: text(input, "the host of a process")?,
            near: text(input, "the near addresses of a process")?,
            far: text(input, "the far addresses of a process")?,
        })
    }
}

impl Wire for Member {
    fn encode(&self, out: &mut Writer) {
        out.u32(self.number);
        self.contact.encode(out);
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            number: input.u32("the number of a communicator")?,
            contact: Contact::decode(input)?,
        })
    }
}

fn put_group(out: &mut Writer, group: &[Member]) {
    out.count(group.len());
    for member in group {
        member.encode(out);
    }
}

fn group(input: &mut Reader<'_>) -> Result<Vec<Member>, Malformed> {
    let count = input.count(MAX_MEMBERS, LEAST, "the processes of a group")?;
    (0..count).map(|_| Member::decode(input)).collect()
}

impl Wire for Meeting {
    fn encode(&self, out: &mut Writer) {
        match self {
            Self::Call { reply, root, group } => {
                out.u8(0);
                out.u32(*reply);
                out.u32(*root);
                put_group(out, group);
            }
            Self::Group(group) => {
                out.u8(1);
                put_group(out, group);
            }
            Self::Refused(why) => {
                out.u8(2);
                out.bytes(why.as_bytes());
            }
        }
    }

    fn decode(input: &mut Reader<'_>) -> Result<Self, Malformed> {
        match input.u8("what a group says")? {
            0 => Ok(Self::Call {
                reply: input.u32("the tag of a reply")?,
                root: input.u32("the caller's rank")?,
                group: group(input)?,
            }),
            1 => group(input).map(Self::Group),
            2 => text(input, "the reason of a refusal").map(Self::Refused),
            value => Err(Malformed::Unknown {
                field: "what a group says",
                value: value.into(),
            }),
        }
    }
}

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
