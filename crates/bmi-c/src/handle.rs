//! How C names an instance, and what stands between C and Rust.
//!
//! A `bmi_t *` is no pointer but a number: the place of the instance in a table that is never freed,
//! and how often that place has been used. So a handle that was finalized, or never was one, is an
//! error and not a crash. Each place notes whether a thread is inside, so that a second thread is turned
//! away ([`BMI_EBUSY`]) instead of ruining the instance; waking is the one call that others may make.
//!
//! Panics end here: the call answers [`BMI_EINTERNAL`], and so does every later one.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use causeway_bmi::Waker;

use crate::error::{BMI_EBUSY, BMI_EHANDLE, BMI_EINTERNAL, BMI_ELIMIT, Failure};
use crate::instance::Instance;

/// What a `bmi_t *` claims to point to.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

const PLACE_BITS: u32 = 10;
/// Most instances of one process at a time.
const PLACES: usize = 1 << PLACE_BITS;

/// A place for an instance. Alone on its cache lines: `inside` is written by every call.
#[repr(align(128))]
struct Place {
    /// The handle of the instance that is here; 0 if there is none.
    live: AtomicUsize,
    /// Whether a thread uses `instance`.
    inside: AtomicBool,
    /// How often the place was used.
    used: AtomicUsize,
    /// Threads, or signal handlers, that may be using `waker`.
    waking: AtomicU32,
    /// Touched by whoever has set `inside`.
    instance: UnsafeCell<Option<Box<Instance>>>,
    /// Written while `live` is 0 and `waking` is 0.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: `instance` is used by the one thread that has set `inside`; an `Instance` may move between
// threads (checked below). `waker` is only read while shared, as described there.
unsafe impl Sync for Place {}

const fn may_move_between_threads<T: Send>() {}
const _: () = may_move_between_threads::<Instance>();

static TABLE: [Place; PLACES] = [const {
    Place {
        live: AtomicUsize::new(0),
        inside: AtomicBool::new(false),
        used: AtomicUsize::new(0),
        waking: AtomicU32::new(0),
        instance: UnsafeCell::new(None),
        waker: UnsafeCell::new(None),
    }
}; PLACES];

/// Held while places are taken or given back.
static CHANGING: Mutex<()> = Mutex::new(());

#[inline]
fn place(handle: *mut Handle) -> &'static Place {
    &TABLE[handle.addr() % PLACES]
}

#[cold]
fn stale() -> Failure {
    Failure::new(
        BMI_EHANDLE,
        "this bmi_t was finalized, or never initialized",
    )
}

#[cold]
fn internal() -> Failure {
    let text = "a bug in the library stopped an earlier call or this one; finalize the instance";
    Failure::new(BMI_EINTERNAL, text)
}

/// Marks a place as used by this thread until dropped.
struct Inside(&'static Place);

impl Inside {
    #[inline]
    fn enter(handle: *mut Handle) -> Result<Self, Failure> {
        let place = place(handle);
        if place.live.load(Relaxed) != handle.addr() || handle.is_null() {
            return Err(stale());
        }
        if place.inside.swap(true, Acquire) {
            return Err(Failure::new(
                BMI_EBUSY,
                "another thread is in a call of this instance; one thread at a time may use it",
            ));
        }
        let inside = Self(place);
        // It may have been finalized just before.
        if place.live.load(Relaxed) != handle.addr() {
            return Err(stale());
        }
        Ok(inside)
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        self.0.inside.store(false, Release);
    }
}

/// Carries a call out that needs no instance.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(),
        Err(_) => internal().report(),
    }
}

/// Carries a call of an instance out.
#[inline]
pub(crate) fn call(
    handle: *mut Handle,
    body: impl FnOnce(&mut Instance) -> Result<c_int, Failure>,
) -> c_int {
    let inside = match Inside::enter(handle) {
        Ok(inside) => inside,
        Err(failure) => return failure.report(),
    };
    // SAFETY: this thread has set `inside`, so nobody else uses the instance until it is dropped.
    let place = unsafe { &mut *inside.0.instance.get() };
    let Some(instance) = place.as_mut().filter(|instance| !instance.broken) else {
        return internal().report();
    };
    match catch_unwind(AssertUnwindSafe(|| body(instance))) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(),
        Err(_) => {
            instance.broken = true;
            internal().report()
        }
    }
}

/// Gives an instance a place.
pub(crate) fn insert(instance: Box<Instance>) -> Result<*mut Handle, Failure> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_free = |place: &Place| place.live.load(Relaxed) == 0 && !place.inside.load(Relaxed);
    let Some(index) = TABLE.iter().position(is_free) else {
        let text = format!("there are {PLACES} instances already");
        return Err(Failure::new(BMI_ELIMIT, text));
    };
    let place = &TABLE[index];
    let uses = place.used.fetch_add(1, Relaxed) + 1;
    let handle = uses << PLACE_BITS | index;
    let waker = instance.bmi.waker();
    // SAFETY: `live` is 0, so no thread gets past `Inside::enter` or looks at the waker, and only this
    // thread fills places.
    unsafe {
        *place.instance.get() = Some(instance);
        *place.waker.get() = Some(waker);
    }
    place.live.store(handle, SeqCst);
    Ok(std::ptr::without_provenance_mut(handle))
}

/// Takes an instance out and ends it.
pub(crate) fn remove(handle: *mut Handle) -> Result<(), Failure> {
    let inside = Inside::enter(handle)?;
    let place = inside.0;
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    place.live.store(0, SeqCst);
    while place.waking.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
    // SAFETY: this thread has set `inside`; `live` is 0 and nobody is waking any more, so nobody looks at
    // the waker before it is written again.
    let instance = unsafe {
        *place.waker.get() = None;
        (*place.instance.get()).take()
    };
    if let Some(instance) = instance {
        instance.end();
    }
    Ok(())
}

/// Ends the instance's sleep. Takes no lock, so that a signal handler may call it.
pub(crate) fn wake(handle: *mut Handle) -> c_int {
    let place = place(handle);
    place.waking.fetch_add(1, SeqCst);
    let is_live = !handle.is_null() && place.live.load(SeqCst) == handle.addr();
    if is_live {
        // SAFETY: `live` was not 0 after `waking` was raised, so whoever takes the waker away waits until
        // `waking` is lowered.
        if let Some(waker) = unsafe { &*place.waker.get() } {
            waker.wake();
        }
    }
    place.waking.fetch_sub(1, Release);
    if is_live { 0 } else { BMI_EHANDLE }
}
