//! Failures as the command reports them: the operation, the reason, and the remedy.

use std::fmt;

/// The end of a command that did not succeed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The operation.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// The remedy, if one is known.
    pub hint: Option<String>,
    /// The process's exit code: 1 if the operation failed, 2 for wrong use.
    pub code: u8,
    /// Everything was reported already; only the exit code is left.
    pub silent: bool,
    /// A server is out of reach or full: other items would fail in the same way.
    pub fatal: bool,
    /// A server did not reply, or could not be reached.
    pub no_reply: bool,
    /// The file being read has been removed meanwhile: its name may lead to another file.
    pub gone: bool,
    /// The file or other item that the failure is about, where there are many.
    pub item: Option<String>,
}

/// The result of every subcommand.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failed operation.
    pub fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            what: what.into(),
            why: why.to_string(),
            hint: None,
            code: 1,
            silent: false,
            fatal: false,
            no_reply: false,
            gone: false,
            item: None,
        }
    }

    /// The command was used wrongly.
    pub fn usage(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            code: 2,
            ..Self::new(what, why)
        }
    }

    /// Ends with exit code 1 after everything was reported item by item.
    pub fn reported() -> Self {
        Self {
            silent: true,
            ..Self::new("", "")
        }
    }

    /// Adds which item of many failed.
    pub fn about(self, item: impl fmt::Display) -> Self {
        Self {
            what: format!("{item}: {}", self.what),
            item: self.item.or_else(|| Some(item.to_string())),
            ..self
        }
    }

    /// Records the item without adding it to the text, because the failure's own text names it
    /// already.
    pub fn of(self, item: impl Into<String>) -> Self {
        Self {
            item: self.item.or_else(|| Some(item.into())),
            ..self
        }
    }

    /// Adds the remedy.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// Adds the operation to errors of the standard library.
pub trait Doing<T> {
    /// Names the operation that failed.
    fn doing(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Failure::new(what(), error))
    }
}
