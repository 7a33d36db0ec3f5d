//! Requests about datafiles that are not jobs of their own: the loop or the pool carries each out in one step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use causeway_sys::waits;
use causeway_wire::datafile::WriteId;
use causeway_wire::fs::{
    DataFault, Errno, Failure, Moment, Needs, ObjectId, Operation, Reply, ReplyBody, Request,
    Rights, ScrubPosition, WantedSums,
};

use super::error::storage_failure;
use super::events::{Done, EntryState, Loop};
use super::io::Requester;
use super::thread_state::Finished;
use super::ticket::ReplyTo;
use crate::data::punch::Punch;
use crate::data::scrub::{Finding, Step};
use crate::data::{Abandoned, Fault, Origin, Scratch, Store, history};
use crate::error::failure;

/// Most datafiles in one reply to [`Operation::ListData`].
const MAX_LISTED: u32 = 2048;
/// Most bytes that one step of a scrub verifies, so that it ends soon.
const MAX_SCRUB_BYTES: u64 = 64 << 20;
/// Most faults in one reply; the caller requests the rest with its next request.
const MAX_FAULTS: usize = 256;
/// How often datafiles that were written are checked, to mark those clean that have become idle. No client waits for
/// that.
const CLEAN_EVERY: Duration = Duration::from_secs(2);
/// After this many checks, a datafile that no client flushes is flushed and marked clean: by then the operating
/// system has written most of it.
const CLEAN_PATIENCE: u32 = 15;

impl Loop {
    /// Carries out a request about datafiles; `None` if its reply is sent later.
    pub(super) fn data_request(
        &mut self,
        to: ReplyTo,
        request: Request,
    ) -> Result<Option<ReplyBody>, Failure> {
        if request.operation.needs() == Needs::Any(Rights::OPERATE) {
            self.check_operator(&request, "check and remove datafiles")?;
        }
        self.end_of_removed(&request.operation);
        let client = request.client;
        self.abandon_others(client, to.from);
        let version = request.capability.as_ref().map(|shown| shown.version);
        let requester = Requester {
            to,
            client,
            version,
        };
        self.clients_copy = false;
        match request.operation {
            Operation::FindDescriptor { object } => self.find_descriptor(to.from, object).map(Some),
            Operation::Read {
                object,
                at_least,
                regions,
                sums: WantedSums::Only,
                ..
            } => self.stored_sums(object, at_least, &regions).map(Some),
            Operation::Read {
                object,
                at_least,
                regions,
                memory,
                sums,
            } => self.start_read(requester, (object, at_least), regions, memory, sums),
            Operation::Write {
                object,
                number,
                repeated,
                at_least,
                regions,
                memory,
                inline,
                append_lock,
            } => {
                self.admit_append_lock(object, append_lock)?;
                let write = WriteId::new(client, number);
                let origin = Origin { write, repeated };
                self.start_write(
                    requester,
                    (object, at_least),
                    (origin, append_lock),
                    regions,
                    (memory, inline),
                )
            }
            Operation::Clock => Ok(Some(ReplyBody::Clock(Moment {
                boot: self.boot,
                at: history::now(),
            }))),
            Operation::Seed { object, content } => self.store_task(to, false, move |store, _| {
                done(store.seed(object, &content), "making", object)
            }),
            Operation::TruncateData {
                object,
                size,
                version,
                at_least,
            } => self.store_task(to, false, move |store, _| {
                let truncated = store.truncate(object, size, version, at_least);
                done(truncated, "truncating", object)
            }),
            Operation::Flush { object, at_least } => self.store_task(to, false, move |store, _| {
                done(store.flush(object, at_least), "syncing", object)
            }),
            Operation::FindData {
                object,
                at_least,
                offset,
            } => self.store_task(to, false, move |store, _| {
                let first = store.find_data(object, offset, at_least);
                first
                    .map(|first| ReplyBody::Data { first })
                    .map_err(|fault| storage_failure("finding data of", object, &fault))
            }),
            Operation::PunchData {
                object,
                number,
                repeated,
                at_least,
                region,
            } => {
                let write = WriteId::new(client, number);
                let punch = Punch {
                    region,
                    origin: Origin { write, repeated },
                    at_least,
                    abandoned: Abandoned::default(),
                };
                self.start_punch(requester, object, punch)
            }
            Operation::ReserveData {
                object,
                at_least,
                region,
            } => self.store_task(to, true, move |store, _| {
                let reserved = store.reserve(object, region, at_least);
                done(reserved, "reserving room for", object)
            }),
            Operation::StoredData { object } => self.store_task(to, false, move |store, _| {
                let stored = store.stored(object);
                stored
                    .map(ReplyBody::Stored)
                    .map_err(|fault| storage_failure("measuring", object, &fault))
            }),
            Operation::StorageStatus => {
                let (written, read, busy) = (self.written, self.read, self.busy() as u32);
                self.store_task(to, true, move |store, _| {
                    storage_status(store, written, read, busy)
                })
            }
            operation => {
                let synced = self.synced;
                self.store_task(to, true, move |store, scratch| {
                    operate(store, operation, synced, scratch)
                })
            }
        }
    }

