//! How scans, gathers, scatters and operations with counts for each process begin in an area, or are left to messages.

use causeway_engine::Memory;
use smallvec::SmallVec;

use super::call::{Call, Function};
use super::operation::What;
use super::parts::Parts;
use super::reading::Reading;
use super::starting::{Limit, Operands, REDUCTION, Started, staging};
use super::uneven::{Kind, Side, Uneven, fits};
use crate::buffer::{Buffer, check_apart};
use crate::collective::Scan;
use crate::collective::moving::check_equal;
use crate::error::Result;
use crate::process::Process;
use crate::reduction::Kernel;

/// Of a block that the root or all gather. A slot has room for no more than 8 KiB; between two processes, that many take less time by a message if their processors
/// are far from each other.
const BLOCK: Limit = Limit {
    two: 4 << 10,
    more: 8 << 10,
};

/// The side of a process that sends one block.
fn packed(from: Option<&Buffer<'_>>) -> Result<Option<Side>> {
    let from = from.map(Buffer::packed).transpose()?;
    Ok(from.map(Side::one))
}

impl Process {
    /// Whether these operations may be done in the communicator's area. If not, they are done by messages, and do not count among those after which it gets one.
    #[inline]
    pub fn may_be_in_area(&self, communicator: usize) -> Result<bool> {
        let is_inter = self.communicator(communicator)?.remote.is_some();
        Ok(!is_inter && self.all_do_uneven(communicator)?)
    }

