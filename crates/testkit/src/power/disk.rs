//! Contents of a disk, their synced part, and the states in which a crash may leave the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use crate::random::Random;

/// Bytes that a disk writes entirely or not at all.
pub const SECTOR: usize = 512;
/// The root directory.
pub const ROOT: u64 = 1;

type Sector = Arc<[u8; SECTOR]>;

/// Versions of a value since the last sync: the synced one, and later ones that may have been stored,
/// the newest last.
#[derive(Debug, Clone)]
struct Versions<T> {
    safe: T,
    since: Vec<T>,
    /// A sync has failed since the last version came: later ones do not write it either.
    is_dropped: bool,
}

impl<T: Clone> Versions<T> {
    fn new(safe: T) -> Self {
        Self {
            safe,
            since: Vec::new(),
            is_dropped: false,
        }
    }

    fn push(&mut self, version: T) {
        self.since.push(version);
        self.is_dropped = false;
    }

    /// As kernels do: data of a failed sync read as before, but count as written.
    fn fail_sync(&mut self) {
        self.is_dropped = !self.since.is_empty();
    }

    fn now(&self) -> &T {
        self.since.last().unwrap_or(&self.safe)
    }

    fn sync(&mut self) {
        if self.is_dropped {
            return;
        }
        if let Some(last) = self.since.pop() {
            self.safe = last;
            self.since.clear();
        }
    }

    /// One of the versions.
    fn one(&self, choice: &mut Choice<'_>) -> T {
        match choice.below(self.since.len() + 1) {
            0 => self.safe.clone(),
            number => self.since[number - 1].clone(),
        }
    }
}

/// A file or directory. Names are kept separately, as they belong to their directories.
#[derive(Debug, Clone)]
pub struct Node {
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Permission bits; not versioned.
    pub mode: u16,
    /// Owner and group; not versioned.
    pub owner: (u32, u32),
    size: Versions<u64>,
    sectors: BTreeMap<u64, Versions<Option<Sector>>>,
    attributes: Versions<BTreeMap<OsString, Vec<u8>>>,
}

impl Node {
    fn new(is_directory: bool, mode: u16, owner: (u32, u32)) -> Self {
        Self {
            is_directory,
            mode,
            owner,
            size: Versions::new(0),
            sectors: BTreeMap::new(),
            attributes: Versions::new(BTreeMap::new()),
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        *self.size.now()
    }

    /// Its extended attributes.
    pub fn attributes(&self) -> &BTreeMap<OsString, Vec<u8>> {
        self.attributes.now()
    }

    fn sector(&self, number: u64) -> Option<&Sector> {
        self.sectors.get(&number)?.now().as_ref()
    }

    /// Up to `len` bytes from `offset` on.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let end = self.size().min(offset.saturating_add(len as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        let mut at = offset;
        while at < end {
            let (number, start) = (at / SECTOR as u64, (at % SECTOR as u64) as usize);
            let count = (SECTOR - start).min((end - at) as usize);
            if let Some(sector) = self.sector(number) {
                let to = (at - offset) as usize;
                bytes[to..to + count].copy_from_slice(&sector[start..start + count]);
            }
            at += count as u64;
        }
        bytes
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (number, start) = (at / SECTOR as u64, (at % SECTOR as u64) as usize);
            let count = (SECTOR - start).min(data.len() - done);
            let mut bytes = self.sector(number).map_or([0; SECTOR], |sector| **sector);
            bytes[start..start + count].copy_from_slice(&data[done..done + count]);
            let versions = self.sectors.entry(number);
            let versions = versions.or_insert_with(|| Versions::new(None));
            versions.push(Some(Arc::new(bytes)));
            done += count;
        }
        let end = offset + data.len() as u64;
        if end > self.size() {
            self.size.push(end);
        }
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size() {
            let first = size / SECTOR as u64;
            let keep = (size % SECTOR as u64) as usize;
            for (&number, versions) in self.sectors.range_mut(first..) {
                let cut = match versions.now() {
                    Some(sector) if number == first && keep > 0 => {
                        let mut bytes = **sector;
                        bytes[keep..].fill(0);
                        Some(Arc::new(bytes))
                    }
                    _ => None,
                };
                versions.push(cut);
            }
        }
        self.size.push(size);
    }

    /// As `fdatasync`, or with `all` as `fsync`.
    fn sync(&mut self, all: bool) {
        self.size.sync();
        self.sectors.values_mut().for_each(Versions::sync);
        self.sectors
            .retain(|_, sector| sector.safe.is_some() || sector.is_dropped);
        if all {
            self.attributes.sync();
        }
    }

    /// The data are not written, and never will be unless they are written again. What journaling file systems
    /// keep separate from data, sizes and attributes, waits for the next sync.
    fn fail_sync(&mut self) {
        self.sectors.values_mut().for_each(Versions::fail_sync);
    }

    fn crash(&self, choice: &mut Choice<'_>) -> Self {
        let sectors = self.sectors.iter().filter_map(|(&number, versions)| {
            let left = versions.one(choice)?;
            Some((number, Versions::new(Some(left))))
        });
        let mut node = Self {
            sectors: sectors.collect(),
            size: Versions::new(self.size.one(choice)),
            attributes: Versions::new(self.attributes.one(choice)),
            ..*self
        };
        // Bytes behind the end were not stored, and read as zeros when the file grows again.
        let size = node.size();
        let first = size / SECTOR as u64;
        let keep = (size % SECTOR as u64) as usize;
        node.sectors
            .retain(|&number, _| number < size.div_ceil(SECTOR as u64));
        if keep > 0
            && let Some(versions) = node.sectors.get_mut(&first)
            && let Some(sector) = &mut versions.safe
        {
            Arc::make_mut(sector)[keep..].fill(0);
        }
        node
    }

    fn is_synced(&self) -> bool {
        self.size.since.is_empty()
            && self.attributes.since.is_empty()
            && self.sectors.values().all(|sector| sector.since.is_empty())
    }
}

