//! Views: which bytes of a file a process sees, as a stream of data (MPI 5.0 §14.3).
//!
//! Positions in the stream are bytes here; MPI's offsets count elementary types.

use std::ops::Range;

use causeway_engine::Memory;
use causeway_sys::blocks::{Source, Target};

use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::datatype::{Basic, Combiner, Datatype, Elements, Width};
use crate::error::{Error, Result};

use super::storage::Extent;

/// How data are represented in a file (MPI 5.0 §14.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As this library has them: as in memory.
    Internal,
    /// Big-endian, in sizes that do not depend on the machine.
    External32,
}

/// The representations of the standard, by name.
const REPRESENTATIONS: [(&str, Representation); 3] = [
    ("native", Representation::Native),
    ("internal", Representation::Internal),
    ("external32", Representation::External32),
];

impl Representation {
    /// The representation with this name.
    pub fn named(name: &[u8]) -> Option<Self> {
        let mut all = REPRESENTATIONS.iter();
        let found = all.find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        found.map(|(_, representation)| *representation)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => "external32",
        }
    }

    /// A datatype as it lies in a file.
    pub(crate) fn in_file(self, datatype: &Datatype) -> Result<Datatype> {
        match self {
            Self::Native | Self::Internal => Ok(datatype.clone()),
            Self::External32 => in_external32(datatype),
        }
    }

    /// The stream of a buffer's data.
    pub(crate) fn encode(self, from: &OwnedBuffer) -> Result<Memory> {
        if self != Self::External32 {
            return from.packed();
        }
        let elements = Elements::new(from.datatype.clone(), from.count)?;
        let mut stream = vec![0; elements.external32_bytes()? as usize];
        elements.pack_external32(Source::from(&from.memory), &mut stream)?;
        Ok(Memory::from_vec(stream))
    }

    /// Bytes of the stream of a buffer's data.
    pub(crate) fn stream_bytes(self, of: &OwnedBuffer) -> Result<u64> {
        match self {
            Self::External32 => {
                let elements = Elements::new(of.datatype.clone(), of.count)?;
                Ok(elements.external32_bytes()?)
            }
            _ => of.bytes_of_data(),
        }
    }

    /// Memory for a stream that is to be decoded into a buffer.
    pub(crate) fn staging(self, into: &OwnedBuffer) -> Result<Memory> {
        match self {
            Self::External32 => temporary(self.stream_bytes(into)? as usize),
            _ if into.datatype.is_contiguous() => Ok(into.memory.clone()),
            _ => temporary(into.bytes_of_data()? as usize),
        }
    }

    /// Puts the first `bytes` of a stream where they belong. Returns how many bytes of data were
    /// decoded.
    pub(crate) fn decode(self, stream: &Memory, bytes: u64, into: &OwnedBuffer) -> Result<u64> {
        if self != Self::External32 {
            if !into.datatype.is_contiguous() {
                let elements = Elements::new(into.datatype.clone(), into.count)?;
                let stream = stream.slice(0..bytes as usize);
                elements.unpack(0, Source::from(&stream), &mut Target::from(&into.memory))?;
            }
            return Ok(bytes);
        }
        let one = Elements::new(into.datatype.clone(), 1)?.external32_bytes()?;
        // An element of which the file has only a part is not decoded.
        let whole = bytes.checked_div(one).unwrap_or(0).min(into.count);
        let elements = Elements::new(into.datatype.clone(), whole)?;
        elements.unpack_external32(&stream.to_vec(), &mut Target::from(&into.memory))?;
        Ok(elements.bytes())
    }
}

/// The type in the file for this type of the program: that of the same kind with the size that `external32` has.
fn external32_of(basic: Basic) -> Basic {
    match basic {
        Basic::Long => Basic::Int,
        Basic::UnsignedLong => Basic::Unsigned,
        Basic::Wchar => Basic::UnsignedShort,
        Basic::LongInt => Basic::TwoInt,
        same => same,
    }
}

