//! What threads of a program ask the thread of its locks, and what both know of these.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use causeway_wire::fs::{Errno, Lock, LockFamily, LockHolder, LockRange, ObjectId};

use super::call_error::CallError;
use crate::Error;
use crate::lock_ranges::{Held, Owner, set_part};
use crate::locks::lock;

/// An owner of locks on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockOwner {
    /// The file.
    pub object: ObjectId,
    /// The family of the locks.
    pub family: LockFamily,
    /// Chosen by the program: locks of one owner do not exclude each other.
    pub number: u64,
}

impl LockOwner {
    /// Of such a lock.
    pub(super) fn of(lock: &Lock) -> Self {
        Self {
            object: lock.object,
            family: lock.family,
            number: lock.owner,
        }
    }
}

/// What is asked of the metadata server.
pub(super) enum Ask {
    /// A lock, waited for under this number or not at all.
    Lock(Lock, Option<u64>),
    Unlock(LockOwner, LockRange),
    Test(Lock),
    Cancel(u64),
}

/// What is called with the result.
pub(super) type Done = Box<dyn FnOnce(Result<Option<LockHolder>, Error>) + Send>;

pub(super) struct Command {
    pub(super) ask: Ask,
    /// When it must have ended, apart from a wait for a lock.
    pub(super) deadline: Instant,
    pub(super) done: Done,
}

/// What threads and that of the locks share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Some owner has lost locks.
    any_lost: AtomicBool,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    stopping: bool,
    last_wait: u64,
    /// What owners may have.
    held: HashMap<LockOwner, Vec<Held>>,
    /// Owners that have lost theirs, and have not given them back since.
    lost: HashSet<LockOwner>,
}

impl Shared {
    /// Asks for something.
    pub(super) fn put(&self, command: Command) {
        lock(&self.state).commands.push_back(command);
    }

    /// Nothing more is taken.
    pub(super) fn stop(&self) {
        lock(&self.state).stopping = true;
    }

    /// A number for a wait that no other one has.
    pub(super) fn next_wait(&self) -> u64 {
        let mut state = lock(&self.state);
        state.last_wait += 1;
        state.last_wait
    }

    /// Whether an owner may have locks, or has lost some.
    pub(super) fn is_known(&self, owner: &LockOwner) -> bool {
        let state = lock(&self.state);
        state.held.contains_key(owner) || state.lost.contains(owner)
    }

    /// Whether any owner has lost locks on a file.
    pub(super) fn has_lost(&self, object: ObjectId) -> bool {
        self.any_lost.load(Ordering::Acquire)
            && (lock(&self.state).lost.iter()).any(|owner| owner.object == object)
    }

    /// What has been asked; `None` at the end.
    pub(super) fn take(&self) -> Option<VecDeque<Command>> {
        let mut state = lock(&self.state);
        match state.stopping {
            true => None,
            false => Some(std::mem::take(&mut state.commands)),
        }
    }

    /// Asks something again, before what was asked later.
    pub(super) fn put_back(&self, command: Command) {
        lock(&self.state).commands.push_front(command);
    }

    /// Takes a wait back that is to be asked for.
    pub(super) fn take_wait(&self, number: u64) -> Option<Command> {
        let commands = &mut lock(&self.state).commands;
        let is_it =
            |command: &Command| matches!(command.ask, Ask::Lock(_, Some(wait)) if wait == number);
        let place = commands.iter().position(is_it)?;
        commands.remove(place)
    }

    /// An owner has a lock on this part.
    pub(super) fn note_held(&self, owner: LockOwner, range: LockRange) {
        let part = Held {
            owner: within(owner),
            // Nothing is asked of these but whether there are any.
            exclusive: true,
            range,
            pid: 0,
        };
        let mut state = lock(&self.state);
        let held = state.held.entry(owner).or_default();
        set_part(held, part.owner, range, Some(part));
    }

    /// An owner has given this part back; if it is the whole file, lost locks also. Returns whether they were lost before.
    pub(super) fn note_unlocked(&self, owner: LockOwner, range: LockRange) -> bool {
        let mut state = lock(&self.state);
        if let Some(held) = state.held.get_mut(&owner) {
            set_part(held, within(owner), range, None);
            if held.is_empty() {
                state.held.remove(&owner);
            }
        }
        if range != LockRange::ALL {
            return state.lost.contains(&owner);
        }
        let was_lost = state.lost.remove(&owner);
        self.any_lost
            .store(!state.lost.is_empty(), Ordering::Release);
        was_lost
    }

    /// An owner has asked for a whole file alone and has to wait, or did not get it: that has cost it the shared lock that it had.
    pub(super) fn note_given_up(&self, owner: &LockOwner) {
        lock(&self.state).held.remove(owner);
    }

    /// All locks are lost.
    pub(super) fn note_lost(&self) {
        let mut state = lock(&self.state);
        let held = std::mem::take(&mut state.held);
        if held.is_empty() {
            return;
        }
        tracing::warn!(
            owners = held.len(),
            "locks were lost with the connection to the metadata server"
        );
        state.lost.extend(held.into_keys());
        self.any_lost.store(true, Ordering::Release);
    }

    pub(super) fn is_lost(&self, owner: &LockOwner) -> bool {
        self.any_lost.load(Ordering::Acquire) && lock(&self.state).lost.contains(owner)
    }
}

/// The owner among those of this client.
fn within(owner: LockOwner) -> Owner {
    Owner {
        client: 0,
        number: owner.number,
    }
}

/// The error of an owner whose locks are lost.
pub(super) fn lost() -> CallError {
    CallError::local(
        Errno::LOCK_LOST,
        "a lock on the file was lost, since the connection with the metadata server was: others may have had it meanwhile; unlock the file, then \
         lock it and read it again",
    )
}
