//! The clients of a mount. A request about a name takes any client that is free; all requests about a file's content go
//! through the client of that file, which records what an fsync of it has to make durable.

use std::sync::Arc;

use causeway_fs::Error;
use causeway_fs::client::{Client, ClientOptions, Leases, Locks, own_identity};
use causeway_fs::config::Configuration;
use causeway_fs::pool::Clients as Pool;
use causeway_wire::fs::{Caller, Errno, MAX_GROUPS, ObjectId};

use crate::attributes::{Failed, Outcome};

/// The user who makes a request, as the kernel reports it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) pid: u32,
    /// The umask for objects that the user makes.
    pub(crate) umask: u16,
}

/// Clients that threads share.
pub(crate) struct Clients {
    pool: Pool,
    /// The user for whom the mount itself makes requests.
    own: Caller,
}

impl Clients {
    pub(crate) fn connect(
        configuration: &Configuration,
        options: &ClientOptions,
        count: usize,
        leases: &Arc<Leases>,
    ) -> Result<Self, Error> {
        let leases = Arc::clone(leases);
        Ok(Self {
            pool: Pool::connect_caching(configuration, options, count, leases)?,
            own: options.caller.clone().unwrap_or_else(own_identity),
        })
    }

    /// The locks of all these clients.
    pub(crate) fn locks(&self) -> &Locks {
        self.pool.locks()
    }

    fn call<T>(
        &self,
        which: Option<usize>,
        caller: Caller,
        call: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        let called = self.pool.call(which, |client| {
            client.act_for(caller);
            call(client)
        });
        Ok(called?)
    }

    /// Makes a call that the kernel has permitted, as the mount itself.
    pub(crate) fn own<T>(&self, call: impl FnOnce(&mut Client) -> Result<T, Error>) -> Outcome<T> {
        self.call(None, self.own.clone(), call)
    }

    /// The same with the client of a file.
    pub(crate) fn of_file<T>(
        &self,
        object: ObjectId,
        call: impl FnOnce(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        self.call(Some(self.number(object)), self.own.clone(), call)
    }

    /// The number of a file's client.
    pub(crate) fn number(&self, object: ObjectId) -> usize {
        (object.0 % self.pool.count() as u64) as usize
    }

    /// How many clients there are.
    pub(crate) fn count(&self) -> usize {
        self.pool.count()
    }

    /// Makes a call for a user. The kernel does not pass on the user's supplementary groups: they are
    /// looked up if a server refuses the request without them, or if the call `needs_groups`.
    pub(crate) fn for_user<T>(
        &self,
        user: User,
        needs_groups: bool,
        mut call: impl FnMut(&mut Client) -> Result<T, Error>,
    ) -> Outcome<T> {
        if user.uid == self.own.uid {
            let groups = match user.gid == self.own.gid {
                true => self.own.groups.clone(),
                false => groups_of(user.pid),
            };
            let caller = caller(user, groups);
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
        umask: user.umask,
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
