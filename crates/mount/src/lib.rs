//! The parallel file system as a directory, for every program: a FUSE file system over the client library.
//!
//! The kernel turns system calls below the mount point into requests, several threads take them, and each becomes
//! calls of [`causeway_fs::client`]. An inode's number is the object's number, which is never used again, so that no
//! table of inodes is needed. The kernel checks permissions (`default_permissions`) by attributes that it
//! caches under leases; the servers check those of names again, for the user who calls.
//!
//! Reading order: [`options`] (what `-o` takes) and [`session`] (mounting, serving, unmounting); `requests` (those of
//! the kernel) with `replies` (what tells it of attributes), `operations` (what they mean) with `allocation` (holes), `stored` (how much of files with holes is stored) and `xattrs` (extended attributes and access control lists), `clients` (which client carries them out, for whom, and for how long), `caches` (names and attributes under leases) with `inodes` (which objects the kernel has), `kernel_cache` (what it has to forget) with `notices` (how it is told), `contents` (what the kernel has read of files) and `file_end` (where it may take zeros for content),
//! `open_files` (the open files of this mount) with `unsynced` (what was closed, or given attributes, before it was synced), `buffers` (memory that content passes through), `read_ahead`, `listing` (directories that are being read), `listed` (with what their names stand for) and `ahead` (which of their names are looked up before the kernel asks), `locks` with `lock_flags` (whether `flock` asks for them), `lock_handles` (what ends with an open file) and `signals` (of programs that wait), `attributes` (attributes and error numbers as the kernel has them).
//!
//! `docs/mount.md` describes what programs can rely on. The mount caches no writes: all written
//! data is at the servers when `write` returns.
#![forbid(unsafe_code)]

mod ahead;
mod allocation;
mod attributes;
mod buffers;
mod caches;
mod clients;
mod contents;
mod file_end;
mod inodes;
mod kernel_cache;
mod listed;
mod listing;
mod lock_flags;
mod lock_handles;
mod locks;
mod notices;
mod open_files;
mod operations;
pub mod options;
mod read_ahead;
mod replies;
mod requests;
pub mod session;
mod signals;
mod stored;
mod unsynced;
mod xattrs;
