//! The metadata service in a process that is killed, and over journals with torn ends.
//!
//! A child process applies numbered batches and reports each. It is killed with SIGKILL at some
//! moment. Then the store must hold exactly the batches up to the last acknowledged one, or one more;
//! and asking for that one again must make it happen exactly once. This program has its own `main`,
//! because it is the child too.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use causeway_fs::config::Durability;
use causeway_fs::meta::store::memory::Memory;
use causeway_fs::meta::store::{Store, StoreError};
use causeway_fs::meta::{Service, Settings};
use causeway_wire::codec::Wire;
use causeway_wire::fs::{Operation, ReplyBody, Request};
use causeway_wire::store::Mark;

mod meta_support;
use meta_support::{ask, dump, findings, place, request, time};

const CHILD: &str = "CAUSEWAY_META_CRASH_CHILD";
const ROUNDS: u64 = 30;
const DIRECTORIES: u64 = 5;
const FIRST_TIME: i64 = 1_800_000_000;

fn main() {
    if let Ok(text) = std::env::var(CHILD) {
        return child(&text);
    }
    for durability in [Durability::Relaxed, Durability::Synced] {
        killed_processes_lose_nothing(durability);
    }
    torn_journals_open_to_a_prefix();
    lost_journals_are_not_taken_for_new_ones();
    println!("meta_crash: ok");
}

fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        io_servers: (0..4).map(|number| format!("io{number}")).collect(),
        ..Settings::default()
    }
}

/// The requests of a batch: creates, a rename, an unlink, a write, all of which succeed if the
/// batches before have happened.
fn batch(service: &Service, number: u64) -> Vec<Request> {
    let name =
        |number: u64, index: u64| format!("d{}/f{number}-{index}", (number + index) % DIRECTORIES);
    let mut operations = Vec::new();
    if number == 0 {
        for directory in 0..DIRECTORIES {
            operations.push(Operation::MakeDirectory {
                place: place(&format!("d{directory}")),
                mode: 0o755,
                distribution: None,
            });
        }
    } else {
        for index in 0..3 {
            operations.push(Operation::Create {
                place: place(&name(number, index)),
                exclusive: true,
                mode: 0o644,
                distribution: None,
                content: vec![number as u8; (number * 37 % 3000) as usize],
            });
        }
    }
    if number > 1 {
        operations.push(Operation::Rename {
            from: place(&name(number - 1, 0)),
            to: place(&format!("d{}/g{number}", number % DIRECTORIES)),
            no_replace: false,
        });
        let lookup = Operation::Lookup {
            place: place(&name(number - 1, 2)),
            follow: false,
            content: false,
        };
        if let Ok(ReplyBody::Node(node)) = ask(service, lookup).result {
            operations.push(Operation::WriteStuffed {
                object: node.object,
                offset: 10,
                data: vec![1; 50],
            });
        }
    }
    if number > 3 {
        operations.push(Operation::Unlink {
            place: place(&name(number - 2, 1)),
            expected: None,
        });
    }
    let numbered = operations.into_iter().enumerate();
    numbered
        .map(|(slot, operation)| Request {
            client: 42,
            slot: slot as u16,
            sequence: number + 1,
            ..request(operation)
        })
        .collect()
}

fn apply(service: &mut Service, number: u64) {
    let requests = batch(service, number);
    for reply in service.apply(&requests, time(FIRST_TIME + number as i64)) {
        assert!(reply.result.is_ok(), "batch {number}: {reply:?}");
    }
}

/// Applies batches until it is killed, and writes the number of each when it is acknowledged.
fn child(text: &str) {
    let mut words = text.splitn(3, ' ');
    let durability = match words.next() {
        Some("synced") => Durability::Synced,
        _ => Durability::Relaxed,
    };
    let first: u64 = words
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a number");
    let directory = words.next().expect("a directory");
    let mut service = Service::open(Path::new(directory), settings(durability)).expect("opens");
    let mut out = std::io::stdout().lock();
    for number in first.. {
        apply(&mut service, number);
        writeln!(out, "{number}")
            .and_then(|()| out.flush())
            .expect("the parent listens");
    }
}

/// The service that all batches before `count` have happened to, over a store in memory.
struct Model {
    service: Service,
    count: u64,
}

impl Model {
    fn new() -> Self {
        let store = Arc::new(Memory::new());
        let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
        let settings = settings(Durability::Relaxed);
        Self {
            service: Service::with_opener(Box::new(open), settings).expect("opens"),
            count: 0,
        }
    }

    fn advance(&mut self, count: u64) -> Vec<String> {
        while self.count < count {
            apply(&mut self.service, self.count);
            self.count += 1;
        }
        dump(&self.service)
    }
}

fn killed_processes_lose_nothing(durability: Durability) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let word = if durability == Durability::Synced {
        "synced"
    } else {
        "relaxed"
    };
    let mut model = Model::new();
    let (mut done, mut unacknowledged) = (0, 0);
    for round in 0..ROUNDS {
        let acknowledged = run_child(directory.path(), word, done, round).unwrap_or(done);
        let mut service =
            Service::open(directory.path(), settings(durability)).expect("opens after a kill");
        let held = dump(&service);
        let mut expected = model.advance(acknowledged);
        if held != expected {
            unacknowledged += 1;
            expected = model.advance(acknowledged + 1);
        }
        assert_eq!(
            held, expected,
            "{word}, round {round}: {acknowledged} batches acknowledged"
        );
        assert_eq!(findings(&service), [""; 0], "{word}, round {round}");
        // Whether the last batch happened or not, asking again makes it happen once.
        apply_again(&mut service, acknowledged);
        assert_eq!(
            dump(&service),
            model.advance(acknowledged + 1),
            "{word}, round {round}"
        );
        done = acknowledged + 1;
    }
    assert!(done > ROUNDS, "{done} batches only");
    println!("{word}: {ROUNDS} kills, {done} batches, {unacknowledged} done but not acknowledged");
}

