//! Memory that bulk transfers read and write: regions of bytes, named by number.
//!
//! Processes that make their regions in the same order have the same names for them, as programs of
//! one text have the same addresses for their static data.

/// A region, counted from 0 in the order of making.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(pub u32);

/// A position in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The region.
    pub region: Region,
    /// The offset in bytes.
    pub offset: u64,
}

impl Place {
    /// The position `further` bytes on.
    pub fn plus(self, further: u64) -> Self {
        Self {
            region: self.region,
            offset: self.offset.saturating_add(further),
        }
    }

    /// The span of `bytes` that begins here.
    pub fn span(self, bytes: u64) -> Span {
        Span { place: self, bytes }
    }
}

impl Region {
    /// The position at `offset`.
    pub fn at(self, offset: u64) -> Place {
        Place {
            region: self,
            offset,
        }
    }
}

/// A contiguous span of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The position of the first byte.
    pub place: Place,
    /// The number of bytes.
    pub bytes: u64,
}

/// A process's regions.
#[derive(Debug, Default)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
}

impl Memory {
    /// Makes a region of zeros.
    pub(super) fn make(&mut self, bytes: usize) -> Region {
        let region = Region(self.regions.len() as u32);
        self.regions.push(vec![0; bytes]);
        region
    }

    /// The bytes of `span`; `None` when the region has no such bytes.
    pub fn bytes(&self, span: Span) -> Option<&[u8]> {
        let (start, end) = limits(span)?;
        self.regions
            .get(span.place.region.0 as usize)?
            .get(start..end)
    }

    /// The bytes of `span`, to be changed.
    pub fn bytes_mut(&mut self, span: Span) -> Option<&mut [u8]> {
        let (start, end) = limits(span)?;
        self.regions
            .get_mut(span.place.region.0 as usize)?
            .get_mut(start..end)
    }

    /// The numbers that begin at `place`; fewer than `count` where the region ends.
    pub fn numbers<N: Number>(&self, place: Place, count: usize) -> impl Iterator<Item = N> {
        let all = usize::try_from(place.offset).ok().and_then(|offset| {
            self.regions
                .get(place.region.0 as usize)?
                .get(offset..)?
                .chunks_exact(N::BYTES)
                .into()
        });
        all.into_iter().flatten().take(count).map(N::read)
    }

    /// Writes numbers from `place` on; returns whether there was room for all of them.
    pub fn write_numbers<N: Number>(
        &mut self,
        place: Place,
        numbers: impl IntoIterator<Item = N>,
    ) -> bool {
        let Some(rest) = usize::try_from(place.offset).ok().and_then(|offset| {
            self.regions
                .get_mut(place.region.0 as usize)?
                .get_mut(offset..)
        }) else {
            return false;
        };
        let mut room = rest.chunks_exact_mut(N::BYTES);
        numbers
            .into_iter()
            .all(|number| room.next().map(|bytes| number.write(bytes)).is_some())
    }
}

fn limits(span: Span) -> Option<(usize, usize)> {
    let start = usize::try_from(span.place.offset).ok()?;
    let end = start.checked_add(usize::try_from(span.bytes).ok()?)?;
    Some((start, end))
}

/// A number that can be stored in memory.
pub trait Number: Copy {
    /// The bytes that it occupies.
    const BYTES: usize;
    /// Reads it from exactly that many bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it to exactly that many bytes.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            const BYTES: usize = size_of::<$number>();

            fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; Self::BYTES];
                raw.copy_from_slice(bytes);
                Self::from_le_bytes(raw)
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

numbers!(u32, u64, f64);
