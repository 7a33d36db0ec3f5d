//! The files that programs have open, without I/O. A file that loses its last name while it is open becomes an orphan: its
//! record stays, without a name, until the last program closes it.
//!
//! Openings are carried out concurrently with the batch that removes names, and neither waits for the other. A batch notes each object
//! that it removes before it checks whether the object is open ([`Opens::begin_removal`]), and forgets these notes once it is
//! committed. So an opening, which has found its object in a state that was committed before, learns whether the object is still there
//! ([`Registered`]).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_wire::fs::{Errno, Failure, ObjectId, OpenHandle};

use crate::error::failure;
use crate::locks::lock;

/// Most programs that have files open.
const MAX_PROGRAMS: usize = 4096;
/// All programs together have this many times as many files open as one program may.
const PROGRAMS: usize = 16;
/// Most replaced files that stay for a while.
const MAX_REPLACED: usize = 256;

/// The files that programs have open. Shared by the server's loop and the service.
#[derive(Debug)]
pub(crate) struct Opens {
    state: Mutex<State>,
    /// Most files that one program has open.
    limit: usize,
    /// The store has the mark that programs may have files open.
    is_marked: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// The programs that have a connection.
    sessions: HashMap<u128, Session>,
    /// How many of these have files open.
    with_files: usize,
    files: HashMap<ObjectId, OpenCount>,
    handles: usize,
    /// The objects that the present batch removes.
    removing: HashSet<ObjectId>,
    /// How many batches have removed something.
    epoch: u64,
    /// Programs may have files open that they have not reported yet.
    keeps_all: bool,
    /// Orphans that may have been closed.
    released: Vec<ObjectId>,
    /// Files that were replaced lately, the oldest first, each with the number of the period in which it was. They count as open.
    replaced: VecDeque<(ObjectId, u64)>,
    /// The present period.
    period: u64,
    /// Files were replaced since the last check and are kept for a while, or earlier ones had to be
    /// released for them.
    has_news: bool,
}

/// The open files of a program.
#[derive(Debug, Default)]
struct Session {
    /// Files by handle.
    files: HashMap<u64, ObjectId>,
    /// Handles of openings in progress, and how many requests carry each: a repeated request may be in progress twice.
    pending: HashMap<u64, usize>,
}

#[derive(Debug, Default)]
struct OpenCount {
    handles: usize,
    /// The object may be an orphan.
    may_be_orphan: bool,
}

/// The result of an opening.
#[derive(Debug)]
pub(crate) enum Registered {
    /// The file stays as long as the handle; if the program has ended or closed the handle meanwhile, not at all.
    Done,
    /// Objects were removed since the state in which the file was found: look it up again.
    Outdated,
    /// The file is being removed: the opening must wait for that.
    Removing,
    /// Too many files are open.
    Full(Failure),
}

