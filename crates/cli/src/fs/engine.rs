//! Many operations at once: one thread finds work, and several threads with a client each carry it
//! out.
//!
//! The queue between them is bounded, so a tree of any size needs the same memory. An item that
//! fails is reported and counted and the others go on, unless they would fail for the same cause.

use std::fmt::Display;
use std::fs::File as LocalFile;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use causeway_bmi::Memory;
use causeway_command::failure::{Doing, Failure, Outcome};
use causeway_command::output::{report_item, warn};
use causeway_command::progress::Progress;
use causeway_command::remote::{PIECE_BYTES, about, reading};
use causeway_fs::client::{Client, File};
use causeway_fs::distribution::MAX_FILE_BYTES;
use causeway_report::units::{bytes_text, count_text, duration_text, rate_text};
use causeway_wire::fs::{Node, Region};
use serde_json::json;

use crate::fs::session::Session;
use crate::fs::sparse;
use crate::fs::tree::{Visited, WalkControl, walk_choosing};

/// Large files are cut into parts of this many bytes, moved by different threads.
pub(crate) const PART_BYTES: u64 = 64 << 20;
/// Most threads that copy at the same time: each has a connection to every server.
const MAX_JOBS: u64 = 256;
/// Items that may wait in the queue.
const QUEUE_ITEMS: usize = 1024;

/// The next part of a file that is read in order.
pub(crate) enum Part<'a> {
    /// These bytes.
    Data(&'a Memory),
    /// This number of zeros, which have not been read.
    Hole(u64),
}

impl Part<'_> {
    /// Number of bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Data(piece) => piece.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// Passes the bytes to `write`, those of a hole in pieces. `bytes` is a scratch buffer.
    pub(crate) fn write_out(
        &self,
        bytes: &mut Vec<u8>,
        mut write: impl FnMut(&[u8]) -> Outcome,
    ) -> Outcome {
        let mut left = self.len();
        bytes.clear();
        bytes.resize(
            usize::try_from(left)
                .unwrap_or(PIECE_BYTES)
                .min(PIECE_BYTES),
            0,
        );
        if let Self::Data(piece) = self {
            piece.read_at(0, bytes);
        }
        while left > 0 {
            let now = left.min(bytes.len() as u64);
            write(&bytes[..now as usize])?;
            left -= now;
        }
        Ok(())
    }
}

/// The state of a working thread: a client and a buffer that servers on this host access directly.
pub(crate) struct Worker {
    /// The thread's own client.
    pub(crate) client: Client,
    /// Failures of a job that consists of several items, to be reported.
    pub(crate) failed: Vec<Failure>,
    buffer: Option<Memory>,
}

impl Worker {
    /// A worker of this session.
    pub(crate) fn new(session: &Session) -> Outcome<Self> {
        Ok(Self {
            client: session.client()?,
            failed: Vec::new(),
            buffer: None,
        })
    }

    /// The buffer, of [`PIECE_BYTES`].
    pub(crate) fn buffer(&mut self) -> Memory {
        let client = &mut self.client;
        self.buffer
            .get_or_insert_with(|| {
                client
                    .allocate(PIECE_BYTES)
                    .unwrap_or_else(|_| Memory::zeroed(PIECE_BYTES))
            })
            .clone()
    }

    /// Copies `source` from byte `from` up to `to` or its end into `file`, which will have this path; holes of a `sparse`
    /// source are not sent. Returns where the source ended, `to` at most.
    pub(crate) fn upload(
        &mut self,
        source: &LocalFile,
        sparse: bool,
        (file, path): (&mut File, &[u8]),
        (from, to): (u64, u64),
        progress: &Progress,
    ) -> Outcome<u64> {
        if !sparse {
            return self.upload_stored(source, (file, path), from, to, progress);
        }
        let doing = || "looking for holes in the local file".to_owned();
        let mut offset = from;
        while let Some((start, end)) = sparse::stored_behind(source, offset, to).doing(doing)? {
            progress.advance(start - offset, 0);
            offset = self.upload_stored(source, (file, path), start, end, progress)?;
            if offset < end {
                break;
            }
        }
        let end = source.metadata().doing(doing)?.len().min(to);
        progress.advance(end.saturating_sub(offset), 0);
        Ok(end)
    }