    /// Punches a hole, in order of arrival among the requests that overlap it.
    fn start_punch(
        &mut self,
        requester: Requester,
        object: ObjectId,
        punch: Punch,
    ) -> Result<Option<ReplyBody>, Failure> {
        let failed = move |fault: Fault| storage_failure("making a hole in", object, &fault);
        let Some(file) = self.store()?.find(object).map_err(failed)? else {
            return match punch.at_least {
                0 => Ok(Some(ReplyBody::Punched { next: None })),
                wanted => Err(failed(Fault::Absent { wanted })),
            };
        };
        let state = EntryState::Punching(requester.client, punch.abandoned.clone());
        let ticket = self.open_entry(requester.to, state);
        let mailbox = self.mailbox();
        let region = punch.region;
        let claim = move || file.claim(&[region]);
        self.pool.run_ordered(claim, move |claim, scratch| {
            let punched = claim.punch(&punch, scratch);
            let result = punched
                .map(|next| ReplyBody::Punched { next })
                .map_err(failed);
            let finished = Finished::Reply(Reply { result }, None);
            mailbox.put(Done::Requests(vec![(ticket, finished)]));
        });
        Ok(None)
    }

    pub(super) fn store(&self) -> Result<&Arc<Store>, Failure> {
        self.store.as_ref().ok_or_else(|| {
            failure(
                Errno::WRONG_SERVER,
                format!("server {} does not keep datafiles", self.identity.name),
            )
        })
    }

    /// Runs a task on the store: in the loop if it is quick, else in the pool.
    fn store_task(
        &mut self,
        to: ReplyTo,
        slow: bool,
        task: impl FnOnce(&Store, &mut Scratch) -> Result<ReplyBody, Failure> + Send + 'static,
    ) -> Result<Option<ReplyBody>, Failure> {
        let store = Arc::clone(self.store()?);
        if store.in_memory() && !slow {
            return task(&store, &mut self.scratch).map(Some);
        }
        let ticket = self.open_entry(to, EntryState::Elsewhere);
        let mailbox = self.mailbox();
        self.pool.run(move |scratch| {
            let result = task(&store, scratch);
            let finished = Finished::Reply(Reply { result }, None);
            mailbox.put(Done::Requests(vec![(ticket, finished)]));
        });
        Ok(None)
    }

    /// When written datafiles are to be checked next; `None` while there are none.
    pub(super) fn next_cleaning(&self) -> Option<Instant> {
        waits::tidy_after(CLEAN_EVERY)?;
        let store = self.store.as_ref()?;
        (!self.cleaning && store.has_dirty()).then_some(self.clean_at)
    }

    /// Marks idle datafiles clean when the check is due.
    pub(super) fn clean_datafiles(&mut self) {
        if self.next_cleaning().is_none_or(|at| at > self.loop_time) {
            return;
        }
        let Some(store) = self.store.clone() else {
            return;
        };
        self.cleaning = true;
        self.clean_at = Instant::now() + CLEAN_EVERY;
        let mailbox = self.mailbox();
        self.pool.run(move |_| {
            if let Err(error) = store.clean_idle(CLEAN_PATIENCE) {
                tracing::warn!(%error, "datafiles cannot be marked clean");
            }
            mailbox.put(Done::Cleaned);
        });
    }
}

