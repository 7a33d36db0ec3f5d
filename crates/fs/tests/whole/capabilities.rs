//! Clients that lie: hand-made requests for every operation on datafiles, without the right to it.
//!
//! The servers are real ones, over tcp with a cluster's key, whose holders may claim to be any user. What they refuse must leave all
//! data as they were.

use std::time::{Duration, Instant};

use causeway_fs::client::CreateOptions;
use causeway_fs::config::{CapabilityRule, Configuration};
use causeway_sys::secret::Secret;
use causeway_wire::fs::formats::{FORMATS, SHORT_CAPABILITIES};
use causeway_wire::fs::{
    Body, Caller, Capability, Errno, Incarnation, Needs, ObjectId, Operation, PROOF_BYTES, Place,
    Region, Regions, ReplyBody, Request, Rights, SetAttributes, WantedSums,
};

use crate::cluster::{Fixture, Shape, client, pattern};
use crate::liar::{Answer, GENEROUS, Liar};

pub(crate) const OWNER: u32 = 1000;
pub(crate) const OTHER: u32 = 2000;
const LEN: usize = 300_000;
/// How one that is another's, or for another object, is refused.
const FOREIGN: [Errno; 2] = [Errno::EACCES, Errno::CAPABILITY_ENDED];

/// A configuration whose servers are reached over tcp with a cluster's key, and have a key of their own.
fn guarded(configuration: &mut Configuration) {
    let directory = configuration.servers[0].directory.parent().unwrap();
    let write = |name: &str, byte: u8| {
        let path = directory.join(name);
        std::fs::write(&path, Secret::from([byte; 32]).digits().as_bytes()).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
        Some(path)
    };
    configuration.key_file = write("key", 1);
    configuration.access.server_key_file = write("server-key", 2);
    configuration.access.tell_timeout = GENEROUS;
}

pub(crate) fn start(change: impl FnOnce(&mut Configuration)) -> Fixture {
    let shape = Shape {
        tcp: true,
        ..Shape::default()
    };
    Fixture::start_with(&shape, |configuration| {
        guarded(configuration);
        change(configuration);
    })
}

/// Makes a striped file of a user, and returns its number.
pub(crate) fn store(fixture: &Fixture, path: &[u8], uid: u32, mode: u16) -> ObjectId {
    let mut client = client(fixture.cluster.configuration());
    client.act_for(Caller {
        uid: 0,
        gid: 0,
        groups: Vec::new(),
        umask: 0,
    });
    let options = CreateOptions {
        mode,
        ..CreateOptions::default()
    };
    let mut file = client.create(path, &options).unwrap();
    client.write_at(&mut file, 0, &pattern(3, LEN)).unwrap();
    client.fsync(&mut file).unwrap();
    let set = SetAttributes {
        uid: Some(uid),
        gid: Some(uid),
        ..SetAttributes::default()
    };
    let object = file.node.object;
    client.set_attributes(object, set).unwrap();
    object
}

/// The file's bytes, as root reads them.
fn content(fixture: &Fixture, path: &[u8]) -> Vec<u8> {
    let mut client = client(fixture.cluster.configuration());
    client.act_for(Caller::default());
    let mut file = client.open(path).unwrap();
    let mut bytes = vec![0; LEN];
    let len = client.read_at(&mut file, 0, &mut bytes).unwrap();
    assert_eq!(len, LEN);
    bytes
}

pub(crate) fn here(offset: u64, len: u64) -> Regions {
    Regions::Here(vec![Region { offset, len }])
}

pub(crate) fn read(object: ObjectId) -> Operation {
    Operation::Read {
        object,
        at_least: 0,
        regions: here(0, 100),
        memory: vec![],
        sums: WantedSums::None,
    }
}

pub(crate) fn write(object: ObjectId) -> Operation {
    Operation::Write {
        object,
        number: 1,
        repeated: None,
        at_least: 0,
        regions: here(0, 5),
        memory: vec![],
        inline: b"taken".to_vec(),
        append_lock: 0,
    }
}

