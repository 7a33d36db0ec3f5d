//! The checking mode's first steps of every operation.

use std::sync::Arc;

use causeway_engine::Memory;
use causeway_wire::contact::CHECKED_DATA;

use super::blocks::{Blocks, split};
use super::position::Position;
use super::spreading::ring;
use crate::buffer::temporary;
use crate::checking::{self, Comparison, Data};
use crate::error::Result;
use crate::process::Process;
use crate::steps::{Step, Steps};

impl Process {
    /// Has all processes exchange and compare descriptions of their calls before the operation, and what they send to each other in it.
    pub(crate) fn prepend_comparison(&self, steps: &mut Steps) -> Result<()> {
        let positions = self.positions(steps.communicator)?;
        let has_data = self.all_know(self.communicator(steps.communicator)?, CHECKED_DATA);
        let (position, rotation) = positions.all();
        let is_inter = positions.remote.is_some();
        let mut before = Steps::on(steps.communicator);
        before.rotate(rotation);
        let own = steps.described.encode(has_data);
        let len = checking::bytes_of_description(has_data);
        let descriptions = told_to_all(&mut before, position, len, &own)?;
        let start = position.rank - positions.local.rank;
        let group = is_inter.then_some(start..start + positions.local.size);
        before.compare(Comparison::Calls {
            descriptions,
            group,
        });
        // All processes have called the same: either all of them exchange data, or none.
        if has_data && steps.is_exchange {
            let exchanged = std::mem::take(&mut steps.exchanged);
            before.rotate((0, 0));
            let mut came = Vec::with_capacity(exchanged.expected.len());
            for (from, expected) in exchanged.expected {
                let into = checking::received()?;
                before.receive(from, into.clone());
                came.push((from, expected, into));
            }
            for (to, data) in exchanged.sent {
                before.send(to, checking::sent(data));
            }
            before.fence();
            let finding = temporary(checking::FINDING)?;
            before.compare(Comparison::Data {
                name: steps.described.name,
                rank: positions.local.rank,
                is_inter,
                came,
                finding: finding.clone(),
            });
            before.rotate(rotation);
            let findings = told_to_all(&mut before, position, checking::FINDING, &finding)?;
            before.compare(Comparison::Findings(findings));
        }
        before.list.append(&mut steps.list);
        steps.list = before.list;
        Ok(())
    }
}

/// Tells all processes what this one has. Returns what each has told.
fn told_to_all(
    steps: &mut Steps,
    position: Position,
    len: usize,
    own: &Memory,
) -> Result<Vec<Memory>> {
    let memory = temporary(position.size as usize * len)?;
    let blocks = split(&memory, position.size);
    let at = &blocks[position.rank as usize];
    steps.copy(own, at);
    ring(steps, position, &blocks, at);
    Ok(blocks)
}

impl Steps {
    fn compare(&mut self, comparison: Comparison) {
        self.list.push(Step::Compare(Arc::new(comparison)));
    }

    /// Notes for the checking mode that each process sends to some others, and receives from some: what this one does.
    pub(super) fn exchanges(&mut self, sent: Vec<(u32, Data)>, expected: Vec<(u32, Data)>) {
        self.is_exchange = true;
        self.exchanged.sent = sent;
        self.exchanged.expected = expected;
    }
}

/// The data of blocks for the ranks of a group, but for this process's own.
pub(super) fn of_ranks(blocks: Option<&Blocks>, own: Option<u32>) -> Result<Vec<(u32, Data)>> {
    let data = blocks.map(Blocks::data).transpose()?.unwrap_or_default();
    let ranked = (0..).zip(data).filter(|(rank, _)| Some(*rank) != own);
    Ok(ranked.collect())
}

/// The one block that a process has for the root, or the same of the root.
pub(super) fn of_root(block: Option<&Blocks>, root: i32) -> Result<Vec<(u32, Data)>> {
    let data = block.map(Blocks::data).transpose()?.unwrap_or_default();
    let root = u32::try_from(root).ok();
    Ok(root.into_iter().zip(data).collect())
}
