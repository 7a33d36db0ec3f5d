//! Servers that send false replies to clients, for every operation: a call ends with an error that says so, or, if the client
//! cannot know better, with the content of the reply; the client never panics, and works again once replies are true.

use std::sync::atomic::{AtomicUsize, Ordering};

use causeway_fs::client::{
    Allocation, AppendLockWait, Client, ClientOptions, CreateOptions, File, LockOwner,
};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{
    CheckCursor, DataFault, Lock, LockFamily, LockHolder, LockRange, ObjectPath, ScrubPosition,
    SetAttributes, SetXattrMode,
};

use super::samples::{kind_of, samples, xattr_names};
use super::*;

mod holder;
mod single;

/// What a client does that sends the operation, and what the server replies to others for that.
struct ClientCall {
    ask: fn(&mut Client) -> Result<(), causeway_fs::Error>,
    /// Replies to other operations until this one has come; the correct ones where this returns none.
    other_replies: fn(&Operation) -> Option<Response>,
    check: ReplyCheck,
    /// Kinds of replies that fit beside that of the correct one.
    fits: &'static [&'static str],
    /// Replies of the right kind that are impossible.
    lies: &'static [Lie],
}

type Lie = (&'static str, fn(&mut ReplyBody));

/// Who hears of the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplyCheck {
    /// The call fails if the reply does not fit the request.
    Fails,
    /// The call has another reason to fail, or a thread sends the request.
    NotReported,
    /// It is sent when the client ends.
    AtDisconnect,
}

/// Who sends an operation.
enum Sender {
    Client(ClientCall),
    /// The thread of a program that waits for recalls of its leases: see `holder`.
    Holder,
    /// Servers alone do, to each other: clients have no call for it.
    Servers,
    /// Clients that reach the server over shared memory, as these do not. A false reply costs them time: `open_datafile` in the client's tests.
    ClientsOnHost,
}

const fn checked(
    ask: fn(&mut Client) -> Result<(), causeway_fs::Error>,
    lies: &'static [Lie],
) -> Sender {
    Sender::Client(ClientCall {
        ask,
        other_replies: |_| None,
        check: ReplyCheck::Fails,
        fits: &[],
        lies,
    })
}

const fn unchecked(
    check: ReplyCheck,
    ask: fn(&mut Client) -> Result<(), causeway_fs::Error>,
    other_replies: fn(&Operation) -> Option<Response>,
) -> Sender {
    Sender::Client(ClientCall {
        ask,
        other_replies,
        check,
        fits: &[],
        lies: &[],
    })
}

/// The reply may be a node, whose mode goes with an access control list.
const fn changes_acl(ask: fn(&mut Client) -> Result<(), causeway_fs::Error>) -> Sender {
    Sender::Client(ClientCall {
        ask,
        other_replies: |_| None,
        check: ReplyCheck::Fails,
        fits: &["Node"],
        lies: &[],
    })
}

/// Every operation, once: one that is added does not compile before it is here.
macro_rules! operations {
    ($($operation:ident: $sender:expr;)*) => {
        fn name_of(operation: &Operation) -> &'static str {
            match operation { $(Operation::$operation { .. } => stringify!($operation),)* }
        }

        fn all() -> Vec<(&'static str, Sender)> {
            vec![$((stringify!($operation), $sender),)*]
        }
    };
}

const OTHER_OBJECT: Lie = ("another object", |reply| {
    node_in(reply).object = ObjectId(77);
});
const HUGE: Lie = ("a size of 2^63", |reply| {
    node_in(reply).attributes.size = 1 << 63;
});
const TWO_KINDS: Lie = ("two kinds at once", |reply| {
    node_in(reply).attributes.kind = Kind::Socket;
});
const A_FILE: Lie = ("a file", |reply| {
    *reply = ReplyBody::Node(Box::new(node(FILE).expect("a file")));
});
const A_DIRECTORY: Lie = ("a directory", |reply| {
    *reply = ReplyBody::Node(Box::new(node(DIRECTORY).expect("a directory")));
});
/// Of a description of a file that was asked for by its number.
const OF_FILE: &[Lie] = &[OTHER_OBJECT, HUGE, TWO_KINDS];
const COUNTS: &[Lie] = &[
    ("more bytes", |reply| bytes_in(reply, |bytes| bytes + 1)),
    ("fewer bytes", |reply| bytes_in(reply, |bytes| bytes - 1)),
    ("2^64 - 1 bytes", |reply| bytes_in(reply, |_| u64::MAX)),
];

