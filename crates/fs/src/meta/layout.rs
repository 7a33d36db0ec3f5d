//! The layout: which I/O servers there are, their permanent numbers in distributions, and which
//! directories are theirs. It changes only when an operator requests it, or when a server is registered.

use causeway_wire::codec::Wire;
use causeway_wire::fs::{Errno, Generation, LayoutPart, LayoutServer, MAX_LAYOUT_PART};
use causeway_wire::store::{
    Counter, Key, LAYOUT_EPOCH_KEY, SUPERBLOCK_KEY, ServerRecord, server_key,
};

use super::fault::{Outcome, corrupt, fail, malformed};
use super::query::read_record;
use super::store::{Batch, View, prefix_end};

/// First bytes of the keys of servers.
const SERVERS: &[u8] = b"v";

/// The I/O servers of a file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The number of changes so far.
    pub epoch: u64,
    /// The servers by number.
    pub servers: Vec<ServerRecord>,
}

impl Layout {
    /// The layout of a new file system. None of the servers is registered.
    pub(super) fn new(names: &[String]) -> Self {
        let server = |name: &String| ServerRecord {
            name: name.clone(),
            generation: Generation::NONE,
            accepted: Generation::NONE,
            active: true,
        };
        Self {
            epoch: 1,
            servers: names.iter().map(server).collect(),
        }
    }

    /// Reads the layout.
    pub(super) fn load(view: &dyn View) -> Outcome<Self> {
        let epoch: Counter = read_record(view, LAYOUT_EPOCH_KEY, "the layout's epoch")?;
        let mut servers = Vec::new();
        for pair in view.range(SERVERS, &prefix_end(SERVERS)) {
            let (key, value) = pair?;
            let record =
                ServerRecord::from_bytes(&value).map_err(malformed("a server's record"))?;
            match Key::parse(&key).map_err(malformed("a server's key"))? {
                Key::Server(index) if usize::from(index) == servers.len() => servers.push(record),
                _ => {
                    return Err(corrupt(format_args!(
                        "the layout has {} servers, then one under {key:02x?}",
                        servers.len()
                    )));
                }
            }
        }
        Ok(Self {
            epoch: epoch.0,
            servers,
        })
    }

    /// All records of the layout, to be stored.
    pub(super) fn store(&self, batch: &mut Batch) {
        batch.insert(
            LAYOUT_EPOCH_KEY.to_vec(),
            Some(Counter(self.epoch).to_bytes()),
        );
        for (index, record) in self.numbered() {
            batch.insert(server_key(index), Some(record.to_bytes()));
        }
    }

    /// The servers with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (u16, &ServerRecord)> {
        (0..).zip(&self.servers)
    }

    /// Numbers of the servers that new files use.
    pub(super) fn active(&self) -> Vec<u16> {
        self.numbered()
            .filter_map(|(index, record)| record.active.then_some(index))
            .collect()
    }

    /// The servers in the form that clients get.
    pub(crate) fn for_clients(&self) -> impl Iterator<Item = LayoutServer> {
        self.numbered().map(|(index, record)| LayoutServer {
            index,
            name: record.name.clone(),
            generation: record.generation,
            active: record.active,
        })
    }

    /// A part of the layout in the form that clients get.
    pub(crate) fn part(&self, from: u16) -> LayoutPart {
        LayoutPart {
            epoch: self.epoch,
            count: self.servers.len() as u32,
            servers: (self.for_clients().skip(from.into()))
                .take(MAX_LAYOUT_PART)
                .collect(),
        }
    }

    /// Servers whose directory is to be registered.
    pub(crate) fn unregistered(&self) -> Vec<(u16, ServerRecord)> {
        self.numbered()
            .filter(|(_, record)| record.generation.is_none() || !record.accepted.is_none())
            .map(|(index, record)| (index, record.clone()))
            .collect()
    }

    pub(super) fn find(&self, name: &str) -> Option<(u16, &ServerRecord)> {
        self.numbered().find(|(_, record)| record.name == name)
    }

    pub(super) fn known(&self, name: &str) -> Outcome<(u16, &ServerRecord)> {
        match self.find(name) {
            Some(found) => Ok(found),
            None => fail(
                Errno::ENOENT,
                format!("the file system has no server {name}"),
            ),
        }
    }

    /// The changed layout with the directory of a server registered.
    pub(super) fn register(&self, index: u16, generation: Generation) -> Option<Batch> {
        let mut record = self.servers.get(usize::from(index))?.clone();
        // A server that was drained stays so in a new directory.
        record.active |= record.generation.is_none();
        record.generation = generation;
        record.accepted = Generation::NONE;
        let changed = self.with_server(index, &record);
        Some(changed.map(|(key, value)| (key, Some(value))).into())
    }

    /// The records that change when the layout has this server under this number.
    pub(super) fn with_server(&self, index: u16, record: &ServerRecord) -> [(Vec<u8>, Vec<u8>); 2] {
        let epoch = Counter(self.epoch + 1);
        [
            (server_key(index), record.to_bytes()),
            (LAYOUT_EPOCH_KEY.to_vec(), epoch.to_bytes()),
        ]
    }
}

/// Whether a batch changes the layout.
pub(super) fn is_changed_by(batch: &Batch) -> bool {
    batch.contains_key(LAYOUT_EPOCH_KEY) || batch.contains_key(SUPERBLOCK_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_servers_are_used_once_registered_and_drained_ones_stay_drained() {
        let mut layout = Layout::new(&["new".to_owned(), "drained".to_owned()]);
        layout.servers[0].active = false;
        layout.servers[1].active = false;
        layout.servers[1].generation = Generation(5);
        for (index, active) in [(0, true), (1, false)] {
            let batch = layout.register(index, Generation(6)).unwrap();
            let bytes = batch[&server_key(index)].as_deref().unwrap();
            let record = ServerRecord::from_bytes(bytes).unwrap();
            assert_eq!((record.generation, record.active), (Generation(6), active));
        }
    }
}
