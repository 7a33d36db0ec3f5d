//! What this mount and the kernel cache of names and attributes, by leases.
//!
//! The kernel caches attributes and names for as long as their leases are good, and is told when one ends. It cannot always be told in time of attributes of an object that
//! it may be about to learn of. These it gets only with a reply with which it deals under the lock of the directory, as it does with the first one about a name,
//! with that about a missing one, and with that to a change; then it is told under the same lock. All other attributes are cached in this process: the kernel asks for them each time, which costs no request to a server.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use causeway_fs::Error;
use causeway_fs::client::{
    CacheStamp, ClientOptions, EntryTimes, Era, Leases, Named, Passed, PassedEntry,
};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Node, ObjectId, Place};

use crate::clients::User;
use crate::file_end::FileEnd;
use crate::inodes::Inodes;
use crate::kernel_cache::KernelCache;

/// How long a recall waits until the ends of files are dropped. A request to read them may be behind others of this mount that wait, as another mount carries out a recall; what is not
/// dropped by then, the kernel drops before it learns of another size.
const PATIENCE: Duration = Duration::from_millis(20);

/// What a name stands for, and whether its attributes were cached when they were read.
type Target = (ObjectId, Option<CacheStamp>);

/// See the module.
pub(crate) struct Caches {
    leases: Arc<Leases>,
    /// Once the file system is mounted.
    kernel: Arc<OnceLock<KernelCache>>,
    inodes: Arc<Inodes>,
    /// The kernel keeps all but the one user away for whom it is mounted.
    is_private: bool,
    ended: Ended,
}

/// Whether nothing is cached any more.
#[derive(Default)]
struct Ended {
    is_ended: Mutex<bool>,
    end: Condvar,
}

impl Ended {
    fn end(&self) {
        *self.is_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.notify_all();
    }

    /// Waits until then, or until the end. Returns whether it is the end, when the kernel goes by nothing any more.
    fn wait_until(&self, until: Instant) -> bool {
        let mut is_ended = self.is_ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_ended {
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return false;
            }
            let waited = self.end.wait_timeout(is_ended, time);
            (is_ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }
}

/// Has the kernel forget what was passed on to it, and drop the ends of files that others change.
fn forget(kernel: &KernelCache, inodes: &Arc<Inodes>, passed: &[Passed]) {
    let now = Instant::now();
    let mut pages = Vec::new();
    for passed in passed {
        // A change of the mount's own is over already.
        if let Passed::Attributes { object, until, .. } = passed
            && until.is_none_or(|until| until > now)
        {
            inodes.note_recall(*object, now);
            let bytes = inodes.with_end(*object, FileEnd::note_recall).flatten();
            pages.extend(bytes.map(|bytes| (*object, bytes)));
        }
    }
    if pages.is_empty() {
        return kernel.forget(passed);
    }
    let (done, dropped) = channel();
    drop_ends(kernel, inodes, pages, move || {
        // Nobody may wait any more.
        let _ = done.send(());
    });
    kernel.forget(passed);
    let _ = dropped.recv_timeout(PATIENCE.saturating_sub(now.elapsed()));
}

/// Has the kernel drop the ends of files, each with these bytes, and calls `then` when it has.
fn drop_ends(
    kernel: &KernelCache,
    inodes: &Arc<Inodes>,
    pages: Vec<(ObjectId, Range<u64>)>,
    then: impl FnOnce() + Send + 'static,
) {
    let inodes = Arc::clone(inodes);
    let files: Vec<ObjectId> = pages.iter().map(|(file, _)| *file).collect();
    kernel.drop_pages(pages, move || {
        for file in files {
            inodes.with_end(file, FileEnd::note_dropped);
        }
        then();
    });
}

impl Caches {
    /// Connects in the background. `is_private`: the kernel keeps all but the one user away for whom it is mounted.
    pub(crate) fn start(
        configuration: &Configuration,
        options: &ClientOptions,
        is_private: bool,
    ) -> Result<Self, Error> {
        let kernel = Arc::new(OnceLock::<KernelCache>::new());
        let inodes = Arc::<Inodes>::default();
        let (notifier, known) = (Arc::clone(&kernel), Arc::clone(&inodes));
        let recalled = move |passed: &[Passed]| {
            if let Some(kernel) = notifier.get() {
                forget(kernel, &known, passed);
            }
        };
        let leases = Leases::start(configuration, options, recalled)?;
        Ok(Self {
            leases: Arc::new(leases),
            kernel,
            inodes,
            is_private,
            ended: Ended::default(),
        })
    }

