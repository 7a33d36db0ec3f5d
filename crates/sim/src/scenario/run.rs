//! Running a scenario on cards.

use super::measure::{Measure, Parts, of_statistics};
use super::setup::{Cards, Step, Workload};
use crate::engine::{SECOND, Time, microseconds};
use crate::hardware::{Topology, WhenFull};
use crate::node::Record;
use crate::statistics::Histogram;
use crate::workloads::quality::{self, ChannelOutcome, Experiment, Flow};
use crate::workloads::scaling::{self, Load};
use crate::workloads::traffic::{self, Sizes, Traffic};
use crate::workloads::{Keep, RunError, ping};

/// Depth of the work queues for ping-pongs.
const SHALLOW: u32 = 4;

type Measured = (Vec<Measure>, Record);

pub(super) fn cards(cards: &Cards, step: &Step<'_>, keep: Keep) -> Result<Measured, RunError> {
    let name = cards.design.name().to_lowercase();
    let bytes = step.size_bytes;
    let (mut measures, record) = workload(cards, &name, step, keep)?;
    if let Some(statistics) = &record.statistics {
        measures.extend(of_statistics(&name, bytes, statistics));
    }
    let profile = &cards.profile;
    let drops = profile.switch.when_full == WhenFull::Drop;
    if drops || profile.topology.as_ref().is_some_and(Topology::drops) {
        let lost = record.sums.frames_lost as f64;
        let case = format!("{name}/network/frames-lost");
        measures.push(Measure::one(case, bytes, "count", lost));
    }
    Ok((measures, record))
}

/// The times that the workload itself measures.
fn flow(record: &Record, number: usize) -> Option<&Histogram> {
    record.statistics.as_ref()?.flows.get(number)
}

fn workload(cards: &Cards, name: &str, step: &Step<'_>, keep: Keep) -> Result<Measured, RunError> {
    let bytes = step.size_bytes;
    let replication = u64::from(step.replication);
    let roomy = |depth| cards.settings.apply(cards.design.roomy(depth));
    let latency = |case: &str, time: Time| {
        Measure::one(
            format!("{name}/{case}"),
            bytes,
            "latency_us",
            microseconds(time),
        )
    };
    // The offered load, with its distribution of sizes if there is one.
    let latencies = |case: &str, time: Time, number: usize, record: &Record| {
        let known = flow(record, number);
        let known = known.and_then(|of| Measure::latencies(format!("{name}/{case}"), bytes, of));
        known.unwrap_or_else(|| latency(case, time))
    };
    let profile = &cards.profile;
    match &cards.workload {
        Workload::PingPong { rounds } => {
            let (found, record) =
                ping::ping_pong_recorded(profile, roomy(SHALLOW), bytes, *rounds, keep)?;
            let mut measures: Vec<Measure> = Vec::new();
            for (side, times) in [("send", &found.send[..]), ("recv", &found.receive[..])] {
                // The workload's flows are its round trips, the stages of sends, and those of receives.
                let first = if side == "send" {
                    1
                } else {
                    1 + found.send.len()
                };
                for (row, time) in times.iter().enumerate() {
                    let case = format!("{side}/{row}");
                    measures.push(latencies(&case, *time, first + row, &record));
                }
            }
            measures.push(latencies("oneway/0", found.one_way, 0, &record));
            Ok((measures, record))
        }
        Workload::PingBulk { window, rounds } => {
            let settings = roomy(2 * window);
            let (time, record) =
                ping::ping_bulk_recorded(profile, settings, bytes, *window, *rounds, keep)?;
            Ok((vec![latencies("bulk/0", time, 0, &record)], record))
        }
        Workload::Interfaces(load) => {
            let load = Load {
                bytes,
                seed: load.seed.wrapping_add(replication),
                ..load.clone()
            };
            let settings = cards.settings.apply(cards.design.settings());
            let (found, record) = scaling::recorded(profile, &settings, &load, keep)?;
            let vis = scaling::PROCESSES * load.interfaces();
            let case = format!("{name}/vis-{vis}/wait");
            let waits = record.statistics.as_ref().map(|of| &of.waits);
            let wait = waits.and_then(|of| Measure::latencies(case, bytes, of));
            let measures = vec![
                latencies(&format!("vis-{vis}/latency"), found.latency, 0, &record),
                wait.unwrap_or_else(|| latency(&format!("vis-{vis}/wait"), found.wait)),
            ];
            Ok((measures, record))
        }
        Workload::Traffic(load) => {
            let mut load = Traffic {
                seed: load.seed.wrapping_add(replication),
                ..(**load).clone()
            };
            if bytes > 0 {
                load.sizes = Sizes::Fixed(bytes);
            }
            let (outcome, record) = traffic::recorded(profile, &roomy(SHALLOW), &load, keep)?;
            Ok((
                traffic_measures(name, bytes, &load, &outcome, &record),
                record,
            ))
        }
        Workload::Channels(experiment) => {
            let experiment = Experiment {
                seed: experiment.seed.wrapping_add(replication),
                ..experiment.clone()
            };
            channels(cards, name, experiment, keep)
        }
    }
}

