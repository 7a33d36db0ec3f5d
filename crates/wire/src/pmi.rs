//! The protocol between processes and their launcher, as spoken by MPICH's launcher Hydra: version
//! 1 of the process management interface (PMI). Each command is one line of text, `cmd=NAME` and
//! further pairs `key=value`, separated by blanks.
//!
//! A request to start processes contains arguments of programs, which may contain blanks: it has
//! one line for each pair, from `mcmd=NAME` to `endcmd`.
//!
//! Other values have no blanks. If a launcher writes some nevertheless, as in an error's text, the
//! value ends at the first, and the rest is ignored.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Malformed, unknown, utf8, within};

/// Most bytes of a line, with its end: twice what PMI-1 permits (`PMI_MAXLINE`), as key and value
/// may both have their largest size.
pub const MAX_LINE: usize = 4 << 10;
/// Most bytes of a key, as our own launcher announces it.
pub const MAX_KEY: usize = 64;
/// Most bytes of a value, likewise.
pub const MAX_VALUE: usize = 1024;
/// Most pairs in a line.
const MAX_PAIRS: usize = 32;
/// Most pairs in a command of several lines: arguments of one program, published values, hints.
pub const MAX_LINES: usize = 4 << 10;
/// Most bytes of such a command.
pub const MAX_BLOCK: usize = 1 << 20;
/// The last line of a command that has several.
const END: &[u8] = b"endcmd";

/// A command, in either direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    name: String,
    pairs: Vec<(String, String)>,
}

impl Command {
    /// A command without pairs.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            pairs: Vec::new(),
        }
    }

    /// The command with one pair more. Neither may have blanks, line ends or, the key, `=`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl core::fmt::Display) -> Self {
        self.pairs.push((key.into(), value.to_string()));
        self
    }

    /// The command's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(name, _)| name == key);
        pair.map(|(_, value)| value.as_str())
    }

    /// The value of a key, as a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// The line, with its end.
    pub fn encode(&self) -> String {
        let mut line = format!("cmd={}", self.name);
        for (key, value) in &self.pairs {
            line += &format!(" {key}={value}");
        }
        line + "\n"
    }

    /// Encodes a command of several lines, one for each pair. Values may have blanks, but no line ends.
    pub fn encode_lines(&self) -> String {
        let mut text = format!("mcmd={}\n", self.name);
        for (key, value) in &self.pairs {
            text += &format!("{key}={value}\n");
        }
        text + "endcmd\n"
    }

    /// Reads the lines of a command that has several, without the last one.
    fn decode_lines<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Self, Malformed> {
        let field = "a PMI command of several lines";
        let mut command = None;
        for line in lines {
            let text = utf8(line, field)?;
            let (key, value) = text.split_once('=').ok_or(Malformed::Truncated { field })?;
            match &mut command {
                None if key == "mcmd" => command = Some(Self::new(value)),
                None => return Err(Malformed::Truncated { field }),
                Some(command) => {
                    command.pairs.push((key.into(), value.into()));
                    within(command.pairs.len() as u64, MAX_LINES as u64, field)?;
                }
            }
        }
        command.ok_or(Malformed::Truncated { field })
    }

    /// Reads a line, without its end.
    pub fn decode(line: &[u8]) -> Result<Self, Malformed> {
        let field = "a PMI command";
        within(line.len() as u64, MAX_LINE as u64 - 1, field)?;
        let text = utf8(line, field)?;
        if let Some(control) = text.bytes().find(u8::is_ascii_control) {
            return unknown(field, control);
        }
        let mut words = text.split(' ').filter(|word| !word.is_empty());
        let first = words.next().ok_or(Malformed::Truncated { field })?;
        let name = first.strip_prefix("cmd=").filter(|name| !name.is_empty());
        let mut command = Self::new(name.ok_or(Malformed::Truncated { field })?);
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            command.pairs.push((key.into(), value.into()));
            let field = "the number of pairs of a PMI command";
            within(command.pairs.len() as u64, MAX_PAIRS as u64, field)?;
        }
        Ok(command)
    }
}

/// Received bytes that are not yet a whole line.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
}

