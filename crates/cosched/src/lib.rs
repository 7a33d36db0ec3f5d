//! Coscheduling by communication (Nagar, chapter 6): processes of a parallel job run at the same
//! time on their nodes, because each node schedules by the messages that arrive.
//!
//! A strategy defines two things: how a process waits for a message, and what the node does when
//! one arrives ([`strategy`]). Three state machines implement it, each where the thesis places it:
//!
//! | part | where it runs |
//! |---|---|
//! | [`waiter`] | in the process's messaging library: how long to spin, and what then |
//! | [`card`] | on the network interface: whether an arrival interrupts the host |
//! | [`driver`] | in the kernel's driver, or a daemon: what to boost, lower, block, wake |
//! | [`shares`] | within the driver: a strategy of our own that keeps to fair shares |
//!
//! They have no clock and make no system call. The caller passes the time as nanoseconds of a clock
//! that never goes back, and the state of the node's processes as [`View`]s; it gets
//! [`driver::Action`]s, which it carries out by means of its operating system. The simulator and a
//! daemon on a real system run the same code.
//!
//! What they deliberately do not do: dispatch processes, keep priorities, count processor time, or send messages. No message
//! is exchanged between nodes for scheduling.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod card;
pub mod driver;
pub mod shares;
pub mod strategy;
pub mod view;
pub mod waiter;

pub use card::Card;
pub use driver::{Action, Actions, Driver};
pub use strategy::{Arrival, Pick, Settings, Strategy, Waiting};
pub use view::{Process, View};
pub use waiter::{SpinLimit, Waiter};
