use causeway_wire::fs::ObjectId;

use super::*;

const TIME: Duration = Duration::from_secs(8);
const ONE: u128 = 1;
const OTHER: u128 = 2;

fn attributes(object: u64) -> Leased {
    Leased::Attributes(ObjectId(object))
}

fn name(text: &str) -> Leased {
    Leased::Entry(ObjectId(1), text.into())
}

fn table() -> (Table, Instant) {
    let mut table = Table::new(TIME);
    assert!(table.set_reachable(ONE) && table.set_reachable(OTHER));
    (table, Instant::now())
}

/// Carries a change out, unless it must wait.
fn change(table: &mut Table, changer: Option<u128>, on: &Leased, now: Instant) -> bool {
    table.begin_batch();
    let is_admitted = table.admit(changer, [on.clone()].into_iter(), now).is_ok();
    table.end_batch();
    is_admitted
}

#[test]
fn a_change_waits_for_the_leases_of_others_alone() {
    let (mut table, now) = table();
    assert_eq!(table.grant(ONE, vec![attributes(5)], now), Some(TIME));
    assert!(change(&mut table, Some(ONE), &attributes(5), now));
    assert!(change(&mut table, Some(OTHER), &attributes(6), now));
    for changer in [Some(OTHER), None] {
        assert!(!change(&mut table, changer, &attributes(5), now));
    }
    let alters = [attributes(5)];
    assert_eq!(table.begin_wait(Some(OTHER), &alters, now), now + TIME);
    assert!(!table.is_free(Some(OTHER), &alters, now));
    // No program gets new leases meanwhile, nor is the lease extended.
    assert_eq!(table.grant(OTHER, vec![attributes(5)], now), None);
    let later = now + TIME / 2;
    assert_eq!(table.grant(ONE, vec![attributes(5)], later), None);
    assert_eq!(table.next_holder(), Some(ONE));
    assert_eq!(table.next_recall(ONE, now), Some((1, alters.to_vec())));
    assert_eq!(table.next_recall(ONE, now), None);
    table.end_recall(ONE, 1);
    assert!(table.is_free(Some(OTHER), &alters, later));
    assert!(change(&mut table, Some(OTHER), &attributes(5), later));
    table.end_wait(&alters);
    assert!(table.grant(ONE, vec![attributes(5)], later).is_some());
}

#[test]
fn a_holder_that_does_not_reply_delays_a_change_until_its_lease_has_expired() {
    let (mut table, now) = table();
    table.grant(ONE, vec![name("a"), attributes(5)], now);
    let alters = [name("a")];
    let until = table.begin_wait(None, &alters, now + TIME / 4);
    assert_eq!(until, now + TIME);
    table.set_unreachable(ONE);
    assert_eq!(table.next_recall(ONE, now), None);
    let just_before = until - Duration::from_nanos(1);
    assert!(!table.is_free(None, &alters, just_before));
    assert!(table.is_free(None, &alters, until));
    assert!(table.is_empty(until) && table.holders.len() == 1);
}

#[test]
fn what_a_program_may_have_missed_is_recalled_again() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    let alters = [attributes(5)];
    table.begin_wait(None, &alters, now);
    assert!(table.next_recall(ONE, now).is_some());
    table.set_unreachable(ONE);
    assert!(table.set_reachable(ONE));
    let (number, again) = table.next_recall(ONE, now).expect("a recall");
    assert_eq!(again, alters);
    // The confirmation of an earlier recall does not end this one.
    table.end_recall(ONE, number - 1);
    assert!(!table.is_free(None, &alters, now));
    table.end_recall(ONE, number);
    assert!(table.is_free(None, &alters, now));
}

#[test]
fn a_late_reply_to_a_recall_ends_no_later_lease() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    let alters = [attributes(5)];
    table.begin_wait(None, &alters, now);
    let (number, _) = table.next_recall(ONE, now).expect("a recall");
    // The holder connects again.
    table.set_unreachable(ONE);
    assert!(table.set_reachable(ONE));
    let later = now + TIME;
    assert!(table.is_free(None, &alters, later));
    table.end_wait(&alters);
    assert!(table.grant(ONE, vec![attributes(5)], later).is_some());
    table.end_recall(ONE, number);
    assert!(!table.is_free(None, &alters, later));
}