operations! {
    Lookup: checked(|client| client.stat(b"/f", true).map(drop), &[HUGE, TWO_KINDS]);
    GetNode: checked(|client| client.stat_object(FILE).map(drop), OF_FILE);
    Create: checked(
        |client| client.create(b"/n", &CreateOptions::default()).map(drop),
        &[A_DIRECTORY, HUGE],
    );
    MakeDirectory: checked(|client| client.make_directory(b"/n", 0o755, None).map(drop), &[A_FILE]);
    SymbolicLink: checked(|client| client.symbolic_link(b"f", b"/n").map(drop), &[A_FILE]);
    MakeSpecial: checked(
        |client| client.make_special(b"/n", Kind::Fifo, 0o600, 0).map(drop),
        &[A_FILE],
    );
    HardLink: checked(|client| client.hard_link_object(FILE, b"/n").map(drop), OF_FILE);
    Rename: checked(|client| client.rename(b"/f", b"/n", false), &[]);
    Exchange: checked(|client| client.exchange(b"/f", b"/d"), &[]);
    Unlink: checked(|client| client.unlink(b"/f"), &[]);
    RemoveDirectory: checked(|client| client.remove_directory(b"/d"), &[]);
    ReadDirectory: checked(
        |client| client.read_directory(ObjectId::ROOT, b"", 3, true).map(drop),
        LISTINGS,
    );
    SetAttributes: checked(
        |client| client.set_attributes(FILE, SetAttributes::default()).map(drop),
        OF_FILE,
    );
    Grow: checked(|client| allocate(client, FILE, Allocation::Reserve), OF_FILE);
    Truncate: checked(truncate, OF_FILE);
    FinishTruncate: checked(truncate, OF_FILE);
    Extend: checked(|client| write(client, FILE), OF_FILE);
    Filled: checked(|client| write_and_sync(client, SPARSE), OF_FILE);
    WriteStuffed: checked(|client| write(client, SMALL), OF_FILE);
    BeginUnstuff: checked(
        |client| allocate(client, SMALL, Allocation::Punch),
        &[
            OTHER_OBJECT,
            ("no content", |reply| *content_in(reply) = None),
            ("less content", |reply| *content_in(reply) = Some(b"smal".to_vec())),
        ],
    );
    FinishUnstuff: checked(|client| allocate(client, SMALL, Allocation::Punch), OF_FILE);
    SetXattr: changes_acl(|client| client.set_xattr(FILE, b"user.a", b"v", SetXattrMode::Any));
    RemoveXattr: changes_acl(|client| client.remove_xattr(FILE, b"user.a"));
    GetXattr: checked(|client| client.xattr(FILE, b"user.a").map(drop), &[]);
    ListXattrs: checked(
        |client| client.xattrs(FILE).map(drop),
        &[
            ("an empty name", |reply| *reply = xattr_names(b"")),
            ("a name with NUL", |reply| *reply = xattr_names(b"user.a\0user.b")),
        ],
    );
    Commit: checked(|client| client.commit(), &[]);
    MetadataStatus: checked(|client| client.metadata_status().map(drop), &[]);
    Exist: checked(
        |client| client.orphans(0, ObjectId(0)).map(drop),
        &[("an object that was not asked for", |reply| {
            *reply = ReplyBody::Objects(vec![FILE, SMALL]);
        })],
    );
    Check: checked(
        |client| {
            let after = CheckCursor { phase: b'e', key: vec![1] };
            client.check_metadata(Some(&after), false).map(drop)
        },
        &[("the same cursor again", |reply| {
            if let ReplyBody::Checked { next, .. } = reply {
                *next = Some(CheckCursor { phase: b'e', key: vec![1] });
            }
        })],
    );
    AddServer: checked(|client| client.add_server("all"), &[]);
    DrainServer: checked(|client| client.drain_server("all"), &[]);
    AcceptServer: checked(|client| client.accept_server("all", Generation(7)), &[]);
    EndSession: unchecked(ReplyCheck::AtDisconnect, |client| client.rename(b"/f", b"/n", false), |_| None);
    Authorize: unchecked(ReplyCheck::NotReported, |client| client.remove_datafiles(0, vec![FILE]), |_| None);
    EndCapabilities: Sender::Servers;
    Append: checked(
        |client| append(client, SMALL),
        &[OTHER_OBJECT, ("an end in front of what was appended", |reply| {
            node_in(reply).attributes.size = 1;
        })],
    );
    BeginAppend: checked(|client| append(client, FILE), OF_FILE);
    EndAppend: checked(|client| append(client, FILE), OF_FILE);
    CancelAppend: unchecked(ReplyCheck::NotReported, |client| append(client, FILE), |operation| {
        matches!(operation, Operation::EndAppend { .. }).then_some(Response::Fail(Errno::EIO))
    });
    CheckAppendLock: checked(access, &[]);
    MovePointer: checked(
        |client| client.move_pointer(FILE, 1, PointerStep::Put(5)).map(drop),
        &[("a place where it was not put", |reply| *reply = ReplyBody::Pointer(6))],
    );
    Lock: checked(|client| client.locks().try_lock(&LOCK), &[]);
    Unlock: checked(unlock, &[]);
    TestLock: checked(
        |client| client.locks().test(&LOCK).map(drop),
        &[("a lock on other bytes", |reply| {
            let range = LockRange { first: 100, last: 200 };
            let holder = Some(LockHolder { exclusive: true, range, pid: 1 });
            *reply = ReplyBody::LockHolder { holder };
        })],
    );
    CancelLock: unchecked(ReplyCheck::NotReported, cancel, |operation| {
        matches!(operation, Operation::Lock { .. }).then_some(Response::Reply(ReplyBody::LockWaits))
    });
    CloseFiles: unchecked(ReplyCheck::NotReported, hold, |_| None);
    KeepFiles: unchecked(ReplyCheck::NotReported, hold, |_| None);
    HoldLeases: Sender::Holder;
    EndLeases: Sender::Holder;
    ListStriped: checked(
        |client| client.check_striped(ObjectId(1)).map(drop),
        &[
            ("one that was listed before", |reply| striped_in(reply)[0].object = ObjectId(1)),
            ("one twice", |reply| {
                let files = striped_in(reply);
                files.push(files[0].clone());
            }),
            ("none, and more behind them", |reply| {
                *reply = ReplyBody::StripedFiles { files: Vec::new(), end: false };
            }),
            ("more than were asked for", |reply| {
                let file = |number| StripedFile {
                    object: ObjectId(number),
                    servers: vec![0],
                    lengths: Vec::new(),
                };
                *striped_in(reply) = (2..1000).map(file).collect();
            }),
            ("a server that there is not", |reply| striped_in(reply)[0].servers = vec![77]),
        ],
    );
    Paths: checked(
        |client| client.paths(vec![FILE]).map(drop),
        &[("one that was not asked for", |reply| {
            let path = b"/d/x".to_vec();
            *reply = ReplyBody::Paths(vec![ObjectPath { object: SMALL, path }]);
        })],
    );
    Read: checked(read, COUNTS);
    FindDescriptor: Sender::ClientsOnHost;
    FindData: checked(
        |client| client.next_data(&mut open(FILE), 10).map(drop),
        &[
            ("data in front of the offset", |reply| first_in(reply).offset = 0),
            ("no bytes of data", |reply| first_in(reply).len = 0),
        ],
    );
    Write: checked(|client| write(client, FILE), COUNTS);
    Seed: checked(|client| allocate(client, SMALL, Allocation::Punch), &[]);
    TruncateData: checked(truncate, &[]);
    PunchData: checked(
        |client| allocate(client, FILE, Allocation::Punch),
        &[
            ("no progress", |reply| *reply = ReplyBody::Punched { next: Some(0) }),
            ("more than was asked for", |reply| {
                *reply = ReplyBody::Punched { next: Some(u64::MAX) };
            }),
        ],
    );
    ReserveData: checked(|client| allocate(client, FILE, Allocation::Reserve), &[]);
    StoredData: checked(
        |client| client.stored_bytes(&open(SPARSE).node).map(drop),
        &[("more than a file can have", |reply| {
            *reply = ReplyBody::Stored(u64::MAX);
        })],
    );
    Flush: checked(|client| client.fsync(&mut open(FILE)), &[]);
    Remove: checked(|client| client.remove_datafiles(0, vec![FILE]), &[]);
    Clock: unchecked(ReplyCheck::NotReported, |client| write(client, FILE), |operation| {
        matches!(operation, Operation::Write { .. }).then_some(Response::Fail(Errno::REVOKED))
    });
    ListData: checked(
        |client| client.orphans(0, ObjectId(1)).map(drop),
        &[
            ("one that was listed before", |reply| datafiles_in(reply)[0].0 = ObjectId(1)),
            ("none, and more behind them", |reply| {
                *reply = ReplyBody::Datafiles { datafiles: Vec::new(), end: false };
            }),
            ("more than were asked for", |reply| {
                *datafiles_in(reply) = (2..1000).map(|number| (ObjectId(number), 1)).collect();
            }),
        ],
    );
    CheckData: checked(
        |client| client.check_striped(ObjectId(0)).map(drop),
        &[("a fault of another object", |reply| {
            *reply = ReplyBody::Faults(vec![DataFault {
                object: SMALL,
                offset: 0,
                len: 1,
                text: "lost".to_owned(),
            }]);
        })],
    );
    RemoveOrphans: checked(
        |client| client.remove_orphans(0, vec![FILE], 9).map(drop),
        &[("more than were asked for", |reply| {
            *reply = ReplyBody::OrphansRemoved { deleted: u64::MAX, moved: u64::MAX };
        })],
    );
    Scrub: checked(
        |client| client.scrub(0, Some(POSITION), 1 << 20).map(drop),
        &[
            ("no progress", |reply| {
                if let ReplyBody::Scrubbed { next, .. } = reply {
                    *next = Some(POSITION);
                }
            }),
            ("more bytes than can be read", |reply| {
                if let ReplyBody::Scrubbed { bytes, .. } = reply {
                    *bytes = u64::MAX;
                }
            }),
        ],
    );
    AcceptData: checked(|client| client.accept_data(0, vec![FILE]), &[]);
    StorageStatus: checked(|client| client.storage_status(0).map(drop), &[]);
    Enroll: Sender::Servers;
    Hello: checked(|client| client.layout().map(drop), &[
        ("another file system", |reply| greeting_in(reply).identity.file_system = 1),
        ("no layout", |reply| greeting_in(reply).layout = None),
        ("a layout without an end", |reply| {
            if let Some(layout) = &mut greeting_in(reply).layout {
                layout.count = u32::MAX;
            }
        }),
    ]);
}

