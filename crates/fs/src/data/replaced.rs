//! Datafiles that another program has replaced or removed while they were open.
//!
//! What was written to the old file meanwhile is lost, and the new one does not show it: it may be a whole copy. So
//! this is recorded until a scrub or a repair has reported it to an operator, or the content is discarded.

use std::collections::BTreeSet;
use std::sync::Mutex;

use causeway_wire::fs::ObjectId;

use super::fault::{Fault, Result};
use crate::locks::lock;

/// Most replaced datafiles that are remembered. Each further one is reported once and logged.
const MAX_REPLACED: usize = 1 << 16;

/// Replaced datafiles that have not been accepted.
#[derive(Debug, Default)]
pub(super) struct Replaced(Mutex<BTreeSet<ObjectId>>);

impl Replaced {
    /// Remembers that an object's datafile was replaced, and returns the fault.
    pub(super) fn note(&self, object: ObjectId) -> Fault {
        tracing::error!(
            object = object.0,
            "a datafile was replaced or removed by something else while the server had it open"
        );
        let mut objects = lock(&self.0);
        if objects.len() < MAX_REPLACED {
            objects.insert(object);
        }
        Fault::Replaced
    }

    /// Fails if an object's datafile was replaced.
    pub(super) fn check(&self, object: ObjectId) -> Result<()> {
        match lock(&self.0).contains(&object) {
            true => Err(Fault::Replaced),
            false => Ok(()),
        }
    }

    /// Accepts the object's present datafile as the right one.
    pub(super) fn accept(&self, object: ObjectId) {
        if lock(&self.0).remove(&object) {
            tracing::warn!(
                object = object.0,
                "the datafile that was put in another one's place is accepted"
            );
        }
    }
}
