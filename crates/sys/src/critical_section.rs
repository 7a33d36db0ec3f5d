//! How threads share an instance of something: one at a time is inside.
//!
//! A thread enters by one compare-and-swap and leaves by one store. While one thread alone uses an instance, its calls cost nothing for other threads
//! that might enter: a thread that has to wait pays for the ordering, by a system call that makes all threads of the process pass a fence
//! ([`membarrier`]). Where threads meet so often that this takes a noticeable part of the time, each thread that leaves has a fence of its own instead.
//!
//! A thread that has to wait interrupts the wait of the thread inside, if that one waits for messages, and sleeps until it leaves. A
//! thread that calls again and again does not keep others out: the lock hands the instance to one that has waited for long
//! ([`crate::lock`]).
//!
//! Of several threads that wait in one instance, one waits for all: it polls inside, and yields the processor or sleeps outside until peers
//! send something. The others follow ([`crate::followers`]): each states what it waits for, and is called when that has happened. While the
//! thread that waits for all is outside, the instance is free: a thread that posts enters as usual, and wakes the waiting thread only if it
//! has left something to be polled, completed or timed, which the instance decides. While the waiting thread polls inside, a thread that
//! wants to enter interrupts it.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::followers::{self, AWAKE, FollowerMemory};
use crate::lock::{self, LockMemory, NUMBER_BITS};
pub use crate::lock::{BROKEN, FREE, PARENTS};
use crate::{futex, membarrier};

/// Whether the fence of threads that leave may be left out.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Registers the process with the system, so that threads that leave need no fence. To be called
/// before the first instance is made.
pub fn prepare() {
    ASYMMETRIC.store(membarrier::register(), Relaxed);
}

/// How threads that leave are ordered with threads that want to enter: a thread that wants to enter
/// makes all threads pass a fence.
const ASYMMETRIC_FENCES: u64 = 0;
/// Threads that leave have a fence of their own from now on, but a thread that wants to enter may
/// not have seen that yet. It stays so while the fence in all threads fails.
const SWITCHING: u64 = 1;
/// All threads have seen that: threads that want to enter also have only a fence of their own.
const OWN_FENCES: u64 = 2;

/// A thread that wants to enter sleeps at most this long while it is not certain that the threads that leave have seen that it waits: the
/// fence in all threads has failed, or another thread is just making it. Within this time what they have stored is visible, and so is to
/// them that they need a fence of their own.
const UNSURE_SLEEP: Duration = Duration::from_millis(1);

/// After this many fences in all threads, it is computed which part of the time they took. (An EPYC of the fourth generation; one thread makes calls
/// of 37 ns, another one each 5 to 400 µs: 26.9 to 27.8 million calls a second, near, with 1, 4, 16 and 64 alike; far 24.4 to 27.3 with 1 and 16. So
/// the number only has to be large enough to tell a meeting from the next one.)
const FENCES_TIMED: u32 = 16;
/// Threads get fences of their own if fences in all threads took more than one part in this many of the time. Fences of their own
/// make a short call some percent longer. (As above, if threads never get them: where the other thread calls each 5 µs, 12.1 instead of 26.9 million
/// calls a second near, 10.7 and 24.6 far; each 20 µs 16.2 and 27.2 near, 16.5 and 26.4 far; each 400 µs 26.9 and 27.3, where the other thread enters
/// in 6.6 instead of 0.7 to 2.2 µs. With 8 and 128 the calls are as many; each 400 µs the other thread enters in 5.7 and 0.4 µs.)
const MOST_OF_TIME: u32 = 32;

/// Fences in all threads since their part of the time was last computed.
struct Fencing {
    since: Option<Instant>,
    count: u32,
    took: Duration,
}

impl Fencing {
    /// Counts one, which began at `began`. Returns whether they take too much time.
    fn count(&mut self, began: Instant) -> bool {
        let since = *self.since.get_or_insert(began);
        self.took += began.elapsed();
        self.count += 1;
        if self.count < FENCES_TIMED {
            return false;
        }
        let is_too_much = self.took * MOST_OF_TIME > since.elapsed();
        *self = Self::NONE;
        is_too_much
    }

    const NONE: Self = Self {
        since: None,
        count: 0,
        took: Duration::ZERO,
    };
}

