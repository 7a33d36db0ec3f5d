//! Figures 4.4 to 4.19.

mod curve;
mod payload;

use causeway_firmware::Step;

use self::curve::ALL;
pub use self::curve::Curve;
use super::common::{About, Effort, FigureError, Row, Rows, Traced, Verdict, Verdicts, prefix_of};
use crate::engine::{Time, microseconds};
use crate::node::Record;
use crate::profile::Profile;
use crate::workloads::Keep;
use crate::workloads::design::Design;
use crate::workloads::ping;
use crate::workloads::scaling::{self, Extent, Kind, Load, Order, PROCESSES, Peers};

const X: &str = "declared VIs on a node";
const LATENCY: &str = "latency in µs";

const fn about(number: &'static str, title: &'static str) -> About {
    About {
        number,
        title,
        x: X,
        y: LATENCY,
    }
}

/// The figures.
pub const FIGURES: &[About] = &[
    about("4.4", "Latency and wait of Base, 8 active VIs, 128 bytes"),
    about(
        "4.5",
        "Latency and wait of Base, up to 60 active VIs, 4 KiB",
    ),
    about(
        "4.6",
        "Size of the descriptor's payload, Base, all VIs active",
    ),
    about(
        "4.7",
        "Completion queues, Base, one VI at a time, 128 bytes",
    ),
    about("4.8", "Overlap: Base+O against Base, 4 KiB"),
    about("4.9", "Overlap: Base+O against Base, 128 bytes"),
    about(
        "4.10",
        "Hardware DMA queues: Base+O+DMAQ against Base+O, 4 KiB",
    ),
    about(
        "4.11",
        "Hardware DMA queues: Base+O+DMAQ against Base+O, 128 bytes",
    ),
    about("4.12", "Hardware doorbells: latency, 128 bytes"),
    about("4.13", "Hardware doorbells: wait and latency, 128 bytes"),
    about("4.14", "Tailgating descriptors, 128 bytes"),
    about("4.15", "Two processors, 128 bytes"),
    about("4.16", "Shadow queues, 128 bytes"),
    about("4.17", "All enhancements against Base, 128 bytes"),
    about("4.18", "All enhancements against Base, 1 KiB"),
    about("4.19", "All enhancements against Base, 4 KiB"),
];

/// The designs.
const DESIGNS: [Design; 5] = [
    Design::Base,
    Design::BaseO,
    Design::BaseODmaq,
    Design::DoorODmaq,
    Design::DoorODmaq2Cpu,
];

/// Nodes of the clusters, which make 4, 28, 60, 124, 252 and 508 VIs.
const NODES: [usize; 6] = [2, 8, 16, 32, 64, 128];

/// Loads that the text calls u12, u28 and u60.
const LOADS: [usize; 3] = [12, 28, 60];

fn compare(designs: &[Design], loads: &[usize], bytes: u32) -> Vec<Curve> {
    designs
        .iter()
        .flat_map(|&design| {
            loads
                .iter()
                .map(move |&load| Curve::new(design, load, bytes))
        })
        .collect()
}

