//! Nodes that run the card's program in virtual time.
//!
//! A [`World`] is a number of nodes of one [`Profile`](crate::profile::Profile) and one design of card
//! ([`Settings`](causeway_firmware::Settings)), a network between them, and the processes on their
//! hosts. Everything is set up first ([`Plan`]), then runs until no event is left or until a given time.
//!
//! | part | task |
//! |---|---|
//! | [`plan`] | lists processes, virtual interfaces and connections |
//! | `card_full` | refuses what a card's memory has no room for |
//! | [`card`] | runs the program's turns, charges its steps, feeds the DMA engines |
//! | [`host`] | lets processes post, ring, poll and sleep |
//! | [`record`] | notes when each message reached each stage, and how much everything was used |
//! | `stops` | nodes that stand still for some time |
//! | `transfer` | makes host transfers of the program's requests |
//! | `events` | the events, and their queue |
//! | [`world`] | the loop over events, of all nodes or of one after the other, and frames between nodes |
//!
//! Polls of an idle processor are counted, not simulated one by one: when something happens, the
//! time at which the loop would have found it is computed.

pub mod card;
mod card_full;
mod events;
pub mod host;
pub mod plan;
pub mod record;
mod stops;
mod transfer;
mod vi_plan;
pub mod world;

pub use card_full::CardFull;
pub use host::{Action, Await, Completed, Process};
pub use plan::{BuffersPerInterface, BuildError, Plan};
pub use record::{Mark, Record, Stage};
pub use vi_plan::{Queues, ViPlan};
pub use world::{Ended, World};