/// How often a thread that wants to enter checks the lock again before it sleeps, at least; and the most checks that are counted for
/// the average. A check takes some tens of nanoseconds, falling asleep and being woken some microseconds. (An EPYC of the fourth generation, two threads,
/// which spend as many steps inside as outside. At least 0: of 1,000 steps 0.70 million calls a second, far, instead of 1.2; 32, 64, 128 and 256: the
/// same as with 16 at either distance. At most 16: of 200 steps inside and 2,000 outside 1.2 million, far, instead of 1.5; 256: the same as with 64.
/// Four threads on one processor make 4.7 million whatever the two are.)
const FEWEST_SPINS: u32 = 16;
const MOST_COUNTED_SPINS: u32 = 64;

/// Most operations that a thread polls for on behalf of all. Where more threads wait, it polls for any change.
const MOST_WATCHED: usize = 16;

/// Which thread is inside an instance, and which wait.
pub struct CriticalSection {
    state: AtomicU64,
    /// Threads that wait to enter, what they sleep on, and whether one asks for the instance.
    wanted: AtomicU64,
    wakes: AtomicU64,
    handover_requested: AtomicU64,
    /// How often threads that entered without sleeping have lately checked the lock, on average.
    usual_spins: AtomicU32,
    /// [`ASYMMETRIC_FENCES`], [`SWITCHING`] or [`OWN_FENCES`].
    fences: AtomicU64,
    fencing: Mutex<Fencing>,
    /// The thread inside waits, or is about to.
    in_wait: AtomicBool,
    /// Several threads use the instance.
    shared: AtomicBool,
    /// A thread has requested that a wait end.
    wake_requested: AtomicBool,
    /// Not 0: a thread waits for all.
    waiter: AtomicU64,
    /// Threads that follow. The list is changed inside only; threads outside read it to call all followers.
    followers: Mutex<Vec<Listed>>,
    /// How many they are.
    following: AtomicUsize,
    /// The instance's counts when they were last looked at. Written by the thread inside.
    completions: AtomicU64,
    arrived: AtomicUsize,
}

/// What a waiting thread does next.
#[derive(Debug)]
pub enum Next<P> {
    /// Nothing: its wait is over.
    Return,
    /// It tests again.
    Again,
    /// It waits for all: it sleeps or yields outside, and finishes this wait when it has entered
    /// again.
    Park(P),
    /// It follows the thread that waits for all ([`CriticalSection::follow`]).
    Follow,
}

/// What a following thread waits for: an operation, by the number that the instance has for it, or any change
/// (`None`).
pub type Awaited = Option<u64>;

/// A thread's wait, from its first check to its last.
#[derive(Default)]
pub struct Wait {
    is_for_all: bool,
    word: Option<Arc<FollowerWord>>,
    is_listed: bool,
}

impl Wait {
    /// Whether the thread waits for all.
    pub fn is_for_all(&self) -> bool {
        self.is_for_all
    }
}

/// The word that a following thread watches and sleeps on.
struct FollowerWord {
    state: AtomicU64,
}

/// A thread that follows.
struct Listed {
    word: Arc<FollowerWord>,
    awaited: Awaited,
}

/// Followers that were called and sleep. They are woken once the caller has left, so that they find the lock free.
#[derive(Default)]
#[must_use = "they sleep"]
pub struct Called(Vec<Arc<FollowerWord>>);

impl Called {
    /// Wakes them.
    #[inline]
    pub fn wake(self) {
        for word in self.0 {
            word.wake();
        }
    }
}

impl FollowerMemory for FollowerWord {
    type Word = AtomicU64;

    fn state(&self) -> &AtomicU64 {
        &self.state
    }

    fn sleep(&self, state: u64) -> bool {
        futex::wait_here(&self.state, state, None)
    }

    fn wake(&self) {
        futex::wake_here(&self.state);
    }
}

/// A word as its own thread sees it, with the time at which the thread's wait expires.
struct OwnWord<'a> {
    word: &'a FollowerWord,
    until: Option<Instant>,
}

impl FollowerMemory for OwnWord<'_> {
    type Word = AtomicU64;

    fn state(&self) -> &AtomicU64 {
        &self.word.state
    }

    fn sleep(&self, state: u64) -> bool {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        futex::wait_here(&self.word.state, state, self.until.map(left))
    }

    fn wake(&self) {
        self.word.wake();
    }
}