/// The layout of a datatype in a file in `external32`: only portable datatypes have one (MPI 5.0 §14.5.1).
fn in_external32(datatype: &Datatype) -> Result<Datatype> {
    let elements = Elements::new(datatype.clone(), 1)?;
    if elements.external32_bytes()? == datatype.size() {
        return Ok(datatype.clone());
    }
    if let Some(basic) = datatype.basic() {
        return Ok(external32_of(basic).into());
    }
    let contents = datatype.contents();
    let of = |at: usize| match contents.datatypes.get(at) {
        Some(inner) => in_external32(inner),
        None => Err(no_layout()),
    };
    let number = |at: usize| {
        let small = contents.integers.get(at).map(|value| i64::from(*value));
        small
            .or_else(|| contents.counts.get(at).copied())
            .ok_or_else(no_layout)
    };
    Ok(match contents.combiner {
        Combiner::Dup => of(0)?,
        Combiner::Contiguous => Datatype::contiguous(number(0)?, &of(0)?, Width::Count)?,
        Combiner::Vector => {
            Datatype::vector(number(0)?, number(1)?, number(2)?, &of(0)?, Width::Count)?
        }
        _ => return Err(no_layout()),
    })
}

fn no_layout() -> Error {
    Error::new(
        abi::ERR_UNSUPPORTED_DATAREP,
        "external32 of this datatype: types whose size differs there are supported by themselves, contiguous, and as vectors",
    )
}

/// A view.
#[derive(Debug, Clone)]
pub struct View {
    /// Where it begins, bytes from the file's beginning.
    pub displacement: u64,
    /// The elementary type.
    pub etype: Datatype,
    /// What the view repeats.
    pub filetype: Datatype,
    /// How data are represented.
    pub representation: Representation,
    /// Bytes of an elementary type in the file.
    unit: u64,
    /// The file type as it lies in the file.
    tile: Datatype,
    /// Whether data of a tile lie behind data of the next one.
    reaches_back: bool,
}

/// Pieces of a file type that its check reads: in one with more, only the order of the first ones is checked.
const MOST_CHECKED: usize = 1 << 16;

fn bad(text: &str) -> Error {
    Error::new(abi::ERR_ARG, text)
}

fn too_far() -> Error {
    Error::new(abi::ERR_DISP, "the offset lies beyond what a file can have")
}

impl View {
    /// All bytes of a file.
    pub fn of_bytes() -> Self {
        Self {
            displacement: 0,
            etype: Basic::Byte.into(),
            filetype: Basic::Byte.into(),
            representation: Representation::Native,
            unit: 1,
            tile: Basic::Byte.into(),
            reaches_back: false,
        }
    }

    /// A view, if there can be one of this kind. Its parts must not overlap if it is `written`. MPI demands this, and that
    /// displacements do not decrease, of one file type: several in a row, closer than their data, may do both. HDF5 makes such types, and
    /// transfers one at a time.
    pub fn new(
        displacement: i64,
        etype: Datatype,
        filetype: Datatype,
        representation: Representation,
        written: bool,
    ) -> Result<Self> {
        let displacement = u64::try_from(displacement)
            .map_err(|_| Error::new(abi::ERR_DISP, "the displacement is negative"))?;
        if !etype.is_committed() || !filetype.is_committed() {
            let text = "the elementary type or the file type is not committed";
            return Err(Error::new(abi::ERR_TYPE, text));
        }
        let unit = representation.in_file(&etype)?.size();
        let tile = representation.in_file(&filetype)?;
        if unit == 0 {
            return Err(bad("the elementary type has no data"));
        }
        if !tile.size().is_multiple_of(unit) {
            return Err(bad(
                "the file type does not consist of whole elementary types",
            ));
        }
        if tile.extent() < 0 {
            return Err(bad("the file type's extent is negative"));
        }
        let elements = Elements::new(tile.clone(), 2)?;
        let mut cursor = elements.cursor(0);
        let (mut from, mut end) = (0, 0);
        let mut reaches_back = false;
        for _ in 0..MOST_CHECKED {
            let is_first = cursor.position() < tile.size();
            let Some(piece) = cursor.next_piece(u64::MAX) else {
                break;
            };
            let decreases = piece.offset < from;
            let overlaps = written && piece.offset < end;
            match (decreases, overlaps) {
                (true, _) if is_first => return Err(bad("the file type's displacements decrease")),
                (_, true) if is_first => {
                    let text = "the file type overlaps itself, and the file is written";
                    return Err(bad(text));
                }
                (false, false) => {}
                _ => {
                    reaches_back = true;
                    break;
                }
            }
            (from, end) = (piece.offset, piece.offset + piece.len as i64);
        }
        Ok(Self {
            displacement,
            etype,
            filetype,
            representation,
            unit,
            tile,
            reaches_back,
        })
    }

