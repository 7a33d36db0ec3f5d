//! Writing to the terminal, a pipe or a script: colours only if they are enabled, bytes of names
//! unchanged on a pipe and escaped on a terminal, and a quiet end when the reader closes the pipe.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use causeway_report::style::{Style, paint_error};
use serde_json::Value;

use crate::failure::Failure;
use crate::shutdown;

/// Most failures of items that the object of `--json` lists.
const MAX_ERRORS: usize = 1000;

/// Failures of items so far.
static ITEM_ERRORS: Mutex<Vec<Value>> = Mutex::new(Vec::new());

fn item_errors() -> MutexGuard<'static, Vec<Value>> {
    ITEM_ERRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How this invocation presents itself.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Exactly one JSON object on standard output, nothing else.
    pub json: bool,
    /// Standard output is a terminal.
    pub terminal: bool,
    /// Progress may be drawn on standard error.
    pub progress: bool,
}

impl Output {
    /// Determines the presentation from the environment.
    pub fn new(json: bool) -> Self {
        Self {
            json,
            terminal: std::io::stdout().is_terminal(),
            progress: std::io::stderr().is_terminal() && !json,
        }
    }

    /// Prints a line for people; nothing under `--json`.
    pub fn line(&self, text: &str) {
        if !self.json {
            write_stdout(text.as_bytes(), b"\n");
        }
    }

    /// Prints the one object of `--json`; nothing otherwise. An object that counts `failures` also
    /// gets the `errors` that [`report_item`] has reported, the first thousand.
    pub fn object(&self, value: &serde_json::Value) {
        if !self.json {
            return;
        }
        let mut value = value.clone();
        if let Some(object) = value.as_object_mut().filter(|o| o.contains_key("failures")) {
            let errors = std::mem::take(&mut *item_errors());
            object.insert("errors".to_owned(), errors.into());
        }
        write_stdout(value.to_string().as_bytes(), b"\n");
    }

    /// Prints text around a name or path, shown as by [`Output::name`].
    pub fn named_line(&self, before: &str, name: &[u8], after: &str) {
        if self.json {
            return;
        }
        let mut line = before.as_bytes().to_vec();
        line.extend_from_slice(&self.name(name));
        line.extend_from_slice(after.as_bytes());
        write_stdout(&line, b"\n");
    }

    /// A name's bytes: escaped for a terminal, untouched for a pipe.
    pub fn name(&self, name: &[u8]) -> Vec<u8> {
        if self.terminal {
            printable(name).into_bytes()
        } else {
            name.to_vec()
        }
    }
}

/// Writes raw bytes to standard output.
pub fn write_stdout(bytes: &[u8], end: &[u8]) {
    let mut out = std::io::stdout().lock();
    let result = out
        .write_all(bytes)
        .and_then(|()| out.write_all(end))
        .and_then(|()| out.flush());
    drop(out);
    if let Err(error) = result {
        stdout_failed(&error);
    }
}

/// Ends the process when its output has no reader any more: quietly for a closed pipe.
fn stdout_failed(error: &std::io::Error) -> ! {
    if error.kind() != std::io::ErrorKind::BrokenPipe {
        eprint_line(&format!("causeway: writing the output: {error}"));
        shutdown::exit(1);
    }
    shutdown::exit(0)
}

fn eprint_line(text: &str) {
    // Standard error is gone, and there is nowhere else to report that.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a warning on standard error.
pub fn warn(text: &str) {
    let label = paint_error("causeway: warning:", Style::Yellow);
    eprint_line(&format!("{label} {text}"));
}

/// Prints a note (a line of plain progress) on standard error.
pub fn note(text: &str) {
    eprint_line(text);
}

/// Prints a failure on standard error, and under `--json` as the one object on standard output.
pub fn report_failure(failure: &Failure, json: bool) {
    print_failure(failure);
    if json && !failure.silent && !shutdown::is_ending() {
        report_object(&failure.what, &failure.why, failure.hint.as_deref());
    }
}

/// Prints a failure as the one object of `--json`.
pub fn report_object(what: &str, why: &str, hint: Option<&str>) {
    let object = serde_json::json!({ "error": { "what": what, "why": why, "hint": hint } });
    write_stdout(object.to_string().as_bytes(), b"\n");
}

/// Prints one item's failure on standard error and adds it to the object of `--json`. The command goes on.
pub fn report_item(failure: &Failure) {
    let mut errors = item_errors();
    if !failure.silent && errors.len() < MAX_ERRORS {
        errors.push(serde_json::json!({
            "item": failure.item, "what": failure.what, "why": failure.why, "hint": failure.hint }));
    }
    drop(errors);
    print_failure(failure);
}

fn print_failure(failure: &Failure) {
    if failure.silent || shutdown::is_ending() {
        return;
    }
    let label = paint_error("causeway:", Style::Red);
    eprint_line(&format!("{label} {failure}"));
}

/// A name's bytes as text: unprintable ones are escaped as `\xNN`, so that no name can drive a
/// terminal and all names stay distinct.
pub fn printable(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        text.push_str(&escaped(&chunk.valid().replace('\\', "\\\\")));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Text of another process: characters that control a terminal are escaped as `\xNN`.
pub fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if !causeway_watch::text::is_deceptive(c) {
            shown.push(c);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in c.encode_utf8(&mut bytes).bytes() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name for JSON: the text itself if it is UTF-8; the escaped text otherwise, with the exact
/// bytes beside it under `<key>_bytes`.
pub fn json_name(object: &mut serde_json::Map<String, serde_json::Value>, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => {
            object.insert(key.to_owned(), text.into());
        }
        Err(_) => {
            object.insert(key.to_owned(), printable(name).into());
            object.insert(format!("{key}_bytes"), name.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_drive_a_terminal_are_escaped() {
        assert_eq!(printable(b"plain \xc3\xa9"), "plain \u{e9}");
        assert_eq!(printable(b"a\x1b[31m"), "a\\x1b[31m");
        assert_eq!(printable(b"\xff\\"), "\\xff\\\\");
        assert_eq!(printable("\u{9b}".as_bytes()), "\\xc2\\x9b");
        assert_eq!(printable("\u{202e}".as_bytes()), "\\xe2\\x80\\xae");
    }

    #[test]
    fn names_in_json_keep_their_bytes() {
        let mut object = serde_json::Map::new();
        json_name(&mut object, "name", b"ok");
        json_name(&mut object, "odd", b"\xff");
        assert_eq!(object["name"], "ok");
        assert!(!object.contains_key("name_bytes"));
        assert_eq!(object["odd"], "\\xff");
        assert_eq!(object["odd_bytes"], serde_json::json!([255]));
    }
}
