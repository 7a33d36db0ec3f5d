//! The designs of the thesis's cards.

use causeway_firmware::{
    BestEffort, Discipline, DmaQueue, Doorbells, Limits, ReceiveDescriptors, Settings,
};

/// Entries of the hardware queues: "a large number" (§4.3.7).
const LARGE: u32 = 1_024;

/// The designs of chapter 4, each with one enhancement more than the one before, and those of chapter 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Design {
    /// Baseline NIC, sequential program.
    Base,
    /// Software queues for each DMA engine.
    BaseO,
    /// Hardware DMA queues.
    BaseODmaq,
    /// Hardware doorbell queue.
    DoorODmaq,
    /// Separate processors for sending and receiving.
    DoorODmaq2Cpu,
    /// Sequential on the hardware of chapter 5.
    Svia,
    /// Event-driven on the hardware of chapter 5.
    Pvia,
    /// With VirtualClock.
    QosVia,
}

impl Design {
    /// The name in the thesis.
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "Base",
            Self::BaseO => "Base+O",
            Self::BaseODmaq => "Base+O+DMAQ",
            Self::DoorODmaq => "Door+O+DMAQ",
            Self::DoorODmaq2Cpu => "Door+O+DMAQ+2CPU",
            Self::Svia => "SVIA",
            Self::Pvia => "PVIA",
            Self::QosVia => "QoSVIA",
        }
    }

    /// The card's settings.
    pub fn settings(self) -> Settings {
        let base = Settings::default();
        match self {
            Self::Base => base,
            Self::BaseO => Settings {
                discipline: Discipline::EventDriven,
                ..base
            },
            Self::BaseODmaq => Settings {
                host_dma: DmaQueue::Hardware(LARGE),
                net_send: DmaQueue::Hardware(LARGE),
                net_receive: 2,
                ..Self::BaseO.settings()
            },
            Self::DoorODmaq => Settings {
                doorbells: Doorbells::Queued,
                ..Self::BaseODmaq.settings()
            },
            Self::DoorODmaq2Cpu => Settings {
                two_processors: true,
                ..Self::DoorODmaq.settings()
            },
            Self::Svia => Settings {
                doorbells: Doorbells::Queued,
                ..base
            },
            Self::Pvia => Settings {
                discipline: Discipline::EventDriven,
                doorbells: Doorbells::Queued,
                host_dma: DmaQueue::Hardware(LARGE),
                receive_descriptors: ReceiveDescriptors::Ahead,
                ..base
            },
            Self::QosVia => Settings {
                discipline: Discipline::QosAware,
                best_effort: BestEffort {
                    // The thesis's discipline: best effort gets the rest of the reservations. Two
                    // best-effort messages are under way at a time, so that they do not occupy the card's
                    // processor, which handles events in order. Two is fitted (docs/simulator.md, chapter 5).
                    rate: 0,
                    in_progress: 2,
                    ..BestEffort::default()
                },
                ..Self::Pvia.settings()
            },
        }
    }

    /// The card's settings with room for a work queue of `depth`, and much of everything else.
    pub fn roomy(self, depth: u32) -> Settings {
        let settings = self.settings();
        let limits = Limits {
            posted_per_queue: depth,
            descriptors_per_queue: depth.clamp(2, 16),
            segments: 2,
            buffers: 64,
            receive_buffers: 32,
            frames: 64,
            ..settings.limits.clone()
        };
        Settings { limits, ..settings }
    }
}
