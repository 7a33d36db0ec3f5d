//! Peers that a method reaches, and that do not greet.

use causeway_transport::Method;
use causeway_wire::formats::Formats;

use super::fetching::timed_node;
use super::raw_peer::RawPeer;
use super::*;

#[test]
fn a_send_to_a_peer_that_does_not_greet_fails_in_time() {
    let mut silent = Mem::new(Options::default()).unwrap();
    silent.listen(&"mem://mute".parse().unwrap()).unwrap();
    let (mut node, now_ms) = timed_node("mute-client", Config::default());
    let to = node.bmi.lookup("mem://mute").unwrap();
    let data = memory(1, 8);
    node.send(to, std::slice::from_ref(&data), 1, 1);
    idle(&mut [&mut node]);
    now_ms.fetch_add(9_500, Ordering::Relaxed);
    idle(&mut [&mut node]);
    assert_eq!(node.result(1), None);
    now_ms.fetch_add(1000, Ordering::Relaxed);
    drive(&mut [&mut node], |nodes| nodes[0].result(1).is_some());
    let error = node.result(1).unwrap().as_ref().unwrap_err().to_string();
    assert_eq!(error, "mem://mute: no reply within 10000 ms");
    assert_eq!(data.sharers(), 1);
    // The next operation connects again.
    node.send(to, &[data], 1, 2);
    idle(&mut [&mut node]);
    assert_eq!(node.result(2), None);
}

#[test]
fn callers_that_do_not_introduce_themselves_take_no_memory_and_are_dropped() {
    let (mut node, now_ms) = timed_node("unasked", Config::default());
    let mut silent: Vec<RawPeer> = (0..100).map(|_| RawPeer::new("unasked")).collect();
    for peer in &mut silent {
        // It would have to introduce itself next.
        peer.greet(Formats::OURS.hello(true));
        node.step();
    }
    idle(&mut [&mut node]);
    assert_eq!(node.bmi.conversations.peers.len(), 100);
    assert_eq!(node.bmi.conversations.shared.budget.committed(), 0);
    let mut client = super::node("unasked-client");
    let to = client.bmi.lookup("mem://unasked").unwrap();
    meet(&mut client, &mut node, to);
    // A node that finds time standing still reads the clock seldom.
    for _ in 0..80 {
        now_ms.fetch_add(100, Ordering::Relaxed);
        idle(&mut [&mut node, &mut client]);
    }
    for peer in &mut silent {
        peer.poll();
        assert_eq!(peer.received.downs, 1);
    }
    assert_eq!(node.bmi.get_info(None).connected, 1);
    assert_eq!(client.bmi.get_info(None).connected, 1);
}
