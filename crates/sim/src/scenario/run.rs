//! Running a scenario on cards.

use super::{Cards, Measure, Workload};
use crate::engine::{SECOND, Time};
use crate::figures::microseconds;
use crate::hardware::{Topology, WhenFull};
use crate::node::Record;
use crate::workloads::quality::{self, ChannelOutcome, Experiment, Flow};
use crate::workloads::scaling::{self, Load};
use crate::workloads::{Keep, RunError, ping};

/// Depth of the work queues for ping-pongs.
const SHALLOW: u32 = 4;

type Measured = (Vec<Measure>, Record);

pub(super) fn cards(cards: &Cards, bytes: u32, keep: Keep) -> Result<Measured, RunError> {
    let name = cards.design.name().to_lowercase();
    let (mut measures, record) = workload(cards, &name, bytes, keep)?;
    let profile = &cards.profile;
    let drops = profile.switch.when_full == WhenFull::Drop;
    if drops || profile.topology.as_ref().is_some_and(Topology::drops) {
        measures.push(Measure {
            case: format!("{name}/network/frames-lost"),
            size_bytes: bytes,
            metric: "count",
            value: record.sums.frames_lost as f64,
        });
    }
    Ok((measures, record))
}

fn workload(cards: &Cards, name: &str, bytes: u32, keep: Keep) -> Result<Measured, RunError> {
    let roomy = |depth| cards.settings.apply(cards.design.roomy(depth));
    let latency = |case: &str, time: Time| Measure {
        case: format!("{name}/{case}"),
        size_bytes: bytes,
        metric: "latency_us",
        value: microseconds(time),
    };
    let profile = &cards.profile;
    match &cards.workload {
        Workload::PingPong { rounds } => {
            let (found, record) =
                ping::ping_pong_recorded(profile, roomy(SHALLOW), bytes, *rounds, keep)?;
            let mut measures: Vec<Measure> = Vec::new();
            for (side, times) in [("send", &found.send[..]), ("recv", &found.receive[..])] {
                let rows = times.iter().enumerate();
                measures.extend(rows.map(|(row, time)| latency(&format!("{side}/{row}"), *time)));
            }
            measures.push(latency("oneway/0", found.one_way));
            Ok((measures, record))
        }
        Workload::PingBulk { window, rounds } => {
            let settings = roomy(2 * window);
            let (time, record) =
                ping::ping_bulk_recorded(profile, settings, bytes, *window, *rounds, keep)?;
            Ok((vec![latency("bulk/0", time)], record))
        }
        Workload::Interfaces {
            nodes,
            peers,
            kind,
            burst,
            completion_queue,
            rounds,
            extent,
            seed,
        } => {
            let load = Load {
                nodes: *nodes,
                peers: *peers,
                kind: *kind,
                bytes,
                burst: *burst,
                completion_queue: *completion_queue,
                rounds: *rounds,
                extent: *extent,
                seed: *seed,
            };
            let settings = cards.settings.apply(cards.design.settings());
            let (found, record) = scaling::recorded(profile, &settings, &load, keep)?;
            let vis = scaling::PROCESSES * load.interfaces();
            let measures = vec![
                latency(&format!("vis-{vis}/latency"), found.latency),
                latency(&format!("vis-{vis}/wait"), found.wait),
            ];
            Ok((measures, record))
        }
        Workload::Channels(experiment) => {
            let settings = roomy(SHALLOW);
            let (outcomes, record) = quality::recorded(profile, &settings, experiment, keep)?;
            Ok((channel_measures(name, experiment, &outcomes), record))
        }
    }
}

fn channel_measures(
    name: &str,
    experiment: &Experiment,
    outcomes: &[ChannelOutcome],
) -> Vec<Measure> {
    let mut measures = Vec::new();
    for (number, (flow, outcome)) in experiment.channels.iter().zip(outcomes).enumerate() {
        let (kind, size_bytes) = match flow {
            Flow::Constant { message_bytes, .. } => ("constant", *message_bytes),
            Flow::Video { .. } => ("video", 0),
            Flow::BestEffort { message_bytes, .. } => ("best-effort", *message_bytes),
        };
        let mut add = |metric, value| {
            measures.push(Measure {
                case: format!("{name}/{kind}/{number}"),
                size_bytes,
                metric,
                value,
            });
        };
        let seconds = experiment.measured as f64 / SECOND as f64;
        add("received_mb_s", outcome.bytes as f64 / 1e6 / seconds);
        if outcome.received > 0 {
            add("latency_us", microseconds(outcome.mean_latency()));
            if kind != "best-effort" {
                let jittered = outcome.jittered as f64 / outcome.received as f64;
                add("jitter_share", jittered);
                add("jitter_theta", outcome.theta_millionths() as f64 / 1e6);
            }
        }
    }
    measures
}