/// Each request about one datafile, and whether it needs the right to write.
pub(crate) fn requests(object: ObjectId) -> Vec<(Operation, bool)> {
    let (at_least, region) = (0, Region { offset: 0, len: 8 });
    let strided = Regions::Strided {
        offset: 0,
        len: 4,
        stride: 8,
        count: 2,
    };
    vec![
        (read(object), false),
        (
            Operation::Read {
                object,
                at_least,
                regions: strided.clone(),
                memory: vec![],
                sums: WantedSums::None,
            },
            false,
        ),
        (Operation::FindDescriptor { object }, false),
        (
            Operation::Read {
                object,
                at_least,
                regions: here(0, 4096),
                memory: vec![],
                sums: WantedSums::Only,
            },
            false,
        ),
        (
            Operation::FindData {
                object,
                at_least,
                offset: 0,
            },
            false,
        ),
        (write(object), true),
        (
            Operation::Write {
                object,
                number: 1,
                repeated: None,
                at_least,
                regions: strided,
                memory: vec![],
                inline: b"list I/O".to_vec(),
                append_lock: 0,
            },
            true,
        ),
        (
            Operation::Seed {
                object,
                content: vec![1],
            },
            true,
        ),
        (
            Operation::TruncateData {
                object,
                size: 0,
                version: u64::MAX,
                at_least,
            },
            true,
        ),
        (
            Operation::PunchData {
                object,
                number: 2,
                repeated: None,
                at_least,
                region,
            },
            true,
        ),
        (
            Operation::ReserveData {
                object,
                at_least,
                region,
            },
            true,
        ),
    ]
}

/// Requests that any right to the object permits.
fn modest_requests(object: ObjectId) -> [Operation; 2] {
    [
        Operation::StoredData { object },
        Operation::Flush {
            object,
            at_least: 0,
        },
    ]
}

/// Requests for operators, and those of metadata servers alone.
fn powerful_requests(object: ObjectId) -> (Vec<Operation>, Vec<Operation>) {
    let objects = || vec![object];
    let operators = vec![
        Operation::Remove { objects: objects() },
        Operation::ListData {
            after: ObjectId(0),
            limit: 10,
        },
        Operation::CheckData {
            datafiles: vec![(object, 1)],
        },
        Operation::RemoveOrphans {
            objects: objects(),
            numbers: u64::MAX,
        },
        Operation::Scrub {
            from: None,
            bytes: 4096,
        },
        Operation::AcceptData { objects: objects() },
    ];
    let servers = vec![
        Operation::Enroll {
            index: 7,
            incarnation: Incarnation(9),
            replace: true,
        },
        Operation::EndCapabilities {
            ended: vec![(object, u64::MAX)],
        },
    ];
    (operators, servers)
}