    /// A gather of equal blocks to the root, where they are the elements of `into`; `from` is `None` if the root's own is in its place already.
    pub fn gather_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        into: Option<&Buffer<'_>>,
        root: i32,
        communicator: usize,
    ) -> Result<Started> {
        let Some(root) = self.root_in_area(root, communicator)? else {
            return Ok(Started::ByMessages);
        };
        let ranks = self.communicator(communicator)?.size();
        let sent = from.map(|from| from.bytes()).transpose()?;
        let received = into.map(|into| into.bytes()).transpose()?;
        let received = received.map(|bytes| bytes / u64::from(ranks));
        let block = received.or(sent).unwrap_or(0);
        check_equal(sent.unwrap_or(block) as usize, block as usize)?;
        let call = Call::new(Function::Gather, block).with_root(root);
        self.begin_in_area(communicator, call, |area| {
            if !BLOCK.allows(block, area.ranks) {
                return Ok(None);
            }
            let staged = into.map(|into| staging(into, from.is_none())).transpose()?;
            let (memory, deliver) = staged.unzip();
            let into = memory.map(|memory| Side::new(memory, Parts::Even(block as usize)));
            let uneven = Uneven::new(Kind::Gather, Some(root), packed(from)?, into);
            Ok(Some((What::Uneven(uneven), deliver.flatten())))
        })
    }

    /// The same with blocks of any lengths, which the root receives into one side.
    pub fn gatherv_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        into: Option<Side>,
        root: i32,
        communicator: usize,
    ) -> Result<Started> {
        let Some(root) = self.root_in_area(root, communicator)? else {
            return Ok(Started::ByMessages);
        };
        if let (Some(from), Some(into)) = (from, &into) {
            check_equal(from.bytes()? as usize, into.len(root))?;
        }
        let call = Call::new(Function::Gatherv, 0).with_root(root);
        self.begin_in_area(communicator, call, |_| {
            let uneven = Uneven::new(Kind::Gather, Some(root), packed(from)?, into);
            Ok(Some((What::Uneven(uneven), None)))
        })
    }

    /// A scatter of equal blocks, which are the elements of the root's `from`; `into` is `None` if the root's own stays in its place.
    pub fn scatter_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        into: Option<&Buffer<'_>>,
        root: i32,
        communicator: usize,
    ) -> Result<Started> {
        let Some(root) = self.root_in_area(root, communicator)? else {
            return Ok(Started::ByMessages);
        };
        let ranks = self.communicator(communicator)?.size();
        let sent = from.map(|from| from.bytes()).transpose()?;
        let received = into.map(|into| into.bytes()).transpose()?;
        let sent = sent.map(|bytes| bytes / u64::from(ranks));
        let block = sent.or(received).unwrap_or(0);
        check_equal(block as usize, received.unwrap_or(block) as usize)?;
        let call = Call::new(Function::Scatter, block).with_root(root);
        self.begin_in_area(communicator, call, |area| {
            if !fits(block, area.ranks) {
                return Ok(None);
            }
            let from = from.map(|from| from.packed()).transpose()?;
            let from = from.map(|memory| Side::new(memory, Parts::Even(block as usize)));
            let staged = into.map(|into| staging(into, false)).transpose()?;
            let (into, deliver) = staged.unzip();
            let uneven = Uneven::new(Kind::Scatter, Some(root), from, into.map(Side::one));
            Ok(Some((What::Uneven(uneven), deliver.flatten())))
        })
    }

    /// The same with blocks of any lengths, which the root sends from one side.
    pub fn scatterv_in_area(
        &mut self,
        from: Option<Side>,
        into: Option<&Buffer<'_>>,
        root: i32,
        communicator: usize,
    ) -> Result<Started> {
        let Some(root) = self.root_in_area(root, communicator)? else {
            return Ok(Started::ByMessages);
        };
        if let (Some(from), Some(into)) = (&from, into) {
            check_equal(from.len(root), into.bytes()? as usize)?;
        }
        let call = Call::new(Function::Scatterv, 0).with_root(root);
        self.begin_in_area(communicator, call, |_| {
            let staged = into.map(|into| staging(into, false)).transpose()?;
            let (into, deliver) = staged.unzip();
            let uneven = Uneven::new(Kind::Scatter, Some(root), from, into.map(Side::one));
            Ok(Some((What::Uneven(uneven), deliver.flatten())))
        })
    }

    /// An allgather of blocks of any lengths, which all processes know; `from` is `None` if this process's is in its place already.
    pub fn allgatherv_in_area(
        &mut self,
        from: Option<&Buffer<'_>>,
        mut into: Side,
        communicator: usize,
    ) -> Result<Started> {
        let found = self.communicator(communicator)?;
        let (rank, ranks) = (found.rank(), found.size());
        match from {
            Some(from) => check_equal(from.bytes()? as usize, into.len(rank))?,
            None => into.fill(rank)?,
        }
        let lens = SmallVec::<[u64; 8]>::from_iter((0..ranks).map(|rank| into.len(rank) as u64));
        let call = Call::new(Function::Allgatherv, 0).with_elements(None, 1, &lens);
        self.begin_in_area(communicator, call, |area| {
            if lens.iter().any(|len| !BLOCK.allows(*len, area.ranks)) {
                if !area.reads_memory() {
                    return Ok(None);
                }
                let from = from.map(Buffer::packed).transpose()?;
                let reading = Reading::gather_uneven(area.rank, from, into);
                return Ok(Some((What::Reading(reading), None)));
            }
            let uneven = Uneven::new(Kind::Gather, None, packed(from)?, Some(into));
            Ok(Some((What::Uneven(uneven), None)))
        })
    }

    /// An exchange of blocks of any lengths; `from` is `None` if they are exchanged in place.
    pub fn alltoallv_in_area(
        &mut self,
        from: Option<Side>,
        into: Side,
        communicator: usize,
    ) -> Result<Started> {
        let found = self.communicator(communicator)?;
        let (rank, ranks) = (found.rank(), found.size());
        if let Some(from) = &from {
            (0..ranks).try_for_each(|rank| from.check_apart(&into, rank))?;
            check_equal(from.len(rank), into.len(rank))?;
        }
        let call = Call::new(Function::Alltoallv, 0);
        self.begin_in_area(communicator, call, |_| {
            let uneven = Uneven::new(Kind::Scatter, None, from, Some(into));
            Ok(Some((What::Uneven(uneven), None)))
        })
    }

    /// A reduction over the ranks up to each process's, or below it.
    pub fn scan_in_area(
        &mut self,
        of: &Operands<'_>,
        kind: Scan,
        communicator: usize,
    ) -> Result<Started> {
        let kernel = of.kernel()?;
        let bytes = of.any()?.bytes()?;
        let function = match kind {
            Scan::Inclusive => Function::Scan,
            Scan::Exclusive => Function::Exscan,
        };
        let unit = kernel.as_ref().map_or(0, Kernel::unit);
        let call = Call::new(function, bytes).with_elements(of.operation, unit, &[]);
        if let (Some(from), Some(into)) = (&of.from, &of.into) {
            check_apart(from.memory, into.memory)?;
        }
        let from: Memory = of.any()?.memory.clone();
        let into = of.into.as_ref().map_or(&from, |into| into.memory).clone();
        if kernel.is_some() {
            check_equal(from.len(), into.len())?;
        }
        self.begin_in_area(communicator, call, |area| {
            let kernel = kernel.filter(|_| REDUCTION.allows(bytes, area.ranks));
            Ok(kernel.map(|kernel| {
                let is_exclusive = kind == Scan::Exclusive;
                let what = What::Scan {
                    from,
                    into,
                    kernel,
                    is_exclusive,
                };
                (what, None)
            }))
        })
    }
}