const LISTINGS: &[Lie] = &[
    ("more than were asked for", |reply| {
        *entries_in(reply) = [b"a", b"b", b"c", b"d"]
            .map(|name| entry(name, FILE))
            .into();
    }),
    ("a name twice", |reply| {
        *entries_in(reply) = [b"a", b"a"].map(|name| entry(name, FILE)).into();
    }),
    ("a way out", |reply| {
        entries_in(reply)[0].name = b"..".to_vec()
    }),
    ("a path", |reply| {
        entries_in(reply)[0].name = b"a/b".to_vec()
    }),
    ("a name with NUL", |reply| {
        entries_in(reply)[0].name = b"a\0".to_vec();
    }),
    ("none, and more behind them", |reply| {
        *reply = ReplyBody::Entries {
            entries: Vec::new(),
            end: false,
        };
    }),
    ("a size of 2^63", |reply| {
        let mut large = entry(b"f", FILE);
        if let Some(attributes) = &mut large.attributes {
            attributes.size = 1 << 63;
        }
        *entries_in(reply) = vec![large];
    }),
];

const POSITION: ScrubPosition = ScrubPosition {
    object: FILE,
    offset: 5,
};

const LOCK: Lock = Lock {
    object: FILE,
    family: LockFamily::Record,
    owner: 1,
    exclusive: true,
    range: LockRange { first: 0, last: 9 },
    pid: 1,
};

