//! Each change happens once.

use causeway_wire::codec::Wire as _;
use causeway_wire::fs::formats::STORED_REPLIES;

use super::*;

fn send(bench: &mut Bench, client: u128, sequence: u64, operation: Operation) -> Reply {
    let request = Request {
        client,
        slot: 3,
        sequence,
        ..bench.request(operation)
    };
    let time = bench.time();
    bench.service.apply(&[request], time).remove(0)
}

fn reopen(bench: &mut Bench) {
    let store = bench.store.clone();
    let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
    bench.service = Service::with_opener(Box::new(open), Settings::default()).expect("opens");
}

#[test]
fn a_repeated_change_gets_the_stored_reply() {
    let mut bench = Bench::new();
    let first = send(&mut bench, 1, 1, create("f"));
    assert!(first.result.is_ok());
    assert_eq!(send(&mut bench, 1, 1, create("f")), first);
    reopen(&mut bench);
    assert_eq!(send(&mut bench, 1, 1, create("f")), first);
    // Another client, another slot: another change.
    let other = send(&mut bench, 2, 1, create("f"));
    assert_eq!(
        other.result.map_err(|failure| failure.errno),
        Err(Errno::EEXIST)
    );
    let renamed = send(&mut bench, 1, 5, rename("f", "g"));
    assert_eq!(renamed.result, Ok(ReplyBody::Done));
    assert_eq!(send(&mut bench, 1, 5, rename("f", "g")), renamed);
    let late = send(&mut bench, 1, 1, create("f"));
    assert_eq!(
        late.result.map_err(|failure| failure.errno),
        Err(Errno::STALE_SEQUENCE)
    );
    assert_eq!(bench.list("/"), ["g"]);
}

/// Replies of later formats than most are kept as they are.
#[test]
fn replies_about_pipes_and_files_with_holes_are_kept() {
    let mut bench = Bench::new();
    let object = bench.node(create("f")).object;
    bench.node(Operation::BeginUnstuff { object });
    bench.node(Operation::FinishUnstuff { object });
    let pipe = Operation::MakeSpecial {
        place: at("pipe"),
        kind: Kind::Fifo,
        mode: 0o600,
        device: 0,
    };
    let grown = Operation::Truncate {
        object,
        size: 1 << 20,
    };
    let first = [
        send(&mut bench, 1, 1, pipe.clone()),
        send(&mut bench, 2, 1, grown.clone()),
    ];
    assert!(first.iter().all(|reply| reply.result.is_ok()));
    reopen(&mut bench);
    assert_eq!(send(&mut bench, 1, 1, pipe), first[0]);
    assert_eq!(send(&mut bench, 2, 1, grown), first[1]);
}

#[test]
fn a_repeated_failure_stays_one() {
    let mut bench = Bench::new();
    let failed = send(&mut bench, 1, 1, unlink("f"));
    assert!(failed.result.is_err());
    bench.node(create("f"));
    assert_eq!(send(&mut bench, 1, 1, unlink("f")), failed);
    assert_eq!(bench.list("/"), ["f"]);
    assert!(send(&mut bench, 1, 2, unlink("f")).result.is_ok());
}

#[test]
fn repeats_within_a_batch_are_one_change() {
    let mut bench = Bench::new();
    let request = Request {
        client: 9,
        slot: 0,
        sequence: 4,
        ..bench.request(mkdir("d"))
    };
    let time = bench.time();
    let replies = bench.service.apply(&[request.clone(), request], time);
    assert!(replies[0].result.is_ok());
    assert_eq!(replies[0], replies[1]);
}

#[test]
fn the_freezing_of_contents_may_be_repeated_and_keeps_its_place() {
    let mut bench = Bench::new();
    let file = bench.node(create("f")).object;
    let begin = || Operation::BeginUnstuff { object: file };
    let first = send(&mut bench, 1, 1, begin());
    assert_eq!(send(&mut bench, 1, 1, begin()), first);
    assert!(
        send(&mut bench, 1, 2, Operation::FinishUnstuff { object: file })
            .result
            .is_ok()
    );
    let late = send(&mut bench, 1, 1, begin());
    assert_eq!(
        late.result.map_err(|failure| failure.errno),
        Err(Errno::STALE_SEQUENCE)
    );
}

fn errno(reply: Reply) -> Result<(), Errno> {
    reply.result.map(drop).map_err(|failure| failure.errno)
}