/// A name: its directory, and the entry there.
pub type Key = (u64, OsString);

/// A change of names that happens as a whole.
#[derive(Debug, Clone)]
struct Rename {
    changes: Vec<(Key, Option<u64>)>,
}

impl Rename {
    fn touches(&self, directory: u64) -> bool {
        self.changes.iter().any(|((of, _), _)| *of == directory)
    }

    fn shares_a_name(&self, other: &Self) -> bool {
        let mut keys = self.changes.iter().map(|(key, _)| key);
        keys.any(|key| other.changes.iter().any(|(other, _)| other == key))
    }
}

/// How much a crash takes of unsynced changes.
#[derive(Debug, Clone, Copy)]
enum Severity {
    /// All: nothing was written back before the crash.
    All,
    /// Nothing: everything was written back.
    Nothing,
    /// Each name and each block was written back up to any version, by itself.
    Some,
    /// Most were written back in their newest version, one in twelve up to any.
    Little,
    /// Most were not written back at all, one in twelve up to any version.
    NearlyAll,
}

struct Choice<'a> {
    random: &'a mut Random,
    severity: Severity,
}

impl Choice<'_> {
    /// A version out of `count`, of which the last is the newest.
    fn below(&mut self, count: usize) -> usize {
        let newest = count - 1;
        match self.severity {
            Severity::All => 0,
            Severity::Nothing => newest,
            Severity::Some => self.random.below(count),
            Severity::Little if self.random.below(12) > 0 => newest,
            Severity::NearlyAll if self.random.below(12) > 0 => 0,
            Severity::Little | Severity::NearlyAll => self.random.below(count),
        }
    }
}

/// A disk with synced and unsynced versions. Copies share common content.
#[derive(Debug, Clone)]
pub struct Disk {
    nodes: BTreeMap<u64, Arc<Node>>,
    next: u64,
    /// Names as they are.
    names: BTreeMap<Key, u64>,
    /// Names as they were synced.
    safe_names: BTreeMap<Key, u64>,
    /// Changes of names since, in order.
    renames: Vec<Rename>,
    /// Bytes that it has in all.
    capacity: u64,
}

impl Disk {
    /// An empty disk with a root that belongs to this user and group.
    pub fn new(capacity: u64, owner: (u32, u32)) -> Self {
        let root = Node::new(true, 0o755, owner);
        Self {
            nodes: BTreeMap::from([(ROOT, Arc::new(root))]),
            next: ROOT + 1,
            names: BTreeMap::new(),
            safe_names: BTreeMap::new(),
            renames: Vec::new(),
            capacity,
        }
    }

