//! Which byte is stored where: file regions and regions of datafiles.
//!
//! A file is divided into strips of equal size that are distributed to its servers round-robin: strip `i` lies on
//! server `i % n`, at datafile byte `(i / n) * strip_size`. Everything here is pure arithmetic on
//! 64-bit offsets of at most 2^63 - 1.
//!
//! [`Striping`] maps single offsets and sizes; [`Striping::split`] distributes a list of file regions, in the
//! order of the memory that goes with them, to one [`Share`] per server; [`compact`] finds the
//! equal steps in a share's regions so that a tile travels as four numbers.

use causeway_wire::fs::{Distribution, Region, Regions};

use crate::cutter::Cutter;

#[cfg(test)]
mod tests;

/// Largest file size and offset, in bytes.
pub const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// A file's distribution, ready for arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striping {
    strip: u64,
    servers: u64,
}

/// One server's share of a list of file regions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// Datafile regions in the order of the memory, adjacent ones joined.
    pub regions: Vec<Region>,
    /// Spans of the memory (offsets into all of it), in the same order, adjacent ones joined.
    pub memory: Vec<Region>,
    /// Bytes in all.
    pub len: u64,
}

impl Striping {
    /// The arithmetic of `distribution`; `None` if it is empty.
    pub fn new(distribution: &Distribution) -> Option<Self> {
        let strip = u64::from(distribution.strip_size);
        let servers = distribution.servers.len() as u64;
        (strip > 0 && servers > 0).then_some(Self { strip, servers })
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.servers as usize
    }

    /// The server (an index into the distribution's list) and datafile offset of a file offset.
    pub fn locate(&self, offset: u64) -> (usize, u64) {
        let strip = offset / self.strip;
        let datafile = (strip / self.servers) * self.strip + offset % self.strip;
        ((strip % self.servers) as usize, datafile)
    }

    /// The file offset of a datafile offset; saturates above [`MAX_FILE_BYTES`].
    pub fn file_offset(&self, server: usize, offset: u64) -> u64 {
        let strip = u128::from(offset / self.strip) * u128::from(self.servers) + server as u128;
        let file = strip * u128::from(self.strip) + u128::from(offset % self.strip);
        u64::try_from(file).unwrap_or(u64::MAX)
    }

    /// The size of a server's datafile when the file has `size` bytes and no holes at the end.
    pub fn datafile_size(&self, server: usize, size: u64) -> u64 {
        let strips = size / self.strip;
        let (rounds, rest) = (strips / self.servers, (strips % self.servers) as usize);
        let partial = match server.cmp(&rest) {
            std::cmp::Ordering::Less => self.strip,
            std::cmp::Ordering::Equal => size % self.strip,
            std::cmp::Ordering::Greater => 0,
        };
        rounds * self.strip + partial
    }

    /// The end of the strip in which `offset` lies. A file on one server is a single strip.
    fn end_of_strip(&self, offset: u64) -> u64 {
        match self.servers {
            1 => u64::MAX,
            _ => offset.saturating_add(self.strip - offset % self.strip),
        }
    }

    /// Distributes file regions to the servers, one [`Share`] each, in the order of the memory.
    pub fn split(&self, regions: &[Region]) -> Vec<Share> {
        let mut shares = vec![Share::default(); self.servers()];
        let mut memory = 0;
        // The strip of the last region: the next region is often in it too, and divisions are slow.
        let (mut strip, mut server, mut base) = (0..0, 0, 0);
        for region in regions {
            let (mut offset, mut left) = (region.offset, region.len);
            while left > 0 {
                if !strip.contains(&offset) {
                    strip = offset..self.end_of_strip(offset);
                    (server, base) = self.locate(offset);
                }
                let len = left.min(strip.end - offset);
                let at = base + (offset - strip.start);
                shares[server].push(Region { offset: at, len }, memory);
                offset += len;
                memory += len;
                left -= len;
            }
        }
        shares
    }
}

impl Share {
    /// Its first bytes, those behind them, and so on, of these lengths.
    pub(crate) fn cut<const N: usize>(&self, lens: [u64; N]) -> [Self; N] {
        let mut regions = Cutter::new(self.regions.iter().copied());
        let mut memory = Cutter::new(self.memory.iter().copied());
        lens.map(|len| Self {
            regions: regions.take(len),
            memory: memory.take(len),
            len,
        })
    }

    fn push(&mut self, region: Region, memory: u64) {
        self.len += region.len;
        join(&mut self.regions, region);
        join(
            &mut self.memory,
            Region {
                offset: memory,
                len: region.len,
            },
        );
    }
}

/// Appends a region, joining it with the last one if it follows it.
pub(crate) fn join(regions: &mut Vec<Region>, region: Region) {
    match regions.last_mut() {
        Some(last) if last.offset + last.len == region.offset => last.len += region.len,
        _ => regions.push(region),
    }
}

/// The shortest description of a list: equal regions at equal steps become four numbers.
pub fn compact(regions: Vec<Region>) -> Regions {
    let [first, second, ..] = regions[..] else {
        return Regions::Here(regions);
    };
    let Some(stride) = second.offset.checked_sub(first.offset) else {
        return Regions::Here(regions);
    };
    let even = regions
        .iter()
        .zip(regions.iter().skip(1))
        .all(|(one, next)| {
            one.len == first.len
                && next.len == first.len
                && next.offset.checked_sub(one.offset) == Some(stride)
        });
    if even && stride >= first.len {
        Regions::Strided {
            offset: first.offset,
            len: first.len,
            stride,
            count: regions.len() as u64,
        }
    } else {
        Regions::Here(regions)
    }
}
