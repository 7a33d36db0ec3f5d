//! Everything that is compared with the thesis: its figures, and its tables.
//!
//! An [`Entry`] is a figure or a table. [`Entry::tasks`] are its independent runs; they may be run
//! in any order and in parallel, and their results are combined in the order of the tasks.

use crate::figures::table::{self, Cell};
use crate::figures::{
    self, About, Effort, FigureError, Point, Row, Traced, Verdict, coscheduling, endpoints,
};

/// A table with printed values.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The table's number.
    pub number: &'static str,
    /// The table's title.
    pub title: &'static str,
    /// How far an entry may be from the printed value, as a part of that, unless it is within the unit's slack.
    pub tolerance: f64,
    /// The unit of its values.
    pub unit: Unit,
    /// The number of independent runs.
    runs: usize,
    run: fn(usize, Effort) -> Result<Vec<Cell>, FigureError>,
    /// A run with a timeline, where there is one.
    trace: Option<fn() -> Result<Traced, FigureError>>,
    judge: fn(&[Cell]) -> Vec<Verdict>,
}

/// The unit of a table's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// The unit's symbol.
    pub name: &'static str,
    /// The metric's name in rows of values.
    pub metric: &'static str,
    /// How far an entry may always be from the printed value.
    pub slack: f64,
}

const MICROSECONDS: Unit = Unit {
    name: "µs",
    metric: "latency_us",
    slack: 2.0,
};
const SECONDS: Unit = Unit {
    name: "s",
    metric: "seconds",
    slack: 0.0,
};

impl Table {
    /// Whether a cell is as close to the printed value as required.
    pub fn agrees(&self, cell: &Cell) -> bool {
        cell.agrees_within(self.tolerance, self.unit.slack)
    }

    /// How many times longer than alone jobs take whose time, in the table's unit, is this; `None` of tables without jobs.
    pub fn slowdown(&self, time: f64) -> Option<f64> {
        (self.unit == SECONDS).then_some(time / coscheduling::ALONE_S)
    }

    /// Verdicts on the text's statements, besides the printed values.
    pub fn judge(&self, cells: &[Cell]) -> Vec<Verdict> {
        (self.judge)(cells)
    }
}

/// The tables, in order.
pub const TABLES: &[Table] = &[
    Table {
        number: "3.1",
        title: "Round trips of MU-Net",
        tolerance: 0.1,
        unit: MICROSECONDS,
        runs: 1,
        run: |_, _| endpoints::table_3_1(),
        trace: Some(endpoints::trace_3_1),
        judge: |_| Vec::new(),
    },
    Table {
        number: "3.2",
        title: "Anatomy of a message in MU-Net",
        tolerance: 0.1,
        unit: MICROSECONDS,
        runs: 1,
        run: |_, _| endpoints::table_3_2(),
        trace: Some(endpoints::trace_3_2),
        judge: |_| Vec::new(),
    },
    Table {
        number: "5.1",
        title: "A message's stages in SVIA, PVIA and QoSVIA",
        tolerance: 0.1,
        unit: MICROSECONDS,
        runs: 1,
        run: |_, _| table::table_5_1(),
        trace: Some(table::trace_5_1),
        judge: |_| Vec::new(),
    },
    Table {
        number: "5.2",
        title: "Average time of a message in ping-bulk",
        tolerance: 0.1,
        unit: MICROSECONDS,
        runs: 1,
        run: |_, _| table::table_5_2(),
        trace: Some(table::trace_5_2),
        judge: |_| Vec::new(),
    },
    Table {
        number: "6.4",
        title: "Completion times of workloads 1 to 5",
        tolerance: 0.15,
        unit: SECONDS,
        runs: coscheduling::RUNS_6_4,
        run: coscheduling::table_6_4,
        trace: None,
        judge: coscheduling::judge_6_4,
    },
    Table {
        number: "6.5",
        title: "Completion times of workloads 6 to 9",
        tolerance: 0.15,
        unit: SECONDS,
        runs: coscheduling::RUNS_6_5,
        run: coscheduling::table_6_5,
        trace: None,
        judge: coscheduling::judge_6_5,
    },
    Table {
        number: "6.6",
        title: "Completion times of workloads 10 to 12",
        tolerance: 0.15,
        unit: SECONDS,
        runs: coscheduling::RUNS_6_6,
        run: coscheduling::table_6_6,
        trace: None,
        judge: coscheduling::judge_6_6,
    },
    Table {
        number: "6.7",
        title: "Individual completion times of workloads 3 and 5",
        tolerance: 0.15,
        unit: SECONDS,
        runs: coscheduling::RUNS_6_7,
        run: coscheduling::table_6_7,
        trace: None,
        judge: coscheduling::judge_6_7,
    },
];

