//! Every byte of Causeway that crosses a process or a reboot is defined in this crate.
//!
//! Read [`codec`] first (bounded reading and writing, the one error type), then the format that
//! you came for: [`region`] (descriptors of remote memory), [`bmi`] (headers of the message
//! layer), [`tcp`] and [`shm`] (what the two methods put on a connection), [`datagram`] (how the UDP
//! method carries the former where datagrams are lost), [`fs`] (requests and replies of the file
//! system), [`store`] (records of the metadata store), [`datafile`] (what an I/O server
//! keeps of a file), [`home`] (what a server's directory says of itself), [`pmi`] (what processes of a parallel program and their launcher say),
//! [`contact`] (what they tell each other to meet processes that were started apart), [`run`] (what they show their launcher), [`window`] (what they tell each other of windows of memory), [`watch`] (what a process shows of itself to
//! observers) and [`vi`] (descriptors and frames of virtual interfaces). `docs/formats/`
//! draws them. [`formats`] says how two builds agree on a format. [`random`] is the sequence of numbers that one of them is made with.
//!
//! There is no I/O here, no clock and no allocation policy: decoders borrow from or copy out of
//! the bytes that they are given, never allocate more than the input could hold, and return
//! [`codec::Malformed`] for anything else. Every decoder is fuzzed: `testkit::decoders` lists them.
//!
//! Nor is there an operating system: network interfaces decode here too, so this crate is `no_std`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod atomic;
pub mod bmi;
pub mod codec;
pub mod contact;
pub mod datafile;
pub mod datagram;
pub mod formats;
pub mod fs;
pub mod home;
pub mod pmi;
pub mod random;
pub mod region;
pub mod run;
pub mod shm;
pub mod store;
pub mod tcp;
pub mod vi;
pub mod watch;
pub mod window;
