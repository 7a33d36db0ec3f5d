//! Nodes that run the card's program in virtual time.
//!
//! A [`World`] is a number of nodes of one [`Profile`](crate::profile::Profile) and one design of card
//! ([`Settings`](causeway_firmware::Settings)), a network between them, and the processes on their
//! hosts. Everything is set up first ([`Plan`]), then runs until nothing is left to happen or until a given time.
//!
//! | part | does |
//! |---|---|
//! | [`plan`] | says which processes, virtual interfaces and connections there are |
//! | [`card`] | gives the program its turns, charges its steps, feeds the DMA engines |
//! | [`host`] | lets processes post, ring, poll and sleep |
//! | [`record`] | notes when each message reached each stage, and how much everything was used |
//! | [`world`] | the loop over events, and frames between nodes |
//!
//! What an idle processor polls in vain is counted, not simulated poll by poll: when something happens, it is
//! computed when the loop would have come to it.

pub mod card;
pub mod host;
pub mod plan;
pub mod record;
pub mod world;

pub use host::{Action, Await, Completed, Process};
pub use plan::{BuildError, Plan, Queues, Room, ViPlan};
pub use record::{Mark, Record, Stage};
pub use world::{Ended, World};

use causeway_firmware::{Engine as DmaEngine, Side, Token};

use crate::engine::{Engine, Time};

/// What happens at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A processor's turn is due, if `generation` is still the present one.
    Turn {
        node: u32,
        processor: u8,
        generation: u32,
    },
    /// A doorbell reaches the card.
    Doorbell {
        node: u32,
        vi: u32,
        side: Side,
        slot: u32,
    },
    /// A piece of a transfer reaches the host DMA engine.
    HostDmaPiece {
        node: u32,
        transfer: u32,
        bytes: u32,
    },
    /// A channel of the host DMA engine goes on.
    HostDma { node: u32, channel: u32 },
    /// The network send engine is given a frame.
    NetSend { node: u32, frame: u32 },
    /// It has sent it.
    NetSent { node: u32, token: Token },
    /// The network receive engine is given a buffer.
    NetReceive { node: u32, buffer: u32 },
    /// A frame is at its node's receive engine.
    Arrived { node: u32, frame: u32 },
    /// The header of a frame is in, and the rest follows.
    Begun { node: u32, frame: u32 },
    /// What a host transfer still had to wait for of its frame has gone to the host.
    Followed { node: u32, transfer: u32 },
    /// The receive engine has put a frame into a buffer.
    Received { node: u32, frame: u32, buffer: u32 },
    /// A process goes on.
    Process { node: u32, process: u32 },
    /// The program's deadline has come.
    Deadline { node: u32 },
    /// A process has waited long enough, if this is the wait that it is in.
    Timeout { node: u32, process: u32, wait: u32 },
    /// The card has something for a process that sleeps: its completion queue, or one of its work queues.
    Interrupt { node: u32, process: u32 },
}

/// An event as the queue keeps it: two words that are packed and unpacked in registers. (An `Event` is written
/// field by field and copied as a whole, for which a processor has to wait until all that it wrote before is in its
/// cache: that cost more than the queue itself.)
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed(u64, u64);

impl Packed {
    const fn new(kind: u8, small: u8, node: u32, a: u32, b: u32) -> Self {
        Self(
            (node as u64) << 32 | (small as u64) << 8 | kind as u64,
            (b as u64) << 32 | a as u64,
        )
    }
}

