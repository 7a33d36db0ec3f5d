//! Holes: found by system calls in local files and by requests in files of the file system, and by
//! reading small ones of the latter.

use std::fs::File as LocalFile;
use std::ops::Range;

use causeway_bmi::Memory;
use causeway_command::failure::Outcome;
use causeway_command::remote::reading;
use causeway_fs::client::{Client, File};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

/// Holes of files consist of blocks of this size.
const BLOCK_BYTES: usize = 4096;
/// Bytes at the front of a block that are compared first: few blocks with data begin with that many zeros.
const PROBE_BYTES: usize = 64;

/// The range of the next stored bytes at or after `from` and before `to`. `None` if the rest is a
/// hole.
pub(crate) fn stored_behind(
    file: &LocalFile,
    from: u64,
    to: u64,
) -> std::io::Result<Option<(u64, u64)>> {
    if from >= to {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // On storage without holes everything is stored.
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY) => return Ok(Some((from, to))),
        Err(error) => return Err(error.into()),
    };
    if start >= to {
        return Ok(None);
    }
    match rustix::fs::seek(file, SeekFrom::Hole(start)) {
        Ok(end) => Ok(Some((start, end.clamp(start, to)))),
        // The file has become shorter meanwhile.
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The parts of a piece of a file, beginning at a multiple of the block size, that are not zeros.
pub(crate) fn runs_of_data(piece: &Memory) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut block = [0_u8; BLOCK_BYTES];
    let mut start = 0;
    while start < piece.len() {
        let end = (start + BLOCK_BYTES).min(piece.len());
        if !is_zero(piece, start..end, &mut block) {
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        start = end;
    }
    runs
}

/// Whether a piece of a file consists of zeros.
pub(crate) fn is_hole(piece: &Memory) -> bool {
    let mut block = [0_u8; BLOCK_BYTES];
    let blocks = (0..piece.len()).step_by(BLOCK_BYTES);
    let mut ranges = blocks.map(|start| start..(start + BLOCK_BYTES).min(piece.len()));
    ranges.all(|range| is_zero(piece, range, &mut block))
}

/// Where the next data of a file may begin, from `offset` on and `to` at most: after the hole at
/// `offset`, if there is one. The file has this path.
pub(crate) fn behind_hole(
    client: &mut Client,
    (file, path): (&mut File, &[u8]),
    offset: u64,
    to: u64,
) -> Outcome<u64> {
    let next = client
        .next_data(file, offset)
        .map_err(|error| reading(path, error))?;
    let next = next.map_or(file.node.attributes.size, |data| data.offset);
    Ok(next.min(to).max(offset))
}

fn is_zero(piece: &Memory, range: Range<usize>, block: &mut [u8; BLOCK_BYTES]) -> bool {
    let mut zero = |range: Range<usize>| {
        let Some(bytes) = block.get_mut(..range.len()) else {
            return false;
        };
        piece.read_at(range.start, bytes);
        bytes.iter().all(|byte| *byte == 0)
    };
    let probe = range.start..range.end.min(range.start + PROBE_BYTES);
    zero(probe) && zero(range)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn blocks_of_zeros_are_found() {
        let mut bytes = vec![0; 5 * BLOCK_BYTES + 10];
        bytes[BLOCK_BYTES + PROBE_BYTES] = 1;
        bytes[2 * BLOCK_BYTES] = 1;
        bytes[5 * BLOCK_BYTES + 9] = 1;
        let runs = runs_of_data(&Memory::from_vec(bytes.clone()));
        assert_eq!(
            runs,
            [BLOCK_BYTES..3 * BLOCK_BYTES, 5 * BLOCK_BYTES..bytes.len()]
        );
        assert!(runs_of_data(&Memory::zeroed(3 * BLOCK_BYTES)).is_empty());
        assert!(is_hole(&Memory::zeroed(3 * BLOCK_BYTES + 7)));
        assert!(!is_hole(&Memory::from_vec(bytes)));
    }

    #[test]
    fn holes_of_local_files_are_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(10 << 20).unwrap();
        assert_eq!(stored_behind(&file, 0, u64::MAX).unwrap(), None);
        file.write_all_at(b"x", 5 << 20).unwrap();
        let (start, end) = stored_behind(&file, 0, u64::MAX).unwrap().unwrap();
        assert!(start <= 5 << 20 && end > 5 << 20 && end < 6 << 20);
        assert_eq!(stored_behind(&file, 0, 1 << 20).unwrap(), None);
        assert_eq!(stored_behind(&file, end, u64::MAX).unwrap(), None);
    }
}
