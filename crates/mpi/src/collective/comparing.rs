//! The checking mode's first steps of every operation.

use std::sync::Arc;

use super::{ring, split};
use crate::buffer::temporary;
use crate::checking::{self, Comparison};
use crate::error::Result;
use crate::process::Process;
use crate::steps::{Step, Steps};

impl Process {
    /// Has all processes exchange and compare descriptions of their calls before the operation.
    pub(crate) fn prepend_comparison(&self, steps: &mut Steps) -> Result<()> {
        let sites = self.sites(steps.communicator)?;
        let (place, rotation) = sites.all();
        let memory = temporary(place.size as usize * checking::BYTES)?;
        let blocks = split(&memory, place.size);
        let mut before = Steps::on(steps.communicator);
        before.rotate(rotation);
        before.copy(&steps.described.encode(), &blocks[place.rank as usize]);
        ring(&mut before, place, &blocks, &blocks[place.rank as usize]);
        before.list.push(Step::Compare(Arc::new(Comparison {
            descriptions: blocks,
            is_whole: sites.remote.is_none(),
        })));
        before.list.append(&mut steps.list);
        steps.list = before.list;
        Ok(())
    }
}