/// The curves of a figure; none if it is not of this chapter.
pub(super) fn curves(figure: &str) -> Vec<Curve> {
    use Design::{Base, BaseO, BaseODmaq, DoorODmaq, DoorODmaq2Cpu};
    let best = |load, bytes| Curve::new(DoorODmaq2Cpu, load, bytes).shadow();
    match figure {
        "4.4" => vec![Curve::new(Base, 8, 128).payload(128).with_wait()],
        "4.5" => vec![Curve::new(Base, 60, 4_096).with_wait()],
        "4.6" => payload::curves(),
        "4.7" => [false, true]
            .map(|queue| {
                let name = if queue { "with CQ" } else { "without CQ" };
                Curve {
                    kind: Kind::OneOfAll,
                    completion_queue: queue,
                    ..Curve::new(Base, 1, 128).payload(128).named(name)
                }
            })
            .to_vec(),
        "4.8" => compare(&[Base, BaseO], &LOADS, 4_096),
        "4.9" => compare(&[Base, BaseO], &LOADS, 128),
        "4.10" => compare(&[BaseO, BaseODmaq, DoorODmaq], &LOADS, 4_096),
        "4.11" => compare(&[Base, BaseO, BaseODmaq], &LOADS, 128),
        "4.12" => compare(&[BaseODmaq, DoorODmaq], &LOADS, 128),
        "4.13" => compare(&[BaseODmaq, DoorODmaq], &LOADS, 128)
            .into_iter()
            .map(Curve::with_wait)
            .collect(),
        "4.14" => {
            let doorbells_last = tailgating_curves().into_iter().map(|mut curve| {
                curve.settings.doorbells_last = true;
                curve.assuming(DOORBELLS_LAST)
            });
            tailgating_curves()
                .into_iter()
                .chain(doorbells_last)
                .collect()
        }
        "4.15" => compare(&[DoorODmaq, DoorODmaq2Cpu], &LOADS, 128),
        "4.16" => LOADS
            .iter()
            .flat_map(|&load| {
                [
                    Curve::new(DoorODmaq2Cpu, load, 128).named(format!("DMA u{load}")),
                    best(load, 128).named(format!("shadow u{load}")),
                ]
            })
            .collect(),
        "4.17" | "4.18" | "4.19" => {
            let bytes = match figure {
                "4.17" => 128,
                "4.18" => 1_024,
                _ => 4_096,
            };
            let mut curves = compare(&[Base], &[12, 60], bytes);
            curves.extend([12, 60].map(|load| best(load, bytes)));
            curves.extend(DESIGNS.map(|design| Curve::one_channel(design, bytes)));
            curves
        }
        _ => Vec::new(),
    }
}

/// What figure 4.14 depends on.
const DOORBELLS_LAST: &str =
    "the card looks at doorbells only when no engine has finished anything";

fn tailgating_curves() -> Vec<Curve> {
    let curve = |load: usize, tailgating: bool| {
        let name = if tailgating { "tailgating" } else { "without" };
        let mut curve = Curve::new(Design::DoorODmaq, load, 128)
            .with_wait()
            .named(format!("{name} u{load}"));
        curve.burst = 2;
        curve.settings.tailgating = tailgating;
        curve
    };
    LOADS
        .iter()
        .flat_map(|&load| [curve(load, false), curve(load, true)])
        .collect()
}

/// The clusters that a curve is run for.
pub(super) fn nodes(curve: &Curve, effort: Effort) -> Vec<usize> {
    let all = curve.kind == Kind::Active(ALL);
    match effort {
        _ if curve.one_channel => vec![2],
        // The cluster that the text describes.
        _ if curve.posting.is_some() || curve.order != Order::default() => vec![128],
        Effort::Full => NODES.to_vec(),
        // With all VIs active the largest cluster takes long to run, but it is the one that the
        // text describes.
        Effort::Quick if all => vec![2, 16, 128],
        Effort::Quick => vec![2, 8, 16, 64, 128],
    }
}

/// The declared VIs of a cluster's node.
fn declared(nodes: usize) -> f64 {
    (PROCESSES * (nodes - 1)) as f64
}

fn load(curve: &Curve, nodes: usize, effort: Effort) -> Load {
    let all = curve.kind == Kind::Active(ALL);
    Load {
        nodes,
        peers: Peers::All,
        kind: curve.kind,
        order: curve.order,
        bytes: curve.bytes,
        burst: curve.burst,
        completion_queue: curve.completion_queue,
        rounds: match (effort, all) {
            (Effort::Quick, true) if curve.posting.is_none() && curve.order == Order::default() => {
                6
            }
            // The gains of tailgating for wait and latency are so similar that few rounds do not
            // show which is larger.
            (Effort::Quick, false) if curve.burst > 1 => 60,
            (Effort::Quick, false) => 20,
            (_, true) => 20,
            (Effort::Full, false) => 100,
        },
        extent: Extent::Representative,
        seed: 1,
    }
}

fn profile(curve: &Curve) -> Result<Profile, FigureError> {
    let mut profile = Profile::shipped("via")?;
    if let Some(posting) = curve.posting {
        profile.library.post = posting;
    }
    Ok(profile)
}

