//! A client that uses the command `causeway fs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::conditions::{Conditions, Excuse};
use crate::content::Content;
use crate::library::{Actor, bytes};
use crate::names::Id;
use crate::plan::{Spread, Verb};
use crate::world::PROGRAM;

/// Seconds after which a command counts as hanging.
const PATIENCE_S: &str = "60";
/// Name of the directory that is copied whole.
const TREE: &str = "tree";
/// Where files of the command lie: anywhere.
const ANYWHERE: Spread = Spread::Both;

/// The configuration files and a place for local files.
pub(crate) struct Places {
    pub(crate) patient: PathBuf,
    pub(crate) impatient: PathBuf,
    pub(crate) local: PathBuf,
}

/// What a command left.
pub(crate) struct Left {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

/// Runs `causeway fs …`.
pub(crate) fn run(config: &Path, arguments: &[&str]) -> Result<Left, String> {
    let output = Command::new("timeout")
        .args(["-s", "KILL", PATIENCE_S, PROGRAM, "fs"])
        .args(arguments)
        .env("CAUSEWAY_CONFIG", config)
        .env_remove(causeway_fs::sabotage::VARIABLE)
        .output()
        .map_err(|error| error.to_string())?;
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let Some(code @ 0..=1) = output.status.code() else {
        return Err(format!("{arguments:?}: {}: {err}", output.status));
    };
    if err.contains("panicked") {
        return Err(format!("{arguments:?}: {err}"));
    }
    Ok(Left {
        code,
        out: output.stdout,
        err,
    })
}

/// What a scrub of everything has found.
#[derive(Debug)]
pub(crate) struct Scrubbed {
    pub(crate) code: i32,
    /// Objects whose datafiles are not as they should be.
    pub(crate) damaged: Vec<u64>,
    /// Everything that it printed.
    _said: String,
}

/// Runs `causeway fs scrub` from the front.
pub(crate) fn scrub(config: &Path) -> Result<Scrubbed, String> {
    let left = run(config, &["scrub", "--restart", "--rate", "1GiB", "--json"])?;
    let out = String::from_utf8_lossy(&left.out);
    let said = format!("{} {}", out.trim(), left.err.trim());
    let found: serde_json::Value = match out.lines().find(|line| line.contains("\"damaged\"")) {
        Some(line) => serde_json::from_str(line).map_err(|error| format!("{error}: {said}"))?,
        None if left.code == 0 => return Err(format!("a scrub prints nothing: {said}")),
        None => serde_json::Value::Null,
    };
    let damaged = found["damaged"].as_array();
    let object = |one: &serde_json::Value| one["object"].as_str()?.parse().ok();
    Ok(Scrubbed {
        code: left.code,
        damaged: damaged.into_iter().flatten().filter_map(object).collect(),
        _said: said,
    })
}

/// A client with a directory of its own, and the paths that commands need.
pub(crate) struct Commander {
    pub(crate) actor: Actor,
    pub(crate) places: Places,
    has_tree: bool,
}

impl Commander {
    pub(crate) fn new(actor: Actor, places: Places) -> Self {
        Self {
            actor,
            places,
            has_tree: false,
        }
    }

    fn run(&mut self, arguments: &[&str], conditions: &Conditions) -> Result<Left, String> {
        let config = match conditions.patient(Some(ANYWHERE)) {
            true => &self.places.patient,
            false => &self.places.impatient,
        };
        let left = run(config, arguments)?;
        self.actor.note(format!(
            "  {arguments:?}: {} {}",
            left.code,
            left.err.trim()
        ));
        if left.code != 0 && !conditions.admitted && !conditions.excuses_verb(Some(ANYWHERE)) {
            return Err(format!(
                "no fault excuses this: {arguments:?}: {}",
                left.err
            ));
        }
        Ok(left)
    }

    /// Does one verb.
    pub(crate) fn step(&mut self, verb: Verb, conditions: &Conditions) -> Result<(), String> {
        self.actor.note(format!("{verb:?}"));
        let name = |slot: usize| format!("n{slot}");
        let changes = conditions.may_change(Some(ANYWHERE));
        match verb {
            Verb::Put { slot, len } if changes => self.put(&name(slot), len, conditions),
            Verb::Cp { from, to } if changes && from != to => {
                self.copy(&name(from), &name(to), conditions)
            }
            Verb::Mv { from, to } if changes && from != to => {
                self.rename(&name(from), &name(to), conditions)
            }
            Verb::Rm { slot } if changes => self.remove(&name(slot), conditions),
            Verb::PutTree { files } if changes => self.put_tree(files, conditions),
            Verb::RmTree if changes => self.remove_tree(conditions),
            Verb::Get { slot } => self.get(&name(slot), conditions),
            Verb::Ls => self.list(conditions),
            Verb::Fsck => self.check(conditions),
            Verb::Scrub => self.scrub(conditions),
            Verb::Cat { slot } | Verb::Put { slot, .. } | Verb::Rm { slot } => {
                self.cat(&name(slot), conditions)
            }
            Verb::Cp { from, .. } | Verb::Mv { from, .. } => self.cat(&name(from), conditions),
            Verb::PutTree { .. } | Verb::RmTree => self.list(conditions),
        }
    }

