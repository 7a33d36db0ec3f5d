//! Names and sizes are linearizable: histories of several clients
//! are recorded while the metadata server is killed, stopped and restarted, and checked.
//!
//! A call that times out may have happened, may happen later, or never; all others happen between their call
//! and their return, in one order that explains the results of all clients. The histories of one round concern fresh
//! files, so that few calls of unknown outcome meet in one of them.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use causeway_fs::client::{Client, ClientOptions, CreateOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::dev::{DevCluster, ServerCommand, random_identity};
use causeway_fs::sabotage::{self, Sabotage};
use causeway_testkit::linear::models::{NameCall, NameReturn, Names, Size, SizeCall, SizeReturn};
use causeway_testkit::linear::{Event, Model, Verdict, check};
use causeway_testkit::random::{self, Random};
use causeway_wire::fs::Errno;
use rustix::process::{Pid, Signal, kill_process};

/// Clients at the same time.
const CLIENTS: usize = 6;
/// Histories that are recorded side by side: as many of names as of sizes.
const GROUPS: usize = 4;
/// Names of a group.
const NAMES: usize = 3;
/// Calls of each client in a round.
const CALLS: usize = 60;
/// Time-out of clients that wait until a server is restarted.
const PATIENT: Duration = Duration::from_secs(30);
/// Time-out of clients.
const IMPATIENT: Duration = Duration::from_millis(300);

/// Not a test of its own: the servers of the other tests are this program, run with this test and two
/// more arguments. Without them it checks a server's error for a missing configuration.
#[test]
fn server_process() {
    if std::env::var_os("CAUSEWAY_TEST_SERVER").is_none() {
        let missing = std::path::Path::new("/nonexistent/causeway.toml");
        let error = causeway_fs::server::serve(missing, "io0", |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("/nonexistent"), "{error}");
        return;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let [.., configuration, server] = &arguments[..] else {
        panic!("the configuration and the server's name must come last");
    };
    if let Err(error) = causeway_fs::server::serve(configuration.as_ref(), server, |_| Ok(())) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    std::process::exit(0);
}

fn cluster(directory: &std::path::Path, sabotage: Option<Sabotage>) -> DevCluster {
    let id = random_identity().unwrap();
    let mut configuration =
        Configuration::one_machine("histories", id, directory, 1, Durability::Synced);
    configuration.timeout = PATIENT;
    let arguments = [
        "--exact",
        "server_process",
        "--nocapture",
        "--test-threads=1",
        "{config}",
        "{server}",
    ];
    let mut environment = vec![("CAUSEWAY_TEST_SERVER".to_owned(), "1".to_owned())];
    environment.extend(sabotage.map(|one| (sabotage::VARIABLE.to_owned(), one.name().to_owned())));
    let command = ServerCommand {
        program: std::env::current_exe().unwrap(),
        arguments: arguments.map(str::to_owned).to_vec(),
        environment,
    };
    DevCluster::create(configuration, &directory.join("causeway.toml"), command).unwrap()
}

fn client(configuration: &Configuration, timeout: Duration) -> Client {
    let mut configuration = configuration.clone();
    configuration.timeout = timeout;
    Client::connect(&configuration, ClientOptions::default()).unwrap()
}

/// A client's record, with the group that it belongs to.
type Recorded<C, R> = Vec<(usize, Event<C, R>)>;

/// A client and its part of the histories.
struct Recorder<'a> {
    client: Client,
    clock: &'a AtomicU64,
    round: usize,
    random: Random,
    names: Recorded<NameCall, NameReturn>,
    sizes: Recorded<SizeCall, SizeReturn>,
}

/// Whether the outcome of a call with this error is unknown.
fn is_unknown(error: &causeway_fs::Error) -> bool {
    matches!(
        error.errno,
        Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ECONNRESET | Errno::ECANCELED
    )
}

