//! Parked threads: every event to poll for, and every call, ends the sleep; the clock never does.

use super::*;
use crate::shm::relay::Relaying;
use crate::wake::{Parking, WakeFlag};

/// Parks until `done`. An end by the clock fails the test.
fn parked_until(host: &mut Host, flag: &WakeFlag, what: &str, done: impl Fn(&Host) -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !done(host) {
        assert!(Instant::now() < give_up, "waited in vain until {what}");
        if host.poll() {
            continue;
        }
        let woken = match host.shm.prepare_park(Instant::now(), flag) {
            Parking::Prepared(sleep) => park(host, sleep, give_up),
            Parking::Refused => true,
            Parking::Unsupported => !host.shm.arm(Instant::now()) || sleep_on(&host.shm, PATIENCE),
        };
        host.shm.disarm();
        assert!(woken, "slept through it: {what}");
        if flag.is_set() {
            return;
        }
    }
}

/// Sleeps as prepared. `false` if nothing ends the sleep before `until`.
fn park(host: &Host, sleep: u64, until: Instant) -> bool {
    let limit = until.saturating_duration_since(Instant::now());
    host.shm.parker().unwrap().park(sleep, Some(limit))
}

/// Makes an instance sleep so often that it parks.
fn make_it_park(host: &mut Host) {
    let flag = WakeFlag::default();
    for _ in 0..PATIENCE.as_millis() {
        host.poll();
        let parking = host.shm.prepare_park(Instant::now(), &flag);
        if parking == Parking::Unsupported {
            host.shm.arm(Instant::now());
        }
        host.shm.disarm();
        if let Parking::Prepared(_) = parking {
            return;
        }
    }
    panic!("it never parks");
}

/// Runs `wake` on another thread, again and again, while `host` is parked until `done`.
fn parks_through<T: Send>(
    host: &mut Host,
    what: &str,
    wake: impl FnOnce() -> T + Send,
    done: impl Fn(&Host) -> bool,
) -> T {
    make_it_park(host);
    std::thread::scope(|scope| {
        let waking = scope.spawn(wake);
        parked_until(host, &WakeFlag::default(), what, done);
        waking.join().unwrap()
    })
}

/// Pauses after which the other side is before, in and after the preparation.
fn pause(round: u32) {
    std::thread::sleep(Duration::from_micros(u64::from(round) * 37 % 300));
}

#[test]
fn packets_end_a_parked_sleep() {
    let mut met = meet(ShmConfig::default());
    for round in 0..200 {
        let ConnectedPair {
            client,
            server,
            to_server,
            ..
        } = &mut met;
        let send = || {
            pause(round);
            client.shm.send(*to_server, &[&round.to_le_bytes()])
        };
        let came = |server: &Host| !server.log.packets.is_empty();
        parks_through(server, "a packet arrives", send, came).unwrap();
        let (_, packet) = met.server.log.packets.pop_front().unwrap();
        assert_eq!(packet, round.to_le_bytes());
    }
}

#[test]
fn a_call_ends_a_parked_sleep_before_during_or_after_its_preparation() {
    let mut met = meet(ShmConfig::default());
    make_it_park(&mut met.server);
    let flag = WakeFlag::default();
    let parker = met.server.shm.parker().unwrap();
    for round in 0..500 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pause(round);
                flag.set();
                parker.unpark();
            });
            parked_until(&mut met.server, &flag, "a call", |_| false);
        });
        assert!(flag.take(), "round {round}");
    }
}

/// Polls between the call and the sleep do not consume the call.
#[test]
fn a_call_survives_polls() {
    let mut met = meet(ShmConfig::default());
    make_it_park(&mut met.server);
    let flag = WakeFlag::default();
    flag.set();
    met.server.shm.parker().unwrap().unpark();
    for _ in 0..10 {
        met.server.poll();
        assert_eq!(
            met.server.shm.prepare_park(Instant::now(), &flag),
            Parking::Refused
        );
        met.server.shm.disarm();
    }
}

#[test]
fn a_new_peer_ends_a_parked_sleep() {
    let (_folder, address) = place();
    let mut server = Host::listening(ShmConfig::default(), &address);
    let mut clients = Vec::new();
    for round in 0..20 {
        let connect = || {
            pause(round);
            let mut client = Host::new(ShmConfig::default());
            let peer = client.shm.connect(Instant::now(), &address).unwrap();
            client.until("there is room", |client| {
                client.shm.send(peer, &[&round.to_le_bytes()]).is_ok()
            });
            client
        };
        let came = |server: &Host| !server.log.packets.is_empty();
        clients.push(parks_through(&mut server, "a new peer", connect, came));
        let (_, packet) = server.log.packets.pop_front().unwrap();
        assert_eq!(packet, round.to_le_bytes());
    }
}

#[test]
fn a_disconnect_ends_a_parked_sleep() {
    for round in 0..20 {
        let ConnectedPair {
            client, mut server, ..
        } = meet(ShmConfig::default());
        let leave = || {
            pause(round);
            drop(client);
        };
        let down = |server: &Host| !server.log.down.is_empty();
        parks_through(&mut server, "a departure", leave, down);
    }
}

/// An instance that seldom sleeps starts no thread.
#[test]
fn the_relay_is_started_when_it_is_needed() {
    let mut met = meet(ShmConfig::default());
    assert!(matches!(met.server.shm.relay, Relaying::NotYet));
    make_it_park(&mut met.server);
    assert!(matches!(met.server.shm.relay, Relaying::Running(_)));
}

/// A sender that leaves its fences out, and has not passed one, may not ring for a packet.
#[test]
fn a_process_stays_awake_while_its_senders_pass_no_fence() {
    let mut met = meet(ShmConfig::default());
    let ConnectedPair {
        client,
        server,
        to_server,
        to_client,
        ..
    } = &mut met;
    if !server.shm.own.membarrier {
        return;
    }
    let fences = |server: &Host| {
        let facts = server.shm.report(*to_client).unwrap().facts;
        facts.into_iter().find(|fact| fact.0 == "fences").unwrap().1
    };
    server.shm.sender_fences.broken = true;
    for packet in 0..100 {
        assert!(!server.shm.arm(Instant::now()), "it sleeps");
        assert!(fences(server).contains("does not sleep"));
        client.shm.send(*to_server, &[&[packet]]).unwrap();
        both(client, server, "a packet arrives", |_, server| {
            !server.log.packets.is_empty()
        });
        assert_eq!(server.log.packets.pop_front().unwrap().1, [packet]);
    }
    server.shm.sender_fences.broken = false;
    let give_up = Instant::now() + PATIENCE;
    while !server.shm.arm(Instant::now()) {
        assert!(Instant::now() < give_up, "it never sleeps");
        server.poll();
    }
    server.shm.disarm();
    assert!(!fences(server).contains("does not sleep"));
}
