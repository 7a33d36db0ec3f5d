//! The operating system as Causeway uses it: memory that other processes can reach, sockets that
//! carry descriptors, waking and sleeping, pinning, positioned file I/O.
//!
//! Read [`memory`] first: everything above posts operations on [`memory::Memory`]. Then, in the order in which a pair of processes meets: [`socket`] (Unix sockets with descriptors and peer credentials), [`memfd`] and
//! [`mapping`] (memory that both see), [`epoll`] (sleeping on all of them), [`futex`] (sleeping on a word of that memory), [`membarrier`] (fences that only the slow side pays for) and [`attach`] (copying from and to
//! another process's memory). [`net`] and [`datagram`] are the sockets between hosts. By [`lock`], [`followers`] and [`critical_section`] the threads of a program share one instance; by [`progress_thread`] one thread makes progress for
//! the others; by [`sleepers`] processes that share memory wake each other. [`blocks`], [`combine`] and [`extended`] are the kernels of datatypes and
//! reductions; [`lent`] has buffers that callers in another language lend for a call; [`nowait`] reads files without waiting for a device; [`patience`]
//! and [`runnable`] help to decide how long to wait. A forked child must not touch what its parent shares with other processes: code that uses such resources first checks, by [`fork`], that it
//! runs in the process that made them. The modules [`aliasing`], [`wall_clock`], [`choice`], [`copy_costs`], [`fuse_device`], [`inherited`], [`joining`], [`limits`], [`pin`], [`pinned`], [`pmix`], [`prefetch`], [`process`], [`random`], [`secret`],
//! [`shared`], [`small`], [`stream`], [`thread`], [`trusted_file`], [`waits`] and [`word`] can be read on their own.
//!
//! This crate knows no protocol. It is one of six that may use `unsafe`, with
//! `transport`, `bmi-c`, `mpi-c`, `fs-c` and `python`; each block says which invariant holds and who upholds it.

pub mod aliasing;
pub mod attach;
pub mod blocks;
pub mod choice;
pub mod combine;
pub mod copy_costs;
mod crc32c;
pub mod critical_section;
pub mod datagram;
mod diag;
pub mod epoll;
pub mod extended;
pub mod followers;
pub mod fork;
pub mod fuse_device;
pub mod futex;
pub mod inherited;
pub mod interfaces;
pub mod joining;
pub mod lent;
pub mod limits;
pub mod lock;
pub mod mapping;
pub mod membarrier;
pub mod memfd;
pub mod memory;
pub mod net;
pub mod nowait;
mod pages;
pub mod patience;
pub mod pin;
pub mod pinned;
pub mod pmix;
pub mod prefetch;
pub mod process;
pub mod progress_thread;
pub mod random;
pub mod runnable;
pub mod secret;
pub mod shared;
pub mod sleepers;
pub mod small;
pub mod socket;
pub mod stream;
pub mod thread;
mod timing;
pub mod trusted_file;
pub mod waits;
pub mod wall_clock;
pub mod word;
