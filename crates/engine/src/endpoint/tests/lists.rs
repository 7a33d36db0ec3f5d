//! Lists that are longer than the method takes: their transfers are started part by part.

use causeway_wire::random::SplitMix64;

use super::*;

/// A pair over a method that takes lists of at most four fragments, and moves little at a time.
fn short_lists(name: &str) -> (Node, Node, Addr, Addr) {
    let options = Options {
        max_list: 4,
        max_piece: 512,
        ..Options::default()
    };
    pair(name, Config::default(), options)
}

/// Cuts memory into fragments, some of them empty.
fn cut(whole: &Memory, random: &mut SplitMix64, most: u64) -> Vec<Memory> {
    let mut list = Vec::new();
    let mut at = 0;
    while at < whole.len() {
        let len = (random.below(most) as usize).min(whole.len() - at);
        list.push(whole.slice(at..at + len));
        at += len;
    }
    list
}

fn parts_left(node: &Node) -> bool {
    !node.bmi.conversations.shared.transfers.is_empty()
}

#[test]
fn messages_of_many_fragments_arrive_whole() {
    let (mut a, mut b, to, from) = short_lists("lists-many");
    let mut random = SplitMix64::new(11);
    for round in 0..60 {
        let len = 20_000 + random.below(60_000) as usize;
        let (sent, received) = (memory(round, len), Memory::zeroed(len));
        let most = [2_000, 20_000, 200_000];
        let (ours, theirs) = (random.below(3) as usize, random.below(3) as usize);
        let sent = cut(&sent, &mut random, most[ours]);
        let into = cut(&received, &mut random, most[theirs]);
        let (tag, user) = (round as u64, 1000 + round as u64);
        // From either side; sender or receiver posts first.
        let (sender, receiver, there, back) = match round % 2 {
            0 => (&mut a, &mut b, to, from),
            _ => (&mut b, &mut a, from, to),
        };
        if round % 3 == 0 {
            sender.send(there, &sent, tag, user);
            receiver.recv(back, &into, tag, user);
        } else {
            receiver.recv(back, &into, tag, user);
            sender.send(there, &sent, tag, user);
        }
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes.iter().all(|node| node.result(user).is_some())
        });
        assert_eq!(a.result(user), Some(&Ok(len as u64)));
        assert_eq!(b.result(user), Some(&Ok(len as u64)));
        assert!(received.to_vec() == bytes(round, len), "round {round}");
    }
    assert!(!parts_left(&a) && !parts_left(&b));
}

#[test]
fn transfers_that_end_early_leave_nothing() {
    let mut random = SplitMix64::new(12);
    for (round, lost) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        let (mut a, mut b, to, from) = short_lists(&format!("lists-end-{round}"));
        let (whole, into) = (memory(1, 1 << 20), Memory::zeroed(1 << 20));
        let sent = cut(&whole, &mut random, 3_000);
        let list = cut(&into, &mut random, 3_000);
        a.send(to, &sent, 1, 1);
        let receive = b.recv(from, &list, 1, 2);
        while !parts_left(&b) && !parts_left(&a) {
            a.step();
            b.step();
        }
        for _ in 0..10 * round {
            a.step();
            b.step();
        }
        if lost {
            drop(a);
            drive(&mut [&mut b], |nodes| nodes[0].result(2).is_some());
            assert!(b.result(2).unwrap().is_err());
            assert!(!parts_left(&b));
            continue;
        }
        b.bmi.cancel(receive);
        drive(&mut [&mut a, &mut b], |nodes| {
            nodes[0].result(1).is_some() && nodes[1].result(2).is_some()
        });
        let after = into.to_vec();
        idle(&mut [&mut a, &mut b]);
        assert!(into.to_vec() == after, "written after it ended");
        assert!(!parts_left(&a) && !parts_left(&b));
    }
}