fn done(result: Result<(), Fault>, doing: &str, object: ObjectId) -> Result<ReplyBody, Failure> {
    match result {
        Ok(()) => Ok(ReplyBody::Done),
        Err(fault) => Err(storage_failure(doing, object, &fault)),
    }
}

/// Carries out operators' requests to a store.
fn operate(
    store: &Store,
    operation: Operation,
    synced: bool,
    scratch: &mut Scratch,
) -> Result<ReplyBody, Failure> {
    match operation {
        Operation::Remove { objects } => remove(store, &objects, synced),
        Operation::ListData { after, limit } => list(store, after, limit),
        Operation::CheckData { datafiles } => Ok(check(store, &datafiles)),
        Operation::RemoveOrphans { objects, numbers } => {
            let first = objects.first().copied().unwrap_or(ObjectId(0));
            match store.remove_orphans(&objects, numbers) {
                Ok((deleted, moved)) => Ok(ReplyBody::OrphansRemoved { deleted, moved }),
                Err(error) => Err(storage_failure("removing", first, &error.into())),
            }
        }
        Operation::AcceptData { objects } => {
            objects.iter().for_each(|object| store.accept(*object));
            Ok(ReplyBody::Done)
        }
        Operation::Scrub { from, bytes } => scrub(store, from, bytes, scratch),
        _ => Err(failure(Errno::ENOSYS, "no operation on datafiles")),
    }
}

fn remove(store: &Store, objects: &[ObjectId], synced: bool) -> Result<ReplyBody, Failure> {
    for &object in objects {
        store
            .remove(object)
            .map_err(|error| storage_failure("removing", object, &error.into()))?;
    }
    if synced && let Some(&first) = objects.first() {
        store
            .sync_removals(objects)
            .map_err(|error| storage_failure("removing", first, &error.into()))?;
    }
    Ok(ReplyBody::Done)
}

fn list(store: &Store, after: ObjectId, limit: u32) -> Result<ReplyBody, Failure> {
    let (datafiles, end) = store
        .list(after, limit.min(MAX_LISTED) as usize)
        .map_err(|error| storage_failure("listing from", after, &error.into()))?;
    Ok(ReplyBody::Datafiles { datafiles, end })
}

fn check(store: &Store, datafiles: &[(ObjectId, u64)]) -> ReplyBody {
    let faults = datafiles
        .iter()
        .filter_map(|&(object, at_least)| {
            let fault = store.check(object, at_least).err()?;
            Some(data_fault(&Finding { object, fault }))
        })
        .take(MAX_FAULTS)
        .collect();
    ReplyBody::Faults(faults)
}

fn scrub(
    store: &Store,
    from: Option<ScrubPosition>,
    bytes: u64,
    scratch: &mut Scratch,
) -> Result<ReplyBody, Failure> {
    let from = from.unwrap_or_else(|| store.scrub_position());
    let fail = |fault: Fault| storage_failure("verifying from", from.object, &fault);
    let step: Step = store
        .scrub(from, bytes.min(MAX_SCRUB_BYTES), scratch)
        .map_err(fail)?;
    store
        .keep_scrub_position(step.next)
        .map_err(|error| fail(error.into()))?;
    Ok(ReplyBody::Scrubbed {
        next: step.next,
        bytes: step.bytes,
        datafiles: step.datafiles,
        faults: step.findings.iter().map(data_fault).collect(),
    })
}

fn data_fault(finding: &Finding) -> DataFault {
    let (offset, len) = match finding.fault {
        Fault::Damaged { offset, len } => (offset, len),
        Fault::Short { size, wanted } => (size, wanted - size.min(wanted)),
        Fault::Absent { wanted } => (0, wanted),
        _ => (0, u64::MAX),
    };
    DataFault {
        object: finding.object,
        offset,
        len,
        text: finding.fault.to_string(),
    }
}

fn storage_status(store: &Store, written: u64, read: u64, busy: u32) -> Result<ReplyBody, Failure> {
    let broken = |error: std::io::Error| {
        failure(
            Errno::EIO,
            format!("the storage's size cannot be read: {error}"),
        )
    };
    let space = store.space().map_err(broken)?;
    let aside = store.aside().map_err(broken)?;
    Ok(ReplyBody::StorageStatus {
        total: space.total,
        free: space.free,
        written,
        read,
        busy,
        aside: aside.files,
        aside_bytes: aside.bytes,
    })
}
