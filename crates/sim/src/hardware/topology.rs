//! Which node is attached to which switch, and how the switches are connected.
//!
//! Cables form a tree: the path between two nodes is then unique, and stopped senders cannot wait
//! for each other in a cycle. Each cable and switch may have parameters of its own.

use super::links::{NodeId, Outage, Routing, WhenFull};
use crate::engine::Time;

/// Parameters of a link that differ from the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkChange {
    /// Bytes per second in each direction.
    pub bytes_per_second: Option<u64>,
    /// The latency from one end to the other.
    pub latency: Option<Time>,
}

/// Parameters of a switch that differ from the usual ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchChange {
    /// From a head's arrival to its departure through an idle output.
    pub latency: Option<Time>,
    /// Bytes that one output's buffer holds.
    pub buffer_bytes: Option<u64>,
    /// The handling of frames when it is full.
    pub when_full: Option<WhenFull>,
}

/// Why a topology is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There are no nodes, or no switches.
    #[error("there must be at least one node and one switch")]
    Empty,
    /// A cable or node names a switch that does not exist.
    #[error("there is no switch {0}")]
    NoSuchSwitch(usize),
    /// This cable joins two switches that are already joined.
    #[error(
        "the cable between switches {0} and {1} closes a cycle; cables must form a tree, as stopped \
         senders could wait for each other around a cycle for ever"
    )]
    Cycle(usize, usize),
    /// No cables lead from switch 0 to this one.
    #[error("no cables lead from switch 0 to switch {0}")]
    Apart(usize),
    /// The topology has another number of nodes than the cluster.
    #[error("the topology joins {0} nodes, and there are {1}")]
    OtherNodes(usize, usize),
}

