//! Syncs fail while servers work: nothing that was acknowledged afterwards is lost with the power, and every client
//! with data of a failed sync gets an error.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::random_identity;
use causeway_fs::meta::{Format, Service, Settings};
use causeway_fs::sabotage;
use causeway_fs::server::{Server, StopHandle};
use causeway_testkit::power::{Disk, Mounted};
use causeway_testkit::random::Random;
use causeway_wire::fs::{
    Caller, Errno, ObjectId, Operation, Place, ReplyBody, Request, Target, Timestamp,
};

/// The switch for failing syncs is one for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Files of a run, two with each batch.
const BATCHES: u64 = 6;

fn settings(format: Format) -> Settings {
    Settings {
        durability: Durability::Synced,
        format,
        ..Settings::default()
    }
}

fn request(slot: u16, sequence: u64, operation: Operation) -> Request {
    Request {
        reply_tag: 0,
        target: Target::default(),
        client: 1,
        slot,
        sequence,
        caller: Caller::default(),
        capability: None,
        opening: None,
        holder: None,
        operation,
    }
}

fn place(name: &str) -> Place {
    Place {
        base: ObjectId::ROOT,
        path: name.as_bytes().to_vec(),
    }
}

fn create(name: &str) -> Operation {
    Operation::Create {
        place: place(name),
        exclusive: true,
        mode: 0o644,
        distribution: None,
        content: name.as_bytes().repeat(50),
    }
}

fn names(service: &Service) -> BTreeSet<String> {
    let operation = Operation::ReadDirectory {
        object: ObjectId::ROOT,
        after: Vec::new(),
        limit: 1000,
        attributes: false,
    };
    let reply = service.reader().answer(&request(0, 0, operation));
    match reply.expect("a reader carries this out").result {
        Ok(ReplyBody::Entries { entries, .. }) => entries
            .into_iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// Creates files in batches, while the syncs `fails` of the disk fail; returns which creations were acknowledged, and
/// how many syncs there were.
fn run(
    directory: &Path,
    mounted: &Mounted,
    fails: std::ops::Range<u64>,
    errno: i32,
) -> (BTreeSet<String>, u64) {
    let mut service = Service::open(directory, settings(Format::Refused)).expect("opens");
    let count = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&count);
    mounted.fail_syncs(move || {
        let number = counting.fetch_add(1, Ordering::Relaxed);
        fails.contains(&number).then_some(errno)
    });
    let mut acknowledged = BTreeSet::new();
    for batch in 0..BATCHES {
        let files = [format!("a{batch}"), format!("b{batch}")];
        let requests: Vec<Request> = files
            .iter()
            .enumerate()
            .map(|(slot, name)| request(slot as u16, batch + 1, create(name)))
            .collect();
        let now = Timestamp {
            seconds: 1_000_000,
            nanoseconds: 0,
        };
        let replies = service.apply(&requests, now);
        let done = files
            .into_iter()
            .zip(replies)
            .filter(|(_, reply)| reply.result.is_ok());
        acknowledged.extend(done.map(|(name, _)| name));
        // The files that are found include all acknowledged ones.
        let found = names(&service);
        assert!(
            found.is_superset(&acknowledged),
            "{found:?} of {acknowledged:?}"
        );
    }
    (acknowledged, count.load(Ordering::Relaxed))
}

/// The engine itself: one sync of the metadata's disk after the other fails, for good or once, then the power.
#[test]
fn metadata_acknowledged_after_a_failed_sync_survive_loss_of_power() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    sabotage::pretend_boot(Some(1));
    let owner = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let empty = Mounted::new(Disk::new(1 << 30, owner)).expect("mounts");
    let made = Service::open(&empty.path().join("metadata"), settings(Format::Allowed));
    drop(made.expect("formats"));
    let root = std::fs::File::open(empty.path()).expect("opens");
    root.sync_all().expect("syncs");
    drop(root);
    let formatted = empty.disk();
    drop(empty);
    let (mut first, mut syncs) = (0, u64::MAX);
    let mut random = Random::new(7);
    let mut recovered = 0;
    while first < syncs {
        for (length, errno) in [(1, 5), (3, 28)] {
            let mounted = Mounted::new(formatted.clone()).expect("mounts");
            let directory = mounted.path().join("metadata");
            let (acknowledged, count) = run(&directory, &mounted, first..first + length, errno);
            recovered += u64::from(acknowledged.contains("b5"));
            if length == 1 {
                syncs = count.min(9);
            }
            let disk = mounted.disk();
            for time in 0..2 {
                sabotage::pretend_boot(Some(2 + time));
                let left = Mounted::new(disk.crash(&mut random)).expect("mounts");
                let what = format!("syncs {first} and {length} failed with {errno}");
                let service =
                    Service::open(&left.path().join("metadata"), settings(Format::Refused));
                let service = service.unwrap_or_else(|error| panic!("{what}: {}", error.message));
                let found = names(&service);
                assert!(
                    found.is_superset(&acknowledged),
                    "{what}: of {acknowledged:?} only {found:?} are left"
                );
            }
            sabotage::pretend_boot(Some(1));
        }
        first += 1;
    }
    sabotage::pretend_boot(None);
    assert!(recovered > 0, "the store never took changes again");
}

