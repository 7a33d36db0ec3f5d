//! Waiting for append locks, and the writes under one, which are sent only on connections that were made
//! before the lock was granted.
//!
//! Append locks are numbered in the order in which they are granted. An I/O server refuses writes under a lock after those under a later one, as long
//! as it runs. An I/O server that was restarted after the lock was granted may
//! have stored writes under later locks without knowing of these: it must not get a write under the earlier lock. If it is known that the client
//! still had the lock when a connection was made, the client may use that connection, too.

use std::time::{Duration, Instant};

use causeway_bmi::ConnectionId;
use causeway_wire::fs::{Errno, Node, ObjectId, Operation, ReplyBody};

use super::call::Call;
use super::call_error::{CallError, take_reply};
use super::connection::Client;
use super::rpc::Rpc;
use super::transfer::AppendLock;

/// A reply that comes before this time, and has the client ask again, came without a wait at the
/// metadata server.
const HASTY: Duration = Duration::from_millis(10);
/// Pause after such a reply.
const PAUSE: Duration = Duration::from_millis(100);

/// A client's wait for an append lock, from one of its requests to the next one.
#[derive(Debug, Default)]
pub struct AppendLockWait {
    /// Since when each reply of the server has come without a wait.
    hasty_since: Option<Instant>,
}

impl Client {
    /// Requests the append lock of a file. Returns nothing if other clients are still ahead: the server keeps the client's place
    /// for half of the time-out, within which the client has to ask again.
    pub(super) fn request_append_lock(
        &mut self,
        object: ObjectId,
        wait: &mut AppendLockWait,
    ) -> Result<Option<(u64, Node)>, CallError> {
        let asked = Instant::now();
        match self.query(Operation::BeginAppend { object }) {
            Err(error) if error.errno == Errno::EAGAIN => {
                match wait.next(asked, Instant::now(), self.rpc.timeout) {
                    Next::Ask => {}
                    Next::Pause => std::thread::sleep(PAUSE),
                    Next::GiveUp => {
                        let text = "it refuses this client the append lock at once each time, instead of having it wait; the server is faulty";
                        return Err(self.rpc.error_at(self.metadata, Errno::ETIMEDOUT, text));
                    }
                }
                Ok(None)
            }
            reply => {
                take_reply!(reply?, ReplyBody::AppendLock { append_lock, node } => Some((append_lock, *node)))
            }
        }
    }
}

/// What a client does after a reply that it has to request the append lock again.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Ask,
    /// First pauses.
    Pause,
    GiveUp,
}

impl AppendLockWait {
    /// Decides what to do after the reply to a request that was sent at `asked`. A server that has its client ask again at
    /// once, throughout the time-out, is faulty.
    fn next(&mut self, asked: Instant, now: Instant, timeout: Duration) -> Next {
        if now >= asked + HASTY {
            self.hasty_since = None;
            return Next::Ask;
        }
        let since = *self.hasty_since.get_or_insert(asked);
        match now >= since + timeout {
            true => Next::GiveUp,
            false => Next::Pause,
        }
    }
}

/// An append lock that the client has.
pub(super) struct HeldAppendLock {
    pub(super) number: u64,
    /// By server in the configuration: the connections that were made before the lock was granted, or while the client
    /// was known to have it.
    pub(super) connections: Vec<Option<ConnectionId>>,
    /// It is for an append: the lock is released with the new size of the file.
    pub(super) appends: bool,
}

impl Rpc {
    /// The present connections, by server in the configuration.
    pub(super) fn connections(&self) -> Vec<Option<ConnectionId>> {
        (0..self.links.len())
            .map(|server| self.connection(server))
            .collect()
    }

    /// Connects with those of these servers with which there is no connection.
    pub(super) fn connect(&mut self, servers: &[usize]) -> Result<(), CallError> {
        let servers = servers.iter().copied();
        let unconnected = servers.filter(|server| self.connection(*server).is_none());
        let unconnected = Vec::from_iter(unconnected);
        self.greet(&unconnected)
            .into_iter()
            .try_for_each(|greeting| greeting.map(drop))
    }

    /// The present connection with a server.
    pub(super) fn connection(&self, server: usize) -> Option<ConnectionId> {
        self.bmi.connection(self.links.get(server)?.addr?)
    }

    /// Makes writes ones under an append lock. Returns `false` if the connection with one of their servers is newer than the lock, or missing: then
    /// it is made, for the next lock.
    pub(super) fn put_under_append_lock(
        &mut self,
        calls: &mut [Call],
        append_lock: &HeldAppendLock,
    ) -> Result<bool, CallError> {
        let mut are_put = true;
        let servers: Vec<usize> = calls.iter().map(|call| call.server).collect();
        for call in calls {
            let before = append_lock.connections.get(call.server).copied().flatten();
            let now = self.connection(call.server);
            match before.filter(|before| now == Some(*before)) {
                Some(connection) => call.set_append_lock(AppendLock {
                    number: append_lock.number,
                    connection,
                }),
                None => are_put = false,
            }
        }
        self.connect(&servers)?;
        Ok(are_put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_a_client_wait_is_asked_again_at_once_and_another_one_in_vain_for_the_timeout()
     {
        let timeout = Duration::from_secs(1);
        let mut wait = AppendLockWait::default();
        let mut now = Instant::now();
        let ask = |wait: &mut AppendLockWait, now: &mut Instant, waits: Duration| {
            let asked = *now;
            *now += waits;
            wait.next(asked, *now, timeout)
        };
        for _ in 0..3 {
            for _ in 0..100 {
                assert_eq!(ask(&mut wait, &mut now, timeout / 2), Next::Ask);
            }
            let first = now;
            while now + HASTY / 2 < first + timeout {
                assert_eq!(ask(&mut wait, &mut now, HASTY / 2), Next::Pause);
                now += PAUSE;
            }
        }
        assert_eq!(ask(&mut wait, &mut now, HASTY / 2), Next::GiveUp);
    }
}
