//! A request's regions and remote memory: checked, and divided into pieces.

use std::vec::IntoIter;

use causeway_bmi::{Memory, RegionDescriptor};
use causeway_wire::fs::{Errno, Failure, Region, Regions};

use crate::cutter::Cutter;
use crate::distribution::{MAX_FILE_BYTES, join};
use crate::error::failure;

/// Most regions of one piece: bounds the memory into which a short description of very many tiny regions unfolds.
const PIECE_REGIONS: usize = 8192;
/// Regions for which memory is reserved at once.
const USUAL_REGIONS: usize = 1024;

/// Regions that are fetched at once from a list in the client's memory, 16 bytes each.
pub(super) const LIST_CHUNK: u64 = 16 << 10;
/// Bytes of an encoded region in a list.
pub(super) const REGION_BYTES: u64 = 16;

fn invalid(message: impl Into<String>) -> Failure {
    failure(Errno::EINVAL, message)
}

fn check(region: &Region) -> Result<(), Failure> {
    match region.offset.checked_add(region.len) {
        Some(end) if end <= MAX_FILE_BYTES => Ok(()),
        _ => Err(failure(
            Errno::EFBIG,
            format!(
                "a region of {} bytes at {} reaches behind 2^63 - 1",
                region.len, region.offset
            ),
        )),
    }
}

/// The regions of one request, in order.
#[derive(Debug)]
pub(super) struct RegionStream {
    source: Source,
    /// The rest of the region that the last piece ended in.
    begun: Region,
}

#[derive(Debug)]
enum Source {
    List(IntoIter<Region>),
    Strided {
        next: u64,
        len: u64,
        stride: u64,
        left: u64,
    },
    There {
        list: RegionDescriptor,
        /// Number of regions fetched so far, and of all.
        fetched: u64,
        count: u64,
        chunk: IntoIter<Region>,
    },
}

impl RegionStream {
    /// Checks as much as possible before a list is fetched. Returns the stream and its number of bytes,
    /// if that is known.
    pub(super) fn new(regions: Regions) -> Result<(Self, Option<u64>), Failure> {
        let (source, total) = match regions {
            Regions::Here(list) => {
                let mut total: u64 = 0;
                for region in &list {
                    check(region)?;
                    total = total
                        .checked_add(region.len)
                        .ok_or_else(|| invalid("the regions have more than 2^64 bytes"))?;
                }
                (Source::List(list.into_iter()), Some(total))
            }
            Regions::Strided {
                offset,
                len,
                stride,
                count,
            } => {
                let total = len
                    .checked_mul(count)
                    .ok_or_else(|| invalid("the regions have more than 2^64 bytes"))?;
                let last = count.saturating_sub(1);
                let end = last
                    .checked_mul(stride)
                    .and_then(|distance| distance.checked_add(offset));
                check(&Region {
                    offset: end.unwrap_or(u64::MAX),
                    len,
                })?;
                let left = if len == 0 { 0 } else { count };
                let source = Source::Strided {
                    next: offset,
                    len,
                    stride,
                    left,
                };
                (source, Some(total))
            }
            Regions::There { count, list } => {
                if count.checked_mul(REGION_BYTES) != Some(list.len) {
                    return Err(invalid(format!(
                        "a list of {count} regions in {} bytes of memory",
                        list.len
                    )));
                }
                let source = Source::There {
                    list,
                    fetched: 0,
                    count,
                    chunk: Vec::new().into_iter(),
                };
                (source, None)
            }
        };
        let begun = Region { offset: 0, len: 0 };
        Ok((Self { source, begun }, total))
    }

    fn next_region(&mut self) -> Option<Region> {
        match &mut self.source {
            Source::List(list) => list.next(),
            Source::Strided {
                next,
                len,
                stride,
                left,
            } => {
                *left = left.checked_sub(1)?;
                let region = Region {
                    offset: *next,
                    len: *len,
                };
                // This can wrap only behind the last region.
                *next = next.wrapping_add(*stride);
                Some(region)
            }
            Source::There { chunk, .. } => chunk.next(),
        }
    }

    /// The number of remaining regions, not counting parts of a list that must be fetched first.
    fn left_at_least(&self) -> usize {
        match &self.source {
            Source::List(list) => list.len(),
            Source::Strided { left, .. } => usize::try_from(*left).unwrap_or(usize::MAX),
            Source::There { chunk, .. } => chunk.len(),
        }
    }

    /// The next regions, adjacent ones joined, of at most `most` bytes and [`PIECE_REGIONS`] regions;
    /// fewer bytes if the next part of a list must be fetched first, or at the end.
    pub(super) fn take(&mut self, most: u64) -> (Vec<Region>, u64) {
        let mut taken = Vec::with_capacity(self.left_at_least().clamp(1, USUAL_REGIONS));
        let mut bytes = 0;
        while bytes < most && taken.len() < PIECE_REGIONS {
            if self.begun.len == 0 {
                match self.next_region() {
                    Some(region) => self.begun = region,
                    None => break,
                }
                continue;
            }
            let len = self.begun.len.min(most - bytes);
            join(
                &mut taken,
                Region {
                    offset: self.begun.offset,
                    len,
                },
            );
            self.begun.offset += len;
            self.begun.len -= len;
            bytes += len;
        }
        (taken, bytes)
    }

    /// The memory that holds the next part of the list, if there is more to fetch.
    pub(super) fn list_wanted(&self) -> Option<RegionDescriptor> {
        let Source::There {
            list,
            fetched,
            count,
            ..
        } = &self.source
        else {
            return None;
        };
        let regions = (count - fetched).min(LIST_CHUNK);
        (regions > 0).then(|| list.part(fetched * REGION_BYTES, regions * REGION_BYTES))
    }