    /// The node of this number.
    pub fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number).map(Arc::as_ref)
    }

    /// The number of the object to which a name refers.
    pub fn lookup(&self, key: &Key) -> Option<u64> {
        self.names.get(key).copied()
    }

    /// The names of a directory, in order.
    pub fn list(&self, directory: u64) -> impl Iterator<Item = (&OsString, u64)> {
        let from = (directory, OsString::new());
        let range = self.names.range(from..);
        range
            .take_while(move |((of, _), _)| *of == directory)
            .map(|((_, name), number)| (name, *number))
    }

    /// Bytes in all, and bytes that are free.
    pub fn space(&self) -> (u64, u64) {
        let sectors: usize = self.nodes.values().map(|node| node.sectors.len()).sum();
        let used = (sectors * SECTOR) as u64;
        (self.capacity, self.capacity.saturating_sub(used))
    }

    /// Makes a file or directory under a name that does not exist.
    pub fn make(&mut self, key: Key, is_directory: bool, mode: u16, owner: (u32, u32)) -> u64 {
        let number = self.next;
        self.next += 1;
        let node = Node::new(is_directory, mode, owner);
        self.nodes.insert(number, Arc::new(node));
        self.change(vec![(key, Some(number))]);
        number
    }

    /// Makes several names refer to other objects, or to none, in one step.
    pub fn change(&mut self, changes: Vec<(Key, Option<u64>)>) {
        for (key, number) in &changes {
            apply(&mut self.names, key, *number);
        }
        self.renames.push(Rename { changes });
    }

    fn node_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&number).map(Arc::make_mut)
    }

    /// Writes; `false` if there is no such file.
    pub fn write(&mut self, number: u64, offset: u64, data: &[u8]) -> bool {
        let node = self.node_mut(number);
        node.map(|node| node.write(offset, data)).is_some()
    }

    /// Cuts or grows a file.
    pub fn set_size(&mut self, number: u64, size: u64) {
        if let Some(node) = self.node_mut(number)
            && node.size() != size
        {
            node.set_size(size);
        }
    }

    /// Sets permission bits, at once for good.
    pub fn set_mode(&mut self, number: u64, mode: u16) {
        if let Some(node) = self.node_mut(number) {
            node.mode = mode;
        }
    }

    /// Sets an extended attribute.
    pub fn set_attribute(&mut self, number: u64, name: OsString, value: Option<Vec<u8>>) {
        if let Some(node) = self.node_mut(number) {
            let mut attributes = node.attributes.now().clone();
            match value {
                Some(value) => attributes.insert(name, value),
                None => attributes.remove(&name),
            };
            node.attributes.push(attributes);
        }
    }

    /// `fdatasync` of a file, or with `all` its `fsync`; of a directory, its names become durable.
    pub fn sync(&mut self, number: u64, all: bool) {
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        if node.is_directory {
            self.sync_names(number);
        } else if !node.is_synced() {
            Arc::make_mut(node).sync(all);
        }
    }

    /// A sync of a file that fails; of a directory, nothing happens.
    pub fn fail_sync(&mut self, number: u64) {
        if let Some(node) = self.node_mut(number) {
            node.fail_sync();
        }
    }

    fn sync_names(&mut self, directory: u64) {
        let wanted = (0..self.renames.len()).filter(|&at| self.renames[at].touches(directory));
        let kept = self.with_what_came_before(wanted.collect());
        let renames = std::mem::take(&mut self.renames);
        for (at, rename) in renames.into_iter().enumerate() {
            match kept.contains(&at) {
                true => store(&mut self.safe_names, &rename),
                false => self.renames.push(rename),
            }
        }
    }

    /// These changes of names, and those before them that concern the same names.
    fn with_what_came_before(&self, wanted: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut kept = wanted;
        for at in (0..self.renames.len()).rev() {
            if !kept.contains(&at) {
                continue;
            }
            for before in 0..at {
                if self.renames[before].shares_a_name(&self.renames[at]) {
                    kept.insert(before);
                }
            }
        }
        kept
    }

    /// A state that may be left when the power fails now.
    pub fn crash(&self, random: &mut Random) -> Self {
        const SEVERITIES: [Severity; 6] = [
            Severity::All,
            Severity::Nothing,
            Severity::Some,
            Severity::Some,
            Severity::Little,
            Severity::NearlyAll,
        ];
        let data = SEVERITIES[random.below(SEVERITIES.len())];
        let names = SEVERITIES[random.below(SEVERITIES.len())];
        self.left(random, data, names)
    }

    /// The state that is left when the power fails now and nothing was written back that no sync has requested.
    pub fn crash_before_write_back(&self) -> Self {
        self.left(&mut Random::new(0), Severity::All, Severity::All)
    }

    fn left(&self, random: &mut Random, data: Severity, names: Severity) -> Self {
        let mut choice = Choice {
            random,
            severity: names,
        };
        let mut safe_names = self.safe_names.clone();
        let chosen = (0..self.renames.len()).filter(|_| choice.below(2) == 1);
        let chosen = self.with_what_came_before(chosen.collect());
        for at in chosen {
            store(&mut safe_names, &self.renames[at]);
        }
        choice.severity = data;
        let mut nodes = BTreeMap::new();
        for (&number, node) in &self.nodes {
            let left = match node.is_synced() {
                true => Arc::clone(node),
                false => Arc::new(node.crash(&mut choice)),
            };
            nodes.insert(number, left);
        }
        let mut left = Self {
            nodes,
            next: self.next,
            names: safe_names.clone(),
            safe_names,
            renames: Vec::new(),
            capacity: self.capacity,
        };
        left.forget_the_unreachable();
        left
    }

    /// Paths of everything that has a name here.
    pub fn paths(&self) -> BTreeSet<PathBuf> {
        let (mut paths, mut todo) = (BTreeSet::new(), vec![(ROOT, PathBuf::new())]);
        while let Some((directory, path)) = todo.pop() {
            for (name, number) in self.list(directory) {
                let path = path.join(name);
                todo.push((number, path.clone()));
                paths.insert(path);
            }
        }
        paths
    }

    fn forget_the_unreachable(&mut self) {
        let mut reached = BTreeSet::from([ROOT]);
        let mut todo = vec![ROOT];
        while let Some(directory) = todo.pop() {
            for (_, number) in self.list(directory) {
                if reached.insert(number) {
                    todo.push(number);
                }
            }
        }
        self.nodes.retain(|number, _| reached.contains(number));
        self.names.retain(|(of, _), _| reached.contains(of));
        self.safe_names.clone_from(&self.names);
    }
}

