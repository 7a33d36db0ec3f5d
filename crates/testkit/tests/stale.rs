//! Writes and reads that a client has given up, on storage that stalls: they never take effect after later operations,
//! and never touch memory that serves another purpose.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use causeway_bmi::Memory;
use causeway_fs::client::{Client, ClientOptions, CreateOptions, File};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::random_identity;
use causeway_fs::sabotage;
use causeway_fs::server::{Server, StopHandle};
use causeway_testkit::loopback;
use causeway_testkit::scripted::{FILE, Response, ScriptedServer, node};
use causeway_wire::fs::{
    Body, DataFault, Errno, ObjectId, Operation, Region, ReplyBody, StripedFile,
};

/// There is one storage to freeze in this process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// The memory of an operation on frozen storage.
const IMPATIENT: Duration = Duration::from_millis(80);
const PATIENT: Duration = Duration::from_secs(60);
const PATH: &[u8] = b"/file";
/// Inside a message; one piece; many pieces.
const SIZES: [usize; 3] = [4 << 10, 1 << 20, 12 << 20];
/// Bytes of the file at least: more than is kept beside the metadata.
const LEAST: usize = 200_000;
const ROUNDS: usize = 1;

/// Stops servers also when a test fails.
struct Stop(Vec<StopHandle>);

impl Drop for Stop {
    fn drop(&mut self) {
        sabotage::freeze(false);
        self.0.iter().for_each(StopHandle::stop);
    }
}

/// A file system with one I/O server, reached over one method, while `work` lasts.
fn with_file_system(tcp: bool, checksums: bool, work: impl FnOnce(&Configuration)) {
    let directory = tempfile::tempdir().unwrap();
    let id = random_identity().unwrap();
    let mut configuration =
        Configuration::one_machine("test", id, directory.path(), 1, Durability::Relaxed);
    configuration.timeout = PATIENT;
    configuration.checksums = checksums;
    if tcp {
        for server in &mut configuration.servers {
            server.addresses = vec![format!("tcp://{}", loopback::fresh())];
        }
    }
    let servers = ["meta", "io0"].map(|name| {
        causeway_fs::server::format(&configuration, name).unwrap();
        Server::start(&configuration, name).unwrap()
    });
    std::thread::scope(|scope| {
        let _stop = Stop(servers.iter().map(Server::stop_handle).collect());
        for server in servers {
            scope.spawn(move || server.run().unwrap());
        }
        work(&configuration);
    });
}

fn client(configuration: &Configuration, timeout: Duration) -> Client {
    let configuration = Configuration {
        timeout,
        ..configuration.clone()
    };
    Client::connect(&configuration, ClientOptions::default()).unwrap()
}

/// Memory of a client: one that servers may map, or one that they may not.
fn memory(client: &mut Client, shared: bool, len: usize) -> Memory {
    match shared {
        true => client.allocate(len).unwrap(),
        false => Memory::zeroed(len),
    }
}

fn fill(memory: &Memory, byte: u8) {
    memory.write_at(0, &vec![byte; memory.len()]);
}

fn write(client: &mut Client, file: &mut File, memory: &Memory) -> Result<(), causeway_fs::Error> {
    let len = memory.len() as u64;
    let region = Region { offset: 0, len };
    client.write_list(file, &[region], std::slice::from_ref(memory))
}

fn read(client: &mut Client, file: &mut File, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    assert_eq!(client.read_at(file, 0, &mut bytes).unwrap(), len);
    bytes
}

/// The start of each case: a file of zeros, and an impatient client that has it open.
fn each_case(mut case: impl FnMut(&Configuration, Client, File, Memory)) {
    let _one = ONE_AT_A_TIME.lock();
    for tcp in [false, true] {
        for checksums in [true, false] {
            with_file_system(tcp, checksums, |configuration| {
                let mut patient = client(configuration, PATIENT);
                for (size, shared) in SIZES
                    .iter()
                    .flat_map(|size| [(*size, true), (*size, false)])
                {
                    for _ in 0..ROUNDS {
                        let file = patient.create(PATH, &CreateOptions::default());
                        patient
                            .write_at(&mut file.unwrap(), 0, &vec![b'0'; size.max(LEAST)])
                            .unwrap();
                        let mut hasty = client(configuration, IMPATIENT);
                        let file = patient.open(PATH).unwrap();
                        let memory = memory(&mut hasty, shared, size);
                        // Connected, so that only storage is waited for. A busy machine may need several tries.
                        while hasty.read_at(&mut file.clone(), 0, &mut [0]).is_err() {}
                        case(configuration, hasty, file, memory);
                        patient.unlink(PATH).unwrap();
                    }
                }
            });
        }
    }
}

#[test]
fn a_write_that_was_given_up_does_not_come_after_a_later_one() {
    each_case(|configuration, mut hasty, mut file, memory| {
        fill(&memory, b'1');
        sabotage::freeze(true);
        let failure = write(&mut hasty, &mut file, &memory).unwrap_err();
        assert_eq!(failure.errno, Errno::ETIMEDOUT, "{failure}");
        // The next contents of the memory belong to no write.
        fill(&memory, b'x');
        let mut patient = client(configuration, PATIENT);
        let mut other = patient.open(PATH).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(3));
                sabotage::freeze(false);
            });
            patient
                .write_at(&mut other, 0, &vec![b'2'; memory.len()])
                .unwrap();
        });
        let bytes = read(&mut patient, &mut other, memory.len());
        let wrong = bytes.iter().position(|byte| *byte != b'2');
        assert_eq!(wrong, None, "{:?}", wrong.map(|at| bytes[at] as char));
        // No write takes effect later either.
        patient.fsync(&mut other).unwrap();
        assert!(read(&mut patient, &mut other, memory.len()) == bytes);
    });
}