    fn upload_stored(
        &mut self,
        source: &LocalFile,
        (file, path): (&mut File, &[u8]),
        from: u64,
        to: u64,
        progress: &Progress,
    ) -> Outcome<u64> {
        let buffer = self.buffer();
        let mut offset = from;
        while offset < to {
            let want = usize::try_from(to - offset)
                .unwrap_or(usize::MAX)
                .min(PIECE_BYTES);
            let got = buffer
                .slice(0..want)
                .read_from_file(source, offset)
                .doing(|| "reading the local file".to_owned())?;
            if got == 0 {
                break;
            }
            let region = Region {
                offset,
                len: got as u64,
            };
            self.client
                .write_list(file, &[region], &[buffer.slice(0..got)])
                .map_err(|error| about(path, error))?;
            offset += got as u64;
            progress.advance(got as u64, 0);
        }
        Ok(offset)
    }

    /// Copies `file` from byte `from` up to `to` or its end into `target`, at the same offsets; blocks of
    /// zeros are left out, so that they become holes of a fresh file. Returns the number of bytes copied; after a
    /// failure no bytes count as progress.
    pub(crate) fn download(
        &mut self,
        (file, path): (&mut File, &[u8]),
        target: &LocalFile,
        from: u64,
        to: u64,
        progress: &Progress,
    ) -> Outcome<u64> {
        let mut advanced = 0;
        let read = self.read_pieces((file, path), from, to, |_, part, offset| {
            if let Part::Data(piece) = part {
                for run in sparse::runs_of_data(piece) {
                    let at = offset + run.start as u64;
                    piece
                        .slice(run)
                        .write_to_file(target, at)
                        .doing(|| "writing the local file".to_owned())?;
                }
            }
            progress.advance(part.len(), 0);
            advanced += part.len();
            Ok(())
        });
        if read.is_err() {
            progress.subtract(advanced);
        }
        read
    }

    /// Reads `file`, which has this path, from byte `from` up to `to` or its end and passes the
    /// pieces on, in order. After a piece of zeros a request to the servers finds where the data continue.
    pub(crate) fn read_pieces(
        &mut self,
        (file, path): (&mut File, &[u8]),
        from: u64,
        to: u64,
        mut take: impl FnMut(&mut Client, &Part<'_>, u64) -> Outcome,
    ) -> Outcome<u64> {
        let buffer = self.buffer();
        let mut offset = from;
        let to = to.min(MAX_FILE_BYTES);
        while offset < to {
            let want =
                piece_len(file, offset).min(usize::try_from(to - offset).unwrap_or(PIECE_BYTES));
            let region = Region {
                offset,
                len: want as u64,
            };
            let got = self
                .client
                .read_list(file, &[region], &[buffer.slice(0..want)])
                .map_err(|error| reading(path, error))?;
            let got = usize::try_from(got).unwrap_or(want).min(want);
            let piece = buffer.slice(0..got);
            if got > 0 {
                take(&mut self.client, &Part::Data(&piece), offset)?;
            }
            offset += got as u64;
            if got < want {
                break;
            }
            if sparse::is_hole(&piece) {
                let next = sparse::behind_hole(&mut self.client, (file, path), offset, to)?;
                if next > offset {
                    take(&mut self.client, &Part::Hole(next - offset), offset)?;
                }
                offset = next;
            }
        }
        Ok(offset - from)
    }
}

/// How many bytes to read at once from `offset` on: one more than the file should have there, which shows whether it has
/// grown, but no more than the buffer has room for. 0 at the largest offset.
fn piece_len(file: &File, offset: u64) -> usize {
    let left = file.node.attributes.size.saturating_sub(offset);
    let most = MAX_FILE_BYTES.saturating_sub(offset);
    usize::try_from(left.saturating_add(1).min(most))
        .unwrap_or(PIECE_BYTES)
        .min(PIECE_BYTES)
}

/// Counts the parts of a large file down. Of several failures, one is reported.
pub(crate) struct Countdown {
    remaining: AtomicU64,
    failure: Mutex<Option<Failure>>,
}

impl Countdown {
    /// A count of one part, the last one: others are added when they are found.
    pub(crate) fn new() -> Self {
        Self {
            remaining: AtomicU64::new(1),
            failure: Mutex::new(None),
        }
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, failure: Failure) {
        let mut first = self.failure();
        // The error of a removed file is the least informative one.
        if first.as_ref().is_none_or(|first| first.gone) {
            *first = Some(failure);
        }
    }

