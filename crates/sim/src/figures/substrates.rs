//! Figures 2.1 to 2.11: messages, programs and network processors on four substrates.
//!
//! The text prints no values but §2.3's latencies; it states orders, crossings and knees.

use super::common::{About, FigureError, Row, Rows, Traced, Verdict, Verdicts};
use crate::am::port::Function;
use crate::engine::{Time, microseconds};
use crate::programs::is::IntegerSort;
use crate::programs::matmul::Matmul;
use crate::programs::ping::{BULK_BYTES, ITERATIONS, Ping};
use crate::scenario::{ProgramSetup, Runnable};
use crate::substrates::one_way::{self, SHORT_BYTES};
use crate::substrates::{
    Combination, Costs, Done, Outcome, Setup, SimError, run as simulate, timeline,
};
use crate::workloads::Keep;

use Combination::{C1Ni1, C1Ni2, C2Ni3, C3Ni3};

const fn about(number: &'static str, title: &'static str, x: &'static str) -> About {
    About {
        number,
        title,
        x,
        y: "µs",
    }
}

/// The figures of chapter 2.
pub(super) const FIGURES: &[About] = &[
    about("2.1", "One way of a short message, (C1,NI1)", "stage"),
    about("2.2", "One way of a short message, (C1,NI2)", "stage"),
    about("2.3", "Comparison between (C1,NI1) and (C1,NI2)", "bytes"),
    about("2.4", "One way of a short message, (C2,NI3)", "stage"),
    about(
        "2.5",
        "One way of a short message, (C3,NI3), on a TLB hit",
        "stage",
    ),
    about(
        "2.6",
        "Microbenchmarks",
        "substrate, from (C1,NI1) to (C3,NI3)",
    ),
    about("2.7a", "FFT, 64K points", "processes"),
    about("2.7b", "FFT, 4 processes", "points"),
    about(
        "2.8",
        "Matmul, 480x480",
        "workstations, each with as many processes",
    ),
    about("2.9", "IS", "processes"),
    about(
        "2.10",
        "Comparison of (C2,NI3) and (C3,NI3), host of 200 MHz",
        "network processor, MHz",
    ),
    about(
        "2.11",
        "Impact of the network processor's speed",
        "network processor's clock by the host's",
    ),
];

/// Sizes of figure 2.3.
const SIZES: [usize; 7] = [32, 256, 512, 1_024, 2_048, 3_072, 4_032];
/// Points of figure 2.7 (a).
const FFT_POINTS: usize = 1 << 16;
/// Points of figure 2.7 (b), about which the text states only that they grow, and not on how many
/// processes.
const FFT_GROWTH: [usize; 3] = [1 << 14, 1 << 16, 1 << 18];
const FFT_GROWTH_RANKS: u32 = 4;
/// Processes of figure 2.7 (a).
const FFT_RANKS: [u32; 3] = [4, 8, 16];
/// Rows of figure 2.8's matrices, and the sides of its squares of processes.
const MATMUL_SIZE: usize = 480;
const MATMUL_SIDES: [u32; 2] = [3, 4];
/// Processes of figure 2.9.
const SORT_RANKS: [u32; 2] = [4, 8];
/// The host's clock of figure 2.10 (§2.5), the network processor's, in MHz, and the iterations.
const CLOCK_HOST: u64 = 200;
const CLOCKS: [u64; 10] = [10, 20, 30, 40, 50, 67, 80, 100, 150, 200];
const CLOCK_ITERATIONS: [u64; 2] = [16, 256];
/// The hosts' clocks of figure 2.11 in MHz, which the text leaves open; its blocks and iterations (§2.5).
const KNEE_HOSTS: [u64; 4] = [50, 100, 150, 200];
const KNEE_BYTES: u64 = 32;
const KNEE_ITERATIONS: u64 = 16;
/// Points and processes of FFT there, of which the text has a sentence and no figure (§2.5), the host's clock in MHz, and the
/// places of the network processor's clocks: from an eighth of the host's to twice as much.
const KNEE_FFT_POINTS: usize = 1 << 14;
const KNEE_FFT_RANKS: u32 = 4;
const KNEE_FFT_HOST: u64 = 200;
const KNEE_FFT_FIRST: usize = EIGHTHS.len();
/// Clocks of figure 2.11: from a sixteenth of the host's to twice as much, in eighths of an octave, in thousandths of the
/// octave's beginning.
const EIGHTHS: [u64; 8] = [1_000, 1_091, 1_189, 1_297, 1_414, 1_542, 1_682, 1_834];
const KNEE_PLACES: usize = 41;

