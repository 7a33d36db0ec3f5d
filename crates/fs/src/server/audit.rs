//! The audit log: the caller, operation, object and outcome of requests, as structured log lines.
//!
//! A record begins when a request has come and ends with its reply. At most [`RATE`] lines are written each second on average: a
//! client must not be able to fill a disk. The first line after suppressed ones states how many these were.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use causeway_bmi::Identity;
use causeway_wire::fs::{
    Caller, Errno, Failure, Needs, ObjectId, Operation, Place, Request, Rights,
};

use crate::config::AuditLevel;

/// Lines per second.
const RATE: f64 = 200.0;
/// Lines that may be written in one burst.
const BURST: f64 = 1000.0;
/// Shortest time between two other log lines about refused requests.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Most requests whose outcome is awaited; that is more than may wait for file locks and append locks. Records of clients that disconnect before their reply stay
/// until this limit is reached.
const MOST_OPEN: usize = 16_384;

/// A request that may get a line in the log.
#[derive(Debug)]
pub(super) struct Record {
    /// Where the request came from.
    node: String,
    uid: u32,
    gid: u32,
    verb: &'static str,
    object: u64,
    name: String,
    /// The second name, of operations that have two.
    to: String,
    /// Whether a line is written also if the request succeeds.
    always: bool,
}

/// The audit of a server.
#[derive(Debug)]
pub(super) struct Audit {
    level: AuditLevel,
    /// Records by numbers of their own: clients choose their tags, which need not be unique.
    open: HashMap<u64, Record>,
    last: u64,
    /// How many lines may be written now.
    allowance: f64,
    counted: Instant,
    /// Lines that were suppressed since the last one.
    left_out: u64,
}

impl Audit {
    pub(super) fn new(level: AuditLevel, now: Instant) -> Self {
        Self {
            level,
            open: HashMap::new(),
            last: 0,
            allowance: BURST,
            counted: now,
            left_out: 0,
        }
    }

    /// Whether the audit is on.
    pub(super) fn is_on(&self) -> bool {
        self.level != AuditLevel::Off
    }

    /// Begins the record of a request, with the identity that its caller claims, and returns the record's number. `origin` is where the request came
    /// from, according to [`origin`].
    pub(super) fn begin(&mut self, origin: String, request: &Request) -> u64 {
        let (object, place) = subject(&request.operation);
        let Caller { uid, gid, .. } = request.caller;
        if self.open.len() >= MOST_OPEN {
            self.left_out += self.open.len() as u64;
            self.open.clear();
        }
        let record = Record {
            node: origin,
            uid,
            gid,
            verb: verb(&request.operation),
            object: object.0,
            name: text_of(place),
            to: text_of(second(&request.operation)),
            always: match &request.operation {
                // These requests are of no interest: one follows each recall.
                Operation::HoldLeases { .. } | Operation::EndLeases { .. } => false,
                operation => self.level == AuditLevel::All || changes(operation),
            },
        };
        self.last += 1;
        self.open.insert(self.last, record);
        self.last
    }

    /// Ends the record of a request, and logs its outcome.
    pub(super) fn end(&mut self, number: u64, failure: Option<&Failure>, now: Instant) {
        if self.open.is_empty() {
            return;
        }
        let Some(record) = self.open.remove(&number) else {
            return;
        };
        let errno = failure.map(|failure| failure.errno);
        let is_refused = errno.is_some_and(is_refusal);
        if !record.always && !is_refused {
            return;
        }
        if !self.allows_line(now) {
            self.left_out += 1;
            return;
        }
        let Record {
            node,
            uid,
            gid,
            verb,
            object,
            name,
            to,
            ..
        } = record;
        let outcome = match errno {
            None => "done".to_owned(),
            Some(errno) => errno
                .name()
                .map_or_else(|| errno.0.to_string(), str::to_owned),
        };
        let left_out = std::mem::take(&mut self.left_out);
        // In quotes: clients choose names, and no part of a name may pass for another field.
        tracing::info!(
            ?node,
            uid,
            gid,
            verb,
            object,
            ?name,
            ?to,
            outcome,
            left_out,
            "audit"
        );
    }

