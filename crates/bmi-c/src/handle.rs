//! How C names an instance, and what stands between C and Rust.
//!
//! A `bmi_t *` is no pointer but a number: the place of the instance in a table that is never freed,
//! and how often that place has been used. So a handle that was finalized, or never was one, is an
//! error and not a crash. Each place notes whether a thread is inside, so that a second thread is turned
//! away ([`BMI_EBUSY`]) instead of ruining the instance; waking is the one call that others may make.
//!
//! After a fork the instances belong to the parent: the child's calls with them are errors that touch nothing.
//! What the child has of them (descriptors, shared memory) it keeps until it ends or executes another program.
//!
//! Panics end here: the call answers [`BMI_EINTERNAL`], and so does every later one.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize};

use causeway_bmi::Waker;

use crate::error::{BMI_EBUSY, BMI_EHANDLE, BMI_EINTERNAL, BMI_ELIMIT, BMI_ESYSTEM, Failure};
use crate::instance::Instance;

/// What a `bmi_t *` claims to point to.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

const PLACE_BITS: u32 = 10;
/// Most instances of one process at a time.
const PLACES: usize = 1 << PLACE_BITS;

/// A place for an instance. Alone on its cache lines: `state` is written by every call.
#[repr(align(128))]
struct Place {
    /// The handle of the instance that is here; 0 if there is none.
    live: AtomicUsize,
    /// [`FREE`], [`INSIDE`], [`BROKEN`] or [`PARENTS`].
    state: AtomicU8,
    /// Touched by whoever has set `state` to [`INSIDE`]; null while `live` is 0.
    instance: UnsafeCell<*mut Instance>,
    /// How often the place was used.
    used: AtomicUsize,
    /// Threads, or signal handlers, that may be using `waker`.
    waking: AtomicU32,
    /// Written while `live` is 0 and `waking` is 0.
    waker: UnsafeCell<Option<Waker>>,
}

/// No thread uses the instance.
const FREE: u8 = 0;
/// A thread does.
const INSIDE: u8 = 1;
/// A panic has left it in an unknown state: nobody uses it any more.
const BROKEN: u8 = 2;
/// It belongs to the process that this one was forked from.
const PARENTS: u8 = 3;

// SAFETY: `instance` is used by the one thread that has set `state`; an `Instance` may move between
// threads (checked below). `waker` is only read while shared, as described there.
unsafe impl Sync for Place {}

const fn may_move_between_threads<T: Send>() {}
const _: () = may_move_between_threads::<Instance>();

static TABLE: [Place; PLACES] = [const {
    Place {
        live: AtomicUsize::new(0),
        state: AtomicU8::new(FREE),
        instance: UnsafeCell::new(std::ptr::null_mut()),
        used: AtomicUsize::new(0),
        waking: AtomicU32::new(0),
        waker: UnsafeCell::new(None),
    }
}; PLACES];

/// Held while places are taken or given back. Not a mutex of the library's: a child may have to open it in whose
/// parent another thread held it.
static CHANGING: AtomicBool = AtomicBool::new(false);

/// Holds [`CHANGING`].
struct Changing;

impl Changing {
    fn begin() -> Self {
        while CHANGING
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        Self
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGING.store(false, Release);
    }
}

/// Makes the instances of the parent unusable in a child. Runs in the child, whose only thread is this one, before
/// `fork` returns.
extern "C" fn disown() {
    for place in &TABLE {
        if place.live.load(Relaxed) != 0 {
            place.state.store(PARENTS, Relaxed);
            // What another thread was doing in the parent it does not do here.
            place.waking.store(0, Relaxed);
        }
    }
    CHANGING.store(false, Release);
}

/// Has [`disown`] called in every child from now on.
fn watch_forks() -> Result<(), Failure> {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the function touches atomics only, which is allowed in a child of a process of several threads.
    let watched =
        WATCHED.get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(disown)) } == 0);
    match watched {
        true => Ok(()),
        false => Err(Failure::new(
            BMI_ESYSTEM,
            "there is no memory to be told of forks",
        )),
    }
}

