//! Servers killed at random moments under load: what was acknowledged is there afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use causeway_fs::client::{Client, CreateOptions};
use causeway_fs::config::Durability;
use causeway_wire::fs::Errno;

use crate::cluster::{Dice, Fixture, Shape, pattern};

/// How often a server is killed; `make` can ask for more.
fn rounds() -> u64 {
    std::env::var("CAUSEWAY_KILL_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(6)
}

/// What one worker knows of its directory.
struct Worker {
    directory: String,
    dice: Dice,
    next: u64,
    /// Files that were acknowledged as synced: seed and length of their content.
    files: BTreeMap<String, (u64, usize)>,
    /// Names of which nothing is known, as an operation on them failed.
    unknown: Vec<String>,
    done: u64,
}

impl Worker {
    fn new(number: u64, seed: u64) -> Self {
        Self {
            directory: format!("/worker{number}"),
            dice: Dice::new(seed),
            next: 0,
            files: BTreeMap::new(),
            unknown: Vec::new(),
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

    /// One operation; a failure must be one that an absent server explains.
    fn step(&mut self, client: &mut Client) {
        let choice = self.dice.below(10);
        let outcome = match (choice, self.some_file()) {
            (0..2, Some(old)) => self.rename(client, old),
            (2..4, Some(old)) => self.remove(client, old),
            _ => self.create(client),
        };
        if let Err(error) = outcome {
            eprintln!("an operation failed: {error}");
            assert!(
                matches!(
                    error.errno,
                    Errno::ETIMEDOUT | Errno::EHOSTUNREACH | Errno::ECONNRESET | Errno::EIO
                ),
                "{error}"
            );
        }
        self.done += 1;
    }

    fn create(&mut self, client: &mut Client) -> Result<(), causeway_fs::Error> {
        let name = self.fresh_name();
        let small = self.dice.below(2) == 0;
        let len = self.dice.below(if small { 9_000 } else { 400_000 }) as usize;
        let seed = self.dice.below(u64::MAX);
        let bytes = pattern(seed, len);
        self.unknown.push(name.clone());
        let mut options = CreateOptions {
            exclusive: true,
            ..CreateOptions::default()
        };
        if small {
            options.content = bytes;
            client.create(name.as_bytes(), &options)?;
        } else {
            let mut file = client.create(name.as_bytes(), &options)?;
            client.write_at(&mut file, 0, &bytes)?;
            client.fsync(&mut file)?;
        }
        self.unknown.pop();
        self.files.insert(name, (seed, len));
        Ok(())
    }

    fn rename(&mut self, client: &mut Client, old: String) -> Result<(), causeway_fs::Error> {
        let new = self.fresh_name();
        let content = self.files.remove(&old);
        self.unknown.extend([old.clone(), new.clone()]);
        client.rename(old.as_bytes(), new.as_bytes(), true)?;
        self.unknown.truncate(self.unknown.len() - 2);
        self.files.extend(content.map(|content| (new, content)));
        Ok(())
    }

    fn remove(&mut self, client: &mut Client, name: String) -> Result<(), causeway_fs::Error> {
        self.files.remove(&name);
        self.unknown.push(name.clone());
        client.unlink(name.as_bytes())?;
        self.unknown.pop();
        Ok(())
    }

    /// Everything acknowledged is there, and nothing else.
    fn check(&mut self, client: &mut Client) {
        for (name, &(seed, len)) in &self.files {
            let mut file = client
                .open(name.as_bytes())
                .unwrap_or_else(|error| panic!("acknowledged, but {error}"));
            let mut bytes = vec![0; len + 1];
            let count = client.read_at(&mut file, 0, &mut bytes).unwrap();
            assert_eq!(count, len, "{name}");
            assert!(bytes[..len] == pattern(seed, len), "content of {name}");
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
                let known = self.files.contains_key(&name);
                found += usize::from(known);
                assert!(
                    known || self.unknown.contains(&name),
                    "{name} should be gone"
                );
            }
            match entries.last() {
                Some(last) if !end => after = last.name.clone(),
                _ => break,
            }
        }
        assert_eq!(found, self.files.len());
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
    let mut dice = Dice::new(rounds);
    for round in 0..rounds {
        let victim = dice.below(3) as usize;
        let moment = Duration::from_millis(20 + dice.below(250));
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
            // Whatever happens here, the workers must be told to stop.
            let cluster = &mut fixture.cluster;
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                std::thread::sleep(moment);
                cluster.kill(victim).unwrap();
                std::thread::sleep(Duration::from_millis(dice.below(100)));
                cluster.restart(victim).unwrap();
                std::thread::sleep(Duration::from_millis(30));
            }));
            stop.store(true, Ordering::Relaxed);
            if let Err(panic) = outcome {
                std::panic::resume_unwind(panic);
            }
        });
        for worker in &mut workers {
            worker.check(&mut client);
        }
        eprintln!(
            "round {round}: killed server {victim}, {} operations so far",
            workers.iter().map(|worker| worker.done).sum::<u64>()
        );
    }
    assert!(workers.iter().all(|worker| worker.done > 0));
    // The name space is sound, and what the kills left behind is found.
    let mut after = None;
    loop {
        let checked = client.check_metadata(after.as_ref(), false).unwrap();
        assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        if checked.next.is_none() {
            break;
        }
        after = checked.next;
    }
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
