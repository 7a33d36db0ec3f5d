//! Servers killed at random moments under load: nothing acknowledged is lost.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use causeway_fs::client::{Client, CreateOptions, File};
use causeway_fs::config::Durability;
use causeway_wire::random::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::{Fixture, Shape, pattern};

/// Rounds after which everything is verified once more, and removed.
const GENERATION: u64 = 20;

/// How often servers are killed; `make` can ask for more.
fn rounds() -> u64 {
    std::env::var("CAUSEWAY_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(10)
}

/// The state of one worker's directory, as far as it was acknowledged.
struct Worker {
    directory: String,
    dice: SplitMix64,
    next: u64,
    /// Contents of files, as acknowledged.
    files: BTreeMap<String, Vec<u8>>,
    done: u64,
}

impl Worker {
    fn new(number: u64, seed: u64) -> Self {
        Self {
            directory: format!("/worker{number}"),
            dice: SplitMix64::new(seed),
            next: 0,
            files: BTreeMap::new(),
            done: 0,
        }
    }

    fn fresh_name(&mut self) -> String {
        self.next += 1;
        format!("{}/f{}", self.directory, self.next)
    }

    fn some_file(&mut self) -> Option<String> {
        let at = self.dice.below(self.files.len() as u64) as usize;
        self.files.keys().nth(at).cloned()
    }

    /// One operation. Servers are restarted long before the time-out: no operation fails.
    fn step(&mut self, client: &mut Client) {
        let choice = self.dice.below(10);
        let outcome = match (choice, self.some_file()) {
            (0, Some(old)) => self.rename(client, old),
            (1..3, Some(old)) => self.remove(client, old),
            (3..5, Some(old)) => self.overwrite(client, old),
            (5, Some(old)) => self.truncate(client, old),
            _ => self.create(client),
        };
        if let Err(error) = outcome {
            panic!("an operation failed: {error} [{:?}]", error.errno);
        }
        self.done += 1;
    }

    fn create(&mut self, client: &mut Client) -> Result<(), causeway_fs::Error> {
        let name = self.fresh_name();
        let small = self.dice.below(2) == 0;
        let len = self.dice.below(if small { 3_000 } else { 200_000 }) as usize;
        let bytes = pattern(self.dice.below(u64::MAX), len);
        let mut options = CreateOptions {
            exclusive: true,
            ..CreateOptions::default()
        };
        if small {
            options.content.clone_from(&bytes);
            client.create(name.as_bytes(), &options)?;
        } else {
            let mut file = client.create(name.as_bytes(), &options)?;
            client.write_at(&mut file, 0, &bytes)?;
            self.sync_sometimes(client, &mut file)?;
        }
        self.files.insert(name, bytes);
        Ok(())
    }

    /// A killed process loses no acknowledged change, synced or not.
    fn sync_sometimes(
        &mut self,
        client: &mut Client,
        file: &mut File,
    ) -> Result<(), causeway_fs::Error> {
        match self.dice.below(2) {
            0 => client.fsync(file),
            _ => Ok(()),
        }
    }

    fn overwrite(&mut self, client: &mut Client, name: String) -> Result<(), causeway_fs::Error> {
        let mut bytes = self.files[&name].clone();
        let offset = self.dice.below(bytes.len() as u64 + 5_000) as usize;
        let new = pattern(
            self.dice.below(u64::MAX),
            self.dice.below(30_000) as usize + 1,
        );
        let mut file = client.open(name.as_bytes())?;
        client.write_at(&mut file, offset as u64, &new)?;
        self.sync_sometimes(client, &mut file)?;
        bytes.resize(bytes.len().max(offset + new.len()), 0);
        bytes[offset..offset + new.len()].copy_from_slice(&new);
        self.files.insert(name, bytes);
        Ok(())
    }

    fn truncate(&mut self, client: &mut Client, name: String) -> Result<(), causeway_fs::Error> {
        let mut bytes = self.files[&name].clone();
        bytes.resize(self.dice.below(bytes.len() as u64 + 5_000) as usize, 0);
        let mut file = client.open(name.as_bytes())?;
        client.truncate(&mut file, bytes.len() as u64)?;
        self.files.insert(name, bytes);
        Ok(())
    }

    fn rename(&mut self, client: &mut Client, old: String) -> Result<(), causeway_fs::Error> {
        let new = self.fresh_name();
        client.rename(old.as_bytes(), new.as_bytes(), true)?;
        let content = self.files.remove(&old);
        self.files.extend(content.map(|content| (new, content)));
        Ok(())
    }

    fn remove(&mut self, client: &mut Client, name: String) -> Result<(), causeway_fs::Error> {
        client.unlink(name.as_bytes())?;
        self.files.remove(&name);
        Ok(())
    }

    fn remove_all(&mut self, client: &mut Client) {
        for name in std::mem::take(&mut self.files).into_keys() {
            client.unlink(name.as_bytes()).unwrap();
        }
        self.check(client);
    }

    /// The directory has everything that was acknowledged, and nothing else.
    fn check(&mut self, client: &mut Client) {
        for (name, expected) in &self.files {
            let mut file = client
                .open(name.as_bytes())
                .unwrap_or_else(|error| panic!("acknowledged, but {error}"));
            let mut bytes = vec![0; expected.len() + 1];
            let count = client.read_at(&mut file, 0, &mut bytes).unwrap();
            assert_eq!(count, expected.len(), "{name}");
            assert!(bytes[..count] == expected[..], "content of {name}");
        }
        let directory = client.stat(self.directory.as_bytes(), true).unwrap().object;
        let mut after = Vec::new();
        let mut found = 0;
        loop {
            let (entries, end) = client
                .read_directory(directory, &after, 500, false)
                .unwrap();
            for entry in &entries {
                let name = format!(
                    "{}/{}",
                    self.directory,
                    String::from_utf8_lossy(&entry.name)
                );
                assert!(self.files.contains_key(&name), "{name} should be gone");
                found += 1;
            }
            match entries.last() {
                Some(last) if !end => after = last.name.clone(),
                _ => break,
            }
        }
        assert_eq!(found, self.files.len());
    }
}

/// The name space is sound.
fn check_names(client: &mut Client) {
    let mut after = None;
    loop {
        let checked = client.check_metadata(after.as_ref(), false).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        if checked.next.is_none() {
            break;
        }
        after = checked.next;
    }
}

fn killing(durability: Durability, rounds: u64) {
    let mut fixture = Fixture::start(&Shape {
        durability,
        servers: 2,
        timeout_ms: 30_000,
        ..Shape::default()
    });
    let mut client = fixture.client();
    let mut workers: Vec<Worker> = (0..2)
        .map(|number| Worker::new(number, 100 + number))
        .collect();
    for worker in &workers {
        client
            .make_directory(worker.directory.as_bytes(), 0o755, None)
            .unwrap();
    }
    let mut dice = SplitMix64::new(rounds);
    let started = Instant::now();
    for round in 0..rounds {
        // One server, or all of them at once.
        let victims = match dice.below(5) {
            0 => 0..3,
            _ => {
                let one = dice.below(3) as usize;
                one..one + 1
            }
        };
        let moment = Duration::from_micros(dice.below(100_000));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for worker in &mut workers {
                let (stop, configuration) = (&stop, fixture.cluster.configuration().clone());
                scope.spawn(move || {
                    let mut client = crate::cluster::client(&configuration);
                    while !stop.load(Ordering::Relaxed) {
                        worker.step(&mut client);
                    }
                });
            }
            // The workers must be stopped also if this fails.
            let cluster = &mut fixture.cluster;
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                std::thread::sleep(moment);
                victims.clone().for_each(|one| cluster.kill(one).unwrap());
                std::thread::sleep(Duration::from_micros(dice.below(20_000)));
                victims
                    .clone()
                    .for_each(|one| cluster.restart(one).unwrap());
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
        });
        for worker in &mut workers {
            worker.check(&mut client);
            if (round + 1) % GENERATION == 0 {
                worker.remove_all(&mut client);
            }
        }
        if (round + 1) % GENERATION == 0 || round + 1 == rounds {
            check_names(&mut client);
            let done: u64 = workers.iter().map(|worker| worker.done).sum();
            eprintln!(
                "{} rounds, {done} operations, 0 lost, {:?}",
                round + 1,
                started.elapsed()
            );
        }
    }
    assert!(workers.iter().all(|worker| worker.done > 0));
    fixture.cluster.stop().unwrap();
}

