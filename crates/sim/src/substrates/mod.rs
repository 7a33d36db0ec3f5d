//! Chapter 2: communication substrates on three kinds of network interface, and programs that run on them.
//!
//! A program is an ordinary function that runs as a coroutine (`process`) on a host whose
//! processors it shares (`processor`). The `machine` carries out its calls in virtual time; the
//! substrate determines what a call costs and does: `kernel` is C1 on NI1 and NI2, `user` is C2 and
//! C3 on NI3, `direct` has no substrate. `costs` has all costs. [`munet`] is chapter 3's endpoints,
//! with its own costs.
//!
//! What is exact and what is not: everything is an event in the order of time, except that unsuccessful polls are computed and
//! not simulated, and that a packet occupies the receiver's link from when its first cell leaves. Copies by the
//! processor do not contend with DMA for the memory bus.

use crate::am::port::Rank;
use crate::am::{AmError, Endpoint};
use crate::engine::{SECOND, Time};
use crate::hardware::{LinkSpec, Network, SwitchSpec, Topology, WhenFull};
use crate::programs::Program;

mod costs;
mod direct;
mod kernel;
mod machine;
pub mod munet;
pub mod one_way;
mod poll_loop;
mod process;
mod processor;
pub mod timeline;
mod tlb;
mod user;
mod world;

#[cfg(test)]
mod tests;

pub use costs::{Card, Costs, Hardware, Kernel, Layer, Library, Programs, Room};
pub use machine::{Doing, Done, Limits, Outcome, SimError, StalledProcess};
pub use process::{Clocking, SimPort};
pub use world::{Journey, Stage};

use direct::Direct;
use kernel::{KernelPath, Mover};
use machine::Machine;
use process::PortCosts;
use user::{Addressing, UserPath};
use world::{World, WorldSettings};

/// A substrate on its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combination {
    /// Every message takes this long, and calls are free.
    Direct(Time),
    /// The kernel's path; the processor moves the data.
    C1Ni1,
    /// The kernel's path; a DMA engine moves the data.
    C1Ni2,
    /// The user-level path with pinned segments.
    C2Ni3,
    /// The user-level path with virtual addresses.
    C3Ni3,
}

impl Combination {
    /// The four that the thesis compares.
    pub const FOUR: [Self; 4] = [Self::C1Ni1, Self::C1Ni2, Self::C2Ni3, Self::C3Ni3];

    /// As the thesis calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct(_) => "(direct)",
            Self::C1Ni1 => "(C1,NI1)",
            Self::C1Ni2 => "(C1,NI2)",
            Self::C2Ni3 => "(C2,NI3)",
            Self::C3Ni3 => "(C3,NI3)",
        }
    }
}

/// The setup of a simulation.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The substrate and the network interface.
    pub combination: Combination,
    /// The costs.
    pub costs: Costs,
    /// How many processes.
    pub ranks: u32,
    /// How many of them share a host: process `r` lives on host `r / processes_per_host`.
    pub processes_per_host: u32,
    /// How many processors they share; the first of them takes the interrupts.
    pub processors_per_host: u32,
    /// Whether C3 finds that the pages of its first misses have been paged out, and must come from the disk.
    pub pages_are_out: bool,
    /// The costs of the programs' own work.
    pub clocking: Clocking,
    /// When to give up.
    pub limits: Limits,
    /// Whether each packet's stages are recorded.
    pub keeps_journeys: bool,
    /// Whether distributions and use are recorded.
    pub keeps_statistics: bool,
    /// Links and switches; if absent, one switch without latency (§2.1).
    pub network: Option<Box<Links>>,
}

/// Links, switches and how they join the hosts.
#[derive(Debug, Clone)]
pub struct Links {
    /// The parameters of links, unless the topology changes one.
    pub link: LinkSpec,
    /// The same for switches.
    pub switch: SwitchSpec,
    /// How they are connected; if absent, all hosts are on one switch.
    pub topology: Option<Topology>,
}

impl Links {
    /// One switch without latency and with unlimited room, as §2.1 leaves switches out; links as in
    /// the table.
    pub fn new(costs: &Costs) -> Self {
        Self {
            link: LinkSpec {
                bytes_per_second: costs.hardware.link,
                latency: costs.hardware.propagation / 2,
                framing_bytes: 0,
            },
            switch: SwitchSpec {
                latency: 0,
                buffer_bytes: u64::from(u32::MAX),
                when_full: WhenFull::Stop,
                credit_time: 0,
            },
            topology: None,
        }
    }
}

impl Setup {
    /// `ranks` processes, each on a host of its own, with the usual limits.
    pub fn new(combination: Combination, costs: Costs, ranks: u32) -> Self {
        Self {
            combination,
            costs,
            ranks,
            processes_per_host: 1,
            processors_per_host: 1,
            pages_are_out: false,
            clocking: Clocking::Counted,
            limits: Limits {
                patience: 20 * SECOND,
                longest: 10_000 * SECOND,
                stack_bytes: 64 << 10,
            },
            keeps_journeys: false,
            keeps_statistics: false,
            network: None,
        }
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.ranks.div_ceil(self.processes_per_host.max(1)) as usize
    }

