//! A number of elements of one datatype: what a message is made of.

use std::ops::Range;

use causeway_sys::blocks::{self, Blocks, Listed, Source, Steps, Target};
use causeway_sys::memory::Memory;

use super::construct::bytes_of;
use super::cursor::{Cursor, Piece, Run};
use super::error::Error;
use super::handle::Datatype;

/// A number of elements of one datatype.
///
/// Functions that move their bytes take the memory that the elements span: that of [`Elements::hull`], whose first byte
/// lies `hull.start` bytes from the buffer's address (which may be before it, and need not be part of it).
#[derive(Debug, Clone)]
pub struct Elements {
    datatype: Datatype,
    count: u64,
    bytes: u64,
    hull: Range<i64>,
}

/// Bytes that are copied at a time where neither side is contiguous.
const COPIED: usize = 16 << 10;

/// A direction of copying between elements (`here`) and a stream (`there`).
trait Way {
    fn blocks(&mut self, here: Steps, there: Steps, blocks: Blocks);
    fn pieces(&mut self, here: Listed<'_>, there: usize);
    fn piece(&mut self, here: usize, there: usize, len: usize);
}

/// From elements to a stream.
struct Packing<'a, 'b> {
    memory: Source<'a>,
    stream: &'a mut Target<'b>,
}

/// From a stream to elements.
struct Unpacking<'a, 'b> {
    stream: Source<'a>,
    memory: &'a mut Target<'b>,
}

impl Way for Packing<'_, '_> {
    #[inline]
    fn blocks(&mut self, here: Steps, there: Steps, blocks: Blocks) {
        blocks::copy(self.stream, there, self.memory, here, blocks);
    }

    fn pieces(&mut self, here: Listed<'_>, there: usize) {
        blocks::gather(self.stream, there, self.memory, here);
    }

    #[inline]
    fn piece(&mut self, here: usize, there: usize, len: usize) {
        blocks::copy_one(self.stream, there, self.memory, here, len);
    }
}

impl Way for Unpacking<'_, '_> {
    #[inline]
    fn blocks(&mut self, here: Steps, there: Steps, blocks: Blocks) {
        blocks::copy(self.memory, here, self.stream, there, blocks);
    }

    fn pieces(&mut self, here: Listed<'_>, there: usize) {
        blocks::scatter(self.memory, self.stream, there, here);
    }

    #[inline]
    fn piece(&mut self, here: usize, there: usize, len: usize) {
        blocks::copy_one(self.memory, here, self.stream, there, len);
    }
}

impl Elements {
    /// `count` of a datatype. Fails if they do not fit in 63 bits.
    pub fn new(datatype: Datatype, count: u64) -> Result<Self, Error> {
        Ok(Self {
            bytes: bytes_of(&datatype, count)?,
            hull: datatype.hull(count)?,
            datatype,
            count,
        })
    }

    /// The datatype.
    pub fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes that they span, relative to the buffer's address.
    pub fn hull(&self) -> Range<i64> {
        self.hull.clone()
    }

    /// Whether they are one piece of memory, which is then their hull.
    pub fn is_contiguous(&self) -> bool {
        let span = self.hull.end.checked_sub(self.hull.start);
        span.and_then(|span| u64::try_from(span).ok()) == Some(self.bytes)
            && (self.bytes == 0 || self.cursor(0).next_piece(self.bytes) == Some(self.all()))
    }

    fn all(&self) -> Piece {
        Piece {
            offset: self.hull.start,
            len: self.bytes,
        }
    }

    /// Walks over the data's pieces, from the byte at `position` on.
    pub fn cursor(&self, position: u64) -> Cursor<'_> {
        let layout = &self.datatype.map().layout;
        let mut cursor = Cursor::new(layout, self.count, self.datatype.extent(), self.bytes);
        if position > 0 {
            cursor.seek(position);
        }
        cursor
    }

    /// Packs the data from the byte at `position` on into `stream`, up to the end of the data or of `stream`. Returns
    /// how many bytes were packed.
    pub fn pack(
        &self,
        position: u64,
        memory: Source<'_>,
        stream: &mut Target<'_>,
    ) -> Result<u64, Error> {
        self.check(memory.len())?;
        let room = stream.len() as u64;
        Ok(self.copy(position, room, &mut Packing { memory, stream }))
    }

    /// Unpacks a stream into the elements, from the byte of their data at `position` on, up to the end of either. Returns how
    /// many bytes were unpacked.
    pub fn unpack(
        &self,
        position: u64,
        stream: Source<'_>,
        memory: &mut Target<'_>,
    ) -> Result<u64, Error> {
        self.check(memory.len())?;
        let room = stream.len() as u64;
        Ok(self.copy(position, room, &mut Unpacking { stream, memory }))
    }

