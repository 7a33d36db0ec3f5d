//! Tables of text.

use crate::style::{Style, paint};

/// A table of text, printed with columns as wide as they need to be.
#[derive(Debug, Clone)]
pub struct Table {
    head: Vec<String>,
    right: Vec<usize>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&text| text.to_owned()).collect(),
            right: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Columns of numbers.
    pub fn align_right(&mut self, columns: &[usize]) {
        self.right = columns.to_vec();
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The heads of the columns.
    pub fn head(&self) -> &[String] {
        &self.head
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Whether a column holds numbers.
    pub fn is_right(&self, column: usize) -> bool {
        self.right.contains(&column)
    }

    /// The table as lines, without an end of line after the last.
    pub fn text(&self) -> String {
        let rows = std::iter::once(&self.head).chain(&self.rows);
        let mut lines = line_up(rows, &self.right, &[]);
        if let Some(head) = lines.first_mut() {
            *head = paint(head, Style::Bold);
        }
        lines.join("\n")
    }
}

/// Rows of cells as lines: each column as wide as it needs to be, and at least as wide as `least`
/// requires for some; the columns in `right` hold numbers.
pub fn line_up<'a>(
    rows: impl IntoIterator<Item = &'a Vec<String>> + Clone,
    right: &[usize],
    least: &[usize],
) -> Vec<String> {
    let mut widths = least.to_vec();
    for row in rows.clone() {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, &width))| match right.contains(&column) {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_line_up() {
        let mut table = Table::new(&["name", "size"]);
        table.align_right(&[1]);
        table.row(vec!["a".to_owned(), "1".to_owned()]);
        table.row(vec!["bcdefg".to_owned(), "20000".to_owned()]);
        table.row(vec!["short".to_owned()]);
        assert_eq!(
            table.text(),
            "name     size\na           1\nbcdefg  20000\nshort"
        );
    }
}
