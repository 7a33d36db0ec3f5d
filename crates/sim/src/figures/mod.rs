//! The thesis's figures and tables of chapters 2 to 6: what is run for each, and what its text claims.
//!
//! A figure is a list of independent [`Point`]s, which may be run in any order and in parallel; each gives rows. When all
//! rows are there, [`judge`] holds them against every ordering, crossing, knee and saturation that the text
//! states. Tables have printed values, which [`table`] sets beside the simulated ones.
//!
//! | part | figures |
//! |---|---|
//! | [`table`] | tables 5.1 and 5.2 |
//! | [`scaling`] | 4.4 to 4.19 |
//! | [`quality`] | 5.2 to 5.8 |
//! | [`substrates`] | 2.1 to 2.11 |
//! | [`endpoints`] | tables 3.1 and 3.2 |
//! | [`open`] | which claims do not hold, and why |
//! | [`coscheduling`] | tables 6.4 to 6.7, figures 6.2 to 6.4 |

pub mod coscheduling;
pub mod endpoints;
pub mod open;
pub mod quality;
pub mod scaling;
pub mod substrates;
pub mod table;

use crate::coscheduling::Stuck;
use crate::engine::{MICROSECOND, Time};
use crate::node::Record;
use crate::profile::FileError;
use crate::substrates::SimError;
use crate::workloads::RunError;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// The ends and the middle of each curve, few rounds: for tests.
    Quick,
    /// Every point of the thesis.
    Full,
}

/// One value of a curve.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which curve.
    pub series: String,
    /// Where on it.
    pub x: f64,
    /// The value, in the figure's unit.
    pub value: f64,
}

/// Something that the text says of a figure, and whether it is so here.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What the text says.
    pub claim: String,
    /// Whether it holds.
    pub holds: bool,
    /// The values that decided.
    pub evidence: String,
    /// What a claim that does not hold comes to on other assumptions about what the text leaves open.
    pub otherwise: Vec<Otherwise>,
}

/// A claim on another assumption.
#[derive(Clone, Debug, PartialEq)]
pub struct Otherwise {
    /// What is assumed: "posting takes 14 µs".
    pub assumed: String,
    /// Whether the claim then holds.
    pub holds: bool,
    /// The values that decided.
    pub evidence: String,
}

impl Verdict {
    /// The evidence, and how it depends on assumptions.
    pub fn told(&self) -> String {
        let mut told = self.evidence.clone();
        for Otherwise {
            assumed,
            holds,
            evidence,
        } in &self.otherwise
        {
            let so = match holds {
                true => "it holds",
                false => "it does not hold either",
            };
            told.push_str(&format!("; if {assumed}, {so} ({evidence})"));
        }
        told
    }
}

/// Rows of runs on other assumptions have series that begin with this word.
const IF: &str = "if ";

/// The beginning of such series' names.
fn prefix_of(assumed: &str) -> String {
    format!("{IF}{assumed}: ")
}

/// Whether a series belongs to another assumption than the figure's own: it decides no claim, and shows how one that does
/// not hold depends on what the text leaves open.
pub fn is_otherwise(series: &str) -> bool {
    series
        .strip_prefix("wait ")
        .unwrap_or(series)
        .starts_with(IF)
}

/// One independent run of a figure.
#[derive(Clone, Debug)]
pub struct Point {
    /// The figure's number.
    pub figure: &'static str,
    /// What is run.
    run: Run,
}

#[derive(Clone, Debug)]
enum Run {
    Scaling(Box<scaling::Curve>, usize, Effort),
    Quality(Box<quality::Setting>, Effort),
    Substrates(substrates::Setting),
    Coscheduling(coscheduling::Setting),
}

/// A run with what a timeline needs.
#[derive(Debug)]
pub struct Traced {
    /// What it is of.
    pub of: String,
    /// What was noted.
    pub record: Record,
}

/// A figure's number, what it shows, and its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its number.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The horizontal axis.
    pub x: &'static str,
    /// The vertical axis.
    pub y: &'static str,
}