/// Stops servers also when a test fails.
struct Stop(Vec<StopHandle>);

impl Drop for Stop {
    fn drop(&mut self) {
        sabotage::fail_next_syncs(0);
        self.0.iter().for_each(StopHandle::stop);
    }
}

fn with_servers(configuration: &Configuration, work: impl FnOnce()) {
    let servers = ["meta", "io0"].map(|name| Server::start(configuration, name).unwrap());
    std::thread::scope(|scope| {
        let _stop = Stop(servers.iter().map(Server::stop_handle).collect());
        for server in servers {
            scope.spawn(move || server.run().unwrap());
        }
        work();
    });
}

fn client(configuration: &Configuration) -> Client {
    Client::connect(configuration, ClientOptions::default()).unwrap()
}

fn write(client: &mut Client, file: &mut File) {
    client.write_at(file, 0, &[1; 100_000]).unwrap();
}

fn errno(outcome: Result<(), causeway_fs::Error>) -> Option<Errno> {
    outcome.err().map(|error| error.errno)
}

/// One client's sync fails; each client with unsynced data gets one error, and clients that write again succeed.
#[test]
fn a_failed_sync_is_reported_to_each_writer_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let id = random_identity().unwrap();
    let mut configuration =
        Configuration::one_machine("test", id, directory.path(), 1, Durability::Relaxed);
    configuration.timeout = Duration::from_secs(60);
    for name in ["meta", "io0"] {
        causeway_fs::server::format(&configuration, name).unwrap();
    }
    let mut open = BTreeMap::new();
    with_servers(&configuration, || {
        let mut clients: Vec<Client> = (0..4).map(|_| client(&configuration)).collect();
        let mut files: Vec<File> = Vec::new();
        for (number, client) in clients.iter_mut().enumerate() {
            let mut file = match number {
                0 => client
                    .create(b"/shared", &CreateOptions::default())
                    .unwrap(),
                _ => client.open(b"/shared").unwrap(),
            };
            write(client, &mut file);
            files.push(file);
        }
        // The last client has synced before.
        assert_eq!(errno(clients[3].fsync(&mut files[3])), None);
        for number in 0..3 {
            write(&mut clients[number], &mut files[number]);
        }
        sabotage::fail_next_syncs(1);
        assert_eq!(errno(clients[0].fsync(&mut files[0])), Some(Errno::EIO));
        let told = clients[1].fsync(&mut files[1]).unwrap_err();
        assert_eq!(told.errno, Errno::EIO);
        let text = told.to_string();
        assert!(
            text.contains("io0") && text.contains("sync") && text.contains("write it again"),
            "{text}"
        );
        for number in [0, 1] {
            write(&mut clients[number], &mut files[number]);
            assert_eq!(
                errno(clients[number].fsync(&mut files[number])),
                None,
                "client {number}"
            );
        }
        assert_eq!(errno(clients[3].fsync(&mut files[3])), None);
        open.insert(2, (clients.remove(2), files.remove(2)));
    });
    // The server's process is restarted: the data that were in memory stay lost.
    with_servers(&configuration, || {
        let (mut client, mut file) = open.remove(&2).unwrap();
        assert_eq!(errno(client.fsync(&mut file)), Some(Errno::EIO));
        write(&mut client, &mut file);
        assert_eq!(errno(client.fsync(&mut file)), None);
    });
}
