//! One-sided communication (MPI 5.0 chapter 12): windows of memory that other processes read, write and combine with.
//!
//! A [`Window`] has one of two kinds of memory ([`Place`]), for all of its processes alike:
//!
//! - **An area** ([`area`]): memory that all of them have mapped, where `MPI_Win_allocate` and `MPI_Win_allocate_shared` are called by
//!   processes of one host. Whoever accesses it does so itself, with loads and stores; the process whose memory it is takes no part.
//!   Locks are words of the area.
//! - **Memory of each process's own**: a process tells the owner what to do, and the owner does it when it is inside of MPI
//!   ([`channel`] sends, [`serving`] does it). Locks are asked for in the same way.
//!
//! [`making`] agrees on the kind when the window is made. So the two never meet in one window, and each has one way to make
//! accumulates atomic, element by element, whatever their operation, datatype and count:
//!
//! - In an area, the accessing process holds one of the *stripes* of the target's memory, a word that it changes with an atomic instruction,
//!   while it works on the elements that begin in one block of 4 KiB. A block has one stripe, wherever an access comes from, so that large
//!   accumulates, which are vectorised, exclude small ones and each other, block by block. An atomic instruction for each element would be
//!   atomic only with regard to other such instructions, and cost as much for each element as a stripe does for a block.
//! - Of its own memory, only the owner changes elements, one access after the other, its own ones too.
//!
//! What accesses do to elements is the same in both cases ([`combining`]): a put is an access that replaces bytes, a get one that leaves them as they
//! are and tells them. Those two hold no stripes, as the standard asks for no atomicity there.
//!
//! [`access`] begins all accesses, [`epoch`] orders them: fences, post and start, locks, flushes. A process that waits there watches
//! those that it waits for: a death is an error of the wait, never a hang.

mod access;
mod area;
mod channel;
mod combining;
mod epoch;
mod locking;
mod making;
mod serving;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use causeway_engine::Memory;
use causeway_engine::types::Queue;

pub use access::{Access, Action};
use area::Area;
use channel::{Channel, Operation};
use combining::Act;
pub use epoch::Epoch;
use locking::Waiting;

use crate::abi;
use crate::communicator::Peer;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::process::Process;
use crate::table::{Kind, Table};

pub use making::{Begun, Flavor, Offered};

/// A window.
#[derive(Debug)]
pub struct Window {
    /// Its number, the same for all of its processes.
    number: u32,
    /// The handle of a communicator of its own, of the same processes.
    communicator: usize,
    flavor: Flavor,
    group: Arc<Group>,
    rank: u32,
    peers: Arc<[Peer]>,
    /// Bytes of each process's memory.
    sizes: Vec<u64>,
    /// Bytes that one step of a displacement has, for each process's memory.
    units: Vec<u64>,
    place: Place,
    epoch: Epoch,
    /// What is known of each other process with regard to this window, by rank.
    others: Vec<Other>,
    /// Those that have, and wait for, the lock of this process's own memory.
    waiting: Waiting,
    /// What has gone wrong with accesses since it was last asked for.
    error: Option<Error>,
    name: Vec<u8>,
    attributes: BTreeMap<i32, usize>,
    error_handler: usize,
    info: Info,
    /// Flushes that have not looked for messages since.
    flushes: u32,
}

/// Where the memory is.
#[derive(Debug)]
enum Place {
    /// All of it, in an area that all have mapped.
    Area(Box<Area>),
    /// This process's.
    Own(Memory),
    /// What this process has attached.
    Attached(Vec<Memory>),
}

/// What is known of another process with regard to a window.
#[derive(Debug, Default)]
struct Other {
    /// It has given this process its lock.
    is_granted: bool,
    /// How often it has opened its memory to this process, and this process has not begun to access it.
    posted: u32,
    /// How often it has completed accesses to this process's memory that this process has not waited for.
    completed: u32,
}

/// All windows of a process.
#[derive(Debug)]
pub(crate) struct Windows {
    table: Table<Window>,
    by_number: BTreeMap<u32, usize>,
    /// How many have memory that others reach by telling this process.
    served: usize,
    /// By the process's number in the program.
    channels: HashMap<u32, Channel>,
    /// Gets and requests that are not done.
    operations: HashMap<u64, Operation>,
    last_operation: u64,
    /// What was done last to elements that this process reaches.
    latest: Option<Act>,
    /// Where notices complete, and how many have not.
    queue: Queue,
    sending: usize,
}

impl Windows {
    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            table: Table::new(Kind::Window, abi::ERR_WIN),
            by_number: BTreeMap::new(),
            served: 0,
            channels: HashMap::new(),
            operations: HashMap::new(),
            last_operation: 0,
            latest: None,
            queue,
            sending: 0,
        }
    }

    /// Whether other processes need nothing of this one that it does not do in calls for windows.
    #[inline]
    pub(crate) fn are_quiet(&self) -> bool {
        self.served == 0 && self.sending == 0
    }
}

fn window_is_null() -> Error {
    Error::new(abi::ERR_WIN, "the window is MPI_WIN_NULL")
}

