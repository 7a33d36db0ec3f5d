//! The program of the network interface: virtual interfaces, doorbells, DMA, reliability and quality of
//! service as a pure state machine without I/O, clock or pointers.
//!
//! A driver makes it a network interface. The one driver so far is the simulator, which charges virtual time for every step
//! and transfer. One that moves real bytes between processes can take its place (`ARCHITECTURE.md`). A driver
//!
//! 1. makes a [`Firmware`] from [`Settings`], and sets up regions, completion queues, virtual
//!    interfaces, reservations and connections, as a kernel's driver would ([`setup`]);
//! 2. reports what the hardware does with [`Firmware::input`], at any time ([`Input`]);
//! 3. calls [`Firmware::turn`] for each of the card's processors, once at the beginning, then as [`Turn`] says: each turn
//!    handles one event, up to where the real program would poll its sources of events again, and requests transfers of
//!    the [`Card`].
//!
//! Payload never passes through this program: it lies in card buffers that the driver owns and the
//! program assigns. The program itself reads descriptors and headers of frames. Memory is
//! taken at set-up and never afterwards.
//!
//! # The path of a message (thesis, fig. 4.3)
//!
//! Sending: doorbell → descriptor down (host DMA) → data down, a frame at a time (host DMA) → frame out
//! (network send DMA) → status up (host DMA) → entry of the completion queue up, if there is one (host
//! DMA). Receiving: frame in (network receive DMA) → descriptor down, unless it is there already →
//! data up → status up → entry up. Stages that have nothing to do are skipped. With cut-through
//! ([`Settings::cut_through`]) a frame goes out while its data still comes down: both engines have its buffer then,
//! and it is free when both have finished with it. With [`Settings::receive_cut_through`] a frame's data goes up while the
//! frame still comes in. [`Discipline`] says in which order stages of different messages are served; the stages are the
//! same.
//!
//! # Where to read
//!
//! [`setup`], [`settings`], [`input`] and [`card`] are the interface. Inside, `state` has the whole state, `vi`
//! that of one virtual interface; `events` chooses the next event; `posting` takes a doorbell to a checked
//! `descriptor`, `send` to frames, `net` onto the wire; `receive` and `rdma` take a frame to host memory, `completion`
//! reports its completion. `host` and `net` are the programs of the two engines that have queues (`engines`), `reliability` that of
//! the reliable levels, `breaking` the end of a connection, `calls` and `admission` what the driver requests. `memory`,
//! `buffers`, `clock`, `doorbells`, `stamped`, `timers` and `pool` are tools.
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

mod admission;
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
pub use state::Firmware;
