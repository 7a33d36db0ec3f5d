//! Links and switches between the nodes.
//!
//! A frame's head continues as soon as the next link is free (cut-through), its tail follows at the
//! link's speed. Each output of a switch forwards frames in the order in which their heads arrive.
//! Frames that wait there are in the output's buffer; when it is full, the sender is stopped
//! ([`WhenFull::Stop`]: nothing is lost, and the link before is held) or the frame is lost
//! ([`WhenFull::Drop`]). A link that is faster than the one before begins a frame when it will not
//! run dry, and the buffer holds the bytes that have arrived until then.
//!
//! With credits ([`WhenFull::Credit`]) a sender has as many as the output's buffer has room, and
//! gets one back when its bytes have left that buffer and the credit has returned over the link: a
//! buffer that is small for this round trip limits the rate.
//!
//! A link in an outage loses the frames on it ([`Outage`]). If there are several paths of equal
//! length ([`Topology::fat`]), frames take the one that [`Routing`] selects.
//!
//! A frame's whole path is reserved when it is sent. Two frames that meet at an output far from
//! both senders may therefore be forwarded in the order of their sending, if the times of their
//! arrival differ by less than a frame.

use std::collections::{BTreeMap, VecDeque};

use super::link_schedule::LinkSchedule;
use super::links::{Broken, LinkSpec, NodeId, Outage, Routing, SwitchSpec, WhenFull};
use super::topology::{LinkChange, Topology};
use crate::engine::{Time, duration_at};

/// The result of sending a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When the sender's link has accepted the last byte.
    pub left: Time,
    /// When the last byte is at the receiver; `None` when the frame was lost on the way.
    pub arrives: Option<Time>,
}

/// One direction of a link, with the output that feeds it.
#[derive(Clone, Debug)]
struct Leg {
    bytes_per_second: u64,
    /// The latency of the link.
    latency: Time,
    /// The delay of the switch that has this output; 0 for a node's own.
    switch_latency: Time,
    /// How long a full output buffer takes to drain.
    slack: Time,
    when_full: WhenFull,
    schedule: LinkSchedule,
    /// How long it has been in use, reservations included.
    busy: Time,
    buffer_bytes: u64,
    credit_time: Time,
    /// With credits: bytes that were sent to its buffer, and when their credits are back.
    owed: VecDeque<(Time, u64)>,
    /// When the link has outages.
    outages: Vec<(Time, Time)>,
}

impl Leg {
    /// The time at which a sender over a link of this latency has credits for a frame of `bytes`.
    /// Each time that a frame longer than the buffer fills it, a credit has to return.
    fn room_at(&mut self, now: Time, bytes: u64, latency: Time) -> Time {
        while self.owed.front().is_some_and(|(back, _)| *back <= now) {
            self.owed.pop_front();
        }
        let room = self.buffer_bytes;
        let mut owed: u64 = self.owed.iter().map(|(_, bytes)| bytes).sum();
        let mut at = now;
        for &(back, freed) in &self.owed {
            if owed.saturating_add(bytes.min(room)) <= room {
                break;
            }
            at = at.max(back);
            owed -= freed;
        }
        let refills = bytes.div_ceil(room.max(1)).saturating_sub(1);
        let round_trip = latency.saturating_mul(2).saturating_add(self.credit_time);
        at.saturating_add(refills.saturating_mul(round_trip))
    }

    /// Whether the link has an outage at some time within this span.
    fn is_out(&self, from: Time, to: Time) -> bool {
        let meets = |&(begin, end): &(Time, Time)| from < end && begin <= to;
        self.outages.iter().any(meets)
    }
}

/// The times of a frame on a leg.
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
    /// The way of the present frame.
    route: Vec<Hop>,
    /// The legs of that way that lead down, last first.
    descents: Vec<usize>,
    lost: u64,
    routing: Routing,
    /// With [`Routing::LeastBusy`]: the way of each pair of nodes, and when its last frame arrives.
    chosen: BTreeMap<(NodeId, NodeId), (usize, Time)>,
}