    fn allows_line(&mut self, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(self.counted);
        self.counted = now;
        self.allowance = (self.allowance + passed.as_secs_f64() * RATE).min(BURST);
        let allows = self.allowance >= 1.0;
        self.allowance -= f64::from(u8::from(allows));
        allows
    }
}

/// Limits log lines that clients can provoke to one a second.
#[derive(Debug, Default)]
pub(crate) struct LineLimit(Option<Instant>);

impl LineLimit {
    /// Whether a line may be written now; if so, the next one may be written a second later.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let allows = self.0.is_none_or(|last| last + REPORT_INTERVAL <= now);
        if allows {
            self.0 = Some(now);
        }
        allows
    }
}

/// Whether a request that failed with this error was refused because its caller lacks a right.
pub(super) fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::EACCES | Errno::EPERM)
}

/// Whether an operation changes names, attributes, the layout, or datafiles other than by writing: a file's owner wants to find these
/// changes in the log, and there are few of them.
fn changes(operation: &Operation) -> bool {
    match operation {
        Operation::Create { .. }
        | Operation::MakeDirectory { .. }
        | Operation::SymbolicLink { .. }
        | Operation::MakeSpecial { .. }
        | Operation::HardLink { .. }
        | Operation::Rename { .. }
        | Operation::Exchange { .. }
        | Operation::Unlink { .. }
        | Operation::RemoveDirectory { .. }
        | Operation::SetAttributes { .. }
        | Operation::Truncate { .. }
        | Operation::SetXattr { .. }
        | Operation::RemoveXattr { .. }
        | Operation::AddServer { .. }
        | Operation::AcceptServer { .. }
        | Operation::DrainServer { .. }
        | Operation::Check { repair: true, .. } => true,
        Operation::ListData { .. } | Operation::CheckData { .. } => false,
        operation => {
            let operates = [Rights::OPERATE, Rights::SERVE].map(Needs::Any);
            operates.contains(&operation.needs())
        }
    }
}

/// The object or the name that an operation is about; object 0 if it is about none.
fn subject(operation: &Operation) -> (ObjectId, Option<&Place>) {
    match operation {
        Operation::Lookup { place, .. }
        | Operation::Create { place, .. }
        | Operation::MakeDirectory { place, .. }
        | Operation::SymbolicLink { place, .. }
        | Operation::MakeSpecial { place, .. }
        | Operation::Unlink { place, .. }
        | Operation::RemoveDirectory { place, .. }
        | Operation::Rename { from: place, .. }
        | Operation::Exchange { first: place, .. } => (place.base, Some(place)),
        Operation::HardLink { object, place } => (*object, Some(place)),
        Operation::GetNode { object, .. }
        | Operation::ReadDirectory { object, .. }
        | Operation::SetAttributes { object, .. }
        | Operation::Truncate { object, .. }
        | Operation::Grow { object, .. }
        | Operation::FinishTruncate { object, .. }
        | Operation::Extend { object, .. }
        | Operation::WriteStuffed { object, .. }
        | Operation::Append { object, .. }
        | Operation::BeginAppend { object }
        | Operation::EndAppend { object, .. }
        | Operation::MovePointer { object, .. }
        | Operation::SetXattr { object, .. }
        | Operation::RemoveXattr { object, .. }
        | Operation::GetXattr { object, .. }
        | Operation::ListXattrs { object } => (*object, None),
        Operation::Remove { objects } | Operation::RemoveOrphans { objects, .. } => {
            (objects.first().copied().unwrap_or(ObjectId(0)), None)
        }
        operation => match operation.needs() {
            Needs::Object(object, _) => (object, None),
            Needs::Any(_) | Needs::Operator | Needs::Nothing => (ObjectId(0), None),
        },
    }
}

