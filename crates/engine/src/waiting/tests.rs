//! What the policy decides, one rule at a time.

use super::*;

const LIMIT: Duration = Duration::from_micros(50);
const US: Duration = Duration::from_micros(1);
const C: Constants = Constants::USUAL;

/// When a test begins.
pub(super) fn start() -> Instant {
    Instant::now()
}

/// A policy, and the time that passes for it.
struct Waiter {
    policy: Policy,
    now: Instant,
}

impl Waiter {
    fn new() -> Self {
        let now = Instant::now();
        let policy = Policy::with(C, LIMIT, now);
        Self { policy, now }
    }

    /// One among others that wait.
    fn contended() -> Self {
        let mut waiter = Self::new();
        for _ in 0..8 {
            waiter.yielded(3 * US);
        }
        assert_eq!(waiter.competitors(), Competitors::Waiting);
        waiter
    }

    fn competitors(&self) -> Competitors {
        self.policy.contention.competitors()
    }

    fn yielded(&mut self, took: Duration) {
        self.measured(took, None, None);
    }

    fn measured(&mut self, took: Duration, switched: Option<bool>, run_queue: Option<u32>) {
        let from = self.now;
        self.now += took;
        self.policy.yielded(Yielded {
            from,
            until: self.now,
            switched,
            run_queue,
        });
    }

    /// The next step of a wait that has polled in vain for this time, after an event in it if it `has_begun`.
    fn after(&mut self, spun: Duration, has_begun: bool) -> Decision {
        self.policy.wait = None;
        self.policy.begin(Awaited::Messages, self.now);
        if has_begun {
            self.policy.progressed(self.now);
        }
        let decision = self.policy.next(self.now + spun);
        self.policy.wait = None;
        decision
    }

    fn arrived(&mut self, waited: Duration) {
        self.policy.begin(Awaited::Messages, self.now);
        self.now += waited;
        self.policy.arrived(self.now);
    }

    fn polls(&self) -> u32 {
        self.policy.polls_per_reading()
    }

    fn polled(&mut self, polls: u32, took: Duration) {
        self.policy.begin(Awaited::Messages, self.now);
        self.now += took;
        self.policy.polled(polls, false, self.now);
    }

    /// Waits of `each` that find their message at once, until the time slice is over.
    fn waits_in_slice(&mut self, each: Duration) -> u32 {
        for waits in 1..100_000 {
            self.now += each;
            if self.policy.count_call() {
                self.policy.clock_read(self.now);
            }
            if self.policy.enter() {
                return waits;
            }
            self.policy.arrived_at_once(Awaited::Messages);
        }
        panic!("the slice does not end");
    }
}

#[test]
fn a_lone_thread_polls_then_yields_then_parks_at_the_limit() {
    let mut waiter = Waiter::new();
    assert_eq!(waiter.after(US, false), Decision::Poll(POLLS_PER_CALL));
    assert_eq!(waiter.after(10 * US, false), Decision::Yield);
    assert_eq!(waiter.after(LIMIT, false), Decision::Park);
    // Between the steps of a large message it waits longer.
    assert_eq!(waiter.after(LIMIT, true), Decision::Yield);
    assert_eq!(waiter.after(2 * LIMIT, true), Decision::Park);
}

#[test]
fn a_wait_for_what_takes_long_parks_until_something_comes_soon_again() {
    let mut waiter = Waiter::new();
    for _ in 0..20 {
        waiter.arrived(Duration::from_secs(1));
    }
    assert_eq!(waiter.after(C.batch, false), Decision::Park);
    for _ in 0..20 {
        waiter.arrived(15 * LIMIT);
    }
    assert_eq!(waiter.after(LIMIT - US, false), Decision::Yield);
    assert_eq!(waiter.after(LIMIT, false), Decision::Park);
}

#[test]
fn a_wait_in_which_nothing_is_expected_soon_parks_and_teaches_nothing() {
    for mut waiter in [Waiter::new(), Waiter::contended()] {
        for _ in 0..20 {
            waiter.policy.expect_nothing_soon();
            assert_eq!(waiter.after(C.batch, false), Decision::Park);
            waiter.arrived(15 * LIMIT);
        }
        assert_eq!(waiter.after(LIMIT - US, false), Decision::Yield);
        assert_eq!(waiter.policy.learnt(Awaited::Messages).usual_ns, 0);
    }
}

#[test]
fn one_long_wait_is_forgotten() {
    let mut waiter = Waiter::new();
    waiter.arrived(Duration::from_secs(3600));
    assert_eq!(waiter.after(LIMIT - US, false), Decision::Yield);
}