#[test]
fn a_holder_that_has_not_replied_delays_nobody_again_before_it_does() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    table.begin_wait(None, &[attributes(5)], now);
    let (number, _) = table.next_recall(ONE, now).expect("a recall");
    let later = now + TIME;
    assert!(table.is_free(None, &[attributes(5)], later));
    assert_eq!(table.grant(ONE, vec![attributes(6)], later + TIME), None);
    assert!(table.grant(OTHER, vec![attributes(6)], later).is_some());
    table.end_recall(ONE, number);
    // Not immediately after that either.
    assert_eq!(table.grant(ONE, vec![attributes(6)], later), None);
    assert!(
        table
            .grant(ONE, vec![attributes(6)], later + TIME)
            .is_some()
    );
}

#[test]
fn the_pause_of_a_holder_that_carries_out_no_recalls_doubles() {
    let (mut table, mut now) = table();
    let on = || vec![attributes(5)];
    for missed in 0..9u32 {
        assert!(table.grant(ONE, on(), now).is_some(), "{missed}");
        let until = table.begin_wait(None, &on(), now);
        assert!(table.next_recall(ONE, now).is_some());
        assert!(table.is_free(None, &on(), until));
        table.end_wait(&on());
        // The holder can get recalls again, and has carried none out.
        assert!(table.set_reachable(ONE) && table.next_recall(ONE, now).is_none());
        now = until + TIME * 2u32.pow(missed.min(6));
        let just_before = now - Duration::from_nanos(1);
        assert_eq!(table.grant(ONE, on(), just_before), None, "{missed}");
    }
    // A recall that is carried out in time cancels one that was missed.
    for _ in 0..9 {
        assert!(table.grant(ONE, on(), now).is_some());
        table.begin_wait(None, &on(), now);
        let (number, _) = table.next_recall(ONE, now).expect("a recall");
        table.end_recall(ONE, number);
        table.end_wait(&on());
    }
    assert_eq!(table.holders[&ONE].missed, 0);
}

#[test]
fn a_holder_that_was_told_of_nothing_has_missed_nothing() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    table.begin_wait(None, &[attributes(5)], now);
    let later = now + TIME;
    // There was no room for the recall.
    assert!(table.is_free(None, &[attributes(5)], later));
    table.end_wait(&[attributes(5)]);
    assert_eq!(table.next_recall(ONE, now), None);
    assert!(table.grant(ONE, vec![attributes(5)], later).is_some());
    // A lease that has expired is not recalled.
    let (later, recall_queue) = (later + TIME, table.recall_queue.len());
    assert_eq!(table.begin_wait(None, &[attributes(5)], later), later);
    assert_eq!(table.recall_queue.len(), recall_queue);
}

/// A recall may be sent just before the leases expire.
#[test]
fn a_holder_that_replies_at_once_has_missed_nothing() {
    let (mut table, now) = table();
    let on = || vec![attributes(5)];
    table.grant(ONE, on(), now);
    let until = now + TIME;
    let just_before = until - Duration::from_millis(1);
    table.begin_wait(None, &on(), just_before);
    let (number, _) = table.next_recall(ONE, just_before).expect("a recall");
    assert!(table.is_free(None, &on(), until));
    table.end_wait(&on());
    table.end_recall(ONE, number);
    assert_eq!(table.holders[&ONE].missed, 0);
    assert!(table.grant(ONE, on(), until).is_some());
    // A holder that never does gets no more leases.
    table.begin_wait(None, &on(), until + TIME - Duration::from_millis(1));
    let sent = until + TIME - Duration::from_millis(1);
    assert!(table.next_recall(ONE, sent).is_some());
    table.end_wait(&on());
    let late = sent + TIME / 4;
    let just_before = late - Duration::from_nanos(1);
    assert!(table.grant(ONE, vec![attributes(6)], just_before).is_some());
    assert_eq!(table.grant(ONE, vec![attributes(7)], late), None);
}