const MHZ: u64 = 1_000_000;

/// One run of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Setting {
    OneWay(Combination),
    RoundTrip(Combination, usize),
    Ping(Combination),
    Fft(Combination, usize, u32),
    Growth(Combination, usize),
    Matmul(Combination, u32),
    Sort(Combination, u32),
    Clock(Combination, u64, u64),
    Knee(Combination, u64, usize),
    KneeFft(Combination, usize),
}

/// All pairs.
fn each<A: Copy, B: Copy>(of: &[A], with: &[B], make: impl Fn(A, B) -> Setting) -> Vec<Setting> {
    let make = &make;
    of.iter()
        .flat_map(|&a| with.iter().map(move |&b| make(a, b)))
        .collect()
}

/// The runs of a figure; none for a figure of another chapter.
pub(super) fn settings(figure: &str) -> Vec<Setting> {
    let four = &Combination::FOUR;
    let user = [C2Ni3, C3Ni3];
    match figure {
        "2.1" => vec![Setting::OneWay(C1Ni1)],
        "2.2" => vec![Setting::OneWay(C1Ni2)],
        "2.3" => each(&[C1Ni1, C1Ni2], &SIZES, Setting::RoundTrip),
        "2.4" => vec![Setting::OneWay(C2Ni3)],
        "2.5" => vec![Setting::OneWay(C2Ni3), Setting::OneWay(C3Ni3)],
        "2.6" => four.map(Setting::Ping).to_vec(),
        "2.7a" => each(four, &FFT_RANKS, |one, ranks| {
            Setting::Fft(one, FFT_POINTS, ranks)
        }),
        "2.7b" => each(four, &FFT_GROWTH, Setting::Growth),
        "2.8" => each(four, &MATMUL_SIDES, Setting::Matmul),
        "2.9" => each(four, &SORT_RANKS, Setting::Sort),
        "2.10" => CLOCK_ITERATIONS
            .into_iter()
            .flat_map(|iterations| {
                user.into_iter()
                    .flat_map(move |one| CLOCKS.map(|clock| Setting::Clock(one, iterations, clock)))
            })
            .collect(),
        "2.11" => {
            let places: Vec<usize> = (0..KNEE_PLACES).collect();
            let pings = KNEE_HOSTS.into_iter().flat_map(|host| {
                each(&user, &places, |one, place| Setting::Knee(one, host, place))
            });
            let fft = each(&user, &places[KNEE_FFT_FIRST..], Setting::KneeFft);
            pings.chain(fft).collect()
        }
        _ => Vec::new(),
    }
}

fn row(series: impl Into<String>, x: f64, value: Time) -> Row {
    Row {
        series: series.into(),
        x,
        value: microseconds(value),
    }
}

/// There and back of a ping, on average over its iterations.
pub fn ping(costs: Costs, combination: Combination, ping: Ping) -> Result<Time, SimError> {
    let outcome = simulate(&Setup::new(combination, costs, 2), &ping)?;
    let ended = outcome.processes.first().map_or(0, |first| first.ended);
    Ok(ended / ping.iterations.max(1))
}

/// The costs with other clocks.
pub fn with_clocks(mut costs: Costs, host_hz: u64, np_hz: u64) -> Costs {
    costs.hardware.host_clock = host_hz;
    costs.hardware.np_clock = np_hz;
    costs
}

/// The network processor's clock at a place of figure 2.11, in thousandths of the host's.
fn knee_clock(place: usize) -> u64 {
    (EIGHTHS[place % EIGHTHS.len()] << (place / EIGHTHS.len())) / 16
}