    fn check(&self) -> Result<(), SimError> {
        let refuse = |text: &str| Err(SimError::Settings(text.to_owned()));
        if self.ranks == 0 || self.processes_per_host == 0 {
            return refuse("there must be at least one process, and at least one for each host");
        }
        if !(1..=1_024).contains(&self.processors_per_host) {
            return refuse("a host must have from 1 to 1024 processors");
        }
        if self.limits.patience == 0 {
            return refuse("the patience with a process that does not poll must be more than 0");
        }
        Ok(())
    }

    fn port_costs(&self) -> PortCosts {
        let costs = &self.costs;
        let land_word = match self.combination {
            // The kernel's copy has already moved the data to its place.
            Combination::Direct(_) | Combination::C1Ni1 | Combination::C1Ni2 => 0,
            Combination::C2Ni3 | Combination::C3Ni3 => costs.copy_word(),
        };
        PortCosts {
            clocking: self.clocking,
            floating: costs.programs.floating,
            integer: costs.programs.integer,
            cached: costs.hardware.cache_access,
            memory: costs.hardware.memory_access,
            compose: costs.layer.compose,
            enter_poll: costs.layer.enter_poll,
            dispatch: costs.layer.dispatch,
            land_word,
            fragment_bytes: costs.hardware.page as usize,
            page_bytes: costs.hardware.page as usize,
            longest_silence: costs.hardware.host_clock,
        }
    }

    fn world<E: Copy>(&self) -> Result<World<E>, SimError> {
        let hardware = &self.costs.hardware;
        let poll = match self.combination {
            Combination::Direct(_) => self.costs.layer.enter_poll.max(1),
            Combination::C1Ni1 | Combination::C1Ni2 => KernelPath::poll_cycles(&self.costs),
            Combination::C2Ni3 | Combination::C3Ni3 => UserPath::poll_cycles(&self.costs),
        };
        let settings = WorldSettings {
            ranks: self.ranks,
            processes_per_host: self.processes_per_host,
            host: self.costs.host_times(self.processors_per_host, poll),
            host_clock_hz: hardware.host_clock,
            window: self.costs.room.window,
            credit_latency: self.costs.cell_time() + hardware.propagation,
            keeps_journeys: self.keeps_journeys,
            keeps_statistics: self.keeps_statistics,
        };
        let links = match &self.network {
            Some(links) => (**links).clone(),
            None => Links::new(&self.costs),
        };
        let topology = links
            .topology
            .map_or_else(|| Topology::star(self.hosts()), Ok);
        let topology = topology.map_err(|error| SimError::Settings(error.to_string()))?;
        let network = Network::new(links.link, links.switch, topology);
        Ok(World::new(settings, network))
    }
}

/// Runs one program for each process, over the bare port.
pub fn run_on_ports<R, P>(
    setup: &Setup,
    program: impl FnMut(Rank) -> P,
) -> Result<Outcome<R>, SimError>
where
    R: 'static,
    P: for<'y> FnOnce(SimPort<'y>) -> Result<R, AmError> + 'static,
{
    setup.check()?;
    let (port, limits, hosts) = (setup.port_costs(), setup.limits, setup.hosts());
    let kernel = |mover| KernelPath::new(setup.costs, mover, hosts);
    let user = |addressing| {
        let (per_host, ranks) = (setup.processes_per_host, setup.ranks);
        let page_in = match setup.pages_are_out {
            true => setup.costs.library.page_in,
            false => 0,
        };
        UserPath::new(setup.costs, addressing, page_in, hosts, per_host, ranks)
    };
    match setup.combination {
        Combination::Direct(latency) => {
            Machine::new(setup.world()?, Direct { latency }, port, limits, program)?.run()
        }
        Combination::C1Ni1 => {
            let substrate = kernel(Mover::Processor);
            Machine::new(setup.world()?, substrate, port, limits, program)?.run()
        }
        Combination::C1Ni2 => {
            let substrate = kernel(Mover::Dma);
            Machine::new(setup.world()?, substrate, port, limits, program)?.run()
        }
        Combination::C2Ni3 => {
            let substrate = user(Addressing::Pinned);
            Machine::new(setup.world()?, substrate, port, limits, program)?.run()
        }
        Combination::C3Ni3 => {
            let substrate = user(Addressing::Virtual);
            Machine::new(setup.world()?, substrate, port, limits, program)?.run()
        }
    }
}

/// Runs `program` on every process.
pub fn run<P: Program>(setup: &Setup, program: &P) -> Result<Outcome<P::Output>, SimError> {
    run_on_ports(setup, |rank| {
        let program = program.clone();
        let ranks = setup.ranks;
        move |port: SimPort<'_>| {
            let state = program.begin(rank, ranks)?;
            program.run(&mut Endpoint::new(port, state, P::handlers()))
        }
    })
}
