//! State of windows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use causeway_engine::Memory;
use causeway_engine::types::Queue;

use super::area::Area;
use super::channel::{Channel, Operation};
use super::combining::Update;
use super::epoch::Epoch;
use super::waiting::Waiting;
use crate::abi;
use crate::attributes::Attributes;
use crate::communicator::{CONTEXTS, Peer};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::info::Info;
use crate::table::{Kind, Table};

/// What a window is made by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// `MPI_Win_create`
    Create,
    /// `MPI_Win_allocate`
    Allocate,
    /// `MPI_Win_allocate_shared`
    Shared,
    /// `MPI_Win_create_dynamic`
    Dynamic,
}

impl Flavor {
    /// The value of the attribute `MPI_WIN_CREATE_FLAVOR`.
    pub fn value(self) -> i32 {
        match self {
            Self::Create => abi::WIN_FLAVOR_CREATE,
            Self::Allocate => abi::WIN_FLAVOR_ALLOCATE,
            Self::Shared => abi::WIN_FLAVOR_SHARED,
            Self::Dynamic => abi::WIN_FLAVOR_DYNAMIC,
        }
    }

    /// The call that makes such a window.
    pub(super) fn call(self) -> &'static str {
        match self {
            Self::Create => "MPI_Win_create",
            Self::Allocate => "MPI_Win_allocate",
            Self::Shared => "MPI_Win_allocate_shared",
            Self::Dynamic => "MPI_Win_create_dynamic",
        }
    }

    pub(super) fn is_allocated(self) -> bool {
        matches!(self, Self::Allocate | Self::Shared)
    }
}

/// A window.
#[derive(Debug)]
pub struct Window {
    /// Its number, the same for all of its processes.
    pub(super) number: u32,
    /// The handle of a communicator of its own, of the same processes.
    pub(super) communicator: usize,
    pub(super) flavor: Flavor,
    /// The program's address of memory without bytes, else 0.
    pub(super) base: usize,
    pub(super) group: Arc<Group>,
    pub(super) rank: u32,
    pub(super) peers: Arc<[Peer]>,
    /// Bytes of each process's memory.
    pub(super) sizes: Vec<u64>,
    /// Bytes of one unit of displacement, for each process's memory.
    pub(super) units: Vec<u64>,
    pub(super) place: WindowMemory,
    pub(super) epoch: Epoch,
    /// State of each other process with regard to this window, by rank.
    pub(super) others: Vec<Other>,
    /// Those that have, and wait for, the lock of this process's own memory.
    pub(super) waiting: Waiting,
    /// An error of accesses that was not taken yet.
    pub(super) error: Option<Error>,
    pub(super) name: Vec<u8>,
    pub(super) attributes: Attributes,
    pub(super) error_handler: usize,
    pub(super) info: Info,
    /// Flushes that have not looked for messages since.
    pub(super) flushes: u32,
}

/// Where the memory is.
#[derive(Debug)]
pub(super) enum WindowMemory {
    /// All of it, in an area that all have mapped.
    Area(Box<Area>),
    /// This process's.
    Own(Memory),
    /// What this process has attached.
    Attached(Vec<Memory>),
}

/// State of another process with regard to a window.
#[derive(Debug, Default)]
pub(super) struct Other {
    /// It has given this process its lock.
    pub(super) is_granted: bool,
    /// How many requests of its lock this process has given up before they were granted.
    pub(super) given_up: u32,
    /// How often it has opened its memory to this process, and this process has not begun to access it.
    pub(super) posted: u32,
    /// How often it has completed accesses to this process's memory that this process has not waited for.
    pub(super) completed: u32,
}

