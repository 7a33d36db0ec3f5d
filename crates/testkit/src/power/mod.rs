//! Loss of power for whatever keeps files: a file system in memory that remembers what was synced, and
//! returns what a disk may hold when the power fails.
//!
//! [`disk`] is the model: every write, change of size, and change of names since the last sync of the file or
//! directory concerned, and from these the states that may be left ([`disk::Disk::crash`]). [`mounted`] makes a
//! file system of it that ordinary programs use, through FUSE.
//!
//! What a crash leaves follows POSIX, not what one file system happens to do beyond it:
//! - Of data that were written since the last `fsync` or `fdatasync` of the file, each sector of 512 bytes may
//!   hold what it held then or anything that was written to it since, whatever became of other sectors.
//! - A sync that fails ([`Mounted::fail_syncs`]) writes none of the file's data, and no later one does either, as
//!   kernels hold it, unless they are written again; they read as before until the power fails.
//! - The file's size is one of those that it has had since; what no sector was stored for reads as zeros.
//!   Extended attributes likewise, since the last `fsync`.
//! - A name that was made, removed or renamed is durable once its *directory* was synced. Until then any part
//!   of what happened to the names may be lost, but of one name in the order in which it happened. A rename
//!   happens to both of its names or to neither.

pub mod disk;
pub mod mounted;

pub use disk::Disk;
pub use mounted::Mounted;
