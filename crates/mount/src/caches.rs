//! What this mount and the kernel cache of names and attributes, by leases.
//!
//! The kernel caches attributes, for as long as their lease is good, and is told when it ends. Names are cached in this process: the kernel
//! asks for them each time, which costs no request to a server. It could be told to forget a name only while nobody changes the
//! directory on this mount, and such a change may itself wait for another mount to forget something.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use causeway_fs::Error;
use causeway_fs::client::{ClientOptions, Era, Leases, Named, Seen};
use causeway_fs::config::Configuration;
use causeway_wire::fs::{Leased, Node, ObjectId};
use fuser::{INodeNo, Notifier};

use crate::clients::User;

/// See the module.
pub(crate) struct Caches {
    leases: Arc<Leases>,
    /// Once the file system is mounted.
    kernel: Arc<OnceLock<Notifier>>,
}

/// Has the kernel forget an object's attributes. That waits for nothing: no lock of the object is taken, as none of its content is
/// forgotten.
fn forget_attributes(kernel: &Notifier, object: ObjectId) {
    if let Err(error) = kernel.inval_inode(INodeNo(object.0), -1, 0) {
        // The mount is at its end.
        tracing::debug!(%error, "the kernel forgets nothing");
    }
}

impl Caches {
    pub(crate) fn start(
        configuration: &Configuration,
        options: &ClientOptions,
    ) -> Result<Self, Error> {
        let kernel = Arc::new(OnceLock::<Notifier>::new());
        let told = Arc::clone(&kernel);
        let recalled = move |leases: &[Leased]| {
            let Some(kernel) = told.get() else {
                return;
            };
            for lease in leases {
                if let Leased::Attributes(object) = lease {
                    forget_attributes(kernel, *object);
                }
            }
        };
        let leases = Leases::start(configuration, options, recalled)?;
        Ok(Self {
            leases: Arc::new(leases),
            kernel,
        })
    }

    /// The leases, which clients share.
    pub(crate) fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// The file system is mounted.
    pub(crate) fn set_kernel(&self, kernel: Notifier) {
        // It is the first one.
        let _ = self.kernel.set(kernel);
    }

    /// What a name stands for, if that is cached and this user may search the directory for all the server says.
    pub(crate) fn find(&self, user: User, directory: ObjectId, name: &[u8]) -> Option<Named> {
        self.leases.find(directory, name, (user.uid, user.gid))
    }

    /// An object that the kernel knows.
    pub(crate) fn node(&self, object: ObjectId) -> Option<(Node, Seen)> {
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

    /// The kernel knows this object, or has forgotten it. What it does not know yet it could not be told to forget, in the time
    /// between a reply and when it has dealt with that.
    pub(crate) fn note_known(&self, object: ObjectId, is_known: bool) {
        self.leases.note_known(object, is_known);
    }

    /// Replies to the kernel, with the time for which it may cache the attributes: as long as the lease is good by which they are cached,
    /// if they are.
    pub(crate) fn reply_with(
        &self,
        object: ObjectId,
        seen: Option<Seen>,
        reply: impl FnOnce(&Duration),
    ) {
        let seen = seen.filter(|_| self.kernel.get().is_some());
        self.leases.pass_on(object, seen, |time| reply(&time));
    }

    /// The mount itself has changed attributes, of which the kernel does not know.
    pub(crate) fn forget(&self, object: ObjectId) {
        if let Some(kernel) = self.kernel.get() {
            forget_attributes(kernel, object);
        }
    }

    /// Nothing is cached any more.
    pub(crate) fn end(&self) {
        self.leases.end();
    }
}