/// Runs one point of a curve, for a timeline.
pub(super) fn traced(curve: &Curve, nodes: usize, effort: Effort) -> Result<Traced, FigureError> {
    let profile = profile(curve)?;
    let record = match curve.one_channel {
        true => ping_pong(&profile, curve, Keep::Slices)?.1,
        false => {
            let load = load(curve, nodes, effort);
            scaling::recorded(&profile, &curve.settings, &load, Keep::Slices)?.1
        }
    };
    Ok(Traced {
        of: format!("{}, {nodes} nodes", curve.series),
        record,
    })
}

/// The one-way latency of a message on the only channel.
fn ping_pong(profile: &Profile, curve: &Curve, keep: Keep) -> Result<(Time, Record), FigureError> {
    let settings = curve.settings.clone();
    let (found, record) = ping::ping_pong_recorded(profile, settings, curve.bytes, 10, keep)?;
    Ok((found.one_way, record))
}

/// Runs one point of a curve.
pub(super) fn run(curve: &Curve, nodes: usize, effort: Effort) -> Result<Vec<Row>, FigureError> {
    let profile = profile(curve)?;
    if curve.one_channel {
        return Ok(vec![Row {
            series: curve.series.clone(),
            x: 1.0,
            value: microseconds(ping_pong(&profile, curve, Keep::Sums)?.0),
        }]);
    }
    let load = load(curve, nodes, effort);
    let outcome = scaling::run(&profile, &curve.settings, &load)?;
    let x = declared(nodes);
    let mut rows = vec![Row {
        series: curve.series.clone(),
        x,
        value: microseconds(outcome.latency),
    }];
    if curve.wait {
        rows.push(Row {
            series: format!("wait {}", curve.series),
            x,
            value: microseconds(outcome.wait),
        });
    }
    Ok(rows)
}

/// How much `b` is above `a`, in parts of `a`.
fn above(a: f64, b: f64) -> f64 {
    b / a - 1.0
}

/// The slope of a series between two places.
fn slope(series: &[(f64, f64)], from: f64, to: f64) -> f64 {
    let at = |x: f64| {
        series
            .iter()
            .find(|point| point.0 == x)
            .map_or(f64::NAN, |point| point.1)
    };
    (at(to) - at(from)) / (to - from)
}

/// How much of a series's variance a straight line explains.
fn linearity(series: &[(f64, f64)]) -> f64 {
    let count = series.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| series.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let mut sums = (0.0, 0.0, 0.0);
    for (x, y) in series {
        let (dx, dy) = (x - mean_x, y - mean_y);
        sums = (sums.0 + dx * dy, sums.1 + dx * dx, sums.2 + dy * dy);
    }
    sums.0 * sums.0 / (sums.1 * sums.2)
}

/// Holds the figure's rows against the text.
pub(super) fn judge(figure: &str, rows: Rows<'_>) -> Vec<Verdict> {
    use Design::{Base, BaseO, BaseODmaq, DoorODmaq, DoorODmaq2Cpu};
    let mut verdicts = Verdicts::default();
    match figure {
        "4.4" => judge_base(rows, &mut verdicts),
        "4.5" => judge_knee(rows, &mut verdicts),
        "4.6" => payload::judge(rows, &mut verdicts),
        "4.7" => judge_queues(rows, &mut verdicts),
        "4.8" => {
            let claim =
                "overlap lowers the latency of 4 KiB messages under all loads, more at higher ones";
            judge_better(rows, &mut verdicts, claim, Base, BaseO);
        }
        "4.9" => {
            let claim = "with 128 bytes it is reversed: the upkeep of queues costs more than overlap gains, more at higher loads";
            judge_better(rows, &mut verdicts, claim, BaseO, Base);
        }
        "4.10" => {
            let claim = "hardware DMA queues do not help with 4 KiB messages";
            judge_no_help(rows, &mut verdicts, claim, (BaseO, BaseODmaq));
            let claim = "long messages do not really feel hardware doorbells either (§4.3.8)";
            judge_no_help(rows, &mut verdicts, claim, (BaseODmaq, DoorODmaq));
        }
        "4.11" => {
            let claim = "hardware queues lower the latency of short messages, more at higher loads";
            judge_better(rows, &mut verdicts, claim, BaseO, BaseODmaq);
            let found = improvements(rows, BaseO, BaseODmaq);
            verdicts.add(
                "they help: by as much as they do not with 4 KiB messages (15 %), at every load",
                found.iter().all(|(least, _)| *least >= HELPS),
                tell_improvements(&found),
            );
            let still = LOADS.iter().all(|load| {
                constant(rows, Base, *load)
                    .iter()
                    .zip(constant(rows, BaseODmaq, *load))
                    .all(|(base, queued)| queued.1 > base.1)
            });
            verdicts.add(
                "these latencies are still worse than those of the design without overlap",
                still,
                show(rows, &[Base, BaseODmaq]),
            );
        }
        "4.12" => judge_doorbells(rows, &mut verdicts),
        "4.13" => judge_waits(rows, &mut verdicts),
        "4.14" => judge_tailgating(rows, &mut verdicts),
        "4.15" => {
            let claim = "separate processors lower the latency, more at higher loads";
            judge_better(rows, &mut verdicts, claim, DoorODmaq, DoorODmaq2Cpu);
            let found = improvements(rows, DoorODmaq, DoorODmaq2Cpu);
            verdicts.add(
                "the improvement is large (30 % and more at each load)",
                found.iter().all(|(least, _)| *least >= LARGE),
                tell_improvements(&found),
            );
        }
        "4.16" => judge_shadow(rows, &mut verdicts),
        "4.17" | "4.18" | "4.19" => judge_together(rows, &mut verdicts),
        _ => {}
    }
    verdicts.0
}

