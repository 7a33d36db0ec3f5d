//! A file whose blocks are registers: several clients write and read whole blocks of it at the same time, give up
//! where storage stalls, and go on with the same memory. The history of each block must have an order, and a block
//! never holds bytes that were never written.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use causeway_bmi::Memory;
use causeway_fs::client::{Client, CreateOptions, File};
use causeway_testkit::linear::register::{self, Access, Event};
use causeway_testkit::random::Random;
use causeway_wire::fs::Region;

use crate::conditions::Conditions;
use crate::library::{Trace, hint};
use crate::plan::Spread;

/// The file.
pub(crate) const PATH: &str = "/registers";
/// Bytes of a block.
const BLOCK: usize = 4 << 10;
/// Blocks of the file: several pieces on each server, of a size that a small disk has room for.
const BLOCKS: usize = 640;
/// Clients that share it.
pub(crate) const SHARERS: usize = 3;
/// What memory holds that serves no write: it must never get into the file.
const JUNK: u64 = 0x6e6f_626f_6479_2121;

/// Moments of all histories of the process.
static CLOCK: AtomicU64 = AtomicU64::new(1);

fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

/// What a word of a block holds after this write. Zeros are what the file begins with.
fn word(value: u64, block: usize) -> u64 {
    match value {
        0 => 0,
        value => value << 16 | block as u64,
    }
}

/// What was done to blocks at once.
struct Step {
    access: Access,
    /// With the value of each, of a read.
    blocks: Vec<(usize, u64)>,
    called: u64,
    returned: u64,
}

/// A client that shares the file.
pub(crate) struct Sharer {
    number: u64,
    patient: Client,
    impatient: Client,
    dice: Random,
    /// Writes so far.
    writes: u64,
    /// What the client writes from and reads to.
    memory: Option<Memory>,
    /// Bytes of the memory that nothing may write to, as a read of them was given up.
    left_alone: Option<usize>,
    steps: Vec<Step>,
    pub(crate) trace: Trace,
}

/// Makes the file.
pub(crate) fn make(client: &mut Client) -> Result<(), causeway_fs::Error> {
    let options = CreateOptions {
        distribution: hint(Spread::Both),
        ..CreateOptions::default()
    };
    let mut file = client.create(PATH.as_bytes(), &options)?;
    client.truncate(&mut file, (BLOCKS * BLOCK) as u64)
}

/// Checks that the histories of all blocks are those of registers.
pub(crate) fn check(sharers: &[Sharer]) -> Result<(), String> {
    let mut histories: HashMap<usize, Vec<Event>> = HashMap::new();
    for step in sharers.iter().flat_map(|sharer| &sharer.steps) {
        for &(block, value) in &step.blocks {
            let access = match step.access {
                Access::Read(_) => Access::Read(value),
                other => other,
            };
            histories.entry(block).or_default().push(Event {
                access,
                called: step.called,
                returned: step.returned,
            });
        }
    }
    for (block, history) in histories {
        register::check(0, &history).map_err(|why| format!("block {block} of {PATH}: {why}"))?;
    }
    Ok(())
}

impl Sharer {
    pub(crate) fn new(
        number: usize,
        seed: u64,
        client: impl Fn(bool) -> Result<Client, String>,
    ) -> Result<Self, String> {
        Ok(Self {
            number: number as u64,
            patient: client(true)?,
            impatient: client(false)?,
            dice: Random::new(seed ^ 0x5ec7 ^ (number as u64 + 1) << 48),
            writes: 0,
            memory: None,
            left_alone: None,
            steps: Vec::new(),
            trace: Trace::new(),
        })
    }

    fn note(&mut self, text: String) {
        self.trace.push(format!("sharer {}: {text}", self.number));
    }

    /// Does some operations.
    pub(crate) fn work(&mut self, count: usize, conditions: &Conditions) -> Result<(), String> {
        // What a server has mapped is taken away from it when a call is given up: each phase has memory of its own.
        self.memory = None;
        for _ in 0..count {
            self.step(conditions)?;
        }
        self.check_memory()
    }

    /// All of the file, when all is well.
    pub(crate) fn verify(&mut self) -> Result<(), String> {
        self.memory = None;
        self.read(&(0..BLOCKS).collect::<Vec<_>>(), &Conditions::no_fault())
    }

    fn step(&mut self, conditions: &Conditions) -> Result<(), String> {
        let blocks = self.blocks();
        match self.dice.one_in(3) {
            true => self.read(&blocks, conditions),
            false => self.write(&blocks, conditions),
        }
    }

    /// Some blocks, in order: many or few, next to each other or not, often the same ones.
    fn blocks(&mut self) -> Vec<usize> {
        let dice = &mut self.dice;
        let count = (1 << dice.below(10)).min(BLOCKS);
        let step = if dice.one_in(4) { 2 + dice.below(4) } else { 1 };
        let first = match dice.one_in(2) {
            true => 0,
            false => dice.below(BLOCKS),
        };
        (first..BLOCKS).step_by(step).take(count).collect()
    }

    /// Memory for this number of blocks, which servers may map, or may not.
    fn memory(&mut self, blocks: usize) -> Result<Memory, String> {
        self.check_memory()?;
        let memory = match self.memory.take() {
            Some(memory) => memory,
            None if self.dice.one_in(3) => Memory::zeroed(BLOCKS * BLOCK),
            None => self
                .patient
                .allocate(BLOCKS * BLOCK)
                .map_err(|error| error.to_string())?,
        };
        self.memory = Some(memory.clone());
        Ok(memory.slice(0..blocks * BLOCK))
    }

