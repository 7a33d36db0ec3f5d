//! Types that all parts of the store use.

use causeway_wire::fs::Generation;

/// The server to which a store's datafiles belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The file system's identity.
    pub file_system: u128,
    /// Generation of the server's directory.
    pub generation: Generation,
}

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The owner of its datafiles.
    pub owner: Owner,
    /// Truncations and removals are on the device before they return.
    pub synced: bool,
    /// New datafiles have checksums.
    pub checksums: bool,
    /// The host's present boot.
    pub boot: u128,
}

/// Whether a read may wait for the storage device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// It may.
    #[default]
    Allowed,
    /// It fails with [`std::io::ErrorKind::WouldBlock`] instead.
    Refused,
}
