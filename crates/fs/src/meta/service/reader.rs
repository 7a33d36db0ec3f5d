//! Requests that change nothing, which any thread carries out at any time.

use std::sync::{Arc, RwLock};

use causeway_wire::fs::{
    Errno, Kind, Node, ObjectId, OpenHandle, Operation, Reply, ReplyBody, Request,
};

use crate::locks;
use crate::meta::check;
use crate::meta::fault::{Outcome, fail};
use crate::meta::layout::Layout;
use crate::meta::opens::{Opens, Registered};
use crate::meta::query::{Query, find_object};
use crate::meta::store::Store;

/// How often an opening looks a file up again while other files are removed.
const OPENING_TRIES: usize = 4;

/// The store; empty only while a failed one cannot be opened again.
pub(super) type Shared = Arc<RwLock<Option<Arc<dyn Store>>>>;
pub(super) type SharedLayout = Arc<RwLock<Arc<Layout>>>;

/// Serves requests that change nothing, from the last committed state. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(super) store: Shared,
    pub(super) layout: SharedLayout,
    pub(super) opens: Arc<Opens>,
}

impl Reader {
    /// The I/O servers as of the last change that was committed.
    pub fn layout(&self) -> Arc<Layout> {
        locks::read(&self.layout).clone()
    }

    /// The files that programs have open.
    pub(crate) fn opens(&self) -> &Arc<Opens> {
        &self.opens
    }

    /// The reply to a request that changes nothing; `None` if the [`Service`](crate::meta::Service) must carry out the request.
    pub fn answer(&self, request: &Request) -> Option<Reply> {
        let Some(opening) = &request.opening else {
            return self.read(request);
        };
        let reply = self.answer_opening(request)?;
        self.opens.settle([(opening.session, opening.handle)]);
        Some(reply)
    }

    fn answer_opening(&self, request: &Request) -> Option<Reply> {
        for _ in 0..OPENING_TRIES {
            let epoch = self.opens.epoch();
            let reply = self.read(request)?;
            let Ok(body) = &reply.result else {
                return Some(reply);
            };
            match register_opening(&self.opens, request, body, Some(epoch)) {
                None | Some(Registered::Done) => return Some(reply),
                Some(Registered::Full(why)) => return Some(Reply { result: Err(why) }),
                Some(Registered::Outdated) => {}
                Some(Registered::Removing) => break,
            }
        }
        // The request must be carried out in order with the changes.
        None
    }

    /// Keeps the files that a program with a connection reports as open; returns those that do not exist any more. If some cannot be kept, the
    /// others are nevertheless, and the error is that of the first one.
    pub(crate) fn keep(&self, session: u128, files: &[OpenHandle]) -> Outcome<Vec<ObjectId>> {
        let mut gone = Vec::new();
        let mut failed = None;
        for file in files {
            self.opens.begin(session, file.handle);
            match self.keep_one(session, *file) {
                Ok(true) => {}
                Ok(false) => gone.push(file.object),
                Err(failure) => failed = failed.or(Some(failure)),
            }
            self.opens.settle([(session, file.handle)]);
        }
        failed.map_or(Ok(gone), Err)
    }

    /// Returns whether the file is there.
    fn keep_one(&self, session: u128, file: OpenHandle) -> Outcome<bool> {
        loop {
            let epoch = self.opens.epoch();
            let view = current(&self.store)?.snapshot()?;
            let found = find_object(&*view, file.object)?;
            let Some(record) = found.filter(|record| record.kind() == Kind::File) else {
                return Ok(false);
            };
            let is_orphan = record.links == 0;
            match self.opens.register(session, file, is_orphan, Some(epoch)) {
                Registered::Done => return Ok(true),
                Registered::Full(why) => return Err(why),
                Registered::Removing => {
                    let text = format!("object {} is being removed", file.object.0);
                    return fail(Errno::RETRY, text);
                }
                Registered::Outdated => {}
            }
        }
    }

    fn read(&self, request: &Request) -> Option<Reply> {
        let read_only = matches!(
            request.operation,
            Operation::Lookup { .. }
                | Operation::GetNode { .. }
                | Operation::BeginAppend { .. }
                | Operation::ReadDirectory { .. }
                | Operation::MetadataStatus
                | Operation::Exist { .. }
                | Operation::ListStriped { .. }
                | Operation::Paths { .. }
                | Operation::Check { .. }
                | Operation::GetXattr { .. }
                | Operation::ListXattrs { .. }
        );
        if !read_only {
            return None;
        }
        let view = match current(&self.store).and_then(|store| Ok(store.snapshot()?)) {
            Ok(view) => view,
            Err(failure) => {
                return Some(Reply {
                    result: Err(failure),
                });
            }
        };
        let result = match &request.operation {
            // A check mostly reads. Only repairs are changes, which the service carries out.
            Operation::Check { after, repair } => {
                match check::inspect_batch(&*view, &request.caller, after.as_ref()) {
                    Ok(ReplyBody::Checked { findings, .. }) if *repair && !findings.is_empty() => {
                        return None;
                    }
                    result => result,
                }
            }
            operation => Query {
                view: &*view,
                caller: &request.caller,
            }
            .execute(operation)?,
        };
        Some(Reply { result })
    }
}

/// Registers the file that a request has opened, if it has opened one.
pub(super) fn register_opening(
    opens: &Opens,
    request: &Request,
    reply: &ReplyBody,
    epoch: Option<u64>,
) -> Option<Registered> {
    let (Some(opening), ReplyBody::Node(node)) = (&request.opening, reply) else {
        return None;
    };
    let Node {
        object, attributes, ..
    } = **node;
    let file = OpenHandle {
        handle: opening.handle,
        object,
    };
    let is_orphan = attributes.links == 0;
    (attributes.kind == Kind::File).then(|| opens.register(opening.session, file, is_orphan, epoch))
}

pub(super) fn current(shared: &Shared) -> Outcome<Arc<dyn Store>> {
    match &*locks::read(shared) {
        Some(store) => Ok(Arc::clone(store)),
        None => fail(
            Errno::EIO,
            "the metadata store failed and cannot be opened again; see the server's log",
        ),
    }
}
