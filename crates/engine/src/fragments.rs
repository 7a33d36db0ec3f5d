//! Lists of memory fragments: owning, adding up, scattering.

use causeway_sys::memory::Memory;
use causeway_transport::Packet;

use crate::pieces::Pieces;
use crate::types::Error;

/// The memory of an operation. One fragment, the usual case, needs no allocation.
#[derive(Debug, Default)]
pub(crate) enum Fragments {
    /// No bytes.
    #[default]
    None,
    /// One fragment.
    One(Memory),
    /// More.
    Many(Box<[Memory]>),
    /// So many pieces that only their owner walks over them.
    Pieces(Box<dyn Pieces>),
}

impl Fragments {
    /// Shares the fragments of a list.
    #[inline]
    pub(crate) fn share(list: &[Memory]) -> Self {
        match list {
            [] => Self::None,
            [one] => Self::One(one.clone()),
            many => Self::Many(many.into()),
        }
    }

    /// The fragments in order; none for pieces.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[Memory] {
        match self {
            Self::None | Self::Pieces(_) => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl Fragments {
    /// Whether only the owner walks over the memory.
    pub(crate) fn is_in_pieces(&self) -> bool {
        matches!(self, Self::Pieces(_))
    }

    /// Writes a whole message into the fragments.
    pub(crate) fn write(&self, bytes: &[u8]) {
        match self {
            Self::Pieces(pieces) => pieces.unpack(0, bytes.into()),
            list => scatter_bytes(bytes, list.as_slice()),
        }
    }
}

/// Where to put a message that is received.
pub(crate) enum ReceiveBuffer<'a> {
    /// These fragments.
    Memory(&'a [Memory]),
    /// Pieces with room for this many bytes.
    Pieces(Box<dyn Pieces>, u64),
}

impl ReceiveBuffer<'_> {
    /// The room in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Memory(list) => sum(list),
            Self::Pieces(_, bytes) => *bytes,
        }
    }

    /// Writes a whole message into it.
    pub(crate) fn write(&self, bytes: &[u8]) {
        match self {
            Self::Memory(list) => scatter_bytes(bytes, list),
            Self::Pieces(pieces, _) => pieces.unpack(0, bytes.into()),
        }
    }

    /// Converts it for an operation to hold.
    pub(crate) fn keep(self) -> Fragments {
        match self {
            Self::Memory(list) => Fragments::share(list),
            Self::Pieces(pieces, _) => Fragments::Pieces(pieces),
        }
    }
}

/// The total size of a list in bytes.
#[inline]
pub(crate) fn total(list: &[Memory]) -> Result<u64, Error> {
    if let [memory] = list
        && memory.len() as u64 <= causeway_wire::bmi::MAX_MESSAGE_BYTES
    {
        return Ok(memory.len() as u64);
    }
    let mut sum = 0u64;
    for memory in list {
        sum = sum
            .checked_add(memory.len() as u64)
            .filter(|sum| *sum <= causeway_wire::bmi::MAX_MESSAGE_BYTES)
            .ok_or(Error::Limit {
                what: "bytes of a message",
                limit: i64::MAX as usize,
            })?;
    }
    Ok(sum)
}

/// Refuses read-only memory that is to be written to.
#[inline]
pub(crate) fn check_writable(list: &[Memory]) -> Result<(), Error> {
    if list.iter().all(Memory::is_writable) {
        Ok(())
    } else {
        Err(Error::ReadOnly)
    }
}

/// Copies a packet's bytes from `offset` on into a list with room for them.
#[inline]
pub(crate) fn scatter(packet: &Packet<'_>, mut offset: usize, list: &[Memory]) {
    for memory in list {
        let len = (packet.len() - offset).min(memory.len());
        packet.copy_part_to(offset, len, memory);
        offset += len;
    }
}

/// Copies bytes into a list with room for them.
pub(crate) fn scatter_bytes(mut bytes: &[u8], list: &[Memory]) {
    for memory in list {
        let (head, rest) = bytes.split_at(bytes.len().min(memory.len()));
        memory.write_at(0, head);
        bytes = rest;
    }
}

/// The total size of a list that was checked before, in bytes.
pub(crate) fn sum(list: &[Memory]) -> u64 {
    list.iter().map(|memory| memory.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(list: &[Memory]) -> Vec<u8> {
        list.iter().flat_map(Memory::to_vec).collect()
    }

    fn list(lens: &[usize]) -> Vec<Memory> {
        lens.iter().map(|len| Memory::zeroed(*len)).collect()
    }

    #[test]
    fn scattered_bytes_lie_in_order() {
        let bytes: Vec<u8> = (0..2000u32).map(|n| n as u8).collect();
        for lens in [&[2000][..], &[3, 0, 1000, 5000], &[1, 1, 300, 2000]] {
            let memory = list(lens);
            scatter(&Packet::private(&bytes), 10, &memory);
            assert_eq!(bytes_of(&memory)[..1990], bytes[10..]);
            scatter_bytes(&bytes, &memory);
            assert_eq!(bytes_of(&memory)[..2000], bytes);
        }
    }
}
