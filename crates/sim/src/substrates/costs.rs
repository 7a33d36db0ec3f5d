//! What everything in chapter 2 costs, read from a table in which each value names its source.

use super::processor::HostTimes;
use super::world::Cells;
use crate::engine::{Time, duration_at};
use crate::profile::units::Kind;
use crate::profile::{FileError, Section, Source};

/// Declares a section of the table: its fields are the file's keys.
macro_rules! section {
    ($(#[$text:meta])* $name:ident { $($(#[$field_text:meta])* $field:ident: $kind:ident,)* }) => {
        $(#[$text])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_text])* pub $field: u64,)*
        }

        impl $name {
            pub(super) fn read(file: &mut Section<'_>, key: &str) -> Result<Self, FileError> {
                file.part(key, |section| Ok(Self {
                    $($field: $crate::substrates::costs::quantity(
                        section, stringify!($field), Kind::$kind,
                    )?,)*
                }))
            }
        }
    };
}

pub(super) use section;

/// Reads a quantity. Sizes are those of what a message may need, so that sums and products of them stay finite.
pub(super) fn quantity(section: &mut Section<'_>, key: &str, kind: Kind) -> Result<u64, FileError> {
    let found = section.quantity(key, kind)?;
    if kind == Kind::Size && found.value > 1 << 30 {
        let wrong = format!("`{key}` must be at most 1 GiB");
        return Err(section.error(&found.span, wrong));
    }
    Ok(found.value)
}

section! {
    /// Table 2.1, and what it leaves open about the hardware.
    Hardware {
        /// The host's clock.
        host_clock: Frequency,
        /// The network processor's clock.
        np_clock: Frequency,
        /// An access that the cache serves.
        cache_access: Cycles,
        /// An access to memory.
        memory_access: Cycles,
        /// An access to the card.
        ni_access: Cycles,
        /// The link.
        link: Rate,
        /// From one node to the other.
        propagation: Time,
        /// The memory bus.
        memory_bus: Rate,
        /// The I/O bus.
        io_bus: Rate,
        /// From programming a DMA engine to its first byte.
        dma_startup: Time,
        /// A page of memory.
        page: Size,
        /// A cell on the wire.
        cell: Size,
        /// A cell's data.
        cell_payload: Size,
        /// What is added to a packet before it is cut into cells.
        trailer: Size,
    }
}

section! {
    /// What programs and their operating system cost the host's processor.
    Programs {
        /// A floating-point operation.
        floating: Cycles,
        /// An integer operation.
        integer: Cycles,
        /// From one process to another.
        context_switch: Cycles,
        /// How long a process runs while others are ready.
        quantum: Time,
    }
}

section! {
    /// What the Active Messages layer costs.
    Layer {
        /// A message's header is put together.
        compose: Cycles,
        /// Into `am_poll` and out of it.
        enter_poll: Cycles,
        /// A handler is found and called.
        dispatch: Cycles,
    }
}

section! {
    /// C1: what the kernel's path costs the host's processor.
    Kernel {
        /// Into the kernel and back.
        system_call: Cycles,
        /// Buffers for a packet that goes out.
        send_buffers: Cycles,
        /// Protocol, driver and ATM processing of a packet that goes out.
        send_driver: Cycles,
        /// Four bytes of checksum, just copied and therefore in the cache.
        checksum_word: Cycles,
        /// A DMA transfer is programmed: the page pinned, its cache lines flushed, the registers written.
        program_dma: Cycles,
        /// From a device's signal to its handler, and back.
        interrupt: Cycles,
        /// Driver and ATM processing of a packet that has come.
        receive_driver: Cycles,
        /// The packet joins the system's queue.
        receive_queue: Cycles,
        /// A poll of the system's queue.
        look: Cycles,
        /// The packet leaves the queue, and its buffers are freed.
        receive_dequeue: Cycles,
    }
}

section! {
    /// C2 and C3: what the library costs the host's processor.
    Library {
        /// The library's part of a send.
        send: Cycles,
        /// A poll of the receive queue that finds nothing.
        look: Cycles,
        /// A packet is taken from the receive queue.
        receive: Cycles,
        /// What a descriptor holds of a message.
        descriptor: Size,
        /// A descriptor without the message's data.
        bare_descriptor: Size,
        /// The host's part of a miss of the card's TLB, besides its access to the page table for each page: context switch, dispatch, return.
        miss_interrupt: Cycles,
        /// The page table is looked up, the page pinned and noted as cached on the card, its entry written.
        miss_page: Cycles,
        /// From requesting a page of the disk to having it, when the page is not in memory.
        page_in: Time,
    }
}

section! {
    /// What the card's program costs the network processor.
    Card {
        /// A poll of the network.
        poll_network: Cycles,
        /// A poll of one endpoint's send queue.
        poll_endpoint: Cycles,
        /// A descriptor is read and checked, a header built.
        send: Cycles,
        /// A DMA transfer is programmed.
        program_dma: Cycles,
        /// The packet is handed to the network.
        transmit: Cycles,
        /// Afterwards: the descriptor is released.
        send_cleanup: Cycles,
        /// A packet's endpoint is found.
        demultiplex: Cycles,
        /// The receive queue's new entry.
        enqueue: Cycles,
        /// C3: one page is looked up in the TLB.
        lookup: Cycles,
        /// C3: the packet is put aside, the host interrupted, its reply found.
        miss: Cycles,
    }
}

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Packets from one process to another that have not been consumed.
    pub window: u32,
    /// Descriptors in an endpoint's send queue.
    pub send_queue: u32,
    /// Sets of the card's TLB.
    pub tlb_sets: u32,
    /// Entries in each set.
    pub tlb_ways: u32,
}