macro_rules! within {
    ($($name:ident: $pattern:pat => $found:expr, $type:ty;)*) => {
        $(
            fn $name(reply: &mut ReplyBody) -> &mut $type {
                match reply {
                    $pattern => $found,
                    other => panic!("not the correct reply: {other:?}"),
                }
            }
        )*
    };
}

within! {
    node_in: ReplyBody::Node(node) | ReplyBody::AppendLock { node, .. } => node, Node;
    entries_in: ReplyBody::Entries { entries, .. } => entries, Vec<Entry>;
    striped_in: ReplyBody::StripedFiles { files, .. } => files, Vec<StripedFile>;
    datafiles_in: ReplyBody::Datafiles { datafiles, .. } => datafiles, Vec<(ObjectId, u64)>;
    greeting_in: ReplyBody::Hello(greeting) => greeting, Greeting;
    first_in: ReplyBody::Data { first: Some(first) } => first, Region;
}

fn content_in(reply: &mut ReplyBody) -> &mut Option<Vec<u8>> {
    match &mut node_in(reply).body {
        Body::Stuffed { content, .. } => content,
        other => panic!("not a small file: {other:?}"),
    }
}

fn bytes_in(reply: &mut ReplyBody, change: fn(u64) -> u64) {
    match reply {
        ReplyBody::Transferred { bytes, .. } => *bytes = change(*bytes),
        other => panic!("not a transfer: {other:?}"),
    }
}