/// Why a figure has no rows.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// There is no such figure.
    #[error("there is no figure {0}; there are {known}", known = numbers())]
    Unknown(String),
    /// Its profile could not be read.
    #[error(transparent)]
    Profile(#[from] FileError),
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A run of programs failed.
    #[error(transparent)]
    Programs(#[from] SimError),
    /// A run of jobs that share processors has no end.
    #[error(transparent)]
    Jobs(#[from] Stuck),
    /// There is no timeline of this figure or table.
    #[error("there are no timelines of {0}")]
    NoTimeline(&'static str),
}

fn numbers() -> String {
    let known: Vec<&str> = all().map(|about| about.number).collect();
    known.join(", ")
}

/// All figures, in order.
pub fn all() -> impl Iterator<Item = About> {
    let programs = substrates::FIGURES.iter();
    programs
        .chain(scaling::FIGURES)
        .chain(quality::FIGURES)
        .chain(coscheduling::FIGURES)
        .copied()
}

/// The runs of a figure.
pub fn points(number: &str, effort: Effort) -> Result<Vec<Point>, FigureError> {
    let about = all()
        .find(|about| about.number == number)
        .ok_or_else(|| FigureError::Unknown(number.to_owned()))?;
    let figure = about.number;
    let scaling = scaling::curves(figure).into_iter().flat_map(|curve| {
        scaling::nodes(&curve, effort)
            .into_iter()
            .map(move |nodes| Run::Scaling(Box::new(curve.clone()), nodes, effort))
    });
    let quality = quality::settings(figure, effort)
        .into_iter()
        .map(|setting| Run::Quality(Box::new(setting), effort));
    let substrates = substrates::settings(figure)
        .into_iter()
        .map(Run::Substrates);
    let jobs = coscheduling::settings(figure, effort)
        .into_iter()
        .map(Run::Coscheduling);
    Ok(scaling
        .chain(quality)
        .chain(substrates)
        .chain(jobs)
        .map(|run| Point { figure, run })
        .collect())
}

impl Point {
    /// Runs it.
    pub fn run(&self) -> Result<Vec<Row>, FigureError> {
        match &self.run {
            Run::Scaling(curve, nodes, effort) => scaling::run(curve, *nodes, *effort),
            Run::Quality(setting, effort) => quality::run(setting, *effort),
            Run::Substrates(setting) => substrates::run(*setting),
            Run::Coscheduling(setting) => coscheduling::run(*setting),
        }
    }
}

impl Point {
    /// Runs it once more and keeps what a timeline needs, which takes memory with each message.
    pub fn traced(&self) -> Result<Traced, FigureError> {
        match &self.run {
            Run::Scaling(curve, nodes, effort) => scaling::traced(curve, *nodes, *effort),
            Run::Quality(setting, effort) => quality::traced(setting, *effort),
            Run::Substrates(setting) => substrates::traced(*setting),
            Run::Coscheduling(_) => Err(FigureError::NoTimeline(self.figure)),
        }
    }
}

/// Runs a whole figure, one point after the other.
pub fn rows(number: &str, effort: Effort) -> Result<Vec<Row>, FigureError> {
    let mut rows = Vec::new();
    for point in points(number, effort)? {
        rows.extend(point.run()?);
    }
    Ok(rows)
}

/// Holds the rows of a figure against what the text says of it.
pub fn judge(number: &str, rows: &[Row]) -> Vec<Verdict> {
    let rows = Rows(rows);
    let mut verdicts = scaling::judge(number, rows);
    verdicts.extend(quality::judge(number, rows));
    verdicts.extend(substrates::judge(number, rows));
    verdicts.extend(coscheduling::judge_figure(number, rows));
    verdicts
}

/// A time in microseconds, for rows.
pub(crate) fn microseconds(time: Time) -> f64 {
    time as f64 / MICROSECOND as f64
}

/// Rows with what judging needs of them.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a>(&'a [Row]);

impl Rows<'_> {
    /// A series as pairs of x and value, in the order of x.
    fn series(&self, name: &str) -> Vec<(f64, f64)> {
        let mut found: Vec<(f64, f64)> = self
            .0
            .iter()
            .filter(|row| row.series == name)
            .map(|row| (row.x, row.value))
            .collect();
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        found
    }

    /// The value of a series at x; not a number if there is none, so that no claim holds of it.
    fn at(&self, name: &str, x: f64) -> f64 {
        self.0
            .iter()
            .find(|row| row.series == name && row.x == x)
            .map_or(f64::NAN, |row| row.value)
    }
}

/// Collects verdicts.
#[derive(Default)]
pub(crate) struct Verdicts(Vec<Verdict>);

impl Verdicts {
    fn add(&mut self, claim: &str, holds: bool, evidence: String) {
        self.0.push(Verdict {
            claim: claim.to_owned(),
            holds,
            evidence,
            otherwise: Vec::new(),
        });
    }

    /// Adds what the same claims come to on another assumption to those that do not hold.
    fn otherwise(&mut self, assumed: &str, others: Self) {
        let open = self.0.iter_mut().filter(|verdict| !verdict.holds);
        for verdict in open {
            let other = others.0.iter().find(|other| other.claim == verdict.claim);
            if let Some(other) = other {
                verdict.otherwise.push(Otherwise {
                    assumed: assumed.to_owned(),
                    holds: other.holds,
                    evidence: other.evidence.clone(),
                });
            }
        }
    }
}
