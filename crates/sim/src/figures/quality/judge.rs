//! The text's statements about figures 5.2 to 5.8, checked against their rows.

use super::super::common::{Rows, Verdict, Verdicts};
use super::assumption::{Assumption, BEGINNINGS, DEAR_QUEUE, FASTER, LARGER};

/// θ above which jitter counts as meaningful: a quarter of the interval. The figures' scale, which
/// would show it, is not in the text.
const MEANINGFUL: f64 = 0.25;
/// Reserved messages that may be missing, in per cent, when demands count as met: some are always under way.
const MISSING: f64 = 2.0;

/// Latency of best effort from which on a program counts as saturated: ten times that at low loads,
/// and growing.
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

/// The largest value of any class of a program at the loads that `within` accepts.
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

/// Each program's worst value at each load, and the load that it does not deliver.
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
pub(in crate::figures) fn judge(figure: &str, rows: Rows<'_>) -> Vec<Verdict> {
    let judged = |assumption: Assumption| {
        let names = NAMES.map(|name| format!("{}{name}", assumption.prefix()));
        judge_programs(figure, rows, names.each_ref().map(String::as_str))
    };
    let mut verdicts = judged(Assumption::Own);
    let assumptions: &[Assumption] = match figure {
        "5.4" | "5.5" | "5.6" => &[FASTER],
        "5.7" => &[FASTER, LARGER],
        "5.8" => &[DEAR_QUEUE],
        _ => &[],
    };
    for assumption in assumptions {
        let others = judged(*assumption);
        match figure {
            "5.8" => verdicts.compared(&assumption.assumed(), &others),
            _ => verdicts.add_alternative(&assumption.assumed(), &others),
        }
    }
    if figure == "5.3" {
        verdicts.add_alternative("channels begin elsewhere", &judge_beginnings(rows));
    }
    verdicts.0
}

/// The same for the programs of one assumption. Their series begin with these names.
fn judge_programs(figure: &str, rows: Rows<'_>, names: [&str; 3]) -> Verdicts {
    let mut verdicts = Verdicts::default();
    match figure {
        "5.2" => judge_low_loads(rows, &mut verdicts),
        "5.3" => judge_packets(rows, &mut verdicts),
        "5.4" => {
            judge_saturation(rows, names, &mut verdicts);
            judge_low(figure, rows, names, &mut verdicts);
            judge_classes(figure, rows, names, &mut verdicts);
            judge_fastest(figure, rows, names[0], &mut verdicts);
            judge_best_effort(figure, rows, names, &mut verdicts);
        }
        // Both "confirm our earlier observations" (§5.4.2.1), which are those of figure 5.4.
        "5.5" | "5.6" => {
            judge_order(figure, rows, names, &mut verdicts);
            judge_low(figure, rows, names, &mut verdicts);
            judge_classes(figure, rows, names, &mut verdicts);
            if figure == "5.6" {
                judge_fastest(figure, rows, names[0], &mut verdicts);
            }
            judge_best_effort(figure, rows, names, &mut verdicts);
        }
        "5.7" => judge_order(figure, rows, names, &mut verdicts),
        "5.8" => judge_hardware(rows, names[2], &mut verdicts),
        _ => {}
    }
    verdicts
}

const NAMES: [&str; 3] = ["SVIA", "PVIA", "QoSVIA"];

/// A program's own name, without the assumption.
fn own_name(program: &str) -> &str {
    program.rsplit(": ").next().unwrap_or(program)
}

/// θ below which it counts as "very low", as that of figure 5.2, whose scale "is much more amplified" than that of figure 5.4.
const VERY_LOW: f64 = MEANINGFUL / 25.0;
/// Differences of less than this part are "hardly noticeable"; one of a tenth is (§5.4.1.2).
const HARDLY: f64 = 0.05;

/// The figure shows the class of 2 MB/s.
fn judge_low_loads(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let [svia, pvia, qosvia] = NAMES.map(|program| theta(rows, program, "2 MB/s"));
    let evidence = format!(
        "mean θ of the class of 2 MB/s {svia:.5}, {pvia:.5}, {qosvia:.5}; the worst class {}",
        show(rows, "5.2", &NAMES)
    );
    verdicts.add(
        "at these loads θ is very low with every program (at most 1 % of the interval)",
        NAMES
            .iter()
            .all(|program| worst(rows, "5.2", program, |_| true) <= VERY_LOW),
        evidence.clone(),
    );
    verdicts.add(
        "SVIA has a slightly higher θ than the other two",
        svia > pvia && svia > qosvia,
        evidence.clone(),
    );
    verdicts.add(
        "SVIA's is around a tenth higher (5 to 20 % above the mean of the other two)",
        (1.05..=1.2).contains(&(svia / ((pvia + qosvia) / 2.0))),
        evidence.clone(),
    );
    verdicts.add(
        "QoSVIA is a little better than PVIA (by at most a tenth)",
        qosvia <= pvia && qosvia >= 0.9 * pvia,
        evidence.clone(),
    );
    verdicts.add(
        "between PVIA and QoSVIA there is hardly a difference (less than 5 % of θ)",
        (pvia - qosvia).abs() < HARDLY * pvia,
        evidence,
    );
}

