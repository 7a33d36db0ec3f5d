//! Servers of this build and clients of others: requests of each format work byte by byte as those builds sent them, and a client
//! without a common format gets an error in a reply that it can read.

use std::time::Duration;

use causeway_bmi::{Addr, Bmi, Config, Context, Posted};
use causeway_fs::config::CapabilityRule;
use causeway_sys::memory::Memory;
use causeway_wire::codec::Wire;
use causeway_wire::fs::formats::FORMATS;
use causeway_wire::fs::{Body, Errno, Failure, MAX_MESSAGE_BYTES, Reply, ReplyBody};

use crate::cluster::{Fixture, Shape};

/// How long anything here may take before it counts as hanging.
const GENEROUS: Duration = Duration::from_secs(60);
const CLIENT: u128 = 0x0c11e27;
/// Of a request that is meant for no particular server.
const ANYWHERE: [u8; 32] = [0; 32];

/// A client that sends bytes as a build of one format put them together.
struct Other {
    bmi: Bmi,
    context: Context,
    /// What its requests begin with, without and behind the reply tag.
    format: u8,
    behind_tag: Vec<u8>,
    tag: u64,
}

impl Other {
    fn new(format: u8, behind_tag: &[u8]) -> Self {
        let mut bmi = Bmi::new(Config::default()).unwrap();
        let context = bmi.open_context().unwrap();
        Self {
            bmi,
            context,
            format,
            behind_tag: behind_tag.to_vec(),
            tag: 100,
        }
    }

    /// The reply to a request with these bytes behind the reply tag.
    fn send(&mut self, server: Addr, rest: &[u8]) -> Vec<u8> {
        self.tag += 1;
        let reply = [Memory::zeroed(MAX_MESSAGE_BYTES)];
        let posted = self
            .bmi
            .post_recv(server, &reply, self.tag, self.context, 0);
        let Ok(Posted::Pending(receive)) = posted else {
            panic!("{posted:?}");
        };
        let tag = self.tag.to_le_bytes();
        let request = [&[self.format], &tag[..], &self.behind_tag, rest].concat();
        let message = [Memory::from_vec(request)];
        let sent = self
            .bmi
            .post_sendunexpected(server, &message, self.tag, self.context, 1);
        assert!(sent.is_ok(), "{sent:?}");
        let done = self.bmi.test(receive, GENEROUS).unwrap().expect("a reply");
        let len = done.result.unwrap() as usize;
        reply[0].to_vec()[..len].to_vec()
    }

    /// The result of an operation.
    fn ask(
        &mut self,
        server: Addr,
        target: &[u8],
        slot: u64,
        operation: &[&[u8]],
    ) -> Result<ReplyBody, Failure> {
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let caller = [user.as_raw(), group.as_raw(), 0].map(u32::to_le_bytes);
        let umask_and_nothing_held: &[u8] = match self.format {
            14.. => &[0, 0, 0, 0],
            13 => &[0, 0, 0],
            12 => &[0],
            _ => &[],
        };
        let rest = [
            target,
            &CLIENT.to_le_bytes(),
            &[slot as u8, 0],
            &slot.to_le_bytes(),
            &caller.concat(),
            umask_and_nothing_held,
            &operation.concat(),
        ];
        let reply = self.send(server, &rest.concat());
        // In the client's own format, which it can read.
        let (reply, format) = Reply::from_bytes(&reply).unwrap();
        assert_eq!(format, self.format);
        reply.result
    }

    fn greet(&mut self, server: Addr) -> Vec<u8> {
        let hello = self.ask(server, &ANYWHERE, 0, &[&[129, 0, 0, 30, 0, 0, 0]]);
        let Ok(ReplyBody::Hello(greeting)) = hello else {
            panic!("{hello:?}");
        };
        greeting.identity.target().to_bytes()
    }
}

fn addresses(fixture: &Fixture, number: usize) -> String {
    fixture.cluster.configuration().servers[number]
        .addresses
        .join(",")
}

