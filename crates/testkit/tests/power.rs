//! Power is lost while servers work: acknowledged syncs survive, for every file of
//! the servers, and nothing else is damaged.
//!
//! Metadata and I/O servers run on a disk that records syncs (`causeway_testkit::power`). At syncs,
//! where a state ends that a program may rely on, copies of the disk are taken, with the clients' knowledge of that
//! moment. Each copy gives several states that a crash may leave; on each, the servers start again and
//! everything is read. Some crash once more while they recover.
//!
//! `CAUSEWAY_CRASHES=n` tries more states, `CAUSEWAY_SEED=n` others.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use causeway_fs::client::{Client, ClientOptions, CreateOptions};
use causeway_fs::config::{Configuration, Durability};
use causeway_fs::sabotage::{self, Sabotage};
use causeway_fs::server::{self, Server, StopHandle};
use causeway_testkit::power::{Disk, Mounted};
use causeway_testkit::random::{self, Random};
use causeway_wire::fs::Errno;

/// Crash states that every test run checks, for each durability.
const USUAL_CRASHES: usize = 40;
/// Crash states of one copy of the disk.
const CRASHES_OF_ONE: usize = 4;
/// Operations of a run.
const OPERATIONS: usize = 40;
/// Bytes of a block, which power loss may tear when part of it was written.
const BLOCK: u64 = 4096;
/// Bytes of the disk.
const CAPACITY: u64 = 1 << 30;

/// The switch of a sabotage is one for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A change that a client makes. Each ends with an acknowledgement that it is durable.
#[derive(Debug, Clone)]
enum Operation {
    /// A small file, whose content lies beside its metadata.
    Small(String, Arc<Vec<u8>>),
    /// A large file: created, written, synced.
    Large(String, Arc<Vec<u8>>),
    /// Part of a large file is written again, and synced.
    Overwrite(String, u64, Arc<Vec<u8>>),
    Truncate(String, u64),
    Rename(String, String),
    Unlink(String),
}

/// The clients' knowledge: the files that certainly exist, and the operations in progress.
#[derive(Debug, Clone, Default)]
struct Ledger {
    files: BTreeMap<String, Arc<Vec<u8>>>,
    now: Option<Operation>,
}

impl Operation {
    fn random(random: &mut Random, number: usize, files: &BTreeMap<String, Arc<Vec<u8>>>) -> Self {
        let fresh = format!("/f{number}");
        let old = files.keys().nth(random.below(files.len())).cloned();
        let content = |random: &mut Random, len: usize| {
            let mut bytes = random.bytes(len);
            bytes.iter_mut().for_each(|byte| *byte |= 1);
            Arc::new(bytes)
        };
        let Some(old) = old else {
            let len = 1 + random.below(3000);
            return Self::Small(fresh, content(random, len));
        };
        let len = files[&old].len();
        match random.below(10) {
            0..2 => {
                let len = 1 + random.below(3000);
                Self::Small(fresh, content(random, len))
            }
            2..5 => {
                let len = 10_000 + random.below(90_000);
                Self::Large(fresh, content(random, len))
            }
            5..7 if len > 5000 => {
                let offset = random.below(len - 1);
                let count = 1 + random.below((len - offset).min(20_000));
                Self::Overwrite(old, offset as u64, content(random, count))
            }
            7 if len > 5000 => Self::Truncate(old, random.below(len) as u64),
            8 => Self::Unlink(old),
            _ => Self::Rename(old, fresh),
        }
    }

    /// Returns when it is durable: at its acknowledgement, or with a commit.
    fn carry_out(
        &self,
        client: &mut Client,
        durability: Durability,
    ) -> Result<(), causeway_fs::Error> {
        let path = |name: &String| name.clone().into_bytes();
        match self {
            Self::Small(name, content) => {
                let options = CreateOptions {
                    content: content.to_vec(),
                    ..CreateOptions::default()
                };
                client.create(path(name), &options).map(drop)
            }
            Self::Large(name, content) => {
                let mut file = client.create(path(name), &CreateOptions::default())?;
                client.write_at(&mut file, 0, content)?;
                client.fsync(&mut file)
            }
            Self::Overwrite(name, offset, content) => {
                let mut file = client.open(path(name))?;
                client.write_at(&mut file, *offset, content)?;
                client.fsync(&mut file)
            }
            Self::Truncate(name, size) => {
                let mut file = client.open(path(name))?;
                client.truncate(&mut file, *size)?;
                client.fsync(&mut file)
            }
            Self::Rename(from, to) => client.rename(path(from), path(to), true),
            Self::Unlink(name) => client.unlink(path(name)),
        }?;
        match durability {
            Durability::Synced => Ok(()),
            Durability::Relaxed => client.commit(),
        }
    }
}