/// Recalls follow each other: a holder does not get the next one before it has carried out this one.
#[test]
fn a_holder_has_missed_what_waits_behind_a_recall_that_it_does_not_carry_out() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    table.begin_wait(None, &[attributes(5)], now);
    assert!(table.next_recall(ONE, now).is_some());
    table.end_wait(&[attributes(5)]);
    table.grant(ONE, vec![attributes(6)], now);
    table.begin_wait(None, &[attributes(6)], now);
    assert_eq!(table.next_recall(ONE, now), None);
    assert!(table.is_free(None, &[attributes(6)], now + TIME));
    assert!(table.holders[&ONE].is_silent);
}

#[test]
fn a_lease_that_is_being_recalled_is_not_given_again() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    table.begin_wait(None, &[attributes(5)], now);
    let (number, _) = table.next_recall(ONE, now).expect("a recall");
    // The change is given up.
    table.end_wait(&[attributes(5)]);
    assert_eq!(table.grant(ONE, vec![attributes(5)], now), None);
    table.end_recall(ONE, number);
    assert!(table.grant(ONE, vec![attributes(5)], now).is_some());
}

#[test]
fn nothing_is_left_of_holders_that_end_after_their_connections() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5), name("a")], now);
    table.set_unreachable(ONE);
    assert!(table.holders.contains_key(&ONE));
    table.end_all(ONE);
    assert!(!table.holders.contains_key(&ONE));
    assert!(table.leases.is_empty() && table.count == 0);
}

#[test]
fn nothing_is_granted_while_what_changes_is_not_noted() {
    let (mut table, now) = table();
    table.suspend();
    assert_eq!(table.grant(ONE, vec![attributes(5)], now), None);
    table.end_batch();
    assert!(table.grant(ONE, vec![attributes(5)], now).is_some());
}

/// A change that waits is checked again when it may be made, not with each lease that ends.
#[test]
fn what_changes_wait_for_is_told_when_nobody_else_has_leases_on_it() {
    const THIRD: u128 = 3;
    let (mut table, now) = table();
    assert!(table.set_reachable(THIRD));
    let freed = |table: &mut Table, now| {
        let freed = table.take_freed(now).into_iter();
        let mut freed: Vec<Leased> = freed.map(|on| Leased::clone(&on)).collect();
        freed.sort_unstable_by_key(|on| matches!(on, Leased::Entry(..)));
        freed
    };
    for holder in [ONE, OTHER, THIRD] {
        table.grant(holder, vec![name("a"), attributes(5)], now);
    }
    // The second holder makes the change itself.
    table.begin_wait(Some(OTHER), &[name("a")], now);
    assert!(table.next_recall(ONE, now).is_some());
    table.end_recall(ONE, 1);
    assert_eq!(freed(&mut table, now), []);
    table.end_all(THIRD);
    assert_eq!(freed(&mut table, now), [name("a")]);
    assert!(table.is_free(Some(OTHER), &[name("a")], now));
    assert_eq!(freed(&mut table, now), []);
    // Also those that expire; on what nothing waits for, ends are not noted.
    table.begin_wait(None, &[name("a")], now);
    assert_eq!(freed(&mut table, now + TIME), [name("a")]);
    table.end_wait(&[name("a")]);
    table.end_wait(&[name("a")]);
    assert!(table.freed.is_empty() && table.awaited.is_empty());
}

#[test]
fn nothing_is_granted_on_what_a_batch_changes() {
    let (mut table, now) = table();
    table.begin_batch();
    assert!(table.admit(None, [attributes(5)].into_iter(), now).is_ok());
    assert_eq!(table.grant(ONE, vec![attributes(5)], now), None);
    assert!(table.grant(ONE, vec![attributes(6)], now).is_some());
    table.end_batch();
    assert!(table.grant(ONE, vec![attributes(5)], now).is_some());
    // A batch that began when nobody held leases notes nothing.
    let mut table = Table::new(TIME);
    table.begin_batch();
    assert!(table.admit(None, [attributes(5)].into_iter(), now).is_ok());
    assert!(table.set_reachable(ONE));
    assert_eq!(table.grant(ONE, vec![attributes(5)], now), None);
    table.end_batch();
    assert!(table.grant(ONE, vec![attributes(5)], now).is_some());
}

