//! The operands of reductions, and how one process gets the result: all algorithms combine neighbouring ranges of ranks only, the lower one as
//! the left operand.

use causeway_engine::Memory;

use super::position::Position;
use crate::abi;
use crate::buffer::{OwnedBuffer, check_apart, scratch, temporary};
use crate::checking::Data;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::operation::{Combine, Operation};
use crate::steps::Steps;

/// Operands of a reduction.
#[derive(Debug, Clone)]
pub struct Reduction {
    /// The operands of this process; `None` if they are in the memory of the result.
    pub from: Option<Memory>,
    /// Memory for the result, of as many bytes.
    pub into: Memory,
    /// Elements.
    pub count: u64,
    pub(crate) what: Combine,
    pub(super) datatype: Datatype,
    /// Copies to make first: operands that are not in the layout in which they are combined.
    laid_out: Vec<(OwnedBuffer, Layout)>,
    /// The layout that has the result, and the program's memory for it, if that is another.
    deliver: Option<(Layout, OwnedBuffer)>,
}

/// Memory in which elements are combined, where that is not the program's.
#[derive(Debug, Clone)]
enum Layout {
    /// Their hull, at distances of one extent, for the standard's operations on pairs.
    Hull(Memory),
    /// Packed, for operations of the program.
    Packed(Memory),
}

/// Memory in which elements are combined, and its layout if it is not the program's.
fn laid_out(buffer: &OwnedBuffer, what: &Combine) -> Result<(Memory, Option<Layout>)> {
    if buffer.datatype.is_contiguous() {
        return Ok((buffer.memory.clone(), None));
    }
    if what.kernel().is_none() {
        let packed = temporary(buffer.bytes_of_data()? as usize)?;
        return Ok((packed.clone(), Some(Layout::Packed(packed))));
    }
    let hull = buffer.datatype.hull(buffer.count)?;
    let step = u64::try_from(buffer.datatype.extent()).ok();
    let all = step.and_then(|step| step.checked_mul(buffer.count));
    let all = all.filter(|all| hull.start >= 0 && hull.end as u64 <= *all);
    let all = all.ok_or_else(|| {
        let text = "the standard's operations need elements that lie one behind the other";
        Error::new(abi::ERR_OP, text)
    })?;
    let memory = temporary(all as usize)?;
    let part = memory.slice(hull.start as usize..hull.end as usize);
    Ok((memory, Some(Layout::Hull(part))))
}

/// Copies combined elements to the program's memory.
fn copy_out(steps: &mut Steps, layout: &Layout, into: &OwnedBuffer) {
    match layout {
        Layout::Hull(hull) => steps.copy(hull, &into.memory),
        Layout::Packed(packed) => steps.unpack(packed, into),
    }
}

impl Reduction {
    /// A reduction of `count` elements by one of the standard's operations, or of the program's, given with the handle of
    /// the datatype. `from` is `None` if the operands are in the memory of the result; `into` is `None` if only other
    /// processes get the result.
    pub fn new(
        what: Result<(Operation, usize), usize>,
        datatype: &Datatype,
        from: Option<&OwnedBuffer>,
        into: Option<&OwnedBuffer>,
    ) -> Result<Self> {
        let what = match what {
            Ok((operation, handle)) => Combine::Program {
                operation,
                handle,
                datatype: datatype.clone(),
            },
            Err(operation) => Combine::predefined(operation, datatype)?,
        };
        if let (Some(from), Some(into)) = (from, into) {
            check_apart(&from.memory, &into.memory)?;
        }
        let count = into.or(from).map_or(0, |buffer| buffer.count);
        let mut copies = Vec::new();
        let mut lay_out = |buffer: &OwnedBuffer| {
            let (memory, layout) = laid_out(buffer, &what)?;
            copies.extend(layout.clone().map(|layout| (buffer.clone(), layout)));
            Ok::<_, Error>((memory, layout))
        };
        let from = from.map(&mut lay_out).transpose()?;
        let from = from.map(|(memory, _)| memory);
        let (result, deliver) = match into {
            Some(into) => {
                let (memory, layout) = lay_out(into)?;
                (memory, layout.map(|layout| (layout, into.clone())))
            }
            None => {
                let size = from.as_ref().map_or(0, Memory::len);
                (scratch(size)?, None)
            }
        };
        Ok(Self {
            from,
            into: result,
            count,
            what,
            datatype: datatype.clone(),
            laid_out: copies,
            deliver,
        })
    }

