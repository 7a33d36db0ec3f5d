//! Links and switches between the nodes.
//!
//! A frame's head goes on as soon as the next link is free (cut-through), its tail follows at the link's speed.
//! Each output of a switch serves frames in the order in which their heads arrive. Frames that wait there lie in the
//! output's buffer; when it is full, the sender is stopped ([`WhenFull::Stop`]: nothing is lost, and the
//! link behind is held) or the frame is lost ([`WhenFull::Drop`]). A link that is faster than the one before begins
//! a frame when it will not run dry, and the buffer holds what has come until then.
//!
//! A frame's whole way is reserved when it is sent. Two frames that are to meet at an output far from
//! both senders may therefore be served in the order of their sending where that of their coming differs by less than a frame.

use super::lane::Lane;
use super::topology::{LinkChange, Topology};
use crate::engine::{Time, duration_at};

/// One of the computers, from 0.
pub type NodeId = usize;

/// What a link is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Bytes per second in each direction.
    pub bytes_per_second: u64,
    /// From one end to the other.
    pub latency: Time,
    /// Bytes that a frame takes besides what its sender gives: route, checksum, gap.
    pub framing_bytes: u64,
}

/// What becomes of a frame that finds the output's buffer full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Its sender is stopped until there is room.
    Stop,
    /// It is lost.
    Drop,
}

impl WhenFull {
    /// How files say it. Credits and stop signals differ in who counts the room, and not in when there is none.
    pub const WORDS: &'static [(&'static str, Self)] = &[
        ("stop", Self::Stop),
        ("credit", Self::Stop),
        ("drop", Self::Drop),
    ];
}

/// What a switch is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// From a head's arrival to its leaving through an idle output.
    pub latency: Time,
    /// Bytes that one output's buffer holds.
    pub buffer_bytes: u64,
    /// What happens when it is full.
    pub when_full: WhenFull,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When the sender's link has taken the last byte.
    pub left: Time,
    /// When the last byte is at the receiver; `None` when the frame was lost on the way.
    pub arrives: Option<Time>,
}

/// One direction of a link, with the output that feeds it.
#[derive(Clone, Debug)]
struct Leg {
    bytes_per_second: u64,
    /// Of the link.
    latency: Time,
    /// Of the switch whose output it is; 0 for a node's own.
    switch_latency: Time,
    /// How long the output's buffer takes to run dry.
    slack: Time,
    when_full: WhenFull,
    lane: Lane,
}

/// What a frame does on a leg.
#[derive(Clone, Copy, Debug)]
struct Hop {
    leg: usize,
    start: Time,
    end: Time,
}

/// All links and switches.
#[derive(Clone, Debug)]
pub struct Network {
    framing_bytes: u64,
    topology: Topology,
    /// From each node to its switch, then from each switch to its node, then from each switch upwards, then down to it.
    legs: Vec<Leg>,
    /// The present frame's way.
    way: Vec<Hop>,
    /// Those of its legs that lead down, last first.
    descents: Vec<usize>,
    lost: u64,
}

impl Network {
    /// An idle network. What the topology does not change of a link or switch is as here.
    pub fn new(link: LinkSpec, switch: SwitchSpec, topology: Topology) -> Self {
        let leg = |change: LinkChange, of: Option<usize>| {
            let rate = change.bytes_per_second.unwrap_or(link.bytes_per_second);
            let changed = of.map(|of| topology.switch(of)).unwrap_or_default();
            let buffer = changed.buffer_bytes.unwrap_or(switch.buffer_bytes);
            Leg {
                bytes_per_second: rate,
                latency: change.latency.unwrap_or(link.latency),
                switch_latency: match of {
                    None => 0,
                    Some(_) => changed.latency.unwrap_or(switch.latency),
                },
                slack: duration_at(buffer, rate),
                when_full: changed.when_full.unwrap_or(switch.when_full),
                lane: Lane::default(),
            }
        };
        let nodes = (0..topology.nodes()).map(|node| topology.node(node));
        let cables = (0..topology.switches()).map(|switch| topology.above(switch));
        let out = nodes.clone().map(|(_, link)| leg(link, None));
        let to_nodes = nodes.map(|(switch, link)| leg(link, Some(switch)));
        let up = cables.clone().enumerate();
        let up = up.map(|(switch, (.., link))| leg(link, Some(switch)));
        let down = cables.map(|(above, _, link)| leg(link, Some(above)));
        let legs = out.chain(to_nodes).chain(up).chain(down).collect();
        Self {
            framing_bytes: link.framing_bytes,
            legs,
            topology,
            way: Vec::new(),
            descents: Vec::new(),
            lost: 0,
        }
    }

    /// How many nodes it joins.
    pub fn nodes(&self) -> usize {
        self.topology.nodes()
    }

