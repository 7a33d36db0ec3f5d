//! State of a program's open files, shared by the program's threads and the thread of its open files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_bmi::Waker;
use causeway_wire::fs::{Errno, ObjectId, OpenHandle, Opening};

use crate::locks::lock;

/// Most closed handles that one request carries: a message has room for more.
const TAKEN_ALONG: usize = 64;
/// How long closed handles wait for a request that carries them.
pub(super) const GATHER: Duration = Duration::from_millis(20);

/// A file that the program has open, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    shared: Arc<Shared>,
    handle: u64,
}

/// An opening in progress.
pub(super) struct BegunOpening {
    pub(super) opening: Opening,
    reports: u64,
}

/// State that the program's threads share with the thread of its open files.
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
    /// How often the thread has begun a report of the open files.
    reports: u64,
    /// The server has the report of the open files. Otherwise no request carries closed handles: it might overtake the report, which still has the
    /// file among the open ones.
    is_reported: bool,
    /// Handles that were opened after the report began, which may be missing in it.
    unreported: Vec<u64>,
    is_stopping: bool,
    /// The thread waits until it is woken.
    is_idle: bool,
    waker: Option<Waker>,
}

/// The thread's next task.
pub(super) enum Work {
    Stop,
    /// Report that these are open. Until the report has ended ([`Shared::end_report`]) no request carries closed handles.
    Keep(Vec<OpenHandle>),
    /// Close some handles, unless requests carry them first.
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

    /// Whether there is anything to report to a server.
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
        let taken = match state.is_reported {
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
            reports: state.reports,
        }
    }

    /// Notes that the server has opened the file.
    pub(super) fn opened(shared: &Arc<Self>, begun: BegunOpening, object: ObjectId) -> Held {
        let BegunOpening { opening, reports } = begun;
        let handle = opening.handle;
        {
            let mut state = lock(&shared.state);
            state.open.insert(handle, object);
            if state.reports != reports {
                state.unreported.push(handle);
            }
            if state.reports != reports || !state.is_reported {
                state.wake();
            }
        }
        Held {
            shared: Arc::clone(shared),
            handle,
        }
    }

    /// Notes that the server has not opened the file, or may not have. If the request was repeated, only the outcome of the last attempt is known.
    pub(super) fn not_opened(&self, begun: BegunOpening, errno: Errno, is_repeated: bool) {
        let has_replied = matches!(
            errno,
            Errno::ENOENT | Errno::ENOTDIR | Errno::EEXIST | Errno::EACCES
        );
        if has_replied && !is_repeated {
            return;
        }
        let mut state = lock(&self.state);
        if !has_replied {
            state.closed.extend(begun.opening.closed);
        }
        // An earlier attempt may have opened the file.
        state.closed.push(begun.opening.handle);
        state.wake();
    }

    /// Begins a report, as the server may have no record of the open files: returns all open handles.
    /// Handles that were closed earlier must reach the server first.
    pub(super) fn begin_report(&self) -> Vec<OpenHandle> {
        let mut state = lock(&self.state);
        state.reports += 1;
        state.is_reported = false;
        state.unreported.clear();
        let open = state.open.iter();
        open.map(|(&handle, &object)| OpenHandle { handle, object })
            .collect()
    }

    /// Notes that the server has the report.
    pub(super) fn end_report(&self) {
        lock(&self.state).is_reported = true;
    }

    /// Whether there is anything to report by the present connection. If not, the thread is
    /// woken once there is.
    pub(super) fn is_needed(&self) -> bool {
        let mut state = lock(&self.state);
        state.is_reported = false;
        state.is_idle = !state.is_needed();
        !state.is_idle
    }

    pub(super) fn is_stopping(&self) -> bool {
        lock(&self.state).is_stopping
    }

    /// The task for a server that has the report.
    pub(super) fn work(&self) -> Work {
        let mut state = lock(&self.state);
        if state.is_stopping {
            return Work::Stop;
        }
        let unreported = std::mem::take(&mut state.unreported);
        let file = |handle| {
            let object = *state.open.get(&handle)?;
            Some(OpenHandle { handle, object })
        };
        let unreported: Vec<OpenHandle> = unreported.into_iter().filter_map(file).collect();
        match (unreported.is_empty(), state.closed.is_empty()) {
            (false, _) => {
                state.is_reported = false;
                Work::Keep(unreported)
            }
            (true, false) => Work::Close,
            (true, true) => {
                state.is_idle = true;
                Work::Nothing
            }
        }
    }

    /// Takes the handles that were closed.
    pub(super) fn take_closed(&self) -> Vec<u64> {
        std::mem::take(&mut lock(&self.state).closed)
    }

    /// Puts handles back that could not be closed.
    pub(super) fn put_back(&self, closed: Vec<u64>) {
        lock(&self.state).closed.extend(closed);
    }

    /// Drops the closed handles of a server that does not keep open files. The thread is woken once another handle is closed.
    pub(super) fn forget_closed(&self) {
        let mut state = lock(&self.state);
        state.closed.clear();
        state.is_idle = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Arc<Shared> {
        let shared = Arc::new(Shared::new(1));
        shared.begin_report();
        shared.end_report();
        shared
    }

    #[test]
    fn no_request_takes_a_close_along_that_would_overtake_what_is_said_to_be_open() {
        let shared = shared();
        let begun = shared.begin();
        // The report begins now, so it may miss the file.
        assert!(shared.begin_report().is_empty());
        let held = Shared::opened(&shared, begun, ObjectId(5));
        shared.end_report();
        let Work::Keep(files) = shared.work() else {
            panic!("it is not reported");
        };
        assert_eq!(files[0].object, ObjectId(5));
        drop(held);
        assert_eq!(shared.begin().opening.closed, [0; 0]);
        shared.end_report();
        assert_eq!(shared.begin().opening.closed, [files[0].handle]);
    }

    #[test]
    fn what_an_earlier_attempt_may_have_opened_is_closed() {
        let shared = shared();
        drop(Shared::opened(&shared, shared.begin(), ObjectId(5)));
        // The report that has ended says that no file is open, so the server has closed the handle.
        let begun = shared.begin();
        assert_eq!(begun.opening.closed, [1]);
        shared.not_opened(begun, Errno::ENOENT, false);
        assert_eq!(shared.take_closed(), [0; 0]);
        let begun = shared.begin();
        let handle = begun.opening.handle;
        shared.not_opened(begun, Errno::ENOENT, true);
        assert_eq!(shared.take_closed(), [handle]);
        drop(Shared::opened(&shared, shared.begin(), ObjectId(6)));
        let begun = shared.begin();
        let opening = begun.opening.clone();
        shared.not_opened(begun, Errno::ETIMEDOUT, false);
        assert_eq!(shared.take_closed(), [opening.closed[0], opening.handle]);
    }
}