    /// The leases, which clients share.
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// The file system is mounted, and this is its device.
    pub(crate) fn set_kernel(&self, device: OwnedFd) -> io::Result<()> {
        // It is the first one.
        let _ = self.kernel.set(KernelCache::start(device)?);
        Ok(())
    }

    /// What a name stands for, if that is cached and this user may search the directory for all the server says.
    pub(crate) fn find(&self, user: User, directory: ObjectId, name: &[u8]) -> Option<Named> {
        self.leases.find(directory, name, (user.uid, user.gid))
    }

    /// An object that the kernel knows.
    pub(crate) fn node(&self, object: ObjectId) -> Option<(Node, CacheStamp)> {
        self.leases.node(object)
    }

    /// The era of a file's attributes, and whether all that the kernel has of its content was read in it.
    pub(crate) fn content(&self, object: ObjectId) -> Option<(Era, bool)> {
        self.leases.content(object)
    }

    /// The kernel has dropped what it had of a file's content after this era was seen.
    pub(crate) fn note_content(&self, object: ObjectId, era: Era) {
        self.leases.note_content(object, era);
    }

    /// The kernel has this object, and makes a request about it. Between a reply and the kernel's processing of it, an invalidation would be
    /// ignored; this request proves that the reply has been processed.
    pub(crate) fn note_known(&self, object: ObjectId) {
        self.inodes
            .note_request(object, || self.leases.note_known(object, true));
    }

    /// The kernel has forgotten as many names of an object.
    pub(crate) fn note_forgotten(&self, object: ObjectId, count: u64) {
        self.inodes
            .forget(object, count, || self.leases.note_known(object, false));
    }

    /// Calls `with` with what the kernel may know of where a file ends, if it has an inode of the file.
    pub(crate) fn with_end<T>(
        &self,
        file: ObjectId,
        with: impl FnOnce(&mut FileEnd) -> T,
    ) -> Option<T> {
        self.inodes.with_end(file, with)
    }

    /// Has the kernel drop the ends of files, each with these bytes, and calls `then` when it has.
    pub(crate) fn drop_ends(
        &self,
        pages: Vec<(ObjectId, Range<u64>)>,
        then: impl FnOnce() + Send + 'static,
    ) {
        match self.kernel.get() {
            Some(kernel) => drop_ends(kernel, &self.inodes, pages, then),
            // It has none before the file system is mounted.
            None => then(),
        }
    }

    /// Has the kernel drop the content of a file, and calls `then` when it has.
    pub(crate) fn drop_content(&self, file: ObjectId, then: impl FnOnce() + Send + 'static) {
        match self.kernel.get() {
            Some(kernel) => kernel.drop_pages(vec![(file, 0..u64::MAX)], then),
            None => then(),
        }
    }

    /// The kernel is about to get an access control list of an object.
    pub(crate) fn note_list(&self, object: ObjectId) {
        self.inodes.note_list(object);
    }

    /// Whether others change an object all the time. The kernel is given no time for its attributes then: when it is told to forget them while it asks for them, it goes by earlier ones.
    pub(crate) fn is_contended(&self, object: ObjectId) -> bool {
        self.inodes.is_contended(object, Instant::now())
    }

    /// Replies to the kernel, with the time for which it may cache the attributes: as long as the lease is good by which they are cached,
    /// if they are.
    pub(crate) fn reply_with(
        &self,
        object: ObjectId,
        seen: Option<CacheStamp>,
        reply: impl FnOnce(&Duration),
    ) {
        let seen = seen.filter(|_| self.kernel.get().is_some() && !self.is_contended(object));
        self.leases.pass_on(object, seen, |time| reply(&time));
    }