/// The costs with the clocks of a place of figure 2.11, for a host's clock in MHz.
fn at_knee(costs: Costs, host: u64, place: usize) -> Costs {
    with_clocks(costs, host * MHZ, host * MHZ * knee_clock(place) / 1_000)
}

fn knee_x(place: usize) -> f64 {
    knee_clock(place) as f64 / 1_000.0
}

/// The processes' time: the mean of each account, and of all of them.
fn profile<R>(combination: Combination, x: f64, outcome: &Outcome<R>) -> Vec<Row> {
    let count = (outcome.processes.len() as u64).max(1);
    let mean =
        |time: &dyn Fn(&Done<R>) -> Time| outcome.processes.iter().map(time).sum::<Time>() / count;
    let name = combination.name();
    let total = mean(&|done| done.processor_time());
    let mut rows = vec![row(format!("{name} total"), x, total)];
    for function in Function::ALL {
        let time = mean(&|done| done.time_in(function));
        rows.push(row(format!("{name} {}", function.name()), x, time));
    }
    rows
}

/// Runs one point.
pub(super) fn run(setting: Setting) -> Result<Vec<Row>, FigureError> {
    let costs = Costs::psnow()?;
    Ok(match setting {
        Setting::OneWay(one) => one_way_rows(costs, one)?,
        Setting::RoundTrip(one, bytes) => {
            let time = one_way::round_trip(one, costs, bytes)?;
            vec![row(one.name(), bytes as f64, time)]
        }
        Setting::Ping(one) => {
            let place = Combination::FOUR.iter().position(|other| *other == one);
            let x = place.unwrap_or_default() as f64;
            let pong = ping(costs, one, Ping::pong(ITERATIONS))?;
            let bulk = ping(costs, one, Ping::bulk(ITERATIONS, BULK_BYTES))?;
            vec![row("Ping_Pong", x, pong), row("Ping_Bulk", x, bulk)]
        }
        Setting::Fft(one, _, x) | Setting::Matmul(one, x) | Setting::Sort(one, x) => {
            accounts(setting, costs, one, f64::from(x))?
        }
        Setting::Growth(one, points) => accounts(setting, costs, one, points as f64)?,
        Setting::Clock(one, iterations, clock) => {
            let costs = with_clocks(costs, CLOCK_HOST * MHZ, clock * MHZ);
            let time = ping(costs, one, Ping::pong(iterations))?;
            let series = format!("{} {iterations} iterations", one.name());
            vec![row(series, clock as f64, time)]
        }
        Setting::Knee(one, host, place) => {
            let bulk = Ping::bulk(KNEE_ITERATIONS, KNEE_BYTES);
            let time = ping(at_knee(costs, host, place), one, bulk)?;
            vec![row(knee_series(one, host), knee_x(place), time)]
        }
        Setting::KneeFft(one, place) => {
            let mut rows = accounts(setting, costs, one, knee_x(place))?;
            rows.retain(|row| row.series.ends_with(" total"));
            for row in &mut rows {
                row.series = knee_fft_series(one);
            }
            rows
        }
    })
}

/// The accounts of a program's time.
fn accounts(
    setting: Setting,
    costs: Costs,
    one: Combination,
    x: f64,
) -> Result<Vec<Row>, FigureError> {
    match work(setting, costs) {
        Work::Bare(..) => Ok(Vec::new()),
        Work::Program(work) => {
            let ProgramSetup { setup, program } = *work;
            Ok(profile(one, x, &program.run(&setup)?))
        }
    }
}

/// The work of a point.
enum Work {
    /// Messages of this many bytes, without Active Messages.
    Bare(Combination, usize),
    /// A program.
    Program(Box<ProgramSetup>),
}

