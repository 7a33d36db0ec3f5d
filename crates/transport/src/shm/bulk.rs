//! Transfers where one process may not reach the other's memory: the owner copies.
//!
//! The side that started the transfer shares an area of a few pieces with the owner. For each piece of
//! the transfer it sends a request; the owner checks it against its own exports, copies between its
//! memory and the piece, and replies. Several pieces are in flight, so that both sides copy at once.

use std::io;
use std::os::fd::OwnedFd;

use causeway_sys::memfd;
use causeway_sys::memory::Memory;
use causeway_wire::codec::Wire;
use causeway_wire::shm::bulk::{BYTES, MAX_FRAGMENTS, PIECE_BYTES, PIECES};
use causeway_wire::shm::{CopyFragment, CopyOutcome, CopyRequest, Internal, Record, SlotKind};

use super::atomics;
use super::node_handshake::is_closed;
use super::pair::Pair;
use super::transfer::{Step, again_if};
use crate::error::{PeerError, TransferError};
use crate::fragments::Cursor;
use crate::method::Direction;

/// The areas of one pair, in both directions.
#[derive(Default)]
pub(super) struct Bulk {
    /// This side's, for transfers that it starts. Allocated when needed, as most pairs never need
    /// it.
    own_area: Option<Box<OwnArea>>,
    /// The peer's.
    peer_area: Option<Memory>,
    /// Replies for which the ring had no room, at most one for each piece.
    unsent: [Option<CopyOutcome>; PIECES],
    /// Something was copied for the peer since the last call of
    /// [`Method::take_moved`](crate::Method::take_moved).
    pub(super) served: bool,
}

struct OwnArea {
    area: Memory,
    /// The peer could not map it: another one is shared when nothing is in flight any more.
    lost: bool,
    issued: [Option<Issued>; PIECES],
}

/// A piece that was requested from the peer.
#[derive(Clone, Copy)]
struct Issued {
    transfer: u64,
    local: Cursor,
    bytes: u64,
}

fn piece_of(area: &Memory, piece: usize) -> Memory {
    area.slice(piece * PIECE_BYTES..(piece + 1) * PIECE_BYTES)
}

/// Pairs `spans`, in order, with their bytes in `piece`, where they are consecutive.
fn pair_with_piece(
    piece: &Memory,
    spans: impl IntoIterator<Item = Memory>,
) -> impl Iterator<Item = (Memory, Memory)> {
    let mut at = 0;
    spans.into_iter().map(move |span| {
        let part = piece.slice(at..at + span.len());
        at += span.len();
        (span, part)
    })
}

impl Bulk {
    /// Maps the area that the peer shares.
    pub(super) fn offered(&mut self, file: OwnedFd) -> Result<(), PeerError> {
        let nonsense = |what: &str| PeerError::Protocol(format!("its bulk area: {what}"));
        if self.peer_area.is_some() {
            return Err(nonsense("there is one already"));
        }
        let len = memfd::checked_len(&file).map_err(|error| nonsense(&error.to_string()))?;
        if len < BYTES as u64 {
            return Err(nonsense("it is too small"));
        }
        // Without address space for it the requests are refused.
        self.peer_area = Memory::map_import(&file, BYTES).ok();
        Ok(())
    }
}

