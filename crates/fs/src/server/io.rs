//! Reads and writes of datafiles: between the client's memory and the file, in pieces.
//!
//! A [`Job`] is one request. Its bytes move in pieces, a few at a time: where the client's memory can
//! be mapped, a piece goes straight between it and the file, one copy in all; otherwise through a
//! buffer, and the transfer of one piece overlaps the storage of another. A list of regions that is
//! too long for the request is fetched from the client's memory part by part.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_bmi::{Addr, Direction, Memory, OpError, Posted, RegionDescriptor};
use causeway_wire::datafile::BLOCK_BYTES;
use causeway_wire::fs::{Errno, Failure, ObjectId, Region, Regions, Reply, ReplyBody, WantedSums};

use super::error::storage_failure;
use super::events::{Done, EntryState, Loop};
use super::piece_io::{PieceResult, read_piece};
use super::purpose::Purpose;
use super::regions::{LocalStream, RegionStream, RemoteStream, remote_bytes};
use super::staging::BUFFER_BYTES;
use super::ticket::{ReplyTo, Ticket};
use crate::data::types::Wait;
use crate::data::{Abandoned, Datafile, Fault, Origin, Piece, ReadOptions, Stamp};
use crate::error::failure;
use crate::sabotage::{self, Sabotage};

/// Most pieces of one job in progress at once (R2.4's throttling).
const WINDOW: usize = 4;
/// Bytes of a piece that needs no buffer.
const MAPPED_PIECE: u64 = 1 << 20;
/// Most bytes that a reply carries inside.
pub(super) const MAX_INLINE: u64 = 32 << 10;
/// The cost of each region, expressed in bytes that could be stored in the same time.
const REGION_EFFORT: u64 = 256;
/// Most sums in one reply: they leave room for the other fields.
pub(super) const MAX_SUMS: u64 = 12 << 10;
/// Bytes stored in one round of the loop before it polls for messages again.
const ROUND_BYTES: u64 = 2 << 20;

/// A read or write in progress.
pub(super) struct Job {
    pub(super) ticket: Ticket,
    pub(super) requester: Requester,
    pub(super) write: bool,
    abandoned: Abandoned,
    origin: Origin,
    /// The append lock under which a write was sent, or 0.
    append_lock: u64,
    pub(super) object: ObjectId,
    file: Arc<Datafile>,
    /// The least length of the datafile.
    at_least: u64,
    pub(super) regions: RegionStream,
    pub(super) memory: MemorySide,
    /// The memory of the reply's data, if the client's bytes travel in the reply.
    pub(super) inline: Option<Memory>,
    /// Bytes that are not part of any piece yet.
    pub(super) left: u64,
    pub(super) total: u64,
    found: u64,
    /// The sums that the client has requested for the first blocks; the server verifies the others
    /// itself.
    wanted: WantedSums,
    sums: Vec<u32>,
    /// The stamp of the datafile's file when a read began.
    stamp: Option<Stamp>,
    /// Size of the datafile when a read began, or after what was written so far.
    size: u64,
    pieces: [Option<PieceInFlight>; WINDOW],
    /// The buffer into which a part of the list of regions is being transferred.
    pub(super) list: Option<Memory>,
    failure: Option<Failure>,
    /// Time spent in transfers, and in storage. Pieces overlap, so the sums may exceed the time that has passed.
    copy_time: Duration,
    storage_time: Duration,
}

/// The origin of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requester {
    pub(super) to: ReplyTo,
    /// The instance of the client library.
    pub(super) client: u128,
    /// The version of the capability that the request presents, if it presents one.
    pub(super) version: Option<u64>,
}

/// Where the client's bytes of a job are.
pub(super) enum MemorySide {
    /// The client's memory is mapped into this process.
    Local(LocalStream),
    /// The bytes are moved to and from the client's memory by transfers.
    Remote(RemoteStream),
    /// The bytes travel in the reply; its length is known when the list of regions has been fetched.
    Awaited,
}

/// A piece in progress.
struct PieceInFlight {
    piece: Piece,
    len: u64,
    /// The index of the piece's first block among those of the job, if the client verifies its sums.
    summed: Option<usize>,
    /// The buffer and the regions of the client's memory, if the piece needs a transfer.
    staged: Option<(Memory, Vec<RegionDescriptor>)>,
    /// Its transfer is in progress.
    moving: bool,
    /// When its present step began.
    since: Instant,
}