#[test]
fn idle_slots_are_forgotten_in_store_and_memory() {
    let mut bench = Bench::new();
    bench.service.leases().extend(1000).expect("is possible");
    for client in 0..100 {
        assert!(
            send(&mut bench, client, 1, create(&format!("f{client}")))
                .result
                .is_ok()
        );
    }
    assert_eq!(bench.service.sessions(), 100);
    bench.service.pass_time(2000);
    send(&mut bench, 5, 2, unlink("f5"));
    assert_eq!(bench.service.sessions(), 100);
    bench.service.pass_time(1000);
    send(&mut bench, 200, 1, unlink("f6"));
    assert_eq!(bench.service.sessions(), 2);
    reopen(&mut bench);
    assert_eq!(bench.service.sessions(), 2);
}

#[test]
fn a_client_that_ends_hands_its_slots_back() {
    let mut bench = Bench::new();
    for client in 1..=100 {
        let made = send(&mut bench, client, 1, create(&format!("f{client}")));
        assert!(made.result.is_ok());
    }
    assert_eq!(bench.service.sessions(), 100);
    (1..=99).for_each(|client| bench.service.leases().end(client));
    // A batch has a bounded part of the work.
    for _ in 0..2 {
        assert!(bench.run(Operation::Commit).is_ok());
    }
    assert_eq!(bench.service.sessions(), 1);
    reopen(&mut bench);
    assert_eq!(bench.service.sessions(), 1);
    // The client that goes on sending is still known.
    let again = send(&mut bench, 100, 1, create("f100"));
    assert!(again.result.is_ok());
}

/// A clock that is set ends no lease, and a restart makes none shorter.
#[test]
fn leases_do_not_go_by_the_clock_of_the_host() {
    let mut bench = Bench::new();
    bench.service.leases().extend(100).expect("is possible");
    let first = send(&mut bench, 1, 1, create("f"));
    assert!(first.result.is_ok());
    for step in [100_000_000, -200_000_000, 7_200] {
        bench.now += step;
        send(&mut bench, 2, (step + 300_000_000) as u64, unlink("none"));
        assert_eq!(send(&mut bench, 1, 1, create("f")), first);
    }
    reopen(&mut bench);
    bench.service.pass_time(199);
    send(&mut bench, 2, u64::MAX, unlink("none"));
    assert_eq!(send(&mut bench, 1, 1, create("f")), first);
    let failure = bench
        .service
        .leases()
        .extend(86_400)
        .expect_err("is refused");
    assert!(failure.message.contains("3601"), "{}", failure.message);
}

#[test]
fn slots_are_bounded() {
    let mut bench = Bench::with(Settings {
        max_sessions: 10,
        ..Settings::default()
    });
    bench.service.leases().extend(100).expect("is possible");
    for client in 0..10 {
        assert!(
            send(&mut bench, client, 1, create(&format!("f{client}")))
                .result
                .is_ok()
        );
    }
    assert_eq!(
        errno(send(&mut bench, 10, 1, create("x"))),
        Err(Errno::RETRY)
    );
    // Known clients go on, and replies that they may still request again are not dropped for others.
    bench.service.pass_time(100);
    assert_eq!(errno(send(&mut bench, 3, 2, create("y"))), Ok(()));
    assert_eq!(
        errno(send(&mut bench, 10, 1, create("x"))),
        Err(Errno::RETRY)
    );
    bench.service.pass_time(150);
    send(&mut bench, 3, 3, create("z"));
    assert_eq!(errno(send(&mut bench, 10, 1, create("x"))), Ok(()));
    assert_eq!(bench.service.sessions(), 2);
    let request = Request {
        slot: 64,
        sequence: 1,
        ..bench.request(create("w"))
    };
    let time = bench.time();
    let refused = bench.service.apply(&[request], time).remove(0);
    assert_eq!(errno(refused), Err(Errno::EINVAL));
}

