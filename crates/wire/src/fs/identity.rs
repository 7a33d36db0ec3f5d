//! The identity of a server, the target of a request, and the servers of a file system
//! (`docs/formats/fs.md`, section "Identities").
//!
//! A server's directory gets a random [`Generation`] when it is formatted, and the metadata a random
//! [`Incarnation`]. Every request but the first one carries both as its [`Target`], so that a server that
//! was replaced, mixed up or restarted on another directory refuses it instead of serving other bytes.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::limits::{MAX_LABEL_BYTES, MAX_MESSAGE_BYTES};
use crate::codec::fields::*;
use crate::codec::{Malformed, Reader, Wire, Writer};

/// Longest name of a server, in bytes.
pub const MAX_SERVER_NAME_BYTES: usize = 64;
/// Most servers in one [`LayoutPart`].
pub const MAX_LAYOUT_PART: usize = 256;
/// Fewest bytes of a [`LayoutServer`]: an empty name.
const MIN_LAYOUT_SERVER_BYTES: usize = 15;

/// Names one formatting of a server's directory: random, so that no two directories share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Generation(pub u64);

/// Names one incarnation of a file system's metadata: random, drawn when they are formatted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Incarnation(pub u64);

macro_rules! identifier {
    ($type:ident, $field:literal) => {
        impl $type {
            /// Not known, or not assigned yet.
            pub const NONE: Self = Self(0);

            /// Whether this is [`Self::NONE`].
            pub fn is_none(self) -> bool {
                self.0 == 0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:016x}", self.0)
            }
        }

        number!($type: u64, $field);
    };
}

identifier!(Generation, "generation");
identifier!(Incarnation, "incarnation");

/// The server to which a request is addressed. A server carries out no request that is addressed to
/// another one; only [`super::Operation::Hello`] has no target ([`Target::default`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Target {
    /// The file system's identity.
    pub file_system: u128,
    /// The formatting of the server's directory.
    pub generation: Generation,
    /// The incarnation of the metadata that the sender assumes.
    pub incarnation: Incarnation,
}

/// A server's identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerIdentity {
    /// The file system's identity.
    pub file_system: u128,
    /// The server's name in the configuration.
    pub name: String,
    /// Whether it keeps the metadata.
    pub metadata: bool,
    /// Whether it keeps datafiles.
    pub io: bool,
    /// The formatting of its directory.
    pub generation: Generation,
    /// Its number in the layout; absent for a server that keeps no datafiles or was not enrolled yet.
    pub index: Option<u16>,
    /// The incarnation of the metadata that it keeps, or that have enrolled it; none before that.
    pub incarnation: Incarnation,
}

impl ServerIdentity {
    /// The target that a request must have to be carried out here.
    pub fn target(&self) -> Target {
        Target {
            file_system: self.file_system,
            generation: self.generation,
            incarnation: self.incarnation,
        }
    }
}

/// A server's reply to [`super::Operation::Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Its identity.
    pub identity: ServerIdentity,
    /// Process id.
    pub pid: u32,
    /// Milliseconds since its start.
    pub uptime_ms: u64,
    /// Identity of the host's present run: it changes when the host restarts or loses power.
    pub boot: u128,
    /// Changes when a sync of its disk has failed: earlier unsynced data may be lost.
    pub failed_syncs: u64,
    /// Version of the program.
    pub version: String,
    /// From the metadata server: the servers of the file system, or the first of them.
    pub layout: Option<LayoutPart>,
}

/// A part of a file system's list of I/O servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutPart {
    /// Counts the changes of the list. Parts of one list have the same.
    pub epoch: u64,
    /// Number of servers in the whole list.
    pub count: u32,
    /// At most [`MAX_LAYOUT_PART`], in the order of their numbers.
    pub servers: Vec<LayoutServer>,
}

/// An I/O server as recorded in the metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutServer {
    /// Its number in distributions, which never changes.
    pub index: u16,
    /// Its name.
    pub name: String,
    /// The formatting of its directory; none before the metadata server has registered it.
    pub generation: Generation,
    /// Whether new files use it.
    pub active: bool,
}