impl Job {
    /// A read of `total` bytes of a datafile, which must have `at_least` bytes.
    fn new(
        ticket: Ticket,
        requester: Requester,
        (object, at_least): (ObjectId, u64),
        file: Arc<Datafile>,
        regions: RegionStream,
        memory: MemorySide,
        total: u64,
    ) -> Self {
        Self {
            ticket,
            requester,
            write: false,
            abandoned: Abandoned::default(),
            origin: Origin::default(),
            append_lock: 0,
            object,
            file,
            at_least,
            regions,
            memory,
            inline: None,
            left: total,
            total,
            found: 0,
            wanted: WantedSums::None,
            sums: Vec::new(),
            stamp: None,
            size: 0,
            pieces: Default::default(),
            list: None,
            failure: None,
            copy_time: Duration::ZERO,
            storage_time: Duration::ZERO,
        }
    }

    /// Whether the job waits for the client.
    pub(super) fn waits_for_client(&self) -> bool {
        self.list.is_some() || self.pieces.iter().flatten().any(|flight| flight.moving)
    }

    /// Ends the job with this failure: no further piece of it is stored or read.
    pub(super) fn abandon(&mut self, why: Failure) {
        self.abandoned.set();
        self.fail(why);
    }

    pub(super) fn in_flight(&self) -> bool {
        self.list.is_some() || self.pieces.iter().any(Option::is_some)
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
        self.left = 0;
    }
}

/// The result of starting a piece.
pub(super) enum Step {
    /// Another piece can be started.
    Again,
    /// A piece in progress must end first, or the job is at its end.
    Wait,
    /// The loop itself has stored this many bytes.
    Stored(u64),
}

impl Loop {
    pub(super) fn start_read(
        &mut self,
        requester: Requester,
        (object, at_least): (ObjectId, u64),
        regions: Regions,
        memory: Vec<RegionDescriptor>,
        sums: WantedSums,
    ) -> Result<Option<ReplyBody>, Failure> {
        let summed = one_of_blocks(&regions).is_some() && self.crosses_network(requester.to.from);
        let found = self
            .store()?
            .find(object)
            .and_then(|file| match file {
                Some(file) => Ok(Some((file.stamp()?, file))),
                None if at_least > 0 && !sabotage::is_on(Sabotage::IgnoreLength) => {
                    Err(Fault::Absent { wanted: at_least })
                }
                None => Ok(None),
            })
            .map_err(|error| storage_failure("reading", object, &error))?;
        let (stream, total) = RegionStream::new(regions)?;
        let remote = remote_bytes(&memory)?;
        let inline = memory.is_empty();
        let total = match (total, inline) {
            (Some(total), false) if total != remote => return Err(mismatch(total, remote)),
            (Some(total), true) if total > MAX_INLINE => return Err(too_much_inside(total)),
            (None, false) => Some(remote),
            (total, _) => total,
        };
        let nothing = |size: u64| (size == 0 && at_least == 0) || total == Some(0);
        let Some((stamp, file)) = found.filter(|(stamp, _)| !nothing(stamp.size())) else {
            return Ok(Some(nothing_transferred(0)));
        };
        let mut reply = None;
        let memory = match total {
            Some(total) if inline => {
                let buffer = Memory::zeroed(total as usize);
                reply = Some(buffer.clone());
                MemorySide::Local(LocalStream::new(vec![buffer].into_iter()))
            }
            None => MemorySide::Awaited,
            Some(_) => self.reach(requester.to.from, memory, Direction::Put),
        };
        let total = total.unwrap_or(0);
        let summed = match summed && sums != WantedSums::None && !inline && file.has_sums() {
            true => (total / BLOCK_BYTES).min(MAX_SUMS),
            false => 0,
        };
        let ticket = self.open_request(requester);
        let job = Job {
            inline: reply,
            wanted: sums,
            sums: vec![0; summed as usize],
            stamp: Some(stamp),
            size: stamp.size(),
            ..Job::new(
                ticket,
                requester,
                (object, at_least),
                file,
                stream,
                memory,
                total,
            )
        };
        Ok(self.start(job))
    }

