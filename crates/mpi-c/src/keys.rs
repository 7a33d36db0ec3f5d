//! Keys of what programs attach to communicators and windows (MPI 5.0 §7.7.2).

use std::ffi::c_int;

/// The first key of the program's.
pub(crate) const FIRST_KEY: c_int = 0x1000;

/// A key: addresses of the program's functions, or the constants that stand for predefined ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// Called for each attribute of a communicator that is duplicated.
    pub(crate) copy: usize,
    /// Called for each attribute that is deleted.
    pub(crate) delete: usize,
    /// Both functions get it.
    pub(crate) extra: usize,
}

/// What the values of a window's predefined attributes point to.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) size: i64,
    pub(crate) unit: c_int,
    pub(crate) flavor: c_int,
    pub(crate) model: c_int,
}
