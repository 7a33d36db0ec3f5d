//! The host's memory, and a process that lays descriptors out in it.

use causeway_firmware::{
    CompletionQueue, Firmware, Input, Piece, QueueId, Region, Side, Time, ViId,
};
use causeway_wire::vi::{
    COMPLETION_BYTES, CONTROL_BYTES, Completion, Control, STATUS_OFFSET, Segment, Status, control,
};

use super::Node;

/// Protection tag of everything here.
pub(crate) const TAG: u32 = 77;
/// Where the process's memory begins, for the process.
pub(crate) const BASE: u64 = 0x7000_0100;
/// Memory that is enough for most tests.
pub(crate) const BYTES: usize = 1 << 22;
/// Room for a descriptor.
const SLOT: u64 = 1536;

/// Host memory with one process.
pub(crate) struct Host {
    pub(crate) bytes: Vec<u8>,
    /// Bus page of each page of the process.
    pages: Vec<u64>,
    page_bytes: u64,
    pub(crate) handle: u32,
    next_slot: u64,
    next_data: u64,
    slots: u64,
    size: u64,
}

/// Memory of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) address: u64,
    pub(crate) bytes: u32,
}

impl Host {
    /// All of the process's memory is registered, every right granted.
    pub(crate) fn new(firmware: &mut Firmware, size: usize) -> Self {
        let page_bytes = u64::from(firmware.settings().page_bytes);
        let first = BASE / page_bytes;
        let last = (BASE + size as u64 - 1) / page_bytes;
        let count = last - first + 1;
        // Neighbouring pages of the process are not neighbours on the bus.
        let stride = (1..)
            .find(|stride| stride % 2 == 1 && *stride > count / 3)
            .expect("odd");
        let bus_pages = count.next_power_of_two();
        let pages: Vec<u64> = (0..count)
            .map(|page| page * stride % bus_pages * page_bytes)
            .collect();
        let region = Region {
            base: BASE,
            bytes: size as u64,
            tag: TAG,
            rdma_write: true,
            rdma_read: true,
            pages: &pages,
        };
        let handle = firmware.register(region).expect("there is room");
        Self {
            bytes: vec![0; (bus_pages * page_bytes) as usize],
            pages,
            page_bytes,
            handle,
            next_slot: BASE.next_multiple_of(64),
            next_data: BASE + size as u64 / 2,
            slots: (size as u64 / 2 - 64) / SLOT,
            size: size as u64,
        }
    }

    pub(crate) fn gather(&self, pieces: &[Piece], out: &mut Vec<u8>) {
        for piece in pieces {
            let at = piece.bus as usize;
            out.extend(&self.bytes[at..at + piece.bytes as usize]);
        }
    }

    pub(crate) fn scatter(&mut self, pieces: &[Piece], bytes: &[u8]) {
        let mut rest = bytes;
        for piece in pieces {
            let (here, later) = rest.split_at(piece.bytes as usize);
            let at = piece.bus as usize;
            self.bytes[at..at + here.len()].copy_from_slice(here);
            rest = later;
        }
        assert!(rest.is_empty(), "bytes without a place");
    }

    pub(crate) fn bus(&self, address: u64) -> usize {
        let page = address / self.page_bytes - BASE / self.page_bytes;
        (self.pages[page as usize] + address % self.page_bytes) as usize
    }

    /// The parts of a span that lie in one page each: where on the bus, how long.
    fn parts(&self, address: u64, count: usize) -> Vec<(usize, usize)> {
        let mut parts = Vec::new();
        let (mut address, mut left) = (address, count);
        while left > 0 {
            let in_page = (self.page_bytes - address % self.page_bytes) as usize;
            let here = left.min(in_page);
            parts.push((self.bus(address), here));
            address += here as u64;
            left -= here;
        }
        parts
    }