    pub(super) fn start_write(
        &mut self,
        requester: Requester,
        (object, at_least): (ObjectId, u64),
        (origin, append_lock): (Origin, u64),
        regions: Regions,
        (memory, inline): (Vec<RegionDescriptor>, Vec<u8>),
    ) -> Result<Option<ReplyBody>, Failure> {
        let (stream, total) = RegionStream::new(regions)?;
        let given = match memory.is_empty() {
            true => inline.len() as u64,
            false => remote_bytes(&memory)?,
        };
        if let Some(total) = total.filter(|&total| total != given) {
            return Err(mismatch(total, given));
        }
        let file = self
            .store()?
            .find_or_make(object, at_least)
            .map_err(|error| storage_failure("making", object, &error))?;
        if given == 0 {
            return file
                .size()
                .map(|size| Some(nothing_transferred(size)))
                .map_err(|error| storage_failure("writing", object, &error.into()));
        }
        let memory = match memory.is_empty() {
            true => MemorySide::Local(LocalStream::new(vec![Memory::from_vec(inline)].into_iter())),
            false => self.reach(requester.to.from, memory, Direction::Get),
        };
        let ticket = self.open_request(requester);
        let job = Job {
            write: true,
            origin,
            append_lock,
            ..Job::new(
                ticket,
                requester,
                (object, at_least),
                file,
                stream,
                memory,
                given,
            )
        };
        Ok(self.start(job))
    }

    /// Maps the client's memory if all of it can be mapped. Memory that the client has not exported for this direction
    /// is refused, as a transfer of it would be.
    fn reach(
        &mut self,
        from: Addr,
        memory: Vec<RegionDescriptor>,
        direction: Direction,
    ) -> MemorySide {
        let mut mapped = Vec::with_capacity(memory.len());
        for region in &memory {
            let span = region.object.and_then(|_| self.bmi.map(from, region));
            match span {
                Some(span)
                    if span.len() as u64 == region.len
                        && (direction == Direction::Get || span.is_writable()) =>
                {
                    mapped.push(span);
                }
                _ => return MemorySide::Remote(RemoteStream::new(memory.into_iter())),
            }
        }
        MemorySide::Local(LocalStream::new(mapped.into_iter()))
    }

    /// Whether bytes on their way to a client leave this host. Within the host the server verifies them, in the
    /// client's own memory where that is mapped.
    fn crosses_network(&self, from: Addr) -> bool {
        self.bmi.method(from).is_some_and(|method| method != "shm")
    }

    fn open_request(&mut self, requester: Requester) -> Ticket {
        self.open_entry(requester.to, EntryState::Elsewhere)
    }

    /// Starts a job; it is replied to when it ends.
    fn start(&mut self, job: Job) -> Option<ReplyBody> {
        self.put_runnable(Box::new(job));
        None
    }

    /// Advances jobs, for a bounded time.
    pub(super) fn run_jobs(&mut self) {
        let mut stored = 0;
        while stored < ROUND_BYTES
            && let Some(ticket) = self.next_job()
        {
            stored += self.advance(ticket);
        }
    }

    /// Refuses a write under an append lock after one under a later lock, and ends those under earlier locks that are in
    /// progress.
    pub(super) fn admit_append_lock(
        &mut self,
        object: ObjectId,
        append_lock: u64,
    ) -> Result<(), Failure> {
        if append_lock == 0 {
            return Ok(());
        }
        if !self.seen_append_locks.admit(object, append_lock) {
            return Err(overtaken());
        }
        for entry in self.entries.iter_mut().flatten() {
            if let EntryState::Moving(job) = &mut entry.state
                && job.object == object
                && (1..append_lock).contains(&job.append_lock)
            {
                job.abandon(overtaken());
            }
        }
        Ok(())
    }

    fn next_job(&mut self) -> Option<Ticket> {
        self.runnable.pop_front().or_else(|| {
            let at = self.next_starved()?;
            self.starved.remove(at)
        })
    }

    /// The place of the first job in the queue for buffers that can have one now.
    pub(super) fn next_starved(&self) -> Option<usize> {
        if !self.staging.may_take() {
            return None;
        }
        self.starved.iter().position(|ticket| {
            // A request that has ended meanwhile is taken out of the queue.
            let entry = self.entries.get(usize::from(ticket.slot));
            let entry = entry.and_then(Option::as_ref);
            let entry = entry.filter(|entry| entry.generation == ticket.generation);
            entry.is_none_or(|entry| self.staging.may_take_for(&self.bmi, entry.to.from))
        })
    }

