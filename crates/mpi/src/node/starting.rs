//! How operations begin in an area, or are left to messages.

use std::sync::Arc;

use causeway_engine::Memory;

use super::area::Area;
use super::call::{Call, Function};
use super::creation::Found;
use super::failure::Failure;
use super::operation::{Operation, What};
use super::parts::Parts;
use super::reading::Reading;
use super::state::{Node, Refusal};
use super::uneven::Left;
use crate::abi;
use crate::buffer::{Buffer, OwnedBuffer, check_apart, temporary};
use crate::collective::moving::{check_equal, check_root};
use crate::error::{Error, Result};
use crate::operation::Combine;
use crate::process::{Active, Process};
use crate::reduction::Kernel;

/// Up to how many bytes operations are done in an area, with two processes and with more; longer ones are done by messages, which two processes
/// copy together from one's memory into the other's.
pub(super) struct Limit {
    pub(super) two: u64,
    pub(super) more: u64,
}

/// Of a broadcast block.
const BROADCAST: Limit = Limit {
    two: 8 << 10,
    more: 64 << 10,
};
/// Of a process's operands.
pub(super) const REDUCTION: Limit = Limit {
    two: 16 << 10,
    more: 32 << 10,
};
/// Of a process's operands, the parts of all together.
const REDUCE_SCATTER: Limit = Limit {
    two: 16 << 10,
    more: 32 << 10,
};
/// Of a block that all gather.
const BLOCK: Limit = Limit {
    two: 8 << 10,
    more: 32 << 10,
};
/// Of all blocks that a process exchanges.
const EXCHANGE: Limit = Limit {
    two: 16 << 10,
    more: 16 << 10,
};

/// From how many bytes of a process's operands on an allreduce reads the others' memory: shorter ones that are too long for the area take less time by messages.
const READ_BY_ALLREDUCE: Limit = Limit {
    two: 128 << 10,
    more: 512 << 10,
};

impl Limit {
    fn is_reached(&self, bytes: u64, ranks: u32) -> bool {
        bytes >= if ranks > 2 { self.more } else { self.two }
    }

    pub(super) fn allows(&self, bytes: u64, ranks: u32) -> bool {
        bytes <= if ranks > 2 { self.more } else { self.two }
    }
}

/// From so many bytes of all operands on, each of more than two processes combines a share.
const LONG_FOR_ONE: u64 = 16 << 10;

/// State of an operation.
#[derive(Debug)]
pub enum Started {
    /// It is over.
    Done,
    /// It is to be waited for.
    Active(Active),
    /// The same, unless [`Process::is_left_to_messages`] then.
    Partial(Active),
    /// It is to be done by messages once this is done.
    Agreeing(Active),
    /// The area is to be made first ([`super::make_area`]); then it is to be begun again.
    Make,
    /// It is to be done by messages.
    ByMessages,
}

/// A reduction.
#[derive(Debug)]
pub struct Operands<'a> {
    /// The operands of this process; `None` if they are in the memory of the result.
    pub from: Option<Buffer<'a>>,
    /// Memory for the result, if this process gets it.
    pub into: Option<Buffer<'a>>,
    /// The handle of one of the standard's operations; `None` if it is one of the program's.
    pub operation: Option<usize>,
}

impl Operands<'_> {
    pub(super) fn any(&self) -> Result<&Buffer<'_>> {
        let any = self.from.as_ref().or(self.into.as_ref());
        any.ok_or_else(|| Error::new(abi::ERR_BUFFER, "there are no operands"))
    }

    /// What combines them, if they lie one behind the other and the operation is one of the standard's.
    pub(super) fn kernel(&self) -> Result<Option<Kernel>> {
        let any = self.any()?;
        let Some(operation) = self.operation else {
            return Ok(None);
        };
        let combine = Combine::predefined(operation, any.datatype)?;
        Ok(combine.kernel().filter(|_| any.is_plain()))
    }
}

/// Memory that data are received into, and for a staging buffer: itself, and the program's buffer that it is unpacked into in the end.
type Staging = (Memory, Option<(Memory, OwnedBuffer)>);

/// Memory for the data of a buffer: its own, or a staging buffer, into which they are packed first if `is_filled`.
#[inline]
pub(super) fn staging(buffer: &Buffer<'_>, is_filled: bool) -> Result<Staging> {
    match buffer.is_plain() {
        true => Ok((buffer.memory.clone(), None)),
        false => staging_elsewhere(buffer, is_filled),
    }
}

fn staging_elsewhere(buffer: &Buffer<'_>, is_filled: bool) -> Result<Staging> {
    let memory = match is_filled {
        true => buffer.packed()?,
        false => temporary(buffer.bytes()? as usize)?,
    };
    let deliver = (memory.clone(), OwnedBuffer::from(*buffer));
    Ok((memory, Some(deliver)))
}

