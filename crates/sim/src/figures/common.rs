//! What all figures are made of: rows, what the text says of them, and whether it is so.

use crate::coscheduling::Stuck;
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
    /// What the claim comes to on other assumptions about what the text leaves open.
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
            let so = match (self.holds, holds) {
                (true, true) => "it holds, too",
                (false, true) => "it holds",
                (true, false) => "it does not hold",
                (false, false) => "it does not hold either",
            };
            told.push_str(&format!("; if {assumed}, {so} ({evidence})"));
        }
        told
    }
}

/// Rows of runs on other assumptions have series that begin with this word.
const IF: &str = "if ";

/// The beginning of such series' names.
pub(super) fn prefix_of(assumed: &str) -> String {
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
    #[error("{0}")]
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

/// Rows with what judging needs of them.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a>(pub(super) &'a [Row]);

impl Rows<'_> {
    /// A series as pairs of x and value, in the order of x.
    pub(super) fn series(&self, name: &str) -> Vec<(f64, f64)> {
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
    pub(super) fn at(&self, name: &str, x: f64) -> f64 {
        self.0
            .iter()
            .find(|row| row.series == name && row.x == x)
            .map_or(f64::NAN, |row| row.value)
    }
}

/// Collects verdicts.
#[derive(Default)]
pub(crate) struct Verdicts(pub(super) Vec<Verdict>);

impl Verdicts {
    pub(super) fn add(&mut self, claim: &str, holds: bool, evidence: String) {
        self.0.push(Verdict {
            claim: claim.to_owned(),
            holds,
            evidence,
            otherwise: Vec::new(),
        });
    }

    /// Adds what the same claims come to on another assumption to those that do not hold.
    pub(super) fn otherwise(&mut self, assumed: &str, others: &Self) {
        self.attach(assumed, others, |verdict| !verdict.holds);
    }

    /// The same to all.
    pub(super) fn compared(&mut self, assumed: &str, others: &Self) {
        self.attach(assumed, others, |_| true);
    }

    fn attach(&mut self, assumed: &str, others: &Self, wanted: fn(&Verdict) -> bool) {
        for verdict in self.0.iter_mut().filter(|verdict| wanted(verdict)) {
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
