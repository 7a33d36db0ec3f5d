//! Handles of instances for C, and the boundary between C and Rust.
//!
//! A `bmi_t *` is not a pointer but a number: a slot in a table that is never freed, and the slot's
//! generation. So a handle that was finalized, or never was one, causes an error and not a crash.
//! One thread at a time is inside an instance; [`causeway_sys::critical_section`] describes how several
//! share it. Waking is the one call that does not enter the instance.
//!
//! After a fork the instances belong to the parent: the child's calls with them return errors and
//! change nothing. The child keeps its copies of their resources (descriptors, shared memory) until
//! it ends or executes another program.
//!
//! Panics are caught here: the call returns [`BMI_EINTERNAL`], and so does every later one.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::{Duration, Instant};

use causeway_bmi::{Parked, Waker};
use causeway_sys::critical_section::{
    self, BROKEN, Called, CriticalSection, FREE, Next, PARENTS, Wait,
};

use crate::error::{BMI_EHANDLE, BMI_EINTERNAL, BMI_ELIMIT, BMI_ESYSTEM, Failure};
use crate::instance::{Instance, duration_us};

/// The type that `bmi_t *` points to for C; see above.
#[repr(C)]
pub struct Handle {
    _private: [u8; 0],
}

const SLOT_BITS: u32 = 10;
/// Most instances of one process at a time.
const SLOTS: usize = 1 << SLOT_BITS;

/// A slot for an instance. Alone on its cache lines: `state` is written by every call.
#[repr(align(128))]
struct Slot {
    /// The handle of the instance in this slot; 0 if there is none.
    live: AtomicUsize,
    /// Which thread may be inside.
    entry: CriticalSection,
    /// Touched by the thread that is inside; null while `live` is 0.
    instance: UnsafeCell<*mut Instance>,
    /// How many instances the slot has held.
    generation: AtomicUsize,
    /// Threads, or signal handlers, that may be using `waker`.
    waking: AtomicU32,
    /// Written while `live` is 0 and `waking` is 0.
    waker: UnsafeCell<Option<Waker>>,
}

// SAFETY: `instance` is used by the one thread that is inside; an `Instance` may move between
// threads (checked below). `waker` is only read while shared, as described there.
unsafe impl Sync for Slot {}

const fn may_move_between_threads<T: Send>() {}
const _: () = may_move_between_threads::<Instance>();

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        live: AtomicUsize::new(0),
        entry: CriticalSection::new(),
        instance: UnsafeCell::new(std::ptr::null_mut()),
        generation: AtomicUsize::new(0),
        waking: AtomicU32::new(0),
        waker: UnsafeCell::new(None),
    }
}; SLOTS];

/// Held while slots are taken or freed. Not a mutex of the library's: a child may have to release
/// it, if another thread of its parent held it at the fork.
static TABLE_LOCK: AtomicBool = AtomicBool::new(false);

/// Holds [`TABLE_LOCK`].
struct TableLock;

impl TableLock {
    fn begin() -> Self {
        while TABLE_LOCK
            .compare_exchange(false, true, Acquire, Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        Self
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        TABLE_LOCK.store(false, Release);
    }
}

/// Makes the instances of the parent unusable in a child. Runs in the child, whose only thread is this one, before
/// `fork` returns.
extern "C" fn disown() {
    for slot in &TABLE {
        if slot.live.load(Relaxed) != 0 {
            slot.entry.disown();
            // Other threads of the parent, which may have been waking, do not exist in the child.
            slot.waking.store(0, Relaxed);
        }
    }
    TABLE_LOCK.store(false, Release);
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
            "there is no memory for a handler of forks",
        )),
    }
}

#[inline]
fn slot(handle: *mut Handle) -> &'static Slot {
    &TABLE[handle.addr() % SLOTS]
}

