//! One run: a plan, carried out.

use std::time::Duration;

use causeway_fs::client::CreateOptions;
use causeway_testkit::random::Random;
use rustix::io::Errno;

use crate::command::{self, Commander, Places};
use crate::conditions::{Conditions, Excuse};
use crate::library::{Actor, CELL, CELLS, SHARED, Trace, hint};
use crate::names::Names;
use crate::plan::{Damage, Fault, LIBRARY_CLIENTS, Phase, Plan, Spread, pick};
use crate::registers::{self, SHARERS, Sharer};
use crate::world::{Start, World, copy_tree, files_below, flip};

/// What was found, and what led to it.
pub(crate) struct Violation {
    pub(crate) what: String,
    pub(crate) trace: Trace,
}

struct Run {
    world: World,
    actors: Vec<Actor>,
    commander: Commander,
    sharers: Vec<Sharer>,
    dice: Random,
    /// What clients knew when a copy of a server's directory was made.
    kept: Option<Vec<Names>>,
    /// The metadata are older than the data, for good.
    restored: bool,
    trace: Trace,
}

/// Carries a plan out.
pub(crate) fn run(
    seed: u64,
    plan: &Plan,
    sabotage: Option<&'static str>,
) -> Result<(), Box<Violation>> {
    let violation = |what: String, trace: Trace| Box::new(Violation { what, trace });
    let mut run = match Run::new(seed, plan, sabotage) {
        Ok(run) => run,
        Err(what) => return Err(violation(what, Vec::new())),
    };
    for (number, phase) in plan.phases.iter().enumerate() {
        run.trace.push(format!("phase {number}: {:?}", phase.fault));
        let outcome = run.phase(phase);
        run.gather();
        if let Err(what) = outcome {
            let what = format!("phase {number}, {:?}: {what}", phase.fault);
            return Err(violation(what, run.trace));
        }
    }
    let outcome = run.end();
    run.gather();
    outcome.map_err(|what| violation(format!("at the end: {what}"), run.trace))
}

impl Run {
    fn new(seed: u64, plan: &Plan, sabotage: Option<&'static str>) -> Result<Self, String> {
        let world = World::new(plan, sabotage)?;
        let local = world.directory.path().join("local");
        std::fs::create_dir(&local).map_err(|error| error.to_string())?;
        let places = Places {
            patient: world.file(true),
            impatient: world.file(false),
            local,
        };
        let actor = |number| Actor::new(number, seed, |patient| world.client(patient));
        let mut actors = Vec::new();
        for number in 0..LIBRARY_CLIENTS {
            actors.push(actor(number)?);
        }
        let commander = Commander::new(actor(LIBRARY_CLIENTS)?, places);
        let failed = |error: causeway_fs::Error| error.to_string();
        let client = &mut actors[0].patient;
        for number in 0..=LIBRARY_CLIENTS {
            let path = format!("/c{number}");
            client
                .make_directory(path.as_bytes(), 0o755, None)
                .map_err(failed)?;
        }
        let options = CreateOptions {
            distribution: hint(Spread::Both),
            ..CreateOptions::default()
        };
        let mut shared = client.create(SHARED.as_bytes(), &options).map_err(failed)?;
        client.truncate(&mut shared, CELL * CELLS).map_err(failed)?;
        registers::make(client).map_err(failed)?;
        let sharer = |number| Sharer::new(number, seed, |patient| world.client(patient));
        let sharers = (0..SHARERS).map(sharer).collect::<Result<_, _>>()?;
        Ok(Self {
            world,
            actors,
            commander,
            sharers,
            dice: Random::new(!seed),
            kept: None,
            restored: false,
            trace: Vec::new(),
        })
    }

    fn gather(&mut self) {
        for actor in &mut self.actors {
            self.trace.append(&mut actor.trace);
        }
        self.trace.append(&mut self.commander.actor.trace);
        for sharer in &mut self.sharers {
            self.trace.append(&mut sharer.trace);
        }
    }

