//! Datafiles that clients on a server's host read themselves.

/// A descriptor of the server's process, and the file that it is of. The number may mean another file by the time that the client uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDescriptor {
    /// Its number in the server's process.
    pub number: u32,
    /// The file's device, as the kernel of the host numbers it.
    pub device: u64,
    /// The file's number on that device.
    pub inode: u64,
}
