//! Figures 5.2 to 5.8.

use causeway_firmware::{DmaQueue, Settings};

use super::{
    About, Effort, FigureError, Row, Rows, Traced, Verdict, Verdicts, microseconds, prefix_of,
};
use crate::engine::{MICROSECOND, MILLISECOND};
use crate::profile::Profile;
use crate::workloads::Keep;
use crate::workloads::design::Design;
use crate::workloads::quality::{self, ChannelOutcome, Experiment, Flow, Shape};

const X: &str = "injected load in MB/s";
const THETA: &str = "jitter fraction θ; latency of best effort in µs";

const fn about(number: &'static str, title: &'static str) -> About {
    About {
        number,
        title,
        x: X,
        y: THETA,
    }
}

/// The figures.
pub const FIGURES: &[About] = &[
    about(
        "5.2",
        "1 sender, 3 receivers, classes of 1, 2 and 3 MB/s: θ",
    ),
    About {
        y: "messages with jitter in %",
        ..about("5.3", "1 sender, 3 receivers: messages with jitter")
    },
    about(
        "5.4",
        "1 sender, 4 receivers, classes of 2, 8 and 32 MB/s, best effort of 33 MB/s",
    ),
    about(
        "5.5",
        "4 senders, 1 receiver, classes of 2, 8 and 32 MB/s, best effort of 33 MB/s",
    ),
    about(
        "5.6",
        "2 nodes both ways, classes of 2, 8 and 32 MB/s, best effort of 33 MB/s",
    ),
    about(
        "5.7",
        "Video streams, classes of 0.95, 1.9 and 3.8 MB/s, best effort of 16.7 MB/s",
    ),
    About {
        y: "jitter fraction θ; latency of messages in µs",
        ..about(
            "5.8",
            "Hardware queue of the network send engine, 1 sender, 4 receivers",
        )
    },
];

const MB: u64 = 1_000_000;
/// Bytes of a message (§5.4.2.1).
const MESSAGE: u32 = 4_096;
/// Mean rate of an MPEG-1 stream: 20, 40 and 80 of them make the classes of fig. 5.7.
const STREAM: u64 = 47_500;

/// What a run assumes of things that the text leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assumption {
    /// What the figure assumes.
    Own,
    /// A card with a faster processor.
    Clock(u64),
    /// So many times larger pictures: fewer streams, each of a higher rate.
    Pictures(u32),
    /// Another choice of where in their periods channels begin.
    Begin(u64),
}

/// The card's clock in figures 5.4 to 5.7, to see on what they depend.
const FASTER: Assumption = Assumption::Clock(3);
/// The pictures of fig. 5.7, for the same.
const LARGER: Assumption = Assumption::Pictures(4);
/// How many other choices of channels' beginnings fig. 5.3 is run with.
const BEGINNINGS: u64 = 20;

impl Assumption {
    fn assumed(self) -> String {
        match self {
            Self::Own => String::new(),
            Self::Clock(times) => format!("the card's clock is {times} times as high"),
            Self::Pictures(times) => format!("pictures are {times} times as large"),
            Self::Begin(seed) => format!("channels begin elsewhere ({seed})"),
        }
    }

    /// What the series' names begin with.
    fn prefix(self) -> String {
        match self {
            Self::Own => String::new(),
            other => prefix_of(&other.assumed()),
        }
    }
}