impl Recorder<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn path(&self, group: usize, name: u8) -> Vec<u8> {
        format!("/r{}/g{group}-{name}", self.round).into_bytes()
    }

    fn call_name(&mut self, group: usize, call: NameCall) {
        let called = self.now();
        let client = &mut self.client;
        let path = |name| format!("/r{}/g{group}-{name}", self.round).into_bytes();
        let options = CreateOptions {
            exclusive: true,
            ..CreateOptions::default()
        };
        let result = match call {
            NameCall::Create(name) => client
                .create(path(name), &options)
                .map(|file| NameReturn::Object(file.node.object.0)),
            NameCall::Lookup(name) => client
                .stat(path(name), false)
                .map(|node| NameReturn::Object(node.object.0)),
            NameCall::Unlink(name) => client.unlink(path(name)).map(|()| NameReturn::Done),
            NameCall::Rename(from, to) => client
                .rename(path(from), path(to), false)
                .map(|()| NameReturn::Done),
        };
        let returned = match result {
            Ok(returned) => Some(returned),
            Err(error) if error.errno == Errno::ENOENT => Some(NameReturn::Absent),
            Err(error) if error.errno == Errno::EEXIST => Some(NameReturn::Exists),
            Err(error) => {
                assert!(is_unknown(&error), "{error}");
                None
            }
        };
        let returned = returned.map(|returned| (returned, self.now()));
        let event = Event {
            call,
            called,
            returned,
        };
        self.names.push((group, event));
    }

    fn call_size(&mut self, group: usize, call: SizeCall) {
        let path = self.path(group, u8::MAX);
        // Opening is no part of the history: the file exists all the time.
        let mut file = match self.client.open(&path) {
            Ok(file) => file,
            Err(error) => {
                assert!(is_unknown(&error), "{error}");
                return;
            }
        };
        let called = self.now();
        let result = match call {
            SizeCall::Truncate(size) => self
                .client
                .truncate(&mut file, size)
                .map(|()| SizeReturn::Done),
            SizeCall::Write(end) => self
                .client
                .write_at(&mut file, end - 1, b"x")
                .map(|()| SizeReturn::Done),
            SizeCall::Stat => self
                .client
                .stat_object(file.node.object)
                .map(|node| SizeReturn::Is(node.attributes.size)),
        };
        let returned = match result {
            Ok(returned) => Some((returned, self.now())),
            Err(error) => {
                assert!(is_unknown(&error), "{error}");
                None
            }
        };
        let event = Event {
            call,
            called,
            returned,
        };
        self.sizes.push((group, event));
    }

    fn step(&mut self) {
        let group = self.random.below(GROUPS);
        let (one, other) = (
            self.random.below(NAMES) as u8,
            self.random.below(NAMES) as u8,
        );
        let size = 1 + self.random.spread(15) as u64;
        match self.random.below(10) {
            0 | 1 => self.call_name(group, NameCall::Create(one)),
            2 => self.call_name(group, NameCall::Unlink(one)),
            3 if one != other => self.call_name(group, NameCall::Rename(one, other)),
            3..6 => self.call_name(group, NameCall::Lookup(one)),
            6 => self.call_size(group, SizeCall::Truncate(size)),
            7 => self.call_size(group, SizeCall::Write(size)),
            _ => self.call_size(group, SizeCall::Stat),
        }
    }

    /// Reads all names and sizes when all is quiet.
    fn read_all(&mut self) {
        for group in 0..GROUPS {
            for name in 0..NAMES as u8 {
                self.call_name(group, NameCall::Lookup(name));
            }
            self.call_size(group, SizeCall::Stat);
        }
    }
}

fn pause(random: &mut Random, ms: usize) {
    std::thread::sleep(Duration::from_micros(random.below(ms * 1000) as u64));
}

/// A fault of the metadata server in the middle of a round.
fn disturb(cluster: &mut DevCluster, random: &mut Random) {
    pause(random, 60);
    match random.below(4) {
        0 => {
            let pid = cluster.pid(0).unwrap();
            let pid = Pid::from_raw(pid as i32).unwrap();
            kill_process(pid, Signal::STOP).unwrap();
            pause(random, 2 * IMPATIENT.as_millis() as usize);
            kill_process(pid, Signal::CONT).unwrap();
        }
        1 => {
            cluster.kill(0).unwrap();
            pause(random, 2 * IMPATIENT.as_millis() as usize);
            cluster.restart(0).unwrap();
        }
        _ => {
            cluster.kill(0).unwrap();
            cluster.restart(0).unwrap();
        }
    }
}