#[test]
fn a_program_that_ends_delays_nobody() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5), name("a")], now);
    table.grant(OTHER, vec![attributes(5)], now);
    table.begin_wait(None, &[name("a")], now);
    table.end_all(ONE);
    assert!(table.is_free(None, &[name("a")], now));
    assert!(table.is_free(Some(OTHER), &[attributes(5)], now));
    assert!(!table.is_free(None, &[attributes(5)], now));
    assert_eq!(table.next_recall(ONE, now), None);
}

#[test]
fn leases_are_renewed_and_bounded() {
    let (mut table, now) = table();
    table.most = 10;
    for object in 0..10 {
        assert!(table.grant(ONE, vec![attributes(object)], now).is_some());
    }
    assert_eq!(table.grant(OTHER, vec![attributes(1)], now), None);
    // A lease that is renewed often does not fill the table.
    for step in 0..1000 {
        let now = now + TIME * step / 2000;
        let left = table.grant(ONE, vec![attributes(1)], now);
        assert!(left.is_none_or(|left| left > TIME / 2 && left <= TIME));
    }
    assert!(table.expiries.len() < 20, "{}", table.expiries.len());
    assert!(!table.is_empty(now + TIME) && table.is_empty(now + TIME * 2));
    // Nor do leases that are granted and ended.
    let later = now + TIME * 2;
    let mut given = 0;
    for _ in 0..1000 {
        given += usize::from(table.grant(ONE, vec![attributes(1)], later).is_some());
        table.end_all(ONE);
    }
    assert_eq!((given, table.expiries.len()), (40, 40));
    assert!(table.is_empty(later + TIME));
    assert!(
        table
            .grant(ONE, vec![attributes(1)], later + TIME)
            .is_some()
    );
    assert!(table.is_empty(later + TIME * 2));
    assert!(table.expiries.is_empty() && table.leases.is_empty());
}

/// A thousand programs have leases on one directory; one of them never replies.
/// A holder waits with a rename until the lease on the former name would have ended, unless that on the new name lasts as long.
#[test]
fn a_name_that_is_leased_later_is_leased_for_longer() {
    let (mut table, now) = table();
    table.grant(ONE, vec![attributes(5)], now);
    let renamed = now + TIME / 8;
    assert_eq!(table.grant(ONE, vec![name("a")], renamed), Some(TIME));
    let looked_up = renamed + TIME / 16;
    let on = vec![name("b"), attributes(5)];
    assert_eq!(table.grant(ONE, on.clone(), looked_up), Some(TIME));
    let again = looked_up + TIME / 4;
    assert_eq!(table.grant(ONE, on, again), Some(TIME * 3 / 4));
}

#[test]
fn a_change_that_has_waited_brings_leases_unless_others_wait() {
    let (mut table, now) = table();
    table.note_record();
    table.note_acceptance(ONE, true);
    let alters = [name("a")];
    table.begin_wait(Some(ONE), &alters, now);
    let of_change = |table: &mut Table| table.grant_of_change(ONE, vec![name("a")], true, now);
    assert_eq!(of_change(&mut table), None);
    table.begin_change(Some(ONE), &alters);
    assert_eq!(of_change(&mut table), Some(TIME));
    // What anybody reads until the change is made is the state before it.
    assert_eq!(table.grant(ONE, vec![name("a")], now), None);
    assert_eq!(table.grant(OTHER, vec![name("a")], now), None);
    table.begin_wait(Some(OTHER), &alters, now);
    assert_eq!(of_change(&mut table), None);
}

#[test]
fn of_a_thousand_holders_one_is_stopped() {
    let (mut table, now) = table();
    let holders = 10..1010u128;
    for holder in holders.clone() {
        assert!(table.set_reachable(holder));
        assert!(table.grant(holder, vec![attributes(1)], now).is_some());
    }
    let alters = [attributes(1)];
    let until = table.begin_wait(None, &alters, now);
    let mut told = 0;
    while let Some(holder) = table.next_holder() {
        let (number, leases) = table.next_recall(holder, now).expect("a recall");
        assert_eq!(leases, alters);
        told += 1;
        if holder != 500 {
            table.end_recall(holder, number);
        }
    }
    assert_eq!(told, 1000);
    assert!(!table.is_free(None, &alters, now));
    assert!(table.is_free(Some(500), &alters, now));
    assert!(table.is_free(None, &alters, until));
}
