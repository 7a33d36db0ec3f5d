//! Which processes and virtual interfaces a world has.

use std::collections::BTreeSet;

use causeway_firmware::{
    CompletionQueue, Connection, Firmware, Limits, NodeId, QueueId, Region, SetUpError, Settings,
    SettingsError, ViAttributes, ViId,
};
use causeway_wire::vi::{COMPLETION_BYTES, CONTROL_BYTES, DESCRIPTOR_ALIGN, SEGMENT_BYTES};

use super::card_full::CardFull;
use super::host::{DESCRIPTORS_AT, Host, Process, ProcessState, Vi};
use super::vi_plan::{Queues, ViPlan};
use crate::hardware::{Network, Topology};
use crate::profile::Profile;

/// Address of the first page of messages' data. Its bytes are not simulated.
const DATA_AT: u64 = 1 << 40;
/// The protection tag of everything.
const TAG: u32 = 1;

/// Card memory in proportion to a node's virtual interfaces, up to the limits of the settings: in a star, the memory that
/// the centre needs would be far too much for all others.
#[derive(Clone, Copy, Debug)]
pub struct BuffersPerInterface {
    /// Buffers and frames for sending, for each interface.
    pub sending: u32,
    /// Buffers for receiving, for each interface.
    pub receiving: u32,
}

impl BuffersPerInterface {
    fn limit(self, limits: &mut Limits, vis: u32) {
        let most_sending = limits.buffers - limits.receive_buffers;
        let sending = most_sending.min(self.sending.saturating_mul(vis));
        limits.receive_buffers = limits
            .receive_buffers
            .min(self.receiving.saturating_mul(vis));
        limits.buffers = limits.receive_buffers + sending;
        limits.frames = limits.frames.min(2 * sending);
    }
}