/// What is done in an area, and data that are to be delivered in the end.
pub(super) type Begun = (What, Option<(Memory, OwnedBuffer)>);

/// An operation in which processes read each other's blocks.
type ReadingOfBlocks = fn(&Area, Option<Memory>, Memory) -> Result<Box<Reading>>;

impl Process {
    /// Begins an operation in the communicator's area, if it has one and `what` returns one. If it returns none, processes only compare their calls there.
    #[inline]
    pub(super) fn begin_in_area(
        &mut self,
        communicator: usize,
        call: Call,
        what: impl FnOnce(&Area) -> Result<Option<Begun>>,
    ) -> Result<Started> {
        let (area, number) = match self.find_area(communicator)? {
            Found::Area(area, number) => (area, number),
            Found::Make => return Ok(Started::Make),
            Found::None => return Ok(Started::ByMessages),
        };
        if area.has_failed() && area.is_too_late() {
            return self.begin_too_late(communicator, &area, number, call);
        }
        let what = match what(&area) {
            Ok(Some(what)) => what,
            Ok(None) => return self.begin_agreement(communicator, area, (number, call)),
            Err(error) => {
                self.communicator_mut(communicator)?.collectives = number;
                return Err(error);
            }
        };
        if let What::Reading(_) | What::Uneven(_) = what.0 {
            return self.begin_partial(communicator, area, (number, call), what);
        }
        let operation = Operation::new(area, (number, call), what);
        let active = self.begin_operation(communicator, operation)?;
        Ok(active.map_or(Started::Done, Started::Active))
    }

    /// Begins an operation on blocks that are too long for the area: in it if processes read each other's memory.
    #[inline(never)]
    fn begin_on_long_blocks(
        &mut self,
        communicator: usize,
        call: Call,
        (from, into): (Option<&Buffer<'_>>, &Buffer<'_>),
        reading: ReadingOfBlocks,
    ) -> Result<Started> {
        self.begin_in_area(communicator, call, |area| {
            if !area.reads_memory() {
                return Ok(None);
            }
            let from = from.map(Buffer::packed).transpose()?;
            let (into, deliver) = staging(into, from.is_none())?;
            Ok(Some((What::Reading(reading(area, from, into)?), deliver)))
        })
    }

    /// Begins an operation that may be left to messages, as a whole or in part.
    #[inline(never)]
    fn begin_partial(
        &mut self,
        communicator: usize,
        area: Arc<Area>,
        of: (u64, Call),
        what: Begun,
    ) -> Result<Started> {
        let operation = Operation::new(area, of, what);
        let active = self.begin_operation(communicator, operation)?;
        Ok(match active {
            Some(active) => Started::Partial(active),
            None if self.is_left_to_messages(communicator) => Started::ByMessages,
            None => Started::Done,
        })
    }

    /// Begins to compare the calls of an operation that is done by messages then.
    #[inline(never)]
    fn begin_agreement(
        &mut self,
        communicator: usize,
        area: Arc<Area>,
        (number, call): (u64, Call),
    ) -> Result<Started> {
        let of = (number, call.by_messages());
        let operation = Operation::new(area, of, (What::Agreement, None));
        let found = self.communicator_mut(communicator)?;
        // The messages take the number.
        found.collectives = number;
        if let Node::Ready(ready) = &mut found.node {
            ready.agreed = Some(operation.agreed(Left::ALL));
        }
        let active = self.begin_operation(communicator, operation)?;
        Ok(active.map_or(Started::ByMessages, Started::Agreeing))
    }

    /// Begins an operation that cannot be done in its area, which has failed.
    #[cold]
    fn begin_too_late(
        &mut self,
        communicator: usize,
        area: &Area,
        number: u64,
        call: Call,
    ) -> Result<Started> {
        let failure = area.failure();
        let refused = self.count_refused(communicator, area, call);
        let number = number + u64::from(refused.is_some());
        if failure.phase().is_some() && !area.leave(number) {
            let communicator = self.communicator_mut(communicator)?;
            communicator.collectives = number;
            communicator.node = Node::Never;
            return Ok(Started::ByMessages);
        }
        Err(self.give_up_area(communicator, area, &failure, (number, u64::MAX), call))
    }