fn name(design: Design, load: usize) -> String {
    format!("{} u{load}", design.name())
}

/// The part of a curve where the offered load is constant: as many VIs are declared as are active, or more.
fn constant(rows: Rows<'_>, design: Design, load: usize) -> Vec<(f64, f64)> {
    let mut series = rows.series(&name(design, load));
    series.retain(|point| point.0 >= load as f64);
    series
}

fn show(rows: Rows<'_>, designs: &[Design]) -> String {
    let mut text = Vec::new();
    for design in designs {
        for load in LOADS {
            let values: Vec<String> = rows
                .series(&name(*design, load))
                .iter()
                .map(|(x, value)| format!("{x}: {value:.0}"))
                .collect();
            if !values.is_empty() {
                text.push(format!("{} u{load}: {}", design.name(), values.join(" ")));
            }
        }
    }
    text.join("; ")
}

/// The time that the card takes to poll a VI's two queues, in µs.
fn polls_us() -> f64 {
    let card = Profile::shipped("via").map(|profile| profile.card);
    card.map_or(f64::NAN, |card| {
        microseconds(card.cycles(2 * card.steps.cycles(Step::PollDoorbell)))
    })
}

fn judge_base(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let mut latency = rows.series("Base u8");
    latency.retain(|point| point.0 >= 8.0);
    let wait = rows.series("wait Base u8");
    let fit = linearity(&latency);
    let rises = latency.is_sorted_by(|a, b| a.1 < b.1);
    verdicts.add(
        "latency increases almost linearly with the declared VIs",
        rises && fit > 0.97,
        format!("a line explains {:.1} % of {latency:.0?}", fit * 100.0),
    );
    let wait_slope = slope(&wait, 28.0, 508.0);
    let ratio = wait_slope / slope(&latency, 28.0, 508.0);
    verdicts.add(
        "the wait curve almost parallels the latency curve (slopes of 0.8 to 1.25 of each other)",
        (0.8..=1.25).contains(&ratio),
        format!("the wait grows {ratio:.2} times as fast"),
    );
    let polled = wait_slope / polls_us();
    verdicts.add(
        "a message waits for roughly half the time that the card takes to poll the queues of all other VIs (35 to 65 %)",
        (0.35..=0.65).contains(&polled),
        format!("with each VI more for {:.0} % of its polls", polled * 100.0),
    );
}

fn judge_knee(rows: Rows<'_>, verdicts: &mut Verdicts) {
    for series in ["Base u60", "wait Base u60"] {
        let points = rows.series(series);
        let (before, after) = (slope(&points, 4.0, 60.0), slope(&points, 60.0, 508.0));
        verdicts.add(
            "sharp increase while the load increases (up to 60 VIs), reduced slope while it is constant",
            before > 2.0 * after && after > 0.0,
            format!("{series}: slopes {before:.2} and {after:.2} µs per VI"),
        );
    }
}