/// Runs the admitted channels.
fn channels(
    cards: &Cards,
    name: &str,
    mut experiment: Experiment,
    keep: Keep,
) -> Result<Measured, RunError> {
    let settings = cards.settings.apply(cards.design.roomy(SHALLOW));
    let mut found = Vec::new();
    if experiment.admission {
        found = quality::admit(&settings, &experiment)?;
        let mut admitted = found.iter().map(Result::is_ok);
        let is_admitted = |_: &Flow| admitted.next().unwrap_or(false);
        experiment.channels.retain(is_admitted);
    }
    let (outcomes, record) = quality::recorded(&cards.profile, &settings, &experiment, keep)?;
    let mut measures = channel_measures(name, &experiment, &outcomes, &record);
    measures.extend(admission_measures(name, &found));
    Ok((measures, record))
}

/// The number of admitted channels, and the counter-offers to the others.
fn admission_measures(name: &str, found: &[Result<(), u64>]) -> Vec<Measure> {
    if found.is_empty() {
        return Vec::new();
    }
    let refused = found.iter().filter(|one| one.is_err()).count();
    let count = |what: &str, value: usize| {
        Measure::one(format!("{name}/admission/{what}"), 0, "count", value as f64)
    };
    let mut measures = vec![
        count("admitted", found.len() - refused),
        count("refused", refused),
    ];
    let offers = found
        .iter()
        .enumerate()
        .filter_map(|(number, one)| Some((number, (*one).err()?)));
    measures.extend(offers.map(|(number, offer)| {
        let case = format!("{name}/admission/offer/{number}");
        Measure::one(case, 0, "rate_mb_s", offer as f64 / 1e6)
    }));
    measures
}

/// The measures of traffic: latency or response time, throughput, and its distribution over nodes.
fn traffic_measures(
    name: &str,
    bytes: u32,
    load: &Traffic,
    outcome: &traffic::Outcome,
    record: &Record,
) -> Vec<Measure> {
    let one = |what: &str, metric: &str, value| {
        Measure::one(format!("{name}/{what}"), bytes, metric, value)
    };
    let rate = |bytes| traffic::megabytes_per_second(bytes, load.measured);
    let mut measures = Vec::new();
    let what = match load.when {
        traffic::Loop::Open { .. } => "injection-to-receipt",
        traffic::Loop::Closed { .. } => "response",
    };
    let latencies = flow(record, 0);
    measures
        .extend(latencies.and_then(|of| Measure::latencies(format!("{name}/{what}"), bytes, of)));
    measures.push(one("all", "received_mb_s", rate(outcome.bytes)));
    let each: Vec<f64> = outcome.received.iter().map(|bytes| rate(*bytes)).collect();
    let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
    measures.push(Measure {
        of: Parts::Instances(each),
        ..one("each-node", "received_mb_s", mean)
    });
    let seconds = load.measured as f64 / SECOND as f64;
    measures.push(one("all", "rate_per_s", outcome.done as f64 / seconds));
    let unfinished = outcome.sent.saturating_sub(outcome.done) as f64;
    measures.push(one("all/unfinished", "count", unfinished));
    measures
}