#[test]
fn a_wait_that_was_given_up_is_continued_by_the_next() {
    let mut waiter = Waiter::new();
    waiter.policy.begin(Awaited::Messages, waiter.now);
    waiter.now += LIMIT;
    // The caller's time was up; it comes again.
    let decision = waiter.policy.begin(Awaited::Messages, waiter.now);
    assert_eq!(decision, Decision::Poll(POLLS_PER_CALL));
    let decision = waiter.policy.polled(POLLS_PER_CALL, false, waiter.now + US);
    assert_eq!(decision, Decision::Park);
}

#[test]
fn among_others_that_wait_polls_are_few_and_the_limit_long() {
    let mut waiter = Waiter::contended();
    assert!(
        waiter.polls() <= POLLS_PER_CALL
            && waiter.policy.first_polls(Awaited::Messages) <= POLLS_PER_CALL
    );
    assert_eq!(waiter.after(Duration::ZERO, false), Decision::Yield);
    assert_eq!(waiter.after(10 * LIMIT, false), Decision::Yield);
    let limit = C.contended_factor * LIMIT;
    assert_eq!(waiter.after(limit, false), Decision::Park);
    for _ in 0..20 {
        waiter.arrived(Duration::from_millis(5));
    }
    assert_eq!(waiter.after(C.batch, false), Decision::Park);
    for _ in 0..20 {
        waiter.arrived(20 * US);
    }
    assert_eq!(waiter.after(10 * LIMIT, false), Decision::Yield);
    // The others park, or end.
    for _ in 0..50 {
        waiter.yielded(US / 4);
    }
    assert_eq!(waiter.competitors(), Competitors::None);
    assert_eq!(waiter.after(LIMIT, false), Decision::Park);
}

#[test]
fn beside_a_cpu_bound_thread_waits_do_not_yield_for_a_time_that_doubles() {
    let mut waiter = Waiter::contended();
    let backoff = |waiter: &mut Waiter| {
        let mut waits = 0;
        while waiter.after(US, false) != Decision::Yield {
            assert_eq!(waiter.after(C.batch, false), Decision::Park);
            waiter.arrived(10 * US);
            waits += 1;
        }
        waits
    };
    waiter.yielded(C.long_yield);
    assert_eq!(backoff(&mut waiter), 0);
    waiter.yielded(C.long_yield);
    assert_eq!(backoff(&mut waiter), C.backoff_waits);
    for _ in 0..20 {
        waiter.yielded(3 * C.long_yield);
        backoff(&mut waiter);
    }
    waiter.yielded(C.long_yield);
    assert_eq!(backoff(&mut waiter), C.backoff_waits * C.memory_yields);
    // One long yield among many short ones is no reason to park.
    for _ in 0..C.memory_yields {
        waiter.yielded(3 * US);
    }
    waiter.yielded(C.long_yield);
    assert_eq!(backoff(&mut waiter), 0);
    waiter.yielded(C.long_yield);
    assert_eq!(backoff(&mut waiter), C.backoff_waits);
}

#[test]
fn a_count_of_the_run_queue_holds_for_some_long_yields() {
    let mut waiter = Waiter::contended();
    let long = C.long_yield;
    for _ in 0..2 {
        assert!(waiter.policy.wants_run_queue(long));
        waiter.measured(long, None, Some(32));
        for _ in 1..C.yields_per_count {
            assert!(!waiter.policy.wants_run_queue(long));
            waiter.measured(long, None, None);
            assert_eq!(waiter.competitors(), Competitors::Waiting);
        }
    }
    // A count that does not explain a yield is not relied on: other threads have come since.
    waiter.measured(long, None, Some(2));
    assert!(waiter.policy.wants_run_queue(2 * long));
    waiter.measured(2 * long, None, Some(32));
    assert_eq!(waiter.competitors(), Competitors::Waiting);
    assert!(!waiter.policy.wants_run_queue(2 * long));
    (1..C.yields_per_count).for_each(|_| waiter.measured(long, None, None));
    // If it cannot be counted, the earlier count does not stay valid for ever.
    (0..2).for_each(|_| waiter.measured(long, None, None));
    assert_eq!(waiter.competitors(), Competitors::CpuBound);
}

