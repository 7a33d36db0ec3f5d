//! Servers that send false replies: the command ends with an error that reports it, writes nothing outside
//! the destination, and prints nothing that the server did not send.

use std::path::{Path, PathBuf};

use causeway_testkit::scripted::{
    DIRECTORY, FILE, FILE_BYTES, LINK, Response, SMALL, ScriptedServer, entry, greeting, node,
    transferred,
};
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{
    Body, CheckCursor, Distribution, Errno, Failure, Greeting, Kind, Node, ObjectId, Operation,
    Reply, ReplyBody, StripedFile,
};

use crate::stand::{Left, Run};

/// A name, and a change that makes a reply false.
type Lie<Change> = (&'static str, Change);

/// A directory with a destination for `get`, and things beside it that must stay untouched.
struct Place {
    directory: tempfile::TempDir,
    server: ScriptedServer,
}

impl Place {
    fn new(lie: impl FnMut(&Operation, &ReplyBody) -> Response + Send + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("precious"), "mine").unwrap();
        let server = ScriptedServer::start(directory.path(), Box::new(lie));
        Self { directory, server }
    }

    fn run(&self, arguments: &[&str]) -> Left {
        let mut all = vec!["fs"];
        all.extend(arguments);
        Run::new(self.directory.path(), &all)
            .config(self.server.config())
            .left()
    }

    /// Runs a verb, which must fail with a reason, and change nothing outside `to`.
    fn refuses(&self, what: &str, arguments: &[&str]) -> String {
        let _ = std::fs::remove_dir_all(self.to());
        std::fs::create_dir(self.to()).unwrap();
        let left = self.run(arguments);
        assert_eq!(left.code, Some(1), "{what}: {arguments:?}: {left:?}");
        assert!(left.err.starts_with("causeway: "), "{what}: {left:?}");
        assert!(left.err.len() < 4000, "{what}: {left:?}");
        self.is_untouched(what);
        left.err
    }

    fn to(&self) -> PathBuf {
        self.directory.path().join("to")
    }

    fn is_untouched(&self, what: &str) {
        let mut names = names_in(self.directory.path());
        names.retain(|name| name != "to");
        assert_eq!(names, ["precious", "scripted.toml"], "{what}");
        let precious = std::fs::read(self.directory.path().join("precious")).unwrap();
        assert_eq!(precious, b"mine", "{what}");
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn listing(names: &[&[u8]]) -> ReplyBody {
    ReplyBody::Entries {
        entries: names.iter().map(|name| entry(name, FILE)).collect(),
        end: true,
    }
}

fn is_listing(operation: &Operation) -> bool {
    matches!(operation, Operation::ReadDirectory { .. })
}

const WALKS: [&[&str]; 5] = [
    &["ls", "/"],
    &["get", "/", "to"],
    &["rm", "-r", "/d"],
    &["cp", "-r", "/d", "/e"],
    &["du", "/"],
];

/// Unchanged replies work: the refusals below are of the changes.
#[test]
fn unchanged_replies_of_the_scripted_server_work() {
    let place = Place::new(|_, _| Response::Honest);
    std::fs::create_dir(place.to()).unwrap();
    for arguments in [
        &["ls", "-l", "/"][..],
        &["cat", "/f"],
        &["stat", "/f"],
        &["get", "/", "to"],
        &["rm", "-r", "/d"],
        &["fsck"],
    ] {
        let left = place.run(arguments);
        assert_eq!(left.code, Some(0), "{arguments:?}: {left:?}");
    }
    assert_eq!(names_in(&place.to()), ["d", "f", "l"]);
    let got = std::fs::read(place.to().join("f")).unwrap();
    assert_eq!(got, vec![b'a'; FILE_BYTES as usize]);
    assert_eq!(std::fs::read(place.to().join("d/x")).unwrap(), b"small");
    place.is_untouched("honest");
}

#[test]
fn invalid_names_are_refused() {
    let long = vec![b'n'; 300];
    let lies: [(&str, Vec<&[u8]>); 9] = [
        ("an empty name", vec![b""]),
        ("the directory itself", vec![b"."]),
        ("its parent", vec![b".."]),
        ("a path", vec![b"a/b"]),
        ("a way out", vec![b"../precious"]),
        ("an absolute path", vec![b"/precious"]),
        ("a name with NUL", vec![b"a\0b"]),
        ("a long name", vec![&long]),
        ("one name twice", vec![b"a", b"a"]),
    ];
    for (what, names) in lies {
        let reply = listing(&names);
        let place = Place::new(move |operation, _| match is_listing(operation) {
            true => Response::Reply(reply.clone()),
            false => Response::Honest,
        });
        for verb in WALKS {
            place.refuses(what, verb);
        }
    }
}

#[test]
fn listings_that_never_end_are_refused() {
    let place = Place::new(|operation, truth| match (operation, truth) {
        (Operation::ReadDirectory { .. }, _) => Response::Reply(ReplyBody::Entries {
            entries: vec![entry(b"x", SMALL)],
            end: false,
        }),
        _ => Response::Honest,
    });
    for verb in WALKS {
        place.refuses("the same page again", verb);
    }
    // A directory in itself, and the root in it.
    for inside in [DIRECTORY, ObjectId::ROOT] {
        let place = Place::new(move |operation, _| match operation {
            Operation::ReadDirectory { object, after, .. }
                if *object == DIRECTORY && after.is_empty() =>
            {
                Response::Reply(ReplyBody::Entries {
                    entries: vec![entry(b"again", inside)],
                    end: true,
                })
            }
            _ => Response::Honest,
        });
        for verb in [&["get", "/", "to"][..], &["ls", "-R", "/"], &["du", "/"]] {
            let said = place.refuses("a circle", verb);
            assert!(said.contains("contains itself"), "{said}");
        }
    }
}

/// Cursors of a check of the file system must advance, or it would never end, or end too soon.
#[test]
fn a_check_whose_cursor_does_not_advance_is_refused() {
    type Reply = fn(&Operation) -> Option<ReplyBody>;
    let lies: [Lie<Reply>; 3] = [
        ("records", |operation| {
            let cursor = CheckCursor {
                phase: b'e',
                key: vec![1],
            };
            matches!(operation, Operation::Check { .. }).then_some(ReplyBody::Checked {
                next: Some(cursor),
                records: 1,
                findings: Vec::new(),
                mended: 0,
            })
        }),
        ("datafiles", |operation| {
            matches!(operation, Operation::ListData { .. }).then(|| ReplyBody::Datafiles {
                datafiles: vec![(FILE, 1)],
                end: false,
            })
        }),
        ("striped files", |operation| {
            matches!(operation, Operation::ListStriped { .. }).then(|| ReplyBody::StripedFiles {
                files: vec![StripedFile {
                    object: FILE,
                    servers: vec![0],
                    lengths: vec![1],
                }],
                end: false,
            })
        }),
    ];
    for (what, lie) in lies {
        let place = Place::new(move |operation, _| {
            lie(operation).map_or(Response::Honest, Response::Reply)
        });
        place.refuses(what, &["fsck"]);
    }
}

/// Changes the attributes of one object in every reply that describes it.
fn described(object: ObjectId, change: fn(&mut Node)) -> Place {
    Place::new(move |_, truth| match truth {
        ReplyBody::Node(node) if node.object == object => {
            let mut node = node.clone();
            change(&mut node);
            Response::Reply(ReplyBody::Node(node))
        }
        _ => Response::Honest,
    })
}

fn distribution(node: &mut Node) -> &mut Distribution {
    match &mut node.body {
        Body::Striped { distribution, .. } => distribution,
        other => panic!("not striped: {other:?}"),
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let lies: [Lie<fn(&mut Node)>; 8] = [
        ("no server", |node| distribution(node).servers.clear()),
        ("strips of nothing", |node| {
            distribution(node).strip_size = 0
        }),
        ("a server that is none", |node| {
            distribution(node).servers = vec![77]
        }),
        ("the last server there can be", |node| {
            distribution(node).servers = vec![u16::MAX; 2];
        }),
        ("a negative size", |node| node.attributes.size = u64::MAX),
        ("a size behind all offsets", |node| {
            node.attributes.size = 1 << 63
        }),
        ("a directory with datafiles", |node| {
            node.attributes.kind = Kind::Directory
        }),
        ("a link with datafiles", |node| {
            node.attributes.kind = Kind::SymbolicLink
        }),
    ];
    for (what, lie) in lies {
        let place = described(FILE, lie);
        for verb in [
            &["cat", "/f"][..],
            &["get", "/f", "to"],
            &["cp", "/f", "/g"],
        ] {
            place.refuses(what, verb);
            assert!(names_in(&place.to()).is_empty(), "{what}");
        }
    }
}

#[test]
fn an_object_other_than_the_requested_one_is_refused() {
    let place = Place::new(|operation, _| match operation {
        Operation::GetNode { .. } | Operation::Extend { .. } => {
            Response::Reply(ReplyBody::Node(Box::new(node(SMALL).unwrap())))
        }
        _ => Response::Honest,
    });
    // A walk requests the objects that it has found by number.
    place.refuses("another object", &["get", "/", "to"]);
}

#[test]
fn links_that_lead_out_are_links_that_lead_out() {
    let place = described(LINK, |node| node.body = Body::Link(b"../precious".to_vec()));
    std::fs::create_dir(place.to()).unwrap();
    let left = place.run(&["get", "/", "to"]);
    assert_eq!(left.code, Some(0), "{left:?}");
    let target = std::fs::read_link(place.to().join("l")).unwrap();
    assert_eq!(target, Path::new("../precious"));
    // Again, over the existing names: the link is replaced, not followed.
    assert_eq!(place.run(&["get", "/", "to"]).code, Some(0));
    place.is_untouched("a link");
    for target in [&b""[..], b"a\0b"] {
        let target = target.to_vec();
        let place = Place::new(move |_, truth| match truth {
            ReplyBody::Node(node) if node.object == LINK => {
                let body = Body::Link(target.clone());
                let node = Node {
                    body,
                    ..*node.clone()
                };
                Response::Reply(ReplyBody::Node(Box::new(node)))
            }
            _ => Response::Honest,
        });
        place.refuses("an impossible target", &["get", "/", "to"]);
    }
}

/// Bytes that the server did not send would be earlier contents of the memory.
#[test]
fn reads_longer_or_shorter_than_requested_are_refused() {
    let n = FILE_BYTES;
    for (what, reply) in [
        ("fewer bytes than it says", transferred(n, n, n - 1)),
        ("nothing", transferred(n, n, 0)),
        ("more bytes than were asked for", transferred(n, n, n + 1)),
        ("a count of fewer", transferred(n - 1, n, n)),
        ("a count of more", transferred(u64::MAX, n, n)),
        ("no bytes of many", transferred(0, u64::MAX, 0)),
    ] {
        let place = Place::new(move |operation, _| match operation {
            Operation::Read { .. } => Response::Reply(reply.clone()),
            _ => Response::Honest,
        });
        for verb in [
            &["cat", "/f"][..],
            &["get", "/f", "to"],
            &["cp", "/f", "/g"],
        ] {
            place.refuses(what, verb);
            assert!(names_in(&place.to()).is_empty(), "{what}");
        }
    }
    // The same into memory that the server writes itself.
    let large = |node: &mut Node| {
        node.attributes.size = 50_000;
        if let Body::Striped { lengths, .. } = &mut node.body {
            *lengths = vec![50_000];
        }
    };
    let place = Place::new(move |operation, truth| match (operation, truth) {
        (Operation::Read { .. }, _) => Response::Reply(transferred(7, 50_000, 0)),
        (_, ReplyBody::Node(node)) if node.object == FILE => {
            let mut node = node.clone();
            large(&mut node);
            Response::Reply(ReplyBody::Node(node))
        }
        _ => Response::Honest,
    });
    place.refuses("a part of much", &["cat", "/f"]);
}

#[test]
fn invalid_replies_are_refused() {
    let entries = Reply {
        result: Ok(listing(&[b"x"])),
    };
    let whole = entries.to_bytes(FORMATS.highest);
    let mut more = whole.clone();
    more.push(0);
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("half of a reply", whole[..whole.len() / 2].to_vec()),
        ("more than a reply", more),
        ("noise", vec![0xff; 1000]),
    ] {
        let place = Place::new(move |operation, _| match operation {
            Operation::Hello { .. } => Response::Honest,
            _ => Response::Bytes(bytes.clone()),
        });
        for verb in [
            &["ls", "/"][..],
            &["stat", "/f"],
            &["rm", "-r", "/d"],
            &["fsck"],
        ] {
            place.refuses(what, verb);
        }
    }
    // Of the right form, but for another request.
    let place = Place::new(|operation, _| match operation {
        Operation::Hello { .. } => Response::Honest,
        _ => Response::Reply(ReplyBody::Objects(vec![FILE])),
    });
    for verb in [
        &["ls", "/"][..],
        &["cat", "/f"],
        &["rm", "-r", "/d"],
        &["fsck"],
    ] {
        place.refuses("a reply to something else", verb);
    }
    let place = Place::new(|operation, _| match operation {
        Operation::Hello { .. } => Response::Honest,
        _ => Response::WrongTag,
    });
    let said = place.refuses("a reply for another request", &["ls", "/"]);
    assert!(said.contains("no reply within 2 s"), "{said}");
}

#[test]
fn greetings_with_a_wrong_identity_or_layout_are_refused() {
    let lies: [Lie<fn(&mut Greeting)>; 6] = [
        ("another file system", |said| said.identity.file_system += 1),
        ("another name", |said| {
            said.identity.name = "other".to_owned()
        }),
        ("no metadata server", |said| said.identity.metadata = false),
        ("no layout", |said| said.layout = None),
        ("a layout that goes on for ever", |said| {
            if let Some(layout) = &mut said.layout {
                layout.count = u32::MAX;
            }
        }),
        ("servers that are not in order", |said| {
            if let Some(layout) = &mut said.layout {
                layout.count = 2;
                let mut twice: Vec<_> = layout.servers.clone();
                twice.extend(layout.servers.clone());
                layout.servers = twice;
            }
        }),
    ];
    for (what, lie) in lies {
        let mut greeting = greeting();
        lie(&mut greeting);
        let place = Place::new(move |operation, _| match operation {
            Operation::Hello { .. } => {
                Response::Reply(ReplyBody::Hello(Box::new(greeting.clone())))
            }
            _ => Response::Honest,
        });
        for verb in [&["cat", "/f"][..], &["rm", "-r", "/d"]] {
            place.refuses(what, verb);
        }
    }
}

/// Control sequences in texts of servers (colours, window titles, simulated input) are shown escaped.
#[test]
fn texts_of_servers_are_shown_without_control_sequences() {
    const DRIVES: &str = "\x1b]0;mine\x07\x1b[2J\u{9b}31m";
    let fails = |errno| Reply {
        result: Err(Failure {
            errno,
            message: format!("no {DRIVES} luck"),
        }),
    };
    let place = Place::new(move |operation, _| match operation {
        Operation::Hello { .. } => {
            let mut greeting = greeting();
            greeting.version = DRIVES.to_owned();
            Response::Reply(ReplyBody::Hello(Box::new(greeting)))
        }
        _ => Response::Bytes(fails(Errno::EACCES).to_bytes(FORMATS.highest)),
    });
    let config = place.server.config().to_owned();
    let info = Run::new(place.directory.path(), &["info"])
        .config(&config)
        .left();
    let said = [
        info,
        place.run(&["ping"]),
        place.run(&["ls", "/"]),
        place.run(&["stat", "/f"]),
        place.run(&["df"]),
        place.run(&["fsck"]),
    ];
    for left in &said {
        let out = String::from_utf8_lossy(&left.out);
        for text in [&*out, &left.err] {
            let is_control = |c: char| c.is_control() && c != '\n';
            assert!(!text.contains(is_control), "{left:?}");
        }
    }
    assert!(said[2].err.contains("\\x1b[2J"), "{said:?}");
    let other = Place::new(|operation, _| match operation {
        Operation::Hello { .. } => {
            let mut greeting = greeting();
            greeting.identity.name = DRIVES.to_owned();
            Response::Reply(ReplyBody::Hello(Box::new(greeting)))
        }
        _ => Response::Honest,
    });
    for verb in ["ping", "ls"] {
        let said = other.refuses("a name that drives a terminal", &[verb]);
        assert!(!said.contains('\x1b') && !said.contains('\u{9b}'), "{said}");
    }
}