impl Process {
    /// The window of a handle.
    #[inline]
    pub fn window(&self, handle: usize) -> Result<&Window> {
        match handle {
            abi::WIN_NULL => Err(window_is_null()),
            handle => self.windows.table.get(handle),
        }
    }

    /// The window of a handle, to be changed.
    #[inline]
    pub fn window_mut(&mut self, handle: usize) -> Result<&mut Window> {
        match handle {
            abi::WIN_NULL => Err(window_is_null()),
            handle => self.windows.table.get_mut(handle),
        }
    }

    /// The part of the window's memory that belongs to a rank, as this process sees it: its bytes, its unit, and the memory if it can be reached
    /// directly. `MPI_PROC_NULL` stands for the first that has any bytes.
    pub fn shared_part(&self, handle: usize, rank: i32) -> Result<(u64, u64, Option<Memory>)> {
        let window = self.window(handle)?;
        let rank = match rank {
            abi::PROC_NULL => window.sizes.iter().position(|size| *size > 0).unwrap_or(0),
            rank => window.check_rank(rank)? as usize,
        };
        let (size, unit) = (window.sizes[rank], window.units[rank]);
        Ok(match &window.place {
            Place::Area(area) => (size, unit, Some(area.segment(rank, size))),
            Place::Own(memory) if rank as u32 == window.rank => (size, unit, Some(memory.clone())),
            Place::Own(_) => (0, unit, None),
            Place::Attached(_) => {
                let text = "the memory of a dynamic window is not known to it";
                return Err(Error::new(abi::ERR_RMA_FLAVOR, text));
            }
        })
    }

    /// Adds memory to a dynamic window.
    pub fn attach(&mut self, handle: usize, memory: Memory) -> Result<()> {
        let Place::Attached(attached) = &mut self.window_mut(handle)?.place else {
            return Err(not_dynamic());
        };
        let (start, len) = (memory.as_ptr().addr(), memory.len());
        let overlaps = |other: &Memory| {
            let theirs = other.as_ptr().addr();
            start < theirs + other.len() && theirs < start + len
        };
        if attached.iter().any(overlaps) {
            let text = "the memory overlaps with memory that is attached already";
            return Err(Error::new(abi::ERR_RMA_ATTACH, text));
        }
        attached.push(memory);
        Ok(())
    }

    /// Takes memory away from a dynamic window, which begins at this address.
    pub fn detach(&mut self, handle: usize, start: usize) -> Result<()> {
        let Place::Attached(attached) = &mut self.window_mut(handle)?.place else {
            return Err(not_dynamic());
        };
        let at = attached
            .iter()
            .position(|memory| memory.as_ptr().addr() == start);
        let at = at.ok_or_else(|| {
            let text = format!("no memory is attached at {start:#x}");
            Error::new(abi::ERR_RMA_ATTACH, text)
        })?;
        attached.remove(at);
        Ok(())
    }
}

fn not_dynamic() -> Error {
    Error::new(abi::ERR_RMA_FLAVOR, "the window is not dynamic")
}

impl Window {
    /// What it was made by.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Its processes.
    pub fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// Bytes of this process's memory.
    pub fn size(&self) -> u64 {
        self.sizes[self.rank as usize]
    }

    /// Bytes that one step of a displacement has in this process's memory.
    pub fn unit(&self) -> u64 {
        self.units[self.rank as usize]
    }

    /// This process's memory, unless the window is dynamic.
    pub fn memory(&self) -> Option<Memory> {
        match &self.place {
            Place::Area(area) => Some(area.segment(self.rank as usize, self.size())),
            Place::Own(memory) => Some(memory.clone()),
            Place::Attached(_) => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Sets its name.
    pub fn set_name(&mut self, name: &[u8]) {
        self.name = name.to_vec();
    }

    /// Values that the program has attached, by key.
    pub fn attributes(&mut self) -> &mut BTreeMap<i32, usize> {
        &mut self.attributes
    }

    /// The handle of its error handler.
    pub fn error_handler(&self) -> usize {
        self.error_handler
    }

    /// Sets its error handler; returns the one that was set.
    pub fn set_error_handler(&mut self, handler: usize) -> usize {
        std::mem::replace(&mut self.error_handler, handler)
    }

    /// Its hints.
    pub fn info(&mut self) -> &mut Info {
        &mut self.info
    }

    #[inline]
    fn check_rank(&self, rank: i32) -> Result<u32> {
        let valid = u32::try_from(rank)
            .ok()
            .filter(|rank| *rank < self.group.size());
        valid.ok_or_else(|| no_rank(rank, self.group.size()))
    }

    /// The number in the program of a rank.
    fn process(&self, rank: u32) -> u32 {
        self.group.members()[rank as usize]
    }

    fn is_direct(&self) -> bool {
        matches!(self.place, Place::Area(_))
    }
}

#[cold]
fn no_rank(rank: i32, size: u32) -> Error {
    let text = format!("rank {rank} in a window of {size} processes");
    Error::new(abi::ERR_RANK, text)
}