    /// Bytes of an elementary type in the file.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Bytes that `offset` elementary types have, and those behind.
    pub(crate) fn position(&self, offset: i64) -> Result<u64> {
        let offset = u64::try_from(offset)
            .map_err(|_| bad("the offset lies before the beginning of the view"))?;
        offset.checked_mul(self.unit).ok_or_else(too_far)
    }

    /// The tiles that have all data before a position.
    fn tiles(&self, end: u64) -> Result<Elements> {
        let tiles = match self.tile.size() {
            0 if end == 0 => 0,
            0 => return Err(bad("the file type has no data")),
            size => end.div_ceil(size),
        };
        let elements = Elements::new(self.tile.clone(), tiles).map_err(|_| too_far())?;
        match elements.hull().end.checked_add_unsigned(self.displacement) {
            Some(_) => Ok(elements),
            None => Err(too_far()),
        }
    }

    /// Refuses to transfer the data at these positions at once if they lie in several tiles that reach into each other: all that
    /// transfers assumes that what lies behind in the data lies behind in the file.
    pub(crate) fn check(&self, positions: &Range<u64>) -> Result<()> {
        let size = self.tile.size().max(1);
        let tile_of = |position: u64| position / size;
        if !self.reaches_back
            || positions.is_empty()
            || tile_of(positions.start) == tile_of(positions.end - 1)
        {
            return Ok(());
        }
        let text = "data of more than one file type, which overlap or are not in the file's order: the file type's extent ends before its data";
        Err(Error::new(abi::ERR_UNSUPPORTED_OPERATION, text))
    }

    fn place(&self, offset: i64) -> u64 {
        // Both were checked to fit when the tiles were counted; displacements do not decrease from 0 on.
        self.displacement + offset.max(0) as u64
    }

