//! Loss of power for programs that keep files: a file system in memory that records syncs, and
//! returns possible contents of a disk after the power fails.
//!
//! [`disk`] is the model: every write, change of size, and change of names since the last sync of the file or
//! directory concerned, and from these the states that may be left ([`disk::Disk::crash`]). [`mounted`] makes a
//! file system of it that ordinary programs use, through FUSE.
//!
//! A crash leaves what POSIX guarantees, not what one file system happens to do beyond it:
//! - Of data that were written since the last `fsync` or `fdatasync` of the file, each sector of 512 bytes may
//!   have its content at the time of that sync or any content written to it since, independently of other
//!   sectors.
//! - A sync that fails ([`Mounted::fail_syncs`]) writes none of the file's data. As in kernels, no later sync
//!   does either, unless the data are written again; until the power fails, they are read as before.
//! - The file's size is one of those that it has had since; a part for which no sector was stored reads
//!   as zeros. Extended attributes likewise, since the last `fsync`.
//! - A name that was made, removed or renamed is durable once its *directory* was synced. Until then any of
//!   the changes of names may be lost, but for each name only its latest ones. A rename changes both of its
//!   names or neither.

pub mod disk;
pub mod mounted;

pub use disk::Disk;
pub use mounted::Mounted;
