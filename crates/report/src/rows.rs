//! Rows of measurements, for the terminal's table, the HTML report and the JSON.

use serde::{Deserialize, Serialize};

use crate::plots::Point;
use crate::table::Table;
use crate::units::figure_text;

/// One measured figure, as in every benchmark's JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The measurement, as a path: `latency/shm`, `create/many-dirs/4-clients`.
    pub case: String,
    /// `causeway`, `limit`, or a peer with its version.
    #[serde(rename = "who")]
    pub participant: String,
    /// Bytes of a message, file or transfer; 0 if there is none.
    pub size_bytes: u64,
    /// The metric: `latency_us`, `bandwidth_mb_s`, `rate_per_s`, `ratio`, `memory_mib`, `cpu_share`.
    pub metric: String,
    /// The median of the runs.
    pub median: f64,
    /// The smallest of the runs.
    pub min: f64,
    /// The largest of the runs.
    pub max: f64,
    /// The number of runs.
    pub runs: usize,
    /// How far apart the two processes' processors were, if that was measured: `near`, `far`,
    /// `mixed`, `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<String>,
}

impl Row {
    /// The figure at a place on a plot's horizontal axis, with the range of the runs.
    pub fn point_at(&self, x: f64) -> Point {
        Point {
            x,
            y: self.median,
            min: self.min,
            max: self.max,
        }
    }

    /// Makes a row from the values of several runs; `None` without any.
    pub fn new(
        case: impl Into<String>,
        participant: &str,
        size_bytes: u64,
        metric: &str,
        values: &[f64],
    ) -> Option<Self> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            case: case.into(),
            participant: participant.to_owned(),
            size_bytes,
            metric: metric.to_owned(),
            median: median(&sorted),
            min,
            max,
            runs: sorted.len(),
            distance: None,
        })
    }

    /// Returns the row with this distance between the processors.
    pub fn at(self, distance: impl Into<String>) -> Self {
        Self {
            distance: Some(distance.into()),
            ..self
        }
    }

    /// The median as a card for the top of a report: value, name, neither good nor bad.
    pub fn card(&self, label: &str) -> (String, String, Option<bool>) {
        (
            figure_text(&self.metric, self.median),
            label.to_owned(),
            None,
        )
    }
}

/// The median of sorted values; 0 without any.
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle).copied().unwrap_or(0.0);
    if sorted.len() % 2 == 1 || middle == 0 {
        return upper;
    }
    (sorted.get(middle - 1).copied().unwrap_or(upper) + upper) / 2.0
}

/// The rows as a table, with a column for the distance of the processors where it was measured.
pub fn rows_table(rows: &[Row]) -> Table {
    let mut head = vec!["case", "who", "size", "median", "min", "max", "runs"];
    let labelled = rows.iter().any(|row| row.distance.is_some());
    head.extend(labelled.then_some("distance"));
    let mut table = Table::new(&head);
    table.align_right(&[2, 3, 4, 5, 6]);
    for row in rows {
        let size = match row.size_bytes {
            0 => String::new(),
            size => crate::units::size_text(size),
        };
        let mut cells = vec![
            row.case.clone(),
            row.participant.clone(),
            size,
            figure_text(&row.metric, row.median),
            figure_text(&row.metric, row.min),
            figure_text(&row.metric, row.max),
            row.runs.to_string(),
        ];
        cells.extend(labelled.then(|| row.distance.clone().unwrap_or_default()));
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_median_and_extremes() {
        let row = Row::new("latency/shm", "causeway", 8, "latency_us", &[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((row.median, row.min, row.max, row.runs), (2.0, 1.0, 3.0, 3));
        let row = Row::new("x", "limit", 0, "ratio", &[4.0, 2.0]).unwrap();
        assert_eq!(row.median, 3.0);
        assert!(Row::new("x", "limit", 0, "ratio", &[]).is_none());
        assert!(Row::new("x", "limit", 0, "ratio", &[f64::NAN]).is_none());
    }

    #[test]
    fn rows_have_the_promised_fields() {
        let row = Row::new("a/b", "causeway", 8, "latency_us", &[1.0]).unwrap();
        let json = serde_json::to_value(&row).unwrap();
        for field in [
            "case",
            "who",
            "size_bytes",
            "metric",
            "median",
            "min",
            "max",
            "runs",
        ] {
            assert!(json.get(field).is_some(), "{field}");
        }
    }

    #[test]
    fn rows_say_at_which_distance_they_were_measured_if_that_is_known() {
        let row = Row::new("a/b", "causeway", 12_345, "latency_us", &[1.0]).unwrap();
        assert!(
            serde_json::to_value(&row)
                .unwrap()
                .get("distance")
                .is_none()
        );
        let cells = |rows: &[Row]| rows_table(rows).rows()[0].clone();
        assert_eq!(cells(std::slice::from_ref(&row)).len(), 7);
        let labelled = row.at("near");
        assert_eq!(serde_json::to_value(&labelled).unwrap()["distance"], "near");
        let cells = cells(&[labelled]);
        assert_eq!((cells[2].as_str(), cells[7].as_str()), ("12,345 B", "near"));
    }
}