    fn local(&self, name: &str) -> PathBuf {
        self.places.local.join(name)
    }

    /// A copy over a name leaves the old file or the new one, in every case.
    fn replaced(&mut self, name: &str, id: Id, code: i32) {
        match code {
            0 => self.actor.names.set(name, Some(id)),
            _ => self.actor.names.maybe(name, Some(id)),
        }
    }

    fn put(&mut self, name: &str, len: usize, conditions: &Conditions) -> Result<(), String> {
        if self.actor.names.certain(name).is_none() {
            return self.cat(name, conditions);
        }
        let content = bytes(&mut self.actor.dice, len);
        let local = self.local("source");
        std::fs::write(&local, &content).map_err(|error| error.to_string())?;
        let path = self.actor.path(name);
        let left = self.run(&["put", &local.display().to_string(), &path], conditions)?;
        let id = self.actor.names.file(Content::of(content), ANYWHERE, None);
        self.replaced(name, id, left.code);
        Ok(())
    }

    fn copy(&mut self, from: &str, to: &str, conditions: &Conditions) -> Result<(), String> {
        let names = &mut self.actor.names;
        let (Some(Some(id)), Some(_)) = (names.certain(from), names.certain(to)) else {
            return self.cat(from, conditions);
        };
        let content = names.files[&id].content.clone();
        let paths = (self.actor.path(from), self.actor.path(to));
        let left = self.run(&["cp", &paths.0, &paths.1], conditions)?;
        let id = self.actor.names.file(content, ANYWHERE, None);
        self.replaced(to, id, left.code);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, conditions: &Conditions) -> Result<(), String> {
        let names = &self.actor.names;
        let (Some(Some(id)), Some(_)) = (names.certain(from), names.certain(to)) else {
            return self.cat(from, conditions);
        };
        let paths = (self.actor.path(from), self.actor.path(to));
        let left = self.run(&["mv", &paths.0, &paths.1], conditions)?;
        self.actor.names.rename(from, to, id, left.code == 0);
        Ok(())
    }

    fn remove(&mut self, name: &str, conditions: &Conditions) -> Result<(), String> {
        let Some(Some(_)) = self.actor.names.certain(name) else {
            return self.cat(name, conditions);
        };
        let path = self.actor.path(name);
        match self.run(&["rm", &path], conditions)?.code {
            0 => self.actor.names.set(name, None),
            _ => self.actor.names.maybe(name, None),
        }
        Ok(())
    }

    fn put_tree(&mut self, files: usize, conditions: &Conditions) -> Result<(), String> {
        let names = (0..files).map(|number| format!("{TREE}/f{number}"));
        let names: Vec<String> = names.collect();
        if self.has_tree
            || names
                .iter()
                .any(|n| self.actor.names.certain(n) != Some(None))
        {
            return self.list(conditions);
        }
        let local = self.local(TREE);
        // There is none the first time.
        let _ = std::fs::remove_dir_all(&local);
        std::fs::create_dir(&local).map_err(|error| error.to_string())?;
        let mut ids = Vec::new();
        for name in &names {
            let len = self.actor.dice.below(60_000);
            let content = bytes(&mut self.actor.dice, len);
            std::fs::write(self.local(name), &content).map_err(|error| error.to_string())?;
            let file = self.actor.names.file(Content::of(content), ANYWHERE, None);
            ids.push(file);
        }
        let path = self.actor.directory();
        let left = self.run(&["put", &local.display().to_string(), &path], conditions)?;
        self.has_tree = true;
        for (name, id) in names.iter().zip(ids) {
            self.replaced(name, id, left.code);
        }
        Ok(())
    }

    fn remove_tree(&mut self, conditions: &Conditions) -> Result<(), String> {
        if !self.has_tree {
            return self.list(conditions);
        }
        let path = self.actor.path(TREE);
        let left = self.run(&["rm", "-r", "-f", &path], conditions);
        // Part of a tree that was not stored whole may be missing altogether.
        let gone = matches!(&left, Ok(left) if left.code == 0);
        let names = self.actor.names.all();
        for name in names.iter().filter(|name| name.starts_with(TREE)) {
            match gone {
                true => self.actor.names.set(name, None),
                false => self.actor.names.maybe(name, None),
            }
        }
        self.has_tree &= !gone;
        left.map(drop)
    }