pub(crate) fn refused(answer: Answer, expected: &[Errno], what: &str) {
    match answer {
        Err(failure) if expected.contains(&failure.errno) => {
            assert!(failure.message.len() > 20, "{what}: no reason is given");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn no_request_about_datafiles_is_served_without_the_capability_for_it() {
    let fixture = start(|_| {});
    let (mine, theirs) = (
        store(&fixture, b"/mine", OWNER, 0o600),
        store(&fixture, b"/theirs", OTHER, 0o600),
    );
    let before = [b"/mine" as &[u8], b"/theirs"].map(|path| content(&fixture, path));
    let mut liar = Liar::new(&fixture, 0xbad, OWNER);
    let mut victim = Liar::new(&fixture, 0xdead, OTHER);
    let own = liar.capability(mine);
    let stolen = victim.capability(theirs);
    let cluster_key = Secret::from([1; 32]);
    type Lie = fn(&mut Request, &Capability, &Secret);
    // Where requests alone say whose and what for a capability is, the code notices other users and clients, and there is no way to name another
    // object in it.
    let lies: [(&str, Lie, Errno, Option<Errno>); 11] = [
        (
            "none",
            |r, _, _| r.capability = None,
            Errno::EACCES,
            Some(Errno::EACCES),
        ),
        (
            "a forged code",
            |r, _, _| r.capability.as_mut().unwrap().mac = [7; 32],
            Errno::CAPABILITY_ENDED,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "a flipped bit",
            |r, _, _| r.capability.as_mut().unwrap().mac[PROOF_BYTES - 1] ^= 0x80,
            Errno::CAPABILITY_ENDED,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "more rights",
            |r, _, _| r.capability.as_mut().unwrap().rights = Rights(15),
            Errno::CAPABILITY_ENDED,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "another object",
            |r, stolen, _| r.capability.as_mut().unwrap().object = stolen.object,
            Errno::CAPABILITY_ENDED,
            None,
        ),
        (
            "a longer life",
            |r, _, _| r.capability.as_mut().unwrap().lifetime_ms = u32::MAX,
            Errno::CAPABILITY_ENDED,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "signed with the key that clients have",
            |r, _, key| {
                let capability = r.capability.as_mut().unwrap();
                let code = blake3::keyed_hash(key.expose(), &capability.signed());
                capability.mac = *code.as_bytes();
            },
            Errno::CAPABILITY_ENDED,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "another user's",
            |r, _, _| r.caller.uid = OTHER,
            Errno::EACCES,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "root shows it",
            |r, _, _| r.caller.uid = 0,
            Errno::EACCES,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "another client's",
            |r, _, _| r.client = 5,
            Errno::EACCES,
            Some(Errno::CAPABILITY_ENDED),
        ),
        (
            "a foreign one, with its owner's name",
            |r, stolen, _| {
                r.capability = Some(stolen.clone());
                r.caller.uid = OTHER;
            },
            Errno::EACCES,
            Some(Errno::CAPABILITY_ENDED),
        ),
    ];
    for (server, highest) in [1, 2]
        .into_iter()
        .flat_map(|s| [(s, 12), (s, FORMATS.highest)])
    {
        liar.formats.highest = highest;
        let is_short = highest >= SHORT_CAPABILITIES;
        // It knows the good one, which helps no lie.
        assert!(liar.ask(server, read(mine), &own).is_ok());
        let mut all: Vec<Operation> = requests(mine).into_iter().map(|(op, _)| op).collect();
        all.extend(modest_requests(mine));
        let has = |operation: &Operation| operation.lowest_format() <= highest;
        all.retain(has);
        for (name, lie, in_whole, in_short) in &lies {
            let expected = match is_short {
                true => *in_short,
                false => Some(*in_whole),
            };
            let Some(expected) = expected else { continue };
            for operation in &all {
                let what = format!("{name}: {operation:?}");
                let answer =
                    liar.ask_with(server, operation.clone(), Some(own.clone()), |request| {
                        lie(request, &stolen, &cluster_key);
                    });
                refused(answer, &[expected], &what);
            }
        }
        // A good capability, for another object than the one that is meant.
        let foreign = requests(theirs).into_iter().map(|(operation, _)| operation);
        for operation in foreign.filter(has) {
            let what = format!("a foreign object: {operation:?}");
            let answer = liar.ask(server, operation, &own);
            let expected = match is_short {
                true => Errno::CAPABILITY_ENDED,
                false => Errno::EACCES,
            };
            refused(answer, &[expected], &what);
        }
    }
    for (path, before) in [b"/mine" as &[u8], b"/theirs"].iter().zip(&before) {
        assert!(&content(&fixture, path) == before);
    }
    // It was the lies.
    for operation in modest_requests(mine) {
        assert!(liar.ask(1, operation, &own).is_ok());
    }
    assert!(liar.ask(1, read(mine), &own).is_ok());
}

#[test]
fn rights_are_those_of_the_mode_and_no_more() {
    let fixture = start(|_| {});
    let (public, private) = (
        store(&fixture, b"/public", OWNER, 0o644),
        store(&fixture, b"/private", OWNER, 0o600),
    );
    let before = content(&fixture, b"/public");
    let mut other = Liar::new(&fixture, 0xbad, OTHER);
    let (reads, nothing) = (other.capability(public), other.capability(private));
    assert_eq!((reads.rights, nothing.rights), (Rights::READ, Rights::NONE));
    for (operation, writes) in requests(public) {
        let what = format!("{operation:?}");
        let answer = other.ask(1, operation, &reads);
        match writes {
            true => refused(answer, &[Errno::EACCES], &what),
            false => assert!(answer.is_ok(), "{what}: {answer:?}"),
        }
    }
    for (operation, _) in requests(private) {
        let what = format!("{operation:?}");
        refused(other.ask(1, operation, &nothing), &[Errno::EACCES], &what);
    }
    let [stored, flush] = modest_requests(private);
    assert!(other.ask(1, stored, &nothing).is_ok(), "as stat may");
    refused(other.ask(1, flush, &nothing), &[Errno::EACCES], "flush");
    assert!(content(&fixture, b"/public") == before);
}

#[test]
fn operators_and_servers_have_rights_of_their_own() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let before = content(&fixture, b"/file");
    let mut user = Liar::new(&fixture, 0xbad, OWNER);
    let own = user.capability(object);
    refused(
        user.metadata(Operation::Authorize),
        &[Errno::EPERM],
        "a user is no operator",
    );
    let mut root = Liar::new(&fixture, 0xadd, 0);
    let Ok((ReplyBody::Done, Some(operates))) = root.metadata(Operation::Authorize) else {
        panic!("root is an operator");
    };
    let (operators, servers) = powerful_requests(object);
    for operation in operators.iter().chain(&servers) {
        assert!(matches!(operation.needs(), Needs::Any(_)));
        for shown in [None, Some(&own), Some(&operates)] {
            let what = format!("{operation:?} with {shown:?}");
            let answer = user.ask_with(1, operation.clone(), shown.cloned(), |_| {});
            refused(answer, &FOREIGN, &what);
        }
    }
    for operation in servers {
        let what = format!("{operation:?}");
        let answer = root.ask(1, operation, &operates);
        refused(answer, &[Errno::EACCES], &what);
    }
    // An operator's right is none to read what a file holds.
    refused(
        root.ask(1, read(object), &operates),
        &FOREIGN,
        "an operator's capability is for no object",
    );
    assert!(content(&fixture, b"/file") == before);
    let list = Operation::ListData {
        after: ObjectId(0),
        limit: 10,
    };
    assert!(root.ask(1, list, &operates).is_ok());
}

/// A request that is truncated anywhere is refused or not understood, and the server continues.
#[test]
fn truncated_requests_are_refused() {
    let fixture = start(|_| {});
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut liar = Liar::new(&fixture, 0xbad, OWNER);
    let own = liar.capability(object);
    let (addr, target) = liar.servers[1];
    let len = liar
        .request(target, write(object), Some(own.clone()))
        .to_bytes(FORMATS)
        .len();
    for end in 9..len {
        let request = liar.request(target, write(object), Some(own.clone()));
        let answer = liar.send(addr, &request.to_bytes(FORMATS)[..end]);
        refused(answer, &[Errno::EPROTO], &format!("{end} bytes of {len}"));
    }
    assert!(liar.ask(1, read(object), &own).is_ok());
}

/// With capabilities off, nothing is given, asked for, or checked.
#[test]
fn without_capabilities_clients_work_as_before_and_ask_for_none() {
    let mut fixture = start(|configuration| {
        configuration.access.capabilities = CapabilityRule::Off;
    });
    let object = store(&fixture, b"/file", 0, 0o600);
    let expected = content(&fixture, b"/file");
    let mut liar = Liar::new(&fixture, 0xbad, 0);
    assert_eq!(liar.node(object).1, None);
    assert!(liar.ask_with(1, read(object), None, |_| {}).is_ok());
    // It learns with the first read that there are none.
    reads_on_without_the_metadata_server(&mut fixture, &expected);
}

/// A client that has read `/file` once reads it many times more, with the metadata server killed.
fn reads_on_without_the_metadata_server(fixture: &mut Fixture, expected: &[u8]) {
    let mut client = client(fixture.cluster.configuration());
    client.act_for(Caller::default());
    let mut file = client.open(b"/file" as &[u8]).unwrap();
    let mut bytes = vec![0; LEN];
    client.read_at(&mut file, 0, &mut bytes).unwrap();
    fixture.cluster.kill(0).unwrap();
    for _ in 0..100 {
        bytes.fill(0);
        assert_eq!(client.read_at(&mut file, 0, &mut bytes).unwrap(), LEN);
        assert!(bytes == expected);
    }
}

#[test]
fn expired_capabilities_are_refused_and_renewed_under_long_transfers() {
    let fixture = start(|configuration| {
        configuration.access.capability_lifetime = Duration::from_millis(300);
    });
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let old = owner.capability(object);
    let begun = Instant::now();
    while owner.ask(1, read(object), &old).is_ok() {
        assert!(begun.elapsed() < GENEROUS);
        std::thread::sleep(Duration::from_millis(5));
    }
    refused(
        owner.ask(1, read(object), &old),
        &[Errno::CAPABILITY_ENDED],
        "expired",
    );
    // A client that reads and writes for many lifetimes notices nothing.
    let mut client = client(fixture.cluster.configuration());
    client.act_for(Caller::default());
    let bytes = pattern(9, 4 << 20);
    let options = CreateOptions::default();
    let mut file = client.create(b"/long" as &[u8], &options).unwrap();
    let begun = Instant::now();
    let mut rounds = 0;
    while begun.elapsed() < Duration::from_secs(1) || rounds < 3 {
        client.write_at(&mut file, 0, &bytes).unwrap();
        let mut found = vec![0; bytes.len()];
        assert_eq!(
            client.read_at(&mut file, 0, &mut found).unwrap(),
            bytes.len()
        );
        assert!(found == bytes);
        rounds += 1;
    }
    client.fsync(&mut file).unwrap();
}

/// Opening brings the capability along, and it serves for its lifetime: with no metadata server there, files are read on.
#[test]
fn a_capability_serves_for_many_requests() {
    let mut fixture = start(|configuration| {
        configuration.access.capability_lifetime = Duration::from_secs(3600);
    });
    store(&fixture, b"/file", 0, 0o600);
    let expected = content(&fixture, b"/file");
    reads_on_without_the_metadata_server(&mut fixture, &expected);
}

#[test]
fn a_datafile_is_used_on_its_own_servers_only() {
    let fixture = start(|configuration| configuration.distribution.servers = 1);
    let object = store(&fixture, b"/file", OWNER, 0o600);
    let mut owner = Liar::new(&fixture, 0x1, OWNER);
    let (node, capability) = owner.node(object);
    let Body::Striped { distribution, .. } = node.body else {
        panic!("it is striped");
    };
    let own = usize::from(distribution.servers[0]);
    let capability = capability.unwrap();
    // Number n is the server n + 1 of the configuration, behind the metadata server.
    for number in [0, 1] {
        let answer = owner.ask(number + 1, read(object), &capability);
        match number == own {
            true => assert!(answer.is_ok(), "{answer:?}"),
            false => refused(answer, &[Errno::EACCES], "another server"),
        }
    }
}

#[test]
fn root_of_other_hosts_is_nobody_where_it_is_squashed() {
    let fixture = start(|configuration| configuration.access.root_squash = true);
    let mut root = Liar::new(&fixture, 0x1, 0);
    refused(
        root.metadata(Operation::Authorize),
        &[Errno::EPERM],
        "nobody is no operator",
    );
    // The file system's root directory belongs to the servers' user: the user `nobody` may make
    // nothing there.
    let place = Place::from(b"/made" as &[u8]);
    let create = Operation::Create {
        place,
        exclusive: true,
        mode: 0o600,
        distribution: None,
        content: vec![],
    };
    refused(root.change(create), &[Errno::EACCES], "nobody's create");
    let root_directory = ObjectId::ROOT;
    let set = SetAttributes {
        mode: Some(0o777),
        ..SetAttributes::default()
    };
    let chmod = Operation::SetAttributes {
        object: root_directory,
        set,
    };
    match root.change(chmod) {
        Err(failure) => assert!(matches!(failure.errno, Errno::EPERM | Errno::EACCES)),
        other => panic!("{other:?}"),
    }
}

/// Without any key, on one host, the metadata server makes one: the same code runs.
#[test]
fn without_a_key_the_servers_make_their_own() {
    let fixture = Fixture::start(&Shape::default());
    let own = rustix::process::geteuid().as_raw();
    let mut client = fixture.client();
    let options = CreateOptions::default();
    let mut file = client.create(b"/file" as &[u8], &options).unwrap();
    client.write_at(&mut file, 0, &pattern(3, LEN)).unwrap();
    let key = fixture.cluster.configuration().servers[0]
        .directory
        .join("capability-key");
    let mode = std::fs::metadata(&key).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
    let mut liar = Liar::new(&fixture, 0xbad, own);
    let capability = liar.capability(file.node.object);
    assert!(liar.ask(1, read(file.node.object), &capability).is_ok());
    let answer = liar.ask_with(1, read(file.node.object), None, |_| {});
    refused(answer, &[Errno::EACCES], "none");
    let mut forged = capability;
    forged.mac[0] ^= 1;
    let answer = liar.ask(1, read(file.node.object), &forged);
    refused(answer, &[Errno::CAPABILITY_ENDED], "forged");
}