    /// Takes the part of the list that has been fetched. Returns its bytes.
    pub(super) fn list_fetched(&mut self, memory: &Memory) -> Result<u64, Failure> {
        let Source::There { fetched, chunk, .. } = &mut self.source else {
            return Ok(0);
        };
        let bytes = memory.to_vec();
        let mut regions = Vec::with_capacity(bytes.len() / REGION_BYTES as usize);
        let mut total: u64 = 0;
        for encoded in bytes.chunks_exact(REGION_BYTES as usize) {
            let (offset, len) = encoded.split_at(8);
            let field = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            let region = Region {
                offset: field(offset),
                len: field(len),
            };
            check(&region)?;
            total = total.saturating_add(region.len);
            regions.push(region);
        }
        *fetched += regions.len() as u64;
        *chunk = regions.into_iter();
        Ok(total)
    }
}

/// Memory of a client, named by descriptors.
pub(super) type RemoteStream = Cutter<IntoIter<RegionDescriptor>>;
/// Local memory.
pub(super) type LocalStream = Cutter<IntoIter<Memory>>;

/// The number of bytes that descriptors name.
pub(super) fn remote_bytes(memory: &[RegionDescriptor]) -> Result<u64, Failure> {
    memory
        .iter()
        .try_fold(0u64, |total, part| total.checked_add(part.len))
        .ok_or_else(|| invalid("the memory has more than 2^64 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(offset: u64, len: u64) -> Region {
        Region { offset, len }
    }

    #[test]
    fn nonsense_is_refused() {
        let bad = [
            Regions::Here(vec![region(u64::MAX, 1)]),
            Regions::Here(vec![region(1 << 63, 0)]),
            Regions::Here(vec![region(0, MAX_FILE_BYTES); 3]),
            Regions::Strided {
                offset: 0,
                len: 2,
                stride: u64::MAX,
                count: u64::MAX,
            },
            Regions::Strided {
                offset: MAX_FILE_BYTES,
                len: 1,
                stride: 0,
                count: 1,
            },
            Regions::There {
                count: 1 << 60,
                list: descriptor(16),
            },
        ];
        for regions in bad {
            assert!(RegionStream::new(regions.clone()).is_err(), "{regions:?}");
        }
        let largest = Regions::Here(vec![region(MAX_FILE_BYTES - 1, 1)]);
        assert!(RegionStream::new(largest).is_ok());
    }

    fn descriptor(len: u64) -> RegionDescriptor {
        RegionDescriptor {
            key: 1,
            base: 0,
            len,
            object: None,
        }
    }

    #[test]
    fn streams_give_all_bytes_in_order() {
        let list = vec![region(5, 3), region(8, 2), region(100, 0), region(50, 7)];
        let (mut stream, total) = RegionStream::new(Regions::Here(list)).unwrap();
        assert_eq!(total, Some(12));
        assert_eq!(stream.take(4), (vec![region(5, 4)], 4));
        assert_eq!(stream.take(100), (vec![region(9, 1), region(50, 7)], 8));
        assert_eq!(stream.take(1), (vec![], 0));

        let strided = Regions::Strided {
            offset: 10,
            len: 4,
            stride: 6,
            count: 3,
        };
        let (mut stream, total) = RegionStream::new(strided).unwrap();
        assert_eq!(total, Some(12));
        assert_eq!(stream.take(5), (vec![region(10, 4), region(16, 1)], 5));
        assert_eq!(stream.take(50), (vec![region(17, 3), region(22, 4)], 7));

        let mut remote =
            RemoteStream::new(vec![descriptor(3), descriptor(0), descriptor(5)].into_iter());
        let lens = |parts: Vec<RegionDescriptor>| parts.iter().map(|p| p.len).collect::<Vec<_>>();
        assert_eq!(lens(remote.take(4)), [3, 1]);
        assert_eq!(lens(remote.take(9)), [4]);
    }

    #[test]
    fn lists_in_memory_come_in_parts() {
        let count = LIST_CHUNK + 2;
        let there = Regions::There {
            count,
            list: descriptor(count * REGION_BYTES),
        };
        let (mut stream, total) = RegionStream::new(there).unwrap();
        assert_eq!(total, None);
        assert_eq!(stream.take(1), (vec![], 0));
        let encode = |from: u64, count: u64| {
            let bytes = (from..from + count)
                .flat_map(|i| [(i * 10).to_le_bytes(), 2u64.to_le_bytes()].concat())
                .collect::<Vec<u8>>();
            Memory::from_vec(bytes)
        };
        assert_eq!(stream.list_wanted().unwrap().len, LIST_CHUNK * REGION_BYTES);
        stream.list_fetched(&encode(0, LIST_CHUNK)).unwrap();
        let mut bytes = 0;
        loop {
            let (regions, len) = stream.take(u64::MAX);
            assert!(regions.len() <= PIECE_REGIONS);
            if len == 0 {
                break;
            }
            bytes += len;
        }
        assert_eq!(bytes, 2 * LIST_CHUNK);
        assert_eq!(stream.list_wanted().unwrap().len, 2 * REGION_BYTES);
        stream.list_fetched(&encode(LIST_CHUNK, 2)).unwrap();
        let rest = vec![region(LIST_CHUNK * 10, 2), region(LIST_CHUNK * 10 + 10, 2)];
        assert_eq!(stream.take(u64::MAX), (rest, 4));
        assert!(stream.list_wanted().is_none());
        let evil = [u64::MAX.to_le_bytes(), 5u64.to_le_bytes()].concat();
        assert!(stream.list_fetched(&Memory::from_vec(evil)).is_err());
    }
}