/// The work of a point; if it has several programs, that of the first.
fn work(setting: Setting, costs: Costs) -> Work {
    let (setup, program) = match setting {
        Setting::OneWay(one) => return Work::Bare(one, SHORT_BYTES),
        Setting::RoundTrip(one, bytes) => return Work::Bare(one, bytes),
        Setting::Ping(one) => {
            let ping = Ping::pong(ITERATIONS);
            (Setup::new(one, costs, 2), Runnable::Ping(ping))
        }
        Setting::Fft(one, points, ranks) => (Setup::new(one, costs, ranks), Runnable::Fft(points)),
        Setting::Growth(one, points) => {
            let setup = Setup::new(one, costs, FFT_GROWTH_RANKS);
            (setup, Runnable::Fft(points))
        }
        Setting::Matmul(one, side) => {
            let setup = Setup {
                processes_per_host: side,
                ..Setup::new(one, costs, side * side)
            };
            (setup, Runnable::Matmul(Matmul { size: MATMUL_SIZE }))
        }
        Setting::Sort(one, ranks) => {
            let sort = Runnable::Sort(IntegerSort::SAMPLE);
            (Setup::new(one, costs, ranks), sort)
        }
        Setting::Clock(one, iterations, clock) => {
            let costs = with_clocks(costs, CLOCK_HOST * MHZ, clock * MHZ);
            let ping = Runnable::Ping(Ping::pong(iterations));
            (Setup::new(one, costs, 2), ping)
        }
        Setting::Knee(one, host, place) => {
            let ping = Runnable::Ping(Ping::bulk(KNEE_ITERATIONS, KNEE_BYTES));
            (Setup::new(one, at_knee(costs, host, place), 2), ping)
        }
        Setting::KneeFft(one, place) => {
            let costs = at_knee(costs, KNEE_FFT_HOST, place);
            let setup = Setup::new(one, costs, KNEE_FFT_RANKS);
            (setup, Runnable::Fft(KNEE_FFT_POINTS))
        }
    };
    Work::Program(Box::new(ProgramSetup { setup, program }))
}

/// Runs one point, for a timeline.
pub(super) fn traced(setting: Setting) -> Result<Traced, FigureError> {
    let costs = Costs::psnow()?;
    let record = match work(setting, costs) {
        Work::Bare(one, bytes) => timeline::record(&one_way::ways(one, costs, bytes)?, 1),
        Work::Program(program) => program.run(Keep::Slices)?.1,
    };
    Ok(Traced {
        of: format!("{setting:?}"),
        record,
    })
}

fn knee_series(one: Combination, host: u64) -> String {
    format!("{} host {host} MHz", one.name())
}

fn knee_fft_series(one: Combination) -> String {
    format!("{} FFT, host {KNEE_FFT_HOST} MHz", one.name())
}

/// A message's stages from left to right, then the sum.
fn one_way_rows(costs: Costs, one: Combination) -> Result<Vec<Row>, FigureError> {
    let way = one_way::warm(one, costs, SHORT_BYTES)?;
    let name = one.name();
    let mut rows: Vec<Row> = way
        .stages
        .iter()
        .enumerate()
        .map(|(place, (stage, time))| row(format!("{name} {stage}"), place as f64, *time))
        .collect();
    rows.push(row(format!("{name} total"), rows.len() as f64, way.total));
    if one == C3Ni3 {
        let miss = one_way::cold(one, costs, SHORT_BYTES)?;
        let disk = one_way::paged_out(one, costs, SHORT_BYTES)?;
        for (case, total) in [("on a miss", miss.total), ("from disk", disk.total)] {
            let place = rows.len() as f64;
            rows.push(row(format!("{name} total {case}"), place, total));
        }
    }
    Ok(rows)
}

/// Holds the rows of a figure against the text.
pub(super) fn judge(figure: &str, rows: Rows<'_>) -> Vec<Verdict> {
    let mut verdicts = Verdicts::default();
    match figure {
        "2.1" => judge_kernel(rows, C1Ni1, &mut verdicts),
        "2.2" => judge_kernel(rows, C1Ni2, &mut verdicts),
        "2.3" => judge_sizes(rows, &mut verdicts),
        "2.4" => judge_latency(rows, C2Ni3, 43.0, &mut verdicts),
        "2.5" => judge_virtual(rows, &mut verdicts),
        "2.6" => judge_pings(rows, &mut verdicts),
        "2.7a" => judge_fft(rows, &mut verdicts),
        "2.7b" => judge_growth(rows, &mut verdicts),
        "2.8" => judge_matmul(rows, &mut verdicts),
        "2.9" => judge_sort(rows, &mut verdicts),
        "2.10" => judge_clocks(rows, &mut verdicts),
        "2.11" => judge_knees(rows, &mut verdicts),
        _ => {}
    }
    verdicts.0
}

