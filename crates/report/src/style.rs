//! Text with colours, if a terminal supports them.

use std::io::IsTerminal;
use std::sync::OnceLock;

/// A colour or weight of text.
#[derive(Debug, Clone, Copy)]
pub enum Style {
    /// Heavy.
    Bold,
    /// Red.
    Red,
    /// Green.
    Green,
    /// Yellow.
    Yellow,
    /// Blue.
    Blue,
}

fn wants_colour(terminal: bool) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn stdout_colour() -> bool {
    static COLOUR: OnceLock<bool> = OnceLock::new();
    *COLOUR.get_or_init(|| wants_colour(std::io::stdout().is_terminal()))
}

fn stderr_colour() -> bool {
    static COLOUR: OnceLock<bool> = OnceLock::new();
    *COLOUR.get_or_init(|| wants_colour(std::io::stderr().is_terminal()))
}

fn styled(text: &str, style: Style, colour: bool) -> String {
    if !colour {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => "1",
        Style::Red => "31",
        Style::Green => "32",
        Style::Yellow => "33",
        Style::Blue => "34",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// `text` for standard output, styled if that is a terminal with colours.
pub fn paint(text: &str, style: Style) -> String {
    styled(text, style, stdout_colour())
}

/// `text` for standard error, styled if that is a terminal with colours.
pub fn paint_error(text: &str, style: Style) -> String {
    styled(text, style, stderr_colour())
}
