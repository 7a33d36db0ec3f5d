//! The part that all messengers share: conversations with peers over whatever methods reach them.
//!
//! A messenger consists of a [`matcher`](matcher::Matcher), which decides which receive a message
//! belongs to, and a programming interface; BMI and MPI are two. Below it, an [`Endpoint`] is the
//! same for all: it posts, tests, waits, connects, and bounds the memory of messages that arrive
//! before their receives.
//!
//! Read [`types`] first, then [`Endpoint`]. Inside:
//!
//! - `conversation` is the protocol with one peer, without I/O and without a clock: greeting,
//!   credits (`credit`), eager messages, rendezvous, messages in [`Pieces`], transfers of remote
//!   memory (`transfers`), cancelling. `handshake` has what an instance states in its greeting, and
//!   the states of a connection's greeting.
//! - [`conversations`] is the table of all conversations, with what they share (`shared`:
//!   operations, matcher, early messages).
//! - `endpoint` drives that table with methods; `waiting` decides whether a caller spins, yields or sleeps; `clock` is the one
//!   place that reads the time.
//! - `operation` is one send, receive or transfer and its states; `fragments` is its memory.
//!   Operations and peers are in [`slab`](causeway_transport::slab) tables, and [`lists`] are
//!   threaded through their entries. `arrivals` holds unexpected messages, `fetches`, `greetings` and `shrinking` what
//!   several peers compete for or have to do in time (`patience`), `sends` where a peer's announced messages are, `offers` the accounts of offered receives,
//!   `direct` the buffer of a caller that waits inside the engine for one message, `pieces` the memory of messages with gaps.
//!   `registrations` caches registrations for methods that need them, and `traffic` has the
//!   counters.
//!
//! The packets are defined in `causeway_wire::bmi`.
//!
//! What this crate does not do: order messages of different tags, interpret their contents, or
//! retry what failed.
#![forbid(unsafe_code)]

mod arrivals;
mod clock;
mod conversation;
pub mod conversations;
mod credit;
mod direct;
mod endpoint;
mod fetches;
mod fragments;
mod greetings;
mod handshake;
pub mod lists;
pub mod matcher;
mod offers;
mod operation;
mod patience;
mod pieces;
mod registrations;
mod sends;
mod shared;
mod shrinking;
mod traffic;
mod transfers;
pub mod types;
mod waiting;

pub use conversation::{LinkLimits, Transmit};
pub use endpoint::{Endpoint, Parked, Waker};
pub use handshake::CallerDecision;
pub use pieces::Pieces;
pub use registrations::MAX_REGISTRATIONS;
pub use shared::Tuning;
pub use waiting::{Awaited, PROGRESS_THREAD_DELAY, SharedMemoryStep, SharedMemoryWait};

pub use causeway_sys::memory::Memory;
pub use causeway_transport::{Access, Cursor, Direction, Identity, PeerError, PeerReport, Takes};
pub use causeway_watch::log;
pub use causeway_wire::region::RegionDescriptor;