/// Whether `value` is within `part` of `of`.
fn is_within(value: f64, of: f64, part: f64) -> bool {
    (value - of).abs() <= of * part
}

/// A value that a figure has only once.
fn only(rows: Rows<'_>, series: &str) -> f64 {
    rows.series(series)
        .first()
        .map_or(f64::NAN, |point| point.1)
}

fn judge_latency(rows: Rows<'_>, one: Combination, micros: f64, verdicts: &mut Verdicts) {
    let total = only(rows, &format!("{} total", one.name()));
    verdicts.add(
        &format!("the one-way latency is around {micros} µs (within 15 %)"),
        is_within(total, micros, 0.15),
        format!("{total:.1} µs"),
    );
}

fn judge_kernel(rows: Rows<'_>, one: Combination, verdicts: &mut Verdicts) {
    judge_latency(rows, one, 450.0, verdicts);
    let of = |stage: &str| only(rows, &format!("{} {stage}", one.name()));
    let (wire, total) = (of("wire"), of("total"));
    verdicts.add(
        "only a small fraction is due to the transmission on the wire",
        wire < total / 20.0,
        format!("{wire:.1} of {total:.1} µs"),
    );
    let boundaries = of("send call") + of("receive: interrupt") + of("receive call");
    verdicts.add(
        "most of the cost is crossing protection boundaries (more than half of all)",
        boundaries > total / 2.0,
        format!("{boundaries:.0} of {total:.0} µs"),
    );
    let apart: f64 = [
        "send: buffers and copy",
        "send: checksum",
        "send: driver and ATM",
        "receive: driver and ATM",
        "receive: queue",
        "receive: dequeue",
        "receive: checksum",
    ]
    .map(of)
    .iter()
    .sum();
    let left = total - apart;
    verdicts.add(
        "most of the cost is that, apart from checksums, buffers, queues, driver and ATM (more than half of what is left)",
        boundaries > left / 2.0,
        format!("{boundaries:.0} of {left:.0} µs that are left of {total:.0}"),
    );
}

fn judge_virtual(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let [pinned, hit, miss, disk] = [
        "(C2,NI3) total",
        "(C3,NI3) total",
        "(C3,NI3) total on a miss",
        "(C3,NI3) total from disk",
    ]
    .map(|series| only(rows, series));
    verdicts.add(
        "on a hit, slightly higher than (C2,NI3), by the lookups",
        hit > pinned && is_within(hit, pinned, 0.15),
        format!("{hit:.1} and {pinned:.1} µs"),
    );
    verdicts.add(
        "on a miss, the interrupt dominates, and performance is as in the C1 substrates",
        is_within(miss, 450.0, 0.2) && miss > 2.0 * hit,
        format!("{miss:.1} µs"),
    );
    verdicts.add(
        "when the page must come from the disk, that overshadows the rest",
        disk > 10.0 * miss,
        format!("{disk:.0} and {miss:.1} µs"),
    );
}

fn judge_sizes(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let [ni1, ni2] = [C1Ni1, C1Ni2].map(|one| rows.series(one.name()));
    let gaps: Vec<f64> = ni1.iter().zip(&ni2).map(|(a, b)| a.1 - b.1).collect();
    let shortest = ni1.first().zip(ni2.first());
    verdicts.add(
        "for short messages programming the DMA costs as much as moving the data",
        shortest.is_some_and(|(a, b)| is_within(a.1, b.1, 0.03)),
        shortest.map_or_else(
            || "no values".into(),
            |(a, b)| format!("{:.1} and {:.1} µs for {} bytes", a.1, b.1, a.0),
        ),
    );
    verdicts.add(
        "the gap between (C1,NI1) and (C1,NI2) increases with the size, in favour of NI2",
        gaps.is_sorted() && gaps.last().is_some_and(|gap| *gap > 0.0),
        format!("{gaps:.1?} µs"),
    );
    for one in [C1Ni1, C1Ni2] {
        let [a, b, c] = [1_024.0, 2_048.0, 3_072.0].map(|size| rows.at(one.name(), size));
        verdicts.add(
            "latencies grow linearly with the size",
            is_within(c - b, b - a, 0.1),
            format!("{}: {a:.0}, {b:.0}, {c:.0} µs", one.name()),
        );
    }
}

