//! Files (MPI 5.0 chapter 14).
//!
//! A file's bytes lie in a [`storage::Storage`]: a file of the operating system ([`posix`]), or of a [`storage::FileSystem`] that is added to this
//! crate. Each process sees a part of them through its [`view`], as a stream of data; [`mod@file`] has what is kept of an open file, and
//! [`mod@pointer`] the pointer that processes share.
//!
//! Operations have several steps, between which a process waits for others. They are written one step after the other,
//! and ask their [caller](crate::caller) to wait: [`opening`] and closing, [`setting`]s that all processes make together,
//! [`access`] by one process ([`transfer`]) or in order, and by all processes together in few large pieces ([`together`]).
//!
//! Access by one process is done when its call returns, whether that is a nonblocking one or not: files of the operating system have no
//! other way that is faster. So nonblocking collective access is access by each process alone, which does not wait for
//! the others.

pub mod access;
mod agreement;
pub mod file;
pub mod opening;
pub mod pointer;
pub mod posix;
pub mod setting;
pub mod storage;
mod stream;
pub mod systems;
pub mod together;
pub mod transfer;
pub mod view;
