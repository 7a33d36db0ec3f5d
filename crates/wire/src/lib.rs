//! Every byte of Causeway that crosses a process or a reboot is defined in this crate.
//!
//! Read [`codec`] first (bounded reading and writing, the one error type), then the format that you
//! need; `docs/formats/` draws them.
//!
//! | module | whose bytes |
//! |---|---|
//! | [`tcp`], [`shm`] | what the two methods put on a connection |
//! | [`datagram`] | how the UDP method carries the former where datagrams are lost |
//! | [`node`] | which node a process belongs to, and its roles: certificates, and the files of nodes and their authority |
//! | [`user`], [`agent`] | the one user that a connection speaks for; messages between processes without keys and the agent of their node |
//! | [`region`], [`atomic`] | descriptors of remote memory; remote atomics |
//! | [`bmi`] | packets of the message layer |
//! | [`fs`] | requests and replies of the file system |
//! | [`store`], [`datafile`], [`home`] | a server's directory: records of the metadata store, datafiles, identities |
//! | [`window`], [`contact`] | MPI processes to each other: windows of memory; how programs that were started separately meet |
//! | [`pmi`], [`run`] | MPI processes and their launcher: PMI-1; the calls that processes are in, and events |
//! | [`watch`] | the status that a process publishes for observers |
//! | [`vi`] | descriptors and frames of virtual interfaces |
//!
//! [`formats`] defines how two builds agree on a format; [`random`] is the one sequence of
//! pseudorandom numbers, which is a part of one format, too.
//!
//! There is no I/O here, no clock and no allocation policy: decoders borrow from or copy out of
//! their input, never allocate more than the input could hold, and return [`codec::Malformed`] for
//! invalid input. Every decoder is fuzzed: `testkit::decoders` lists them.
//!
//! Nor does anything here need an operating system: firmware of network interfaces decodes here
//! too, so this crate is `no_std`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod agent;
pub mod atomic;
pub mod bmi;
pub mod codec;
pub mod contact;
pub mod datafile;
pub mod datagram;
pub mod formats;
pub mod fs;
pub mod home;
pub mod node;
pub mod pmi;
pub mod random;
pub mod region;
pub mod run;
pub mod shm;
pub mod store;
pub mod tcp;
pub mod user;
pub mod vi;
pub mod watch;
pub mod window;