/// The batch as its client would send it again after a restart: the same requests, built from what
/// the client knew, which is the state before.
fn apply_again(service: &mut Service, number: u64) {
    for _ in 0..2 {
        apply(service, number);
    }
}

/// Runs a child for a while and kills it; the number of batches that are acknowledged, if any.
fn run_child(directory: &Path, durability: &str, first: u64, round: u64) -> Option<u64> {
    let program = std::env::current_exe().expect("this program has a path");
    let mut child = Command::new(program)
        .env(
            CHILD,
            format!("{durability} {first} {}", directory.display()),
        )
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("is piped")).lines();
    // The clock starts with the first acknowledgement: opening takes as long as it takes.
    let (send, receive) = std::sync::mpsc::channel();
    let listener = std::thread::spawn(move || {
        let mut last = None;
        for line in lines.map_while(Result::ok) {
            if let Ok(number) = line.parse::<u64>() {
                last = Some(number + 1);
                let _ = send.send(());
            }
        }
        last
    });
    receive
        .recv_timeout(Duration::from_secs(60))
        .expect("the child works");
    std::thread::sleep(Duration::from_micros(round * 7919 % 30_000));
    child.kill().expect("can be killed");
    child.wait().expect("ends");
    listener.join().expect("listens")
}

/// The newest journal of a store.
fn journal(directory: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(directory)
        .expect("lists")
        .map(|entry| entry.expect("lists").path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "jnl"))
        .max()
        .expect("a journal")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("makes a directory");
    for entry in std::fs::read_dir(from).expect("lists") {
        let entry = entry.expect("lists");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("is known").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).expect("copies")),
        }
    }
}

/// Makes the store's mark one of an earlier run of the host, in which hardly anything was synced.
fn lose_power(directory: &Path) {
    let mark = Mark {
        boot: 1,
        ..Mark::default()
    };
    let copy = mark.to_bytes();
    let copies = [&copy[..], &vec![0; 4096 - copy.len()], &copy].concat();
    std::fs::write(directory.join("mark"), copies).expect("writes");
}

/// Cuts, zeroes, scrambles and flips the end of the journal in every way that power loss may.
fn torn_journals_open_to_a_prefix() {
    const BATCHES: u64 = 24;
    let whole = tempfile::tempdir().expect("a temporary directory");
    let mut model = Model::new();
    let mut prefixes = vec![model.advance(0)];
    {
        let settings = settings(Durability::Relaxed);
        let mut service = Service::open(whole.path(), settings).expect("opens");
        for number in 0..BATCHES {
            apply(&mut service, number);
            prefixes.push(model.advance(number + 1));
        }
    }
    let bytes = std::fs::read(journal(whole.path())).expect("reads");
    let len = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .expect("is not empty")
        + 1;
    let bytes = &bytes[..len];
    // Behind the file system's first batch.
    let first = len / 4;
    let mut random = causeway_wire::random::SplitMix64::new(1);
    let mut next = move |limit: usize| random.below(limit as u64) as usize;
    let (mut lost, mut kept) = (0, 0);
    for case in 0..60 {
        let at = first + next(len - first);
        let mut torn = bytes.to_vec();
        match case % 5 {
            0 => torn.truncate(at),
            1 => torn[at..].fill(0),
            2 => torn[at..]
                .iter_mut()
                .for_each(|byte| *byte = next(256) as u8),
            3 => torn[at] ^= 1 << next(8),
            // A block that was not written, between blocks that were.
            _ => {
                let end = (at + 4096).min(len);
                torn[at..end].fill(0);
            }
        }
        if case % 2 == 0 {
            torn.resize(len.max(torn.len()) + 100_000, 0);
        }
        let copied = tempfile::tempdir().expect("a temporary directory");
        copy(whole.path(), copied.path());
        std::fs::write(journal(copied.path()), &torn).expect("writes");
        lose_power(copied.path());
        let open = || Service::open(copied.path(), settings(Durability::Relaxed));
        let mut service = open().unwrap_or_else(|failure| panic!("case {case}: {failure:?}"));
        let held = dump(&service);
        let prefix = prefixes.iter().position(|prefix| *prefix == held);
        let prefix = prefix.unwrap_or_else(|| panic!("case {case}, {at} of {len}: no prefix"));
        assert_eq!(findings(&service), [""; 0], "case {case}");
        lost += u64::from((prefix as u64) < BATCHES);
        // The store continues from there, and the next opening finds later batches.
        for number in prefix as u64..BATCHES {
            apply(&mut service, number);
        }
        drop(service);
        let again = dump(&open().expect("opens again"));
        assert_eq!(again, prefixes[BATCHES as usize], "case {case}");
        let torn_files = std::fs::read_dir(copied.path()).expect("lists");
        kept += torn_files
            .filter(|entry| {
                entry
                    .as_ref()
                    .is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "torn"))
            })
            .count();
    }
    assert!(
        lost > 50 && kept > 10,
        "{lost} cases lost something, {kept} kept it"
    );
    println!("torn: 60 journals opened to a prefix, {kept} ends kept");
}

fn lost_journals_are_not_taken_for_new_ones() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    drop(Service::open(directory.path(), settings(Durability::Synced)).expect("opens"));
    std::fs::write(journal(directory.path()), b"").expect("writes");
    let failure = Service::open(directory.path(), settings(Durability::Synced)).err();
    let message = failure.expect("is refused").message;
    assert!(message.contains("were acknowledged"), "{message}");
    println!("lost: refused");
}