    /// Does one part with `work`, unless another one has failed. After the last part, returns the result of all of
    /// them.
    pub(crate) fn part(&self, work: impl FnOnce() -> Outcome) -> Option<Outcome> {
        let has_failed = self.failure().is_some();
        if !has_failed && let Err(failure) = work() {
            self.fail(failure);
        }
        let last = self.remaining.fetch_sub(1, Ordering::AcqRel) == 1;
        last.then(|| self.failure().take().map_or(Ok(()), Err))
    }
}

/// The queue into which the finding thread puts work.
pub(crate) struct Queue<'a, J> {
    sender: SyncSender<J>,
    state: &'a State,
}

impl<J> Queue<'_, J> {
    /// Queues a job for the workers, waiting for room. Returns `false` if the work has been abandoned.
    pub(crate) fn push(&self, job: J) -> bool {
        !self.state.given_up() && self.sender.send(job).is_ok()
    }

    /// Queues the parts of something of `size` bytes that hold data, as ranges, and at last an
    /// empty part, until the work is given up. `data` finds the range of the first data from a byte
    /// on. `left_out` is called with the bytes of holes that are in no part, before the last part.
    pub(crate) fn push_parts(
        &self,
        size: u64,
        countdown: &Countdown,
        data: impl FnMut(u64) -> Outcome<Option<(u64, u64)>>,
        left_out: impl FnOnce(u64),
        job: impl Fn(u64, u64) -> J,
    ) {
        match self.push_data(size, countdown, data, &job) {
            Ok(holes) => left_out(holes),
            Err(failure) => countdown.fail(failure),
        }
        self.push(job(size, size));
    }

    fn push_data(
        &self,
        size: u64,
        countdown: &Countdown,
        mut data: impl FnMut(u64) -> Outcome<Option<(u64, u64)>>,
        job: impl Fn(u64, u64) -> J,
    ) -> Outcome<u64> {
        let (mut from, mut holes) = (0, size);
        while from < size
            && let Some((start, end)) = data(from)?
        {
            from = from.max(start / PART_BYTES * PART_BYTES);
            while from < end.min(size) {
                let to = from.saturating_add(PART_BYTES).min(size);
                countdown.remaining.fetch_add(1, Ordering::Relaxed);
                if !self.push(job(from, to)) {
                    return Ok(holes);
                }
                holes -= to - from;
                from = to;
            }
        }
        Ok(holes)
    }

    /// Whether the work has been abandoned because further items would fail in the same way.
    pub(crate) fn given_up(&self) -> bool {
        self.state.given_up()
    }

    /// Searches a directory of this path for jobs. Failures are reported; a directory that fails is
    /// skipped, and the walk goes on unless the work is given up.
    pub(crate) fn walk(
        &self,
        client: &mut Client,
        (path, node): (&[u8], &Node),
        progress: &Progress,
        mut each: impl FnMut(&mut Client, Visited<'_>) -> Outcome,
    ) -> Outcome {
        walk_choosing(client, path, node, &mut |client, visited| {
            let control = match each(client, visited) {
                Ok(()) => WalkControl::Continue,
                Err(failure) => {
                    self.fail(&failure, progress);
                    WalkControl::Skip
                }
            };
            match self.given_up() {
                true => Err(Failure::reported()),
                false => Ok(control),
            }
        })
    }

    /// Reports an item that failed before it became a job.
    pub(crate) fn fail(&self, failure: &Failure, progress: &Progress) {
        self.state.fail(failure, progress);
    }
}

#[derive(Default)]
struct State {
    failures: AtomicU64,
    given_up: AtomicBool,
}