#[test]
fn the_reason_why_a_server_has_ended_is_of_its_last_run() {
    let mut fixture = Fixture::start(&Shape::default());
    let log = fixture.config_file().with_file_name("log/io0.log");
    let io0 = 1;
    let log_line = |line: &str| {
        let mut file = std::fs::File::options().append(true).open(&log).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    };
    let ended = |fixture: &mut Fixture| {
        let pid = fixture.cluster.pid(io0).unwrap() as i32;
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        loop {
            if let Some((index, words)) = fixture.cluster.ended() {
                assert_eq!(index, io0);
                return words;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    log_line("the reason of earlier\n");
    fixture.cluster.restart(io0).unwrap();
    let words = ended(&mut fixture);
    assert!(!words.contains("earlier"), "{words}");
    fixture.cluster.restart(io0).unwrap();
    log_line("the reason of now\n");
    let words = ended(&mut fixture);
    assert!(words.contains("the reason of now"), "{words}");
    assert!(!words.contains("earlier"), "{words}");
    fixture.cluster.stop().unwrap();
}

#[test]
fn nothing_acknowledged_is_lost_when_servers_are_killed() {
    killing(Durability::Synced, rounds());
}

#[test]
fn relaxed_file_systems_survive_killed_servers_as_well() {
    killing(Durability::Relaxed, rounds().div_ceil(2));
}