fn open(object: ObjectId) -> File {
    File::new(node(object).expect("an object of the tree"))
}

/// No byte is one that the memory had before: each is what the server has sent, or zero.
fn read(client: &mut Client) -> Result<(), causeway_fs::Error> {
    const BEFORE: u8 = 7;
    let mut bytes = vec![BEFORE; FILE_BYTES as usize];
    let count = client.read_at(&mut open(FILE), 0, &mut bytes)?;
    assert_eq!(bytes[..count].iter().position(|byte| *byte == BEFORE), None);
    Ok(())
}

fn write(client: &mut Client, object: ObjectId) -> Result<(), causeway_fs::Error> {
    client.write_at(&mut open(object), 0, b"new")
}

fn write_and_sync(client: &mut Client, object: ObjectId) -> Result<(), causeway_fs::Error> {
    let mut file = open(object);
    client.write_at(&mut file, 0, b"new")?;
    client.fsync(&mut file)
}

fn append(client: &mut Client, object: ObjectId) -> Result<(), causeway_fs::Error> {
    client.append(&mut open(object), b"more").map(drop)
}

/// Nothing, in turn.
fn access(client: &mut Client) -> Result<(), causeway_fs::Error> {
    let file = &mut open(FILE);
    let mut wait = AppendLockWait::default();
    // Ends with a server that has the client ask again for ever, too.
    let access = loop {
        if let Some(access) = client.begin_atomic(file, &mut wait)? {
            break access;
        }
    };
    client.end_atomic(file, access)
}

fn truncate(client: &mut Client) -> Result<(), causeway_fs::Error> {
    client.truncate(&mut open(FILE), 10)
}

fn allocate(
    client: &mut Client,
    object: ObjectId,
    what: Allocation,
) -> Result<(), causeway_fs::Error> {
    let part = Region { offset: 0, len: 5 };
    client.allocate_part(&mut open(object), part, what, false)
}

fn unlock(client: &mut Client) -> Result<(), causeway_fs::Error> {
    let owner = LockOwner {
        object: FILE,
        family: LOCK.family,
        number: LOCK.owner,
    };
    client.locks().unlock(owner, LOCK.range)
}

fn cancel(client: &mut Client) -> Result<(), causeway_fs::Error> {
    client.locks().start(&LOCK).cancel();
    Ok(())
}

fn hold(client: &mut Client) -> Result<(), causeway_fs::Error> {
    client.open_object_held(FILE).map(drop)
}

/// Makes a lie of the correct reply.
type Change = Box<dyn Fn(&ReplyBody) -> Response + Send>;

/// A server, and its lie about one operation.
struct Stand {
    _directory: tempfile::TempDir,
    server: ScriptedServer,
    lie: Arc<Mutex<Change>>,
    /// Replies to the operation.
    replies: Arc<AtomicUsize>,
    /// Requests to hold leases.
    holders: Arc<AtomicUsize>,
}

impl Stand {
    fn new(name: &'static str, other_replies: fn(&Operation) -> Option<Response>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let truth: Change = Box::new(|_| Response::Honest);
        let lie = Arc::new(Mutex::new(truth));
        let replies = Arc::new(AtomicUsize::new(0));
        let (told, seen) = (Arc::clone(&lie), Arc::clone(&replies));
        let holders = Arc::new(AtomicUsize::new(0));
        let held = Arc::clone(&holders);
        let script = move |operation: &Operation, honest: &ReplyBody| {
            if matches!(operation, Operation::HoldLeases { .. }) {
                held.fetch_add(1, Ordering::SeqCst);
            }
            if name_of(operation) != name {
                let is_over = seen.load(Ordering::SeqCst) > 0;
                let other = other_replies(operation).filter(|_| !is_over);
                return other.unwrap_or(Response::Honest);
            }
            seen.fetch_add(1, Ordering::SeqCst);
            (told.lock().unwrap())(honest)
        };
        let server = ScriptedServer::start(directory.path(), Box::new(script));
        Self {
            _directory: directory,
            server,
            lie,
            replies,
            holders,
        }
    }