    /// The extents of the data at these positions, `most` at most, which are added to `extents`. Returns where the data go
    /// on.
    pub(crate) fn extents(
        &self,
        positions: Range<u64>,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<u64> {
        self.check(&positions)?;
        let elements = self.tiles(positions.end)?;
        let mut cursor = elements.cursor(positions.start);
        for _ in 0..most {
            let left = positions.end.saturating_sub(cursor.position());
            let Some(piece) = cursor.next_piece(left) else {
                break;
            };
            extents.push(Extent {
                offset: self.place(piece.offset),
                len: piece.len,
            });
        }
        Ok(cursor.position())
    }

    /// Where the byte of the data at a position lies in the file.
    pub(crate) fn offset_of(&self, position: u64) -> Result<u64> {
        let next = position.checked_add(1).ok_or_else(too_far)?;
        let mut extents = Vec::with_capacity(1);
        self.extents(position..next, 1, &mut extents)?;
        match extents.first() {
            Some(extent) => Ok(extent.offset),
            None => Err(too_far()),
        }
    }

    /// How many bytes of the data lie in the first `end` bytes of the file; if tiles reach into each other, as far as that tile is concerned in
    /// which the data's byte at `position` lies.
    pub(crate) fn data_before(&self, end: u64, position: u64) -> Result<u64> {
        let (size, extent) = (self.tile.size(), self.tile.extent());
        let Some(end) = end.checked_sub(self.displacement).filter(|_| size > 0) else {
            return Ok(0);
        };
        // Each tile begins at least one extent behind the one before, so the last that begins before `end` is found by division.
        let first = self.tile.true_lower_bound().max(0) as u64;
        let Some(behind) = end.checked_sub(first + 1) else {
            return Ok(0);
        };
        let tile = match u64::try_from(extent) {
            _ if self.reaches_back => position / size,
            Ok(extent) if extent > 0 => behind / extent,
            _ => 0,
        };
        let elements = Elements::new(self.tile.clone(), 1)?;
        let within = end.saturating_sub(tile.saturating_mul(extent.max(0) as u64));
        let (mut low, mut high) = (0, size);
        while low < high {
            let middle = low + (high - low) / 2;
            let piece = elements.cursor(middle).next_piece(1);
            let is_before = piece.is_some_and(|piece| (piece.offset.max(0) as u64) < within);
            match is_before {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        tile.checked_mul(size)
            .and_then(|before| before.checked_add(low))
            .ok_or_else(too_far)
    }

    /// Bytes that a contiguous piece of the data has on average.
    pub(crate) fn mean_piece(&self) -> u64 {
        let pieces = match self.tile.is_contiguous() {
            true => return u64::MAX,
            false => self.tile.pieces().max(1),
        };
        self.tile.size() / pieces
    }

    /// The first offset in elementary types at or behind the end of a file of so many bytes.
    pub(crate) fn end_of_file(&self, size: u64) -> Result<u64> {
        Ok(self.data_before(size, 0)?.div_ceil(self.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(displacement: i64, filetype: Datatype) -> View {
        filetype.commit();
        let etype = Basic::Byte.into();
        View::new(displacement, etype, filetype, Representation::Native, true).expect("a view")
    }

    /// Which byte of the file each byte of the data is.
    fn model(view: &View, many: u64) -> Vec<u64> {
        let mut extents = Vec::new();
        view.extents(0..many, usize::MAX, &mut extents)
            .expect("they fit");
        extents
            .iter()
            .flat_map(|extent| extent.offset..extent.end())
            .collect()
    }

    #[test]
    fn positions_and_offsets_are_each_others_inverse() {
        let byte = Datatype::from(Basic::Byte);
        let vector = Datatype::vector(3, 2, 5, &byte, Width::Int).expect("a type");
        let resized = Datatype::resized(&vector, 0, 20, Width::Int).expect("a type");
        let moved = Datatype::hindexed_block(2, &[3, 11], &byte, Width::Int).expect("a type");
        for (displacement, filetype) in [(0, byte), (7, vector), (1, resized), (4, moved)] {
            let view = view(displacement, filetype);
            let model = model(&view, 50);
            for (position, offset) in model.iter().enumerate() {
                assert_eq!(view.offset_of(position as u64).expect("it fits"), *offset);
            }
            for end in 0..model[49] {
                let before = model.iter().filter(|offset| **offset < end).count();
                assert_eq!(view.data_before(end, 0).expect("it fits"), before as u64);
            }
        }
    }

    #[test]
    fn views_that_go_backwards_or_overlap_are_refused() {
        let byte = Datatype::from(Basic::Byte);
        let make = |displacements: &[i64], length, written| {
            let filetype = Datatype::hindexed_block(length, displacements, &byte, Width::Int)?;
            filetype.commit();
            let native = Representation::Native;
            View::new(0, byte.clone(), filetype, native, written)
        };
        assert!(make(&[0, 8], 4, true).is_ok());
        assert!(make(&[8, 0], 4, false).is_err());
        assert!(make(&[-4, 8], 4, false).is_err());
        assert!(make(&[0, 2], 4, false).is_ok());
        assert!(make(&[0, 2], 4, true).is_err());
    }

    #[test]
    fn file_types_that_reach_into_the_next_one_are_transferred_one_at_a_time() {
        let byte = Datatype::from(Basic::Byte);
        let pieces = Datatype::hindexed_block(2, &[0, 100], &byte, Width::Int).expect("a type");
        let view = view(
            10,
            Datatype::resized(&pieces, 0, 3, Width::Int).expect("a type"),
        );
        for (tile, offsets) in [[10, 11, 110, 111], [13, 14, 113, 114]].iter().enumerate() {
            let first = 4 * tile as u64;
            for (position, offset) in (first..).zip(offsets) {
                assert_eq!(view.offset_of(position).expect("it fits"), *offset);
            }
            for end in [0, offsets[0], offsets[1], 112, 200] {
                let before = offsets.iter().filter(|offset| **offset < end).count() as u64;
                let found = view.data_before(end, first + 2).expect("it fits");
                assert_eq!(
                    found.clamp(first, first + 4) - first,
                    before,
                    "{tile} {end}"
                );
            }
            let mut extents = Vec::new();
            view.extents(first..first + 4, 9, &mut extents)
                .expect("it lies in one");
            assert_eq!(extents.len(), 2);
            let error = view.extents(first + 3..first + 5, 9, &mut extents);
            assert_eq!(
                error.expect_err("two").code(),
                abi::ERR_UNSUPPORTED_OPERATION
            );
        }
    }

    #[test]
    fn long_integers_have_four_bytes_in_external32() {
        let long = Datatype::from(Basic::Long);
        let filetype = Datatype::vector(2, 1, 2, &long, Width::Int).expect("a type");
        filetype.commit();
        let view = View::new(0, long, filetype, Representation::External32, true);
        let view = view.expect("a view");
        assert_eq!(view.unit(), 4);
        assert_eq!(view.offset_of(4).expect("it fits"), 8);
    }
}