impl State {
    fn given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    fn fail(&self, failure: &Failure, progress: &Progress) {
        if failure.silent {
            // The item that it belongs to has been counted.
            return;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        let first_fatal = failure.fatal && !self.given_up.swap(true, Ordering::Relaxed);
        // After the work is abandoned, the other threads' errors only repeat the first one.
        if first_fatal || !self.given_up() {
            progress.print_above(|| report_item(failure));
        }
    }
}

/// Runs `find` for each operand of a verb on this thread, and `work` on `threads` others until all is done. An operand
/// or item that fails is reported, and the others go on; their number is returned.
pub(crate) fn parallel_over<T, J: Send>(
    session: &Session,
    threads: usize,
    progress: &Progress,
    operands: impl IntoIterator<Item = T>,
    mut find: impl FnMut(&Queue<'_, J>, T) -> Outcome,
    work: impl Fn(&mut Worker, J) -> Outcome + Sync,
) -> Outcome<u64> {
    let state = State::default();
    let (sender, receiver) = sync_channel(QUEUE_ITEMS);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| -> Outcome {
        for number in 0..threads.max(1) {
            let serve = || serve_queue(session, &receiver, &state, progress, &work);
            let thread = std::thread::Builder::new().spawn_scoped(scope, serve);
            // If a thread cannot be started, fewer do the same work.
            if number == 0 {
                thread.doing(|| "starting a thread".to_owned())?;
            } else if thread.is_err() {
                break;
            }
        }
        let queue = Queue {
            sender,
            state: &state,
        };
        for operand in operands {
            if let Err(failure) = find(&queue, operand) {
                queue.fail(&failure, progress);
            }
        }
        Ok(())
    })?;
    Ok(state.failures.load(Ordering::Relaxed))
}

fn serve_queue<J>(
    session: &Session,
    receiver: &Mutex<Receiver<J>>,
    state: &State,
    progress: &Progress,
    work: &(impl Fn(&mut Worker, J) -> Outcome + Sync),
) {
    let mut worker = None;
    loop {
        let job = receiver
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(job) = job else { return };
        if state.given_up() {
            continue;
        }
        let result = match &mut worker {
            Some(worker) => work(worker, job),
            none => match Worker::new(session) {
                Ok(fresh) => work(none.insert(fresh), job),
                Err(failure) => Err(Failure {
                    fatal: true,
                    ..failure
                }),
            },
        };
        let failed = worker.iter_mut().flat_map(|worker| worker.failed.drain(..));
        for failure in failed.chain(result.err()) {
            state.fail(&failure, progress);
        }
    }
}

/// Calls `each` for every operand of a verb: one that fails is reported, and the others go on. Returns the number of
/// failures.
pub(crate) fn each_operand<T>(
    operands: impl IntoIterator<Item = T>,
    mut each: impl FnMut(T) -> Outcome,
) -> u64 {
    let mut failures = 0;
    for operand in operands {
        if let Err(failure) = each(operand) {
            report_item(&failure);
            failures += 1;
        }
    }
    failures
}

/// Calls `ask` for each of these servers, all at once: those that are down cost one time-out together.
pub(crate) fn ask_servers<T: Send>(
    servers: &[usize],
    ask: impl Fn(usize) -> Outcome<T> + Sync,
) -> Vec<Outcome<T>> {
    let lost = |_| {
        Err(Failure::new(
            "asking a server",
            "the thread that sent the requests has ended",
        ))
    };
    std::thread::scope(|scope| {
        let ask = &ask;
        let asked = servers
            .iter()
            .map(|&server| scope.spawn(move || ask(server)));
        let asked: Vec<_> = asked.collect();
        let replies = asked.into_iter();
        replies
            .map(|thread| thread.join().unwrap_or_else(lost))
            .collect()
    })
}

/// Ends a verb that has processed this many items, which `--json` shows under the name `what`.
pub(crate) fn conclude_counted(session: &Session, what: &str, done: u64, failures: u64) -> Outcome {
    let counted = json!({ what: done, "failures": failures });
    session.output.object(&counted);
    conclude(failures)
}

/// Ends a verb of many items: exit code 1 if any of them failed.
pub(crate) fn conclude(failures: u64) -> Outcome {
    if failures == 0 {
        Ok(())
    } else {
        Err(Failure::reported())
    }
}

/// The same after copying since `started`: first prints how much was copied, and what was not kept.
pub(crate) fn conclude_copy(
    session: &Session,
    progress: &Progress,
    started: Instant,
    failures: u64,
    lost: &Lost,
) -> Outcome {
    progress.finish();
    lost.report();
    let (bytes, items) = progress.done();
    let time = started.elapsed();
    let failed = match failures {
        0 => String::new(),
        count => format!("; {} failed", count_text(count)),
    };
    // If nothing but failures came of it, the errors say all.
    if items > 0 || failures == 0 {
        session.output.line(&format!(
            "{} items, {} in {} ({}){failed}",
            count_text(items),
            bytes_text(bytes),
            duration_text(time),
            rate_text(bytes, time)
        ));
    }
    session.output.object(&json!({
        "items": items, "bytes": bytes, "seconds": time.as_secs_f64(), "failures": failures,
        "skipped": Lost::count(&lost.skipped), "unfinished_skipped": Lost::count(&lost.unfinished),
        "extended_attributes_dropped": Lost::count(&lost.extended_attributes),
        "access_control_lists_dropped": Lost::count(&lost.lists),
        "identity_bits_dropped": Lost::count(&lost.identity_bits),
        "attributes_not_set": Lost::count(&lost.attributes) }));
    conclude(failures)
}

/// Attributes that copies lack: counted, and reported once.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// Devices, sockets and pipes in trees, which are also named one by one.
    pub(crate) skipped: AtomicU64,
    /// Files that other writers have not finished.
    pub(crate) unfinished: AtomicU64,
    /// Files with extended attributes, which are not copied.
    pub(crate) extended_attributes: AtomicU64,
    /// Files and directories whose access control lists the destination cannot have.
    pub(crate) lists: AtomicU64,
    /// Directories of other owners, and their files that were overwritten in place: their mode and times stayed.
    pub(crate) attributes: AtomicU64,
    /// Files whose set-user-ID or set-group-ID bits were left out, since the copy has another owner.
    pub(crate) identity_bits: AtomicU64,
}