/// A client that uses new numbers all the time, in order to hinder others, gets half of the slots, also by changes that fail.
#[test]
fn one_user_does_not_take_all_slots() {
    let mut bench = Bench::with(Settings {
        max_sessions: 16,
        ..Settings::default()
    });
    let is_refused = |bench: &mut Bench, client: u128, uid: u32| {
        let mut request = Request {
            client,
            slot: 0,
            sequence: 1,
            ..bench.request(create("made"))
        };
        request.caller.uid = uid;
        let time = bench.time();
        let reply = errno(bench.service.apply(&[request], time).remove(0));
        assert_ne!(reply, Ok(()), "it is there, or this user may not make it");
        reply == Err(Errno::RETRY)
    };
    bench.node(create("made"));
    for client in 0..100 {
        assert_eq!(is_refused(&mut bench, client, 1234), client >= 8);
    }
    // Others share the rest, and root may have any.
    for (client, uid, expected) in [
        (100, 1235, false),
        (101, 1235, false),
        (102, 1235, true),
        (103, 0, false),
        (104, 0, false),
        (105, 0, false),
        (106, 1236, false),
        (107, 1234, true),
    ] {
        assert_eq!(is_refused(&mut bench, client, uid), expected, "{client}");
    }
    // Slots that are no longer kept do not count any more.
    bench.service.pass_time(10_000);
    assert!(!is_refused(&mut bench, 108, 1236));
    assert!(!is_refused(&mut bench, 109, 1234));
}

/// Clients against a model: each repeats its changes for as long as its time-out lets it, among so many others
/// that slots are scarce, while time passes, the host's clock jumps and the server starts again.
#[test]
fn changes_happen_once_however_crowded_it_is() {
    const TIMEOUT_S: u64 = 90;
    const CLIENTS: u128 = 60;
    let settings = || Settings {
        max_sessions: 40,
        ..Settings::default()
    };
    let mut bench = Bench::with(settings());
    bench
        .service
        .leases()
        .extend(TIMEOUT_S as u32)
        .expect("is possible");
    let mut random = causeway_wire::random::SplitMix64::new(1);
    let mut below = move |count| random.below(count);
    let mut now = 0;
    // By client: the last change, when it was first asked for, and its reply.
    let mut last: std::collections::HashMap<u128, (u64, u64, Reply)> = Default::default();
    let (mut done, mut repeated) = (0, 0);
    for round in 0..3000 {
        let pass = below(4) * below(12);
        now += pass;
        bench.service.pass_time(pass);
        bench.now += below(20_000) as i64 - 10_000;
        if below(300) == 0 {
            let store = bench.store.clone();
            let open = move || -> Result<Arc<dyn Store>, StoreError> { Ok(store.clone()) };
            bench.service = Service::with_opener(Box::new(open), settings()).expect("opens");
        }
        let client = u128::from(below(CLIENTS as u64));
        match last.get(&client) {
            Some((sequence, asked, reply)) if below(2) == 0 && now - asked <= TIMEOUT_S => {
                let name = format!("c{client}-{sequence}");
                assert_eq!(&send(&mut bench, client, *sequence, create(&name)), reply);
                repeated += 1;
            }
            _ => {
                let name = format!("c{client}-{round}");
                let reply = send(&mut bench, client, round, create(&name));
                match &reply.result {
                    Ok(_) => {
                        last.insert(client, (round, now, reply));
                        done += 1;
                    }
                    Err(failure) => assert_eq!(failure.errno, Errno::RETRY, "{failure:?}"),
                }
            }
        }
    }
    assert!(
        done > 500 && repeated > 100,
        "{done} changes, {repeated} repeats"
    );
    assert!(bench.service.sessions() <= 40);
}

#[test]
fn a_damaged_session_is_left_out_and_a_wrong_reply_not_returned() {
    let mut bench = Bench::new();
    for client in [1, 2] {
        let made = send(&mut bench, client, 7, create(&format!("f{client}")));
        assert!(made.result.is_ok());
    }
    let other = causeway_wire::store::SessionRecord {
        sequence: 6,
        lease_s: 1,
        reply: Reply {
            result: Ok(ReplyBody::Done),
        }
        .to_bytes(STORED_REPLIES),
    };
    let put = |client, bytes| {
        let key = causeway_wire::store::session_key(client, 3);
        let batch = super::super::store::Batch::from([(key, Some(bytes))]);
        let persist = super::super::store::Persist::Process;
        bench.store.commit(&batch, persist).expect("commits");
    };
    put(1, other.to_bytes());
    put(2, b"damaged".to_vec());
    let wrong = send(&mut bench, 1, 7, create("f1"));
    assert_eq!(errno(wrong), Err(Errno::CORRUPT));
    reopen(&mut bench);
    assert_eq!(bench.service.sessions(), 1);
    assert_eq!(errno(send(&mut bench, 2, 8, create("g"))), Ok(()));
    reopen(&mut bench);
    assert_eq!(bench.service.sessions(), 2);
}