    /// Copies the data to other elements, as far as those have room, as if a message were sent from these elements to those.
    /// The two must not overlap. Returns how many bytes were copied.
    pub fn copy_to(
        &self,
        memory: Source<'_>,
        others: &Self,
        their_memory: &mut Target<'_>,
    ) -> Result<u64, Error> {
        self.check(memory.len())?;
        others.check(their_memory.len())?;
        if others.is_contiguous() {
            return self.pack(0, memory, &mut their_memory.first(others.bytes));
        }
        if self.is_contiguous() {
            return others.unpack(0, memory.first(self.bytes), their_memory);
        }
        // Through a buffer that stays in the nearest cache.
        let mut buffer = [0; COPIED];
        let (mut position, end) = (0, self.bytes.min(others.bytes));
        while position < end {
            let some = self.pack(position, memory, &mut Target::from(&mut buffer[..]))?;
            let stream = Source::from(&buffer[..some as usize]);
            position += others.unpack(position, stream, their_memory)?;
        }
        Ok(end)
    }

    /// Describes the data from the byte at `position` on as parts of `memory`, at most `most` of them, which are added to
    /// `fragments`. Returns how many bytes they have.
    pub fn fragments(
        &self,
        position: u64,
        memory: &Memory,
        most: usize,
        fragments: &mut Vec<Memory>,
    ) -> Result<u64, Error> {
        self.check(memory.len())?;
        let mut cursor = self.cursor(position);
        for _ in 0..most {
            let Some(piece) = cursor.next_piece(u64::MAX) else {
                break;
            };
            let from = self.place(piece.offset);
            fragments.push(memory.slice(from..from + piece.len as usize));
        }
        Ok(cursor.position() - position.min(self.bytes))
    }

    fn check(&self, len: usize) -> Result<(), Error> {
        let needed = self.hull.end.abs_diff(self.hull.start);
        let len = len as u64;
        if len < needed {
            return Err(Error::OutOfBounds { needed, len });
        }
        Ok(())
    }

    /// Where an offset lies in the memory.
    #[inline]
    fn place(&self, offset: i64) -> usize {
        offset.abs_diff(self.hull.start) as usize
    }

    /// Copies pieces, from the byte at `position` on, until there are no more, or `room` is full.
    fn copy(&self, position: u64, room: u64, way: &mut impl Way) -> u64 {
        let mut cursor = self.cursor(position);
        let (start, mut done) = (cursor.position(), 0);
        while let Some(run) = cursor.next_run(room - done) {
            self.copy_run(run, done as usize, way);
            done = cursor.position() - start;
        }
        done
    }

    fn copy_run(&self, run: Run<'_>, at: usize, way: &mut impl Way) {
        match run {
            Run::Piece(piece) => way.piece(self.place(piece.offset), at, piece.len as usize),
            Run::Rows {
                first,
                rows,
                outer,
                row,
                inner,
            } => {
                let here = Steps {
                    start: self.place(first.offset),
                    outer: outer as isize,
                    inner: inner as isize,
                };
                let (len, row) = (first.len as usize, row as usize);
                let there = Steps {
                    start: at,
                    outer: (row * len) as isize,
                    inner: len as isize,
                };
                let rows = rows as usize;
                way.blocks(here, there, Blocks { len, rows, row });
            }
            Run::Records {
                offset,
                pieces,
                count,
                stride,
            } => {
                for (index, of) in pieces.offsets.iter().enumerate() {
                    let (begin, end) = pieces.range(index);
                    let here = Steps {
                        start: self.place(offset + of),
                        outer: 0,
                        inner: stride as isize,
                    };
                    let there = Steps {
                        start: at + begin as usize,
                        outer: 0,
                        inner: pieces.size as isize,
                    };
                    let blocks = Blocks {
                        len: (end - begin) as usize,
                        rows: 1,
                        row: count as usize,
                    };
                    way.blocks(here, there, blocks);
                }
            }
            Run::Pieces {
                base,
                list,
                indices,
            } => {
                if let Some(len) = list.part_len() {
                    let base = base - self.hull.start;
                    return way.pieces(list.offsets.blocks(indices, base, len), at);
                }
                let first = list.range(indices.start).0;
                for index in indices {
                    let (begin, end) = list.range(index);
                    let here = self.place(base + list.offsets[index]);
                    let there = at + (begin - first) as usize;
                    way.piece(here, there, (end - begin) as usize);
                }
            }
        }
    }
}
