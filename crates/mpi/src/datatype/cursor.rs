//! Walking over the bytes of elements, in the order in which they are sent.

use std::ops::Range;

use smallvec::SmallVec;

use super::layout::{List, Loop, Placed, RECORD_PIECES, Shape};

/// A contiguous piece of elements' data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins, in bytes from the buffer's address.
    pub offset: i64,
    /// Bytes.
    pub len: u64,
}

/// Pieces that are copied together, as they lie regularly. In each, offsets count from the buffer's address.
#[derive(Debug, Clone)]
pub(crate) enum Run<'a> {
    /// One piece.
    Piece(Piece),
    /// Rows of pieces of one length.
    Rows {
        first: Piece,
        rows: u64,
        outer: i64,
        row: u64,
        inner: i64,
    },
    /// Records of several pieces, one record `stride` bytes behind the other.
    Records {
        offset: i64,
        pieces: &'a List,
        count: u64,
        stride: i64,
    },
    /// Some of a list's pieces.
    Pieces {
        base: i64,
        list: &'a List,
        indices: Range<usize>,
    },
}

/// Records are copied piece by piece, all records' first, then their second; so many bytes at a time that the stream's
/// stay in the nearest cache.
const RECORDS_BYTES: u64 = 16 << 10;

/// A part of a program; its frame has the place where it lies.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    Bytes(u64),
    Loop(&'a Loop),
    List(&'a List),
}

impl<'a> Part<'a> {
    fn of(shape: &'a Shape) -> Self {
        match shape {
            Shape::Empty => Self::Bytes(0),
            Shape::Bytes(len) => Self::Bytes(*len),
            Shape::Loop(it) => Self::Loop(it),
            Shape::List(it) => Self::List(it),
        }
    }

    fn size(self) -> u64 {
        match self {
            Self::Bytes(len) => len,
            Self::Loop(it) => it.size,
            Self::List(it) => it.size,
        }
    }
}

/// A loop or a list that a cursor is inside of.
#[derive(Debug, Clone, Copy)]
struct Frame<'a> {
    base: i64,
    index: u64,
    count: u64,
    level: Level<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Level<'a> {
    Loop { stride: i64, body: Part<'a> },
    List(&'a List),
}

impl<'a> Frame<'a> {
    /// The part at the index, and its offset. Offsets of data were checked to fit when the datatype was made.
    #[inline]
    fn part(&self) -> (Part<'a>, i64) {
        match self.level {
            Level::Loop { stride, body } => (body, self.base + self.index as i64 * stride),
            Level::List(list) => {
                let index = self.index as usize;
                let part = list.shape(index).map_or_else(
                    || {
                        let (begin, end) = list.range(index);
                        Part::Bytes(end - begin)
                    },
                    Part::of,
                );
                (part, self.base + list.offsets[index])
            }
        }
    }
}

/// Yields the contiguous pieces of elements' data, in the order in which they are sent, from any byte on.
///
/// A step costs the same on average however many pieces there are, and a seek as much as the datatype has levels, times the
/// logarithm of how many displacements one was given. Nothing is allocated, except once for datatypes of more than
/// six levels.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    /// The whole, as if it were the body of a loop.
    root: Frame<'a>,
    root_size: u64,
    frames: SmallVec<[Frame<'a>; 6]>,
    /// The rest of the next piece.
    next: Piece,
    /// That piece's length as a whole.
    whole: u64,
    position: u64,
    end: u64,
}

impl<'a> Cursor<'a> {
    /// At the beginning of `count` elements that have `extent` and so many `bytes`.
    pub(crate) fn new(layout: &'a Placed, count: u64, extent: i64, bytes: u64) -> Self {
        let (count, stride, body) = match Part::of(&layout.shape) {
            Part::Bytes(len) if i64::try_from(len) == Ok(extent) => (1, 0, Part::Bytes(bytes)),
            Part::Loop(it) if it.reach() == Some(extent) => {
                let rounds = bytes / it.body_size;
                (rounds, it.stride, Part::of(&it.body))
            }
            part => (count, extent, part),
        };
        let mut cursor = Self {
            root: Frame {
                base: layout.offset,
                index: 0,
                count,
                level: Level::Loop { stride, body },
            },
            root_size: body.size(),
            frames: SmallVec::new(),
            next: Piece { offset: 0, len: 0 },
            whole: 0,
            position: 0,
            end: bytes,
        };
        cursor.seek(0);
        cursor
    }

    /// Which byte of the data comes next.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes that are left.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.end - self.position
    }

    /// Continues at the byte at `position`, or at the end if there is none.
    pub fn seek(&mut self, position: u64) {
        self.frames.clear();
        self.position = position.min(self.end);
        self.next = Piece { offset: 0, len: 0 };
        if self.position == self.end {
            return;
        }
        let mut root = self.root;
        root.index = self.position / self.root_size;
        let (part, offset) = root.part();
        if root.count > 1 {
            self.frames.push(root);
        }
        self.enter(part, offset, self.position % self.root_size);
    }

    /// Finds the piece of `part` that has its byte at `skip`.
    fn enter(&mut self, mut part: Part<'a>, mut base: i64, mut skip: u64) {
        loop {
            let (index, count, level) = match part {
                Part::Bytes(len) => {
                    self.whole = len;
                    self.next = Piece {
                        offset: base + skip as i64,
                        len: len - skip,
                    };
                    return;
                }
                Part::Loop(it) => {
                    let index = if skip == 0 { 0 } else { skip / it.body_size };
                    skip -= index * it.body_size;
                    let (stride, body) = (it.stride, Part::of(&it.body));
                    (index, it.count, Level::Loop { stride, body })
                }
                Part::List(it) => {
                    let index = if skip == 0 { 0 } else { it.find(skip) };
                    skip -= it.range(index).0;
                    (index as u64, it.offsets.len() as u64, Level::List(it))
                }
            };
            let frame = Frame {
                base,
                index,
                count,
                level,
            };
            self.frames.push(frame);
            (part, base) = frame.part();
        }
    }

    /// Goes on to the piece behind the one that was next.
    #[inline]
    fn advance(&mut self) {
        while let Some(top) = self.frames.last_mut() {
            top.index += 1;
            if top.index < top.count {
                let (part, base) = top.part();
                if let Part::Bytes(len) = part {
                    self.whole = len;
                    self.next = Piece { offset: base, len };
                } else {
                    self.enter(part, base, 0);
                }
                return;
            }
            self.frames.pop();
        }
        self.next.len = 0;
    }

    /// The next contiguous bytes, `limit` at most. `None` at the end, or if `limit` is 0.
    #[inline]
    pub fn next_piece(&mut self, limit: u64) -> Option<Piece> {
        let mut piece = Piece {
            offset: self.next.offset,
            len: 0,
        };
        loop {
            let taken = self.next.len.min(limit - piece.len);
            piece.len += taken;
            self.next.len -= taken;
            self.next.offset += taken as i64;
            if self.next.len > 0 {
                break;
            }
            self.advance();
            let is_adjacent =
                piece.offset.checked_add_unsigned(piece.len) == Some(self.next.offset);
            if self.next.len == 0 || !is_adjacent {
                break;
            }
        }
        self.position += piece.len;
        (piece.len > 0).then_some(piece)
    }

    /// The next bytes, `limit` at most, as pieces that can be copied together. `None` as for [`Cursor::next_piece`].
    pub(crate) fn next_run(&mut self, limit: u64) -> Option<Run<'a>> {
        let (first, limit) = (self.next, limit.min(self.remaining()));
        let top = match self.frames.last().copied() {
            Some(top) if first.len == self.whole && first.len <= limit => top,
            _ => {
                return self.next_piece(limit).map(Run::Piece);
            }
        };
        let len = first.len;
        match top.level {
            Level::Loop { stride, .. } => {
                let (rows, outer, row) = match self.around(&top, limit / len / top.count) {
                    Some((rows, outer)) => {
                        self.skip_rounds(rows, rows * top.count * len);
                        (rows, outer, top.count)
                    }
                    None => {
                        let row = (top.count - top.index).min(limit / len);
                        self.skip(row, row * len);
                        (1, 0, row)
                    }
                };
                Some(Run::Rows {
                    first,
                    rows,
                    outer,
                    row,
                    inner: stride,
                })
            }
            Level::List(list) => {
                if list.offsets.len() <= RECORD_PIECES && list.are_pieces() {
                    let most = limit.min(RECORDS_BYTES) / list.size;
                    if let Some((count, stride)) = self.around(&top, most) {
                        self.skip_rounds(count, count * list.size);
                        return Some(Run::Records {
                            offset: top.base,
                            pieces: list,
                            count,
                            stride,
                        });
                    }
                }
                if !list.are_pieces() {
                    return self.next_piece(limit).map(Run::Piece);
                }
                let from = top.index as usize;
                let begin = list.range(from).0;
                // One that does not fit as a whole comes next, for itself.
                let to = list
                    .find(begin.saturating_add(limit))
                    .min(list.offsets.len());
                self.skip((to - from) as u64, list.range(to - 1).1 - begin);
                Some(Run::Pieces {
                    base: top.base,
                    list,
                    indices: from..to,
                })
            }
        }
    }

    /// How many rounds of the loop around the innermost level there are from here on, if there are several, `most` at
    /// most; and its stride.
    fn around(&self, top: &Frame<'a>, most: u64) -> Option<(u64, i64)> {
        let above = self
            .frames
            .len()
            .checked_sub(2)
            .map(|at| &self.frames[at])?;
        match above.level {
            Level::Loop { stride, .. } if top.index == 0 => {
                let rounds = (above.count - above.index).min(most);
                (rounds > 1).then_some((rounds, stride))
            }
            _ => None,
        }
    }

    /// Skips `count` whole parts of the innermost level, the next one included.
    fn skip(&mut self, count: u64, bytes: u64) {
        self.position += bytes;
        if let Some(top) = self.frames.last_mut() {
            top.index += count - 1;
        }
        self.advance();
    }

    /// Skips `count` rounds of the loop around the innermost level.
    fn skip_rounds(&mut self, count: u64, bytes: u64) {
        self.frames.pop();
        self.skip(count, bytes);
    }
}
