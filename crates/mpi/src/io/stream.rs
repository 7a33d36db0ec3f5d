//! The data of an operation as a stream, which lies in memory in one piece or in several.

use std::ops::Range;

use causeway_engine::Memory;

use crate::buffer::OwnedBuffer;
use crate::datatype::Elements;
use crate::error::Result;

use super::view::Representation;

/// Pieces that are handed over as they lie at most: each is a reference, which takes memory of its own.
const MOST_PIECES: u64 = 1 << 16;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Stream {
    pieces: Vec<Memory>,
    /// Where each piece begins in the stream, and behind them all the end of the stream.
    starts: Vec<u64>,
}

impl From<Memory> for Stream {
    fn from(memory: Memory) -> Self {
        Self {
            starts: vec![0, memory.len() as u64],
            pieces: vec![memory],
        }
    }
}

impl Stream {
    /// The data of a buffer as they lie there. `None` if they have to be converted, or lie in pieces of fewer than `least` bytes on
    /// average, or in very many.
    pub(crate) fn in_place(
        buffer: &OwnedBuffer,
        representation: Representation,
        least: u64,
    ) -> Result<Option<Self>> {
        if representation == Representation::External32 || buffer.datatype.is_contiguous() {
            return Ok(None);
        }
        let pieces = buffer.datatype.pieces().max(1).checked_mul(buffer.count);
        let most = buffer.bytes_of_data()?.checked_div(least);
        let few = MOST_PIECES.min(most.unwrap_or(u64::MAX));
        if buffer.count == 0 || pieces.is_none_or(|pieces| pieces > few) {
            return Ok(None);
        }
        let elements = Elements::new(buffer.datatype.clone(), buffer.count)?;
        let first = elements.hull().start;
        let mut cursor = elements.cursor(0);
        let mut stream = Self {
            pieces: Vec::new(),
            starts: vec![0],
        };
        while let Some(piece) = cursor.next_piece(u64::MAX) {
            let from = (piece.offset - first) as usize;
            let memory = buffer.memory.slice(from..from + piece.len as usize);
            stream.pieces.push(memory);
            stream.starts.push(stream.len() + piece.len);
        }
        Ok(Some(stream))
    }

    /// Bytes of data.
    pub(crate) fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The memory of a part of the data, which must not reach behind the end.
    pub(crate) fn part(&self, range: Range<u64>) -> Vec<Memory> {
        let first = self.starts.partition_point(|start| *start <= range.start);
        let pieces = self.pieces.iter().zip(&self.starts);
        pieces
            .skip(first.saturating_sub(1))
            .take_while(|(_, start)| **start < range.end)
            .map(|(piece, start)| {
                let from = range.start.saturating_sub(*start);
                let to = (range.end - start).min(piece.len() as u64);
                piece.slice(from.min(to) as usize..to as usize)
            })
            .filter(|piece| !piece.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Basic, Datatype, Width};

    #[test]
    fn parts_of_a_stream_are_the_bytes_of_the_data() {
        let byte = Datatype::from(Basic::Byte);
        let datatype = Datatype::vector(3, 2, 5, &byte, Width::Int).expect("a type");
        let memory = Memory::from_vec((0..24).collect());
        let buffer = OwnedBuffer {
            memory,
            count: 2,
            datatype,
        };
        let data = buffer.packed().expect("it is packed").to_vec();
        let stream = Stream::in_place(&buffer, Representation::Native, 2);
        let stream = stream.expect("it has pieces").expect("of two bytes");
        assert_eq!(stream.len(), data.len() as u64);
        for from in 0..data.len() {
            for to in from..=data.len() {
                let part = stream.part(from as u64..to as u64);
                let bytes: Vec<u8> = part.iter().flat_map(Memory::to_vec).collect();
                assert_eq!(bytes, data[from..to], "{from}..{to}");
            }
        }
        let packed = |representation, least| {
            let stream = Stream::in_place(&buffer, representation, least);
            stream.expect("it is looked at").is_none()
        };
        assert!(packed(Representation::Native, 3));
        assert!(packed(Representation::External32, 1));
        assert!(packed(Representation::Native, u64::MAX));
        let whole = Stream::from(Memory::from_vec(data.clone()));
        assert_eq!(whole.part(3..7)[0].to_vec(), data[3..7]);
    }
}