    /// Replies to the kernel with what a name stands for, and with the times for which it may cache that. `is_changed`: the reply is to a request that has made the
    /// name, with which the kernel deals under the directory's lock.
    pub(crate) fn reply_with_entry(
        &self,
        (directory, name): (ObjectId, &[u8]),
        target: Option<Target>,
        is_changed: bool,
        reply: impl FnOnce(&EntryTimes),
    ) {
        let target = target.map(|(object, seen)| {
            let seen = seen.filter(|_| !self.is_contended(object));
            (object, seen)
        });
        let given = target.map(|(object, _)| self.inodes.give(object));
        let is_new = given.is_none_or(|given| given.is_new);
        let entry = PassedEntry {
            directory,
            name,
            target,
            is_locked: is_new || is_changed,
            is_made: is_changed,
            is_private: self.is_private,
            is_known: given.is_some_and(|given| given.is_known),
            keeps_list: given.is_some_and(|given| given.keeps_list),
        };
        self.pass_on(&[entry], |times| {
            reply(&times.first().copied().unwrap_or_default());
        });
    }

    /// Replies to the kernel with names that a directory has, with which it deals under the directory's lock, and what they stand for. `reply` gets the times for which it may cache each, and
    /// returns how many of them had room in the reply.
    pub(crate) fn reply_with_entries(
        &self,
        directory: ObjectId,
        names: &[(&[u8], Target)],
        reply: impl FnOnce(&[EntryTimes]) -> usize,
    ) {
        let entry = |&(name, target): &(_, Target)| {
            let given = self.inodes.give(target.0);
            PassedEntry {
                directory,
                name,
                target: Some((target.0, target.1.filter(|_| !self.is_contended(target.0)))),
                is_locked: true,
                is_made: false,
                is_private: self.is_private,
                is_known: given.is_known,
                keeps_list: given.keeps_list,
            }
        };
        let entries: Vec<PassedEntry<'_>> = names.iter().map(entry).collect();
        let mut given = 0;
        self.pass_on(&entries, |times| given = reply(times));
        for (_, (object, _)) in names.iter().skip(given) {
            self.inodes.take_back(*object);
        }
    }

    /// Passes names on, each with the times for which the kernel may cache it. Without a lease, that waits while the kernel may still give a name the time of a former one.
    fn pass_on(&self, entries: &[PassedEntry<'_>], pass: impl FnOnce(&[EntryTimes])) {
        let mut pass = Some(pass);
        let mut pass = |times: &[EntryTimes]| {
            if let Some(pass) = pass.take() {
                pass(times);
            }
        };
        if self.kernel.get().is_none() {
            return pass(&vec![EntryTimes::default(); entries.len()]);
        }
        while let Err(until) = self.leases.pass_on_entries(entries, &mut pass) {
            if self.ended.wait_until(until) {
                return pass(&vec![EntryTimes::default(); entries.len()]);
            }
        }
    }

    /// Replies to the kernel that the first name of each pair is the second one now. It goes by the new name for as long as it would have by the former one: if
    /// the new one is under no such lease even when `look_up` has asked for one, the reply waits until that time is over.
    pub(crate) fn reply_renamed(
        &self,
        names: &[(Place, Place)],
        look_up: impl FnOnce(),
        reply: impl FnOnce(),
    ) {
        let mut reply = Some(reply);
        let mut look_up = Some(look_up);
        let mut reply = || {
            if let Some(reply) = reply.take() {
                reply();
            }
        };
        while let Err(until) = self.leases.pass_on_renamed(names, &mut reply) {
            match look_up.take() {
                Some(look_up) => look_up(),
                None if self.ended.wait_until(until) => return reply(),
                None => {}
            }
        }
    }

    /// The mount itself has changed attributes, of which the kernel does not know.
    pub(crate) fn forget(&self, object: ObjectId) {
        if let Some(kernel) = self.kernel.get() {
            kernel.forget_attributes(object);
        }
    }

    /// Nothing is cached any more.
    pub(crate) fn end(&self) {
        self.ended.end();
        self.leases.end();
    }
}
