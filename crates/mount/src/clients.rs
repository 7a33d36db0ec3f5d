//! The clients of a mount. A client belongs to one thread at a time, so there are several: a request for a name takes
//! any that is free, and everything that concerns a file's content goes by the client of that file, which knows what
//! of it an fsync has to make durable.
//!
//! A request has the file system's one time-out for everything: waiting for a client counts. So requests that
//! queue up behind a dead server fail when their own time is over, not one after the other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions, own_identity};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Caller, Errno, MAX_GROUPS, ObjectId};

use crate::attributes::{Failed, Outcome};

/// The least time that a call gets: a request that had to wait for long may still reach a server that replies.
const LEAST_TIME: Duration = Duration::from_millis(100);

/// The user who makes a request, as far as the kernel tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
}

/// Clients that threads share.
pub(crate) struct Clients {
    /// `None` while a thread has it.
    idle: Mutex<Vec<Option<Client>>>,
    returned: Condvar,
    count: usize,
    timeout: Duration,
    /// On whose behalf the mount itself works.
    own: Caller,
}

/// A client for the time of one request.
struct Borrowed<'a> {
    clients: &'a Clients,
    index: usize,
    client: Option<Client>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.clients.lock()[self.index] = self.client.take();
        self.clients.returned.notify_all();
    }
}

impl Clients {
    pub(crate) fn connect(
        configuration: &Configuration,
        options: &ClientOptions,
        count: usize,
    ) -> Result<Self, Error> {
        let own = options.caller.clone().unwrap_or_else(own_identity);
        let client = |_| Client::connect(configuration, options.clone()).map(Some);
        Ok(Self {
            idle: Mutex::new((0..count).map(client).collect::<Result<_, _>>()?),
            returned: Condvar::new(),
            count,
            timeout: configuration.timeout,
            own,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Client>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a client, this one or any, for the rest of the request's time.
    fn borrow(&self, which: Option<usize>) -> Outcome<Borrowed<'_>> {
        let deadline = Instant::now() + self.timeout;
        let mut idle = self.lock();
        loop {
            let index = match which {
                Some(index) => idle[index].is_some().then_some(index),
                None => idle.iter().position(Option::is_some),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(index) = index
                && let Some(mut client) = idle[index].take()
            {
                client.limit(left.max(LEAST_TIME));
                return Ok(Borrowed {
                    clients: self,
                    index,
                    client: Some(client),
                });
            }
            if left.is_zero() {
                tracing::warn!("a request has waited for its turn until its time was over");
                return Err(Failed(Errno::ETIMEDOUT));
            }
            (idle, _) = self
                .returned
                .wait_timeout(idle, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn call<T>(
        &self,
        which: Option<usize>,
        caller: Caller,
        call: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        let mut borrowed = self.borrow(which)?;
        let Some(client) = &mut borrowed.client else {
            return Err(Failed(Errno::EIO));
        };
        client.act_for(caller);
        Ok(call(client)?)
    }

    /// Carries something out that the kernel has admitted, as the mount itself.
    pub(crate) fn own<T>(&self, call: impl FnOnce(&mut Client) -> Result<T, Error>) -> Outcome<T> {
        self.call(None, self.own.clone(), call)
    }

    /// The same with the client of a file.
    pub(crate) fn of_file<T>(
        &self,
        object: ObjectId,
        call: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        let index = (object.0 % self.count as u64) as usize;
        self.call(Some(index), self.own.clone(), call)
    }

    /// Carries something out on behalf of a user. The kernel does not tell the user's supplementary groups, so the
    /// system is asked for them if a server refuses without, or if the call `needs_groups`.
    pub(crate) fn for_user<T>(
        &self,
        user: User,
        needs_groups: bool,
        mut call: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        if user.uid == self.own.uid {
            let caller = match user.gid == self.own.gid {
                true => self.own.clone(),
                false => caller(user, groups_of(user.pid)),
            };
            return self.call(None, caller, call);
        }
        if needs_groups {
            return self.call(None, caller(user, groups_of(user.pid)), call);
        }
        match self.call(None, caller(user, Vec::new()), &mut call) {
            Err(Failed(Errno::EACCES | Errno::EPERM)) => {
                self.call(None, caller(user, groups_of(user.pid)), call)
            }
            outcome => outcome,
        }
    }
}

fn caller(user: User, groups: Vec<u32>) -> Caller {
    Caller {
        uid: user.uid,
        gid: user.gid,
        groups,
    }
}

/// The supplementary groups of a process; none if they cannot be read.
fn groups_of(pid: u32) -> Vec<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
        .take(MAX_GROUPS)
        .collect()
}