#[inline]
fn place(handle: *mut Handle) -> &'static Place {
    &TABLE[handle.addr() % PLACES]
}

/// Why a place cannot be entered.
#[cold]
fn refusal(state: u8) -> Failure {
    match state {
        FREE => Failure::new(
            BMI_EHANDLE,
            "this bmi_t was finalized, or never initialized",
        ),
        INSIDE => Failure::new(
            BMI_EBUSY,
            "another thread is in a call of this instance; one thread at a time may use it",
        ),
        PARENTS => Failure::new(
            BMI_EHANDLE,
            "this bmi_t belongs to the parent of this process; initialize another one after fork()",
        ),
        _ => Failure::new(
            BMI_EINTERNAL,
            "a bug in the library stopped an earlier call or this one; finalize the instance",
        ),
    }
}

/// Marks the handle's place as used by this thread until [`leave`]. Otherwise answers what
/// [`refusal`] asks for.
#[inline(always)]
fn enter(handle: *mut Handle) -> Result<&'static Place, u8> {
    let place = place(handle);
    if place.live.load(Relaxed) != handle.addr() || handle.is_null() {
        return Err(FREE);
    }
    place
        .state
        .compare_exchange(FREE, INSIDE, Acquire, Relaxed)?;
    // It may have been finalized just before.
    if place.live.load(Relaxed) != handle.addr() {
        leave(place, FREE);
        return Err(FREE);
    }
    Ok(place)
}

#[inline(always)]
fn leave(place: &Place, state: u8) {
    place.state.store(state, Release);
}

/// Carries a call out that needs no instance.
#[inline(always)]
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let guarded = AssertUnwindSafe(|| body().unwrap_or_else(Failure::report));
    catch_unwind(guarded).unwrap_or_else(|_| refusal(BROKEN).report())
}

/// Carries a call of an instance out. On the path of every message: what it does must cost little, and
/// what fails is kept out of its way.
#[inline(always)]
pub(crate) fn call(
    handle: *mut Handle,
    mut body: impl FnMut(&mut Instance) -> Result<c_int, Failure>,
) -> c_int {
    let place = match enter(handle) {
        Ok(place) => place,
        Err(state) => return refusal(state).report(),
    };
    // SAFETY: this thread has set `state`, so nobody else uses the instance until it leaves; `live` is not
    // 0, so it is there.
    let instance = unsafe { &mut **place.instance.get() };
    // What `catch_unwind` takes it moves to and fro, so it gets a pointer to the call and not the call.
    let mut run = || body(instance).unwrap_or_else(Failure::report);
    let run = &mut run;
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(code) => {
            leave(place, FREE);
            code
        }
        Err(_) => {
            leave(place, BROKEN);
            refusal(BROKEN).report()
        }
    }
}

/// Gives an instance a place.
pub(crate) fn insert(instance: Box<Instance>) -> Result<*mut Handle, Failure> {
    watch_forks()?;
    let _changing = Changing::begin();
    let is_free =
        |place: &Place| place.live.load(Relaxed) == 0 && place.state.load(Acquire) == FREE;
    let Some(index) = TABLE.iter().position(is_free) else {
        let text = format!("there are {PLACES} instances already");
        return Err(Failure::new(BMI_ELIMIT, text));
    };
    let place = &TABLE[index];
    let uses = place.used.fetch_add(1, Relaxed) + 1;
    let handle = uses << PLACE_BITS | index;
    let waker = instance.bmi.waker();
    // SAFETY: `live` is 0, so no thread gets past `enter` or looks at the waker, and only this thread
    // fills places.
    unsafe {
        *place.instance.get() = Box::into_raw(instance);
        *place.waker.get() = Some(waker);
    }
    place.live.store(handle, SeqCst);
    Ok(std::ptr::without_provenance_mut(handle))
}