#[test]
fn a_long_yield_among_very_many_that_wait_is_not_taken_for_a_cpu_bound_thread() {
    let ms = Duration::from_millis;
    for (took, run_queue, expected) in [
        (ms(3), None, Competitors::CpuBound),
        (ms(3), Some(1), Competitors::CpuBound),
        (ms(3), Some(2), Competitors::CpuBound),
        (ms(3), Some(32), Competitors::Waiting),
        (ms(3 * 32), Some(32), Competitors::CpuBound),
    ] {
        let mut waiter = Waiter::contended();
        waiter.yielded(C.long_yield);
        waiter.yielded(C.long_yield);
        assert_eq!(waiter.competitors(), Competitors::CpuBound);
        // More than one, since one may be an exception.
        (0..3).for_each(|_| waiter.measured(took, None, run_queue));
        assert_eq!(waiter.competitors(), expected, "{took:?}, {run_queue:?}");
        if expected == Competitors::Waiting {
            // It is worth some rounds of all of them, until they are fewer.
            let usual = LIMIT * C.contended_factor;
            assert_eq!(waiter.after(2 * usual, false), Decision::Yield);
            assert_eq!(waiter.after(usual + 8 * took, false), Decision::Park);
            (0..C.memory_yields).for_each(|_| waiter.yielded(3 * US));
            assert_eq!(waiter.after(2 * usual, false), Decision::Park);
        }
    }
}

#[test]
fn what_a_yield_costs_alone_is_measured() {
    // A machine whose system calls are three times as dear as assumed.
    let mut waiter = Waiter::new();
    for _ in 0..20 {
        assert_eq!(
            waiter.policy.wants_switches(),
            waiter.policy.contention.wants_switches()
        );
        let switched = waiter.policy.wants_switches().then_some(false);
        waiter.measured(3 * C.lone_yield, switched, None);
    }
    assert!(!waiter.policy.wants_switches());
    assert_eq!(waiter.competitors(), Competitors::None);
    // Where another thread ran from the beginning, nothing is learnt of a lone yield, and counting becomes rare.
    let mut waiter = Waiter::new();
    let mut counted = 0;
    for _ in 0..2000 {
        let switched = waiter.policy.wants_switches().then_some(true);
        counted += u32::from(switched.is_some());
        waiter.measured(3 * C.lone_yield, switched, None);
    }
    assert!((8..20).contains(&counted), "{counted}");
    assert_eq!(waiter.competitors(), Competitors::Waiting);
    // It ends: the cost of a lone yield is soon known again.
    for _ in 0..300 {
        let switched = waiter.policy.wants_switches().then_some(false);
        waiter.measured(3 * C.lone_yield, switched, None);
    }
    assert!(!waiter.policy.wants_switches());
    assert_eq!(waiter.competitors(), Competitors::None);
}

#[test]
fn a_process_with_a_processor_of_its_own_keeps_awake_as_long_as_among_others() {
    let now = Instant::now();
    let mut waiter = Waiter {
        policy: Policy::new(LIMIT, true, now),
        now,
    };
    let long = LIMIT * C.contended_factor;
    for has_begun in [false, true] {
        assert_eq!(waiter.after(long - US, has_begun), Decision::Yield);
        assert_eq!(waiter.after(long, has_begun), Decision::Park);
    }
    assert_eq!(waiter.policy.awake_limit_of_followers(), long);
    // After a long yield it parks as any other, for some time; after one more, which has run a CPU-bound thread, it yields no more.
    waiter.yielded(C.long_yield);
    assert!(!waiter.policy.is_undisturbed());
    assert_eq!(waiter.after(LIMIT - US, false), Decision::Yield);
    assert_eq!(waiter.after(LIMIT, false), Decision::Park);
    waiter.measured(C.long_yield, None, Some(2));
    assert_eq!(waiter.competitors(), Competitors::CpuBound);
    for _ in 0..2 {
        let polls = Decision::Poll(POLLS_PER_CALL);
        assert_eq!(waiter.after(LIMIT - US, false), polls);
        assert_eq!(waiter.after(LIMIT, false), Decision::Park);
        // However many waits end meanwhile.
        (0..C.backoff_waits * C.memory_yields).for_each(|_| waiter.arrived(US / 10));
        waiter.policy.clock_read(waiter.now);
    }
    waiter.now += C.memory_of_long;
    waiter.policy.clock_read(waiter.now);
    assert!(waiter.policy.is_undisturbed());
    waiter.policy.set_limit(Duration::ZERO);
    assert_eq!(waiter.after(Duration::ZERO, false), Decision::Park);
}