/// A figure or a table.
#[derive(Clone, Copy, Debug)]
pub enum Entry {
    /// A figure.
    Figure(About),
    /// A table.
    Table(&'static Table),
}

/// An independent run for an entry.
#[derive(Clone, Debug)]
pub enum Task {
    /// A point of a figure.
    Point(Point),
    /// One of a table's runs.
    Table(&'static Table, usize, Effort),
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskResult {
    /// Rows of a figure.
    Rows(Vec<Row>),
    /// Cells of a table.
    Cells(Vec<Cell>),
}

/// All figures and tables, in the order of the chapters; tables before the figures of their chapter.
pub fn all() -> Vec<Entry> {
    let mut entries: Vec<Entry> = TABLES.iter().map(Entry::Table).collect();
    entries.extend(figures::all().map(Entry::Figure));
    entries.sort_by_key(Entry::chapter);
    entries
}

/// The table of a number.
pub fn table(number: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.number == number)
}

/// The figure of a number.
pub fn figure(number: &str) -> Option<About> {
    figures::all().find(|about| about.number == number)
}

impl Entry {
    /// The entry's number.
    pub fn number(&self) -> &'static str {
        match self {
            Self::Figure(about) => about.number,
            Self::Table(table) => table.number,
        }
    }

    /// The entry's title.
    pub fn title(&self) -> &'static str {
        match self {
            Self::Figure(about) => about.title,
            Self::Table(table) => table.title,
        }
    }

    /// `figure` or `table`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Figure(_) => "figure",
            Self::Table(_) => "table",
        }
    }

    /// The chapter of the thesis that it is in.
    pub fn chapter(&self) -> u32 {
        let chapter = self.number().split('.').next();
        chapter.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The runs of the entry.
    pub fn tasks(&self, effort: Effort) -> Result<Vec<Task>, FigureError> {
        match self {
            Self::Figure(about) => {
                let points = figures::points(about.number, effort)?;
                Ok(points.into_iter().map(Task::Point).collect())
            }
            Self::Table(table) => Ok((0..table.runs)
                .map(|run| Task::Table(table, run, effort))
                .collect()),
        }
    }
}

impl Task {
    /// Carries out the run.
    pub fn run(&self) -> Result<TaskResult, FigureError> {
        match self {
            Self::Point(point) => point.run().map(TaskResult::Rows),
            Self::Table(table, run, effort) => (table.run)(*run, *effort).map(TaskResult::Cells),
        }
    }

    /// Carries out the run once more, with a timeline.
    pub fn traced(&self) -> Result<Traced, FigureError> {
        match self {
            Self::Point(point) => point.traced(),
            Self::Table(table, ..) => match table.trace {
                Some(trace) => trace(),
                None => Err(FigureError::NoTimeline(table.number)),
            },
        }
    }

    /// All parameters that determine the result, besides the code, as text that differs if and only
    /// if the runs do.
    pub fn parameters(&self) -> String {
        match self {
            Self::Point(point) => format!("{point:?}"),
            Self::Table(table, run, effort) if table.runs > 1 => {
                format!("table {}, run {run}, {effort:?}", table.number)
            }
            Self::Table(table, ..) => format!("table {}", table.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_unique_and_all_can_be_found() {
        let entries = all();
        let mut seen = BTreeSet::new();
        for entry in &entries {
            assert!(seen.insert((entry.kind(), entry.number())), "{entry:?}");
            assert!(!entry.tasks(Effort::Quick).expect("it is known").is_empty());
            match entry {
                Entry::Figure(_) => assert!(figure(entry.number()).is_some()),
                Entry::Table(_) => assert!(table(entry.number()).is_some()),
            }
        }
        assert!(entries.is_sorted_by_key(Entry::chapter));
    }

    #[test]
    fn tasks_are_told_apart_by_their_parameters() {
        for entry in all() {
            let tasks = entry.tasks(Effort::Full).expect("it is known");
            let told: BTreeSet<String> = tasks.iter().map(Task::parameters).collect();
            assert_eq!(told.len(), tasks.len(), "{entry:?}");
        }
    }
}
