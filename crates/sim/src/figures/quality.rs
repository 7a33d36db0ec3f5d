//! Figures 5.2 to 5.8.

mod assumption;
mod judge;

pub(super) use judge::judge;

use causeway_firmware::{DmaQueue, Settings, Step};

use self::assumption::{Assumption, BEGINNINGS, DEAR_QUEUE, FASTER, LARGER};
use super::common::{About, Effort, FigureError, Row, Traced};
use crate::engine::{MICROSECOND, MILLISECOND, microseconds};
use crate::profile::{Profile, StepCosts};
use crate::workloads::Keep;
use crate::workloads::design::Design;
use crate::workloads::ping::DATA_OFFSET;
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
    /// The channels of which the latency is a curve, besides θ.
    latency_of: LatencyOf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LatencyOf {
    None,
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

/// Channels of 20, 40 and 80 video streams.
const VIDEO_MIXES: Mixes = &[
    [4, 2, 1],
    [4, 4, 4],
    [4, 4, 8],
    [4, 4, 12],
    [4, 4, 16],
    [4, 4, 20],
    [4, 4, 24],
];
const FEW_VIDEO_MIXES: Mixes = &[[4, 2, 1], [4, 4, 12], [4, 4, 18], [4, 4, 24]];
/// Channels with and without the network engine's queue.
const QUEUED_MIXES: Mixes = &[
    [4, 1, 1],
    [4, 2, 1],
    [8, 2, 1],
    [4, 1, 2],
    [8, 2, 2],
    [8, 3, 2],
];
const FEW_QUEUED_MIXES: Mixes = &[[4, 1, 1], [4, 1, 2], [8, 2, 2]];

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

/// Channels of this many classes, equally many of each, alternating: each receiver then has the
/// channels of one class (§5.4.1.2).
fn in_turn(channels: &[Flow], classes: usize) -> Vec<Flow> {
    let each = channels.len() / classes;
    let place = |number: usize| (number % classes) * each + number / classes;
    (0..channels.len())
        .map(|number| channels[place(number)].clone())
        .collect()
}

fn best_effort(rate: u64) -> Flow {
    Flow::BestEffort {
        rate,
        message_bytes: MESSAGE,
    }
}

/// Video streams whose pictures are `times` as large as the thesis's, in addition to best effort.
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

/// The classes of figures 5.4 to 5.6, in addition to best effort.
fn beside_best_effort(counts: [usize; 3]) -> Vec<Flow> {
    let mut flows = constant([2, 8, 32], counts);
    flows.push(best_effort(33 * MB));
    flows
}

const PROGRAMS: [Design; 3] = [Design::Svia, Design::Pvia, Design::QosVia];

/// The channels of each of a figure's loads; none if it is not of this chapter.
fn loads(figure: &str, effort: Effort) -> Vec<Vec<Flow>> {
    let pick = |full: Mixes, few: Mixes| match effort {
        Effort::Full => full,
        Effort::Quick => few,
    };
    let make = |mixes: Mixes, make: fn([usize; 3]) -> Vec<Flow>| {
        mixes.iter().map(|counts| make(*counts)).collect()
    };
    match figure {
        "5.2" | "5.3" => make(
            pick(
                &[[1; 3], [2; 3], [3; 3], [4; 3], [5; 3]],
                &[[1; 3], [3; 3], [5; 3]],
            ),
            |counts| in_turn(&constant([1, 2, 3], counts), 3),
        ),
        "5.5" => make(pick(MIXES, FEW_MIXES_IN), beside_best_effort),
        "5.4" | "5.6" => make(pick(MIXES, FEW_MIXES), beside_best_effort),
        "5.7" => make(pick(VIDEO_MIXES, FEW_VIDEO_MIXES), |counts| {
            video(counts, 1)
        }),
        "5.8" => make(pick(QUEUED_MIXES, FEW_QUEUED_MIXES), |counts| {
            constant([2, 8, 32], counts)
        }),
        _ => Vec::new(),
    }
}

/// The runs of a figure; none if it is not of this chapter.
pub(super) fn settings(figure: &'static str, effort: Effort) -> Vec<Setting> {
    let shape = match figure {
        "5.2" | "5.3" => Shape::OneToMany(3),
        "5.5" => Shape::ManyToOne(4),
        "5.6" => Shape::BothWays,
        _ => Shape::OneToMany(4),
    };
    let programs: Vec<(Design, &'static str, Settings)> = match figure {
        "5.8" => {
            let queued = Settings {
                net_send: DmaQueue::Hardware(1_024),
                ..Design::QosVia.roomy(16)
            };
            vec![
                (Design::QosVia, "", Design::QosVia.roomy(16)),
                (Design::QosVia, " w/HNS", queued),
            ]
        }
        _ => PROGRAMS
            .map(|program| (program, "", program.roomy(16)))
            .to_vec(),
    };
    let latency_of = match figure {
        "5.2" | "5.3" => LatencyOf::None,
        "5.8" => LatencyOf::Reserved,
        _ => LatencyOf::BestEffort,
    };
    let own = loads(figure, effort).into_iter();
    let own = own.map(|channels| (Assumption::Own, channels));
    let mut all = Vec::new();
    for (assumption, channels) in own.chain(alternatives(figure)) {
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

/// The runs on other assumptions: as many loads as are needed to see which program carries the
/// highest.
fn alternatives(figure: &str) -> Vec<(Assumption, Vec<Flow>)> {
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
    if figure == "5.8" {
        let load = |counts: &[usize; 3]| (DEAR_QUEUE, constant([2, 8, 32], *counts));
        all.extend(FEW_QUEUED_MIXES.iter().map(load));
    }
    if figure == "5.3" {
        let begin = |seed| {
            (
                Assumption::Begin(seed),
                in_turn(&constant([1, 2, 3], [5; 3]), 3),
            )
        };
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
    match setting.assumption {
        Assumption::Clock(times) => profile.card.clock_hz *= times,
        Assumption::QueueStep(cycles) => {
            let steps = profile.card.steps;
            profile.card.steps = StepCosts::new(|step| match step {
                Step::EnqueueNetHardware => cycles,
                other => steps.cycles(other),
            });
        }
        Assumption::Own | Assumption::Pictures(_) | Assumption::Begin(_) => {}
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
        // The differences that a program can distinguish which reads a clock for each message.
        resolution: 10 * MICROSECOND,
        admission: false,
        data_offset: match setting.figure {
            // One piece each, as each of the receivers has one class: the experiment of §5.4.1.2.
            "5.2" | "5.3" => 0,
            _ => DATA_OFFSET,
        },
        seed: match setting.assumption {
            Assumption::Begin(seed) => seed,
            _ => 1,
        },
    }
}

fn is_best_effort(flow: &Flow) -> bool {
    matches!(flow, Flow::BestEffort { .. })
}

fn rows_of(setting: &Setting, outcomes: &[ChannelOutcome]) -> Vec<Row> {
    let prefix = setting.assumption.prefix();
    let program = format!("{prefix}{}{}", setting.program.name(), setting.suffix);
    let x = load(&setting.channels);
    let row = |what: String, value: f64| Row {
        series: format!("{program} {what}"),
        x,
        value,
    };
    let outcomes_of = |wanted: &dyn Fn(&Flow) -> bool| -> Vec<&ChannelOutcome> {
        let all = setting.channels.iter().zip(outcomes);
        let wanted = all.filter(|(flow, _)| wanted(flow));
        wanted.map(|(_, outcome)| outcome).collect()
    };
    let mut classes: Vec<&Flow> = Vec::new();
    for flow in &setting.channels {
        if !is_best_effort(flow) && !classes.contains(&flow) {
            classes.push(flow);
        }
    }
    let mut rows = Vec::new();
    for class in classes {
        let members = outcomes_of(&|flow| flow == class);
        let sum = |of: fn(&ChannelOutcome) -> u64| members.iter().map(|one| of(one)).sum::<u64>();
        let value = match setting.figure {
            "5.3" => 100.0 * sum(|one| one.jittered) as f64 / sum(|one| one.received).max(1) as f64,
            _ => sum(ChannelOutcome::theta_millionths) as f64 / 1e6 / members.len() as f64,
        };
        let rate = class.rate() as f64 / MB as f64;
        rows.push(row(format!("{rate} MB/s"), value));
    }
    let reserved = outcomes_of(&|flow| !is_best_effort(flow));
    let injected: u64 = reserved.iter().map(|outcome| outcome.injected).sum();
    let received: u64 = reserved.iter().map(|outcome| outcome.received).sum();
    let unmet = 100.0 * injected.saturating_sub(received) as f64 / injected.max(1) as f64;
    rows.push(row("unmet %".to_owned(), unmet));
    let measured = outcomes_of(&|flow| match setting.latency_of {
        LatencyOf::None => false,
        LatencyOf::BestEffort => is_best_effort(flow),
        LatencyOf::Reserved => !is_best_effort(flow),
    });
    if !measured.is_empty() {
        let latency: u64 = measured.iter().map(|outcome| outcome.latency).sum();
        let received: u64 = measured.iter().map(|outcome| outcome.received).sum();
        let mean = microseconds(latency / received.max(1));
        rows.push(row("latency".to_owned(), mean));
    }
    rows
}
