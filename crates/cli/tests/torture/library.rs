//! A client of the library: does operations and compares every result with the model.

use causeway_bmi::Memory;
use causeway_fs::Error;
use causeway_fs::client::{Client, CreateOptions, File as Handle};
use causeway_testkit::random::Random;
use causeway_wire::fs::{DistributionHint, Errno, Region};

use crate::conditions::{Conditions, Excuse};
use crate::content::Content;
use crate::names::{Id, Names};
use crate::plan::{Op, Spread};

/// The file that all clients write to, each its own cells.
pub(crate) const SHARED: &str = "/shared";
/// Bytes of a cell: no multiple of a block, so that clients share blocks.
pub(crate) const CELL: u64 = 1000;
/// Cells of the shared file.
pub(crate) const CELLS: u64 = 240;
/// How many clients deal the cells out.
const SHARERS: u64 = 2;

/// What a client did and met, for the reader of a failure.
pub(crate) type Trace = Vec<String>;

/// A client with a directory of its own.
pub(crate) struct Actor {
    pub(crate) number: usize,
    pub(crate) names: Names,
    /// The shared file as this client has written it.
    pub(crate) shared: Content,
    pub(crate) patient: Client,
    pub(crate) impatient: Client,
    pub(crate) dice: Random,
    pub(crate) trace: Trace,
    /// Objects that could not be read for a loss.
    pub(crate) losses: Vec<u64>,
}