fn judge_pings(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let of = |program: &str| [0.0, 1.0, 2.0, 3.0].map(|place| rows.at(program, place));
    let [ni1, ni2, c2, c3] = of("Ping_Pong");
    let evidence = format!("{:.1?} µs", of("Ping_Pong"));
    verdicts.add(
        "C1 performs poorly in Ping_Pong, because of crossing protection boundaries",
        10.0 * c2.max(c3) < ni1.min(ni2),
        evidence.clone(),
    );
    verdicts.add(
        "in Ping_Pong, programming the DMA makes NI2 poorer than NI1",
        ni1 < ni2,
        evidence.clone(),
    );
    verdicts.add(
        "in Ping_Pong, (C3,NI3) is close to (C2,NI3), as interrupts are amortized",
        c2 < c3 && is_within(c3, c2, 0.1),
        evidence,
    );
    let [ni1, ni2, c2, c3] = of("Ping_Bulk");
    let evidence = format!("{:.1?} µs", of("Ping_Bulk"));
    verdicts.add(
        "C1 performs poorly in Ping_Bulk",
        3.0 * c2.max(c3) < ni1.min(ni2),
        evidence.clone(),
    );
    verdicts.add(
        "in Ping_Bulk, NI2 is better than NI1",
        ni2 < ni1,
        evidence.clone(),
    );
    verdicts.add(
        "in Ping_Bulk, (C3,NI3) is close to (C2,NI3)",
        is_within(c3, c2, 0.15),
        evidence,
    );
}

/// An account of each combination at x.
fn four(rows: Rows<'_>, account: &str, x: f64) -> [f64; 4] {
    Combination::FOUR.map(|one| rows.at(&format!("{} {account}", one.name()), x))
}

fn judge_fft(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let ranks = FFT_RANKS.map(f64::from);
    for one in Combination::FOUR {
        let of = |account: &str| ranks.map(|x| rows.at(&format!("{} {account}", one.name()), x));
        let (total, compute, poll) = (of("total"), of("compute"), of("am_poll"));
        let name = one.name();
        verdicts.add(
            "the execution time goes down with more processes, and so does the computation",
            total.is_sorted_by(|a, b| a > b) && compute.is_sorted_by(|a, b| a > b),
            format!("{name}: {total:.0?}, of which {compute:.0?} µs"),
        );
        let calls = [0, 1, 2].map(|i| total[i] - compute[i]);
        let share = [0, 1, 2].map(|i| calls[i] / total[i]);
        let all = [0, 1, 2].map(|i| calls[i] * ranks[i]);
        verdicts.add(
            "the AM calls take more and more: of each process's time, and of all processes together",
            share.is_sorted_by(|a, b| a < b) && all.is_sorted_by(|a, b| a < b),
            format!("{name}: shares {share:.2?}, together {all:.0?} µs"),
        );
        verdicts.add(
            "of the AM calls, am_poll takes most and overshadows the others",
            (0..3).all(|i| poll[i] > 0.8 * calls[i]),
            format!("{name}: {poll:.0?} of {calls:.0?} µs"),
        );
    }
    for x in ranks {
        let [ni1, ni2, c2, c3] = four(rows, "total", x);
        let evidence = format!("{x} processes: {ni1:.0}, {ni2:.0}, {c2:.0}, {c3:.0} µs");
        verdicts.add(
            "no significant difference between (C1,NI1) and (C1,NI2)",
            is_within(ni1, ni2, 0.05),
            evidence.clone(),
        );
        verdicts.add(
            "(C2,NI3) and (C3,NI3) do better than these",
            c2.max(c3) < ni1.min(ni2),
            evidence.clone(),
        );
        verdicts.add(
            "(C2,NI3) does marginally better than (C3,NI3)",
            c2 < c3 && is_within(c3, c2, 0.12),
            evidence,
        );
    }
    let gap = ranks.map(|x| {
        let [_, _, c2, c3] = four(rows, "total", x);
        c3 / c2 - 1.0
    });
    verdicts.add(
        "that difference is more apparent with more nodes",
        gap[0] < gap[1] && gap[0] < gap[2],
        format!("{gap:.3?}"),
    );
}