    /// The first steps: copy the operands of this process into the memory of the result.
    pub(super) fn prepare(&self, steps: &mut Steps) {
        self.lay_out(steps);
        if let Some(from) = &self.from {
            steps.copy(from, &self.into);
        }
    }

    pub(super) fn lay_out(&self, steps: &mut Steps) {
        for (from, layout) in &self.laid_out {
            match layout {
                Layout::Hull(hull) => steps.copy(&from.memory, hull),
                Layout::Packed(packed) => steps.pack(from, packed),
            }
        }
    }

    /// Describes the call, so that it can be compared with those of other processes.
    pub(super) fn describe(&self, steps: &mut Steps, is_checked: bool) -> Result<()> {
        steps.described.operation = self.what.number();
        steps.described.bytes = self.into.len() as u64;
        steps.is_exact = true;
        if is_checked {
            steps.described.data = Some(Data::of(&self.datatype, self.count)?);
        }
        Ok(())
    }

    /// The elements of each process, as parts of memory that has those of all processes.
    pub(super) fn blocks(&self, memory: &Memory, parts: &[u64]) -> Result<Vec<Memory>> {
        let unit = self.unit() as u64;
        let mut at = 0;
        let block = |part: &u64| {
            let end = part.checked_mul(unit).and_then(|len| len.checked_add(at));
            let end = end.filter(|end| *end <= memory.len() as u64)?;
            Some(memory.slice(std::mem::replace(&mut at, end) as usize..end as usize))
        };
        let blocks: Option<Vec<_>> = parts.iter().map(block).collect();
        blocks.ok_or_else(|| Error::new(abi::ERR_COUNT, "the parts are more than the whole"))
    }

    /// Copies the program's part of a result into its memory.
    pub(super) fn copy_result(
        &self,
        steps: &mut Steps,
        block: &Memory,
        mine: &OwnedBuffer,
    ) -> Result<()> {
        match laid_out(mine, &self.what)?.1 {
            None => steps.copy(block, &mine.memory),
            Some(Layout::Packed(_)) => steps.unpack(block, mine),
            Some(Layout::Hull(_)) => {
                let hull = mine.datatype.hull(mine.count)?;
                let block = block.slice(hull.start as usize..hull.end as usize);
                steps.copy(&block, &mine.memory);
            }
        }
        Ok(())
    }

    /// The last steps.
    pub(super) fn deliver(&self, steps: &mut Steps) {
        if let Some((layout, into)) = &self.deliver {
            steps.fence();
            copy_out(steps, layout, into);
        }
    }

    pub(super) fn unit(&self) -> usize {
        self.into.len() / (self.count.max(1) as usize)
    }
}

/// Rank 0 has all blocks, and sends each to its process.
pub(super) fn deliver_parts(steps: &mut Steps, position: Position, blocks: &[Memory]) {
    if position.rank == 0 {
        for rank in 1..position.size {
            steps.send(rank, blocks[rank as usize].clone());
        }
    } else {
        steps.receive(0, blocks[position.rank as usize].clone());
    }
    steps.fence();
}

/// Each process combines its part with those of the processes whose relative rank differs in one bit, lowest bit first. The operands are laid out; the result is where it
/// belongs on the root.
pub(super) fn reduce_by_tree(
    steps: &mut Steps,
    position: Position,
    root: u32,
    of: &Reduction,
) -> Result<()> {
    let relative = position.relative_to(root);
    // What this process has combined so far: its operands, which stay as they are, the place of the result, or memory beside it.
    let mut own = of.from.as_ref().unwrap_or(&of.into).clone();
    let mut is_in_place = of.from.is_none();
    let mut beside = None;
    let mut mask = 1;
    while mask < position.size {
        if relative & mask != 0 {
            steps.fence();
            steps.send(position.absolute(relative - mask, root), own);
            steps.fence();
            return Ok(());
        }
        if relative + mask < position.size {
            let other = match (is_in_place, &beside) {
                (false, _) => of.into.clone(),
                (true, Some(beside)) => Memory::clone(beside),
                (true, None) => beside.insert(scratch(own.len())?).clone(),
            };
            steps.receive(position.absolute(relative + mask, root), other.clone());
            steps.fence();
            if is_in_place && of.what.commutes() {
                steps.combine(&of.what, &other, &own, of.count);
            } else {
                // The range of this process's ranks is the lower one.
                steps.combine(&of.what, &own, &other, of.count);
                own = other;
                is_in_place = !is_in_place;
            }
        }
        mask *= 2;
    }
    if !is_in_place {
        steps.copy(&own, &of.into);
    }
    Ok(())
}
