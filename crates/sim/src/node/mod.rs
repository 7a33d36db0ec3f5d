//! Nodes that run the card's program in virtual time.
//!
//! A [`World`] is a number of nodes of one [`Profile`](crate::profile::Profile) and one design of card
//! ([`Settings`](causeway_firmware::Settings)), a network between them, and the processes on their
//! hosts. Everything is set up first ([`Plan`]), then runs until nothing is left to happen or until a given time.
//!
//! | part | does |
//! |---|---|
//! | [`plan`] | says which processes and virtual interfaces there are, and who is connected to whom |
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

pub use host::{Await, Completed, Do, Process};
pub use plan::{BuildError, Plan, Queues, ViPlan};
pub use record::{Mark, Record, Stage};
pub use world::{Ended, World};

use causeway_firmware::{Engine as DmaEngine, Side, Token};

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
    /// The receive engine has put a frame into a buffer.
    Received { node: u32, frame: u32, buffer: u32 },
    /// A process goes on.
    Process { node: u32, process: u32 },
    /// The program asked to be called by now.
    Deadline { node: u32 },
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
