//! The latest writes in their order, in a file: a repeated write must not undo later ones.
//!
//! A client whose connection breaks sends its write again, though the server may have stored it and other clients may
//! have overwritten it since, with an acknowledgement. Storing it once more would undo their writes. So every write
//! leaves an entry before it is stored, while its blocks are locked, and a repeated one is not stored where it was
//! stored before and overwritten since. The result is as if it had been stored just before the writes that overwrote
//! it, all of which ended after the client called it.
//!
//! The file outlives a killed server, as the data do, in the kernel's page cache. Nothing is known of an earlier boot of the host, nor
//! of writes that began before the oldest entry: a repeated write then fails.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;

use causeway_wire::codec::{Wire as _, Writer};
use causeway_wire::datafile::{
    Extent, HISTORY_ENTRIES, HISTORY_ENTRY_BYTES, HistoryEntry, HistoryHeader, WriteId,
};
use causeway_wire::fs::{Moment, ObjectId, Region};
use rustix::time::{ClockId, clock_gettime};

use super::fault::{Fault, Result};
use super::types::Owner;
use crate::files::open_or_create;
use crate::locks::lock;

/// Name of the file.
const NAME: &str = "history";
/// Most entries of one piece of a write; of a longer list of regions only the span that covers it is kept.
const MAX_EXTENTS: usize = 256;

/// The request to which a piece belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// The client's write.
    pub write: WriteId,
    /// A moment no later than the first sending of a repeated write.
    pub repeated: Option<Moment>,
}

/// Nanoseconds since the host's present boot.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    (time.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time.tv_nsec as u64)
}

/// The latest writes to the datafiles of a store.
#[derive(Debug)]
pub(super) struct History {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The entries by slot, as in the file.
    entries: Vec<Option<HistoryEntry>>,
    /// Position of the next entry.
    next: u64,
    /// The host's boot.
    boot: u128,
    /// All writes of that boot after this moment have entries.
    since: u64,
}

impl History {
    /// Opens the history in `directory`. Begins a new one if there is none, or if the file belongs to another server
    /// or to an earlier boot of the host.
    pub(super) fn open(directory: &Path, owner: Owner, boot: u128) -> io::Result<Self> {
        let file = open_or_create(&directory.join(NAME))?;
        let history = Self {
            file,
            state: Mutex::new(State {
                entries: vec![None; HISTORY_ENTRIES as usize],
                next: 0,
                boot,
                since: 0,
            }),
        };
        history.load(owner, boot)?;
        Ok(history)
    }

    /// Reads the file again, or begins a new one, since the host's boot may have another identity now.
    pub(super) fn load(&self, owner: Owner, boot: u128) -> io::Result<()> {
        let len = (HISTORY_ENTRIES + 1) * HISTORY_ENTRY_BYTES as u64;
        let mut bytes = Vec::new();
        let mut file = &self.file;
        io::Seek::rewind(&mut file)?;
        file.take(len).read_to_end(&mut bytes)?;
        let mut state = lock(&self.state);
        let header = bytes
            .get(..HISTORY_ENTRY_BYTES)
            .and_then(|bytes| HistoryHeader::from_bytes(bytes).ok());
        state.entries.fill(None);
        state.next = 0;
        state.boot = boot;
        match header {
            Some(header)
                if bytes.len() as u64 == len
                    && (header.file_system, header.generation, header.boot)
                        == (owner.file_system, owner.generation, boot) =>
            {
                state.since = header.since;
                state.load_entries(&bytes[HISTORY_ENTRY_BYTES..]);
                Ok(())
            }
            _ => {
                state.since = now();
                let mut bytes = HistoryHeader {
                    file_system: owner.file_system,
                    generation: owner.generation,
                    boot,
                    since: state.since,
                }
                .to_bytes();
                // Allocates the file's blocks, so that later entries need no room on the disk.
                bytes.resize(len as usize, 0);
                self.file.set_len(len)?;
                self.file.write_all_at(&bytes, 0)
            }
        }
    }

    /// Notes that these bytes are about to be stored. Their blocks must be held until they are.
    pub(super) fn note(
        &self,
        write: WriteId,
        object: ObjectId,
        regions: &[Region],
    ) -> io::Result<()> {
        match regions {
            [one] => self.append(write, object, &[single(one)]),
            regions => self.append(write, object, &extents(regions)),
        }
    }

    /// Notes that all bytes from `size` on are about to be truncated.
    pub(super) fn note_cut(&self, object: ObjectId, size: u64) -> io::Result<()> {
        let tail = Extent::From { offset: size };
        self.append(WriteId::default(), object, &[tail])
    }

    fn append(&self, write: WriteId, object: ObjectId, extents: &[Extent]) -> io::Result<()> {
        let mut state = lock(&self.state);
        let at = now();
        let mut rest = extents;
        while !rest.is_empty() {
            // As many entries as are contiguous in the file.
            let place = state.next % HISTORY_ENTRIES;
            let room = usize::try_from(HISTORY_ENTRIES - place).unwrap_or(usize::MAX);
            let (these, later) = rest.split_at(room.min(rest.len()));
            let mut out = Writer::new();
            for extent in these {
                let entry = HistoryEntry {
                    position: state.next,
                    write,
                    object,
                    at,
                    extent: *extent,
                };
                entry.encode(&mut out);
                state.put(entry);
            }
            let offset = (place + 1) * HISTORY_ENTRY_BYTES as u64;
            self.file.write_all_at(&out.finish(), offset)?;
            rest = later;
        }
        Ok(())
    }