impl From<Event> for Packed {
    #[inline]
    fn from(event: Event) -> Self {
        match event {
            Event::Turn {
                node,
                processor,
                generation,
            } => Self::new(0, processor, node, generation, 0),
            Event::Doorbell {
                node,
                vi,
                side,
                slot,
            } => Self::new(1, side_index(side) as u8, node, vi, slot),
            Event::HostDmaPiece {
                node,
                transfer,
                bytes,
            } => Self::new(2, 0, node, transfer, bytes),
            Event::HostDma { node, channel } => Self::new(3, 0, node, channel, 0),
            Event::NetSend { node, frame } => Self::new(4, 0, node, frame, 0),
            Event::NetSent { node, token } => Self::new(5, 0, node, token.0, 0),
            Event::NetReceive { node, buffer } => Self::new(6, 0, node, buffer, 0),
            Event::Arrived { node, frame } => Self::new(7, 0, node, frame, 0),
            Event::Received {
                node,
                frame,
                buffer,
            } => Self::new(8, 0, node, frame, buffer),
            Event::Process { node, process } => Self::new(9, 0, node, process, 0),
            Event::Deadline { node } => Self::new(10, 0, node, 0, 0),
            Event::Timeout {
                node,
                process,
                wait,
            } => Self::new(11, 0, node, process, wait),
            Event::Interrupt { node, process } => Self::new(12, 0, node, process, 0),
            Event::Begun { node, frame } => Self::new(13, 0, node, frame, 0),
            Event::Followed { node, transfer } => Self::new(14, 0, node, transfer, 0),
        }
    }
}

impl From<Packed> for Event {
    #[inline]
    fn from(packed: Packed) -> Self {
        let node = (packed.0 >> 32) as u32;
        let small = (packed.0 >> 8) as u8;
        let (a, b) = (packed.1 as u32, (packed.1 >> 32) as u32);
        match packed.0 as u8 {
            0 => Self::Turn {
                node,
                processor: small,
                generation: a,
            },
            1 => Self::Doorbell {
                node,
                vi: a,
                side: match small {
                    0 => Side::Send,
                    _ => Side::Receive,
                },
                slot: b,
            },
            2 => Self::HostDmaPiece {
                node,
                transfer: a,
                bytes: b,
            },
            3 => Self::HostDma { node, channel: a },
            4 => Self::NetSend { node, frame: a },
            5 => Self::NetSent {
                node,
                token: Token(a),
            },
            6 => Self::NetReceive { node, buffer: a },
            7 => Self::Arrived { node, frame: a },
            8 => Self::Received {
                node,
                frame: a,
                buffer: b,
            },
            9 => Self::Process { node, process: a },
            10 => Self::Deadline { node },
            11 => Self::Timeout {
                node,
                process: a,
                wait: b,
            },
            12 => Self::Interrupt { node, process: a },
            13 => Self::Begun { node, frame: a },
            _ => Self::Followed { node, transfer: a },
        }
    }
}

/// The queue of a world's events.
#[derive(Default)]
pub(crate) struct Events(Engine<Packed>);

impl Events {
    #[inline]
    pub(crate) fn at(&mut self, at: Time, event: Event) {
        self.0.at(at, event.into());
    }

    #[inline]
    pub(crate) fn after(&mut self, after: Time, event: Event) {
        self.0.after(after, event.into());
    }

    /// Goes on to the next event, if it happens by `end`.
    #[inline]
    pub(crate) fn next_by(&mut self, end: Time) -> Option<Event> {
        match self.0.next_time() {
            Some(at) if at <= end => self.0.next().map(Event::from),
            _ => None,
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.0.now()
    }

    pub(crate) fn handled(&self) -> u64 {
        self.0.handled()
    }

    pub(crate) fn pending(&self) -> usize {
        self.0.pending()
    }
}

/// A place for things that have numbers, which are given out again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                self.items.len() as u32 - 1
            }
        }
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.items.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.items.get_mut(place as usize)?.as_mut()
    }

    /// The first place with an item as wanted.
    pub(crate) fn position(&self, wanted: impl Fn(&T) -> bool) -> Option<u32> {
        let found = |item: &Option<T>| item.as_ref().is_some_and(&wanted);
        self.items.iter().position(found).map(|place| place as u32)
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let item = self.items.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(item)
    }
}

/// An index of two for the two work queues.
pub(crate) fn side_index(side: Side) -> usize {
    match side {
        Side::Send => 0,
        Side::Receive => 1,
    }
}

/// What the program calls an engine, as a word.
pub(crate) fn engine_name(engine: DmaEngine) -> &'static str {
    match engine {
        DmaEngine::Host => "host DMA",
        DmaEngine::NetSend => "net send",
        DmaEngine::NetReceive => "net receive",
    }
}