    /// Of clients whose calls that get no reply end after this.
    fn configuration(&self, timeout: Duration) -> Configuration {
        let mut configuration = Configuration::load(self.server.config()).unwrap();
        configuration.timeout = timeout;
        configuration
    }

    fn client(&self, timeout: Duration) -> Client {
        Client::connect(&self.configuration(timeout), ClientOptions::default()).unwrap()
    }

    fn set_lie(&self, lie: Change) {
        *self.lie.lock().unwrap() = lie;
        self.replies.store(0, Ordering::SeqCst);
    }

    /// Waits until the operation has come.
    fn wait_until_seen(&self, what: &str) {
        wait_until(what, || self.is_seen());
    }

    /// The outcome of the call, once the server has replied to the operation, which the client or one of its threads may send behind the call.
    /// A client that is lied to then works with the truth.
    fn outcome(
        &self,
        what: &str,
        asked: &ClientCall,
        client: &mut Option<Client>,
    ) -> Result<(), causeway_fs::Error> {
        let mut used = client.take().unwrap_or_else(|| self.client(PATIENT));
        let outcome = (asked.ask)(&mut used);
        match asked.check {
            ReplyCheck::Fails => *client = Some(used),
            ReplyCheck::NotReported => {
                self.wait_until_seen(what);
                self.set_lie(Box::new(|_| Response::Honest));
                for worked in [
                    used.stat(b"/f", true).map(drop),
                    used.locks().test(&LOCK).map(drop),
                ] {
                    worked.unwrap_or_else(|error| panic!("{what}: it does not go on: {error:?}"));
                }
            }
            ReplyCheck::AtDisconnect => drop(used),
        }
        if asked.check != ReplyCheck::NotReported {
            self.wait_until_seen(what);
        }
        outcome
    }

    fn is_seen(&self) -> bool {
        self.replies.load(Ordering::SeqCst) > 0
    }
}

/// For calls that have a reply to wait for.
const PATIENT: Duration = Duration::from_secs(60);
/// For calls that may get none, or be refused again and again.
const BRIEF: Duration = Duration::from_millis(100);

/// Places in a reply that are overwritten, one after the other.
const PLACES: usize = 8;

