use std::sync::Arc;
use std::sync::mpsc::channel;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A thread enters, and finds that what it waits for has not come. It returns what it does next.
fn waits(entry: &CriticalSection, wait: &mut Wait, awaited: Awaited) -> (Next<()>, Vec<u64>) {
    assert!(entry.try_enter());
    let mut seen = Vec::new();
    let (next, called) = entry.next(wait, Some(awaited), |watched| {
        seen.extend_from_slice(watched);
        Some(())
    });
    entry.leave();
    called.wake();
    (next, seen)
}

/// A thread enters, and its wait is over.
fn ends(entry: &CriticalSection, wait: &mut Wait) {
    assert!(entry.try_enter());
    let (next, called) = entry.next(wait, None, |_| -> Option<()> { panic!("it has ended") });
    assert!(matches!(next, Next::Return));
    entry.leave();
    called.wake();
}

/// Whether the thread of this wait goes in at its next look.
fn is_to_enter(entry: &CriticalSection, wait: &Wait) -> bool {
    followers::is_to_enter(&**wait.word.as_ref().unwrap(), &entry.waiter)
}

fn note(entry: &CriticalSection, completions: u64, done: u64) {
    let called = entry.note_changes((completions, 0), |operation| operation == done);
    called.wake();
}

#[test]
fn followers_are_called_for_what_they_wait_for_alone() {
    let entry = CriticalSection::new();
    let [mut first, mut second, mut third, mut any] = [(); 4].map(|()| Wait::default());
    let (next, watched) = waits(&entry, &mut first, Some(1));
    assert!(matches!(next, Next::Park(())) && watched == [1]);
    for (wait, awaited) in [(&mut second, Some(2)), (&mut third, Some(3))] {
        assert!(matches!(waits(&entry, wait, awaited).0, Next::Follow));
    }
    // The one that waits for all polls for them, too; for any change if one waits for that.
    assert_eq!(waits(&entry, &mut first, Some(1)).1, [1, 2, 3]);
    assert!(matches!(waits(&entry, &mut any, None).0, Next::Follow));
    assert_eq!(waits(&entry, &mut first, Some(1)).1, []);
    note(&entry, 1, 3);
    let to_enter = [&second, &third, &any].map(|wait| is_to_enter(&entry, wait));
    assert_eq!(to_enter, [false, true, true]);
    // Without a change none is called, and one that comes back from a call follows again.
    waits(&entry, &mut any, None);
    note(&entry, 1, 2);
    let to_enter = [&second, &any].map(|wait| is_to_enter(&entry, wait));
    assert_eq!(to_enter, [false, false]);
    entry.call_all();
    assert!(is_to_enter(&entry, &second));
}

#[test]
fn more_threads_than_are_named_wait_for_any_change() {
    let entry = CriticalSection::new();
    let mut all: Vec<Wait> = (0..=MOST_WATCHED).map(|_| Wait::default()).collect();
    for (number, wait) in all.iter_mut().enumerate() {
        waits(&entry, wait, Some(number as u64));
    }
    assert_eq!(waits(&entry, &mut all[0], Some(0)).1, []);
    ends(&entry, &mut all[1]);
    assert_eq!(waits(&entry, &mut all[0], Some(0)).1.len(), MOST_WATCHED);
}

/// Runs a follower that sleeps at once while `meanwhile` has it called. It must not be the clock that ends that.
fn follows(entry: &CriticalSection, mut wait: Wait, meanwhile: impl FnOnce()) -> Wait {
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            assert!(matches!(waits(entry, &mut wait, Some(7)).0, Next::Follow));
            tell.send(()).unwrap();
            let began = Instant::now();
            entry.follow(&wait, Duration::ZERO, Some(LONG));
            assert!(began.elapsed() < LONG, "only the clock has ended it");
            wait
        });
        told.recv().unwrap();
        meanwhile();
        follower.join().unwrap()
    })
}

#[test]
fn a_follower_that_sleeps_is_woken_when_called_and_when_none_waits_for_all() {
    let entry = CriticalSection::new();
    let mut first = Wait::default();
    waits(&entry, &mut first, Some(1));
    let second = follows(&entry, Wait::default(), || {
        assert!(entry.try_enter());
        let called = entry.note_changes((1, 0), |operation| operation == 7);
        entry.leave();
        called.wake();
    });
    // It follows again, and takes over.
    let mut second = follows(&entry, second, || ends(&entry, &mut first));
    let (next, watched) = waits(&entry, &mut second, Some(7));
    assert!(matches!(next, Next::Park(())) && watched == [7]);
}

#[test]
fn a_follower_s_time_is_up() {
    let entry = CriticalSection::new();
    let [mut first, mut second] = [(); 2].map(|()| Wait::default());
    waits(&entry, &mut first, Some(1));
    waits(&entry, &mut second, Some(2));
    entry.follow(&second, Duration::ZERO, Some(Duration::from_millis(1)));
    entry.follow(&second, LONG, Some(Duration::from_millis(1)));
}

#[test]
fn fences_of_their_own_are_for_threads_that_meet_all_the_time() {
    let long_ago = Instant::now().checked_sub(LONG).unwrap();
    let took = |each: Duration| Fencing {
        since: Some(long_ago),
        count: FENCES_TIMED - 1,
        took: each * (FENCES_TIMED - 1),
    };
    assert!(!took(Duration::from_micros(5)).count(Instant::now()));
    assert!(took(LONG / FENCES_TIMED).count(Instant::now()));
    let mut none = Fencing::NONE;
    assert!(!none.count(Instant::now()));
}

/// The thread that leaves has not seen the waiting one, and wakes none: it had no fence, and could not be made to pass one.
#[test]
fn a_thread_whose_fence_fails_does_not_sleep_until_it_is_woken() {
    if !membarrier::register() {
        return;
    }
    prepare();
    // Not borrowed by a scope: it would wait for a thread that sleeps for ever.
    let entry = Arc::new(CriticalSection::new());
    assert!(entry.try_enter() && entry.begin_wait());
    let (tell, told) = channel();
    let its = Arc::clone(&entry);
    std::thread::spawn(move || {
        membarrier::tests::forbid();
        let entered = its.enter_contended(|| true, || _ = tell.send("it sleeps"));
        its.leave();
        tell.send(entered.map_or("it cannot enter", |()| "it was inside"))
    });
    assert_eq!(told.recv_timeout(LONG), Ok("it sleeps"));
    entry.end_wait();
    entry.state.store(FREE, SeqCst);
    let next = || told.recv_timeout(LONG);
    let last = std::iter::from_fn(|| next().ok()).find(|said| *said != "it sleeps");
    assert_eq!(last, Some("it was inside"));
    // Threads that leave have their own fences since; the next fence in all of them makes that certain.
    assert_eq!(entry.fences.load(SeqCst), SWITCHING);
    entry.heavy_fence();
    assert_eq!(entry.fences.load(SeqCst), OWN_FENCES);
}