    fn phase(&mut self, phase: &Phase) -> Result<(), String> {
        match phase.fault {
            Fault::None => self.work(phase, &Conditions::no_fault(), |_| Ok(()))?,
            Fault::Restart { server, after_us } => {
                self.work(phase, &Conditions::no_fault(), |world| {
                    pause(after_us);
                    world.kill(server);
                    world.must_start(server)
                })?;
            }
            Fault::Pause { server, after_us } => {
                self.work(phase, &Conditions::no_fault(), |world| {
                    pause(after_us);
                    world.halt(server)?;
                    pause(after_us);
                    world.go_on(server)
                })?;
            }
            Fault::Down { server, after_us } => {
                let conditions = bad(Excuse::Away, server);
                self.work(phase, &conditions, |world| {
                    pause(after_us);
                    world.kill(server);
                    Ok(())
                })?;
                self.world.must_start(server)?;
            }
            Fault::Halt { server, after_us } => {
                let conditions = bad(Excuse::Away, server);
                self.work(phase, &conditions, |world| {
                    pause(after_us);
                    world.halt(server)
                })?;
                self.world.go_on(server)?;
            }
            Fault::Frozen {
                server,
                after_us,
                for_ms,
                killed,
            } => {
                let conditions = Conditions {
                    passes: true,
                    ..bad(Excuse::Away, server)
                };
                self.work(phase, &conditions, |world| {
                    pause(after_us);
                    world.freeze(server)?;
                    pause(1000 * for_ms);
                    if killed {
                        world.kill(server);
                    }
                    world.thaw(server)?;
                    match killed {
                        true => world.must_start(server),
                        false => Ok(()),
                    }
                })?;
            }
            Fault::FailedSyncs {
                server,
                after_us,
                for_ms,
                no_room,
                killed,
            } => {
                let conditions = Conditions {
                    passes: true,
                    ..bad(Excuse::Away, server)
                };
                let errno = if no_room { Errno::NOSPC } else { Errno::IO };
                self.work(phase, &conditions, |world| {
                    pause(after_us);
                    world.fail_syncs(server, errno)?;
                    pause(1000 * for_ms);
                    world.mend_syncs(server)?;
                    if !killed {
                        return Ok(());
                    }
                    world.kill(server);
                    world.must_start(server)
                })?;
            }
            Fault::Full => {
                self.world.fill()?;
                let worked = self.work(phase, &bad(Excuse::Full, 1), |_| Ok(()));
                self.world.make_room()?;
                worked?;
            }
            Fault::Keep { server } => {
                self.work(phase, &Conditions::no_fault(), |_| Ok(()))?;
                self.keep(server)?;
            }
            Fault::Wrong { server, how } => self.wrong(phase, server, how)?,
            Fault::Restored => return self.restored(phase),
        }
        self.world.check_servers()?;
        self.verify()
    }

    /// Has all clients work, while `meanwhile` happens to the servers.
    fn work(
        &mut self,
        phase: &Phase,
        conditions: &Conditions,
        meanwhile: impl FnOnce(&mut World) -> Result<(), String>,
    ) -> Result<(), String> {
        let (actors, commander) = (&mut self.actors, &mut self.commander);
        let sharers = &mut self.sharers;
        std::thread::scope(|scope| {
            let mut workers = Vec::new();
            for (actor, operations) in actors.iter_mut().zip(&phase.operations) {
                workers.push(scope.spawn(move || {
                    let mut operations = operations.iter();
                    operations.try_for_each(|operation| actor.step(*operation, conditions))
                }));
            }
            workers.push(scope.spawn(move || {
                let mut verbs = phase.verbs.iter();
                verbs.try_for_each(|verb| commander.step(*verb, conditions))
            }));
            if phase.registers > 0 {
                for sharer in sharers {
                    workers.push(scope.spawn(move || sharer.work(phase.registers, conditions)));
                }
            }
            let mut outcome = meanwhile(&mut self.world);
            for worker in workers {
                let worked = worker
                    .join()
                    .unwrap_or_else(|_| Err("a client has panicked".to_owned()));
                outcome = outcome.and(worked);
            }
            outcome
        })
    }

