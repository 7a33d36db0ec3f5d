//! How windows are made and freed (MPI 5.0 §12.2).
//!
//! Processes exchange the sizes and units of their memory, and make a communicator that belongs to the window; its
//! number is the window's. If the window's memory is the library's to allocate, and all are on one host, they
//! [share](crate::sharing) an area. Where that does not work, each allocates memory of its own. In the end all wait for each other, so that
//! no process gets notices for a window that it does not know yet.

use causeway_engine::Memory;

use super::area::{self, Area};
use super::epoch::Epoch;
use super::state::{Flavor, Other, Window, WindowMemory};
use super::waiting::Waiting;
use crate::abi;
use crate::attributes::Attributes;
use crate::buffer::temporary;
use crate::error::{Error, Result};
use crate::exchange::Exchange;
use crate::info::Info;
use crate::process::{Active, Process};
use crate::sharing::Sharing;

/// What this process offers to a window.
#[derive(Debug)]
pub struct Offered {
    /// The function that makes it.
    pub flavor: Flavor,
    /// This process's memory, if it is the program's.
    pub memory: Option<Memory>,
    /// Its bytes.
    pub size: u64,
    /// Where the program says that it begins, which counts if it has no bytes; else 0.
    pub base: usize,
    /// Bytes of one step of a displacement.
    pub unit: u64,
    /// Hints.
    pub info: Info,
}

/// A window that is being made.
#[derive(Debug)]
pub struct Begun {
    offered: Offered,
    /// The communicator that it was called with.
    parent: usize,
    /// Its own.
    communicator: usize,
    sizes: Vec<u64>,
    units: Vec<u64>,
    stage: Stage,
    window: usize,
}

#[derive(Debug)]
enum Stage {
    New,
    /// The processes exchange sizes and units.
    Exchange(Exchange),
    /// They make an area for all of them.
    Shared(Sharing),
    /// They wait for each other.
    Entered,
}

impl Begun {
    /// No values were exchanged yet.
    pub fn new(offered: Offered, communicator: usize) -> Self {
        Self {
            offered,
            parent: communicator,
            communicator: abi::COMM_NULL,
            sizes: Vec::new(),
            units: Vec::new(),
            stage: Stage::New,
            window: abi::WIN_NULL,
        }
    }

    /// The window, when it is made.
    pub fn window(&self) -> usize {
        self.window
    }

    fn is_contiguous(&self) -> bool {
        let hint = self.offered.info.get(b"alloc_shared_noncontig");
        let is_apart = matches!(hint, Ok(Some(b"true")));
        self.offered.flavor == Flavor::Shared && !is_apart
    }

    fn layout(&self) -> Result<(Vec<usize>, usize)> {
        area::layout(&self.sizes, self.is_contiguous()).ok_or_else(area::too_large)
    }
}

impl Process {
    /// Takes the next step in making a window. Returns the operation that must complete before the one after that; `None` if the window is made.
    pub fn make_window(&mut self, begun: &mut Begun) -> Result<Option<Active>> {
        match std::mem::replace(&mut begun.stage, Stage::Entered) {
            Stage::New => {
                let Offered { size, unit, .. } = begun.offered;
                let name = begun.offered.flavor.call();
                let sizes = [size as i64, unit as i64];
                let (active, exchanged) = self.start_exchange(begun.parent, sizes, name)?;
                begun.stage = Stage::Exchange(exchanged);
                Ok(Some(active))
            }
            Stage::Exchange(exchanged) => self.sizes_exchanged(begun, &exchanged).map(Some),
            Stage::Shared(mut sharing) => {
                if let Some(active) = self.share_memory(&mut sharing)? {
                    begun.stage = Stage::Shared(sharing);
                    return Ok(Some(active));
                }
                let place = match sharing.into_memory() {
                    Some(memory) => {
                        WindowMemory::Area(Box::new(Area::new(memory, begun.layout()?.0)))
                    }
                    None if begun.offered.flavor == Flavor::Shared => {
                        self.free_communicator(begun.communicator)?;
                        let text = "the processes of the communicator cannot share memory";
                        return Err(Error::new(abi::ERR_RMA_SHARED, text));
                    }
                    None => WindowMemory::Own(temporary(begun.offered.size as usize)?),
                };
                self.enter_window(begun, place).map(Some)
            }
            Stage::Entered => Ok(None),
        }
    }

    /// All sizes and units are known.
    fn sizes_exchanged(&mut self, begun: &mut Begun, exchanged: &Exchange) -> Result<Active> {
        let all = exchanged.all();
        begun.sizes = all.iter().map(|words| words[1] as u64).collect();
        begun.units = all.iter().map(|words| words[2] as u64).collect();
        begun.communicator = self.duplicate_by(exchanged)?;
        if begun.offered.flavor.is_allocated() {
            let (_, len) = begun.layout()?;
            let mut sharing = Sharing::new(begun.communicator, len, true);
            let first = self.share_memory(&mut sharing)?;
            begun.stage = Stage::Shared(sharing);
            return first.ok_or_else(|| Error::new(abi::ERR_INTERN, "nothing to share"));
        }
        let place = match begun.offered.memory.take() {
            Some(memory) => WindowMemory::Own(memory),
            None => WindowMemory::Attached(Vec::new()),
        };
        self.enter_window(begun, place)
    }

    /// Adds the window, and starts a barrier: the window may be used once all processes have added
    /// it.
    fn enter_window(&mut self, begun: &mut Begun, place: WindowMemory) -> Result<Active> {
        let communicator = self.communicator(begun.communicator)?;
        let ranks = communicator.size();
        let is_served = !matches!(place, WindowMemory::Area(_));
        let window = Window {
            number: communicator.number,
            communicator: begun.communicator,
            flavor: begun.offered.flavor,
            base: begun.offered.base,
            group: communicator.local.clone(),
            rank: communicator.rank(),
            peers: communicator.peers.clone(),
            sizes: std::mem::take(&mut begun.sizes),
            units: std::mem::take(&mut begun.units),
            place,
            epoch: Epoch::new(ranks),
            others: (0..ranks).map(|_| Other::default()).collect(),
            waiting: Waiting::default(),
            error: None,
            name: Vec::new(),
            attributes: Attributes::default(),
            error_handler: abi::ERRORS_ARE_FATAL,
            info: begun.offered.info.clone(),
            flushes: 0,
        };
        let number = window.number;
        begun.window = self.windows.table.insert(window)?;
        self.windows.by_number.insert(number, begun.window);
        self.windows.served += usize::from(is_served);
        begun.stage = Stage::Entered;
        let steps = self.barrier(begun.communicator)?;
        self.begin(steps.called(begun.offered.flavor.call()))
    }

    /// Starts to free a window: begins a barrier of all its processes, after which
    /// [`Process::forget`] is called.
    pub fn leave_window(&mut self, handle: usize) -> Result<Active> {
        let window = self.window(handle)?;
        window.epoch.check_over()?;
        let communicator = window.communicator;
        let steps = self.barrier(communicator)?;
        self.begin(steps.called("MPI_Win_free"))
    }

    /// Frees a window that all have left; returns its error handler.
    pub fn forget(&mut self, handle: usize) -> Result<usize> {
        self.window(handle)?;
        let window = self.windows.table.remove(handle)?;
        self.windows.by_number.remove(&window.number);
        self.windows.served -= usize::from(!window.is_direct());
        self.forget_window(window.number);
        self.free_communicator(window.communicator)?;
        Ok(window.error_handler)
    }
}
