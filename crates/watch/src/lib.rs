//! The state of a process for observers: the status of its message layer, and its latest log
//! events.
//!
//! Both are in one page, a memory file that the process maps and writes ([`page`]). An observer
//! finds it through `/proc` and maps it for reading ([`observer`]): the process itself takes no
//! part. So a process that hangs, or is stopped, can be observed like any other, a killed process
//! leaves nothing behind, and the kernel decides which users may observe it (its own, and root).
//! The layout is `causeway_wire::watch`.
//!
//! [`log`] implements what Carns's thesis calls gossip (§3.11.3): events by level and part of the
//! program, masks that can be changed while the program runs, from inside or from outside, and a
//! ring of the latest events, which is in the page. [`process`] reads the kernel's information
//! about processes, and [`text`] formats sizes and ages for people.
//!
//! Read [`page`], then [`observer`], then [`log`].
//!
//! This crate does not interpret messages, and starts no threads.
#![forbid(unsafe_code)]

pub mod log;
pub mod observer;
pub mod page;
pub mod process;
pub mod text;
