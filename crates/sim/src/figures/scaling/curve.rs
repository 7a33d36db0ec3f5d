//! One curve of figures 4.4 to 4.19.

use causeway_firmware::Settings;

use crate::engine::Time;
use crate::figures::common::prefix_of;
use crate::workloads::design::Design;
use crate::workloads::scaling::{Kind, Order};

/// All VIs, whatever their number.
pub(super) const ALL: usize = 4 * 127;

/// One curve of a figure.
#[derive(Clone, Debug)]
pub struct Curve {
    pub(super) series: String,
    pub(super) settings: Settings,
    pub(super) kind: Kind,
    pub(super) bytes: u32,
    pub(super) burst: u32,
    pub(super) completion_queue: bool,
    /// Whether the wait is a curve of its own, besides the latency.
    pub(super) wait: bool,
    /// The time that the host takes to post a descriptor, if it is not the profile's.
    pub(super) posting: Option<Time>,
    /// In which order processes use their interfaces.
    pub(super) order: Order,
    /// One message goes back and forth on the only channel.
    pub(super) one_channel: bool,
}

impl Curve {
    pub(super) fn new(design: Design, active: usize, bytes: u32) -> Self {
        Self {
            series: format!("{} u{active}", design.name()),
            settings: design.settings(),
            kind: Kind::Active(active),
            bytes,
            burst: 1,
            completion_queue: false,
            wait: false,
            posting: None,
            order: Order::default(),
            one_channel: false,
        }
    }

    /// The one-way latency with one channel and one message.
    pub(super) fn one_channel(design: Design, bytes: u32) -> Self {
        Self {
            one_channel: true,
            ..Self::new(design, 1, bytes).named(format!("one channel, {}", design.name()))
        }
    }

    pub(super) fn named(self, series: impl Into<String>) -> Self {
        Self {
            series: series.into(),
            ..self
        }
    }

    /// Messages that fit travel inside the descriptor.
    pub(super) fn payload(mut self, bytes: u32) -> Self {
        self.settings.payload_bytes = bytes;
        self
    }

    pub(super) fn shadow(mut self) -> Self {
        self.settings.shadow_queues = true;
        self
    }

    pub(super) fn with_wait(self) -> Self {
        Self { wait: true, ..self }
    }

    /// The same curve on another assumption.
    pub(super) fn assuming(self, assumed: &str) -> Self {
        Self {
            series: format!("{}{}", prefix_of(assumed), self.series),
            ..self
        }
    }
}
