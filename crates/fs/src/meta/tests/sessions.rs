//! Each change happens once.

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
fn a_repeated_change_is_answered_not_done() {
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
    assert_eq!(renamed.result, Ok(Answer::Done));
    assert_eq!(send(&mut bench, 1, 5, rename("f", "g")), renamed);
    let late = send(&mut bench, 1, 1, create("f"));
    assert_eq!(
        late.result.map_err(|failure| failure.errno),
        Err(Errno::STALE_SEQUENCE)
    );
    assert_eq!(bench.list("/"), ["g"]);
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

#[test]
fn idle_slots_are_forgotten_in_store_and_memory() {
    let mut bench = Bench::new();
    for client in 0..100 {
        assert!(
            send(&mut bench, client, 1, create(&format!("f{client}")))
                .result
                .is_ok()
        );
    }
    assert_eq!(bench.service.sessions(), 100);
    bench.now += 3000;
    send(&mut bench, 5, 2, unlink("f5"));
    assert_eq!(bench.service.sessions(), 100);
    bench.now += 1000;
    send(&mut bench, 200, 1, unlink("f6"));
    assert_eq!(bench.service.sessions(), 2);
    reopen(&mut bench);
    assert_eq!(bench.service.sessions(), 2);
}

#[test]
fn slots_are_bounded() {
    let mut bench = Bench::with(Settings {
        max_sessions: 10,
        ..Settings::default()
    });
    for client in 0..10 {
        assert!(
            send(&mut bench, client, 1, create(&format!("f{client}")))
                .result
                .is_ok()
        );
    }
    let errno = |reply: Reply| reply.result.map(drop).map_err(|failure| failure.errno);
    assert_eq!(
        errno(send(&mut bench, 10, 1, create("x"))),
        Err(Errno::RETRY)
    );
    // Clients that are known go on.
    assert_eq!(errno(send(&mut bench, 3, 2, create("y"))), Ok(()));
    bench.now += 100;
    send(&mut bench, 3, 3, create("z"));
    assert_eq!(errno(send(&mut bench, 10, 1, create("x"))), Ok(()));
    assert_eq!(bench.service.sessions(), 2);
}