fn judge_queues(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let (without, with) = (rows.series("without CQ"), rows.series("with CQ"));
    let slopes = [slope(&without, 28.0, 508.0), slope(&with, 28.0, 508.0)];
    verdicts.add(
        "without a completion queue the cost goes up linearly with the declared VIs, with one it depends less on them",
        slopes[0] > slopes[1],
        format!("slopes {:.3} and {:.3} µs per VI", slopes[0], slopes[1]),
    );
    let (few, many) = (4.0, 508.0);
    verdicts.add(
        "with one the cost is relatively independent of the declared VIs (it grows by at most half as much as without)",
        slopes[1] <= 0.5 * slopes[0],
        format!("{:.2} of the growth without", slopes[1] / slopes[0]),
    );
    verdicts.add(
        "completion queues have their cost (another DMA), which the benefits overcome with many VIs",
        rows.at("with CQ", few) > rows.at("without CQ", few)
            && rows.at("with CQ", many) < rows.at("without CQ", many),
        format!(
            "4 VIs: {:.0} with, {:.0} without; 508 VIs: {:.0} with, {:.0} without",
            rows.at("with CQ", few),
            rows.at("without CQ", few),
            rows.at("with CQ", many),
            rows.at("without CQ", many)
        ),
    );
}

/// How much latencies have to differ for something to "help", or to be "significant": one
/// threshold, both ways.
const HELPS: f64 = 0.15;
/// From how much on an improvement is "large".
const LARGE: f64 = 0.3;

/// How much lower `better` is than `worse` where the load is constant, as a part of `worse`: the least and the most for each load.
fn improvements(rows: Rows<'_>, worse: Design, better: Design) -> [(f64, f64); 3] {
    LOADS.map(|load| {
        constant(rows, worse, load)
            .iter()
            .zip(constant(rows, better, load))
            .map(|(worse, better)| 1.0 - better.1 / worse.1)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), part| {
                (part.min(least), part.max(most))
            })
    })
}

fn tell_improvements(found: &[(f64, f64); 3]) -> String {
    let told: Vec<String> = LOADS
        .iter()
        .zip(found)
        .map(|(load, (least, most))| {
            format!("{load} VIs: {:.0} to {:.0} %", 100.0 * least, 100.0 * most)
        })
        .collect();
    told.join(", ")
}

/// `better` is lower than `worse` wherever the load is constant, and more so at higher loads.
fn judge_better(
    rows: Rows<'_>,
    verdicts: &mut Verdicts,
    claim: &str,
    worse: Design,
    better: Design,
) {
    let gain = |load: usize| -> Vec<f64> {
        constant(rows, worse, load)
            .iter()
            .zip(constant(rows, better, load))
            .map(|(worse, better)| worse.1 - better.1)
            .collect()
    };
    let gains = LOADS.map(gain);
    let all = gains
        .iter()
        .all(|gains| !gains.is_empty() && gains.iter().all(|gain| *gain > 0.0));
    let first = |place: usize| gains[place].first().copied().unwrap_or(f64::NAN);
    verdicts.add(
        claim,
        all && first(0) < first(1) && first(1) < first(2),
        show(rows, &[worse, better]),
    );
}

/// `with` makes a difference that is too small to be a help.
fn judge_no_help(
    rows: Rows<'_>,
    verdicts: &mut Verdicts,
    claim: &str,
    (without, with): (Design, Design),
) {
    let most = LOADS
        .iter()
        .flat_map(|load| {
            let helped = constant(rows, with, *load);
            constant(rows, without, *load)
                .into_iter()
                .zip(helped)
                .map(|(without, with)| above(without.1, with.1).abs())
        })
        .fold(0.0, f64::max);
    verdicts.add(
        claim,
        most < HELPS,
        format!(
            "they differ by {:.1} % at most; {}",
            most * 100.0,
            show(rows, &[without, with])
        ),
    );
}

