//! Events that end a sleep, and that each ends one sleep only.

use super::*;
use crate::endpoint::methods::Polling;
use crate::waiting::QUIET_POLLS;

/// An instance that listens at these schemes, in a directory that must stay.
fn listening(schemes: &[&str]) -> (Bmi, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let address = |scheme: &&str| match *scheme {
        "shm" => format!("shm://{}/socket", dir.path().display()),
        scheme => format!("{scheme}://127.0.0.1:0"),
    };
    let listen = schemes.iter().map(address).collect();
    let bmi = Bmi::new(Config {
        listen,
        ..Config::default()
    });
    (bmi.unwrap(), dir)
}

/// Makes the method quiet, so that it is polled seldom as long as another is not.
fn hush(bmi: &mut Bmi, scheme: &str) {
    for slot in &mut bmi.methods.slots {
        slot.quiet = if slot.scheme == scheme {
            QUIET_POLLS
        } else {
            0
        };
    }
    bmi.methods.choose();
    assert_eq!(polling(bmi, scheme), Polling::Seldom);
}

fn polling(bmi: &Bmi, scheme: &str) -> Polling {
    let mut slots = bmi.methods.slots.iter();
    let slot = slots.find(|slot| slot.scheme == scheme);
    slot.expect("it is registered").polling
}

/// A call ends one wait, and no later one.
#[test]
fn a_call_ends_one_sleep_whichever_methods_are_in_use() {
    let each: [&[&str]; 6] = [
        &[],
        &["shm"],
        &["tcp"],
        &["udp"],
        &["shm", "tcp"],
        &["tcp", "udp"],
    ];
    for schemes in each {
        let (mut bmi, _dir) = listening(schemes);
        for round in 0..3 {
            if schemes == ["shm", "tcp"] {
                hush(&mut bmi, "shm");
            }
            bmi.waker().wake();
            let ready = bmi.wait_until(Duration::from_secs(60), |_| false);
            assert!(!ready && !bmi.sleeper.is_called());
            let mut vain = 0;
            let on = loop {
                if let Some(on) = bmi.sleeper.prepare(&mut bmi.methods) {
                    break on;
                }
                vain += 1;
                assert!(vain < 3, "{schemes:?}, round {round}: no sleep begins");
                bmi.progress();
            };
            let soon = Instant::now() + Duration::from_millis(2);
            let woken = bmi.sleeper.wait(&mut bmi.methods, on, Some(soon));
            assert!(!woken, "{schemes:?}, round {round}: another sleep is ended");
            bmi.sleeper.end(&mut bmi.methods, on);
        }
    }
}

/// If the method were still polled as rarely as before the sleep, dozens of sleeps would end in vain.
#[test]
fn the_method_that_ends_a_sleep_is_polled_at_once() {
    let (mut server, _dir) = listening(&["shm", "tcp"]);
    let mut addresses = server.listening().into_iter();
    let address = addresses.find(|a| a.starts_with("tcp"));
    let address = address.expect("it listens there");
    let mut client = Bmi::new(Config::default()).unwrap();
    let context = client.open_queue().unwrap();
    let to = client.lookup(&address).unwrap();
    for round in 0..20 {
        let hello = [memory(1, 10)];
        let _ = client.post_sendunexpected(to, &hello, 1, context, 1);
        client.progress();
        hush(&mut server, "tcp");
        let until = Instant::now() + Duration::from_secs(60);
        while let Some(on) = server.sleeper.prepare(&mut server.methods) {
            let woken = server.sleeper.wait(&mut server.methods, on, Some(until));
            server.sleeper.end(&mut server.methods, on);
            assert!(woken, "round {round}: the sleep is not ended");
            if polling(&server, "tcp") == Polling::Always {
                break;
            }
        }
        assert_eq!(polling(&server, "tcp"), Polling::Always);
        assert!(server.progress(), "round {round}: no method was polled");
        let mut arrived = Vec::new();
        while server.testunexpected(1, NOW, &mut arrived).unwrap() == 0 {
            assert!(Instant::now() < until, "round {round}: it does not arrive");
            client.progress();
        }
    }
}

#[test]
fn methods_without_peers_are_not_polled_until_they_are_used() {
    let (mut server, dir) = listening(&["tcp"]);
    server.progress();
    let never = ["self", "shm", "udp"];
    for scheme in never {
        assert_eq!(polling(&server, scheme), Polling::Never);
    }
    assert_eq!(server.methods.pollables().count(), 1);
    let tcp = server.methods.slots.iter().position(|s| s.scheme == "tcp");
    assert_eq!(server.methods.only, tcp);
    for address in [
        format!("shm://{}/unbound", dir.path().display()),
        "udp://127.0.0.1:9".to_owned(),
        server.listening()[0].clone(),
    ] {
        let context = server.open_queue().unwrap();
        let to = server.lookup(&address).unwrap();
        let _ = server.post_sendunexpected(to, &[memory(1, 10)], 1, context, 1);
    }
    for scheme in never {
        assert_eq!(polling(&server, scheme), Polling::Always);
    }
    assert_eq!(server.methods.pollables().count(), 4);
}

/// The run queue is counted only where parking is costly, and only after a long yield.
#[test]
fn the_run_queue_is_counted_where_parking_takes_descriptors() {
    let long = Duration::from_secs(1);
    let cases: [(&[&str], bool); 3] =
        [(&["tcp"], true), (&["shm", "tcp"], true), (&["shm"], false)];
    for (schemes, is_costly) in cases {
        let (bmi, _dir) = listening(schemes);
        assert_eq!(bmi.methods.is_parking_costly(), is_costly, "{schemes:?}");
        assert!(bmi.policy.wants_run_queue(long));
        assert!(!bmi.policy.wants_run_queue(Duration::from_micros(1)));
        assert!(bmi.run_queue().is_some_and(|threads| threads >= 1));
    }
}

/// The cost of a yield that runs no other thread is measured by the kernel's count of switches.
#[test]
fn a_yield_that_runs_no_other_thread_is_measured() {
    let (mut bmi, _dir) = listening(&[]);
    assert!(bmi.policy.wants_switches());
    let until = Instant::now() + Duration::from_secs(60);
    while bmi.policy.wants_switches() {
        assert!(Instant::now() < until, "every yield runs another thread");
        bmi.yield_processor();
    }
}
