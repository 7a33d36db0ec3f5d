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

    /// The table as lines, without an end of line behind the last.
    pub fn text(&self) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|text| text.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: &[String]| -> String {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = cells.get(column).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
                if column > 0 {
                    line.push_str("  ");
                }
                if self.is_right(column) {
                    line.push_str(&padding);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&padding);
                }
            }
            line.trim_end().to_owned()
        };
        let mut lines = vec![paint(&line(&self.head), Style::Bold)];
        lines.extend(self.rows.iter().map(|row| line(row)));
        lines.join("\n")
    }
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