fn judge_doorbells(rows: Rows<'_>, verdicts: &mut Verdicts) {
    use Design::{BaseODmaq, DoorODmaq};
    let spread = LOADS.map(|load| {
        let values = constant(rows, DoorODmaq, load);
        let least = values
            .iter()
            .map(|point| point.1)
            .fold(f64::INFINITY, f64::min);
        let most = values.iter().map(|point| point.1).fold(0.0, f64::max);
        above(least, most)
    });
    verdicts.add(
        "with hardware doorbells the latency of an offered load is constant",
        spread.iter().all(|spread| *spread < 0.03),
        show(rows, &[DoorODmaq]),
    );
    let grows = LOADS.iter().all(|load| {
        let polled = constant(rows, BaseODmaq, *load);
        match (polled.first(), polled.last()) {
            (Some(first), Some(last)) => last.1 > first.1,
            _ => false,
        }
    });
    verdicts.add(
        "without them it grows with the declared VIs even when the load is constant",
        grows,
        show(rows, &[BaseODmaq]),
    );
    let lower = LOADS.iter().all(|load| {
        constant(rows, BaseODmaq, *load)
            .iter()
            .zip(constant(rows, DoorODmaq, *load))
            .all(|(polled, queued)| queued.1 < polled.1)
    });
    verdicts.add(
        "hardware doorbells improve latencies significantly",
        lower,
        show(rows, &[BaseODmaq, DoorODmaq]),
    );
    let found = improvements(rows, BaseODmaq, DoorODmaq);
    verdicts.add(
        "the improvement is significant (15 % and more wherever the load is constant)",
        found.iter().all(|(least, _)| *least >= HELPS),
        tell_improvements(&found),
    );
    // The flat part: up to where the latency is a tenth above its value when all VIs are active.
    let flat_until = LOADS.map(|load| {
        let polled = constant(rows, BaseODmaq, load);
        let first = polled.first().map_or(f64::NAN, |point| point.1);
        polled
            .iter()
            .take_while(|point| above(first, point.1) < 0.1)
            .map(|point| point.0)
            .fold(0.0, f64::max)
    });
    verdicts.add(
        "after the load has become constant there is a flat part, longer for higher loads, before it goes up again",
        flat_until[0] <= flat_until[1] && flat_until[1] <= flat_until[2] && flat_until[0] < flat_until[2],
        format!("flat until {flat_until:?} VIs"),
    );
}

/// How much of the latency's gain or growth the wait's has to be, for the one to come from the other.
const COMES_FROM: f64 = 0.7;

/// A part of a latency; less than any if the latency itself has nothing.
fn part_of(wait: f64, latency: f64) -> f64 {
    match latency > 0.0 {
        true => wait / latency,
        false => f64::NEG_INFINITY,
    }
}

fn judge_waits(rows: Rows<'_>, verdicts: &mut Verdicts) {
    use Design::{BaseODmaq, DoorODmaq};
    let series = |what: &str, design, load| {
        let mut series = rows.series(&format!("{what}{}", name(design, load)));
        series.retain(|point: &(f64, f64)| point.0 >= load as f64);
        series
    };
    let growth = |points: &[(f64, f64)]| match (points.first(), points.last()) {
        (Some(first), Some(last)) => last.1 - first.1,
        _ => f64::NAN,
    };
    let changes = LOADS.map(|load| {
        let queued = series("wait ", DoorODmaq, load);
        queued
            .first()
            .map_or(f64::NAN, |first| growth(&queued) / first.1)
    });
    verdicts.add(
        "with hardware doorbells the wait until a message is noticed does not depend on the declared VIs",
        changes.iter().all(|change| change.abs() < 0.1),
        format!("it grows by {changes:.2?} of itself with {LOADS:?} active VIs"),
    );
    let grown = LOADS.map(|load| {
        let [wait, latency] = ["wait ", ""].map(|what| growth(&series(what, BaseODmaq, load)));
        part_of(wait, latency)
    });
    verdicts.add(
        "without them the latency grows with the declared VIs because of the wait (which grows by at least 70 % as much)",
        grown.iter().all(|part| *part >= COMES_FROM),
        format!("wait's growth by latency's {grown:.2?} with {LOADS:?} active VIs"),
    );
    let gains = |what: &str, load: usize| -> Vec<f64> {
        let polled = series(what, BaseODmaq, load);
        let queued = series(what, DoorODmaq, load);
        polled.iter().zip(queued).map(|(a, b)| a.1 - b.1).collect()
    };
    let parts = LOADS.map(|load| -> Vec<f64> {
        let pairs = gains("wait ", load).into_iter().zip(gains("", load));
        pairs
            .map(|(wait, latency)| part_of(wait, latency))
            .collect()
    });
    verdicts.add(
        "the gain in latency comes from the wait (which gains at least 70 % as much, however many VIs are declared)",
        parts
            .iter()
            .all(|parts| !parts.is_empty() && parts.iter().all(|part| *part >= COMES_FROM)),
        format!("wait's gain by latency's {parts:.2?} with {LOADS:?} active VIs"),
    );
}