    /// A read that was given up must not have written to memory since.
    fn check_memory(&mut self) -> Result<(), String> {
        let (Some(len), Some(memory)) = (self.left_alone.take(), &self.memory) else {
            return Ok(());
        };
        match words(&memory.slice(0..len)).position(|word| word != JUNK) {
            None => Ok(()),
            Some(at) => Err(format!(
                "word {at} of memory was written to after the read of it was given up"
            )),
        }
    }

    /// The client for the conditions: where storage stalls for a moment only, chance decides whether it is a patient one.
    fn open(&mut self, conditions: &Conditions) -> Result<Option<(File, bool)>, String> {
        let spread = Some(Spread::Both);
        let patient = conditions.patient(spread) || (conditions.passes && self.dice.one_in(3));
        let opened = self.client(patient).open(PATH.as_bytes());
        match opened {
            Ok(file) => Ok(Some((file, patient))),
            Err(error) => self.excused(conditions, &error).map(|()| None),
        }
    }

    fn client(&mut self, patient: bool) -> &mut Client {
        match patient {
            true => &mut self.patient,
            false => &mut self.impatient,
        }
    }

    fn excused(
        &mut self,
        conditions: &Conditions,
        error: &causeway_fs::Error,
    ) -> Result<(), String> {
        self.note(format!("  failed: {error}"));
        match conditions.excuses(Some(Spread::Both), error.errno) {
            true => Ok(()),
            false => Err(format!(
                "no fault excuses this: {error} [{:?}]",
                error.errno
            )),
        }
    }

    fn write(&mut self, blocks: &[usize], conditions: &Conditions) -> Result<(), String> {
        let Some((mut file, patient)) = self.open(conditions)? else {
            return Ok(());
        };
        let memory = self.memory(blocks.len())?;
        self.writes += 1;
        let value = self.writes * SHARERS as u64 + self.number;
        for (at, block) in blocks.iter().enumerate() {
            let bytes = word(value, *block).to_le_bytes().repeat(BLOCK / 8);
            memory.write_at(at * BLOCK, &bytes);
        }
        self.note(format!("write {value:#x} to {}", summary(blocks)));
        let called = now();
        let result = self.client(patient).write_list(
            &mut file,
            &regions(blocks),
            std::slice::from_ref(&memory),
        );
        let returned = now();
        self.steps.push(Step {
            access: match result {
                Ok(()) => Access::Wrote(value),
                Err(_) => Access::GaveUp(value),
            },
            blocks: blocks.iter().map(|block| (*block, 0)).collect(),
            called,
            returned,
        });
        memory.write_at(0, &JUNK.to_le_bytes().repeat(memory.len() / 8));
        result.or_else(|error| self.excused(conditions, &error))
    }

    fn read(&mut self, blocks: &[usize], conditions: &Conditions) -> Result<(), String> {
        let Some((mut file, patient)) = self.open(conditions)? else {
            return Ok(());
        };
        let memory = self.memory(blocks.len())?;
        memory.write_at(0, &JUNK.to_le_bytes().repeat(memory.len() / 8));
        self.note(format!("read {}", summary(blocks)));
        let called = now();
        let result = self.client(patient).read_list(
            &mut file,
            &regions(blocks),
            std::slice::from_ref(&memory),
        );
        let returned = now();
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                memory.write_at(0, &JUNK.to_le_bytes().repeat(memory.len() / 8));
                self.left_alone = Some(memory.len());
                return self.excused(conditions, &error);
            }
        };
        if count != memory.len() as u64 {
            return Err(format!("{count} of {} bytes of {PATH}", memory.len()));
        }
        let mut values = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.iter().enumerate() {
            let value = value(&memory.slice(at * BLOCK..(at + 1) * BLOCK), *block)?;
            values.push((*block, value));
        }
        self.steps.push(Step {
            access: Access::Read(0),
            blocks: values,
            called,
            returned,
        });
        Ok(())
    }
}

fn regions(blocks: &[usize]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for block in blocks {
        let (offset, len) = ((block * BLOCK) as u64, BLOCK as u64);
        match regions.last_mut() {
            Some(last) if last.offset + last.len == offset => last.len += len,
            _ => regions.push(Region { offset, len }),
        }
    }
    regions
}

fn words(memory: &Memory) -> impl Iterator<Item = u64> {
    let bytes = memory.to_vec();
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)))
        .collect();
    words.into_iter()
}

/// What was written to a block that holds this.
fn value(bytes: &Memory, block: usize) -> Result<u64, String> {
    let words: Vec<u64> = words(bytes).collect();
    let first = words.first().copied().unwrap_or(0);
    if let Some(at) = words.iter().position(|word| *word != first) {
        return Err(format!(
            "block {block} of {PATH} holds parts of two writes: {first:#x}, and from word {at} on {:#x}",
            words[at]
        ));
    }
    let value = first >> 16;
    match first == word(value, block) {
        true => Ok(value),
        false => Err(format!(
            "block {block} of {PATH} holds bytes that were never written there: {first:#x}"
        )),
    }
}

fn summary(blocks: &[usize]) -> String {
    format!(
        "{} blocks {:?}..={:?}",
        blocks.len(),
        blocks.first(),
        blocks.last()
    )
}