    fn cat(&mut self, name: &str, conditions: &Conditions) -> Result<(), String> {
        self.fetch(name, conditions, |places, path, config| {
            let _ = places;
            let left = run(config, &["cat", path])?;
            Ok((left.code, left.out, left.err))
        })
    }

    fn get(&mut self, name: &str, conditions: &Conditions) -> Result<(), String> {
        self.fetch(name, conditions, |places, path, config| {
            let into = places.local.join("fetched");
            // There is none the first time.
            let _ = std::fs::remove_file(&into);
            let left = run(config, &["get", path, &into.display().to_string()])?;
            let bytes = match left.code {
                0 => std::fs::read(&into).map_err(|error| error.to_string())?,
                _ => Vec::new(),
            };
            Ok((left.code, bytes, left.err))
        })
    }

    /// Fetches a file in some way: the bytes that arrive must be right, and complete if the command
    /// reports success.
    fn fetch(
        &mut self,
        name: &str,
        conditions: &Conditions,
        way: impl FnOnce(&Places, &str, &Path) -> Result<(i32, Vec<u8>, String), String>,
    ) -> Result<(), String> {
        let Some(Some(id)) = self.actor.names.certain(name) else {
            return Ok(());
        };
        if conditions.older.is_some() {
            return Ok(());
        }
        let path = self.actor.path(name);
        let config = match conditions.patient(Some(ANYWHERE)) {
            true => &self.places.patient,
            false => &self.places.impatient,
        };
        let (code, found, err) = way(&self.places, &path, config)?;
        self.actor.note(format!("  {path}: {code} {}", err.trim()));
        if conditions.admitted {
            return Ok(());
        }
        let content = &self.actor.names.files[&id].content;
        if code == 0 {
            let asked = content.most() + 1;
            return content
                .check(0, asked.max(found.len() as u64), &found, None, |_| true)
                .map_err(|wrong| format!("{path}: {}", wrong.0));
        }
        if !conditions.excuses_verb(Some(ANYWHERE)) || err.contains("there is no \"") {
            return Err(format!("no fault excuses this: {path}: {err}"));
        }
        content
            .check(0, found.len() as u64, &found, None, |_| true)
            .map_err(|wrong| format!("the beginning of {path}: {}", wrong.0))
    }

    fn list(&mut self, conditions: &Conditions) -> Result<(), String> {
        let path = self.actor.directory();
        let left = self.run(&["ls", &path], conditions)?;
        if left.code != 0 || conditions.admitted || conditions.older.is_some() {
            return Ok(());
        }
        let out = String::from_utf8_lossy(&left.out);
        let listed: Vec<&str> = out.lines().collect();
        for name in self.actor.names.all() {
            let is_there = matches!(self.actor.names.certain(&name), Some(Some(_)));
            if is_there && !name.contains('/') && !listed.contains(&name.as_str()) {
                return Err(format!("{name} is not listed: {listed:?}"));
            }
        }
        Ok(())
    }

    /// Where nothing is damaged, a scrub finds nothing, whatever is written meanwhile.
    fn scrub(&mut self, conditions: &Conditions) -> Result<(), String> {
        let config = match conditions.patient(Some(ANYWHERE)) {
            true => &self.places.patient,
            false => &self.places.impatient,
        };
        let scrubbed = scrub(config)?;
        self.actor.note(format!("  {scrubbed:?}"));
        if matches!(conditions.excuse, Excuse::Wrong | Excuse::Restored) {
            return Ok(());
        }
        match (scrubbed.code, &scrubbed.damaged[..]) {
            (0, []) => Ok(()),
            (_, []) if conditions.excuses_verb(Some(ANYWHERE)) => Ok(()),
            _ => Err(format!(
                "nothing is damaged, and a scrub reports {scrubbed:?}"
            )),
        }
    }

    /// A check that changes nothing may find damage that faults have left, but must end.
    fn check(&mut self, conditions: &Conditions) -> Result<(), String> {
        let config = match conditions.patient(Some(ANYWHERE)) {
            true => &self.places.patient,
            false => &self.places.impatient,
        };
        let left = run(config, &["fsck"])?;
        let out = String::from_utf8_lossy(&left.out).into_owned();
        self.actor
            .note(format!("  fsck: {} {out} {}", left.code, left.err));
        let ended = out.contains("records of the name space");
        if !ended && !conditions.admitted && !conditions.excuses_verb(Some(ANYWHERE)) {
            return Err(format!("fsck does not get through: {out} {}", left.err));
        }
        Ok(())
    }
}
