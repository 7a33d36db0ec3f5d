//! The costs of everything in chapter 2, read from a table in which each value names its source.

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

/// Reads a quantity. Sizes are limited to what a message may need, so that sums and products of them stay finite.
pub(super) fn quantity(section: &mut Section<'_>, key: &str, kind: Kind) -> Result<u64, FileError> {
    let found = section.quantity(key, kind)?;
    if kind == Kind::Size && found.value > 1 << 30 {
        let wrong = format!("`{key}` must be at most 1 GiB");
        return Err(section.error(&found.span, wrong));
    }
    Ok(found.value)
}

section! {
    /// Table 2.1, and the parameters of the hardware that it leaves open.
    Hardware {
        /// The host's clock.
        host_clock: Frequency,
        /// The network processor's clock.
        np_clock: Frequency,
        /// An access that hits the cache.
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
        /// Bytes added to a packet before it is cut into cells.
        trailer: Size,
    }
}

section! {
    /// Processor time of programs and their operating system.
    Programs {
        /// A floating-point operation.
        floating: Cycles,
        /// An integer operation.
        integer: Cycles,
        /// Switching from one process to another.
        context_switch: Cycles,
        /// How long a process runs while others are ready.
        quantum: Time,
    }
}

section! {
    /// Processor time of the Active Messages layer.
    Layer {
        /// Building a message's header.
        compose: Cycles,
        /// Entering `am_poll` and returning.
        enter_poll: Cycles,
        /// Finding and calling a handler.
        dispatch: Cycles,
    }
}

section! {
    /// C1: processor time of the kernel's path.
    Kernel {
        /// Entering the kernel and returning.
        system_call: Cycles,
        /// Buffers for an outgoing packet.
        send_buffers: Cycles,
        /// Protocol, driver and ATM processing of an outgoing packet.
        send_driver: Cycles,
        /// Four bytes of checksum, which were just copied and are therefore in the cache.
        checksum_word: Cycles,
        /// Programming a DMA transfer: pinning the page, flushing its cache lines, writing the registers.
        program_dma: Cycles,
        /// From a device's signal to its handler, and back.
        interrupt: Cycles,
        /// Driver and ATM processing of an incoming packet.
        receive_driver: Cycles,
        /// Adding the packet to the system's queue.
        receive_queue: Cycles,
        /// A poll of the system's queue.
        look: Cycles,
        /// Removing the packet from the queue, and freeing its buffers.
        receive_dequeue: Cycles,
    }
}

section! {
    /// C2 and C3: processor time of the library.
    Library {
        /// The library's part of a send.
        send: Cycles,
        /// An unsuccessful poll of the receive queue.
        look: Cycles,
        /// Taking a packet from the receive queue.
        receive: Cycles,
        /// Bytes of a message that fit into a descriptor.
        descriptor: Size,
        /// A descriptor without the message's data.
        bare_descriptor: Size,
        /// The host's part of a miss of the card's TLB, in addition to its access to the page table
        /// for each page: context switch, dispatch, return.
        miss_interrupt: Cycles,
        /// Looking up the page table, pinning the page and marking it as cached on the card, writing its entry.
        miss_page: Cycles,
        /// Time to bring a page from the disk, when it is not in memory.
        page_in: Time,
    }
}

section! {
    /// Time of the network processor for the card's program.
    Card {
        /// A poll of the network.
        poll_network: Cycles,
        /// A poll of one endpoint's send queue.
        poll_endpoint: Cycles,
        /// Reading and checking a descriptor, building a header.
        send: Cycles,
        /// Programming a DMA transfer.
        program_dma: Cycles,
        /// Handing the packet to the network.
        transmit: Cycles,
        /// Releasing the descriptor.
        send_cleanup: Cycles,
        /// Finding a packet's endpoint.
        demultiplex: Cycles,
        /// Writing the receive queue's entry.
        enqueue: Cycles,
        /// C3: looking up one page in the TLB.
        lookup: Cycles,
        /// C3: putting the packet aside, interrupting the host, finding its reply.
        miss: Cycles,
    }
}

/// Capacities.
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

    /// Refuses impossible hardware.
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
