//! Commands that a program's threads send to the thread of its locks, and the state that both share.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
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
    /// The owner of this lock.
    pub(super) fn of(lock: &Lock) -> Self {
        Self {
            object: lock.object,
            family: lock.family,
            number: lock.owner,
        }
    }
}

/// A request to the metadata server.
pub(super) enum Ask {
    /// A lock, with the number of the wait for it; `None` if it must not wait.
    Lock(Lock, Option<u64>),
    Unlock(LockOwner, LockRange),
    Test(Lock),
    Cancel(u64),
}

/// The callback for the result.
pub(super) type Done = Box<dyn FnOnce(Result<Option<LockHolder>, Error>) + Send>;

pub(super) struct Command {
    pub(super) ask: Ask,
    /// When the request must have ended, not counting a wait for a lock.
    pub(super) deadline: Instant,
    pub(super) done: Done,
}

/// Is told of a file on which an owner has lost its locks.
type OnLoss = Box<dyn Fn(ObjectId) + Send + Sync>;

/// State that the program's threads share with the thread of its locks.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    on_loss: OnceLock<OnLoss>,
    /// Some owner has lost its locks.
    any_lost: AtomicBool,
}

#[derive(Default)]
struct State {
    commands: VecDeque<Command>,
    stopping: bool,
    last_wait: u64,
    /// The locks that owners may have.
    held: HashMap<LockOwner, Vec<Held>>,
    /// The locks that owners have lost and have not released since.
    lost: HashMap<LockOwner, Vec<Held>>,
}

impl Shared {
    /// Queues a command.
    pub(super) fn put(&self, command: Command) {
        lock(&self.state).commands.push_back(command);
    }

    /// Ends the queue: later commands fail.
    pub(super) fn stop(&self) {
        lock(&self.state).stopping = true;
    }

    /// A number for a wait, different from all others.
    pub(super) fn next_wait(&self) -> u64 {
        let mut state = lock(&self.state);
        state.last_wait += 1;
        state.last_wait
    }

    /// Whether an owner may have locks, or has lost some.
    pub(super) fn is_known(&self, owner: &LockOwner) -> bool {
        let state = lock(&self.state);
        state.held.contains_key(owner) || state.lost.contains_key(owner)
    }

    /// Whether any owner has lost locks on a file.
    pub(super) fn has_lost(&self, object: ObjectId) -> bool {
        self.any_lost.load(Ordering::Acquire)
            && (lock(&self.state).lost.keys()).any(|owner| owner.object == object)
    }

    /// Returns the queued commands; `None` at the end.
    pub(super) fn take(&self) -> Option<VecDeque<Command>> {
        let mut state = lock(&self.state);
        match state.stopping {
            true => None,
            false => Some(std::mem::take(&mut state.commands)),
        }
    }

    /// Puts a command back before all queued ones.
    pub(super) fn put_back(&self, command: Command) {
        lock(&self.state).commands.push_front(command);
    }

    /// Takes a wait back whose request has not been sent yet.
    pub(super) fn take_wait(&self, number: u64) -> Option<Command> {
        let commands = &mut lock(&self.state).commands;
        let is_it =
            |command: &Command| matches!(command.ask, Ask::Lock(_, Some(wait)) if wait == number);
        let place = commands.iter().position(is_it)?;
        commands.remove(place)
    }

    /// Notes that an owner has a lock on this part.
    pub(super) fn note_held(&self, owner: LockOwner, range: LockRange) {
        let part = Held {
            owner: within(owner),
            // These entries only show which parts are locked.
            exclusive: true,
            range,
            pid: 0,
        };
        let mut state = lock(&self.state);
        let held = state.held.entry(owner).or_default();
        set_part(held, part.owner, range, Some(part));
    }

    /// Notes that an owner has released this part, whether it had the locks on it or had lost them.
    pub(super) fn note_unlocked(&self, owner: LockOwner, range: LockRange) {
        let mut state = lock(&self.state);
        let State { held, lost, .. } = &mut *state;
        for parts in [held, &mut *lost] {
            if let Some(of_owner) = parts.get_mut(&owner) {
                set_part(of_owner, within(owner), range, None);
                if of_owner.is_empty() {
                    parts.remove(&owner);
                }
            }
        }
        self.any_lost.store(!lost.is_empty(), Ordering::Release);
    }

    /// Sets what is told of the files on which locks are lost, once.
    pub(super) fn set_on_loss(&self, on_loss: OnLoss) {
        // A program has one.
        let _ = self.on_loss.set(on_loss);
    }

    /// Notes that an owner has lost its shared lock: it has requested an exclusive one of the whole file and waits for it, or did not get it.
    pub(super) fn note_given_up(&self, owner: &LockOwner) {
        lock(&self.state).held.remove(owner);
    }

    /// Notes that all locks are lost.
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
        let objects: HashSet<ObjectId> = held.keys().map(|owner| owner.object).collect();
        for (owner, parts) in held {
            let lost = state.lost.entry(owner).or_default();
            for part in parts {
                set_part(lost, part.owner, part.range, Some(part));
            }
        }
        self.any_lost.store(true, Ordering::Release);
        drop(state);
        if let Some(on_loss) = self.on_loss.get() {
            objects.into_iter().for_each(on_loss);
        }
    }

    pub(super) fn is_lost(&self, owner: &LockOwner) -> bool {
        self.any_lost.load(Ordering::Acquire) && lock(&self.state).lost.contains_key(owner)
    }
}

/// The owner's name among the owners of this client.
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
