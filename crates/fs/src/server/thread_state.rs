//! State that the loop of a metadata server shares with its other threads.

use std::sync::{Arc, Mutex};

use causeway_wire::fs::formats::GrantedLease;
use causeway_wire::fs::{Errno, Failure, Leased, Operation, Reply, Request};

use super::background::Wakeup;
use super::revocation::Revoker;
use super::ticket::Ticket;
use crate::capability_key::Signer;
use crate::clock;
use crate::config::Configuration;
use crate::error::failure;
use crate::locks::lock;
use crate::meta::{Executed, Service};

/// The metadata service, shared by several threads.
pub(super) type SharedService = Arc<Mutex<Service>>;

/// What a thread with a client of its own needs: the configuration, the service, and the signer of its capabilities.
pub(super) type ClientParts = (Configuration, SharedService, Signer);

/// The function that takes the results of the other threads.
pub(super) type Deliver = Arc<dyn Fn(Vec<(Ticket, Finished)>) + Send + Sync>;

/// The outcome of a request.
pub(super) enum Finished {
    /// The reply, and leases that come with it.
    Reply(Reply, Option<GrantedLease>),
    /// The request would alter this, on which clients have leases, and has to be carried out once the
    /// leases have ended.
    Waits(Box<Request>, Vec<Leased>),
}

/// Notified after changes that give the other threads something to do.
#[derive(Clone, Default)]
pub(super) struct Wakeups {
    /// Datafiles may have to be removed.
    pub(super) reclaimer: Wakeup,
    /// I/O servers may have to be registered.
    pub(super) registrar: Wakeup,
    /// Capabilities are to be revoked at I/O servers.
    pub(super) revoker: Revoker,
    /// Files without a name may have been closed.
    pub(super) orphans: Wakeup,
}

/// Carries a batch out, and notifies the threads that it makes work for. The batch is empty afterwards.
pub(super) fn apply(
    service: &Mutex<Service>,
    wakeups: &Wakeups,
    batch: &mut Vec<(Ticket, Request)>,
) -> Vec<(Ticket, Finished)> {
    // Most batches are of one request: vectors that grow would take room for four, of 2 KB, from which on the allocator tidies up.
    let mut tickets = Vec::with_capacity(batch.len());
    let mut requests = Vec::with_capacity(batch.len());
    for (ticket, request) in batch.drain(..) {
        tickets.push(ticket);
        requests.push(request);
    }
    let mut locked = lock(service);
    let executed = locked.execute_all(&requests, clock::now());
    if locked.opens().take_news() {
        wakeups.orphans.notify();
    }
    let has_removals = locked.has_removals();
    drop(locked);
    let mut done = requests.iter().zip(&executed);
    if has_removals && done.any(|(request, executed)| removes(&request.operation, executed)) {
        wakeups.reclaimer.notify();
    }
    if requests
        .iter()
        .any(|request| changes_layout(&request.operation))
    {
        wakeups.registrar.notify();
    }
    let finished = requests.into_iter().zip(executed);
    let finished = finished.map(|(request, executed)| match executed {
        Executed::Reply(reply, lease) => Finished::Reply(reply, lease),
        Executed::Waits(alters) => Finished::Waits(Box::new(request), alters),
    });
    tickets.into_iter().zip(finished).collect()
}

/// Whether datafiles may have to be removed afterwards.
fn removes(operation: &Operation, executed: &Executed) -> bool {
    let Executed::Reply(reply, _) = executed else {
        return false;
    };
    match operation {
        Operation::Unlink { .. }
        | Operation::Rename { .. }
        | Operation::Check { repair: true, .. } => true,
        // The client has written to a file that was removed meanwhile.
        Operation::Extend { .. }
        | Operation::Grow { .. }
        | Operation::EndAppend { .. }
        | Operation::FinishTruncate { .. }
        | Operation::FinishUnstuff { .. } => reply.result.is_err(),
        _ => false,
    }
}

/// Whether an I/O server may have to be registered after an operation.
fn changes_layout(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::AddServer { .. } | Operation::AcceptServer { .. }
    )
}

/// The failure of starting one of these threads.
pub(super) fn no_thread(name: &str, error: &std::io::Error) -> Failure {
    failure(
        Errno::EAGAIN,
        format!("the {name} thread cannot be started: {error}"),
    )
}
