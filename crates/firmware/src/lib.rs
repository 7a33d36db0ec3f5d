//! The program of the network interface: virtual interfaces, doorbells, DMA, reliability and quality of
//! service as a pure state machine without I/O, clock or pointers.
//!
//! One program, two drivers: the simulator charges virtual time for every step and transfer, the
//! production engine copies and sends. A driver
//!
//! 1. makes a [`Firmware`] from [`Settings`], and sets up regions, completion queues, virtual
//!    interfaces, reservations and connections, as a kernel's driver would ([`setup`]);
//! 2. tells it what the hardware does with [`Firmware::input`], at any time ([`Input`]);
//! 3. gives each of the card's processors its turns ([`Firmware::turn`], [`Turn`] says when): each handles one event, up
//!    to where the real program would look round again, and asks the [`Card`] for transfers.
//!
//! Payload never passes through here: it lies in card buffers that the driver owns and this
//! program assigns. What it reads itself are descriptors and headers of frames. Memory is
//! taken at set-up and never afterwards.
//!
//! # The path of a message (thesis, fig. 4.3)
//!
//! Sending: doorbell → descriptor down (host DMA) → data down, a frame at a time (host DMA) → frame out
//! (network send DMA) → status up (host DMA) → entry of the completion queue up, if there is one (host
//! DMA). Receiving: frame in (network receive DMA) → descriptor down, unless it is there already →
//! data up → status up → entry up. Stages that have nothing to do are skipped. [`Discipline`] says in
//! which order stages of different messages take their turns; the stages are the same.
//!
//! # Promises
//!
//! - Any input in any order is accepted, in time bounded by the settings, without panic.
//! - Each descriptor that the card can reach is completed exactly once, and those of a work queue in
//!   the order of their doorbells. What it cannot reach is reported.
//! - An engine never gets more transfers than it holds.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod card;
pub mod input;
pub mod settings;
pub mod setup;

pub use card::{Body, Breakage, Card, DmaRequest, Engine, Piece, Report, Step, Token, Transfer};
pub use input::{Input, Turn};
pub use settings::{
    BestEffort, Capacity, Discipline, DmaQueue, Doorbells, Limits, MAX_WINDOW, ReceiveDescriptors,
    Reliable, Retransmission, Settings, SettingsError,
};
pub use setup::{
    BufferId, CompletionQueue, Connection, Direction, NodeId, Processor, QueueId, Refusal, Region,
    Reliability, Resource, SECOND, SetUpError, Side, Time, Traffic, ViAttributes, ViId,
};

/// The program and all its state.
pub struct Firmware {
    settings: Settings,
}

impl Firmware {
    /// A card with nothing set up. Takes all the memory that it will ever use on the data path.
    pub fn new(settings: Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self { settings })
    }

    /// What the card was made with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Registers memory; the handle goes into descriptors. The pages must stay where they are until
    /// [`Firmware::deregister`] has succeeded.
    pub fn register(&mut self, region: Region<'_>) -> Result<u32, SetUpError> {
        let _ = region;
        Err(SetUpError::Full { what: "region" })
    }

    /// Ends a registration; refused while something in progress uses it.
    pub fn deregister(&mut self, handle: u32) -> Result<(), SetUpError> {
        let _ = handle;
        Err(SetUpError::Unknown { what: "region" })
    }

    /// Makes a completion queue.
    pub fn create_queue(&mut self, queue: CompletionQueue) -> Result<QueueId, SetUpError> {
        let _ = queue;
        Err(SetUpError::Full { what: "queue" })
    }

    /// Ends a completion queue that no virtual interface uses.
    pub fn destroy_queue(&mut self, queue: QueueId) -> Result<(), SetUpError> {
        let _ = queue;
        Err(SetUpError::Unknown { what: "queue" })
    }

    /// Makes a virtual interface. Receives may be posted from now on, sends when it is connected.
    pub fn create_vi(&mut self, attributes: ViAttributes) -> Result<ViId, SetUpError> {
        let _ = attributes;
        Err(SetUpError::Full {
            what: "virtual interface",
        })
    }

    /// Ends a virtual interface; refused before [`Firmware::disconnect`], and until everything posted
    /// has been completed. Gives its reservations back.
    pub fn destroy_vi(&mut self, vi: ViId) -> Result<(), SetUpError> {
        let _ = vi;
        Err(SetUpError::Unknown {
            what: "virtual interface",
        })
    }

    /// Connects, which both ends' drivers have agreed on. Best before the processes hear of it, so that
    /// no frame arrives at an end that does not know of the connection yet (it would be dropped).
    pub fn connect(&mut self, vi: ViId, connection: Connection) -> Result<(), SetUpError> {
        let _ = (vi, connection);
        Err(SetUpError::Unknown {
            what: "virtual interface",
        })
    }

    /// Ends a connection, broken or not: what is posted will be completed as flushed in the next turns.
    /// The virtual interface can be connected anew when that is done.
    pub fn disconnect(&mut self, vi: ViId) -> Result<(), SetUpError> {
        let _ = vi;
        Err(SetUpError::Unknown {
            what: "virtual interface",
        })
    }

    /// Admission control at this end of a channel: reserves what `traffic` needs of this card, or says
    /// what would fit. Both ends have to agree: if the other refuses, [`Firmware::release`] here and offer the
    /// smaller of the two. A channel without reservation is best effort.
    pub fn reserve(
        &mut self,
        vi: ViId,
        direction: Direction,
        traffic: Traffic,
    ) -> Result<(), SetUpError> {
        let _ = (vi, direction, traffic);
        Err(SetUpError::Unknown {
            what: "virtual interface",
        })
    }

    /// Gives a reservation back.
    pub fn release(&mut self, vi: ViId, direction: Direction) -> Result<(), SetUpError> {
        let _ = (vi, direction);
        Err(SetUpError::Unknown {
            what: "virtual interface",
        })
    }

    /// Notes what the hardware did. Takes no time of the card's processors.
    pub fn input(&mut self, now: Time, input: Input<'_>) {
        let _ = (now, input);
    }

    /// Lets a processor go on at `now`.
    pub fn turn(&mut self, now: Time, processor: Processor, card: &mut impl Card) -> Turn {
        let _ = (now, processor, card);
        Turn::Idle
    }

    /// When the next turn is due even if nothing happens: acknowledgements become overdue then.
    pub fn deadline(&self) -> Option<Time> {
        None
    }
}