impl Default for CriticalSection {
    fn default() -> Self {
        Self::new()
    }
}

impl CriticalSection {
    /// No thread is inside.
    pub const fn new() -> Self {
        Self {
            state: AtomicU64::new(FREE),
            wanted: AtomicU64::new(0),
            wakes: AtomicU64::new(0),
            handover_requested: AtomicU64::new(0),
            usual_spins: AtomicU32::new(0),
            fences: AtomicU64::new(ASYMMETRIC_FENCES),
            fencing: Mutex::new(Fencing::NONE),
            in_wait: AtomicBool::new(false),
            shared: AtomicBool::new(false),
            wake_requested: AtomicBool::new(false),
            waiter: AtomicU64::new(0),
            followers: Mutex::new(Vec::new()),
            following: AtomicUsize::new(0),
            completions: AtomicU64::new(0),
            arrived: AtomicUsize::new(0),
        }
    }

    /// Forgets what threads did here with another instance.
    pub fn reset(&self) {
        self.shared.store(false, Relaxed);
        self.wake_requested.store(false, Relaxed);
        self.waiter.store(0, Relaxed);
        self.in_wait.store(false, Relaxed);
        // In a forked child, a thread of the parent may have held the list. The child has no other threads that
        // follow.
        if let Ok(mut listed) = self.followers.try_lock() {
            listed.clear();
        }
        self.following.store(0, Relaxed);
    }

    /// The lock's state: one of the values of [`crate::lock`].
    pub fn state(&self) -> u64 {
        self.state.load(Relaxed)
    }

    /// Whether no thread is inside or waits to enter.
    pub fn is_free(&self) -> bool {
        self.state.load(Acquire) == FREE && self.wanted.load(SeqCst) == 0
    }

    /// Whether several threads use it.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// From now on each thread that leaves checks whether to wake one that sleeps outside.
    pub fn share(&self) {
        self.shared.store(true, Relaxed);
    }

    /// Enters if no thread is inside and none has been handed the lock.
    #[inline(always)]
    pub fn try_enter(&self) -> bool {
        lock::try_enter(self)
    }

    /// As [`lock::enter`]; `interrupt_wait` ends the wait of the thread inside.
    #[cold]
    pub fn enter_contended(
        &self,
        is_live: impl Fn() -> bool,
        interrupt_wait: impl Fn(),
    ) -> Result<(), u64> {
        self.share();
        lock::enter(self, is_live, || {
            if self.in_wait.load(SeqCst) {
                interrupt_wait();
            }
        })
    }

    /// Lets the next thread in.
    #[inline(always)]
    pub fn leave(&self) {
        lock::leave(self);
    }

    /// Leaves for good: others find the instance in this state.
    pub fn close(&self, state: u64) {
        lock::close(self, state);
        self.call_all();
    }

    /// Forgets the threads of the parent. Called in a child, whose only thread this is.
    pub fn disown(&self) {
        self.wanted.store(0, Relaxed);
        self.state.store(PARENTS, Relaxed);
    }

    /// Announces that this thread, which is inside, is about to wait. `false` if another thread wants to
    /// enter: then this one must not wait.
    #[inline]
    pub fn begin_wait(&self) -> bool {
        self.in_wait.store(true, Relaxed);
        self.light_fence();
        self.wanted.load(Relaxed) == 0
    }

    /// Ends what [`CriticalSection::begin_wait`] began.
    #[inline]
    pub fn end_wait(&self) {
        self.in_wait.store(false, Relaxed);
    }

    /// Requests that the present wait end, or the next one.
    pub fn request_wake(&self) {
        self.wake_requested.store(true, SeqCst);
    }

    /// Whether a wait was to end; clears the request.
    pub fn take_wake_request(&self) -> bool {
        self.wake_requested.load(SeqCst) && self.wake_requested.swap(false, SeqCst)
    }