    /// Keeps a copy of a server's directory, and what clients know at that moment.
    fn keep(&mut self, server: usize) -> Result<(), String> {
        self.world.kill(server);
        copy_tree(
            &self.world.home(server),
            &self.world.beside(server, "older"),
        )?;
        // What is in doubt at this moment is settled first, so that the knowledge fits the copy.
        self.world.must_start(server)?;
        self.verify()?;
        let actors = self.actors.iter().chain([&self.commander.actor]);
        self.kept = Some(actors.map(|actor| actor.names.clone()).collect());
        Ok(())
    }

    /// Puts an older copy of the metadata back for good, and has clients go on. Files show what they held at some
    /// moment since the copy was made, or cannot be read; new files show what was written to them.
    fn restored(&mut self, phase: &Phase) -> Result<(), String> {
        let Some(kept) = self.kept.take() else {
            return Ok(());
        };
        self.world.kill(0);
        self.world.put_aside(0)?;
        copy_tree(&self.world.beside(0, "older"), &self.world.home(0))?;
        if let Start::Refuses(why) = self.world.start(0)? {
            self.trace.push(format!("refused: {why}"));
            self.world.bring_back(0)?;
            self.world.must_start(0)?;
            return self.verify();
        }
        self.restored = true;
        let all = self.actors.iter_mut().chain([&mut self.commander.actor]);
        let latest = all.zip(kept).map(|(actor, kept)| {
            let restored = actor.names.restored(kept);
            std::mem::replace(&mut actor.names, restored)
        });
        let conditions = Conditions {
            older: Some(latest.collect()),
            ..bad(Excuse::Restored, 0)
        };
        self.work(phase, &conditions, |_| Ok(()))?;
        for actor in self.actors.iter_mut().chain([&mut self.commander.actor]) {
            actor.read_all(&conditions)?;
        }
        self.world.check_servers()
    }

    /// Starts a server on something wrong, has clients detect it, and brings the right directory back.
    fn wrong(&mut self, phase: &Phase, server: usize, how: Damage) -> Result<(), String> {
        self.world.kill(server);
        self.world.put_aside(server)?;
        let made = self.damage(server, how);
        let mut conditions = bad(Excuse::Wrong, server);
        if how == Damage::Older {
            conditions.older.clone_from(&self.kept);
        }
        let warnings = self.world.warnings(server);
        let worked = made.and_then(|()| {
            let start = self.world.start(server)?;
            let serves = matches!(start, Start::Serves);
            match start {
                Start::Refuses(why) => self.trace.push(format!("refused: {why}")),
                Start::Serves if is_refused(how) => {
                    return Err("a server takes a directory that is not its own".to_owned());
                }
                Start::Serves => {
                    self.trace.push("it serves".to_owned());
                    // A loss that is reported may concern damaged names.
                    conditions.admitted = server == 0
                        && matches!(how, Damage::Flipped)
                        && self.world.warnings(server) > warnings;
                }
            }
            self.work(phase, &conditions, |_| Ok(()))?;
            self.check_wrong(server, how, &conditions, serves)
        });
        self.world.kill(server);
        self.world.bring_back(server)?;
        self.world.must_start(server)?;
        worked
    }

    /// Runs the checks on a file system with a wrong server: they may repair anything that will be replaced, but
    /// nothing that the right directory needs.
    fn check_wrong(
        &mut self,
        server: usize,
        how: Damage,
        conditions: &Conditions,
        serves: bool,
    ) -> Result<(), String> {
        let losses = match serves {
            true => self.losses(conditions)?,
            false => Vec::new(),
        };
        if serves && server != 0 {
            // All servers reply: a scrub that times out would be the test's own fault.
            let config = self.world.file(true);
            let scrubbed = command::scrub(&config)?;
            self.trace.push(format!("lost: {losses:?}, {scrubbed:?}"));
            if let Some(object) = losses.iter().find(|one| !scrubbed.damaged.contains(one)) {
                return Err(format!(
                    "object {object} is damaged, and a scrub does not name it: {scrubbed:?}"
                ));
            }
        }
        let found = self.fsck(&["fsck"])?;
        let is_missing = matches!(how, Damage::Empty | Damage::Gutted | Damage::Deleted);
        if found == 0 && (!serves || is_missing && !losses.is_empty()) {
            return Err("fsck finds nothing, though data are missing".to_owned());
        }
        if how != Damage::Older {
            self.fsck(&["fsck", "--repair"])?;
        }
        Ok(())
    }