#[test]
fn polls_are_counted_by_what_they_cost() {
    let cost = |ns: u64, polls: u32| Duration::from_nanos(ns) * polls;
    for (ns, most, least) in [(20, 64, 50), (600, 6, 1), (5000, 1, 1)] {
        let mut waiter = Waiter::new();
        for _ in 0..20 {
            let polls = waiter.polls();
            waiter.polled(polls, cost(ns, polls));
        }
        assert!((least..=most).contains(&waiter.polls()));
        // Among other threads, an eighth of the polls is enough.
        (0..8).for_each(|_| waiter.yielded(3 * US));
        let few = waiter.polls();
        assert!(few == 1 || few * 8 <= most);
        // An interruption is soon forgotten.
        waiter.polled(few, Duration::from_millis(1));
        (0..8).for_each(|_| waiter.polled(few, cost(ns, few)));
        assert_eq!(waiter.polls(), few);
    }
}

#[test]
fn without_a_limit_nothing_is_polled_for() {
    let mut waiter = Waiter::contended();
    waiter.policy.set_limit(Duration::ZERO);
    assert_eq!(waiter.policy.first_polls(Awaited::Messages), 0);
    assert_eq!(waiter.after(Duration::ZERO, false), Decision::Park);
    assert_eq!(waiter.after(Duration::ZERO, true), Decision::Park);
    waiter.arrived(Duration::from_secs(1));
}

#[test]
fn slices_are_short_among_others_and_long_where_yields_run_no_other_thread() {
    let mut waiter = Waiter::new();
    let each = 2 * US;
    // The clock is not read in every wait.
    let fills = |slice: Duration, waits: u32| {
        (slice..=slice + C.clock_period() + each).contains(&(each * waits))
    };
    waiter.waits_in_slice(each);
    let to_many = |waiter: &mut Waiter| waiter.measured(63 * C.shortest_slice, None, Some(64));
    for _ in 0..3 {
        to_many(&mut waiter);
        let waits = waiter.waits_in_slice(each);
        assert!(fills(C.shortest_slice, waits), "{waits}");
    }
    (0..10).for_each(|_| waiter.yielded(US / 4));
    assert_eq!(waiter.policy.slice.length, C.longest_slice());
    let waits = waiter.waits_in_slice(each);
    assert!(fills(C.longest_slice(), waits), "{waits}");
    // A CPU-bound thread takes its share without being asked.
    (0..2).for_each(|_| waiter.measured(Duration::from_millis(4), None, Some(2)));
    let waits = waiter.waits_in_slice(each);
    assert!(fills(C.memory_of_long, waits), "{waits}");
    (0..6).for_each(|_| to_many(&mut waiter));
    assert_eq!(waiter.policy.slice.length, C.shortest_slice);
}

#[test]
fn parking_begins_a_slice() {
    let mut waiter = Waiter::new();
    for _ in 0..100 {
        let from = waiter.now;
        waiter.now += C.shortest_slice;
        waiter.policy.parked(from, waiter.now);
        waiter.now += C.shortest_slice / 2;
        waiter.policy.clock_read(waiter.now);
        assert!(!waiter.policy.enter());
    }
}

/// Clients of one processor whose server is quick, half of which have been alone before.
#[test]
fn many_that_share_a_processor_are_soon_served_alike() {
    let mut now = Instant::now();
    let mut clients: Vec<_> = (0..64).map(|_| (Waiter::new(), 0_u32, now)).collect();
    for (waiter, ..) in clients.iter_mut().step_by(2) {
        waiter.policy.slice.length = C.longest_slice();
    }
    for round in 0..40 {
        for (waiter, served, gave_up) in &mut clients {
            if round > 0 {
                waiter.now = *gave_up;
                waiter.yielded(now - *gave_up);
            }
            let waits = waiter.waits_in_slice(2 * US);
            now += waits * 2 * US;
            if round >= 10 {
                *served += waits;
            }
            *gave_up = now;
        }
    }
    let served = clients.iter().map(|(_, served, _)| *served);
    let (most, least) = (served.clone().max().unwrap(), served.min().unwrap());
    assert!(4 * most <= 5 * least, "{least} to {most}");
}

#[test]
fn the_clock_is_read_seldom_by_busy_callers_and_always_by_slow_ones() {
    let mut waiter = Waiter::new();
    let mut reads = 0;
    for _ in 0..10_000 {
        waiter.now += Duration::from_nanos(50);
        if waiter.policy.count_call() {
            reads += 1;
            waiter.policy.clock_read(waiter.now);
        }
    }
    assert!(reads < 300, "{reads}");
    reads = 0;
    for _ in 0..600 {
        waiter.now += Duration::from_millis(1);
        if waiter.policy.count_call() {
            reads += 1;
            waiter.policy.clock_read(waiter.now);
        }
    }
    assert!(reads > 500, "{reads}");
}

