//! Leases: requests to the metadata server, recalls to programs, and changes that wait for leases to end.
//!
//! A change that waits keeps its place among the requests in progress, and nothing else waits for it. It is carried out once the
//! leases in its way have ended: as their holders have said, or with their time.

use std::sync::Arc;
use std::time::Instant;

use causeway_bmi::{Addr, Completion, Identity};
use causeway_wire::fs::formats::{GrantedLease, LEASES_OF_CHANGES};
use causeway_wire::fs::{Errno, Failure, Leased, Operation, Reply, ReplyBody, Request};

use super::events::Loop;
use super::lease_state::{Channel, WATCHES_HOLDERS, Wait};
use super::scans::is_scan;
use super::ticket::{MAX_REQUESTS, ReplyTo, Ticket};
use crate::error::failure;
use crate::meta::{in_milliseconds, single_name};

/// Most programs that hold leases.
const MAX_HOLDERS: usize = 4096;
/// Most programs of one user, among those for which agents speak: an eighth. Holders of the key are trusted not to take all.
const MAX_HOLDERS_OF_USER: usize = MAX_HOLDERS / 8;
/// Most changes that wait.
const MAX_WAITS: usize = 4096;

/// What a program may cache of the reply to an operation.
fn leasable(operation: &Operation, reply: &Reply) -> Option<Vec<Leased>> {
    match (operation, &reply.result) {
        (Operation::GetNode { object, .. }, Ok(ReplyBody::Node(_))) => {
            Some(vec![Leased::Attributes(*object)])
        }
        (
            Operation::Lookup {
                place,
                follow: false,
                ..
            },
            result,
        ) => {
            let entry = Leased::Entry(place.base, single_name(&place.path)?.to_vec());
            match result {
                Ok(ReplyBody::Node(node)) => Some(vec![entry, Leased::Attributes(node.object)]),
                Err(failure) if failure.errno == Errno::ENOENT => Some(vec![entry]),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Loop {
    /// A program waits for recalls, and has carried out earlier ones.
    pub(super) fn hold_leases(
        &mut self,
        to: ReplyTo,
        holder: u128,
        recalls: u64,
        ended: u64,
    ) -> Result<ReplyBody, Failure> {
        self.check_metadata()?;
        self.know_holder(to, holder)?;
        if let Some(channel) = self.leases.channels.get_mut(&holder) {
            channel.tag = Some(recalls);
        }
        let Some(metadata) = &self.metadata else {
            return Ok(ReplyBody::Done);
        };
        let mut table = metadata.caches().lock();
        table.end_recall(holder, ended);
        let is_known = table.set_reachable(holder);
        table.note_acceptance(holder, to.format >= LEASES_OF_CHANGES);
        drop(table);
        match is_known {
            true => Ok(ReplyBody::Done),
            false => {
                self.forget_channel(holder);
                Err(too_many())
            }
        }
    }

    /// A program caches nothing any more.
    pub(super) fn end_leases(&mut self, holder: u128) -> Result<ReplyBody, Failure> {
        self.check_metadata()?;
        if let Some(metadata) = &self.metadata {
            metadata.caches().lock().end_all(holder);
        }
        self.forget_channel(holder);
        Ok(ReplyBody::Done)
    }

    /// Notes by which connection a program waits for recalls.
    fn know_holder(&mut self, to: ReplyTo, holder: u128) -> Result<(), Failure> {
        let gone = || failure(Errno::ECONNRESET, "the client has disconnected");
        let connection = self.bmi.connection(to.from).ok_or_else(gone)?;
        match self.leases.channels.get(&holder) {
            Some(known) if (known.from, known.connection) == (to.from, connection) => {
                return Ok(());
            }
            _ => self.forget_channel(holder),
        }
        // A program that comes as another holder by the same connection is the former one no more: each connection has one.
        let is_same = |known: &Channel| (known.from, known.connection) == (to.from, connection);
        let mut channels = self.leases.channels.iter();
        if let Some((&former, _)) = channels.find(|(_, known)| is_same(known)) {
            self.forget_channel(former);
        }
        let user = match self.bmi.identity(to.from) {
            Some(Identity::OneUser { uid, .. }) => Some(uid),
            _ => None,
        };
        if !has_room(self.leases.channels.values().map(|known| known.user), user) {
            return Err(too_many());
        }
        self.leases.last_watch = self.leases.last_watch.wrapping_add(1);
        let watch = self.leases.last_watch;
        let ticket = Ticket {
            slot: WATCHES_HOLDERS,
            generation: watch,
        };
        let receive = self.post_watch(to.from, ticket).ok_or_else(gone)?;
        self.bmi.retain(to.from);
        self.leases.watches.insert(watch, holder);
        let channel = Channel {
            from: to.from,
            connection,
            format: to.format,
            watch,
            receive,
            tag: None,
            user,
        };
        self.leases.channels.insert(holder, channel);
        Ok(())
    }

    fn forget_channel(&mut self, holder: u128) {
        if let Some(known) = self.leases.channels.remove(&holder) {
            self.leases.watches.remove(&known.watch);
            self.bmi.cancel(known.receive);
            self.bmi.release(known.from);
        }
        if let Some(metadata) = &self.metadata {
            metadata.caches().lock().set_unreachable(holder);
        }
    }

    /// The receive that watched a program's connection has ended.
    pub(super) fn holder_watch_ended(&mut self, ticket: Ticket, completion: &Completion) {
        if let Some(holder) = self.leases.watches.get(&ticket.generation).copied() {
            tracing::debug!(?completion.result, "a program that holds leases is not reached any more");
            self.forget_channel(holder);
        }
    }

    /// As [`Loop::read_metadata`], and grants leases if the request asks for them.
    pub(super) fn read_leased(&mut self, request: &Request) -> Option<Reply> {
        let holder = request.holder.filter(|holder| {
            let may_hold = matches!(
                request.operation,
                Operation::GetNode { .. } | Operation::Lookup { .. }
            );
            may_hold && self.leases.channels.contains_key(holder)
        });
        let holder = holder.filter(|_| self.leases.mark.set(self.loop_time));
        let metadata = self.metadata.as_ref()?;
        let Some(holder) = holder else {
            return metadata.reply_to(request);
        };
        let caches = Arc::clone(metadata.caches());
        let mut table = caches.lock();
        table.note_record();
        let mut reply = metadata.reply_to(request)?;
        let granted = leasable(&request.operation, &reply)
            // Not since the round began: the request may have been sent later.
            .and_then(|on| table.grant(holder, on, Instant::now()));
        self.leases.granted = granted.map(|time| GrantedLease {
            time_ms: in_milliseconds(time),
            ..GrantedLease::default()
        });
        if granted.is_some() && reply.result.is_err() {
            reply.result = Ok(ReplyBody::NoEntry);
        }
        Some(reply)
    }

    /// A lease as the client gets it that is connected there.
    pub(super) fn lease_for(&self, from: Addr, lease: GrantedLease) -> GrantedLease {
        GrantedLease {
            for_all_users: self.serves_all_users(from),
            ..lease
        }
    }

    /// Until when a change has to wait since leases may be good that an earlier run of the server has given, if it has to.
    pub(super) fn earlier_leases_end(&mut self, request: &Request) -> Option<Instant> {
        let until = self.leases.mark.earlier_until?;
        if until <= Instant::now() {
            self.leases.mark.earlier_until = None;
            return None;
        }
        let alters_nothing = match &request.operation {
            Operation::Check { repair, .. } => !repair,
            operation => is_scan(operation) || *operation == Operation::Commit,
        };
        (!alters_nothing).then_some(until)
    }

    /// A change has to wait until this instant.
    pub(super) fn wait_until(&mut self, ticket: Ticket, request: Request, until: Instant) {
        self.add_wait(Wait {
            ticket,
            request: Box::new(request),
            alters: Vec::new(),
            not_before: Some(until),
            until,
        });
    }

    /// A change would alter what others have leases on: these are recalled.
    pub(super) fn wait_for_leases(
        &mut self,
        ticket: Ticket,
        request: Box<Request>,
        alters: Vec<Leased>,
    ) {
        let Some(metadata) = &self.metadata else {
            return;
        };
        let mut table = metadata.caches().lock();
        let until = table.begin_wait(request.holder, &alters, Instant::now());
        if let Some(earlier) = self.leases.made.remove(&ticket) {
            table.end_wait(&earlier);
        }
        drop(table);
        self.add_wait(Wait {
            ticket,
            request,
            alters,
            not_before: None,
            until,
        });
    }

    fn add_wait(&mut self, wait: Wait) {
        if self.leases.waits.len() < MAX_WAITS {
            return self.leases.waits.add(wait);
        }
        if let (Some(opening), Some(metadata)) = (&wait.request.opening, &self.metadata) {
            let opens = metadata.reader().opens();
            opens.settle([(opening.session, opening.handle)]);
        }
        // Its end releases what it waits for.
        self.leases.made.insert(wait.ticket, wait.alters);
        let why = "too many changes wait for leases of clients that do not reply";
        let result = Err(failure(Errno::RETRY, why));
        self.finish(wait.ticket, Reply { result });
    }

    /// Has changes carried out that need not wait any more.
    pub(super) fn go_on_with_changes(&mut self) {
        let Some(metadata) = &mut self.metadata else {
            return;
        };
        if self.leases.waits.is_empty() {
            return;
        }
        let caches = Arc::clone(metadata.caches());
        let mut table = caches.lock();
        let now = Instant::now();
        let freed = table.take_freed(now);
        let made = self.leases.waits.take(freed, now, |wait| {
            let is_late = wait.not_before.is_none_or(|not_before| not_before <= now);
            is_late && table.is_free(wait.request.holder, &wait.alters, now)
        });
        for wait in &made {
            table.begin_change(wait.request.holder, &wait.alters);
        }
        drop(table);
        for wait in made {
            // The client itself has lost no time.
            let client = wait.request.client;
            self.appends.locks.renew_held(client, self.loop_time);
            self.leases.made.insert(wait.ticket, wait.alters);
            metadata.take(wait.ticket, *wait.request);
        }
    }

    /// A request has its reply: if it has waited for leases, others may be given.
    pub(super) fn note_made(&mut self, ticket: Ticket) {
        if let Some(altered) = self.leases.made.remove(&ticket)
            && let Some(metadata) = &self.metadata
        {
            metadata.caches().lock().end_wait(&altered);
        }
    }

    /// When the next change need not wait any longer, if no holder says anything before.
    pub(super) fn next_lease_end(&self) -> Option<Instant> {
        self.leases.waits.next_end()
    }

    /// Sends recalls, as far as there is room for messages on their way.
    pub(super) fn notify_holders(&mut self) {
        let Some(metadata) = &self.metadata else {
            return;
        };
        let caches = Arc::clone(metadata.caches());
        while self.busy() < MAX_REQUESTS {
            let mut table = caches.lock();
            let Some(holder) = table.next_holder() else {
                return;
            };
            let Some(channel) = self.leases.channels.get_mut(&holder) else {
                continue;
            };
            let Some(tag) = channel.tag else {
                continue;
            };
            let Some((number, leases)) = table.next_recall(holder, Instant::now()) else {
                continue;
            };
            drop(table);
            channel.tag = None;
            let to = ReplyTo {
                from: channel.from,
                tag,
                format: channel.format,
                record: 0,
            };
            // The end of the message releases it.
            self.bmi.retain(to.from);
            let result = Ok(ReplyBody::Recall { number, leases });
            self.respond(to, &Reply { result });
        }
    }
}

/// Whether one more program may hold leases, of this user if an agent speaks for it. `known` are the users of those that do.
fn has_room(known: impl ExactSizeIterator<Item = Option<u32>>, user: Option<u32>) -> bool {
    if known.len() >= MAX_HOLDERS {
        return false;
    }
    user.is_none() || known.filter(|of| *of == user).count() < MAX_HOLDERS_OF_USER
}

fn too_many() -> Failure {
    failure(Errno::ENFILE, "too many programs hold leases")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_of_agents_does_not_hold_leases_as_all_programs() {
        let of_user = vec![Some(5); MAX_HOLDERS_OF_USER];
        let all_but_one = &of_user[1..];
        assert!(has_room(all_but_one.iter().copied(), Some(5)));
        assert!(!has_room(of_user.iter().copied(), Some(5)));
        assert!(has_room(of_user.iter().copied(), Some(6)));
        assert!(has_room(of_user.iter().copied(), None));
        // Holders of the key have no share, and all together have an end.
        let keyed = vec![None; MAX_HOLDERS - 1];
        assert!(has_room(keyed.iter().copied(), None));
        assert!(has_room(keyed.iter().copied(), Some(5)));
        let full = vec![None; MAX_HOLDERS];
        assert!(!has_room(full.iter().copied(), None));
    }
}
