//! A thread that sleeps detached from its endpoint, and calls of other threads meanwhile.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use super::*;
use crate::endpoint::Parked;

const LONG: Duration = Duration::from_secs(60);

/// Prepares a wait for which no event has come.
fn park(node: &mut Node) -> Parked {
    let until = Instant::now() + LONG;
    loop {
        if let Some(mut parked) = node.bmi.prepare_wait(Some(until), &[]) {
            if parked.is_sleep() {
                return parked;
            }
            parked.wait();
            node.bmi.finish_wait(parked);
        }
        node.bmi.take_interrupted();
        assert!(Instant::now() < until, "it never parks");
    }
}

/// Makes an instance sleep so often that it parks in its method, if the method supports that.
fn warm(node: &mut Node) {
    for _ in 0..40 {
        node.bmi.wait(node.context, Duration::from_millis(1));
    }
}

fn is_woken(node: &Node) -> bool {
    let parked = node.bmi.parked.as_ref();
    parked.expect("a thread is parked").is_woken
}

/// Sleeps on a thread of its own while `meanwhile` runs, which ends the sleep; then finishes the wait.
fn sleep_while(node: &mut Node, mut parked: Parked, meanwhile: impl FnOnce(&mut Node)) {
    let began = Instant::now();
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(move || {
            tell.send(()).unwrap();
            parked.wait();
            parked
        });
        told.recv().unwrap();
        meanwhile(node);
        node.bmi.finish_wait(sleeper.join().unwrap());
    });
    assert!(began.elapsed() < LONG, "only the clock has ended it");
}

/// A request that another thread posts leads to the message that the parked thread waits for.
#[test]
fn a_thread_posts_while_another_waits() {
    for medium in MEDIA {
        let (client, mut server, to, from) = pair_over(medium, "parked-posts", Config::default());
        let client = Mutex::new(client);
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let until = Instant::now() + LONG;
                loop {
                    let mut node = client.lock().unwrap();
                    node.step();
                    if node.result(1).is_some() {
                        return;
                    }
                    assert!(Instant::now() < until, "{medium:?}: it does not end");
                    let Some(mut parked) = node.bmi.prepare_wait(Some(until), &[]) else {
                        continue;
                    };
                    drop(node);
                    let _ = tell.send(());
                    parked.wait();
                    client.lock().unwrap().bmi.finish_wait(parked);
                }
            });
            told.recv().unwrap();
            let mut node = client.lock().unwrap();
            let into = [Memory::zeroed(100)];
            node.recv(to, &into, 7, 1);
            node.send(to, &[memory(3, 10)], 7, 2);
            node.bmi.check_parked();
            drop(node);
            server.recv(from, &[Memory::zeroed(10)], 7, 3);
            drive(&mut [&mut server], |nodes| nodes[0].result(3).is_some());
            server.send(from, &[memory(4, 100)], 7, 4);
            drive(&mut [&mut server], |nodes| nodes[0].result(4).is_some());
            // A message that the method does not accept at once is sent by further progress.
            while client
                .try_lock()
                .map_or(true, |node| node.result(1).is_none())
            {
                server.step();
            }
        });
    }
}

/// Nothing of a small message that leaves at once is left to the thread that sleeps, nor of a receive that waits. It wakes
/// for its look on behalf of observers only, now and then.
#[test]
fn a_message_that_leaves_at_once_ends_no_sleep() {
    const ROUNDS: u64 = 100;
    for medium in [Medium::Shm, Medium::Tcp] {
        let (mut client, mut server, to, _from) =
            pair_over(medium, "parked-sends", Config::default());
        warm(&mut client);
        let is_undisturbed = (0..ROUNDS).any(|round| {
            idle(&mut [&mut client, &mut server]);
            let parked = park(&mut client);
            client.send(to, &[memory(3, 10)], 7, round);
            assert!(client.result(round).is_some(), "{medium:?}: it has left");
            client.bmi.check_parked();
            client.recv(to, &[Memory::zeroed(100)], 7, ROUNDS + round);
            client.bmi.check_parked();
            let is_undisturbed = !is_woken(&client);
            client.bmi.finish_wait(parked);
            is_undisturbed
        });
        assert!(is_undisturbed, "{medium:?}");
    }
}

/// Another thread polls the event that would have ended the sleep.
#[test]
fn events_polled_by_another_thread_end_the_sleep() {
    for medium in MEDIA {
        let (mut client, mut server, to, from) =
            pair_over(medium, "parked-polls", Config::default());
        warm(&mut client);
        client.recv(to, &[Memory::zeroed(10)], 7, 1);
        idle(&mut [&mut client, &mut server]);
        let parked = park(&mut client);
        sleep_while(&mut client, parked, |client| {
            server.send(from, &[memory(3, 10)], 7, 2);
            drive(&mut [client, &mut server], |nodes| {
                nodes[0].result(1).is_some()
            });
            client.bmi.check_parked();
            assert!(is_woken(client), "{medium:?}");
        });
    }
}

/// The sleep was on one method, and others come into use: one to another process, and the way to this one.
#[test]
fn a_method_that_comes_into_use_ends_the_sleep() {
    for to_itself in [false, true] {
        let mut server = node_over(Medium::Tcp, "parked-others", Config::default());
        let (mut client, _other, ..) = pair_over(Medium::Shm, "parked-used", Config::default());
        warm(&mut client);
        let parked = park(&mut client);
        sleep_while(&mut client, parked, |client| {
            let address = match to_itself {
                true => client.bmi.listening(),
                false => server.bmi.listening(),
            };
            let to = client.bmi.lookup(&address[0]).unwrap();
            client.send_unexpected(to, &memory(3, 10), 7, 2);
            client.bmi.check_parked();
            assert!(is_woken(client), "to itself: {to_itself}");
        });
        // The thread that slept drives what the other has begun.
        let mut arrived = |nodes: &mut [&mut Node]| {
            let at = if to_itself { 0 } else { 1 };
            nodes[at].collect_unexpected();
            !nodes[at].unexpected.is_empty()
        };
        drive(&mut [&mut client, &mut server], &mut arrived);
    }
}

#[test]
fn calls_and_the_end_of_the_endpoint_end_the_sleep() {
    for medium in MEDIA {
        let (mut client, ..) = pair_over(medium, "parked-called", Config::default());
        warm(&mut client);
        let parked = park(&mut client);
        sleep_while(&mut client, parked, |client| client.bmi.waker().wake());
        assert!(client.bmi.take_interrupted().is_some(), "{medium:?}");
        assert!(client.bmi.take_interrupted().is_none(), "{medium:?}");
        let mut parked = park(&mut client);
        let began = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(move || parked.wait());
            drop(client);
        });
        assert!(began.elapsed() < LONG, "{medium:?}: only the clock");
    }
}

/// A wait that was given up keeps no other thread from waiting.
#[test]
fn an_abandoned_wait_keeps_no_thread_from_waiting() {
    for medium in MEDIA {
        let (mut client, mut server, to, from) =
            pair_over(medium, "parked-forgotten", Config::default());
        warm(&mut client);
        let forgotten = park(&mut client);
        client.recv(to, &[Memory::zeroed(10)], 7, 1);
        let parked = park(&mut client);
        sleep_while(&mut client, parked, |_| {
            server.send(from, &[memory(3, 10)], 7, 2);
            drive(&mut [&mut server], |nodes| nodes[0].result(2).is_some());
            idle(&mut [&mut server]);
        });
        drive(&mut [&mut client, &mut server], |nodes| {
            nodes[0].result(1).is_some()
        });
        client.bmi.finish_wait(forgotten);
    }
}