/// Waits for a request; for as long as the limit only if the test fails.
fn wait_until(what: &str, is_seen: impl Fn() -> bool) {
    let limit = std::time::Instant::now() + PATIENT;
    while !is_seen() {
        assert!(std::time::Instant::now() < limit, "{what}: it was not sent");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A lie with a name.
fn lie(
    what: impl Into<String>,
    change: impl Fn(&ReplyBody) -> Response + Send + 'static,
) -> (String, Change) {
    (what.into(), Box::new(change))
}

/// Replies that do not fit, none of which a call may take.
fn misfits(asked: &ClientCall, honest: &ReplyBody) -> Vec<(String, Change)> {
    let others = samples().into_iter();
    let others = others.filter(|sample| {
        let kind = kind_of(sample);
        kind != kind_of(honest) && !asked.fits.contains(&kind)
    });
    let mut lies: Vec<(String, Change)> = others
        .map(|sample| lie(kind_of(&sample), move |_| Response::Reply(sample.clone())))
        .collect();
    lies.extend(asked.lies.iter().map(|&(what, change)| {
        lie(what, move |honest| {
            let mut reply = honest.clone();
            change(&mut reply);
            Response::Reply(reply)
        })
    }));
    let whole = encoded(honest).len();
    lies.extend([0, 1, whole / 2, whole - 1].map(|len| {
        lie(format!("{len} of {whole} bytes"), move |honest| {
            let mut bytes = encoded(honest);
            bytes.truncate(len);
            Response::Bytes(bytes)
        })
    }));
    lies.extend(NO_ERRORS.map(|number| {
        let what = format!("error {number}");
        lie(what, move |_| Response::Fail(Errno(number)))
    }));
    lies.push(lie("a byte behind the reply", |honest| {
        Response::Bytes([encoded(honest), vec![0]].concat())
    }));
    lies
}

fn encoded(reply: &ReplyBody) -> Vec<u8> {
    let result = Ok(reply.clone());
    Reply { result }.to_bytes(FORMATS.highest)
}

/// Numbers that are no error's.
const NO_ERRORS: [u16; 4] = [0, 134, 511, 1000];

/// Errors that clients may take for something else than a failure, and some that they pass on, among them those that only a server's disk reports.
fn errors(name: &str) -> Vec<Errno> {
    let passed_on = |errno: &Errno| errno.0 > 1000 || name == "GetNode";
    let listed = Errno::ALL.iter().copied().filter(passed_on);
    let others = [Errno::EAGAIN, Errno::EEXIST, Errno::ESTALE, Errno::EPROTO];
    let unlisted = [74, 117, 1999, u16::MAX].map(Errno);
    listed.chain(others).chain(unlisted).collect()
}

/// Replies by which a call may fail or not, but must end.
fn disturbances(name: &str, honest: &ReplyBody) -> Vec<(String, Change)> {
    let mut lies = vec![lie("another tag", |_| Response::WrongTag)];
    lies.extend(errors(name).into_iter().map(|errno| {
        let what = format!("error {}", errno.0);
        lie(what, move |_| Response::Fail(errno))
    }));
    let len = encoded(honest).len();
    let places = (0..len).step_by((len / PLACES).max(1));
    lies.extend(places.map(|at| {
        lie(format!("ones from byte {at} on"), move |honest| {
            let mut bytes = encoded(honest);
            let end = bytes.len().min(at + 8);
            bytes[at..end].fill(0xff);
            Response::Bytes(bytes)
        })
    }));
    lies
}

/// The error of a false reply can be passed to programs: it has an error number of Linux, and a text that does
/// not control a terminal.
fn check_error(what: &str, error: &causeway_fs::Error) {
    let number = error.system_number();
    assert!((1..134).contains(&number), "{what}: {error:?}");
    assert!(
        !error.text().contains(char::is_control),
        "{what}: {error:?}"
    );
    assert!(!error.message.is_empty(), "{what}: {error:?}");
}

fn check(name: &'static str, asked: &ClientCall) {
    let stand = Stand::new(name, asked.other_replies);
    let honest: Arc<Mutex<Option<ReplyBody>>> = Arc::default();
    let seen = Arc::clone(&honest);
    stand.set_lie(Box::new(move |reply| {
        *seen.lock().unwrap() = Some(reply.clone());
        Response::Honest
    }));
    // One client gets all false replies, if it is its call that ends by them.
    let mut client = None;
    let outcome = stand.outcome(name, asked, &mut client);
    let is_told = asked.check == ReplyCheck::Fails;
    assert!(
        outcome.is_ok() || !is_told,
        "{name}: the truth: {outcome:?}"
    );
    let honest = honest.lock().unwrap().take();
    let honest = honest.unwrap_or_else(|| panic!("{name}: it was not sent: {outcome:?}"));
    for (what, lie) in misfits(asked, &honest) {
        stand.set_lie(lie);
        let what = format!("{name}: {what}");
        let outcome = stand.outcome(&what, asked, &mut client);
        if !is_told {
            continue;
        }
        let error = outcome.expect_err(&what);
        assert_ne!(error.errno, Errno::ETIMEDOUT, "{what}: {error:?}");
        check_error(&what, &error);
    }
    let mut hasty = stand.client(BRIEF);
    for (what, lie) in disturbances(name, &honest) {
        stand.set_lie(lie);
        let what = format!("{name}: {what}");
        if let Err(error) = (asked.ask)(&mut hasty) {
            check_error(&what, &error);
        }
    }
    stand.set_lie(Box::new(|_| Response::Silence));
    let outcome = (asked.ask)(&mut hasty);
    assert!(outcome.is_err() || !is_told, "{name}: no reply");
    // After all of that, the truth is understood.
    stand.set_lie(Box::new(|_| Response::Honest));
    let outcome = stand.outcome(name, asked, &mut client);
    assert!(
        outcome.is_ok() || !is_told,
        "{name}: the truth after a lie: {outcome:?}"
    );
}

/// Threads that check operations; most of the time goes with waiting.
const THREADS: usize = 24;

#[test]
fn no_reply_to_any_operation_misleads_a_client_that_can_know_better() {
    let left = Mutex::new(all());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let next = || left.lock().unwrap().pop();
                while let Some((name, sender)) = next() {
                    match sender {
                        Sender::Client(asked) => check(name, &asked),
                        Sender::Holder | Sender::Servers | Sender::ClientsOnHost => {}
                    }
                }
            });
        }
    });
}