/// Why a slot cannot be entered.
#[cold]
fn refusal(state: u64) -> Failure {
    match state {
        FREE => Failure::new(
            BMI_EHANDLE,
            "this bmi_t was finalized, or never initialized",
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

/// Lets this thread enter the instance until it leaves. Otherwise returns the state, which
/// [`refusal`] turns into an error.
#[inline(always)]
fn enter(handle: *mut Handle) -> Result<&'static Slot, u64> {
    let slot = slot(handle);
    let is_live = || slot.live.load(Relaxed) == handle.addr() && !handle.is_null();
    if !is_live() {
        return Err(FREE);
    }
    if !slot.entry.try_enter() {
        slot.entry.enter_contended(is_live, || {
            interrupt_wait(handle, |_| {});
        })?;
    }
    // It may have been finalized just before.
    if !is_live() {
        slot.entry.leave();
        return Err(FREE);
    }
    Ok(slot)
}

/// Carries out a call that needs no instance.
#[inline(always)]
pub(crate) fn guard(body: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    let guarded = AssertUnwindSafe(|| body().unwrap_or_else(Failure::report));
    catch_unwind(guarded).unwrap_or_else(|_| refusal(BROKEN).report())
}

/// Carries out a call of an instance. It is on the path of every message: it must cost little, and
/// errors are handled off the fast path.
#[inline(always)]
pub(crate) fn call(
    handle: *mut Handle,
    mut body: impl FnMut(&mut Instance) -> Result<c_int, Failure>,
) -> c_int {
    let slot = match enter(handle) {
        Ok(slot) => slot,
        Err(state) => return refusal(state).report(),
    };
    // SAFETY: this thread is inside, so no other uses the instance until it leaves; `live` is not 0, so it is
    // there.
    let instance = unsafe { &mut **slot.instance.get() };
    let mut called = Called::default();
    // `catch_unwind` copies its argument several times, so it gets a pointer to the call and not
    // the call.
    let mut run = || {
        let code = body(instance).unwrap_or_else(Failure::report);
        if slot.entry.is_shared() {
            called = slot
                .entry
                .note_changes(instance.bmi.change_counts(), |_| true);
            instance.bmi.check_parked();
        }
        code
    };
    let run = &mut run;
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(code) => {
            slot.entry.leave();
            called.wake();
            code
        }
        Err(_) => {
            slot.entry.close(BROKEN);
            called.wake();
            interrupt_wait(handle, |_| {});
            refusal(BROKEN).report()
        }
    }
}

/// Carries out a call that waits for at most `idle_us`: `body` is passed the time, and returns 0 if
/// there was nothing to return.
#[inline(always)]
pub(crate) fn call_waiting(
    handle: *mut Handle,
    idle_us: i64,
    mut body: impl FnMut(&mut Instance, Duration) -> Result<c_int, Failure>,
) -> c_int {
    let entry = &slot(handle).entry;
    let mut left = None;
    let code = call(handle, |instance| {
        let idle = duration_us(idle_us, "the idle time")?;
        if idle.is_zero() {
            return body(instance, idle);
        }
        // If several threads use the instance, none waits while it holds the instance.
        let may_wait = !entry.is_shared() && entry.begin_wait();
        let code = body(instance, if may_wait { idle } else { Duration::ZERO });
        entry.end_wait();
        if matches!(code, Ok(0)) {
            left = match may_wait {
                true => instance.bmi.take_interrupted(),
                false => Some(idle),
            };
        }
        code
    });
    match left {
        Some(left) => wait_shared(handle, left, &mut body),
        None => code,
    }
}

/// Waits if several threads use the instance, or continues a wait inside that another thread has ended. The
/// sleep is outside of the instance, which other threads use meanwhile.
#[cold]
fn wait_shared(
    handle: *mut Handle,
    left: Duration,
    body: &mut dyn FnMut(&mut Instance, Duration) -> Result<c_int, Failure>,
) -> c_int {
    let entry = &slot(handle).entry;
    let until = Instant::now().checked_add(left);
    let left = || until.map(|until| until.saturating_duration_since(Instant::now()));
    let mut wait = Wait::default();
    let mut parked: Option<Parked> = None;
    // The instance's changes when the thread went out to yield.
    let mut seen = None;
    loop {
        let mut next = (Next::Return, Called::default());
        let mut awake = Duration::ZERO;
        let code = call(handle, |instance| {
            if let Some(parked) = parked.take() {
                instance.bmi.finish_wait(parked);
                instance.bmi.take_interrupted();
            }
            // After a yield there is nothing to test for unless something has changed.
            let code = match seen.take() == Some(instance.bmi.change_counts()) {
                true => Ok(0),
                false => body(instance, Duration::ZERO),
            };
            let is_time_up = left().is_some_and(|left| left.is_zero());
            let is_over = !matches!(code, Ok(0)) || is_time_up || entry.take_wake_request();
            if is_over && wait.is_for_all() {
                instance.bmi.end_wait();
            }
            // Any change may be the awaited one.
            let awaited = (!is_over).then_some(None);
            next = entry.next(&mut wait, awaited, |watched| {
                debug_assert_eq!(watched, [], "no operation is named");
                let parked = instance.bmi.prepare_wait(until, &[]);
                instance.bmi.take_interrupted();
                let is_yield = parked.as_ref().is_some_and(|parked| !parked.is_sleep());
                seen = is_yield.then(|| instance.bmi.change_counts());
                parked
            });
            awake = instance.bmi.awake_limit_of_followers();
            code
        });
        let (next, called) = next;
        called.wake();
        match next {
            Next::Return => return code,
            Next::Again => {}
            Next::Park(mut idle) => {
                idle.wait();
                parked = Some(idle);
            }
            Next::Follow => entry.follow(&wait, awake, left()),
        }
    }
}

/// Assigns a slot to an instance.
pub(crate) fn insert(instance: Box<Instance>) -> Result<*mut Handle, Failure> {
    watch_forks()?;
    critical_section::prepare();
    let _lock = TableLock::begin();
    let is_free = |slot: &Slot| slot.live.load(Relaxed) == 0 && slot.entry.is_free();
    let Some(index) = TABLE.iter().position(is_free) else {
        let text = format!("there are {SLOTS} instances already");
        return Err(Failure::new(BMI_ELIMIT, text));
    };
    let slot = &TABLE[index];
    let generation = slot.generation.fetch_add(1, Relaxed) + 1;
    let handle = generation << SLOT_BITS | index;
    let waker = instance.bmi.waker();
    slot.entry.reset();
    // SAFETY: `live` is 0, so no thread gets past `enter` or reads the waker, and only this thread
    // fills slots.
    unsafe {
        *slot.instance.get() = Box::into_raw(instance);
        *slot.waker.get() = Some(waker);
    }
    slot.live.store(handle, SeqCst);
    Ok(std::ptr::without_provenance_mut(handle))
}

/// Removes an instance and ends it. A broken one is leaked, with all its memory and sockets, as the
/// header states: its state may be inconsistent, and peers may still be copying.
pub(crate) fn remove(handle: *mut Handle) -> Result<(), Failure> {
    let (slot, is_sound) = match enter(handle) {
        Ok(slot) => (slot, true),
        Err(BROKEN) => (slot(handle), false),
        Err(state) => return Err(refusal(state)),
    };
    let lock = TableLock::begin();
    let ended = slot
        .live
        .compare_exchange(handle.addr(), 0, SeqCst, Relaxed);
    // Another thread may have been faster with a broken one.
    ended.map_err(|_| refusal(FREE))?;
    while slot.waking.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
    // SAFETY: no other thread enters: this one is inside, or the instance is broken, and `live` is 0. `waking` is 0, so
    // no thread reads the waker before it is written again.
    let instance = unsafe {
        *slot.waker.get() = None;
        std::mem::replace(&mut *slot.instance.get(), std::ptr::null_mut())
    };
    slot.entry.close(FREE);
    drop(lock);
    if is_sound {
        // SAFETY: a pointer that `insert` made from a box, taken out of its slot once.
        unsafe { Box::from_raw(instance) }.end();
    }
    Ok(())
}

/// Ends a wait in the instance, or the next one. Takes no lock, so that a signal handler may call it.
pub(crate) fn wake(handle: *mut Handle) -> c_int {
    interrupt_wait(handle, CriticalSection::request_wake)
}

/// Ends the wait of the thread that is inside, or the next one, after a note for it.
fn interrupt_wait(handle: *mut Handle, note: impl FnOnce(&CriticalSection)) -> c_int {
    let slot = slot(handle);
    slot.waking.fetch_add(1, SeqCst);
    let is_here = !handle.is_null() && slot.live.load(SeqCst) == handle.addr();
    let is_live = is_here && slot.entry.state() != PARENTS;
    if is_live {
        note(&slot.entry);
        // SAFETY: `live` was not 0 after `waking` was raised, so a thread that removes the waker
        // waits until `waking` is lowered.
        if let Some(waker) = unsafe { &*slot.waker.get() } {
            waker.wake();
        }
    }
    slot.waking.fetch_sub(1, Release);
    if is_live { 0 } else { BMI_EHANDLE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::life::{BMI_finalize, BMI_initialize};
    use causeway_sys::memory::Memory;

    fn start() -> *mut Handle {
        let mut handle = std::ptr::null_mut();
        // SAFETY: a slot to write to, and the usual configuration.
        let code = unsafe { BMI_initialize(&raw mut handle, std::ptr::null()) };
        assert_eq!(code, 0);
        handle
    }

    #[test]
    fn after_a_panic_every_call_but_finalizing_returns_an_error() {
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
        assert_eq!(call(sound, &mut touch), 7, "another one is not affected");
        assert!(called);
        assert_eq!(BMI_finalize(broken), 0);
        assert_eq!(call(broken, |_| Ok(0)), BMI_EHANDLE);
        assert_eq!(BMI_finalize(broken), BMI_EHANDLE);
        assert_eq!(BMI_finalize(sound), 0);
        let is_gone: Vec<bool> = watches.iter().map(|watch| watch.is_gone()).collect();
        assert_eq!(
            is_gone,
            [false, true],
            "the state of a broken instance is kept"
        );
        assert_eq!(guard(|| panic!("a test")), BMI_EINTERNAL);
    }

    /// Each thread is inside alone, and all of them enter.
    #[test]
    fn threads_take_turns() {
        const THREADS: usize = 4;
        const CALLS: usize = 2000;
        let handle = start().addr();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let handle = std::ptr::without_provenance_mut(handle);
                    for _ in 0..CALLS {
                        let code = call(handle, |_| {
                            assert_eq!(inside.fetch_add(1, SeqCst), 0);
                            inside.fetch_sub(1, SeqCst);
                            Ok(3)
                        });
                        assert_eq!(code, 3);
                    }
                });
            }
        });
        assert_eq!(BMI_finalize(std::ptr::without_provenance_mut(handle)), 0);
    }

    /// One thread waits for all, the others sleep: a thread that resumes waiting wakes none of them.
    #[test]
    fn waiting_threads_do_not_wake_each_other() {
        const THREADS: usize = 3;
        let handle = start().addr();
        let tests = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let handle = std::ptr::without_provenance_mut(handle);
                    let code = call_waiting(handle, 300_000, |instance, idle| {
                        tests.fetch_add(1, SeqCst);
                        let found = &mut instance.unexpected;
                        instance.bmi.testunexpected(1, idle, found)?;
                        Ok(0)
                    });
                    assert_eq!(code, 0);
                });
            }
        });
        assert!(tests.load(SeqCst) < 20 * THREADS, "{tests:?}");
        assert_eq!(BMI_finalize(std::ptr::without_provenance_mut(handle)), 0);
    }

    #[test]
    fn a_slot_that_is_used_again_has_another_handle() {
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