    /// Ascending spans of a piece of a write that was first sent at `first` or later, which was stored there and which
    /// other writes have overwritten since. Its blocks must be held.
    pub(super) fn overwritten(
        &self,
        write: WriteId,
        first: Moment,
        object: ObjectId,
        regions: &[Region],
    ) -> Result<Vec<(u64, u64)>> {
        let state = lock(&self.state);
        if first.boot != state.boot || first.at <= state.since {
            return Err(Fault::Unknown);
        }
        let mut later: Vec<Extent> = Vec::new();
        let mut spans = Vec::new();
        for position in (state.next.saturating_sub(HISTORY_ENTRIES)..state.next).rev() {
            let Some(entry) = &state.entries[(position % HISTORY_ENTRIES) as usize] else {
                continue;
            };
            if entry.at < first.at {
                break;
            }
            if entry.object != object {
                continue;
            }
            if entry.write != write {
                later.push(entry.extent);
                continue;
            }
            for region in regions {
                let end = region.offset.saturating_add(region.len);
                for own in intersect(&entry.extent, (region.offset, end)).spans {
                    for other in &later {
                        let common = intersect(other, own);
                        if !common.is_exact && !common.spans.is_empty() {
                            return Err(Fault::Unknown);
                        }
                        spans.extend(common.spans);
                    }
                }
            }
        }
        spans.sort_unstable();
        Ok(spans)
    }
}

impl State {
    fn put(&mut self, entry: HistoryEntry) {
        let place = (entry.position % HISTORY_ENTRIES) as usize;
        if let Some(replaced) = self.entries[place].replace(entry) {
            self.since = self.since.max(replaced.at);
        }
        self.next = entry.position + 1;
    }

    /// Loads the entries of a file. An entry that a kill has cut short belongs to a write that was not begun.
    fn load_entries(&mut self, bytes: &[u8]) {
        let decoded = |bytes: &[u8]| HistoryEntry::from_bytes(bytes).ok();
        let found = bytes.chunks_exact(HISTORY_ENTRY_BYTES).map(decoded);
        for (place, entry) in found.enumerate() {
            let entry = entry.filter(|e| e.position % HISTORY_ENTRIES == place as u64);
            self.entries[place] = entry;
        }
        let next = |entry: &HistoryEntry| entry.position + 1;
        self.next = self.entries.iter().flatten().map(next).max().unwrap_or(0);
        if self.next > HISTORY_ENTRIES {
            // Entries before the oldest have been replaced.
            let oldest = self.entries[(self.next % HISTORY_ENTRIES) as usize];
            let at = oldest.map_or_else(now, |entry| entry.at);
            self.since = self.since.max(at);
        }
    }
}

/// The part of an extent that lies inside a span.
struct Intersection {
    spans: Vec<(u64, u64)>,
    /// Whether each byte of the spans is one of the extent's.
    is_exact: bool,
}

fn intersect(extent: &Extent, (start, end): (u64, u64)) -> Intersection {
    let cut = |(from, to): (u64, u64)| {
        let span = (from.max(start), to.min(end));
        (span.0 < span.1).then_some(span)
    };
    let one = |from, to, is_exact| Intersection {
        spans: cut((from, to)).into_iter().collect(),
        is_exact,
    };
    match *extent {
        Extent::From { offset } => one(offset, u64::MAX, true),
        Extent::Within { offset, end } => one(offset, end, false),
        Extent::Steps {
            offset,
            len,
            step,
            count,
        } if count == 1 || step == len => {
            let all = len.saturating_mul(count);
            one(offset, offset.saturating_add(all), true)
        }
        Extent::Steps {
            offset,
            len,
            step,
            count,
        } => {
            let first = start.saturating_sub(offset) / step.max(1);
            let behind = end.saturating_sub(offset).div_ceil(step.max(1)).min(count);
            let beginning = |index: u64| offset.saturating_add(index.saturating_mul(step));
            let spans = (first..behind)
                .filter_map(|index| {
                    let from = beginning(index);
                    cut((from, from.saturating_add(len)))
                })
                .collect();
            Intersection {
                spans,
                is_exact: true,
            }
        }
    }
}

fn single(region: &Region) -> Extent {
    Extent::Steps {
        offset: region.offset,
        len: region.len,
        step: region.len,
        count: 1,
    }
}

/// A short description of a list of regions: a series of equal steps becomes one extent.
fn extents(regions: &[Region]) -> Vec<Extent> {
    let mut out: Vec<Extent> = Vec::new();
    for region in regions.iter().filter(|region| region.len > 0) {
        if !out
            .last_mut()
            .is_some_and(|last| extend_steps(last, region))
        {
            out.push(single(region));
        }
    }
    if out.len() <= MAX_EXTENTS {
        return out;
    }
    let start = regions.iter().map(|region| region.offset).min();
    let end = regions.iter().map(|r| r.offset.saturating_add(r.len)).max();
    vec![Extent::Within {
        offset: start.unwrap_or(0),
        end: end.unwrap_or(0),
    }]
}

/// Adds a region to a series of equal steps, if it is the next one of the series.
fn extend_steps(last: &mut Extent, region: &Region) -> bool {
    let Extent::Steps {
        offset,
        len,
        step,
        count,
    } = last
    else {
        return false;
    };
    let Some(distance) = region.offset.checked_sub(*offset) else {
        return false;
    };
    let fits = match *count {
        1 => distance >= *len,
        count => step.checked_mul(count) == Some(distance),
    };
    if region.len != *len || !fits {
        return false;
    }
    if *count == 1 {
        *step = distance;
    }
    *count += 1;
    true
}

#[cfg(test)]
mod tests;
