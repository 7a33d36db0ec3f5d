//! The last steps of `get`, `put` and `cp`, after everything else is copied: further names of
//! files, and attributes and default lists of directories, the deepest first.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock};

use causeway_command::failure::{Failure, Outcome};
use causeway_command::output::{printable, report_item};
use causeway_command::progress::Progress;
use causeway_command::remote::reading;
use causeway_fs::Error;
use causeway_fs::client::Client;
use causeway_wire::fs::{Acl, Node, ObjectId};

use crate::fs::engine::Lost;
use crate::fs::lists::set_default_list;
use crate::fs::store::{Original, is_foreign, set_copy_attributes, store_hard_link};
use crate::fs::tree::RemoteName;

/// Steps that are deferred to the end. `Key` identifies files; `First` is the result for a file's
/// first name, `Name` names copies, `Directory` has the attributes of a directory.
pub(crate) struct AtEnd<Key, First, Name, Directory> {
    /// Each directory comes before those in it.
    directories: Vec<Directory>,
    first_names: HashMap<Key, Arc<First>>,
    further_names: Vec<(Arc<First>, Name)>,
}

impl<Key, First, Name, Directory> Default for AtEnd<Key, First, Name, Directory> {
    fn default() -> Self {
        Self {
            directories: Vec::new(),
            first_names: HashMap::new(),
            further_names: Vec::new(),
        }
    }
}

impl<Key: Eq + Hash, First, Name, Directory> AtEnd<Key, First, Name, Directory> {
    /// Adds a directory that has been made, and whose attributes are set at the end.
    pub(crate) fn directory(&mut self, directory: Directory) {
        self.directories.push(directory);
    }

    /// Adds a name of a file that has several. Returns the name and, if it is the file's first, where the caller stores the result
    /// for it; each further name becomes a link to the copy at the end.
    pub(crate) fn name(
        &mut self,
        key: Key,
        name: Name,
        first: impl FnOnce(&Name) -> First,
    ) -> Option<(Name, Arc<First>)> {
        if let Some(known) = self.first_names.get(&key) {
            self.further_names.push((Arc::clone(known), name));
            return None;
        }
        let first = Arc::new(first(&name));
        self.first_names.insert(key, Arc::clone(&first));
        Some((name, first))
    }

    /// Carries out the deferred steps, and reports their failures. Returns the number of failures.
    pub(crate) fn conclude(
        self,
        progress: &Progress,
        mut link: impl FnMut(&First, &Name) -> Outcome,
        mut finish: impl FnMut(Directory) -> Outcome,
    ) -> u64 {
        let mut failures = 0;
        for (first, name) in self.further_names {
            match link(&first, &name) {
                Ok(()) => progress.advance(0, 1),
                failed => failures += count(progress, failed),
            }
        }
        for directory in self.directories.into_iter().rev() {
            failures += count(progress, finish(directory));
        }
        failures
    }
}

/// Reports a failure. Returns the number of failures, 0 or 1.
pub(crate) fn count(progress: &Progress, result: Outcome) -> u64 {
    match result {
        Ok(()) => 0,
        Err(failure) => {
            progress.print_above(|| report_item(&failure));
            1
        }
    }
}

/// The failure of a further name, `shown`, of a file whose first name was not copied.
pub(crate) fn first_name_failed(shown: &str) -> Failure {
    Failure::new(
        format!("linking {shown}"),
        "the file's first name was not copied",
    )
    .hint("see the failure above, and copy again")
}

/// The result for a file's first name in the file system: the copy, once it is stored.
pub(crate) type Stored = OnceLock<ObjectId>;

/// The steps deferred to the end of copying into the file system; `Metadata` is a directory's
/// attributes.
pub(crate) type StoredAtEnd<Key, Metadata> =
    AtEnd<Key, Stored, RemoteName, (Node, Metadata, Vec<u8>)>;

/// Carries out the steps deferred while copying into the file system, and makes metadata durable if
/// `sync`. Returns how many of them failed.
pub(crate) fn conclude_stored<'a, Key: Eq + Hash, Metadata>(
    client: &mut Client,
    at_end: StoredAtEnd<Key, Metadata>,
    (progress, lost): (&Progress, &Lost),
    original: impl Fn(&Metadata) -> Original<'a>,
    default_list: impl Fn(&mut Client, &Metadata) -> Result<Option<Acl>, Error>,
    sync: bool,
) -> u64 {
    let shared = std::cell::RefCell::new(client);
    let mut failures = at_end.conclude(
        progress,
        |first, to| match first.get() {
            Some(object) => store_hard_link(&mut shared.borrow_mut(), *object, to),
            None => Err(first_name_failed(&printable(&to.path))),
        },
        |(node, known, path)| {
            if is_foreign(&node.attributes) {
                Lost::add(&lost.attributes);
                return Ok(());
            }
            let client = &mut shared.borrow_mut();
            default_list(client, &known)
                .and_then(|acl| set_default_list(client, node.object, acl.as_ref(), lost))
                .map_err(|error| reading(&path, error))?;
            set_copy_attributes(client, (&node, &path), &original(&known))
        },
    );
    if sync {
        let committed = shared.into_inner().commit().map_err(Failure::from);
        failures += count(progress, committed);
    }
    failures
}
