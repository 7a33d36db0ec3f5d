//! The programs that `MPI_Comm_spawn` starts (MPI 5.0 §11.8).

use crate::abi;
use crate::error::{Error, Result};
use crate::info::Info;

/// A program to start, several times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(crate) command: String,
    pub(crate) arguments: Vec<String>,
    /// The requested number of processes.
    pub(crate) most: u32,
    /// The number of processes to start: fewer where the hint `soft` does not allow the most.
    pub(crate) count: u32,
    /// Hints for the launcher.
    pub(crate) hints: Vec<(String, String)>,
}

/// Programs to start together.
#[derive(Debug, Clone)]
pub struct Spawn {
    pub(crate) programs: Vec<Program>,
}

fn refused(what: impl Into<String>) -> Error {
    Error::new(abi::ERR_SPAWN, what)
}

/// Text that the launchers' protocol can carry.
fn text(bytes: &[u8], what: &str) -> Result<String> {
    let text = std::str::from_utf8(bytes);
    let text = text.map_err(|_| refused(format!("{what} is not UTF-8")))?;
    match text.contains('\n') {
        true => Err(refused(format!("{what} has a line end: {text:?}"))),
        false => Ok(text.to_owned()),
    }
}

impl Program {
    /// A program with its arguments. Of the hints, `soft` lists acceptable numbers of processes; `host`, `wdir` and `path` are passed to launchers;
    /// others are ignored.
    pub fn new(command: &[u8], arguments: &[&[u8]], most: i32, info: &Info) -> Result<Self> {
        let count = u32::try_from(most).ok().filter(|most| *most > 0);
        let most = count.ok_or_else(|| {
            let text = format!("maxprocs is {most}");
            Error::new(abi::ERR_ARG, text)
        })?;
        if command.is_empty() {
            return Err(refused("the command is empty"));
        }
        let arguments = arguments.iter();
        let arguments = arguments.map(|argument| text(argument, "an argument"));
        let mut hints = Vec::new();
        for key in ["host", "wdir", "path"] {
            if let Some(value) = info.get(key.as_bytes())? {
                hints.push((key.to_owned(), text(value, key)?));
            }
        }
        let count = match info.get(b"soft")? {
            Some(soft) => most_allowed(&text(soft, "soft")?, most)?,
            None => most,
        };
        Ok(Self {
            command: text(command, "the command")?,
            arguments: arguments.collect::<Result<_>>()?,
            most,
            count,
            hints,
        })
    }
}

/// The largest number up to `most` that is in a list such as `1,2:8:2`: numbers, ranges, ranges with steps (§11.8.4).
fn most_allowed(soft: &str, most: u32) -> Result<u32> {
    let wrong = || {
        let text = format!("soft is {soft:?}, and no list of numbers and ranges");
        Error::new(abi::ERR_INFO_VALUE, text)
    };
    let mut best = None;
    for range in soft.split(',') {
        let words = range.split(':').map(|word| word.trim().parse::<i64>());
        let words = words.collect::<std::result::Result<Vec<_>, _>>();
        let (first, last, step) = match words.map_err(|_| wrong())?[..] {
            [only] => (only, only, 1),
            [first, last] => (first, last, 1),
            [first, last, step] if step != 0 => (first, last, step),
            _ => return Err(wrong()),
        };
        // The largest of first, first + step, … up to last that is not above the most.
        let most = i64::from(most);
        let largest = if step > 0 {
            let last = last.min(most);
            (last >= first).then(|| first + (last - first) / step * step)
        } else {
            let over = (first - most).max(0);
            let down = -step;
            let found = first - (over + down - 1) / down * down;
            (found >= last && first >= last).then_some(found)
        };
        best = best.max(largest.filter(|found| *found >= 0));
    }
    match best {
        Some(0) | None => {
            let text = format!("soft is {soft:?}, which allows no number up to {most}");
            Err(refused(text))
        }
        Some(best) => u32::try_from(best).map_err(|_| wrong()),
    }
}

impl Spawn {
    /// These programs.
    pub fn new(programs: Vec<Program>) -> Result<Self> {
        match programs.is_empty() {
            true => Err(Error::new(abi::ERR_ARG, "count is 0")),
            false => Ok(Self { programs }),
        }
    }

    /// The requested number of processes.
    pub(crate) fn most(&self) -> usize {
        let most = self.programs.iter().map(|program| program.most as usize);
        most.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_numbers_are_the_largest_that_are_allowed() {
        for (soft, most, expected) in [
            ("4", 8, 4),
            ("1:100", 8, 8),
            ("2:10000:2", 7, 6),
            ("1,3,5", 4, 3),
            ("9:1:-2", 6, 5),
            ("9:1:-2", 20, 9),
            ("0,2", 3, 2),
        ] {
            let found = most_allowed(soft, most).expect("it is allowed");
            assert_eq!(found, expected, "{soft}, {most}");
        }
        for (soft, most) in [("5", 4), ("0", 4), ("4:1", 8)] {
            let error = most_allowed(soft, most).expect_err("nothing is allowed");
            assert_eq!(error.code(), abi::ERR_SPAWN, "{soft}");
        }
        for soft in ["", "a", "1:2:0", "1:2:3:4"] {
            let error = most_allowed(soft, 4).expect_err("it is no list");
            assert_eq!(error.code(), abi::ERR_INFO_VALUE, "{soft}");
        }
    }

    #[test]
    fn text_that_a_launcher_protocol_cannot_carry_is_refused() {
        let none = Info::default();
        let argument: &[u8] = b"a\nb";
        for (command, arguments, most, class) in [
            (&b"a"[..], &[argument][..], 1, abi::ERR_SPAWN),
            (b"", &[], 1, abi::ERR_SPAWN),
            (b"\xff", &[], 1, abi::ERR_SPAWN),
            (b"a", &[], 0, abi::ERR_ARG),
            (b"a", &[], -1, abi::ERR_ARG),
        ] {
            let error = Program::new(command, arguments, most, &none).expect_err("it is refused");
            assert_eq!(error.code(), class);
        }
    }
}