fn judge_growth(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let gaps =
        |of: fn([f64; 4]) -> f64| FFT_GROWTH.map(|points| of(four(rows, "total", points as f64)));
    let grow = |gaps: [f64; 3]| gaps.is_sorted_by(|a, b| a < b) && gaps[2] > 0.0;
    let kernel = gaps(|[ni1, ni2, _, _]| ni1 - ni2);
    verdicts.add(
        "the advantage of the DMA becomes more apparent when the problem grows",
        grow(kernel),
        format!("(C1,NI1) less (C1,NI2): {kernel:.0?} µs"),
    );
    let user = gaps(|[_, _, c2, c3]| c3 - c2);
    verdicts.add(
        "so does that of (C2,NI3) over (C3,NI3)",
        grow(user) && user[0] > 0.0,
        format!("(C3,NI3) less (C2,NI3): {user:.0?} µs"),
    );
}

fn judge_matmul(rows: Rows<'_>, verdicts: &mut Verdicts) {
    for x in MATMUL_SIDES.map(f64::from) {
        let total = four(rows, "total", x);
        let compute = four(rows, "compute", x);
        let store = four(rows, "am_store", x);
        let evidence = format!("{x} x {x}: {total:.0?} µs");
        let added = [0, 1, 2, 3].map(|i| total[i] - compute[i]);
        verdicts.add(
            "(C1,NI1) and (C1,NI2) perform much worse: communication adds far more",
            added[0].min(added[1]) > 1.8 * added[2].max(added[3]),
            format!("{x} x {x}: {added:.0?} µs"),
        );
        verdicts.add(
            "(C1,NI2) does slightly better than (C1,NI1)",
            total[1] < total[0] && is_within(total[1], total[0], 0.1),
            evidence.clone(),
        );
        verdicts.add(
            "(C3,NI3) does better than (C2,NI3)",
            total[3] < total[2],
            evidence,
        );
        verdicts.add(
            "because the host does not copy what it sends",
            store[3] < store[2] / 2.0,
            format!("{x} x {x}: am_store {store:.0?} µs"),
        );
    }
    let [small, large] = MATMUL_SIDES.map(|side| {
        let x = f64::from(side);
        (four(rows, "compute", x), four(rows, "total", x))
    });
    let holds = (0..4).all(|i| {
        let falls = large.0[i] < small.0[i];
        falls && large.1[i] / large.0[i] > small.1[i] / small.0[i]
    });
    verdicts.add(
        "from 3 x 3 to 4 x 4 the computation goes down, and overheads weigh more",
        holds,
        format!("compute {:.0?} and {:.0?} µs", small.0, large.0),
    );
}

fn judge_sort(rows: Rows<'_>, verdicts: &mut Verdicts) {
    for x in SORT_RANKS.map(f64::from) {
        let [_, _, c2, c3] = four(rows, "total", x);
        verdicts.add(
            "(C2,NI3) does better than (C3,NI3), whose misses are not amortized",
            c2 < c3,
            format!("{x} processes: {c2:.0} and {c3:.0} µs"),
        );
        let [_, _, c2, c3] = four(rows, "compute", x);
        verdicts.add(
            "(C2,NI3)'s computation takes no longer than (C3,NI3)'s",
            c2 <= c3,
            format!("{x} processes: {c2:.0} and {c3:.0} µs"),
        );
    }
}

