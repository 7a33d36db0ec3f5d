//! Which files programs have open, without I/O. A file that loses its last name while it is open becomes an orphan: its
//! record stays, without a name, until the last program closes it.
//!
//! Opening goes on beside the batch that removes names, and neither waits for the other. A batch notes each object that it
//! removes before it looks whether that is open ([`Opens::begin_removal`]), and forgets these notes once it is committed. So an
//! opening, which has found its object in a state that was committed before, learns whether that is still so
//! ([`Registered`]).

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use causeway_wire::fs::{Errno, Failure, ObjectId, OpenHandle};

use crate::error::failure;
use crate::locks::lock;

/// Most programs that have files open.
const MAX_SESSIONS: usize = 4096;
/// All programs together have this many times as many files open as one program may.
const PROGRAMS: usize = 16;

/// The files that programs have open. Shared by the server's loop and the service.
#[derive(Debug)]
pub(crate) struct Opens {
    state: Mutex<State>,
    /// Most files that one program has open.
    limit: usize,
    /// The store says that programs may have files open.
    is_marked: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Files by handle, of each program.
    sessions: HashMap<u128, HashMap<u64, ObjectId>>,
    files: HashMap<ObjectId, OpenCount>,
    handles: usize,
    /// What the present batch removes.
    removing: HashSet<ObjectId>,
    /// How many batches have removed something.
    epoch: u64,
    /// Programs may have files open that have not said so yet.
    keeps_all: bool,
    /// Orphans that may have been closed.
    released: Vec<ObjectId>,
}

#[derive(Debug, Default)]
struct OpenCount {
    handles: usize,
    /// It may be an orphan.
    may_be_orphan: bool,
}

/// What became of an opening.
#[derive(Debug)]
pub(crate) enum Registered {
    /// The file stays as long as the handle.
    Done,
    /// Something was removed since the state that it was found in: look again.
    Outdated,
    /// It is being removed: the opening comes behind that.
    Removing,
    /// There are too many.
    Full(Failure),
}

impl Opens {
    /// One program has at most `limit` files open.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            state: Mutex::default(),
            limit,
            is_marked: AtomicBool::new(false),
        }
    }

    /// Whether the store says that programs may have files open, as it must before one has.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked.load(Ordering::Acquire)
    }

    pub(super) fn set_marked(&self, is_marked: bool) {
        self.is_marked.store(is_marked, Ordering::Release);
    }

    /// Changes when something was removed. Asked for before a state is looked at.
    pub(crate) fn epoch(&self) -> u64 {
        lock(&self.state).epoch
    }

    /// A program has a file open that was found in a state of this epoch or, without one, in the batch's own. A handle
    /// that is known stands for the same file as before.
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
        let sessions = state.sessions.len();
        let known = state.sessions.get(&session);
        if known.is_some_and(|files| files.contains_key(&handle)) {
            return Registered::Done;
        }
        if let Some(why) = self.refusal(known.map(HashMap::len), sessions, state.handles) {
            return Registered::Full(why);
        }
        let files = state.sessions.entry(session).or_default();
        files.insert(handle, object);
        state.handles += 1;
        let file = state.files.entry(object).or_default();
        file.handles += 1;
        file.may_be_orphan |= is_orphan || state.keeps_all;
        Registered::Done
    }

    fn refusal(&self, of_program: Option<usize>, sessions: usize, all: usize) -> Option<Failure> {
        let most = self.limit.saturating_mul(PROGRAMS);
        if of_program.unwrap_or(0) >= self.limit {
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
            None if sessions >= MAX_SESSIONS => {
                format!("{MAX_SESSIONS} programs have files open, and no more can")
            }
            _ => return None,
        };
        Some(failure(Errno::ENFILE, text))
    }

    /// A program has closed these.
    pub(crate) fn close(&self, session: u128, handles: &[u64]) {
        let mut state = lock(&self.state);
        let Some(files) = state.sessions.get_mut(&session) else {
            return;
        };
        let closed: Vec<ObjectId> = (handles.iter())
            .filter_map(|handle| files.remove(handle))
            .collect();
        if files.is_empty() {
            state.sessions.remove(&session);
        }
        closed
            .into_iter()
            .for_each(|object| state.drop_handle(object));
    }

    /// A program has ended.
    pub(crate) fn end(&self, session: u128) {
        let mut state = lock(&self.state);
        let files = state.sessions.remove(&session).unwrap_or_default();
        files
            .into_values()
            .for_each(|object| state.drop_handle(object));
    }

    /// Whether no program has a file open.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).sessions.is_empty()
    }

    /// Whether a program has no file open.
    pub(crate) fn is_idle(&self, session: u128) -> bool {
        !lock(&self.state).sessions.contains_key(&session)
    }

    /// Whether the batch may remove an object without a name. If not, it is open, or may be as long as programs have not said what they have
    /// open ([`Opens::keep_all`]) and there is `room` for what they may not have: then it has to become an orphan, or stay one.
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

    /// The batch is committed, or has failed.
    pub(crate) fn end_batch(&self) {
        let mut state = lock(&self.state);
        if !state.removing.is_empty() {
            state.removing.clear();
            state.epoch += 1;
        }
    }

    /// Whether every file that loses its name is kept from now on: programs may have it open, but were not asked yet.
    pub(crate) fn keep_all(&self, keeps: bool) {
        lock(&self.state).keeps_all = keeps;
    }

    /// Some of the orphans that may have been closed.
    pub(crate) fn take_released(&self, most: usize) -> Vec<ObjectId> {
        let released = &mut lock(&self.state).released;
        let kept = released.len().saturating_sub(most);
        released.split_off(kept)
    }

    /// Orphans whose removal has failed.
    pub(crate) fn put_back(&self, objects: Vec<ObjectId>) {
        lock(&self.state).released.extend(objects);
    }

    /// Whether [`Opens::take_released`] has something.
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
