//! How the processes of a communicator that are on one host get shared memory.
//!
//! All processes send the first one a message; it allocates the memory, exports it to each, and sends each its region; each maps it, and all exchange
//! whether that has worked. In the end either all have the memory, or none.

use causeway_engine::types::Addr;
use causeway_engine::{Access, Memory, RegionDescriptor};
use causeway_wire::codec::{Reader, Wire};

use crate::buffer::{OwnedBuffer, temporary};
use crate::collective::Blocks;
use crate::error::Result;
use crate::exchange::Exchange;
use crate::process::{Active, Process};

/// Memory that is being shared.
#[derive(Debug)]
pub struct Sharing {
    communicator: usize,
    len: usize,
    /// Whether this process takes part: if one does not, none gets the memory.
    is_wanted: bool,
    /// This process's exports for it, and their peers.
    exported: Vec<(Addr, RegionDescriptor)>,
    stage: Stage,
    memory: Option<Memory>,
}

#[derive(Debug)]
enum Stage {
    New,
    /// They send the first one a message.
    Connecting,
    /// The first process sends the others their regions; this process's region arrives here.
    Sent(Memory),
    /// The processes exchange whether they have mapped the memory.
    Mapped(Exchange),
    Over,
}

/// Room for a region: how many bytes it has, and the bytes.
const REGION_BYTES: usize = 64;

impl Sharing {
    /// Sharing of so many bytes by all processes of a communicator, before its first step.
    pub(crate) fn new(communicator: usize, len: usize, is_wanted: bool) -> Self {
        Self {
            communicator,
            len,
            is_wanted,
            exported: Vec::new(),
            stage: Stage::New,
            memory: None,
        }
    }

    /// The communicator's handle.
    pub(crate) fn communicator(&self) -> usize {
        self.communicator
    }

    /// The memory, zero at first, if all have it.
    pub(crate) fn into_memory(self) -> Option<Memory> {
        self.memory
    }
}

impl Process {
    /// Takes the next step. Returns the operation that must complete before the one after that; `None` when it is over.
    pub(crate) fn share_memory(&mut self, sharing: &mut Sharing) -> Result<Option<Active>> {
        match std::mem::replace(&mut sharing.stage, Stage::Over) {
            Stage::New => {
                sharing.stage = Stage::Connecting;
                self.connect_to_first(sharing.communicator).map(Some)
            }
            Stage::Connecting => self.offer_memory(sharing).map(Some),
            Stage::Sent(region) => {
                if sharing.memory.is_none() && sharing.is_wanted {
                    sharing.memory = self.map_offered(sharing, &region)?;
                }
                let has_it = sharing.memory.is_some();
                let (active, exchanged) = self.start_exchange(
                    sharing.communicator,
                    [has_it.into(), 0],
                    "sharing memory",
                )?;
                sharing.stage = Stage::Mapped(exchanged);
                Ok(Some(active))
            }
            Stage::Mapped(exchanged) => {
                for (addr, region) in sharing.exported.drain(..) {
                    self.endpoint.unexport(addr, &region);
                }
                let have_all = exchanged.all().iter().all(|words| words[1] == 1);
                sharing.memory.take_if(|_| !have_all);
                Ok(None)
            }
            Stage::Over => Ok(None),
        }
    }

    /// All processes send the first one a message, so that it is connected with each: an export stays bound to a connection that is still being
    /// made, even if the other process has made one at the same time that replaces it.
    fn connect_to_first(&mut self, communicator: usize) -> Result<Active> {
        let place = self.communicator(communicator)?;
        let (is_first, blocks) = (place.rank() == 0, place.size());
        let into = Blocks::Even {
            memory: temporary(if is_first { blocks as usize } else { 0 })?,
            blocks,
            datatype: None,
        };
        let from = Blocks::Each(vec![OwnedBuffer::bytes(temporary(1)?)]);
        let into = is_first.then_some(&into);
        let steps = self.gather(Some(&from), into, 0, communicator)?;
        self.begin(steps)
    }

    /// The first process sends each process its region of the memory, or none.
    fn offer_memory(&mut self, sharing: &mut Sharing) -> Result<Active> {
        let communicator = self.communicator(sharing.communicator)?;
        let (rank, members) = (communicator.rank(), communicator.group().members().to_vec());
        let mut regions = Vec::new();
        if rank == 0 {
            let host = self.hosts[self.rank as usize];
            let share = sharing.is_wanted
                && members
                    .iter()
                    .all(|member| self.hosts[*member as usize] == host);
            let offered = share.then(|| self.export_memory(sharing, &members));
            // If there is no memory for it, no process gets a region.
            if let Some(Ok(exported)) = offered {
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
            datatype: None,
        };
        let into = Blocks::Each(vec![OwnedBuffer::bytes(received.clone())]);
        let steps = self.scatter(Some(&from), Some(&into), 0, sharing.communicator)?;
        sharing.stage = Stage::Sent(received);
        self.begin(steps)
    }

    /// Allocates the memory, and exports it to all others. Returns the region of each.
    fn export_memory(
        &mut self,
        sharing: &mut Sharing,
        members: &[u32],
    ) -> Result<Vec<Option<RegionDescriptor>>> {
        let other = members.iter().find(|member| **member != self.rank);
        let memory = match other {
            Some(other) => {
                let addr = self.peers[*other as usize].addr;
                self.endpoint.memalloc(addr, sharing.len)?
            }
            None => temporary(sharing.len)?,
        };
        let mut regions = Vec::with_capacity(members.len());
        for member in members {
            regions.push(match *member == self.rank {
                true => None,
                false => {
                    let addr = self.peers[*member as usize].addr;
                    let region = self.endpoint.export(addr, &memory, Access::ReadWrite)?;
                    sharing.exported.push((addr, region));
                    Some(region)
                }
            });
        }
        sharing.memory = Some(memory);
        Ok(regions)
    }

    /// Maps the memory that the first process has exported, if it has, and this process can.
    fn map_offered(&mut self, sharing: &Sharing, region: &Memory) -> Result<Option<Memory>> {
        let bytes = region.to_vec();
        let Some((len, bytes)) = bytes.split_first() else {
            return Ok(None);
        };
        let bytes = bytes.get(..usize::from(*len)).unwrap_or_default();
        let Ok(region) = RegionDescriptor::decode(&mut Reader::new(bytes)) else {
            return Ok(None);
        };
        let first = self.communicator(sharing.communicator)?.peer(0)?;
        let mapped = self.endpoint.map(first.addr, &region);
        Ok(mapped.filter(|memory| memory.len() == sharing.len && memory.is_writable()))
    }
}