fn judge_clocks(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let gaps = |iterations: u64| {
        CLOCKS.map(|clock| {
            let of = |one: Combination| {
                let series = format!("{} {iterations} iterations", one.name());
                rows.at(&series, clock as f64)
            };
            (clock, of(C3Ni3) / of(C2Ni3) - 1.0)
        })
    };
    let few = gaps(16);
    verdicts.add(
        "with 16 iterations there is always a gap, however fast the network processor",
        few.iter().all(|(_, gap)| *gap > 0.2),
        format!("{few:.2?}"),
    );
    let many = gaps(256);
    verdicts.add(
        "with 256 iterations the two are comparable (within 6 %) from a third of the host's clock on, and not below",
        many.iter()
            .all(|(clock, gap)| *gap > 0.0 && (*gap <= 0.06) == (3 * clock >= CLOCK_HOST)),
        format!("{many:.3?}"),
    );
}

/// The least gain in the round trip that makes doubling the network processor's clock worthwhile:
/// below it, returns diminish. The text draws the knee and does not define it.
const KNEE_GAIN: f64 = 0.05;

/// The slowest clock from which on doubling gains less than [`KNEE_GAIN`]; that of the first point, if it never gains more.
fn knee(points: &[(f64, f64)]) -> f64 {
    let octave = EIGHTHS.len();
    let gains: Vec<(f64, f64)> = points
        .iter()
        .zip(points.iter().skip(octave))
        .map(|(slow, fast)| (slow.0, 1.0 - fast.1 / slow.1))
        .collect();
    let last = gains.iter().rposition(|(_, gain)| *gain >= KNEE_GAIN);
    let knee = gains.get(last.map_or(0, |last| last + 1));
    knee.map_or(f64::NAN, |(clock, _)| *clock)
}

fn judge_knees(rows: Rows<'_>, verdicts: &mut Verdicts) {
    for (one, where_, range) in [
        (C2Ni3, "one third", 0.25..=0.45),
        (C3Ni3, "half", 0.4..=0.6),
    ] {
        let curves = KNEE_HOSTS.map(|host| rows.series(&knee_series(one, host)));
        let falls = |points: &Vec<(f64, f64)>| points.is_sorted_by(|a, b| a.1 >= b.1);
        verdicts.add(
            &format!(
                "{}: latency improves uniformly with a faster network processor",
                one.name()
            ),
            curves
                .iter()
                .all(|points| points.len() == KNEE_PLACES && falls(points)),
            format!("{} clocks of {} hosts", KNEE_PLACES, KNEE_HOSTS.len()),
        );
        let knees = curves.map(|points| knee(&points));
        verdicts.add(
            &format!(
                "{}: the knee is around {where_} of the host's clock",
                one.name()
            ),
            knees.iter().all(|knee| range.contains(knee)),
            format!("hosts of {KNEE_HOSTS:?} MHz: {knees:.2?}"),
        );
    }
    let fft = [C2Ni3, C3Ni3].map(|one| rows.series(&knee_fft_series(one)));
    let knees = fft.each_ref().map(|points| knee(points));
    let times = fft.each_ref().map(|points| {
        let of_octaves = points.iter().step_by(EIGHTHS.len());
        let of_octaves: Vec<String> = of_octaves.map(|(_, time)| format!("{time:.0}")).collect();
        of_octaves.join(", ")
    });
    verdicts.add(
        "FFT tends to confirm that the network processor should be at least half as fast as the host (its knee is there)",
        knees.iter().all(|knee| (0.4..=0.6).contains(knee)),
        format!(
            "{knees:.2?}; with an eighth of the host's clock to twice as much {} µs",
            times.join(" and ")
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{all, judge};

    #[test]
    fn each_figure_has_runs_and_claims() {
        let mine: Vec<_> = all()
            .filter(|about| about.number.starts_with("2."))
            .collect();
        assert_eq!(mine.len(), FIGURES.len());
        for about in mine {
            assert!(!settings(about.number).is_empty(), "{}", about.number);
            // Rows that are not there make no claim true.
            let verdicts = judge(about.number, &[]);
            assert!(!verdicts.is_empty(), "{}", about.number);
            assert!(
                verdicts.iter().all(|verdict| !verdict.holds),
                "{verdicts:?}"
            );
        }
        assert!(settings("4.4").is_empty());
    }
}