    /// Starts as many pieces of a job as possible. Returns how many bytes the loop itself has stored; if there are any, the job
    /// queues up again behind the others.
    fn advance(&mut self, ticket: Ticket) -> u64 {
        let Some(mut job) = self.take_job(ticket) else {
            return 0;
        };
        let stored = loop {
            match self.step(&mut job) {
                Step::Again => {}
                Step::Wait => break 0,
                Step::Stored(bytes) => break bytes,
            }
        };
        let over = job.left == 0 && !job.in_flight() && !matches!(job.memory, MemorySide::Awaited);
        if over || (job.failure.is_some() && !job.in_flight()) {
            self.finish_job(*job);
        } else if stored > 0 {
            self.put_runnable(job);
        } else {
            self.put_job(job);
        }
        stored
    }

    /// Takes a job out of its entry to work on it.
    pub(super) fn take_job(&mut self, ticket: Ticket) -> Option<Box<Job>> {
        let loop_time = self.loop_time;
        let entry = self.entry(ticket)?;
        if !matches!(entry.state, EntryState::Moving(_)) {
            return None;
        }
        entry.last_progress = loop_time;
        match std::mem::replace(&mut entry.state, EntryState::Elsewhere) {
            EntryState::Moving(job) => Some(job),
            _ => None,
        }
    }

    fn put_job(&mut self, job: Box<Job>) {
        if let Some(entry) = self.entry(job.ticket) {
            entry.state = EntryState::Moving(job);
        }
    }

    /// Puts a job back into its entry, and queues it up behind the others.
    pub(super) fn put_runnable(&mut self, job: Box<Job>) {
        self.runnable.push_back(job.ticket);
        self.put_job(job);
    }

    fn finish_job(&mut self, job: Job) {
        let ticket = job.ticket;
        let result = match job.failure {
            Some(failure) => Err(failure),
            None => {
                let (bytes, all) = match job.write {
                    true => (job.total, &mut self.written),
                    false => (job.found, &mut self.read),
                };
                *all += bytes;
                Ok(ReplyBody::Transferred {
                    bytes,
                    size: job.size,
                    copy_us: microseconds(job.copy_time),
                    storage_us: microseconds(job.storage_time),
                    inline: job.inline.map(Memory::into_vec).unwrap_or_default(),
                    sums: job.sums,
                })
            }
        };
        self.finish(ticket, Reply { result });
    }

    /// Starts the next piece of a job.
    fn step(&mut self, job: &mut Job) -> Step {
        let awaited = matches!(job.memory, MemorySide::Awaited);
        if job.failure.is_some() || (job.left == 0 && !awaited) || job.list.is_some() {
            return Step::Wait;
        }
        let Some(index) = job.pieces.iter().position(Option::is_none) else {
            return Step::Wait;
        };
        if self.bmi.identity(job.requester.to.from).is_none() {
            // The client has abandoned the request: it may use its memory for another purpose by now.
            job.abandon(disconnected());
            return Step::Wait;
        }
        let buffer = match &job.memory {
            MemorySide::Awaited => return self.want_list(job),
            MemorySide::Local(_) => None,
            MemorySide::Remote(_) => match self.buffer(job) {
                Some(buffer) => Some(buffer),
                None => return Step::Wait,
            },
        };
        let most = match buffer {
            Some(_) => BUFFER_BYTES as u64,
            None => MAPPED_PIECE,
        };
        let (regions, len) = job.regions.take(most.min(job.left));
        if len == 0 {
            if let Some(buffer) = buffer {
                self.staging.give(buffer);
            }
            return self.want_list(job);
        }
        let first = ((job.total - job.left) / BLOCK_BYTES) as usize;
        job.left -= len;
        let blocks = (len / BLOCK_BYTES) as usize;
        let mut flight = PieceInFlight {
            summed: (blocks > 0 && first + blocks <= job.sums.len()).then_some(first),
            piece: Piece {
                regions,
                memory: Vec::new(),
                stable: buffer.is_some(),
                abandoned: job.abandoned.clone(),
                origin: job.origin,
            },
            len,
            staged: None,
            moving: false,
            since: self.loop_time,
        };
        match (&mut job.memory, buffer) {
            (MemorySide::Local(stream), _) => flight.piece.memory = stream.take(len),
            (MemorySide::Remote(stream), Some(buffer)) => {
                flight.piece.memory = vec![buffer.slice(0..len as usize)];
                flight.staged = Some((buffer, stream.take(len)));
            }
            (MemorySide::Remote(_) | MemorySide::Awaited, _) => return Step::Wait,
        }
        let fetch_first = job.write && flight.staged.is_some();
        job.pieces[index] = Some(flight);
        if fetch_first {
            self.move_piece(job, index)
        } else {
            self.store_piece(job, index)
        }
    }