#[test]
fn memory_of_a_write_that_was_given_up_is_not_read_later() {
    each_case(|configuration, mut hasty, mut file, memory| {
        fill(&memory, b'1');
        sabotage::freeze(true);
        write(&mut hasty, &mut file, &memory).unwrap_err();
        fill(&memory, b'x');
        sabotage::freeze(false);
        let mut patient = client(configuration, PATIENT);
        let mut other = patient.open(PATH).unwrap();
        patient.fsync(&mut other).unwrap();
        let bytes = read(&mut patient, &mut other, memory.len());
        assert!(
            bytes.iter().all(|byte| b"01".contains(byte)),
            "bytes that were not written"
        );
        // The client goes on, with the same memory.
        fill(&memory, b'3');
        let mut file = patient.open(PATH).unwrap();
        write(&mut patient, &mut file, &memory).unwrap();
        assert!(
            read(&mut patient, &mut file, memory.len())
                .iter()
                .all(|byte| *byte == b'3')
        );
    });
}

#[test]
fn memory_of_a_read_that_was_given_up_is_not_written_later() {
    each_case(|configuration, mut hasty, mut file, memory| {
        let len = memory.len() as u64;
        let region = Region { offset: 0, len };
        sabotage::freeze(true);
        let read = hasty.read_list(&mut file, &[region], std::slice::from_ref(&memory));
        fill(&memory, b'x');
        sabotage::freeze(false);
        let mut patient = client(configuration, PATIENT);
        let mut other = patient.open(PATH).unwrap();
        patient.fsync(&mut other).unwrap();
        assert!(
            memory.to_vec().iter().all(|byte| *byte == b'x'),
            "after {read:?}"
        );
    });
}

/// A client that ends releases its session, unless it has given up a change: the change may arrive later, and
/// would be carried out again if its number were forgotten.
#[test]
fn a_session_is_handed_back_unless_a_change_is_in_doubt() {
    for (changes, replies, handed_back) in [(0, true, 0), (3, true, 1), (1, false, 0)] {
        let ended = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ended);
        let script = move |operation: &Operation, _: &_| match operation {
            Operation::EndSession => {
                count.fetch_add(1, Ordering::SeqCst);
                Response::Honest
            }
            Operation::MakeDirectory { .. } if !replies => Response::WrongTag,
            _ => Response::Honest,
        };
        let directory = tempfile::tempdir().unwrap();
        let server = ScriptedServer::start(directory.path(), Box::new(script));
        let configuration = Configuration::load(server.config()).unwrap();
        let mut client = Client::connect(&configuration, ClientOptions::default()).unwrap();
        client.open(b"/f").unwrap();
        if !replies {
            client.limit(IMPATIENT);
        }
        for _ in 0..changes {
            let made = client.make_directory(b"/made", 0o755, None);
            assert_eq!(made.is_ok(), replies);
        }
        drop(client);
        assert_eq!(ended.load(Ordering::SeqCst), handed_back, "{changes}");
    }
}

/// A datafile that is shorter than it was a moment ago has been cut, if the metadata say so afterwards.
#[test]
fn a_file_that_is_cut_while_it_is_checked_is_not_damaged() {
    for (cut, found) in [(false, 1), (true, 0)] {
        let mut reads = 0;
        let script = move |operation: &Operation, _: &_| match operation {
            Operation::ListStriped { .. } => Response::Reply(ReplyBody::StripedFiles {
                files: vec![StripedFile {
                    object: FILE,
                    servers: vec![0],
                    lengths: vec![7670],
                }],
                end: true,
            }),
            Operation::GetNode { .. } => {
                reads += 1;
                let is_cut = cut && reads > 1;
                let mut node = node(FILE).unwrap();
                if let Body::Striped {
                    version, lengths, ..
                } = &mut node.body
                {
                    *version = u64::from(is_cut);
                    *lengths = vec![if is_cut { 0 } else { 7670 }];
                }
                Response::Reply(ReplyBody::Node(Box::new(node)))
            }
            Operation::CheckData { datafiles } if datafiles[0].1 > 0 => {
                Response::Reply(ReplyBody::Faults(vec![DataFault {
                    object: FILE,
                    offset: 0,
                    len: 7670,
                    text: "too short".to_owned(),
                }]))
            }
            _ => Response::Honest,
        };
        let directory = tempfile::tempdir().unwrap();
        let server = ScriptedServer::start(directory.path(), Box::new(script));
        let configuration = Configuration::load(server.config()).unwrap();
        let mut client = Client::connect(&configuration, ClientOptions::default()).unwrap();
        let checked = client.check_striped(ObjectId(0)).unwrap();
        assert_eq!(checked.found.len(), found, "{checked:?}");
    }
}