    /// Does what is to be done if this process does not begin an operation that may be done in the communicator's area, because of this error. An error of arguments leaves no
    /// trace for the others: it may be that only this process has called. Otherwise they return an error of the same class. Returns the error, or that the area is to be made
    /// first, in which this process takes part all the same.
    #[cold]
    pub fn refuse_in_area(
        &mut self,
        communicator: usize,
        name: &'static str,
        error: Error,
    ) -> Result<Started> {
        if error.communicator().is_some() {
            return Err(error);
        }
        let call = Call::named(name);
        if error.is_of_arguments() {
            self.note_refused(communicator, name, &error);
            if let Ok(found) = self.communicator_mut(communicator)
                && let Node::Ready(ready) = &mut found.node
            {
                ready.refusal = Some(Refusal {
                    call,
                    class: error.code(),
                    phase: ready.area.next_phase(),
                    is_counted: false,
                });
            }
            return Err(error.on(communicator));
        }
        match self.find_area(communicator) {
            Ok(Found::Area(area, number)) if area.is_too_late() => {
                let failed = self.begin_too_late(communicator, &area, number, call);
                Err(match failed {
                    Ok(_) => self.refuse_collective(communicator, name, error),
                    Err(_) => error.on(communicator),
                })
            }
            Ok(Found::Area(area, number)) => {
                let failure = Failure::Refused {
                    rank: area.rank,
                    call,
                    class: error.code(),
                    phase: area.take(1),
                };
                let first = failure.phase().unwrap_or(0);
                self.give_up_area(communicator, &area, &failure, (number, first), call);
                Err(error.on(communicator))
            }
            Ok(Found::Make) => Ok(Started::Make),
            Ok(Found::None) | Err(_) => Err(self.refuse_collective(communicator, name, error)),
        }
    }

    /// A barrier.
    #[inline]
    pub fn barrier_in_area(&mut self, communicator: usize) -> Result<Started> {
        let call = Call::new(Function::Barrier, 0);
        self.begin_in_area(communicator, call, |_| Ok(Some((What::Barrier, None))))
    }

    /// A broadcast.
    pub fn broadcast_in_area(
        &mut self,
        buffer: &Buffer<'_>,
        root: i32,
        communicator: usize,
    ) -> Result<Started> {
        let bytes = buffer.bytes()?;
        let Some(root) = self.root_in_area(root, communicator)? else {
            return Ok(Started::ByMessages);
        };
        let call = Call::new(Function::Bcast, bytes).with_root(root);
        self.begin_in_area(communicator, call, |area| {
            if !BROADCAST.allows(bytes, area.ranks) {
                return Ok(None);
            }
            let (memory, deliver) = match area.rank == root {
                true => (buffer.packed()?, None),
                false => staging(buffer, false)?,
            };
            Ok(Some((What::Broadcast { root, memory }, deliver)))
        })
    }

    /// Whether a reduction counts among the operations after which a communicator gets an area. In earlier formats those by operations of the program do not, and processes that count
    /// differently would make the area at different calls.
    #[inline]
    fn counts_as_use(&self, of: &Operands<'_>, communicator: usize) -> Result<bool> {
        Ok(of.operation.is_some() || self.all_compare_calls(self.communicator(communicator)?))
    }

    /// A reduction whose result the root gets, or all if there is none.
    pub fn reduce_in_area(
        &mut self,
        of: &Operands<'_>,
        root: Option<i32>,
        communicator: usize,
    ) -> Result<Started> {
        if !self.counts_as_use(of, communicator)? {
            return Ok(Started::ByMessages);
        }
        let root = match root {
            None => None,
            Some(root) => match self.root_in_area(root, communicator)? {
                Some(root) => Some(root),
                None => return Ok(Started::ByMessages),
            },
        };
        let kernel = of.kernel()?;
        let bytes = of.any()?.bytes()?;
        let call = match root {
            Some(root) => Call::new(Function::Reduce, bytes).with_root(root),
            None => Call::new(Function::Allreduce, bytes),
        };
        let unit = kernel.as_ref().map_or(0, Kernel::unit);
        let call = call.with_elements(of.operation, unit, &[]);
        if let (Some(from), Some(into)) = (&of.from, &of.into) {
            check_apart(from.memory, into.memory)?;
        }
        let from = of.any()?.memory.clone();
        // Where there is no result, nothing is written.
        let into = of.into.as_ref().map_or(&from, |into| into.memory).clone();
        if kernel.is_some() {
            check_equal(from.len(), into.len())?;
        }
        self.begin_in_area(communicator, call, |area| {
            let Some(kernel) = kernel else {
                return Ok(None);
            };
            if !REDUCTION.allows(bytes, area.ranks) {
                let is_long = READ_BY_ALLREDUCE.is_reached(bytes, area.ranks);
                if root.is_some() || !is_long || !area.reads_memory() {
                    return Ok(None);
                }
                let reading = Reading::reduce(area, from, into, kernel)?;
                return Ok(Some((What::Reading(reading), None)));
            }
            let is_long = bytes * u64::from(area.ranks) >= LONG_FOR_ONE && area.ranks > 2;
            let what = match root {
                None if is_long => What::ReduceByShares { from, into, kernel },
                root => What::Reduce {
                    root,
                    from,
                    into,
                    kernel,
                },
            };
            Ok(Some((what, None)))
        })
    }

