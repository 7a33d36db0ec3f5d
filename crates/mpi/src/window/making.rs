//! How windows are made and freed (MPI 5.0 §12.2).
//!
//! Processes tell each other the sizes and units of their memory, and make a communicator that belongs to the window; its
//! number is the window's. If the window's memory is the library's to allocate, and all are on one host, the first of them hears from all,
//! allocates an area for all, exports it to each, and tells each its region; each maps it, and they tell each other whether that has
//! worked. Where it has not, each allocates memory of its own. In the end all wait for each other, so that nobody gets notices for a
//! window that it does not know.

use std::collections::BTreeMap;

use causeway_engine::types::Addr;
use causeway_engine::{Access, Memory, RegionDescriptor};
use causeway_wire::codec::{Reader, Wire};

use super::area::{self, Area};
use super::epoch::Epoch;
use super::state::{Flavor, Other, Place, Window};
use super::waiting::Waiting;
use crate::abi;
use crate::buffer::{OwnedBuffer, temporary};
use crate::collective::Blocks;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::process::{Active, Process};
use crate::told::Told;

/// What this process offers to a window.
#[derive(Debug)]
pub struct Offered {
    /// What it is made by.
    pub flavor: Flavor,
    /// This process's memory, if it is the program's.
    pub memory: Option<Memory>,
    /// Its bytes.
    pub size: u64,
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
    /// What this process has exported for it, and to whom.
    exported: Vec<(Addr, RegionDescriptor)>,
    stage: Stage,
    window: usize,
}

#[derive(Debug)]
enum Stage {
    New,
    /// They tell each other sizes and units.
    Told(Told),
    /// They send the first one something.
    Met,
    /// The first one tells the others their regions; this one's comes here.
    Sent(Memory, Option<Area>),
    /// They tell each other whether they have mapped the area.
    Mapped(Told, Option<Area>),
    /// They wait for each other.
    Entered,
}

/// Room for a region: how many bytes it has, and the bytes.
const REGION_BYTES: usize = 64;