/// Reads into memory that is kept as long as a stopped server may write it: with a borrowed buffer
/// ([`Client::read_at`]) a read that gives up would wait for that server.
fn read_some(
    client: &mut Client,
    file: &mut Handle,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, Error> {
    let memory = Memory::zeroed(len);
    let region = Region {
        offset,
        len: len as u64,
    };
    let count = client.read_list(file, &[region], std::slice::from_ref(&memory))?;
    let mut bytes = memory.to_vec();
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// A hint for files that lie so.
pub(crate) fn hint(spread: Spread) -> Option<DistributionHint> {
    Some(match spread {
        Spread::On(number) => DistributionHint {
            strip_size: 0,
            servers: 1,
            start: number + 1,
        },
        Spread::Both => DistributionHint {
            strip_size: 0,
            servers: 2,
            start: 1,
        },
    })
}

/// Bytes none of which is zero, so that a hole is never taken for them.
pub(crate) fn bytes(dice: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = dice.bytes(len);
    bytes.iter_mut().for_each(|byte| *byte |= 1);
    bytes
}

impl Actor {
    pub(crate) fn new(
        number: usize,
        seed: u64,
        client: impl Fn(bool) -> Result<Client, String>,
    ) -> Result<Self, String> {
        let mut shared = Content::empty();
        shared.truncate(CELL * CELLS, true);
        Ok(Self {
            number,
            names: Names::default(),
            shared,
            patient: client(true)?,
            impatient: client(false)?,
            dice: Random::new(seed ^ (number as u64 + 1) << 56),
            trace: Vec::new(),
            losses: Vec::new(),
        })
    }

    pub(crate) fn directory(&self) -> String {
        format!("/c{}", self.number)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        format!("/c{}/{name}", self.number)
    }

    fn client(&mut self, conditions: &Conditions, spread: Option<Spread>) -> &mut Client {
        match conditions.patient(spread) {
            true => &mut self.patient,
            false => &mut self.impatient,
        }
    }

    pub(crate) fn note(&mut self, text: String) {
        self.trace.push(format!("client {}: {text}", self.number));
    }

    /// Judges a failure: excused, or a violation.
    fn excused(
        &mut self,
        conditions: &Conditions,
        spread: Option<Spread>,
        error: &causeway_fs::Error,
    ) -> Result<(), String> {
        self.note(format!("  failed: {error}"));
        if conditions.admitted || conditions.excuses(spread, error.errno) {
            return Ok(());
        }
        Err(format!(
            "no fault excuses this: {error} [{:?}]",
            error.errno
        ))
    }

    /// Does one operation.
    pub(crate) fn step(&mut self, op: Op, conditions: &Conditions) -> Result<(), String> {
        self.note(format!("{op:?}"));
        let name = |slot: usize| format!("n{slot}");
        match op {
            Op::Fill { slot, len, spread } => self.fill(&name(slot), len, spread, conditions),
            Op::Write { slot, offset, len } => {
                self.change(&name(slot), conditions, Change::Write { offset, len })
            }
            Op::Truncate { slot, size } => {
                self.change(&name(slot), conditions, Change::Truncate { size })
            }
            Op::Sync { slot } => self.change(&name(slot), conditions, Change::Sync),
            Op::Read { slot } => self.read(&name(slot), None, conditions),
            Op::ReadPart { slot, offset, len } => {
                self.read(&name(slot), Some((offset, len)), conditions)
            }
            Op::Rename { from, to } => self.rename(&name(from), &name(to), conditions),
            Op::Link { from, to } => self.link(&name(from), &name(to), conditions),
            Op::Unlink { slot } => self.unlink(&name(slot), conditions),
            Op::WriteShared { cell } => self.write_shared(cell as u64, conditions),
            Op::ReadShared => self.read_shared(conditions),
        }
    }

    /// Makes a file with some content, or gives an existing one a new content.
    fn fill(
        &mut self,
        name: &str,
        len: usize,
        spread: Spread,
        conditions: &Conditions,
    ) -> Result<(), String> {
        match self.names.certain(name) {
            Some(None) => {}
            Some(Some(_)) => {
                self.change(name, conditions, Change::Truncate { size: 0 })?;
                return self.change(name, conditions, Change::Write { offset: 0, len });
            }
            None => return self.read(name, None, conditions),
        }
        if !conditions.may_change(Some(spread)) {
            return self.read(name, None, conditions);
        }
        let small = len < 3000;
        let content = bytes(&mut self.dice, if small { len } else { 0 });
        let options = CreateOptions {
            exclusive: true,
            distribution: hint(spread),
            content: content.clone(),
            ..CreateOptions::default()
        };
        let path = self.path(name);
        let made = self
            .client(conditions, None)
            .create(path.as_bytes(), &options);
        let object = made.as_ref().ok().map(|file| file.node.object.0);
        let id = self.names.file(Content::of(content), spread, object);
        match made {
            Ok(_) => self.names.set(name, Some(id)),
            Err(error) => {
                self.names.maybe(name, Some(id));
                return self.excused(conditions, None, &error);
            }
        }
        match small {
            true => Ok(()),
            false => self.change(name, conditions, Change::Write { offset: 0, len }),
        }
    }

    /// Opens a name that certainly refers to a file. `None` after an excused failure.
    fn open(&mut self, name: &str, conditions: &Conditions) -> Result<Option<Handle>, String> {
        let path = self.path(name);
        match self.client(conditions, None).open(path.as_bytes()) {
            Ok(file) => Ok(Some(file)),
            Err(error) => self.excused(conditions, None, &error).map(|()| None),
        }
    }

    /// Changes a file's content, if the name certainly refers to a file.
    fn change(
        &mut self,
        name: &str,
        conditions: &Conditions,
        change: Change,
    ) -> Result<(), String> {
        let Some(Some(id)) = self.names.certain(name) else {
            return self.read(name, None, conditions);
        };
        let spread = self.names.files[&id].spread;
        if !conditions.may_change(Some(spread)) {
            return self.read(name, None, conditions);
        }
        let Some(mut file) = self.open(name, conditions)? else {
            return Ok(());
        };
        let data = match change {
            Change::Write { len, .. } => bytes(&mut self.dice, len),
            Change::Truncate { .. } | Change::Sync => Vec::new(),
        };
        let client = self.client(conditions, Some(spread));
        let result = match change {
            Change::Write { offset, .. } => client.write_at(&mut file, offset as u64, &data),
            Change::Truncate { size } => client.truncate(&mut file, size as u64),
            Change::Sync => client.fsync(&mut file),
        };
        let done = result.is_ok();
        if let Some(file) = self.names.files.get_mut(&id) {
            match change {
                Change::Write { offset, .. } => file.content.write(offset as u64, &data, done),
                Change::Truncate { size } => file.content.truncate(size as u64, done),
                Change::Sync => {}
            }
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.excused(conditions, Some(spread), &error),
        }
    }

    /// Reads a file, or finds that there is none, whatever the name may refer to.
    pub(crate) fn read(
        &mut self,
        name: &str,
        part: Option<(usize, usize)>,
        conditions: &Conditions,
    ) -> Result<(), String> {
        let mut candidates = self.names.candidates(name).to_vec();
        let older = conditions
            .older
            .as_ref()
            .map(|all| all[self.number].clone());
        if let Some(older) = &older
            && conditions.server == 0
            && conditions.excuse == Excuse::Wrong
        {
            candidates.extend(older.candidates(name));
        }
        let known = |id: &Id| {
            let older = older.as_ref().and_then(|older| older.files.get(id));
            (self.names.files.get(id).or(older).cloned(), older.cloned())
        };
        let files: Vec<_> = candidates.iter().flatten().map(known).collect();
        let spread = files
            .iter()
            .filter_map(|(file, _)| file.as_ref().map(|file| file.spread))
            .find(|spread| conditions.concerns(Some(*spread)));
        let path = self.path(name);
        let mut handle = match self.client(conditions, None).open(path.as_bytes()) {
            Ok(handle) => handle,
            Err(error) if error.errno == Errno::ENOENT && candidates.contains(&None) => {
                return Ok(());
            }
            Err(error) => return self.excused(conditions, None, &error),
        };
        if files.is_empty() && !conditions.admitted {
            return Err(format!("{path} exists, but must not"));
        }
        let most = files
            .iter()
            .filter_map(|(file, _)| Some(file.as_ref()?.content.most()));
        let most = most.max().unwrap_or(0) as usize;
        let (offset, len) = part.unwrap_or((0, most + 700));
        let client = self.client(conditions, spread);
        let found = match read_some(client, &mut handle, offset as u64, len) {
            Ok(found) => found,
            Err(error) => {
                if matches!(error.errno, Errno::EIO | Errno::MISSING) {
                    self.losses.push(handle.node.object.0);
                }
                return self.excused(conditions, spread, &error);
            }
        };
        let mut wrong = String::new();
        for (file, older) in files {
            let Some(file) = file else { continue };
            let older = older.as_ref().map(|older| &older.content);
            match file
                .content
                .check(offset as u64, len as u64, &found, older, |_| true)
            {
                Ok(()) => return Ok(()),
                Err(why) => wrong = why.0,
            }
        }
        match conditions.admitted {
            true => Ok(()),
            false => Err(format!("{path} (object {}): {wrong}", handle.node.object.0)),
        }
    }

    fn rename(&mut self, from: &str, to: &str, conditions: &Conditions) -> Result<(), String> {
        let certain = (self.names.certain(from), self.names.certain(to));
        let (Some(Some(id)), Some(_)) = certain else {
            return self.read(from, None, conditions);
        };
        if from == to || !conditions.may_change(None) {
            return self.read(from, None, conditions);
        }
        let paths = (self.path(from), self.path(to));
        let result =
            self.client(conditions, None)
                .rename(paths.0.as_bytes(), paths.1.as_bytes(), false);
        self.names.rename(from, to, id, result.is_ok());
        result.or_else(|error| self.excused(conditions, None, &error))
    }

    fn link(&mut self, from: &str, to: &str, conditions: &Conditions) -> Result<(), String> {
        let certain = (self.names.certain(from), self.names.certain(to));
        let (Some(Some(id)), Some(None)) = certain else {
            return self.read(from, None, conditions);
        };
        if !conditions.may_change(None) {
            return self.read(from, None, conditions);
        }
        let paths = (self.path(from), self.path(to));
        let client = self.client(conditions, None);
        match client.hard_link(paths.0.as_bytes(), paths.1.as_bytes()) {
            Ok(_) => self.names.set(to, Some(id)),
            Err(error) => {
                self.names.maybe(to, Some(id));
                return self.excused(conditions, None, &error);
            }
        }
        Ok(())
    }

    fn unlink(&mut self, name: &str, conditions: &Conditions) -> Result<(), String> {
        let Some(Some(_)) = self.names.certain(name) else {
            return self.read(name, None, conditions);
        };
        if !conditions.may_change(None) {
            return self.read(name, None, conditions);
        }
        let path = self.path(name);
        match self.client(conditions, None).unlink(path.as_bytes()) {
            Ok(()) => self.names.set(name, None),
            Err(error) => {
                self.names.maybe(name, None);
                return self.excused(conditions, None, &error);
            }
        }
        Ok(())
    }

    /// The file that all share lies on both servers.
    fn write_shared(&mut self, cell: u64, conditions: &Conditions) -> Result<(), String> {
        let spread = Some(Spread::Both);
        if !conditions.may_change(spread) {
            return self.read_shared(conditions);
        }
        let offset = (cell * SHARERS + self.number as u64) % CELLS * CELL;
        let data = bytes(&mut self.dice, CELL as usize);
        let client = self.client(conditions, spread);
        let result = client
            .open(SHARED.as_bytes())
            .and_then(|mut file| client.write_at(&mut file, offset, &data));
        self.shared.write(offset, &data, result.is_ok());
        result.or_else(|error| self.excused(conditions, spread, &error))
    }

    /// Reads the shared file, and checks this client's cells.
    pub(crate) fn read_shared(&mut self, conditions: &Conditions) -> Result<(), String> {
        if conditions.older.is_some() || conditions.admitted {
            return Ok(());
        }
        let spread = Some(Spread::Both);
        let client = self.client(conditions, spread);
        let result = client
            .open(SHARED.as_bytes())
            .and_then(|mut file| read_some(client, &mut file, 0, (CELL * CELLS) as usize));
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.excused(conditions, spread, &error),
        };
        let number = self.number as u64;
        self.shared
            .check(0, CELL * CELLS, &found, None, |place| {
                place / CELL % SHARERS == number
            })
            .map_err(|wrong| format!("{SHARED}: {}", wrong.0))
    }

    /// Reads every name.
    pub(crate) fn read_all(&mut self, conditions: &Conditions) -> Result<(), String> {
        let mut names = self.names.all().into_iter();
        names.try_for_each(|name| self.read(&name, None, conditions))
    }

    /// Checks, when there are no faults any more, what every name refers to, and that everything is
    /// as it should be.
    pub(crate) fn verify(&mut self) -> Result<(), String> {
        let conditions = Conditions::no_fault();
        self.note("verify".to_owned());
        for name in self.names.all() {
            self.resolve(&name)?;
            self.read(&name, None, &conditions)?;
        }
        self.names.end_doubts()?;
        self.check_listing()?;
        self.read_shared(&conditions)
    }

    /// Looks up what a name refers to, if that is in doubt.
    fn resolve(&mut self, name: &str) -> Result<(), String> {
        let candidates = self.names.candidates(name).to_vec();
        let path = self.path(name);
        let object = match self.patient.stat(path.as_bytes(), false) {
            Ok(node) => node.object.0,
            Err(error) if error.errno == Errno::ENOENT && candidates.contains(&None) => {
                self.names.set(name, None);
                return Ok(());
            }
            Err(error) => return Err(format!("{path}: {error}")),
        };
        let fits = |id: &&Id| match self.names.files[id].object {
            Some(known) => known == object,
            None => true,
        };
        let fitting: Vec<Id> = candidates.iter().flatten().filter(fits).copied().collect();
        let known = |id: &&Id| self.names.files[id].object == Some(object);
        let Some(id) = fitting.iter().find(known).or(fitting.first()).copied() else {
            return Err(format!(
                "{path} stands for object {object}, which it never was"
            ));
        };
        if let Some(file) = self.names.files.get_mut(&id) {
            file.object = Some(object);
        }
        self.names.set(name, Some(id));
        Ok(())
    }

    /// The directory has exactly the names that it should have. Hidden ones are what a verb was working on
    /// when it failed.
    fn check_listing(&mut self) -> Result<(), String> {
        let path = format!("/c{}", self.number);
        let failed = |error: causeway_fs::Error| error.to_string();
        let directory = self.patient.stat(path.as_bytes(), true).map_err(failed)?;
        let (entries, _) = self
            .patient
            .read_directory(directory.object, &[], 1000, false)
            .map_err(failed)?;
        let mut listed: Vec<String> = entries
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
            .filter(|name| !name.starts_with('.') && name != "tree")
            .collect();
        listed.sort();
        let mut expected = self.names.all();
        expected.retain(|name| !name.contains('/'));
        match listed == expected {
            true => Ok(()),
            false => Err(format!("{path} lists {listed:?}, not {expected:?}")),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Write { offset: usize, len: usize },
    Truncate { size: usize },
    Sync,
}