    /// A reduction of which each process gets a part: so many elements.
    pub fn reduce_scatter_in_area(
        &mut self,
        of: &Operands<'_>,
        parts: &[u64],
        communicator: usize,
    ) -> Result<Started> {
        if !self.counts_as_use(of, communicator)? {
            return Ok(Started::ByMessages);
        }
        let kernel = of.kernel()?;
        let from = of.any()?;
        let bytes = from.bytes()?;
        let unit = kernel.as_ref().map_or(0, Kernel::unit);
        let element = bytes / from.count.max(1);
        let part_bytes = Vec::from_iter(parts.iter().map(|part| part * element));
        let call = Call::new(Function::ReduceScatter, bytes);
        let call = call.with_elements(of.operation, unit, &part_bytes);
        let found = self.communicator(communicator)?;
        let (rank, ranks) = (found.rank(), found.size());
        let into = of.into.as_ref().map_or(from.memory, |into| into.memory);
        let extent = from.memory.len() / (from.count.max(1) as usize);
        let parts = match parts {
            [first, rest @ ..] if rest.iter().all(|part| part == first) => {
                Parts::Even(*first as usize * extent)
            }
            _ => {
                let mut end = 0;
                let bounds = parts.iter().map(|part| {
                    end += *part as usize * extent;
                    end
                });
                Parts::Bounds(bounds.collect())
            }
        };
        if kernel.is_some() {
            let (own, end) = (parts.range(rank).len(), parts.range(ranks - 1).end);
            check_equal(from.memory.len(), end)?;
            check_equal(into.len().min(own), own)?;
        }
        self.begin_in_area(communicator, call, |area| {
            let Some(kernel) = kernel else {
                return Ok(None);
            };
            let (from, into) = (from.memory.clone(), into.clone());
            if !REDUCE_SCATTER.allows(bytes, area.ranks) {
                if !area.reads_memory() {
                    return Ok(None);
                }
                let reading = Reading::reduce_scatter(area, from, into, parts, kernel)?;
                return Ok(Some((What::Reading(reading), None)));
            }
            let what = What::ReduceScatter {
                from,
                into,
                parts,
                kernel,
            };
            Ok(Some((what, None)))
        })
    }

    /// An allgather into equal blocks, which are the elements of `into`; `from` is `None` if this process's block is in its
    /// place already.
    pub fn allgather_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        into: &Buffer<'_>,
        communicator: usize,
    ) -> Result<Started> {
        let bytes = into.bytes()?;
        let ranks = self.communicator(communicator)?.size();
        let block = bytes / u64::from(ranks);
        if let Some(from) = from {
            check_equal(from.bytes()? as usize, block as usize)?;
        }
        let call = Call::new(Function::Allgather, block);
        if !BLOCK.allows(block, ranks) {
            return self.begin_on_long_blocks(communicator, call, (from, into), Reading::gather);
        }
        self.begin_in_area(communicator, call, |_| {
            let from = from.map(Buffer::packed).transpose()?;
            let (into, deliver) = staging(into, from.is_none())?;
            Ok(Some((What::Gather { from, into }, deliver)))
        })
    }

    /// An exchange of equal blocks; `from` is `None` if they are exchanged in place.
    pub fn alltoall_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        into: &Buffer<'_>,
        communicator: usize,
    ) -> Result<Started> {
        let bytes = into.bytes()?;
        let ranks = self.communicator(communicator)?.size();
        if let Some(from) = from {
            check_equal(from.bytes()? as usize, bytes as usize)?;
            check_apart(from.memory, into.memory)?;
        }
        let block = bytes / u64::from(ranks);
        let call = Call::new(Function::Alltoall, block);
        if !EXCHANGE.allows(bytes, ranks) {
            return self.begin_on_long_blocks(communicator, call, (from, into), Reading::exchange);
        }
        self.begin_in_area(communicator, call, |_| {
            let from = from.map(Buffer::packed).transpose()?;
            let parts = Parts::Even(block as usize);
            let (into, deliver) = staging(into, from.is_none())?;
            Ok(Some((What::Exchange { from, into, parts }, deliver)))
        })
    }

    /// The root of an operation; none over inter-communicators, which have no areas.
    pub(super) fn root_in_area(&self, root: i32, communicator: usize) -> Result<Option<u32>> {
        let communicator = self.communicator(communicator)?;
        match communicator.remote {
            Some(_) => Ok(None),
            None => check_root(root, communicator.size()).map(Some),
        }
    }
}
