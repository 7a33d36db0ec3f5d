//! Calls to a peer that is metadata server and I/O server in one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bmi::{Bmi, Config, InfoOption, Memory, Waker};
use causeway_wire::fs::formats::Granted;
use causeway_wire::fs::{
    Attributes, Caller, Distribution, Failure, Kind, MAC_BYTES, MAX_MESSAGE_BYTES, Moment, Node,
    Region, Reply, Request, Timestamp,
};

use super::super::link::Known;
use super::*;
use crate::config::{Configuration, Durability};
use crate::error::failure;

/// Longer than any of these tests takes, unless there is a bug.
const GENEROUS: Duration = Duration::from_secs(60);

const CLOCK: Moment = Moment {
    boot: 7,
    at: u64::MAX,
};

struct Peer {
    address: String,
    stopping: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn start() -> Self {
        let mut bmi = Bmi::new(Config {
            listen: vec!["tcp://127.0.0.1:0".to_owned()],
            unexpected_limit: MAX_MESSAGE_BYTES,
            ..Config::default()
        })
        .expect("a message layer");
        bmi.set_info(None, InfoOption::Server(true))
            .expect("a server");
        let address = bmi.listening().join(",");
        let (stopping, waker) = (Arc::new(AtomicBool::new(false)), bmi.waker());
        let until = Arc::clone(&stopping);
        let thread = std::thread::spawn(move || serve(bmi, &until));
        Self {
            address,
            stopping,
            waker,
            thread: Some(thread),
        }
    }

    /// A client of it that has exchanged greetings with it.
    fn client(&self) -> Rpc {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut configuration =
            Configuration::one_machine("fs", 1, directory.path(), 1, Durability::Relaxed);
        configuration.timeout = GENEROUS;
        for server in &mut configuration.servers {
            server.addresses = vec![self.address.clone()];
        }
        let mut rpc = Rpc::new(&configuration, Caller::default(), None).expect("a client");
        for server in 0..configuration.servers.len() {
            let known = Known {
                target: Target::default(),
                boot: 0,
                failed_syncs: 0,
            };
            rpc.set_known(server, Some(known));
        }
        rpc
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

fn serve(mut bmi: Bmi, until: &AtomicBool) {
    let context = bmi.open_context().expect("a context");
    let mut punches = 0;
    while !until.load(Ordering::Acquire) {
        let (mut arrived, mut sent) = (Vec::new(), Vec::new());
        let wait = Duration::from_millis(100);
        bmi.testunexpected(64, wait, &mut arrived)
            .expect("messages");
        bmi.testcontext(context, 64, Duration::ZERO, &mut sent)
            .expect("progress");
        for message in arrived {
            let (request, _) = Request::from_bytes(&message.data).expect("a request");
            let (result, capability) = match reply(&request, &mut punches) {
                Ok((body, capability)) => (Ok(body), capability),
                Err(failure) => (Err(failure), None),
            };
            let granted = Granted {
                capability,
                lease: None,
            };
            let bytes = Reply { result }.to_bytes_with(&granted, FORMATS.highest);
            let memory = [Memory::from_vec(bytes)];
            // A client that has ended needs no reply.
            let _ = bmi.post_send(message.from, &memory, request.reply_tag, context, 0);
            bmi.release(message.from);
        }
    }
}

/// Gives every client all rights, and counts the rights that requests have proven. The first punch is refused before it begins, the second one in
/// the middle.
fn reply(request: &Request, punches: &mut u32) -> Result<(ReplyBody, Option<Capability>), Failure> {
    match request.operation {
        Operation::GetNode { object, .. } => {
            let node = Box::new(node(object));
            Ok((ReplyBody::Node(node), Some(capability(object))))
        }
        Operation::StoredData { object } => match &request.capability {
            Some(shown) if shown.mac[..8] == object.0.to_le_bytes() => {
                // A capability in an I/O server's reply, which a client must not keep.
                let of_next = Capability {
                    object: ObjectId(object.0 + 1),
                    ..capability(object)
                };
                Ok((ReplyBody::Stored(object.0), Some(of_next)))
            }
            _ => Err(failure(Errno::EACCES, "another one")),
        },
        Operation::Clock => Ok((ReplyBody::Clock(CLOCK), None)),
        Operation::PunchData { repeated, .. } => {
            *punches += 1;
            match (*punches, repeated) {
                (1, None) => Err(failure(Errno::CAPABILITY_ENDED, "before it has begun")),
                (2, None) => Err(failure(Errno::REVOKED, "in the middle")),
                (3, Some(since)) if since.boot == CLOCK.boot => {
                    Ok((ReplyBody::Punched { next: None }, None))
                }
                (number, since) => {
                    let text = format!("number {number}, sent before since {since:?}");
                    Err(failure(Errno::EINVAL, text))
                }
            }
        }
        _ => Err(failure(Errno::EINVAL, "not expected here")),
    }
}

fn node(object: ObjectId) -> Node {
    let at = Timestamp::default();
    Node {
        object,
        attributes: Attributes {
            kind: Kind::File,
            mode: 0o600,
            uid: 0,
            gid: 0,
            links: 1,
            size: 0,
            accessed: at,
            modified: at,
            changed: at,
        },
        body: NodeBody::Striped {
            distribution: Distribution {
                strip_size: 65_536,
                servers: vec![0],
            },
            version: 1,
            truncating: None,
            lengths: Vec::new(),
            sparse: true,
        },
        acl: None,
    }
}

/// A capability whose code identifies its object.
fn capability(object: ObjectId) -> Capability {
    let mut mac = [0; MAC_BYTES];
    mac[..8].copy_from_slice(&object.0.to_le_bytes());
    Capability {
        object,
        rights: Rights::READ,
        uid: 0,
        node: 0,
        client: 0,
        version: 1,
        lifetime_ms: 3_600_000,
        servers: 1,
        mac,
    }
}

fn measure(rpc: &mut Rpc, objects: &[ObjectId]) -> Vec<Result<ReplyBody, String>> {
    let call = |object: &ObjectId| Call::query(1, Operation::StoredData { object: *object });
    let results = rpc.call_all(objects.iter().map(call).collect());
    let told = results
        .into_iter()
        .map(|result| result.map_err(|error| error.message));
    told.collect()
}

fn all_measured(objects: &[ObjectId]) -> Vec<Result<ReplyBody, String>> {
    let stored = |object: &ObjectId| Ok(ReplyBody::Stored(object.0));
    objects.iter().map(stored).collect()
}

#[test]
fn what_an_i_o_server_gives_replaces_nothing_that_the_metadata_server_gave() {
    let peer = Peer::start();
    let mut rpc = peer.client();
    let objects: Vec<ObjectId> = (1..=3).map(ObjectId).collect();
    for _ in 0..2 {
        assert_eq!(measure(&mut rpc, &objects), all_measured(&objects));
    }
}

#[test]
fn only_a_write_that_was_refused_in_the_middle_is_sent_again_as_one_that_may_be_stored() {
    let peer = Peer::start();
    let mut rpc = peer.client();
    let operation = Operation::PunchData {
        object: ObjectId(1),
        number: 0,
        repeated: None,
        at_least: 0,
        region: Region { offset: 0, len: 1 },
    };
    let result = rpc.call(Call::query(1, operation));
    assert_eq!(
        result.map_err(|error| error.message),
        Ok(ReplyBody::Punched { next: None })
    );
}