impl Ledger {
    fn finish(&mut self, operation: Operation) {
        match operation {
            Operation::Small(name, content) | Operation::Large(name, content) => {
                self.files.insert(name, content);
            }
            Operation::Overwrite(name, offset, content) => {
                if let Some(old) = self.files.get_mut(&name) {
                    let end = offset as usize + content.len();
                    Arc::make_mut(old)[offset as usize..end].copy_from_slice(&content);
                }
            }
            Operation::Truncate(name, size) => {
                if let Some(old) = self.files.get_mut(&name) {
                    Arc::make_mut(old).truncate(size as usize);
                }
            }
            Operation::Rename(from, to) => {
                let moved = self.files.remove(&from);
                self.files.extend(moved.map(|content| (to, content)));
            }
            Operation::Unlink(name) => drop(self.files.remove(&name)),
        }
        self.now = None;
    }
}

fn configuration(mount: &Path, sockets: &Path, durability: Durability) -> Configuration {
    let mut configuration = Configuration::one_machine("power", 0x9043, mount, 2, durability);
    configuration.distribution.strip_size = 16 << 10;
    configuration.timeout = Duration::from_secs(30);
    for server in &mut configuration.servers {
        let socket = sockets.join(&server.name);
        server.addresses = vec![format!("shm://{}", socket.display())];
    }
    configuration
}

fn client(configuration: &Configuration) -> Client {
    Client::connect(configuration, ClientOptions::default()).unwrap()
}

/// Stops servers also when a test fails.
struct Stop(Vec<StopHandle>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.iter().for_each(StopHandle::stop);
    }
}

/// Runs all servers while `work` lasts, on a host that was booted as often as `boot` says.
fn with_servers<R>(
    configuration: &Configuration,
    boot: u128,
    work: impl FnOnce() -> Result<R, String>,
) -> Result<R, String> {
    sabotage::pretend_boot(Some(boot));
    let mut servers = Vec::new();
    for entry in &configuration.servers {
        let server = Server::start(configuration, &entry.name);
        servers.push(server.map_err(|error| error.to_string())?);
    }
    std::thread::scope(|scope| {
        let stop = Stop(servers.iter().map(Server::stop_handle).collect());
        let running: Vec<_> = servers
            .into_iter()
            .map(|server| scope.spawn(move || server.run()))
            .collect();
        let outcome = work();
        drop(stop);
        for one in running {
            match one.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return outcome.and(Err(error.to_string())),
                Err(_) => return Err("a server has panicked".to_owned()),
            }
        }
        outcome
    })
}

/// Copies of the disk at syncs, with the clients' knowledge of then.
type Copies = Arc<Mutex<Vec<(Disk, Ledger)>>>;

/// Lets a client work, and takes about `wanted` copies meanwhile.
fn copies(durability: Durability, seed: u64, wanted: usize) -> Result<Vec<(Disk, Ledger)>, String> {
    let mut random = Random::new(seed);
    let owner = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let mounted = Mounted::new(Disk::new(CAPACITY, owner)).map_err(|error| error.to_string())?;
    let sockets = tempfile::tempdir().unwrap();
    let configuration = configuration(mounted.path(), sockets.path(), durability);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let copies = Copies::default();
    for entry in &configuration.servers {
        server::format(&configuration, &entry.name).map_err(|error| error.to_string())?;
    }
    with_servers(&configuration, 1, || {
        let mut client = client(&configuration);
        // The servers have started: from now on every sync counts.
        client.stat(b"/", true).map_err(|error| error.to_string())?;
        let (into, known) = (Arc::clone(&copies), Arc::clone(&ledger));
        let mut dice = Random::new(!seed);
        // Each operation comes with a handful of syncs.
        let rarely = (OPERATIONS * 4).div_ceil(wanted);
        mounted.watch(move |disk| {
            if dice.one_in(rarely) {
                lock(&into).push((disk.clone(), lock(&known).clone()));
            }
        });
        for number in 0..OPERATIONS {
            let operation = Operation::random(&mut random, number, &lock(&ledger).files);
            lock(&ledger).now = Some(operation.clone());
            operation
                .carry_out(&mut client, durability)
                .map_err(|error| format!("{operation:?}: {error}"))?;
            lock(&ledger).finish(operation);
        }
        mounted.stop_watching();
        Ok(())
    })?;
    let copies = std::mem::take(&mut *lock(&copies));
    Ok(copies)
}

