//! The parts of all figures: rows, statements of the text about them, and verdicts.

use crate::coscheduling::DidNotEnd;
use crate::node::Record;
use crate::profile::FileError;
use crate::substrates::SimError;
use crate::workloads::RunError;

/// How many points and rounds are run.
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
    /// The curve.
    pub series: String,
    /// The position on the horizontal axis.
    pub x: f64,
    /// The value, in the figure's unit.
    pub value: f64,
}

/// A statement of the text about a figure, and whether it holds here.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The statement.
    pub claim: String,
    /// Whether it holds.
    pub holds: bool,
    /// The values that decided.
    pub evidence: String,
    /// The verdicts under other assumptions about what the text leaves open.
    pub alternatives: Vec<Alternative>,
}

/// A verdict under another assumption.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// The assumption: "posting takes 14 µs".
    pub assumed: String,
    /// Whether the claim then holds.
    pub holds: bool,
    /// The values that decided.
    pub evidence: String,
}

impl Verdict {
    /// The evidence, with that of other assumptions.
    pub fn full_evidence(&self) -> String {
        let mut told = self.evidence.clone();
        for Alternative {
            assumed,
            holds,
            evidence,
        } in &self.alternatives
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

/// Series of runs on other assumptions have names that begin with this word.
const IF: &str = "if ";

/// The beginning of the names of an assumption's series.
pub(super) fn prefix_of(assumed: &str) -> String {
    format!("{IF}{assumed}: ")
}

/// Whether a series belongs to another assumption than the figure's own: it decides no claim, but
/// shows how a failing claim depends on what the text leaves open.
pub fn is_alternative(series: &str) -> bool {
    series
        .strip_prefix("wait ")
        .unwrap_or(series)
        .starts_with(IF)
}

/// A run with the data of a timeline.
#[derive(Debug)]
pub struct Traced {
    /// The run's title.
    pub of: String,
    /// The events that were noted.
    pub record: Record,
}

/// A figure's number, title and axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Its number.
    pub number: &'static str,
    /// The title.
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
    /// A run of jobs that share processors did not end.
    #[error(transparent)]
    Jobs(#[from] DidNotEnd),
    /// There is no timeline of this figure or table.
    #[error("there are no timelines of {0}")]
    NoTimeline(&'static str),
}

/// Rows with access by series.
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

    /// The value of a series at x; NaN if there is none, so that no claim holds for it.
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
            alternatives: Vec::new(),
        });
    }

    /// Adds verdicts under another assumption to the claims that do not hold.
    pub(super) fn add_alternative(&mut self, assumed: &str, others: &Self) {
        self.attach(assumed, others, |verdict| !verdict.holds);
    }

    /// Adds verdicts under another assumption to all claims.
    pub(super) fn compared(&mut self, assumed: &str, others: &Self) {
        self.attach(assumed, others, |_| true);
    }

    fn attach(&mut self, assumed: &str, others: &Self, wanted: fn(&Verdict) -> bool) {
        for verdict in self.0.iter_mut().filter(|verdict| wanted(verdict)) {
            let other = others.0.iter().find(|other| other.claim == verdict.claim);
            if let Some(other) = other {
                verdict.alternatives.push(Alternative {
                    assumed: assumed.to_owned(),
                    holds: other.holds,
                    evidence: other.evidence.clone(),
                });
            }
        }
    }
}
