//! Links and switches between the nodes.
//!
//! A frame's head goes on as soon as the next link is free (cut-through), its tail follows at the link's speed.
//! Each output of a switch serves frames in the order in which their heads arrive. Frames that wait there lie in the
//! output's buffer; when it is full, the sender is stopped ([`WhenFull::Stop`]: nothing is lost, and the
//! link behind is held) or the frame is lost ([`WhenFull::Drop`]).
//!
//! Cables form a tree. Stopping senders around a cycle of links could wait for itself for ever, so that a
//! topology with a cycle is refused.

use std::fmt;

use super::Shared;
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

/// Why a topology is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyError {
    /// There is no node, or no switch.
    Empty,
    /// A cable or node names a switch that does not exist.
    NoSuchSwitch(usize),
    /// This cable joins two switches that are already joined.
    Cycle(usize, usize),
    /// No cables lead from switch 0 to this one.
    Apart(usize),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there must be at least one node and one switch"),
            Self::NoSuchSwitch(switch) => write!(f, "there is no switch {switch}"),
            Self::Cycle(a, b) => write!(
                f,
                "the cable between switches {a} and {b} closes a cycle; cables must form a tree, as stopped \
                 senders could wait for each other around a cycle for ever"
            ),
            Self::Apart(switch) => write!(f, "no cables lead from switch 0 to switch {switch}"),
        }
    }
}

impl std::error::Error for TopologyError {}

/// Which node hangs on which switch, and how the switches are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// For each node its switch.
    switch_of: Vec<usize>,
    /// For each switch its neighbour on the way to switch 0, and how many cables that is.
    above: Vec<(usize, usize)>,
}

impl Topology {
    /// All nodes on one switch.
    pub fn star(nodes: usize) -> Result<Self, TopologyError> {
        Self::tree(vec![0; nodes], 1, &[])
    }