/// All windows of a process.
#[derive(Debug)]
pub(crate) struct Windows {
    pub(super) table: Table<Window>,
    pub(super) by_number: BTreeMap<u32, usize>,
    /// How many windows have memory that other processes access by sending notices to this process.
    pub(super) served: usize,
    /// By the process's number in the program.
    pub(super) channels: HashMap<u32, Channel>,
    /// Gets and requests that are not done.
    pub(super) operations: HashMap<u64, Operation>,
    pub(super) last_operation: u64,
    /// The last change of elements that this process reaches.
    pub(super) latest: Option<Update>,
    /// This process may have changed memory that it reaches directly, and no full fence is behind that.
    pub(super) has_changed: bool,
    /// Where notices complete, and how many have not.
    pub(super) queue: Queue,
    pub(super) sending: usize,
}

impl Windows {
    /// All windows, by handle.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Window)> {
        let all = self.table.handles();
        all.filter_map(|handle| Some((handle, self.table.get(handle).ok()?)))
    }

    pub(crate) fn new(queue: Queue) -> Self {
        Self {
            table: Table::new(Kind::Window, abi::ERR_WIN),
            by_number: BTreeMap::new(),
            served: 0,
            channels: HashMap::new(),
            operations: HashMap::new(),
            last_operation: 0,
            latest: None,
            has_changed: false,
            queue,
            sending: 0,
        }
    }

    /// Makes what this process has changed visible to all others before it loads anything else from memory that it reaches directly. Otherwise two
    /// processes that each change one word, flush, and then get the other one's could both miss the change.
    #[inline(always)]
    pub(super) fn order_loads(&mut self) {
        if std::mem::take(&mut self.has_changed) {
            causeway_sys::membarrier::full();
        }
    }

    /// The same before a stripe is held, which on x86-64 is a full fence itself.
    #[inline(always)]
    pub(super) fn order_held_loads(&mut self) {
        if cfg!(not(target_arch = "x86_64")) {
            self.order_loads();
        }
    }

    /// Whether other processes need nothing of this one that it does not do in calls for windows.
    #[inline]
    pub(crate) fn are_quiet(&self) -> bool {
        self.served == 0 && self.sending == 0
    }
}

impl Window {
    /// A process's number of the window, which notices to it carry.
    pub(super) fn number_at(&self, rank: u32) -> u32 {
        let peer = self.peers.get(rank as usize);
        peer.map_or(u32::MAX, |peer| peer.context / CONTEXTS)
    }

    /// The function that made it.
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

    /// Bytes of one unit of displacement in this process's memory.
    pub fn unit(&self) -> u64 {
        self.units[self.rank as usize]
    }

    /// This process's memory, unless the window is dynamic.
    pub fn memory(&self) -> Option<Memory> {
        match &self.place {
            WindowMemory::Area(area) => Some(area.segment(self.rank as usize, self.size())),
            WindowMemory::Own(memory) => Some(memory.clone()),
            WindowMemory::Attached(_) => None,
        }
    }

    /// The address of this process's memory. Memory without bytes has the one that the program gave, or none: 0.
    pub fn base(&self) -> usize {
        let memory = self.memory().filter(|memory| !memory.is_empty());
        memory.map_or(self.base, |memory| memory.as_ptr().expose_provenance())
    }

    /// The handle of its own communicator.
    pub(crate) fn communicator(&self) -> usize {
        self.communicator
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
    pub fn attributes(&mut self) -> &mut Attributes {
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
    pub(super) fn check_rank(&self, rank: i32) -> Result<u32> {
        let valid = u32::try_from(rank)
            .ok()
            .filter(|rank| *rank < self.group.size());
        valid.ok_or_else(|| no_rank(rank, self.group.size()))
    }

    /// The number in the program of a rank.
    pub(super) fn process(&self, rank: u32) -> u32 {
        self.group.members()[rank as usize]
    }

    pub(super) fn is_direct(&self) -> bool {
        matches!(self.place, WindowMemory::Area(_))
    }
}

#[cold]
fn no_rank(rank: i32, size: u32) -> Error {
    let text = format!("rank {rank} in a window of {size} processes");
    Error::new(abi::ERR_RANK, text)
}