impl Opens {
    /// One program may have at most `limit` files open.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            limit,
            is_marked: AtomicBool::new(false),
        }
    }

    /// Whether the store has the mark that programs may have files open, which it must have before one opens a file.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked.load(Ordering::Acquire)
    }

    pub(super) fn set_marked(&self, is_marked: bool) {
        self.is_marked.store(is_marked, Ordering::Release);
    }

    /// Changes when objects were removed. The caller reads it before it looks up a file.
    pub(crate) fn epoch(&self) -> u64 {
        lock(&self.state).epoch
    }

    /// Notes that a program has a connection, until [`Opens::end`]. Requests that arrive or are carried out after `end` open
    /// nothing.
    pub(crate) fn know(&self, session: u128) {
        lock(&self.state).sessions.entry(session).or_default();
    }

    /// Notes that a program begins to open a file. The opening is in progress until [`Opens::settle`]; if its handle is closed before,
    /// it opens nothing.
    pub(crate) fn begin(&self, session: u128, handle: u64) {
        if let Some(session) = lock(&self.state).sessions.get_mut(&session) {
            *session.pending.entry(handle).or_default() += 1;
        }
    }

    /// Notes that these openings are carried out, or have failed.
    pub(crate) fn settle(&self, openings: impl IntoIterator<Item = (u128, u64)>) {
        let mut state = lock(&self.state);
        for (session, handle) in openings {
            let Some(session) = state.sessions.get_mut(&session) else {
                continue;
            };
            if let Some(count) = session.pending.get_mut(&handle) {
                *count -= 1;
                if *count == 0 {
                    session.pending.remove(&handle);
                }
            }
        }
    }

    /// Notes that a program has a file open that was found in a state of this epoch or, without one, in the batch's own. Its opening is
    /// in progress. A handle that is in use already stands for the same file as before.
    pub(crate) fn register(
        &self,
        session: u128,
        OpenHandle { handle, object }: OpenHandle,
        is_orphan: bool,
        epoch: Option<u64>,
    ) -> Registered {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if let Some(epoch) = epoch {
            if state.removing.contains(&object) {
                return Registered::Removing;
            }
            if state.epoch != epoch {
                return Registered::Outdated;
            }
        }
        let Some(Session { files, pending }) = state.sessions.get_mut(&session) else {
            return Registered::Done;
        };
        if files.contains_key(&handle) || !pending.contains_key(&handle) {
            return Registered::Done;
        }
        if let Some(why) = self.refusal(files.len(), state.with_files, state.handles) {
            return Registered::Full(why);
        }
        state.with_files += usize::from(files.is_empty());
        files.insert(handle, object);
        state.handles += 1;
        let file = state.files.entry(object).or_default();
        file.handles += 1;
        file.may_be_orphan |= is_orphan || state.keeps_all;
        Registered::Done
    }

    /// The reason why a program with `of_program` files may not open another one, if `with_files` programs have `all` files open
    /// together; `None` if it may.
    fn refusal(&self, of_program: usize, with_files: usize, all: usize) -> Option<Failure> {
        let most = self.limit.saturating_mul(PROGRAMS);
        if of_program >= self.limit {
            return Some(failure(
                Errno::EMFILE,
                format!(
                    "the program has {} files open, as many as `open_files` in the metadata server's configuration \
                     permits: close some, or raise it and start that server again",
                    self.limit
                ),
            ));
        }
        let text = match of_program {
            _ if all >= most => format!(
                "all programs together have {most} files open, which is {PROGRAMS} times `open_files` in the metadata \
                 server's configuration: raise it and start that server again"
            ),
            0 if with_files >= MAX_PROGRAMS => {
                format!("{MAX_PROGRAMS} programs have files open, and no more can")
            }
            _ => return None,
        };
        Some(failure(Errno::ENFILE, text))
    }

    /// Notes that a program has closed these handles, also those of openings in progress.
    pub(crate) fn close(&self, session: u128, handles: &[u64]) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        let Some(Session { files, pending }) = state.sessions.get_mut(&session) else {
            return;
        };
        for handle in handles {
            pending.remove(handle);
        }
        let closed: Vec<ObjectId> = (handles.iter())
            .filter_map(|handle| files.remove(handle))
            .collect();
        state.with_files -= usize::from(!closed.is_empty() && files.is_empty());
        closed
            .into_iter()
            .for_each(|object| state.drop_handle(object));
    }

    /// Notes that a program has ended, or has lost its last connection.
    pub(crate) fn end(&self, session: u128) {
        let mut state = lock(&self.state);
        let Session { files, .. } = state.sessions.remove(&session).unwrap_or_default();
        state.with_files -= usize::from(!files.is_empty());
        files
            .into_values()
            .for_each(|object| state.drop_handle(object));
    }

    /// Whether no program has a file open, is opening one, or may have one that it has not reported yet.
    pub(crate) fn is_empty(&self) -> bool {
        let state = lock(&self.state);
        let mut sessions = state.sessions.values();
        !state.keeps_all
            && sessions.all(|session| session.files.is_empty() && session.pending.is_empty())
    }

    /// Whether the batch may remove an object without a name. If not, it is open, or may be, as long as programs have not reported their open files
    /// ([`Opens::keep_all`]) and there is `room` to keep such files: then it has to become an orphan, or stay one.
    pub(crate) fn begin_removal(&self, object: ObjectId, room: bool) -> bool {
        let mut state = lock(&self.state);
        if let Some(file) = state.files.get_mut(&object) {
            file.may_be_orphan = true;
            return false;
        }
        if state.keeps_all && room {
            return false;
        }
        state.removing.insert(object);
        true
    }

    /// Keeps a file that is about to be replaced until the end of the next period, if any program opens files: one may have looked its name up
    /// and be about to open it. If there are more than [`MAX_REPLACED`] such files, the oldest one is released.
    pub(crate) fn hold_replaced(&self, object: ObjectId) {
        let mut state = lock(&self.state);
        if state.sessions.is_empty() {
            return;
        }
        state.has_news |= state.replaced.is_empty();
        if state.replaced.len() >= MAX_REPLACED
            && let Some((oldest, _)) = state.replaced.pop_front()
        {
            state.drop_handle(oldest);
            state.has_news = true;
        }
        state.handles += 1;
        state.files.entry(object).or_default().handles += 1;
        let period = state.period;
        state.replaced.push_back((object, period));
    }

    /// Ends a period: files that were replaced before it are released. Returns whether others are
    /// still kept.
    pub(crate) fn end_period(&self) -> bool {
        let mut state = lock(&self.state);
        state.period += 1;
        let period = state.period;
        while let Some(&(object, since)) = state.replaced.front()
            && since + 1 < period
        {
            state.replaced.pop_front();
            state.drop_handle(object);
        }
        !state.replaced.is_empty()
    }

    /// Whether any replaced files are kept.
    pub(crate) fn has_replaced(&self) -> bool {
        !lock(&self.state).replaced.is_empty()
    }

    /// Whether the caller has work because files were replaced since the last call: periods have to be ended from now
    /// on, or files were released.
    pub(crate) fn take_news(&self) -> bool {
        std::mem::take(&mut lock(&self.state).has_news)
    }

    /// Notes that the batch is committed, or has failed.
    pub(crate) fn end_batch(&self) {
        let mut state = lock(&self.state);
        if !state.removing.is_empty() {
            state.removing.clear();
            state.epoch += 1;
        }
    }

    /// Sets whether every file that loses its name is kept from now on, because programs may have it open that have not reported yet.
    pub(crate) fn keep_all(&self, keeps: bool) {
        lock(&self.state).keeps_all = keeps;
    }

    /// Returns some of the orphans that may have been closed.
    pub(crate) fn take_released(&self, most: usize) -> Vec<ObjectId> {
        let released = &mut lock(&self.state).released;
        let kept = released.len().saturating_sub(most);
        released.split_off(kept)
    }

    /// Puts back orphans whose removal has failed.
    pub(crate) fn put_back(&self, objects: Vec<ObjectId>) {
        lock(&self.state).released.extend(objects);
    }

    /// Whether [`Opens::take_released`] would return any.
    pub(crate) fn has_released(&self) -> bool {
        !lock(&self.state).released.is_empty()
    }
}

impl State {
    fn drop_handle(&mut self, object: ObjectId) {
        self.handles = self.handles.saturating_sub(1);
        let Some(file) = self.files.get_mut(&object) else {
            return;
        };
        file.handles = file.handles.saturating_sub(1);
        if file.handles == 0 {
            if file.may_be_orphan {
                self.released.push(object);
            }
            self.files.remove(&object);
        }
    }
}

#[cfg(test)]
mod tests;
