//! Calls over several files, with a peer that is metadata server and I/O server at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use causeway_bmi::{Addr, Bmi, Config, InfoOption, Memory, Waker};
use causeway_wire::fs::formats::Granted;
use causeway_wire::fs::{
    Attributes, Caller, Distribution, Failure, Kind, MAC_BYTES, MAX_MESSAGE_BYTES, Node, Reply,
    Request, Timestamp,
};

use super::super::link::Known;
use super::*;
use crate::config::{Configuration, Durability};
use crate::error::failure;

/// Nothing here lasts as long, except where something is wrong.
const GENEROUS: Duration = Duration::from_secs(60);
/// The right to this one is not told before the first file was measured.
const LATE: ObjectId = ObjectId(1002);
const FIRST: ObjectId = ObjectId(1001);

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

    /// A client of it, that has met it.
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
    let (mut has_measured, mut held): (bool, Vec<(Addr, Request)>) = (false, Vec::new());
    while !until.load(Ordering::Acquire) {
        let (mut arrived, mut sent) = (Vec::new(), Vec::new());
        let wait = Duration::from_millis(100);
        bmi.testunexpected(64, wait, &mut arrived)
            .expect("messages");
        bmi.testcontext(context, 64, Duration::ZERO, &mut sent)
            .expect("progress");
        for message in arrived {
            let (request, _) = Request::from_bytes(&message.data).expect("a request");
            has_measured |= request.operation == Operation::StoredData { object: FIRST };
            held.push((message.from, request));
        }
        for (from, request) in std::mem::take(&mut held) {
            let asks = matches!(request.operation, Operation::GetNode { object: LATE, .. });
            if asks && !has_measured {
                held.push((from, request));
                continue;
            }
            let (result, capability) = match reply(&request) {
                Ok((body, capability)) => (Ok(body), capability),
                Err(failure) => (Err(failure), None),
            };
            let granted = Granted {
                capability,
                lease_ms: None,
            };
            let bytes = Reply { result }.to_bytes_with(&granted, FORMATS.highest);
            let message = [Memory::from_vec(bytes)];
            // A client that has ended needs none.
            let _ = bmi.post_send(from, &message, request.reply_tag, context, 0);
            bmi.release(from);
        }
    }
}

/// Gives everybody the right to everything, and measures what it was shown the right to.
fn reply(request: &Request) -> Result<(ReplyBody, Option<Capability>), Failure> {
    match request.operation {
        Operation::GetNode { object, .. } => {
            let node = Box::new(node(object));
            Ok((ReplyBody::Node(node), Some(capability(object))))
        }
        Operation::StoredData { object } => match &request.capability {
            Some(shown) if shown.mac[..8] == object.0.to_le_bytes() => {
                // With a capability that is worth nothing: a client takes none of an I/O server.
                let of_next = Capability {
                    object: ObjectId(object.0 + 1),
                    ..capability(object)
                };
                Ok((ReplyBody::Stored(object.0), Some(of_next)))
            }
            _ => Err(failure(Errno::EACCES, "another one")),
        },
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

/// One that is told from those of other objects by the code.
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
fn files_that_a_client_has_the_right_to_do_not_wait_for_others() {
    let peer = Peer::start();
    let mut rpc = peer.client();
    let uid = rpc.caller().uid;
    (rpc.capabilities).keep(uid, capability(FIRST), Instant::now());
    let objects = [LATE, FIRST, ObjectId(1003)];
    assert_eq!(measure(&mut rpc, &objects), all_measured(&objects));
}

#[test]
fn a_call_over_more_files_than_rights_are_kept_is_made_for_all_of_them() {
    let peer = Peer::start();
    let mut rpc = peer.client();
    rpc.capabilities.most = 4;
    let objects: Vec<ObjectId> = (1..=50).map(ObjectId).collect();
    assert_eq!(measure(&mut rpc, &objects), all_measured(&objects));
    // And again, when some are there.
    assert_eq!(measure(&mut rpc, &objects), all_measured(&objects));
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
