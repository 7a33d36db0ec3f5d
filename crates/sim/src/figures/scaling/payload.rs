//! Figure 4.6: sizes of messages inside descriptors.

use super::curve::{ALL, Curve};
use crate::engine::MICROSECOND;
use crate::figures::common::{Rows, Verdicts, prefix_of};
use crate::workloads::design::Design;
use crate::workloads::scaling::Order;

/// Assumed times of posting in microseconds, to see what figure 4.6 depends on: up to more than the
/// card takes to send.
const POSTINGS_US: [u64; 8] = [8, 12, 14, 15, 16, 17, 18, 20];

/// In which other orders processes are assumed to use their interfaces (§4.2.5).
const ORDERS: [(Order, &str); 4] = [
    (
        Order::Descending,
        "processes use their VIs in descending order",
    ),
    (
        Order::Strided(2),
        "processes use every second VI, then the others",
    ),
    (
        Order::Strided(8),
        "processes use every eighth VI, then the next of each eight",
    ),
    (
        Order::Random,
        "processes use their VIs in an order of chance",
    ),
];

fn slow_posting(microseconds: u64) -> String {
    format!("posting takes {microseconds} µs")
}

fn payload_curve(bytes: u32) -> Curve {
    Curve::new(Design::Base, ALL, bytes)
        .payload(128)
        .shadow()
        .named(format!("{bytes} bytes"))
}

/// The figure's curves, and those on other assumptions.
pub(super) fn curves() -> Vec<Curve> {
    let own = [8, 32, 64, 128].map(payload_curve);
    let slower = POSTINGS_US.iter().flat_map(|&posting| {
        [8, 32, 64].map(|bytes| Curve {
            posting: Some(posting * MICROSECOND),
            ..payload_curve(bytes).assuming(&slow_posting(posting))
        })
    });
    let orders = ORDERS.iter().flat_map(|&(order, assumed)| {
        [8, 32, 64].map(|bytes| Curve {
            order,
            ..payload_curve(bytes).assuming(assumed)
        })
    });
    own.into_iter().chain(slower).chain(orders).collect()
}

/// Holds the figure's rows against the text.
pub(super) fn judge(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let judged = |prefix: &str| {
        let at = |bytes: u32| rows.at(&format!("{prefix}{bytes} bytes"), 508.0);
        let mut verdicts = Verdicts::default();
        verdicts.add(
            "with 508 VIs a message of 32 or 64 bytes can have a lower latency than one of 8",
            at(32) < at(8) || at(64) < at(8),
            format!("8: {:.0}, 32: {:.0}, 64: {:.0} µs", at(8), at(32), at(64)),
        );
        verdicts
    };
    *verdicts = judged("");
    for assumed in POSTINGS_US.map(slow_posting) {
        verdicts.add_alternative(&assumed, &judged(&prefix_of(&assumed)));
    }
    for (_, assumed) in ORDERS {
        verdicts.add_alternative(assumed, &judged(&prefix_of(assumed)));
    }
}
