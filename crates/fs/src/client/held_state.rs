//! What threads of a program and that of its open files know of these.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_bmi::Waker;
use causeway_wire::fs::{Errno, ObjectId, OpenHandle, Opening};

use crate::locks::lock;

/// Closed handles that one request takes along: a message has room for more.
const TAKEN_ALONG: usize = 64;
/// How long closed handles wait for a request that takes them along.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// A file that the program has open, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Shared>,
    handle: u64,
}

/// An opening under way.
pub(super) struct BegunOpening {
    pub(super) opening: Opening,
    told: u64,
}

/// What threads and that of the open files share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) session: u128,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: HashMap<u64, ObjectId>,
    closed: Vec<u64>,
    /// How often the thread has begun to tell a server what is open.
    told: u64,
    /// The server knows what is open. Otherwise no request takes closed handles along: it might overtake the thread's, which has the
    /// file among those that are open.
    is_told: bool,
    /// Opened while the thread began to tell, so that it may be missing there.
    untold: Vec<u64>,
    is_stopping: bool,
    /// The thread waits until it is woken.
    is_idle: bool,
    waker: Option<Waker>,
}

/// What the thread is to do.
pub(super) enum Work {
    Stop,
    /// Say that these are open.
    Keep(Vec<OpenHandle>),
    /// Close some, unless requests take them along before.
    Close,
    Nothing,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.open.remove(&self.handle);
        state.closed.push(self.handle);
        state.wake();
    }
}

impl State {
    /// Wakes the thread, unless it is awake.
    fn wake(&mut self) {
        if std::mem::take(&mut self.is_idle) {
            self.waker.iter().for_each(Waker::wake);
        }
    }

    /// Whether there is anything that a server should know.
    fn is_needed(&self) -> bool {
        !self.open.is_empty() || !self.closed.is_empty()
    }
}

impl Shared {
    pub(super) fn new(session: u128) -> Self {
        Self {
            session,
            state: Mutex::default(),
        }
    }

    pub(super) fn stop(&self) {
        lock(&self.state).is_stopping = true;
    }

    pub(super) fn set_waker(&self, waker: Waker) {
        lock(&self.state).waker = Some(waker);
    }

    /// Begins to open a file.
    pub(super) fn begin(&self) -> BegunOpening {
        let mut state = lock(&self.state);
        state.last += 1;
        let taken = match state.is_told {
            true => state.closed.len().min(TAKEN_ALONG),
            false => 0,
        };
        let kept = state.closed.len() - taken;
        BegunOpening {
            opening: Opening {
                session: self.session,
                handle: state.last,
                closed: state.closed.split_off(kept),
            },
            told: state.told,
        }
    }

    /// The server has opened the file.
    pub(super) fn opened(shared: &Arc<Self>, begun: BegunOpening, object: ObjectId) -> Held {
        let BegunOpening { opening, told } = begun;
        let handle = opening.handle;
        {
            let mut state = lock(&shared.state);
            state.open.insert(handle, object);
            if state.told != told {
                state.untold.push(handle);
            }
            if state.told != told || !state.is_told {
                state.wake();
            }
        }
        Held {
            shared: Arc::clone(shared),
            handle,
        }
    }

    /// The server has not opened the file, or that is not known.
    pub(super) fn not_opened(&self, begun: BegunOpening, errno: Errno) {
        if matches!(
            errno,
            Errno::ENOENT | Errno::ENOTDIR | Errno::EEXIST | Errno::EACCES
        ) {
            // It has replied, and knows what was closed.
            return;
        }
        let mut state = lock(&self.state);
        state.closed.extend(begun.opening.closed);
        state.closed.push(begun.opening.handle);
        state.wake();
    }

    /// The server may know nothing: returns all that is open.
    pub(super) fn begin_to_tell(&self) -> Vec<OpenHandle> {
        let mut state = lock(&self.state);
        state.told += 1;
        state.is_told = false;
        state.untold.clear();
        let open = state.open.iter();
        open.map(|(&handle, &object)| OpenHandle { handle, object })
            .collect()
    }

    /// The server has been told.
    pub(super) fn end_to_tell(&self) {
        lock(&self.state).is_told = true;
    }

    /// Whether there is anything that a server should know which has not been told by the present connection. If not, the thread is
    /// woken once there is.
    pub(super) fn is_needed(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_told = false;
        state.is_idle = !state.is_needed();
        !state.is_idle
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// What is to be done at a server that has been told.
    pub(super) fn work(&self) -> Work {
        let mut state = lock(&self.state);
        if state.is_stopping {
            return Work::Stop;
        }
        let untold = std::mem::take(&mut state.untold);
        let file = |handle| {
            let object = *state.open.get(&handle)?;
            Some(OpenHandle { handle, object })
        };
        let untold: Vec<OpenHandle> = untold.into_iter().filter_map(file).collect();
        match (untold.is_empty(), state.closed.is_empty()) {
            (false, _) => Work::Keep(untold),
            (true, false) => Work::Close,
            (true, true) => {
                state.is_idle = true;
                Work::Nothing
            }
        }
    }

    /// Takes handles that were closed.
    pub(super) fn take_closed(&self, most: usize) -> Vec<u64> {
        let closed = &mut lock(&self.state).closed;
        let kept = closed.len().saturating_sub(most);
        closed.split_off(kept)
    }

    /// They could not be closed.
    pub(super) fn put_back(&self, closed: Vec<u64>) {
        lock(&self.state).closed.extend(closed);
    }

    /// The server does not know what is open, and need not be told what is closed. The thread is woken once something else is.
    pub(super) fn forget_closed(&self) {
        let mut state = lock(&self.state);
        state.closed.clear();
        state.is_idle = true;
    }
}