/// A call of a group of calls that concern each other.
type Grouped<M> = (usize, Event<<M as Model>::Call, <M as Model>::Return>);

/// Why a history is not linearizable.
fn judge<M: Model>(what: &str, model: &M, group: usize, all: &[Grouped<M>]) -> Result<usize, String>
where
    M::Call: Clone,
    M::Return: Clone,
{
    let mut events: Vec<_> = all
        .iter()
        .filter(|(of, _)| *of == group)
        .map(|(_, event)| event.clone())
        .collect();
    events.sort_by_key(|event| event.called);
    match check(model, &events) {
        Verdict::Linearizable => Ok(events.len()),
        verdict => {
            let lines = events.iter().map(|event| format!("\n  {event:?}"));
            Err(format!("{what}: {verdict:?}{}", lines.collect::<String>()))
        }
    }
}

/// One round: clients at work, a fault and perhaps more kills, and the verdicts. Returns how many calls were checked.
fn round(
    cluster: &mut DevCluster,
    round: usize,
    seed: u64,
    (kills, timeout): (usize, Duration),
) -> Result<usize, String> {
    let configuration = cluster.configuration().clone();
    let mut patient = client(&configuration, PATIENT);
    let directory = format!("/r{round}");
    patient
        .make_directory(directory.as_bytes(), 0o755, None)
        .unwrap();
    for group in 0..GROUPS {
        let path = format!("/r{round}/g{group}-{}", u8::MAX);
        patient
            .create(path.as_bytes(), &CreateOptions::default())
            .unwrap();
    }
    let clock = AtomicU64::new(1);
    let recorder = |client, number: u64| Recorder {
        client,
        clock: &clock,
        round,
        random: Random::new(seed ^ number << 32),
        names: Vec::new(),
        sizes: Vec::new(),
    };
    let (mut names, mut sizes) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for number in 0..CLIENTS as u64 {
            let mut recorder = recorder(client(&configuration, timeout), number + 1);
            workers.push(scope.spawn(move || {
                for _ in 0..CALLS {
                    recorder.step();
                }
                recorder
            }));
        }
        let mut random = Random::new(seed);
        disturb(cluster, &mut random);
        for _ in 0..kills {
            pause(&mut random, 10);
            cluster.kill(0).unwrap();
            cluster.restart(0).unwrap();
        }
        for worker in workers {
            let recorder = worker.join().unwrap();
            names.extend(recorder.names);
            sizes.extend(recorder.sizes);
        }
    });
    let mut last = recorder(patient, 0);
    last.read_all();
    names.extend(last.names);
    sizes.extend(last.sizes);
    let mut checked = 0;
    for group in 0..GROUPS {
        checked += judge("names", &Names, group, &names)?;
        checked += judge("sizes", &Size, group, &sizes)?;
    }
    Ok(checked)
}

/// Rounds until one fails.
fn rounds(count: usize, sabotage: Option<Sabotage>) -> Result<usize, String> {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), sabotage);
    let seed = random::seed(1);
    // The weakness shows only where a kill comes between a change and its reply, and the client waits for the next server:
    // there are more kills, and clients with long time-outs.
    let faults = match sabotage {
        Some(_) => (4, PATIENT),
        None => (0, IMPATIENT),
    };
    let mut checked = 0;
    for number in 0..count {
        checked += round(&mut cluster, number, seed + number as u64, faults)
            .map_err(|error| format!("seed {seed}, round {number}: {error}"))?;
    }
    cluster.stop().map_err(|error| error.to_string())?;
    Ok(checked)
}

#[test]
fn names_and_sizes_are_linearizable_under_faults() {
    let count = std::env::var("CAUSEWAY_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(12);
    match rounds(count, None) {
        Ok(checked) => println!("{count} rounds, {checked} calls"),
        Err(error) => panic!("{error}"),
    }
}

/// A server that carries repeated changes out again is found.
#[test]
fn forgotten_replies_are_noticed() {
    let error = rounds(60, Some(Sabotage::ForgetReplies)).unwrap_err();
    println!("{error}");
    assert!(
        error.contains("names") || error.contains("sizes"),
        "{error}"
    );
}
