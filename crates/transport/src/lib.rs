//! The waist of Causeway: packets and remote memory, and the methods that carry them.
//!
//! Everything above is built on the two primitives of [`Method`]:
//!
//! 1. **Packets**: short, ordered per peer, reliable, flow-controlled, delivered by
//!    [`Method::poll`] into the receiver's [`Sink`].
//! 2. **Remote memory**: regions exported under a 64-bit key, which the peer reads and writes with
//!    lists of fragments. A list has one completion, and optionally a packet that the peer receives
//!    after the last byte has been written.
//!
//! Read [`method`] (the contract), [`wake`], [`address`] and [`registry`] first; then a method:
//! [`shm`] between processes of one user on one host, [`tcp`] between hosts, [`udp`] between hosts
//! whose network loses packets (both carry the frames of [`session`]), and [`mem`] between
//! instances of one process, for tests. [`nodes`] proves which node a peer belongs to. Peers, and
//! all other objects with handles here and above, are in the tables of [`slab`]. The conformance
//! suite in `causeway-testkit` tests the contract against each method.
//!
//! What this crate does not do: match messages to receives, split large messages, or queue packets
//! for a caller that got [`SendError::WouldBlock`]. The engine above does that.

pub mod address;
pub mod agent;
mod blocking;
mod ciphers;
mod clock;
pub mod error;
mod fragments;
mod half_open;
mod identity;
pub mod mem;
pub mod method;
pub mod nodes;
mod packet;
pub mod registry;
mod resolve;
pub mod session;
pub mod shm;
pub mod slab;
mod table;
mod tags;
pub mod tcp;
mod trust;
pub mod udp;
pub mod wake;

pub use address::Address;
pub use error::{Error, PeerError, SendError, TransferError};
pub use fragments::{Cursor, PartEnd, Progress, exported_part};
pub use method::{
    Access, Atomic, Capabilities, Direction, Identity, Limits, Method, NotifyPacket, Operation,
    Outlet, PLACEMENT_HEAD_BYTES, Packet, Peer, PeerReport, Readiness, Registration, Sharing, Sink,
    Spans, Takes, Token, Transfer,
};
pub use nodes::{Certificate, Nodes};
pub use wake::{Park, Parking, WakeFlag};
