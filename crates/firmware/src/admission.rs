//! Admission control (the part that the thesis leaves to future work, §5.3.3): each channel's share of
//! processors, host DMA and network engines, in parts per thousand million of their time.

use alloc::vec::Vec;

use crate::clock::time_of;
use crate::settings::{Capacity, Settings};
use crate::setup::{Direction, Refusal, Resource, SECOND, SetUpError, Time, Traffic};

/// All of a resource's time, in the unit of shares: parts per thousand million.
const WHOLE: u64 = 1_000_000_000;

const RESOURCES: [Resource; 5] = [
    Resource::SendProcessor,
    Resource::ReceiveProcessor,
    Resource::HostDma,
    Resource::NetSend,
    Resource::NetReceive,
];

/// Shares of each resource.
type Shares = [u64; RESOURCES.len()];

/// Shares of the card's resources that reservations hold.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    reservations: Vec<(u32, Direction, Shares)>,
}

impl Traffic {
    /// Bytes of one of the channel's messages.
    pub fn message_bytes(&self) -> u32 {
        match *self {
            Self::Constant { message_bytes, .. } | Self::Variable { message_bytes, .. } => {
                message_bytes
            }
        }
    }

    /// The rate that has to be reserved. A burst of b bytes at peak rate p over a mean of m is
    /// delayed by at most d at a rate of p b / (b + d (p - m)), but never less than m.
    pub fn effective_rate(&self) -> u64 {
        match *self {
            Self::Constant { rate, .. } => rate,
            Self::Variable {
                mean,
                peak,
                burst_bytes,
                delay,
                ..
            } => {
                if peak <= mean || burst_bytes == 0 {
                    return mean;
                }
                let bits = u128::from(burst_bytes);
                let room = u128::from(delay)
                    .saturating_mul(u128::from(peak - mean))
                    .div_ceil(u128::from(SECOND));
                let rate = (u128::from(peak) * bits).div_ceil(bits.saturating_add(room));
                mean.max(rate.min(u128::from(peak)) as u64)
            }
        }
    }

    /// The same kind of traffic at `numerator / denominator` of its rate.
    fn scaled(&self, numerator: u64, denominator: u64) -> Self {
        let scale = |value: u64| {
            let scaled = u128::from(value) * u128::from(numerator) / u128::from(denominator.max(1));
            scaled as u64
        };
        match *self {
            Self::Constant {
                rate,
                message_bytes,
            } => Self::Constant {
                rate: scale(rate),
                message_bytes,
            },
            Self::Variable {
                mean,
                peak,
                burst_bytes,
                message_bytes,
                delay,
            } => Self::Variable {
                mean: scale(mean),
                peak: scale(peak),
                burst_bytes: scale(burst_bytes),
                message_bytes,
                delay,
            },
        }
    }

    /// The rate in which counter-offers are expressed.
    fn nominal_rate(&self) -> u64 {
        match *self {
            Self::Constant { rate, .. } => rate,
            Self::Variable { mean, .. } => mean,
        }
    }

    fn check(&self) -> Result<(), SetUpError> {
        let invalid = |what| Err(SetUpError::Invalid { what });
        if self.message_bytes() == 0 || self.nominal_rate() == 0 {
            return invalid("reserved traffic has a rate and messages of some bytes");
        }
        match *self {
            Self::Variable { mean, peak, .. } if peak < mean => {
                invalid("the peak of variable traffic is not below its mean")
            }
            _ => Ok(()),
        }
    }
}

/// The time of each resource that a message takes.
fn message_times(settings: &Settings, direction: Direction, bytes: u32) -> [Time; 5] {
    let Capacity {
        send_message,
        send_frame,
        receive_message,
        receive_frame,
        host_rate,
        host_message,
        host_frame,
        net_rate,
        net_frame,
        ..
    } = settings.capacity;
    let frames = u64::from(bytes.div_ceil(settings.frame_bytes).max(1));
    let each = |once: Time, frame: Time| once.saturating_add(frame.saturating_mul(frames));
    let host = time_of(bytes.into(), host_rate).saturating_add(each(host_message, host_frame));
    let net = time_of(bytes.into(), net_rate).saturating_add(each(0, net_frame));
    let second = settings.two_processors;
    match direction {
        Direction::Outgoing => [each(send_message, send_frame), 0, host, net, 0],
        Direction::Incoming => {
            let processor = each(receive_message, receive_frame);
            let (first, second) = match second {
                true => (0, processor),
                false => (processor, 0),
            };
            [first, second, host, 0, net]
        }
    }
}

fn shares(settings: &Settings, direction: Direction, traffic: &Traffic) -> Shares {
    let times = message_times(settings, direction, traffic.message_bytes());
    let rate = u128::from(traffic.effective_rate());
    let bytes = u128::from(traffic.message_bytes());
    times.map(|time| {
        // Messages per second, times the time of each, in parts of a second.
        let part = (rate * u128::from(time)).saturating_mul(WHOLE.into());
        let share = part.div_ceil(bytes * u128::from(SECOND));
        share.min(u128::from(u64::MAX / 2)) as u64
    })
}

impl Admission {
    /// Reserves, and returns the rate that the channel's clock runs at.
    pub(crate) fn reserve(
        &mut self,
        settings: &Settings,
        vi: u32,
        direction: Direction,
        traffic: Traffic,
    ) -> Result<u64, SetUpError> {
        traffic.check()?;
        let has_one = |&(of, way, _): &(u32, Direction, Shares)| of == vi && way == direction;
        if self.reservations.iter().any(has_one) {
            return Err(SetUpError::Invalid {
                what: "a channel has one reservation in each direction; release it first",
            });
        }
        let wanted = shares(settings, direction, &traffic);
        if let Some(at) = self.lacking(settings, &wanted) {
            return Err(SetUpError::Refused(Refusal {
                resource: RESOURCES[at],
                offer: self.offer(settings, direction, &traffic),
            }));
        }
        self.reservations.push((vi, direction, wanted));
        Ok(traffic.effective_rate())
    }

    /// The first resource of which too little is left.
    fn lacking(&self, settings: &Settings, wanted: &Shares) -> Option<usize> {
        let most = WHOLE / 1000 * u64::from(settings.capacity.reservable_permille);
        (0..RESOURCES.len()).find(|&at| {
            let given = self.reservations.iter().map(|(_, _, shares)| shares[at]);
            let given = given.fold(0_u64, u64::saturating_add);
            wanted[at] > 0 && given.saturating_add(wanted[at]) > most
        })
    }

    /// The largest rate that would fit, at most the requested one.
    fn offer(&self, settings: &Settings, direction: Direction, traffic: &Traffic) -> u64 {
        let asked = traffic.nominal_rate();
        let fits = |rate: u64| {
            let scaled = traffic.scaled(rate, asked);
            rate == 0
                || self
                    .lacking(settings, &shares(settings, direction, &scaled))
                    .is_none()
        };
        let (mut fitting, mut refused) = (0, asked);
        while refused - fitting > 1 {
            let middle = fitting + (refused - fitting) / 2;
            if fits(middle) {
                fitting = middle;
            } else {
                refused = middle;
            }
        }
        fitting
    }

    /// Releases a reservation; returns whether there was one.
    pub(crate) fn release(&mut self, vi: u32, direction: Direction) -> bool {
        let before = self.reservations.len();
        self.reservations
            .retain(|&(of, way, _)| (of, way) != (vi, direction));
        self.reservations.len() < before
    }

    /// Releases all reservations of a virtual interface.
    pub(crate) fn forget(&mut self, vi: u32) {
        self.reservations.retain(|&(of, ..)| of != vi);
    }
}