    /// How many frames were lost.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How long a frame of `bytes` takes to leave `from`, if nothing stops it.
    pub fn leaving_time(&self, from: NodeId, bytes: u64) -> Time {
        let bytes = bytes.saturating_add(self.framing_bytes);
        self.legs
            .get(from)
            .map_or(0, |leg| duration_at(bytes, leg.bytes_per_second))
    }

    /// Collects the legs from `from` to `to`, which both exist.
    fn find_way(&mut self, from: NodeId, to: NodeId) {
        let nodes = self.nodes();
        let (up, down) = (2 * nodes, 2 * nodes + self.topology.switches());
        let hop = |leg| Hop {
            leg,
            start: 0,
            end: 0,
        };
        self.way.clear();
        self.way.push(hop(from));
        let (mut here, _) = self.topology.node(from);
        let (mut there, _) = self.topology.node(to);
        self.descents.clear();
        while here != there {
            let (here_above, here_depth, _) = self.topology.above(here);
            let (there_above, there_depth, _) = self.topology.above(there);
            if here_depth >= there_depth {
                self.way.push(hop(up + here));
                here = here_above;
            } else {
                self.descents.push(down + there);
                there = there_above;
            }
        }
        self.way
            .extend(self.descents.iter().rev().map(|&leg| hop(leg)));
        self.way.push(hop(nodes + to));
    }

    /// Sends a frame of `bytes`, whose first byte leaves at `now` at the earliest.
    ///
    /// A frame for a node that does not exist is lost.
    pub fn send(&mut self, now: Time, from: NodeId, to: NodeId, bytes: u64) -> Sent {
        let bytes = bytes.saturating_add(self.framing_bytes);
        if from.max(to) >= self.nodes() {
            self.lost += 1;
            let left = self.legs.get(from).map_or(now, |leg| {
                now.saturating_add(duration_at(bytes, leg.bytes_per_second))
            });
            return Sent {
                left,
                arrives: None,
            };
        }
        self.find_way(from, to);
        // When the frame's head and tail come to the present leg's beginning.
        let (mut head, mut tail) = (now, now);
        let mut left = now;
        for place in 0..self.way.len() {
            let hop = &mut self.way[place];
            let leg = &mut self.legs[hop.leg];
            let length = duration_at(bytes, leg.bytes_per_second);
            let ready = head.max(tail.saturating_sub(length));
            let ready = ready.saturating_add(leg.switch_latency);
            let gap = leg.lane.gap(now, ready, length);
            let queued = (gap.start - ready).saturating_add(length);
            if place > 0 && leg.when_full == WhenFull::Drop && queued > leg.slack.max(length) {
                self.lost += 1;
                return Sent {
                    left,
                    arrives: None,
                };
            }
            leg.lane.take(gap);
            (hop.start, hop.end) = (gap.start, gap.end);
            head = gap.start.saturating_add(leg.latency);
            tail = gap.end.saturating_add(leg.latency);
            if place == 0 {
                left = gap.end;
            }
        }
        Sent {
            left: self.hold_back().unwrap_or(left),
            arrives: Some(tail),
        }
    }