impl Begun {
    /// Nothing was told yet.
    pub fn new(offered: Offered, communicator: usize) -> Self {
        Self {
            offered,
            parent: communicator,
            communicator: abi::COMM_NULL,
            sizes: Vec::new(),
            units: Vec::new(),
            exported: Vec::new(),
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
    /// Takes the next step in making a window. Returns what has to be complete before the one after that; none if the window is made.
    pub fn make_window(&mut self, begun: &mut Begun) -> Result<Option<Active>> {
        match std::mem::replace(&mut begun.stage, Stage::Entered) {
            Stage::New => {
                let Offered { size, unit, .. } = begun.offered;
                let (active, told) = self.tell(begun.parent, [size as i64, unit as i64])?;
                begun.stage = Stage::Told(told);
                Ok(Some(active))
            }
            Stage::Told(told) => self.all_have_told(begun, &told).map(Some),
            Stage::Met => self.offer_area(begun).map(Some),
            Stage::Sent(region, mut area) => {
                if area.is_none() {
                    area = self.map_area(begun, &region)?;
                }
                let (active, told) = self.tell(begun.communicator, [area.is_some().into(), 0])?;
                begun.stage = Stage::Mapped(told, area);
                Ok(Some(active))
            }
            Stage::Mapped(told, area) => {
                for (addr, region) in begun.exported.drain(..) {
                    self.endpoint.unexport(addr, &region);
                }
                let have_all = told.all().iter().all(|words| words[1] == 1);
                let place = match area.filter(|_| have_all) {
                    Some(area) => Place::Area(Box::new(area)),
                    None if begun.offered.flavor == Flavor::Shared => {
                        self.free_communicator(begun.communicator)?;
                        let text = "the processes of the communicator cannot share memory";
                        return Err(Error::new(abi::ERR_RMA_SHARED, text));
                    }
                    None => Place::Own(temporary(begun.offered.size as usize)?),
                };
                self.enter_window(begun, place).map(Some)
            }
            Stage::Entered => Ok(None),
        }
    }

    /// All sizes and units are known.
    fn all_have_told(&mut self, begun: &mut Begun, told: &Told) -> Result<Active> {
        let all = told.all();
        begun.sizes = all.iter().map(|words| words[1] as u64).collect();
        begun.units = all.iter().map(|words| words[2] as u64).collect();
        begun.communicator = self.duplicate_by(told)?;
        if begun.offered.flavor.is_allocated() {
            begun.stage = Stage::Met;
            return self.meet_first(begun.communicator);
        }
        let place = match begun.offered.memory.take() {
            Some(memory) => Place::Own(memory),
            None => Place::Attached(Vec::new()),
        };
        self.enter_window(begun, place)
    }

    /// All send the first process something, which is connected with each of them then: an export holds on to a connection that is still being
    /// made, even if the other process has made one, too, that both were to use instead.
    fn meet_first(&mut self, communicator: usize) -> Result<Active> {
        let place = self.communicator(communicator)?;
        let (is_first, blocks) = (place.rank() == 0, place.size());
        let into = Blocks::Even {
            memory: temporary(if is_first { blocks as usize } else { 0 })?,
            blocks,
        };
        let from = Blocks::Each(vec![OwnedBuffer::bytes(temporary(1)?)]);
        let into = is_first.then_some(&into);
        let steps = self.gather(Some(&from), into, 0, communicator)?;
        self.begin(steps)
    }

    /// The first process tells each its region of the area, or none.
    fn offer_area(&mut self, begun: &mut Begun) -> Result<Active> {
        let communicator = self.communicator(begun.communicator)?;
        let (rank, members) = (communicator.rank(), communicator.group().members().to_vec());
        let mut area = None;
        let mut regions = Vec::new();
        if rank == 0 {
            let host = self.hosts[self.rank as usize];
            let share = members
                .iter()
                .all(|member| self.hosts[*member as usize] == host);
            let offered = share.then(|| self.export_area(begun, &members));
            // That there is no memory for it, all are told in this way.
            if let Some(Ok((own, exported))) = offered {
                area = Some(own);
                regions = exported;
            }
        }
        let room = members.len() * REGION_BYTES;
        let sent = temporary(if rank == 0 { room } else { 0 })?;
        for (rank, region) in regions.iter().enumerate() {
            if let Some(region) = region {
                let bytes = region.to_bytes();
                sent.write_at(rank * REGION_BYTES, &[bytes.len() as u8]);
                sent.write_at(rank * REGION_BYTES + 1, &bytes);
            }
        }
        let received = temporary(REGION_BYTES)?;
        let from = Blocks::Even {
            memory: sent,
            blocks: members.len() as u32,
        };
        let into = Blocks::Each(vec![OwnedBuffer::bytes(received.clone())]);
        let steps = self.scatter(Some(&from), Some(&into), 0, begun.communicator)?;
        begun.stage = Stage::Sent(received, area);
        self.begin(steps)
    }

    /// Makes the area, and exports it to all others. Returns the region of each.
    fn export_area(
        &mut self,
        begun: &mut Begun,
        members: &[u32],
    ) -> Result<(Area, Vec<Option<RegionDescriptor>>)> {
        let (starts, len) = begun.layout()?;
        let other = members.iter().find(|member| **member != self.rank);
        let memory = match other {
            Some(other) => {
                let addr = self.peers[*other as usize].addr;
                self.endpoint.memalloc(addr, len)?
            }
            None => temporary(len)?,
        };
        let mut regions = Vec::with_capacity(members.len());
        for member in members {
            regions.push(match *member == self.rank {
                true => None,
                false => {
                    let addr = self.peers[*member as usize].addr;
                    let region = self.endpoint.export(addr, &memory, Access::ReadWrite)?;
                    begun.exported.push((addr, region));
                    Some(region)
                }
            });
        }
        Ok((Area::new(memory, starts), regions))
    }

    /// Maps the area that the first process has exported, if it has, and this process can.
    fn map_area(&mut self, begun: &Begun, region: &Memory) -> Result<Option<Area>> {
        let bytes = region.to_vec();
        let Some((len, bytes)) = bytes.split_first() else {
            return Ok(None);
        };
        let bytes = bytes.get(..usize::from(*len)).unwrap_or_default();
        let Ok(region) = RegionDescriptor::decode(&mut Reader::new(bytes)) else {
            return Ok(None);
        };
        let first = self.communicator(begun.communicator)?.peer(0)?;
        let (starts, len) = begun.layout()?;
        let mapped = self.endpoint.map(first.addr, &region);
        let mapped = mapped.filter(|memory| memory.len() == len && memory.is_writable());
        Ok(mapped.map(|memory| Area::new(memory, starts)))
    }

    /// The window is there, once all have come so far.
    fn enter_window(&mut self, begun: &mut Begun, place: Place) -> Result<Active> {
        let communicator = self.communicator(begun.communicator)?;
        let ranks = communicator.size();
        let is_served = !matches!(place, Place::Area(_));
        let window = Window {
            number: communicator.number,
            communicator: begun.communicator,
            flavor: begun.offered.flavor,
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
            attributes: BTreeMap::new(),
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
        self.begin(steps)
    }

    /// Starts to free a window: all its processes come so far. Then [`Process::forget`].
    pub fn leave_window(&mut self, handle: usize) -> Result<Active> {
        let window = self.window(handle)?;
        window.epoch.check_over()?;
        let communicator = window.communicator;
        let steps = self.barrier(communicator)?;
        self.begin(steps)
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
