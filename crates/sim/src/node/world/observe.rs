//! Statistics of a world while it runs: latencies, events over time, and use.

use causeway_wire::vi::{Status, status};

use super::{Vi, World};
use crate::engine::Time;
use crate::statistics::{Busy, Resource};

impl World {
    /// Also records distributions of latencies, events over time, and use, from `from` on.
    pub fn keep_statistics(&mut self, from: Time) {
        self.record.keep_statistics(from);
        for node in &mut self.nodes {
            node.host.remembers = true;
        }
    }

    /// How long each instance of each resource has been in use so far.
    fn busy(&self) -> Busy {
        let mut busy = Busy::default();
        for node in &self.nodes {
            let of = |resource: Resource| resource as usize;
            // A process that polls holds its processor.
            let polled = |cpu: usize| {
                let on_it = node
                    .host
                    .processes
                    .iter()
                    .skip(cpu)
                    .step_by(node.cpus.len().max(1));
                on_it.map(|process| process.polled).sum::<Time>()
            };
            let processors = node.cpus.iter().enumerate();
            let processors = processors.map(|(number, cpu)| cpu.time().busy() + polled(number));
            busy[of(Resource::HostProcessor)].extend(processors);
            busy[of(Resource::CardProcessor)].extend(node.card.processors_busy());
            busy[of(Resource::HostDma)].extend(node.card.host_dma.channels_busy());
            busy[of(Resource::IoBus)].push(node.card.bus.bus().busy());
        }
        busy[Resource::Link as usize] = self.network.links_busy();
        busy
    }

    /// Takes the samples of the timeline that are due before an event at `at`.
    fn sample(&mut self, at: Time) {
        while let Some(due) = self.due().filter(|due| *due <= at) {
            self.catch_up(due);
            let busy = self.busy();
            let sums = busy
                .each_ref()
                .map(|of| (of.len() as u64, of.iter().sum::<Time>()));
            let Some(statistics) = &mut self.record.statistics else {
                return;
            };
            if statistics.busy.iter().all(Vec::is_empty) {
                statistics.busy = busy;
            }
            statistics.timeline.sample(due, &sums);
        }
    }

    /// When the timeline's next sample is due.
    fn due(&self) -> Option<Time> {
        let statistics = self.record.statistics.as_ref()?;
        Some(statistics.timeline.due())
    }

    /// Ends the statistics at the present, and reduces use to that since their beginning.
    pub(super) fn close_statistics(&mut self) {
        let (now, busy) = (self.now(), self.busy());
        let Some(statistics) = &mut self.record.statistics else {
            return;
        };
        let before = std::mem::replace(&mut statistics.busy, busy);
        for (busy, before) in statistics.busy.iter_mut().zip(before) {
            for (busy, before) in busy.iter_mut().zip(before) {
                *busy = busy.saturating_sub(before);
            }
        }
        statistics.observed = now.saturating_sub(statistics.from);
    }

    /// Handles events until `end`, and takes samples.
    pub(super) fn run_observed(&mut self, end: Time) {
        let mut due = 0;
        while let Some(event) = self.events.next_by(end) {
            let now = self.events.now();
            if now >= due {
                self.sample(now);
                due = self.due().unwrap_or(Time::MAX);
            }
            self.events.stop_before(due);
            self.handle(event);
            self.gather_after_many();
        }
        // Steps of host DMA engines, which are events too, may follow the last one of the queue.
        while let Some(due) = self.due().filter(|due| *due <= end) {
            self.catch_up(due);
            let next = self
                .nodes
                .iter()
                .filter_map(|node| node.card.host_dma.next_step());
            if next.min().is_none_or(|next| next > end) {
                break;
            }
            self.sample(due);
        }
        self.catch_up(end.saturating_add(1));
    }

    /// Counts the message of a receive whose status is in memory, unless it came with an error.
    pub(super) fn message_received(&mut self, node: u32, vi: u32, status: &[u8]) {
        let now = self.events.now();
        let Ok(status) = Status::decode(status) else {
            return;
        };
        let peer = self.nodes[node as usize].host.vis.get(vi as usize);
        let Some((peer, of_peer)) = peer.and_then(|vi| vi.peer) else {
            return;
        };
        let sender = self.nodes[peer as usize].host.vis.get_mut(of_peer as usize);
        let posted = sender.and_then(|vi| vi.posted_at(status.immediate));
        if let (Some(posted), Some(statistics)) = (posted, &mut self.record.statistics)
            && status.bits & status::ERRORS == 0
        {
            statistics.message(now, now.saturating_sub(posted), u64::from(status.length));
        }
    }

    /// Counts the RDMA of a send whose status is in memory.
    pub(super) fn remote_done(&mut self, node: u32, vi: u32, status: &[u8]) {
        let now = self.events.now();
        let Ok(status) = Status::decode(status) else {
            return;
        };
        let own = self.nodes[node as usize].host.vis.get_mut(vi as usize);
        let remote = own.and_then(Vi::next_remote);
        if let (Some((posted, bytes)), Some(statistics)) = (remote, &mut self.record.statistics)
            && status.bits & status::ERRORS == 0
        {
            statistics.message(now, now.saturating_sub(posted), u64::from(bytes));
        }
    }
}