    /// Returns a buffer, or puts the job into the queue of those that wait for one.
    pub(super) fn buffer(&mut self, job: &mut Job) -> Option<Memory> {
        let client = job.requester.to.from;
        if !self.staging.may_take_for(&self.bmi, client) {
            self.starved.push_back(job.ticket);
            return None;
        }
        match self.staging.take(&mut self.bmi, client) {
            Ok(Some(buffer)) => Some(buffer),
            Ok(None) => {
                self.starved.push_back(job.ticket);
                None
            }
            Err(message) => {
                job.fail(failure(Errno::ENOMEM, format!("no buffer: {message}")));
                None
            }
        }
    }

    /// Transfers a piece between its buffer and the client's memory.
    fn move_piece(&mut self, job: &mut Job, index: usize) -> Step {
        let Some(flight) = &mut job.pieces[index] else {
            return Step::Wait;
        };
        let Some((_, remote)) = &flight.staged else {
            return Step::Wait;
        };
        let direction = match job.write {
            true => Direction::Get,
            false => Direction::Put,
        };
        flight.since = Instant::now();
        let user = Purpose::Piece(index).user(job.ticket);
        let posted = self.bmi.post_transfer(
            job.requester.to.from,
            direction,
            &flight.piece.memory,
            remote,
            self.context,
            user,
        );
        match posted {
            Ok(Posted::Pending(_)) => {
                flight.moving = true;
                Step::Again
            }
            Ok(Posted::Complete(completion)) => match completion.result {
                Ok(_) if job.write => self.store_piece(job, index),
                Ok(_) => {
                    self.finish_piece(job, index);
                    Step::Again
                }
                Err(error) => {
                    job.fail(transfer_failure(&error));
                    self.finish_piece(job, index);
                    Step::Wait
                }
            },
            Err(error) => {
                job.fail(failure(Errno::EIO, error.to_string()));
                self.finish_piece(job, index);
                Step::Wait
            }
        }
    }

    /// Stores or reads a piece from or into memory that this process can access: in the loop if that does not block.
    fn store_piece(&mut self, job: &mut Job, index: usize) -> Step {
        let in_memory = self.store.as_ref().is_some_and(|store| store.in_memory());
        let Some(flight) = &mut job.pieces[index] else {
            return Step::Wait;
        };
        flight.since = Instant::now();
        let len = flight.len;
        let at_least = job.at_least;
        let effort = len.max(flight.piece.regions.len() as u64 * REGION_EFFORT);
        let options = ReadOptions {
            wait: match in_memory {
                true => Wait::Allowed,
                false => Wait::Refused,
            },
            at_least,
            stamp: job.stamp,
            sums: match flight.summed {
                Some(_) => job.wanted,
                None => WantedSums::None,
            },
        };
        let result = match (job.write, in_memory) {
            (true, true) => job
                .file
                .write(&flight.piece, &mut self.scratch, at_least)
                .map(|size| PieceResult::written(len, size)),
            (true, false) => Err(std::io::Error::from(std::io::ErrorKind::WouldBlock).into()),
            (false, _) => read_piece(&job.file, &flight.piece, &mut self.scratch, &options),
        };
        match result {
            Err(fault) if fault.would_block() => {
                let (file, piece) = (Arc::clone(&job.file), flight.piece.clone());
                let (mailbox, ticket) = (self.mailbox(), job.ticket);
                let put = move |result| mailbox.put(Done::Piece(ticket, index, result));
                if job.write {
                    let claim = move || (file.claim(&piece.regions), piece);
                    self.pool
                        .run_ordered(claim, move |(claim, piece), scratch| {
                            let written = claim.write(&piece, scratch, at_least);
                            drop(piece);
                            put(written.map(|size| PieceResult::written(len, size)));
                        });
                } else {
                    self.pool.run(move |scratch| {
                        let options = ReadOptions {
                            wait: Wait::Allowed,
                            ..options
                        };
                        let read = read_piece(&file, &piece, scratch, &options);
                        drop((file, piece));
                        put(read);
                    });
                }
                Step::Again
            }
            result => match self.stored(job, index, result) {
                Step::Again => Step::Stored(effort),
                other => other,
            },
        }
    }

