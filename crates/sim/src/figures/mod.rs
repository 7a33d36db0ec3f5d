//! The thesis's figures and tables of chapters 2 to 6: the runs for each, and the claims of its
//! text.
//!
//! A figure is a list of independent [`Point`]s, which may be run in any order and in parallel;
//! each yields rows. When all rows are complete, [`judge`] checks them against every ordering,
//! crossing, knee and saturation that the text states. Tables have printed values, which [`table`]
//! sets beside the simulated ones.
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

mod common;
pub mod coscheduling;
pub mod endpoints;
pub mod open;
pub mod quality;
pub mod scaling;
pub mod substrates;
pub mod table;

use common::Rows;
pub use common::{About, Alternative, Effort, FigureError, Row, Traced, Verdict, is_alternative};

/// One independent run of a figure.
#[derive(Clone, Debug)]
pub struct Point {
    /// The figure's number.
    pub figure: &'static str,
    /// The run.
    run: Run,
}

#[derive(Clone, Debug)]
enum Run {
    Scaling(Box<scaling::Curve>, usize, Effort),
    Quality(Box<quality::Setting>, Effort),
    Substrates(substrates::Setting),
    Coscheduling(coscheduling::Setting),
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
    let about = all().find(|about| about.number == number).ok_or_else(|| {
        let known: Vec<&str> = all().map(|about| about.number).collect();
        let known = known.join(", ");
        FigureError::Unknown(format!("there is no figure {number}; there are {known}"))
    })?;
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
    /// Runs it once more and records the data of a timeline, which takes memory with each message.
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

/// Checks the rows of a figure against the text's statements.
pub fn judge(number: &str, rows: &[Row]) -> Vec<Verdict> {
    let rows = Rows(rows);
    let mut verdicts = scaling::judge(number, rows);
    verdicts.extend(quality::judge(number, rows));
    verdicts.extend(substrates::judge(number, rows));
    verdicts.extend(coscheduling::judge_figure(number, rows));
    verdicts
}