/// Why a world cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The card refuses its settings.
    #[error("the card's settings: {0}")]
    Settings(#[from] SettingsError),
    /// The card refuses the set-up.
    #[error("setting the card up: {0}")]
    SetUp(#[from] SetUpError),
    /// The card's memory is too small.
    #[error(transparent)]
    CardFull(#[from] CardFull),
    /// The plan names something that it does not contain.
    #[error("the plan: {0}")]
    Plan(&'static str),
}

/// The description of a world to build.
pub struct Plan {
    /// The hardware.
    pub profile: Profile,
    /// The design of all cards; limits that follow from the plan (virtual interfaces, regions, pages) are set when the world is built.
    pub settings: Settings,
    /// Nodes and cables.
    pub topology: Topology,
    /// Card memory of a node for its interfaces; if `None`, as much as the settings state.
    pub room: Option<BuffersPerInterface>,
    /// Offset in its page at which a message's data begins.
    pub data_offset: u32,
    /// Longest message.
    pub longest_message: u32,
    /// Processes, with the node of each.
    pub processes: Vec<(usize, Box<dyn Process>)>,
    /// Virtual interfaces. A process addresses its own by their order here, from 0.
    pub vis: Vec<ViPlan>,
    /// Pairs of indices of `vis` that are connected. One may be connected to itself.
    pub connections: Vec<(usize, usize)>,
}

/// A node that was built.
pub(crate) struct Built {
    pub(crate) firmware: Firmware,
    pub(crate) host: Host,
}

impl Plan {
    /// A plan for nodes on one switch with nothing on them.
    pub fn new(profile: Profile, settings: Settings, topology: Topology) -> Self {
        Self {
            profile,
            settings,
            topology,
            room: None,
            data_offset: 0,
            longest_message: 4_096,
            processes: Vec::new(),
            vis: Vec::new(),
            connections: Vec::new(),
        }
    }

    /// Adds a process and returns its number on its node.
    pub fn process(&mut self, node: usize, process: impl Process + 'static) -> usize {
        let number = self.processes.iter().filter(|(on, _)| *on == node).count();
        self.processes.push((node, Box::new(process)));
        number
    }

    /// Adds a virtual interface and returns its index.
    pub fn vi(&mut self, vi: ViPlan) -> usize {
        self.vis.push(vi);
        self.vis.len() - 1
    }

    fn stride(&self) -> u64 {
        let behind = SEGMENT_BYTES.max(self.settings.payload_bytes as usize);
        (CONTROL_BYTES + behind).next_multiple_of(DESCRIPTOR_ALIGN as usize) as u64
    }

    pub(crate) fn build(self) -> Result<(Profile, Network, Vec<Built>), BuildError> {
        let nodes = self.topology.nodes();
        let on_nodes = |node: usize| node < nodes;
        if !self.processes.iter().all(|&(node, _)| on_nodes(node))
            || !self.vis.iter().all(|vi| on_nodes(vi.node))
        {
            return Err(BuildError::Plan("it names a node that does not exist"));
        }
        if self
            .connections
            .iter()
            .any(|&(a, b)| a.max(b) >= self.vis.len())
        {
            return Err(BuildError::Plan(
                "it connects a virtual interface that does not exist",
            ));
        }
        let stride = self.stride();
        let mut vis_of: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for (index, vi) in self.vis.iter().enumerate() {
            vis_of[vi.node].push(index);
        }
        let mut processes: Vec<Vec<ProcessState>> = (0..nodes).map(|_| Vec::new()).collect();
        for (node, process) in self.processes {
            processes[node].push(ProcessState::new(process));
        }
        let mut built = Vec::with_capacity(nodes);
        let mut ids = vec![ViId(0); self.vis.len()];
        for (node, (processes, mine)) in processes.into_iter().zip(&vis_of).enumerate() {
            let build = NodeBuild {
                profile: &self.profile,
                settings: &self.settings,
                room: self.room,
                stride,
                data_offset: self.data_offset,
                longest_message: self.longest_message,
                vis: self.vis.as_slice(),
            };
            built.push(build.node(node, processes, mine, &mut ids)?);
        }
        for (key, &(a, b)) in self.connections.iter().enumerate() {
            let ends = [(a, b), (b, a)];
            for &(here, there) in &ends[..1 + usize::from(a != b)] {
                let connection = Connection {
                    node: NodeId(self.vis[there].node as u32),
                    vi: ids[there],
                    key: key as u32,
                };
                built[self.vis[here].node]
                    .firmware
                    .connect(ids[here], connection)?;
            }
        }
        let network = Network::new(
            self.profile.link.clone(),
            self.profile.switch.clone(),
            self.topology,
        );
        for &(a, b) in &self.connections {
            for (here, there) in [(a, b), (b, a)] {
                let vis = &mut built[self.vis[here].node].host.vis;
                vis[ids[here].0 as usize].peer = Some((self.vis[there].node as u32, ids[there].0));
            }
        }
        Ok((self.profile, network, built))
    }
}

/// The data for building the nodes of a plan.
struct NodeBuild<'a> {
    profile: &'a Profile,
    settings: &'a Settings,
    room: Option<BuffersPerInterface>,
    stride: u64,
    data_offset: u32,
    longest_message: u32,
    vis: &'a [ViPlan],
}

impl NodeBuild<'_> {
    /// The settings of a node's card, with this many interfaces, pages of memory and completion queues.
    fn settings_of(&self, node: usize, vis: usize, pages: u32, queues: usize) -> Settings {
        let mut settings = self.settings.clone();
        settings.node = NodeId(node as u32);
        settings.page_bytes = self.profile.memory.page_bytes as u32;
        settings.limits.vis = (vis as u32).max(1);
        if let Some(room) = self.room {
            let vis = settings.limits.vis;
            room.limit(&mut settings.limits, vis);
        }
        if let Some(buffers) = self.profile.card.buffers {
            let limits = &mut settings.limits;
            limits.buffers = buffers;
            limits.receive_buffers = buffers / 2;
            limits.frames = limits.frames.min(buffers);
        }
        settings.limits.regions = 2;
        settings.limits.pages = pages;
        settings.limits.completion_queues = queues as u32;
        settings
    }

    fn node(
        &self,
        node: usize,
        mut processes: Vec<ProcessState>,
        mine: &[usize],
        ids: &mut [ViId],
    ) -> Result<Built, BuildError> {
        let plans = || mine.iter().map(|&index| &self.vis[index]);
        if plans().any(|vi| vi.process >= processes.len()) {
            return Err(BuildError::Plan("it names a process that does not exist"));
        }
        let slots: u64 = plans().map(|vi| 2 * u64::from(vi.depth)).sum();
        let entries = slots as u32 + 1;
        let with_queue: BTreeSet<usize> = plans()
            .filter(|vi| vi.queues != Queues::None)
            .map(|vi| vi.process)
            .collect();
        let queue_bytes = u64::from(entries) * COMPLETION_BYTES as u64;
        let memory = slots * self.stride + with_queue.len() as u64 * queue_bytes + DESCRIPTOR_ALIGN;
        let data = u64::from(self.data_offset) + u64::from(self.longest_message.max(1));
        let page = self.profile.memory.page_bytes;
        let pages = (memory.div_ceil(page) + data.div_ceil(page) + 2) as u32;
        let settings = self.settings_of(node, mine.len(), pages, with_queue.len());
        CardFull::check(node, &settings, self.profile.card.memory_bytes)?;
        let mut firmware = Firmware::new(settings)?;
        let descriptors = register(&mut firmware, DESCRIPTORS_AT, memory, page)?;
        let data_handle = register(&mut firmware, DATA_AT, data, page)?;
        let mut next = DESCRIPTORS_AT;
        for process in with_queue {
            let queue = firmware.create_queue(CompletionQueue {
                address: next,
                handle: descriptors,
                tag: TAG,
                entries,
            })?;
            processes[process].queue = Some(queue);
            next += queue_bytes;
        }
        next = next.next_multiple_of(DESCRIPTOR_ALIGN);
        let mut vis = Vec::new();
        for &index in mine {
            let plan = &self.vis[index];
            let process = &mut processes[plan.process];
            ids[index] = self.vi(&mut firmware, plan, process.queue)?;
            if ids[index].0 as usize != vis.len() {
                return Err(BuildError::Plan(
                    "virtual interfaces are not numbered in order",
                ));
            }
            process.vis.push(ids[index].0);
            let queue_of = u64::from(plan.depth) * self.stride;
            let sides = [next, next + queue_of];
            next += 2 * queue_of;
            vis.push(Vi::new(plan, sides, process.vis.len() as u32 - 1));
        }
        let host = Host {
            memory: vec![0; (next - DESCRIPTORS_AT) as usize + page as usize],
            vis,
            processes,
            stride: self.stride,
            descriptors,
            data: (DATA_AT + u64::from(self.data_offset), data_handle),
            payload_bytes: self.settings.payload_bytes,
            shadow_queues: self.settings.shadow_queues,
            remembers: false,
        };
        Ok(Built { firmware, host })
    }

    /// Makes a virtual interface of a process with this completion queue.
    fn vi(
        &self,
        firmware: &mut Firmware,
        plan: &ViPlan,
        queue: Option<QueueId>,
    ) -> Result<ViId, BuildError> {
        let id = firmware.create_vi(ViAttributes {
            tag: TAG,
            reliability: self.profile.library.reliability,
            rdma_write: true,
            rdma_read: true,
            send_queue: queue.filter(|_| plan.queues == Queues::Both),
            receive_queue: queue.filter(|_| plan.queues != Queues::None),
        })?;
        if let Some((direction, traffic)) = plan.reserved {
            firmware.reserve(id, direction, traffic)?;
        }
        Ok(id)
    }
}

/// Registers `bytes` from `base`, each page at its own bus address.
fn register(firmware: &mut Firmware, base: u64, bytes: u64, page: u64) -> Result<u32, SetUpError> {
    let pages: Vec<u64> = (0..bytes.div_ceil(page) + 1)
        .map(|number| base + number * page)
        .collect();
    let needed = (base % page + bytes).div_ceil(page) as usize;
    firmware.register(Region {
        base,
        bytes,
        tag: TAG,
        // The memory of descriptors gets these rights, too; no process uses them.
        rdma_write: true,
        rdma_read: true,
        pages: pages.get(..needed).unwrap_or(&pages),
    })
}
