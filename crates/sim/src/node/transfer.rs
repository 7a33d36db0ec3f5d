//! Transfers of the host DMA engine.

use causeway_firmware::{BufferId, DmaRequest, Piece, Side, Token, Transfer};
use causeway_wire::vi::Completion;

use crate::engine::Time;

/// Longest status or entry.
const SHORT_BYTES: usize = 16;

/// The purpose of a host transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    ReadDescriptor,
    ReadData,
    WriteData,
    WriteStatus,
    WriteCompletion,
}

/// A host transfer in progress, in as few cache lines as it fits in.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct HostTransfer {
    pub(crate) token: Token,
    pub(crate) purpose: Purpose,
    pub(crate) side: Side,
    pub(crate) vi: u32,
    pub(crate) message: u64,
    pub(crate) stamp: Time,
    pub(crate) pieces_left: u32,
    /// The frame's data without the descriptor read after it: pieces and bytes that have not arrived.
    pub(crate) data_pieces: u32,
    pub(crate) data_bytes: u64,
    /// The frame that follows this transfer.
    pub(crate) follower: Option<u32>,
    /// The buffer whose frame this transfer follows. (Frames' numbers are reused before it is over.)
    pub(crate) follows: Option<BufferId>,
    pub(crate) started: Time,
    /// The span that the program reads: its beginning and length. Descriptors are on contiguous pages.
    pub(crate) read_at: u64,
    pub(crate) read_bytes: u32,
    /// The bytes to write.
    pub(crate) written: [u8; SHORT_BYTES],
    pub(crate) written_bytes: u8,
}

/// The host transfer of a request, with its pieces, and those of the descriptor read after a frame's data.
pub(super) fn transfer<'r>(request: &DmaRequest<'r>) -> (HostTransfer, &'r [Piece], &'r [Piece]) {
    let mut transfer = HostTransfer {
        token: request.token,
        purpose: Purpose::ReadData,
        side: Side::Send,
        vi: request.vi.0,
        message: request.message,
        stamp: request.stamp,
        pieces_left: 0,
        data_pieces: 0,
        data_bytes: 0,
        follower: None,
        follows: None,
        started: Time::MAX,
        read_at: 0,
        read_bytes: 0,
        written: [0; SHORT_BYTES],
        written_bytes: 0,
    };
    let (pieces, tail): (&[Piece], &[Piece]) = match request.transfer {
        Transfer::ReadDescriptor { side, pieces } => {
            (transfer.purpose, transfer.side) = (Purpose::ReadDescriptor, side);
            read_later(&mut transfer, pieces);
            (pieces, &[])
        }
        Transfer::ReadData { pieces, tail, .. } => {
            transfer.data_pieces = pieces.len() as u32;
            transfer.data_bytes = pieces.iter().map(|piece| u64::from(piece.bytes)).sum();
            read_later(&mut transfer, tail);
            (pieces, tail)
        }
        Transfer::WriteData { pieces, .. } => {
            (transfer.purpose, transfer.side) = (Purpose::WriteData, Side::Receive);
            (pieces, &[])
        }
        Transfer::WriteStatus {
            side,
            pieces,
            status,
            ..
        } => {
            (transfer.purpose, transfer.side) = (Purpose::WriteStatus, side);
            write_later(&mut transfer, status);
            (pieces, &[])
        }
        Transfer::WriteCompletion { pieces, entry, .. } => {
            transfer.purpose = Purpose::WriteCompletion;
            if Completion::decode(entry).is_ok_and(|entry| entry.receive) {
                transfer.side = Side::Receive;
            }
            write_later(&mut transfer, entry);
            (pieces, &[])
        }
        Transfer::Transmit { .. } | Transfer::Receive { .. } => {
            unreachable!("the network engines have these")
        }
    };
    (transfer, pieces, tail)
}

fn read_later(transfer: &mut HostTransfer, pieces: &[Piece]) {
    transfer.read_at = pieces.first().map_or(0, |first| first.bus);
    for piece in pieces {
        debug_assert_eq!(piece.bus, transfer.read_at + u64::from(transfer.read_bytes));
        transfer.read_bytes += piece.bytes;
    }
}

fn write_later(transfer: &mut HostTransfer, bytes: &[u8]) {
    let bytes = bytes
        .get(..bytes.len().min(SHORT_BYTES))
        .unwrap_or_default();
    transfer.written[..bytes.len()].copy_from_slice(bytes);
    transfer.written_bytes = bytes.len() as u8;
}