#[test]
fn ticks_come_at_the_deadline_or_soon() {
    let mut waiter = Waiter::new();
    let now = waiter.now;
    let policy = &mut waiter.policy;
    assert!(policy.clock_read(now));
    policy.ticked(now, Some(now + Duration::from_millis(3)));
    assert!(!policy.clock_read(now + Duration::from_millis(2)));
    assert!(policy.clock_read(now + Duration::from_millis(3)));
    policy.ticked(now, None);
    assert!(policy.clock_read(now + C.tick));
}

#[test]
fn each_kind_of_wait_learns_from_its_own() {
    let mut waiter = Waiter::new();
    let park = |waiter: &mut Waiter, awaited| {
        waiter.policy.wait = None;
        waiter.policy.begin(awaited, waiter.now);
        let decision = waiter.policy.next(waiter.now + 10 * US);
        waiter.policy.wait = None;
        decision == Decision::Park
    };
    for _ in 0..20 {
        waiter.policy.begin(Awaited::Step, waiter.now);
        waiter.now += Duration::from_secs(1);
        waiter.policy.arrived(waiter.now);
        waiter.policy.begin(Awaited::Lock, waiter.now);
        waiter.now += C.batch;
        waiter.policy.polled(POLLS_PER_CALL / 4, false, waiter.now);
        waiter.policy.arrived(waiter.now);
    }
    assert!(park(&mut waiter, Awaited::Step));
    assert!(!park(&mut waiter, Awaited::Lock) && !park(&mut waiter, Awaited::Messages));
    let first = |awaited| waiter.policy.first_polls(awaited);
    assert!(first(Awaited::Lock) <= POLLS_PER_CALL);
    assert_eq!(first(Awaited::Step), 2 * POLLS_PER_CALL);
}

#[test]
fn a_wait_for_the_message_that_tells_of_a_step_goes_on_with_that_for_the_step() {
    for (first, parks) in [
        (Awaited::Step, true),
        (Awaited::Lock, true),
        // Its holder sends no message: this is another wait.
        (Awaited::ShortLock, false),
    ] {
        let mut waiter = Waiter::new();
        waiter.policy.begin(first, waiter.now);
        waiter.now += LIMIT;
        waiter.policy.begin(Awaited::Messages, waiter.now);
        let decision = waiter.policy.polled(POLLS_PER_CALL, false, waiter.now + US);
        assert_eq!(decision == Decision::Park, parks, "{first:?}");
        assert_eq!(waiter.policy.waits_for_memory(), parks);
        // The cost of these polls is recorded for messages.
        assert_eq!(waiter.policy.polled_kind(), Awaited::Messages);
    }
}

#[test]
fn waits_for_steps_among_others_that_wait_are_mostly_not_measured_unless_they_are_rare() {
    let mut waiter = Waiter::contended();
    let mut measured = |apart: Duration| {
        let waits = (0..10 * C.waits_per_measured).filter(|_| {
            waiter.now += apart;
            let now = waiter.now;
            waiter.policy.first_yields(Awaited::Step, || now) == 0
        });
        waits.count() as u32
    };
    assert!((9..=11).contains(&measured(US)));
    assert!(measured(3 * C.long_yield) >= 9 * C.waits_per_measured);
    assert!((9..=20).contains(&measured(US)));
    let now = waiter.now;
    assert_eq!(waiter.policy.first_yields(Awaited::Lock, || now), 0);
    assert_eq!(Waiter::new().policy.first_yields(Awaited::Step, || now), 0);
}

#[test]
fn a_wait_for_a_lock_that_is_held_for_a_moment_never_parks() {
    let mut waiter = Waiter::new();
    for spun in [LIMIT, 1000 * LIMIT] {
        waiter.policy.begin(Awaited::ShortLock, waiter.now);
        assert_eq!(waiter.policy.next(waiter.now + spun), Decision::Yield);
        waiter.policy.wait = None;
    }
}

#[test]
fn a_thread_that_has_moved_bytes_of_a_transfer_stays_awake_for_a_while() {
    let mut waiter = Waiter::new();
    let mut parks = |has_moved, after: Duration| {
        let now = waiter.now + after;
        waiter.policy.before_parking(has_moved, now) == Decision::Park
    };
    assert!(parks(false, US));
    assert!(!parks(true, 2 * US));
    assert!(!parks(false, C.linger));
    assert!(!parks(true, C.linger + US));
    assert!(!parks(false, 2 * C.linger));
    assert!(parks(false, 2 * C.linger + US));
    assert!(parks(false, 2 * C.linger + 2 * US));
}
