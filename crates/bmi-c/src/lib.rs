//! The message layer for C: what `include/causeway/bmi.h` declares.
//!
//! The header is the specification: it defines every call, which side owns each pointer and until
//! when. It is written by hand; `tests/` keeps header, version script and this library in step, and
//! runs C programs against the installed library.
//!
//! Read [`handle`] first: how a C handle leads to its instance, and why no panic reaches C. Then [`error`] (codes, texts),
//! [`memory`] (how plain pointers become [`Memory`] without an allocation), and the calls in the header's order:
//! [`life`], [`address`], [`post`], [`test`](mod@test), [`remote`], [`info`].
//!
//! This crate may use `unsafe`: C passes only pointers, and the guarantees about them are only in
//! the header. Whatever can be checked is checked; the rest is in each `SAFETY` comment.
//!
//! What this crate does not do: anything that [`causeway_bmi::Bmi`] does not.
//!
//! [`Memory`]: causeway_sys::memory::Memory

// The calls have as many parameters as the header defines, and none of them is called from Rust.
#![allow(clippy::too_many_arguments)]

pub mod address;
pub mod error;
pub mod handle;
pub mod info;
mod instance;
pub mod life;
mod memory;
pub mod post;
pub mod remote;
pub mod test;
mod text;