record! { Target { file_system: u128, generation: wire, incarnation: wire } }
record! { ServerIdentity {
    file_system: u128, name: text(MAX_SERVER_NAME_BYTES), metadata: bool, io: bool,
    generation: wire, index: option_u16, incarnation: wire,
} }
record! { Greeting {
    identity: wire, pid: u32, uptime_ms: u64, boot: u128, failed_syncs: u64,
    version: text(MAX_LABEL_BYTES), layout: option,
} }
record! { LayoutPart { epoch: u64, count: u32, servers: list(MIN_LAYOUT_SERVER_BYTES) } }
record! { LayoutServer {
    index: u16, name: text(MAX_SERVER_NAME_BYTES), generation: wire, active: bool,
} }

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::golden;
    use crate::fs::formats::FORMATS;
    use crate::fs::{Operation, Reply, ReplyBody};
    use alloc::boxed::Box;
    use alloc::vec;

    fn identity() -> ServerIdentity {
        ServerIdentity {
            file_system: 1,
            name: "io0".into(),
            metadata: false,
            io: true,
            generation: Generation(2),
            index: Some(3),
            incarnation: Incarnation(4),
        }
    }

    #[test]
    fn golden_identities() {
        let target = "01000000000000000000000000000000 0200000000000000 0400000000000000";
        golden(&identity().target(), target);
        golden(
            &identity(),
            "01000000000000000000000000000000 03000000 696f30 00 01 0200000000000000
             01 0300 0400000000000000",
        );
        golden(
            &ServerIdentity {
                index: None,
                ..identity()
            },
            "01000000000000000000000000000000 03000000 696f30 00 01 0200000000000000
             00 0400000000000000",
        );
    }

    #[test]
    fn golden_greetings() {
        let layout = LayoutPart {
            epoch: 5,
            count: 9,
            servers: vec![LayoutServer {
                index: 3,
                name: "io0".into(),
                generation: Generation(2),
                active: true,
            }],
        };
        let greeting = Greeting {
            identity: identity(),
            pid: 6,
            uptime_ms: 7,
            boot: 8,
            failed_syncs: 9,
            version: "v".into(),
            layout: Some(layout),
        };
        golden(
            &ReplyBody::Hello(Box::new(greeting)),
            "0b 01000000000000000000000000000000 03000000 696f30 00 01 0200000000000000
             01 0300 0400000000000000 06000000 0700000000000000
             08000000000000000000000000000000 0900000000000000 01000000 76
             01 0500000000000000 09000000 01000000
             0300 03000000 696f30 0200000000000000 01",
        );
        let hello = Operation::Hello {
            layout_from: 256,
            timeout_s: 2,
        };
        golden(&hello, "81 0001 02000000");
    }

    #[test]
    fn golden_changes_of_the_layout() {
        let name = || String::from("io4");
        golden(&Operation::AddServer { name: name() }, "16 03000000 696f34");
        golden(
            &Operation::DrainServer { name: name() },
            "18 03000000 696f34",
        );
        golden(
            &Operation::AcceptServer {
                name: name(),
                generation: Generation(2),
            },
            "17 03000000 696f34 0200000000000000",
        );
        golden(
            &Operation::Enroll {
                index: 3,
                incarnation: Incarnation(4),
                replace: true,
            },
            "48 0300 0400000000000000 01",
        );
    }

    #[test]
    fn the_longest_part_of_a_layout_fits_into_a_message() {
        let server = LayoutServer {
            index: u16::MAX,
            name: "n".repeat(MAX_SERVER_NAME_BYTES),
            generation: Generation(u64::MAX),
            active: true,
        };
        let layout = LayoutPart {
            epoch: u64::MAX,
            count: u32::MAX,
            servers: vec![server; MAX_LAYOUT_PART],
        };
        let greeting = Greeting {
            identity: identity(),
            pid: 0,
            uptime_ms: 0,
            boot: 0,
            failed_syncs: 0,
            version: "v".repeat(MAX_LABEL_BYTES),
            layout: Some(layout),
        };
        let reply = Reply {
            result: Ok(ReplyBody::Hello(Box::new(greeting))),
        };
        assert!(reply.to_bytes(FORMATS.highest).len() <= MAX_MESSAGE_BYTES);
    }

    #[test]
    fn identities_are_printed_with_all_their_digits() {
        use alloc::string::ToString;
        assert_eq!(Generation(0xa).to_string(), "000000000000000a");
        assert!(Incarnation::NONE.is_none() && !Incarnation(1).is_none());
    }
}