/// Which node is attached to which switch, and how the switches are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The switch of each node.
    switch_of: Vec<usize>,
    /// Changes of each node's link.
    node_links: Vec<LinkChange>,
    /// For each switch its neighbour on the way to switch 0, and the number of cables to that.
    above: Vec<(usize, usize)>,
    /// Changes of the cable to that neighbour.
    uplinks: Vec<LinkChange>,
    /// Changes of each switch.
    switches: Vec<SwitchChange>,
    /// The number of switches at the top of a fat tree, numbered after those with nodes; 0 in a
    /// tree.
    tops: usize,
    routing: Routing,
    outages: Vec<Outage>,
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
        Ok(Self {
            node_links: vec![LinkChange::default(); switch_of.len()],
            switch_of,
            above,
            uplinks: vec![LinkChange::default(); switches],
            switches: vec![SwitchChange::default(); switches],
            tops: 0,
            routing: Routing::default(),
            outages: Vec::new(),
        })
    }

    /// A fat tree of two levels: up to `fan_out` nodes on each lower switch, and a cable from each
    /// of these to each of `tops` upper ones, which is the number of paths between nodes of
    /// different switches. Lower switches come first.
    pub fn fat(
        nodes: usize,
        fan_out: usize,
        tops: usize,
        uplink: LinkChange,
        routing: Routing,
    ) -> Result<Self, TopologyError> {
        let (fan_out, tops) = (fan_out.max(1), tops.max(1));
        let leaves = nodes.div_ceil(fan_out);
        let star = Self::star(nodes)?;
        Ok(Self {
            switch_of: (0..nodes).map(|node| node / fan_out).collect(),
            above: vec![(0, 0); leaves + tops],
            uplinks: vec![uplink; leaves * tops],
            switches: vec![SwitchChange::default(); leaves + tops],
            tops,
            routing,
            ..star
        })
    }

    /// Adds an outage.
    pub fn add_outage(&mut self, outage: Outage) {
        self.outages.push(outage);
    }

    pub(super) fn outages(&self) -> &[Outage] {
        &self.outages
    }

    pub(super) fn routing(&self) -> Routing {
        self.routing
    }

    /// The number of switches at the top of a fat tree; 0 in a tree.
    pub(super) fn tops(&self) -> usize {
        self.tops
    }

    /// The number of cables between switches.
    pub(super) fn cables(&self) -> usize {
        match self.tops {
            0 => self.above.len() - 1,
            tops => (self.above.len() - tops) * tops,
        }
    }

    /// A cable: the switch below, the one above, and its changes. In a tree cables are in the order of the switches
    /// below, from 1, in a fat tree in that of the switches below and then those above.
    pub(super) fn cable(&self, cable: usize) -> (usize, usize, LinkChange) {
        match self.tops {
            0 => {
                let (above, _, link) = self.above(cable + 1);
                (cable + 1, above, link)
            }
            tops => {
                let leaves = self.above.len() - tops;
                (cable / tops, leaves + cable % tops, self.uplinks[cable])
            }
        }
    }

    /// Whether a cable joins these two switches.
    pub fn joins(&self, a: usize, b: usize) -> bool {
        (0..self.cables()).any(|cable| {
            let (below, above, _) = self.cable(cable);
            (below, above) == (a, b) || (below, above) == (b, a)
        })
    }

    /// A regular tree: up to `fan_out` nodes on each lowest switch, up to `fan_out` switches below each other one. All
    /// cables between switches differ by `uplink`. Switch 0 is the root.
    pub fn regular(
        nodes: usize,
        fan_out: usize,
        uplink: LinkChange,
    ) -> Result<Self, TopologyError> {
        let fan_out = fan_out.max(2);
        let mut levels = vec![nodes.div_ceil(fan_out)];
        while let Some(&lowest) = levels.first().filter(|&&switches| switches > 1) {
            levels.insert(0, lowest.div_ceil(fan_out));
        }
        let mut cables = Vec::new();
        let mut first = 0;
        for pair in levels.windows(2) {
            let below = first + pair[0];
            cables.extend((0..pair[1]).map(|number| (first + number / fan_out, below + number)));
            first = below;
        }
        let switch_of = (0..nodes).map(|node| first + node / fan_out).collect();
        let mut tree = Self::tree(switch_of, levels.iter().sum(), &cables)?;
        tree.uplinks.fill(uplink);
        Ok(tree)
    }

    /// Changes the link between a node and its switch.
    pub fn change_node_link(&mut self, node: NodeId, change: LinkChange) {
        if let Some(link) = self.node_links.get_mut(node) {
            *link = change;
        }
    }

    /// Changes the cable between two switches that are joined.
    pub fn change_cable(&mut self, a: usize, b: usize, change: LinkChange) {
        let above = |switch: usize| self.above.get(switch).map(|&(above, _)| above);
        let lower = if above(b) == Some(a) { b } else { a };
        if let Some(link) = self.uplinks.get_mut(lower) {
            *link = change;
        }
    }

    /// Changes a switch.
    pub fn change_switch(&mut self, switch: usize, change: SwitchChange) {
        if let Some(switch) = self.switches.get_mut(switch) {
            *switch = change;
        }
    }

    /// The number of switches.
    pub fn switches(&self) -> usize {
        self.above.len()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.switch_of.len()
    }

    /// Whether there is an outage at some time.
    pub fn has_outages(&self) -> bool {
        !self.outages.is_empty()
    }

    /// Whether a switch was changed to drop frames, or there is an outage at some time.
    pub fn drops(&self) -> bool {
        let drop = Some(WhenFull::Drop);
        self.switches.iter().any(|one| one.when_full == drop) || self.has_outages()
    }

    /// A node's switch, and the changes of its link.
    pub(super) fn node(&self, node: NodeId) -> (usize, LinkChange) {
        (self.switch_of[node], self.node_links[node])
    }

    /// The switch above a switch and its depth, and the changes of the cable between them.
    pub(super) fn above(&self, switch: usize) -> (usize, usize, LinkChange) {
        let (above, depth) = self.above[switch];
        (above, depth, self.uplinks[switch])
    }

    /// The changes of a switch.
    pub(super) fn switch(&self, switch: usize) -> SwitchChange {
        self.switches[switch]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tree_is_refused() {
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

    #[test]
    fn regular_trees_have_as_many_levels_as_they_need() {
        let tree = |nodes, fan_out| {
            let tree = Topology::regular(nodes, fan_out, LinkChange::default()).expect("a tree");
            let deepest = (0..nodes).map(|node| tree.above(tree.node(node).0).1).max();
            (tree.switches(), deepest)
        };
        assert_eq!(tree(4, 4), (1, Some(0)));
        assert_eq!(tree(5, 4), (3, Some(1)));
        assert_eq!(tree(16, 4), (5, Some(1)));
        assert_eq!(tree(17, 4), (8, Some(2)));
        assert_eq!(tree(4_096, 2), (2 * 2_048 - 1, Some(11)));
        let empty = Topology::regular(0, 4, LinkChange::default());
        assert_eq!(empty, Err(TopologyError::Empty));
    }

    #[test]
    fn a_cable_is_changed_from_either_end() {
        let slow = LinkChange {
            bytes_per_second: Some(1),
            latency: None,
        };
        for (a, b) in [(0, 1), (1, 0)] {
            let mut tree = Topology::tree(vec![1, 2], 3, &[(0, 1), (0, 2)]).expect("a tree");
            tree.change_cable(a, b, slow);
            assert_eq!(tree.above(1).2, slow);
            assert_eq!(tree.above(2).2, LinkChange::default());
        }
    }
}