/// Starts servers on a disk after a crash, and compares all files with the clients' knowledge. Sometimes returns
/// a copy of the disk from while the servers recovered.
fn verify(
    left: &Disk,
    ledger: &Ledger,
    durability: Durability,
    boot: u128,
    random: &mut Random,
) -> Result<Option<Disk>, String> {
    let mounted = Mounted::new(left.clone()).map_err(|error| error.to_string())?;
    let sockets = tempfile::tempdir().unwrap();
    let configuration = configuration(mounted.path(), sockets.path(), durability);
    let recovering: Arc<Mutex<Option<Disk>>> = Arc::default();
    let (into, mut dice) = (Arc::clone(&recovering), random.clone());
    mounted.watch(move |disk| {
        if dice.one_in(4) {
            *lock(&into) = Some(disk.clone());
        }
    });
    with_servers(&configuration, boot, || {
        let mut client = client(&configuration);
        check_files(&mut client, ledger)?;
        mounted.stop_watching();
        check_names(&mut client, ledger)?;
        let mut after = None;
        loop {
            let checked = client
                .check_metadata(after.as_ref(), false)
                .map_err(|e| e.to_string())?;
            if !checked.findings.is_empty() {
                return Err(format!(
                    "the name space is not sound: {:?}",
                    checked.findings
                ));
            }
            if checked.next.is_none() {
                break;
            }
            after = checked.next;
        }
        // It goes on from here.
        let last = Operation::Large("/last".to_owned(), Arc::new(vec![7; 50_000]));
        last.carry_out(&mut client, durability)
            .map_err(|e| e.to_string())
    })?;
    let recovering = lock(&recovering).take();
    Ok(recovering)
}