impl Lost {
    /// Counts one more.
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an entry of a tree that is skipped, because such entries are not copied.
    pub(crate) fn skip(&self, progress: &Progress, shown: impl Display) {
        Self::add(&self.skipped);
        progress.print_above(|| {
            warn(&format!(
                "{shown}: skipped, as it is neither a file, a directory nor a symbolic link"
            ));
        });
    }

    fn count(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }

    fn report(&self) {
        for (counter, what) in [
            (
                &self.unfinished,
                "skipped: unfinished files of other writers, see `causeway fs rm --partial`",
            ),
            (
                &self.extended_attributes,
                "with extended attributes, which were not copied",
            ),
            (
                &self.lists,
                "with access control lists, which the destination cannot have: named users and groups get nothing by the copies, and \
                 others no more than by the originals",
            ),
            (
                &self.attributes,
                "of another owner: mode and times left as they were",
            ),
            (
                &self.identity_bits,
                "belong to you here and not to their owner: their set-user-ID and set-group-ID bits were left out; \
                 only root can restore owners",
            ),
        ] {
            let count = Self::count(counter);
            if count > 0 {
                warn(&format!("{} items {what}", count_text(count)));
            }
        }
    }
}

/// A parser for the number of threads.
pub(crate) fn jobs() -> impl clap::builder::TypedValueParser<Value = usize> {
    clap::builder::RangedU64ValueParser::<usize>::new().range(1..=MAX_JOBS)
}

/// How many threads to use by default: enough to keep servers busy, more than cores because
/// threads wait for servers.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get().clamp(2, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_parts_that_fail_one_says_why() {
        let countdown = Countdown::new();
        // Three more are found.
        countdown.remaining.fetch_add(3, Ordering::AcqRel);
        let gone = || Failure {
            gone: true,
            ..Failure::new("reading", "gone")
        };
        assert!(countdown.part(|| Ok(())).is_none());
        assert!(countdown.part(|| Err(gone())).is_none());
        let not_begun = || panic!("a part of a file that has failed is begun");
        assert!(countdown.part(not_begun).is_none());
        let ended = countdown.part(not_begun).unwrap();
        assert!(ended.unwrap_err().gone);

        let whole = Countdown::new();
        assert!(whole.part(|| Ok(())).unwrap().is_ok());
    }
}
