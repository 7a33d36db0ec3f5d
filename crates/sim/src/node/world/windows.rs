//! Running each node for a while before the next.
//!
//! Nodes affect each other by frames only, and a frame takes its time to arrive. So what nodes do within less than that time is not
//! yet felt by others, and they may do it one after the other: the events of a whole window of time of one node are handled
//! together, with its state in the cache, and from a queue that has no other node's events. Only what uses the network is put in
//! order among all nodes, as links are shared: a node stops before such an event until it is the first of all nodes.
//!
//! Results are those of [`World::run`], as a node's own events keep their order, and uses of the network theirs. What happens at the
//! same picosecond may be in another order than there: frames of different nodes begin in the order of the nodes, and a frame may
//! arrive after events of its receiver that were scheduled later than it was.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use causeway_firmware::Reliability;

use super::{Ended, Node, World};
use crate::engine::{MICROSECOND, Time};
use crate::node::events::Event;

/// The shortest window that is worth its effort.
const SHORTEST: Time = 5 * MICROSECOND;

impl World {
    /// Whether nodes run one after the other.
    pub(crate) fn has_windows(&self) -> bool {
        self.window_end > 0
    }

    /// Handles events as [`Self::run`], a window of time of each node after the other where that is worthwhile. All frames have at least
    /// `shortest` bytes of data. `None` if one had less and came too early: its receiver had already passed that time. In any
    /// case the world can only be looked at afterwards.
    ///
    /// For processes that share nothing between nodes, or only what does not depend on the order of these.
    pub(crate) fn run_by_windows(&mut self, end: Time, shortest: u64) -> Option<Ended> {
        let window = self.shortest_flight(shortest);
        if !self.fetches_ahead || window < SHORTEST || !self.allows_windows() {
            return Some(self.run(end));
        }
        self.events.divide(self.nodes.len());
        let mut calls = BinaryHeap::with_capacity(self.nodes.len());
        loop {
            let heads = self.events.heads().iter();
            let begin = heads.copied().min().unwrap_or(Time::MAX);
            if begin > end || begin == Time::MAX {
                return Some(self.ended());
            }
            self.window_end = begin.saturating_add(window);
            let until = end.min(self.window_end - 1);
            for node in 0..self.nodes.len() {
                if self.events.heads()[node] <= until {
                    self.events.visit(node);
                    calls.extend(self.run_to_call(until).map(|at| Reverse((at, node))));
                }
            }
            while let Some(Reverse((_, node))) = calls.pop() {
                self.events.visit(node);
                if let Some(event) = self.events.next_by(until) {
                    self.handle(event);
                }
                calls.extend(self.run_to_call(until).map(|at| Reverse((at, node))));
            }
            if self.came_early {
                return None;
            }
            self.gather_after_many();
        }
    }

    /// Whether neither acknowledgements, which are short, nor frames that begin before their data is there have to be expected, and
    /// nothing is recorded in the order of time.
    fn allows_windows(&self) -> bool {
        let follows = |node: &Node| {
            let settings = node.firmware.settings();
            settings.cut_through || settings.receive_cut_through
        };
        let is_recorded = self.record.statistics.is_some() || self.record.marks.is_some();
        let reliability = self.profile.library.reliability;
        reliability == Reliability::Unreliable && !is_recorded && !self.nodes.iter().any(follows)
    }

    /// Handles events of the present node until `until`. Stops before one that uses the network, and returns its time.
    fn run_to_call(&mut self, until: Time) -> Option<Time> {
        loop {
            let Some((at, event)) = self.events.peek() else {
                self.events.rest_until(Time::MAX);
                return None;
            };
            if at > until {
                self.events.rest_until(at);
                return None;
            }
            if self.calls_network(event) {
                return Some(at);
            }
            if let Some(event) = self.events.next_by(until) {
                self.handle(event);
            }
        }
    }

    /// Whether an event has a frame begin that does not follow its data.
    fn calls_network(&self, event: Event) -> bool {
        match event {
            Event::NetSend { node, .. } => !self.nodes[node as usize].card.sending,
            Event::NetSent { node, .. } => self.nodes[node as usize].card.net_queue.len() > 1,
            _ => false,
        }
    }

    /// The shortest time from passing a frame with at least so much data to the send engine until it is at its receiver.
    fn shortest_flight(&self, bytes: u64) -> Time {
        let nodes = 0..self.nodes.len();
        let leaving = nodes.map(|node| self.network.leaving_time(node, bytes));
        self.profile.net_dma.send_startup + leaving.min().unwrap_or(0)
    }
}