/// The second name of an operation that has two.
fn second(operation: &Operation) -> Option<&Place> {
    match operation {
        Operation::Rename { to: place, .. } | Operation::Exchange { second: place, .. } => {
            Some(place)
        }
        _ => None,
    }
}

/// The path of a place, as far as it is text.
fn text_of(place: Option<&Place>) -> String {
    place.map_or_else(String::new, |place| {
        String::from_utf8_lossy(&place.path).into_owned()
    })
}

/// The origin of a request, as far as the connection proves it, whatever the request claims: the process of this host or the address at the other
/// end, the node, and the user to whom the connection is restricted, if it is not a key holder's.
pub(super) fn origin(
    identity: Option<Identity>,
    address: impl FnOnce() -> Option<String>,
    node: Option<&str>,
) -> String {
    let mut origin = match identity {
        Some(Identity::Local { pid, uid, .. }) => format!("here, process {pid} of user {uid}"),
        _ => address().unwrap_or_default(),
    };
    if let Some(node) = node {
        origin.push_str(&format!(", node {node}"));
    }
    match identity {
        Some(Identity::OneUser { uid, .. }) => {
            origin.push_str(&format!(", whose agent speaks for user {uid}"));
        }
        Some(Identity::SocketOf { uid, .. }) => {
            origin.push_str(&format!(", by a socket of user {uid}"));
        }
        Some(Identity::Keyed | Identity::Local { .. }) | None => {}
    }
    origin
}

