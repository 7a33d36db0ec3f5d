//! Loss of power for programs that keep files: a file system in memory that records syncs, and
//! returns possible contents of a disk after the power fails.
//!
//! [`disk`] is the model: every write, change of size, and change of names since the last sync of the file or
//! directory concerned, and from these the states that may be left ([`disk::Disk::crash`]). [`mounted`] makes a
//! file system of it that ordinary programs use, through FUSE.
//!
//! A crash leaves what POSIX guarantees, not what one file system happens to do beyond it:
//! - Of data that were written since the last `fsync` or `fdatasync` of the file, each sector of 512 bytes may
//!   have its content of then or any content written to it since, independently of other sectors.
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