/// Reads a file whole, with one byte more if there is one.
fn read(
    client: &mut Client,
    name: &str,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, causeway_fs::Error> {
    let mut file = client.open(name.as_bytes())?;
    let mut bytes = vec![0; len];
    let count = client.read_at(&mut file, offset, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn check_files(client: &mut Client, ledger: &Ledger) -> Result<(), String> {
    for (name, content) in &ledger.files {
        match &ledger.now {
            Some(Operation::Overwrite(of, offset, new)) if of == name => {
                check_overwritten(client, name, content, *offset, new)?;
            }
            Some(Operation::Truncate(of, size)) if of == name => {
                check_truncated(client, name, content, *size)?;
            }
            Some(Operation::Rename(from, to)) if from == name => {
                let old = check_exact(client, from, content);
                let new = check_exact(client, to, content);
                if old.is_ok() == new.is_ok() {
                    return Err(format!("renaming {from} to {to}: {old:?}, {new:?}"));
                }
            }
            Some(Operation::Unlink(of)) if of == name => {
                match client.stat(name.as_bytes(), false) {
                    Err(error) if error.errno == Errno::ENOENT => {}
                    _ => check_exact(client, name, content)?,
                }
            }
            _ => check_exact(client, name, content)?,
        }
    }
    match &ledger.now {
        Some(Operation::Small(name, content)) => match client.stat(name.as_bytes(), false) {
            Err(error) if error.errno == Errno::ENOENT => Ok(()),
            _ => check_exact(client, name, content),
        },
        Some(Operation::Large(name, content)) => match read(client, name, 0, content.len() + 1) {
            // Missing, or without the unsynced bytes.
            Err(error) if error.errno == Errno::ENOENT || is_loss(&error) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(found) => check_bytes(name, &found, 0, |at| vec![0, content[at as usize]]),
        },
        _ => Ok(()),
    }
}

/// Whether bytes are reported as lost.
fn is_loss(error: &causeway_fs::Error) -> bool {
    matches!(error.errno, Errno::EIO | Errno::MISSING)
}

fn check_exact(client: &mut Client, name: &str, content: &[u8]) -> Result<(), String> {
    let found = read(client, name, 0, content.len() + 1)
        .map_err(|error| format!("acknowledged, but {error}"))?;
    if found.len() != content.len() {
        return Err(format!(
            "{name} has {} of {} bytes",
            found.len(),
            content.len()
        ));
    }
    check_bytes(name, &found, 0, |at| vec![content[at as usize]])
}

fn check_bytes(
    name: &str,
    found: &[u8],
    offset: u64,
    allowed: impl Fn(u64) -> Vec<u8>,
) -> Result<(), String> {
    for (at, byte) in (offset..).zip(found) {
        let allowed = allowed(at);
        if !allowed.contains(byte) {
            return Err(format!(
                "byte {at} of {name} is {byte:#04x}, not of {allowed:02x?}"
            ));
        }
    }
    Ok(())
}

/// Blocks that were not written to are as they were and can be read; in the others each byte is old or new,
/// unless they cannot be read.
fn check_overwritten(
    client: &mut Client,
    name: &str,
    old: &[u8],
    offset: u64,
    new: &[u8],
) -> Result<(), String> {
    let len = old.len() as u64;
    let end = offset + new.len() as u64;
    let (first, last) = (offset / BLOCK * BLOCK, len.min(end.div_ceil(BLOCK) * BLOCK));
    for (from, to) in [(0, first), (last, len)] {
        let found = read(client, name, from, (to - from) as usize)
            .map_err(|error| format!("bytes {from} to {to} were not touched, but {error}"))?;
        if found.len() as u64 != to - from {
            return Err(format!("{name} is too short"));
        }
        check_bytes(name, &found, from, |at| vec![old[at as usize]])?;
    }
    match read(client, name, first, (last - first) as usize) {
        Err(error) if is_loss(&error) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(found) => check_bytes(name, &found, first, |at| {
            let mut allowed = vec![old[at as usize]];
            if (offset..end).contains(&at) {
                allowed.push(new[(at - offset) as usize]);
            }
            allowed
        }),
    }
}

fn check_truncated(client: &mut Client, name: &str, old: &[u8], size: u64) -> Result<(), String> {
    let found = read(client, name, 0, old.len() + 1).map_err(|error| error.to_string())?;
    if ![size, old.len() as u64].contains(&(found.len() as u64)) {
        return Err(format!(
            "{name} has {} bytes, not {size} or {}",
            found.len(),
            old.len()
        ));
    }
    check_bytes(name, &found, 0, |at| vec![old[at as usize]])
}

/// There are no other names than the known ones.
fn check_names(client: &mut Client, ledger: &Ledger) -> Result<(), String> {
    let root = client.stat(b"/", true).map_err(|error| error.to_string())?;
    let (entries, _) = client
        .read_directory(root.object, &[], 1000, false)
        .map_err(|error| error.to_string())?;
    for entry in entries {
        let name = format!("/{}", String::from_utf8_lossy(&entry.name));
        let begun = match &ledger.now {
            Some(
                Operation::Small(new, _) | Operation::Large(new, _) | Operation::Rename(_, new),
            ) => *new == name,
            _ => false,
        };
        if !begun && !ledger.files.contains_key(&name) {
            return Err(format!("{name} should be gone"));
        }
    }
    Ok(())
}

/// Checks this many crash states, or as far as the first violation. Returns how many there were.
fn crashes(durability: Durability, seed: u64, wanted: usize) -> Result<usize, String> {
    let mut random = Random::new(seed);
    let (mut done, mut run) = (0, 0);
    while done < wanted {
        run += 1;
        for (disk, ledger) in copies(durability, seed + run, wanted.div_ceil(CRASHES_OF_ONE))? {
            for _ in 0..CRASHES_OF_ONE {
                let mut left = disk.crash(&mut random);
                // While servers recover, power may fail again.
                for time in 0..2 {
                    let outcome = verify(&left, &ledger, durability, 2 + time, &mut random);
                    let again = outcome.map_err(|error| {
                        let (before, after) = (disk.paths(), left.paths());
                        format!(
                            "seed {seed}, run {run}, crash {done}, time {time}: {error}; during {:?}; \
                             names lost: {:?}, names back: {:?}",
                            ledger.now.as_ref().map(short),
                            before.difference(&after).collect::<Vec<_>>(),
                            after.difference(&before).collect::<Vec<_>>(),
                        )
                    })?;
                    done += 1;
                    match again {
                        Some(disk) if random.one_in(3) => left = disk.crash(&mut random),
                        _ => break,
                    }
                }
            }
            if done >= wanted {
                break;
            }
        }
    }
    Ok(done)
}

fn short(operation: &Operation) -> String {
    let text = format!("{operation:?}");
    text.chars().take(60).collect()
}

fn wanted() -> usize {
    std::env::var("CAUSEWAY_CRASHES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(USUAL_CRASHES)
}

fn hold(durability: Durability) {
    let _alone = lock(&ALONE);
    let started = std::time::Instant::now();
    match crashes(durability, random::seed(1), wanted()) {
        Ok(done) => println!("{done} crash states, {:?}", started.elapsed()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn synced_data_survive_loss_of_power() {
    hold(Durability::Synced);
}

#[test]
fn relaxed_data_survive_loss_of_power_once_committed() {
    hold(Durability::Relaxed);
}

/// A server that omits a sync is caught.
#[test]
fn dropped_syncs_are_noticed() {
    let _alone = lock(&ALONE);
    for sabotage in [Sabotage::DropFlush, Sabotage::DropCommit] {
        sabotage::turn_on(Some(sabotage));
        let outcome = crashes(Durability::Synced, 1, 200);
        sabotage::turn_on(None);
        let error = outcome.expect_err("a dropped sync loses something");
        println!("{sabotage:?}: {error}");
    }
}
