//! The interface to the layer below, and the reports of the layer's own work.

use std::fmt;

use super::memory::{Place, Region, Span};

/// A process, counted from 0.
pub type Rank = u32;

/// An index into the table of handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerId(pub u16);

/// The most words that a request or a reply carries beside its handler.
pub const ARGUMENTS: usize = 4;

/// Bytes of a message's header on the wire and in a descriptor: kind, handler, position, lengths.
pub const HEADER_BYTES: usize = 24;

/// The words of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Arguments {
    words: [u64; ARGUMENTS],
    count: u8,
}

impl Arguments {
    /// `None` when there are more than [`ARGUMENTS`].
    pub fn new(words: &[u64]) -> Option<Self> {
        let mut arguments = Self::default();
        arguments
            .words
            .get_mut(..words.len())?
            .copy_from_slice(words);
        arguments.count = words.len() as u8;
        Some(arguments)
    }

    /// The words.
    pub fn as_slice(&self) -> &[u64] {
        self.words.get(..usize::from(self.count)).unwrap_or(&[])
    }
}

/// The kind of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Runs a request handler.
    Request,
    /// Runs a reply handler.
    Reply,
    /// A fragment of a store; the last one runs a request handler.
    Store(Fragment),
    /// Requests that `source` be sent to `into`.
    Get {
        /// The memory to send.
        source: Span,
        /// Where it is to be stored.
        into: Place,
    },
    /// A fragment of the data of a get; the last one runs a reply handler.
    GetData(Fragment),
}

/// A piece of a bulk transfer. Fragments of one transfer arrive in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment {
    /// The place of the piece in the sender's memory.
    pub from: Place,
    /// Where the piece is stored.
    pub into: Place,
    /// All memory that the transfer has written, if this is its last piece.
    pub landed: Option<Span>,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A message that a port carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The purpose of the message.
    pub kind: Kind,
    /// The handler that it runs in the end.
    pub handler: HandlerId,
    /// The handler's words.
    pub arguments: Arguments,
}

impl Message {
    /// The piece of a bulk transfer, if it carries one.
    pub fn fragment(&self) -> Option<&Fragment> {
        match &self.kind {
            Kind::Store(fragment) | Kind::GetData(fragment) => Some(fragment),
            Kind::Request | Kind::Reply | Kind::Get { .. } => None,
        }
    }

    /// Bytes on the wire: header, words, data.
    pub fn bytes(&self) -> usize {
        HEADER_BYTES
            + 8 * self.arguments.as_slice().len()
            + self.fragment().map_or(0, |fragment| fragment.bytes.len())
    }
}

/// The function that the processor is executing, for the profile of processor time (figures 2.7 to
/// 2.9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// The program itself.
    #[default]
    Compute,
    /// `am_request`.
    Request,
    /// `am_reply`.
    Reply,
    /// `am_store`.
    Store,
    /// `am_get`.
    Get,
    /// `am_poll`, and the handlers that it runs.
    Poll,
}

impl Function {
    /// The number of functions.
    pub const COUNT: usize = 6;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Compute,
        Self::Request,
        Self::Reply,
        Self::Store,
        Self::Get,
        Self::Poll,
    ];

    /// The function's name in GAM.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Request => "am_request",
            Self::Reply => "am_reply",
            Self::Store => "am_store",
            Self::Get => "am_get",
            Self::Poll => "am_poll",
        }
    }
}

/// The layer's own work, in steps that a cost table can price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Composing a message's header and words.
    Compose,
    /// Entering and leaving `am_poll`.
    EnterPoll,
    /// Looking up and calling a handler.
    Dispatch,
    /// Four bytes of an arrived fragment are copied into memory.
    LandWord,
}

/// Work of a program, in kinds of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Additions, subtractions and multiplications of floating-point numbers.
    pub floating: u64,
    /// Integer operations, address arithmetic, branches.
    pub integer: u64,
    /// Loads and stores that hit the cache.
    pub cached: u64,
    /// Loads and stores that access memory.
    pub memory: u64,
}

impl Work {
    /// This work, `times` over.
    pub fn times(self, times: u64) -> Self {
        Self {
            floating: self.floating.saturating_mul(times),
            integer: self.integer.saturating_mul(times),
            cached: self.cached.saturating_mul(times),
            memory: self.memory.saturating_mul(times),
        }
    }

    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            floating: self.floating.saturating_add(other.floating),
            integer: self.integer.saturating_add(other.integer),
            cached: self.cached.saturating_add(other.cached),
            memory: self.memory.saturating_add(other.memory),
        }
    }
}

/// What a process waits for, so that the report of a deadlock can state which process waits for
/// which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// The process that it waits for; `None` for any.
    pub from: Option<Rank>,
    /// What it waits for, as the program describes it.
    pub what: &'static str,
}

impl Awaited {
    /// `what` from `from`.
    pub fn from(from: Rank, what: &'static str) -> Self {
        Self {
            from: Some(from),
            what,
        }
    }

    /// `what`, from any process.
    pub fn from_any(what: &'static str) -> Self {
        Self { from: None, what }
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Some(from) => write!(formatter, "{} from process {from}", self.what),
            None => write!(formatter, "{} from any process", self.what),
        }
    }
}

/// The carrier has ended, and nothing more is sent or received. The machine that ended it reports why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop;

/// Carries messages between processes, in order between any two of them.
///
/// No call runs a handler. A port never accepts more than it has room for: `send` returns the message
/// instead, and the caller polls, because room may depend on the other side's getting
/// replies from this one.
pub trait Port {
    /// This process's rank.
    fn rank(&self) -> Rank;

    /// The number of processes.
    fn ranks(&self) -> u32;

    /// The longest fragment.
    fn fragment_bytes(&self) -> usize;

    /// The alignment of fragments that keeps each on one page; a power of two.
    fn page_bytes(&self) -> usize;

    /// Announces a region that the program has made; data of it may be named by address.
    fn attach(&mut self, region: Region, bytes: usize) -> Result<(), Stop>;

    /// Accepts the message, or returns it when there is no room on the way to `to`.
    fn send(&mut self, to: Rank, message: Message) -> Result<Option<Message>, Stop>;

    /// The next message that has arrived.
    fn receive(&mut self) -> Result<Option<(Rank, Message)>, Stop>;

    /// Returns when something may have arrived or there may be room where there was none.
    fn wait(&mut self, awaited: Awaited) -> Result<(), Stop>;

    /// Charges work that the program has done since the last call.
    fn work(&mut self, work: Work);

    /// Charges steps of the layer.
    fn step(&mut self, step: Step, times: u64);

    /// Notes that the processor is in `function` from here on; returns the function before.
    fn enter(&mut self, function: Function) -> Function;
}
