//! Reading a directory entry by entry, page by page.

use std::collections::VecDeque;
use std::sync::Arc;

use causeway_wire::fs::{Entry, Errno, Kind, ObjectId};

use crate::Error;
use crate::pool::Clients;

/// Entries that are requested at a time.
const PAGE: u32 = 500;

/// A directory that is being read. Names that are made or removed meanwhile may be missing or included; no name is returned
/// twice.
pub struct Listing {
    clients: Arc<Clients>,
    directory: ObjectId,
    attributes: bool,
    after: Vec<u8>,
    page: VecDeque<Entry>,
    is_last: bool,
}

impl Listing {
    /// Opens a directory; entries have their attributes if `attributes` is set.
    pub fn open(clients: &Arc<Clients>, path: &[u8], attributes: bool) -> Result<Self, Error> {
        let node = clients.call(None, |client| client.stat(path, true))?;
        if node.attributes.kind != Kind::Directory {
            return Err(Error {
                operation: "opendir",
                subject: String::from_utf8_lossy(path).escape_debug().to_string(),
                errno: Errno::ENOTDIR,
                message: Errno::ENOTDIR.to_string(),
                server: None,
            });
        }
        Ok(Self {
            clients: Arc::clone(clients),
            directory: node.object,
            attributes,
            after: Vec::new(),
            page: VecDeque::new(),
            is_last: false,
        })
    }

    /// The next entry, in the order of names; `None` behind the last one. May be called again after an error.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        if self.page.is_empty() && !self.is_last {
            let (entries, is_last) = self.clients.call(None, |client| {
                client.read_directory(self.directory, &self.after, PAGE, self.attributes)
            })?;
            if let Some(last) = entries.last() {
                self.after.clone_from(&last.name);
            }
            self.is_last = is_last;
            self.page = entries.into();
        }
        Ok(self.page.pop_front())
    }
}
