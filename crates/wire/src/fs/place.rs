//! A place in the name space.

use alloc::vec::Vec;

use super::objects::ObjectId;

/// A path to walk from a directory. An empty path names the directory itself; a leading slash
/// starts at the root; `.` and `..` are understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Where to start.
    pub base: ObjectId,
    /// Bytes without NUL.
    pub path: Vec<u8>,
}

impl From<&[u8]> for Place {
    fn from(path: &[u8]) -> Self {
        Self::from((ObjectId::ROOT, path))
    }
}

impl From<Vec<u8>> for Place {
    fn from(path: Vec<u8>) -> Self {
        Self {
            base: ObjectId::ROOT,
            path,
        }
    }
}

impl From<&Vec<u8>> for Place {
    fn from(path: &Vec<u8>) -> Self {
        Self::from(path.as_slice())
    }
}

impl<const N: usize> From<&[u8; N]> for Place {
    fn from(path: &[u8; N]) -> Self {
        Self::from(path.as_slice())
    }
}

impl From<(ObjectId, &[u8])> for Place {
    fn from((base, path): (ObjectId, &[u8])) -> Self {
        Self {
            base,
            path: path.to_vec(),
        }
    }
}