/// The measures of channels: of each, of all of a kind together, and of those of a kind that have the same rate and size.
fn channel_measures(
    name: &str,
    experiment: &Experiment,
    outcomes: &[ChannelOutcome],
    record: &Record,
) -> Vec<Measure> {
    let seconds = experiment.measured as f64 / SECOND as f64;
    // Of all of a kind, and of those of a kind that have the same rate and size.
    let mut groups: Vec<Group> = Vec::new();
    let mut measures = Vec::new();
    for (number, (flow_of, outcome)) in experiment.channels.iter().zip(outcomes).enumerate() {
        let (kind, size_bytes) = match flow_of {
            Flow::Constant { message_bytes, .. } => ("constant", *message_bytes),
            Flow::Video { .. } => ("video", 0),
            Flow::BestEffort { message_bytes, .. } => ("best-effort", *message_bytes),
        };
        let none = Histogram::default();
        let latencies = flow(record, number).unwrap_or(&none);
        let case = format!("{name}/{kind}/{number}");
        channel(
            &mut measures,
            &case,
            size_bytes,
            outcome,
            latencies,
            seconds,
        );
        for class in [None, Some((flow_of.rate(), size_bytes))] {
            let known = groups
                .iter_mut()
                .find(|group| (group.kind, group.class) == (kind, class));
            match known {
                Some(group) => {
                    group.sum.add(outcome);
                    group.latencies.merge(latencies);
                    group.channels += 1;
                }
                None => groups.push(Group {
                    kind,
                    class,
                    sum: *outcome,
                    latencies: latencies.clone(),
                    channels: 1,
                }),
            }
        }
    }
    for group in groups.iter().filter(|group| group.channels > 1) {
        let of_kind = groups.iter().filter(|other| other.kind == group.kind);
        let (case, size_bytes) = match group.class {
            None => ("all".to_owned(), 0),
            // All of a kind are alike.
            Some(_) if of_kind.count() == 2 => continue,
            Some((rate, size_bytes)) => (format!("all-{}-mb-s", rate as f64 / 1e6), size_bytes),
        };
        let case = format!("{name}/{}/{case}", group.kind);
        channel(
            &mut measures,
            &case,
            size_bytes,
            &group.sum,
            &group.latencies,
            seconds,
        );
    }
    measures
}

/// Channels of a kind, taken together.
struct Group {
    kind: &'static str,
    /// Their rate and the size of their messages, if these are the same.
    class: Option<(u64, u32)>,
    sum: ChannelOutcome,
    latencies: Histogram,
    channels: u64,
}

/// The measures of one channel, or of several.
fn channel(
    measures: &mut Vec<Measure>,
    case: &str,
    bytes: u32,
    outcome: &ChannelOutcome,
    latencies: &Histogram,
    seconds: f64,
) {
    let one = |metric: &str, value| Measure::one(case, bytes, metric, value);
    measures.push(one("received_mb_s", outcome.bytes as f64 / 1e6 / seconds));
    if outcome.received == 0 {
        return;
    }
    let mean = || one("latency_us", microseconds(outcome.mean_latency()));
    measures.push(Measure::latencies(case, bytes, latencies).unwrap_or_else(mean));
    if !case.contains("/best-effort/") {
        let jittered = outcome.jittered as f64 / outcome.received as f64;
        measures.push(one("jitter_share", jittered));
        measures.push(one("jitter_theta", outcome.theta_millionths() as f64 / 1e6));
    }
}
