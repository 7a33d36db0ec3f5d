//! The parallel file system for C: what `include/causeway/fs.h` declares.
//!
//! The header is the specification: it says what every call does, which side owns each pointer and until when.
//! It is written by hand; `tests/` keeps header, version script and this library in step, and runs C
//! programs against the installed library.
//!
//! Read [`handle`] first: how a C handle leads to its instance, and why no panic reaches C. Then [`error`] (codes, texts),
//! `buffers` (plain pointers), and the calls in the header's order: [`life`], [`file`](mod@file), [`locks`], [`post`] (with the threads that
//! carry posted operations out in `posted`), [`names`], [`xattrs`], [`directory`].
//!
//! This crate may use `unsafe`: C passes pointers, and what it promises about them is in
//! the header only. What can be checked is checked; each `SAFETY` comment names the rest.
//!
//! What this crate does not do: anything beyond [`causeway_fs::open_file`], [`causeway_fs::listing`] and
//! [`causeway_fs::client::Client`].

// The calls have as many parameters as the header says, and none of them is called from Rust.
#![allow(clippy::too_many_arguments)]

mod buffers;
pub mod directory;
pub mod error;
pub mod file;
pub mod handle;
mod instance;
pub mod life;
pub mod locks;
pub mod names;
pub mod post;
mod posted;
mod text;
pub mod xattrs;