    /// Decides what a thread does next that is inside and waits. `awaited` is what it still waits for; `None` if its wait is over or
    /// given up. `prepare` polls until one of the operations that it is passed is done, or, if there are none, until anything has
    /// changed. It then returns `None`, otherwise how to pass the time outside. The caller wakes the returned followers once it is
    /// outside.
    pub fn next<P>(
        &self,
        wait: &mut Wait,
        awaited: Option<Awaited>,
        prepare: impl FnOnce(&[u64]) -> Option<P>,
    ) -> (Next<P>, Called) {
        if wait.is_listed {
            self.unlist(wait);
        }
        let Some(awaited) = awaited else {
            return (Next::Return, self.end_wait_for_all(wait));
        };
        if !wait.is_for_all && self.waiter.load(Relaxed) != 0 {
            self.list(wait, awaited);
            return (Next::Follow, Called::default());
        }
        wait.is_for_all = true;
        self.waiter.store(1, SeqCst);
        let mut next = Next::Again;
        if self.begin_wait() {
            // Threads that enter have to know that this one waits, even if no thread has met another
            // one yet.
            self.share();
            let mut watched = [0; MOST_WATCHED];
            let watched = self.watched(awaited, &mut watched);
            next = prepare(watched).map_or(Next::Again, Next::Park);
        } else {
            // This thread has nothing to do before the threads that want to enter have been inside.
            lock::request_handover(self);
        }
        self.end_wait();
        (next, Called::default())
    }

    /// Ends a thread's wait. If no thread waits for all any more, a follower is called to do so.
    fn end_wait_for_all(&self, wait: &mut Wait) -> Called {
        let was_for_all = std::mem::take(&mut wait.is_for_all);
        if was_for_all {
            followers::end_waiter(&self.waiter);
        }
        if self.following.load(Relaxed) == 0 || self.waiter.load(Relaxed) != 0 {
            return Called::default();
        }
        let listed = self.listed();
        let Some(next) = followers::successor(listed.iter().map(|one| &*one.word)) else {
            return Called::default();
        };
        let is_next = |one: &&Listed| std::ptr::eq(&*one.word, next);
        let next = listed.iter().find(is_next);
        let next = next.filter(|one| followers::call(&*one.word));
        Called(next.map(|one| one.word.clone()).into_iter().collect())
    }

    fn listed(&self) -> MutexGuard<'_, Vec<Listed>> {
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the thread to those that follow.
    fn list(&self, wait: &mut Wait, awaited: Awaited) {
        let word = wait.word.get_or_insert_with(|| {
            Arc::new(FollowerWord {
                state: AtomicU64::new(AWAKE),
            })
        });
        word.state.store(AWAKE, Relaxed);
        let word = word.clone();
        let mut listed = self.listed();
        listed.push(Listed { word, awaited });
        self.following.store(listed.len(), Relaxed);
        wait.is_listed = true;
    }

    fn unlist(&self, wait: &mut Wait) {
        wait.is_listed = false;
        let Some(word) = &wait.word else {
            return;
        };
        let mut listed = self.listed();
        listed.retain(|one| !Arc::ptr_eq(&one.word, word));
        self.following.store(listed.len(), Relaxed);
    }

    /// The operations for which the thread that waits for all polls; none if one of the threads waits for any
    /// change.
    fn watched<'a>(&self, own: Awaited, room: &'a mut [u64; MOST_WATCHED]) -> &'a [u64] {
        let listed = self.listed();
        let all = std::iter::once(own).chain(listed.iter().map(|one| one.awaited));
        let mut count = 0;
        for awaited in all {
            let (Some(awaited), Some(free)) = (awaited, room.get_mut(count)) else {
                return &[];
            };
            *free = awaited;
            count += 1;
        }
        &room[..count]
    }

    /// Whether these counts are those of the last call of [`CriticalSection::note_changes`]: then that has nothing to do. Only inside.
    #[inline(always)]
    pub fn is_unchanged(&self, (completions, arrived): (u64, usize)) -> bool {
        (self.completions.load(Relaxed), self.arrived.load(Relaxed)) == (completions, arrived)
    }

    /// Calls followers if these counts differ from those of the last call: those whose operation is done, and those that wait for any
    /// change. Only inside.
    #[inline]
    pub fn note_changes(
        &self,
        (completions, arrived): (u64, usize),
        is_done: impl Fn(u64) -> bool,
    ) -> Called {
        if self.is_unchanged((completions, arrived)) {
            return Called::default();
        }
        // Written inside only.
        self.completions.store(completions, Relaxed);
        self.arrived.store(arrived, Relaxed);
        match self.following.load(Relaxed) {
            0 => Called::default(),
            _ => self.call(|awaited| awaited.is_none_or(&is_done)),
        }
    }

    /// Calls followers that wait for one of these operations.
    #[inline(never)]
    fn call(&self, is_for: impl Fn(Awaited) -> bool) -> Called {
        let listed = self.listed();
        let called = listed.iter().filter(|one| is_for(one.awaited));
        let called = called.filter(|one| followers::call(&*one.word));
        Called(called.map(|one| one.word.clone()).collect())
    }

    /// Calls all followers, so that each checks what it waits for.
    pub fn call_all(&self) {
        self.call(|_| true).wake();
    }

    /// Follows, outside, until this thread is called, until no thread waits for all, or for at most `limit`. The thread stays
    /// awake for the time `awake` before it sleeps.
    pub fn follow(&self, wait: &Wait, awake: Duration, limit: Option<Duration>) {
        let Some(word) = &wait.word else {
            return;
        };
        let began = Instant::now();
        let until = limit.and_then(|limit| began.checked_add(limit));
        let own = OwnWord { word, until };
        let awake = limit.map_or(awake, |limit| limit.min(awake));
        while !followers::is_to_enter(&own, &self.waiter) {
            if began.elapsed() >= awake {
                return followers::sleep(&own, &self.waiter);
            }
            std::thread::yield_now();
        }
    }
}

