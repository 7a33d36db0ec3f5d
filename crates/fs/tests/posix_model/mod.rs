//! A model of a POSIX name space, which tests of the metadata service and of clients compare with.

use std::collections::BTreeMap;

use causeway_wire::fs::{Errno, Kind};

/// An object of the model.
#[derive(Debug, Clone)]
enum Thing {
    File(Vec<u8>),
    Directory {
        entries: BTreeMap<String, usize>,
        parent: usize,
    },
    Link(String),
}

/// The name space as a table of things; number 0 is the root. Written after the POSIX text, not after
/// the service: paths are resolved by recursion, link counts are counted when asked for.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    things: Vec<Thing>,
    modified: Vec<i64>,
}

/// Where a path ends: a directory and a last name, or a directory reached without one.
enum End {
    Name(usize, String, bool),
    Special,
}

pub(crate) type Outcome<T> = Result<T, Errno>;

impl Model {
    pub(crate) fn new() -> Self {
        let root = Thing::Directory {
            entries: BTreeMap::new(),
            parent: 0,
        };
        Self {
            things: vec![root],
            modified: vec![0],
        }
    }

    fn entries(&self, directory: usize) -> Outcome<&BTreeMap<String, usize>> {
        match &self.things[directory] {
            Thing::Directory { entries, .. } => Ok(entries),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn is_directory(&self, thing: usize) -> bool {
        matches!(self.things[thing], Thing::Directory { .. })
    }

    /// The directory that a path of components leads to.
    fn descend(&self, from: usize, components: &[&str], links: &mut u32) -> Outcome<usize> {
        let Some((first, rest)) = components.split_first() else {
            return Ok(from);
        };
        let entries = self.entries(from)?;
        let next = match *first {
            "." => from,
            ".." => match self.things[from] {
                Thing::Directory { parent, .. } => parent,
                _ => return Err(Errno::ENOTDIR),
            },
            name => *entries.get(name).ok_or(Errno::ENOENT)?,
        };
        let next = self.follow(from, next, links)?;
        self.descend(next, rest, links)
    }

    /// What a link leads to, or the thing itself.
    fn follow(&self, directory: usize, thing: usize, links: &mut u32) -> Outcome<usize> {
        let Thing::Link(target) = &self.things[thing] else {
            return Ok(thing);
        };
        *links += 1;
        if *links > 40 {
            return Err(Errno::ELOOP);
        }
        let start = if target.starts_with('/') {
            0
        } else {
            directory
        };
        let components = split(target);
        let reached = self.descend(start, &components, links)?;
        match target.ends_with('/') && !self.is_directory(reached) {
            true => Err(Errno::ENOTDIR),
            false => Ok(reached),
        }
    }

    fn end(&self, path: &str) -> Outcome<End> {
        let components = split(path);
        let Some((last, before)) = components.split_last() else {
            return Ok(End::Special);
        };
        let directory = self.descend(0, before, &mut 0)?;
        self.entries(directory)?;
        match *last {
            "." | ".." => Ok(End::Special),
            name => Ok(End::Name(directory, name.into(), path.ends_with('/'))),
        }
    }

    fn child(&self, directory: usize, name: &str) -> Option<usize> {
        self.entries(directory).ok()?.get(name).copied()
    }

    fn touch(&mut self, thing: usize, now: i64) {
        self.modified[thing] = now;
    }

    fn put(&mut self, directory: usize, name: &str, thing: usize, now: i64) {
        if let Thing::Directory { entries, .. } = &mut self.things[directory] {
            entries.insert(name.into(), thing);
        }
        if let Thing::Directory { parent, .. } = &mut self.things[thing] {
            *parent = directory;
        }
        self.touch(directory, now);
    }

    fn take(&mut self, directory: usize, name: &str, now: i64) {
        if let Thing::Directory { entries, .. } = &mut self.things[directory] {
            entries.remove(name);
        }
        self.touch(directory, now);
    }

    fn make(&mut self, directory: usize, name: &str, thing: Thing, now: i64) {
        self.things.push(thing);
        self.modified.push(now);
        self.put(directory, name, self.things.len() - 1, now);
    }

    /// Carries a step out at a time, in nanoseconds.
    pub(crate) fn apply(&mut self, step: &Step, now: i64) -> Outcome<()> {
        match step {
            Step::Create(path) => match self.end(path)? {
                End::Special => Err(Errno::EISDIR),
                End::Name(directory, name, _) if self.child(directory, &name).is_some() => {
                    Err(Errno::EEXIST)
                }
                End::Name(_, _, true) => Err(Errno::EISDIR),
                End::Name(directory, name, false) => {
                    self.make(directory, &name, Thing::File(path.as_bytes().to_vec()), now);
                    Ok(())
                }
            },
            Step::MakeDirectory(path) | Step::SymbolicLink(path, _) => {
                let End::Name(directory, name, slash) = self.end(path)? else {
                    return Err(Errno::EEXIST);
                };
                if self.child(directory, &name).is_some() {
                    return Err(Errno::EEXIST);
                }
                let thing = match step {
                    Step::SymbolicLink(_, target) => Thing::Link(target.clone()),
                    _ => Thing::Directory {
                        entries: BTreeMap::new(),
                        parent: directory,
                    },
                };
                if slash && matches!(thing, Thing::Link(_)) {
                    return Err(Errno::ENOENT);
                }
                self.make(directory, &name, thing, now);
                Ok(())
            }
            Step::Unlink(path) => {
                let End::Name(directory, name, slash) = self.end(path)? else {
                    return Err(Errno::EISDIR);
                };
                let victim = self.child(directory, &name).ok_or(Errno::ENOENT)?;
                if self.is_directory(victim) {
                    return Err(Errno::EISDIR);
                }
                if slash {
                    return Err(Errno::ENOTDIR);
                }
                self.take(directory, &name, now);
                Ok(())
            }
            Step::RemoveDirectory(path) => self.remove_directory(path, now),
            Step::Rename(from, to, no_replace) => self.rename(from, to, *no_replace, now),
            Step::Exchange(first, second) => self.exchange(first, second, now),
            Step::Link(from, to) => self.link(from, to, now),
        }
    }

    fn remove_directory(&mut self, path: &str, now: i64) -> Outcome<()> {
        let End::Name(directory, name, _) = self.end(path)? else {
            return Err(match split(path).last() {
                None => Errno::EBUSY,
                Some(&".") => Errno::EINVAL,
                Some(_) => Errno::ENOTEMPTY,
            });
        };
        let victim = self.child(directory, &name).ok_or(Errno::ENOENT)?;
        if !self.entries(victim)?.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.take(directory, &name, now);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str, no_replace: bool, now: i64) -> Outcome<()> {
        let End::Name(old, old_name, old_slash) = self.end(from)? else {
            return Err(Errno::EBUSY);
        };
        let End::Name(new, new_name, new_slash) = self.end(to)? else {
            return Err(Errno::EBUSY);
        };
        let moved = self.child(old, &old_name).ok_or(Errno::ENOENT)?;
        let victim = self.child(new, &new_name);
        if no_replace && victim.is_some() {
            return Err(Errno::EEXIST);
        }
        let directory = self.is_directory(moved);
        if !directory && (old_slash || (new_slash && victim.is_none())) {
            return Err(Errno::ENOTDIR);
        }
        if victim == Some(moved) {
            return Ok(());
        }
        if directory && old != new && self.is_below(new, moved) {
            return Err(Errno::EINVAL);
        }
        if let Some(victim) = victim {
            match (directory, self.is_directory(victim)) {
                (false, true) => return Err(Errno::EISDIR),
                (true, false) => return Err(Errno::ENOTDIR),
                (true, true) if !self.entries(victim)?.is_empty() => return Err(Errno::ENOTEMPTY),
                (false, false) if new_slash => return Err(Errno::ENOTDIR),
                _ => {}
            }
        }
        self.take(old, &old_name, now);
        self.put(new, &new_name, moved, now);
        Ok(())
    }

    /// Whether a directory is another one, or lies below it.
    fn is_below(&self, directory: usize, other: usize) -> bool {
        let mut above = directory;
        while above != 0 && above != other {
            match self.things[above] {
                Thing::Directory { parent, .. } => above = parent,
                _ => unreachable!("a parent is a directory"),
            }
        }
        above == other
    }

    fn exchange(&mut self, first: &str, second: &str, now: i64) -> Outcome<()> {
        let End::Name(one, one_name, one_slash) = self.end(first)? else {
            return Err(Errno::EBUSY);
        };
        let End::Name(two, two_name, two_slash) = self.end(second)? else {
            return Err(Errno::EBUSY);
        };
        let mut moved = Vec::new();
        for (directory, name, slash) in [(one, &one_name, one_slash), (two, &two_name, two_slash)] {
            let thing = self.child(directory, name).ok_or(Errno::ENOENT)?;
            if slash && !self.is_directory(thing) {
                return Err(Errno::ENOTDIR);
            }
            moved.push(thing);
        }
        if moved[0] == moved[1] {
            return Ok(());
        }
        if one != two && (self.is_below(two, moved[0]) || self.is_below(one, moved[1])) {
            return Err(Errno::EINVAL);
        }
        self.take(one, &one_name, now);
        self.take(two, &two_name, now);
        self.put(two, &two_name, moved[0], now);
        self.put(one, &one_name, moved[1], now);
        Ok(())
    }

    fn link(&mut self, from: &str, to: &str, now: i64) -> Outcome<()> {
        let thing = match self.end(from)? {
            End::Name(directory, name, false) => {
                self.child(directory, &name).ok_or(Errno::ENOENT)?
            }
            _ => return Err(Errno::EINVAL),
        };
        let End::Name(directory, name, slash) = self.end(to)? else {
            return Err(Errno::EEXIST);
        };
        if self.child(directory, &name).is_some() {
            return Err(Errno::EEXIST);
        }
        if self.is_directory(thing) {
            return Err(Errno::EPERM);
        }
        if slash {
            return Err(Errno::ENOENT);
        }
        self.put(directory, &name, thing, now);
        Ok(())
    }

    /// A line for each name: its path, and what it stands for.
    pub(crate) fn dump(&self) -> Vec<String> {
        let mut names = vec![0usize; self.things.len()];
        let mut lines = Vec::new();
        let mut paths = vec![(String::new(), 0)];
        let mut index = 0;
        while let Some((path, thing)) = paths.get(index).cloned() {
            index += 1;
            names[thing] += 1;
            if let Thing::Directory { entries, .. } = &self.things[thing] {
                paths.extend(
                    entries
                        .iter()
                        .map(|(name, child)| (format!("{path}/{name}"), *child)),
                );
            }
        }
        for (path, thing) in paths {
            let (kind, links, size, body) = match &self.things[thing] {
                Thing::File(content) => (
                    Kind::File,
                    names[thing],
                    content.len(),
                    format!("{:?} false", Some(content)),
                ),
                Thing::Link(target) => (
                    Kind::SymbolicLink,
                    names[thing],
                    target.len(),
                    target.clone(),
                ),
                Thing::Directory { entries, .. } => {
                    let below = entries
                        .values()
                        .filter(|child| self.is_directory(**child))
                        .count();
                    (Kind::Directory, 2 + below, entries.len(), String::new())
                }
            };
            let modified = self.modified[thing];
            lines.push(format!(
                "{path} {kind:?} links {links} size {size} modified {modified} {body}"
            ));
        }
        lines.sort();
        lines
    }
}

/// The components of a path.
pub(crate) fn split(path: &str) -> Vec<&str> {
    path.split('/')
        .filter(|component| !component.is_empty())
        .collect()
}

/// A change.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Create(String),
    MakeDirectory(String),
    SymbolicLink(String, String),
    Link(String, String),
    Unlink(String),
    RemoveDirectory(String),
    Rename(String, String, bool),
    Exchange(String, String),
}
