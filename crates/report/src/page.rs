//! The document: title, figures of merit, plots, tables.

use causeway_watch::{process, text};

use crate::machine::{COMMIT, Machine, VERSION};
use crate::table::Table;

/// Widths, in units of the drawing, at which a plot is drawn: the browser shows the one that fits.
const NARROW: f64 = 420.0;
const MIDDLE: f64 = 560.0;
const WIDE: f64 = 900.0;

/// Evidence longer than this, in characters, is folded away.
const FOLDED: usize = 160;

const STYLE: &str = include_str!("page.css");

/// A report under construction.
pub struct Page {
    title: String,
    head: String,
    figures: String,
    tables: String,
}

/// An entry of a plot's legend: colour number, dashed line, text.
#[derive(Debug, Clone)]
pub struct Key {
    /// Number of the colour.
    pub colour: usize,
    /// A dashed line, as limits have.
    pub dashed: bool,
    /// Its meaning.
    pub text: String,
}

impl Key {
    /// A solid entry.
    pub fn solid(colour: usize, text: impl Into<String>) -> Self {
        Self {
            colour,
            dashed: false,
            text: text.into(),
        }
    }
}

/// A claim about a plot or table, with its verdict.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The claim.
    pub claim: &'a str,
    /// Whether the claim holds.
    pub holds: bool,
    /// The figures that decided it.
    pub evidence: &'a str,
}

/// One of several drawings of a plot.
pub struct Panel<'a> {
    /// The drawing's heading, where there are several; may be empty.
    pub title: String,
    /// The meaning of the colours; empty for none.
    pub legend: Vec<Key>,
    /// Makes the drawing for a width.
    pub draw: Box<dyn Fn(f64) -> String + 'a>,
}

/// How much of the page a plot takes, if there is room for two side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Half of the width.
    Half,
    /// Half of the width, and as high as two others.
    Tall,
    /// The whole width.
    Wide,
}

/// A plot's heading, explanation and legend.
pub struct Figure<'a> {
    /// Its heading.
    pub title: &'a str,
    /// How to read it.
    pub caption: &'a str,
    /// How much of the page it takes.
    pub extent: Extent,
    /// The meaning of the colours; empty for none.
    pub legend: Vec<Key>,
}

impl Page {
    /// An empty page.
    pub fn new(title: &str, summary: &str) -> Self {
        Self {
            title: title.to_owned(),
            head: format!(
                "<h1>{}</h1>\n<p class=\"lead\">{}</p>\n",
                escape(title),
                escape(summary)
            ),
            figures: String::new(),
            tables: String::new(),
        }
    }

    /// Adds the most important figures: value, name, whether it is good (or neither).
    pub fn cards(&mut self, cards: &[(String, String, Option<bool>)]) {
        self.head.push_str("<div class=\"cards\">\n");
        for (value, label, good) in cards {
            let class = match good {
                Some(true) => "card good",
                Some(false) => "card bad",
                None => "card",
            };
            self.head.push_str(&format!(
                "<div class=\"{class}\"><b>{}</b><span>{}</span></div>\n",
                escape(value),
                escape(label)
            ));
        }
        self.head.push_str("</div>\n");
    }

    /// Adds a plot. `draw` makes the drawing for a width.
    pub fn figure(&mut self, figure: &Figure<'_>, draw: impl Fn(f64) -> String) {
        let class = match figure.extent {
            Extent::Half => "half",
            Extent::Tall => "tall",
            Extent::Wide => "wide",
        };
        let mut out = format!(
            "<figure class=\"{class}\">\n<h2>{}</h2>\n",
            escape(figure.title)
        );
        out.push_str(&legend_html(&figure.legend));
        let large = if figure.extent == Extent::Wide {
            WIDE
        } else {
            MIDDLE
        };
        out.push_str(&drawings_html(&draw, large));
        out.push_str(&format!(
            "<figcaption>{}</figcaption>\n</figure>\n",
            escape(figure.caption)
        ));
        self.figures.push_str(&out);
    }

    /// Adds a plot with its claims beside it.
    pub fn judged_figure(&mut self, title: &str, claims: &[Claim<'_>], panels: &[Panel<'_>]) {
        let mut out = format!(
            "<figure class=\"wide judged\">\n<h2>{}</h2>\n<div class=\"plots\">\n",
            escape(title)
        );
        for panel in panels {
            if !panel.title.is_empty() {
                out.push_str(&format!(
                    "<p class=\"caption\">{}</p>\n",
                    escape(&panel.title)
                ));
            }
            out.push_str(&legend_html(&panel.legend));
            out.push_str(&drawings_html(&panel.draw, MIDDLE));
        }
        out.push_str("</div>\n");
        out.push_str(&claims_html(claims));
        out.push_str("</figure>\n");
        self.figures.push_str(&out);
    }