    /// Objects that cannot be read now for a loss.
    fn losses(&mut self, conditions: &Conditions) -> Result<Vec<u64>, String> {
        let mut losses = Vec::new();
        for actor in self.actors.iter_mut().chain([&mut self.commander.actor]) {
            actor.losses.clear();
            actor.read_all(conditions)?;
            losses.append(&mut actor.losses);
        }
        Ok(losses)
    }

    /// Runs a check as an impatient operator does, and returns its exit code.
    fn fsck(&mut self, arguments: &[&str]) -> Result<i32, String> {
        let left = command::run(&self.world.file(false), arguments)?;
        self.trace.push(format!(
            "{arguments:?}: {} {} {}",
            left.code,
            String::from_utf8_lossy(&left.out),
            left.err
        ));
        Ok(left.code)
    }

    /// Makes what a server shall find; its own directory lies beside.
    fn damage(&mut self, server: usize, how: Damage) -> Result<(), String> {
        let (home, right) = (self.world.home(server), self.world.beside(server, "right"));
        match how {
            Damage::Empty => {
                return std::fs::create_dir(&home).map_err(|error| error.to_string());
            }
            Damage::Foreign => {
                let other = self.world.home((server + 1) % 3);
                return copy_tree(&other, &home);
            }
            Damage::Older => {
                return copy_tree(&self.world.beside(server, "older"), &home);
            }
            _ => copy_tree(&right, &home)?,
        }
        let store = home.join(if server == 0 { "metadata" } else { "data" });
        if how == Damage::Gutted {
            return std::fs::remove_dir_all(store).map_err(|error| error.to_string());
        }
        let mut files = files_below(&store);
        files.retain(|file| std::fs::metadata(file).is_ok_and(|found| found.len() > 0));
        if files.is_empty() {
            return Ok(());
        }
        let victim = pick(&mut self.dice, &(0..files.len()).collect::<Vec<_>>());
        let victim = &files[victim];
        self.trace.push(format!("victim: {}", victim.display()));
        match how {
            Damage::Deleted => std::fs::remove_file(victim).map_err(|error| error.to_string()),
            // What a journal lacks at its end looks like what power loss tears off.
            Damage::Shortened if server != 0 => shorten(victim, &mut self.dice),
            _ => {
                for _ in 0..1 + self.dice.below(3) {
                    let what = flip(victim, &mut self.dice)?;
                    self.trace.push(format!("flipped {what}"));
                }
                Ok(())
            }
        }
    }

    fn verify(&mut self) -> Result<(), String> {
        for server in 0..self.world.configuration.servers.len() {
            self.world.await_server(server)?;
        }
        for actor in &mut self.actors {
            actor.verify()?;
        }
        self.commander.actor.verify()?;
        self.sharers[0].verify()?;
        registers::check(&self.sharers)
    }

    /// Removes what faults have left over, and checks that nothing of it was needed.
    fn end(&mut self) -> Result<(), String> {
        if self.restored {
            return Ok(());
        }
        let config = self.world.file(true);
        for arguments in [&["fsck", "--repair"][..], &["fsck"]] {
            let left = command::run(&config, arguments)?;
            if left.code != 0 {
                let out = String::from_utf8_lossy(&left.out);
                return Err(format!("{arguments:?}: {out} {}", left.err));
            }
        }
        self.verify()
    }
}

/// Whether a server must see at once that its directory is not as it was formatted.
fn is_refused(how: Damage) -> bool {
    matches!(how, Damage::Empty | Damage::Gutted | Damage::Foreign)
}

fn bad(excuse: Excuse, server: usize) -> Conditions {
    Conditions {
        excuse,
        server,
        ..Conditions::no_fault()
    }
}

fn pause(us: u64) {
    std::thread::sleep(Duration::from_micros(us));
}

fn shorten(path: &std::path::Path, dice: &mut Random) -> Result<(), String> {
    let file = std::fs::File::options()
        .write(true)
        .open(path)
        .map_err(|error| error.to_string())?;
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    let left = dice.below(len as usize) as u64;
    file.set_len(left).map_err(|error| error.to_string())
}