/// Takes an instance out and ends it. One that is broken is only forgotten, with all its memory and
/// sockets, as the header says: its parts may contradict each other, and peers may still be copying.
pub(crate) fn remove(handle: *mut Handle) -> Result<(), Failure> {
    let (place, is_sound) = match enter(handle) {
        Ok(place) => (place, true),
        Err(BROKEN) => (place(handle), false),
        Err(state) => return Err(refusal(state)),
    };
    let changing = Changing::begin();
    let ended = place
        .live
        .compare_exchange(handle.addr(), 0, SeqCst, Relaxed);
    // Another thread may have been faster with a broken one.
    ended.map_err(|_| refusal(FREE))?;
    while place.waking.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
    // SAFETY: nobody else enters: `state` is not free and `live` is 0. Nor is anybody waking any more, so
    // nobody looks at the waker before it is written again.
    let instance = unsafe {
        *place.waker.get() = None;
        std::mem::replace(&mut *place.instance.get(), std::ptr::null_mut())
    };
    leave(place, FREE);
    drop(changing);
    if is_sound {
        // SAFETY: what `insert` made of a box, taken out of its place once.
        unsafe { Box::from_raw(instance) }.end();
    }
    Ok(())
}

/// Ends the instance's sleep. Takes no lock, so that a signal handler may call it.
pub(crate) fn wake(handle: *mut Handle) -> c_int {
    let place = place(handle);
    place.waking.fetch_add(1, SeqCst);
    let is_here = !handle.is_null() && place.live.load(SeqCst) == handle.addr();
    let is_live = is_here && place.state.load(Relaxed) != PARENTS;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::{BMI_finalize, BMI_initialize};
    use causeway_sys::memory::Memory;

    fn start() -> *mut Handle {
        let mut handle = std::ptr::null_mut();
        // SAFETY: a place to write to, and the usual configuration.
        let code = unsafe { BMI_initialize(&raw mut handle, std::ptr::null()) };
        assert_eq!(code, 0);
        handle
    }

    #[test]
    fn a_panic_ends_in_a_code_and_only_finalizing_works_after_it() {
        let (broken, sound) = (start(), start());
        let mut watches = Vec::new();
        for handle in [broken, sound] {
            let keep = |instance: &mut Instance| {
                let memory = Memory::zeroed(100);
                watches.push(memory.watch());
                instance.memory.buffers.insert(memory);
                Ok(0)
            };
            assert_eq!(call(handle, keep), 0);
        }
        assert_eq!(call(broken, |_| panic!("a test")), BMI_EINTERNAL);
        let mut called = false;
        let mut touch = |_: &mut Instance| {
            called = true;
            Ok(7)
        };
        assert_eq!(call(broken, &mut touch), BMI_EINTERNAL);
        assert_eq!(wake(broken), 0, "it may still be woken");
        assert_eq!(call(sound, &mut touch), 7, "another one is not concerned");
        assert!(called);
        assert_eq!(BMI_finalize(broken), 0);
        assert_eq!(call(broken, |_| Ok(0)), BMI_EHANDLE);
        assert_eq!(BMI_finalize(broken), BMI_EHANDLE);
        assert_eq!(BMI_finalize(sound), 0);
        let is_gone: Vec<bool> = watches.iter().map(|watch| watch.is_gone()).collect();
        assert_eq!(is_gone, [false, true], "what a broken one has stays");
        assert_eq!(guard(|| panic!("a test")), BMI_EINTERNAL);
    }

    #[test]
    fn an_instance_lets_nobody_in_while_somebody_is_inside() {
        let handle = start();
        let inside = call(handle, |_| {
            assert_eq!(call(handle, |_| Ok(0)), BMI_EBUSY);
            assert_eq!(BMI_finalize(handle), BMI_EBUSY);
            Ok(3)
        });
        assert_eq!(inside, 3);
        assert_eq!(BMI_finalize(handle), 0);
    }

    #[test]
    fn a_place_that_is_used_again_has_another_handle() {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..20 {
            let handle = start();
            assert!(seen.insert(handle.addr()));
            for old in &seen {
                let expected = if *old == handle.addr() {
                    0
                } else {
                    BMI_EHANDLE
                };
                let old = std::ptr::without_provenance_mut(*old);
                assert_eq!(call(old, |_| Ok(0)), expected);
            }
            assert_eq!(BMI_finalize(handle), 0);
        }
    }
}