/// All of chapter 2's costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Table 2.1.
    pub hardware: Hardware,
    /// Programs and the operating system.
    pub programs: Programs,
    /// Active Messages.
    pub layer: Layer,
    /// C1.
    pub kernel: Kernel,
    /// C2 and C3.
    pub library: Library,
    /// NI3's program.
    pub card: Card,
    /// Queues.
    pub room: Room,
}

impl Costs {
    /// The table that is shipped.
    pub fn psnow() -> Result<Self, FileError> {
        Self::read("substrates.toml", Self::SHIPPED)
    }

    /// The table that comes with the simulator.
    pub const SHIPPED: &'static str = include_str!("../../profiles/substrates.toml");

    /// Reads a table.
    pub fn read(file: &str, text: &str) -> Result<Self, FileError> {
        let mut file = Source { file, text }.document()?;
        let costs = Self {
            hardware: Hardware::read(&mut file, "hardware")?,
            programs: Programs::read(&mut file, "programs")?,
            layer: Layer::read(&mut file, "layer")?,
            kernel: Kernel::read(&mut file, "kernel")?,
            library: Library::read(&mut file, "library")?,
            card: Card::read(&mut file, "card")?,
            room: file.part("room", room)?,
        };
        costs.check(&file)?;
        file.finish()?;
        Ok(costs)
    }

    /// Refuses hardware that cannot be.
    fn check(&self, file: &Section<'_>) -> Result<(), FileError> {
        let hardware = &self.hardware;
        let refuse = |message: &str| Err(file.error(&(0..0), message));
        let needed = [
            ("host_clock", hardware.host_clock),
            ("np_clock", hardware.np_clock),
            ("link", hardware.link),
            ("memory_bus", hardware.memory_bus),
            ("io_bus", hardware.io_bus),
            ("cell_payload", hardware.cell_payload),
        ];
        if let Some((name, _)) = needed.iter().find(|(_, value)| *value == 0) {
            return refuse(&format!("`hardware.{name}` must be more than 0"));
        }
        if hardware.cell_payload > hardware.cell {
            return refuse("`hardware.cell_payload` cannot be more than `hardware.cell`");
        }
        if !hardware.page.is_power_of_two() || hardware.page < 64 {
            return refuse("`hardware.page` must be a power of two, and 64 B at least");
        }
        let switch = duration_at(self.programs.context_switch, hardware.host_clock);
        if self.programs.quantum <= switch {
            return refuse("`programs.quantum` must be longer than a context switch");
        }
        Ok(())
    }

    /// A copy by the processor, for four bytes: read, write, count.
    pub(super) fn copy_word(&self) -> u64 {
        2 * self.hardware.memory_access + self.hardware.cache_access
    }

    /// `bytes` between memory and the card's FIFOs, moved by the processor in double words.
    pub(super) fn fifo(&self, bytes: usize) -> u64 {
        let each = self.hardware.memory_access + self.hardware.ni_access;
        (bytes as u64).div_ceil(8) * each
    }

    /// How long `cycles` of the network processor take.
    pub(super) fn np(&self, cycles: u64) -> Time {
        duration_at(cycles, self.hardware.np_clock)
    }

    /// A DMA transfer of `bytes`: the slower of the two buses decides.
    pub(super) fn dma(&self, bytes: u64) -> Time {
        let rate = self.hardware.memory_bus.min(self.hardware.io_bus);
        self.hardware.dma_startup + duration_at(bytes, rate)
    }

    pub(super) fn cells(&self) -> Cells {
        Cells {
            bytes: self.hardware.cell,
            payload: self.hardware.cell_payload,
            trailer: self.hardware.trailer,
        }
    }

    /// One cell on the link.
    pub(super) fn cell_time(&self) -> Time {
        duration_at(self.hardware.cell, self.hardware.link)
    }

    pub(super) fn host_times(&self, processors: u32, poll_cycles: u64) -> HostTimes {
        let cycles = |count| duration_at(count, self.hardware.host_clock);
        HostTimes {
            processors: processors as usize,
            context_switch: cycles(self.programs.context_switch),
            quantum: self.programs.quantum,
            poll: cycles(poll_cycles),
        }
    }
}

fn room(section: &mut Section<'_>) -> Result<Room, FileError> {
    let mut count = |key, least, most| -> Result<u32, FileError> {
        Ok(section.count(key, least, most)?.value as u32)
    };
    Ok(Room {
        window: count("window", 1, 1 << 16)?,
        send_queue: count("send_queue", 1, 1 << 16)?,
        tlb_sets: count("tlb_sets", 1, 1 << 20)?,
        // A packet needs two translations at a time.
        tlb_ways: count("tlb_ways", 2, 64)?,
    })
}

/// Words of four bytes.
pub(super) fn words(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}
