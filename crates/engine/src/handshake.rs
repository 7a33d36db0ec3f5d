//! The state of a connection's greeting, and what an instance states in it.

use causeway_wire::bmi::{Header, InstanceId, Introduction};
use causeway_wire::formats::Formats;

/// The state of a connection's greeting. Small, as every idle peer has one.
#[derive(Debug, Default)]
pub(crate) struct Greeting {
    /// The peer has made the connection.
    pub(crate) called: bool,
    /// What has to arrive before messages may flow.
    pub(crate) awaited: Awaited,
    /// This side's greeting has been queued.
    pub(crate) is_sent: bool,
    /// The format that both sides set_formats.
    pub(crate) format: u8,
    /// This side has agreed not to need the connection, and the peer, which asked, closes it or
    /// stays.
    pub(crate) agreed_to_leave: bool,
    /// The peer has asked to leave, and has not been sent a reply yet.
    pub(crate) asked_to_leave: bool,
    /// The peer's introduction. Its addresses are dropped once the driver has compared them.
    pub(crate) theirs: Option<Box<Introduction>>,
    /// A connection that the peer has made meanwhile, and that waits until ours has come up or
    /// failed.
    pub(crate) waiting_caller: Option<Box<WaitingCaller>>,
}

/// A caller that waits, by its conversation's key.
#[derive(Debug)]
pub(crate) struct WaitingCaller(pub(crate) u64);

impl Greeting {
    /// Which instance the peer claims to be.
    pub(crate) fn id(&self) -> Option<InstanceId> {
        self.theirs.as_ref().map(|theirs| theirs.id)
    }
}

/// What has to arrive before messages may flow.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaited {
    #[default]
    Hello,
    Introduction,
    /// This side's decision whether the caller is a peer that is known.
    Decision,
    Ready,
}

/// Which instance this is, and which formats it speaks.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) introduction: Introduction,
    pub(crate) formats: Formats,
}

impl Own {
    /// Whether other processes can call this instance.
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

/// The decision about a caller; see
/// [`Conversations::classify`](crate::conversations::Conversations::classify).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerDecision {
    /// It is a new peer.
    Distinct,
    /// It is the known peer, which takes over the connection.
    Same,
    /// It waits until the connection that we are making to the known peer has come up or failed.
    Wait,
}