impl Lines {
    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next command. An error is final: later input is not read.
    pub fn next_command(&mut self) -> Result<Option<Command>, Malformed> {
        if self.bytes.starts_with(b"mcmd=") {
            return self.next_block();
        }
        let end = self.bytes.iter().position(|byte| *byte == b'\n');
        match end {
            Some(end) => {
                let command = Command::decode(&self.bytes[..end]);
                self.bytes.drain(..=end);
                command.map(Some)
            }
            None => {
                let most = MAX_LINE as u64 - 1;
                within(self.bytes.len() as u64, most, "a PMI command")?;
                Ok(None)
            }
        }
    }
}

impl Lines {
    /// The next command, which has several lines.
    fn next_block(&mut self) -> Result<Option<Command>, Malformed> {
        let mut lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
        let mut len = 0;
        let is_whole = lines.any(|line| {
            len += line.len();
            line.strip_suffix(b"\n") == Some(END)
        });
        let field = "a PMI command of several lines";
        within(len as u64, MAX_BLOCK as u64, field)?;
        if !is_whole {
            return Ok(None);
        }
        let text = &self.bytes[..len - END.len() - 1];
        let lines = text.split(|byte| *byte == b'\n');
        // The piece behind the last line's end is empty.
        let lines = lines.filter(|line| !line.is_empty());
        let command = Command::decode_lines(lines)?;
        self.bytes.drain(..len);
        Ok(Some(command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_hydra_are_understood() {
        let line = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
        let command = Command::decode(line).expect("it is one");
        assert_eq!(command.name(), "response_to_init");
        assert_eq!(command.number("rc"), Some(0));
        assert_eq!(command.get("nothing"), None);
        assert_eq!(command.encode().trim_end().as_bytes(), line);
        let line = b"cmd=get_result rc=-1 msg=key not found  value=unknown";
        let command = Command::decode(line).expect("it is one");
        assert_eq!(command.get("msg"), Some("key"));
        assert_eq!(command.get("value"), Some("unknown"));
    }

    #[test]
    fn commands_of_several_lines_keep_blanks() {
        let spawn = Command::new("spawn")
            .with("execname", "./a b")
            .with("arg1", " = ");
        let text = spawn.encode_lines() + "cmd=barrier_in\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                lines.push(piece.as_bytes());
                while let Some(command) = lines.next_command().expect("well-formed") {
                    found.push(command);
                }
            }
            assert_eq!(found, [spawn.clone(), Command::new("barrier_in")]);
        }
        for nonsense in [&b"mcmd=a\nb\nendcmd\n"[..], b"mcmd=a\nb=\xff\nendcmd\n"] {
            let mut lines = Lines::default();
            lines.push(nonsense);
            assert!(lines.next_command().is_err(), "{nonsense:?}");
        }
        let mut endless = Lines::default();
        endless.push(b"mcmd=a\n");
        endless.push(&[b'x'; MAX_BLOCK]);
        assert!(endless.next_command().is_err());
    }

    #[test]
    fn invalid_lines_are_refused() {
        for line in [
            &b""[..],
            b"   ",
            b"cmd=",
            b"size=3",
            b"cmd=a\0",
            b"cmd=\xff",
        ] {
            assert!(Command::decode(line).is_err(), "{line:?}");
        }
        assert!(Command::decode(&[b'a'; MAX_LINE]).is_err());
        let mut many = Command::new("x");
        for _ in 0..=MAX_PAIRS {
            many = many.with("k", 1);
        }
        assert!(Command::decode(many.encode().trim_end().as_bytes()).is_err());
    }

    #[test]
    fn lines_come_in_any_pieces() {
        let text = b"cmd=barrier_in\ncmd=get key=a\n";
        for cut in 0..text.len() {
            let mut lines = Lines::default();
            let mut found = Vec::new();
            for piece in [&text[..cut], &text[cut..]] {
                lines.push(piece);
                while let Some(command) = lines.next_command().expect("well-formed") {
                    found.push(command.encode());
                }
            }
            assert_eq!(found.concat().as_bytes(), text);
        }
        let mut lines = Lines::default();
        lines.push(&[b'x'; MAX_LINE]);
        assert!(lines.next_command().is_err());
    }
}
