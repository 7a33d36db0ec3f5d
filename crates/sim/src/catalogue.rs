//! Everything that is held against the thesis: its figures, and its tables.
//!
//! An [`Entry`] is a figure or a table. [`Entry::tasks`] are its independent runs; they may be run in any order and
//! in parallel, and what they find is put together in the order of the tasks.

use crate::figures::table::{self, Cell};
use crate::figures::{self, About, Effort, FigureError, Point, Row, Traced, endpoints};

/// A table with printed values.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its number.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// How far an entry may be from the printed one, as a part of it, unless it is within 2 µs.
    pub tolerance: f64,
    run: fn() -> Result<Vec<Cell>, FigureError>,
    trace: fn() -> Result<Traced, FigureError>,
}

impl Table {
    /// Whether a cell is as near to the printed value as it has to be.
    pub fn agrees(&self, cell: &Cell) -> bool {
        cell.agrees_within(self.tolerance)
    }
}

/// The tables, in order.
pub const TABLES: &[Table] = &[
    Table {
        number: "3.1",
        title: "Round trips of MU-Net",
        tolerance: 0.1,
        run: endpoints::table_3_1,
        trace: endpoints::trace_3_1,
    },
    Table {
        number: "3.2",
        title: "Anatomy of a message in MU-Net",
        tolerance: endpoints::ANATOMY_TOLERANCE,
        run: endpoints::table_3_2,
        trace: endpoints::trace_3_2,
    },
    Table {
        number: "5.1",
        title: "A message's stages in SVIA, PVIA and QoSVIA",
        tolerance: 0.1,
        run: table::table_5_1,
        trace: table::trace_5_1,
    },
    Table {
        number: "5.2",
        title: "Average time of a message in ping-bulk",
        tolerance: 0.1,
        run: table::table_5_2,
        trace: table::trace_5_2,
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

/// Something that is run for an entry, independent of everything else.
#[derive(Clone, Debug)]
pub enum Task {
    /// A point of a figure.
    Point(Point),
    /// A whole table.
    Table(&'static Table),
}

/// What a task has found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
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
    /// Its number.
    pub fn number(&self) -> &'static str {
        match self {
            Self::Figure(about) => about.number,
            Self::Table(table) => table.number,
        }
    }

    /// What it shows.
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

    fn chapter(&self) -> u32 {
        let chapter = self.number().split('.').next();
        chapter.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// What is run for it.
    pub fn tasks(&self, effort: Effort) -> Result<Vec<Task>, FigureError> {
        match self {
            Self::Figure(about) => {
                let points = figures::points(about.number, effort)?;
                Ok(points.into_iter().map(Task::Point).collect())
            }
            Self::Table(table) => Ok(vec![Task::Table(table)]),
        }
    }
}

impl Task {
    /// Runs it.
    pub fn run(&self) -> Result<Found, FigureError> {
        match self {
            Self::Point(point) => point.run().map(Found::Rows),
            Self::Table(table) => (table.run)().map(Found::Cells),
        }
    }

    /// Runs it once more, or one of a table's runs, and keeps what a timeline needs.
    pub fn traced(&self) -> Result<Traced, FigureError> {
        match self {
            Self::Point(point) => point.traced(),
            Self::Table(table) => (table.trace)(),
        }
    }

    /// Everything that decides what it finds, besides the code, in words that differ if and only if the runs do.
    pub fn parameters(&self) -> String {
        match self {
            Self::Point(point) => format!("{point:?}"),
            Self::Table(table) => format!("table {}", table.number),
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