    /// Nodes on the switches that `switch_of` names, and cables between `switches` switches.
    pub fn tree(
        switch_of: Vec<usize>,
        switches: usize,
        cables: &[(usize, usize)],
    ) -> Result<Self, TopologyError> {
        if switch_of.is_empty() || switches == 0 {
            return Err(TopologyError::Empty);
        }
        let named = cables.iter().flat_map(|&(a, b)| [a, b]);
        if let Some(missing) = switch_of
            .iter()
            .copied()
            .chain(named)
            .find(|&switch| switch >= switches)
        {
            return Err(TopologyError::NoSuchSwitch(missing));
        }
        let mut neighbours = vec![Vec::new(); switches];
        let mut group: Vec<usize> = (0..switches).collect();
        for &(a, b) in cables {
            if group[a] == group[b] {
                return Err(TopologyError::Cycle(a, b));
            }
            let (old, new) = (group[a], group[b]);
            for of in &mut group {
                if *of == old {
                    *of = new;
                }
            }
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
        let mut above = vec![(0, usize::MAX); switches];
        above[0].1 = 0;
        let mut to_visit = vec![0];
        while let Some(switch) = to_visit.pop() {
            for &neighbour in &neighbours[switch] {
                if above[neighbour].1 == usize::MAX {
                    above[neighbour] = (switch, above[switch].1 + 1);
                    to_visit.push(neighbour);
                }
            }
        }
        if let Some(apart) = above.iter().position(|&(_, depth)| depth == usize::MAX) {
            return Err(TopologyError::Apart(apart));
        }
        Ok(Self { switch_of, above })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.switch_of.len()
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When the sender's link has taken the last byte.
    pub left: Time,
    /// When the last byte is at the receiver; `None` when the frame was lost on the way.
    pub arrives: Option<Time>,
}

/// All links and switches.
#[derive(Clone, Debug)]
pub struct Network {
    link: LinkSpec,
    switch: SwitchSpec,
    topology: Topology,
    /// From each node to its switch, then from each switch to its node, then from each switch upwards, then down to it.
    legs: Vec<Shared>,
    /// The legs of the present frame's way.
    way: Vec<usize>,
    /// Those of them that lead down, last first.
    descents: Vec<usize>,
    starts: Vec<Time>,
    lost: u64,
}

impl Network {
    /// An idle network.
    pub fn new(link: LinkSpec, switch: SwitchSpec, topology: Topology) -> Self {
        let legs = 2 * (topology.nodes() + topology.above.len());
        Self {
            link,
            switch,
            topology,
            legs: vec![Shared::default(); legs],
            way: Vec::new(),
            descents: Vec::new(),
            starts: Vec::new(),
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

    /// The link's speed and latency.
    pub fn link(&self) -> &LinkSpec {
        &self.link
    }

    /// The use of the link from `node` to its switch.
    pub fn outward(&self, node: NodeId) -> Option<&Shared> {
        (node < self.nodes()).then(|| &self.legs[node])
    }

    /// Collects the legs from `from` to `to`, which both exist.
    fn find_way(&mut self, from: NodeId, to: NodeId) {
        let nodes = self.nodes();
        let switches = self.topology.above.len();
        let (up, down) = (2 * nodes, 2 * nodes + switches);
        self.way.clear();
        self.way.push(from);
        let mut here = self.topology.switch_of[from];
        let mut there = self.topology.switch_of[to];
        self.descents.clear();
        while here != there {
            let (here_above, here_depth) = self.topology.above[here];
            let (there_above, there_depth) = self.topology.above[there];
            if here_depth >= there_depth {
                self.way.push(up + here);
                here = here_above;
            } else {
                self.descents.push(down + there);
                there = there_above;
            }
        }
        self.way.extend(self.descents.iter().rev());
        self.way.push(nodes + to);
    }

    /// Sends a frame of `bytes`, whose first byte leaves at `now` at the earliest.
    ///
    /// A frame for a node that does not exist is lost.
    pub fn send(&mut self, now: Time, from: NodeId, to: NodeId, bytes: u64) -> Sent {
        let Self { link, switch, .. } = &*self;
        let rate = link.bytes_per_second;
        let length = duration_at(bytes.saturating_add(link.framing_bytes), rate);
        let slack = duration_at(switch.buffer_bytes, rate);
        let (hop, link_latency) = (link.latency + switch.latency, link.latency);
        let when_full = switch.when_full;
        if from.max(to) >= self.nodes() {
            self.lost += 1;
            return Sent {
                left: now + length,
                arrives: None,
            };
        }
        self.find_way(from, to);
        self.starts.clear();
        let mut head = now;
        for (place, &leg) in self.way.iter().enumerate() {
            let shared = &mut self.legs[leg];
            let wait = shared.free_at().saturating_sub(head);
            if place > 0 && when_full == WhenFull::Drop && wait + length > slack.max(length) {
                self.lost += 1;
                return Sent {
                    left: self.starts[0] + length,
                    arrives: None,
                };
            }
            let start = shared.occupy(head, length).start;
            self.starts.push(start);
            head = start + hop;
        }
        let Some(&last) = self.starts.last() else {
            return Sent {
                left: now,
                arrives: Some(now),
            };
        };
        let mut end = last + length;
        let arrives = end + link_latency;
        // Backwards: a leg's tail leaves no earlier than the next output's buffer can take it.
        for (&leg, &start) in self.way.iter().zip(&self.starts).rev().skip(1) {
            end = (start + length).max(end.saturating_sub(slack + hop));
            self.legs[leg].hold_until(end);
        }
        Sent {
            left: end,
            arrives: Some(arrives),
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn trees_are_walked_and_cycles_refused() {
        let tree = Topology::tree(vec![1, 2, 2], 3, &[(0, 1), (0, 2)]).expect("a tree");
        let mut network = network(WhenFull::Stop, tree);
        let far = network.send(0, 0, 1, 1_000).arrives.expect("arrives");
        let near = network.send(0, 2, 1, 0).arrives.expect("arrives");
        assert_eq!(far, 1_000_000 + 4 * 10_000 + 3 * 100_000);
        assert!(near >= far, "the output is taken until then");
        assert_eq!(
            Topology::tree(vec![0], 3, &[(0, 1), (1, 2), (2, 0)]),
            Err(TopologyError::Cycle(2, 0))
        );
        assert_eq!(
            Topology::tree(vec![0], 2, &[]),
            Err(TopologyError::Apart(1))
        );
        assert_eq!(
            Topology::tree(vec![5], 2, &[(0, 1)]),
            Err(TopologyError::NoSuchSwitch(5))
        );
        assert_eq!(Topology::star(0), Err(TopologyError::Empty));
    }
}
