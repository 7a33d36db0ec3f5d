//! The state of a connection's greeting, and what an instance says of itself in it.

use causeway_wire::bmi::{Header, InstanceId, Introduction};
use causeway_wire::formats::Formats;

/// Where the greeting of a connection stands. Small: every idle peer has one.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    /// The peer has made the connection.
    pub(crate) called: bool,
    /// What is awaited.
    pub(crate) awaited: Awaited,
    /// The format that both speak.
    pub(crate) format: u8,
    /// We do not need the connection, and the peer, which asked, closes it or stays.
    pub(crate) agreed_to_leave: bool,
    /// The peer does not need the connection, and has no reply yet.
    pub(crate) asked_to_leave: bool,
    /// What the peer says of itself. Where it can be reached is forgotten once the driver has compared it.
    pub(crate) theirs: Option<Box<Introduction>>,
    /// A connection that the peer has made meanwhile, and that waits for what becomes of ours.
    pub(crate) rival: Option<Box<Rival>>,
}

/// A caller, by its conversation's key, that waits.
#[derive(Debug)]
pub(crate) struct Rival(pub(crate) u64);

impl Greeting {
    /// Which instance the peer says it is.
    pub(crate) fn id(&self) -> Option<InstanceId> {
        self.theirs.as_ref().map(|theirs| theirs.id)
    }
}

/// What is awaited before messages may flow.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    #[default]
    Hello,
    Introduction,
    /// Of ours: whether the caller is a peer that is known.
    Decision,
    Ready,
}

/// Which instance this is, and what it speaks.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) introduction: Introduction,
    pub(crate) formats: Formats,
}

impl Own {
    /// Whether others can call.
    pub(crate) fn is_callable(&self) -> bool {
        !self.introduction.addresses.is_empty()
    }

    /// The greeting, without credit.
    pub(crate) fn hello(&self) -> Header {
        self.formats.hello(self.is_callable())
    }
}

impl Default for Own {
    fn default() -> Self {
        Self {
            introduction: Introduction::default(),
            formats: Formats::OURS,
        }
    }
}

/// What becomes of a caller; see [`Conversations::meet`](crate::conversations::Conversations::meet).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meeting {
    /// It is a peer of its own.
    Distinct,
    /// It is the peer that is known: its connection is to be that peer's.
    Same,
    /// It waits until the connection that we are making to the known peer has come up or failed.
    Wait,
}