fn apply(names: &mut BTreeMap<Key, u64>, key: &Key, number: Option<u64>) {
    match number {
        Some(number) => names.insert(key.clone(), number),
        None => names.remove(key),
    };
}

fn store(names: &mut BTreeMap<Key, u64>, rename: &Rename) {
    for (key, number) in &rename.changes {
        apply(names, key, *number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        (ROOT, name.into())
    }

    fn file(disk: &Disk, name: &str) -> Option<Vec<u8>> {
        let node = disk.node(disk.lookup(&key(name))?)?;
        Some(node.read(0, 1 << 20))
    }

    /// Everything that a crash may leave of `name`.
    fn outcomes(disk: &Disk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
        let mut random = Random::new(1);
        (0..600)
            .map(|_| file(&disk.crash(&mut random), name))
            .collect()
    }

    #[test]
    fn synced_data_survive_and_the_rest_may_be_lost() {
        let mut disk = Disk::new(1 << 20, (0, 0));
        let number = disk.make(key("a"), false, 0o600, (0, 0));
        disk.write(number, 0, &[1; 2 * SECTOR]);
        assert_eq!(
            outcomes(&disk, "a").len(),
            1 + 1 + 4,
            "absent, empty, four mixtures"
        );
        disk.sync(number, false);
        // The directory was not synced.
        let expected = BTreeSet::from([None, Some(vec![1; 2 * SECTOR])]);
        assert_eq!(outcomes(&disk, "a"), expected);
        disk.sync(ROOT, true);
        disk.write(number, 0, &[2; 2 * SECTOR]);
        let left = outcomes(&disk, "a");
        assert_eq!(left.len(), 4, "each sector is old or new");
        assert!(left.iter().flatten().all(|bytes| bytes.len() == 2 * SECTOR));
        disk.sync(number, false);
        assert_eq!(
            outcomes(&disk, "a"),
            BTreeSet::from([Some(vec![2; 2 * SECTOR])])
        );
        disk.set_size(number, 10);
        let expected = BTreeSet::from([Some(vec![2; 10]), Some(vec![2; 2 * SECTOR])]);
        assert!(outcomes(&disk, "a").is_superset(&expected));
    }

    #[test]
    fn a_rename_is_done_or_not_and_names_are_independent() {
        let mut disk = Disk::new(1 << 20, (0, 0));
        let number = disk.make(key("new"), false, 0o600, (0, 0));
        disk.write(number, 0, b"x");
        disk.sync(number, true);
        disk.sync(ROOT, true);
        disk.change(vec![(key("new"), None), (key("name"), Some(number))]);
        disk.make(key("other"), false, 0o600, (0, 0));
        let mut random = Random::new(1);
        let mut seen = BTreeSet::new();
        for _ in 0..600 {
            let left = disk.crash(&mut random);
            let has = |name: &str| left.lookup(&key(name)).is_some();
            assert!(has("new") != has("name"));
            seen.insert((has("name"), has("other")));
        }
        assert_eq!(seen.len(), 4);
        disk.sync(ROOT, true);
        let left = disk.crash(&mut random);
        assert!(left.lookup(&key("name")).is_some() && left.lookup(&key("other")).is_some());
    }

    #[test]
    fn a_range_cut_off_reads_as_zeros() {
        let mut disk = Disk::new(1 << 20, (0, 0));
        let number = disk.make(key("a"), false, 0o600, (0, 0));
        disk.write(number, 0, &[7; 1000]);
        disk.set_size(number, 100);
        disk.set_size(number, 1000);
        let bytes = file(&disk, "a").expect("a file");
        assert!(bytes[..100] == [7; 100] && bytes[100..] == [0; 900]);
    }
}