impl LockMemory for CriticalSection {
    type Word = AtomicU64;

    #[inline(always)]
    fn state(&self) -> &AtomicU64 {
        &self.state
    }

    #[inline(always)]
    fn waiting(&self) -> &AtomicU64 {
        &self.wanted
    }

    fn thread_number(&self) -> u64 {
        static THREADS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: u64 = THREADS.fetch_add(1, Relaxed) % (1 << NUMBER_BITS);
        }
        NUMBER.with(|number| *number)
    }

    fn heavy_fence(&self) {
        let fences = self.fences.load(SeqCst);
        // In a forked child, a thread of the parent may have held the lock below; no thread waits for an instance of the parent.
        if fences == OWN_FENCES || self.state.load(Relaxed) == PARENTS {
            return fence(SeqCst);
        }
        let began = Instant::now();
        let have_all_passed = membarrier::heavy();
        let fencing = &mut *self.fencing.lock().unwrap_or_else(PoisonError::into_inner);
        let takes_too_long = fencing.count(began);
        match fences {
            SWITCHING if have_all_passed => self.fences.store(OWN_FENCES, SeqCst),
            ASYMMETRIC_FENCES if takes_too_long || !have_all_passed => {
                self.fences.store(SWITCHING, SeqCst);
                // After this fence, all threads that leave see that they need a fence of their own.
                if membarrier::heavy() {
                    self.fences.store(OWN_FENCES, SeqCst);
                }
            }
            _ => {}
        }
    }

    #[inline(always)]
    fn light_fence(&self) {
        let is_asymmetric = self.fences.load(Relaxed) == ASYMMETRIC_FENCES;
        membarrier::light(is_asymmetric && ASYMMETRIC.load(Relaxed));
    }

    fn wakes(&self) -> &AtomicU64 {
        &self.wakes
    }

    fn handover_requested(&self) -> &AtomicU64 {
        &self.handover_requested
    }

    fn spin_limit(&self) -> u32 {
        // More than the average, so that the average can grow.
        2 * self.usual_spins.load(Relaxed) + FEWEST_SPINS
    }

    fn note_spins(&self, spins: u32, is_inside: bool) {
        // Threads may overwrite each other's values: the average is only an estimate.
        let usual = self.usual_spins.load(Relaxed);
        let usual = match is_inside {
            true => usual - usual / 8 + spins.min(MOST_COUNTED_SPINS) / 8,
            false => usual / 2,
        };
        self.usual_spins.store(usual, Relaxed);
    }

    fn may_miss_wakes(&self) -> bool {
        self.fences.load(SeqCst) == SWITCHING
    }

    fn sleep(&self, wakes: u64, may_miss: bool) {
        futex::wait_here(&self.wakes, wakes, may_miss.then_some(UNSURE_SLEEP));
    }

    fn wake(&self) {
        futex::wake_here(&self.wakes);
    }
}

#[cfg(test)]
mod tests;
