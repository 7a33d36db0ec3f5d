//! Copying between this process's memory and a peer's: by one system call for many pieces (cross-memory
//! attach), or by the processor where the peer's memory is mapped here.

use std::ops::Range;

use causeway_sys::attach::{self, LocalSpans, MAX_SPANS, RemoteSpans};
use causeway_sys::memory::Memory;
use rustix::io::Errno;

use super::pair::refusal;
use crate::error::{PeerError, TransferError};
use crate::method::Direction;

/// From this size on, transfers of mapped memory bypass the caches: both sides' halves of source
/// and target do not fit into the private caches of two processors (2 MiB each on current servers).
const STREAMED_BYTES: u64 = 4 << 20;

/// Why bytes were not copied.
#[derive(Debug)]
pub(super) enum PieceError {
    /// The transfer fails with this error.
    Transfer(TransferError),
    /// Cross-memory attach does not work with this peer (any more).
    Refused(String),
}

/// One contiguous piece to copy.
pub(super) struct Piece<'a> {
    /// The local memory, and the offset in it.
    pub(super) own: &'a Memory,
    pub(super) range: Range<usize>,
    /// The address in the peer's address space.
    pub(super) base: u64,
}

/// Copies a part of a transfer of `whole` bytes between local and mapped memory.
pub(super) fn copy_mapped(to: &Memory, from: &Memory, whole: u64) {
    if whole >= STREAMED_BYTES {
        to.stream_from(from);
    } else {
        to.copy_from(from);
    }
}

/// Copies all pieces, at most [`MAX_SPANS`], with as few system calls as possible. Returns those
/// that failed, by index.
pub(super) fn attach_all(
    pid: i32,
    direction: Direction,
    pieces: &[Piece<'_>],
) -> Result<Vec<(usize, TransferError)>, PieceError> {
    let mut failures = Vec::new();
    // The first piece that is not complete, and how many bytes of it are done.
    let (mut first, mut done) = (0, 0);
    while let Some(rest) = pieces.get(first..).filter(|rest| !rest.is_empty()) {
        let mut local = LocalSpans::new();
        let mut remote = RemoteSpans::new();
        for (at, piece) in rest.iter().take(MAX_SPANS).enumerate() {
            let skip = if at == 0 { done } else { 0 };
            local.push(piece.own, piece.range.start + skip..piece.range.end);
            remote.push(
                piece.base.wrapping_add(skip as u64),
                piece.range.len() - skip,
            );
        }
        match copy(pid, direction, &local, &remote) {
            Ok(bytes) => {
                done += bytes as usize;
                while let Some(piece) = pieces.get(first)
                    && done >= piece.range.len()
                {
                    done -= piece.range.len();
                    first += 1;
                }
            }
            Err(PieceError::Transfer(error)) => {
                failures.push((first, error));
                first += 1;
                done = 0;
            }
            Err(refused) => return Err(refused),
        }
    }
    Ok(failures)
}

/// Copies as much as one system call can; at least one byte, or it returns an error.
pub(super) fn copy(
    pid: i32,
    direction: Direction,
    local: &LocalSpans<'_>,
    remote: &RemoteSpans,
) -> Result<u64, PieceError> {
    let copied = match direction {
        Direction::Get => attach::read(pid, local, remote),
        Direction::Put => attach::write(pid, local, remote),
    };
    match copied {
        Ok(0) => Err(PieceError::Transfer(TransferError::Copy(
            "nothing was copied".to_owned(),
        ))),
        Ok(bytes) => Ok(bytes as u64),
        Err(error) => Err(match Errno::from_io_error(&error) {
            Some(Errno::SRCH) => PieceError::Transfer(TransferError::Peer(PeerError::Broken(
                "its process ended".to_owned(),
            ))),
            Some(Errno::PERM | Errno::NOSYS) => PieceError::Refused(refusal(&error)),
            _ => PieceError::Transfer(TransferError::Copy(error.to_string())),
        }),
    }
}
