//! Which names there may be in a client's directory, and what they may refer to.

use std::collections::BTreeMap;

use crate::content::Content;
use crate::plan::Spread;

/// A file of the model. Numbers are never used again.
pub(crate) type Id = u64;

/// What is known of a file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) content: Content,
    pub(crate) spread: Spread,
    /// The file system's number of it, once it was seen.
    pub(crate) object: Option<u64>,
}

/// A client's directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// What each name may refer to; a name without an entry is certainly absent.
    entries: BTreeMap<String, Vec<Option<Id>>>,
    pub(crate) files: BTreeMap<Id, File>,
    /// Renames of which nothing is known: the file must have one of both names.
    moved: Vec<(String, String, Id)>,
    next: Id,
}

const ABSENT: &[Option<Id>] = &[None];

impl Names {
    /// These names as they were at an earlier moment. Files made since get other numbers than those of now.
    pub(crate) fn restored(&self, earlier: Self) -> Self {
        Self {
            next: self.next,
            ..earlier
        }
    }

    /// What a name may refer to.
    pub(crate) fn candidates(&self, name: &str) -> &[Option<Id>] {
        self.entries.get(name).map_or(ABSENT, Vec::as_slice)
    }

    /// What a name refers to, if that is certain.
    pub(crate) fn certain(&self, name: &str) -> Option<Option<Id>> {
        match self.candidates(name) {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// All names that there may be.
    pub(crate) fn all(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// A file to which no name refers yet.
    pub(crate) fn file(&mut self, content: Content, spread: Spread, object: Option<u64>) -> Id {
        self.next += 1;
        let file = File {
            content,
            spread,
            object,
        };
        self.files.insert(self.next, file);
        self.next
    }

    /// Notes what a name certainly refers to from now on.
    pub(crate) fn set(&mut self, name: &str, id: Option<Id>) {
        match id {
            Some(_) => drop(self.entries.insert(name.to_owned(), vec![id])),
            None => drop(self.entries.remove(name)),
        }
    }

    /// Notes that a name may refer to this as well.
    pub(crate) fn maybe(&mut self, name: &str, id: Option<Id>) {
        let entry = self.entries.entry(name.to_owned());
        let entry = entry.or_insert_with(|| ABSENT.to_vec());
        if !entry.contains(&id) {
            entry.push(id);
        }
    }

    /// A file had the name `from` and was given the name `to`, or not.
    pub(crate) fn rename(&mut self, from: &str, to: &str, id: Id, acknowledged: bool) {
        if acknowledged {
            // Two names of one file stay as they are (POSIX).
            if self.certain(to) != Some(Some(id)) {
                self.set(from, None);
            }
            self.set(to, Some(id));
        } else {
            self.maybe(from, None);
            self.maybe(to, Some(id));
            self.moved.push((from.to_owned(), to.to_owned(), id));
        }
    }

    /// Ends all doubts about renames, when every name has become certain.
    pub(crate) fn end_doubts(&mut self) -> Result<(), String> {
        for (from, to, id) in std::mem::take(&mut self.moved) {
            let has = |name: &str| self.certain(name) == Some(Some(id));
            if !has(&from) && !has(&to) {
                return Err(format!("a rename of {from} to {to} has lost the file"));
            }
        }
        Ok(())
    }
}
