//! A drawing board: an SVG of a given size, scales from figures to positions, axes with units.

use std::fmt::Write;

use crate::page::escape;

/// Width of a character of the plots' text, roughly, to keep labels apart.
pub(crate) const CHARACTER: f64 = 7.0;

/// An SVG under construction.
pub(crate) struct Board {
    width: f64,
    height: f64,
    body: String,
}

/// Which side of its position a text is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Board {
    /// An empty board.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.put(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A rectangle, with a text that browsers show when pointed at.
    pub(crate) fn rectangle(
        &mut self,
        class: &str,
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        title: &str,
    ) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        let title = match title {
            "" => String::new(),
            title => format!("<title>{}</title>", escape(title)),
        };
        self.put(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\">{title}</rect>"
        ));
    }

    /// A dot, with a text that browsers show when pointed at.
    pub(crate) fn dot(&mut self, class: &str, x: f64, y: f64, title: &str) {
        self.put(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>",
            escape(title)
        ));
    }

    /// A line through points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = join(points);
        self.put(format_args!(
            "<polyline class=\"{class}\" points=\"{points}\"/>"
        ));
    }

    /// A filled shape.
    pub(crate) fn shape(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = join(points);
        self.put(format_args!(
            "<polygon class=\"{class}\" points=\"{points}\"/>"
        ));
    }

    /// A text.
    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        ));
    }

    /// The drawing.
    pub(crate) fn finish(self) -> String {
        format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\">\n{}</svg>",
            self.width, self.height, self.body
        )
    }
}

fn join(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    points.join(" ")
}

/// The rectangle in which figures are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Maps figures to positions along one axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// Equal differences are equal distances.
    pub(crate) fn linear(from: f64, to: f64, low: f64, high: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self {
            from,
            to,
            low,
            high,
            logarithmic: false,
        }
    }

    /// Equal ratios are equal distances.
    pub(crate) fn logarithmic(from: f64, to: f64, low: f64, high: f64) -> Self {
        let from = from.max(1e-12);
        let to = if to > from { to } else { from * 10.0 };
        Self {
            from,
            to,
            low,
            high,
            logarithmic: true,
        }
    }

    /// The position of a figure.
    pub(crate) fn place(&self, figure: f64) -> f64 {
        let share = if self.logarithmic {
            (figure.max(1e-12) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (figure - self.from) / (self.to - self.from)
        };
        self.low + share.clamp(0.0, 1.0) * (self.high - self.low)
    }

    /// Figures to mark on the axis, at most about `most` of them.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        if !self.logarithmic {
            return linear_ticks(self.from, self.to, most);
        }
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let decades = usize::try_from(last - first).unwrap_or(1).max(1);
        let step = decades.div_ceil(most.max(1)).max(1);
        // If the axis covers little more than a decade, there are marks inside it too.
        let factors: &[f64] = match decades {
            0..=2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        (first..=last)
            .step_by(step)
            .flat_map(|exponent| {
                factors
                    .iter()
                    .map(move |factor| factor * 10_f64.powi(exponent))
            })
            .filter(|tick| *tick >= self.from * 0.999 && *tick <= self.to * 1.001)
            .collect()
    }
}

fn linear_ticks(from: f64, to: f64, most: usize) -> Vec<f64> {
    let rough = (to - from) / most.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let mut ticks = Vec::new();
    let mut index = (from / step).ceil();
    while index * step <= to * 1.000_001 && ticks.len() < 50 {
        ticks.push(index * step);
        index += 1.0;
    }
    ticks
}

/// Draws a vertical axis with grid lines, its ticks named by `name`, and its title on top.
pub(crate) fn y_axis(
    board: &mut Board,
    area: Area,
    scale: &Scale,
    title: &str,
    name: impl Fn(f64) -> String,
) {
    // Decades need less space than their share of the axis.
    let most = if scale.logarithmic { 8 } else { 5 };
    for tick in scale.ticks(most) {
        let y = scale.place(tick);
        board.line("grid", area.left, y, area.right, y);
        board.text("soft", area.left - 6.0, y + 4.0, Anchor::End, &name(tick));
    }
    board.text("soft", 2.0, 13.0, Anchor::Start, title);
}

/// Draws a horizontal axis, its ticks named by `name`, and its title at its end.
pub(crate) fn x_axis(
    board: &mut Board,
    area: Area,
    scale: &Scale,
    ticks: &[f64],
    title: &str,
    name: impl Fn(f64) -> String,
) {
    board.line("axis", area.left, area.bottom, area.right, area.bottom);
    let mut free_from = f64::MIN;
    for &tick in ticks {
        let x = scale.place(tick);
        let text = name(tick);
        let half = text.chars().count() as f64 * CHARACTER / 2.0;
        board.line("axis", x, area.bottom, x, area.bottom + 4.0);
        // Labels at the ends stay on the board.
        let middle = x.clamp(half + 1.0, (board.width - half - 1.0).max(half + 1.0));
        if middle - half >= free_from {
            board.text("soft", middle, area.bottom + 17.0, Anchor::Middle, &text);
            free_from = middle + half + 8.0;
        }
    }
    board.text("soft", area.right, area.bottom + 34.0, Anchor::End, title);
}

/// The end of an axis that starts at 0: a little above the largest figure, on a round number.
pub(crate) fn round_up(largest: f64) -> f64 {
    if largest <= 0.0 || !largest.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(largest.log10().floor());
    let factors = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let wanted = largest * 1.02;
    factors
        .into_iter()
        .map(|factor| factor * power)
        .find(|end| *end >= wanted)
        .unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = Scale::linear(0.0, 9.3, 0.0, 100.0);
        assert_eq!(scale.ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0]);
        let scale = Scale::logarithmic(0.5, 2e6, 0.0, 100.0);
        let ticks = scale.ticks(4);
        assert!(
            ticks.len() <= 5 && ticks.iter().all(|tick| (0.5..=2e6).contains(tick)),
            "{ticks:?}"
        );
    }

    #[test]
    fn positions_stay_inside_the_plot_for_every_value() {
        for scale in [
            Scale::linear(0.0, 0.0, 10.0, 90.0),
            Scale::logarithmic(0.0, 0.0, 10.0, 90.0),
        ] {
            for figure in [f64::MIN, -1.0, 0.0, 1.0, f64::MAX] {
                let place = scale.place(figure);
                assert!((10.0..=90.0).contains(&place), "{place}");
            }
            assert!(scale.ticks(5).len() < 60);
        }
    }

    #[test]
    fn axes_end_at_round_figures() {
        assert_eq!(round_up(9.3), 10.0);
        assert_eq!(round_up(0.0), 1.0);
    }
}