/// Requests as many pieces as there is room for.
pub(super) fn request_pieces(pair: &mut Pair) -> Step {
    if pair.transfers.queue.is_empty() {
        return Step::Wait;
    }
    let lost = |own_area: &OwnArea| own_area.lost && own_area.issued.iter().all(Option::is_none);
    if pair.bulk.own_area.as_deref().is_none_or(lost) {
        match share_area(pair) {
            Ok(area) => {
                let issued = [None; PIECES];
                pair.bulk.own_area = Some(Box::new(OwnArea {
                    area,
                    lost: false,
                    issued,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Step::Again,
            // The peer has died; the end of its socket will report that.
            Err(error) if is_closed(&error) => return Step::Wait,
            Err(error) => {
                let error =
                    TransferError::Copy(format!("sharing an area to copy through: {error}"));
                if let Some(front) = pair.transfers.queue.front_mut() {
                    front.failed = Some(error);
                }
                return Step::Again;
            }
        }
    }
    while request_piece(pair) {}
    // A transfer that failed before its first request completes without a reply.
    let done =
        pair.transfers.queue.front().is_some_and(|front| {
            front.outstanding == 0 && (front.left == 0 || front.failed.is_some())
        });
    again_if(done)
}

fn share_area(pair: &mut Pair) -> io::Result<Memory> {
    let socket = pair
        .socket
        .as_ref()
        .ok_or(io::Error::from(io::ErrorKind::NotConnected))?;
    let file = memfd::create_fixed("causeway-bulk", BYTES)?;
    let area = Memory::map_object(file, BYTES, 0)?;
    let (file, _, _) = area
        .object()
        .ok_or(io::Error::from(io::ErrorKind::Unsupported))?;
    socket.send(&Record::Bulk.to_bytes(), &[file])?;
    Ok(area)
}

/// Requests one piece of the first transfer that has something left; `false` if there is none, no
/// free piece, or no room in the ring.
fn request_piece(pair: &mut Pair) -> bool {
    let Some(own_area) = pair
        .bulk
        .own_area
        .as_mut()
        .filter(|own_area| !own_area.lost)
    else {
        return false;
    };
    let Some(piece) = own_area.issued.iter().position(Option::is_none) else {
        return false;
    };
    let position = pair
        .transfers
        .queue
        .iter()
        .position(|active| active.left > 0 && active.failed.is_none());
    let Some(position) = position else {
        return false;
    };
    let Some(active) = pair.transfers.queue.get(position) else {
        return false;
    };
    let (mut local, mut remote) = (active.local, active.remote);
    let fragments: Vec<_> = remote
        .parts(&active.transfer.remote, PIECE_BYTES as u64)
        .take(MAX_FRAGMENTS)
        .map(|(region, range)| CopyFragment {
            key: region.key,
            // Wrapping: an invalid address, which the owner refuses.
            base: region.base.wrapping_add(range.start),
            len: (range.end - range.start) as u32,
        })
        .collect();
    let bytes = fragments.iter().map(|part| u64::from(part.len)).sum();
    let put = active.transfer.direction == Direction::Put;
    if put {
        let own = local.spans(&active.transfer.local, bytes);
        for (own, part) in pair_with_piece(&piece_of(&own_area.area, piece), own) {
            part.copy_from(&own);
        }
    } else {
        local.skip(&active.transfer.local, bytes);
    }
    let issued = Issued {
        transfer: active.id,
        local: active.local,
        bytes,
    };
    let request = Internal::Copy(CopyRequest {
        piece: piece as u8,
        into_regions: put,
        fragments,
    })
    .to_bytes();
    if !pair.publish(SlotKind::Internal, &request[..], request.len()) {
        return false;
    }
    if let Some(own_area) = &mut pair.bulk.own_area {
        own_area.issued[piece] = Some(issued);
    }
    if let Some(active) = pair.transfers.queue.get_mut(position) {
        (active.local, active.remote) = (local, remote);
        active.left -= bytes;
        active.outstanding += 1;
    }
    true
}

/// Handles a packet that is addressed to the method itself.
pub(super) fn take_internal(pair: &mut Pair, bytes: &[u8]) -> Result<(), PeerError> {
    let packet =
        Internal::from_bytes(bytes).map_err(|error| PeerError::Protocol(error.to_string()))?;
    match packet {
        Internal::Copy(request) => serve(pair, &request),
        Internal::Copied { piece, outcome } => take_reply(pair, piece.into(), outcome),
        Internal::Atomic(request) => atomics::serve(pair, &request),
        Internal::AtomicDone { id, outcome } => atomics::take_reply(pair, id, outcome),
    }
}

/// Copies a piece at the peer's request.
fn serve(pair: &mut Pair, request: &CopyRequest) -> Result<(), PeerError> {
    let piece = usize::from(request.piece);
    if pair.bulk.unsent.get(piece).is_none_or(Option::is_some) {
        return Err(PeerError::Protocol(
            "it requests a piece that is still in use".to_owned(),
        ));
    }
    if pair.bulk.peer_area.is_none() {
        // The area was sent before the request, but on the socket.
        pair.read_records()?;
    }
    pair.bulk.served = true;
    let outcome = copy_for_peer(pair, piece, request);
    pair.bulk.unsent[piece] = Some(outcome);
    send_replies(pair);
    Ok(())
}

fn copy_for_peer(pair: &Pair, piece: usize, request: &CopyRequest) -> CopyOutcome {
    let Some(area) = &pair.bulk.peer_area else {
        return CopyOutcome::NoArea;
    };
    let direction = if request.into_regions {
        Direction::Put
    } else {
        Direction::Get
    };
    let mut spans = Vec::with_capacity(request.fragments.len());
    for fragment in &request.fragments {
        let found = pair
            .exports
            .find(fragment.key, fragment.base, fragment.len.into(), direction);
        match found {
            Some(memory) => spans.push(memory),
            None => return CopyOutcome::Protection,
        }
    }
    // The decoder has checked that the fragments together fit a piece.
    for (memory, part) in pair_with_piece(&piece_of(area, piece), spans) {
        match direction {
            Direction::Put => memory.copy_from(&part),
            Direction::Get => part.copy_from(&memory),
        }
    }
    CopyOutcome::Done
}

/// Sends the waiting replies, as far as there is room.
pub(super) fn send_replies(pair: &mut Pair) {
    for piece in 0..PIECES {
        let Some(outcome) = pair.bulk.unsent[piece] else {
            continue;
        };
        let reply = Internal::Copied {
            piece: piece as u8,
            outcome,
        }
        .to_bytes();
        if !pair.publish(SlotKind::Internal, &reply[..], reply.len()) {
            return;
        }
        pair.bulk.unsent[piece] = None;
    }
}

/// Handles the owner's reply, once it has copied.
fn take_reply(pair: &mut Pair, piece: usize, outcome: CopyOutcome) -> Result<(), PeerError> {
    let own_area = pair.bulk.own_area.as_mut();
    let issued = own_area.and_then(|own_area| {
        own_area.lost |= outcome == CopyOutcome::NoArea;
        Some((own_area.issued.get_mut(piece)?.take()?, &own_area.area))
    });
    let Some((issued, area)) = issued else {
        return Err(PeerError::Protocol(
            "it replies to a request that was not sent".to_owned(),
        ));
    };
    let mut queue = pair.transfers.queue.iter_mut();
    let Some(active) = queue.find(|active| active.id == issued.transfer) else {
        return Ok(());
    };
    active.outstanding -= 1;
    match outcome {
        CopyOutcome::Done if active.transfer.direction == Direction::Get => {
            let mut local = issued.local;
            let own = local.spans(&active.transfer.local, issued.bytes);
            for (own, part) in pair_with_piece(&piece_of(area, piece), own) {
                own.copy_from(&part);
            }
        }
        CopyOutcome::Done => {}
        CopyOutcome::Protection => active.failed = Some(TransferError::Protection),
        CopyOutcome::NoArea => {
            active.failed = Some(TransferError::Copy(
                "the peer cannot map the area to copy through".to_owned(),
            ));
        }
    }
    Ok(())
}