    pub(crate) fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (at, count) in self.parts(address, bytes.len()) {
            let (here, later) = rest.split_at(count);
            self.bytes[at..at + count].copy_from_slice(here);
            rest = later;
        }
    }

    pub(crate) fn read(&self, address: u64, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count);
        for (at, count) in self.parts(address, count) {
            bytes.extend_from_slice(&self.bytes[at..at + count]);
        }
        bytes
    }

    /// Memory for data; used over again when it is at its end.
    pub(crate) fn span(&mut self, bytes: u32) -> Span {
        if self.next_data + u64::from(bytes) > BASE + self.size {
            self.next_data = BASE + self.size / 2;
        }
        let address = self.next_data;
        self.next_data += u64::from(bytes);
        Span { address, bytes }
    }

    /// Memory for data with these bytes in it.
    pub(crate) fn with(&mut self, bytes: &[u8]) -> Span {
        let span = self.span(bytes.len() as u32);
        self.write(span.address, bytes);
        span
    }

    pub(crate) fn contents(&self, span: Span) -> Vec<u8> {
        self.read(span.address, span.bytes as usize)
    }

    pub(crate) fn segment(&self, span: Span) -> Segment {
        Segment {
            address: span.address,
            handle: self.handle,
            bytes: span.bytes,
        }
    }

    /// Where the next descriptor will be laid out.
    pub(crate) fn next_descriptor(&self) -> u64 {
        self.next_slot
    }

    /// Lays a descriptor out; the payload or the segments follow the control segment.
    pub(crate) fn descriptor(
        &mut self,
        control: Control,
        segments: &[Segment],
        payload: &[u8],
    ) -> u64 {
        let first = BASE.next_multiple_of(64);
        let address = self.next_slot;
        self.next_slot += SLOT;
        if self.next_slot >= first + (self.slots - 1) * SLOT {
            self.next_slot = first;
        }
        let control = Control {
            segments: segments.len() as u16,
            ..control
        };
        self.write(address, &[0; SLOT as usize]);
        self.write(address, &control.to_bytes());
        for (at, segment) in segments.iter().enumerate() {
            let place = address + (CONTROL_BYTES + 16 * at) as u64;
            self.write(place, &segment.to_bytes());
        }
        self.write(address + CONTROL_BYTES as u64, payload);
        address
    }

    pub(crate) fn status(&self, descriptor: u64) -> Status {
        let bytes = self.read(descriptor + STATUS_OFFSET as u64, 12);
        Status::decode(&bytes).expect("twelve bytes")
    }

    /// Entries that a completion queue at this place holds.
    pub(crate) fn completions(&self, address: u64, entries: u32) -> Vec<Completion> {
        let all = (0..u64::from(entries)).map(|entry| {
            let bytes = self.read(address + entry * COMPLETION_BYTES as u64, COMPLETION_BYTES);
            Completion::decode(&bytes).expect("the card writes what can be read")
        });
        all.filter(|entry| entry.round).collect()
    }
}

fn total(spans: &[Span]) -> u32 {
    spans.iter().map(|span| span.bytes).sum()
}

impl Node {
    pub(crate) fn post(&mut self, now: Time, vi: ViId, side: Side, address: u64) {
        let inside = (BASE..BASE + self.host.size - SLOT).contains(&address);
        let shadow = match self.firmware.settings().shadow_queues && inside {
            true => self.host.read(address, SLOT as usize),
            false => Vec::new(),
        };
        let input = Input::Doorbell {
            vi,
            side,
            address,
            handle: self.host.handle,
            shadow: &shadow,
        };
        self.input(now, input);
    }

    /// Posts a send of these spans.
    pub(crate) fn send(&mut self, now: Time, vi: ViId, spans: &[Span]) -> u64 {
        let segments: Vec<_> = spans.iter().map(|&span| self.host.segment(span)).collect();
        let control = Control {
            length: total(spans),
            ..Control::default()
        };
        let descriptor = self.host.descriptor(control, &segments, &[]);
        self.post(now, vi, Side::Send, descriptor);
        descriptor
    }

    /// Posts a send of bytes inside the descriptor.
    pub(crate) fn send_inside(&mut self, now: Time, vi: ViId, bytes: &[u8]) -> u64 {
        let control = Control {
            bits: control::PAYLOAD,
            length: bytes.len() as u32,
            ..Control::default()
        };
        let descriptor = self.host.descriptor(control, &[], bytes);
        self.post(now, vi, Side::Send, descriptor);
        descriptor
    }

    /// Posts a receive into these spans.
    pub(crate) fn receive(&mut self, now: Time, vi: ViId, spans: &[Span]) -> u64 {
        let segments: Vec<_> = spans.iter().map(|&span| self.host.segment(span)).collect();
        let descriptor = self.host.descriptor(Control::default(), &segments, &[]);
        self.post(now, vi, Side::Receive, descriptor);
        descriptor
    }

    /// Posts an RDMA operation: `bits` say which, `remote` where, `local` with what.
    pub(crate) fn rdma(
        &mut self,
        now: Time,
        vi: ViId,
        bits: u16,
        remote: &[Segment],
        local: &[Span],
    ) -> u64 {
        let mut segments = remote.to_vec();
        segments.extend(local.iter().map(|&span| self.host.segment(span)));
        let control = Control {
            bits,
            remote_segments: remote.len() as u32,
            immediate: 0xfeed,
            length: total(local),
            ..Control::default()
        };
        let descriptor = self.host.descriptor(control, &segments, &[]);
        self.post(now, vi, Side::Send, descriptor);
        descriptor
    }

    pub(crate) fn status(&self, descriptor: u64) -> Status {
        self.host.status(descriptor)
    }

    /// Makes a completion queue; returns its address.
    pub(crate) fn completion_queue(&mut self, entries: u32) -> (QueueId, u64) {
        let span = self.host.span(entries * 16 + 16);
        let address = span.address.next_multiple_of(16);
        self.host.write(address, &vec![0; entries as usize * 16]);
        let queue = CompletionQueue {
            address,
            handle: self.host.handle,
            tag: TAG,
            entries,
        };
        let queue = self.firmware.create_queue(queue).expect("there is room");
        (queue, address)
    }
}
