//! How C names an instance, and how calls cross from C to Rust.
//!
//! A `cwfs_t *` is not a pointer but a number that is never used again, and is looked up in a table: so a handle that
//! was disconnected, or never was one, is an error and not a crash. Several threads may use an instance at the same
//! time.
//!
//! After a fork the instances belong to the parent: a child begins with a table of its own, without looking at its parent's, in which
//! another thread of the parent may have held a lock. The child keeps the parent's descriptors and shared memory until it
//! ends or executes another program.
//!
//! Panics end here: the call returns `-ENOTRECOVERABLE`, and so does every later call of the instance.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::{Arc, PoisonError, RwLock};

use causeway_sys::fork::Owner;

use crate::error::{BROKEN, Failure};
use crate::instance::Instance;

/// The type that a `cwfs_t *` points to, though it is a number; see above.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

/// Most instances of one process at a time.
const MOST: usize = 1024;

/// The instances of a process.
struct Table {
    owner: Owner,
    /// Handles below this one are those of the process that this one was forked from.
    first: usize,
    instances: RwLock<HashMap<usize, Arc<Instance>>>,
    /// The parent's table, which is never used again: it stays referenced, so that tools that look
    /// for leaks do not report it.
    _parents: *const Table,
}

/// The table, which is never freed.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(ptr::null_mut());
/// The next handle.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// This process's table, if it has one.
fn own_table() -> Option<&'static Table> {
    // SAFETY: null, or a table that was leaked, of which only shared references exist.
    let table = unsafe { TABLE.load(Acquire).as_ref() }?;
    table.owner.is_this_process().then_some(table)
}

/// This process's table.
fn table() -> Result<&'static Table, Failure> {
    let known = TABLE.load(Acquire);
    if let Some(table) = own_table() {
        return Ok(table);
    }
    let owner = Owner::this_process().map_err(|error| {
        Failure::new(libc::ENOMEM, format!("forks cannot be detected: {error}"))
    })?;
    let made = Box::into_raw(Box::new(Table {
        owner,
        first: NEXT.load(Relaxed),
        instances: RwLock::default(),
        _parents: known,
    }));
    if TABLE
        .compare_exchange(known, made, AcqRel, Acquire)
        .is_err()
    {
        // SAFETY: made above, and no other thread has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
    // The thread that was first has set it: it belongs to this process, which has not been forked since.
    own_table().ok_or_else(|| Failure::handle("the process was forked during the call"))
}

fn none(handle: usize) -> Failure {
    let first = match own_table() {
        Some(table) => table.first,
        None => usize::MAX,
    };
    match (1..first.min(NEXT.load(Relaxed))).contains(&handle) {
        true if !TABLE.load(Acquire).is_null() => Failure::handle(
            "this cwfs_t belongs to the parent of this process; connect another one after fork()",
        ),
        _ => Failure::handle("this cwfs_t was disconnected, or never connected"),
    }
}

fn find(handle: *mut Handle) -> Result<Arc<Instance>, Failure> {
    let found = own_table().and_then(|table| {
        let instances = table
            .instances
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        instances.get(&handle.addr()).map(Arc::clone)
    });
    found.ok_or_else(|| none(handle.addr()))
}

/// Carries out a call that needs no instance.
pub(crate) fn guard(body: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    let guarded = AssertUnwindSafe(|| body().unwrap_or_else(Failure::report));
    catch_unwind(guarded).unwrap_or_else(|_| Failure::broken().report())
}

/// Carries out a call of an instance.
pub(crate) fn call(
    handle: *mut Handle,
    body: impl FnOnce(&Instance) -> Result<i64, Failure>,
) -> i64 {
    let instance = match find(handle) {
        Ok(instance) if instance.is_broken() => return Failure::broken().report(),
        Ok(instance) => instance,
        Err(failure) => return failure.report(),
    };
    let guarded = guard(|| body(&instance));
    if guarded == BROKEN {
        instance.set_broken();
    }
    // The last holder ends the instance, also after a panic.
    match catch_unwind(AssertUnwindSafe(|| drop(instance))) {
        Ok(()) => guarded,
        Err(_) => Failure::broken().report(),
    }
}

/// Gives an instance a handle.
pub(crate) fn insert(instance: Arc<Instance>) -> Result<*mut Handle, Failure> {
    let table = table()?;
    let mut instances = table
        .instances
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    if instances.len() >= MOST {
        let text = format!("there are {MOST} instances already");
        return Err(Failure::new(libc::EMFILE, text));
    }
    let handle = NEXT.fetch_add(1, Relaxed);
    instances.insert(handle, instance);
    Ok(ptr::without_provenance_mut(handle))
}

/// Removes an instance from the table.
pub(crate) fn remove(handle: *mut Handle) -> Result<Arc<Instance>, Failure> {
    let removed = own_table().and_then(|table| {
        let mut instances = table
            .instances
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        instances.remove(&handle.addr())
    });
    removed.ok_or_else(|| none(handle.addr()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_fs::config::{Configuration, Durability};

    fn start() -> *mut Handle {
        let directory = std::env::temp_dir();
        let made = Configuration::one_machine("test", 7, &directory, 1, Durability::Relaxed);
        let instance = Instance::start(&made, 2).unwrap_or_else(|_| panic!("it starts"));
        insert(Arc::new(instance)).unwrap_or_else(|_| panic!("there is room"))
    }

    #[test]
    fn after_a_panic_every_call_but_disconnecting_returns_an_error() {
        let (broken, sound) = (start(), start());
        assert_eq!(call(broken, |_| panic!("a test")), BROKEN);
        assert_eq!(call(broken, |_| Ok(7)), BROKEN);
        assert_eq!(call(sound, |_| Ok(7)), 7, "another one is not affected");
        for handle in [broken, sound] {
            assert!(remove(handle).is_ok());
            assert_eq!(call(handle, |_| Ok(7)), -i64::from(libc::EBADF));
            assert!(remove(handle).is_err());
        }
        assert_eq!(guard(|| panic!("a test")), BROKEN);
    }

    #[test]
    fn invented_handles_are_refused() {
        for number in [0, 1 << 20, usize::MAX] {
            let handle = ptr::without_provenance_mut(number);
            assert_eq!(call(handle, |_| Ok(7)), -i64::from(libc::EBADF));
        }
    }
}