/// The name of an operation in a line of the log.
fn verb(operation: &Operation) -> &'static str {
    match operation {
        Operation::Lookup { .. } => "lookup",
        Operation::GetNode { .. } => "stat",
        Operation::Create { .. } => "create",
        Operation::MakeDirectory { .. } => "mkdir",
        Operation::SymbolicLink { .. } => "symlink",
        Operation::MakeSpecial { .. } => "mknod",
        Operation::HardLink { .. } => "link",
        Operation::Rename { .. } => "rename",
        Operation::Exchange { .. } => "exchange",
        Operation::Unlink { .. } => "unlink",
        Operation::RemoveDirectory { .. } => "rmdir",
        Operation::ReadDirectory { .. } => "readdir",
        Operation::SetAttributes { .. } => "setattr",
        Operation::Truncate { .. } | Operation::Grow { .. } => "truncate",
        Operation::Append { .. }
        | Operation::BeginAppend { .. }
        | Operation::EndAppend { .. }
        | Operation::CancelAppend { .. }
        | Operation::CheckAppendLock { .. } => "append",
        Operation::MovePointer { .. } => "move pointer",
        Operation::Extend { .. } | Operation::WriteStuffed { .. } => "write",
        Operation::SetXattr { .. } => "setxattr",
        Operation::RemoveXattr { .. } => "removexattr",
        Operation::GetXattr { .. } => "getxattr",
        Operation::ListXattrs { .. } => "listxattr",
        Operation::AddServer { .. } => "add server",
        Operation::AcceptServer { .. } => "accept server",
        Operation::DrainServer { .. } => "drain server",
        Operation::Lock { .. } | Operation::TestLock { .. } => "lock",
        Operation::Unlock { .. } | Operation::CancelLock { .. } => "unlock",
        Operation::Read { .. } => "read data",
        Operation::Write { .. } | Operation::Seed { .. } => "write data",
        Operation::TruncateData { .. } => "truncate data",
        Operation::PunchData { .. } => "punch data",
        Operation::ReserveData { .. } => "reserve data",
        Operation::Flush { .. } => "flush data",
        Operation::Remove { .. } | Operation::RemoveOrphans { .. } => "remove data",
        Operation::AcceptData { .. } => "accept data",
        Operation::Scrub { .. } => "scrub",
        Operation::Check { .. } => "check",
        Operation::Enroll { .. } => "enroll",
        Operation::EndCapabilities { .. } => "end capabilities",
        Operation::Authorize => "authorize",
        Operation::HoldLeases { .. } | Operation::EndLeases { .. } => "leases",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_limit_and_come_again_with_time() {
        let start = Instant::now();
        let mut audit = Audit::new(AuditLevel::All, start);
        let count = |audit: &mut Audit, now, tries: usize| {
            (0..tries).filter(|_| audit.allows_line(now)).count()
        };
        assert_eq!(count(&mut audit, start, 5000), BURST as usize);
        let later = start + Duration::from_secs(2);
        assert_eq!(count(&mut audit, later, 5000), 2 * RATE as usize);
    }

    #[test]
    fn refused_requests_do_not_fill_the_log() {
        let start = Instant::now();
        let mut limit = LineLimit::default();
        let allowed = (0..5000).filter(|_| limit.allows(start)).count();
        assert_eq!(allowed, 1);
        assert!(limit.allows(start + REPORT_INTERVAL));
    }

    fn request(operation: Operation) -> Request {
        Request {
            reply_tag: 0,
            target: Default::default(),
            client: 0,
            slot: 0,
            sequence: 0,
            caller: Caller::default(),
            capability: None,
            opening: None,
            holder: None,
            operation,
        }
    }

    #[test]
    fn replies_to_recalls_take_no_lines_from_requests() {
        let mut audit = Audit::new(AuditLevel::All, Instant::now());
        let (holder, object) = (1, ObjectId(1));
        let leases = Operation::HoldLeases {
            holder,
            recalls: 1,
            ended: 0,
        };
        let end = Operation::EndLeases { holder };
        let stat = Operation::GetNode {
            object,
            content: false,
        };
        for (operation, expected) in [
            (leases, ("leases", false)),
            (end, ("leases", false)),
            (stat, ("stat", true)),
        ] {
            let number = audit.begin(String::new(), &request(operation));
            let record = &audit.open[&number];
            assert_eq!((record.verb, record.always), expected);
        }
    }

    #[test]
    fn operations_on_two_names_are_noted_with_both() {
        let place = |path: &[u8]| Place::from(path);
        let (from, to) = (place(b"/old\n"), place(b"/new"));
        let (first, second) = (from.clone(), to.clone());
        let no_replace = false;
        for operation in [
            Operation::Rename {
                from,
                to,
                no_replace,
            },
            Operation::Exchange { first, second },
        ] {
            let mut audit = Audit::new(AuditLevel::Changes, Instant::now());
            let number = audit.begin(String::new(), &request(operation));
            let record = &audit.open[&number];
            let names = [record.name.as_str(), record.to.as_str()];
            assert_eq!(names, ["/old\n", "/new"], "{record:?}");
        }
    }

    #[test]
    fn a_request_comes_from_where_its_connection_proves() {
        let here = || Some("tcp://127.0.0.1:5".to_owned());
        let (pid, uid, gid) = (7, 1234, 5);
        for (identity, node, expected) in [
            (
                Identity::Local { pid, uid, gid },
                Some("m"),
                "here, process 7 of user 1234, node m",
            ),
            (
                Identity::OneUser { uid, gid },
                Some("laptop"),
                "tcp://127.0.0.1:5, node laptop, whose agent speaks for user 1234",
            ),
            (
                Identity::SocketOf { pid, uid, gid },
                None,
                "tcp://127.0.0.1:5, by a socket of user 1234",
            ),
            (Identity::Keyed, None, "tcp://127.0.0.1:5"),
        ] {
            assert_eq!(origin(Some(identity), here, node), expected);
        }
    }

    #[test]
    fn changes_are_what_alters_names_attributes_and_datafiles() {
        let object = ObjectId(1);
        assert!(changes(&Operation::Truncate { object, size: 0 }));
        assert!(changes(&Operation::Remove { objects: vec![] }));
        assert!(!changes(&Operation::StoredData { object }));
        assert!(!changes(&Operation::GetNode {
            object,
            content: false
        }));
    }
}