/// `b"\x03\0\0\0..."`: bytes behind their number.
fn counted(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

#[test]
fn clients_of_every_format_work_with_servers_of_this_build() {
    // Clients before format 12 have no capabilities.
    let fixture = Fixture::start_with(&Shape::default(), |configuration| {
        configuration.access.capabilities = CapabilityRule::Optional;
    });
    for (format, behind_tag) in [
        (5, &[][..]),
        (6, &[]),
        (7, &[5]),
        (7, &[1]),
        (7, &[7]),
        (8, &[5]),
        (9, &[5]),
        (10, &[5]),
        (11, &[5]),
        (12, &[5]),
        (13, &[5]),
    ] {
        let mut other = Other::new(format, behind_tag);
        let [metadata, io] =
            [0, 1].map(|number| other.bmi.lookup(&addresses(&fixture, number)).unwrap());
        let [of_metadata, of_io] = [metadata, io].map(|server| other.greet(server));

        // A change of the name space, and the same again, which happens once.
        let name = format!("/made-{format}-{behind_tag:?}");
        let root = 1_u64.to_le_bytes();
        let create = [
            &[3][..],
            &root,
            &counted(name.as_bytes()),
            &[1, 0xa4, 1, 0],
            &[0; 4],
        ];
        let mut objects = Vec::new();
        for _ in 0..2 {
            match other.ask(metadata, &of_metadata, 1, &create) {
                Ok(ReplyBody::Node(node)) if matches!(node.body, Body::Stuffed { .. }) => {
                    objects.push(node.object.0);
                }
                other => panic!("format {format}: {other:?}"),
            }
        }
        assert_eq!(objects[0], objects[1]);

        // A write inside its request, with the fields of its format, and a read inside the reply.
        let object = objects[0].to_le_bytes();
        let numbered: &[u8] = match format {
            5 => &[],
            _ => &[9, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        let zero = [0; 8];
        let region = [&[1, 1, 0, 0, 0][..], &zero, &5_u64.to_le_bytes()].concat();
        let data = counted(b"12345");
        // No append lock.
        let append_lock: &[u8] = match format {
            8.. => &zero,
            _ => &[],
        };
        let region_and_data = [&region[..], &[0; 4], &data, append_lock].concat();
        let write: [&[u8]; 5] = [&[65], &object, numbered, &zero, &region_and_data];
        let read: [&[u8]; 6] = [&[64], &object, &zero, &region, &[0; 4], &[0]];
        for operation in [&write[..], &read] {
            match other.ask(io, &of_io, 0, operation) {
                Ok(ReplyBody::Transferred {
                    bytes: 5, inline, ..
                }) => {
                    let expected: &[u8] = match operation[0] {
                        [64] => b"12345",
                        _ => b"",
                    };
                    assert_eq!(inline, expected);
                }
                other => panic!("format {format}: {other:?}"),
            }
        }
        let clock = other.ask(io, &of_io, 0, &[&[74]]);
        match format {
            5 => assert_eq!(clock.unwrap_err().errno, Errno::EPROTO),
            _ => assert!(matches!(clock, Ok(ReplyBody::Clock(_))), "{clock:?}"),
        }
    }
    fixture.cluster.stop().unwrap();
}

#[test]
fn requests_of_other_formats_are_refused_in_one_that_their_clients_read() {
    let fixture = Fixture::start(&Shape::default());
    let ours = FORMATS.to_string();
    // Formats that the requests state, the format of the reply, and the formats that it names.
    let (last, next) = (FORMATS.highest, FORMATS.highest + 1);
    let [above, range, overlap] = [
        format!("format {next} "),
        format!("formats {next} to {} ", next + 1),
        format!("formats 6 to {next} "),
    ];
    let cases: [(u8, &[u8], u8, &[&str]); 9] = [
        (1, &[], 1, &["format 1 ", &ours, "run builds"]),
        (4, &[], 4, &["format 4 ", &ours, "run builds"]),
        (next, &[next], last, &[&above, &ours, "run builds"]),
        (next + 1, &[next], last, &[&range, &ours, "run builds"]),
        // It continues in the last format.
        (next, &[6], last, &[&overlap, &ours]),
        // Nonsense.
        (0, &[], 0, &["format"]),
        (next, &[next + 1], last, &["format"]),
        (7, &[8], 7, &["lowest format"]),
        (7, &[0], 7, &["lowest format"]),
    ];
    for number in [0, 1] {
        for (format, behind_tag, replied, named) in cases {
            let mut other = Other::new(format, behind_tag);
            let server = other.bmi.lookup(&addresses(&fixture, number)).unwrap();
            let reply = other.send(server, &[0; 80]);
            // As every build reads a failure of its own format.
            let [first, 1, 71, 0, rest @ ..] = &reply[..] else {
                panic!("{format} {behind_tag:?}: {reply:?}");
            };
            assert_eq!(*first, replied, "{format} {behind_tag:?}");
            let text = String::from_utf8(rest[4..].to_vec()).unwrap();
            assert_eq!(rest[..4], (text.len() as u32).to_le_bytes());
            for part in named {
                assert!(text.contains(part), "{format} {behind_tag:?}: {text}");
            }
        }
    }
    fixture.cluster.stop().unwrap();
}