    /// Continues with a piece that has been stored or read.
    fn stored(&mut self, job: &mut Job, index: usize, result: Result<PieceResult, Fault>) -> Step {
        if let Some(flight) = &job.pieces[index] {
            job.storage_time += flight.since.elapsed();
        }
        match result {
            Ok(moved) => {
                job.found += moved.bytes;
                job.size = job.size.max(moved.size);
                let first = job.pieces[index].as_ref().and_then(|flight| flight.summed);
                let into = first.and_then(|first| job.sums.get_mut(first..));
                for (into, sum) in into.into_iter().flatten().zip(moved.sums) {
                    *into = sum;
                }
            }
            Err(error) => {
                let doing = if job.write { "writing" } else { "reading" };
                job.fail(storage_failure(doing, job.object, &error));
            }
        }
        let staged = job.pieces[index]
            .as_ref()
            .is_some_and(|flight| flight.staged.is_some());
        if staged && !job.write && job.failure.is_none() {
            return self.move_piece(job, index);
        }
        self.finish_piece(job, index);
        Step::Again
    }

    /// Ends a piece.
    fn finish_piece(&mut self, job: &mut Job, index: usize) {
        let flight = job.pieces.get_mut(index).and_then(Option::take);
        if let Some(PieceInFlight {
            staged: Some((buffer, _)),
            ..
        }) = flight
        {
            self.staging.give(buffer);
        }
    }

    /// Continues with a piece that the message layer has moved.
    pub(super) fn piece_transferred(
        &mut self,
        ticket: Ticket,
        index: usize,
        result: Result<u64, OpError>,
    ) {
        let Some(mut job) = self.take_job(ticket) else {
            return;
        };
        if let Some(Some(flight)) = job.pieces.get_mut(index) {
            flight.moving = false;
            job.copy_time += flight.since.elapsed();
        }
        match result {
            Ok(_) if job.write && job.failure.is_none() => {
                self.store_piece(&mut job, index);
            }
            Ok(_) => self.finish_piece(&mut job, index),
            Err(error) => {
                job.fail(transfer_failure(&error));
                self.finish_piece(&mut job, index);
            }
        }
        self.put_runnable(job);
    }

    /// Continues with a piece that the pool has stored or read.
    pub(super) fn piece_stored(
        &mut self,
        ticket: Ticket,
        index: usize,
        result: Result<PieceResult, Fault>,
    ) {
        let Some(mut job) = self.take_job(ticket) else {
            return;
        };
        self.stored(&mut job, index, result);
        self.put_runnable(job);
    }
}

/// The region, if it is a single one that begins at the boundary of a block.
pub(super) fn one_of_blocks(regions: &Regions) -> Option<Region> {
    match regions {
        Regions::Here(list) => match list[..] {
            [one] if one.offset.is_multiple_of(BLOCK_BYTES) => Some(one),
            _ => None,
        },
        _ => None,
    }
}

/// The reply to a read or write of no bytes.
fn nothing_transferred(size: u64) -> ReplyBody {
    ReplyBody::Transferred {
        bytes: 0,
        size,
        copy_us: 0,
        storage_us: 0,
        inline: Vec::new(),
        sums: Vec::new(),
    }
}

fn microseconds(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// The failure of a request for which no client waits.
pub(super) fn disconnected() -> Failure {
    failure(Errno::ECONNRESET, "the client has disconnected")
}

fn overtaken() -> Failure {
    failure(Errno::OVERTAKEN, "")
}

fn mismatch(regions: u64, memory: u64) -> Failure {
    failure(
        Errno::EINVAL,
        format!("the regions have {regions} bytes, the memory {memory}"),
    )
}

pub(super) fn too_much_inside(bytes: u64) -> Failure {
    failure(
        Errno::EMSGSIZE,
        format!("a reply carries at most {MAX_INLINE} bytes inside, not {bytes}"),
    )
}

pub(super) fn transfer_failure(error: &OpError) -> Failure {
    failure(Errno::EIO, format!("moving the data: {error}"))
}