impl Network {
    /// An idle network. Links and switches that the topology does not change have these parameters.
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
                schedule: LinkSchedule::default(),
                busy: 0,
                buffer_bytes: buffer,
                credit_time: switch.credit_time,
                owed: VecDeque::new(),
                outages: Vec::new(),
            }
        };
        let nodes = (0..topology.nodes()).map(|node| topology.node(node));
        let cables = (0..topology.cables()).map(|cable| topology.cable(cable));
        let out = nodes.clone().map(|(_, link)| leg(link, None));
        let to_nodes = nodes.map(|(switch, link)| leg(link, Some(switch)));
        let up = cables.clone();
        let up = up.map(|(below, _, link)| leg(link, Some(below)));
        let down = cables.map(|(_, above, link)| leg(link, Some(above)));
        let legs = out.chain(to_nodes).chain(up).chain(down).collect();
        let mut network = Self {
            framing_bytes: link.framing_bytes,
            legs,
            routing: topology.routing(),
            topology,
            route: Vec::new(),
            descents: Vec::new(),
            lost: 0,
            chosen: BTreeMap::new(),
        };
        for outage in network.topology.outages().to_vec() {
            network.put_out(outage);
        }
        network
    }

    /// Marks the legs that an outage concerns.
    fn put_out(&mut self, outage: Outage) {
        let (nodes, cables) = (self.nodes(), self.topology.cables());
        let mut concerned = Vec::new();
        for node in 0..nodes {
            let of_switch = Broken::Switch(self.topology.node(node).0);
            if outage.what == Broken::Node(node) || outage.what == of_switch {
                concerned.extend([node, nodes + node]);
            }
        }
        for cable in 0..cables {
            let (a, b, _) = self.topology.cable(cable);
            let is_it = match outage.what {
                Broken::Node(_) => false,
                Broken::Switch(switch) => switch == a || switch == b,
                Broken::Cable(one, other) => (one, other) == (a, b) || (other, one) == (a, b),
            };
            if is_it {
                concerned.extend([2 * nodes + cable, 2 * nodes + cables + cable]);
            }
        }
        for leg in concerned {
            self.legs[leg].outages.push((outage.from, outage.to));
        }
    }

    /// The outages of its topology.
    pub fn outages(&self) -> &[Outage] {
        self.topology.outages()
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.topology.nodes()
    }

    /// The number of lost frames.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// How long each direction of each link has been in use, frames stopped on it included: from each node, to each
    /// node, and between switches.
    pub fn links_busy(&self) -> Vec<Time> {
        self.legs.iter().map(|leg| leg.busy).collect()
    }

    /// How long a frame of `bytes` takes to leave `from`, if nothing stops it.
    pub fn leaving_time(&self, from: NodeId, bytes: u64) -> Time {
        let bytes = bytes.saturating_add(self.framing_bytes);
        self.legs
            .get(from)
            .map_or(0, |leg| duration_at(bytes, leg.bytes_per_second))
    }

    /// How long the last `bytes` of a frame take to arrive at `to` if nothing stops it on its last link.
    pub fn arriving_time(&self, to: NodeId, bytes: u64) -> Time {
        self.legs
            .get(self.nodes() + to)
            .map_or(0, |leg| duration_at(bytes, leg.bytes_per_second))
    }

    /// The top switch through which a frame is routed.
    fn choose(&mut self, now: Time, from: NodeId, to: NodeId) -> usize {
        let tops = self.topology.tops();
        match self.routing {
            Routing::Destination => to % tops,
            Routing::Pair => {
                let pair = (from as u64) << 32 | to as u64;
                (pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % tops
            }
            Routing::LeastBusy => {
                if let Some(&(top, until)) = self.chosen.get(&(from, to))
                    && until > now
                {
                    return top;
                }
                let (leaf, _) = self.topology.node(from);
                let up = 2 * self.nodes() + leaf * tops;
                // The search begins at another switch for each sender, or all senders that find them equally free would take the same.
                let turned = (0..tops).map(|ahead| (from + ahead) % tops);
                // A switch knows which of its own links have failed, not those farther on.
                turned
                    .min_by_key(|top| {
                        let leg = &self.legs[up + top];
                        (leg.is_out(now, now), leg.schedule.free_at().max(now))
                    })
                    .unwrap_or_default()
            }
        }
    }

    /// Collects the legs from `from` to `to`, which both exist.
    fn find_route(&mut self, now: Time, from: NodeId, to: NodeId) {
        let nodes = self.nodes();
        let (up, down) = (2 * nodes, 2 * nodes + self.topology.cables());
        let hop = |leg| Hop {
            leg,
            start: 0,
            end: 0,
        };
        self.route.clear();
        self.route.push(hop(from));
        let (mut up_switch, _) = self.topology.node(from);
        let (mut down_switch, _) = self.topology.node(to);
        self.descents.clear();
        if up_switch != down_switch && self.topology.tops() > 0 {
            let (top, tops) = (self.choose(now, from, to), self.topology.tops());
            self.route.push(hop(up + up_switch * tops + top));
            self.descents.push(down + down_switch * tops + top);
            down_switch = up_switch;
        }
        while up_switch != down_switch {
            let (up_above, up_depth, _) = self.topology.above(up_switch);
            let (down_above, down_depth, _) = self.topology.above(down_switch);
            if up_depth >= down_depth {
                self.route.push(hop(up + up_switch - 1));
                up_switch = up_above;
            } else {
                self.descents.push(down + down_switch - 1);
                down_switch = down_above;
            }
        }
        self.route
            .extend(self.descents.iter().rev().map(|&leg| hop(leg)));
        self.route.push(hop(nodes + to));
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
        self.find_route(now, from, to);
        // When the frame's head and tail reach the beginning of the present leg.
        let (mut head, mut tail) = (now, now);
        let mut left = now;
        for place in 0..self.route.len() {
            let room_at = self.room_at(now, place, bytes);
            let hop = &mut self.route[place];
            let leg = &mut self.legs[hop.leg];
            let length = duration_at(bytes, leg.bytes_per_second);
            let ready = head.max(tail.saturating_sub(length));
            let ready = ready.saturating_add(leg.switch_latency);
            let ready = ready.max(room_at.saturating_sub(length));
            let gap = leg.schedule.gap(now, ready, length);
            let queued = (gap.start - ready).saturating_add(length);
            if place > 0 && leg.when_full == WhenFull::Drop && queued > leg.slack.max(length) {
                self.lost += 1;
                return Sent {
                    left,
                    arrives: None,
                };
            }
            leg.schedule.take(gap);
            if leg.is_out(gap.start, gap.end) {
                self.lost += 1;
                return Sent {
                    left: if place == 0 { gap.end } else { left },
                    arrives: None,
                };
            }
            leg.busy += gap.end - gap.start;
            (hop.start, hop.end) = (gap.start, gap.end);
            head = gap.start.saturating_add(leg.latency);
            tail = gap.end.saturating_add(leg.latency);
            if place == 0 {
                left = gap.end;
            }
        }
        self.return_credits(bytes);
        if self.routing == Routing::LeastBusy
            && let Some(&first) = self.route.get(1)
        {
            let tops = self.topology.tops().max(1);
            let top = (first.leg.saturating_sub(2 * self.nodes())) % tops;
            self.chosen.insert((from, to), (top, tail));
        }
        Sent {
            left: self.hold_back().unwrap_or(left),
            arrives: Some(tail),
        }
    }

    /// When the sender on leg `place` of the way has credits for the next output's buffer.
    fn room_at(&mut self, now: Time, place: usize, bytes: u64) -> Time {
        let Some(next) = self.route.get(place + 1) else {
            return 0;
        };
        let latency = self.legs[self.route[place].leg].latency;
        match &mut self.legs[next.leg] {
            leg if leg.when_full == WhenFull::Credit => leg.room_at(now, bytes, latency),
            _ => 0,
        }
    }

    /// Notes when the frame's credits are back on each leg of its way.
    fn return_credits(&mut self, bytes: u64) {
        for place in 1..self.route.len() {
            let latency = self.legs[self.route[place - 1].leg].latency;
            let end = self.route[place].end;
            let leg = &mut self.legs[self.route[place].leg];
            if leg.when_full == WhenFull::Credit {
                let back = end.saturating_add(latency).saturating_add(leg.credit_time);
                let at = leg.owed.partition_point(|(other, _)| *other <= back);
                leg.owed.insert(at, (back, bytes.min(leg.buffer_bytes)));
            }
        }
    }

    /// Holds the frame on each leg until the next output's buffer has room for its tail; returns when that has left its
    /// sender.
    fn hold_back(&mut self) -> Option<Time> {
        let last = self.route.last()?;
        let mut end = last.end;
        let mut next = last.leg;
        for hop in self.route.iter().rev().skip(1) {
            let (slack, switch_latency) = {
                let next = &self.legs[next];
                (next.slack, next.switch_latency)
            };
            let leg = &mut self.legs[hop.leg];
            let before = slack
                .saturating_add(switch_latency)
                .saturating_add(leg.latency);
            end = hop.end.max(end.saturating_sub(before));
            leg.busy += end - hop.end;
            leg.schedule.hold(hop.start, end);
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
            credit_time: 0,
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
    fn the_least_busy_path_is_not_one_that_has_failed() {
        let free = LinkChange {
            bytes_per_second: None,
            latency: None,
        };
        let mut fat = Topology::fat(4, 2, 2, free, Routing::LeastBusy).expect("a fat tree");
        // The cable from the first lower switch to the second upper one, which node 1's search begins with.
        fat.add_outage(Outage {
            what: Broken::Cable(0, 3),
            from: 1_000_000,
            to: 50_000_000,
            stops: false,
        });
        let mut network = network(WhenFull::Stop, fat);
        let mut now = 0;
        for _ in 0..20 {
            let sent = network.send(now, 1, 2, 1_000);
            // Only a frame that is under way when the link fails can be lost.
            assert!(sent.arrives.is_some() || now < 1_000_000, "at {now}");
            now = sent.arrives.unwrap_or(sent.left).max(sent.left) + 1;
        }
        assert_eq!(network.lost(), 1);
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