    /// Adds a table with its claims below it.
    pub fn judged_table(
        &mut self,
        title: &str,
        caption: &str,
        table: &Table,
        claims: &[Claim<'_>],
    ) {
        self.tables.push_str(&format!(
            "<section><h2>{}</h2>\n<p class=\"caption\">{}</p>\n{}{}</section>\n",
            escape(title),
            escape(caption),
            table_html(table),
            claims_html(claims)
        ));
    }

    /// Adds a table that is not folded away.
    pub fn table(&mut self, title: &str, caption: &str, table: &Table) {
        self.tables.push_str(&format!(
            "<section><h2>{}</h2>\n{}<p class=\"caption\">{}</p></section>\n",
            escape(title),
            table_html(table),
            escape(caption)
        ));
    }

    /// Adds lines of text that are shown verbatim, such as messages.
    pub fn lines(&mut self, title: &str, caption: &str, lines: &[String]) {
        let text: Vec<String> = lines.iter().map(|line| escape(line)).collect();
        self.tables.push_str(&format!(
            "<section><h2>{}</h2>\n<pre>{}</pre><p class=\"caption\">{}</p></section>\n",
            escape(title),
            text.join("\n"),
            escape(caption)
        ));
    }

    /// Adds a table of machine, program and commit.
    pub fn machine(&mut self, machine: &Machine, extra: &[(&str, String)]) {
        let mut table = Table::new(&["what", "value"]);
        let mut row = |name: &str, value: String| table.row(vec![name.to_owned(), value]);
        row(
            "processors",
            format!("{} × {}", machine.cores, machine.processor),
        );
        row("memory", crate::units::bytes_text(machine.memory_bytes));
        row(
            "system",
            format!("Linux {} {}", machine.kernel, machine.architecture),
        );
        row("load when it began", machine.load.clone());
        row("program", format!("causeway {VERSION}, commit {COMMIT}"));
        row(
            "made",
            format!("{} UTC", text::date_and_time(process::now_seconds())),
        );
        for (name, value) in extra {
            row(name, value.clone());
        }
        self.table("Where this was measured", "", &table);
    }

    /// The whole document.
    pub fn html(&self) -> String {
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}\
             <div class=\"figures\">\n{}</div>\n{}</main>\n</body>\n</html>\n",
            escape(&self.title),
            self.head,
            self.figures,
            self.tables
        )
    }
}

fn legend_html(legend: &[Key]) -> String {
    if legend.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"legend\">");
    for key in legend {
        let dashed = if key.dashed { " dashed" } else { "" };
        out.push_str(&format!(
            "<span><i class=\"k{}{dashed}\"></i>{}</span> ",
            key.colour,
            escape(&key.text)
        ));
    }
    out.push_str("</div>\n");
    out
}

/// The drawing for wide and for narrow screens.
fn drawings_html(draw: impl Fn(f64) -> String, large: f64) -> String {
    format!(
        "<div class=\"large\">{}</div>\n<div class=\"small\">{}</div>\n",
        draw(large),
        draw(NARROW)
    )
}

fn claims_html(claims: &[Claim<'_>]) -> String {
    let mut out = String::from("<ul class=\"claims\">\n");
    for one in claims {
        let (class, word) = match one.holds {
            true => ("yes", "holds"),
            false => ("no", "fails"),
        };
        let evidence = escape(one.evidence);
        let evidence = match one.evidence.chars().count() > FOLDED {
            true => {
                let open = if one.holds { "" } else { " open" };
                format!(
                    "<details{open}><summary>values</summary><small>{evidence}</small></details>"
                )
            }
            false => format!("<small>{evidence}</small>"),
        };
        out.push_str(&format!(
            "<li class=\"{class}\"><b>{word}</b> {}{evidence}</li>\n",
            escape(one.claim)
        ));
    }
    out.push_str("</ul>\n");
    out
}

fn table_html(table: &Table) -> String {
    let class = |column: usize| {
        if table.is_right(column) {
            " class=\"n\""
        } else {
            ""
        }
    };
    let mut out = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
    for (column, head) in table.head().iter().enumerate() {
        out.push_str(&format!("<th{}>{}</th>", class(column), escape(head)));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        out.push_str("<tr>");
        for column in 0..table.head().len() {
            let cell = row.get(column).map_or("", String::as_str);
            out.push_str(&format!("<td{}>{}</td>", class(column), escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

/// Text for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_measured_can_become_markup() {
        let mut page = Page::new("<script>", "a & b");
        let mut table = Table::new(&["x"]);
        table.row(vec!["<img src=x>".to_owned()]);
        page.table("t", "c", &table);
        page.lines("l", "", &["</pre>\x1b".to_owned()]);
        let html = page.html();
        assert!(!html.contains("<script") && !html.contains("<img") && !html.contains("\x1b"));
        assert!(html.contains("&lt;img src=x&gt;"));
    }

    #[test]
    fn a_page_needs_no_network() {
        let html = Page::new("t", "s").html();
        for outside in ["http://", "https://", "url(", "@import", "src="] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
