//! Storing or reading one piece of a read or write: by the server's loop, or by a thread of the pool.

use crate::data::{Datafile, Fault, Piece, ReadOptions, Scratch};

/// The result of storing or reading a piece.
#[derive(Debug)]
pub(super) struct PieceResult {
    /// Bytes that were written, or found before the datafile's end.
    pub(super) bytes: u64,
    /// The datafile's size after a write, 0 after a read.
    pub(super) size: u64,
    /// Sums of the blocks that the client verifies.
    pub(super) sums: Vec<u32>,
}

impl PieceResult {
    /// The result of writing a number of bytes to a datafile that has this size now.
    pub(super) fn written(bytes: u64, size: u64) -> Self {
        Self {
            bytes,
            size,
            sums: Vec::new(),
        }
    }
}

/// Reads a piece, and the sums of its blocks that the client wants.
pub(super) fn read_piece(
    file: &Datafile,
    piece: &Piece,
    scratch: &mut Scratch,
    options: &ReadOptions,
) -> Result<PieceResult, Fault> {
    let mut sums = Vec::new();
    let bytes = file.read(piece, scratch, options, &mut sums)?;
    Ok(PieceResult {
        bytes,
        size: 0,
        sums,
    })
}
