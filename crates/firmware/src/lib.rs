//! The program of the network interface: virtual interfaces, doorbells, DMA, reliability and quality of
//! service as a pure state machine without I/O, clock or pointers.
//!
//! A driver makes it a network interface. The one driver so far is the simulator, which charges
//! virtual time for every step and transfer. One that moves real bytes between processes can
//! replace it (`ARCHITECTURE.md`). A driver
//!
//! 1. makes a [`Firmware`] from [`Settings`], and sets up regions, completion queues, virtual
//!    interfaces, reservations and connections, as a kernel's driver would ([`setup`]);
//! 2. reports what the hardware does with [`Firmware::input`], at any time ([`Input`]);
//! 3. calls [`Firmware::turn`] for each of the card's processors, once at the beginning, then as
//!    [`Turn`] requires: each turn handles one event, up to where the real program would poll its
//!    sources of events again, and requests transfers of the [`Card`].
//!
//! Payload never passes through this program: it is in card buffers that the driver owns and the
//! program assigns. The program itself reads descriptors and headers of frames. Memory is allocated
//! at set-up and never afterwards.
//!
//! # The path of a message (thesis, fig. 4.3)
//!
//! Sending: doorbell → descriptor down (host DMA) → data down, a frame at a time (host DMA) → frame
//! out (network send DMA) → status up (host DMA) → entry of the completion queue up, if there is
//! one (host DMA). Receiving: frame in (network receive DMA) → descriptor down, unless it is on the
//! card already → data up → status up → entry up. Stages without work are skipped. With cut-through
//! ([`Settings::cut_through`]) a frame is sent while its data is still being read: both engines use
//! its buffer then, and it is free when both have finished with it. With
//! [`Settings::receive_cut_through`] a frame's data is written to the host while the frame is still
//! arriving. [`Discipline`] determines in which order stages of different messages are handled; the
//! stages are the same.
//!
//! # Where to read
//!
//! [`setup`], [`settings`], [`input`] and [`card`] are the interface. Inside, `state` has the whole state, `vi`
//! that of one virtual interface; `events` chooses the next event; `posting` takes a doorbell to a checked
//! `descriptor`, `send` to frames, `net` onto the wire; `receive` and `rdma` take a frame to host memory, `completion`
//! reports its completion. `host` and `net` are the programs of the two engines that have queues (`engines`), `reliability` that of
//! the reliable levels, `breaking` the end of a connection, `calls` and `admission` what the driver requests. `memory`,
//! `buffers`, `clock`, `doorbells`, `stamped`, `timers` and `pool` are tools. `footprint` counts what all of it takes on a card,
//! and `ahead` names state that will be used soon.
//!
//! # Guarantees
//!
//! - Any input in any order is accepted, in time bounded by the settings, without panic.
//! - Each descriptor that the card can access is completed exactly once, and those of a work queue
//!   in the order of their doorbells. Descriptors that it cannot access are reported.
//! - An engine is never passed more transfers than it can hold.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
mod ahead;
mod breaking;
mod buffers;
mod calls;
pub mod card;
mod clock;
mod completion;
mod descriptor;
mod doorbells;
mod engines;
mod events;
mod footprint;
mod host;
pub mod input;
mod memory;
mod net;
mod pool;
mod posting;
mod rdma;
mod receive;
mod reliability;
mod send;
pub mod settings;
pub mod setup;
mod stamped;
mod state;
mod timers;
mod vi;

pub use ahead::{Ahead, Tables};
pub use card::{Body, Breakage, Card, DmaRequest, Engine, Piece, Report, Step, Token, Transfer};
pub use footprint::MemoryUse;
pub use input::{Input, Turn};
pub use settings::{
    BestEffort, Capacity, Discipline, DmaQueue, Doorbells, Limits, MAX_WINDOW, ReceiveDescriptors,
    Reliable, Retransmission, Settings, SettingsError,
};
pub use setup::{
    BufferId, CompletionQueue, Connection, Direction, NodeId, Processor, QueueId, Refusal, Region,
    Reliability, Resource, SECOND, SetUpError, Side, Time, Traffic, ViAttributes, ViId,
};
pub use state::Firmware;