    /// Holds the frame on each leg until the next output's buffer can take its tail; answers when that has left its
    /// sender.
    fn hold_back(&mut self) -> Option<Time> {
        let last = self.way.last()?;
        let mut end = last.end;
        let mut next = last.leg;
        for hop in self.way.iter().rev().skip(1) {
            let (slack, switch_latency) = {
                let next = &self.legs[next];
                (next.slack, next.switch_latency)
            };
            let leg = &mut self.legs[hop.leg];
            let before = slack
                .saturating_add(switch_latency)
                .saturating_add(leg.latency);
            end = hop.end.max(end.saturating_sub(before));
            leg.lane.hold(hop.start, end);
            next = hop.leg;
        }
        Some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::SwitchChange;
    use super::*;

    fn network(when_full: WhenFull, topology: Topology) -> Network {
        let link = LinkSpec {
            bytes_per_second: 1_000_000_000,
            latency: 10_000,
            framing_bytes: 0,
        };
        let switch = SwitchSpec {
            latency: 100_000,
            buffer_bytes: 1_500,
            when_full,
        };
        Network::new(link, switch, topology)
    }

    #[test]
    fn heads_cut_through_and_tails_follow() {
        let mut network = network(WhenFull::Stop, Topology::star(2).expect("a star"));
        let sent = network.send(0, 0, 1, 1_000);
        // 1 µs of bytes once, two links and a switch.
        assert_eq!(sent.left, 1_000_000);
        assert_eq!(sent.arrives, Some(1_000_000 + 20_000 + 100_000));
    }

    #[test]
    fn a_full_output_stops_the_sender_or_drops() {
        let star = Topology::star(4).expect("a star");
        let mut stopping = network(WhenFull::Stop, star.clone());
        let left: Vec<_> = (0..3)
            .map(|from| stopping.send(0, from, 3, 1_000).left)
            .collect();
        assert_eq!(left[0], 1_000_000);
        assert_eq!(left[1], 1_000_000, "the buffer takes what waits");
        assert_eq!(left[2], 1_500_000, "the third waits for room");
        assert_eq!(stopping.lost(), 0);
        let mut dropping = network(WhenFull::Drop, star);
        let arrived = (0..3)
            .filter(|&from| dropping.send(0, from, 3, 1_000).arrives.is_some())
            .count();
        assert_eq!((arrived, dropping.lost()), (1, 2));
    }

    #[test]
    fn trees_are_walked() {
        let tree = Topology::tree(vec![1, 2, 2], 3, &[(0, 1), (0, 2)]).expect("a tree");
        let mut network = network(WhenFull::Stop, tree);
        let far = network.send(0, 0, 1, 1_000).arrives.expect("arrives");
        let near = network.send(0, 2, 1, 1_000).arrives.expect("arrives");
        assert_eq!(far, 1_000_000 + 4 * 10_000 + 3 * 100_000);
        assert_eq!(
            near,
            far + 1_000_000,
            "the output is taken before it is through"
        );
    }

    /// Two switches with two nodes each, and a cable of a quarter of the usual rate.
    fn narrow(when_full: WhenFull) -> Network {
        let mut tree = Topology::tree(vec![0, 0, 1, 1], 2, &[(0, 1)]).expect("a tree");
        let quarter = LinkChange {
            bytes_per_second: Some(250_000_000),
            latency: Some(20_000),
        };
        tree.change_cable(1, 0, quarter);
        network(when_full, tree)
    }

    #[test]
    fn a_narrow_cable_slows_down_what_crosses_it_and_nothing_else() {
        let mut network = narrow(WhenFull::Stop);
        let across = network.send(0, 0, 2, 1_000);
        // 4 µs on the cable; the last link begins when it will not run dry.
        assert_eq!(
            across.arrives,
            Some(4_000_000 + 10_000 + 20_000 + 10_000 + 2 * 100_000)
        );
        assert_eq!(
            across.left, 1_000_000,
            "the buffer takes what the cable does not"
        );
        let second = network.send(0, 1, 2, 1_000);
        assert_eq!(second.arrives, across.arrives.map(|at| at + 4_000_000));
        // Of 1,000 bytes, 8 µs from now, 1,500 may still wait: 6 µs.
        assert_eq!(
            second.left,
            8_000_000 + 10_000 + 100_000 - 6_000_000 - 110_000
        );
        let near = network.send(0, 3, 2, 1_000);
        let alone = 1_000_000 + 20_000 + 100_000;
        assert_eq!(
            near.arrives,
            Some(alone),
            "there is a gap before the others come"
        );
    }

    #[test]
    fn frames_are_lost_where_the_narrow_cable_begins() {
        let mut network = narrow(WhenFull::Drop);
        let mut sent: Vec<Sent> = Vec::new();
        for _ in 0..6 {
            let now = sent.last().map_or(0, |sent| sent.left);
            sent.push(network.send(now, 0, 2, 500));
        }
        let arrived = sent.iter().filter(|sent| sent.arrives.is_some()).count();
        // One on the cable and two in the buffer, before the first one is through.
        assert_eq!((arrived, network.lost()), (4, 2));
        let near = network.send(0, 1, 0, 500);
        assert!(near.arrives.is_some());
    }

    #[test]
    fn stopping_reaches_back_over_several_switches() {
        let cables = [(0, 1), (1, 2), (2, 3)];
        let mut tree = Topology::tree(vec![0, 0, 3], 4, &cables).expect("a tree");
        let slow = LinkChange {
            bytes_per_second: Some(100_000_000),
            latency: None,
        };
        tree.change_node_link(2, slow);
        for switch in 0..4 {
            let small = SwitchChange {
                buffer_bytes: Some(500),
                ..SwitchChange::default()
            };
            tree.change_switch(switch, small);
        }
        let mut network = network(WhenFull::Stop, tree);
        let mut now = 0;
        for _ in 0..20 {
            let sent = network.send(now, 0, 2, 1_000);
            assert!(sent.left > now && sent.arrives.is_some());
            now = sent.left;
        }
        // 10 µs each at the end; what the buffers hold leaves its sender earlier.
        assert!((180_000_000..=200_000_000).contains(&now), "{now}");
        let other = network.send(0, 1, 0, 1_000);
        assert!(other.arrives.is_some_and(|at| at < 2_000_000), "{other:?}");
        assert_eq!(network.lost(), 0);
    }
}
