//! What the command says when something fails: what, why, and what to do about it.

use std::fmt;

/// The end of a command that did not succeed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// What was being done.
    pub(crate) what: String,
    /// Why it failed.
    pub(crate) why: String,
    /// What the user can do, where we know.
    pub(crate) hint: Option<String>,
    /// The process's exit code: 1 if the thing asked for failed, 2 for wrong use.
    pub(crate) code: u8,
    /// Everything has been said already; only the exit code is left.
    pub(crate) silent: bool,
    /// A server is out of reach or full: going on with other items would fail the same way.
    pub(crate) fatal: bool,
    /// The file that was read has been removed meanwhile: its name may lead to another one.
    pub(crate) gone: bool,
    /// The file or other item that it is about, where there are many.
    pub(crate) item: Option<String>,
}

/// What every verb answers.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The thing asked for failed.
    pub(crate) fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            what: what.into(),
            why: why.to_string(),
            hint: None,
            code: 1,
            silent: false,
            fatal: false,
            gone: false,
            item: None,
        }
    }

    /// The command was used wrongly.
    pub(crate) fn usage(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            code: 2,
            ..Self::new(what, why)
        }
    }

    /// Ends with exit code 1 after everything was reported item by item.
    pub(crate) fn reported() -> Self {
        Self {
            silent: true,
            ..Self::new("", "")
        }
    }

    /// Says which item of many it was.
    pub(crate) fn about(self, item: impl fmt::Display) -> Self {
        Self {
            what: format!("{item}: {}", self.what),
            item: self.item.or_else(|| Some(item.to_string())),
            ..self
        }
    }

    /// The same, where what was being done names the item already.
    pub(crate) fn of(self, item: impl Into<String>) -> Self {
        Self {
            item: self.item.or_else(|| Some(item.into())),
            ..self
        }
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
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

impl From<causeway_fs::Error> for Failure {
    fn from(error: causeway_fs::Error) -> Self {
        let hint = crate::fs::errors::hint(&error);
        // A server's words are shown like a name: they cannot drive a terminal either.
        let mut why = crate::output::harmless(&error.message);
        if why.is_empty() {
            why = crate::fs::errors::describe(error.errno);
        }
        if let Some(server) = &error.server {
            why.push_str(&format!(" (server {server})"));
        }
        Self {
            hint,
            fatal: crate::fs::errors::is_fatal(error.errno),
            item: Some(error.subject.clone()),
            ..Self::new(format!("{} {}", error.operation, error.subject), why)
        }
    }
}

/// Adds "what was being done" to errors of the standard library.
pub(crate) trait Doing<T> {
    /// Names what was being done when the error came.
    fn doing(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Failure::new(what(), error))
    }
}