fn judge_tailgating(rows: Rows<'_>, verdicts: &mut Verdicts) {
    *verdicts = judge_gains(rows, "");
    verdicts.add_alternative(
        DOORBELLS_LAST,
        &judge_gains(rows, &prefix_of(DOORBELLS_LAST)),
    );
}

fn judge_gains(rows: Rows<'_>, prefix: &str) -> Verdicts {
    let mut verdicts = Verdicts::default();
    let mut latency_gain = Vec::new();
    let mut wait_gain = Vec::new();
    for load in LOADS {
        let gain = |wait: &str| -> f64 {
            let of = |name: &str| rows.series(&format!("{wait}{prefix}{name} u{load}"));
            let gains: Vec<f64> = of("without")
                .iter()
                .zip(of("tailgating"))
                .filter(|(without, _)| without.0 >= load as f64)
                .map(|(without, tailgating)| without.1 - tailgating.1)
                .collect();
            gains.iter().sum::<f64>() / gains.len() as f64
        };
        latency_gain.push(gain(""));
        wait_gain.push(gain("wait "));
    }
    verdicts.add(
        "tailgating improves latencies",
        latency_gain.iter().all(|gain| *gain > 0.0),
        format!("mean gains {latency_gain:.1?} µs"),
    );
    verdicts.add(
        "the wait gains more than the latency",
        wait_gain.iter().sum::<f64>() > latency_gain.iter().sum(),
        format!("mean gains {wait_gain:.1?} against {latency_gain:.1?} µs"),
    );
    verdicts
}

fn judge_shadow(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let mut lower = true;
    let mut text = Vec::new();
    for load in LOADS {
        let (dma, shadow) = (
            rows.series(&format!("DMA u{load}")),
            rows.series(&format!("shadow u{load}")),
        );
        lower &= !dma.is_empty()
            && dma
                .iter()
                .zip(&shadow)
                .all(|(dma, shadow)| shadow.1 < dma.1);
        if let (Some(dma), Some(shadow)) = (dma.last(), shadow.last()) {
            text.push(format!("u{load}: {:.0} against {:.0}", shadow.1, dma.1));
        }
    }
    verdicts.add("shadow queues lower the latency", lower, text.join("; "));
}

fn judge_together(rows: Rows<'_>, verdicts: &mut Verdicts) {
    use Design::{Base, DoorODmaq2Cpu};
    let better = |load: usize, increasing: bool| {
        let best = rows.series(&name(DoorODmaq2Cpu, load));
        rows.series(&name(Base, load))
            .iter()
            .zip(best)
            .filter(|(base, _)| (base.0 < load as f64) == increasing)
            .all(|(base, best)| best.1 < base.1)
    };
    for (increasing, region) in [(true, "increasing"), (false, "constant")] {
        verdicts.add(
            &format!("all enhancements together are better where the load is {region}, for low and high loads"),
            better(12, increasing) && better(60, increasing),
            format!("{}; {}", show(rows, &[Base]), show(rows, &[DoorODmaq2Cpu])),
        );
    }
    let alone = DESIGNS.map(|design| {
        let series = rows.series(&Curve::one_channel(design, 0).series);
        series.first().map_or(f64::NAN, |point| point.1)
    });
    let told: Vec<String> = DESIGNS
        .iter()
        .zip(alone)
        .map(|(design, latency)| format!("{} {latency:.1}", design.name()))
        .collect();
    verdicts.add(
        "on one channel the simple design is the best of all (§7)",
        alone[1..].iter().all(|other| alone[0] < *other),
        format!("{} µs", told.join(", ")),
    );
}