/// One run: a program, and the channels of one load.
#[derive(Clone, Debug)]
pub struct Setting {
    figure: &'static str,
    program: Design,
    /// Added to the program's name in the series.
    suffix: &'static str,
    assumption: Assumption,
    settings: Settings,
    shape: Shape,
    channels: Vec<Flow>,
    /// Whose latency is a curve, besides θ.
    latency_of: LatencyOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LatencyOf {
    Nobody,
    BestEffort,
    Reserved,
}

/// How many channels of each class, for each load.
type Mixes = &'static [[usize; 3]];

/// With best effort of 33 MB/s: 41 to 145 MB/s.
const MIXES: Mixes = &[
    [4, 0, 0],
    [4, 1, 0],
    [4, 2, 0],
    [6, 2, 0],
    [8, 2, 0],
    [12, 2, 0],
    [4, 1, 1],
    [4, 2, 1],
    [8, 2, 1],
    [8, 3, 1],
    [4, 1, 2],
    [4, 2, 2],
    [8, 2, 2],
    [8, 3, 2],
    [4, 1, 3],
];
/// 57, 65, 97, 105, 129, 145 MB/s.
const FEW_MIXES: Mixes = &[
    [4, 2, 0],
    [8, 2, 0],
    [8, 2, 1],
    [8, 3, 1],
    [8, 2, 2],
    [4, 1, 3],
];
/// The same with 89 and 121 MB/s, where SVIA and PVIA saturate at a receiver.
const FEW_MIXES_IN: Mixes = &[
    [4, 2, 0],
    [8, 2, 0],
    [4, 2, 1],
    [8, 2, 1],
    [8, 3, 1],
    [4, 2, 2],
    [8, 2, 2],
    [4, 1, 3],
];

fn constant(classes: [u64; 3], counts: [usize; 3]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (rate, count) in classes.into_iter().zip(counts) {
        let flow = Flow::Constant {
            rate: rate * MB,
            message_bytes: MESSAGE,
        };
        flows.extend(std::iter::repeat_n(flow, count));
    }
    flows
}

fn best_effort(rate: u64) -> Flow {
    Flow::BestEffort {
        rate,
        message_bytes: MESSAGE,
    }
}

/// Video streams whose pictures are `times` as large as the thesis's, beside best effort.
fn video(counts: [usize; 3], times: u32) -> Vec<Flow> {
    let mut flows = Vec::new();
    for (streams, count) in [20, 40, 80].into_iter().zip(counts) {
        let flow = Flow::Video {
            streams: streams / times,
            stream_rate: STREAM * u64::from(times),
        };
        flows.extend(std::iter::repeat_n(flow, count));
    }
    flows.push(best_effort(16_700_000));
    flows
}

/// The classes of figures 5.4 to 5.6, beside best effort.
fn beside_best_effort(counts: [usize; 3]) -> Vec<Flow> {
    let mut flows = constant([2, 8, 32], counts);
    flows.push(best_effort(33 * MB));
    flows
}

const PROGRAMS: [Design; 3] = [Design::Svia, Design::Pvia, Design::QosVia];

/// The runs of a figure; none if it is not of this chapter.
pub(super) fn settings(figure: &'static str, effort: Effort) -> Vec<Setting> {
    let pick = |full: Mixes, few: Mixes| match effort {
        Effort::Full => full,
        Effort::Quick => few,
    };
    let loads: Vec<Vec<Flow>> = match figure {
        "5.2" | "5.3" => pick(
            &[[1; 3], [2; 3], [3; 3], [4; 3], [5; 3]],
            &[[1; 3], [3; 3], [5; 3]],
        )
        .iter()
        .map(|counts| constant([1, 2, 3], *counts))
        .collect(),
        "5.4" | "5.5" | "5.6" => pick(
            MIXES,
            if figure == "5.5" {
                FEW_MIXES_IN
            } else {
                FEW_MIXES
            },
        )
        .iter()
        .map(|counts| beside_best_effort(*counts))
        .collect(),
        "5.7" => pick(
            &[
                [4, 2, 1],
                [4, 4, 4],
                [4, 4, 8],
                [4, 4, 12],
                [4, 4, 16],
                [4, 4, 20],
                [4, 4, 24],
            ],
            &[[4, 2, 1], [4, 4, 12], [4, 4, 18], [4, 4, 24]],
        )
        .iter()
        .map(|counts| video(*counts, 1))
        .collect(),
        "5.8" => pick(
            &[
                [4, 1, 1],
                [4, 2, 1],
                [8, 2, 1],
                [4, 1, 2],
                [8, 2, 2],
                [8, 3, 2],
            ],
            &[[4, 1, 1], [4, 1, 2], [8, 2, 2]],
        )
        .iter()
        .map(|counts| constant([2, 8, 32], *counts))
        .collect(),
        _ => Vec::new(),
    };
    let shape = match figure {
        "5.2" | "5.3" => Shape::OneToMany(3),
        "5.5" => Shape::ManyToOne(4),
        "5.6" => Shape::BothWays,
        _ => Shape::OneToMany(4),
    };
    let mut programs: Vec<(Design, &'static str, Settings)> = PROGRAMS
        .map(|program| (program, "", program.roomy(16)))
        .to_vec();
    if figure == "5.8" {
        let queued = Settings {
            net_send: DmaQueue::Hardware(1_024),
            ..Design::QosVia.roomy(16)
        };
        programs = vec![
            (Design::QosVia, "", Design::QosVia.roomy(16)),
            (Design::QosVia, " w/HNS", queued),
        ];
    }
    let latency_of = match figure {
        "5.2" | "5.3" => LatencyOf::Nobody,
        "5.8" => LatencyOf::Reserved,
        _ => LatencyOf::BestEffort,
    };
    let own = loads
        .into_iter()
        .map(|channels| (Assumption::Own, channels));
    let mut all = Vec::new();
    for (assumption, channels) in own.chain(otherwise(figure)) {
        for (program, suffix, settings) in &programs {
            all.push(Setting {
                figure,
                program: *program,
                suffix,
                assumption,
                settings: settings.clone(),
                shape,
                channels: channels.clone(),
                latency_of,
            });
        }
    }
    all
}

/// What is run on other assumptions: as many loads as show which program carries the highest.
fn otherwise(figure: &str) -> Vec<(Assumption, Vec<Flow>)> {
    let mixes: Mixes = match figure {
        "5.4" | "5.5" => &[
            [4, 2, 0],
            [8, 2, 0],
            [4, 1, 1],
            [8, 2, 1],
            [8, 3, 1],
            [8, 2, 2],
            [4, 1, 3],
        ],
        "5.6" => &[[8, 2, 1], [4, 1, 3], [8, 3, 4], [8, 3, 5], [8, 3, 6]],
        "5.7" => &[[4, 4, 12], [4, 4, 24], [4, 4, 28], [4, 4, 30], [4, 4, 34]],
        _ => &[],
    };
    let mut all: Vec<(Assumption, Vec<Flow>)> = Vec::new();
    for counts in mixes {
        if figure == "5.7" {
            all.push((FASTER, video(*counts, 1)));
            let Assumption::Pictures(times) = LARGER else {
                continue;
            };
            all.push((LARGER, video(*counts, times)));
        } else {
            all.push((FASTER, beside_best_effort(*counts)));
        }
    }
    if figure == "5.3" {
        let begin = |seed| (Assumption::Begin(seed), constant([1, 2, 3], [5; 3]));
        all.extend((2..2 + BEGINNINGS).map(begin));
    }
    all
}

/// The load that a setting injects, in MB/s.
fn load(channels: &[Flow]) -> f64 {
    channels.iter().map(Flow::rate).sum::<u64>() as f64 / MB as f64
}

/// Runs a setting: θ of each class, and the latency that the figure shows.
pub(super) fn run(setting: &Setting, effort: Effort) -> Result<Vec<Row>, FigureError> {
    let experiment = experiment(setting, effort);
    let outcomes = quality::run(&profile(setting)?, &setting.settings, &experiment)?;
    Ok(rows_of(setting, &outcomes))
}

/// Runs one point, for a timeline.
pub(super) fn traced(setting: &Setting, effort: Effort) -> Result<Traced, FigureError> {
    let profile = profile(setting)?;
    let experiment = experiment(setting, effort);
    let (_, record) = quality::recorded(&profile, &setting.settings, &experiment, Keep::Slices)?;
    let prefix = setting.assumption.prefix();
    let (program, suffix) = (setting.program.name(), setting.suffix);
    Ok(Traced {
        of: format!(
            "{prefix}{program}{suffix}, {} MB/s",
            load(&setting.channels)
        ),
        record,
    })
}

fn profile(setting: &Setting) -> Result<Profile, FigureError> {
    let mut profile = Profile::shipped("qos")?;
    if let Assumption::Clock(times) = setting.assumption {
        profile.card.clock_hz *= times;
    }
    Ok(profile)
}

fn experiment(setting: &Setting, effort: Effort) -> Experiment {
    Experiment {
        shape: setting.shape,
        channels: setting.channels.clone(),
        trace: None,
        warm_up: 30 * MILLISECOND,
        measured: match (effort, setting.assumption) {
            (Effort::Full, Assumption::Own) => 400 * MILLISECOND,
            _ => 100 * MILLISECOND,
        },
        // What a program that reads a clock for each message can tell apart.
        resolution: 10 * MICROSECOND,
        seed: match setting.assumption {
            Assumption::Begin(seed) => seed,
            _ => 1,
        },
    }
}

fn rows_of(setting: &Setting, outcomes: &[ChannelOutcome]) -> Vec<Row> {
    let x = load(&setting.channels);
    let prefix = setting.assumption.prefix();
    let program = format!("{prefix}{}{}", setting.program.name(), setting.suffix);
    let mut classes: Vec<&Flow> = setting
        .channels
        .iter()
        .filter(|flow| !matches!(flow, Flow::BestEffort { .. }))
        .collect();
    classes.dedup();
    let mut rows = Vec::new();
    for class in classes {
        let members: Vec<&ChannelOutcome> = setting
            .channels
            .iter()
            .zip(outcomes)
            .filter(|(flow, _)| *flow == class)
            .map(|(_, outcome)| outcome)
            .collect();
        let value = match setting.figure {
            "5.3" => {
                let received: u64 = members.iter().map(|member| member.received).sum();
                let jittered: u64 = members.iter().map(|member| member.jittered).sum();
                100.0 * jittered as f64 / received.max(1) as f64
            }
            _ => {
                let sum: u64 = members.iter().map(|member| member.theta_millionths()).sum();
                sum as f64 / 1e6 / members.len() as f64
            }
        };
        rows.push(Row {
            series: format!("{program} {} MB/s", class.rate() as f64 / MB as f64),
            x,
            value,
        });
    }
    let reserved = setting
        .channels
        .iter()
        .zip(outcomes)
        .filter(|(flow, _)| !matches!(flow, Flow::BestEffort { .. }));
    let (mut injected, mut received) = (0, 0);
    for (_, outcome) in reserved {
        injected += outcome.injected;
        received += outcome.received;
    }
    rows.push(Row {
        series: format!("{program} unmet %"),
        x,
        value: 100.0 * injected.saturating_sub(received) as f64 / injected.max(1) as f64,
    });
    let measured: Vec<&ChannelOutcome> = setting
        .channels
        .iter()
        .zip(outcomes)
        .filter(|(flow, _)| {
            let best_effort = matches!(flow, Flow::BestEffort { .. });
            match setting.latency_of {
                LatencyOf::Nobody => false,
                LatencyOf::BestEffort => best_effort,
                LatencyOf::Reserved => !best_effort,
            }
        })
        .map(|(_, outcome)| outcome)
        .collect();
    if !measured.is_empty() {
        let latency: u64 = measured.iter().map(|outcome| outcome.latency).sum();
        let received: u64 = measured.iter().map(|outcome| outcome.received).sum();
        rows.push(Row {
            series: format!("{program} latency"),
            x,
            value: microseconds(latency / received.max(1)),
        });
    }
    rows
}

/// θ above which jitter counts as meaningful: a quarter of the interval. The figures' scale, on which it would be
/// seen, is not in the text.
const MEANINGFUL: f64 = 0.25;
/// Reserved messages that may be missing, in per cent, when demands count as met: some are always under way.
const MISSING: f64 = 2.0;

/// Latency of best effort from which on a program counts as saturated: ten times what it is at low loads, and growing.
const SATURATED_US: f64 = 3_000.0;

/// Whether a program meets the demands of all reserved channels at a load.
fn meets(rows: Rows<'_>, figure: &str, program: &str, load: f64) -> bool {
    worst(rows, figure, program, |x| x == load) < MEANINGFUL
        && rows.at(&format!("{program} unmet %"), load) < MISSING
}

/// The loads of a figure.
fn loads(rows: Rows<'_>, program: &str) -> Vec<f64> {
    let points = rows.series(&format!("{program} unmet %"));
    points.iter().map(|point| point.0).collect()
}

/// The highest load up to which a program meets all demands.
fn carries(rows: Rows<'_>, figure: &str, program: &str) -> f64 {
    loads(rows, program)
        .into_iter()
        .take_while(|load| meets(rows, figure, program, *load))
        .fold(0.0, f64::max)
}

/// The classes of a figure, as the series name them.
fn classes(figure: &str) -> [&'static str; 3] {
    match figure {
        "5.2" | "5.3" => ["1 MB/s", "2 MB/s", "3 MB/s"],
        "5.7" => ["0.95 MB/s", "1.9 MB/s", "3.8 MB/s"],
        _ => ["2 MB/s", "8 MB/s", "32 MB/s"],
    }
}

/// The largest value of any class of a program at the loads that `within` takes.
fn worst(rows: Rows<'_>, figure: &str, program: &str, within: impl Fn(f64) -> bool) -> f64 {
    values(rows, figure, program, within)
        .into_iter()
        .fold(f64::NAN, f64::max)
}

fn values(rows: Rows<'_>, figure: &str, program: &str, within: impl Fn(f64) -> bool) -> Vec<f64> {
    classes(figure)
        .iter()
        .flat_map(|class| rows.series(&format!("{program} {class}")))
        .filter(|point| within(point.0))
        .map(|point| point.1)
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Each program's worst value at each load, and what it does not deliver.
fn show(rows: Rows<'_>, figure: &str, programs: &[&str]) -> String {
    let line = |program: &&str| {
        let points: Vec<String> = loads(rows, program)
            .into_iter()
            .map(|load| {
                let worst = worst(rows, figure, program, |x| x == load);
                let unmet = rows.at(&format!("{program} unmet %"), load);
                format!("{load:.0}: {worst:.4} ({unmet:.1} %)")
            })
            .collect();
        format!("{}: {}", own_name(program), points.join(" "))
    };
    programs.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Holds the figure's rows against the text.
pub(super) fn judge(figure: &str, rows: Rows<'_>) -> Vec<Verdict> {
    let judged = |assumption: Assumption| {
        let names = NAMES.map(|name| format!("{}{name}", assumption.prefix()));
        judge_programs(figure, rows, names.each_ref().map(String::as_str))
    };
    let mut verdicts = judged(Assumption::Own);
    let assumptions: &[Assumption] = match figure {
        "5.4" | "5.5" | "5.6" => &[FASTER],
        "5.7" => &[FASTER, LARGER],
        _ => &[],
    };
    for assumption in assumptions {
        verdicts.otherwise(&assumption.assumed(), judged(*assumption));
    }
    if figure == "5.3" {
        verdicts.otherwise("channels begin elsewhere", judge_beginnings(rows));
    }
    verdicts.0
}

/// The same of the programs of one assumption, whose series begin with these names.
fn judge_programs(figure: &str, rows: Rows<'_>, names: [&str; 3]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    match figure {
        "5.2" => judge_low_loads(rows, &mut verdicts),
        "5.3" => judge_packets(rows, &mut verdicts),
        "5.4" => {
            judge_saturation(rows, names, &mut verdicts);
            judge_best_effort(figure, rows, names, &mut verdicts);
        }
        "5.5" | "5.6" => {
            judge_order(figure, rows, names, &mut verdicts);
            judge_best_effort(figure, rows, names, &mut verdicts);
        }
        "5.7" => judge_order(figure, rows, names, &mut verdicts),
        "5.8" => judge_hardware(rows, &mut verdicts),
        _ => {}
    }
    verdicts
}

const NAMES: [&str; 3] = ["SVIA", "PVIA", "QoSVIA"];

/// A program's own name, without the assumption.
fn own_name(program: &str) -> &str {
    program.rsplit(": ").next().unwrap_or(program)
}

fn judge_low_loads(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let all = |program| mean(&values(rows, "5.2", program, |_| true));
    let [svia, pvia, qosvia] = NAMES.map(all);
    let evidence = format!(
        "mean θ {svia:.5}, {pvia:.5}, {qosvia:.5}; {}",
        show(rows, "5.2", &NAMES)
    );
    verdicts.add(
        "at these loads θ is very low with every program",
        NAMES
            .iter()
            .all(|program| worst(rows, "5.2", program, |_| true) < MEANINGFUL),
        evidence.clone(),
    );
    verdicts.add(
        "SVIA has a slightly higher θ than the other two",
        svia > pvia && svia > qosvia,
        evidence.clone(),
    );
    verdicts.add(
        "between PVIA and QoSVIA there is hardly a difference",
        (pvia - qosvia).abs() < 0.01,
        evidence,
    );
}

fn judge_packets(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let at = |program, load: f64| mean(&values(rows, "5.3", program, |x| x >= load));
    let (pvia, qosvia) = (at("PVIA", 18.0), at("QoSVIA", 18.0));
    verdicts.add(
        FEWER,
        qosvia <= pvia,
        format!("from 18 MB/s on: PVIA {pvia:.1} %, QoSVIA {qosvia:.1} %"),
    );
}

const FEWER: &str = "fewer messages incur jitter with QoSVIA, especially at higher loads";

/// Figure 5.3's claim for the mean of many choices of where channels begin.
fn judge_beginnings(rows: Rows<'_>) -> Verdicts {
    let of = |seed: u64| {
        let prefix = Assumption::Begin(seed).prefix();
        ["PVIA", "QoSVIA"].map(|name| {
            let program = format!("{prefix}{name}");
            mean(&values(rows, "5.3", &program, |_| true))
        })
    };
    let shares: Vec<[f64; 2]> = (2..2 + BEGINNINGS).map(of).collect();
    let all = |place: usize| {
        let of_program: Vec<f64> = shares.iter().map(|shares| shares[place]).collect();
        let least = of_program.iter().copied().fold(f64::INFINITY, f64::min);
        let most = of_program.iter().copied().fold(0.0, f64::max);
        (mean(&of_program), least, most)
    };
    let (pvia, qosvia) = (all(0), all(1));
    let fewer = shares
        .iter()
        .filter(|shares| shares[1] <= shares[0])
        .count();
    let told = |(mean, least, most): (f64, f64, f64)| {
        format!("{mean:.1} % on average, {least:.1} to {most:.1} %")
    };
    let mut verdicts = Verdicts::default();
    verdicts.add(
        FEWER,
        qosvia.0 <= pvia.0,
        format!(
            "with {fewer} of {BEGINNINGS} choices at 30 MB/s; PVIA {}, QoSVIA {}",
            told(pvia),
            told(qosvia)
        ),
    );
    verdicts
}

fn judge_saturation(rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let evidence = show(rows, "5.4", &names);
    let met = |program: &str, within: fn(f64) -> bool| -> Vec<bool> {
        let mut loads = loads(rows, program);
        loads.retain(|load| within(*load));
        let met = loads.iter().map(|load| meets(rows, "5.4", program, *load));
        met.collect()
    };
    let all = |program: &str, within: fn(f64) -> bool, wanted: bool| {
        let met = met(program, within);
        !met.is_empty() && met.iter().all(|met| *met == wanted)
    };
    let [svia, pvia, qosvia] = names;
    verdicts.add(
        "below 60 MB/s there is little difference between the programs: all meet the demands",
        names.iter().all(|program| all(program, |x| x < 60.0, true)),
        evidence.clone(),
    );
    verdicts.add(
        "after 62 MB/s SVIA is not able to meet the demands",
        all(svia, |x| x > 62.0, false),
        evidence.clone(),
    );
    verdicts.add(
        "PVIA handles them until the load exceeds 100 MB/s, and no more up to where QoSVIA does",
        all(pvia, |x| x < 100.0, true) && met(pvia, |x| x <= 130.0).contains(&false),
        evidence.clone(),
    );
    verdicts.add(
        "with QoSVIA the load can be 130 MB/s before there is meaningful jitter",
        all(qosvia, |x| x <= 130.0, true),
        evidence,
    );
}

/// PVIA and QoSVIA are better than SVIA, and QoSVIA carries the highest load.
fn judge_order(figure: &str, rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let evidence = show(rows, figure, &names);
    let all = |program| mean(&values(rows, figure, program, |_| true));
    let [svia, pvia, qosvia] = names.map(all);
    verdicts.add(
        "PVIA and QoSVIA are better than SVIA",
        pvia < svia && qosvia < svia,
        format!("mean θ {svia:.3}, {pvia:.3}, {qosvia:.3}; {evidence}"),
    );
    let [svia, pvia, qosvia] = names.map(|program| carries(rows, figure, program));
    let evidence = format!("up to {svia:.0}, {pvia:.0}, {qosvia:.0} MB/s; {evidence}");
    verdicts.add(
        "SVIA sustains the lowest load before there is meaningful jitter",
        svia < pvia && svia < qosvia,
        evidence.clone(),
    );
    verdicts.add(SUSTAINS, qosvia > pvia, evidence);
}

/// What depends on the speed of the card's processor; see `docs/simulator.md`.
const SUSTAINS: &str = "QoSVIA sustains the highest load before there is meaningful jitter";

fn judge_best_effort(figure: &str, rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let series = |program: &str| rows.series(&format!("{program} latency"));
    let evidence = names
        .map(|program| {
            let points: Vec<String> = series(program)
                .iter()
                .map(|(x, value)| format!("{x:.0}: {value:.0}"))
                .collect();
            format!("{}: {}", own_name(program), points.join(" "))
        })
        .join("; ");
    let [svia, pvia, qosvia] = names.map(series);
    let saturated = |points: &[(f64, f64)]| {
        points
            .iter()
            .find(|point| point.1 > SATURATED_US)
            .map_or(f64::INFINITY, |point| point.0)
    };
    verdicts.add(
        "the latency of best effort is much worse with SVIA, which saturates first",
        saturated(&svia) < saturated(&pvia) && saturated(&svia) < saturated(&qosvia),
        evidence.clone(),
    );
    if figure == "5.4" {
        verdicts.add(
            "SVIA saturates when the load exceeds 60 MB/s",
            (60.0..=66.0).contains(&saturated(&svia)),
            evidence.clone(),
        );
    }
    let before = saturated(&pvia);
    let pairs: Vec<(f64, f64)> = pvia
        .iter()
        .zip(&qosvia)
        .filter(|(pvia, _)| pvia.0 < before)
        .map(|(pvia, qosvia)| (pvia.1, qosvia.1))
        .collect();
    verdicts.add(
        "PVIA gives best effort a lower latency than QoSVIA, which penalizes it",
        !pairs.is_empty() && pairs.iter().all(|(pvia, qosvia)| pvia < qosvia),
        evidence.clone(),
    );
    let light: Vec<(f64, f64)> = pvia
        .iter()
        .zip(&qosvia)
        .filter(|(pvia, _)| pvia.0 < before * 0.7)
        .map(|(pvia, qosvia)| (pvia.1, qosvia.1))
        .collect();
    verdicts.add(
        "the difference is slight (up to 70 % of the load that saturates PVIA)",
        !light.is_empty() && light.iter().all(|(pvia, qosvia)| *qosvia < pvia * 1.5),
        evidence,
    );
}

fn judge_hardware(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let (plain, queued) = (
        rows.series("QoSVIA latency"),
        rows.series("QoSVIA w/HNS latency"),
    );
    let evidence = format!(
        "latency {plain:.0?} and {queued:.0?}; θ {}",
        show(rows, "5.8", &["QoSVIA", "QoSVIA w/HNS"])
    );
    verdicts.add(
        "a hardware queue of the network send engine improves the latency of messages",
        !plain.is_empty()
            && plain
                .iter()
                .zip(&queued)
                .all(|(plain, queued)| queued.1 < plain.1),
        evidence.clone(),
    );
    let theta = |program| mean(&values(rows, "5.8", program, |_| true));
    verdicts.add(
        "it also reduces the jitter fraction",
        theta("QoSVIA w/HNS") < theta("QoSVIA"),
        evidence,
    );
}
