//! Servers that lie to the thread of a program that waits for recalls of its leases.

use causeway_fs::client::{Leases, Passed};

use super::*;

const HOLDER: ClientCall = ClientCall {
    ask: |_| Ok(()),
    other_replies: |_| None,
    check: ReplyCheck::NotReported,
    fits: &[],
    lies: &[],
};

#[test]
fn no_reply_to_a_holder_keeps_leases_from_ending_or_the_next_program_from_having_some() {
    for name in ["HoldLeases", "EndLeases"] {
        check(name);
    }
}

fn check(name: &'static str) {
    let stand = Stand::new(name, HOLDER.other_replies);
    hold(&stand, name, name);
    stand.wait_until_seen(name);
    let honest = ReplyBody::Done;
    let silence = lie("no reply", |_| Response::Silence);
    let lies = misfits(&HOLDER, &honest)
        .into_iter()
        .chain(disturbances(name, &honest))
        .chain([silence]);
    for (what, lie) in lies {
        let what = format!("{name}: {what}");
        stand.set_lie(lie);
        hold(&stand, name, &what);
        stand.set_lie(Box::new(|_| Response::Honest));
        hold(&stand, name, &format!("{what}, and the truth"));
    }
}

/// A program that holds leases for a moment.
fn hold(stand: &Stand, name: &str, what: &str) {
    let before = stand.holders.load(Ordering::SeqCst);
    let configuration = stand.configuration(BRIEF);
    let leases = Leases::start(&configuration, &ClientOptions::default(), |_: &[Passed]| {});
    let leases = leases.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    wait_until(what, || stand.holders.load(Ordering::SeqCst) > before);
    leases.end();
    if name == "HoldLeases" {
        stand.wait_until_seen(what);
    }
}