fn judge_packets(rows: Rows<'_>, verdicts: &mut Verdicts) {
    let at = |program, load: f64| mean(&values(rows, "5.3", program, |x| x >= load));
    let (pvia, qosvia) = (at("PVIA", 18.0), at("QoSVIA", 18.0));
    verdicts.add(
        FEWER,
        qosvia < pvia,
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
    let fewer = shares.iter().filter(|shares| shares[1] < shares[0]).count();
    let describe = |(mean, least, most): (f64, f64, f64)| {
        format!("{mean:.1} % on average, {least:.1} to {most:.1} %")
    };
    let mut verdicts = Verdicts::default();
    verdicts.add(
        FEWER,
        qosvia.0 < pvia.0,
        format!(
            "with {fewer} of {BEGINNINGS} choices at 30 MB/s; PVIA {}, QoSVIA {}",
            describe(pvia),
            describe(qosvia)
        ),
    );
    verdicts
}

fn judge_saturation(rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let evidence = show(rows, "5.4", &names);
    let met_at = |program: &str, within: fn(f64) -> bool| demands_met(rows, "5.4", program, within);
    let all = |program: &str, within: fn(f64) -> bool, wanted: bool| {
        let all = met_at(program, within);
        !all.is_empty() && all.iter().all(|met| *met == wanted)
    };
    let [svia, pvia, qosvia] = names;
    verdicts.add(
        "after 62 MB/s SVIA is not able to meet the demands",
        all(svia, |x| x > 62.0, false),
        evidence.clone(),
    );
    verdicts.add(
        "PVIA handles them until the load exceeds 100 MB/s, and no more up to where QoSVIA does",
        all(pvia, |x| x < 100.0, true) && met_at(pvia, |x| x <= 130.0).contains(&false),
        evidence.clone(),
    );
    verdicts.add(
        "with QoSVIA the load can be 130 MB/s before there is meaningful jitter",
        all(qosvia, |x| x <= 130.0, true),
        evidence.clone(),
    );
    verdicts.add(
        "PVIA does not handle them any more when the load exceeds 110 MB/s",
        all(pvia, |x| x > 110.0, false),
        evidence,
    );
}

/// Whether a program meets the demands of all reserved channels, at each load that `within` accepts.
fn demands_met(rows: Rows<'_>, figure: &str, program: &str, within: fn(f64) -> bool) -> Vec<bool> {
    let mut loads = loads(rows, program);
    loads.retain(|load| within(*load));
    let met = loads.iter().map(|load| meets(rows, figure, program, *load));
    met.collect()
}

fn judge_low(figure: &str, rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let all_met = |program: &&str| {
        let met = demands_met(rows, figure, program, |load| load < 60.0);
        !met.is_empty() && !met.contains(&false)
    };
    verdicts.add(
        "below 60 MB/s there is little difference between the programs: all meet the demands",
        names.iter().all(all_met),
        show(rows, figure, &names),
    );
}

/// θ of one class of a program, over all loads.
fn theta(rows: Rows<'_>, program: &str, class: &str) -> f64 {
    let points = rows.series(&format!("{program} {class}"));
    mean(&points.iter().map(|point| point.1).collect::<Vec<_>>())
}

fn judge_classes(figure: &str, rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let each = classes(figure).map(|class| names.map(|program| theta(rows, program, class)));
    let evidence: Vec<String> = classes(figure)
        .iter()
        .zip(&each)
        .map(|(class, [svia, pvia, qosvia])| format!("{class}: {svia:.3}, {pvia:.3}, {qosvia:.3}"))
        .collect();
    verdicts.add(
        "QoSVIA reduces the jitter on each of the traffic classes compared to SVIA and PVIA",
        each.iter()
            .all(|[svia, pvia, qosvia]| qosvia < svia && qosvia < pvia),
        evidence.join("; "),
    );
}

/// Captions of figures 5.4 and 5.6: a line is not shown, as SVIA has saturated.
fn judge_fastest(figure: &str, rows: Rows<'_>, svia: &str, verdicts: &mut Verdicts) {
    let fastest = rows.series(&format!("{svia} {}", classes(figure)[2]));
    verdicts.add(
        "SVIA's 32 MB/s class has saturated at these loads (its θ is meaningful wherever it is)",
        !fastest.is_empty() && fastest.iter().all(|point| point.1 >= MEANINGFUL),
        format!("{fastest:.3?}"),
    );
}

/// PVIA and QoSVIA are much better than SVIA, and QoSVIA carries the highest load.
fn judge_order(figure: &str, rows: Rows<'_>, names: [&str; 3], verdicts: &mut Verdicts) {
    let evidence = show(rows, figure, &names);
    let all = |program| mean(&values(rows, figure, program, |_| true));
    let [svia, pvia, qosvia] = names.map(all);
    // §5.4.2.2: "as with CBR traffic".
    verdicts.add(
        "PVIA and QoSVIA are much better than SVIA (their θ is at most half of SVIA's)",
        pvia.max(qosvia) <= svia / 2.0,
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

/// The claim that depends on the speed of the card's processor; see `docs/simulator.md`.
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
        evidence.clone(),
    );
    verdicts.add(
        "the differences for best effort are not that significant (QoSVIA's latency is below twice PVIA's at all loads before that)",
        !pairs.is_empty() && pairs.iter().all(|(pvia, qosvia)| *qosvia < pvia * 2.0),
        evidence,
    );
}

fn judge_hardware(rows: Rows<'_>, program: &str, verdicts: &mut Verdicts) {
    let with_queue = format!("{program} w/HNS");
    let (plain, queued) = (
        rows.series(&format!("{program} latency")),
        rows.series(&format!("{with_queue} latency")),
    );
    let evidence = format!(
        "latency {plain:.0?} and {queued:.0?}; θ {}",
        show(rows, "5.8", &[program, &with_queue])
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
    let theta = |program: &str| mean(&values(rows, "5.8", program, |_| true));
    verdicts.add(
        "it also reduces the jitter fraction",
        theta(&with_queue) < theta(program),
        evidence,
    );
}
