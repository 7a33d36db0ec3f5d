//! Reading: from beside the metadata or from datafiles, verified where the bytes arrive.

use causeway_bmi::Memory;
use causeway_wire::fs::{Answer, Body, Distribution, Errno, Operation, Region, WantedSums};

use super::cutter::Cutter;
use super::io::{FORM_CHANGES, WaitStages, busiest, restless};
use super::names::node;
use super::rpc::{Trouble, unfit};
use super::stages::StageClock;
use super::transfer::Way;
use super::{Client, File};

/// The stages of the wait for I/O servers.
const READING: WaitStages = ["read: messages", "read: copy", "read: storage"];

/// What came of reading datafiles.
struct Fetched {
    /// Some of the bytes lay behind a datafile's end.
    behind_end: bool,
    /// Position of a server, blocks from which do not match the sums that came with them.
    altered: Option<usize>,
}

impl Client {
    pub(super) fn read_round(
        &mut self,
        file: &mut File,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<u64, Trouble> {
        self.check_access(file, Way::Read)?;
        for _ in 0..FORM_CHANGES {
            match &file.node.body {
                Body::Striped {
                    truncating: Some(_),
                    ..
                } => self.finish_truncation(file)?,
                Body::Striped { distribution, .. } => {
                    let distribution = distribution.clone();
                    let count = self.read_striped(file, &distribution, regions, memory)?;
                    if let Some(count) = count {
                        return Ok(count);
                    }
                }
                Body::Stuffed { .. } => {
                    if let Some(content) = self.stuffed_content(file)? {
                        return Ok(deliver_content(&content, regions, memory));
                    }
                }
                Body::Directory(_) => return Err(Trouble::local(Errno::EISDIR, "")),
                Body::Link(_) => return Err(Trouble::local(Errno::EINVAL, "a symbolic link")),
            }
        }
        Err(restless())
    }

    /// The content of a stuffed file: what came with the opening once, then what the server has. `None`
    /// if the file is not stuffed any more, which `file` then says.
    fn stuffed_content(&mut self, file: &mut File) -> Result<Option<Vec<u8>>, Trouble> {
        if let Some(content) = file.opened_content.take() {
            return Ok(Some(content));
        }
        let operation = Operation::GetNode {
            object: file.node.object,
            content: true,
        };
        file.see(self.query(operation).and_then(node)?);
        match &mut file.node.body {
            Body::Stuffed { content, .. } => Ok(Some(content.take().unwrap_or_default())),
            _ => Ok(None),
        }
    }

    /// `None` if the file was cut meanwhile, which `file` then says.
    fn read_striped(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        regions: &[Region],
        memory: &[Memory],
    ) -> Result<Option<u64>, Trouble> {
        let mut altered = 0;
        // Blocks that are written while they are read do not match the stored sums. What does not match the sums
        // of what was sent has changed on the way.
        for sums in [WantedSums::Stored, WantedSums::Sent, WantedSums::Sent] {
            let Some(fetched) = self.fetch(file, distribution, regions, memory, sums)? else {
                return Ok(None);
            };
            let Some(position) = fetched.altered else {
                return self.count_read(file, regions, fetched.behind_end).map(Some);
            };
            tracing::debug!(
                object = file.node.object.0,
                position,
                ?sums,
                "altered blocks"
            );
            altered = position;
        }
        let server = self.io_server(distribution, altered)?;
        Err(self.rpc.altered(server))
    }

    /// How many of the bytes that were read lie before the end of the file.
    fn count_read(
        &mut self,
        file: &mut File,
        regions: &[Region],
        behind_end: bool,
    ) -> Result<u64, Trouble> {
        let total = regions.iter().map(|region| region.len).sum();
        if !behind_end && bytes_before(regions, file.node.attributes.size) == total {
            return Ok(total);
        }
        // Behind a datafile's end there is a hole of the file, or nothing; and a datafile may reach
        // further than the file, if the size of a write was never recorded: only the size tells.
        let operation = Operation::GetNode {
            object: file.node.object,
            content: false,
        };
        file.see(self.query(operation).and_then(node)?);
        Ok(bytes_before(regions, file.node.attributes.size))
    }

    /// Reads from the datafiles into the memory, and verifies there what comes with sums. `None` if the file was
    /// cut meanwhile, which `file` then says.
    fn fetch(
        &mut self,
        file: &mut File,
        distribution: &Distribution,
        regions: &[Region],
        memory: &[Memory],
        sums: WantedSums,
    ) -> Result<Option<Fetched>, Trouble> {
        let clock = StageClock::start(self.record_stages);
        let (planned, mut calls) =
            self.data_calls(file, distribution, regions, memory, Way::Read)?;
        calls.iter_mut().for_each(|call| call.want_sums(sums));
        let clock = clock.next(&mut self.stages, "read: plan");
        let answers = self.rpc.call_all(calls);
        let clock = clock.next_of(&mut self.stages, &READING, busiest(&answers));
        let Some(answers) = self.unless_missing(file, answers)? else {
            return Ok(None);
        };
        let mut fetched = Fetched {
            behind_end: false,
            altered: None,
        };
        for (planned, answer) in planned.iter().zip(answers) {
            match answer {
                Answer::Transferred {
                    size, inline, sums, ..
                } => {
                    if !planned.matches(memory, &sums) {
                        fetched.altered = Some(planned.position);
                    }
                    fetched.behind_end |= planned.deliver(memory, &inline, size);
                }
                other => return Err(unfit(&other)),
            }
        }
        clock.next(&mut self.stages, "read: deliver");
        Ok(Some(fetched))
    }
}

/// How many bytes of the regions lie before byte `size`.
fn bytes_before(regions: &[Region], size: u64) -> u64 {
    regions
        .iter()
        .map(|region| size.saturating_sub(region.offset).min(region.len))
        .sum()
}

/// Brings a small file's content into memory; answers how many bytes lay before its end.
fn deliver_content(content: &[u8], regions: &[Region], memory: &[Memory]) -> u64 {
    let mut memory = Cutter::new(memory);
    for region in regions {
        let mut at = region.offset;
        for fragment in memory.take(region.len) {
            fragment.clear();
            let start = usize::try_from(at).unwrap_or(usize::MAX).min(content.len());
            let end = start.saturating_add(fragment.len()).min(content.len());
            fragment.write_at(0, &content[start..end]);
            at += fragment.len() as u64;
        }
    }
    bytes_before(regions, content.len() as u64)
}
